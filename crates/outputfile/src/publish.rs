//! Publishing: a finished temporary gets its name, without ever replacing what was not to be replaced.

use std::thread;
use std::time::Duration;

use crate::error::SaveError;
use crate::name;
use crate::place::{Held, Place};
use crate::roots::Inner;
use crate::sys::{self, Fault, FaultKind, File, FileId, Kind, Meta, Os};
use crate::target::mount_key;
use crate::temporary::{Temporary, link_open_file};

/// How often it is tried while others change the name at the same time.
const TRIES: usize = 16;
/// How often the turn in a directory is asked for, and how long is waited in between: two seconds in all, because the
/// one whose turn it is may wait for a slow disk.
const TURNS: usize = 8000;
const PAUSE: Duration = Duration::from_micros(250);

/// How the file got its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The name was free.
    New,
    /// The file that was replaced has the temporary name.
    Exchanged,
    /// The file that was replaced is gone.
    Replaced,
}

/// Waits until no other writer changes names in the directory: of two that exchange at once, each would else take the
/// other's file for the one that was there before. Where directories cannot be locked, or one is kept locked, it goes on.
pub(crate) fn wait_for_turn(os: &Os, parent: &Held) -> Option<File> {
    for _ in 0..TURNS {
        match os.lock_names(&parent.dir) {
            Ok(Some(turn)) => return Some(turn),
            Ok(None) => thread::sleep(PAUSE),
            Err(_) => return None,
        }
    }
    None
}

/// A temporary about to get its name.
pub(crate) struct Publishing<'a> {
    inner: &'a Inner,
    place: &'a Place,
    parent: &'a Held,
    pub temporary: &'a mut Temporary,
    path: &'a str,
    /// The file that is replaced, locked, so that under its temporary name no other writer takes it for a leftover.
    old: Option<File>,
    /// It has its name, but whether it took that of the right file could neither be seen nor undone: why.
    pub doubt: Option<Fault>,
}

impl<'a> Publishing<'a> {
    pub(crate) fn new(
        inner: &'a Inner,
        place: &'a Place,
        parent: &'a Held,
        temporary: &'a mut Temporary,
        path: &'a str,
    ) -> Self {
        Self { inner, place, parent, temporary, path, old: None, doubt: None }
    }

    /// Gives the file its name.
    pub(crate) fn publish(&mut self, overwrite: bool) -> Result<Outcome, SaveError> {
        if !overwrite {
            return match self.publish_new()? {
                true => Ok(Outcome::New),
                false => Err(SaveError::Exists { path: self.path.to_owned() }),
            };
        }
        for _ in 0..TRIES {
            let seen = self.inner.os.look(&self.parent.dir, &self.place.name);
            match seen.map_err(|fault| self.error(&fault))? {
                None => {
                    if self.publish_new()? {
                        return Ok(Outcome::New);
                    }
                }
                Some(present) if present.kind != Kind::File => {
                    return Err(SaveError::TargetKind { path: self.path.to_owned(), kind: present.kind });
                }
                Some(present) => {
                    if let Some(outcome) = self.replace(&present)? {
                        return Ok(outcome);
                    }
                }
            }
        }
        Err(self.unsteady())
    }

    /// Undoes it: the file loses its name, and what it replaced gets it back where that is still there.
    /// False: it could not be undone.
    pub(crate) fn take_back(&mut self, outcome: Outcome) -> bool {
        let os = &self.inner.os;
        if outcome == Outcome::Exchanged {
            return self.exchange_back().is_ok();
        }
        let ours = os.file_meta(&self.temporary.file).map(|meta| meta.id);
        let there = os.look(&self.parent.dir, &self.place.name);
        match (ours, there) {
            (Ok(ours), Ok(Some(there))) if ours == there.id => {
                let removed = os.unlink(&self.parent.dir, &self.place.name);
                removed.is_ok() || removed.is_err_and(|fault| fault.kind == FaultKind::Missing)
            }
            (ours, there) => ours.is_ok() && there.is_ok(),
        }
    }

    /// False: the name exists.
    fn publish_new(&mut self) -> Result<bool, SaveError> {
        let mut copied = false;
        if self.temporary.name.is_none() {
            match link_open_file(&self.inner.os, &self.temporary.file, self.parent, &self.place.name) {
                Ok(done) => return Ok(done),
                Err(fault) if says_no_to_handles(&fault) => {
                    self.temporary.copy(&self.inner.os, self.parent).map_err(|fault| self.error(&fault))?;
                    copied = true;
                }
                Err(fault) => return Err(self.error(&fault)),
            }
        }
        let done = self.name_new()?;
        if copied {
            self.learn(|mark| mark.no_nameless = true);
        }
        Ok(done)
    }

