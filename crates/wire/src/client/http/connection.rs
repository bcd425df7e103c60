//! Connections to one host: each serves one exchange at a time, within the task of the call, and is kept for the next.

use std::error::Error;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{StatusCode, Uri, response};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt as _;
use url::Url;

use super::super::BadHttpOptions;
use crate::relay::Relay;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How many unused ones.
const MOST_IDLE: usize = 64;

/// Pieces that are read of a body that is of no use.
const MOST_PIECES: usize = 4;

pub(super) type Request = http::Request<Full<Bytes>>;

/// The ways to one host.
pub(super) struct Connections {
    dial: Dial,
    idle: Arc<Idle>,
}

enum Dial {
    Plain(HttpConnector, Uri),
    Tls(Box<HttpsConnector<HttpConnector>>, Uri),
    Socket(PathBuf),
}

/// Why an exchange came to nothing.
#[derive(Debug)]
pub(super) enum Broken {
    /// No connection could be made: nothing was sent.
    NoConnection(String),
    /// The request was sent, or part of it.
    Sent(String),
}

impl Connections {
    pub(super) fn new(url: &Url, socket: Option<&Path>) -> Result<Connections, BadHttpOptions> {
        let tls = url.scheme() == "https";
        let place = || {
            let place = format!("{}://{}/", url.scheme(), authority(url));
            place.parse::<Uri>().map_err(|error| BadHttpOptions(format!("the URL cannot be used: {error}")))
        };
        let dial = match socket {
            Some(_) if tls => {
                return Err(BadHttpOptions("the URL of a socket begins with http://".to_owned()));
            }
            Some(socket) => Dial::Socket(socket.to_owned()),
            None if tls => Dial::Tls(Box::new(secured()?), place()?),
            None => Dial::Plain(connector(), place()?),
        };
        Ok(Connections { dial, idle: Arc::default() })
    }

    /// Sends a request and waits for the head of its answer, over a connection that is kept or over a new one.
    pub(super) async fn exchange(&self, mut request: Request) -> Result<Response, Broken> {
        while let Some(connection) = self.idle.take() {
            match connection.exchange(request, &self.idle).await {
                // The server had closed it; nothing of the request was sent.
                Err((_, Some(unsent))) => request = unsent,
                Err((error, None)) => return Err(Broken::Sent(chain(&error))),
                Ok(response) => return Ok(response),
            }
        }
        let connection = timeout(CONNECT_TIMEOUT, self.connect())
            .await
            .unwrap_or_else(|_| Err(format!("timed out after {} s", CONNECT_TIMEOUT.as_secs())))
            .map_err(Broken::NoConnection)?;
        connection.exchange(request, &self.idle).await.map_err(|(error, unsent)| match unsent {
            Some(_) => Broken::NoConnection(chain(&error)),
            None => Broken::Sent(chain(&error)),
        })
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream: Stream = match &self.dial {
            Dial::Plain(connector, place) => {
                Box::new(connector.clone().oneshot(place.clone()).await.map_err(|error| chain(&error))?)
            }
            Dial::Tls(connector, place) => {
                let dialled = (**connector).clone().oneshot(place.clone()).await;
                Box::new(dialled.map_err(|error| chain(error.as_ref()))?)
            }
            Dial::Socket(path) => {
                Box::new(TokioIo::new(UnixStream::connect(path).await.map_err(|error| chain(&error))?))
            }
        };
        let (sender, driver) = http1::handshake(stream).await.map_err(|error| chain(&error))?;
        Ok(Connection { sender, driver: Some(Box::pin(driver)), relay: Relay::new() })
    }
}

/// What goes over a connection, in the clear or not.
trait Duplex: hyper::rt::Read + hyper::rt::Write + Send + Unpin {}

impl<T: hyper::rt::Read + hyper::rt::Write + Send + Unpin> Duplex for T {}

type Stream = Box<dyn Duplex>;

/// Moves the bytes of one connection. `None` when it is over.
type Driver = Option<Pin<Box<http1::Connection<Stream, Full<Bytes>>>>>;

/// Nothing but the exchange that uses it polls it: no other task has to be woken for a call.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
    relay: Relay,
}

