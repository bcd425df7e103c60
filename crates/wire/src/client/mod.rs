//! The client side: one connection to an MCP server, over pipes or streamable HTTP, answers of any size.

mod call;
mod calls;
mod core;
mod error;
mod http;
mod intake;
mod notice;
mod session;
mod sse;
mod stdio;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::core::Core;
pub use self::error::{BadHttpOptions, CallError};
pub use self::sse::{Parser as EventParser, Piece as EventPiece};
use crate::spool::{Body, Spools};

/// The revisions of MCP that are spoken here, newest first. The first one is offered.
pub const PROTOCOL_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// A connection to one MCP server. Clones share it; it ends when the last of them is dropped.
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
    _life: Arc<Life>,
}

/// How a connection over pipes behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's name, for log lines.
    pub name: String,
    /// What is said of ourselves in `initialize`.
    pub client_version: String,
    /// The largest message that is accepted, in bytes.
    pub max_message_bytes: u64,
    /// Where answers are kept.
    pub spools: Arc<Spools>,
}

/// How a connection over streamable HTTP behaves.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The server's name, for log lines.
    pub name: String,
    /// What is said of ourselves in `initialize`.
    pub client_version: String,
    /// The endpoint, `http://` or `https://`.
    pub url: String,
    /// Headers that go with every request, name and value.
    pub headers: Vec<(String, String)>,
    /// The largest message that is accepted, in bytes.
    pub max_message_bytes: u64,
    /// Where answers are kept.
    pub spools: Arc<Spools>,
    /// The Unix socket that is connected to in place of the host of `url`.
    pub socket: Option<PathBuf>,
}

/// Bounds of one call, and what goes with it.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// How long nothing may be heard: counted from dispatch, begun anew by each progress notification.
    pub timeout: Duration,
    /// How long the call may take in all.
    pub total: Duration,
    /// Ends the call and tells the server so.
    pub cancel: CancellationToken,
    /// Takes the raw `params` of progress notifications (at most 64 KiB each); when it is full they are dropped.
    pub progress: Option<mpsc::Sender<Bytes>>,
}

/// What the server said of itself in `initialize`.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// `serverInfo.name`, empty when it was not given.
    pub name: String,
    /// `serverInfo.version`, empty when it was not given.
    pub version: String,
    /// The revision of MCP that was agreed on, one of [`PROTOCOL_VERSIONS`].
    pub protocol: String,
    /// How the server wants to be used.
    pub instructions: Option<String>,
    /// `capabilities`, as it was sent.
    pub capabilities: Box<RawValue>,
}

/// Something that the server told without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The list of tools may have changed (also after a session had to be begun anew).
    ToolsChanged,
    /// A log line.
    Log(LogLine),
    /// Something that is no message was passed over.
    Noise {
        /// How it begins, at most 200 characters.
        head: String,
        /// How often that has happened on this connection.
        count: u64,
    },
}

/// A `notifications/message`, cut to what a log can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The level, as it was sent.
    pub level: String,
    /// Which part of the server speaks.
    pub logger: Option<String>,
    /// The text, or the JSON of what was sent, at most 4 KiB.
    pub data: String,
}

impl Client {
    /// A connection over the pipes of a child process. Must be called within a tokio runtime.
    pub fn stdio(
        stdout: impl AsyncRead + Send + Unpin + 'static,
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        options: Options,
    ) -> Client {
        let (core, queue) = Core::piped(options);
        let core = Arc::new(core);
        stdio::run(&core, stdout, stdin, queue);
        Client::of(core)
    }

    /// A connection to a streamable HTTP endpoint. Nothing is sent yet. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The URL or a header is not usable, or the system has no usable TLS.
    pub fn http(options: HttpOptions) -> Result<Client, BadHttpOptions> {
        Ok(Client::of(Arc::new(Core::over_http(options)?)))
    }

    /// Opens the session: offers the newest revision of [`PROTOCOL_VERSIONS`], accepts each of them.
    ///
    /// # Errors
    /// As for [`request`](Self::request); [`CallError::Garbled`] when the answer is no answer to `initialize`, or
    /// names a revision that is not spoken here.
    pub async fn initialize(&self, timeout: Duration) -> Result<ServerInfo, CallError> {
        session::initialize(&self.core, timeout).await
    }

    /// Sends a request and waits for its answer: exactly the bytes of its `result`.
    ///
    /// `params` is a raw JSON object, or empty for none. When the future is dropped, the server is told that the
    /// call is cancelled.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn request(
        &self,
        method: &str,
        params: Bytes,
        options: CallOptions,
    ) -> Result<Body, CallError> {
        call::request(&self.core, method, &params, &options).await
    }

    /// Calls a tool with `arguments` (a raw JSON object, or empty for none), asking for progress notifications.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Bytes,
        options: CallOptions,
    ) -> Result<Body, CallError> {
        call::call_tool(&self.core, name, &arguments, &options).await
    }

    /// The raw entries of `tools/list`, all pages: at most 1,000 pages, 100,000 tools and 64 MiB, within `timeout`.
    ///
    /// # Errors
    /// As for [`request`](Self::request); [`CallError::Garbled`] when a page has no array of tools.
    pub async fn list_tools(&self, timeout: Duration) -> Result<Vec<Box<RawValue>>, CallError> {
        session::list_tools(&self.core, timeout).await
    }

    /// Asks whether the server is alive.
    ///
    /// # Errors
    /// As for [`request`](Self::request). A server that answers with an error is alive.
    pub async fn ping(&self, timeout: Duration) -> Result<(), CallError> {
        session::ping(&self.core, timeout).await
    }

    /// Sends a notification. `params` is a raw JSON object, or empty for none. Waits at most 10 seconds.
    ///
    /// # Errors
    /// It could not be sent.
    pub async fn notify(&self, method: &str, params: Bytes) -> Result<(), CallError> {
        let frame = call::frame(None, method, &params);
        self.core.send(frame).await
    }

    /// What the server tells without being asked. There is one receiver; later calls give `None`. Log lines that
    /// nobody takes are dropped, a [`Event::ToolsChanged`] is not.
    #[must_use]
    pub fn events(&self) -> Option<mpsc::Receiver<Event>> {
        self.core.take_events()
    }

    /// Waits until the connection is over and says why. Over HTTP only [`shutdown`](Self::shutdown) ends it.
    pub async fn closed(&self) -> String {
        self.core.closed().await
    }

    /// Whether the connection is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    /// Calls that wait for their answer.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.core.in_flight()
    }

    /// Lines or messages that were no JSON-RPC and were passed over.
    #[must_use]
    pub fn noise_count(&self) -> u64 {
        self.core.noise_count()
    }

    /// Ends the connection: calls in flight fail, the child's stdin is closed, an HTTP session is deleted. Takes at
    /// most about 3 seconds.
    pub async fn shutdown(&self) {
        self.core.shutdown().await;
    }

    fn of(core: Arc<Core>) -> Client {
        let life = Arc::new(Life { core: Arc::clone(&core) });
        Client { core, _life: life }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.core.name())
    }
}

/// Ends the connection's tasks when nobody holds the client any more; the tasks themselves hold only the core.
struct Life {
    core: Arc<Core>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.core.close("the client was dropped");
    }
}
