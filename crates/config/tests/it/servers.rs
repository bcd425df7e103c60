//! Server entries: the forms of other clients, names, and what would be launched.

use std::collections::BTreeMap;

use config::{Server, Transport};
use serde_json::{Value, json};

use crate::{bad, good, lines, only_problem, warned};

fn one(entry: Value) -> Server {
    let mut servers = good(&json!({"mcpServers": [entry]}).to_string()).servers;
    assert_eq!(servers.len(), 1);
    servers.remove(0)
}

fn kind(server: &Server) -> &'static str {
    match server.transport {
        Transport::Stdio { .. } => "stdio",
        Transport::Http { .. } => "http",
        Transport::Unsupported { .. } => "unsupported",
    }
}

#[test]
fn a_list_and_an_object_of_servers_mean_the_same() {
    let list =
        good(r#"{"mcpServers": [{"name": "b", "command": "x"}, {"name": "a", "url": "http://h/mcp"}]}"#);
    let object =
        good(r#"{"mcpServers": {"b": {"command": "x"}, "a": {"url": "http://h/mcp", "name": "a"}}}"#);
    let names = |config: &config::Config| config.servers.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(&list), names(&object)), (vec!["b".into(), "a".into()], vec!["b".into(), "a".into()]));
    assert_eq!(list.servers[0].transport, object.servers[0].transport);
    assert_eq!(object.servers[1].at, "$.mcpServers.a");
    assert!(list.servers.iter().chain(&object.servers).all(|s| s.enabled && s.held().is_none()));
}

#[test]
fn every_spelling_of_a_transport_is_understood() {
    let url = "https://h/mcp";
    for (entry, right) in [
        (json!({"command": "c"}), "stdio"),
        (json!({"command": "c", "url": url}), "stdio"),
        (json!({"command": "c", "type": "stdio"}), "stdio"),
        (json!({"command": "c", "type": "local"}), "stdio"),
        (json!({"command": "c", "protocol": "auto", "type": ""}), "stdio"),
        (json!({"url": url}), "http"),
        (json!({"url": url, "command": ""}), "http"),
        (json!({"serverUrl": url}), "http"),
        (json!({"httpUrl": url}), "http"),
        (json!({"url": url, "httpUrl": url}), "http"),
        (json!({"url": url, "type": "http"}), "http"),
        (json!({"url": url, "type": "streamable-http", "transport": "http"}), "http"),
        (json!({"url": url, "type": "streamableHttp"}), "http"),
        (json!({"url": url, "protocol": "auto"}), "http"),
        (json!({"url": url, "transport": "sse"}), "unsupported"),
        (json!({"url": url, "command": "c", "protocol": "http"}), "unsupported"),
        (json!({"url": "${env:URL}"}), "http"),
        (json!({"url": "HTTPS://h"}), "http"),
    ] {
        let mut named = entry.clone();
        named["name"] = json!("s");
        assert_eq!(kind(&one(named)), right, "{entry}");
    }
}

#[test]
fn an_entry_that_cannot_be_launched_is_a_problem() {
    let url = "https://h/mcp";
    for (entry, path) in [
        (json!({}), "command"),
        (json!({"type": "stdio"}), "command"),
        (json!({"type": "stdio", "url": url}), "command"),
        (json!({"type": "http"}), "url"),
        (json!({"type": "http", "command": "c"}), "url"),
        (json!({"type": "ws", "url": url}), "type"),
        (json!({"type": "stdio", "transport": "sse", "command": "c"}), "transport"),
        (json!({"url": url, "serverUrl": "https://other"}), "serverUrl"),
        (json!({"command": "c", "cwd": "/a", "working_dir": "/b"}), "cwd"),
        (json!({"command": "c", "enabled": true, "disabled": true}), "disabled"),
        (json!({"command": "c", "enabled_tools": ["a"], "disabled_tools": ["b"]}), "disabled_tools"),
        (json!({"url": "h/mcp"}), "url"),
        (json!({"url": "ftp://h"}), "url"),
        (json!({"url": "https://"}), "url"),
        (json!({"url": "https://u@/x"}), "url"),
        (json!({"url": "https://h/a b"}), "url"),
        (json!({"url": url, "headers": {"a b": "c"}}), "headers[\"a b\"]"),
        (json!({"url": url, "headers": {"A": "b\r\nC: d"}}), "headers.A"),
        (json!({"command": "c", "env": {"A=B": "c"}}), "env[\"A=B\"]"),
        (json!({"command": "c", "env": {"PORT": 8080}}), "env.PORT"),
        (json!({"command": "c", "args": "x"}), "args"),
        (json!({"command": "c", "args": ["x", 1]}), "args[1]"),
        (json!({"command": ["c"]}), "command"),
    ] {
        let mut named = entry.clone();
        named["name"] = json!("s");
        let problems = bad(&json!({"mcpServers": [named]}).to_string());
        let right = format!("$.mcpServers[0].{path}");
        assert!(problems.iter().any(|p| p.path == right), "{entry}: {}", lines(&problems));
    }
}

