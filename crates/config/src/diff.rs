//! What differs between two files, key by key of the table.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::keys::{self, Applies, Key, Kind, SERVER, Standing};
use crate::mask::masked;
use crate::problem::{Findings, quoted};
use crate::scope::{Scope, as_whole};
use crate::{Document, duration, servers};

/// One difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The key, such as `logging.level`, `mcpServers[github].env`, or `mcpServers[github]` for a whole entry.
    pub path: String,
    /// The server, if it is a key of one or a whole entry.
    pub server: Option<String>,
    /// What happened.
    pub kind: ChangeKind,
    /// When it takes effect.
    pub applies: Applies,
    /// False if this version does nothing with the key.
    pub has_effect: bool,
    /// What was written, secrets hidden; `None` if nothing was.
    pub old: Option<Value>,
    /// What is written now, secrets hidden; `None` if nothing is.
    pub new: Option<Value>,
}

/// What happened to a key or an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The entry is new.
    Added,
    /// The entry is gone.
    Removed,
    /// The value is another one.
    Changed,
}

impl Change {
    /// Whether the program must be started again for it.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        self.has_effect && self.applies == Applies::Restart
    }
}

/// Other names of keys of an entry, and whether they say the opposite.
const ALIASES: [(&str, &str); 5] = [
    ("protocol", "type"),
    ("protocol", "transport"),
    ("working_dir", "cwd"),
    ("url", "serverUrl"),
    ("url", "httpUrl"),
];

/// The differences between two files that are in order, in the order of the table, then of the servers' names. Spellings that mean the
/// same (`"2m"` and `"120s"`, an absent key and its default, the two forms of `mcpServers`, `disabled` and `enabled`)
/// are none, and neither is the order of keys or servers.
#[must_use]
pub fn diff(old: &Document, new: &Document) -> Vec<Change> {
    let mut changes = Vec::new();
    let (was, is) = (Scope::global(old.root()), Scope::global(new.root()));
    for key in keys::of_servers(false).filter(|key| !matches!(key.kind, Kind::Servers)) {
        let values = (was.given(key.path), is.given(key.path));
        changes.extend(change(key, key.path, values).map(|change| Change {
            path: key.path.to_owned(),
            server: None,
            ..change
        }));
    }
    let (was, is) = (entries(old), entries(new));
    let mut names: Vec<_> = was.keys().chain(is.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        match (was.get(name), is.get(name)) {
            (Some(old), Some(new)) => changes.extend(entry_changes(name, old, new)),
            (old, _) => changes.push(whole_entry(name, old.is_none())),
        }
    }
    changes
}

/// The entries by name, each in one spelling.
fn entries(document: &Document) -> BTreeMap<String, Map<String, Value>> {
    let entries = servers::entries(document, &mut Findings::default());
    entries.iter().map(|entry| (entry.name().to_owned(), in_one_spelling(entry.object))).collect()
}

/// An entry whose keys have the names of the reference, and no name.
pub(crate) fn in_one_spelling(entry: &Map<String, Value>) -> Map<String, Value> {
    let is_said = |value: &Value| !value.is_null() && value.as_str() != Some("");
    let mut entry = entry.clone();
    entry.shift_remove("name");
    for (name, alias) in ALIASES {
        let Some(value) = entry.shift_remove(alias).filter(is_said) else { continue };
        if !entry.get(name).is_some_and(is_said) {
            entry.insert(name.to_owned(), value);
        }
    }
    if let Some(Value::Bool(disabled)) = entry.shift_remove("disabled")
        && !entry.get("enabled").is_some_and(is_said)
    {
        entry.insert("enabled".to_owned(), Value::Bool(!disabled));
    }
    entry
}

fn entry_changes(name: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<Change> {
    let (was, is) = (Scope::server(old, ""), Scope::server(new, ""));
    let mut changes = Vec::new();
    for key in keys::of_servers(true) {
        let rest = &key.path[SERVER.len()..];
        changes.extend(change(key, rest, (was.given(rest), is.given(rest))).map(|change| Change {
            path: format!("{}.{rest}", entry_path(name)),
            server: Some(name.to_owned()),
            ..change
        }));
    }
    changes
}

fn whole_entry(name: &str, is_new: bool) -> Change {
    Change {
        path: entry_path(name),
        server: Some(name.to_owned()),
        kind: if is_new { ChangeKind::Added } else { ChangeKind::Removed },
        applies: Applies::Hot,
        has_effect: true,
        old: None,
        new: None,
    }
}

fn entry_path(name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_./@ ".contains(c));
    if is_plain { format!("mcpServers[{name}]") } else { format!("mcpServers[{}]", quoted(name)) }
}

fn change(key: &Key, name: &str, (old, new): (Option<&Value>, Option<&Value>)) -> Option<Change> {
    if meaning(key, old) == meaning(key, new) {
        return None;
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let shown = |value: Option<&Value>| value.map(|value| masked(last, value));
    Some(Change {
        path: String::new(),
        server: None,
        kind: ChangeKind::Changed,
        applies: key.applies,
        has_effect: matches!(key.standing, Standing::Obeyed),
        old: shown(old),
        new: shown(new),
    })
}

/// A value in the one spelling of what it means; an absent one is the default.
fn meaning(key: &Key, value: Option<&Value>) -> Value {
    let default = || if key.default == "null" { Value::Null } else { spelled(key, &key.default_value()) };
    match value {
        None => default(),
        Some(Value::String(text)) if text.is_empty() && matches!(key.kind, Kind::Text | Kind::Choice(_)) => {
            default()
        }
        Some(value) => spelled(key, value),
    }
}

fn spelled(key: &Key, value: &Value) -> Value {
    match key.kind {
        Kind::Duration { .. } => match value.as_str().map(duration::parse) {
            Some(Ok(time)) => Value::from(duration::format(time)),
            _ => value.clone(),
        },
        Kind::Integer { .. } => as_whole(value).map_or_else(|_| value.clone(), Value::from),
        Kind::Number => value.as_f64().map_or_else(|| value.clone(), Value::from),
        // Nothing given and an empty list or object are the same.
        _ if *value == Value::Array(Vec::new()) || *value == Value::Object(Map::new()) => {
            if key.default == "null" { Value::Null } else { value.clone() }
        }
        _ => value.clone(),
    }
}
