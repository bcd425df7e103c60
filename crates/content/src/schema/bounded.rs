//! Schemas are written by upstreams that may be hostile: here compiling and checking get their bounds.
//!
//! A chain of `$ref` can run the stack out, and a few dozen of them that each lead to two others make more work than there is
//! time. The validator has no bound of its own, so every reference is put behind a keyword of ours that counts visits and
//! measures the stack. What looks at a value of ours pays for it with [`spend`]. Where a bound is reached the check is given
//! up, by an unwinding that carries no message and that [`run`] catches.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use jsonschema::json::Json;
use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use super::input::MAX_SCHEMA_BYTES;

/// The keyword of ours. No schema in the world has it.
pub(super) const KEYWORD: &str = "x-mcpproxy-visit";

/// References followed in one check.
pub(super) const MAX_VISITS: u32 = 100_000;
/// How long references are followed.
const MAX_TIME: Duration = Duration::from_secs(2);
/// The clock is read once in so many visits.
const VISITS_PER_LOOK: u32 = 64;
/// The clock is read once in so many units of work, by the power of two.
const WORK_PER_LOOK: u32 = 16;
/// Memory that one compiled pattern may take, and its cache again, in bytes.
const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// Stack used by one check, in bytes, before a reference is followed no further. The smallest threads have 2 MiB.
const MAX_STACK: usize = 512 * 1024;
/// Different patterns in a schema: each takes memory when compiled.
const MAX_PATTERNS: usize = 100;
/// The `unevaluated` keywords look through references without visiting them. A schema with more of either loses them.
const MAX_UNEVALUATED: usize = 8;

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
/// Keywords whose value maps names to schemas, so that the names in it are no keywords.
const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

thread_local! {
    static VISITS_LEFT: Cell<u32> = const { Cell::new(0) };
    static WORK_LEFT: Cell<u64> = const { Cell::new(0) };
    static PRICE: Cell<u64> = const { Cell::new(1) };
    static STACK_BASE: Cell<usize> = const { Cell::new(0) };
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Carried by the unwinding.
struct GivenUp;

/// What one check may take before it is given up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    /// References followed.
    pub(super) visits: u32,
    /// Units of work, as [`spend`] counts them.
    pub(super) work: u64,
    /// What a unit costs, for checks that keep something of all that they look at.
    pub(super) price: u64,
    /// Time, looked at now and then: the net under prices that are wrong.
    pub(super) time: Duration,
}

impl Allowance {
    /// For checks of values that nobody pays for.
    pub(super) fn of_visits(visits: u32) -> Allowance {
        Allowance { visits, work: 0, price: 1, time: MAX_TIME }
    }
}

/// Runs a check on this thread that may take so much; `None` if it was given up, or if the validator panicked.
pub(super) fn run<T>(allowance: Allowance, check: impl FnOnce() -> T) -> Option<T> {
    VISITS_LEFT.set(allowance.visits);
    WORK_LEFT.set(allowance.work);
    PRICE.set(allowance.price);
    STACK_BASE.set(stack_address());
    UNTIL.set(Instant::now().checked_add(allowance.time));
    let done = catch_unwind(AssertUnwindSafe(check));
    VISITS_LEFT.set(0);
    WORK_LEFT.set(0);
    done.ok()
}

/// Takes units of work, each about ten nanoseconds, from the check that runs on this thread.
#[inline]
pub(super) fn spend(units: u64) {
    let before = WORK_LEFT.get();
    let Some(left) = before.checked_sub(units.saturating_mul(PRICE.get())) else { give_up() };
    WORK_LEFT.set(left);
    if before >> WORK_PER_LOOK != left >> WORK_PER_LOOK && is_late() {
        give_up();
    }
}

/// Gives the check that runs on this thread up if it has used too much of the stack.
#[inline]
pub(super) fn keep_stack() {
    if STACK_BASE.get().abs_diff(stack_address()) > MAX_STACK {
        give_up();
    }
}

fn is_late() -> bool {
    UNTIL.get().is_none_or(|until| Instant::now() > until)
}

