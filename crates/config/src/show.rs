//! The configuration that is in effect, key by key, with where each value comes from and without secrets.

use serde_json::{Map, Value, json};

use crate::diff::in_one_spelling;
use crate::keys::{self, SERVER, Standing};
use crate::mask::{HIDDEN, masked};
use crate::problem::Findings;
use crate::scope::Scope;
use crate::{Config, Document, Loaded, Server, Sources, Transport, duration, servers};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nobody gave one.
    Default,
    /// The file.
    File,
    /// A variable of the environment.
    Environment,
    /// The command line.
    Flag,
}

impl Origin {
    /// One word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// One setting in effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key, such as `logging.level`.
    pub path: &'static str,
    /// What the program obeys; secrets hidden.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// Every key outside the server entries that this version obeys.
#[must_use]
pub fn settings(loaded: &Loaded, sources: &Sources) -> Vec<Setting> {
    let obeyed = keys::of_servers(false).filter(|key| matches!(key.standing, Standing::Obeyed));
    let setting = |key: &'static keys::Key| {
        let value = value_of(&loaded.config, key.path)?;
        let last = key.path.rsplit('.').next().unwrap_or(key.path);
        let value = if key.path == "api_key" { value } else { masked(last, &value) };
        Some(Setting { path: key.path, value, origin: origin(key.path, loaded, sources) })
    };
    obeyed.filter_map(setting).collect()
}

/// The servers as they are in effect, in the order of the file: what their entries say, inherited values filled in,
/// secrets hidden.
#[must_use]
pub fn servers(loaded: &Loaded) -> Vec<Value> {
    let Loaded { config, document, .. } = loaded;
    let entries = entries(document);
    config.servers.iter().zip(entries).map(|(server, entry)| server_value(server, &entry)).collect()
}

/// The whole configuration in effect, in the form of the file.
#[must_use]
pub fn whole(loaded: &Loaded, sources: &Sources) -> Value {
    let mut root = Map::new();
    for setting in settings(loaded, sources) {
        put(&mut root, setting.path, setting.value);
    }
    root.insert("mcpServers".to_owned(), Value::Array(servers(loaded)));
    Value::Object(root)
}

fn entries(document: &Document) -> Vec<Map<String, Value>> {
    let entries = servers::entries(document, &mut Findings::default());
    entries.iter().map(|entry| in_one_spelling(entry.object)).collect()
}

fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((name, rest)) => {
            let inner = object.entry(name).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// What a configuration says for a key of the table; `None` for keys that it has no field for.
fn value_of(config: &Config, path: &str) -> Option<Value> {
    let places = |max: Option<usize>| max.map_or(Value::from(0), Value::from);
    let Config { output, output_validation: validation, environment, activity, concurrency, .. } = config;
    Some(match path {
        "listen" => json!(config.listen.to_string()),
        "data_dir" => json!(config.data_dir),
        "api_key" => json!(config.api_key.as_ref().map(|_| HIDDEN)),
        "enable_socket" => json!(config.enable_socket),
        "require_mcp_auth" => json!(config.require_mcp_auth),
        "trusted_hosts" => json!(config.trusted_hosts),
        "instructions" => json!(config.instructions.as_deref().unwrap_or("")),
        "read_only_mode" => json!(config.read_only_mode),
        "intent_declaration.strict_server_validation" => json!(config.intent_strict),
        "disable_management" => json!(config.disable_management),
        "allow_server_add" => json!(config.allow_server_add),
        "allow_server_remove" => json!(config.allow_server_remove),
        "tools_limit" => json!(config.tools_limit),
        "max_result_size_chars" => json!(config.max_result_size_chars),
        "call_tool_timeout" => time(config.call_tool_timeout),
        "call_tool_total_timeout" => time(config.call_tool_total_timeout),
        "init_timeout" => time(config.init_timeout),
        "upstream_max_message_bytes" => json!(config.upstream_max_message_bytes),
        "spool_max_bytes" => json!(config.spool_max_bytes),
        "max_concurrent_requests" => places(concurrency.max),
        "queue_size" => json!(concurrency.queue),
        "queue_timeout" => time(concurrency.timeout),
        "tool_output_roots" => json!(output.roots),
        "tool_output_max_bytes" => json!(output.max_bytes),
        "tool_output_allow_hidden" => json!(output.allow_hidden),
        "tool_output_file_mode" => json!(format!("{:04o}", output.file_mode)),
        "tool_output_trusted_owners" => json!(output.trusted_owners),
        "tool_output_trusted_directories" => json!(output.trusted_directories),
        "tool_output_path_map" => {
            let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
            output.path_map.iter().map(|(a, b)| (text(a), json!(b))).collect::<Map<_, _>>().into()
        }
        "tool_output_min_free_bytes" => json!(output.min_free_bytes),
        "tool_output_max_total_bytes" => json!(output.max_total_bytes),
        "output_validation.mode" => json!(validation.mode.as_str()),
        "output_validation.max_bytes" => json!(validation.max_bytes),
        "output_validation.max_depth" => json!(validation.max_depth),
        "output_validation.missing_structured_content" => {
            json!(if validation.block_missing { "block" } else { "allow" })
        }
        "environment.inherit_system_safe" => json!(environment.inherit_system_safe),
        "environment.allowed_system_vars" => json!(environment.allowed_system_vars),
        "environment.custom_vars" => json!(environment.custom_vars),
        "environment.enhance_path" => json!(environment.enhance_path),
        "environment.forward_proxy_env" => json!(environment.forward_proxy_env),
        "activity_retention_days" => json!(activity.retention_days),
        "activity_max_records" => json!(activity.max_records),
        "activity_max_size_mb" => json!(activity.max_size_mb),
        "activity_max_response_size" => json!(activity.max_response_size),
        "logging.level" => json!(config.logging.level.as_str()),
        "logging.log_dir" => json!(config.log_dir),
        // Told elsewhere: entries by themselves, defaults of entries in each of them, an alias by its other name.
        _ => return None,
    })
}

fn time(time: std::time::Duration) -> Value {
    Value::from(duration::format(time))
}

fn origin(path: &str, loaded: &Loaded, sources: &Sources) -> Origin {
    let (flags, variables) = (&sources.overrides, &sources.variables);
    let (is_flag, names): (bool, &[&str]) = match path {
        "listen" => (flags.listen.is_some(), &["MCPPROXY_LISTEN"]),
        "data_dir" => (flags.data_dir.is_some(), &["MCPPROXY_DATA_DIR", "MCPPROXY_DATA"]),
        "api_key" => (false, &["MCPPROXY_API_KEY"]),
        "require_mcp_auth" => (flags.require_mcp_auth, &[]),
        "read_only_mode" => (flags.read_only, &[]),
        "logging.level" => (flags.log_level.is_some(), &[]),
        "max_concurrent_requests" => (false, &["MCPPROXY_MAX_CONCURRENT_REQUESTS"]),
        "queue_size" => (false, &["MCPPROXY_QUEUE_SIZE"]),
        "queue_timeout" => (false, &["MCPPROXY_QUEUE_TIMEOUT"]),
        _ => (false, &[]),
    };
    let is_in_file = loaded.document.is_explicit(path)
        || (path == "environment.forward_proxy_env" && loaded.document.is_explicit("forward_proxy_env"));
    match (is_flag, names.iter().any(|name| variables.get(name).is_some()), is_in_file) {
        (true, _, _) => Origin::Flag,
        (_, true, _) => Origin::Environment,
        (_, _, true) => Origin::File,
        _ => Origin::Default,
    }
}

fn server_value(server: &Server, entry: &Map<String, Value>) -> Value {
    let scope = Scope::server(entry, "");
    let mut out = Map::from_iter([("name".to_owned(), json!(server.name))]);
    for key in keys::of_servers(true).filter(|key| matches!(key.standing, Standing::Obeyed)) {
        let rest = &key.path[SERVER.len()..];
        let value = server_field(server, rest).or_else(|| scope.given(rest).cloned());
        if let Some(value) = value.filter(|value| !value.is_null()) {
            put(&mut out, rest, masked(rest, &value));
        }
    }
    Value::Object(out)
}

/// What the server has for a key, if the entry alone does not tell.
fn server_field(server: &Server, key: &str) -> Option<Value> {
    let protocol = match server.transport {
        Transport::Stdio { .. } => Some("stdio"),
        Transport::Http { .. } => Some("streamable-http"),
        Transport::Unsupported { .. } => None,
    };
    Some(match key {
        "protocol" => json!(protocol?),
        "enabled" => json!(server.enabled),
        "call_tool_timeout" => time(server.call_tool_timeout),
        "call_tool_total_timeout" => time(server.call_tool_total_timeout),
        "init_timeout" => time(server.init_timeout),
        "upstream_max_message_bytes" => json!(server.upstream_max_message_bytes),
        "max_concurrent_requests" => json!(server.concurrency.max.unwrap_or(0)),
        "queue_size" => json!(server.concurrency.queue),
        "queue_timeout" => time(server.concurrency.timeout),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_obeyed_is_shown() {
        let config = Config::default();
        let obeyed = keys::of_servers(false).filter(|key| matches!(key.standing, Standing::Obeyed));
        let missing: Vec<_> =
            obeyed.map(|key| key.path).filter(|path| value_of(&config, path).is_none()).collect();
        assert_eq!(
            missing,
            [
                "mcpServers",
                "server_concurrency_defaults.max_concurrent_requests",
                "server_concurrency_defaults.queue_size",
                "server_concurrency_defaults.queue_timeout",
                "forward_proxy_env"
            ]
        );
    }
}
