//! Admission: how many calls may run and wait, over all and per server, and whether there is room for large answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use config::Concurrency;
use policy::Permit;
use store::Reason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::live::Snapshot;
use crate::refusal::Refusal;

/// The places of all servers and of each.
#[derive(Default)]
pub struct Admission {
    gates: Mutex<HashMap<String, Arc<Gate>>>,
}

/// The places at one gate.
struct Gate {
    limit: Concurrency,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A place among the running calls; given back when it is dropped.
pub struct Slot {
    _places: [Option<OwnedSemaphorePermit>; 2],
}

/// Waits for a place, at the server's gate first so that a busy server does not use up the places of all.
///
/// # Errors
/// Too many wait, or it waited too long, or large answers have used up their room, or the call was taken back.
pub async fn slot(
    gateway: &Gateway,
    now: &Snapshot,
    permit: &Permit,
    cancel: &CancellationToken,
) -> Result<Slot, Refusal> {
    if !gateway.spools.has_room() {
        return Err(Refusal::rejected(
            Reason::SpoolFull,
            format!(
                "mcpproxy is busy: large answers that are being handled fill the {} bytes of spool_max_bytes. Retry in a few seconds.",
                gateway.spools.limit_bytes()
            ),
        ));
    }
    let server = now.server(permit.server()).map(|s| s.concurrency);
    let gates = [(permit.server(), server), ("", Some(now.config.concurrency))];
    let mut places = [None, None];
    for (place, (name, limit)) in places.iter_mut().zip(gates) {
        if let Some(limit) = limit.filter(|l| l.max.is_some()) {
            *place = Some(gateway.admission.gate(name, limit).enter(name, cancel).await?);
        }
    }
    Ok(Slot { _places: places })
}

impl Admission {
    /// The gate of a name; a changed limit makes a new one, and calls at the old one run on.
    fn gate(&self, name: &str, limit: Concurrency) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || {
            Arc::new(Gate {
                limit,
                places: Arc::new(Semaphore::new(limit.max.unwrap_or(Semaphore::MAX_PERMITS))),
                waiting: AtomicUsize::new(0),
            })
        };
        let gate = gates.entry(name.to_owned()).or_insert_with(fresh);
        if gate.limit != limit {
            *gate = fresh();
        }
        gate.clone()
    }
}

impl Gate {
    async fn enter(&self, name: &str, cancel: &CancellationToken) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let waiting = Waiting::begin(self).ok_or_else(|| self.refuse(name, Reason::QueueFull))?;
        let until = Instant::now() + self.limit.timeout;
        let place = tokio::select! {
            place = timeout_at(until, self.places.clone().acquire_owned()) => place,
            () = cancel.cancelled() => return Err(Refusal::cancelled(false)),
        };
        drop(waiting);
        match place {
            Ok(Ok(place)) => Ok(place),
            _ => Err(self.refuse(name, Reason::QueueTimeout)),
        }
    }

    fn refuse(&self, name: &str, reason: Reason) -> Refusal {
        let max = self.limit.max.unwrap_or(0);
        let full = match reason {
            Reason::QueueFull => "its wait queue is full",
            _ => "the call waited longer than the configured queue timeout",
        };
        Refusal::rejected(
            reason,
            if name.is_empty() {
                format!(
                    "mcpproxy is busy: the proxy-wide concurrency limit of {max} simultaneous tool calls is saturated and {full}. Retry in a few seconds."
                )
            } else {
                format!(
                    "Server \"{name}\" is busy: it is already running its maximum of {max} simultaneous tool calls and {full}. Retry in a few seconds."
                )
            },
        )
    }
}

/// A place in a queue, given back also when the call is dropped while it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(gate: &'a Gate) -> Option<Self> {
        if gate.waiting.fetch_add(1, Ordering::AcqRel) < gate.limit.queue {
            return Some(Self(&gate.waiting));
        }
        gate.waiting.fetch_sub(1, Ordering::AcqRel);
        None
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
