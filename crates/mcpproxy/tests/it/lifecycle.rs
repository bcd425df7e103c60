//! Upstream processes: started once, watched, ended; every way in which one can misbehave, and that the others go on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::home::{alive, children, pause};
use testkit::script::{text_result, tool};
use testkit::{Action, Gateway, Home, Script};

use crate::common::wait_for;

const MIB: u64 = 1 << 20;

/// One root, the upstream `bad` with this script and these keys, and `good`, which must never be disturbed.
fn pair(bad: Script, keys: Value) -> Home {
    testkit::home!().root("root").upstream_with("bad", bad, keys).upstream("good", Script::text("fine"))
}

fn good(gateway: &Gateway) {
    assert_eq!(gateway.call("good:tool").send().first_text(), "fine");
}

fn pids(home: &Home, server: &str) -> Vec<u32> {
    home.lines(server, "pids").iter().map(|p| p.parse().unwrap()).collect()
}

/// What the refusal of an upstream that failed says: JSON that names the tool and the record.
fn failure(reply: &testkit::Reply) -> Value {
    let body: Value =
        serde_json::from_str(&reply.refusal()).unwrap_or_else(|e| panic!("{e}: {}", reply.first_text()));
    assert_eq!(body["server_name"], "bad", "{body}");
    assert!(!body["error"].as_str().unwrap().is_empty(), "{body}");
    assert_eq!(body["request_id"].as_str(), reply.header("x-request-id").as_deref());
    body
}

/// The newest row of a call to `bad`; rows are written just after the reply.
fn row_of_bad(home: &Home) -> Value {
    wait_for(|| home.activity(&["--type", "tool_call", "--server", "bad"]).into_iter().next())
}

fn gone_within(seconds: u64, pids: &[u32]) {
    assert!(!pids.is_empty());
    let until = Instant::now() + Duration::from_secs(seconds);
    while pids.iter().any(|pid| alive(*pid)) {
        let left: Vec<_> = pids.iter().filter(|pid| alive(**pid)).collect();
        assert!(Instant::now() < until, "{left:?} of {pids:?} are left");
        pause(20);
    }
}

