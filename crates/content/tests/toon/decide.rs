//! When an agent gets TOON instead of JSON.

use content::shape::toon::{
    DEFAULT_SAVINGS_PCT, MARKER, MIN_ROOM, Mode, NotEncodable, Outcome, adaptive, decide,
};

use super::decoder;
use super::random::Random;
use super::value::Json;

fn rows(count: usize) -> String {
    let rows: Vec<String> =
        (0..count).map(|n| format!("{{\"id\":{n},\"name\":\"user {n}\",\"active\":true}}")).collect();
    format!("[{}]", rows.join(","))
}

fn ask(json: &str, mode: Mode) -> Outcome {
    decide(json, mode, 15, usize::MAX)
}

/// The body under the marker line.
fn body(outcome: &Outcome) -> &str {
    let Outcome::Encoded(text) = outcome else { panic!("{outcome:?}") };
    text.strip_prefix(MARKER).unwrap().strip_prefix('\n').unwrap()
}

#[test]
fn a_table_comes_under_the_marker_line_and_decodes_to_what_it_was() {
    let json = rows(50);
    for mode in [Mode::Adaptive, Mode::Always] {
        let outcome = ask(&json, mode);
        assert!(decoder::decode(body(&outcome)).unwrap().equals(&Json::parse(&json)));
        let Outcome::Encoded(text) = &outcome else { unreachable!() };
        assert!(text.len() * 100 <= json.len() * 85);
        assert_eq!(adaptive(&json, mode, 15).as_ref(), Some(text));
    }
    assert!(body(&ask(&json, Mode::Adaptive)).starts_with("[50]{id,name,active}:\n  0,user 0,true\n"));
    let wrapped = format!("{{\"users\":{json}}}");
    assert!(body(&ask(&wrapped, Mode::Adaptive)).starts_with("users[50]{id,name,active}:\n"));
    assert_eq!(ask(&json, Mode::Off), Outcome::NotAsked);
    assert_eq!(adaptive(&json, Mode::Off, 15), None);
}

#[test]
fn three_rows_are_no_table_and_four_are() {
    let wide = |count: usize| {
        let rows = vec![format!("{{\"{}\":1,\"{}\":2}}", "a".repeat(200), "b".repeat(200)); count];
        format!("[{}]", rows.join(","))
    };
    assert_eq!(ask(&wide(3), Mode::Adaptive), Outcome::NotTabular);
    assert!(matches!(ask(&wide(4), Mode::Adaptive), Outcome::Encoded(_)));
    assert!(matches!(ask(&wide(3), Mode::Always), Outcome::Encoded(_)));
}

