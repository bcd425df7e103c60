//! Decoding and writing string literals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use jsonspan::{Unescape, check, escape_into};

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> String {
    let mut out = Vec::new();
    let mut unescape = Unescape::new();
    for piece in pieces {
        unescape.push(piece, &mut out);
    }
    unescape.finish(&mut out);
    String::from_utf8(out).expect("the output is UTF-8")
}

#[test]
fn escapes_are_decoded_wherever_the_literal_is_cut() {
    let cases = [
        ("", ""),
        ("plain é€😀", "plain é€😀"),
        (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r"\u0041\u00e9\u20AC", "Aé€"),
        (r"\ud83d\ude00!", "😀!"),
        (r"\ud83d", "\u{fffd}"),
        (r"\ud83dx", "\u{fffd}x"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        (r"\ud83dé\ude00", "\u{fffd}é\u{fffd}"),
        (r"\u0000", "\0"),
    ];
    for (literal, said) in cases {
        let bytes = literal.as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(decode([&bytes[..cut], &bytes[cut..]].into_iter()), said, "{literal} cut at {cut}");
        }
        assert_eq!(decode(bytes.chunks(1)), said, "{literal} byte by byte");
    }
}

#[test]
fn broken_escapes_do_no_harm() {
    for broken in [r"\", r"\u", r"\u12", r"\uzzzz", r"\q", r"\ud83d\", r"\ud83d\u12"] {
        assert!(decode(broken.as_bytes().chunks(1)).contains('\u{fffd}'), "{broken}");
    }
}

#[test]
fn writing_escapes_only_what_must_be() {
    let mut out = Vec::new();
    escape_into("<a href='x'>&\u{2028}é😀/\"\\\n\r\t\u{8}\u{c}\u{1f}\u{7f}", &mut out);
    let said = String::from_utf8(out).unwrap();
    assert_eq!(said, "\"<a href='x'>&\u{2028}é😀/\\\"\\\\\\n\\r\\t\\b\\f\\u001f\u{7f}\"");
}

#[test]
fn what_is_written_reads_back_the_same() {
    let every: String = (0..0x3000).chain([0xfffd, 0x1_f600, 0x10_ffff]).filter_map(char::from_u32).collect();
    let mut out = Vec::new();
    escape_into(&every, &mut out);
    assert_eq!(check(&out), Ok(()));
    assert_eq!(decode([&out[1..out.len() - 1]].into_iter()), every);
}
