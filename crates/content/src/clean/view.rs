//! Views: text taken from other text, with a map back to where each byte came from.

use std::ops::Range;

use memchr::{memchr, memchr2};

use super::escape::{Escape, may_go_on};

/// Stands in a view for the quote at either end of a string literal. No byte of any text in UTF-8 is like it.
pub(crate) const EDGE: u8 = 0xff;

/// A run of plain bytes that is longer than this is searched in another way.
const LONG: usize = 64;

/// Text, and for each byte the place that it stands for in the text that it was taken from: its parent, or the raw answer.
#[derive(Debug, Default)]
pub(crate) struct View {
    text: Vec<u8>,
    segs: Vec<Seg>,
    /// The piece that every byte stands for, if it is one and the same.
    piece: Option<Range<u64>>,
}

/// A part of a view, up to the next one: first bytes that together stand for one piece of the parent, then bytes that stand for one
/// byte each, in order, from the end of that piece on. Twelve bytes, because every byte of a view may have one.
#[derive(Debug, Clone, Copy)]
struct Seg {
    /// Where it begins in the view.
    at: u32,
    /// Where the piece begins in the parent: the lower and the upper part of the offset.
    from: (u32, u16),
    /// How many bytes stand for the piece together; there may be none.
    len: u8,
    /// How long the piece is.
    whole: u8,
}

