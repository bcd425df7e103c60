//! The server entries: both forms of the list, every spelling of other clients, and what would be launched.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::file::{Document, kind_of};
use crate::problem::{Findings, Problem, element, member, quoted};
use crate::scope::Scope;
use crate::transport::{launch_fault, transport, warn_of_what_cannot_start};
use crate::{Concurrency, Config, Server, Transport};

/// One entry as it is written.
pub(crate) struct Entry<'d> {
    /// Its JSON path.
    pub(crate) at: String,
    /// Its name, if the servers are an object.
    key: Option<&'d str>,
    /// Its members.
    pub(crate) object: &'d Map<String, Value>,
}

impl Entry<'_> {
    /// The name of the server: that of the member, else the one inside.
    pub(crate) fn name(&self) -> &str {
        self.key.or_else(|| self.object.get("name")?.as_str()).unwrap_or("")
    }
}

/// The entries of the file, in order. Reports those that are no objects.
pub(crate) fn entries<'d>(document: &'d Document, findings: &mut Findings) -> Vec<Entry<'d>> {
    let base = member("$", "mcpServers");
    let mut entries = Vec::new();
    let mut add = |at: String, key: Option<&'d str>, value: &'d Value| match value {
        Value::Object(object) => entries.push(Entry { at, key, object }),
        other => findings.problem(Problem::new(
            at,
            format!("a server must be an object, not {}", kind_of(other)),
            "write {\"name\": …, \"command\": …} or {\"name\": …, \"url\": …}",
        )),
    };
    match document.root().get("mcpServers") {
        Some(Value::Array(list)) => {
            list.iter().enumerate().for_each(|(i, value)| add(element(&base, i), None, value));
        }
        Some(Value::Object(members)) => {
            members.iter().for_each(|(name, value)| add(member(&base, name), Some(name), value));
        }
        _ => {}
    }
    entries
}

/// Global values that entries inherit.
pub(crate) struct Inherited<'d> {
    /// The top level of the file.
    pub(crate) global: &'d Scope<'d>,
    /// The global time limits.
    pub(crate) limits: Limits,
}

/// The two limits of a call.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// From dispatch or the last progress.
    pub(crate) step: Duration,
    /// In all.
    pub(crate) total: Duration,
    /// Whether the file gives the total.
    pub(crate) total_given: bool,
}

impl Limits {
    /// The limits of a scope. A total that nobody wrote is never less than the step: who allows an hour between two
    /// signs of progress wants it.
    pub(crate) fn of(scope: &Scope<'_>, outer: Limits, findings: &mut Findings) -> Self {
        let step = scope.optional_duration("call_tool_timeout");
        let total = scope.optional_duration("call_tool_total_timeout");
        let total_given = total.is_some() || outer.total_given;
        let (step, total) = (step.unwrap_or(outer.step), total.unwrap_or(outer.total));
        if total_given && total < step {
            findings.warn(Problem::new(
                scope.path("call_tool_timeout"),
                "is longer than call_tool_total_timeout and can never be reached",
                "raise call_tool_total_timeout or lower call_tool_timeout",
            ));
        }
        Self { step, total: if total_given { total } else { total.max(step) }, total_given }
    }
}

