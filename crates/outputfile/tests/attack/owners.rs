//! Who owns what, and who may write where: every component of the way in turn, and owners who swap what is theirs.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;

use outputfile::{Call, Reason, Settings};

use crate::common::{Lab, NAMING, everything, is_root, make, once_of, open, skip, text, tree};
use crate::{
    Count, Memory, NOBODY, PAYLOAD, STEPS, Step, Watch, assert_stopped, attempt, give, give_link, plain,
    set_mode, us,
};

/// The components: two above the root, the root, and two in it.
const WAY: [&str; 5] = ["way", "way/up", "way/up/r", "way/up/r/in", "way/up/r/in/side"];
const ROOT: usize = 2;

fn place(lab: &Lab, component: usize) -> PathBuf {
    lab.path(WAY[component])
}

/// Whether a change is fine on the way to the root, at the root, and inside it.
type Fine = [bool; 3];

const NEVER: Fine = [false; 3];
const ALWAYS: Fine = [true; 3];

struct Change {
    what: &'static str,
    mode: u32,
    owner: Option<u32>,
    /// "itself", "above", "beside" as a trusted directory.
    trusted_directory: &'static str,
    trusted_owner: bool,
    fine: Fine,
}

const fn mode(what: &'static str, mode: u32, fine: Fine) -> Change {
    Change { what, mode, owner: None, trusted_directory: "", trusted_owner: false, fine }
}

const fn trusting(
    what: &'static str,
    mode: u32,
    owner: Option<u32>,
    directory: &'static str,
    fine: Fine,
) -> Change {
    Change { what, mode, owner, trusted_directory: directory, trusted_owner: false, fine }
}

const fn owned(what: &'static str, mode: u32, trusted_owner: bool, fine: Fine) -> Change {
    Change { what, mode, owner: Some(NOBODY), trusted_directory: "", trusted_owner, fine }
}

const CHANGES: [Change; 21] = [
    mode("private", 0o700, ALWAYS),
    mode("readable", 0o755, ALWAYS),
    mode("its group may write", 0o770, ALWAYS),
    mode("its group may write, with a group to hand down", 0o2775, ALWAYS),
    mode("everybody may write", 0o777, NEVER),
    mode("others may write", 0o702, NEVER),
    mode("others may write and search", 0o703, NEVER),
    mode("everybody may write, setgid", 0o2777, NEVER),
    mode("everybody may write, sticky", 0o1777, [true, false, true]),
    mode("others may write, sticky", 0o1703, [true, false, true]),
    owned("another's", 0o755, false, NEVER),
    owned("another's, sticky", 0o1777, false, NEVER),
    // A trusted owner may have what is around a root of ours, and their own root, and nothing in ours.
    owned("a trusted owner's", 0o755, true, [true, true, false]),
    owned("a trusted owner's, and everybody may write", 0o777, true, NEVER),
    trusting("everybody may write, and it is trusted", 0o777, None, "itself", ALWAYS),
    trusting("everybody may write, and what is above is trusted", 0o777, None, "above", ALWAYS),
    trusting("everybody may write, and what is beside is trusted", 0o777, None, "beside", NEVER),
    trusting("another's, and it is trusted", 0o777, Some(NOBODY), "itself", ALWAYS),
    trusting("another's, and what is above is trusted", 0o777, Some(NOBODY), "above", ALWAYS),
    trusting("another's, and what is beside is trusted", 0o755, Some(NOBODY), "beside", NEVER),
    trusting("another's, and what is beneath is trusted", 0o755, Some(NOBODY), "beneath", NEVER),
];

#[test]
fn every_component_in_turn_is_judged_by_owner_and_mode() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for change in CHANGES {
        if change.owner.is_some() && !is_root() {
            skip("giving away needs root");
            continue;
        }
        for component in 0..WAY.len() {
            for step in [Step::Preflight, Step::Begin] {
                judged(&memory, &change, component, step);
                count.one();
            }
        }
    }
    count.tell("owners and modes of each component", 100);
}

