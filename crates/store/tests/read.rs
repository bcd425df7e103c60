//! Listings: every filter gives what a plain search through all rows gives, in one order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use store::{Event, EventType, Filter, Options, ReadError, Reader, Status, Store};

/// A small generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }

    fn maybe(&mut self, text: &str, sides: usize) -> Option<String> {
        (self.roll(3) > 0).then(|| format!("{text}{}", self.roll(sides)))
    }
}

fn filled(dice: &mut Dice, rows: usize) -> (tempfile::TempDir, Store, Vec<Event>) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), Options::default()).unwrap();
    let mut events = Vec::new();
    for _ in 0..rows {
        // Few different times, so that the order among equal ones matters.
        let mut event = Event::new(dice.pick(EventType::ALL), i64::try_from(dice.roll(40)).unwrap());
        event.status = dice.pick(&Status::ALL[..5]);
        event.server = dice.maybe("server", 3);
        event.tool = dice.maybe("tool", 3);
        event.session = dice.maybe("session", 3);
        event.request_id = dice.maybe("request", 50);
        store.append(event.clone()).unwrap();
        events.push(event);
    }
    assert!(store.flush());
    // Newest first; among equal times the one written last comes first.
    events.reverse();
    events.sort_by_key(|event| -event.time_ms);
    (home, store, events)
}

fn fits(filter: &Filter, event: &Event) -> bool {
    let same = |wanted: &Option<String>, has: &Option<String>| wanted.is_none() || wanted == has;
    (filter.types.is_empty() || filter.types.contains(&event.kind))
        && (filter.statuses.is_empty() || filter.statuses.contains(&event.status))
        && same(&filter.server, &event.server)
        && same(&filter.tool, &event.tool)
        && same(&filter.session, &event.session)
        && same(&filter.request_id, &event.request_id)
        && filter.since_ms.is_none_or(|since| event.time_ms >= since)
        && filter.until_ms.is_none_or(|until| event.time_ms < until)
}

fn random_filter(dice: &mut Dice) -> Filter {
    let mut filter = Filter { limit: 1 + dice.roll(30), offset: dice.roll(4) * 3, ..Filter::default() };
    for _ in 0..dice.roll(4) {
        filter.types.push(dice.pick(EventType::ALL));
    }
    for _ in 0..dice.roll(4) {
        filter.statuses.push(dice.pick(&Status::ALL[..5]));
    }
    if dice.roll(2) == 0 {
        filter.server = dice.maybe("server", 3);
        filter.tool = dice.maybe("tool", 3);
        filter.session = dice.maybe("session", 3);
    }
    if dice.roll(9) == 0 {
        filter.request_id = dice.maybe("request", 50);
    }
    if dice.roll(3) == 0 {
        filter.since_ms = Some(i64::try_from(dice.roll(40)).unwrap());
        filter.until_ms = Some(i64::try_from(dice.roll(40)).unwrap());
    }
    filter
}

#[test]
fn any_filter_gives_what_a_plain_search_gives() {
    let seed = u64::from(std::process::id()) | 1 << 40;
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let (_home, store, events) = filled(&mut dice, 1500);
    let reader = store.reader().unwrap();
    for _ in 0..400 {
        let filter = random_filter(&mut dice);
        let expected: Vec<&Event> = events.iter().filter(|event| fits(&filter, event)).collect();
        assert_eq!(reader.count(&filter).unwrap(), expected.len() as u64, "{filter:?}");
        let page: Vec<&Event> = expected.iter().skip(filter.offset).take(filter.limit).copied().collect();
        let found = reader.list(&filter).unwrap();
        assert!(found.iter().eq(page), "{filter:?}");
    }
}

#[test]
fn pages_by_cursor_give_every_row_once_also_while_new_ones_arrive() {
    for statuses in [vec![], vec![Status::Error, Status::Success]] {
        let (_home, store, events) = filled(&mut Dice(77), 900);
        let reader = store.reader().unwrap();
        let mut filter = Filter { limit: 37, statuses, ..Filter::default() };
        let mut seen = Vec::new();
        loop {
            let page = reader.list(&filter).unwrap();
            let Some(last) = page.last() else { break };
            filter.before = Some(last.id.clone());
            seen.extend(page);
            store.append(Event::new(EventType::ConfigChange, 1_000)).unwrap();
            assert!(store.flush());
        }
        let expected: Vec<&Event> = events.iter().filter(|event| fits(&filter, event)).collect();
        assert!(seen.iter().eq(expected), "the pages together are not the whole");
        let lost = Filter { before: Some("no-such-row".into()), ..Filter::default() };
        assert!(matches!(reader.list(&lost), Err(ReadError::UnknownCursor(_))));
    }
}

#[test]
fn a_row_is_found_by_its_id_and_by_its_request_id_where_the_call_comes_first() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), Options::default()).unwrap();
    let row = |kind, time_ms| Event { request_id: Some("r".into()), ..Event::new(kind, time_ms) };
    let call = row(EventType::ToolCall, 5);
    let decision = row(EventType::PolicyDecision, 9);
    store.append(call.clone()).unwrap();
    store.append(decision.clone()).unwrap();
    assert!(store.flush());
    let reader = store.reader().unwrap();
    assert_eq!(reader.get(&decision.id).unwrap(), Some(decision));
    assert_eq!(reader.get("r").unwrap(), Some(call));
    assert_eq!(reader.get("' OR 1=1 --").unwrap(), None);
}

#[test]
fn a_reader_says_when_there_is_no_database_and_cannot_write() {
    let home = tempfile::tempdir().unwrap();
    let error = Reader::open(home.path()).err().unwrap();
    assert!(matches!(error, ReadError::Missing { .. }) && error.to_string().contains("--data-dir"));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "looking makes nothing");
    drop(Store::open(home.path(), Options::default()).unwrap());
    let reader = Reader::open(home.path()).unwrap();
    assert_eq!(reader.list(&Filter::default()).unwrap(), []);
}
