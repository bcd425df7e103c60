//! The forms in which arguments come, and what the upstream sees of them.

use serde_json::Value;
use testkit::script::text_result;
use testkit::{Action, Gateway, Home, Script};

use crate::common::{home, home_with, home_with_text};

fn seen(home: &Home) -> Value {
    let line = home.lines("srv", "calls").pop().expect("the upstream was called");
    serde_json::from_str::<Value>(&line).unwrap()["arguments"].clone()
}

fn call(gateway: &Gateway, arguments: &str) -> testkit::Reply {
    gateway.tool("call_tool_read", arguments)
}

#[test]
fn missing_null_and_empty_arguments_reach_the_tool_as_an_empty_object() {
    let home = home_with_text();
    let gateway = home.serve();
    for arguments in
        [r#"{"name":"srv:tool"}"#, r#"{"name":"srv:tool","args":null}"#, r#"{"name":"srv:tool","args":{}}"#]
    {
        assert!(!call(&gateway, arguments).is_error());
        assert_eq!(seen(&home), serde_json::json!({}));
    }
}

#[test]
fn arguments_that_are_no_object_are_refused_before_the_upstream() {
    let home = home_with_text();
    let gateway = home.serve();
    for arguments in [
        r#"{"name":"srv:tool","args":[]}"#,
        r#"{"name":"srv:tool","args":"x"}"#,
        r#"{"name":"srv:tool","args_json":"{"}"#,
        "[]",
        "\"x\"",
        "null",
        "{}",
        r#"{"name":"tool"}"#,
        r#"{"name":"srv:"}"#,
    ] {
        assert!(call(&gateway, arguments).is_error(), "{arguments}");
    }
    let params = r#"{"name":"call_tool_read"}"#;
    assert!(gateway.endpoint().rpc("tools/call", params).is_error());
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn text_flattened_and_nested_arguments_arrive_with_every_digit() {
    let home = home_with_text();
    let gateway = home.serve();
    for (arguments, expected) in [
        (r#"{"name":"srv:tool","args":"{\"id\":725653563933458432}"}"#, r#"{"id":725653563933458432}"#),
        (r#"{"name":"srv:tool","args_json":"{\"m\":\"b\"}","args":{"m":"a"}}"#, r#"{"m":"b"}"#),
        (r#"{"name":"srv:tool","id":5,"intent_reason":"why"}"#, r#"{"id":5}"#),
        (
            r#"{"name":"srv:tool","args":{"b":123456789012345678901234567890,"e":1e45,"z":-0,"k":"é\ud800"}}"#,
            r#"{"b":123456789012345678901234567890,"e":1e45,"z":-0,"k":"é\ud800"}"#,
        ),
    ] {
        assert!(!call(&gateway, arguments).is_error(), "{arguments}");
        let line = home.lines("srv", "calls").pop().unwrap();
        assert!(line.contains(&format!(r#""arguments":{expected}"#)), "{line}");
    }
}

#[test]
fn our_own_keys_never_reach_the_upstream() {
    let home = home_with_text();
    let gateway = home.serve();
    let path = home.at("root/x");
    let flat = gateway.call("srv:tool").member(r#""id":5"#).save(&path).format("json").overwrite().send();
    assert!(!flat.is_error());
    assert_eq!(seen(&home), serde_json::json!({"id": 5}));
}

#[test]
fn a_tool_with_a_parameter_of_the_same_name_gets_it_inside_args() {
    let tool =
        r#"{"name":"tool","inputSchema":{"type":"object","properties":{"save_to_file":{"type":"string"}}}}"#;
    let home = home_with(Script::text("x").tools(vec![tool.into()]));
    let gateway = home.serve();
    assert!(!gateway.call("srv:tool").args(r#"{"save_to_file":"theirs"}"#).send().is_error());
    assert_eq!(seen(&home)["save_to_file"], "theirs");
}

#[test]
fn arguments_that_do_not_fit_the_schema_carry_it_back() {
    let tool = r#"{"name":"echo","inputSchema":{"type":"object","properties":{"m":{"type":"string"}},"required":["m"]}}"#;
    let home = home_with(Script::text("x").tools(vec![tool.into()]));
    let gateway = home.serve();
    let reply = gateway.call("srv:echo").args("{}").send();
    let body: Value = serde_json::from_str(&reply.refusal()).unwrap();
    assert_eq!(body["error_type"], "invalid_params");
    assert_eq!(body["tool"], "srv:echo");
    assert_eq!(body["input_schema"]["required"], serde_json::json!(["m"]));
    assert!(body["hint"].as_str().unwrap().contains("describe_tool"));
    assert!(body["error"].as_str().unwrap().starts_with("invalid arguments for srv:echo: "), "{body}");
    assert_eq!(home.calls("srv"), 0);
    let row = &home.events("tool_call", 1)[0];
    assert_eq!((&row["status"], &row["reason"]), (&"error".into(), &"invalid_arguments".into()));
    assert_eq!(home.events("policy_decision", 0).len(), 0);
}

#[test]
fn a_schema_that_cannot_be_used_refuses_nothing() {
    for schema in [
        r#"{"type":"nonsense"}"#,
        r##"{"$ref":"#/$defs/Missing"}"##,
        r#"{"$ref":"http://127.0.0.1:1/s.json"}"#,
    ] {
        let tool = format!(r#"{{"name":"tool","inputSchema":{schema}}}"#);
        let home = home_with(Script::text("x").tools(vec![tool]));
        let gateway = home.serve();
        assert!(!gateway.call("srv:tool").args(r#"{"a":1}"#).send().is_error(), "{schema}");
    }
}

#[test]
fn a_destructive_tool_wants_the_destructive_variant() {
    let tool = testkit::script::annotated("tool", r#"{"destructiveHint":true}"#);
    let home = home_with(Script::text("x").tools(vec![tool]));
    let gateway = home.serve();
    let text = gateway.call("srv:tool").send().refusal();
    assert!(text.contains("marked destructive by server, use call_tool_destructive"), "{text}");
    assert_eq!(home.calls("srv"), 0);
    assert!(!gateway.call("srv:tool").variant("call_tool_destructive").send().is_error());
    let row = &home.events("policy_decision", 1)[0];
    assert_eq!(row["reason"], "intent_rejected");
}

#[test]
fn unknown_servers_and_tools_are_refused_and_point_to_the_search() {
    let home = home_with_text();
    let gateway = home.serve();
    for name in ["nope:tool", "srv:nope", "SRV:tool", "srv:Tool"] {
        let text = gateway.call(name).send().refusal();
        assert!(text.contains("retrieve_tools"), "{name}: {text}");
    }
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn a_large_argument_passes() {
    let home = home(Action::Result(text_result("ok")));
    let gateway = home.serve();
    let big = "x".repeat(5 << 20);
    assert!(!gateway.call("srv:tool").args(&format!(r#"{{"big":"{big}"}}"#)).send().is_error());
    assert_eq!(seen(&home)["big"].as_str().unwrap().len(), big.len());
}
