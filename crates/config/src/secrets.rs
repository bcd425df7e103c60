//! Values that must not be shown, and values that stand elsewhere: `${env:NAME}`.

use std::fmt;

use crate::problem::{Problem, member};
use crate::transport::launch_fault;
use crate::{Server, Transport};

/// A text that is not printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `other` is the same, in a time that depends on the lengths alone.
    #[must_use]
    pub fn matches(&self, other: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.as_bytes());
        let differing = ours.iter().zip(theirs).fold(0u8, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differing) == 0 && ours.len() == theirs.len()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// Why a reference has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// No such variable, or an empty one.
    Missing(String),
    /// `${keyring:NAME}`.
    Keyring(String),
    /// A reference of a kind that nobody here knows, such as `${input:NAME}`.
    Unknown(String),
}

impl Unresolved {
    /// The problem at a JSON path.
    pub(crate) fn at(self, path: String) -> Problem {
        match self {
            Self::Missing(name) => Problem::new(
                path,
                format!("${{env:{name}}} names a variable that is not set or is empty"),
                format!("set {name} in the environment that mcpproxy starts in"),
            ),
            Self::Keyring(name) => Problem::new(
                path,
                format!("${{keyring:{name}}} needs the system keyring, which is not in this version yet"),
                "put the value into an environment variable and write ${env:NAME}",
            ),
            Self::Unknown(kind) => Problem::new(
                path,
                format!("${{{kind}:…}} is no reference that mcpproxy knows"),
                "write ${env:NAME}, or the value itself",
            ),
        }
    }
}

/// Puts the values in place of the references in `text`. A `${` that is no reference stays as it is: it may be meant
/// for a shell.
pub(crate) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, Unresolved> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, tail) = rest.split_at(start);
        out.push_str(before);
        match reference(tail) {
            Some((kind, name, after)) => {
                out.push_str(&resolve(kind, name, lookup)?);
                rest = after;
            }
            None => {
                out.push_str("${");
                rest = &tail[2..];
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Kind, name and what follows, if `text` begins with a reference.
fn reference(text: &str) -> Option<(&str, &str, &str)> {
    let (inside, after) = text.strip_prefix("${")?.split_once('}')?;
    let (kind, name) = inside.split_once(':')?;
    let (kind, name) = (kind.trim(), name.trim());
    let is_word = !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_lowercase());
    // `${name:-x}`, `${name:+x}`, `${name:=x}` and `${name:?x}` are a shell's.
    let is_shell = name.starts_with(['-', '+', '=', '?']);
    (is_word && !is_shell && !name.is_empty()).then_some((kind, name, after))
}

fn resolve(kind: &str, name: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, Unresolved> {
    match kind {
        "env" => lookup(name).filter(|v| !v.is_empty()).ok_or_else(|| Unresolved::Missing(name.to_owned())),
        "keyring" => Err(Unresolved::Keyring(name.to_owned())),
        other => Err(Unresolved::Unknown(other.to_owned())),
    }
}

impl Server {
    /// This server with every `${env:NAME}` in command, arguments, variables, headers, address and working directory
    /// replaced, ready to be launched. `lookup` gives the value of a variable.
    ///
    /// # Errors
    /// A problem of this server alone: a variable that is not set, a reference of a kind that is not there yet, or a
    /// value that cannot be used where it ended up.
    pub fn resolve_secrets(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, Problem> {
        let put = |text: &str, path: String| expand(text, lookup).map_err(|unresolved| unresolved.at(path));
        let at = |key: &str| member(&self.at, key);
        let transport = match &self.transport {
            Transport::Stdio { command, args, cwd, env } => Transport::Stdio {
                command: put(command, at("command"))?,
                args: args
                    .iter()
                    .enumerate()
                    .map(|(i, arg)| put(arg, format!("{}[{i}]", at("args"))))
                    .collect::<Result<_, _>>()?,
                cwd: match cwd {
                    // A path from the file is always text.
                    Some(dir) => Some(put(&dir.to_string_lossy(), at("working_dir"))?.into()),
                    None => None,
                },
                env: env
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), put(value, member(&at("env"), name))?)))
                    .collect::<Result<_, Problem>>()?,
            },
            Transport::Http { url, headers } => Transport::Http {
                url: put(url, at("url"))?,
                headers: headers
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), put(value, member(&at("headers"), name))?)))
                    .collect::<Result<_, Problem>>()?,
            },
            Transport::Unsupported { what, .. } => {
                let fix = "use stdio or streamable HTTP, or disable the entry";
                return Err(Problem::new(self.at.clone(), format!("{what} is not in this version yet"), fix));
            }
        };
        match launch_fault(&transport, &self.at) {
            Some(problem) => Err(problem),
            None => Ok(Self { transport, ..self.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".to_owned()),
            "B" => Some("${env:A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced_and_nothing_else() {
        let cases = [
            ("${env:A}", "one"),
            ("x${env:A}y${ env : A }z", "xoneyonez"),
            ("${env:B}", "${env:A}"),
            ("${HOME}/x", "${HOME}/x"),
            ("${X:-y}${x:-y}${x:?no}", "${X:-y}${x:-y}${x:?no}"),
            ("${", "${"),
            ("${env:A", "${env:A"),
            ("${env:}", "${env:}"),
            ("$${env:A}", "$one"),
            ("", ""),
        ];
        for (text, right) in cases {
            assert_eq!(expand(text, &lookup).as_deref(), Ok(right), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        assert_eq!(expand("${env:NO}", &lookup), Err(Unresolved::Missing("NO".to_owned())));
        assert_eq!(expand("${env:EMPTY}", &lookup), Err(Unresolved::Missing("EMPTY".to_owned())));
        assert_eq!(expand("${keyring:k}", &lookup), Err(Unresolved::Keyring("k".to_owned())));
        assert_eq!(expand("${input:token}", &lookup), Err(Unresolved::Unknown("input".to_owned())));
    }

    #[test]
    fn secrets_compare_and_hide() {
        let text = ["pass", "word"].concat();
        let secret = Secret::new(text.clone());
        assert!(secret.matches(&text));
        assert!(!secret.matches("") && !secret.matches("passwore") && !secret.matches(&format!("{text}x")));
        assert!(!format!("{secret:?}").contains(&text));
    }
}
