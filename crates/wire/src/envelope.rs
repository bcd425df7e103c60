//! One message: its bytes are kept as they are, and one pass finds where id, method, parameters and result lie.
//!
//! Members come in any order, so nothing is decided before the message has ended, except what can be known early:
//! see [`Assembler::trouble`].

mod view;

use std::fmt;
use std::sync::Arc;

use jsonspan::{Scanner, Span, SyntaxError, Unescape};

use self::view::{ErrorShape, View};
use crate::spool::{Body, SpoolError, SpoolWriter, Spools};

/// The longest text that is kept of an error message, in bytes.
const ERROR_TEXT_BYTES: usize = 16 * 1024;
/// What is shown of bytes that are no message.
const HEAD_CHARS: usize = 200;
/// How much of the end of a broken message is looked at for its id.
const TAIL_BYTES: usize = 96;
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// A JSON-RPC id. `null` is no id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// A whole number.
    Number(i64),
    /// Anything else, as raw JSON (a string with its quotes).
    Raw(Box<str>),
}

/// A whole message.
#[derive(Debug)]
pub struct Message {
    /// Its id, if it has one.
    pub id: Option<Id>,
    /// What it is.
    pub kind: Kind,
    /// Its length in bytes, without a byte order mark.
    pub len: u64,
}

/// What a message is.
#[derive(Debug)]
pub enum Kind {
    /// Wants an answer.
    Request {
        /// The method; empty when its name is over 1 KiB.
        method: String,
        /// The raw parameters.
        params: Option<Body>,
    },
    /// Wants none.
    Notification {
        /// The method; empty when its name is over 1 KiB.
        method: String,
        /// The raw parameters.
        params: Option<Body>,
    },
    /// Exactly the bytes of `result`.
    Result(Body),
    /// An `error`, taken apart.
    Error {
        /// The code; 0 when it is missing or no whole number.
        code: i64,
        /// The text, at most 16 KiB.
        message: String,
        /// The raw `data`.
        data: Option<Body>,
    },
}

/// What came of the bytes.
#[derive(Debug)]
pub enum Assembled {
    /// A message.
    Message(Message),
    /// A message that cannot be handed on.
    Failed(Trouble),
    /// An answer that nobody wants any more ([`Assembler::discard`]).
    Discarded(Option<Id>),
    /// No JSON-RPC: a log line, an array, a number. The text is its beginning, at most 200 characters.
    Noise(String),
    /// Nothing but white space.
    Blank,
}

/// Why a message cannot be handed on, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The message's id, if it was seen already.
    pub id: Option<Id>,
    /// Whether the message is an answer, rather than a request or notification.
    pub answer: bool,
    /// What is wrong.
    pub cause: Cause,
}

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It is longer than it may be.
    TooLarge {
        /// The bound, in bytes.
        limit: u64,
    },
    /// All spools together are full.
    SpoolFull,
    /// It could not be kept.
    Io(String),
    /// It is broken JSON.
    Syntax(SyntaxError),
    /// It is JSON, but no JSON-RPC answer.
    Shape(&'static str),
}

/// Takes the bytes of one message in pieces. Linear: each byte is looked at once and stored once.
///
/// Up to 1 MiB a push is quick; beyond, it writes to a file and belongs on a thread that may block.
pub struct Assembler {
    scanner: Scanner,
    view: View,
    keep: Keep,
    limit: u64,
    len: u64,
    bom: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
    broken: Option<SyntaxError>,
}

enum Keep {
    Storing(SpoolWriter),
    Dropped(Option<Cause>),
}

impl Assembler {
    /// For one message of at most `max_message_bytes`, kept in `spools`.
    #[must_use]
    pub fn new(spools: &Arc<Spools>, max_message_bytes: u64) -> Assembler {
        Assembler {
            scanner: Scanner::new(),
            view: View::default(),
            keep: Keep::Storing(spools.writer()),
            limit: max_message_bytes,
            len: 0,
            bom: 0,
            head: Vec::new(),
            tail: Vec::new(),
            broken: None,
        }
    }

