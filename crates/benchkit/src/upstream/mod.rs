//! The server that calls are made to: the least that MCP asks for, and answers that cost almost nothing to make.

pub mod http;
pub mod stdio;

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::payload;

/// Largest text of `big`, in bytes.
const LARGEST: usize = 512 << 20;
/// Most tools of a listing.
const MOST_TOOLS: usize = 10_000;
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
struct BigArguments {
    bytes: usize,
}

#[derive(Deserialize)]
struct Hello {
    #[serde(rename = "protocolVersion")]
    revision: String,
}

/// An MCP server with `echo`, `big` and a listing of any length.
pub struct Server {
    listing: Bytes,
}

/// One answer as pieces, so that a large text is never copied.
pub struct Answer {
    pub pieces: Vec<Bytes>,
    /// Whether it answers `initialize`.
    pub opens: bool,
}

impl Server {
    /// A server that lists `tools` tools, at most 10,000.
    pub fn new(tools: usize) -> Self {
        let listing = json!({"tools": payload::tools(tools.min(MOST_TOOLS))});
        Self { listing: listing.to_string().into() }
    }

    /// The answer to one message; none for a notification.
    pub fn answer(&self, message: &[u8]) -> Option<Answer> {
        let request: Request<'_> = match serde_json::from_slice(message) {
            Ok(request) => request,
            Err(problem) => return Some(error("null", -32700, &problem.to_string())),
        };
        let id = request.id?.get();
        let params = request.params.map_or("{}", RawValue::get);
        let answer = match &*request.method {
            "initialize" => Answer { opens: true, ..whole(id, &hello(params)) },
            "ping" | "logging/setLevel" => whole(id, &json!({})),
            "tools/list" => result(id, [self.listing.clone()]),
            "tools/call" => call(id, params),
            "resources/list" => whole(id, &json!({"resources": []})),
            "resources/templates/list" => whole(id, &json!({"resourceTemplates": []})),
            "prompts/list" => whole(id, &json!({"prompts": []})),
            other => error(id, -32601, &format!("no method {other}")),
        };
        Some(answer)
    }
}

fn hello(params: &str) -> Value {
    let asked = serde_json::from_str::<Hello>(params).map(|h| h.revision).unwrap_or_default();
    let revision = if REVISIONS.contains(&&*asked) { &*asked } else { "2025-06-18" };
    json!({"protocolVersion": revision, "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": "benchkit", "version": env!("CARGO_PKG_VERSION")}})
}

fn call(id: &str, params: &str) -> Answer {
    match try_call(id, params) {
        Ok(answer) => answer,
        Err(problem) => error(id, -32602, &problem),
    }
}

fn try_call(id: &str, params: &str) -> Result<Answer, String> {
    let call: ToolCall<'_> = serde_json::from_str(params).map_err(|e| e.to_string())?;
    let arguments = call.arguments.map_or("{}", RawValue::get);
    match &*call.name {
        "echo" => {
            let echo: EchoArguments<'_> = serde_json::from_str(arguments).map_err(|e| e.to_string())?;
            Ok(text(id, [Bytes::copy_from_slice(echo.text.get().as_bytes())]))
        }
        "big" => {
            let big: BigArguments = serde_json::from_str(arguments).map_err(|e| e.to_string())?;
            if big.bytes > LARGEST {
                return Err(format!("bytes: at most {LARGEST}"));
            }
            Ok(text(id, payload::json_pieces(big.bytes)))
        }
        other => Ok(text(id, [Bytes::from(json!(format!("called {other}")).to_string())])),
    }
}

/// A result with one text block, whose JSON string is `string`.
fn text(id: &str, string: impl IntoIterator<Item = Bytes>) -> Answer {
    let before = Bytes::from_static(br#"{"content":[{"type":"text","text":"#);
    let after = Bytes::from_static(br#"}],"isError":false}"#);
    result(id, [before].into_iter().chain(string).chain([after]))
}

fn whole(id: &str, value: &Value) -> Answer {
    result(id, [Bytes::from(value.to_string())])
}

fn result(id: &str, value: impl IntoIterator<Item = Bytes>) -> Answer {
    let before = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#));
    let mut pieces: Vec<Bytes> = [before].into_iter().chain(value).collect();
    pieces.push(Bytes::from_static(b"}"));
    Answer { pieces, opens: false }.joined()
}

fn error(id: &str, code: i32, message: &str) -> Answer {
    let text =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{}}}}}"#, json!(message));
    Answer { pieces: vec![text.into()], opens: false }
}

impl Answer {
    /// A small answer as one piece: one write instead of five.
    fn joined(mut self) -> Self {
        if self.pieces.iter().map(Bytes::len).sum::<usize>() < 32 << 10 {
            self.pieces = vec![self.pieces.concat().into()];
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(message: &str) -> Option<Value> {
        let answer = Server::new(5).answer(message.as_bytes())?;
        Some(serde_json::from_slice(&answer.pieces.concat()).unwrap())
    }

    #[test]
    fn a_notification_has_no_answer() {
        assert!(ask(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).is_none());
    }

    #[test]
    fn echo_and_big_answer_with_what_was_asked_for() {
        let echo =
            ask(r#"{"id":"a","method":"tools/call","params":{"name":"echo","arguments":{"text":"h\"i"}}}"#);
        let echo = echo.unwrap();
        assert_eq!((&echo["id"], &echo["result"]["content"][0]["text"]), (&json!("a"), &json!("h\"i")));
        let big =
            ask(r#"{"id":1,"method":"tools/call","params":{"name":"big","arguments":{"bytes":70000}}}"#);
        let text = big.unwrap()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(payload::is_text(text.as_bytes(), 70_000));
    }

    #[test]
    fn what_it_does_not_know_is_an_error_and_the_revision_is_the_one_asked_for() {
        assert_eq!(ask(r#"{"id":1,"method":"nope"}"#).unwrap()["error"]["code"], -32601);
        assert_eq!(ask("{").unwrap()["error"]["code"], -32700);
        let hello =
            ask(r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#).unwrap();
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    }
}
