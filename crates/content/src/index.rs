//! The walk over the tokens of a result: notes what a result is known by and forgets the rest.

use jsonspan::{Event, Span, Token};

use crate::answer::{Block, BlockKind, IndexError, MAX_BLOCKS};

/// A MIME type whose literal is longer, in bytes, is not one: room for 127 characters, all of them escaped.
const MAX_MIME_LITERAL: u64 = 127 * 6 + 2;

/// What a result is known by.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) blocks: Vec<Block>,
    pub(crate) structured: Option<Span>,
    pub(crate) is_error: bool,
    pub(crate) result_type: Option<String>,
}

/// Follows the tokens of one result. Depth is the number of open containers: members of the result stand at depth 1, content
/// blocks at 2, their fields at 3, fields of an embedded resource at 4. What lies deeper only counts brackets.
#[derive(Default)]
pub(crate) struct Walk {
    index: Index,
    depth: u32,
    member: Member,
    content: Content,
    structured_start: u64,
    block: Draft,
    field: Field,
    fault: Option<Fault>,
}

#[derive(Clone, Copy)]
enum Fault {
    NotAnObject,
    TooManyBlocks,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Member {
    Content,
    Structured,
    IsError,
    ResultType,
    #[default]
    Unknown,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Content {
    #[default]
    Absent,
    Array,
    Wrong,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Field {
    Type,
    Text,
    Data,
    Blob,
    Mime,
    Resource,
    #[default]
    Unknown,
}

/// A block of which not all has been seen: its type may come last.
#[derive(Default)]
struct Draft {
    start: u64,
    is_object: bool,
    kind: Type,
    own: Parts,
    resource: Parts,
    in_resource: bool,
}

#[derive(Default, Clone, Copy)]
struct Parts {
    text: Option<Span>,
    data: Option<Span>,
    blob: Option<Span>,
    mime: Option<Span>,
}

#[derive(Default, Clone, Copy)]
enum Type {
    Text,
    Image,
    Audio,
    Resource,
    ResourceLink,
    #[default]
    Unknown,
}

/// A value as a field sees it.
#[derive(Clone, Copy)]
enum Value<'a> {
    String(Token<'a>),
    /// A number, a literal, or the start of a container.
    NoString,
}

impl Walk {
    pub(crate) fn take(&mut self, event: Event<'_>) {
        match event {
            Event::ObjectBegin { at } => self.begin(at, true),
            Event::ArrayBegin { at } => self.begin(at, false),
            Event::ObjectEnd { end } | Event::ArrayEnd { end } => self.end(end),
            Event::Key(token) => self.key(token),
            Event::String(token) => self.scalar(token, Value::String(token)),
            Event::Number(token) | Event::Literal(token) => self.scalar(token, Value::NoString),
        }
    }

    /// Asked after each chunk, so that a hopeless result is not read to its end.
    pub(crate) fn fault(&self) -> Result<(), IndexError> {
        match self.fault {
            None => Ok(()),
            Some(Fault::NotAnObject) => Err(IndexError::NotAnObject),
            Some(Fault::TooManyBlocks) => Err(IndexError::TooManyBlocks),
        }
    }

    pub(crate) fn finish(self) -> Result<Index, IndexError> {
        self.fault()?;
        match self.content {
            Content::Wrong => Err(IndexError::ContentNotAnArray),
            Content::Absent | Content::Array => Ok(self.index),
        }
    }

    fn key(&mut self, token: Token<'_>) {
        match self.depth {
            1 => self.member = Member::of(token),
            3 if self.in_block() => self.field = Field::of(token),
            4 if self.in_block() && self.block.in_resource => self.field = Field::of(token),
            _ => {}
        }
    }

    fn begin(&mut self, at: u64, object: bool) {
        match self.depth {
            0 if !object => self.fault = Some(Fault::NotAnObject),
            1 => self.begin_member(at, object),
            2 if self.in_content() => self.block = Draft { start: at, is_object: object, ..Draft::default() },
            3 if self.in_block() => {
                self.set_field(Value::NoString);
                self.block.in_resource = self.field == Field::Resource && object;
            }
            4 if self.in_block() && self.block.in_resource => self.set_resource_field(Value::NoString),
            _ => {}
        }
        self.depth = self.depth.saturating_add(1);
    }

    fn end(&mut self, end: u64) {
        self.depth = self.depth.saturating_sub(1);
        match self.depth {
            1 if self.member == Member::Structured => {
                self.index.structured = Some(Span::new(self.structured_start, end));
            }
            2 if self.in_content() => {
                let block = self.block.finish(end);
                self.push(block);
            }
            3 if self.in_block() => self.block.in_resource = false,
            _ => {}
        }
    }

    fn scalar(&mut self, token: Token<'_>, value: Value<'_>) {
        match self.depth {
            0 => self.fault = Some(Fault::NotAnObject),
            1 => self.scalar_member(token, value),
            2 if self.in_content() => self.push(Block {
                kind: BlockKind::Other,
                span: token.span,
                text: None,
                data: None,
                mime: None,
            }),
            3 if self.in_block() => self.set_field(value),
            4 if self.in_block() && self.block.in_resource => self.set_resource_field(value),
            _ => {}
        }
    }

    fn in_content(&self) -> bool {
        self.member == Member::Content && self.content == Content::Array
    }

    fn in_block(&self) -> bool {
        self.in_content() && self.block.is_object
    }

    fn begin_member(&mut self, at: u64, object: bool) {
        match self.member {
            Member::Content => {
                self.index.blocks.clear();
                self.content = if object { Content::Wrong } else { Content::Array };
            }
            Member::Structured => self.structured_start = at,
            Member::IsError => self.index.is_error = false,
            Member::ResultType => self.index.result_type = Some("?".to_owned()),
            Member::Unknown => {}
        }
    }

    fn scalar_member(&mut self, token: Token<'_>, value: Value<'_>) {
        let literal = if matches!(value, Value::NoString) { token.raw() } else { None };
        let is_null = literal == Some(b"null");
        match self.member {
            Member::Content => {
                self.index.blocks.clear();
                self.content = if is_null { Content::Absent } else { Content::Wrong };
            }
            Member::Structured => self.index.structured = (!is_null).then_some(token.span),
            Member::IsError => self.index.is_error = literal == Some(b"true"),
            Member::ResultType => self.index.result_type = (!is_null).then(|| result_type(value)),
            Member::Unknown => {}
        }
    }

    fn push(&mut self, block: Block) {
        if self.index.blocks.len() == MAX_BLOCKS {
            self.fault = Some(Fault::TooManyBlocks);
        } else {
            self.index.blocks.push(block);
        }
    }

    fn set_field(&mut self, value: Value<'_>) {
        match self.field {
            Field::Type => self.block.kind = Type::of(value),
            Field::Resource => self.block.resource = Parts::default(),
            field => self.block.own.set(field, value),
        }
    }

    fn set_resource_field(&mut self, value: Value<'_>) {
        self.block.resource.set(self.field, value);
    }
}

impl Draft {
    fn finish(&self, end: u64) -> Block {
        let (own, resource) = (self.own, self.resource);
        let (kind, text, data, mime) = match self.kind {
            Type::Text if own.text.is_some() => (BlockKind::Text, own.text, None, None),
            Type::Image if own.data.is_some() => (BlockKind::Image, None, own.data, own.mime),
            Type::Audio if own.data.is_some() => (BlockKind::Audio, None, own.data, own.mime),
            Type::Resource if resource.blob.is_some() => {
                (BlockKind::ResourceBlob, resource.text, resource.blob, resource.mime)
            }
            Type::Resource if resource.text.is_some() => {
                (BlockKind::ResourceText, resource.text, None, resource.mime)
            }
            Type::ResourceLink => (BlockKind::ResourceLink, None, None, own.mime),
            _ => (BlockKind::Other, None, None, None),
        };
        Block { kind, span: Span::new(self.start, end), text, data, mime }
    }
}

impl Parts {
    /// The last of several fields of one name counts, so a value of the wrong type takes back an earlier one.
    fn set(&mut self, field: Field, value: Value<'_>) {
        let span = match value {
            Value::String(token) => Some(token.span),
            Value::NoString => None,
        };
        match field {
            Field::Text => self.text = span,
            Field::Data => self.data = span,
            Field::Blob => self.blob = span,
            Field::Mime => {
                self.mime = span.filter(|span| span.len() <= MAX_MIME_LITERAL);
            }
            Field::Type | Field::Resource | Field::Unknown => {}
        }
    }
}

impl Member {
    fn of(key: Token<'_>) -> Member {
        match key.text().as_deref() {
            Some("content") => Member::Content,
            Some("structuredContent") => Member::Structured,
            Some("isError") => Member::IsError,
            Some("resultType") => Member::ResultType,
            _ => Member::Unknown,
        }
    }
}

impl Field {
    fn of(key: Token<'_>) -> Field {
        match key.text().as_deref() {
            Some("type") => Field::Type,
            Some("text") => Field::Text,
            Some("data") => Field::Data,
            Some("blob") => Field::Blob,
            Some("mimeType") => Field::Mime,
            Some("resource") => Field::Resource,
            _ => Field::Unknown,
        }
    }
}

impl Type {
    fn of(value: Value<'_>) -> Type {
        let Value::String(token) = value else { return Type::Unknown };
        match token.text().as_deref() {
            Some("text") => Type::Text,
            Some("image") => Type::Image,
            Some("audio") => Type::Audio,
            Some("resource") => Type::Resource,
            Some("resource_link") => Type::ResourceLink,
            _ => Type::Unknown,
        }
    }
}

/// A word, or `?`: the caller compares it, and no free text of the upstream goes round the cleaning this way.
fn result_type(value: Value<'_>) -> String {
    let word = match value {
        Value::String(token) => token.text(),
        Value::NoString => None,
    };
    let is_word = |word: &str| {
        (1..=64).contains(&word.len())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    word.filter(|word| is_word(word)).map_or_else(|| "?".to_owned(), std::borrow::Cow::into_owned)
}
