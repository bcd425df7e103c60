//! Forms of arguments, one by one.

use super::*;

fn parse(json: &str) -> Result<Request, Refusal> {
    Request::parse(json.as_bytes())
}

fn sent(json: &str) -> String {
    String::from_utf8(parse(json).unwrap().arguments.to_vec()).unwrap()
}

#[test]
fn the_name_is_split_at_the_first_colon_and_trimmed() {
    let request = parse(r#"{"name":" s : a:b "}"#).unwrap();
    assert_eq!((request.server.as_str(), request.tool.as_str()), ("s", "a:b"));
    for wrong in [r"{}", r#"{"name":5}"#, r#"{"name":"echo"}"#, r#"{"name":"s:"}"#, r#"{"name":":t"}"#] {
        assert_eq!(parse(wrong).unwrap_err().reason, Reason::InvalidRequest, "{wrong}");
    }
}

#[test]
fn no_arguments_reach_the_tool_as_an_empty_object() {
    for json in [
        r#"{"name":"s:t"}"#,
        r#"{"name":"s:t","args":null}"#,
        r#"{"name":"s:t","args":{}}"#,
        r#"{"name":"s:t","args_json":""}"#,
        r#"{"name":"s:t","args_json":"null"}"#,
    ] {
        assert_eq!(sent(json), "{}", "{json}");
    }
}

#[test]
fn arguments_of_another_kind_are_refused() {
    for json in [
        r#"{"name":"s:t","args":[]}"#,
        r#"{"name":"s:t","args":"x"}"#,
        r#"{"name":"s:t","args":"[1]"}"#,
        r#"{"name":"s:t","args":5}"#,
        r#"{"name":"s:t","args_json":"{"}"#,
        r#"{"name":"s:t","args_json":"[]"}"#,
        r#"{"name":"s:t","args_json":{}}"#,
    ] {
        assert_eq!(parse(json).unwrap_err().reason, Reason::InvalidArguments, "{json}");
    }
}

#[test]
fn args_json_wins_only_if_it_holds_a_key() {
    assert_eq!(sent(r#"{"name":"s:t","args":{"m":"a"},"args_json":"{\"m\":\"b\"}"}"#), r#"{"m":"b"}"#);
    assert_eq!(sent(r#"{"name":"s:t","args":{"m":"a"},"args_json":"{}"}"#), r#"{"m":"a"}"#);
}

#[test]
fn values_pass_byte_for_byte_on_one_line() {
    let json = "{\"name\":\"s:t\",\"args\":{\n \"z\":1e45,\"a\":-0,\"n\":725653563933458432,\"s\":\"\\u00e9\\ud800\",\"z\":1\r\n}}";
    assert_eq!(
        sent(json),
        "{  \"z\":1e45,\"a\":-0,\"n\":725653563933458432,\"s\":\"\\u00e9\\ud800\",\"z\":1  }"
    );
    assert_eq!(
        sent(r#"{"name":"s:t","args":"{\"id\":725653563933458432}"}"#),
        r#"{"id":725653563933458432}"#
    );
}

#[test]
fn flattened_arguments_leave_our_keys_behind() {
    let request = parse(
        r#"{"name":"s:t","id":5,"intent_reason":"r","save_to_file":"/r/x","save_format":"json","save_overwrite":true}"#,
    )
    .unwrap();
    assert_eq!(request.arguments, r#"{"id":5}"#);
    assert_eq!(request.save, Some(Save { path: "/r/x".into(), format: Format::Json, overwrite: true }));
    for parameter in &PARAMETERS[1..8] {
        let json = format!(r#"{{"name":"s:t","{}":null,"k":1}}"#, parameter.name);
        assert_eq!(sent(&json), r#"{"k":1}"#, "{}", parameter.name);
    }
}

#[test]
fn an_intent_object_is_ours_only_if_it_looks_like_one() {
    let request =
        parse(r#"{"name":"s:t","intent":{"data_sensitivity":"public","reason":"why"},"k":1}"#).unwrap();
    assert_eq!(request.sensitivity.as_deref(), Some("public"));
    assert_eq!(request.reason.as_deref(), Some("why"));
    assert_eq!(request.arguments, r#"{"k":1}"#);
    assert_eq!(sent(r#"{"name":"s:t","intent":{"goal":"x"}}"#), r#"{"intent":{"goal":"x"}}"#);
}

#[test]
fn intent_values_are_checked() {
    let wrong = parse(r#"{"name":"s:t","intent_data_sensitivity":"Public"}"#).unwrap_err();
    assert!(wrong.text().contains("Invalid intent.data_sensitivity 'Public'"), "{}", wrong.text());
    let long = format!(r#"{{"name":"s:t","intent_reason":"{}"}}"#, "x".repeat(1001));
    assert_eq!(parse(&long).unwrap_err().reason, Reason::IntentRejected);
    let fits = format!(r#"{{"name":"s:t","intent_reason":"{}"}}"#, "x".repeat(1000));
    assert!(parse(&fits).is_ok());
}

#[test]
fn save_arguments_are_checked_one_by_one() {
    for (json, named) in [
        (r#""save_to_file":5"#, "save_to_file"),
        (r#""save_to_file":true"#, "save_to_file"),
        (r#""save_to_file":["x"]"#, "save_to_file"),
        (r#""save_to_file":{}"#, "save_to_file"),
        (r#""save_to_file":"""#, "save_to_file"),
        (r#""save_to_file":"   ""#, "save_to_file"),
        (r#""save_to_file":"/r/x","save_format":"yaml""#, "save_format"),
        (r#""save_to_file":"/r/x","save_format":"JSON""#, "save_format"),
        (r#""save_to_file":"/r/x","save_format":"""#, "save_format"),
        (r#""save_to_file":"/r/x","save_format":1"#, "save_format"),
        (r#""save_to_file":"/r/x","save_overwrite":"true""#, "save_overwrite"),
        (r#""save_to_file":"/r/x","save_overwrite":1"#, "save_overwrite"),
        (r#""save_format":"text""#, "save_to_file"),
        (r#""save_overwrite":false"#, "save_to_file"),
    ] {
        let refusal = parse(&format!(r#"{{"name":"s:t",{json}}}"#)).unwrap_err();
        assert_eq!(refusal.reason, Reason::SaveArguments, "{json}");
        assert!(refusal.text().starts_with("save_to_file: ") && refusal.text().contains(named), "{json}");
    }
    let nulls =
        parse(r#"{"name":"s:t","save_to_file":null,"save_format":null,"save_overwrite":null}"#).unwrap();
    assert_eq!(nulls.save, None);
}

#[test]
fn save_keys_inside_args_are_refused_unless_the_tool_has_them() {
    let request = parse(r#"{"name":"s:t","args":{"save_to_file":"/r/x"}}"#).unwrap();
    let refusal = request.refuse_misplaced_save(|_| false).unwrap_err();
    assert!(refusal.text().contains("put save_to_file beside args"), "{}", refusal.text());
    assert!(request.refuse_misplaced_save(|key| key == "save_to_file").is_ok());
}

#[test]
fn arguments_that_are_no_object_are_a_refusal_and_no_panic() {
    for json in ["[]", "\"x\"", "5", "{", "\u{feff}{}", "{\"a\":1}x"] {
        assert_eq!(parse(json).unwrap_err().reason, Reason::InvalidRequest, "{json}");
    }
    assert_eq!(parse("null").unwrap_err().reason, Reason::InvalidRequest);
}
