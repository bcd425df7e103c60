//! What the index finds in a result, whatever its shape.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::cell::Cell;
use std::sync::Arc;

use common::{Spool, answer, index, json, redacted};
use content::{Answer, BlockKind, IndexError, MAX_BLOCKS};
use jsonspan::Span;

fn at(raw: &str, span: Span) -> &str {
    &raw[usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()]
}

#[test]
fn every_kind_of_block_is_found_with_its_parts() {
    let cases = [
        (r#"{"type":"text","text":"a"}"#, BlockKind::Text, Some(r#""a""#), None),
        (r#"{"text":"a","_meta":{"type":"image"},"type":"text"}"#, BlockKind::Text, Some(r#""a""#), None),
        (r#"{"ty\u0070e":"text","text":""}"#, BlockKind::Text, Some(r#""""#), None),
        (
            r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
            BlockKind::Image,
            None,
            Some(r#""AA==""#),
        ),
        (r#"{"type":"audio","data":"BB=="}"#, BlockKind::Audio, None, Some(r#""BB==""#)),
        (
            r#"{"resource":{"uri":"u","text":"t"},"type":"resource"}"#,
            BlockKind::ResourceText,
            Some(r#""t""#),
            None,
        ),
        (
            r#"{"type":"resource","resource":{"blob":"CC=="}}"#,
            BlockKind::ResourceBlob,
            None,
            Some(r#""CC==""#),
        ),
        (
            r#"{"type":"resource_link","uri":"ui://d/v","name":"v","x":1}"#,
            BlockKind::ResourceLink,
            None,
            None,
        ),
        (r#"{"type":"x-future","foo":[1],"text":"no"}"#, BlockKind::Other, None, None),
        (r#"{"type":"text","text":7}"#, BlockKind::Other, None, None),
        (r#"{"type":"text"}"#, BlockKind::Other, None, None),
        (r#"{"type":"image","data":null}"#, BlockKind::Other, None, None),
        (r#"{"type":"resource","resource":["text","t"]}"#, BlockKind::Other, None, None),
        (r#"{"type":"resource","resource":{"_meta":{"text":"t"}}}"#, BlockKind::Other, None, None),
        (r#"{"type":{"type":"text"},"text":"a"}"#, BlockKind::Other, None, None),
        ("{}", BlockKind::Other, None, None),
        ("\"text\"", BlockKind::Other, None, None),
        ("1e400", BlockKind::Other, None, None),
        ("null", BlockKind::Other, None, None),
        (r#"[{"type":"text","text":"a"}]"#, BlockKind::Other, None, None),
    ];
    for (block, kind, text, data) in cases {
        let raw = format!(r#"{{"content":[{{"type":"text","text":"before"}}, {block} ]}}"#);
        let answer = answer(&raw);
        let found = answer.blocks()[1];
        assert_eq!(found.kind, kind, "{block}");
        assert_eq!(at(&raw, found.span), block);
        assert_eq!(found.text.map(|span| at(&raw, span)), text, "{block}");
        assert_eq!(found.data.map(|span| at(&raw, span)), data, "{block}");
        assert_eq!(answer.blocks().len(), 2);
        assert_eq!(redacted(&raw).content_blocks(), 2);
        assert_eq!(redacted(&raw).non_text_blocks(), usize::from(kind != BlockKind::Text), "{block}");
    }
}

#[test]
fn members_are_found_at_their_own_depth_only() {
    let raw = r#"{"_meta":{"isError":true,"content":[1],"structuredContent":2},"x":[{"content":[1]}],
        "structuredContent":{"isError":true,"content":[{"type":"text","text":"no"}]},"resultType":"complete"}"#;
    let answer = answer(raw);
    assert!(answer.blocks().is_empty() && !answer.is_error());
    assert_eq!(
        answer.structured().map(|span| at(raw, span)),
        Some(&raw[raw.find("{\"isError\":true,\"content\":[{").unwrap()..raw.find(",\"resultType").unwrap()])
    );
    assert_eq!(answer.result_type(), Some("complete"));
}

#[test]
fn only_a_literal_true_is_an_error() {
    for (value, error) in [
        ("true", true),
        ("false", false),
        ("\"true\"", false),
        ("1", false),
        ("null", false),
        ("[true]", false),
    ] {
        assert_eq!(answer(&format!(r#"{{"isError":{value},"content":[]}}"#)).is_error(), error, "{value}");
    }
}

#[test]
fn the_result_type_is_a_word_or_a_question_mark() {
    let long = format!("\"{}\"", "x".repeat(65));
    let huge = format!("\"{}\"", "x".repeat(5000));
    for (value, found) in [
        ("\"input_required\"", Some("input_required")),
        ("null", None),
        ("7", Some("?")),
        ("{}", Some("?")),
        ("\"\"", Some("?")),
        ("\"two words\"", Some("?")),
        (&long, Some("?")),
        (&huge, Some("?")),
    ] {
        assert_eq!(answer(&format!(r#"{{"resultType":{value}}}"#)).result_type(), found, "{value}");
    }
}

#[test]
fn of_members_of_one_name_the_last_counts() {
    let raw = r#"{"content":[{"type":"text","text":"old"}],"isError":true,"structuredContent":1,"resultType":"a",
        "content":[{"type":"image","type":"text","text":1,"text":"new"},{"type":"text","text":"x","text":1}],
        "isError":false,"structuredContent":{"n":2},"resultType":"b","content":[{"type":"text","text":"last"}]}"#;
    let answer = answer(raw);
    assert_eq!(answer.blocks().len(), 1);
    assert_eq!(answer.blocks()[0].text.map(|span| at(raw, span)), Some("\"last\""));
    assert_eq!(answer.structured().map(|span| at(raw, span)), Some("{\"n\":2}"));
    assert!(!answer.is_error());
    assert_eq!(answer.result_type(), Some("b"));
    assert_eq!(json(&redacted(raw)), raw.as_bytes());
    assert!(common::answer(r#"{"content":7,"content":[]}"#).blocks().is_empty());
    assert!(common::answer(r#"{"isError":false,"isError":true}"#).is_error());
    assert!(common::answer(r#"{"structuredContent":1,"structuredContent":null}"#).structured().is_none());
    assert!(matches!(index(br#"{"content":[],"content":7}"#), Err(IndexError::ContentNotAnArray)));
}

#[test]
fn content_may_be_missing_or_null_but_nothing_else() {
    for raw in ["{}", r#"{"content":null}"#, r#"{"content":[]}"#, " {\"x\":1}\n"] {
        assert!(answer(raw).blocks().is_empty(), "{raw}");
    }
    for raw in [r#"{"content":{}}"#, r#"{"content":"x"}"#, r#"{"content":false}"#] {
        assert!(matches!(index(raw.as_bytes()), Err(IndexError::ContentNotAnArray)), "{raw}");
    }
}

#[test]
fn what_is_no_object_or_no_json_is_refused() {
    for raw in ["[]", "\"x\"", "1", "null", "true", "[{\"content\":[]}]"] {
        assert!(matches!(index(raw.as_bytes()), Err(IndexError::NotAnObject)), "{raw}");
    }
    for raw in ["", "{", "{}x", r#"{"structuredContent":{"v":NaN}}"#, "{\"a\":\"\x01\"}", "{\"a\":01}"] {
        assert!(matches!(index(raw.as_bytes()), Err(IndexError::Syntax(_))), "{raw}");
    }
    let said = index(br#"{"structuredContent":{"v":NaN}}"#).unwrap_err().to_string();
    assert_eq!(said, "the upstream's result is not valid JSON: expected a value at byte 26");
}

#[test]
fn the_number_of_blocks_is_bounded() {
    let many = |count: usize| format!(r#"{{"content":[{}]}}"#, vec!["{}"; count].join(","));
    assert_eq!(answer(&many(MAX_BLOCKS)).blocks().len(), MAX_BLOCKS);
    assert!(matches!(index(many(MAX_BLOCKS + 1).as_bytes()), Err(IndexError::TooManyBlocks)));
}

#[test]
fn a_hundred_thousand_levels_are_no_trouble() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let raw = format!(
        r#"{{"content":[{{"type":"text","text":"x","deep":{deep}}},{deep}],"structuredContent":{deep}}}"#
    );
    let answer = answer(&raw);
    assert_eq!(answer.blocks().len(), 2);
    assert_eq!(answer.structured().unwrap().len(), 200_000);
    assert_eq!(json(&common::cleaned(answer)), raw.as_bytes());
}

#[test]
fn indexing_asks_whether_to_go_on_and_reads_each_byte_once() {
    let raw = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(1_000_000));
    for limit in [0, 1, 5] {
        let asked = Cell::new(0);
        let cancel = || asked.replace(asked.get() + 1) >= limit;
        assert!(matches!(
            Answer::index(Arc::new(raw.clone().into_bytes()), &cancel),
            Err(IndexError::Cancelled)
        ));
        assert_eq!(asked.get(), limit + 1);
    }
    let spool = Spool::new(raw.as_bytes(), usize::MAX);
    let read = Arc::clone(&spool.read);
    let asked = Cell::new(0_usize);
    Answer::index(Arc::new(spool), &|| asked.replace(asked.get() + 1) > 1_000_000).unwrap();
    assert_eq!(read.load(std::sync::atomic::Ordering::Relaxed), raw.len() as u64);
    assert_eq!(asked.get(), raw.len().div_ceil(64 * 1024));
}

#[test]
fn a_spool_that_fails_or_ends_early_is_an_error() {
    let mut spool = Spool::new(format!("{{\"x\":\"{}", "x".repeat(200_000)).as_bytes(), 50_000);
    spool.broken_from = 100_000;
    assert!(matches!(Answer::index(Arc::new(spool), &|| false), Err(IndexError::Io(_))));

    struct Short;
    impl content::Source for Short {
        fn len(&self) -> u64 {
            10
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> std::io::Result<usize> {
            Ok(0)
        }
    }
    assert!(matches!(Answer::index(Arc::new(Short), &|| false), Err(IndexError::Io(_))));
}
