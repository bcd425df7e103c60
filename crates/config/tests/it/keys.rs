//! Every row of the keys table does what it says: obeyed, refused, warned about, or kept as a note.

use std::collections::BTreeSet;
use std::time::Duration;

use config::{Applies, Config, KEYS, Key, Kind, Standing};
use serde_json::{Map, Value, json};

use crate::{check, good, lines, warned};

const SERVER: &str = "mcpServers[].";

/// A file in which `key` has a value, or is left out, with whatever it needs around it.
pub fn file(key: &Key, value: Option<Value>) -> String {
    let root = match key.path.strip_prefix(SERVER) {
        Some(rest) => {
            let mut entry = entry_for(rest);
            put(&mut entry, rest, value);
            json!({"mcpServers": [entry]}).as_object().unwrap().clone()
        }
        None => {
            let mut root = surroundings(key.path);
            put(&mut root, key.path, value);
            root
        }
    };
    Value::Object(root).to_string()
}

fn surroundings(path: &str) -> Map<String, Value> {
    let root = match path {
        "queue_size" => json!({"max_concurrent_requests": 2}),
        "server_concurrency_defaults.queue_size" => {
            json!({"server_concurrency_defaults": {"max_concurrent_requests": 2}, "mcpServers": [{"name": "s", "command": "c"}]})
        }
        p if p.starts_with("server_concurrency_defaults.") => {
            json!({"mcpServers": [{"name": "s", "command": "c"}]})
        }
        "mcpServers" => json!({}),
        _ => json!({"mcpServers": [{"name": "s", "command": "c"}]}),
    };
    root.as_object().unwrap().clone()
}

fn entry_for(key: &str) -> Map<String, Value> {
    let entry = match key {
        "protocol" | "type" | "transport" | "headers" => {
            json!({"name": "s", "url": "https://example.org/mcp"})
        }
        "url" | "serverUrl" | "httpUrl" => json!({"name": "s", key: "https://example.org/mcp"}),
        "queue_size" => json!({"name": "s", "command": "c", "max_concurrent_requests": 2}),
        _ => json!({"name": "s", "command": "c"}),
    };
    entry.as_object().unwrap().clone()
}

fn put(object: &mut Map<String, Value>, path: &str, value: Option<Value>) {
    let Some(value) = value else { return };
    match path.split_once('.') {
        Some((name, rest)) => {
            let inner = object.entry(name).or_insert_with(|| json!({}));
            put(inner.as_object_mut().unwrap(), rest, Some(value));
        }
        None => {
            object.insert(path.to_owned(), value);
        }
    }
}

pub fn example(key: &Key) -> Value {
    serde_json::from_str(key.example).unwrap_or_else(|e| panic!("{}: {e}", key.path))
}

/// The JSON path of a key in the files above.
fn place(key: &Key) -> String {
    match key.path.strip_prefix(SERVER) {
        Some(rest) => format!("$.mcpServers[0].{rest}"),
        None if key.path.starts_with('$') => format!("$[\"{}\"]", key.path),
        None => format!("$.{}", key.path),
    }
}

#[test]
fn every_key_is_obeyed_refused_or_warned_about() {
    assert!(KEYS.len() > 150, "only {} keys", KEYS.len());
    for key in KEYS {
        let without = good(&file(key, None));
        let outcome = check(&file(key, Some(example(key))));
        match key.standing {
            Standing::Obeyed => {
                let (config, warnings) = outcome.unwrap_or_else(|p| panic!("{}: {}", key.path, lines(&p)));
                assert_ne!(config, without, "{} changes nothing", key.path);
                assert!(
                    !warnings.iter().any(|w| w.message.contains("has no effect")),
                    "{}",
                    lines(&warnings)
                );
            }
            Standing::Refused { .. } => {
                let problems = outcome.err().unwrap_or_else(|| panic!("{} is not refused", key.path));
                assert_eq!(problems.len(), 1, "{}: {}", key.path, lines(&problems));
                assert_eq!(problems[0].path, place(key));
                assert!(problems[0].message.contains("not in this version yet"), "{}", problems[0]);
            }
            Standing::NotYet { .. } => {
                let (config, warnings) = outcome.unwrap_or_else(|p| panic!("{}: {}", key.path, lines(&p)));
                assert_eq!(config, without, "{} has an effect", key.path);
                assert_eq!(warnings.len(), 1, "{}: {}", key.path, lines(&warnings));
                assert_eq!(warnings[0].path, place(key));
                assert!(warnings[0].message.contains("not in this version yet"), "{}", warnings[0]);
            }
            Standing::Kept => {
                let (config, warnings) = outcome.unwrap_or_else(|p| panic!("{}: {}", key.path, lines(&p)));
                assert_eq!(config, without, "{} has an effect", key.path);
                assert!(warnings.is_empty(), "{}: {}", key.path, lines(&warnings));
            }
        }
    }
}

