//! Streams of events: the answer to a call, resumed when it breaks, and what the server says on its own account.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;
use tokio::time::{Instant, sleep, timeout_at};

use super::super::CallError;
use super::super::core::Core;
use super::super::intake::Intake;
use super::super::sse::{Parser, Piece};
use super::connection::Response;
use super::refusal::Refusal;
use super::{HttpLink, LAST_EVENT, is_event_stream};

/// How often in a row a stream is resumed that brings no new event.
const RESUMES: u32 = 3;
/// The pause before it, unless the server wants another.
const RESUME_PAUSE: Duration = Duration::from_millis(300);
const RESUME_PAUSE_MIN: Duration = Duration::from_millis(50);
/// How long the end of a stream is waited for after the answer has come, so that the connection can be used again.
const AFTER_ANSWER: Duration = Duration::from_secs(2);
/// Pauses before the server is listened to again.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);
const LISTEN_PAUSE_MAX: Duration = Duration::from_secs(60);
/// On the listening stream, a message of so many times the bound ends the connection.
const PATIENCE: u64 = 4;

/// Brings the messages of an event stream, and of those that go on with it, to the core.
struct EventStream {
    core: Arc<Core>,
    call: Option<u64>,
    parser: Parser,
    intake: Intake,
    messages: u64,
}

impl EventStream {
    fn new(core: &Arc<Core>, call: Option<u64>) -> EventStream {
        let intake = Intake::new(core, call);
        EventStream { core: Arc::clone(core), call, parser: Parser::default(), intake, messages: 0 }
    }

    /// What has come so far: it grows while the stream is of use.
    fn progress(&self) -> u64 {
        self.parser.ids() + self.messages
    }

    /// Reads to the end of the stream, or until its call needs no more. Says why it ended.
    async fn pump(&mut self, mut response: Response) -> String {
        self.parser.restart();
        self.intake.reset();
        let mut end: Option<Instant> = None;
        loop {
            let next = response.chunk();
            let chunk = match end {
                None => next.await,
                Some(end) => match timeout_at(end, next).await {
                    Ok(chunk) => chunk,
                    Err(_) => return String::new(),
                },
            };
            match chunk {
                Ok(Some(chunk)) => self.take(&chunk).await,
                Ok(None) => return "the stream ended before the answer".to_owned(),
                Err(error) => return format!("the stream broke before the answer: {error}"),
            }
            if self.call.is_some_and(|id| !self.core.is_open(id)) {
                if self.intake.len() > 0 {
                    return String::new();
                }
                end = end.or_else(|| Some(Instant::now() + AFTER_ANSWER));
            }
            if self.intake.len() > self.core.limit().saturating_mul(PATIENCE) {
                return "the stream holds a message far over the bound".to_owned();
            }
        }
    }

    async fn take(&mut self, mut bytes: &[u8]) {
        while let Some(piece) = self.parser.next(&mut bytes) {
            match piece {
                Piece::Data(data) => self.intake.push(data).await,
                Piece::End { message: true } => {
                    self.messages += 1;
                    self.intake.finish().await;
                }
                Piece::End { message: false } => self.intake.reset(),
            }
        }
    }
}

/// Delivers the stream that answers the call `id`.
pub(super) async fn receive(core: &Arc<Core>, response: Response, id: u64) -> Result<(), CallError> {
    let Some(link) = core.http() else { return Ok(()) };
    let mut stream = EventStream::new(core, Some(id));
    let mut why = stream.pump(response).await;
    let mut tries = 0;
    while core.is_open(id) {
        let Some(last) = stream.parser.last_id().filter(|_| tries < RESUMES) else {
            return Err(CallError::Gone(why));
        };
        let last = last.to_owned();
        tries += 1;
        sleep(stream.parser.retry().unwrap_or(RESUME_PAUSE).max(RESUME_PAUSE_MIN)).await;
        match link.get(Some(&last)).await {
            Ok(response) if is_event_stream(&response) => {
                let before = stream.progress();
                why = stream.pump(response).await;
                if stream.progress() > before {
                    tries = 0;
                }
            }
            Ok(_) | Err(Refusal::Status { status: 400..=499, .. }) => {
                return Err(CallError::Gone(format!("{why}, and the server does not let it be resumed")));
            }
            Err(refusal) => tracing::debug!(error = %CallError::from(refusal), "a stream was not resumed"),
        }
    }
    Ok(())
}

/// Begins to listen to what the server says on its own account, in place of an earlier listener.
pub(in super::super) fn listen(core: &Arc<Core>) {
    let Some(link) = core.http() else { return };
    let stop = core.over().child_token();
    let mut current = link.listening.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *current, stop.clone()).cancel();
    drop(current);
    let core = Arc::clone(core);
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep_listening(&core) => {}
        }
    });
}

async fn keep_listening(core: &Arc<Core>) {
    let Some(link) = core.http() else { return };
    let mut stream = EventStream::new(core, None);
    let mut pause = LISTEN_PAUSE;
    loop {
        let begun = Instant::now();
        let before = stream.progress();
        match link.get(stream.parser.last_id()).await {
            Ok(response) if is_event_stream(&response) => {
                let why = stream.pump(response).await;
                tracing::debug!(server = core.name(), why, "the listening stream ended");
            }
            Ok(_) => return,
            // The server offers no such stream, or does not know the session: the next call finds out.
            Err(Refusal::Status { status, .. }) if (400..500).contains(&status) && status != 429 => return,
            Err(refusal) => {
                tracing::debug!(server = core.name(), error = %CallError::from(refusal), "not listening");
            }
        }
        if stream.progress() > before || begun.elapsed() > LISTEN_PAUSE_MAX {
            pause = LISTEN_PAUSE;
        }
        sleep(stream.parser.retry().unwrap_or_default().max(pause)).await;
        pause = (pause * 2).min(LISTEN_PAUSE_MAX);
    }
}

impl HttpLink {
    /// Asks for a stream of events, from `last` on.
    async fn get(&self, last: Option<&str>) -> Result<Response, Refusal> {
        let mut headers = self.headers(&self.session());
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            headers.insert(LAST_EVENT, last);
        }
        self.send(Method::GET, headers, Bytes::new()).await
    }
}
