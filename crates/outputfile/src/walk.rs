//! Walking a path one component at a time from the top, following each link by hand, and noting all that was met.

use std::collections::VecDeque;

use crate::name;
use crate::sys::{Child, Dir, Fault, FaultKind, FileId, Meta, Os, PLATFORM};
use crate::volume::{self, Start};

/// Links that one path may lead through.
const MOST_LINKS: usize = 40;
/// Components that one path may have after its links are written out.
const MOST_NAMES: usize = 2048;

/// Something met on the way.
#[derive(Debug, Clone)]
pub(crate) enum Met {
    Directory(DirectoryMet),
    Link(LinkMet),
}

#[derive(Debug, Clone)]
pub(crate) struct DirectoryMet {
    pub path: String,
    pub meta: Meta,
    /// It lies beneath a trusted directory, on the mount of this number.
    pub waived: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct LinkMet {
    pub path: String,
    pub to: String,
    pub uid: u32,
    /// Where in the list of things met the directory stands that it leads to.
    pub end: Option<usize>,
}

/// A directory held open, and where in the list of things met it stands.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub name: String,
    pub dir: Dir,
    pub meta: Meta,
    pub waived: Option<u64>,
    met: usize,
}

/// A path that was walked.
#[derive(Debug)]
pub(crate) struct Walk {
    /// From the top to the deepest directory that exists.
    pub steps: Vec<Step>,
    /// The names that do not exist.
    pub missing: Vec<String>,
    /// Everything met, in order, also what a `..` of a link left again.
    pub met: Vec<Met>,
    /// The path with all links resolved but one in the last component.
    pub parent_resolved: Vec<String>,
}

/// Where a walk could not go on.
#[derive(Debug)]
pub(crate) struct Stuck {
    pub at: String,
    pub fault: Fault,
}

/// Walks an absolute path. Names that do not exist are no error, a link that leads to none is.
pub(crate) fn walk(os: &Os, trusted: &[FileId], names: &[String]) -> Result<Walk, Stuck> {
    let (top, names) = volume::split_whole(PLATFORM, names);
    let mut going = Going::new(os, trusted);
    going.start(top.to_owned()).map_err(|fault| Stuck { at: name::joined(PLATFORM, top, &[]), fault })?;
    going.run(names)
}

/// Walks on from where another walk ended, by names that may be links.
pub(crate) fn walk_on(os: &Os, trusted: &[FileId], from: &Walk, names: &[String]) -> Result<Walk, Stuck> {
    let mut going = Going::new(os, trusted);
    for step in &from.steps {
        going.enter(step.name.clone(), step.dir.clone(), step.meta);
    }
    going.run(names)
}

impl Walk {
    /// The deepest directory that exists.
    pub(crate) fn deepest(&self) -> Option<&Step> {
        self.steps.last()
    }

    /// What the path leads to, if it exists.
    pub(crate) fn root_id(&self) -> Option<FileId> {
        self.deepest().filter(|_| self.missing.is_empty()).map(|step| step.meta.id)
    }

    /// The path with all links resolved, including what does not exist.
    pub(crate) fn resolved(&self) -> Vec<String> {
        // The top has the name of its volume, and none on Unix.
        let there = self.steps.iter().map(|step| &step.name).filter(|name| !name.is_empty());
        there.chain(&self.missing).cloned().collect()
    }

    /// The links in the order in which they were followed.
    pub(crate) fn links(&self) -> Vec<(String, String)> {
        let link = |met: &Met| match met {
            Met::Link(link) => Some((link.path.clone(), link.to.clone())),
            Met::Directory(_) => None,
        };
        self.met.iter().filter_map(link).collect()
    }

    /// Where in the list of things met the deepest directory stands.
    pub(crate) fn end(&self) -> Option<usize> {
        self.steps.last().map(|step| step.met)
    }
}

/// Whether a directory lies beneath a trusted one on the same mount, or is one.
pub(crate) fn waived(trusted: &[FileId], meta: &Meta, above: Option<u64>) -> Option<u64> {
    if trusted.contains(&meta.id) {
        return Some(meta.mount);
    }
    // A mount of unknown number is never taken for the same.
    above.filter(|mount| *mount != 0 && *mount == meta.mount)
}

struct Going<'a> {
    os: &'a Os,
    trusted: &'a [FileId],
    pending: VecDeque<String>,
    /// Links that are being followed: their place in `met`, and how much is pending when their end is reached.
    following: Vec<(usize, usize)>,
    links: usize,
    walk: Walk,
}

