//! `activity list` and `activity show`: the record, read from the database itself, also while a gateway runs.

use clap::{Args, Subcommand};
use gateway::records::{Event, EventType, Filter, MAX_LIMIT, Reader, Status};
use serde_json::{Value, json};

use super::output;
use super::setup::{self, exit};
use super::table::{Cell, Column, Keep, Table, Tint};
use super::{Common, Form};

/// What to show of the record.
#[derive(Subcommand)]
pub enum What {
    /// The newest events
    List(List),
    /// All that is known of one event
    Show {
        /// Its id, or the request id of a call
        id: String,
    },
}

/// Filters of `activity list`.
#[derive(Args)]
pub struct List {
    /// Only this type, such as tool_call or policy_decision; several with commas
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only this server
    #[arg(short = 's', long)]
    server: Option<String>,
    /// Only this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only this status, such as success, error or blocked; several with commas
    #[arg(long)]
    status: Option<String>,
    /// Only this session
    #[arg(long)]
    session: Option<String>,
    /// Only this call
    #[arg(long)]
    request_id: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50)]
    limit: u32,
    /// Leave out so many of the newest
    #[arg(long, default_value_t = 0)]
    offset: u64,
}

/// Runs the command.
pub fn run(common: &Common, what: What) -> u8 {
    show(common, what).unwrap_or_else(|code| code)
}

fn show(common: &Common, what: What) -> Result<u8, u8> {
    let configured = setup::at_work(common, |_| {})?;
    let reader = Reader::open(&configured.config().data_dir).map_err(|e| fail(&e.to_string()))?;
    match what {
        What::List(list) => {
            let filter = filter(&list).map_err(|e| fail(&e))?;
            let events = reader.list(&filter).map_err(|e| fail(&e.to_string()))?;
            print_list(&events, &list, common.output);
        }
        What::Show { id } => {
            let Some(event) = reader.get(&id).map_err(|e| fail(&e.to_string()))? else {
                return Err(fail(&format!(
                    "No event has the id '{}'. `mcpproxy activity list` shows ids.",
                    output::shown(&id)
                )));
            };
            print_one(&event, common.output);
        }
    }
    Ok(exit::OK)
}

fn fail(text: &str) -> u8 {
    output::tell(&format!("Error: {text}"));
    exit::GENERAL
}

fn filter(list: &List) -> Result<Filter, String> {
    if list.limit == 0 || u64::from(list.limit) > u64::try_from(MAX_LIMIT).unwrap_or(u64::MAX) {
        return Err(format!("--limit must be between 1 and {MAX_LIMIT}"));
    }
    Ok(Filter {
        types: words(list.kind.as_deref(), "type", EventType::parse, EventType::ALL)?,
        statuses: words(list.status.as_deref(), "status", Status::parse, Status::ALL)?,
        server: list.server.clone(),
        tool: list.tool.clone(),
        session: list.session.clone(),
        request_id: list.request_id.clone(),
        limit: usize::try_from(list.limit).unwrap_or(usize::MAX),
        offset: usize::try_from(list.offset).unwrap_or(usize::MAX),
        ..Filter::default()
    })
}

fn words<T: Copy + std::fmt::Display>(
    given: Option<&str>,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    all: &[T],
) -> Result<Vec<T>, String> {
    let known = || all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    given
        .into_iter()
        .flat_map(|text| text.split(',').map(str::trim).filter(|word| !word.is_empty()))
        .map(|word| {
            parse(word).ok_or_else(|| format!("'{}' is no {name}; known: {}", output::shown(word), known()))
        })
        .collect()
}

const COLUMNS: [Column; 9] = [
    Column::new("ID", Keep::All),
    Column::new("SRC", Keep::All).spare(),
    Column::new("TYPE", Keep::All).spare(),
    Column::new("SERVER", Keep::Start),
    Column::new("TOOL", Keep::Start),
    Column::new("STATUS", Keep::All),
    Column::new("REASON", Keep::Start),
    Column::new("MS", Keep::All).right().spare(),
    Column::new("TIME (UTC)", Keep::All).spare(),
];

fn print_list(events: &[Event], list: &List, form: Form) {
    if form != Form::Table {
        let activities: Vec<Value> = events.iter().map(value).collect();
        let page = json!({"activities": activities, "limit": list.limit, "offset": list.offset});
        output::value(form, &page);
        return;
    }
    let mut table = Table::new(&COLUMNS);
    for event in events {
        let text = |field: &Option<String>| Cell::from(field.as_deref().unwrap_or("-"));
        let status = Cell::from(event.status.to_string()).tinted(match event.status {
            Status::Success => Tint::Good,
            Status::Error | Status::Abandoned => Tint::Bad,
            _ => Tint::Attention,
        });
        table.row(vec![
            event.id.as_str().into(),
            event.source.to_string().into(),
            event.kind.to_string().into(),
            text(&event.server),
            text(&event.tool),
            status,
            event.reason.map_or("-".into(), |reason| reason.to_string()).into(),
            event.duration_us.map_or("-".into(), milliseconds).into(),
            time(event.time_ms).into(),
        ]);
    }
    if table.is_empty() {
        return output::tell("No events match.");
    }
    table.print();
}

fn print_one(event: &Event, form: Form) {
    let value = value(event);
    if form != Form::Table {
        output::value(form, &json!({"activity": value}));
        return;
    }
    let Value::Object(members) = value else { return };
    for (name, value) in members.into_iter().filter(|(_, v)| !v.is_null()) {
        output::pair(&name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
}

/// A row as JSON, with the names under which other programs of this kind show the same things.
fn value(event: &Event) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert("timestamp".into(), json!(time(event.time_ms)));
        members.insert("server_name".into(), json!(event.server));
        members.insert("tool_name".into(), json!(event.tool));
        members.insert("duration_ms".into(), json!(event.duration_us.map(|us| us / 1000)));
        members.insert("error_message".into(), json!(event.message));
        members.insert("saved_to".into(), json!(event.saved.as_ref().map(|s| &s.path)));
    }
    value
}

fn milliseconds(us: u64) -> String {
    format!("{}.{}", us / 1000, us % 1000 / 100)
}

/// RFC 3339 in UTC, to the millisecond.
pub fn time(ms: i64) -> String {
    let days = ms.div_euclid(86_400_000);
    let of_day = ms.rem_euclid(86_400_000);
    // Days since 1970 to a date, by Howard Hinnant's civil_from_days (public domain).
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(time(1_796_036_649_000), "2026-11-30T11:04:09.000Z");
        assert_eq!(time(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn an_unknown_word_names_the_known_ones() {
        let error = words(Some("success, nope"), "status", Status::parse, Status::ALL).unwrap_err();
        assert!(error.contains("'nope'") && error.contains("blocked"), "{error}");
    }
}
