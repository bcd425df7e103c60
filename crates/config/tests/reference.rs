//! The reference of the configuration file is made from the keys table. `UPDATE_DOCS=1` writes it, else it must be equal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fmt::Write;
use std::path::Path;

use config::duration;
use config::{Applies, KEYS, Key, Kind, Standing};

/// Where each part of the page begins: the path of its first key, and its heading.
const PARTS: [(&str, &str); 9] = [
    ("listen", "The program"),
    ("read_only_mode", "Who may do what"),
    ("tools_limit", "Answers and tools"),
    ("tool_output_roots", "Saving answers to files"),
    ("output_validation.mode", "Cleaning and validation"),
    ("environment.inherit_system_safe", "Children and sandboxes"),
    ("health_check_interval", "Keeping watch"),
    ("activity_retention_days", "Records and logs"),
    ("mcpServers[].name", "A server entry"),
];

/// Longest line of the page, in bytes.
const WIDTH: usize = 112;

const HEAD: &str = "# The configuration file, key by key

This page is made from the table of keys that the program itself goes by. Do not edit it: change
`crates/config/src/keys/table.rs` and run `UPDATE_DOCS=1 cargo test -p config --test reference`.

[The guide](../configuration.md) says where the file lies and how it is loaded. `a.b` is the member `b` of the object
`a`; `mcpServers[].x` is a member of every server entry. `null` means \"not given\" everywhere. A duration is a text
such as `\"90s\"`, `\"1m30s\"` or `\"2h\"`.

Each key says when a change applies:

- *at reload*: within seconds, while the gateway runs;
- *at the next start*: `status` names the key until then.

And what this version does with it:

- nothing is said: the key does what it says;
- *ends the start*: a value that asks for the protection is refused with exit code 4, because it is not there yet;
- *no effect yet*: the value is kept, and one line of the log says that it does nothing;
- *a note*: the value is kept, and nothing depends on it.

*Only the file* marks a key that no flag, variable, request or tool can set (`--require-mcp-auth` may switch that one
on).
";

#[test]
fn the_reference_of_the_file_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration/config-file.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written == page, "{} is old: run this test with UPDATE_DOCS=1", path.display());
}

#[test]
fn every_part_begins_at_a_key_and_no_line_is_too_long() {
    for (first, _) in PARTS {
        assert!(KEYS.iter().any(|key| key.path == first), "{first}");
    }
    let page = page();
    assert!(KEYS.len() > 100 && page.matches("\n### ").count() == KEYS.len());
    for line in page.lines() {
        assert!(line.len() <= 120, "{line}");
    }
}

fn page() -> String {
    let mut page = String::from(HEAD);
    for key in KEYS {
        if let Some((_, heading)) = PARTS.iter().find(|(first, _)| *first == key.path) {
            write!(page, "\n## {heading}\n").unwrap();
        }
        write!(page, "\n### `{}`\n\n{}\n\n{}\n", key.path, wrapped(&sentence(key.doc)), wrapped(&facts(key)))
            .unwrap();
        if long(key.default) {
            write!(page, "\n```json\n{}\n```\n", key.default).unwrap();
        }
    }
    page
}

/// A default that does not fit into a line.
fn long(default: &str) -> bool {
    default.len() > 80
}

fn sentence(doc: &str) -> String {
    format!("{}.", doc.trim_end_matches('.'))
}

fn facts(key: &Key) -> String {
    let mut facts = vec![kind(&key.kind)];
    facts.push(match key.default {
        "null" => "no default".to_owned(),
        default if long(default) => "the default stands below".to_owned(),
        default => format!("default `{default}`"),
    });
    facts.push(format!("for example `{}`", key.example));
    facts.push(match key.applies {
        Applies::Hot => "applies at reload".to_owned(),
        Applies::Restart => "applies at the next start".to_owned(),
    });
    if key.file_only {
        facts.push("only the file".to_owned());
    }
    match key.standing {
        Standing::Obeyed => {}
        Standing::Refused { what, .. } => {
            facts.push(format!("asking for it ends the start: {what} is not in this version yet"));
        }
        Standing::NotYet { .. } => facts.push("no effect yet".to_owned()),
        Standing::Kept => facts.push("a note".to_owned()),
    }
    format!("{}.", facts.join("; "))
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "`true` or `false`".into(),
        Kind::Integer { min, max: i64::MAX } => format!("A whole number from {min} up"),
        Kind::Integer { min, max } => format!("A whole number from {min} to {max}"),
        Kind::Number => "A number that is not negative".into(),
        Kind::Duration { min, zero, .. } => {
            let zero = if *zero { ", or `\"0s\"`" } else { "" };
            format!("A duration of at least {}{zero}", duration::format(*min))
        }
        Kind::Text => "A text".into(),
        Kind::Choice(choices) => {
            let all: Vec<String> = choices.iter().map(|c| format!("`\"{c}\"`")).collect();
            format!("One of {}", all.join(", "))
        }
        Kind::Texts => "A list of texts".into(),
        Kind::TextMap => "An object whose values are texts".into(),
        Kind::Owners => "A list of user names or uids".into(),
        Kind::Directories => "A list of absolute paths of directories".into(),
        Kind::DirectoryMap => "An object from absolute path to absolute path".into(),
        Kind::Servers => "A list of entries, or an object of entries by name".into(),
        Kind::List => "A list".into(),
        Kind::Object => "An object".into(),
        Kind::Any => "Anything".into(),
    }
}

/// The text in lines of at most `WIDTH` bytes, broken at spaces.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= WIDTH {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}
