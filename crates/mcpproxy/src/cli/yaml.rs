//! JSON as YAML that every reader takes the same way, of 1.1 as of 1.2: block style, and quotes wherever a word could mean
//! something else. Numbers keep their digits and members their order.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Longest key that stands before a colon; readers of 1.1 take 1024 characters.
const SIMPLE_KEY: usize = 128;

/// The same value as YAML. What is no JSON, or nests too deep, stays as it is.
pub fn of(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + json.len() / 8);
    match serde_json::from_str::<&RawValue>(json.trim()).ok().and_then(|raw| emit(raw, 0, &mut text)) {
        Some(()) => text,
        None => format!("{json}\n"),
    }
}

/// Members of an object in their order; of equal names the last one counts, as JSON readers have it.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &RawValue)> = Vec::new();
                let mut places: HashMap<String, usize> = HashMap::new();
                while let Some((raw, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    let name = gateway::literal_text(raw.get());
                    match places.get(&name).and_then(|at| members.get_mut(*at)) {
                        Some(member) => member.1 = value,
                        None => {
                            places.insert(name.clone(), members.len());
                            members.push((name, value));
                        }
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Writes a value that begins a line of its own at this depth.
fn emit(raw: &RawValue, depth: usize, out: &mut String) -> Option<()> {
    match raw.get().as_bytes().first()? {
        b'{' => {
            let Members(members) = serde_json::from_str(raw.get()).ok()?;
            if members.is_empty() {
                out.push_str("{}\n");
            }
            for (number, (name, value)) in members.into_iter().enumerate() {
                indent(if number == 0 { 0 } else { depth }, out);
                let key = scalar(&name);
                if key.len() > SIMPLE_KEY {
                    out.push_str(&format!("? {key}\n"));
                    indent(depth, out);
                } else {
                    out.push_str(&key);
                }
                out.push(':');
                member(value, depth, out)?;
            }
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
            if items.is_empty() {
                out.push_str("[]\n");
            }
            for (number, item) in items.into_iter().enumerate() {
                indent(if number == 0 { 0 } else { depth }, out);
                out.push_str("- ");
                emit(item, depth + 1, out)?;
            }
        }
        b'"' => out.push_str(&(scalar(&gateway::literal_text(raw.get())) + "\n")),
        b'-' | b'0'..=b'9' => out.push_str(&(number(raw.get()) + "\n")),
        _ => out.push_str(&format!("{}\n", raw.get())),
    }
    Some(())
}

/// Writes what stands behind a colon: on the same line, or as a block beneath it.
fn member(value: &RawValue, depth: usize, out: &mut String) -> Option<()> {
    let text = value.get();
    let is_block = text.starts_with(['{', '[']) && text[1..text.len() - 1].trim() != "";
    if is_block {
        out.push('\n');
        indent(depth + 1, out);
        return emit(value, depth + 1, out);
    }
    out.push(' ');
    emit(value, depth, out)
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Readers of 1.1 take a number with an exponent for one only if it has a point and the exponent a sign.
fn number(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once(['e', 'E']) else { return text.to_owned() };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

/// A string, bare only where it cannot be taken for anything else.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let word = text.to_ascii_lowercase();
    let meaning = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&word.as_str());
    if begins && !meaning && !text.ends_with(' ') && text.chars().all(plain) {
        return text.to_owned();
    }
    quoted(text)
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04X}", u32::from(c)));
            }
            c if c.is_control() => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_blocks_with_their_digits_and_their_order() {
        let json = r#"{"z":1,"a":{"list":[1,{"x":null,"y":[]},[true,"b"]],"none":{}},"n":1e45,"m":123456789012345678901234567890,"z":2}"#;
        let expected = "z: 2\na:\n  list:\n    - 1\n    - x: null\n      \"y\": []\n    - - true\n      - b\n  none: {}\n\
                        \"n\": 1.0e+45\nm: 123456789012345678901234567890\n";
        assert_eq!(of(json), expected);
        assert_eq!(of("[]"), "[]\n");
        assert_eq!(of("\"x\""), "x\n");
        assert_eq!(of("not json"), "not json\n");
    }

    #[test]
    fn words_that_mean_something_are_quoted() {
        for text in [
            "", "yes", "No", "~", "1", "-", "a: b", "a #b", " a", "a ", "01:20", "é", "#", "<<", "=", "0x1f",
            "*a", "NULL",
        ] {
            let out = scalar(text);
            assert!(out.starts_with('"') && out.ends_with('"'), "{text:?} became {out}");
        }
        for text in ["server", "/srv/out/a-b.txt", "call_tool_read", "two words"] {
            assert_eq!(scalar(text), text);
        }
        assert_eq!(scalar("a\n\u{1b}\u{85}\u{2028}\"\\"), r#""a\n\x1B\x85\u2028\"\\""#);
        let long = "k".repeat(200);
        assert_eq!(of(&format!("{{\"{long}\":[1]}}")), format!("? {long}\n:\n  - 1\n"));
    }
}
