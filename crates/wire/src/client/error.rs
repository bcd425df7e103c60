//! Why a call has no result.

use std::time::Duration;

use crate::spool::{Body, SpoolError};

/// Why a call has no result. Unless a variant says otherwise, the server may have run the call.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("the server answered with error {code}: {message}")]
    Rpc {
        /// The JSON-RPC code; 0 when it was missing or no integer.
        code: i64,
        /// What the server said, at most 16 KiB.
        message: String,
        /// `error.data`, as it was sent.
        data: Option<Body>,
    },
    /// Nothing was heard for too long. The server was told that the call is cancelled.
    #[error("{}", timeout_text(*total, *after))]
    Timeout {
        /// Whether the whole time ran out, rather than the time since dispatch or the last progress.
        total: bool,
        /// The bound that was passed.
        after: Duration,
    },
    /// The answer is over the bound. The connection goes on.
    #[error(
        "the server's answer is larger than {limit} bytes; ask for less, or raise upstream_max_message_bytes"
    )]
    TooLarge {
        /// The bound, in bytes.
        limit: u64,
    },
    /// What the server sent is no answer.
    #[error("the server's answer cannot be read: {0}")]
    Garbled(String),
    /// The connection ended before the answer.
    #[error("the connection to the server ended: {0}")]
    Gone(String),
    /// The request did not leave: the server has certainly not run it.
    #[error("the request could not be sent: {0}")]
    NotSent(String),
    /// The call was cancelled, and the server told so (unless the request had not left yet).
    #[error("the call was cancelled")]
    Cancelled {
        /// Whether a result came all the same, within half a second.
        answered: bool,
    },
    /// All answers in flight together are over the bound of the spools.
    #[error(
        "the server's answer does not fit: all answers in flight together are over spool_max_bytes; try again later"
    )]
    SpoolFull,
    /// The server answered with a status of HTTP only. With a status of 4xx it has not run the call.
    #[error("the server answered with HTTP status {status}{}", detail_text(detail))]
    Http {
        /// The HTTP status.
        status: u16,
        /// What came with it: text, at most 4 KiB.
        detail: String,
    },
    /// The answer could not be kept, or the network failed.
    #[error("{0}")]
    Io(String),
}

impl CallError {
    /// Whether the server may have run the call.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        !matches!(self, CallError::NotSent(_) | CallError::Http { status: 400..=499, .. })
    }
}

/// The options of an HTTP connection cannot be used; the text says which and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadHttpOptions(pub String);

impl From<SpoolError> for CallError {
    fn from(error: SpoolError) -> CallError {
        match error {
            SpoolError::Full { .. } => CallError::SpoolFull,
            SpoolError::Io { .. } => CallError::Io(error.to_string()),
        }
    }
}

fn timeout_text(total: bool, after: Duration) -> String {
    let seconds = after.as_secs_f64();
    if total {
        format!("the call took longer than {seconds} s in all (call_tool_total_timeout)")
    } else {
        format!("the server was silent for {seconds} s (call_tool_timeout)")
    }
}

fn detail_text(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}
