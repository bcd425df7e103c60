//! One pass over an answer: windows, views of them, places to be cut.

use std::io;
use std::ops::Range;

use jsonspan::Span;
use memchr::memchr;

use super::blobs::{self, Blob};
use super::cleaning::{Action, Cleaning};
use super::detect::{Scan, Severity};
use super::edits::{Cut, Edits, merge};
use super::findings::{Blocked, Findings};
use super::marks::{Marks, Origin, STRIP};
use super::view::{EDGE, View};
use super::windows::{Window, Windows};
use super::{runs, strip};
use crate::source::Source;

/// The most places that are changed in one answer. With what one window may add, they take 32 MiB.
pub const MAX_EDITS: usize = 3 << 19;

/// Data up to this length, in bytes, that does not decode to text is looked at as it stands.
const SHORT: u64 = 4096;

/// What a pass has found so far.
pub(crate) struct Pass<'a> {
    pub(crate) cleaning: &'a Cleaning,
    pub(crate) marks: Marks,
    pub(crate) cuts: Vec<Cut>,
    /// Raw bytes that were not looked into.
    pub(crate) unscanned: u64,
    /// Bytes given to matchers.
    pub(crate) work: u64,
    /// Places in the window that is being looked at, and their marks.
    found: Vec<(Range<usize>, u32)>,
    /// Insides of base64 literals that the windows show all the same.
    shown: Vec<Span>,
    /// How many cuts were asked whether they block.
    asked: usize,
    /// What was only to be counted and has been.
    counted: Findings,
    /// The window that was looked at holds something that is not seen.
    hides: bool,
    first_forwarded: u32,
    /// What lies at a raw offset, for people.
    place: &'a dyn Fn(u64) -> String,
}

/// A view and what it was taken from, down to the window.
struct Layer<'a> {
    view: &'a View,
    below: Option<&'a Layer<'a>>,
    /// What of the view is to be looked at.
    range: Range<usize>,
}

