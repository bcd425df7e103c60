//! macOS: a thread cannot use the identity of another user for files, so files are made with ours.

use super::Fault;
use super::users::{Account, Credentials};

impl Credentials {
    /// No other identity can be taken.
    pub(crate) fn assume(&self) -> Result<(), Fault> {
        Err(Fault::other(format!("macOS lets no thread use the files of uid {}", self.uid)))
    }
}

/// Whether this process may use the identity of other users.
pub(crate) fn can_switch() -> bool {
    false
}

/// Users of a namespace of their own are not known here.
pub(crate) fn unmapped(_uid: u32) -> bool {
    false
}

/// The groups count only for another identity, which cannot be taken.
pub(super) fn groups(_account: &Account) -> Vec<u32> {
    Vec::new()
}
