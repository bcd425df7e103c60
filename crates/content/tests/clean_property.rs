//! Random answers with planted secrets: what comes out is JSON, only the planted places changed, and no view shows a secret.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "corpus/secrets.rs"]
mod secrets;

use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{Spool, answer, json};
use content::Answer;
use content::clean::{Action, Categories, Cleaning, StripClasses, clean_with};
use content::schema::check_output;
use jsonspan::{Event, Scanner};
use secrets::{Rng, fill};

const WORDS: [&str; 16] = [
    "a",
    "report",
    "of",
    "nothing",
    "é",
    "日本",
    "😀",
    "items",
    "42",
    "3.14",
    "\"quoted\"",
    "back\\slash",
    "tab\there",
    "line\nbreak",
    "{\"k\":1}",
    "x=y",
];
const KINDS: [&str; 8] = [
    "ghp_{A36}",
    "AKIA{U16}",
    "{PEM}",
    "glpat-{W20}",
    "xoxb-{D12}-{D12}-{A24}",
    "sk_live_{A24}",
    "npm_{A36}",
    "{CARD}",
];

/// A raw answer that is being written, the secrets in it, and where they lie.
#[derive(Default)]
struct Draft {
    raw: String,
    secrets: Vec<String>,
    planted: Vec<Range<usize>>,
}

impl Draft {
    fn value(&mut self, rng: &mut Rng, depth: usize) {
        match rng.below(if depth > 5 { 4 } else { 7 }) {
            0 => self.raw.push_str(rng.pick::<&str>(&[
                "1e45",
                "-0",
                "12345678901234567890123",
                "1.10",
                "true",
                "null",
            ])),
            1..=3 => self.string(rng),
            4 => {
                self.raw.push('[');
                for index in 0..rng.below(4) {
                    self.raw.push_str(if index > 0 { " , " } else { "" });
                    self.value(rng, depth + 1);
                }
                self.raw.push(']');
            }
            _ => {
                self.raw.push('{');
                for index in 0..rng.below(4) {
                    self.raw.push_str(if index > 0 { ",\n" } else { " " });
                    self.string(rng);
                    self.raw.push_str(": ");
                    self.value(rng, depth + 1);
                }
                self.raw.push('}');
            }
        }
    }

    fn string(&mut self, rng: &mut Rng) {
        self.raw.push('"');
        for _ in 0..rng.below(6) {
            self.raw.push_str(&escaped(rng.pick::<&str>(&WORDS), rng, 8));
            self.raw.push(' ');
        }
        if rng.below(3) == 0 {
            self.plant(rng);
            self.raw.push_str(&escaped(" after that.", rng, 10));
        }
        self.raw.push('"');
    }

    /// Writes a secret in one of the ways in which it may be hidden.
    fn plant(&mut self, rng: &mut Rng) {
        let secret = fill(rng.pick::<&str>(&KINDS), rng);
        let hidden = match rng.below(5) {
            0 => secret
                .chars()
                .flat_map(|c| [Some(c), (rng.below(3) == 0).then_some('\u{200b}')])
                .flatten()
                .collect(),
            1 => STANDARD.encode(format!("some words before the secret {secret}")),
            // As a string of JSON inside the text, so that it is escaped once more.
            2 => escaped(&secret, rng, 3),
            _ => secret.clone(),
        };
        let start = self.raw.len();
        self.raw.push_str(&escaped(&hidden, rng, 6));
        self.planted.push(start..self.raw.len());
        self.secrets.push(secret);
    }
}

/// As it stands in a literal; one character of `rate` is written as an escape though it need not be.
fn escaped(text: &str, rng: &mut Rng, rate: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if rng.below(rate) == 0 {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            let mut literal = Vec::new();
            jsonspan::escape_inside(c.encode_utf8(&mut [0; 4]), &mut literal);
            out.push_str(str::from_utf8(&literal).unwrap());
        }
    }
    out
}

fn draft(rng: &mut Rng) -> Draft {
    let mut draft = Draft::default();
    draft.raw.push_str(r#"{"content":["#);
    for index in 0..1 + rng.below(4) {
        draft.raw.push_str(if index > 0 { "," } else { "" });
        draft.raw.push_str(r#"{"type":"text","text":"#);
        draft.string(rng);
        draft.raw.push('}');
    }
    draft.raw.push_str(r#"],"structuredContent":"#);
    draft.value(rng, 0);
    draft.raw.push_str(r#","_meta":"#);
    draft.value(rng, 0);
    draft.raw.push('}');
    draft
}

/// Every string of a JSON text, decoded, and what can be made of it.
fn views(json: &[u8]) -> Vec<String> {
    let mut strings = Vec::new();
    let mut scanner = Scanner::new();
    let mut take = |event: Event<'_>| {
        if let Event::Key(token) | Event::String(token) = event {
            strings.push(Range {
                start: usize::try_from(token.span.start).unwrap(),
                end: usize::try_from(token.span.end).unwrap(),
            });
        }
    };
    scanner.feed(json, &mut take).unwrap();
    scanner.finish(&mut take).unwrap();
    let mut all: Vec<String> =
        strings.into_iter().map(|span| serde_json::from_slice(&json[span]).unwrap()).collect();
    for at in 0..all.len() {
        let inner = format!("\"{}\"", all[at].replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t"));
        all.extend(serde_json::from_str::<String>(&inner));
        let runs: Vec<&str> =
            all[at].split(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '/' && c != '=').collect();
        let decoded = runs.into_iter().filter_map(|run| String::from_utf8(STANDARD.decode(run).ok()?).ok());
        let decoded: Vec<String> = decoded.collect();
        all.extend(decoded);
    }
    let bare: Vec<String> = all.iter().map(|text| text.replace('\u{200b}', "")).collect();
    all.extend(bare);
    all
}

#[test]
fn planted_secrets_go_and_nothing_else_does() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_311);
    println!("seed {seed}, set SEED for another");
    let (mut rng, mut planted) = (Rng(seed), 0);
    for round in 0..1500 {
        let draft = draft(&mut rng);
        planted += draft.secrets.len();
        let cleaning = Cleaning::new(Action::Redact, Categories::ALL, Arc::default());
        let cleaning = if round % 2 == 0 { cleaning } else { cleaning.strip(StripClasses::BIDI) };
        let redacted = clean_with(check_output(answer(&draft.raw)), &cleaning, &|| false).unwrap();
        let out = json(&redacted);
        jsonspan::check(&out).unwrap_or_else(|error| panic!("round {round}: {error}"));
        for edit in redacted.edits() {
            let (start, end) =
                (usize::try_from(edit.span().start).unwrap(), usize::try_from(edit.span().end).unwrap());
            let inside = draft.planted.iter().any(|range| range.start <= start && end <= range.end);
            assert!(inside, "round {round}: changed {:?} in {}", &draft.raw[start..end], draft.raw);
        }
        let views = views(&out);
        for secret in &draft.secrets {
            assert!(
                views.iter().all(|view| !view.contains(secret)),
                "round {round}: {secret} is left of {}",
                draft.raw
            );
        }
        let spool = Arc::new(Spool::new(draft.raw.as_bytes(), 1 + rng.below(50)));
        let again =
            clean_with(check_output(Answer::index(spool, &|| false).unwrap()), &cleaning, &|| false).unwrap();
        assert_eq!(json(&again), out, "round {round}: it matters how the bytes come");
    }
    assert!(planted > 2000, "{planted}");
}
