//! Finding and showing tools: order, bonuses, incremental change, and the exact shapes of the replies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use catalog::{Catalog, Filters, Gate, Listed, Retrieve, describe_reply, parse_tools, retrieve_reply};
use serde_json::{Value, json};

fn tools(server: &str, entries: &[Value]) -> Vec<Listed> {
    let raw: Vec<String> = entries.iter().map(Value::to_string).collect();
    let (tools, problems) = parse_tools(server, raw.iter().map(String::as_str));
    assert!(problems.is_empty(), "{problems:?}");
    tools
}

fn tool(name: &str, description: &str, parameters: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        parameters.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}})
}

fn sample() -> Catalog {
    let files = [
        tool("read_file", "Read the complete contents of a file.", &["path"]),
        tool("write_file", "Create a new file or overwrite an existing one.", &["path", "content"]),
        tool("directory_tree", "Get a recursive tree of files and directories.", &["path"]),
        tool("search_files", "Recursively search for files matching a pattern.", &["path", "pattern"]),
    ];
    let hub = [
        tool("getUserById", "Look a user up.", &["userId"]),
        tool("list_issues", "List the issues of a repository.", &["owner", "repo"]),
        tool("create_issue", "Open a new issue.", &["owner", "repo", "title"]),
        tool("get_file_contents", "Get a file of a repository.", &["owner", "repo", "path"]),
        tool("merge_pull_request", "Merge it.", &["pullNumber"]),
    ];
    let other = [tool("echo", "Returns what it gets, be it a file, an issue or a user.", &["text"])];
    Catalog::default()
        .with_server("fs", tools("fs", &files))
        .with_server("github", tools("github", &hub))
        .with_server("test", tools("test", &other))
}

fn found(catalog: &Catalog, query: &str) -> Vec<String> {
    catalog.search(query, 10).into_iter().map(|hit| hit.listed.id().to_owned()).collect()
}

#[test]
fn the_tool_that_is_meant_comes_first() {
    let catalog = sample();
    for (query, best) in [
        ("read file", "fs:read_file"),
        ("READ_FILE", "fs:read_file"),
        ("readFile", "fs:read_file"),
        ("fs:read_file", "fs:read_file"),
        ("please use get_file_contents.", "github:get_file_contents"),
        ("user by id", "github:getUserById"),
        ("getuserbyid", "github:getUserById"),
        ("issues list", "github:list_issues"),
        ("new issue", "github:create_issue"),
        ("pull number", "github:merge_pull_request"),
        ("github merge", "github:merge_pull_request"),
        ("repositories files", "github:get_file_contents"),
        ("recurs", "fs:search_files"),
        ("dir", "fs:directory_tree"),
        ("ec", "test:echo"),
    ] {
        assert_eq!(found(&catalog, query).first().map(String::as_str), Some(best), "{query}");
    }
}

#[test]
fn nothing_is_found_for_nothing() {
    let catalog = sample();
    for query in ["", "   ", "!!! ---", "zzzzqqq", "\u{0}"] {
        assert_eq!(found(&catalog, query), Vec::<String>::new(), "{query:?}");
    }
    assert!(found(&Catalog::default(), "file").is_empty());
}

#[test]
fn an_exact_name_beats_any_number_of_better_texts() {
    let mut entries: Vec<Value> =
        (0..200).map(|n| tool(&format!("run_all_{n}"), &"run run run ".repeat(50), &["run"])).collect();
    entries.push(tool("run", "", &[]));
    let catalog = Catalog::default().with_server("s", tools("s", &entries));
    assert_eq!(found(&catalog, "run")[0], "s:run");
    assert_eq!(found(&catalog, "Run")[0], "s:run");
}