impl View {
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.segs.clear();
    }

    /// A view every byte of which stands for the same piece of the parent.
    pub(crate) fn of_one_piece(text: Vec<u8>, piece: Range<usize>) -> View {
        View { text, segs: Vec::new(), piece: Some(piece.start as u64..piece.end as u64) }
    }

    /// Appends bytes that stand for themselves, from `from` on in the parent.
    pub(crate) fn add_plain(&mut self, bytes: &[u8], from: u64) {
        self.begin(from);
        self.text.extend_from_slice(bytes);
    }

    /// Appends JSON from `from` on in the raw answer: the inside of literals decoded, their quotes as [`EDGE`], everything else as
    /// it is. Stops before an escape that is cut by the end of `raw` unless this is `all`; says how much was taken.
    pub(crate) fn add_json(&mut self, raw: &[u8], from: u64, all: bool) -> usize {
        self.begin(from);
        let mut done = 0;
        loop {
            let rest = raw.get(done..).unwrap_or_default();
            done += self.add_run(rest);
            let tail = raw.get(done..).unwrap_or_default();
            match tail.first() {
                None => return done,
                Some(b'"') => {
                    self.text.push(EDGE);
                    done += 1;
                }
                Some(_) if !all && tail.len() < 12 && may_go_on(tail) => return done,
                Some(_) => {
                    // What no scanner lets through stands for itself.
                    let escape = Escape::read(tail).unwrap_or(Escape::plain(b'\\', 1));
                    self.add_escape(&escape, from + done as u64);
                    done += escape.len;
                }
            }
        }
    }

    /// Appends what stands before the first quote or backslash, eight bytes at a time; says how much.
    #[inline]
    fn add_run(&mut self, rest: &[u8]) -> usize {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const HIGHS: u64 = 0x8080_8080_8080_8080;
        let before = self.text.len();
        let (words, tail) = rest.as_chunks::<8>();
        let (long, words) = if rest.len() > LONG { words.split_at(LONG / 8) } else { (words, &[][..]) };
        for word in long {
            let bits = u64::from_le_bytes(*word);
            let quote = bits ^ (ONES * 0x22);
            let backslash = bits ^ (ONES * 0x5c);
            let marks =
                ((quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash)) & HIGHS;
            self.text.extend_from_slice(word);
            if marks != 0 {
                let extra = 8 - (marks.trailing_zeros() / 8) as usize;
                self.text.truncate(self.text.len() - extra);
                return self.text.len() - before;
            }
        }
        // A run that is longer than usual is left to the search that takes longer to begin.
        let rest = if words.is_empty() { tail } else { rest.get(LONG..).unwrap_or_default() };
        let run = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        self.text.extend_from_slice(rest.get(..run).unwrap_or_default());
        self.text.len() - before
    }

    /// The text with the escapes of JSON undone wherever they stand, as for JSON inside a text. `None` if there are none.
    pub(crate) fn unescaped(&self) -> Option<View> {
        let text = &self.text;
        let mut view = View::default();
        let (mut done, mut at) = (0, 0);
        while let Some(run) = memchr(b'\\', text.get(at..).unwrap_or_default()) {
            at += run;
            match Escape::read(text.get(at..).unwrap_or_default()) {
                Some(escape) => {
                    view.reserve(text.len());
                    view.add_plain(text.get(done..at).unwrap_or_default(), done as u64);
                    done = at + escape.len;
                    view.add_escape(&escape, at as u64);
                    at = done;
                }
                None => at += 1,
            }
        }
        if done == 0 {
            return None;
        }
        view.add_plain(text.get(done..).unwrap_or_default(), done as u64);
        Some(view)
    }

    /// The text without the pieces that `next` gives, from one offset to the next. `None` if there are none.
    pub(crate) fn without(&self, mut next: impl FnMut(&[u8], usize) -> Option<Range<usize>>) -> Option<View> {
        let mut view = View::default();
        let mut done = 0;
        while let Some(piece) = next(&self.text, done) {
            view.reserve(self.text.len());
            view.add_plain(self.text.get(done..piece.start).unwrap_or_default(), done as u64);
            done = piece.end;
        }
        if done == 0 {
            return None;
        }
        view.add_plain(self.text.get(done..).unwrap_or_default(), done as u64);
        Some(view)
    }

    /// The piece of the parent that a piece of the view stands for.
    pub(crate) fn origin(&self, range: Range<usize>) -> Range<u64> {
        if let Some(piece) = &self.piece {
            return piece.clone();
        }
        let start = self.seg(range.start).map_or(0, |seg| seg.first(range.start));
        if range.is_empty() {
            return start..start;
        }
        let last = range.end - 1;
        let end = self.seg(last).map_or(0, |seg| seg.end(last));
        start..end.max(start)
    }

    /// The first byte of the view that stands for byte `parent` or a later one.
    pub(crate) fn offset_of(&self, parent: u64) -> usize {
        let next = self.segs.partition_point(|seg| seg.from() <= parent);
        let limit = self.segs.get(next).map_or(self.text.len(), |seg| seg.at as usize);
        let Some(seg) = next.checked_sub(1).and_then(|index| self.segs.get(index)) else { return 0 };
        let into = usize::try_from(parent - seg.from()).unwrap_or(usize::MAX);
        let (at, whole) = (seg.at as usize, usize::from(seg.whole));
        if into == 0 {
            at
        } else {
            (at + usize::from(seg.len)).saturating_add(into.saturating_sub(whole)).min(limit)
        }
    }

    /// True if something was taken out before byte `at`, so that it does not belong to what stands before it.
    pub(crate) fn gap_before(&self, at: usize) -> bool {
        let Some(seg) = self.seg(at).filter(|seg| seg.at as usize == at && at > 0) else { return false };
        self.origin(at - 1..at).end < seg.from()
    }

    /// Where the half of a surrogate pair that ends at `at` begins, if there is one: it was an escape and became U+FFFD.
    pub(crate) fn lone_surrogate_before(&self, at: usize) -> Option<usize> {
        let start = at.checked_sub(3)?;
        let is_one = self.text.get(start..at)? == "\u{fffd}".as_bytes()
            && self.seg(start).filter(|seg| seg.at as usize == start)?.whole == 6;
        is_one.then_some(start)
    }

    fn reserve(&mut self, len: usize) {
        if self.text.capacity() == 0 {
            self.text.reserve_exact(len);
        }
    }

    fn seg(&self, at: usize) -> Option<Seg> {
        let next = self.segs.partition_point(|seg| seg.at as usize <= at);
        self.segs.get(next.checked_sub(1)?).copied()
    }

    /// Lets what follows stand for itself from `from` on.
    fn begin(&mut self, from: u64) {
        let at = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        match self.segs.last_mut() {
            Some(last) if last.first(at as usize) == from && last.at + u32::from(last.len) <= at => {}
            Some(last) if last.at == at => *last = Seg::new(at, 0, from, 0),
            _ => self.segs.push(Seg::new(at, 0, from, 0)),
        }
    }

    #[inline]
    fn add_escape(&mut self, escape: &Escape, from: u64) {
        let at = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let seg = Seg::new(at, escape.says_len, from, escape.len);
        match self.segs.last_mut() {
            Some(last) if last.at == at => *last = seg,
            _ => self.segs.push(seg),
        }
        if escape.says_len == 1 {
            self.text.push(escape.says[0]);
        } else {
            self.text.extend_from_slice(escape.says.get(..escape.says_len).unwrap_or_default());
        }
    }
}

