//! The published schema and the configuration in effect.

use std::path::Path;

use config::show::{self, Origin};
use config::{Document, KEYS, Kind, Loaded, Standing};
use serde_json::{Value, json};

use crate::keys::{example, file};
use crate::{check, with_variables};

#[test]
fn the_published_schema_is_the_one_that_the_table_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == config::schema_text(),
        "docs/config.schema.json is not what the keys table says; run: mcpproxy config schema > docs/config.schema.json"
    );
}

#[test]
fn the_schema_says_what_the_program_says() {
    let schema = jsonschema::options().build(&config::schema()).unwrap();
    let is_valid = |text: &str| schema.is_valid(&serde_json::from_str::<Value>(text).unwrap());
    assert!(KEYS.len() > 150, "only {} keys", KEYS.len());
    for key in KEYS {
        for value in [None, Some(example(key)), Some(Value::Null)] {
            // An entry without command and address is none.
            let needed = ["command", "url", "serverUrl", "httpUrl", "name"];
            let is_needed = key.path.strip_prefix("mcpServers[].").is_some_and(|rest| needed.contains(&rest));
            if !is_needed || value.as_ref().is_some_and(|value| !value.is_null()) {
                let text = file(key, value);
                assert!(is_valid(&text), "{text}");
            }
        }
        let wrong = match key.kind {
            Kind::Any => continue,
            Kind::Bool | Kind::Object | Kind::TextMap | Kind::DirectoryMap => json!("text"),
            Kind::Servers | Kind::List | Kind::Texts | Kind::Owners | Kind::Directories => json!(1),
            Kind::Integer { .. } | Kind::Number => json!(-1),
            Kind::Duration { .. } => json!("5 minutes"),
            Kind::Text | Kind::Choice(_) => json!([1]),
        };
        let text = file(key, Some(wrong));
        assert!(!is_valid(&text), "{text}");
        assert!(check(&text).is_err(), "{text}");
    }
    for text in [r#"{"x_note": 1, "mcpServers": {"a": {"command": "c", "x": 1}}}"#, "{}"] {
        assert!(is_valid(text), "{text}");
    }
    for text in [
        r#"{"mcpServers": [{"command": "c"}]}"#,
        r#"{"mcpServers": [{"name": "a"}]}"#,
        r#"{"tool_output_roots": ["relative"]}"#,
        r#"{"tools_limit": 1001}"#,
        "[]",
    ] {
        assert!(!is_valid(text) && check(text).is_err(), "{text}");
    }
}

fn loaded(text: &str, sources: &config::Sources) -> Loaded {
    let document = Document::parse(text).unwrap();
    let (config, warnings) = config::check(&document, sources).unwrap();
    Loaded { path: sources.path.clone(), config, warnings, document, first_run: false }
}

#[test]
fn what_is_in_effect_is_shown_with_its_origin_and_without_secrets() {
    let secret = ["pass", "word-0123456789"].concat();
    let sources = with_variables(&[("MCPPROXY_LISTEN", ":9"), ("MCPPROXY_API_KEY", &secret)]);
    let text = json!({"listen": ":1", "tools_limit": 0, "tool_output_max_bytes": 0, "call_tool_timeout": "90s",
        "environment": {"custom_vars": {"K": secret}}, "x_note": 1, "routing_mode": "direct",
        "mcpServers": {"s": {"command": "c", "args": ["--token", secret], "env": {"T": secret, "R": "${env:R}"},
            "disabled": true, "queue_timeout": null}}});
    let loaded = loaded(&text.to_string(), &sources);
    let whole = show::whole(&loaded, &sources);
    assert!(!whole.to_string().contains(&secret), "{whole}");
    assert_eq!(whole["listen"], "127.0.0.1:9");
    assert_eq!((&whole["tools_limit"], &whole["tool_output_max_bytes"]), (&json!(15), &json!(52_428_800)));
    assert_eq!(whole["api_key"], "****");
    assert_eq!(whole["environment"]["custom_vars"], json!({"K": "****"}));
    assert!(whole.get("x_note").is_none() && whole.get("routing_mode").is_none(), "neither has an effect");
    assert_eq!(
        whole["mcpServers"][0],
        json!({"name": "s", "protocol": "stdio", "command": "c", "args": ["--token", "****"],
            "env": {"T": "****", "R": "${env:R}"}, "enabled": false, "call_tool_timeout": "1m30s",
            "call_tool_total_timeout": "30m", "init_timeout": "30s", "upstream_max_message_bytes": 268_435_456,
            "max_concurrent_requests": 0, "queue_size": 0, "queue_timeout": "30s"})
    );
    let origin = |path: &str| {
        show::settings(&loaded, &sources).into_iter().find(|setting| setting.path == path).unwrap().origin
    };
    assert_eq!(origin("listen"), Origin::Environment);
    assert_eq!(origin("call_tool_timeout"), Origin::File);
    assert_eq!(origin("spool_max_bytes"), Origin::Default);
}

#[test]
fn what_is_shown_is_a_file_that_means_the_same() {
    let sources = crate::sources();
    for key in KEYS.iter().filter(|key| matches!(key.standing, Standing::Obeyed)) {
        // Secrets are hidden, and what entries inherit is written into each.
        let inherited = key.path.starts_with("server_concurrency_defaults") || key.path.ends_with("_timeout");
        if ["api_key", "custom_vars", "env", "headers"].iter().any(|name| key.path.ends_with(name))
            || inherited
        {
            continue;
        }
        let before = loaded(&file(key, Some(example(key))), &sources);
        let text = show::whole(&before, &sources).to_string();
        let after = loaded(&text, &sources);
        assert_eq!(after.config, before.config, "{}: {text}", key.path);
    }
}
