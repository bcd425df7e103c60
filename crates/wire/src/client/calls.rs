//! The calls that wait for an answer, and those that nobody waits for any more.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::CallError;
use crate::spool::Body;

/// How many calls that were left are remembered, so that their late answers can be told from noise.
const REMEMBERED: usize = 1024;
/// For how long an answer without an id may still belong to a call that was left.
const DOUBTFUL: Duration = Duration::from_secs(60);

/// How a call ended.
pub(super) type Outcome = Result<Body, CallError>;

/// Calls by their id.
#[derive(Default)]
pub(super) struct Calls {
    open: HashMap<u64, Open>,
    left: VecDeque<(u64, Instant)>,
    closed: Option<String>,
}

struct Open {
    answer: oneshot::Sender<Outcome>,
    heard: Instant,
    progress: Option<mpsc::Sender<Bytes>>,
}

impl Calls {
    /// Begins to wait for the answer to `id`.
    pub(super) fn open(
        &mut self,
        id: u64,
        progress: Option<mpsc::Sender<Bytes>>,
    ) -> Result<oneshot::Receiver<Outcome>, CallError> {
        if let Some(why) = &self.closed {
            return Err(CallError::NotSent(why.clone()));
        }
        let (answer, receiver) = oneshot::channel();
        self.open.insert(id, Open { answer, heard: Instant::now(), progress });
        Ok(receiver)
    }

    /// Ends the call `id`. False when nobody waits for it; then it was perhaps left, and is forgotten now.
    pub(super) fn complete(&mut self, id: u64, outcome: Outcome) -> bool {
        match self.open.remove(&id) {
            Some(open) => open.answer.send(outcome).is_ok(),
            None => {
                self.left.retain(|(left, _)| *left != id);
                false
            }
        }
    }

    /// Stops to wait for `id`, whose answer may still come.
    pub(super) fn leave(&mut self, id: u64) {
        if self.open.remove(&id).is_some() {
            if self.left.len() == REMEMBERED {
                self.left.pop_front();
            }
            self.left.push_back((id, Instant::now()));
        }
    }

    pub(super) fn is_open(&self, id: u64) -> bool {
        self.open.contains_key(&id)
    }

    pub(super) fn was_left(&self, id: u64) -> bool {
        self.left.iter().any(|(left, _)| *left == id)
    }

    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// When the call was dispatched or last made progress.
    pub(super) fn heard(&self, id: u64) -> Option<Instant> {
        self.open.get(&id).map(|open| open.heard)
    }

    /// A sign of life of the call `id`.
    pub(super) fn progress(&mut self, id: u64, params: Bytes) {
        if let Some(open) = self.open.get_mut(&id) {
            open.heard = Instant::now();
            if let Some(sender) = &open.progress {
                // The caller does not keep up: a later progress tells more than this one.
                let _ = sender.try_send(params);
            }
        }
    }

    /// The one call that an answer without an id can belong to.
    pub(super) fn only(&mut self) -> Option<u64> {
        let now = Instant::now();
        let doubtful = self.left.iter().any(|(_, since)| now.duration_since(*since) < DOUBTFUL);
        let mut ids = self.open.keys();
        match (ids.next(), ids.next()) {
            (Some(id), None) if !doubtful => Some(*id),
            _ => None,
        }
    }

    /// Fails the calls that are open, and every later one. `error` makes the error of those that are open.
    pub(super) fn close(&mut self, why: &str, error: impl Fn() -> CallError) {
        self.closed.get_or_insert_with(|| why.to_owned());
        for (_, open) in self.open.drain() {
            let _ = open.answer.send(Err(error()));
        }
        self.left.clear();
    }
}
