//! Reading and removing a saved file again: only if it still is the file that was saved, else not a byte of it.
//!
//! The file is opened from the handle of a root that is configured now, without following a link beneath it. It is the
//! same file when device, inode, size and change time are those of the record, else when its bytes have the same hash.

use std::io;

use sha2::{Digest as _, Sha256};

use crate::error::{SaveError, shown};
use crate::name;
use crate::place::{Blocked, Held, descend};
use crate::publish::wait_for_turn;
use crate::reserve::Key;
use crate::roots::{Inner, Match, Roots, Survey};
use crate::sys::{Fault, FaultKind, File, FileId, Kind, Meta, Os};
use crate::walk::path_text;
use crate::write::Identity;

/// How much of a file is in memory while it is hashed.
const PIECE: usize = 128 * 1024;

/// What a record says of a saved file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// What the file was known by directly after it was saved.
    pub identity: Identity,
    /// SHA-256 of its bytes.
    pub sha256: [u8; 32],
    /// How many bytes it had.
    pub bytes: u64,
}

/// Why a saved file is not read or removed. In each case nothing of it was given and nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing stands at its path any more.
    #[error("{} changed since it was saved: it is not there any more", shown(path))]
    Gone {
        /// Where it was.
        path: String,
    },
    /// Something else stands there, or its content is another.
    #[error("{} changed since it was saved: {why}", shown(path))]
    Changed {
        /// Where it was.
        path: String,
        /// What is different.
        why: &'static str,
    },
    /// No root that is configured now holds its path.
    #[error(
        "{} lies beneath none of the directories in \"tool_output_roots\" as they are now; add its directory there again",
        shown(path)
    )]
    NoRoot {
        /// Where it was.
        path: String,
    },
    /// A call is writing to this path.
    #[error("{} is being written by a call; wait for it", shown(path))]
    Busy {
        /// Where it is.
        path: String,
    },
    /// The root cannot be used as it is, or the system refused to look.
    #[error(transparent)]
    Root(#[from] SaveError),
    /// The file system failed.
    #[error("{step} {} failed: {cause}; see to it, then try again", shown(path))]
    Io {
        /// Where it is.
        path: String,
        /// What was being done.
        step: &'static str,
        /// What went wrong.
        cause: String,
    },
}

impl ReadError {
    /// The file is not the one that was saved, or is gone; trying again changes nothing.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Changed { .. })
    }
}

/// A saved file, open for reading from its first byte. A change while it is read is an error of that read.
#[derive(Debug)]
pub struct SavedFile {
    os: Os,
    file: File,
    path: String,
    identity: Identity,
    offset: u64,
}

impl SavedFile {
    /// What it is known by now.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// How long it is, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Reads from this offset; 0 is the end of the file.
    ///
    /// # Errors
    /// The file system failed, or the file changed since it was opened: then what was read does not count.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, ReadError> {
        let failed = |fault: &Fault| io_error(&self.path, "reading", fault);
        let left = usize::try_from(self.identity.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(into.len());
        let into = into.get_mut(..wanted).unwrap_or_default();
        let read = self.os.read_at(&self.file, offset, into).map_err(|fault| failed(&fault))?;
        let now = self.os.file_meta(&self.file).map_err(|fault| failed(&fault))?;
        // Asked after the bytes were read, so they are those of the file that was checked.
        if identity_of(&now) != self.identity || (read == 0 && wanted > 0) {
            return Err(changed(&self.path, "it was changed while it was read"));
        }
        Ok(read)
    }
}

impl io::Read for SavedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.offset, into).map_err(io::Error::other)?;
        self.offset = self.offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

impl Roots {
    /// Opens a saved file again, if it still is the one that was saved. The file is hashed only where its identity does
    /// not tell, and then all of it: at most as many bytes as the record says.
    ///
    /// # Errors
    /// It changed or is gone, its root is not configured or not to be trusted any more, or the file system failed.
    pub fn reopen_saved(&self, path: &str, expected: &Expected) -> Result<SavedFile, ReadError> {
        self.find_saved(path, expected, Proof::IdentityOrHash, |_, found| Ok(found.file))
    }

