//! MCP over HTTP on both sides: calls, sessions, faults, cancellation, progress, and what agents are answered.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Endpoint, POST};
use testkit::http::Form;
use testkit::script::text_result;
use testkit::{Action, CallBuilder, Gateway, Home, HttpUpstream, Script};

use crate::common::{failed_after, home_with_text, no_temporary, saved, wait_for};

const FORMS: [Form; 2] = [Form::Json, Form::Events];

/// One root, and the upstream `web` over HTTP.
fn web_home(upstream: &HttpUpstream) -> Home {
    testkit::home!().root("root").http_upstream("web", upstream)
}

/// Both forms of an answer, and the `id` first and last, side by side, since most of the time is waiting.
fn each_wire(test: impl Fn(Form, bool) + Sync) {
    let wires: Vec<_> = FORMS.into_iter().flat_map(|form| [(form, false), (form, true)]).collect();
    side_by_side(&wires, |(form, id_last)| test(*form, *id_last));
}

fn side_by_side<T: Sync>(cases: &[T], test: impl Fn(&T) + Sync) {
    std::thread::scope(|scope| cases.iter().for_each(|case| drop(scope.spawn(|| test(case)))));
}

#[test]
fn an_answer_over_http_is_forwarded_and_saved_byte_for_byte() {
    const RAW: [&str; 5] = [
        r#"{"content":[{"type":"text","text":"plain \u00e9 \ud800 \/ <b>"}]}"#,
        r#"{"structuredContent":{"z":1,"a":1e45,"b":123456789012345678901234567890,"z":-0},"content":[]}"#,
        r#"{ "content" : [ { "type" : "x-future", "foo":[1.0] }, {"type":"text","text":"t","_meta":{"k":1}} ] , "extra":1 }"#,
        r#"{"content":[{"type":"text","text":"data: not an event\n\nevent: message\n"}],"isError":false}"#,
        "{\n \"content\": [\n  {\"type\":\"text\",\"text\":\"over lines\"}\n ]\n}",
    ];
    each_wire(|form, id_last| {
        let upstream = HttpUpstream::start(Script::text("").id_last(id_last), form);
        let home = web_home(&upstream);
        let gateway = home.serve();
        for (number, raw) in RAW.iter().enumerate() {
            upstream.set(Script::result(raw).id_last(id_last));
            assert_eq!(gateway.call("web:tool").send().raw_result(), *raw, "{form:?}");
            let path = home.at(&format!("root/{number}"));
            saved(&gateway.call("web:tool").save(&path).format("json").send(), &path, raw.as_bytes());
        }
        assert_eq!(upstream.calls(), RAW.len() * 2);
    });
}

