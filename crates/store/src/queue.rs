//! What callers and the writer share: the bounded queue of rows, the slots, and the totals of saved files.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::call::StoreFull;
use crate::event::{Event, now_ms};
use crate::health::{Failing, StoreHealth, lock};
use crate::retention::Retention;
use crate::slots::{Slot, Slots};

/// Rows that the writer takes into one transaction.
const BATCH_ROWS: usize = 512;
/// And their weight, so that a batch of large bodies stays small.
const BATCH_BYTES: usize = 8 << 20;
/// Questions to the writer that may wait.
const MAX_ASKS: usize = 256;

/// After a commit the next one waits this long for company, so that calls in a row share one. A row that comes alone is
/// written at once.
const LINGER: Duration = Duration::from_millis(10);
/// Rows that are company enough.
const LINGER_ROWS: usize = 128;

/// A piece of work that needs the writer's connection.
pub(crate) type Ask = Box<dyn FnOnce(&mut Connection) + Send>;

/// The rows of one call or of one event.
pub(crate) struct Rows {
    pub(crate) slot: Option<Slot>,
    pub(crate) events: Vec<Event>,
    weight: usize,
}

enum Job {
    Rows(Rows),
    Ask(Ask),
}

/// What the writer gets to do next.
pub(crate) enum Taken {
    Rows(Vec<Rows>),
    Ask(Ask),
    /// Nothing came until the time that was named.
    Idle,
    /// The store was closed and everything is written.
    Closed,
}

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) calls: usize,
    pub(crate) bytes: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    asks: usize,
    // What is queued or in the writer's hands.
    calls: usize,
    rows: usize,
    bytes: usize,
    accepted: u64,
    done: u64,
    failing: Option<Failing>,
    last_done: Option<Instant>,
    /// The writer waits for company and need not be woken by each row.
    lingering: bool,
    /// Those who wait until everything is committed.
    flushing: usize,
    closed: bool,
    ended: bool,
}

impl Queue {
    fn full(&self, bounds: Bounds) -> bool {
        self.calls >= bounds.calls || self.bytes >= bounds.bytes
    }

    /// Whether the next commit can wait for more rows.
    fn can_linger(&self) -> bool {
        self.rows < LINGER_ROWS && self.asks == 0 && self.flushing == 0 && !self.closed
    }

    fn push(&mut self, rows: Rows) {
        self.calls += usize::from(rows.slot.is_some());
        self.rows += rows.events.len();
        self.bytes += rows.weight;
        self.accepted += 1;
        self.jobs.push_back(Job::Rows(rows));
    }
}

/// See the module.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    room: Condvar,
    bounds: Bounds,
    pub(crate) slots: Slots,
    pub(crate) body_bytes: AtomicUsize,
    pub(crate) stored_rows: AtomicU64,
    pub(crate) retention: Mutex<Retention>,
    saved: Mutex<HashMap<String, u64>>,
}

