//! Public data: every JSON text of the suite survives in an answer, every awkward string comes out of a text block unchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::path::{Path, PathBuf};

use common::{index, json, read, redacted, text};
use content::Format;

fn suite(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("MCPPROXY_SUITES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|above| above.join("shared/suites"));
    let found = given.into_iter().chain(beside).map(|suites| suites.join(name)).find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "the suite {name} is missing");
        eprintln!("skipped: no shared/suites/{name} above the crate and MCPPROXY_SUITES is not set");
    }
    found
}

fn files(dir: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name.starts_with(prefix))
        .collect()
}

#[test]
fn every_good_text_survives_as_structured_content() {
    let Some(dir) = suite("json/test_parsing") else { return };
    let files = files(&dir, "y_");
    assert!(files.len() >= 90, "only {} y_ files", files.len());
    for (name, value) in files {
        let value = String::from_utf8(value).unwrap();
        let raw = format!(r#"{{"structuredContent":{value},"content":[],"x":{value}}}"#);
        assert_eq!(json(&redacted(&raw)), raw.as_bytes(), "{name}");
        // White space around the value is not part of it.
        let value = value.trim_matches([' ', '\t', '\r', '\n']);
        let wanted = if value == "null" { "" } else { value };
        assert_eq!(text(&raw), wanted, "{name}");
    }
}

#[test]
fn every_bad_text_makes_a_bad_answer() {
    let Some(dir) = suite("json/test_parsing") else { return };
    let files = files(&dir, "n_");
    assert!(files.len() >= 180, "only {} n_ files", files.len());
    // These close the object that they are put into, or end like it; what comes out is JSON, and not theirs to refuse.
    for (name, value) in files {
        let raw = [b"{\"structuredContent\":[", &value[..], b"]}"].concat();
        if serde_json::from_slice::<serde_json::Value>(&raw).is_ok() {
            continue;
        }
        assert!(index(&raw).is_err(), "{name}");
    }
}

#[test]
fn every_number_spelling_survives() {
    let Some(dir) = suite("json/test_transform") else { return };
    let files = files(&dir, "");
    assert!(files.len() >= 20, "only {} files", files.len());
    let mut kept = 0;
    for (name, value) in files {
        let Ok(value) = String::from_utf8(value) else { continue };
        let raw = format!(r#"{{"structuredContent":{value}}}"#);
        if index(raw.as_bytes()).is_ok() {
            assert_eq!(text(&raw), value.trim(), "{name}");
            kept += 1;
        }
    }
    assert!(kept >= 15, "only {kept} files are JSON");
}

#[test]
fn every_awkward_string_comes_out_of_a_text_block_unchanged() {
    let Some(path) = suite("blns.json") else { return };
    let strings: Vec<String> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(strings.len() >= 400, "only {} strings", strings.len());
    let mut blocks = Vec::new();
    for string in &strings {
        let mut block = br#"{"type":"text","text":"#.to_vec();
        jsonspan::escape_into(string, &mut block);
        block.push(b'}');
        let block = String::from_utf8(block).unwrap();
        assert_eq!(text(&format!(r#"{{"content":[{block}]}}"#)), *string);
        blocks.push(block);
    }
    let raw = format!(r#"{{"content":[{}]}}"#, blocks.join(","));
    assert_eq!(read(&redacted(&raw), Format::Text).unwrap(), strings.join("\n").as_bytes());
}
