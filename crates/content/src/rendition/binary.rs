//! The bytes of an image, audio or blob: strict base64, decoded as a stream.

use std::io::{self, Read};

use base64::DecodeError;
use base64::engine::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use jsonspan::{Span, Unescape};

use super::NoRendition;
use crate::clean::{RawStream, Redacted};
use crate::source::CHUNK;

/// Decodes the base64 in one string literal: standard alphabet, padded, canonical; CR and LF are skipped.
pub(crate) struct BinaryReader {
    stream: RawStream,
    unescape: Unescape,
    raw: Vec<u8>,
    /// Characters that are not decoded yet. Between two reads the last one to four of those that came, because only the end of
    /// the literal tells whether they may be padded.
    quads: Vec<u8>,
    /// Number of characters decoded.
    decoded: u64,
    bytes: Vec<u8>,
    given: usize,
    ended: bool,
    fault: Option<(u64, &'static str)>,
}

impl BinaryReader {
    pub(crate) fn new(redacted: &Redacted, literal: Span) -> BinaryReader {
        BinaryReader {
            stream: redacted.stream(literal.inside()),
            unescape: Unescape::new(),
            raw: vec![0; CHUNK.min(usize::try_from(literal.len()).unwrap_or(CHUNK))],
            quads: Vec::new(),
            decoded: 0,
            bytes: Vec::new(),
            given: 0,
            ended: false,
            fault: None,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.bytes.clear();
        self.given = 0;
        while self.bytes.is_empty() && !self.ended {
            let count = self.stream.read(&mut self.raw)?;
            let held = self.quads.len();
            if count == 0 {
                self.unescape.finish(&mut self.quads);
                self.ended = true;
            } else {
                self.unescape.push(self.raw.get(..count).unwrap_or_default(), &mut self.quads);
            }
            drop_line_breaks(&mut self.quads, held);
            self.decode()?;
        }
        Ok(())
    }

    fn decode(&mut self) -> io::Result<()> {
        let whole = self.quads.len().saturating_sub(1) / 4 * 4;
        let middle = self.quads.get(..whole).unwrap_or_default();
        let decoded = STANDARD_NO_PAD.decode_vec(middle, &mut self.bytes);
        self.note(decoded.err().as_ref())?;
        self.quads.drain(..whole);
        self.decoded += whole as u64;
        if self.ended {
            let decoded = STANDARD.decode_vec(&self.quads, &mut self.bytes);
            self.note(decoded.err().as_ref())?;
        }
        Ok(())
    }

    fn note(&mut self, error: Option<&DecodeError>) -> io::Result<()> {
        let padding = self.quads.iter().position(|&byte| byte == b'=');
        let (offset, what) = match error {
            None => return Ok(()),
            Some(&DecodeError::InvalidByte(offset, byte)) if byte != b'=' => {
                (offset, "not in the standard alphabet")
            }
            Some(&DecodeError::InvalidLastSymbol { offset, .. }) => (offset, "bits are left over"),
            Some(DecodeError::InvalidLength(_)) => (self.quads.len(), "the data is cut short"),
            Some(DecodeError::InvalidByte(..) | DecodeError::InvalidPadding) => {
                (padding.unwrap_or(self.quads.len()), "the padding is missing or wrong")
            }
        };
        self.fault = Some((self.decoded + offset as u64 + 1, what));
        self.bytes.clear();
        self.fail()
    }

    fn fail(&self) -> io::Result<()> {
        match self.fault {
            None => Ok(()),
            Some((at, what)) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, NoRendition::Base64 { at, what }))
            }
        }
    }
}

/// Takes line breaks out of what came after the first `held` characters.
fn drop_line_breaks(quads: &mut Vec<u8>, held: usize) {
    let is_break = |byte: u8| matches!(byte, b'\r' | b'\n');
    let new = quads.get(held..).unwrap_or_default();
    if new.iter().fold(false, |seen, &byte| seen | is_break(byte)) {
        // What is held has none, so it is safe to look at it again.
        quads.retain(|&byte| !is_break(byte));
    }
}

impl Read for BinaryReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.given == self.bytes.len() {
            self.fail()?;
            self.fill()?;
        }
        let rest = self.bytes.get(self.given..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.given += count;
        Ok(count)
    }
}
