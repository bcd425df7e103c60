//! The side that agents talk to: MCP of the `initialize` era, over streamable HTTP and stdio.
//!
//! A [`Server`] does everything that is the same for every MCP server (framing, ids, versions, sessions,
//! cancellation, the form of an answer, bounds) and leaves the meaning of a request to a [`Service`].
//! Parameters reach the service as the bytes that the agent sent, results reach the agent as the bytes that the
//! service gave. Who may connect (`Host`, `Origin`, tokens) is decided before a request comes here: the outcome
//! of that decision is the `caller`.

mod answer;
mod body;
mod call;
mod entry;
mod intake;
mod lines;
mod message;
mod news;
mod progress;
mod session;
mod stdio;
mod streamable;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use body::BoxBody;
pub use lines::{Line, Lines};
pub use progress::ProgressSink;

/// The protocol revisions that a [`Server`] speaks, newest first.
pub const PROTOCOL_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What answers the requests of agents.
pub trait Service: Send + Sync + 'static {
    /// Who calls, as the listener found out. Sessions belong to the value that opened them.
    type Caller: Clone + Eq + Send + Sync + 'static;

    /// What `initialize` says about this server; asked anew for each one.
    fn info(&self) -> ServerInfo;

    /// Answers one request: every method but `initialize` and `ping`, so unknown ones too, which are answered
    /// with [`METHOD_NOT_FOUND`]. It runs in a task of its own to its end: a lost connection does not stop it,
    /// only [`Request::cancel`] tells it that the agent took the request back.
    fn handle(self: &Arc<Self>, request: Request<Self::Caller>) -> impl Future<Output = Reply> + Send;
}

/// JSON-RPC: the message is not JSON.
pub const PARSE_ERROR: i64 = -32_700;
/// JSON-RPC: the message is JSON, but not a request.
pub const INVALID_REQUEST: i64 = -32_600;
/// JSON-RPC: no such method.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// JSON-RPC: the parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32_602;
/// JSON-RPC: a fault of ours.
pub const INTERNAL_ERROR: i64 = -32_603;
/// MCP: refused for a reason of the transport (a session, a version, too much at once).
pub const REFUSED: i64 = -32_000;

/// What `initialize` tells about a server.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// `serverInfo.name`.
    pub name: String,
    /// `serverInfo.version`.
    pub version: String,
    /// How a model should use the server.
    pub instructions: Option<String>,
    /// The capabilities object.
    pub capabilities: serde_json::Value,
}

/// What a client said about itself in `initialize`: display only, never a reason for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// `clientInfo.name`, at most 200 characters.
    pub name: String,
    /// `clientInfo.version`, at most 200 characters.
    pub version: String,
}

/// One request of an agent.
pub struct Request<C> {
    /// The method.
    pub method: String,
    /// The parameters: a JSON object exactly as sent, or no byte when the agent sent none (or `null`).
    pub params: Bytes,
    /// Who calls.
    pub caller: C,
    /// The id of the session, when the request belongs to one. Over stdio there is always one.
    pub session: Option<String>,
    /// Who the client says that it is, when the request belongs to a session.
    pub client: Option<ClientInfo>,
    /// The request id exactly as it was spelled (`1`, `1.0`, `"a"` with its quotes).
    pub id_text: String,
    /// Where progress goes, when the agent asked for it and the transport can carry it.
    pub progress: Option<ProgressSink>,
    /// Fires when the agent cancels this request.
    pub cancel: CancellationToken,
}

/// How a request ends.
pub enum Reply {
    /// A result.
    Result(Payload),
    /// A JSON-RPC error.
    Error {
        /// The JSON-RPC code.
        code: i64,
        /// One line for the reader.
        message: String,
        /// More, as raw JSON.
        data: Option<String>,
    },
}

/// A raw JSON value on its way out.
pub enum Payload {
    /// In memory.
    Bytes(Bytes),
    /// Read in pieces, on threads that may block, only as fast as the agent takes them. A reader that fails, or
    /// that gives another number of bytes than `len`, breaks the answer visibly: the HTTP connection is cut, on
    /// stdio an error follows.
    Stream {
        /// The number of bytes that the reader will give, if known.
        len: Option<u64>,
        /// Where they come from.
        reader: Box<dyn Read + Send>,
    },
}

/// The bounds of a [`Server`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest message of an agent in bytes: more is HTTP 413, on stdio an error with the id `null`.
    pub max_request_bytes: usize,
    /// The bytes of all messages that are being read or worked on; what would go beyond is refused as busy.
    /// Messages of up to 64 KiB do not count, so that a cancellation always gets through.
    pub max_buffered_bytes: usize,
    /// The requests being worked on or answered at one time; more are refused as busy.
    pub max_in_flight: usize,
    /// The HTTP sessions kept; the one idle for longest gives way to a new one.
    pub max_sessions: usize,
    /// How long a session without a request is kept.
    pub session_idle: Duration,
    /// How long an answer is waited for before it becomes an event stream (for clients that take one).
    pub stream_after: Duration,
    /// The pause between two signs of life on an event stream.
    pub keep_alive: Duration,
    /// How long the body of an HTTP request may take to come in.
    pub receive_within: Duration,
    /// How long a client may take no byte of an HTTP answer before it is given up and the connection cut.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_request_bytes: 32 << 20,
            max_buffered_bytes: 256 << 20,
            max_in_flight: 1024,
            max_sessions: 1000,
            session_idle: Duration::from_secs(3600),
            stream_after: Duration::from_secs(1),
            keep_alive: Duration::from_secs(15),
            receive_within: Duration::from_secs(120),
            stall: Duration::from_secs(300),
        }
    }
}

/// An MCP server around a [`Service`]. Clones share sessions and bounds.
pub struct Server<S: Service> {
    core: Arc<call::Core<S>>,
}

impl<S: Service> Clone for Server<S> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core) }
    }
}

impl<S: Service> Server<S> {
    /// A server without sessions yet.
    pub fn new(service: Arc<S>, limits: Limits) -> Self {
        Self { core: Arc::new(call::Core::new(service, limits)) }
    }

    /// Answers one HTTP request of `caller` at an MCP endpoint, whatever its path. Every fault is a response.
    /// When the returned future, or the body of the response, is dropped, the request runs on to its end.
    pub async fn http<B>(&self, request: http::Request<B>, caller: S::Caller) -> http::Response<BoxBody>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        streamable::answer(&self.core, request, caller).await
    }

    /// Serves one client over a pair of pipes, one message a line. Returns when the input has ended and the
    /// requests in flight are answered, or at once when `shutdown` fires; a client that stopped reading is no error.
    pub async fn stdio<R, W>(&self, input: R, output: W, caller: S::Caller, shutdown: CancellationToken)
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        stdio::serve(&self.core, input, output, caller, shutdown).await;
    }

    /// Tells every client that listens (over stdio each one) that the list of tools is another one now.
    pub fn tools_changed(&self) {
        self.core.news.tools_changed();
    }

    /// Ends the streams on which clients listen for news, so that they do not hold up an orderly end.
    pub fn end_news(&self) {
        self.core.news.end();
    }

    /// For an orderly end: refuses new requests as busy from now on, and waits until those in flight have been
    /// answered. A client that takes its answer slowly holds this up; the caller sets the limit. Once.
    pub async fn drain(&self) {
        self.core.drain().await;
    }
}
