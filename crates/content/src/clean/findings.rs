//! What cleaning tells about an answer, without telling any of it.

use std::io;

use super::cleaning::Cleaning;
use super::detect::Severity;
use super::edits::Cut;
use super::marks::Origin;
use super::pass::MAX_EDITS;

/// What was found in an answer.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// The kinds of secrets, in the order in which they occur first.
    pub secrets: Vec<Finding>,
    /// Pieces that were stripped.
    pub stripped: u64,
    /// Values of forwarded headers that were replaced.
    pub scrubbed: u64,
    /// Raw bytes that were not looked into: base64 data that is no text.
    pub unscanned_bytes: u64,
    /// Bytes given to matchers in all views together: what the work grows with.
    pub work: u64,
}

/// Secrets of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the rule or pattern.
    pub kind: String,
    /// What stands in the mark.
    pub category: String,
    /// How bad it is.
    pub severity: Severity,
    /// How many.
    pub count: u64,
    /// Where the first one lies: a JSON pointer to its block or part. No key of the upstream is in it.
    pub place: String,
}

/// Why an answer must not be passed on. Nothing of the answer is in it.
#[derive(Debug, thiserror::Error)]
pub enum Blocked {
    /// A critical secret, and secrets block.
    #[error(
        "tool output blocked by sanitisation policy: critical sensitive data ({category}) detected in tool output at {place}"
    )]
    Secret {
        /// The category.
        category: String,
        /// A JSON pointer to the block or part.
        place: String,
    },
    /// Not all was looked into, and that blocks.
    #[error("tool output blocked by sanitisation policy: {bytes} bytes of binary data cannot be looked into")]
    Unscanned {
        /// Raw bytes.
        bytes: u64,
    },
    /// More places than can be changed.
    #[error("the tool output has more than {MAX_EDITS} places to clean")]
    TooMuch,
    /// What was to be cleaned is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(#[from] jsonspan::SyntaxError),
    /// The call was cancelled meanwhile.
    #[error("the call was cancelled")]
    Cancelled,
    /// The spool could not be read.
    #[error("the tool output could not be read back: {0}")]
    Io(#[source] io::Error),
}

impl Findings {
    /// Counts one merged cut.
    pub(crate) fn add(
        &mut self,
        cut: Cut,
        origin: Origin,
        cleaning: &Cleaning,
        place: &dyn Fn(u64) -> String,
    ) {
        let Some((category, severity)) = cleaning.label(origin) else {
            match origin {
                Origin::Strip => self.stripped += 1,
                _ => self.scrubbed += 1,
            }
            return;
        };
        let kind = cleaning.kind(origin).unwrap_or_default();
        let known = self.secrets.iter_mut().find(|known| known.kind == kind && known.category == category);
        if let Some(known) = known {
            known.count += 1;
            return;
        }
        let (kind, category) = (kind.to_owned(), category.to_owned());
        self.secrets.push(Finding { kind, category, severity, count: 1, place: place(cut.start) });
    }

    /// Secrets of all kinds together.
    #[must_use]
    pub fn count_secrets(&self) -> u64 {
        self.secrets.iter().map(|finding| finding.count).sum()
    }

    /// The severity of the worst secret.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.secrets.iter().map(|finding| finding.severity).max()
    }
}
