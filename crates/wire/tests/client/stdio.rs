//! Calls over pipes, against a child that the test plays.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;
use wire::client::{CallError, CallOptions, Client, Event, Options};
use wire::spool::Body;

use crate::common::{
    BOTH, IdAt, KIB, MIB, Place, answer, bytes, call, options, place, raw, result, text, until,
};

/// The child: reads what the client writes, says what the test wants.
struct Child {
    stdin: BufReader<DuplexStream>,
    stdout: DuplexStream,
}

impl Child {
    /// The next line, and its id as JSON.
    async fn hear(&mut self) -> (String, Value) {
        let mut line = String::new();
        let read = self.stdin.read_line(&mut line);
        let count =
            tokio::time::timeout(Duration::from_secs(300), read).await.expect("nothing came").unwrap();
        assert!(count > 0, "the client closed the child's stdin");
        let value: Value = serde_json::from_str(&line).unwrap();
        (value["id"].to_string(), value)
    }

    async fn say(&mut self, line: &str) {
        self.stdout.write_all(line.as_bytes()).await.unwrap();
        self.stdout.write_all(b"\n").await.unwrap();
    }
}

fn connect(options: Options) -> (Client, Child) {
    let (stdout, out) = tokio::io::duplex(64 * KIB);
    let (stdin, input) = tokio::io::duplex(64 * KIB);
    let client = Client::stdio(out, stdin, options);
    (client, Child { stdin: BufReader::new(input), stdout })
}

fn start(max: usize) -> (Place, Client, Child) {
    let place = place(1 << 30);
    let (client, child) = connect(options(&place.spools, max));
    (place, client, child)
}

/// A call that runs beside the test.
fn spawn(client: &Client, options: CallOptions) -> tokio::task::JoinHandle<Result<Body, CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("tool", raw("{\"a\":1}"), options).await })
}

#[tokio::test]
async fn answers_of_every_size_come_whole_with_the_id_first_or_last() {
    let (place, client, mut child) = start(64 * MIB);
    let sizes = [60, 63 * KIB, 65 * KIB, MIB + 100 * KIB, 2 * MIB + 100 * KIB, 10 * MIB + MIB / 2, 40 * MIB];
    for size in sizes {
        for at in BOTH {
            let call = spawn(&client, call(60));
            let (id, _) = child.hear().await;
            let wanted = result(size);
            child.say(&answer(at, &id, &wanted)).await;
            let body = call.await.unwrap().unwrap();
            assert!(bytes(&body) == wanted.as_bytes(), "{size} bytes, id {at:?}");
            drop(body);
            until("the spool is given back", || place.spools.used_bytes() == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_each_get_their_own_answer() {
    let (place, client, mut child) = start(16 * MIB);
    let tasks: Vec<_> = (0..2_000)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let arguments = Bytes::from(format!("{{\"n\":{number}}}"));
                let body = client.call_tool("tool", arguments, call(60)).await.unwrap();
                let size = if number % 500 == 0 { 3 * MIB } else { 70 };
                assert_eq!(body.len(), size as u64, "call {number}");
            })
        })
        .collect();
    let mut waiting = Vec::new();
    for heard in 1..=2_000 {
        let (id, request) = child.hear().await;
        waiting.push((id, request["params"]["arguments"]["n"].as_u64().unwrap()));
        if heard % 100 == 0 {
            // The last to ask is the first to be answered.
            for (id, number) in waiting.drain(..).rev() {
                let at = BOTH[usize::from(number % 2 == 0)];
                child.say(&answer(at, &id, &result(if number % 500 == 0 { 3 * MIB } else { 70 }))).await;
            }
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    until("the spool is given back", || place.spools.used_bytes() == 0).await;
}

#[tokio::test]
async fn a_call_goes_out_as_one_line_and_asks_for_progress() {
    let (_place, client, mut child) = start(MIB);
    let pretty = raw("{\n  \"text\": \"a\\nb\",\r\n  \"n\": 1.0\n}");
    let task = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("to\"ol é", pretty, call(5)).await }
    });
    let mut line = String::new();
    child.stdin.read_line(&mut line).await.unwrap();
    assert!(line.contains("\"arguments\":{   \"text\": \"a\\nb\",    \"n\": 1.0 }"), "{line}");
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["params"]["name"], "to\"ol é");
    assert_eq!(value["params"]["_meta"]["progressToken"], value["id"]);
    child.say(&answer(IdAt::Last, &value["id"].to_string(), "{}")).await;
    assert_eq!(text(&task.await.unwrap().unwrap()), "{}");
}