#[cold]
fn give_up() -> ! {
    resume_unwind(Box::new(GivenUp))
}

#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here).addr()
}

/// The keyword that stands before each reference.
pub(super) struct Visit;

impl Visit {
    fn count() {
        let left = VISITS_LEFT.get();
        keep_stack();
        if left == 0 || (left.is_multiple_of(VISITS_PER_LOOK) && is_late()) {
            give_up();
        }
        VISITS_LEFT.set(left - 1);
    }
}

impl<'i, F: Json> Keyword<'i, F> for Visit {
    fn validate(&self, _: F::Node<'i>) -> Result<(), ValidationError<'i>> {
        Visit::count();
        Ok(())
    }

    fn is_valid(&self, _: F::Node<'i>) -> bool {
        Visit::count();
        true
    }
}

/// Compiles a schema that was put behind [`guard`]: nothing is fetched, and patterns are linear and bounded.
fn build<F: Json>(schema: &Value) -> Result<Validator<F>, ValidationError<'static>> {
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    jsonschema::options_for::<F>()
        .with_pattern_options(patterns)
        .with_keyword(KEYWORD, |_, _, _| Ok(Box::new(Visit) as Box<dyn for<'i> Keyword<'i, F>>))
        .should_validate_formats(false)
        .offline()
        .build(schema)
}

/// Reads and compiles a schema as an upstream wrote it; `price` looks at what it costs while faults are still caught.
pub(super) fn compile<F: Json, T>(
    raw: &str,
    price: impl FnOnce(&Cost) -> T,
) -> Result<(Validator<F>, Cost, T), String> {
    if raw.len() > MAX_SCHEMA_BYTES {
        return Err(format!("the schema has more than {MAX_SCHEMA_BYTES} bytes"));
    }
    let mut schema: Value =
        serde_json::from_str(raw).map_err(|error| format!("the schema cannot be read: {error}"))?;
    let cost = guard(&mut schema).map_err(|problem| format!("the schema cannot be used: {problem}"))?;
    // A fault inside the validator must cost this schema, not the program.
    match catch_unwind(AssertUnwindSafe(|| build(&schema).map(|validator| (validator, price(&cost))))) {
        Ok(Ok((validator, price))) => Ok((validator, cost, price)),
        Ok(Err(error)) => Err(format!("the schema is not valid: {error}")),
        Err(_) => Err("the schema cannot be compiled".to_owned()),
    }
}

/// Number of JSON values in `value`, itself included.
pub(super) fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_values).sum(),
        Value::Object(map) => map.values().map(count_values).sum(),
        _ => 0,
    }
}

/// What a schema may cost.
#[derive(Debug, Default, Clone)]
pub(super) struct Cost {
    /// JSON values in the schema.
    pub(super) values: usize,
    /// Places where a pattern is matched.
    pub(super) pattern_uses: usize,
    /// The different patterns.
    pub(super) patterns: Vec<String>,
    /// The schema leads from one place in it to another.
    pub(super) references: bool,
    /// It had more of the `unevaluated` keywords than can be afforded, and lost them.
    pub(super) lost_unevaluated: bool,
    /// A fault in `anyOf` or `oneOf` is told with the faults of every branch.
    pub(super) branches: bool,
}

/// Puts every reference behind our keyword. What the schema says is not changed.
///
/// # Errors
/// What makes the schema one that is not checked against.
fn guard(schema: &mut Value) -> Result<Cost, String> {
    let values = count_values(schema);
    let dialect = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    // Up to draft 7, what stands beside a `$ref` says nothing.
    let lone_refs =
        ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|draft| dialect.contains(draft));
    let mut seen = Seen::default();
    seen.survey(schema, false)?;
    if seen.patterns.len() > MAX_PATTERNS {
        return Err(format!("it has more than {MAX_PATTERNS} different patterns"));
    }
    let drop_unevaluated =
        seen.unevaluated > 0 && (seen.unevaluated > MAX_UNEVALUATED || seen.references > MAX_UNEVALUATED);
    rewrite(schema, false, lone_refs, drop_unevaluated)?;
    Ok(Cost {
        values,
        pattern_uses: seen.pattern_uses,
        patterns: seen.patterns.into_iter().collect(),
        references: seen.references > 0,
        lost_unevaluated: drop_unevaluated,
        branches: seen.branches,
    })
}

