//! Schemas: arguments in, structured output out.

mod bounded;
mod input;

pub use input::{InputSchema, MAX_ARGUMENTS_BYTES, MAX_SCHEMA_BYTES};

use crate::answer::Answer;

/// An answer that has passed output validation. Made only by [`check_output`].
#[derive(Debug)]
pub struct Checked(Answer);

impl Checked {
    pub(crate) fn into_answer(self) -> Answer {
        self.0
    }
}

/// Output validation. It is off: every answer passes.
#[must_use]
pub fn check_output(answer: Answer) -> Checked {
    Checked(answer)
}