    /// Takes the next bytes of the message.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = self.without_bom(bytes);
        if bytes.is_empty() {
            return;
        }
        self.len += bytes.len() as u64;
        let shown = HEAD_CHARS * 4;
        self.head.extend_from_slice(&bytes[..bytes.len().min(shown.saturating_sub(self.head.len()))]);
        if !self.is_settled() {
            self.store(bytes);
            self.scan(bytes);
        }
        if self.broken.is_some() {
            self.remember_tail(bytes);
        }
    }

    /// Bytes taken so far, without a byte order mark.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was taken yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id, as soon as it was seen.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        self.view.id.as_ref()
    }

    /// Whether what was seen so far belongs to an answer.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.view.is_answer()
    }

    /// Whether nothing in the bytes to come can change what this is: they are only counted.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.broken.is_some() || self.view.not_object
    }

    /// Whether the message could end here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.scanner.is_complete()
    }

    /// What is wrong already, while the message may still go on. The id may become known later.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        let cause = match (&self.keep, self.broken) {
            (_, Some(error)) => Cause::Syntax(error),
            (Keep::Dropped(Some(cause)), None) => cause.clone(),
            _ => return None,
        };
        Some(Trouble { id: self.view.id.clone(), answer: self.view.is_answer(), cause })
    }

    /// Lets the bytes go: nobody waits for this message.
    pub fn discard(&mut self) {
        self.keep = Keep::Dropped(None);
    }

    /// Ends the message.
    #[must_use]
    pub fn finish(mut self) -> Assembled {
        if !self.is_settled() {
            let Assembler { scanner, view, .. } = &mut self;
            let ended = scanner.finish(&mut |event| view.see(event));
            if !self.view.begun {
                return Assembled::Blank;
            }
            self.broken = ended.err();
        }
        match self.broken {
            Some(error) => self.conclude_broken(error),
            None if self.view.not_object => self.noise(),
            None => self.conclude(),
        }
    }

    /// What broken JSON is: the id may stand before the fault, or at the very end.
    fn conclude_broken(mut self, error: SyntaxError) -> Assembled {
        let answer = self.view.is_answer();
        let id = self.view.id.take().or_else(|| id_at_end(&self.tail));
        if answer || (self.view.has_begun_answer() && id.is_some()) {
            return Assembled::Failed(Trouble { id, answer: true, cause: Cause::Syntax(error) });
        }
        self.noise()
    }

    /// What a complete JSON object is.
    fn conclude(mut self) -> Assembled {
        let has_answer = self.view.result.is_some() || self.view.error.is_some();
        let is_ours = self.view.version || (has_answer && self.view.id.is_some());
        if !is_ours {
            return self.noise();
        }
        if !has_answer && self.view.method.is_none() {
            let cause = Cause::Shape("it has neither result nor error");
            return match self.view.id.take() {
                Some(id) => Assembled::Failed(Trouble { id: Some(id), answer: true, cause }),
                None => self.noise(),
            };
        }
        let Assembler { view, keep, len, .. } = self;
        let kept = match keep {
            Keep::Storing(writer) => writer.finish().map_err(|error| Some(Cause::from(error))),
            Keep::Dropped(cause) => Err(cause),
        };
        match kept {
            Ok(body) => Assembled::Message(message(view, &body, len)),
            Err(Some(cause)) => Assembled::Failed(Trouble { answer: has_answer, id: view.id, cause }),
            Err(None) => Assembled::Discarded(view.id),
        }
    }

    fn noise(&self) -> Assembled {
        let text = String::from_utf8_lossy(&self.head);
        Assembled::Noise(text.trim_end().chars().take(HEAD_CHARS).collect())
    }

    fn store(&mut self, bytes: &[u8]) {
        let Keep::Storing(writer) = &mut self.keep else { return };
        let cause = if self.len > self.limit {
            Cause::TooLarge { limit: self.limit }
        } else if let Err(error) = writer.push(bytes) {
            error.into()
        } else {
            return;
        };
        self.keep = Keep::Dropped(Some(cause));
    }

    fn scan(&mut self, bytes: &[u8]) {
        let Assembler { scanner, view, .. } = self;
        self.broken = scanner.feed(bytes, &mut |event| view.see(event)).err();
        if self.is_settled() {
            self.keep = Keep::Dropped(None);
        }
    }

    /// A byte order mark before the first byte is no part of the message.
    fn without_bom<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while self.bom < BOM.len() {
            let Some((first, rest)) = bytes.split_first() else { break };
            if *first != BOM[self.bom] {
                self.bom = BOM.len();
                break;
            }
            self.bom += 1;
            bytes = rest;
        }
        bytes
    }

    fn remember_tail(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let surplus = (self.tail.len() + last.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend_from_slice(last);
    }
}

