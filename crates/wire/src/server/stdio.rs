//! The stdio transport: one message a line, many requests at a time, one pen.

use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{self, Broken, Gone, Out};
use super::call::{Core, NotBegun, Origin, Running};
use super::lines::{Line, Lines};
use super::message::{self, Call, Fault, Message};
use super::session::Session;
use super::{INTERNAL_ERROR, INVALID_REQUEST, Payload, REFUSED, Reply, Service, answer};

/// Short answers that may wait for the pen while the input is read on; with more, reading waits too.
const MAX_WAITING: usize = 256;

/// Serves one client until its input ends and its requests are answered, or until `shutdown` fires.
pub(super) async fn serve<S, R, W>(
    core: &Arc<Core<S>>,
    input: R,
    output: W,
    caller: S::Caller,
    shutdown: CancellationToken,
) where
    S: Service,
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let Some(session) = Session::new(caller.clone(), None, Instant::now()) else {
        tracing::error!("the system gives no random bytes: stdio cannot be served");
        return;
    };
    let desk = Desk {
        core: Arc::clone(core),
        caller,
        session,
        pen: Pen { output: Arc::new(Mutex::new(output)), broken: CancellationToken::new() },
        tasks: TaskTracker::new(),
        waiting: Arc::new(Semaphore::new(MAX_WAITING)),
    };
    let mut lines = Lines::new(input, core.limits.max_request_bytes);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = desk.pen.broken.cancelled() => {}
        () = desk.tell_news() => {}
        () = desk.read(&mut lines) => {}
    }
    desk.tasks.close();
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = desk.tasks.wait() => {}
    }
}

/// One client's place.
struct Desk<S: Service, W> {
    core: Arc<Core<S>>,
    caller: S::Caller,
    session: Arc<Session<S::Caller>>,
    pen: Pen<W>,
    tasks: TaskTracker,
    waiting: Arc<Semaphore>,
}

