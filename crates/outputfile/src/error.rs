//! Why a save is refused or failed: one variant for each thing that the reader can do about it.
//!
//! The texts carry no prefix. Paths in them are shown with control and invisible characters escaped.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::name::{self, NameProblem};
use crate::sys::{Fault, FaultKind, Kind};
use crate::write::Saved;

/// Roots that a message lists at the most.
const LISTED: usize = 20;
/// Bytes of a path that a message shows at the most.
const SHOWN: usize = 600;

/// A save that was refused, or that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// No root is configured.
    #[error(
        "saving to files is off, because no directory is allowed; add the line \"tool_output_roots\": [\"/absolute/directory\"] to the configuration file"
    )]
    Disabled,
    /// The spelling of the path.
    #[error("the path {} {problem}", shown(path))]
    Path {
        /// As it was asked for.
        path: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// Not beneath a root, or led out of it by a link. The text is the same whatever is there.
    #[error(
        "{} is outside the directories that may be written into; use a path beneath {}",
        shown(path),
        listed(roots)
    )]
    Outside {
        /// As it was asked for.
        path: String,
        /// The roots.
        roots: Vec<PathBuf>,
    },
    /// One root can be reached through another.
    #[error(
        "the roots {} and {} are, or lie in, the same directory ({detail}); take one of them out of \"tool_output_roots\"",
        shown_path(root),
        shown_path(other)
    )]
    Alias {
        /// The root of the target.
        root: PathBuf,
        /// The other root.
        other: PathBuf,
        /// How it was seen.
        detail: String,
    },
    /// Somebody else could redirect or change what lies beneath the root.
    #[error("the root {} cannot be trusted: {why}", shown_path(root))]
    Untrusted {
        /// The root of the target.
        root: PathBuf,
        /// The rule, where it is broken, and the line that would allow it.
        why: String,
    },
    /// The root holds a directory that no save may reach.
    #[error("the root {} {why}; choose a directory of its own for saved files", shown_path(root))]
    Protected {
        /// The root of the target.
        root: PathBuf,
        /// What it holds or lies in.
        why: String,
    },
    /// Something on the way is not what it was when it was checked.
    #[error("{} is not what it was when it was checked: {why}", shown_path(at))]
    Moved {
        /// The root or directory.
        at: PathBuf,
        /// What changed, and what to do.
        why: String,
    },
    /// The file exists, and overwriting was not asked for.
    #[error("{} exists; choose another name, or pass save_overwrite: true to replace it", shown(path))]
    Exists {
        /// As it was asked for.
        path: String,
    },
    /// Another call of this process is writing the same file.
    #[error("{} is being written by another call; wait for it, or choose another name", shown(path))]
    Busy {
        /// As it was asked for.
        path: String,
    },
    /// The name stands for something that is no regular file.
    #[error("{} is {kind}, and only a regular file can be replaced; choose another name", shown(path))]
    TargetKind {
        /// As it was asked for.
        path: String,
        /// What it is.
        kind: Kind,
    },
    /// A component on the way is no directory.
    #[error(
        "{} cannot hold files, because it is no directory; choose another path than {}",
        shown_path(at),
        shown(path)
    )]
    NotDirectory {
        /// As it was asked for.
        path: String,
        /// The component.
        at: PathBuf,
    },
    /// A link on the way, on a platform where no owner tells whether it may be followed.
    #[error(
        "{} leads through a symbolic link, junction or mount point, and beneath a root none is followed here; choose a path without it",
        shown(path)
    )]
    Link {
        /// As it was asked for.
        path: String,
    },
    /// Something else is mounted on the way.
    #[error(
        "another file system or directory is mounted at {}, and a save does not cross mounts; name it as a root of its own: \"tool_output_roots\": [{}]",
        shown_path(at),
        quoted(at)
    )]
    Mount {
        /// The mount point inside the root.
        at: PathBuf,
    },
    /// The file system is mounted read-only.
    #[error("the file system of {} is read-only; mount it writable, or use another root", shown_path(at))]
    ReadOnly {
        /// The directory.
        at: PathBuf,
    },
    /// The operating system denies it.
    #[error("no permission for {action} {}{hint}", shown_path(at))]
    Denied {
        /// The file or directory.
        at: PathBuf,
        /// What was to be done there.
        action: &'static str,
        /// Who could not, and what to do; begins with its own punctuation.
        hint: String,
    },
    /// The file system takes no name as long as this.
    #[error(
        "the file system of {} takes no name as long as that of {}; shorten it",
        shown_path(at),
        shown(path)
    )]
    NameTooLong {
        /// As it was asked for.
        path: String,
        /// The directory.
        at: PathBuf,
    },
    /// Less is free than must stay free.
    #[error(
        "only {free} bytes are free on the file system of {}, and {wanted} must be; make room, or lower \"tool_output_min_free_bytes\"",
        shown_path(at)
    )]
    LowSpace {
        /// The directory.
        at: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be.
        wanted: u64,
    },
    /// The disk ran full while the file was written.
    #[error("no space left on the file system of {}; make room and call again", shown_path(at))]
    Full {
        /// The directory.
        at: PathBuf,
    },
    /// The files of the root take all that they may.
    #[error(
        "the saved files beneath {} take {used} bytes, and {limit} are allowed; delete some, or raise \"tool_output_max_total_bytes\"",
        shown_path(root)
    )]
    Total {
        /// The root, as configured.
        root: PathBuf,
        /// Bytes that the files take.
        used: u64,
        /// Bytes that they may take.
        limit: u64,
    },
    /// The quota of the user is used up.
    #[error(
        "the disk quota on the file system of {} is used up; delete files or raise the quota",
        shown_path(at)
    )]
    Quota {
        /// The directory.
        at: PathBuf,
    },
    /// More bytes than one file may have.
    #[error(
        "{} is not saved: the answer has {}{size} bytes, and a file may have {limit}; ask the tool for less, or raise \"tool_output_max_bytes\"",
        shown(path),
        if *.exact { "" } else { "at least " }
    )]
    TooLarge {
        /// As it was asked for.
        path: String,
        /// Bytes that came.
        size: u64,
        /// Whether that is all of them.
        exact: bool,
        /// Bytes that a file may have.
        limit: u64,
    },
    /// The process, or the file system, takes no file as large as this.
    #[error(
        "{} would be larger than the file size limit of this process or file system; raise it (`ulimit -f`), or ask the tool for less",
        shown(path)
    )]
    FileLimit {
        /// As it was asked for.
        path: String,
    },
    /// The file system cannot publish a file without the danger of replacing another.
    #[error(
        "the file system {fs} of {} can neither link nor rename without replacing, so a file cannot be published safely; use a root on another file system",
        shown_path(at)
    )]
    NoPublish {
        /// The kind of the file system, as `/proc/self/mountinfo` names it, and where it is mounted.
        fs: String,
        /// The directory.
        at: PathBuf,
    },
    /// Any other error of the operating system.
    #[error("{step} {} failed: {cause}; see to it, then call again", shown_path(at))]
    Io {
        /// The file or directory.
        at: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What went wrong.
        cause: String,
    },
    /// The file is published and complete, and a power cut may still take it away.
    #[error("{} is written, but may not survive a power cut: {step} failed: {cause}; check the disk", shown_path(&saved.path))]
    NotDurable {
        /// The file, which stays.
        saved: Box<Saved>,
        /// What was being done.
        step: &'static str,
        /// What went wrong.
        cause: String,
    },
    /// The save has failed already, and its first error was given then.
    #[error("the save to {} has failed already; call again", shown(path))]
    Spent {
        /// As it was asked for.
        path: String,
    },
}

