//! Calls over streamable HTTP, against a server that speaks raw TCP.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wire::client::{CallError, CallOptions, Client, Event, HttpOptions, ServerInfo};
use wire::spool::Body;

use crate::common::{BOTH, IdAt, KIB, MIB, Place, answer, bytes, call, place, raw, result, text, until};

/// The server: hands over requests in the order in which they come, on whatever connection.
pub struct Server {
    pub url: String,
    requests: mpsc::Receiver<Exchange>,
    pub again: mpsc::Sender<Exchange>,
}

/// One request, and the connection on which its answer is to be written.
pub struct Exchange {
    pub method: String,
    pub target: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
    pub stream: TcpStream,
    pub connection: usize,
}

impl Server {
    pub async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (again, requests) = mpsc::channel(64);
        let sender = again.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(read_request(stream, connection, sender.clone()));
            }
        });
        Server { url, requests, again }
    }

    pub async fn next(&mut self) -> Exchange {
        let next = tokio::time::timeout(Duration::from_secs(60), self.requests.recv()).await;
        next.expect("no request came").unwrap()
    }

    /// The next request, which must be of this method (of HTTP, or of JSON-RPC).
    pub async fn expect(&mut self, method: &str) -> Exchange {
        let exchange = self.next().await;
        let got = exchange.body["method"].as_str().unwrap_or(&exchange.method);
        assert_eq!(got, method, "{:?} {}", exchange.headers, exchange.body);
        exchange
    }

    pub async fn nothing_for(&mut self, millis: u64) {
        let next = tokio::time::timeout(Duration::from_millis(millis), self.requests.recv()).await;
        assert!(next.is_err(), "a request came: {}", next.unwrap().unwrap().body);
    }
}

pub async fn read_request(mut stream: TcpStream, connection: usize, sender: mpsc::Sender<Exchange>) {
    let mut data = Vec::new();
    let head_len = loop {
        if let Some(at) = data.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut data).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let head = String::from_utf8(data[..head_len].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ').map(str::to_owned);
    let (method, target) = (first.next().unwrap(), first.next().unwrap());
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |value| value.parse().unwrap());
    while data.len() < head_len + length {
        if stream.read_buf(&mut data).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let body = serde_json::from_slice(&data[head_len..]).unwrap_or(Value::Null);
    let _ = sender.send(Exchange { method, target, headers, body, stream, connection }).await;
}

impl Exchange {
    pub fn id(&self) -> String {
        self.body["id"].to_string()
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        // A client that has heard enough closes the connection.
        let _ = self.stream.write_all(bytes).await;
    }

    pub async fn respond(mut self, status: &str, headers: &str, body: &str) {
        let head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        self.write(head.as_bytes()).await;
        self.write(body.as_bytes()).await;
        let _ = self.stream.shutdown().await;
    }

    pub async fn json(self, body: &str) {
        self.respond("200 OK", "Content-Type: application/json\r\n", body).await;
    }

    /// Begins a stream of events that lasts until the connection is closed.
    pub async fn stream(&mut self) {
        self.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n",
        )
        .await;
    }

    pub async fn event(&mut self, data: &str) {
        self.write(format!("data: {data}\n\n").as_bytes()).await;
    }
}

pub const JSON: &str = "Content-Type: application/json\r\n";

pub fn open(place: &Place, server: &Server, max: usize) -> Client {
    Client::http(HttpOptions {
        name: "srv".into(),
        client_version: "1.2.3".into(),
        url: server.url.clone(),
        headers: vec![("X-Extra".into(), "one".into()), ("Accept".into(), "nonsense".into())],
        max_message_bytes: max as u64,
        spools: place.spools.clone(),
        socket: None,
    })
    .unwrap()
}

fn initialize(client: &Client) -> JoinHandle<Result<ServerInfo, CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.initialize(Duration::from_secs(20)).await })
}

