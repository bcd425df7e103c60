//! Opening a store: its bounds, what the last run left behind, and the report on it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::database::{self, Database, OpenError};
use crate::retention::Retention;
use crate::slots::Leftover;
use crate::{row, saved, servers};

/// Bounds of a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How much of a reply, and of arguments, a row keeps, in bytes.
    pub body_bytes: usize,
    /// How long rows are kept.
    pub retention: Retention,
    /// Calls that can be in flight, those included whose closing row waits to be written.
    pub slots: u32,
    /// Closed calls that may wait for the writer before callers slow down, or, while the database cannot be written,
    /// before new calls are refused.
    pub waiting_calls: usize,
    /// The same bound in bytes of memory.
    pub waiting_bytes: usize,
    /// How long to wait for another program's lock on the database before it counts as not writable.
    pub busy_timeout: Duration,
    /// Time between two looks at what is too old.
    pub sweep_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            body_bytes: 65_536,
            retention: Retention::default(),
            slots: 4096,
            waiting_calls: 2048,
            waiting_bytes: 64 << 20,
            busy_timeout: Duration::from_secs(2),
            sweep_every: Duration::from_secs(60),
        }
    }
}

/// What was found when the store was opened. Anything but the defaults is worth a line in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The database was made now.
    pub created: bool,
    /// The older schema that it had.
    pub migrated_from: Option<u32>,
    /// Calls that the last run left open and that are marked `abandoned` now.
    pub abandoned: usize,
    /// Of these, calls of which nothing can be read any more.
    pub damaged_slots: usize,
    /// Where a damaged database was moved to.
    pub moved_aside: Option<PathBuf>,
    /// The network file system that the data directory lies on; the database runs without a write-ahead log there.
    pub network_file_system: Option<&'static str>,
    /// Readers and the writer do not wait for each other.
    pub write_ahead: bool,
}

/// A database that is ready for its writer.
pub(crate) struct Prepared {
    pub(crate) db: Connection,
    pub(crate) identity: Option<(u64, u64)>,
    pub(crate) stored_rows: u64,
    pub(crate) saved: Vec<(String, u64)>,
    pub(crate) first_start: bool,
}

/// Opens the database and closes the calls that the last run left open, in one transaction. Doing so twice makes no
/// second row, because each slot carries the id of its row.
pub(crate) fn prepare(
    directory: &Path,
    options: &Options,
    leftovers: &[Leftover],
    report: &mut OpenReport,
) -> Result<Prepared, OpenError> {
    let network = report.network_file_system.is_some();
    let Database { connection: mut db, found, write_ahead, identity } =
        database::open(directory, options.busy_timeout, network)?;
    let failed = |source| OpenError::Database { path: directory.join(database::FILE), source };
    report.created = found == 0;
    report.migrated_from = (found > 0 && found < crate::schema::VERSION).then_some(found);
    report.write_ahead = write_ahead;
    report.damaged_slots = leftovers.iter().filter(|leftover| leftover.damaged).count();
    report.abandoned = close_leftovers(&mut db, leftovers).map_err(failed)?;
    let stored =
        db.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).map_err(failed)?;
    let saved = saved::totals(&db).map_err(failed)?;
    let first_start = servers::before_first_start(&db).map_err(failed)?;
    Ok(Prepared { db, identity, stored_rows: row::count_out(stored), saved, first_start })
}

fn close_leftovers(db: &mut Connection, leftovers: &[Leftover]) -> rusqlite::Result<usize> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut closed = 0;
    for leftover in leftovers {
        for row in &leftover.rows {
            let inserted = row::insert(&change, row)?;
            closed += usize::from(inserted && leftover.abandoned);
            if let (true, Some(file)) = (inserted, &row.saved) {
                saved::note(&change, row, file)?;
            }
        }
    }
    change.commit()?;
    Ok(closed)
}

/// Says in the log what is out of the ordinary.
pub(crate) fn say(report: &OpenReport) {
    if let Some(path) = &report.moved_aside {
        tracing::error!(moved_to = %path.display(), "the activity database was damaged; it was moved aside and a new one begins");
    }
    if report.abandoned > 0 {
        tracing::warn!(
            calls = report.abandoned,
            "calls that the last run left open are recorded as abandoned"
        );
    }
    if let Some(name) = report.network_file_system {
        tracing::warn!(
            file_system = name,
            "the data directory lies on a network file system; a local one is safer and faster"
        );
    }
}