#[test]
fn names_are_unique_short_and_without_colon() {
    for name in ["", "a:b", "a\nb", " a", "a ", &"é".repeat(65)] {
        let problem = only_problem(&json!({"mcpServers": [{"name": name, "command": "c"}]}).to_string());
        assert_eq!(problem.path, "$.mcpServers[0].name", "{name:?}");
    }
    for name in ["a", "io.github/x", "sérver", "with space", &"é".repeat(64)] {
        assert_eq!(one(json!({"name": name, "command": "c"})).name, name);
    }
    let twice = r#"{"mcpServers": [{"name": "a", "command": "c"}, {"name": "b", "command": "c"}, {"name": "a", "url": "http://h"}]}"#;
    let problem = only_problem(twice);
    assert!(
        problem.path == "$.mcpServers[2].name" && problem.message.contains("$.mcpServers[0]"),
        "{problem}"
    );
    assert_eq!(only_problem(r#"{"mcpServers": {"a:b": {"command": "c"}}}"#).path, "$.mcpServers[\"a:b\"]");
    assert_eq!(
        only_problem(r#"{"mcpServers": {"a": {"command": "c", "name": "b"}}}"#).path,
        "$.mcpServers.a"
    );
    assert_eq!(
        only_problem(r#"{"mcpServers": {"a": {"command": "c"}, "a": {"command": "d"}}}"#).path,
        "$.mcpServers.a"
    );
}

#[test]
fn what_is_switched_off_or_quarantined_is_held() {
    let held = |entry: Value| one(entry).held().unwrap_or_default();
    assert!(held(json!({"name": "s", "command": "c", "enabled": false})).contains("disabled"));
    assert!(held(json!({"name": "s", "command": "c", "disabled": true})).contains("disabled"));
    assert!(held(json!({"name": "s", "command": "c", "quarantined": true})).contains("quarantined"));
    assert!(held(json!({"name": "s", "url": "http://h", "type": "sse"})).contains("not in this version yet"));
    assert_eq!(held(json!({"name": "s", "command": "c", "disabled": false, "quarantined": false})), "");
    let quarantined = |entry: Value| one(entry).quarantined;
    assert_eq!(quarantined(json!({"name": "s", "command": "c"})), None);
    assert_eq!(quarantined(json!({"name": "s", "command": "c", "quarantined": null})), None);
    assert_eq!(quarantined(json!({"name": "s", "command": "c", "quarantined": false})), Some(false));
}

#[test]
fn what_cannot_start_yet_is_told_unless_it_is_off() {
    let sse = |enabled: bool| json!({"mcpServers": [{"name": "s", "type": "sse", "url": "http://h", "enabled": enabled}]});
    let warnings = warned(&sse(true).to_string());
    assert!(warnings.len() == 1 && warnings[0].path == "$.mcpServers[0]", "{}", lines(&warnings));
    assert!(warned(&sse(false).to_string()).is_empty());
    let keyring = json!({"mcpServers": [{"name": "s", "command": "c", "env": {"A": "${keyring:a}"}}]});
    assert!(warned(&keyring.to_string())[0].message.contains("not in this version yet"));
}

#[test]
fn lists_of_tools_say_which_may_be_called() {
    let only = one(json!({"name": "s", "command": "c", "enabled_tools": ["a"]}));
    assert!(only.allows_tool("a") && !only.allows_tool("b"));
    let not = one(json!({"name": "s", "command": "c", "disabled_tools": ["a"]}));
    assert!(!not.allows_tool("a") && not.allows_tool("b"));
    let empty = json!({"mcpServers": [{"name": "s", "command": "c", "enabled_tools": []}]}).to_string();
    assert!(good(&empty).servers[0].allows_tool("a"));
    assert!(warned(&empty)[0].message.contains("allows every tool"));
}

#[test]
fn references_are_replaced_at_launch_and_fail_for_their_server_alone() {
    let lookup = |name: &str| {
        [("A", "one"), ("NL", "a\nb"), ("URL", "https://h")]
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| (*v).to_owned())
    };
    let server = one(
        json!({"name": "s", "command": "${env:A}", "args": ["-k", "${env:A}${env:A}"], "cwd": "/w/${env:A}",
        "env": {"K": "x-${env:A}", "SHELL": "${HOME}"}}),
    );
    let Transport::Stdio { command, args, cwd, env } = server.resolve_secrets(&lookup).unwrap().transport
    else {
        panic!("not stdio")
    };
    assert_eq!((command.as_str(), args.join(" ").as_str()), ("one", "-k oneone"));
    assert_eq!(cwd.unwrap().to_str(), Some("/w/one"));
    let right: BTreeMap<String, String> =
        [("K", "x-one"), ("SHELL", "${HOME}")].map(|(k, v)| (k.into(), v.into())).into();
    assert_eq!(env, right);

    let http =
        one(json!({"name": "s", "url": "${env:URL}/mcp", "headers": {"Authorization": "Bearer ${env:A}"}}));
    let Transport::Http { url, headers } = http.resolve_secrets(&lookup).unwrap().transport else {
        panic!("not http")
    };
    assert_eq!((url.as_str(), headers["Authorization"].as_str()), ("https://h/mcp", "Bearer one"));

    for (entry, path, part) in [
        (json!({"command": "c", "args": ["x", "${env:NO}"]}), "args[1]", "set NO"),
        (json!({"command": "c", "env": {"K": "${keyring:k}"}}), "env.K", "${env:NAME}"),
        (json!({"command": "${input:x}"}), "command", "${env:NAME}"),
        (json!({"command": "c", "cwd": "${env:NO}"}), "working_dir", "set NO"),
        (json!({"url": "${env:A}"}), "url", "whole address"),
        (json!({"url": "https://h", "headers": {"A": "${env:NL}"}}), "headers.A", "take it out"),
    ] {
        let mut named = entry.clone();
        named["name"] = json!("s");
        let problem = one(named).resolve_secrets(&lookup).unwrap_err();
        assert_eq!(problem.path, format!("$.mcpServers[0].{path}"), "{entry}");
        assert!(problem.fix.contains(part), "{problem}");
    }
    let sse = one(json!({"name": "s", "type": "sse", "url": "https://h"}));
    assert!(sse.resolve_secrets(&lookup).unwrap_err().message.contains("not in this version yet"));
}

#[test]
fn a_fingerprint_changes_with_what_would_be_launched_and_with_nothing_else() {
    let print = |entry: Value| one(entry).launch_fingerprint();
    let base = print(json!({"name": "s", "command": "c", "args": ["a"], "env": {"A": "1", "B": "2"}}));
    for same in [
        json!({"name": "other", "command": "c", "args": ["a"], "env": {"B": "2", "A": "1"}}),
        json!({"name": "s", "command": "c", "args": ["a"], "env": {"A": "1", "B": "2"}, "enabled": false, "cwd": ""}),
        json!({"name": "s", "type": "stdio", "command": "c", "args": ["a"], "env": {"A": "1", "B": "2"}, "init_timeout": "9s"}),
    ] {
        assert_eq!(print(same), base);
    }
    for other in [
        json!({"name": "s", "command": "d", "args": ["a"], "env": {"A": "1", "B": "2"}}),
        json!({"name": "s", "command": "c", "args": ["a", ""], "env": {"A": "1", "B": "2"}}),
        json!({"name": "s", "command": "c", "args": ["a"], "env": {"A": "1", "B": "${env:B}"}}),
        json!({"name": "s", "command": "c", "args": ["a"], "env": {"A": "1", "B": "2"}, "cwd": "/x"}),
        json!({"name": "s", "url": "https://c"}),
        json!({"name": "s", "url": "https://c", "type": "sse"}),
    ] {
        assert_ne!(print(other.clone()), base, "{other}");
    }
    let header = |name: &str| print(json!({"name": "s", "url": "https://c", "headers": {name: "v"}}));
    assert_eq!(header("X-A"), header("x-a"));
    assert_ne!(header("X-A"), header("X-B"));
}

#[test]
fn entries_inherit_the_global_limits() {
    let config = good(
        r#"{"call_tool_timeout": "10s", "init_timeout": "7s", "upstream_max_message_bytes": 4096,
            "mcpServers": [{"name": "a", "command": "c"}, {"name": "b", "command": "c", "call_tool_timeout": "1s",
              "init_timeout": "2s", "upstream_max_message_bytes": 8192}]}"#,
    );
    let facts: Vec<_> = config
        .servers
        .iter()
        .map(|s| (s.call_tool_timeout.as_secs(), s.init_timeout.as_secs(), s.upstream_max_message_bytes))
        .collect();
    assert_eq!(facts, [(10, 7, 4096), (1, 2, 8192)]);
}

#[test]
fn ten_thousand_servers_load() {
    let entries: Vec<_> =
        (0..10_000).map(|i| json!({"name": format!("s{i}"), "command": "c", "x": i})).collect();
    let (config, warnings) = crate::check(&json!({"mcpServers": entries}).to_string()).unwrap();
    assert_eq!(config.servers.len(), 10_000);
    assert!(warnings.len() <= 101 && warnings.last().unwrap().message.contains("more warnings"));
}

#[test]
fn a_server_made_by_hand_has_the_defaults_of_an_entry() {
    let transport = Transport::Http { url: "https://h/mcp".to_owned(), headers: BTreeMap::new() };
    let by_hand = Server::new("s", transport);
    let written = one(json!({"name": "s", "url": "https://h/mcp"}));
    assert_eq!(Server { at: by_hand.at.clone(), ..written }, by_hand);
}
