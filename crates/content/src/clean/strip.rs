//! Characters that are not seen: terminal control, direction marks, and what has no width.

use std::ops::Range;

use super::view::EDGE;

/// Which characters are stripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StripClasses(u8);

impl StripClasses {
    /// Nothing.
    pub const NONE: StripClasses = StripClasses(0);
    /// Terminal sequences, whole: CSI, OSC, DCS, SOS, PM, APC, and the choice of a character set. Of one that does not end, only
    /// the character that begins it.
    pub const ANSI: StripClasses = StripClasses(1);
    /// U+0000 to U+001F but for tab, line feed and carriage return, and U+0080 to U+009F.
    pub const C0C1: StripClasses = StripClasses(2);
    /// Embeddings, overrides and isolates of direction: U+202A to U+202E and U+2066 to U+2069.
    pub const BIDI: StripClasses = StripClasses(4);
    /// U+200B, U+200C, U+200D, U+2060 and U+FEFF; but a joiner between two emoji stays, because it makes one picture of them.
    pub const ZERO_WIDTH: StripClasses = StripClasses(8);
    /// Every class.
    pub const ALL: StripClasses = StripClasses(15);

    /// The class of that name: `ansi`, `c0c1`, `bidi` or `zero_width`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<StripClasses> {
        Some(match name {
            "ansi" => StripClasses::ANSI,
            "c0c1" => StripClasses::C0C1,
            "bidi" => StripClasses::BIDI,
            "zero_width" => StripClasses::ZERO_WIDTH,
            _ => return None,
        })
    }

    /// The classes of both.
    #[must_use]
    pub fn and(self, other: StripClasses) -> StripClasses {
        StripClasses(self.0 | other.0)
    }

    /// True if there is no class.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, class: StripClasses) -> bool {
        self.0 & class.0 != 0
    }
}

/// The longest terminal sequence, in bytes. Of a longer one only the character that begins it is stripped.
pub(crate) const LONGEST: usize = 64 * 1024;

/// The next piece at or after `from` that a class strips.
pub(crate) fn next(text: &[u8], from: usize, classes: StripClasses) -> Option<Range<usize>> {
    walk(text, from, |at| piece(text, at, classes))
}

/// The next piece at or after `from` that is not seen, whether or not a class strips it: what a secret may be hidden with.
pub(crate) fn next_unseen(text: &[u8], from: usize) -> Option<Range<usize>> {
    walk(text, from, |at| {
        let seen = |range: &Range<usize>| range.is_empty();
        piece(text, at, StripClasses::ALL)
            .or_else(|| Some(at..at + unseen(text.get(at..).unwrap_or_default())))
            .filter(|range| !seen(range))
    })
}

fn walk(text: &[u8], mut from: usize, piece: impl Fn(usize) -> Option<Range<usize>>) -> Option<Range<usize>> {
    loop {
        let at = next_candidate(text, from)?;
        if let Some(piece) = piece(at) {
            return Some(piece);
        }
        from = at + 1;
    }
}

/// The next byte that can begin something that is not seen. Looks at 32 bytes at a time while they are plain.
fn next_candidate(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<32>) {
        let is_odd =
            |byte: u8| (byte >= 0x80) | ((byte < 0x20) & (byte != b'\n') & (byte != b'\t') & (byte != b'\r'));
        if chunk.iter().fold(false, |odd, &byte| odd | is_odd(byte))
            && let Some(found) = chunk.iter().position(|&byte| is_candidate(byte))
        {
            return Some(at + found);
        }
        at += 32;
    }
    let rest = text.get(at..)?;
    rest.iter().position(|&byte| is_candidate(byte)).map(|found| at + found)
}

#[inline]
fn is_candidate(byte: u8) -> bool {
    match byte {
        0..=8 | 11 | 12 | 14..=31 => true,
        // The first bytes of U+0080 to U+00AD, U+034F, U+061C, U+180E, U+2000 to U+2FFF, U+FE00 to U+FEFF and the tags.
        _ => matches!(byte, 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xef | 0xf3),
    }
}

