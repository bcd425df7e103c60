//! Single values: numbers, durations, paths, hosts, and what is refused of them.

use std::path::Path;
use std::time::Duration;

use config::{OutputValidation, ValidationMode};
use serde_json::json;

use crate::{bad, check, good, lines, only_problem, warned};

#[test]
fn absent_null_zero_negative_float_huge_and_text_are_told_apart() {
    let max = |value: &str| good(&format!("{{\"tool_output_max_bytes\": {value}}}")).output.max_bytes;
    assert_eq!(good("{}").output.max_bytes, 52_428_800);
    assert_eq!((max("null"), max("0")), (52_428_800, 52_428_800));
    assert_eq!(
        (max("50"), max("1e3"), max("1000.0"), max("9223372036854775807")),
        (50, 1_000, 1_000, i64::MAX as u64)
    );
    for (value, part) in [
        ("-1", "at least 0"),
        ("1.5", "whole number"),
        ("\"50\"", "whole number"),
        ("18446744073709551616", "whole number"),
        ("18446744073709551615", "whole number"),
        ("1e300", "whole number"),
        ("true", "whole number"),
        ("[]", "whole number"),
    ] {
        let problem = only_problem(&format!("{{\"tool_output_max_bytes\": {value}}}"));
        assert_eq!(problem.path, "$.tool_output_max_bytes");
        assert!(problem.message.contains(part), "{problem}");
    }
    assert!(only_problem(r#"{"tool_output_max_bytes": "50"}"#).fix.contains("50 without quotes"));
}

#[test]
fn explicit_zeros_are_obeyed() {
    let config = good(
        r#"{"max_result_size_chars": 0, "activity_max_size_mb": 0, "activity_retention_days": 0,
            "activity_max_records": 0, "tool_output_min_free_bytes": 0, "tool_output_max_total_bytes": 0}"#,
    );
    assert_eq!(config.max_result_size_chars, 0);
    let activity = config.activity;
    assert_eq!((activity.max_size_mb, activity.retention_days, activity.max_records), (0, 0, 0));
    assert_eq!((config.output.min_free_bytes, config.output.max_total_bytes), (0, 0));
    assert_eq!(good(r#"{"tools_limit": 0, "init_timeout": "0s"}"#), good("{}"));
}

#[test]
fn a_duration_is_a_text() {
    let config = good(r#"{"call_tool_timeout": "1h2m3.5s", "init_timeout": "500ms"}"#);
    assert_eq!(
        (config.call_tool_timeout, config.init_timeout),
        (Duration::from_millis(3_723_500), Duration::from_millis(500))
    );
    for (value, part) in [
        ("30", "write \"30s\""),
        ("\"30\"", "write a duration"),
        ("\"0s\"", "write at least"),
        ("\"-1s\"", "write a duration"),
        ("\"1d\"", "write a duration"),
        ("\"\"", "write a duration"),
        ("{}", "write \"30s\""),
        ("\"2000000h\"", "write at most"),
    ] {
        let problem = only_problem(&format!("{{\"call_tool_timeout\": {value}}}"));
        assert!(problem.path == "$.call_tool_timeout" && problem.fix.contains(part), "{problem}");
    }
    assert!(only_problem(r#"{"init_timeout": "31m"}"#).message.contains("too long"));
}

#[test]
fn a_long_step_limit_raises_a_total_that_nobody_wrote() {
    let config = good(
        r#"{"call_tool_timeout": "1h", "mcpServers": [{"name": "s", "command": "c", "call_tool_timeout": "2h"}]}"#,
    );
    assert_eq!(config.call_tool_total_timeout, Duration::from_secs(3600));
    assert_eq!(config.servers[0].call_tool_total_timeout, Duration::from_secs(7200));
    let text = r#"{"call_tool_timeout": "1h", "call_tool_total_timeout": "10m"}"#;
    assert_eq!(good(text).call_tool_total_timeout, Duration::from_secs(600));
    assert!(warned(text)[0].message.contains("can never be reached"));
}

#[test]
fn roots_and_other_directories_are_absolute() {
    let config = good(
        r#"{"tool_output_roots": ["/a", "/b c"], "tool_output_trusted_directories": ["/t"],
            "tool_output_path_map": {"/in": "/out", "/a": "/b"}, "tool_output_file_mode": "0660",
            "tool_output_trusted_owners": ["alice", 1000]}"#,
    );
    assert_eq!(config.output.roots, [Path::new("/a"), Path::new("/b c")]);
    assert_eq!(config.output.path_map[0], ("/in".into(), "/out".into()));
    assert_eq!(
        (config.output.file_mode, config.output.trusted_owners.join(" ")),
        (0o660, "alice 1000".to_owned())
    );
    for (text, path) in [
        (r#"{"tool_output_roots": ["/a", "b"]}"#, "$.tool_output_roots[1]"),
        (r#"{"tool_output_roots": ["~/a"]}"#, "$.tool_output_roots[0]"),
        (r#"{"tool_output_roots": [""]}"#, "$.tool_output_roots[0]"),
        (r#"{"tool_output_roots": [1]}"#, "$.tool_output_roots[0]"),
        (r#"{"tool_output_roots": "/a"}"#, "$.tool_output_roots"),
        (r#"{"tool_output_trusted_directories": ["t"]}"#, "$.tool_output_trusted_directories[0]"),
        (r#"{"tool_output_path_map": {"in": "/out"}}"#, "$.tool_output_path_map.in"),
        (r#"{"tool_output_path_map": {"/in": "out"}}"#, "$.tool_output_path_map[\"/in\"]"),
        (r#"{"tool_output_file_mode": "0644"}"#, "$.tool_output_file_mode"),
        (r#"{"tool_output_file_mode": 384}"#, "$.tool_output_file_mode"),
        (r#"{"tool_output_trusted_owners": ["a:b"]}"#, "$.tool_output_trusted_owners[0]"),
        (r#"{"tool_output_trusted_owners": [-1]}"#, "$.tool_output_trusted_owners[0]"),
        (r#"{"tool_output_trusted_owners": [4294967295]}"#, "$.tool_output_trusted_owners[0]"),
        (r#"{"logging": {"log_dir": "logs"}}"#, "$.logging.log_dir"),
        (r#"{"environment": {"custom_vars": {"A=": "b"}}}"#, "$.environment.custom_vars[\"A=\"]"),
        (r#"{"data_dir": "data"}"#, "$.data_dir"),
        (r#"{"data_dir": "${env:NOT_SET}/x"}"#, "$.data_dir"),
    ] {
        assert_eq!(only_problem(text).path, path);
    }
    assert_eq!(good(r#"{"data_dir": "~/d"}"#).data_dir, Path::new("/home/somebody/d"));
    assert_eq!(good(r#"{"data_dir": "${env:HOME}/e"}"#).data_dir, Path::new("/home/somebody/e"));
}

#[test]
fn an_address_that_others_can_reach_needs_authentication() {
    for listen in ["0.0.0.0:8080", "[::]:8080", "192.168.0.1:1", "box.example:8080"] {
        let problem = only_problem(&json!({"listen": listen}).to_string());
        assert!(problem.path == "$.listen" && problem.fix.contains("require_mcp_auth"), "{problem}");
        assert_eq!(
            good(&json!({"listen": listen, "require_mcp_auth": true}).to_string()).listen.to_string(),
            listen
        );
    }
    assert_eq!(good(r#"{"listen": ":0"}"#).listen.to_string(), "127.0.0.1:0");
    assert_eq!(good(r#"{"listen": ""}"#).listen.to_string(), "127.0.0.1:8080");
    for listen in ["8080", "localhost", "::1:80", "x:y"] {
        assert_eq!(only_problem(&json!({"listen": listen}).to_string()).path, "$.listen");
    }
}

#[test]
fn hosts_are_names_and_not_addresses_of_pages() {
    let hosts = json!({"trusted_hosts": ["a.example", "a.example:80", ".example", "[::1]:80", "10.0.0.1"]});
    assert_eq!(good(&hosts.to_string()).trusted_hosts.len(), 5);
    for host in ["http://a", "a/b", "", "a b", "*.example", "a@b"] {
        assert_eq!(
            only_problem(&json!({"trusted_hosts": [host]}).to_string()).path,
            "$.trusted_hosts[0]",
            "{host}"
        );
    }
    assert!(warned(r#"{"trusted_hosts": ["*"]}"#)[0].message.contains("web pages"));
}

#[test]
fn isolation_is_left_out_and_warned_about() {
    assert!(warned(r#"{"docker_isolation": {"mode": "docker"}}"#)[0].path.contains("docker_isolation"));
    assert!(!warned(r#"{"docker_isolation": {"enabled": true}}"#).is_empty());
}

#[test]
fn protections_that_are_not_there_are_refused_and_their_absence_is_fine() {
    for text in [
        r#"{"output_sanitisation": {"response_action": "block"}}"#,
        r#"{"mcpServers": [{"name": "s", "command": "c", "trust_mode": "scan"}]}"#,
        r#"{"tls": {"require_client_cert": true}}"#,
    ] {
        assert!(only_problem(text).message.contains("not in this version yet"));
    }
    for text in [
        r#"{"quarantine_enabled": false, "profiles": [], "forward_headers": []}"#,
        r#"{"output_sanitisation": {"response_action": "off"}, "output_validation": {"mode": "off"}}"#,
        r#"{"mcpServers": [{"name": "s", "command": "c", "trust_mode": "auto", "auto_approve_tool_changes": true,
            "skip_quarantine": true, "quarantined": false, "isolation": null}]}"#,
        r#"{"docker_isolation": {"enabled": false}, "mcpServers": {}}"#,
        r#"{"tool_response_mode": "", "toon_output": "", "routing_mode": "", "logging": null}"#,
    ] {
        assert!(warned(text).is_empty(), "{text}: {}", lines(&warned(text)));
    }
}

#[test]
fn output_validation_is_obeyed_and_zero_means_the_default() {
    let plain = good("{}").output_validation;
    assert_eq!((plain.mode, plain.max_bytes, plain.max_depth), (ValidationMode::Warn, 5 << 20, 64));
    assert!(!plain.block_missing);
    let zero = good(r#"{"output_validation": {"mode": "", "max_bytes": 0, "max_depth": 0}}"#);
    assert_eq!(zero.output_validation, plain);
    let set = good(
        r#"{"output_validation": {"mode": "strict", "max_bytes": 7, "max_depth": 9,
            "missing_structured_content": "block"}}"#,
    );
    let wanted =
        OutputValidation { mode: ValidationMode::Strict, max_bytes: 7, max_depth: 9, block_missing: true };
    assert_eq!(set.output_validation, wanted);
    let problem = only_problem(r#"{"output_validation": {"mode": "loud"}}"#);
    assert_eq!(problem.path, "$.output_validation.mode");
    assert_eq!(
        only_problem(r#"{"output_validation": {"max_depth": -1}}"#).path,
        "$.output_validation.max_depth"
    );
    let told = warned(r#"{"output_validation": {"mode": "off", "missing_structured_content": "block"}}"#);
    assert_eq!(told.len(), 1, "{}", lines(&told));
    assert!(told[0].message.contains("has no effect while"), "{}", told[0]);
}

#[test]
fn every_problem_is_reported_at_once() {
    let problems = bad(
        r#"{"listen": "nowhere", "tools_limit": 2000, "call_tool_timeout": 120, "tool_output_roots": ["rel"],
            "logging": "loud", "tls": {"enabled": true}, "mcpServers": [{"name": "a:b", "command": "c"}, {"name": "b"}, 7]}"#,
    );
    let mut paths: Vec<_> = problems.iter().map(|p| p.path.as_str()).collect();
    paths.sort_unstable();
    let right = [
        "$.call_tool_timeout",
        "$.listen",
        "$.logging",
        "$.mcpServers[0].name",
        "$.mcpServers[1].command",
        "$.mcpServers[2]",
        "$.tls.enabled",
        "$.tool_output_roots[0]",
        "$.tools_limit",
    ];
    assert_eq!(paths, right);
    assert!(problems.iter().all(|p| !p.fix.is_empty() && !p.to_string().contains('\n')));
}

#[test]
fn a_limit_on_calls_needs_a_maximum_before_it_has_a_queue() {
    let config = good(
        r#"{"max_concurrent_requests": 8, "queue_size": 4, "queue_timeout": "5s",
            "server_concurrency_defaults": {"max_concurrent_requests": 2, "queue_size": 1},
            "mcpServers": [{"name": "a", "command": "c"}, {"name": "b", "command": "c", "max_concurrent_requests": 0},
              {"name": "d", "command": "c", "queue_size": 9, "queue_timeout": "1s"}]}"#,
    );
    let limit = |c: config::Concurrency| (c.max, c.queue, c.timeout.as_secs());
    assert_eq!(limit(config.concurrency), (Some(8), 4, 5));
    let servers: Vec<_> = config.servers.iter().map(|s| limit(s.concurrency)).collect();
    assert_eq!(servers, [(Some(2), 1, 30), (None, 0, 30), (Some(2), 9, 1)]);
    assert_eq!(only_problem(r#"{"queue_size": 1}"#).path, "$.queue_size");
    assert_eq!(
        only_problem(r#"{"mcpServers": [{"name": "a", "command": "c", "queue_size": 1}]}"#).path,
        "$.mcpServers[0].queue_size"
    );
}

#[test]
fn messages_never_repeat_a_secret() {
    let secret = ["hun", "ter", "2"].concat();
    let texts = [
        json!({"api_key": format!("{secret} {secret}")}),
        json!({"api_key": [secret]}),
        json!({"mcpServers": [{"name": "s", "url": format!("ftp://u:{secret}@h")}]}),
        json!({"mcpServers": [{"name": "s", "url": "http://h", "headers": {"A": format!("{secret}\n")}}]}),
        json!({"mcpServers": [{"name": "s", "command": "c", "env": {"A": [secret]}}]}),
        json!({"mcpServers": [{"name": "s", "command": format!("{secret}\u{0}"), "args": [secret]}]}),
    ];
    for text in texts {
        let problems = bad(&text.to_string());
        assert!(!format!("{problems:?}").contains(&secret), "{}", lines(&problems));
    }
    let config = good(
        &json!({"api_key": secret, "environment": {"custom_vars": {"A": secret}}, "mcpServers": [
            {"name": "a", "command": "c", "args": [secret], "env": {"A": secret}},
            {"name": "b", "url": format!("https://u:{secret}@h/{secret}?k={secret}"), "headers": {"A": secret}},
            {"name": "c", "type": "sse", "url": format!("https://h/{secret}")}]})
        .to_string(),
    );
    assert!(!format!("{config:?}").contains(&secret), "{config:?}");
}

#[test]
fn a_key_that_is_a_reference_or_cannot_be_sent_is_refused() {
    for key in ["${env:KEY}", "a b", "a\nb", "schlüssel"] {
        assert_eq!(only_problem(&json!({"api_key": key}).to_string()).path, "$.api_key");
    }
    assert!(good(r#"{"api_key": ""}"#).api_key.is_none());
    let (config, _) = check(r#"{"api_key": "0123"}"#).unwrap();
    assert!(config.api_key.is_some_and(|key| key.matches("0123")));
}
