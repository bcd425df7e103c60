//! What stands at the target already: pipes, sockets, devices, directories, links, files with two names.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::time::{Duration, Instant};

use common::{Lab, Mount, assert_refused, is_root, make, mode, open, saved, skip};
use outputfile::{Call, Reason, Settings};
use rustix::fs::{CWD, FileType, Mode};

#[test]
fn a_pipe_or_a_socket_is_refused_without_waiting() {
    let lab = Lab::new();
    rustix::fs::mknodat(CWD, lab.root.join("p"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(lab.root.join("s")).unwrap();
    let start = Instant::now();
    for overwrite in [false, true] {
        assert!(
            assert_refused(&lab, &lab.roots(), &lab.at("p"), overwrite, Reason::TargetKind).contains("pipe")
        );
        assert!(
            assert_refused(&lab, &lab.roots(), &lab.at("s"), overwrite, Reason::TargetKind)
                .contains("socket")
        );
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    assert!(fs::symlink_metadata(lab.root.join("p")).unwrap().file_type().is_fifo());
}

#[test]
fn a_directory_or_a_path_through_a_file_is_refused_in_plain_words() {
    let lab = Lab::new();
    make(&lab.root.join("d"), 0o700);
    fs::write(lab.root.join("file.txt"), "x").unwrap();
    for overwrite in [false, true] {
        let message = assert_refused(&lab, &lab.roots(), &lab.at("d"), overwrite, Reason::TargetKind);
        assert!(message.contains("a directory"), "{message}");
        let message =
            assert_refused(&lab, &lab.roots(), &lab.at("file.txt/x"), overwrite, Reason::TargetKind);
        assert!(message.contains("no directory") && message.contains("file.txt"), "{message}");
        assert_refused(&lab, &lab.roots(), &lab.at("file.txt/a/b"), overwrite, Reason::TargetKind);
    }
    assert!(lab.root.join("d").is_dir());
}

#[test]
fn a_device_is_refused() {
    let lab = Lab::new();
    assert_refused(&lab, &lab.roots(), "/dev/null", true, Reason::Outside);
    assert_refused(&lab, &lab.roots(), "/dev/full", true, Reason::Outside);
    let device = rustix::fs::makedev(1, 3);
    let made = rustix::fs::mknodat(CWD, lab.root.join("c"), FileType::CharacterDevice, Mode::RUSR, device);
    if made.is_err() {
        return skip("making a device is not allowed here");
    }
    let message = assert_refused(&lab, &lab.roots(), &lab.at("c"), true, Reason::TargetKind);
    assert!(message.contains("a device"), "{message}");
    assert!(fs::symlink_metadata(lab.root.join("c")).unwrap().file_type().is_char_device());
}

#[test]
fn a_second_name_of_a_file_outside_is_replaced_and_the_file_is_not() {
    let lab = Lab::new();
    let victim = lab.outside.join("victim");
    fs::write(&victim, "victim").unwrap();
    for exchange in [true, false] {
        fs::hard_link(&victim, lab.root.join("h")).unwrap();
        let roots = lab.hooked(move |call| (!exchange && call == Call::Exchange).then_some(libc::EINVAL));
        let saved = saved(&roots, &lab.at("h"), true, b"new");
        assert!(saved.replaced);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
        fs::remove_file(lab.root.join("h")).unwrap();
    }
    assert_eq!(fs::metadata(&victim).unwrap().nlink(), 1);
}

#[test]
fn a_last_link_that_stays_inside_is_refused_as_well() {
    let lab = Lab::new();
    fs::write(lab.root.join("real.txt"), "old").unwrap();
    symlink("real.txt", lab.root.join("l")).unwrap();
    let message = assert_refused(&lab, &lab.roots(), &lab.at("l"), true, Reason::TargetKind);
    assert!(message.contains("symbolic link"), "{message}");
    assert_eq!(fs::read_to_string(lab.root.join("real.txt")).unwrap(), "old");
}

#[test]
fn an_existing_file_needs_overwrite_and_is_replaced_whole() {
    let lab = Lab::new();
    fs::write(lab.root.join("x"), "a longer old text").unwrap();
    let message = assert_refused(&lab, &lab.roots(), &lab.at("x"), false, Reason::Exists);
    assert!(message.contains("save_overwrite"), "{message}");
    let saved = saved(&lab.roots(), &lab.at("x"), true, b"new");
    assert!(saved.replaced);
    assert_eq!(mode(&saved.path), 0o600);
}

#[test]
fn modes_of_files_and_new_directories_follow_the_setting() {
    for (file, directory) in [(0o600, 0o700), (0o640, 0o750), (0o660, 0o770)] {
        let lab = Lab::new();
        let roots = open(Settings { file_mode: file, ..lab.settings() });
        saved(&roots, &lab.at("a/b/x"), false, b"x");
        assert_eq!(mode(&lab.root.join("a/b/x")), file);
        assert_eq!((mode(&lab.root.join("a")), mode(&lab.root.join("a/b"))), (directory, directory));
        assert_eq!(mode(&lab.root), 0o700, "what was there is left alone");
    }
}

#[test]
fn a_file_that_cannot_be_changed_is_refused_before_the_call() {
    if !is_root() {
        return skip("needs root to mark files");
    }
    let lab = Lab::new();
    let path = lab.root.join("x");
    fs::write(&path, "old").unwrap();
    let file = fs::File::open(&path).unwrap();
    let frozen = rustix::fs::ioctl_getflags(&file)
        .and_then(|flags| rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::IMMUTABLE));
    if frozen.is_err() {
        return skip("this file system has no such marks");
    }
    let error = lab.roots().preflight(&lab.at("x"), true, &outputfile::NoLedger);
    let flags = rustix::fs::ioctl_getflags(&file).unwrap() - rustix::fs::IFlags::IMMUTABLE;
    rustix::fs::ioctl_setflags(&file, flags).unwrap();
    assert_eq!(error.unwrap_err().reason(), Reason::Denied);
}

#[test]
fn a_file_that_is_mounted_over_is_refused_before_the_call() {
    let lab = Lab::new();
    fs::write(lab.root.join("x"), "old").unwrap();
    fs::write(lab.outside.join("y"), "other").unwrap();
    let Some(_mount) = Mount::bind(&lab.outside.join("y"), &lab.root.join("x")) else { return };
    assert_refused(&lab, &lab.roots(), &lab.at("x"), true, Reason::Mount);
}
