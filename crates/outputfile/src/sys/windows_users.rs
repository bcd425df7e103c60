//! Windows: there are no uids, so everything is taken for ours; where the system and the homes are.

use std::env;
use std::path::PathBuf;

use super::Fault;
use super::windows_call::windows_directory;

/// The identity by which files are made and judged: there is only ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub uid: u32,
    pub home: Option<String>,
}

impl Credentials {
    /// Those of our user.
    pub(crate) fn of(uid: u32) -> Self {
        Self { uid, home: env::var("USERPROFILE").ok() }
    }

    /// No other identity can be taken.
    pub(crate) fn assume(&self) -> Result<(), Fault> {
        Err(Fault::other("there are no other owners on Windows"))
    }
}

/// A number that stands for our user.
pub(crate) fn our_uid() -> u32 {
    0
}

/// Whether this process may use the identity of other users.
pub(crate) fn can_switch() -> bool {
    false
}

/// Users have no numbers.
pub(crate) fn user_of(_name: &str) -> Option<u32> {
    None
}

/// Users have no numbers.
pub(crate) fn account_name(_uid: u32) -> Option<String> {
    None
}

/// There is no list of homes; all lie in one directory.
pub(crate) fn homes_of_all() -> Vec<String> {
    Vec::new()
}

/// Users have no numbers.
pub(crate) fn unmapped(_uid: u32) -> bool {
    false
}

/// Beneath these, around these, and these themselves: never a root.
pub(crate) fn system_directories() -> Vec<PathBuf> {
    let beside = ["Boot", "Recovery", "System Volume Information"].map(on_system_drive);
    std::iter::once(PathBuf::from(windows())).chain(beside).collect()
}

/// The same: what lies here is run.
pub(crate) fn program_directories() -> Vec<PathBuf> {
    ["Program Files", "Program Files (x86)", r"ProgramData\Microsoft"].map(on_system_drive).to_vec()
}

/// The data of programs lie in this one, each in a directory of its own: a root may lie in it, and not be it.
pub(crate) fn directory_of_other_programs() -> PathBuf {
    on_system_drive("ProgramData")
}

/// Every directory directly in one of these is a home.
pub(crate) fn directories_of_homes() -> Vec<PathBuf> {
    vec![on_system_drive("Users")]
}

fn windows() -> String {
    windows_directory().unwrap_or_else(|_| String::from(r"C:\Windows"))
}

fn on_system_drive(name: &str) -> PathBuf {
    PathBuf::from(format!(r"{}\{name}", windows().get(..2).unwrap_or("C:")))
}
