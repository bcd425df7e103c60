//! Finding secrets in a view: keywords first, in one pass, then rules around the places where one stands.

mod cards;
mod check;
mod custom;
mod keys;
mod named;
mod randomness;
mod rules;
mod rules_api;
mod rules_auth;
mod rules_cloud;
mod urls;

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex_automata::meta::Regex;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input as RegexInput};

pub use custom::{CustomPattern, CustomPatterns, PatternError};
pub(crate) use rules::rule_label;
pub use rules::{Categories, Category, RuleInfo, Severity, rules};

use super::view::View;
use super::words::Words;
pub(crate) use check::{STANDARD, URL_SAFE};
use rules::{Find, RULES, Rule};

/// The longest match of any rule, in bytes: what a window must show beyond the place where a match may begin.
pub(crate) const LONGEST: usize = 64 * 1024;

/// Keywords in one automaton: its quick search takes at most 64, and is quicker with fewer.
const GROUP: usize = 48;

/// The compiled table.
struct Engine {
    groups: Vec<Group>,
    without_keyword: Vec<usize>,
    patterns: Vec<OnceLock<Option<Regex>>>,
}

struct Group {
    keywords: Words,
    longest: usize,
    /// For each keyword the rules that it calls, by their places in the table.
    rules: Vec<Vec<usize>>,
}

static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::new);

/// Looks for secrets in one view.
pub(crate) struct Scan<'a> {
    pub(crate) view: &'a View,
    /// Only matches whose keyword begins here are reported.
    pub(crate) range: Range<usize>,
    pub(crate) wanted: Categories,
    /// Grows by the bytes given to matchers.
    pub(crate) work: &'a mut u64,
}

impl Scan<'_> {
    /// Reports each secret with the place of its rule in the table.
    pub(crate) fn run(&mut self, found: &mut impl FnMut(Range<usize>, usize)) {
        for group in &ENGINE.groups {
            self.keywords(group, found);
        }
        if self.wanted.has(Category::CreditCard) {
            *self.work += self.range.len() as u64;
            cards::scan(self.view, self.range.clone(), &mut |card| found(card, rules::card()));
        }
    }

    /// Reports what a rule without a keyword finds right at the start.
    pub(crate) fn run_start(&mut self, found: &mut impl FnMut(Range<usize>, usize)) {
        for &rule in &ENGINE.without_keyword {
            self.rule(rule, self.range.start, found);
        }
    }

    fn keywords(&mut self, group: &Group, found: &mut impl FnMut(Range<usize>, usize)) {
        let text = self.view.text();
        let end = (self.range.end + group.longest).min(text.len());
        let mut from = self.range.start;
        *self.work += end.saturating_sub(from) as u64;
        while from < end
            && let Some((hit, keyword)) = group.keywords.find(text, from..end)
        {
            if hit.start >= self.range.end {
                return;
            }
            from = hit.start + 1;
            for &rule in group.rules.get(keyword).map_or(&[][..], Vec::as_slice) {
                self.rule(rule, hit.start, found);
            }
        }
    }

    fn rule(&mut self, index: usize, keyword: usize, found: &mut impl FnMut(Range<usize>, usize)) {
        let Some(rule) = RULES.get(index).copied().filter(|rule| self.wanted.has(rule.category)) else {
            return;
        };
        let text = self.view.text();
        let secret = match rule.find {
            Find::Key => keys::find(text, keyword, self.work),
            Find::Pattern(_) => self.pattern(index, rule, keyword),
            Find::Named { tails, shortest } => named::find(text, keyword, tails, shortest, self.work)
                .filter(|secret| rule.passes(text, keyword, secret)),
            Find::Url { alone } => urls::find(text, keyword, alone, self.work)
                .filter(|secret| rule.passes(text, keyword, secret)),
            Find::Digits => None,
        };
        if let Some(secret) = secret {
            found(secret, index);
        }
    }

    fn pattern(&mut self, index: usize, rule: &Rule, keyword: usize) -> Option<Range<usize>> {
        let text = self.view.text();
        let start = keyword.checked_sub(rule.back)?;
        if !text.get(start..)?.starts_with(rule.begins.as_bytes()) {
            return None;
        }
        if !self.view.gap_before(start) && rule.edge.touches(text.get(..start)?.last()) {
            return None;
        }
        let pattern = ENGINE.pattern(index, rule)?;
        let end = (start + rule.longest).min(text.len());
        *self.work += (end - start) as u64;
        let mut slots: [Option<NonMaxUsize>; 12] = [None; 12];
        let input = RegexInput::new(text).range(start..end).anchored(Anchored::Yes);
        pattern.search_slots(&input, &mut slots)?;
        let whole = range(&slots, 0)?;
        let secret = (1..6).find_map(|group| range(&slots, group)).unwrap_or(whole.clone());
        if !self.view.gap_before(whole.end) && rule.edge.touches(text.get(whole.end)) {
            return None;
        }
        rule.passes(text, start, &secret).then_some(secret)
    }
}

