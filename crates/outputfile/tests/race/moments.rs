//! Single moments that the storms found: what another writer, or an adversary, does between two calls of a save.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use outputfile::{Call, Hook, Reason, Reservations, Roots, Settings};

use super::ground::exchange;
use crate::common::{Lab, assert_saved, failing, make, once, open, save, strategy, temporaries};

/// Does something at a call of one kind, once, but not before a call of another kind.
fn after(first: Call, then: Call, act: impl Fn() + Send + Sync + 'static) -> impl Fn(Call) -> Option<i32> {
    let stage = AtomicUsize::new(0);
    move |call| {
        if call == first {
            let _ = stage.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        } else if call == then && stage.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            act();
        }
        None
    }
}

/// Roots as another process has them.
fn separate(lab: &Lab) -> Roots {
    open(Settings { reservations: Reservations::default(), ..lab.settings() })
}

/// Whether names cannot be exchanged, because a strategy is forced.
fn is_blind() -> bool {
    strategy().as_deref() == Some("link")
}

#[test]
fn a_file_that_came_out_of_an_exchange_is_no_leftover_for_others() {
    if is_blind() {
        return;
    }
    let lab = Lab::new();
    let at = lab.root.join("x");
    fs::write(&at, "old").unwrap();
    let other = separate(&lab);
    let (plant, beside) = (at, lab.at("beside"));
    let planting = once(Call::Exchange, move || {
        fs::write(plant.with_extension("new"), "another").unwrap();
        fs::rename(plant.with_extension("new"), &plant).unwrap();
    });
    let sweeping = after(Call::Exchange, Call::Stat, move || {
        save(&other, &beside, false, b"beside").unwrap();
    });
    let roots = lab.hooked(move |call| planting(call).or_else(|| sweeping(call)));
    assert_saved(&save(&roots, &lab.at("x"), true, b"new").unwrap(), b"new");
    assert_eq!(temporaries(&lab.root), Vec::<String>::new());
}

#[test]
fn of_two_that_overwrite_at_once_each_waits_for_the_other() {
    let lab = Lab::new();
    fs::write(lab.root.join("x"), "old").unwrap();
    let (other, path) = (separate(&lab), lab.at("x"));
    let second = Arc::new(Mutex::new(None));
    let started = Arc::clone(&second);
    let publishing = if is_blind() { Call::RenameOver } else { Call::Exchange };
    let roots = lab.hooked(after(publishing, Call::OpenTop, move || {
        let (other, path) = (other.clone(), path.clone());
        *started.lock().unwrap() = Some(thread::spawn(move || save(&other, &path, true, b"second")));
        thread::sleep(Duration::from_millis(50));
    }));
    save(&roots, &lab.at("x"), true, b"first").unwrap();
    let second = second.lock().unwrap().take().unwrap().join().unwrap();
    assert_saved(&second.unwrap(), b"second");
}

#[test]
fn a_save_that_cannot_put_the_old_file_back_leaves_its_own_no_more() {
    let lab = Lab::new();
    fs::write(lab.root.join("x"), "old").unwrap();
    let (root, away) = (lab.root.clone(), lab.path("away"));
    let publishing = if is_blind() { Call::RenameOver } else { Call::Exchange };
    let roots = lab.hooked(after(publishing, Call::OpenTop, move || {
        for name in temporaries(&root) {
            fs::remove_file(root.join(name)).unwrap();
        }
        fs::rename(&root, &away).unwrap();
    }));
    let error = save(&roots, &lab.at("x"), true, b"new").unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
    assert_eq!(fs::read_dir(lab.path("away")).unwrap().count(), 0);
}

#[test]
fn what_others_put_in_its_place_while_it_is_put_back_stays_and_nothing_else() {
    if is_blind() {
        return;
    }
    let lab = Lab::new();
    let at = lab.root.join("x");
    fs::write(&at, "old").unwrap();
    let number = AtomicUsize::new(0);
    let replacing = at.clone();
    // Before each exchange there is another file than a moment ago, also before those that put back.
    let roots = lab.hooked(move |call| {
        if call == Call::Exchange {
            let text = format!("theirs {}", number.fetch_add(1, Ordering::SeqCst));
            fs::write(replacing.with_extension("new"), text).unwrap();
            fs::rename(replacing.with_extension("new"), &replacing).unwrap();
        }
        None
    });
    let error = save(&roots, &lab.at("x"), true, b"ours").unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
    assert!(fs::read_to_string(&at).unwrap().starts_with("theirs "));
    assert_eq!(fs::read_dir(&lab.root).unwrap().count(), 1, "{:?}", temporaries(&lab.root));
}

#[test]
fn a_directory_that_is_moved_while_it_is_opened_is_no_mount() {
    let lab = Lab::new();
    make(&lab.root.join("a"), 0o700);
    let asked = AtomicUsize::new(0);
    // The kernel says so of a directory that leaves the one it is opened beneath.
    let hook = move |call| {
        let first = call == Call::OpenBeneath && asked.fetch_add(1, Ordering::SeqCst) == 0;
        first.then_some(libc::EXDEV)
    };
    let roots = open(Settings { hook: Some(Hook::new(hook)), ..lab.settings() });
    assert_saved(&save(&roots, &lab.at("a/x"), false, b"x").unwrap(), b"x");
}

#[test]
fn a_directory_that_is_a_link_for_a_moment_only_is_no_obstacle() {
    let lab = Lab::new();
    let (a, link) = (lab.root.join("a"), lab.path("link"));
    make(&a, 0o700);
    symlink(&lab.outside, &link).unwrap();
    let swap = |(a, link): (PathBuf, PathBuf)| move || exchange(&a, &link).unwrap();
    let opened =
        if strategy().as_deref() == Some("portable") { Call::OpenBeneathByHand } else { Call::OpenBeneath };
    let there = once(opened, swap((a.clone(), link.clone())));
    let back = after(opened, Call::Stat, swap((a, link)));
    let roots = lab.hooked(move |call| there(call).or_else(|| back(call)));
    assert_saved(&save(&roots, &lab.at("a/x"), false, b"x").unwrap(), b"x");
}

#[test]
fn a_directory_that_is_removed_before_the_file_has_its_name_has_moved() {
    let lab = Lab::new();
    let a = lab.root.join("a");
    make(&a, 0o700);
    let remove = once(Call::LinkHandle, move || fs::remove_dir(&a).unwrap());
    if strategy().is_some_and(|way| ["rename", "link"].contains(&&*way)) {
        return;
    }
    let error = save(&lab.hooked(remove), &lab.at("a/x"), false, b"x").unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
}

#[test]
fn what_others_put_under_the_temporary_name_is_not_published() {
    for overwrite in [false, true] {
        let lab = Lab::new();
        let at = lab.root.join("x");
        if overwrite {
            fs::write(&at, "old").unwrap();
        }
        let root = lab.root.clone();
        let swap = once(Call::SyncFile, move || {
            let name = root.join(temporaries(&root).remove(0));
            fs::write(root.join("theirs"), "theirs").unwrap();
            fs::rename(root.join("theirs"), name).unwrap();
        });
        let nameless = failing(Call::OpenNameless, libc::EOPNOTSUPP);
        let roots = lab.hooked(move |call| swap(call).or_else(|| nameless(call)));
        let error = save(&roots, &lab.at("x"), overwrite, b"ours").unwrap_err();
        assert_eq!(error.reason(), Reason::RootMoved, "{error}");
        assert_eq!(fs::read_to_string(&at).ok().as_deref(), overwrite.then_some("old"));
    }
}
