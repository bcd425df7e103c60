//! The streamable HTTP transport: its methods, its sessions, and the two forms of an answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::body::{self, BoxBody, Broken, Gone, Out, Outlet};
use super::call::{Core, Finished, NotBegun, Origin, Running};
use super::entry::{Forms, Refusal, check_content_type, check_version};
use super::intake::{self, Hold};
use super::message::{self, Call, Message};
use super::news::Follower;
use super::session::Session;
use super::{Limits, Payload, Reply, Service, answer};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Results up to this size leave in one piece, without a task of their own.
const WHOLE_BYTES: usize = 64 << 10;

/// Answers one request at an MCP endpoint.
pub(super) async fn answer<S, B>(
    core: &Arc<Core<S>>,
    request: http::Request<B>,
    caller: S::Caller,
) -> Response<BoxBody>
where
    S: Service,
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let (head, body) = request.into_parts();
    let answered = match head.method {
        Method::POST => post(core, &head.headers, body, caller).await,
        Method::GET => listen(core, &head.headers, &caller),
        Method::DELETE => end_session(core, &head.headers, &caller),
        _ => Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "send messages with POST, listen for news with GET, end a session with DELETE",
        )),
    };
    answered.unwrap_or_else(|refusal| refuse(&refusal))
}

async fn post<S, B>(
    core: &Arc<Core<S>>,
    headers: &HeaderMap,
    body: B,
    caller: S::Caller,
) -> Result<Response<BoxBody>, Refusal>
where
    S: Service,
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let forms = Forms::accepted(headers)?;
    check_content_type(headers)?;
    let (bytes, hold) = intake::collect(body, &core.limits, &core.budget)
        .await
        .map_err(|why| Refusal::not_taken(why, core.limits.max_request_bytes))?;
    let message = message::parse(&bytes)?;
    if let Message::Request(call) = &message
        && call.method == "initialize"
    {
        return open_session(core, call, caller, forms);
    }
    check_version(headers)?;
    let session = find_session(core, headers, &caller)?;
    match message {
        Message::Request(call) if call.method == "ping" => {
            Ok(whole(answer::result(&call.id.raw, b"{}"), forms))
        }
        Message::Request(call) => {
            let takes_progress = forms != Forms::Json;
            run(core, call, Origin { caller, session, takes_progress }, hold, forms).await
        }
        Message::Notification { method, params } => {
            Core::<S>::notice(session.as_deref(), &method, &params);
            Ok(empty(StatusCode::ACCEPTED))
        }
        Message::Response => Ok(empty(StatusCode::ACCEPTED)),
    }
}

fn open_session<S: Service>(
    core: &Core<S>,
    call: &Call,
    caller: S::Caller,
    forms: Forms,
) -> Result<Response<BoxBody>, Refusal> {
    let (result, client) = core.initialize(&call.params);
    let now = Instant::now();
    let session = Session::new(caller, client, now).filter(|session| core.sessions.add(session, now));
    let id = session.and_then(|session| HeaderValue::from_str(&session.id).ok());
    let Some(id) = id else { return Err(Refusal::busy("no session is free", Some(call.id.raw.clone()))) };
    let mut response = whole(answer::result(&call.id.raw, result.as_bytes()), forms);
    response.headers_mut().insert(SESSION, id);
    Ok(response)
}

/// Opens the stream on which a client hears news.
fn listen<S: Service>(
    core: &Arc<Core<S>>,
    headers: &HeaderMap,
    caller: &S::Caller,
) -> Result<Response<BoxBody>, Refusal> {
    if Forms::accepted(headers)? == Forms::Json {
        return Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "news come as an event stream: accept text/event-stream",
        ));
    }
    check_version(headers)?;
    let session = find_session(core, headers, caller)?;
    let Some(session) = session else {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "name the session in the header Mcp-Session-Id"));
    };
    let place = Arc::clone(&core.listeners).try_acquire_owned();
    let place = place.map_err(|_| Refusal::busy("too many clients listen", None))?;
    let (outlet, body) = BoxBody::pieces(None, core.limits.stall);
    let (follower, keep_alive) = (core.news.follow(), core.limits.keep_alive);
    tokio::spawn(async move {
        tell_news(outlet, follower, &session, keep_alive).await;
        drop(place);
    });
    Ok(as_event_stream(body))
}

