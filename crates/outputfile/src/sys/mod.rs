//! The system layer: the only room that knows an operating system. Each platform offers the same names.
//!
//! Everything here takes directory handles and single names; no function resolves a path of a target.

#![allow(unsafe_code)] // A few calls have no safe wrapper: the reason is at each block.

mod fault;
#[cfg(any(windows, test))]
mod reparse;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod unix_write;
#[cfg(unix)]
mod users;

#[cfg(target_os = "linux")]
#[path = "linux_identity.rs"]
mod identity;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "macos")]
#[path = "macos_identity.rs"]
mod identity;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
mod windows_call;
#[cfg(windows)]
mod windows_users;
#[cfg(windows)]
mod windows_write;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
compile_error!(
    "outputfile has system layers for Linux, macOS and Windows; write src/sys/<platform>.rs with the same functions"
);

pub use fault::{Call, Hook};
pub(crate) use fault::{Child, Fault, FaultKind, Meta, Space};
pub use fault::{FileId, Kind};

#[cfg(unix)]
pub(crate) use identity::{can_switch, unmapped};
#[cfg(target_os = "linux")]
pub(crate) use linux::PLATFORM;
#[cfg(target_os = "macos")]
pub(crate) use macos::PLATFORM;
#[cfg(unix)]
pub(crate) use unix::{
    Dir, EXAMPLE_ROOT, File, Os, directories_of_homes, directory_of_other_programs, program_directories,
    system_directories,
};
#[cfg(unix)]
pub(crate) use users::{Credentials, account_name, homes_of_all, our_uid, user_of};
#[cfg(windows)]
pub(crate) use windows::{Dir, EXAMPLE_ROOT, File, Os, PLATFORM};
#[cfg(windows)]
pub(crate) use windows_users::{
    Credentials, account_name, can_switch, directories_of_homes, directory_of_other_programs, homes_of_all,
    our_uid, program_directories, system_directories, unmapped, user_of,
};

/// Whether files have owners and modes here that can be judged, so that it is known whose links may be followed.
pub(crate) const UNIX: bool = cfg!(unix);