fn judged(memory: &Memory, change: &Change, component: usize, step: Step) {
    let lab = memory.lab();
    for directory in 0..WAY.len() {
        make(&place(&lab, directory), 0o755);
    }
    let watch = Watch::over(&lab);
    let at = place(&lab, component);
    let trusted = match change.trusted_directory {
        "itself" => vec![at.clone()],
        "above" => vec![at.parent().unwrap().to_path_buf()],
        "beneath" => WAY.get(component + 1).map(|_| place(&lab, component + 1)).into_iter().collect(),
        "beside" => vec![lab.outside.clone()],
        _ => Vec::new(),
    };
    let owners = if change.trusted_owner { vec![NOBODY.to_string()] } else { Vec::new() };
    let settings = Settings {
        roots: vec![place(&lab, ROOT)],
        trusted_directories: trusted,
        trusted_owners: owners,
        ..crate::separate(&lab)
    };
    let roots = open(settings);
    let target = place(&lab, WAY.len() - 1).join("x");
    let result = attempt(&roots, text(&target), false, |now| {
        if now == step {
            if let Some(uid) = change.owner {
                give(&at, uid);
            }
            set_mode(&at, change.mode);
            if change.trusted_owner && component == ROOT {
                // What lies in the root of a trusted owner is theirs as well.
                (ROOT + 1..WAY.len()).for_each(|inner| give(&place(&lab, inner), NOBODY));
            }
        }
    });
    let what = format!("{} is {}, before {step:?}", WAY[component], change.what);
    watch.check(&result, &what);
    let fine = change.fine[usize::from(component >= ROOT) + usize::from(component > ROOT)];
    match result {
        Ok(saved) => {
            assert!(fine, "{what}: saved");
            let owner = if change.trusted_owner && component == ROOT { NOBODY } else { us() };
            assert_eq!(fs::metadata(saved.path).unwrap().uid(), owner, "{what}");
        }
        Err(error) => {
            assert!(!fine, "{what}: {error}");
            assert_eq!(error.reason(), Reason::RootUntrusted, "{what}: {error}");
            let message = error.to_string();
            assert!(message.contains(text(&at)) && message.ends_with("\"]"), "{what}: {message}");
        }
    }
}

/// What an owner may do to the directory `in` of their root, to get at what only root may write.
type Swap = fn(&Lab);

fn inner(lab: &Lab) -> PathBuf {
    lab.root.join("in")
}

fn gone(lab: &Lab) {
    fs::rename(inner(lab), lab.root.join("gone")).unwrap();
}

fn theirs(lab: &Lab, to: &Path) {
    gone(lab);
    symlink(to, inner(lab)).unwrap();
    give_link(&inner(lab), NOBODY);
}

const SWAPS: [(&str, Swap); 12] = [
    ("a link to a directory of root", |lab| theirs(lab, &lab.path("private"))),
    ("a link to a directory that is root's and readable", |lab| theirs(lab, &lab.path("readable"))),
    ("a link to the outside", |lab| theirs(lab, &lab.outside)),
    ("a link to /proc/self/root", |lab| {
        theirs(lab, Path::new(&format!("/proc/self/root{}", text(&lab.path("readable")))));
    }),
    ("a directory of root moved in", |lab| {
        gone(lab);
        fs::rename(lab.path("private"), inner(lab)).unwrap();
    }),
    ("a readable directory of root moved in", |lab| {
        gone(lab);
        fs::rename(lab.path("readable"), inner(lab)).unwrap();
    }),
    ("a directory that root's group may write", |lab| {
        gone(lab);
        make(&inner(lab), 0o770);
    }),
    ("a file of root in place of the directory", |lab| {
        gone(lab);
        fs::rename(lab.path("private/file"), inner(lab)).unwrap();
    }),
    ("the file a second name of a file of root", |lab| {
        let _ = fs::remove_file(inner(lab).join("x"));
        fs::hard_link(lab.path("private/file"), inner(lab).join("x")).unwrap();
    }),
    ("the file a link to a file of root", |lab| {
        let _ = fs::remove_file(inner(lab).join("x"));
        symlink(lab.path("private/file"), inner(lab).join("x")).unwrap();
        give_link(&inner(lab).join("x"), NOBODY);
    }),
    ("the root a link to a directory of root", |lab| {
        fs::rename(&lab.root, lab.path("gone")).unwrap();
        symlink(lab.path("readable"), &lab.root).unwrap();
        give_link(&lab.root, NOBODY);
    }),
    ("the root a directory of root", |lab| {
        fs::rename(&lab.root, lab.path("gone")).unwrap();
        make(&lab.root, 0o755);
        make(&lab.root.join("in"), 0o755);
    }),
];

const CALLS: [&[Call]; 5] = [&[Call::StatFs], &[Call::List], &[Call::Write], &[Call::SyncFile], &NAMING];

/// A root of another user, and beside it what only root may write.
fn owners_lab(memory: &Memory) -> Lab {
    let lab = memory.lab();
    make(&lab.path("private"), 0o700);
    fs::write(lab.path("private/file"), "root's").unwrap();
    make(&lab.path("readable"), 0o755);
    make(&inner(&lab), 0o755);
    give(&lab.root, NOBODY);
    give(&inner(&lab), NOBODY);
    lab
}

