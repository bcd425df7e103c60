//! Upstream servers: launched, supervised, listed and called. An upstream can be called only with a `policy::Permit`.

mod environment;
mod http;
mod launch;
mod log;
mod state;
mod stop;
mod supervise;
mod supervisor;
pub mod watch;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use policy::Permit;
use wire::client::{CallError, CallOptions, Client};
use wire::spool::{Body, Spools};

pub use log::path_of as log_path_of;
pub use state::{State, Status};

use supervise::{Start, Supervised};

/// Told a server's name and the raw entries of its tools; answers how many of them can be called.
pub type OnListing = Arc<dyn Fn(&str, Vec<String>) -> usize + Send + Sync>;

/// What the supervisors share: where they log, who watches their children, and whom they tell about listed tools.
#[derive(Clone)]
pub struct Context {
    /// Directory of the per-server logs.
    pub log_dir: PathBuf,
    /// Environment policy for children.
    pub environment: config::Environment,
    /// Where large messages overflow to.
    pub spools: Arc<Spools>,
    /// Version that we give upstreams in `clientInfo`.
    pub version: &'static str,
    /// The program that becomes the watcher process, and its arguments; `None` runs without one (tests of this crate).
    pub watcher: Option<(PathBuf, Vec<String>)>,
    /// Told the raw tool entries of a server, before the server counts as ready.
    pub on_listing: OnListing,
}

/// All upstream servers of the configuration of now.
pub struct Upstreams {
    servers: RwLock<Arc<Servers>>,
    context: Context,
    lazy: bool,
    /// Held so that the watcher ends with us and not before.
    watcher: Mutex<Option<Arc<watch::Watcher>>>,
}

type Servers = HashMap<String, Arc<Supervised>>;

/// Servers that are held, by name, and why.
pub type Held = HashMap<String, String>;

/// Why an upstream could not be called, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// It is not connected, and could not be connected in time. The text says why and what to do.
    #[error("{0}")]
    Unavailable(String),
    /// It was called and failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A server that is connected.
pub struct Connected {
    server: String,
    client: Client,
}

impl Connected {
    /// Calls the tool that the permit names. Returns the raw `result` object as the upstream sent it.
    ///
    /// # Errors
    /// The permit is for another server, or the upstream failed, timed out, said too much or nothing, or the call was
    /// cancelled.
    pub async fn call(
        &self,
        permit: &Permit,
        arguments: Bytes,
        options: CallOptions,
    ) -> Result<Body, CallFailure> {
        if permit.server() != self.server {
            return Err(CallFailure::Unavailable(format!("The permit is not for server '{}'.", self.server)));
        }
        Ok(self.client.call_tool(permit.tool(), arguments, options).await?)
    }
}

impl Upstreams {
    /// Starts a supervisor for each entry that may run and is not held. With `lazy` an entry is connected at its first
    /// use only.
    ///
    /// # Errors
    /// The watcher process could not be started; without it children could outlive us.
    pub fn start(
        servers: &[config::Server],
        held: &Held,
        context: &Context,
        lazy: bool,
    ) -> std::io::Result<Self> {
        let upstreams =
            Self { servers: RwLock::default(), context: context.clone(), lazy, watcher: Mutex::new(None) };
        upstreams.reconfigure(servers, held)?;
        Ok(upstreams)
    }