fn info(revision: &str) -> String {
    format!(
        "{{\"protocolVersion\":\"{revision}\",\"capabilities\":{{}},\"serverInfo\":{{\"name\":\"s\",\"version\":\"1\"}}}}"
    )
}

/// Plays the opening of a session; the listening stream is refused.
pub async fn begin(server: &mut Server, client: &Client, session: &str) {
    let task = initialize(client);
    serve_opening(server, session).await;
    assert_eq!(task.await.unwrap().unwrap().name, "s");
    server.expect("GET").await.respond("405 Method Not Allowed", "", "").await;
}

async fn serve_opening(server: &mut Server, session: &str) {
    let opening = server.expect("initialize").await;
    assert!(!opening.headers.contains_key("mcp-session-id"));
    assert!(!opening.headers.contains_key("mcp-protocol-version"));
    let header = if session.is_empty() { String::new() } else { format!("Mcp-Session-Id: {session}\r\n") };
    let body = answer(IdAt::Last, &opening.id(), &info("2025-11-25"));
    opening.respond("200 OK", &format!("{JSON}{header}"), &body).await;
    let note = server.expect("notifications/initialized").await;
    assert_eq!(note.headers["mcp-protocol-version"], "2025-11-25");
    note.respond("202 Accepted", "", "").await;
}

pub async fn ready(max: usize) -> (Place, Server, Client) {
    let place = place(1 << 30);
    let mut server = Server::start().await;
    let client = open(&place, &server, max);
    begin(&mut server, &client, "s-1").await;
    (place, server, client)
}

pub fn spawn(client: &Client, options: CallOptions) -> JoinHandle<Result<Body, CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("tool", raw("{\"a\":1}"), options).await })
}

#[tokio::test]
async fn a_session_is_opened_kept_and_deleted() {
    let place = place(1 << 30);
    let mut server = Server::start().await;
    let client = open(&place, &server, MIB);
    begin(&mut server, &client, "s-1").await;
    let task = spawn(&client, call(20));
    let exchange = server.expect("tools/call").await;
    assert_eq!(exchange.headers["mcp-session-id"], "s-1");
    assert_eq!(exchange.headers["mcp-protocol-version"], "2025-11-25");
    assert_eq!(exchange.headers["accept"], "application/json, text/event-stream");
    assert_eq!(exchange.headers["content-type"], "application/json");
    assert_eq!(exchange.headers["x-extra"], "one");
    let body = answer(IdAt::First, &exchange.id(), "{\"ok\":1.0}");
    exchange.json(&body).await;
    assert_eq!(text(&task.await.unwrap().unwrap()), "{\"ok\":1.0}");
    let task = tokio::spawn({
        let client = client.clone();
        async move { client.shutdown().await }
    });
    let exchange = server.expect("DELETE").await;
    assert_eq!(exchange.headers["mcp-session-id"], "s-1");
    exchange.respond("200 OK", "", "").await;
    task.await.unwrap();
    assert!(client.is_closed());
    assert!(matches!(client.call_tool("t", raw(""), call(5)).await, Err(CallError::NotSent(_))));
}

#[tokio::test]
async fn older_revisions_are_spoken_as_agreed() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let place = place(1 << 30);
        let mut server = Server::start().await;
        let client = open(&place, &server, MIB);
        let task = initialize(&client);
        let opening = server.expect("initialize").await;
        let body = answer(IdAt::First, &opening.id(), &info(revision));
        opening.json(&body).await;
        let note = server.expect("notifications/initialized").await;
        assert_eq!(note.headers["mcp-protocol-version"], revision);
        note.respond("202 Accepted", "", "").await;
        assert_eq!(task.await.unwrap().unwrap().protocol, revision);
    }
}

