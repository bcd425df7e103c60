//! The scanner: a table of states, one step for each byte that is not skipped.

use crate::event::{CAPTURE, Event, Span, Token};
use crate::stack::Stack;
use crate::utf8::Utf8;

/// The most containers that may be open at once. One more is a [`SyntaxError`].
pub const MAX_DEPTH: usize = 1 << 20;

/// Bytes looked at in one go: small enough that the second look finds them in the processor's cache.
const PIECE: usize = 32 * 1024;

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}")]
pub struct SyntaxError {
    /// Offset of the first byte that cannot be right, or the length of the text if it ends too early.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
}

/// Checks that `text` is one JSON value, white space around it allowed.
///
/// # Errors
/// The first fault.
pub fn check(text: &[u8]) -> Result<(), SyntaxError> {
    let mut scanner = Scanner::new();
    scanner.feed(text, &mut |_| {})?;
    scanner.finish(&mut |_| {})
}

/// Scans one JSON value that arrives in pieces. See the [crate] page.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    /// The string that is being read is a key.
    in_key: bool,
    stack: Stack,
    utf8: Utf8,
    /// Offset of the first byte of the piece that is being read.
    base: u64,
    /// Offset of the first byte of the token that is being read.
    token: u64,
    /// The bytes of that token that lay in earlier pieces, at most `CAPTURE`.
    held: Vec<u8>,
    failed: Option<SyntaxError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value must come.
    Value,
    /// After `[`: a value or `]`.
    FirstValue,
    /// After `{`: a key or `}`.
    FirstKey,
    /// After a comma in an object: a key.
    Key,
    Colon,
    /// After a value inside a container: a comma or the end of the container.
    Next,
    /// The value is complete; only white space may come.
    Done,
    Text,
    Escape,
    /// Inside `\uXXXX`, with so many digits to come.
    Hex(u8),
    Number(Digits),
    /// Inside `true`, `false` or `null`: what is still to come.
    Literal(&'static [u8]),
}

/// How far a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    /// After `-`.
    Minus,
    /// After a leading zero.
    Zero,
    Whole,
    /// After the point: a digit must come.
    Point,
    Fraction,
    /// After `e`: a sign or a digit must come.
    E,
    /// After the sign of the exponent: a digit must come.
    Sign,
    Exponent,
}

type Step = Result<usize, SyntaxError>;

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner::new()
    }
}

impl Scanner {
    /// A scanner that waits for the first byte of a value.
    #[must_use]
    pub fn new() -> Scanner {
        Scanner {
            state: State::Value,
            in_key: false,
            stack: Stack::default(),
            utf8: Utf8::default(),
            base: 0,
            token: 0,
            held: Vec::new(),
            failed: None,
        }
    }