#[test]
fn equal_tools_come_in_the_order_of_their_ids() {
    let same = |name: &str| tool(name, "alike", &[]);
    let catalog = Catalog::default()
        .with_server("b", tools("b", &[same("x2"), same("x1")]))
        .with_server("a-b", tools("a-b", &[same("x1")]))
        .with_server("a", tools("a", &[same("x1")]));
    assert_eq!(found(&catalog, "alike"), ["a-b:x1", "a:x1", "b:x1", "b:x2"]);
}

/// The scores of a search, with every bit.
fn exact(catalog: &Catalog, query: &str) -> Vec<(String, u64)> {
    catalog
        .search(query, 100)
        .into_iter()
        .map(|hit| (hit.listed.id().to_owned(), hit.score.to_bits()))
        .collect()
}

#[test]
fn a_search_gives_the_same_in_whatever_order_servers_come_and_go() {
    let entries = |n: usize| -> Vec<Value> {
        (0..40)
            .map(|i| {
                tool(
                    &format!("tool{n}_{i}_get"),
                    &format!("gets thing {i} of users and files {n}"),
                    &["path"],
                )
            })
            .collect()
    };
    let mut straight = Catalog::default();
    for n in 0..6 {
        straight = straight.with_server(&format!("s{n}"), tools(&format!("s{n}"), &entries(n)));
    }
    let mut winding = sample();
    for n in [3, 5, 0, 4, 1, 2] {
        winding = winding.with_server(&format!("s{n}"), tools(&format!("s{n}"), &[]));
        winding = winding.with_server(&format!("s{n}"), tools(&format!("s{n}"), &entries(n)));
    }
    let winding = winding.without_server("fs").without_server("github").without_server("test");
    assert_eq!(straight.len(), winding.len());
    for query in ["get", "users and files", "tool3", "path thing 7", "s2 get", "gets"] {
        let first = exact(&straight, query);
        assert!(!first.is_empty());
        assert_eq!(first, exact(&straight, query), "twice the same");
        assert_eq!(first, exact(&winding, query), "{query}");
    }
}

#[test]
fn a_catalog_is_a_value_and_ids_resolve_exactly() {
    let before = sample();
    let after = before.with_server("fs", tools("fs", &[tool("only", "", &[]), tool("a:b", "", &[])]));
    assert!(before.resolve("fs", "read_file").is_some() && after.resolve("fs", "read_file").is_none());
    assert_eq!(after.resolve("fs", "a:b").unwrap().id(), "fs:a:b");
    assert!(after.resolve("fs", "Only").is_none() && after.resolve("nope", "only").is_none());
    assert_eq!((before.len(), after.len()), (10, 8));
    assert!(std::sync::Arc::ptr_eq(
        &before.resolve("github", "list_issues").unwrap(),
        &after.resolve("github", "list_issues").unwrap()
    ));
    assert!(after.without_server("fs").resolve("fs", "only").is_none());
    assert_eq!(after.tools_of("fs").len(), 2);
}

#[test]
fn hostile_queries_and_names_are_bounded_and_harmless() {
    let odd = [tool("\u{202e}\u{0}", "x", &[]), tool(&"n".repeat(1000), &"wort ".repeat(10_000), &[])];
    let catalog = Catalog::default().with_server("s", tools("s", &odd));
    let long = "read file ".repeat(100_000);
    let _ = catalog.search(&long, usize::MAX);
    let _ = catalog.search(&"é".repeat(5000), 5);
    assert_eq!(found(&catalog, &"n".repeat(1000)).len(), 1);
    assert_eq!(catalog.search("wort", 0).len(), 0);
}

fn all(_: &Listed) -> bool {
    true
}

fn retrieve(catalog: &Catalog, query: &str, limit: usize, filters: Filters) -> Value {
    let search = Retrieve { query, limit, filters, starting: 0 };
    serde_json::from_str(&retrieve_reply(catalog, &search, &all)).unwrap()
}

