//! Cleaning: the one place where a [`Redacted`] is made.
//!
//! An answer is read as a stream of windows. Each is a *view*: the text of its string literals with the escapes undone, and a map
//! back to the raw bytes. From a view others are taken: what is JSON inside a text decoded once more, what is not seen taken out,
//! base64 decoded. Detectors look at each of them, and what they find becomes one sorted list of edits to the raw bytes.

mod blobs;
mod cleaning;
mod detect;
mod edits;
mod escape;
mod findings;
mod marks;
mod pass;
mod runs;
mod scrub;
mod strip;
mod text;
mod view;
mod windows;
mod words;

use std::sync::Arc;

use jsonspan::Span;

pub use cleaning::{Action, Cleaning};
pub use detect::{
    Categories, Category, CustomPattern, CustomPatterns, PatternError, RuleInfo, Severity, rules,
};
pub use edits::Edit;
pub(crate) use edits::{Edits, RawStream};
pub use findings::{Blocked, Finding, Findings};
pub use pass::MAX_EDITS;
pub use scrub::{Forwarded, MIN_ANYWHERE};
pub use strip::StripClasses;
pub use text::{clean_json, clean_text};

use crate::answer::{Answer, BlockKind};
use crate::rendition::{Format, JsonReader, NoRendition, Rendition};
use crate::schema::Checked;
use crate::shape;
use pass::Pass;

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
    pub(crate) findings: Findings,
}

/// Makes a checked answer fit to pass on, with nothing to be done to it.
#[must_use]
pub fn clean(checked: Checked) -> Redacted {
    untouched(checked.into_answer())
}

/// Makes a checked answer fit to pass on. Reads it once more, in windows, unless nothing is to be done. `cancel` is asked before
/// each window.
///
/// Every string is looked at, keys too, whatever it belongs to. Base64 `data` and `blob` are looked into if the bytes are UTF-8
/// text, and are never stripped.
///
/// # Errors
/// If the answer must not be passed on, or could not be read.
pub fn clean_with(
    checked: Checked,
    cleaning: &Cleaning,
    cancel: &dyn Fn() -> bool,
) -> Result<Redacted, Blocked> {
    let answer = checked.into_answer();
    if cleaning.is_off() {
        return Ok(untouched(answer));
    }
    let mut blobs: Vec<Span> =
        answer.blocks().iter().filter_map(|block| block.data).map(Span::inside).collect();
    blobs.sort_unstable_by_key(|span| span.start);
    let place = |offset| place(&answer, offset);
    let mut pass = Pass::new(cleaning, &place);
    pass.run(answer.raw().as_ref(), &blobs, cancel)?;
    if cleaning.refuses_unscanned() && pass.unscanned > 0 {
        return Err(Blocked::Unscanned { bytes: pass.unscanned });
    }
    let (edits, findings) = pass.finish();
    Ok(Redacted { inner: Arc::new(Inner { answer, edits, findings }) })
}

fn untouched(answer: Answer) -> Redacted {
    Redacted { inner: Arc::new(Inner { answer, edits: Edits::default(), findings: Findings::default() }) }
}

/// What lies at a raw offset: a pointer to a block, a part of one, or a member, without any key that the upstream chose.
fn place(answer: &Answer, offset: u64) -> String {
    let holds = |span: Option<Span>| span.is_some_and(|span| (span.start..span.end).contains(&offset));
    let index = answer.blocks().partition_point(|block| block.span.end <= offset);
    if let Some(block) = answer.blocks().get(index).filter(|block| holds(Some(block.span))) {
        let part = match block.kind {
            BlockKind::ResourceText | BlockKind::ResourceBlob if holds(block.text) => "/resource/text",
            BlockKind::ResourceBlob if holds(block.data) => "/resource/blob",
            _ if holds(block.text) => "/text",
            _ if holds(block.data) => "/data",
            _ => "",
        };
        return format!("/content/{index}{part}");
    }
    let structured = holds(answer.structured());
    (if structured { "/structuredContent" } else { "/" }).to_owned()
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
    pub fn edits(&self) -> impl ExactSizeIterator<Item = Edit<'_>> {
        self.inner.edits.iter()
    }

    /// What cleaning found.
    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.inner.findings
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