#[tokio::test]
async fn noise_between_messages_is_passed_over_and_counted() {
    let (_place, client, mut child) = start(MIB);
    let task = spawn(&client, call(20));
    let (id, _) = child.hear().await;
    for noise in
        ["Starting…", "", "{not json", "[1,2,3]", "{\"level\":\"info\",\"error\":\"x\"}", "\u{feff}", "\r"]
    {
        child.say(noise).await;
    }
    child.stdout.write_all(&[0xff, 0xfe, b'\n']).await.unwrap();
    child.say(&format!("\u{feff}{}\r", answer(IdAt::First, &id, "{\"a\":\"a\\ud800b\"}"))).await;
    assert_eq!(text(&task.await.unwrap().unwrap()), "{\"a\":\"a\\ud800b\"}");
    assert_eq!(client.noise_count(), 5);
}

#[tokio::test]
async fn a_broken_answer_fails_its_call_at_once_and_the_connection_lives() {
    let (_place, client, mut child) = start(MIB);
    for at in BOTH {
        let task = spawn(&client, call(60));
        let (id, _) = child.hear().await;
        child.say(&answer(at, &id, "{\"structuredContent\":{\"v\":NaN}}")).await;
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(&error, CallError::Garbled(why) if why.contains("at byte ")), "{error}");
    }
    // Two in flight: the one whose id is known fails, the other goes on.
    let (first, second) = (spawn(&client, call(60)), spawn(&client, call(60)));
    let (one, _) = child.hear().await;
    let (two, _) = child.hear().await;
    child.say(&answer(IdAt::Last, &two, "{\"v\":NaN}")).await;
    child.say(&answer(IdAt::Last, &one, "{}")).await;
    let ends = [first.await.unwrap(), second.await.unwrap()];
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
    assert_eq!(ends.iter().filter(|end| matches!(end, Err(CallError::Garbled(_)))).count(), 1);
    let task = spawn(&client, call(60));
    let (id, _) = child.hear().await;
    child.say("{not json").await;
    child.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}}}")).await;
    let error = task.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("neither result nor error"), "{error}");
}

#[tokio::test]
async fn an_answer_over_the_bound_fails_its_call_and_the_next_call_works() {
    let (place, client, mut child) = start(2 * MIB);
    for at in BOTH {
        for size in [2 * MIB, 7 * MIB] {
            let task = spawn(&client, call(60));
            let (id, _) = child.hear().await;
            child.say(&answer(at, &id, &result(size))).await;
            let error = task.await.unwrap().unwrap_err();
            assert!(matches!(error, CallError::TooLarge { limit } if limit == 2 * MIB as u64), "{error}");
            let task = spawn(&client, call(60));
            let (id, _) = child.hear().await;
            child.say(&answer(at, &id, "{\"ok\":true}")).await;
            assert_eq!(text(&task.await.unwrap().unwrap()), "{\"ok\":true}", "{at:?} {size}");
            assert_eq!(place.spools.used_bytes(), 0);
        }
    }
}

#[tokio::test]
async fn over_the_bound_the_only_call_fails_before_the_line_has_ended() {
    let (_place, client, mut child) = start(MIB);
    let task = spawn(&client, call(600));
    let (id, _) = child.hear().await;
    let line = answer(IdAt::Last, &id, &result(3 * MIB));
    child.stdout.write_all(&line.as_bytes()[..2 * MIB + MIB / 2]).await.unwrap();
    assert!(matches!(task.await.unwrap(), Err(CallError::TooLarge { .. })));
    // The rest of that line is not the next call's.
    let next = spawn(&client, call(60));
    let (next_id, _) = child.hear().await;
    child.say(&line[2 * MIB + MIB / 2..]).await;
    child.say(&answer(IdAt::Last, &next_id, "1")).await;
    assert_eq!(text(&next.await.unwrap().unwrap()), "1");
}

