//! The load client against the upstream: sound replies pass, wrong ones are counted and end with exit code 1.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const BENCHKIT: &str = env!("CARGO_BIN_EXE_benchkit");

struct Upstream {
    child: Child,
    url: String,
}

impl Upstream {
    fn start() -> Self {
        let mut child = Command::new(BENCHKIT)
            .args(["upstream-http", "--tools", "40", "--until-stdin-closes"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The figures and the exit code.
fn load(words: &[&str]) -> (Value, i32) {
    let done = Command::new(BENCHKIT).arg("load").args(words).output().unwrap();
    let figures = serde_json::from_slice(&done.stdout);
    (
        figures.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr))),
        done.status.code().unwrap(),
    )
}

#[test]
fn every_call_over_http_is_made_and_checked() {
    let upstream = Upstream::start();
    let (echo, code) =
        load(&["--url", &upstream.url, "--case", "echo", "--calls", "200", "--concurrency", "8"]);
    assert_eq!((&echo["calls"], &echo["errors"], code), (&200.into(), &0.into(), 0), "{echo}");
    let (big, code) = load(&["--url", &upstream.url, "--case", "big", "--bytes", "3000000", "--calls", "2"]);
    assert_eq!((&big["errors"], code), (&0.into(), 0), "{big}");
    assert!(big["reply_bytes"].as_u64().unwrap() > 3_000_000, "{big}");
    let (list, _) = load(&["--url", &upstream.url, "--case", "list", "--calls", "1"]);
    assert_eq!((&list["tools"], &list["names"][1]), (&40.into(), &"big".into()), "{list}");
}

#[test]
fn every_call_over_stdio_is_made_and_checked_and_the_child_is_measured() {
    let command = format!("{BENCHKIT} upstream-stdio");
    let (echo, code) = load(&["--stdio", &command, "--case", "echo", "--calls", "100", "--concurrency", "4"]);
    assert_eq!((&echo["calls"], &echo["errors"], code), (&100.into(), &0.into(), 0), "{echo}");
    assert!(echo["cpu_s"].is_number(), "{echo}");
}

#[test]
fn wrong_replies_are_counted() {
    let upstream = Upstream::start();
    let words =
        ["--url", &upstream.url, "--case", "echo", "--tool", "nope", "--calls", "5", "--warm-up", "0"];
    let (wrong, code) = load(&words);
    assert_eq!((&wrong["errors"], code), (&5.into(), 1), "{wrong}");
}

#[test]
fn the_floor_leaves_no_file() {
    let dir = std::env::temp_dir().join(format!("benchkit-floor-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let done =
        Command::new(BENCHKIT).args(["floor", "--bytes", "100000", "--dir"]).arg(&dir).output().unwrap();
    let figures: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(figures["wall_s"].as_f64().unwrap() > 0.0, "{figures}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    std::fs::remove_dir(&dir).unwrap();
}
