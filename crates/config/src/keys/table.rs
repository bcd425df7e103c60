//! The table itself: one entry a key, the only place that knows defaults.

use std::time::Duration;

use serde_json::Value;

use super::{Key, Kind};

const BOOL: Kind = Kind::Bool;
const TEXT: Kind = Kind::Text;
/// A count or size from 0 up.
const COUNT: Kind = Kind::Integer { min: 0, max: i64::MAX };
/// A number of calls or waiting places.
const PLACES: Kind = Kind::Integer { min: 0, max: 1_000_000 };
/// The size of a message: less than 1 KiB holds no reply at all.
const MESSAGE: Kind = Kind::Integer { min: 1024, max: i64::MAX };
const YEARS: Duration = Duration::from_secs(100 * 365 * 86_400);
/// A time limit that must be one.
const LIMIT: Kind = Kind::Duration { min: Duration::from_millis(1), max: YEARS, zero: false };
/// A time, or zero for "off" or "the default".
const TIME: Kind = Kind::Duration { min: Duration::from_nanos(1), max: YEARS, zero: true };
const HANDSHAKE: Kind =
    Kind::Duration { min: Duration::from_millis(10), max: Duration::from_secs(1800), zero: true };
const TOON: Kind = Kind::Choice(&["off", "adaptive", "always"]);
/// Every spelling of a transport that clients write.
pub(crate) const PROTOCOLS: &[&str] =
    &["stdio", "local", "http", "streamable-http", "streamable_http", "streamableHttp", "sse", "auto"];

/// What a child may inherit: names that programs need to find things, and none that holds a secret.
const SYSTEM_VARIABLES: &str = r#"["PATH","HOME","TMPDIR","TEMP","TMP","SHELL","TERM","LANG","USER","USERNAME",
"XDG_CONFIG_HOME","XDG_DATA_HOME","XDG_CACHE_HOME","XDG_RUNTIME_DIR","LC_ALL","LC_CTYPE","LC_NUMERIC","LC_TIME",
"LC_COLLATE","LC_MONETARY","LC_MESSAGES","LC_PAPER","LC_NAME","LC_ADDRESS","LC_TELEPHONE","LC_MEASUREMENT",
"LC_IDENTIFICATION","DOCKER_HOST","DOCKER_CONTEXT","DOCKER_CONFIG","DOCKER_CERT_PATH","DOCKER_TLS_VERIFY","NVM_DIR",
"ASDF_DIR","PYENV_ROOT","VOLTA_HOME","HOMEBREW_PREFIX","COLIMA_HOME","USERPROFILE","APPDATA","LOCALAPPDATA",
"PROGRAMFILES","SYSTEMROOT","COMSPEC"]"#;

const CATEGORIES: &str = r#"{"cloud_credentials":true,"private_key":true,"api_token":true,"auth_token":true,
"sensitive_file":true,"database_credential":true,"high_entropy":true,"credit_card":true}"#;

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn is_false(value: &Value) -> bool {
    value.as_bool() == Some(false)
}

/// True for a list or object with something in it, and for `true`.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        other => is_true(other),
    }
}

/// The registries that the other program writes into every file by itself.
fn is_stock_registries(value: &Value) -> bool {
    let stock =
        |entry: &Value| matches!(entry["id"].as_str(), Some("official" | "reference" | "docker-mcp-catalog"));
    value.as_array().is_some_and(|entries| entries.iter().all(stock))
}

/// Nothing is sent anywhere, which is what `false` asks for.
fn is_telemetry_off(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.iter().all(|(name, v)| name == "enabled" && is_false(v)))
}

fn asks_for_users(value: &Value) -> bool {
    is_true(&value["enabled"])
}

const fn key(path: &'static str, kind: Kind, default: &'static str, example: &'static str) -> Key {
    Key::new(path, kind, default, example)
}

