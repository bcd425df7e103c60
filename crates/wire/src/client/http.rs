//! A connection over streamable HTTP: each call is an exchange of its own, answered as JSON or as a stream of events.

mod connection;
mod refusal;
mod stream;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use url::{Position, Url};

use self::connection::{Connections, Response, authority, credentials};
use self::refusal::Refusal;
pub(super) use self::stream::listen;
use super::call::Outgoing;
use super::core::Core;
use super::intake::Intake;
use super::{BadHttpOptions, CallError, Event, session};

/// How long a session may take to be begun anew.
const RENEW_TIMEOUT: Duration = Duration::from_secs(30);
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Answers to requests of the server that may be on their way.
const REPLIES: usize = 8;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// The way to an endpoint.
pub(super) struct HttpLink {
    connections: Connections,
    /// Path and query.
    target: Uri,
    /// What goes with every request.
    headers: HeaderMap,
    session: Mutex<Session>,
    renewing: tokio::sync::Mutex<()>,
    replies: Arc<Semaphore>,
    listening: Mutex<CancellationToken>,
}

/// What the server wants to see on every request after `initialize`.
#[derive(Clone, Default)]
struct Session {
    id: Option<HeaderValue>,
    protocol: Option<HeaderValue>,
    /// Counts how often a session was begun.
    turn: u64,
}

impl HttpLink {
    pub(super) fn new(
        url: &str,
        headers: &[(String, String)],
        socket: Option<&Path>,
    ) -> Result<HttpLink, BadHttpOptions> {
        let url =
            Url::parse(url).map_err(|error| BadHttpOptions(format!("the URL cannot be read: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(BadHttpOptions(
                "the URL must begin with http:// or https:// and name a host".to_owned(),
            ));
        }
        let bad = |error: http::uri::InvalidUri| BadHttpOptions(format!("the URL cannot be used: {error}"));
        let target = url[Position::BeforePath..Position::AfterQuery].parse().map_err(bad)?;
        let connections = Connections::new(&url, socket)?;
        Ok(HttpLink {
            connections,
            target,
            headers: header_map(&url, headers)?,
            session: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            replies: Arc::new(Semaphore::new(REPLIES)),
            listening: Mutex::default(),
        })
    }

    /// The revision that was agreed on goes with every later request.
    pub(super) fn agree(&self, protocol: &str) {
        self.session_mut().protocol = HeaderValue::from_str(protocol).ok();
    }

    /// Sends a notification; the server has to take it.
    pub(super) async fn notify(&self, frame: Bytes) -> Result<(), CallError> {
        self.post(frame, &self.session()).await?.release().await;
        Ok(())
    }

    /// Sends an answer to a request of the server. False if too many are on their way.
    pub(super) fn reply(&self, core: &Arc<Core>, frame: Bytes) -> bool {
        let Ok(place) = Arc::clone(&self.replies).try_acquire_owned() else { return false };
        let core = Arc::clone(core);
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = core.send(frame).await {
                tracing::debug!(server = core.name(), %error, "an answer to a request of the server was not taken");
            }
        });
        true
    }

    /// Tells the server that the session is over.
    pub(super) async fn end_session(&self) {
        let session = self.session();
        if session.id.is_none() {
            return;
        }
        let headers = self.headers(&session);
        match tokio::time::timeout(END_TIMEOUT, self.send(Method::DELETE, headers, Bytes::new())).await {
            Ok(Ok(_)) => tracing::debug!("the session was deleted"),
            Ok(Err(refusal)) => {
                tracing::debug!(error = %CallError::from(refusal), "the session was not deleted");
            }
            Err(_) => tracing::debug!("the session was not deleted in time"),
        }
    }

    fn session(&self) -> Session {
        self.session_mut().clone()
    }

    fn session_mut(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn headers(&self, session: &Session) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        for (name, value) in [(SESSION, &session.id), (PROTOCOL, &session.protocol)] {
            match value {
                Some(value) => drop(headers.insert(name, value.clone())),
                None => drop(headers.remove(name)),
            }
        }
        headers
    }

    /// Posts one message. Anything but a 2xx status is a [`Refusal`].
    async fn post(&self, frame: Bytes, session: &Session) -> Result<Response, Refusal> {
        let mut headers = self.headers(session);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // The line break at its end is for pipes.
        let body = frame.slice(..frame.len().saturating_sub(1));
        self.send(Method::POST, headers, body).await
    }

    /// Sends a request. Anything but a 2xx status is a [`Refusal`].
    async fn send(&self, method: Method, headers: HeaderMap, body: Bytes) -> Result<Response, Refusal> {
        let mut request = http::Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = headers;
        Refusal::check(self.connections.exchange(request).await?).await
    }

    /// Posts `initialize` and keeps the session that it begins.
    async fn post_opening(&self, frame: Bytes) -> Result<Response, Refusal> {
        let response = self.post(frame, &Session::default()).await?;
        let mut session = self.session_mut();
        let turn = session.turn + 1;
        *session = Session { id: response.headers().get(SESSION).cloned(), protocol: None, turn };
        Ok(response)
    }

    /// Begins a new session in place of the one of `turn`, unless somebody else has just done so.
    async fn renew(&self, core: &Arc<Core>, turn: u64) -> Result<(), CallError> {
        let _alone = self.renewing.lock().await;
        if self.session().turn != turn {
            return Ok(());
        }
        tracing::info!(
            server = core.name(),
            "the server does not know the session any more; a new one is begun"
        );
        let begun = tokio::time::timeout(RENEW_TIMEOUT, self.reopen(core)).await;
        let failed = match begun {
            Ok(Ok(())) => {
                core.tell(Event::ToolsChanged);
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer to initialize within {} s", RENEW_TIMEOUT.as_secs()),
        };
        Err(CallError::NotSent(format!("the session had expired and no new one could be begun: {failed}")))
    }

    async fn reopen(&self, core: &Arc<Core>) -> Result<(), CallError> {
        let Outgoing { id, frame, .. } = session::opening(core);
        let (_waiting, answer) = core.open(id, None)?;
        let response = self.post_opening(frame).await?;
        receive(core, response, id).await?;
        let body = answer.await.map_err(|_| CallError::Gone("it was dropped".to_owned()))??;
        session::confirm(core, &session::server_info(&body)?.protocol).await;
        Ok(())
    }
}

