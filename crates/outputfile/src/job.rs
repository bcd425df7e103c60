//! Job: one file being written, from the second check to the durable name. Runs with one identity throughout.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use crate::error::{Reason, SaveError};
use crate::place::{Blocked, Held, Place, descend, gone, locate};
use crate::publish::{Outcome, Publishing};
use crate::roots::{Match, Roots, Survey};
use crate::sys::{Dir, Fault, FaultKind, FileId, Meta, Os};
use crate::target::{Target, check_mount, check_parent, check_present, final_key, mount_key};
use crate::temporary::{self, Temporary};
use crate::walk::{path_text, waived};
use crate::write::{Identity, Saved};

/// A file being written.
#[derive(Debug)]
pub(crate) struct Job {
    roots: Roots,
    target: Target,
    place: Place,
    parent: Held,
    root_id: FileId,
    /// Directories that were made for it.
    made: Vec<Made>,
    temporary: Option<Temporary>,
    hash: Sha256,
    bytes: u64,
    /// All bytes so far are durable.
    synced: bool,
    /// Nothing may be removed any more.
    published: bool,
}

/// A directory that was made, and its name in the one above.
#[derive(Debug)]
struct Made {
    above: Held,
    name: String,
    id: FileId,
}

impl Job {
    /// Checks everything again, makes missing directories and opens the temporary.
    pub(crate) fn start(
        roots: Roots,
        mut target: Target,
        found: &Match,
        survey: &Survey,
    ) -> Result<Self, SaveError> {
        let inner = &*roots.0;
        let mut place = locate(inner, &target.path, found, survey)?;
        check_parent(&target, &place)?;
        check_present(inner, &place, &target.path, target.overwrite)?;
        let mut made = Vec::new();
        let ready = make_ready(&roots, &mut target, found, survey, &mut place, &mut made);
        let (parent, root_id, temporary) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                remove_made(&inner.os, &made, &target);
                return Err(error);
            }
        };
        let (hash, temporary) = (Sha256::new(), Some(temporary));
        Ok(Self {
            roots,
            target,
            place,
            parent,
            root_id,
            made,
            temporary,
            hash,
            bytes: 0,
            synced: false,
            published: false,
        })
    }

    /// Writes these bytes after the ones before.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        let Some(temporary) = &self.temporary else { return Err(self.spent()) };
        let limit = self.roots.0.settings.file_limit();
        let size = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let written = if size > limit {
            Err(SaveError::TooLarge { path: self.target.path.clone(), size, exact: false, limit })
        } else {
            let written = self.roots.0.os.write_all(&temporary.file, bytes);
            written.map_err(|fault| self.error(&fault, "writing"))
        };
        if let Err(error) = written {
            self.discard();
            return Err(error);
        }
        self.hash.update(bytes);
        self.bytes = size;
        self.synced = false;
        Ok(())
    }

    /// Refuses at once what is known to be too large.
    pub(crate) fn expect(&mut self, size: u64) -> Result<(), SaveError> {
        let limit = self.roots.0.settings.file_limit();
        if size <= limit {
            return Ok(());
        }
        self.discard();
        Err(SaveError::TooLarge { path: self.target.path.clone(), size, exact: true, limit })
    }

    /// Makes what was written durable, which is what takes long, and leaves the file without its name.
    pub(crate) fn sync(&mut self) -> Result<(), SaveError> {
        let Some(temporary) = &self.temporary else { return Err(self.spent()) };
        let (os, mode) = (&self.roots.0.os, self.roots.0.settings.file_mode);
        let synced = temporary::set_mode(os, &temporary.file, mode, self.parent.waived.is_some())
            .map_err(|fault| self.mode_error(&fault))
            .and_then(|()| os.sync(&temporary.file).map_err(|fault| self.error(&fault, "making durable")));
        match &synced {
            Ok(()) => self.synced = true,
            Err(_) => self.discard(),
        }
        synced
    }

    /// Makes the file durable, gives it its name, and makes that durable.
    pub(crate) fn commit(mut self) -> Result<Saved, SaveError> {
        if !self.synced {
            self.sync()?;
        }
        let Some(mut temporary) = self.temporary.take() else { return Err(self.spent()) };
        let published = self.publish(&mut temporary);
        if published.is_err() {
            temporary.remove_name(&self.roots.0.os, &self.parent);
        }
        let (outcome, meta, doubt) = published?;
        self.published = true;
        let saved = self.saved(&meta, outcome);
        if let (Outcome::Exchanged, Some(old)) = (outcome, temporary.name.take()) {
            // Should this fail, the next save into the directory removes it.
            let _ = self.roots.0.os.unlink(&self.parent.dir, &old);
        }
        let (step, cause) = match (doubt, self.sync_directories()) {
            (Some(cause), _) => ("looking for it at its path", cause),
            (None, Err(fault)) => ("syncing its directory", fault.to_string()),
            (None, Ok(())) => return Ok(saved),
        };
        Err(SaveError::NotDurable { saved: Box::new(saved), step, cause })
    }

    /// Gives the file its name and checks that it is at its path. The last of the three: why the check could not be
    /// made, where the file has its name and that could not be undone.
    fn publish(&self, temporary: &mut Temporary) -> Result<(Outcome, Meta, Option<String>), SaveError> {
        let os = &self.roots.0.os;
        self.same_place()?;
        let before = os.file_meta(&temporary.file).map_err(|fault| self.error(&fault, "looking at"))?;
        let mut publishing =
            Publishing::new(&self.roots.0, &self.place, &self.parent, temporary, &self.target.path);
        let outcome = publishing.publish(self.target.overwrite)?;
        // Asked again, because a copy that had to be made is another file, and a new name is a change.
        let after = os.file_meta(&publishing.temporary.file);
        let known = *after.as_ref().unwrap_or(&before);
        if let Some(doubt) = publishing.doubt.take() {
            return Ok((outcome, known, Some(doubt.to_string())));
        }
        let checked = after
            .map_err(|fault| self.error(&fault, "looking at"))
            .and_then(|meta| self.check_published(meta.id).map(|()| meta));
        let error = match checked {
            Ok(meta) => return Ok((outcome, meta, None)),
            Err(error) => error,
        };
        let elsewhere = matches!(error.reason(), Reason::RootMoved | Reason::TargetKind | Reason::Mount);
        // A file that was replaced and is gone is no reason to take the new one away as well, unless that is elsewhere.
        let undone = (elsewhere || outcome != Outcome::Replaced) && publishing.take_back(outcome);
        if undone || elsewhere { Err(error) } else { Ok((outcome, known, Some(error.to_string()))) }
    }

    /// Walks the root's path again: it must lead to the same root, and in it to the same directory.
    fn same_place(&self) -> Result<Dir, SaveError> {
        let inner = &*self.roots.0;
        let root = inner.root(self.place.root)?;
        let moved =
            |why: &str| SaveError::moved(&root.path, format!("{why}, so nothing was saved; call again"));
        let walk = inner.walk_root(root)?;
        let same = walk.deepest().filter(|step| walk.missing.is_empty() && step.meta.id == self.root_id);
        let Some(step) = same else {
            return Err(moved("the root was moved or replaced while the file was written"));
        };
        let start =
            Held { name: step.name.clone(), dir: step.dir.clone(), meta: step.meta, waived: step.waived };
        let text = path_text(&walk.resolved());
        let held = descend(&inner.os, &inner.directories, &start, &text, &self.place.below);
        let held = match held {
            Err(Blocked::Stuck(stuck)) => return Err(Blocked::Stuck(stuck).explain(&self.target.path)),
            Err(Blocked::Link) => Vec::new(),
            Ok(held) => held,
        };
        let last = held.last().unwrap_or(&start);
        if held.len() != self.place.below.len() || last.meta.id != self.parent.meta.id {
            return Err(moved("the directory of the file was moved or replaced while it was written"));
        }
        Ok(last.dir.clone())
    }

    /// Root path and name must give the file that was written.
    fn check_published(&self, id: FileId) -> Result<(), SaveError> {
        let parent = self.same_place()?;
        let there = self.roots.0.os.look(&parent, &self.place.name);
        match there.map_err(|fault| self.error(&fault, "looking at"))? {
            Some(there) if there.id == id => Ok(()),
            _ => Err(SaveError::moved(
                self.place.path(),
                "it was replaced in the moment it was written; call again",
            )),
        }
    }

    fn saved(&self, meta: &Meta, outcome: Outcome) -> Saved {
        let FileId { dev, ino } = meta.id;
        Saved {
            path: self.place.path(),
            root: self.target_root(),
            bytes: self.bytes,
            sha256: self.hash.clone().finalize().into(),
            identity: Identity { dev, ino, size: meta.size, ctime_ns: meta.ctime_ns },
            replaced: outcome != Outcome::New,
        }
    }

    /// The root as configured now; it may be another one than at the preflight.
    fn target_root(&self) -> PathBuf {
        self.roots.0.root(self.place.root).map_or_else(|_| self.target.root.clone(), |root| root.path.clone())
    }

    /// Syncs the directory, and those above the directories that were made.
    fn sync_directories(&self) -> Result<(), Fault> {
        let os = &self.roots.0.os;
        os.sync_directory(&self.parent.dir)?;
        self.made.iter().rev().try_for_each(|made| os.sync_directory(&made.above.dir))
    }

    /// Removes what was made so far.
    fn discard(&mut self) {
        let os = &self.roots.0.os;
        if let Some(mut temporary) = self.temporary.take() {
            temporary.remove_name(os, &self.parent);
        }
        remove_made(os, &self.made, &self.target);
        self.made.clear();
    }

    fn error(&self, fault: &Fault, step: &'static str) -> SaveError {
        SaveError::of(fault, step, self.place.path(), &self.target.path)
    }

    fn mode_error(&self, fault: &Fault) -> SaveError {
        if temporary::modes_are_made_up(fault) {
            return unsettable(fault, self.place.path(), &self.place.deepest_path().display().to_string());
        }
        self.error(fault, "setting the mode of")
    }

    fn spent(&self) -> SaveError {
        SaveError::Spent { path: self.target.path.clone() }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.published {
            self.discard();
        }
    }
}

