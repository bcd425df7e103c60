//! Settings: everything an operator decides about saved files, as plain values.

use std::path::{Path, PathBuf};

use crate::reserve::Reservations;
use crate::sys::Hook;

/// The limit of one file when none is set: 50 MiB.
pub const DEFAULT_MAX_BYTES: u64 = 52_428_800;
/// The room that must stay free when nothing else is set: 16 MiB.
pub const DEFAULT_MIN_FREE_BYTES: u64 = 16 << 20;
/// The limit of all saved files of one root when nothing else is set: 10 GiB.
pub const DEFAULT_MAX_TOTAL_BYTES: u64 = 10 << 30;

/// What an operator decides about saved files.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Directories beneath which files may be made. None: saving is off.
    pub roots: Vec<PathBuf>,
    /// For these directories and what lies beneath them on the same mount, owner and modes of directories are not judged.
    /// Elsewhere than on Unix they never are.
    pub trusted_directories: Vec<PathBuf>,
    /// Users (names or uids) other than ours who may own a root and what is around it. Unix only.
    pub trusted_owners: Vec<String>,
    /// Whether components below a root may begin with a dot.
    pub allow_hidden: bool,
    /// Mode of saved files: 0600, 0640 or 0660. Directories made on the way get the matching `x` bits. Elsewhere than on
    /// Unix there are no modes, and only the default is taken.
    pub file_mode: u32,
    /// Limit of one file in bytes; 0 means [`DEFAULT_MAX_BYTES`].
    pub max_bytes: u64,
    /// Bytes that must be free on the file system before a call; 0 is not checked.
    pub min_free_bytes: u64,
    /// Limit of all saved files of one root in bytes; 0 is no limit.
    pub max_total_bytes: u64,
    /// Where our configuration lies. No root may hold it.
    pub config_dir: Option<PathBuf>,
    /// Where our data lies. No root may hold it or lie in it.
    pub data_dir: Option<PathBuf>,
    /// Where our logs lie. No root may hold it or lie in it.
    pub log_dir: Option<PathBuf>,
    /// Files and directories that we write ourselves. No root may hold one.
    pub own_paths: Vec<PathBuf>,
    /// Further homes of our user, such as `$HOME`. No root may hold one; that of the password file is known anyway.
    pub home_dirs: Vec<PathBuf>,
    /// The targets that are being written by this process. Clone it into the settings of every reload.
    pub reservations: Reservations,
    /// For tests: asked before each system call.
    #[doc(hidden)]
    pub hook: Option<Hook>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            trusted_directories: Vec::new(),
            trusted_owners: Vec::new(),
            allow_hidden: false,
            file_mode: 0o600,
            max_bytes: DEFAULT_MAX_BYTES,
            min_free_bytes: DEFAULT_MIN_FREE_BYTES,
            max_total_bytes: DEFAULT_MAX_TOTAL_BYTES,
            config_dir: None,
            data_dir: None,
            log_dir: None,
            own_paths: Vec::new(),
            home_dirs: Vec::new(),
            reservations: Reservations::default(),
            hook: None,
        }
    }
}

impl Settings {
    /// The limit of one file in bytes, with the default in place of 0.
    #[must_use]
    pub fn file_limit(&self) -> u64 {
        if self.max_bytes == 0 { DEFAULT_MAX_BYTES } else { self.max_bytes }
    }

    /// The mode of directories that are made: the file mode with `x` where it has `r`.
    pub(crate) fn directory_mode(&self) -> u32 {
        self.file_mode | ((self.file_mode & 0o444) >> 2)
    }
}

/// How many bytes are saved beneath a root by now; asked only when there is a limit.
pub trait Ledger {
    /// Bytes of the saved files beneath `root` (as configured, cleaned) that still exist.
    ///
    /// # Errors
    /// What kept the count from being known, as one line; the save is then refused.
    fn used_bytes(&self, root: &Path) -> Result<u64, String>;
}

/// A ledger that never counts anything, for callers without a limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLedger;

impl Ledger for NoLedger {
    fn used_bytes(&self, _root: &Path) -> Result<u64, String> {
        Ok(0)
    }
}
