//! The decision.

use std::fmt;

use crate::{Annotations, Permission, Principal, SaveRight, SaveWish, Variant};

/// Everything that a decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who calls.
    pub principal: &'a Principal,
    /// The server's name as the caller wrote it.
    pub server: &'a str,
    /// The tool's name as the caller wrote it.
    pub tool: &'a str,
    /// Which call tool was used.
    pub variant: Variant,
    /// What the server says about the tool; empty if it is not listed.
    pub annotations: &'a Annotations,
    /// Whether the answer is to be saved, and over an existing file.
    pub save: SaveWish,
    /// What is known about server and tool.
    pub facts: ToolFacts,
    /// What the operator set.
    pub rules: &'a Rules,
}

/// What is known about a server and one of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolFacts {
    /// The configuration has a server of this name.
    pub server_known: bool,
    /// The server is switched on.
    pub server_enabled: bool,
    /// The server is held until a person approves it.
    pub server_quarantined: bool,
    /// The server lists a tool of this name.
    pub tool_listed: bool,
    /// The lists of allowed and denied tools of the server's entry let the tool pass.
    pub tool_enabled_by_config: bool,
}

/// What the operator set for all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Only tools that say they only read may run.
    pub read_only_mode: bool,
    /// `call_tool_read` and `call_tool_write` are refused for a tool that says it is destructive.
    pub strict_server_validation: bool,
}

/// The right to make one call. Only [`decide`] makes it, and it cannot be copied:
///
/// ```compile_fail
/// fn twice(permit: policy::Permit) -> (policy::Permit, policy::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
///
/// ```compile_fail
/// let permit = policy::Permit {
///     server: String::new(),
///     tool: String::new(),
///     variant: policy::Variant::Read,
///     save: policy::SaveWish::None,
/// };
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    server: String,
    tool: String,
    variant: Variant,
    save: SaveWish,
}

impl Permit {
    /// The server that may be called.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The tool that may be called.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The variant that was permitted.
    #[must_use]
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// What may be done with the answer.
    #[must_use]
    pub fn save(&self) -> SaveWish {
        self.save
    }
}

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DenialReason {
    /// No such server, or it lists no such tool.
    UnknownTool,
    /// The server is held until a person approves it.
    ServerQuarantined,
    /// The server is switched off, or its entry denies the tool.
    ToolNotCallable,
    /// The variant does not fit what the server says about the tool.
    IntentRejected,
    /// The gateway only reads.
    ReadOnly,
    /// The caller may not save in this way.
    SavePermission,
}

impl DenialReason {
    /// The reason code of records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::ServerQuarantined => "server_quarantined",
            Self::ToolNotCallable => "tool_not_callable",
            Self::IntentRejected => "intent_rejected",
            Self::ReadOnly => "read_only",
            Self::SavePermission => "save_permission",
        }
    }
}

/// A refusal: the code for records, and the text for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// Why.
    pub reason: DenialReason,
    /// What was wrong and what to do. A refused save begins with `save_to_file: `.
    pub message: String,
}

/// Decides one call. The first check that refuses speaks: whether the tool can be reached at all comes first, because
/// what a tool says about itself is only known of one that is listed; then what the gateway permits, then the variant,
/// then the operator's lists, then the save.
///
/// # Errors
/// The refusal.
pub fn decide(question: &Question<'_>) -> Result<Permit, Denial> {
    check_reachable(question)?;
    check_read_only(question)?;
    check_variant(question)?;
    check_lists(question)?;
    check_save(question)?;
    Ok(Permit {
        server: question.server.to_owned(),
        tool: question.tool.to_owned(),
        variant: question.variant,
        save: question.save,
    })
}