/// The short list of reasons that records count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The feature is off.
    Disabled,
    /// The spelling of the path.
    Path,
    /// Outside the roots.
    Outside,
    /// A name that is kept for somebody else.
    Reserved,
    /// A root that others could redirect or change, that is another one too, or that holds what no save may reach.
    RootUntrusted,
    /// Something on the way changed since it was checked.
    RootMoved,
    /// The file exists.
    Exists,
    /// Being written by another call.
    Busy,
    /// No regular file, or a component that is no directory.
    TargetKind,
    /// A mount inside the root.
    Mount,
    /// A read-only file system.
    ReadOnly,
    /// No permission.
    Denied,
    /// Too little room on the disk.
    Space,
    /// All files of the root together are too large.
    Total,
    /// Another error of the operating system.
    Io,
    /// The file is too large.
    TooLarge,
    /// The quota of the user.
    Quota,
    /// Written, and a power cut may take it away.
    NotDurable,
}

impl SaveError {
    /// What to count this as.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Disabled => Reason::Disabled,
            Self::Path { problem, .. } if problem.is_reserved() => Reason::Reserved,
            Self::Path { .. } | Self::NameTooLong { .. } => Reason::Path,
            Self::Outside { .. } | Self::Link { .. } => Reason::Outside,
            Self::Alias { .. } | Self::Untrusted { .. } | Self::Protected { .. } => Reason::RootUntrusted,
            Self::Moved { .. } => Reason::RootMoved,
            Self::Exists { .. } => Reason::Exists,
            Self::Busy { .. } => Reason::Busy,
            Self::TargetKind { .. } | Self::NotDirectory { .. } => Reason::TargetKind,
            Self::Mount { .. } => Reason::Mount,
            Self::ReadOnly { .. } => Reason::ReadOnly,
            Self::Denied { .. } => Reason::Denied,
            Self::LowSpace { .. } | Self::Full { .. } => Reason::Space,
            Self::Total { .. } => Reason::Total,
            Self::Quota { .. } => Reason::Quota,
            Self::TooLarge { .. } | Self::FileLimit { .. } => Reason::TooLarge,
            Self::NoPublish { .. } | Self::Io { .. } | Self::Spent { .. } => Reason::Io,
            Self::NotDurable { .. } => Reason::NotDurable,
        }
    }

    /// The file that exists in spite of the error ([`SaveError::NotDurable`] only).
    #[must_use]
    pub fn saved(&self) -> Option<&Saved> {
        match self {
            Self::NotDurable { saved, .. } => Some(saved),
            _ => None,
        }
    }

    pub(crate) fn path(path: &str, problem: NameProblem) -> Self {
        Self::Path { path: path.to_owned(), problem }
    }

    pub(crate) fn moved(at: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::Moved { at: at.into(), why: why.into() }
    }

    /// Names an error of the operating system: `step` at `at`, for the target `path`.
    pub(crate) fn of(fault: &Fault, step: &'static str, at: impl Into<PathBuf>, path: &str) -> Self {
        let (at, path) = (at.into(), path.to_owned());
        match fault.kind {
            // Whatever is used was there when it was checked.
            FaultKind::Missing => Self::moved(at, format!("{step} it found it gone; call again")),
            FaultKind::NotDirectory => Self::NotDirectory { path, at },
            FaultKind::CrossesMount => Self::Mount { at },
            FaultKind::ReadOnly => Self::ReadOnly { at },
            FaultKind::Denied | FaultKind::NotPermitted => Self::Denied {
                at,
                action: step,
                hint: format!(" ({}); grant it, or use another root", fault),
            },
            FaultKind::Full => Self::Full { at },
            FaultKind::Quota => Self::Quota { at },
            FaultKind::TooBig => Self::FileLimit { path },
            FaultKind::TooLong => Self::NameTooLong { path, at },
            _ => Self::Io { at, step, cause: fault.to_string() },
        }
    }
}