/// What may still be done to a view.
#[derive(Clone, Copy)]
struct Ops {
    unescape: bool,
    uncover: bool,
    /// How often base64 may be decoded.
    unwrap: u8,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(cleaning: &'a Cleaning, place: &'a dyn Fn(u64) -> String) -> Pass<'a> {
        let mut marks = cleaning.marks().clone();
        let first_forwarded = marks.add_forwarded(cleaning.forwarded().names());
        let (cuts, found) = (Vec::new(), Vec::new());
        Pass {
            cleaning,
            marks,
            cuts,
            unscanned: 0,
            work: 0,
            found,
            shown: Vec::new(),
            asked: 0,
            counted: Findings::default(),
            hides: false,
            first_forwarded,
            place,
        }
    }

    /// Reads all of `source`. `blobs` are the insides of the literals with base64, in order.
    pub(crate) fn run(
        &mut self,
        source: &dyn Source,
        blobs: &[Span],
        cancel: &dyn Fn() -> bool,
    ) -> Result<(), Blocked> {
        let skips = self.blobs(source, blobs, cancel)?;
        let mut windows = Windows::new(source, &skips);
        while let Some(window) = windows.next()? {
            if cancel() {
                return Err(Blocked::Cancelled);
            }
            if self.cleaning.looks() {
                self.look(&Layer::whole(window.view, window.from..window.limit), Ops::ALL, window.inside);
            }
            self.settle(&window);
            self.strip(&window);
            self.check_bounds()?;
        }
        merge(&mut self.cuts, &self.marks);
        Ok(())
    }

    /// Looks into base64 data; says which of it the windows need not show.
    fn blobs(
        &mut self,
        source: &dyn Source,
        blobs: &[Span],
        cancel: &dyn Fn() -> bool,
    ) -> Result<Vec<Span>, Blocked> {
        if !self.cleaning.looks() {
            return Ok(blobs.to_vec());
        }
        let mut skips = Vec::new();
        for &span in blobs.iter().filter(|span| !span.is_empty()) {
            let blob = blobs::look(self, source, span, cancel)?;
            if matches!(blob, Blob::Binary) {
                self.unscanned += span.len();
            }
            // What is no text may be a plain secret in the wrong place, if it is so short.
            if matches!(blob, Blob::NotBase64) || (matches!(blob, Blob::Binary) && span.len() <= SHORT) {
                self.shown.push(span);
                continue;
            }
            skips.push(span);
            self.check_bounds()?;
        }
        Ok(skips)
    }

    /// Stops at the first critical finding if it blocks, and at too many findings.
    pub(crate) fn check_bounds(&mut self) -> Result<(), Blocked> {
        if self.cleaning.action() == Action::Block {
            let new = self.cuts.get(self.asked..).unwrap_or_default();
            if let Some((cut, category)) = new.iter().find_map(|cut| Some((cut, self.critical(cut.mark)?))) {
                return Err(Blocked::Secret { category, place: (self.place)(cut.start) });
            }
            self.asked = self.cuts.len();
        }
        if self.cuts.len() + self.marks.own_len() > MAX_EDITS {
            merge(&mut self.cuts, &self.marks);
            self.asked = self.cuts.len();
            if self.cleaning.action() == Action::Count {
                self.count();
            }
            if self.cuts.len() + self.marks.own_len() > MAX_EDITS {
                return Err(Blocked::TooMuch);
            }
        }
        Ok(())
    }

    /// True for what belongs to a base64 literal: it is never stripped.
    fn is_shown(&self, raw: u64) -> bool {
        let next = self.shown.partition_point(|span| span.end <= raw);
        self.shown.get(next).is_some_and(|span| span.start <= raw)
    }

    /// Counts the secrets among merged cuts that are only to be counted, and forgets them.
    fn count(&mut self) {
        let Pass { cleaning, marks, cuts, counted, place, .. } = self;
        cuts.retain(|cut| {
            let origin = marks.get(cut.mark).map_or(Origin::Strip, |mark| mark.origin());
            let stays = matches!(origin, Origin::Strip | Origin::Forwarded(_));
            if !stays {
                counted.add(*cut, origin, cleaning, *place);
            }
            stays
        });
    }

    fn critical(&self, mark: u32) -> Option<String> {
        let origin = self.marks.get(mark)?.origin();
        let (category, severity) = self.cleaning.label(origin)?;
        (severity == Severity::Critical).then(|| category.to_owned())
    }

    /// Looks for secrets in decoded bytes of base64 data and gives their places.
    pub(crate) fn look_at_bytes(&mut self, view: &View, range: Range<usize>) -> Vec<(Range<usize>, u32)> {
        self.look(&Layer::whole(view, range), Ops { unwrap: 1, ..Ops::ALL }, true);
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(range, _)| range.start);
        found
    }

    /// Looks for secrets in a view, then in the views that can be taken from it.
    fn look(&mut self, layer: &Layer<'_>, ops: Ops, inside: bool) {
        self.secrets(layer, inside);
        if ops.unwrap > 0 {
            self.wrapped(layer, ops);
        }
        if ops.unescape
            && let Some(view) = layer.view.unescaped()
        {
            self.work += layer.view.len() as u64;
            self.look(&layer.above(&view), Ops { unescape: false, ..ops }, inside);
        }
        if !ops.uncover {
            return;
        }
        let bare = layer.view.without(strip::next_unseen);
        if layer.below.is_none() {
            self.hides = bare.is_some();
        }
        if let Some(view) = bare {
            self.work += layer.view.len() as u64;
            self.look(&layer.above(&view), Ops { uncover: false, ..ops }, inside);
        }
    }

    fn secrets(&mut self, layer: &Layer<'_>, inside: bool) {
        let (view, range) = (layer.view, layer.range.clone());
        let Pass { cleaning, found, work, first_forwarded, .. } = self;
        if cleaning.action() != Action::Off {
            let mut scan = Scan { view, range: range.clone(), wanted: cleaning.categories(), work };
            scan.run(&mut |range, rule| found.push((layer.down(range), cleaning.rule_mark(rule))));
            cleaning.custom().scan(view, inside, range.clone(), work, &mut |range, index| {
                found.push((layer.down(range), cleaning.custom_mark(index)));
            });
        }
        cleaning.forwarded().scan(view, range, work, &mut |range, index| {
            found
                .push((layer.down(range), first_forwarded.saturating_add(u32::try_from(index).unwrap_or(0))));
        });
    }

    /// Looks into runs of base64: a run that hides a secret is a finding, whole.
    fn wrapped(&mut self, layer: &Layer<'_>, ops: Ops) {
        let text = layer.view.text();
        self.work += layer.range.len() as u64;
        runs::each(text, layer.range.clone(), &mut |range, run, cut| {
            self.work += run.len() as u64;
            if self.cleaning.action() != Action::Off {
                let Pass { cleaning, found, work, .. } = self;
                let mut scan =
                    Scan { view: layer.view, range: range.clone(), wanted: cleaning.categories(), work };
                scan.run_start(&mut |range, rule| found.push((layer.down(range), cleaning.rule_mark(rule))));
            }
            // A run that a window cuts may begin at any of four places.
            for shift in 0..if cut { 4 } else { 1 } {
                let Some(bytes) = run.get(shift..).and_then(runs::decode) else { continue };
                let view = View::of_one_piece(bytes, range.clone());
                let below = Layer { view: &view, below: Some(layer), range: 0..view.len() };
                self.look(&below, Ops { unwrap: ops.unwrap - 1, ..Ops::ALL }, true);
            }
        });
    }

    /// Turns what was found in a window into cuts inside single literals.
    fn settle(&mut self, window: &Window<'_>) {
        let text = window.view.text();
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(range, _)| range.start);
        let (mut at, mut inside) = (0, window.inside);
        for (range, mark) in found.drain(..) {
            let between = text.get(at..range.start).unwrap_or_default();
            inside ^= memchr::memchr_iter(EDGE, between).count() % 2 == 1;
            at = range.start;
            self.cut_literals(window.view, range, inside, mark);
        }
        self.found = found;
    }

    fn cut_literals(&mut self, view: &View, range: Range<usize>, mut inside: bool, mark: u32) {
        let mut at = range.start;
        while at < range.end {
            let rest = view.text().get(at..range.end).unwrap_or_default();
            let len = memchr(EDGE, rest).unwrap_or(rest.len());
            if inside && len > 0 {
                let raw = view.origin(at..at + len);
                self.cuts.push(Cut::new(raw.start, raw.end, mark));
            }
            inside = !inside;
            at += len + 1;
        }
    }

    fn strip(&mut self, window: &Window<'_>) {
        let classes = self.cleaning.strip_classes();
        if classes.is_empty() || (self.cleaning.looks() && !self.hides) {
            return;
        }
        let mut at = window.from;
        while let Some(piece) =
            strip::next(window.view.text(), at, classes).filter(|piece| piece.start < window.limit)
        {
            at = piece.end;
            if self.is_shown(window.view.origin(piece.clone()).start) {
                continue;
            }
            if let Some(lone) = window.view.lone_surrogate_before(piece.start) {
                // Without what stands between them, two halves of a pair would become one character.
                let raw = window.view.origin(lone..piece.end);
                let mark = self.marks.add(b"\\ufffd".to_vec(), STRIP);
                self.cuts.push(Cut::new(raw.start, raw.end, mark));
                continue;
            }
            let raw = window.view.origin(piece);
            match self.cuts.last_mut() {
                Some(last) if last.mark == STRIP && last.end() == raw.start => {
                    *last = Cut::new(last.start, raw.end, STRIP);
                }
                _ => self.cuts.push(Cut::new(raw.start, raw.end, STRIP)),
            }
        }
        self.work += window.view.len() as u64;
    }

    /// The edits, and what is to be told of them. What was only to be counted is counted and left.
    pub(crate) fn finish(mut self) -> (Edits, Findings) {
        if self.cleaning.action() == Action::Count {
            self.count();
        }
        let Pass { cleaning, marks, cuts, mut counted, place, .. } = self;
        for cut in &cuts {
            if let Some(mark) = marks.get(cut.mark) {
                counted.add(*cut, mark.origin(), cleaning, place);
            }
        }
        counted.unscanned_bytes = self.unscanned;
        counted.work = self.work;
        (Edits::new(cuts, marks), counted)
    }
}

impl<'a> Layer<'a> {
    fn whole(view: &'a View, range: Range<usize>) -> Layer<'a> {
        Layer { view, below: None, range }
    }

    /// A view taken from this one, to be looked at where this one is.
    fn above<'b>(&'b self, view: &'b View) -> Layer<'b> {
        let range = view.offset_of(self.range.start as u64)..view.offset_of(self.range.end as u64);
        Layer { view, below: Some(self), range }
    }

    /// The piece of the window that a piece of this view stands for.
    fn down(&self, range: Range<usize>) -> Range<usize> {
        let Some(below) = self.below else { return range };
        let range = self.view.origin(range);
        below.down(
            usize::try_from(range.start).unwrap_or(usize::MAX)
                ..usize::try_from(range.end).unwrap_or(usize::MAX),
        )
    }
}

impl Ops {
    const ALL: Ops = Ops { unescape: true, uncover: true, unwrap: 2 };
}

impl From<io::Error> for Blocked {
    fn from(error: io::Error) -> Blocked {
        Blocked::Io(error)
    }
}
