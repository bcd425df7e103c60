//! The road to the mcpproxy that serves: over its Unix socket, or within this process once that is us.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use gateway::PrincipalKind;
use gateway::mcp::Server;
use gateway::records::Source;
use gateway::remote::{EventParser, EventPiece};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::super::mcp::{Agent, Surface};
use super::message;
use crate::daemon::runfile::RunFile;
use crate::daemon::socket;

/// The longest answer to `initialize`, and of a route beside MCP, in bytes.
const SMALL_ANSWER: usize = 8 << 20;
/// How long a session that ends may take to be told so.
const FAREWELL: Duration = Duration::from_secs(2);
const CLIENT: &str = concat!("bridge/", env!("CARGO_PKG_VERSION"));
const PING: &[u8] = br#"{"jsonrpc":"2.0","id":"bridge","method":"ping"}"#;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
const CLIENT_NAME: HeaderName = HeaderName::from_static("x-mcpproxy-client");

/// Who serves.
pub(super) enum Way {
    /// Another process.
    Socket {
        /// What it says of itself.
        run: RunFile,
        /// Where it listens.
        socket: PathBuf,
    },
    /// This one.
    Own(Server<Surface>),
}

/// A session with whoever serves.
#[derive(Clone)]
pub(super) struct Link {
    pub way: Arc<Way>,
    session: Option<HeaderValue>,
    protocol: Option<HeaderValue>,
    /// Counts the links of this process.
    pub turn: u64,
}

/// Why a message got no response.
pub(super) enum Lost {
    /// It was not sent: nobody is there.
    Unsent(String),
    /// It may have been read.
    Sent(String),
}

impl Link {
    /// A link without a session.
    pub fn bare(way: Arc<Way>, turn: u64) -> Self {
        Self { way, session: None, protocol: None, turn }
    }

    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Who serves, for a person.
    pub fn holder(&self) -> String {
        match &*self.way {
            Way::Socket { run, .. } => format!("the mcpproxy with pid {}", run.pid),
            Way::Own(_) => "this mcpproxy".to_owned(),
        }
    }

    /// Sends one message, byte for byte, and waits for the head of the response.
    pub async fn send(&self, method: Method, message: Bytes) -> Result<Response<Body>, Lost> {
        let accepted =
            if method == Method::GET { "text/event-stream" } else { "application/json, text/event-stream" };
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = method;
        *request.uri_mut() = http::Uri::from_static("/mcp");
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        for (name, value) in [(SESSION, &self.session), (PROTOCOL, &self.protocol)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        self.way.send(request).await
    }

    /// Opens a session with the client's own `initialize`. Gives the link to use from now on, and the answer.
    pub async fn greet(&self, initialize: &Bytes) -> Result<(Self, Bytes), Lost> {
        let bare = Self::bare(Arc::clone(&self.way), self.turn + 1);
        let response = bare.send(Method::POST, initialize.clone()).await?;
        let session = response.headers().get(SESSION).cloned();
        let answer = one_message(response).await.map_err(Lost::Sent)?;
        let protocol = message::agreed_version(&answer).and_then(|v| HeaderValue::from_str(&v).ok());
        Ok((Self { session, protocol, ..bare }, answer))
    }

    /// Ends the session, if there is one and somebody to tell.
    pub async fn farewell(&self) {
        if self.has_session() {
            let _ = tokio::time::timeout(FAREWELL, self.send(Method::DELETE, Bytes::new())).await;
        }
    }

    /// Whether it speaks MCP; else the status that came back.
    pub async fn speaks_mcp(&self) -> Result<Result<(), StatusCode>, Lost> {
        let status = self.send(Method::POST, Bytes::from_static(PING)).await?.status();
        Ok(if status.is_success() { Ok(()) } else { Err(status) })
    }

    /// What it says of itself on `/api/v1/status`, as far as it says it.
    pub async fn status(&self) -> Value {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = http::Uri::from_static("/api/v1/status");
        let Ok(response) = self.way.send(request).await else { return Value::Null };
        let Ok(body) = whole(response).await else { return Value::Null };
        serde_json::from_slice::<Value>(&body).map_or(Value::Null, |mut answer| answer["data"].take())
    }
}

impl Way {
    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Body>, Lost> {
        let socket = match self {
            Self::Own(server) => {
                let agent = Agent::new(PrincipalKind::Stdio, Source::Mcp);
                return Ok(server.http(request, agent).await.map(Body::new));
            }
            Self::Socket { socket, .. } => socket,
        };
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        request.headers_mut().insert(CLIENT_NAME, HeaderValue::from_static(CLIENT));
        // A connection for each message: one that was kept could have been closed by the other side meanwhile, and then
        // nobody knows whether the message was read.
        let stream = socket::connect(socket).await.map_err(|e| Lost::Unsent(e.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| Lost::Unsent(e.to_string()))?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(|error| {
            let why = error.to_string();
            if error.is_canceled() { Lost::Unsent(why) } else { Lost::Sent(why) }
        })?;
        Ok(response.map(Body::new))
    }
}

/// Whether a response is a stream of events.
pub(super) fn has_events(response: &Response<Body>) -> bool {
    has_type(response, "text/event-stream")
}

/// Whether a response is JSON.
pub(super) fn has_json(response: &Response<Body>) -> bool {
    has_type(response, "application/json")
}

fn has_type(response: &Response<Body>, name: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(name)
}

/// A short body.
pub(super) async fn whole(response: Response<Body>) -> Result<Bytes, String> {
    let body = Limited::new(response.into_body(), SMALL_ANSWER).collect().await;
    Ok(body.map_err(|e| e.to_string())?.to_bytes())
}

/// The one short message of a response.
async fn one_message(response: Response<Body>) -> Result<Bytes, String> {
    let is_stream = has_events(&response);
    let body = whole(response).await?;
    if !is_stream {
        return Ok(body);
    }
    let (mut parser, mut rest, mut text) = (EventParser::default(), &body[..], Vec::new());
    while let Some(piece) = parser.next(&mut rest) {
        match piece {
            EventPiece::Data(bytes) => text.extend_from_slice(bytes),
            EventPiece::End { message: true } if !text.trim_ascii().is_empty() => return Ok(text.into()),
            EventPiece::End { .. } => text.clear(),
        }
    }
    Err("the stream ended before the answer".to_owned())
}
