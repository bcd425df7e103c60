//! How a server is reached: the spellings of other clients, and what would make a launch fail for its text alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::Transport;
use crate::problem::{Findings, Problem, member};
use crate::scope::Scope;

/// How a server speaks, in our words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Stdio,
    Http,
    Sse,
}

fn speech(text: &str) -> Option<Speech> {
    match text {
        "stdio" | "local" => Some(Speech::Stdio),
        "http" | "streamable-http" | "streamable_http" | "streamableHttp" => Some(Speech::Http),
        "sse" => Some(Speech::Sse),
        _ => None,
    }
}

/// What the entry says about how its server is reached. Reports what is missing or contradicts itself.
pub(crate) fn transport(scope: &Scope<'_>, findings: &mut Findings) -> Transport {
    let stated = agreed(scope, ["protocol", "type", "transport"], speech, findings);
    let url = agreed(scope, ["url", "serverUrl", "httpUrl"], |text| Some(text.to_owned()), findings);
    let cwd =
        agreed(scope, ["working_dir", "cwd"], |text| Some(text.to_owned()), findings).map(PathBuf::from);
    let command = scope.text("command");
    let (args, env, headers) = (scope.texts("args"), scope.text_map("env"), scope.text_map("headers"));
    let speech = stated.or(command.as_ref().map(|_| Speech::Stdio)).or(url.as_ref().map(|_| Speech::Http));
    match (speech, command, url) {
        (Some(Speech::Stdio), Some(command), _) => Transport::Stdio { command, args, cwd, env },
        (Some(Speech::Http), None, Some(url)) => Transport::Http { url, headers },
        (Some(Speech::Sse), None, Some(url)) => {
            let launch = json!(["sse", url, headers]).to_string();
            Transport::Unsupported { what: "the legacy HTTP+SSE transport".to_owned(), launch }
        }
        (Some(Speech::Http | Speech::Sse), Some(command), Some(url)) => {
            let launch = json!(["launcher", command, args, cwd, env, url, headers]).to_string();
            let what = "starting a program that is then reached by url".to_owned();
            Transport::Unsupported { what, launch }
        }
        (speech, _, _) => {
            let (path, message) = match speech {
                Some(Speech::Stdio) => (scope.path("command"), "is missing: a stdio server needs one"),
                Some(_) => (scope.path("url"), "is missing: an HTTP server needs one"),
                None => (scope.path("command"), "is missing, and there is no url either"),
            };
            let fix = "write \"command\" (and \"args\") for a program, or \"url\" for an HTTP server";
            findings.problem(Problem::new(path, message, fix));
            Transport::Unsupported {
                what: "a server without command and url".to_owned(),
                launch: String::new(),
            }
        }
    }
}

/// The one value that several spellings of a key agree on.
fn agreed<T: PartialEq, const N: usize>(
    scope: &Scope<'_>,
    spellings: [&str; N],
    read: impl Fn(&str) -> Option<T>,
    findings: &mut Findings,
) -> Option<T> {
    let mut found: Option<(T, &str)> = None;
    for key in spellings {
        let Some(value) = scope.given(key).and_then(Value::as_str).and_then(read_text(&read)) else {
            continue;
        };
        match &found {
            Some((first, other)) if *first != value => {
                findings.problem(Problem::new(
                    scope.path(key),
                    format!("says something else than \"{other}\" of the same entry"),
                    "keep one of them",
                ));
            }
            Some(_) => {}
            None => found = Some((value, key)),
        }
    }
    found.map(|(value, _)| value)
}

/// `read` for texts that are not empty.
fn read_text<'r, T>(read: &'r impl Fn(&str) -> Option<T>) -> impl Fn(&str) -> Option<T> + 'r {
    |text| if text.is_empty() { None } else { read(text) }
}

