//! How many system calls a check and a small save make, so that none creeps in unseen, and that sparing them spares no check.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "the way to the root is counted as the kernel sees it")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{Lab, Mount, is_root, make, open, saved, skip, strategy, text};
use outputfile::{Call, Hook, NoLedger, Reason, Roots, Settings};

/// Directories between the root and the file.
const DEPTH: usize = 10;

/// Calls by their names.
type Calls = BTreeMap<String, usize>;

/// A laboratory whose program has a configuration and data, and counts its calls.
struct Counting {
    lab: Lab,
    roots: Roots,
    calls: Arc<Mutex<Calls>>,
    /// Components of the root's path.
    way: usize,
    /// How often the check that the root holds none of ours and no home asks for the directory above.
    climbs: usize,
}

impl Counting {
    /// `None` where the counts are others: by another way of writing, or without a home.
    fn new() -> Option<Self> {
        if strategy().is_some() {
            skip("the calls are counted for the way that Linux has by itself");
            return None;
        }
        let lab = Lab::new();
        let root = fs::canonicalize(&lab.root).unwrap();
        let Some(home) = home() else {
            skip("the home of this user does not exist");
            return None;
        };
        // From each of the three up to what holds the root: the two lie beside it.
        let climbs = 2 + home.ancestors().skip(1).position(|above| root.starts_with(above)).unwrap() + 1;
        for own in ["config", "data"] {
            make(&lab.path(own), 0o700);
        }
        fs::create_dir_all(lab.root.join(deep(""))).unwrap();
        let calls = Arc::new(Mutex::new(Calls::new()));
        let seen = Arc::clone(&calls);
        let hook = Hook::new(move |call| {
            // That one asks the hook and nobody else.
            if call != Call::MountNumber {
                *seen.lock().unwrap().entry(format!("{call:?}")).or_default() += 1;
            }
            None
        });
        let settings = Settings {
            roots: vec![root.clone()],
            config_dir: Some(root.parent().unwrap().join("config")),
            data_dir: Some(root.parent().unwrap().join("data")),
            hook: Some(hook),
            ..Settings::default()
        };
        let roots = open(settings);
        Some(Self { roots, calls, way: root.components().count() - 1, climbs, lab })
    }

    fn path(&self) -> String {
        format!("{}/{}", text(&fs::canonicalize(&self.lab.root).unwrap()), deep("x.txt"))
    }

    /// The calls since the last time.
    fn made(&self) -> Calls {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// What it takes to judge the root and to go down to the directory of the file.
    fn judgement(&self) -> Vec<(Call, usize)> {
        vec![
            (Call::OpenTop, 1),
            (Call::OpenChild, self.way),
            (Call::OpenParent, self.climbs),
            (Call::StatPath, 1),
            (Call::OpenBeneath, DEPTH),
            (Call::Stat, 1 + self.way + self.climbs + DEPTH),
        ]
    }
}

fn deep(name: &str) -> String {
    let names: Vec<String> = (1..=DEPTH).map(|level| level.to_string()).collect();
    format!("{}/{name}", names.join("/"))
}

fn home() -> Option<PathBuf> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let ours = rustix::process::geteuid().as_raw().to_string();
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&ours))?;
    let home = fs::canonicalize(line.split(':').nth(5)?).ok()?;
    (home != Path::new("/")).then_some(home)
}

fn sum(parts: &[Vec<(Call, usize)>]) -> Calls {
    let mut all = Calls::new();
    for (call, count) in parts.iter().flatten() {
        *all.entry(format!("{call:?}")).or_default() += count;
    }
    all
}

#[test]
fn a_check_makes_so_many_calls() {
    let Some(counting) = Counting::new() else { return };
    counting.made();
    counting.roots.preflight(&counting.path(), false, &NoLedger).unwrap();
    let target = vec![(Call::Stat, 1), (Call::StatFs, 2), (Call::Access, 1)];
    assert_eq!(counting.made(), sum(&[counting.judgement(), target]));
}

#[test]
fn a_small_save_makes_so_many_calls() {
    let Some(counting) = Counting::new() else { return };
    let target = counting.roots.preflight(&counting.path(), false, &NoLedger).unwrap();
    counting.made();
    let mut writer = counting.roots.begin(target).unwrap();
    let opening = vec![(Call::Stat, 2), (Call::StatFs, 2), (Call::List, 1), (Call::OpenNameless, 1)];
    assert_eq!(counting.made(), sum(&[counting.judgement(), opening]), "begin");
    writer.put(b"small").unwrap();
    assert_eq!(counting.made(), sum(&[vec![(Call::Write, 1)]]), "put");
    writer.commit().unwrap();
    let way = vec![
        (Call::OpenTop, 1),
        (Call::OpenChild, counting.way),
        (Call::OpenBeneath, DEPTH),
        (Call::Stat, 1 + counting.way + DEPTH),
    ];
    let publishing = vec![
        (Call::Stat, 4),
        (Call::SyncFile, 1),
        (Call::OpenTurn, 1),
        (Call::LockTurn, 1),
        (Call::LinkHandle, 1),
        (Call::OpenForSync, 1),
        (Call::SyncDirectory, 1),
    ];
    let mut made = counting.made();
    // Before Linux 6.10 only a privileged process names a handle directly.
    made.remove("LinkThroughProc");
    assert_eq!(made, sum(&[way.clone(), way, publishing]), "commit");
}

/// The climb from our own directories ends at what holds the root, but not at another mount of it.
#[test]
fn a_root_that_comes_to_hold_our_own_directory_by_a_mount_is_refused() {
    if !is_root() {
        return skip("only root mounts");
    }
    let lab = Lab::new();
    make(&lab.path("config"), 0o700);
    make(&lab.path("hold"), 0o700);
    make(&lab.path("hold/all"), 0o700);
    let Some(_mount) = Mount::bind(lab.dir.path(), &lab.path("hold/all")) else { return };
    let settings = || Settings { config_dir: Some(lab.path("hold/all/config")), ..lab.settings() };
    let roots = open(settings());
    saved(&roots, &lab.at("x.txt"), false, b"x");
    fs::rename(lab.path("hold"), lab.root.join("hold")).unwrap();
    let error = roots.preflight(&lab.at("y.txt"), false, &NoLedger).unwrap_err();
    assert_eq!(error.reason(), Reason::RootUntrusted, "{error}");
    assert!(error.to_string().contains("configuration"), "{error}");
    fs::rename(lab.root.join("hold"), lab.path("hold")).unwrap();
    saved(&roots, &lab.at("y.txt"), false, b"y");
}

/// The walk of the first judgement is not used again: a root that is swapped between two steps is seen.
#[test]
fn each_step_walks_anew() {
    let lab = Lab::new();
    let roots = lab.roots();
    let target = roots.preflight(&lab.at("x.txt"), false, &NoLedger).unwrap();
    fs::rename(&lab.root, lab.path("aside")).unwrap();
    symlink(lab.path("aside"), &lab.root).unwrap();
    let error = roots.begin(target).unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
}
