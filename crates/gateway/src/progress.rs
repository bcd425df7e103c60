//! Progress of a running call, from the upstream to the agent.

use bytes::Bytes;
use tokio::sync::mpsc;
use wire::server::ProgressSink;

/// Notifications that may wait for a slow agent; further ones are dropped, since the next one says more.
const WAITING: usize = 16;

/// Passes progress on until the call ends. Returns the end that the upstream's connection feeds.
pub fn forward(sink: ProgressSink) -> mpsc::Sender<Bytes> {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING);
    tokio::spawn(async move {
        while let Some(params) = receiver.recv().await {
            sink.send(&params);
        }
    });
    sender
}
