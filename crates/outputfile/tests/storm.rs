//! A storm of swaps. Alone in its binary, because it counts the open files of the process.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{Lab, is_empty, make, save, temporaries};
use outputfile::Call;
use rustix::fs::{CWD, RenameFlags};

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn exchange(a: &Path, b: &Path) {
    rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

#[test]
fn a_directory_that_becomes_a_link_again_and_again_never_leads_out() {
    for by_hand in [false, true] {
        let lab = Lab::new();
        let (a, b) = (lab.root.join("a"), lab.root.join("b"));
        make(&a, 0o700);
        symlink(&lab.outside, &b).unwrap();
        let roots = lab.hooked(move |call| (by_hand && call == Call::OpenBeneath).then_some(libc::ENOSYS));
        let before = open_files();
        let stop = Arc::new(AtomicBool::new(false));
        let swapping = {
            let (a, b, stop) = (a.clone(), b.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    exchange(&a, &b);
                }
            })
        };
        let (mut good, mut bad) = (0, 0);
        for _ in 0..500 {
            match save(&roots, &lab.at("a/n.txt"), true, b"n") {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
        assert!(is_empty(&lab.outside), "{good} saved, {bad} refused");
        let real = if fs::symlink_metadata(&a).unwrap().is_dir() { &a } else { &b };
        assert_eq!(temporaries(real), Vec::<String>::new());
        assert_eq!(open_files(), before, "no file is left open");
        assert!(bad > 0, "the swaps were seen: {good} saved");
    }
}
