//! What a step of a save may have done: told from all moments of it, without what the plan did in between.

use std::collections::{BTreeMap, BTreeSet};

use outputfile::Saved;
use sha2::{Digest as _, Sha256};

use super::draw::At;
use super::model::Model;
use super::world::{Change, Kind, World, changes};

/// All that was seen around a step.
#[derive(Debug)]
pub struct Moments {
    pub start: World,
    /// Before and after what the plan did in the midst of it.
    pub between: Vec<(World, World)>,
    pub end: World,
}

impl Moments {
    /// Whether nobody else changed anything meanwhile.
    pub fn is_quiet(&self) -> bool {
        self.between.iter().all(|(before, after)| before == after)
    }

    /// From which moment to which only the step was at work.
    fn ours(&self) -> impl Iterator<Item = (&World, &World)> {
        let starts = std::iter::once(&self.start).chain(self.between.iter().map(|(_, after)| after));
        let ends = self.between.iter().map(|(before, _)| before).chain(std::iter::once(&self.end));
        starts.zip(ends)
    }

    fn all(&self) -> impl Iterator<Item = &World> {
        let between = self.between.iter().flat_map(|(before, after)| [before, after]);
        std::iter::once(&self.start).chain(between).chain(std::iter::once(&self.end))
    }
}

/// A save, and what it made so far.
#[derive(Debug)]
pub struct Deed {
    pub at: At,
    pub overwrite: bool,
    made: BTreeMap<u64, Made>,
}

#[derive(Debug, Clone, Copy)]
struct Made {
    kind: Kind,
    /// It was made where saves may make things.
    inside: bool,
}

impl Deed {
    pub fn new(at: At, overwrite: bool) -> Self {
        Self { at, overwrite, made: BTreeMap::new() }
    }
}

/// What the plan touched with its own hands.
#[derive(Debug, Default)]
pub struct Judge {
    touched: BTreeSet<u64>,
    /// Names cannot be exchanged: what comes between the last look and the rename is replaced unseen, whatever it is.
    blind: bool,
}

type Verdict = Result<(), String>;

impl Judge {
    pub fn new(blind: bool) -> Judge {
        Judge { touched: BTreeSet::new(), blind }
    }

    /// Notes what the plan did itself between two moments. Its rivals take no temporary whose writer lives.
    pub fn note(&mut self, before: &World, after: &World, saves: &[&Deed]) -> Verdict {
        for change in changes(before, after) {
            match change {
                Change::Removed { name, number, .. }
                    if is_temporary(&name)
                        && saves.iter().any(|save| save.made.contains_key(&number))
                        && !after.nodes.contains_key(&number) =>
                {
                    return Err(format!("a rival removed {name} of a living writer"));
                }
                Change::Removed { number, .. } | Change::Added { number, .. } => {
                    self.touched.insert(number);
                }
                Change::Altered(_) => {}
            }
        }
        Ok(())
    }

    /// Judges a step; `done` is `None` when it failed, and `Some(Some)` when a file was published.
    pub fn step(
        &mut self,
        deed: &mut Deed,
        others: &[&Deed],
        phase: &str,
        done: Option<Option<&Saved>>,
        moments: &Moments,
        model: &Model,
    ) -> Verdict {
        for (index, (before, after)) in moments.ours().enumerate() {
            for change in changes(before, after) {
                allow(deed, others, phase, &change, before, after, model)?;
                // Before anybody came in between, there is no excuse, not even for a moment.
                // Nor is a place where it was, by another's move, while it had no name yet, where it is.
                if let Change::Added { directory, name, number } = &change
                    && index == 0
                    && deed.made.get(number).is_some_and(|made| !made.inside && !is_temporary(name))
                    && ![before, after].iter().any(|world| model.is_inside(world, deed.at, *directory))
                {
                    return Err(format!("{name} was made outside"));
                }
            }
        }
        let mut expected = moments.start.names.clone();
        for (before, after) in &moments.between {
            // A temporary that is not locked yet may be taken for a leftover, and another one is made then.
            let own = Some(&*deed).filter(|_| phase != "begin");
            let saves: Vec<&Deed> = others.iter().copied().chain(own).collect();
            self.note(before, after, &saves)?;
            for change in changes(before, after) {
                match change {
                    Change::Removed { directory, name, .. } => drop(expected.remove(&(directory, name))),
                    Change::Added { directory, name, number } => {
                        expected.insert((directory, name), number);
                    }
                    Change::Altered(_) => {}
                }
            }
        }
        let settled = Settled {
            deed,
            phase,
            done,
            end: &moments.end,
            moments,
            others,
            touched: &self.touched,
            blind: self.blind,
            model,
        };
        settled.nothing_is_lost(&expected)?;
        settled.nothing_came(&expected)?;
        settled.what_was_made()
    }
}

