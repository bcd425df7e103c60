//! The JSON Schema of the file, made from the keys table.

use serde_json::{Map, Value, json};

use crate::duration;
use crate::keys::{Applies, KEYS, Key, Kind, SERVER, Standing};

/// A duration such as `1h30m` or `0`.
const DURATION: &str = "^\\+?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
/// The beginning of an absolute path, on Unix and on Windows.
const ABSOLUTE: &str = "^(/|[A-Za-z]:[\\\\/]|\\\\\\\\)";

/// The schema of the configuration file, draft 2020-12. Keys that it does not name are allowed, as in the file.
#[must_use]
pub fn schema() -> Value {
    let server = json!({
        "type": "object",
        "description": "One upstream server: a command to start, or an address",
        "anyOf": [
            {"required": ["command"]}, {"required": ["url"]}, {"required": ["serverUrl"]}, {"required": ["httpUrl"]}
        ],
        "properties": properties(KEYS.iter().filter_map(|key| Some((key.path.strip_prefix(SERVER)?, key)))),
        "additionalProperties": true,
    });
    let global = KEYS.iter().filter(|key| !key.path.starts_with(SERVER)).map(|key| (key.path, key));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mcp_config.json of mcpproxy",
        "description": "The configuration of mcpproxy. null means \"not given\" everywhere; unknown keys are kept.",
        "type": "object",
        "properties": properties(global),
        "additionalProperties": true,
        "$defs": {"server": server},
    })
}

/// The schema as it is published: one text, with a line break at its end.
#[must_use]
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// The members of an object, those of the same group together.
fn properties<'k>(keys: impl Iterator<Item = (&'k str, &'static Key)>) -> Value {
    let mut members: Vec<(&str, Vec<(&str, &'static Key)>)> = Vec::new();
    for (path, key) in keys {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        match members.iter_mut().find(|(known, _)| *known == name) {
            Some((_, below)) => below.push((rest, key)),
            None => members.push((name, vec![(rest, key)])),
        }
    }
    let one = |(name, below): (&str, Vec<(&str, &'static Key)>)| match below.as_slice() {
        [("", key)] => (name.to_owned(), property(key)),
        _ => (name.to_owned(), group(below)),
    };
    Value::Object(members.into_iter().map(one).collect())
}

fn group(below: Vec<(&str, &'static Key)>) -> Value {
    json!({
        "type": ["object", "null"],
        "properties": properties(below.into_iter()),
        "additionalProperties": true,
    })
}

fn property(key: &Key) -> Value {
    let mut out = Map::from_iter([("description".to_owned(), json!(description(key)))]);
    out.extend(kind(&key.kind));
    let default = key.default_value();
    if !default.is_null() {
        out.insert("default".to_owned(), default);
    }
    let applies = match key.applies {
        Applies::Hot => "reload",
        Applies::Restart => "restart",
    };
    out.insert("x-applies-at".to_owned(), json!(applies));
    if key.file_only {
        out.insert("x-file-only".to_owned(), json!(true));
    }
    let standing = match key.standing {
        Standing::Obeyed => "obeyed",
        Standing::Refused { .. } => "refused",
        Standing::NotYet { .. } => "not yet",
        Standing::Kept => "kept as a note",
    };
    out.insert("x-standing".to_owned(), json!(standing));
    Value::Object(out)
}

fn description(key: &Key) -> String {
    let range = match key.kind {
        Kind::Duration { min, max, zero } => {
            /// What nobody would call a limit.
            const YEAR: std::time::Duration = std::time::Duration::from_secs(365 * 86_400);
            let or = if zero { ", or 0s" } else { "" };
            match (min.as_nanos() > 1, max < YEAR) {
                (true, true) => {
                    format!(" (from {} to {}{or})", duration::format(min), duration::format(max))
                }
                (true, false) => format!(" (at least {}{or})", duration::format(min)),
                _ => String::new(),
            }
        }
        _ => String::new(),
    };
    let standing = match key.standing {
        Standing::Obeyed => String::new(),
        Standing::Refused { what, .. } => {
            format!(". Not in this version yet: a file that asks for {what} is refused")
        }
        Standing::NotYet { .. } => ". Not in this version yet: without effect".to_owned(),
        Standing::Kept => ". Kept as a note: nothing depends on it".to_owned(),
    };
    format!("{}{range}{standing}", key.doc)
}

/// What may stand there. `null` always may.
fn kind(kind: &Kind) -> Map<String, Value> {
    let path = json!({"type": "string", "pattern": ABSOLUTE});
    let value = match kind {
        Kind::Bool => json!({"type": ["boolean", "null"]}),
        Kind::Integer { min, max: i64::MAX } => json!({"type": ["integer", "null"], "minimum": min}),
        Kind::Integer { min, max } => {
            json!({"type": ["integer", "null"], "minimum": min, "maximum": max})
        }
        Kind::Number => json!({"type": ["number", "null"], "minimum": 0}),
        Kind::Duration { .. } => json!({"type": ["string", "null"], "pattern": DURATION}),
        Kind::Text => json!({"type": ["string", "null"]}),
        Kind::Choice(choices) => {
            let all = choices.iter().copied().map(Value::from).chain([json!(""), Value::Null]);
            json!({"enum": all.collect::<Vec<_>>()})
        }
        Kind::Texts => json!({"type": ["array", "null"], "items": {"type": "string"}}),
        Kind::TextMap => json!({"type": ["object", "null"], "additionalProperties": {"type": "string"}}),
        Kind::Owners => json!({"type": ["array", "null"], "items": {"anyOf": [
            {"type": "string", "pattern": "^[^:/\\u0000]+$"},
            {"type": "integer", "minimum": 0, "maximum": u32::MAX - 1}
        ]}}),
        Kind::Directories => json!({"type": ["array", "null"], "items": path}),
        Kind::DirectoryMap => json!({
            "type": ["object", "null"], "propertyNames": {"pattern": ABSOLUTE}, "additionalProperties": path
        }),
        Kind::Servers => json!({"anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/server", "required": ["name"]}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/server"}},
            {"type": "null"}
        ]}),
        Kind::List => json!({"type": ["array", "null"]}),
        Kind::Object => json!({"type": ["object", "null"]}),
        Kind::Any => json!({}),
    };
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
