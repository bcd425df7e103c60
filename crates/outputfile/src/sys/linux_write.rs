//! Linux: making, writing, naming and removing files and directories, always beneath a handle.

use std::os::fd::{AsFd as _, AsRawFd as _};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};

use super::linux::{Dir, Done, File, Os, open_for_reading};
use super::{Call, Fault, FaultKind};

/// Making, writing, naming and removing.
impl Os {
    pub(crate) fn make_directory(&self, dir: &Dir, name: &str) -> Done<()> {
        self.call(Call::MakeDirectory, || rustix::fs::mkdirat(dir, name, Mode::RWXU))
    }

    pub(crate) fn remove_directory(&self, dir: &Dir, name: &str) -> Done<()> {
        self.call(Call::RemoveDirectory, || rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
    }

    /// Sets the mode of a directory, whatever the umask was.
    pub(crate) fn set_directory_mode(&self, dir: &Dir, mode: u32) -> Done<()> {
        let mode = Mode::from_raw_mode(mode);
        match self.call(Call::OpenForSync, || open_for_reading(dir)) {
            Ok(fd) => self.call(Call::SetMode, || rustix::fs::fchmod(&fd, mode)),
            // The umask took the right to read it.
            Err(fault) if fault.kind == FaultKind::Denied => {
                let handle = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
                self.call(Call::SetMode, || rustix::fs::chmod(handle.as_str(), mode))
            }
            Err(fault) => Err(fault),
        }
    }

    pub(crate) fn set_mode(&self, file: &File, mode: u32) -> Done<()> {
        self.call(Call::SetMode, || rustix::fs::fchmod(&file.0, Mode::from_raw_mode(mode)))
    }

    /// A file without a name, which goes away by itself.
    pub(crate) fn nameless(&self, dir: &Dir) -> Done<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        self.call(Call::OpenNameless, || rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR))
            .map(File)
    }

    /// A new file; never one that exists, and never through a link.
    pub(crate) fn named(&self, dir: &Dir, name: &str) -> Done<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        self.call(Call::OpenNamed, || rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)).map(File)
    }

    /// An existing file for reading; never through a link, and without waiting for whatever it is.
    pub(crate) fn existing(&self, dir: &Dir, name: &str) -> Done<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.call(Call::OpenExisting, || rustix::fs::openat(dir, name, flags, Mode::empty())).map(File)
    }

    /// Locks a file until it is closed. False: somebody else has a lock that forbids it.
    pub(crate) fn lock(&self, file: &File, alone: bool) -> Done<bool> {
        let how = if alone {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match self.call(Call::Lock, || rustix::fs::flock(&file.0, how)) {
            Ok(()) => Ok(true),
            Err(fault) if fault.kind == FaultKind::Again => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Locks the names of a directory against other writers, until the handle is dropped. `None`: another has them.
    pub(crate) fn lock_names(&self, dir: &Dir) -> Done<Option<File>> {
        let handle = File(self.call(Call::OpenTurn, || open_for_reading(dir))?);
        let how = FlockOperation::NonBlockingLockExclusive;
        match self.call(Call::LockTurn, || rustix::fs::flock(&handle.0, how)) {
            Ok(()) => Ok(Some(handle)),
            Err(fault) if fault.kind == FaultKind::Again => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Writes all of it, in as many pieces as the system wants.
    pub(crate) fn write_all(&self, file: &File, mut bytes: &[u8]) -> Done<()> {
        while !bytes.is_empty() {
            match self.call(Call::Write, || rustix::io::write(&file.0, bytes))? {
                0 => return Err(Fault::other("the file system took no bytes")),
                taken => bytes = bytes.get(taken..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    pub(crate) fn read_at(&self, file: &File, offset: u64, into: &mut [u8]) -> Done<usize> {
        self.call(Call::Read, || rustix::io::pread(&file.0, &mut *into, offset))
    }

    pub(crate) fn sync(&self, file: &File) -> Done<()> {
        self.call(Call::SyncFile, || rustix::fs::fsync(&file.0))
    }

    /// Makes the names in a directory durable, where the file system can and the directory may be read.
    pub(crate) fn sync_directory(&self, dir: &Dir) -> Done<()> {
        let fd = match self.call(Call::OpenForSync, || open_for_reading(dir)) {
            Err(fault) if fault.kind == FaultKind::Denied => return Ok(()),
            opened => opened?,
        };
        match self.call(Call::SyncDirectory, || rustix::fs::fsync(&fd)) {
            Err(fault) if fault.is_lacking() => Ok(()),
            result => result,
        }
    }

    /// Names an open file; fails if the name exists.
    pub(crate) fn link_handle(&self, file: &File, dir: &Dir, name: &str) -> Done<()> {
        self.call(Call::LinkHandle, || rustix::fs::linkat(&file.0, "", dir, name, AtFlags::EMPTY_PATH))
    }

    /// The same through `/proc`, for kernels where only a privileged process may name a handle.
    pub(crate) fn link_through_proc(&self, file: &File, dir: &Dir, name: &str) -> Done<()> {
        let source = format!("/proc/self/fd/{}", file.0.as_raw_fd());
        self.call(Call::LinkThroughProc, || {
            rustix::fs::linkat(CWD, source.as_str(), dir, name, AtFlags::SYMLINK_FOLLOW)
        })
    }

    /// A second name in the same directory; fails if it exists.
    pub(crate) fn link_name(&self, dir: &Dir, from: &str, to: &str) -> Done<()> {
        self.call(Call::LinkName, || rustix::fs::linkat(dir, from, dir, to, AtFlags::empty()))
    }

    /// Renames in the same directory; fails if the new name exists.
    pub(crate) fn rename_new(&self, dir: &Dir, from: &str, to: &str) -> Done<()> {
        self.call(Call::RenameNew, || rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE))
    }

    /// Renames in the same directory, in place of what is there.
    pub(crate) fn rename_over(&self, dir: &Dir, from: &str, to: &str) -> Done<()> {
        self.call(Call::RenameOver, || rustix::fs::renameat(dir, from, dir, to))
    }

    /// Exchanges two names of the same directory.
    pub(crate) fn exchange(&self, dir: &Dir, one: &str, other: &str) -> Done<()> {
        self.call(Call::Exchange, || rustix::fs::renameat_with(dir, one, dir, other, RenameFlags::EXCHANGE))
    }

    pub(crate) fn unlink(&self, dir: &Dir, name: &str) -> Done<()> {
        self.call(Call::Unlink, || rustix::fs::unlinkat(dir, name, AtFlags::empty()))
    }

    pub(crate) fn random(&self) -> Done<[u8; 16]> {
        let mut bytes = [0; 16];
        let flags = rustix::rand::GetRandomFlags::empty();
        match self.call(Call::Random, || rustix::rand::getrandom(&mut bytes, flags))? {
            16 => Ok(bytes),
            _ => Err(Fault::other("too few random bytes")),
        }
    }
}
