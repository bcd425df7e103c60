//! The SQLite file: records, and the slots of calls in flight.
//!
//! One [`Store`] per data directory writes; any number of [`Reader`]s, also in other processes, read beside it.
//!
//! The life of a record: [`Store::begin`] takes a slot in a small preallocated file, [`Store::mark_dispatched`] notes
//! there that the upstream may have run, [`Store::finish`] hands the closing rows to the one writer thread, and the slot
//! is given back only after those rows are committed. A process that dies in between leaves a used slot, which the next
//! [`Store::open`] turns into one row of status `abandoned`. So no dispatched call lacks a row, and none has two.
//!
//! Two processes must not open a `Store` on the same directory; whoever starts the program holds a lock on it first.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod call;
mod database;
mod event;
mod filter;
mod health;
mod opening;
mod outcome;
mod queue;
mod reader;
mod reason;
mod retention;
mod row;
mod saved;
mod schema;
mod servers;
mod slots;
mod store;
mod sys;
mod words;
mod writer;

pub use call::{Busy, InFlight, Opening, StoreFull};
pub use database::OpenError;
pub use event::{Event, EventType, SavedFile, Source, Status, Tokens, UpstreamRan, new_id, now_ms};
pub use filter::{Filter, MAX_LIMIT};
pub use health::{Failing, StoreHealth};
pub use opening::{OpenReport, Options};
pub use reader::{ReadError, Reader};
pub use reason::Reason;
pub use retention::{Retention, Swept};
pub use saved::{SavedEntry, SavedFilter};
pub use servers::{ServerEntry, ServerSeen};
pub use store::{AskError, Store};
