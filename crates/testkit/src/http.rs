//! The scripted upstream over streamable HTTP, in the test's own process, on loopback.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::script::{Asked, Script, Sink, respond};

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/json` with chunked transfer.
    Json,
    /// `text/event-stream`.
    Events,
}

/// A running HTTP upstream. It stops with the test.
pub struct HttpUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Mutex<Script>,
    form: Form,
    session: Mutex<String>,
    sessions: bool,
    calls: AtomicUsize,
    requests: AtomicUsize,
    bodies: Mutex<Vec<String>>,
    ids: Mutex<Vec<String>>,
    cancelled: Mutex<Vec<String>>,
    headers: Mutex<Vec<String>>,
    down: AtomicBool,
}

impl HttpUpstream {
    /// Listens on a free port.
    pub fn start(script: Script, form: Form) -> Self {
        Self::with(script, form, false)
    }

    /// The same with sessions: a request without the current session id is answered with 404.
    pub fn with_sessions(script: Script, form: Form) -> Self {
        Self::with(script, form, true)
    }

    fn with(script: Script, form: Form, sessions: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            form,
            session: Mutex::new("session-1".into()),
            sessions,
            calls: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            bodies: Mutex::new(Vec::new()),
            ids: Mutex::new(Vec::new()),
            cancelled: Mutex::new(Vec::new()),
            headers: Mutex::new(Vec::new()),
            down: AtomicBool::new(false),
        });
        let for_thread = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = for_thread.clone();
                std::thread::spawn(move || serve(&shared, stream));
            }
        });
        Self { address, shared }
    }

    /// The address for the configuration.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Tool calls seen so far.
    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// Parameters of the tool calls seen so far, raw.
    pub fn call_params(&self) -> Vec<String> {
        self.shared.bodies.lock().unwrap().clone()
    }

    /// Ids of the tool calls seen so far, raw.
    pub fn ids(&self) -> Vec<String> {
        self.shared.ids.lock().unwrap().clone()
    }

    /// Parameters of the cancellations seen so far, raw.
    pub fn cancelled(&self) -> Vec<String> {
        self.shared.cancelled.lock().unwrap().clone()
    }

    /// All request heads seen so far.
    pub fn heads(&self) -> Vec<String> {
        self.shared.headers.lock().unwrap().clone()
    }

    /// Changes the script.
    pub fn set(&self, script: Script) {
        *self.shared.script.lock().unwrap() = script;
    }

    /// Forgets all sessions, as a restart would.
    pub fn forget_sessions(&self) {
        let mut session = self.shared.session.lock().unwrap();
        let next = format!("session-{}", self.shared.requests.fetch_add(1, Ordering::SeqCst) + 2);
        *session = next;
    }

    /// Answers every request with 503, or no longer.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::SeqCst);
    }
}

fn serve(shared: &Shared, stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Ok(Some((head, body))) = read_request(&mut reader) {
        if exchange(shared, &head, &body, &mut writer).is_err() {
            return;
        }
    }
}

/// Head and body of the next request; `None` at the end of the connection.
pub(crate) fn read_request(reader: &mut impl BufRead) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
        if head[before..].trim_end().is_empty() {
            break;
        }
    }
    let header = |name: &str| {
        head.lines().find_map(|l| {
            let (n, v) = l.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| v.trim().to_owned())
        })
    };
    let mut body = Vec::new();
    if let Some(length) = header("content-length") {
        body.resize(length.parse().map_err(io::Error::other)?, 0);
        reader.read_exact(&mut body)?;
    } else if header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    Ok(Some((head, body)))
}

fn exchange(shared: &Shared, head: &str, body: &[u8], writer: &mut TcpStream) -> io::Result<()> {
    shared.headers.lock().unwrap().push(head.to_owned());
    let plain = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    if shared.down.load(Ordering::SeqCst) {
        return writer.write_all(plain("503 Service Unavailable").as_bytes());
    }
    if !head.starts_with("POST ") {
        return writer.write_all(plain("405 Method Not Allowed").as_bytes());
    }
    let text = String::from_utf8_lossy(body).into_owned();
    let Some(asked) = Asked::read(&text) else {
        return writer.write_all(plain("202 Accepted").as_bytes());
    };
    let session = shared.session.lock().unwrap().clone();
    let known = head.to_ascii_lowercase().contains(&format!("mcp-session-id: {session}"));
    if shared.sessions && asked.method != "initialize" && !known {
        return writer.write_all(plain("404 Not Found").as_bytes());
    }
    match asked.method.as_str() {
        "tools/call" => {
            shared.ids.lock().unwrap().push(asked.id.clone().unwrap_or_default());
            shared.calls.fetch_add(1, Ordering::SeqCst);
            shared.bodies.lock().unwrap().push(asked.params.clone());
        }
        "notifications/cancelled" => shared.cancelled.lock().unwrap().push(asked.params.clone()),
        _ => {}
    }
    if asked.id.is_none() {
        return writer.write_all(plain("202 Accepted").as_bytes());
    }
    let session = (shared.sessions && asked.method == "initialize").then_some(session);
    answer(shared, &asked, session, writer)
}

fn answer(shared: &Shared, asked: &Asked, session: Option<String>, writer: &mut TcpStream) -> io::Result<()> {
    let script = shared.script.lock().unwrap().clone();
    let kind = if shared.form == Form::Events { "text/event-stream" } else { "application/json" };
    let session = session.map_or(String::new(), |s| format!("mcp-session-id: {s}\r\n"));
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{session}transfer-encoding: chunked\r\n\r\n");
    writer.write_all(head.as_bytes())?;
    let mut sink =
        Body { writer, form: shared.form, inside: false, messages: 0, dead: false, buffer: Vec::new() };
    respond(&script, asked, &mut sink)?;
    if sink.dead {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    if sink.messages == 0 {
        // No answer ever: the connection stays open until the other side gives up.
        let mut byte = [0];
        let _ = sink.writer.read(&mut byte);
        return Err(io::ErrorKind::TimedOut.into());
    }
    sink.flush_chunk()?;
    writer.write_all(b"0\r\n\r\n")
}

struct Body<'a> {
    writer: &'a mut TcpStream,
    form: Form,
    inside: bool,
    messages: usize,
    dead: bool,
    buffer: Vec<u8>,
}

impl Body<'_> {
    fn flush_chunk(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.writer.write_all(format!("{:x}\r\n", self.buffer.len()).as_bytes())?;
            self.writer.write_all(&self.buffer)?;
            self.writer.write_all(b"\r\n")?;
            self.buffer.clear();
        }
        self.writer.flush()
    }
}

impl Sink for Body<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.form == Form::Events && !self.inside {
            self.buffer.extend_from_slice(b"event: message\ndata: ");
        }
        self.inside = true;
        for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
            if i > 0 {
                self.buffer.extend_from_slice(if self.form == Form::Events { b"\ndata: " } else { b"\n" });
            }
            self.buffer.extend_from_slice(line);
        }
        if self.buffer.len() > 1 << 16 { self.flush_chunk() } else { Ok(()) }
    }

    fn end(&mut self) -> io::Result<()> {
        if self.form == Form::Events {
            self.buffer.extend_from_slice(b"\n\n");
        }
        self.inside = false;
        self.messages += 1;
        self.flush_chunk()
    }

    fn die(&mut self, _code: i32) {
        let _ = self.flush_chunk();
        self.dead = true;
    }
}
