//! Cleaning: the one place where a [`Redacted`] is made.

mod edits;

use std::sync::Arc;

use jsonspan::Span;

pub use edits::Edit;
pub(crate) use edits::{Edits, RawStream};

use crate::answer::{Answer, BlockKind};
use crate::rendition::{Format, JsonReader, NoRendition, Rendition};
use crate::schema::Checked;
use crate::shape;

/// An answer that may be delivered, kept and recorded: the raw bytes and a sorted list of edits to them.
///
/// A clone is cheap and reads the same bytes. Every reader works on its own, in constant memory.
#[derive(Clone)]
pub struct Redacted {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) answer: Answer,
    pub(crate) edits: Edits,
}

/// Makes a checked answer fit to pass on.
#[must_use]
pub fn clean(checked: Checked) -> Redacted {
    let answer = checked.into_answer();
    let edits = Edits::merge(Vec::new(), answer.len());
    Redacted { inner: Arc::new(Inner { answer, edits }) }
}

impl Redacted {
    /// True if `isError` is there and literally `true`.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.inner.answer.is_error()
    }

    /// Number of content blocks, of whatever kind.
    #[must_use]
    pub fn content_blocks(&self) -> usize {
        self.inner.answer.blocks().len()
    }

    /// Number of content blocks that are not text blocks. A block of type `text` without a text is one of them.
    #[must_use]
    pub fn non_text_blocks(&self) -> usize {
        self.inner.answer.blocks().iter().filter(|block| block.kind != BlockKind::Text).count()
    }

    /// True if there is a `structuredContent` other than null.
    #[must_use]
    pub fn has_structured(&self) -> bool {
        self.inner.answer.structured().is_some()
    }

    /// `resultType`, as [`Answer::result_type`] gives it.
    #[must_use]
    pub fn result_type(&self) -> Option<&str> {
        self.inner.answer.result_type()
    }

    /// What cleaning changed, in the order of the text.
    #[must_use]
    pub fn edits(&self) -> &[Edit] {
        self.inner.edits.list()
    }

    /// Number of bytes that [`json`](Self::json) gives.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.edits.len_after(self.inner.answer.len())
    }

    /// Never true: an answer has at least its braces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the result object as it was sent, byte for byte but for the edits.
    #[must_use]
    pub fn json(&self) -> JsonReader {
        JsonReader::new(self)
    }

    /// Reads the answer in a format for a file.
    ///
    /// - [`Format::Text`]: the text blocks joined by one `\n`, an unpaired surrogate as U+FFFD. Without any text block, the JSON of
    ///   `structuredContent` unless that is null; without any block, nothing.
    /// - [`Format::Json`]: as [`json`](Self::json).
    /// - [`Format::Binary`]: the bytes of the one image, audio or blob. Wrong base64 shows while reading: an [`std::io::Error`]
    ///   that holds a [`NoRendition`].
    ///
    /// # Errors
    /// If the answer has nothing of that format.
    pub fn rendition(&self, format: Format) -> Result<Rendition, NoRendition> {
        Rendition::new(self, format)
    }

    /// The first `max_chars` characters of the text rendition, and whether there is more. Empty if there is no text. Reads no more
    /// than it needs. If the spool cannot be read, what was read and `true`.
    #[must_use]
    pub fn preview(&self, max_chars: usize) -> (String, bool) {
        shape::preview(self, max_chars)
    }

    /// What an error says, for a record: the text rendition, cut with `…` at a character boundary after at most `max_bytes`
    /// bytes; a fixed sentence if there is no text.
    #[must_use]
    pub fn error_text(&self, max_bytes: usize) -> String {
        shape::error_text(self, max_bytes)
    }

    /// The bytes of a span, edits applied.
    pub(crate) fn stream(&self, span: Span) -> RawStream {
        RawStream::new(self, span)
    }
}

impl std::fmt::Debug for Redacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redacted")
            .field("answer", &self.inner.answer)
            .field("edits", &self.edits().len())
            .finish()
    }
}
