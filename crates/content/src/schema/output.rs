//! A tool's output schema, as the upstream listed it, and the check of an answer's `structuredContent` against it.

use std::fmt;
use std::io;
use std::time::Duration;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use jsonspan::Span;

use super::bounded::{self, Allowance, Cost, MAX_VISITS};
use super::document::{Document, Unreadable};
use super::input::one_line;
use super::raw::{At, Raw};
use super::{Checked, price};
use crate::answer::Answer;
use crate::source::ends_early;

/// Units of work for each byte that may be checked. What is usual takes less than half of it.
const WORK_PER_BYTE: u64 = 3;
/// The same for checks with a small bound, and the most, however large the bound.
const LEAST_WORK: u64 = 2_000_000;
const MOST_WORK: u64 = 400_000_000;
/// The time after which a check is given up although it did not use up its work, and the same for each MiB of the bound.
const TIME: Duration = Duration::from_secs(2);
const TIME_PER_MIB: Duration = Duration::from_millis(250);
/// Where faults are told with those of every branch: units of work for memory, of so many bytes each.
const LOOKING_WORK: u64 = 200_000;
const LOOKING_UNIT: u64 = 64;
/// What one fault takes beside its place, in bytes.
const FAULT_BYTES: u64 = 512;
/// Longest pointer and name that are shown, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// What happens to structured output that does not keep its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputMode {
    /// It is not looked at.
    Off,
    /// It is passed on and told.
    #[default]
    Warn,
    /// It is stopped.
    Strict,
}

/// How structured output is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRules {
    /// What happens to what does not keep its schema, or is over a bound.
    pub mode: OutputMode,
    /// The largest structured output that is checked, in bytes.
    pub max_bytes: u64,
    /// The deepest that is checked. A scalar has the depth 1, a container one more than its deepest value.
    pub max_depth: usize,
    /// An answer without the structured output that its tool promises is stopped, unless the mode is off.
    pub block_missing: bool,
}

/// Why structured output is not what its tool promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputFault {
    /// There is none.
    Missing,
    /// It is larger than is checked.
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// Most that are checked.
        limit: u64,
    },
    /// It is deeper than is checked.
    TooDeep {
        /// The depth that is checked.
        limit: usize,
    },
    /// Schema and output together are more work than is reasonable.
    TooCostly,
    /// It does not keep its schema.
    Mismatch(Option<Place>),
}

/// Where structured output does not keep its schema. Never a value of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// JSON pointer into `structuredContent`, cleaned and cut.
    pub pointer: String,
    /// The keyword of the schema that is not kept.
    pub keyword: String,
    /// For `required`: the member that is missing, by the schema.
    pub missing: Option<String>,
}

/// Why an answer does not pass output validation.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The rules stop it.
    #[error("{0}")]
    Fault(OutputFault),
    /// It could not be read back.
    #[error("the structured content could not be read back: {0}")]
    Io(#[from] io::Error),
}

impl fmt::Display for OutputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputFault::Missing => {
                f.write_str("the tool declares an output schema but returned no structured content")
            }
            OutputFault::TooLarge { bytes, limit } => {
                write!(
                    f,
                    "structuredContent has {bytes} bytes, more than the {limit} that are checked (output_validation.max_bytes)"
                )
            }
            OutputFault::TooDeep { limit } => {
                write!(
                    f,
                    "structuredContent is nested deeper than the {limit} levels that are checked (output_validation.max_depth)"
                )
            }
            OutputFault::TooCostly => f.write_str(
                "checking structuredContent against the output schema takes more work than is reasonable",
            ),
            OutputFault::Mismatch(None) => f.write_str("structuredContent does not fit the output schema"),
            OutputFault::Mismatch(Some(place)) => {
                write!(
                    f,
                    "structuredContent does not fit the output schema: keyword \"{}\" at \"{}\"",
                    place.keyword, place.pointer
                )?;
                place.missing.as_ref().map_or(Ok(()), |name| write!(f, ", member \"{name}\" is missing"))
            }
        }
    }
}

/// A compiled output schema.
///
/// What cannot be compiled lets every answer pass and says why: see [`OutputSchema::problem`]. Nothing is ever fetched, patterns
/// are matched in linear time, and no check takes more than its bounds in bytes, depth, work, memory and stack. `format` is not
/// checked. Of members with the same name the last counts. Numbers are compared as 64-bit integers or doubles; whether one is an
/// integer, and whether two are the same, is told from their digits.
pub struct OutputSchema {
    compiled: Option<Compiled>,
    problem: Option<String>,
}

struct Compiled {
    validator: Validator<Raw>,
    cost: Cost,
    string_price: u64,
}

impl OutputSchema {
    /// Compiles a JSON Schema: of the draft it names, else of 2020-12.
    #[must_use]
    pub fn compile(raw: &str) -> OutputSchema {
        match Compiled::new(raw) {
            Ok(compiled) => {
                let lost = "it uses unevaluatedProperties or unevaluatedItems too often; these keywords are not checked";
                let problem = compiled.cost.lost_unevaluated.then(|| lost.to_owned());
                OutputSchema { compiled: Some(compiled), problem }
            }
            Err(problem) => OutputSchema::unusable(&problem),
        }
    }

    /// A schema that is there and cannot be used.
    #[must_use]
    pub fn unusable(problem: &str) -> OutputSchema {
        OutputSchema { compiled: None, problem: Some(one_line([problem.to_owned()])) }
    }

    /// What of the schema is not checked, and why: one line of at most 500 bytes. It may quote the schema.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// A check of so many bytes takes a few milliseconds at most, so that it may be done between other things.
    #[must_use]
    pub fn is_quick(&self, bytes: u64) -> bool {
        self.compiled.as_ref().is_none_or(|compiled| {
            let values = compiled.cost.values as u64;
            !compiled.cost.references
                && compiled.string_price == 1
                && bytes.saturating_mul(values) <= LEAST_WORK
        })
    }

