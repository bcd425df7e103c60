//! What the scanner reports, its bounds, and that it looks at each byte once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use jsonspan::{CAPTURE, Event, MAX_DEPTH, Scanner, Span, check};

fn text_of(text: &str, start: u64, end: u64) -> &str {
    &text[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()]
}

fn fault(text: &[u8]) -> String {
    check(text).expect_err("must be refused").to_string()
}

#[test]
fn every_token_is_reported_with_its_place() {
    let text = r#" {"a\u0062": [1e45, -0, true], "s":"x\ny" } "#;
    let mut seen = Vec::new();
    let mut sink = |event: Event<'_>| {
        let token = match event {
            Event::Key(t) | Event::String(t) | Event::Number(t) | Event::Literal(t) => t,
            Event::ObjectBegin { at } | Event::ArrayBegin { at } => {
                return seen.push((at, at + 1, String::new()));
            }
            Event::ObjectEnd { end } | Event::ArrayEnd { end } => {
                return seen.push((end - 1, end, String::new()));
            }
        };
        seen.push((token.span.start, token.span.end, token.text().unwrap().into_owned()));
    };
    let mut scanner = Scanner::new();
    scanner.feed(text.as_bytes(), &mut sink).unwrap();
    scanner.finish(&mut sink).unwrap();
    let said: Vec<&str> = seen.iter().map(|(_, _, said)| said.as_str()).collect();
    assert_eq!(said, ["", "ab", "", "1e45", "-0", "true", "", "s", "x\ny", ""]);
    let cut: Vec<&str> = seen.iter().map(|&(start, end, _)| text_of(text, start, end)).collect();
    assert_eq!(cut, ["{", r#""a\u0062""#, "[", "1e45", "-0", "true", "]", r#""s""#, r#""x\ny""#, "}"]);
    assert_eq!((scanner.depth(), scanner.offset(), scanner.is_complete()), (0, text.len() as u64, true));
}

#[test]
fn a_number_that_is_the_whole_text_is_reported_at_its_end() {
    for text in ["0", "-12.5e+7", " 42", "7 "] {
        let mut numbers = Vec::new();
        let mut sink = |event: Event<'_>| {
            if let Event::Number(token) = event {
                numbers.push(token.text().unwrap().into_owned());
            }
        };
        let mut scanner = Scanner::new();
        for piece in text.as_bytes().chunks(1) {
            scanner.feed(piece, &mut sink).unwrap();
        }
        scanner.finish(&mut sink).unwrap();
        assert_eq!(numbers, [text.trim()]);
    }
}

#[test]
fn only_short_tokens_are_captured_however_they_are_cut() {
    for (length, captured) in
        [(0, true), (1, true), (CAPTURE - 1, true), (CAPTURE, true), (CAPTURE + 1, false), (90_000, false)]
    {
        let text = format!("[\"{}\"]", "é".repeat(length / 2) + &"x".repeat(length % 2));
        for size in [1, 2, 3, 7, 64, 1023, 1024, 1025, text.len()] {
            let mut raw = None;
            let mut span = Span::default();
            let mut scanner = Scanner::new();
            for piece in text.as_bytes().chunks(size) {
                scanner
                    .feed(piece, &mut |event| {
                        if let Event::String(token) = event {
                            raw = token.raw().map(<[u8]>::to_vec);
                            span = token.span;
                        }
                    })
                    .unwrap();
            }
            assert_eq!(span, Span::new(1, text.len() as u64 - 1));
            let inside = text.as_bytes()[2..text.len() - 2].to_vec();
            assert_eq!(raw, captured.then_some(inside), "{length} bytes in pieces of {size}");
        }
    }
}

