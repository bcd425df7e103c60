//! A call between its opening and its closing row.

use std::sync::Arc;

use crate::event::{Event, EventType, Source};
use crate::queue::Shared;
use crate::slots::Slot;

/// What is known when a call is opened. It is kept in a fixed slot, so long texts are cut there (request id 256 bytes,
/// server and tool 96); an empty text means "not known".
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// Id of the call.
    pub request_id: &'a str,
    /// Request id of the call that made this one.
    pub parent_id: &'a str,
    /// When it began, milliseconds since 1970.
    pub started_ms: i64,
    /// [`EventType::ToolCall`] or [`EventType::InternalToolCall`].
    pub kind: EventType,
    /// Through which door it came.
    pub source: Source,
    /// Who calls.
    pub caller: &'a str,
    /// Session of the caller.
    pub session: &'a str,
    /// Name by which the client introduced itself.
    pub client_name: &'a str,
    /// Version that the client stated.
    pub client_version: &'a str,
    /// Name of the server.
    pub server: &'a str,
    /// Name of the tool.
    pub tool: &'a str,
    /// `read`, `write` or `destructive`.
    pub variant: &'a str,
}

impl Default for Opening<'_> {
    fn default() -> Self {
        Opening {
            request_id: "",
            parent_id: "",
            started_ms: 0,
            kind: EventType::ToolCall,
            source: Source::Internal,
            caller: "",
            session: "",
            client_name: "",
            client_version: "",
            server: "",
            tool: "",
            variant: "",
        }
    }
}

/// An open call. Closed by [`crate::Store::finish`]; one that is dropped instead gets a row of status `abandoned`.
#[must_use = "a call that is dropped is recorded as abandoned"]
pub struct InFlight {
    pub(crate) row_id: String,
    pub(crate) kind: EventType,
    pub(crate) request_id: String,
    pub(crate) slot: Option<Slot>,
    pub(crate) shared: Arc<Shared>,
}

impl InFlight {
    /// Id that the closing row will have.
    #[must_use]
    pub fn row_id(&self) -> &str {
        &self.row_id
    }

    /// Id of the call.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Puts the ids of the call into its rows. The first row of the call's kind becomes its closing row.
    pub(crate) fn claim(&self, rows: &mut [Event]) -> bool {
        for row in rows.iter_mut().filter(|row| row.request_id.is_none()) {
            row.request_id = Some(self.request_id.clone());
        }
        let closing = rows.iter_mut().find(|row| row.kind == self.kind);
        closing.map(|row| row.id.clone_from(&self.row_id)).is_some()
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlight")
            .field("row_id", &self.row_id)
            .field("request_id", &self.request_id)
            .finish()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.shared.abandon(slot);
        }
    }
}

/// The queue to the writer is full: the call and its rows come back. Try again, or use [`crate::Store::finish_blocking`].
#[derive(Debug)]
pub struct Busy(pub InFlight, pub Vec<Event>);

/// No further call can be recorded, so none may be dispatched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFull {
    /// The database cannot be written and the rows that wait have reached their bound.
    #[error(
        "the activity database cannot be written ({message}) and {calls} closed calls wait already; free disk space \
         or unlock mcpproxy.db, then try again"
    )]
    Waiting {
        /// Closed calls that wait.
        calls: usize,
        /// What the database said.
        message: String,
    },
    /// Every slot for a call in flight is taken.
    #[error("{calls} calls are in flight, more cannot be recorded; try again when some have ended")]
    InFlight {
        /// How many there are.
        calls: usize,
    },
    /// The file of slots cannot be written.
    #[error("the file `inflight` of the data directory cannot be written ({message}); check the disk")]
    Slot {
        /// What the operating system said.
        message: String,
    },
    /// The writer has ended.
    #[error("the activity database is closed; restart mcpproxy")]
    Ended,
}
