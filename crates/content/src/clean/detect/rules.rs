//! The table of rules: what a secret looks like, and what it is called.

use std::ops::Range;

use super::check::Context;
use super::{rules_api, rules_auth, rules_cloud};

/// What kind of secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Keys of cloud accounts.
    CloudCredentials,
    /// Private keys, whole.
    PrivateKey,
    /// Keys and tokens of services.
    ApiToken,
    /// Passwords, bearer tokens, signed tokens.
    AuthToken,
    /// Passwords of databases.
    DatabaseCredential,
    /// Numbers of payment cards.
    CreditCard,
    /// What a pattern of the configuration finds.
    Custom,
}

/// A set of categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Categories(u16);

/// How much harm it does when a secret gets out. Only what is critical blocks an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Told, hardly harmful.
    Low,
    /// Test keys and the like.
    Medium,
    /// Opens one service, or for a while.
    High,
    /// Opens an account, a repository or a machine.
    Critical,
}

/// A rule as the documentation shows it.
#[derive(Debug, Clone, Copy)]
pub struct RuleInfo {
    /// The name of the kind of secret.
    pub name: &'static str,
    /// Its category, which stands in the text instead of it.
    pub category: Category,
    /// Its severity.
    pub severity: Severity,
    /// The longest match, in bytes.
    pub longest: usize,
    /// A text that the rule finds something in. `{A36}` stands for 36 random letters and digits, `{H40}` for hexadecimal digits,
    /// `{U16}` for capitals and digits, `{B40}` and `{W40}` for base64 of either alphabet, `{D9}` for digits, so that no secret
    /// stands in this program.
    pub example: &'static str,
    /// A text that looks like it, in which the rule finds nothing.
    pub counterexample: &'static str,
}

/// One line of the table.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) category: Category,
    pub(crate) severity: Severity,
    pub(crate) keywords: &'static [&'static str],
    pub(crate) find: Find,
    /// What a match of a pattern without a keyword begins with.
    pub(crate) begins: &'static str,
    /// How many bytes before its keyword a match begins.
    pub(crate) back: usize,
    /// The longest match, in bytes.
    pub(crate) longest: usize,
    pub(crate) edge: Edge,
    pub(crate) check: fn(&Context<'_>) -> bool,
    pub(crate) example: &'static str,
    pub(crate) counterexample: &'static str,
}

/// How the secret is found once a keyword is.
#[derive(Clone, Copy)]
pub(crate) enum Find {
    /// A pattern that begins at the keyword, or `back` bytes before it. The secret is its first group that takes part, else all.
    Pattern(&'static str),
    /// A private key, from its first line to its last.
    Key,
    /// The value of a name that from its keyword on is one of `tails`, in lower case and without separators.
    Named {
        /// The ends of names.
        tails: &'static [&'static str],
        /// The shortest value, in bytes.
        shortest: usize,
    },
    /// The password in a URL, or what stands alone in its place.
    Url {
        /// What stands alone.
        alone: bool,
    },
    /// Runs of digits, without a keyword.
    Digits,
}

/// What may not stand right before or after a match, because it would be a part of something longer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Anything may.
    Any,
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `_`, `-`.
    Word,
    /// Letters, digits, `_`, `-`, `.`.
    Dotted,
}

impl Edge {
    pub(crate) fn touches(self, byte: Option<&u8>) -> bool {
        let Some(&byte) = byte else { return false };
        match self {
            Edge::Any => false,
            Edge::Alnum => byte.is_ascii_alphanumeric(),
            Edge::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Edge::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        }
    }
}

const TABLES: [&[Rule]; 4] = [rules_cloud::RULES, rules_api::RULES, rules_auth::RULES, &[CARD]];

/// Every rule. Its place here is its number.
pub(crate) static RULES: std::sync::LazyLock<Vec<&'static Rule>> =
    std::sync::LazyLock::new(|| TABLES.iter().flat_map(|table| table.iter()).collect());

