//! The bridge: `serve --stdio` where another mcpproxy has the data directory. Its client's messages go to that one byte for
//! byte, and what comes back goes to the client; when that one ends, this process takes its place.
//!
//! Messages do not wait for each other, but for `initialize`, which opens the session that all others belong to. It is
//! remembered, so that the client keeps its session whoever serves.

mod desk;
mod find;
mod link;
mod message;
mod pass;
mod pen;
mod relay;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gateway::mcp::{REFUSED, Server};
use http::{Method, StatusCode};
use tokio::io::AsyncRead;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::find::{Finder, Greeting, Stranded};
use self::link::Link;
use self::pen::Pen;
use super::mcp::Surface;

pub use self::find::Asked;
pub use self::pen::Output;

/// Requests in flight; more are refused as busy. Each is a connection, of which the holder gives about a thousand to all.
const MAX_REQUESTS: usize = 256;
/// Notifications and answers on their way; with more, reading waits.
const MAX_SILENT: usize = 32;
/// Kibibytes of all large messages on their way; with more, requests are refused as busy.
const MAX_KIB: usize = 256 << 10;
/// How often is looked whether the holder is still there.
const WATCH: Duration = Duration::from_secs(1);
/// The pause before a stream of the holder's own messages is opened again.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// How long the last words to the client may take when nothing can be served any more.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How this process can take the holder's place.
pub trait Heir: Send + Sync + 'static {
    /// Takes the data directory and opens the gateway; `None` while somebody else has it.
    fn succeed(&self) -> impl Future<Output = Result<Option<Server<Surface>>, Refused>> + Send;
}

/// Why this process can serve nobody.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The exit code.
    pub code: u8,
    /// The reason, unless it was told already.
    pub why: Option<String>,
}

/// Serves one client through whoever has the data directory, until its input ends and its requests are answered, or at
/// once when `end` fires.
///
/// # Errors
/// Nobody serves and this process cannot.
pub async fn run<H, R>(
    heir: H,
    asked: Asked,
    input: R,
    output: Output,
    end: &CancellationToken,
) -> Result<(), Refused>
where
    H: Heir,
    R: AsyncRead + Send + Unpin,
{
    let finder = Finder { heir, asked };
    let nothing_said = Greeting::default();
    let found = tokio::select! {
        () = end.cancelled() => return Ok(()),
        found = finder.find(None, &nothing_said) => found,
    };
    let link = found.map_err(|stranded| match stranded {
        Stranded::Never(refused) => refused,
        Stranded::Waiting(why) => Refused { code: crate::daemon::exit::HELD, why: Some(why) },
    })?;
    let bridge = Arc::new(Bridge::new(finder, link, output));
    let watch = tokio::spawn(Arc::clone(&bridge).watch());
    bridge.serve(input, end).await;
    watch.abort();
    bridge.listening.cancel();
    bridge.link().farewell().await;
    bridge.refused.get().map_or(Ok(()), |refused| Err(refused.clone()))
}

struct Bridge<H> {
    finder: Finder<H>,
    link: Mutex<Arc<Link>>,
    greeting: Mutex<Greeting>,
    /// Held while somebody to serve is looked for.
    finding: tokio::sync::Mutex<()>,
    flights: Mutex<HashMap<String, Arc<Flight>>>,
    pen: Pen,
    tasks: TaskTracker,
    requests: Arc<Semaphore>,
    silent: Arc<Semaphore>,
    kib: Arc<Semaphore>,
    listening: CancellationToken,
    /// Why it ends before its client does; `over` fires with it.
    refused: OnceLock<Refused>,
    over: CancellationToken,
}

/// A request on its way.
#[derive(Default)]
struct Flight {
    cancelled: AtomicBool,
}

/// Why a request gets an error of ours in place of an answer.
struct Failure {
    code: i64,
    text: String,
}

impl<H: Heir> Bridge<H> {
    fn new(finder: Finder<H>, link: Link, output: Output) -> Self {
        Self {
            finder,
            link: Mutex::new(Arc::new(link)),
            greeting: Mutex::default(),
            finding: tokio::sync::Mutex::default(),
            flights: Mutex::default(),
            pen: Pen::new(output),
            tasks: TaskTracker::new(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            silent: Arc::new(Semaphore::new(MAX_SILENT)),
            kib: Arc::new(Semaphore::new(MAX_KIB)),
            listening: CancellationToken::new(),
            refused: OnceLock::new(),
            over: CancellationToken::new(),
        }
    }

    async fn serve<R: AsyncRead + Send + Unpin>(self: &Arc<Self>, input: R, end: &CancellationToken) {
        tokio::select! {
            () = end.cancelled() => return,
            () = self.over.cancelled() => {}
            () = self.pen.broken.cancelled() => {}
            () = self.read(input) => {}
        }
        self.tasks.close();
        tokio::select! {
            () = end.cancelled() => {}
            () = async { self.over.cancelled().await; sleep(LAST_WORDS).await } => {}
            () = self.tasks.wait() => {}
        }
    }

    /// Finds somebody to serve in place of a link that was lost; at once when that was done meanwhile.
    async fn renew(self: &Arc<Self>, lost: &Link) -> Result<(), Failure> {
        let _finding = self.finding.lock().await;
        if self.link().turn != lost.turn {
            return Ok(());
        }
        let greeting = hold(&self.greeting).clone();
        match self.finder.find(Some(lost), &greeting).await {
            Ok(link) => {
                self.use_link(link);
                Ok(())
            }
            Err(Stranded::Waiting(text)) => Err(Failure { code: REFUSED, text }),
            Err(Stranded::Never(refused)) => {
                let text = refused
                    .why
                    .clone()
                    .unwrap_or_else(|| "mcpproxy cannot take over; its log says why".into());
                let _ = self.refused.set(refused);
                self.over.cancel();
                Err(Failure { code: REFUSED, text })
            }
        }
    }

    fn use_link(self: &Arc<Self>, link: Link) {
        let link = Arc::new(link);
        *hold(&self.link) = Arc::clone(&link);
        if link.has_session() {
            let bridge = Arc::clone(self);
            tokio::spawn(async move {
                bridge.listening.clone().run_until_cancelled(bridge.listen(&link)).await;
            });
        }
    }

    /// Passes on what the holder says by itself (that its tools changed), where it does.
    async fn listen(&self, link: &Link) {
        while self.link().turn == link.turn {
            match link.send(Method::GET, Bytes::new()).await {
                Ok(response) if response.status().is_success() && link::has_events(&response) => {
                    relay::relay(response.into_body(), true, &self.pen).await;
                }
                Ok(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {}
                // It has nothing to say by itself, or is gone, which is found out elsewhere.
                _ => return,
            }
            sleep(LISTEN_AGAIN).await;
        }
    }

    /// Notices the end of the holder also while the client says nothing.
    async fn watch(self: Arc<Self>) {
        loop {
            sleep(WATCH).await;
            let link = self.link();
            if !self.finder.is_there(&link).await
                && let Err(failure) = self.renew(&link).await
            {
                tracing::warn!("nobody serves: {}", failure.text);
            }
        }
    }

    async fn say(&self, id: Option<&str>, code: i64, text: &str) {
        self.pen.line(&message::error(id, code, text)).await;
    }

    fn link(&self) -> Arc<Link> {
        Arc::clone(&hold(&self.link))
    }

    fn hold_flights(&self) -> MutexGuard<'_, HashMap<String, Arc<Flight>>> {
        hold(&self.flights)
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
