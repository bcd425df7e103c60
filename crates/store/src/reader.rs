//! Reading the record, also from another process while the program runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params_from_iter};

use crate::database::FILE;
use crate::event::Event;
use crate::filter::{Filter, Place};
use crate::saved::{SavedEntry, SavedFilter};
use crate::servers::ServerEntry;
use crate::{row, saved, schema, servers};

/// How long a reader waits for a lock; with a write-ahead log there is none.
const BUSY: Duration = Duration::from_secs(5);

/// Why the record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is none yet.
    #[error("{path} does not exist; it is made when mcpproxy starts for the first time (or give the right --data-dir)", path = path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It has a schema that this program does not know.
    #[error(
        "{path} has schema {found} and this mcpproxy reads {known}; {}",
        if found > known { "use the version that wrote it" } else { "start the daemon of this version once to bring it up to date" },
        path = path.display()
    )]
    Schema {
        /// The database.
        path: PathBuf,
        /// The version that it has.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// A page was asked for after a row that is not there.
    #[error("no row has the id {0:?} to go on from; begin again from the newest")]
    UnknownCursor(String),
    /// SQLite refuses.
    #[error("the activity database cannot be read: {0}")]
    Database(#[from] rusqlite::Error),
}

/// A read-only view of the database.
pub struct Reader {
    db: Connection,
}

impl Reader {
    /// Opens the database of this data directory.
    ///
    /// # Errors
    /// There is none, it has another schema, or SQLite refuses.
    pub fn open(directory: &Path) -> Result<Reader, ReadError> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Err(ReadError::Missing { path });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags)?;
        db.busy_timeout(BUSY)?;
        db.pragma_update(None, "query_only", true)?;
        match schema::version(&db)? {
            schema::VERSION => Ok(Reader { db }),
            0 => Err(ReadError::Missing { path }),
            found => Err(ReadError::Schema { path, found, known: schema::VERSION }),
        }
    }

    /// The rows that fit, newest first.
    ///
    /// # Errors
    /// The cursor names no row, or SQLite refuses.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Event>, ReadError> {
        let snapshot = self.db.unchecked_transaction()?;
        let before = match &filter.before {
            Some(id) => Some(self.place(id)?.ok_or_else(|| ReadError::UnknownCursor(id.clone()))?),
            None => None,
        };
        let (limit, offset) = filter.page();
        let mut places = Vec::new();
        for condition in filter.conditions(before) {
            let sql = format!(
                "SELECT time_ms, seq FROM events{} ORDER BY time_ms DESC, seq DESC LIMIT {}",
                condition.sql,
                limit + offset
            );
            let mut statement = self.db.prepare_cached(&sql)?;
            let found = statement
                .query_map(params_from_iter(condition.values), |row| Ok((row.get(0)?, row.get(1)?)))?;
            for place in found {
                places.push(place?);
            }
        }
        places.sort_unstable_by(|a: &Place, b| b.cmp(a));
        let events = places.into_iter().skip(offset).take(limit).map(|(_, seq)| self.row(seq)).collect();
        drop(snapshot);
        events
    }

    /// How many rows fit; limit, offset and cursor do not matter.
    ///
    /// # Errors
    /// SQLite refuses.
    pub fn count(&self, filter: &Filter) -> Result<u64, ReadError> {
        let mut total = 0;
        for condition in filter.conditions(None) {
            let sql = format!("SELECT count(*) FROM events{}", condition.sql);
            let mut statement = self.db.prepare_cached(&sql)?;
            let found: i64 = statement.query_row(params_from_iter(condition.values), |row| row.get(0))?;
            total += row::count_out(found);
        }
        Ok(total)
    }

    /// The row with this id, else the row of the call with this request id: its closing row if it has one.
    ///
    /// # Errors
    /// SQLite refuses.
    pub fn get(&self, id: &str) -> Result<Option<Event>, ReadError> {
        let columns = row::COLUMNS.join(", ");
        let by_id = format!("SELECT {columns} FROM events WHERE id = ?1");
        if let Some(event) = self.db.prepare_cached(&by_id)?.query_row([id], row::read).optional()? {
            return Ok(Some(event));
        }
        let by_request = format!(
            "SELECT {columns} FROM events WHERE request_id = ?1
             ORDER BY type = 'tool_call' DESC, type = 'internal_tool_call' DESC, time_ms DESC, seq DESC LIMIT 1"
        );
        Ok(self.db.prepare_cached(&by_request)?.query_row([id], row::read).optional()?)
    }

    /// Saved files that fit, newest first.
    ///
    /// # Errors
    /// SQLite refuses.
    pub fn saved_files(&self, filter: &SavedFilter) -> Result<Vec<SavedEntry>, ReadError> {
        Ok(saved::list(&self.db, filter)?)
    }

    /// How many saved files fit; limit and offset do not matter.
    ///
    /// # Errors
    /// SQLite refuses.
    pub fn count_saved_files(&self, filter: &SavedFilter) -> Result<u64, ReadError> {
        Ok(saved::count(&self.db, filter)?)
    }

    /// The saved file with this id: that of the row of its call, else the request id of its call, else its path.
    ///
    /// # Errors
    /// SQLite refuses.
    pub fn saved_file(&self, id: &str) -> Result<Option<SavedEntry>, ReadError> {
        Ok(saved::get(&self.db, id)?)
    }

    /// Every server that was ever seen, by name.
    ///
    /// # Errors
    /// SQLite refuses.
    pub fn servers(&self) -> Result<Vec<ServerEntry>, ReadError> {
        Ok(servers::list(&self.db)?)
    }

    fn place(&self, id: &str) -> Result<Option<Place>, ReadError> {
        let mut statement = self.db.prepare_cached("SELECT time_ms, seq FROM events WHERE id = ?1")?;
        Ok(statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    fn row(&self, seq: i64) -> Result<Event, ReadError> {
        let sql = format!("SELECT {} FROM events WHERE seq = ?1", row::COLUMNS.join(", "));
        Ok(self.db.prepare_cached(&sql)?.query_row([seq], row::read)?)
    }
}
