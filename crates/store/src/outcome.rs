//! The end of a call, short enough to stand in its slot until its row is committed: a process that is killed right after it
//! replied still leaves a true record.

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventType, SavedFile, Status, UpstreamRan, new_id};
use crate::reason::Reason;

/// What is kept of the closing row. Arguments and reply are not: they are too long.
#[derive(Serialize, Deserialize)]
struct Outcome {
    #[serde(rename = "s")]
    status: String,
    #[serde(rename = "r")]
    reason: Option<String>,
    #[serde(rename = "m")]
    message: Option<String>,
    #[serde(rename = "u")]
    ran: Option<String>,
    #[serde(rename = "d")]
    duration_us: Option<u64>,
    #[serde(rename = "q")]
    request_bytes: Option<u64>,
    #[serde(rename = "p")]
    response_bytes: Option<u64>,
    #[serde(rename = "f")]
    file: Option<File>,
    /// Decisions of ours about the call, each of which has a row of its own.
    #[serde(rename = "z", default)]
    decisions: Vec<Decision>,
}

#[derive(Serialize, Deserialize)]
struct Decision {
    #[serde(rename = "s")]
    status: String,
    #[serde(rename = "r")]
    reason: Option<String>,
    /// Left out if it is that of the call.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Decisions of one call that a slot holds.
const MAX_DECISIONS: usize = 4;

#[derive(Serialize, Deserialize)]
struct File {
    root: String,
    path: String,
    bytes: u64,
    sha256: String,
    format: String,
    dev: u64,
    ino: u64,
    size: u64,
    ctime_ns: i64,
}

/// The end of a call as bytes, if it fits into `room` of them. A message that is too long is left out.
pub(crate) fn encode(kind: EventType, rows: &[Event], room: usize) -> Option<Vec<u8>> {
    let row = rows.iter().find(|row| row.kind == kind)?;
    let mut outcome = Outcome {
        status: row.status.as_str().to_owned(),
        reason: row.reason.map(|reason| reason.as_str().to_owned()),
        message: row.message.clone(),
        ran: row.upstream_ran.map(|ran| ran.as_str().to_owned()),
        duration_us: row.duration_us,
        request_bytes: row.request_bytes,
        response_bytes: row.response_bytes,
        file: row.saved.as_ref().map(File::of),
        decisions: decisions(row, rows),
    };
    let bytes = serde_json::to_vec(&outcome).ok()?;
    if bytes.len() <= room {
        return Some(bytes);
    }
    outcome.message = None;
    outcome.decisions.iter_mut().for_each(|decision| decision.message = None);
    serde_json::to_vec(&outcome).ok().filter(|bytes| bytes.len() <= room)
}

fn decisions(row: &Event, rows: &[Event]) -> Vec<Decision> {
    let decided = rows.iter().filter(|row| row.kind == EventType::PolicyDecision).take(MAX_DECISIONS);
    decided
        .map(|decision| Decision {
            status: decision.status.as_str().to_owned(),
            reason: decision.reason.map(|reason| reason.as_str().to_owned()),
            message: decision.message.clone().filter(|_| decision.message != row.message),
        })
        .collect()
}

/// The rows of a call that ended so, `begun` being what its slot says of its beginning.
pub(crate) fn rows(begun: &Event, bytes: &[u8]) -> Option<Vec<Event>> {
    let outcome: Outcome = serde_json::from_slice(bytes).ok()?;
    let row = Event {
        status: Status::parse(&outcome.status)?,
        reason: outcome.reason.as_deref().and_then(Reason::parse),
        message: outcome.message,
        upstream_ran: outcome.ran.as_deref().and_then(UpstreamRan::parse),
        duration_us: outcome.duration_us,
        request_bytes: outcome.request_bytes,
        response_bytes: outcome.response_bytes,
        saved: outcome.file.map(File::into_saved),
        // Both were there, and are lost.
        arguments_truncated: true,
        response_truncated: true,
        ..begun.clone()
    };
    let decided = outcome.decisions.into_iter().filter_map(|decision| {
        Some(Event {
            id: new_id(),
            kind: EventType::PolicyDecision,
            status: Status::parse(&decision.status)?,
            reason: decision.reason.as_deref().and_then(Reason::parse),
            message: decision.message.or_else(|| row.message.clone()),
            upstream_ran: None,
            duration_us: None,
            request_bytes: None,
            response_bytes: None,
            saved: None,
            arguments_truncated: false,
            response_truncated: false,
            ..row.clone()
        })
    });
    let decided: Vec<Event> = decided.collect();
    Some(std::iter::once(row).chain(decided).collect())
}

impl File {
    fn of(saved: &SavedFile) -> Self {
        Self {
            root: saved.root.clone(),
            path: saved.path.clone(),
            bytes: saved.bytes,
            sha256: saved.sha256.clone(),
            format: saved.format.clone(),
            dev: saved.dev,
            ino: saved.ino,
            size: saved.size,
            ctime_ns: saved.ctime_ns,
        }
    }

    fn into_saved(self) -> SavedFile {
        let Self { root, path, bytes, sha256, format, dev, ino, size, ctime_ns } = self;
        SavedFile { root, path, bytes, sha256, format, dev, ino, size, ctime_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> Vec<Event> {
        let mut row = Event::new(EventType::ToolCall, 5);
        row.status = Status::Blocked;
        row.reason = Some(Reason::SaveExists);
        row.message = Some("m".repeat(400));
        row.saved = Some(SavedFile {
            root: "/r".into(),
            path: "/r/x".into(),
            bytes: 3,
            sha256: "ab".repeat(32),
            format: "text".into(),
            dev: 1,
            ino: 2,
            size: 3,
            ctime_ns: -4,
        });
        let mut warned = Event::new(EventType::PolicyDecision, 5);
        warned.status = Status::Warning;
        warned.reason = Some(Reason::OutputSchema);
        warned.message = Some("w".repeat(40));
        let mut decided = Event::new(EventType::PolicyDecision, 5);
        (decided.status, decided.reason, decided.message) = (row.status, row.reason, row.message.clone());
        vec![row, warned, decided]
    }

    #[test]
    fn an_end_survives_the_slot_with_its_file_and_its_decisions() {
        let rows_before = ended();
        let begun = Event::new(EventType::ToolCall, 5);
        let bytes = encode(EventType::ToolCall, &rows_before, 1000).unwrap();
        let after = rows(&begun, &bytes).unwrap();
        assert_eq!(after.len(), 3);
        assert_eq!(after[0].id, begun.id);
        assert_eq!((after[0].status, after[0].reason), (Status::Blocked, Some(Reason::SaveExists)));
        assert_eq!(after[0].saved, rows_before[0].saved);
        for (read, written) in after.iter().zip(&rows_before) {
            assert_eq!((read.kind, read.status, read.reason), (written.kind, written.status, written.reason));
            assert_eq!(read.message, written.message);
        }
    }

    #[test]
    fn a_message_gives_way_before_the_rest_does() {
        let bytes = encode(EventType::ToolCall, &ended(), 500).unwrap();
        assert!(bytes.len() <= 500);
        assert_eq!(rows(&Event::new(EventType::ToolCall, 5), &bytes).unwrap()[0].message, None);
        assert!(encode(EventType::ToolCall, &ended(), 50).is_none());
        assert!(rows(&Event::new(EventType::ToolCall, 5), b"{}").is_none());
    }
}