/// What is to be stripped at `at`.
fn piece(text: &[u8], at: usize, classes: StripClasses) -> Option<Range<usize>> {
    let bytes = text.get(at..)?;
    let (class, len) = match *bytes {
        [0x1b, ..] => (StripClasses::C0C1, 1),
        [0..=8 | 11 | 12 | 14..=31, ..] => (StripClasses::C0C1, 1),
        [0xc2, 0x80..=0x9f, ..] => (StripClasses::C0C1, 2),
        [0xe2, 0x80, 0xaa..=0xae, ..] | [0xe2, 0x81, 0xa6..=0xa9, ..] => (StripClasses::BIDI, 3),
        [0xe2, 0x80, 0x8b | 0x8c, ..] | [0xe2, 0x81, 0xa0, ..] | [0xef, 0xbb, 0xbf, ..] => {
            (StripClasses::ZERO_WIDTH, 3)
        }
        [0xe2, 0x80, 0x8d, ..] if !joins_emoji(text, at) => (StripClasses::ZERO_WIDTH, 3),
        _ => return None,
    };
    if classes.has(StripClasses::ANSI)
        && let Some(len) = sequence(bytes)
    {
        return Some(at..at + len);
    }
    let begins = bytes.first() == Some(&0x1b) && classes.has(StripClasses::ANSI);
    (begins || classes.has(class)).then_some(at..at + len)
}

/// Length of the terminal sequence at the start of `bytes`, if it is complete.
fn sequence(bytes: &[u8]) -> Option<usize> {
    let (kind, intro) = match *bytes {
        [0x1b, kind @ b'@'..=b'_', ..] => (kind, 2),
        // The choice of a character set, and the private ones that are no letters.
        [0x1b, b'(' | b')' | b'*' | b'+' | b'-' | b'.' | b'/' | b'%' | b'#', b'0'..=b'~', ..] => {
            return Some(3);
        }
        [0x1b, b'=' | b'>' | b'7' | b'8', ..] => return Some(2),
        [0xc2, c1 @ 0x80..=0x9f, ..] => (c1 - 0x40, 2),
        _ => return None,
    };
    let body = bytes.get(intro..)?;
    let body = body.get(..LONGEST).unwrap_or(body);
    match kind {
        b'[' => {
            let parameters = body.iter().position(|byte| !(0x30..=0x3f).contains(byte))?;
            let rest = body.get(parameters..)?;
            let between = rest.iter().position(|byte| !(0x20..=0x2f).contains(byte))?;
            let complete = (0x40..=0x7e).contains(rest.get(between)?);
            complete.then_some(intro + parameters + between + 1)
        }
        b']' | b'P' | b'X' | b'^' | b'_' => string_end(body, kind == b']').map(|end| intro + end),
        _ => None,
    }
}

/// Length of a control string with its end. Any other control character, or the end of the literal, breaks it off.
fn string_end(body: &[u8], bell_ends: bool) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + next_break(body.get(from..)?)?;
        match body.get(at..)? {
            [0x07, ..] if bell_ends => return Some(at + 1),
            [0x1b, b'\\', ..] | [0xc2, 0x9c, ..] => return Some(at + 2),
            [0xc2, 0x80..=0x9f, ..] => return None,
            [0xc2, ..] => from = at + 1,
            _ => return None,
        }
    }
}

/// The next byte that ends a control string, breaks it off, or may do so.
fn next_break(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| matches!(byte, 0..=7 | 14..=31 | 0xc2 | EDGE))
}

/// Length of another character that is not seen at the start of `bytes`: soft hyphen, joiners, marks of direction, invisible
/// operators, choosers of a variant, tags.
fn unseen(bytes: &[u8]) -> usize {
    match *bytes {
        [0xc2, 0xad, ..] | [0xcd, 0x8f, ..] | [0xd8, 0x9c, ..] => 2,
        [0xe1, 0xa0, 0x8b..=0x8f, ..] | [0xe2, 0x80, 0x8d..=0x8f, ..] | [0xe2, 0x81, 0xa1..=0xaf, ..] => 3,
        [0xef, 0xb8, 0x80..=0x8f, ..] => 3,
        [0xf3, 0xa0, 0x80..=0x87, _, ..] => 4,
        _ => 0,
    }
}

/// True if the joiner at `at` stands between two pictures.
fn joins_emoji(text: &[u8], at: usize) -> bool {
    let before = text.get(at.saturating_sub(4)..at).unwrap_or_default();
    let last = (0..before.len()).rev().find_map(|from| one_char(before.get(from..)?, true));
    let next = text.get(at + 3..).and_then(|after| one_char(after.get(..4).unwrap_or(after), false));
    let is_modifier = |c: char| matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    last.is_some_and(|c| is_picture(c) || is_modifier(c)) && next.is_some_and(is_picture)
}

fn is_picture(c: char) -> bool {
    matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2190}'..='\u{21ff}' | '\u{2b00}'..='\u{2bff}' | '\u{2300}'..='\u{23ff}')
}

