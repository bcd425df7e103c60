//! One call from its dispatch to its end: answer, timeout or cancellation.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::calls::Outcome;
use super::core::{Core, Link, Waiting};
use super::stdio::Ticket;
use super::{CallError, CallOptions, http};

/// How long an answer to a cancelled call is waited for, to say whether it came.
const GRACE: Duration = Duration::from_millis(500);

/// A request that is to be sent.
pub(super) struct Outgoing {
    pub id: u64,
    pub frame: Bytes,
    /// `initialize`: it opens the session, and is never cancelled by a notification.
    pub opening: bool,
}

pub(super) async fn request(
    core: &Arc<Core>,
    method: &str,
    params: &Bytes,
    options: &CallOptions,
) -> Outcome {
    let id = core.next_id();
    perform(core, Outgoing { id, frame: frame(Some(id), method, params), opening: false }, options).await
}

pub(super) async fn call_tool(
    core: &Arc<Core>,
    name: &str,
    arguments: &Bytes,
    options: &CallOptions,
) -> Outcome {
    let id = core.next_id();
    let mut params = Vec::with_capacity(arguments.len() + name.len() + 80);
    params.extend_from_slice(b"{\"name\":");
    jsonspan::escape_into(name, &mut params);
    if !arguments.is_empty() {
        params.extend_from_slice(b",\"arguments\":");
        params.extend_from_slice(arguments);
    }
    params.extend_from_slice(format!(",\"_meta\":{{\"progressToken\":{id}}}}}").as_bytes());
    let frame = frame(Some(id), "tools/call", &params);
    perform(core, Outgoing { id, frame, opening: false }, options).await
}

/// One line: a request if it has an id, else a notification. Line breaks between the tokens of `params` become
/// spaces; within strings JSON allows none.
pub(super) fn frame(id: Option<u64>, method: &str, params: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(params.len() + method.len() + 64);
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        line.extend_from_slice(format!(",\"id\":{id}").as_bytes());
    }
    line.extend_from_slice(b",\"method\":");
    jsonspan::escape_into(method, &mut line);
    if !params.is_empty() {
        line.extend_from_slice(b",\"params\":");
        let start = line.len();
        line.extend_from_slice(params);
        if memchr::memchr2(b'\n', b'\r', params).is_some() {
            for byte in line[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
                *byte = b' ';
            }
        }
    }
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// Sends a request and waits for its end.
pub(super) async fn perform(core: &Arc<Core>, outgoing: Outgoing, options: &CallOptions) -> Outcome {
    if options.cancel.is_cancelled() {
        return Err(CallError::Cancelled { answered: false });
    }
    let (waiting, mut answer) = core.open(outgoing.id, options.progress.clone())?;
    let mut running = Running::new(core, &outgoing, waiting);
    let started = Instant::now();
    let send = running.dispatch(outgoing);
    tokio::pin!(send);
    let mut sent = false;
    loop {
        let (deadline, total) = deadline(core, running.id, started, options);
        tokio::select! {
            biased;
            got = &mut answer => {
                running.end();
                return got.unwrap_or_else(|_| Err(CallError::Gone("it was dropped".to_owned())));
            }
            () = options.cancel.cancelled() => return running.cancelled(answer).await,
            done = &mut send, if !sent => {
                sent = true;
                done?;
            }
            () = drive(&mut running.exchange) => {}
            () = sleep_until(deadline) => {
                // Progress may have come in the meantime.
                if Instant::now() >= self::deadline(core, running.id, started, options).0 {
                    return Err(running.timed_out(total, options));
                }
            }
        }
    }
}

/// When the call runs out of time, and whether it is the whole time that runs out.
fn deadline(core: &Core, id: u64, started: Instant, options: &CallOptions) -> (Instant, bool) {
    let far = Duration::from_secs(365 * 24 * 3600);
    let silence = core.calls().heard(id).unwrap_or(started) + options.timeout.min(far);
    let end = started + options.total.min(far);
    (silence.min(end), end <= silence)
}

/// An exchange over HTTP, as long as it is of use. It goes on in the task of the call: no other has to be woken.
type Exchange = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// Moves the exchange on; done when it is, never if there is none.
async fn drive(exchange: &mut Exchange) {
    poll_fn(|cx| match exchange {
        Some(going) => going.as_mut().poll(cx),
        None => Poll::Pending,
    })
    .await;
    *exchange = None;
}

/// A call that was or is being dispatched. Dropped before its end, it is cancelled.
struct Running {
    core: Arc<Core>,
    id: u64,
    opening: bool,
    finished: bool,
    ticket: Arc<Ticket>,
    exchange: Exchange,
    _waiting: Waiting,
}

impl Running {
    fn new(core: &Arc<Core>, outgoing: &Outgoing, waiting: Waiting) -> Running {
        Running {
            core: Arc::clone(core),
            id: outgoing.id,
            opening: outgoing.opening,
            finished: false,
            ticket: Arc::default(),
            exchange: None,
            _waiting: waiting,
        }
    }

    /// Brings the request on its way. The future is done when a pipe's queue has taken it.
    fn dispatch(&mut self, outgoing: Outgoing) -> impl Future<Output = Result<(), CallError>> + use<> {
        let core = Arc::clone(&self.core);
        let ticket = Arc::clone(&self.ticket);
        let mut line = None;
        match core.link() {
            Link::Pipe(_) => line = Some(outgoing.frame),
            Link::Http(_) => {
                ticket.send();
                self.exchange = Some(Box::pin(http::exchange(Arc::clone(&core), outgoing)));
            }
        }
        async move {
            match (core.link(), line) {
                (Link::Pipe(link), Some(line)) => link.push(line, Some(ticket)).await,
                _ => Ok(()),
            }
        }
    }

    /// The answer has come. What is left of its exchange is read without anybody waiting for it, so that the connection
    /// can be used again.
    fn end(&mut self) {
        self.finished = true;
        if let Some(rest) = self.exchange.take() {
            tokio::spawn(rest);
        }
    }

    /// Tells the server, and waits a moment whether it answers all the same.
    async fn cancelled(&mut self, mut answer: oneshot::Receiver<Outcome>) -> Outcome {
        if !self.tell_cancelled("cancelled by the caller") {
            return Err(CallError::Cancelled { answered: false });
        }
        let enough = sleep(GRACE);
        tokio::pin!(enough);
        loop {
            tokio::select! {
                biased;
                got = &mut answer => return Err(CallError::Cancelled { answered: matches!(got, Ok(Ok(_))) }),
                () = drive(&mut self.exchange) => {}
                () = &mut enough => return Err(CallError::Cancelled { answered: false }),
            }
        }
    }

    fn timed_out(&mut self, total: bool, options: &CallOptions) -> CallError {
        let after = if total { options.total } else { options.timeout };
        if self.tell_cancelled("timed out") {
            return CallError::Timeout { total, after };
        }
        CallError::NotSent(format!("the server did not read its input for {} s", after.as_secs_f64()))
    }

    /// Takes the request back if it has not left, else says that it is cancelled. False if it had not left.
    fn tell_cancelled(&mut self, reason: &str) -> bool {
        self.finished = true;
        if self.ticket.withdraw() {
            return false;
        }
        if !self.opening && !self.core.is_closed() {
            let params = format!("{{\"requestId\":{},\"reason\":\"{reason}\"}}", self.id);
            self.core.send_soon(frame(None, "notifications/cancelled", params.as_bytes()));
        }
        true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.finished && tokio::runtime::Handle::try_current().is_ok() {
            self.tell_cancelled("given up by the caller");
        }
    }
}
