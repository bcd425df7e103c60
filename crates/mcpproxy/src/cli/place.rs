//! Where a command does its work: at the gateway that runs, or in this process, which then holds the data directory.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::output;
use super::remote::Remote;
use super::setup::{Configured, exit};
use crate::daemon::datadir::DataDir;
use crate::daemon::lock::{Lock, LockError};

/// How long a data directory may be held by one that does not say where it is.
const HELD: Duration = Duration::from_secs(10);

/// The end of a command that did not get to its work.
pub enum Failure {
    /// What is to be told.
    Text(String),
    /// The reason was told already.
    Code(u8),
}

impl Failure {
    /// Tells the reason where that was not done, and gives the exit code.
    pub fn tell(self) -> u8 {
        match self {
            Self::Text(text) => {
                output::tell(&format!("Error: {}", output::shown(&text)));
                exit::GENERAL
            }
            Self::Code(code) => code,
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u8> for Failure {
    fn from(code: u8) -> Self {
        Self::Code(code)
    }
}

/// Where the work is done.
pub enum Place {
    /// Through the gateway that runs.
    Running(Remote),
    /// In this process, which holds the data directory now.
    Free(DataDir, Lock),
}

/// Finds the gateway that runs, or takes its place. One that has just started, and another command like this one, hold the
/// data directory without saying where they are; they are waited for.
///
/// # Errors
/// The data directory cannot be used, somebody goes on holding it, or no gateway runs and the file is not in order.
pub async fn place(configured: &Configured) -> Result<Place, Failure> {
    let config = configured.config();
    let until = Instant::now() + HELD;
    loop {
        if let Some(remote) = Remote::find(config)? {
            return Ok(Place::Running(remote));
        }
        configured.in_order()?;
        let dir = DataDir::open(&config.data_dir).map_err(|e| told(&e, e.exit_code()))?;
        match Lock::take(&dir) {
            Ok(lock) => return Ok(Place::Free(dir, lock)),
            Err(LockError::Held { .. }) if Instant::now() < until => sleep(Duration::from_millis(100)).await,
            Err(error @ LockError::Held { .. }) => {
                let code = error.exit_code();
                let more = "it does not say where it listens; to make calls side by side, start `mcpproxy serve` once";
                return Err(told(&format!("{error} ({more})"), code));
            }
            Err(error) => return Err(told(&error, error.exit_code())),
        }
    }
}

/// Tells an error and keeps its exit code.
pub fn told(error: &impl std::fmt::Display, code: u8) -> Failure {
    output::tell(&format!("Error: {}", output::shown(&error.to_string())));
    Failure::Code(code)
}
