//! What goes into a file: the text, the JSON or the bytes of an answer, as streams.

mod binary;
mod json;
mod text;

use std::io::{self, Read};

use crate::answer::{Block, BlockKind};
use crate::clean::Redacted;

use binary::BinaryReader;
pub use json::JsonReader;
pub(crate) use text::TextReader;

/// The longest MIME type, in bytes, that is passed on.
const MAX_MIME: usize = 127;

/// What to make of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// The text, for people and line tools.
    #[default]
    Text,
    /// The result object as it was sent.
    Json,
    /// The bytes of the one image, audio or blob.
    Binary,
}

impl Format {
    /// Every format, the default first.
    pub const ALL: [Format; 3] = [Format::Text, Format::Json, Format::Binary];

    /// The format as callers name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::Binary => "binary",
        }
    }

    /// The format of that name, spelled exactly so.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.as_str() == name)
    }
}

/// Why an answer cannot be had in a format.
#[derive(Debug, thiserror::Error)]
pub enum NoRendition {
    /// There are blocks, none of them is text, and there is no structured content.
    #[error(
        "the result has no text, only {kinds}; use the format \"json\" for the whole result, or \"binary\" for the bytes of one image, audio or blob"
    )]
    NoText {
        /// The kinds of blocks there are, each with its number.
        kinds: String,
    },
    /// The number of images, audios and blobs is not one.
    #[error(
        "the format \"binary\" needs exactly one image, audio or blob, the result has {count}; use the format \"json\" for the whole result"
    )]
    NotOneBlob {
        /// How many there are.
        count: usize,
    },
    /// The data of the one block is not base64. Shows while reading.
    #[error(
        "the data of the block is not valid base64: {what} at character {at}; use the format \"json\" to have it as it was sent"
    )]
    Base64 {
        /// Which character, counted from 1, line breaks left out.
        at: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The spooled answer could not be read.
    #[error("the answer could not be read back: {0}")]
    Io(#[from] io::Error),
}

/// A stream of an answer in one format. Constant memory, whatever the size.
pub struct Rendition {
    form: Form,
    mime: Option<String>,
}

enum Form {
    Text(TextReader),
    Json(JsonReader),
    Binary(Box<BinaryReader>),
}

impl Rendition {
    pub(crate) fn new(redacted: &Redacted, format: Format) -> Result<Rendition, NoRendition> {
        match format {
            Format::Json => Ok(Rendition { form: Form::Json(redacted.json()), mime: None }),
            Format::Text => {
                let Some(reader) = TextReader::new(redacted) else {
                    return Err(NoRendition::NoText { kinds: kinds(redacted.inner.answer.blocks()) });
                };
                Ok(Rendition { form: Form::Text(reader), mime: None })
            }
            Format::Binary => binary(redacted),
        }
    }

    /// The MIME type that the upstream gave for the bytes: only for [`Format::Binary`], and only if it is `type/subtype` and at
    /// most 127 bytes long.
    #[must_use]
    pub fn mime_type(&self) -> Option<&str> {
        self.mime.as_deref()
    }
}

impl Read for Rendition {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.form {
            Form::Text(reader) => reader.read(buf),
            Form::Json(reader) => reader.read(buf),
            Form::Binary(reader) => reader.read(buf),
        }
    }
}

impl std::fmt::Debug for Rendition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rendition").field("mime", &self.mime).finish_non_exhaustive()
    }
}

fn binary(redacted: &Redacted) -> Result<Rendition, NoRendition> {
    let mut blobs =
        redacted.inner.answer.blocks().iter().filter_map(|block| block.data.map(|data| (block, data)));
    let (Some((block, data)), None) = (blobs.next(), blobs.next()) else {
        let count = redacted.inner.answer.blocks().iter().filter(|block| block.data.is_some()).count();
        return Err(NoRendition::NotOneBlob { count });
    };
    let mime = mime_of(redacted, block)?;
    Ok(Rendition { form: Form::Binary(Box::new(BinaryReader::new(redacted, data))), mime })
}

/// The MIME type of a block, edits applied.
fn mime_of(redacted: &Redacted, block: &Block) -> io::Result<Option<String>> {
    let Some(literal) = block.mime else { return Ok(None) };
    let mut mime = String::new();
    TextReader::of_literal(redacted, literal)
        .take(MAX_MIME as u64 + 4)
        .read_to_string(&mut mime)
        .or_else(not_utf8)?;
    Ok(Some(mime).filter(|mime| is_mime(mime)))
}

/// A long MIME type may be cut inside a character; it is too long anyway.
fn not_utf8(error: io::Error) -> io::Result<usize> {
    if error.kind() == io::ErrorKind::InvalidData { Ok(0) } else { Err(error) }
}

fn is_mime(mime: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    mime.len() <= MAX_MIME && mime.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
}

/// The kinds that occur, each with its number, in a fixed order.
fn kinds(blocks: &[Block]) -> String {
    let mut named: Vec<String> = Vec::new();
    let all = [
        BlockKind::Image,
        BlockKind::Audio,
        BlockKind::ResourceText,
        BlockKind::ResourceLink,
        BlockKind::Other,
    ];
    for name in all.map(BlockKind::type_name) {
        match blocks.iter().filter(|block| block.kind.type_name() == name).count() {
            0 => {}
            count => named.push(format!("{count} {name}")),
        }
    }
    named.join(", ")
}
