//! Runs of base64 in a view: found, joined over lines, decoded if they hold text.

use std::ops::Range;

use base64::Engine as _;

use super::detect::{STANDARD, URL_SAFE};

/// The shortest run, in characters, that is looked into.
const SHORTEST: usize = 24;
/// The shortest line that may go on in the next one.
const LINE: usize = 40;
/// The longest part of a run that is taken as one.
const UNIT: usize = 4096;
/// The most parts that are decoded at once. Of a longer run, what lies in one go of so many is looked into, and the next go begins
/// two parts before its end.
const UNITS: usize = 12;

/// Reports each run that begins in `range` and goes on from there, or that reaches into it: where it lies, its characters, and
/// whether its beginning may be cut off because it begins where the view does.
pub(crate) fn each(text: &[u8], range: Range<usize>, found: &mut impl FnMut(Range<usize>, &[u8], bool)) {
    let mut at = range.start;
    while at > 0 && text.get(at - 1).is_some_and(|byte| is_part(*byte)) {
        at -= 1;
    }
    while at < range.end {
        let Some(chunk) = text.get(at..at + SHORTEST) else { return };
        match chunk.iter().rposition(|&byte| !is_part(byte)) {
            Some(other) => at += other + 1,
            None => at = run(text, at, range.end, found),
        }
    }
}

/// The six bits that a character stands for, in either alphabet; 64 for what is none.
static BITS: [u8; 256] = {
    let mut bits = [64; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut value: u8 = 0;
    while value < 64 {
        bits[alphabet[value as usize] as usize] = value;
        value += 1;
    }
    bits[b'-' as usize] = 62;
    bits[b'_' as usize] = 63;
    bits
};

#[inline]
fn bits(byte: u8) -> u8 {
    BITS.get(usize::from(byte)).copied().unwrap_or(64)
}

#[inline]
fn is_part(byte: u8) -> bool {
    bits(byte) < 64
}

/// Reports the run that begins at `start`, in several goes if it is long; says where it ends, or where the next window takes over.
fn run(text: &[u8], start: usize, limit: usize, found: &mut impl FnMut(Range<usize>, &[u8], bool)) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let len = rest.iter().take(UNIT).take_while(|byte| is_part(**byte)).count();
    if len < UNIT && next_line(text, start, start + len).is_none() {
        // Most are short, and on one line.
        report(text, std::slice::from_ref(&(start..start + len)), start == 0, found);
        return start + len;
    }
    let mut units: Vec<Range<usize>> = Vec::new();
    let (mut at, mut line) = (start, start);
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let len = rest.iter().take(UNIT).take_while(|byte| is_part(**byte)).count();
        if len > 0 {
            units.push(at..at + len);
        }
        at += len;
        let next = if len == UNIT { Some(at) } else { next_line(text, line, at) };
        line = if len == UNIT { line } else { next.unwrap_or(at) };
        if next.is_none() || units.len() == UNITS {
            report(text, &units, start == 0, found);
            units.drain(..units.len().saturating_sub(2));
        }
        match next {
            None => return at,
            Some(_) if units.first().is_some_and(|unit| unit.start >= limit) => return limit,
            Some(next) => at = next,
        }
    }
}

/// Where the run goes on after a line that ended at `end`.
fn next_line(text: &[u8], line: usize, end: usize) -> Option<usize> {
    let len = end - line;
    if len < LINE || !len.is_multiple_of(4) {
        return None;
    }
    let rest = text.get(end..)?;
    let after = rest.strip_prefix(b"\n").or_else(|| rest.strip_prefix(b"\r\n"))?;
    let indent = after.iter().take(32).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let next = text.len() - after.len() + indent;
    text.get(next).filter(|byte| is_part(**byte)).map(|_| next)
}

fn report(text: &[u8], units: &[Range<usize>], cut: bool, found: &mut impl FnMut(Range<usize>, &[u8], bool)) {
    let (Some(first), Some(last)) = (units.first(), units.last()) else { return };
    let end = last.end
        + text.get(last.end..).unwrap_or_default().iter().take(2).take_while(|byte| **byte == b'=').count();
    if let [only] = units {
        found(only.start..end, text.get(only.clone()).unwrap_or_default(), cut);
        return;
    }
    let parts: Vec<&[u8]> = units.iter().filter_map(|unit| text.get(unit.clone())).collect();
    found(first.start..end, &parts.concat(), cut);
}

/// The text in a run, if it holds text.
pub(crate) fn decode(run: &[u8]) -> Option<Vec<u8>> {
    if !begins_as_text(run.first_chunk()?) {
        return None;
    }
    let engine = if run.iter().any(|byte| matches!(byte, b'-' | b'_')) { &URL_SAFE } else { &STANDARD };
    let whole = if run.len() % 4 == 1 { run.len() - 1 } else { run.len() };
    let mut text = engine.decode(run.get(..whole)?).ok()?;
    if let Err(error) = std::str::from_utf8(&text) {
        text.truncate(error.valid_up_to());
    }
    (text.len() >= 12).then_some(text)
}

/// True if the first six bytes are bytes of a text: no control characters but blanks, and the zeros of UTF-16. Says no to most runs
/// that are something else, such as hashes.
fn begins_as_text(run: &[u8; 8]) -> bool {
    let all = run.iter().fold(0_u64, |all, &byte| all << 6 | u64::from(bits(byte) & 63));
    let [_, _, head @ ..] = all.to_be_bytes();
    head.iter().all(|byte| matches!(byte, 0 | b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str, range: Range<usize>) -> Vec<(Range<usize>, String)> {
        let mut all = Vec::new();
        each(text.as_bytes(), range, &mut |range, run, _| {
            all.push((range, String::from_utf8(run.to_vec()).unwrap()));
        });
        all
    }

    #[test]
    fn runs_are_joined_over_lines_and_cut_into_goes() {
        let line = "QUJD".repeat(19);
        let text = format!("a: {line}\n  {line}\r\n  QUJDRA==\nshort {} ", "x".repeat(24));
        let found = runs(&text, 0..text.len());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].1, format!("{line}{line}QUJDRA"));
        assert_eq!(&text[found[0].0.clone()], text[3..].split("\nshort").next().unwrap());
        assert_eq!(found[1].1, "x".repeat(24));
        assert!(runs("abc def0123456789012345678", 0..26).is_empty());

        let long = "QUJD".repeat(100_000);
        let found = runs(&long, 0..long.len());
        assert!(found.len() > 5 && found.iter().all(|(_, run)| run.len() <= UNIT * UNITS));
        assert_eq!(found.last().unwrap().0.end, long.len());
        assert!(found.windows(2).all(|pair| pair[1].0.start < pair[0].0.end && pair[1].0.start % 4 == 0));
        let half = runs(&long, 0..200_000);
        assert!(half.last().unwrap().0.end >= 200_000 && half.len() < found.len());
    }

    #[test]
    fn only_text_is_decoded() {
        assert_eq!(decode(b"aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ"), Some(b"hello world hello world".to_vec()));
        assert_eq!(decode(b"aGVsbG8gd29ybGQ_Pj4-Pz8_Pj4-"), Some(b"hello world?>>>???>>>".to_vec()));
        assert_eq!(decode(b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"), None);
        assert_eq!(decode(b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"), None);
    }
}