#[test]
fn arguments_reach_an_http_upstream_with_every_digit_and_our_keys_do_not() {
    each_wire(|form, id_last| {
        let upstream = HttpUpstream::start(Script::text("ok").id_last(id_last), form);
        let home = web_home(&upstream);
        let gateway = home.serve();
        let args = r#"{"b":123456789012345678901234567890,"e":1e45,"z":-0,"k":"\ud800é"}"#;
        gateway
            .call("web:tool")
            .args(args)
            .save(home.at("root/x"))
            .member(r#""intent_reason":"why""#)
            .send()
            .envelope();
        let seen = upstream.call_params().pop().unwrap();
        assert!(seen.contains(&format!(r#""arguments":{args}"#)), "{seen}");
        assert!(!seen.contains("save_to_file") && !seen.contains("intent"), "{seen}");
    });
}

#[test]
fn an_http_upstream_gets_its_own_headers_and_none_of_ours() {
    let upstream = HttpUpstream::start(Script::text("ok"), Form::Json);
    let entry =
        json!({"name": "web", "url": upstream.url(), "headers": {"X-Team": "${env:TEAM}", "X-Fixed": "1"}});
    let home = testkit::home!().env("TEAM", "blue").server(entry, json!({}));
    let gateway = home.serve();
    let agent = gateway
        .endpoint()
        .with("x-api-key", &home.api_key())
        .with("x-private", "agent")
        .with("cookie", "c=1");
    assert!(!agent.rpc("tools/call", &gateway.call("web:tool").params()).is_error());
    let heads: Vec<String> = upstream.heads().iter().map(|h| h.to_ascii_lowercase()).collect();
    let call = heads.iter().rfind(|h| h.starts_with("post ")).unwrap();
    assert!(call.contains("x-team: blue\r\n") && call.contains("x-fixed: 1\r\n"), "{call}");
    assert!(call.contains("mcp-protocol-version: 2025-11-25\r\n"), "{call}");
    assert!(call.contains("application/json") && call.contains("text/event-stream"), "{call}");
    for foreign in ["x-api-key", "x-private", "cookie", "origin", &home.api_key()] {
        assert!(heads.iter().all(|h| !h.contains(foreign)), "{foreign} was passed on");
    }
}

#[test]
fn a_server_that_forgot_its_sessions_is_initialized_anew_without_the_old_id() {
    each_wire(|form, id_last| {
        let upstream = HttpUpstream::with_sessions(Script::text("hello").id_last(id_last), form);
        let home = web_home(&upstream);
        let gateway = home.serve();
        assert!(!gateway.call("web:tool").send().is_error());
        for _ in 0..3 {
            upstream.forget_sessions();
            let (calls, seen) = (upstream.calls(), upstream.heads().len());
            let works = || !gateway.call("web:tool").send().is_error();
            assert!(works() || works(), "neither the first nor the second try works with {form:?}");
            assert_eq!(upstream.calls(), calls + 1, "a call ran twice");
            let anew =
                upstream.heads()[seen..].iter().any(|h| !h.to_ascii_lowercase().contains("mcp-session-id"));
            assert!(anew, "initialize was not sent, or with the old id");
        }
        assert_eq!(gateway.server("web")["state"], "ready");
    });
}

#[test]
fn a_server_that_is_down_is_a_clear_error_and_comes_back_by_itself() {
    each_wire(|form, id_last| {
        let upstream = HttpUpstream::start(Script::text("hello").id_last(id_last), form);
        let home = home_with_text().http_upstream("web", &upstream);
        let gateway = home.serve();
        upstream.set_down(true);
        let text = gateway.call("web:tool").save(home.at("root/x")).send().refusal();
        let body: Value = serde_json::from_str(&text).unwrap();
        assert!(body["error"].as_str().unwrap().contains("503"), "{text}");
        assert_eq!((&body["server_name"], &body["tool_name"]), (&"web".into(), &"tool".into()));
        assert!(!home.at("root/x").exists());
        assert!(!gateway.call("srv:tool").send().is_error(), "the other server is not disturbed");
        upstream.set_down(false);
        wait_for(|| (!gateway.call("web:tool").send().is_error()).then_some(()));
    });
}

#[test]
fn an_address_that_nobody_listens_on_is_named_by_the_status_and_by_the_call() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let entry = json!({"name": "web", "url": format!("http://{free}/mcp")});
    let home = home_with_text().server(entry, json!({}));
    let gateway = home.serve();
    let status = gateway.server("web");
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["detail"].as_str().unwrap().to_lowercase().contains("refused"), "{status}");
    let began = Instant::now();
    let text = gateway.call("web:tool").send().refusal();
    assert!(text.to_lowercase().contains("refused") && text.contains("web"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(!gateway.call("srv:tool").send().is_error());
}

#[test]
fn a_connection_that_breaks_in_the_middle_fails_the_call_and_not_the_server() {
    each_wire(|form, id_last| {
        let upstream = HttpUpstream::start(Script::action(Action::Half(300_000)).id_last(id_last), form);
        let home = web_home(&upstream);
        let gateway = home.serve();
        let text = gateway.call("web:tool").save(home.at("root/x")).send().refusal();
        assert!(text.contains("web"), "{text}");
        assert!(!home.at("root/x").exists());
        assert_eq!(home.events("tool_call", 1)[0]["status"], "error");
        upstream.set(Script::text("hello").id_last(id_last));
        assert!(!gateway.call("web:tool").send().is_error(), "{form:?}");
    });
}

/// The upstreams `srv` (stdio) and `web` (HTTP), both of which take `wait` milliseconds for a call.
fn slow_pair(wait: u64, form: Form, id_last: bool) -> (Home, HttpUpstream) {
    let slow =
        Script::action(Action::After(wait, Box::new(Action::Result(text_result("late"))))).id_last(id_last);
    let upstream = HttpUpstream::start(slow.clone(), form);
    (crate::common::home_with(slow).http_upstream("web", &upstream), upstream)
}

/// A call that `session` makes under `id` and takes back once the upstream has it; how long the upstream took to hear it.
fn take_back(
    session: &Endpoint,
    call: &CallBuilder,
    id: &str,
    has_it: impl Fn() -> bool,
    heard: impl Fn() -> bool,
) -> Duration {
    let params = call.params();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| session.rpc_as(id, "tools/call", &params));
        wait_for(|| has_it().then_some(()));
        let began = Instant::now();
        let note = session.notify(
            "notifications/cancelled",
            &format!(r#"{{"requestId":{id},"reason":"changed my mind"}}"#),
        );
        assert_eq!(note.status, 202);
        wait_for(|| heard().then_some(()));
        let took = began.elapsed();
        let reply = asked.join().unwrap();
        let answered = reply.messages.iter().any(|m| m.contains("late"));
        assert!(!answered, "a call that was taken back was answered: {:?}", reply.messages);
        took
    })
}

#[test]
fn a_call_that_is_taken_back_is_cancelled_at_its_own_upstream_under_its_own_id() {
    each_wire(|form, id_last| {
        let id = if form == Form::Json { "101" } else { "\"agent-7\"" };
        let (home, web) = slow_pair(2500, form, id_last);
        let gateway = home.serve();
        let session = gateway.endpoint().session("canceller");

        let call = CallBuilder::new(session.clone(), "srv:tool").save(home.at("root/srv"));
        let (has, heard) = (|| home.calls("srv") == 1, || home.lines("srv", "cancelled").len() == 1);
        let took = take_back(&session, &call, id, has, heard);
        assert!(took < Duration::from_secs(1), "the stdio upstream heard it after {took:?}");
        let note: Value = serde_json::from_str(&home.lines("srv", "cancelled")[0]).unwrap();
        assert_eq!(note["requestId"].to_string(), home.lines("srv", "ids")[0]);
        assert_eq!(web.cancelled().len(), 0, "the other upstream heard it");

        let call = CallBuilder::new(session.clone(), "web:tool").save(home.at("root/web"));
        let took = take_back(&session, &call, id, || web.calls() == 1, || web.cancelled().len() == 1);
        assert!(took < Duration::from_secs(1), "the HTTP upstream heard it after {took:?}");
        let note: Value = serde_json::from_str(&web.cancelled()[0]).unwrap();
        assert_eq!(note["requestId"].to_string(), web.ids()[0]);
        assert_eq!(home.lines("srv", "cancelled").len(), 1, "the other upstream heard it");

        testkit::home::pause(2600);
        assert_eq!(std::fs::read_dir(home.at("root")).unwrap().count(), 0, "something was saved");
        for row in home.events("tool_call", 2) {
            assert_eq!((&row["status"], &row["reason"]), (&"cancelled".into(), &"cancelled".into()));
        }
        assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
    });
}

#[test]
fn a_cancellation_of_another_session_or_of_no_known_id_changes_nothing() {
    let (home, _web) = slow_pair(800, Form::Json, false);
    let gateway = home.serve();
    let (mine, other) = (gateway.endpoint().session("mine"), gateway.endpoint().session("other"));
    let params = CallBuilder::new(mine.clone(), "srv:tool").save(home.at("root/x")).params();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| mine.rpc_as("5", "tools/call", &params));
        wait_for(|| (home.calls("srv") == 1).then_some(()));
        for (session, id) in [(&other, "5"), (&mine, "\"5\""), (&mine, "6"), (&gateway.endpoint(), "5")] {
            session.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
        }
        assert_eq!(asked.join().unwrap().envelope()["bytes"], 4);
    });
    assert_eq!(home.lines("srv", "cancelled").len(), 0);
}

