//! JSON text written as TOON (Token-Oriented Object Notation), and the decision whether an agent is better off with it.
//!
//! The notation is that of the TOON specification, version 4.0. What is written decodes to what was read: the same strings, the
//! same order, numbers of the same value. Whatever would not is a [`NotEncodable`], and the caller hands on the JSON as it is.
//!
//! A text is read once into a flat tape, from which it is written once. While it is read, objects of the same fields get the
//! same layout, so that "is this a table?" is a comparison of numbers and the work grows with the text, whatever
//! its form.

mod intern;
mod layout;
mod names;
mod number;
mod string;
mod tape;
mod write;

use std::num::NonZeroU8;

use tape::Tape;

/// The longest JSON text that is encoded, in bytes.
pub const MAX_TOON_BYTES: usize = 1024 * 1024;

/// The most arrays and objects around a value.
pub const MAX_DEPTH: usize = 64;

/// The longest TOON text that [`encode`] makes, in bytes: indentation can make it longer than the JSON.
pub const MAX_OUTPUT_BYTES: usize = 4 * MAX_TOON_BYTES;

/// The line above TOON in a reply.
pub const MARKER: &str = "[mcpproxy:toon/v1] TOON-encoded JSON (toon-format.org); decode to JSON before reuse - \
                          tool arguments must still be sent as JSON.";

/// The least room in a reply, in bytes, in which TOON tells anything: the marker, the line break and a few characters.
pub const MIN_ROOM: usize = MARKER.len() + 1 + 16;

/// What TOON must save when nothing else is said, in percent.
pub const DEFAULT_SAVINGS_PCT: u8 = 15;

/// The fewest rows of what counts as a table.
const MIN_ROWS: u32 = 4;

/// Why a text was not written as TOON. The text can be handed on as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEncodable {
    /// More than [`MAX_TOON_BYTES`].
    #[error("the text has more than {MAX_TOON_BYTES} bytes")]
    TooLong,
    /// The text is not one JSON value.
    #[error("not JSON: {0}")]
    NotJson(#[from] jsonspan::SyntaxError),
    /// More than [`MAX_DEPTH`] arrays and objects in one another.
    #[error("nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// An object has the same key twice, which TOON cannot say.
    #[error("a key appears twice in one object")]
    DuplicateKey,
    /// A number that a reader with 64-bit floats would not write again with the same value: too many digits, too large or too
    /// small.
    #[error("a number does not survive as a 64-bit float")]
    InexactNumber,
    /// A string or key holds half of a surrogate pair, which UTF-8 cannot say.
    #[error("a string holds an unpaired surrogate")]
    LoneSurrogate,
    /// The TOON would have more bytes than it may.
    #[error("the TOON is longer than it may be")]
    TooMuchOutput,
}

/// What stands between the values of an array and the cells of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delimiter {
    /// `,`
    #[default]
    Comma,
    /// A tab.
    Tab,
    /// `|`
    Pipe,
}

/// How TOON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Between values. Default: a comma.
    pub delimiter: Delimiter,
    /// Spaces for each level. Default: 2.
    pub indent_size: NonZeroU8,
}

impl Default for Options {
    fn default() -> Options {
        const TWO: NonZeroU8 = NonZeroU8::MIN.saturating_add(1);
        Options { delimiter: Delimiter::Comma, indent_size: TWO }
    }
}

/// When a JSON text is written as TOON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Never.
    #[default]
    Off,
    /// Tables, when that saves enough.
    Adaptive,
    /// Every JSON text that can be, also when it becomes longer.
    Always,
}

/// What became of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The marker line and the TOON: send this instead of the text.
    Encoded(String),
    /// TOON is off, or there is less than [`MIN_ROOM`] for it.
    NotAsked,
    /// Adaptive: the text is no table of at least four rows.
    NotTabular,
    /// Adaptive: it would not save enough.
    BelowThreshold,
    /// It is not JSON, or cannot be written without loss.
    Failed(NotEncodable),
}

/// Writes one JSON text as TOON, without a marker.
///
/// # Errors
/// If the text is no JSON, or would lose something; see [`NotEncodable`].
pub fn encode(json: &str, options: &Options) -> Result<String, NotEncodable> {
    let tape = Tape::read(json)?;
    write::append(&tape, options, String::with_capacity(json.len()), MAX_OUTPUT_BYTES)
}

/// The text that an agent gets instead of `json`, if it is better off with it: [`decide`] without the reason.
#[must_use]
pub fn adaptive(json: &str, mode: Mode, min_savings_pct: u8) -> Option<String> {
    match decide(json, mode, min_savings_pct, usize::MAX) {
        Outcome::Encoded(text) => Some(text),
        _ => None,
    }
}

/// Decides whether an agent gets `json` as TOON under the marker line.
///
/// `min_savings_pct` is what adaptive mode must save, marker counted, in percent of the bytes of `json`; outside 1 to 90 it is
/// [`DEFAULT_SAVINGS_PCT`]. `room` is how many bytes of the result will be shown at most; with less than [`MIN_ROOM`] the text stays.
#[must_use]
pub fn decide(json: &str, mode: Mode, min_savings_pct: u8, room: usize) -> Outcome {
    if mode == Mode::Off || room < MIN_ROOM {
        return Outcome::NotAsked;
    }
    let tape = match Tape::read(json) {
        Ok(tape) => tape,
        Err(reason) => return Outcome::Failed(reason),
    };
    let limit = match mode {
        Mode::Adaptive if !tape.is_tabular(MIN_ROWS) => return Outcome::NotTabular,
        Mode::Adaptive => most_bytes(json.len(), min_savings_pct),
        Mode::Off | Mode::Always => MAX_OUTPUT_BYTES,
    };
    match write::append(&tape, &Options::default(), format!("{MARKER}\n"), limit) {
        Ok(text) => Outcome::Encoded(text),
        Err(NotEncodable::TooMuchOutput) if mode == Mode::Adaptive => Outcome::BelowThreshold,
        Err(reason) => Outcome::Failed(reason),
    }
}

/// The most bytes that save as much as is asked, of at most [`MAX_TOON_BYTES`].
fn most_bytes(json: usize, min_savings_pct: u8) -> usize {
    let pct = if (1..=90).contains(&min_savings_pct) { min_savings_pct } else { DEFAULT_SAVINGS_PCT };
    json * (100 - usize::from(pct)) / 100
}

impl Delimiter {
    fn byte(self) -> u8 {
        match self {
            Delimiter::Comma => b',',
            Delimiter::Tab => b'\t',
            Delimiter::Pipe => b'|',
        }
    }
}
