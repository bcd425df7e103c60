//! Hostile texts make no more work than friendly ones of their size: the bytes given to matchers are counted, not the time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use content::Answer;
use content::clean::{Action, Categories, Cleaning, StripClasses, clean_with};
use content::schema::check_output;

fn work(raw: Vec<u8>) -> u64 {
    let answer = Answer::index(Arc::new(raw), &|| false).unwrap();
    let cleaning = Cleaning::new(Action::Redact, Categories::ALL, Arc::default()).strip(StripClasses::ALL);
    clean_with(check_output(answer), &cleaning, &|| false).unwrap().findings().work
}

fn text(unit: &str, len: usize) -> Vec<u8> {
    let text = serde_json::to_string(&unit.repeat(len / unit.len())).unwrap();
    format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#).into_bytes()
}

fn assert_linear(name: &str, make: impl Fn(usize) -> Vec<u8>) {
    let size = 2_000_000;
    let (one, two) = (work(make(size)), work(make(2 * size)));
    // What windows show twice is a part of both, not quite the same in each.
    assert!(two * 10 <= one * 23, "{name}: {one} bytes of work, then {two}");
    let bound = 2 * size as u64 * 6000;
    assert!(two <= bound, "{name}: {two} bytes of work");
}

#[test]
fn near_matches_are_linear() {
    for unit in [
        "a",
        "=",
        "-----BEGIN ",
        "AKIA",
        "eyJ.",
        "eyJ",
        "://:@",
        "://a:",
        "1234-",
        "4111 ",
        "password=",
        "_key=",
        "Bearer ",
        "Basic ",
        "ghp_",
        "sk-",
        "\\",
        "\\u",
        "\\n",
        "\u{1b}]abcd",
        "\u{1b}[???",
        "\u{9d}",
        "\u{200b}",
        "QUJD",
        "QUJD\n",
        "PRIVATE KEY",
        "ecret: 'a",
        "\u{1b}Pabc\u{1b}",
    ] {
        assert_linear(unit, |len| text(unit, len));
    }
    let begin = ["-----BEGIN PRIVATE", "KEY-----"].join(" ");
    assert_linear("begins without an end", |len| text(&begin, len));
    assert_linear("begins with a line", |len| text(&format!("{begin}\nQUJDREVGR0hJSktMTU5P\n"), len));
}

#[test]
fn structure_is_linear() {
    assert_linear("levels", |len| {
        let levels = len / 6;
        format!(r#"{{"structuredContent":{}"x"{}}}"#, "[".repeat(levels), "]".repeat(levels)).into_bytes()
    });
    assert_linear("elements", |len| {
        format!(r#"{{"structuredContent":["a"{}]}}"#, r#","ab""#.repeat(len / 5)).into_bytes()
    });
    assert_linear("keys", |len| {
        format!(r#"{{"structuredContent":{{"a":1{}}}}}"#, r#","ab":"c""#.repeat(len / 9)).into_bytes()
    });
    assert_linear("escapes", |len| {
        format!(r#"{{"structuredContent":"{}"}}"#, r"\u0061".repeat(len / 6)).into_bytes()
    });
    assert_linear("blobs", |len| {
        let blob = r#",{"type":"image","data":"iVBORw0KGgo="}"#;
        format!(r#"{{"content":[1{}]}}"#, blob.repeat(len / blob.len())).into_bytes()
    });
}
