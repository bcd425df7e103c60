//! What the scanner reports: tokens and where they lie.

use std::borrow::Cow;

use crate::Unescape;

/// The longest token, in bytes without quotes, whose bytes an event hands over. Of longer ones only the span is reported.
pub const CAPTURE: usize = 1024;

/// A half open range of byte offsets, counted from the first byte fed to the scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl Span {
    /// The span from `start` up to, not including, `end`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    /// Number of bytes in the span.
    #[must_use]
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// True if the span holds no byte.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The span without its first and last byte: what stands between the quotes of a string literal, or the brackets of a
    /// container.
    #[must_use]
    pub fn inside(self) -> Span {
        let start = self.start.saturating_add(1).min(self.end);
        Span { start, end: self.end.saturating_sub(1).max(start) }
    }
}

/// One token of the JSON text, in the order of the text. Commas, colons and white space are not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// `{`, at this offset.
    ObjectBegin {
        /// Offset of the brace.
        at: u64,
    },
    /// `}`.
    ObjectEnd {
        /// Offset after the brace.
        end: u64,
    },
    /// `[`, at this offset.
    ArrayBegin {
        /// Offset of the bracket.
        at: u64,
    },
    /// `]`.
    ArrayEnd {
        /// Offset after the bracket.
        end: u64,
    },
    /// The name of an object member; its value follows.
    Key(Token<'a>),
    /// A string value.
    String(Token<'a>),
    /// A number value.
    Number(Token<'a>),
    /// `true`, `false` or `null`.
    Literal(Token<'a>),
}

/// One key, string, number or literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// Where the token lies; for keys and strings the quotes are included.
    pub span: Span,
    raw: Option<&'a [u8]>,
    quoted: bool,
}

impl<'a> Token<'a> {
    pub(crate) fn new(span: Span, raw: Option<&'a [u8]>, quoted: bool) -> Token<'a> {
        Token { span, raw, quoted }
    }

    /// The bytes as they stand in the text, without quotes and with escapes as they are. `None` if there are more than
    /// [`CAPTURE`] of them.
    #[must_use]
    pub fn raw(&self) -> Option<&'a [u8]> {
        self.raw
    }

    /// What the token says: a key or string decoded (an unpaired surrogate escape becomes U+FFFD), a number or literal as it is
    /// written. `None` if the token has more than [`CAPTURE`] raw bytes.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'a, str>> {
        let raw = self.raw?;
        if !self.quoted || memchr::memchr(b'\\', raw).is_none() {
            return Some(String::from_utf8_lossy(raw));
        }
        let mut decoded = Vec::with_capacity(raw.len());
        let mut unescape = Unescape::new();
        unescape.push(raw, &mut decoded);
        unescape.finish(&mut decoded);
        Some(Cow::Owned(String::from_utf8_lossy(&decoded).into_owned()))
    }
}
