//! What gets into a file: text, JSON as sent, decoded bytes; and what the preview shows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{Spool, cleaned, index, json, read, redacted, spooled, text};
use content::{Format, NoRendition};

/// A result whose text blocks have these literals, which are written as they are.
fn blocks(literals: &[&str]) -> String {
    let blocks: Vec<String> = literals.iter().map(|l| format!(r#"{{"type":"text","text":"{l}"}}"#)).collect();
    format!(r#"{{"content":[{}]}}"#, blocks.join(","))
}

fn blob(literal: &str) -> String {
    format!(r#"{{"content":[{{"type":"image","data":"{literal}","mimeType":"image/png"}}]}}"#)
}

#[test]
fn text_blocks_are_joined_by_one_line_feed() {
    for (literals, joined) in [
        (&["a", "b\\n", "", "c"][..], "a\nb\n\n\nc"),
        (&[""], ""),
        (&["", ""], "\n"),
        (&["", "", "x"], "\n\nx"),
        (&["x", ""], "x\n"),
        (&["NaN, -Infinity"], "NaN, -Infinity"),
        (
            &[r#"{\"id\":725653563933458432,\"b\":123456789012345678901234567890}"#],
            r#"{"id":725653563933458432,"b":123456789012345678901234567890}"#,
        ),
        (&["ch <-done && x > 0 <script>&amp;\u{2028} é"], "ch <-done && x > 0 <script>&amp;\u{2028} é"),
        (&[r"a\ud800b"], "a\u{fffd}b"),
        (&[r"\ud83d\ude00", "é€😀"], "😀\né€😀"),
        (&[r"\ud83d", r"\ude00"], "\u{fffd}\n\u{fffd}"),
    ] {
        assert_eq!(text(&blocks(literals)), joined, "{literals:?}");
    }
}

#[test]
fn other_blocks_and_structured_content_leave_the_text_alone() {
    let raw = r#"{"structuredContent":{"n":1},"content":[{"type":"image","data":"AA=="},{"type":"text","text":"cap"},
        {"type":"resource","resource":{"text":"not me"}}]}"#;
    assert_eq!(text(raw), "cap");
    assert_eq!(json(&redacted(raw)), raw.as_bytes());
}

#[test]
fn without_text_blocks_the_text_is_the_structured_content_as_sent() {
    let structured =
        r#"{ "a":1.0,"b":1e2,"c":-0,"z":{"y":1e45,"M":18446744073709551616},"a":"\u00e9\ud800" }"#;
    for content in ["", r#""content":[],"#, r#""content":[{"type":"image","data":"AA=="}],"#] {
        assert_eq!(text(&format!(r#"{{{content}"structuredContent":{structured}}}"#)), structured);
    }
    for scalar in ["0", "\"x\"", "true", "[]"] {
        assert_eq!(text(&format!(r#"{{"structuredContent":{scalar}}}"#)), scalar);
    }
}

#[test]
fn nothing_at_all_is_an_empty_text() {
    for raw in
        ["{}", r#"{"content":[]}"#, r#"{"content":[],"structuredContent":null}"#, r#"{"content":null}"#]
    {
        assert_eq!(text(raw), "");
        assert_eq!(redacted(raw).preview(1000), (String::new(), false));
        assert_eq!(redacted(raw).content_blocks(), 0);
    }
}

#[test]
fn only_other_blocks_have_no_text_and_the_error_names_them() {
    let raw = r#"{"content":[{"type":"image","data":"AA=="},{"type":"resource_link"},{"type":"image","data":"AA=="},
        {"type":"resource","resource":{"text":"t"}},{"type":"resource","resource":{"blob":"AA=="}},{"type":"\u001b[2J"}],
        "structuredContent":null}"#;
    let error = read(&redacted(raw), Format::Text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the result has no text, only 2 image, 2 resource, 1 resource_link, 1 other; use the format \"json\" for the whole result, or \"binary\" for the bytes of one image, audio or blob"
    );
    assert!(matches!(error, NoRendition::NoText { .. }));
    assert_eq!(redacted(raw).preview(1000), (String::new(), false));
    assert_eq!(redacted(raw).non_text_blocks(), 6);
}

#[test]
fn json_is_what_was_sent_byte_for_byte() {
    for raw in [
        r#"{"z":1,"a":{"y":1,"b":2},"M":0,"":3,"a":1e45,"n":-0,"d":1234567890123456789012345678901234567890}"#,
        " {\"content\" :\t[ ] ,\r\n\"_meta\":{\"trace\":\"t1\"},\"isError\":false,\"extra\":1} \n",
        r#"{"content":[{"type":"text","text":"a\ud800b\/\u003c"}]}"#,
    ] {
        assert_eq!(json(&redacted(raw)), raw.as_bytes());
        assert_eq!(read(&redacted(raw), Format::Json).unwrap(), raw.as_bytes());
        assert_eq!(json(&spooled(Spool::new(raw.as_bytes(), 3))), raw.as_bytes());
    }
}

#[test]
fn binary_is_the_decoded_data_of_the_one_blob() {
    let mut state = 0x2545_f491_u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(200_003)
    .collect();
    for length in [0, 1, 2, 3, 4, 5, 49_151, 49_152, 49_153, 200_003] {
        let encoded = STANDARD.encode(&bytes[..length]);
        let lines: Vec<&str> =
            encoded.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).unwrap()).collect();
        let escaped = encoded.replace('/', "\\/").replace('+', "\\u002b").replace('=', "\\u003D");
        for literal in [&encoded, &lines.join("\\r\\n"), &(lines.join("\\n") + "\\n"), &escaped] {
            let raw = blob(literal);
            assert!(read(&redacted(&raw), Format::Binary).unwrap() == bytes[..length], "{length} bytes");
            if length < 10 {
                for step in [1, 2, 3, 7] {
                    let read = read(&spooled(Spool::new(raw.as_bytes(), step)), Format::Binary).unwrap();
                    assert_eq!(read, bytes[..length], "{step} at a time");
                }
            }
        }
    }
    let resource = r#"{"content":[{"type":"text","text":"see"},{"type":"resource","resource":{"blob":"aGk=","mimeType":"a/b"}}]}"#;
    assert_eq!(read(&redacted(resource), Format::Binary).unwrap(), b"hi");
    assert_eq!(redacted(resource).rendition(Format::Binary).unwrap().mime_type(), Some("a/b"));
}

#[test]
fn base64_is_strict() {
    for (literal, said) in [
        ("aGk", "the padding is missing or wrong at character 4"),
        ("aGk=aGk=", "the padding is missing or wrong at character 4"),
        ("aGk==", "the padding is missing or wrong at character 4"),
        ("a===", "the padding is missing or wrong at character 2"),
        ("=", "the padding is missing or wrong at character 1"),
        ("aGl=", "bits are left over at character 3"),
        ("aG k", "not in the standard alphabet at character 3"),
        ("aG-_", "not in the standard alphabet at character 3"),
        ("aGk=\\nx", "the padding is missing or wrong at character 4"),
        ("aaaa\\naa\\u0000a", "not in the standard alphabet at character 7"),
        ("a", "the data is cut short at character 2"),
    ] {
        for raw in [redacted(&blob(literal)), spooled(Spool::new(blob(literal).as_bytes(), 1))] {
            let error = read(&raw, Format::Binary).unwrap_err();
            assert!(matches!(error, NoRendition::Base64 { .. }), "{literal}");
            let wanted = format!(
                "the data of the block is not valid base64: {said}; use the format \"json\" to have it as it was sent"
            );
            assert_eq!(error.to_string(), wanted, "{literal}");
        }
    }
    let mut broken = redacted(&blob("aGk")).rendition(Format::Binary).unwrap();
    for _ in 0..3 {
        assert!(broken.read(&mut [0; 8]).is_err(), "an error stays");
    }
}

#[test]
fn binary_needs_exactly_one_blob() {
    let two =
        r#"{"content":[{"type":"image","data":"AA=="},{"type":"resource","resource":{"blob":"AA=="}}]}"#;
    for (raw, number) in [("{}", 0), (&blocks(&["x"])[..], 0), (two, 2)] {
        match redacted(raw).rendition(Format::Binary) {
            Err(error @ NoRendition::NotOneBlob { count }) => {
                assert_eq!(count, number);
                assert!(error.to_string().contains(&format!("the result has {number}")));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_mime_type_is_passed_on_only_if_it_is_one() {
    let longest = format!("a/{}", "b".repeat(125));
    let too_long = format!("a/{}", "b".repeat(126));
    let escaped = r"image\/\u0070ng".to_owned();
    let huge = format!("a/{}", "é".repeat(5000));
    for (mime, passed) in [
        ("image/svg+xml", Some("image/svg+xml")),
        (&longest, Some(&longest[..])),
        (&escaped, Some("image/png")),
        (&too_long, None),
        (&huge, None),
        ("text/plain; charset=utf-8", None),
        ("png", None),
        ("a/b/c", None),
        ("/", None),
        ("a/\\nb", None),
        ("", None),
    ] {
        let raw = format!(r#"{{"content":[{{"type":"image","data":"AA==","mimeType":"{mime}"}}]}}"#);
        let redacted = redacted(&raw);
        assert_eq!(redacted.rendition(Format::Binary).unwrap().mime_type(), passed, "{mime}");
        assert_eq!(redacted.rendition(Format::Json).unwrap().mime_type(), None);
    }
    assert_eq!(
        redacted(r#"{"content":[{"type":"image","data":"AA==","mimeType":7}]}"#)
            .rendition(Format::Binary)
            .unwrap()
            .mime_type(),
        None
    );
}

#[test]
fn the_preview_is_a_prefix_in_whole_characters() {
    for character in ["x", "é", "€", "😀"] {
        for before in 0..5 {
            let body = "a".repeat(before) + &character.repeat(1200);
            let raw = blocks(&[&body]);
            for limit in [0, 1, 999, 1000, 1001, 1199 + before, 1200 + before, 5000] {
                let (preview, more) = redacted(&raw).preview(limit);
                assert!(body.starts_with(&preview));
                assert_eq!(preview.chars().count(), limit.min(1200 + before));
                assert_eq!(more, limit < 1200 + before, "{limit} of {}", 1200 + before);
                assert_eq!(spooled(Spool::new(raw.as_bytes(), 3)).preview(limit), (preview, more));
            }
        }
    }
    assert_eq!(redacted(&blocks(&["a", "", "b"])).preview(1000), ("a\n\nb".to_owned(), false));
    assert_eq!(redacted(&blocks(&["ab", "c"])).preview(2), ("ab".to_owned(), true));
    assert_eq!(
        redacted(r#"{"structuredContent":{"n": 1}}"#).preview(1000),
        (r#"{"n": 1}"#.to_owned(), false)
    );
    assert_eq!(redacted(&blob("AAAA")).preview(1000), (String::new(), false));
}

#[test]
fn the_preview_reads_no_more_than_it_needs() {
    let raw = blocks(&[&"x".repeat(5_000_000)]);
    let spool = Spool::new(raw.as_bytes(), usize::MAX);
    let counter = Arc::clone(&spool.read);
    let redacted = spooled(spool);
    let indexed = counter.swap(0, Ordering::Relaxed);
    assert_eq!(indexed, raw.len() as u64);
    assert!(redacted.preview(1000).1);
    assert!(counter.load(Ordering::Relaxed) <= 4096, "{} bytes read", counter.load(Ordering::Relaxed));
}

#[test]
fn an_error_text_is_cut_at_a_character() {
    let error = |text: &str| redacted(&blocks(&[text])).error_text(512);
    assert_eq!(error("bad zone"), "bad zone");
    assert_eq!(error(&"x".repeat(512)), "x".repeat(512));
    assert_eq!(error(&"x".repeat(513)), "x".repeat(512) + "…");
    assert_eq!(error(&("x".to_owned() + &"é".repeat(1000))), "x".to_owned() + &"é".repeat(255) + "…");
    assert_eq!(
        redacted(r#"{"isError":true,"structuredContent":{"code":5}}"#).error_text(512),
        r#"{"code":5}"#
    );
    for empty in [r#"{"isError":true}"#, &blob("AA=="), &blocks(&[""])] {
        assert_eq!(redacted(empty).error_text(512), "the tool reported an error and gave no text");
    }
}

#[test]
fn a_spool_that_fails_is_an_error_and_not_an_end() {
    let raw = blocks(&[&"x".repeat(300_000)]);
    let healthy = spooled(Spool::new(raw.as_bytes(), 64 * 1024));
    assert_eq!(read(&healthy, Format::Text).unwrap().len(), 300_000);
    // The disk fails after the answer was indexed.
    struct Dying(Spool, std::sync::atomic::AtomicBool);
    impl content::Source for Dying {
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
            if self.1.load(Ordering::Relaxed) && offset > 100_000 {
                return Err(std::io::Error::other("the disk is gone"));
            }
            self.0.read_at(offset, buf)
        }
    }
    let dying = Arc::new(Dying(Spool::new(raw.as_bytes(), 64 * 1024), false.into()));
    let source: Arc<dyn content::Source> = Arc::clone(&dying) as _;
    let redacted = cleaned(content::Answer::index(source, &|| false).unwrap());
    dying.1.store(true, Ordering::Relaxed);
    for format in [Format::Text, Format::Json] {
        let mut sink = Vec::new();
        let error = redacted.rendition(format).unwrap().read_to_end(&mut sink).unwrap_err();
        assert_eq!(error.to_string(), "the disk is gone");
    }
    let (preview, more) = redacted.preview(1_000_000);
    assert!(more && preview.len() < 300_000);
}

#[test]
fn names_of_formats_are_exact() {
    assert_eq!(Format::from_name("text"), Some(Format::Text));
    assert_eq!(Format::default(), Format::Text);
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.as_str()), Some(format));
    }
    for other in ["JSON", "", "yaml", "text "] {
        assert_eq!(Format::from_name(other), None);
    }
}

#[test]
fn what_is_sent_on_can_go_to_another_thread_and_be_read_twice() {
    fn assert_send<T: Send + 'static>(value: T) -> T {
        value
    }
    let redacted = cleaned(index(blocks(&["shared"]).as_bytes()).unwrap());
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let rendition = assert_send(redacted.clone().rendition(Format::Text).unwrap());
            let reader = assert_send(redacted.json());
            std::thread::spawn(move || {
                (std::io::read_to_string(rendition).unwrap(), std::io::read_to_string(reader).unwrap())
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), ("shared".to_owned(), blocks(&["shared"])));
    }
}
