//! The text of what goes to an agent: results and errors in their JSON-RPC envelopes.

use bytes::Bytes;
use serde_json::Value;

/// What stands before a raw result.
pub(super) fn result_head(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)
}

/// What stands after a raw result.
pub(super) const RESULT_TAIL: &str = "}";

/// A whole response around a raw result.
pub(super) fn result(id: &str, raw: &[u8]) -> Bytes {
    let mut text = result_head(id).into_bytes();
    text.extend_from_slice(raw);
    text.extend_from_slice(RESULT_TAIL.as_bytes());
    text.into()
}

/// A whole error response; an `id` that is not known is `null`, `data` is raw JSON.
pub(super) fn error(id: Option<&str>, code: i64, message: &str, data: Option<&str>) -> Bytes {
    let id = id.unwrap_or("null");
    let message = Value::from(message);
    let data = data.map(|raw| format!(r#","data":{raw}"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#).into()
}

/// The same JSON on one line. A line break in raw JSON can only be space between tokens; on stdio and in an event
/// stream it would end the message early.
pub(super) fn on_one_line(json: Bytes) -> Bytes {
    if !json.iter().any(is_break) {
        return json;
    }
    let mut copy = Vec::from(json);
    flatten(&mut copy);
    copy.into()
}

/// Turns line breaks into spaces in place.
pub(super) fn flatten(json: &mut [u8]) {
    json.iter_mut().filter(|byte| is_break(byte)).for_each(|byte| *byte = b' ');
}

/// One event of an event stream around JSON that is on one line.
pub(super) fn event(json: &[u8]) -> Bytes {
    let mut text = EVENT_HEAD.as_bytes().to_vec();
    text.extend_from_slice(json);
    text.extend_from_slice(EVENT_TAIL.as_bytes());
    text.into()
}

/// What stands before the JSON of an event.
pub(super) const EVENT_HEAD: &str = "event: message\ndata: ";

/// What ends an event.
pub(super) const EVENT_TAIL: &str = "\n\n";

fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_message_is_escaped_and_data_is_raw() {
        let text = error(Some("1.0"), -32_603, "a \"b\"\n", Some("1e45"));
        let wanted =
            r#"{"jsonrpc":"2.0","id":1.0,"error":{"code":-32603,"message":"a \"b\"\n","data":1e45}}"#;
        assert_eq!(text, wanted.as_bytes());
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        assert_eq!(on_one_line(Bytes::from("{\r\n \"a\":\n1}")), "{   \"a\": 1}".as_bytes());
        assert_eq!(on_one_line(Bytes::from("{\"a\":\"\\n\"}")), "{\"a\":\"\\n\"}".as_bytes());
    }
}
