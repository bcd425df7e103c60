//! An answer: the raw result object of a tool call and the index of what lies where in it.

use std::io;
use std::sync::Arc;

use jsonspan::{Scanner, Span, SyntaxError};

use crate::index::{Index, Walk};
use crate::source::{Source, for_each_chunk};

/// The most content blocks a result may have.
pub const MAX_BLOCKS: usize = 262_144;

/// The raw result object of a tool call, in memory or in a spool, and where its parts lie.
///
/// The bytes are never changed. Members in any order, unknown members and unknown block types are fine. Where a member occurs
/// twice, the last one counts, as it does for the JSON parsers of the world.
pub struct Answer {
    raw: Arc<dyn Source>,
    index: Index,
}

/// One element of `content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// The whole element.
    pub span: Span,
    /// The string literal with its text, quotes included. Always there for `Text` and `ResourceText`.
    pub text: Option<Span>,
    /// The string literal with its base64, quotes included. Always there for `Image`, `Audio` and `ResourceBlob`.
    pub data: Option<Span>,
    /// The string literal with its MIME type, quotes included, if it has one of reasonable length.
    pub mime: Option<Span>,
}

/// The kinds of content blocks. A block whose type promises something that it lacks, such as a `text` that is no string, is
/// `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockKind {
    /// `text` with a text.
    Text,
    /// `image` with data.
    Image,
    /// `audio` with data.
    Audio,
    /// `resource` with a text embedded.
    ResourceText,
    /// `resource` with a blob embedded.
    ResourceBlob,
    /// `resource_link`.
    ResourceLink,
    /// Everything else, also what is no object.
    Other,
}

impl BlockKind {
    /// The block type as MCP names it, or `other`. Never a word of the upstream.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self {
            BlockKind::Text => "text",
            BlockKind::Image => "image",
            BlockKind::Audio => "audio",
            BlockKind::ResourceText | BlockKind::ResourceBlob => "resource",
            BlockKind::ResourceLink => "resource_link",
            BlockKind::Other => "other",
        }
    }
}

/// Why raw bytes are no answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The result is a scalar or an array.
    #[error("the upstream's result is not a JSON object")]
    NotAnObject,
    /// `content` is there and neither an array nor null.
    #[error("\"content\" of the upstream's result is not an array")]
    ContentNotAnArray,
    /// The result is not JSON.
    #[error("the upstream's result is not valid JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// More content blocks than [`MAX_BLOCKS`].
    #[error("the upstream's result has more than {MAX_BLOCKS} content blocks")]
    TooManyBlocks,
    /// The call was cancelled while the answer was read.
    #[error("the call was cancelled")]
    Cancelled,
    /// The spool could not be read.
    #[error("the upstream's result could not be read back: {0}")]
    Io(#[from] io::Error),
}

impl Answer {
    /// Reads the result once, from the first byte to the last, and notes where its parts lie. `cancel` is asked before each chunk
    /// of 64 KiB.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn index(raw: Arc<dyn Source>, cancel: &dyn Fn() -> bool) -> Result<Answer, IndexError> {
        let mut scanner = Scanner::new();
        let mut walk = Walk::default();
        for_each_chunk(&raw, |chunk| {
            if cancel() {
                return Err(IndexError::Cancelled);
            }
            scanner.feed(chunk, &mut |event| walk.take(event))?;
            walk.fault()
        })?;
        scanner.finish(&mut |event| walk.take(event))?;
        Ok(Answer { index: walk.finish()?, raw })
    }

    /// True if `isError` is there and literally `true`.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.index.is_error
    }

    /// `resultType`, if it is a word of at most 64 letters, digits, `_` and `-`; `"?"` if it is anything else but absent or null.
    #[must_use]
    pub fn result_type(&self) -> Option<&str> {
        self.index.result_type.as_deref()
    }

    /// The elements of `content`, in order. None if it is absent or null.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.index.blocks
    }

    /// Where the value of `structuredContent` lies. A `null` counts as absent.
    #[must_use]
    pub fn structured(&self) -> Option<Span> {
        self.index.structured
    }

    /// The bytes as they were sent.
    #[must_use]
    pub fn raw(&self) -> &Arc<dyn Source> {
        &self.raw
    }

    /// Number of bytes as they were sent.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.raw.len()
    }

    /// Never true: an answer is an object, and an object has braces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("len", &self.len()).field("blocks", &self.blocks().len()).finish()
    }
}
