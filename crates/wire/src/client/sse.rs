//! Server-sent events in pieces of any size: what belongs to an event's data is passed on at once, never collected.

use std::time::Duration;

/// Longer names of fields are not ours.
const NAME_BYTES: usize = 8;
/// Longer values of `id`, `event` and `retry` are not minded.
const VALUE_BYTES: usize = 1024;
/// A server that asks for a longer pause is asked again after this.
const MAX_RETRY: Duration = Duration::from_secs(30);
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// What the next bytes are.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// More of the event's data.
    Data(&'a [u8]),
    /// The event's data is complete.
    End {
        /// It is a message: the event has no other name.
        message: bool,
    },
}

/// An event stream that is being read.
#[derive(Default)]
pub struct Parser {
    at: At,
    bom: usize,
    after_cr: bool,
    name: Vec<u8>,
    value: Vec<u8>,
    event: Vec<u8>,
    id: Option<String>,
    has_data: bool,
    last_id: Option<String>,
    retry: Option<Duration>,
    ids: u64,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum At {
    #[default]
    Name,
    AfterColon,
    Data,
    Value,
    Ignored,
}

impl Parser {
    /// Begins a new stream that goes on where the last one ended: the event that was not complete is forgotten.
    pub(super) fn restart(&mut self) {
        let (last_id, retry, ids) = (self.last_id.take(), self.retry, self.ids);
        *self = Parser { last_id, retry, ids, ..Parser::default() };
    }

    /// The id of the last event that was complete.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// How many events with an id were complete.
    pub(super) fn ids(&self) -> u64 {
        self.ids
    }

    /// The pause that the server wants before it is asked again, at most 30 seconds.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes bytes from `rest` until there is something to say; `None` when all are taken.
    pub fn next<'a>(&mut self, rest: &mut &'a [u8]) -> Option<Piece<'a>> {
        loop {
            let first = *rest.first()?;
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                *rest = &rest[1..];
                continue;
            }
            if self.bom < BOM.len() {
                if first == BOM[self.bom] {
                    self.bom += 1;
                    *rest = &rest[1..];
                    continue;
                }
                self.bom = BOM.len();
            }
            if let Some(piece) = self.step(first, rest) {
                return Some(piece);
            }
        }
    }

    /// One step within or at the end of a line; `rest` is not empty and loses at least a byte or the state changes.
    fn step<'a>(&mut self, first: u8, rest: &mut &'a [u8]) -> Option<Piece<'a>> {
        if self.at == At::AfterColon {
            if first == b' ' {
                *rest = &rest[1..];
            }
            return self.begin_value();
        }
        let end = memchr::memchr2(b'\r', b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        if line.is_empty() {
            self.after_cr = first == b'\r';
            *rest = &rest[1..];
            return self.end_line();
        }
        match self.at {
            At::Name => {
                let colon = memchr::memchr(b':', line);
                keep(&mut self.name, &line[..colon.unwrap_or(line.len())], NAME_BYTES);
                *rest = &rest[colon.map_or(line.len(), |at| at + 1)..];
                if colon.is_some() {
                    self.at = At::AfterColon;
                }
                None
            }
            At::Data => {
                *rest = &rest[line.len()..];
                Some(Piece::Data(line))
            }
            At::Value | At::Ignored | At::AfterColon => {
                if self.at == At::Value {
                    keep(&mut self.value, line, VALUE_BYTES);
                }
                *rest = &rest[line.len()..];
                None
            }
        }
    }

    /// The colon and the space after it are taken.
    fn begin_value<'a>(&mut self) -> Option<Piece<'a>> {
        self.at = match self.name.as_slice() {
            b"data" => At::Data,
            b"event" | b"id" | b"retry" => At::Value,
            _ => At::Ignored,
        };
        if self.at == At::Data { self.begin_data() } else { None }
    }

    fn begin_data<'a>(&mut self) -> Option<Piece<'a>> {
        std::mem::replace(&mut self.has_data, true).then_some(Piece::Data(b"\n"))
    }

    fn end_line<'a>(&mut self) -> Option<Piece<'a>> {
        let at = std::mem::take(&mut self.at);
        let name = std::mem::take(&mut self.name);
        let value = std::mem::take(&mut self.value);
        match (at, name.as_slice()) {
            (At::Name, b"") => return self.end_event(),
            // A line without a colon is a field with an empty value.
            (At::Name | At::AfterColon, b"data") => return self.begin_data(),
            (At::Name | At::AfterColon | At::Value, b"event") => self.event = value,
            (At::Name | At::AfterColon | At::Value, b"id") => {
                let usable = value.len() <= VALUE_BYTES && !value.contains(&0);
                self.id = String::from_utf8(value).ok().filter(|_| usable).or(self.id.take());
            }
            (At::Value, b"retry") => self.set_retry(&value),
            _ => {}
        }
        None
    }

    fn end_event<'a>(&mut self) -> Option<Piece<'a>> {
        if let Some(id) = self.id.take() {
            self.last_id = Some(id);
            self.ids += 1;
        }
        let event = std::mem::take(&mut self.event);
        let message = event.is_empty() || event == b"message";
        std::mem::take(&mut self.has_data).then_some(Piece::End { message })
    }

    fn set_retry(&mut self, value: &[u8]) {
        if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
            let text = String::from_utf8_lossy(value);
            let pause = text.parse().map_or(MAX_RETRY, Duration::from_millis);
            self.retry = Some(pause.min(MAX_RETRY));
        }
    }
}

