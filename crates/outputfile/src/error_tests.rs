//! Every refusal says the path, the rule and the remedy, and no two say the same.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::write::Identity;

/// A path that would deceive a reader, and how it must be shown.
const PATH: &str = "/r/a\u{1b}[2J\u{202e}b\nc";
const SHOWN_PATH: &str = "/r/a\\u{1b}[2J\\u{202e}b\\u{a}c";

/// The number of a variant. A new one does not compile until it stands here, and then in [`samples`].
fn number(error: &SaveError) -> usize {
    match error {
        SaveError::Disabled => 0,
        SaveError::Path { .. } => 1,
        SaveError::Outside { .. } => 2,
        SaveError::Alias { .. } => 3,
        SaveError::Untrusted { .. } => 4,
        SaveError::Protected { .. } => 5,
        SaveError::Moved { .. } => 6,
        SaveError::Exists { .. } => 7,
        SaveError::Busy { .. } => 8,
        SaveError::TargetKind { .. } => 9,
        SaveError::NotDirectory { .. } => 10,
        SaveError::Mount { .. } => 11,
        SaveError::ReadOnly { .. } => 12,
        SaveError::Denied { .. } => 13,
        SaveError::NameTooLong { .. } => 14,
        SaveError::LowSpace { .. } => 15,
        SaveError::Full { .. } => 16,
        SaveError::Total { .. } => 17,
        SaveError::Quota { .. } => 18,
        SaveError::TooLarge { .. } => 19,
        SaveError::FileLimit { .. } => 20,
        SaveError::NoPublish { .. } => 21,
        SaveError::Io { .. } => 22,
        SaveError::NotDurable { .. } => 23,
        SaveError::Spent { .. } => 24,
        SaveError::Link { .. } => 25,
    }
}

const VARIANTS: usize = 26;

/// One of each, and of those that carry their remedy with them one as the code makes it.
fn samples() -> Vec<SaveError> {
    let (path, at) = (PATH.to_owned(), PathBuf::from(PATH));
    let saved = Saved {
        path: at.clone(),
        root: PathBuf::from("/r"),
        bytes: 1,
        sha256: [0; 32],
        identity: Identity { dev: 1, ino: 1, size: 1, ctime_ns: 1 },
        replaced: false,
    };
    let fault = |code| Fault::from(rustix::io::Errno::from_raw_os_error(code));
    let of = |code| SaveError::of(&fault(code), "looking at", PATH, PATH);
    vec![
        SaveError::Disabled,
        SaveError::path(PATH, NameProblem::DotDot),
        SaveError::path(PATH, NameProblem::Temporary(String::from(".mcpproxy-x"))),
        SaveError::Outside { path: path.clone(), roots: vec![at.clone()] },
        SaveError::Alias { root: at.clone(), other: at.clone(), detail: String::from("they are one") },
        SaveError::Untrusted { root: at.clone(), why: String::from("a rule is broken; allow it: …") },
        SaveError::Protected { root: at.clone(), why: String::from("holds a home directory") },
        SaveError::moved(PATH, "it changed; call again"),
        SaveError::Exists { path: path.clone() },
        SaveError::Link { path: path.clone() },
        SaveError::Busy { path: path.clone() },
        SaveError::TargetKind { path: path.clone(), kind: Kind::Fifo },
        of(libc::ENOTDIR),
        of(libc::EXDEV),
        of(libc::EROFS),
        of(libc::EACCES),
        of(libc::ENAMETOOLONG),
        SaveError::LowSpace { at: at.clone(), free: 1, wanted: 2 },
        of(libc::ENOSPC),
        SaveError::Total { root: at.clone(), used: 2, limit: 1 },
        of(libc::EDQUOT),
        SaveError::TooLarge { path: path.clone(), size: 2, exact: false, limit: 1 },
        of(libc::EFBIG),
        SaveError::NoPublish { fs: String::from("xfs"), at },
        of(libc::EIO),
        SaveError::NotDurable { saved: Box::new(saved), step: "syncing", cause: String::from("a fault") },
        SaveError::Spent { path },
    ]
}

/// The words with which a remedy begins.
const REMEDIES: [&str; 19] = [
    "add the line",
    "write ",
    "use a",
    "take one",
    "allow it",
    "choose",
    "call again",
    "pass ",
    "wait for",
    "name it",
    "mount it",
    "grant it",
    "shorten it",
    "make room",
    "delete",
    "ask the tool",
    "raise it",
    "see to it",
    "check the",
];

