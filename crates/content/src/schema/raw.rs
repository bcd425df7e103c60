//! What the validator sees of a [`Document`]. Every look is paid for.

use std::borrow::Cow;
use std::ops::ControlFlow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, cmp};
use serde_json::Value;

use super::bounded::{keep_stack, spend};
use super::decimal::{Decimal, Written};
use super::document::{Document, Key, Keys, Kind, hash_of};

/// JSON that is read where it lies.
pub(super) struct Raw;

/// One value of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    document: &'a Document,
    at: u32,
}

impl Json for Raw {
    type Node<'a> = At<'a>;
    type PreparedKey = Key;
    type StringBuffer = Document;

    const KEYS_PER_LOOKUP: usize = 2;
    const ACYCLIC: bool = true;

    fn prepare_key(key: &str) -> Key {
        Key::new(key)
    }

    fn with_string_node<T>(buffer: &mut Document, string: &str, f: impl FnOnce(At<'_>) -> T) -> T {
        buffer.set_string(string);
        f(At { document: buffer, at: 0 })
    }
}

impl<'a> At<'a> {
    pub(super) fn root(document: &'a Document) -> At<'a> {
        At { document, at: 0 }
    }

    fn kind(self) -> Kind {
        spend(1);
        self.document.slot(self.at).kind
    }

    fn length(self) -> usize {
        self.document.slot(self.at).len()
    }

    /// What a string or key says, paid by its length.
    fn said(self) -> Cow<'a, str> {
        spend((self.length() as u64 / 16).saturating_mul(self.document.string_price()).saturating_add(1));
        self.document.string(self.at)
    }

    fn number(self) -> Written<'a> {
        let slot = self.document.slot(self.at);
        spend(slot.len() as u64 / 16 + 1);
        Written { text: self.document.written(self.at), is_whole: slot.kind == Kind::Whole }
    }

    fn items(self) -> Items<'a> {
        Items { document: self.document, at: self.at + 1, end: self.document.after(self.at) }
    }

    fn members(self) -> Members<'a> {
        Members { document: self.document, keys: self.document.keys(self.at) }
    }

    /// Equal values have equal digests.
    fn digest(self) -> u64 {
        keep_stack();
        match self.kind() {
            kind @ (Kind::Null | Kind::True | Kind::False) => hash_of(kind),
            Kind::Whole | Kind::Number => hash_of(Decimal::of(self.number().text)),
            Kind::Plain | Kind::Escaped => hash_of(self.said()),
            Kind::Array => self.items().fold(hash_of('['), |sum, item| hash_of((sum, item.digest()))),
            // Members in any order are the same object.
            Kind::Object => self
                .members()
                .fold(hash_of('{'), |sum, (name, value)| sum.wrapping_add(hash_of((name, value.digest())))),
        }
    }

    fn equals(self, other: At<'_>) -> bool {
        keep_stack();
        match (self.kind(), other.kind()) {
            (Kind::Whole | Kind::Number, Kind::Whole | Kind::Number) => {
                Decimal::of(self.number().text) == Decimal::of(other.number().text)
            }
            (Kind::Plain | Kind::Escaped, Kind::Plain | Kind::Escaped) => self.said() == other.said(),
            (Kind::Array, Kind::Array) => {
                self.length() == other.length() && self.items().zip(other.items()).all(|(a, b)| a.equals(b))
            }
            (Kind::Object, Kind::Object) => {
                let same = |name: &str, value: At<'_>| {
                    other.get(&Key::new(name)).is_some_and(|other| value.equals(other))
                };
                self.length() == other.length() && self.members().all(|(name, value)| same(&name, value))
            }
            (a, b) => a == b,
        }
    }
}

