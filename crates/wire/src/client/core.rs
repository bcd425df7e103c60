//! What pipes and HTTP have in common: who waits for which answer, and what to do with what arrives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::calls::{Calls, Outcome};
use super::http::HttpLink;
use super::notice;
use super::stdio::{Outbox, PipeLink};
use super::{BadHttpOptions, CallError, Event, HttpOptions, Options};
use crate::envelope::{Assembled, Assembler, Cause, Id, Kind, Message, Trouble};
use crate::spool::{Body, Spools};

/// Events that may wait for their receiver.
const EVENTS: usize = 64;
/// Places among them that log lines do not take.
const EVENTS_KEPT: usize = 8;
/// How long a notification may take to leave.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// One connection.
pub(super) struct Core {
    name: String,
    version: String,
    limit: u64,
    spools: Arc<Spools>,
    link: Link,
    calls: Mutex<Calls>,
    next: AtomicU64,
    events: mpsc::Sender<Event>,
    receiver: Mutex<Option<mpsc::Receiver<Event>>>,
    over: CancellationToken,
    why: OnceLock<String>,
    noise: AtomicU64,
}

/// How bytes get there.
pub(super) enum Link {
    Pipe(PipeLink),
    Http(Box<HttpLink>),
}

impl Core {
    pub(super) fn piped(options: Options) -> (Core, Outbox) {
        let (link, outbox) = PipeLink::new();
        let Options { name, client_version, max_message_bytes, spools } = options;
        (Core::new(name, client_version, max_message_bytes, spools, Link::Pipe(link)), outbox)
    }

    pub(super) fn over_http(options: HttpOptions) -> Result<Core, BadHttpOptions> {
        let link =
            Link::Http(Box::new(HttpLink::new(&options.url, &options.headers, options.socket.as_deref())?));
        let HttpOptions { name, client_version, max_message_bytes, spools, .. } = options;
        Ok(Core::new(name, client_version, max_message_bytes, spools, link))
    }

    fn new(name: String, version: String, limit: u64, spools: Arc<Spools>, link: Link) -> Core {
        let (events, receiver) = mpsc::channel(EVENTS);
        Core {
            name,
            version,
            limit,
            spools,
            link,
            calls: Mutex::default(),
            next: AtomicU64::new(1),
            events,
            receiver: Mutex::new(Some(receiver)),
            over: CancellationToken::new(),
            why: OnceLock::new(),
            noise: AtomicU64::new(0),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The largest message, in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn http(&self) -> Option<&HttpLink> {
        match &self.link {
            Link::Http(link) => Some(link),
            Link::Pipe(_) => None,
        }
    }

    pub(super) fn assembler(&self) -> Assembler {
        Assembler::new(&self.spools, self.limit)
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.calls().count()
    }

    pub(super) fn noise_count(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }

    pub(super) fn take_events(&self) -> Option<mpsc::Receiver<Event>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Done when the connection is over.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.over
    }

    pub(super) fn is_closed(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(super) async fn closed(&self) -> String {
        self.over.cancelled().await;
        self.why.get().cloned().unwrap_or_default()
    }

    /// Ends the connection; calls in flight fail with [`CallError::Gone`].
    pub(super) fn close(&self, why: &str) {
        self.close_with(why, || CallError::Gone(why.to_owned()));
    }

    /// Ends the connection; calls in flight fail with what `error` makes.
    pub(super) fn close_with(&self, why: &str, error: impl Fn() -> CallError) {
        let _ = self.why.set(why.to_owned());
        self.calls().close(why, error);
        self.over.cancel();
    }

    pub(super) async fn shutdown(&self) {
        self.close("it was shut down from this side");
        if let Link::Http(link) = &self.link {
            link.end_session().await;
        }
    }

    /// Sends a notification, and waits until it was taken.
    pub(super) async fn send(&self, frame: Bytes) -> Result<(), CallError> {
        if self.is_closed() {
            return Err(CallError::NotSent(self.why.get().cloned().unwrap_or_default()));
        }
        let sent = async {
            match &self.link {
                Link::Pipe(link) => link.push(frame, None).await,
                Link::Http(link) => link.notify(frame).await,
            }
        };
        let late = || Err(CallError::NotSent("the server does not take what is sent to it".to_owned()));
        tokio::time::timeout(SEND_TIMEOUT, sent).await.unwrap_or_else(|_| late())
    }

    /// Sends a notification without waiting for it.
    pub(super) fn send_soon(self: &Arc<Self>, frame: Bytes) {
        if let Link::Pipe(link) = &self.link
            && link.try_push(frame.clone())
        {
            return;
        }
        let core = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = core.send(frame).await {
                tracing::debug!(server = core.name, %error, "a notification did not leave");
            }
        });
    }

    /// Waits for the answer to `id` until the guard is dropped.
    pub(super) fn open(
        self: &Arc<Self>,
        id: u64,
        progress: Option<mpsc::Sender<Bytes>>,
    ) -> Result<(Waiting, oneshot::Receiver<Outcome>), CallError> {
        let answer = self.calls().open(id, progress)?;
        Ok((Waiting { core: Arc::clone(self), id }, answer))
    }

