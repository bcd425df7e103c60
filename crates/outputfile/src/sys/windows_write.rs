//! Windows: making, writing, naming and removing files and directories, always beneath a handle.

use std::io::{self, Write as _};
use std::os::windows::fs::FileExt as _;
use std::os::windows::io::{AsRawHandle, OwnedHandle};

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_CREATE, FILE_DIRECTORY_FILE, FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_RENAME_POSIX_SEMANTICS,
    FILE_RENAME_REPLACE_IF_EXISTS, FileLinkInformation, FileRenameInformation, FileRenameInformationEx,
};
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_ADD_FILE, FILE_GENERIC_READ, FILE_GENERIC_WRITE, FILE_READ_ATTRIBUTES, FILE_WRITE_ATTRIBUTES,
};

use super::windows::{Dir, Done, File, Os, fault_of_link, meta_of, reopened};
use super::windows_call::{self as raw, How, SHARE_ALL, SHARE_NO_WRITE};
use super::{Call, Fault, FaultKind, Kind};

/// Making, writing, naming and removing.
impl Os {
    /// The new directory has the access rules that the one above hands down.
    /// Directories cannot be locked.
    pub(crate) fn lock_names(&self, _dir: &Dir) -> Done<Option<File>> {
        self.call(Call::LockTurn, unsupported)
    }

    pub(crate) fn make_directory(&self, dir: &Dir, name: &str) -> Done<()> {
        let how = How {
            access: FILE_READ_ATTRIBUTES,
            share: SHARE_ALL,
            disposition: FILE_CREATE,
            options: FILE_DIRECTORY_FILE,
        };
        self.call(Call::MakeDirectory, || raw::open_in(&dir.0, name, how)).map(drop)
    }

    pub(crate) fn remove_directory(&self, dir: &Dir, name: &str) -> Done<()> {
        self.call(Call::RemoveDirectory, || remove(dir, name, FILE_DIRECTORY_FILE))
    }

    /// Nothing to do: there are no modes, and no setting asks for another than the one made up.
    pub(crate) fn set_directory_mode(&self, _dir: &Dir, _mode: u32) -> Done<()> {
        Ok(())
    }

    /// Nothing to do, as above.
    pub(crate) fn set_mode(&self, _file: &File, _mode: u32) -> Done<()> {
        Ok(())
    }

    /// There are no files without a name.
    pub(crate) fn nameless(&self, _dir: &Dir) -> Done<File> {
        self.call(Call::OpenNameless, unsupported).map(File)
    }

    /// A new file; never one that exists, and never through a link. Nobody else may write into it while it is open.
    pub(crate) fn named(&self, dir: &Dir, name: &str) -> Done<File> {
        let how = How {
            access: FILE_GENERIC_READ | FILE_GENERIC_WRITE | DELETE,
            share: SHARE_NO_WRITE,
            disposition: FILE_CREATE,
            options: FILE_NON_DIRECTORY_FILE,
        };
        self.call(Call::OpenNamed, || raw::open_in(&dir.0, name, how)).map(File::of)
    }

    /// An existing file for reading; never through a link.
    pub(crate) fn existing(&self, dir: &Dir, name: &str) -> Done<File> {
        let how = How {
            access: FILE_GENERIC_READ,
            share: SHARE_ALL,
            disposition: FILE_OPEN,
            options: FILE_NON_DIRECTORY_FILE,
        };
        let handle = self.call(Call::OpenExisting, || raw::open_in(&dir.0, name, how))?;
        let meta = self.call(Call::Stat, || meta_of(&handle))?;
        if meta.kind == Kind::Link { Err(fault_of_link()) } else { Ok(File::of(handle)) }
    }

