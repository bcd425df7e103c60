//! The public JSON test suite: what must be taken is taken, what must be refused is refused, however the text is cut.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

use std::path::{Path, PathBuf};

use jsonspan::{Event, Scanner, SyntaxError, Token};

fn suite() -> Option<PathBuf> {
    let given = std::env::var_os("MCPPROXY_SUITES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|above| above.join("shared/suites"));
    let found = given
        .into_iter()
        .chain(beside)
        .map(|suites| suites.join("json/test_parsing"))
        .find(|dir| dir.is_dir());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "the JSON test suite is missing");
        eprintln!(
            "skipped: no shared/suites/json/test_parsing above the crate and MCPPROXY_SUITES is not set"
        );
    }
    found
}

fn files(dir: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Everything the scanner says about a text that is fed in the given pieces.
fn scan<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<String>, SyntaxError> {
    let mut scanner = Scanner::new();
    let mut events = Vec::new();
    for piece in pieces {
        scanner.feed(piece, &mut |event| events.push(show(event)))?;
    }
    scanner.finish(&mut |event| events.push(show(event)))?;
    Ok(events)
}

fn show(event: Event<'_>) -> String {
    let token = |kind: &str, token: Token<'_>| {
        format!("{kind} {}..{} {:?} {:?}", token.span.start, token.span.end, token.raw(), token.text())
    };
    match event {
        Event::Key(t) => token("key", t),
        Event::String(t) => token("string", t),
        Event::Number(t) => token("number", t),
        Event::Literal(t) => token("literal", t),
        bracket => format!("{bracket:?}"),
    }
}

fn assert_cuts_do_not_matter(name: &str, text: &[u8]) {
    let whole = scan([text].into_iter());
    let same = |cut: Result<Vec<String>, SyntaxError>, how: String| match (&whole, &cut) {
        (Ok(_), _) => assert_eq!(whole, cut, "{name} {how}"),
        (Err(first), Err(second)) => assert_eq!(first.offset, second.offset, "{name} {how}"),
        (Err(_), Ok(_)) => panic!("{name} {how}: taken only when cut"),
    };
    for size in [1, 2, 3, 7, 64] {
        same(scan(text.chunks(size)), format!("in pieces of {size}"));
    }
    if text.len() <= 4096 {
        for at in 0..=text.len() {
            same(scan([&text[..at], &text[at..]].into_iter()), format!("cut at {at}"));
        }
    }
}

#[test]
fn what_must_be_taken_is_taken() {
    let Some(dir) = suite() else { return };
    let files = files(&dir, "y_");
    assert!(files.len() >= 90, "only {} y_ files", files.len());
    for (name, text) in &files {
        assert!(scan([&text[..]].into_iter()).is_ok(), "{name} is refused: {:?}", jsonspan::check(text));
        assert_cuts_do_not_matter(name, text);
    }
}

#[test]
fn what_must_be_refused_is_refused() {
    let Some(dir) = suite() else { return };
    let files = files(&dir, "n_");
    assert!(files.len() >= 180, "only {} n_ files", files.len());
    for (name, text) in &files {
        assert!(scan([&text[..]].into_iter()).is_err(), "{name} is taken");
        assert_cuts_do_not_matter(name, text);
    }
}

/// What the suite leaves open: numbers of any size and unpaired surrogate escapes are taken; bytes that are not UTF-8, other
/// encodings and a byte order mark are refused.
#[test]
fn what_may_be_either_is_decided() {
    let Some(dir) = suite() else { return };
    let files = files(&dir, "i_");
    assert!(files.len() >= 30, "only {} i_ files", files.len());
    let refused_words =
        ["utf-8", "utf8", "UTF-8", "utf16", "UTF-16", "overlong", "not_in_unicode", "iso_latin", "truncated"];
    for (name, text) in &files {
        let not_utf8 =
            refused_words.iter().any(|word| name.contains(word)) || std::str::from_utf8(text).is_err();
        let taken = scan([&text[..]].into_iter()).is_ok();
        eprintln!("{name}: {}", if taken { "taken" } else { "refused" });
        assert_eq!(taken, !not_utf8, "{name}");
        assert_cuts_do_not_matter(name, text);
    }
}
