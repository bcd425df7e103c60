//! A JSON text as the validator reads it: the text as it was sent, and a flat list of what lies where in it.
//!
//! A tree of values would take up to forty times the bytes and would round numbers. Here a value is twelve bytes, a number is
//! its digits, and every look at a value is paid for, so that no schema can make the work endless.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use jsonspan::{Event, Scanner, Span, Token, Unescape};

use super::bounded::spend;

/// Objects with more members than this are looked into by hash.
const MAX_SCANNED_MEMBERS: usize = 16;
/// Bytes scanned before it is asked whether there is still a point in it.
const CHUNK: usize = 64 * 1024;

/// A JSON text and what lies where in it. Of members with the same name only the last is there.
#[derive(Debug, Default)]
pub(super) struct Document {
    text: String,
    slots: Vec<Slot>,
    /// Hash and slot of each member's key, sorted, by the slot of an object with many members.
    wide: HashMap<u32, Box<[(u64, u32)]>>,
    /// What reading 16 bytes of a string costs, in units of work.
    string_price: u64,
    /// Bytes that the longest JSON pointer to a value may have.
    longest_pointer: usize,
}

/// A value, or the key of a member, which stands before the member's value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    /// A later member of the object has the same key.
    is_dead: bool,
    /// Scalars: where the text begins, without quotes. Containers: number of members or items.
    begin: u32,
    /// Scalars: where the text ends. Containers: the slot after their last one.
    end: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Null,
    True,
    False,
    /// A number of digits, with a sign perhaps.
    Whole,
    /// A number with a point or an exponent.
    Number,
    /// A string or key that is what is written.
    Plain,
    /// A string or key with escapes in it.
    Escaped,
    Array,
    Object,
}

/// Why a text is no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Deeper than was allowed.
    TooDeep,
    /// No JSON, or over 4 GiB.
    NoDocument,
}

impl Document {
    /// Reads one JSON value. A scalar has the depth 1, a container one more than its deepest value.
    pub(super) fn read(text: String, max_depth: usize) -> Result<Document, Unreadable> {
        let mut reading = Reading { max_depth, ..Reading::default() };
        reading.document.text = text;
        let text = std::mem::take(&mut reading.document.text);
        let mut scanner = Scanner::new();
        for chunk in text.as_bytes().chunks(CHUNK) {
            scanner
                .feed(chunk, &mut |event| reading.take(&text, event))
                .map_err(|_| Unreadable::NoDocument)?;
            reading.fault.map_or(Ok(()), Err)?;
        }
        scanner.finish(&mut |event| reading.take(&text, event)).map_err(|_| Unreadable::NoDocument)?;
        reading.fault.map_or(Ok(()), Err)?;
        Ok(Document { text, string_price: 1, ..reading.document })
    }

    /// A document that is one string, for keys.
    pub(super) fn set_string(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.slots.clear();
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot { kind: Kind::Plain, is_dead: false, begin: 0, end });
    }

    /// Sets what reading 16 bytes of a string costs, in units of work.
    pub(super) fn price_strings(&mut self, units: u64) {
        self.string_price = units;
    }

    pub(super) fn string_price(&self) -> u64 {
        self.string_price
    }

    pub(super) fn longest_pointer(&self) -> usize {
        self.longest_pointer
    }

    pub(super) fn slot(&self, at: u32) -> Slot {
        let nothing = Slot { kind: Kind::Null, is_dead: false, begin: 0, end: 0 };
        self.slots.get(at as usize).copied().unwrap_or(nothing)
    }

    /// The slot after a value and all that is in it.
    pub(super) fn after(&self, at: u32) -> u32 {
        let slot = self.slot(at);
        // At least one further, so that every walk ends.
        if slot.is_container() { slot.end.max(at + 1) } else { at + 1 }
    }

    /// A scalar as it is written, without quotes.
    pub(super) fn written(&self, at: u32) -> &str {
        let slot = self.slot(at);
        self.text.get(slot.begin as usize..slot.end as usize).unwrap_or_default()
    }

    /// What a string or key says.
    pub(super) fn string(&self, at: u32) -> Cow<'_, str> {
        said(self.slot(at).kind, self.written(at))
    }

    /// The keys of an object that count, in the order of the text. The value of each is in the next slot.
    pub(super) fn keys(&self, object: u32) -> Keys<'_> {
        Keys { document: self, at: object + 1, end: self.slot(object).end, pay: spend }
    }

    /// The value of a member.
    pub(super) fn member(&self, object: u32, key: &Key) -> Option<u32> {
        let Some(wide) = self.wide.get(&object) else {
            let mut keys = self.keys(object);
            return keys.find(|at| self.string(*at) == key.text).map(|at| at + 1);
        };
        let from = wide.partition_point(|(hash, _)| *hash < key.hash);
        let found = wide.get(from..).unwrap_or_default().iter().take_while(|(hash, _)| *hash == key.hash);
        let mut at = found.map(|(_, at)| *at);
        at.find(|at| !self.slot(*at).is_dead && self.string(*at) == key.text).map(|at| at + 1)
    }
}

