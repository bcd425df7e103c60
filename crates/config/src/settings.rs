//! What the program obeys, in types that cannot be out of range.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Document, Listen, Overrides, Secret, Sources, Variables};

/// The whole configuration, defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where to listen.
    pub listen: Listen,
    /// Where the program keeps its database, key, socket and spools; absolute.
    pub data_dir: PathBuf,
    /// Where logs go; absolute.
    pub log_dir: PathBuf,
    /// The key of the REST API if the environment or the file names one; else it lies in a file of the data directory.
    pub api_key: Option<Secret>,
    /// Whether to listen on the Unix socket too.
    pub enable_socket: bool,
    /// Whether `/mcp` needs a token even from the local caller.
    pub require_mcp_auth: bool,
    /// Hosts that requests may name besides this machine's own: `host`, `host:port`, `.suffix` or `*`.
    pub trusted_hosts: Vec<String>,
    /// The upstream servers in the order of the file, disabled ones included.
    pub servers: Vec<Server>,
    /// How many tools a search gives when the caller does not say.
    pub tools_limit: usize,
    /// How long a tool call may take from dispatch or its last progress.
    pub call_tool_timeout: Duration,
    /// How long a tool call may take in all.
    pub call_tool_total_timeout: Duration,
    /// How long an upstream may take to answer `initialize`.
    pub init_timeout: Duration,
    /// The largest message of an upstream, in bytes.
    pub upstream_max_message_bytes: u64,
    /// What all spools together may hold, in bytes.
    pub spool_max_bytes: u64,
    /// Advertised as `anthropic/maxResultSizeChars`; 0 = not advertised.
    pub max_result_size_chars: i64,
    /// Saving answers to files.
    pub output: ToolOutput,
    /// Checking structured output against the schemas that tools declare.
    pub output_validation: OutputValidation,
    /// Servers that appear, or are launched differently, after the first start are held (`quarantine_enabled`).
    pub hold_new_servers: bool,
    /// Only tools that say they only read may run.
    pub read_only_mode: bool,
    /// A read or write call of a tool that says it is destructive is refused.
    pub intent_strict: bool,
    /// Text for the `initialize` reply instead of the built-in one.
    pub instructions: Option<String>,
    /// How many calls may run at once over all servers.
    pub concurrency: Concurrency,
    /// What environment children get.
    pub environment: Environment,
    /// What is logged.
    pub logging: Logging,
    /// How long records are kept.
    pub activity: Activity,
    /// No surface may manage servers.
    pub disable_management: bool,
    /// A surface may add servers.
    pub allow_server_add: bool,
    /// A surface may remove servers.
    pub allow_server_remove: bool,
}

impl Default for Config {
    /// What an empty file means: the defaults of the keys table, with the home directory of this process.
    fn default() -> Self {
        let home = ["HOME", "USERPROFILE"].into_iter().filter_map(|k| std::env::var(k).ok().map(|v| (k, v)));
        let sources = Sources {
            path: PathBuf::from("mcp_config.json"),
            overrides: Overrides::default(),
            variables: home.collect::<Variables>(),
        };
        crate::checked::build(&Document::default(), &[], &sources, &mut crate::problem::Findings::default())
    }
}

/// One upstream server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Its name: not empty, at most 128 bytes, unique, no `:`, no control character.
    pub name: String,
    /// The JSON path of its entry, for messages.
    pub at: String,
    /// How to reach it.
    pub transport: Transport,
    /// False if the file switches it off.
    pub enabled: bool,
    /// What the file says about quarantine, if it says anything. `Some(true)` is never started.
    pub quarantined: Option<bool>,
    /// If present, only these tools may be called.
    pub enabled_tools: Option<Vec<String>>,
    /// These tools may not be called.
    pub disabled_tools: Vec<String>,
    /// How long a call may take from dispatch or its last progress; the global value if the entry has none.
    pub call_tool_timeout: Duration,
    /// How long a call may take in all.
    pub call_tool_total_timeout: Duration,
    /// How long `initialize` may take.
    pub init_timeout: Duration,
    /// The largest message, in bytes.
    pub upstream_max_message_bytes: u64,
    /// How many calls may run at once on this server.
    pub concurrency: Concurrency,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks on stdin and stdout.
    Stdio {
        /// The program: a path, or a name that is looked for in `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its working directory; ours if absent.
        cwd: Option<PathBuf>,
        /// Variables added to its environment.
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// The address, `http://` or `https://`.
        url: String,
        /// Headers added to every request.
        headers: BTreeMap<String, String>,
    },
    /// Something that this version cannot start; the file is fine and the other servers run.
    Unsupported {
        /// What it is, such as "the legacy HTTP+SSE transport".
        what: String,
        /// Canonical text of everything that decides what would be started; holds secrets.
        launch: String,
    },
}

