//! Cleaning holds a few windows, whatever the size of the answer, and a bounded list of edits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "corpus/secrets.rs"]
mod secrets;

use std::io;
use std::sync::Arc;

use content::clean::{Action, Blocked, Categories, Cleaning, MAX_EDITS, StripClasses, clean_with};
use content::schema::check_output;
use content::{Answer, Redacted, Source};
use secrets::{Rng, fill};

/// An answer that is nowhere: one line again and again.
struct Endless {
    line: Vec<u8>,
    len: u64,
}

const HEAD: &[u8] = br#"{"content":[{"type":"text","text":""#;
const TAIL: &[u8] = br#""}]}"#;

impl Endless {
    fn new(line: &str, lines: u64) -> Endless {
        let line = serde_json::to_string(line).unwrap();
        let line = line.as_bytes()[1..line.len() - 1].to_vec();
        let len = (HEAD.len() + TAIL.len()) as u64 + lines * line.len() as u64;
        Endless { line, len }
    }
}

impl Source for Endless {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let body_end = self.len - TAIL.len() as u64;
        let (from, room) = if offset < HEAD.len() as u64 {
            (&HEAD[usize::try_from(offset).unwrap()..], u64::MAX)
        } else if offset < body_end {
            let within = (offset - HEAD.len() as u64) % self.line.len() as u64;
            (&self.line[usize::try_from(within).unwrap()..], body_end - offset)
        } else {
            (&TAIL[usize::try_from(offset - body_end).unwrap()..], u64::MAX)
        };
        let count = from.len().min(buf.len()).min(usize::try_from(room).unwrap_or(usize::MAX));
        buf[..count].copy_from_slice(&from[..count]);
        if count > 0 && count < buf.len() && offset + (count as u64) < self.len {
            return Ok(count + self.read_at(offset + count as u64, &mut buf[count..])?);
        }
        Ok(count)
    }
}

fn clean(source: Endless, cleaning: &Cleaning) -> Result<Redacted, Blocked> {
    clean_with(check_output(Answer::index(Arc::new(source), &|| false).unwrap()), cleaning, &|| false)
}

/// The most memory, in bytes, that this process has held so far.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn memory_does_not_grow_with_the_answer() {
    let mut rng = Rng(9);
    let redact = |action| Cleaning::new(action, Categories::ALL, Arc::default()).strip(StripClasses::ALL);
    // Once, for what is made at the first use.
    let line = fill(
        "a line of a log with {UUID} and \u{1b}[1mcolour\u{1b}[0m and a \\n of JSON \\\"x\\\"\n",
        &mut rng,
    );
    clean(Endless::new(&line, 1000), &redact(Action::Redact)).unwrap();
    let before = peak();
    let redacted = clean(Endless::new(&line, 600_000), &redact(Action::Redact)).unwrap();
    assert_eq!(redacted.edits().len(), 1_200_000);
    assert_eq!(redacted.findings().stripped, 1_200_000);
    // Each line has as many edits, so more lines have too many of them: an error, not a gap.
    let Err(blocked) = clean(Endless::new(&line, 1_000_000), &redact(Action::Redact)) else {
        panic!("not bounded")
    };
    assert!(matches!(blocked, Blocked::TooMuch) && blocked.to_string().contains(&MAX_EDITS.to_string()));
    // What is only counted is not kept.
    let line = fill("ghp_{A36} ", &mut rng);
    let counted =
        clean(Endless::new(&line, 2_000_000), &Cleaning::new(Action::Count, Categories::ALL, Arc::default()))
            .unwrap();
    assert_eq!(counted.findings().count_secrets(), 2_000_000);
    assert_eq!(counted.edits().len(), 0);
    match (before, peak()) {
        (Some(before), Some(after)) => {
            let grown = (after - before) / (1 << 20);
            println!("{grown} MiB more for answers of up to 90 MB");
            assert!(grown < 64, "{grown} MiB");
        }
        _ => println!("skipped: the system does not tell how much memory a process holds"),
    }
}
