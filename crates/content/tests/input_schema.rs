//! The check of arguments: what it says, what it lets pass, and that no schema can harm us.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

use std::net::TcpListener;

use content::schema::{InputSchema, MAX_ARGUMENTS_BYTES, MAX_SCHEMA_BYTES};
use serde_json::{Value, json};

fn compile(schema: &Value) -> InputSchema {
    let schema = InputSchema::compile(&schema.to_string());
    assert_eq!(schema.problem(), None);
    schema
}

fn refuse(schema: &Value, arguments: &str) -> String {
    compile(schema).check(arguments).expect_err("must be refused")
}

fn assert_uncompilable(schema: &str) -> String {
    let schema = InputSchema::compile(schema);
    let problem = schema.problem().expect("must not compile").to_owned();
    assert!(problem.len() <= 500 && !problem.contains('\n'), "{problem}");
    assert_eq!(schema.check(r#"{"any":["thing"]}"#), Ok(()));
    problem
}

#[test]
fn faults_are_named_with_their_place_and_without_values() {
    let schema = json!({
        "type": "object", "required": ["zone"], "additionalProperties": false,
        "properties": {"zone": {"type": "string"}, "count": {"type": "integer", "maximum": 10}, "kind": {"enum": ["a", "b"]}}
    });
    assert_eq!(refuse(&schema, r#"{"count":3}"#), r#""zone" is a required property"#);
    assert_eq!(refuse(&schema, ""), r#""zone" is a required property"#);
    assert_eq!(refuse(&schema, r#"{"zone":1}"#), r#"/zone: value is not of type "string""#);
    let several = refuse(&schema, r#"{"count":"SECRET-VALUE","kind":"SECRET-VALUE"}"#);
    assert!(several.contains(r#"/count: value is not of type "integer""#), "{several}");
    assert!(
        several.contains("; ") && several.contains("/kind: ") && several.contains("\"zone\" is a required"),
        "{several}"
    );
    assert!(!several.contains("SECRET"), "{several}");
    for good in [r#"{"zone":"x"}"#, r#"{"zone":"x","count":10,"kind":"b"}"#, r#" {"zone":"x"} "#] {
        assert_eq!(compile(&schema).check(good), Ok(()));
    }
}

#[test]
fn the_line_is_one_line_of_at_most_500_bytes() {
    for pad in 0..4 {
        let name = format!("{}{}", "x".repeat(pad), "é\n😀".repeat(300));
        let line = refuse(&json!({"required": [name]}), "{}");
        assert!(
            line.len() <= 500 && line.len() > 490 && line.ends_with('…') && !line.contains('\n'),
            "{line}"
        );
    }
    let none = json!({"type": "object", "additionalProperties": false});
    assert_eq!(refuse(&none, r#"{"x":1}"#), "no value is allowed here");
    let many: Vec<u32> = (0..5000).collect();
    let line = refuse(&json!({"items": {"type": "string"}}), &json!(many).to_string());
    assert!(line.starts_with("/0: ") && line.len() <= 500, "{line}");
    let more: Vec<u32> = (0..50_000).collect();
    let line = refuse(
        &json!({"items": {"type": "string", "minLength": 2, "maxLength": 3}}),
        &json!(more).to_string(),
    );
    assert_eq!(line, r#"/0: value is not of type "string""#);
    let line = refuse(
        &json!({"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}),
        &json!(more).to_string(),
    );
    assert_eq!(line, "the arguments do not fit the input schema");
}

#[test]
fn what_is_not_json_is_refused_also_without_a_schema() {
    for schema in [compile(&json!({})), InputSchema::compile("nonsense")] {
        for bad in ["{", "{a:1}", "[NaN]", "{}{}", "{'a':1}"] {
            assert!(schema.check(bad).unwrap_err().contains("not valid JSON"), "{bad}");
        }
    }
}

#[test]
fn a_schema_that_cannot_be_compiled_lets_everything_pass() {
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(200), "}".repeat(200));
    let large = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)}).to_string();
    let patterns: Vec<Value> = (0..101).map(|n| json!({"pattern": format!("^a{n}$")})).collect();
    for schema in [
        "",
        "nonsense",
        "7",
        r#"{"type":"strin"}"#,
        r#"{"minimum":1e400}"#,
        r##"{"$ref":"#/$defs/Missing"}"##,
        r#"{"$ref":"file:///etc/passwd"}"#,
        r#"{"$schema":"http://example.test/mine","type":"string"}"#,
        r#"{"pattern":"^(?=a)b$"}"#,
        r#"{"pattern":"(\\p{L}{1000}){1000}"}"#,
        r##"{"const":{"$ref":"#/const"}}"##,
        r##"{"allOf":{},"$ref":"#"}"##,
        &deep,
        &large,
        &json!({"allOf": patterns}).to_string(),
    ] {
        assert_uncompilable(schema);
    }
}

#[test]
fn no_reference_is_ever_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    for schema in [
        json!({"$ref": format!("http://{address}/s.json")}),
        json!({"$schema": format!("http://{address}/meta")}),
        json!({"$id": format!("http://{address}/base.json"), "properties": {"a": {"$ref": "other.json"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": format!("http://{address}/s.json")}),
    ] {
        assert_uncompilable(&schema.to_string());
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody asked");
    // A connection of our own shows that one would have been seen.
    let _ours = std::net::TcpStream::connect(address).unwrap();
    assert!(listener.accept().is_ok());
}

#[test]
fn the_draft_that_a_schema_names_is_used_and_2020_12_else() {
    let tuple = |schema: Value| compile(&schema).check(r#"["x"]"#);
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]});
    assert!(tuple(old).is_err());
    assert!(tuple(json!({"prefixItems": [{"type": "integer"}]})).is_err());
    assert!(tuple(json!({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "integer"}]})).is_ok());
}

#[test]
fn references_mean_what_they_meant() {
    let defs = json!({"s": {"type": "string"}, "list": {"type": "array", "items": {"$ref": "#/$defs/s"}}});
    let schema = json!({"$defs": defs, "properties": {
        "a": {"$ref": "#/$defs/list"},
        "b": {"$ref": "#/$defs/s", "maxLength": 2},
        "c": {"allOf": [{"minimum": 1}], "$ref": "#/properties/d/allOf/0"},
        "d": {"allOf": [{"maximum": 9}], "$ref": "#/properties/c/allOf/0"},
        "$ref": {"type": "boolean"}, "enum": {"$ref": "#/$defs/s"},
    }});
    let compiled = compile(&schema);
    for good in [r#"{"a":["x"]}"#, r#"{"b":"xy"}"#, r#"{"c":5,"d":5}"#, r#"{"$ref":true}"#, r#"{"enum":"x"}"#]
    {
        assert_eq!(compiled.check(good), Ok(()), "{good}");
    }
    for bad in [
        r#"{"a":[1]}"#,
        r#"{"b":"xyz"}"#,
        r#"{"b":1}"#,
        r#"{"c":0}"#,
        r#"{"c":10}"#,
        r#"{"d":0}"#,
        r#"{"$ref":"x"}"#,
        r#"{"enum":1}"#,
    ] {
        assert!(compiled.check(bad).is_err(), "{bad}");
    }
    let closed = json!({"$defs": {"p": {"properties": {"x": true}}}, "$ref": "#/$defs/p", "unevaluatedProperties": false});
    assert_eq!(compile(&closed).check(r#"{"x":1}"#), Ok(()));
    assert!(compile(&closed).check(r#"{"y":1}"#).is_err());
    let tree = compile(&json!({"properties": {"left": {"$ref": "#"}, "leaf": {"type": "integer"}}}));
    assert!(tree.check(r#"{"left":{"left":{"leaf":"x"}}}"#).is_err());
    assert_eq!(tree.check(r#"{"left":{"left":{"leaf":1}}}"#), Ok(()));
    // In old drafts, what stands beside a reference says nothing.
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "type": "array",
        "definitions": {"a": {"type": "object", "required": ["k"]}}});
    assert_eq!(compile(&old).check(r#"{"k":1}"#), Ok(()));
    assert!(compile(&old).check("{}").is_err());
}

#[test]
fn a_number_that_cannot_be_represented_never_makes_a_call_fail() {
    let schema = compile(&json!({"properties": {"n": {"type": "number", "maximum": 5, "multipleOf": 10}}}));
    assert!(schema.check(r#"{"n":7}"#).is_err());
    for inexact in
        ["1e400", "123456789012345678901234567890", "0.12345678901234567890", "18446744073709551616"]
    {
        assert_eq!(schema.check(&format!("{{\"n\":{inexact}}}")), Ok(()), "{inexact}");
    }
    assert!(schema.check(r#"{"n":18446744073709551615}"#).is_err());
}

#[test]
fn arguments_too_deep_or_too_large_pass() {
    let schema = compile(&json!({"type": "string"}));
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert_eq!(schema.check(&deep), Ok(()));
    assert_eq!(schema.check(&format!("[\"{}\"]", "x".repeat(MAX_ARGUMENTS_BYTES))), Ok(()));
    assert!(schema.check("[\"x\"]").is_err());
}

#[test]
fn patterns_cannot_backtrack_and_formats_are_not_judged() {
    let schema = compile(&json!({"properties": {"a": {"pattern": "^(a+)+$"}, "t": {"format": "date-time"}}}));
    assert!(schema.check(&json!({"a": "a".repeat(50_000) + "b"}).to_string()).is_err());
    assert_eq!(schema.check(&json!({"a": "a".repeat(50_000), "t": "soon"}).to_string()), Ok(()));
    let slow: Vec<Value> =
        (0..90).map(|n| json!({"pattern": format!("[ab]*a[ab]{{{}}}c", 300 + n)})).collect();
    let text: String = (0..500_000_u64)
        .map(|n| if n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0 { 'a' } else { 'b' })
        .collect();
    assert_eq!(survive("slow patterns", json!({"allOf": slow}), json!(text).to_string()), Ok(()));
    assert_eq!(survive("one slow pattern, too much text", slow_alone(), json!(text).to_string()), Ok(()));
    assert!(survive("one slow pattern", slow_alone(), json!(&text[..260_000]).to_string()).is_err());
}

fn slow_alone() -> Value {
    json!({"pattern": "[ab]*a[ab]{390}c"})
}

fn chain(length: usize, last: Value) -> Value {
    linked(length, last, |next| next)
}

/// Definitions that each lead to the next, the last one being `last`.
fn linked(length: usize, last: Value, link: impl Fn(Value) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for n in 0..length {
        defs.insert(format!("d{n}"), link(json!({"$ref": format!("#/$defs/d{}", n + 1)})));
    }
    defs.insert(format!("d{length}"), last);
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

fn nested(depth: usize, leaf: Value) -> String {
    (0..depth).fold(leaf, |inner, _| json!({"a": inner})).to_string()
}

/// Runs on a small stack, as the program's threads have it. What is given up passes.
fn survive(name: &str, schema: Value, arguments: String) -> Result<(), String> {
    let name = name.to_owned();
    let started = std::time::Instant::now();
    let run = move || {
        let schema = InputSchema::compile(&schema.to_string());
        let compiled = started.elapsed();
        let checked = schema.check(&arguments);
        eprintln!("{name}: {compiled:?}, {:?}, {:?}, {checked:?}", schema.problem(), started.elapsed());
        checked
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().expect("no panic")
}

#[test]
fn short_chains_of_references_are_followed() {
    assert!(survive("chain of 100", chain(100, json!({"type": "string"})), "5".into()).is_err());
    assert_eq!(survive("chain of 100", chain(100, json!({"type": "integer"})), "5".into()), Ok(()));
}

#[test]
fn long_chains_of_references_do_not_run_the_stack_out() {
    let string = json!({"type": "string"});
    assert_eq!(survive("chain of 20,000", chain(20_000, string.clone()), "5".into()), Ok(()));
    for keyword in ["not", "contains", "propertyNames"] {
        let schema = linked(20_000, string.clone(), |next| json!({keyword: next}));
        assert_eq!(survive(keyword, schema, "5".into()), Ok(()));
    }
    let around = chain(1000, json!({"properties": {"a": {"$ref": "#/$defs/d0"}}}));
    assert_eq!(survive("round and round", around, nested(120, json!(1))), Ok(()));
    assert_eq!(survive("to itself", json!({"$ref": "#"}), "{}".into()), Ok(()));
    let circle =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    assert_eq!(survive("in a circle", circle, "{}".into()), Ok(()));
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}});
    assert_eq!(survive("in a circle of old", old, "{}".into()), Ok(()));
}

#[test]
fn references_that_double_do_not_take_forever() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for leaf in [
            json!({"type": "string"}),
            json!({"type": "integer"}),
            json!({"properties": {"x": {"type": "string"}}, "required": ["x"]}),
        ] {
            let schema = linked(60, leaf, |next| json!({keyword: [next, next]}));
            for arguments in ["5", "{}", r#"{"x":1}"#, r#"{"x":"y"}"#] {
                let _ = survive(keyword, schema.clone(), arguments.into());
            }
        }
    }
    let twice = |keyword: &str, more: Value| {
        let mut schema =
            json!({keyword: [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for more in [json!({}), json!({"required": ["a"]}), json!({"unevaluatedProperties": false})] {
            let _ = survive(keyword, twice(keyword, more), nested(120, json!({"x": 1})));
        }
    }
    let inside = json!({"required": ["zz"], "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    let _ = survive("in a property", inside, nested(120, json!({"x": 1})));
    let mut open = linked(60, json!({"properties": {"x": true}}), |next| json!({"allOf": [next, next]}));
    open["unevaluatedProperties"] = json!(false);
    let _ = survive("unevaluated", open, r#"{"x":1,"y":2}"#.into());
}

#[test]
fn deep_schemas_and_wide_ones_are_bounded() {
    for keyword in ["not", "items", "additionalProperties", "contains", "if"] {
        let deep = (0..120).fold(json!({"type": "string"}), |inner, _| json!({keyword: inner}));
        let _ = survive(keyword, deep, nested(120, json!(1)));
    }
    let open = (0..40).fold(
        json!({"properties": {"x": true}}),
        |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}),
    );
    let _ = survive("unevaluated, nested", open, r#"{"x":1,"y":2}"#.into());
    let branches: Vec<Value> = (0..50_000).map(|n| json!({"const": n})).collect();
    let numbers: Vec<i64> = (0..100_000).map(|n| -n).collect();
    let wide = json!({"items": {"anyOf": branches}});
    assert_eq!(survive("wide", wide, json!(numbers).to_string()), Ok(()));
    let objects: Vec<Value> = (0..30_000).map(|n| json!({"n": n})).collect();
    assert_eq!(survive("unique", json!({"uniqueItems": true}), json!(objects).to_string()), Ok(()));
}
