//! Finding the place of a target inside a root: handles from the root down, and the names that are yet to be made.

use std::path::PathBuf;

use crate::error::SaveError;
use crate::name::{self, MAX_NEW_DIRECTORIES, NameProblem, Relation};
use crate::owner::Acting;
use crate::roots::{Inner, Match, Root, Standing, Survey};
use crate::sys::{self, Dir, Fault, FaultKind, FileId, Kind, Meta, Os, PLATFORM};
use crate::volume;
use crate::walk::{DirectoryMet, Met, Stuck, Walk, path_text, waived, walk_on};

/// How often a directory is opened that others exchange with something else and back.
const TRIES: usize = 16;

/// A directory held open, and its name in the one above.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub name: String,
    pub dir: Dir,
    pub meta: Meta,
    pub waived: Option<u64>,
}

/// Where a target is, or will be.
#[derive(Debug)]
pub(crate) struct Place {
    pub root: usize,
    pub acting: Acting,
    /// The form by which the path names the root.
    pub form: Vec<String>,
    /// The root, or while it is missing the deepest directory on its way.
    pub anchor: Held,
    /// The directories beneath the anchor, each opened beneath the one before.
    pub inside: Vec<Held>,
    /// The directories that are to be made beneath the last one; first those of the root itself.
    pub missing: Vec<String>,
    /// How many of the missing ones belong to the root and its way.
    pub missing_root: usize,
    /// The directories below the root, links resolved.
    pub below: Vec<String>,
    pub name: String,
}

impl Place {
    /// The deepest directory that exists.
    pub(crate) fn deepest(&self) -> &Held {
        self.inside.last().unwrap_or(&self.anchor)
    }

    /// The directory of the target, if it exists.
    pub(crate) fn parent(&self) -> Option<&Held> {
        self.missing.is_empty().then(|| self.deepest())
    }

    /// The path that the file has, by the form of the root that was asked for.
    pub(crate) fn path(&self) -> PathBuf {
        let names = [self.form.as_slice(), &self.below, std::slice::from_ref(&self.name)].concat();
        PathBuf::from(path_text(&names))
    }

    /// The path of the deepest directory that exists, for messages.
    pub(crate) fn deepest_path(&self) -> PathBuf {
        let mut names = [self.form.as_slice(), &self.below].concat();
        names.truncate(names.len().saturating_sub(self.missing.len()));
        PathBuf::from(path_text(&names))
    }
}

/// Finds the place of a target. To be run with the identity of the survey.
pub(crate) fn locate(inner: &Inner, path: &str, found: &Match, survey: &Survey) -> Result<Place, SaveError> {
    let root = inner.root(found.root)?;
    let standing = inner.standing(survey)?;
    let Some((name, directories)) = found.below.split_last() else {
        return Err(SaveError::path(path, NameProblem::NotAFile));
    };
    let anchor = anchor(&standing).ok_or_else(|| SaveError::moved(&root.path, "the root cannot be seen"))?;
    let (below, inside) = if standing.met.is_some() {
        enter(inner, root, &standing, path, directories, name, &survey.acting)?
    } else {
        (directories.to_vec(), Vec::new())
    };
    let mut missing = standing.walk.missing.clone();
    let missing_root = missing.len();
    missing.extend(below.iter().skip(inside.len()).cloned());
    if missing.len() > MAX_NEW_DIRECTORIES {
        return Err(SaveError::path(path, NameProblem::TooManyDirectories(missing.len())));
    }
    judge_inside(inner, root, &standing, &inside, survey)?;
    Ok(Place {
        root: found.root,
        acting: survey.acting.clone(),
        form: found.form.clone(),
        anchor,
        inside,
        missing,
        missing_root,
        below,
        name: name.clone(),
    })
}

/// Opens directories one beneath the other, as far as they exist.
pub(crate) fn descend(
    os: &Os,
    trusted: &[FileId],
    from: &Held,
    from_path: &str,
    names: &[String],
) -> Result<Vec<Held>, Blocked> {
    let mut held: Vec<Held> = Vec::new();
    for (depth, name) in names.iter().enumerate() {
        let above = held.last().unwrap_or(from);
        match enter_beneath(os, &above.dir, name) {
            Ok((dir, meta)) => {
                let waived = waived(trusted, &meta, above.waived);
                held.push(Held { name: name.clone(), dir, meta, waived });
            }
            Err(None) => return Err(Blocked::Link),
            Err(Some(fault)) if fault.kind == FaultKind::Missing => break,
            Err(Some(fault)) => {
                let below = name::joined(PLATFORM, "", names.get(..=depth).unwrap_or(names));
                let at = format!("{from_path}{below}");
                return Err(Blocked::Stuck(Stuck { at, fault }));
            }
        }
    }
    Ok(held)
}

