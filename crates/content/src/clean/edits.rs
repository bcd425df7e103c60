//! The list of edits, and reading bytes with the edits applied.

use std::io;
use std::sync::Arc;

use jsonspan::Span;

use super::marks::{Mark, Marks};
use super::{Inner, Redacted};
use crate::source::ends_early;

/// Bytes of the raw answer that are replaced. An edit lies inside one string literal, without its quotes, and its replacement is
/// written as it stands inside a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit<'a> {
    span: Span,
    with: &'a [u8],
}

impl<'a> Edit<'a> {
    /// The raw bytes that are replaced.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// What stands there instead.
    #[must_use]
    pub fn replacement(&self) -> &'a [u8] {
        self.with
    }
}

/// A place to be cut out, and the number of the mark that stands there instead. Sixteen bytes, because there may be millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) start: u64,
    pub(crate) len: u32,
    pub(crate) mark: u32,
}

impl Cut {
    pub(crate) fn new(start: u64, end: u64, mark: u32) -> Cut {
        Cut { start, len: u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX), mark }
    }

    pub(crate) fn end(self) -> u64 {
        self.start + u64::from(self.len)
    }

    pub(crate) fn span(self) -> Span {
        Span::new(self.start, self.end())
    }
}

/// Sorts and merges places. Of those that overlap, one remains that covers all of them and has the weightiest mark; so do places
/// that touch and leave nothing. What covers no byte is dropped.
pub(crate) fn merge(cuts: &mut Vec<Cut>, marks: &Marks) {
    cuts.retain(|cut| cut.len > 0);
    cuts.sort_by_key(|cut| cut.start);
    cuts.dedup_by(|next, last| {
        let joins = next.start < last.end()
            || (next.start == last.end() && marks.is_empty_mark(next.mark) && marks.is_empty_mark(last.mark));
        if joins {
            if marks.weight(next.mark) > marks.weight(last.mark) {
                last.mark = next.mark;
            }
            *last = Cut::new(last.start, last.end().max(next.end()), last.mark);
        }
        joins
    });
}

/// Edits in the order of the text; no two of them touch the same byte.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    cuts: Vec<Cut>,
    marks: Marks,
}

impl Edits {
    /// The places must have been merged.
    pub(crate) fn new(cuts: Vec<Cut>, marks: Marks) -> Edits {
        Edits { cuts, marks }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Edit<'_>> {
        self.cuts.iter().map(|cut| Edit { span: cut.span(), with: self.with(*cut) })
    }

    fn with(&self, cut: Cut) -> &[u8] {
        self.marks.get(cut.mark).map_or(&[], Mark::text)
    }

    fn get(&self, index: usize) -> Option<Edit<'_>> {
        self.cuts.get(index).map(|cut| Edit { span: cut.span(), with: self.with(*cut) })
    }

    /// Number of bytes that `len` raw bytes have after the edits.
    pub(crate) fn len_after(&self, len: u64) -> u64 {
        self.iter().fold(len, |len, edit| (len + edit.with.len() as u64).saturating_sub(edit.span.len()))
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
        let inner = Arc::clone(&redacted.inner);
        let edit = inner.edits.cuts.partition_point(|cut| cut.end() <= span.start);
        RawStream { inner, at: span.start, end: span.end, edit, replacing: None }
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
        let edit = self.inner.edits.get(self.edit)?;
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
                self.at = self.inner.edits.get(self.edit).map_or(self.end, |edit| edit.span.end);
                self.edit += 1;
            }
            let next_edit = self.inner.edits.get(self.edit).map_or(u64::MAX, |edit| edit.span.start);
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
    use crate::clean::Findings;
    use crate::{Answer, Format};

    /// Places and what stands there instead.
    fn edits(found: &[(u64, u64, &str)]) -> (Vec<Cut>, Marks) {
        let mut marks = Marks::default();
        let cuts =
            found.iter().map(|&(start, end, with)| Cut::new(start, end, marks.add_plain(with, 1))).collect();
        (cuts, marks)
    }

    fn redacted(raw: &str, found: &[(u64, u64, &str)]) -> Redacted {
        let answer = Answer::index(Arc::new(raw.as_bytes().to_vec()), &|| false).unwrap();
        let (mut cuts, marks) = edits(found);
        merge(&mut cuts, &marks);
        let inner = Inner { answer, edits: Edits::new(cuts, marks), findings: Findings::default() };
        Redacted { inner: Arc::new(inner) }
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
        let span = |word: &str, with: &'static str| {
            let at = raw.find(word).unwrap() as u64;
            (at, at + word.len() as u64, with)
        };
        let found = [span("CC", ""), span("BBBB", "[\\u0042]"), span("AAAA", "[REDACTED:token]")];
        let redacted = redacted(raw, &found);
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
        let redacted =
            redacted(raw, &[(first, first + 1, "1"), (first + 1, first + 2, "2"), (last, last + 2, "3")]);
        assert_eq!(read(|| Box::new(redacted.rendition(Format::Text).unwrap())), "12");
        assert!(read(|| Box::new(redacted.json())).ends_with(r#""structuredContent":{"k":"3"}}"#));
    }

    #[test]
    fn findings_that_overlap_become_one_edit() {
        let (mut cuts, mut marks) =
            edits(&[(5, 9, "b"), (0, 6, "a"), (9, 10, "c"), (3, 3, "x"), (12, 20, "d"), (20, 24, "e")]);
        let heavy = marks.add_plain("heavy", 2);
        let strip = marks.add_plain("", 0);
        cuts.extend([Cut::new(11, 13, strip), Cut::new(22, 26, heavy)]);
        cuts.extend([Cut::new(30, 31, strip), Cut::new(31, 32, strip)]);
        merge(&mut cuts, &marks);
        let merged = Edits::new(cuts, marks);
        let list: Vec<_> = merged
            .iter()
            .map(|edit| (edit.span.start, edit.span.end, str::from_utf8(edit.with).unwrap()))
            .collect();
        assert_eq!(list, [(0, 9, "a"), (9, 10, "c"), (11, 20, "d"), (20, 26, "heavy"), (30, 32, "")]);
        assert_eq!(merged.len_after(40), 40 - 9 - 1 - 9 - 6 - 2 + 1 + 1 + 1 + 5);
    }
}
