//! Who may pass: the name that was called, the page that calls, the token that was sent. Every HTTP route is behind this.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};

use super::caller::Verdict;
use super::listen::ConnectionFacts;
use super::rest::fault;
use crate::daemon::apikey::ApiKey;

mod names;
#[cfg(test)]
mod tests;

pub use names::TrustedHosts;
use names::{host_allowed, origin_allowed};

/// Who calls, as far as the guard could prove it. A request that passed the guard carries this in its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Sent the API key.
    ApiKey,
    /// Came through the Unix socket.
    Socket {
        /// The user at the other end: our own or root.
        uid: u32,
    },
    /// A process of our own user, over loopback and without a key.
    Local,
    /// Nobody that we know; reaches only what is open to everyone.
    Remote,
}

/// What the guard goes by.
#[derive(Debug)]
pub struct Rules {
    /// The key that opens everything.
    pub key: ApiKey,
    /// Names beside our own under which this gateway is reached.
    pub trusted_hosts: TrustedHosts,
    /// Whether `/mcp` needs the key on loopback too. The Unix socket never does.
    pub require_mcp_auth: bool,
}

/// The rules of now, shared by all connections.
#[derive(Clone, Debug)]
pub struct Guard(Arc<RwLock<Arc<Rules>>>);

impl Guard {
    /// A guard that goes by `rules`.
    pub fn new(rules: Rules) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(rules))))
    }

    /// Goes by other rules from the next request on.
    pub fn replace(&self, rules: Rules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// The rules of now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts all of `router`, what it does not know included, behind this guard. Routes added later are not.
    pub fn protect(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, watch))
    }
}

async fn watch(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let Some(facts) = request.extensions().get::<ConnectionFacts>().copied() else {
        tracing::error!(path, "a request without its connection: refused");
        let what = "mcpproxy does not know where this request comes from";
        return Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, what).into_response_for(path);
    };
    match judge(&guard.rules(), &facts, request.uri(), request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => {
            tracing::debug!(path, ?facts, status = refusal.status.as_u16(), "refused: {}", refusal.message);
            refusal.into_response_for(path)
        }
    }
}

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing: it tells nobody anything.
    Nothing,
    /// A caller that may use tools.
    Tools,
    /// The API key or the Unix socket.
    Key,
}

/// What is not named here needs the key, so that a new route is closed until somebody opens it.
fn need_of(path: &str) -> Need {
    const OPEN: [&str; 8] =
        ["/", "/ui", "/favicon.ico", "/healthz", "/livez", "/health", "/readyz", "/ready"];
    if OPEN.contains(&path) || path.starts_with("/ui/") || path.starts_with("/.well-known/") {
        Need::Nothing
    } else if path == "/mcp" || path.starts_with("/mcp/") {
        Need::Tools
    } else {
        Need::Key
    }
}

/// Decides about one request. It reads nothing but its arguments.
fn judge(rules: &Rules, facts: &ConnectionFacts, uri: &Uri, headers: &HeaderMap) -> Result<Caller, Refusal> {
    check_names(rules, facts, uri, headers)?;
    if has_key_in_query(uri) {
        return Err(Refusal::unauthorized(
            "a key goes in a header, never in a URL, where logs and histories keep it: send `X-API-Key: <key>` or \
             `Authorization: Bearer <key>` instead",
        ));
    }
    let caller = identify(rules, facts, headers)?;
    let passes = match need_of(uri.path()) {
        Need::Nothing => true,
        Need::Tools => match caller {
            Caller::ApiKey | Caller::Socket { .. } => true,
            Caller::Local => !rules.require_mcp_auth,
            Caller::Remote => false,
        },
        Need::Key => matches!(caller, Caller::ApiKey | Caller::Socket { .. }),
    };
    if passes { Ok(caller) } else { Err(Refusal::unauthorized(&what_to_send(rules, facts, uri.path()))) }
}

/// A page that a browser loaded from elsewhere must not drive us, whatever name it made resolve to this machine.
fn check_names(
    rules: &Rules,
    facts: &ConnectionFacts,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    let arrived_at = facts.arrived_at();
    let host = only(headers, header::HOST.as_str())?;
    // A request line may name a host of its own, which then counts in place of the header.
    let named = uri.authority().map(|authority| authority.as_str());
    if host.is_none() && named.is_none() {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "the request has no Host header"));
    }
    for host in [host, named].into_iter().flatten() {
        if !host_allowed(host, arrived_at, &rules.trusted_hosts) {
            return Err(Refusal::unknown_name("Host", host, names::host_part(host)));
        }
    }
    if let Some(origin) = only(headers, header::ORIGIN.as_str())?
        && !origin_allowed(origin, arrived_at, &rules.trusted_hosts)
    {
        return Err(Refusal::unknown_name("Origin", origin, names::origin_host_part(origin)));
    }
    Ok(())
}

