//! The store of one data directory: opening it, and what the rest of the program asks of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::call::{Busy, InFlight, Opening, StoreFull};
use crate::database::{self, OpenError};
use crate::event::Event;
use crate::health::{StoreHealth, lock};
use crate::opening::{OpenReport, Options, Prepared, prepare, say};
use crate::outcome;
use crate::queue::{Bounds, Shared};
use crate::reader::{ReadError, Reader};
use crate::retention::{Retention, Swept};
use crate::servers::ServerSeen;
use crate::slots::{END_ROOM, Mark, Slots};
use crate::writer::Writer;
use crate::{retention, saved, servers, sys};

/// Name of the file of slots in the data directory.
const SLOTS_FILE: &str = "inflight";
/// How long a question to the writer may take.
const ASK_PATIENCE: Duration = Duration::from_secs(5);
/// How long [`Store::flush`] waits.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);
/// Paths that are looked at between two questions to the writer.
const STRIKE_STEP: u32 = 1000;

/// A question to the database that got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The writer has too much to do, or cannot write.
    #[error("the activity database does not answer: {0}")]
    Unavailable(String),
    /// The database refused.
    #[error("the activity database refused: {0}")]
    Database(String),
}

/// The records of one data directory. There is one in the process that holds the directory's lock.
pub struct Store {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    directory: PathBuf,
    report: OpenReport,
    first_start: AtomicBool,
}

impl Store {
    /// Opens or makes the store, closes what the last run left open, and starts the writer.
    ///
    /// A damaged database is moved aside and a new one begins: the report says so.
    ///
    /// # Errors
    /// The directory, the database or the file of slots cannot be used; a newer mcpproxy wrote it; the disk is full.
    pub fn open(directory: &Path, options: Options) -> Result<Store, OpenError> {
        let in_directory = |source| OpenError::File { path: directory.to_owned(), source };
        sys::make_private_directory(directory).map_err(in_directory)?;
        let mut report =
            OpenReport { network_file_system: sys::network_file_system(directory), ..OpenReport::default() };
        let slots_path = directory.join(SLOTS_FILE);
        let opened = Slots::open(&slots_path, options.slots);
        let (slots, leftovers) = opened.map_err(|source| OpenError::Slots { path: slots_path, source })?;
        let prepared = match prepare(directory, &options, &leftovers, &mut report) {
            Err(error) if error.is_corrupt() => {
                report.moved_aside = Some(database::move_aside(directory).map_err(in_directory)?);
                prepare(directory, &options, &leftovers, &mut report)?
            }
            other => other?,
        };
        say(&report);
        leftovers.into_iter().for_each(|leftover| slots.free(leftover.slot));
        Store::start(directory, &options, slots, prepared, report)
    }

    fn start(
        directory: &Path,
        options: &Options,
        slots: Slots,
        prepared: Prepared,
        report: OpenReport,
    ) -> Result<Store, OpenError> {
        let bounds = Bounds { calls: options.waiting_calls.max(1), bytes: options.waiting_bytes.max(1) };
        let shared = Arc::new(Shared::new(bounds, slots, options.body_bytes, options.retention));
        shared.stored_rows.store(prepared.stored_rows, Ordering::Relaxed);
        prepared.saved.iter().for_each(|(root, bytes)| shared.add_saved(root, *bytes));
        let writer = Writer {
            shared: Arc::clone(&shared),
            db: prepared.db,
            identity: prepared.identity,
            detached: false,
            directory: directory.to_owned(),
            busy: options.busy_timeout,
            network: report.network_file_system.is_some(),
            sweep_every: options.sweep_every,
            // Shortly after the start, when the first calls are through.
            next_sweep: Instant::now() + options.sweep_every.min(Duration::from_secs(2)),
        };
        let thread = std::thread::Builder::new().name("store-writer".into());
        let writer = thread.spawn(move || writer.run()).map_err(OpenError::Thread)?;
        Ok(Store {
            shared,
            writer: Some(writer),
            directory: directory.to_owned(),
            report,
            first_start: AtomicBool::new(prepared.first_start),
        })
    }

