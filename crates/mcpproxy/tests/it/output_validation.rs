//! Output validation: what an agent, the record and the disk see of an answer that breaks the promise of its tool.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};
use testkit::http::Form;
use testkit::script::{text_result, tool};
use testkit::{Action, Gateway, Home, HttpUpstream, Script, tree};

use crate::common::{files, home_with, no_temporary, saved, wait_for};

const NUMBER: &str = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;
const BAD: &str =
    r#"{"content":[{"type":"text","text":"for people"}],"structuredContent":{"n":"ANSWER-VALUE"}}"#;
const GOOD: &str =
    r#"{"content":[{"type":"text","text":"for people"}],"structuredContent":{"n": 1e2, "n2":1.0}}"#;

/// A listed tool with this raw output schema.
fn promising(name: &str, schema: &str) -> String {
    tool(name).replacen("\"inputSchema\"", &format!("\"outputSchema\":{schema},\"inputSchema\""), 1)
}

fn upstream(schema: &str, result: &str) -> Script {
    Script::result(result).tools(vec![promising("tool", schema)])
}

fn home(validation: Value, script: Script) -> Home {
    home_with(script).set("output_validation", validation)
}

fn decisions(home: &Home) -> Vec<Value> {
    home.activity(&["--type", "policy_decision", "-n", "100"])
}

/// No file in or below a directory holds the bytes.
fn nowhere(dir: &Path, bytes: &str) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            nowhere(&entry, bytes);
        } else if entry.is_file() {
            let held = fs::read(&entry).unwrap();
            let found = held.windows(bytes.len()).any(|window| window == bytes.as_bytes());
            assert!(!found, "{} holds {bytes}", entry.display());
        }
    }
}

#[test]
fn strict_stops_a_broken_promise_and_nothing_of_the_answer_is_anywhere() {
    let home = home(json!({"mode": "strict"}), upstream(NUMBER, BAD));
    let gateway = home.serve();
    let before = files(&home);
    for save in [false, true] {
        let call = gateway.call("srv:tool");
        let reply = if save { call.save(home.at("root/a/x.json")).format("json") } else { call }.send();
        let text = reply.refusal();
        assert!(text.starts_with("output schema validation failed for srv:tool: "), "{text}");
        for told in ["keyword \"type\" at \"/n\"", "The tool DID run", "outputSchema", "output_validation"] {
            assert!(text.contains(told), "{told}: {text}");
        }
        assert!(!reply.text().contains("ANSWER-VALUE") && !reply.text().contains("for people"), "{text}");
        assert_eq!(files(&home), before, "nothing is made");
        let id = reply.header("x-request-id").unwrap();
        let row = wait_for(|| home.activity(&["--type", "tool_call", "--request-id", &id]).pop());
        assert_eq!((&row["status"], &row["reason"]), (&json!("blocked"), &json!("output_schema")));
        assert_eq!((&row["upstream_ran"], &row["response"]), (&json!("yes"), &Value::Null));
        assert!(row["response_bytes"].as_u64().unwrap() > 0);
        let decisions = home.activity(&["--type", "policy_decision", "--request-id", &id]);
        assert_eq!(decisions.len(), 1, "{decisions:?}");
        assert_eq!(
            (&decisions[0]["status"], &decisions[0]["reason"]),
            (&json!("blocked"), &json!("output_schema"))
        );
    }
    assert_eq!(home.calls("srv"), 2);
    nowhere(&home.data(), "ANSWER-VALUE");
    nowhere(&home.at("root"), "ANSWER-VALUE");
    // The target was given back: a good answer takes the same path.
    home.script("srv", &upstream(NUMBER, GOOD));
    let path = home.at("root/a/x.json");
    saved(&gateway.call("srv:tool").save(&path).format("json").send(), &path, GOOD.as_bytes());
    assert_eq!(gateway.call("srv:tool").send().raw_result(), GOOD);
}