/// Appends to `kept`, but never more than one byte over `max`: enough to see that it was too long.
fn keep(kept: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let room = (max + 1).saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All messages of a stream that arrives in pieces of `size` bytes, a `!` before those of another name.
    fn events(stream: &[u8], size: usize) -> (Vec<String>, Parser) {
        let mut parser = Parser::default();
        let (mut events, mut data) = (Vec::new(), Vec::new());
        for mut rest in stream.chunks(size) {
            while let Some(piece) = parser.next(&mut rest) {
                match piece {
                    Piece::Data(bytes) => data.extend_from_slice(bytes),
                    Piece::End { message } => {
                        let text = String::from_utf8(std::mem::take(&mut data)).unwrap();
                        events.push(if message { text } else { format!("!{text}") });
                    }
                }
            }
        }
        (events, parser)
    }

    #[test]
    fn odd_framings_give_the_same_events_in_pieces_of_any_size() {
        let cases: &[(&str, &[&str])] = &[
            ("data: a\n\n", &["a"]),
            ("data:a\r\n\r\n", &["a"]),
            ("data:  a\r\rdata: b\r\r", &[" a", "b"]),
            ("\u{feff}data: a\n\n", &["a"]),
            (": comment\ndata: a\n: more\ndata: b\n\n", &["a\nb"]),
            ("data\n\n", &[""]),
            ("data:\ndata:\n\n", &["\n"]),
            ("data: {\"a\":\ndata\ndata: 1}\n\n", &["{\"a\":\n\n1}"]),
            ("event: ping\ndata: x\n\ndata: y\n\n", &["!x", "y"]),
            ("data: late\nevent: message\n\n", &["late"]),
            ("id: 1\n\n\n\ndata: a\n\ndata: not ended\n", &["a"]),
            ("dat: a\ndata2: b\nverylongfieldname: c\ndata:d\n\n", &["d"]),
            ("data:a:b: c\n\n", &["a:b: c"]),
        ];
        for (stream, expected) in cases {
            for size in 1..=stream.len() {
                let (events, _) = events(stream.as_bytes(), size);
                assert_eq!(events, *expected, "{stream:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn ids_count_when_their_event_is_complete_and_pauses_are_bounded() {
        let (_, parser) = events(b"id: 1\ndata: a\n\nid: 2\nretry: 250\n\nid: 3\ndata: b\n", 3);
        assert_eq!((parser.last_id(), parser.ids()), (Some("2"), 2));
        assert_eq!(parser.retry(), Some(Duration::from_millis(250)));
        let (_, mut parser) = events(b"retry: 99999999999999999999\nid: x\0y\n\nretry: 12a\nid\n\n", 5);
        assert_eq!(parser.retry(), Some(MAX_RETRY));
        assert_eq!(parser.last_id(), None, "an id with NUL is none, and an empty one resets");
        let mut rest: &[u8] = b"id: 5\n\ndata: half";
        while parser.next(&mut rest).is_some() {}
        parser.restart();
        let mut rest: &[u8] = b"data: b\n\n";
        assert_eq!(parser.next(&mut rest), Some(Piece::Data(b"b")));
        assert_eq!(parser.last_id(), Some("5"));
    }
}