#[test]
fn an_owner_who_swaps_what_is_theirs_gets_nothing_that_only_root_may_write() {
    if !is_root() {
        return skip("needs root to act as others");
    }
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for (what, swap) in SWAPS {
        for moment in 0..STEPS.len() + CALLS.len() {
            for overwrite in [false, true] {
                let lab = Arc::new(owners_lab(&memory));
                let watch = Watch::over(&lab);
                let file = inner(&lab).join("x");
                if overwrite {
                    fs::write(&file, "old").unwrap();
                    give(&file, NOBODY);
                }
                let settings = Settings { trusted_owners: vec![NOBODY.to_string()], ..crate::separate(&lab) };
                let (step, calls) = (STEPS.get(moment), CALLS.get(moment.wrapping_sub(STEPS.len())));
                let result = match calls {
                    Some(calls) => {
                        let happen = as_ourselves(&lab, swap);
                        let hook = outputfile::Hook::new(once_of(calls, happen));
                        plain(&open(Settings { hook: Some(hook), ..settings }), text(&file), overwrite)
                    }
                    None => attempt(&open(settings), text(&file), overwrite, |now| {
                        if Some(&now) == step {
                            swap(&lab);
                        }
                    }),
                };
                let what = format!("{what}, {step:?} {calls:?}, overwrite {overwrite}");
                watch.check(&result, &what);
                check_roots_own(&lab, &what);
                count.one();
            }
        }
    }
    count.tell("owners who swap what is theirs", 240);
}

/// Does it on a thread of its own that has our rights: the hook is asked on one that has the owner's.
fn as_ourselves(lab: &Arc<Lab>, swap: Swap) -> impl Fn() + Send + Sync + 'static + use<> {
    let (ask, asked) = sync_channel::<()>(0);
    let (tell, done) = sync_channel::<()>(0);
    let lab = Arc::clone(lab);
    thread::spawn(move || {
        if asked.recv().is_ok() {
            swap(&lab);
            drop(lab);
            tell.send(()).unwrap();
        }
    });
    let done = Mutex::new(done);
    move || {
        ask.send(()).unwrap();
        done.lock().unwrap().recv().expect("it was swapped");
    }
}

/// What is root's is as it was, wherever it went, and what was written is the owner's.
fn check_roots_own(lab: &Lab, what: &str) {
    for (path, meta) in everything(lab.dir.path()) {
        let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if bytes == PAYLOAD {
            assert_eq!((meta.uid(), meta.gid()), (NOBODY, NOBODY), "{what}: {}", path.display());
            let above = fs::metadata(path.parent().unwrap()).unwrap();
            assert_eq!(above.uid(), NOBODY, "{what}: {} lies where only root may write", path.display());
        }
        if meta.is_file() && meta.uid() == 0 && !path.starts_with(&lab.outside) {
            assert_eq!(bytes, b"root's", "{what}: {}", path.display());
        }
    }
    let kept = everything(lab.dir.path());
    assert!(kept.iter().any(|(_, meta)| meta.is_file() && meta.uid() == 0 && meta.size() == 6), "{what}");
}

#[test]
fn no_right_of_ours_is_used_for_an_owner_who_does_not_have_it() {
    if !is_root() {
        return skip("needs root to act as others");
    }
    let (mut count, memory) = (Count::default(), Memory::mounted());
    // Mode and owner of the directory of the target, and of a file that is there.
    for mode in [0o755, 0o711, 0o750, 0o700, 0o500] {
        for overwrite in [false, true] {
            for (call, code) in
                [(Call::OpenParent, 0), (Call::Access, libc::ENOSYS), (Call::Access, libc::EPERM)]
            {
                let lab = owners_lab(&memory);
                make(&inner(&lab).join("kept"), 0o700);
                fs::write(inner(&lab).join("kept/x"), "root's").unwrap();
                give(&inner(&lab).join("kept"), 0);
                set_mode(&inner(&lab).join("kept"), mode);
                let watch = Watch::over(&lab);
                let before = tree(&lab.root);
                let hook = outputfile::Hook::new(move |asked| (code != 0 && asked == call).then_some(code));
                let roots = open(Settings {
                    trusted_owners: vec![NOBODY.to_string()],
                    hook: Some(hook),
                    ..crate::separate(&lab)
                });
                for name in ["kept/x", "kept/new", "kept/deep/new"] {
                    let what = format!("{name} in a directory of root with mode {mode:o}, {call:?} {code}");
                    let result = plain(&roots, &lab.at(&format!("in/{name}")), overwrite);
                    watch.check(&result, &what);
                    let reasons = [Reason::Denied, Reason::Exists, Reason::RootUntrusted];
                    assert_stopped(&result, &reasons, &what);
                    assert_eq!(tree(&lab.root), before, "{what}");
                    count.one();
                }
            }
        }
    }
    count.tell("directories that only root may write", 90);
}
