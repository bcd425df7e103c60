//! A server as the others see it: its state, its connection when it is asked for, its end.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::Transport;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::client::Client;

use crate::log::Log;
use crate::state::{State, Status};
use crate::supervisor::Supervisor;
use crate::watch::Watcher;
use crate::{CallFailure, Context};

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