#[test]
fn what_is_no_table_stays_in_adaptive_mode() {
    let rows = rows(50);
    let not = [
        format!("{{\"users\":{rows},\"total\":50}}"),
        format!("{{\"data\":{{\"users\":{rows}}}}}"),
        format!("[{rows}]"),
        format!("[{}]", vec![r#"{"id":1,"user":{"name":"x","mail":"y"}}"#; 50].join(",")),
        format!("[{}]", vec![r#"{"id":1,"tags":["a","b","c"]}"#; 50].join(",")),
        format!("[{}]", vec![r#""only a string""#; 50].join(",")),
        format!("[{},1]", &rows[1..rows.len() - 1]),
        r#"{"a":{"x":1},"b":{"x":1},"c":{"x":1},"d":{"x":1},"e":{"x":1}}"#.to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        "42".to_owned(),
    ];
    for json in not {
        assert_eq!(ask(&json, Mode::Adaptive), Outcome::NotTabular, "{json:.60}");
        assert!(matches!(ask(&json, Mode::Always), Outcome::Encoded(_)), "{json:.60}");
    }
}

#[test]
fn each_key_must_be_in_nine_of_ten_rows() {
    let sparse = |with: usize| {
        let name = "a_rather_long_key_that_is_spelled_in_each_row";
        let rows: Vec<String> = (0..20)
            .map(|n| {
                if n < with {
                    format!("{{ \"{name}\": 1, \"b\": 2 }}")
                } else {
                    format!("{{ \"{name}\": 1 }}")
                }
            })
            .collect();
        format!("[\n    {}\n]", rows.join(",\n    "))
    };
    assert_ne!(ask(&sparse(18), Mode::Adaptive), Outcome::NotTabular);
    assert_eq!(ask(&sparse(17), Mode::Adaptive), Outcome::NotTabular);
    assert_ne!(ask(&sparse(20), Mode::Adaptive), Outcome::NotTabular);
}

#[test]
fn it_is_sent_from_the_very_byte_on_that_saves_enough() {
    let json = (1..).map(|pad| rows(10).replacen("user 0", &"u".repeat(pad), 1)).take(2000);
    let (json, len) = json
        .map(|json| {
            let Outcome::Encoded(text) = ask(&json, Mode::Always) else { panic!("{json}") };
            (json, text.len())
        })
        .find(|&(_, len)| len == 850)
        .expect("a table of 850 bytes");
    // Blanks make the JSON longer and the TOON not.
    let padded = |bytes: usize| format!("{json}{}", " ".repeat(bytes - json.len()));
    let saved = |bytes: usize| (bytes - len) as f64 * 100.0 / bytes as f64;
    for (bytes, pct, sent) in [(999, 14.9, false), (1000, 15.0, true), (1001, 15.1, true)] {
        assert!((saved(bytes) - pct).abs() < 0.05);
        let outcome = decide(&padded(bytes), Mode::Adaptive, 15, usize::MAX);
        assert_eq!(matches!(outcome, Outcome::Encoded(_)), sent, "{bytes}: {outcome:?}");
        assert_eq!(outcome == Outcome::BelowThreshold, !sent);
        assert_eq!(adaptive(&padded(bytes), Mode::Adaptive, 15).is_some(), sent);
    }
}

#[test]
fn savings_outside_one_to_ninety_mean_the_default() {
    assert_eq!(DEFAULT_SAVINGS_PCT, 15);
    let json = rows(50);
    for pct in [0, 91, 100, 255] {
        assert_eq!(decide(&json, Mode::Adaptive, pct, usize::MAX), ask(&json, Mode::Adaptive));
    }
    assert_eq!(decide(&json, Mode::Adaptive, 90, usize::MAX), Outcome::BelowThreshold);
    assert!(matches!(decide(&json, Mode::Adaptive, 1, usize::MAX), Outcome::Encoded(_)));
}

#[test]
fn with_no_room_for_more_than_the_marker_the_text_stays() {
    let json = rows(50);
    for mode in [Mode::Adaptive, Mode::Always] {
        assert_eq!(decide(&json, mode, 15, MIN_ROOM - 1), Outcome::NotAsked);
        assert!(matches!(decide(&json, mode, 15, MIN_ROOM), Outcome::Encoded(_)));
    }
    assert_eq!(MIN_ROOM, MARKER.len() + 17);
}

#[test]
fn what_would_lose_something_stays_in_every_mode() {
    let rows = rows(50);
    let table =
        |cell: &str| format!("{},{{\"id\":{cell},\"name\":\"x\",\"active\":true}}]", &rows[..rows.len() - 1]);
    let cases = [
        (table("9007199254740993"), NotEncodable::InexactNumber),
        (table("1e400"), NotEncodable::InexactNumber),
        (table("\"\\ud800\""), NotEncodable::LoneSurrogate),
        (table("1,\"id\":2"), NotEncodable::DuplicateKey),
    ];
    for (json, reason) in cases {
        for mode in [Mode::Adaptive, Mode::Always] {
            assert_eq!(ask(&json, mode), Outcome::Failed(reason.clone()), "{json}");
        }
    }
    assert!(matches!(ask("Plain text: not JSON", Mode::Always), Outcome::Failed(NotEncodable::NotJson(_))));
}

#[test]
fn adaptive_never_sends_more_than_the_json() {
    let mut random = Random::new(7);
    let mut encoded = 0;
    for _ in 0..4000 {
        let row = random.value(1);
        let count = random.below(40);
        let mut json = String::new();
        random.spell(&Json::Array(vec![row; count]), &mut json);
        for pct in [1, 15, 60] {
            if let Some(text) = adaptive(&json, Mode::Adaptive, pct) {
                assert!(text.len() * 100 <= json.len() * (100 - usize::from(pct)), "{json}\n{text}");
                encoded += 1;
            }
        }
    }
    assert!(encoded > 100, "only {encoded}");
}

#[test]
fn the_marker_says_what_it_is_in_one_line() {
    assert_eq!(
        MARKER,
        "[mcpproxy:toon/v1] TOON-encoded JSON (toon-format.org); decode to JSON before reuse - \
         tool arguments must still be sent as JSON."
    );
}