impl Connection {
    /// The error comes with the request if nothing of it was sent.
    async fn exchange(
        mut self,
        request: Request,
        idle: &Arc<Idle>,
    ) -> Result<Response, (hyper::Error, Option<Request>)> {
        let mut answered = std::pin::pin!(self.sender.try_send_request(request));
        let (driver, relay) = (&mut self.driver, &self.relay);
        let answered = poll_fn(|cx| {
            relay.poll(cx, |cx| {
                drive(driver, cx);
                answered.as_mut().poll(cx)
            })
        });
        match answered.await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                Ok(Response { head, body, connection: Some(self), idle: Arc::clone(idle) })
            }
            Err(mut error) => {
                let unsent = error.take_message();
                Err((error.into_error(), unsent))
            }
        }
    }
}

/// Moves bytes both ways. Its error reaches the one who waits for the answer.
fn drive(driver: &mut Driver, cx: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
}

/// An answer, with the connection that its body comes over. Dropped before its end, it closes the connection.
pub(super) struct Response {
    head: response::Parts,
    body: Incoming,
    connection: Option<Connection>,
    idle: Arc<Idle>,
}

impl Response {
    pub(super) fn status(&self) -> StatusCode {
        self.head.status
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The next bytes of the body, `None` at its end; then the connection is free for another exchange.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let frame = poll_fn(|cx| self.poll_frame(cx)).await;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(chain(&error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Lets go of an answer whose body is of no use. If all of it is there already, the connection can be used again; it is
    /// not waited for.
    pub(super) async fn release(mut self) {
        poll_fn(|cx| {
            for _ in 0..MOST_PIECES {
                if !matches!(self.poll_frame(cx), Poll::Ready(Some(Ok(_)))) {
                    break;
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        let (body, driver) = (&mut self.body, &mut connection.driver);
        let polled = connection.relay.poll(cx, |cx| {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
                if frame.is_none() {
                    drive(driver, cx);
                }
                return Poll::Ready(frame);
            }
            drive(driver, cx);
            Pin::new(&mut *body).poll_frame(cx)
        });
        if matches!(polled, Poll::Ready(None))
            && let Some(connection) = self.connection.take()
        {
            self.idle.keep(connection);
        }
        polled
    }
}

/// Connections that wait for their next exchange.
#[derive(Default)]
struct Idle(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// The one that was used last is the last.
    connections: Vec<(Instant, Connection)>,
    /// Somebody closes those that are not used for long.
    swept: bool,
}

impl Idle {
    fn take(&self) -> Option<Connection> {
        let (since, connection) = self.waiting().connections.pop()?;
        (since.elapsed() < IDLE_TIMEOUT).then_some(connection)
    }

    fn keep(self: &Arc<Self>, connection: Connection) {
        if connection.driver.is_none() || !connection.sender.is_ready() {
            return;
        }
        let mut waiting = self.waiting();
        if waiting.connections.len() == MOST_IDLE {
            waiting.connections.remove(0);
        }
        waiting.connections.push((Instant::now(), connection));
        if !std::mem::replace(&mut waiting.swept, true) {
            tokio::spawn(Idle::sweep(Arc::downgrade(self)));
        }
    }

    /// Closes what was not used for long, until nothing is left.
    async fn sweep(idle: Weak<Idle>) {
        loop {
            sleep(IDLE_TIMEOUT).await;
            let Some(idle) = idle.upgrade() else { return };
            let mut waiting = idle.waiting();
            waiting.connections.retain(|(since, _)| since.elapsed() < IDLE_TIMEOUT);
            if waiting.connections.is_empty() {
                waiting.swept = false;
                return;
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host as the `Host` header has it.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The credentials of a URL such as `https://name:word@host/`, as a header.
pub(super) fn credentials(url: &Url) -> Option<HeaderValue> {
    use base64::Engine as _;
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let both = [decoded(url.username()), b":".to_vec(), decoded(url.password().unwrap_or_default())].concat();
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(both));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// An error with its causes. No URL is in it: that may hold secrets.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEP_ALIVE));
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector
}

fn secured() -> Result<HttpsConnector<HttpConnector>, BadHttpOptions> {
    let bad = |error: &dyn Error| BadHttpOptions(format!("no TLS client can be made: {}", chain(error)));
    let builder = HttpsConnectorBuilder::new().try_with_platform_verifier().map_err(|error| bad(&error))?;
    Ok(builder.https_only().enable_http1().wrap_connector(connector()))
}