#[tokio::test]
async fn answers_of_every_size_come_whole_in_each_framing() {
    let (place, mut server, client) = ready(64 * MIB).await;
    let sizes = [60, 63 * KIB, 65 * KIB, MIB + 100 * KIB, 2 * MIB + 100 * KIB, 10 * MIB + MIB / 2, 40 * MIB];
    for size in sizes {
        let wanted = result(size);
        for (at, framing) in BOTH.into_iter().flat_map(|at| ["plain", "chunked", "events"].map(|f| (at, f))) {
            if size == 40 * MIB && matches!(at, IdAt::First) && framing != "plain" {
                continue;
            }
            let task = spawn(&client, call(60));
            let mut exchange = server.expect("tools/call").await;
            let body = answer(at, &exchange.id(), &wanted);
            match framing {
                "plain" => exchange.json(&body).await,
                "chunked" => {
                    exchange.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").await;
                    for part in body.as_bytes().chunks(100_003) {
                        exchange.write(format!("{:x}\r\n", part.len()).as_bytes()).await;
                        exchange.write(part).await;
                        exchange.write(b"\r\n").await;
                    }
                    exchange.write(b"0\r\n\r\n").await;
                }
                _ => {
                    exchange.stream().await;
                    exchange.write(b": hello\nretry: 1000\nid: 1\n\n").await;
                    exchange.write(b"event: message\ndata: ").await;
                    exchange.write(body.as_bytes()).await;
                    exchange.write(b"\nid: 2\r\n\r\n").await;
                }
            }
            let body = task.await.unwrap().unwrap_or_else(|error| panic!("{size} {at:?} {framing}: {error}"));
            assert!(bytes(&body) == wanted.as_bytes(), "{size} bytes, id {at:?}, {framing}");
            drop(body);
            until("the spool is given back", || place.spools.used_bytes() == 0).await;
        }
    }
}

#[tokio::test]
async fn odd_event_streams_are_read() {
    let (_place, mut server, client) = ready(MIB).await;
    let framings: &[&str] = &[
        "data: A\n\n",
        "\u{feff}data:A\r\n\r\n",
        "data: A\r\r",
        ": c\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"x\"}\n\ndata: A\n\n",
        "event: ping\ndata: A\n\nevent: message\nid: 7\ndata: A\n\n",
        "data\n\ndata: no json\n\ndata: [1]\n\ndata: A\n\n",
    ];
    for framing in framings {
        for piece in [1, 3, 10_000] {
            let task = spawn(&client, call(20));
            let mut exchange = server.expect("tools/call").await;
            let body = answer(IdAt::Last, &exchange.id(), "{\"x\":\"a b\"}");
            exchange.stream().await;
            for part in framing.replace('A', &body).as_bytes().chunks(piece) {
                exchange.write(part).await;
                if piece < 10 {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(text(&task.await.unwrap().unwrap()), "{\"x\":\"a b\"}", "{framing:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_over_the_bound_fails_its_call_at_once_and_the_next_call_works() {
    let (place, mut server, client) = ready(2 * MIB).await;
    for (at, events) in BOTH.into_iter().flat_map(|at| [(at, false), (at, true)]) {
        let task = spawn(&client, call(60));
        let mut exchange = server.expect("tools/call").await;
        let body = answer(at, &exchange.id(), &result(9 * MIB));
        if events {
            exchange.stream().await;
            exchange.write(b"data: ").await;
            // It does not end: the call must not wait for that.
            exchange.write(&body.as_bytes()[..4 * MIB]).await;
        } else {
            let head = format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: {}\r\n\r\n", body.len());
            exchange.write(head.as_bytes()).await;
            exchange.write(&body.as_bytes()[..4 * MIB]).await;
        }
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::TooLarge { limit } if limit == 2 * MIB as u64), "{error}");
        let task = spawn(&client, call(60));
        let exchange = server.expect("tools/call").await;
        let body = answer(at, &exchange.id(), "1");
        exchange.json(&body).await;
        assert_eq!(text(&task.await.unwrap().unwrap()), "1");
        until("the spool is given back", || place.spools.used_bytes() == 0).await;
    }
}

#[tokio::test]
async fn an_expired_session_is_begun_anew_and_the_call_sent_once_more() {
    for (status, detail) in [
        ("404 Not Found", ""),
        (
            "400 Bad Request",
            "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"Bad Request: No valid session ID provided\"},\"id\":null}",
        ),
    ] {
        let (_place, mut server, client) = ready(MIB).await;
        let mut events = client.events().unwrap();
        let tasks = [spawn(&client, call(20)), spawn(&client, call(20))];
        for _ in 0..2 {
            server.expect("tools/call").await.respond(status, JSON, detail).await;
        }
        serve_opening(&mut server, "s-2").await;
        let mut calls = 0;
        while calls < 2 {
            let exchange = server.next().await;
            if exchange.method == "GET" {
                exchange.respond("405 Method Not Allowed", "", "").await;
                continue;
            }
            assert_eq!(exchange.body["method"], "tools/call", "one initialize serves both");
            assert_eq!(exchange.headers["mcp-session-id"], "s-2");
            calls += 1;
            let body = answer(IdAt::Last, &exchange.id(), "{}");
            exchange.json(&body).await;
        }
        for task in tasks {
            assert!(task.await.unwrap().is_ok());
        }
        assert_eq!(events.recv().await, Some(Event::ToolsChanged));
        assert_eq!(client.calls_in_flight(), 0);
    }
}

#[tokio::test]
async fn a_call_is_sent_at_most_twice() {
    let (_place, mut server, client) = ready(MIB).await;
    let task = spawn(&client, call(20));
    server.expect("tools/call").await.respond("404 Not Found", "", "").await;
    serve_opening(&mut server, "s-2").await;
    let mut calls = 0;
    while calls == 0 {
        let exchange = server.next().await;
        calls += usize::from(exchange.method == "POST");
        exchange.respond("404 Not Found", "", "gone again").await;
    }
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Http { status: 404, detail } if detail == "gone again"), "{error}");
}

#[tokio::test]
async fn a_session_that_cannot_be_begun_anew_says_so() {
    let (_place, mut server, client) = ready(MIB).await;
    let task = spawn(&client, call(20));
    server.expect("tools/call").await.respond("404 Not Found", "", "").await;
    server.expect("initialize").await.respond("503 Service Unavailable", "", "later").await;
    let error = task.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, CallError::NotSent(why) if why.contains("503") && why.contains("later")),
        "{error}"
    );
    assert_eq!(client.calls_in_flight(), 0);
}

