//! The client's side: its messages read one by one, and a place found for each.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gateway::mcp::{INVALID_REQUEST, Limits, Line, Lines, REFUSED};
use tokio::io::AsyncRead;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::message::{Kind, Message, key};
use super::{Bridge, Flight, Heir, hold};

/// Shorter messages are not counted: a cancellation must get through when all else is refused. In bytes.
const UNCOUNTED: usize = 64 << 10;
/// When a cancellation is said again: the request that it means may reach the holder after it, on another connection.
const CANCEL_AGAIN: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];

/// A message's place among those in flight.
struct Place {
    _request: OwnedSemaphorePermit,
    _kib: Option<OwnedSemaphorePermit>,
}

impl<H: Heir> Bridge<H> {
    /// Reads messages until the client sends no more.
    pub(super) async fn read<R: AsyncRead + Send + Unpin>(self: &Arc<Self>, input: R) {
        let most = Limits::default().max_request_bytes;
        let mut lines = Lines::new(input, most);
        loop {
            match lines.next().await {
                Ok(Line::Text(line)) if line.trim_ascii().is_empty() => {}
                Ok(Line::Text(line)) => self.take(Message::read(line)).await,
                Ok(Line::TooLong) => {
                    self.say(None, INVALID_REQUEST, &format!("the message is longer than {most} bytes"))
                        .await;
                }
                Ok(Line::End) => return,
                Err(error) => {
                    tracing::warn!(%error, "the client's input cannot be read any more");
                    return;
                }
            }
        }
    }

    async fn take(self: &Arc<Self>, message: Message) {
        match &message.kind {
            Kind::Request(_) if message.method == "initialize" => {
                if let Err(failure) = self.open(&message).await {
                    self.say(message.id(), failure.code, &failure.text).await;
                }
            }
            Kind::Request(_) | Kind::Unclear => {
                let Some(place) = self.place(message.line.len()) else {
                    let text = "too many requests are in flight: try again shortly";
                    return self.say(message.id(), REFUSED, text).await;
                };
                let flight = Arc::new(Flight::default());
                let key = message.id().map(key);
                if let Some(key) = &key {
                    self.hold_flights().insert(key.clone(), Arc::clone(&flight));
                }
                let bridge = Arc::clone(self);
                self.tasks.spawn(async move {
                    bridge.answer(&message, &flight).await;
                    if let Some(key) = key {
                        bridge.land(key, &flight);
                    }
                    drop(place);
                });
            }
            Kind::Silent => self.tell(message).await,
        }
    }

    /// A place among the messages in flight; `None` when there is none.
    fn place(&self, bytes: usize) -> Option<Place> {
        let request = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        if bytes <= UNCOUNTED {
            return Some(Place { _request: request, _kib: None });
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).ok()?;
        let kib = Arc::clone(&self.kib).try_acquire_many_owned(kib).ok()?;
        Some(Place { _request: request, _kib: Some(kib) })
    }

    /// Forgets a request that was answered, unless its client uses the id again already.
    fn land(&self, key: String, flight: &Arc<Flight>) {
        if let Entry::Occupied(noted) = self.hold_flights().entry(key)
            && Arc::ptr_eq(noted.get(), flight)
        {
            noted.remove();
        }
    }

    /// Passes on what wants no answer.
    async fn tell(self: &Arc<Self>, message: Message) {
        if message.method == "notifications/initialized" {
            hold(&self.greeting).initialized = Some(message.line.clone());
        }
        let cancels = message.cancels();
        let flight = cancels.as_ref().and_then(|key| self.hold_flights().get(key).cloned());
        if let Some(flight) = &flight {
            flight.cancelled.store(true, Ordering::Release);
        }
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&self.silent).acquire_owned().await else { return };
        let bridge = Arc::clone(self);
        self.tasks.spawn(async move {
            let _ = bridge.pass(&message, &Flight::default()).await;
            drop(place);
            let (Some(key), Some(flight)) = (cancels, flight) else { return };
            for pause in CANCEL_AGAIN {
                sleep(pause).await;
                if !bridge.hold_flights().get(&key).is_some_and(|now| Arc::ptr_eq(now, &flight)) {
                    return;
                }
                let _ = bridge.pass(&message, &Flight::default()).await;
            }
        });
    }
}