impl Engine {
    fn new() -> Engine {
        let mut called: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, rule) in RULES.iter().enumerate() {
            for &keyword in rule.keywords {
                match called.iter_mut().find(|(known, _)| *known == keyword) {
                    Some((_, rules)) => rules.push(index),
                    None => called.push((keyword, vec![index])),
                }
            }
        }
        let groups = called.chunks(GROUP).filter_map(Group::new).collect();
        let is_alone = |rule: &Rule| rule.keywords.is_empty() && matches!(rule.find, Find::Pattern(_));
        let without_keyword =
            RULES.iter().enumerate().filter(|(_, rule)| is_alone(rule)).map(|(index, _)| index);
        Engine {
            groups,
            without_keyword: without_keyword.collect(),
            patterns: RULES.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// The pattern of a rule, compiled when it is needed first.
    fn pattern(&self, index: usize, rule: &Rule) -> Option<&Regex> {
        let Find::Pattern(pattern) = rule.find else { return None };
        self.patterns.get(index)?.get_or_init(|| compile(pattern)).as_ref()
    }
}

impl Group {
    fn new(called: &[(&str, Vec<usize>)]) -> Option<Group> {
        let keywords = Words::new(&called.iter().map(|(keyword, _)| *keyword).collect::<Vec<_>>())?;
        let longest = called.iter().map(|(keyword, _)| keyword.len()).max()?;
        Some(Group { keywords, longest, rules: called.iter().map(|(_, rules)| rules.clone()).collect() })
    }
}

/// Compiles a pattern of the table. It works on bytes; a test compiles them all.
fn compile(pattern: &str) -> Option<Regex> {
    Regex::builder()
        .configure(Regex::config().utf8_empty(false).hybrid_cache_capacity(256 * 1024))
        .syntax(regex_automata::util::syntax::Config::new().unicode(false).utf8(false))
        .build(pattern)
        .ok()
}

fn range(slots: &[Option<NonMaxUsize>], group: usize) -> Option<Range<usize>> {
    let start = (*slots.get(2 * group)?)?.get();
    Some(start..(*slots.get(2 * group + 1)?)?.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_and_every_keyword_is_compiled() {
        let mut keywords: Vec<&str> = RULES.iter().flat_map(|rule| rule.keywords.iter().copied()).collect();
        keywords.sort_unstable();
        keywords.dedup();
        assert!(keywords.len() > 50);
        assert!(keywords.iter().all(|keyword| keyword.len() >= 3), "shorter ones make the search slow");
        for (at, keyword) in keywords.iter().enumerate() {
            // The leftmost search would report only one of two that begin at the same byte.
            let longer = keywords.iter().skip(at + 1).find(|other| other.starts_with(keyword));
            assert_eq!(longer, None, "{keyword} hides it");
        }
        assert_eq!(ENGINE.groups.iter().map(|group| group.rules.len()).sum::<usize>(), keywords.len());
        for (index, rule) in RULES.iter().enumerate() {
            assert!(rule.longest <= LONGEST, "{}", rule.name);
            if let Find::Pattern(pattern) = rule.find {
                assert!(ENGINE.pattern(index, rule).is_some(), "{}: {pattern}", rule.name);
            }
        }
    }
}
