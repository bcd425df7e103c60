//! Publishing: a finished temporary gets its name, without ever replacing what was not to be replaced.

use crate::error::SaveError;
use crate::place::{Held, Place};
use crate::roots::Inner;
use crate::sys::{Fault, FaultKind, File, Kind, Meta};
use crate::target::mount_key;
use crate::temporary::{Temporary, link_open_file};

/// How often it is tried while others change the name at the same time.
const TRIES: usize = 16;

/// How the file got its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The name was free.
    New,
    /// The names were exchanged: the file that was replaced has the temporary name.
    Exchanged,
    /// The file that was replaced is gone.
    Replaced,
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
}

impl<'a> Publishing<'a> {
    pub(crate) fn new(
        inner: &'a Inner,
        place: &'a Place,
        parent: &'a Held,
        temporary: &'a mut Temporary,
        path: &'a str,
    ) -> Self {
        Self { inner, place, parent, temporary, path, old: None }
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
    pub(crate) fn take_back(&mut self, outcome: Outcome) {
        let os = &self.inner.os;
        if outcome == Outcome::Exchanged {
            let _ = self.exchange_back();
            return;
        }
        let ours = os.file_meta(&self.temporary.file).map(|meta| meta.id);
        let there = os.look(&self.parent.dir, &self.place.name);
        if let (Ok(ours), Ok(Some(there))) = (ours, there)
            && ours == there.id
        {
            let _ = os.unlink(&self.parent.dir, &self.place.name);
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
        let renamed = match os.move_new(&self.temporary.file, dir, &from, to) {
            Ok(()) => {
                self.temporary.name = None;
                return Ok(true);
            }
            Err(fault) if fault.kind == FaultKind::Exists => return Ok(false),
            Err(fault) if fault.is_lacking() || fault.kind == FaultKind::NotPermitted => fault,
            Err(fault) => return Err(self.error(&fault)),
        };
        match os.link_name(dir, &from, to) {
            Ok(()) => {
                self.temporary.remove_name(os, self.parent);
                Ok(true)
            }
            Err(fault) if fault.kind == FaultKind::Exists => Ok(false),
            Err(fault) if fault.is_lacking() || fault.kind == FaultKind::NotPermitted => {
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
        match os.exchange(dir, &from, to) {
            Ok(()) => {
                let out = os.look(dir, &from).map_err(|fault| self.error(&fault))?;
                if out.is_some_and(|out| out.kind == Kind::File && out.id == checked.id) {
                    return Ok(Some(Outcome::Exchanged));
                }
                self.exchange_back()?;
                Ok(None)
            }
            Err(fault) if fault.kind == FaultKind::Missing => Ok(None),
            Err(fault) if fault.is_lacking() || fault.kind == FaultKind::NotPermitted => {
                self.rename_over(checked)
            }
            Err(fault) => Err(self.error(&fault)),
        }
    }

    /// For file systems that cannot exchange: checked once more, then renamed.
    fn rename_over(&mut self, checked: &Meta) -> Result<Option<Outcome>, SaveError> {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let now = os.look(dir, to).map_err(|fault| self.error(&fault))?;
        if !now.is_some_and(|now| now.kind == Kind::File && now.id == checked.id) {
            return Ok(None);
        }
        let from = self.temporary.name.clone().unwrap_or_default();
        // Some file systems replace no file that is open; and it gets no temporary name, so it needs no lock.
        self.old = None;
        os.move_over(&self.temporary.file, dir, &from, to).map_err(|fault| self.error(&fault))?;
        self.temporary.name = None;
        Ok(Some(Outcome::Replaced))
    }

    /// After an exchange: our file gets its temporary name back, and the other its own.
    fn exchange_back(&mut self) -> Result<(), SaveError> {
        let (os, dir, to) = (&self.inner.os, &self.parent.dir, &self.place.name);
        let from = self.temporary.name.clone().unwrap_or_default();
        match os.exchange(dir, &from, to) {
            Ok(()) => {}
            // Somebody took our file away meanwhile: only the other is left to put back.
            Err(fault) if fault.kind == FaultKind::Missing => {
                let _ = os.rename_new(dir, &from, to);
                return Err(self.unsteady());
            }
            Err(fault) => return Err(self.error(&fault)),
        }
        let ours = os.file_meta(&self.temporary.file).map_err(|fault| self.error(&fault))?.id;
        let back = os.look(dir, &from).map_err(|fault| self.error(&fault))?;
        if back.is_some_and(|back| back.id == ours) {
            return Ok(());
        }
        // Somebody replaced our file meanwhile: theirs is the newest, so it gets the name.
        let _ = os.exchange(dir, &from, to);
        Err(self.unsteady())
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

/// Whether this kernel or file system gives no name to a handle, so that a copy with a name is needed.
fn says_no_to_handles(fault: &Fault) -> bool {
    fault.is_lacking()
        || matches!(
            fault.kind,
            FaultKind::Missing | FaultKind::NotPermitted | FaultKind::Denied | FaultKind::CrossesMount
        )
}
