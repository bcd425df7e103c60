//! The life of records: every call ends with exactly one closed row, also when the database cannot be written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![allow(clippy::disallowed_methods)] // the room of records tests itself

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use store::{
    Busy, Event, EventType, Filter, OpenError, Opening, Options, Reason, SavedFile, SavedFilter, Status,
    Store, StoreFull, UpstreamRan, now_ms,
};

fn open(home: &Path) -> Store {
    Store::open(home, Options::default()).unwrap()
}

fn opening(request_id: &str) -> Opening<'_> {
    Opening { request_id, started_ms: now_ms(), server: "fs", tool: "read", ..Opening::default() }
}

fn closing(status: Status) -> Event {
    Event { status, server: Some("fs".into()), ..Event::new(EventType::ToolCall, now_ms()) }
}

fn of_request(store: &Store, request_id: &str) -> Vec<Event> {
    let filter = Filter { request_id: Some(request_id.into()), ..Filter::default() };
    store.reader().unwrap().list(&filter).unwrap()
}

/// Holds the lock of another program on the database for as long as it lives.
fn locked(home: &Path) -> Connection {
    let other = Connection::open(home.join("mcpproxy.db")).unwrap();
    other.execute("BEGIN IMMEDIATE", []).unwrap();
    other
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

#[test]
fn a_closed_call_has_one_row_and_a_decision_with_its_request_id() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    assert!(store.report().created);
    let call = store.begin(&opening("r1")).unwrap();
    let row_id = call.row_id().to_owned();
    store.mark_dispatched(&call).unwrap();
    store.mark_answered(&call).unwrap();
    let decision = Event { status: Status::Blocked, ..Event::new(EventType::PolicyDecision, now_ms()) };
    let blocked = Event { reason: Some(Reason::SaveOutside), ..closing(Status::Blocked) };
    store.finish(call, vec![decision, blocked]).unwrap();
    assert!(store.flush());
    let rows = of_request(&store, "r1");
    assert_eq!(rows.len(), 2);
    let call = rows.iter().find(|row| row.kind == EventType::ToolCall).unwrap();
    assert_eq!((call.id.as_str(), call.reason), (row_id.as_str(), Some(Reason::SaveOutside)));
    assert_eq!(store.reader().unwrap().get("r1").unwrap().unwrap().id, row_id);
    assert_eq!(store.health().in_flight, 0);
    drop(store);
    let store = open(home.path());
    assert_eq!(store.report().abandoned, 0);
    assert!(!store.report().created);
}

#[test]
fn two_calls_with_the_same_request_id_keep_a_row_each() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    for _ in 0..2 {
        let call = store.begin(&opening("chosen-by-the-client")).unwrap();
        store.finish(call, vec![closing(Status::Success)]).unwrap();
    }
    assert!(store.flush());
    assert_eq!(of_request(&store, "chosen-by-the-client").len(), 2);
}

#[test]
fn a_call_that_is_dropped_or_closed_without_a_row_is_recorded_as_abandoned() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let dropped = store.begin(&opening("dropped")).unwrap();
    store.mark_dispatched(&dropped).unwrap();
    drop(dropped);
    let empty = store.begin(&opening("empty")).unwrap();
    store.finish(empty, Vec::new()).unwrap();
    assert!(store.flush());
    for (id, ran) in [("dropped", UpstreamRan::Unknown), ("empty", UpstreamRan::No)] {
        let rows = of_request(&store, id);
        assert_eq!(rows.len(), 1, "{id}");
        assert_eq!((rows[0].status, rows[0].upstream_ran), (Status::Abandoned, Some(ran)), "{id}");
        assert_eq!(rows[0].tool.as_deref(), Some("read"));
    }
}

#[test]
fn slots_of_a_dead_process_become_abandoned_rows_once_however_often_they_are_found() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let calls = ["a", "b", "c"].map(|id| store.begin(&opening(id)).unwrap());
    store.mark_dispatched(&calls[1]).unwrap();
    let slots = std::fs::read(home.path().join("inflight")).unwrap();
    drop(calls);
    drop(store);
    std::fs::remove_file(home.path().join("mcpproxy.db")).unwrap();
    for expected in [3, 0] {
        std::fs::write(home.path().join("inflight"), &slots).unwrap();
        let store = open(home.path());
        assert_eq!(store.report().abandoned, expected);
        assert_eq!(store.health().in_flight, 0);
        for (id, ran) in [("a", UpstreamRan::No), ("b", UpstreamRan::Unknown), ("c", UpstreamRan::No)] {
            let rows = of_request(&store, id);
            assert_eq!(rows.len(), 1);
            assert_eq!((rows[0].status, rows[0].upstream_ran), (Status::Abandoned, Some(ran)));
        }
    }
}

