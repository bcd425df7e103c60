//! Swaps between the check and the use, made by threads and by hooks before single calls.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use common::{
    Lab, NAMING, assert_saved, is_empty, make, once, once_of, open, save, saved, temporaries, text,
};
use outputfile::{Call, Hook, NoLedger, Reason, Reservations, Settings};

/// Roots with nothing in common with others, as those of another process have.
fn separate(lab: &Lab) -> outputfile::Roots {
    open(Settings { reservations: Reservations::default(), ..lab.settings() })
}

#[test]
fn clean_up_goes_through_the_handle_and_not_by_path() {
    let lab = Lab::new();
    let (a, moved, outside) = (lab.root.join("a"), lab.root.join("a2"), lab.outside.clone());
    make(&a, 0o700);
    let hook = {
        let (moved, outside) = (moved.clone(), outside.clone());
        let swap = once(Call::Write, move || {
            let name = temporaries(&a).remove(0);
            fs::rename(&a, &moved).unwrap();
            symlink(&outside, &a).unwrap();
            fs::write(outside.join(name), "precious").unwrap();
        });
        move |call| {
            swap(call);
            match call {
                Call::OpenNameless => Some(libc::EOPNOTSUPP),
                Call::Write => Some(libc::EIO),
                _ => None,
            }
        }
    };
    let roots = lab.hooked(hook);
    let error = save(&roots, &lab.at("a/x"), false, b"x").unwrap_err();
    assert_eq!(error.reason(), Reason::Io, "{error}");
    let left: Vec<PathBuf> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left.len(), 1, "the file of that name outside survives");
    assert_eq!(fs::read_to_string(&left[0]).unwrap(), "precious");
    assert!(is_empty(&moved), "and the temporary is gone");
}

#[test]
fn a_root_that_becomes_a_link_after_load_is_refused() {
    let lab = Lab::new();
    let roots = lab.roots();
    fs::rename(&lab.root, lab.path("gone")).unwrap();
    symlink(&lab.outside, &lab.root).unwrap();
    let error = roots.preflight(&lab.at("x.txt"), false, &NoLedger).unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
    assert!(error.to_string().contains("reload"), "{error}");
    assert!(is_empty(&lab.outside));
    // A reload that was not asked for keeps what is remembered; one that was asked for remembers it anew.
    let kept = roots.reopen(lab.settings()).unwrap();
    assert_eq!(kept.preflight(&lab.at("x"), false, &NoLedger).unwrap_err().reason(), Reason::RootMoved);
    saved(&lab.roots(), &lab.at("x.txt"), false, b"asked for");
}

#[test]
fn a_root_that_is_made_again_at_the_same_place_is_fine() {
    let lab = Lab::new();
    let roots = lab.roots();
    fs::remove_dir(&lab.root).unwrap();
    make(&lab.root, 0o700);
    saved(&roots, &lab.at("x.txt"), false, b"x");
    fs::remove_dir_all(&lab.root).unwrap();
    saved(&roots, &lab.at("x.txt"), false, b"x");
}

#[test]
fn a_directory_that_is_moved_out_while_the_file_is_written_gets_nothing() {
    let moments: [(&[Call], bool); 4] =
        [(&[Call::SyncFile], true), (&NAMING, true), (&[Call::SyncFile], false), (&NAMING, false)];
    for (call, nameless) in moments {
        let lab = Lab::new();
        make(&lab.root.join("a"), 0o700);
        let (a, away) = (lab.root.join("a"), lab.outside.join("a"));
        let swap = once_of(call, move || fs::rename(&a, &away).unwrap());
        let roots = lab.hooked(move |asked| {
            swap(asked);
            (!nameless && asked == Call::OpenNameless).then_some(libc::EOPNOTSUPP)
        });
        let error = save(&roots, &lab.at("a/x"), false, b"x").unwrap_err();
        assert_eq!(error.reason(), Reason::RootMoved, "{call:?}: {error}");
        assert!(is_empty(&lab.outside.join("a")), "{call:?}");
    }
}

