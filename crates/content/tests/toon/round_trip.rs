//! What is encoded decodes to the same value; what would not is refused.

use std::num::NonZeroU8;

use content::shape::toon::{Delimiter, MAX_DEPTH, MAX_TOON_BYTES, NotEncodable, Options, encode};

use super::decoder;
use super::random::Random;
use super::value::Json;

fn toon(json: &str) -> Result<String, NotEncodable> {
    encode(json, &Options::default())
}

fn all_options() -> Vec<Options> {
    let mut all = Vec::new();
    for delimiter in [Delimiter::Comma, Delimiter::Tab, Delimiter::Pipe] {
        for indent in [1, 2, 4] {
            all.push(Options { delimiter, indent_size: NonZeroU8::new(indent).unwrap() });
        }
    }
    all
}

pub fn assert_round_trip(json: &str) {
    let wanted = Json::parse(json);
    for options in all_options() {
        let toon = encode(json, &options).unwrap_or_else(|reason| panic!("{reason}: {json}"));
        let decoded = decoder::decode_indented(&toon, usize::from(options.indent_size.get()));
        let same = decoded.as_ref().is_ok_and(|got| got.equals(&wanted));
        assert!(same, "{options:?}\n{json}\n{toon}\n{decoded:?}");
        assert_well_formed(&toon);
    }
}

/// No blank at the end of a line or the text, no line that a reader skips, no tab or odd character for layout.
fn assert_well_formed(toon: &str) {
    for line in toon.split('\n').filter(|_| !toon.is_empty()) {
        assert!(!line.is_empty() && !line.ends_with(' ') && !line.contains('\r'), "{line:?} in {toon:?}");
        let text = line.trim_start_matches(' ');
        assert!(!text.starts_with(['#', '\t']), "{line:?}");
    }
}

#[test]
fn random_documents_decode_to_what_they_were() {
    let seed = std::env::var("TOON_SEED").ok().map_or_else(
        || {
            u64::from(
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos(),
            )
        },
        |seed| seed.parse().unwrap(),
    );
    eprintln!("TOON_SEED={seed}");
    let mut random = Random::new(seed);
    let (mut tables, mut keyed, mut groups) = (0, 0, 0);
    for _ in 0..3000 {
        let depth = 1 + random.below(4);
        let value = random.value(depth);
        let mut json = String::new();
        random.spell(&value, &mut json);
        assert!(Json::parse(&json).equals(&value), "the generator spells {value:?} as {json}");
        assert_round_trip(&json);
        let toon = toon(&json).unwrap();
        tables += usize::from(toon.contains("]{"));
        keyed += usize::from(toon.contains(":]{"));
        groups += usize::from(toon.contains("}}:"));
    }
    let counts = format!("{tables} with tables, {keyed} keyed, {groups} with groups of columns");
    assert!(tables > 600 && keyed > 150 && groups > 30, "{counts}");
    eprintln!("3000 documents: {counts}");
}

