//! The tables, and how an older database becomes a newer one.

use rusqlite::{Connection, TransactionBehavior};

/// The schema that this program writes.
pub(crate) const VERSION: u32 = 1;

/// Marks the file as ours, for `file(1)` and for people.
const APPLICATION_ID: i32 = 0x6d63_7078;

/// Step `i` takes a database from version `i` to version `i + 1`. A step that was released is never edited.
const MIGRATIONS: [&str; VERSION as usize] = [V1];

const V1: &str = "
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    time_ms INTEGER NOT NULL,
    source TEXT NOT NULL,
    caller TEXT,
    session TEXT,
    client_name TEXT,
    client_version TEXT,
    request_id TEXT,
    parent_id TEXT,
    server TEXT,
    tool TEXT,
    variant TEXT,
    intent_sensitivity TEXT,
    intent_reason TEXT,
    arguments TEXT,
    arguments_truncated INTEGER NOT NULL,
    response TEXT,
    response_truncated INTEGER NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    message TEXT,
    upstream_ran TEXT,
    duration_us INTEGER,
    request_bytes INTEGER,
    response_bytes INTEGER,
    input_tokens INTEGER,
    output_tokens INTEGER,
    full_tokens INTEGER,
    tokens_estimated INTEGER,
    findings TEXT,
    unscanned_bytes INTEGER,
    saved_to TEXT,
    saved_root TEXT,
    saved_bytes INTEGER,
    saved_sha256 TEXT,
    saved_format TEXT,
    saved_dev INTEGER,
    saved_ino INTEGER,
    saved_size INTEGER,
    saved_ctime_ns INTEGER,
    detail TEXT
);
CREATE INDEX events_by_time ON events (time_ms);
CREATE INDEX events_by_type ON events (type, time_ms);
CREATE INDEX events_by_status ON events (status, time_ms);
CREATE INDEX events_by_server ON events (server, time_ms) WHERE server IS NOT NULL;
CREATE INDEX events_by_tool ON events (tool, time_ms) WHERE tool IS NOT NULL;
CREATE INDEX events_by_session ON events (session, time_ms) WHERE session IS NOT NULL;
CREATE INDEX events_by_request ON events (request_id, time_ms) WHERE request_id IS NOT NULL;
CREATE TABLE saved_files (
    root TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    format TEXT NOT NULL,
    dev INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    size INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    request_id TEXT,
    saved_ms INTEGER NOT NULL,
    PRIMARY KEY (root, path)
) WITHOUT ROWID;
CREATE INDEX saved_files_by_time ON saved_files (saved_ms);
CREATE INDEX saved_files_by_size ON saved_files (root, size);
CREATE TABLE servers (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    latest_fingerprint TEXT NOT NULL,
    first_seen_ms INTEGER NOT NULL,
    latest_seen_ms INTEGER NOT NULL,
    seen_at_first_start INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
";

/// The version of this database; 0 is an empty file.
pub(crate) fn version(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Takes the database to [`VERSION`], each step in a transaction of its own. Answers the version it had.
pub(crate) fn migrate(db: &mut Connection) -> rusqlite::Result<u32> {
    let found = version(db)?;
    for (step, sql) in (0u32..).zip(MIGRATIONS).skip_while(|(step, _)| *step < found) {
        let change = db.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        for statement in sql.split_inclusive(';').filter(|statement| !statement.trim().is_empty()) {
            change.execute(statement, [])?;
        }
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", step + 1)?;
        change.commit()?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_database_gets_every_table_once() {
        let mut db = Connection::open_in_memory().unwrap();
        assert_eq!(migrate(&mut db).unwrap(), 0);
        assert_eq!(version(&db).unwrap(), VERSION);
        assert_eq!(migrate(&mut db).unwrap(), VERSION);
        let tables: u32 = db
            .query_row("SELECT count(*) FROM sqlite_master WHERE type = 'table'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 4);
    }
}
