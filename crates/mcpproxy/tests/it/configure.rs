//! The commands about the configuration file: what they say, what they write, and how they end.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::Home;
use testkit::home::{Output, finish, finish_within};

use crate::common::{home_with_text, wait_for};

/// A home without a configuration file, whose `HOME` is its own directory.
fn empty() -> Home {
    let home = testkit::home!();
    home.write_config();
    fs::remove_file(home.config_file()).unwrap();
    home
}

/// Runs a command without naming a file.
fn bare(home: &Home, args: &[&str]) -> Output {
    let mut command = home.command();
    command.args(args).stdin(Stdio::null());
    finish(command)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", output.stdout, output.stderr))
}

fn write(home: &Home, name: &str, text: &str) -> String {
    let path = home.at(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn validate_tells_every_problem_with_its_place_and_fix() {
    let home = empty();
    let bad = write(
        &home,
        "bad.json",
        r#"{"tool_output_roots": ["relative"], "call_tool_timeout": 120, "mcpServers": [{"name": "a:b", "command": "c"}]}"#,
    );
    let output = bare(&home, &["config", "validate", &bad]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    for part in [
        "bad.json is not in order: 3 problems",
        "$.tool_output_roots[0]",
        "$.call_tool_timeout",
        "$.mcpServers[0].name",
        "write \"120s\"",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    let told = json_of(&bare(&home, &["config", "validate", &bad, "-o", "json"]));
    assert_eq!((&told["valid"], told["problems"].as_array().unwrap().len()), (&json!(false), 3));
    assert!(told["problems"][0]["path"].is_string() && told["problems"][0]["fix"].is_string());

    let good = write(&home, "good.json", r#"{"x_note": 1, "mcpServers": {"a": {"command": "c"}}}"#);
    let output = bare(&home, &["config", "validate", &good]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("good.json is in order") && output.stdout.contains("warning: $.x_note"));
    let told = json_of(&bare(&home, &["config", "validate", "--config", &good, "-o", "json"]));
    assert_eq!((&told["valid"], told["warnings"].as_array().unwrap().len()), (&json!(true), 1));

    // What only the file system knows.
    let inside = home.at("data/x");
    let rooted = json!({"data_dir": home.data(), "tool_output_roots": [inside]}).to_string();
    let rooted = write(&home, "rooted.json", &rooted);
    let output = bare(&home, &["config", "validate", &rooted]);
    assert!(output.code == 4 && output.stdout.contains("$.tool_output_roots[0]"), "{}", output.stdout);
    assert!(!home.data().exists(), "nothing was made");
    let both = json!({"data_dir": home.data(), "tool_output_roots": [inside], "read_only_mode": "yes"});
    let both = write(&home, "both.json", &both.to_string());
    for args in
        [&["config", "validate", &both][..], &["serve", "--config", &both], &["status", "--config", &both]]
    {
        let output = bare(&home, args);
        let told = format!("{}{}", output.stdout, output.stderr);
        assert!(output.code == 4 && told.contains("$.read_only_mode"), "{told}");
        assert!(told.contains("$.tool_output_roots[0]"), "the root at once with the rest: {told}");
    }

    let missing = home.at("none.json");
    let output = bare(&home, &["config", "validate", missing.to_str().unwrap()]);
    assert!(output.code == 4 && output.stdout.contains("does not exist"), "{}", output.stdout);
    let output = bare(&home, &["config", "validate"]);
    assert!(
        output.code == 0 && output.stdout.contains("config init"),
        "no file is a first run: {}",
        output.stdout
    );
}

#[test]
fn show_hides_secrets_and_says_where_values_come_from() {
    let secret = ["pass", "word"].concat();
    let home = testkit::home!()
        .set("tools_limit", 7)
        .set("api_key", ["0123456789", "abcdef"].concat())
        .server(json!({"name": "s", "command": "c", "args": ["--token", secret], "env": {"T": secret, "R": "${env:R}"}}), json!({}));
    for form in ["table", "json", "yaml"] {
        let output = home.run(&["config", "show", "-o", form]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(
            !output.stdout.contains(&secret) && !output.stdout.contains("0123456789"),
            "{}",
            output.stdout
        );
    }
    let whole = json_of(&home.run(&["config", "show", "-o", "json"]));
    assert_eq!((&whole["tools_limit"], &whole["call_tool_timeout"]), (&json!(7), &json!("2m")));
    assert_eq!(whole["mcpServers"][0]["env"], json!({"T": "****", "R": "${env:R}"}));
    let table = home.run(&["config", "show"]).stdout;
    let row = |key: &str| table.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(row("tools_limit ").trim_end().ends_with("file"), "{table}");
    assert!(row("call_tool_timeout").trim_end().ends_with("default"), "{table}");
    assert!(row("s ").contains("--token ****"), "{table}");
    // What is shown is a file again.
    let again = write(&home, "again.json", &whole.to_string());
    let output = home.run(&["config", "validate", &again]);
    assert_eq!(output.code, 0, "{}", output.stdout);
}

#[test]
fn schema_prints_what_is_published_and_path_what_is_in_use() {
    let home = empty();
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    let output = bare(&home, &["config", "schema"]);
    assert_eq!(output.stdout, fs::read_to_string(published).unwrap());
    let schema: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");

    let right = home.at(".mcpproxy/mcp_config.json");
    let output = bare(&home, &["config", "path"]);
    assert_eq!((output.code, output.stdout.trim()), (0, right.to_str().unwrap()));
    assert!(output.stderr.contains("does not exist"), "{}", output.stderr);
    fs::create_dir(right.parent().unwrap()).unwrap();
    fs::write(&right, "{ not read }").unwrap();
    let told = json_of(&bare(&home, &["config", "path", "-o", "json"]));
    assert_eq!(told, json!({"path": right, "exists": true}));
}

#[test]
fn init_writes_a_private_file_and_directory_and_the_lines_for_clients() {
    let home = empty();
    let file = home.at(".mcpproxy/mcp_config.json");
    let output = bare(&home, &["config", "init", "--output-dir"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert_eq!(
        (mode(&file), mode(file.parent().unwrap()), mode(&home.at("mcp-output"))),
        (0o600, 0o700, 0o700)
    );
    let text = fs::read_to_string(&file).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(config, json!({"tool_output_roots": [home.at("mcp-output")], "mcpServers": {}}));
    for part in [
        "claude mcp add",
        "~/.cursor/mcp.json",
        "code --add-mcp",
        "codex mcp add",
        "gemini mcp add",
        "http://127.0.0.1:8080/mcp",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    assert_eq!(bare(&home, &["config", "validate"]).code, 0);

    let again = bare(&home, &["config", "init", "--output-dir", home.at("other").to_str().unwrap()]);
    assert!(again.code == 1 && again.stderr.contains("exists already"), "{}", again.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(!home.at("other").exists(), "nothing else was made");
}

#[test]
fn init_asks_nothing_without_a_terminal_and_makes_no_directory_by_itself() {
    let home = empty();
    let file = home.at("c.json");
    let output = bare(&home, &["config", "init", "--config", file.to_str().unwrap(), "-o", "json"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("--output-dir"), "{}", output.stderr);
    let told = json_of(&output);
    assert_eq!((&told["output_dir"], told["clients"].as_array().unwrap().len()), (&Value::Null, 5));
    let config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(config["tool_output_roots"], json!([]));
    assert!(!home.at("mcp-output").exists());
}

#[test]
fn init_refuses_a_directory_that_could_not_be_saved_in_and_leaves_nothing() {
    let home = empty();
    let file = home.at("conf/c.json");
    let run = |dir: &str| {
        let (file, dir) = (file.to_str().unwrap(), home.at(dir));
        bare(&home, &["config", "init", "--config", file, "--output-dir", dir.to_str().unwrap()])
    };
    // Where the gateway keeps its own files, agents must not write.
    let output = run(".mcpproxy/x/out");
    assert_eq!(output.code, 4, "{}{}", output.stdout, output.stderr);
    assert!(output.stderr.contains("No file was written") && output.stderr.contains(".mcpproxy/x/out"));
    assert!(!home.at(".mcpproxy").exists(), "what was made is gone again");
    // A file is in the way.
    fs::write(home.at("taken"), "x").unwrap();
    let output = run("taken");
    assert!(output.code == 1 && output.stderr.contains("cannot be made"), "{}", output.stderr);
    assert!(!file.parent().unwrap().exists(), "{}", output.stderr);
    // A name that leads nowhere is taken.
    symlink("nowhere", home.at("dead.json")).unwrap();
    let dead = home.at("dead.json");
    let output = bare(&home, &["config", "init", "--config", dead.to_str().unwrap(), "--no-output-dir"]);
    assert!(output.code == 1 && output.stderr.contains("exists already"), "{}", output.stderr);
}

#[test]
fn init_asks_for_the_directory_on_a_terminal() {
    let has_script = Command::new("script").arg("--version").output().is_ok_and(|o| o.status.success());
    if !has_script {
        println!("skipped: `script`, which gives a terminal, is not here");
        return;
    }
    for (answer, made) in [("\n", Some("mcp-output")), ("~/elsewhere\n", Some("elsewhere")), ("-\n", None)] {
        let home = empty();
        let command = home.command();
        let program = command.get_program().to_str().unwrap().to_owned();
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{program} config init"), "/dev/null"]);
        script.env_clear().current_dir(home.path()).env("PATH", std::env::var_os("PATH").unwrap());
        script.env("HOME", home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("Directory to make"), "{text}");
        let config: Value =
            serde_json::from_slice(&fs::read(home.at(".mcpproxy/mcp_config.json")).unwrap()).unwrap();
        let roots: Vec<_> = made.iter().map(|name| home.at(name)).collect();
        assert_eq!(config["tool_output_roots"], json!(roots), "{answer:?}");
        assert!(roots.iter().all(|root| mode(root) == 0o700));
    }
}

#[test]
fn reload_asks_the_gateway_that_runs() {
    let home = home_with_text();
    let output = home.run(&["config", "reload"]);
    assert!(output.code == 1 && output.stderr.contains("no gateway runs"), "{}", output.stderr);

    let gateway = home.serve();
    let reload = |more: &[&str]| {
        let mut command = home.command();
        command.args(["config", "reload", "--config"]).arg(home.config_file()).args(more);
        finish_within(command, Duration::from_secs(60))
    };
    let output = reload(&[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("is loaded"), "{}", output.stdout);

    let mut config: Value = serde_json::from_slice(&fs::read(home.config_file()).unwrap()).unwrap();
    config["tools_limit"] = json!(3);
    config["enable_socket"] = json!(false);
    fs::write(home.config_file(), config.to_string()).unwrap();
    let told = json_of(&reload(&["-o", "json"]));
    assert_eq!(told["restart_fields"], json!(["enable_socket"]), "{told}");
    assert_eq!(gateway.status()["needs_restart"], json!(["enable_socket"]));

    fs::write(home.config_file(), "{").unwrap();
    let output = reload(&[]);
    assert!(output.code == 4 && output.stderr.contains("not valid JSON"), "{}", output.stderr);
    wait_for(|| gateway.status()["config_error"].is_string().then_some(()));
}
