//! A scripted service, a real HTTP listener around it, and a client that sees every byte.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use wire::server::{
    INTERNAL_ERROR, Limits, METHOD_NOT_FOUND, Payload, Reply, Request, Server, ServerInfo, Service,
};

/// Does what the method says.
pub struct Script {
    /// What `held` waits for.
    pub gate: Semaphore,
    pub begun: AtomicUsize,
    pub ended: AtomicUsize,
    pub cancelled: AtomicUsize,
    /// The bytes that stream readers have given.
    pub produced: Arc<AtomicU64>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            gate: Semaphore::new(0),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            produced: Arc::default(),
        }
    }
}

impl Script {
    /// Lets so many `held` requests end.
    pub fn release(&self, count: usize) {
        self.gate.add_permits(count);
    }

    /// Waits, for at most ten seconds, until a counter is there.
    pub async fn until(&self, counter: impl Fn(&Self) -> usize, wanted: usize) {
        for _ in 0..1000 {
            if counter(self) >= wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} instead of {wanted}", counter(self));
    }

    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    pub fn cancelled(&self) -> usize {
        self.cancelled.load(Ordering::SeqCst)
    }

    async fn act(&self, request: Request<String>) -> Reply {
        let params: Value = serde_json::from_slice(&request.params).unwrap_or_default();
        let number = |name: &str| params[name].as_u64();
        match request.method.as_str() {
            "echo" if request.params.is_empty() => result("{}"),
            "echo" => Reply::Result(Payload::Bytes(request.params)),
            "sleep" => {
                tokio::time::sleep(Duration::from_millis(number("ms").unwrap())).await;
                result(r#"{"slept":true}"#)
            }
            "held" => {
                self.gate.acquire().await.unwrap().forget();
                result(r#"{"held":true}"#)
            }
            "until_cancelled" => {
                request.cancel.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                result(r#"{"cancelled":true}"#)
            }
            "progress" => {
                let wanted = request.progress.is_some();
                for step in 0..number("steps").unwrap() {
                    let Some(sink) = &request.progress else { break };
                    sink.send(format!("{{\"progress\":{step}.0,\n\"progressToken\":77}}").as_bytes());
                    tokio::time::sleep(Duration::from_millis(number("pause").unwrap_or(0))).await;
                }
                result(&format!(r#"{{"wanted":{wanted}}}"#))
            }
            "stream" => {
                let bytes = number("bytes").unwrap();
                let reader = Filler {
                    left: bytes,
                    begun: false,
                    fails_at: number("fails_at").map(|at| bytes - at),
                    produced: Arc::clone(&self.produced),
                };
                Reply::Result(Payload::Stream { len: number("len"), reader: Box::new(reader) })
            }
            "whole" => {
                let bytes = usize::try_from(number("bytes").unwrap()).unwrap();
                Reply::Result(Payload::Bytes(format!("\"{}\"", "x".repeat(bytes - 2)).into()))
            }
            "error" => Reply::Error {
                code: -32_042,
                message: "a\n\"b\"".to_owned(),
                data: Some("[1.0,\n2]".to_owned()),
            },
            "panic" => panic!("as the test asked"),
            "who" => {
                let client = request.client.map(|client| json!([client.name, client.version]));
                let who = json!({
                    "caller": request.caller, "session": request.session, "client": client, "id": request.id_text,
                });
                result(&who.to_string())
            }
            _ => Reply::Error { code: METHOD_NOT_FOUND, message: "no such method".to_owned(), data: None },
        }
    }
}

fn result(raw: &str) -> Reply {
    Reply::Result(Payload::Bytes(Bytes::copy_from_slice(raw.as_bytes())))
}

impl Service for Script {
    type Caller = String;

    fn info(&self) -> ServerInfo {
        ServerInfo {
            name: "script".to_owned(),
            version: "1.2.3".to_owned(),
            instructions: Some("say \"echo\"".to_owned()),
            capabilities: json!({"tools": {"listChanged": false}}),
        }
    }

    async fn handle(self: &Arc<Self>, request: Request<String>) -> Reply {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let reply = self.act(request).await;
        self.ended.fetch_add(1, Ordering::SeqCst);
        reply
    }
}

/// A JSON string of exactly so many bytes, in reads of an odd size.
struct Filler {
    left: u64,
    begun: bool,
    fails_at: Option<u64>,
    produced: Arc<AtomicU64>,
}

impl Read for Filler {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.fails_at.is_some_and(|at| self.left <= at) {
            return Err(io::Error::other("as the test asked"));
        }
        let count = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX)).min(50_001);
        let first = !std::mem::replace(&mut self.begun, true);
        for (at, byte) in buffer[..count].iter_mut().enumerate() {
            *byte = b'x';
            if (first && at == 0) || self.left == u64::try_from(at).unwrap() + 1 {
                *byte = b'"';
            }
        }
        self.left -= u64::try_from(count).unwrap();
        self.produced.fetch_add(u64::try_from(count).unwrap(), Ordering::SeqCst);
        Ok(count)
    }
}

/// A listener on loopback whose caller is the header `x-caller`.
pub struct House {
    pub script: Arc<Script>,
    pub server: Server<Script>,
    pub address: SocketAddr,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl House {
    pub async fn open(limits: Limits) -> Self {
        let script = Arc::new(Script::default());
        let server = Server::new(Arc::clone(&script), limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = server.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let server = shared.clone();
                let service =
                    hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        let server = server.clone();
                        let caller =
                            request.headers().get("x-caller").map(|value| value.to_str().unwrap().to_owned());
                        async move {
                            Ok::<_, std::convert::Infallible>(
                                server.http(request, caller.unwrap_or_default()).await,
                            )
                        }
                    });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { script, server, address, accepting }
    }

    /// Sends a message with the usual headers and reads the whole answer.
    pub async fn post(&self, message: &str) -> Answer {
        self.post_with(&[], message).await
    }

    /// The same with more headers; one of a usual name takes its place, an empty one removes it.
    pub async fn post_with(&self, headers: &[(&str, &str)], message: &str) -> Answer {
        self.send("POST", headers, message.as_bytes()).await.whole().await
    }

    /// Opens a session and gives its id.
    pub async fn session(&self, caller: &str) -> String {
        let answer = self.post_with(&[("x-caller", caller)], INITIALIZE).await;
        answer.header("mcp-session-id").unwrap().to_owned()
    }

    /// Sends a request and gives the connection.
    pub async fn send(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Wire {
        let mut wire =
            Wire { stream: TcpStream::connect(self.address).await.unwrap(), head: None, rest: Vec::new() };
        let length = body.len().to_string();
        let mut all: Vec<(&str, &str)> = vec![
            ("host", "127.0.0.1"),
            ("connection", "close"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("content-length", &length),
        ];
        for (name, value) in headers {
            all.retain(|(usual, _)| usual != name);
            if !value.is_empty() {
                all.push((name, value));
            }
        }
        let mut head = format!("{method} /mcp HTTP/1.1\r\n");
        all.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str("\r\n");
        wire.stream.write_all(head.as_bytes()).await.unwrap();
        // A server that has seen enough may close: its answer says why.
        let _ = wire.stream.write_all(body).await;
        wire
    }
}

pub const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"tester","version":"9"}}}"#;

/// A request with that id.
pub fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A connection on which a request was sent.
pub struct Wire {
    pub stream: TcpStream,
    head: Option<(u16, Vec<(String, String)>)>,
    rest: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Without chunk framing.
    pub body: Vec<u8>,
    /// Whether it came to the end that HTTP promises.
    pub complete: bool,
}

impl Wire {
    /// Reads status line and headers.
    pub async fn head(&mut self) -> (u16, Vec<(String, String)>) {
        if let Some(head) = &self.head {
            return head.clone();
        }
        let end = loop {
            if let Some(at) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            assert!(
                self.more().await,
                "no head: {:?}",
                String::from_utf8_lossy(&self.rest[..self.rest.len().min(300)])
            );
        };
        let head = String::from_utf8(self.rest.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        };
        let head = (status, lines.map(|line| header(line).unwrap()).collect());
        self.head.insert(head).clone()
    }

