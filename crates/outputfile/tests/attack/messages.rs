//! What an operator is told of settings that are refused: the entry, escaped, the rule and the remedy, each in words of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use outputfile::{RootProblem, Roots, Settings};

use crate::Count;

fn roots(paths: &[&str]) -> Settings {
    Settings {
        roots: paths.iter().map(PathBuf::from).collect(),
        config_dir: Some("/srv/own/config".into()),
        data_dir: Some("/srv/own/data".into()),
        log_dir: Some("/srv/own/log".into()),
        own_paths: vec!["/srv/own/files/one".into()],
        home_dirs: vec!["/srv/homes/ours".into()],
        ..Settings::default()
    }
}

fn directories(path: &str) -> Settings {
    Settings { trusted_directories: vec![path.into()], ..Settings::default() }
}

fn owners(name: &str) -> Settings {
    Settings { trusted_owners: vec![name.to_owned()], ..Settings::default() }
}

/// Each kind of problem: what it is, settings that have it as their last one, its key, and its entry.
fn kinds() -> Vec<(&'static str, Settings, &'static str, usize)> {
    const ROOTS: &str = "tool_output_roots";
    let long = format!("/{}", "a".repeat(300));
    let longer = "/a".repeat(3000);
    let mode = Settings { file_mode: 0o666, ..Settings::default() };
    vec![
        ("empty", roots(&["/tmp/a", ""]), ROOTS, 1),
        ("relative", roots(&["/tmp/a", "b"]), ROOTS, 1),
        ("dot dot", roots(&["/tmp/a/../b"]), ROOTS, 0),
        ("top", roots(&["/"]), ROOTS, 0),
        ("control", roots(&["/tmp/a\u{1b}b"]), ROOTS, 0),
        ("bidi", roots(&["/tmp/a\u{202e}b"]), ROOTS, 0),
        ("long name", roots(&[&long]), ROOTS, 0),
        ("long path", roots(&[&longer]), ROOTS, 0),
        ("equal", roots(&["/tmp/a", "/tmp/a/"]), ROOTS, 1),
        ("holds", roots(&["/tmp/a/b", "/tmp/a"]), ROOTS, 1),
        ("lies in", roots(&["/tmp/a", "/tmp/a/b"]), ROOTS, 1),
        ("system", roots(&["/etc"]), ROOTS, 0),
        ("lies in system", roots(&["/etc/x"]), ROOTS, 0),
        ("programs", roots(&["/usr/bin"]), ROOTS, 0),
        ("lies in programs", roots(&["/usr/local/bin/x"]), ROOTS, 0),
        ("holds programs", roots(&["/usr"]), ROOTS, 0),
        ("other programs", roots(&["/opt"]), ROOTS, 0),
        ("a home", roots(&["/home/x"]), ROOTS, 0),
        ("all homes", roots(&["/home"]), ROOTS, 0),
        ("our home", roots(&["/srv/homes/ours"]), ROOTS, 0),
        ("holds our home", roots(&["/srv/homes"]), ROOTS, 0),
        ("config", roots(&["/srv/own/config"]), ROOTS, 0),
        ("data", roots(&["/srv/own/data"]), ROOTS, 0),
        ("lies in data", roots(&["/srv/own/data/x"]), ROOTS, 0),
        ("log", roots(&["/srv/own/log"]), ROOTS, 0),
        ("lies in log", roots(&["/srv/own/log/x"]), ROOTS, 0),
        ("own file", roots(&["/srv/own/files/one"]), ROOTS, 0),
        ("holds own file", roots(&["/srv/own/files"]), ROOTS, 0),
        ("file mode", mode, "tool_output_file_mode", 0),
        ("relative directory", directories("x"), "tool_output_trusted_directories", 0),
        ("unknown owner", owners("no-such-user-here"), "tool_output_trusted_owners", 0),
        ("huge owner", owners("4294967297"), "tool_output_trusted_owners", 0),
    ]
}

#[test]
fn each_problem_of_the_settings_names_its_entry_the_rule_and_the_remedy() {
    let mut count = Count::default();
    let mut shapes: BTreeMap<String, &str> = BTreeMap::new();
    for (what, settings, key, index) in kinds() {
        let mut problems = Roots::open(settings).expect_err(what);
        let problem = problems.pop().expect(what);
        assert_eq!((problem.key, problem.index), (key, index), "{what}: {problem}");
        assert!(problems.is_empty(), "{what}: {problems:?}");
        check(what, &problem);
        // The kind alone: without the entry and its place.
        let path = problem.path.to_string_lossy().into_owned();
        let path = path.trim_end_matches('/');
        let message =
            if path.is_empty() { problem.message.clone() } else { problem.message.replace(path, "PATH") };
        let shape = format!("{key}: {message}");
        let same_rule = [["control", "bidi"], ["unknown owner", "huge owner"], ["a home", "our home"]];
        if let Some(other) = shapes.insert(shape.clone(), what) {
            assert!(same_rule.contains(&[other, what]), "{other} and {what} say the same: {shape}");
        }
        count.one();
    }
    count.tell("problems of settings", 30);
}

fn check(what: &str, problem: &RootProblem) {
    let line = problem.to_string();
    assert!(line.starts_with(&format!("{}[{}] (", problem.key, problem.index)), "{what}: {line}");
    assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{what}: {line:?}");
    assert!(problem.message.len() > 8 && problem.remedy.len() > 8, "{what}: {line}");
    assert!(line.ends_with(&format!("; {}", problem.remedy)), "{what}: {line}");
    let verbs = ["give", "name", "write", "use", "take"];
    assert!(verbs.iter().any(|verb| problem.remedy.starts_with(verb)), "{what}: {}", problem.remedy);
    assert!(line.len() < 2000, "{what}: a long entry is cut");
}
