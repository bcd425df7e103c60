//! The commands for tools, servers and saved files, and the routes behind them: what is printed, in which form, and what
//! they refuse to touch.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::home::{Output, finish_within};
use testkit::script::text_result;
use testkit::{Action, Gateway, Home, Reply, Script};

use crate::common::{home, home_with_text, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// Two tools with long words, a server that cannot start, and one that is switched off.
fn office() -> Home {
    let tool = |name: &str, description: &str, annotations: &str| {
        format!(
            r#"{{"name":"{name}","description":{},"inputSchema":{{"type":"object"}},"annotations":{annotations}}}"#,
            json!(description)
        )
    };
    let tools = vec![
        tool(
            "get_user",
            "Gives one user by id.\nMore words.",
            r#"{"readOnlyHint":true,"openWorldHint":false}"#,
        ),
        tool(
            "delete_user",
            "Removes a user and all that belongs to it, which nobody can take back, so be sure that it is the right one",
            r#"{"destructiveHint":true}"#,
        ),
    ];
    let script = Script::text("hello").tools(tools);
    testkit::home!()
        .root("root")
        .upstream("users", script.clone())
        .upstream_with("off", script, json!({"enabled": false}))
        .server(json!({"name": "broken", "command": "/nonexistent/a-program"}), json!({}))
}

/// Runs a command line as wide as so many columns.
fn wide(home: &Home, columns: usize, args: &[&str]) -> Output {
    let mut command = home.command();
    command.args(args).arg("--config").arg(home.config_file());
    command.env("COLUMNS", columns.to_string());
    finish_within(command, PATIENCE)
}

fn json_of(home: &Home, args: &[&str]) -> Value {
    let output = home.run(&[args, &["-o", "json"]].concat());
    assert_eq!(output.code, 0, "{args:?}: {}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", output.stdout))
}

/// One request of the REST API with the key.
fn rest(home: &Home, gateway: &Gateway, method: &str, path: &str) -> (u16, Value, Reply) {
    let key = home.api_key();
    let reply = gateway.endpoint().http(method, path, &[("x-api-key", &key)], b"");
    let value =
        serde_json::from_slice(&reply.body).unwrap_or_else(|e| panic!("{path}: {e}: {}", reply.text()));
    (reply.status, value, reply)
}

fn data(home: &Home, gateway: &Gateway, method: &str, path: &str) -> Value {
    let (status, mut value, _) = rest(home, gateway, method, path);
    assert_eq!((status, &value["success"]), (200, &true.into()), "{method} {path}: {value}");
    value["data"].take()
}

fn save(home: &Home, gateway: &Gateway, name: &str) -> String {
    let path = home.at(&format!("root/{name}"));
    gateway.call("srv:tool").save(&path).send().envelope();
    let path = path.to_str().unwrap().to_owned();
    // The row is written just after the reply.
    wait_for(|| (home.run(&["outputs", "show", &path]).code == 0).then_some(()));
    path
}

#[test]
fn tables_of_servers_fit_80_and_120_columns() {
    let home = office();
    let _gateway = home.serve();
    let expected = [
        (
            80,
            "NAME    PROTOCOL  TOOLS  STATUS    ACTION   DETAIL\n\
             broken  stdio         0  failed    restart  the command '/nonexistent/a-program…\n\
             off     stdio         0  disabled  enable   enabled is false in the configurati…\n\
             users   stdio         2  ready     -        scripted 1 (MCP 2025-11-25)\n",
        ),
        (
            120,
            "NAME    PROTOCOL  TOOLS  STATUS    ACTION   DETAIL\n\
             broken  stdio         0  failed    restart  the command '/nonexistent/a-program' was not found: write its full \
             path, or…\n\
             off     stdio         0  disabled  enable   enabled is false in the configuration\n\
             users   stdio         2  ready     -        scripted 1 (MCP 2025-11-25)\n",
        ),
    ];
    for (columns, table) in expected {
        let output = wide(&home, columns, &["upstream", "list"]);
        assert_eq!((output.stdout.as_str(), output.code), (table, 0), "{columns}: {}", output.stderr);
        assert_eq!(output.stderr, "", "{columns}");
    }
}

