//! What must be known of a client's message to pass it on: whether it wants an answer, under which id, and three methods.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One message of the client, as it was sent.
pub(super) struct Message {
    /// The line without its end.
    pub line: Bytes,
    /// What it is.
    pub kind: Kind,
    /// The method; empty when there is none or it cannot be read.
    pub method: String,
}

/// What a message is.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// Wants an answer under this raw id.
    Request(String),
    /// Wants none: a notification, or an answer to a request of the holder.
    Silent,
    /// Cannot be read; whoever serves says what is wrong with it.
    Unclear,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Message {
    /// Looks at a line.
    pub fn read(line: Bytes) -> Self {
        let members = members(&line);
        let method = members.as_ref().and_then(|m| text(m.method?)).unwrap_or_default();
        let kind = match &members {
            Some(Members { id: Some(id), method: Some(_), .. }) => Kind::Request(id.get().to_owned()),
            Some(Members { id: None, method: Some(_), .. }) => Kind::Silent,
            Some(m) if m.result.is_some() || m.error.is_some() => Kind::Silent,
            Some(Members { id: Some(id), .. }) => Kind::Request(id.get().to_owned()),
            _ => Kind::Unclear,
        };
        Self { kind, method, line }
    }

    /// The raw id of a request.
    pub fn id(&self) -> Option<&str> {
        match &self.kind {
            Kind::Request(id) => Some(id),
            Kind::Silent | Kind::Unclear => None,
        }
    }

    /// Which request this takes back, as [`key`] spells it.
    pub fn cancels(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        if self.method != "notifications/cancelled" {
            return None;
        }
        let cancelled: Cancelled<'_> = serde_json::from_str(members(&self.line)?.params?.get()).ok()?;
        Some(key(cancelled.id.get()))
    }

    /// Whether it may be sent again to another holder: only a call can have done something.
    pub fn may_be_repeated(&self) -> bool {
        !matches!(self.kind, Kind::Unclear) && self.method != "tools/call"
    }
}

/// An id as it is compared: strings by what they mean, numbers by how they are spelled.
pub(super) fn key(raw: &str) -> String {
    match serde_json::from_str::<String>(raw) {
        Ok(text) => format!("\"{text}"),
        Err(_) => raw.to_owned(),
    }
}

/// Whether a message of the holder ends a request, rather than tells of its progress or asks something.
pub(super) fn is_answer(message: &[u8]) -> bool {
    members(message).is_none_or(|m| m.method.is_none())
}

/// The protocol version in the answer to `initialize`.
pub(super) fn agreed_version(answer: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Result {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    let result: Result = serde_json::from_str(members(answer)?.result?.get()).ok()?;
    Some(result.version)
}

/// A JSON-RPC error as a message.
pub(super) fn error(id: Option<&str>, code: i64, message: &str) -> Vec<u8> {
    let (id, message) = (id.unwrap_or("null"), Value::from(message));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#).into_bytes()
}

fn members(message: &[u8]) -> Option<Members<'_>> {
    let text = std::str::from_utf8(message).ok()?;
    serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)).ok()
}

fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Message {
        Message::read(Bytes::copy_from_slice(line.as_bytes()))
    }

    #[test]
    fn requests_are_known_by_their_raw_id() {
        for (line, id) in [
            (r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, Some("1.0")),
            (r#" {"method":"m","params":{"a":"\ud800"},"id":"\u0061"}"#, Some(r#""\u0061""#)),
            (r#"{"jsonrpc":"2.0","id":7}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, None),
        ] {
            assert_eq!(read(line).id(), id, "{line}");
        }
        for unclear in ["", "{", "[]", "1", r#"{"id":1,"id":2,"method":"m"}"#, "{}"] {
            assert_eq!(read(unclear).kind, Kind::Unclear, "{unclear}");
        }
        let deep =
            format!(r#"{{"id":1,"method":"m","params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep).id(), Some("1"));
    }

    #[test]
    fn a_cancellation_names_its_request_by_meaning() {
        let cancel = |id: &str| {
            read(&format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#))
                .cancels()
        };
        assert_eq!(cancel(r#""\u0061""#), Some(key(r#""a""#)));
        assert_eq!(cancel("1"), Some(key("1")));
        assert_ne!(key("1"), key(r#""1""#));
        assert_eq!(read(r#"{"method":"notifications/other","params":{"requestId":1}}"#).cancels(), None);
    }

    #[test]
    fn only_a_call_is_never_repeated() {
        assert!(!read(r#"{"id":1,"method":"tools/call"}"#).may_be_repeated());
        assert!(!read(r#"{"id":1,"method":"tools\/call"}"#).may_be_repeated());
        assert!(!read("{").may_be_repeated());
        assert!(read(r#"{"id":1,"method":"tools/list"}"#).may_be_repeated());
    }

    #[test]
    fn answers_are_told_from_what_comes_before_them() {
        assert!(is_answer(br#"{"result":{"method":"m"},"id":1}"#));
        assert!(is_answer(br#"{"error":{"code":1,"message":""},"id":1}"#));
        assert!(!is_answer(br#"{"method":"notifications/progress","params":{}}"#));
        assert_eq!(agreed_version(br#"{"id":1,"result":{"protocolVersion":"v"}}"#).as_deref(), Some("v"));
    }
}