#[tokio::test]
async fn refusals_tell_status_and_text() {
    let (_place, mut server, client) = ready(MIB).await;
    let long = "no\n\u{1b}[31m é ".repeat(2_000);
    let cases = [
        ("401 Unauthorized", "", "who are you", 401, "who are you"),
        ("403 Forbidden", "", "", 403, ""),
        (
            "500 Internal Server Error",
            JSON,
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"it broke\"}}",
            500,
            "it broke",
        ),
        ("502 Bad Gateway", "", long.as_str(), 502, "no  [31m é"),
        (
            "307 Temporary Redirect",
            "Location: http://127.0.0.1:1/other\r\n",
            "",
            307,
            "redirects are not followed",
        ),
        ("202 Accepted", "", "", 202, "no answer"),
    ];
    for (line, headers, body, wanted, says) in cases {
        let task = spawn(&client, call(20));
        server.expect("tools/call").await.respond(line, headers, body).await;
        let error = task.await.unwrap().unwrap_err();
        let CallError::Http { status, detail } = error else { panic!("{line}: {error}") };
        assert_eq!(status, wanted);
        assert!(
            detail.contains(says) && detail.len() <= 4200 && !detail.contains(char::is_control),
            "{detail}"
        );
    }
    let task = spawn(&client, call(20));
    server.expect("tools/call").await.respond("200 OK", "Content-Type: text/html\r\n", "<html>").await;
    assert!(matches!(task.await.unwrap(), Err(CallError::Garbled(_))));
    let task = spawn(&client, call(20));
    let exchange = server.expect("tools/call").await;
    let body = answer(IdAt::Last, &exchange.id(), "{\"v\":NaN}");
    exchange.json(&body).await;
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Garbled(why) if why.contains("at byte 15")), "{error}");
}