/// `srv` (stdio) or `web` (event stream) with these steps of progress and a `call_tool_timeout` of 1.5 seconds.
fn stepping(
    server: &str,
    steps: u32,
    every: u64,
    id_last: bool,
    more: &Value,
) -> (Home, Option<HttpUpstream>) {
    let then = Box::new(Action::Result(text_result("done")));
    let script = Script::action(Action::Progress(steps, every, then)).id_last(id_last);
    let mut keys = json!({"call_tool_timeout": "1500ms"});
    keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let home = testkit::home!().root("root");
    if server == "srv" {
        return (home.upstream_with("srv", script, keys), None);
    }
    let upstream = HttpUpstream::start(script, Form::Events);
    let entry = json!({"name": "web", "url": upstream.url()});
    (home.server(entry, keys), Some(upstream))
}

#[test]
fn progress_reaches_the_agent_under_its_own_token_and_restarts_the_timeout() {
    let tokens = [(false, "\"tok-1\""), (true, "7"), (false, "9007199254740993")];
    let cases: Vec<_> = ["srv", "web"].into_iter().flat_map(|server| tokens.map(|t| (server, t))).collect();
    side_by_side(&cases, |(server, (id_last, token))| {
        let (home, _web) = stepping(server, 4, 500, *id_last, &json!({}));
        let gateway = home.serve();
        let asks = format!(r#""_meta":{{"progressToken":{token}}}"#);
        let reply = gateway.call(&format!("{server}:tool")).param(&asks).send();
        assert_eq!(reply.first_text(), "done");
        assert_eq!(reply.messages.len(), 5, "{:#?}", reply.messages);
        for (number, message) in reply.messages[..4].iter().enumerate() {
            assert!(message.contains(&format!(r#""progressToken":{token}"#)), "{message}");
            let note: Value = serde_json::from_str(message).unwrap();
            assert_eq!(note["method"], "notifications/progress");
            assert_eq!(note["params"]["progress"], number + 1);
            assert_eq!(note["params"]["message"], format!("step {}", number + 1));
        }
    });
}

#[test]
fn progress_restarts_the_timeout_also_when_the_agent_does_not_ask_for_it() {
    side_by_side(&["srv", "web"], |server| {
        let (home, _web) = stepping(server, 4, 500, false, &json!({}));
        let gateway = home.serve();
        let reply = gateway.call(&format!("{server}:tool")).save(home.at("root/x")).send();
        assert_eq!(reply.envelope()["bytes"], 4);
        assert_eq!(reply.messages.len(), 1, "{:#?}", reply.messages);
    });
}

#[test]
fn without_progress_a_slow_call_ends_at_the_timeout_and_the_server_is_not_restarted() {
    each_wire(|form, id_last| {
        let (home, web) = slow_pair(4000, form, id_last);
        let home = home.set("call_tool_timeout", "1500ms");
        let gateway = home.serve();
        for server in ["srv", "web"] {
            let began = Instant::now();
            let call = gateway.call(&format!("{server}:tool")).save(home.at(&format!("root/{server}")));
            let text = call.send().refusal();
            let took = began.elapsed();
            assert!((1400..3800).contains(&took.as_millis()), "{server} took {took:?}");
            assert!(text.contains("call_tool_timeout") && text.contains(server), "{text}");
        }
        wait_for(|| (home.lines("srv", "cancelled").len() == 1 && web.cancelled().len() == 1).then_some(()));
        let note: Value = serde_json::from_str(&home.lines("srv", "cancelled")[0]).unwrap();
        assert_eq!(note["requestId"].to_string(), home.lines("srv", "ids")[0]);
        home.script("srv", &Script::text("quick").id_last(id_last));
        web.set(Script::text("quick").id_last(id_last));
        for server in ["srv", "web"] {
            assert_eq!(gateway.call(&format!("{server}:tool")).send().first_text(), "quick");
        }
        testkit::home::pause(2800);
        assert_eq!(std::fs::read_dir(home.at("root")).unwrap().count(), 0, "the late answer was saved");
        assert_eq!(home.lines("srv", "pids").len(), 1, "the process was restarted for one slow call");
        let rows = home.events("tool_call", 4);
        assert_eq!(rows.iter().filter(|r| r["reason"] == "upstream_timeout").count(), 2);
    });
}

#[test]
fn progress_does_not_go_on_for_ever() {
    side_by_side(&["srv", "web"], |server| {
        let (home, _web) = stepping(server, 40, 300, false, &json!({"call_tool_total_timeout": "2s"}));
        let gateway = home.serve();
        let began = Instant::now();
        let text = gateway.call(&format!("{server}:tool")).send().refusal();
        assert!((1900..5000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        assert!(text.contains("call_tool_total_timeout"), "{text}");
    });
}

#[test]
fn a_quick_answer_is_json_and_a_slow_one_an_event_stream() {
    let home = home_with_text();
    let gateway = home.serve();
    let kind = |reply: &testkit::Reply| reply.header("content-type").unwrap_or_default();
    let quick = gateway.call("srv:tool").send();
    assert!(kind(&quick).starts_with("application/json"), "{}", quick.head);
    home.script("srv", &Script::action(Action::After(1800, Box::new(Action::Result(text_result("slow"))))));
    let slow = gateway.call("srv:tool").send();
    assert!(kind(&slow).starts_with("text/event-stream"), "{}", slow.head);
    assert_eq!(slow.first_text(), "slow");
    assert_eq!(slow.header("x-request-id").unwrap().len(), 26);
    let params = gateway.call("srv:tool").params();
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let only_json = [("content-type", "application/json"), ("accept", "application/json")];
    let json = gateway.endpoint().http("POST", "/mcp", &only_json, body.as_bytes());
    assert!(kind(&json).starts_with("application/json"), "{}", json.head);
    assert_eq!(json.first_text(), "slow");
}

fn initialize(gateway: &Gateway, version: &str) -> testkit::Reply {
    let params = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}"#
    );
    gateway.endpoint().rpc("initialize", &params)
}

#[test]
fn the_revision_of_the_agent_is_spoken_if_it_is_known() {
    let home = home_with_text();
    let gateway = home.serve();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let reply = initialize(&gateway, version);
        let result = reply.result();
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "mcpproxy");
        assert!(result["capabilities"]["tools"].is_object(), "{result}");
        assert!(result["instructions"].as_str().unwrap().contains("retrieve_tools"), "{result}");
        let session = reply.header("mcp-session-id").unwrap();
        let endpoint =
            gateway.endpoint().with("mcp-session-id", &session).with("mcp-protocol-version", version);
        assert_eq!(
            endpoint.rpc("tools/list", "{}").result()["tools"].as_array().unwrap().len(),
            5,
            "{version}"
        );
        assert_eq!(endpoint.rpc("ping", "{}").result(), json!({}));
    }
    for version in ["1999-01-01", "2099-01-01", "latest", ""] {
        assert_eq!(initialize(&gateway, version).result()["protocolVersion"], "2025-11-25", "{version:?}");
    }
    let unknown = gateway.endpoint().with("mcp-protocol-version", "1999-01-01").rpc("tools/list", "{}");
    assert_eq!(unknown.status, 400, "{}", unknown.text());
}

fn error_code(reply: &testkit::Reply) -> Value {
    let message: Value =
        serde_json::from_slice(&reply.body).unwrap_or_else(|e| panic!("{e}: {}", reply.text()));
    assert!(!message["error"]["message"].as_str().unwrap().is_empty());
    message["error"]["code"].clone()
}

#[test]
fn what_is_asked_wrongly_is_told_by_the_right_code() {
    let home = home_with_text();
    let gateway = home.serve();
    let endpoint = gateway.endpoint();
    for method in ["nope", "resources/list", "prompts/list", "tools/nope"] {
        assert_eq!(error_code(&endpoint.rpc(method, "{}")), -32601, "{method}");
    }
    for name in ["nope", "srv:tool", "call_tool", "read_cache", "upstream_servers", ""] {
        assert_eq!(error_code(&endpoint.tool(name, "{}")), -32602, "{name}");
    }
    for params in ["{}", r#"{"name":5}"#, "[]"] {
        assert_eq!(error_code(&endpoint.rpc("tools/call", params)), -32602, "{params}");
    }
    let post = |body: &str| endpoint.http("POST", "/mcp", &POST, body.as_bytes());
    assert_eq!(error_code(&post("{")), -32700);
    for body in [
        "5",
        "[]",
        "{}",
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
    ] {
        assert_eq!(error_code(&post(body)), -32600, "{body}");
    }
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let home = home_with_text();
    let gateway = home.serve();
    for id in ["0", "-1", "9007199254740993", r#""""#, r#""a\"\u00e9""#] {
        let reply = gateway.call("srv:tool").send_as(id);
        assert_eq!(reply.first_text(), "hello");
        assert!(reply.messages[0].contains(&format!(r#""id":{id}"#)), "{}", reply.messages[0]);
    }
}

#[test]
fn other_methods_and_unknown_sessions_are_refused() {
    let home = home_with_text();
    let gateway = home.serve();
    let endpoint = gateway.endpoint();
    for method in ["PUT", "PATCH"] {
        let reply = endpoint.http(method, "/mcp", &[("accept", "text/event-stream")], b"");
        assert_eq!(reply.status, 405, "{method}");
        assert!(reply.header("allow").unwrap().contains("POST"), "{}", reply.head);
    }
    assert_eq!(endpoint.with("mcp-session-id", "nope").rpc("tools/list", "{}").status, 404);
    let session = endpoint.session("leaver");
    assert_eq!(session.rpc("tools/list", "{}").status, 200);
    assert!((200..300).contains(&session.http("DELETE", "/mcp", &[], b"").status));
    assert_eq!(session.rpc("tools/list", "{}").status, 404, "the session has ended");
    assert_eq!(endpoint.http("POST", "/mcp", &[("content-type", "text/plain"), POST[1]], b"{}").status, 415);
}

#[test]
fn the_menu_has_exactly_the_five_tools_and_says_where_to_save() {
    let (some, none) = (home_with_text(), testkit::home!());
    let with_root = some.serve();
    let without = none.serve();
    for path in ["/mcp", "/mcp/", "/mcp/call"] {
        let list = with_root.endpoint().rpc_at(path, "tools/list", "{}").result();
        let names: Vec<&str> =
            list["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        let five =
            ["call_tool_destructive", "call_tool_read", "call_tool_write", "describe_tool", "retrieve_tools"];
        assert_eq!(names, five, "{path}");
    }
    let about = |gateway: &Gateway, tool: usize| {
        let list = gateway.endpoint().rpc("tools/list", "{}").result();
        let tool = &list["tools"][tool];
        assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"], 500_000);
        for key in ["save_to_file", "save_format", "save_overwrite"] {
            assert!(tool["inputSchema"]["properties"][key].is_object(), "{key}");
            assert!(!tool["inputSchema"]["required"].as_array().unwrap().contains(&json!(key)), "{key}");
        }
        tool["inputSchema"]["properties"]["save_to_file"]["description"].as_str().unwrap().to_owned()
    };
    for tool in 0..3 {
        let text = about(&with_root, tool);
        assert!(text.contains(some.at("root").to_str().unwrap()), "{text}");
        let text = about(&without, tool);
        assert!(text.contains(r#""tool_output_roots": ["#), "{text}");
    }
}

#[test]
fn a_tool_is_found_described_and_called_by_the_variant_that_was_named() {
    let tools = vec![
        testkit::script::annotated("getUserById", r#"{"readOnlyHint":true}"#),
        testkit::script::annotated("drop_table", r#"{"destructiveHint":true}"#),
        r#"{"name":"set_name","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":false}}"#.into(),
    ];
    let home = crate::common::home_with(Script::text("x").tools(tools));
    let gateway = home.serve();
    for (query, name, variant) in [
        ("user", "srv:getUserById", "call_tool_read"),
        ("drop table", "srv:drop_table", "call_tool_destructive"),
        ("set name", "srv:set_name", "call_tool_write"),
    ] {
        let text = gateway.tool("retrieve_tools", &json!({"query": query}).to_string()).first_text();
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&found["tools"][0]["name"], &found["tools"][0]["call_with"]),
            (&name.into(), &variant.into())
        );
        let text =
            gateway.tool("describe_tool", &json!({"tool_ids": [name, "srv:nope"]}).to_string()).first_text();
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["definitions"][0]["name"], name);
        assert_eq!(told["errors"][0]["id"], "srv:nope");
        let with = found["tools"][0]["call_with"].as_str().unwrap();
        let reply = gateway.tool(with, &json!({"name": name, "args": {}}).to_string());
        assert_eq!(reply.first_text(), "x", "{name}");
    }
    assert_eq!(home.calls("srv"), 3);
}

#[test]
fn many_agents_at_once_get_their_own_answers() {
    each_wire(|form, id_last| {
        let upstream = HttpUpstream::start(Script::text("").id_last(id_last), form);
        let tools: Vec<String> = (0..8).map(|n| testkit::script::tool(&format!("t{n}"))).collect();
        let mut script = Script::text("").tools(tools).id_last(id_last);
        for n in 0..8 {
            let wait =
                Action::After(20 * (8 - n), Box::new(Action::Result(text_result(&format!("answer {n}")))));
            script = script.on(&format!("t{n}"), wait);
        }
        upstream.set(script.clone());
        let home = crate::common::home_with(script).http_upstream("web", &upstream);
        let gateway = home.serve();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let gateway = &gateway;
                scope.spawn(move || {
                    for server in ["srv", "web"] {
                        let call = gateway.call(&format!("{server}:t{n}"));
                        assert_eq!(call.send().first_text(), format!("answer {n}"), "{server}");
                    }
                });
            }
        });
    });
}

#[test]
fn an_answer_that_is_no_result_fails_the_call_at_once() {
    for form in FORMS {
        for result in ["5", "null", r#""text""#, "[]", r#"{"content":5}"#] {
            let message = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#);
            let upstream = HttpUpstream::start(Script::action(Action::Message(message)), form);
            let home = web_home(&upstream);
            let gateway = home.serve();
            let began = Instant::now();
            let text = gateway.call("web:tool").save(home.at("root/x")).send().refusal();
            assert!(began.elapsed() < Duration::from_secs(15), "{result}");
            assert!(text.contains("Nothing was delivered or saved"), "{result}: {text}");
            no_temporary(&home.at("root"));
            assert_eq!(home.events("tool_call", 1)[0]["reason"], "upstream_garbled", "{result}");
        }
    }
}

#[test]
fn a_save_that_fails_after_an_http_answer_sends_nothing_of_the_body() {
    let body = "secret body ".repeat(200);
    let home = crate::common::home(Action::Result(text_result(&body))).set("tool_output_max_bytes", 100);
    let gateway = home.serve();
    let text = failed_after(&home, gateway.call("srv:tool").save(home.at("root/x")), "save_too_large");
    assert!(!text.contains("secret body"), "{text}");
}
