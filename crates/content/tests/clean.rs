//! Secrets, control characters and forwarded values are taken out of answers, and nothing else is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "corpus/secrets.rs"]
mod secrets;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use common::{Spool, answer, json, read};
use content::clean::{
    Action, Blocked, Categories, Category, Cleaning, CustomPattern, CustomPatterns, Forwarded, Severity,
    StripClasses, clean_json, clean_text, clean_with, rules,
};
use content::schema::check_output;
use content::{Answer, Format, Redacted};
use secrets::{Rng, fill, ghp};

fn redacting() -> Cleaning {
    Cleaning::new(Action::Redact, Categories::ALL, Arc::default())
}

fn blocking() -> Cleaning {
    Cleaning::new(Action::Block, Categories::ALL, Arc::default())
}

/// Cleans, and asserts that what comes out is JSON and does not depend on how the bytes come.
fn try_clean(raw: &str, cleaning: &Cleaning) -> Result<Redacted, Blocked> {
    let checked = check_output(answer(raw));
    let redacted = clean_with(checked, cleaning, &|| false)?;
    let out = json(&redacted);
    jsonspan::check(&out).unwrap();
    for step in [1, 3, 64, 1000] {
        if raw.len() / step > 20_000 {
            continue;
        }
        let answer = Answer::index(Arc::new(Spool::new(raw.as_bytes(), step)), &|| false).unwrap();
        let again = clean_with(check_output(answer), cleaning, &|| false).unwrap();
        assert_eq!(json(&again), out, "{step} bytes at a time");
    }
    Ok(redacted)
}

