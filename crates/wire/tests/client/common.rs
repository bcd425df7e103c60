//! What the tests share: spools in a temporary place, options, and answers of a given size.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use wire::client::{CallOptions, Options};
use wire::spool::{Body, Spools};

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * 1024;

pub struct Place {
    pub dir: tempfile::TempDir,
    pub spools: Arc<Spools>,
}

pub fn place(total: u64) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let spools = Spools::open(&dir.path().join("spool"), total).unwrap();
    Place { dir, spools }
}

pub fn options(spools: &Arc<Spools>, max: usize) -> Options {
    Options {
        name: "srv".into(),
        client_version: "1.2.3".into(),
        max_message_bytes: max as u64,
        spools: Arc::clone(spools),
    }
}

pub fn call(seconds: u64) -> CallOptions {
    let timeout = Duration::from_secs(seconds);
    CallOptions { timeout, total: timeout * 10, cancel: CancellationToken::new(), progress: None }
}

pub fn text(body: &Body) -> String {
    String::from_utf8(bytes(body)).unwrap()
}

pub fn bytes(body: &Body) -> Vec<u8> {
    let mut all = Vec::new();
    body.reader().read_to_end(&mut all).unwrap();
    assert_eq!(all.len() as u64, body.len());
    all
}

/// Where the id of an answer stands: npm servers send it last.
#[derive(Clone, Copy, Debug)]
pub enum IdAt {
    First,
    Last,
}

pub const BOTH: [IdAt; 2] = [IdAt::First, IdAt::Last];

pub fn answer(at: IdAt, id: &str, result: &str) -> String {
    match at {
        IdAt::First => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
        IdAt::Last => format!("{{\"result\":{result},\"jsonrpc\":\"2.0\",\"id\":{id}}}"),
    }
}

/// A result of exactly `size` bytes whose every part differs.
pub fn result(size: usize) -> String {
    let (before, after) = ("{\"content\":[{\"type\":\"text\",\"text\":\"", "\"}]}");
    let wanted = size - before.len() - after.len();
    let mut text = String::with_capacity(size + 16);
    text.push_str(before);
    let mut number = 0_u64;
    while text.len() < before.len() + wanted {
        text.push_str(&format!("{number:07} \\u00e9 "));
        number += 1;
    }
    // Cut so that no escape is halved, then fill.
    text.truncate(before.len() + wanted - wanted.min(16));
    if let Some(at) = text.rfind('\\').filter(|at| text.len() - at < 6) {
        text.truncate(at);
    }
    while text.len() < before.len() + wanted {
        text.push('x');
    }
    text.push_str(after);
    assert_eq!(text.len(), size);
    text
}

pub fn raw(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Waits until `done`, at most five seconds.
pub async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come true within 5 s: {what}");
}