impl Shared {
    pub(crate) fn new(bounds: Bounds, slots: Slots, body_bytes: usize, retention: Retention) -> Shared {
        Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            bounds,
            slots,
            body_bytes: AtomicUsize::new(body_bytes),
            stored_rows: AtomicU64::new(0),
            retention: Mutex::new(retention),
            saved: Mutex::default(),
        }
    }

    /// Refuses when nothing more could be recorded.
    pub(crate) fn admit(&self) -> Result<(), StoreFull> {
        let queue = lock(&self.queue);
        if queue.closed || queue.ended {
            return Err(StoreFull::Ended);
        }
        match &queue.failing {
            Some(failing) if queue.full(self.bounds) => {
                Err(StoreFull::Waiting { calls: queue.calls, message: failing.message.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Takes the rows of a closed call, or gives them back when the writer is behind. While the database cannot be
    /// written they are always taken: every call that may come holds a slot already, so their number is bounded.
    pub(crate) fn offer(&self, slot: Slot, events: Vec<Event>) -> Result<(), (Slot, Vec<Event>)> {
        let queue = lock(&self.queue);
        if queue.full(self.bounds) && queue.failing.is_none() && !queue.closed && !queue.ended {
            return Err((slot, events));
        }
        self.accept(queue, Some(slot), events);
        Ok(())
    }

    /// Takes the rows of a closed call, waiting while the writer is behind.
    pub(crate) fn offer_blocking(&self, slot: Slot, events: Vec<Event>) {
        let behind = |queue: &mut Queue| {
            queue.full(self.bounds) && queue.failing.is_none() && !queue.closed && !queue.ended
        };
        let queue = self.room.wait_while(lock(&self.queue), behind).unwrap_or_else(PoisonError::into_inner);
        self.accept(queue, Some(slot), events);
    }

    /// Takes a row that belongs to no call.
    pub(crate) fn append(&self, event: Event) -> Result<(), StoreFull> {
        let queue = lock(&self.queue);
        if queue.closed || queue.ended {
            return Err(StoreFull::Ended);
        }
        if queue.rows >= self.bounds.calls.saturating_mul(2)
            || queue.bytes >= self.bounds.bytes.saturating_mul(2)
        {
            let message = queue.failing.as_ref().map_or("too many rows wait", |failing| &failing.message);
            return Err(StoreFull::Waiting { calls: queue.calls, message: message.to_owned() });
        }
        self.accept(queue, None, vec![event]);
        Ok(())
    }

    /// Closes a call that nobody closed.
    pub(crate) fn abandon(&self, slot: Slot) {
        match self.slots.abandoned(&slot) {
            Ok(mut event) => {
                event.message = Some("the call ended inside mcpproxy without a result".into());
                self.accept(lock(&self.queue), Some(slot), vec![event]);
            }
            Err(error) => tracing::error!(%error, "cannot read a slot of the file `inflight`"),
        }
    }

    fn accept(
        &self,
        mut queue: std::sync::MutexGuard<'_, Queue>,
        slot: Option<Slot>,
        mut events: Vec<Event>,
    ) {
        if queue.ended {
            // The slot stays used, so the next start closes the call as abandoned.
            tracing::error!(
                "the activity database is closed; a call is recorded as abandoned at the next start"
            );
            return;
        }
        if queue.bytes >= self.bounds.bytes && queue.failing.is_some() {
            events.iter_mut().for_each(Event::drop_bodies);
        }
        for saved in events.iter().filter_map(|event| event.saved.as_ref()) {
            self.add_saved(&saved.root, saved.size);
        }
        let weight = events.iter().map(Event::weight).sum();
        queue.push(Rows { slot, events, weight });
        let wake = !queue.lingering || !queue.can_linger();
        drop(queue);
        if wake {
            self.work.notify_one();
        }
    }

    /// Hands a piece of work to the writer.
    pub(crate) fn ask(&self, ask: Ask) -> Result<(), StoreFull> {
        let mut queue = lock(&self.queue);
        if queue.closed || queue.ended {
            return Err(StoreFull::Ended);
        }
        if queue.asks >= MAX_ASKS {
            let message = "too many questions to the database wait".to_owned();
            return Err(StoreFull::Waiting { calls: queue.calls, message });
        }
        queue.asks += 1;
        queue.jobs.push_back(Job::Ask(ask));
        drop(queue);
        self.work.notify_one();
        Ok(())
    }

    /// The next work for the writer, at the latest at `until`.
    pub(crate) fn take(&self, until: Instant) -> Taken {
        let mut queue = lock(&self.queue);
        while queue.jobs.is_empty() {
            if queue.closed {
                queue.ended = true;
                return Taken::Closed;
            }
            let patience = until.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                return Taken::Idle;
            }
            queue = self.work.wait_timeout(queue, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        if queue.can_linger() && queue.last_done.is_some_and(|at| at.elapsed() < LINGER) {
            queue.lingering = true;
            let waited = self.work.wait_timeout_while(queue, LINGER, |queue| queue.can_linger());
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.lingering = false;
        }
        let (mut batch, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < BATCH_ROWS && bytes < BATCH_BYTES {
            match queue.jobs.pop_front() {
                Some(Job::Rows(next)) => {
                    rows += next.events.len();
                    bytes += next.weight;
                    batch.push(next);
                }
                Some(Job::Ask(ask)) if batch.is_empty() => {
                    queue.asks -= 1;
                    return Taken::Ask(ask);
                }
                Some(ask) => {
                    queue.jobs.push_front(ask);
                    break;
                }
                None => break,
            }
        }
        Taken::Rows(batch)
    }

    /// These rows are committed: their slots and their room are free again.
    pub(crate) fn done(&self, batch: Vec<Rows>) {
        let accepted = batch.len() as u64;
        let (mut calls, mut rows, mut bytes) = (0, 0, 0);
        for part in batch {
            calls += usize::from(part.slot.is_some());
            rows += part.events.len();
            bytes += part.weight;
            if let Some(slot) = part.slot {
                self.slots.free(slot);
            }
        }
        let mut queue = lock(&self.queue);
        queue.calls -= calls;
        queue.rows -= rows;
        queue.bytes -= bytes;
        queue.done += accepted;
        queue.last_done = Some(Instant::now());
        if let Some(failing) = queue.failing.take() {
            let seconds = (now_ms() - failing.since_ms) / 1000;
            tracing::info!(seconds, waiting = queue.rows, "the activity database can be written again");
        }
        drop(queue);
        self.room.notify_all();
    }

    /// The database cannot be written. Said in the log once, until it can be written again.
    pub(crate) fn failed(&self, message: String) {
        let mut queue = lock(&self.queue);
        let since_ms = queue.failing.as_ref().map_or_else(now_ms, |failing| failing.since_ms);
        if queue.failing.is_none() {
            tracing::error!(
                %message,
                "the activity database cannot be written; closed calls wait, and new ones are refused when they are too many"
            );
        }
        queue.failing = Some(Failing { since_ms, message });
        drop(queue);
        self.room.notify_all();
    }

    /// Waits, but not longer than until the store is closed. `true` when it is.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let waiting = self.work.wait_timeout_while(lock(&self.queue), time, |queue| !queue.closed);
        waiting.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    /// Waits until everything that was accepted before is committed; `false` when that takes longer.
    pub(crate) fn flush(&self, patience: Duration) -> bool {
        let mut queue = lock(&self.queue);
        let goal = queue.accepted;
        queue.flushing += 1;
        self.work.notify_one();
        let waiting =
            self.room.wait_timeout_while(queue, patience, |queue| queue.done < goal && !queue.ended);
        let mut queue = waiting.unwrap_or_else(PoisonError::into_inner).0;
        queue.flushing -= 1;
        queue.done >= goal
    }

    /// Nothing more is taken; the writer ends when the queue is empty.
    pub(crate) fn close(&self) {
        lock(&self.queue).closed = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// The writer is gone.
    pub(crate) fn end(&self) {
        lock(&self.queue).ended = true;
        self.room.notify_all();
    }

    pub(crate) fn health(&self) -> StoreHealth {
        let queue = lock(&self.queue);
        StoreHealth {
            failing: queue.failing.clone(),
            ended: queue.ended,
            waiting_rows: queue.rows,
            waiting_bytes: queue.bytes,
            in_flight: self.slots.used(),
        }
    }

    pub(crate) fn body_limit(&self) -> usize {
        self.body_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the files saved beneath this root, those included whose rows wait.
    pub(crate) fn saved_bytes(&self, root: &str) -> u64 {
        lock(&self.saved).get(root).copied().unwrap_or(0)
    }

    pub(crate) fn add_saved(&self, root: &str, bytes: u64) {
        let mut saved = lock(&self.saved);
        let total = saved.entry(root.to_owned()).or_default();
        *total = total.saturating_add(bytes);
    }

    pub(crate) fn subtract_saved(&self, root: &str, bytes: u64) {
        if let Some(total) = lock(&self.saved).get_mut(root) {
            *total = total.saturating_sub(bytes);
        }
    }
}
