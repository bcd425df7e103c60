//! The table of saved files: what lies where because of a save. Retention does not prune it.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use crate::event::{Event, SavedFile};
use crate::filter::MAX_LIMIT;
use crate::row::{count_in, count_out};

/// One saved file and the call that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavedEntry {
    /// The file.
    pub file: SavedFile,
    /// Id of the row of the call.
    pub event_id: String,
    /// Id of the call.
    pub request_id: Option<String>,
    /// When the call began, milliseconds since 1970.
    pub saved_ms: i64,
    /// Server of the call, while its row is kept.
    pub server: Option<String>,
    /// Tool of the call, while its row is kept.
    pub tool: Option<String>,
}

/// Which saved files to list. `None` means "any".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedFilter {
    /// Beneath this root, as it was configured at the save.
    pub root: Option<String>,
    /// Saved before this time, milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// At most so many; 1 to [`MAX_LIMIT`].
    pub limit: usize,
    /// Skip so many of the newest.
    pub offset: usize,
}

impl Default for SavedFilter {
    fn default() -> Self {
        SavedFilter { root: None, until_ms: None, limit: 50, offset: 0 }
    }
}

const COLUMNS: &str =
    "root, path, bytes, sha256, format, dev, ino, size, ctime_ns, event_id, request_id, saved_ms";
const FROM: &str = "SELECT saved_files.*, events.server AS server, events.tool AS tool
    FROM saved_files LEFT JOIN events ON events.id = saved_files.event_id";
const FITS: &str = "(?1 IS NULL OR saved_files.root = ?1) AND (?2 IS NULL OR saved_ms < ?2)";

/// Notes the file of this row. Answers the size of an older file that stood at the same path.
pub(crate) fn note(db: &Connection, event: &Event, file: &SavedFile) -> rusqlite::Result<Option<u64>> {
    let mut forget =
        db.prepare_cached("DELETE FROM saved_files WHERE root = ?1 AND path = ?2 RETURNING size")?;
    let older: Option<i64> = forget.query_row([&file.root, &file.path], |row| row.get(0)).optional()?;
    let sql = format!(
        "INSERT INTO saved_files ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
    );
    db.prepare_cached(&sql)?.execute(params![
        file.root,
        file.path,
        count_in(file.bytes),
        file.sha256,
        file.format,
        file.dev.cast_signed(),
        file.ino.cast_signed(),
        count_in(file.size),
        file.ctime_ns,
        event.id,
        event.request_id,
        event.time_ms,
    ])?;
    Ok(older.map(count_out))
}

/// Bytes saved beneath each root.
pub(crate) fn totals(db: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = db.prepare("SELECT root, sum(size) FROM saved_files GROUP BY root")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1).map(count_out)?)))?;
    rows.collect()
}

/// Paths beneath a root after `after`, in their order.
pub(crate) fn paths(db: &Connection, root: &str, after: &str, limit: u32) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT path FROM saved_files WHERE root = ?1 AND path > ?2 ORDER BY path LIMIT ?3";
    let mut statement = db.prepare_cached(sql)?;
    statement.query_map(params![root, after, limit], |row| row.get(0))?.collect()
}

/// Strikes these files from the table. Answers their bytes.
pub(crate) fn strike(db: &mut Connection, root: &str, gone: &[String]) -> rusqlite::Result<u64> {
    let change = db.transaction()?;
    let mut bytes = 0u64;
    for path in gone {
        let sql = "DELETE FROM saved_files WHERE root = ?1 AND path = ?2 RETURNING size";
        let size = change.prepare_cached(sql)?.query_row([root, path], |row| row.get(0)).optional()?;
        bytes = bytes.saturating_add(size.map_or(0, count_out));
    }
    change.commit()?;
    Ok(bytes)
}

/// Nothing stands at this path any more. Whatever cannot be looked at counts as there.
pub(crate) fn is_gone(path: &str) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let looked = std::fs::symlink_metadata(Path::new(path));
    looked.is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// Strikes the file of this event from the table, if it still stands there. Answers its bytes.
pub(crate) fn forget(db: &Connection, event_id: &str) -> rusqlite::Result<Option<(String, u64)>> {
    let sql = "DELETE FROM saved_files WHERE event_id = ?1 RETURNING root, size";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1).map(count_out)?));
    db.prepare_cached(sql)?.query_row([event_id], read).optional()
}

/// Those that fit, newest first.
pub(crate) fn list(db: &Connection, filter: &SavedFilter) -> rusqlite::Result<Vec<SavedEntry>> {
    let sql = format!("{FROM} WHERE {FITS} ORDER BY saved_ms DESC, path LIMIT ?3 OFFSET ?4");
    let limit = i64::try_from(filter.limit.clamp(1, MAX_LIMIT)).unwrap_or(1);
    let offset = i64::try_from(filter.offset).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_map(params![filter.root, filter.until_ms, limit, offset], read)?.collect()
}

/// How many fit; limit and offset do not matter.
pub(crate) fn count(db: &Connection, filter: &SavedFilter) -> rusqlite::Result<u64> {
    let sql = format!("SELECT count(*) FROM saved_files WHERE {FITS}");
    db.prepare_cached(&sql)?.query_row(params![filter.root, filter.until_ms], |row| row.get(0)).map(count_out)
}

/// The one with this row id, request id or path; the newest where a path was saved beneath several roots.
pub(crate) fn get(db: &Connection, id: &str) -> rusqlite::Result<Option<SavedEntry>> {
    let sql = format!(
        "{FROM} WHERE event_id = ?1 OR saved_files.request_id = ?1 OR path = ?1
         ORDER BY event_id = ?1 DESC, path = ?1 DESC, saved_ms DESC LIMIT 1"
    );
    db.prepare_cached(&sql)?.query_row([id], read).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<SavedEntry> {
    Ok(SavedEntry {
        file: SavedFile {
            root: row.get("root")?,
            path: row.get("path")?,
            bytes: row.get("bytes").map(count_out)?,
            sha256: row.get("sha256")?,
            format: row.get("format")?,
            dev: row.get::<_, i64>("dev")?.cast_unsigned(),
            ino: row.get::<_, i64>("ino")?.cast_unsigned(),
            size: row.get("size").map(count_out)?,
            ctime_ns: row.get("ctime_ns")?,
        },
        event_id: row.get("event_id")?,
        request_id: row.get("request_id")?,
        saved_ms: row.get("saved_ms")?,
        server: row.get("server")?,
        tool: row.get("tool")?,
    })
}
