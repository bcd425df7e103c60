//! A JSON text as a flat list of its values, in the order of the text.

use jsonspan::{Event, Scanner, Token};

use super::intern::narrow;
use super::layout::{Field, Holds, LayoutId, Layouts, ShapeId};
use super::names::{NameId, Names};
use super::{MAX_DEPTH, MAX_TOON_BYTES, NotEncodable};

/// One JSON text, read.
pub(super) struct Tape<'a> {
    text: &'a str,
    nodes: Vec<Node>,
    pub(super) names: Names<'a>,
    pub(super) layouts: Layouts,
}

/// Where a value stands on the tape. What it contains follows it.
pub(super) type At = u32;

/// One value, and the key before it if it is a member of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) name: NameId,
    pub(super) value: Value,
}

/// One value. `after` is where the next one stands that is not inside this one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// `true`, `false` or `null`, as it is spelled.
    Word(Slice),
    /// As it is spelled.
    Number(Slice),
    /// What stands between the quotes.
    Text(Slice),
    /// Plain values only, or none.
    Inline {
        after: At,
        count: u32,
    },
    /// Objects of one shape; the first has this layout.
    Table {
        after: At,
        count: u32,
        layout: LayoutId,
    },
    /// Any other array.
    List {
        after: At,
        count: u32,
    },
    Object {
        after: At,
        layout: LayoutId,
    },
}

/// A part of the text, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    start: u32,
    end: u32,
}

impl<'a> Tape<'a> {
    /// Reads a text.
    pub(super) fn read(text: &'a str) -> Result<Tape<'a>, NotEncodable> {
        if text.len() > MAX_TOON_BYTES {
            return Err(NotEncodable::TooLong);
        }
        let nodes = Vec::with_capacity(most_values(text));
        let tape = Tape { text, nodes, names: Names::new(), layouts: Layouts::new() };
        let mut draft = Draft { tape, open: Vec::new(), fields: Vec::new(), name: 0, guesses: Vec::new() };
        let (mut scanner, mut fault) = (Scanner::new(), None);
        let mut sink = |event: Event<'_>| {
            if fault.is_none() {
                fault = draft.take(event).err();
            }
        };
        scanner.feed(text.as_bytes(), &mut sink)?;
        scanner.finish(&mut sink)?;
        match fault {
            Some(fault) => Err(fault),
            None => Ok(draft.tape),
        }
    }

    pub(super) fn value(&self, at: At) -> Option<Value> {
        self.nodes.get(at as usize).map(|node| node.value)
    }

    /// The values from one place up to another, whatever contains what.
    pub(super) fn nodes(&self, from: At, to: At) -> &[Node] {
        self.nodes.get(from as usize..to as usize).unwrap_or_default()
    }

    pub(super) fn text(&self, slice: Slice) -> &'a str {
        self.text.get(slice.start as usize..slice.end as usize).unwrap_or_default()
    }

    /// The values directly inside the one at `at`.
    pub(super) fn children(&self, at: At) -> impl Iterator<Item = (At, Node)> + '_ {
        let end = self.after(at);
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let here = next;
            let node = *self.nodes.get(here as usize).filter(|_| here < end)?;
            next = self.after(here);
            Some((here, node))
        })
    }

    /// True if the text is an array, or an object with nothing but an array in it, of at least `min_rows` objects without arrays
    /// or objects in them, each of whose keys nine of ten of them have.
    pub(super) fn is_tabular(&self, min_rows: u32) -> bool {
        let mut at = 0;
        if let Some(Value::Object { layout, .. }) = self.value(at)
            && self.layouts.fields(layout).len() == 1
        {
            at += 1;
        }
        match self.value(at) {
            Some(Value::Table { count, layout, .. }) => count >= min_rows && self.layouts.is_flat(layout),
            Some(Value::List { count, .. }) => count >= min_rows && self.is_nearly_uniform(at, count),
            _ => false,
        }
    }

    fn is_nearly_uniform(&self, list: At, rows: u32) -> bool {
        let mut seen = vec![0_u32; self.names.len()];
        for (_, row) in self.children(list) {
            let Value::Object { layout, .. } = row.value else { return false };
            if !self.layouts.is_flat(layout) {
                return false;
            }
            for &(name, _) in self.layouts.fields(layout) {
                if let Some(seen) = seen.get_mut(name as usize) {
                    *seen += 1;
                }
            }
        }
        let few = |&seen: &u32| seen > 0 && u64::from(seen) * 10 < u64::from(rows) * 9;
        !seen.iter().any(few)
    }

    fn after(&self, at: At) -> At {
        match self.value(at) {
            Some(
                Value::Inline { after, .. }
                | Value::Table { after, .. }
                | Value::List { after, .. }
                | Value::Object { after, .. },
            ) => after,
            Some(Value::Word(_) | Value::Number(_) | Value::Text(_)) | None => at + 1,
        }
    }
}

/// A tape that is being written.
struct Draft<'a> {
    tape: Tape<'a>,
    /// The arrays and objects around the next value.
    open: Vec<Open>,
    /// The fields so far of the objects among them.
    fields: Vec<Field>,
    /// The key before the next value.
    name: NameId,
    /// At each depth, the layout of the object that was closed last.
    guesses: Vec<Option<LayoutId>>,
}

struct Open {
    at: At,
    inside: Inside,
}

enum Inside {
    /// An object, whose fields begin here.
    Fields(usize),
    Elements {
        count: u32,
        alike: Alike,
    },
}

