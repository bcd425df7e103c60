//! Calls in flight: a preallocated file of fixed slots, so that a call's trace costs one write and survives `kill -9`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use crate::call::Opening;
use crate::event::{Event, EventType, Source, Status, UpstreamRan, prefix};
use crate::health::lock;
use crate::outcome;
use crate::reason::Reason;
use crate::sys;

/// Bytes of one slot: its head, written when the call begins, and room for its end. It divides a page, so that one write
/// never spans two.
pub(crate) const SLOT: usize = 2048;
const HEAD: usize = 1024;

const FREE: u8 = 0;
const USED: u8 = 0xa5;
const LAYOUT: u16 = 2;

// Where things lie in a slot. State and mark are single bytes outside of the checksum: they change while a call runs.
const STATE: usize = 0;
const MARK: usize = 1;
const VERSION: usize = 2;
const CHECKSUM: usize = 4;
const BODY: usize = 12;
// The end: its length, a checksum over the row's id and it, and itself. What an earlier call left there does not fit the id.
const END_SUM: usize = HEAD + 2;
const END: usize = HEAD + 10;
/// Room for the end of a call.
pub(crate) const END_ROOM: usize = SLOT - END;

/// Room of each text, in bytes, in the order in which they stand.
const ROOMS: [usize; 11] = [256, 256, 24, 10, 64, 72, 48, 24, 96, 96, 12];
const _: () = {
    let (mut needed, mut text) = (BODY + 16 + 8, 0);
    while text < ROOMS.len() {
        needed += 2 + ROOMS[text];
        text += 1;
    }
    assert!(needed <= HEAD);
};

/// How far a call had come beyond its beginning, which is 0. The numbers stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mark {
    Dispatched = 1,
    Answered = 2,
}

/// A slot that is taken. It is given back by [`Slots::free`] alone, and otherwise found at the next start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// A slot that the last run left in use.
pub(crate) struct Leftover {
    pub(crate) slot: Slot,
    /// Its closing row, and what belongs to it.
    pub(crate) rows: Vec<Event>,
    /// It had not come to its end.
    pub(crate) abandoned: bool,
    pub(crate) damaged: bool,
}

/// The file and which of its slots are free.
pub(crate) struct Slots {
    file: File,
    free: Mutex<Vec<u32>>,
    count: u32,
}

impl Slots {
    /// Opens or makes the file with room for `count` calls, and finds what the last run left.
    pub(crate) fn open(path: &Path, count: u32) -> io::Result<(Slots, Vec<Leftover>)> {
        let file = sys::open_private_file(path)?;
        let there = u32::try_from(file.metadata()?.len() / SLOT as u64).unwrap_or(u32::MAX);
        sys::allocate(&file, u64::from(count) * SLOT as u64)?;
        let mut leftovers = Vec::new();
        let mut free = Vec::new();
        for number in (0..count.max(there)).rev() {
            match read_leftover(&file, number)? {
                Some(leftover) => leftovers.push(leftover),
                None if number < count => free.push(number),
                None => {}
            }
        }
        Ok((Slots { file, free: Mutex::new(free), count }, leftovers))
    }

    /// Takes a slot for this call; `None` when all are taken.
    pub(crate) fn take(&self, row: u128, opening: &Opening<'_>) -> io::Result<Option<Slot>> {
        let Some(number) = lock(&self.free).pop() else { return Ok(None) };
        let written = sys::write_at(&self.file, &encode(row, opening)[..HEAD], place(number));
        if let Err(error) = written {
            lock(&self.free).push(number);
            return Err(error);
        }
        Ok(Some(Slot(number)))
    }

    /// Notes how far the call has come.
    pub(crate) fn mark(&self, slot: &Slot, mark: Mark) -> io::Result<()> {
        sys::write_at(&self.file, &[mark as u8], place(slot.0) + MARK as u64)
    }

    /// Notes how the call ended, so that its record is true although we are killed before the row is committed.
    pub(crate) fn note_end(&self, slot: &Slot, row: u128, end: &[u8]) -> io::Result<()> {
        let Ok(length) = u16::try_from(end.len()) else { return Ok(()) };
        let mut bytes = Vec::with_capacity(END - HEAD + end.len());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&end_checksum(row, end).to_le_bytes());
        bytes.extend_from_slice(end);
        sys::write_at(&self.file, &bytes, place(slot.0) + HEAD as u64)
    }

    /// The row that closes the call of this slot if nobody else does.
    pub(crate) fn abandoned(&self, slot: &Slot) -> io::Result<Event> {
        let mut bytes = [0u8; SLOT];
        sys::read_at(&self.file, &mut bytes, place(slot.0))?;
        Ok(decode(&bytes).unwrap_or_else(|| damaged(&bytes)))
    }

    /// Gives the slot back. A slot that cannot be cleared stays taken: the next start finds its row and clears it.
    #[expect(clippy::needless_pass_by_value, reason = "whoever gives a slot back has it no more")]
    pub(crate) fn free(&self, slot: Slot) {
        let Slot(number) = slot;
        match sys::write_at(&self.file, &[FREE], place(number)) {
            Ok(()) if number < self.count => lock(&self.free).push(number),
            Ok(()) => {}
            Err(error) => tracing::error!(%error, number, "cannot clear a slot of the file `inflight`"),
        }
    }

    /// How many calls hold a slot.
    pub(crate) fn used(&self) -> usize {
        (self.count as usize).saturating_sub(lock(&self.free).len())
    }
}

