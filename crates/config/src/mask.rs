//! Values as they may be shown: what is or looks like a secret is not.

use serde_json::{Map, Value};

/// What stands in the place of a secret.
pub(crate) const HIDDEN: &str = "****";

/// The value of a key of this name, secrets hidden. References such as `${env:NAME}` stay: they are none.
pub(crate) fn masked(name: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if is_sensitive(name) => Value::from(hidden(text)),
        Value::String(text) if name.to_ascii_lowercase().ends_with("url") => Value::from(address(text)),
        Value::String(text) => Value::from(if looks_secret(text) { HIDDEN } else { text }),
        Value::Array(list) if name == "args" => Value::Array(arguments(list)),
        Value::Array(list) => list.iter().map(|item| masked(name, item)).collect(),
        Value::Object(members) if matches!(name, "env" | "headers" | "custom_vars") => {
            members.iter().map(|(name, value)| (name.clone(), all_hidden(value))).collect()
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), masked(name, value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn all_hidden(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(hidden(text)),
        other => masked("secret", other),
    }
}

/// A text that is a secret; references in it, with a word such as `Bearer` before them, stay.
fn hidden(text: &str) -> String {
    let (mut rest, mut plain) = (text, String::new());
    while let Some((before, inside)) = rest.split_once("${") {
        let Some((_, after)) = inside.split_once('}') else { break };
        plain.push_str(before);
        rest = after;
    }
    plain.push_str(rest);
    let is_word = matches!(plain.trim().to_ascii_lowercase().as_str(), "" | "bearer" | "basic" | "token");
    if text.is_empty() || (is_word && text.contains("${")) { text.to_owned() } else { HIDDEN.to_owned() }
}

fn is_sensitive(name: &str) -> bool {
    const WORDS: [&str; 11] = [
        "token",
        "secret",
        "password",
        "passwd",
        "apikey",
        "authorization",
        "credential",
        "privatekey",
        "cookie",
        "passphrase",
        "accesskey",
    ];
    let name: String = name.chars().filter(|c| !"-_ ".contains(*c)).collect::<String>().to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// Arguments: the value after or in an option with a telling name, and what looks like a secret.
fn arguments(list: &[Value]) -> Vec<Value> {
    let mut after_telling = false;
    let one = |value: &Value| {
        let Some(text) = value.as_str() else { return value.clone() };
        let is_value = std::mem::take(&mut after_telling) && !text.starts_with('-');
        if is_value {
            return Value::from(hidden(text));
        }
        match text.split_once('=') {
            Some((name, value)) if is_sensitive(name) => Value::from(format!("{name}={}", hidden(value))),
            Some((name, value)) if looks_secret(value) => Value::from(format!("{name}={HIDDEN}")),
            None if text.starts_with('-') && is_sensitive(text) => {
                after_telling = true;
                value.clone()
            }
            _ if text.contains("://") => Value::from(address(text)),
            _ => masked("", value),
        }
    };
    list.iter().map(one).collect()
}

/// An address without password, query and what looks like a key in its path.
fn address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return if looks_secret(text) { HIDDEN.to_owned() } else { text.to_owned() };
    };
    let rest = rest.split('#').next().unwrap_or(rest);
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let mut segments = place.split('/');
    let host = segments.next().unwrap_or("");
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("{HIDDEN}@{host}"));
    let path: String = segments.map(|s| format!("/{}", if looks_secret(s) { HIDDEN } else { s })).collect();
    let query = query.map_or(String::new(), |query| {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) => format!("{name}={}", hidden(value)),
            None => hidden(pair),
        });
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{host}{path}{query}")
}

/// A long word of letters and digits that nobody would write by hand.
fn looks_secret(text: &str) -> bool {
    const SHORTEST: usize = 20;
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_+=.~".contains(c);
    text.len() >= SHORTEST
        && text.chars().all(is_word)
        && !text.contains("..")
        && text.chars().filter(char::is_ascii_digit).count() >= 4
        && text.chars().any(|c| c.is_ascii_alphabetic())
        && !is_version(text)
}

/// A package or image name ends in a version: few letters stand beside its digits.
fn is_version(text: &str) -> bool {
    text.split(['-', '.', '_', '=']).all(|word| {
        word.chars().all(|c| c.is_ascii_digit()) && word.len() <= 8
            || word.chars().all(|c| c.is_ascii_alphabetic()) && word.len() <= 16
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_shown() {
        let token = ["ghp_", "0123456789abcdefABCDEF0123456789abcd"].concat();
        let bearer = format!("Bearer {token}");
        let entry = json!({
            "name": "server-sequential-thinking", "command": "docker",
            "args": ["run", "-e", format!("TOKEN={token}"), "--api-key", "short", "--port=8080", token,
                "server-2025-01-01-extended-build", "/srv/data/2025/some-long-directory-name",
                format!("--x={token}"), "--token", "${env:T}"],
            "env": {"A": "b", "REF": "${env:A}", "MIX": format!("{token}${{env:A}}")},
            "headers": {"Authorization": bearer, "X": "Bearer ${env:T}"},
            "url": format!("https://user:{token}@host/{token}/mcp?key={token}&n#x"),
            "oauth": {"client_id": "me", "client_secret": "short", "scopes": ["a"]},
            "enabled": true, "timeout": 5
        });
        let shown = masked("", &entry);
        assert!(!shown.to_string().contains(&token), "{shown}");
        assert_eq!(
            shown,
            json!({
                "name": "server-sequential-thinking", "command": "docker",
                "args": ["run", "-e", "TOKEN=****", "--api-key", "****", "--port=8080", "****",
                    "server-2025-01-01-extended-build", "/srv/data/2025/some-long-directory-name",
                    "--x=****", "--token", "${env:T}"],
                "env": {"A": "****", "REF": "${env:A}", "MIX": "****"},
                "headers": {"Authorization": "****", "X": "Bearer ${env:T}"},
                "url": "https://****@host/****/mcp?key=****&****",
                "oauth": {"client_id": "me", "client_secret": "****", "scopes": ["a"]},
                "enabled": true, "timeout": 5
            })
        );
    }
}
