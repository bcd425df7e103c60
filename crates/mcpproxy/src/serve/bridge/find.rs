//! Who serves now: another process that has the data directory, or else this one, which takes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gateway::mcp::Server;
use http::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::super::mcp::Surface;
use super::link::{Link, Lost, Way};
use super::{Heir, Refused};
use crate::daemon::exit;
use crate::daemon::runfile::RunFile;

/// How long somebody is looked for: one that starts or ends has the data directory and does not serve.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
/// A gateway with a port is restarted by whoever started it, a new version above all; it has the first go. We could not
/// give its other clients their port.
const COURTESY: Duration = Duration::from_secs(1);

/// What this process was told to be, before it found another one.
pub struct Asked {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The configuration file.
    pub config_file: PathBuf,
    /// Whether only tools that only read may be called.
    pub read_only: bool,
}

/// What the client said when it began, for every session after the first.
#[derive(Clone, Default)]
pub(super) struct Greeting {
    pub initialize: Option<Bytes>,
    pub initialized: Option<Bytes>,
}

/// Why nobody serves.
pub(super) enum Stranded {
    /// Not yet.
    Waiting(String),
    /// It cannot come to that here.
    Never(Refused),
}

/// Finds who serves.
pub(super) struct Finder<H> {
    pub heir: H,
    pub asked: Asked,
}

impl<H: Heir> Finder<H> {
    /// A link to whoever serves now, with a session as the client opened it. `last` is the one that was lost.
    pub async fn find(&self, last: Option<&Link>, greeting: &Greeting) -> Result<Link, Stranded> {
        let began = Instant::now();
        let turn = last.map_or(0, |last| last.turn + 1);
        let courtesy = last.map_or(Duration::ZERO, courtesy);
        let mut why = "it does not serve yet".to_owned();
        while began.elapsed() < PATIENCE {
            let found = match last.map(|last| &last.way) {
                // What we took we have until we end.
                Some(way) if matches!(**way, Way::Own(_)) => Some(Arc::clone(way)),
                _ => self.other(last).await.map_err(Stranded::Never)?,
            };
            let found = match found {
                None if began.elapsed() >= courtesy => self.ourselves().await.map_err(Stranded::Never)?,
                found => found,
            };
            if let Some(way) = found {
                match begin(Link::bare(way, turn), greeting).await {
                    Ok(link) => return Ok(link),
                    Err(Lost::Unsent(lost) | Lost::Sent(lost)) => why = lost,
                }
            }
            sleep(PAUSE).await;
        }
        let dir = self.asked.data_dir.display();
        Err(Stranded::Waiting(format!("another mcpproxy holds {dir} and serves nobody ({why})")))
    }

    /// Whether the process behind this link has the data directory still.
    pub async fn is_there(&self, link: &Link) -> bool {
        let Way::Socket { run, .. } = &*link.way else { return true };
        self.running().await.is_some_and(|now| now.pid == run.pid && now.started == run.started)
    }

    /// The process that has the data directory, if it can be talked to.
    async fn other(&self, last: Option<&Link>) -> Result<Option<Arc<Way>>, Refused> {
        let Some(run) = self.running().await else { return Ok(None) };
        let dir = self.asked.data_dir.display();
        let holder = format!("the mcpproxy with pid {} (version {}) that holds {dir}", run.pid, run.version);
        let held = |what: &str| Refused {
            code: exit::HELD,
            why: Some(format!("{holder} {what}: stop it, or use another --data-dir")),
        };
        let Some(socket) = run.socket.clone() else {
            return Err(held("has no Unix socket to share it (enable_socket is false)"));
        };
        let link = Link::bare(Arc::new(Way::Socket { run, socket }), 0);
        match link.speaks_mcp().await {
            Ok(Ok(())) => {}
            Ok(Err(StatusCode::SERVICE_UNAVAILABLE)) | Err(_) => return Ok(None),
            Ok(Err(status)) => return Err(held(&format!("does not speak MCP on its socket ({status})"))),
        }
        if last.is_none_or(|last| !is_same(last, &link)) {
            let status = link.status().await;
            if self.asked.read_only && status["read_only_mode"] != true {
                return Err(held("is not read-only as this one was told to be"));
            }
            self.tell(&holder, &status);
        }
        Ok(Some(link.way))
    }

    async fn ourselves(&self) -> Result<Option<Arc<Way>>, Refused> {
        let taken: Option<Server<Surface>> = self.heir.succeed().await?;
        Ok(taken.map(|server| {
            tracing::info!("took over: this process serves now");
            Arc::new(Way::Own(server))
        }))
    }

    fn tell(&self, holder: &str, status: &Value) {
        tracing::info!("this client's messages are passed to {holder}; its configuration counts");
        let ours = self.asked.config_file.to_string_lossy();
        if let Some(theirs) = status["config_path"].as_str().filter(|theirs| *theirs != ours) {
            tracing::warn!("{holder} goes by {theirs}: what {ours} says is not used");
        }
    }

    async fn running(&self) -> Option<RunFile> {
        let dir = self.asked.data_dir.clone();
        let read = tokio::task::spawn_blocking(move || RunFile::of_running(&dir)).await;
        read.ok()?.unwrap_or_else(|error| {
            tracing::debug!("run.json cannot be read: {error}");
            None
        })
    }
}

fn courtesy(last: &Link) -> Duration {
    match &*last.way {
        Way::Socket { run, .. } if run.listen.is_some() => COURTESY,
        _ => Duration::ZERO,
    }
}

fn is_same(one: &Link, other: &Link) -> bool {
    match (&*one.way, &*other.way) {
        (Way::Socket { run: one, .. }, Way::Socket { run: other, .. }) => one == other,
        _ => false,
    }
}

/// Opens the session that the client believes to have; without one there is nothing to do.
async fn begin(bare: Link, greeting: &Greeting) -> Result<Link, Lost> {
    let Some(initialize) = &greeting.initialize else { return Ok(bare) };
    let (link, _answer) = bare.greet(initialize).await?;
    if !link.has_session() {
        return Err(Lost::Sent("it opens no session".to_owned()));
    }
    if let Some(initialized) = &greeting.initialized {
        link.send(http::Method::POST, initialized.clone()).await?;
    }
    Ok(link)
}
