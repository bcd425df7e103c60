//! The life of a call: from raw arguments to a cleaned answer, delivered to the agent or into a file, and its record.
//!
//! [`call`] tells the story; each stage has a room of its name. The program reaches upstreams, files and records
//! through this crate only.

mod admit;
mod answer;
pub mod call;
pub mod caller;
mod check;
mod deliver;
mod envelope;
mod failure;
mod find;
mod hold;
mod live;
pub mod outputs;
pub mod parameters;
mod plan;
mod progress;
mod record;
mod refusal;
mod reload;
mod reply;
mod request;
mod rules;
mod tools;
mod work;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use catalog::Catalog;
use config::Config;
use content::schema::OutputSchemas;
use outputfile::{Reservations, RootProblem, Roots};
use store::{Event, EventType, OpenError, OpenReport, Retention, Store};
use tokio_util::task::TaskTracker;
use upstream::Upstreams;
use wire::spool::Spools;

pub use caller::{Caller, new_request_id};
pub use envelope::sha256_hex;
pub use find::Tool;
pub use policy::{Principal, PrincipalKind, SaveRight, Variant};
pub use reload::Reloaded;
pub use reply::Reply;
pub use tools::ToolLine;
pub use upstream::Status as UpstreamStatus;
/// Where the log of a server lies, given the directory of logs.
pub use upstream::log_path_of as server_log;
/// The record, for readers.
pub mod records {
    pub use store::{
        Event, EventType, Filter, MAX_LIMIT, OpenReport as StoreReport, ReadError, Reader, Reason,
        SavedFilter, Source, Status, StoreHealth,
    };
}
/// MCP on the wire, toward agents.
pub mod mcp {
    pub use wire::relay::quietly;
    pub use wire::server::{
        BoxBody, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Limits, Line, Lines, METHOD_NOT_FOUND,
        Payload, REFUSED, Reply, Request, Server, ServerInfo, Service,
    };
}
/// MCP on the wire, toward a gateway that runs: what the command line uses.
pub mod remote {
    pub use wire::client::{CallError, CallOptions, Client, EventParser, EventPiece, HttpOptions};
    pub use wire::spool::{Body, Spools};
}
/// The process that ends our children when we are gone.
pub use upstream::watch::run as watch_children;

use admit::Admission;
use live::{Live, Snapshot};
use work::Work;

/// How long calls may take to end after their servers have ended: a save may still be writing.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// Everything that calls share.
pub struct Gateway {
    live: Live,
    store: Arc<Store>,
    upstreams: Upstreams,
    catalog: Arc<RwLock<Arc<Catalog>>>,
    /// Output schemas that are compiled.
    schemas: Arc<OutputSchemas>,
    work: Work,
    admission: Admission,
    spools: Arc<Spools>,
    /// Calls that run, so that the end can wait for their records.
    running: TaskTracker,
    /// One reload at a time.
    reloading: Mutex<()>,
    reservations: Reservations,
    config_file: PathBuf,
    started_ms: i64,
}

/// What a gateway is opened with.
pub struct Setup {
    /// The configuration to obey.
    pub config: Config,
    /// Where it was read, or would be.
    pub config_file: PathBuf,
    /// Our version, as upstreams are told it.
    pub version: &'static str,
    /// The program, and its arguments, that becomes the watcher of our children.
    pub watcher: (PathBuf, Vec<String>),
    /// Connect a server at its first use only.
    pub lazy: bool,
}

/// Why a gateway cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenProblem {
    /// Roots that break a rule.
    #[error("{}", lines(.0))]
    Roots(Vec<RootProblem>),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The directory for large answers cannot be used.
    #[error(
        "the directory {0} for large answers cannot be used: {1}. Check that it belongs to this user and that the disk is not full"
    )]
    Spool(PathBuf, std::io::Error),
    /// The watcher could not be started.
    #[error("the process that watches over upstream processes could not be started: {0}")]
    Watcher(std::io::Error),
}

