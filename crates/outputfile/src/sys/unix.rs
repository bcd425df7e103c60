//! Unix: what Linux and macOS have in common, by rustix: handles, calls that a test may hold up, errors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Call, Fault, FaultKind, Hook, Kind, PLATFORM};
use crate::name::Platform;

/// A root that a message may offer.
pub(crate) const EXAMPLE_ROOT: &str = "/srv/mcpproxy-output";

const PROGRAMS: [&str; 25] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/bin",
    "/usr/sbin",
    "/usr/games",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/games",
    "/usr/local/lib",
    "/usr/local/libexec",
    "/run/systemd",
    "/run/udev",
    "/var/lib/dpkg",
    "/var/lib/systemd",
    "/var/spool/at",
    "/var/spool/cron",
];

/// How often a call that was interrupted, or that lost a race in the kernel, is made again.
pub(super) const TRIES: usize = 64;

/// A directory held open: it stays the same directory wherever its names go. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Dir(pub(super) Arc<OwnedFd>);

/// An open file.
#[derive(Debug)]
pub(crate) struct File(pub(super) OwnedFd);

/// The calls to the operating system, each of which a test may hold up or make fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Os {
    hook: Option<Hook>,
}

pub(super) type Done<T> = Result<T, Fault>;

impl Os {
    pub(crate) fn new(hook: Option<Hook>) -> Self {
        Self { hook }
    }

    /// The names in a directory that are wanted, among at the most so many.
    pub(crate) fn list(&self, dir: &Dir, most: usize, wanted: impl Fn(&str) -> bool) -> Done<Vec<String>> {
        let fd = self.call(Call::List, || open_for_reading(dir))?;
        let mut entries = rustix::fs::Dir::new(fd).map_err(Fault::from)?;
        let mut names = Vec::new();
        for _ in 0..most {
            let Some(entry) = entries.read() else { break };
            let entry = entry.map_err(Fault::from)?;
            if let Ok(name) = entry.file_name().to_str()
                && wanted(name)
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Makes a call, again while it is interrupted by a signal.
    pub(super) fn call<T>(&self, call: Call, mut make: impl FnMut() -> rustix::io::Result<T>) -> Done<T> {
        let mut result = Err(Errno::INTR);
        for _ in 0..TRIES {
            result = match self.hook.as_ref().and_then(|hook| hook.ask(call)) {
                Some(code) => Err(Errno::from_raw_os_error(code)),
                None => make(),
            };
            if !matches!(result, Err(Errno::INTR)) {
                break;
            }
        }
        result.map_err(Fault::from)
    }
}

impl Dir {
    pub(super) fn of(fd: OwnedFd) -> Self {
        Self(Arc::new(fd))
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        let kind = match errno {
            Errno::NOENT => FaultKind::Missing,
            Errno::EXIST => FaultKind::Exists,
            Errno::NOTDIR => FaultKind::NotDirectory,
            Errno::ISDIR => FaultKind::IsDirectory,
            Errno::LOOP => FaultKind::Link,
            Errno::XDEV => FaultKind::CrossesMount,
            Errno::ROFS => FaultKind::ReadOnly,
            Errno::ACCESS => FaultKind::Denied,
            Errno::PERM => FaultKind::NotPermitted,
            Errno::NOSPC => FaultKind::Full,
            Errno::DQUOT => FaultKind::Quota,
            Errno::FBIG => FaultKind::TooBig,
            Errno::NAMETOOLONG => FaultKind::TooLong,
            Errno::NOSYS | Errno::OPNOTSUPP => FaultKind::Unsupported,
            Errno::INVAL => FaultKind::Invalid,
            Errno::AGAIN => FaultKind::Again,
            // On macOS this is a number of its own.
            errno if errno == Errno::NOTSUP => FaultKind::Unsupported,
            _ => FaultKind::Other,
        };
        Self { kind, cause: std::io::Error::from_raw_os_error(errno.raw_os_error()) }
    }
}

/// A handle that can be read and synced, of the same directory.
pub(super) fn open_for_reading(dir: &Dir) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Beneath these, around these, and these themselves: never a root.
pub(crate) fn system_directories() -> Vec<PathBuf> {
    let all: &[&str] = match PLATFORM {
        Platform::MacOs => &["/dev", "/etc", "/System"],
        Platform::Linux | Platform::Windows => &["/dev", "/proc", "/sys", "/etc", "/boot"],
    };
    all.iter().map(PathBuf::from).collect()
}

/// Every directory directly in one of these is a home.
pub(crate) fn directories_of_homes() -> Vec<PathBuf> {
    ["/home", "/Users"].map(PathBuf::from).to_vec()
}

/// The same: what lies here is run, or tells what is run, so that a save would be a command.
pub(crate) fn program_directories() -> Vec<PathBuf> {
    PROGRAMS.iter().map(PathBuf::from).collect()
}

/// The programs of others lie in this one, each in a directory of its own: a root may lie in it, and not be it.
pub(crate) fn directory_of_other_programs() -> PathBuf {
    PathBuf::from("/opt")
}

pub(super) fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => Kind::Device,
        FileType::Unknown => Kind::Other,
    }
}