fn clean(raw: &str, cleaning: &Cleaning) -> Redacted {
    try_clean(raw, cleaning).unwrap()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn blocks(texts: &[&str]) -> String {
    let blocks: Vec<String> =
        texts.iter().map(|text| format!(r#"{{"type":"text","text":{}}}"#, quoted(text))).collect();
    format!(r#"{{"content":[{}]}}"#, blocks.join(","))
}

fn text_of(redacted: &Redacted) -> String {
    String::from_utf8(read(redacted, Format::Text).unwrap()).unwrap()
}

/// The text of an answer with one text block, redacted.
fn redact(text: &str) -> String {
    text_of(&clean(&blocks(&[text]), &redacting()))
}

#[test]
fn every_rule_finds_its_example_and_not_its_counterexample() {
    assert!(rules().len() > 40);
    for (index, rule) in rules().enumerate() {
        let mut rng = Rng(index as u64);
        for round in 0..20 {
            let text = fill(rule.example, &mut rng);
            let redacted = clean(&blocks(&[&text]), &redacting());
            let found = &redacted.findings().secrets;
            assert!(
                found.iter().any(|finding| finding.kind == rule.name),
                "{} misses {text}: {found:?}",
                rule.name
            );
            let category = format!("[REDACTED:{}]", rule.category.as_str());
            assert!(
                text_of(&redacted).contains(&category),
                "{} round {round}: {}",
                rule.name,
                text_of(&redacted)
            );
        }
        let text = fill(rule.counterexample, &mut rng);
        let redacted = clean(&blocks(&[&text]), &redacting());
        let found = &redacted.findings().secrets;
        assert!(found.iter().all(|finding| finding.kind != rule.name), "{} finds {text}", rule.name);
        assert!(!rule.example.is_empty() && !rule.counterexample.is_empty());
    }
}

#[test]
fn a_private_key_goes_whole() {
    let mut rng = Rng(65);
    let pem = secrets::pem(&mut rng);
    assert_eq!(redact(&format!("a\n{pem}\nz")), "a\n[REDACTED:private_key]\nz");
    // Within JSON in a text, as cloud accounts have it.
    let account = format!(r#"{{"private_key":{},"project_id":"p"}}"#, quoted(&(pem.clone() + "\n")));
    let cleaned = redact(&account);
    let value: serde_json::Value = serde_json::from_str(&cleaned).unwrap();
    assert_eq!(value["project_id"], "p");
    assert_eq!(value["private_key"], "[REDACTED:private_key]\n");
    // As structured content, and as a list of lines.
    let lines: Vec<&str> = pem.lines().collect();
    let raw = format!(
        r#"{{"structuredContent":{{"key":{},"lines":{},"n":7}}}}"#,
        quoted(&pem),
        serde_json::to_string(&lines).unwrap()
    );
    let value: serde_json::Value = serde_json::from_slice(&json(&clean(&raw, &redacting()))).unwrap();
    let mark = "[REDACTED:private_key]";
    assert_eq!(value["structuredContent"]["key"], mark);
    assert_eq!(value["structuredContent"]["lines"], serde_json::json!(vec![mark; lines.len()]));
    assert_eq!(value["structuredContent"]["n"], 7);
    // Without its end, and with headers; two keys; a text that speaks of keys.
    let cut = &pem[..pem.len() - 40];
    assert_eq!(
        redact(&format!("x {cut}")),
        format!("x [REDACTED:private_key]{}", if cut.ends_with("==") { "" } else { &cut[cut.len()..] })
    );
    assert_eq!(redact(&format!("{pem}\n--\n{pem}")), "[REDACTED:private_key]\n--\n[REDACTED:private_key]");
    let begin = fill("-----BEGIN {PRIVATE}-----", &mut rng);
    let end = fill("-----END {PRIVATE}-----", &mut rng);
    let prose = format!("Put the lines between {begin} and {end} into the file. See the manual.");
    assert_eq!(redact(&prose), prose);
    let apart = format!(
        "It begins with {begin}.\n{}\nIt ends with {end}.",
        "All of this is prose, not a key. ".repeat(20)
    );
    assert_eq!(redact(&apart), apart);
    let pgp = fill(
        "-----BEGIN PGP {PRIVATE} BLOCK-----\nVersion: 1\n\n{B64}\n{B64}\n=abcd\n-----END PGP {PRIVATE} BLOCK-----",
        &mut rng,
    );
    assert_eq!(redact(&pgp), mark);
    // Under the C string of a program, lines quoted one by one.
    let code: String = pem.lines().map(|line| format!("    \"{line}\\n\"\n")).collect();
    assert_eq!(redact(&code).matches("[REDACTED:private_key]").count(), 1);
    assert!(lines[1..4].iter().all(|line| !redact(&code).contains(line)));
}

#[test]
fn a_secret_over_two_blocks_does_not_come_together() {
    let secret = ghp(&mut Rng(67));
    let redacted =
        clean(&blocks(&[&format!("t={}", &secret[..20]), &format!("{} end", &secret[20..])]), &redacting());
    assert!(!text_of(&redacted).contains(&secret));
}

#[test]
fn what_is_not_seen_hides_no_secret() {
    let secret = ghp(&mut Rng(68));
    let all = redacting().strip(StripClasses::ALL);
    for hide in [
        "\u{200c}",
        "\u{200b}\u{feff}",
        "\u{ad}",
        "\u{1b}[0m",
        "\u{1b}[31m\u{1b}[K",
        "\u{0}",
        "\u{202e}",
        "\u{2066}",
        "\u{e0041}",
    ] {
        let hidden: String = secret.chars().map(|c| format!("{c}{hide}")).collect();
        for cleaning in [&redacting(), &all] {
            let cleaned = text_of(&clean(&blocks(&[&format!("a {hidden} b")]), cleaning));
            let bare: String = cleaned.replace(hide, "");
            assert_eq!(bare, "a [REDACTED:api_token] b", "{hide:?}");
        }
        // Written as escapes, and as escapes of escapes.
        let escaped: String =
            hidden.chars().map(|c| format!("\\u{:04x}", u32::from(c).min(0xffff))).collect();
        if !hide.contains('\u{e0041}') {
            let raw = format!(r#"{{"content":[{{"type":"text","text":"a {escaped} b"}}]}}"#);
            assert!(text_of(&clean(&raw, &all)).starts_with("a [REDACTED:api_token]"));
            let twice = text_of(&clean(&blocks(&[&format!(r#"{{"t":"{escaped}"}}"#)]), &all));
            assert!(twice.starts_with(r#"{"t":"[REDACTED:api_token]"#), "{twice}");
        }
    }
    // What touches a secret only through something unseen does not make it part of a word.
    assert_eq!(redact(&format!("word\u{200b}{secret}\u{200b}")), "word\u{200b}[REDACTED:api_token]\u{200b}");
    let stripped = text_of(&clean(&blocks(&[&format!("word\u{200b}{secret}")]), &all));
    assert_eq!(stripped, "word[REDACTED:api_token]");
}

#[test]
fn structure_is_never_eaten() {
    let mut rng = Rng(69);
    let inner = fill(
        r#"{"headers":{"Authorization":["Bearer {H40}","Bearer {H40}"],"z":1},"X-Api-Key":12345,"tail":"kept"}"#,
        &mut rng,
    );
    for raw in [blocks(&[&inner]), format!(r#"{{"structuredContent":{inner}}}"#)] {
        let redacted = clean(&raw, &redacting());
        let whole: serde_json::Value = serde_json::from_slice(&json(&redacted)).unwrap();
        let value = match whole["content"][0]["text"].as_str() {
            Some(text) => serde_json::from_str(text).unwrap(),
            None => whole["structuredContent"].clone(),
        };
        assert_eq!(
            value["headers"]["Authorization"],
            serde_json::json!(["Bearer [REDACTED:auth_token]", "Bearer [REDACTED:auth_token]"])
        );
        assert_eq!(
            (&value["headers"]["z"], &value["X-Api-Key"], &value["tail"]),
            (&1.into(), &12345.into(), &"kept".into())
        );
        assert_eq!(redacted.findings().count_secrets(), 2);
    }
}

#[test]
fn every_string_is_looked_at_wherever_it_stands() {
    let secret = ghp(&mut Rng(70));
    let blob = STANDARD.encode(format!("some text before\n{secret}\nand after, é€😀"));
    let raw = format!(
        r#"{{"content":[{{"type":"text","text":"{secret}"}},{{"type":"resource","resource":{{"uri":"x","text":"{secret}"}}}},
        {{"type":"resource_link","uri":"https://x/?t={secret}","name":"{secret}"}},{{"type":"resource","resource":{{"blob":"{blob}"}}}},
        {{"type":"x-future","deep":[[{{"{secret}":"{secret}"}}]]}},"{secret}"],"structuredContent":{{"{secret}":["{secret}",1e400]}},
        "_meta":{{"k":"{secret}"}},"unknown":"{secret}","isError":true}}"#
    );
    let redacted = clean(&raw, &redacting());
    let out = String::from_utf8(json(&redacted)).unwrap();
    let expected = raw.replace(&secret, "[REDACTED:api_token]");
    let blob_out: &str = out.split(r#""blob":""#).nth(1).unwrap().split('"').next().unwrap();
    let decoded = String::from_utf8(STANDARD.decode(blob_out).unwrap()).unwrap();
    assert!(
        decoded.starts_with("some text before\n[REDACTED:api_token]")
            && decoded.ends_with("\nand after, é€😀"),
        "{decoded}"
    );
    assert_eq!(out, expected.replace(&blob, blob_out));
    assert_eq!(redacted.findings().count_secrets(), 12);
    assert_eq!(redacted.findings().secrets[0].place, "/content/0/text");
    assert_eq!(redacted.findings().unscanned_bytes, 0);
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let mut rng = Rng(71);
    let text = fill(
        "id {UUID} commit {H40} integrity sha512-{B86}== sha256:{H64} n 4111111111111112 key AKIAIOSFODNN7EXAMPLE",
        &mut rng,
    );
    assert_eq!(redact(&text), text);
    let redacted = try_clean(&blocks(&[&text]), &blocking()).unwrap();
    assert!(redacted.findings().secrets.is_empty());
}

#[test]
fn the_number_of_secrets_is_no_limit() {
    let mut rng = Rng(74);
    let all: Vec<String> = (0..3000).map(|_| ghp(&mut rng)).collect();
    let redacted = clean(&blocks(&[&all.join(" ")]), &redacting());
    assert_eq!(text_of(&redacted), vec!["[REDACTED:api_token]"; 3000].join(" "));
    assert_eq!(redacted.findings().count_secrets(), 3000);
}

#[test]
fn base64_hides_no_secret() {
    let mut rng = Rng(75);
    let secret = ghp(&mut rng);
    let pem = secrets::pem(&mut rng);
    let wrapped = STANDARD.encode(&pem);
    let lines: Vec<&str> = wrapped.as_bytes().chunks(76).map(|line| str::from_utf8(line).unwrap()).collect();
    let utf16: Vec<u8> = format!("$t = '{secret}'").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases = [
        (
            format!("data: {} end", STANDARD.encode(format!("export T={secret}"))),
            "data: [REDACTED:api_token] end",
        ),
        (
            format!("data: {} end", URL_SAFE_NO_PAD.encode(format!("export T={secret}?>?>"))),
            "data: [REDACTED:api_token] end",
        ),
        (format!("k:\n  {}\nz", lines.join("\n  ")), "k:\n  [REDACTED:private_key]\nz"),
        (format!("{{\"k\":\"{}\"}}", lines.join("\\n")), "{\"k\":\"[REDACTED:private_key]\"}"),
        (format!("-enc {}", STANDARD.encode(utf16)), "-enc [REDACTED:api_token]"),
        (
            format!("twice {}", STANDARD.encode(STANDARD.encode(format!("some secret: {secret}")))),
            "twice [REDACTED:api_token]",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(redact(&text), wanted, "{text}");
    }
    let innocent =
        format!("data: {} end", STANDARD.encode("nothing that anybody would want to hide is in here"));
    assert_eq!(redact(&innocent), innocent);
    // A run longer than any window.
    let long = STANDARD.encode(format!(
        "{}{secret}{}",
        "all is well. ".repeat(150_000),
        " and so on".repeat(100_000)
    ));
    let cleaned = redact(&format!("x {long} y"));
    assert!(cleaned.contains("[REDACTED:api_token]"));
    assert!(cleaned.len() < long.len() && cleaned.starts_with("x YWxs") && cleaned.ends_with(" y"));
}

#[test]
fn blobs_are_looked_into_if_they_are_text() {
    let mut rng = Rng(76);
    let secret = ghp(&mut rng);
    let image =
        |data: &str| format!(r#"{{"content":[{{"type":"image","data":"{data}","mimeType":"image/png"}}]}}"#);
    let decoded = |redacted: &Redacted| read(redacted, Format::Binary).unwrap();
    for before in 0..7 {
        for after in 0..7 {
            let text = format!("{}{secret}{}", "a ".repeat(before), " b".repeat(after));
            let redacted = clean(&image(&STANDARD.encode(&text)), &redacting());
            let out = String::from_utf8(decoded(&redacted)).unwrap();
            assert_eq!(
                out.split_whitespace().collect::<Vec<_>>().join(" "),
                text.replace(&secret, "[REDACTED:api_token]").trim_end()
            );
        }
    }
    // Over many windows, with line breaks and escapes, two secrets at once.
    let text =
        format!("{}{secret}{}\n{secret}{secret} é", "word 😀 ".repeat(100_000), " more".repeat(200_000));
    let data: Vec<String> = STANDARD
        .encode(&text)
        .as_bytes()
        .chunks(76)
        .map(|line| String::from_utf8(line.to_vec()).unwrap().replace('/', "\\/"))
        .collect();
    let redacted = clean(&image(&data.join("\\r\\n")), &redacting());
    let out = String::from_utf8(decoded(&redacted)).unwrap();
    assert!(!out.contains(&secret[..20]) && out.matches("[REDACTED:api_token]").count() >= 2);
    assert_eq!(out.split("[REDACTED").next(), text.split("ghp_").next());
    // A picture is left alone, and counted; its bytes block only if that is asked for.
    let png: Vec<u8> =
        [b"\x89PNG\r\n\x1a\n".as_slice(), &[0, 1, 2, 255].repeat(2000), secret.as_bytes()].concat();
    let raw = image(&STANDARD.encode(&png));
    let redacted = clean(&raw, &redacting().strip(StripClasses::ALL));
    assert_eq!(json(&redacted), raw.as_bytes());
    assert_eq!(redacted.findings().unscanned_bytes, STANDARD.encode(&png).len() as u64);
    assert!(try_clean(&raw, &blocking()).is_ok());
    assert!(
        matches!(try_clean(&raw, &blocking().refuse_unscanned(true)), Err(Blocked::Unscanned { bytes }) if bytes > 8000)
    );
    // What is no base64 is a string as any other.
    let out = String::from_utf8(json(&clean(&image(&secret), &redacting()))).unwrap();
    assert!(out.contains(r#""data":"[REDACTED:api_token]""#));
}

#[test]
fn only_what_is_critical_blocks() {
    let mut rng = Rng(77);
    let critical = format!("some text {}", ghp(&mut rng));
    let raw = blocks(&["fine", &critical]);
    let Err(blocked) = try_clean(&raw, &blocking()) else { panic!("not blocked") };
    assert!(
        matches!(&blocked, Blocked::Secret { category, place } if category == "api_token" && place == "/content/1/text")
    );
    assert!(!blocked.to_string().contains("ghp_"));
    let high = fill("Authorization: Bearer {H40}, sk_test_{A24}, card {CARD}", &mut rng);
    let redacted = try_clean(&blocks(&[&high]), &blocking()).unwrap();
    assert_eq!(redacted.findings().worst(), Some(Severity::High));
    assert_eq!(redacted.edits().len(), 3, "what does not block is redacted");
    // In the decoded bytes of a blob too.
    let blob = STANDARD.encode(&critical);
    let raw = format!(r#"{{"content":[{{"type":"resource","resource":{{"blob":"{blob}"}}}}]}}"#);
    assert!(
        matches!(try_clean(&raw, &blocking()), Err(Blocked::Secret { place, .. }) if place == "/content/0/resource/blob")
    );
}

#[test]
fn counting_changes_nothing() {
    let raw = blocks(&[&fill("{GHP} and {PEM} and \u{200b}", &mut Rng(78))]);
    let counting = Cleaning::new(Action::Count, Categories::ALL, Arc::default());
    let redacted = clean(&raw, &counting);
    assert_eq!(json(&redacted), raw.as_bytes());
    assert_eq!(redacted.findings().count_secrets(), 2);
    assert_eq!(redacted.findings().worst(), Some(Severity::Critical));
    let redacted = clean(&raw, &counting.strip(StripClasses::ZERO_WIDTH));
    assert_eq!((redacted.edits().len(), redacted.findings().stripped), (1, 1));
}

#[test]
fn categories_can_be_switched_off() {
    let text = fill("{GHP} card 4111111111111111", &mut Rng(79));
    let without: Categories = [("credit_card", false), ("unheard_of", false)].into_iter().collect();
    assert_eq!(without, Categories::ALL.without(Category::CreditCard));
    let cleaned = clean(&blocks(&[&text]), &Cleaning::new(Action::Redact, without, Arc::default()));
    assert_eq!(text_of(&cleaned), "[REDACTED:api_token] card 4111111111111111");
    let only = Categories::NONE.with(Category::CreditCard);
    let cleaned = clean(&blocks(&[&text]), &Cleaning::new(Action::Redact, only, Arc::default()));
    assert!(text_of(&cleaned).starts_with("ghp_") && text_of(&cleaned).ends_with("[REDACTED:credit_card]"));
}

#[test]
fn with_nothing_on_the_answer_is_not_read_again() {
    let secret = ghp(&mut Rng(80));
    let raw = blocks(&[&format!("{secret}\u{200b}")]);
    let spool = Spool::new(raw.as_bytes(), usize::MAX);
    let count = Arc::clone(&spool.read);
    let checked = check_output(Answer::index(Arc::new(spool), &|| false).unwrap());
    let before = count.load(Ordering::Relaxed);
    let redacted = clean_with(checked, &Cleaning::off(), &|| panic!("nothing to cancel")).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), before);
    assert_eq!(redacted.edits().len(), 0);
    assert_eq!(json(&redacted), raw.as_bytes());
    let off = Cleaning::new(Action::Off, Categories::ALL, Arc::default())
        .scrub(Arc::new(Forwarded::new([("X", "")])));
    assert!(off.is_off());
}

#[test]
fn a_spool_is_read_little_more_than_once() {
    let raw = blocks(&[&"plain text, nothing in it\n".repeat(200_000)]);
    let spool = Spool::new(raw.as_bytes(), usize::MAX);
    let count = Arc::clone(&spool.read);
    let checked = check_output(Answer::index(Arc::new(spool), &|| false).unwrap());
    let before = count.load(Ordering::Relaxed);
    clean_with(checked, &redacting().strip(StripClasses::ALL), &|| false).unwrap();
    let read = count.load(Ordering::Relaxed) - before;
    assert!(read < raw.len() as u64 * 6 / 5, "{read} of {}", raw.len());
}

#[test]
fn a_secret_is_found_wherever_a_window_ends() {
    let mut rng = Rng(81);
    let secret = ghp(&mut rng);
    let pem = secrets::pem(&mut rng);
    let wrapped = STANDARD.encode(format!("some words before {secret}"));
    for (find, mark) in [(&secret, "api_token"), (&pem, "private_key"), (&wrapped, "api_token")] {
        for shift in (0..80).chain([500, 1000, 1023, 1024, 1025, 1100, 1500]) {
            let before = "y ".repeat((448 * 1024 - 600 + shift * 8) / 2);
            let text = format!("{before}{find} z{}", " x".repeat(100_000));
            let checked = check_output(answer(&blocks(&[&text])));
            let redacted = clean_with(checked, &redacting(), &|| false).unwrap();
            assert_eq!(redacted.edits().len(), 1, "{mark} at {}", before.len());
            let right = text_of(&redacted) == text.replace(find, &format!("[REDACTED:{mark}]"));
            assert!(right, "{mark} at {}: {:?}", before.len(), redacted.edits().next());
        }
    }
}

#[test]
fn cancelling_stops_and_a_broken_spool_is_an_error() {
    let raw = blocks(&[&"word ".repeat(500_000)]);
    assert!(matches!(
        clean_with(check_output(answer(&raw)), &redacting(), &|| true),
        Err(Blocked::Cancelled)
    ));
    struct Gone(Vec<u8>, std::sync::atomic::AtomicBool);
    impl content::Source for Gone {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
            if self.1.load(Ordering::Relaxed) {
                return Err(std::io::Error::other("the disk is gone"));
            }
            self.0.read_at(offset, buf)
        }
    }
    let source = Arc::new(Gone(raw.into_bytes(), false.into()));
    let answer = Answer::index(source.clone(), &|| false).unwrap();
    source.1.store(true, Ordering::Relaxed);
    assert!(matches!(clean_with(check_output(answer), &redacting(), &|| false), Err(Blocked::Io(_))));
}

#[test]
fn control_characters_are_stripped_and_letters_stay() {
    let strip = |classes| Cleaning::off().strip(classes);
    let long = "x".repeat(1 << 20);
    for (raw, wanted) in [
        (r"A\u001b]52;c;ZWNobw==\u0007B".to_owned(), "AB".to_owned()),
        (format!(r"A\u001b]0;t{long}"), format!("A]0;t{long}")),
        (r"A\u009b31mB".to_owned(), "AB".to_owned()),
        (r"A\u202eB".to_owned(), "AB".to_owned()),
        (r"A\u200bB".to_owned(), "AB".to_owned()),
        (r"A\tB\nC\rD\r\nE".to_owned(), "A\tB\nC\rD\r\nE".to_owned()),
        (r"\ud83d\ude00\u200b\ud83d\ude00 \u00e9\u200b\\\u001b[1m\\n".to_owned(), "😀😀 é\\\\n".to_owned()),
        ("A\u{202e}\u{9b}1mB\u{feff}".to_owned(), "AB".to_owned()),
        (r"\ud83d\u200b\ude00".to_owned(), "\u{fffd}\u{fffd}".to_owned()),
    ] {
        let raw = format!(r#"{{"content":[{{"type":"text","text":"{raw}"}}]}}"#);
        assert_eq!(text_of(&clean(&raw, &strip(StripClasses::ALL))), wanted);
        assert_eq!(json(&clean(&raw, &strip(StripClasses::NONE))), raw.as_bytes());
    }
    // In every string, but not in base64 data; never over the end of a string.
    let raw = r#"{"content":[{"type":"image","data":"QQ\u200b=="},{"type":"resource_link","uri":"u\u200b"}],"structuredContent":{"k\u001b[":"[31\u001b"},"x":["m\u202e"]}"#;
    for cleaning in [strip(StripClasses::ALL), redacting().strip(StripClasses::ALL)] {
        let out = String::from_utf8(json(&clean(raw, &cleaning))).unwrap();
        assert_eq!(
            out,
            r#"{"content":[{"type":"image","data":"QQ\u200b=="},{"type":"resource_link","uri":"u"}],"structuredContent":{"k[":"[31"},"x":["m"]}"#
        );
    }
}

#[test]
fn redaction_wins_over_stripping_inside_of_it() {
    let secret = ghp(&mut Rng(82));
    let text = format!("\u{1b}[1m{}\u{1b}[0m{}\u{1b}[0m.", &secret[..10], &secret[10..]);
    let redacted = clean(&blocks(&[&text]), &redacting().strip(StripClasses::ALL));
    assert_eq!(text_of(&redacted), "[REDACTED:api_token].");
    assert_eq!(redacted.findings().count_secrets(), 1);
}

fn custom(patterns: Vec<CustomPattern>) -> Cleaning {
    Cleaning::new(Action::Redact, Categories::ALL, Arc::new(CustomPatterns::new(patterns).unwrap()))
}

#[test]
fn patterns_of_the_configuration_are_found_in_each_string() {
    let employee = CustomPattern::regex("employee", "staff", Severity::Low, r"^EMP-\d{4,}$").unwrap();
    let rest = CustomPattern::regex("rest", "custom", Severity::Critical, "(?i)project x.*").unwrap();
    let words = CustomPattern::words(
        "words",
        "custom",
        Severity::Low,
        &["Ünïcode".to_owned(), "codename".to_owned()],
    )
    .unwrap();
    let cleaning = custom(vec![employee, rest, words]);
    let raw = r#"{"structuredContent":{"id":"EMP-12345","other":"see EMP-12345","EMP-1":"a Project X is big","n":"\u00dcn\u00efcode CodeName","z":"kept"}}"#;
    let redacted = clean(raw, &cleaning);
    let out = String::from_utf8(json(&redacted)).unwrap();
    assert_eq!(
        out,
        r#"{"structuredContent":{"id":"[REDACTED:staff]","other":"see EMP-12345","EMP-1":"a [REDACTED:custom]","n":"[REDACTED:custom] [REDACTED:custom]","z":"kept"}}"#
    );
    let kinds: Vec<(&str, u64)> =
        redacted.findings().secrets.iter().map(|finding| (finding.kind.as_str(), finding.count)).collect();
    assert_eq!(kinds, [("employee", 1), ("rest", 1), ("words", 2)]);
    // Without an end, a match is cut at 64 KiB, and goes on as the next one.
    let endless = custom(vec![CustomPattern::regex("all", "custom", Severity::Low, "a+").unwrap()]);
    let cleaned = text_of(&clean(&blocks(&[&"a".repeat(1_000_000)]), &endless));
    assert!(!cleaned.contains('a') && cleaned.len() < 1000, "{cleaned}");
}

#[test]
fn bad_patterns_are_refused_with_their_name_and_a_reason() {
    let try_one = |pattern: &str| CustomPattern::regex("mine", "custom", Severity::Low, pattern);
    for (pattern, reason) in [
        (r"(\w{1,1000}){1,1000}", "too large"),
        ("(", "no regular expression"),
        (r"\p{L}{500}{500}", "too large"),
        ("", "empty"),
        ("a*", "empty text"),
        ("[^\\s\\S]", "never match"),
        (r"(?=x)", "no regular expression"),
    ] {
        let start = std::time::Instant::now();
        let error = try_one(pattern).unwrap_err();
        assert!(
            error.to_string().starts_with("the pattern \"mine\"") && error.reason.contains(reason),
            "{pattern}: {error}"
        );
        assert!(start.elapsed().as_secs() < 5, "{pattern}");
    }
    assert!(try_one("(a+)+$").is_ok());
    assert!(try_one(&"(".repeat(1000)).is_err() && try_one(&"a".repeat(5000)).is_err());
    assert!(CustomPattern::regex("mine", "a]b", Severity::Low, "x").is_err());
    assert!(CustomPattern::words("mine", "custom", Severity::Low, &[" ".to_owned()]).is_err());
    let many = (0..101).map(|_| try_one("x").unwrap()).collect();
    assert!(CustomPatterns::new(many).unwrap_err().reason.contains("one too many"));
}

#[test]
fn forwarded_values_are_scrubbed_in_every_view() {
    let mut rng = Rng(83);
    let (token, session) = (fill("{L24}", &mut rng), fill("{L12}", &mut rng));
    let bearer = format!("Bearer {token}");
    let cookie = format!("theme=dark; sid={session}");
    let headers =
        [("X-Upstream-Auth", bearer.as_str()), ("Cookie", &cookie), ("X-Tenant", "42"), ("X-Empty", "")];
    let cleaning = Cleaning::off().scrub(Arc::new(Forwarded::new(headers)));
    let hidden: String = token.chars().map(|c| format!("{c}\u{200b}")).collect();
    for (text, wanted) in [
        (format!("got {bearer}!"), "got [forwarded:X-Upstream-Auth]!".to_owned()),
        (format!("got {token}!"), "got [forwarded:X-Upstream-Auth]!".to_owned()),
        (format!("got {hidden}!"), "got [forwarded:X-Upstream-Auth]\u{200b}!".to_owned()),
        (format!("got {}!", STANDARD.encode(format!("token={token}"))), "got [forwarded:X-Upstream-Auth]!".to_owned()),
        (format!("{{\"s\":\"{}\\u{:04x}\"}}", &session[..11], u32::from(session.as_bytes()[11])), "{\"s\":\"[forwarded:Cookie]\"}".to_owned()),
        ("42 things, x-tenant: 42, X-Tenant=42; 'X-Tenant': '42', X-Tenant: 421".to_owned(), "42 things, x-tenant: [forwarded:X-Tenant], X-Tenant=[forwarded:X-Tenant]; 'X-Tenant': '[forwarded:X-Tenant]', X-Tenant: 421".to_owned()),
        ("the theme=dark stays".to_owned(), "the theme=dark stays".to_owned()),
    ] {
        assert_eq!(text_of(&clean(&blocks(&[&text]), &cleaning)), wanted);
    }
    let raw = format!(
        r#"{{"structuredContent":{{"{token}":"{token}","X-Tenant":"42"}},"_meta":{{"a":"{session}"}}}}"#
    );
    let redacted = clean(&raw, &cleaning);
    assert_eq!(redacted.findings().scrubbed, 4);
    assert!(!String::from_utf8(json(&redacted)).unwrap().contains(&token));
    // A secret that was forwarded is named as what it is.
    let secret = ghp(&mut rng);
    let both = redacting().scrub(Arc::new(Forwarded::new([("X-Git", secret.as_str())])));
    assert_eq!(text_of(&clean(&blocks(&[&secret]), &both)), "[REDACTED:api_token]");
}

#[test]
fn texts_and_json_that_are_no_answers_are_cleaned_too() {
    let secret = ghp(&mut Rng(84));
    let cleaning = redacting().strip(StripClasses::ALL);
    let (text, findings) = clean_text(&format!("a \"{secret}\" \u{1b}[1mb\n"), &cleaning)
        .map(|(text, findings)| (text.into_owned(), findings))
        .unwrap();
    assert_eq!(text, "a \"[REDACTED:api_token]\" b\n");
    assert_eq!((findings.count_secrets(), findings.stripped), (1, 1));
    assert!(matches!(clean_text("nothing", &cleaning).unwrap().0, std::borrow::Cow::Borrowed("nothing")));
    let json = format!(r#"[ {{"{secret}" : 1.0}},"x\u200b" ]"#);
    assert_eq!(
        *clean_json(json.as_bytes(), &cleaning).unwrap().0,
        *br#"[ {"[REDACTED:api_token]" : 1.0},"x" ]"#
    );
    assert!(matches!(clean_json(b"[", &cleaning), Err(Blocked::Syntax(_))));
    assert!(matches!(clean_text(&secret, &blocking()), Err(Blocked::Secret { .. })));
}
