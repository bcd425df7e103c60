//! Mounts inside a root: at the parents, at the directory and at the file itself, before the save and while it runs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex};

use outputfile::{Call, Reason};

use crate::common::{Lab, Mount, NAMING, is_root, make, once_of, skip};
use crate::{Count, Memory, STEPS, Step, Watch, attempt, plain};

const CALLS: [&[Call]; 4] = [&[Call::StatFs], &[Call::OpenNameless], &[Call::SyncFile], &NAMING];

fn mount(lab: &Lab, kind: &str, at: &str) -> Option<Mount> {
    let place = lab.root.join(at);
    match kind {
        "outside" => Mount::bind(&lab.outside, &place),
        "memory" => Mount::tmpfs(&place, "mode=700"),
        "itself" => Mount::bind(&place, &place),
        "a sibling" => Mount::bind(&lab.root.join("sibling"), &place),
        "outside, read-only" => Mount::read_only(&lab.outside, &place),
        _ => Mount::bind(&lab.root, &place),
    }
}

#[test]
fn a_mount_inside_a_root_is_not_crossed_whatever_it_is_and_whenever_it_comes() {
    if !is_root() {
        return skip("mounting needs root");
    }
    let (mut count, memory) = (Count::default(), Memory::new());
    for kind in ["outside", "memory", "itself", "a sibling", "outside, read-only", "the root"] {
        for at in ["m", "m/deep"] {
            for moment in 0..STEPS.len() + CALLS.len() {
                let lab = Arc::new(memory.lab());
                make(&lab.root.join("sibling"), 0o700);
                make(&lab.root.join("m"), 0o700);
                make(&lab.root.join("m/deep"), 0o700);
                // The same way exists in what is mounted, so that a save which crosses it would work.
                for above in [&lab.outside, &lab.root.join("sibling"), &lab.root] {
                    let _ = fs::create_dir(above.join("deep"));
                }
                let watch = Watch::over(&lab);
                let mounts = Arc::new(Mutex::new(Vec::new()));
                let (step, calls) = (STEPS.get(moment), CALLS.get(moment.wrapping_sub(STEPS.len())));
                let what = format!("{kind} mounted at {at}, {step:?} {calls:?}");
                let happen = {
                    let (lab, mounts) = (Arc::clone(&lab), Arc::clone(&mounts));
                    move || mounts.lock().unwrap().extend(mount(&lab, kind, at))
                };
                let result = match calls {
                    Some(calls) => plain(&lab.hooked(once_of(calls, happen)), &lab.at("m/deep/x"), false),
                    None => attempt(&lab.roots(), &lab.at("m/deep/x"), false, |now| {
                        if Some(&now) == step {
                            happen();
                        }
                    }),
                };
                if mounts.lock().unwrap().is_empty() {
                    return;
                }
                watch.check(&result, &what);
                // One that comes when the file has no name yet is seen then; what is saved is in the directory itself.
                match &result {
                    Ok(_) => panic!("{what}: it was crossed"),
                    Err(error) => {
                        let reasons = [Reason::Mount, Reason::RootMoved, Reason::RootUntrusted];
                        assert!(reasons.contains(&error.reason()), "{what}: {error}");
                    }
                }
                count.one();
            }
        }
    }
    count.tell("mounts inside a root", 100);
}

#[test]
fn a_file_that_is_mounted_over_is_not_written_through() {
    if !is_root() {
        return skip("mounting needs root");
    }
    let (mut count, memory) = (Count::default(), Memory::new());
    for kind in ["a file outside", "itself", "another in the root"] {
        for overwrite in [false, true] {
            for step in STEPS {
                let lab = memory.lab();
                let place = lab.root.join("x");
                fs::write(&place, "old").unwrap();
                fs::write(lab.root.join("other"), "the other").unwrap();
                let watch = Watch::over(&lab);
                let ino = fs::metadata(&place).unwrap().ino();
                let mounts = Mutex::new(Vec::new());
                let what = format!("{kind} mounted over the file, overwrite {overwrite}, before {step:?}");
                let result = attempt(&lab.roots(), &lab.at("x"), overwrite, |now| {
                    if now == step {
                        let from = match kind {
                            "itself" => place.clone(),
                            "another in the root" => lab.root.join("other"),
                            _ => lab.outside.join("victim"),
                        };
                        mounts.lock().unwrap().extend(Mount::bind(&from, &place));
                    }
                });
                if mounts.lock().unwrap().is_empty() && (overwrite || step == Step::Preflight) {
                    return;
                }
                watch.check(&result, &what);
                let error = result.expect_err(&what);
                assert!(
                    matches!(error.reason(), Reason::Mount | Reason::Exists | Reason::RootMoved | Reason::Io),
                    "{what}: {error}"
                );
                mounts.lock().unwrap().clear();
                assert_eq!(fs::read_to_string(&place).unwrap(), "old", "{what}");
                assert_eq!(fs::metadata(&place).unwrap().ino(), ino, "{what}");
                assert_eq!(fs::read_to_string(lab.root.join("other")).unwrap(), "the other", "{what}");
                count.one();
            }
        }
    }
    count.tell("files that are mounted over", 30);
}

#[test]
fn what_is_mounted_at_the_root_itself_is_the_root() {
    let lab = Lab::new();
    let Some(_mount) = Mount::tmpfs(&lab.root, "mode=700") else { return };
    let watch = Watch::over(&lab);
    let roots = crate::common::open(crate::Settings { min_free_bytes: 0, ..lab.settings() });
    let result = plain(&roots, &lab.at("a/x"), false);
    watch.check(&result, "a mount that is the root");
    result.unwrap();
}
