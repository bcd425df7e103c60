//! Temporaries: the file that is written before it gets its name, and what a killed writer left behind.

use crate::name;
use crate::place::Held;
use crate::sys::{Fault, FaultKind, File, Kind, Os};

/// Names that are tried for one temporary.
const TRIES: usize = 16;
/// Entries of a directory that are looked through for leftovers.
const MOST_ENTRIES: usize = 65_536;
/// Leftovers that one save removes.
const MOST_LEFTOVERS: usize = 256;
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 17;

/// An open file, and its temporary name while it has one.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub file: File,
    pub name: Option<String>,
}

impl Temporary {
    /// Opens one in the target's own directory: without a name where the file system has that.
    pub(crate) fn open(os: &Os, parent: &Held, nameless: bool) -> Result<Self, Fault> {
        if nameless {
            match os.nameless(&parent.dir) {
                Ok(file) => return Ok(Self { file, name: None }),
                Err(fault) if is_final(&fault) => return Err(fault),
                Err(_) => {}
            }
        }
        Self::named(os, parent)
    }

    /// Gives it a temporary name, if it has none: linked, or copied where the system links no handle.
    /// True: it had to be copied.
    pub(crate) fn give_name(&mut self, os: &Os, parent: &Held) -> Result<bool, Fault> {
        if self.name.is_some() {
            return Ok(false);
        }
        // Locked before it has a name, so that no other writer takes it for a leftover.
        let _ = os.lock(&self.file, true);
        for _ in 0..TRIES {
            let name = name::temporary(os.random()?);
            match link_open_file(os, &self.file, parent, &name) {
                Ok(true) => {
                    self.name = Some(name);
                    return Ok(false);
                }
                Ok(false) => {}
                Err(fault) if is_final(&fault) => return Err(fault),
                Err(_) => {
                    self.copy(os, parent)?;
                    return Ok(true);
                }
            }
        }
        Err(Fault::other("no free temporary name was found"))
    }

    /// Puts a named file with the same bytes in its place.
    pub(crate) fn copy(&mut self, os: &Os, parent: &Held) -> Result<(), Fault> {
        let mode = os.file_meta(&self.file)?.mode;
        let mut copy = Self::named(os, parent)?;
        let done = copy_bytes(os, &self.file, &copy.file)
            .and_then(|()| set_mode(os, &copy.file, mode, parent.waived.is_some()))
            .and_then(|()| os.sync(&copy.file));
        if let Err(fault) = done {
            copy.remove_name(os, parent);
            return Err(fault);
        }
        *self = copy;
        Ok(())
    }

    /// Removes the temporary name, if it is still that of this file.
    pub(crate) fn remove_name(&mut self, os: &Os, parent: &Held) {
        let Some(name) = self.name.take() else { return };
        let ours = os.file_meta(&self.file).map(|meta| meta.id);
        let there = os.look(&parent.dir, &name);
        if let (Ok(ours), Ok(Some(there))) = (ours, there)
            && ours == there.id
        {
            // What cannot be removed now, the next save into the directory removes.
            let _ = os.unlink(&parent.dir, &name);
        }
    }

    fn named(os: &Os, parent: &Held) -> Result<Self, Fault> {
        for _ in 0..TRIES {
            let name = name::temporary(os.random()?);
            let file = match os.named(&parent.dir, &name) {
                Err(fault) if fault.kind == FaultKind::Exists => continue,
                opened => opened?,
            };
            let mut temporary = Self { file, name: Some(name) };
            match temporary.settle(os, parent) {
                Ok(true) => return Ok(temporary),
                Ok(false) => temporary.remove_name(os, parent),
                Err(fault) => {
                    temporary.remove_name(os, parent);
                    return Err(fault);
                }
            }
        }
        Err(Fault::other("no free temporary name was found"))
    }

    /// Locks a new file. False: another writer took it for a leftover before it was locked.
    fn settle(&self, os: &Os, parent: &Held) -> Result<bool, Fault> {
        // Where files cannot be locked, nobody takes leftovers either.
        if matches!(os.lock(&self.file, true), Ok(false)) {
            return Ok(false);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let there = os.look(&parent.dir, name)?.map(|meta| meta.id);
        Ok(there == Some(os.file_meta(&self.file)?.id))
    }
}

/// Gives an open file a name by its handle. False: the name exists.
pub(crate) fn link_open_file(os: &Os, file: &File, parent: &Held, name: &str) -> Result<bool, Fault> {
    let linked = match os.link_handle(file, &parent.dir, name) {
        Err(fault) if fault.kind != FaultKind::Exists && !is_final(&fault) => {
            os.link_through_proc(file, &parent.dir, name)
        }
        linked => linked,
    };
    match linked {
        Ok(()) => Ok(true),
        Err(fault) if fault.kind == FaultKind::Exists => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Sets the mode, unless it is that already. Where modes are made up, a refusal is no error.
pub(crate) fn set_mode(os: &Os, file: &File, mode: u32, waived: bool) -> Result<(), Fault> {
    if os.file_meta(file)?.mode == mode {
        return Ok(());
    }
    match os.set_mode(file, mode) {
        Err(fault) if waived && modes_are_made_up(&fault) => Ok(()),
        result => result,
    }
}

/// Whether a mode could not be set because the file system has none of its own.
pub(crate) fn modes_are_made_up(fault: &Fault) -> bool {
    fault.is_lacking() || fault.kind == FaultKind::NotPermitted
}

/// Removes temporaries whose writer is gone: those that can be locked, and are ours.
pub(crate) fn sweep(os: &Os, parent: &Held, uid: u32) {
    let Ok(names) = os.list(&parent.dir, MOST_ENTRIES, name::is_temporary) else { return };
    if names.is_empty() {
        return;
    }
    // A file that another writer exchanged a moment ago has a temporary name too, and may have to go back.
    let Ok(_turn) = os.lock_names(&parent.dir).map_or_else(|_| Ok(None), |turn| turn.map(Some).ok_or(()))
    else {
        return;
    };
    for name in names.iter().take(MOST_LEFTOVERS) {
        let Ok(file) = os.existing(&parent.dir, name) else { continue };
        let Ok(meta) = os.file_meta(&file) else { continue };
        let ours = meta.uid == uid || parent.waived.is_some();
        if meta.kind != Kind::File || !ours || !matches!(os.lock(&file, true), Ok(true)) {
            continue;
        }
        if let Ok(Some(there)) = os.look(&parent.dir, name)
            && there.id == meta.id
        {
            let _ = os.unlink(&parent.dir, name);
        }
    }
}

/// Whether another way of doing the same would fail for the same reason.
fn is_final(fault: &Fault) -> bool {
    matches!(
        fault.kind,
        FaultKind::Full | FaultKind::Quota | FaultKind::ReadOnly | FaultKind::TooLong | FaultKind::TooBig
    )
}

fn copy_bytes(os: &Os, from: &File, to: &File) -> Result<(), Fault> {
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    loop {
        let read = os.read_at(from, offset, &mut piece)?;
        if read == 0 {
            return Ok(());
        }
        os.write_all(to, piece.get(..read).unwrap_or_default())?;
        offset += u64::try_from(read).unwrap_or(0);
    }
}
