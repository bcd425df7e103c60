//! The command line: what is printed where, and how commands end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::home::{Output, alive, finish_within, signal};
use testkit::script::{text_result, tool};
use testkit::{Action, Home, Script, tree};

use crate::common::{home, home_with, home_with_text, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

fn call(home: &Home, name: &str, more: &[&str]) -> Output {
    let mut args = vec!["call", "tool-read", "--tool-name", name];
    args.extend_from_slice(more);
    home.run(&args)
}

/// Runs `test` without a gateway and then with one.
fn each_way(home: &Home, mut test: impl FnMut(&str)) {
    test("standalone");
    let gateway = home.serve();
    test("through the gateway");
    drop(gateway);
}

#[test]
fn a_call_prints_the_text_or_the_raw_result() {
    let raw = r#"{ "content":[{"type":"text","text":"a\u00e9\nb"},{"type":"text","text":"c"}], "structuredContent":{"n":1e45,"b":123456789012345678901234567890},"x":[1.0,-0] }"#;
    for id_last in [false, true] {
        let home = home_with(Script::result(raw).id_last(id_last));
        each_way(&home, |way| {
            let text = call(&home, "srv:tool", &[]);
            assert_eq!((text.code, text.stdout.as_str()), (0, "aé\nb\nc\n"), "{way}: {}", text.stderr);
            let json = call(&home, "srv:tool", &["-o", "json"]);
            assert_eq!((json.code, json.stdout), (0, format!("{raw}\n")), "{way}");
        });
    }
}

#[test]
fn other_blocks_are_a_line_each() {
    let raw = r#"{"content":[{"type":"text","text":"caption"},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"x-future","foo":1}]}"#;
    let home = home(Action::Result(raw.into()));
    each_way(&home, |way| {
        let output = call(&home, "srv:tool", &[]);
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert_eq!(lines.len(), 3, "{way}: {}", output.stdout);
        assert!(lines[1].contains("image/png") && lines[2].contains("x-future"), "{way}: {lines:?}");
        assert!(!output.stdout.contains("AAAA"), "{way}");
    });
}

#[test]
fn an_error_of_the_tool_ends_with_1_and_a_refusal_too() {
    let raw = r#"{"isError":true,"content":[{"type":"text","text":"bad zone"}]}"#;
    let home = home(Action::Result(raw.into()));
    each_way(&home, |way| {
        let text = call(&home, "srv:tool", &[]);
        assert_eq!(text.code, 1, "{way}");
        assert!(format!("{}{}", text.stdout, text.stderr).contains("bad zone"), "{way}");
        let json = call(&home, "srv:tool", &["-o", "json"]);
        assert_eq!((json.code, json.stdout.trim()), (1, raw), "{way}");
        let refused = call(&home, "srv:nope", &["-o", "json"]);
        assert_eq!(refused.code, 1, "{way}");
        let value: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!(value["isError"], true, "{way}");
    });
}

#[test]
fn a_call_that_saves_prints_the_envelope() {
    let home = home(Action::Generate(3_000_000));
    each_way(&home, |way| {
        let path = home.at(&format!("root/{}.txt", way.len()));
        let shown = path.to_str().unwrap();
        let output = call(&home, "srv:tool", &["--save-to-file", shown]);
        assert_eq!(output.code, 0, "{way}: {}", output.stderr);
        let envelope: Value = serde_json::from_str(&output.stdout).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            (&envelope["saved_to"], &envelope["bytes"]),
            (&shown.into(), &bytes.len().into()),
            "{way}"
        );
        assert_eq!(envelope["sha256"], tree::sha256(&bytes), "{way}");
        let again = call(&home, "srv:tool", &["--save-to-file", shown]);
        assert_eq!((again.code, again.stdout.as_str()), (1, ""), "{way}");
        assert!(
            again.stderr.contains("--save-overwrite") || again.stderr.contains("save_overwrite"),
            "{}",
            again.stderr
        );
        let over = call(
            &home,
            "srv:tool",
            &["--save-to-file", shown, "--save-overwrite", "--save-format", "json", "-o", "json"],
        );
        let result: Value = serde_json::from_str(&over.stdout).unwrap();
        let envelope: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((over.code, &envelope["format"]), (0, &"json".into()), "{way}");
    });
}

