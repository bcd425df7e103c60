//! The configuration from the outside: files in, settings, warnings and problems out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![allow(clippy::needless_pass_by_value, reason = "cases read better as literals")]

mod changes;
mod describing;
#[cfg(unix)]
mod editing;
mod keys;
#[cfg(unix)]
mod loading;
mod servers;
mod values;
#[cfg(unix)]
mod watching;

use config::{Config, Document, Overrides, Problem, Sources, Variables};

/// Sources with a home directory and nothing else.
pub fn sources() -> Sources {
    with_variables(&[])
}

/// Sources with a home directory and some variables.
pub fn with_variables(pairs: &[(&str, &str)]) -> Sources {
    let variables: Variables = pairs.iter().copied().chain([("HOME", "/home/somebody")]).collect();
    Sources::new(Overrides::default(), variables).unwrap()
}

/// What a file of this text means.
pub fn check(text: &str) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    config::check(&Document::parse(text)?, &sources())
}

/// The settings of a file that is in order.
pub fn good(text: &str) -> Config {
    match check(text) {
        Ok((config, _)) => config,
        Err(problems) => panic!("{text}: {}", lines(&problems)),
    }
}

/// The warnings of a file that is in order.
pub fn warned(text: &str) -> Vec<Problem> {
    match check(text) {
        Ok((_, warnings)) => warnings,
        Err(problems) => panic!("{text}: {}", lines(&problems)),
    }
}

/// The problems of a file that is not in order.
pub fn bad(text: &str) -> Vec<Problem> {
    match check(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(problems) => problems,
    }
}

/// The one problem of a file.
pub fn only_problem(text: &str) -> Problem {
    let mut problems = bad(text);
    assert_eq!(problems.len(), 1, "{text}: {}", lines(&problems));
    problems.remove(0)
}

pub fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