#[test]
fn warn_is_the_default_and_passes_everything_on_with_one_row() {
    let home = home_with(upstream(NUMBER, BAD));
    let gateway = home.serve();
    let reply = gateway.call("srv:tool").send();
    assert_eq!(reply.raw_result(), BAD);
    let path = home.at("root/x.json");
    saved(&gateway.call("srv:tool").save(&path).format("json").send(), &path, BAD.as_bytes());
    let id = reply.header("x-request-id").unwrap();
    let row = wait_for(|| home.activity(&["--type", "tool_call", "--request-id", &id]).pop());
    assert_eq!((&row["status"], &row["reason"]), (&json!("success"), &Value::Null));
    let told = home.activity(&["--type", "policy_decision", "--request-id", &id]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["status"], &told[0]["reason"]), (&json!("warning"), &json!("output_schema")));
    let message = told[0]["message"].as_str().unwrap();
    assert!(message.contains("\"type\" at \"/n\"") && !message.contains("ANSWER-VALUE"), "{message}");
    assert_eq!((&told[0]["server"], &told[0]["tool"]), (&json!("srv"), &json!("tool")));
    wait_for(|| (decisions(&home).len() == 2).then_some(()));
    no_temporary(&home.at("root"));
}

#[test]
fn off_looks_at_nothing_and_what_keeps_its_schema_leaves_no_row() {
    for (validation, result) in [
        (json!({"mode": "off", "max_bytes": 1}), BAD),
        (json!({"mode": "strict", "missing_structured_content": "block"}), GOOD),
        (json!({"mode": "warn"}), GOOD),
        (json!({"mode": "strict"}), r#"{"content":[]}"#),
        (json!({"mode": "warn"}), r#"{"content":[],"structuredContent":null}"#),
    ] {
        let home = home(validation, upstream(NUMBER, result));
        let gateway = home.serve();
        assert_eq!(gateway.call("srv:tool").send().raw_result(), result);
        home.events("tool_call", 1);
        assert_eq!(decisions(&home), Vec::<Value>::new());
    }
}

#[test]
fn error_results_and_tools_without_a_promise_are_never_stopped() {
    let validation =
        || json!({"mode": "strict", "missing_structured_content": "block", "max_bytes": 1, "max_depth": 1});
    let failed = r#"{"isError":true,"content":[{"type":"text","text":"no such row"}]}"#;
    let asking = r#"{"resultType":"input_required","content":[]}"#;
    for result in [failed, asking] {
        let home = home(validation(), upstream(NUMBER, result));
        let gateway = home.serve();
        assert_eq!(gateway.call("srv:tool").save(home.at("root/x")).send().raw_result(), result);
        assert_eq!(decisions(&home), Vec::<Value>::new());
    }
    let home = home(validation(), Script::result(BAD));
    assert_eq!(home.serve().call("srv:tool").send().raw_result(), BAD);
}

#[test]
fn a_missing_promise_is_stopped_where_that_is_asked_for() {
    for mode in ["warn", "strict"] {
        let validation = json!({"mode": mode, "missing_structured_content": "block"});
        let home = home(validation, upstream(NUMBER, &text_result("only text")));
        let gateway = home.serve();
        let text = gateway.call("srv:tool").save(home.at("root/x")).send().refusal();
        assert!(text.contains("returned no structured content") && text.contains("DID run"), "{text}");
        assert!(!home.at("root/x").exists());
        let row = &home.events("tool_call", 1)[0];
        assert_eq!((&row["status"], &row["reason"]), (&json!("blocked"), &json!("output_schema")));
    }
}

#[test]
fn what_is_over_the_bounds_counts_as_a_fault() {
    let deep =
        format!(r#"{{"content":[],"structuredContent":{{"n":1,"d":{}{}}}}}"#, "[".repeat(70), "]".repeat(70));
    let wide = format!(r#"{{"content":[],"structuredContent":{{"n":1,"w":"{}"}}}}"#, "x".repeat(100_000));
    for (bounds, result, told) in [
        (json!({}), &deep, "nested deeper than the 64 levels"),
        (json!({"max_depth": 70}), &deep, "nested deeper than the 70 levels"),
        (json!({"max_bytes": 99_999}), &wide, "more than the 99999 that are checked"),
        (json!({"max_bytes": 100_014, "max_depth": 1}), &wide, "nested deeper"),
    ] {
        for strict in [true, false] {
            let mut validation = bounds.clone();
            validation["mode"] = json!(if strict { "strict" } else { "warn" });
            let home = home(validation, upstream(NUMBER, result));
            let gateway = home.serve();
            let reply = gateway.call("srv:tool").send();
            if strict {
                let text = reply.refusal();
                assert!(text.contains(told), "{text}");
            } else {
                assert_eq!(reply.raw_result(), *result);
            }
            let row = wait_for(|| decisions(&home).pop());
            assert_eq!(row["reason"], "output_schema");
            assert!(row["message"].as_str().unwrap().contains(told), "{row}");
        }
    }
    for (bounds, result) in [(json!({"max_depth": 71}), &deep), (json!({"max_bytes": 100_014}), &wide)] {
        let mut validation = bounds;
        validation["mode"] = json!("strict");
        let home = home(validation, upstream(NUMBER, result));
        assert_eq!(home.serve().call("srv:tool").send().raw_result(), *result);
    }
}

#[test]
fn a_schema_that_cannot_be_used_passes_with_one_warning_and_asks_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let remote = format!(r#"{{"$ref":"http://{}/s.json"}}"#, listener.local_addr().unwrap());
    let schemas = [r##"{"$ref":"#/$defs/Missing"}"##, &remote, r#"{"type":"strin"}"#, r#""no object""#];
    let mut tools: Vec<String> = (0..4).map(|n| tool(&format!("plain{n}"))).collect();
    tools.extend(schemas.iter().enumerate().map(|(n, schema)| promising(&format!("odd{n}"), schema)));
    tools.push(tool("input").replace(r#"{"type":"object"}"#, &remote));
    let home = home(json!({"mode": "strict"}), Script::result(BAD).tools(tools));
    let gateway = home.serve();
    assert_eq!(gateway.server("srv")["tool_count"], json!(9), "none is lost: {}", gateway.status());
    for name in ["plain0", "odd0", "odd1", "odd2", "odd3", "odd0", "odd1", "odd2", "odd3", "input"] {
        assert_eq!(gateway.call(&format!("srv:{name}")).send().raw_result(), BAD, "{name}");
    }
    home.events("tool_call", 10);
    let rows = wait_for(|| Some(decisions(&home)).filter(|rows| rows.len() >= 4));
    assert_eq!(rows.len(), 4, "once for each tool: {rows:#?}");
    assert!(rows.iter().all(|row| row["status"] == "warning" && row["reason"] == "output_schema"));
    let log = gateway.log();
    for n in 0..4 {
        let told =
            log.lines().filter(|l| l.contains("is not checked") && l.contains(&format!("odd{n}"))).count();
        assert_eq!(told, 1, "odd{n}: {log}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody asked");
}

#[test]
fn both_contents_arrive_over_http_and_stdio_also_after_a_reconnect() {
    let validation = json!({"mode": "strict", "missing_structured_content": "block"});
    for form in [Form::Json, Form::Events] {
        let upstream = HttpUpstream::with_sessions(upstream(NUMBER, GOOD), form);
        let home = testkit::home!()
            .root("root")
            .http_upstream("srv", &upstream)
            .set("output_validation", validation.clone());
        let gateway = home.serve();
        assert_eq!(gateway.call("srv:tool").send().raw_result(), GOOD);
        upstream.forget_sessions();
        let after = wait_for(|| Some(gateway.call("srv:tool").send()).filter(|reply| !reply.is_error()));
        assert_eq!(after.raw_result(), GOOD);
        assert_eq!(decisions(&home), Vec::<Value>::new());
    }
    let home = home(validation, upstream(NUMBER, GOOD));
    let gateway = home.serve();
    for _ in 0..3 {
        assert_eq!(gateway.call("srv:tool").send().raw_result(), GOOD);
    }
    home.script(
        "srv",
        &Script { actions: [("*".to_owned(), Action::Exit(1))].into(), ..upstream(NUMBER, GOOD) },
    );
    assert!(gateway.call("srv:tool").send().is_error());
    home.script("srv", &upstream(NUMBER, GOOD));
    let after = wait_for(|| Some(gateway.call("srv:tool").send()).filter(|reply| !reply.is_error()));
    assert_eq!(after.raw_result(), GOOD);
}

#[test]
fn of_a_large_answer_the_small_promise_is_checked_and_memory_stays_small() {
    let text = "x".repeat(48 << 20);
    let result = |n: &str| {
        format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"structuredContent":{{"n":{n}}}}}"#)
    };
    let home = home(json!({"mode": "strict"}), upstream(NUMBER, &result("1")));
    let gateway = home.serve();
    let before = gateway.resident();
    let path = home.at("root/big.txt");
    let reply = gateway.call("srv:tool").save(&path).send();
    assert_eq!(reply.envelope()["bytes"], json!(48 << 20));
    home.script("srv", &upstream(NUMBER, &result("\"x\"")));
    let text = gateway.call("srv:tool").save(home.at("root/bad.txt")).send().refusal();
    assert!(text.contains("\"/n\"") && !home.at("root/bad.txt").exists(), "{text}");
    assert!(gateway.peak().saturating_sub(before) < 64 << 20, "{} more", gateway.peak() - before);
}

/// Changes the validation in the file, as an editor does.
fn set(home: &Home, validation: &Value) {
    let mut config: Value = serde_json::from_slice(&fs::read(home.config_file()).unwrap()).unwrap();
    config["output_validation"] = validation.clone();
    let new = home.at("config.new");
    fs::write(&new, config.to_string()).unwrap();
    fs::rename(new, home.config_file()).unwrap();
}

fn is_stopped(gateway: &Gateway) -> bool {
    gateway.call("srv:tool").send().is_error()
}

#[test]
fn a_change_applies_to_the_next_call_and_a_bad_one_to_none() {
    let home = home(json!({"mode": "off"}), upstream(NUMBER, BAD));
    let gateway = home.serve();
    assert!(!is_stopped(&gateway));
    for (validation, stopped) in [
        (json!({"mode": "strict"}), true),
        (json!({"mode": "warn"}), false),
        (json!({"mode": "strict", "max_bytes": 0, "max_depth": 0}), true),
        (json!({}), false),
    ] {
        set(&home, &validation);
        wait_for(|| (is_stopped(&gateway) == stopped).then_some(()));
    }
    set(&home, &json!({"mode": "strict"}));
    wait_for(|| is_stopped(&gateway).then_some(()));
    set(&home, &json!({"mode": "loud"}));
    wait_for(|| gateway.log().contains("output_validation.mode").then_some(()));
    assert!(is_stopped(&gateway), "the old one stays");
    assert_eq!(home.lines("srv", "pids").len(), 1, "the server was not disturbed");
}

#[test]
fn files_of_the_root_are_not_touched_by_calls_that_are_stopped() {
    let home = home(json!({"mode": "strict"}), upstream(NUMBER, BAD));
    let gateway = home.serve();
    fs::write(home.at("root/old.json"), "old").unwrap();
    let before = tree::snapshot(&home.at("root"));
    let reply = gateway.call("srv:tool").save(home.at("root/old.json")).overwrite().send();
    assert!(reply.refusal().contains("nothing of it was delivered or saved"));
    assert_eq!(tree::snapshot(&home.at("root")), before);
}