/// What the elements of an array have in common.
#[derive(Clone, Copy)]
enum Alike {
    /// There is none yet.
    None,
    Plain,
    /// All have this shape; the first has this layout.
    Shape(ShapeId, LayoutId),
    Nothing,
}

impl<'a> Draft<'a> {
    fn take(&mut self, event: Event<'_>) -> Result<(), NotEncodable> {
        match event {
            Event::ObjectBegin { .. } => {
                let fields = self.fields.len();
                self.begin(Value::Object { after: 0, layout: 0 }, Inside::Fields(fields))
            }
            Event::ArrayBegin { .. } => self
                .begin(Value::List { after: 0, count: 0 }, Inside::Elements { count: 0, alike: Alike::None }),
            Event::ObjectEnd { .. } | Event::ArrayEnd { .. } => self.end(),
            Event::Key(token) => {
                let raw = self.tape.text(inside(token)?);
                self.name = self.tape.names.intern(raw)?;
                Ok(())
            }
            Event::String(token) => self.plain(Value::Text(inside(token)?)),
            Event::Number(token) => self.plain(Value::Number(slice(token.span)?)),
            Event::Literal(token) => self.plain(Value::Word(slice(token.span)?)),
        }
    }

    fn push(&mut self, value: Value) -> Result<At, NotEncodable> {
        let at = narrow(self.tape.nodes.len())?;
        self.tape.nodes.push(Node { name: self.name, value });
        Ok(at)
    }

    fn plain(&mut self, value: Value) -> Result<(), NotEncodable> {
        let at = self.push(value)?;
        self.add(at, Holds::Plain);
        Ok(())
    }

    fn begin(&mut self, value: Value, inside: Inside) -> Result<(), NotEncodable> {
        if self.open.len() == MAX_DEPTH {
            return Err(NotEncodable::TooDeep);
        }
        let at = self.push(value)?;
        self.open.push(Open { at, inside });
        Ok(())
    }

    fn end(&mut self) -> Result<(), NotEncodable> {
        let after = narrow(self.tape.nodes.len())?;
        let Some(Open { at, inside }) = self.open.pop() else { return Ok(()) };
        let (value, holds) = match inside {
            Inside::Fields(begin) => {
                let layout = self.layout(begin)?;
                (Value::Object { after, layout }, Holds::Object(layout))
            }
            Inside::Elements { count, alike } => (alike.array(after, count), Holds::Array),
        };
        if let Some(node) = self.tape.nodes.get_mut(at as usize) {
            node.value = value;
        }
        self.add(at, holds);
        Ok(())
    }

    fn layout(&mut self, begin: usize) -> Result<LayoutId, NotEncodable> {
        let depth = self.open.len();
        if self.guesses.len() <= depth {
            self.guesses.resize(depth + 1, None);
        }
        let guess = self.guesses.get(depth).copied().flatten();
        let fields = self.fields.get(begin..).unwrap_or_default();
        let layout = self.tape.layouts.intern(fields, guess)?;
        self.fields.truncate(begin);
        if let Some(guess) = self.guesses.get_mut(depth) {
            *guess = Some(layout);
        }
        Ok(layout)
    }

    /// Tells what is around a value that it is complete.
    fn add(&mut self, at: At, holds: Holds) {
        match self.open.last_mut().map(|open| &mut open.inside) {
            Some(Inside::Fields(_)) => {
                let name = self.tape.nodes.get(at as usize).map_or(0, |node| node.name);
                self.fields.push((name, holds));
            }
            Some(Inside::Elements { count, alike }) => {
                *count += 1;
                *alike = alike.and(holds, &self.tape.layouts);
            }
            None => {}
        }
    }
}

impl Alike {
    fn and(self, holds: Holds, layouts: &Layouts) -> Alike {
        match (self, holds) {
            (Alike::None | Alike::Plain, Holds::Plain) => Alike::Plain,
            (Alike::None | Alike::Shape(..), Holds::Object(layout)) => match (self, layouts.shape(layout)) {
                (Alike::None, Some(shape)) => Alike::Shape(shape, layout),
                (Alike::Shape(first, _), Some(shape)) if first == shape => self,
                _ => Alike::Nothing,
            },
            _ => Alike::Nothing,
        }
    }

    fn array(self, after: At, count: u32) -> Value {
        match self {
            Alike::None | Alike::Plain => Value::Inline { after, count },
            Alike::Shape(_, layout) => Value::Table { after, count, layout },
            Alike::Nothing => Value::List { after, count },
        }
    }
}

/// The most values that a text can have: before each but the first stands a comma or an opening bracket.
fn most_values(text: &str) -> usize {
    // So few at a time that a byte can count them, which is many times faster.
    let counts = text.as_bytes().chunks(255).map(|bytes| {
        bytes.iter().map(|byte| u8::from(matches!(byte, b',' | b'[' | b'{'))).fold(0, u8::wrapping_add)
    });
    1 + counts.map(usize::from).sum::<usize>()
}

fn slice(span: jsonspan::Span) -> Result<Slice, NotEncodable> {
    let narrow = |offset: u64| u32::try_from(offset).map_err(|_| NotEncodable::TooLong);
    Ok(Slice { start: narrow(span.start)?, end: narrow(span.end)? })
}

fn inside(token: Token<'_>) -> Result<Slice, NotEncodable> {
    slice(token.span.inside())
}