    /// Locks a file until it is closed. False: somebody else has a lock that forbids it.
    pub(crate) fn lock(&self, file: &File, alone: bool) -> Done<bool> {
        match self.call(Call::Lock, || raw::lock(&file.0, alone)) {
            Ok(()) => Ok(true),
            Err(fault) if fault.kind == FaultKind::Again => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Writes all of it, in as many pieces as the system wants.
    pub(crate) fn write_all(&self, file: &File, mut bytes: &[u8]) -> Done<()> {
        while !bytes.is_empty() {
            match self.call(Call::Write, || (&file.0).write(bytes))? {
                0 => return Err(Fault::other("the file system took no bytes")),
                taken => bytes = bytes.get(taken..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Reads from this offset. The place where the file is written goes with it, so nobody writes afterwards.
    pub(crate) fn read_at(&self, file: &File, offset: u64, into: &mut [u8]) -> Done<usize> {
        self.call(Call::Read, || file.0.seek_read(into, offset))
    }

    pub(crate) fn sync(&self, file: &File) -> Done<()> {
        self.call(Call::SyncFile, || file.0.sync_all())
    }

    /// Makes the names in a directory durable, where the file system can and the directory may be written.
    pub(crate) fn sync_directory(&self, dir: &Dir) -> Done<()> {
        let open = match self.call(Call::OpenForSync, || reopened(dir, FILE_ADD_FILE)) {
            Err(fault) if fault.kind == FaultKind::Denied => return Ok(()),
            opened => opened?,
        };
        match self.call(Call::SyncDirectory, || std::fs::File::from(open).sync_all()) {
            Err(fault) if fault.is_lacking() || fault.kind == FaultKind::Denied => Ok(()),
            result => result,
        }
    }

    /// There are no files without a name, so none is given one.
    pub(crate) fn link_handle(&self, _file: &File, _dir: &Dir, _name: &str) -> Done<()> {
        self.call(Call::LinkHandle, unsupported)
    }

    /// As above.
    pub(crate) fn link_through_proc(&self, _file: &File, _dir: &Dir, _name: &str) -> Done<()> {
        self.call(Call::LinkThroughProc, unsupported)
    }

    /// A second name in the same directory; fails if it exists.
    pub(crate) fn link_name(&self, dir: &Dir, from: &str, to: &str) -> Done<()> {
        self.call(Call::LinkName, || {
            let file = open_to_name(dir, from, FILE_WRITE_ATTRIBUTES)?;
            raw::name_in(&file, &dir.0, to, FileLinkInformation, 0)
        })
    }

    /// Renames in the same directory; fails if the new name exists.
    pub(crate) fn rename_new(&self, dir: &Dir, from: &str, to: &str) -> Done<()> {
        self.call(Call::RenameNew, || {
            let file = open_to_name(dir, from, DELETE)?;
            raw::name_in(&file, &dir.0, to, FileRenameInformation, 0)
        })
    }

    /// The same for a file that we hold open, by its handle: whatever has its name by now is not renamed.
    pub(crate) fn move_new(&self, file: &File, dir: &Dir, _from: &str, to: &str) -> Done<()> {
        self.call(Call::RenameNew, || raw::name_in(&file.0, &dir.0, to, FileRenameInformation, 0))
    }

    /// Renames in the same directory, in place of what is there, also while others have that open.
    pub(crate) fn rename_over(&self, dir: &Dir, from: &str, to: &str) -> Done<()> {
        let file = self.call(Call::RenameOver, || open_to_name(dir, from, DELETE))?;
        self.over(&file, dir, to)
    }

    /// The same for a file that we hold open, by its handle.
    pub(crate) fn move_over(&self, file: &File, dir: &Dir, _from: &str, to: &str) -> Done<()> {
        self.over(&file.0, dir, to)
    }

    fn over(&self, file: &impl AsRawHandle, dir: &Dir, to: &str) -> Done<()> {
        let over =
            |class, flags| self.call(Call::RenameOver, || raw::name_in(file, &dir.0, to, class, flags));
        let flags = FILE_RENAME_REPLACE_IF_EXISTS | FILE_RENAME_POSIX_SEMANTICS;
        match over(FileRenameInformationEx, flags) {
            // An older Windows, or a file system that is not NTFS: as long as nobody has it open.
            Err(fault) if fault.is_lacking() => over(FileRenameInformation, FILE_RENAME_REPLACE_IF_EXISTS),
            result => result,
        }
    }

    /// Names cannot be exchanged.
    pub(crate) fn exchange(&self, _dir: &Dir, _one: &str, _other: &str) -> Done<()> {
        self.call(Call::Exchange, unsupported)
    }

    pub(crate) fn unlink(&self, dir: &Dir, name: &str) -> Done<()> {
        self.call(Call::Unlink, || remove(dir, name, FILE_NON_DIRECTORY_FILE))
    }

    pub(crate) fn random(&self) -> Done<[u8; 16]> {
        let mut bytes = [0; 16];
        self.call(Call::Random, || raw::random(&mut bytes))?;
        Ok(bytes)
    }
}

impl File {
    fn of(handle: OwnedHandle) -> Self {
        Self(handle.into())
    }
}

fn open_to_name(dir: &Dir, name: &str, access: u32) -> io::Result<OwnedHandle> {
    let how = How { access, share: SHARE_ALL, disposition: FILE_OPEN, options: FILE_NON_DIRECTORY_FILE };
    raw::open_in(&dir.0, name, how)
}

/// Removes a name at once; where that is not known, as soon as nobody has the file open.
fn remove(dir: &Dir, name: &str, options: u32) -> io::Result<()> {
    let how = How { access: DELETE, share: SHARE_ALL, disposition: FILE_OPEN, options };
    let file = raw::open_in(&dir.0, name, how)?;
    match raw::remove_at_once(&file) {
        Err(error)
            if Fault::from(io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0))).is_lacking() =>
        {
            raw::remove_at_close(&file)
        }
        result => result,
    }
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(NOT_SUPPORTED))
}

/// `ERROR_NOT_SUPPORTED`, as std takes it.
const NOT_SUPPORTED: i32 = 50;
