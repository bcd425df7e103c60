//! The configuration file: what is written, what it means, and one table of every key.
//!
//! `load` reads the file, checks it against the table in `keys` and gives either a [`Config`] with warnings or
//! every problem at once. `diff` says what a new file changes, `edit` changes a value of the file in place, `watch` notices
//! new bytes, `schema` and `show` describe. Nothing here starts anything.

mod checked;
mod diff;
pub mod duration;
pub mod edit;
mod file;
mod inspect;
pub mod keys;
mod links;
mod listen;
mod mask;
mod owner;
mod places;
mod problem;
mod running;
mod schema;
mod scope;
mod secrets;
mod servers;
mod settings;
pub mod show;
mod transport;
mod variables;
pub mod watch;

use std::path::PathBuf;

pub use diff::{Change, ChangeKind, diff};
pub use file::Document;
pub use keys::{Applies, KEYS, Key, Kind, Standing};
pub use listen::Listen;
pub use owner::{check_owner, owner_uid};
pub use places::ignored_file_in_cwd;
pub use problem::Problem;
pub use schema::{schema, schema_text};
pub use secrets::Secret;
pub use settings::{
    Activity, Concurrency, Config, Environment, LogLevel, Logging, OutputValidation, Server, ToolOutput,
    Transport, ValidationMode,
};
pub use variables::Variables;

/// What the command line says. Each present value wins over the environment and the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--config`: the file to read instead of the default one.
    pub config: Option<PathBuf>,
    /// `--data-dir`: where the program keeps its things; without `--config` the file is looked for there too.
    pub data_dir: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--log-level`.
    pub log_level: Option<String>,
    /// `--config-owner`: one more user (a name or a uid) who may own the file and its directory.
    pub config_owner: Option<String>,
    /// `--require-mcp-auth`: can only switch it on.
    pub require_mcp_auth: bool,
    /// `--read-only`: can only switch it on.
    pub read_only: bool,
}

/// Where a configuration comes from: a file, the command line and the environment.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The file that is read. It need not exist: then this is a first run.
    pub path: PathBuf,
    /// What the command line says.
    pub overrides: Overrides,
    /// The environment.
    pub variables: Variables,
}

impl Sources {
    /// Finds the path of the file: `--config`, else `mcp_config.json` in the data directory that the command line
    /// or the environment names, else `~/.mcpproxy/mcp_config.json`. The current directory is never looked into.
    ///
    /// # Errors
    /// A problem if no home directory is known and neither a file nor a data directory is named.
    pub fn new(overrides: Overrides, variables: Variables) -> Result<Self, Problem> {
        let path = places::config_path(&overrides, &variables)?;
        Ok(Self { path, overrides, variables })
    }
}

/// A configuration that was read and is in order.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The file that was read, or that a first run looked for.
    pub path: PathBuf,
    /// What the program obeys.
    pub config: Config,
    /// What a person should know: keys without effect, unknown keys, risky modes. At most about a hundred.
    pub warnings: Vec<Problem>,
    /// The file as it is written, order kept; empty on a first run.
    pub document: Document,
    /// True if there is no file: defaults apply and nothing was written.
    pub first_run: bool,
}

/// Reads and checks the file that `sources` names. A missing file is a first run, not an error.
///
/// # Errors
/// Every problem found, each with its JSON path and the fix: the file belongs to someone else, is no JSON, holds a
/// value that is out of range, or asks for a protection that this version does not have.
pub fn load(sources: &Sources) -> Result<Loaded, Vec<Problem>> {
    let extra = owner::extra_owner(sources).map_err(|problem| vec![problem])?;
    let warnings = check_owner(&sources.path, extra).map_err(|problem| vec![problem])?;
    let text = file::read(&sources.path, extra).map_err(|problem| vec![problem])?;
    let first_run = text.is_none();
    let document = match text {
        Some(text) => Document::parse(&text)?,
        None => Document::default(),
    };
    let (config, mut found) = check(&document, sources)?;
    let mut all = warnings;
    if !first_run && document.is_blank() {
        let fix = "restore it, if it held something";
        all.push(Problem::new(
            sources.path.display().to_string(),
            "is empty, so that the defaults apply",
            fix,
        ));
    }
    all.append(&mut found);
    let path = sources.path.clone();
    Ok(Loaded { path, config, warnings: all, document, first_run })
}

/// These keys of the top level alone, out of a file that is not in order as a whole. Nothing may be served by it, for what
/// the file asks to protect is not in it. `None` if the file cannot be trusted or one of these keys is not in order
/// itself; a file that is no JSON has none of them.
#[must_use]
pub fn part(sources: &Sources, keys: &[&str]) -> Option<Loaded> {
    let extra = owner::extra_owner(sources).ok()?;
    check_owner(&sources.path, extra).ok()?;
    let text = file::read(&sources.path, extra).ok()?.unwrap_or_default();
    let whole = Document::parse(&text).unwrap_or_default();
    let kept: serde_json::Map<_, _> =
        keys.iter().filter_map(|key| Some(((*key).to_owned(), whole.get(key)?.clone()))).collect();
    let document = Document::parse(&serde_json::Value::Object(kept).to_string()).ok()?;
    let (config, _) = check(&document, sources).ok()?;
    Some(Loaded { path: sources.path.clone(), config, warnings: Vec::new(), document, first_run: false })
}

/// Checks a document without touching a file, with the command line and environment of `sources`. Gives the
/// configuration and the warnings.
///
/// # Errors
/// Every problem found, as for [`load`].
pub fn check(document: &Document, sources: &Sources) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    let mut findings = problem::Findings::default();
    let entries = servers::entries(document, &mut findings);
    inspect::inspect(document, &entries, &mut findings);
    let config = checked::build(document, &entries, sources, &mut findings);
    findings.into_result().map(|warnings| (config, warnings))
}
