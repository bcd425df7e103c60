//! A connection over the pipes of a child process: one message a line, whatever else the child prints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::CallError;
use super::core::Core;
use super::intake::Intake;

/// Lines that may wait until the child reads.
const QUEUE_LINES: usize = 256;
/// Kibibytes of them. A longer line waits until it is alone.
const QUEUE_KIB: u32 = 16 * 1024;
const READ_BYTES: usize = 256 * 1024;
/// A line of so many times the bound ends the connection.
const PATIENCE: u64 = 4;
/// After the child has stopped to read, how long what it still says is listened to.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The way to the writer.
pub(super) struct PipeLink {
    lines: mpsc::Sender<Line>,
    room: Arc<Semaphore>,
}

/// The writer's end of the queue.
pub(super) type Outbox = mpsc::Receiver<Line>;

pub(super) struct Line {
    bytes: Bytes,
    ticket: Option<Arc<Ticket>>,
    _room: OwnedSemaphorePermit,
}

/// Decides whether a request has left, or was taken back before.
#[derive(Default)]
pub(super) struct Ticket(AtomicU8);

const WAITING: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Ticket {
    /// False if the request was withdrawn.
    pub(super) fn send(&self) -> bool {
        self.move_to(SENT)
    }

    /// False if the request was sent.
    pub(super) fn withdraw(&self) -> bool {
        self.move_to(WITHDRAWN)
    }

    fn move_to(&self, state: u8) -> bool {
        self.0.compare_exchange(WAITING, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl PipeLink {
    pub(super) fn new() -> (PipeLink, Outbox) {
        let (lines, outbox) = mpsc::channel(QUEUE_LINES);
        (PipeLink { lines, room: Arc::new(Semaphore::new(QUEUE_KIB as usize)) }, outbox)
    }

    /// Queues a line, waiting for room.
    pub(super) async fn push(&self, bytes: Bytes, ticket: Option<Arc<Ticket>>) -> Result<(), CallError> {
        let gone = |_| CallError::NotSent("the connection is over".to_owned());
        let room = Arc::clone(&self.room).acquire_many_owned(kib(&bytes));
        let room = room.await.map_err(|_| CallError::NotSent("the connection is over".to_owned()))?;
        self.lines.send(Line { bytes, ticket, _room: room }).await.map_err(gone)
    }

    /// Queues a line if there is room for it now.
    pub(super) fn try_push(&self, bytes: Bytes) -> bool {
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(kib(&bytes)) else { return false };
        self.lines.try_send(Line { bytes, ticket: None, _room: room }).is_ok()
    }
}

/// Starts to read and to write.
pub(super) fn run(
    core: &Arc<Core>,
    stdout: impl AsyncRead + Send + Unpin + 'static,
    stdin: impl AsyncWrite + Send + Unpin + 'static,
    outbox: Outbox,
) {
    tokio::spawn(write(Arc::clone(core), stdin, outbox));
    let core = Arc::clone(core);
    tokio::spawn(async move {
        let over = core.over().clone();
        tokio::select! {
            () = over.cancelled() => {}
            () = read(&core, stdout) => {}
        }
    });
}

async fn write(core: Arc<Core>, mut stdin: impl AsyncWrite + Unpin, mut outbox: Outbox) {
    let written = tokio::select! {
        () = core.over().cancelled() => Ok(()),
        written = write_lines(&mut stdin, &mut outbox) => written,
    };
    outbox.close();
    drop(stdin);
    if let Err(error) = written {
        // What the child has said before it stopped to read still counts, and its end tells more.
        let _ = tokio::time::timeout(LAST_WORDS, core.over().cancelled()).await;
        core.close(&format!("the server does not read its input any more: {error}"));
    }
}

async fn write_lines(stdin: &mut (impl AsyncWrite + Unpin), outbox: &mut Outbox) -> std::io::Result<()> {
    while let Some(line) = outbox.recv().await {
        if line.ticket.as_ref().is_none_or(|ticket| ticket.send()) {
            stdin.write_all(&line.bytes).await?;
            stdin.flush().await?;
        }
    }
    Ok(())
}

async fn read(core: &Arc<Core>, mut stdout: impl AsyncRead + Unpin) {
    let bound = core.limit().saturating_mul(PATIENCE);
    let mut intake = Intake::new(core, None);
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    loop {
        buffer.clear();
        match stdout.read_buf(&mut buffer).await {
            Ok(0) => return ended(core, intake, "the server closed its output").await,
            Ok(_) => {}
            Err(error) => {
                return ended(core, intake, &format!("the server's output cannot be read: {error}")).await;
            }
        }
        let mut rest = &buffer[..];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            intake.push(&rest[..end]).await;
            intake.finish().await;
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            intake.push(rest).await;
        }
        if intake.len() > bound {
            let limit = core.limit();
            let why = format!("the server wrote a line of more than {PATIENCE} times {limit} bytes");
            return core.close_with(&why, || CallError::TooLarge { limit });
        }
    }
}

/// The last line may lack its end and still be whole.
async fn ended(core: &Arc<Core>, mut intake: Intake, why: &str) {
    let begun = intake.len();
    if intake.finish_last().await {
        core.close(why);
    } else {
        core.close(&format!("{why} within a message, after {begun} bytes of it"));
    }
}

fn kib(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len() / 1024 + 1).unwrap_or(QUEUE_KIB).min(QUEUE_KIB)
}
