//! `serve`: the gateway runs until it is told to end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use config::{Config, Overrides};
use gateway::mcp::{Limits, Server};
use gateway::records::{Source, StoreReport};
use gateway::{Gateway, OpenProblem, PrincipalKind, Setup};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::setup::{self, Configured, exit};
use super::{Common, output};
use crate::daemon::apikey::{self, ApiKey};
use crate::daemon::datadir::DataDir;
use crate::daemon::lock::{Lock, LockError};
use crate::daemon::runfile::{Published, RunFile};
use crate::daemon::socket::SocketFile;
use crate::serve::bridge;
use crate::serve::caller::Witness;
use crate::serve::control::Control;
use crate::serve::guard::{Guard, Rules, TrustedHosts};
use crate::serve::judge;
use crate::serve::listen::{self, Doors};
use crate::serve::mcp::{Agent, Surface};
use crate::serve::rest::Shared;
use crate::serve::router::router;

/// Servers that have neither connected nor failed after this long do not hold up readiness any longer.
const SETTLE: Duration = Duration::from_secs(10);

/// Flags of `serve`.
#[derive(Args, Default)]
pub struct Flags {
    /// Address to listen on, as HOST:PORT [default: 127.0.0.1:8080]
    #[arg(short = 'l', long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Serve one agent on standard input and output instead of listening on a port
    #[arg(long)]
    stdio: bool,
    /// Ask every caller of /mcp for the API key, also on loopback
    #[arg(long)]
    require_mcp_auth: bool,
    /// Only tools that say they only read may be called
    #[arg(long)]
    read_only: bool,
}

/// Runs the command.
pub fn run(common: &Common, flags: Flags) -> u8 {
    let stdio = flags.stdio;
    let more = |overrides: &mut Overrides| {
        overrides.listen = flags.listen;
        overrides.require_mcp_auth = flags.require_mcp_auth;
        overrides.read_only = flags.read_only;
    };
    // Over stdio it may be a bridge to the gateway that runs, which needs no file.
    let configured = if stdio { setup::at_work(common, more) } else { setup::configuration(common, more) };
    let configured = match configured {
        Ok(configured) => configured,
        Err(code) => return code,
    };
    setup::log(configured.config(), None);
    notices(&configured);
    let served = async {
        let end = CancellationToken::new();
        end_on_signals(end.clone());
        if stdio {
            return over_stdio(configured, end).await;
        }
        let house = House::open(configured, false).await?;
        house.live(end, false).await;
        Ok(exit::OK)
    };
    setup::block_on(served).and_then(|code| code).unwrap_or_else(|code| code)
}

/// Serves one agent: as the gateway, or as a bridge to the one that has the data directory.
async fn over_stdio(configured: Configured, end: CancellationToken) -> Result<u8, u8> {
    if let Some((dir, lock)) = free_place(&configured.config().data_dir).await? {
        let house = House::open_in(&dir, lock, configured, true).await?;
        house.live(end, true).await;
        return Ok(exit::OK);
    }
    let asked = bridge::Asked {
        data_dir: configured.config().data_dir.clone(),
        config_file: configured.sources.path.clone(),
        read_only: configured.config().read_only_mode,
    };
    bear_hangups();
    let living = Arc::default();
    let heir = Heir { at_start: configured, end: end.clone(), living: Arc::clone(&living) };
    let (input, output) = (tokio::io::stdin(), Box::new(tokio::io::stdout()));
    let served = bridge::run(heir, asked, input, output, &end).await;
    end.cancel();
    let house = living.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(house) = house {
        // A house that broke down has said so.
        let _ = house.await;
    }
    served.map(|()| exit::OK).map_err(|refused| match refused.why {
        Some(why) => fail(&why, refused.code),
        None => refused.code,
    })
}

/// SIGHUP asks for the configuration to be loaded again. A bridge has none to obey, and must not end of it.
fn bear_hangups() {
    tokio::spawn(async {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        while hangup.recv().await.is_some() {
            tracing::info!("SIGHUP: whoever holds the data directory reads the configuration again");
        }
    });
}

/// The data directory and its lock, unless another mcpproxy holds it.
async fn free_place(data_dir: &Path) -> Result<Option<(DataDir, Lock)>, u8> {
    let data_dir = data_dir.to_owned();
    // Taking the lock may wait a little.
    let taken = tokio::task::spawn_blocking(move || {
        let dir = DataDir::open(&data_dir).map_err(|e| fail(&e, e.exit_code()))?;
        match Lock::take(&dir) {
            Ok(lock) => Ok(Some((dir, lock))),
            Err(LockError::Held { .. }) => Ok(None),
            Err(error) => Err(fail(&error, error.exit_code())),
        }
    });
    taken.await.map_err(|e| fail(&e, exit::GENERAL))?
}

