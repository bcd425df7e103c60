//! What many cases ask in the same words.

use std::path::Path;

use serde_json::Value;
use testkit::{Action, CallBuilder, Gateway, Home, Reply, Script, script, tree};

/// A home with one root `root`, an empty directory `outside`, and the upstream `srv` with one tool that does `action`.
pub fn home(action: Action) -> Home {
    home_with(Script::action(action))
}

/// The same with a whole script.
pub fn home_with(script: Script) -> Home {
    let home = testkit::home!().root("root").upstream("srv", script);
    std::fs::create_dir(home.at("outside")).unwrap();
    home
}

/// The same with a tool that gives one short text.
pub fn home_with_text() -> Home {
    home(Action::Result(script::text_result("hello")))
}

/// Everything that a save may touch.
pub fn files(home: &Home) -> Vec<std::collections::BTreeMap<std::path::PathBuf, String>> {
    ["root", "outside"].iter().map(|dir| tree::snapshot(&home.at(dir))).collect()
}

/// A save that must be refused before the upstream sees it: the reason is in the reply and in the record, the upstream
/// was not called, and nothing changed on the disk.
pub fn refused_before(home: &Home, gateway: &Gateway, call: CallBuilder, reason: &str) -> String {
    let (files_before, calls_before) = (files(home), home.calls("srv"));
    let known = blocked(home).len();
    let reply = call.send();
    let text = reply.refusal();
    assert!(text.starts_with("save_to_file: "), "{text}");
    assert_eq!(home.calls("srv"), calls_before, "the upstream was called: {text}");
    assert_eq!(files(home), files_before, "something changed on the disk: {text}");
    let rows = wait_for(|| {
        let rows = blocked(home);
        (rows.len() > known).then_some(rows)
    });
    let row = &rows[0];
    assert_eq!(row["reason"], reason, "{text}");
    assert_eq!(row["upstream_ran"], "no");
    let id = row["request_id"].as_str().unwrap();
    assert!(text.contains(id), "the reply names its record: {text}");
    let decisions = home.activity(&["--type", "policy_decision", "--request-id", id]);
    assert_eq!(decisions.len(), 1, "one decision row");
    assert_eq!(decisions[0]["reason"], reason);
    assert_eq!(reply.header("x-request-id").as_deref(), Some(id));
    assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
    text
}

fn blocked(home: &Home) -> Vec<Value> {
    home.activity(&["--type", "tool_call", "--status", "blocked", "-n", "1000"])
}

/// A save that must fail after the upstream ran: no file, no body in the reply, status `error`.
pub fn failed_after(home: &Home, call: CallBuilder, reason: &str) -> String {
    let files_before = files(home);
    let calls_before = home.calls("srv");
    let text = call.send().refusal();
    assert_eq!(home.calls("srv"), calls_before + 1, "{text}");
    assert_eq!(files(home), files_before, "something stayed on the disk: {text}");
    let row = wait_for(|| {
        let rows = home.activity(&["--type", "tool_call", "--status", "error", "-n", "1"]);
        rows.into_iter().next().filter(|r| r["request_id"].as_str().is_some_and(|id| text.contains(id)))
    });
    assert_eq!(row["reason"], reason, "{text}");
    assert_eq!(row["upstream_ran"], "yes");
    text
}

/// A save that must succeed: the file holds `expected`, the envelope says so, no temporary is left.
pub fn saved(reply: &Reply, path: &Path, expected: &[u8]) -> Value {
    let envelope = reply.envelope();
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(bytes.len(), expected.len(), "the length of {}", path.display());
    assert!(bytes == expected, "the bytes of {}", path.display());
    assert_eq!(envelope["saved_to"], path.to_str().unwrap());
    assert_eq!(envelope["bytes"], expected.len());
    assert_eq!(envelope["sha256"], tree::sha256(expected));
    no_temporary(path.parent().unwrap());
    envelope
}

/// No temporary of ours lies in a directory.
pub fn no_temporary(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().starts_with(".mcpproxy-"), "{name:?} is left");
    }
}

/// Asks again until there is an answer, for at most 20 seconds.
pub fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(std::time::Instant::now() < until, "waited 20 seconds in vain");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Whether the test runs as root; says that it is skipped when it does not.
pub fn is_root(what: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        println!("skipped: {what} needs root");
    }
    root
}