    /// Reads all of a saved file and compares its hash, also where its identity is that of the record.
    ///
    /// # Errors
    /// As [`Roots::reopen_saved`].
    pub fn verify_saved(&self, path: &str, expected: &Expected) -> Result<Identity, ReadError> {
        self.find_saved(path, expected, Proof::Hash, |_, found| Ok(found.file.identity))
    }

    /// Removes a saved file, if it still is the one that was saved.
    ///
    /// # Errors
    /// As [`Roots::reopen_saved`]; also when a call is writing to the path, or the system does not let it be removed.
    pub fn remove_saved(&self, path: &str, expected: &Expected) -> Result<(), ReadError> {
        self.find_saved(path, expected, Proof::IdentityOrHash, remove)
    }

    /// Finds the file with the identity of the root's owner, and does something with it by the same identity.
    fn find_saved<T: Send>(
        &self,
        path: &str,
        expected: &Expected,
        proof: Proof,
        then: impl FnOnce(&Inner, Found) -> Result<T, ReadError> + Send,
    ) -> Result<T, ReadError> {
        let inner = &*self.0;
        let root = inner.matching(path).map_err(|error| match error {
            SaveError::Disabled | SaveError::Outside { .. } => ReadError::NoRoot { path: path.to_owned() },
            error => error.into(),
        })?;
        let survey = inner.survey(root.root)?;
        let work = || find(inner, path, &root, &survey, expected, proof).and_then(|found| then(inner, found));
        survey.acting.run(work).map_err(|fault| io_error(path, "acting as the owner of", &fault))?
    }
}

/// What shows that a file is the one that was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    IdentityOrHash,
    Hash,
}

/// A file that passed the test, and where it stands.
struct Found {
    file: SavedFile,
    parent: Held,
    name: String,
}

fn find(
    inner: &Inner,
    path: &str,
    root: &Match,
    survey: &Survey,
    expected: &Expected,
    proof: Proof,
) -> Result<Found, ReadError> {
    let (parent, name) = parent(inner, path, root, survey)?;
    let meta = inner.os.look(&parent.dir, &name).map_err(|fault| io_error(path, "looking at", &fault))?;
    let meta = meta.ok_or_else(|| ReadError::Gone { path: path.to_owned() })?;
    // Before it is opened, because opening a pipe or a device does something to it.
    check_kind(path, &parent.meta, &meta)?;
    let file = match inner.os.existing(&parent.dir, &name) {
        Ok(file) => file,
        Err(fault) if fault.kind == FaultKind::Missing => {
            return Err(ReadError::Gone { path: path.to_owned() });
        }
        Err(fault) if fault.kind == FaultKind::Link => return Err(changed(path, "it is a link now")),
        Err(fault) => return Err(io_error(path, "opening", &fault)),
    };
    let meta = inner.os.file_meta(&file).map_err(|fault| io_error(path, "looking at", &fault))?;
    check_kind(path, &parent.meta, &meta)?;
    let identity = identity_of(&meta);
    let file = SavedFile { os: inner.os.clone(), file, path: path.to_owned(), identity, offset: 0 };
    if identity != expected.identity || identity.size != expected.bytes || proof == Proof::Hash {
        check_hash(&file, expected)?;
    }
    Ok(Found { file, parent, name })
}

/// The directory of the file, opened beneath the root's handle, and the file's name in it.
fn parent(inner: &Inner, path: &str, root: &Match, survey: &Survey) -> Result<(Held, String), ReadError> {
    let gone = || ReadError::Gone { path: path.to_owned() };
    let standing = inner.standing(survey)?;
    let step = standing.walk.deepest().filter(|_| standing.met.is_some()).ok_or_else(gone)?;
    let start = Held { name: step.name.clone(), dir: step.dir.clone(), meta: step.meta, waived: step.waived };
    let (name, directories) = root.below.split_last().ok_or_else(gone)?;
    let root_path = path_text(&standing.walk.resolved());
    let held = match descend(&inner.os, &inner.directories, &start, &root_path, directories) {
        Ok(held) => held,
        // The path of a record has its links resolved, so there was none.
        Err(Blocked::Link) => return Err(changed(path, "a directory on its way is a link now")),
        Err(Blocked::Stuck(stuck)) => {
            return Err(match stuck.fault.kind {
                FaultKind::NotDirectory => changed(path, "what was a directory on its way is none now"),
                FaultKind::CrossesMount => changed(path, "something else is mounted on its way"),
                _ => Blocked::Stuck(stuck).explain(path).into(),
            });
        }
    };
    if held.len() != directories.len() {
        return Err(gone());
    }
    Ok((held.into_iter().next_back().unwrap_or(start), name.clone()))
}

