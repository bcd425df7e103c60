//! What every command begins with: the configuration, the log, the runtime and the exit codes.

use std::io::IsTerminal;
use std::path::Path;

use config::{Config, Loaded, LogLevel, Overrides, Problem, Sources, Variables};

use super::Common;
use super::output;
use crate::daemon::runfile::RunFile;
use crate::serve::judge;

/// Exit codes.
pub mod exit {
    /// Done.
    pub const OK: u8 = 0;
    /// It did not work.
    pub const GENERAL: u8 = 1;
    /// The configuration is not in order.
    pub const CONFIG: u8 = 4;
}

/// What a command takes from a file that is not in order, to reach the gateway that runs.
const TO_REACH: [&str; 4] = ["data_dir", "api_key", "upstream_max_message_bytes", "spool_max_bytes"];

/// Where the configuration comes from, and what it says.
#[derive(Clone)]
pub struct Configured {
    /// Where it comes from.
    pub sources: Sources,
    /// What it says.
    pub loaded: Loaded,
    /// Why the file is not in order. Then `loaded` holds only what finds the gateway that runs: nothing is served by it.
    pub problems: Vec<Problem>,
}

impl Configured {
    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// Tells the problems of a file that is not in order.
    ///
    /// # Errors
    /// The exit code, if there are any.
    pub fn in_order(&self) -> Result<(), u8> {
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(tell_problems(Some(&self.sources.path), &self.problems))
    }
}

/// Reads the configuration, or tells every problem.
///
/// # Errors
/// The exit code, after the problems were told.
pub fn configuration(common: &Common, more: impl FnOnce(&mut Overrides)) -> Result<Configured, u8> {
    let sources = sources(common, more)?;
    let loaded = judge::load(&sources).map_err(|problems| tell_problems(Some(&sources.path), &problems))?;
    Ok(Configured { sources, loaded, problems: Vec::new() })
}

/// Reads the configuration for a command that works through the gateway that runs, if one does: that one goes on with the
/// configuration that it has, and a mistake made in the file since then is no reason not to reach it.
///
/// # Errors
/// The exit code, after the problems were told, if the file is not in order and no gateway runs.
pub fn at_work(common: &Common, more: impl FnOnce(&mut Overrides)) -> Result<Configured, u8> {
    let sources = sources(common, more)?;
    let problems = match judge::load(&sources) {
        Ok(loaded) => return Ok(Configured { sources, loaded, problems: Vec::new() }),
        Err(problems) => problems,
    };
    let running = |loaded: &Loaded| matches!(RunFile::of_running(&loaded.config.data_dir), Ok(Some(_)));
    let part = |keys| config::part(&sources, keys);
    let found = part(&TO_REACH).or_else(|| part(&TO_REACH[..1])).or_else(|| part(&[]));
    let Some(loaded) = found.filter(running) else {
        return Err(tell_problems(Some(&sources.path), &problems));
    };
    output::tell(&format!(
        "The configuration {} is not in order, so the gateway that runs goes on with the one before \
         (`mcpproxy config validate` tells what is wrong).",
        output::shown(&sources.path.to_string_lossy())
    ));
    Ok(Configured { sources, loaded, problems })
}

fn sources(common: &Common, more: impl FnOnce(&mut Overrides)) -> Result<Sources, u8> {
    let mut overrides = Overrides {
        config: common.config.clone(),
        data_dir: common.data_dir.clone(),
        config_owner: common.config_owner.clone(),
        log_level: common.log_level.clone(),
        ..Overrides::default()
    };
    more(&mut overrides);
    let variables: Variables = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    Sources::new(overrides, variables).map_err(|problem| tell_problems(None, &[problem]))
}

/// Tells problems of the configuration.
fn tell_problems(file: Option<&Path>, problems: &[Problem]) -> u8 {
    let file = file.map_or(String::new(), |file| format!(" {}", output::shown(&file.to_string_lossy())));
    output::tell(&format!("The configuration{file} is not in order:"));
    for problem in problems {
        output::tell(&format!("  {}", output::shown(&problem.to_string())));
    }
    exit::CONFIG
}

/// Logs to standard error, with colours on a terminal only; `loudest` keeps a command quiet whatever the file says.
pub fn log(config: &Config, loudest: Option<LogLevel>) {
    let level = loudest.map_or(config.logging.level, |least| config.logging.level.max(least)).as_str();
    let filter = format!(
        "warn,mcpproxy={level},gateway={level},upstream={level},wire={level},store={level},outputfile={level}"
    );
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .try_init();
}

/// Runs a future to its end.
///
/// # Errors
/// The exit code, when the system gives no threads.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        output::tell(&format!("The program's threads could not be started: {error}"));
        exit::GENERAL
    })?;
    let result = runtime.block_on(future);
    // Only what nobody waits for any more can still run, such as a read of a standard input that never ends.
    runtime.shutdown_background();
    Ok(result)
}

/// The program itself as the watcher of its children.
pub fn watcher() -> std::io::Result<(std::path::PathBuf, Vec<String>)> {
    Ok((std::env::current_exe()?, vec![super::WATCH_COMMAND.to_owned()]))
}