impl fmt::Debug for Transport {
    /// Names only: arguments, variables, headers and addresses hold secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, cwd, env } => out
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &args.len())
                .field("cwd", cwd)
                .field("env", &env.keys())
                .finish(),
            Self::Http { url, headers } => out
                .debug_struct("Http")
                .field("url", &crate::transport::shown_url(url))
                .field("headers", &headers.keys())
                .finish(),
            Self::Unsupported { what, .. } => out.debug_struct("Unsupported").field("what", what).finish(),
        }
    }
}

/// Saving answers to files. Only the shape is checked here; `outputfile` checks what the paths mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Directories that a save may write into, absolute; empty = the feature is off.
    pub roots: Vec<PathBuf>,
    /// The largest file, in bytes.
    pub max_bytes: u64,
    /// Whether names below a root may begin with a dot.
    pub allow_hidden: bool,
    /// Mode of a new file.
    pub file_mode: u32,
    /// Users (names or uids) who may own a root besides us.
    pub trusted_owners: Vec<String>,
    /// Directories whose owner and mode are not judged, absolute.
    pub trusted_directories: Vec<PathBuf>,
    /// Paths as we see them, and as the caller sees them.
    pub path_map: Vec<(PathBuf, PathBuf)>,
    /// What must stay free on the file system, in bytes; 0 = not checked.
    pub min_free_bytes: u64,
    /// What saved files may take per root, in bytes; 0 = no limit.
    pub max_total_bytes: u64,
}

/// Checking structured output against the schemas that tools declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputValidation {
    /// What happens to what does not keep its schema.
    pub mode: ValidationMode,
    /// The largest structured output that is checked, in bytes.
    pub max_bytes: u64,
    /// The deepest that is checked, a scalar being 1 deep.
    pub max_depth: u64,
    /// Whether an answer without the structured output that its tool declares is stopped.
    pub block_missing: bool,
}

/// What happens to structured output that does not keep its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidationMode {
    /// It is not looked at.
    Off,
    /// It is passed on and recorded.
    Warn,
    /// It is stopped.
    Strict,
}

impl ValidationMode {
    /// Reads a mode as the file writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::Warn, Self::Strict].into_iter().find(|mode| mode.as_str() == text)
    }

    /// The mode as the file writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Strict => "strict",
        }
    }
}

/// A limit on calls that run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// How many may run; `None` = no limit.
    pub max: Option<usize>,
    /// How many may wait for a place.
    pub queue: usize,
    /// How long one may wait.
    pub timeout: Duration,
}

/// What environment children get.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// Whether they inherit the variables of `allowed_system_vars`.
    pub inherit_system_safe: bool,
    /// Names that may be inherited.
    pub allowed_system_vars: Vec<String>,
    /// Variables for every child.
    pub custom_vars: BTreeMap<String, String>,
    /// Whether well-known tool directories are added to a short `PATH`.
    pub enhance_path: bool,
    /// Whether proxy variables are passed on, without the credentials in them.
    pub forward_proxy_env: bool,
}

impl fmt::Debug for Environment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Environment")
            .field("inherit_system_safe", &self.inherit_system_safe)
            .field("allowed_system_vars", &self.allowed_system_vars)
            .field("custom_vars", &self.custom_vars.keys())
            .field("enhance_path", &self.enhance_path)
            .field("forward_proxy_env", &self.forward_proxy_env)
            .finish()
    }
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// The least important level that is written.
    pub level: LogLevel,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// What a developer wants.
    Debug,
    /// What an operator wants.
    Info,
    /// What may need a hand.
    Warn,
    /// What failed.
    Error,
}

impl LogLevel {
    /// Reads a level as the file writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error]
            .into_iter()
            .find(|l| l.as_str() == text)
    }

    /// The level as the file writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// How long records are kept; 0 = no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Age in days.
    pub retention_days: u64,
    /// Number of records.
    pub max_records: u64,
    /// Size in megabytes (of 2^20 bytes).
    pub max_size_mb: u64,
    /// How much of a response a record keeps, in bytes.
    pub max_response_size: u64,
}