/// Makes what is missing, checks it as strictly as what was there, and opens the temporary in it.
fn make_ready(
    roots: &Roots,
    target: &mut Target,
    found: &Match,
    survey: &Survey,
    place: &mut Place,
    made: &mut Vec<Made>,
) -> Result<(Held, FileId, Temporary), SaveError> {
    let inner = &*roots.0;
    if !place.missing.is_empty() {
        let last = make_directories(roots, place, made, &target.path)?;
        *place = locate(inner, &target.path, found, survey)?;
        if place.parent().is_none_or(|parent| parent.meta.id != last) {
            let why = "a directory that was just made was moved or replaced; call again";
            return Err(SaveError::moved(place.path(), why));
        }
    }
    let path = &target.path;
    let Some(parent) = place.parent().cloned() else {
        return Err(SaveError::of(&gone(), "looking at", place.deepest_path(), path));
    };
    if let Some(key) = final_key(place)
        && !target.reservation.add(key)
    {
        return Err(SaveError::Busy { path: path.clone() });
    }
    check_present(inner, place, path, target.overwrite)?;
    let space = inner.os.space(&parent.dir);
    let space =
        space.map_err(|fault| SaveError::of(&fault, "asking for the room of", place.deepest_path(), path))?;
    check_mount(inner, place, &space)?;
    temporary::sweep(&inner.os, &parent, place.acting.uid());
    let mark = inner.settings.reservations.mark(mount_key(&parent.meta, &space));
    let opened = Temporary::open(&inner.os, &parent, !mark.no_nameless);
    let opened =
        opened.map_err(|fault| SaveError::of(&fault, "making a file in", place.deepest_path(), path))?;
    Ok((parent, place.anchor.meta.id, opened))
}

