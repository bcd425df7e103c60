//! The file is edited in place: what nobody asked to change stays, byte for byte.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use config::edit::{self, Step};
use serde_json::json;
use tempfile::TempDir;

/// A file as a person keeps it: an order of his own, a note, zeros that are meant, two styles of layout.
const TEXT: &str = r#"{
    "x_note": 1,
    "tool_output_roots": ["/srv/a",   "/srv/b"],
    "tool_output_max_bytes": 0,
    "max_result_size_chars":0,
    "activity_max_size_mb" : 0,

    "observability": { "tracing": {"sample_rate": 0, "x_inner": null} },
    "mcpServers": [
        {"name": "one", "command": "a", "env": {"Z": "1", "A": "2"}, "x_mine": [1.50, 1e3, -0]},
        {
            "name": "two",
            "command": "b",
            "enabled": true
        }
    ],
    "listen": ":0"
}
"#;

struct Place {
    _dir: TempDir,
    path: PathBuf,
}

fn file(text: &str) -> Place {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("mcp_config.json");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    Place { _dir: dir, path }
}

#[test]
fn explicit_zeros_survive_an_edit_of_something_else() {
    let place = file(TEXT);
    assert!(edit::set_server(&place.path, "two", "enabled", json!(false)).unwrap());
    assert!(edit::set(&place.path, &[Step::Key("tools_limit")], Some(&json!(7))).unwrap());
    let text = fs::read_to_string(&place.path).unwrap();
    let document = config::Document::parse(&text).unwrap();
    for key in [
        "tool_output_max_bytes",
        "max_result_size_chars",
        "activity_max_size_mb",
        "observability.tracing.sample_rate",
    ] {
        assert_eq!(document.get(key), Some(&json!(0)), "{key}");
    }
    let right = TEXT
        .replace("\"enabled\": true", "\"enabled\": false")
        .replace("\"listen\": \":0\"\n", "\"listen\": \":0\",\n    \"tools_limit\": 7\n");
    assert_eq!(text, right, "unknown keys, their order and every space stay");
}

#[test]
fn servers_are_switched_by_name_in_both_forms() {
    let place = file(TEXT);
    edit::set_server(&place.path, "one", "enabled", json!(false)).unwrap();
    let right = TEXT.replace("1e3, -0]}", "1e3, -0], \"enabled\": false}");
    assert_eq!(fs::read_to_string(&place.path).unwrap(), right);
    edit::set_server(&place.path, "one", "enabled", None).unwrap();
    assert_eq!(fs::read_to_string(&place.path).unwrap(), TEXT, "what is taken out again leaves nothing");

    let map = "{\n  \"mcpServers\": {\n    \"a b\": {\n      \"url\": \"https://x/\",\n      \"disabled\": true\n    }\n  }\n}\n";
    let place = file(map);
    edit::set_server(&place.path, "a b", "enabled", json!(true)).unwrap();
    assert_eq!(
        fs::read_to_string(&place.path).unwrap(),
        map.replace("\"disabled\": true", "\"disabled\": false")
    );
    edit::set_server(&place.path, "a b", "isolation.mode", json!("none")).unwrap();
    let text = fs::read_to_string(&place.path).unwrap();
    let right = "false,\n      \"isolation\": {\n        \"mode\": \"none\"\n      }\n    }";
    assert!(text.contains(right), "{text}");
    let problem = edit::set_server(&place.path, "c", "enabled", json!(true)).unwrap_err();
    assert!(problem.to_string().contains("\"c\""), "{problem}");
    assert_eq!(fs::read_to_string(&place.path).unwrap(), text);
}

#[test]
fn the_mode_is_kept_and_a_value_that_is_there_is_not_written_again() {
    for mode in [0o600, 0o640] {
        let place = file(TEXT);
        fs::set_permissions(&place.path, fs::Permissions::from_mode(mode)).unwrap();
        let before = place.path.metadata().unwrap();
        assert!(!edit::set_server(&place.path, "two", "enabled", json!(true)).unwrap());
        assert_eq!(place.path.metadata().unwrap().ino(), before.ino());
        assert!(edit::set_server(&place.path, "two", "enabled", json!(false)).unwrap());
        let after = place.path.metadata().unwrap();
        assert_eq!(after.mode() & 0o7777, mode);
        assert_ne!(after.ino(), before.ino(), "a new file took the old one's place");
        assert_eq!(fs::read_dir(place.path.parent().unwrap()).unwrap().count(), 1);
    }
}

#[test]
fn a_file_that_is_not_in_order_is_left_alone() {
    for text in ["{\"mcpServers\": [", "[1]", "{\"a\": 1, \"a\": 2}", "{} x", "\u{1}"] {
        let place = file(text);
        assert!(edit::set(&place.path, &[Step::Key("a")], Some(&json!(3))).is_err(), "{text}");
        assert_eq!(fs::read_to_string(&place.path).unwrap(), text);
    }
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("none.json");
    let problem = edit::set(&path, &[Step::Key("a")], Some(&json!(3))).unwrap_err();
    assert!(problem.fix.contains("config init") && !path.exists(), "{problem}");
}

#[test]
fn edits_of_many_threads_are_all_there() {
    let place = file("{\n  \"x\": 0\n}\n");
    std::thread::scope(|scope| {
        for i in 0..16 {
            let path = &place.path;
            scope.spawn(move || {
                edit::set(path, &[Step::Key(&format!("k{i}"))], Some(&json!(i))).unwrap();
            });
        }
    });
    let document = config::Document::parse(&fs::read_to_string(&place.path).unwrap()).unwrap();
    assert_eq!(document.root().len(), 17);
}
