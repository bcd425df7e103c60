//! Reading the body of a request within bounds: of its size, of its time, and of all bodies together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Limits;

/// Messages up to this size are not counted: a cancellation must get through when all else is refused.
const UNCOUNTED_BYTES: usize = 64 << 10;

/// How long a body that is too long is read on, so that its sender sees the answer and not a broken pipe.
const DRAIN: Duration = Duration::from_secs(5);

const UNIT: usize = 1024;

/// The bytes of all messages that are being read or worked on.
pub(super) struct Budget {
    units: Arc<Semaphore>,
}

/// A part of the budget, given back when it is dropped.
#[derive(Default)]
pub(super) struct Hold(Option<OwnedSemaphorePermit>);

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Self { units: Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))) }
    }

    /// A hold for a message of that size; `None` when the budget is used up.
    pub fn hold(&self, bytes: usize) -> Option<Hold> {
        let mut hold = Hold::default();
        self.grow(&mut hold, bytes).then_some(hold)
    }

    /// Makes a hold large enough for `bytes` in all; `false` when the budget is used up.
    fn grow(&self, hold: &mut Hold, bytes: usize) -> bool {
        let units = bytes.saturating_sub(UNCOUNTED_BYTES).div_ceil(UNIT);
        let held = hold.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(more) = u32::try_from(units.saturating_sub(held)) else { return false };
        if more == 0 {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.units).try_acquire_many_owned(more) else { return false };
        match &mut hold.0 {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        true
    }
}

/// Why a body was not taken.
#[derive(Debug, PartialEq)]
pub(super) enum NotTaken {
    TooLong,
    Busy,
    Slow,
    Broken(String),
}

/// Reads a body whole.
pub(super) async fn collect<B>(body: B, limits: &Limits, budget: &Budget) -> Result<(Bytes, Hold), NotTaken>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let most = limits.max_request_bytes;
    let taken = timeout(limits.receive_within, take(body.as_mut(), most, budget)).await;
    let taken = taken.unwrap_or(Err(NotTaken::Slow));
    if matches!(taken, Err(NotTaken::TooLong)) {
        // A sender that is cut off in the middle of its body may never see why.
        let _ = timeout(DRAIN, drain(body, most)).await;
    }
    taken
}

async fn take<B>(mut body: B, most: usize, budget: &Budget) -> Result<(Bytes, Hold), NotTaken>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut whole = Whole::default();
    let mut hold = Hold::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| NotTaken::Broken(error.to_string()))?;
        let data = frame.into_data().unwrap_or_default();
        let len = whole.len() + data.len();
        if len > most {
            return Err(NotTaken::TooLong);
        }
        if !budget.grow(&mut hold, len) {
            return Err(NotTaken::Busy);
        }
        whole.push(data);
    }
    Ok((whole.into_bytes(), hold))
}

async fn drain<B: Body<Data = Bytes> + Unpin>(mut body: B, most: usize) {
    let mut left = most;
    while let Some(Ok(frame)) = body.frame().await {
        let len = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(len) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// The bytes so far; a body of one frame is not copied.
#[derive(Default)]
struct Whole {
    first: Bytes,
    all: Vec<u8>,
}

impl Whole {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
        } else {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
            self.all.extend_from_slice(&data);
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Full, StreamBody};

    fn limits(most: usize) -> Limits {
        Limits { max_request_bytes: most, receive_within: Duration::from_millis(50), ..Limits::default() }
    }

    fn frames(count: usize, size: usize) -> impl Body<Data = Bytes, Error = std::io::Error> {
        let frames = (0..count).map(move |_| Ok(http_body::Frame::data(Bytes::from(vec![b'x'; size]))));
        StreamBody::new(tokio_stream_of(frames))
    }

    /// A stream that is always ready.
    fn tokio_stream_of<I: Iterator + Unpin>(items: I) -> impl futures_core::Stream<Item = I::Item> {
        struct Ready<I>(I);
        impl<I: Iterator + Unpin> futures_core::Stream for Ready<I> {
            type Item = I::Item;
            fn poll_next(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<I::Item>> {
                std::task::Poll::Ready(self.0.next())
            }
        }
        Ready(items)
    }

    #[tokio::test]
    async fn a_body_up_to_the_bound_is_taken_whole() {
        let budget = Budget::new(1 << 20);
        let (bytes, _hold) = collect(frames(10, 100), &limits(1000), &budget).await.unwrap();
        assert_eq!(bytes.len(), 1000);
        assert_eq!(collect(frames(10, 100), &limits(999), &budget).await.err(), Some(NotTaken::TooLong));
        assert_eq!(
            collect(Full::from(vec![0_u8; 1001]), &limits(1000), &budget).await.err(),
            Some(NotTaken::TooLong)
        );
    }

    #[tokio::test]
    async fn the_budget_bounds_all_bodies_together_and_comes_back() {
        let budget = Budget::new(100 << 10);
        let limits = limits(1 << 20);
        let large = || collect(frames(10, 12 << 10), &limits, &budget);
        let (_, hold) = large().await.unwrap();
        assert_eq!(large().await.err(), Some(NotTaken::Busy));
        assert!(collect(frames(1, 1000), &limits, &budget).await.is_ok(), "small ones always fit");
        drop(hold);
        assert!(large().await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        struct Never;
        impl Body for Never {
            type Data = Bytes;
            type Error = std::io::Error;
            fn poll_frame(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
                std::task::Poll::Pending
            }
        }
        assert_eq!(collect(Never, &limits(10), &Budget::new(10)).await.err(), Some(NotTaken::Slow));
    }
}