#[test]
fn an_overwrite_whose_root_is_moved_in_the_last_moment_puts_the_old_file_back() {
    let lab = Lab::new();
    fs::write(lab.root.join("x"), "old").unwrap();
    let (root, away) = (lab.root.clone(), lab.path("away"));
    let roots = lab.hooked(once(Call::Exchange, move || fs::rename(&root, &away).unwrap()));
    let error = save(&roots, &lab.at("x"), true, b"new").unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
    assert_eq!(fs::read_to_string(lab.path("away/x")).unwrap(), "old");
    assert_eq!(temporaries(&lab.path("away")), Vec::<String>::new());
}

#[test]
fn a_parent_that_is_replaced_while_the_upstream_runs_is_refused() {
    let lab = Lab::new();
    make(&lab.root.join("a"), 0o700);
    let roots = lab.roots();
    let target = roots.preflight(&lab.at("a/x"), false, &NoLedger).unwrap();
    fs::rename(lab.root.join("a"), lab.root.join("old")).unwrap();
    make(&lab.root.join("a"), 0o700);
    let error = roots.begin(target).unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
    assert!(is_empty(&lab.root.join("a")) && is_empty(&lab.root.join("old")));
}

#[test]
fn the_write_looks_at_the_roots_of_now() {
    let lab = Lab::new();
    make(&lab.path("other"), 0o700);
    let before = lab.roots();
    let target = || before.preflight(&lab.at("x"), false, &NoLedger).unwrap();
    let now = open(Settings { roots: vec![lab.path("other")], ..before.settings().clone() });
    assert_eq!(now.begin(target()).unwrap_err().reason(), Reason::Outside);
    let off = open(Settings { roots: vec![], ..before.settings().clone() });
    assert_eq!(off.begin(target()).unwrap_err().reason(), Reason::Disabled);
    let still = open(before.settings().clone());
    let kept = target();
    fs::set_permissions(&lab.root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(still.begin(kept).unwrap_err().reason(), Reason::RootUntrusted);
    assert!(is_empty(&lab.root));
}

#[test]
fn of_two_saves_in_two_processes_exactly_one_wins() {
    let ways: [(&str, &[(Call, i32)]); 4] = [
        ("nameless and link", &[]),
        ("through /proc", &[(Call::LinkHandle, libc::ENOENT)]),
        ("named and rename", &[(Call::OpenNameless, libc::EOPNOTSUPP)]),
        ("link and unlink", &[(Call::OpenNameless, libc::EOPNOTSUPP), (Call::RenameNew, libc::EINVAL)]),
    ];
    for (way, faults) in ways {
        let lab = Lab::new();
        for round in 0..60 {
            let path = lab.at(&format!("r{round}.txt"));
            let start = Barrier::new(2);
            let run = |byte: u8| {
                let faults = faults.to_vec();
                let hook =
                    Hook::new(move |call| faults.iter().find(|(at, _)| *at == call).map(|(_, code)| *code));
                let roots = open(Settings { hook: Some(hook), ..separate(&lab).settings().clone() });
                let payload = vec![byte; 64 << 10];
                let mut writer = roots.begin(roots.preflight(&path, false, &NoLedger).unwrap()).unwrap();
                writer.put(&payload).unwrap();
                start.wait();
                (writer.commit(), payload)
            };
            let results = thread::scope(|scope| {
                let threads = [b'A', b'B'].map(|byte| scope.spawn(move || run(byte)));
                threads.map(|thread| thread.join().unwrap())
            });
            let won = results.iter().filter(|(result, _)| result.is_ok()).count();
            assert_eq!(won, 1, "{way}: {results:?}");
            for (result, payload) in results {
                match result {
                    Ok(saved) => assert_saved(&saved, &payload),
                    Err(error) => assert_eq!(error.reason(), Reason::Exists, "{way}: {error}"),
                }
            }
        }
    }
}

#[test]
fn overwriting_by_several_processes_leaves_one_whole_file() {
    let lab = Lab::new();
    fs::write(lab.root.join("x"), "old").unwrap();
    let run = |byte: u8| {
        let roots = separate(&lab);
        let mut good = 0;
        for _ in 0..60 {
            good += usize::from(save(&roots, &lab.at("x"), true, &vec![byte; 10_000]).is_ok());
        }
        good
    };
    let good: usize = thread::scope(|scope| {
        let threads = [b'A', b'B', b'C'].map(|byte| scope.spawn(move || run(byte)));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert!(good > 0);
    let bytes = fs::read(lab.root.join("x")).unwrap();
    assert!(bytes.len() == 10_000 && bytes.iter().all(|byte| *byte == bytes[0]), "one whole file");
    assert_eq!(temporaries(&lab.root), Vec::<String>::new(), "{good} saved");
}

#[test]
fn a_second_call_for_a_target_that_is_being_written_is_refused_early() {
    let lab = Lab::new();
    let roots = lab.roots();
    let other = roots.reopen(roots.settings().clone()).unwrap();
    let target = roots.preflight(&lab.at("a/x"), false, &NoLedger).unwrap();
    for roots in [&roots, &other] {
        let error = roots.preflight(&lab.at("a/x"), true, &NoLedger).unwrap_err();
        assert_eq!(error.reason(), Reason::Busy, "{error}");
    }
    let neighbour = roots.preflight(&lab.at("a/y"), false, &NoLedger).unwrap();
    let mut writer = roots.begin(target).unwrap();
    // The directory exists by now, so the same target has another directory and name.
    let error = roots.preflight(&lab.at("a/x"), false, &NoLedger).unwrap_err();
    assert_eq!(error.reason(), Reason::Busy, "{error}");
    writer.put(b"x").unwrap();
    writer.commit().unwrap();
    assert_eq!(roots.preflight(&lab.at("a/x"), false, &NoLedger).unwrap_err().reason(), Reason::Exists);
    drop(neighbour);
    drop(roots.preflight(&lab.at("a/y"), false, &NoLedger).unwrap());
}

#[test]
fn many_calls_for_one_target_in_one_process_let_one_through() {
    let lab = Lab::new();
    let roots = lab.roots();
    for round in 0..50 {
        let path = lab.at(&format!("n{round}"));
        let start = Barrier::new(4);
        let good = thread::scope(|scope| {
            let run = || {
                start.wait();
                save(&roots, &path, false, b"x")
            };
            let threads = [(); 4].map(|()| scope.spawn(run));
            let results = threads.map(|thread| thread.join().unwrap());
            for error in results.iter().filter_map(|result| result.as_ref().err()) {
                assert!(matches!(error.reason(), Reason::Busy | Reason::Exists), "{error}");
            }
            results.iter().filter(|result| result.is_ok()).count()
        });
        assert_eq!(good, 1);
    }
}

#[test]
fn planted_names_of_temporaries_are_never_written_through() {
    let lab = Lab::new();
    let victim = lab.outside.join("v");
    fs::write(&victim, "untouched").unwrap();
    for seed in 0..1000_u128 {
        symlink(&victim, lab.root.join(outputfile::name::temporary(seed.to_be_bytes()))).unwrap();
    }
    let roots = lab.hooked(common::failing(Call::OpenNameless, libc::EOPNOTSUPP));
    let target = roots.preflight(&lab.at("x.txt"), false, &NoLedger).unwrap();
    let mut writer = roots.begin(target).unwrap();
    writer.put(b"x").unwrap();
    let saved = writer.commit().unwrap();
    assert_eq!(fs::read(&saved.path).unwrap(), b"x");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    assert_eq!(temporaries(&lab.root).len(), 1000, "links are left alone");
}

#[test]
fn what_came_out_of_an_exchange_must_be_the_file_that_was_checked() {
    if common::forces(&["link"]) {
        return common::skip("it is about exchanging names");
    }
    for (planted, overwrites) in [("a regular file", true), ("a directory", false), ("a link", false)] {
        let lab = Lab::new();
        fs::write(lab.root.join("x"), "old").unwrap();
        let (at, outside) = (lab.root.join("x"), lab.outside.clone());
        let exchanges = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&exchanges);
        let plant = once(Call::Exchange, move || {
            fs::remove_file(&at).unwrap();
            match planted {
                "a regular file" => fs::write(&at, "another").unwrap(),
                "a directory" => fs::create_dir(&at).unwrap(),
                _ => symlink(&outside, &at).unwrap(),
            }
        });
        let roots = lab.hooked(move |call| {
            seen.fetch_add(usize::from(call == Call::Exchange), Ordering::SeqCst);
            plant(call)
        });
        let result = save(&roots, &lab.at("x"), true, b"new");
        if overwrites {
            // It was put back, looked at again, and replaced as the file that it now is.
            assert_saved(&result.unwrap(), b"new");
            assert_eq!(exchanges.load(Ordering::SeqCst), 3);
        } else {
            assert_eq!(result.unwrap_err().reason(), Reason::TargetKind, "{planted}");
            assert!(!fs::symlink_metadata(lab.root.join("x")).unwrap().is_file(), "{planted} is still there");
        }
        assert_eq!(temporaries(&lab.root), Vec::<String>::new(), "{planted}");
        assert!(is_empty(&lab.outside));
    }
}

#[test]
fn a_file_that_appears_or_goes_away_at_the_last_moment_is_dealt_with() {
    let lab = Lab::new();
    let at = lab.root.join("x");
    let appear = {
        let at = at.clone();
        move || fs::write(&at, "theirs").unwrap()
    };
    let roots = lab.hooked(once_of(&NAMING, appear.clone()));
    assert_eq!(save(&roots, &lab.at("x"), false, b"ours").unwrap_err().reason(), Reason::Exists);
    assert_eq!(fs::read_to_string(&at).unwrap(), "theirs");
    fs::remove_file(&at).unwrap();
    let roots = lab.hooked(once_of(&NAMING, appear));
    assert_saved(&save(&roots, &lab.at("x"), true, b"ours").unwrap(), b"ours");
    let roots = lab.hooked(once(Call::Exchange, move || fs::remove_file(&at).unwrap()));
    let again = save(&roots, &lab.at("x"), true, b"again").unwrap();
    assert_saved(&again, b"again");
    assert!(text(&again.path).ends_with("root/x"));
}

#[test]
fn what_moved_before_the_file_is_published_gets_no_name_at_all() {
    for which in ["root", "parent"] {
        let lab = Lab::new();
        make(&lab.root.join("a"), 0o700);
        let (from, to) = match which {
            "root" => (lab.root.clone(), lab.path("away")),
            _ => (lab.root.join("a"), lab.root.join("away")),
        };
        let swap = once(Call::SyncFile, move || fs::rename(&from, &to).unwrap());
        let named = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&named);
        let roots = lab.hooked(move |call| {
            seen.fetch_or(NAMING.contains(&call), Ordering::SeqCst);
            swap(call)
        });
        let error = save(&roots, &lab.at("a/x"), false, b"x").unwrap_err();
        assert_eq!(error.reason(), Reason::RootMoved, "{which}: {error}");
        assert!(!named.load(Ordering::SeqCst), "{which}: the file never had a name");
    }
}

#[test]
fn the_handle_of_a_root_must_be_what_the_kernel_finds_at_its_path() {
    let lab = Lab::new();
    let (root, gone, outside) = (lab.root.clone(), lab.path("gone"), lab.outside.clone());
    let roots = lab.hooked(once(Call::StatPath, move || {
        fs::rename(&root, &gone).unwrap();
        symlink(&outside, &root).unwrap();
    }));
    let error = roots.preflight(&lab.at("x"), false, &NoLedger).unwrap_err();
    assert_eq!(error.reason(), Reason::RootMoved, "{error}");
}

#[test]
fn a_target_that_another_call_reached_by_a_directory_made_meanwhile_is_busy() {
    let lab = Lab::new();
    let roots = lab.roots();
    let first = roots.preflight(&lab.at("a/x"), false, &NoLedger).unwrap();
    make(&lab.root.join("a"), 0o700);
    let second = roots.preflight(&lab.at("a/x"), false, &NoLedger).unwrap();
    assert_eq!(roots.begin(first).unwrap_err().reason(), Reason::Busy);
    roots.begin(second).unwrap().commit().unwrap();
}
