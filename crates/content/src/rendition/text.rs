//! The text of an answer: decoded literals joined by a line feed, or the JSON of the structured content.

use std::io::{self, Read};

use jsonspan::{Span, Unescape};

use crate::answer::BlockKind;
use crate::clean::{RawStream, Redacted};
use crate::source::CHUNK;

/// Reads the text of an answer. Holds at most a chunk of raw bytes and two of text.
pub(crate) struct TextReader {
    redacted: Redacted,
    /// Which block to look at next; past the last one if the text does not come from blocks.
    next: usize,
    /// A text block was begun, so the next one is set off by a line feed.
    begun: bool,
    open: Option<Piece>,
    raw: Vec<u8>,
    text: Vec<u8>,
    /// How much of `text` was given.
    given: usize,
}

/// A span that is being read; a string literal is decoded on the way.
struct Piece {
    stream: RawStream,
    unescape: Option<Unescape>,
}

impl TextReader {
    /// `None` if the answer has blocks, but none with text, and no structured content.
    pub(crate) fn new(redacted: &Redacted) -> Option<TextReader> {
        TextReader::with_chunk(redacted, CHUNK)
    }

    /// As [`new`](Self::new), reading `chunk` raw bytes at a time.
    pub(crate) fn with_chunk(redacted: &Redacted, chunk: usize) -> Option<TextReader> {
        let answer = &redacted.inner.answer;
        if answer.blocks().iter().any(|block| block.kind == BlockKind::Text) {
            return Some(TextReader::at(redacted, 0, None, chunk));
        }
        let open = match answer.structured() {
            Some(span) => Some(Piece { stream: redacted.stream(span), unescape: None }),
            None if answer.blocks().is_empty() => None,
            None => return None,
        };
        Some(TextReader::at(redacted, usize::MAX, open, chunk))
    }

    /// Reads one string literal.
    pub(crate) fn of_literal(redacted: &Redacted, literal: Span) -> TextReader {
        TextReader::at(redacted, usize::MAX, Some(Piece::literal(redacted, literal)), 1024)
    }

    fn at(redacted: &Redacted, next: usize, open: Option<Piece>, chunk: usize) -> TextReader {
        let chunk = chunk.min(usize::try_from(redacted.inner.answer.len()).unwrap_or(chunk));
        TextReader {
            redacted: redacted.clone(),
            next,
            begun: false,
            open,
            raw: vec![0; chunk],
            // What a piece adds at most, to what is just too little.
            text: Vec::with_capacity(2 * chunk + 4),
            given: 0,
        }
    }

    /// Replaces the text that was given by the next; leaves it empty at the end.
    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        while self.text.len() < self.raw.len() {
            if let Some(piece) = &mut self.open {
                if !piece.decode(&mut self.raw, &mut self.text)? {
                    self.open = None;
                }
            } else if !self.open_next() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn open_next(&mut self) -> bool {
        let rest = self.redacted.inner.answer.blocks().get(self.next..).unwrap_or_default();
        let found = rest.iter().enumerate().find_map(|(skipped, block)| match (block.kind, block.text) {
            (BlockKind::Text, Some(literal)) => Some((skipped, literal)),
            _ => None,
        });
        let Some((skipped, literal)) = found else {
            self.next = usize::MAX;
            return false;
        };
        self.next += skipped + 1;
        if self.begun {
            self.text.push(b'\n');
        }
        self.begun = true;
        self.open = Some(Piece::literal(&self.redacted, literal));
        true
    }
}

impl Piece {
    fn literal(redacted: &Redacted, literal: Span) -> Piece {
        Piece { stream: redacted.stream(literal.inside()), unescape: Some(Unescape::new()) }
    }

    /// Appends the next text; false at the end.
    fn decode(&mut self, raw: &mut [u8], text: &mut Vec<u8>) -> io::Result<bool> {
        let count = self.stream.read(raw)?;
        let bytes = raw.get(..count).unwrap_or_default();
        match &mut self.unescape {
            Some(unescape) if bytes.is_empty() => unescape.finish(text),
            Some(unescape) => unescape.push(bytes, text),
            None => text.extend_from_slice(bytes),
        }
        Ok(count > 0)
    }
}

impl Read for TextReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() {
            self.fill()?;
        }
        let rest = self.text.get(self.given..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.given += count;
        Ok(count)
    }
}
