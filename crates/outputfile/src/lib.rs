//! Writes files beneath allowed roots and nowhere else.
#![doc = include_str!("../README.md")]
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
