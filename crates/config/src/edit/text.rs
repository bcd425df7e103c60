//! One change in a JSON text: the bytes of the value change and no others.

use serde_json::{Map, Value};

use super::Step;
use super::parts::{Part, parts, skip, value_end};
use super::style::Style;
use crate::Document;
use crate::problem::{Problem, element, member};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The text with `value` at `at`, or without what stands there.
pub(super) fn changed(text: &str, at: &[Step<'_>], value: Option<&Value>) -> Result<String, Problem> {
    let old = parsed(text)?;
    if lookup(&old, at) == value {
        return Ok(text.to_owned());
    }
    let json = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mark = &text[..text.len() - json.len()];
    let blank = json.trim().is_empty();
    let json = if blank { "{}\n" } else { json };
    let new = format!("{mark}{}", apply(json, at, value)?);
    if lookup(&parsed(&new)?, at) != value {
        let fix = "edit the file by hand, and report this";
        return Err(Problem::new(shown(at), "could not be changed in the text as it is", fix));
    }
    Ok(new)
}

/// What stands at a place.
pub(super) fn lookup<'v>(root: &'v Value, at: &[Step<'_>]) -> Option<&'v Value> {
    at.iter().try_fold(root, |value, step| match step {
        Step::Key(name) => value.as_object()?.get(*name),
        Step::Index(index) => value.as_array()?.get(*index),
        Step::Server(name) => match value {
            Value::Array(entries) => entries.iter().find(|entry| entry["name"] == *name),
            other => other.as_object()?.get(*name),
        },
    })
}

/// The text as a value, if it is in order.
pub(super) fn parsed(text: &str) -> Result<Value, Problem> {
    match Document::parse(text) {
        Ok(document) => Ok(Value::Object(document.root().clone())),
        Err(problems) => Err(problems
            .into_iter()
            .next()
            .unwrap_or_else(|| Problem::new("$", "is not in order", "run: mcpproxy config validate"))),
    }
}

/// A place as a JSON path.
pub(super) fn shown(at: &[Step<'_>]) -> String {
    at.iter().fold("$".to_owned(), |path, step| match step {
        Step::Key(name) => member(&path, name),
        Step::Index(index) => element(&path, *index),
        Step::Server(name) => format!("{path}[{name}]"),
    })
}

/// Where the walk ended.
enum Found {
    /// At the part with this number of the container.
    There(usize, usize),
    /// At a container that lacks the first of the remaining steps.
    Lacks(usize),
    /// At a `null` that must become a container first.
    Null(usize),
}

fn apply(text: &str, at: &[Step<'_>], value: Option<&Value>) -> Result<String, Problem> {
    let root = skip(text.as_bytes(), 0, b"");
    let style = Style::of(text, root);
    let (found, rest) = walk(text, root, at)?;
    let put = |range: std::ops::Range<usize>, new: &str| {
        format!("{}{new}{}", &text[..range.start], &text[range.end..])
    };
    match (found, value) {
        (Found::There(container, index), Some(value)) => {
            let part = part(text, container, index);
            let new = style.replacement(text, &part, value);
            Ok(put(part.value, &new))
        }
        (Found::There(container, index), None) => Ok(put(removal(text, container, index), "")),
        // What is not there need not be taken out.
        (Found::Lacks(_) | Found::Null(_), None) => Ok(text.to_owned()),
        (Found::Lacks(container), Some(value)) => {
            let (first, below) = rest.split_first().ok_or_else(|| nowhere(at))?;
            let key = match first {
                Step::Key(name) | Step::Server(name) => Some(*name),
                Step::Index(_) => None,
            };
            let (range, new) = style.insertion(text, container, key, &nested(below, value, at)?);
            Ok(put(range, &new))
        }
        (Found::Null(start), Some(value)) => {
            let part = Part { key: None, value: start..start + "null".len() };
            let new = style.replacement(text, &part, &nested(rest, value, at)?);
            Ok(put(part.value, &new))
        }
    }
}

/// Goes down as far as the text goes.
fn walk<'s, 'a>(text: &str, root: usize, at: &'s [Step<'a>]) -> Result<(Found, &'s [Step<'a>]), Problem> {
    let mut container = root;
    for (depth, step) in at.iter().enumerate() {
        let rest = &at[depth..];
        let opening = text.as_bytes().get(container).copied();
        if opening == Some(b'n') {
            return Ok((Found::Null(container), rest));
        }
        let all = parts(text, container);
        let index = match (step, opening) {
            (Step::Key(name) | Step::Server(name), Some(b'{')) => {
                all.iter().position(|part| part.is_named(text, name))
            }
            (Step::Index(index), Some(b'[')) if *index < all.len() => Some(*index),
            (Step::Index(index), Some(b'[')) if *index == all.len() => None,
            (Step::Server(name), Some(b'[')) => {
                let named = |part: &Part| is_server(text, part, name);
                Some(all.iter().position(named).ok_or_else(|| no_server(name))?)
            }
            _ => return Err(not_a_container(&at[..depth], step)),
        };
        match index {
            None if matches!(step, Step::Server(_)) => return Err(no_server(step.name())),
            None => return Ok((Found::Lacks(container), rest)),
            Some(index) if depth + 1 == at.len() => return Ok((Found::There(container, index), &[])),
            Some(index) => container = all[index].value.start,
        }
    }
    Err(nowhere(at))
}

fn is_server(text: &str, entry: &Part, name: &str) -> bool {
    text.as_bytes().get(entry.value.start) == Some(&b'{')
        && parts(text, entry.value.start).iter().any(|part| {
            part.is_named(text, "name")
                && serde_json::from_str::<String>(&text[part.value.clone()]).is_ok_and(|own| own == name)
        })
}

fn part(text: &str, container: usize, index: usize) -> Part {
    let end = value_end(text.as_bytes(), container);
    parts(text, container).into_iter().nth(index).unwrap_or(Part { key: None, value: end..end })
}

/// The bytes of a part with its comma.
fn removal(text: &str, container: usize, index: usize) -> std::ops::Range<usize> {
    let all = parts(text, container);
    let end = all.get(index).map_or(container + 1, |part| part.value.end);
    match (index.checked_sub(1).and_then(|before| all.get(before)), all.get(index + 1)) {
        (Some(before), _) => before.value.end..end,
        (None, Some(next)) => all[index].start()..next.start(),
        (None, None) => container + 1..value_end(text.as_bytes(), container).saturating_sub(1),
    }
}

/// The value inside the objects that the remaining steps ask for.
fn nested(steps: &[Step<'_>], value: &Value, at: &[Step<'_>]) -> Result<Value, Problem> {
    steps.iter().rev().try_fold(value.clone(), |inner, step| match step {
        Step::Key(name) => Ok(Value::Object(Map::from_iter([((*name).to_owned(), inner)]))),
        Step::Index(0) => Ok(Value::Array(vec![inner])),
        Step::Index(_) => Err(nowhere(at)),
        Step::Server(name) => Err(no_server(name)),
    })
}

fn no_server(name: &str) -> Problem {
    let message = format!("has no server named {}", crate::problem::quoted(name));
    Problem::new("$.mcpServers", message, "list the names with: mcpproxy status")
}

fn nowhere(at: &[Step<'_>]) -> Problem {
    Problem::new(shown(at), "is no place in this file", "name an existing list element, or the next one")
}

fn not_a_container(above: &[Step<'_>], step: &Step<'_>) -> Problem {
    let what = if matches!(step, Step::Index(_)) { "a list" } else { "an object" };
    Problem::new(shown(above), format!("is not {what}"), format!("make it {what} first"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Step::{Index, Key, Server};
    use super::*;

    fn set(text: &str, at: &[Step<'_>], value: impl Into<Value>) -> String {
        changed(text, at, Some(&value.into())).unwrap_or_else(|p| panic!("{text}: {p}"))
    }

    #[test]
    fn only_the_bytes_of_the_value_change() {
        let text = "{\n\t\"b\" :  0,\r\n \"a\":[1 ,{ \"k\\u0065y\":1e3 }],\n\n  \"n\" : null }\n\n";
        assert_eq!(set(text, &[Key("b")], json!(7)), text.replacen("0,", "7,", 1));
        assert_eq!(
            set(text, &[Key("a"), Index(1), Key("key")], json!("x")),
            text.replacen("1e3", "\"x\"", 1)
        );
        assert_eq!(set(text, &[Key("n")], json!(false)), text.replacen("null", "false", 1));
        assert_eq!(set(text, &[Key("b")], json!(0)), text, "the same value is no change");
    }

    #[test]
    fn what_is_put_in_looks_like_what_stands_beside_it() {
        let cases: &[(&str, &[Step<'_>], Value, &str)] = &[
            ("", &[Key("a")], json!(1), "{\n  \"a\": 1\n}\n"),
            ("{}", &[Key("a"), Key("b")], json!(1), "{\n  \"a\": {\n    \"b\": 1\n  }\n}"),
            (r#"{"a":1}"#, &[Key("b")], json!([1, 2]), r#"{"a":1,"b":[1,2]}"#),
            (r#"{"a": 1}"#, &[Key("b")], json!({"c": 1, "d": 2}), r#"{"a": 1, "b": {"c": 1, "d": 2}}"#),
            (r#"{ "a": 1 }"#, &[Key("b")], json!(2), r#"{ "a": 1, "b": 2 }"#),
            (
                "{\n\t\"a\": 1\n}\n",
                &[Key("b")],
                json!({"c": 2}),
                "{\n\t\"a\": 1,\n\t\"b\": {\n\t\t\"c\": 2\n\t}\n}\n",
            ),
            (
                "{\r\n    \"a\": {}\r\n}",
                &[Key("a"), Key("b")],
                json!(1),
                "{\r\n    \"a\": {\r\n        \"b\": 1\r\n    }\r\n}",
            ),
            (
                "{\n  \"a\": 1,\n\n  \"b\": 2\n}",
                &[Key("c")],
                json!(3),
                "{\n  \"a\": 1,\n\n  \"b\": 2,\n  \"c\": 3\n}",
            ),
            (
                "{ \"a\" : 1\n, \"b\" : 2\n}",
                &[Key("c")],
                json!(3),
                "{ \"a\" : 1\n, \"b\" : 2\n, \"c\" : 3\n}",
            ),
            ("{\n  \"a\": []\n}", &[Key("a"), Index(0)], json!("x"), "{\n  \"a\": [\n    \"x\"\n  ]\n}"),
            ("{\n  \"a\": [\"x\"]\n}", &[Key("a"), Index(1)], json!("y"), "{\n  \"a\": [\"x\", \"y\"]\n}"),
            ("{\n  \"a\": [\"x\"]\n}", &[Key("a")], json!(["y", "z"]), "{\n  \"a\": [\"y\", \"z\"]\n}"),
            ("{\n  \"a\": null\n}", &[Key("a"), Key("b")], json!(1), "{\n  \"a\": {\"b\": 1}\n}"),
            ("\u{feff}{\"a\":1}", &[Key("a")], json!(2), "\u{feff}{\"a\":2}"),
        ];
        for (text, at, value, right) in cases {
            assert_eq!(set(text, at, value.clone()), *right, "{text:?}");
        }
    }

    #[test]
    fn what_is_taken_out_leaves_no_comma_behind() {
        for (text, at, right) in [
            ("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", Key("b"), "{\n  \"a\": 1,\n  \"c\": 3\n}"),
            ("{\n  \"a\": 1,\n  \"b\": 2\n}", Key("a"), "{\n  \"b\": 2\n}"),
            ("{\n  \"a\": 1,\n  \"b\": 2\n}", Key("b"), "{\n  \"a\": 1\n}"),
            ("{ \"a\": 1 }", Key("a"), "{}"),
            ("{\"a\": 1}", Key("q"), "{\"a\": 1}"),
        ] {
            assert_eq!(changed(text, &[at], None).unwrap(), right);
        }
    }

    #[test]
    fn servers_are_found_by_name_in_both_forms() {
        let list = r#"{"mcpServers": [{"name": "a", "enabled": true}, {"command": "x", "name": "\u0062"}]}"#;
        let at = |name, key| [Key("mcpServers"), Server(name), Key(key)];
        assert_eq!(set(list, &at("a", "enabled"), json!(false)), list.replace("true", "false"));
        assert_eq!(
            set(list, &at("b", "enabled"), json!(false)),
            list.replace("\"\\u0062\"}", "\"\\u0062\", \"enabled\": false}")
        );
        let map = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n  }\n}";
        assert_eq!(
            set(map, &at("a", "enabled"), json!(false)),
            map.replace("\"x\"}", "\"x\", \"enabled\": false}")
        );
        for text in [list, map, "{}", r#"{"mcpServers": null}"#] {
            let problem = changed(text, &at("nobody", "enabled"), Some(&json!(false))).unwrap_err();
            assert!(problem.message.contains("no server named \"nobody\""), "{problem}");
        }
    }

    #[test]
    fn what_cannot_be_edited_is_told() {
        for (text, at) in [
            (r#"{"a": 1}"#, vec![Key("a"), Key("b")]),
            (r#"{"a": {}}"#, vec![Key("a"), Index(0)]),
            (r#"{"a": [1]}"#, vec![Key("a"), Index(2)]),
            (r#"{"a": [1]}"#, vec![Key("a"), Key("b")]),
            (r#"{"a": 1, "a": 2}"#, vec![Key("a")]),
            (r#"{"a": 1"#, vec![Key("a")]),
            ("[]", vec![Key("a")]),
            ("{}", vec![]),
        ] {
            assert!(changed(text, &at, Some(&json!(0))).is_err(), "{text}");
        }
    }

    #[test]
    fn random_texts_keep_everything_else() {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
        println!("seed {seed}");
        let mut state = u64::from(seed) | 1;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % 1_000_003).unwrap() % below
        };
        const SPACES: [&str; 5] = ["", " ", "\n  ", "\r\n", "\t"];
        const VALUES: [&str; 6] = ["0", "-1.0", "\"}],\\\\\"", "[ ]", "{\"x\":[1,{}]}", "null"];
        for _ in 0..2_000 {
            let mut members = Vec::new();
            for key in ["a", "b\\\"", "\\u00e9", "d"] {
                let mut space = || SPACES[next(SPACES.len())];
                let spaces = [space(), space(), space(), space()];
                let value = VALUES[next(VALUES.len())];
                members
                    .push(format!("{}\"{key}\"{}:{}{value}{}", spaces[0], spaces[1], spaces[2], spaces[3]));
            }
            let mut space = || SPACES[next(SPACES.len())];
            let text = format!("{}{{{}}}{}", space(), members.join(","), space());
            let key = ["a", "b\"", "é", "d", "new"][next(5)];
            let value = [json!(1), json!({"k": [1, "\n"]}), json!("\u{e9}\"")][next(3)].clone();
            let mut right = parsed(&text).unwrap();
            let new = set(&text, &[Key(key)], value.clone());
            right[key] = value;
            let got = parsed(&new).unwrap();
            assert_eq!(got, right, "{text:?} -> {new:?}");
            assert_eq!(
                got.as_object().unwrap().keys().collect::<Vec<_>>(),
                right.as_object().unwrap().keys().collect::<Vec<_>>()
            );
            right.as_object_mut().unwrap().shift_remove(key);
            let without = changed(&text, &[Key(key)], None).unwrap();
            assert_eq!(parsed(&without).unwrap(), right, "{text:?} -> {without:?}");
        }
    }
}
