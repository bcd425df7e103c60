//! Windows (10 1709 or later; what older ones and foreign file systems lack has a fallback): directories through
//! handles, and what is in them. A reparse point is opened, never followed.

use std::fs::OpenOptions;
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::sync::Arc;

use windows_sys::Wdk::Storage::FileSystem::{FILE_DIRECTORY_FILE, FILE_OPEN};
use windows_sys::Win32::Foundation as code;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ADD_FILE, FILE_ADD_SUBDIRECTORY, FILE_ATTRIBUTE_DEVICE, FILE_ATTRIBUTE_DIRECTORY,
    FILE_ATTRIBUTE_READONLY, FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS, FILE_LIST_DIRECTORY,
    FILE_READ_ATTRIBUTES,
};

use super::reparse;
use super::windows_call::{self as raw, How, SHARE_ALL};
use super::windows_users::Credentials;
use super::{Call, Child, Fault, FaultKind, FileId, Hook, Kind, Meta, Space};
use crate::name::{self, Platform};
use crate::volume;

/// Whose name rules apply here.
pub(crate) const PLATFORM: Platform = Platform::Windows;
/// A root that a message may offer.
pub(crate) const EXAMPLE_ROOT: &str = r"C:\mcpproxy-output";

/// That a volume takes no writes.
const READ_ONLY_VOLUME: u32 = 0x0008_0000;
/// Times count tenths of microseconds since 1601, which is so many before 1970.
const TICKS_TO_1970: i64 = 116_444_736_000_000_000;
/// The access right by which a directory is held. To go through one, no right to it is needed.
const LOOK: u32 = FILE_READ_ATTRIBUTES;

/// A directory held open: it stays the same directory wherever its names go. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Dir(pub(super) Arc<OwnedHandle>);

/// An open file.
#[derive(Debug)]
pub(crate) struct File(pub(super) std::fs::File);

/// The calls to the operating system, each of which a test may hold up or make fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Os {
    hook: Option<Hook>,
}

pub(super) type Done<T> = Result<T, Fault>;

/// Opening directories and looking at names.
impl Os {
    pub(crate) fn new(hook: Option<Hook>) -> Self {
        Self { hook }
    }