/// Whether a step may make this change, for a moment at least.
fn allow(
    deed: &mut Deed,
    others: &[&Deed],
    phase: &str,
    change: &Change,
    before: &World,
    after: &World,
    model: &Model,
) -> Verdict {
    let replaces = phase == "commit" && deed.overwrite;
    match change {
        Change::Altered(number) if deed.made.contains_key(number) => Ok(()),
        Change::Altered(number) => Err(format!("changed {:?} of another", after.nodes[number])),
        Change::Added { directory, name, number } if is_new(phase, name, *number, before, after) => {
            if deed.made.contains_key(number) {
                return Ok(());
            }
            let node = &after.nodes[number];
            let right = match (node.kind, phase) {
                (Kind::Directory, "begin") => node.mode == 0o700,
                (Kind::File, "begin") => node.mode == 0o600 && is_temporary(name),
                (Kind::File, "commit") => {
                    node.mode == 0o600 && (is_temporary(name) || name == deed.at.name())
                }
                _ => false,
            };
            if !right {
                return Err(format!("made {name}: {node:?}"));
            }
            let inside = model.is_inside(before, deed.at, *directory)
                || model.is_inside(after, deed.at, *directory)
                || deed.made.get(directory).is_some_and(|made| made.inside);
            deed.made.insert(*number, Made { kind: node.kind, inside });
            Ok(())
        }
        Change::Added { name, number, .. } => {
            if deed.made.contains_key(number) || replaces {
                Ok(())
            } else {
                Err(format!("named {name} anew"))
            }
        }
        Change::Removed { name, number, .. } => {
            let is_file = before.kind(*number) == Some(Kind::File);
            let swept = phase == "begin" && is_temporary(name) && is_file;
            let of_others = others.iter().any(|other| other.made.contains_key(number));
            if deed.made.contains_key(number) || (replaces && !of_others) || (swept && !of_others) {
                return Ok(());
            }
            // A file that another save published is no more its own than anybody's.
            if replaces && !is_temporary(name) {
                return Ok(());
            }
            Err(format!("took {name} away"))
        }
    }
}

/// Whether something was not there before. On a disk a new temporary may have the number of one that was just swept.
fn is_new(phase: &str, name: &str, number: u64, before: &World, after: &World) -> bool {
    let swept = |key: &(u64, String)| is_temporary(&key.1) && key.1 != name && !after.names.contains_key(key);
    let again = phase == "begin" && is_temporary(name);
    let mut old = before.names.iter().filter(|(_, there)| **there == number).map(|(key, _)| key);
    !before.nodes.contains_key(&number) || (again && old.all(swept))
}

/// A step that is over.
struct Settled<'a> {
    deed: &'a Deed,
    phase: &'a str,
    done: Option<Option<&'a Saved>>,
    end: &'a World,
    moments: &'a Moments,
    others: &'a [&'a Deed],
    touched: &'a BTreeSet<u64>,
    blind: bool,
    model: &'a Model,
}