    /// Reads what comes; false at the end of the connection.
    pub async fn more(&mut self) -> bool {
        let read = tokio::time::timeout(Duration::from_secs(30), self.stream.read_buf(&mut self.rest)).await;
        matches!(read.expect("the server says nothing"), Ok(1..))
    }

    /// Reads the whole answer.
    pub async fn whole(mut self) -> Answer {
        let (status, headers) = self.head().await;
        while self.more().await {}
        let mut answer = Answer { status, headers, body: self.rest, complete: false };
        if answer.header("transfer-encoding") == Some("chunked") {
            (answer.body, answer.complete) = unchunk(&answer.body);
        } else {
            let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
            answer.complete = answer.body.len() == length;
        }
        answer
    }
}

fn unchunk(mut chunked: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(at) = chunked.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&chunked[..at]).unwrap(), 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let Some(data) = chunked.get(at + 2..at + 2 + size) else { break };
        body.extend_from_slice(data);
        chunked = chunked.get(at + 4 + size..).unwrap_or_default();
    }
    (body, false)
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON-RPC error code.
    pub fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", self.text()))
    }

    /// The data of each event, after checking the framing.
    pub fn events(&self) -> Vec<String> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        assert!(self.complete && self.body.ends_with(b"\n\n"), "cut off");
        let blocks =
            self.text().trim_end_matches('\n').split("\n\n").filter(|block| *block != ": keep-alive");
        let data = |block: &str| {
            let (event, data) = block.split_once('\n').unwrap();
            assert_eq!(event, "event: message");
            assert!(!data.contains(['\n', '\r']), "one line: {data}");
            data.strip_prefix("data: ").unwrap().to_owned()
        };
        blocks.filter(|block| !block.is_empty()).map(data).collect()
    }
}

/// The code that a panicking service ends with.
pub const BROKE_DOWN: i64 = INTERNAL_ERROR;
