//! One task per server: connect, list, watch, and connect again with back-off when it is lost or used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use config::Transport;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use wire::client::{CallError, Client, Event};

use crate::launch::Launched;
use crate::log::Log;
use crate::state::{Failure, Ready, State};
use crate::watch::Watcher;
use crate::{Context, http, launch, stop};

/// Longest wait between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// A connection that held this long counts as sound: the next attempt follows at once.
const SOUND: Duration = Duration::from_secs(10);
/// Most of a reason that is kept, in bytes; a server may have had a hand in it.
const MAX_MESSAGE: usize = 4096;
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a ready server is asked whether it is alive.
const HEALTH_CHECK: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Pings in a row that may stay unanswered before the server counts as lost.
const MISSES: u32 = 3;
/// Several list_changed notifications in a row cause one listing.
const SETTLE: Duration = Duration::from_millis(200);

/// What the task works with.
pub struct Supervisor {
    pub server: config::Server,
    pub context: Context,
    pub watcher: Option<Arc<Watcher>>,
    pub state: watch::Sender<State>,
    pub wake: Arc<Notify>,
    pub pid: Arc<AtomicU32>,
    pub stop: CancellationToken,
    pub log: Log,
    pub launches: AtomicU64,
}

/// A text of several lines as one line of our log.
fn on_one_line(text: &str) -> String {
    text.replace('\n', " | ")
}

