//! `serve --stdio` for several agents: one gateway, the others are bridges to it, and one of them takes over when it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use testkit::client::over_socket;
use testkit::home::{alive, signal};
use testkit::http::Form;
use testkit::script::{generated, text_result, tool};
use testkit::{Action, Home, HttpUpstream, Script};

use crate::common::{home_with, home_with_text, wait_for};
use crate::fidelity::ODD;

const PATIENCE: Duration = Duration::from_secs(60);

/// One agent and its `serve --stdio`.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Agent {
    fn start(home: &Home, name: &str) -> Self {
        Self::start_with(home, name, &home.config_file(), &[])
    }

    fn start_with(home: &Home, name: &str, config: &Path, more: &[&str]) -> Self {
        let log = home.at(&format!("{name}.log"));
        let mut command = home.command();
        command.args(["serve", "--stdio", "--config"]).arg(config).args(more);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { input: child.stdin.take(), child, lines, log }
    }

    /// A client of this name with its session open.
    fn open(home: &Home, name: &str) -> Self {
        let mut agent = Self::start(home, name);
        agent.greet(name);
        agent
    }

    fn greet(&mut self, name: &str) {
        self.send(&greeting(name));
        let answer = self.answer();
        assert_eq!(answer["id"], "i", "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "mcpproxy", "{answer}");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    fn send(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn line(&self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|e| panic!("no line ({e}): {}", fs::read_to_string(&self.log).unwrap()))
    }

    fn answer(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Calls and gives the text of the answer.
    fn call(&mut self, id: &str, tool: &str) -> String {
        self.send(&call(id, tool, ""));
        let answer = self.answer();
        assert_eq!(answer["id"].to_string(), id, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn code(&mut self) -> Option<i32> {
        wait_for(|| self.child.try_wait().unwrap()).code()
    }

    /// The client goes; nothing more is printed.
    fn close(mut self) -> Option<i32> {
        drop(self.input.take());
        let code = self.code();
        assert_eq!(self.lines.recv().ok(), None, "something more was printed");
        code
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            signal(self.child.id(), "TERM");
            let until = Instant::now() + Duration::from_secs(15);
            while self.child.try_wait().unwrap().is_none() {
                if Instant::now() > until {
                    let _ = self.child.kill();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn greeting(name: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"i","method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"{name}","version":"7"}}}}}}"#
    )
}

fn call(id: &str, tool: &str, more: &str) -> String {
    call_with(id, &format!(r#"{{"name":"srv:{tool}"}}"#), more)
}

fn call_with(id: &str, arguments: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"call_tool_read","arguments":{arguments}{more}}}}}"#
    )
}

fn upstream_pids(home: &Home) -> Vec<u32> {
    home.lines("srv", "pids").iter().map(|pid| pid.parse().unwrap()).collect()
}

fn run_json(home: &Home) -> Option<Value> {
    serde_json::from_slice(&fs::read(home.data().join("run.json")).ok()?).ok()
}

/// The process that holds the data directory, by the kernel's own list of locks; exactly one does, and it says so.
fn holder(home: &Home) -> Option<u32> {
    let lock = home.data().join("lock");
    let inode = format!(":{} ", fs::metadata(&lock).unwrap().ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let held: Vec<_> = locks.lines().filter(|l| l.contains(&inode) && l.contains(" WRITE ")).collect();
    assert!(held.len() <= 1, "{held:?}");
    let pid = fs::read_to_string(&lock).unwrap().trim().parse().ok()?;
    (held.len() == 1 && run_json(home)?["pid"] == pid).then_some(pid)
}

/// An agent that is the gateway, and so many that are bridges to it, all with open sessions.
fn gathering(home: &Home, bridges: usize) -> (Agent, Vec<Agent>) {
    let first = Agent::open(home, "first");
    assert_eq!(holder(home), Some(first.pid()));
    let bridges = (0..bridges).map(|number| Agent::open(home, &format!("bridge{number}"))).collect();
    (first, bridges)
}

#[test]
fn agents_that_start_at_once_share_one_gateway_and_one_upstream() {
    for count in [2, 4] {
        let home = home_with_text();
        let names: Vec<_> = (0..count).map(|number| format!("agent{number}")).collect();
        let mut agents: Vec<_> = names.iter().map(|name| Agent::start(&home, name)).collect();
        agents.iter_mut().zip(&names).for_each(|(agent, name)| agent.greet(name));
        for agent in &mut agents {
            for id in 0..5 {
                agent.send(&call(&id.to_string(), "tool", ""));
            }
        }
        for agent in &agents {
            let mut ids: Vec<_> = (0..5)
                .map(|_| agent.answer())
                .inspect(|answer| assert_eq!(answer["result"]["content"][0]["text"], "hello"))
                .map(|answer| answer["id"].as_u64().unwrap())
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, [0, 1, 2, 3, 4]);
        }
        assert_eq!(upstream_pids(&home).len(), 1);
        let holder = holder(&home).unwrap();
        assert!(agents.iter().any(|agent| agent.pid() == holder));
        for row in home.events("tool_call", count * 5) {
            let name = row["client_name"].as_str().unwrap();
            let agent = &agents[names.iter().position(|n| n == name).unwrap()];
            let caller = if agent.pid() == holder { "stdio" } else { "socket" };
            assert_eq!((&row["source"], &row["caller"]), (&"mcp".into(), &caller.into()), "{row}");
            assert_eq!(row["client_version"], "7");
        }
        // Bridges first, so that none of them takes over.
        agents.sort_by_key(|agent| agent.pid() == holder);
        for agent in agents {
            assert_eq!(agent.close(), Some(0));
        }
        let upstream = upstream_pids(&home)[0];
        wait_for(|| (!alive(upstream)).then_some(()));
        assert!(!home.data().join("run.json").exists() && !home.data().join("mcpproxy.sock").exists());
    }
}

#[test]
fn results_and_arguments_pass_byte_for_byte_as_from_the_gateway_itself() {
    let arguments = r#"{"z":1e400,"a":-0,"u":"\ud800\/\u0061","b":123456789012345678901234567890,"z":1.0}"#;
    for id_last in [false, true] {
        let home = home_with(Script::text("").id_last(id_last));
        let (mut first, mut bridges) = gathering(&home, 1);
        for raw in ODD {
            home.script("srv", &Script::result(raw).id_last(id_last));
            for id in ["1.0", r#""\u0061\ud800""#] {
                let request = call_with(id, &format!(r#"{{"name":"srv:tool","args":{arguments}}}"#), "");
                bridges[0].send(&request);
                let line = bridges[0].line();
                assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{raw}}}"#));
                first.send(&request);
                assert_eq!(first.line(), line);
            }
        }
        let calls = home.lines("srv", "calls");
        assert_eq!(calls.len(), ODD.len() * 4);
        assert!(calls.iter().all(|params| params.contains(arguments)), "{}", calls[0]);
        for unclear in ["{", "[]", "5", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, "\u{feff}{}"] {
            bridges[0].send(unclear);
            first.send(unclear);
            assert_eq!(bridges[0].line(), first.line(), "{unclear}");
        }
        for request in [
            r#"{"jsonrpc":"2.0","id":"n","method":"nope"}"#,
            r#"{"jsonrpc":"1.0","id":7,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":8,"method":"tools/list","params":[1]}"#,
            r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
        ] {
            bridges[0].send(request);
            first.send(request);
            let (bridged, direct) = (bridges[0].answer(), first.answer());
            assert_eq!(bridged["id"], direct["id"], "{request}");
            assert_eq!(bridged["error"], direct["error"], "{request}");
            assert_eq!(bridged["result"].is_null(), direct["result"].is_null(), "{request}");
        }
    }
}

#[test]
fn a_line_break_inside_a_result_does_not_end_the_line() {
    let raw = "{\r\n  \"content\": [\n{\"type\":\"text\",\"text\":\"a\\nb\"}]\n}";
    for wait in [0, 1500] {
        let action = Action::After(wait, Box::new(Action::Result(raw.into())));
        let upstream = HttpUpstream::start(Script::action(action), Form::Json);
        let home = testkit::home!().http_upstream("srv", &upstream);
        let (_first, mut bridges) = gathering(&home, 1);
        bridges[0].send(&call("1", "tool", ""));
        let line = bridges[0].line();
        assert!(line.ends_with(&format!("{}}}", raw.replace(['\r', '\n'], " "))), "{line}");
    }
}

impl Agent {
    /// The length and text of a large answer, without a tree of values.
    fn large_text(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            result: &'a RawValue,
        }
        let line = self.line();
        let answer: Answer<'_> = serde_json::from_str(&line).unwrap();
        let result: Value = serde_json::from_str(answer.result.get()).unwrap();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

#[test]
fn large_answers_pass_whole_beside_small_ones_and_are_not_held_in_memory() {
    const BYTES: u64 = 12_000_000;
    let script = Script::text("small")
        .tools(vec![tool("large"), tool("late"), tool("small")])
        .on("large", Action::Generate(BYTES))
        .on("late", Action::After(1500, Box::new(Action::Generate(BYTES))));
    let home = home_with(script);
    let (_first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    let mut expected = Vec::new();
    generated(BYTES, |piece| expected.extend_from_slice(piece));
    for (id, name) in [("1", "late"), ("2", "large"), ("3", "large"), ("4", "small"), ("5", "large")] {
        bridge.send(&call(id, name, ""));
    }
    let mut large = 0;
    for _ in 0..5 {
        let text = bridge.large_text();
        if text != "small" {
            assert!(text.as_bytes() == expected, "{} bytes", text.len());
            large += 1;
        }
    }
    assert_eq!(large, 4);
    let status = fs::read_to_string(format!("/proc/{}/status", bridge.pid())).unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(peak < 48 << 10, "{peak} KiB for the bridge");
}

#[test]
fn a_message_over_the_bound_is_answered_with_an_error_and_the_next_one_passes() {
    let home = home_with_text();
    let (_first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    let filler = "x".repeat((32 << 20) + 1);
    bridge.send(&call_with("1", &format!(r#"{{"name":"srv:tool","args":{{"x":"{filler}"}}}}"#), ""));
    let answer = bridge.answer();
    assert!(answer["id"].is_null() && answer["error"]["code"] == -32600, "{answer}");
    assert_eq!(bridge.call("2", "tool"), "hello");
    let arguments = format!(r#"{{"name":"srv:tool","args":{{"x":"{}"}}}}"#, &filler[..20 << 20]);
    bridge.send(&call_with("3", &arguments, ""));
    assert_eq!(bridge.answer()["result"]["content"][0]["text"], "hello", "20 MiB pass");
}

#[test]
fn progress_comes_in_order_before_the_answer() {
    let steps = Action::Progress(20, 20, Box::new(Action::Result(text_result("done"))));
    let home = home_with(Script::action(steps));
    let (_first, mut bridges) = gathering(&home, 2);
    for bridge in &mut bridges {
        bridge.send(&call("1", "tool", r#","_meta":{"progressToken":"t"}"#));
    }
    for bridge in &bridges {
        for step in 1..=20 {
            let note = bridge.answer();
            assert_eq!(note["params"]["progress"], step, "{note}");
            assert_eq!(note["params"]["progressToken"], "t");
        }
        assert_eq!(bridge.answer()["result"]["content"][0]["text"], "done");
    }
}

#[test]
fn a_cancellation_passes_and_the_call_gets_no_answer() {
    let late = Action::After(20_000, Box::new(Action::Result(text_result("late"))));
    let home = home_with(Script::action(late));
    let (_first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}"#;
    // Long after the call was begun, shortly after, at once, and while it is on its way.
    for number in 0..60_u32 {
        let id = if number == 1 { "\"b\"".to_owned() } else { number.to_string() };
        bridge.send(&call(&id, "tool", ""));
        if number < 2 {
            wait_for(|| (home.calls("srv") == number as usize + 1).then_some(()));
            std::thread::sleep(Duration::from_millis(if number == 0 { 1500 } else { 0 }));
        } else {
            std::thread::sleep(Duration::from_micros(u64::from(number - 2) * 40));
        }
        bridge.send(&cancel.replace("ID", &id.replace('b', r"\u0062")));
    }
    // One that is taken back before it was passed on is not passed on.
    std::thread::sleep(Duration::from_millis(1500));
    wait_for(|| (home.lines("srv", "cancelled").len() == home.calls("srv")).then_some(()));
    wait_for(|| {
        (home.activity(&["--type", "tool_call", "-n", "1000"]).len() >= home.calls("srv")).then_some(())
    });
    let rows = home.activity(&["--type", "tool_call", "-n", "1000"]);
    assert!(rows.iter().all(|row| row["status"] == "cancelled"), "{rows:#?}");
    bridge.send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    assert_eq!(bridge.answer()["id"], "p", "a call that was taken back gets no answer");
    let began = Instant::now();
    assert_eq!(bridges.pop().unwrap().close(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "a call is left in flight: {:?}", began.elapsed());
}

#[test]
fn a_save_through_the_bridge_writes_the_file() {
    let home = home_with(Script::text("kept"));
    let (_first, mut bridges) = gathering(&home, 1);
    let path = home.at("root/x");
    bridges[0].send(&call_with("1", &json!({"name": "srv:tool", "save_to_file": path}).to_string(), ""));
    let answer = bridges[0].answer();
    let envelope: Value =
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&envelope["saved_to"], &envelope["bytes"]), (&json!(path), &4.into()));
    assert_eq!(fs::read(&path).unwrap(), b"kept");
}

#[test]
fn a_whole_conversation_piped_at_once_is_answered_to_its_end() {
    let home = home_with(Script::action(Action::After(300, Box::new(Action::Result(text_result("hello"))))));
    let _first = Agent::open(&home, "first");
    let mut agent = Agent::start(&home, "piped");
    agent.send(&format!(
        "{}\n\n{}\n{}\n{}",
        greeting("piped"),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        call("1", "tool", ""),
        call("2", "tool", "")
    ));
    drop(agent.input.take());
    assert_eq!(agent.answer()["id"], "i");
    for _ in 0..2 {
        assert_eq!(agent.answer()["result"]["content"][0]["text"], "hello");
    }
    assert_eq!(agent.code(), Some(0));
    for row in home.events("tool_call", 2) {
        assert_eq!((&row["client_name"], &row["caller"]), (&"piped".into(), &"socket".into()));
    }
}

#[test]
fn a_client_that_is_gone_ends_its_bridge_and_no_other() {
    let home = home_with_text();
    let (mut first, mut bridges) = gathering(&home, 4);
    let terminated = bridges.pop().unwrap();
    signal(terminated.pid(), "TERM");
    let mut terminated = terminated;
    assert_eq!(terminated.code(), Some(0), "told to end while its input is open");
    let mut deaf = bridges.pop().unwrap();
    deaf.lines = channel().1;
    // Its reader ends with the next line; the one after finds a closed pipe.
    for id in 0..100 {
        if deaf.child.try_wait().unwrap().is_some() {
            break;
        }
        let line = format!("{}\n", call(&id.to_string(), "tool", ""));
        let _ = deaf.input.as_mut().unwrap().write_all(line.as_bytes());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(deaf.code(), Some(0), "its output is closed");
    bridges.pop().unwrap().kill();
    assert_eq!(bridges.pop().unwrap().close(), Some(0));
    assert_eq!(first.call("1", "tool"), "hello");
    assert_eq!(upstream_pids(&home).len(), 1);
    assert_eq!(holder(&home), Some(first.pid()));
}

/// What must hold after the first one has ended: one of the others serves all, on the streams that they have.
fn taken_over(home: &Home, bridges: &mut [Agent], upstreams_before: &[u32]) {
    let began = Instant::now();
    for (number, bridge) in bridges.iter_mut().enumerate() {
        assert_eq!(bridge.call(&format!("\"after{number}\""), "tool"), "hello");
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let holder = holder(home).unwrap();
    assert!(bridges.iter().any(|bridge| bridge.pid() == holder));
    let upstreams = upstream_pids(home);
    assert_eq!(upstreams.len(), upstreams_before.len() + 1, "one upstream for all");
    wait_for(|| upstreams_before.iter().all(|pid| !alive(*pid)).then_some(()));
    assert!(alive(*upstreams.last().unwrap()));
}

#[test]
fn when_the_gateway_ends_a_bridge_takes_over_until_the_last() {
    for hard in [false, true] {
        let home = home_with_text();
        let (first, mut agents) = gathering(&home, 3);
        agents.insert(0, first);
        while agents.len() > 1 {
            let before = upstream_pids(&home);
            let current = holder(&home).unwrap();
            let place = agents.iter().position(|agent| agent.pid() == current).unwrap();
            let mut ending = agents.remove(place);
            if hard {
                ending.kill();
            } else {
                signal(current, "TERM");
                assert_eq!(ending.code(), Some(0), "{}", ending.log());
            }
            taken_over(&home, &mut agents, &before);
        }
        let last = upstream_pids(&home);
        for agent in agents {
            assert_eq!(agent.close(), Some(0));
        }
        wait_for(|| last.iter().all(|pid| !alive(*pid)).then_some(()));
        for row in home.events("tool_call", 3 + 2 + 1) {
            assert_eq!(row["status"], "success", "{row}");
            assert!(row["client_name"].as_str().unwrap().starts_with("bridge"), "{row}");
        }
    }
}

#[test]
fn a_bridge_takes_over_by_itself_while_its_client_is_silent() {
    let home = home_with_text();
    let (first, mut bridges) = gathering(&home, 2);
    first.kill();
    let began = Instant::now();
    let next = wait_for(|| holder(&home).filter(|pid| bridges.iter().any(|bridge| bridge.pid() == *pid)));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let tool = home.run(&["call", "tool-read", "-t", "srv:tool"]);
    assert_eq!(tool.stdout, "hello\n", "{}", tool.stderr);
    assert_eq!(bridges[0].call("1", "tool"), "hello");
    assert_eq!(holder(&home), Some(next));
}

#[test]
fn a_call_in_flight_when_the_gateway_is_killed_gets_an_error_and_is_not_repeated() {
    let script = Script::text("hello")
        .tools(vec![tool("hang"), tool("tool")])
        .on("hang", Action::Progress(1, 10, Box::new(Action::Hang)));
    let home = home_with(script);
    let (first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    bridge.send(&call("1", "hang", ""));
    bridge.send(&call("2", "hang", r#","_meta":{"progressToken":2}"#));
    wait_for(|| (home.calls("srv") == 2).then_some(()));
    assert_eq!(bridge.answer()["method"], "notifications/progress");
    let pid = first.pid();
    first.kill();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = bridge.answer();
        let text = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(text.contains(&pid.to_string()) && text.contains("may have been done"), "{text}");
        ids.push(answer["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    assert_eq!(bridge.call("3", "tool"), "hello");
    assert_eq!(home.calls("srv"), 3);
    assert_eq!(holder(&home), Some(bridge.pid()));
    let abandoned = home.activity(&["--type", "tool_call", "--status", "abandoned"]);
    assert_eq!(abandoned.len(), 2, "{abandoned:#?}");
}

#[test]
fn a_call_in_flight_when_the_gateway_ends_in_order_is_answered_and_those_after_it_too() {
    let script = Script::text("hello")
        .tools(vec![tool("late"), tool("tool")])
        .on("late", Action::After(1500, Box::new(Action::Result(text_result("late")))));
    let home = home_with(script);
    let (first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    bridge.send(&call("1", "late", ""));
    wait_for(|| (home.calls("srv") == 1).then_some(()));
    signal(first.pid(), "TERM");
    std::thread::sleep(Duration::from_millis(200));
    bridge.send(&call("2", "tool", ""));
    bridge.send(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    let mut answers: Vec<_> = (0..3).map(|_| bridge.answer()).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["result"]["content"][0]["text"], "late", "{}", answers[0]);
    assert_eq!(answers[1]["result"]["content"][0]["text"], "hello", "{}", answers[1]);
    assert_eq!(answers[2]["result"]["tools"].as_array().unwrap().len(), 5);
    assert_eq!(holder(&home), Some(bridge.pid()));
}

#[test]
fn a_bridge_to_a_gateway_with_a_port_works_and_takes_over() {
    let home = home_with_text();
    let gateway = home.serve();
    let mut bridges: Vec<_> = (0..2).map(|number| Agent::open(&home, &format!("bridge{number}"))).collect();
    assert_eq!(gateway.call("srv:tool").send().first_text(), "hello");
    for bridge in &mut bridges {
        assert_eq!(bridge.call("1", "tool"), "hello");
        assert!(bridge.log().contains("its configuration counts"), "{}", bridge.log());
    }
    let before = upstream_pids(&home);
    assert_eq!(before.len(), 1);
    assert_eq!(gateway.stop(), Some(0));
    taken_over(&home, &mut bridges, &before);
    assert_eq!(run_json(&home).unwrap()["listen"], Value::Null);
}

#[test]
fn a_gateway_with_a_port_that_is_restarted_has_its_place_again() {
    let home = home_with_text();
    let gateway = home.serve();
    let mut bridge = Agent::open(&home, "bridge");
    assert_eq!(bridge.call("1", "tool"), "hello");
    gateway.stop();
    let gateway = home.serve();
    assert_eq!(bridge.call("2", "tool"), "hello");
    assert_eq!(holder(&home), Some(gateway.pid()));
    for row in home.events("tool_call", 2) {
        assert_eq!((&row["caller"], &row["client_name"]), (&"socket".into(), &"bridge".into()));
    }
}

#[test]
fn a_session_that_the_gateway_forgot_is_opened_again_unseen() {
    let home = home_with_text();
    let (_first, mut bridges) = gathering(&home, 1);
    assert_eq!(bridges[0].call("1", "tool"), "hello");
    let row = &home.events("tool_call", 1)[0];
    let session = row["session"].as_str().or(row["session_id"].as_str()).unwrap_or_else(|| panic!("{row}"));
    let socket = PathBuf::from(run_json(&home).unwrap()["socket"].as_str().unwrap());
    let ended = over_socket(&socket, "DELETE", "/mcp", &[("mcp-session-id", session)], b"");
    assert_eq!(ended.status, 204, "{}", ended.text());
    assert_eq!(bridges[0].call("2", "tool"), "hello");
    assert_eq!(home.events("tool_call", 2)[0]["client_name"], "bridge0");
}

#[test]
fn requests_beyond_the_bound_are_refused_as_busy_and_a_cancellation_still_passes() {
    let home = home_with(Script::action(Action::Hang));
    let (_first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    for id in 0..260 {
        bridge.send(&call(&id.to_string(), "tool", ""));
    }
    for _ in 0..4 {
        let answer = bridge.answer();
        assert!(answer["error"]["message"].as_str().unwrap().contains("too many"), "{answer}");
        assert!(answer["id"].as_u64().unwrap() >= 256, "{answer}");
    }
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    wait_for(|| (!home.activity(&["--type", "tool_call", "--status", "cancelled"]).is_empty()).then_some(()));
    wait_for(|| {
        bridge.send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
        bridge.answer()["error"].is_null().then_some(())
    });
}

fn refused(home: &Home, more: &[&str], said: &str) {
    let mut agent = Agent::start_with(home, "refused", &home.config_file(), more);
    assert_eq!(agent.code(), Some(3), "{}", agent.log());
    assert!(agent.log().contains(said), "{}", agent.log());
    assert_eq!(agent.lines.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn a_gateway_that_cannot_be_shared_is_said_with_exit_code_3() {
    let home = home_with_text().set("enable_socket", false);
    let gateway = home.serve();
    refused(&home, &[], "enable_socket");
    drop(gateway);
    let home = home_with_text();
    let gateway = home.serve();
    refused(&home, &["--read-only"], "read-only");
    assert_eq!(gateway.call("srv:tool").send().first_text(), "hello");
    drop(gateway);
    let home = home_with_text().set("read_only_mode", true);
    let _first = Agent::open(&home, "first");
    let mut bridge = Agent::start_with(&home, "bridge", &home.config_file(), &["--read-only"]);
    bridge.greet("bridge");
}

#[test]
fn another_configuration_is_said_not_to_count() {
    let home = home_with_text();
    let _first = Agent::open(&home, "first");
    let other = home.at("other.json");
    let text = json!({"data_dir": home.data(), "mcpServers": []}).to_string();
    fs::write(&other, text).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    let mut agent = Agent::start_with(&home, "other", &other, &[]);
    agent.greet("other");
    assert_eq!(agent.call("1", "tool"), "hello");
    let log = agent.log();
    let expected = [other, home.config_file()].map(|path| path.display().to_string());
    assert!(expected.iter().all(|path| log.contains(path)), "{log}");
}

/// A process that holds the data directory and answers everything on its socket with 404.
struct Impostor {
    _lock: fs::File,
    home: PathBuf,
}

impl Impostor {
    fn start(home: &Home, with_socket: bool) -> Self {
        let data = home.data();
        fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
        let lock = fs::File::create(data.join("lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        writeln!(&lock, "{}", std::process::id()).unwrap();
        let socket = data.join("mcpproxy.sock");
        if with_socket {
            let listener = UnixListener::bind(&socket).unwrap();
            std::thread::spawn(move || {
                for stream in listener.incoming().take(100) {
                    let mut stream = stream.unwrap();
                    let _ = stream.read(&mut [0; 4096]);
                    let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
                }
            });
            let run = json!({"pid": std::process::id(), "version": "0.0.9", "listen": null, "socket": socket, "started": 1});
            fs::write(data.join("run.json"), run.to_string()).unwrap();
            fs::set_permissions(data.join("run.json"), fs::Permissions::from_mode(0o600)).unwrap();
        }
        Self { _lock: lock, home: data }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.home.join("run.json"));
    }
}

#[test]
fn a_gateway_that_speaks_no_mcp_is_said_with_exit_code_3() {
    let home = home_with_text();
    let _impostor = Impostor::start(&home, true);
    refused(&home, &[], "does not speak MCP");
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn an_agent_waits_for_one_that_only_passes_through() {
    let home = home_with_text();
    let passing = Impostor::start(&home, false);
    let mut agent = Agent::start(&home, "patient");
    agent.send(&greeting("patient"));
    std::thread::sleep(Duration::from_secs(2));
    assert!(agent.child.try_wait().unwrap().is_none(), "{}", agent.log());
    drop(passing);
    assert_eq!(agent.answer()["id"], "i");
    assert_eq!(agent.call("1", "tool"), "hello");
    assert_eq!(holder(&home), Some(agent.pid()));
    let mut patient = Agent::start(&home, "bridge");
    patient.greet("bridge");
    assert_eq!(patient.call("1", "tool"), "hello");
}

#[test]
fn a_large_answer_that_breaks_off_is_followed_by_an_error() {
    let script = Script::text("hello")
        .tools(vec![tool("huge"), tool("tool")])
        .on("huge", Action::Generate(40_000_000));
    let home = home_with(script);
    let (first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    bridge.send(&call("1", "huge", ""));
    wait_for(|| (home.calls("srv") == 1).then_some(()));
    first.kill();
    let mut answered = 0;
    while answered == 0 {
        let line = bridge.line();
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) => {
                assert_eq!(answer["id"], 1, "{}", &line[..line.len().min(300)]);
                answered += 1;
            }
            // What was written of it cannot be taken back.
            Err(_) => assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":"#), "{}", &line[..100]),
        }
    }
    assert_eq!(bridge.call("2", "tool"), "hello");
}

#[test]
fn an_agent_behind_a_bridge_hears_that_the_list_of_tools_changed_also_after_a_take_over() {
    let home = home_with_text();
    let (first, mut bridges) = gathering(&home, 1);
    let bridge = &mut bridges[0];
    let changed = |bridge: &mut Agent, name: &str| {
        // The stream of news is opened beside the answer to `initialize`.
        std::thread::sleep(Duration::from_millis(500));
        fs::create_dir(home.at(name)).unwrap();
        let mut config: Value = serde_json::from_slice(&fs::read(home.config_file()).unwrap()).unwrap();
        config["tool_output_roots"] = json!([home.at(name)]);
        fs::write(home.at("config.new"), config.to_string()).unwrap();
        fs::rename(home.at("config.new"), home.config_file()).unwrap();
        assert_eq!(bridge.answer()["method"], "notifications/tools/list_changed");
        bridge.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let menu = bridge.line();
        assert!(menu.contains(home.at(name).to_str().unwrap()), "{menu}");
    };
    changed(bridge, "second");
    first.kill();
    assert_eq!(bridge.call("2", "tool"), "hello");
    assert_eq!(holder(&home), Some(bridge.pid()));
    bridge.send(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    assert!(bridge.line().contains(home.at("second").to_str().unwrap()), "the file of now counts");
    changed(bridge, "third");
    assert_eq!(bridges.pop().unwrap().close(), Some(0));
}

#[test]
fn a_hangup_does_not_end_a_bridge() {
    let home = home_with_text();
    let (_first, mut bridges) = gathering(&home, 1);
    signal(bridges[0].pid(), "HUP");
    assert_eq!(bridges[0].call("1", "tool"), "hello");
}

#[test]
fn a_bridge_needs_no_file_in_order_and_never_becomes_a_gateway_by_one_that_is_not() {
    let home = home_with_text();
    let gateway = home.serve();
    let mut config: Value = serde_json::from_slice(&fs::read(home.config_file()).unwrap()).unwrap();
    config["read_only_mode"] = json!("yes");
    fs::write(home.config_file(), config.to_string()).unwrap();
    let mut agent = Agent::open(&home, "late");
    assert!(!agent.call("1", "srv:tool").is_empty());
    gateway.stop();
    assert_eq!(agent.code(), Some(4), "{}", agent.log());
    assert!(agent.log().contains("$.read_only_mode"), "{}", agent.log());
}