/// Every key, those of the whole program first, then those of a server entry. One row a key.
#[rustfmt::skip]
pub static KEYS: &[Key] = &[
    // The program.
    key("listen", TEXT, r#""127.0.0.1:8080""#, r#"":9090""#).restart().doc("Address to listen on; an empty host is 127.0.0.1, port 0 lets the system choose; beyond loopback only with require_mcp_auth"),
    key("data_dir", TEXT, "null", r#""/tmp/mcpproxy-data""#).restart().doc("Directory for database, key, socket, logs and spools; a leading ~/ and ${env:NAME} are expanded; default ~/.mcpproxy"),
    key("api_key", TEXT, "null", r#""0123456789abcdef""#).restart().doc("Key of the REST API; MCPPROXY_API_KEY wins; empty or absent: made and kept in <data_dir>/api_key"),
    key("enable_socket", BOOL, "true", "false").restart().doc("Listen on a Unix socket in the data directory too"),
    key("tray_endpoint", TEXT, "null", r#""unix:///tmp/tray.sock""#).restart().not_yet().doc("Another address for the tray program"),
    key("require_mcp_auth", BOOL, "false", "true").file_only().doc("Callers of /mcp need a token, the local user too; a flag may only switch it on"),
    key("trusted_hosts", Kind::Texts, "[]", r#"["gateway.example"]"#).file_only().doc("Hosts that requests may name besides this machine's own: host, host:port, .suffix or *"),
    key("mcpServers", Kind::Servers, "[]", r#"[{"name":"other","command":"other"}]"#).doc("The upstream servers: a list of entries, or an object whose names are the servers' names"),
    key("instructions", TEXT, r#""""#, r#""Search first.""#).doc("Text for the reply to initialize; empty = the built-in one"),
    // Who may do what.
    key("read_only_mode", BOOL, "false", "true").doc("Only tools that say they only read may run; saves make new files only"),
    key("intent_declaration.strict_server_validation", BOOL, "true", "false").doc("Refuse call_tool_read and call_tool_write for a tool that says it is destructive"),
    key("disable_management", BOOL, "false", "true").doc("Agents may not manage servers (no tool of this version can)"),
    key("allow_server_add", BOOL, "true", "false").doc("Agents may add servers (no tool of this version can)"),
    key("allow_server_remove", BOOL, "true", "false").doc("Agents may remove servers (no tool of this version can)"),
    key("allow_agent_management", BOOL, "false", "true").file_only().not_yet().doc("Agents may add, change and approve servers"),
    key("quarantine_enabled", BOOL, "null", "true").file_only().refused("the approval of new and changed tools; new servers are held without this key", is_true).doc("false: new and changed servers are not held"),
    key("profiles", Kind::List, "[]", r#"[{"name":"work","servers":["a"]}]"#).refused("scopes of servers (profiles)", is_something).doc("Named views of some servers at /mcp/p/<name>"),
    key("forward_headers", Kind::Any, "null", r#"["X-Team"]"#).file_only().refused("forwarding of client headers with their scrubbing", is_something).doc("Client headers that may be passed on to upstreams"),
    key("reveal_secret_headers", BOOL, "false", "true").not_yet().doc("Show secrets in listings"),
    // Answers and tools.
    key("tools_limit", Kind::Integer { min: 0, max: 1000 }, "15", "7").doc("Tools that a search gives when the caller does not say; 0 = the default"),
    key("tool_response_limit", COUNT, "20000", "5000").not_yet().doc("Bytes of a reply before it is cut; 0 = never"),
    key("tool_response_mode", Kind::Choice(&["full", "compact"]), r#""full""#, r#""compact""#).not_yet().doc("Form of the entries that retrieve_tools gives"),
    key("direct_tool_response_mode", Kind::Choice(&["full", "deferred"]), r#""full""#, r#""deferred""#).not_yet().doc("Form of the tools listed in direct mode"),
    key("routing_mode", Kind::Choice(&["retrieve_tools", "direct", "code_execution"]), r#""retrieve_tools""#, r#""direct""#).restart().not_yet().doc("Which tools /mcp shows"),
    key("max_result_size_chars", COUNT, "500000", "0").doc("Advertised with each tool as anthropic/maxResultSizeChars; 0 = not advertised"),
    key("call_tool_timeout", LIMIT, r#""2m""#, r#""45s""#).doc("How long a call may take from dispatch or its last progress"),
    key("call_tool_total_timeout", LIMIT, r#""30m""#, r#""1h""#).doc("How long a call may take in all; never less than call_tool_timeout when it is not given"),
    key("init_timeout", HANDSHAKE, r#""30s""#, r#""90s""#).doc("How long an upstream may take to answer initialize; 0s = the default"),
    key("upstream_max_message_bytes", MESSAGE, "268435456", "1048576").file_only().doc("Largest message of an upstream, in bytes"),
    key("spool_max_bytes", MESSAGE, "4294967296", "1073741824").restart().file_only().doc("Bytes that all spools of large messages may hold together"),
    key("cache_max_bytes", COUNT, "1073741824", "1048576").file_only().not_yet().doc("Bytes that all kept answers may hold together"),
    key("max_concurrent_requests", PLACES, "null", "8").doc("Calls that run at once over all servers; absent or 0 = no limit"),
    key("queue_size", PLACES, "null", "4").doc("Calls that may wait for a place; needs max_concurrent_requests"),
    key("queue_timeout", LIMIT, r#""30s""#, r#""5s""#).doc("How long a call may wait for a place"),
    key("server_concurrency_defaults.max_concurrent_requests", PLACES, "null", "3").doc("Calls that run at once on each server; absent or 0 = no limit"),
    key("server_concurrency_defaults.queue_size", PLACES, "null", "2").doc("Calls that may wait at each server"),
    key("server_concurrency_defaults.queue_timeout", LIMIT, r#""30s""#, r#""7s""#).doc("How long a call may wait at a server"),
    key("toon_output", TOON, r#""off""#, r#""adaptive""#).not_yet().doc("Write tabular JSON text as TOON"),
    key("toon_min_savings_pct", Kind::Integer { min: 0, max: 90 }, "15", "30").not_yet().doc("What TOON must save, in percent; 0 = the default"),
    key("tool_response_session_risk_warning", BOOL, "false", "true").not_yet().doc("Add a warning about risky sessions to retrieve_tools"),
    key("enable_prompts", BOOL, "true", "false").restart().not_yet().doc("Offer prompts"),
    key("aggregate_upstream_prompts", BOOL, "false", "true").not_yet().doc("Offer the prompts of upstreams"),
    key("allow_sampling", BOOL, "false", "true").not_yet().doc("Upstreams may ask the client's model"),
    key("allow_elicitation", BOOL, "false", "true").not_yet().doc("Upstreams may ask the user"),
    // Saving answers to files.
    key("tool_output_roots", Kind::Directories, "[]", r#"["/tmp/mcpproxy-root"]"#).file_only().doc("Absolute directories that save_to_file may write into; empty = the feature is off"),
    key("tool_output_max_bytes", COUNT, "52428800", "1000").file_only().doc("Largest saved file, in bytes; 0 means the default, not unlimited"),
    key("tool_output_allow_hidden", BOOL, "false", "true").file_only().doc("Names below a root may begin with a dot"),
    key("tool_output_file_mode", Kind::Choice(&["0600", "0640", "0660"]), r#""0600""#, r#""0640""#).file_only().doc("Mode of a saved file; directories get the matching x bits"),
    key("tool_output_trusted_owners", Kind::Owners, "[]", r#"["root",1000]"#).file_only().doc("Users (names or uids) who may own a root; saves there act as that user"),
    key("tool_output_trusted_directories", Kind::Directories, "[]", r#"["/mnt/shared"]"#).file_only().doc("Absolute directories whose owner and mode are not judged"),
    key("tool_output_path_map", Kind::DirectoryMap, "{}", r#"{"/inside":"/outside"}"#).file_only().doc("Paths as the gateway sees them, and as its callers see them"),
    key("tool_output_min_free_bytes", COUNT, "16777216", "0").file_only().doc("Bytes that must stay free on the file system; 0 = not checked"),
    key("tool_output_max_total_bytes", COUNT, "10737418240", "0").file_only().doc("Bytes that saved files may take per root; 0 = no limit"),
    key("tool_output_auto_save", Kind::Object, "null", r#"{"dir":"/tmp/auto"}"#).file_only().not_yet().doc("Save what is over the limit without being asked"),
    // Cleaning and validation.
    key("output_validation.mode", Kind::Choice(&["off", "warn", "strict"]), r#""warn""#, r#""strict""#).doc("What happens to structured output that does not keep the tool's output schema: warn = passed on and recorded, strict = stopped, off = not looked at"),
    key("output_validation.max_bytes", COUNT, "5242880", "1048576").doc("Largest structured output that is checked, in bytes; what is larger counts as a fault; 0 = the default"),
    key("output_validation.max_depth", COUNT, "64", "8").doc("Deepest structured output that is checked, a lone number being 1 deep; what is deeper counts as a fault; 0 = the default"),
    key("output_validation.missing_structured_content", Kind::Choice(&["allow", "block"]), r#""allow""#, r#""block""#).doc("block = stop an answer without structured output of a tool that declares an output schema; has no effect while the mode is off"),
    key("output_sanitisation.response_action", Kind::Choice(&["spotlight", "redact", "block", "off"]), r#""spotlight""#, r#""redact""#).refused("redaction or blocking of secrets in answers", |v| matches!(v.as_str(), Some("redact" | "block"))).doc("What happens to secrets in answers; spotlight and off = nothing"),
    key("output_sanitisation.spotlight_untrusted", BOOL, "false", "true").refused("marking of untrusted text", is_true).doc("Mark the text of untrusted tools"),
    key("output_sanitisation.strip_control_chars", BOOL, "false", "true").refused("stripping of control characters", is_true).doc("Strip control characters from the text of untrusted tools"),
    key("output_sanitisation.strip_classes", Kind::Texts, r#"["ansi","c0c1","bidi","zero_width"]"#, r#"["ansi"]"#).kept().doc("Which characters strip_control_chars strips"),
    key("output_sanitisation.max_redactions", COUNT, "100", "5").kept().doc("Redactions per answer"),
    key("output_sanitisation.unscanned", Kind::Choice(&["allow", "refuse"]), r#""allow""#, r#""refuse""#).refused("blocking what was not looked into", |v| v.as_str() == Some("refuse")).doc("What block mode does with what it could not look into"),
    key("sensitive_data_detection.enabled", BOOL, "true", "false").not_yet().doc("Look for secrets in arguments and answers, for the records"),
    key("sensitive_data_detection.scan_requests", BOOL, "true", "false").not_yet().doc("Look into arguments"),
    key("sensitive_data_detection.scan_responses", BOOL, "true", "false").not_yet().doc("Look into answers"),
    key("sensitive_data_detection.max_payload_size_kb", COUNT, "1024", "1").not_yet().doc("Kilobytes that are looked into"),
    key("sensitive_data_detection.entropy_threshold", Kind::Number, "4.5", "5.0").not_yet().doc("Entropy from which a word counts as a secret"),
    key("sensitive_data_detection.categories", Kind::Object, CATEGORIES, r#"{"credit_card":false}"#).not_yet().doc("Which kinds of secrets are looked for"),
    key("sensitive_data_detection.custom_patterns", Kind::List, "null", r#"[{"name":"x","regex":"y"}]"#).not_yet().doc("Patterns of one's own"),
    key("sensitive_data_detection.sensitive_keywords", Kind::Texts, "null", r#"["secret"]"#).not_yet().doc("Words that count as secrets"),
    // Children and sandboxes.
    key("environment.inherit_system_safe", BOOL, "true", "false").doc("Children inherit the variables of allowed_system_vars"),
    key("environment.allowed_system_vars", Kind::Texts, SYSTEM_VARIABLES, r#"["PATH"]"#).doc("Variables that children may inherit"),
    key("environment.custom_vars", Kind::TextMap, "{}", r#"{"A":"b"}"#).doc("Variables for every child"),
    key("environment.enhance_path", BOOL, "false", "true").doc("Add well-known tool directories to a short PATH"),
    key("environment.forward_proxy_env", BOOL, "false", "true").doc("Pass proxy variables on, without the credentials in them"),
    key("forward_proxy_env", BOOL, "false", "true").doc("The same as environment.forward_proxy_env"),
    key("docker_isolation.enabled", BOOL, "false", "true").not_yet().doc("Run stdio servers in containers"),
    key("docker_isolation.mode", Kind::Choice(&["docker", "sandbox", "none"]), "null", r#""sandbox""#).not_yet().doc("How servers are isolated"),
    key("docker_isolation.enable_cache_volume", BOOL, "true", "false").kept().doc("Share caches between containers"),
    key("docker_isolation.default_images", Kind::TextMap, "null", r#"{"npx":"node:22"}"#).kept().doc("Images by command"),
    key("docker_isolation.registry", TEXT, r#""docker.io""#, r#""registry.example""#).kept().doc("Registry of the images"),
    key("docker_isolation.network_mode", TEXT, r#""bridge""#, r#""none""#).kept().doc("Network of the containers"),
    key("docker_isolation.memory_limit", TEXT, r#""512m""#, r#""1g""#).kept().doc("Memory of a container"),
    key("docker_isolation.cpu_limit", TEXT, r#""1.0""#, r#""2.0""#).kept().doc("Processors of a container"),
    key("docker_isolation.timeout", TIME, r#""30s""#, r#""1m""#).kept().doc("How long a container may take to start"),
    key("docker_isolation.extra_args", Kind::Texts, "[]", r#"["--read-only"]"#).kept().doc("More arguments for docker run"),
    key("docker_isolation.log_driver", TEXT, "null", r#""json-file""#).kept().doc("Log driver of the containers"),
    key("docker_isolation.log_max_size", TEXT, r#""100m""#, r#""10m""#).kept().doc("Largest log of a container"),
    key("docker_isolation.log_max_files", TEXT, r#""3""#, r#""1""#).kept().doc("Logs kept of a container"),
    key("docker_recovery", Kind::Object, "null", r#"{"enabled":true}"#).not_yet().doc("Watch Docker and tell the user"),
    // Keeping watch.
    key("health_check_interval", TIME, r#""30s""#, r#""1m""#).not_yet().doc("How often upstreams are pinged; 0s = never"),
    key("tool_discovery_interval", TIME, r#""5m""#, r#""10m""#).not_yet().doc("How often tools are listed again; 0s = never"),
    key("oauth_expiry_warning_hours", Kind::Number, "1.0", "2.5").not_yet().doc("Hours before the end of a token at which a server counts as degraded"),
    key("http_read_timeout", TIME, r#""120s""#, r#""10s""#).restart().not_yet().doc("How long a request may take to arrive"),
    key("http_write_timeout", TIME, r#""120s""#, r#""10s""#).restart().not_yet().doc("How long a reply may take to leave"),
    key("http_idle_timeout", TIME, r#""180s""#, r#""10s""#).restart().not_yet().doc("How long an idle connection is kept"),
    key("tls.enabled", BOOL, "false", "true").restart().refused("TLS", is_true).doc("Serve HTTPS"),
    key("tls.require_client_cert", BOOL, "false", "true").restart().refused("client certificates", is_true).doc("Callers need a certificate"),
    key("tls.certs_dir", TEXT, r#""""#, r#""/tmp/certs""#).restart().kept().doc("Directory of the certificates"),
    key("tls.hsts", BOOL, "true", "false").kept().doc("Send Strict-Transport-Security over HTTPS"),
    // Records and logs.
    key("activity_retention_days", COUNT, "90", "0").doc("Days that records are kept; 0 = no limit"),
    key("activity_max_records", COUNT, "100000", "0").doc("Records that are kept; 0 = no limit"),
    key("activity_max_size_mb", COUNT, "256", "0").doc("Megabytes of records that are kept; 0 = no limit"),
    key("activity_max_response_size", COUNT, "65536", "100").doc("Bytes of a response that a record keeps"),
    key("activity_cleanup_interval_min", COUNT, "60", "5").not_yet().doc("Minutes between two prunings"),
    key("audit_log", Kind::Object, "null", r#"{"enabled":true,"path":"/tmp/audit"}"#).not_yet().doc("A log of every decision"),
    key("logging.level", Kind::Choice(&["trace", "debug", "info", "warn", "error"]), r#""info""#, r#""debug""#).doc("The least important level that is logged"),
    key("logging.log_dir", TEXT, r#""""#, r#""/tmp/mcpproxy-logs""#).restart().doc("Directory of the logs; default <data_dir>/logs"),
    key("logging.enable_file", BOOL, "false", "true").restart().not_yet().doc("Log into a file too"),
    key("logging.enable_console", BOOL, "true", "false").restart().not_yet().doc("Log to stderr"),
    key("logging.filename", TEXT, r#""main.log""#, r#""other.log""#).restart().not_yet().doc("Name of the log file"),
    key("logging.max_size", COUNT, "10", "1").restart().not_yet().doc("Megabytes of a log file"),
    key("logging.max_backups", COUNT, "5", "1").restart().not_yet().doc("Old log files that are kept"),
    key("logging.max_age", COUNT, "30", "1").restart().not_yet().doc("Days that old log files are kept"),
    key("logging.compress", BOOL, "true", "false").restart().not_yet().doc("Compress old log files"),
    key("logging.json_format", BOOL, "false", "true").restart().not_yet().doc("Log as JSON"),
    key("observability.usage_cache_ttl", TIME, r#""5s""#, r#""9s""#).not_yet().doc("How long usage figures are reused"),
    key("observability.usage_persist_interval", TIME, r#""30s""#, r#""9s""#).not_yet().doc("How often usage figures are written"),
    key("observability.metrics.enabled", BOOL, "false", "true").not_yet().doc("Serve /metrics"),
    key("observability.tracing.enabled", BOOL, "false", "true").not_yet().doc("Send traces"),
    key("observability.tracing.protocol", Kind::Choice(&["http", "grpc"]), r#""http""#, r#""grpc""#).not_yet().doc("How traces are sent"),
    key("observability.tracing.endpoint", TEXT, r#""localhost:4318""#, r#""localhost:4317""#).not_yet().doc("Where traces are sent"),
    key("observability.tracing.sample_rate", Kind::Number, "0.1", "0").not_yet().doc("Part of the calls that is traced"),
    key("tokenizer.enabled", BOOL, "true", "false").not_yet().doc("Count tokens"),
    key("tokenizer.default_model", TEXT, r#""gpt-4""#, r#""gpt-4o""#).not_yet().doc("Model whose tokens are counted"),
    key("tokenizer.encoding", TEXT, r#""cl100k_base""#, r#""o200k_base""#).not_yet().doc("Encoding whose tokens are counted"),
    key("telemetry", Kind::Object, "null", r#"{"enabled":true}"#).not_yet_unless(is_telemetry_off).doc("Usage reports; this program sends none"),
    key("debug_search", BOOL, "false", "true").not_yet().doc("Log searches"),
    // What this program leaves out.
    key("enable_code_execution", BOOL, "false", "true").restart().not_yet().doc("Offer a tool that runs scripts"),
    key("code_execution_timeout_ms", COUNT, "120000", "1").not_yet().doc("How long a script may run"),
    key("code_execution_max_tool_calls", COUNT, "0", "1").not_yet().doc("Calls that a script may make"),
    key("code_execution_pool_size", COUNT, "10", "1").restart().not_yet().doc("Scripts that run at once"),
    key("code_execution_max_parallel", COUNT, "8", "1").not_yet().doc("Calls that a script makes at once"),
    key("registries", Kind::List, "null", r#"[{"id":"mine"}]"#).not_yet_unless(is_stock_registries).doc("Registries of servers to search in"),
    key("registries_locked", BOOL, "false", "true").not_yet().doc("Registries cannot be added"),
    key("allow_private_registry_fetch", BOOL, "false", "true").not_yet().doc("Registries may lie in private networks"),
    key("check_server_repo", BOOL, "true", "false").not_yet().doc("Look packages up in registries"),
    key("security", Kind::Object, "null", r#"{"deep_scan":{"enabled":true}}"#).not_yet().doc("Scanners of servers"),
    key("update_check", Kind::Object, "null", r#"{"channel":"rc"}"#).not_yet().doc("Look for new versions"),
    key("server_edition", Kind::Object, "null", r#"{"enabled":true}"#).refused("users and their access", asks_for_users).doc("A gateway for several users"),
    key("teams", Kind::Object, "null", r#"{"enabled":true}"#).refused("users and their access", asks_for_users).doc("Old name of server_edition"),
    key("features", Kind::Any, "null", r#"{"enable_sse":true}"#).kept().doc("Without effect since long"),
    key("top_k", Kind::Any, "null", "5").kept().doc("Without effect since long: tools_limit took its place"),
    key("enable_tray", Kind::Any, "null", "true").kept().doc("Without effect since long"),
    key("$schema", Kind::Any, "null", r#""./schema.json""#).kept().doc("Where an editor finds the schema of this file"),
    // A server entry.
    key("mcpServers[].name", TEXT, "null", r#""renamed""#).doc("Name of the server; in an object of servers the member's name"),
    key("mcpServers[].protocol", Kind::Choice(PROTOCOLS), r#""auto""#, r#""sse""#).doc("stdio, http, streamable-http, sse or auto (command = stdio, else url = http)"),
    key("mcpServers[].type", Kind::Choice(PROTOCOLS), r#""auto""#, r#""sse""#).doc("Another name of protocol"),
    key("mcpServers[].transport", Kind::Choice(PROTOCOLS), r#""auto""#, r#""sse""#).doc("Another name of protocol"),
    key("mcpServers[].command", TEXT, "null", r#""other-command""#).doc("Program of a stdio server"),
    key("mcpServers[].args", Kind::Texts, "[]", r#"["--flag"]"#).doc("Its arguments"),
    key("mcpServers[].working_dir", TEXT, r#""""#, r#""/tmp""#).doc("Its working directory"),
    key("mcpServers[].cwd", TEXT, r#""""#, r#""/tmp""#).doc("Another name of working_dir"),
    key("mcpServers[].env", Kind::TextMap, "{}", r#"{"A":"b"}"#).doc("Its environment; ${env:NAME} is expanded"),
    key("mcpServers[].url", TEXT, "null", r#""https://example.org/other""#).doc("Address of an HTTP server"),
    key("mcpServers[].serverUrl", TEXT, "null", r#""https://example.org/other""#).doc("Another name of url"),
    key("mcpServers[].httpUrl", TEXT, "null", r#""https://example.org/other""#).doc("Another name of url"),
    key("mcpServers[].headers", Kind::TextMap, "{}", r#"{"X-A":"b"}"#).doc("Headers for an HTTP server; ${env:NAME} is expanded"),
    key("mcpServers[].oauth", Kind::Any, "null", r#"{"client_id":"x"}"#).not_yet().doc("OAuth client of the server"),
    key("mcpServers[].enabled", BOOL, "true", "false").doc("Whether the server is used"),
    key("mcpServers[].disabled", BOOL, "false", "true").doc("The opposite of enabled"),
    key("mcpServers[].quarantined", BOOL, "null", "true").doc("true = not started; false = never held"),
    key("mcpServers[].trust_mode", Kind::Choice(&["auto", "scan", "manual"]), "null", r#""manual""#).refused("approval of changed tools", |v| matches!(v.as_str(), Some("manual" | "scan"))).doc("Who approves changed tools"),
    key("mcpServers[].auto_approve_tool_changes", BOOL, "null", "false").refused("approval of changed tools", is_false).doc("Changed tools need no approval"),
    key("mcpServers[].skip_quarantine", BOOL, "false", "true").kept().doc("Old name of auto_approve_tool_changes; tools are not held in this version"),
    key("mcpServers[].enabled_tools", Kind::Texts, "[]", r#"["only"]"#).doc("If not empty, only these tools may be called"),
    key("mcpServers[].disabled_tools", Kind::Texts, "[]", r#"["not-this"]"#).doc("Tools that may not be called"),
    key("mcpServers[].annotation_overrides", Kind::Object, "null", r#"{"*":{"destructiveHint":true}}"#).refused("tool annotations set by the operator", is_something).doc("Annotations that take the place of the server's"),
    key("mcpServers[].forward_headers", Kind::Texts, "[]", r#"["X-Team"]"#).file_only().refused("forwarding of client headers with their scrubbing", is_something).doc("Client headers that are passed on to this server"),
    key("mcpServers[].call_tool_timeout", LIMIT, "null", r#""45s""#).doc("As the global key, for this server"),
    key("mcpServers[].call_tool_total_timeout", LIMIT, "null", r#""1h""#).doc("As the global key, for this server"),
    key("mcpServers[].init_timeout", HANDSHAKE, "null", r#""90s""#).doc("As the global key, for this server"),
    key("mcpServers[].upstream_max_message_bytes", MESSAGE, "null", "1048576").file_only().doc("As the global key, for this server"),
    key("mcpServers[].reconnect_on_use", BOOL, "false", "true").kept().doc("Always so here: a call to a server that is down tries to bring it back"),
    key("mcpServers[].max_concurrent_requests", PLACES, "null", "8").doc("Calls that run at once on this server; 0 = no limit"),
    key("mcpServers[].queue_size", PLACES, "null", "4").doc("Calls that may wait at this server"),
    key("mcpServers[].queue_timeout", LIMIT, "null", r#""5s""#).doc("How long a call may wait at this server"),
    key("mcpServers[].health_check_interval", TIME, "null", r#""1m""#).not_yet().doc("As the global key, for this server"),
    key("mcpServers[].tool_discovery_interval", TIME, "null", r#""10m""#).not_yet().doc("As the global key, for this server"),
    key("mcpServers[].launcher_wait_timeout", TIME, r#""30s""#, r#""1m""#).not_yet().doc("How long a program that serves HTTP may take to start"),
    key("mcpServers[].toon_output", TOON, "null", r#""always""#).not_yet().doc("As the global key, for this server"),
    key("mcpServers[].expose_prompts", BOOL, "null", "true").not_yet().doc("Offer this server's prompts"),
    key("mcpServers[].allow_sampling", BOOL, "false", "true").not_yet().doc("This server may ask the client's model"),
    key("mcpServers[].allow_elicitation", BOOL, "false", "true").not_yet().doc("This server may ask the user"),
    key("mcpServers[].isolation.enabled", BOOL, "null", "true").not_yet().doc("Run this server in a container"),
    key("mcpServers[].isolation.mode", Kind::Choice(&["docker", "sandbox", "none"]), "null", r#""docker""#).not_yet().doc("How this server is isolated"),
    key("mcpServers[].isolation.image", TEXT, "null", r#""node:22""#).kept().doc("Image of the container"),
    key("mcpServers[].isolation.network_mode", TEXT, "null", r#""none""#).kept().doc("Network of the container"),
    key("mcpServers[].isolation.extra_args", Kind::Texts, "null", r#"["--read-only"]"#).kept().doc("More arguments for docker run"),
    key("mcpServers[].isolation.working_dir", TEXT, "null", r#""/app""#).kept().doc("Working directory in the container"),
    key("mcpServers[].isolation.log_driver", TEXT, "null", r#""none""#).kept().doc("Log driver of the container"),
    key("mcpServers[].isolation.log_max_size", TEXT, "null", r#""10m""#).kept().doc("Largest log of the container"),
    key("mcpServers[].isolation.log_max_files", TEXT, "null", r#""1""#).kept().doc("Logs kept of the container"),
    key("mcpServers[].shared", BOOL, "false", "true").not_yet().doc("Shared by several users"),
    key("mcpServers[].auth_broker", Kind::Object, "null", r#"{"type":"x"}"#).not_yet().doc("Credentials by user"),
    key("mcpServers[].source_registry_id", TEXT, "null", r#""official""#).kept().doc("Where the entry came from"),
    key("mcpServers[].source_registry_provenance", TEXT, "null", r#""official""#).kept().doc("Where the entry came from"),
    key("mcpServers[].created", TEXT, "null", r#""2026-01-01T00:00:00Z""#).kept().doc("When the entry was made"),
    key("mcpServers[].updated", TEXT, "null", r#""2026-01-01T00:00:00Z""#).kept().doc("When the entry was changed"),
];