#[tokio::test]
async fn with_two_calls_in_flight_the_right_one_fails_over_the_bound() {
    let (_place, client, mut child) = start(MIB);
    let (first, second) = (spawn(&client, call(60)), spawn(&client, call(60)));
    let (one, _) = child.hear().await;
    let (two, _) = child.hear().await;
    child.say(&answer(IdAt::Last, &one, &result(2 * MIB))).await;
    child.say(&answer(IdAt::Last, &two, "{}")).await;
    let ends = [first.await.unwrap(), second.await.unwrap()];
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
    assert_eq!(ends.iter().filter(|end| matches!(end, Err(CallError::TooLarge { .. }))).count(), 1);
}

#[tokio::test]
async fn a_line_of_four_times_the_bound_ends_the_connection() {
    for prefix in ["{\"result\":\"", "no json at all "] {
        let (place, client, mut child) = start(MIB);
        let (first, second) = (spawn(&client, call(60)), spawn(&client, call(60)));
        child.hear().await;
        child.hear().await;
        let flood = tokio::spawn(async move {
            let mut wrote = child.stdout.write_all(prefix.as_bytes()).await;
            let block = vec![b'x'; MIB];
            for _ in 0..200 {
                wrote = wrote.and(child.stdout.write_all(&block).await);
                if wrote.is_err() {
                    return;
                }
            }
            panic!("200 MiB were taken");
        });
        for task in [first, second] {
            assert!(matches!(task.await.unwrap(), Err(CallError::TooLarge { .. })), "{prefix}");
        }
        let why = client.closed().await;
        assert!(why.contains("4 times"), "{why}");
        flood.await.unwrap();
        until("the spool is given back", || place.spools.used_bytes() == 0).await;
        let late = client.call_tool("tool", Bytes::new(), call(5)).await;
        assert!(matches!(late, Err(CallError::NotSent(_))));
    }
}

#[tokio::test]
async fn a_connection_that_ends_within_a_message_fails_what_is_in_flight() {
    for size in [100, 3 * MIB] {
        let (_place, client, mut child) = start(64 * MIB);
        let task = spawn(&client, call(60));
        let (id, _) = child.hear().await;
        let line = answer(IdAt::First, &id, &result(size));
        child.stdout.write_all(&line.as_bytes()[..line.len() - 3]).await.unwrap();
        drop(child);
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(&error, CallError::Gone(why) if why.contains("within a message")), "{error}");
    }
}

#[tokio::test]
async fn a_last_line_without_its_end_still_counts() {
    for size in [100, 3 * MIB] {
        let (_place, client, mut child) = start(64 * MIB);
        let task = spawn(&client, call(60));
        let (id, _) = child.hear().await;
        child.stdout.write_all(answer(IdAt::Last, &id, &result(size)).as_bytes()).await.unwrap();
        drop(child);
        assert_eq!(task.await.unwrap().unwrap().len(), size as u64);
        assert_eq!(client.closed().await, "the server closed its output");
    }
}

#[tokio::test]
async fn a_cancelled_call_tells_the_server_its_own_id() {
    let (_place, client, mut child) = start(MIB);
    for answers in [false, true] {
        let options = call(60);
        let cancel = options.cancel.clone();
        let task = spawn(&client, options);
        let (id, _) = child.hear().await;
        let before = Instant::now();
        cancel.cancel();
        let (_, note) = child.hear().await;
        assert!(before.elapsed() < Duration::from_secs(1));
        assert_eq!(note["method"], "notifications/cancelled");
        assert_eq!(note["params"]["requestId"].to_string(), id);
        if answers {
            child.say(&answer(IdAt::First, &id, "{}")).await;
        }
        let end = task.await.unwrap();
        assert!(matches!(end, Err(CallError::Cancelled { answered }) if answered == answers), "{end:?}");
        // A late answer is nobody's.
        child.say(&answer(IdAt::Last, &id, "{\"late\":true}")).await;
        let next = spawn(&client, call(60));
        let (id, _) = child.hear().await;
        child.say(&answer(IdAt::First, &id, "1")).await;
        assert_eq!(text(&next.await.unwrap().unwrap()), "1");
    }
    assert_eq!(client.calls_in_flight(), 0);
}