/// The first character of `bytes`; if `alone`, only if there is no other.
fn one_char(bytes: &[u8], alone: bool) -> Option<char> {
    let len = match bytes.first()? {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    let text = str::from_utf8(bytes.get(..len)?).ok()?;
    text.chars().next().filter(|_| !alone || bytes.len() == len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(text: &str, classes: StripClasses) -> String {
        let (mut out, mut done) = (Vec::new(), 0);
        while let Some(piece) = next(text.as_bytes(), done, classes) {
            out.extend_from_slice(&text.as_bytes()[done..piece.start]);
            done = piece.end;
        }
        out.extend_from_slice(&text.as_bytes()[done..]);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_class_strips_its_characters_and_no_others() {
        let all = StripClasses::ALL;
        for (text, classes, left) in [
            ("A\u{1b}[31;1mB\u{1b}[0m", all, "AB"),
            ("A\u{1b}[31mB", StripClasses::ANSI, "AB"),
            ("A\u{1b}[31mB", StripClasses::C0C1, "A[31mB"),
            ("A\u{1b}[31mB", StripClasses::BIDI, "A\u{1b}[31mB"),
            ("A\u{1b}]52;c;ZWNobw==\u{7}B", all, "AB"),
            ("A\u{1b}]8;;http://x\u{1b}\\B\u{1b}]8;;\u{1b}\\C", all, "ABC"),
            ("A\u{9d}0;title\u{9c}B", all, "AB"),
            ("A\u{9b}31mB", all, "AB"),
            ("A\u{9b}31mB", StripClasses::C0C1, "A31mB"),
            ("A\u{1b}Pq#0\u{1b}\\B\u{1b}_x\u{1b}\\C\u{1b}(BD\u{1b}=", all, "ABCD"),
            ("A\u{1b}HelloB", all, "AHelloB"),
            ("A\u{1b}]0;never closed", all, "A]0;never closed"),
            ("A\u{1b}]0;t\u{1b}[1mB\u{7}", all, "A]0;tB"),
            ("A\u{1b}[31", all, "A[31"),
            ("A\u{1b}[3\u{e9}m", all, "A[3\u{e9}m"),
            ("\u{0}a\u{8}b\tc\r\nd\u{7f}\u{85}e", all, "ab\tc\r\nd\u{7f}e"),
            ("A\u{202e}B\u{2066}C\u{2069}", all, "ABC"),
            ("A\u{202e}B\u{200b}", StripClasses::BIDI, "AB\u{200b}"),
            ("A\u{200b}B\u{200c}C\u{200d}D\u{2060}E\u{feff}", all, "ABCDE"),
            ("A\u{200b}B\u{202e}", StripClasses::ZERO_WIDTH, "AB\u{202e}"),
            (
                "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 👩🏽\u{200d}⚕\u{fe0f}",
                all,
                "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 👩🏽\u{200d}⚕\u{fe0f}",
            ),
            ("👨\u{200d}a", all, "👨a"),
            ("Привет — “цитата” €5 日本語 عربي\u{200f}", all, "Привет — “цитата” €5 日本語 عربي\u{200f}"),
            (
                "plain text that is longer than thirty two bytes, without anything in it",
                all,
                "plain text that is longer than thirty two bytes, without anything in it",
            ),
        ] {
            assert_eq!(strip(text, classes), left, "{text:?}");
        }
    }

    #[test]
    fn a_sequence_ends_with_its_literal() {
        let text = [b"\x1b]0;t".as_slice(), &[EDGE], b",", &[EDGE], b"x\x07"].concat();
        assert_eq!(next(&text, 0, StripClasses::ALL), Some(0..1));
        let text = [b"\x1b[3".as_slice(), &[EDGE], b"m"].concat();
        assert_eq!(next(&text, 0, StripClasses::ALL), Some(0..1));
    }

    #[test]
    fn more_is_unseen_than_is_stripped() {
        let text = "a\u{ad}b\u{200e}c\u{fe0f}d\u{e0041}e👨\u{200d}👩f\u{1b}[1mg";
        let (mut seen, mut done) = (Vec::new(), 0);
        while let Some(piece) = next_unseen(text.as_bytes(), done) {
            seen.extend_from_slice(&text.as_bytes()[done..piece.start]);
            done = piece.end;
        }
        seen.extend_from_slice(&text.as_bytes()[done..]);
        assert_eq!(String::from_utf8(seen).unwrap(), "abcde👨👩fg");
    }
}
