//! The stdio side as the program at the other end of the pipes sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod server_support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use server_support::{BROKE_DOWN, INITIALIZE, Script, request};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::server::{INVALID_PARAMS, INVALID_REQUEST, Limits, PARSE_ERROR, REFUSED, Server};

/// A client with its two pipes.
struct Client {
    script: Arc<Script>,
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
}

impl Client {
    fn start(limits: Limits) -> Self {
        let script = Arc::new(Script::default());
        let server = Server::new(Arc::clone(&script), limits);
        let (input, their_input) = tokio::io::duplex(64 << 10);
        let (output, their_output) = tokio::io::duplex(64 << 10);
        let shutdown = CancellationToken::new();
        let served = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { server.stdio(their_input, their_output, "me".to_owned(), shutdown).await }
        });
        Self { script, input, output: BufReader::new(output).lines(), shutdown, served }
    }

    async fn say(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn hear(&mut self) -> String {
        self.hear_end().await.expect("the output ended")
    }

    async fn hear_end(&mut self) -> Option<String> {
        tokio::time::timeout(Duration::from_secs(30), self.output.next_line())
            .await
            .expect("silence")
            .unwrap()
    }

    async fn ask(&mut self, line: &str) -> String {
        self.say(line).await;
        self.hear().await
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[tokio::test]
async fn a_conversation_from_hello_to_the_end() {
    let mut client = Client::start(Limits::default());
    let hello = json(&client.ask(INITIALIZE).await);
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello["result"]["serverInfo"]["name"], "script");
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    client.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    assert_eq!(client.ask(&request("1", "ping", "{}")).await, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let who = json(&client.ask(&request("2", "who", "{}")).await);
    assert_eq!(who["result"]["client"], serde_json::json!(["tester", "9"]));
    assert_eq!(who["result"]["caller"], "me");
    assert_eq!(who["result"]["session"].as_str().map(str::len), Some(32));
    drop(client.input);
    client.served.await.unwrap();
    assert_eq!(client.output.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn ids_params_and_results_keep_every_byte_but_line_breaks() {
    let mut client = Client::start(Limits::default());
    for id in ["1", "-5", "1.0", r#""a\"b""#, "12345678901234567890", r#""é😀""#] {
        let raw = r#"{ "z":1.0,"a":-0,"a":1e45,"s":"\n<&>é" }"#;
        let answer = client.ask(&request(id, "echo", raw)).await;
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{raw}}}"#));
    }
    let error = client.ask(&request("1", "error", "{}")).await;
    assert!(error.ends_with(r#""message":"a\n\"b\"","data":[1.0, 2]}}"#), "{error}");
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_rest_goes_on() {
    let mut client = Client::start(Limits::default());
    let cases = [
        ("{not json", Value::Null, PARSE_ERROR),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Value::Null, INVALID_REQUEST),
        ("42", Value::Null, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":7}"#, 7.into(), INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":8,"method":"echo","params":"x"}"#, 8.into(), INVALID_PARAMS),
    ];
    for (line, id, code) in cases {
        let answer = json(&client.ask(line).await);
        assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&id, Some(code)), "{line}");
    }
    client.say("").await;
    client.say("  \r").await;
    client.input.write_all("\u{feff}".as_bytes()).await.unwrap();
    let ping = format!("{}\r", request("9", "ping", "{}"));
    assert_eq!(json(&client.ask(&ping).await)["id"], 9);
}

#[tokio::test]
async fn a_line_over_the_bound_is_answered_and_passed_over() {
    let mut client = Client::start(Limits { max_request_bytes: 100_000, ..Limits::default() });
    for size in [100_000, 5_000_000] {
        client.say(&request("1", "echo", &format!(r#"{{"a":"{}"}}"#, "x".repeat(size)))).await;
        let answer = json(&client.hear().await);
        assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&Value::Null, Some(INVALID_REQUEST)));
        assert_eq!(json(&client.ask(&request("2", "echo", "{}")).await)["id"], 2);
    }
    assert_eq!(client.script.begun(), 2);
}

#[tokio::test]
async fn requests_run_side_by_side_and_answers_do_not_mix() {
    let mut client = Client::start(Limits::default());
    client.say(&request("\"slow\"", "held", "{}")).await;
    assert_eq!(json(&client.ask(&request("\"quick\"", "echo", "{}")).await)["id"], "quick");
    client.script.release(1);
    assert_eq!(json(&client.hear().await)["id"], "slow");

    for id in 0..4 {
        client.say(&request(&id.to_string(), "stream", r#"{"bytes":5000000}"#)).await;
    }
    for id in 4..104 {
        client.say(&request(&id.to_string(), "echo", "{}")).await;
    }
    let mut heard: Vec<i64> = Vec::new();
    for _ in 0..104 {
        let answer = json(&client.hear().await);
        let id = answer["id"].as_i64().unwrap();
        if id < 4 {
            assert_eq!(answer["result"].as_str().unwrap().len(), 4_999_998);
        }
        heard.push(id);
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..104).collect::<Vec<_>>());
}

#[tokio::test]
async fn fifty_megabytes_are_one_line() {
    let mut client = Client::start(Limits::default());
    let answer = client.ask(&request("1", "stream", r#"{"bytes":50000000,"len":50000000}"#)).await;
    assert_eq!(answer.len(), r#"{"jsonrpc":"2.0","id":1,"result":}"#.len() + 50_000_000);
    assert!(answer.ends_with("x\"}"));
}

#[tokio::test]
async fn progress_comes_in_order_before_the_answer() {
    let mut client = Client::start(Limits::default());
    client.say(&request("1", "progress", r#"{"steps":5,"_meta":{"progressToken":"t\u0041"}}"#)).await;
    for step in 0..5 {
        let params = format!(r#"{{"progress":{step}.0, "progressToken":"t\u0041"}}"#);
        let wanted = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
        assert_eq!(client.hear().await, wanted);
    }
    assert_eq!(client.hear().await, r#"{"jsonrpc":"2.0","id":1,"result":{"wanted":true}}"#);
}

#[tokio::test]
async fn a_cancelled_request_gets_no_answer() {
    let mut client = Client::start(Limits::default());
    client.say(&request("1", "until_cancelled", "{}")).await;
    client.say(&request("2", "until_cancelled", "{}")).await;
    let cancel = |id| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    };
    client.say(&cancel(1)).await;
    client.say(&cancel(99)).await;
    client.script.until(Script::ended, 1).await;
    assert_eq!(client.script.cancelled(), 1);
    assert_eq!(json(&client.ask(&request("1", "ping", "{}")).await)["id"], 1, "nothing before it");
    client.say(&cancel(2)).await;
    drop(client.input);
    client.served.await.unwrap();
    assert_eq!(client.output.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn an_id_in_flight_is_refused_a_second_time() {
    let mut client = Client::start(Limits::default());
    client.say(&request("1", "held", "{}")).await;
    let second = json(&client.ask(&request("1", "echo", "{}")).await);
    assert_eq!(second["error"]["code"], INVALID_REQUEST);
    client.script.release(1);
    assert_eq!(json(&client.hear().await)["result"]["held"], true);
    assert_eq!(json(&client.ask(&request("1", "echo", "{}")).await)["id"], 1);
}

#[tokio::test]
async fn requests_over_the_bound_are_refused_as_busy() {
    let limits = Limits { max_in_flight: 1, max_buffered_bytes: 200_000, ..Limits::default() };
    let mut client = Client::start(limits);
    client.say(&request("1", "held", "{}")).await;
    let second = json(&client.ask(&request("2", "echo", "{}")).await);
    assert_eq!((&second["id"], second["error"]["code"].as_i64()), (&2.into(), Some(REFUSED)));
    client.script.release(1);
    assert_eq!(json(&client.hear().await)["id"], 1);
    let large = request("3", "echo", &format!(r#"{{"a":"{}"}}"#, "x".repeat(400_000)));
    assert_eq!(json(&client.ask(&large).await)["error"]["code"], REFUSED);
    assert_eq!(json(&client.ask(&request("4", "echo", "{}")).await)["id"], 4);
}

#[tokio::test]
async fn a_result_that_breaks_off_ends_in_an_error() {
    let mut client = Client::start(Limits::default());
    for params in [r#"{"bytes":1000000,"fails_at":300000}"#, r#"{"bytes":11,"len":10}"#] {
        let broken = client.ask(&request("1", "stream", params)).await;
        assert!(serde_json::from_str::<Value>(&broken).is_err(), "not a result");
        let error = json(&client.hear().await);
        assert_eq!((error["id"].as_i64(), error["error"]["code"].as_i64()), (Some(1), Some(BROKE_DOWN)));
    }
    assert_eq!(json(&client.ask(&request("1", "panic", "{}")).await)["error"]["code"], BROKE_DOWN);
    assert_eq!(json(&client.ask(&request("1", "echo", "{}")).await)["id"], 1);
}

#[tokio::test]
async fn the_end_of_the_input_waits_for_the_answers() {
    let mut client = Client::start(Limits::default());
    client.say(&request("1", "sleep", r#"{"ms":300}"#)).await;
    // The last line needs no end.
    client.input.write_all(request("2", "sleep", r#"{"ms":200}"#).as_bytes()).await.unwrap();
    drop(client.input);
    let mut heard = Vec::new();
    while let Some(line) = client.output.next_line().await.unwrap() {
        heard.push(json(&line)["id"].as_i64().unwrap());
    }
    assert_eq!(heard, [2, 1]);
    client.served.await.unwrap();
}

#[tokio::test]
async fn shutdown_does_not_wait() {
    for end_input in [false, true] {
        let mut client = Client::start(Limits::default());
        client.say(&request("1", "until_cancelled", "{}")).await;
        client.script.until(Script::begun, 1).await;
        let input = (!end_input).then_some(client.input);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begun = Instant::now();
        client.shutdown.cancel();
        client.served.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1));
        drop(input);
    }
}

#[tokio::test]
async fn a_client_that_is_gone_does_not_stop_its_requests() {
    let mut client = Client::start(Limits::default());
    client.say(&request("1", "sleep", r#"{"ms":300}"#)).await;
    client.say(&request("2", "sleep", r#"{"ms":500}"#)).await;
    client.script.until(Script::begun, 2).await;
    drop(client.output);
    // The input stays open: the failed write alone tells that nobody is there.
    client.served.await.unwrap();
    assert_eq!(client.script.ended(), 2);
    drop(client.input);
}

#[tokio::test]
async fn input_is_read_on_while_nobody_takes_the_answers() {
    let mut client = Client::start(Limits::default());
    client.say(&request("1", "stream", r#"{"bytes":1000000}"#)).await;
    client.say(&request("2", "until_cancelled", "{}")).await;
    for id in 10..110 {
        client.say(&request(&id.to_string(), "ping", "{}")).await;
    }
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#).await;
    client.script.until(Script::cancelled, 1).await;
    for _ in 0..101 {
        client.hear().await;
    }
}

#[tokio::test]
async fn shutdown_ends_also_what_waits_for_a_client_that_takes_nothing() {
    let mut client = Client::start(Limits::default());
    client.say(&request("1", "stream", r#"{"bytes":1000000}"#)).await;
    client.script.until(Script::ended, 1).await;
    let shutdown = client.shutdown.clone();
    let feeding = tokio::spawn(async move {
        for _ in 0..5000 {
            let line = request("1", "ping", "{}") + "\n";
            if client.input.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
        panic!("short answers without number are kept for a client that takes none");
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!feeding.is_finished(), "reading waits");
    shutdown.cancel();
    client.served.await.unwrap();
    feeding.await.unwrap();
    drop(client.output);
}
