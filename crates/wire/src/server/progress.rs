//! Progress of one request on its way to the agent: a short queue between the service and the transport.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::{answer, message};

/// Bounds of the queue of one request. Beyond them the oldest notification gives way: the agent wants the newest.
const MAX_QUEUED: usize = 64;
const MAX_QUEUED_BYTES: usize = 256 << 10;

/// Sends the progress of one request to the agent that made it. Never waits: what a slow agent does not take in
/// time is dropped, oldest first. After the answer nothing more is sent.
#[derive(Clone)]
pub struct ProgressSink {
    queue: Arc<Queue>,
    token: Arc<str>,
}

impl ProgressSink {
    /// Passes on the raw `params` of a `notifications/progress`. Whatever `progressToken` stands in them is
    /// replaced by the agent's own, byte for byte as it spelled it; the rest stays as it is. Params that are no
    /// JSON object, or longer than 256 KiB, are dropped.
    pub fn send(&self, params: &[u8]) {
        let Some(params) = with_token(params, &self.token) else {
            tracing::debug!("progress without a readable params object was dropped");
            return;
        };
        let mut line = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":"#.to_vec();
        line.extend_from_slice(&params);
        line.push(b'}');
        answer::flatten(&mut line);
        self.queue.push(line.into());
    }
}

/// The transport's end of the queue.
pub(super) struct Progress {
    queue: Arc<Queue>,
}

/// A queue whose notifications carry the raw `token`.
pub(super) fn queue(token: &str) -> (ProgressSink, Progress) {
    let queue = Arc::new(Queue::default());
    (ProgressSink { queue: Arc::clone(&queue), token: token.into() }, Progress { queue })
}

impl Progress {
    /// Whether something is queued.
    pub fn waiting(&self) -> bool {
        !self.queue.hold().lines.is_empty()
    }

    /// Waits until something is queued, without taking it.
    pub async fn ready(&self) {
        while !self.waiting() {
            self.queue.filled.notified().await;
        }
    }

    /// Takes the oldest notification: one JSON-RPC message on one line.
    pub fn take(&self) -> Option<Bytes> {
        let mut queued = self.queue.hold();
        let line = queued.lines.pop_front()?;
        queued.bytes -= line.len();
        Some(line)
    }

    /// Waits for a notification and takes it.
    pub async fn next(&self) -> Bytes {
        loop {
            if let Some(line) = self.take() {
                return line;
            }
            self.ready().await;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut queued = self.queue.hold();
        *queued = Queued { closed: true, ..Queued::default() };
    }
}

#[derive(Default)]
struct Queue {
    queued: Mutex<Queued>,
    filled: Notify,
}

#[derive(Default)]
struct Queued {
    lines: VecDeque<Bytes>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    fn hold(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Bytes) {
        let mut queued = self.hold();
        if queued.closed || line.len() > MAX_QUEUED_BYTES {
            return;
        }
        queued.bytes += line.len();
        queued.lines.push_back(line);
        while queued.lines.len() > MAX_QUEUED || queued.bytes > MAX_QUEUED_BYTES {
            let Some(oldest) = queued.lines.pop_front() else { break };
            queued.bytes -= oldest.len();
        }
        drop(queued);
        self.filled.notify_one();
    }
}

/// `params` with the value of its `progressToken` replaced, or put in front when there is none.
fn with_token(params: &[u8], token: &str) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, default, rename = "progressToken", deserialize_with = "message::given")]
        token: Option<&'a RawValue>,
    }
    let text = std::str::from_utf8(params).ok()?.trim_ascii();
    let members = text.strip_prefix('{')?;
    let (before, after) = match serde_json::from_str::<Params<'_>>(text).ok()?.token {
        Some(theirs) => {
            let start = theirs.get().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
            (text.get(..start)?, text.get(start + theirs.get().len()..)?.to_owned())
        }
        None => {
            let comma = if members.trim_ascii_start() == "}" { "" } else { "," };
            (r#"{"progressToken":"#, format!("{comma}{members}"))
        }
    };
    Some([before.as_bytes(), token.as_bytes(), after.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_of_the_token_changes() {
        let cases = [
            (
                r#"{"progressToken":17,"progress":1.0,"total":1e2}"#,
                r#"{"progressToken":"t\"1","progress":1.0,"total":1e2}"#,
            ),
            (
                r#" { "a" : [1], "progressToken" : "x" , "b":{"progressToken":3} } "#,
                r#"{ "a" : [1], "progressToken" : "t\"1" , "b":{"progressToken":3} }"#,
            ),
            (r#"{"progressToken":null}"#, r#"{"progressToken":"t\"1"}"#),
            (r#"{"progress":1}"#, r#"{"progressToken":"t\"1","progress":1}"#),
            ("{ }", r#"{"progressToken":"t\"1" }"#),
        ];
        for (params, wanted) in cases {
            let changed = with_token(params.as_bytes(), r#""t\"1""#).unwrap();
            assert_eq!(String::from_utf8(changed).unwrap(), wanted);
        }
    }

    #[test]
    fn what_is_no_params_object_is_dropped() {
        for params in ["", "[]", "1", "{", r#"{"progressToken":1,"progressToken":2}"#, r#"{"a":NaN}"#] {
            assert_eq!(with_token(params.as_bytes(), "1"), None, "{params}");
        }
    }

    #[test]
    fn an_agent_that_does_not_keep_up_gets_the_newest() {
        let (sink, progress) = queue("1");
        for step in 0..100 {
            sink.send(format!(r#"{{"progress":{step}}}"#).as_bytes());
        }
        let lines: Vec<_> = std::iter::from_fn(|| progress.take()).collect();
        assert_eq!(lines.len(), MAX_QUEUED);
        let last = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":99}}"#;
        assert_eq!(lines.last().unwrap(), &last[..]);

        let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(100 << 10));
        (0..3).for_each(|_| sink.send(long.as_bytes()));
        assert_eq!(std::iter::from_fn(|| progress.take()).count(), 2, "bounded in bytes too");
    }

    #[test]
    fn nothing_is_kept_after_the_answer() {
        let (sink, progress) = queue("1");
        sink.send(b"{}");
        drop(progress);
        sink.send(b"{}");
        assert!(sink.queue.hold().lines.is_empty());
    }
}
