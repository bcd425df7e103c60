//! Writes files beneath allowed roots and nowhere else.
#![doc = include_str!("../README.md")]
//!
//! # Rooms
//!
//! `name` what paths may be called, `load` what a configuration must pass, `roots` and `trust` the judgement of each
//! call, `walk` and `place` how a path is followed, `target` the preflight, `job`, `temporary` and `publish` the write,
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