#[test]
fn while_the_database_is_locked_rows_wait_then_calls_are_refused_and_nothing_is_lost() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { waiting_calls: 8, busy_timeout: Duration::from_millis(20), ..Options::default() };
    let store = Store::open(home.path(), options).unwrap();
    let lock = locked(home.path());
    let first = store.begin(&opening("first")).unwrap();
    store.finish(first, vec![closing(Status::Success)]).unwrap();
    wait_for("failing", || store.health().failing.is_some());
    let open_calls: Vec<_> = (0..20).map(|n| store.begin(&opening(&format!("r{n}"))).unwrap()).collect();
    for call in open_calls {
        store
            .finish(call, vec![closing(Status::Success)])
            .expect("a call that was begun can always be closed");
    }
    let refused = store.begin(&opening("refused")).err().unwrap();
    assert!(matches!(&refused, StoreFull::Waiting { calls, .. } if *calls == 21), "{refused}");
    assert!(refused.to_string().contains("locked"));
    assert_eq!(store.health().waiting_rows, 21);
    assert!(!store.flush_within(Duration::from_millis(10)));
    assert_eq!(store.reader().unwrap().count(&Filter::default()).unwrap(), 0, "reading goes on");

    drop(lock);
    assert!(store.flush_within(Duration::from_secs(60)));
    assert!(store.health().is_ok());
    assert_eq!(store.reader().unwrap().count(&Filter::default()).unwrap(), 21);
    let again = store.begin(&opening("again")).unwrap();
    store.finish(again, vec![closing(Status::Success)]).unwrap();
}

#[test]
fn a_writer_that_is_behind_slows_callers_down_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { waiting_calls: 1, busy_timeout: Duration::from_secs(60), ..Options::default() };
    let store = Store::open(home.path(), options).unwrap();
    let lock = locked(home.path());
    let [first, second] = ["1", "2"].map(|id| store.begin(&opening(id)).unwrap());
    store.finish(first, vec![closing(Status::Success)]).unwrap();
    let Busy(second, rows) = store.finish(second, vec![closing(Status::Error)]).unwrap_err();
    assert_eq!((second.request_id(), rows.len()), ("2", 1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.finish_blocking(second, rows));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        drop(lock);
        waiting.join().unwrap();
    });
    assert!(store.flush());
    assert_eq!(store.reader().unwrap().count(&Filter::default()).unwrap(), 2);
}

#[test]
fn bodies_are_left_out_when_too_much_memory_waits_but_rows_are_not() {
    let home = tempfile::tempdir().unwrap();
    let options =
        Options { waiting_bytes: 100_000, busy_timeout: Duration::from_millis(10), ..Options::default() };
    let store = Store::open(home.path(), options).unwrap();
    let lock = locked(home.path());
    let calls: Vec<_> = (0..10).map(|n| store.begin(&opening(&n.to_string())).unwrap()).collect();
    let mut calls = calls.into_iter();
    store.finish(calls.next().unwrap(), vec![closing(Status::Success)]).unwrap();
    wait_for("failing", || store.health().failing.is_some());
    for call in calls {
        let row = Event { response: Some("x".repeat(60_000)), ..closing(Status::Success) };
        store.finish(call, vec![row]).unwrap();
    }
    assert!(store.health().waiting_bytes < 200_000, "{:?}", store.health());
    assert!(store.begin(&opening("more")).is_err());
    drop(lock);
    assert!(store.flush_within(Duration::from_secs(60)));
    let rows = store.reader().unwrap().list(&Filter::default()).unwrap();
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().any(|row| row.response.is_none() && row.response_truncated));
}

#[test]
fn all_slots_taken_refuses_and_a_closed_call_makes_room() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), Options { slots: 2, ..Options::default() }).unwrap();
    let first = store.begin(&opening("1")).unwrap();
    let _second = store.begin(&opening("2")).unwrap();
    let refused = store.begin(&opening("3")).err().unwrap();
    assert_eq!(refused, StoreFull::InFlight { calls: 2 });
    store.finish(first, vec![closing(Status::Success)]).unwrap();
    assert!(store.flush());
    let third = store.begin(&opening("3")).unwrap();
    store.finish(third, vec![closing(Status::Success)]).unwrap();
}