impl Slot {
    pub(super) fn is_container(self) -> bool {
        matches!(self.kind, Kind::Array | Kind::Object)
    }

    /// Bytes of a scalar, or values in a container.
    pub(super) fn len(self) -> usize {
        if self.is_container() { self.begin as usize } else { self.end.saturating_sub(self.begin) as usize }
    }
}

fn said(kind: Kind, written: &str) -> Cow<'_, str> {
    if kind != Kind::Escaped {
        return Cow::Borrowed(written);
    }
    let mut decoded = Vec::with_capacity(written.len());
    let mut unescape = Unescape::new();
    unescape.push(written.as_bytes(), &mut decoded);
    unescape.finish(&mut decoded);
    String::from_utf8(decoded).unwrap_or_default().into()
}

/// A key to look for.
pub(super) struct Key {
    text: String,
    hash: u64,
}

impl Key {
    pub(super) fn new(text: &str) -> Key {
        Key { hash: hash_of(text), text: text.to_owned() }
    }
}

/// Keyed anew in each process, so that nobody can choose keys that fall together.
pub(super) fn hash_of(what: impl std::hash::Hash) -> u64 {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    STATE.get_or_init(RandomState::new).hash_one(what)
}

/// See [`Document::keys`].
pub(super) struct Keys<'a> {
    document: &'a Document,
    at: u32,
    end: u32,
    /// Called for every member, also for those that do not count.
    pay: fn(u64),
}

impl Iterator for Keys<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.at < self.end {
            let key = self.at;
            (self.pay)(1);
            self.at = self.document.after(key + 1);
            if !self.document.slot(key).is_dead {
                return Some(key);
            }
        }
        None
    }
}

/// A document of which not all has been read.
#[derive(Default)]
struct Reading {
    document: Document,
    max_depth: usize,
    open: Vec<Open>,
    /// Bytes of the pointer to the container that is open.
    pointer: usize,
    key_bytes: usize,
    fault: Option<Unreadable>,
}

struct Open {
    slot: u32,
    count: u32,
    pointer: usize,
}

impl Reading {
    fn take(&mut self, text: &str, event: Event<'_>) {
        if self.fault.is_some() {
            return;
        }
        match event {
            Event::ObjectBegin { .. } => self.begin(Kind::Object),
            Event::ArrayBegin { .. } => self.begin(Kind::Array),
            Event::ObjectEnd { .. } | Event::ArrayEnd { .. } => self.end(text),
            Event::Key(token) => {
                self.key_bytes = usize::try_from(token.span.len()).unwrap_or(usize::MAX);
                self.push(string_kind(text, token), token, true);
            }
            Event::String(token) => self.scalar(string_kind(text, token), token, true),
            Event::Number(token) => self.scalar(number_kind(text, token), token, false),
            Event::Literal(token) => {
                let kind = match token.raw() {
                    Some(b"true") => Kind::True,
                    Some(b"false") => Kind::False,
                    _ => Kind::Null,
                };
                self.scalar(kind, token, false);
            }
        }
    }

    fn begin(&mut self, kind: Kind) {
        self.value();
        let slot = u32::try_from(self.document.slots.len()).unwrap_or(u32::MAX);
        self.open.push(Open { slot, count: 0, pointer: self.pointer });
        // An index has at most ten digits.
        self.pointer = self.pointer.saturating_add(1).saturating_add(self.key_bytes.max(10));
        self.document.slots.push(Slot { kind, is_dead: false, begin: 0, end: 0 });
    }

