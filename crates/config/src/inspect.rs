//! The file against the keys table: types, ranges, what is not there yet, and names that nobody knows.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::duration;
use crate::file::{Document, kind_of};
use crate::keys::{self, Key, Kind, SERVER, Standing};
use crate::problem::{Findings, Problem, element, member, quoted};
use crate::scope::{NotWhole, Scope, as_whole};
use crate::servers::Entry;

/// Checks every value that has a row in the table, and every name.
pub(crate) fn inspect(document: &Document, entries: &[Entry<'_>], findings: &mut Findings) {
    let mut not_yet = NotYet::default();
    let global = Scope::global(document.root());
    for key in keys::of_servers(false) {
        inspect_value(key, key.path, &global, &mut not_yet, findings);
    }
    names(document.root(), "", "$", findings);
    for entry in entries {
        let scope = Scope::server(entry.object, &entry.at);
        for key in keys::of_servers(true) {
            inspect_value(key, &key.path[SERVER.len()..], &scope, &mut not_yet, findings);
        }
        names(entry.object, SERVER, &entry.at, findings);
    }
    not_yet.warn(findings);
}

/// Keys without effect: the first place and the number of places of each, so that each is told once.
#[derive(Default)]
struct NotYet(BTreeMap<&'static str, (String, usize)>);

impl NotYet {
    fn note(&mut self, key: &'static Key, path: String) {
        self.0.entry(key.path).or_insert((path, 0)).1 += 1;
    }

    fn warn(self, findings: &mut Findings) {
        for (path, count) in self.0.into_values() {
            let more =
                if count > 1 { format!(" (here and in {} more entries)", count - 1) } else { String::new() };
            findings.warn(Problem::new(
                path,
                format!("is not in this version yet and has no effect{more}"),
                "nothing to do: it is kept as it is",
            ));
        }
    }
}

fn inspect_value(
    key: &'static Key,
    name: &str,
    scope: &Scope<'_>,
    not_yet: &mut NotYet,
    findings: &mut Findings,
) {
    let Some(value) = scope.given(name) else { return };
    let path = scope.path(name);
    if let Some(fault) = fault(&key.kind, value) {
        return findings.problem(Problem::new(path + &fault.place, fault.message, fault.fix));
    }
    match key.standing {
        Standing::Refused { when, what } if when(value) => findings.problem(Problem::new(
            path,
            format!("asks for {what}, which is not in this version yet"),
            refusal_fix(key),
        )),
        Standing::NotYet { quiet } if !quiet(value) && !is_default(key, value) => not_yet.note(key, path),
        _ => {}
    }
}

fn refusal_fix(key: &Key) -> String {
    let or = if key.default == "null" { String::new() } else { format!(" or write {}", key.default) };
    format!("take it out{or}, if you can do without")
}

/// Whether a value says the same as the default, however it is spelled.
fn is_default(key: &Key, value: &Value) -> bool {
    let default = key.default_value();
    let is_same_duration =
        || match (value.as_str().map(duration::parse), default.as_str().map(duration::parse)) {
            (Some(Ok(a)), Some(Ok(b))) => a == b,
            _ => false,
        };
    let is_empty = match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    *value == default
        || (value.is_number() && value.as_f64() == default.as_f64())
        || (matches!(key.kind, Kind::Duration { .. }) && is_same_duration())
        || (is_empty && (default.is_null() || matches!(key.kind, Kind::Choice(_))))
}

/// What is wrong with a value: where in it, what, and the fix.
struct Fault {
    place: String,
    message: String,
    fix: String,
}

fn wrong(message: impl Into<String>, fix: impl Into<String>) -> Option<Fault> {
    Some(Fault { place: String::new(), message: message.into(), fix: fix.into() })
}

/// The first thing that is wrong with a value of this kind.
fn fault(kind: &Kind, value: &Value) -> Option<Fault> {
    match kind {
        Kind::Bool => need(value, value.is_boolean(), "true or false"),
        Kind::Integer { min, max } => integer_fault(value, *min, *max),
        Kind::Number => {
            need(value, value.as_f64().is_some_and(|n| n >= 0.0), "a number that is not negative")
        }
        Kind::Duration { min, max, zero } => match value.as_str() {
            Some(text) => duration_fault(text, *min, *max, *zero),
            None => wrong(
                format!("must be a text such as \"30s\", \"500ms\" or \"1h30m\", not {}", kind_of(value)),
                value
                    .as_u64()
                    .map_or("write \"30s\"".to_owned(), |n| format!("write \"{n}s\" if seconds are meant")),
            ),
        },
        Kind::Text => need(value, value.is_string(), "a text"),
        Kind::Choice(choices) => match value.as_str() {
            Some(text) if text.is_empty() || choices.contains(&text) => None,
            Some(text) => wrong(format!("{} is none of its values", quoted(text)), one_of(choices)),
            None => wrong(format!("must be a text, not {}", kind_of(value)), one_of(choices)),
        },
        Kind::Texts => list_fault(value, |item| need(item, item.is_string(), "a text")),
        Kind::TextMap => {
            map_fault(value, |_, item| need(item, item.is_string(), "a text (write it in quotes)"))
        }
        Kind::Owners => list_fault(value, owner_fault),
        Kind::Directories => list_fault(value, absolute_fault),
        Kind::DirectoryMap => {
            map_fault(value, |name, item| absolute_text(name).or_else(|| absolute_fault(item)))
        }
        Kind::Servers => need(value, value.is_array() || value.is_object(), "a list or an object of servers"),
        Kind::List => need(value, value.is_array(), "a list"),
        Kind::Object => need(value, value.is_object(), "an object"),
        Kind::Any => None,
    }
}

fn need(value: &Value, is_right: bool, what: &str) -> Option<Fault> {
    if is_right {
        None
    } else {
        wrong(format!("must be {what}, not {}", shown(value)), format!("write {what}"))
    }
}

/// A number as it is (it is never a secret), else what kind of value it is.
fn shown(value: &Value) -> String {
    if value.is_number() { value.to_string() } else { kind_of(value).to_owned() }
}

fn one_of(choices: &[&str]) -> String {
    format!("write one of {}", choices.iter().map(|c| format!("\"{c}\"")).collect::<Vec<_>>().join(", "))
}

fn integer_fault(value: &Value, min: i64, max: i64) -> Option<Fault> {
    let range = if max == i64::MAX { format!("of at least {min}") } else { format!("from {min} to {max}") };
    let message = format!("must be a whole number {range}, not {}", shown(value));
    match as_whole(value) {
        Ok(number) if number < min || number > max => wrong(message, format!("write a whole number {range}")),
        Ok(_) => None,
        Err(NotWhole::NoNumber) => {
            let bare = value.as_str().filter(|text| text.parse::<i64>().is_ok());
            wrong(
                message,
                bare.map_or(format!("write a whole number {range}"), |t| format!("write {t} without quotes")),
            )
        }
        Err(NotWhole::Fraction) => wrong(message, "write it without a fraction"),
        Err(NotWhole::TooLarge) => wrong(message, "write a smaller number"),
    }
}

fn duration_fault(
    text: &str,
    min: std::time::Duration,
    max: std::time::Duration,
    zero: bool,
) -> Option<Fault> {
    let (least, most) = (duration::format(min), duration::format(max));
    match duration::parse(text) {
        Err(error) => wrong(
            format!("{} {error}", quoted(text)),
            "write a duration such as \"30s\", \"500ms\" or \"1h30m\"",
        ),
        Ok(time) if time.is_zero() && zero => None,
        Ok(time) if time < min => {
            wrong(format!("{} is too short", quoted(text)), format!("write at least \"{least}\""))
        }
        Ok(time) if time > max => {
            wrong(format!("{} is too long", quoted(text)), format!("write at most \"{most}\""))
        }
        Ok(_) => None,
    }
}

fn owner_fault(value: &Value) -> Option<Fault> {
    let is_name = value.as_str().is_some_and(|name| !name.is_empty() && !name.contains([':', '/', '\0']));
    // The highest uid means "no one" to the kernel.
    let is_uid = value.as_u64().is_some_and(|uid| uid < u64::from(u32::MAX));
    need(value, is_name || is_uid, "a user name or a uid")
}

fn absolute_fault(value: &Value) -> Option<Fault> {
    match value.as_str() {
        Some(text) => absolute_text(text),
        None => need(value, false, "an absolute path"),
    }
}

fn absolute_text(text: &str) -> Option<Fault> {
    if Path::new(text).is_absolute() {
        return None;
    }
    wrong(
        format!("{} is not an absolute path", quoted(text)),
        "write the whole path, from the root of the file system",
    )
}

fn list_fault(value: &Value, check: impl Fn(&Value) -> Option<Fault>) -> Option<Fault> {
    let Some(list) = value.as_array() else { return need(value, false, "a list") };
    list.iter().enumerate().find_map(|(index, item)| {
        check(item).map(|fault| Fault { place: element("", index) + &fault.place, ..fault })
    })
}

fn map_fault(value: &Value, check: impl Fn(&str, &Value) -> Option<Fault>) -> Option<Fault> {
    let Some(members) = value.as_object() else { return need(value, false, "an object") };
    members.iter().find_map(|(name, item)| {
        check(name, item).map(|fault| Fault { place: member("", name) + &fault.place, ..fault })
    })
}

/// Reports names that the table does not have, and groups that are no objects.
fn names(object: &Map<String, Value>, prefix: &str, at: &str, findings: &mut Findings) {
    for (name, value) in object {
        let path = member(at, name);
        let full = format!("{prefix}{name}");
        // A dot in a name is no path: `"logging.level"` is not the key of that path.
        let is_plain = !name.contains(['.', '[']);
        if is_plain && keys::is_group(&full) {
            match value {
                Value::Null => {}
                Value::Object(members) => names(members, &format!("{full}."), &path, findings),
                other => findings.problem(Problem::new(
                    path,
                    format!("must be an object, not {}", kind_of(other)),
                    "write an object",
                )),
            }
        } else if !is_plain || keys::find("", &full).is_none() {
            findings.misnamed(Problem::new(
                path,
                "is no key that mcpproxy knows; it is kept",
                hint(name, prefix),
            ));
        }
    }
}

/// Names that other clients use, and ours.
const FOREIGN: [(&str, &str); 5] = [
    ("servers", "mcpServers"),
    ("includeTools", "enabled_tools"),
    ("excludeTools", "disabled_tools"),
    ("workingDirectory", "working_dir"),
    ("timeout", "call_tool_timeout"),
];

fn hint(name: &str, prefix: &str) -> String {
    if name.contains('.') && keys::find(prefix, name).is_some() {
        return "write it as an object inside an object".to_owned();
    }
    let foreign = FOREIGN.iter().find(|(theirs, ours)| *theirs == name && keys::find(prefix, ours).is_some());
    match foreign.map(|(_, ours)| *ours).or_else(|| nearest(name, keys::names(prefix))) {
        Some(known) => format!("is \"{known}\" meant?"),
        None => "take it out if it is a mistake".to_owned(),
    }
}

/// The known name that differs least from `name`, if it differs little.
fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let spelled = snake(name);
    let most = (spelled.chars().count() / 3).clamp(1, 4);
    let distances = known.map(|other| (distance(&spelled, &snake(other)), other));
    distances.filter(|(d, _)| *d <= most).min_by_key(|(d, _)| *d).map(|(_, other)| other)
}

/// `readOnly-Mode` as `read_only_mode`.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        match c {
            '-' | '.' | ' ' => out.push('_'),
            c if c.is_uppercase() => {
                if !out.is_empty() && !out.ends_with('_') {
                    out.push('_');
                }
                out.extend(c.to_lowercase());
            }
            c => out.push(c),
        }
    }
    out
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let changed = last[j] + usize::from(a[i] != b[j]);
            row[j + 1] = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_get_the_nearest_known_one() {
        let cases = [
            ("read_only_mod", "", Some("read_only_mode")),
            ("readOnlyMode", "", Some("read_only_mode")),
            ("tool-output-roots", "", Some("tool_output_roots")),
            ("mcpservers", "", Some("mcpServers")),
            ("mcp_servers", "", Some("mcpServers")),
            ("levle", "logging.", Some("level")),
            ("comand", SERVER, Some("command")),
            ("workingDir", SERVER, Some("working_dir")),
            ("x_note", "", None),
            ("completely_else", "", None),
        ];
        for (name, prefix, right) in cases {
            assert_eq!(nearest(name, keys::names(prefix)), right, "{name}");
        }
        assert!(hint("excludeTools", SERVER).contains("disabled_tools"));
        assert!(hint("servers", "").contains("mcpServers"));
    }

    #[test]
    fn distances() {
        for (a, b, right) in
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("levle", "level", 1)]
        {
            assert_eq!(distance(a, b), right);
        }
    }
}