#[test]
fn many_threads_lose_no_row() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { slots: 64, waiting_calls: 16, ..Options::default() };
    let store = Store::open(home.path(), options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..250 {
                    let id = format!("{thread}-{n}");
                    let call = loop {
                        match store.begin(&opening(&id)) {
                            Ok(call) => break call,
                            Err(_) => std::thread::yield_now(),
                        }
                    };
                    store.mark_dispatched(&call).unwrap();
                    if let Err(Busy(call, rows)) = store.finish(call, vec![closing(Status::Success)]) {
                        store.finish_blocking(call, rows);
                    }
                }
            });
        }
    });
    assert!(store.flush());
    let reader = store.reader().unwrap();
    assert_eq!(reader.count(&Filter::default()).unwrap(), 2000);
    let abandoned = Filter { statuses: vec![Status::Abandoned], ..Filter::default() };
    assert_eq!(reader.count(&abandoned).unwrap(), 0);
    assert_eq!(store.health().in_flight, 0);
}

#[test]
fn a_damaged_database_is_moved_aside_and_open_calls_go_to_the_new_one() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let call = store.begin(&opening("r")).unwrap();
    let slots = std::fs::read(home.path().join("inflight")).unwrap();
    drop(call);
    drop(store);
    std::fs::write(home.path().join("inflight"), slots).unwrap();
    std::fs::write(home.path().join("mcpproxy.db"), "SQLite format 3\0 but not really".repeat(1000)).unwrap();
    let store = open(home.path());
    let aside = store.report().moved_aside.clone().expect("the report says so");
    assert!(aside.exists());
    assert_eq!(store.report().abandoned, 1);
    assert_eq!(of_request(&store, "r").len(), 1);
}

#[test]
fn a_newer_database_and_a_place_that_cannot_be_used_are_refused_with_words() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    let other = Connection::open(home.path().join("mcpproxy.db")).unwrap();
    other.pragma_update(None, "user_version", 7).unwrap();
    drop(other);
    let error = Store::open(home.path(), Options::default()).err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 7, .. }), "{error}");
    assert!(store::Reader::open(home.path()).err().unwrap().to_string().contains("schema 7"));

    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("inflight")).unwrap();
    assert!(matches!(Store::open(home.path(), Options::default()), Err(OpenError::Slots { .. })));
    std::fs::write(home.path().join("file"), "").unwrap();
    let beneath_a_file = home.path().join("file/dir");
    assert!(matches!(Store::open(&beneath_a_file, Options::default()), Err(OpenError::File { .. })));
}

#[test]
fn rows_without_a_call_are_taken_up_to_a_bound() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { waiting_calls: 5, busy_timeout: Duration::from_millis(10), ..Options::default() };
    let store = Store::open(home.path(), options).unwrap();
    let lock = locked(home.path());
    let taken =
        (0..50).filter(|_| store.append(Event::new(EventType::ServerChange, now_ms())).is_ok()).count();
    assert_eq!(taken, 10);
    drop(lock);
    assert!(store.flush_within(Duration::from_secs(60)));
    assert_eq!(store.reader().unwrap().count(&Filter::default()).unwrap(), 10);
}

fn saved(home: &Path, name: &str, size: u64) -> Event {
    let path = home.join(name);
    let file = SavedFile {
        root: home.to_str().unwrap().into(),
        path: path.to_str().unwrap().into(),
        bytes: size,
        sha256: "0".repeat(64),
        format: "text".into(),
        dev: 1,
        ino: 2,
        size,
        ctime_ns: 3,
    };
    Event { saved: Some(file), ..closing(Status::Success) }
}

#[test]
fn saved_files_are_counted_at_once_replaced_struck_when_gone_and_not_pruned() {
    let home = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let options = Options { busy_timeout: Duration::from_millis(10), ..Options::default() };
    let store = Store::open(home.path(), options).unwrap();
    let save = |name: &str, size: u64| {
        std::fs::write(root.path().join(name), "x").unwrap();
        let call = store.begin(&opening(name)).unwrap();
        store.finish(call, vec![saved(root.path(), name, size)]).unwrap();
    };
    let lock = locked(home.path());
    save("a", 100);
    assert_eq!(store.saved_bytes(root.path()).unwrap(), 100, "the row waits and the file counts");
    drop(lock);
    save("b", 50);
    save("a", 30);
    assert!(store.flush_within(Duration::from_secs(60)));
    assert_eq!(store.saved_bytes(root.path()).unwrap(), 80, "the first `a` was replaced");
    assert_eq!(store.saved_bytes(home.path()).unwrap(), 0);
    store.set_limits(store::Retention { days: 0, max_records: 1, max_bytes: 0 }, 100);
    store.sweep().unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(reader.count(&Filter::default()).unwrap(), 1);
    assert_eq!(reader.saved_files(&SavedFilter::default()).unwrap().len(), 2);
    assert_eq!(store.strike_missing(root.path()).unwrap(), 80);
    std::fs::remove_file(root.path().join("b")).unwrap();
    assert_eq!(store.strike_missing(root.path()).unwrap(), 30);
    drop(store);
    let store = open(home.path());
    assert_eq!(store.saved_bytes(root.path()).unwrap(), 30);
    let known = store.reader().unwrap().saved_files(&SavedFilter::default()).unwrap();
    assert_eq!((known.len(), known[0].request_id.as_deref()), (1, Some("a")));
}