#[test]
fn tables_of_tools_fit_80_and_120_columns_and_are_whole_without_a_terminal() {
    let home = office();
    let gateway = home.serve();
    let head = "TOOL               CALL WITH         DESCRIPTION\nusers:delete_user  tool-destructive  ";
    let tail = "users:get_user     tool-read         Gives one user by id.\n";
    let all = "Removes a user and all that belongs to it, which nobody can take back, so be sure that it is the right one";
    for (columns, description) in [
        (80, "Removes a user and all that belongs to it,…"),
        (120, "Removes a user and all that belongs to it, which nobody can take back, so be sure…"),
        (200, all),
    ] {
        let output = wide(&home, columns, &["tools", "list"]);
        assert_eq!(output.stdout, format!("{head}{description}\n{tail}"), "{columns}");
    }
    let listed = home.run(&["tools", "list"]);
    assert_eq!(listed.stdout, format!("{head}{all}\n{tail}"));
    assert_eq!(listed.stderr, "");
    let found = home.run(&["tools", "search", "get user", "-n", "1"]);
    assert_eq!(found.stdout.lines().count(), 2, "{}", found.stdout);
    assert!(found.stdout.lines().nth(1).unwrap().starts_with("users:get_user"), "{}", found.stdout);
    let none = home.run(&["tools", "search", "zzz"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("No tool fits"), "{}", none.stderr);
    // Every table, whatever its rows say.
    gateway
        .call("users:get_user")
        .save(home.at("root/a-directory/with/quite-long/names/file.txt"))
        .send()
        .envelope();
    home.events("tool_call", 1);
    for columns in [80, 120] {
        for args in [&["outputs", "list"][..], &["activity", "list"], &["status"], &["outputs", "verify"]] {
            let output = wide(&home, columns, args);
            assert_eq!(output.code, 0, "{args:?}: {}", output.stderr);
            let lines = output
                .stdout
                .lines()
                .filter(|line| !line.starts_with(char::is_alphabetic) || args != ["status"]);
            for line in lines {
                assert!(line.chars().count() <= columns, "{args:?} at {columns}: {line}");
                assert_eq!(line, line.trim_end(), "{args:?}");
            }
        }
    }
    let list = wide(&home, 80, &["outputs", "list"]);
    assert!(list.stdout.contains("quite-long/names/file.txt"), "the end of a path is kept: {}", list.stdout);
    assert!(
        !list.stdout.contains("SAVED") && wide(&home, 120, &["outputs", "list"]).stdout.contains("SAVED")
    );
}

/// Runs a command line on a terminal that is so many columns wide; what came back holds both outputs.
fn on_a_terminal(home: &Home, columns: usize, variables: &str, args: &str) -> Option<String> {
    let mut plain = home.command();
    let line = format!(
        "stty cols {columns} rows 50; {variables} '{}' {args} --config '{}'",
        plain.get_program().to_str().unwrap(),
        home.config_file().display()
    );
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env_clear().env("TERM", "xterm").env("SHELL", "/bin/sh");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home.path());
    plain.stdin(Stdio::null());
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: there is no `script` to make a terminal with");
        return None;
    }
    let output = finish_within(command, PATIENCE);
    Some(output.stdout.replace("\r\n", "\n"))
}

#[test]
fn colours_are_for_terminals_whose_owner_wants_them() {
    let home = office();
    let _gateway = home.serve();
    let Some(coloured) = on_a_terminal(&home, 80, "", "upstream list") else { return };
    assert!(
        coloured.contains("\u{1b}[32mready\u{1b}[0m") && coloured.contains("\u{1b}[31mfailed"),
        "{coloured}"
    );
    let plain = wide(&home, 80, &["upstream", "list"]).stdout;
    for variables in ["NO_COLOR=1", "TERM=dumb"] {
        assert_eq!(on_a_terminal(&home, 80, variables, "upstream list").unwrap(), plain, "{variables}");
    }
    assert!(
        on_a_terminal(&home, 80, "NO_COLOR=", "upstream list").unwrap().contains("\u{1b}[32m"),
        "empty is not set"
    );
    let wider = on_a_terminal(&home, 120, "NO_COLOR=1", "upstream list").unwrap();
    assert_eq!(wider, wide(&home, 120, &["upstream", "list"]).stdout);
    let narrower = on_a_terminal(&home, 120, "NO_COLOR=1 COLUMNS=80", "upstream list").unwrap();
    assert_eq!(narrower, plain, "COLUMNS counts for more than the terminal");
    let json = on_a_terminal(&home, 80, "", "upstream list -o json").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), json_of(&home, &["upstream", "list"]));
}