/// What a schema holds.
#[derive(Default)]
struct Seen {
    references: usize,
    unevaluated: usize,
    patterns: HashSet<String>,
    pattern_uses: usize,
    branches: bool,
}

impl Seen {
    /// Looks at every value that may be a schema. Depth is bounded by the parser.
    fn survey(&mut self, value: &Value, names_only: bool) -> Result<(), String> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.survey(item, false)),
            Value::Object(map) if names_only => map.values().try_for_each(|value| self.survey(value, false)),
            Value::Object(map) => map.iter().try_for_each(|(key, value)| self.member(key, value)),
            _ => Ok(()),
        }
    }

    fn member(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match (key, value) {
            ("enum" | "const", _) if holds_reference(value) => {
                return Err(format!("a reference inside \"{key}\" is not supported"));
            }
            ("enum" | "const", _) => return Ok(()),
            ("pattern", Value::String(pattern)) => {
                self.pattern_uses += 1;
                self.patterns.insert(pattern.clone());
            }
            ("patternProperties", Value::Object(map)) => {
                self.pattern_uses += map.len();
                self.patterns.extend(map.keys().cloned());
            }
            ("anyOf" | "oneOf", _) => self.branches = true,
            (key, Value::String(_)) if REFERENCES.contains(&key) => self.references += 1,
            (key, _) if UNEVALUATED.contains(&key) => self.unevaluated += 1,
            _ => {}
        }
        self.survey(value, MAPS.contains(&key))
    }
}

/// Such a value is no schema, but a reference elsewhere may make it one that was never guarded.
fn holds_reference(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(holds_reference),
        Value::Object(map) => {
            map.iter().any(|(key, value)| REFERENCES.contains(&key.as_str()) || holds_reference(value))
        }
        _ => false,
    }
}

fn rewrite(
    value: &mut Value,
    names_only: bool,
    lone_refs: bool,
    drop_unevaluated: bool,
) -> Result<(), String> {
    let map = match value {
        Value::Array(items) => {
            return items.iter_mut().try_for_each(|item| rewrite(item, false, lone_refs, drop_unevaluated));
        }
        Value::Object(map) => map,
        _ => return Ok(()),
    };
    if !names_only && drop_unevaluated {
        map.retain(|key, _| !UNEVALUATED.contains(&key.as_str()));
    }
    for (key, value) in map.iter_mut() {
        if names_only || !matches!(key.as_str(), "enum" | "const") {
            rewrite(value, !names_only && MAPS.contains(&key.as_str()), lone_refs, drop_unevaluated)?;
        }
    }
    if names_only { Ok(()) } else { guard_references(map, lone_refs) }
}

/// Moves the references of one schema to the end of its `allOf`, where pointers to what is there already stay right. Beside
/// each stands our keyword too: the validator would else merge what the reference leads to with its neighbours and come to it
/// before it comes to the keyword in front.
fn guard_references(map: &mut Map<String, Value>, lone_refs: bool) -> Result<(), String> {
    let keywords = if lone_refs { REFERENCES.get(..1) } else { REFERENCES.get(..) };
    let mut guarded = Vec::new();
    for &keyword in keywords.unwrap_or_default() {
        if map.get(keyword).is_some_and(Value::is_string)
            && let Some(target) = map.shift_remove(keyword)
        {
            guarded.push(json!({KEYWORD: true}));
            guarded.push(json!({"allOf": [{keyword: target}], KEYWORD: true}));
        }
    }
    if guarded.is_empty() {
        return Ok(());
    }
    if lone_refs {
        map.retain(|key, _| matches!(key.as_str(), "definitions" | "$defs" | "$schema"));
    }
    match map.entry("allOf").or_insert_with(|| json!([])) {
        Value::Array(branches) => branches.append(&mut guarded),
        _ => return Err("\"allOf\" is not an array".to_owned()),
    }
    Ok(())
}
