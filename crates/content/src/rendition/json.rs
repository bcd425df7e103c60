//! The result object as it was sent.

use std::io::{self, Read};

use jsonspan::Span;

use crate::clean::{RawStream, Redacted};

/// Reads the result object byte for byte but for what cleaning changed.
pub struct JsonReader(RawStream);

impl JsonReader {
    pub(crate) fn new(redacted: &Redacted) -> JsonReader {
        JsonReader(redacted.stream(Span::new(0, redacted.inner.answer.len())))
    }
}

impl Read for JsonReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl std::fmt::Debug for JsonReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonReader").finish_non_exhaustive()
    }
}