#[test]
fn arguments_pass_with_every_digit_and_bad_ones_never_reach_the_tool() {
    let home = home_with_text();
    each_way(&home, |way| {
        let before = home.calls("srv");
        let args = r#"{"b":123456789012345678901234567890,"e":1e45,"z":-0,"k":"\u00e9"}"#;
        let output =
            call(&home, "srv:tool", &["--json_args", args, "--reason", "to see", "--sensitivity", "private"]);
        assert_eq!(output.code, 0, "{way}: {}", output.stderr);
        let seen = home.lines("srv", "calls").pop().unwrap();
        assert!(seen.contains(&format!(r#""arguments":{args}"#)), "{way}: {seen}");
        let row = wait_for(|| home.activity(&["--type", "tool_call", "-n", "1"]).pop());
        assert_eq!(
            (&row["intent_reason"], &row["intent_sensitivity"]),
            (&"to see".into(), &"private".into())
        );
        for bad in ["{", "[]", "5", "\"x\"", "", "{} {}"] {
            let output = call(&home, "srv:tool", &["--json_args", bad]);
            assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{way}: {bad}");
            assert!(output.stderr.contains("json_args"), "{}", output.stderr);
        }
        assert_eq!(home.calls("srv"), before + 1, "{way}");
    });
}

#[test]
fn a_standalone_call_leaves_no_process_and_no_lock_behind() {
    let mut script = Script::text("hello");
    script.grandchild = true;
    let home = home_with(script);
    for _ in 0..2 {
        assert_eq!(call(&home, "srv:tool", &[]).stdout, "hello\n");
    }
    let mut started: Vec<u32> = home.lines("srv", "pids").iter().map(|p| p.parse().unwrap()).collect();
    started.extend(home.lines("srv", "grandchild").iter().map(|p| p.parse::<u32>().unwrap()));
    assert_eq!(started.len(), 4);
    wait_for(|| started.iter().all(|pid| !alive(*pid)).then_some(()));
    assert_eq!(home.serve().stop(), Some(0));
}

#[test]
fn a_standalone_call_starts_the_one_server_that_it_calls() {
    let home = home_with_text().upstream("other", Script::text("x"));
    assert_eq!(call(&home, "srv:tool", &[]).code, 0);
    assert_eq!((home.lines("srv", "pids").len(), home.lines("other", "pids").len()), (1, 0));
}

#[test]
fn call_tool_says_which_of_the_three_to_use() {
    let home = home_with_text();
    for more in [&[][..], &["--tool-name", "srv:tool"], &["srv:tool", "--json_args", "{}"]] {
        let mut command = home.command();
        command.args(["call", "tool"]).args(more);
        let output = finish_within(command, PATIENCE);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{more:?}");
        for verb in ["tool-read", "tool-write", "tool-destructive"] {
            assert!(output.stderr.contains(verb), "{}", output.stderr);
        }
    }
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn what_cannot_be_understood_ends_with_1_and_says_so_on_standard_error() {
    let home = home_with_text();
    for args in [
        &["nope"][..],
        &["call"],
        &["call", "tool-read"],
        &["call", "tool-read", "--tool-name", "srv:tool", "--nope"],
        &["serve", "--nope"],
        &["activity"],
        &["activity", "list", "--nope"],
        &["status", "-o", "nope"],
        &["activity", "list", "-n", "many"],
    ] {
        let mut command = home.command();
        command.args(args);
        let output = finish_within(command, PATIENCE);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{args:?}: {}", output.stderr);
        assert!(!output.stderr.trim().is_empty(), "{args:?}");
    }
}

#[test]
fn help_names_every_command_and_the_version_is_told() {
    let home = testkit::home!();
    let run = |args: &[&str]| {
        let mut command = home.command();
        command.args(args);
        finish_within(command, PATIENCE)
    };
    let help = run(&["--help"]);
    assert_eq!(help.code, 0);
    for command in ["serve", "call", "activity", "status", "demo"] {
        assert!(
            help.stdout.lines().any(|l| l.trim_start().starts_with(&format!("{command} "))),
            "{command}: {}",
            help.stdout
        );
    }
    for hidden in ["watch-children", "demo-upstream"] {
        assert!(!help.stdout.contains(hidden), "{hidden}");
    }
    for verb in ["tool-read", "tool-write", "tool-destructive"] {
        assert!(run(&["call", "--help"]).stdout.contains(verb), "{verb}");
        let flags = run(&["call", verb, "--help"]).stdout;
        for flag in [
            "--tool-name",
            "--json_args",
            "--reason",
            "--sensitivity",
            "--save-to-file",
            "--save-format",
            "--save-overwrite",
        ] {
            assert!(flags.contains(flag), "{verb} {flag}");
        }
    }
    assert_eq!(run(&["--version"]).stdout, format!("mcpproxy {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn activity_is_a_table_for_people_and_json_for_programs() {
    let home = home_with_text();
    let gateway = home.serve();
    gateway.call("srv:tool").save(home.at("root/x")).send().envelope();
    gateway.call("srv:tool").save("/etc/x").send().refusal();
    home.events("tool_call", 2);
    let table = home.run(&["activity", "list", "--type", "tool_call"]);
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert_eq!((table.code, lines.len()), (0, 3), "{}", table.stdout);
    assert!(lines[0].starts_with("ID ") && lines[0].contains("STATUS"), "{}", lines[0]);
    assert!(lines[1].contains("blocked") && lines[1].contains("save_outside"), "{}", lines[1]);
    assert!(lines[2].contains("success") && lines[2].contains("srv"), "{}", lines[2]);
    let rows = home.activity(&["--type", "tool_call"]);
    for row in &rows {
        for id in [row["id"].as_str().unwrap(), row["request_id"].as_str().unwrap()] {
            let one = home.run(&["activity", "show", id, "-o", "json"]);
            let value: Value = serde_json::from_str(&one.stdout).unwrap();
            assert_eq!(value["activity"]["id"], row["id"], "{id}");
            let people = home.run(&["activity", "show", id]);
            assert!(people.stdout.contains(row["status"].as_str().unwrap()), "{}", people.stdout);
        }
    }
    let saved = home.run(&["activity", "show", rows[1]["id"].as_str().unwrap()]);
    assert!(saved.stdout.contains(home.at("root/x").to_str().unwrap()), "{}", saved.stdout);
    let unknown = home.run(&["activity", "show", "nope"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""));
    let empty = home.run(&["activity", "list", "--server", "nope", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&empty.stdout).unwrap()["activities"], json!([]));
}

#[test]
fn activity_before_the_first_start_says_so_and_makes_nothing() {
    let home = testkit::home!();
    let output = home.run(&["activity", "list"]);
    assert!(output.code <= 1 && !output.stderr.is_empty(), "{output:?}");
    assert!(!home.data().join("mcpproxy.db").exists());
}

#[test]
fn status_tells_the_truth_with_and_without_a_gateway_and_hides_the_key() {
    let home = home_with_text();
    let status = |more: &[&str]| -> Value {
        let mut args = vec!["status", "-o", "json"];
        args.extend_from_slice(more);
        let output = home.run(&args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    };
    assert_eq!(status(&[])["running"], false);
    assert!(!home.data().join("api_key").exists(), "asking makes no key");
    let gateway = home.serve();
    let key = home.api_key();
    let running = status(&[]);
    assert_eq!((&running["running"], &running["pid"]), (&true.into(), &gateway.pid().into()));
    assert_eq!(running["listen_addr"], gateway.endpoint().address);
    assert_eq!(running["config_path"], home.config_file().to_str().unwrap());
    assert_eq!(
        (&running["servers"][0]["name"], &running["servers"][0]["state"]),
        (&"srv".into(), &"ready".into())
    );
    assert!(!running.to_string().contains(&key));
    assert_eq!(status(&["--show-key"])["api_key"], key);
    let table = home.run(&["status"]);
    assert!(
        table.stdout.contains("running") && table.stdout.contains("srv") && !table.stdout.contains(&key),
        "{}",
        table.stdout
    );
    gateway.kill();
    assert_eq!(status(&[])["running"], false, "run.json of a dead gateway is not believed");
    assert!(home.run(&["status"]).stdout.contains("not running"));
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let home = home(Action::Generate(5_000_000));
    let gateway = home.serve();
    for _ in 0..30 {
        gateway.call("srv:nope").send();
    }
    wait_for(|| (home.activity(&["--type", "tool_call", "-n", "1000"]).len() == 30).then_some(()));
    for args in [
        &["activity", "list", "-o", "json", "-n", "1000"][..],
        &["activity", "list", "-n", "1000"],
        &["call", "tool-read", "--tool-name", "srv:tool"],
        &["call", "tool-read", "--tool-name", "srv:tool", "-o", "json"],
        &["status"],
        &["--help"],
    ] {
        for take in [0, 1] {
            let mut command = home.command();
            let mut child = command
                .args(args)
                .arg("--config")
                .arg(home.config_file())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut pipe = child.stdout.take().unwrap();
            pipe.read_exact(&mut [0; 1][..take]).unwrap();
            drop(pipe);
            let ended = child.wait_with_output().unwrap();
            let error = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(!error.contains("panicked") && !error.contains("Broken pipe"), "{args:?}: {error}");
            let code = ended.status.code();
            assert!(matches!(code, Some(0 | 141) | None), "{args:?} took {take}: {code:?} {error}");
        }
    }
}

#[test]
fn control_characters_never_reach_the_terminal_or_a_log_line() {
    let odd = "a\u{1b}]0;pwn\u{7}\nSAVED\u{9b}31m.txt";
    let home = home_with(Script::text("x").tools(vec![tool("tool"), tool("t\u{1b}[31m")]));
    let path = format!("{}/{odd}", home.at("root").display());
    let raw = |text: &str| text.contains(['\u{1b}', '\u{7}', '\u{9b}']) || text.contains("\nSAVED");
    each_way(&home, |way| {
        let output = call(&home, "srv:tool", &["--save-to-file", &path]);
        assert_eq!(output.code, 1, "{way}");
        assert!(!raw(&output.stdout) && !raw(&output.stderr), "{way}: {output:?}");
        for name in ["srv:t\u{1b}[31m", "srv:no\u{1b}[2J\nSAVED", "s\u{1b}]0;x\u{7}:t"] {
            let output = call(&home, name, &["--reason", odd]);
            assert!(!raw(&output.stdout) && !raw(&output.stderr), "{way} {name:?}: {output:?}");
        }
    });
    let gateway = home.serve();
    let found = gateway
        .call("srv:tool")
        .member(&json!({"save_to_file": path}).to_string().replace(['{', '}'], ""))
        .send();
    assert!(found.is_error());
    for args in [&["activity", "list"][..], &["status"]] {
        let output = home.run(args);
        assert!(!raw(&output.stdout) && !raw(&output.stderr), "{args:?}: {}", output.stdout);
    }
    let json = home.run(&["activity", "list", "-o", "json"]).stdout;
    assert!(!json.trim_end().contains(|c: char| c.is_ascii_control()), "{json}");
    for row in home.activity(&["--type", "tool_call"]) {
        let output = home.run(&["activity", "show", row["id"].as_str().unwrap()]);
        assert!(!output.stdout.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{}", output.stdout);
    }
    assert!(!raw(&gateway.log()), "{}", gateway.log());
}

#[test]
fn a_value_with_line_breaks_cannot_forge_a_line_of_activity_show() {
    let home = home_with_text();
    let gateway = home.serve();
    let forged = r#""intent_reason":"why\nstatus                 success\nsaved_to /etc/passwd""#;
    gateway.call("srv:nope").member(forged).send().refusal();
    let row = &home.events("tool_call", 1)[0];
    let output = home.run(&["activity", "show", row["id"].as_str().unwrap()]);
    let lines: Vec<&str> = output.stdout.lines().filter(|l| l.starts_with("status ")).collect();
    assert!(lines.len() == 1 && lines[0].ends_with("blocked"), "{}", output.stdout);
    assert!(!output.stdout.lines().any(|l| l.starts_with("saved_to ")), "{}", output.stdout);
}

#[test]
fn the_demo_shows_envelope_and_record_and_cleans_up() {
    let home = testkit::home!();
    std::fs::create_dir(home.at("tmp")).unwrap();
    let tmp = home.at("tmp").display().to_string();
    let home = home.env("TMPDIR", &tmp);
    let mut command = home.command();
    command.env_remove("MCPPROXY_CONFIG").arg("demo");
    let output = finish_within(command, PATIENCE);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for shown in ["\"saved_to\"", "\"sha256\"", "\"preview\"", "\"request_id\"", "\"status\": \"success\""] {
        assert!(output.stdout.contains(shown), "{shown}: {}", output.stdout);
    }
    let place = output.stdout.lines().next().unwrap().rsplit(' ').next().unwrap();
    assert!(place.starts_with(home.at("tmp").to_str().unwrap()), "{place}");
    assert_eq!(std::fs::read_dir(home.at("tmp")).unwrap().count(), 0, "the demo left something behind");
    assert!(!home.at(".mcpproxy").exists(), "the demo touched the user's own directory");
    assert!(!home.data().exists());
}

/// `serve --stdio` and its streams.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Agent {
    fn start(home: &Home) -> Self {
        Self::of(home.command().args(["serve", "--stdio", "--config"]).arg(home.config_file()))
    }

    fn of(command: &mut Command) -> Self {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = pipes.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { input: child.stdin.take(), child, lines }
    }

    fn send(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    fn open(&mut self) -> Value {
        self.send(r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"pipe","version":"7"}}}"#);
        let answer: Value = serde_json::from_str(&self.line()).unwrap();
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    fn close(mut self) -> Option<i32> {
        drop(self.input.take());
        let code = wait_for(|| self.child.try_wait().unwrap()).code();
        assert_eq!(self.lines.recv().ok(), None, "something more was printed");
        code
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            signal(self.child.id(), "TERM");
            let _ = self.child.wait();
        }
    }
}

#[test]
fn serve_stdio_speaks_mcp_on_its_streams_and_nothing_else() {
    let raw = r#"{ "content":[{"type":"text","text":"a\u2028\n"}], "n":1e45 }"#;
    for id_last in [false, true] {
        let home = home_with(Script::result(raw).id_last(id_last));
        let mut agent = Agent::start(&home);
        assert_eq!(agent.open()["result"]["serverInfo"]["name"], "mcpproxy");
        agent.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let list: Value = serde_json::from_str(&agent.line()).unwrap();
        assert_eq!((&list["id"], list["result"]["tools"].as_array().unwrap().len()), (&1.into(), 5));
        agent.send(r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"call_tool_read","arguments":{"name":"srv:tool"}}}"#);
        let line = agent.line();
        assert!(line.contains(raw) && line.contains(r#""id":"c""#), "{line}");
        let path = home.at("root/x");
        let arguments = json!({"name": "srv:tool", "save_to_file": path, "save_format": "json"});
        agent.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "call_tool_read", "arguments": arguments}}).to_string());
        let saved: Value = serde_json::from_str(&agent.line()).unwrap();
        assert!(saved["result"]["content"][0]["text"].as_str().unwrap().contains("saved_to"), "{saved}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), raw);
        for (line, code) in [("{", -32700), (r#"{"jsonrpc":"2.0","id":4,"method":"nope"}"#, -32601)] {
            agent.send(line);
            let answer: Value = serde_json::from_str(&agent.line()).unwrap();
            assert_eq!(answer["error"]["code"], code, "{line}");
        }
        let pid: u32 = home.lines("srv", "pids")[0].parse().unwrap();
        assert_eq!(agent.close(), Some(0));
        wait_for(|| (!alive(pid)).then_some(()));
        let rows = home.events("tool_call", 2);
        for row in &rows {
            assert_eq!((&row["source"], &row["caller"]), (&"mcp".into(), &"stdio".into()));
            assert_eq!((&row["client_name"], &row["client_version"]), (&"pipe".into(), &"7".into()));
        }
    }
}

#[test]
fn over_stdio_large_answers_progress_and_cancellation_work_too() {
    let steps = Action::Progress(3, 50, Box::new(Action::Result(text_result("done"))));
    let late = Action::After(1500, Box::new(Action::Result(text_result("late"))));
    let tools = vec![tool("large"), tool("steps"), tool("late")];
    let script = Script::text("")
        .tools(tools)
        .on("large", Action::Generate(3_000_000))
        .on("steps", steps)
        .on("late", late);
    let home = home_with(script);
    let mut agent = Agent::start(&home);
    agent.open();
    let call = |id: u32, name: &str, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"call_tool_read","arguments":{{"name":"srv:{name}"}}{more}}}}}"#
        )
    };
    agent.send(&call(1, "large", ""));
    let large: Value = serde_json::from_str(&agent.line()).unwrap();
    assert_eq!(large["result"]["content"][0]["text"].as_str().unwrap().len(), 3_000_000);
    agent.send(&call(2, "steps", r#","_meta":{"progressToken":"t"}"#));
    let mut told: Vec<Value> = Vec::new();
    while told.last().is_none_or(|message| message["id"].is_null()) {
        told.push(serde_json::from_str(&agent.line()).unwrap());
    }
    assert_eq!(told.len(), 4, "{told:#?}");
    for (number, note) in told[..3].iter().enumerate() {
        assert_eq!(
            (&note["params"]["progressToken"], &note["params"]["progress"]),
            (&"t".into(), &(number + 1).into())
        );
    }
    assert_eq!(told[3]["result"]["content"][0]["text"], "done");
    agent.send(&call(3, "late", ""));
    wait_for(|| (home.calls("srv") == 3).then_some(()));
    agent.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#);
    wait_for(|| (home.lines("srv", "cancelled").len() == 1).then_some(()));
    agent.send(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#);
    let pong: Value = serde_json::from_str(&agent.line()).unwrap();
    assert_eq!(
        (&pong["id"], &pong["result"]),
        (&4.into(), &json!({})),
        "a call that was taken back gets no answer"
    );
    assert_eq!(agent.close(), Some(0));
}

#[test]
fn serve_stdio_listens_on_no_port_but_the_command_line_reaches_it() {
    let home = home_with_text();
    let mut agent = Agent::start(&home);
    agent.open();
    let status: Value = serde_json::from_str(&home.run(&["status", "-o", "json"]).stdout).unwrap();
    assert_eq!((&status["running"], &status["listen_addr"]), (&true.into(), &Value::Null));
    assert_eq!(call(&home, "srv:tool", &[]).stdout, "hello\n");
    assert_eq!(home.lines("srv", "pids").len(), 1, "the call went through the one that runs");
    assert_eq!(agent.close(), Some(0));
    assert!(!home.data().join("run.json").exists() && !home.data().join("mcpproxy.sock").exists());
}

#[test]
fn a_terminated_serve_stdio_ends_although_its_input_is_open() {
    let home = home_with_text();
    let mut agent = Agent::start(&home);
    agent.open();
    signal(agent.child.id(), "TERM");
    assert_eq!(wait_for(|| agent.child.try_wait().unwrap()).code(), Some(0));
}

/// A run in a directory with a `mcp_config.json` that must not be read, and no configuration anywhere else.
fn first_run(home: &Home) -> Command {
    for dir in ["cloned", "user"] {
        std::fs::create_dir_all(home.at(dir)).unwrap();
    }
    let trap = json!({"mcpServers": {"trap": {"command": "touch", "args": [home.at("trapped")]}}});
    std::fs::write(home.at("cloned/mcp_config.json"), trap.to_string()).unwrap();
    let mut command = home.command();
    command.env_remove("MCPPROXY_CONFIG").env("HOME", home.at("user")).current_dir(home.at("cloned"));
    command
}

#[test]
fn without_a_configuration_the_first_run_names_the_path_writes_none_and_reads_none_of_the_directory() {
    let home = testkit::home!();
    let mut command = first_run(&home);
    command.args(["serve", "--stdio"]).stdin(Stdio::null());
    let output = finish_within(command, PATIENCE);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let expected = home.at("user/.mcpproxy/mcp_config.json");
    assert!(output.stderr.contains(expected.to_str().unwrap()), "{}", output.stderr);
    let ignored = output.stderr.lines().find(|l| l.contains("cloned/mcp_config.json"));
    assert!(ignored.is_some_and(|l| l.contains("is not read")), "{}", output.stderr);
    assert_eq!(output.stdout, "");
    assert!(!expected.exists() && !home.at("trapped").exists());
}

#[test]
fn the_data_directory_is_named_by_flag_or_variable() {
    let home = testkit::home!();
    for by_flag in [false, true] {
        let mut command = first_run(&home);
        command.args(["serve", "--stdio"]);
        if by_flag {
            command.arg("--data-dir").arg(home.at("elsewhere"));
        } else {
            command.env("MCPPROXY_DATA_DIR", home.at("elsewhere"));
        }
        assert_eq!(finish_within(command, PATIENCE).code, 0);
        assert!(home.at("elsewhere/mcpproxy.db").exists());
        assert!(!home.at("user/.mcpproxy/mcpproxy.db").exists());
        std::fs::remove_dir_all(home.at("elsewhere")).unwrap();
    }
}