#[tokio::test]
async fn a_call_whose_future_is_dropped_is_cancelled_too() {
    let (_place, client, mut child) = start(MIB);
    let task = spawn(&client, call(60));
    let (id, _) = child.hear().await;
    task.abort();
    let (_, note) = child.hear().await;
    assert_eq!(note["params"]["requestId"].to_string(), id);
    assert_eq!(client.calls_in_flight(), 0);
}

#[tokio::test]
async fn progress_restarts_the_timeout_up_to_the_total() {
    let (_place, client, mut child) = start(MIB);
    let (sender, mut progress) = mpsc::channel(16);
    let mut options = call(2);
    options.progress = Some(sender);
    let task = spawn(&client, options);
    let (id, _) = child.hear().await;
    for step in 0..3 {
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let token = if step == 0 { id.clone() } else { format!("\"{id}\"") };
        let params = format!("{{\"progressToken\":{token},\"progress\":{step}, \"x\":\"\\ud800\"}}");
        child
            .say(&format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{params}}}"
            ))
            .await;
        assert_eq!(progress.recv().await.unwrap(), params);
    }
    tokio::time::sleep(Duration::from_millis(1200)).await;
    child.say(&answer(IdAt::First, &id, "{}")).await;
    assert!(task.await.unwrap().is_ok());

    let before = Instant::now();
    let mut options = call(2);
    options.total = Duration::from_secs(3);
    let task = spawn(&client, options);
    let (id, _) = child.hear().await;
    let talk = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let note = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{id},\"progress\":1}}}}"
            );
            child.say(&note).await;
        }
    });
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Timeout { total: true, after } if after.as_secs() == 3), "{error}");
    assert!(before.elapsed() >= Duration::from_secs(3));
    talk.abort();
}

#[tokio::test]
async fn silence_times_out_cancels_and_leaves_the_connection() {
    let (_place, client, mut child) = start(MIB);
    let before = Instant::now();
    let task = spawn(&client, call(1));
    let (id, _) = child.hear().await;
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Timeout { total: false, after } if after.as_secs() == 1));
    assert!(before.elapsed() >= Duration::from_secs(1));
    let (_, note) = child.hear().await;
    assert_eq!(note["params"]["requestId"].to_string(), id);
    assert!(!client.is_closed());
}

#[tokio::test]
async fn a_child_that_does_not_read_hangs_nobody() {
    let (_place, client, mut child) = start(64 * MIB);
    let large = Bytes::from(format!("{{\"x\":\"{}\"}}", "a".repeat(MIB)));
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let (client, large) = (client.clone(), large.clone());
            tokio::spawn(async move { client.call_tool("tool", large, call(1)).await })
        })
        .collect();
    let mut sent = 0;
    for task in tasks {
        match task.await.unwrap().unwrap_err() {
            CallError::Timeout { .. } => sent += 1,
            CallError::NotSent(why) => assert!(why.contains("did not read its input for 1 s"), "{why}"),
            other => panic!("{other}"),
        }
    }
    assert_eq!(sent, 1, "only the first line was begun");
    assert!(client.notify("notifications/x", Bytes::new()).await.is_ok(), "there is room again");
    // When it reads again, what was withdrawn does not come.
    let (id, first) = child.hear().await;
    assert_eq!((id.as_str(), first["method"].as_str()), ("1", Some("tools/call")));
    let (_, second) = child.hear().await;
    assert!(second["method"].as_str().unwrap().starts_with("notifications/"), "{second}");
}

#[tokio::test]
async fn a_ping_of_the_server_is_answered_and_other_requests_are_refused() {
    let (_place, _client, mut child) = start(MIB);
    child.say("{\"jsonrpc\":\"2.0\",\"id\":\"p-1\",\"method\":\"ping\"}").await;
    let (_, pong) = child.hear().await;
    assert_eq!(pong, serde_json::json!({"jsonrpc":"2.0","id":"p-1","result":{}}));
    child.say("{\"method\":\"roots/list\",\"jsonrpc\":\"2.0\",\"id\":0}").await;
    let (_, refusal) = child.hear().await;
    assert_eq!(refusal["error"]["code"], -32601);
    assert_eq!(refusal["id"], 0);
}