#[test]
fn a_search_reply_has_exactly_these_keys_and_the_schema_as_it_was_listed() {
    let raw = r#"{"name":"exact","description":"d","inputSchema":{ "type" : "object", "x":1e45, "default": -0 },
        "annotations":{"title":"T","readOnlyHint":true,"destructiveHint":false}}"#;
    let catalog = Catalog::default().with_server("s", parse_tools("s", [raw]).0);
    let search = Retrieve { query: "exact", limit: 15, filters: Filters::default(), starting: 0 };
    let text = retrieve_reply(&catalog, &search, &all);
    assert!(text.contains(r#""inputSchema":{ "type" : "object", "x":1e45, "default": -0 },"#), "{text}");
    let reply: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = reply.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["tools", "query", "total", "usage_instructions"]);
    let entry = reply["tools"][0].as_object().unwrap();
    let keys: Vec<&String> = entry.keys().collect();
    assert_eq!(keys, ["name", "description", "inputSchema", "score", "server", "annotations", "call_with"]);
    assert_eq!(entry["name"], "s:exact");
    assert_eq!(entry["annotations"], json!({"title": "T", "readOnlyHint": true, "destructiveHint": false}));
    assert_eq!(entry["call_with"], "call_tool_read");
    assert!(entry["score"].as_f64().unwrap() > 0.0);
}

#[test]
fn arrays_are_never_null_and_unknown_annotations_are_absent() {
    let reply = retrieve(&sample(), "zzzqqq", 15, Filters::default());
    assert_eq!((&reply["tools"], &reply["total"]), (&json!([]), &json!(0)));
    let reply = retrieve(&sample(), "read file", 1, Filters::default());
    assert_eq!(reply["total"], 1);
    assert!(reply["tools"][0].get("annotations").is_none());
    let bare = parse_tools("s", [r#"{"name":"bare"}"#, r#"{"name":"odd","inputSchema":null}"#]).0;
    let reply = retrieve(&Catalog::default().with_server("s", bare), "bare odd", 5, Filters::default());
    for entry in reply["tools"].as_array().unwrap() {
        assert_eq!((&entry["inputSchema"], &entry["description"]), (&json!({"type": "object"}), &json!("")));
    }
}

#[test]
fn call_with_follows_explicit_hints_only() {
    let entry = |name: &str, hints: Value| json!({"name": name, "annotations": hints});
    let entries = [
        entry("hint_none", json!({})),
        entry("hint_write", json!({"readOnlyHint": false})),
        entry("hint_destroy", json!({"readOnlyHint": true, "destructiveHint": true})),
    ];
    let catalog = Catalog::default().with_server("s", tools("s", &entries));
    let reply = retrieve(&catalog, "hint", 5, Filters::default());
    let with: Vec<(&str, &str)> = reply["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["name"].as_str().unwrap(), tool["call_with"].as_str().unwrap()))
        .collect();
    assert!(with.contains(&("s:hint_none", "call_tool_read")));
    assert!(with.contains(&("s:hint_write", "call_tool_write")));
    assert!(with.contains(&("s:hint_destroy", "call_tool_destructive")));
}

#[test]
fn limits_are_kept_filters_come_before_them_and_hidden_tools_do_not_count() {
    let entries: Vec<Value> = (0..300)
        .map(|n| json!({"name": format!("same{n:03}"), "annotations": {"readOnlyHint": n >= 150}}))
        .collect();
    let catalog = Catalog::default().with_server("s", tools("s", &entries));
    let total = |limit| retrieve(&catalog, "same", limit, Filters::default())["total"].clone();
    assert_eq!((total(0), total(7), total(5000)), (json!(1), json!(7), json!(100)));
    let reading = Filters { read_only_only: true, ..Filters::default() };
    let reply = retrieve(&catalog, "same", 10, reading);
    assert_eq!(reply["total"], 10);
    assert_eq!(reply["tools"][0]["name"], "s:same150");
    let diagnostics = &reply["filter_diagnostics"];
    assert_eq!(
        (&diagnostics["matched_before_filters"], &diagnostics["omitted_total"]),
        (&json!(160), &json!(150))
    );
    let search = Retrieve { query: "same", limit: 100, filters: reading, starting: 0 };
    let text = retrieve_reply(&catalog, &search, &|tool| tool.tool == "same200");
    let reply: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&reply["total"], reply.get("filter_diagnostics")), (&json!(1), None));
}

#[test]
fn a_reply_of_huge_schemas_is_bounded_and_says_so() {
    let filler = "y".repeat(900_000);
    let entries: Vec<Value> =
        (0..20).map(|n| json!({"name": format!("big{n}"), "inputSchema": {"x": filler}})).collect();
    let catalog = Catalog::default().with_server("s", tools("s", &entries));
    let search = Retrieve { query: "big", limit: 100, filters: Filters::default(), starting: 0 };
    let text = retrieve_reply(&catalog, &search, &all);
    assert!(text.len() < 5 << 20, "{}", text.len());
    let reply: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(reply["total"], 4);
    assert!(reply["notice"].as_str().unwrap().contains("Only 4 tools"));
}

fn describe(ids: &[&str]) -> Result<Value, String> {
    let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let gate = |server: &str, tool: &str| match (server, tool) {
        ("held", _) => Gate::Quarantined,
        (_, "write_file") => Gate::Disabled,
        (_, "echo") => Gate::Hidden,
        _ => Gate::Open,
    };
    describe_reply(&sample(), &ids, &gate).map(|text| serde_json::from_str(&text).unwrap())
}

#[test]
fn a_description_has_the_full_entry_without_a_score() {
    let reply = describe(&[" fs:read_file ", "github:list_issues", "fs:read_file"]).unwrap();
    assert_eq!(reply["errors"], json!([]));
    let definitions = reply["definitions"].as_array().unwrap();
    assert_eq!(definitions.len(), 2);
    let keys: Vec<&String> = definitions[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "description", "inputSchema", "server", "call_with"]);
    assert_eq!(definitions[0]["name"], "fs:read_file");
}

