//! One message of an agent, taken apart without changing a byte of its id and parameters.

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::{INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};

/// The longest request id or progress token, in bytes as spelled: both are kept and sent back.
const MAX_ID_BYTES: usize = 4096;

/// A message of an agent.
pub(super) enum Message {
    /// Wants an answer.
    Request(Call),
    /// Wants none.
    Notification { method: String, params: Bytes },
    /// Answers a request of ours; none is ever open.
    Response,
}

/// A request.
pub(super) struct Call {
    pub id: Id,
    pub method: String,
    /// A raw JSON object, or empty.
    pub params: Bytes,
}

/// A request id.
#[derive(Clone)]
pub(super) struct Id {
    /// As it was spelled.
    pub raw: String,
    pub key: Key,
}

/// A request id as it is compared: strings by what they mean, numbers by how they are spelled.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key {
    Text(String),
    Number(String),
}

/// Why a message is refused.
#[derive(Debug)]
pub(super) struct Fault {
    /// The raw id, if it could be read.
    pub id: Option<String>,
    pub code: i64,
    pub message: String,
}

/// Takes a message apart.
pub(super) fn parse(bytes: &Bytes) -> Result<Message, Fault> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => return Err(fault(PARSE_ERROR, format!("the message is not UTF-8: {error}"))),
    };
    let members = members(text)?;
    let id = members.id.map(read_id).transpose()?;
    let known = id.as_ref().map(|id| id.raw.clone());
    let invalid =
        |message: &str| Fault { id: known.clone(), code: INVALID_REQUEST, message: message.to_owned() };

    if members.jsonrpc.and_then(text_of).as_deref() != Some("2.0") {
        return Err(invalid("\"jsonrpc\" must be \"2.0\""));
    }
    let Some(method) = members.method else {
        let answers = members.result.is_some() || members.error.is_some();
        return if answers { Ok(Message::Response) } else { Err(invalid("the message has no \"method\"")) };
    };
    let method = text_of(method).ok_or_else(|| invalid("\"method\" must be a string"))?;
    let params = params_of(members.params, bytes);
    match (id, params) {
        (Some(id), Some(params)) => Ok(Message::Request(Call { id, method, params })),
        (Some(id), None) => {
            let message = "\"params\" must be an object".to_owned();
            Err(Fault { id: Some(id.raw), code: INVALID_PARAMS, message })
        }
        (None, params) => Ok(Message::Notification { method, params: params.unwrap_or_default() }),
    }
}

/// The id in the parameters of `notifications/cancelled`.
pub(super) fn cancelled_id(params: &[u8]) -> Option<Key> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    let cancelled: Cancelled<'_> = serde_json::from_slice(params).ok()?;
    read_id(cancelled.id).ok().map(|id| id.key)
}

/// The raw progress token in the parameters of a request: a string or a number.
pub(super) fn progress_token(params: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: Option<&'a RawValue>,
    }
    let params: Params<'_> = serde_json::from_slice(params).ok()?;
    let meta = params.meta.filter(|meta| meta.get().starts_with('{'))?;
    let meta: Meta<'_> = serde_json::from_str(meta.get()).ok()?;
    read_id(meta.token?).ok().map(|token| token.raw)
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    error: Option<&'a RawValue>,
}

/// A member that is there is `Some`, `null` included: an id of `null` is not a missing id.
pub(super) fn given<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn members(text: &str) -> Result<Members<'_>, Fault> {
    let whole = serde_json::from_str::<&RawValue>(text)
        .map_err(|error| fault(PARSE_ERROR, format!("the message is not valid JSON: {error}")))?;
    match whole.get().as_bytes().first() {
        Some(b'{') => serde_json::from_str(whole.get()).map_err(|error| match error.classify() {
            Category::Data => fault(INVALID_REQUEST, format!("the message is ambiguous: {error}")),
            _ => fault(PARSE_ERROR, format!("the message is not valid JSON: {error}")),
        }),
        Some(b'[') => {
            Err(fault(INVALID_REQUEST, "batches are not taken: send each message by itself".to_owned()))
        }
        _ => Err(fault(INVALID_REQUEST, "a message must be a JSON object".to_owned())),
    }
}

fn read_id(raw: &RawValue) -> Result<Id, Fault> {
    let raw = raw.get();
    if raw.len() > MAX_ID_BYTES {
        return Err(fault(INVALID_REQUEST, format!("\"id\" is longer than {MAX_ID_BYTES} bytes")));
    }
    let key = match raw.as_bytes().first() {
        // Escapes that mean no character (a lone surrogate) are told apart by their spelling.
        Some(b'"') => Key::Text(serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned())),
        Some(b'-' | b'0'..=b'9') => Key::Number(raw.to_owned()),
        _ => return Err(fault(INVALID_REQUEST, "\"id\" must be a string or a number".to_owned())),
    };
    Ok(Id { raw: raw.to_owned(), key })
}

