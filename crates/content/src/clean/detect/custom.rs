//! Patterns of the configuration: compiled with bounds, refused with a reason.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memchr;
use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::super::view::{EDGE, View};
use super::rules::Severity;

/// The most patterns.
pub const MAX_PATTERNS: usize = 100;
/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;
/// The most words of one pattern.
const MAX_WORDS: usize = 1000;
/// The most memory, in bytes, that one pattern may be compiled to.
const MAX_COMPILED: usize = 1 << 20;

/// A pattern of the configuration. It is searched for in each string on its own: `^` and `$` are the ends of the string.
#[derive(Debug)]
pub struct CustomPattern {
    name: String,
    category: String,
    severity: Severity,
    search: Search,
}

#[derive(Debug)]
enum Search {
    Regex(Box<Regex>),
    Words(AhoCorasick),
}

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern \"{name}\" {reason}")]
pub struct PatternError {
    /// The name of the pattern.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The patterns of a configuration.
#[derive(Debug, Default)]
pub struct CustomPatterns(Vec<CustomPattern>);

impl CustomPattern {
    /// A pattern by regular expression, in the syntax of the Rust crate `regex`. A match is at most 64 KiB long: a longer one is
    /// cut there.
    ///
    /// # Errors
    /// If it is wrong, too long, too large when compiled, or can match no text at all.
    pub fn regex(
        name: &str,
        category: &str,
        severity: Severity,
        pattern: &str,
    ) -> Result<CustomPattern, PatternError> {
        let fail = |reason: String| PatternError { name: name.to_owned(), reason };
        let category = checked_category(category).map_err(fail)?;
        if pattern.is_empty() {
            return Err(fail(
                "is empty, so it would match everywhere; give it a regular expression".to_owned(),
            ));
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(fail(format!("is longer than {MAX_PATTERN_BYTES} bytes")));
        }
        let regex = compile(pattern).map_err(fail)?;
        Ok(CustomPattern {
            name: name.to_owned(),
            category,
            severity,
            search: Search::Regex(Box::new(regex)),
        })
    }

    /// A pattern by words, found wherever they stand, in capitals or not.
    ///
    /// # Errors
    /// If there are none, too many, or one is empty.
    pub fn words(
        name: &str,
        category: &str,
        severity: Severity,
        words: &[String],
    ) -> Result<CustomPattern, PatternError> {
        let fail = |reason: String| PatternError { name: name.to_owned(), reason };
        let category = checked_category(category).map_err(fail)?;
        if words.is_empty() || words.iter().any(|word| word.trim().is_empty()) {
            return Err(fail("has no words, or an empty one, which would match everywhere".to_owned()));
        }
        if words.len() > MAX_WORDS || words.iter().any(|word| word.len() > MAX_PATTERN_BYTES) {
            return Err(fail(format!(
                "has more than {MAX_WORDS} words, or one longer than {MAX_PATTERN_BYTES} bytes"
            )));
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .build(words)
            .map_err(|error| fail(format!("cannot be compiled: {error}")))?;
        Ok(CustomPattern { name: name.to_owned(), category, severity, search: Search::Words(search) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn category(&self) -> &str {
        &self.category
    }

    pub(crate) fn severity(&self) -> Severity {
        self.severity
    }

    fn find(&self, text: &[u8], range: Range<usize>) -> Option<Range<usize>> {
        match &self.search {
            Search::Regex(regex) => regex.search(&Input::new(text).range(range)).map(|found| found.range()),
            Search::Words(words) => {
                words.find(aho_corasick::Input::new(text).range(range)).map(|found| found.range())
            }
        }
    }
}

impl CustomPatterns {
    /// # Errors
    /// If there are more than [`MAX_PATTERNS`].
    pub fn new(patterns: Vec<CustomPattern>) -> Result<CustomPatterns, PatternError> {
        match patterns.get(MAX_PATTERNS) {
            None => Ok(CustomPatterns(patterns)),
            Some(pattern) => Err(PatternError {
                name: pattern.name.clone(),
                reason: format!("is one too many: there may be {MAX_PATTERNS}"),
            }),
        }
    }

    pub(crate) fn list(&self) -> &[CustomPattern] {
        &self.0
    }

    /// Reports each match that begins in `range` with the place of its pattern. `inside`: the view begins inside a string.
    pub(crate) fn scan(
        &self,
        view: &View,
        inside: bool,
        range: Range<usize>,
        work: &mut u64,
        found: &mut impl FnMut(Range<usize>, usize),
    ) {
        if self.0.is_empty() {
            return;
        }
        let (mut at, mut literal) = (0, inside);
        while let Some(rest) = view.text().get(at..).filter(|_| at < range.end) {
            let end = at + memchr(EDGE, rest).unwrap_or(rest.len());
            if literal && end > range.start && end > at {
                let piece = view.text().get(at..end).unwrap_or_default();
                let here = range.start.saturating_sub(at)..range.end - at;
                for (index, pattern) in self.0.iter().enumerate() {
                    *work += piece.len() as u64;
                    matches(pattern, piece, here.clone(), &mut |range| {
                        found(at + range.start..at + range.end, index);
                    });
                }
            }
            at = end + 1;
            literal = !literal;
        }
    }
}

/// Searches in steps, so that a match without an end is not looked for again and again over the whole text.
fn matches(pattern: &CustomPattern, text: &[u8], range: Range<usize>, found: &mut impl FnMut(Range<usize>)) {
    let (mut at, limit) = (range.start, range.end);
    while at < limit.min(text.len()) {
        let end = (at + 2 * super::LONGEST).min(text.len());
        match pattern.find(text, at..end) {
            Some(range) => {
                let stop = range.end.min(range.start + super::LONGEST);
                if range.start >= limit {
                    return;
                }
                found(range.start..stop);
                at = stop.max(at + 1);
            }
            None if end == text.len() => return,
            None => at += super::LONGEST,
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let syntax = syntax::Config::new().utf8(false).nest_limit(64);
    let hir = syntax::parse_with(pattern, &syntax)
        .map_err(|error| format!("is no regular expression: {}", one_line(&error.to_string())))?;
    match hir.properties().minimum_len() {
        Some(0) => return Err("can match the empty text, so it would match everywhere".to_owned()),
        None => return Err("can never match".to_owned()),
        Some(_) => {}
    }
    let config = Regex::config()
        .utf8_empty(false)
        .nfa_size_limit(Some(MAX_COMPILED))
        .onepass_size_limit(Some(MAX_COMPILED))
        .dfa_size_limit(Some(MAX_COMPILED))
        .hybrid_cache_capacity(MAX_COMPILED);
    Regex::builder().configure(config).build_from_hir(&hir).map_err(|_| {
        format!("is too large when compiled: more than {MAX_COMPILED} bytes; make its repetitions smaller")
    })
}

/// What stands in the mark must need no escape, and not be a way to write into the text.
fn checked_category(category: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if (1..=64).contains(&category.len()) && category.bytes().all(fits) {
        return Ok(category.to_owned());
    }
    Err("has a category that is not 1 to 64 letters, digits, \"_\", \"-\" or \".\"".to_owned())
}

/// Errors of the parser draw pictures over several lines.
fn one_line(text: &str) -> String {
    text.lines().last().unwrap_or(text).trim().trim_start_matches("error: ").chars().take(200).collect()
}