fn place(number: u32) -> u64 {
    u64::from(number) * SLOT as u64
}

fn read_leftover(file: &File, number: u32) -> io::Result<Option<Leftover>> {
    let mut bytes = [0u8; SLOT];
    sys::read_at(file, &mut bytes, place(number))?;
    if bytes[STATE] == FREE {
        return Ok(None);
    }
    let slot = Slot(number);
    Ok(Some(match decode(&bytes) {
        Some(event) => match ended(&bytes).and_then(|end| outcome::rows(&event, end)) {
            Some(rows) => Leftover { slot, rows, abandoned: false, damaged: false },
            None => Leftover { slot, rows: vec![event], abandoned: true, damaged: false },
        },
        None => Leftover { slot, rows: vec![damaged(&bytes)], abandoned: true, damaged: true },
    }))
}

/// The end of the call of a slot whose head is sound, if it came to one.
fn ended(bytes: &[u8; SLOT]) -> Option<&[u8]> {
    let length = usize::from(u16::from_le_bytes([bytes[HEAD], bytes[HEAD + 1]]));
    let end = bytes.get(END..END.checked_add(length)?)?;
    let row = u128::from_le_bytes(*bytes[BODY..].first_chunk::<16>()?);
    (bytes[END_SUM..END] == end_checksum(row, end).to_le_bytes()).then_some(end)
}

fn end_checksum(row: u128, end: &[u8]) -> u64 {
    checksum(&[&row.to_le_bytes(), end].concat())
}

