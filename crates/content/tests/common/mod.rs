//! What the tests of this crate share: answers from text, and sources that behave like a spool.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use content::clean::clean;
use content::schema::check_output;
use content::{Answer, Format, IndexError, NoRendition, Redacted, Source};

/// Bytes that are not in memory, as far as the reader knows, and that come at most `step` at a time.
pub struct Spool {
    pub bytes: Vec<u8>,
    pub step: usize,
    /// Reading from here on fails.
    pub broken_from: u64,
    pub read: Arc<AtomicU64>,
}

impl Spool {
    pub fn new(bytes: &[u8], step: usize) -> Spool {
        Spool { bytes: bytes.to_vec(), step, broken_from: u64::MAX, read: Arc::default() }
    }
}

impl Source for Spool {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset >= self.broken_from {
            return Err(io::Error::other("the disk is gone"));
        }
        let room = buf.len().min(self.step);
        let count = self.bytes.read_at(offset, &mut buf[..room])?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

pub fn index(raw: &[u8]) -> Result<Answer, IndexError> {
    Answer::index(Arc::new(raw.to_vec()), &|| false)
}

pub fn answer(raw: &str) -> Answer {
    index(raw.as_bytes()).unwrap()
}

pub fn cleaned(answer: Answer) -> Redacted {
    clean(check_output(answer))
}

pub fn redacted(raw: &str) -> Redacted {
    cleaned(answer(raw))
}

pub fn spooled(spool: Spool) -> Redacted {
    cleaned(Answer::index(Arc::new(spool), &|| false).unwrap())
}

pub fn read(redacted: &Redacted, format: Format) -> Result<Vec<u8>, NoRendition> {
    let mut bytes = Vec::new();
    match redacted.rendition(format)?.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.downcast::<NoRendition>().expect("the error holds a NoRendition")),
    }
}

/// The text of a result, asserted to be the same however the bytes come.
pub fn text(raw: &str) -> String {
    let text = String::from_utf8(read(&redacted(raw), Format::Text).unwrap()).unwrap();
    for step in [1, 2, 3, 7, 64] {
        let again = read(&spooled(Spool::new(raw.as_bytes(), step)), Format::Text).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), text, "{step} bytes at a time");
    }
    text
}

pub fn json(redacted: &Redacted) -> Vec<u8> {
    let mut bytes = Vec::new();
    redacted.json().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, redacted.len());
    bytes
}