/// Writes news and signs of life until the client is gone or there will be no more news.
async fn tell_news<C>(
    mut outlet: Outlet,
    mut follower: Follower,
    session: &Session<C>,
    keep_alive: Duration,
) {
    // The first sign shows the client at once that the stream is open.
    let mut alive = interval_at(Instant::now(), keep_alive);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            biased;
            () = outlet.gone() => return,
            news = follower.next() => match news {
                Some(news) => answer::event(&news),
                None => break,
            },
            _ = alive.tick() => Bytes::from_static(b": keep-alive\n\n"),
        };
        if outlet.put(event).await.is_err() {
            return;
        }
        session.touch();
    }
    outlet.end().await;
}

fn end_session<S: Service>(
    core: &Core<S>,
    headers: &HeaderMap,
    caller: &S::Caller,
) -> Result<Response<BoxBody>, Refusal> {
    let Some(id) = headers.get(SESSION) else {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "name the session to end in the header Mcp-Session-Id",
        ));
    };
    let ended = id.to_str().is_ok_and(|id| core.sessions.end(id, caller, Instant::now()));
    if ended { Ok(empty(StatusCode::NO_CONTENT)) } else { Err(Refusal::no_session()) }
}

/// The session that the request names. One that names none is served by itself: nothing that we do needs a
/// session but a cancellation.
fn find_session<S: Service>(
    core: &Core<S>,
    headers: &HeaderMap,
    caller: &S::Caller,
) -> Result<Option<Arc<Session<S::Caller>>>, Refusal> {
    let Some(id) = headers.get(SESSION) else { return Ok(None) };
    let session = id.to_str().ok().and_then(|id| core.sessions.find(id, caller, Instant::now()));
    session.map(Some).ok_or_else(Refusal::no_session)
}

/// Runs a request. A quick answer is JSON; one that takes longer, or has progress to tell, becomes an event stream
/// if the client takes one.
async fn run<S: Service>(
    core: &Core<S>,
    call: Call,
    origin: Origin<S::Caller>,
    hold: Hold,
    forms: Forms,
) -> Result<Response<BoxBody>, Refusal> {
    let id = call.id.raw.clone();
    let mut running = core.begin(call, origin, hold).map_err(|why| match why {
        NotBegun::Busy => Refusal::busy("too many requests are in flight", Some(id.clone())),
        NotBegun::SameId => Refusal::invalid("a request with this id is in flight", Some(id.clone())),
    })?;
    let limits = &core.limits;
    let quick = match forms {
        Forms::Json => Some(running.ending.finished().await),
        Forms::Events | Forms::Both => tokio::select! {
            biased;
            () = running.updates.ready() => None,
            finished = running.ending.finished() => Some(finished),
            () = core.alarm.sleep(limits.stream_after) => None,
        },
    };
    match quick {
        Some(finished) if forms != Forms::Events && !running.updates.waiting() => {
            Ok(as_json(id, finished, limits))
        }
        quick => Ok(as_events(id, running, quick, limits.clone())),
    }
}

fn as_json(id: String, finished: Finished, limits: &Limits) -> Response<BoxBody> {
    let payload = match finished.reply {
        Reply::Error { code, message, data } => {
            return whole(answer::error(Some(&id), code, &message, data.as_deref()), Forms::Json);
        }
        Reply::Result(Payload::Bytes(raw)) if raw.len() <= WHOLE_BYTES => {
            return whole(answer::result(&id, &raw), Forms::Json);
        }
        Reply::Result(payload) => payload,
    };
    let head = answer::result_head(&id);
    let around = u64::try_from(head.len() + answer::RESULT_TAIL.len()).unwrap_or(u64::MAX);
    let len = match &payload {
        Payload::Bytes(raw) => u64::try_from(raw.len()).ok(),
        Payload::Stream { len, .. } => *len,
    };
    let (mut outlet, body) = BoxBody::pieces(len.map(|len| len.saturating_add(around)), limits.stall);
    tokio::spawn(async move {
        match write_result(&mut outlet, head, payload, false).await {
            Ok(()) => outlet.end().await,
            Err(broken) => note_broken(&id, broken),
        }
        drop(finished.slot);
    });
    with_body(StatusCode::OK, "application/json", body)
}