#[test]
fn a_long_call_says_on_a_terminal_that_it_runs_and_nowhere_else() {
    let slow = Action::After(1600, Box::new(Action::Result(text_result("done"))));
    let progress = Action::Progress(20, 100, Box::new(slow));
    let home = home(progress);
    for way in ["standalone", "through the gateway"] {
        let gateway = (way != "standalone").then(|| home.serve());
        let quiet = home.run(&["call", "tool-read", "-t", "srv:tool"]);
        assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("done\n", ""), "{way}");
        let Some(seen) = on_a_terminal(&home, 80, "", "call tool-read -t srv:tool") else { return };
        assert!(seen.contains("\u{1b}[2Ksrv:tool … 1 s"), "{way}: {seen:?}");
        assert!(seen.ends_with("\r\u{1b}[2Kdone\n"), "{way}: {seen:?}");
        if gateway.is_some() {
            assert!(seen.contains(" s, "), "the upstream's own progress: {seen:?}");
        }
        let saved = on_a_terminal(
            &home,
            80,
            "",
            &format!(
                "call tool-read -t srv:tool --save-overwrite --save-to-file '{}'",
                home.at("root/x").display()
            ),
        );
        assert!(saved.unwrap().contains("srv:tool … "), "{way}: a save");
        let dumb = on_a_terminal(&home, 80, "TERM=dumb", "call tool-read -t srv:tool").unwrap();
        assert_eq!(dumb, "done\n", "{way}");
    }
}

#[test]
fn every_form_for_programs_parses_and_says_the_same() {
    let home = home_with_text();
    let gateway = home.serve();
    let path = save(&home, &gateway, "a.txt");
    let commands: [&[&str]; 11] = [
        &["upstream", "list"],
        &["upstream", "logs", "srv"],
        &["tools", "list"],
        &["tools", "list", "-s", "srv"],
        &["outputs", "list"],
        &["outputs", "show", &path],
        &["outputs", "verify", &path],
        &["outputs", "verify"],
        &["activity", "list"],
        &["call", "tool-read", "-t", "srv:tool"],
        &["outputs", "prune", "--older-than", "7d", "--dry-run"],
    ];
    for args in commands {
        let json = json_of(&home, args);
        let yaml = home.run(&[args, &["-o", "yaml"]].concat());
        assert_eq!((yaml.code, yaml.stderr.as_str()), (0, ""), "{args:?}");
        if let Some(read) = read_yaml(&yaml.stdout)
            && args[0] != "activity"
        {
            assert_eq!(read, json, "{args:?}: {}", yaml.stdout);
        }
    }
    let servers = json_of(&home, &["upstream", "list"]);
    assert_eq!((servers[0]["name"].as_str(), servers[0]["connected"].as_bool()), (Some("srv"), Some(true)));
}

