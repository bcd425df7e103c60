//! A tool's input schema, as the upstream listed it, and the check of a call's arguments against it.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use jsonspan::{Event, Scanner};
use serde_json::Value;

use super::bounded::{self, Allowance, Cost, MAX_VISITS, count_values};

/// The largest schema, in bytes, that is compiled.
pub const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// The largest arguments, in bytes, that are checked. Larger ones pass.
pub const MAX_ARGUMENTS_BYTES: usize = 1 << 20;

/// Values of the schema times values of the arguments: a bound for the work between two references.
const MAX_WORK: usize = 50_000_000;
/// Patterns of the schema times bytes of the arguments: matching takes time for each state of the pattern and each byte.
const MAX_MATCHING: usize = 256 * 1024;
/// As `MAX_WORK`, where the faults are listed: each may take some hundred bytes.
const MAX_LISTING: usize = 200_000;
const MAX_LINE_BYTES: usize = 500;
const MAX_LISTED_FAULTS: usize = 20;

/// A compiled input schema.
///
/// The check is a help for the agent, not a wall: the upstream checks for itself. So whatever cannot be checked passes: every call
/// if the schema cannot be compiled (it is not JSON, over 1 MiB, nested over 128 levels, has a pattern that a linear engine does
/// not know, refers to something that is not in it; nothing is ever fetched), a single call if its arguments are over 1 MiB, too
/// deep, too costly to check, or fail while holding a number that cannot be represented exactly. `format` is not checked.
pub struct InputSchema {
    compiled: Result<Compiled, String>,
}

struct Compiled {
    validator: Validator,
    cost: Cost,
}

impl InputSchema {
    /// Compiles a JSON Schema: of the draft it names, else of 2020-12.
    #[must_use]
    pub fn compile(raw: &str) -> InputSchema {
        InputSchema { compiled: Compiled::new(raw).map_err(|problem| one_line([problem])) }
    }

    /// Why the schema could not be compiled: one line of at most 500 bytes. It may quote the schema.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }

    /// Checks the arguments of a call: a JSON text, or nothing for none.
    ///
    /// # Errors
    /// One line of at most 500 bytes: the faults, each with the JSON pointer to the argument, joined by `; `. Values of the
    /// arguments are not quoted, names of members are. Text that is not JSON is always refused.
    pub fn check(&self, arguments_raw: &str) -> Result<(), String> {
        let raw = if arguments_raw.trim_ascii().is_empty() { "{}" } else { arguments_raw };
        jsonspan::check(raw.as_bytes())
            .map_err(|error| one_line([format!("the arguments are not valid JSON: {error}")]))?;
        let Ok(compiled) = &self.compiled else { return Ok(()) };
        if raw.len() > MAX_ARGUMENTS_BYTES
            || raw.len().saturating_mul(compiled.cost.pattern_uses) > MAX_MATCHING
        {
            return Ok(());
        }
        // What is JSON and still does not parse is too deep or has a number out of range.
        let Ok(arguments) = serde_json::from_str::<Value>(raw) else { return Ok(()) };
        match compiled.faults(&arguments) {
            Some(faults) if !holds_inexact_number(raw) => Err(faults),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputSchema").field("problem", &self.problem()).finish_non_exhaustive()
    }
}

impl Compiled {
    fn new(raw: &str) -> Result<Compiled, String> {
        let (validator, cost, ()) = bounded::compile(raw, |_| ())?;
        Ok(Compiled { validator, cost })
    }

    /// The faults in one line; `None` if there are none, or if it cannot be told at a reasonable price.
    fn faults(&self, arguments: &Value) -> Option<String> {
        let work = count_values(arguments).saturating_mul(self.cost.values);
        if work > MAX_WORK || run(MAX_VISITS, || self.validator.is_valid(arguments)) != Some(false) {
            return None;
        }
        let visits = u32::try_from(MAX_LISTING / work.max(1)).unwrap_or(MAX_VISITS);
        let listed = if work <= MAX_LISTING { run(visits, || self.list(arguments)) } else { None };
        let first = || if self.cost.branches { None } else { run(MAX_VISITS, || self.first(arguments)) };
        Some(listed.or_else(first).unwrap_or_else(|| "the arguments do not fit the input schema".to_owned()))
    }

    fn list(&self, arguments: &Value) -> String {
        one_line(self.validator.iter_errors(arguments).take(MAX_LISTED_FAULTS).map(|error| describe(&error)))
    }

    fn first(&self, arguments: &Value) -> String {
        one_line(self.validator.validate(arguments).err().map(|error| describe(&error)))
    }
}

fn run<T>(visits: u32, check: impl FnOnce() -> T) -> Option<T> {
    bounded::run(Allowance::of_visits(visits), check)
}

fn describe(error: &ValidationError<'_>) -> String {
    let what = match error.kind() {
        ValidationErrorKind::FalseSchema => "no value is allowed here".to_owned(),
        _ => error.masked().to_string(),
    };
    match error.instance_path().as_str() {
        "" => what,
        path => format!("{path}: {what}"),
    }
}

/// Joins by `; `, makes one line of it and cuts it at a character boundary.
pub(super) fn one_line(parts: impl IntoIterator<Item = String>) -> String {
    let joined = parts.into_iter().collect::<Vec<_>>().join("; ");
    let mut line: String = joined.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() > MAX_LINE_BYTES {
        line.truncate(line.floor_char_boundary(MAX_LINE_BYTES - '…'.len_utf8()));
        line.push('…');
    }
    line
}

/// True if some number is not exactly what the parser makes of it, so that a fault found in it may be none.
fn holds_inexact_number(raw: &str) -> bool {
    let mut inexact = false;
    let mut scanner = Scanner::new();
    let mut sink = |event: Event<'_>| {
        if let Event::Number(token) = event {
            inexact |= !token.text().is_some_and(|number| is_exact(&number));
        }
    };
    let scanned = scanner.feed(raw.as_bytes(), &mut sink).and_then(|()| scanner.finish(&mut sink));
    inexact || scanned.is_err()
}

/// Integers of 64 bits are exact, and so is every decimal of up to 15 digits for all that a schema can ask.
fn is_exact(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count() <= 15
}