fn as_events(id: String, running: Running, quick: Option<Finished>, limits: Limits) -> Response<BoxBody> {
    let (outlet, body) = BoxBody::pieces(None, limits.stall);
    tokio::spawn(async move {
        if let Err(broken) = write_events(outlet, &id, running, quick, &limits).await {
            note_broken(&id, broken);
        }
    });
    as_event_stream(body)
}

/// Writes a whole event stream: progress and signs of life, then the answer. When the client is gone the request
/// runs on by itself.
async fn write_events(
    mut outlet: Outlet,
    id: &str,
    mut running: Running,
    quick: Option<Finished>,
    limits: &Limits,
) -> Result<(), Broken> {
    let finished = match quick {
        Some(finished) => finished,
        None => write_progress(&mut outlet, &mut running, limits).await?,
    };
    while let Some(progress) = running.updates.take() {
        outlet.put(answer::event(&progress)).await?;
    }
    match finished.reply {
        // A request that was taken back gets no answer, only an end.
        _ if running.cancel.is_cancelled() => {}
        Reply::Error { code, message, data } => {
            let text = answer::on_one_line(answer::error(Some(id), code, &message, data.as_deref()));
            outlet.put(answer::event(&text)).await?;
        }
        Reply::Result(payload) => {
            let head = [answer::EVENT_HEAD, &answer::result_head(id)].concat();
            write_result(&mut outlet, head, payload, true).await?;
            outlet.put(Bytes::from_static(answer::EVENT_TAIL.as_bytes())).await?;
        }
    }
    outlet.end().await;
    Ok(())
}

async fn write_progress(
    outlet: &mut Outlet,
    running: &mut Running,
    limits: &Limits,
) -> Result<Finished, Gone> {
    let mut alive = interval_at(Instant::now() + limits.keep_alive, limits.keep_alive);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            biased;
            () = outlet.gone() => return Err(Gone),
            progress = running.updates.next() => answer::event(&progress),
            finished = running.ending.finished() => return Ok(finished),
            _ = alive.tick() => Bytes::from_static(b": keep-alive\n\n"),
        };
        outlet.put(event).await?;
    }
}

async fn write_result(
    outlet: &mut Outlet,
    head: String,
    payload: Payload,
    one_line: bool,
) -> Result<(), Broken> {
    outlet.put(head.into()).await?;
    body::copy(payload, one_line, outlet).await?;
    Ok(outlet.put(Bytes::from_static(answer::RESULT_TAIL.as_bytes())).await?)
}

fn note_broken(id: &str, broken: Broken) {
    match broken {
        Broken::Gone => tracing::debug!(id, "the client is gone, or takes no more of the answer"),
        Broken::Source(error) => tracing::warn!(%error, id, "the result broke off: the connection is cut"),
    }
}

/// The response to a request that was not let in.
fn refuse(refusal: &Refusal) -> Response<BoxBody> {
    let text = answer::error(refusal.id.as_deref(), refusal.code, &refusal.message, None);
    let mut response = with_body(refusal.status, "application/json", BoxBody::whole(text));
    let headers = response.headers_mut();
    match refusal.status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"))
        }
        StatusCode::SERVICE_UNAVAILABLE => headers.insert(RETRY_AFTER, HeaderValue::from_static("1")),
        _ => None,
    };
    response
}

/// A response that is in memory, in a form that the client takes.
fn whole(text: Bytes, forms: Forms) -> Response<BoxBody> {
    match forms {
        Forms::Json | Forms::Both => with_body(StatusCode::OK, "application/json", BoxBody::whole(text)),
        Forms::Events => as_event_stream(BoxBody::whole(answer::event(&answer::on_one_line(text)))),
    }
}

fn as_event_stream(body: BoxBody) -> Response<BoxBody> {
    let mut response = with_body(StatusCode::OK, "text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Asks a proxy in between not to hold events back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn with_body(status: StatusCode, content_type: &'static str, body: BoxBody) -> Response<BoxBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn empty(status: StatusCode) -> Response<BoxBody> {
    let mut response = Response::new(BoxBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}
