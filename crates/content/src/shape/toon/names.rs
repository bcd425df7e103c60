//! The keys of a text, each kept once under a number, with its TOON spelling.

use super::intern::{Id, Interner, narrow};
use super::{NotEncodable, string};

/// Which key.
pub(super) type NameId = Id;

/// All keys of one text.
pub(super) struct Names<'a> {
    texts: Interner<u8>,
    all: Vec<Name<'a>>,
    /// The TOON spellings, one after the other.
    written: String,
    /// The key that was read last.
    last: Option<NameId>,
}

struct Name<'a> {
    /// As the JSON spells it, between the quotes, where it was met first.
    raw: &'a str,
    /// Where its TOON spelling ends.
    end: u32,
    /// The key that came next when this one was met last. In a table that is the next column, and nothing need be hashed.
    follower: NameId,
}

impl<'a> Names<'a> {
    pub(super) fn new() -> Names<'a> {
        Names { texts: Interner::new(), all: Vec::new(), written: String::new(), last: None }
    }

    /// The number of a key, given as it stands between its quotes.
    pub(super) fn intern(&mut self, raw: &'a str) -> Result<NameId, NotEncodable> {
        if let Some(guess) = self.last.and_then(|last| self.all.get(last as usize)).map(|last| last.follower)
            && self.all.get(guess as usize).is_some_and(|name| name.raw == raw)
        {
            self.last = Some(guess);
            return Ok(guess);
        }
        let id = self.look_up(raw)?;
        if let Some(last) = self.last.replace(id)
            && let Some(name) = self.all.get_mut(last as usize)
        {
            name.follower = id;
        }
        Ok(id)
    }

    /// How TOON spells a key.
    pub(super) fn written(&self, id: NameId) -> &str {
        let end = |id: NameId| self.all.get(id as usize).map_or(0, |name| name.end as usize);
        let start = id.checked_sub(1).map_or(0, end);
        self.written.get(start..end(id)).unwrap_or_default()
    }

    /// How many different keys there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    fn look_up(&mut self, raw: &'a str) -> Result<NameId, NotEncodable> {
        let text = string::decode(raw)?;
        let (id, is_new) = self.texts.intern(text.as_bytes())?;
        if is_new {
            if is_bare(&text) {
                self.written.push_str(&text);
            } else {
                string::append_quoted(&text, &mut self.written);
            }
            self.all.push(Name { raw, end: narrow(self.written.len())?, follower: id });
        }
        Ok(id)
    }
}

/// True for a key that needs no quotes: letters, digits, `_` and `.`, and no digit or `.` in front.
fn is_bare(key: &str) -> bool {
    let starts = key.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
    starts && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}
