//! Writes a tape as TOON, line by line.

use std::fmt::Write as _;

use super::intern::narrow;
use super::layout::{Holds, LayoutId};
use super::tape::{At, Node, Tape, Value};
use super::{NotEncodable, Options, number, string};

type Written = Result<(), NotEncodable>;

/// Appends the TOON of a text to `out`, which may come to have `limit` bytes and no more.
pub(super) fn append(
    tape: &Tape<'_>,
    options: &Options,
    out: String,
    limit: usize,
) -> Result<String, NotEncodable> {
    let start = out.len();
    let indent = usize::from(options.indent_size.get());
    let mut writer = Writer { tape, out, start, limit, indent, delimiter: options.delimiter.byte() };
    writer.root()?;
    if writer.out.len() > limit {
        return Err(NotEncodable::TooMuchOutput);
    }
    Ok(writer.out)
}

/// Its functions call each other at most as deep as the text is nested, which the tape has bounded.
struct Writer<'t> {
    tape: &'t Tape<'t>,
    out: String,
    /// Where the first line begins.
    start: usize,
    limit: usize,
    /// Spaces for each level.
    indent: usize,
    delimiter: u8,
}

impl Writer<'_> {
    fn root(&mut self) -> Written {
        match self.tape.value(0) {
            Some(Value::Inline { count: 0, .. }) => self.out.push_str("[]"),
            Some(Value::Object { layout, .. }) if self.is_keyed(layout) => return self.keyed(0, layout, 0),
            Some(Value::Object { .. }) => return self.fields(0, 0, false),
            Some(array @ (Value::Inline { .. } | Value::Table { .. } | Value::List { .. })) => {
                return self.array(0, array, 0);
            }
            Some(plain) => return self.plain(plain),
            None => {}
        }
        Ok(())
    }

    /// Begins a line.
    fn line(&mut self, depth: usize) -> Written {
        self.within_limit()?;
        if self.out.len() > self.start {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(' ', depth * self.indent));
        Ok(())
    }

    fn within_limit(&self) -> Written {
        if self.out.len() > self.limit { Err(NotEncodable::TooMuchOutput) } else { Ok(()) }
    }

    /// The fields of an object, a line or more for each; the first may go on in a line that is begun.
    fn fields(&mut self, object: At, depth: usize, mut goes_on: bool) -> Written {
        for (at, node) in self.tape.children(object) {
            if !std::mem::take(&mut goes_on) {
                self.line(depth)?;
            }
            self.field(at, node, depth)?;
        }
        Ok(())
    }

    fn field(&mut self, at: At, node: Node, depth: usize) -> Written {
        self.out.push_str(self.tape.names.written(node.name));
        match node.value {
            Value::Inline { count: 0, .. } => self.out.push_str(": []"),
            array @ (Value::Inline { .. } | Value::Table { .. } | Value::List { .. }) => {
                return self.array(at, array, depth);
            }
            Value::Object { layout, .. } if self.is_keyed(layout) => return self.keyed(at, layout, depth),
            Value::Object { .. } => {
                self.out.push(':');
                return self.fields(at, depth + 1, false);
            }
            plain => {
                self.out.push_str(": ");
                return self.plain(plain);
            }
        }
        Ok(())
    }

    /// An array from its bracket on, behind a key that stands at `depth`.
    fn array(&mut self, at: At, array: Value, depth: usize) -> Written {
        match array {
            Value::Table { count, layout, .. } => {
                self.length(count, "");
                self.columns(layout);
                self.out.push(':');
                for (row, _) in self.tape.children(at) {
                    self.line(depth + 1)?;
                    self.row(row, layout)?;
                }
                Ok(())
            }
            _ => self.anonymous(at, array, depth),
        }
    }

    /// An array as an array in an array is written, never as a table.
    fn anonymous(&mut self, at: At, array: Value, depth: usize) -> Written {
        match array {
            Value::Inline { after, count } => {
                self.length(count, "");
                self.out.push_str(if count == 0 { ":" } else { ": " });
                self.cells(self.tape.nodes(at + 1, after), true)
            }
            Value::Table { count, .. } | Value::List { count, .. } => {
                self.length(count, "");
                self.out.push(':');
                for (at, node) in self.tape.children(at) {
                    self.line(depth + 1)?;
                    self.item(at, node.value, depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn item(&mut self, at: At, value: Value, depth: usize) -> Written {
        self.out.push('-');
        match value {
            Value::Object { after, .. } if after == at + 1 => Ok(()),
            Value::Object { .. } => {
                self.out.push(' ');
                self.fields(at, depth + 1, true)
            }
            Value::Inline { .. } | Value::Table { .. } | Value::List { .. } => {
                self.out.push(' ');
                self.anonymous(at, value, depth)
            }
            plain => {
                self.out.push(' ');
                self.plain(plain)
            }
        }
    }

    /// An object whose fields are the rows of a table.
    fn keyed(&mut self, at: At, layout: LayoutId, depth: usize) -> Written {
        let fields = self.tape.layouts.fields(layout);
        let Some(&(_, Holds::Object(columns))) = fields.first() else { return Ok(()) };
        self.length(narrow(fields.len())?, ":");
        self.columns(columns);
        self.out.push(':');
        for (row, node) in self.tape.children(at) {
            self.line(depth + 1)?;
            self.out.push_str(self.tape.names.written(node.name));
            self.out.push_str(": ");
            self.row(row, columns)?;
        }
        Ok(())
    }

    fn length(&mut self, count: u32, mark: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "[{count}{mark}");
        if self.delimiter != b',' {
            self.out.push(char::from(self.delimiter));
        }
        self.out.push(']');
    }

    fn columns(&mut self, layout: LayoutId) {
        self.out.push('{');
        for (place, &(name, holds)) in self.tape.layouts.fields(layout).iter().enumerate() {
            if place > 0 {
                self.out.push(char::from(self.delimiter));
            }
            self.out.push_str(self.tape.names.written(name));
            if let Holds::Object(inner) = holds {
                self.columns(inner);
            }
        }
        self.out.push('}');
    }

    fn row(&mut self, object: At, columns: LayoutId) -> Written {
        self.part_of_row(object, columns, true)
    }

    /// The cells of an object in the order of the columns.
    fn part_of_row(&mut self, object: At, columns: LayoutId, mut first: bool) -> Written {
        let Some(Value::Object { after, layout }) = self.tape.value(object) else { return Ok(()) };
        if layout == columns {
            return self.cells(self.tape.nodes(object + 1, after), first);
        }
        let tape = self.tape;
        let members: Vec<(At, Value)> = tape.children(object).map(|(at, node)| (at, node.value)).collect();
        for &(name, holds) in tape.layouts.fields(columns) {
            let place = tape.layouts.place(layout, name);
            let Some(&(at, value)) = place.and_then(|place| members.get(place)) else { continue };
            match holds {
                Holds::Object(inner) => self.part_of_row(at, inner, first)?,
                Holds::Plain | Holds::Array => self.cell(value, first)?,
            }
            first = false;
        }
        Ok(())
    }

    /// The plain values among these.
    fn cells(&mut self, nodes: &[Node], mut first: bool) -> Written {
        for node in nodes {
            if let Value::Word(_) | Value::Number(_) | Value::Text(_) = node.value {
                self.cell(node.value, first)?;
                first = false;
            }
        }
        Ok(())
    }

    fn cell(&mut self, value: Value, first: bool) -> Written {
        if !first {
            self.out.push(char::from(self.delimiter));
        }
        self.plain(value)
    }

    fn plain(&mut self, value: Value) -> Written {
        self.within_limit()?;
        match value {
            Value::Word(slice) => self.out.push_str(self.tape.text(slice)),
            Value::Number(slice) => number::append(self.tape.text(slice), &mut self.out)?,
            Value::Text(slice) => string::append(self.tape.text(slice), self.delimiter, &mut self.out)?,
            _ => {}
        }
        Ok(())
    }

    fn is_keyed(&self, layout: LayoutId) -> bool {
        self.tape.layouts.is_keyed(layout)
    }
}
