//! The record: exactly one closed row for every call, however it ended, and nothing kept twice.

use std::process::Command;

use serde_json::{Value, json};
use testkit::home::pause;
use testkit::script::{annotated, text_result, tool};
use testkit::{Action, CallBuilder, Gateway, Home, Reply, Script};

use crate::common::{home_with, home_with_text, wait_for};

/// An upstream with one tool for every way in which a call can end.
fn all_endings() -> Script {
    let slow = Box::new(Action::Result(text_result("late")));
    let names = ["ok", "tool_error", "rpc_error", "bad_arguments", "hang", "garbled", "slow", "image"];
    let mut tools: Vec<String> = names.iter().map(|name| tool(name)).collect();
    tools.push(annotated("destroy", r#"{"destructiveHint":true}"#));
    Script::text("fine")
        .tools(tools)
        .on(
            "tool_error",
            Action::Result(r#"{"isError":true,"content":[{"type":"text","text":"bad zone"}]}"#.into()),
        )
        .on("rpc_error", Action::Error(r#"{"code":-32000,"message":"boom"}"#.into()))
        .on("bad_arguments", Action::Error(r#"{"code":-32602,"message":"no such zone"}"#.into()))
        .on("hang", Action::Hang)
        .on("garbled", Action::Message(r#"{"jsonrpc":"2.0","id":@ID@,"result":5}"#.into()))
        .on("slow", Action::After(1500, slow))
        .on(
            "image",
            Action::Result(r#"{"content":[{"type":"image","data":"AAAA","mimeType":"a/b"}]}"#.into()),
        )
}

fn endings_home() -> Home {
    home_with(all_endings()).set("call_tool_timeout", "2s")
}

/// The one row of a type that a request has.
fn the_row(home: &Home, kind: &str, id: &str) -> Value {
    wait_for(|| (!rows(home, kind, id).is_empty()).then_some(()));
    let rows = rows(home, kind, id);
    assert_eq!(rows.len(), 1, "{rows:#?}");
    rows[0].clone()
}

fn rows(home: &Home, kind: &str, id: &str) -> Vec<Value> {
    home.activity(&["--type", kind, "--request-id", id])
}

fn request_id(reply: &Reply) -> String {
    let id = reply.header("x-request-id").unwrap_or_else(|| panic!("no request id in {}", reply.head));
    assert_eq!(id.len(), 26, "a ULID");
    id
}

#[test]
fn every_way_in_which_a_call_ends_leaves_exactly_one_closed_row() {
    let home = endings_home();
    let gateway = home.serve();
    let call = |name: &str| gateway.call(&format!("srv:{name}"));
    let root = |name: &str| home.at(&format!("root/{name}"));
    let endings: Vec<(CallBuilder, &str, Option<&str>, &str)> = vec![
        (call("ok"), "success", None, "yes"),
        (call("ok").save(root("x")), "success", None, "yes"),
        (call("tool_error"), "error", Some("tool_error"), "yes"),
        (call("tool_error").save(root("e")), "error", Some("tool_error"), "yes"),
        (call("rpc_error"), "error", Some("upstream_error"), "yes"),
        (call("bad_arguments"), "error", Some("invalid_arguments"), "yes"),
        (call("hang"), "error", Some("upstream_timeout"), "unknown"),
        (call("garbled"), "error", Some("upstream_garbled"), "yes"),
        (call("image").save(root("i")), "error", Some("save_no_text"), "yes"),
        (call("ok").save("/etc/x"), "blocked", Some("save_outside"), "no"),
        (call("ok").save(root("x")), "blocked", Some("save_exists"), "no"),
        (call("ok").member(r#""save_format":"text""#), "blocked", Some("save_arguments"), "no"),
        (call("destroy"), "blocked", Some("intent_rejected"), "no"),
        (call("nope"), "blocked", Some("unknown_tool"), "no"),
        (call("ok").member(r#""args_json":"{""#), "error", Some("invalid_arguments"), "no"),
        (call("ok").member(r#""intent_data_sensitivity":"loud""#), "blocked", Some("intent_rejected"), "no"),
    ];
    let count = endings.len();
    let mut decisions = 0;
    for (call, status, reason, ran) in endings {
        let asked = call.params();
        let reply = call.send();
        let id = request_id(&reply);
        let row = the_row(&home, "tool_call", &id);
        assert_eq!(row["status"], status, "{asked}: {row}");
        assert_eq!(row["reason"].as_str(), reason, "{asked}: {row}");
        assert_eq!(row["upstream_ran"], ran, "{asked}: {row}");
        assert_eq!(row["message"].is_string(), status != "success", "{row}");
        assert!(row["duration_us"].as_u64().unwrap() > 0, "{row}");
        let judged = rows(&home, "policy_decision", &id);
        assert_eq!(judged.len(), usize::from(status == "blocked"), "{asked}: {judged:#?}");
        for decision in judged {
            decisions += 1;
            assert_eq!((&decision["status"], &decision["reason"]), (&row["status"], &row["reason"]));
            assert_eq!((&decision["server"], &decision["tool"]), (&row["server"], &row["tool"]));
            assert_eq!(decision["session"], row["session"]);
        }
    }
    assert_eq!(home.events("tool_call", count).len(), count);
    assert_eq!(home.events("policy_decision", decisions).len(), decisions);
    assert_eq!(home.events("internal_tool_call", 0).len(), 0, "no twin");
}

#[test]
fn a_row_names_its_tool_however_early_the_call_was_refused() {
    let home = endings_home();
    let gateway = home.serve();
    for member in [
        r#""save_format":"text""#,
        r#""save_to_file":5"#,
        r#""args_json":"{""#,
        r#""args":[]"#,
        r#""intent_data_sensitivity":"loud""#,
        r#""intent_reason":5"#,
    ] {
        let id = request_id(&gateway.call("srv:ok").member(member).send());
        let row = the_row(&home, "tool_call", &id);
        assert_eq!((&row["server"], &row["tool"]), (&"srv".into(), &"ok".into()), "{member}: {row}");
    }
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn a_row_says_who_called_what_with_which_arguments_and_how_large_it_was() {
    let home = endings_home();
    let gateway = home.serve();
    let session = gateway.endpoint().session("Client é");
    let mut sessions = Vec::new();
    for endpoint in [&session, &session, &gateway.endpoint().session("other")] {
        let call =
            CallBuilder::new(endpoint.clone(), "srv:ok").variant("call_tool_write").args(r#"{"n":1e45}"#);
        let call =
            call.member(r#""intent_reason":"to see""#).member(r#""intent_data_sensitivity":"internal""#);
        let params = call.params();
        let reply = call.send();
        let row = the_row(&home, "tool_call", &request_id(&reply));
        assert_eq!(
            (&row["server"], &row["tool"], &row["variant"]),
            (&"srv".into(), &"ok".into(), &"write".into())
        );
        assert_eq!((&row["source"], &row["caller"]), (&"mcp".into(), &"local".into()));
        assert_eq!(row["arguments"], r#"{"n":1e45}"#);
        assert_eq!(
            (&row["intent_reason"], &row["intent_sensitivity"]),
            (&"to see".into(), &"internal".into())
        );
        let arguments = params.split_once(r#""arguments":"#).unwrap().1;
        assert_eq!(row["request_bytes"], arguments.len() - 1);
        assert_eq!(row["response_bytes"], reply.raw_result().len());
        assert_eq!(row["response"], reply.raw_result());
        assert_eq!(row["client_version"], "1.2.3");
        sessions.push((
            row["session"].as_str().unwrap().to_owned(),
            row["client_name"].as_str().unwrap().to_owned(),
        ));
    }
    assert_eq!(sessions[0], sessions[1]);
    assert_ne!(sessions[0].0, sessions[2].0);
    assert_eq!((sessions[0].1.as_str(), sessions[2].1.as_str()), ("Client é", "other"));
}

#[test]
fn a_call_that_is_taken_back_is_cancelled_in_its_row() {
    for save in [false, true] {
        let home = endings_home();
        let gateway = home.serve();
        let session = gateway.endpoint().session("canceller");
        let mut call = CallBuilder::new(session.clone(), "srv:slow");
        if save {
            call = call.save(home.at("root/x"));
        }
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| call.send_as("9"));
            wait_for(|| (home.calls("srv") == 1).then_some(()));
            session.notify("notifications/cancelled", r#"{"requestId":9}"#);
            asked.join().unwrap();
        });
        let row = &home.events("tool_call", 1)[0];
        assert_eq!((&row["status"], &row["reason"]), (&"cancelled".into(), &"cancelled".into()));
        assert!(["yes", "unknown"].contains(&row["upstream_ran"].as_str().unwrap()), "{row}");
        pause(1700);
        assert_eq!(home.events("tool_call", 1).len(), 1, "the late answer made a second row");
        assert!(!home.at("root/x").exists());
    }
}

#[test]
fn a_client_that_goes_away_changes_nothing_the_file_is_saved_and_the_record_closed() {
    for wait in [0, 1200] {
        let home = endings_home();
        let gateway = home.serve();
        let path = home.at("root/x");
        let stream = gateway.endpoint().send_only(&gateway.call("srv:slow").save(&path).params());
        wait_for(|| (home.calls("srv") == 1).then_some(()));
        pause(wait);
        drop(stream);
        wait_for(|| path.exists().then_some(()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "late");
        let row = &home.events("tool_call", 1)[0];
        assert_eq!((&row["status"], &row["saved_to"]), (&"success".into(), &path.to_str().unwrap().into()));
        assert_eq!(home.lines("srv", "cancelled").len(), 0, "a lost connection is no cancellation");
    }
}

#[test]
fn a_call_in_flight_at_kill_minus_nine_is_abandoned_in_one_row_at_the_next_start() {
    let later = Action::After(60_000, Box::new(Action::Result(text_result("never"))));
    let home = home_with(
        Script::action(later)
            .tools(vec![tool("tool"), tool("quick")])
            .on("quick", Action::Result(text_result("q"))),
    );
    let gateway = home.serve();
    assert!(!gateway.call("srv:quick").send().is_error());
    home.events("tool_call", 1);
    let endpoint = gateway.endpoint();
    let params = gateway.call("srv:tool").save(home.at("root/x")).args(r#"{"a":1}"#).params();
    let reply = std::thread::scope(|scope| {
        let asked = scope.spawn(|| endpoint.rpc("tools/call", &params));
        wait_for(|| (home.calls("srv") == 2).then_some(()));
        // By now the event stream has begun, and with it the header that names the request.
        pause(1800);
        gateway.kill();
        asked.join().unwrap()
    });
    let id = request_id(&reply);
    for round in 0..2 {
        let gateway = home.serve();
        let row = the_row(&home, "tool_call", &id);
        assert_eq!((&row["status"], &row["upstream_ran"]), (&"abandoned".into(), &"unknown".into()), "{row}");
        assert_eq!(
            (&row["server"], &row["tool"], &row["variant"]),
            (&"srv".into(), &"tool".into(), &"read".into())
        );
        assert_eq!(home.events("tool_call", 2).len(), 2, "round {round}");
        assert_eq!(home.events("system_start", 2 + round).len(), 2 + round);
        assert_eq!(std::fs::read_dir(home.at("root")).unwrap().count(), 0, "something is left in the root");
        assert_eq!(gateway.stop(), Some(0));
    }
}

#[test]
fn looking_for_tools_leaves_rows_of_its_own() {
    let home = home_with_text();
    let gateway = home.serve();
    let found = gateway.tool("retrieve_tools", r#"{"query":"scripted"}"#);
    let told = gateway.tool("describe_tool", r#"{"tool_ids":["srv:tool"]}"#);
    let wrong = gateway.tool("describe_tool", "{}");
    for (reply, name, status) in [
        (&found, "retrieve_tools", "success"),
        (&told, "describe_tool", "success"),
        (&wrong, "describe_tool", "error"),
    ] {
        let row = the_row(&home, "internal_tool_call", &request_id(reply));
        assert_eq!((&row["tool"], &row["status"]), (&name.into(), &status.into()), "{row}");
        assert_eq!(row["response_bytes"].is_number(), status == "success", "{row}");
    }
    assert_eq!(home.events("internal_tool_call", 3).len(), 3);
    assert_eq!(home.events("tool_call", 0).len(), 0);
}

/// Whether any file beneath the data directory holds these bytes.
fn is_kept(home: &Home, needle: &str) -> bool {
    let mut waiting = vec![home.data()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else if path.is_file()
            && std::fs::read(&path).unwrap().windows(needle.len()).any(|w| w == needle.as_bytes())
        {
            return true;
        }
    }
    false
}

#[test]
fn the_body_of_a_saved_call_is_not_kept_a_second_time() {
    for bytes in [40_000, 3_000_000] {
        let home = home_with(Script::action(Action::Generate(bytes)));
        let gateway = home.serve();
        let path = home.at("root/x");
        let envelope = gateway.call("srv:tool").save(&path).send().envelope();
        let row = home.events("tool_call", 1)[0].clone();
        assert_eq!((&row["response"], &row["response_truncated"]), (&envelope["preview"], &true.into()));
        for (column, key) in
            [("path", "saved_to"), ("bytes", "bytes"), ("sha256", "sha256"), ("format", "format")]
        {
            assert_eq!(row["saved"][column], envelope[key], "{column}");
        }
        assert!(row["response_bytes"].as_u64().unwrap() > bytes, "{row}");
        assert_eq!(gateway.stop(), Some(0));
        assert!(is_kept(&home, "line 000000000002"), "the preview is kept, so the search works");
        assert!(!is_kept(&home, "line 000000000300"), "the body of {bytes} bytes is kept");
    }
}

#[test]
fn a_forwarded_answer_is_kept_up_to_its_bound_only() {
    let home = home_with(Script::action(Action::Generate(40_000))).set("activity_max_response_size", 1000);
    let gateway = home.serve();
    let whole = gateway.call("srv:tool").send();
    let row = &home.events("tool_call", 1)[0];
    assert_eq!(row["response_truncated"], true);
    let kept = row["response"].as_str().unwrap();
    assert!(kept.len() <= 1000 && whole.raw_result().starts_with(kept), "{} bytes", kept.len());
}

#[test]
fn the_database_can_be_read_with_other_tools_while_we_run() {
    let home = home_with_text();
    let gateway = home.serve();
    assert!(!gateway.call("srv:tool").send().is_error());
    home.events("tool_call", 1);
    let script = "import sqlite3,sys\ndb=sqlite3.connect('file:'+sys.argv[1]+'?mode=ro',uri=True)\n\
        print(db.execute(\"select server,tool,status,upstream_ran from events where type='tool_call'\").fetchall())\n\
        print(db.execute('pragma integrity_check').fetchone()[0])";
    let output = Command::new("python3").args(["-c", script]).arg(home.data().join("mcpproxy.db")).output();
    let Ok(output) = output else {
        println!("skipped: no python3 to read the database with");
        return;
    };
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.trim(), "[('srv', 'tool', 'success', 'yes')]\nok", "{error}");
    assert!(!gateway.call("srv:tool").send().is_error());
    home.events("tool_call", 2);
}

#[test]
fn messages_are_at_most_512_bytes_and_split_no_character() {
    let long = format!("é{}", "€".repeat(4000));
    let tool_error =
        Action::Result(format!(r#"{{"isError":true,"content":[{{"type":"text","text":"{long}"}}]}}"#));
    let rpc_error = Action::Error(format!(r#"{{"code":-32000,"message":"{long}"}}"#));
    for action in [tool_error, rpc_error] {
        let home = home_with(Script::action(action));
        let gateway = home.serve();
        gateway.call("srv:tool").send().refusal();
        let row = &home.events("tool_call", 1)[0];
        let message = row["message"].as_str().unwrap();
        assert!(message.len() <= 512 && message.len() > 500, "{} bytes", message.len());
        assert!(long.starts_with(message), "{message}");
        assert_eq!(row["error_message"], row["message"]);
    }
}

#[test]
fn start_and_stop_leave_a_row_each() {
    let home = home_with_text();
    for round in 1..3 {
        assert_eq!(home.serve().stop(), Some(0));
        for kind in ["system_start", "system_stop"] {
            let rows = home.events(kind, round);
            assert_eq!((&rows[0]["source"], &rows[0]["status"]), (&"internal".into(), &"success".into()));
        }
    }
}

#[test]
fn a_stop_during_a_call_still_closes_its_row() {
    let home = endings_home();
    let gateway = home.serve();
    let stream = gateway.endpoint().send_only(&gateway.call("srv:slow").params());
    wait_for(|| (home.calls("srv") == 1).then_some(()));
    assert_eq!(gateway.stop(), Some(0));
    drop(stream);
    let row = &home.events("tool_call", 1)[0];
    assert_ne!(row["status"], "abandoned", "an orderly end abandons nothing: {row}");
}

#[test]
fn of_many_calls_at_once_none_is_lost() {
    let home = home_with_text();
    let gateway = home.serve();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..40).for_each(|_| assert!(!gateway.call("srv:tool").send().is_error())));
        }
    });
    let rows = home.events("tool_call", 320);
    let mut ids: Vec<&str> = rows.iter().map(|r| r["request_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 320);
    assert_eq!(home.calls("srv"), 320);
}

/// What each door writes down for the same call.
fn source_and_caller(home: &Home, gateway: Option<&Gateway>, endpoint_key: bool) -> (String, String) {
    match gateway {
        Some(gateway) if endpoint_key => {
            let keyed = gateway.endpoint().with("x-api-key", &home.api_key());
            CallBuilder::new(keyed, "srv:tool").send().first_text();
        }
        _ => assert_eq!(home.run(&["call", "tool-read", "--tool-name", "srv:tool"]).code, 0),
    }
    let row = wait_for(|| home.activity(&["--type", "tool_call", "-n", "1"]).into_iter().next());
    (row["source"].as_str().unwrap().to_owned(), row["caller"].as_str().unwrap().to_owned())
}

#[test]
fn the_door_is_in_the_row() {
    let text = |source: &str, caller: &str| (source.to_owned(), caller.to_owned());
    let home = home_with_text();
    assert_eq!(source_and_caller(&home, None, false).0, "cli", "standalone");
    let gateway = home.serve();
    assert_eq!(source_and_caller(&home, Some(&gateway), false), text("cli", "socket"));
    wait_for(|| (home.activity(&["--type", "tool_call"]).len() == 2).then_some(()));
    source_and_caller(&home, Some(&gateway), true);
    let rows = home.events("tool_call", 3);
    assert_eq!((&rows[0]["source"], &rows[0]["caller"]), (&"mcp".into(), &"api_key".into()));
}

#[test]
fn a_refused_save_is_one_decision_by_every_door() {
    let home = home_with_text();
    let outside = home.at("outside/x");
    let cli = ["call", "tool-read", "--tool-name", "srv:tool", "--save-to-file", outside.to_str().unwrap()];
    assert_eq!(home.run(&cli).code, 1, "standalone");
    let gateway = home.serve();
    assert_eq!(home.run(&cli).code, 1);
    gateway.call("srv:tool").save(&outside).send().refusal();
    let decisions = home.events("policy_decision", 3);
    for (decision, source) in decisions.iter().zip(["mcp", "cli", "cli"]) {
        assert_eq!((&decision["status"], &decision["reason"]), (&"blocked".into(), &"save_outside".into()));
        assert_eq!((&decision["tool"], &decision["source"]), (&"tool".into(), &source.into()));
    }
    assert!(home.events("tool_call", 3).iter().all(|r| r["upstream_ran"] == "no" && r["response"].is_null()));
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn a_given_request_id_is_taken_by_the_api_and_never_by_mcp() {
    let home = home_with_text();
    let gateway = home.serve();
    let endpoint = gateway.endpoint().with("x-request-id", "my-own-id").with("x-api-key", &home.api_key());
    let status = endpoint.http("GET", "/api/v1/status", &[], b"");
    assert_eq!(status.header("x-request-id").as_deref(), Some("my-own-id"));
    let call = endpoint.rpc("tools/call", &gateway.call("srv:tool").params());
    let id = request_id(&call);
    assert_ne!(id, "my-own-id");
    assert_eq!(the_row(&home, "tool_call", &id)["status"], "success");
    for bad in ["a b", "a\u{e9}", "", &"x".repeat(300)] {
        let reply = gateway.endpoint().http("GET", "/healthz", &[("x-request-id", bad)], b"");
        assert_eq!(request_id(&reply).len(), 26);
    }
    let refused = gateway.endpoint().http("GET", "/healthz", &[("host", "evil.example")], b"");
    assert_eq!(request_id(&refused).len(), 26, "refusals carry one too");
}

#[test]
fn the_servers_of_the_first_start_are_noted_as_such() {
    let home = home_with_text();
    assert_eq!(home.serve().stop(), Some(0));
    let home = home.upstream("later", Script::text("x"));
    assert_eq!(home.serve().stop(), Some(0));
    let script = "import sqlite3,sys\ndb=sqlite3.connect(sys.argv[1])\n\
        print(db.execute('select name,seen_at_first_start,length(fingerprint) from servers order by name').fetchall())";
    let Ok(output) =
        Command::new("python3").args(["-c", script]).arg(home.data().join("mcpproxy.db")).output()
    else {
        println!("skipped: no python3 to read the database with");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "[('later', 0, 64), ('srv', 1, 64)]");
}

#[test]
fn the_filters_of_the_listing_hold() {
    let home = endings_home();
    let gateway = home.serve();
    for name in ["ok", "ok", "tool_error", "destroy"] {
        gateway.call(&format!("srv:{name}")).send();
    }
    home.events("tool_call", 4);
    let count = |filters: &[&str]| home.activity(filters).len();
    assert_eq!(count(&["--type", "tool_call,policy_decision"]), 5);
    assert_eq!(count(&["--type", "tool_call", "--status", "error"]), 1);
    assert_eq!(count(&["--type", "tool_call", "--status", "error,blocked"]), 2);
    assert_eq!(count(&["--tool", "ok"]), 2);
    assert_eq!(count(&["--server", "nope"]), 0);
    assert_eq!(count(&["--type", "tool_call", "-n", "3"]), 3);
    assert_eq!(count(&["--type", "tool_call", "--offset", "3"]), 1);
    for wrong in [["--type", "nope"], ["--status", "nope"], ["-n", "0"]] {
        let output = home.run(&["activity", "list", wrong[0], wrong[1]]);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{wrong:?}");
    }
    assert_eq!(json!(home.activity(&["-n", "1"])[0]["time_ms"].is_number()), true);
}
