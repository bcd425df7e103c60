//! What a new file changes, key by key, and what of it waits for a restart.

use config::{Applies, Change, ChangeKind, Document, KEYS, Standing, diff};
use serde_json::json;

use crate::keys::{example, file};
use crate::{check, good};

fn changes(old: &str, new: &str) -> Vec<Change> {
    diff(&Document::parse(old).unwrap(), &Document::parse(new).unwrap())
}

fn paths(old: &str, new: &str) -> Vec<String> {
    changes(old, new).into_iter().map(|change| change.path).collect()
}

#[test]
fn every_key_of_the_table_is_told_when_it_changes() {
    assert!(KEYS.len() > 150, "only {} keys", KEYS.len());
    for key in KEYS {
        let (old, new) = (file(key, None), file(key, Some(example(key))));
        let found = changes(&old, &new);
        let path = match (key.path, key.path.strip_prefix("mcpServers[].")) {
            ("mcpServers", _) => "mcpServers[other]".to_owned(),
            (_, Some("name")) => "mcpServers[renamed]".to_owned(),
            (_, Some("type" | "transport")) => "mcpServers[s].protocol".to_owned(),
            (_, Some("cwd")) => "mcpServers[s].working_dir".to_owned(),
            (_, Some("serverUrl" | "httpUrl")) => "mcpServers[s].url".to_owned(),
            (_, Some("disabled")) => "mcpServers[s].enabled".to_owned(),
            (_, Some(rest)) => format!("mcpServers[s].{rest}"),
            (path, None) => path.to_owned(),
        };
        let change = found.iter().find(|change| change.path == path);
        let change = change.unwrap_or_else(|| panic!("{}: {found:?}", key.path));
        assert_eq!(change.applies, key.applies, "{path}");
        if change.kind == ChangeKind::Changed {
            assert_eq!(change.has_effect, matches!(key.standing, Standing::Obeyed), "{path}");
        }
        assert!(changes(&new, &new).is_empty() && !changes(&new, &old).is_empty(), "{path}");
    }
}

#[test]
fn the_same_in_other_words_is_no_change() {
    for (old, new) in [
        (r#"{"call_tool_timeout": "2m"}"#, r#"{"call_tool_timeout": "120s"}"#),
        (r#"{"tools_limit": 15, "listen": null, "x": 1}"#, r#"{"listen": ""}"#),
        (r#"{"tools_limit": 1e1, "read_only_mode": true}"#, r#"{"read_only_mode": true, "tools_limit": 10}"#),
        (r#"{"logging": {}}"#, "{}"),
        (
            r#"{"mcpServers": [{"name": "a", "command": "c", "disabled": true}, {"name": "b", "url": "https://x/"}]}"#,
            r#"{"mcpServers": {"b": {"serverUrl": "https://x/", "args": []}, "a": {"enabled": false, "command": "c"}}}"#,
        ),
    ] {
        assert_eq!(paths(old, new), Vec::<String>::new(), "{old}");
    }
}

#[test]
fn servers_are_told_by_name_and_secrets_are_not_told() {
    let token = ["ghp_", "0123456789abcdefABCDEF0123456789abcd"].concat();
    let old = json!({"tool_output_roots": ["/a"], "mcpServers": [
        {"name": "stays", "command": "c"}, {"name": "goes", "command": "c"}, {"name": "odd [\"]", "command": "c"}]});
    let new = json!({"tool_output_roots": ["/b"], "api_key": token, "mcpServers": [
        {"name": "comes", "command": "c", "env": {"T": token}}, {"name": "odd [\"]", "command": "d"},
        {"name": "stays", "command": "c", "env": {"T": token}, "headers": {"Authorization": format!("Bearer {token}")}}]});
    let found = changes(&old.to_string(), &new.to_string());
    let told: Vec<_> = found.iter().map(|c| (c.path.as_str(), c.kind, c.server.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("api_key", ChangeKind::Changed, None),
            ("tool_output_roots", ChangeKind::Changed, None),
            ("mcpServers[comes]", ChangeKind::Added, Some("comes")),
            ("mcpServers[goes]", ChangeKind::Removed, Some("goes")),
            ("mcpServers[\"odd [\\\"]\"].command", ChangeKind::Changed, Some("odd [\"]")),
            ("mcpServers[stays].env", ChangeKind::Changed, Some("stays")),
            ("mcpServers[stays].headers", ChangeKind::Changed, Some("stays")),
        ]
    );
    assert!(!format!("{found:?}").contains(&token), "{found:?}");
    let roots = &found[1];
    assert_eq!((&roots.old, &roots.new), (&Some(json!(["/a"])), &Some(json!(["/b"]))));
    assert!(found[0].needs_restart() && !roots.needs_restart());
}

#[test]
fn what_needs_a_restart_stays_as_it_runs_and_the_rest_changes() {
    for key in KEYS.iter().filter(|key| matches!(key.standing, Standing::Obeyed)) {
        let running = good(&file(key, None));
        let (written, _) = check(&file(key, Some(example(key)))).unwrap();
        let merged = written.clone().with_restart_values_of(&running);
        let waits = written.waits_for_restart(&running);
        match key.applies {
            Applies::Restart => {
                // The logs lie in the data directory unless the file says otherwise.
                assert_eq!((merged, waits), (running.clone(), vec![key.path]), "{}", key.path);
            }
            Applies::Hot => assert_eq!((merged, waits), (written, vec![]), "{}", key.path),
        }
    }
}

#[test]
fn what_waits_for_a_restart_is_told_until_the_file_says_what_runs() {
    let running = good(r#"{"listen": ":1"}"#);
    let first = good(r#"{"listen": ":2"}"#);
    let now = first.with_restart_values_of(&running);
    let second = good(r#"{"listen": ":2", "read_only_mode": true}"#);
    assert_eq!(second.waits_for_restart(&now), ["listen"]);
    let now = second.with_restart_values_of(&now);
    assert!(now.read_only_mode && now.listen.port == 1);
    assert!(running.waits_for_restart(&now).is_empty());
}

#[test]
fn a_door_that_is_open_to_other_machines_never_loses_its_lock_at_reload() {
    let running = good(r#"{"listen": "0.0.0.0:1", "require_mcp_auth": true}"#);
    let written = good(r#"{"listen": "127.0.0.1:1"}"#);
    assert_eq!(written.waits_for_restart(&running), ["listen", "require_mcp_auth"]);
    let now = written.with_restart_values_of(&running);
    assert!(now.require_mcp_auth && !now.listen.is_loopback());
    let loopback = good("{}");
    let strict = good(r#"{"require_mcp_auth": true}"#);
    assert!(strict.with_restart_values_of(&loopback).require_mcp_auth);
    let loopback = good(r#"{"require_mcp_auth": true}"#);
    assert!(!good("{}").with_restart_values_of(&loopback).require_mcp_auth);
}
