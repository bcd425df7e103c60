//! Between an [`Event`] and its row.

use rusqlite::types::Type;
use rusqlite::{Connection, Row, ToSql};

use crate::event::{Event, EventType, SavedFile, Source, Status, Tokens, UpstreamRan};
use crate::reason::Reason;

/// Every column of `events` but `seq`, in the order in which they are written and read.
pub(crate) const COLUMNS: [&str; 42] = [
    "id",
    "type",
    "time_ms",
    "source",
    "caller",
    "session",
    "client_name",
    "client_version",
    "request_id",
    "parent_id",
    "server",
    "tool",
    "variant",
    "intent_sensitivity",
    "intent_reason",
    "arguments",
    "arguments_truncated",
    "response",
    "response_truncated",
    "status",
    "reason",
    "message",
    "upstream_ran",
    "duration_us",
    "request_bytes",
    "response_bytes",
    "input_tokens",
    "output_tokens",
    "full_tokens",
    "tokens_estimated",
    "findings",
    "unscanned_bytes",
    "saved_to",
    "saved_root",
    "saved_bytes",
    "saved_sha256",
    "saved_format",
    "saved_dev",
    "saved_ino",
    "saved_size",
    "saved_ctime_ns",
    "detail",
];

/// Writes the row. A row whose id is there already is left as it is: `false`.
pub(crate) fn insert(db: &Connection, event: &Event) -> rusqlite::Result<bool> {
    let mut statement = db.prepare_cached(insert_sql())?;
    let tokens = event.tokens.as_ref();
    let saved = event.saved.as_ref();
    let values: [&dyn ToSql; COLUMNS.len()] = [
        &event.id,
        &event.kind.as_str(),
        &event.time_ms,
        &event.source.as_str(),
        &event.caller,
        &event.session,
        &event.client_name,
        &event.client_version,
        &event.request_id,
        &event.parent_id,
        &event.server,
        &event.tool,
        &event.variant,
        &event.intent_sensitivity,
        &event.intent_reason,
        &event.arguments,
        &event.arguments_truncated,
        &event.response,
        &event.response_truncated,
        &event.status.as_str(),
        &event.reason.map(Reason::as_str),
        &event.message,
        &event.upstream_ran.map(UpstreamRan::as_str),
        &event.duration_us.map(count_in),
        &event.request_bytes.map(count_in),
        &event.response_bytes.map(count_in),
        &tokens.map(|tokens| count_in(tokens.input)),
        &tokens.map(|tokens| count_in(tokens.output)),
        &tokens.map(|tokens| count_in(tokens.full)),
        &tokens.map(|tokens| tokens.estimated),
        &event.findings,
        &event.unscanned_bytes.map(count_in),
        &saved.map(|saved| &saved.path),
        &saved.map(|saved| &saved.root),
        &saved.map(|saved| count_in(saved.bytes)),
        &saved.map(|saved| &saved.sha256),
        &saved.map(|saved| &saved.format),
        &saved.map(|saved| saved.dev.cast_signed()),
        &saved.map(|saved| saved.ino.cast_signed()),
        &saved.map(|saved| count_in(saved.size)),
        &saved.map(|saved| saved.ctime_ns),
        &event.detail,
    ];
    Ok(statement.execute(values.as_slice())? > 0)
}

/// Reads a row selected as [`COLUMNS`].
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        id: row.get("id")?,
        kind: word(row, "type", EventType::parse)?,
        time_ms: row.get("time_ms")?,
        source: word(row, "source", Source::parse)?,
        caller: row.get("caller")?,
        session: row.get("session")?,
        client_name: row.get("client_name")?,
        client_version: row.get("client_version")?,
        request_id: row.get("request_id")?,
        parent_id: row.get("parent_id")?,
        server: row.get("server")?,
        tool: row.get("tool")?,
        variant: row.get("variant")?,
        intent_sensitivity: row.get("intent_sensitivity")?,
        intent_reason: row.get("intent_reason")?,
        arguments: row.get("arguments")?,
        arguments_truncated: row.get("arguments_truncated")?,
        response: row.get("response")?,
        response_truncated: row.get("response_truncated")?,
        status: word(row, "status", Status::parse)?,
        reason: some_word(row, "reason", Reason::parse)?,
        message: row.get("message")?,
        upstream_ran: some_word(row, "upstream_ran", UpstreamRan::parse)?,
        duration_us: count(row, "duration_us")?,
        request_bytes: count(row, "request_bytes")?,
        response_bytes: count(row, "response_bytes")?,
        tokens: tokens(row)?,
        findings: row.get("findings")?,
        unscanned_bytes: count(row, "unscanned_bytes")?,
        saved: saved(row)?,
        detail: row.get("detail")?,
    })
}

