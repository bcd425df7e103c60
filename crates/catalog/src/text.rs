//! JSON strings as they come: an unpaired surrogate escape becomes U+FFFD instead of losing the whole entry.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A decoded JSON string.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Nothing had to be replaced.
    pub(crate) exact: bool,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_bytes(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => Text { text: text.to_owned(), exact: true },
            Err(_) => Text { text: String::from_utf8_lossy(bytes).into_owned(), exact: false },
        })
    }
}

/// The longest prefix of at most so many bytes that splits no character.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_decode_and_only_unpaired_surrogates_are_replaced() {
        for (json, text, exact) in [
            (r#""plain""#, "plain", true),
            (r#""a\u0000\n\ud83d\ude00""#, "a\0\n😀", true),
            (r#""a\ud800b""#, "a\u{fffd}\u{fffd}\u{fffd}b", false),
        ] {
            let read: Text = serde_json::from_str(json).unwrap();
            assert_eq!((read.text.as_str(), read.exact), (text, exact), "{json}");
        }
        assert!(serde_json::from_str::<Text>("[1]").is_err());
    }
}