    /// Checks an answer. Error results and results that are not final pass, and so does everything if the mode is off.
    ///
    /// Only the span of `structuredContent` is read, and only if it is within the bounds.
    ///
    /// # Errors
    /// By the rules the answer must not be passed on, or it could not be read.
    pub fn check(&self, answer: Answer, rules: &OutputRules) -> Result<Checked, Stopped> {
        if !rules.look_at(&answer) {
            return Ok(super::check_output(answer));
        }
        match self.fault(&answer, rules)? {
            Some(fault) if rules.stop(&fault) => Err(Stopped::Fault(fault)),
            fault => Ok(Checked { answer, fault, problem: self.problem.clone() }),
        }
    }

    fn fault(&self, answer: &Answer, rules: &OutputRules) -> io::Result<Option<OutputFault>> {
        let Some(span) = answer.structured() else {
            return Ok(rules.block_missing.then_some(OutputFault::Missing));
        };
        let Some(compiled) = &self.compiled else { return Ok(None) };
        if span.len() > rules.max_bytes {
            return Ok(Some(OutputFault::TooLarge { bytes: span.len(), limit: rules.max_bytes }));
        }
        let text = read(answer, span)?;
        Ok(match Document::read(text, rules.max_depth) {
            Ok(document) => compiled.fault(document, rules),
            Err(Unreadable::TooDeep) => Some(OutputFault::TooDeep { limit: rules.max_depth }),
            Err(Unreadable::NoDocument) => Some(OutputFault::TooCostly),
        })
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputSchema").field("problem", &self.problem()).finish_non_exhaustive()
    }
}

impl OutputRules {
    /// An answer is checked if it is final and no error, unless the mode is off.
    #[must_use]
    pub fn look_at(&self, answer: &Answer) -> bool {
        let is_final = answer.result_type().is_none_or(|kind| kind == "complete");
        self.mode != OutputMode::Off && is_final && !answer.is_error()
    }

    fn stop(&self, fault: &OutputFault) -> bool {
        self.mode == OutputMode::Strict || *fault == OutputFault::Missing
    }

    fn work(&self) -> u64 {
        self.max_bytes.saturating_mul(WORK_PER_BYTE).clamp(LEAST_WORK, MOST_WORK)
    }

    fn time(&self) -> Duration {
        let mib = u32::try_from(self.max_bytes >> 20).unwrap_or(u32::MAX).min(1024);
        TIME + TIME_PER_MIB * mib
    }
}

/// The text of a span. It is known to be JSON, and so UTF-8.
fn read(answer: &Answer, span: Span) -> io::Result<String> {
    let raw = answer.raw();
    let mut bytes = vec![0; usize::try_from(span.len()).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        let room = bytes.get_mut(filled..).unwrap_or_default();
        match raw.read_at(span.start + filled as u64, room)? {
            0 => return Err(ends_early()),
            count => filled += count,
        }
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

impl Compiled {
    fn new(raw: &str) -> Result<Compiled, String> {
        let (validator, cost, string_price) =
            bounded::compile(raw, |cost| price::of_strings(&cost.patterns))?;
        Ok(Compiled { validator, cost, string_price })
    }

    fn fault(&self, mut document: Document, rules: &OutputRules) -> Option<OutputFault> {
        document.price_strings(self.string_price);
        let allowance = Allowance {
            visits: MAX_VISITS.saturating_mul(10),
            work: rules.work(),
            price: 1,
            time: rules.time(),
        };
        if !self.cost.branches {
            let checked = bounded::run(allowance, || self.place(&document));
            return checked.map_or(Some(OutputFault::TooCostly), |place| {
                place.map(|place| OutputFault::Mismatch(Some(place)))
            });
        }
        match bounded::run(allowance, || self.validator.is_valid(At::root(&document))) {
            Some(true) => None,
            Some(false) => Some(OutputFault::Mismatch(self.looked_for(&document, allowance))),
            None => Some(OutputFault::TooCostly),
        }
    }

    /// The place of a fault that is known to be there, if it can be told at a bearable price.
    fn looked_for(&self, document: &Document, allowance: Allowance) -> Option<Place> {
        let fault_bytes = FAULT_BYTES.saturating_add(document.longest_pointer() as u64 * 2);
        let price = (fault_bytes / LOOKING_UNIT).max(1);
        bounded::run(Allowance { work: LOOKING_WORK, price, ..allowance }, || self.place(document)).flatten()
    }

    fn place(&self, document: &Document) -> Option<Place> {
        self.validator.validate(At::root(document)).err().map(|error| Place::of(&error))
    }
}

impl Place {
    fn of(error: &ValidationError<'_>) -> Place {
        let missing = match error.kind() {
            ValidationErrorKind::Required { property } => property.as_str().map(shown),
            _ => None,
        };
        let keyword = match error.kind() {
            ValidationErrorKind::FalseSchema => "false".to_owned(),
            kind => shown(kind.keyword()),
        };
        Place { pointer: shown(error.instance_path().as_str()), keyword, missing }
    }
}

/// A name or pointer that an upstream wrote, as it may be shown: this is where what must not be told is taken out.
fn shown(written: &str) -> String {
    let is_plain = |c: char| !c.is_control() && !is_invisible(c) && c != '"';
    let mut text: String =
        written.chars().take(MAX_SHOWN_BYTES + 1).map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect();
    if text.len() > MAX_SHOWN_BYTES {
        text.truncate(text.floor_char_boundary(MAX_SHOWN_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// Characters that change how the text around them is read.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
