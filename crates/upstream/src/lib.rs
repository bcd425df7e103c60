//! Upstream servers: launched, supervised, listed and called. An upstream can be called only with a `policy::Permit`.

mod environment;
mod http;
mod launch;
mod log;
mod state;
mod stop;
mod supervise;
pub mod watch;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use policy::Permit;
use wire::client::{CallError, CallOptions, Client};
use wire::spool::{Body, Spools};

pub use state::{State, Status};

use supervise::Supervised;

/// Told a server's name and the raw entries of its tools.
pub type OnListing = Arc<dyn Fn(&str, Vec<String>) + Send + Sync>;

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

/// All upstream servers of one configuration.
pub struct Upstreams {
    servers: HashMap<String, Arc<Supervised>>,
    /// Held so that the watcher ends with us and not before.
    watcher: Option<Arc<watch::Watcher>>,
}

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
    /// Starts a supervisor for each entry that may run. With `lazy` an entry is connected at its first use only.
    ///
    /// # Errors
    /// The watcher process could not be started; without it children could outlive us.
    pub fn start(servers: &[config::Server], context: &Context, lazy: bool) -> std::io::Result<Self> {
        let watcher = match &context.watcher {
            Some((program, arguments)) if servers.iter().any(launch::starts_a_process) => {
                Some(Arc::new(watch::Watcher::spawn(program, arguments)?))
            }
            _ => None,
        };
        let servers = servers
            .iter()
            .map(|server| {
                let supervised = Supervised::start(server.clone(), context.clone(), watcher.clone(), lazy);
                (server.name.clone(), supervised)
            })
            .collect();
        Ok(Self { servers, watcher })
    }

    /// What each server is doing, by name.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let mut all: Vec<Status> = self.servers.values().map(|s| s.status()).collect();
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
        self.servers.values().filter(|s| s.is_starting()).count()
    }

    /// Waits until every server that may run is ready or has failed once, for at most `patience`.
    pub async fn settled(&self, patience: Duration) {
        let waits = self.servers.values().map(|s| s.settled());
        let all = async {
            for wait in waits {
                wait.await;
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
    }

    /// Ends every server: input closed, then SIGTERM, then SIGKILL, all side by side, within about six seconds.
    pub async fn stop(&self) {
        let mut ends = tokio::task::JoinSet::new();
        for server in self.servers.values() {
            let server = Arc::clone(server);
            ends.spawn(async move { server.stop().await });
        }
        while ends.join_next().await.is_some() {}
        if let Some(watcher) = &self.watcher {
            watcher.dismiss();
        }
    }

    fn supervised(&self, server: &str) -> Result<&Arc<Supervised>, CallFailure> {
        self.servers.get(server).ok_or_else(|| {
            CallFailure::Unavailable(format!("No server named '{server}' is in the configuration."))
        })
    }
}