/// Opens a directory beneath another; again where it was something else only for a moment. No fault: it is a link.
pub(crate) fn enter_beneath(os: &Os, above: &Dir, name: &str) -> Result<(Dir, Meta), Option<Fault>> {
    let mut tries = 0..TRIES;
    loop {
        let fault = match os.beneath(above, name) {
            Err(fault) if matches!(fault.kind, FaultKind::Link | FaultKind::NotDirectory) => fault,
            opened => return opened.map_err(Some),
        };
        match os.look(above, name) {
            Ok(Some(meta)) if meta.kind == Kind::Link => return Err(None),
            Ok(Some(meta)) if meta.kind != Kind::Directory => return Err(Some(fault)),
            Err(unseen) => return Err(Some(unseen)),
            Ok(_) if tries.next().is_none() => return Err(Some(fault)),
            Ok(_) => {}
        }
    }
}

/// Why directories could not be opened one beneath the other.
#[derive(Debug)]
pub(crate) enum Blocked {
    Link,
    Stuck(Stuck),
}

impl Blocked {
    pub(crate) fn explain(self, path: &str) -> SaveError {
        match self {
            Self::Link { .. } => {
                SaveError::moved(path, "a directory on the way has become a link; call again")
            }
            Self::Stuck(Stuck { at, fault }) => SaveError::of(&fault, "looking at", at, path),
        }
    }
}

fn anchor(standing: &Standing) -> Option<Held> {
    let step = standing.walk.deepest()?;
    Some(Held { name: step.name.clone(), dir: step.dir.clone(), meta: step.meta, waived: step.waived })
}

/// Opens the directories of a target below its root. Links among them are resolved first, and never followed.
fn enter(
    inner: &Inner,
    root: &Root,
    standing: &Standing,
    path: &str,
    directories: &[String],
    name: &str,
    acting: &Acting,
) -> Result<(Vec<String>, Vec<Held>), SaveError> {
    let start = anchor(standing).ok_or_else(|| SaveError::moved(&root.path, "the root cannot be seen"))?;
    let root_text = path_text(&standing.walk.resolved());
    let down = |names: &[String]| descend(&inner.os, &inner.directories, &start, &root_text, names);
    match down(directories) {
        Ok(held) => Ok((directories.to_vec(), held)),
        Err(Blocked::Link) if !sys::UNIX => Err(SaveError::Link { path: path.to_owned() }),
        Err(Blocked::Link) => {
            let resolved = resolve(inner, root, standing, path, directories, acting)?;
            let mut all = resolved.clone();
            all.push(name.to_owned());
            inner.check_below(path, &all)?;
            let held = down(&resolved).map_err(|blocked| blocked.explain(path))?;
            Ok((resolved, held))
        }
        Err(blocked) => Err(blocked.explain(path)),
    }
}

/// The directories below the root that a path with links in it leads to; outside when it leads out.
fn resolve(
    inner: &Inner,
    root: &Root,
    standing: &Standing,
    path: &str,
    directories: &[String],
    acting: &Acting,
) -> Result<Vec<String>, SaveError> {
    let home = standing.walk.resolved();
    let within = |names: &[String]| {
        matches!(name::relation_of_names(PLATFORM, &home, names), Relation::Equal | Relation::Contains)
    };
    let walked = walk_on(&inner.os, &inner.directories, &standing.walk, directories).map_err(|stuck| {
        // What is there outside is nobody's business.
        if within(&volume::parted(PLATFORM, &stuck.at)) {
            SaveError::of(&stuck.fault, "looking at", stuck.at, path)
        } else {
            inner.outside(path)
        }
    })?;
    let resolved = walked.resolved();
    if !within(&resolved) || !passes_root(&walked, standing) {
        return Err(inner.outside(path));
    }
    inner.check_links_inside(root, &walked, acting)?;
    Ok(resolved.get(home.len()..).unwrap_or_default().to_vec())
}

/// The deepest existing directory of the walk lies in the root by identity as well as by name.
fn passes_root(walked: &Walk, standing: &Standing) -> bool {
    let depth = standing.walk.steps.len().saturating_sub(1);
    let root = standing.walk.deepest().map(|step| step.meta.id);
    walked.steps.get(depth).map(|step| step.meta.id) == root && root.is_some()
}

fn judge_inside(
    inner: &Inner,
    root: &Root,
    standing: &Standing,
    inside: &[Held],
    survey: &Survey,
) -> Result<(), SaveError> {
    let mut met = standing.walk.met.clone();
    let mut names = standing.walk.resolved();
    for held in inside {
        names.push(held.name.clone());
        if let Some(own) = inner.protected.iter().find(|own| own.is(held.meta.id)) {
            let why = format!("holds {}", own.what);
            return Err(SaveError::Protected { root: root.path.clone(), why });
        }
        inner.check_other_roots(root, held.meta.id, &names, survey)?;
        met.push(Met::Directory(DirectoryMet {
            path: path_text(&names),
            meta: held.meta,
            waived: held.waived,
        }));
    }
    inner.check_trust(root, standing, &met, &survey.acting)
}

/// The fault of a name that was looked for and is not there.
pub(crate) fn gone() -> Fault {
    Fault { kind: FaultKind::Missing, cause: std::io::Error::from(std::io::ErrorKind::NotFound) }
}
