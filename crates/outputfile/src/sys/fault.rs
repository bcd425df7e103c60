//! What the system layers of all platforms have in common: kinds of errors, of files, and of calls.

use std::fmt;
use std::sync::Arc;

/// What an error of the operating system means for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Missing,
    Exists,
    NotDirectory,
    IsDirectory,
    /// A link where none may be, or too many of them.
    Link,
    CrossesMount,
    ReadOnly,
    /// By the permissions of a file.
    Denied,
    /// By another rule: an attribute, a policy, a file system that does not know the call.
    NotPermitted,
    Full,
    Quota,
    TooBig,
    TooLong,
    /// The call, or the kind of call, is not known here.
    Unsupported,
    Invalid,
    /// Somebody changed names meanwhile; try again.
    Again,
    Other,
}

/// An error of the operating system.
#[derive(Debug)]
pub(crate) struct Fault {
    pub kind: FaultKind,
    pub cause: std::io::Error,
}

impl Fault {
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self { kind: FaultKind::Other, cause: std::io::Error::other(text.into()) }
    }

    /// Whether a call failed because the system or the file system does not have it.
    pub(crate) fn is_lacking(&self) -> bool {
        matches!(self.kind, FaultKind::Unsupported | FaultKind::Invalid)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// Identity of a file: while a handle is held, no other file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link or another thing that leads elsewhere.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// Anything else.
    Other,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Other => "of an unknown kind",
        })
    }
}

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meta {
    pub kind: Kind,
    pub id: FileId,
    pub uid: u32,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only another identity is judged by it")
    )]
    pub gid: u32,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Number of the mount, 0 when the system does not tell.
    pub mount: u64,
    /// Cannot be changed or replaced by anybody.
    pub frozen: bool,
}

/// Room on a file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pub read_only: bool,
    /// Bytes that we may still use; `None` when the file system reports no size.
    pub free: Option<u64>,
    /// The longest name, in bytes; `None` when unknown.
    pub longest_name: Option<usize>,
    /// Number of the kind of file system.
    pub kind: u64,
}

/// What a name in a directory stands for, seen without following it.
#[derive(Debug)]
pub(crate) enum Child<D> {
    Directory(D, Meta),
    Link { to: String, meta: Meta },
    Other,
    Missing,
}

/// A system call that a test may hold up or make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is named as the call that it stands for")]
pub enum Call {
    OpenTop,
    OpenChild,
    ReadLink,
    OpenBeneath,
    OpenBeneathByHand,
    OpenParent,
    Stat,
    MountNumber,
    MountNumberByProc,
    StatPath,
    Access,
    AccessAsProcess,
    StatFs,
    MakeDirectory,
    RemoveDirectory,
    SetMode,
    OpenNameless,
    OpenNamed,
    OpenExisting,
    Lock,
    OpenTurn,
    LockTurn,
    Write,
    Read,
    SyncFile,
    OpenForSync,
    SyncDirectory,
    LinkHandle,
    LinkThroughProc,
    LinkName,
    RenameNew,
    RenameOver,
    Exchange,
    Unlink,
    List,
    Random,
}

/// Asked before each system call: may wait, and may give the number of an error to be returned in its place.
#[derive(Clone)]
pub struct Hook(Arc<dyn Fn(Call) -> Option<i32> + Send + Sync>);

impl Hook {
    /// A hook of this function.
    pub fn new(ask: impl Fn(Call) -> Option<i32> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks it: the number of the error to return in place of the call, if any.
    #[must_use]
    pub fn ask(&self, call: Call) -> Option<i32> {
        (self.0)(call)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