    /// Ends a call, if anybody still waits for it.
    pub(super) fn complete(&self, id: u64, outcome: Outcome) {
        if !self.calls().complete(id, outcome) {
            tracing::debug!(server = self.name, id, "an answer came that nobody waits for");
        }
    }

    pub(super) fn is_open(&self, id: u64) -> bool {
        self.calls().is_open(id)
    }

    /// Takes what arrived. `scope` is the call on whose own HTTP exchange it came; `reported` says that the
    /// message's trouble was told already.
    pub(super) fn deliver(self: &Arc<Self>, assembled: Assembled, scope: Option<u64>, reported: bool) {
        match assembled {
            Assembled::Message(message) => self.take(message, scope),
            Assembled::Failed(trouble) if !reported => {
                if !self.report(&trouble, scope) {
                    let cause = &trouble.cause;
                    tracing::warn!(server = self.name, %cause, "a message of no known call cannot be handed on");
                }
            }
            Assembled::Failed(_) | Assembled::Blank => {}
            Assembled::Discarded(id) => {
                if let Some(id) = id.as_ref().and_then(call_id) {
                    self.complete(id, Err(CallError::Cancelled { answered: true }));
                }
            }
            Assembled::Noise(head) => {
                let count = self.noise.fetch_add(1, Ordering::Relaxed) + 1;
                tracing::debug!(
                    server = self.name,
                    count,
                    head,
                    "the server sent something that is no message"
                );
                self.tell(Event::Noise { head, count });
            }
        }
    }

    /// Fails the call that a message in trouble belongs to. False when that is not known (yet).
    pub(super) fn report(&self, trouble: &Trouble, scope: Option<u64>) -> bool {
        let known = match &trouble.id {
            _ if !trouble.answer => None,
            Some(id) => call_id(id),
            None => scope.or_else(|| self.calls().only()),
        };
        if let Some(id) = known {
            let cause = &trouble.cause;
            tracing::warn!(server = self.name, id, %cause, "an answer cannot be handed on");
            self.complete(id, Err(cause.clone().into()));
        }
        known.is_some()
    }

    /// Tells an event, if there is room for it.
    pub(super) fn tell(&self, event: Event) {
        let room = self.events.capacity();
        // A change of the list that finds no room has several of its like before it that were not taken yet.
        if room > EVENTS_KEPT || (room > 0 && event == Event::ToolsChanged) {
            let _ = self.events.try_send(event);
        }
    }

    fn take(self: &Arc<Self>, message: Message, scope: Option<u64>) {
        let id = message.id.as_ref();
        match message.kind {
            Kind::Result(body) => self.answer(id, scope, Ok(body)),
            Kind::Error { code, message, data } => {
                self.answer(id, scope, Err(CallError::Rpc { code, message, data }));
            }
            Kind::Request { method, .. } => {
                if let Some(id) = id {
                    self.reply(notice::reply(id, &method));
                }
            }
            Kind::Notification { method, params } => self.notice(&method, params.as_ref()),
        }
    }

    fn answer(&self, id: Option<&Id>, scope: Option<u64>, outcome: Outcome) {
        let call = match id {
            Some(id) => call_id(id),
            // An error about a request that the server could not even read.
            None if outcome.is_err() => scope.or_else(|| self.calls().only()),
            None => None,
        };
        match call {
            Some(call) => self.complete(call, outcome),
            None => tracing::debug!(server = self.name, "an answer came without an id of ours"),
        }
    }

    /// Answers a request of the server. The reader never waits for the writer: what finds no room is not answered.
    fn reply(self: &Arc<Self>, frame: Bytes) {
        let sent = match &self.link {
            Link::Pipe(link) => link.try_push(frame),
            Link::Http(link) => link.reply(self, frame),
        };
        if !sent {
            tracing::debug!(
                server = self.name,
                "a request of the server was not answered: too many of them wait"
            );
        }
    }

    fn notice(&self, method: &str, params: Option<&Body>) {
        match method {
            "notifications/progress" => {
                if let Some((id, params)) = params.and_then(notice::progress) {
                    self.calls().progress(id, params);
                }
            }
            "notifications/tools/list_changed" => self.tell(Event::ToolsChanged),
            "notifications/message" => {
                if let Some(line) = params.and_then(notice::log_line) {
                    self.tell(Event::Log(line));
                }
            }
            _ => tracing::trace!(server = self.name, method, "a notification that is of no use here"),
        }
    }
}

/// Keeps a call open; when it is dropped, an answer that still comes is late.
pub(super) struct Waiting {
    core: Arc<Core>,
    id: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.core.calls().leave(self.id);
    }
}

impl From<Cause> for CallError {
    fn from(cause: Cause) -> CallError {
        match cause {
            Cause::TooLarge { limit } => CallError::TooLarge { limit },
            Cause::SpoolFull => CallError::SpoolFull,
            Cause::Io(text) => CallError::Io(text),
            Cause::Syntax(_) | Cause::Shape(_) => CallError::Garbled(cause.to_string()),
        }
    }
}

pub(super) fn call_id(id: &Id) -> Option<u64> {
    id.as_number().and_then(|number| u64::try_from(number).ok())
}
