//! A saved file is opened and removed again only if it still is the one that was saved.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use common::{Lab, Mount, is_root, once, open, saved, skip, text};
use outputfile::{Call, Expected, ReadError, Roots, Saved, Settings};

const TEXT: &[u8] = b"the whole answer, all of it";

fn expected(saved: &Saved) -> Expected {
    Expected { identity: saved.identity, sha256: saved.sha256, bytes: saved.bytes }
}

fn reopened(roots: &Roots, saved: &Saved) -> Result<Vec<u8>, ReadError> {
    let mut file = roots.reopen_saved(text(&saved.path), &expected(saved))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

/// Reading, verifying and removing all refuse, and what stands there is untouched.
fn refused(lab: &Lab, roots: &Roots, saved: &Saved, what: &str) -> ReadError {
    let before = common::tree(lab.dir.path());
    let (path, expected) = (text(&saved.path), expected(saved));
    assert!(roots.verify_saved(path, &expected).is_err(), "{what}: verified");
    assert!(roots.remove_saved(path, &expected).is_err(), "{what}: removed");
    let Err(error) = roots.reopen_saved(path, &expected) else { panic!("{what}: opened") };
    assert_eq!(common::tree(lab.dir.path()), before, "{what}: something was changed");
    error
}

fn changed(lab: &Lab, roots: &Roots, saved: &Saved, what: &str) {
    let error = refused(lab, roots, saved, what);
    assert!(error.is_change(), "{what}: {error}");
    assert!(error.to_string().contains("changed since it was saved"), "{what}: {error}");
}

fn replace(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_untouched_file_is_read_verified_and_removed() {
    let lab = Lab::new();
    let roots = lab.roots();
    for name in ["a.txt", "deep/er/b.txt", "empty"] {
        let bytes = if name == "empty" { b"" } else { TEXT };
        let saved = saved(&roots, &lab.at(name), false, bytes);
        let file = roots.reopen_saved(text(&saved.path), &expected(&saved)).unwrap();
        assert_eq!((file.identity(), file.size()), (saved.identity, saved.bytes));
        assert_eq!(reopened(&roots, &saved).unwrap(), bytes, "{name}");
        assert_eq!(roots.verify_saved(text(&saved.path), &expected(&saved)).unwrap(), saved.identity);
        roots.remove_saved(text(&saved.path), &expected(&saved)).unwrap();
        assert!(!saved.path.exists(), "{name}");
        assert!(matches!(refused(&lab, &roots, &saved, name), ReadError::Gone { .. }), "{name}");
    }
}

#[test]
fn the_same_bytes_in_another_file_are_the_same_by_their_hash() {
    let lab = Lab::new();
    let roots = lab.roots();
    let body: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    type Touch = fn(&Path, &[u8]);
    let touches: [(&str, Touch); 4] = [
        ("replaced by a copy", |path, bytes| replace(path, bytes)),
        ("written again", |path, bytes| fs::write(path, bytes).unwrap()),
        ("its mode changed", |path, _| fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap()),
        ("a second name for it", |path, _| fs::hard_link(path, path.with_extension("second")).unwrap()),
    ];
    for (number, (what, touch)) in touches.into_iter().enumerate() {
        let saved = saved(&roots, &lab.at(&format!("f{number}")), false, &body);
        touch(&saved.path, &body);
        assert!(reopened(&roots, &saved).unwrap() == body, "{what}");
        roots.verify_saved(text(&saved.path), &expected(&saved)).unwrap();
        roots.remove_saved(text(&saved.path), &expected(&saved)).unwrap();
        assert!(!saved.path.exists(), "{what}");
        let second = saved.path.with_extension("second");
        assert!(!second.exists() || fs::read(&second).unwrap() == body, "{what}: only its own name goes");
    }
}

#[test]
fn another_content_is_refused_whatever_its_size() {
    let lab = Lab::new();
    let roots = lab.roots();
    let other: Vec<u8> = TEXT.iter().map(|byte| byte ^ 1).collect();
    let longer = [TEXT, b"!"].concat();
    let contents: [(&str, &[u8]); 4] =
        [("same size", &other), ("longer", &longer), ("truncated", &TEXT[..5]), ("empty", b"")];
    for (what, content) in contents {
        for in_place in [true, false] {
            let saved = saved(&roots, &lab.at("file"), true, TEXT);
            if in_place {
                fs::write(&saved.path, content).unwrap();
            } else {
                replace(&saved.path, content);
            }
            changed(&lab, &roots, &saved, what);
        }
    }
}

#[test]
fn a_wrong_record_of_the_size_gives_nothing() {
    let lab = Lab::new();
    let roots = lab.roots();
    let saved = saved(&roots, &lab.at("file"), false, TEXT);
    let wrong = Expected { bytes: saved.bytes + 1, ..expected(&saved) };
    assert!(roots.reopen_saved(text(&saved.path), &wrong).unwrap_err().is_change());
    let wrong = Expected { sha256: [0; 32], ..expected(&saved) };
    assert!(
        roots.verify_saved(text(&saved.path), &wrong).unwrap_err().is_change(),
        "verifying reads the bytes"
    );
}

#[test]
fn what_is_no_regular_file_is_neither_opened_nor_removed() {
    let lab = Lab::new();
    let roots = lab.roots();
    fs::write(lab.outside.join("secret"), TEXT).unwrap();
    type Put = fn(&Lab, &Path);
    let kinds: [(&str, Put); 5] = [
        ("a link to a copy outside", |lab, path| symlink(lab.outside.join("secret"), path).unwrap()),
        ("a link to itself moved", |lab, path| {
            fs::write(lab.root.join("moved"), TEXT).unwrap();
            symlink("moved", path).unwrap();
        }),
        ("a directory", |_, path| fs::create_dir(path).unwrap()),
        ("a pipe", |_, path| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        ("a socket", |_, path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    ];
    for (number, (what, put)) in kinds.into_iter().enumerate() {
        let saved = saved(&roots, &lab.at(&format!("k{number}")), false, TEXT);
        fs::remove_file(&saved.path).unwrap();
        put(&lab, &saved.path);
        changed(&lab, &roots, &saved, what);
    }
}

#[test]
fn a_directory_that_became_a_link_or_was_moved_is_not_followed() {
    let lab = Lab::new();
    let roots = lab.roots();
    let saved = saved(&roots, &lab.at("d/e/file"), false, TEXT);
    fs::rename(lab.root.join("d"), lab.root.join("moved")).unwrap();
    changed(&lab, &roots, &saved, "moved away");
    symlink("moved", lab.root.join("d")).unwrap();
    changed(&lab, &roots, &saved, "a link inside the root");
    fs::remove_file(lab.root.join("d")).unwrap();
    fs::create_dir(lab.outside.join("e")).unwrap();
    fs::write(lab.outside.join("e/file"), TEXT).unwrap();
    symlink(&lab.outside, lab.root.join("d")).unwrap();
    changed(&lab, &roots, &saved, "a link to outside");
    fs::remove_file(lab.root.join("d")).unwrap();
    fs::write(lab.root.join("d"), "x").unwrap();
    changed(&lab, &roots, &saved, "a file in place of a directory");
    fs::remove_file(lab.root.join("d")).unwrap();
    fs::rename(lab.root.join("moved"), lab.root.join("d")).unwrap();
    assert_eq!(reopened(&roots, &saved).unwrap(), TEXT, "moved back");
}

#[test]
fn a_root_that_is_not_configured_any_more_opens_nothing() {
    let lab = Lab::new();
    let saved = saved(&lab.roots(), &lab.at("file"), false, TEXT);
    let other = open(Settings { roots: vec![lab.outside.clone()], ..Settings::default() });
    for roots in [other, open(Settings::default())] {
        let error = refused(&lab, &roots, &saved, "no root");
        assert!(matches!(error, ReadError::NoRoot { .. }), "{error}");
        assert!(error.to_string().contains("tool_output_roots"), "{error}");
    }
    fs::set_permissions(&lab.root, fs::Permissions::from_mode(0o777)).unwrap();
    let error = refused(&lab, &lab.roots(), &saved, "a root that everybody may write to");
    assert!(matches!(error, ReadError::Root(_)), "{error}");
}

#[test]
fn a_root_that_was_swapped_for_another_directory_is_judged_by_the_file() {
    let lab = Lab::new();
    let roots = lab.roots();
    let saved = saved(&roots, &lab.at("file"), false, TEXT);
    fs::rename(&lab.root, lab.path("elsewhere")).unwrap();
    assert!(matches!(refused(&lab, &roots, &saved, "root gone"), ReadError::Gone { .. }));
    common::make(&lab.root, 0o700);
    fs::write(&saved.path, "planted").unwrap();
    changed(&lab, &roots, &saved, "another root with another file");
    fs::remove_file(&saved.path).unwrap();
    fs::remove_dir(&lab.root).unwrap();
    symlink("elsewhere", &lab.root).unwrap();
    let error = refused(&lab, &roots, &saved, "the root is a link now");
    assert!(error.to_string().contains("reload"), "{error}");
}

#[test]
fn a_swap_between_the_test_and_the_removal_is_seen() {
    let lab = Lab::new();
    let first = saved(&lab.roots(), &lab.at("file"), false, TEXT);
    let (path, root) = (first.path.clone(), lab.root.clone());
    // The third look at the name is the one directly before it is removed.
    let seen = std::sync::atomic::AtomicBool::new(false);
    let roots = lab.hooked(move |call| {
        if call == Call::OpenExisting && !seen.swap(true, std::sync::atomic::Ordering::SeqCst) {
            return None;
        }
        if call == Call::Stat && seen.load(std::sync::atomic::Ordering::SeqCst) && !root.join("kept").exists()
        {
            fs::rename(&path, root.join("kept")).unwrap();
            fs::write(&path, "somebody else's").unwrap();
        }
        None
    });
    let error = roots.remove_saved(text(&first.path), &expected(&first)).unwrap_err();
    assert!(error.is_change(), "{error}");
    assert_eq!(fs::read(&first.path).unwrap(), b"somebody else's");
    assert_eq!(fs::read(lab.root.join("kept")).unwrap(), TEXT);
}

#[test]
fn a_file_that_is_changed_while_it_is_read_is_an_error_of_that_read() {
    let lab = Lab::new();
    let roots = lab.roots();
    let body = vec![b'x'; 300_000];
    let saved = saved(&roots, &lab.at("file"), false, &body);
    let mut file = roots.reopen_saved(text(&saved.path), &expected(&saved)).unwrap();
    let mut piece = [0; 1000];
    assert_eq!(file.read(&mut piece).unwrap(), 1000);
    let mut other = fs::OpenOptions::new().append(true).open(&saved.path).unwrap();
    std::io::Write::write_all(&mut other, b"more").unwrap();
    let error = file.read(&mut piece).unwrap_err();
    assert!(error.to_string().contains("changed since it was saved"), "{error}");
    fs::write(&saved.path, "").unwrap();
    assert!(file.read(&mut piece).is_err());
    // One that is changed while it is hashed.
    replace(&saved.path, &body);
    let path = saved.path.clone();
    let hooked = lab.hooked(once(Call::Read, move || fs::write(&path, "other").unwrap()));
    assert!(hooked.reopen_saved(text(&saved.path), &expected(&saved)).unwrap_err().is_change());
}

#[test]
fn a_file_that_a_call_is_writing_is_not_removed() {
    let lab = Lab::new();
    let roots = lab.roots();
    let saved = saved(&roots, &lab.at("file"), false, TEXT);
    let target = roots.preflight(text(&saved.path), true, &outputfile::NoLedger).unwrap();
    let error = roots.remove_saved(text(&saved.path), &expected(&saved)).unwrap_err();
    assert!(matches!(error, ReadError::Busy { .. }), "{error}");
    drop(target);
    roots.remove_saved(text(&saved.path), &expected(&saved)).unwrap();
}

#[test]
fn a_record_cannot_lead_out_of_the_root() {
    let lab = Lab::new();
    let roots = lab.roots();
    let saved = saved(&roots, &lab.at("file"), false, TEXT);
    fs::write(lab.outside.join("file"), TEXT).unwrap();
    for path in [
        lab.at("../outside/file"),
        text(&lab.outside.join("file")).to_owned(),
        "/etc/passwd".into(),
        "relative".into(),
        String::new(),
        lab.at(""),
        text(&lab.root).to_owned(),
    ] {
        assert!(roots.reopen_saved(&path, &expected(&saved)).is_err(), "{path:?}");
        assert!(roots.remove_saved(&path, &expected(&saved)).is_err(), "{path:?}");
    }
    assert!(lab.outside.join("file").exists() && saved.path.exists());
}

#[test]
fn a_mount_over_the_file_or_its_directory_is_a_change() {
    if !is_root() {
        return skip("mounting needs root");
    }
    let lab = Lab::new();
    let roots = lab.roots();
    let saved = saved(&roots, &lab.at("d/file"), false, TEXT);
    fs::write(lab.outside.join("file"), TEXT).unwrap();
    let Some(mount) = Mount::bind(&lab.outside, &lab.root.join("d")) else { return };
    changed(&lab, &roots, &saved, "over its directory");
    drop(mount);
    let Some(mount) = Mount::bind(&lab.outside.join("file"), &saved.path) else { return };
    changed(&lab, &roots, &saved, "over the file");
    drop(mount);
    assert_eq!(reopened(&roots, &saved).unwrap(), TEXT);
}

#[test]
fn errors_of_the_system_are_named_and_are_no_change() {
    let lab = Lab::new();
    let saved = saved(&lab.roots(), &lab.at("file"), false, TEXT);
    for call in [Call::OpenExisting, Call::Unlink] {
        let roots = lab.hooked(common::failing(call, libc::EIO));
        let error = roots.remove_saved(text(&saved.path), &expected(&saved)).unwrap_err();
        assert!(!error.is_change(), "{call:?}: {error}");
        assert!(saved.path.exists());
    }
    let roots = lab.hooked(common::failing(Call::Read, libc::EIO));
    let error = roots.verify_saved(text(&saved.path), &expected(&saved)).unwrap_err();
    assert!(matches!(error, ReadError::Io { .. }), "{error}");
}

#[test]
fn the_file_of_a_trusted_owner_is_read_and_removed_with_their_identity() {
    const NOBODY: u32 = 65534;
    if !is_root() {
        return skip("needs root to act as others");
    }
    let lab = Lab::open_to_all();
    std::os::unix::fs::chown(&lab.root, Some(NOBODY), Some(NOBODY)).unwrap();
    let trusting = || open(Settings { trusted_owners: vec!["nobody".to_owned()], ..lab.settings() });
    let saved = saved(&trusting(), &lab.at("d/file"), false, TEXT);
    assert_eq!(reopened(&trusting(), &saved).unwrap(), TEXT);
    // What the owner may not do, we do not do for them.
    let above = saved.path.parent().unwrap();
    std::os::unix::fs::chown(above, Some(0), Some(0)).unwrap();
    fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
    let error = trusting().remove_saved(text(&saved.path), &expected(&saved)).unwrap_err();
    assert!(!error.is_change() && saved.path.exists(), "{error}");
    std::os::unix::fs::chown(above, Some(NOBODY), Some(NOBODY)).unwrap();
    trusting().remove_saved(text(&saved.path), &expected(&saved)).unwrap();
    assert!(!saved.path.exists());
}