impl Seg {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the offset is cut into two parts; no answer has 2^48 bytes"
    )]
    fn new(at: u32, len: usize, from: u64, whole: usize) -> Seg {
        let [len, whole] = [len, whole].map(|len| u8::try_from(len).unwrap_or(u8::MAX));
        Seg { at, from: (from as u32, (from >> 32) as u16), len, whole }
    }

    /// Where the piece begins in the parent.
    fn from(&self) -> u64 {
        u64::from(self.from.1) << 32 | u64::from(self.from.0)
    }

    /// The place of the first byte that byte `at` of the view stands for.
    fn first(&self, at: usize) -> u64 {
        match (at - self.at as usize).checked_sub(usize::from(self.len)) {
            Some(after) => self.from() + u64::from(self.whole) + after as u64,
            None => self.from(),
        }
    }

    /// The place after the last byte that byte `at` of the view stands for.
    fn end(&self, at: usize) -> u64 {
        let after = (at - self.at as usize).checked_sub(usize::from(self.len));
        self.from() + u64::from(self.whole) + after.map_or(0, |after| after as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(raw: &str) -> View {
        let mut view = View::default();
        assert_eq!(view.add_json(raw.as_bytes(), 100, true), raw.len());
        view
    }

    #[test]
    fn every_byte_of_a_view_leads_back_to_what_it_stands_for() {
        let raw = r#"{"a\n\"b":"\u0041é\ud83d\ude00\/z\ud83d"}"#;
        let view = json(raw);
        let text: Vec<u8> =
            "{~a\n\"b~:~Aé😀/z\u{fffd}~}".bytes().map(|b| if b == b'~' { EDGE } else { b }).collect();
        assert_eq!(view.text(), text);
        for (word, origin) in [
            ("\n\"b", r#"\n\"b"#),
            ("A", r"\u0041"),
            ("é", "é"),
            ("😀/", r"\ud83d\ude00\/"),
            ("\u{fffd}", r"\ud83d"),
        ] {
            let at = memchr::memmem::find(view.text(), word.as_bytes()).unwrap();
            let range = view.origin(at..at + word.len());
            let (start, end) =
                (usize::try_from(range.start).unwrap() - 100, usize::try_from(range.end).unwrap() - 100);
            assert_eq!(&raw[start..end], origin, "{word}");
            assert_eq!(view.offset_of(range.start), at);
            assert!(!view.gap_before(at));
        }
        // One byte of a character that was escaped stands for all of the escape.
        let smile = memchr::memmem::find(view.text(), "😀".as_bytes()).unwrap();
        assert_eq!(view.origin(smile + 1..smile + 2), view.origin(smile..smile + 4));
    }

    #[test]
    fn an_escape_that_is_cut_waits_for_its_end() {
        for raw in [r#""ab\n""#, r#""ab\u00e9""#, r#""ab\ud83d\ude00c""#, r#""ab\ud83dxyz\\\"""#] {
            let whole = json(raw);
            for cut in 0..raw.len() {
                if !raw.is_char_boundary(cut) {
                    continue;
                }
                let mut view = View::default();
                let taken = view.add_json(&raw.as_bytes()[..cut], 100, false);
                assert!(cut - taken < 12);
                view.add_json(&raw.as_bytes()[taken..], 100 + taken as u64, true);
                assert_eq!(view.text(), whole.text(), "{raw} cut at {cut}");
                for at in 0..view.len() {
                    assert_eq!(view.origin(at..at + 1), whole.origin(at..at + 1), "{raw} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn json_in_a_text_is_decoded_once_more() {
        let view = json(r#""{\"k\":\"a\\nb\\u0041\"} C:\\dir\\""#);
        let inner = view.unescaped().unwrap();
        let at = memchr::memmem::find(inner.text(), b"a\nbA").unwrap();
        let outer = view.origin(0..1).start;
        let range = inner.origin(at..at + 4);
        let raw = view.origin(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
        assert_eq!(raw.end - raw.start, r"a\\nb\\u0041".len() as u64);
        assert!(raw.start > outer);
        assert_eq!(inner.text().last(), Some(&EDGE), "an edge is never part of an escape");
        assert!(json(r#""plain\n""#).unescaped().is_none());
    }

    #[test]
    fn what_was_taken_out_leaves_a_gap() {
        let view = json(r#""gh--p_\u002dx""#);
        let bare = view
            .without(|text, from| {
                let at = from + text.get(from..)?.iter().position(|&byte| byte == b'-')?;
                Some(at..at + 1)
            })
            .unwrap();
        assert_eq!(bare.text(), b"\xffghp_x\xff");
        let gaps: Vec<usize> = (0..bare.len()).filter(|&at| bare.gap_before(at)).collect();
        assert_eq!(gaps, [3, 5]);
        assert_eq!(bare.origin(1..6), 1..9);
    }
}