/// Tells of a server that this version cannot start.
pub(crate) fn warn_of_what_cannot_start(transport: &Transport, at: &str, findings: &mut Findings) {
    if let Transport::Unsupported { what, launch } = transport
        && !launch.is_empty()
    {
        findings.warn(Problem::new(
            at,
            format!("this server is not started: {what} is not in this version yet"),
            "use stdio or streamable HTTP if the server speaks it",
        ));
    }
    if launch_texts(transport).any(|text| text.contains("${keyring:")) {
        findings.warn(Problem::new(
            at,
            "this server is not started: ${keyring:…} is not in this version yet",
            "put the value into an environment variable and write ${env:NAME}",
        ));
    }
}

/// Every text of a transport in which a reference may stand.
fn launch_texts(transport: &Transport) -> Box<dyn Iterator<Item = &str> + '_> {
    match transport {
        Transport::Stdio { command, args, cwd, env } => Box::new(
            std::iter::once(command.as_str())
                .chain(args.iter().map(String::as_str))
                .chain(cwd.iter().filter_map(|dir| dir.to_str()))
                .chain(env.values().map(String::as_str)),
        ),
        Transport::Http { url, headers } => {
            Box::new(std::iter::once(url.as_str()).chain(headers.values().map(String::as_str)))
        }
        Transport::Unsupported { launch, .. } => Box::new(std::iter::once(launch.as_str())),
    }
}

/// What would make a launch fail for its text alone. Messages do not repeat values: they may be secrets.
pub(crate) fn launch_fault(transport: &Transport, at: &str) -> Option<Problem> {
    match transport {
        Transport::Stdio { env, .. } => {
            if launch_texts(transport).any(|text| text.contains('\0')) {
                return Some(Problem::new(
                    at,
                    "command, arguments or variables hold a NUL character",
                    "take it out",
                ));
            }
            variable_fault(env, &member(at, "env"))
        }
        Transport::Http { url, headers } => url_fault(url, at)
            .or_else(|| headers.iter().find_map(|(name, value)| header_fault(name, value, at))),
        Transport::Unsupported { .. } => None,
    }
}

/// What is wrong with the variables at a JSON path.
pub(crate) fn variable_fault(variables: &BTreeMap<String, String>, at: &str) -> Option<Problem> {
    let (name, _) = variables
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))?;
    Some(Problem::new(
        member(at, name),
        "no environment can hold it: a name is not empty and has no =, and there is no NUL",
        "take it out",
    ))
}

fn url_fault(url: &str, at: &str) -> Option<Problem> {
    // What a reference will give is not known yet; the launch checks again.
    if url.contains("${") {
        return None;
    }
    let host = url_scheme_end(url).map(|end| url[end..].split(['/', '?', '#']).next().unwrap_or(""));
    let (message, fix) = match host {
        None => ("does not begin with http:// or https://", "write the whole address"),
        Some(host) if host.rsplit('@').next().unwrap_or("").is_empty() => {
            ("has no host", "write the whole address, such as https://host/mcp")
        }
        Some(_) if url.chars().any(|c| c.is_control() || c.is_whitespace()) => {
            ("has a space or control character", "take it out or write it as %20")
        }
        Some(_) => return None,
    };
    Some(Problem::new(member(at, "url"), message, fix))
}

fn url_scheme_end(url: &str) -> Option<usize> {
    ["http://", "https://"]
        .into_iter()
        .find(|s| url.get(..s.len()).is_some_and(|u| u.eq_ignore_ascii_case(s)))
        .map(str::len)
}

/// An address for logs: scheme and host, without user, password, path and query.
pub(crate) fn shown_url(url: &str) -> String {
    let Some(end) = url_scheme_end(url) else { return "…".to_owned() };
    let host = url[end..].split(['/', '?', '#']).next().unwrap_or("");
    format!("{}{}/…", &url[..end], host.rsplit('@').next().unwrap_or(""))
}

fn header_fault(name: &str, value: &str, at: &str) -> Option<Problem> {
    let path = member(&member(at, "headers"), name);
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some(Problem::new(path, "is no name of a header", "use letters, digits and -"));
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Some(Problem::new(path, "the value has a line break or control character", "take it out"));
    }
    None
}
