//! One row of the record: what happened, to whom, and how it ended.

use serde::Serialize;

use crate::reason::Reason;
use crate::words::words;

words! {
    /// What kind of thing a row tells of.
    EventType {
        /// A call of an upstream's tool.
        ToolCall = "tool_call",
        /// A call of one of the built-in tools.
        InternalToolCall = "internal_tool_call",
        /// A decision of policy about a call: its status is the decision.
        PolicyDecision = "policy_decision",
        /// A server was held or released.
        QuarantineChange = "quarantine_change",
        /// A tool was held, approved or found changed.
        ToolQuarantineChange = "tool_quarantine_change",
        /// A server was added, changed, removed, connected or lost.
        ServerChange = "server_change",
        /// The configuration changed.
        ConfigChange = "config_change",
        /// The program started.
        SystemStart = "system_start",
        /// The program stopped.
        SystemStop = "system_stop",
    }
}

words! {
    /// How it ended. `warning`, `redact` and `strip` are decisions, found on `policy_decision` rows only.
    Status {
        /// It did what it was asked to do.
        Success = "success",
        /// It failed.
        Error = "error",
        /// It was refused before dispatch, or its answer was stopped by policy.
        Blocked = "blocked",
        /// It was told to wait: a limit was reached.
        Rejected = "rejected",
        /// The caller took it back.
        Cancelled = "cancelled",
        /// The program ended before the call did.
        Abandoned = "abandoned",
        /// Passed on with a warning.
        Warning = "warning",
        /// Passed on with parts replaced.
        Redact = "redact",
        /// Passed on with characters taken out.
        Strip = "strip",
    }
}

words! {
    /// Through which door it came.
    Source {
        /// An agent, over MCP.
        Mcp = "mcp",
        /// A program, over the REST API.
        Api = "api",
        /// A person, over the command line.
        Cli = "cli",
        /// The program itself.
        Internal = "internal",
    }
}

words! {
    /// Whether the upstream did what the call asked for.
    UpstreamRan {
        /// An answer of the upstream arrived.
        Yes = "yes",
        /// The call never left us.
        No = "no",
        /// The call was sent and no answer arrived.
        Unknown = "unknown",
    }
}

/// Counts of tokens of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Tokens of the arguments.
    pub input: u64,
    /// Tokens of the reply as it was sent.
    pub output: u64,
    /// Tokens of the reply as it would have been sent without saving.
    pub full: u64,
    /// The counts are estimates, because the texts are large.
    pub estimated: bool,
}

/// A file made by a save.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavedFile {
    /// The configured root that the file lies in.
    pub root: String,
    /// Absolute path of the file, as it really exists.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, 64 lowercase hex digits.
    pub sha256: String,
    /// `text`, `json` or `binary`.
    pub format: String,
    /// Device number at the time of saving.
    pub dev: u64,
    /// Inode number at the time of saving.
    pub ino: u64,
    /// Length by the file system at the time of saving, in bytes.
    pub size: u64,
    /// Change time at the time of saving, nanoseconds since 1970.
    pub ctime_ns: i64,
}

/// One row of the record. Texts are cut to their bounds when the row is handed over; what is said here is redacted already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// ULID of the row. The closing row of a call gets the one that [`crate::Store::begin`] made for it.
    pub id: String,
    /// What kind of row it is.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When it began, milliseconds since 1970.
    pub time_ms: i64,
    /// Through which door it came.
    pub source: Source,
    /// Who called.
    pub caller: Option<String>,
    /// Session of the caller.
    pub session: Option<String>,
    /// Name by which the client introduced itself.
    pub client_name: Option<String>,
    /// Version that the client stated.
    pub client_version: Option<String>,
    /// Id of the call; every row of one call has the same.
    pub request_id: Option<String>,
    /// Request id of the call that made this one.
    pub parent_id: Option<String>,
    /// Name of the server.
    pub server: Option<String>,
    /// Name of the tool.
    pub tool: Option<String>,
    /// `read`, `write` or `destructive`.
    pub variant: Option<String>,
    /// Sensitivity that the caller stated.
    pub intent_sensitivity: Option<String>,
    /// Reason that the caller stated.
    pub intent_reason: Option<String>,
    /// Arguments as JSON text.
    pub arguments: Option<String>,
    /// The arguments were cut.
    pub arguments_truncated: bool,
    /// The reply; of a saved call its preview.
    pub response: Option<String>,
    /// The reply was cut, or is only a preview.
    pub response_truncated: bool,
    /// How it ended.
    pub status: Status,
    /// Why it ended so.
    pub reason: Option<Reason>,
    /// Why it ended so, for people, at most [`Event::MAX_MESSAGE`] bytes.
    pub message: Option<String>,
    /// Whether the upstream ran.
    pub upstream_ran: Option<UpstreamRan>,
    /// How long it took, microseconds.
    pub duration_us: Option<u64>,
    /// Size of the arguments as they came, bytes.
    pub request_bytes: Option<u64>,
    /// Size of the answer, bytes.
    pub response_bytes: Option<u64>,
    /// Token counts.
    pub tokens: Option<Tokens>,
    /// Findings of the detectors, JSON text.
    pub findings: Option<String>,
    /// How many bytes of the answer the detectors did not look into.
    pub unscanned_bytes: Option<u64>,
    /// The file that was made.
    pub saved: Option<SavedFile>,
    /// What else there is to say, JSON text: of a configuration change, which keys changed.
    pub detail: Option<String>,
}