const CARD: Rule = Rule::new("credit_card", Category::CreditCard, Severity::High, &[], "")
    .finds(Find::Digits)
    .longest(32)
    .examples("paid with {CARD} today", "order 4111 1111 1111 1112 today");

/// The number of the rule for cards.
pub(crate) fn card() -> usize {
    RULES.len() - 1
}

/// Every rule, for the documentation.
pub fn rules() -> impl ExactSizeIterator<Item = RuleInfo> {
    RULES.iter().map(|rule| RuleInfo {
        name: rule.name,
        category: rule.category,
        severity: rule.severity,
        longest: rule.longest,
        example: rule.example,
        counterexample: rule.counterexample,
    })
}

/// Category and severity of a rule.
pub(crate) fn rule_label(rule: usize) -> Option<(Category, Severity)> {
    RULES.get(rule).map(|rule| (rule.category, rule.severity))
}

impl Rule {
    pub(crate) const fn new(
        name: &'static str,
        category: Category,
        severity: Severity,
        keywords: &'static [&'static str],
        pattern: &'static str,
    ) -> Rule {
        Rule {
            name,
            category,
            severity,
            keywords,
            find: Find::Pattern(pattern),
            begins: "",
            back: 0,
            longest: 512,
            edge: Edge::Word,
            check: super::check::always,
            example: "",
            counterexample: "",
        }
    }

    pub(crate) const fn finds(self, find: Find) -> Rule {
        Rule { find, ..self }
    }

    pub(crate) const fn begins(self, begins: &'static str) -> Rule {
        Rule { begins, ..self }
    }

    pub(crate) const fn back(self, back: usize) -> Rule {
        Rule { back, ..self }
    }

    pub(crate) const fn longest(self, longest: usize) -> Rule {
        Rule { longest, ..self }
    }

    pub(crate) const fn edge(self, edge: Edge) -> Rule {
        Rule { edge, ..self }
    }

    pub(crate) const fn check(self, check: fn(&Context<'_>) -> bool) -> Rule {
        Rule { check, ..self }
    }

    pub(crate) const fn examples(self, example: &'static str, counterexample: &'static str) -> Rule {
        Rule { example, counterexample, ..self }
    }
}

impl Rule {
    /// Asks the check of the rule.
    pub(crate) fn passes(&self, text: &[u8], start: usize, secret: &Range<usize>) -> bool {
        (self.check)(&Context { text, start, secret: secret.clone() })
    }
}

impl Category {
    /// Every category.
    pub const ALL: [Category; 7] = [
        Category::CloudCredentials,
        Category::PrivateKey,
        Category::ApiToken,
        Category::AuthToken,
        Category::DatabaseCredential,
        Category::CreditCard,
        Category::Custom,
    ];

    /// The category as the configuration and the marks name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Category::CloudCredentials => "cloud_credentials",
            Category::PrivateKey => "private_key",
            Category::ApiToken => "api_token",
            Category::AuthToken => "auth_token",
            Category::DatabaseCredential => "database_credential",
            Category::CreditCard => "credit_card",
            Category::Custom => "custom",
        }
    }

    /// The category of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Category> {
        Category::ALL.into_iter().find(|category| category.as_str() == name)
    }
}

impl Categories {
    /// No category.
    pub const NONE: Categories = Categories(0);
    /// Every category.
    pub const ALL: Categories = Categories(0xffff);

    /// With one more.
    #[must_use]
    pub fn with(self, category: Category) -> Categories {
        Categories(self.0 | 1 << category as u16)
    }

    /// With one less.
    #[must_use]
    pub fn without(self, category: Category) -> Categories {
        Categories(self.0 & !(1 << category as u16))
    }

    /// True if the category is one of them.
    #[must_use]
    pub fn has(self, category: Category) -> bool {
        self.0 & (1 << category as u16) != 0
    }
}

impl Severity {
    /// The severity as records name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
            Severity::Critical => "critical",
        }
    }

    /// The severity of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Severity> {
        [Severity::Low, Severity::Medium, Severity::High, Severity::Critical]
            .into_iter()
            .find(|severity| severity.as_str() == name)
    }
}