fn text_of(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// The parameters as a part of `whole`; `None` if they are no object.
fn params_of(raw: Option<&RawValue>, whole: &Bytes) -> Option<Bytes> {
    match raw.map(RawValue::get) {
        None | Some("null") => Some(Bytes::new()),
        Some(object) if object.starts_with('{') => Some(whole.slice_ref(object.as_bytes())),
        Some(_) => None,
    }
}

fn fault(code: i64, message: String) -> Fault {
    Fault { id: None, code, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Call {
        match parse(&Bytes::copy_from_slice(text.as_bytes())) {
            Ok(Message::Request(call)) => call,
            Ok(_) => panic!("not a request: {text}"),
            Err(fault) => panic!("{fault:?}: {text}"),
        }
    }

    fn refused(text: &[u8]) -> (Option<String>, i64) {
        match parse(&Bytes::copy_from_slice(text)) {
            Ok(_) => panic!("taken: {}", String::from_utf8_lossy(text)),
            Err(fault) => (fault.id, fault.code),
        }
    }

    #[test]
    fn ids_and_params_are_kept_as_spelled() {
        for id in
            ["1", "-5", "1.0", "1e2", "\"a\\\"b\"", "\"\\u0061\\ud800\"", "12345678901234567890", "\"\""]
        {
            let text = format!(
                "\u{feff} {{\"params\":{{ \"z\":1.0,\r\n\"a\":-0 }},\"id\":{id} ,\"method\":\"m\",\"jsonrpc\":\"2.0\"}}\n"
            );
            let call = request(&text);
            assert_eq!(call.id.raw, id);
            assert_eq!(call.params, "{ \"z\":1.0,\r\n\"a\":-0 }".as_bytes());
            assert_eq!(call.method, "m");
        }
    }

    #[test]
    fn no_params_and_null_params_are_the_same() {
        assert!(request(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#).params.is_empty());
        assert!(request(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#).params.is_empty());
    }

    #[test]
    fn deep_params_are_taken_without_recursion() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let call = request(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{deep}}}}}"#));
        assert_eq!(call.params.len(), 400_006);
    }

    #[test]
    fn what_is_no_request_is_refused_with_the_id_that_could_be_read() {
        let parse_error: [&[u8]; 6] = [b"", b"{", b"{\"a\":NaN}", b"{} {}", b"\xff{}", b"{\"a\":\"\xc3\"}"];
        for text in parse_error {
            assert_eq!(refused(text), (None, PARSE_ERROR), "{}", String::from_utf8_lossy(text));
        }
        let invalid = [
            ("[]", None),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, None),
            ("1", None),
            (r#"{"jsonrpc":"2.0","id":1}"#, Some("1")),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, Some("1")),
            (r#"{"id":"x","method":"m"}"#, Some("\"x\"")),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, Some("7")),
            (r#"{"jsonrpc":"2.0"}"#, None),
        ];
        for (text, id) in invalid {
            assert_eq!(refused(text.as_bytes()), (id.map(str::to_owned), INVALID_REQUEST), "{text}");
        }
        let params = r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#;
        assert_eq!(refused(params.as_bytes()), (Some("7".to_owned()), INVALID_PARAMS));
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(5000));
        assert_eq!(refused(long.as_bytes()), (None, INVALID_REQUEST));
    }

    #[test]
    fn responses_and_notifications_are_told_apart() {
        let kind = |text: &str| match parse(&Bytes::copy_from_slice(text.as_bytes())) {
            Ok(Message::Notification { method, params }) => {
                format!("{method} {}", String::from_utf8_lossy(&params))
            }
            Ok(Message::Response) => "response".to_owned(),
            Ok(Message::Request(_)) => "request".to_owned(),
            Err(fault) => fault.message,
        };
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#), "n {\"a\":1}");
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#), "n ");
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), "response");
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#), "response");
    }

    #[test]
    fn a_progress_token_is_a_raw_string_or_number() {
        let token = |meta: &str| progress_token(format!(r#"{{"x":[1],"_meta":{meta}}}"#).as_bytes());
        assert_eq!(token(r#"{"progressToken":1.0}"#).as_deref(), Some("1.0"));
        assert_eq!(token(r#"{"progressToken":"a\u0062"}"#).as_deref(), Some("\"a\\u0062\""));
        for none in [r#"{"progressToken":null}"#, r#"{"progressToken":[1]}"#, "{}", "null", "[\"x\"]", "5"] {
            assert_eq!(token(none), None, "{none}");
        }
        assert_eq!(progress_token(b""), None);
    }

    #[test]
    fn a_cancelled_id_is_compared_by_meaning() {
        assert_eq!(
            cancelled_id(br#"{"requestId":"a\u0062","reason":"r"}"#),
            Some(Key::Text("ab".to_owned()))
        );
        assert_eq!(cancelled_id(br#"{"requestId":12}"#), Some(Key::Number("12".to_owned())));
        assert_eq!(cancelled_id(br#"{"requestId":null}"#), None);
        assert_eq!(cancelled_id(b""), None);
    }
}
