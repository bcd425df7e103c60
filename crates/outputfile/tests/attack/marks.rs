//! Files and directories that are marked as unchangeable or append-only: refused before anything is made.

use std::fs;
use std::path::{Path, PathBuf};

use outputfile::Reason;
use rustix::fs::IFlags;

use crate::common::{Lab, is_root, make, skip, tree};
use crate::{Count, STEPS, Step, Watch, assert_stopped, attempt};

/// A mark that goes away with this, so that the laboratory can be removed.
struct Marked(PathBuf, IFlags);

impl Marked {
    fn set(path: &Path, mark: IFlags) -> Option<Self> {
        let file = fs::File::open(path).unwrap();
        let flags = rustix::fs::ioctl_getflags(&file).ok()?;
        rustix::fs::ioctl_setflags(&file, flags | mark).ok()?;
        Some(Self(path.to_path_buf(), mark))
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let file = fs::File::open(&self.0).unwrap();
        let flags = rustix::fs::ioctl_getflags(&file).unwrap();
        rustix::fs::ioctl_setflags(&file, flags - self.1).unwrap();
    }
}

#[test]
fn what_is_marked_is_refused_before_anything_is_made() {
    if !is_root() {
        return skip("needs root to mark files");
    }
    let mut count = Count::default();
    for (name, mark) in [("unchangeable", IFlags::IMMUTABLE), ("append-only", IFlags::APPEND)] {
        for (place, path) in
            [("d/x", "d/x"), ("d", "d/x"), ("d", "d/new"), ("d", "d/deep/new"), ("", "new"), ("", "up/new")]
        {
            for overwrite in [false, true] {
                for step in [Step::Preflight, Step::Begin] {
                    let lab = Lab::new();
                    make(&lab.root.join("d"), 0o700);
                    fs::write(lab.root.join("d/x"), "old").unwrap();
                    let watch = Watch::over(&lab);
                    let before = tree(&lab.root);
                    let marked = std::cell::RefCell::new(None);
                    let result = attempt(&lab.roots(), &lab.at(path), overwrite, |now| {
                        if now == step {
                            *marked.borrow_mut() = Marked::set(&lab.root.join(place), mark);
                        }
                    });
                    let exists = path == "d/x" && !overwrite;
                    if marked.borrow().is_none() && !(exists && step == Step::Begin) {
                        return skip("this file system has no such marks");
                    }
                    let what =
                        format!("{name} {place:?}, into {path}, overwrite {overwrite}, before {step:?}");
                    drop(marked);
                    watch.check(&result, &what);
                    assert_stopped(&result, &[Reason::Denied, Reason::Exists], &what);
                    let error = result.unwrap_err();
                    assert!(exists || error.to_string().contains("marked"), "{what}: {error}");
                    assert_eq!(tree(&lab.root), before, "{what}: nothing is changed");
                    count.one();
                }
            }
        }
    }
    count.tell("marked files and directories", 40);
}

#[test]
fn a_directory_that_is_marked_while_the_file_is_written_fails_the_save() {
    if !is_root() {
        return skip("needs root to mark files");
    }
    let mut count = Count::default();
    for mark in [IFlags::IMMUTABLE, IFlags::APPEND] {
        for overwrite in [false, true] {
            for step in STEPS.into_iter().skip(2) {
                let lab = Lab::new();
                fs::write(lab.root.join("old"), "old").unwrap();
                let marked = std::cell::RefCell::new(None);
                let path = if overwrite { "old" } else { "new" };
                let result = attempt(&lab.roots(), &lab.at(path), overwrite, |now| {
                    if now == step {
                        *marked.borrow_mut() = Marked::set(&lab.root, mark);
                    }
                });
                if marked.borrow().is_none() {
                    return skip("this file system has no such marks");
                }
                drop(marked);
                // A new name can still be made in an append-only directory, and nothing can be taken away.
                match &result {
                    Ok(_) => assert!(!overwrite && mark == IFlags::APPEND, "{result:?}"),
                    Err(error) => assert_eq!(error.reason(), Reason::Denied, "{error}"),
                }
                assert_eq!(fs::read(lab.root.join("old")).unwrap(), b"old");
                count.one();
            }
        }
    }
    count.tell("directories that are marked while the file is written", 12);
}
