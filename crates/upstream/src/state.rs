//! What a server is doing, as the supervisor knows it and as `status` shows it.

use std::time::SystemTime;

use wire::client::Client;

/// The state of one server.
#[derive(Clone)]
pub enum State {
    /// `enabled: false` in the file.
    Disabled,
    /// Held: never started, never connected. The text says why and what lets it go.
    Quarantined(String),
    /// The entry needs what this version cannot do; the text says what.
    Unsupported(String),
    /// Not connected yet: connected at first use.
    Resting,
    /// Being launched or connected.
    Connecting,
    /// Connected, initialized and listed.
    Ready(Ready),
    /// The last attempt failed; another one follows by itself and at each use.
    Failed(Failure),
    /// Ended because we end.
    Stopped,
}

/// A connected server.
#[derive(Clone)]
pub struct Ready {
    /// The connection.
    pub client: Client,
    /// Name and version that the server gave for itself.
    pub told: String,
    /// Protocol revision that was agreed.
    pub protocol: String,
    /// How many tools it listed.
    pub tools: usize,
}

/// Why a server is not connected.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What happened, with the end of the server's stderr where there is some.
    pub message: String,
    /// Attempts in a row that failed.
    pub attempts: u32,
    /// When it failed.
    pub at: SystemTime,
}

/// One line of `status`.
#[derive(Clone, Debug)]
pub struct Status {
    /// The server's name in the configuration.
    pub name: String,
    /// `stdio`, `http` or what the entry asks for.
    pub protocol: &'static str,
    /// One word: `ready`, `connecting`, `failed`, `disabled`, `quarantined`, `unsupported`, `resting`, `stopped`.
    pub state: &'static str,
    /// The reason behind the word, or what the server said it is.
    pub detail: String,
    /// Tools that it listed.
    pub tools: usize,
    /// Process id of the child, if there is one now.
    pub pid: Option<u32>,
}

impl State {
    /// The state as one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Quarantined(_) => "quarantined",
            Self::Unsupported(_) => "unsupported",
            Self::Resting => "resting",
            Self::Connecting => "connecting",
            Self::Ready(_) => "ready",
            Self::Failed(_) => "failed",
            Self::Stopped => "stopped",
        }
    }

    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Disabled => "enabled is false in the configuration".into(),
            Self::Quarantined(why) => why.clone(),
            Self::Unsupported(what) => what.clone(),
            Self::Ready(ready) => format!("{} (MCP {})", ready.told, ready.protocol),
            Self::Failed(failure) => failure.message.clone(),
            Self::Resting | Self::Connecting | Self::Stopped => String::new(),
        }
    }
}
