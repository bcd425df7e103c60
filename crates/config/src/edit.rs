//! Changing the file in place: the bytes of one value change, everything else stays as a person wrote it.

mod parts;
mod replace;
mod style;
mod text;

use std::path::Path;

use serde_json::{Value, json};

use crate::problem::Problem;

/// One step on the way to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A member of an object.
    Key(&'a str),
    /// An element of a list; the number of elements is the place after the last one.
    Index(usize),
    /// The entry of a server in `mcpServers`, whichever form that has.
    Server(&'a str),
}

impl<'a> Step<'a> {
    fn name(&self) -> &'a str {
        match self {
            Self::Key(name) | Self::Server(name) => name,
            Self::Index(_) => "",
        }
    }
}

/// Sets the value at a place of the file, or takes it out (`None`). Objects on the way that are missing are made. Gives whether the file
/// was changed: a value that is there already is not written again.
///
/// The new file takes the old one's place at once and whole, with its mode and owner; a link is followed.
///
/// # Errors
/// A problem with the fix: the file is missing or not in order, the place does not exist, somebody else changed the
/// file meanwhile, or it cannot be written.
pub fn set(path: &Path, at: &[Step<'_>], value: Option<&Value>) -> Result<bool, Problem> {
    replace::edit(path, |old| text::changed(old, at, value))
}

/// Sets a key (`enabled`, `isolation.mode`) of the server of this name, or takes it out (`None`). An entry that says `disabled` keeps
/// its own word when `enabled` is set, so that the two never contradict each other.
///
/// # Errors
/// As for [`set`]; also if there is no such server.
pub fn set_server(
    path: &Path,
    name: &str,
    key: &str,
    value: impl Into<Option<Value>>,
) -> Result<bool, Problem> {
    let value = value.into();
    replace::edit(path, |old| match (key, &value) {
        ("enabled", Some(Value::Bool(on))) => switched(old, name, *on),
        _ => text::changed(old, &server_key(name, key), value.as_ref()),
    })
}

/// Writes a new file, mode 0600, in a directory that is made, mode 0700, if it is missing. Never replaces anything.
///
/// # Errors
/// A problem if the name is taken, or cannot be written.
pub fn create(path: &Path, text: &str) -> Result<(), Problem> {
    replace::create(path, text)
}

fn server_key<'a>(name: &'a str, key: &'a str) -> Vec<Step<'a>> {
    let above = [Step::Key("mcpServers"), Step::Server(name)];
    above.into_iter().chain(key.split('.').map(Step::Key)).collect()
}

/// The text with a server switched on or off in the words that its entry uses.
fn switched(old: &str, name: &str, on: bool) -> Result<String, Problem> {
    let root = text::parsed(old)?;
    let says = |key: &str| text::lookup(&root, &server_key(name, key)).is_some_and(Value::is_boolean);
    let mut new = old.to_owned();
    if says("enabled") || !says("disabled") {
        new = text::changed(&new, &server_key(name, "enabled"), Some(&json!(on)))?;
    }
    if says("disabled") {
        new = text::changed(&new, &server_key(name, "disabled"), Some(&json!(!on)))?;
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_switched_in_the_words_of_its_entry() {
        let file = |entry: &str| format!(r#"{{"mcpServers": [{{"name": "s", "command": "c"{entry}}}]}}"#);
        for (before, off, on) in [
            ("", r#", "enabled": false"#, r#", "enabled": true"#),
            (r#", "enabled": true"#, r#", "enabled": false"#, r#", "enabled": true"#),
            (r#", "disabled": true"#, r#", "disabled": true"#, r#", "disabled": false"#),
            (
                r#", "disabled": true, "enabled": false"#,
                r#", "disabled": true, "enabled": false"#,
                r#", "disabled": false, "enabled": true"#,
            ),
            (
                r#", "disabled": null, "enabled": null"#,
                r#", "disabled": null, "enabled": false"#,
                r#", "disabled": null, "enabled": true"#,
            ),
        ] {
            assert_eq!(switched(&file(before), "s", false).unwrap(), file(off));
            assert_eq!(switched(&file(before), "s", true).unwrap(), file(on));
        }
    }
}
