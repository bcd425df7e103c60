//! The answer as a stream of windows: decoded views that overlap, so that nothing is cut where it matters.

use std::io;

use jsonspan::Span;
use memchr::memchr_iter;

use super::detect::LONGEST;
use super::view::{EDGE, View};
use crate::source::{CHUNK, Source, ends_early};

/// Decoded bytes of one window.
const SIZE: usize = 512 * 1024;
/// Decoded bytes that a window shows again of what stands before it: names, schemes, what must not touch a match.
const BEHIND: usize = 1024;

/// The JSON of an answer, window by window. Holds one window.
pub(crate) struct Windows<'a> {
    source: &'a dyn Source,
    /// Insides of literals that are left out, in order, and how many lie behind.
    skips: &'a [Span],
    skipped: usize,
    /// Raw offset where the next window begins, and where what it is to look at begins.
    base: u64,
    fresh: u64,
    /// The next window begins inside a string.
    inside: bool,
    view: View,
    buf: Vec<u8>,
    ended: bool,
}

/// One window.
pub(crate) struct Window<'a> {
    pub(crate) view: &'a View,
    /// It begins inside a string.
    pub(crate) inside: bool,
    /// What begins from here up to `limit` is to be looked at. The rest is there to be seen.
    pub(crate) from: usize,
    pub(crate) limit: usize,
}

impl<'a> Windows<'a> {
    pub(crate) fn new(source: &'a dyn Source, skips: &'a [Span]) -> Windows<'a> {
        Windows {
            source,
            skips,
            skipped: 0,
            base: 0,
            fresh: 0,
            inside: false,
            view: View::default(),
            buf: Vec::new(),
            ended: false,
        }
    }

    /// The next window, `None` after the last one.
    pub(crate) fn next(&mut self) -> io::Result<Option<Window<'_>>> {
        if self.ended {
            return Ok(None);
        }
        self.fill()?;
        let inside = self.inside;
        let from = self.view.offset_of(self.fresh);
        let limit = if self.ended { self.view.len() } else { SIZE - LONGEST };
        if !self.ended {
            self.advance(limit);
        }
        Ok(Some(Window { view: &self.view, inside, from, limit }))
    }

    fn fill(&mut self) -> io::Result<()> {
        self.view.clear();
        let mut at = self.base;
        while self.view.len() < SIZE {
            let skip = self.skips.get(self.skipped..).unwrap_or_default().iter().find(|skip| skip.end > at);
            if let Some(skip) = skip.filter(|skip| skip.start <= at) {
                at = skip.end;
                continue;
            }
            let stop = skip.map_or(self.source.len(), |skip| skip.start);
            if at >= stop {
                self.ended = true;
                return Ok(());
            }
            let left = usize::try_from(stop - at).unwrap_or(usize::MAX);
            let chunk = piece(self.source, &mut self.buf, at, left.min(CHUNK).min(SIZE - self.view.len()))?;
            let mut taken = self.view.add_json(chunk, at, at + chunk.len() as u64 == stop);
            if taken == 0 {
                // Not even one escape: the window is nearly full, or the source gives a byte at a time.
                let chunk = whole_piece(self.source, &mut self.buf, at, left.min(12))?;
                taken = self.view.add_json(chunk, at, at + chunk.len() as u64 == stop);
            }
            at += taken as u64;
        }
        Ok(())
    }

    /// Lets the next window begin a little before `limit`.
    fn advance(&mut self, limit: usize) {
        let text = self.view.text();
        self.fresh = self.view.origin(limit..limit + 1).start;
        let mut start = limit.saturating_sub(BEHIND);
        while text.get(start).is_some_and(|byte| byte & 0xc0 == 0x80) && start > 0 {
            start -= 1;
        }
        let edges = memchr_iter(EDGE, text.get(..start).unwrap_or_default()).count();
        self.inside ^= edges % 2 == 1;
        self.base = self.view.origin(start..start + 1).start;
        let base = self.base;
        let behind = self.skips.get(self.skipped..).unwrap_or_default();
        self.skipped += behind.partition_point(|skip| skip.end <= base);
    }
}

/// Bytes of the source from `at` on, at most `want`, without a copy if they lie in memory.
pub(crate) fn piece<'a>(
    source: &'a dyn Source,
    buf: &'a mut Vec<u8>,
    at: u64,
    want: usize,
) -> io::Result<&'a [u8]> {
    if let Some(bytes) = source.as_slice() {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        return rest.get(..want).or(Some(rest)).filter(|rest| !rest.is_empty()).ok_or_else(ends_early);
    }
    buf.resize(want.max(1), 0);
    match source.read_at(at, buf)? {
        0 => Err(ends_early()),
        count => Ok(buf.get(..count).unwrap_or_default()),
    }
}

/// As [`piece`], but all of `want` bytes.
pub(crate) fn whole_piece<'a>(
    source: &'a dyn Source,
    buf: &'a mut Vec<u8>,
    at: u64,
    want: usize,
) -> io::Result<&'a [u8]> {
    buf.resize(want, 0);
    let mut filled = 0;
    while filled < want {
        match source.read_at(at + filled as u64, buf.get_mut(filled..).unwrap_or_default())? {
            0 => return Err(ends_early()),
            count => filled += count,
        }
    }
    Ok(buf)
}
