//! Disks that are full, read-only or forgetful, limits, mounts, and signals.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{
    Lab, Mount, NAMING, assert_refused, assert_saved, failing, is_empty, make, mode, open, save, saved, skip,
    text,
};
use outputfile::{Call, Hook, NoLedger, Reason, SaveError, Settings};

#[test]
fn a_disk_that_fills_up_leaves_the_old_file_and_nothing_else() {
    for nameless in [true, false] {
        let lab = Lab::new();
        let Some(_mount) = Mount::tmpfs(&lab.root, "size=1m,mode=700") else { return };
        fs::write(lab.root.join("x"), "old").unwrap();
        assert_refused(&lab, &lab.roots(), &lab.at("x"), true, Reason::Space);
        let hook =
            Hook::new(move |call| (!nameless && call == Call::OpenNameless).then_some(libc::EOPNOTSUPP));
        let roots = open(Settings { min_free_bytes: 0, hook: Some(hook), ..lab.settings() });
        let free = || rustix::fs::statvfs(&lab.root).unwrap().f_bfree;
        let before = free();
        for path in ["x", "new/deep/y"] {
            let error = save(&roots, &lab.at(path), true, &vec![1; 5 << 20]).unwrap_err();
            assert_eq!(error.reason(), Reason::Space, "{error}");
            assert!(error.to_string().contains("no space left"), "{error}");
        }
        assert_eq!(fs::read_to_string(lab.root.join("x")).unwrap(), "old");
        assert_eq!(fs::read_dir(&lab.root).unwrap().count(), 1);
        // A process that another test begins at this moment has our open files until it becomes another program.
        for _ in 0..200 {
            if free() != before {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        assert_eq!(free(), before);
    }
}

#[test]
fn a_quota_is_called_a_quota() {
    let lab = Lab::new();
    let writes = AtomicUsize::new(0);
    let hook = move |call| {
        (call == Call::Write && writes.fetch_add(1, Ordering::SeqCst) > 0).then_some(libc::EDQUOT)
    };
    let error = save(&lab.hooked(hook), &lab.at("x"), false, &vec![1; 256 << 10]).unwrap_err();
    assert_eq!(error.reason(), Reason::Quota);
    assert!(error.to_string().contains("quota"), "{error}");
    assert!(is_empty(&lab.root));
}

#[test]
fn a_disk_that_cannot_sync_a_directory_is_fine_and_one_that_fails_to_is_told() {
    let lab = Lab::new();
    for (number, code) in [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOSYS].iter().enumerate() {
        saved(&lab.hooked(failing(Call::SyncDirectory, *code)), &lab.at(&format!("x{number}")), false, b"x");
    }
    let error =
        save(&lab.hooked(failing(Call::SyncDirectory, libc::EIO)), &lab.at("y"), false, b"y").unwrap_err();
    assert_eq!(error.reason(), Reason::NotDurable);
    assert!(error.to_string().contains("may not survive a power cut"), "{error}");
    assert_saved(error.saved().expect("the file"), b"y");
    let error = save(&lab.hooked(failing(Call::SyncFile, libc::EIO)), &lab.at("z"), false, b"z").unwrap_err();
    assert!(matches!(error, SaveError::Io { .. }) && !lab.root.join("z").exists(), "{error}");
}

#[test]
fn bytes_are_durable_before_the_name_and_the_name_before_success() {
    for nameless in [true, false] {
        let lab = Lab::new();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let roots = lab.hooked(move |call| {
            seen.lock().unwrap().push(call);
            (!nameless && call == Call::OpenNameless).then_some(libc::EOPNOTSUPP)
        });
        saved(&roots, &lab.at("a/b/x"), false, b"x");
        let calls = calls.lock().unwrap();
        let at = |wanted: &[Call]| {
            calls.iter().position(|call| wanted.contains(call)).unwrap_or_else(|| panic!("{wanted:?}"))
        };
        let (written, named) = (at(&[Call::SyncFile]), at(&NAMING));
        assert!(at(&[Call::Write]) < written && written < named, "{calls:?}");
        assert!(named < at(&[Call::SyncDirectory]), "{calls:?}");
        let synced = calls.iter().filter(|call| **call == Call::SyncDirectory).count();
        assert_eq!(synced, 3, "the directory, and those above the two that were made");
    }
}

#[test]
fn a_read_only_disk_is_refused_before_the_call() {
    let lab = Lab::new();
    let source = lab.path("source");
    make(&source, 0o700);
    let Some(_mount) = Mount::read_only(&source, &lab.root) else { return };
    for path in ["x", "new/x"] {
        let message = assert_refused(&lab, &lab.roots(), &lab.at(path), false, Reason::ReadOnly);
        assert!(message.contains("read-only"), "{message}");
    }
}

#[test]
fn a_mount_inside_a_root_is_refused_before_the_call_and_may_be_a_root_itself() {
    for by_hand in [false, true] {
        let lab = Lab::new();
        make(&lab.root.join("m"), 0o700);
        let hook = move |call| (by_hand && call == Call::OpenBeneath).then_some(libc::ENOSYS);
        let Some(_mount) = Mount::tmpfs(&lab.root.join("m"), "mode=700") else { return };
        for path in ["m/x.txt", "m/a/b/x"] {
            let message = assert_refused(&lab, &lab.hooked(hook), &lab.at(path), false, Reason::Mount);
            assert!(message.contains("root of its own"), "{message}");
        }
        // A directory of the same file system mounted there has the same device: it is a mount all the same.
        make(&lab.root.join("b"), 0o700);
        let Some(_bind) = Mount::bind(&lab.outside, &lab.root.join("b")) else { return };
        assert_refused(&lab, &lab.hooked(hook), &lab.at("b/x"), false, Reason::Mount);
        let own = open(Settings { roots: vec![lab.root.join("m")], ..Settings::default() });
        saved(&own, &lab.at("m/x.txt"), false, b"x");
        saved(&lab.hooked(hook), &lab.at("beside/x.txt"), false, b"x");
    }
}

#[test]
fn the_walk_by_hand_refuses_what_the_kernel_refuses() {
    let lab = Lab::new();
    std::os::unix::fs::symlink(&lab.outside, lab.root.join("l")).unwrap();
    fs::write(lab.root.join("file"), "x").unwrap();
    make(&lab.root.join("d"), 0o700);
    for code in [libc::ENOSYS, libc::EPERM] {
        let roots = lab.hooked(failing(Call::OpenBeneath, code));
        assert_refused(&lab, &roots, &lab.at("l/x"), true, Reason::Outside);
        assert_refused(&lab, &roots, &lab.at("file/x"), true, Reason::TargetKind);
        saved(&roots, &lab.at("d/x"), true, b"x");
    }
    let busy = lab.hooked(failing(Call::OpenBeneath, libc::EAGAIN));
    assert_refused(&lab, &busy, &lab.at("d/x"), true, Reason::Io);
    let tries = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&tries);
    let hook = move |call| {
        (call == Call::OpenBeneath && seen.fetch_add(1, Ordering::SeqCst) < 5).then_some(libc::EAGAIN)
    };
    saved(&lab.hooked(hook), &lab.at("d/x"), true, b"x");
}

/// Each way of publishing, with what must fail for it to be used, and whether it copies.
const WAYS: [(&str, &[(Call, i32)]); 8] = [
    ("nameless, linked by its handle", &[]),
    ("nameless, linked through /proc", &[(Call::LinkHandle, libc::ENOENT)]),
    ("nameless, copied", &[(Call::LinkHandle, libc::ENOENT), (Call::LinkThroughProc, libc::ENOENT)]),
    ("named, renamed", &[(Call::OpenNameless, libc::EOPNOTSUPP)]),
    ("named, linked", &[(Call::OpenNameless, libc::EISDIR), (Call::RenameNew, libc::EINVAL)]),
    ("no exchange", &[(Call::Exchange, libc::EINVAL)]),
    ("named, no exchange", &[(Call::OpenNameless, libc::EINVAL), (Call::Exchange, libc::ENOSYS)]),
    ("no locks", &[(Call::OpenNameless, libc::ENOSYS), (Call::Lock, libc::ENOLCK)]),
];

fn with(faults: &'static [(Call, i32)]) -> impl Fn(Call) -> Option<i32> + Send + Sync + 'static {
    move |call| faults.iter().find(|(at, _)| *at == call).map(|(_, code)| *code)
}

#[test]
fn every_way_of_publishing_keeps_the_same_promises() {
    for (way, faults) in WAYS {
        let lab = Lab::new();
        let roots = lab.hooked(with(faults));
        let bytes = vec![3; 300_000];
        for round in 0..2 {
            let path = lab.at(&format!("x{round}"));
            assert!(!saved(&roots, &path, false, &bytes).replaced, "{way}");
            assert_eq!(save(&roots, &path, false, b"other").unwrap_err().reason(), Reason::Exists, "{way}");
            let writer = |overwrite| {
                let other = open(Settings { reservations: Default::default(), ..roots.settings().clone() });
                let mut writer =
                    other.begin(other.preflight(&lab.at("late"), overwrite, &NoLedger).unwrap()).unwrap();
                writer.put(b"late").unwrap();
                writer
            };
            let late = writer(false);
            fs::write(lab.root.join("late"), "first").unwrap();
            assert_eq!(late.commit().unwrap_err().reason(), Reason::Exists, "{way}");
            assert_eq!(fs::read_to_string(lab.root.join("late")).unwrap(), "first");
            fs::remove_file(lab.root.join("late")).unwrap();
            let late = writer(true);
            fs::write(lab.root.join("late"), "first").unwrap();
            assert_saved(&late.commit().unwrap(), b"late");
            fs::remove_file(lab.root.join("late")).unwrap();
            let over = saved(&roots, &path, true, b"over");
            assert!(over.replaced && mode(&over.path) == 0o600, "{way}");
            drop(roots.begin(roots.preflight(&lab.at("given/up"), false, &NoLedger).unwrap()).unwrap());
        }
        let left: Vec<_> = fs::read_dir(&lab.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{way}: {left:?}");
    }
}

#[test]
fn a_file_system_without_any_safe_way_is_refused_by_name_and_remembered_for_its_mount() {
    let lab = Lab::new();
    let hook = with(&[
        (Call::OpenNameless, libc::EOPNOTSUPP),
        (Call::RenameNew, libc::EINVAL),
        (Call::LinkName, libc::EPERM),
    ]);
    let roots = lab.hooked(hook);
    let error = save(&roots, &lab.at("x"), false, b"x").unwrap_err();
    let kind = rustix::fs::statfs(&lab.root).unwrap().f_type;
    assert!(matches!(error, SaveError::NoPublish { .. }), "{error}");
    if kind == 0xef53 {
        assert!(error.to_string().contains("ext4"), "{error}");
    }
    assert!(is_empty(&lab.root));
    let error = common::refused(&lab, &roots, &lab.at("x"), false);
    assert!(matches!(error, SaveError::NoPublish { .. }), "before the call from now on: {error}");
    let Some(_mount) = Mount::tmpfs(&lab.outside, "mode=700") else { return };
    let elsewhere =
        open(Settings { roots: vec![lab.outside.clone()], hook: None, ..roots.settings().clone() });
    saved(&elsewhere, text(&lab.outside.join("x")), false, b"another mount is not meant");
}

#[test]
fn what_one_root_does_not_have_is_not_held_against_another() {
    if common::forces(&["rename", "link"]) {
        return skip("it is about nameless files");
    }
    for code in [libc::EOPNOTSUPP, libc::EISDIR, libc::EINVAL, libc::ENOSYS] {
        let lab = Lab::new();
        let both =
            |hook| Settings { roots: vec![lab.root.clone(), lab.outside.clone()], hook, ..lab.settings() };
        let first = open(both(Some(Hook::new(failing(Call::OpenNameless, code)))));
        saved(&first, &lab.at("x"), false, b"x");
        let named = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&named);
        let count = move |call| {
            seen.fetch_add(usize::from(call == Call::OpenNamed), Ordering::SeqCst);
            None
        };
        let second = open(Settings {
            reservations: first.settings().reservations.clone(),
            ..both(Some(Hook::new(count)))
        });
        saved(&second, text(&lab.outside.join("x")), false, b"x");
        assert_eq!(named.load(Ordering::SeqCst), 0, "nameless there");
    }
}

#[test]
fn an_overlay_and_a_memory_disk_work() {
    let lab = Lab::new();
    for dir in ["lower", "upper", "work"] {
        make(&lab.outside.join(dir), 0o700);
    }
    fs::write(lab.outside.join("lower/old"), "old").unwrap();
    let at = |name: &str| lab.outside.join(name);
    let Some(mount) = Mount::overlay(&lab.root, &at("lower"), &at("upper"), &at("work")) else { return };
    saved(&lab.roots(), &lab.at("a/x"), false, b"x");
    saved(&lab.roots(), &lab.at("a/x"), true, b"y");
    saved(&lab.roots(), &lab.at("old"), true, b"over the lower one");
    drop(mount);
    let Some(_mount) = Mount::tmpfs(&lab.root, "mode=700") else { return };
    let roots = open(Settings { min_free_bytes: 0, ..lab.settings() });
    saved(&roots, &lab.at("a/x"), false, b"x");
    saved(&roots, &lab.at("a/x"), true, b"y");
}

#[test]
fn the_limit_counts_bytes_and_tells_both_numbers() {
    let lab = Lab::new();
    let roots = open(Settings { max_bytes: 1000, ..lab.settings() });
    saved(&roots, &lab.at("fits"), false, &[b'a'; 1000]);
    let euros = "€".repeat(334);
    for bytes in [&[b'a'; 1001][..], euros.as_bytes()] {
        let error = save(&roots, &lab.at("over/x"), false, bytes).unwrap_err();
        assert_eq!(error.reason(), Reason::TooLarge);
        let message = error.to_string();
        assert!(message.contains("1000") && message.contains(&bytes.len().to_string()), "{message}");
        assert!(!lab.root.join("over").exists());
    }
    let begin = || roots.begin(roots.preflight(&lab.at("pieces"), false, &NoLedger).unwrap()).unwrap();
    let mut writer = begin();
    for _ in 0..10 {
        writer.put(&[1; 100]).unwrap();
    }
    assert_eq!(writer.put(&[1]).unwrap_err().reason(), Reason::TooLarge);
    assert!(matches!(writer.put(&[1]), Err(SaveError::Spent { .. })));
    assert!(writer.commit().is_err() && !lab.root.join("pieces").exists());
    writer = begin();
    writer.expect_bytes(1000).unwrap();
    let message = writer.expect_bytes(123_456).unwrap_err().to_string();
    assert!(message.contains("123456") && !message.contains("at least"), "{message}");
    drop(writer);
    let mut writer = begin();
    let inner = writer.write_all(&[0; 2000]).unwrap_err();
    let inner =
        inner.get_ref().and_then(|inner| inner.downcast_ref::<SaveError>()).expect("the error of ours");
    assert_eq!(inner.reason(), Reason::TooLarge);
    let usual = open(Settings { max_bytes: 0, ..lab.settings() });
    assert_eq!(usual.settings().file_limit(), outputfile::DEFAULT_MAX_BYTES);
    let mut writer = usual.begin(usual.preflight(&lab.at("usual"), false, &NoLedger).unwrap()).unwrap();
    assert!(writer.expect_bytes(52_428_800).is_ok() && writer.expect_bytes(52_428_801).is_err());
}

#[test]
fn a_file_size_limit_is_an_error_and_not_the_end() {
    const TEST: &str = "a_file_size_limit_is_an_error_and_not_the_end";
    if common::task().is_some() {
        let dir = PathBuf::from(std::env::var_os("OUTPUTFILE_DIR").unwrap());
        let limit = rustix::process::Rlimit { current: Some(64 << 10), maximum: None };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        // SAFETY: sets how a signal is dealt with; no handler of ours runs.
        #[allow(unsafe_code)]
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
        let roots = open(Settings { roots: vec![dir.clone()], ..Settings::default() });
        let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        // The writes come in pieces that end short of the limit: the system takes a part of one.
        let error = save(&roots, &at("x"), false, &vec![1; 1 << 20]).unwrap_err();
        assert!(matches!(error, SaveError::FileLimit { .. }), "{error}");
        let mut writer = roots.begin(roots.preflight(&at("short"), false, &NoLedger).unwrap()).unwrap();
        writer.put(&vec![1; 60_000]).unwrap();
        assert!(matches!(writer.put(&vec![1; 10_000]), Err(SaveError::FileLimit { .. })));
        drop(writer);
        assert!(is_empty(&dir));
        saved(&roots, &at("small"), false, &vec![1; 64 << 10]);
        return;
    }
    let lab = Lab::new();
    let mut child = common::again(TEST, "limit");
    child.env("OUTPUTFILE_DIR", &lab.root);
    common::finish(child);
}

#[test]
fn interrupted_calls_are_made_again() {
    let lab = Lab::new();
    let asked = AtomicUsize::new(0);
    // Two of three calls, whatever they are, are interrupted.
    let roots = lab.hooked(move |_| (asked.fetch_add(1, Ordering::SeqCst) % 3 != 2).then_some(libc::EINTR));
    saved(&roots, &lab.at("a/x"), false, &vec![5; 300_000]);
    saved(&roots, &lab.at("a/x"), true, b"y");
}

#[test]
fn leftovers_are_removed_by_the_next_save_and_locked_ones_are_not() {
    let lab = Lab::new();
    let name = |number: u128| lab.root.join(outputfile::name::temporary(number.to_be_bytes()));
    for number in 0..5 {
        fs::write(name(number), "left").unwrap();
    }
    fs::write(lab.root.join(".mcpproxy-mine.tmp"), "not of this form").unwrap();
    make(&name(77), 0o700);
    let living = fs::File::open(name(3)).unwrap();
    living.lock().unwrap();
    if common::is_root() {
        std::os::unix::fs::chown(name(4), Some(65534), None).unwrap();
    }
    let saved = save(&lab.roots(), &lab.at("x"), false, b"x").unwrap();
    assert_eq!(fs::read(&saved.path).unwrap(), b"x");
    assert!(name(3).exists() && name(77).exists() && lab.root.join(".mcpproxy-mine.tmp").exists());
    assert!(![0, 1, 2].iter().any(|number| name(*number).exists()));
    assert_eq!(name(4).exists(), common::is_root(), "another user's is left alone");
}

#[test]
fn too_little_room_is_refused_before_the_call() {
    let lab = Lab::new();
    let roots = |min_free_bytes| open(Settings { min_free_bytes, ..lab.settings() });
    let message = assert_refused(&lab, &roots(u64::MAX), &lab.at("x"), false, Reason::Space);
    assert!(message.contains("tool_output_min_free_bytes"), "{message}");
    drop(roots(0).preflight(&lab.at("x"), false, &NoLedger).unwrap());
}

#[test]
fn a_name_that_the_disk_does_not_take_is_refused_before_the_call() {
    let lab = Lab::new();
    saved(&lab.roots(), &lab.at(&"n".repeat(255)), false, b"x");
    saved(&lab.roots(), &lab.at(&format!("{}/x", "d".repeat(255))), false, b"x");
    assert_refused(&lab, &lab.roots(), &lab.at(&"n".repeat(256)), false, Reason::Path);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing_and_frees_the_target() {
    let lab = Lab::new();
    for nameless in [true, false] {
        let roots =
            lab.hooked(move |call| (!nameless && call == Call::OpenNameless).then_some(libc::EOPNOTSUPP));
        let mut writer = roots.begin(roots.preflight(&lab.at("a/b/x"), false, &NoLedger).unwrap()).unwrap();
        writer.put(b"half").unwrap();
        assert!(Path::new(&lab.root.join("a/b")).is_dir());
        drop(writer);
        assert!(is_empty(&lab.root));
        drop(roots.preflight(&lab.at("a/b/x"), false, &NoLedger).unwrap());
    }
}

#[test]
fn directories_that_another_save_uses_are_not_removed() {
    let lab = Lab::new();
    let roots = lab.roots();
    let writer = |name: &str| roots.begin(roots.preflight(&lab.at(name), false, &NoLedger).unwrap()).unwrap();
    let first = writer("d/first");
    let second = writer("d/second");
    drop(first);
    let saved = second.commit().unwrap();
    assert_saved(&saved, b"");
}
