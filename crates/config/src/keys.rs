//! Every key of the file: its type, default, when a change applies, and what this version does with it.

mod table;

use std::time::Duration;

use serde_json::Value;

pub use table::KEYS;

/// One key of the file.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Where it stands: `a.b` is a member of the object `a`, `mcpServers[].x` a member of every server entry.
    pub path: &'static str,
    /// What may stand there. `null` means "not given" everywhere.
    pub kind: Kind,
    /// The default as JSON; `null` = none, or inherited from the global key.
    pub default: &'static str,
    /// A value other than the default, as JSON; for a refused key one that is refused.
    pub example: &'static str,
    /// When a change takes effect.
    pub applies: Applies,
    /// True if only the file can set it: no call, tool, page, variable or flag.
    pub file_only: bool,
    /// What this version does with it.
    pub standing: Standing,
    /// What it means, in one line.
    pub doc: &'static str,
}

/// The type and range of a value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in a range.
    Integer {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// A number that is not negative.
    Number,
    /// A text such as `"1m30s"`.
    Duration {
        /// The shortest, unless it is zero.
        min: Duration,
        /// The longest.
        max: Duration,
        /// Whether zero is allowed too.
        zero: bool,
    },
    /// A text.
    Text,
    /// One of these texts; `""` means "not given".
    Choice(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// An object whose values are texts.
    TextMap,
    /// A list of user names or uids.
    Owners,
    /// A list of absolute directory paths.
    Directories,
    /// An object from absolute path to absolute path.
    DirectoryMap,
    /// The servers: a list of entries, or an object whose names are the servers' names.
    Servers,
    /// A list of anything.
    List,
    /// An object with any members.
    Object,
    /// Anything.
    Any,
}

/// When a change of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// At reload.
    Hot,
    /// At the next start.
    Restart,
}

/// What this version does with a key.
#[derive(Debug, Clone, Copy)]
pub enum Standing {
    /// It does what the key says.
    Obeyed,
    /// It does not start when `when` holds: the value asks for a protection that is not there. Every other value
    /// asks for nothing and is fine.
    Refused {
        /// Whether a value asks for the protection.
        when: fn(&Value) -> bool,
        /// The protection.
        what: &'static str,
    },
    /// It warns about a value that is not the default, because the key has no effect yet.
    NotYet {
        /// Values besides the default that need no warning.
        quiet: fn(&Value) -> bool,
    },
    /// It keeps the key as a note. Nothing depends on it.
    Kept,
}

impl Key {
    /// The default as a value.
    #[must_use]
    pub fn default_value(&self) -> Value {
        serde_json::from_str(self.default).unwrap_or(Value::Null)
    }

    const fn new(path: &'static str, kind: Kind, default: &'static str, example: &'static str) -> Self {
        let (applies, standing) = (Applies::Hot, Standing::Obeyed);
        Self { path, kind, default, example, applies, file_only: false, standing, doc: "" }
    }

    const fn restart(self) -> Self {
        Self { applies: Applies::Restart, ..self }
    }

    const fn file_only(self) -> Self {
        Self { file_only: true, ..self }
    }

    const fn not_yet(self) -> Self {
        self.not_yet_unless(|_| false)
    }

    const fn not_yet_unless(self, quiet: fn(&Value) -> bool) -> Self {
        Self { standing: Standing::NotYet { quiet }, ..self }
    }

    const fn refused(self, what: &'static str, when: fn(&Value) -> bool) -> Self {
        Self { standing: Standing::Refused { when, what }, ..self }
    }

    const fn kept(self) -> Self {
        Self { standing: Standing::Kept, ..self }
    }

    const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }
}

/// What stands before the path of a key of a server entry.
pub(crate) const SERVER: &str = "mcpServers[].";

/// The key whose path is `prefix` followed by `rest`.
pub(crate) fn find(prefix: &str, rest: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path.strip_prefix(prefix) == Some(rest))
}

/// The keys of a server entry, or all others.
pub(crate) fn of_servers(servers: bool) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.path.starts_with(SERVER) == servers)
}

/// The names that may stand in the object at `prefix` (which ends in a dot or is empty).
pub(crate) fn names(prefix: &str) -> impl Iterator<Item = &'static str> {
    let rests = KEYS.iter().filter_map(move |key| key.path.strip_prefix(prefix));
    rests.map(|rest| rest.split('.').next().unwrap_or(rest)).filter(|name| !name.ends_with("[]"))
}

/// Whether other keys stand below `path`.
pub(crate) fn is_group(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}
