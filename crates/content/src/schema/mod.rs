//! Schemas: arguments in, structured output out.

mod bounded;
mod cache;
mod decimal;
mod document;
mod input;
mod output;
mod price;
mod raw;

pub use cache::{LazyOutputSchema, OutputSchemas};
pub use input::{InputSchema, MAX_ARGUMENTS_BYTES, MAX_SCHEMA_BYTES};
pub use output::{OutputFault, OutputMode, OutputRules, OutputSchema, Place, Stopped};

use crate::answer::Answer;

/// An answer that has passed output validation. Made by [`OutputSchema::check`], or by [`check_output`] where no schema is.
#[derive(Debug)]
pub struct Checked {
    answer: Answer,
    fault: Option<OutputFault>,
    problem: Option<String>,
}

impl Checked {
    /// What of the schema was not checked, and why. It may quote the schema.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Why the structured output is not what its tool promises, if it is passed on all the same.
    #[must_use]
    pub fn fault(&self) -> Option<&OutputFault> {
        self.fault.as_ref()
    }

    pub(crate) fn into_answer(self) -> Answer {
        self.answer
    }
}

/// Output validation of an answer that no output schema speaks of: it passes.
#[must_use]
pub fn check_output(answer: Answer) -> Checked {
    Checked { answer, fault: None, problem: None }
}
