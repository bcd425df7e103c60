//! One task per server: connect, list, watch, and connect again with back-off when it is lost or used.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use config::Transport;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use wire::client::{CallError, Client, Event};

use crate::launch::Launched;
use crate::log::Log;
use crate::state::{Failure, Ready, State, Status};
use crate::watch::Watcher;
use crate::{CallFailure, Context, http, launch, stop};

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

/// What a supervised server begins with.
pub struct Start {
    /// Its entry.
    pub server: config::Server,
    /// Why it is held, if it is.
    pub held: Option<String>,
    /// What all supervisors share.
    pub context: Context,
    /// Who watches over its process.
    pub watcher: Option<Arc<Watcher>>,
    /// Connect it at its first use only.
    pub lazy: bool,
    /// The one before, which ends first.
    pub after: Option<Arc<Supervised>>,
}

/// A server and the task that keeps it connected.
pub struct Supervised {
    server: config::Server,
    held: Option<String>,
    state: watch::Receiver<State>,
    wake: Arc<Notify>,
    pid: Arc<AtomicU32>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    log: Log,
}

impl Supervised {
    /// Starts the task, unless the entry may not run. The one before is ended in any case.
    pub fn start(start: Start) -> Arc<Self> {
        let Start { server, held, context, watcher, lazy, after } = start;
        let log = Log::open(&context.log_dir, &server.name);
        let resting = if lazy { State::Resting } else { State::Connecting };
        let first = not_running(&server, held.as_ref()).unwrap_or(resting);
        let runs = matches!(first, State::Resting | State::Connecting);
        let (sender, state) = watch::channel(first);
        let (wake, pid, stop) =
            (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)), CancellationToken::new());
        let supervisor = Supervisor {
            server: server.clone(),
            context,
            watcher,
            state: sender,
            wake: wake.clone(),
            pid: pid.clone(),
            stop: stop.clone(),
            log: log.clone(),
            launches: AtomicU64::new(0),
        };
        let task = tokio::spawn(async move {
            if let Some(before) = after {
                before.stop().await;
            }
            if runs {
                supervisor.run(lazy).await;
            } else {
                // The state stays what it is for as long as somebody may ask.
                supervisor.stop.cancelled().await;
            }
        });
        Arc::new(Self { server, held, state, wake, pid, stop, task: Mutex::new(Some(task)), log })
    }

    /// Whether this entry is run, or held, in the same way; limits of single calls may differ.
    pub fn is_the_same(&self, server: &config::Server, held: Option<&String>) -> bool {
        let ours = &self.server;
        self.held.as_ref() == held
            && ours.enabled == server.enabled
            && ours.quarantined == server.quarantined
            && ours.init_timeout == server.init_timeout
            && ours.upstream_max_message_bytes == server.upstream_max_message_bytes
            && ours.launch_fingerprint() == server.launch_fingerprint()
    }

    /// Why the entry may not run, if it may not.
    pub fn why_not_running(&self) -> Option<String> {
        not_running(&self.server, self.held.as_ref()).map(|state| state.detail())
    }

    /// The beginning of the same server after this one.
    pub fn again(self: &Arc<Self>, context: &Context, watcher: Option<Arc<Watcher>>) -> Start {
        Start {
            server: self.server.clone(),
            held: self.held.clone(),
            context: context.clone(),
            watcher,
            lazy: false,
            after: Some(self.clone()),
        }
    }

    /// Where its log lies.
    pub fn log_path(&self) -> &std::path::Path {
        self.log.path()
    }

    /// The line of this server in `status`.
    pub fn status(&self) -> Status {
        let state = self.state.borrow().clone();
        let pid = self.pid.load(Ordering::Relaxed);
        Status {
            name: self.server.name.clone(),
            protocol: match self.server.transport {
                Transport::Stdio { .. } => "stdio",
                Transport::Http { .. } => "http",
                Transport::Unsupported { .. } => "unsupported",
            },
            state: state.word(),
            detail: state.detail(),
            tools: if let State::Ready(ready) = &state { ready.tools } else { 0 },
            pid: (pid != 0).then_some(pid),
        }
    }

    /// The connection, waited for at most `patience`; a resting or failed server is tried at once, one time.
    pub async fn ready(&self, patience: Duration) -> Result<Client, CallFailure> {
        if let State::Ready(ready) = &*self.state.borrow()
            && !ready.client.is_closed()
        {
            return Ok(ready.client.clone());
        }
        timeout(patience, self.wait_until_ready())
            .await
            .unwrap_or_else(|_| Err(self.unavailable(&format!("it is not connected after {patience:?}"))))
    }

    async fn wait_until_ready(&self) -> Result<Client, CallFailure> {
        let mut state = self.state.clone();
        let mut failures_seen = None;
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                State::Ready(ready) if !ready.client.is_closed() => return Ok(ready.client),
                // One whose connection has just ended is about to be connected again.
                State::Ready(_) | State::Connecting => {}
                State::Resting => self.wake.notify_one(),
                State::Failed(failure) => {
                    if failures_seen.is_some_and(|seen| failure.attempts > seen) {
                        return Err(self.unavailable(&failure.message));
                    }
                    failures_seen = Some(failure.attempts);
                    self.wake.notify_one();
                }
                State::Disabled | State::Quarantined(_) | State::Unsupported(_) | State::Stopped => {
                    return Err(self.unavailable(&format!("it is {}: {}", now.word(), now.detail())));
                }
            }
            if state.changed().await.is_err() {
                return Err(self.unavailable("the gateway is stopping"));
            }
        }
    }

    /// Whether it is being connected, and never was before.
    pub fn is_starting(&self) -> bool {
        matches!(*self.state.borrow(), State::Connecting)
    }

    /// Waits until the server is ready, may not run, or has failed once.
    pub async fn settled(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|s| !matches!(s, State::Connecting)).await;
    }

    /// Ends the connection and the process.
    pub async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    fn unavailable(&self, why: &str) -> CallFailure {
        CallFailure::Unavailable(format!(
            "Server '{}' cannot be called: {why}. Its log: {}",
            self.server.name,
            self.log.path().display()
        ))
    }
}

/// The state of an entry that must not run, if it must not.
fn not_running(server: &config::Server, held: Option<&String>) -> Option<State> {
    if !server.enabled {
        return Some(State::Disabled);
    }
    if server.quarantined == Some(true) {
        let why =
            "held: not started and not connected; take \"quarantined\": true out of its entry to start it";
        return Some(State::Quarantined(why.into()));
    }
    if let Some(why) = held {
        return Some(State::Quarantined(why.clone()));
    }
    match &server.transport {
        Transport::Unsupported { what, .. } => Some(State::Unsupported(what.clone())),
        _ => None,
    }
}

struct Supervisor {
    server: config::Server,
    context: Context,
    watcher: Option<Arc<Watcher>>,
    state: watch::Sender<State>,
    wake: Arc<Notify>,
    pid: Arc<AtomicU32>,
    stop: CancellationToken,
    log: Log,
    launches: AtomicU64,
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
    async fn run(self, lazy: bool) {
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