/// A name that a server gave for itself, short enough for a line.
fn short(name: &str) -> String {
    name.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A connection and, for stdio, the process behind it.
struct Connection {
    client: Client,
    events: mpsc::Receiver<Event>,
    process: Option<Process>,
}

struct Process {
    child: tokio::process::Child,
    pid: u32,
    marker: String,
}

impl Connection {
    fn of(client: Client, process: Option<Process>) -> Self {
        // The receiver is there for whoever asks first, and that is this line.
        let events = client.events().unwrap_or_else(|| mpsc::channel(1).1);
        Self { client, events, process }
    }
}

/// A server that answers a ping with an error is alive; one that is silent, or whose connection failed, is not.
async fn lives(client: &Client) -> bool {
    !matches!(client.ping(PING_TIMEOUT).await, Err(error) if !matches!(error, CallError::Rpc { .. }))
}

impl Supervisor {
    /// Keeps the server connected until we stop. With `lazy` it begins at the first use.
    pub async fn run(self, lazy: bool) {
        if lazy && !self.rest().await {
            self.state.send_replace(State::Stopped);
            return;
        }
        let mut attempts: u32 = 0;
        while !self.stop.is_cancelled() {
            self.state.send_replace(State::Connecting);
            let began = Instant::now();
            let message = match self.attempt().await {
                Ok(reason) => {
                    if began.elapsed() >= SOUND {
                        attempts = 0;
                    }
                    reason
                }
                Err(message) => message,
            };
            if self.stop.is_cancelled() {
                break;
            }
            attempts = attempts.saturating_add(1);
            tracing::warn!(server = %self.server.name, attempts, "upstream is not connected: {}", on_one_line(&message));
            self.state.send_replace(State::Failed(Failure { message, attempts, at: SystemTime::now() }));
            self.back_off(attempts).await;
        }
        self.state.send_replace(State::Stopped);
    }

    /// Waits for the first use. False when we stop before that.
    async fn rest(&self) -> bool {
        tokio::select! {
            () = self.wake.notified() => true,
            () = self.stop.cancelled() => false,
        }
    }

    async fn back_off(&self, attempts: u32) {
        let wait = match attempts {
            0 | 1 => Duration::ZERO,
            n => Duration::from_secs(1 << (n - 2).min(16)).min(MAX_BACKOFF),
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = self.wake.notified() => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// One connection from beginning to end. `Ok` is why a connection that had become ready was lost.
    async fn attempt(&self) -> Result<String, String> {
        let mut connection = self.connect()?;
        let opened = tokio::select! {
            opened = self.open(&connection.client) => opened,
            () = self.stop.cancelled() => Err("the gateway is stopping".into()),
        };
        let outcome = match opened {
            Ok(ready) => {
                tracing::info!(server = %self.server.name, tools = ready.tools, "upstream is ready");
                self.state.send_replace(State::Ready(ready.clone()));
                let why = self.hold(&ready, &mut connection.events).await;
                // Nobody may be given a connection that is being closed.
                self.state.send_replace(State::Connecting);
                Ok(why)
            }
            Err(message) => Err(message),
        };
        let ended = self.close(connection).await;
        let with_end = |message: String| self.explain(&message, ended.as_deref());
        outcome.map(with_end).map_err(with_end)
    }

    fn connect(&self) -> Result<Connection, String> {
        let server =
            self.server.resolve_secrets(&|name| std::env::var(name).ok()).map_err(|p| p.to_string())?;
        if matches!(server.transport, Transport::Http { .. }) {
            return Ok(Connection::of(http::connect(&server, &self.context)?, None));
        }
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        let Launched { child, pid, marker, stdin, stdout } =
            launch::launch(&server, &self.context, &self.log, self.watcher.as_ref(), number)?;
        self.pid.store(pid, Ordering::Relaxed);
        let client = Client::stdio(stdout, stdin, self.stdio_options());
        Ok(Connection::of(client, Some(Process { child, pid, marker })))
    }

    fn stdio_options(&self) -> wire::client::Options {
        wire::client::Options {
            name: self.server.name.clone(),
            client_version: self.context.version.into(),
            max_message_bytes: self.server.upstream_max_message_bytes,
            spools: self.context.spools.clone(),
        }
    }

    /// `initialize`, `tools/list`, and the listing handed on.
    async fn open(&self, client: &Client) -> Result<Ready, String> {
        let told = client.initialize(self.server.init_timeout).await.map_err(|e| {
            format!("it did not complete `initialize` (limit {:?}): {e}", self.server.init_timeout)
        })?;
        let tools = self.list(client).await?;
        Ok(Ready {
            client: client.clone(),
            told: format!("{} {}", short(&told.name), short(&told.version)),
            protocol: told.protocol,
            tools,
        })
    }

    async fn list(&self, client: &Client) -> Result<usize, String> {
        let tools = client.list_tools(LIST_TIMEOUT).await.map_err(|e| format!("`tools/list` failed: {e}"))?;
        let (name, on_listing) = (self.server.name.clone(), self.context.on_listing.clone());
        // A long list takes a while to read and to index.
        let taken = tokio::task::spawn_blocking(move || {
            on_listing(&name, tools.into_iter().map(|t| t.get().to_owned()).collect())
        });
        taken.await.map_err(|e| format!("its tools could not be listed: {e}"))
    }

    /// Watches a ready connection until it is lost or we stop; returns why.
    async fn hold(&self, ready: &Ready, events: &mut mpsc::Receiver<Event>) -> String {
        let client = &ready.client;
        let mut health = tokio::time::interval(HEALTH_CHECK);
        health.reset();
        let mut misses = 0;
        loop {
            tokio::select! {
                why = self.lost(client) => return why,
                event = events.recv() => match event {
                    Some(Event::ToolsChanged) => tokio::select! {
                        () = self.list_again(ready, events) => {}
                        why = self.lost(client) => return why,
                    },
                    Some(Event::Noise { head, count }) => {
                        self.log.note(&format!("no message on its output, passed over ({count} so far): {head}"));
                    }
                    Some(Event::Log(line)) => tracing::debug!(server = %self.server.name, level = line.level, "{}", line.data),
                    None => return client.closed().await,
                },
                // A server that is busy with a call may be too busy to answer; the call has its own limits.
                _ = health.tick(), if client.calls_in_flight() == 0 => {
                    let alive = tokio::select! {
                        alive = lives(client) => alive,
                        why = self.lost(client) => return why,
                    };
                    misses = if alive || client.calls_in_flight() > 0 { 0 } else { misses + 1 };
                    if misses >= MISSES {
                        return format!("it did not answer {MISSES} pings in a row");
                    }
                }
            }
        }
    }

    /// Waits until the connection is over or we stop; returns why.
    async fn lost(&self, client: &Client) -> String {
        tokio::select! {
            why = client.closed() => why,
            () = self.stop.cancelled() => "the gateway is stopping".into(),
        }
    }

    /// A server that says its list changed is listed again; when that fails the old list stays.
    async fn list_again(&self, ready: &Ready, events: &mut mpsc::Receiver<Event>) {
        sleep(SETTLE).await;
        while events.try_recv().is_ok() {}
        match self.list(&ready.client).await {
            Ok(tools) => {
                self.state.send_replace(State::Ready(Ready { tools, ..ready.clone() }));
            }
            Err(message) => {
                tracing::warn!(server = %self.server.name, "the changed tool list was not read: {message}");
            }
        }
    }

    /// Closes the connection and ends the process; returns how the process ended.
    async fn close(&self, connection: Connection) -> Option<String> {
        connection.client.shutdown().await;
        let mut process = connection.process?;
        drop(connection.client);
        let ended = stop::end(&mut process.child, process.pid, &process.marker).await;
        self.pid.store(0, Ordering::Relaxed);
        if let Some(watcher) = &self.watcher {
            watcher.release(process.pid);
        }
        Some(ended)
    }

    fn explain(&self, message: &str, ended: Option<&str>) -> String {
        let mut text = message[..message.floor_char_boundary(MAX_MESSAGE)].to_owned();
        if let Some(ended) = ended {
            text.push_str(&format!(" ({ended})"));
        }
        let tail = self.log.tail();
        if !tail.is_empty() {
            text.push_str(&format!("; the end of its stderr: {tail}"));
        }
        text
    }
}
