//! The decision as a table: who, what, which variant, and the verdict.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use policy::{
    Annotations, DenialReason, Permission, Principal, PrincipalKind, Question, Rules, SaveRight, SaveWish,
    ToolFacts, Variant, call_with, decide,
};

const KINDS: [PrincipalKind; 5] = [
    PrincipalKind::LocalCaller,
    PrincipalKind::ApiKey,
    PrincipalKind::Socket,
    PrincipalKind::Stdio,
    PrincipalKind::Internal,
];

/// A word for each of the three hints that decide: `r+ r- d+ d-` or nothing.
fn annotations(text: &str) -> Annotations {
    let hint = |yes: &str, no: &str| match (text.contains(yes), text.contains(no)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    Annotations {
        read_only: hint("r+", "r-"),
        destructive: hint("d+", "d-"),
        open_world: hint("o+", "o-"),
        ..Annotations::default()
    }
}

/// Facts of a good tool, less what the words take away.
fn facts(text: &str) -> ToolFacts {
    let has = |word: &str| text.split(' ').any(|w| w == word);
    ToolFacts {
        server_known: !has("unknown"),
        server_enabled: !has("disabled"),
        server_quarantined: has("quarantined"),
        tool_listed: !has("unlisted") && !has("unknown"),
        tool_enabled_by_config: !has("denied"),
    }
}

fn rules(text: &str) -> Rules {
    Rules { read_only_mode: text.contains("readonly"), strict_server_validation: !text.contains("lenient") }
}

fn variant(text: &str) -> Variant {
    Variant::ALL.into_iter().find(|v| v.as_str() == text).unwrap()
}

fn principal(text: &str) -> Principal {
    let kind = KINDS.into_iter().find(|kind| text.starts_with(kind.as_str())).unwrap();
    let principal = Principal::new(kind);
    match text.split_once('/').map(|(_, right)| right) {
        Some("none") => principal.with_save(SaveRight::None),
        Some("create") => principal.with_save(SaveRight::Create),
        Some("overwrite") => principal.with_save(SaveRight::Overwrite),
        _ => principal,
    }
}

fn wish(text: &str) -> SaveWish {
    match text {
        "-" => SaveWish::None,
        "create" => SaveWish::Create,
        "overwrite" => SaveWish::Overwrite,
        other => panic!("no wish: {other}"),
    }
}

/// who | variant | hints | facts | rules | save | verdict
const TABLE: &str = "
local     | read        |         |             |          | -         | permit
local     | write       |         |             |          | -         | permit
local     | destructive |         |             |          | -         | permit
local     | read        | r+      |             |          | -         | permit
local     | write       | r+      |             |          | -         | permit
local     | destructive | r+      |             |          | -         | permit
local     | read        | r-      |             |          | -         | permit
local     | write       | r-      |             |          | -         | permit
local     | destructive | r-      |             |          | -         | permit
local     | read        | d-      |             |          | -         | permit
local     | write       | r- d-   |             |          | -         | permit
local     | read        | d+      |             |          | -         | intent_rejected
local     | write       | d+      |             |          | -         | intent_rejected
local     | destructive | d+      |             |          | -         | permit
local     | read        | r+ d+   |             |          | -         | intent_rejected
local     | write       | r- d+   |             |          | -         | intent_rejected
local     | destructive | r- d+   |             |          | -         | permit
local     | read        | d+      |             | lenient  | -         | permit
local     | write       | d+      |             | lenient  | -         | permit
local     | destructive | d+      |             | lenient  | -         | permit
api_key   | read        | d+      |             |          | -         | intent_rejected
socket    | read        | d+      |             |          | -         | intent_rejected
stdio     | read        | d+      |             |          | -         | intent_rejected
internal  | read        | d+      |             |          | -         | intent_rejected
api_key   | write       |         |             |          | -         | permit
socket    | write       |         |             |          | -         | permit
stdio     | destructive |         |             |          | -         | permit
internal  | read        |         |             |          | -         | permit
local     | read        | r+      |             | readonly | -         | permit
local     | read        | r+ d-   |             | readonly | -         | permit
local     | read        |         |             | readonly | -         | read_only
local     | read        | r-      |             | readonly | -         | read_only
local     | read        | d-      |             | readonly | -         | read_only
local     | read        | r- d-   |             | readonly | -         | read_only
local     | read        | d+      |             | readonly | -         | read_only
local     | read        | r+ d+   |             | readonly | -         | read_only
local     | write       | r+      |             | readonly | -         | read_only
local     | write       | r-      |             | readonly | -         | read_only
local     | destructive | r+      |             | readonly | -         | read_only
local     | destructive | d+      |             | readonly | -         | read_only
api_key   | write       | r+      |             | readonly | -         | read_only
socket    | destructive | r+      |             | readonly | -         | read_only
stdio     | write       | r+      |             | readonly | -         | read_only
internal  | write       | r+      |             | readonly | -         | read_only
local     | read        | r+ d+   |             | readonly lenient | - | read_only
local     | read        |         | unknown     |          | -         | unknown_tool
local     | destructive |         | unknown     |          | -         | unknown_tool
local     | write       |         | unknown     | readonly | -         | unknown_tool
api_key   | read        |         | unknown     |          | overwrite | unknown_tool
local     | read        |         | unlisted    |          | -         | unknown_tool
local     | destructive |         | unlisted    |          | -         | unknown_tool
local     | read        |         | unlisted    | readonly | -         | unknown_tool
local     | read        |         | unlisted denied |      | -         | unknown_tool
local     | read        |         | quarantined |          | -         | server_quarantined
local     | read        |         | quarantined unlisted | | -         | server_quarantined
local     | destructive | d+      | quarantined |          | -         | server_quarantined
local     | read        |         | quarantined | readonly | -         | server_quarantined
local     | read        |         | quarantined disabled | | -         | server_quarantined
api_key   | read        |         | quarantined |          | overwrite | server_quarantined
local     | read        |         | disabled    |          | -         | tool_not_callable
local     | read        |         | disabled unlisted |    | -         | tool_not_callable
api_key   | destructive | d+      | disabled    |          | -         | tool_not_callable
local     | read        | r+      | denied      |          | -         | tool_not_callable
local     | destructive | d+      | denied      |          | -         | tool_not_callable
local     | read        | d+      | denied      |          | -         | intent_rejected
local     | read        | r+      | denied      | readonly | -         | tool_not_callable
api_key   | read        | r+      | denied      |          | create    | tool_not_callable
local     | read        |         |             |          | create    | permit
local     | read        |         |             |          | overwrite | permit
api_key   | write       |         |             |          | overwrite | permit
socket    | destructive |         |             |          | overwrite | permit
stdio     | read        |         |             |          | overwrite | permit
internal  | read        |         |             |          | create    | save_permission
internal  | read        |         |             |          | overwrite | save_permission
local/create | read     |         |             |          | create    | permit
local/create | read     |         |             |          | overwrite | save_permission
local/create | read     |         |             |          | -         | permit
local/none   | read     |         |             |          | create    | save_permission
local/none   | read     |         |             |          | overwrite | save_permission
local/none   | read     |         |             |          | -         | permit
api_key/none | destructive | d+   |             |          | create    | save_permission
api_key/create | write  | d-      |             |          | overwrite | save_permission
local     | read        | r+      |             | readonly | create    | permit
local     | read        | r+      |             | readonly | overwrite | save_permission
local/create | read     | r+      |             | readonly | create    | permit
local/none | read       | r+      |             | readonly | create    | save_permission
local     | write       | r+      |             | readonly | overwrite | read_only
local     | read        | d+      |             |          | overwrite | intent_rejected
local/none | read       | d+      |             |          | overwrite | intent_rejected
";

#[test]
fn every_line_of_the_table_has_its_verdict() {
    let lines: Vec<Vec<&str>> =
        TABLE.lines().filter(|l| !l.is_empty()).map(|l| l.split('|').map(str::trim).collect()).collect();
    assert!(lines.len() >= 60, "only {} lines", lines.len());
    for line in lines {
        let [who, how, hints, state, set, save, right] = line[..] else {
            panic!("not seven columns: {line:?}")
        };
        let (principal, annotations, rules) = (principal(who), annotations(hints), rules(set));
        let question = Question {
            principal: &principal,
            server: "srv",
            tool: "tool",
            variant: variant(how),
            annotations: &annotations,
            save: wish(save),
            facts: facts(state),
            rules: &rules,
        };
        match decide(&question) {
            Ok(permit) => {
                assert_eq!(right, "permit", "{line:?}");
                assert_eq!((permit.server(), permit.tool()), ("srv", "tool"));
                assert_eq!((permit.variant(), permit.save()), (variant(how), wish(save)));
            }
            Err(denial) => {
                assert_eq!(denial.reason.as_str(), right, "{line:?}");
                assert_eq!(
                    denial.message.starts_with("save_to_file: "),
                    right == "save_permission",
                    "{line:?}"
                );
                assert!(!denial.message.contains("  ") && denial.to_string() == denial.message);
            }
        }
    }
}

fn refusal(
    server: &str,
    tool: &str,
    how: &str,
    hints: &str,
    state: &str,
    set: &str,
) -> (DenialReason, String) {
    let (principal, annotations, rules) = (principal("local"), annotations(hints), rules(set));
    let (variant, facts) = (variant(how), facts(state));
    let (save, principal, annotations, rules) = (SaveWish::None, &principal, &annotations, &rules);
    let question = Question { principal, server, tool, variant, annotations, save, facts, rules };
    let denial = decide(&question).unwrap_err();
    (denial.reason, denial.message)
}

#[test]
fn refusals_say_what_to_do() {
    let cases = [
        (
            refusal("srv", "x", "read", "d+", "", ""),
            "Tool 'srv:x' is marked destructive by server, use call_tool_destructive",
        ),
        (refusal("srv", "x", "read", "", "unknown", ""), "no server 'srv'. Call retrieve_tools"),
        (
            refusal("srv", "x", "read", "", "unlisted", ""),
            "'srv:x': server 'srv' lists no such tool. Call retrieve_tools",
        ),
        (refusal("srv", "x", "read", "", "denied", ""), "enabled_tools/disabled_tools"),
        (refusal("srv", "x", "read", "", "disabled", ""), "server 'srv' is disabled"),
        (refusal("srv", "x", "read", "", "quarantined", ""), "server 'srv' is quarantined"),
        (refusal("srv", "x", "write", "", "", "readonly"), "Use call_tool_read"),
        (refusal("srv", "x", "read", "", "", "readonly"), "readOnlyHint"),
    ];
    for ((_, message), part) in cases {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn names_of_a_caller_cannot_break_or_flood_a_message() {
    let (_, message) = refusal("a\nb\u{202e}c", &"é".repeat(100_000), "read", "", "unknown", "");
    assert!(message.len() < 1_000, "{} bytes", message.len());
    assert!(!message.contains('\n') && !message.contains('\u{202e}'));
    assert!(message.contains("é…"));
}

#[test]
fn a_tool_counts_as_what_it_commits_itself_to() {
    use Permission::{Destructive, Read, Write};
    let cases = [
        ("", Destructive, Variant::Read),
        ("r+", Read, Variant::Read),
        ("r-", Destructive, Variant::Write),
        ("d+", Destructive, Variant::Destructive),
        ("d-", Write, Variant::Read),
        ("r+ d+", Destructive, Variant::Destructive),
        ("r+ d-", Read, Variant::Read),
        ("r- d+", Destructive, Variant::Destructive),
        ("r- d-", Write, Variant::Write),
    ];
    for (hints, permission, advised) in cases {
        assert_eq!(annotations(hints).permission(), permission, "{hints}");
        assert_eq!(call_with(&annotations(hints)), advised, "{hints}");
    }
}

#[test]
fn only_a_closed_world_is_trusted() {
    assert!(annotations("").is_untrusted() && annotations("o+").is_untrusted());
    assert!(!annotations("o-").is_untrusted());
}

#[test]
fn variants_are_the_three_call_tools() {
    for variant in Variant::ALL {
        assert_eq!(Variant::from_tool_name(variant.tool_name()), Some(variant));
    }
    assert_eq!(Variant::from_tool_name("call_tool_delete"), None);
}

#[test]
fn everyone_but_the_program_itself_may_overwrite() {
    for kind in KINDS {
        let right = if kind == PrincipalKind::Internal { SaveRight::None } else { SaveRight::Overwrite };
        let principal = Principal::new(kind);
        assert_eq!((principal.kind(), principal.save()), (kind, right));
    }
}
