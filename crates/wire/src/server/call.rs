//! One request at work: its place among the bounds, its own task, and the way back.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::intake::{Budget, Hold};
use super::message::{self, Call};
use super::news::News;
use super::progress::{self, Progress};
use super::session::{Session, Sessions};
use super::{ClientInfo, INTERNAL_ERROR, Limits, PROTOCOL_VERSIONS, Reply, Request, Service};
use crate::alarm::Alarm;

/// The longest name or version of a client that is kept, in characters.
const MAX_CLIENT_CHARS: usize = 200;

/// What all transports of a server share.
pub(super) struct Core<S: Service> {
    pub service: Arc<S>,
    pub limits: Limits,
    pub sessions: Sessions<S::Caller>,
    pub budget: Budget,
    pub news: News,
    /// Streams that are open for news.
    pub listeners: Arc<Semaphore>,
    /// Ends the waiting for quick answers.
    pub alarm: Alarm,
    slots: Arc<Semaphore>,
}

/// Where a request comes from, and what its way back can carry.
pub(super) struct Origin<C> {
    pub caller: C,
    pub session: Option<Arc<Session<C>>>,
    pub takes_progress: bool,
}

/// Why a request was not begun.
pub(super) enum NotBegun {
    /// Its id is in flight already in its session.
    SameId,
    /// Too many requests are in flight.
    Busy,
}

/// A request that was handed to the service. Dropping this does not stop it.
pub(super) struct Running {
    pub ending: Ending,
    pub updates: Updates,
    pub cancel: CancellationToken,
}

/// The end of a request, to be waited for once.
pub(super) struct Ending(oneshot::Receiver<Finished>);

/// The progress of a request, if anybody asked for it.
pub(super) struct Updates(Option<Progress>);

/// How it ended. The slot is held until the answer has left, because an answer may hold disk space.
pub(super) struct Finished {
    pub reply: Reply,
    pub slot: Option<OwnedSemaphorePermit>,
}

impl<S: Service> Core<S> {
    pub fn new(service: Arc<S>, limits: Limits) -> Self {
        Self {
            service,
            sessions: Sessions::new(limits.max_sessions, limits.session_idle),
            budget: Budget::new(limits.max_buffered_bytes),
            news: News::new(),
            listeners: Arc::new(Semaphore::new(limits.max_sessions)),
            alarm: Alarm::default(),
            slots: Arc::new(Semaphore::new(slots_of(&limits))),
            limits,
        }
    }

    /// Gives a request to the service, in a task of its own. `hold` is kept until the service is done with it.
    pub fn begin(&self, call: Call, origin: Origin<S::Caller>, hold: Hold) -> Result<Running, NotBegun> {
        let cancel = CancellationToken::new();
        let in_flight = match &origin.session {
            Some(session) => Some(session.enter(&call.id.key, cancel.clone()).ok_or(NotBegun::SameId)?),
            None => None,
        };
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| NotBegun::Busy)?;
        let token = if origin.takes_progress { message::progress_token(&call.params) } else { None };
        let (sink, progress) = token.map(|token| progress::queue(&token)).unzip();
        let request = Request {
            method: call.method,
            params: call.params,
            caller: origin.caller,
            session: origin.session.as_ref().map(|session| session.id.clone()),
            client: origin.session.as_ref().and_then(|session| session.client()),
            id_text: call.id.raw,
            progress: sink,
            cancel: cancel.clone(),
        };
        let service = Arc::clone(&self.service);
        let (sender, reply) = oneshot::channel();
        tokio::spawn(async move {
            let reply = service.handle(request).await;
            // Free before the answer is seen: a client may use the id again at once.
            drop((in_flight, hold));
            // Nobody may be there to take it: the connection is lost.
            let _ = sender.send(Finished { reply, slot: Some(slot) });
        });
        Ok(Running { ending: Ending(reply), updates: Updates(progress), cancel })
    }

    /// Takes every slot, so that no request begins any more, as soon as those in flight give theirs back.
    pub async fn drain(&self) {
        let all = u32::try_from(slots_of(&self.limits)).unwrap_or(u32::MAX);
        if let Ok(slots) = self.slots.acquire_many(all).await {
            slots.forget();
        }
    }

    /// The raw result of `initialize`, and who asked.
    pub fn initialize(&self, params: &[u8]) -> (String, Option<ClientInfo>) {
        let (version, client) = greeting(params);
        let info = self.service.info();
        let known = PROTOCOL_VERSIONS.into_iter().find(|known| version.as_deref() == Some(*known));
        let mut result = json!({
            "protocolVersion": known.unwrap_or(PROTOCOL_VERSIONS[0]),
            "capabilities": info.capabilities,
            "serverInfo": { "name": info.name, "version": info.version },
        });
        if let Some(instructions) = info.instructions {
            result["instructions"] = instructions.into();
        }
        (result.to_string(), client)
    }

    /// Acts on a notification. Without a session there is nothing that one could mean.
    pub fn notice(session: Option<&Session<S::Caller>>, method: &str, params: &[u8]) {
        if method != "notifications/cancelled" {
            return;
        }
        if let (Some(session), Some(key)) = (session, message::cancelled_id(params)) {
            session.cancel(&key);
        }
    }
}

impl Ending {
    /// Waits for the end.
    pub async fn finished(&mut self) -> Finished {
        (&mut self.0).await.unwrap_or_else(|_| Finished {
            reply: Reply::Error {
                code: INTERNAL_ERROR,
                message: "internal error: the request broke down; the log says where".to_owned(),
                data: None,
            },
            slot: None,
        })
    }
}

impl Updates {
    /// Waits until a notification is there, without taking it.
    pub async fn ready(&self) {
        match &self.0 {
            Some(progress) => progress.ready().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for a notification and takes it.
    pub async fn next(&self) -> Bytes {
        match &self.0 {
            Some(progress) => progress.next().await,
            None => std::future::pending().await,
        }
    }

    /// Takes a notification if one is there.
    pub fn take(&self) -> Option<Bytes> {
        self.0.as_ref()?.take()
    }

    /// Whether a notification is there.
    pub fn waiting(&self) -> bool {
        self.0.as_ref().is_some_and(Progress::waiting)
    }
}

fn slots_of(limits: &Limits) -> usize {
    let most = usize::try_from(u32::MAX).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
    limits.max_in_flight.min(most)
}

/// The protocol version and the client in the parameters of `initialize`, as far as they can be read.
fn greeting(params: &[u8]) -> (Option<String>, Option<ClientInfo>) {
    #[derive(Deserialize)]
    struct Greeting {
        #[serde(rename = "protocolVersion", default)]
        version: serde_json::Value,
        #[serde(rename = "clientInfo", default)]
        client: serde_json::Value,
    }
    let Ok(greeting) = serde_json::from_slice::<Greeting>(params) else { return (None, None) };
    let member = |name: &str| greeting.client.get(name).and_then(serde_json::Value::as_str);
    let short = |text: &str| text.chars().take(MAX_CLIENT_CHARS).collect::<String>();
    let client = member("name").map(|name| ClientInfo {
        name: short(name),
        version: member("version").map(short).unwrap_or_default(),
    });
    (greeting.version.as_str().map(str::to_owned), client)
}