/// The servers of the file. Reports every problem of every entry.
pub(crate) fn build(
    entries: &[Entry<'_>],
    inherited: &Inherited<'_>,
    findings: &mut Findings,
) -> Vec<Server> {
    let mut first: HashMap<String, &str> = HashMap::new();
    let mut servers = Vec::with_capacity(entries.len());
    for entry in entries {
        let server = server(entry, inherited, findings);
        if let Some(other) = first.get(&server.name).filter(|_| !server.name.is_empty()) {
            let message = format!("the name {} is taken by {other}", quoted(&server.name));
            findings.problem(Problem::new(
                member(&entry.at, "name"),
                message,
                "give each server a name of its own",
            ));
        }
        first.entry(server.name.clone()).or_insert(&entry.at);
        servers.push(server);
    }
    servers
}

fn server(entry: &Entry<'_>, inherited: &Inherited<'_>, findings: &mut Findings) -> Server {
    let scope = Scope::server(entry.object, &entry.at);
    let enabled = enabled(&scope, findings);
    let transport = transport(&scope, findings);
    if let Some(problem) = launch_fault(&transport, &entry.at) {
        findings.problem(problem);
    }
    if enabled {
        warn_of_what_cannot_start(&transport, &entry.at, findings);
    }
    let limits = Limits::of(&scope, inherited.limits, findings);
    let (enabled_tools, disabled_tools) = tools(&scope, findings);
    let init_timeout = scope.optional_duration("init_timeout").filter(|time| !time.is_zero());
    let global = inherited.global;
    Server {
        name: name(entry, &scope, findings),
        at: entry.at.clone(),
        transport,
        enabled,
        quarantined: scope.optional_flag("quarantined"),
        enabled_tools,
        disabled_tools,
        call_tool_timeout: limits.step,
        call_tool_total_timeout: limits.total,
        init_timeout: init_timeout.unwrap_or_else(|| handshake(global)),
        upstream_max_message_bytes: scope
            .optional_count("upstream_max_message_bytes")
            .unwrap_or_else(|| global.count("upstream_max_message_bytes")),
        concurrency: concurrency(&scope, Some(global), findings),
    }
}

/// The global limit of a handshake; zero means the default.
pub(crate) fn handshake(global: &Scope<'_>) -> Duration {
    match global.duration("init_timeout") {
        Duration::ZERO => Scope::global(&Map::new()).duration("init_timeout"),
        time => time,
    }
}

/// The longest name of a server, in bytes.
const LONGEST_NAME: usize = 128;

fn name(entry: &Entry<'_>, scope: &Scope<'_>, findings: &mut Findings) -> String {
    let inside = scope.text("name");
    let name = entry.key.map(str::to_owned).or_else(|| inside.clone()).unwrap_or_default();
    // In an object of servers the path of the entry names the name; a second one inside has to agree.
    let at = if entry.key.is_some() { entry.at.clone() } else { member(&entry.at, "name") };
    let (message, fix) = if inside.is_some_and(|inside| inside != name) {
        ("has another name inside than outside", "take the name inside out")
    } else if name.is_empty() {
        ("the server has no name", "give it one, such as \"github\"")
    } else if name.len() > LONGEST_NAME {
        ("the name is longer than 128 bytes", "choose a shorter one")
    } else if name.contains(':') {
        ("the name has a colon, which stands between server and tool", "write - or _ instead")
    } else if name.chars().any(char::is_control) {
        ("the name has a control character", "take it out")
    } else if name.trim() != name {
        ("the name begins or ends with a space, so that no call could name it", "take the space out")
    } else {
        return name;
    };
    findings.problem(Problem::new(at, message, fix));
    name
}

fn enabled(scope: &Scope<'_>, findings: &mut Findings) -> bool {
    let (enabled, disabled) = (scope.optional_flag("enabled"), scope.optional_flag("disabled"));
    if enabled.is_some() && enabled == disabled {
        findings.problem(Problem::new(
            scope.path("disabled"),
            "contradicts \"enabled\" of the same entry",
            "keep one of them",
        ));
    }
    enabled.or(disabled.map(|disabled| !disabled)).unwrap_or_else(|| scope.flag("enabled"))
}

fn tools(scope: &Scope<'_>, findings: &mut Findings) -> (Option<Vec<String>>, Vec<String>) {
    let (only, not) = (scope.texts("enabled_tools"), scope.texts("disabled_tools"));
    if !only.is_empty() && !not.is_empty() {
        findings.problem(Problem::new(
            scope.path("disabled_tools"),
            "stands beside \"enabled_tools\", which already says which tools may be called",
            "keep one of them",
        ));
    }
    if only.is_empty() && scope.given("enabled_tools").is_some() {
        findings.warn(Problem::new(
            scope.path("enabled_tools"),
            "is empty, which allows every tool",
            "take it out, or write \"enabled\": false to switch the server off",
        ));
    }
    ((!only.is_empty()).then_some(only), not)
}

/// The limit of a scope; what an entry does not say comes from `server_concurrency_defaults`.
pub(crate) fn concurrency(
    scope: &Scope<'_>,
    defaults: Option<&Scope<'_>>,
    findings: &mut Findings,
) -> Concurrency {
    let inherited = |key: &str| format!("server_concurrency_defaults.{key}");
    let count = |key: &str| {
        scope.optional_count(key).or_else(|| defaults.and_then(|d| d.optional_count(&inherited(key))))
    };
    let max = count("max_concurrent_requests").filter(|max| *max > 0);
    if max.is_none() && scope.optional_count("queue_size").is_some_and(|queue| queue > 0) {
        findings.problem(Problem::new(
            scope.path("queue_size"),
            "has nothing to wait for without \"max_concurrent_requests\"",
            "give max_concurrent_requests a number above 0, or take queue_size out",
        ));
    }
    let timeout = scope.optional_duration("queue_timeout");
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Concurrency {
        max: max.map(size),
        queue: max.and_then(|_| count("queue_size")).map_or(0, size),
        timeout: timeout.unwrap_or_else(|| match defaults {
            Some(defaults) => defaults.duration(&inherited("queue_timeout")),
            None => scope.duration("queue_timeout"),
        }),
    }
}

impl Server {
    /// A server with the defaults of an empty entry.
    #[must_use]
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        let defaults = Config::default();
        Self {
            name: name.into(),
            at: "$".to_owned(),
            transport,
            enabled: true,
            quarantined: None,
            enabled_tools: None,
            disabled_tools: Vec::new(),
            call_tool_timeout: defaults.call_tool_timeout,
            call_tool_total_timeout: defaults.call_tool_total_timeout,
            init_timeout: defaults.init_timeout,
            upstream_max_message_bytes: defaults.upstream_max_message_bytes,
            concurrency: defaults.concurrency,
        }
    }

    /// Whether the file lets callers use a tool.
    #[must_use]
    pub fn allows_tool(&self, tool: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|name| name == tool);
        self.enabled_tools.as_deref().is_none_or(listed) && !listed(&self.disabled_tools)
    }

    /// Why the server is not started, if it is not: switched off, quarantined by the file, or not possible yet.
    #[must_use]
    pub fn held(&self) -> Option<String> {
        match &self.transport {
            _ if !self.enabled => Some("disabled in the configuration file".to_owned()),
            _ if self.quarantined == Some(true) => Some("quarantined in the configuration file".to_owned()),
            Transport::Unsupported { what, .. } => Some(format!("{what} is not in this version yet")),
            _ => None,
        }
    }

    /// Stable text of everything that decides what would be started: command, arguments, variables, working
    /// directory, address and headers, references unresolved. It holds secrets: hash it before it is kept. Take it of
    /// the server as configured, not of the resolved one, so that values behind references may change.
    #[must_use]
    pub fn launch_fingerprint(&self) -> String {
        match &self.transport {
            Transport::Stdio { command, args, cwd, env } => {
                let cwd = cwd.as_deref().map(Path::to_string_lossy);
                json!(["stdio", command, args, cwd, env]).to_string()
            }
            Transport::Http { url, headers } => json!(["http", url, lowercase(headers)]).to_string(),
            Transport::Unsupported { launch, .. } => launch.clone(),
        }
    }
}

/// Header names mean the same in any case.
fn lowercase(headers: &BTreeMap<String, String>) -> BTreeMap<String, &String> {
    headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}