fn check_kind(path: &str, parent: &Meta, meta: &Meta) -> Result<(), ReadError> {
    if meta.kind != Kind::File {
        return Err(changed(path, "it is no regular file now"));
    }
    if meta.mount != parent.mount && meta.mount != 0 && parent.mount != 0 {
        return Err(changed(path, "something else is mounted in its place"));
    }
    Ok(())
}

/// Compares size and hash. Every piece is read from a file that has not changed since it was opened.
fn check_hash(file: &SavedFile, expected: &Expected) -> Result<(), ReadError> {
    if file.identity.size != expected.bytes {
        return Err(changed(&file.path, "its size is another"));
    }
    let (mut hash, mut piece, mut offset) = (Sha256::new(), vec![0; PIECE], 0);
    while offset < expected.bytes {
        let read = file.read_at(offset, &mut piece)?;
        hash.update(piece.get(..read).unwrap_or_default());
        offset = offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
    if <[u8; 32]>::from(hash.finalize()) != expected.sha256 {
        return Err(changed(&file.path, "its content is another"));
    }
    Ok(())
}

/// Takes the name away, if it still is the name of the file that was checked.
fn remove(inner: &Inner, found: Found) -> Result<(), ReadError> {
    let Found { file, parent, name } = found;
    let path = &file.path;
    // A call that replaces the file meanwhile would lose what it wrote.
    let key = Key::of(parent.meta.id, &name);
    let _reserved =
        inner.settings.reservations.take(key).ok_or_else(|| ReadError::Busy { path: path.clone() })?;
    let there = inner.os.look(&parent.dir, &name).map_err(|fault| io_error(path, "looking at", &fault))?;
    let there = there.ok_or_else(|| ReadError::Gone { path: path.clone() })?;
    if there.kind != Kind::File || identity_of(&there) != file.identity {
        return Err(changed(path, "it was replaced while it was looked at"));
    }
    take_away(&inner.os, &parent, &name, &file)?;
    // Should this fail, a power cut may bring the file back, and it is removed another time.
    let _ = inner.os.sync_directory(&parent.dir);
    Ok(())
}

/// Gives the file another name before it goes, so that one which came in its place in the last moment is seen and put back.
fn take_away(os: &Os, parent: &Held, name: &str, file: &SavedFile) -> Result<(), ReadError> {
    let (dir, path) = (&parent.dir, &file.path);
    let failed = |fault: Fault| match fault.kind {
        FaultKind::Missing => ReadError::Gone { path: path.clone() },
        _ => SaveError::of(&fault, "removing", path, path).into(),
    };
    // Its other name is that of a leftover, which another writer must not sweep before it is put back.
    let _turn = wait_for_turn(os, parent);
    let aside = name::temporary(os.random().map_err(failed)?);
    match os.rename_new(dir, name, &aside) {
        Ok(()) => {}
        // A file system without such a rename: the name was looked at just now.
        Err(fault) if fault.kind != FaultKind::Missing => return os.unlink(dir, name).map_err(failed),
        Err(fault) => return Err(failed(fault)),
    }
    let ours = FileId { dev: file.identity.dev, ino: file.identity.ino };
    let gone = match os.look(dir, &aside) {
        Ok(Some(out)) if out.id == ours => os.unlink(dir, &aside).map_err(failed),
        Ok(_) => Err(changed(path, "it was replaced while it was looked at")),
        Err(fault) => Err(failed(fault)),
    };
    if gone.is_err() {
        let _ = os.rename_new(dir, &aside, name);
    }
    gone
}

fn identity_of(meta: &Meta) -> Identity {
    Identity { dev: meta.id.dev, ino: meta.id.ino, size: meta.size, ctime_ns: meta.ctime_ns }
}

fn changed(path: &str, why: &'static str) -> ReadError {
    ReadError::Changed { path: path.to_owned(), why }
}

fn io_error(path: &str, step: &'static str, fault: &Fault) -> ReadError {
    ReadError::Io { path: path.to_owned(), step, cause: fault.to_string() }
}
