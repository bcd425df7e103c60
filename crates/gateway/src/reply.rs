//! What the agent gets: a text of ours, or a cleaned answer as it is.

use bytes::Bytes;
use content::clean::Redacted;
use serde_json::json;
use wire::server::Payload;

use crate::refusal::Refusal;

/// Answers up to this size are sent from memory; larger ones are read while they are sent.
const IN_MEMORY: u64 = 64 * 1024;

/// What the agent gets for a call: always a tool result, never a protocol error.
pub enum Reply {
    /// One text block of ours.
    Text {
        /// The text.
        text: String,
        /// Whether the result says that it is an error.
        is_error: bool,
    },
    /// A cleaned answer, byte for byte.
    Answer(Redacted),
}

impl Reply {
    /// A text that is no error.
    pub fn text(text: String) -> Self {
        Self::Text { text, is_error: false }
    }

    /// A refusal: the upstream's own words where it gave any (cleaned), else ours.
    pub fn refused(refusal: Refusal, request_id: &str) -> Self {
        Self::Text { text: refusal.for_agent(request_id), is_error: true }
    }

    /// A fault of ours.
    pub fn internal(request_id: &str, what: &str) -> Self {
        tracing::error!(request_id, "internal error in a call: {what}");
        let text = format!("Internal error; please report it with the log (request id {request_id})");
        Self::Text { text, is_error: true }
    }

    /// Whether the agent reads this as a failure.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self {
            Self::Text { is_error, .. } => *is_error,
            Self::Answer(answer) => answer.is_error(),
        }
    }

    /// The MCP result object, raw.
    #[must_use]
    pub fn into_payload(self) -> Payload {
        match self {
            Self::Text { text, is_error } => {
                let mut result = json!({"content": [{"type": "text", "text": text}]});
                if is_error {
                    result["isError"] = json!(true);
                }
                Payload::Bytes(Bytes::from(result.to_string()))
            }
            Self::Answer(answer) => payload(&answer),
        }
    }
}

fn payload(answer: &Redacted) -> Payload {
    let mut reader = answer.json();
    let len = answer.len();
    if len <= IN_MEMORY {
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        if std::io::Read::read_to_end(&mut reader, &mut bytes).is_ok() {
            return Payload::Bytes(Bytes::from(bytes));
        }
    }
    Payload::Stream { len: Some(len), reader: Box::new(answer.json()) }
}
