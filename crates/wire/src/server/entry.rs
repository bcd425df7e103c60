//! What the headers of an HTTP request must say, and the refusals of what does not get in.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, StatusCode};

use super::intake::NotTaken;
use super::message::Fault;
use super::{INVALID_REQUEST, PARSE_ERROR, PROTOCOL_VERSIONS, REFUSED};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The forms of an answer that a client takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forms {
    Json,
    Events,
    Both,
}

impl Forms {
    /// Reads `Accept`. An event stream is taken only by who says so: `*/*` is also sent by those who would not
    /// understand one.
    pub fn accepted(headers: &HeaderMap) -> Result<Self, Refusal> {
        if !headers.contains_key(ACCEPT) {
            return Ok(Self::Json);
        }
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<String> =
            values.flat_map(|value| value.split(',')).filter_map(wanted_range).collect();
        let names = |wanted: &[&str]| ranges.iter().any(|range| wanted.contains(&range.as_str()));
        match (names(&["application/json", "application/*", "*/*"]), names(&["text/event-stream", "text/*"]))
        {
            (true, true) => Ok(Self::Both),
            (true, false) => Ok(Self::Json),
            (false, true) => Ok(Self::Events),
            (false, false) => {
                let message = "send \"Accept: application/json, text/event-stream\"";
                Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, message))
            }
        }
    }
}

/// A media range of `Accept` without its parameters; `None` for one that is ruled out by `q=0`.
fn wanted_range(range: &str) -> Option<String> {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next()?.to_ascii_lowercase();
    let ruled_out = parts.any(|part| {
        let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        weight.is_some_and(|weight| weight.trim().parse::<f32>() == Ok(0.0))
    });
    (!ruled_out).then_some(name)
}

/// A message is JSON and says so.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = given.split(';').next().unwrap_or_default().trim();
    if name.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send \"Content-Type: application/json\""))
}

/// A client that names no version is taken for one that speaks any.
pub(super) fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(given) = headers.get(VERSION) else { return Ok(()) };
    if PROTOCOL_VERSIONS.iter().any(|known| given == known) {
        return Ok(());
    }
    let known = PROTOCOL_VERSIONS.join(", ");
    let message = format!("unsupported MCP-Protocol-Version: this server speaks {known}");
    Err(Refusal::new(StatusCode::BAD_REQUEST, message))
}

/// A request that was not let in.
pub(super) struct Refusal {
    pub status: StatusCode,
    pub id: Option<String>,
    pub code: i64,
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, id: None, code: REFUSED, message: message.into() }
    }

    pub fn invalid(message: &str, id: Option<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, id, code: INVALID_REQUEST, message: message.to_owned() }
    }

    pub fn busy(what: &str, id: Option<String>) -> Self {
        let message = format!("{what}: try again shortly");
        Self { status: StatusCode::SERVICE_UNAVAILABLE, id, code: REFUSED, message }
    }

    pub fn no_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no such session: initialize again, without Mcp-Session-Id")
    }

    pub fn not_taken(why: NotTaken, most: usize) -> Self {
        match why {
            NotTaken::TooLong => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the message is longer than {most} bytes"))
            }
            NotTaken::Busy => Self::busy("too many large messages at once", None),
            NotTaken::Slow => {
                Self::new(StatusCode::REQUEST_TIMEOUT, "the message did not come to its end in time")
            }
            NotTaken::Broken(error) => {
                Self::new(StatusCode::BAD_REQUEST, format!("the message could not be read: {error}"))
            }
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        // Wrong parameters are a matter of the request, all else of the message.
        let bad = matches!(fault.code, PARSE_ERROR | INVALID_REQUEST);
        let status = if bad { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        Self { status, id: fault.id, code: fault.code, message: fault.message }
    }
}
