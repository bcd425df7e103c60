//! Many short waits behind one timer. A timer of its own for each call would wake the thread that watches for input each
//! time one is set, because it is nearly always the next to go off; and nearly none of them ever does.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Clones share the timer.
#[derive(Clone, Default)]
pub(crate) struct Alarm(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waits: Mutex<Waits>,
    earlier: Notify,
}

#[derive(Default)]
struct Waits {
    /// By when they end, and by a number that tells them apart.
    all: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    /// When the timer goes off; it is not set anew when the wait that it was set for is over.
    set: Option<Instant>,
}

impl Alarm {
    /// Waits so long. Must be polled within a tokio runtime.
    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        let far = Duration::from_secs(365 * 24 * 3600);
        Sleep { shared: Arc::clone(&self.0), until: Instant::now() + time.min(far), number: None }
    }
}

pub(crate) struct Sleep {
    shared: Arc<Shared>,
    until: Instant,
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.until;
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        let shared = Arc::clone(&self.shared);
        let mut waits = shared.waits();
        let number = *self.number.get_or_insert_with(|| {
            waits.next += 1;
            waits.next
        });
        waits.all.insert((until, number), cx.waker().clone());
        match waits.set {
            None => {
                waits.set = Some(until);
                tokio::spawn(ring(Arc::downgrade(&shared), until));
            }
            Some(set) if until < set => {
                waits.set = Some(until);
                shared.earlier.notify_one();
            }
            Some(_) => {}
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.waits().all.remove(&(self.until, number));
        }
    }
}

impl Shared {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those whose time has come, and says when to look again: never, if nobody waits.
    fn wake(&self) -> Option<Instant> {
        let mut waits = self.waits();
        let now = Instant::now();
        while let Some(first) = waits.all.first_entry().filter(|first| first.key().0 <= now) {
            first.remove().wake();
        }
        waits.set = waits.all.first_key_value().map(|((until, _), _)| *until);
        waits.set
    }
}

/// Runs as long as anybody waits.
async fn ring(shared: Weak<Shared>, mut at: Instant) {
    loop {
        let Some(strong) = shared.upgrade() else { return };
        tokio::select! {
            () = sleep_until(at) => {}
            () = strong.earlier.notified() => {}
        }
        match strong.wake() {
            Some(next) => at = next,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_wait_ends_early_and_a_shorter_one_that_began_later_ends_first() {
        let (alarm, begun, ended) = (Alarm::default(), Instant::now(), Mutex::new(Vec::new()));
        let wait = |millis: u64| {
            let (sleep, ended) = (alarm.sleep(Duration::from_millis(millis)), &ended);
            async move {
                sleep.await;
                assert!(begun.elapsed() >= Duration::from_millis(millis));
                ended.lock().unwrap().push(millis);
            }
        };
        tokio::join!(wait(900), wait(20), wait(300));
        assert_eq!(*ended.lock().unwrap(), [20, 300, 900]);
        assert!(alarm.0.waits().all.is_empty());
        alarm.sleep(Duration::ZERO).await;
        alarm.sleep(Duration::from_millis(5)).await;
    }

    #[tokio::test]
    async fn the_timer_is_set_once_for_many_calls_and_ends_by_itself() {
        let alarm = Alarm::default();
        let mut first = None;
        for _ in 0..1000 {
            let mut sleep = std::pin::pin!(alarm.sleep(Duration::from_millis(700)));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let set = alarm.0.waits().set;
            assert_eq!(set, *first.get_or_insert(set), "as it was set for the first");
        }
        assert!(alarm.0.waits().all.is_empty(), "what is dropped leaves nothing");
        for _ in 0..3000 {
            if alarm.0.waits().set.is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        assert_eq!(alarm.0.waits().set, None);
        alarm.sleep(Duration::from_millis(5)).await;
    }
}
