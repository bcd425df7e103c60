//! Who may call what: values and one decision.
//!
//! Nothing here reads a file, a clock or a socket. [`decide`] gives a [`Permit`] or a [`Denial`]; nobody else can make
//! a permit, so an upstream that asks for one is never called without a decision.

mod annotations;
mod decide;
mod principal;

pub use annotations::{Annotations, call_with};
pub use decide::{Denial, DenialReason, Permit, Question, Rules, ToolFacts, decide};
pub use principal::{Permission, Principal, PrincipalKind, SaveRight, SaveWish, Variant};