    /// The top of a volume.
    pub(crate) fn top(&self, top: &str) -> Done<Dir> {
        let path = verbatim(&format!(r"{top}\"));
        let handle = self.call(Call::OpenTop, || open_path(&path, LOOK))?;
        // A drive may be another name of a directory (`subst`), which would hide that one root lies in another.
        let stands_for = raw::final_path(&handle).unwrap_or_default();
        let names = volume::parted(PLATFORM, &stands_for);
        if top.len() == 2 && names.len() > 1 {
            return Err(Fault::other(format!("{top} stands for the directory {stands_for}; name that one")));
        }
        Ok(Dir(Arc::new(handle)))
    }

    /// What a name stands for. Links are not followed.
    pub(crate) fn child(&self, dir: &Dir, name: &str) -> Done<Child<Dir>> {
        let how = How { access: LOOK, share: SHARE_ALL, disposition: FILE_OPEN, options: 0 };
        let handle = match self.call(Call::OpenChild, || raw::open_in(&dir.0, name, how)) {
            Err(fault) if fault.kind == FaultKind::Missing => return Ok(Child::Missing),
            opened => opened?,
        };
        let meta = self.stat(&handle)?;
        match meta.kind {
            Kind::Directory => Ok(Child::Directory(Dir(Arc::new(handle)), meta)),
            Kind::Link => {
                let data = self.call(Call::ReadLink, || raw::reparse_data(&handle))?;
                let to = reparse::link_text(&data).map_err(Fault::other)?;
                Ok(Child::Link { to, meta })
            }
            _ => Ok(Child::Other),
        }
    }

    /// Opens a directory directly beneath another. Links, junctions and mounted volumes are all reparse points: an error.
    pub(crate) fn beneath(&self, dir: &Dir, name: &str) -> Done<(Dir, Meta)> {
        let how =
            How { access: LOOK, share: SHARE_ALL, disposition: FILE_OPEN, options: FILE_DIRECTORY_FILE };
        let handle = self.call(Call::OpenBeneath, || raw::open_in(&dir.0, name, how))?;
        let meta = self.stat(&handle)?;
        if meta.kind != Kind::Directory {
            return Err(fault_of_link());
        }
        Ok((Dir(Arc::new(handle)), meta))
    }

    /// The directory above, by the path that the system knows the directory by; at the top of a volume the top.
    pub(crate) fn parent(&self, dir: &Dir) -> Done<(Dir, Meta)> {
        let handle = self.call(Call::OpenParent, || {
            let path = raw::final_path(&dir.0)?;
            let mut names = volume::parted(PLATFORM, &path);
            names.truncate(names.len().saturating_sub(1).max(1));
            let (top, names) = volume::split_whole(PLATFORM, &names);
            open_path(&name::joined(PLATFORM, top, names), LOOK)
        })?;
        let meta = self.stat(&handle)?;
        Ok((Dir(Arc::new(handle)), meta))
    }

    pub(crate) fn meta(&self, dir: &Dir) -> Done<Meta> {
        self.stat(&dir.0)
    }

    pub(crate) fn file_meta(&self, file: &File) -> Done<Meta> {
        self.call(Call::Stat, || meta_of(&file.0))
    }

    /// What a name stands for, if anything; links are not followed.
    pub(crate) fn look(&self, dir: &Dir, name: &str) -> Done<Option<Meta>> {
        let how = How { access: FILE_READ_ATTRIBUTES, share: SHARE_ALL, disposition: FILE_OPEN, options: 0 };
        match self.call(Call::Stat, || raw::open_in(&dir.0, name, how).and_then(|handle| meta_of(&handle))) {
            Ok(meta) => Ok(Some(meta)),
            Err(fault) if fault.kind == FaultKind::Missing => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// What the system finds at an absolute path, links followed.
    pub(crate) fn at_path(&self, path: &str) -> Done<Meta> {
        let path = verbatim(path);
        self.call(Call::StatPath, || meta_of(&open_path(&path, FILE_READ_ATTRIBUTES)?))
    }

    /// Whether names can be made in the directory, by its access rules and by the volume.
    pub(crate) fn may_create(&self, dir: &Dir, _who: Option<&Credentials>) -> Done<()> {
        self.call(Call::Access, || reopened(dir, FILE_ADD_FILE | FILE_ADD_SUBDIRECTORY)).map(drop)
    }

    pub(crate) fn space(&self, dir: &Dir) -> Done<Space> {
        let (units, bytes) = self.call(Call::StatFs, || raw::free_units(&dir.0))?;
        let (flags, longest, _) = self.call(Call::StatFs, || raw::file_system(&dir.0))?;
        Ok(Space {
            read_only: flags & READ_ONLY_VOLUME != 0,
            free: (bytes > 0).then(|| units.saturating_mul(bytes)),
            longest_name: usize::try_from(longest).ok().filter(|longest| *longest > 0),
            kind: u64::from(flags),
        })
    }

    /// The kind of file system that a directory lies on, as the system names it.
    pub(crate) fn file_system(&self, dir: &Dir, _mount: u64) -> String {
        let known = raw::file_system(&dir.0).map(|(_, _, name)| name).ok().filter(|name| !name.is_empty());
        known.unwrap_or_else(|| String::from("of an unknown kind"))
    }

    /// The names in a directory that are wanted, among at the most so many.
    pub(crate) fn list(&self, dir: &Dir, most: usize, wanted: impl Fn(&str) -> bool) -> Done<Vec<String>> {
        let open = self.call(Call::List, || reopened(dir, FILE_LIST_DIRECTORY))?;
        let (mut names, mut seen) = (Vec::new(), 0);
        while seen < most {
            let next = self.call(Call::List, || raw::next_names(&open))?;
            if next.is_empty() {
                break;
            }
            seen += next.len();
            names.extend(next.into_iter().filter(|name| wanted(name)));
        }
        Ok(names)
    }

    fn stat(&self, handle: &OwnedHandle) -> Done<Meta> {
        self.call(Call::Stat, || meta_of(handle))
    }

    /// Makes a call, or gives the error of the hook, which is a number as `GetLastError` has it.
    pub(super) fn call<T>(&self, call: Call, make: impl FnOnce() -> io::Result<T>) -> Done<T> {
        match self.hook.as_ref().and_then(|hook| hook.ask(call)) {
            Some(code) => Err(io::Error::from_raw_os_error(code).into()),
            None => make().map_err(Fault::from),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(cause: io::Error) -> Self {
        let number = cause.raw_os_error().and_then(|number| u32::try_from(number).ok());
        let kind = match number.unwrap_or(code::ERROR_SUCCESS) {
            // A name that is going away is as good as gone.
            code::ERROR_FILE_NOT_FOUND | code::ERROR_PATH_NOT_FOUND | code::ERROR_DELETE_PENDING => {
                FaultKind::Missing
            }
            code::ERROR_FILE_EXISTS | code::ERROR_ALREADY_EXISTS => FaultKind::Exists,
            code::ERROR_DIRECTORY => FaultKind::NotDirectory,
            code::ERROR_DIRECTORY_NOT_SUPPORTED => FaultKind::IsDirectory,
            code::ERROR_REPARSE_POINT_ENCOUNTERED
            | code::ERROR_STOPPED_ON_SYMLINK
            | code::ERROR_CANT_RESOLVE_FILENAME => FaultKind::Link,
            code::ERROR_NOT_SAME_DEVICE => FaultKind::CrossesMount,
            code::ERROR_WRITE_PROTECT => FaultKind::ReadOnly,
            code::ERROR_ACCESS_DENIED | code::ERROR_SHARING_VIOLATION => FaultKind::Denied,
            code::ERROR_PRIVILEGE_NOT_HELD => FaultKind::NotPermitted,
            code::ERROR_DISK_FULL | code::ERROR_HANDLE_DISK_FULL => FaultKind::Full,
            code::ERROR_DISK_QUOTA_EXCEEDED => FaultKind::Quota,
            code::ERROR_FILE_TOO_LARGE => FaultKind::TooBig,
            code::ERROR_FILENAME_EXCED_RANGE => FaultKind::TooLong,
            code::ERROR_INVALID_FUNCTION
            | code::ERROR_NOT_SUPPORTED
            | code::ERROR_CALL_NOT_IMPLEMENTED
            | code::ERROR_INVALID_LEVEL => FaultKind::Unsupported,
            code::ERROR_INVALID_PARAMETER => FaultKind::Invalid,
            code::ERROR_LOCK_VIOLATION => FaultKind::Again,
            _ => FaultKind::Other,
        };
        Self { kind, cause }
    }
}

/// A handle of the same directory with other rights.
pub(super) fn reopened(dir: &Dir, access: u32) -> io::Result<OwnedHandle> {
    let how = How { access, share: SHARE_ALL, disposition: FILE_OPEN, options: FILE_DIRECTORY_FILE };
    raw::open_in(&dir.0, "", how)
}

/// What is known of an open file. Owner and mode are made up, so that the rules for them always hold.
pub(super) fn meta_of(handle: &impl AsRawHandle) -> io::Result<Meta> {
    let found = raw::by_handle(handle)?;
    let times = raw::times(handle)?;
    let has = |attribute: u32| found.dwFileAttributes & attribute != 0;
    let kind = if has(FILE_ATTRIBUTE_REPARSE_POINT) {
        Kind::Link
    } else if has(FILE_ATTRIBUTE_DIRECTORY) {
        Kind::Directory
    } else if has(FILE_ATTRIBUTE_DEVICE) {
        Kind::Device
    } else {
        Kind::File
    };
    let id = match raw::wide_id(handle) {
        Ok(id) => {
            FileId { dev: id.VolumeSerialNumber, ino: narrow(u128::from_le_bytes(id.FileId.Identifier)) }
        }
        Err(_) => FileId {
            dev: u64::from(found.dwVolumeSerialNumber),
            ino: wide(found.nFileIndexHigh, found.nFileIndexLow),
        },
    };
    Ok(Meta {
        kind,
        id,
        uid: super::our_uid(),
        gid: 0,
        mode: if kind == Kind::Directory { 0o700 } else { 0o600 },
        size: wide(found.nFileSizeHigh, found.nFileSizeLow),
        ctime_ns: times.ChangeTime.saturating_sub(TICKS_TO_1970).saturating_mul(100),
        // Volumes are mounted only at reparse points, which are links here.
        mount: id.dev,
        frozen: kind == Kind::File && has(FILE_ATTRIBUTE_READONLY),
    })
}

/// NTFS has 64 bits. ReFS has 128, of which both halves are small: they are laid over each other.
fn narrow(id: u128) -> u64 {
    let low = u64::try_from(id & u128::from(u64::MAX)).unwrap_or(0);
    let high = u64::try_from(id >> 64).unwrap_or(0);
    low ^ high.rotate_left(32)
}

fn wide(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

/// A path that programs use as the one that the system takes as it is, however long.
fn verbatim(path: &str) -> String {
    match path.strip_prefix(r"\\") {
        Some(rest) if rest.starts_with(r"?\") => path.to_owned(),
        Some(share) => format!(r"\\?\UNC\{share}"),
        None => format!(r"\\?\{path}"),
    }
}

fn open_path(path: &str, access: u32) -> io::Result<OwnedHandle> {
    let mut how = OpenOptions::new();
    how.access_mode(access).share_mode(SHARE_ALL).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    how.open(path).map(OwnedHandle::from)
}

/// The fault of a reparse point where a directory was to be.
pub(super) fn fault_of_link() -> Fault {
    Fault { kind: FaultKind::Link, cause: io::Error::other("it is a link, a junction or a mount point") }
}
