//! What a server says or asks on its own account, each part of it bounded.

use bytes::Bytes;
use jsonspan::Unescape;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::LogLine;
use crate::envelope::Id;
use crate::spool::Body;

/// Longer parameters of a notification are not looked at.
const PARAMS_BYTES: u64 = 64 * 1024;
const LOG_TEXT_BYTES: usize = 4 * 1024;
const LOG_NAME_BYTES: usize = 128;

/// The answer to a request of the server: we offer `ping` and nothing else.
pub(super) fn reply(id: &Id, method: &str) -> Bytes {
    let outcome = if method == "ping" {
        "\"result\":{}"
    } else {
        "\"error\":{\"code\":-32601,\"message\":\"Method not found\"}"
    };
    Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{outcome}}}\n"))
}

/// Whose progress it is, and the raw parameters.
pub(super) fn progress(params: &Body) -> Option<(u64, Bytes)> {
    #[derive(Deserialize)]
    struct Progress {
        #[serde(rename = "progressToken")]
        token: serde_json::Value,
    }
    let bytes = whole(params, PARAMS_BYTES)?;
    let progress: Progress = serde_json::from_slice(&bytes).ok()?;
    let id = match &progress.token {
        serde_json::Value::Number(number) => number.as_u64(),
        // Some servers turn tokens into strings.
        serde_json::Value::String(text) => text.parse().ok(),
        _ => None,
    };
    Some((id?, bytes))
}

/// The parameters of `notifications/message`, cut to size.
pub(super) fn log_line(params: &Body) -> Option<LogLine> {
    #[derive(Deserialize)]
    struct Log<'a> {
        #[serde(default)]
        level: String,
        #[serde(default)]
        logger: Option<String>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let bytes = whole(params, PARAMS_BYTES)?;
    let log: Log<'_> = serde_json::from_slice(&bytes).ok()?;
    let data = log.data.map(text).unwrap_or_default();
    Some(LogLine {
        level: cut(log.level, LOG_NAME_BYTES),
        logger: log.logger.map(|logger| cut(logger, LOG_NAME_BYTES)),
        data: cut(data, LOG_TEXT_BYTES),
    })
}

/// What a string says, unpaired surrogates replaced; of another value, its JSON.
pub(super) fn text(value: &RawValue) -> String {
    let raw = value.get();
    let Some(inside) = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) else {
        return raw.to_owned();
    };
    let mut decoded = Vec::with_capacity(inside.len());
    let mut unescape = Unescape::new();
    unescape.push(inside.as_bytes(), &mut decoded);
    unescape.finish(&mut decoded);
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The whole body, if it has at most `max` bytes and can be read.
pub(super) fn whole(body: &Body, max: u64) -> Option<Bytes> {
    if body.len() > max {
        return None;
    }
    if let Some(bytes) = body.as_bytes() {
        return Some(bytes.clone());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(body.len()).ok()?);
    std::io::Read::read_to_end(&mut body.reader(), &mut bytes).ok()?;
    Some(Bytes::from(bytes))
}

fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}
