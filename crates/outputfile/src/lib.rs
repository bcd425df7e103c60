//! Writes files beneath allowed roots and nowhere else.
//!
//! An operator names directories ([`Settings::roots`]); callers name absolute paths beneath them. A save has three steps:
//! [`Roots::preflight`] checks everything that could refuse it, without changing anything, and reserves the target;
//! [`Roots::begin`] checks again, against the roots of that moment, and opens a temporary; [`Writer::commit`] publishes
//! the file. No reader ever sees a part of a file, and nothing is replaced that was not to be replaced.
//!
//! Contained are callers who choose paths, other users of the system, crashes and full disks; not contained are
//! processes of our own user, and root.
//!
//! # What the program must do
//!
//! - Ignore `SIGXFSZ` (Rust programs do not by themselves), or a file size limit ends the program where it should be
//!   an error of the save ([`SaveError::FileLimit`]).
//! - Keep one [`Reservations`] for the whole process, and clone it into the settings of every reload.
//! - Call from threads that may block. For a root of a trusted owner, a thread is started for each save.
//!
//! # Platforms
//!
//! Linux 4.11 or later, macOS 11 or later, Windows 10 1709 or later; the rules are the same, except:
//!
//! - Only Linux uses the identity of trusted owners for their roots, and has files without a name.
//! - On Windows there are no owners and modes: files get the access rules that their directory hands down, so see to those
//!   of the root. Beneath a root no link, junction or mount point is followed, because nothing tells whose it is; on the
//!   way to a root they are, but not to another machine. The trusted owners and modes of the settings are refused.
//! - On file systems without the newer calls of Windows (FAT, some shares), a file that others have open is not replaced, and
//!   directories that were made for an abandoned save may stay, empty.
//!
//! # Rooms
//!
//! `name` what paths may be called, `load` what a configuration must pass, `roots` and `trust` the judgement of each
//! call, `walk`, `volume` and `place` how a path is followed, `target` the preflight, `job`, `temporary` and `publish` the write,
//! `read` a saved file opened again, `owner` acting as another user, `sys` the operating system.

mod error;
mod job;
mod load;
pub mod name;
mod owner;
mod place;
mod protect;
mod publish;
mod read;
mod reserve;
mod roots;
mod settings;
mod sys;
mod target;
mod temporary;
mod trust;
mod volume;
mod walk;
mod write;

pub use error::{Reason, SaveError};
pub use load::RootProblem;
pub use read::{Expected, ReadError, SavedFile};
pub use reserve::Reservations;
pub use roots::Roots;
pub use settings::{
    DEFAULT_MAX_BYTES, DEFAULT_MAX_TOTAL_BYTES, DEFAULT_MIN_FREE_BYTES, Ledger, NoLedger, Settings,
};
#[doc(hidden)]
pub use sys::{Call, Hook};
pub use sys::{FileId, Kind};
pub use target::Target;
pub use write::{Identity, Saved, Writer};