fn check_reachable(question: &Question<'_>) -> Result<(), Denial> {
    let facts = question.facts;
    let (server, id) = (Shown(question.server), id(question));
    let find = "Call retrieve_tools to find tools and their ids (server:tool).";
    if !facts.server_known {
        let message = format!("Unknown tool '{id}': there is no server '{server}'. {find}");
        return deny(DenialReason::UnknownTool, message);
    }
    if facts.server_quarantined {
        let message = format!(
            "QUARANTINED_SERVER_BLOCKED: server '{server}' is quarantined and not started. A person has to review its \
             entry in the gateway's configuration and write \"quarantined\": false into it; until then call a tool of another server (retrieve_tools)."
        );
        return deny(DenialReason::ServerQuarantined, message);
    }
    if !facts.server_enabled {
        let message = format!(
            "TOOL_BLOCKED: server '{server}' is disabled. A person can enable it (`mcpproxy upstream enable`); until \
             then call a tool of another server (retrieve_tools)."
        );
        return deny(DenialReason::ToolNotCallable, message);
    }
    if !facts.tool_listed {
        let message = format!("Unknown tool '{id}': server '{server}' lists no such tool. {find}");
        return deny(DenialReason::UnknownTool, message);
    }
    Ok(())
}

/// In read-only mode the variant and the tool itself must only read; a tool that does not say so does not count.
fn check_read_only(question: &Question<'_>) -> Result<(), Denial> {
    if !question.rules.read_only_mode {
        return Ok(());
    }
    if question.variant.permission() > Permission::Read {
        let name = question.variant.tool_name();
        let message = format!("{name} is refused: the gateway is in read_only_mode. Use call_tool_read.");
        return deny(DenialReason::ReadOnly, message);
    }
    if question.annotations.permission() > Permission::Read {
        let message = format!(
            "Tool '{}' is refused: the gateway is in read_only_mode and the tool does not declare that it only reads \
             (readOnlyHint). Call retrieve_tools to find one that does.",
            id(question)
        );
        return deny(DenialReason::ReadOnly, message);
    }
    Ok(())
}

/// Only an explicit hint refuses a variant, and the destructive one fits every tool.
fn check_variant(question: &Question<'_>) -> Result<(), Denial> {
    let is_marked = question.annotations.destructive == Some(true);
    if question.rules.strict_server_validation && is_marked && question.variant != Variant::Destructive {
        let message =
            format!("Tool '{}' is marked destructive by server, use call_tool_destructive", id(question));
        return deny(DenialReason::IntentRejected, message);
    }
    Ok(())
}

fn check_lists(question: &Question<'_>) -> Result<(), Denial> {
    if question.facts.tool_enabled_by_config {
        return Ok(());
    }
    let message = format!(
        "TOOL_BLOCKED: tool '{}' is denied by the server's entry in the gateway's configuration \
         (enabled_tools/disabled_tools). Call retrieve_tools to find tools that may be called.",
        id(question)
    );
    deny(DenialReason::ToolNotCallable, message)
}

fn check_save(question: &Question<'_>) -> Result<(), Denial> {
    let right = question.principal.save();
    if !right.covers(question.save) {
        let message = match right {
            SaveRight::None => {
                "save_to_file: this caller may not save files. Call again without save_to_file."
            }
            _ => {
                "save_to_file: this caller may make new files but not replace existing ones. Call again without \
                 save_overwrite and with a new path."
            }
        };
        return deny(DenialReason::SavePermission, message.to_owned());
    }
    if question.rules.read_only_mode && question.save == SaveWish::Overwrite {
        let message = "save_to_file: the gateway is in read_only_mode, which allows new files only. Call again without \
                       save_overwrite and with a new path.";
        return deny(DenialReason::SavePermission, message.to_owned());
    }
    Ok(())
}

fn deny(reason: DenialReason, message: String) -> Result<(), Denial> {
    Err(Denial { reason, message })
}

fn id<'a>(question: &Question<'a>) -> ShownId<'a> {
    ShownId(Shown(question.server), Shown(question.tool))
}

/// A name of a caller in a message: at most 128 characters, nothing that could break a line or hide.
#[derive(Clone, Copy)]
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 128;
        for (count, c) in self.0.chars().enumerate() {
            match c {
                _ if count == MOST => return out.write_str("…"),
                '\'' | '"' => write!(out, "{c}")?,
                c => write!(out, "{}", c.escape_debug())?,
            }
        }
        Ok(())
    }
}

struct ShownId<'a>(Shown<'a>, Shown<'a>);

impl fmt::Display for ShownId<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.0, self.1)
    }
}