impl fmt::Debug for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Assembler({} bytes)", self.len)
    }
}

impl Id {
    /// The number that this id stands for; some peers turn ids into strings or decimals.
    #[must_use]
    pub fn as_number(&self) -> Option<i64> {
        match self {
            Id::Number(number) => Some(*number),
            Id::Raw(raw) => raw.trim_matches('"').parse().ok(),
        }
    }
}

impl fmt::Display for Id {
    /// As JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(number) => write!(f, "{number}"),
            Id::Raw(raw) => f.write_str(raw),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::TooLarge { limit } => write!(f, "it is larger than {limit} bytes"),
            Cause::SpoolFull => f.write_str("all spools together are full"),
            Cause::Io(text) => f.write_str(text),
            Cause::Syntax(error) => write!(f, "invalid JSON: {error}"),
            Cause::Shape(what) => f.write_str(what),
        }
    }
}

impl From<SpoolError> for Cause {
    fn from(error: SpoolError) -> Cause {
        match error {
            SpoolError::Full { .. } => Cause::SpoolFull,
            SpoolError::Io { .. } => Cause::Io(error.to_string()),
        }
    }
}

fn message(view: View, body: &Body, len: u64) -> Message {
    let part = |span: Span| body.slice(span.start, span.end);
    let params = view.params.map(part);
    let kind = match (view.error, view.result, view.method) {
        (Some(span), _, _) => Kind::Error {
            code: view.code,
            message: match (view.error_shape, view.message) {
                (ErrorShape::Object, Some(text)) => error_text(&part(text)),
                (ErrorShape::Object, None) => String::new(),
                (ErrorShape::Other, _) => error_text(&part(span)),
            },
            data: view.data.map(part),
        },
        (None, Some(span), _) => Kind::Result(part(span)),
        (None, None, method) => {
            let method = method.unwrap_or_default();
            if view.id.is_some() {
                Kind::Request { method, params }
            } else {
                Kind::Notification { method, params }
            }
        }
    };
    Message { id: view.id, kind, len }
}

/// The beginning of a string literal, decoded; of another value, its JSON.
fn error_text(literal: &Body) -> String {
    let mut raw = vec![0; ERROR_TEXT_BYTES];
    let count = literal.read_at(0, &mut raw).unwrap_or(0);
    raw.truncate(count);
    let mut text = Vec::with_capacity(raw.len());
    if let Some(inside) = raw.strip_prefix(b"\"") {
        let whole = literal.len() == raw.len() as u64;
        let mut unescape = Unescape::new();
        unescape.push(if whole { inside.strip_suffix(b"\"").unwrap_or(inside) } else { inside }, &mut text);
        if whole {
            unescape.finish(&mut text);
        }
    } else {
        text = raw;
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The id in the last members of a message whose JSON is broken further ahead: `"jsonrpc":"2.0","id":7}`.
fn id_at_end(tail: &[u8]) -> Option<Id> {
    let text = String::from_utf8_lossy(tail);
    let (before, id) = text.trim_end().strip_suffix('}')?.rsplit_once("\"id\"")?;
    let number = id.trim_start().strip_prefix(':')?.trim().parse().ok()?;
    let version = before.trim_end().strip_suffix(',')?.trim_end().strip_suffix("\"2.0\"")?;
    version.trim_end().strip_suffix(':')?.trim_end().ends_with("\"jsonrpc\"").then_some(Id::Number(number))
}
