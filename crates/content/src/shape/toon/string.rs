//! Strings: decoding JSON escapes without loss, and quotes where TOON needs them.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::memchr;

use super::NotEncodable;

/// What stands between the quotes of a JSON string, decoded.
pub(super) fn decode(raw: &str) -> Result<Cow<'_, str>, NotEncodable> {
    let Some(first) = memchr(b'\\', raw.as_bytes()) else { return Ok(Cow::Borrowed(raw)) };
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut next = Some(first);
    while let Some(at) = next {
        let (plain, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        text.push_str(plain);
        rest = decode_escape(escape, &mut text)?;
        next = memchr(b'\\', rest.as_bytes());
    }
    text.push_str(rest);
    Ok(Cow::Owned(text))
}

/// Decodes the escape that `text` begins with, or both if it is half of a pair, and returns what comes after.
fn decode_escape<'a>(text: &'a str, out: &mut String) -> Result<&'a str, NotEncodable> {
    let after = text.get(2..).unwrap_or_default();
    let simple = match text.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return decode_units(text, out),
        Some(&byte) => char::from(byte),
        None => return Ok(""),
    };
    out.push(simple);
    Ok(after)
}

fn decode_units<'a>(text: &'a str, out: &mut String) -> Result<&'a str, NotEncodable> {
    let (first, after) = split_unit(text).ok_or(NotEncodable::LoneSurrogate)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        out.push(character);
        return Ok(after);
    }
    let (second, after) = split_unit(after).ok_or(NotEncodable::LoneSurrogate)?;
    match char::decode_utf16([first, second]).next() {
        Some(Ok(character)) => out.push(character),
        _ => return Err(NotEncodable::LoneSurrogate),
    }
    Ok(after)
}

/// The UTF-16 unit of the `\uXXXX` that `text` begins with, and what comes after.
fn split_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, after) = text.strip_prefix("\\u")?.split_at_checked(4)?;
    Some((u16::from_str_radix(digits, 16).ok()?, after))
}

/// Appends a string value, given as it stands between its JSON quotes, in quotes if it needs them beside this delimiter.
pub(super) fn append(raw: &str, delimiter: u8, out: &mut String) -> Result<(), NotEncodable> {
    let text = decode(raw)?;
    if needs_quotes(&text, delimiter) {
        append_quoted(&text, out);
    } else {
        out.push_str(&text);
    }
    Ok(())
}

/// Appends a text in quotes.
pub(super) fn append_quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(text.get(done..at).unwrap_or_default());
        append_escape(byte, out);
        done = at + 1;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out.push('"');
}

fn append_escape(byte: u8, out: &mut String) {
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        _ => {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{byte:04x}");
        }
    }
}

/// Bytes that mean something to TOON wherever they stand.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    let marks = b":\"\\[]{}";
    let mut mark = 0;
    while mark < marks.len() {
        special[marks[mark] as usize] = true;
        mark += 1;
    }
    special
};

fn needs_quotes(text: &str, delimiter: u8) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return true };
    if matches!(first, b' ' | b'-' | b'#') || last == b' ' || has_wide_blank_edge(text, first, last) {
        return true;
    }
    if bytes.iter().any(|&byte| byte == delimiter || SPECIAL.get(usize::from(byte)) == Some(&true)) {
        return true;
    }
    matches!(text, "true" | "false" | "null") || is_like_number(bytes)
}

/// A blank that is not ASCII at an edge. The notation does not ask for quotes there, but readers of its older versions trim it.
fn has_wide_blank_edge(text: &str, first: u8, last: u8) -> bool {
    let blank = |character: char| character.is_whitespace() || character == '\u{feff}';
    (!first.is_ascii() && text.starts_with(blank)) || (!last.is_ascii() && text.ends_with(blank))
}

/// Digits, perhaps a fraction, perhaps an exponent; leading zeros and a leading plus too. A leading minus is quoted anyway.
fn is_like_number(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"+").unwrap_or(text);
    let Some(mut rest) = after_digits(unsigned) else { return false };
    if let Some(fraction) = rest.strip_prefix(b".") {
        match after_digits(fraction) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let digits = match exponent {
            [b'+' | b'-', digits @ ..] => digits,
            digits => digits,
        };
        return after_digits(digits).is_some_and(<[u8]>::is_empty);
    }
    rest.is_empty()
}

/// What comes after one or more digits.
fn after_digits(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.get(digits..).filter(|_| digits > 0)
}
