//! Saves by the crate alone: the figures are there for every round, the place is left empty, and what cannot be made is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn run(words: &[&str], dir: &Path) -> (Option<Value>, String) {
    let command = env!("CARGO_BIN_EXE_benchkit");
    let done = Command::new(command).args(words).arg("--dir").arg(dir).output().unwrap();
    (serde_json::from_slice(&done.stdout).ok(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn each_round_has_a_floor_and_a_save_and_nothing_is_left() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("writer");
    std::fs::create_dir_all(&dir).unwrap();
    let (saves, said) = run(&["save", "--bytes", "300000", "--rounds", "3"], &dir);
    let saves = saves.expect(&said);
    let rounds = saves["rounds"].as_array().unwrap();
    assert_eq!((rounds.len(), &saves["bytes"]), (3, &300_000.into()), "{saves}");
    for key in ["floor_us", "floor_names_us", "save_us", "preflight_us", "begin_us", "put_us", "commit_us"] {
        assert!(rounds.iter().all(|round| round[key].as_f64().unwrap() > 0.0), "{key}: {saves}");
    }
    let (deep, said) = run(&["preflight", "--depth", "3", "--rounds", "5"], &dir);
    let deep = deep.expect(&said);
    let (flat, _) = run(&["preflight", "--depth", "0", "--rounds", "5"], &dir);
    // Each directory is opened and looked at.
    assert_eq!(deep["calls"].as_u64().unwrap(), flat.unwrap()["calls"].as_u64().unwrap() + 2 * 3, "{deep}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_not_there_is_told() {
    let (figures, said) = run(&["save", "--bytes", "1"], Path::new("/nowhere/at/all"));
    assert!(figures.is_none() && said.contains("/nowhere/at/all"), "{said}");
}