/// The one value of a header; two of them, or bytes that are no text, are refused.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        _ => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            &format!("the request needs one readable {name} header"),
        )),
    }
}

fn has_key_in_query(uri: &Uri) -> bool {
    let names =
        uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    names.into_iter().any(|name| {
        let plain: Vec<u8> = percent_decoded(name).filter(|byte| !matches!(byte, b'-' | b'_')).collect();
        plain.eq_ignore_ascii_case(b"apikey") || plain.eq_ignore_ascii_case(b"xapikey")
    })
}

fn percent_decoded(text: &str) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let digits =
            after.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = if decoded.is_some() { &after[2..] } else { after };
        Some(decoded.unwrap_or(first))
    })
}

/// A token that was sent must be right, also where none is needed: its sender believes in it.
fn identify(rules: &Rules, facts: &ConnectionFacts, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let mut known = false;
    for token in tokens(headers) {
        if !rules.key.matches(token) {
            return Err(Refusal::unauthorized(&wrong_token(token)));
        }
        known = true;
    }
    Ok(match facts {
        _ if known => Caller::ApiKey,
        ConnectionFacts::Socket { uid } => Caller::Socket { uid: *uid },
        ConnectionFacts::Tcp { owner, .. } if owner.is_ours() => Caller::Local,
        ConnectionFacts::Tcp { .. } => Caller::Remote,
    })
}

/// All tokens of a request: `X-API-Key`, then `Authorization: Bearer`. Other schemes are not for us.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let keys = headers.get_all("x-api-key").iter().map(|value| value.as_bytes().trim_ascii());
    let bearers = headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| {
        let value = value.as_bytes().trim_ascii();
        let (scheme, token) = value.split_at_checked(6)?;
        let ends = token.first().is_none_or(u8::is_ascii_whitespace);
        (ends && scheme.eq_ignore_ascii_case(b"bearer")).then(|| token.trim_ascii())
    });
    keys.chain(bearers)
}

fn wrong_token(token: &[u8]) -> String {
    if token.is_empty() {
        return "the key that was sent is empty: send the API key, or leave the header out".to_owned();
    }
    if token.starts_with(b"mcp_agt_") {
        return "agent tokens are not in this version yet: send the API key".to_owned();
    }
    "the key that was sent is not the API key of this gateway; `mcpproxy status --show-key` prints the right one".to_owned()
}

fn what_to_send(rules: &Rules, facts: &ConnectionFacts, path: &str) -> String {
    let send = "send `X-API-Key: <key>` or `Authorization: Bearer <key>` (`mcpproxy status --show-key` prints the key)";
    match facts {
        _ if need_of(path) == Need::Key => {
            format!("this route needs the API key: {send}, or use the Unix socket")
        }
        _ if rules.require_mcp_auth => format!("this gateway asks everyone for its API key: {send}"),
        ConnectionFacts::Tcp { owner: Verdict::NotOurs(doubt), .. } => format!(
            "only the user that runs this gateway may call without a key, and this connection does not count as theirs: \
             {doubt}; {send}"
        ),
        _ => format!("this needs the API key: {send}"),
    }
}

/// Why a request goes no further.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, message: &str) -> Self {
        Self { status, message: message.to_owned() }
    }

    fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    /// `host` is the part that could be trusted, if there is one that makes sense.
    fn unknown_name(header: &str, value: &str, host: Option<String>) -> Self {
        let value: String = value.chars().filter(|c| !c.is_control()).take(255).collect();
        let remedy = host.map_or_else(String::new, |host| {
            format!(
                "; if it is yours, add this line to the configuration file: \"trusted_hosts\": [{}]",
                serde_json::Value::from(host)
            )
        });
        Self::new(StatusCode::FORBIDDEN, &format!("{header} `{value}` is not a name of this gateway{remedy}"))
    }

    /// REST clients get the REST envelope, others a line of text.
    fn into_response_for(self, path: &str) -> Response {
        let mut response = if path.starts_with("/api/") {
            fault::error(self.status, &self.message)
        } else {
            let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            (self.status, kind, format!("{}\n", self.message)).into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"mcpproxy\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl fmt::Display for Caller {
    /// The word that records use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiKey => "api_key",
            Self::Socket { .. } => "socket",
            Self::Local => "local",
            Self::Remote => "remote",
        })
    }
}
