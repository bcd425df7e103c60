//! The streamable HTTP side as a client on the network sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod server_support;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use server_support::{Answer, BROKE_DOWN, House, INITIALIZE, Script, request};
use wire::server::{INVALID_PARAMS, INVALID_REQUEST, Limits, METHOD_NOT_FOUND, PARSE_ERROR, REFUSED};

/// Bounds under which an answer becomes an event stream soon.
fn hasty() -> Limits {
    Limits { stream_after: Duration::from_millis(50), ..Limits::default() }
}

const EVENTS_ONLY: (&str, &str) = ("accept", "text/event-stream");
const JSON_ONLY: (&str, &str) = ("accept", "application/json");

#[tokio::test]
async fn every_spelling_of_an_id_comes_back_as_it_was() {
    let house = House::open(Limits::default()).await;
    let ids = [
        "0",
        "1",
        "-5",
        "1.0",
        "1e3",
        r#""a\"b""#,
        r#""\u0061""#,
        "12345678901234567890",
        r#""""#,
        r#""é😀""#,
    ];
    for id in ids {
        let answer = house.post(&request(id, "echo", "{}")).await;
        assert_eq!((answer.status, answer.complete), (200, true));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.text(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        let answer = house.post_with(&[EVENTS_ONLY], &request(id, "echo", "{}")).await;
        assert_eq!(answer.events(), [format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)]);
        let answer = house.post(&request(id, "nothing", "{}")).await;
        assert!(
            answer.text().starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"#))
        );
        let who = house.post(&request(id, "who", "{}")).await.json();
        assert_eq!(who["result"]["id"], *id);
    }
}

