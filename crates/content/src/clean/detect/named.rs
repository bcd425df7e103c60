//! Values that go by their name: `password = …`, `"api_key": "…"`, a member of an object, an element of XML.

use std::ops::Range;

use super::super::view::EDGE;

/// The longest name from its keyword on, in bytes.
const NAME: usize = 32;
/// The most blanks on either side of the sign.
const BLANKS: usize = 16;
/// The longest value between quotes, in bytes.
pub(super) const QUOTED: usize = 2048;
/// The longest value without quotes, in bytes.
const BARE: usize = 512;
/// What a name may end with besides.
const STAGES: [&[u8]; 6] = [b"prod", b"dev", b"test", b"staging", b"live", b"value"];

/// The value of the name whose keyword stands at `keyword`. From there on the name must be one of `tails`, in lower case without
/// separators.
pub(super) fn find(
    text: &[u8],
    keyword: usize,
    tails: &[&str],
    shortest: usize,
    work: &mut u64,
) -> Option<Range<usize>> {
    let name = text.get(keyword..)?.iter().take(NAME).take_while(|byte| is_name(**byte)).count();
    if name == NAME || !is_one_of(text.get(keyword..keyword + name)?, tails) {
        return None;
    }
    let at = after_sign(text, keyword + name).or_else(|| after_flag(text, keyword, keyword + name))?;
    let value = value(text, at)?;
    *work += (value.end - keyword) as u64;
    (value.len() >= shortest).then_some(value)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_one_of(name: &[u8], tails: &[&str]) -> bool {
    let mut buf = [0; NAME];
    let mut len = 0;
    for (place, byte) in buf.iter_mut().zip(name.iter().filter(|byte| byte.is_ascii_alphanumeric())) {
        *place = byte.to_ascii_lowercase();
        len += 1;
    }
    let name = buf.get(..len).unwrap_or_default();
    let digits = name.iter().rev().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    let name = name.get(..len - digits).unwrap_or_default();
    let is_tail = |name: &[u8]| tails.iter().any(|tail| tail.as_bytes() == name);
    is_tail(name) || STAGES.iter().filter_map(|stage| name.strip_suffix(*stage)).any(is_tail)
}

/// Where the value begins: after quotes that close the name, and a sign of assignment; or after the `>` of a tag.
fn after_sign(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'>') {
        return Some(at + 1);
    }
    let closes = |byte: &&u8| matches!(**byte, b'"' | b'\'' | b'`' | b'\\' | b']' | b')' | EDGE);
    let at = at + text.get(at..)?.iter().take(4).take_while(closes).count();
    let at = skip_blanks(text, at)?;
    let sign = match text.get(at..)? {
        [b'=', b'>' | b'=', ..] | [b':', b'=', ..] => 2,
        [b'=' | b':', ..] => 1,
        _ => return None,
    };
    skip_blanks(text, at + sign)
}

/// Where the value of a flag begins, as in `--password x`.
fn after_flag(text: &[u8], keyword: usize, end: usize) -> Option<usize> {
    let before = text.get(keyword.saturating_sub(NAME)..keyword)?;
    let name = before.iter().rev().take_while(|byte| is_name(**byte)).count();
    let at = skip_blanks(text, end)?;
    let is_flag = before.get(before.len() - name..)?.starts_with(b"--");
    (is_flag && at > end && text.get(at) != Some(&b'-')).then_some(at)
}

fn skip_blanks(text: &[u8], at: usize) -> Option<usize> {
    Some(at + text.get(at..)?.iter().take(BLANKS).take_while(|byte| matches!(byte, b' ' | b'\t')).count())
}

fn value(text: &[u8], at: usize) -> Option<Range<usize>> {
    let at = at + usize::from(matches!(text.get(at..), Some([b'\\', b'"', ..])));
    let rest = text.get(at..)?;
    match *rest.first()? {
        quote @ (b'"' | b'\'' | b'`' | EDGE) => {
            let inside = rest.get(1..)?;
            let inside = inside.get(..QUOTED).unwrap_or(inside);
            let ends = |byte: &u8| {
                *byte == quote || (quote != EDGE && matches!(*byte, EDGE | b'\n' | b'\r' | b'\\'))
            };
            let len = inside.iter().position(ends)?;
            Some(at + 1..at + 1 + len)
        }
        _ => bare(rest.get(..BARE).unwrap_or(rest)).map(|len| at..at + len),
    }
}

/// Length of a value without quotes. A sign of assignment in it ends it if what stands before is a word: the next name.
fn bare(rest: &[u8]) -> Option<usize> {
    let mut words = true;
    for (at, &byte) in rest.iter().enumerate() {
        match byte {
            0..=b' '
            | b'"'
            | b'\''
            | b'`'
            | b','
            | b';'
            | b'&'
            | b'<'
            | b'>'
            | b'('
            | b')'
            | b'{'
            | b'}'
            | b'['
            | b']'
            | b'\\'
            | b'|'
            | EDGE => return Some(at),
            b'=' if words => return None,
            _ => words &= byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'),
        }
    }
    (rest.len() < BARE).then_some(rest.len())
}
