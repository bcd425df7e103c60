//! How a text is laid out, so that what is put in looks like what stands beside it.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use super::parts::{Part, parts, value_end};

/// The layout of a whole text.
pub(super) struct Style<'t> {
    newline: &'static str,
    unit: &'t str,
    /// Whether the top level stands on several lines.
    is_tall: bool,
    /// Whether there is a space after a colon.
    is_airy: bool,
}

impl<'t> Style<'t> {
    /// The layout of the text whose top level begins at `root`.
    pub(super) fn of(text: &'t str, root: usize) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let members = parts(text, root);
        let lead = members.first().map(|first| &text[root + 1..first.start()]);
        let indent = lead.and_then(|lead| lead.rsplit_once('\n')).map(|(_, indent)| indent);
        let colon = members.last().and_then(|last| Some(&text[last.key.as_ref()?.end..last.value.start]));
        Self {
            newline,
            unit: indent.unwrap_or("  "),
            is_tall: lead.is_none_or(|lead| lead.contains('\n')),
            is_airy: colon.is_none_or(|colon| colon.ends_with(char::is_whitespace)),
        }
    }

    /// Text of a member or element that is added to the container at `at`, and the byte range that it takes.
    pub(super) fn insertion(
        &self,
        text: &str,
        at: usize,
        key: Option<&str>,
        value: &Value,
    ) -> (std::ops::Range<usize>, String) {
        let members = parts(text, at);
        let Some(last) = members.last() else {
            let inside = at + 1..value_end(text.as_bytes(), at).saturating_sub(1);
            return (inside, self.first(line_indent(text, at), key, value));
        };
        let before = members.iter().rev().nth(1);
        let separator = match before {
            Some(before) => without_blank_lines(&text[before.value.end..last.start()]),
            None => self.separator_after_one(&text[at + 1..last.start()]),
        };
        let colon = last.key.as_ref().map(|key| &text[key.end..last.value.start]);
        let colon = colon.filter(|colon| !colon.contains('\n')).unwrap_or(self.colon());
        let is_tall = separator.contains('\n');
        let mut out = separator;
        if let Some(key) = key {
            out.push_str(&literal(key));
            out.push_str(colon);
        }
        out.push_str(&self.value(value, is_tall, line_indent(text, last.start())));
        (last.value.end..last.value.end, out)
    }

    /// The text of a value that takes the place of that of `part`.
    pub(super) fn replacement(&self, text: &str, part: &Part, value: &Value) -> String {
        let line = text[..part.start()].rfind('\n').map_or(0, |end| end + 1);
        let begins_line = text[line..part.start()].trim().is_empty() && line > 0;
        let old = &text[part.value.clone()];
        let was_flat = old.len() > 2 && old.starts_with(['[', '{']) && !old.contains('\n');
        self.value(value, begins_line && !was_flat, line_indent(text, part.start()))
    }

    /// The only member of a container that was empty.
    fn first(&self, indent: &str, key: Option<&str>, value: &Value) -> String {
        let key = key.map(|key| literal(key) + self.colon()).unwrap_or_default();
        if !self.is_tall {
            return key + &self.value(value, false, indent);
        }
        let (newline, inner) = (self.newline, format!("{indent}{}", self.unit));
        format!("{newline}{inner}{key}{}{newline}{indent}", self.value(value, true, &inner))
    }

    fn separator_after_one(&self, lead: &str) -> String {
        match lead.rsplit_once('\n') {
            Some((_, indent)) => format!(",{}{indent}", self.newline),
            None if lead.is_empty() && !self.is_airy => ",".to_owned(),
            None => ", ".to_owned(),
        }
    }

    fn colon(&self) -> &'static str {
        if self.is_airy { ": " } else { ":" }
    }

    /// A value on one line, or on several below `indent`.
    fn value(&self, value: &Value, is_tall: bool, indent: &str) -> String {
        let text = if is_tall {
            written(value, PrettyFormatter::with_indent(self.unit.as_bytes()))
        } else if self.is_airy {
            written(value, Airy)
        } else {
            written(value, CompactFormatter)
        };
        // A line break inside a JSON text is always written as an escape.
        text.replace('\n', &format!("{}{indent}", self.newline))
    }
}

/// The white space at the beginning of the line of byte `at`.
fn line_indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[start..at];
    &line[..line.len() - line.trim_start().len()]
}

/// A separator with at most one line break.
fn without_blank_lines(separator: &str) -> String {
    if separator.matches('\n').count() < 2 {
        return separator.to_owned();
    }
    let newline = if separator.contains("\r\n") { "\r\n" } else { "\n" };
    let indent = separator.rsplit('\n').next().unwrap_or("");
    let comma = if indent.contains(',') { "" } else { "," };
    format!("{comma}{newline}{indent}")
}

fn literal(key: &str) -> String {
    Value::from(key).to_string()
}

fn written(value: &Value, formatter: impl Formatter) -> String {
    let mut out = Vec::new();
    // Neither a value nor a vector can fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, formatter));
    String::from_utf8(out).unwrap_or_default()
}

/// One line with a space after each comma and colon.
struct Airy;

impl Formatter for Airy {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}
