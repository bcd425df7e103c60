//! What stands in the way of an exchange: the network, or a status that is no success.

use std::time::Duration;

use http::header::LOCATION;
use serde::Deserialize;

use super::super::CallError;
use super::connection::{Broken, Response};

/// How much of the body of a refusal is read, and for how long.
const DETAIL_BYTES: usize = 4 * 1024;
const DETAIL_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no answer to read.
pub(super) enum Refusal {
    Status { status: u16, detail: String },
    Network(CallError),
}

impl Refusal {
    /// Lets a success pass; of anything else, keeps what it says.
    pub(super) async fn check(response: Response) -> Result<Response, Refusal> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let detail = match target {
            Some(target) if status.is_redirection() => {
                let target = plain(target.as_bytes());
                format!("redirects are not followed; set the URL to {target} if that is right")
            }
            _ => detail(response).await,
        };
        Err(Refusal::Status { status: status.as_u16(), detail })
    }

    /// Whether the server says that it does not know the session. The specification says 404; widespread examples
    /// of servers say 400 with these words.
    pub(super) fn is_unknown_session(&self) -> bool {
        match self {
            Refusal::Status { status: 404, .. } => true,
            Refusal::Status { status: 400, detail } => detail.to_ascii_lowercase().contains("session"),
            _ => false,
        }
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> CallError {
        match refusal {
            Refusal::Status { status, detail } => CallError::Http { status, detail },
            Refusal::Network(error) => error,
        }
    }
}

/// What a failure to send means for the call.
impl From<Broken> for Refusal {
    fn from(broken: Broken) -> Refusal {
        Refusal::Network(match broken {
            Broken::NoConnection(why) => CallError::NotSent(format!("no connection could be made: {why}")),
            Broken::Sent(why) => CallError::Gone(format!("it broke before the answer: {why}")),
        })
    }
}

async fn detail(mut response: Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(DETAIL_BYTES - body.len())]);
            if body.len() == DETAIL_BYTES {
                break;
            }
        }
    };
    // What has come until then is enough.
    let _ = tokio::time::timeout(DETAIL_TIMEOUT, read).await;
    message(&body).unwrap_or_else(|| plain(&body))
}

/// The text of a JSON-RPC error.
fn message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        message: String,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    Some(plain(answer.error.message.as_bytes()))
}

/// One line of text.
fn plain(bytes: &[u8]) -> String {
    let text: String =
        String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().to_owned()
}
