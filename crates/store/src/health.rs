//! Whether the database can be written, and what waits if it cannot.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `status` and `/readyz` say about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    /// Set while the database cannot be written.
    pub failing: Option<Failing>,
    /// The writer has ended and nothing is written any more.
    pub ended: bool,
    /// Rows that wait to be written.
    pub waiting_rows: usize,
    /// About how much memory they hold, in bytes.
    pub waiting_bytes: usize,
    /// Calls that are open, or closed and not yet written.
    pub in_flight: usize,
}

impl StoreHealth {
    /// The database can be written.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failing.is_none() && !self.ended
    }
}

/// Since when, and why, the database cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// Milliseconds since 1970.
    pub since_ms: i64,
    /// What the database said last.
    pub message: String,
}

/// The lock, also after a thread died while it held it: everything that is behind our locks is valid between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