/// Makes the missing directories one beneath the other. Returns the last one.
fn make_directories(
    roots: &Roots,
    place: &Place,
    made: &mut Vec<Made>,
    path: &str,
) -> Result<FileId, SaveError> {
    let os = &roots.0.os;
    let mut here = place.deepest().clone();
    let mut at = place.deepest_path();
    for (depth, name) in place.missing.iter().enumerate() {
        let new = match os.make_directory(&here.dir, name) {
            Ok(()) => true,
            Err(fault) if fault.kind == FaultKind::Exists => false,
            Err(fault) => return Err(SaveError::of(&fault, "making a directory in", at, path)),
        };
        at.push(name);
        let (dir, meta) = match os.beneath(&here.dir, name) {
            Ok(opened) => opened,
            Err(fault) => {
                // Noted all the same, so that it is removed again.
                if let (true, Ok(Some(meta))) = (new, os.look(&here.dir, name)) {
                    made.push(Made { above: here, name: name.clone(), id: meta.id });
                }
                return Err(SaveError::of(&fault, "opening", &at, path));
            }
        };
        let waived = waived(&roots.0.directories, &meta, here.waived);
        if new {
            made.push(Made { above: here.clone(), name: name.clone(), id: meta.id });
            let ours = if depth < place.missing_root { 0o700 } else { roots.0.settings.directory_mode() };
            // A group that the directory above hands down stays.
            let mode = ours | (meta.mode & 0o2000);
            set_directory_mode(os, &dir, meta.mode, mode, waived.is_some(), &at, path)?;
        }
        here = Held { name: name.clone(), dir, meta, waived };
    }
    Ok(here.meta.id)
}

fn set_directory_mode(
    os: &Os,
    dir: &Dir,
    now: u32,
    mode: u32,
    waived: bool,
    at: &std::path::Path,
    path: &str,
) -> Result<(), SaveError> {
    if now == mode {
        return Ok(());
    }
    match os.set_directory_mode(dir, mode) {
        Err(fault) if temporary::modes_are_made_up(&fault) && waived => Ok(()),
        Err(fault) if temporary::modes_are_made_up(&fault) => {
            let above = at.parent().unwrap_or(at).display().to_string();
            Err(unsettable(&fault, at.to_owned(), &above))
        }
        Err(fault) => Err(SaveError::of(&fault, "setting the mode of", at, path)),
        Ok(()) => Ok(()),
    }
}

fn unsettable(fault: &Fault, at: PathBuf, directory: &str) -> SaveError {
    let directory = crate::error::shown(directory);
    let hint = format!(
        " ({fault}); if the modes of this file system are made up, allow it: \"tool_output_trusted_directories\": [\"{directory}\"]"
    );
    SaveError::Denied { at, action: "setting the mode of", hint }
}

/// Removes the directories that were made, the deepest first, as long as they are empty and nobody else uses them.
fn remove_made(os: &Os, made: &[Made], target: &Target) {
    for made in made.iter().rev() {
        target.reservation.unless_used(made.id, || {
            let there = os.look(&made.above.dir, &made.name);
            if there.is_ok_and(|there| there.is_some_and(|meta| meta.id == made.id)) {
                let _ = os.remove_directory(&made.above.dir, &made.name);
            }
        });
    }
}
