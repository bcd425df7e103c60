//! Which servers were seen when, and with which launch fingerprint: the baseline of every later decision about trust.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The fact that says that a start has named servers.
const FIRST_START: &str = "first_start_with_servers_ms";

/// What is known of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerEntry {
    /// Its name.
    pub name: String,
    /// SHA-256 of the launch fingerprint at first sight, hex.
    pub fingerprint: String,
    /// SHA-256 of the launch fingerprint as seen last, hex.
    pub latest_fingerprint: String,
    /// Milliseconds since 1970.
    pub first_seen_ms: i64,
    /// Milliseconds since 1970.
    pub latest_seen_ms: i64,
    /// It was in the file at the first start at which the file named a server.
    pub seen_at_first_start: bool,
}

/// What noting a server told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerSeen {
    /// It was in the file at the first start at which the file named a server.
    pub first_start: bool,
    /// It was never seen before.
    pub new: bool,
    /// Its launch fingerprint differs from the one at first sight.
    pub changed: bool,
    /// When it was seen first, milliseconds since 1970.
    pub first_seen_ms: i64,
}

/// No start has named a server yet.
pub(crate) fn before_first_start(db: &Connection) -> rusqlite::Result<bool> {
    let fact =
        db.query_row("SELECT value FROM facts WHERE name = ?1", [FIRST_START], |_| Ok(())).optional()?;
    Ok(fact.is_none())
}

/// Notes servers and their launch fingerprints, all or none.
pub(crate) fn note(
    db: &mut Connection,
    servers: &[(String, String)],
    now_ms: i64,
    first_start: bool,
) -> rusqlite::Result<Vec<ServerSeen>> {
    let change = db.transaction()?;
    if first_start && !servers.is_empty() {
        let sql = "INSERT OR IGNORE INTO facts (name, value) VALUES (?1, ?2)";
        change.execute(sql, params![FIRST_START, now_ms.to_string()])?;
    }
    let mut seen = Vec::with_capacity(servers.len());
    for (name, fingerprint) in servers {
        seen.push(note_one(&change, name, &digest(fingerprint), now_ms, first_start)?);
    }
    change.commit()?;
    Ok(seen)
}

/// Every server that was ever seen, by name.
pub(crate) fn list(db: &Connection) -> rusqlite::Result<Vec<ServerEntry>> {
    db.prepare("SELECT * FROM servers ORDER BY name")?.query_map([], read)?.collect()
}

fn note_one(
    db: &Connection,
    name: &str,
    hash: &str,
    now_ms: i64,
    first_start: bool,
) -> rusqlite::Result<ServerSeen> {
    let known = db.query_row("SELECT * FROM servers WHERE name = ?1", [name], read).optional()?;
    let Some(known) = known else {
        let sql = "INSERT INTO servers (name, fingerprint, latest_fingerprint, first_seen_ms, latest_seen_ms,
                   seen_at_first_start) VALUES (?1, ?2, ?2, ?3, ?3, ?4)";
        db.execute(sql, params![name, hash, now_ms, first_start])?;
        return Ok(ServerSeen { first_start, new: true, changed: false, first_seen_ms: now_ms });
    };
    let sql = "UPDATE servers SET latest_fingerprint = ?2, latest_seen_ms = ?3 WHERE name = ?1";
    db.execute(sql, params![name, hash, now_ms])?;
    Ok(ServerSeen {
        first_start: known.seen_at_first_start,
        new: false,
        changed: known.fingerprint != hash,
        first_seen_ms: known.first_seen_ms,
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<ServerEntry> {
    Ok(ServerEntry {
        name: row.get("name")?,
        fingerprint: row.get("fingerprint")?,
        latest_fingerprint: row.get("latest_fingerprint")?,
        first_seen_ms: row.get("first_seen_ms")?,
        latest_seen_ms: row.get("latest_seen_ms")?,
        seen_at_first_start: row.get("seen_at_first_start")?,
    })
}

/// Only the hash is kept: a fingerprint can hold values of the environment.
fn digest(fingerprint: &str) -> String {
    use std::fmt::Write;
    Sha256::digest(fingerprint.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[(&str, &str)]) -> Vec<(String, String)> {
        names.iter().map(|(name, print)| ((*name).to_owned(), (*print).to_owned())).collect()
    }

    #[test]
    fn only_the_servers_of_the_first_start_are_the_baseline_and_changes_are_seen() {
        let mut db = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut db).unwrap();
        assert!(before_first_start(&db).unwrap());
        note(&mut db, &[], 1, true).unwrap();
        assert!(before_first_start(&db).unwrap(), "a start without servers is not the first one");

        let seen = note(&mut db, &entries(&[("a", "x"), ("b", "y")]), 2, true).unwrap();
        assert!(seen.iter().all(|seen| seen.first_start && seen.new && !seen.changed));
        assert!(!before_first_start(&db).unwrap());

        let seen = note(&mut db, &entries(&[("a", "changed"), ("c", "z")]), 3, false).unwrap();
        assert_eq!(seen[0], ServerSeen { first_start: true, new: false, changed: true, first_seen_ms: 2 });
        assert_eq!(seen[1], ServerSeen { first_start: false, new: true, changed: false, first_seen_ms: 3 });
        let all = list(&db).unwrap();
        assert_eq!(all.iter().map(|server| &*server.name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(all[0].fingerprint, digest("x"));
        assert_eq!(all[0].latest_fingerprint, digest("changed"));
        assert!(!format!("{all:?}").contains("changed\""), "the fingerprint itself is not kept");
    }
}
