//! The system layer: the only room that knows an operating system. Each platform offers the same names.
//!
//! Everything here takes directory handles and single names; no function resolves a path of a target.

#![allow(unsafe_code)] // A few calls have no safe wrapper: the reason is at each block.

mod fault;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod linux_write;
#[cfg(target_os = "linux")]
mod users;

#[cfg(not(target_os = "linux"))]
compile_error!(
    "outputfile has a system layer for Linux only; write src/sys/<platform>.rs with the same functions"
);

pub use fault::{Call, Hook};
pub(crate) use fault::{Child, Fault, FaultKind, Meta, Space};
pub use fault::{FileId, Kind};
#[cfg(target_os = "linux")]
pub(crate) use linux::{Dir, File, Os, PLATFORM};
#[cfg(target_os = "linux")]
pub(crate) use users::{Credentials, account_name, can_switch, homes_of_all, our_uid, unmapped, user_of};
