//! The one thread that writes: takes what is queued, commits it in one transaction, tries again for as long as it takes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use crate::database::{self, is_corrupt};
use crate::event::now_ms;
use crate::health::lock;
use crate::queue::{Rows, Shared, Taken};
use crate::{retention, row, saved, sys};

/// First and longest pause between two attempts.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Attempts after the store was closed. What is not written then is found in its slots at the next start.
const LAST_ATTEMPTS: u32 = 4;

/// The writer and what it needs to open the database again.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) db: Connection,
    pub(crate) identity: Option<(u64, u64)>,
    pub(crate) detached: bool,
    pub(crate) directory: PathBuf,
    pub(crate) busy: Duration,
    pub(crate) network: bool,
    pub(crate) sweep_every: Duration,
    pub(crate) next_sweep: Instant,
}

/// Says that the writer is gone, also when it ends by a panic.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The pieces that a commit counted twice or found replaced: root and bytes.
type Replaced = Vec<(String, u64)>;

impl Writer {
    /// Works until the store is closed and the queue is empty.
    pub(crate) fn run(mut self) {
        let _end = End(Arc::clone(&self.shared));
        loop {
            match self.shared.take(self.next_sweep) {
                Taken::Rows(batch) => {
                    if !self.write(batch) {
                        return;
                    }
                }
                Taken::Ask(ask) => ask(&mut self.db),
                Taken::Idle => {}
                Taken::Closed => return,
            }
            if Instant::now() >= self.next_sweep {
                self.sweep();
            }
        }
    }

    /// Writes the batch, however often it has to try. `false` when the store was closed and it gave up.
    fn write(&mut self, batch: Vec<Rows>) -> bool {
        let mut wait = BACK_OFF.0;
        let (mut last_attempts, mut mended) = (0, false);
        loop {
            let error = match commit(&mut self.db, &batch) {
                Ok((inserted, replaced)) => {
                    self.shared.stored_rows.fetch_add(inserted, Ordering::Relaxed);
                    for (root, bytes) in replaced {
                        self.shared.subtract_saved(&root, bytes);
                    }
                    self.shared.done(batch);
                    return true;
                }
                Err(error) => error,
            };
            self.shared.failed(error.to_string());
            if !mended && ((is_corrupt(&error) && self.begin_anew()) || (self.detached && self.reopen())) {
                // Once without a pause; a disk that damages the new file too is not written in a tight loop.
                mended = true;
                continue;
            }
            mended = false;
            if self.shared.pause(wait) {
                std::thread::sleep(wait.min(BACK_OFF.0 * 4));
                last_attempts += 1;
                if last_attempts >= LAST_ATTEMPTS {
                    let rows: usize = batch.iter().map(|part| part.events.len()).sum();
                    tracing::error!(%error, rows, "closed with rows unwritten; their calls become `abandoned` at the next start");
                    return false;
                }
            }
            wait = (wait * 2).min(BACK_OFF.1);
        }
    }

    /// Moves a damaged database aside and opens a new one.
    fn begin_anew(&mut self) -> bool {
        if !self.close() {
            return false;
        }
        match database::move_aside(&self.directory) {
            Ok(aside) => tracing::error!(
                moved_to = %aside.display(),
                "the activity database is damaged; it was moved aside and a new one begins"
            ),
            Err(error) => tracing::error!(%error, "cannot move the damaged activity database aside"),
        }
        self.reopen()
    }

    /// A database that someone removed or replaced while we ran would take our rows with it.
    fn follow_file(&mut self) {
        if sys::identity(&self.directory.join(database::FILE)) == self.identity {
            return;
        }
        tracing::error!("the activity database was removed or replaced while mcpproxy ran; a new one begins");
        if self.close() {
            self.reopen();
        }
    }

    /// Lets go of the file. The connection that stands in until it is opened again has no tables, so nothing is written.
    fn close(&mut self) -> bool {
        let Ok(nothing) = Connection::open_in_memory() else { return false };
        drop(std::mem::replace(&mut self.db, nothing));
        self.detached = true;
        true
    }

    fn reopen(&mut self) -> bool {
        match database::open(&self.directory, self.busy, self.network) {
            Ok(database) => {
                self.db = database.connection;
                self.identity = database.identity;
                self.detached = false;
                let stored = self.db.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0));
                self.shared.stored_rows.store(row::count_out(stored.unwrap_or(0)), Ordering::Relaxed);
                true
            }
            Err(error) => {
                tracing::error!(%error, "cannot open the activity database again");
                false
            }
        }
    }

    /// One step of retention; the next one at once if there is more to do.
    fn sweep(&mut self) {
        if self.detached {
            self.reopen();
        }
        let keep = *lock(&self.shared.retention);
        let stored = self.shared.stored_rows.load(Ordering::Relaxed);
        match retention::step(&self.db, keep, stored, now_ms()) {
            Ok(Some(swept)) => {
                forget_rows(&self.shared, swept.rows);
                return;
            }
            Ok(None) => self.follow_file(),
            Err(error) if is_corrupt(&error) => {
                self.begin_anew();
            }
            Err(error) => tracing::warn!(%error, "old rows of the activity database cannot be removed now"),
        }
        self.next_sweep = Instant::now() + self.sweep_every;
    }
}

/// Counts rows that retention removed.
pub(crate) fn forget_rows(shared: &Shared, rows: u64) {
    let fewer = |stored: u64| Some(stored.saturating_sub(rows));
    // The closure always answers, so this cannot fail.
    let _ = shared.stored_rows.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
}

/// Writes the batch in one transaction. A row that is there already is left alone, so a repeated commit changes nothing.
fn commit(db: &mut Connection, batch: &[Rows]) -> rusqlite::Result<(u64, Replaced)> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut inserted, mut replaced) = (0, Replaced::new());
    for event in batch.iter().flat_map(|part| &part.events) {
        let new = row::insert(&change, event)?;
        inserted += u64::from(new);
        let Some(file) = &event.saved else { continue };
        let older = if new { saved::note(&change, event, file)? } else { Some(file.size) };
        replaced.extend(older.map(|bytes| (file.root.clone(), bytes)));
    }
    change.commit()?;
    Ok((inserted, replaced))
}