#[test]
fn a_default_that_is_written_out_means_the_same_as_none_and_is_silent() {
    for key in KEYS {
        let without = good(&file(key, None));
        // Without these there is no server at all.
        let is_needed =
            ["name", "command", "url", "serverUrl", "httpUrl"].map(|name| format!("{SERVER}{name}"));
        if !is_needed.iter().any(|path| path == key.path) {
            assert_eq!(good(&file(key, Some(Value::Null))), without, "{}: null", key.path);
        }
        let default = key.default_value();
        // Spelled-out defaults of these would contradict or repeat what stands beside them.
        if default.is_null() || key.path == "mcpServers" {
            continue;
        }
        let text = file(key, Some(default));
        assert_eq!(good(&text), without, "{}", key.path);
        assert!(
            warned(&text).iter().all(|w| w.path.ends_with("enabled_tools")),
            "{text}: {}",
            lines(&warned(&text))
        );
    }
}

#[test]
fn the_table_is_in_order() {
    let mut seen = BTreeSet::new();
    for key in KEYS {
        assert!(seen.insert(key.path), "{} stands twice", key.path);
        assert!(!key.doc.is_empty() && !key.doc.contains('\n') && !key.doc.ends_with('.'), "{}", key.path);
        assert!(serde_json::from_str::<Value>(key.default).is_ok(), "{}", key.path);
        assert_ne!(example(key), key.default_value(), "{}", key.path);
        if let Standing::Refused { when, what } = key.standing {
            assert!(when(&example(key)) && !when(&key.default_value()) && !what.is_empty(), "{}", key.path);
        }
        if let Kind::Integer { min, max } = key.kind {
            assert!(min <= max);
        }
    }
}

#[test]
fn these_keys_can_be_set_by_the_file_only() {
    let file_only: BTreeSet<_> = KEYS.iter().filter(|key| key.file_only).map(|key| key.path).collect();
    let mut right: BTreeSet<_> =
        KEYS.iter().map(|key| key.path).filter(|p| p.starts_with("tool_output_")).collect();
    assert_eq!(right.len(), 10);
    right.extend([
        "allow_agent_management",
        "quarantine_enabled",
        "trusted_hosts",
        "require_mcp_auth",
        "forward_headers",
        "mcpServers[].forward_headers",
        "upstream_max_message_bytes",
        "mcpServers[].upstream_max_message_bytes",
        "spool_max_bytes",
        "cache_max_bytes",
    ]);
    assert_eq!(file_only, right);
}