impl<'a> Node<'a, Raw> for At<'a> {
    type Object = At<'a>;
    type Array = At<'a>;
    type Number = Written<'a>;

    fn as_object(&self) -> Option<At<'a>> {
        (self.kind() == Kind::Object).then_some(*self)
    }

    fn as_array(&self) -> Option<At<'a>> {
        (self.kind() == Kind::Array).then_some(*self)
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        self.is_string().then(|| self.said())
    }

    fn as_number(&self) -> Option<Written<'a>> {
        self.is_number().then(|| self.number())
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    fn is_number(&self) -> bool {
        matches!(self.kind(), Kind::Whole | Kind::Number)
    }

    fn is_string(&self) -> bool {
        matches!(self.kind(), Kind::Plain | Kind::Escaped)
    }

    fn json_type(&self) -> JsonType {
        match self.kind() {
            Kind::Null => JsonType::Null,
            Kind::True | Kind::False => JsonType::Boolean,
            Kind::Whole | Kind::Number => JsonType::Number,
            Kind::Plain | Kind::Escaped => JsonType::String,
            Kind::Array => JsonType::Array,
            Kind::Object => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        if !self.is_string() {
            return None;
        }
        spend(self.length() as u64 / 64);
        Some(self.document.string(self.at).chars().count() as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.kind(), expected) {
            (Kind::Null, Value::Null)
            | (Kind::True, Value::Bool(true))
            | (Kind::False, Value::Bool(false)) => true,
            (Kind::Whole | Kind::Number, Value::Number(expected)) => {
                cmp::equal_numbers(&self.number(), expected)
            }
            // What is written plainly is as long as what it says.
            (Kind::Plain, Value::String(expected)) => {
                self.length() == expected.len() && self.said() == *expected
            }
            (Kind::Escaped, Value::String(expected)) => self.said() == *expected,
            (Kind::Array, Value::Array(expected)) => {
                self.length() == expected.len() && self.items().zip(expected).all(|(a, b)| a.equals_value(b))
            }
            (Kind::Object, Value::Object(expected)) => {
                self.length() == expected.len()
                    && self.members().all(|(name, value)| {
                        expected.get(name.as_ref()).is_some_and(|expected| value.equals_value(expected))
                    })
            }
            _ => false,
        }
    }

    /// Only faults ask for it, and they must not hold values.
    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(Value::Null)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::tagged(std::ptr::from_ref(self.document).addr(), self.at))
    }
}

impl<'a> Object<'a, Raw> for At<'a> {
    type Node = At<'a>;
    type MemberName = Cow<'a, str>;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        self.length()
    }

    fn get(&self, key: &Key) -> Option<At<'a>> {
        spend(1);
        self.document.member(self.at, key).map(|at| At { document: self.document, at })
    }

    fn members(&self) -> Members<'a> {
        At::members(*self)
    }

    fn try_for_each_name_node<B>(
        &self,
        _: &mut Document,
        mut f: impl FnMut(At<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.document.keys(self.at).try_for_each(|at| f(At { document: self.document, at }))
    }
}

impl<'a> Array<'a, Raw> for At<'a> {
    type Node = At<'a>;
    type ElementsIter = Items<'a>;

    fn len(&self) -> usize {
        self.length()
    }

    fn elements(&self) -> Items<'a> {
        self.items()
    }

    fn is_unique(&self) -> bool {
        if self.length() < 2 {
            return true;
        }
        // Sorting takes some steps for each item.
        spend((self.length() as u64).saturating_mul(4));
        let mut digests: Vec<u64> = self.items().map(At::digest).collect();
        digests.sort_unstable();
        let mut twice = digests.windows(2).filter(|two| two.first() == two.last()).filter_map(<[u64]>::first);
        !twice.any(|digest| self.holds_twice(*digest))
    }
}

impl At<'_> {
    /// Two items with this digest are equal, as they should be.
    fn holds_twice(self, digest: u64) -> bool {
        let mut found = self.items().filter(|item| item.digest() == digest);
        found.next().is_some_and(|first| found.any(|other| first.equals(other)))
    }
}

/// The items of an array.
pub(super) struct Items<'a> {
    document: &'a Document,
    at: u32,
    end: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = At<'a>;

    fn next(&mut self) -> Option<At<'a>> {
        if self.at >= self.end {
            return None;
        }
        spend(1);
        let item = At { document: self.document, at: self.at };
        self.at = self.document.after(self.at);
        Some(item)
    }
}

/// The members of an object, of equal names only the last.
pub(super) struct Members<'a> {
    document: &'a Document,
    keys: Keys<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, At<'a>);

    fn next(&mut self) -> Option<(Cow<'a, str>, At<'a>)> {
        let at = self.keys.next()?;
        let name = At { document: self.document, at }.said();
        Some((name, At { document: self.document, at: at + 1 }))
    }
}