impl<'a> Going<'a> {
    fn new(os: &'a Os, trusted: &'a [FileId]) -> Self {
        let walk =
            Walk { steps: Vec::new(), missing: Vec::new(), met: Vec::new(), parent_resolved: Vec::new() };
        Self { os, trusted, pending: VecDeque::new(), following: Vec::new(), links: 0, walk }
    }

    fn run(mut self, names: &[String]) -> Result<Walk, Stuck> {
        self.pending = names.iter().cloned().collect();
        while let Some(name) = self.pending.pop_front() {
            if self.pending.is_empty() && self.following.is_empty() {
                self.walk.parent_resolved = self.walk.resolved();
                self.walk.parent_resolved.push(name.clone());
            }
            if let Err(fault) = self.step(&name) {
                return Err(Stuck { at: self.path_of(&name), fault });
            }
            self.note_ends();
        }
        Ok(self.walk)
    }

    fn step(&mut self, name: &str) -> Result<(), Fault> {
        if !self.walk.missing.is_empty() {
            self.walk.missing.push(name.to_owned());
            return Ok(());
        }
        if name == ".." {
            if self.walk.steps.len() > 1 {
                self.walk.steps.pop();
            }
            return Ok(());
        }
        let Some(here) = self.walk.steps.last() else { return Err(Fault::other("nowhere to start")) };
        match self.os.child(&here.dir, name)? {
            Child::Directory(dir, meta) => self.enter(name.to_owned(), dir, meta),
            Child::Link { to, meta } => self.follow(name, to, &meta)?,
            Child::Other => {
                let cause = std::io::Error::other("it is no directory");
                return Err(Fault { kind: FaultKind::NotDirectory, cause });
            }
            Child::Missing if self.following.is_empty() => self.walk.missing.push(name.to_owned()),
            Child::Missing => return Err(Fault::other("a link on the way leads to nothing")),
        }
        Ok(())
    }

    /// Goes to the top of a volume.
    fn start(&mut self, volume: String) -> Result<(), Fault> {
        let top = self.os.top(&volume)?;
        let meta = self.os.meta(&top)?;
        self.walk.steps.clear();
        self.enter(volume, top, meta);
        Ok(())
    }

    fn enter(&mut self, name: String, dir: Dir, meta: Meta) {
        let top = self.walk.steps.is_empty();
        let path = if top { name::joined(PLATFORM, &name, &[]) } else { self.path_of(&name) };
        let waived = waived(self.trusted, &meta, self.walk.steps.last().and_then(|above| above.waived));
        let met = self.walk.met.len();
        self.walk.met.push(Met::Directory(DirectoryMet { path, meta, waived }));
        self.walk.steps.push(Step { name, dir, meta, waived, met });
    }

    fn follow(&mut self, name: &str, to: String, meta: &Meta) -> Result<(), Fault> {
        self.links += 1;
        let (start, parts) = volume::link_target(PLATFORM, &to);
        if self.links > MOST_LINKS || parts.len() + self.pending.len() > MOST_NAMES {
            return Err(Fault { kind: FaultKind::Link, cause: std::io::Error::other("too many links") });
        }
        self.following.push((self.walk.met.len(), self.pending.len()));
        for part in parts.into_iter().rev() {
            self.pending.push_front(part);
        }
        let path = self.path_of(name);
        self.walk.met.push(Met::Link(LinkMet { path, to, uid: meta.uid, end: None }));
        match start {
            Start::Here => {}
            Start::Top(None) => self.walk.steps.truncate(1),
            Start::Top(Some(volume)) => self.start(volume)?,
        }
        Ok(())
    }

    /// Notes the directory that a link leads to, once all of the link's own names are used up.
    fn note_ends(&mut self) {
        while let Some((link, rest)) = self.following.last().copied() {
            if rest < self.pending.len() {
                break;
            }
            let end = self.walk.end();
            if let Some(Met::Link(link)) = self.walk.met.get_mut(link) {
                link.end = end;
            }
            self.following.pop();
        }
    }

    fn path_of(&self, name: &str) -> String {
        let mut names = self.walk.resolved();
        names.push(name.to_owned());
        path_text(&names)
    }
}

/// The absolute path of these names, of which the first is the volume where there are volumes.
pub(crate) fn path_text(names: &[String]) -> String {
    let (volume, names) = volume::split_whole(PLATFORM, names);
    name::joined(PLATFORM, volume, names)
}