#[test]
fn saved_files_are_listed_in_pages_found_by_any_name_and_forgotten_one_by_one() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let roots = [home.path().join("one"), home.path().join("two")];
    for n in 0..30i64 {
        let call = store.begin(&opening(&format!("request-{n}"))).unwrap();
        let row = Event {
            time_ms: n,
            tool: Some(format!("t{n}")),
            ..saved(&roots[usize::from(n % 3 == 0)], &format!("f{n}"), 7)
        };
        store.finish_blocking(call, vec![row]);
    }
    assert!(store.flush());
    let reader = store.reader().unwrap();
    let page = |limit, offset| {
        let files = reader.saved_files(&SavedFilter { limit, offset, ..SavedFilter::default() }).unwrap();
        files.into_iter().map(|entry| entry.saved_ms).collect::<Vec<_>>()
    };
    assert_eq!(page(3, 0), [29, 28, 27]);
    assert_eq!(page(3, 28), [1, 0]);
    assert_eq!((page(0, 0).len(), page(5000, 0).len()), (1, 30));
    let of_root = SavedFilter {
        root: roots[1].to_str().map(str::to_owned),
        until_ms: Some(10),
        ..SavedFilter::default()
    };
    assert_eq!(reader.count_saved_files(&of_root).unwrap(), 4, "0, 3, 6 and 9");
    assert_eq!(reader.saved_files(&of_root).unwrap().len(), 4);
    let one = reader.saved_file("request-5").unwrap().unwrap();
    assert_eq!((one.server.as_deref(), one.tool.as_deref(), one.saved_ms), (Some("fs"), Some("t5"), 5));
    for id in [&one.event_id, &one.file.path] {
        assert_eq!(reader.saved_file(id).unwrap().as_ref(), Some(&one), "{id}");
    }
    assert_eq!(reader.saved_file("nope").unwrap(), None);

    // A later save to the same path has the place in the table: the older id forgets nothing.
    let call = store.begin(&opening("again")).unwrap();
    store.finish_blocking(call, vec![saved(&roots[0], "f5", 9)]);
    assert!(store.flush());
    assert_eq!(store.saved_bytes(&roots[0]).unwrap(), 20 * 7 + 2);
    assert!(!store.forget_saved(&one.event_id).unwrap());
    let again = reader.saved_file(&one.file.path).unwrap().unwrap();
    assert!(store.forget_saved(&again.event_id).unwrap());
    assert_eq!(store.saved_bytes(&roots[0]).unwrap(), 19 * 7);
    assert_eq!(reader.saved_file(&one.file.path).unwrap(), None);
}

#[test]
fn striking_looks_at_more_files_than_one_step_holds() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    for n in 0..2500 {
        let call = store.begin(&opening("s")).unwrap();
        store.finish_blocking(call, vec![saved(home.path(), &format!("gone/{n}"), 2)]);
    }
    assert!(store.flush());
    assert_eq!(store.saved_bytes(home.path()).unwrap(), 5000);
    assert_eq!(store.strike_missing(home.path()).unwrap(), 0);
}

#[test]
fn servers_of_the_first_start_are_the_baseline_of_all_later_ones() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    store.end_first_start();
    drop(store);
    let store = open(home.path());
    assert!(store.note_server("a", "npx a", 5).unwrap().first_start);
    assert!(store.note_server("b", "npx b", 5).unwrap().first_start);
    store.end_first_start();
    assert!(!store.note_server("later", "x", 6).unwrap().first_start);
    drop(store);
    let store = open(home.path());
    let seen =
        store.note_servers(&[("a".into(), "npx a --all".into()), ("new".into(), "y".into())], 7).unwrap();
    assert!(seen[0].first_start && seen[0].changed && !seen[0].new);
    assert!(!seen[1].first_start && seen[1].new);
    assert_eq!(store.reader().unwrap().servers().unwrap().len(), 4);
}

#[cfg(unix)]
#[test]
fn a_database_that_is_removed_while_running_is_made_anew() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { sweep_every: Duration::from_millis(20), ..Options::default() };
    let store = Store::open(home.path(), options).unwrap();
    for name in ["mcpproxy.db", "mcpproxy.db-wal", "mcpproxy.db-shm"] {
        std::fs::remove_file(home.path().join(name)).unwrap();
    }
    wait_for("a new database", || store.reader().is_ok());
    let call = store.begin(&opening("r")).unwrap();
    store.finish(call, vec![closing(Status::Success)]).unwrap();
    assert!(store.flush());
    assert_eq!(of_request(&store, "r").len(), 1);
}
