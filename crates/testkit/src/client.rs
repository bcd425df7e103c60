//! A raw MCP client: it shows the bytes that came, not what a library made of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

/// What came back for one request.
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Response head, lower-cased names as they came.
    pub head: String,
    /// Raw JSON-RPC messages, progress first, the answer last.
    pub messages: Vec<String>,
    /// The whole body as it came.
    pub body: Vec<u8>,
}

#[derive(serde::Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl Reply {
    /// The raw bytes of the answer's `result`.
    pub fn raw_result(&self) -> &str {
        let last = self
            .messages
            .last()
            .unwrap_or_else(|| panic!("no message; status {} {}", self.status, self.text()));
        let answer: Answer<'_> = serde_json::from_str(last).unwrap();
        answer.result.unwrap_or_else(|| panic!("no result in {last}")).get()
    }

    /// The answer's `result` as a value.
    pub fn result(&self) -> Value {
        serde_json::from_str(self.raw_result()).unwrap()
    }

    /// The first text block of the result.
    pub fn first_text(&self) -> String {
        self.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether the result says that it is an error.
    pub fn is_error(&self) -> bool {
        self.result()["isError"] == true
    }

    /// The envelope of a saved call.
    pub fn envelope(&self) -> Value {
        assert!(!self.is_error(), "no envelope: {}", self.first_text());
        serde_json::from_str(&self.first_text()).unwrap_or_else(|e| panic!("{e}: {}", self.first_text()))
    }

    /// The refusal's text; fails when the call was not refused.
    pub fn refusal(&self) -> String {
        assert!(self.is_error(), "not refused: {}", self.raw_result());
        self.first_text()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header of the response.
    pub fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|l| {
            let (n, v) = l.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| v.trim().to_owned())
        })
    }
}

/// Where a gateway listens, and how to ask it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Host and port.
    pub address: String,
    /// Headers that go with every request.
    pub headers: Vec<(String, String)>,
}

impl Endpoint {
    /// Sends one request with this head line and body and reads the answer to its end.
    pub fn http(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.write_all(self.head(method, path, headers, body.len()).as_bytes()).unwrap();
        // A server may refuse before it has read the body, and close.
        let _ = stream.write_all(body);
        read_reply(BufReader::new(stream))
    }

    /// The head of a request, to its empty line.
    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
        let own = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !own("host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in self.headers.iter().filter(|(n, _)| !own(n)) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {length}\r\n\r\n"));
        head
    }

    /// Sends the request of one call and gives the connection back without reading, for a client that goes away.
    pub fn send_only(&self, params: &str) -> TcpStream {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = self.head("POST", "/mcp", &POST, body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream
    }

    /// Opens the stream for news and reads until this text comes, for at most ten seconds; returns what came.
    pub fn listen(&self, until: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = self.head("GET", "/mcp", &[("accept", "text/event-stream")], 0);
        stream.write_all(head.as_bytes()).unwrap();
        let (mut heard, mut piece) = (String::new(), [0; 4096]);
        while !heard.contains(until) {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(n) => heard.push_str(&String::from_utf8_lossy(&piece[..n])),
            }
        }
        heard
    }

    /// The same place with one more header on every request.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.headers.push((name.to_owned(), value.to_owned()));
        other
    }

    /// Opens a session as a client of this name; what comes back sends everything in it.
    pub fn session(&self, client: &str) -> Self {
        let params = format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"{client}","version":"1.2.3"}}}}"#
        );
        let reply = self.rpc("initialize", &params);
        let id = reply
            .header("mcp-session-id")
            .unwrap_or_else(|| panic!("no session: {}{}", reply.head, reply.text()));
        let session = self.with("mcp-session-id", &id);
        assert_eq!(session.notify("notifications/initialized", "{}").status, 202);
        session
    }

    /// One notification to `/mcp`.
    pub fn notify(&self, method: &str, params: &str) -> Reply {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        self.http("POST", "/mcp", &POST, body.as_bytes())
    }

    /// One request to `/mcp` with this raw id.
    pub fn rpc_as(&self, id: &str, method: &str, params: &str) -> Reply {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.http("POST", "/mcp", &POST, body.as_bytes())
    }

    /// One JSON-RPC request to `/mcp`.
    pub fn rpc(&self, method: &str, params: &str) -> Reply {
        self.rpc_at("/mcp", method, params)
    }

    /// One JSON-RPC request to a path.
    pub fn rpc_at(&self, path: &str, method: &str, params: &str) -> Reply {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        self.http("POST", path, &POST, body.as_bytes())
    }

    /// One call of one of the gateway's own tools with these raw arguments.
    pub fn tool(&self, tool: &str, arguments: &str) -> Reply {
        self.rpc("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
    }
}