/// What a reader of YAML makes of it; nothing where there is none.
fn read_yaml(text: &str) -> Option<Value> {
    let program = "import json,sys,yaml\nprint(json.dumps(yaml.safe_load(sys.stdin.read())))";
    let mut child = Command::new("python3");
    child.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().ok()?;
    std::io::Write::write_all(child.stdin.as_mut()?, text.as_bytes()).ok()?;
    let output = child.wait_with_output().unwrap();
    if !output.status.success()
        && Command::new("python3")
            .args(["-c", "import yaml"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| !s.success())
    {
        println!("skipped: no reader of YAML here");
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {text}")))
}

#[test]
fn yaml_of_whatever_an_upstream_says_parses() {
    let odd = r#"{"content":[{"type":"text","text":"a: b\n# c\t\u001b\u2028é\ud800"},{"type":"x","yes":"no","1":[[],{},[[1]]],"- ":" "}],"structuredContent":{"n":1e45,"z":-0,"m":12345678901234567890123,"":null,"<<":"*a"}}"#;
    let home = home(Action::Result(odd.into()));
    let output = home.run(&["call", "tool-read", "-t", "srv:tool", "-o", "yaml"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let Some(read) = read_yaml(&output.stdout) else { return };
    assert_eq!(read["content"][0]["text"], "a: b\n# c\t\u{1b}\u{2028}é\u{fffd}");
    assert_eq!(read["content"][1], json!({"type": "x", "yes": "no", "1": [[], {}, [[1]]], "- ": " "}));
    assert_eq!(
        (&read["structuredContent"][""], &read["structuredContent"]["<<"]),
        (&Value::Null, &"*a".into())
    );
    assert!(output.stdout.contains("12345678901234567890123"), "{}", output.stdout);
}

#[test]
fn servers_over_http_have_the_shapes_that_others_know() {
    let home = office();
    let gateway = home.serve();
    let all = data(&home, &gateway, "GET", "/api/v1/servers");
    assert_eq!(
        all["stats"],
        json!({"total_servers": 3, "connected_servers": 1, "quarantined_servers": 0, "total_tools": 2, "docker_containers": 0})
    );
    let server =
        |name: &str| all["servers"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone();
    let users = server("users");
    for (key, value) in [
        ("id", json!("users")),
        ("enabled", json!(true)),
        ("connected", json!(true)),
        ("status", json!("ready")),
        ("tool_count", json!(2)),
    ] {
        assert_eq!(users[key], value, "{key}");
    }
    assert_eq!(users["health"]["summary"], "Connected (2 tools)");
    assert_eq!(
        (&server("off")["enabled"], &server("off")["health"]["action"]),
        (&false.into(), &"enable".into())
    );
    assert_eq!(server("broken")["health"]["level"], "unhealthy");
    assert!(server("broken")["last_error"].as_str().unwrap().contains("a-program"));

    let tools = data(&home, &gateway, "GET", "/api/v1/servers/users/tools");
    assert_eq!((&tools["server"], &tools["count"]), (&"users".into(), &2.into()));
    assert_eq!(
        tools["tools"][0],
        json!({"name": "delete_user", "server_name": "users", "tool_id": "users:delete_user",
               "description": tools["tools"][0]["description"], "annotations": {"destructiveHint": true},
               "call_with": "call_tool_destructive"})
    );
    assert_eq!(data(&home, &gateway, "GET", "/api/v1/servers/off/tools")["tools"], json!([]));
    let all = data(&home, &gateway, "GET", "/api/v1/tools");
    assert_eq!(all["stats"], json!({"total": 2, "enabled": 2, "disabled": 0, "pending_approval": 0}));

    let found = data(&home, &gateway, "GET", "/api/v1/index/search?q=get%20user&limit=1");
    assert_eq!((&found["query"], &found["total"]), (&"get user".into(), &1.into()));
    assert_eq!(found["results"][0]["tool"]["name"], "get_user");
    assert!(
        found["results"][0]["score"].as_f64().unwrap() > 0.0
            && found["took"].as_str().unwrap().ends_with("ms")
    );

    let log = data(&home, &gateway, "GET", "/api/v1/servers/users/logs?tail=1");
    assert_eq!((&log["server_name"], &log["count"]), (&"users".into(), &1.into()));
    let line = &log["logs"][0];
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z') && line["server"] == "users", "{line}");
}

#[test]
fn a_server_is_switched_off_and_on_by_route_and_by_command() {
    let home = home_with_text();
    // The file as a person wrote it, with what we know nothing of.
    let mut config: Value = {
        home.write_config();
        serde_json::from_slice(&fs::read(home.config_file()).unwrap()).unwrap()
    };
    config["mcpServers"][0]["x-note"] = json!("mine");
    let gateway = home.serve_as(serde_json::to_string_pretty(&config).unwrap().as_bytes());
    let state = |wanted: &str| wait_for(|| (gateway.server("srv")["state"] == wanted).then_some(()));
    let entry = || -> Value {
        let file: Value = serde_json::from_slice(&fs::read(home.config_file()).unwrap()).unwrap();
        file["mcpServers"][0].clone()
    };
    let off = data(&home, &gateway, "POST", "/api/v1/servers/srv/disable");
    assert_eq!(
        (&off["server"], &off["action"], &off["success"]),
        (&"srv".into(), &"disable".into(), &true.into())
    );
    state("disabled");
    assert_eq!((&entry()["enabled"], &entry()["x-note"]), (&false.into(), &"mine".into()));
    assert_eq!(
        data(&home, &gateway, "GET", "/api/v1/tools")["tools"],
        json!([]),
        "its tools are not to be called"
    );
    let (status, refused, _) = rest(&home, &gateway, "POST", "/api/v1/servers/srv/restart");
    assert_eq!(status, 409, "{refused}");
    data(&home, &gateway, "POST", "/api/v1/servers/srv/enable");
    state("ready");
    for (action, wanted) in [("disable", "disabled"), ("enable", "ready")] {
        let output = home.run(&["upstream", action, "srv"]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(output.stdout.contains("srv"), "{}", output.stdout);
        state(wanted);
    }
    let pid = gateway.server("srv")["pid"].clone();
    let output = home.run(&["upstream", "restart", "srv"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    wait_for(|| {
        let now = gateway.server("srv");
        (now["state"] == "ready" && now["pid"] != pid).then_some(())
    });
    gateway.stop();
    // Without a gateway the file is changed all the same, and there is nothing to restart.
    assert_eq!(home.run(&["upstream", "disable", "srv"]).code, 0);
    assert_eq!((&entry()["enabled"], &entry()["x-note"]), (&false.into(), &"mine".into()));
    let list = json_of(&home, &["upstream", "list"]);
    assert_eq!((list[0]["enabled"].as_bool(), list[0]["status"].as_str()), (Some(false), Some("disabled")));
    let restart = home.run(&["upstream", "restart", "srv"]);
    assert_eq!((restart.code, restart.stdout.as_str()), (1, ""));
    assert!(restart.stderr.contains("mcpproxy serve"), "{}", restart.stderr);
    let logs = home.run(&["upstream", "logs", "srv", "-n", "2"]);
    assert_eq!((logs.code, logs.stdout.lines().count()), (0, 2), "the log is there after the gateway");
}

#[test]
fn bad_ids_and_queries_are_400_or_404_in_the_envelope_and_never_5xx() {
    let home = home_with_text();
    let gateway = home.serve();
    let cases = [
        ("POST", "/api/v1/servers/nope/enable", 404),
        ("POST", "/api/v1/servers/nope/disable", 404),
        ("POST", "/api/v1/servers/nope/restart", 404),
        ("GET", "/api/v1/servers/nope/tools", 404),
        ("GET", "/api/v1/servers/nope/logs", 404),
        ("GET", "/api/v1/servers/%2e%2e%2fsrv/logs", 404),
        ("GET", "/api/v1/servers/%2573rv/tools", 404),
        ("GET", "/api/v1/servers/%FF/tools", 400),
        ("GET", "/api/v1/servers/srv/logs?tail=-1", 400),
        ("GET", "/api/v1/servers/srv/logs?tail=x", 400),
        ("GET", "/api/v1/index/search", 400),
        ("GET", "/api/v1/index/search?q=", 400),
        ("GET", "/api/v1/index/search?q=x&limit=0", 400),
        ("GET", "/api/v1/index/search?q=x&limit=101", 400),
        ("GET", "/api/v1/outputs?limit=0", 400),
        ("GET", "/api/v1/outputs?limit=1001", 400),
        ("GET", "/api/v1/outputs?until_ms=soon", 400),
        ("GET", "/api/v1/outputs/nope", 404),
        ("POST", "/api/v1/outputs/nope/verify", 404),
        ("DELETE", "/api/v1/outputs/nope", 404),
        ("DELETE", "/api/v1/outputs/%2Fetc%2Fpasswd", 404),
        ("DELETE", "/api/v1/outputs/%00", 404),
        ("GET", "/api/v1/outputs/%C3%28", 400),
        ("DELETE", "/api/v1/outputs", 405),
        ("GET", "/api/v1/servers/srv/enable", 405),
        ("GET", "/api/v1/nope", 404),
    ];
    for (method, path, expected) in cases {
        let (status, value, reply) = rest(&home, &gateway, method, path);
        assert_eq!(status, expected, "{method} {path}: {value}");
        assert_eq!(value["success"], false, "{method} {path}");
        assert!(!value["error"].as_str().unwrap().is_empty(), "{method} {path}");
        assert_eq!(value["request_id"].as_str(), reply.header("x-request-id").as_deref(), "{method} {path}");
    }
    assert_eq!(data(&home, &gateway, "GET", "/api/v1/servers/%73rv/tools")["count"], 1, "decoded once");
    // Without the key nothing is told.
    let routes = cases.iter().map(|(method, path, _)| (*method, *path));
    for (method, path) in routes.chain([("POST", "/api/v1/config/reload"), ("GET", "/api/v1/outputs")]) {
        let reply = gateway.endpoint().http(method, path, &[], b"");
        assert_eq!(reply.status, 401, "{method} {path}");
        let value: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(value["request_id"].as_str(), reply.header("x-request-id").as_deref(), "{method} {path}");
    }
}

#[test]
fn the_configuration_is_loaded_again_by_route_and_a_bad_one_is_named() {
    let home = home_with_text();
    let gateway = home.serve();
    let same = data(&home, &gateway, "POST", "/api/v1/config/reload");
    assert_eq!((&same["success"], &same["requires_restart"]), (&true.into(), &false.into()));
    fs::write(home.config_file(), r#"{"tool_output_roots": ["relative"]}"#).unwrap();
    let (status, value, _) = rest(&home, &gateway, "POST", "/api/v1/config/reload");
    assert_eq!(status, 400, "{value}");
    assert!(value["error"].as_str().unwrap().contains("tool_output_roots"), "{value}");
    assert!(!gateway.call("srv:tool").send().is_error(), "the one before stays in force");
}

#[test]
fn saved_files_are_listed_shown_verified_and_removed_with_and_without_a_gateway() {
    let home = home_with_text();
    let mut gateway = Some(home.serve());
    for name in ["a", "b", "c", "d"] {
        save(&home, gateway.as_ref().unwrap(), name);
    }
    for way in ["through the gateway", "standalone"] {
        let list = json_of(&home, &["outputs", "list", "-n", "2"]);
        let total = list["total"].as_u64().unwrap();
        assert_eq!(
            (list["outputs"].as_array().unwrap().len(), list["limit"].as_u64()),
            (2, Some(2)),
            "{way}"
        );
        let second = json_of(&home, &["outputs", "list", "-n", "1", "--offset", "1"]);
        assert_eq!(second["outputs"][0], list["outputs"][1], "{way}");
        let file = &list["outputs"][0];
        assert_eq!(
            (&file["server"], &file["tool"], &file["bytes"]),
            (&"srv".into(), &"tool".into(), &5.into()),
            "{way}"
        );
        let path = file["path"].as_str().unwrap().to_owned();
        for id in ["id", "request_id", "path"] {
            let one = json_of(&home, &["outputs", "show", file[id].as_str().unwrap()]);
            assert_eq!(&one["output"], file, "{way}: by {id}");
        }
        let verdict = json_of(&home, &["outputs", "verify", &path]);
        assert_eq!((&verdict["ok"], &verdict["state"]), (&true.into(), &"unchanged".into()), "{way}");
        let removed = home.run(&["outputs", "rm", file["id"].as_str().unwrap()]);
        assert_eq!(
            (removed.code, removed.stdout),
            (0, format!("removed {path}\n")),
            "{way}: {}",
            removed.stderr
        );
        assert!(!Path::new(&path).exists(), "{way}");
        assert_eq!(home.run(&["outputs", "show", &path]).code, 1, "{way}");
        // One that somebody removed by hand.
        let gone = list["outputs"][1]["path"].as_str().unwrap();
        fs::remove_file(gone).unwrap();
        let verdict = home.run(&["outputs", "verify", gone]);
        assert_eq!((verdict.code, verdict.stdout), (1, format!("gone {gone}\n")), "{way}");
        let removed = home.run(&["outputs", "rm", gone, "-o", "json"]);
        assert_eq!(removed.code, 0, "{way}: {}", removed.stderr);
        assert_eq!(serde_json::from_str::<Value>(&removed.stdout).unwrap()["state"], "gone", "{way}");
        assert_eq!(json_of(&home, &["outputs", "list"])["total"], total - 2, "{way}");
        drop(gateway.take());
    }
    assert_eq!(home.run(&["outputs", "list"]).stderr, "No saved answers.\n");
    assert_eq!(home.serve().stop(), Some(0), "no lock stayed behind");
}

#[test]
fn a_file_that_is_not_what_was_saved_is_neither_verified_nor_removed() {
    let home = home_with_text();
    let mut gateway = Some(home.serve());
    fs::write(home.at("outside/secret"), "hello").unwrap();
    type Change = fn(&Home, &Path);
    let changes: [(&str, Change); 4] = [
        ("written-over", |_, path| fs::write(path, "HELLO").unwrap()),
        ("truncated", |_, path| fs::write(path, "").unwrap()),
        ("a-link", |home, path| {
            fs::remove_file(path).unwrap();
            symlink(home.at("outside/secret"), path).unwrap();
        }),
        ("a-directory", |_, path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
    ];
    for (name, change) in changes {
        let path = save(&home, gateway.as_ref().unwrap(), name);
        change(&home, Path::new(&path));
    }
    let kept = save(&home, gateway.as_ref().unwrap(), "untouched");
    for way in ["through the gateway", "standalone"] {
        for (name, _) in changes {
            let path = home.at(&format!("root/{name}"));
            let shown = path.to_str().unwrap();
            let verdict = home.run(&["outputs", "verify", shown]);
            assert_eq!((verdict.code, verdict.stdout), (1, format!("changed {shown}\n")), "{way}");
            let removed = home.run(&["outputs", "rm", shown]);
            assert_eq!((removed.code, removed.stdout.as_str()), (1, ""), "{way}: {name}");
            assert!(removed.stderr.contains("changed since it was saved"), "{way}: {}", removed.stderr);
            assert!(fs::symlink_metadata(&path).is_ok(), "{way}: {name}");
        }
        if let Some(gateway) = &gateway {
            let path = home.at("root/a-link").to_str().unwrap().replace('/', "%2F");
            let (status, value, _) = rest(&home, gateway, "DELETE", &format!("/api/v1/outputs/{path}"));
            assert_eq!(status, 409, "{value}");
            let verdict = data(&home, gateway, "POST", &format!("/api/v1/outputs/{path}/verify"));
            assert_eq!((&verdict["ok"], &verdict["state"]), (&false.into(), &"changed".into()));
        }
        let all = home.run(&["outputs", "verify"]);
        assert_eq!(all.code, 1, "{way}");
        assert!(all.stderr.contains("5 saved answers, 4 of them"), "{way}: {}", all.stderr);
        let pruned = home.run(&["outputs", "prune", "--older-than", "0s", "-o", "json"]);
        if way == "standalone" {
            assert_eq!(pruned.code, 1, "what had to stay is told");
        }
        let pruned: Value = serde_json::from_str(&pruned.stdout).unwrap();
        assert_eq!(pruned["kept"], 4, "{way}: {pruned}");
        drop(gateway.take());
        if way == "through the gateway" {
            assert!(!Path::new(&kept).exists(), "the untouched one went");
            let gateway = home.serve();
            save(&home, &gateway, "untouched");
        }
    }
    assert_eq!(fs::read(home.at("outside/secret")).unwrap(), b"hello");
}

#[test]
fn prune_removes_by_age_beneath_a_root_and_says_first_what_it_would_remove() {
    let home = home_with_text().root("second");
    let gateway = home.serve();
    for name in ["a", "b"] {
        save(&home, &gateway, name);
    }
    gateway.call("srv:tool").save(home.at("second/c")).send().envelope();
    let count = || json_of(&home, &["outputs", "list"])["total"].as_u64().unwrap();
    wait_for(|| (count() == 3).then_some(()));
    let prune = |more: &[&str]| -> Value {
        let args = [&["outputs", "prune"], more].concat();
        json_of(&home, &args)
    };
    assert_eq!(prune(&["--older-than", "7d"])["removed"], 0, "young files stay");
    assert_eq!(count(), 3);
    let dry = prune(&["--older-than", "0s", "--dry-run"]);
    assert_eq!((&dry["removed"], &dry["dry_run"]), (&3.into(), &true.into()));
    assert_eq!(count(), 3);
    let root = home.at("second");
    let one = prune(&["--older-than", "0s", "--root", root.to_str().unwrap()]);
    assert_eq!(one["files"][0]["path"], root.join("c").to_str().unwrap());
    assert!(!root.join("c").exists() && home.at("root/a").exists());
    drop(gateway);
    assert_eq!(prune(&["--older-than", "0s", "--dry-run"])["removed"], 2, "standalone");
    let people = home.run(&["outputs", "prune", "--older-than", "0s"]);
    assert_eq!(people.code, 0, "{}", people.stderr);
    assert!(people.stdout.contains("removed") && people.stderr.contains("2 removed"), "{people:?}");
    assert!(!home.at("root/a").exists());
    for bad in ["7", "soon", "-1d"] {
        let output = home.run(&["outputs", "prune", &format!("--older-than={bad}")]);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{bad}");
    }
    assert_eq!(home.run(&["outputs", "prune"]).code, 1, "an age must be named");
}

#[test]
fn a_path_map_is_understood_in_both_directions() {
    let home = home_with_text();
    let inside = home.at("root").to_str().unwrap().to_owned();
    let home = home.set("tool_output_path_map", json!({inside.clone(): "/outside/of/the/container"}));
    let gateway = home.serve();
    let envelope = gateway.call("srv:tool").save("/outside/of/the/container/x").send().envelope();
    assert_eq!(envelope["saved_to"], "/outside/of/the/container/x");
    let one = wait_for(|| {
        let output = home.run(&["outputs", "show", "/outside/of/the/container/x", "-o", "json"]);
        serde_json::from_str::<Value>(&output.stdout).ok()
    });
    assert_eq!(one["output"]["path"], format!("{inside}/x"));
    assert_eq!(one["output"]["saved_to"], "/outside/of/the/container/x");
}

#[test]
fn before_the_first_start_the_commands_say_so_and_make_nothing() {
    let home = testkit::home!();
    for args in [&["outputs", "list"][..], &["outputs", "verify"], &["outputs", "show", "x"]] {
        let output = home.run(args);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{args:?}");
        assert!(output.stderr.contains("does not exist"), "{}", output.stderr);
    }
    let list = home.run(&["upstream", "list", "-o", "json"]);
    assert_eq!((list.code, list.stdout.trim()), (0, "[]"));
    assert!(!home.data().join("mcpproxy.db").exists());
}

#[test]
fn tools_are_found_without_a_gateway_and_nothing_stays_behind() {
    let home = office();
    let listed = json_of(&home, &["tools", "list"]);
    assert_eq!(listed["stats"]["total"], 2);
    let of_one = json_of(&home, &["tools", "list", "-s", "users"]);
    assert_eq!(of_one["tools"], listed["tools"]);
    let found = home.run(&["tools", "search", "delete a user", "-n", "1"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stdout.contains("users:delete_user"), "{}", found.stdout);
    assert!(found.stderr.contains("broken is not connected"), "{}", found.stderr);
    let unknown = home.run(&["tools", "list", "-s", "nope"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""));
    assert_eq!(home.serve().stop(), Some(0));
}
