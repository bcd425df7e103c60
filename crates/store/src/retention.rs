//! How long rows are kept: by age, by count, by size, in steps so small that nobody waits for them.

use rusqlite::{Connection, params};

/// Rows that one step removes.
const STEP_ROWS: u64 = 500;
/// Free pages that one step gives back to the file system.
const STEP_PAGES: u64 = 256;
/// Free pages that stay in the file for the rows that come next.
const SPARE_PAGES: u64 = 256;

/// How long rows are kept. 0 means "no limit". What is known of saved files is not pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Age, days.
    pub days: u32,
    /// Number of rows.
    pub max_records: u64,
    /// Size of the database, bytes, free pages not counted.
    pub max_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { days: 90, max_records: 100_000, max_bytes: 256 << 20 }
    }
}

/// What a sweep removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Rows deleted.
    pub rows: u64,
    /// Bytes given back to the file system.
    pub bytes: u64,
}

/// One step; `None` when there is nothing left to do. `stored` is the number of rows in the table.
pub(crate) fn step(
    db: &Connection,
    keep: Retention,
    stored: u64,
    now_ms: i64,
) -> rusqlite::Result<Option<Swept>> {
    let mut rows = 0;
    if keep.days > 0 {
        rows = delete_older(db, now_ms.saturating_sub(i64::from(keep.days) * 86_400_000))?;
    }
    if rows == 0 && keep.max_records > 0 && stored > keep.max_records {
        rows = delete_oldest(db, (stored - keep.max_records).min(STEP_ROWS))?;
    }
    if rows == 0 && keep.max_bytes > 0 && used_bytes(db)? > keep.max_bytes {
        rows = delete_oldest(db, STEP_ROWS)?;
    }
    if rows > 0 {
        return Ok(Some(Swept { rows, bytes: 0 }));
    }
    let bytes = give_back(db)?;
    Ok((bytes > 0).then_some(Swept { rows: 0, bytes }))
}

fn delete_older(db: &Connection, cutoff_ms: i64) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM events WHERE seq IN
               (SELECT seq FROM events WHERE time_ms < ?1 ORDER BY time_ms, seq LIMIT ?2)";
    let deleted = db.prepare_cached(sql)?.execute(params![cutoff_ms, STEP_ROWS.cast_signed()])?;
    Ok(deleted as u64)
}

fn delete_oldest(db: &Connection, rows: u64) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY time_ms, seq LIMIT ?1)";
    let deleted = db.prepare_cached(sql)?.execute([rows.cast_signed()])?;
    Ok(deleted as u64)
}

fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let used = number(db, "page_count")?.saturating_sub(number(db, "freelist_count")?);
    Ok(used * number(db, "page_size")?)
}

fn give_back(db: &Connection) -> rusqlite::Result<u64> {
    let free = number(db, "freelist_count")?;
    if free <= SPARE_PAGES {
        return Ok(0);
    }
    let before = number(db, "page_count")?;
    // The pragma frees one page each time it is stepped.
    let mut vacuum =
        db.prepare(&format!("PRAGMA incremental_vacuum({})", STEP_PAGES.min(free - SPARE_PAGES)))?;
    let mut steps = vacuum.query([])?;
    while steps.next()?.is_some() {}
    let after = number(db, "page_count")?;
    Ok(before.saturating_sub(after) * number(db, "page_size")?)
}

fn number(db: &Connection, pragma: &str) -> rusqlite::Result<u64> {
    db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0)).map(crate::row::count_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventType};
    use crate::{row, schema};

    const DAY: i64 = 86_400_000;

    fn filled(rows: i64, body: usize) -> (tempfile::TempDir, Connection) {
        let home = tempfile::tempdir().unwrap();
        let mut db = Connection::open(home.path().join("db")).unwrap();
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL").unwrap();
        schema::migrate(&mut db).unwrap();
        let fill = db.transaction().unwrap();
        for day in 0..rows {
            let mut event = Event::new(EventType::ToolCall, day * DAY);
            event.response = Some("x".repeat(body));
            row::insert(&fill, &event).unwrap();
        }
        fill.commit().unwrap();
        (home, db)
    }

    fn sweep(db: &Connection, keep: Retention, now_ms: i64) -> (u64, u64) {
        let stored = || db.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).unwrap();
        let mut bytes = 0;
        for _ in 0..10_000 {
            match step(db, keep, stored().cast_unsigned(), now_ms).unwrap() {
                Some(swept) => bytes += swept.bytes,
                None => return (stored().cast_unsigned(), bytes),
            }
        }
        panic!("the sweep does not end");
    }

    const NONE: Retention = Retention { days: 0, max_records: 0, max_bytes: 0 };

    #[test]
    fn zero_means_no_limit() {
        let (_home, db) = filled(2000, 10);
        assert_eq!(sweep(&db, NONE, 1_000_000 * DAY).0, 2000);
    }

    #[test]
    fn age_and_count_remove_the_oldest_and_only_those() {
        let (_home, db) = filled(2000, 10);
        assert_eq!(sweep(&db, Retention { days: 90, ..NONE }, 2000 * DAY).0, 90);
        let (_home, db) = filled(2000, 10);
        assert_eq!(sweep(&db, Retention { max_records: 700, ..NONE }, 0).0, 700);
        let oldest: i64 = db.query_row("SELECT min(time_ms) FROM events", [], |row| row.get(0)).unwrap();
        assert_eq!(oldest, 1300 * DAY);
    }

    #[test]
    fn size_removes_rows_and_gives_the_room_back() {
        let (home, db) = filled(4000, 4000);
        let before = std::fs::metadata(home.path().join("db")).unwrap().len();
        assert!(before > 16_000_000);
        let (left, bytes) = sweep(&db, Retention { max_bytes: 6_000_000, ..NONE }, 0);
        assert!(left > 0 && left < 2000, "{left} rows are left");
        assert!(bytes > 4_000_000);
        assert!(used_bytes(&db).unwrap() <= 6_000_000);
        assert!(std::fs::metadata(home.path().join("db")).unwrap().len() < before / 2);
    }

    #[test]
    fn a_limit_that_no_row_can_meet_ends_with_an_empty_table() {
        let (_home, db) = filled(10, 10);
        assert_eq!(sweep(&db, Retention { max_bytes: 1, ..NONE }, 0).0, 0);
    }
}