#[tokio::test]
async fn a_broken_json_answer_is_no_answer() {
    let (_place, mut server, client) = ready(64 * MIB).await;
    for size in [1000, 3 * MIB] {
        let task = spawn(&client, call(20));
        let mut exchange = server.expect("tools/call").await;
        let body = answer(IdAt::First, &exchange.id(), &result(size));
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: {}\r\n\r\n", body.len());
        exchange.write(head.as_bytes()).await;
        exchange.write(&body.as_bytes()[..body.len() - 1]).await;
        drop(exchange);
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Gone(_)), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_resumed_from_its_last_event() {
    let (_place, mut server, client) = ready(MIB).await;
    let task = spawn(&client, call(60));
    let mut exchange = server.expect("tools/call").await;
    let id = exchange.id();
    exchange.stream().await;
    exchange.write(b"id: e-1\nretry: 20\ndata:\n\nid: e-2\ndata: {\"half\":").await;
    drop(exchange);
    // A stream that brings something new may break again.
    for step in 0..5 {
        let mut exchange = server.expect("GET").await;
        assert_eq!(exchange.headers["last-event-id"], format!("e-{}", step + 1));
        assert_eq!(exchange.headers["mcp-session-id"], "s-1");
        exchange.stream().await;
        exchange.write(format!("id: e-{}\ndata:\n\n", step + 2).as_bytes()).await;
    }
    let mut exchange = server.expect("GET").await;
    exchange.stream().await;
    exchange.event(&answer(IdAt::Last, &id, "{\"resumed\":true}")).await;
    assert_eq!(text(&task.await.unwrap().unwrap()), "{\"resumed\":true}");
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_fails_the_call() {
    let (_place, mut server, client) = ready(MIB).await;
    // No event had an id.
    let task = spawn(&client, call(60));
    let mut exchange = server.expect("tools/call").await;
    exchange.stream().await;
    exchange.event("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}").await;
    drop(exchange);
    assert!(matches!(task.await.unwrap(), Err(CallError::Gone(_))));
    // The server does not resume.
    let task = spawn(&client, call(60));
    let mut exchange = server.expect("tools/call").await;
    exchange.stream().await;
    exchange.write(b"id: 1\nretry: 10\ndata:\n\n").await;
    drop(exchange);
    server.expect("GET").await.respond("405 Method Not Allowed", "", "").await;
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Gone(why) if why.contains("resumed")), "{error}");
    // It resumes, and never brings anything.
    let task = spawn(&client, call(60));
    let mut exchange = server.expect("tools/call").await;
    exchange.stream().await;
    exchange.write(b"id: 1\nretry: 10\ndata:\n\n").await;
    drop(exchange);
    for _ in 0..3 {
        server.expect("GET").await.stream().await;
    }
    assert!(matches!(task.await.unwrap(), Err(CallError::Gone(_))));
    server.nothing_for(200).await;
}

#[tokio::test]
async fn cancelling_posts_a_notification_with_our_id() {
    let (_place, mut server, client) = ready(MIB).await;
    for answers in [false, true] {
        let options = call(60);
        let cancel = options.cancel.clone();
        let task = spawn(&client, options);
        let mut exchange = server.expect("tools/call").await;
        exchange.stream().await;
        let before = Instant::now();
        cancel.cancel();
        let note = server.expect("notifications/cancelled").await;
        assert!(before.elapsed() < Duration::from_secs(1));
        assert_eq!(note.body["params"]["requestId"].to_string(), exchange.id());
        note.respond("202 Accepted", "", "").await;
        if answers {
            exchange.event(&answer(IdAt::First, &exchange.id(), "{}")).await;
        }
        let end = task.await.unwrap();
        assert!(matches!(end, Err(CallError::Cancelled { answered }) if answered == answers), "{end:?}");
        assert_eq!(client.calls_in_flight(), 0);
    }
}