/// One HTTP request over a Unix socket, with no key.
pub fn over_socket(socket: &Path, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let nowhere = Endpoint { address: "localhost".into(), headers: Vec::new() };
    stream.write_all(nowhere.head(method, path, headers, body.len()).as_bytes()).unwrap();
    let _ = stream.write_all(body);
    read_reply(BufReader::new(stream))
}

/// Headers of an MCP POST.
pub const POST: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

/// Reads a response to its end.
pub fn read_reply(mut reader: BufReader<impl Read>) -> Reply {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).unwrap() == 0 || head[before..].trim_end().is_empty() {
            break;
        }
    }
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    let lower = head.to_ascii_lowercase();
    let mut body = Vec::new();
    if lower.contains("transfer-encoding: chunked") {
        loop {
            let mut size = String::new();
            if reader.read_line(&mut size).unwrap_or(0) == 0 {
                break;
            }
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).unwrap();
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        reader.read_to_end(&mut body).unwrap();
    }
    let messages = if lower.contains("content-type: text/event-stream") {
        events(&body)
    } else if lower.contains("content-type: application/json") {
        vec![String::from_utf8(body.clone()).unwrap()]
    } else {
        Vec::new()
    };
    Reply { status, head, messages, body }
}

fn events(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    text.split("\n\n")
        .filter_map(|event| {
            let data: Vec<&str> = event
                .lines()
                .filter_map(|l| l.strip_prefix("data:"))
                .map(|d| d.strip_prefix(' ').unwrap_or(d))
                .collect();
            let data = data.join("\n");
            (!data.is_empty()).then_some(data)
        })
        .collect()
}

/// One `call_tool_*` call, built piece by piece.
pub struct CallBuilder {
    endpoint: Endpoint,
    variant: &'static str,
    members: Vec<String>,
    extra: String,
}

impl CallBuilder {
    /// A `call_tool_read` of `server:tool`.
    pub fn new(endpoint: Endpoint, tool: &str) -> Self {
        let name = format!(r#""name":{}"#, serde_json::to_string(tool).unwrap());
        Self { endpoint, variant: "call_tool_read", members: vec![name], extra: String::new() }
    }

    /// Through another of the three tools.
    #[must_use]
    pub fn variant(mut self, variant: &'static str) -> Self {
        self.variant = variant;
        self
    }

    /// With `save_to_file`.
    #[must_use]
    pub fn save(self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_str().unwrap().to_owned();
        self.member(&format!(r#""save_to_file":{}"#, serde_json::to_string(&path).unwrap()))
    }

    /// With `save_format`.
    #[must_use]
    pub fn format(self, format: &str) -> Self {
        self.member(&format!(r#""save_format":"{format}""#))
    }

    /// With `save_overwrite: true`.
    #[must_use]
    pub fn overwrite(self) -> Self {
        self.member(r#""save_overwrite":true"#)
    }

    /// With this raw member at the top level.
    #[must_use]
    pub fn member(mut self, raw: &str) -> Self {
        self.members.push(raw.to_owned());
        self
    }

    /// With `args`.
    #[must_use]
    pub fn args(self, raw: &str) -> Self {
        self.member(&format!(r#""args":{raw}"#))
    }

    /// With this raw member beside `name` and `arguments` in the parameters, such as `"_meta":{…}`.
    #[must_use]
    pub fn param(mut self, raw: &str) -> Self {
        self.extra.push(',');
        self.extra.push_str(raw);
        self
    }

    /// Sends it and waits for the answer.
    pub fn send(self) -> Reply {
        self.endpoint.rpc("tools/call", &self.params())
    }

    /// Sends it under this raw id and waits for the answer.
    pub fn send_as(self, id: &str) -> Reply {
        self.endpoint.rpc_as(id, "tools/call", &self.params())
    }

    /// The raw parameters of the request.
    pub fn params(&self) -> String {
        let arguments = format!("{{{}}}", self.members.join(","));
        format!(r#"{{"name":"{}","arguments":{arguments}{}}}"#, self.variant, self.extra)
    }
}

/// A path as the arguments of a call want it.
pub fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}
