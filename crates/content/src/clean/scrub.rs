//! Values of forwarded headers: found exactly as they were sent, wherever they come back.

use std::ops::Range;

use super::view::{EDGE, View};
use super::words::Words;

/// From this length on, in bytes, a value is replaced wherever it stands. A shorter one only where its header's name stands right
/// before it, because a tenant called `42` must not blot out every 42.
pub const MIN_ANYWHERE: usize = 8;

/// The most headers.
const MAX_HEADERS: usize = 64;

/// The headers of a client that were forwarded to an upstream.
#[derive(Debug, Default)]
pub struct Forwarded {
    names: Vec<String>,
    /// For each pattern the header that it belongs to, and whether it stands for itself anywhere.
    patterns: Vec<(usize, bool)>,
    search: Option<Words>,
}

impl Forwarded {
    /// Names and values as they were sent. Of `Bearer x` and the like also `x` alone is looked for, of cookies each value. Empty
    /// values are ignored, as are headers beyond 64.
    #[must_use]
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Forwarded {
        let (mut names, mut patterns, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (name, value)) in headers.into_iter().take(MAX_HEADERS).enumerate() {
            names.push(token(name));
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            let parts = parts(value).filter(|part| part.len() >= MIN_ANYWHERE && *part != value);
            for part in std::iter::once(value).chain(parts) {
                patterns.push((index, part.len() >= MIN_ANYWHERE));
                values.push(part.to_owned());
            }
        }
        Forwarded { names, patterns, search: Words::new(&values) }
    }

    /// True if there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.search.is_none()
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reports each value that begins in `range`, with the place of its header.
    pub(crate) fn scan(
        &self,
        view: &View,
        range: Range<usize>,
        work: &mut u64,
        found: &mut impl FnMut(Range<usize>, usize),
    ) {
        let Some(search) = &self.search else { return };
        let mut at = range.start;
        *work += range.len() as u64;
        let text = view.text();
        while let Some((hit, pattern)) = search.find(text, at..text.len()) {
            if hit.start >= range.end {
                return;
            }
            at = hit.start + 1;
            let Some(&(header, anywhere)) = self.patterns.get(pattern) else { continue };
            let name = self.names.get(header).map_or("", String::as_str);
            if anywhere || follows_name(text, hit.clone(), name) {
                at = hit.end;
                found(hit, header);
            }
        }
    }
}

/// What of a value is secret on its own: what follows a scheme, the values of cookies.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let after_scheme = value.split_once(' ').map(|(_, rest)| rest.trim());
    let cookies = value.split(';').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.trim());
    after_scheme.into_iter().chain(cookies.filter(move |_| value.contains('=')))
}

/// True if the value ends at the end of a word and its header's name stands before it, with nothing but signs between.
fn follows_name(text: &[u8], value: Range<usize>, name: &str) -> bool {
    let is_sign =
        |byte: &&u8| matches!(**byte, b' ' | b'\t' | b':' | b'=' | b'"' | b'\'' | b'\\' | b'>' | EDGE);
    let before = text.get(value.start.saturating_sub(name.len() + 8)..value.start).unwrap_or_default();
    let signs = before.iter().rev().take_while(is_sign).count();
    let head = before.get(..before.len() - signs).unwrap_or_default();
    let ends = !text.get(value.end).is_some_and(u8::is_ascii_alphanumeric);
    let tail = head.len().checked_sub(name.len()).and_then(|from| head.get(from..)).unwrap_or_default();
    ends && signs > 0 && !name.is_empty() && tail.eq_ignore_ascii_case(name.as_bytes())
}

/// The name without what is no part of a header's name, so that it can stand in a mark.
fn token(name: &str) -> String {
    let is_token = |c: &char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(*c);
    name.chars().filter(is_token).take(128).collect()
}