/// A `serve --stdio` that found another one in its place, and takes it when that one has ended.
struct Heir {
    at_start: Configured,
    end: CancellationToken,
    /// The house that it opened, until it has let everything go.
    living: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl bridge::Heir for Heir {
    async fn succeed(&self) -> Result<Option<Server<Surface>>, bridge::Refused> {
        let told = |code| bridge::Refused { code, why: None };
        let Some((dir, lock)) = free_place(&self.at_start.config().data_dir).await.map_err(told)? else {
            return Ok(None);
        };
        let opened = House::open_in(&dir, lock, self.configured_now(), true);
        let house = Box::pin(opened).await.map_err(told)?;
        let server = house.mcp.clone();
        let living = tokio::spawn(house.live(self.end.clone(), false));
        *self.living.lock().unwrap_or_else(PoisonError::into_inner) = Some(living);
        Ok(Some(server))
    }
}

impl Heir {
    /// The file as it is now; if that cannot be used, as it was at the start.
    fn configured_now(&self) -> Configured {
        match judge::load(&self.at_start.sources) {
            Ok(loaded) if loaded.config.data_dir == self.at_start.config().data_dir => {
                Configured { sources: self.at_start.sources.clone(), loaded, problems: Vec::new() }
            }
            Ok(_) => {
                tracing::warn!("the configuration names another data directory by now: that needs a restart");
                self.at_start.clone()
            }
            Err(problems) if !self.at_start.problems.is_empty() => {
                Configured { problems, ..self.at_start.clone() }
            }
            Err(problems) => {
                for problem in problems {
                    tracing::error!("the configuration is not in order, that of the start counts: {problem}");
                }
                self.at_start.clone()
            }
        }
    }
}

fn notices(configured: &Configured) {
    for warning in &configured.loaded.warnings {
        tracing::warn!("configuration: {warning}");
    }
    if configured.loaded.first_run {
        tracing::warn!(
            "there is no configuration file at {}: running with defaults and no servers. `mcpproxy config init` writes one; it \
             is used as soon as it is there",
            configured.sources.path.display()
        );
    }
    if let Some(notice) = config::ignored_file_in_cwd(&configured.sources.path) {
        tracing::warn!("{notice}");
    }
}

/// Ends on SIGTERM or SIGINT; a second one ends at once.
pub fn end_on_signals(end: CancellationToken) {
    tokio::spawn(async move {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
        let [Ok(mut term), Ok(mut int)] = kinds.map(signal) else { return };
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if end.is_cancelled() {
                tracing::warn!("told to end twice: ending at once");
                // The watcher ends the upstream processes, and the open records are closed at the next start.
                end_now();
            }
            tracing::info!("ending; once more ends at once");
            end.cancel();
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "a person asked twice; nothing may hold this up")]
fn end_now() -> ! {
    std::process::exit(i32::from(exit::GENERAL))
}

/// Everything that a running gateway holds, in the order in which it is let go.
pub struct House {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// The key of the API.
    pub key: ApiKey,
    /// Where it listens.
    pub listen: Option<SocketAddr>,
    mcp: Server<Surface>,
    doors: Doors,
    guard: Guard,
    shared: Arc<Shared>,
    _published: Published,
    _socket: Option<SocketFile>,
    _lock: Lock,
}

impl House {
    /// Takes the data directory, binds the doors and opens the gateway.
    ///
    /// # Errors
    /// The exit code, after the reason was told.
    pub async fn open(configured: Configured, stdio: bool) -> Result<Self, u8> {
        let dir = DataDir::open(&configured.config().data_dir).map_err(|e| fail(&e, e.exit_code()))?;
        let lock = Lock::take(&dir).map_err(|e| fail(&e, e.exit_code()))?;
        Self::open_in(&dir, lock, configured, stdio).await
    }

    /// The same in a data directory that was taken.
    async fn open_in(dir: &DataDir, lock: Lock, configured: Configured, stdio: bool) -> Result<Self, u8> {
        configured.in_order()?;
        let Configured { sources, loaded, .. } = configured;
        let config = &loaded.config;
        let key = api_key(config, dir, &lock)?;
        let mut doors = Doors::default();
        let mut listen = None;
        if !stdio {
            let door = listen::bind(&config.listen.host, config.listen.port, config.require_mcp_auth);
            let door = door.await.map_err(|e| fail(&e, e.exit_code()))?;
            listen = door.local_addr().ok();
            doors.tcp.push(door);
        }
        let socket = if config.enable_socket { Some(bind_socket(dir, &lock, &mut doors)?) } else { None };
        let rules = Rules {
            key: key.clone(),
            trusted_hosts: TrustedHosts::parse(&config.trusted_hosts),
            require_mcp_auth: config.require_mcp_auth,
        };
        let gateway = open_gateway(config.clone(), &sources.path, false)?;
        let mcp = Server::new(Arc::new(Surface::new(gateway.clone())), Limits::default());
        let guard = Guard::new(rules);
        let config_file = sources.path.clone();
        let control = Control::new(sources, loaded, gateway.clone(), mcp.clone(), guard.clone(), key.clone());
        let shared = Arc::new(Shared {
            gateway: gateway.clone(),
            settled: AtomicBool::new(false),
            listen,
            socket: socket.as_ref().map(|s| s.path().to_owned()),
            config_file,
            control,
        });
        let run = RunFile {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            listen,
            socket: shared.socket.clone(),
            started: u64::try_from(gateway.started_ms()).unwrap_or(0),
        };
        let published =
            run.publish(dir, &lock).map_err(|e| fail(&format!("run.json cannot be written: {e}"), 1))?;
        Ok(Self {
            mcp,
            gateway,
            key,
            listen,
            doors,
            guard,
            shared,
            _published: published,
            _socket: socket,
            _lock: lock,
        })
    }

    /// Serves until `end` fires (or, over stdio, the agent goes), then lets everything go.
    pub async fn live(self, end: CancellationToken, stdio: bool) {
        let (gateway, shared) = (self.gateway.clone(), self.shared.clone());
        tokio::spawn(async move {
            gateway.settled(SETTLE).await;
            shared.settled.store(true, Ordering::Release);
        });
        if let Some(address) = self.listen {
            tracing::info!("listening on http://{address}/mcp");
        }
        let _watch = self.shared.watch_the_file();
        reload_on_hangup(self.shared.clone());
        let routes = router(self.guard.clone(), self.mcp.clone(), self.shared.clone());
        let witness = Arc::new(Witness::new());
        if let Some(why) = witness.blindness() {
            tracing::warn!(
                "callers on loopback cannot be told apart ({why}): they need the API key or the Unix socket"
            );
        }
        let doors =
            tokio::spawn(listen::serve(self.doors, routes, witness, listen::Limits::default(), end.clone()));
        if stdio {
            let agent = Agent::new(PrincipalKind::Stdio, Source::Mcp);
            self.mcp.stdio(tokio::io::stdin(), tokio::io::stdout(), agent, end.clone()).await;
            end.cancel();
        }
        let mcp = self.mcp.clone();
        let leaving = end.clone();
        // Streams on which clients only listen must not hold up the end.
        tokio::spawn(async move {
            leaving.cancelled().await;
            mcp.end_news();
        });
        let _ = doors.await;
        self.gateway.close().await;
    }
}

/// SIGHUP loads the configuration again, also when no byte of it changed.
fn reload_on_hangup(shared: Arc<Shared>) {
    tokio::spawn(async move {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        while hangup.recv().await.is_some() {
            let shared = shared.clone();
            // The outcome is in the log and in `status`.
            let _ = tokio::task::spawn_blocking(move || shared.control.reload(true)).await;
        }
    });
}

fn bind_socket(dir: &DataDir, lock: &Lock, doors: &mut Doors) -> Result<SocketFile, u8> {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
    let bound = SocketFile::bind(dir, runtime_dir.as_deref(), lock);
    let (listener, file) = bound.map_err(|e| fail(&e, e.exit_code()))?;
    doors.unix = Some(tokio::net::UnixListener::from_std(listener).map_err(|e| fail(&e, exit::GENERAL))?);
    Ok(file)
}

fn api_key(config: &Config, dir: &DataDir, lock: &Lock) -> Result<ApiKey, u8> {
    let variable = std::env::var(apikey::VARIABLE).ok();
    let configured = config.api_key.as_ref().map(|secret| secret.expose().to_owned());
    ApiKey::find_or_make(variable.as_deref(), configured.as_deref(), dir, lock)
        .map_err(|e| fail(&e, e.exit_code()))
}

/// Opens the gateway of a configuration whose data directory is ours and locked.
///
/// # Errors
/// The exit code, after the reason was told.
pub fn open_gateway(config: Config, config_file: &Path, lazy: bool) -> Result<Arc<Gateway>, u8> {
    if let Err(error) = std::fs::create_dir_all(&config.log_dir) {
        return Err(fail(
            &format!("the log directory {} cannot be made: {error}", config.log_dir.display()),
            1,
        ));
    }
    let watcher = setup::watcher().map_err(|e| fail(&e, exit::GENERAL))?;
    let setup = Setup {
        config,
        config_file: config_file.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        watcher,
        lazy,
    };
    let (gateway, report) = Gateway::open(setup).map_err(|problem| match &problem {
        OpenProblem::Roots(_) => {
            output::tell("The configuration is not in order:");
            fail(&problem, exit::CONFIG)
        }
        _ => fail(&problem, exit::GENERAL),
    })?;
    tell_report(&report);
    Ok(gateway)
}

fn tell_report(report: &StoreReport) {
    if let Some(path) = &report.moved_aside {
        tracing::error!("the database was damaged: it was moved to {} and a new one begins", path.display());
    }
    if report.abandoned > 0 {
        tracing::warn!(
            "{} calls were running when the last run ended; they are recorded as abandoned",
            report.abandoned
        );
    }
    if let Some(kind) = report.network_file_system {
        tracing::warn!(
            "the data directory lies on a network file system ({kind}): prefer a local one (--data-dir)"
        );
    }
    if let Some(version) = report.migrated_from {
        tracing::info!("the database was brought from schema {version} to the current one");
    }
}

fn fail(error: &impl std::fmt::Display, code: u8) -> u8 {
    output::tell(&format!("Error: {}", output::shown(&error.to_string())));
    code
}