    fn end(&mut self, text: &str) {
        let Some(open) = self.open.pop() else { return };
        let end = u32::try_from(self.document.slots.len()).unwrap_or(u32::MAX);
        self.pointer = open.pointer;
        let mut kind = Kind::Array;
        if let Some(slot) = self.document.slots.get_mut(open.slot as usize) {
            (slot.begin, slot.end) = (open.count, end);
            kind = slot.kind;
        }
        if kind == Kind::Object && open.count > 1 {
            self.end_object(text, &open);
        }
    }

    fn scalar(&mut self, kind: Kind, token: Token<'_>, is_quoted: bool) {
        self.value();
        self.push(kind, token, is_quoted);
    }

    fn value(&mut self) {
        if self.open.len() >= self.max_depth {
            self.fault = Some(Unreadable::TooDeep);
        }
        if let Some(open) = self.open.last_mut() {
            open.count = open.count.saturating_add(1);
        }
        let pointer = self.pointer.saturating_add(1).saturating_add(self.key_bytes.max(10));
        self.document.longest_pointer = self.document.longest_pointer.max(pointer);
    }

    fn push(&mut self, kind: Kind, token: Token<'_>, is_quoted: bool) {
        let span = if is_quoted { token.span.inside() } else { token.span };
        match (u32::try_from(span.start), u32::try_from(span.end), u32::try_from(self.document.slots.len())) {
            (Ok(begin), Ok(end), Ok(_)) => {
                self.document.slots.push(Slot { kind, is_dead: false, begin, end });
            }
            _ => self.fault = Some(Unreadable::NoDocument),
        }
    }

    /// Finds members of the same name, of which only the last counts.
    fn end_object(&mut self, text: &str, open: &Open) {
        let keys: Vec<u32> = Keys { pay: |_| {}, ..self.document.keys(open.slot) }.collect();
        let written = |at: &u32| {
            let slot = self.document.slot(*at);
            said(slot.kind, text.get(slot.begin as usize..slot.end as usize).unwrap_or_default())
        };
        let mut dead = Vec::new();
        if keys.len() <= MAX_SCANNED_MEMBERS {
            let names: Vec<Cow<'_, str>> = keys.iter().map(written).collect();
            let later = |place: usize| names.get(place + 1..).unwrap_or_default();
            let twice = names.iter().enumerate().filter(|(place, name)| later(*place).contains(name));
            dead.extend(twice.filter_map(|(place, _)| keys.get(place)));
        } else {
            let mut wide: Box<[(u64, u32)]> = keys.iter().map(|at| (hash_of(&*written(at)), *at)).collect();
            wide.sort_unstable();
            for same in wide.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
                let later = |place: usize| same.get(place + 1..).unwrap_or_default().iter();
                let twice = same.iter().enumerate().filter(|(place, (_, at))| {
                    // Equal hashes are equal names: nobody can choose them otherwise.
                    later(*place).next_back().is_some_and(|(_, last)| written(last) == written(at))
                });
                dead.extend(twice.map(|(_, (_, at))| *at));
            }
            self.document.wide.insert(open.slot, wide);
        }
        for at in &dead {
            if let Some(slot) = self.document.slots.get_mut(*at as usize) {
                slot.is_dead = true;
            }
        }
        if let Some(slot) = self.document.slots.get_mut(open.slot as usize) {
            slot.begin = slot.begin.saturating_sub(u32::try_from(dead.len()).unwrap_or(u32::MAX));
        }
    }
}

fn string_kind(text: &str, token: Token<'_>) -> Kind {
    if bytes_of(text, token.span.inside()).contains(&b'\\') { Kind::Escaped } else { Kind::Plain }
}

fn number_kind(text: &str, token: Token<'_>) -> Kind {
    let is_more = |byte: &u8| matches!(byte, b'.' | b'e' | b'E');
    if bytes_of(text, token.span).iter().any(is_more) { Kind::Number } else { Kind::Whole }
}

fn bytes_of(text: &str, span: Span) -> &[u8] {
    let range = usize::try_from(span.start).ok().zip(usize::try_from(span.end).ok());
    range.and_then(|(begin, end)| text.as_bytes().get(begin..end)).unwrap_or_default()
}
