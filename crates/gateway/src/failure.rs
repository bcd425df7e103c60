//! What an agent and the record read when the upstream could not be called or failed. Its words are cleaned first.

use std::sync::Arc;

use catalog::Listed;
use content::Answer;
use policy::Permit;
use serde_json::value::RawValue;
use store::{Reason, UpstreamRan};
use upstream::CallFailure;
use wire::client::CallError;
use wire::spool::Body;

use crate::refusal::{Refusal, raw};
use crate::rules;

/// The code by which a JSON-RPC server says that the arguments do not fit.
const INVALID_PARAMS: i64 = -32602;
/// Most of an upstream's error text that is passed on, in bytes.
const MAX_TEXT: usize = 16 * 1024;
/// Most of an upstream's error data that is passed on, in bytes.
const MAX_DATA: u64 = 64 * 1024;

/// The refusal for a failure.
pub fn explain(failure: CallFailure, permit: &Permit, listed: &Listed) -> Refusal {
    let (reason, ran) = classify(&failure);
    let text = cleaned(&failure.to_string());
    match failure {
        CallFailure::Call(CallError::Cancelled { answered }) => Refusal::cancelled(answered).with_ran(ran),
        CallFailure::Call(CallError::Rpc { code: INVALID_PARAMS, message, .. }) => {
            rules::invalid_arguments(listed, &cleaned(&message)).with_ran(ran)
        }
        CallFailure::Call(CallError::Rpc { code, message, data }) => {
            let mut more = names(permit);
            more.push(("error_code", number(code)));
            if let Some(data) = data.as_ref().and_then(cleaned_json) {
                more.push(("error_data", data));
            }
            Refusal::json(reason, cleaned(&message), more).with_ran(ran)
        }
        CallFailure::Call(CallError::Http { status, .. }) => {
            let mut more = names(permit);
            more.push(("http_status", number(i64::from(status))));
            Refusal::json(reason, text, more).with_ran(ran)
        }
        CallFailure::Call(CallError::SpoolFull) => {
            let text = "the answer does not fit: all answers in flight together may take spool_max_bytes, which the operator can \
                        raise. The tool did run; what it answered is lost.";
            Refusal::json(reason, text.to_owned(), names(permit)).with_ran(ran)
        }
        _ => Refusal::json(reason, text, names(permit)).with_ran(ran),
    }
}

fn classify(failure: &CallFailure) -> (Reason, UpstreamRan) {
    use UpstreamRan::{No, Unknown, Yes};
    let CallFailure::Call(error) = failure else { return (Reason::UpstreamUnavailable, No) };
    let sent = if error.may_have_run() { Unknown } else { No };
    match error {
        CallError::Rpc { code: INVALID_PARAMS, .. } => (Reason::InvalidArguments, Yes),
        CallError::Rpc { .. } => (Reason::UpstreamError, Yes),
        CallError::Timeout { .. } => (Reason::UpstreamTimeout, Unknown),
        CallError::TooLarge { .. } => (Reason::UpstreamTooLarge, Yes),
        CallError::Garbled(_) => (Reason::UpstreamGarbled, Yes),
        CallError::Gone(_) => (Reason::UpstreamGone, Unknown),
        CallError::NotSent(_) => (Reason::UpstreamUnavailable, No),
        CallError::Cancelled { answered } => (Reason::Cancelled, if *answered { Yes } else { Unknown }),
        CallError::SpoolFull => (Reason::SpoolFull, Yes),
        CallError::Http { .. } => (Reason::UpstreamError, sent),
        CallError::Io(_) => (Reason::Internal, sent),
    }
}

fn names(permit: &Permit) -> Vec<(&'static str, Box<RawValue>)> {
    vec![("server_name", raw(permit.server())), ("tool_name", raw(permit.tool()))]
}

fn number(value: i64) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A text that an upstream may have had a hand in goes the same road as its answers: indexed, checked, cleaned.
pub fn cleaned(text: &str) -> String {
    let result =
        serde_json::json!({"content": [{"type": "text", "text": text}], "isError": true}).to_string();
    match Answer::index(Arc::new(result.into_bytes()), &|| false) {
        Ok(answer) => {
            let checked = content::schema::check_output(answer);
            content::clean::clean(checked).error_text(MAX_TEXT)
        }
        Err(error) => format!("(an error text that could not be read: {error})"),
    }
}

/// Error data, if it is JSON of a bearable size, cleaned.
fn cleaned_json(data: &Body) -> Option<Box<RawValue>> {
    if data.len() > MAX_DATA {
        return None;
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut data.reader(), &mut bytes).ok()?;
    let text = cleaned(&String::from_utf8(bytes).ok()?);
    RawValue::from_string(text.clone()).ok().or_else(|| Some(raw(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleaned_text_is_the_text() {
        assert_eq!(cleaned("bad \"zone\"\n\u{e9}"), "bad \"zone\"\n\u{e9}");
        let long = "\u{20ac}".repeat(MAX_TEXT);
        assert!(cleaned(&long).len() <= MAX_TEXT + 3);
    }
}