#[test]
fn every_refusal_tells_the_path_escaped_the_rule_and_the_remedy() {
    let samples = samples();
    let met: BTreeSet<usize> = samples.iter().map(number).collect();
    assert_eq!(met, (0..VARIANTS).collect(), "one of each");
    for error in &samples {
        let message = error.to_string();
        // Where saving is off no path is right or wrong.
        assert!(message.contains(SHOWN_PATH) || matches!(error, SaveError::Disabled), "{message:?}");
        assert!(!message.contains(name::is_forbidden), "{message:?}");
        assert!(REMEDIES.iter().any(|remedy| message.contains(remedy)), "no remedy: {message}");
        assert!(message.contains("; ") || message.contains(": "), "rule and remedy are apart: {message}");
        assert!(!message.ends_with('.') && !message.contains("save_to_file"), "{message}");
    }
}

#[test]
fn no_two_variants_say_the_same() {
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    for error in samples() {
        let shape = error.to_string().replace(SHOWN_PATH, "PATH");
        let shape: String = shape.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        if let Some(other) = shapes.insert(shape.clone(), number(&error)) {
            assert_eq!(other, number(&error), "{shape}");
        }
    }
}

#[test]
fn each_variant_has_a_reason_of_its_own_or_shares_it_on_purpose() {
    let mut by_reason: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for error in samples() {
        by_reason.entry(format!("{:?}", error.reason())).or_default().insert(number(&error));
    }
    let shared = |reason: &str| by_reason.get(reason).cloned().unwrap_or_default();
    // Records count what a reader would do about it: the text tells the difference.
    let on_purpose: [(&str, &[usize]); 8] = [
        ("Path", &[1, 14]),
        ("Outside", &[2, 25]),
        ("RootUntrusted", &[3, 4, 5]),
        ("TargetKind", &[9, 10]),
        ("Space", &[15, 16]),
        ("TooLarge", &[19, 20]),
        ("Io", &[21, 22, 24]),
        ("Reserved", &[1]),
    ];
    for (reason, variants) in on_purpose {
        assert_eq!(shared(reason), variants.iter().copied().collect(), "{reason}");
    }
    for (reason, variants) in &by_reason {
        let known = on_purpose.iter().any(|(shared, _)| shared == reason);
        assert!(known || variants.len() == 1, "{reason} is shared by {variants:?}");
    }
}

#[test]
fn every_problem_of_a_name_is_told_apart_and_with_its_remedy() {
    let name = || String::from("a\u{202e}b\u{1b}");
    let all = [
        NameProblem::Empty,
        NameProblem::Relative,
        NameProblem::DriveRelative,
        NameProblem::Volume(name()),
        NameProblem::Character('\u{1b}'),
        NameProblem::WindowsCharacter('?'),
        NameProblem::DotDot,
        NameProblem::TrailingSeparator,
        NameProblem::NotAFile,
        NameProblem::NameTooLong(300),
        NameProblem::PathTooLong(5000),
        NameProblem::TooManyDirectories(40),
        NameProblem::Hidden(name()),
        NameProblem::Temporary(name()),
        NameProblem::Device(name()),
        NameProblem::DotOrSpaceAtEnd(name()),
        NameProblem::ShortName(name()),
        NameProblem::WholeVolume,
        NameProblem::NotUnicode,
    ];
    let mut texts = BTreeSet::new();
    for problem in all {
        // A variant that is new here does not compile until it is in the list above as well.
        match problem {
            NameProblem::Empty
            | NameProblem::Relative
            | NameProblem::DriveRelative
            | NameProblem::Volume(_)
            | NameProblem::Character(_)
            | NameProblem::WindowsCharacter(_)
            | NameProblem::DotDot
            | NameProblem::TrailingSeparator
            | NameProblem::NotAFile
            | NameProblem::NameTooLong(_)
            | NameProblem::PathTooLong(_)
            | NameProblem::TooManyDirectories(_)
            | NameProblem::Hidden(_)
            | NameProblem::Temporary(_)
            | NameProblem::Device(_)
            | NameProblem::DotOrSpaceAtEnd(_)
            | NameProblem::ShortName(_)
            | NameProblem::WholeVolume
            | NameProblem::NotUnicode => {}
        }
        let message = SaveError::path(PATH, problem.clone()).to_string();
        assert!(message.starts_with(&format!("the path {SHOWN_PATH} ")), "{message}");
        assert!(!message.contains(name::is_forbidden), "{message:?}");
        let (rule, remedy) = message.split_once(": ").expect("a remedy");
        assert!(rule.len() > 10 && remedy.len() > 8, "{message}");
        assert!(texts.insert(problem.to_string()), "{message}");
    }
    assert_eq!(texts.len(), 19);
}