/// SQLite's integers have a sign; what does not fit is the largest that does.
pub(crate) fn count_in(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The way back. Nothing below zero is ever written as a count.
pub(crate) fn count_out(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn insert_sql() -> &'static str {
    static SQL: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let marks: Vec<String> = (1..=COLUMNS.len()).map(|place| format!("?{place}")).collect();
        format!("INSERT OR IGNORE INTO events ({}) VALUES ({})", COLUMNS.join(", "), marks.join(", "))
    });
    &SQL
}

fn tokens(row: &Row<'_>) -> rusqlite::Result<Option<Tokens>> {
    let Some(input) = count(row, "input_tokens")? else { return Ok(None) };
    Ok(Some(Tokens {
        input,
        output: count(row, "output_tokens")?.unwrap_or(0),
        full: count(row, "full_tokens")?.unwrap_or(0),
        estimated: row.get::<_, Option<bool>>("tokens_estimated")?.unwrap_or(false),
    }))
}

fn saved(row: &Row<'_>) -> rusqlite::Result<Option<SavedFile>> {
    let Some(path) = row.get::<_, Option<String>>("saved_to")? else { return Ok(None) };
    Ok(Some(SavedFile {
        root: row.get("saved_root")?,
        path,
        bytes: count(row, "saved_bytes")?.unwrap_or(0),
        sha256: row.get("saved_sha256")?,
        format: row.get("saved_format")?,
        dev: row.get::<_, i64>("saved_dev")?.cast_unsigned(),
        ino: row.get::<_, i64>("saved_ino")?.cast_unsigned(),
        size: count(row, "saved_size")?.unwrap_or(0),
        ctime_ns: row.get("saved_ctime_ns")?,
    }))
}

fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(count_out))
}

fn word<T>(row: &Row<'_>, column: &str, parse: fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| unknown_word(column, &text))
}

fn some_word<T>(row: &Row<'_>, column: &str, parse: fn(&str) -> Option<T>) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| parse(&text).ok_or_else(|| unknown_word(column, &text))).transpose()
}

fn unknown_word(column: &str, text: &str) -> rusqlite::Error {
    let message = format!("a row has the unknown {column} {text:?}: it was written by a newer mcpproxy");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// A row in which every column has a value of its own.
    fn full() -> Event {
        Event {
            caller: Some("local".into()),
            session: Some("s".into()),
            client_name: Some("claude".into()),
            client_version: Some("1".into()),
            request_id: Some("r".into()),
            parent_id: Some("p".into()),
            server: Some("fs".into()),
            tool: Some("read\n\u{1}".into()),
            variant: Some("read".into()),
            intent_sensitivity: Some("public".into()),
            intent_reason: Some("why".into()),
            arguments: Some("{\"a\":1}".into()),
            arguments_truncated: true,
            response: Some("body".into()),
            response_truncated: true,
            status: Status::Error,
            reason: Some(Reason::SaveSpace),
            message: Some("no room".into()),
            upstream_ran: Some(UpstreamRan::Yes),
            duration_us: Some(7),
            request_bytes: Some(8),
            response_bytes: Some(u64::MAX),
            tokens: Some(Tokens { input: 1, output: 2, full: 3, estimated: true }),
            findings: Some("[]".into()),
            unscanned_bytes: Some(9),
            saved: Some(SavedFile {
                root: "/r".into(),
                path: "/r/f".into(),
                bytes: 10,
                sha256: "ab".into(),
                format: "json".into(),
                dev: u64::MAX,
                ino: 1 << 63,
                size: 11,
                ctime_ns: -5,
            }),
            detail: Some("{}".into()),
            source: Source::Api,
            ..Event::new(EventType::ToolCall, 1_234)
        }
    }

    #[test]
    fn every_column_survives_the_way_there_and_back() {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db).unwrap();
        let mut event = full();
        assert!(insert(&db, &event).unwrap());
        assert!(!insert(&db, &event).unwrap(), "the same id is written once");
        let empty = Event::new(EventType::SystemStart, 1);
        assert!(insert(&db, &empty).unwrap());
        let sql = format!("SELECT {} FROM events ORDER BY seq", COLUMNS.join(", "));
        let read_back: Vec<Event> =
            db.prepare(&sql).unwrap().query_map([], read).unwrap().collect::<Result<_, _>>().unwrap();
        event.response_bytes = Some(i64::MAX.cast_unsigned());
        assert_eq!(read_back, [event, empty]);
    }

    #[test]
    fn the_table_has_exactly_the_columns_that_are_written() {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db).unwrap();
        let names: Vec<String> = db
            .prepare("SELECT name FROM pragma_table_info('events') WHERE name <> 'seq' ORDER BY cid")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(names, COLUMNS);
    }
}
