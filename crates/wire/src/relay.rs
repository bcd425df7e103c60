//! Several futures polled as one within a task: what wakes them while they are polled polls them again at once, and the
//! scheduler, which would wake another thread for it, hears nothing of it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often in a row; beyond, the task gives way to others.
const ROUNDS: usize = 16;

const RESTING: u8 = 0;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;

/// Runs a future so that what it wakes of itself, while it is polled, does not go through the scheduler.
pub async fn quietly<F: Future>(future: F) -> F::Output {
    let relay = Relay::new();
    let mut future = pin!(future);
    poll_fn(|cx| relay.poll(cx, |cx| future.as_mut().poll(cx))).await
}

/// Stands between a future, or several, and the task that polls them just now.
pub(crate) struct Relay {
    link: Arc<Link>,
    waker: Waker,
}

struct Link {
    state: AtomicU8,
    task: Mutex<Waker>,
}

impl Relay {
    pub(crate) fn new() -> Relay {
        let link = Arc::new(Link { state: AtomicU8::new(RESTING), task: Mutex::new(Waker::noop().clone()) });
        Relay { waker: Waker::from(Arc::clone(&link)), link }
    }

    /// Polls until there is a result or nothing was woken meanwhile. What is woken later wakes the task of `cx`.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.link.serve(cx.waker());
        let mut own = Context::from_waker(&self.waker);
        for _ in 0..ROUNDS {
            self.link.state.store(POLLING, Ordering::Release);
            let polled = poll(&mut own);
            let woken = self.link.state.swap(RESTING, Ordering::AcqRel) == WOKEN;
            if polled.is_ready() || !woken {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Link {
    /// From now on this task is woken.
    fn serve(&self, task: &Waker) {
        let mut current = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.will_wake(task) {
            current.clone_from(task);
        }
    }
}

impl Wake for Link {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(POLLING, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(RESTING) {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_is_woken_while_polled_is_polled_again_and_the_task_hears_nothing() {
        let (relay, count) = (Relay::new(), Arc::new(Count::default()));
        let task = Waker::from(Arc::clone(&count));
        let mut polls = 0;
        let polled = relay.poll(&mut Context::from_waker(&task), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        });
        assert_eq!(polled, Poll::Ready(3));
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_is_woken_later_wakes_the_task_that_polled_last() {
        let relay = Relay::new();
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut kept = None;
        for count in [&first, &second] {
            let task = Waker::from(Arc::clone(count));
            let polled = relay.poll(&mut Context::from_waker(&task), |cx| {
                kept = Some(cx.waker().clone());
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
        }
        kept.unwrap().wake();
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
    }

    #[test]
    fn a_future_that_wakes_itself_without_end_gives_way() {
        let (relay, count) = (Relay::new(), Arc::new(Count::default()));
        let task = Waker::from(Arc::clone(&count));
        let mut polls = 0;
        let polled = relay.poll(&mut Context::from_waker(&task), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, count.0.load(Ordering::SeqCst)), (ROUNDS, 1));
    }
}
