//! Opening the database file: its modes, its version, and what happens to one that is damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{schema, sys};

/// Name of the database in the data directory.
pub(crate) const FILE: &str = "mcpproxy.db";

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory or the file in it cannot be made or opened.
    #[error("cannot open {path}: {source}; check that the data directory exists and belongs to this user", path = path.display())]
    File {
        /// What could not be opened.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A newer mcpproxy wrote the database.
    #[error(
        "{path} was written by a newer mcpproxy (schema {found}, this one knows {known}); run the newer version, or \
         move the file away to begin anew",
        path = path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// The version that it has.
        found: u32,
        /// The version that this program writes.
        known: u32,
    },
    /// SQLite refuses.
    #[error("cannot use {path}: {source}; if another program holds it open, end that one", path = path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The slots of calls in flight cannot be made.
    #[error("cannot make room for the calls in flight in {path}: {source}; free disk space or check permissions", path = path.display())]
    Slots {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The writer thread cannot be started.
    #[error("cannot start the thread that writes the activity database: {0}")]
    Thread(io::Error),
}

impl OpenError {
    /// The database is damaged: it should be moved aside.
    pub(crate) fn is_corrupt(&self) -> bool {
        matches!(self, OpenError::Database { source, .. } if is_corrupt(source))
    }
}

/// An open database and what was found when opening it.
pub(crate) struct Database {
    pub(crate) connection: Connection,
    /// The schema version before; 0 for a new file.
    pub(crate) found: u32,
    /// It runs with a write-ahead log, so readers never wait.
    pub(crate) write_ahead: bool,
    /// Which file it is, as [`sys::identity`] tells.
    pub(crate) identity: Option<(u64, u64)>,
}

/// Opens or makes the database and brings it to the current schema.
pub(crate) fn open(directory: &Path, busy: Duration, network: bool) -> Result<Database, OpenError> {
    let path = directory.join(FILE);
    // Made by us first, so that SQLite gives the files beside it the same mode.
    sys::open_private_file(&path).map_err(|source| OpenError::File { path: path.clone(), source })?;
    let failed = |source| OpenError::Database { path: path.clone(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&path, flags).map_err(failed)?;
    connection.busy_timeout(busy).map_err(failed)?;
    let version = schema::version(&connection).map_err(failed)?;
    if version > schema::VERSION {
        return Err(OpenError::Newer { path, found: version, known: schema::VERSION });
    }
    let write_ahead = configure(&connection, network).map_err(failed)?;
    let found = schema::migrate(&mut connection).map_err(failed)?;
    keep_vacuum(&connection).map_err(failed)?;
    Ok(Database { connection, found, write_ahead, identity: sys::identity(&path) })
}

/// Moves a damaged database and its log aside and answers where it lies now.
pub(crate) fn move_aside(directory: &Path) -> io::Result<PathBuf> {
    let seconds = crate::event::now_ms() / 1000;
    let names = (0..1000).map(|again| match again {
        0 => format!("{FILE}.corrupt-{seconds}"),
        _ => format!("{FILE}.corrupt-{seconds}-{again}"),
    });
    let aside = names.map(|name| directory.join(name)).find(|path| !path.exists());
    let aside = aside.ok_or(io::ErrorKind::AlreadyExists)?;
    std::fs::rename(directory.join(FILE), &aside)?;
    for suffix in ["-wal", "-shm", "-journal"] {
        let mut to = aside.clone().into_os_string();
        to.push(suffix);
        match std::fs::rename(directory.join(format!("{FILE}{suffix}")), to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// SQLite says that the file is damaged, or none of its own.
pub(crate) fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Sets the modes. The first two must come before the first table, and hold only for a new file.
fn configure(db: &Connection, network: bool) -> rusqlite::Result<bool> {
    db.pragma_update(None, "page_size", 8192)?;
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    // The shared memory of a write-ahead log does not work between the machines of a network file system.
    let (wanted, durability) = if network { ("TRUNCATE", "FULL") } else { ("WAL", "NORMAL") };
    let mode: String = db.query_row(&format!("PRAGMA journal_mode = {wanted}"), [], |row| row.get(0))?;
    db.pragma_update(None, "synchronous", durability)?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.query_row("PRAGMA journal_size_limit = 16777216", [], |_| Ok(()))?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(mode.eq_ignore_ascii_case("wal"))
}

/// A first start that was killed half-way can leave an empty file without the vacuum mode; with few rows this is cheap.
fn keep_vacuum(db: &Connection) -> rusqlite::Result<()> {
    let mode: u32 = db.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    let pages: u32 = db.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    if mode != 2 && pages < 1024 {
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        db.execute("VACUUM", [])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Duration = Duration::from_millis(100);

    fn pragma(db: &Connection, name: &str) -> String {
        let value =
            db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0));
        match value.unwrap() {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_database_has_the_modes_that_are_set_once() {
        let home = tempfile::tempdir().unwrap();
        let database = open(home.path(), BUSY, false).unwrap();
        let values = ["page_size", "auto_vacuum", "journal_mode", "synchronous", "user_version"]
            .map(|name| pragma(&database.connection, name));
        assert_eq!(values, ["8192", "2", "wal", "1", "1"]);
        assert!(database.write_ahead && database.found == 0);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_and_its_log_are_for_our_user_only() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let _database = open(home.path(), BUSY, false).unwrap();
        for name in [FILE, "mcpproxy.db-wal", "mcpproxy.db-shm"] {
            let mode = std::fs::metadata(home.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_network_file_system_gets_no_write_ahead_log_also_when_there_was_one() {
        let home = tempfile::tempdir().unwrap();
        assert!(open(home.path(), BUSY, false).unwrap().write_ahead);
        let database = open(home.path(), BUSY, true).unwrap();
        assert!(!database.write_ahead);
        assert_eq!(pragma(&database.connection, "journal_mode"), "truncate");
        assert_eq!(pragma(&database.connection, "synchronous"), "2");
    }

    #[test]
    fn a_newer_schema_is_refused_and_untouched() {
        let home = tempfile::tempdir().unwrap();
        open(home.path(), BUSY, false).unwrap().connection.pragma_update(None, "user_version", 99).unwrap();
        let error = open(home.path(), BUSY, false).err().unwrap();
        assert!(matches!(error, OpenError::Newer { found: 99, known: schema::VERSION, .. }));
        assert!(error.to_string().contains("newer mcpproxy") && !error.is_corrupt());
    }

    #[test]
    fn an_empty_file_without_vacuum_mode_gets_it() {
        let home = tempfile::tempdir().unwrap();
        let bare = Connection::open(home.path().join(FILE)).unwrap();
        bare.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        bare.execute("CREATE TABLE early (x)", []).unwrap();
        drop(bare);
        let database = open(home.path(), BUSY, false).unwrap();
        assert_eq!(pragma(&database.connection, "auto_vacuum"), "2");
    }

    #[test]
    fn a_damaged_file_is_seen_and_moved_aside_under_a_name_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            std::fs::write(home.path().join(FILE), "this is no database at all".repeat(500)).unwrap();
            assert!(open(home.path(), BUSY, false).err().unwrap().is_corrupt());
            let aside = move_aside(home.path()).unwrap();
            assert!(aside.exists() && !home.path().join(FILE).exists());
        }
        open(home.path(), BUSY, false).unwrap();
    }
}