#[tokio::test]
async fn params_and_results_keep_every_byte() {
    let house = House::open(Limits::default()).await;
    let raw =
        "{ \"z\":1.0,\"a\":-0,\"a\":1e45,\r\n\t\"n\":123456789012345678901234567890,\"s\":\"\\ud800 <&>é\" }";
    let answer = house.post(&request("1", "echo", raw)).await;
    assert_eq!(answer.text(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{raw}}}"#));
    let answer = house.post_with(&[EVENTS_ONLY], &request("1", "echo", raw)).await;
    let flat = raw.replace(['\r', '\n'], " ");
    assert_eq!(answer.events(), [format!(r#"{{"jsonrpc":"2.0","id":1,"result":{flat}}}"#)]);
}

#[tokio::test]
async fn what_is_no_request_is_refused_with_its_code() {
    let house = House::open(Limits::default()).await;
    let cases = [
        ("{", 400, PARSE_ERROR),
        ("", 400, PARSE_ERROR),
        (r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"v":NaN}}"#, 400, PARSE_ERROR),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, INVALID_REQUEST),
        (r#"{"id":1,"method":"ping"}"#, 400, INVALID_REQUEST),
        ("5", 400, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}"#, 200, INVALID_PARAMS),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#, 200, METHOD_NOT_FOUND),
    ];
    for (message, status, code) in cases {
        let answer = house.post(message).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{message}");
    }
    let batch = house.post("[]").await;
    assert!(batch.text().contains("batches are not taken"), "{}", batch.text());
    assert_eq!(house.script.begun(), 1, "only the unknown method came through");
}

#[tokio::test]
async fn initialize_settles_the_version_and_opens_a_session() {
    let house = House::open(Limits::default()).await;
    let cases = [
        (r#""2025-11-25""#, "2025-11-25"),
        (r#""2025-06-18""#, "2025-06-18"),
        (r#""2025-03-26""#, "2025-03-26"),
        (r#""2024-11-05""#, "2024-11-05"),
        (r#""2026-07-28""#, "2025-11-25"),
        ("null", "2025-11-25"),
        ("7", "2025-11-25"),
    ];
    for (asked, settled) in cases {
        let answer =
            house.post(&request("1", "initialize", &format!(r#"{{"protocolVersion":{asked}}}"#))).await;
        let wanted = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": settled,
            "capabilities": {"tools": {"listChanged": false}},
            "serverInfo": {"name": "script", "version": "1.2.3"},
            "instructions": "say \"echo\"",
        }});
        assert_eq!(answer.json(), wanted);
        let id = answer.header("mcp-session-id").unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
    let answer = house.post_with(&[EVENTS_ONLY, ("mcp-session-id", "old")], INITIALIZE).await;
    assert_eq!(answer.events().len(), 1);
    assert!(answer.header("mcp-session-id").is_some(), "a client may begin anew with an old id");
}

#[tokio::test]
async fn a_session_belongs_to_its_caller_until_it_is_ended() {
    let house = House::open(Limits::default()).await;
    let id = house.session("anna").await;
    let with = |caller, session| [("x-caller", caller), ("mcp-session-id", session)];
    let who = request("1", "who", "{}");
    let answer = house.post_with(&with("anna", &id), &who).await.json();
    assert_eq!(
        answer["result"],
        serde_json::json!({"caller": "anna", "session": id, "client": ["tester", "9"], "id": "1"})
    );

    for (caller, session) in [("bert", id.as_str()), ("anna", "unknown"), ("anna", "\u{e9}")] {
        let answer = house.post_with(&with(caller, session), &who).await;
        assert_eq!((answer.status, answer.code()), (404, REFUSED), "{caller} {session}");
        assert_eq!(house.send("DELETE", &with(caller, session), b"").await.whole().await.status, 404);
    }
    let answer = house.post_with(&[("x-caller", "anna")], &who).await.json();
    assert!(answer["result"]["session"].is_null(), "served without a session");

    assert_eq!(house.send("DELETE", &[], b"").await.whole().await.status, 400);
    assert_eq!(house.send("DELETE", &with("anna", &id), b"").await.whole().await.status, 204);
    assert_eq!(house.send("DELETE", &with("anna", &id), b"").await.whole().await.status, 404);
    assert_eq!(house.post_with(&with("anna", &id), &who).await.status, 404);
}

#[tokio::test]
async fn the_oldest_idle_session_gives_way_at_the_bound() {
    let house = House::open(Limits { max_sessions: 2, ..Limits::default() }).await;
    let first = house.session("a").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let second = house.session("b").await;
    let third = house.session("c").await;
    for (caller, id, status) in [("a", first, 404), ("b", second, 200), ("c", third, 200)] {
        let headers = [("x-caller", caller), ("mcp-session-id", id.as_str())];
        assert_eq!(house.post_with(&headers, &request("1", "ping", "{}")).await.status, status);
    }
}

#[tokio::test]
async fn only_get_post_and_delete_are_methods() {
    let house = House::open(Limits::default()).await;
    for method in ["PUT", "OPTIONS", "PATCH"] {
        let answer = house.send(method, &[], b"").await.whole().await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, POST, DELETE")), "{method}");
    }
}

#[tokio::test]
async fn news_are_for_sessions_and_come_as_events() {
    let house = House::open(Limits::default()).await;
    let accept = [("accept", "text/event-stream")];
    assert_eq!(house.send("GET", &accept, b"").await.whole().await.status, 400);
    let unknown = [("accept", "text/event-stream"), ("mcp-session-id", "nope")];
    assert_eq!(house.send("GET", &unknown, b"").await.whole().await.status, 404);
    let json = [("accept", "application/json"), ("mcp-session-id", "nope")];
    assert_eq!(house.send("GET", &json, b"").await.whole().await.status, 406);
}

#[tokio::test]
async fn headers_are_held_to_their_rules() {
    let house = House::open(Limits::default()).await;
    let cases = [
        (("accept", "application/json, text/event-stream"), 200),
        (("accept", "application/json"), 200),
        (("accept", "Text/Event-Stream"), 200),
        (("accept", "*/*"), 200),
        (("accept", "application/*;q=0.5"), 200),
        (("accept", ""), 200),
        (("accept", "text/html"), 406),
        (("accept", "application/json;q=0"), 406),
        (("accept", "application/json; q=0.000, text/html"), 406),
        (("content-type", "application/json; charset=utf-8"), 200),
        (("content-type", "Application/JSON"), 200),
        (("content-type", "text/plain"), 415),
        (("content-type", "application/jsonp"), 415),
        (("content-type", ""), 415),
        (("mcp-protocol-version", "2025-11-25"), 200),
        (("mcp-protocol-version", "2025-06-18"), 200),
        (("mcp-protocol-version", "2025-03-26"), 200),
        (("mcp-protocol-version", "2024-11-05"), 200),
        (("mcp-protocol-version", "2026-07-28"), 400),
        (("mcp-protocol-version", "nonsense"), 400),
    ];
    for (header, status) in cases {
        let answer = house.post_with(&[header], &request("1", "ping", "{}")).await;
        assert_eq!(answer.status, status, "{header:?}");
        if status != 200 {
            assert_eq!(answer.code(), REFUSED, "{header:?}");
        }
    }
    let answer = house.post_with(&[("mcp-protocol-version", "2026-07-28")], INITIALIZE).await;
    assert_eq!(answer.status, 200, "initialize settles the version in its parameters");
}

#[tokio::test]
async fn a_message_over_the_bound_is_413() {
    let house = House::open(Limits { max_request_bytes: 1 << 20, ..Limits::default() }).await;
    let of_size = |size: usize| {
        let empty = request("1", "ping", r#"{"a":""}"#).len();
        request("1", "ping", &format!(r#"{{"a":"{}"}}"#, "x".repeat(size - empty)))
    };
    assert_eq!(house.post(&of_size(1 << 20)).await.status, 200);
    assert_eq!(house.post(&of_size((1 << 20) + 1)).await.status, 413);
    let answer = house.post(&of_size(3 << 19)).await;
    assert_eq!((answer.status, answer.code()), (413, REFUSED));

    let mut chunked = String::new();
    (0..20).for_each(|_| chunked.push_str(&format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16))));
    chunked.push_str("0\r\n\r\n");
    let headers = [("content-length", ""), ("transfer-encoding", "chunked")];
    assert_eq!(house.post_with(&headers, &chunked).await.status, 413);

    let house = House::open(Limits::default()).await;
    assert_eq!(house.post(&of_size(31 << 20)).await.status, 200);
    assert_eq!(house.post(&of_size(60 << 20)).await.status, 413);
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_408() {
    let house = House::open(Limits { receive_within: Duration::from_millis(100), ..Limits::default() }).await;
    let wire = house.send("POST", &[("content-length", "100")], b"{").await;
    assert_eq!(wire.whole().await.status, 408);
}

#[tokio::test]
async fn what_wants_no_answer_gets_202_and_no_body() {
    let house = House::open(Limits::default()).await;
    for message in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/unheard_of","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}"#,
    ] {
        let answer = house.post(message).await;
        assert_eq!((answer.status, answer.body.len(), answer.complete), (202, 0, true), "{message}");
    }
    assert_eq!(house.script.begun(), 0);
}

#[tokio::test]
async fn a_slow_answer_becomes_an_event_stream_for_who_takes_one() {
    let house = House::open(Limits { keep_alive: Duration::from_millis(60), ..hasty() }).await;
    let slow = request("1", "sleep", r#"{"ms":400}"#);
    let wanted = r#"{"jsonrpc":"2.0","id":1,"result":{"slept":true}}"#;

    let answer = house.post(&slow).await;
    assert_eq!(answer.events(), [wanted]);
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let signs = answer.text().matches(": keep-alive\n\n").count();
    assert!((1..=6).contains(&signs), "{signs} signs of life in 350 ms");

    for accept in ["application/json", "*/*", ""] {
        let answer = house.post_with(&[("accept", accept)], &slow).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.text(), wanted);
    }
    let quick = house.post_with(&[EVENTS_ONLY], &request("1", "sleep", r#"{"ms":0}"#)).await;
    assert_eq!(quick.events(), [wanted]);
    let ping = house.post_with(&[EVENTS_ONLY], &request("1", "ping", "{}")).await;
    assert_eq!(ping.events(), [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
}

#[tokio::test]
async fn progress_comes_in_order_with_the_agents_own_token() {
    let house = House::open(Limits::default()).await;
    for (token, pause) in [(r#""t\u0041\"1""#, 0), ("7.0", 5), ("-1", 0)] {
        let params = format!(r#"{{"steps":5,"pause":{pause},"_meta":{{"progressToken":{token}}}}}"#);
        let events = house.post(&request("\"p\"", "progress", &params)).await.events();
        let (last, progress) = events.split_last().unwrap();
        let wanted: Vec<_> = (0..5)
            .map(|step| {
                let params = format!(r#"{{"progress":{step}.0, "progressToken":{token}}}"#);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
            })
            .collect();
        assert_eq!(progress, wanted);
        assert_eq!(last, r#"{"jsonrpc":"2.0","id":"p","result":{"wanted":true}}"#);
    }
    let unwanted = [
        (request("1", "progress", r#"{"steps":2}"#), EVENTS_ONLY),
        (request("1", "progress", r#"{"steps":2,"_meta":{"progressToken":1}}"#), JSON_ONLY),
    ];
    for (message, accept) in unwanted {
        let answer = house.post_with(&[accept], &message).await;
        assert!(answer.text().contains(r#""result":{"wanted":false}"#), "{}", answer.text());
    }
}

/// Takes a request back, in a session if one is named.
async fn cancel(house: &House, session: &str, id: &str) {
    let params = format!(r#"{{"requestId":{id},"reason":"enough"}}"#);
    let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
    assert_eq!(house.post_with(&[("mcp-session-id", session)], &message).await.status, 202);
}

#[tokio::test]
async fn a_cancellation_reaches_the_request_of_its_session_only() {
    let house = House::open(hasty()).await;
    let (mine, other) = (house.session("").await, house.session("").await);
    let mut wires = Vec::new();
    for (id, accept) in [("5", "text/event-stream"), ("\"5\"", "application/json")] {
        let headers = [("mcp-session-id", mine.as_str()), ("accept", accept)];
        wires.push(house.send("POST", &headers, request(id, "until_cancelled", "{}").as_bytes()).await);
    }
    house.script.until(Script::begun, 2).await;
    for (session, id) in [(other.as_str(), "5"), ("", "5"), (mine.as_str(), "6")] {
        cancel(&house, session, id).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(house.script.cancelled(), 0, "none of these was meant");

    for (at, id) in ["5", "\"5\""].into_iter().enumerate() {
        let begun = Instant::now();
        cancel(&house, &mine, id).await;
        house.script.until(Script::cancelled, at + 1).await;
        assert!(begun.elapsed() < Duration::from_secs(1));
        assert_eq!(house.script.cancelled(), at + 1);
    }
    let json = wires.pop().unwrap().whole().await;
    assert!(json.complete && json.text().contains("\"cancelled\":true"), "a JSON answer needs a body");
    let stream = wires.pop().unwrap().whole().await;
    assert!(stream.complete && stream.body.is_empty(), "a stream just ends: {}", stream.text());
}

#[tokio::test]
async fn an_id_in_flight_is_refused_a_second_time_in_its_session() {
    let house = House::open(hasty()).await;
    let session = house.session("").await;
    let headers = [("mcp-session-id", session.as_str())];
    let first = house.send("POST", &headers, request("1", "held", "{}").as_bytes()).await;
    house.script.until(Script::begun, 1).await;

    let second = house.post_with(&headers, &request("1", "echo", "{}")).await;
    assert_eq!((second.status, second.code()), (400, INVALID_REQUEST));
    assert_eq!(house.post_with(&headers, &request("\"1\"", "echo", "{}")).await.status, 200, "another id");
    assert_eq!(house.post(&request("1", "echo", "{}")).await.status, 200, "no session");
    let other = house.session("").await;
    let elsewhere = house.post_with(&[("mcp-session-id", &other)], &request("1", "echo", "{}")).await;
    assert_eq!(elsewhere.status, 200, "another session");

    house.script.release(1);
    assert!(first.whole().await.text().contains(r#""held":true"#));
    for _ in 0..20 {
        assert_eq!(house.post_with(&headers, &request("1", "echo", "{}")).await.status, 200, "free again");
    }
}

#[tokio::test]
async fn requests_over_the_bound_are_told_to_come_again() {
    let house = House::open(Limits { max_in_flight: 2, ..hasty() }).await;
    let held = request("1", "held", "{}");
    let at_work =
        [house.send("POST", &[], held.as_bytes()).await, house.send("POST", &[], held.as_bytes()).await];
    house.script.until(Script::begun, 2).await;
    let third = house.post(&request("3", "echo", "{}")).await;
    assert_eq!((third.status, third.header("retry-after"), third.code()), (503, Some("1"), REFUSED));
    assert_eq!(third.json()["id"], 3);
    assert_eq!(house.post(&request("4", "ping", "{}")).await.status, 200);
    assert_eq!(house.post(INITIALIZE).await.status, 200);
    house.script.release(2);
    for wire in at_work {
        assert!(wire.whole().await.text().contains(r#""held":true"#));
    }
    assert_eq!(house.post(&request("3", "echo", "{}")).await.status, 200);
}

#[tokio::test]
async fn large_messages_are_bounded_together() {
    let house = House::open(Limits { max_buffered_bytes: 1 << 20, ..hasty() }).await;
    let large = |method| request("1", method, &format!(r#"{{"a":"{}"}}"#, "x".repeat(700 << 10)));
    let first = house.send("POST", &[], large("held").as_bytes()).await;
    house.script.until(Script::begun, 1).await;
    let second = house.post(&large("who")).await;
    assert_eq!((second.status, second.header("retry-after")), (503, Some("1")));
    assert_eq!(house.post(&request("2", "echo", "{}")).await.status, 200, "small ones always fit");
    house.script.release(1);
    assert!(first.whole().await.text().contains(r#""held":true"#));
    assert_eq!(house.post(&large("who")).await.status, 200);
}

#[tokio::test]
async fn a_lost_connection_does_not_stop_the_request() {
    let house = House::open(hasty()).await;
    for (at, accept) in ["application/json", "application/json, text/event-stream"].into_iter().enumerate() {
        let message = request("1", "sleep", r#"{"ms":400}"#);
        let mut wire = house.send("POST", &[("accept", accept)], message.as_bytes()).await;
        house.script.until(Script::begun, at + 1).await;
        if at == 1 {
            wire.head().await;
        }
        drop(wire);
        house.script.until(Script::ended, at + 1).await;
        assert_eq!(house.script.cancelled(), 0);
    }
}

/// Checks a streamed answer of so many bytes in all its length.
fn check_filled(text: &[u8], bytes: usize) {
    let head = br#"{"jsonrpc":"2.0","id":1,"result":""#;
    assert_eq!(text.len(), head.len() - 1 + bytes + 1);
    let inside = text.strip_prefix(&head[..]).unwrap().strip_suffix(b"\"}").unwrap();
    assert!(inside.iter().all(|byte| *byte == b'x'));
}

#[tokio::test]
async fn fifty_megabytes_arrive_whole_in_each_form() {
    const BYTES: usize = 50_000_000;
    let house = House::open(Limits::default()).await;
    let known = request("1", "stream", &format!(r#"{{"bytes":{BYTES},"len":{BYTES}}}"#));
    let answer = house.post(&known).await;
    assert!(answer.complete);
    assert_eq!(answer.header("content-length").unwrap().parse::<usize>().unwrap(), answer.body.len());
    check_filled(&answer.body, BYTES);

    let unknown = request("1", "stream", &format!(r#"{{"bytes":{BYTES}}}"#));
    let answer = house.post(&unknown).await;
    assert_eq!((answer.complete, answer.header("transfer-encoding")), (true, Some("chunked")));
    check_filled(&answer.body, BYTES);

    let answer = house.post_with(&[EVENTS_ONLY], &known).await;
    let events = answer.events();
    assert_eq!(events.len(), 1);
    check_filled(events[0].as_bytes(), BYTES);

    let answer = house.post(&request("1", "whole", r#"{"bytes":3000000}"#)).await;
    assert!(answer.complete && answer.header("content-length").is_some());
    check_filled(&answer.body, 3_000_000);
}

#[tokio::test]
async fn a_stream_is_read_only_as_fast_as_the_client_takes_it() {
    const BYTES: u64 = 200_000_000;
    let house = House::open(Limits::default()).await;
    let message = request("1", "stream", &format!(r#"{{"bytes":{BYTES},"len":{BYTES}}}"#));
    let mut wire = house.send("POST", &[], message.as_bytes()).await;
    wire.head().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let produced = house.script.produced.load(Ordering::SeqCst);
    assert!(produced > 0);
    // What the kernel keeps for a loopback connection, and a few pieces of ours.
    assert!(produced < 32 << 20, "{produced} bytes were read for a client that takes none");
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off_and_frees_its_place() {
    let limits = Limits { stall: Duration::from_millis(200), max_in_flight: 1, ..hasty() };
    let house = House::open(limits).await;
    let message = request("1", "stream", r#"{"bytes":200000000}"#);
    let mut wire = house.send("POST", &[], message.as_bytes()).await;
    wire.head().await;
    let mut freed = false;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        freed |= house.post(&request("2", "echo", "{}")).await.status == 200;
        if freed {
            break;
        }
    }
    assert!(freed);
    assert!(!wire.whole().await.complete);
}

#[tokio::test]
async fn a_result_that_breaks_off_is_never_a_well_formed_answer() {
    let house = House::open(Limits::default()).await;
    let cases = [
        r#"{"bytes":1000000,"len":1000000,"fails_at":0}"#,
        r#"{"bytes":1000000,"len":1000000,"fails_at":300000}"#,
        r#"{"bytes":1000000,"fails_at":300000}"#,
        r#"{"bytes":999999,"len":1000000}"#,
        r#"{"bytes":1000001,"len":1000000}"#,
        r#"{"bytes":131073,"len":131072}"#,
        r#"{"bytes":11,"len":10}"#,
        r#"{"bytes":9,"len":10}"#,
    ];
    for params in cases {
        for accept in ["application/json", "text/event-stream"] {
            let answer = house.post_with(&[("accept", accept)], &request("1", "stream", params)).await;
            assert!(!answer.complete, "{accept} {params}: {:?}", answer.headers);
            assert!(!answer.body.ends_with(b"}") && !answer.body.ends_with(b"\n\n"), "{accept} {params}");
        }
    }
    assert_eq!(house.post(&request("1", "echo", "{}")).await.status, 200);
}

#[tokio::test]
async fn errors_of_the_service_pass_with_their_data() {
    let house = House::open(Limits::default()).await;
    let wanted = |data: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32042,"message":"a\n\"b\"","data":{data}}}}}"#)
    };
    let answer = house.post(&request("1", "error", "{}")).await;
    assert_eq!((answer.status, answer.text()), (200, wanted("[1.0,\n2]").as_str()));
    let answer = house.post_with(&[EVENTS_ONLY], &request("1", "error", "{}")).await;
    assert_eq!(answer.events(), [wanted("[1.0, 2]")]);
}

#[tokio::test]
async fn a_service_that_breaks_down_still_answers() {
    let house = House::open(hasty()).await;
    let session = house.session("").await;
    let headers = [("mcp-session-id", session.as_str())];
    for _ in 0..2 {
        let answer: Answer = house.post_with(&headers, &request("1", "panic", "{}")).await;
        assert_eq!((answer.status, answer.code()), (200, BROKE_DOWN), "and its id is free again");
    }
}

#[tokio::test]
async fn draining_refuses_new_requests_and_waits_for_those_in_flight() {
    let house = House::open(hasty()).await;
    let wire = house.send("POST", &[], request("1", "held", "{}").as_bytes()).await;
    house.script.until(Script::begun, 1).await;
    let server = house.server.clone();
    let draining = tokio::spawn(async move { server.drain().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(house.post(&request("2", "echo", "{}")).await.status, 503);
    assert!(!draining.is_finished());
    house.script.release(1);
    assert!(wire.whole().await.text().contains(r#""held":true"#));
    draining.await.unwrap();
    assert_eq!(house.post(&request("2", "echo", "{}")).await.status, 503);
}