/// Lets a [`Writer`](crate::Writer) be used as `io::Write`; the `SaveError` is the inner error.
impl From<SaveError> for std::io::Error {
    fn from(error: SaveError) -> Self {
        use std::io::ErrorKind;
        let kind = match error.reason() {
            Reason::Space => ErrorKind::StorageFull,
            Reason::Quota => ErrorKind::QuotaExceeded,
            Reason::TooLarge => ErrorKind::FileTooLarge,
            Reason::Exists => ErrorKind::AlreadyExists,
            Reason::ReadOnly => ErrorKind::ReadOnlyFilesystem,
            Reason::Denied | Reason::RootUntrusted => ErrorKind::PermissionDenied,
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// The path with what could deceive a reader escaped, and cut where it is very long.
pub(crate) fn shown(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        if text.len() > SHOWN {
            text.push('…');
            break;
        }
        if name::is_forbidden(c) { text.extend(c.escape_unicode()) } else { text.push(c) }
    }
    if text.is_empty() { String::from("\"\"") } else { text }
}

pub(crate) fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

/// The path as a JSON string, for the lines that a message offers.
pub(crate) fn quoted(path: &Path) -> impl fmt::Display {
    format!("\"{}\"", shown_path(path).replace('\\', r"\\").replace('"', "\\\""))
}

fn listed(roots: &[PathBuf]) -> String {
    let mut text: Vec<String> = roots.iter().take(LISTED).map(|root| shown_path(root)).collect();
    if roots.len() > LISTED {
        text.push(format!("… ({} more)", roots.len() - LISTED));
    }
    text.join(" or ")
}

#[cfg(all(test, unix))]
#[path = "error_tests.rs"]
mod tests;
