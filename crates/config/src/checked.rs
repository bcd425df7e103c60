//! From a document to a configuration: defaults filled in, command line and environment on top.

use std::path::PathBuf;

use crate::file::Document;
use crate::listen::Listen;
use crate::problem::{Findings, Problem, element, quoted};
use crate::scope::Scope;
use crate::servers::{self, Entry, Inherited, Limits};
use crate::settings::{
    Activity, Concurrency, Config, Environment, LogLevel, Logging, OutputValidation, ToolOutput,
    ValidationMode,
};
use crate::transport::variable_fault;
use crate::{Secret, Sources, duration, places};

/// The configuration. It is whole also when there are problems, so that all of them are found.
pub(crate) fn build(
    document: &Document,
    entries: &[Entry<'_>],
    sources: &Sources,
    findings: &mut Findings,
) -> Config {
    let global = Scope::global(document.root());
    let limits = limits(&global, findings);
    let require_mcp_auth = global.flag("require_mcp_auth") || sources.overrides.require_mcp_auth;
    let data_dir = places::data_dir(&global, sources, findings);
    let config = Config {
        listen: listen(&global, sources, require_mcp_auth, findings),
        log_dir: places::log_dir(&global, &data_dir, findings),
        data_dir,
        api_key: api_key(&global, sources, findings),
        enable_socket: global.flag("enable_socket"),
        require_mcp_auth,
        trusted_hosts: trusted_hosts(&global, findings),
        servers: servers::build(entries, &Inherited { global: &global, limits }, findings),
        tools_limit: tools_limit(&global),
        call_tool_timeout: limits.step,
        call_tool_total_timeout: limits.total,
        init_timeout: servers::handshake(&global),
        upstream_max_message_bytes: global.count("upstream_max_message_bytes"),
        spool_max_bytes: global.count("spool_max_bytes"),
        max_result_size_chars: i64::try_from(global.count("max_result_size_chars")).unwrap_or(i64::MAX),
        output: output(&global),
        output_validation: output_validation(&global, findings),
        hold_new_servers: global.optional_flag("quarantine_enabled") != Some(false),
        read_only_mode: global.flag("read_only_mode") || sources.overrides.read_only,
        intent_strict: global.flag("intent_declaration.strict_server_validation"),
        instructions: global.text("instructions"),
        concurrency: concurrency(&global, sources, findings),
        environment: environment(&global, findings),
        logging: Logging { level: log_level(&global, sources, findings) },
        activity: activity(&global),
        disable_management: global.flag("disable_management"),
        allow_server_add: global.flag("allow_server_add"),
        allow_server_remove: global.flag("allow_server_remove"),
    };
    warn_of_small_spools(&config, findings);
    refuse_variables(sources, findings);
    config
}

fn limits(global: &Scope<'_>, findings: &mut Findings) -> Limits {
    let defaults = Limits {
        step: global.duration("call_tool_timeout"),
        total: global.duration("call_tool_total_timeout"),
        total_given: false,
    };
    Limits::of(global, defaults, findings)
}

/// Where a setting that the command line and the environment can give comes from: its name there, and its text.
fn outside<'s>(
    flag: (&str, Option<&'s str>),
    variable: &str,
    sources: &'s Sources,
) -> Option<(String, &'s str)> {
    let from_flag = flag.1.map(|text| (flag.0.to_owned(), text));
    from_flag.or_else(|| sources.variables.get(variable).map(|text| (variable.to_owned(), text)))
}

fn listen(global: &Scope<'_>, sources: &Sources, auth: bool, findings: &mut Findings) -> Listen {
    let fix = "write host:port, such as 127.0.0.1:8080, [::1]:8080 or :8080";
    let mut read = |path: String, text: &str| match Listen::parse(text) {
        Ok(listen) => Some((path, listen)),
        Err(what) => {
            findings.problem(Problem::new(path, format!("{} {what}", quoted(text)), fix));
            None
        }
    };
    let file = global.text("listen").and_then(|text| read(global.path("listen"), &text));
    let flag = ("--listen", sources.overrides.listen.as_deref());
    let over = outside(flag, "MCPPROXY_LISTEN", sources).and_then(|(path, text)| read(path, text));
    let fallback = || (global.path("listen"), Listen { host: "127.0.0.1".to_owned(), port: 8080 });
    let (path, listen) = over.or(file).unwrap_or_else(fallback);
    if !listen.is_loopback() && !auth {
        findings.problem(Problem::new(
            path,
            format!(
                "{} can be reached from other machines, and require_mcp_auth is off",
                quoted(&listen.to_string())
            ),
            "set \"require_mcp_auth\": true, or listen on 127.0.0.1",
        ));
    }
    listen
}

fn api_key(global: &Scope<'_>, sources: &Sources, findings: &mut Findings) -> Option<Secret> {
    let file = global.text("api_key").map(|key| (global.path("api_key"), key));
    let variable = sources.variables.get("MCPPROXY_API_KEY");
    let (path, key) = variable.map(|key| ("MCPPROXY_API_KEY".to_owned(), key.to_owned())).or(file)?;
    if key.contains("${") {
        let fix = "write the key itself, or set MCPPROXY_API_KEY";
        findings.problem(Problem::new(
            path,
            "holds a reference, which is not replaced here: anyone could guess it",
            fix,
        ));
    } else if !key.bytes().all(|b| b.is_ascii_graphic()) {
        let fix = "use letters, digits and signs, without spaces";
        findings.problem(Problem::new(path, "has characters that no HTTP header can carry", fix));
    }
    Some(Secret::new(key))
}

fn trusted_hosts(global: &Scope<'_>, findings: &mut Findings) -> Vec<String> {
    let hosts = global.texts("trusted_hosts");
    for (index, host) in hosts.iter().enumerate() {
        let is_host = |c: char| c.is_alphanumeric() || "-_.:[]*".contains(c);
        if host.is_empty() || !host.chars().all(is_host) || (host.contains('*') && host != "*") {
            findings.problem(Problem::new(
                element(&global.path("trusted_hosts"), index),
                format!("{} is no host", quoted(host)),
                "write host, host:port, .suffix or *",
            ));
        }
    }
    if hosts.iter().any(|host| host == "*") {
        findings.warn(Problem::new(
            global.path("trusted_hosts"),
            "\"*\" lets web pages reach this gateway through a name of their own",
            "name the hosts that you use",
        ));
    }
    hosts
}

fn tools_limit(global: &Scope<'_>) -> usize {
    usize::try_from(limit(global, "tools_limit")).unwrap_or(usize::MAX)
}

/// A number for which 0 means the default.
fn limit(global: &Scope<'_>, key: &str) -> u64 {
    match global.count(key) {
        0 => Scope::global(&serde_json::Map::new()).count(key),
        limit => limit,
    }
}

fn output(global: &Scope<'_>) -> ToolOutput {
    let max_bytes = limit(global, "tool_output_max_bytes");
    let mode = global.text("tool_output_file_mode").and_then(|text| u32::from_str_radix(&text, 8).ok());
    let pairs = global.pairs("tool_output_path_map");
    ToolOutput {
        roots: global.paths("tool_output_roots"),
        max_bytes,
        allow_hidden: global.flag("tool_output_allow_hidden"),
        file_mode: mode.unwrap_or(0o600),
        trusted_owners: global.texts("tool_output_trusted_owners"),
        trusted_directories: global.paths("tool_output_trusted_directories"),
        path_map: pairs.into_iter().map(|(a, b)| (PathBuf::from(a), PathBuf::from(b))).collect(),
        min_free_bytes: global.count("tool_output_min_free_bytes"),
        max_total_bytes: global.count("tool_output_max_total_bytes"),
    }
}

fn output_validation(global: &Scope<'_>, findings: &mut Findings) -> OutputValidation {
    let mode = global.text("output_validation.mode").and_then(|text| ValidationMode::parse(&text));
    let mode = mode.unwrap_or(ValidationMode::Warn);
    let block_missing =
        global.text("output_validation.missing_structured_content").as_deref() == Some("block");
    if block_missing && mode == ValidationMode::Off {
        findings.warn(Problem::new(
            global.path("output_validation.missing_structured_content"),
            "has no effect while output_validation.mode is \"off\"",
            "set the mode to \"warn\" or \"strict\", or take this key out",
        ));
    }
    OutputValidation {
        mode,
        max_bytes: limit(global, "output_validation.max_bytes"),
        max_depth: limit(global, "output_validation.max_depth"),
        block_missing,
    }
}

/// The global limit; the environment wins over the file, value by value.
fn concurrency(global: &Scope<'_>, sources: &Sources, findings: &mut Findings) -> Concurrency {
    let mut limit = servers::concurrency(global, None, findings);
    let mut number = |name: &str| {
        let text = sources.variables.get(name)?;
        let number = text.parse::<usize>().ok().filter(|number| *number <= 1_000_000);
        if number.is_none() {
            let message = format!("{} is no whole number from 0 to 1000000", quoted(text));
            findings.problem(Problem::new(name, message, "set it to a number, or unset it"));
        }
        number
    };
    if let Some(max) = number("MCPPROXY_MAX_CONCURRENT_REQUESTS") {
        limit.max = (max > 0).then_some(max);
    }
    if let Some(queue) = number("MCPPROXY_QUEUE_SIZE") {
        limit.queue = queue;
    }
    if let Some(text) = sources.variables.get("MCPPROXY_QUEUE_TIMEOUT") {
        match duration::parse(text) {
            Ok(time) if !time.is_zero() => limit.timeout = time,
            _ => findings.problem(Problem::new(
                "MCPPROXY_QUEUE_TIMEOUT",
                format!("{} is no duration above zero", quoted(text)),
                "set it to a duration such as 30s, or unset it",
            )),
        }
    }
    if limit.max.is_none() {
        limit.queue = 0;
    }
    limit
}

fn environment(global: &Scope<'_>, findings: &mut Findings) -> Environment {
    let custom_vars = global.text_map("environment.custom_vars");
    if let Some(problem) = variable_fault(&custom_vars, &global.path("environment.custom_vars")) {
        findings.problem(problem);
    }
    Environment {
        inherit_system_safe: global.flag("environment.inherit_system_safe"),
        allowed_system_vars: global.texts("environment.allowed_system_vars"),
        custom_vars,
        enhance_path: global.flag("environment.enhance_path"),
        forward_proxy_env: global.flag("environment.forward_proxy_env") || global.flag("forward_proxy_env"),
    }
}

fn log_level(global: &Scope<'_>, sources: &Sources, findings: &mut Findings) -> LogLevel {
    let file = global.text("logging.level").and_then(|text| LogLevel::parse(&text)).unwrap_or(LogLevel::Info);
    let Some(text) = sources.overrides.log_level.as_deref() else { return file };
    LogLevel::parse(text).unwrap_or_else(|| {
        let message = format!("{} is no level", quoted(text));
        findings.problem(Problem::new("--log-level", message, "use trace, debug, info, warn or error"));
        file
    })
}

fn activity(global: &Scope<'_>) -> Activity {
    Activity {
        retention_days: global.count("activity_retention_days"),
        max_records: global.count("activity_max_records"),
        max_size_mb: global.count("activity_max_size_mb"),
        max_response_size: global.count("activity_max_response_size"),
    }
}

fn warn_of_small_spools(config: &Config, findings: &mut Findings) {
    if config.spool_max_bytes < config.upstream_max_message_bytes {
        findings.warn(Problem::new(
            "$.spool_max_bytes",
            "is smaller than upstream_max_message_bytes, so that the largest messages never fit",
            "raise spool_max_bytes or lower upstream_max_message_bytes",
        ));
    }
}

/// Variables that the other program obeys and this one does not: those that ask for a protection end the start.
fn refuse_variables(sources: &Sources, findings: &mut Findings) {
    for (name, what) in
        [("MCPPROXY_TLS_ENABLED", "TLS"), ("MCPPROXY_TLS_REQUIRE_CLIENT_CERT", "client certificates")]
    {
        let is_on =
            |text: &str| matches!(text.to_ascii_lowercase().as_str(), "1" | "t" | "true" | "yes" | "on");
        if sources.variables.get(name).is_some_and(is_on) {
            let message = format!("asks for {what}, which is not in this version yet");
            findings.problem(Problem::new(name, message, "unset it, if you can do without"));
        }
    }
    if sources.variables.get("MCPPROXY_TRUSTED_HOSTS").is_some() {
        let fix = "write them as \"trusted_hosts\" into the configuration file";
        findings.warn(Problem::new(
            "MCPPROXY_TRUSTED_HOSTS",
            "is not read: only the file can trust a host",
            fix,
        ));
    }
    for name in [
        "MCPPROXY_TOOL_RESPONSE_MODE",
        "MCPPROXY_HTTP_READ_TIMEOUT",
        "MCPPROXY_HTTP_WRITE_TIMEOUT",
        "MCPPROXY_HTTP_IDLE_TIMEOUT",
        "MCPPROXY_CERTS_DIR",
        "MCPPROXY_TPA_BUNDLE_PATH",
    ] {
        if sources.variables.get(name).is_some() {
            findings.warn(Problem::new(
                name,
                "is not in this version yet and has no effect",
                "unset it to be rid of this line",
            ));
        }
    }
}
