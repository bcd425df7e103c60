//! Output validation: what it finds and how it tells it, what it lets pass, and that no schema and no answer can harm us.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;
#[path = "output_schema/random.rs"]
mod random;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Spool, answer};
use content::Answer;
use content::schema::{
    Checked, MAX_SCHEMA_BYTES, OutputFault, OutputMode, OutputRules, OutputSchema, OutputSchemas, Place,
    Stopped,
};
use serde_json::{Value, json};

const STRICT: OutputRules =
    OutputRules { mode: OutputMode::Strict, max_bytes: 5 << 20, max_depth: 64, block_missing: false };

fn compile(schema: &Value) -> OutputSchema {
    let schema = OutputSchema::compile(&schema.to_string());
    assert_eq!(schema.problem(), None);
    schema
}

fn result(structured: &str) -> String {
    format!(r#"{{"content":[],"structuredContent":{structured}}}"#)
}

fn check(schema: &OutputSchema, structured: &str, rules: &OutputRules) -> Result<Checked, OutputFault> {
    match schema.check(answer(&result(structured)), rules) {
        Ok(checked) => Ok(checked),
        Err(Stopped::Fault(fault)) => Err(fault),
        Err(Stopped::Io(error)) => panic!("{error}"),
    }
}

fn passes(schema: &Value, structured: &str) -> bool {
    check(&compile(schema), structured, &STRICT).is_ok()
}

fn fault(schema: &Value, structured: &str) -> OutputFault {
    check(&compile(schema), structured, &STRICT).expect_err(structured)
}

fn place(schema: &Value, structured: &str) -> (String, String) {
    match fault(schema, structured) {
        OutputFault::Mismatch(Some(place)) => (place.pointer, place.keyword),
        other => panic!("{structured}: {other:?}"),
    }
}

#[test]
fn faults_are_told_by_pointer_and_keyword_and_never_by_a_value() {
    let schema = json!({
        "type": "object", "required": ["n"], "additionalProperties": false, "$defs": {"s": {"type": "string"}},
        "properties": {
            "n": {"type": "integer", "maximum": 10}, "kind": {"enum": ["a", "b"]}, "never": false,
            "list": {"items": {"$ref": "#/$defs/s"}, "uniqueItems": true, "maxItems": 3},
            "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "one": {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            "day": {"type": "string", "pattern": "^\\d{4}-\\d{2}$", "maxLength": 9}, "a/b~c": {"const": {"x": [1]}}
        }
    });
    for (structured, pointer, keyword) in [
        (r#"{"n":"SECRET"}"#, "/n", "type"),
        (r#"{"n":11}"#, "/n", "maximum"),
        (r#"{"n":1.5}"#, "/n", "type"),
        ("{}", "", "required"),
        ("[1]", "", "type"),
        (r#"{"n":1,"kind":"SECRET"}"#, "/kind", "enum"),
        (r#"{"n":1,"never":"SECRET"}"#, "/never", "false"),
        (r#"{"n":1,"list":["a","b",7]}"#, "/list/2", "type"),
        (r#"{"n":1,"list":["SECRET","b","SECRET"]}"#, "/list", "uniqueItems"),
        (r#"{"n":1,"list":["a","b","c","d"]}"#, "/list", "maxItems"),
        (r#"{"n":1,"either":"SECRET"}"#, "/either", "anyOf"),
        (r#"{"n":1,"one":3}"#, "/one", "oneOf"),
        (r#"{"n":1,"day":"SECRET"}"#, "/day", "pattern"),
        (r#"{"n":1,"a/b~c":{"x":[2]}}"#, "/a~1b~0c", "const"),
        (r#"{"n":1,"other":"SECRET"}"#, "", "additionalProperties"),
    ] {
        let fault = fault(&schema, structured);
        let OutputFault::Mismatch(Some(place)) = &fault else { panic!("{fault:?}") };
        assert_eq!((place.pointer.as_str(), place.keyword.as_str()), (pointer, keyword), "{structured}");
        assert!(!fault.to_string().contains("SECRET"), "{fault}");
        assert!(fault.to_string().contains(keyword), "{fault}");
        assert_eq!(place.missing.as_deref(), (keyword == "required").then_some("n"));
    }
    for good in [
        r#"{"n":10}"#,
        r#" { "n" : 1e1 , "kind":"\u0062","either":null,"one":1,"list":["a","\u0062"]} "#,
        r#"{"n":-0,"day":"2024-01","a/b~c":{"x":[1.0]}}"#,
    ] {
        assert!(passes(&schema, good.trim()), "{good}");
    }
}

#[test]
fn names_of_members_are_shown_cleaned_and_cut() {
    let schema = json!({"additionalProperties": {"type": "integer"}});
    let (pointer, _) = place(&schema, r#"{"a\u001b[31m\"b\u202e\n\ud800":"x"}"#);
    assert!(!pointer.contains(['\u{1b}', '"', '\u{202e}', '\n']), "{pointer:?}");
    assert!(pointer.starts_with("/a\u{fffd}[31m"), "{pointer:?}");
    for pad in 0..4 {
        let (pointer, keyword) =
            place(&schema, &json!({"x".repeat(pad) + &"é😀".repeat(4000): "x"}).to_string());
        assert!(pointer.len() <= 200 && pointer.ends_with('…'), "{pointer}");
        assert_eq!(keyword, "type");
    }
}

#[test]
fn numbers_are_judged_as_they_are_written() {
    let integer = json!({"type": "integer"});
    for whole in ["1.0", "1e2", "-0", "-0.0", "1e45", "1e400", "123456789012345678901234567890", "12.50e1"] {
        assert!(passes(&integer, whole), "{whole}");
    }
    for broken in ["0.5", "1e-1", "1.00000000000000000000000000001", "1e-400"] {
        assert!(!passes(&integer, broken), "{broken}");
    }
    let draft4 = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"});
    assert!(
        passes(&draft4, "1") && passes(&draft4, "123456789012345678901234567890") && !passes(&draft4, "1.0")
    );
    let bounded = json!({"type": "number", "minimum": 0, "maximum": 18_446_744_073_709_551_615_u64});
    assert!(
        passes(&bounded, "18446744073709551615") && passes(&bounded, "0.1e1") && passes(&bounded, "-0.0")
    );
    assert!(!passes(&bounded, "1e400") && !passes(&bounded, "-1e400") && !passes(&bounded, "-1"));
    assert!(passes(&json!({"const": 9_007_199_254_740_993_u64}), "9007199254740993"));
    assert!(!passes(&json!({"const": 9_007_199_254_740_993_u64}), "9007199254740992"));
    assert!(passes(&json!({"enum": [1.5, 100]}), "1e2") && passes(&json!({"multipleOf": 0.01}), "4.02"));
    let unique = json!({"uniqueItems": true});
    assert!(passes(&unique, "[9007199254740992,9007199254740993,1e400,2e400]"));
    assert!(!passes(&unique, "[1,2,1.0]") && !passes(&unique, "[10,1e1]") && !passes(&unique, "[0,-0]"));
    assert!(
        !passes(&unique, r#"[{"a":1,"b":[2]},{"b":[2.0],"a":10e-1}]"#)
            && passes(&unique, r#"[[1,2],[2,1],"1",true]"#)
    );
}

#[test]
fn of_members_with_the_same_name_the_last_counts_as_for_every_parser() {
    let schema = json!({"properties": {"n": {"type": "integer"}}, "maxProperties": 2, "additionalProperties": {"type": "null"}});
    assert!(passes(&schema, r#"{"n":"x","\u006e":1,"m":null}"#));
    assert!(passes(&schema, r#"{"n":"x","n":"y","n":1,"m":"z","m":null}"#));
    assert_eq!(place(&schema, r#"{"n":1,"n":"x"}"#), ("/n".into(), "type".into()));
    // The same in objects that are looked into by hash.
    let members: Vec<String> = (0..400).map(|n| format!(r#""k{n}":"x""#)).collect();
    let numbers: Vec<String> = (0..400).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let wide = json!({"required": ["k0", "k399"], "properties": {"k7": {"const": 7}}, "minProperties": 400, "maxProperties": 400,
        "additionalProperties": {"type": "integer"}});
    assert!(passes(&wide, &format!("{{{},{}}}", members.join(","), numbers.join(","))));
    assert!(!passes(&wide, &format!("{{{},{}}}", numbers.join(","), members.join(","))));
    assert!(!passes(&wide, &format!("{{{}}}", numbers[1..].join(","))));
    assert!(passes(&json!({"maxProperties": 1}), &format!("{{{}}}", vec![r#""k":1"#; 3000].join(","))));
}

#[test]
fn what_is_escaped_is_judged_by_what_it_says() {
    let schema = json!({"type": "string", "maxLength": 2, "pattern": "^[a-z\u{fffd}]+$"});
    assert!(
        passes(&schema, r#""\u0061\u0062""#)
            && passes(&schema, r#""a\ud800""#)
            && !passes(&schema, r#""a\n""#)
    );
    assert!(
        passes(&json!({"maxLength": 1}), r#""\ud83d\ude00""#)
            && passes(&json!({"const": "a\"b"}), r#""a\"b""#)
    );
    let named = json!({"properties": {"a\"b": {"type": "integer"}}, "propertyNames": {"maxLength": 3}});
    assert!(passes(&named, r#"{"a\u0022b":1}"#));
    assert_eq!(place(&named, r#"{"a\u0022b":"x"}"#).1, "type");
    assert_eq!(place(&named, r#"{"long name":1}"#).1, "propertyNames");
}

#[test]
fn the_draft_that_a_schema_names_is_used_and_2020_12_else() {
    let old = "http://json-schema.org/draft-07/schema#";
    assert!(!passes(&json!({"$schema": old, "items": [{"type": "integer"}]}), r#"["x"]"#));
    assert!(!passes(&json!({"prefixItems": [{"type": "integer"}]}), r#"["x"]"#));
    assert!(passes(&json!({"$schema": old, "prefixItems": [{"type": "integer"}]}), r#"["x"]"#));
    let current = "https://json-schema.org/draft/2020-12/schema";
    assert!(!passes(&json!({"$schema": current, "prefixItems": [{"type": "integer"}]}), r#"["x"]"#));
    let unevaluated = json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false});
    assert!(passes(&unevaluated, r#"{"a":1}"#));
    assert_eq!(place(&unevaluated, r#"{"a":1,"b":2}"#).1, "unevaluatedProperties");
}

#[test]
fn the_mode_decides_what_becomes_of_a_fault() {
    let schema = compile(&json!({"type": "object", "required": ["n"]}));
    let bad = r#"{"m":1}"#;
    let warn = OutputRules { mode: OutputMode::Warn, ..STRICT };
    let off = OutputRules { mode: OutputMode::Off, block_missing: true, ..STRICT };
    assert!(check(&schema, bad, &STRICT).is_err());
    let fault = check(&schema, bad, &warn).unwrap().fault().cloned();
    let place = Place { pointer: String::new(), keyword: "required".into(), missing: Some("n".into()) };
    assert_eq!(fault, Some(OutputFault::Mismatch(Some(place))));
    assert_eq!(check(&schema, bad, &off).unwrap().fault(), None);
    for rules in [STRICT, warn] {
        assert_eq!(check(&schema, r#"{"n":1}"#, &rules).unwrap().fault(), None);
    }
    for (rules, blocks) in [(STRICT, false), (warn, false), (off, false)]
        .into_iter()
        .chain([STRICT, warn].map(|rules| (OutputRules { block_missing: true, ..rules }, true)))
    {
        for missing in [r#"{"content":[]}"#, r#"{"structuredContent":null}"#] {
            let checked = schema.check(answer(missing), &rules);
            let blocked = matches!(checked, Err(Stopped::Fault(OutputFault::Missing)));
            assert_eq!(blocked, blocks, "{rules:?}");
            assert!(blocks || checked.unwrap().fault().is_none());
        }
    }
}

#[test]
fn error_results_and_results_that_are_not_final_are_never_checked() {
    let schema = compile(&json!({"type": "object", "required": ["n"]}));
    let rules = OutputRules { block_missing: true, max_bytes: 1, ..STRICT };
    for raw in [
        r#"{"isError":true,"content":[{"type":"text","text":"no"}]}"#,
        r#"{"structuredContent":{"m":1},"isError":true}"#,
        r#"{"resultType":"input_required","content":[]}"#,
    ] {
        assert_eq!(schema.check(answer(raw), &rules).unwrap().fault(), None, "{raw}");
    }
    assert!(schema.check(answer(r#"{"isError":false,"content":[]}"#), &rules).is_err());
}

#[test]
fn a_schema_that_cannot_be_compiled_lets_everything_pass_and_says_why() {
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(200), "}".repeat(200));
    let large = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)}).to_string();
    for raw in [
        "nonsense",
        r#"{"type":"strin"}"#,
        r##"{"$ref":"#/$defs/Missing"}"##,
        r#"{"$ref":"file:///etc/passwd"}"#,
        r#"{"$schema":"http://example.test/mine","type":"string"}"#,
        r#"{"pattern":"^(?=a)b$"}"#,
        &deep,
        &large,
    ] {
        let schema = OutputSchema::compile(raw);
        let problem = schema.problem().expect(raw).to_owned();
        assert!(problem.len() <= 500 && !problem.contains('\n'), "{problem}");
        let checked = check(&schema, r#"{"any":["thing"]}"#, &STRICT).unwrap();
        assert_eq!((checked.fault(), checked.problem()), (None, Some(problem.as_str())));
        assert!(
            check(
                &schema,
                &"[".repeat(200).chars().chain("]".repeat(200).chars()).collect::<String>(),
                &STRICT
            )
            .is_ok()
        );
    }
    let blocking = OutputRules { block_missing: true, ..STRICT };
    let unusable = OutputSchema::unusable("it is not an object");
    assert!(
        unusable.check(answer(r#"{"content":[]}"#), &blocking).is_err(),
        "what is promised is still promised"
    );
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
        json!({"$dynamicRef": format!("http://{address}/s.json#a")}),
    ] {
        let schema = OutputSchema::compile(&schema.to_string());
        assert!(schema.problem().is_some());
        assert!(check(&schema, r#"{"a":1}"#, &STRICT).is_ok());
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody asked");
    // A connection of our own shows that one would have been seen.
    let _ours = std::net::TcpStream::connect(address).unwrap();
    assert!(listener.accept().is_ok());
}

#[test]
fn the_bounds_are_exact_and_what_is_over_them_is_a_fault() {
    let schema = compile(&json!({}));
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = |levels: usize| OutputRules { max_depth: levels, ..STRICT };
    for (structured, depth) in
        [("1", 1), ("[]", 1), ("[1]", 2), (r#"{"a":[1]}"#, 3), (r#"{"a":[]}"#, 2), (&nested(64), 64)]
    {
        assert!(check(&schema, structured, &deep(depth)).is_ok(), "{structured}");
        let fault = check(&schema, structured, &deep(depth - 1)).unwrap_err();
        assert_eq!(fault, OutputFault::TooDeep { limit: depth - 1 }, "{structured}");
    }
    assert!(check(&schema, &nested(200), &deep(200)).is_ok());
    assert!(matches!(check(&schema, &nested(100_000), &STRICT), Err(OutputFault::TooDeep { limit: 64 })));
    assert!(check(&compile(&json!({"uniqueItems": true})), &nested(100_000), &deep(usize::MAX)).is_ok());
    let pair = format!("[{0},{0}]", nested(100_000));
    let checked = check(&compile(&json!({"uniqueItems": true})), &pair, &deep(usize::MAX));
    assert!(
        matches!(checked, Err(OutputFault::TooCostly)),
        "the stack is no bound to be found out: {checked:?}"
    );
    let sized = |bytes: u64| OutputRules { max_bytes: bytes, ..STRICT };
    let structured = r#"{"a":"0123456789"}"#;
    assert!(check(&schema, structured, &sized(structured.len() as u64)).is_ok());
    let fault = check(&schema, structured, &sized(structured.len() as u64 - 1)).unwrap_err();
    assert_eq!(fault, OutputFault::TooLarge { bytes: 18, limit: 17 });
    let warned = check(&schema, structured, &OutputRules { mode: OutputMode::Warn, ..sized(3) }).unwrap();
    assert!(matches!(warned.fault(), Some(OutputFault::TooLarge { .. })));
}

#[test]
fn of_a_large_answer_only_the_structured_content_is_read() {
    let text = "x".repeat(4 << 20);
    let raw = format!(
        r#"{{"content":[{{"type":"text","text":"{text}"}}],"structuredContent":{{"n":"x"}},"tail":"{text}"}}"#
    );
    let spool = Spool::new(raw.as_bytes(), 1 << 20);
    let read = Arc::clone(&spool.read);
    let answer = Answer::index(Arc::new(spool), &|| false).unwrap();
    let indexed = read.load(Ordering::Relaxed);
    let schema = compile(&json!({"properties": {"n": {"type": "integer"}}}));
    let stopped = schema.check(answer, &STRICT).unwrap_err();
    assert!(matches!(stopped, Stopped::Fault(OutputFault::Mismatch(_))));
    assert_eq!(read.load(Ordering::Relaxed) - indexed, 9, "the bytes of structuredContent");
    for step in [1, 2, 7] {
        let raw = result(r#"{"n":"x"}"#);
        let answer = Answer::index(Arc::new(Spool::new(raw.as_bytes(), step)), &|| false).unwrap();
        assert!(schema.check(answer, &STRICT).is_err(), "{step} bytes at a time");
    }
}

#[test]
fn structured_content_over_the_bound_is_not_read_and_a_broken_spool_is_told() {
    let raw = result(&format!(r#"["{}"]"#, "x".repeat(100_000)));
    let schema = compile(&json!({}));
    let spool = Spool::new(raw.as_bytes(), 4096);
    let read = Arc::clone(&spool.read);
    let answer = Answer::index(Arc::new(spool), &|| false).unwrap();
    let indexed = read.load(Ordering::Relaxed);
    assert!(schema.check(answer, &OutputRules { max_bytes: 1000, ..STRICT }).is_err());
    assert_eq!(read.load(Ordering::Relaxed), indexed);
    // Indexed whole, and broken when it is read again.
    struct Breaking(Vec<u8>, std::sync::atomic::AtomicBool);
    impl content::Source for Breaking {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
            if self.1.load(Ordering::Relaxed) {
                return Err(std::io::Error::other("the disk is gone"));
            }
            content::Source::read_at(&self.0, offset, buf)
        }
    }
    let source = Arc::new(Breaking(raw.into_bytes(), false.into()));
    let answer = Answer::index(Arc::clone(&source) as Arc<dyn content::Source>, &|| false).unwrap();
    source.1.store(true, Ordering::Relaxed);
    let warn = OutputRules { mode: OutputMode::Warn, ..STRICT };
    assert!(matches!(schema.check(answer, &warn), Err(Stopped::Io(_))));
}

#[test]
fn schemas_and_answers_that_would_take_forever_are_given_up_in_time() {
    let numbers = format!("[1{}]", ",1".repeat(500_000));
    let doubling = |leaf: Value| {
        let mut defs = serde_json::Map::new();
        for n in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
        }
        defs.insert("d40".into(), leaf);
        json!({"$defs": defs, "$ref": "#/$defs/d0"})
    };
    let many = |rule: Value| json!({"items": {"allOf": vec![rule; 5000]}});
    let cases = [
        ("references that double", doubling(json!({"type": "array"})), "[1]".to_owned()),
        ("references that double and look at nothing", doubling(json!({})), "[1]".to_owned()),
        ("a rule for each number, 5,000 times", many(json!({"type": "integer"})), numbers.clone()),
        ("nothing asked of each number, 5,000 times", many(json!({"items": {}})), numbers),
        (
            "a pattern that explodes",
            json!({"pattern": "(a|b)*a(a|b){20}c"}),
            format!("\"{}\"", "ab".repeat(500_000)),
        ),
        (
            "a pattern that explodes, for names",
            json!({"patternProperties": {"(a|b)*a(a|b){20}c": {}}}),
            format!("{{\"{}\":1}}", "ab".repeat(500_000)),
        ),
        (
            "unique items, nested",
            json!({"items": {"uniqueItems": true, "items": {"uniqueItems": true}},
            "allOf": vec![json!({"uniqueItems": true}); 300]}),
            format!("[[{0}],[{0},50000]]", (0..50_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")),
        ),
        (
            "members that do not count",
            json!({"allOf": vec![json!({"additionalProperties": {"type": "integer"}}); 5000]}),
            format!("{{{}}}", vec![r#""k":1"#; 100_000].join(",")),
        ),
    ];
    for (name, schema, structured) in cases {
        let schema = OutputSchema::compile(&schema.to_string());
        assert_eq!(schema.problem(), None, "{name}");
        let began = Instant::now();
        let fault = check(&schema, &structured, &STRICT).expect_err(name);
        assert_eq!(fault, OutputFault::TooCostly, "{name}");
        // Far more than it takes: the machine may be busy, and this is no optimised build.
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {:?}", began.elapsed());
    }
}

#[test]
fn faults_in_every_branch_for_every_item_cost_no_memory_to_speak_of() {
    let branches = json!({"anyOf": vec![json!({"type": "array", "items": {"type": "string"}}); 50]});
    let numbers = format!("[1{}]", ",1".repeat(100_000));
    let long = format!(r#"{{"{}":[1{}]}}"#, "k".repeat(1 << 20), ",1".repeat(1000));
    assert_eq!(fault(&branches, &numbers), OutputFault::Mismatch(None));
    let named = json!({"anyOf": vec![json!({"additionalProperties": {"items": {"type": "string"}}}); 50]});
    assert_eq!(fault(&named, &long), OutputFault::Mismatch(None));
    assert_eq!(place(&named, r#"{"k":[1]}"#), (String::new(), "anyOf".into()));
}

#[test]
fn references_into_themselves_follow_the_answer_and_no_further() {
    let tree = json!({"type": "object", "required": ["v"], "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}}});
    assert!(passes(&tree, r#"{"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]}"#));
    assert_eq!(
        place(&tree, r#"{"v":1,"kids":[{"v":2,"kids":[{"v":"x"}]}]}"#),
        ("/kids/0/kids/0/v".into(), "type".into())
    );
    assert!(passes(&json!({"$ref": "#"}), "1"));
    let deep = format!("{}1{}", r#"{"v":1,"kids":["#.repeat(20_000), "]}".repeat(20_000));
    let rules = OutputRules { max_depth: usize::MAX, ..STRICT };
    assert!(check(&compile(&tree), &deep, &rules).is_err());
}

#[test]
fn the_cache_serves_many_threads_one_schema() {
    let schemas = Arc::new(OutputSchemas::default());
    let raw: Arc<str> = json!({"type": "object"}).to_string().into();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (schemas, raw) = (Arc::clone(&schemas), Arc::clone(&raw));
            std::thread::spawn(move || {
                let schema = schemas.find(&raw);
                (0..50).all(|_| {
                    check(schema.get(), "{}", &STRICT).is_ok() && check(schema.get(), "1", &STRICT).is_err()
                })
            })
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    assert_eq!(schemas.len(), 1);
}
