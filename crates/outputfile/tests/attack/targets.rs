//! What may stand at the target: of every kind, with and without overwriting, from the start and appearing while the save runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use outputfile::{Call, Reason};
use rustix::fs::{CWD, FileType, Mode};

use crate::common::{Lab, NAMING, is_root, make, once_of, skip, tree};
use crate::{Count, Memory, NOBODY, STEPS, Step, Watch, attempt, give, plain};

type Put = fn(&Lab, &Path);

fn node(path: &Path, kind: FileType, device: u64) -> bool {
    rustix::fs::mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device).is_ok()
}

/// A thing, whether it may be replaced when overwriting, and how it is put there.
const KINDS: [(&str, bool, Put); 14] = [
    ("a file", true, |_, path| fs::write(path, "planted").unwrap()),
    ("an empty file", true, |_, path| fs::write(path, "").unwrap()),
    ("a file that nobody may write", true, |_, path| {
        fs::write(path, "planted").unwrap();
        crate::set_mode(path, 0o000);
    }),
    ("a second name of a file outside", true, |lab, path| {
        fs::hard_link(lab.outside.join("victim"), path).unwrap();
    }),
    ("a second name of a file inside", true, |lab, path| {
        fs::hard_link(lab.root.join("beside"), path).unwrap();
    }),
    ("a file of another user", true, |_, path| {
        fs::write(path, "planted").unwrap();
        if is_root() {
            give(path, NOBODY);
        }
    }),
    ("a link to a file outside", false, |lab, path| symlink(lab.outside.join("victim"), path).unwrap()),
    ("a link to nothing outside", false, |lab, path| symlink(lab.outside.join("nothing"), path).unwrap()),
    ("a link to a directory outside", false, |lab, path| symlink(&lab.outside, path).unwrap()),
    ("a link to a file inside", false, |_, path| symlink("beside", path).unwrap()),
    ("a directory", false, |_, path| fs::create_dir(path).unwrap()),
    ("a pipe", false, |_, path| assert!(node(path, FileType::Fifo, 0))),
    ("a socket", false, |_, path| drop(UnixListener::bind(path).unwrap())),
    ("a device", false, |_, path| {
        assert!(node(path, FileType::CharacterDevice, rustix::fs::makedev(1, 3)));
    }),
];

const CALLS: [&[Call]; 7] = [
    &[Call::StatFs],
    &[Call::List],
    &[Call::OpenNameless],
    &[Call::SyncFile],
    &NAMING,
    &[Call::Exchange],
    &[Call::LinkName],
];

#[test]
fn what_stands_at_the_target_is_replaced_as_a_file_or_not_at_all() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for (kind, replaceable, put) in KINDS {
        if kind == "a device" && !is_root() {
            skip("making a device needs root");
            continue;
        }
        for overwrite in [false, true] {
            // With overwriting also over a file that was there when the save began.
            for old in [false, true].into_iter().filter(|old| overwrite || !old) {
                for moment in 0..STEPS.len() + CALLS.len() {
                    if count.due(&memory) {
                        one(&memory, (kind, replaceable, put), overwrite, old, moment);
                    }
                }
            }
        }
    }
    count.tell("kinds of things at the target", 400);
}

fn one(
    memory: &Memory,
    (kind, replaceable, put): (&str, bool, Put),
    overwrite: bool,
    old: bool,
    moment: usize,
) {
    let lab = Arc::new(memory.lab());
    let target = lab.root.join("x");
    fs::write(lab.root.join("beside"), "beside").unwrap();
    let watch = Watch::over(&lab);
    if old {
        fs::write(&target, "old").unwrap();
    }
    let done = Arc::new(std::sync::Mutex::new(None));
    let happen = {
        let (lab, done, target) = (Arc::clone(&lab), Arc::clone(&done), target.clone());
        move || {
            // In one step, as somebody would who wants to win.
            let made = lab.path("made");
            put(&lab, &made);
            if fs::symlink_metadata(&made).unwrap().is_dir() {
                let _ = fs::remove_file(&target);
            }
            // Two names of one file are not renamed over each other.
            fs::rename(&made, &target).unwrap();
            let _ = fs::remove_file(&made);
            *done.lock().unwrap() = Some(tree(&target));
        }
    };
    let (step, calls) = (STEPS.get(moment), CALLS.get(moment.wrapping_sub(STEPS.len())));
    let result = match calls {
        Some(calls) => plain(&lab.hooked(once_of(calls, happen)), &lab.at("x"), overwrite),
        None => attempt(&lab.roots(), &lab.at("x"), overwrite, |now| {
            if Some(&now) == step {
                happen();
            }
        }),
    };
    let what = format!("{kind}, overwrite {overwrite}, old {old}, {step:?} {calls:?}");
    watch.check(&result, &what);
    assert_eq!(fs::read(lab.root.join("beside")).unwrap(), b"beside", "{what}");
    let Some(planted) = done.lock().unwrap().take() else {
        // The call was not made at all, so nothing came in the way.
        assert_eq!(result.expect(&what).replaced, old, "{what}");
        return;
    };
    match &result {
        Ok(_) => assert!(overwrite && replaceable, "{what}: it was replaced"),
        Err(error) => {
            assert_eq!(tree(&target), planted, "{what}: what was planted is there, after {error}");
            let reasons = [Reason::TargetKind, Reason::Exists, Reason::RootMoved];
            assert!(reasons.contains(&error.reason()), "{what}: {error}");
            let first = step == Some(&Step::Preflight);
            assert!(!(first && overwrite && replaceable), "{what}: {error}");
        }
    }
}

#[test]
fn a_component_that_is_no_directory_is_refused_whatever_it_is() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for (kind, _, put) in KINDS {
        if kind == "a directory" || (kind == "a device" && !is_root()) {
            continue;
        }
        for (at, below) in [("x", "x/y"), ("x", "x/y/z"), ("d/x", "d/x/y")] {
            for overwrite in [false, true] {
                if !count.due(&memory) {
                    continue;
                }
                let lab = memory.lab();
                fs::write(lab.root.join("beside"), "beside").unwrap();
                make(&lab.root.join("d"), 0o700);
                fs::write(lab.root.join("d/beside"), "beside").unwrap();
                let watch = Watch::over(&lab);
                put(&lab, &lab.root.join(at));
                let before = tree(&lab.root);
                let what = format!("{kind} at {at}, into {below}, overwrite {overwrite}");
                let result = plain(&lab.roots(), &lab.at(below), overwrite);
                watch.check(&result, &what);
                let reason = result.expect_err(&what).reason();
                assert!(
                    matches!(reason, Reason::TargetKind | Reason::Outside | Reason::Io),
                    "{what}: {reason:?}"
                );
                assert_eq!(tree(&lab.root), before, "{what}");
            }
        }
    }
    count.tell("components that are no directories", 70);
}
