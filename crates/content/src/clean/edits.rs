//! The list of edits, and reading bytes with the edits applied.

use std::io;
use std::sync::Arc;

use jsonspan::Span;

use super::{Inner, Redacted};
use crate::source::ends_early;

/// Bytes of the raw answer that are replaced. An edit lies inside one string literal, without its quotes, and its replacement is
/// written as it stands inside a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    span: Span,
    with: Box<[u8]>,
}

impl Edit {
    /// The raw bytes that are replaced.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// What stands there instead.
    #[must_use]
    pub fn replacement(&self) -> &[u8] {
        &self.with
    }
}

/// Edits in the order of the text; no two of them touch the same byte.
#[derive(Debug, Default)]
pub(crate) struct Edits(Vec<Edit>);

impl Edits {
    /// Sorts and merges findings over `len` raw bytes. Of findings that overlap, one edit remains that covers all of them and
    /// says what the first one says. What covers no byte is dropped.
    pub(crate) fn merge(mut found: Vec<Edit>, len: u64) -> Edits {
        found.iter_mut().for_each(|edit| edit.span.end = edit.span.end.min(len));
        found.retain(|edit| !edit.span.is_empty());
        found.sort_by_key(|edit| edit.span.start);
        let mut merged: Vec<Edit> = Vec::with_capacity(found.len());
        for edit in found {
            match merged.last_mut() {
                Some(last) if edit.span.start < last.span.end => {
                    last.span.end = last.span.end.max(edit.span.end);
                }
                _ => merged.push(edit),
            }
        }
        Edits(merged)
    }

    pub(crate) fn list(&self) -> &[Edit] {
        &self.0
    }

    /// Number of bytes that `len` raw bytes have after the edits.
    pub(crate) fn len_after(&self, len: u64) -> u64 {
        self.0.iter().fold(len, |len, edit| (len + edit.with.len() as u64).saturating_sub(edit.span.len()))
    }
}

/// Reads the raw bytes of a span in order, with the edits applied.
pub(crate) struct RawStream {
    inner: Arc<Inner>,
    /// Raw offset of the next byte.
    at: u64,
    end: u64,
    /// The next edit, and how much of its replacement was given if it is being given.
    edit: usize,
    replacing: Option<usize>,
}

impl RawStream {
    pub(crate) fn new(redacted: &Redacted, span: Span) -> RawStream {
        let edit = redacted.edits().partition_point(|edit| edit.span.end <= span.start);
        RawStream { inner: Arc::clone(&redacted.inner), at: span.start, end: span.end, edit, replacing: None }
    }

    fn copy_raw(&mut self, upto: u64, buf: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(upto - self.at).unwrap_or(usize::MAX).min(buf.len());
        let count = self.inner.answer.raw().read_at(self.at, buf.get_mut(..room).unwrap_or_default())?;
        if count == 0 {
            return Err(ends_early());
        }
        self.at += count as u64;
        Ok(count)
    }

    /// Copies from the replacement; `None` when it is all given.
    fn copy_replacement(&mut self, buf: &mut [u8]) -> Option<usize> {
        let edit = self.inner.edits.0.get(self.edit)?;
        let given = self.replacing?;
        let rest = edit.with.get(given..).filter(|rest| !rest.is_empty())?;
        let count = rest.len().min(buf.len());
        buf.get_mut(..count)?.copy_from_slice(rest.get(..count)?);
        self.replacing = Some(given + count);
        Some(count)
    }
}

impl io::Read for RawStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if self.replacing.is_some() {
                if let Some(count) = self.copy_replacement(buf) {
                    return Ok(count);
                }
                self.replacing = None;
                self.at = self.inner.edits.0.get(self.edit).map_or(self.end, |edit| edit.span.end);
                self.edit += 1;
            }
            let next_edit = self.inner.edits.0.get(self.edit).map_or(u64::MAX, |edit| edit.span.start);
            let upto = self.end.min(next_edit);
            if self.at < upto {
                return self.copy_raw(upto, buf);
            }
            if self.at >= self.end {
                return Ok(0);
            }
            self.replacing = Some(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::{Answer, Format};

    fn edit(start: u64, end: u64, with: &str) -> Edit {
        Edit { span: Span::new(start, end), with: with.as_bytes().into() }
    }

    fn redacted(raw: &str, found: Vec<Edit>) -> Redacted {
        let answer = Answer::index(Arc::new(raw.as_bytes().to_vec()), &|| false).unwrap();
        let edits = Edits::merge(found, answer.len());
        Redacted { inner: Arc::new(Inner { answer, edits }) }
    }

    /// Reads with a buffer of each size and asserts that it makes no difference.
    fn read(open: impl Fn() -> Box<dyn Read>) -> String {
        let mut whole = String::new();
        open().read_to_string(&mut whole).unwrap();
        for size in [1, 2, 3, 7, 64] {
            let (mut reader, mut pieces, mut buf) = (open(), Vec::new(), vec![0; size]);
            loop {
                let count = reader.read(&mut buf).unwrap();
                if count == 0 {
                    break;
                }
                pieces.extend_from_slice(&buf[..count]);
            }
            assert_eq!(String::from_utf8(pieces).unwrap(), whole, "buffer of {size}");
        }
        whole
    }

    #[test]
    fn edits_are_applied_in_json_and_in_text() {
        let raw = r#"{"content":[{"type":"text","text":"key=AAAA and BBBB"},{"type":"text","text":"CC"}]}"#;
        let span = |word: &str, with: &str| {
            let at = raw.find(word).unwrap() as u64;
            edit(at, at + word.len() as u64, with)
        };
        let found = vec![span("CC", ""), span("BBBB", "[\\u0042]"), span("AAAA", "[REDACTED:token]")];
        let redacted = redacted(raw, found);
        let json = read(|| Box::new(redacted.json()));
        let wanted = raw.replace("AAAA", "[REDACTED:token]").replace("BBBB", "[\\u0042]").replace("CC", "");
        assert_eq!(json, wanted);
        assert_eq!(redacted.len(), json.len() as u64);
        assert_eq!(redacted.edits().len(), 3);
        let text = read(|| Box::new(redacted.rendition(Format::Text).unwrap()));
        assert_eq!(text, "key=[REDACTED:token] and [B]\n");
        assert_eq!(redacted.preview(5), ("key=[".to_owned(), true));
        assert_eq!(redacted.error_text(512), text);
    }

    #[test]
    fn edits_at_both_ends_of_a_literal_stay_in_it() {
        let raw = r#"{"content":[{"type":"text","text":"ab"}],"structuredContent":{"k":"ab"}}"#;
        let (first, last) = (raw.find("ab").unwrap() as u64, raw.rfind("ab").unwrap() as u64);
        let found =
            vec![edit(first, first + 1, "1"), edit(first + 1, first + 2, "2"), edit(last, last + 2, "3")];
        let redacted = redacted(raw, found);
        assert_eq!(read(|| Box::new(redacted.rendition(Format::Text).unwrap())), "12");
        assert!(read(|| Box::new(redacted.json())).ends_with(r#""structuredContent":{"k":"3"}}"#));
    }

    #[test]
    fn findings_that_overlap_become_one_edit() {
        let merged = Edits::merge(
            vec![edit(5, 9, "b"), edit(0, 6, "a"), edit(9, 10, "c"), edit(3, 3, "x"), edit(12, 99, "d")],
            20,
        );
        assert_eq!(merged.list(), [edit(0, 9, "a"), edit(9, 10, "c"), edit(12, 20, "d")]);
        assert_eq!(merged.len_after(20), 20 - 9 - 1 - 8 + 3);
    }
}
