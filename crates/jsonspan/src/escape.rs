//! JSON string literals: decoding as a stream, and writing.

use memchr::memchr;

/// Decodes what stands between the quotes of one string literal, in pieces cut anywhere.
///
/// The input is what a [`Scanner`](crate::Scanner) has let through. An escaped surrogate without its partner becomes U+FFFD, so the
/// output is always UTF-8. Of input that no scanner has seen nothing panics; a broken escape becomes U+FFFD.
#[derive(Debug, Default)]
pub struct Unescape {
    state: Decode,
    /// A high surrogate whose low one may come next.
    high: Option<u16>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Decode {
    #[default]
    Plain,
    Backslash,
    Hex {
        value: u16,
        left: u8,
    },
}

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

impl Unescape {
    /// A decoder at the start of a literal.
    #[must_use]
    pub fn new() -> Unescape {
        Unescape::default()
    }

    /// Decodes the next piece and appends the text to `out`: at most as many bytes as went in, and three more.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match self.state {
                Decode::Plain => self.plain(rest, out),
                Decode::Backslash => {
                    self.after_backslash(byte, out);
                    after
                }
                Decode::Hex { value, left } => {
                    self.hex_digit(byte, value, left, out);
                    after
                }
            };
        }
    }

    /// Ends the literal: what was begun and not completed becomes U+FFFD.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.drop_high(out);
        if !matches!(self.state, Decode::Plain) {
            out.extend_from_slice(REPLACEMENT);
        }
        self.state = Decode::Plain;
    }

    fn plain<'a>(&mut self, rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let run = memchr(b'\\', rest).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(run);
        if !text.is_empty() {
            self.drop_high(out);
            out.extend_from_slice(text);
        }
        match tail.split_first() {
            Some((_, after)) => {
                self.state = Decode::Backslash;
                after
            }
            None => tail,
        }
    }

    fn after_backslash(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte == b'u' {
            self.state = Decode::Hex { value: 0, left: 4 };
            return;
        }
        self.drop_high(out);
        self.state = Decode::Plain;
        match byte {
            b'"' | b'\\' | b'/' => out.push(byte),
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            _ => out.extend_from_slice(REPLACEMENT),
        }
    }

    fn hex_digit(&mut self, byte: u8, value: u16, left: u8, out: &mut Vec<u8>) {
        let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok()) else {
            self.drop_high(out);
            out.extend_from_slice(REPLACEMENT);
            self.state = Decode::Plain;
            return;
        };
        let value = (value << 4) | digit;
        if left > 1 {
            self.state = Decode::Hex { value, left: left - 1 };
            return;
        }
        self.state = Decode::Plain;
        self.unit(value, out);
    }

    /// Takes one complete UTF-16 unit.
    fn unit(&mut self, unit: u16, out: &mut Vec<u8>) {
        let high = self.high.take();
        if let Some(high) = high
            && let Some(Ok(character)) = char::decode_utf16([high, unit]).next()
        {
            push_char(character, out);
            return;
        }
        if high.is_some() {
            out.extend_from_slice(REPLACEMENT);
        }
        match unit {
            0xd800..=0xdbff => self.high = Some(unit),
            _ => push_char(char::from_u32(u32::from(unit)).unwrap_or('\u{fffd}'), out),
        }
    }

    fn drop_high(&mut self, out: &mut Vec<u8>) {
        if self.high.take().is_some() {
            out.extend_from_slice(REPLACEMENT);
        }
    }
}

fn push_char(character: char, out: &mut Vec<u8>) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Appends `text` as a JSON string literal with its quotes. Only what must be escaped is.
pub fn escape_into(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape_inside(text, out);
    out.push(b'"');
}

/// Appends `text` as it stands inside a JSON string literal, without quotes: for literals that are written in pieces.
pub fn escape_inside(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len());
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(bytes.get(done..at).unwrap_or_default());
        push_escape(byte, out);
        done = at + 1;
    }
    out.extend_from_slice(bytes.get(done..).unwrap_or_default());
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    }
}
