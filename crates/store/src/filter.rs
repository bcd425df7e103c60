//! Which rows a listing asks for, and how that becomes SQL.

use rusqlite::ToSql;

use crate::event::{EventType, Status};

/// Most rows of one listing.
pub const MAX_LIMIT: usize = 1000;
/// Furthest that a listing can skip; a cursor goes on from anywhere.
const MAX_OFFSET: usize = 1_000_000;

/// Which rows to list. An empty list or `None` means "any".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Of these types.
    pub types: Vec<EventType>,
    /// Of this server.
    pub server: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// With one of these endings.
    pub statuses: Vec<Status>,
    /// Of this session.
    pub session: Option<String>,
    /// Of this call.
    pub request_id: Option<String>,
    /// Begun at this time or later, milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Begun before this time, milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// At most so many rows; 1 to [`MAX_LIMIT`].
    pub limit: usize,
    /// Skip so many of the newest.
    pub offset: usize,
    /// Go on after the row with this id: the id of the last row of the page before.
    pub before: Option<String>,
}

impl Default for Filter {
    fn default() -> Self {
        Filter {
            types: Vec::new(),
            server: None,
            tool: None,
            statuses: Vec::new(),
            session: None,
            request_id: None,
            since_ms: None,
            until_ms: None,
            limit: 50,
            offset: 0,
            before: None,
        }
    }
}

/// A place in the order of the rows.
pub(crate) type Place = (i64, i64);

/// One `WHERE` and its values.
pub(crate) struct Condition<'a> {
    pub(crate) sql: String,
    pub(crate) values: Vec<Box<dyn ToSql + 'a>>,
}

impl Filter {
    pub(crate) fn page(&self) -> (usize, usize) {
        (self.limit.clamp(1, MAX_LIMIT), self.offset.min(MAX_OFFSET))
    }

    /// The conditions whose rows, put together, are the answer; they do not overlap.
    ///
    /// Each can be read in order from one index. Several types or statuses alone would need a sort of everything that
    /// has them, so each gets a condition of its own; beside a narrower filter they are only looked at.
    pub(crate) fn conditions(&self, before: Option<Place>) -> Vec<Condition<'_>> {
        let narrow =
            [&self.server, &self.tool, &self.session, &self.request_id].iter().any(|text| text.is_some());
        let statuses = distinct(&self.statuses);
        let types = distinct(&self.types);
        if !narrow && statuses.len() > 1 {
            return statuses.iter().map(|status| self.condition(&types, &[*status], before)).collect();
        }
        if !narrow && statuses.is_empty() && types.len() > 1 {
            return types.iter().map(|kind| self.condition(&[*kind], &[], before)).collect();
        }
        vec![self.condition(&types, &statuses, before)]
    }

    fn condition(&self, types: &[EventType], statuses: &[Status], before: Option<Place>) -> Condition<'_> {
        let mut parts: Vec<String> = Vec::new();
        let mut values: Vec<Box<dyn ToSql + '_>> = Vec::new();
        let texts = [
            ("server", &self.server),
            ("tool", &self.tool),
            ("session", &self.session),
            ("request_id", &self.request_id),
        ];
        for (column, text) in texts {
            if let Some(text) = text {
                parts.push(format!("{column} = ?"));
                values.push(Box::new(text));
            }
        }
        let words = [
            ("type", types.iter().map(|kind| kind.as_str()).collect::<Vec<_>>()),
            ("status", statuses.iter().map(|status| status.as_str()).collect()),
        ];
        for (column, words) in words {
            match words.as_slice() {
                [] => continue,
                [_] => parts.push(format!("{column} = ?")),
                // The plus keeps SQLite from choosing this index, which does not give the order.
                many => parts.push(format!("+{column} IN ({})", vec!["?"; many.len()].join(", "))),
            }
            values.extend(words.into_iter().map(|word| Box::new(word) as Box<dyn ToSql>));
        }
        if let Some(since) = self.since_ms {
            parts.push("time_ms >= ?".into());
            values.push(Box::new(since));
        }
        if let Some(until) = self.until_ms {
            parts.push("time_ms < ?".into());
            values.push(Box::new(until));
        }
        if let Some((time_ms, seq)) = before {
            parts.push("(time_ms, seq) < (?, ?)".into());
            values.push(Box::new(time_ms));
            values.push(Box::new(seq));
        }
        let sql = if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) };
        Condition { sql, values }
    }
}

fn distinct<T: Copy + Ord>(words: &[T]) -> Vec<T> {
    let mut words = words.to_vec();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every filter that is a page of its own in daily use.
    fn filters() -> Vec<Filter> {
        let some = |text: &str| Some(text.to_owned());
        vec![
            Filter::default(),
            Filter { server: some("s"), ..Filter::default() },
            Filter { tool: some("t"), since_ms: Some(1), ..Filter::default() },
            Filter { session: some("x"), until_ms: Some(9), ..Filter::default() },
            Filter { request_id: some("r"), ..Filter::default() },
            Filter { statuses: vec![Status::Error], ..Filter::default() },
            Filter { statuses: vec![Status::Error, Status::Blocked], ..Filter::default() },
            Filter { types: vec![EventType::ToolCall, EventType::SystemStart], ..Filter::default() },
            Filter { server: some("s"), statuses: vec![Status::Error, Status::Blocked], ..Filter::default() },
            Filter { server: some("s"), types: vec![EventType::ToolCall], ..Filter::default() },
            Filter { types: vec![EventType::ToolCall], statuses: vec![Status::Success], ..Filter::default() },
        ]
    }

    #[test]
    fn every_page_is_read_from_an_index_in_order_without_a_sort() {
        let mut db = rusqlite::Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut db).unwrap();
        for (filter, before) in
            filters().into_iter().flat_map(|filter| [(filter.clone(), None), (filter, Some((5, 5)))])
        {
            for condition in filter.conditions(before) {
                let sql = format!(
                    "EXPLAIN QUERY PLAN SELECT time_ms, seq FROM events{} ORDER BY time_ms DESC, seq DESC LIMIT 50",
                    condition.sql
                );
                let mut statement = db.prepare(&sql).unwrap();
                let values = rusqlite::params_from_iter(condition.values);
                let plan: Vec<String> =
                    statement.query_map(values, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
                let plan = plan.join("; ");
                assert!(plan.contains("INDEX events_by_") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
            }
        }
    }

    #[test]
    fn limits_and_offsets_are_bounded() {
        let filter = Filter { limit: 0, offset: usize::MAX, ..Filter::default() };
        assert_eq!(filter.page(), (1, MAX_OFFSET));
        assert_eq!(Filter { limit: usize::MAX, ..Filter::default() }.page().0, MAX_LIMIT);
    }
}
