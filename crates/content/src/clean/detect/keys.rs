//! Private keys, from the line that begins one to the line that ends it.

use std::ops::Range;

use memchr::memmem;

/// Most bytes between the beginning of the first line and the keyword.
const BEFORE: usize = 48;
/// Most bytes after the keyword that the same line may have.
const AFTER: usize = 24;
/// Fewer bytes of base64 than this in a row are no line of a key.
const LINE: usize = 16;

/// The private key in whose first line the words PRIVATE KEY stand at `keyword`. Without a last line in reach, as far as its lines
/// go. `None` for a line that only speaks of keys.
pub(super) fn find(text: &[u8], keyword: usize, work: &mut u64) -> Option<Range<usize>> {
    let from = keyword.saturating_sub(BEFORE);
    let before = text.get(from..keyword)?;
    let begin = memmem::rfind(before, b"BEGIN ")?;
    let dashes = before.get(..begin)?.iter().rev().take_while(|byte| matches!(byte, b'-' | b' ')).count();
    if dashes < 4 || memmem::find(before.get(begin..)?, b"-----").is_some() {
        return None;
    }
    let blanks = before.get(begin - dashes..)?.iter().take_while(|byte| **byte == b' ').count();
    let start = from + begin - dashes + blanks;
    let rest = text.get(keyword..)?;
    let head = rest.get(..AFTER + 16).unwrap_or(rest);
    let line = memmem::find(head, b"----")?;
    let body = keyword + line + head.get(line..)?.iter().take_while(|byte| **byte == b'-').count();
    let reach = text.get(body..(body + super::LONGEST).min(text.len()))?;
    let next = memmem::find(reach, b"----");
    *work += next.unwrap_or(reach.len()) as u64;
    if let Some(last) = next
        && let Some(end) = last_line(reach, last)
        && is_key(reach.get(..last)?)
    {
        return Some(start..body + end);
    }
    let lines = lines(reach.get(..next.unwrap_or(reach.len()))?);
    (lines > 0).then_some(start..body + lines)
}

/// The end of the line that ends a key and whose dashes begin at `at`.
fn last_line(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let rest = rest.get(..96).unwrap_or(rest);
    let word = rest.iter().position(|byte| !matches!(byte, b'-' | b' '))?;
    if !rest.get(word..)?.starts_with(b"END ") {
        return None;
    }
    let dashes = word + memmem::find(rest.get(word..)?, b"----")?;
    Some(at + dashes + rest.get(dashes..)?.iter().take_while(|byte| **byte == b'-').count())
}

/// True if what stands between the two lines is mostly long runs of base64.
fn is_key(body: &[u8]) -> bool {
    let (mut in_runs, mut others, mut run) = (0_usize, 0_usize, 0_usize);
    for &byte in body.iter().chain(b" ") {
        if is_base64(byte) {
            run += 1;
            continue;
        }
        if run >= LINE {
            in_runs += run;
        } else {
            others += run;
        }
        run = 0;
        others += usize::from(!byte.is_ascii_whitespace());
    }
    in_runs > 0 && in_runs >= others
}

/// Length of the lines of base64 and of headers at the start of `body`.
fn lines(body: &[u8]) -> usize {
    let (mut at, mut good) = (0, 0);
    while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
        // Between lines: blanks, also escaped ones, and the quotes of a list of lines.
        let blank = rest.iter().position(|&byte| is_base64(byte)).unwrap_or(rest.len());
        let escaped = rest.get(..blank).is_some_and(|blank| blank.ends_with(b"\\"));
        let blank = blank + usize::from(escaped && matches!(rest.get(blank), Some(b'n' | b'r')));
        let run = rest.get(blank..).unwrap_or_default().iter().take_while(|byte| is_base64(**byte)).count();
        if blank > 16 || run < LINE {
            break;
        }
        at += blank + run;
        good = at;
    }
    good
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}