#[test]
fn every_refusal_has_its_code_and_a_hidden_tool_looks_like_a_missing_one() {
    let reply = describe(&["held:any", "fs:write_file", "test:echo", "no:such", "FS:Read_File"]).unwrap();
    assert_eq!(reply["definitions"], json!([]));
    let errors = reply["errors"].as_array().unwrap();
    let codes: Vec<&str> = errors.iter().map(|error| error["error"].as_str().unwrap()).collect();
    assert_eq!(codes, ["quarantined", "disabled", "not_found", "not_found", "not_found"]);
    assert_eq!(errors[2]["remediation"], errors[3]["remediation"]);
    assert!(errors[4]["remediation"].as_str().unwrap().starts_with("Did you mean fs:read_file?"));
    let reply = describe(&["nocolon", ":x", "x:", "TEST:ECHO", "Fs:Write_File"]).unwrap();
    let errors = reply["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 5);
    assert!(errors.iter().all(|error| error["error"] == "not_found"));
    assert!(!reply.to_string().contains("Did you mean"), "only what the caller may see is suggested");
}

#[test]
fn too_many_or_no_ids_fail_whole() {
    let error = describe(&["a:b"; 6]).unwrap_err();
    assert_eq!(error, "too many tool_ids: 6 (max 5). Narrow your selection.");
    assert!(describe(&[]).unwrap_err().contains("tool_ids is empty"));
}

#[test]
fn arguments_are_checked_against_the_listed_schema() {
    let catalog = Catalog::default().with_server(
        "s",
        tools(
            "s",
            &[
                json!({"name": "t", "inputSchema": {"type": "object", "required": ["a"]}}),
                json!({"name": "u"}),
            ],
        ),
    );
    assert!(catalog.resolve("s", "u").unwrap().input().check("{\"x\":1}").is_ok());
    let checked = catalog.resolve("s", "t").unwrap();
    assert!(checked.input().check("{\"a\":1}").is_ok());
    assert!(checked.input().check("{}").is_err());
}