#[tokio::test]
async fn a_flood_of_requests_and_log_lines_blocks_nothing() {
    let (_place, client, mut child) = start(MIB);
    let mut events = client.events().unwrap();
    assert!(client.events().is_none());
    for number in 0..5_000 {
        child.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"ping\"}}")).await;
        let log = format!("{{\"level\":\"info\",\"logger\":\"l\",\"data\":\"{}\"}}", "é".repeat(5_000));
        if number % 10 == 0 {
            child
                .say(&format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{log}}}"
                ))
                .await;
        }
    }
    child.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}").await;
    let mut logs = 0;
    while let Event::Log(line) = events.recv().await.unwrap() {
        logs += 1;
        assert_eq!((line.level.as_str(), line.logger.as_deref()), ("info", Some("l")));
        assert!(line.data.starts_with('é') && line.data.len() <= 4096);
    }
    assert!((1..=64).contains(&logs), "{logs}");
}

#[tokio::test]
async fn errors_of_the_server_come_through() {
    let (_place, client, mut child) = start(MIB);
    let task = spawn(&client, call(60));
    let (id, _) = child.hear().await;
    child.say(&format!("{{\"error\":{{\"code\":-32602,\"message\":\"Unknown tool\",\"data\":{{\"a\":1.0}}}},\"id\":{id},\"jsonrpc\":\"2.0\"}}")).await;
    let CallError::Rpc { code, message, data } = task.await.unwrap().unwrap_err() else { panic!() };
    assert_eq!(
        (code, message.as_str(), text(&data.unwrap()).as_str()),
        (-32602, "Unknown tool", "{\"a\":1.0}")
    );
    let task = spawn(&client, call(60));
    child.hear().await;
    child
        .say("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}")
        .await;
    assert!(
        matches!(task.await.unwrap(), Err(CallError::Rpc { code: -32700, .. })),
        "the only call was meant"
    );
}

#[tokio::test]
async fn initialize_offers_the_newest_revision_and_takes_each_that_is_spoken() {
    for (revision, accepted) in [
        ("2025-11-25", true),
        ("2025-06-18", true),
        ("2025-03-26", true),
        ("2024-11-05", true),
        ("2026-07-28", false),
        ("1999-01-01", false),
    ] {
        let (_place, client, mut child) = start(MIB);
        let task = tokio::spawn({
            let client = client.clone();
            async move { client.initialize(Duration::from_secs(10)).await }
        });
        let (id, request) = child.hear().await;
        assert_eq!(request["method"], "initialize");
        assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
        assert_eq!(request["params"]["capabilities"], serde_json::json!({}));
        assert_eq!(request["params"]["clientInfo"], serde_json::json!({"name":"mcpproxy","version":"1.2.3"}));
        let info = format!(
            "{{\"protocolVersion\":\"{revision}\",\"serverInfo\":{{\"name\":\"n\\ud800\",\"version\":\"v\",\"x\":1}},\"capabilities\":{{ \"tools\" : {{}}}},\"instructions\":\"do\"}}"
        );
        child.say(&answer(IdAt::Last, &id, &info)).await;
        match task.await.unwrap() {
            Ok(info) => {
                assert!(accepted);
                assert_eq!((info.name.as_str(), info.version.as_str()), ("n\u{fffd}", "v"));
                assert_eq!(info.protocol, revision);
                assert_eq!(info.capabilities.get(), "{ \"tools\" : {}}");
                assert_eq!(info.instructions.as_deref(), Some("do"));
                assert_eq!(child.hear().await.1["method"], "notifications/initialized");
            }
            Err(error) => assert!(!accepted && error.to_string().contains(revision), "{error}"),
        }
    }
}

