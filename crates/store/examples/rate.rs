//! How fast calls are recorded here: prints the time on the caller's thread, and the time until all rows are committed.
#![allow(clippy::print_stdout, missing_docs)]
#![allow(clippy::disallowed_methods)] // the room of records measures itself

use std::time::Instant;

use store::{Busy, Event, EventType, Opening, Options, Store, now_ms};

const CALLS: u32 = 50_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::temp_dir().join(format!("store-rate-{}", std::process::id()));
    let store = Store::open(&home, Options::default())?;
    let (begun, mut on_thread, mut slowed) = (Instant::now(), 0, 0);
    for _ in 0..CALLS {
        let row = Event {
            server: Some("files".into()),
            tool: Some("read_file".into()),
            arguments: Some("{\"path\":\"/some/where\"}".into()),
            response: Some("x".repeat(500)),
            ..Event::new(EventType::ToolCall, now_ms())
        };
        let from = Instant::now();
        let call = store.begin(&Opening {
            request_id: "r",
            server: "files",
            tool: "read_file",
            ..Opening::default()
        })?;
        store.mark_dispatched(&call)?;
        if let Err(Busy(call, rows)) = store.finish(call, vec![row]) {
            on_thread += from.elapsed().as_nanos();
            slowed += 1;
            store.finish_blocking(call, rows);
        } else {
            on_thread += from.elapsed().as_nanos();
        }
    }
    store.flush();
    let total = begun.elapsed();
    println!("{} ns a call on its own thread, {slowed} calls slowed down", on_thread / u128::from(CALLS));
    println!("{:.0} calls a second until committed", f64::from(CALLS) / total.as_secs_f64());
    drop(store);
    std::fs::remove_dir_all(home)?;
    Ok(())
}