    /// Number of containers that are open after what was fed so far.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.stack.depth()
    }

    /// Number of bytes fed so far; after an error, up to the piece with the fault.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base
    }

    /// True once the value is complete. A number that is the whole text is complete only after [`finish`](Self::finish).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.state == State::Done && self.failed.is_none()
    }

    /// Scans the next bytes, in pieces of any size, and reports each token that ends in them.
    ///
    /// # Errors
    /// The first fault. From then on every call answers with the same error and reports nothing.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), SyntaxError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        for piece in chunk.chunks(PIECE) {
            if let Err(error) = self.feed_piece(piece, sink) {
                self.failed = Some(error);
                return Err(error);
            }
            self.base += piece.len() as u64;
        }
        Ok(())
    }

    /// Ends the text.
    ///
    /// # Errors
    /// If the value is not complete, or a fault was found before.
    pub fn finish(&mut self, sink: &mut impl FnMut(Event<'_>)) -> Result<(), SyntaxError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let State::Number(digits) = self.state
            && digits.may_end()
        {
            self.end_number(&[], 0, sink);
        }
        if self.state == State::Done {
            return Ok(());
        }
        let error = SyntaxError { offset: self.base, what: "unexpected end of the text" };
        self.failed = Some(error);
        Err(error)
    }

    fn feed_piece(&mut self, piece: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), SyntaxError> {
        // A fault before the bad character is the first one, so what is good is scanned before the character is complained of.
        let checked = self.utf8.check(piece);
        let good = checked.as_ref().map_or_else(|broken| broken.good, |()| piece.len());
        self.scan(piece.get(..good).unwrap_or_default(), sink)?;
        match checked {
            Ok(()) => Ok(()),
            Err(broken) => {
                let offset = (self.base + good as u64).saturating_sub(broken.before as u64);
                Err(SyntaxError { offset, what: "invalid UTF-8" })
            }
        }
    }

    fn scan(&mut self, piece: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), SyntaxError> {
        let mut at = 0;
        while at < piece.len() {
            at = match self.state {
                State::Text => self.text(piece, at, sink)?,
                State::Escape => self.escape(piece, at)?,
                State::Hex(left) => self.hex(piece, at, left)?,
                State::Number(digits) => self.number(piece, at, digits, sink)?,
                State::Literal(rest) => self.literal(piece, at, rest, sink)?,
                _ => self.structure(piece, at, sink)?,
            };
        }
        self.hold(piece);
        Ok(())
    }

    /// Everything between the tokens, and their first bytes.
    #[inline]
    fn structure(&mut self, piece: &[u8], at: usize, sink: &mut impl FnMut(Event<'_>)) -> Step {
        let Some(&byte) = piece.get(at) else { return Ok(at) };
        if byte <= b' ' && matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            let rest = piece.get(at..).unwrap_or_default();
            let blank = rest.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
            return Ok(at + blank.unwrap_or(rest.len()));
        }
        match self.state {
            State::FirstValue if byte == b']' => Ok(self.close(at, sink)),
            State::Value | State::FirstValue => self.begin_value(piece, at, byte, sink),
            State::FirstKey if byte == b'}' => Ok(self.close(at, sink)),
            State::FirstKey | State::Key => {
                if byte != b'"' {
                    return Err(self.fault(at, "expected a key in quotes"));
                }
                self.begin_text(piece, at, true, sink)
            }
            State::Colon if byte == b':' => {
                self.state = State::Value;
                Ok(at + 1)
            }
            State::Colon => Err(self.fault(at, "expected ':'")),
            State::Next => self.next(at, byte, sink),
            _ => Err(self.fault(at, "unexpected byte after the value")),
        }
    }

    #[inline]
    fn begin_value(&mut self, piece: &[u8], at: usize, byte: u8, sink: &mut impl FnMut(Event<'_>)) -> Step {
        let offset = self.base + at as u64;
        let word: &'static [u8] = match byte {
            b'"' => return self.begin_text(piece, at, false, sink),
            b'{' => {
                self.open(at, true)?;
                sink(Event::ObjectBegin { at: offset });
                return Ok(at + 1);
            }
            b'[' => {
                self.open(at, false)?;
                sink(Event::ArrayBegin { at: offset });
                return Ok(at + 1);
            }
            b'-' => return self.begin_number(piece, at, Digits::Minus, sink),
            b'0' => return self.begin_number(piece, at, Digits::Zero, sink),
            b'1'..=b'9' => return self.begin_number(piece, at, Digits::Whole, sink),
            b't' => b"rue",
            b'f' => b"alse",
            b'n' => b"ull",
            _ => return Err(self.fault(at, "expected a value")),
        };
        self.token = offset;
        self.held.clear();
        self.literal(piece, at + 1, word, sink)
    }

    #[inline]
    fn next(&mut self, at: usize, byte: u8, sink: &mut impl FnMut(Event<'_>)) -> Step {
        match (self.stack.in_object(), byte) {
            (true, b',') => self.state = State::Key,
            (false, b',') => self.state = State::Value,
            (true, b'}') | (false, b']') => return Ok(self.close(at, sink)),
            (true, _) => return Err(self.fault(at, "expected ',' or '}'")),
            (false, _) => return Err(self.fault(at, "expected ',' or ']'")),
        }
        Ok(at + 1)
    }

    fn open(&mut self, at: usize, object: bool) -> Result<(), SyntaxError> {
        if self.stack.depth() == MAX_DEPTH {
            return Err(self.fault(at, "nested too deeply"));
        }
        self.stack.push(object);
        self.state = if object { State::FirstKey } else { State::FirstValue };
        Ok(())
    }

    fn close(&mut self, at: usize, sink: &mut impl FnMut(Event<'_>)) -> usize {
        let object = self.stack.in_object();
        let end = self.base + at as u64 + 1;
        self.stack.pop();
        self.state = self.after_value();
        sink(if object { Event::ObjectEnd { end } } else { Event::ArrayEnd { end } });
        at + 1
    }

    #[inline]
    fn after_value(&self) -> State {
        if self.stack.depth() == 0 { State::Done } else { State::Next }
    }

    fn begin_text(&mut self, piece: &[u8], at: usize, key: bool, sink: &mut impl FnMut(Event<'_>)) -> Step {
        self.token = self.base + at as u64;
        self.held.clear();
        self.in_key = key;
        self.state = State::Text;
        self.text(piece, at + 1, sink)
    }

    /// Inside a string: skips to the next byte that means something.
    fn text(&mut self, piece: &[u8], at: usize, sink: &mut impl FnMut(Event<'_>)) -> Step {
        let at = at + plain_len(piece.get(at..).unwrap_or_default());
        match piece.get(at) {
            None => {}
            Some(b'"') => self.end_text(piece, at, sink),
            Some(b'\\') => self.state = State::Escape,
            Some(_) => return Err(self.fault(at, "control character in a string")),
        }
        Ok((at + 1).min(piece.len()))
    }

    fn end_text(&mut self, piece: &[u8], at: usize, sink: &mut impl FnMut(Event<'_>)) {
        let span = Span { start: self.token, end: self.base + at as u64 + 1 };
        self.state = if self.in_key { State::Colon } else { self.after_value() };
        let raw = captured(&mut self.held, piece, at, span.inside(), self.base);
        let token = Token::new(span, raw, true);
        sink(if self.in_key { Event::Key(token) } else { Event::String(token) });
    }

    fn escape(&mut self, piece: &[u8], at: usize) -> Step {
        self.state = match piece.get(at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => State::Text,
            Some(b'u') => State::Hex(4),
            _ => return Err(self.fault(at, "unknown escape in a string")),
        };
        Ok(at + 1)
    }

    fn hex(&mut self, piece: &[u8], at: usize, left: u8) -> Step {
        if !piece.get(at).is_some_and(u8::is_ascii_hexdigit) {
            return Err(self.fault(at, "expected four hexadecimal digits after \\u"));
        }
        self.state = if left > 1 { State::Hex(left - 1) } else { State::Text };
        Ok(at + 1)
    }

    fn begin_number(
        &mut self,
        piece: &[u8],
        at: usize,
        digits: Digits,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Step {
        self.token = self.base + at as u64;
        self.held.clear();
        self.number(piece, at + 1, digits, sink)
    }

    fn number(
        &mut self,
        piece: &[u8],
        mut at: usize,
        mut digits: Digits,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Step {
        while let Some(&byte) = piece.get(at) {
            if byte.is_ascii_digit() && digits == Digits::Whole {
                at += 1;
                continue;
            }
            match digits.after(byte) {
                Some(next) => digits = next,
                None if digits.may_end() => {
                    self.end_number(piece, at, sink);
                    return Ok(at);
                }
                None => return Err(self.fault(at, "expected a digit")),
            }
            at += 1;
        }
        self.state = State::Number(digits);
        Ok(at)
    }

    #[inline]
    fn end_number(&mut self, piece: &[u8], at: usize, sink: &mut impl FnMut(Event<'_>)) {
        let span = Span { start: self.token, end: self.base + at as u64 };
        self.state = self.after_value();
        let raw = captured(&mut self.held, piece, at, span, self.base);
        sink(Event::Number(Token::new(span, raw, false)));
    }

    fn literal(
        &mut self,
        piece: &[u8],
        mut at: usize,
        mut rest: &'static [u8],
        sink: &mut impl FnMut(Event<'_>),
    ) -> Step {
        while let Some((&wanted, after)) = rest.split_first() {
            match piece.get(at) {
                None => {
                    self.state = State::Literal(rest);
                    return Ok(at);
                }
                Some(&byte) if byte == wanted => rest = after,
                Some(_) => return Err(self.fault(at, "expected true, false or null")),
            }
            at += 1;
        }
        let span = Span { start: self.token, end: self.base + at as u64 };
        self.state = self.after_value();
        let raw = captured(&mut self.held, piece, at, span, self.base);
        sink(Event::Literal(Token::new(span, raw, false)));
        Ok(at)
    }

    /// At the end of a piece: keeps the head of a token that goes on in the next one.
    fn hold(&mut self, piece: &[u8]) {
        let quoted = match self.state {
            State::Text | State::Escape | State::Hex(_) => 1,
            State::Number(_) | State::Literal(_) => 0,
            _ => return,
        };
        let first = (self.token + quoted).saturating_sub(self.base);
        let new = usize::try_from(first).ok().and_then(|first| piece.get(first..)).unwrap_or_default();
        let room = CAPTURE.saturating_sub(self.held.len()).min(new.len());
        self.held.extend_from_slice(new.get(..room).unwrap_or_default());
    }

    fn fault(&self, at: usize, what: &'static str) -> SyntaxError {
        SyntaxError { offset: self.base + at as u64, what }
    }
}

impl Digits {
    /// The state after one more byte, or `None` if the byte is no part of the number.
    #[inline]
    fn after(self, byte: u8) -> Option<Digits> {
        Some(match (self, byte) {
            (Digits::Whole, b'0'..=b'9') => Digits::Whole,
            (Digits::Fraction | Digits::Point, b'0'..=b'9') => Digits::Fraction,
            (Digits::Exponent | Digits::E | Digits::Sign, b'0'..=b'9') => Digits::Exponent,
            (Digits::Minus, b'0') => Digits::Zero,
            (Digits::Minus, b'1'..=b'9') => Digits::Whole,
            (Digits::Zero | Digits::Whole, b'.') => Digits::Point,
            (Digits::Zero | Digits::Whole | Digits::Fraction, b'e' | b'E') => Digits::E,
            (Digits::E, b'+' | b'-') => Digits::Sign,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, Digits::Zero | Digits::Whole | Digits::Fraction | Digits::Exponent)
    }
}

/// The bytes of a token whose content lies at `content` and ends at `at` in the piece, if it is short enough.
#[inline]
fn captured<'a>(
    held: &'a mut Vec<u8>,
    piece: &'a [u8],
    at: usize,
    content: Span,
    base: u64,
) -> Option<&'a [u8]> {
    if content.len() > CAPTURE as u64 {
        return None;
    }
    if content.start >= base {
        return piece.get(usize::try_from(content.start - base).ok()?..at);
    }
    held.extend_from_slice(piece.get(..at)?);
    Some(held)
}

/// How many bytes at the start of `bytes` are neither `"` nor `\` nor a control character. Eight at a time: in the word, the
/// lowest marked byte is exact, those above it may be marked by a borrow.
#[inline]
fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5c);
        let marks = (word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash);
        if marks & HIGHS != 0 {
            return index * 8 + ((marks & HIGHS).trailing_zeros() / 8) as usize;
        }
    }
    let special = tail.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    bytes.len() - tail.len() + special.unwrap_or(tail.len())
}