#[tokio::test]
async fn a_slow_call_times_out_and_progress_on_its_stream_counts() {
    let (_place, mut server, client) = ready(MIB).await;
    let (sender, mut progress) = mpsc::channel(4);
    let mut options = call(1);
    options.progress = Some(sender);
    let task = spawn(&client, options);
    let mut exchange = server.expect("tools/call").await;
    exchange.stream().await;
    for step in 0..3 {
        tokio::time::sleep(Duration::from_millis(600)).await;
        let id = exchange.id();
        let note = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{id},\"progress\":{step}}}}}"
        );
        exchange.event(&note).await;
        assert!(progress.recv().await.is_some());
    }
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Timeout { total: false, .. }), "{error}");
    server.expect("notifications/cancelled").await.respond("202 Accepted", "", "").await;
    // The exchange is given up.
    let mut byte = [0; 1];
    let closed = tokio::time::timeout(Duration::from_secs(5), exchange.stream.read(&mut byte)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))));
}

#[tokio::test]
async fn the_listening_stream_brings_events_and_is_opened_again() {
    let place = place(1 << 30);
    let mut server = Server::start().await;
    let client = open(&place, &server, MIB);
    let mut events = client.events().unwrap();
    let task = initialize(&client);
    serve_opening(&mut server, "s-1").await;
    task.await.unwrap().unwrap();
    let mut listening = server.expect("GET").await;
    assert_eq!(listening.headers["accept"], "text/event-stream");
    assert_eq!(listening.headers["mcp-session-id"], "s-1");
    listening.stream().await;
    listening.write(b"id: 41\n").await;
    listening.event("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}").await;
    assert_eq!(events.recv().await, Some(Event::ToolsChanged));
    listening.event("{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":\"p\"}").await;
    let pong = server.next().await;
    assert_eq!(pong.body, serde_json::json!({"jsonrpc":"2.0","id":"p","result":{}}));
    pong.respond("202 Accepted", "", "").await;
    drop(listening);
    let mut again = server.expect("GET").await;
    assert_eq!(again.headers["last-event-id"], "41");
    again.stream().await;
    again.event("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}").await;
    assert_eq!(events.recv().await, Some(Event::ToolsChanged));
    client.shutdown().await;
    let mut byte = [0; 1];
    let closed = tokio::time::timeout(Duration::from_secs(5), again.stream.read(&mut byte)).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "shutdown ends the listening stream");
}

#[tokio::test]
async fn a_server_that_is_not_there_has_not_run_the_call() {
    let place = place(1 << 30);
    let server = Server::start().await;
    let mut client = open(&place, &server, MIB);
    drop(server);
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    client = Client::http(HttpOptions {
        name: "srv".into(),
        client_version: String::new(),
        url: format!("http://{unused}/mcp?key=hidden"),
        headers: Vec::new(),
        max_message_bytes: 1000,
        spools: place.spools.clone(),
        socket: None,
    })
    .map_or(client, |client| client);
    let error = client.initialize(Duration::from_secs(10)).await.unwrap_err();
    assert!(matches!(error, CallError::NotSent(_)), "{error}");
    assert!(!error.to_string().contains("hidden"), "a URL may hold secrets: {error}");
}

#[tokio::test]
async fn options_that_cannot_work_are_refused() {
    let place = place(1 << 30);
    let cases = [
        ("ftp://x/", vec![]),
        ("no url", vec![]),
        ("http://h/", vec![("bad name", "x")]),
        ("http://h/", vec![("x", "line\nbreak")]),
    ];
    for (url, headers) in cases {
        let made = Client::http(HttpOptions {
            name: "srv".into(),
            client_version: String::new(),
            url: url.into(),
            headers: headers.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            max_message_bytes: 1000,
            spools: place.spools.clone(),
            socket: None,
        });
        let error = made.unwrap_err();
        assert!(!error.to_string().contains("line"), "values of headers may be secrets: {error}");
    }
}
