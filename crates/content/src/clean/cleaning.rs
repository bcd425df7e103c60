//! What cleaning is to do: made once from the configuration, and adapted to a call.

use std::sync::Arc;

use super::detect::{Categories, Category, CustomPatterns, RuleInfo, Severity, rule_label, rules};
use super::marks::{Marks, Origin, weight};
use super::scrub::Forwarded;
use super::strip::StripClasses;

/// What happens to secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Action {
    /// They are not looked for.
    #[default]
    Off,
    /// They are counted and left.
    Count,
    /// Each becomes `[REDACTED:<category>]`.
    Redact,
    /// A critical one stops the answer; the others are redacted.
    Block,
}

/// What cleaning is to do. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub struct Cleaning {
    action: Action,
    categories: Option<Categories>,
    custom: Arc<CustomPatterns>,
    marks: Marks,
    strip: StripClasses,
    forwarded: Arc<Forwarded>,
    refuse_unscanned: bool,
}

impl Cleaning {
    /// Nothing: the answer is not read again.
    #[must_use]
    pub fn off() -> Cleaning {
        Cleaning::default()
    }

    /// Looks for secrets of some categories and for patterns of the configuration.
    #[must_use]
    pub fn new(action: Action, categories: Categories, custom: Arc<CustomPatterns>) -> Cleaning {
        let mark =
            |category: &str, origin: Origin, weight: u8| (format!("[REDACTED:{category}]"), origin, weight);
        let table = rules().enumerate().map(|(index, rule)| {
            mark(rule.category.as_str(), Origin::Rule(index), weight(rule.severity, is_generic(&rule)))
        });
        let own = custom.list().iter().enumerate().map(|(index, pattern)| {
            mark(pattern.category(), Origin::Custom(index), weight(pattern.severity(), false))
        });
        let marks = Marks::shared(table.chain(own));
        Cleaning { action, categories: Some(categories), custom, marks, ..Cleaning::default() }
    }

    /// Also strips characters of these classes.
    #[must_use]
    pub fn strip(self, strip: StripClasses) -> Cleaning {
        Cleaning { strip, ..self }
    }

    /// Also replaces the values of these headers by `[forwarded:<Name>]`.
    #[must_use]
    pub fn scrub(self, forwarded: Arc<Forwarded>) -> Cleaning {
        Cleaning { forwarded, ..self }
    }

    /// When blocking, also stops an answer of which not all was looked into.
    #[must_use]
    pub fn refuse_unscanned(self, refuse_unscanned: bool) -> Cleaning {
        Cleaning { refuse_unscanned, ..self }
    }

    /// True if nothing is to be done.
    #[must_use]
    pub fn is_off(&self) -> bool {
        !self.looks() && self.strip.is_empty()
    }

    /// True if views are to be looked at.
    pub(crate) fn looks(&self) -> bool {
        self.action != Action::Off || !self.forwarded.is_empty()
    }

    pub(crate) fn action(&self) -> Action {
        self.action
    }

    pub(crate) fn refuses_unscanned(&self) -> bool {
        self.refuse_unscanned && self.action == Action::Block
    }

    pub(crate) fn categories(&self) -> Categories {
        self.categories.unwrap_or(Categories::NONE)
    }

    pub(crate) fn custom(&self) -> &CustomPatterns {
        &self.custom
    }

    pub(crate) fn strip_classes(&self) -> StripClasses {
        self.strip
    }

    pub(crate) fn forwarded(&self) -> &Forwarded {
        &self.forwarded
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The mark of a rule. The first mark is for what is stripped.
    pub(crate) fn rule_mark(&self, rule: usize) -> u32 {
        u32::try_from(rule + 1).unwrap_or(0)
    }

    /// The mark of a pattern of the configuration.
    pub(crate) fn custom_mark(&self, pattern: usize) -> u32 {
        u32::try_from(rules().len() + 1 + pattern).unwrap_or(0)
    }

    /// Category and severity of a secret.
    pub(crate) fn label(&self, origin: Origin) -> Option<(&str, Severity)> {
        match origin {
            Origin::Rule(rule) => rule_label(rule).map(|(category, severity)| (category.as_str(), severity)),
            Origin::Custom(index) => {
                self.custom.list().get(index).map(|pattern| (pattern.category(), pattern.severity()))
            }
            Origin::Strip | Origin::Forwarded(_) => None,
        }
    }

    /// What kind of secret it is: the name of the rule or of the pattern.
    pub(crate) fn kind(&self, origin: Origin) -> Option<&str> {
        match origin {
            Origin::Rule(rule) => rules().nth(rule).map(|rule| rule.name),
            Origin::Custom(index) => self.custom.list().get(index).map(|pattern| pattern.name()),
            Origin::Strip | Origin::Forwarded(_) => None,
        }
    }
}

/// True for a rule that goes by the name of a value: one that knows the value tells more.
fn is_generic(rule: &RuleInfo) -> bool {
    rule.name.ends_with("_assignment")
}

/// Categories as the configuration gives them: a name and whether it is wanted.
impl<'a> FromIterator<(&'a str, bool)> for Categories {
    /// Every category but those that are switched off; names of others are passed over.
    fn from_iter<I: IntoIterator<Item = (&'a str, bool)>>(names: I) -> Categories {
        names.into_iter().fold(Categories::ALL, |all, (name, wanted)| match Category::from_name(name) {
            Some(category) if wanted => all.with(category),
            Some(category) => all.without(category),
            None => all,
        })
    }
}