fn lines(problems: &[RootProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Gateway {
    /// Opens the store, the roots and the servers of a configuration. The data directory must exist and be locked.
    ///
    /// # Errors
    /// What is in the way, with what to do.
    pub fn open(setup: Setup) -> Result<(Arc<Self>, OpenReport), OpenProblem> {
        let Setup { config, config_file, version, watcher, lazy } = setup;
        let reservations = Reservations::default();
        let roots =
            Roots::open(live::settings(&config, &config_file, &reservations)).map_err(OpenProblem::Roots)?;
        let spool_dir = config.data_dir.join("spool");
        let spools = Spools::open(&spool_dir, config.spool_max_bytes)
            .map_err(|error| OpenProblem::Spool(spool_dir, error))?;
        let (store, report) = open_store(&config)?;
        let store = Arc::new(store);
        let started_ms = store::now_ms();
        let held = hold::held(&store, &config, started_ms);

        let catalog = Arc::new(RwLock::new(Arc::new(Catalog::default())));
        let context = upstream::Context {
            log_dir: config.log_dir.clone(),
            environment: config.environment.clone(),
            spools: spools.clone(),
            version,
            watcher: Some(watcher),
            on_listing: listing_into(catalog.clone()),
        };
        let upstreams =
            Upstreams::start(&config.servers, &held, &context, lazy).map_err(OpenProblem::Watcher)?;
        note(&store, EventType::SystemStart);
        let gateway = Self {
            live: Live::new(Snapshot::new(config, roots, held)),
            store,
            upstreams,
            catalog,
            schemas: Arc::default(),
            work: Work::new(),
            admission: Admission::default(),
            spools,
            running: TaskTracker::new(),
            reloading: Mutex::new(()),
            reservations,
            config_file,
            started_ms,
        };
        Ok((Arc::new(gateway), report))
    }

    /// Waits until every server is connected or has failed once, for at most `patience`.
    pub async fn settled(&self, patience: Duration) {
        self.upstreams.settled(patience).await;
    }

    /// Ends the servers, waits until the calls that ran have closed their records, and writes what waits to be written.
    pub async fn close(&self) {
        self.upstreams.stop().await;
        self.running.close();
        if tokio::time::timeout(LAST_CALLS, self.running.wait()).await.is_err() {
            tracing::warn!(
                "{} calls still run; the next start records them as abandoned",
                self.running.len()
            );
        }
        note(&self.store, EventType::SystemStop);
        let store = self.store.clone();
        let _ = tokio::task::spawn_blocking(move || store.flush()).await;
    }

    /// What each server is doing.
    pub fn servers(&self) -> Vec<UpstreamStatus> {
        self.upstreams.status()
    }

    /// Ends a server and starts it again.
    ///
    /// # Errors
    /// There is no such server, or it may not run.
    pub fn restart_server(&self, name: &str) -> Result<(), String> {
        self.upstreams.restart(name)
    }

    /// The file that a server's standard error goes to.
    #[must_use]
    pub fn log_path(&self, server: &str) -> Option<PathBuf> {
        self.upstreams.log_path(server)
    }

    /// Takes the tools of servers that are gone out of the catalog.
    fn forget(&self, gone: &[String]) {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        for server in gone {
            *catalog = Arc::new(catalog.without_server(server));
        }
    }

    /// Whether records can be written, and what waits.
    pub fn store_health(&self) -> store::StoreHealth {
        self.store.health()
    }

    /// When it was opened, in milliseconds since 1970.
    pub fn started_ms(&self) -> i64 {
        self.started_ms
    }

    /// Tools that are listed now.
    pub fn tool_count(&self) -> usize {
        self.catalog().len()
    }

    /// The configuration of now.
    pub fn config(&self) -> Config {
        self.live.now().config.clone()
    }

    /// What the menu says about `save_to_file` to this caller, at most about 200 characters of roots.
    pub fn save_hint(&self, principal: &Principal) -> String {
        plan::hint(&self.live.now(), principal)
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn note(store: &Store, kind: EventType) {
    if let Err(error) = store.append(Event::new(kind, store::now_ms())) {
        tracing::warn!("{kind} could not be recorded: {error}");
    }
}

fn open_store(config: &Config) -> Result<(Store, OpenReport), OpenError> {
    let (retention, body_bytes) = retention(config);
    let options = store::Options { body_bytes, retention, ..store::Options::default() };
    let store = Store::open(&config.data_dir, options)?;
    let report = store.report().clone();
    Ok((store, report))
}

/// How long rows are kept, and how much of a body they keep, in bytes.
fn retention(config: &Config) -> (Retention, usize) {
    let activity = config.activity;
    let retention = Retention {
        days: u32::try_from(activity.retention_days).unwrap_or(u32::MAX),
        max_records: activity.max_records,
        max_bytes: activity.max_size_mb.saturating_mul(1 << 20),
    };
    (retention, usize::try_from(activity.max_response_size).unwrap_or(usize::MAX))
}

fn listing_into(catalog: Arc<RwLock<Arc<Catalog>>>) -> upstream::OnListing {
    let turn = Mutex::new(());
    Arc::new(move |server, raw_tools| {
        let (listed, problems) = catalog::parse_tools(server, raw_tools.iter().map(String::as_str));
        for problem in problems {
            tracing::warn!(server, "a listed tool was left out or changed: {problem}");
        }
        let count = listed.len();
        // One listing at a time; the index is made beside the lock that every call takes.
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let current = catalog.read().unwrap_or_else(PoisonError::into_inner).clone();
        let next = Arc::new(current.with_server(server, listed));
        *catalog.write().unwrap_or_else(PoisonError::into_inner) = next;
        count
    })
}

/// Where the program's own record lies, for readers.
#[must_use]
pub fn database(data_dir: &Path) -> PathBuf {
    data_dir.join("mcpproxy.db")
}

/// The text of a raw JSON string literal. A lone surrogate becomes U+FFFD; what is no string literal stays as it is.
#[must_use]
pub fn literal_text(raw: &str) -> String {
    let Some(inside) = raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')) else { return raw.to_owned() };
    let (mut decoder, mut text) = (jsonspan::Unescape::new(), Vec::with_capacity(inside.len()));
    decoder.push(inside.as_bytes(), &mut text);
    decoder.finish(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
