//! What matching the patterns of a schema costs, told before they are matched: a match cannot be interrupted.

use regex_automata::dfa::dense;
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::syntax;

/// Units of work for 16 bytes matched by a pattern that becomes a small automaton: about a nanosecond a byte, and looking
/// at the string.
const TAME: u64 = 3;
/// The same for each state of a pattern that does not: five nanoseconds a byte.
const FOR_EACH_STATE: u64 = 8;
/// A pattern that cannot be looked into counts as one with so many states.
const MOST_STATES: u64 = 2000;
/// Sizes of automata that stay small, in bytes.
const MAX_AUTOMATON: usize = 128 * 1024;
const MAX_STATES_MEMORY: usize = 512 * 1024;

/// What reading 16 bytes of a string costs where any of these patterns may be matched against it, in units of work.
pub(super) fn of_strings(patterns: &[String]) -> u64 {
    patterns.iter().map(|pattern| of_pattern(pattern)).max().unwrap_or(1)
}

fn of_pattern(pattern: &str) -> u64 {
    if is_tame(pattern, false) || is_tame(pattern, true) {
        return TAME;
    }
    let config = thompson::Config::new().nfa_size_limit(Some(MAX_STATES_MEMORY));
    let states =
        thompson::Compiler::new().configure(config).build(pattern).map(|nfa: NFA| nfa.states().len());
    states.map_or(MOST_STATES, |states| states as u64).saturating_mul(FOR_EACH_STATE)
}

/// The pattern becomes a small automaton that takes one step for each byte.
fn is_tame(pattern: &str, unicode: bool) -> bool {
    let size = dense::Config::new()
        .dfa_size_limit(Some(MAX_AUTOMATON))
        .determinize_size_limit(Some(MAX_STATES_MEMORY))
        .accelerate(false);
    let syntax = syntax::Config::new().unicode(unicode).utf8(unicode);
    let nfa = thompson::Config::new().utf8(unicode).nfa_size_limit(Some(MAX_STATES_MEMORY));
    dense::Builder::new().configure(size).syntax(syntax).thompson(nfa).build(pattern).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_daily_life_are_cheap_and_those_that_explode_are_not() {
        for tame in [
            "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
            "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
            "^[A-Za-z0-9_-]{1,64}$",
            r"^https?://[^\s/]+(/.*)?$",
            "^[a-z0-9]+(-[a-z0-9]+)*$",
        ] {
            assert_eq!(of_pattern(tame), TAME, "{tame}");
        }
        for wild in ["(a|b)*a(a|b){20}", "(a?){500}a{500}", r"(\w+\s*){40}x"] {
            assert!(of_pattern(wild) > 20 * TAME, "{wild}: {}", of_pattern(wild));
        }
        assert_eq!(of_strings(&[]), 1);
        assert_eq!(of_pattern("(?=a)"), MOST_STATES * FOR_EACH_STATE);
    }
}
