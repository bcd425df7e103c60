//! Messages: their parts are found wherever they stand, and what is none is told from what is broken.

use wire::envelope::{Assembled, Assembler, Cause, Id, Kind};

use crate::common::{BOTH, IdAt, MIB, answer, place, result, text};

fn assemble(line: &[u8], piece: usize) -> Assembled {
    let place = place(1 << 30);
    let mut assembler = Assembler::new(&place.spools, 64 * MIB as u64);
    for part in line.chunks(piece) {
        assembler.push(part);
    }
    assembler.finish()
}

fn answered(line: &str) -> (Id, String) {
    for piece in [1, 7, line.len()] {
        let got = assemble(line.as_bytes(), piece);
        let Assembled::Message(message) = got else { panic!("{line}: {got:?}") };
        let Kind::Result(body) = message.kind else { panic!("{line}: no result") };
        if piece == line.len() {
            return (message.id.unwrap(), text(&body));
        }
    }
    unreachable!()
}

#[test]
fn results_are_exactly_the_bytes_that_were_sent() {
    let nested = format!("{{\"structuredContent\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let results = [
        "{}",
        "{\"content\":[{\"type\":\"text\",\"text\":\"a\\ud800b\"}]}",
        "{ \"u\":18446744073709551615, \"b\":123456789012345678901234567890,\"f\":1.0,\"z\":-0, \"e\":1e400 }",
        "{\"z\":1,\"a\":{\"y\":1,\"b\":2},\"\":3,\"id\":99,\"error\":{\"code\":1}}",
        "[1,2]",
        "null",
        "true",
        "-1.5e3",
        "\"text\"",
        nested.as_str(),
    ];
    for result in results {
        for at in BOTH {
            let line = answer(at, "7", result);
            assert_eq!(answered(&line), (Id::Number(7), result.to_owned()), "{line}");
        }
    }
}

#[test]
fn members_may_be_escaped_doubled_padded_or_null() {
    let cases = [
        ("{\"jsonrpc\":\"2.0\",\"\\u0069d\":4,\"r\\u0065sult\":1}", Id::Number(4), "1"),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"result\":1,\"result\":{\"a\":2}}",
            Id::Number(2),
            "{\"a\":2}",
        ),
        ("\u{feff} \t{\"jsonrpc\" : \"2.0\" , \"result\" :  [ 1 ] , \"id\" : 3 } \r", Id::Number(3), "[ 1 ]"),
        ("{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":null,\"result\":{}}", Id::Number(5), "{}"),
        ("{\"id\":6,\"result\":{}}", Id::Number(6), "{}"),
        ("{\"jsonrpc\":\"2.0\",\"id\":7.0,\"result\":{}}", Id::Number(7), "{}"),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"a\\n\",\"result\":{}}", Id::Raw("\"a\\n\"".into()), "{}"),
        ("{\"jsonrpc\":\"2.0\",\"id\":1e400,\"result\":{}}", Id::Raw("1e400".into()), "{}"),
    ];
    for (line, id, result) in cases {
        assert_eq!(answered(line), (id, result.to_owned()), "{line}");
    }
    assert_eq!(Id::Raw("\"12\"".into()).as_number(), Some(12));
}

#[test]
fn errors_are_taken_apart() {
    let cases = [
        (
            "{\"code\":-32601,\"message\":\"no \\u00e9\\ud800\",\"data\":{\"x\":[1]}}",
            -32601,
            "no é\u{fffd}",
            Some("{\"x\":[1]}"),
        ),
        ("{\"data\":\"d\",\"message\":\"m\",\"code\":-1.0}", -1, "m", Some("\"d\"")),
        ("{\"message\":{\"a\":1}}", 0, "", None),
        ("\"just text\"", 0, "just text", None),
        ("[1]", 0, "[1]", None),
    ];
    for (error, code, message, data) in cases {
        for line in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error}}}"),
            format!("{{\"error\":{error},\"result\":null,\"id\":7,\"jsonrpc\":\"2.0\"}}"),
        ] {
            let got = assemble(line.as_bytes(), 3);
            let Assembled::Message(message_got) = got else { panic!("{line}: {got:?}") };
            let Kind::Error { code: c, message: m, data: d } = message_got.kind else { panic!("{line}") };
            let message = if error.contains("{\"a\":1}") { m.clone() } else { message.to_owned() };
            assert_eq!((c, m, d.as_ref().map(text)), (code, message, data.map(str::to_owned)), "{line}");
        }
    }
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":1,\"message\":\"{}\"}}}}",
        "é".repeat(MIB)
    );
    let Assembled::Message(message) = assemble(long.as_bytes(), 1 << 16) else { panic!() };
    assert!(
        matches!(message.kind, Kind::Error { message, .. } if message.len() < 17_000 && message.starts_with('é'))
    );
}

#[test]
fn requests_and_notifications_keep_their_raw_parameters() {
    let request = "{\"params\":{\"a\": 1.0},\"method\":\"ping\",\"id\":\"x\",\"jsonrpc\":\"2.0\"}";
    let Assembled::Message(message) = assemble(request.as_bytes(), 4) else { panic!() };
    assert_eq!(message.id, Some(Id::Raw("\"x\"".into())));
    assert_eq!(message.len, request.len() as u64);
    let Kind::Request { method, params } = message.kind else { panic!() };
    assert_eq!((method.as_str(), text(&params.unwrap())), ("ping", "{\"a\": 1.0}".to_owned()));
    let note = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":null,\"id\":null}";
    let Assembled::Message(message) = assemble(note.as_bytes(), 4) else { panic!() };
    assert!(
        matches!(message.kind, Kind::Notification { method, params: None } if method == "notifications/x")
    );
}

