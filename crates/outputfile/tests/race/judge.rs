//! The judgement of a race: what savers were told, what adversaries did and what is left must agree.
//!
//! Every file has a content of its own, and nobody but a save that replaced a file makes one go away unread. So files can
//! be counted like money: what was put in, less what successful saves replaced, must be somewhere at the end.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::adversary::{Loot, Move, Off};
use super::ground::{Census, Ground};
use super::saver::{Log, Refusal, Success, exchanges};

/// What a race showed.
#[derive(Debug, Default)]
pub struct Score {
    pub saves: u64,
    pub succeeded: u64,
    pub seen: u64,
    pub replaced: u64,
    pub reasons: BTreeMap<String, u64>,
    pub moves: BTreeMap<&'static str, u64>,
    pub read: u64,
}

impl Score {
    pub fn add(&mut self, other: Self) {
        self.saves += other.saves;
        self.succeeded += other.succeeded;
        self.seen += other.seen;
        self.replaced += other.replaced;
        self.read += other.read;
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        for (what, count) in other.moves {
            *self.moves.entry(what).or_default() += count;
        }
    }

    pub fn refused(&self) -> u64 {
        self.reasons.values().sum()
    }
}

/// All that is known of one race.
pub struct Race<'a> {
    pub ground: &'a Ground,
    pub logs: &'a [Log],
    pub offs: &'a [Off],
    pub loot: &'a Loot,
}

impl Race<'_> {
    /// Panics with what is wrong, if anything is.
    pub fn judge(&self, reasons: &[&str]) -> Score {
        self.ground.assert_untouched_outside();
        let census = self.ground.census();
        assert!(census.temporaries.is_empty(), "temporaries are left: {:?}", census.temporaries);
        let saved: HashMap<u64, &Success> =
            self.logs.iter().flat_map(|log| log.saved.iter().map(|(id, success)| (*id, success))).collect();
        self.check_reasons(reasons);
        self.check_left(&census, &saved);
        self.check_lies(&census, &saved);
        self.check_losses(&census, &saved);
        self.score(&saved)
    }

    fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.logs.iter().flat_map(|log| &log.refused)
    }

    fn check_reasons(&self, reasons: &[&str]) {
        for refusal in self.refusals() {
            assert!(reasons.contains(&&*refusal.reason), "an unexpected refusal: {}", refusal.text);
            assert!(refusal.reason != "Exists" || !refusal.overwrite, "{}", refusal.text);
        }
    }

    /// What is left was saved with success or planted, and is the file that its saver was told of.
    fn check_left(&self, census: &Census, saved: &HashMap<u64, &Success>) {
        for (id, kept) in &census.files {
            match saved.get(id) {
                Some(success) => {
                    assert_eq!((success.ino, &success.hash), (kept.ino, &kept.hash), "{}", kept.path.display());
                }
                None => {
                    let refusal = self.refusals().find(|refusal| refusal.id == *id).map(|refusal| &refusal.text);
                    let at = kept.path.display();
                    assert!(self.loot.planted.contains(id), "{at} is left by a save that failed: {refusal:?}");
                }
            }
            assert!(!self.loot.taken.contains_key(id), "{} was taken, and is here again", kept.path.display());
        }
    }

    /// From publishing until success was told, the directory must have been in its place for a moment at least.
    fn check_lies(&self, census: &Census, saved: &HashMap<u64, &Success>) {
        for (id, success) in saved {
            let after = self.offs.partition_point(|off| off.from <= success.published);
            let Some(off) = after.checked_sub(1).map(|at| &self.offs[at]) else { continue };
            if off.to < success.done {
                continue;
            }
            // In the tree that was the root at the start; else it may be in what stood in its place.
            let kept = census.files.get(id).and_then(|kept| kept.depth);
            let real = kept.or_else(|| self.loot.taken.get(id).copied());
            let lie = match off.what {
                Move::Link(level) => success.depth >= level.depth(),
                Move::Spare => real.is_some(),
                Move::Away(level) => real.is_some_and(|depth| depth >= level.depth()),
            };
            assert!(!lie, "success for a file that is not there: {id} {success:?} {off:?}");
        }
    }

    /// What was saved or planted is somewhere, but for what successful saves replaced.
    fn check_losses(&self, census: &Census, saved: &HashMap<u64, &Success>) {
        let mut left: HashSet<u64> = census.files.keys().copied().collect();
        left.extend(self.loot.taken.keys().chain(&self.loot.stolen));
        left.retain(|id| saved.contains_key(id) || self.loot.planted.contains(id));
        let put_in = saved.len() + self.loot.planted.len();
        let replaced = saved.values().filter(|success| success.replaced).count();
        // Who cannot exchange names replaces first and looks afterwards.
        let blind = self.logs.iter().filter(|log| !exchanges(log.way));
        let excused: usize = blind
            .map(|log| {
                let gave_up = |refusal: &&Refusal| refusal.overwrite && refusal.reason == "RootMoved";
                log.refused.iter().filter(gave_up).count()
            })
            .sum();
        let lost = (put_in - replaced).saturating_sub(left.len());
        assert!(
            lost <= excused,
            "{lost} files were lost without a success ({excused} excused): {put_in} put in, {replaced} replaced, {} left",
            left.len()
        );
        let blind = self.logs.iter().filter(|log| !exchanges(log.way));
        let blind: usize = blind.map(|log| log.saved.values().filter(|success| success.replaced).count()).sum();
        let gone = self.loot.things.saturating_sub(census.things);
        assert!(census.things <= self.loot.things, "links and directories appeared");
        assert!(gone <= (blind + excused) as u64, "{gone} links or directories were taken for files");
    }

    fn score(&self, saved: &HashMap<u64, &Success>) -> Score {
        let count = |wanted: fn(&Success) -> bool| saved.values().filter(|success| wanted(success)).count() as u64;
        let mut reasons = BTreeMap::new();
        for refusal in self.refusals() {
            *reasons.entry(refusal.reason.clone()).or_default() += 1;
        }
        let mut moves = self.loot.counts.clone();
        for off in self.offs {
            *moves.entry(off.what.name()).or_default() += 1;
        }
        Score {
            saves: (saved.len() + self.refusals().count()) as u64,
            succeeded: saved.len() as u64,
            seen: count(|success| success.seen),
            replaced: count(|success| success.replaced),
            reasons,
            moves,
            read: 0,
        }
    }
}