#[test]
fn a_hanging_call_ends_in_time_and_does_not_stop_the_others() {
    for id_last in [false, true] {
        let home =
            pair(Script::action(Action::Hang).id_last(id_last), json!({"call_tool_timeout": "1500ms"}));
        let gateway = home.serve();
        std::thread::scope(|scope| {
            let began = Instant::now();
            let hanging = scope.spawn(|| gateway.call("bad:tool").save(home.at("root/x")).send());
            wait_for(|| (home.calls("bad") == 1).then_some(()));
            good(&gateway);
            assert!(!hanging.is_finished(), "the other server was held up");
            let body = failure(&hanging.join().unwrap());
            assert!(body["error"].as_str().unwrap().contains("call_tool_timeout"), "{body}");
            assert!((1400..5000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        });
        assert!(!home.at("root/x").exists());
        let row = row_of_bad(&home);
        assert_eq!((&row["reason"], &row["upstream_ran"]), (&"upstream_timeout".into(), &"unknown".into()));
        assert_eq!(pids(&home, "bad").len(), 1, "the process was restarted for one slow call");
    }
}

#[test]
fn a_process_that_ends_in_a_call_fails_that_call_and_is_started_again() {
    for action in [Action::Exit(3), Action::Exit(0), Action::Half(300_000), Action::Half(3)] {
        let home = pair(Script::action(action.clone()), json!({}));
        let gateway = home.serve();
        let began = Instant::now();
        failure(&gateway.call("bad:tool").save(home.at("root/x")).send());
        assert!(began.elapsed() < Duration::from_secs(10), "{action:?}");
        good(&gateway);
        assert!(!home.at("root/x").exists());
        let row = row_of_bad(&home);
        assert_eq!(
            (&row["reason"], &row["upstream_ran"]),
            (&"upstream_gone".into(), &"unknown".into()),
            "{action:?}"
        );
        home.script("bad", &Script::text("again"));
        assert_eq!(gateway.call("bad:tool").send().first_text(), "again", "{action:?}");
        assert_eq!(pids(&home, "bad").len(), 2, "{action:?}");
        gone_within(10, &pids(&home, "bad")[..1]);
        assert_eq!(home.calls("bad"), 2, "a call that may have run is not repeated");
    }
}

#[test]
fn a_process_that_is_killed_while_idle_is_there_again_for_the_next_call() {
    let home = pair(Script::text("again"), json!({}));
    let gateway = home.serve();
    for _ in 0..3 {
        testkit::home::signal(*pids(&home, "bad").last().unwrap(), "KILL");
        wait_for(|| (!gateway.call("bad:tool").send().is_error()).then_some(()));
    }
    good(&gateway);
}

#[test]
fn garbage_in_place_of_an_answer_fails_the_call_at_once_and_the_process_lives() {
    for result in
        [r#"{"content":[{"type":"text","text":NaN}]}"#, r#"{"content":[}"#, "5", "null", r#"{"content":"x"}"#]
    {
        for message in [
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#),
            format!(r#"{{"jsonrpc":"2.0","result":{result},"id":@ID@}}"#),
        ] {
            let home = pair(Script::action(Action::Message(message.clone())), json!({}));
            let gateway = home.serve();
            let began = Instant::now();
            gateway.call("bad:tool").save(home.at("root/x")).send().refusal();
            assert!(began.elapsed() < Duration::from_secs(10), "{message}");
            good(&gateway);
            assert!(!home.at("root/x").exists());
            let row = row_of_bad(&home);
            assert_eq!(row["reason"], "upstream_garbled", "{message}");
            home.script("bad", &Script::text("again"));
            assert_eq!(gateway.call("bad:tool").send().first_text(), "again");
            assert_eq!(pids(&home, "bad").len(), 1, "{message}");
        }
    }
}

const NOISE: [&str; 9] = [
    "Starting…",
    "",
    "{not json",
    "[1,2]",
    "\u{feff}",
    "\r",
    "{\"level\":\"info\",\"msg\":\"x\"}",
    "42",
    "\"id\":1,\"result\":{}",
];

#[test]
fn lines_that_are_no_messages_are_skipped() {
    for id_last in [false, true] {
        let mut script = Script::text("clean").id_last(id_last);
        script.noise = NOISE.iter().map(|line| (*line).to_owned()).collect();
        let home = pair(script, json!({}));
        let gateway = home.serve();
        for _ in 0..3 {
            assert_eq!(gateway.call("bad:tool").send().first_text(), "clean");
        }
        assert_eq!(pids(&home, "bad").len(), 1);
        good(&gateway);
    }
}

#[test]
fn lines_that_are_no_messages_are_counted_in_the_log_of_their_server() {
    let mut script = Script::text("clean");
    script.noise = NOISE.iter().map(|line| (*line).to_owned()).collect();
    let home = pair(script, json!({}));
    let gateway = home.serve();
    assert!(!gateway.call("bad:tool").send().is_error());
    let log = home.data().join("logs/server-bad.log");
    wait_for(|| std::fs::read_to_string(&log).unwrap().contains("no message").then_some(()));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_before_a_message_do_no_harm() {
    for message in [
        "{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}}\r",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]},\"id\":@ID@}",
        "  {\"id\" : @ID@ , \"result\" : {\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}, \"jsonrpc\":\"2.0\"}  \r",
    ] {
        let home = pair(Script::action(Action::Message(message.into())), json!({"call_tool_timeout": "5s"}));
        let gateway = home.serve();
        for _ in 0..2 {
            assert_eq!(gateway.call("bad:tool").send().first_text(), "ok", "{message:?}");
        }
    }
}

#[test]
fn answers_to_nobody_and_second_answers_do_no_harm() {
    let one =
        |id: &str, text: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, text_result(text));
    let message =
        [one("987654321", "stray"), one("\"x\"", "stray"), one("@ID@", "mine"), one("@ID@", "twice")]
            .join("\n");
    let home = pair(Script::action(Action::Message(message)), json!({}));
    let gateway = home.serve();
    for _ in 0..3 {
        assert_eq!(gateway.call("bad:tool").send().first_text(), "mine");
    }
}

#[test]
fn an_endless_line_fails_its_call_takes_no_memory_and_disturbs_nobody() {
    let keys = json!({"upstream_max_message_bytes": MIB, "call_tool_timeout": "20s"});
    let home = pair(Script::action(Action::Endless(64 * MIB)), keys);
    let gateway = home.serve();
    good(&gateway);
    let before = gateway.resident();
    std::thread::scope(|scope| {
        let endless = scope.spawn(|| gateway.call("bad:tool").save(home.at("root/x")).send());
        wait_for(|| (home.calls("bad") == 1).then_some(()));
        for _ in 0..5 {
            good(&gateway);
        }
        let body = failure(&endless.join().unwrap());
        let text = body["error"].as_str().unwrap();
        assert!(text.contains("upstream_max_message_bytes") || text.contains("1048576"), "{body}");
    });
    let grown = gateway.peak().saturating_sub(before);
    assert!(grown < 32 * MIB, "memory grew by {grown} bytes for an endless line");
    let row = row_of_bad(&home);
    assert_eq!(row["reason"], "upstream_too_large");
    home.script("bad", &Script::text("again"));
    wait_for(|| (!gateway.call("bad:tool").send().is_error()).then_some(()));
    good(&gateway);
}

#[test]
fn a_server_that_never_answers_initialize_is_told_by_the_status_and_holds_up_nobody() {
    let mut mute = Script::text("never");
    mute.mute = true;
    let home = pair(mute, json!({"init_timeout": "1s"}));
    let gateway = home.serve();
    let status = wait_for(|| Some(gateway.server("bad")).filter(|s| s["state"] == "failed"));
    assert!(status["detail"].as_str().unwrap().contains("initialize"), "{status}");
    assert_eq!((&status["connected"], &status["tool_count"]), (&false.into(), &0.into()));
    good(&gateway);
    let began = Instant::now();
    let body = failure(&gateway.call("bad:tool").send());
    assert!(body["error"].as_str().unwrap().contains("initialize"), "{body}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let row = row_of_bad(&home);
    assert_eq!((&row["reason"], &row["upstream_ran"]), (&"upstream_unavailable".into(), &"no".into()));
}

#[test]
fn a_slow_start_is_waited_for() {
    let mut slow = Script::text("at last");
    slow.slow_start_ms = 1500;
    let home = pair(slow, json!({}));
    let gateway = home.serve_cold();
    assert_eq!(gateway.call("bad:tool").send().first_text(), "at last");
    assert_eq!(pids(&home, "bad").len(), 1);
}

#[test]
fn a_command_that_cannot_run_is_named_by_the_status_and_by_the_call() {
    let not_executable = testkit::home!();
    std::fs::write(not_executable.at("plain"), "text").unwrap();
    for (entry, named) in [
        (json!({"name": "bad", "command": "no-such-command-anywhere"}), "no-such-command-anywhere"),
        (json!({"name": "bad", "command": not_executable.at("plain")}), "plain"),
        (json!({"name": "bad", "command": "true", "cwd": "/no/such/directory"}), "/no/such/directory"),
        (
            json!({"name": "bad", "command": "sh", "args": ["-c", "echo it is broken >&2; exit 7"]}),
            "it is broken",
        ),
        (
            json!({"name": "bad", "command": "true", "env": {"T": "${env:NOT_SET_ANYWHERE}"}}),
            "NOT_SET_ANYWHERE",
        ),
    ] {
        let home = testkit::home!().server(entry, json!({})).upstream("good", Script::text("fine"));
        let gateway = home.serve();
        // Between two attempts it is connecting again.
        let status = wait_for(|| Some(gateway.server("bad")).filter(|s| s["state"] == "failed"));
        assert!(status["detail"].as_str().unwrap().contains(named), "{named}: {status}");
        let body = failure(&gateway.call("bad:tool").send());
        assert!(body["error"].as_str().unwrap().contains(named), "{named}: {body}");
        good(&gateway);
    }
}

#[test]
fn twenty_calls_at_once_on_a_cold_gateway_start_one_process() {
    for id_last in [false, true] {
        let mut script = Script::text("hello").id_last(id_last);
        script.slow_start_ms = 400;
        let home = testkit::home!().upstream("srv", script);
        let gateway = home.serve_cold();
        let at_once = || {
            std::thread::scope(|scope| {
                let calls: Vec<_> =
                    (0..20).map(|_| scope.spawn(|| gateway.call("srv:tool").send())).collect();
                calls
                    .into_iter()
                    .filter(|_| true)
                    .map(|c| c.join().unwrap())
                    .filter(|r| r.first_text() == "hello")
                    .count()
            })
        };
        assert_eq!(at_once(), 20);
        assert_eq!(pids(&home, "srv").len(), 1);
        testkit::home::signal(pids(&home, "srv")[0], "KILL");
        wait_for(|| (!alive(pids(&home, "srv")[0])).then_some(()));
        wait_for(|| (gateway.server("srv")["pid"] != pids(&home, "srv")[0]).then_some(()));
        assert_eq!(at_once(), 20);
        assert_eq!(pids(&home, "srv").len(), 2, "one new process");
    }
}

fn found(gateway: &Gateway, query: &str) -> Vec<String> {
    let text =
        gateway.tool("retrieve_tools", &json!({"query": query, "limit": 100}).to_string()).first_text();
    let reply: Value = serde_json::from_str(&text).unwrap();
    let mut names: Vec<String> =
        reply["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_page_of_the_tools_is_read() {
    for id_last in [false, true] {
        let tools: Vec<String> = (0..44).map(|n| tool(&format!("t{n:02}"))).collect();
        let mut script = Script::text("ok").tools(tools).id_last(id_last);
        script.page = 20;
        let home = testkit::home!().upstream("srv", script);
        let gateway = home.serve();
        assert_eq!(gateway.server("srv")["tool_count"], 44);
        let expected: Vec<String> = (0..44).map(|n| format!("srv:t{n:02}")).collect();
        assert_eq!(found(&gateway, "scripted"), expected);
        for name in ["srv:t00", "srv:t19", "srv:t20", "srv:t43"] {
            assert_eq!(gateway.call(name).send().first_text(), "ok", "{name}");
        }
    }
}

#[test]
fn one_bad_tool_does_not_lose_the_others() {
    let tools = vec![
        tool("first"),
        r#"{"name":5,"inputSchema":{"type":"object"}}"#.into(),
        r#""just text""#.into(),
        r#"{"description":"no name","inputSchema":{}}"#.into(),
        r##"{"name":"dangling","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/Missing"}}}}"##.into(),
        r#"{"name":"no_schema"}"#.into(),
        r#"{"name":"odd_schema","inputSchema":5}"#.into(),
        tool("last"),
    ];
    let home = testkit::home!().upstream("srv", Script::text("ok").tools(tools));
    let gateway = home.serve();
    for name in ["first", "dangling", "last", "no_schema"] {
        let text = gateway.tool("describe_tool", &format!(r#"{{"tool_ids":["srv:{name}"]}}"#)).first_text();
        assert!(text.contains(&format!(r#""name":"srv:{name}""#)), "{name} is not described: {text}");
        let reply = gateway.call(&format!("srv:{name}")).args(r#"{"a":1}"#).send();
        assert_eq!(reply.first_text(), "ok", "{name}");
    }
}

#[test]
fn a_changed_list_of_tools_is_read_again() {
    for id_last in [false, true] {
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, text_result("told"));
        let script = Script::action(Action::Message([changed.into(), answer].join("\n"))).id_last(id_last);
        let home = testkit::home!().upstream("srv", script.clone());
        let gateway = home.serve();
        assert!(gateway.call("srv:new").send().is_error());
        home.script("srv", &script.tools(vec![tool("new"), tool("newer")]));
        assert_eq!(gateway.call("srv:tool").send().first_text(), "told");
        wait_for(|| (!gateway.call("srv:new").send().is_error()).then_some(()));
        assert_eq!(found(&gateway, "scripted"), ["srv:new", "srv:newer"]);
        assert!(gateway.call("srv:tool").send().is_error(), "a tool that is listed no more");
        assert_eq!(pids(&home, "srv").len(), 1);
    }
}

/// A server that ignores every polite signal and never speaks; its own pid is in the file.
fn stubborn(home: Home) -> Home {
    let file = home.at("stubborn");
    let script = format!("trap '' TERM HUP INT; echo $$ > {}; while :; do sleep 1; done", file.display());
    home.server(
        json!({"name": "stubborn", "command": "sh", "args": ["-c", script], "init_timeout": "1s"}),
        json!({}),
    )
}

/// Everything that a gateway with these servers started.
fn descendants(home: &Home, gateway: &Gateway) -> Vec<u32> {
    let stubborn = wait_for(|| std::fs::read_to_string(home.at("stubborn")).ok()?.trim().parse::<u32>().ok());
    let grandchild: u32 = wait_for(|| home.lines("srv", "grandchild").first()?.parse().ok());
    let mut all = children(gateway.pid());
    all.extend(pids(home, "srv"));
    all.extend([stubborn, grandchild]);
    assert!(all.iter().all(|pid| alive(*pid)), "{all:?}");
    all
}

#[test]
fn no_process_is_left_when_the_gateway_ends_or_is_killed() {
    for kill in [false, true] {
        let mut script = Script::text("hello");
        script.grandchild = true;
        let home = stubborn(testkit::home!().upstream("srv", script));
        // Not waited for until it is ready: the stubborn one would be ended and started again meanwhile.
        let gateway = home.serve_cold();
        let all = descendants(&home, &gateway);
        if kill {
            gateway.kill();
        } else {
            assert_eq!(gateway.stop(), Some(0));
        }
        gone_within(10, &all);
        let mut started = pids(&home, "srv");
        started.extend(home.lines("srv", "grandchild").iter().map(|p| p.parse::<u32>().unwrap()));
        started.push(std::fs::read_to_string(home.at("stubborn")).unwrap().trim().parse().unwrap());
        gone_within(10, &started);
    }
}

#[test]
fn no_process_is_left_when_a_wrapper_ends_before_what_it_started() {
    let mut script = Script::action(Action::Exit(0));
    script.grandchild = true;
    let home = pair(script, json!({}));
    let gateway = home.serve();
    let grandchild: u32 = wait_for(|| home.lines("bad", "grandchild").first()?.parse().ok());
    failure(&gateway.call("bad:tool").send());
    gone_within(10, &[pids(&home, "bad")[0], grandchild]);
    good(&gateway);
}

fn environment(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    bytes
        .split(|b| *b == 0)
        .filter(|v| !v.is_empty())
        .map(|v| String::from_utf8_lossy(v).into_owned())
        .collect()
}

#[test]
fn a_child_gets_what_its_entry_names_and_no_secret_of_ours() {
    let (key, token) = ("k".repeat(40), testkit::secrets::token());
    let keys =
        json!({"env": {"TOKEN": "${env:UPSTREAM_TOKEN}", "PLAIN": "1", "MIXED": "a-${env:PLAIN_PART}-b"}});
    let home = testkit::home!()
        .env("MCPPROXY_API_KEY", &key)
        .env("UPSTREAM_TOKEN", &token)
        .env("PLAIN_PART", "mid")
        .env("AWS_SECRET_ACCESS_KEY", "aws-secret")
        .env("MCPPROXY_MASTER_KEY", "master-secret")
        .upstream_with("srv", Script::text("ok"), keys);
    let gateway = home.serve();
    let child = environment(pids(&home, "srv")[0]);
    for expected in [format!("TOKEN={token}"), "PLAIN=1".into(), "MIXED=a-mid-b".into()] {
        assert!(child.contains(&expected), "{expected} is not in {child:?}");
    }
    assert!(
        child.iter().any(|v| v.starts_with("PATH=")) && child.iter().any(|v| v.starts_with("HOME=")),
        "{child:?}"
    );
    for secret in
        [key.as_str(), "aws-secret", "master-secret", &home.data().join("api_key").display().to_string()]
    {
        assert!(child.iter().all(|v| !v.contains(secret)), "{secret} reached the child");
    }
    for name in ["MCPPROXY_API_KEY=", "UPSTREAM_TOKEN=", "AWS_", "MCPPROXY_CONFIG="] {
        assert!(child.iter().all(|v| !v.starts_with(name)), "{name} reached the child");
    }
    assert!(!gateway.log().contains(&token), "the token is in the log");
    for pid in children(gateway.pid()) {
        assert!(environment(pid).iter().all(|v| !v.contains(&key)), "a child of ours has the key");
    }
}

#[test]
fn a_server_that_is_held_or_off_is_not_started_and_the_status_says_so() {
    for (keys, state, reason) in [
        (json!({"quarantined": true}), "quarantined", "server_quarantined"),
        (json!({"enabled": false}), "disabled", "tool_not_callable"),
        (json!({"disabled": true}), "disabled", "tool_not_callable"),
    ] {
        let home = pair(Script::text("never"), keys);
        let gateway = home.serve();
        let status = gateway.server("bad");
        assert_eq!(status["state"], state, "{status}");
        assert!(!status["detail"].as_str().unwrap().is_empty(), "{status}");
        let text = gateway.call("bad:tool").save(home.at("root/x")).send().refusal();
        assert!(text.contains("bad"), "{text}");
        good(&gateway);
        assert!(found(&gateway, "scripted").iter().all(|name| name.starts_with("good:")));
        assert!(home.lines("bad", "pids").is_empty(), "it was started");
        assert!(!home.at("root/x").exists());
        let row = row_of_bad(&home);
        assert_eq!((&row["status"], &row["reason"]), (&"blocked".into(), &reason.into()));
        assert_eq!(home.events("policy_decision", 1)[0]["reason"], reason);
    }
}

#[test]
fn tools_that_the_entry_denies_are_neither_found_nor_called() {
    let tools = vec![tool("yes"), tool("no")];
    for keys in [json!({"disabled_tools": ["no"]}), json!({"enabled_tools": ["yes"]})] {
        let home = testkit::home!().upstream_with("srv", Script::text("ok").tools(tools.clone()), keys);
        let gateway = home.serve();
        assert_eq!(found(&gateway, "scripted"), ["srv:yes"]);
        assert!(!gateway.call("srv:yes").send().is_error());
        for variant in ["call_tool_read", "call_tool_write", "call_tool_destructive"] {
            let text = gateway.call("srv:no").variant(variant).send().refusal();
            assert!(text.contains("enabled_tools/disabled_tools"), "{text}");
        }
        assert_eq!(home.calls("srv"), 1);
        let text = gateway.tool("describe_tool", r#"{"tool_ids":["srv:no"]}"#).first_text();
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["definitions"], json!([]), "{text}");
    }
}

#[test]
fn arguments_that_the_upstream_refuses_carry_its_schema_back() {
    for id_last in [false, true] {
        let script =
            Script::action(Action::Error(r#"{"code":-32602,"message":"zone must be known"}"#.into()));
        let schema = r#"{"type":"object","properties":{"zone":{"type":"string"}}}"#;
        let listed = format!(r#"{{"name":"tool","inputSchema":{schema}}}"#);
        let home = pair(script.tools(vec![listed]).id_last(id_last), json!({}));
        let gateway = home.serve();
        let reply = gateway.call("bad:tool").args(r#"{"zone":"?"}"#).send();
        let body: Value = serde_json::from_str(&reply.refusal()).unwrap();
        assert_eq!(body["error_type"], "invalid_params");
        assert!(body["error"].as_str().unwrap().contains("zone must be known"), "{body}");
        assert_eq!(body["input_schema"], serde_json::from_str::<Value>(schema).unwrap());
        let row = &home.events("tool_call", 1)[0];
        assert_eq!((&row["reason"], &row["upstream_ran"]), (&"invalid_arguments".into(), &"yes".into()));
    }
}

#[test]
fn other_errors_of_the_upstream_become_text_with_their_code() {
    for (error, code) in [
        (r#"{"code":-32000,"message":"boom \u00e9","data":{"n":1e45}}"#, -32000),
        (r#"{"message":"boom é","code":-32603}"#, -32603),
        (r#"{"code":42,"message":"boom é","data":"text"}"#, 42),
        (r#"{"code":-32601,"message":"boom é"}"#, -32601),
    ] {
        let home = pair(Script::action(Action::Error(error.into())), json!({}));
        let gateway = home.serve();
        let body = failure(&gateway.call("bad:tool").save(home.at("root/x")).send());
        assert_eq!((&body["error"], &body["error_code"]), (&"boom é".into(), &code.into()));
        assert_eq!(body["tool_name"], "tool");
        if error.contains("data") {
            assert!(!body["error_data"].is_null(), "{body}");
        }
        let row = &home.events("tool_call", 1)[0];
        let ended = (&row["status"], &row["reason"], &row["message"], &row["upstream_ran"]);
        assert_eq!(ended, (&"error".into(), &"upstream_error".into(), &"boom é".into(), &"yes".into()));
        assert!(!home.at("root/x").exists());
    }
}

#[test]
fn what_a_server_says_on_stderr_is_in_its_log_closed_to_others() {
    let script = "echo one line >&2; echo password prompt >&2; exit 1";
    let home =
        testkit::home!().server(json!({"name": "a/b c", "command": "sh", "args": ["-c", script]}), json!({}));
    let gateway = home.serve();
    wait_for(|| (gateway.server("a/b c")["state"] == "failed").then_some(()));
    let logs: Vec<_> =
        std::fs::read_dir(home.data().join("logs")).unwrap().map(|e| e.unwrap().path()).collect();
    let log = logs.iter().find(|p| p.file_name().unwrap().to_string_lossy().starts_with("server-")).unwrap();
    assert!(std::fs::read_to_string(log).unwrap().contains("one line"));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn calls_side_by_side_and_while_a_gateway_starts_all_arrive() {
    let home = crate::common::home_with_text();
    let call = |home: &Home| home.run(&["call", "tool-read", "--tool-name", "srv:tool"]);
    home.write_config();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| call(&home))).collect();
        for output in calls.into_iter().map(|c| c.join().unwrap()) {
            assert_eq!((output.code, output.stdout.trim_end()), (0, "hello"), "{}", output.stderr);
        }
        let calls: Vec<_> = (0..4)
            .map(|n| {
                let home = &home;
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(15 * n));
                    call(home)
                })
            })
            .collect();
        let gateway = home.serve_cold();
        for output in calls.into_iter().map(|c| c.join().unwrap()) {
            assert_eq!((output.code, output.stdout.trim_end()), (0, "hello"), "{}", output.stderr);
        }
        drop(gateway);
    });
}
