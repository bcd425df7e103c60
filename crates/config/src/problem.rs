//! What is wrong with a configuration: where, what, and how to mend it.

use std::fmt;

/// One thing that is wrong, or that a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: a JSON path such as `$.mcpServers[2].url`, or the name of a flag, a variable or a file.
    pub path: String,
    /// What is wrong, without the path.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl Problem {
    /// Makes a problem of its three parts.
    pub fn new(path: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), fix: fix.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = format!("{}: {}; {}", self.path, self.message, self.fix);
        // One line whatever a file holds: messages quote what a person wrote.
        line.chars().try_for_each(|c| if c.is_control() { write!(out, " ") } else { write!(out, "{c}") })
    }
}

impl std::error::Error for Problem {}

/// How many problems, and how many warnings, are kept; a file can hold far more than anyone reads.
const MOST: usize = 100;

/// Problems and warnings as they are found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    misnamed: Vec<Problem>,
    more_problems: usize,
    more_warnings: usize,
}

impl Findings {
    /// Adds something that ends the start.
    pub(crate) fn problem(&mut self, problem: Problem) {
        if self.problems.len() < MOST { self.problems.push(problem) } else { self.more_problems += 1 }
    }

    /// Adds something that is only told.
    pub(crate) fn warn(&mut self, problem: Problem) {
        if self.warnings.len() < MOST { self.warnings.push(problem) } else { self.more_warnings += 1 }
    }

    /// Adds a name that is not known. It ends no start, but where one is ended it may be the reason: a wrong name is also
    /// a missing one.
    pub(crate) fn misnamed(&mut self, problem: Problem) {
        if self.misnamed.len() < MOST {
            self.misnamed.push(problem.clone());
        }
        self.warn(problem);
    }

    /// The warnings if nothing is wrong, else every problem, then the names that may be the reason.
    pub(crate) fn into_result(mut self) -> Result<Vec<Problem>, Vec<Problem>> {
        if self.problems.is_empty() {
            self.warnings.extend(rest(self.more_warnings, "warning"));
            return Ok(self.warnings);
        }
        self.problems.extend(rest(self.more_problems, "problem"));
        self.problems.extend(self.misnamed);
        Err(self.problems)
    }
}

fn rest(count: usize, what: &str) -> Option<Problem> {
    (count > 0).then(|| {
        Problem::new(
            "$",
            format!("{count} more {what}s are not shown"),
            "mend those that are shown, then load again",
        )
    })
}

/// The JSON path of a member of the object at `base`.
pub(crate) fn member(base: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain { format!("{base}.{key}") } else { format!("{base}[{}]", quoted(key)) }
}

/// The JSON path of an element of the array at `base`.
pub(crate) fn element(base: &str, index: usize) -> String {
    format!("{base}[{index}]")
}

/// Text of a person in a message: in quotes, escaped, at most 60 characters.
pub(crate) fn quoted(text: &str) -> String {
    const MOST_CHARACTERS: usize = 60;
    let short: String = text.chars().take(MOST_CHARACTERS).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("\"{}{dots}\"", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line() {
        let problem = Problem::new("$.a", "has a\nline break", "take\tit out");
        assert_eq!(problem.to_string(), "$.a: has a line break; take it out");
    }

    #[test]
    fn paths_quote_odd_names() {
        assert_eq!(member("$", "listen"), "$.listen");
        assert_eq!(member("$.m", "a b\""), "$.m[\"a b\\\"\"]");
        assert_eq!(element(&member("$", "m"), 3), "$.m[3]");
        assert!(quoted(&"x".repeat(500)).len() < 80);
    }

    #[test]
    fn findings_are_bounded() {
        let mut findings = Findings::default();
        for i in 0..1_000 {
            findings.problem(Problem::new(format!("$[{i}]"), "wrong", "mend"));
        }
        let problems = findings.into_result().unwrap_err();
        assert_eq!(problems.len(), MOST + 1);
        assert!(problems[MOST].message.contains("900 more"));
    }
}