/// Posts a call and delivers what comes back, until the call is answered.
pub(super) async fn exchange(core: Arc<Core>, outgoing: Outgoing) {
    let id = outgoing.id;
    let over = core.over().clone();
    let ended = tokio::select! {
        () = over.cancelled() => return,
        ended = run(&core, outgoing) => ended,
    };
    if let Err(error) = ended
        && core.is_open(id)
    {
        core.complete(id, Err(error));
    }
}

async fn run(core: &Arc<Core>, outgoing: Outgoing) -> Result<(), CallError> {
    let Some(link) = core.http() else { return Ok(()) };
    let Outgoing { id, frame, opening } = outgoing;
    if opening {
        return receive(core, link.post_opening(frame).await?, id).await;
    }
    // A session that is being begun anew is of use only when that is done.
    drop(link.renewing.lock().await);
    let session = link.session();
    let response = match link.post(frame.clone(), &session).await {
        // The server has not looked at the call, so that it can be sent once more.
        Err(refusal) if session.id.is_some() && refusal.is_unknown_session() => {
            link.renew(core, session.turn).await?;
            link.post(frame, &link.session()).await?
        }
        other => other?,
    };
    receive(core, response, id).await
}

/// Delivers what answers the call `id`.
async fn receive(core: &Arc<Core>, response: Response, id: u64) -> Result<(), CallError> {
    if is_event_stream(&response) {
        return stream::receive(core, response, id).await;
    }
    let status = response.status().as_u16();
    if matches!(status, 202 | 204) {
        let detail = "it was accepted, but there is no answer".to_owned();
        return Err(CallError::Http { status, detail });
    }
    receive_json(core, response, id).await
}

async fn receive_json(core: &Arc<Core>, mut response: Response, id: u64) -> Result<(), CallError> {
    let mut intake = Intake::new(core, Some(id));
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| CallError::Gone(format!("it broke within the answer: {error}")))?
    {
        intake.push(&chunk).await;
        if !core.is_open(id) {
            return Ok(());
        }
    }
    intake.finish().await;
    if core.is_open(id) {
        let found = "what came back over HTTP is no JSON-RPC answer to this call";
        return Err(CallError::Garbled(found.to_owned()));
    }
    Ok(())
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn header_map(url: &Url, headers: &[(String, String)]) -> Result<HeaderMap, BadHttpOptions> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = |part: &str| BadHttpOptions(format!("the {part} of the header {name:?} cannot be sent"));
        let key = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| bad("name"))?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad("value"))?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    if !map.contains_key(HOST) {
        let host = HeaderValue::from_str(&authority(url))
            .map_err(|_| BadHttpOptions("the host cannot be sent".to_owned()))?;
        map.insert(HOST, host);
    }
    if !map.contains_key(AUTHORIZATION)
        && let Some(value) = credentials(url)
    {
        map.insert(AUTHORIZATION, value);
    }
    Ok(map)
}