impl Event {
    /// Longest message, in bytes.
    pub const MAX_MESSAGE: usize = 512;
    /// Longest tool name, in bytes.
    pub const MAX_TOOL: usize = 4000;
    /// Longest of the other short texts, in bytes.
    pub const MAX_SHORT: usize = 1024;
    /// Longest findings and detail, in bytes.
    pub const MAX_JSON: usize = 65_536;

    /// An empty row of this kind with a fresh id, from `internal` and with status `success`.
    #[must_use]
    pub fn new(kind: EventType, time_ms: i64) -> Event {
        Event {
            id: new_id(),
            kind,
            time_ms,
            source: Source::Internal,
            caller: None,
            session: None,
            client_name: None,
            client_version: None,
            request_id: None,
            parent_id: None,
            server: None,
            tool: None,
            variant: None,
            intent_sensitivity: None,
            intent_reason: None,
            arguments: None,
            arguments_truncated: false,
            response: None,
            response_truncated: false,
            status: Status::Success,
            reason: None,
            message: None,
            upstream_ran: None,
            duration_us: None,
            request_bytes: None,
            response_bytes: None,
            tokens: None,
            findings: None,
            unscanned_bytes: None,
            saved: None,
            detail: None,
        }
    }

    /// Cuts every text to its bound, on a character boundary.
    pub(crate) fn fit(&mut self, body_bytes: usize) {
        let shorts = [
            &mut self.caller,
            &mut self.session,
            &mut self.client_name,
            &mut self.client_version,
            &mut self.request_id,
            &mut self.parent_id,
            &mut self.server,
            &mut self.variant,
            &mut self.intent_sensitivity,
            &mut self.intent_reason,
        ];
        for text in shorts.into_iter().flatten() {
            cut(text, Self::MAX_SHORT);
        }
        cut_some(&mut self.tool, Self::MAX_TOOL);
        cut_some(&mut self.message, Self::MAX_MESSAGE);
        cut_some(&mut self.findings, Self::MAX_JSON);
        cut_some(&mut self.detail, Self::MAX_JSON);
        self.arguments_truncated |= cut_some(&mut self.arguments, body_bytes);
        self.response_truncated |= cut_some(&mut self.response, body_bytes);
    }

    /// Leaves out arguments and reply, because too many rows wait in memory.
    pub(crate) fn drop_bodies(&mut self) {
        self.arguments_truncated |= self.arguments.take().is_some_and(|text| !text.is_empty());
        self.response_truncated |= self.response.take().is_some_and(|text| !text.is_empty());
    }

    /// About how much memory the row holds, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let texts =
            [&self.arguments, &self.response, &self.findings, &self.detail, &self.message, &self.tool];
        size_of::<Event>() + 512 + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// A fresh ULID: 26 characters, sortable by time.
#[must_use]
pub fn new_id() -> String {
    ulid::Ulid::generate().to_string()
}

/// Now, in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The longest prefix of `text` that is at most `bytes` long and splits no character.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn cut(text: &mut String, bytes: usize) -> bool {
    let keep = prefix(text, bytes).len();
    let shorter = keep < text.len();
    text.truncate(keep);
    shorter
}

fn cut_some(text: &mut Option<String>, bytes: usize) -> bool {
    text.as_mut().is_some_and(|text| cut(text, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_on_character_boundaries_and_bodies_say_so() {
        let mut event = Event::new(EventType::ToolCall, 1);
        event.message = Some("ü".repeat(400));
        event.tool = Some("t".repeat(9000));
        event.response = Some("x".repeat(7) + "€uro");
        event.arguments = Some("{}".into());
        event.fit(8);
        assert_eq!(event.message.as_deref().map(str::len), Some(512));
        assert_eq!(event.tool.as_deref().map(str::len), Some(Event::MAX_TOOL));
        assert_eq!(event.response.as_deref(), Some("xxxxxxx"));
        assert!(event.response_truncated && !event.arguments_truncated);
    }

    #[test]
    fn an_odd_bound_never_splits_a_character() {
        for bytes in 0..12 {
            let cut = prefix("aé€😀z", bytes);
            assert!(cut.len() <= bytes && "aé€😀z".starts_with(cut));
        }
    }

    #[test]
    fn ids_are_ulids_and_differ() {
        let (a, b) = (new_id(), new_id());
        assert_eq!(a.len(), 26);
        assert_ne!(a, b);
    }

    #[test]
    fn a_row_serialises_with_its_type() {
        let value = serde_json::to_value(Event::new(EventType::SystemStart, 5)).unwrap();
        assert_eq!(value["type"], "system_start");
        assert_eq!(value["status"], "success");
    }
}