#[test]
fn what_is_no_message_is_noise() {
    let noise = [
        "Starting…",
        "{not json",
        "[1,2,3]",
        "17",
        "\"text\"",
        "{\"level\":\"error\",\"error\":\"boom\"}",
        "{\"level\":\"error\",\"error\":{\"a\":NaN}}",
        "{\"id\":5,\"msg\":NaN}",
        "{\"method\":\"GET\",\"path\":\"/\"}",
        "{}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":NaN}}",
        "{\"jsonrpc\":\"2.0\",\"params\":{\"data\":NaN},\"method\":\"notifications/message\"}",
        "\u{7}\0\u{1b}[31m",
    ];
    for line in noise {
        let got = assemble(line.as_bytes(), 2);
        assert!(matches!(&got, Assembled::Noise(head) if head == line), "{line}: {got:?}");
    }
    assert!(matches!(assemble(&[0xff, 0xfe, b'{'], 1), Assembled::Noise(_)));
    for blank in ["", " \t\r", "\u{feff}", "\r"] {
        assert!(matches!(assemble(blank.as_bytes(), 1), Assembled::Blank), "{blank:?}");
    }
    let long = "é".repeat(10_000);
    assert!(matches!(assemble(long.as_bytes(), 999), Assembled::Noise(head) if head.chars().count() == 200));
}

#[test]
fn broken_answers_name_their_fault_and_their_id_where_it_can_be_known() {
    let cases = [
        (answer(IdAt::First, "7", "{\"v\":NaN}"), Some(7)),
        (answer(IdAt::Last, "7", "{\"v\":NaN,\"more\":\"text\"}"), Some(7)),
        ("{\"result\":{\"v\":NaN}}".to_owned(), None),
        ("{\"result\":{\"v\":NaN,\"x\":{\"id\":7}".to_owned(), None),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"cut".to_owned(), Some(7)),
        ("{\"error\":{\"data\":Infinity},\"jsonrpc\" : \"2.0\" , \"id\" : 7 } \r".to_owned(), Some(7)),
    ];
    for (line, id) in cases {
        for piece in [1, 20, line.len()] {
            let got = assemble(line.as_bytes(), piece);
            let Assembled::Failed(trouble) = got else { panic!("{line}: {got:?}") };
            assert_eq!(trouble.id.and_then(|id| id.as_number()), id, "{line} in pieces of {piece}");
            assert!(trouble.answer);
            let Cause::Syntax(error) = trouble.cause else { panic!("{line}") };
            if let Some(at) = line.find("NaN").or(line.find("Infinity")) {
                assert_eq!(error.offset, at as u64, "{line}");
            }
        }
    }
    let empty = assemble(b"{\"jsonrpc\":\"2.0\",\"id\":3}", 5);
    assert!(
        matches!(empty, Assembled::Failed(t) if matches!(t.cause, Cause::Shape(_)) && t.id == Some(Id::Number(3)))
    );
}

#[test]
fn an_answer_over_the_bound_is_dropped_but_its_id_is_found() {
    for at in BOTH {
        let place = place(1 << 30);
        let line = answer(at, "7", &result(3 * MIB));
        let mut assembler = Assembler::new(&place.spools, 2 * MIB as u64);
        let mut early = None;
        for part in line.as_bytes().chunks(100_000) {
            assembler.push(part);
            assert!(place.spools.used_bytes() <= 2 * MIB as u64);
            early = early.or_else(|| assembler.trouble());
        }
        assert_eq!(place.spools.used_bytes(), 0, "nothing is kept");
        let early = early.unwrap();
        assert_eq!(early.id.is_some(), matches!(at, IdAt::First), "{at:?}");
        assert!(early.answer);
        let Assembled::Failed(trouble) = assembler.finish() else { panic!() };
        assert_eq!(trouble.id, Some(Id::Number(7)));
        assert_eq!(trouble.cause, Cause::TooLarge { limit: 2 * MIB as u64 });
    }
}

#[test]
fn a_message_of_exactly_the_bound_passes() {
    let line = answer(IdAt::Last, "7", &result(10_000));
    for (limit, passes) in [(line.len(), true), (line.len() - 1, false)] {
        let place = place(1 << 30);
        let mut assembler = Assembler::new(&place.spools, limit as u64);
        assembler.push(line.as_bytes());
        assert_eq!(matches!(assembler.finish(), Assembled::Message(_)), passes);
    }
}

#[test]
fn a_full_spool_fails_the_message_and_not_the_scan() {
    let place = place(2 * MIB as u64);
    let line = answer(IdAt::Last, "9", &result(3 * MIB));
    let mut assembler = Assembler::new(&place.spools, 64 * MIB as u64);
    line.as_bytes().chunks(65_536).for_each(|part| assembler.push(part));
    let Assembled::Failed(trouble) = assembler.finish() else { panic!() };
    assert_eq!((trouble.id, trouble.cause), (Some(Id::Number(9)), Cause::SpoolFull));
    assert_eq!(place.spools.used_bytes(), 0);
}