    /// The same for a file that has a temporary name.
    fn name_new(&mut self) -> Result<bool, SaveError> {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let from = self.temporary.name.clone().unwrap_or_default();
        self.check_temporary(&from)?;
        let renamed = match os.move_new(&self.temporary.file, dir, &from, to) {
            Ok(()) => {
                self.temporary.name = None;
                return Ok(true);
            }
            Err(fault) if fault.kind == FaultKind::Exists => return Ok(false),
            Err(fault) if is_no_way(&fault) => fault,
            Err(fault) => return Err(self.error(&fault)),
        };
        match os.link_name(dir, &from, to) {
            Ok(()) => {
                self.temporary.remove_name(os, self.parent);
                Ok(true)
            }
            Err(fault) if fault.kind == FaultKind::Exists => Ok(false),
            // A directory that was marked meanwhile says the same, and is no reason to give the whole mount up.
            Err(fault) if fault.kind == FaultKind::NotPermitted && self.is_marked() => {
                Err(self.error(&fault))
            }
            Err(fault) if is_no_way(&fault) => {
                if !renamed.is_lacking() {
                    return Err(self.error(&renamed));
                }
                self.learn(|mark| mark.no_publish = true);
                let fs = os.file_system(&self.parent.dir, self.parent.meta.mount);
                Err(SaveError::NoPublish { fs, at: self.place.deepest_path() })
            }
            Err(fault) => Err(self.error(&fault)),
        }
    }

    /// Puts the file in the place of the one that was checked. `None`: another one was there; look again.
    fn replace(&mut self, checked: &Meta) -> Result<Option<Outcome>, SaveError> {
        let copied =
            self.temporary.give_name(&self.inner.os, self.parent).map_err(|fault| self.error(&fault))?;
        if copied {
            self.learn(|mark| mark.no_nameless = true);
        }
        self.old = self.hold(checked);
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let from = self.temporary.name.clone().unwrap_or_default();
        self.check_temporary(&from)?;
        match os.exchange(dir, &from, to) {
            Ok(()) => {
                let out = os.look(dir, &from);
                if matches!(&out, Ok(Some(out)) if out.kind == Kind::File && out.id == checked.id) {
                    return Ok(Some(Outcome::Exchanged));
                }
                match self.exchange_back() {
                    Ok(true) => out.map(|_| None).map_err(|fault| self.error(&fault)),
                    Ok(false) => Err(self.unsteady()),
                    Err(fault) => {
                        // Whatever came out keeps its temporary name.
                        self.temporary.name = None;
                        self.doubt = Some(fault);
                        Ok(Some(Outcome::Exchanged))
                    }
                }
            }
            Err(fault) if fault.kind == FaultKind::Missing => Ok(None),
            Err(fault) if is_no_way(&fault) => self.rename_over(checked),
            Err(fault) => Err(self.error(&fault)),
        }
    }

    /// For file systems that cannot exchange: checked once more, then renamed. The old file keeps a second, temporary
    /// name where that can be, so that it is as after an exchange.
    fn rename_over(&mut self, checked: &Meta) -> Result<Option<Outcome>, SaveError> {
        let kept = self.keep(checked)?;
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let from = self.temporary.name.clone().unwrap_or_default();
        let now = os.look(dir, to).map_err(|fault| self.error(&fault));
        let renamed = now.and_then(|now| match now {
            Some(now) if now.kind == Kind::File && now.id == checked.id => {
                self.put_over(&from).map(|()| true).map_err(|fault| self.error(&fault))
            }
            _ => Ok(false),
        });
        if matches!(renamed, Ok(true)) {
            let outcome = if kept.is_some() { Outcome::Exchanged } else { Outcome::Replaced };
            self.temporary.name = kept;
            return Ok(Some(outcome));
        }
        if let Some(kept) = kept {
            let _ = os.unlink(dir, &kept);
        }
        renamed.map(|_| None)
    }

    fn put_over(&mut self, from: &str) -> Result<(), Fault> {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        match os.move_over(&self.temporary.file, dir, from, to) {
            // Some file systems of Windows replace no file that is open, be it by us.
            Err(fault) if !sys::UNIX && fault.kind == FaultKind::Denied && self.old.take().is_some() => {
                os.move_over(&self.temporary.file, dir, from, to)
            }
            result => result,
        }
    }

    /// Gives the file that is about to be replaced a second name. `None`: it cannot have one.
    fn keep(&self, checked: &Meta) -> Result<Option<String>, SaveError> {
        let (os, dir) = (&self.inner.os, &self.parent.dir);
        if self.parent.meta.mode & 0o1000 != 0 && checked.uid != self.place.acting.uid() {
            // It might not be ours to take away again.
            return Ok(None);
        }
        let name = name::temporary(os.random().map_err(|fault| self.error(&fault))?);
        if os.link_name(dir, &self.place.name, &name).is_err() {
            return Ok(None);
        }
        if matches!(os.look(dir, &name), Ok(Some(there)) if there.id == checked.id) {
            return Ok(Some(name));
        }
        // Another file by now, which has its own name still.
        let _ = os.unlink(dir, &name);
        Ok(None)
    }

