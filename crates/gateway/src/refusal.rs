//! Why a call ended without a delivered answer: for the agent, for the record, and for the log.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use store::{Reason, SavedFile, Status, UpstreamRan};

/// The end of a call that was refused, or that failed.
#[derive(Debug)]
pub struct Refusal {
    /// The reason code of the record.
    pub reason: Reason,
    /// The status of the record.
    pub status: Status,
    /// Whether it is a decision of ours about what may happen, and so gets a `policy_decision` row.
    pub decision: bool,
    /// Whether the upstream ran, where the failure itself tells.
    pub ran: Option<UpstreamRan>,
    /// The file that stays although the save failed.
    pub saved: Option<Box<SavedFile>>,
    body: Text,
}

#[derive(Debug)]
enum Text {
    Plain(String),
    /// The raw members of a JSON object, by name; the request id becomes one of them.
    Json(BTreeMap<&'static str, Box<RawValue>>, String),
}

impl Refusal {
    /// The call itself is not well formed.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Reason::InvalidRequest, Status::Error, false, text.into())
    }

    /// The tool's arguments cannot be read.
    pub fn arguments(text: impl Into<String>) -> Self {
        Self::new(Reason::InvalidArguments, Status::Error, false, text.into())
    }

    /// A refusal by policy, before the upstream saw anything.
    pub fn blocked(reason: Reason, text: impl Into<String>) -> Self {
        Self::new(reason, Status::Blocked, true, text.into())
    }

    /// A save that is refused before the upstream saw anything.
    pub fn save(reason: Reason, text: impl AsRef<str>) -> Self {
        Self::new(reason, Status::Blocked, true, format!("save_to_file: {}", text.as_ref()))
    }

    /// A save that failed after the upstream answered.
    pub fn save_failed(reason: Reason, text: impl AsRef<str>) -> Self {
        Self::new(reason, Status::Error, false, format!("save_to_file: {}", text.as_ref()))
    }

    /// Told to wait: a limit is reached.
    pub fn rejected(reason: Reason, text: impl Into<String>) -> Self {
        Self::new(reason, Status::Rejected, false, text.into())
    }

    /// Everything else that failed.
    pub fn failed(reason: Reason, text: impl Into<String>) -> Self {
        Self::new(reason, Status::Error, false, text.into())
    }

    /// The agent took the call back.
    pub fn cancelled(answered: bool) -> Self {
        let text = if answered {
            "The call was cancelled; the upstream's answer came all the same and was dropped."
        } else {
            "The call was cancelled; no answer came."
        };
        Self::new(Reason::Cancelled, Status::Cancelled, false, text.into())
    }

    /// A failure that an agent can read as JSON: `error`, and members that are raw JSON already.
    pub fn json(reason: Reason, error: String, more: Vec<(&'static str, Box<RawValue>)>) -> Self {
        let mut refusal = Self::new(reason, Status::Error, false, String::new());
        let mut members: BTreeMap<_, _> = more.into_iter().collect();
        members.insert("error", raw(&error));
        refusal.body = Text::Json(members, error);
        refusal
    }

    /// The same, and the upstream is known to have run, or not.
    #[must_use]
    pub fn with_ran(mut self, ran: UpstreamRan) -> Self {
        self.ran = Some(ran);
        self
    }

    fn new(reason: Reason, status: Status, decision: bool, text: String) -> Self {
        Self { reason, status, decision, ran: None, saved: None, body: Text::Plain(text) }
    }

    /// What happened, for the record.
    pub fn text(&self) -> &str {
        match &self.body {
            Text::Plain(text) | Text::Json(_, text) => text,
        }
    }

    /// What the agent reads: the text with the request id at its end.
    pub fn for_agent(self, request_id: &str) -> String {
        match self.body {
            Text::Plain(text) => format!("{text} (request id {request_id})"),
            Text::Json(mut members, _) => {
                members.insert("request_id", raw(request_id));
                serde_json::to_string(&members).unwrap_or_else(|e| e.to_string())
            }
        }
    }
}

/// A text as raw JSON.
pub fn raw(text: &str) -> Box<RawValue> {
    to_raw_value(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
