//! Where the members and elements of a JSON text lie. For text that was parsed before: nothing is checked again.

use std::ops::Range;

/// A member of an object or an element of a list, as byte ranges of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The key with its quotes; `None` in a list.
    pub(super) key: Option<Range<usize>>,
    /// The value.
    pub(super) value: Range<usize>,
}

impl Part {
    /// The first byte of key or value.
    pub(super) fn start(&self) -> usize {
        self.key.as_ref().map_or(self.value.start, |key| key.start)
    }

    /// Whether the key is `name`, however it is escaped.
    pub(super) fn is_named(&self, text: &str, name: &str) -> bool {
        let literal = self.key.clone().and_then(|key| text.get(key));
        literal.and_then(|key| serde_json::from_str::<String>(key).ok()).as_deref() == Some(name)
    }
}

/// The parts of the object or list that begins at `at`.
pub(super) fn parts(text: &str, at: usize) -> Vec<Part> {
    let bytes = text.as_bytes();
    let in_object = bytes.get(at) == Some(&b'{');
    let mut parts = Vec::new();
    let mut here = skip(bytes, at + 1, b"");
    while bytes.get(here).is_some_and(|b| !matches!(b, b'}' | b']')) {
        let key = in_object.then(|| here..string_end(bytes, here));
        let start = key.as_ref().map_or(here, |key| skip(bytes, key.end, b":"));
        let end = value_end(bytes, start);
        parts.push(Part { key, value: start..end });
        here = skip(bytes, end, b",");
    }
    parts
}

/// The first byte at or after `at` that is neither white space nor one of `also`.
pub(super) fn skip(bytes: &[u8], at: usize, also: &[u8]) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let found = rest.iter().position(|b| !b.is_ascii_whitespace() && !also.contains(b));
    found.map_or(bytes.len(), |found| at + found)
}

/// The byte after the value that begins at `at`.
pub(super) fn value_end(bytes: &[u8], at: usize) -> usize {
    let mut here = at;
    let mut depth = 0usize;
    while let Some(byte) = bytes.get(here) {
        match byte {
            b'"' => here = string_end(bytes, here),
            b'{' | b'[' => {
                depth += 1;
                here += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                here += 1;
            }
            b',' | b':' if depth > 0 => {
                here += 1;
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                here += 1;
                continue;
            }
            _ => here = literal_end(bytes, here),
        }
        if depth == 0 {
            return here;
        }
    }
    here
}

/// The byte after the text that begins at `at` with a quote.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut here = at + 1;
    while let Some(byte) = bytes.get(here) {
        match byte {
            b'"' => return here + 1,
            b'\\' => here += 2,
            _ => here += 1,
        }
    }
    bytes.len()
}

/// The byte after a number, `true`, `false` or `null`.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at + 1..).unwrap_or_default();
    let found = rest.iter().position(|b| b.is_ascii_whitespace() || b",:]}".contains(b));
    found.map_or(bytes.len(), |found| at + 1 + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_where_they_stand() {
        let text = r#" {"a" : 1,"b\"}":[{"x":"]}"}, -1.5e3 , "c\\"], "d":{} , "e":null}"#;
        let members = parts(text, 1);
        let shown: Vec<_> =
            members.iter().map(|p| (&text[p.key.clone().unwrap()], &text[p.value.clone()])).collect();
        let right = [
            (r#""a""#, "1"),
            (r#""b\"}""#, r#"[{"x":"]}"}, -1.5e3 , "c\\"]"#),
            (r#""d""#, "{}"),
            (r#""e""#, "null"),
        ];
        assert_eq!(shown, right);
        assert!(members[1].is_named(text, "b\"}") && !members[1].is_named(text, "b"));
        let elements: Vec<_> =
            parts(text, members[1].value.start).into_iter().map(|p| &text[p.value]).collect();
        assert_eq!(elements, [r#"{"x":"]}"}"#, "-1.5e3", r#""c\\""#]);
        assert!(parts("[ ]", 0).is_empty() && parts("{}", 0).is_empty());
    }
}
