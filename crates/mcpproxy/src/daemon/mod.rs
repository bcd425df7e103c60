//! What makes a process the one daemon of a data directory: the directory, its lock, the key, the socket and `run.json`.

pub mod apikey;
pub mod datadir;
pub mod lock;
pub mod runfile;
pub mod socket;

/// Exit codes of the program that this room decides.
pub mod exit {
    /// Anything without a code of its own.
    pub const GENERAL: u8 = 1;
    /// The port of `listen` is taken.
    pub const PORT_IN_USE: u8 = 2;
    /// Another process holds the data directory.
    pub const HELD: u8 = 3;
    /// What is configured cannot be used.
    pub const CONFIG: u8 = 4;
    /// The operating system does not let us.
    pub const PERMISSION: u8 = 5;
}

/// The code for an error of the operating system.
fn exit_code_of(error: &std::io::Error) -> u8 {
    if error.kind() == std::io::ErrorKind::PermissionDenied { exit::PERMISSION } else { exit::GENERAL }
}