#[test]
fn the_order_of_keys_is_kept_and_tables_take_that_of_the_first_row() {
    assert_eq!(toon(r#"{"b":1,"a":{"d":2,"c":3}}"#).unwrap(), "b: 1\na:\n  d: 2\n  c: 3");
    let rows = r#"[{"b":1,"a":{"y":2,"x":3}},{"a":{"x":6,"y":5},"b":4}]"#;
    assert_eq!(toon(rows).unwrap(), "[2]{b,a{y,x}}:\n  1,2,3\n  4,5,6");
}

#[test]
fn strings_that_look_like_other_values_keep_their_type() {
    let looks = [
        "true", "null", "42", "05", "-3.14", "1e5", "", " x", "-", "- a", "#h", "+1", ".5", "[3]: x", "a,b",
        "a:b", "false", "-0", "1E5", "[]", "{}", "a|b", "a\\tb", "x ", "\\u00a0x",
    ];
    for look in looks {
        let rows = vec![format!("{{\"v\":\"{look}\"}}"); 4].join(",");
        assert_round_trip(&format!("[{rows}]"));
        assert_round_trip(&format!("{{\"rows\":[{rows}]}}"));
        assert_round_trip(&format!("[\"{look}\",{{\"v\":\"{look}\"}},[\"{look}\"]]"));
        assert_round_trip(&format!("\"{look}\""));
    }
}

#[test]
fn numbers_keep_their_value_or_the_text_is_refused() {
    let rows = |number: &str| format!("[{}]", vec![format!("{{\"v\":{number}}}"); 4].join(","));
    for (number, cell) in
        [("-0", "0"), ("1.10", "1.1"), ("0.1e-7", "1e-8"), ("1e20", "100000000000000000000")]
    {
        assert_eq!(toon(&rows(number)).unwrap(), format!("[4]{{v}}:{}", format!("\n  {cell}").repeat(4)));
        assert_round_trip(&rows(number));
    }
    let lossy = [
        "18446744073709551616",
        "123456789012345678901234567890",
        "1e400",
        "-1e400",
        "1e-400",
        "9007199254740993",
        "0.1000000000000000055511151231257827",
    ];
    for number in lossy {
        assert_eq!(toon(&rows(number)), Err(NotEncodable::InexactNumber), "{number}");
        assert_eq!(toon(number), Err(NotEncodable::InexactNumber), "{number}");
        assert_eq!(toon(&format!("{{\"a\":[1,{number}]}}")), Err(NotEncodable::InexactNumber), "{number}");
    }
}

#[test]
fn what_looks_like_a_header_in_a_string_or_a_path_in_a_key_stays_that() {
    assert_eq!(toon(r#"{"a":"[2]: x"}"#).unwrap(), r#"a: "[2]: x""#);
    assert_round_trip(r#"{"a":"[2]: x"}"#);
    assert_round_trip(r#"{"a":"k[2]: 1,2"}"#);
    for key in [".", "a.b", " .", "a..b", "[2]", "k[2]", "a{b}", "a:b"] {
        let json = format!("[{}]", vec![format!("{{\"{key}\":1,\"z\":\"{key}\"}}"); 4].join(","));
        assert!(!toon(&json).unwrap().contains('\0'), "{key}");
        assert_round_trip(&json);
    }
}

#[test]
fn a_key_that_appears_twice_in_one_object_is_refused() {
    let twice = [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"x":{"a":1,"b":2,"a":3}}"#,
        r#"{"a":{"a":1},"b":2,"a":3}"#,
        r#"[{"a":1},{"a":1,"a":1}]"#,
        r#"[{"a":[],"a":[]}]"#,
    ];
    for json in twice {
        assert_eq!(toon(json), Err(NotEncodable::DuplicateKey), "{json}");
    }
    assert_round_trip(r#"{"a":{"a":{"a":1,"b":{"a":2}}},"b":[{"a":1,"b":2}]}"#);
}

#[test]
fn half_of_a_surrogate_pair_is_refused_and_a_whole_one_is_a_character() {
    let halves = [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83dx""#,
        r#""\ud83d\n""#,
        r#""\ud83d\ud83d\ude00""#,
        r#"{"\udc00":1}"#,
        r#"[{"a":"\ud800"}]"#,
    ];
    for json in halves {
        assert_eq!(toon(json), Err(NotEncodable::LoneSurrogate), "{json}");
    }
    assert_eq!(toon(r#""\ud83d\ude00""#).unwrap(), "😀");
    assert_eq!(toon(r#""\ufffd\u0000""#).unwrap(), "\"\u{fffd}\\u0000\"");
}

#[test]
fn blanks_at_the_edges_are_quoted_also_when_they_are_not_ascii() {
    for text in ["\u{a0}x", "x\u{3000}", "\u{feff}x", "\u{85}", "x\u{2029}"] {
        assert_eq!(toon(&format!("\"{text}\"")).unwrap(), format!("\"{text}\""));
    }
    assert_eq!(toon("\"a\u{a0}b\"").unwrap(), "a\u{a0}b");
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    assert_round_trip(&deep(MAX_DEPTH));
    assert_eq!(toon(&deep(MAX_DEPTH + 1)), Err(NotEncodable::TooDeep));
    let objects = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert_round_trip(&objects(MAX_DEPTH));
    assert_eq!(toon(&objects(MAX_DEPTH + 1)), Err(NotEncodable::TooDeep));
    assert_eq!(toon(&deep(100_000)), Err(NotEncodable::TooDeep));

    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert_eq!(toon(&long(MAX_TOON_BYTES)).unwrap().len(), MAX_TOON_BYTES - 2);
    assert_eq!(toon(&long(MAX_TOON_BYTES + 1)), Err(NotEncodable::TooLong));

    let indented = format!("{}{}{}", "[".repeat(60), vec!["{}"; 200_000].join(","), "]".repeat(60));
    assert_eq!(toon(&indented), Err(NotEncodable::TooMuchOutput));
}

#[test]
fn two_hundred_thousand_elements_come_out_whole() {
    let numbers: Vec<String> = (0..200_000).map(|n| (n % 1000).to_string()).collect();
    let toon = toon(&format!("[{}]", numbers.join(","))).unwrap();
    assert_eq!(toon, format!("[200000]: {}", numbers.join(",")));
}

#[test]
fn what_is_not_one_json_value_is_refused() {
    for text in ["", " ", "plain text", "{", "[1,]", "1 2", "{'a':1}", "NaN", "01", "\u{feff}1", "\"a\nb\""] {
        assert!(matches!(toon(text), Err(NotEncodable::NotJson(_))), "{text:?}");
    }
}