    /// What was found when the store was opened.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Whether rows can be written, and what waits.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.shared.health()
    }

    /// A reader of this database.
    ///
    /// # Errors
    /// The database cannot be opened for reading.
    pub fn reader(&self) -> Result<Reader, ReadError> {
        Reader::open(&self.directory)
    }

    /// Opens the record of a call: one write of 1 KiB into a file that has its room already.
    ///
    /// # Errors
    /// No further call can be recorded, so this one must be refused before it is dispatched.
    pub fn begin(&self, opening: &Opening<'_>) -> Result<InFlight, StoreFull> {
        self.shared.admit()?;
        let row = ulid::Ulid::generate();
        let taken = self.shared.slots.take(row.0, opening);
        match taken.map_err(|error| StoreFull::Slot { message: error.to_string() })? {
            None => Err(StoreFull::InFlight { calls: self.shared.slots.used() }),
            slot => Ok(InFlight {
                row_id: row.to_string(),
                kind: opening.kind,
                request_id: opening.request_id.to_owned(),
                slot,
                shared: Arc::clone(&self.shared),
            }),
        }
    }

    /// Notes that the call is about to be sent: from now on the upstream may have run. To be done directly before.
    ///
    /// # Errors
    /// It cannot be noted, so the call must not be sent.
    pub fn mark_dispatched(&self, call: &InFlight) -> Result<(), StoreFull> {
        self.mark(call, Mark::Dispatched)
    }

    /// Notes that the upstream answered.
    ///
    /// # Errors
    /// It cannot be noted. The call may go on: its record only says less if we are killed now.
    pub fn mark_answered(&self, call: &InFlight) -> Result<(), StoreFull> {
        self.mark(call, Mark::Answered)
    }

    fn mark(&self, call: &InFlight, mark: Mark) -> Result<(), StoreFull> {
        let Some(slot) = &call.slot else { return Ok(()) };
        self.shared.slots.mark(slot, mark).map_err(|error| StoreFull::Slot { message: error.to_string() })
    }

    /// Closes a call. `rows` holds its closing row (the first of the kind that was opened: it gets the call's row id) and
    /// what belongs to it; rows without a request id get the call's. Never blocks; does one small write.
    ///
    /// # Errors
    /// The writer is behind: call and rows come back, to be offered again or given to [`Store::finish_blocking`].
    pub fn finish(&self, mut call: InFlight, mut rows: Vec<Event>) -> Result<(), Busy> {
        self.complete(&call, &mut rows);
        let Some(slot) = call.slot.take() else { return Ok(()) };
        self.shared.offer(slot, rows).map_err(|(slot, rows)| {
            call.slot = Some(slot);
            Busy(call, rows)
        })
    }

    /// Closes a call, and waits while the writer is behind. It does not wait for a database that cannot be written.
    pub fn finish_blocking(&self, mut call: InFlight, mut rows: Vec<Event>) {
        self.complete(&call, &mut rows);
        if let Some(slot) = call.slot.take() {
            self.shared.offer_blocking(slot, rows);
        }
    }

    fn complete(&self, call: &InFlight, rows: &mut Vec<Event>) {
        if !call.claim(rows)
            && let Some(slot) = &call.slot
            && let Ok(row) = self.shared.slots.abandoned(slot)
        {
            rows.push(Event { message: Some("the call was closed without a row of its own".into()), ..row });
        }
        let body_bytes = self.shared.body_limit();
        rows.iter_mut().for_each(|row| row.fit(body_bytes));
        self.note_end(call, rows);
    }

    /// Writes the end of the call into its slot, where it stands until the row is committed.
    fn note_end(&self, call: &InFlight, rows: &[Event]) {
        let Some(slot) = &call.slot else { return };
        let Ok(row) = ulid::Ulid::from_string(&call.row_id) else { return };
        let Some(end) = outcome::encode(call.kind, rows, END_ROOM) else { return };
        if let Err(error) = self.shared.slots.note_end(slot, row.0, &end) {
            tracing::debug!(%error, "the end of a call could not be noted in its slot");
        }
    }

    /// Records what belongs to no call. Never blocks.
    ///
    /// # Errors
    /// Too many rows wait already.
    pub fn append(&self, mut event: Event) -> Result<(), StoreFull> {
        event.fit(self.shared.body_limit());
        self.shared.append(event)
    }

    /// Waits until everything handed over so far is committed, at most ten seconds. `false` if it is not.
    pub fn flush(&self) -> bool {
        self.flush_within(FLUSH_PATIENCE)
    }

    /// Waits until everything handed over so far is committed, at most this long. `false` if it is not.
    pub fn flush_within(&self, patience: Duration) -> bool {
        self.shared.flush(patience)
    }

    /// Changes how long rows are kept and how much of a body they keep, from the next row and sweep on.
    pub fn set_limits(&self, retention: Retention, body_bytes: usize) {
        *lock(&self.shared.retention) = retention;
        self.shared.body_bytes.store(body_bytes, Ordering::Relaxed);
    }

    /// Removes now what is too old, too many or too large, and gives free room back to the file system.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn sweep(&self) -> Result<Swept, AskError> {
        let mut total = Swept::default();
        loop {
            let (shared, keep) = (Arc::clone(&self.shared), *lock(&self.shared.retention));
            let step = self.ask(move |db| {
                let stored = shared.stored_rows.load(Ordering::Relaxed);
                let swept = retention::step(db, keep, stored, crate::event::now_ms())?;
                crate::writer::forget_rows(&shared, swept.map_or(0, |swept| swept.rows));
                Ok(swept)
            })?;
            let Some(swept) = step else { return Ok(total) };
            total.rows += swept.rows;
            total.bytes += swept.bytes;
        }
    }

    /// Bytes of the files saved beneath this root, by the table of saved files; those count at once whose row waits.
    ///
    /// # Errors
    /// The store is closed, so nobody keeps the count.
    pub fn saved_bytes(&self, root: &Path) -> Result<u64, AskError> {
        if self.shared.health().ended {
            return Err(AskError::Unavailable(StoreFull::Ended.to_string()));
        }
        Ok(self.shared.saved_bytes(&root.to_string_lossy()))
    }

    /// Strikes the files that are gone from the table of saved files, and answers what [`Store::saved_bytes`] is then.
    /// Looks at every file of the root, so it takes a while for many.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub fn strike_missing(&self, root: &Path) -> Result<u64, AskError> {
        let root = root.to_string_lossy().into_owned();
        let mut after = String::new();
        loop {
            let (of, from) = (root.clone(), after);
            let paths = self.ask(move |db| saved::paths(db, &of, &from, STRIKE_STEP))?;
            let Some(last) = paths.last().cloned() else { return Ok(self.shared.saved_bytes(&root)) };
            after = last;
            let gone: Vec<String> = paths.into_iter().filter(|path| saved::is_gone(path)).collect();
            if gone.is_empty() {
                continue;
            }
            let of = root.clone();
            let bytes = self.ask(move |db| saved::strike(db, &of, &gone))?;
            self.shared.subtract_saved(&root, bytes);
        }
    }

    /// Strikes one file, by the id of the row of its call, from the table of saved files. `false`: it does not stand
    /// there, or a later save has taken its place.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn forget_saved(&self, event_id: &str) -> Result<bool, AskError> {
        let id = event_id.to_owned();
        let Some((root, bytes)) = self.ask(move |db| saved::forget(db, &id))? else { return Ok(false) };
        self.shared.subtract_saved(&root, bytes);
        Ok(true)
    }

    /// Notes servers of the configuration with their launch fingerprints (any text; only its SHA-256 is kept), all at once.
    ///
    /// Until [`Store::end_first_start`] is called, and if no earlier run noted a server, they are the baseline.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn note_servers(
        &self,
        servers: &[(String, String)],
        now_ms: i64,
    ) -> Result<Vec<ServerSeen>, AskError> {
        let servers = servers.to_vec();
        let first_start = self.first_start.load(Ordering::SeqCst);
        self.ask(move |db| servers::note(db, &servers, now_ms, first_start))
    }

    /// As [`Store::note_servers`], for one.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn note_server(&self, name: &str, fingerprint: &str, now_ms: i64) -> Result<ServerSeen, AskError> {
        let seen = self.note_servers(&[(name.to_owned(), fingerprint.to_owned())], now_ms)?;
        seen.into_iter().next().ok_or_else(|| AskError::Database("it did not answer for the server".into()))
    }

    /// The servers of the start are noted: what is noted from now on appeared later.
    pub fn end_first_start(&self) {
        self.first_start.store(false, Ordering::SeqCst);
    }

    /// Has the writer do a piece of work and waits for the answer.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, AskError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let ask = Box::new(move |db: &mut Connection| {
            // Nobody may wait any more; the work is done all the same.
            let _ = answer.send(work(db));
        });
        self.shared.ask(ask).map_err(|full| AskError::Unavailable(full.to_string()))?;
        let result = answered.recv_timeout(ASK_PATIENCE).map_err(|_| {
            let why = self.shared.health().failing.map(|failing| failing.message);
            AskError::Unavailable(why.unwrap_or_else(|| "it is busy".into()))
        })?;
        result.map_err(|error| AskError::Database(error.to_string()))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that writes the activity database died");
        }
    }
}

#[cfg(test)]
mod tests;