#[test]
fn an_unpaired_surrogate_escape_is_taken() {
    for (text, decoded) in [
        (r#""a\ud800b""#, "a\u{fffd}b"),
        (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
        (r#""\ud83d\ude00""#, "😀"),
    ] {
        let mut said = String::new();
        let mut sink = |event: Event<'_>| {
            if let Event::String(token) = event {
                said = token.text().unwrap().into_owned();
            }
        };
        let mut scanner = Scanner::new();
        scanner.feed(text.as_bytes(), &mut sink).unwrap();
        assert_eq!(said, decoded);
    }
}

#[test]
fn a_fault_names_its_byte_and_stays() {
    let cases: [(&[u8], &str); 14] = [
        (b"", "unexpected end of the text at byte 0"),
        (b"[1,", "unexpected end of the text at byte 3"),
        (b"{\"v\":NaN}", "expected a value at byte 5"),
        (b"[Infinity]", "expected a value at byte 1"),
        (b"[1,]", "expected a value at byte 3"),
        (b"{\"a\":1,}", "expected a key in quotes at byte 7"),
        (b"{\"a\" 1}", "expected ':' at byte 5"),
        (b"[1 2]", "expected ',' or ']' at byte 3"),
        (b"[1}", "expected ',' or ']' at byte 2"),
        (b"[01]", "expected ',' or ']' at byte 2"),
        (b"1 2", "unexpected byte after the value at byte 2"),
        (b"\"a\nb\"", "control character in a string at byte 2"),
        (b"\"ab\xffc\"", "invalid UTF-8 at byte 3"),
        (b"nul1", "expected true, false or null at byte 3"),
    ];
    for (text, said) in cases {
        assert_eq!(fault(text), said);
    }
    let mut scanner = Scanner::new();
    let first = scanner.feed(b"[}", &mut |_| {}).unwrap_err();
    assert_eq!(scanner.feed(b"[1]", &mut |_| panic!("nothing is reported after a fault")), Err(first));
    assert_eq!(scanner.finish(&mut |_| {}), Err(first));
}

#[test]
fn depth_costs_a_bit_each_and_is_bounded() {
    let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
    assert_eq!(check(&nested(100_000)), Ok(()));
    assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
    assert_eq!(fault(&nested(MAX_DEPTH + 1)), format!("nested too deeply at byte {MAX_DEPTH}"));
    let mut scanner = Scanner::new();
    scanner.feed(br#"{"a":[{"b":[[1"#, &mut |_| {}).unwrap();
    assert_eq!(scanner.depth(), 5);
}

#[test]
fn objects_and_arrays_are_told_apart_across_the_words_of_the_stack() {
    for depth in [63, 64, 65, 127, 128, 129, 1000] {
        let open: String = (0..depth).map(|level| if level % 3 == 0 { "[" } else { r#"{"k":"# }).collect();
        let close: String = (0..depth).rev().map(|level| if level % 3 == 0 { "]" } else { "}" }).collect();
        assert_eq!(check(format!("{open}0{close}").as_bytes()), Ok(()), "{depth} levels");
        let wrong = close.replacen(['}', ']'], "x", 1);
        assert!(check(format!("{open}0{wrong}").as_bytes()).is_err());
    }
}

#[test]
fn every_single_byte_in_a_string_is_judged_as_the_grammar_says() {
    for byte in 0..=255_u8 {
        for before in 0..20 {
            let text = [b"\"", "x".repeat(before).as_bytes(), &[byte], b"yyyyyyyyyyyy\""].concat();
            let good = (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
            assert_eq!(check(&text).is_ok(), good, "byte {byte:#x} after {before}");
        }
    }
}

/// Twice the text must make twice the tokens and no more: the scanner never looks back.
#[test]
fn events_grow_with_the_text_and_not_faster() {
    let count = |copies: usize| {
        let text = format!("[{}]", vec![r#"{"k":[1,"two",null]}"#; copies].join(","));
        let mut events = 0_usize;
        let mut scanner = Scanner::new();
        scanner.feed(text.as_bytes(), &mut |_| events += 1).unwrap();
        events - 2
    };
    assert_eq!(count(2000), 2 * count(1000));
}
