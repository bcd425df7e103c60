//! What a server says about a tool. Hints are only that: what is not said counts as the worst.

use crate::{Permission, Variant};

/// The annotations of a tool, each `None` unless the server says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Annotations {
    /// A title for people.
    pub title: Option<String>,
    /// `readOnlyHint`: it changes nothing.
    pub read_only: Option<bool>,
    /// `destructiveHint`: it may destroy.
    pub destructive: Option<bool>,
    /// `idempotentHint`: a second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// `openWorldHint`: it deals with the world outside.
    pub open_world: Option<bool>,
}

impl Annotations {
    /// What the tool does at most, as far as its server commits itself. Unknown is destructive, and so is a tool that
    /// says both that it only reads and that it may destroy.
    #[must_use]
    pub fn permission(&self) -> Permission {
        match (self.read_only, self.destructive) {
            (_, Some(true)) => Permission::Destructive,
            (Some(true), _) => Permission::Read,
            (_, Some(false)) => Permission::Write,
            (_, None) => Permission::Destructive,
        }
    }

    /// Whether its text must be taken as written by a stranger: unless it says that its world is closed.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.open_world != Some(false)
    }
}

/// The variant that a search advises for a tool. Only explicit hints lead away from `call_tool_read`.
#[must_use]
pub fn call_with(annotations: &Annotations) -> Variant {
    match (annotations.destructive, annotations.read_only) {
        (Some(true), _) => Variant::Destructive,
        (_, Some(false)) => Variant::Write,
        _ => Variant::Read,
    }
}