fn encode(row: u128, opening: &Opening<'_>) -> [u8; SLOT] {
    let mut bytes = [0u8; SLOT];
    bytes[STATE] = USED;
    bytes[VERSION..CHECKSUM].copy_from_slice(&LAYOUT.to_le_bytes());
    let texts = [
        opening.request_id,
        opening.parent_id,
        opening.kind.as_str(),
        opening.source.as_str(),
        opening.caller,
        opening.session,
        opening.client_name,
        opening.client_version,
        opening.server,
        opening.tool,
        opening.variant,
    ];
    let mut at = BODY;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    put(&row.to_le_bytes());
    put(&opening.started_ms.to_le_bytes());
    for (text, room) in texts.into_iter().zip(ROOMS) {
        let kept = prefix(text, room);
        // The rooms are small, so the length fits.
        put(&u16::try_from(kept.len()).unwrap_or(0).to_le_bytes());
        put(kept.as_bytes());
    }
    let sum = checksum(&bytes[BODY..HEAD]);
    bytes[CHECKSUM..BODY].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; SLOT]) -> Option<Event> {
    let whole = bytes[STATE] == USED
        && bytes[VERSION..CHECKSUM] == LAYOUT.to_le_bytes()
        && bytes[CHECKSUM..BODY] == checksum(&bytes[BODY..HEAD]).to_le_bytes();
    if !whole {
        return None;
    }
    let (row, rest) = bytes[BODY..].split_first_chunk::<16>()?;
    let (started, mut rest) = rest.split_first_chunk::<8>()?;
    let mut texts = [""; ROOMS.len()];
    for text in &mut texts {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (content, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        *text = std::str::from_utf8(content).ok()?;
        rest = after;
    }
    let [request, parent, kind, source, caller, session, client, client_version, server, tool, variant] =
        texts;
    let (ran, message) = ending(bytes[MARK]);
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Some(Event {
        id: ulid::Ulid(u128::from_le_bytes(*row)).to_string(),
        source: Source::parse(source)?,
        caller: some(caller),
        session: some(session),
        client_name: some(client),
        client_version: some(client_version),
        request_id: some(request),
        parent_id: some(parent),
        server: some(server),
        tool: some(tool),
        variant: some(variant),
        status: Status::Abandoned,
        reason: Some(Reason::Internal),
        message: Some(message.into()),
        upstream_ran: Some(ran),
        ..Event::new(EventType::parse(kind)?, i64::from_le_bytes(*started))
    })
}

fn ending(mark: u8) -> (UpstreamRan, &'static str) {
    match mark {
        0 => (UpstreamRan::No, "mcpproxy ended before the call was sent to the server"),
        2 => {
            (UpstreamRan::Yes, "mcpproxy ended after the server had answered and before the call was closed")
        }
        // A byte that we never write is as good as no knowledge.
        _ => (UpstreamRan::Unknown, "mcpproxy ended while the server worked on the call"),
    }
}

/// The row of a slot that cannot be read. Its id follows from the bytes, so that finding it twice makes one row.
fn damaged(bytes: &[u8; SLOT]) -> Event {
    let (low, high) = bytes[BODY..].split_at((SLOT - BODY) / 2);
    let id = (u128::from(checksum(high)) << 64) | u128::from(checksum(low));
    Event {
        id: ulid::Ulid::from_parts(0, id).to_string(),
        status: Status::Abandoned,
        reason: Some(Reason::Internal),
        message: Some("mcpproxy ended during this call, and what was noted of it cannot be read".into()),
        upstream_ran: Some(UpstreamRan::Unknown),
        ..Event::new(EventType::ToolCall, crate::event::now_ms())
    }
}

/// FNV-1a over words of 64 bits: every step can be undone, so no change of a single word goes unseen.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening() -> Opening<'static> {
        Opening {
            request_id: "req",
            started_ms: 77,
            source: Source::Mcp,
            caller: "local",
            session: "sess",
            server: "fs",
            tool: "read_file",
            variant: "read",
            ..Opening::default()
        }
    }

    fn reopened(path: &Path) -> Vec<Leftover> {
        Slots::open(path, 4).unwrap().1
    }

    #[test]
    fn a_used_slot_is_found_again_with_what_was_noted() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("inflight");
        let (slots, left) = Slots::open(&path, 4).unwrap();
        assert!(left.is_empty());
        let begun = slots.take(1, &opening()).unwrap().unwrap();
        let dispatched = slots.take(2, &opening()).unwrap().unwrap();
        let answered = slots.take(3, &opening()).unwrap().unwrap();
        let closed = slots.take(4, &opening()).unwrap().unwrap();
        assert_eq!(slots.used(), 4);
        assert!(slots.take(5, &opening()).unwrap().is_none());
        slots.mark(&dispatched, Mark::Dispatched).unwrap();
        slots.mark(&answered, Mark::Dispatched).unwrap();
        slots.mark(&answered, Mark::Answered).unwrap();
        slots.free(closed);
        assert_eq!(slots.abandoned(&begun).unwrap().upstream_ran, Some(UpstreamRan::No));
        drop(slots);

        let mut found: Vec<_> =
            reopened(&path).into_iter().map(|mut left| (left.rows.remove(0), left.damaged)).collect();
        found.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        let ran: Vec<_> = found.iter().map(|(event, _)| event.upstream_ran.unwrap()).collect();
        assert_eq!(ran, [UpstreamRan::No, UpstreamRan::Unknown, UpstreamRan::Yes]);
        let (event, damaged) = &found[0];
        assert!(!damaged);
        assert_eq!(event.id, ulid::Ulid(1).to_string());
        assert_eq!((event.time_ms, event.status), (77, Status::Abandoned));
        assert_eq!(event.request_id.as_deref(), Some("req"));
        assert_eq!((event.server.as_deref(), event.tool.as_deref()), (Some("fs"), Some("read_file")));
        assert_eq!((event.caller.as_deref(), event.client_name.as_deref()), (Some("local"), None));
    }

    #[test]
    fn long_texts_are_cut_to_fit_on_character_boundaries() {
        let long = "ü€".repeat(2000);
        let opening = Opening {
            request_id: &long,
            parent_id: &long,
            caller: &long,
            session: &long,
            client_name: &long,
            client_version: &long,
            server: &long,
            tool: &long,
            variant: &long,
            kind: EventType::ToolQuarantineChange,
            ..Opening::default()
        };
        let event = decode(&encode(9, &opening)).unwrap();
        for text in [&event.request_id, &event.tool, &event.server, &event.variant] {
            let text = text.as_deref().unwrap();
            assert!(text.len() >= 10 && long.starts_with(text));
        }
        assert_eq!(event.kind, EventType::ToolQuarantineChange);
    }

    #[test]
    fn every_torn_or_flipped_slot_is_seen_and_gets_the_same_id_each_time() {
        let whole = encode(9, &opening());
        for at in [2, 5, 13, 40, 300, 1023] {
            let mut torn = whole;
            torn[at] ^= 0x10;
            assert!(decode(&torn).is_none(), "byte {at}");
            assert_eq!(damaged(&torn).id, damaged(&torn).id);
        }
        let mut half = whole;
        half[60..].fill(0);
        assert!(decode(&half).is_none());
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("inflight");
        std::fs::write(&path, half).unwrap();
        let left = reopened(&path);
        assert_eq!(left.len(), 1);
        assert!(left[0].damaged && left[0].rows[0].upstream_ran == Some(UpstreamRan::Unknown));
    }

    #[test]
    fn a_file_of_more_slots_than_are_used_now_is_read_whole() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("inflight");
        let (slots, _) = Slots::open(&path, 9).unwrap();
        for row in 0..9 {
            assert!(slots.take(row, &opening()).unwrap().is_some());
        }
        drop(slots);
        let (slots, left) = Slots::open(&path, 4).unwrap();
        assert_eq!(left.len(), 9);
        left.into_iter().for_each(|left| slots.free(left.slot));
        assert_eq!(slots.used(), 0);
        assert!(reopened(&path).is_empty());
    }
}
