//! Bytes and JSON kept as they were sent: forwarded, saved as text and saved as JSON.

use testkit::script::text_result;
use testkit::{Action, Script};

use crate::common::{home, home_with, saved, wait_for};

/// Results that libraries are known to change, lose or refuse.
pub const ODD: [&str; 12] = [
    r#"{"content":[],"structuredContent":{"id":725653563933458432,"u":18446744073709551615,"b":123456789012345678901234567890}}"#,
    r#"{"content":[],"structuredContent":{"a":1.0,"b":1e2,"c":-0,"d":-0.0,"e":1.5777777777770001,"f":117.63331139400017,"g":9007199254740991.0,"h":1e400}}"#,
    r#"{"content":[],"structuredContent":{"z":1,"a":{"y":1,"b":2},"M":0,"":3,"z":2}}"#,
    r#"{"content":[{"type":"text","text":"a\ud800b"}]}"#,
    r#"{"content":[{"type":"text","text":"ch <-done && x > 0 <script>&amp;\u2028 é \/ \u00e9"}]}"#,
    r#"{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"cap"}],"structuredContent":{"n":1}}"#,
    r#"{"content":[{"type":"text","text":"t"},{"type":"resource_link","uri":"ui://d/v","name":"v","x":1},{"type":"x-future","foo":[1]}]}"#,
    r#"{"content":[{"type":"text","text":"t","_meta":{"k":1}}],"_meta":{"trace":"t1","ui":{"resourceUri":"ui://x"}},"isError":false,"extra":1}"#,
    r#"{"tools":[],"content":[{"type":"text","text":"not a list"}]}"#,
    r#"{"structuredContent":null,"content":[{"type":"text","text":"x"}]}"#,
    r#"{ "content" : [ { "type" : "text" , "text" : "spaced" } ] }"#,
    r#"{"content":[{"type":"text","text":"NaN, -Infinity"}]}"#,
];

#[test]
fn an_untouched_result_passes_byte_for_byte_and_is_saved_byte_for_byte() {
    for id_last in [false, true] {
        let home = home_with(Script::text("").id_last(id_last));
        let gateway = home.serve();
        for (number, raw) in ODD.iter().enumerate() {
            home.script("srv", &Script::result(raw).id_last(id_last));
            assert_eq!(gateway.call("srv:tool").send().raw_result(), *raw);
            let path = home.at(&format!("root/{number}.json"));
            saved(&gateway.call("srv:tool").save(&path).format("json").send(), &path, raw.as_bytes());
        }
    }
}

#[test]
fn saved_text_is_the_block_itself() {
    for text in [
        r#"{"id":725653563933458432,"u":18446744073709551615,"b":123456789012345678901234567890}"#,
        "ch <-done && x > 0 <script>&amp;\u{2028} é",
        "NaN, -Infinity",
        "tab\there, nul \u{0}, \u{1b}[31m, \u{feff}bom, 😀",
        "<|endoftext|> <|im_start|>",
    ] {
        let home = home(Action::Result(text_result(text)));
        let gateway = home.serve();
        let path = home.at("root/x");
        saved(&gateway.call("srv:tool").save(&path).send(), &path, text.as_bytes());
    }
}

#[test]
fn an_unpaired_surrogate_becomes_the_replacement_character_in_text() {
    for id_last in [false, true] {
        let script = Script::result(r#"{"content":[{"type":"text","text":"a\ud800b\ude00\ud83d\ude00"}]}"#)
            .id_last(id_last);
        let home = home_with(script);
        let gateway = home.serve();
        let path = home.at("root/x");
        saved(&gateway.call("srv:tool").save(&path).send(), &path, "a\u{fffd}b\u{fffd}😀".as_bytes());
    }
}

#[test]
fn deep_nesting_is_no_reason_for_silence() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let raw = format!(r#"{{"content":[],"structuredContent":{{"deep":{deep}}}}}"#);
    let home = home(Action::Result(raw.clone()));
    let gateway = home.serve();
    assert_eq!(gateway.call("srv:tool").send().raw_result(), raw);
    home.script("srv", &Script::text(&deep));
    let path = home.at("root/x");
    saved(&gateway.call("srv:tool").save(&path).send(), &path, deep.as_bytes());
}

#[test]
fn a_frame_that_is_no_json_fails_its_call_and_the_connection_lives() {
    for frame in [
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"structuredContent":{"v":NaN}}}"#,
        r#"{"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"v":Infinity}},"id":@ID@}"#,
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":"no array"}}"#,
        r#"{"jsonrpc":"2.0","id":@ID@,"result":[]}"#,
        r#"{"jsonrpc":"2.0","id":@ID@,"result":5}"#,
    ] {
        let home = home(Action::Message(frame.into())).set("call_tool_timeout", "20s");
        let gateway = home.serve();
        let began = std::time::Instant::now();
        let text = gateway.call("srv:tool").save(home.at("root/x")).send().refusal();
        assert!(began.elapsed().as_secs() < 10, "{frame}: {text}");
        assert!(!home.at("root/x").exists());
        let row = &home.events("tool_call", 1)[0];
        assert_eq!(row["reason"], "upstream_garbled", "{frame}: {text}");
        home.script("srv", &Script::text("fine"));
        assert_eq!(gateway.call("srv:tool").send().first_text(), "fine");
        assert_eq!(home.lines("srv", "pids").len(), 1, "the upstream was not restarted");
    }
}

#[test]
fn every_valid_document_of_the_json_suite_survives_as_text_and_as_structured_content() {
    let Some(files) = suite("json/test_parsing", "y_") else { return };
    assert!(files.len() > 80, "only {} documents were found", files.len());
    let home = home_with(Script::text(""));
    let gateway = home.serve();
    for (name, document) in files {
        let Ok(text) = String::from_utf8(document) else { continue };
        let raw = format!(r#"{{"content":[],"structuredContent":{}}}"#, text.trim());
        if raw.contains(['\n', '\r']) {
            // On a stdio connection a line break ends the message; these documents are for the HTTP upstream.
            continue;
        }
        home.script("srv", &Script::result(&raw));
        assert_eq!(gateway.call("srv:tool").send().raw_result(), raw, "{name}");
        home.script("srv", &Script::text(&text));
        let path = home.at("root/x");
        saved(&gateway.call("srv:tool").save(&path).overwrite().send(), &path, text.as_bytes());
    }
    wait_for(|| gateway.log().contains("ready").then_some(()));
}

/// Files of the public fixture data whose name begins so; a line says when they are not there.
fn suite(folder: &str, prefix: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let dir = testkit::suites()?.join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name.starts_with(prefix))
        .collect();
    files.sort();
    Some(files)
}
