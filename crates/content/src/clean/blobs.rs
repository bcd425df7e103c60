//! Base64 data of images, audios and blobs: looked into if the bytes are text, cut so that what is left is base64 still.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as STRICT;
use jsonspan::Span;

use super::detect::{LONGEST, STANDARD};
use super::edits::Cut;
use super::findings::Blocked;
use super::pass::Pass;
use super::view::View;
use super::windows::{piece, whole_piece};
use crate::source::{CHUNK, Source};

/// What the data of a block is.
pub(crate) enum Blob {
    /// Base64 of text. It was looked into.
    Text,
    /// Base64 of something else.
    Binary,
    /// No base64 of the standard alphabet, so it is a string as any other.
    NotBase64,
}

/// Characters of one window: four for three bytes.
const SIZE: usize = 512 * 1024;
/// Bytes that a window shows again of what stands before it.
const BEHIND: usize = 1024;

/// A window of base64 characters, line breaks taken out.
struct Chars {
    view: View,
    /// What `view` was taken from, if it has not all its bytes.
    below: Option<View>,
    /// Raw offset after the last byte that was read.
    end: u64,
}

/// Looks into the inside of one literal.
pub(crate) fn look(
    pass: &mut Pass<'_>,
    source: &dyn Source,
    inside: Span,
    cancel: &dyn Fn() -> bool,
) -> Result<Blob, Blocked> {
    let cuts_before = pass.cuts.len();
    let (mut base, mut fresh, mut kind) = (inside.start, 0_usize, Blob::Text);
    let mut buf = Vec::new();
    loop {
        if cancel() {
            return Err(Blocked::Cancelled);
        }
        let chars = Chars::read(source, &mut buf, base, inside.end)?;
        let last = chars.end == inside.end;
        let text = chars.view.text();
        if !is_base64(text, last) {
            pass.cuts.truncate(cuts_before);
            return Ok(Blob::NotBase64);
        }
        let limit = if matches!(kind, Blob::Text) { text_window(pass, &chars, fresh, last) } else { None };
        let Some(limit) = limit else {
            if matches!(kind, Blob::Text) {
                pass.cuts.truncate(cuts_before);
            }
            kind = Blob::Binary;
            if last {
                return Ok(kind);
            }
            base = chars.end;
            continue;
        };
        if last {
            return Ok(kind);
        }
        let start = limit.saturating_sub(BEHIND) / 3;
        fresh = limit - 3 * start;
        base = chars.raw(4 * start..4 * start + 1).start;
    }
}

/// Looks for secrets in one window; says up to which decoded byte, or `None` if it is no text.
fn text_window(pass: &mut Pass<'_>, chars: &Chars, fresh: usize, last: bool) -> Option<usize> {
    let text = chars.view.text();
    let whole = if last { text.len() } else { text.len() / 4 * 4 };
    let bytes = STANDARD.decode(text.get(..whole)?).ok()?;
    // The window may begin and end inside a character.
    let begin = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let valid = match std::str::from_utf8(bytes.get(begin..)?) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && !last,
    };
    if !valid || (begin > 0 && fresh == 0) {
        return None;
    }
    let limit = if last { bytes.len() } else { bytes.len().saturating_sub(LONGEST) };
    let mut view = View::default();
    view.add_plain(&bytes, 0);
    let found = pass.look_at_bytes(&view, fresh..limit);
    cut(pass, chars, &bytes, found);
    Some(limit)
}

/// Cuts whole groups of four characters and writes what else they held into the replacement.
fn cut(pass: &mut Pass<'_>, chars: &Chars, bytes: &[u8], found: Vec<(Range<usize>, u32)>) {
    let mut joined: Vec<(Range<usize>, u32)> = Vec::new();
    for (range, mark) in found {
        match joined.last_mut() {
            // They may share a group.
            Some((last, kept)) if range.start / 3 <= last.end.saturating_sub(1) / 3 => {
                last.end = last.end.max(range.end);
                if pass.marks.weight(mark) > pass.marks.weight(*kept) {
                    *kept = mark;
                }
            }
            _ => joined.push((range, mark)),
        }
    }
    for (range, mark) in joined {
        let groups = range.start / 3..range.end.div_ceil(3);
        let mut text = bytes.get(groups.start * 3..range.start).unwrap_or_default().to_vec();
        text.extend_from_slice(pass.marks.get(mark).map_or(&[], |mark| mark.text()));
        let rest = bytes.get(range.end..(groups.end * 3).min(bytes.len())).unwrap_or_default();
        let at_end = groups.end * 3 >= bytes.len();
        while !at_end && !(text.len() + rest.len()).is_multiple_of(3) {
            text.push(b' ');
        }
        text.extend_from_slice(rest);
        let with = pass.marks.add(STRICT.encode(text).into_bytes(), mark);
        let upto = if at_end { chars.view.len() } else { groups.end * 4 };
        let raw = chars.raw(groups.start * 4..upto);
        pass.cuts.push(Cut::new(raw.start, raw.end, with));
    }
}

fn is_base64(text: &[u8], last: bool) -> bool {
    let end = if last {
        text.len() - text.iter().rev().take(2).take_while(|byte| **byte == b'=').count()
    } else {
        text.len()
    };
    let is_char = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    // Padding may be cut from its end by the window.
    let end =
        if last { end } else { end - text.iter().rev().take(2).take_while(|byte| **byte == b'=').count() };
    text.get(..end).is_some_and(|text| text.iter().all(is_char))
}

impl Chars {
    fn read(source: &dyn Source, buf: &mut Vec<u8>, from: u64, stop: u64) -> Result<Chars, Blocked> {
        let mut view = View::default();
        let mut at = from;
        while view.len() < SIZE && at < stop {
            let want = usize::try_from(stop - at).unwrap_or(usize::MAX).min(CHUNK);
            let chunk = piece(source, buf, at, want)?;
            let mut taken = view.add_json(chunk, at, at + chunk.len() as u64 == stop);
            if taken == 0 {
                let chunk = whole_piece(source, buf, at, want.min(16))?;
                taken = view.add_json(chunk, at, at + chunk.len() as u64 == stop);
            }
            at += taken as u64;
        }
        let breaks = |text: &[u8], from: usize| {
            let at = from + text.get(from..)?.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
            Some(at..at + 1)
        };
        Ok(match view.without(breaks) {
            Some(bare) => Chars { view: bare, below: Some(view), end: at },
            None => Chars { view, below: None, end: at },
        })
    }

    /// The raw bytes that characters stand for.
    fn raw(&self, range: Range<usize>) -> Range<u64> {
        let range = self.view.origin(range);
        let Some(below) = &self.below else { return range };
        below.origin(
            usize::try_from(range.start).unwrap_or(usize::MAX)
                ..usize::try_from(range.end).unwrap_or(usize::MAX),
        )
    }
}