    /// Goes over to other entries: what is new is started, what is gone is ended, what is launched differently is ended
    /// and started again, and the rest runs on undisturbed. Returns at once; ends and starts follow.
    ///
    /// # Errors
    /// As for [`Upstreams::start`]; nothing has changed then.
    pub fn reconfigure(&self, servers: &[config::Server], held: &Held) -> std::io::Result<Changed> {
        let watcher = self.watcher(servers)?;
        let mut current = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        let (mut next, mut changed) = (Servers::new(), Changed::default());
        for server in servers {
            let why_held = held.get(&server.name);
            let running = current.get(&server.name);
            if let Some(running) = running.filter(|r| r.is_the_same(server, why_held)) {
                next.insert(server.name.clone(), running.clone());
                continue;
            }
            changed.servers.push(server.name.clone());
            let start = Start {
                server: server.clone(),
                held: why_held.cloned(),
                context: self.context.clone(),
                watcher: watcher.clone(),
                lazy: self.lazy,
                after: running.cloned(),
            };
            next.insert(server.name.clone(), Supervised::start(start));
        }
        for (name, gone) in current.iter().filter(|(name, _)| !next.contains_key(*name)) {
            changed.gone.push(name.clone());
            let gone = gone.clone();
            tokio::spawn(async move { gone.stop().await });
        }
        *current = Arc::new(next);
        Ok(changed)
    }

    /// Ends the server and starts it again.
    ///
    /// # Errors
    /// There is no such server, or it may not run.
    pub fn restart(&self, name: &str) -> Result<(), String> {
        let mut current = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = current.get(name).cloned() else {
            return Err(format!("no server named '{name}' is in the configuration"));
        };
        if let Some(why) = running.why_not_running() {
            return Err(format!("server '{name}' may not run: {why}"));
        }
        let mut next = Servers::clone(&current);
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).clone();
        next.insert(name.to_owned(), Supervised::start(running.again(&self.context, watcher)));
        *current = Arc::new(next);
        Ok(())
    }

    /// The file that a server's standard error goes to.
    #[must_use]
    pub fn log_path(&self, name: &str) -> Option<PathBuf> {
        self.all().get(name).map(|s| s.log_path().to_owned())
    }

    /// The watcher, started when the first entry needs it.
    fn watcher(&self, servers: &[config::Server]) -> std::io::Result<Option<Arc<watch::Watcher>>> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.is_none()
            && servers.iter().any(launch::starts_a_process)
            && let Some((program, arguments)) = &self.context.watcher
        {
            *watcher = Some(Arc::new(watch::Watcher::spawn(program, arguments)?));
        }
        Ok(watcher.clone())
    }

    fn all(&self) -> Arc<Servers> {
        Arc::clone(&self.servers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What each server is doing, by name.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let mut all: Vec<Status> = self.all().values().map(|s| s.status()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Waits until the server is ready, for at most `patience`; a server that rests or backs off is connected at once.
    /// What is listed now was listed by this connection.
    ///
    /// # Errors
    /// It is not ready in time: the last reason, and where its log is.
    pub async fn ready(&self, server: &str, patience: Duration) -> Result<Connected, CallFailure> {
        let client = self.supervised(server)?.ready(patience).await?;
        Ok(Connected { server: server.to_owned(), client })
    }

    /// Servers that are still being connected for the first time.
    #[must_use]
    pub fn starting(&self) -> usize {
        self.all().values().filter(|s| s.is_starting()).count()
    }

    /// Waits until every server that may run is ready or has failed once, for at most `patience`.
    pub async fn settled(&self, patience: Duration) {
        let servers = self.all();
        let all = async {
            for server in servers.values() {
                server.settled().await;
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
    }

    /// Ends every server: input closed, then SIGTERM, then SIGKILL, all side by side, within about six seconds.
    pub async fn stop(&self) {
        let mut ends = tokio::task::JoinSet::new();
        for server in self.all().values() {
            let server = Arc::clone(server);
            ends.spawn(async move { server.stop().await });
        }
        while ends.join_next().await.is_some() {}
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(watcher) = watcher {
            watcher.dismiss();
        }
    }

    fn supervised(&self, server: &str) -> Result<Arc<Supervised>, CallFailure> {
        self.all().get(server).cloned().ok_or_else(|| {
            CallFailure::Unavailable(format!("No server named '{server}' is in the configuration."))
        })
    }
}

/// What a reconfiguration did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Entries that are new or are started anew.
    pub servers: Vec<String>,
    /// Entries that are no longer there.
    pub gone: Vec<String>,
}