#[test]
fn what_is_bound_at_start_needs_a_restart() {
    for (path, applies) in [
        ("listen", Applies::Restart),
        ("data_dir", Applies::Restart),
        ("api_key", Applies::Restart),
        ("tls.enabled", Applies::Restart),
        ("tool_output_roots", Applies::Hot),
        ("mcpServers", Applies::Hot),
        ("read_only_mode", Applies::Hot),
    ] {
        assert_eq!(KEYS.iter().find(|key| key.path == path).unwrap().applies, applies, "{path}");
    }
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let config = good("{}");
    assert_eq!((config.listen.to_string().as_str(), config.enable_socket), ("127.0.0.1:8080", true));
    assert_eq!(config.data_dir.to_str(), Some("/home/somebody/.mcpproxy"));
    assert_eq!(config.log_dir.to_str(), Some("/home/somebody/.mcpproxy/logs"));
    assert!(
        config.api_key.is_none()
            && !config.require_mcp_auth
            && !config.read_only_mode
            && config.intent_strict
    );
    assert_eq!((config.tools_limit, config.max_result_size_chars), (15, 500_000));
    assert_eq!(config.call_tool_timeout, Duration::from_secs(120));
    assert_eq!(config.call_tool_total_timeout, Duration::from_secs(1800));
    assert_eq!(config.init_timeout, Duration::from_secs(30));
    assert_eq!((config.upstream_max_message_bytes, config.spool_max_bytes), (256 << 20, 4 << 30));
    let output = &config.output;
    assert!(output.roots.is_empty() && !output.allow_hidden && output.file_mode == 0o600);
    assert_eq!(
        (output.max_bytes, output.min_free_bytes, output.max_total_bytes),
        (52_428_800, 16 << 20, 10 << 30)
    );
    let activity = config.activity;
    assert_eq!((activity.retention_days, activity.max_records, activity.max_size_mb), (90, 100_000, 256));
    assert_eq!((config.concurrency.max, config.concurrency.queue), (None, 0));
    assert!(config.environment.inherit_system_safe && !config.environment.forward_proxy_env);
    assert!(config.environment.allowed_system_vars.iter().any(|name| name == "PATH"));
}

#[test]
fn the_default_configuration_is_that_of_an_empty_file() {
    let ours = Config::default();
    let home = std::env::var("HOME").unwrap_or_default();
    let sources = crate::with_variables(&[]);
    let variables = [("HOME", home)].into_iter().collect();
    let sources = config::Sources { variables, ..sources };
    let (theirs, warnings) = config::check(&config::Document::default(), &sources).unwrap();
    assert_eq!(ours, theirs);
    assert!(warnings.is_empty());
}

/// What the other program writes when it is started for the first time and saves everything it has.
const FULL: &str = r#"{
  "listen": "127.0.0.1:8080", "enable_socket": true, "data_dir": "/home/somebody/.mcpproxy", "debug_search": false,
  "mcpServers": [
    {"name": "memory", "protocol": "stdio", "command": "npx", "args": ["-y", "server-memory"], "oauth": null,
     "enabled": true, "created": "2026-02-03T04:05:06.789+01:00", "updated": "0001-01-01T00:00:00Z"},
    {"name": "web", "url": "https://example.org/mcp", "protocol": "streamable-http", "oauth": null, "enabled": false,
     "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "created": "2026-02-03T04:05:06Z",
     "updated": "0001-01-01T00:00:00Z"}
  ],
  "tools_limit": 15, "tool_response_limit": 20000, "call_tool_timeout": "2m0s", "max_result_size_chars": 500000,
  "toon_output": "off", "toon_min_savings_pct": 15,
  "environment": {"inherit_system_safe": true, "allowed_system_vars": ["PATH", "HOME"], "custom_vars": {},
    "enhance_path": false},
  "logging": {"level": "info", "enable_file": false, "enable_console": true, "filename": "main.log", "max_size": 10,
    "max_backups": 5, "max_age": 30, "compress": true, "json_format": false},
  "require_mcp_auth": false, "read_only_mode": false, "disable_management": false, "allow_server_add": true,
  "allow_server_remove": true, "enable_prompts": true, "aggregate_upstream_prompts": false, "check_server_repo": true,
  "docker_isolation": {"enabled": false, "enable_cache_volume": true,
    "default_images": {"npx": "node:22", "uvx": "ghcr.io/astral-sh/uv:python3.13-bookworm-slim"},
    "registry": "docker.io", "network_mode": "bridge", "memory_limit": "512m", "cpu_limit": "1.0", "timeout": "30s",
    "extra_args": [], "log_max_size": "100m", "log_max_files": "3"},
  "registries": [{"id": "official", "name": "a", "description": "", "url": "https://example.org"},
    {"id": "reference", "name": "b", "description": "", "url": "https://example.org"},
    {"id": "docker-mcp-catalog", "name": "c", "description": "", "url": "https://example.org"}],
  "features": {"enable_runtime": true, "enable_sse": true},
  "tls": {"enabled": false, "require_client_cert": false, "hsts": true},
  "tokenizer": {"enabled": true, "default_model": "gpt-4", "encoding": "cl100k_base"},
  "enable_code_execution": false, "code_execution_timeout_ms": 120000, "code_execution_pool_size": 10,
  "code_execution_max_parallel": 8, "oauth_expiry_warning_hours": 1,
  "activity_retention_days": 90, "activity_max_records": 100000, "activity_max_size_mb": 256,
  "activity_max_response_size": 65536, "activity_cleanup_interval_min": 60,
  "intent_declaration": {"strict_server_validation": true},
  "sensitive_data_detection": {"enabled": true, "scan_requests": true, "scan_responses": true,
    "max_payload_size_kb": 1024, "entropy_threshold": 4.5,
    "categories": {"api_token": true, "auth_token": true, "cloud_credentials": true, "credit_card": true,
      "database_credential": true, "high_entropy": true, "private_key": true, "sensitive_file": true}},
  "output_validation": {"mode": "warn", "max_bytes": 5242880, "max_depth": 64, "missing_structured_content": "allow"},
  "output_sanitisation": {"response_action": "spotlight", "strip_classes": ["ansi", "c0c1", "bidi", "zero_width"],
    "max_redactions": 100},
  "observability": {"usage_cache_ttl": "5s", "usage_persist_interval": "30s", "metrics": {"enabled": false},
    "tracing": {"enabled": false, "protocol": "http", "endpoint": "localhost:4318", "sample_rate": 0.1}},
  "telemetry": {"enabled": false}
}"#;