    /// After an exchange: our file gets its temporary name back, and the other its own. False: others changed the names
    /// meanwhile. An error: nothing was changed.
    fn exchange_back(&mut self) -> Result<bool, Fault> {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let from = self.temporary.name.clone().unwrap_or_default();
        let kept = os.look(dir, &from).ok().flatten();
        match os.exchange(dir, &from, to) {
            Ok(()) => {}
            // Somebody took our file away meanwhile: only the other is left to put back.
            Err(fault) if fault.kind == FaultKind::Missing => {
                if os.rename_new(dir, &from, to).is_err() {
                    self.clear(&from);
                }
                return Ok(false);
            }
            Err(fault) if is_no_way(&fault) => return self.rename_back(&from),
            Err(fault) => return Err(fault),
        }
        // What cannot be looked at is taken for ours, as it was a moment ago.
        if let (Ok(ours), Ok(back)) = (os.file_meta(&self.temporary.file), os.look(dir, &from))
            && back.is_none_or(|back| back.id != ours.id)
        {
            self.give_way(&from, kept.map(|kept| kept.id));
            return Ok(false);
        }
        Ok(true)
    }

    /// Somebody replaced our file meanwhile, so theirs gets the name. It is exchanged until that comes out which was put
    /// there last, and so was replaced: else they replaced that as well, and what came out is the newest.
    fn give_way(&self, from: &str, mut last: Option<FileId>) {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let id_there = || os.look(dir, from).ok().flatten().map(|there| there.id);
        for _ in 0..TRIES {
            let put = id_there();
            if os.exchange(dir, from, to).is_err() || id_there() == last {
                break;
            }
            last = put;
        }
        self.clear(from);
    }

    /// Others changed the names so that nothing can be put back: neither our file stays, nor one that theirs replaced.
    fn clear(&self, from: &str) {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let ours = os.file_meta(&self.temporary.file).map(|meta| meta.id).ok();
        if matches!(os.look(dir, to), Ok(Some(there)) if Some(there.id) == ours) {
            let _ = os.unlink(dir, to);
        }
        // A pipe or a link of theirs as well; a directory may hold something, and is left to whoever made it.
        if matches!(os.look(dir, from), Ok(Some(there)) if there.kind != Kind::Directory) {
            let _ = os.unlink(dir, from);
        }
    }

    /// The same for file systems that cannot exchange: the file that was replaced gets its name back, unless somebody
    /// replaced ours meanwhile.
    fn rename_back(&mut self, kept: &str) -> Result<bool, Fault> {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let ours = os.file_meta(&self.temporary.file)?.id;
        let done = match os.look(dir, to)? {
            Some(there) if there.id != ours => os.unlink(dir, kept),
            _ => os.rename_over(dir, kept, to),
        };
        match done {
            Err(fault) if fault.kind == FaultKind::Missing => self.clear(kept),
            done => done?,
        }
        self.temporary.name = None;
        Ok(true)
    }

    fn is_marked(&self) -> bool {
        self.inner.os.meta(&self.parent.dir).is_ok_and(|meta| meta.frozen)
    }

    /// The temporary name must still be that of our file: what others put there is not to be published.
    fn check_temporary(&self, name: &str) -> Result<(), SaveError> {
        let os = &self.inner.os;
        let ours = os.file_meta(&self.temporary.file).map_err(|fault| self.error(&fault))?.id;
        match os.look(&self.parent.dir, name).map_err(|fault| self.error(&fault))? {
            Some(there) if there.id == ours => Ok(()),
            _ => Err(self.unsteady()),
        }
    }

    fn hold(&self, checked: &Meta) -> Option<File> {
        let os = &self.inner.os;
        let file = os.existing(&self.parent.dir, &self.place.name).ok()?;
        let same = os.file_meta(&file).is_ok_and(|meta| meta.id == checked.id);
        let _ = os.lock(&file, false);
        same.then_some(file)
    }

    fn learn(&self, change: impl FnOnce(&mut crate::reserve::Mark)) {
        if let Ok(space) = self.inner.os.space(&self.parent.dir) {
            self.inner.settings.reservations.learn(mount_key(&self.parent.meta, &space), change);
        }
    }

    fn error(&self, fault: &Fault) -> SaveError {
        SaveError::of(fault, "publishing", self.place.path(), self.path)
    }

    fn unsteady(&self) -> SaveError {
        SaveError::moved(self.place.path(), "others kept replacing it while it was written; call again")
    }
}

/// Whether the system or the file system does not have this way of naming a file in one directory.
fn is_no_way(fault: &Fault) -> bool {
    fault.is_lacking() || matches!(fault.kind, FaultKind::NotPermitted | FaultKind::CrossesMount)
}

/// Whether this kernel or file system gives no name to a handle, so that a copy with a name is needed.
fn says_no_to_handles(fault: &Fault) -> bool {
    fault.is_lacking()
        || matches!(
            fault.kind,
            FaultKind::Missing | FaultKind::NotPermitted | FaultKind::Denied | FaultKind::CrossesMount
        )
}