impl Settled<'_> {
    fn nothing_is_lost(&self, expected: &BTreeMap<(u64, String), u64>) -> Verdict {
        for (key, number) in expected {
            if self.end.names.get(key) == Some(number) || self.deed.made.contains_key(number) {
                continue;
            }
            let kind = self.moments.all().find_map(|world| world.kind(*number));
            let is_file = kind == Some(Kind::File);
            let published = matches!(self.done, Some(Some(_)));
            let came = self.blind && self.moments.start.names.get(key) != Some(number);
            let replaced = published
                && self.deed.overwrite
                && (is_file || (came && kind != Some(Kind::Directory)))
                && key.1 == self.deed.at.name()
                && self.end.names.get(key).is_some_and(|now| self.deed.made.contains_key(now));
            let swept = self.phase == "begin" && is_temporary(&key.1) && is_file;
            if !replaced && !swept {
                return Err(format!("{} is lost: it was {kind:?}", key.1));
            }
        }
        Ok(())
    }

    fn nothing_came(&self, expected: &BTreeMap<(u64, String), u64>) -> Verdict {
        for (key, number) in &self.end.names {
            // Somebody took the new one away when names were exchanged: the old one, or theirs, has its name again.
            let is_back = self.phase == "commit"
                && self.done.is_none()
                && self.deed.overwrite
                && !expected.contains_key(key)
                && self.moments.all().any(|world| world.names.get(key) == Some(number));
            if expected.get(key) != Some(number) && !self.deed.made.contains_key(number) && !is_back {
                return Err(format!("{} has appeared: {:?}", key.1, self.end.nodes[number]));
            }
        }
        Ok(())
    }

    /// Of a save that goes on, what it made is where it may be; of one that is over, nothing is left but its file.
    fn what_was_made(&self) -> Verdict {
        let published = self.done.flatten();
        let goes_on = self.done.is_some() && published.is_none();
        for ((directory, name), number) in &self.end.names {
            let Some(made) = self.deed.made.get(number) else { continue };
            let touched = self.touched.contains(number);
            let is_result = published.is_some_and(|saved| saved.identity.ino == *number);
            let stays = goes_on || is_result || (published.is_some() && made.kind == Kind::Directory);
            if stays {
                let hidden = goes_on && is_temporary(name);
                // What was moved away and back meanwhile is where it belongs.
                let inside = made.inside || self.model.is_inside(self.end, self.deed.at, *directory);
                if !inside && !hidden && !touched {
                    return Err(format!("{name} was made outside"));
                }
                continue;
            }
            let used = made.kind == Kind::Directory
                && (!self.end.is_empty(*number) || self.others.iter().any(|other| other.may_use(self.deed)));
            if !touched && !used {
                return Err(format!("{name} is left behind in {directory}: {:?}", self.end.nodes[number]));
            }
        }
        Ok(())
    }
}

impl Deed {
    /// Whether it may have reserved a name in a directory of the other.
    fn may_use(&self, other: &Self) -> bool {
        self.at.top() == other.at.top() || self.at.top() == "link" || other.at.top() == "link"
    }
}

/// A published file is what was told: at one moment after it was published at the least.
pub fn saved(saved: &Saved, bytes: &[u8], moments: &Moments, model: &Model, at: At) -> Verdict {
    if saved.bytes != bytes.len() as u64 || saved.sha256 != <[u8; 32]>::from(Sha256::digest(bytes)) {
        return Err(format!("told {saved:?} of {} bytes", bytes.len()));
    }
    if moments.is_quiet() {
        let there = found(&moments.start, saved);
        if saved.replaced != there.is_some() {
            return Err(format!("told that it replaced a file: {}", saved.replaced));
        }
    }
    let right = moments.all().any(|world| {
        let Some((directory, number)) = found(world, saved) else { return false };
        let node = &world.nodes[&number];
        number == saved.identity.ino
            && (node.kind, node.mode, node.content.as_slice()) == (Kind::File, 0o600, bytes)
            && model.is_inside(world, at, directory)
    });
    if right { Ok(()) } else { Err(format!("the file was never whole at {}", saved.path.display())) }
}

/// What is at the told path, on a way that has no links but those of the root.
fn found(world: &World, saved: &Saved) -> Option<(u64, u64)> {
    let names = world.below_top(saved.path.to_str()?)?;
    let (name, directories) = names.split_last()?;
    let walked = world.walk(directories).ok().filter(|walked| walked.missing.is_empty())?;
    Some((walked.end(), world.child(walked.end(), name)?))
}

/// Reading a saved file again changes nothing, and gives its bytes; removing takes one name of such a file.
pub fn again(
    done: &Result<Option<Vec<u8>>, String>,
    remove: bool,
    bytes: &[u8],
    moments: &Moments,
) -> Verdict {
    let all = changes(&moments.start, &moments.end);
    match (done, all.as_slice()) {
        (Ok(Some(read)), []) if read == bytes => Ok(()),
        (Err(_), []) => Ok(()),
        (Ok(None), [Change::Removed { number, .. }])
            if remove && moments.start.nodes[number].content == bytes =>
        {
            Ok(())
        }
        _ => Err(format!("{done:?}, and {all:?}")),
    }
}

fn is_temporary(name: &str) -> bool {
    outputfile::name::is_temporary(name)
}