#[test]
fn a_full_file_of_the_other_program_loads_in_silence() {
    let (config, warnings) = check(FULL).unwrap_or_else(|problems| panic!("{}", lines(&problems)));
    assert!(warnings.is_empty(), "{}", lines(&warnings));
    assert_eq!(config.servers.len(), 2);
    assert!(config.servers[0].enabled && !config.servers[1].enabled);
    let plain = good("{}");
    assert_eq!((config.listen, config.call_tool_timeout), (plain.listen, plain.call_tool_timeout));
}

#[test]
fn a_key_without_effect_is_told_once_for_all_entries() {
    let entries: Vec<_> =
        (0..50).map(|i| json!({"name": format!("s{i}"), "command": "c", "toon_output": "always"})).collect();
    let warnings = warned(&json!({"mcpServers": entries}).to_string());
    assert_eq!(warnings.len(), 1, "{}", lines(&warnings));
    assert!(
        warnings[0].message.contains("49 more entries") && warnings[0].path == "$.mcpServers[0].toon_output"
    );
}

#[test]
fn unknown_keys_are_kept_and_told_with_the_nearest_known_name() {
    let text = r#"{"x_note": 1, "read_only_mod": true, "logging": {"levle": "debug"}, "logging.level": "debug",
        "mcpServers": [{"name": "s", "command": "c", "excludeTools": ["x"], "comand": "d"}]}"#;
    let (config, warnings) = check(text).unwrap();
    assert!(!config.read_only_mode && config.logging.level == config::LogLevel::Info);
    let told: Vec<_> = warnings.iter().map(|w| (w.path.as_str(), w.fix.as_str())).collect();
    assert_eq!(
        told,
        [
            ("$.x_note", "take it out if it is a mistake"),
            ("$.read_only_mod", "is \"read_only_mode\" meant?"),
            ("$.logging.levle", "is \"level\" meant?"),
            ("$[\"logging.level\"]", "write it as an object inside an object"),
            ("$.mcpServers[0].excludeTools", "is \"disabled_tools\" meant?"),
            ("$.mcpServers[0].comand", "is \"command\" meant?"),
        ]
    );
    assert_eq!(config::Document::parse(text).unwrap().get("x_note"), Some(&json!(1)));
}

#[test]
fn a_misspelt_name_is_told_beside_the_problem_that_it_makes() {
    let problems = check(r#"{"mcpServers": [{"name": "s", "comand": "d"}]}"#).unwrap_err();
    let told: Vec<_> = problems.iter().map(|p| p.path.as_str()).collect();
    assert!(told.len() > 1 && *told.last().unwrap() == "$.mcpServers[0].comand", "{}", lines(&problems));
    assert!(problems.last().unwrap().fix.contains("\"command\""));
}
