//! Progress of a running call, from the upstream to the agent: what it says is cleaned like its answers.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wire::server::ProgressSink;

use crate::failure::cleaned;

/// Notifications that may wait for a slow agent; further ones are dropped, since the next one says more.
const WAITING: usize = 16;

/// How long the answer may be held up by progress that came before it.
const LAST: Duration = Duration::from_millis(200);

/// What a progress notification says. Other members are not passed on: nothing is known of what they hold.
#[derive(Deserialize, Serialize)]
struct Progress<'a> {
    #[serde(borrow, rename = "progressToken")]
    token: &'a RawValue,
    #[serde(borrow)]
    progress: &'a RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    total: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Progress on its way to an agent, or none if the agent wants none.
pub struct Forwarding(Option<JoinHandle<()>>);

/// Passes progress on until the call ends. Gives the end that the upstream's connection feeds, too.
pub fn forward(sink: Option<ProgressSink>) -> (Option<mpsc::Sender<Bytes>>, Forwarding) {
    let Some(sink) = sink else { return (None, Forwarding(None)) };
    let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING);
    let task = tokio::spawn(async move {
        while let Some(params) = receiver.recv().await {
            if let Some(clean) = clean(&params) {
                sink.send(&clean);
            }
        }
    });
    (Some(sender), Forwarding(Some(task)))
}

impl Forwarding {
    /// Waits until what the upstream told before its answer has been passed on before the answer is.
    pub async fn finish(self) {
        if let Some(task) = self.0 {
            let _ = tokio::time::timeout(LAST, task).await;
        }
    }
}

fn clean(params: &[u8]) -> Option<Vec<u8>> {
    let mut progress: Progress<'_> = serde_json::from_slice(params).ok()?;
    let is_number = |raw: &RawValue| raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if !is_number(progress.progress) {
        return None;
    }
    progress.total = progress.total.filter(|total| is_number(total));
    progress.message = progress.message.map(|message| cleaned(&message));
    serde_json::to_vec(&progress).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned_text(params: &str) -> Option<String> {
        clean(params.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn numbers_pass_as_they_are_and_unknown_members_do_not() {
        assert_eq!(
            cleaned_text(
                r#"{"progressToken":7,"progress":1e0,"total":3.50,"message":"a\u00e9","extra":{"x":1}}"#
            )
            .unwrap(),
            "{\"progressToken\":7,\"progress\":1e0,\"total\":3.50,\"message\":\"a\u{e9}\"}"
        );
        assert_eq!(
            cleaned_text(r#"{"progressToken":7,"progress":1,"total":"x"}"#).unwrap(),
            r#"{"progressToken":7,"progress":1}"#
        );
    }

    #[test]
    fn what_is_no_progress_is_dropped() {
        for params in ["{}", "[]", r#"{"progressToken":7,"progress":"secret"}"#, "{"] {
            assert_eq!(cleaned_text(params), None, "{params}");
        }
    }
}
