//! `kill -9` at any moment: no call that was dispatched lacks a row, and none has two.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![allow(clippy::disallowed_methods)] // the room of records tests itself

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use store::{Busy, Event, EventType, Filter, Opening, Options, Reader, Status, Store, now_ms};

const DIRECTORY: &str = "STORE_KILL_TARGET";
/// How many rounds, if not [`ROUNDS`].
const MORE_ROUNDS: &str = "STORE_KILL_ROUNDS";
const ROUNDS: u32 = 20;

/// What the process that is killed does: calls from four threads, each dispatch said aloud before it would happen.
/// As a test of its own it does nothing.
#[test]
fn target() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store = Store::open(Path::new(&directory), Options::default()).unwrap();
    say("ready");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || run_calls(store, thread));
        }
    });
}

fn run_calls(store: &Store, thread: u32) {
    for number in 0u32.. {
        let id = format!("{}-{thread}-{number}", std::process::id());
        let opening =
            Opening { request_id: &id, started_ms: now_ms(), server: "s", tool: "t", ..Opening::default() };
        let Ok(call) = store.begin(&opening) else { continue };
        store.mark_dispatched(&call).unwrap();
        say(&format!("dispatched {id}"));
        let rows = vec![
            Event::new(EventType::PolicyDecision, now_ms()),
            Event { response: Some("x".repeat(300)), ..Event::new(EventType::ToolCall, now_ms()) },
        ];
        if let Err(Busy(call, rows)) = store.finish(call, rows) {
            store.finish_blocking(call, rows);
        }
    }
}

/// One line in one write, so that a kill never leaves half of an id.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

fn start(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "target", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the target, kills it after this time, and answers the ids that it said were dispatched.
fn killed_after(directory: &Path, time: Duration) -> Vec<String> {
    let mut child = start(directory);
    let out = BufReader::new(child.stdout.take().unwrap());
    let reading = std::thread::spawn(move || {
        let lines = out.lines().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix("dispatched ").map(str::to_owned)).collect::<Vec<_>>()
    });
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
    reading.join().unwrap()
}

fn calls_by_request(directory: &Path) -> HashMap<String, Vec<Event>> {
    let reader = Reader::open(directory).unwrap();
    let mut filter = Filter { types: vec![EventType::ToolCall], limit: 1000, ..Filter::default() };
    let mut calls: HashMap<String, Vec<Event>> = HashMap::new();
    loop {
        let page = reader.list(&filter).unwrap();
        let Some(last) = page.last() else { return calls };
        filter.before = Some(last.id.clone());
        for event in page {
            calls.entry(event.request_id.clone().unwrap()).or_default().push(event);
        }
    }
}

#[test]
fn no_dispatched_call_lacks_a_row_and_none_has_two() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    println!("seed {seed}");
    let mut state = u64::try_from(seed % u128::from(u64::MAX)).unwrap() | 1;
    let (mut dispatched, mut abandoned) = (0, 0);
    let rounds = std::env::var(MORE_ROUNDS).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let home = tempfile::tempdir().unwrap();
        let mut said = Vec::new();
        // Twice in the same place, so that kills also hit the clearing up after the first one.
        for _ in 0..2 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            said.extend(killed_after(home.path(), Duration::from_micros(state % 120_000)));
        }
        if let Ok(reader) = Reader::open(home.path()) {
            reader
                .list(&Filter::default())
                .expect("what a dead process left can be read before anyone opens it");
        }
        let store = Store::open(home.path(), Options::default()).unwrap();
        assert_eq!(store.report().moved_aside, None, "round {round}: the database opens clean");
        assert_eq!(store.health().in_flight, 0);
        drop(store);
        let calls = calls_by_request(home.path());
        for id in &said {
            assert_eq!(
                calls.get(id).map(Vec::len),
                Some(1),
                "round {round}: rows of the dispatched call {id}"
            );
        }
        for (id, rows) in &calls {
            assert_eq!(rows.len(), 1, "round {round}: rows of the call {id}");
        }
        dispatched += said.len();
        abandoned += calls.values().flatten().filter(|row| row.status == Status::Abandoned).count();
    }
    println!("{dispatched} calls dispatched, {abandoned} found abandoned");
    assert!(dispatched > 100, "the target was killed before it did anything: {dispatched}");
}
