//! Roots that go away, come back, turn into something else or are opened to others, at every moment of a save.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use outputfile::{Call, Reason, Settings};
use rustix::fs::{CWD, RenameFlags};

use crate::common::{Lab, Mount, NAMING, everything, is_root, make, once_of, open, skip, text};
use crate::{Count, Memory, NOBODY, STEPS, Step, Watch, attempt, give, plain, separate, set_mode};

/// Something that happens to a root, done to the paths of the root, of its parent, and of the laboratory.
type Act = fn(&Scene) -> Option<Mount>;

/// A root one level down, so that its parent can be played with as well.
#[derive(Clone)]
struct Scene {
    root: PathBuf,
    parent: PathBuf,
    gone: PathBuf,
    outside: PathBuf,
}

fn none(_: ()) -> Option<Mount> {
    None
}

fn away(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

/// What happens, and whether a save that begins after it may be fine.
const EVENTS: [(&str, bool, Act); 14] = [
    ("deleted", true, |at| none(fs::remove_dir_all(&at.root).unwrap())),
    ("made again", true, |at| {
        fs::remove_dir_all(&at.root).unwrap();
        none(make(&at.root, 0o700))
    }),
    ("moved away", true, |at| none(away(&at.root, &at.gone))),
    ("moved away and made again", true, |at| {
        away(&at.root, &at.gone);
        none(make(&at.root, 0o700))
    }),
    ("a link to outside", false, |at| {
        away(&at.root, &at.gone);
        none(symlink(&at.outside, &at.root).unwrap())
    }),
    ("a link to where it went", false, |at| {
        away(&at.root, &at.gone);
        none(symlink(&at.gone, &at.root).unwrap())
    }),
    ("exchanged with a link to outside", false, |at| {
        let link = at.parent.join("link");
        symlink(&at.outside, &link).unwrap();
        none(rustix::fs::renameat_with(CWD, &link, CWD, &at.root, RenameFlags::EXCHANGE).unwrap())
    }),
    ("a file", false, |at| {
        away(&at.root, &at.gone);
        none(fs::write(&at.root, "a file").unwrap())
    }),
    ("its parent moved away", true, |at| none(away(&at.parent, &at.gone))),
    ("its parent a link to outside", false, |at| {
        away(&at.parent, &at.gone);
        none(symlink(&at.outside, &at.parent).unwrap())
    }),
    ("its parent a link to where it went", false, |at| {
        away(&at.parent, &at.gone);
        none(symlink(&at.gone, &at.parent).unwrap())
    }),
    ("open to everybody", false, |at| none(set_mode(&at.root, 0o777))),
    ("mounted over with memory", true, |at| Mount::tmpfs(&at.root, "mode=700")),
    ("mounted over with outside", true, |at| Mount::bind(&at.outside, &at.root)),
];

/// Calls before which it happens too.
const CALLS: [&[Call]; 8] = [
    &[Call::StatPath],
    &[Call::StatFs],
    &[Call::List],
    &[Call::OpenNameless],
    &[Call::Write],
    &[Call::SyncFile],
    &NAMING,
    &[Call::Exchange],
];

fn scene(memory: &Memory) -> (Lab, Scene) {
    let lab = memory.lab();
    let scene = Scene {
        root: lab.root.join("r"),
        parent: lab.root.clone(),
        gone: lab.path("gone"),
        outside: lab.outside.clone(),
    };
    make(&scene.root, 0o700);
    make(&scene.root.join("a"), 0o700);
    fs::write(scene.root.join("a/old"), "old").unwrap();
    // All that a save which follows a link would need.
    make(&lab.outside.join("r"), 0o700);
    make(&lab.outside.join("r/a"), 0o700);
    make(&lab.outside.join("a"), 0o700);
    (lab, scene)
}

#[test]
fn a_root_that_changes_at_any_moment_is_never_written_to_unseen() {
    let (mut count, memory) = (Count::default(), Memory::new());
    let moments = STEPS.len() + CALLS.len();
    for (event, fine, act) in EVENTS {
        if event.contains("mounted") && !is_root() {
            skip("mounting needs root");
            continue;
        }
        for moment in 0..moments {
            for path in ["a/x", "a/old", "new/x"] {
                one(&memory, event, fine, act, moment, path);
                count.one();
            }
        }
    }
    count.tell("roots that change while the save runs", 400);
}

fn one(memory: &Memory, event: &str, fine: bool, act: Act, moment: usize, path: &str) {
    let (lab, at) = scene(memory);
    let watch = Watch::over(&lab);
    let settings = Settings { roots: vec![at.root.clone()], ..separate(&lab) };
    let whole = at.root.join(path);
    let overwrite = path == "a/old";
    let mounts = Arc::new(Mutex::new(Vec::new()));
    let (step, calls) = (STEPS.get(moment), CALLS.get(moment.wrapping_sub(STEPS.len())));
    let what = format!("{event} at {step:?} {calls:?}, {path}");
    let happen = {
        let (at, mounts) = (at.clone(), Arc::clone(&mounts));
        move || mounts.lock().unwrap().extend(act(&at))
    };
    let result = match calls {
        Some(calls) => {
            let hook = Some(outputfile::Hook::new(once_of(calls, happen)));
            plain(&open(Settings { hook, ..settings }), text(&whole), overwrite)
        }
        None => attempt(&open(settings), text(&whole), overwrite, |now| {
            if Some(&now) == step {
                happen();
            }
        }),
    };
    let mounted_outside = event == "mounted over with outside";
    // A mount that is there before all is checked is the root; what is beneath it then is ours to write to.
    let first = matches!(step, Some(Step::Preflight));
    let checked_anew = matches!(step, Some(Step::Begin)) && path == "new/x";
    if mounted_outside && (first || checked_anew) {
        assert!(result.is_ok(), "{what}: {result:?}");
        return;
    }
    watch.check(&result, &what);
    match &result {
        Ok(saved) => assert_eq!(saved.path, whole, "{what}"),
        Err(error) => {
            assert!(!(first && fine), "{what}: {error}");
            let reasons = [
                Reason::RootMoved,
                Reason::RootUntrusted,
                Reason::TargetKind,
                Reason::Io,
                Reason::Mount,
                Reason::Outside,
            ];
            assert!(reasons.contains(&error.reason()), "{what}: {:?} {error}", error.reason());
        }
    }
    assert!(!first || fine || result.is_err(), "{what}");
    mounts.lock().unwrap().clear();
    let deleted = event == "deleted" || event == "made again";
    let replaced = overwrite && result.is_ok();
    let old = everything(lab.dir.path()).iter().any(|(path, meta)| {
        meta.is_file() && fs::read(path).is_ok_and(|bytes| bytes == b"old")
    });
    assert!(old || deleted || replaced, "{what}: the old file is somewhere");
}

#[test]
fn a_root_that_is_given_away_or_opened_before_the_write_is_refused() {
    let (mut count, memory) = (Count::default(), Memory::new());
    for step in [Step::Preflight, Step::Begin] {
        for (what, mode, uid) in
            [("open", 0o777, None), ("open and sticky", 0o1777, None), ("given away", 0o700, Some(NOBODY))]
        {
            if uid.is_some() && !is_root() {
                skip("giving away needs root");
                continue;
            }
            for which in 0..3 {
                let (lab, at) = scene(&memory);
                let watch = Watch::over(&lab);
                let roots = open(Settings { roots: vec![at.root.clone()], ..separate(&lab) });
                let place = &[at.parent.clone(), at.root.clone(), at.root.join("a")][which];
                let result = attempt(&roots, text(&at.root.join("a/x")), false, |now| {
                    if now == step {
                        uid.map(|uid| give(place, uid));
                        set_mode(place, mode);
                    }
                });
                // A sticky directory on the way, or inside, lets nobody touch what is another's.
                let fine = what == "open and sticky" && which != 1;
                let what = format!("{} is {what} before {step:?}", place.display());
                watch.check(&result, &what);
                match &result {
                    Ok(_) => assert!(fine, "{what}"),
                    Err(error) => assert!(!fine && error.reason() == Reason::RootUntrusted, "{what}: {error}"),
                }
                count.one();
            }
        }
    }
    count.tell("roots that are opened or given away", 12);
}
