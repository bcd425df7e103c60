//! A store under a full disk, a damaged file, a dead writer: what needs a look inside.

use super::*;
use crate::event::{EventType, Status, now_ms};
use crate::filter::Filter;

fn open(home: &Path) -> Store {
    Store::open(home, Options::default()).unwrap()
}

fn call(store: &Store, body: usize) {
    let call = store.begin(&Opening { request_id: "r", started_ms: now_ms(), ..Opening::default() }).unwrap();
    let mut row = Event::new(EventType::ToolCall, now_ms());
    row.response = Some("x".repeat(body));
    store.finish_blocking(call, vec![row]);
}

fn rows(store: &Store) -> u64 {
    store.reader().unwrap().count(&Filter::default()).unwrap()
}

#[test]
fn a_full_disk_makes_calls_wait_and_none_is_lost_when_the_program_ends_so() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    store.ask(|db| db.query_row("PRAGMA max_page_count = 24", [], |_| Ok(()))).unwrap();
    for _ in 0..20 {
        call(&store, 30_000);
    }
    assert!(!store.flush_within(Duration::from_millis(300)));
    let health = store.health();
    assert!(health.failing.unwrap().message.contains("full"));
    assert!(health.waiting_rows > 0 && health.in_flight > 0);
    drop(store);
    let store = open(home.path());
    assert_eq!(store.report().abandoned, 0, "calls that ended are recorded as they ended");
    assert_eq!(rows(&store), 20, "what could not be written is not lost");
    let filter = Filter { statuses: vec![Status::Success], ..Filter::default() };
    assert_eq!(store.reader().unwrap().count(&filter).unwrap(), 20);
}

#[test]
fn a_database_damaged_while_running_is_moved_aside_and_the_rows_go_to_the_new_one() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    for _ in 0..50 {
        call(&store, 9000);
    }
    assert!(store.flush());
    store
        .ask(|db| {
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            db.release_memory()
        })
        .unwrap();
    let path = home.path().join(database::FILE);
    let length = usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    sys::write_at(&file, &vec![0x5a; length - 8192], 8192).unwrap();
    for _ in 0..30 {
        call(&store, 10);
    }
    assert!(store.flush());
    assert!(store.health().is_ok());
    assert_eq!(rows(&store), 30);
    let aside = std::fs::read_dir(home.path()).unwrap().filter_map(Result::ok);
    assert!(aside.into_iter().any(|entry| entry.file_name().to_string_lossy().contains(".corrupt-")));
}

#[test]
fn a_writer_that_died_refuses_calls_and_keeps_nobody_waiting() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let open_call = store.begin(&Opening { request_id: "late", ..Opening::default() }).unwrap();
    let died = store.ask::<()>(|_| panic!("the writer dies in a test"));
    assert!(matches!(died, Err(AskError::Unavailable(_))));
    while !store.health().ended {
        std::thread::yield_now();
    }
    assert!(matches!(store.begin(&Opening::default()), Err(StoreFull::Ended)));
    store.finish_blocking(open_call, vec![Event::new(EventType::ToolCall, 1)]);
    assert!(store.append(Event::new(EventType::SystemStop, 1)).is_err());
    drop(store);
    let store = open(home.path());
    let row = store.reader().unwrap().get("late").unwrap().unwrap();
    assert_eq!(row.status, Status::Success, "it ended well, and its slot says so");
}

#[test]
fn a_sweep_gives_the_rows_and_the_room_back() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    for _ in 0..600 {
        call(&store, 9000);
    }
    store.set_limits(Retention { max_records: 100, days: 0, max_bytes: 0 }, 65_536);
    let swept = store.sweep().unwrap();
    assert_eq!((swept.rows, rows(&store)), (500, 100));
    assert!(swept.bytes > 1_000_000);
}
