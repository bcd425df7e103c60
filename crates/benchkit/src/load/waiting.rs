//! Calls that wait for replies which come on one stream, in any order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::oneshot;

type Came = (Vec<u8>, Instant);

/// Who waits for which id. Bounded by the number of workers: each waits for one.
#[derive(Clone, Default)]
pub struct Waiting(Arc<Mutex<HashMap<u64, oneshot::Sender<Came>>>>);

impl Waiting {
    /// The message with this id and when it came, once it does.
    pub fn expect(&self, id: u64) -> oneshot::Receiver<Came> {
        let (told, reply) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, told);
        reply
    }

    /// Hands a message to who waits for it; notifications and requests of the server are dropped.
    pub fn deliver(&self, message: Vec<u8>, came: Instant) {
        let id = id_of(&message);
        let waiting = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = id.and_then(|id| waiting().remove(&id)) {
            let _ = told.send((message, came));
        }
    }

    /// Nothing will come any more.
    pub fn give_up(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The id of a reply; none for anything else.
pub fn id_of(message: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Head {
        id: u64,
        method: Option<IgnoredAny>,
    }
    let head: Head = serde_json::from_slice(message).ok()?;
    head.method.is_none().then_some(head.id)
}