impl<S: Service, W: AsyncWrite + Send + Unpin + 'static> Desk<S, W> {
    async fn read<R: AsyncRead + Unpin>(&self, lines: &mut Lines<R>) {
        loop {
            match lines.next().await {
                Ok(Line::Text(line)) if line.trim_ascii().is_empty() => {}
                Ok(Line::Text(line)) => self.take(&line).await,
                Ok(Line::TooLong) => {
                    let most = self.core.limits.max_request_bytes;
                    let message = format!("the message is longer than {most} bytes");
                    self.say(answer::error(None, INVALID_REQUEST, &message, None)).await;
                }
                Ok(Line::End) => return,
                Err(error) => {
                    tracing::warn!(%error, "the client's input cannot be read any more");
                    return;
                }
            }
        }
    }

    /// Writes news as they come. Ends only when there will be no more because everything ends.
    async fn tell_news(&self) {
        let mut follower = self.core.news.follow();
        while let Some(news) = follower.next().await {
            // A client that has not opened its session yet has no list that could have changed.
            if self.session.client().is_some() {
                self.say(news).await;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn take(&self, line: &Bytes) {
        match message::parse(line) {
            Ok(Message::Request(call)) => self.begin(call, line.len()).await,
            Ok(Message::Notification { method, params }) => {
                Core::<S>::notice(Some(&self.session), &method, &params);
            }
            Ok(Message::Response) => {}
            Err(Fault { id, code, message }) => {
                self.say(answer::error(id.as_deref(), code, &message, None)).await;
            }
        }
    }

    async fn begin(&self, call: Call, size: usize) {
        let id = call.id.raw.clone();
        match call.method.as_str() {
            "initialize" => {
                let (result, client) = self.core.initialize(&call.params);
                self.session.set_client(client);
                return self.say(answer::result(&id, result.as_bytes())).await;
            }
            "ping" => return self.say(answer::result(&id, b"{}")).await,
            _ => {}
        }
        let Some(hold) = self.core.budget.hold(size) else { return self.say(busy(&id)).await };
        let session = Some(Arc::clone(&self.session));
        let origin = Origin { caller: self.caller.clone(), session, takes_progress: true };
        match self.core.begin(call, origin, hold) {
            Ok(running) => {
                self.tasks.spawn(answer_call(running, id, self.pen.clone()));
            }
            Err(NotBegun::Busy) => self.say(busy(&id)).await,
            Err(NotBegun::SameId) => {
                let message = "a request with this id is in flight";
                self.say(answer::error(Some(&id), INVALID_REQUEST, message, None)).await;
            }
        }
    }

    /// Writes a short answer when the pen is free, without holding up what is read next.
    async fn say(&self, text: Bytes) {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&self.waiting).acquire_owned().await else { return };
        let pen = self.pen.clone();
        self.tasks.spawn(async move {
            pen.write_line(text).await;
            drop(place);
        });
    }
}

fn busy(id: &str) -> Bytes {
    answer::error(Some(id), REFUSED, "too many requests are in flight: try again shortly", None)
}

/// Passes on the progress of one request, then its answer. A client that is gone does not end the waiting: the
/// request has to come to its end.
async fn answer_call<W: AsyncWrite + Send + Unpin>(mut running: Running, id: String, pen: Pen<W>) {
    let finished = loop {
        let progress = tokio::select! {
            biased;
            progress = running.updates.next() => progress,
            finished = running.ending.finished() => break finished,
        };
        pen.write_line(progress).await;
    };
    while let Some(progress) = running.updates.take() {
        pen.write_line(progress).await;
    }
    // A request that was taken back gets no answer.
    if running.cancel.is_cancelled() {
        return;
    }
    match finished.reply {
        Reply::Error { code, message, data } => {
            pen.write_line(answer::error(Some(&id), code, &message, data.as_deref())).await;
        }
        Reply::Result(payload) => pen.write_result(&id, payload).await,
    }
}

/// The one way out. Whoever holds it writes a whole line.
struct Pen<W> {
    output: Arc<Mutex<W>>,
    /// Fires when the client does not read any more.
    broken: CancellationToken,
}

impl<W> Clone for Pen<W> {
    fn clone(&self) -> Self {
        Self { output: Arc::clone(&self.output), broken: self.broken.clone() }
    }
}

impl<W: AsyncWrite + Send + Unpin> Pen<W> {
    async fn write_line(&self, text: Bytes) {
        let mut nib = self.take().await;
        // A client that is gone has been noted.
        let _ = nib.line(text).await;
    }

    async fn write_result(&self, id: &str, payload: Payload) {
        let mut nib = self.take().await;
        let Err(Broken::Source(error)) = nib.result(id, payload).await else { return };
        tracing::warn!(%error, id, "the result broke off on its way out");
        // The line that was begun cannot be taken back: it ends as broken JSON, and an error says why.
        let message = format!("the result could not be read to its end: {error}");
        if nib.put(Bytes::from_static(b"\n")).await.is_ok() {
            let _ = nib.line(answer::error(Some(id), INTERNAL_ERROR, &message, None)).await;
        }
    }

    async fn take(&self) -> Nib<'_, W> {
        Nib { output: self.output.lock().await, broken: &self.broken }
    }
}

/// The pen in one hand.
struct Nib<'a, W> {
    output: MutexGuard<'a, W>,
    broken: &'a CancellationToken,
}

impl<W: AsyncWrite + Send + Unpin> Nib<'_, W> {
    async fn line(&mut self, text: Bytes) -> Result<(), Gone> {
        self.put(answer::on_one_line(text)).await?;
        self.put(Bytes::from_static(b"\n")).await?;
        self.flush().await
    }

    async fn result(&mut self, id: &str, payload: Payload) -> Result<(), Broken> {
        self.put(answer::result_head(id).into()).await?;
        body::copy(payload, true, self).await?;
        self.put(Bytes::from_static(b"}\n")).await?;
        Ok(self.flush().await?)
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        let flushed = self.output.flush().await;
        self.note(flushed)
    }

    fn note(&self, written: std::io::Result<()>) -> Result<(), Gone> {
        written.map_err(|error| {
            tracing::debug!(%error, "the client does not read any more");
            self.broken.cancel();
            Gone
        })
    }
}

impl<W: AsyncWrite + Send + Unpin> Out for Nib<'_, W> {
    async fn put(&mut self, piece: Bytes) -> Result<(), Gone> {
        if self.broken.is_cancelled() {
            return Err(Gone);
        }
        let written = self.output.write_all(&piece).await;
        self.note(written)
    }
}
