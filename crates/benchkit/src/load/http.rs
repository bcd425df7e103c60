//! Streamable HTTP: a keep-alive connection for each worker, all in one session. Answers may be JSON or an event stream.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::sse::Events;
use super::waiting::id_of;
use super::{REVISION, Reply};

/// Largest reply that is waited for, in bytes.
const LARGEST: usize = 1 << 30;

/// Where requests go to.
#[derive(Clone)]
pub struct Address {
    socket: SocketAddr,
    host: String,
    path: String,
}

impl Address {
    /// Refuses what is not plain HTTP on loopback.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest =
            url.strip_prefix("http://").ok_or_else(|| format!("{url}: only http:// is spoken here"))?;
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let numeric = host.replacen("localhost", "127.0.0.1", 1);
        let socket: SocketAddr =
            numeric.parse().map_err(|_| format!("{url}: wanted an address and a port"))?;
        if !socket.ip().is_loopback() {
            return Err(format!("{url}: this client speaks to loopback only"));
        }
        Ok(Self { socket, host: host.to_owned(), path: path.to_owned() })
    }

    /// The same server, another path.
    pub fn with_path(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }
}

/// One connection, made when it is needed.
pub struct Front {
    address: Address,
    session: Option<String>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Front {
    /// Connects with the first request.
    pub fn new(url: &str) -> Result<Self, String> {
        Ok(Self::at(Address::parse(url)?))
    }

    /// Connects with the first request.
    pub fn at(address: Address) -> Self {
        Self { address, session: None, sender: None }
    }

    /// The same session on a connection of its own.
    pub fn again(&self) -> Self {
        Self { session: self.session.clone(), ..Self::at(self.address.clone()) }
    }

    /// What was under way on the connection is lost.
    pub fn hang_up(&mut self) {
        self.sender = None;
    }

    /// The reply with this id.
    pub async fn call(&mut self, id: u64, request: Bytes) -> Result<Reply, String> {
        let (start, response) =
            self.send(Method::POST, request, "application/json, text/event-stream").await?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        if let Some(session) = text_of(response.headers(), "mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let stream =
            text_of(response.headers(), "content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        let reply = if stream { event(id, response, start).await } else { whole(response, start).await };
        if reply.is_err() {
            self.hang_up();
        }
        reply
    }

    /// A message that has no reply.
    pub async fn notify(&mut self, message: Bytes) -> Result<(), String> {
        let (_, response) = self.send(Method::POST, message, "application/json, text/event-stream").await?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        response.into_body().collect().await.map(drop).map_err(|e| e.to_string())
    }

    /// A stream of events that stays open.
    pub async fn listen(&mut self) -> Result<Response<Incoming>, String> {
        let (_, response) = self.send(Method::GET, Bytes::new(), "text/event-stream").await?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }

    /// As a client does that leaves; whether the server listens is its own affair.
    pub async fn end_session(&mut self) {
        if self.session.is_some() {
            let end = self.send(Method::DELETE, Bytes::new(), "application/json");
            let _ = tokio::time::timeout(Duration::from_secs(5), end).await;
        }
    }

    /// The moment before the request is written, and the response's head.
    async fn send(
        &mut self,
        method: Method,
        body: Bytes,
        accept: &str,
    ) -> Result<(Instant, Response<Incoming>), String> {
        let mut request = Request::builder()
            .method(method)
            .uri(&self.address.path)
            .header("host", &self.address.host)
            .header("content-type", "application/json")
            .header("accept", accept);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", REVISION);
        }
        let request = request.body(Full::new(body)).map_err(|e| e.to_string())?;
        let sender = self.connected().await?;
        let start = Instant::now();
        let response = sender.send_request(request).await.map_err(|e| format!("request: {e}"))?;
        Ok((start, response))
    }

    async fn connected(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, String> {
        let alive = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !alive {
            let stream =
                TcpStream::connect(self.address.socket).await.map_err(|e| format!("connect: {e}"))?;
            let _ = stream.set_nodelay(true);
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|e| format!("connect: {e}"))?;
            drop(tokio::spawn(connection));
            self.sender = Some(sender);
        }
        self.sender.as_mut().ok_or_else(|| "not connected".to_owned())
    }
}

async fn whole(response: Response<Incoming>, start: Instant) -> Result<Reply, String> {
    let announced = text_of(response.headers(), "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut message = Vec::with_capacity(usize::min(announced, LARGEST));
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| format!("the answer broke off after {} bytes: {e}", message.len()))?;
        if let Ok(data) = frame.into_data() {
            message.extend_from_slice(&data);
        }
        if message.len() > LARGEST {
            return Err(format!("an answer of more than {LARGEST} bytes"));
        }
    }
    Ok(Reply { message, took: start.elapsed() })
}

/// The event that is the reply. The stream is read to its end, so that the connection can be used again, but the clock stops
/// with the event.
async fn event(id: u64, response: Response<Incoming>, start: Instant) -> Result<Reply, String> {
    let mut body = response.into_body();
    let mut events = Events::default();
    let mut reply = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|e| format!("the stream broke off: {e}"))?.into_data() else { continue };
        events.push(&data)?;
        while let Some(event) = events.next_event() {
            let took = start.elapsed();
            if reply.is_none() && id_of(&event.data) == Some(id) {
                reply = Some(Reply { message: event.data, took });
            }
        }
    }
    reply.ok_or_else(|| "the stream ended without the reply".to_owned())
}

async fn refusal(response: Response<Incoming>) -> String {
    let status = response.status();
    let body = response.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    format!("HTTP {status}: {}", String::from_utf8_lossy(body.get(..200).unwrap_or(&body)))
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn only_loopback_is_spoken_to() {
        let refused =
            ["http://192.0.2.1:80/mcp", "https://127.0.0.1:1/", "http://[::]:80/", "http://127.0.0.1/"];
        for url in refused {
            assert!(Address::parse(url).is_err(), "{url}");
        }
        let taken = Address::parse("http://localhost:8080/mcp").unwrap();
        assert_eq!((&*taken.host, &*taken.path), ("localhost:8080", "/mcp"));
    }
}