#[tokio::test]
async fn all_pages_of_tools_come_raw_and_a_malformed_one_takes_none_along() {
    let (_place, client, mut child) = start(64 * MIB);
    let task = tokio::spawn({
        let client = client.clone();
        async move { client.list_tools(Duration::from_secs(30)).await }
    });
    let filler = format!("{{\"name\":\"big\",\"description\":\"{}\"}}", "d".repeat(2 * MIB));
    let pages = [(20, Some("\"a\\u00e9\"")), (20, Some("\"c\"")), (3, Some("\"\""))];
    for (number, (count, next)) in pages.into_iter().enumerate() {
        let (id, request) = child.hear().await;
        assert_eq!(request["params"]["cursor"].is_null(), number == 0);
        if number == 1 {
            assert_eq!(request["params"]["cursor"], "aé");
        }
        let mut tools: Vec<String> =
            (0..count).map(|i| format!("{{\"name\":\"t{number}-{i}\", \"n\":1.0}}")).collect();
        if number == 2 {
            tools.push(filler.clone());
        }
        if number == 0 {
            tools[3] = "17".to_owned();
            tools[4] = "{\"name\":\"a\\ud800\"}".to_owned();
        }
        let next = next.map(|next| format!(",\"nextCursor\":{next}")).unwrap_or_default();
        child.say(&answer(IdAt::Last, &id, &format!("{{\"tools\":[{}]{next}}}", tools.join(",")))).await;
    }
    let tools = task.await.unwrap().unwrap();
    assert_eq!(tools.len(), 44);
    assert_eq!((tools[3].get(), tools[4].get()), ("17", "{\"name\":\"a\\ud800\"}"));
    assert_eq!(tools[5].get(), "{\"name\":\"t0-5\", \"n\":1.0}");
    assert_eq!(tools[43].get(), filler);
}

#[tokio::test]
async fn a_list_that_begins_again_and_one_that_is_none_end() {
    let (_place, client, mut child) = start(MIB);
    let list = |client: &Client| {
        let client = client.clone();
        tokio::spawn(async move { client.list_tools(Duration::from_secs(30)).await })
    };
    let task = list(&client);
    for _ in 0..2 {
        let (id, _) = child.hear().await;
        child.say(&answer(IdAt::First, &id, "{\"tools\":[{\"name\":\"a\"}],\"nextCursor\":\"same\"}")).await;
    }
    assert_eq!(task.await.unwrap().unwrap().len(), 2);
    for bad in ["{}", "{\"tools\":7}", "[]"] {
        let task = list(&client);
        let (id, _) = child.hear().await;
        child.say(&answer(IdAt::First, &id, bad)).await;
        assert!(matches!(task.await.unwrap(), Err(CallError::Garbled(_))), "{bad}");
    }
}

#[tokio::test]
async fn a_server_that_answers_a_ping_with_an_error_is_alive() {
    let (_place, client, mut child) = start(MIB);
    let task = tokio::spawn({
        let client = client.clone();
        async move { client.ping(Duration::from_secs(5)).await }
    });
    let (id, _) = child.hear().await;
    child
        .say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32601,\"message\":\"no\"}}}}"))
        .await;
    assert!(task.await.unwrap().is_ok());
}

#[tokio::test]
async fn shutdown_and_dropping_the_client_close_the_childs_input() {
    for dropping in [false, true] {
        let (_place, client, mut child) = start(MIB);
        let task = spawn(&client, call(60));
        child.hear().await;
        if dropping {
            task.abort();
            let _ = task.await;
            drop(client);
        } else {
            client.shutdown().await;
            assert!(matches!(task.await.unwrap(), Err(CallError::Gone(_))));
            assert!(client.closed().await.contains("this side"));
        }
        let mut rest = String::new();
        let end = async { while child.stdin.read_line(&mut rest).await.unwrap() > 0 {} };
        tokio::time::timeout(Duration::from_secs(5), end).await.expect("the child's stdin is still open");
    }
}

#[tokio::test]
async fn a_child_that_goes_away_is_noticed() {
    let (_place, client, mut child) = start(MIB);
    let task = spawn(&client, call(60));
    child.hear().await;
    drop(child);
    assert!(matches!(task.await.unwrap(), Err(CallError::Gone(_))));
    assert_eq!(client.closed().await, "the server closed its output");
}

#[tokio::test]
async fn spools_that_are_full_fail_the_call_and_not_the_connection() {
    let place = place(3 * MIB as u64);
    let (client, mut child) = connect(options(&place.spools, 64 * MIB));
    let task = spawn(&client, call(60));
    let (id, _) = child.hear().await;
    child.say(&answer(IdAt::Last, &id, &result(5 * MIB))).await;
    assert!(matches!(task.await.unwrap(), Err(CallError::SpoolFull)));
    let task = spawn(&client, call(60));
    let (id, _) = child.hear().await;
    child.say(&answer(IdAt::Last, &id, &result(2 * MIB))).await;
    assert!(task.await.unwrap().is_ok());
}
