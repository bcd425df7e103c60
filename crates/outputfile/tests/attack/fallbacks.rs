//! Each call that decides on a fallback, with each error that a kernel, a file system or a filter has for it: the save is
//! whole, or refused with nothing changed, and what is checked is never less.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outputfile::{Call, Hook, Reason, Roots, SaveError, Saved, Settings};

use crate::common::{Lab, Mount, make, open, tree};
use crate::{Count, Memory, PAYLOAD, Watch, plain, separate};

const ERRORS: [(&str, i32); 6] = [
    ("ENOSYS", libc::ENOSYS),
    ("EPERM", libc::EPERM),
    ("EINVAL", libc::EINVAL),
    ("EAGAIN", libc::EAGAIN),
    ("EXDEV", libc::EXDEV),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
];

/// What comes of a call that fails, for each error in turn: saved all the same, or the reason of the refusal.
type Outcomes = [Option<Reason>; 6];

/// One call, what else must fail for it to be made, and the outcomes of a new file and of one that is replaced.
struct Row {
    call: Call,
    with: &'static [(Call, i32)],
    new: Outcomes,
    over: Outcomes,
}

const SAVED: Outcomes = [None; 6];
const IO: Option<Reason> = Some(Reason::Io);
const DENIED: Option<Reason> = Some(Reason::Denied);
const MOUNT: Option<Reason> = Some(Reason::Mount);
const NOT_DURABLE: Option<Reason> = Some(Reason::NotDurable);
/// No fallback: each error is named.
const NAMED: Outcomes = [IO, DENIED, IO, IO, MOUNT, IO];
/// A fallback, unless the call asks to be made again.
const ELSE: Outcomes = [None, None, None, IO, None, None];

const NAMELESS_LACKS: (Call, i32) = (Call::OpenNameless, libc::EOPNOTSUPP);

const fn row(call: Call, with: &'static [(Call, i32)], new: Outcomes, over: Outcomes) -> Row {
    Row { call, with, new, over }
}

const ROWS: [Row; 28] = [
    row(Call::OpenTop, &[], NAMED, NAMED),
    row(Call::OpenChild, &[], NAMED, NAMED),
    row(Call::Stat, &[], NAMED, NAMED),
    row(Call::StatPath, &[], NAMED, NAMED),
    // The walk: by the kernel, else by hand.
    row(Call::OpenBeneath, &[], [None, None, None, IO, MOUNT, None], [None, None, None, IO, MOUNT, None]),
    row(Call::OpenBeneathByHand, &[(Call::OpenBeneath, libc::ENOSYS)], NAMED, NAMED),
    // Mounts: by the newer call, else by /proc, else only the kernel's own walk is good enough.
    row(Call::MountNumber, &[], SAVED, SAVED),
    row(Call::MountNumber, &[(Call::OpenBeneath, libc::ENOSYS)], SAVED, SAVED),
    row(Call::MountNumberByProc, &[(Call::MountNumber, libc::ENOSYS)], SAVED, SAVED),
    row(
        Call::MountNumberByProc,
        &[(Call::MountNumber, libc::ENOSYS), (Call::OpenBeneath, libc::ENOSYS)],
        [IO; 6],
        [IO; 6],
    ),
    // Who may write: by the identity for files, else by the bits or by that of the process.
    row(Call::Access, &[], [None, None, None, IO, MOUNT, None], [None, None, None, IO, MOUNT, None]),
    row(Call::AccessAsProcess, &[(Call::Access, libc::ENOSYS)], NAMED, NAMED),
    row(Call::StatFs, &[], NAMED, NAMED),
    // The temporary: nameless, else named.
    row(Call::OpenNameless, &[], SAVED, SAVED),
    row(Call::OpenNamed, &[NAMELESS_LACKS], NAMED, NAMED),
    row(Call::Lock, &[], SAVED, SAVED),
    row(Call::Lock, &[NAMELESS_LACKS], ELSE, ELSE),
    row(Call::List, &[], SAVED, SAVED),
    // Its name: by the handle, else through /proc, else a copy; renamed, else linked; exchanged, else renamed over.
    row(Call::LinkHandle, &[], SAVED, SAVED),
    row(Call::LinkThroughProc, &[(Call::LinkHandle, libc::ENOENT)], ELSE, SAVED),
    row(Call::RenameNew, &[NAMELESS_LACKS], ELSE, SAVED),
    row(Call::LinkName, &[NAMELESS_LACKS, (Call::RenameNew, libc::EINVAL)], [IO; 6], SAVED),
    row(Call::Exchange, &[], SAVED, ELSE),
    row(Call::LinkName, &[(Call::Exchange, libc::EINVAL)], SAVED, SAVED),
    row(Call::RenameOver, &[(Call::Exchange, libc::EINVAL)], SAVED, NAMED),
    // Durable: the file always, the directory where the file system has that.
    row(Call::SyncFile, &[], NAMED, NAMED),
    row(
        Call::SyncDirectory,
        &[],
        [None, NOT_DURABLE, None, NOT_DURABLE, NOT_DURABLE, None],
        [None, NOT_DURABLE, None, NOT_DURABLE, NOT_DURABLE, None],
    ),
    row(Call::OpenForSync, &[], [NOT_DURABLE; 6], [NOT_DURABLE; 6]),
];

/// A laboratory with a place to save, links that lead out, and mounts.
struct Field {
    lab: Lab,
    mounts: Vec<Mount>,
}

impl Field {
    fn new() -> Self {
        let lab = Lab::new();
        for name in ["a", "bound", "memory", "again"] {
            make(&lab.root.join(name), 0o700);
        }
        symlink(&lab.outside, lab.root.join("link")).unwrap();
        symlink(lab.outside.join("victim"), lab.root.join("a/last")).unwrap();
        let at = |name: &str| lab.root.join(name);
        let mounts = Mount::bind(&lab.outside, &at("bound")).into_iter();
        let mounts = mounts.chain(Mount::tmpfs(&at("memory"), "mode=700"));
        // The directory itself: the same device and the same inode, and a mount all the same.
        let mounts = mounts.chain(Mount::bind(&at("again"), &at("again"))).collect();
        Self { lab, mounts }
    }

    /// The paths that nothing may ever be saved to.
    fn forbidden(&self) -> Vec<&'static str> {
        let links = ["link/x", "link/inner/file", "a/last", "a/../../outside/x"];
        let mounts = ["bound/x", "bound/inner/file", "memory/x", "again/x"];
        links.into_iter().chain(mounts.into_iter().filter(|_| !self.mounts.is_empty())).collect()
    }

    /// Roots for which a call fails, and whether it was made since.
    fn roots(&self, row: &Row, code: i32) -> (Roots, Arc<AtomicBool>) {
        let made = Arc::new(AtomicBool::new(false));
        let (call, with, seen) = (row.call, row.with, Arc::clone(&made));
        let hook = move |asked| {
            if asked == call {
                seen.store(true, Ordering::SeqCst);
                return Some(code);
            }
            with.iter().find(|(other, _)| *other == asked).map(|(_, code)| *code)
        };
        let roots = open(Settings { hook: Some(Hook::new(hook)), ..separate(&self.lab) });
        made.store(false, Ordering::SeqCst);
        (roots, made)
    }
}

/// The outcome of a cell: as the table says, or saved where the call was not made at all.
fn judge(result: &Result<Saved, SaveError>, wanted: Option<Reason>, made: bool, what: &str) {
    let reason = result.as_ref().err().map(SaveError::reason);
    if made {
        assert_eq!(reason, wanted, "{what}: {result:?}");
    } else {
        assert_eq!(reason, None, "{what}, which was not made: {result:?}");
    }
    if let Err(error) = result {
        let message = error.to_string();
        assert!(message.contains("; ") && message.contains('/'), "{what}: {message}");
    }
}

#[test]
fn each_error_of_each_call_chooses_a_fallback_or_is_named_and_checks_no_less() {
    let field = Field::new();
    let lab = &field.lab;
    let watch = Watch::over(lab);
    let (mut cells, mut attacks) = (Count::default(), Count::default());
    for row in &ROWS {
        for (number, (name, code)) in ERRORS.into_iter().enumerate() {
            let what = format!("{:?} with {:?} fails by {name}", row.call, row.with);
            for overwrite in [false, true] {
                let old = lab.root.join("a/x");
                if overwrite {
                    fs::write(&old, "old").unwrap();
                }
                let before = tree(lab.dir.path());
                let (roots, made) = field.roots(row, code);
                let result = plain(&roots, &lab.at("a/x"), overwrite);
                watch.check(&result, &what);
                let wanted = if overwrite { row.over[number] } else { row.new[number] };
                judge(&result, wanted, made.load(Ordering::SeqCst), &format!("{what}, overwrite {overwrite}"));
                match &result {
                    Ok(_) | Err(SaveError::NotDurable { .. }) => assert_eq!(fs::read(&old).unwrap(), PAYLOAD),
                    Err(_) => assert_eq!(tree(lab.dir.path()), before, "{what}: a refusal changes nothing"),
                }
                let _ = fs::remove_file(&old);
                cells.one();
            }
            for path in field.forbidden() {
                for overwrite in [false, true] {
                    let before = tree(lab.dir.path());
                    let result = plain(&field.roots(row, code).0, &lab.at(path), overwrite);
                    watch.check(&result, &what);
                    assert!(result.is_err(), "{path}, while {what}");
                    assert_eq!(tree(lab.dir.path()), before, "{path}, while {what}");
                    attacks.one();
                }
            }
        }
    }
    cells.tell("fallbacks: calls by errors", 300);
    attacks.tell("links and mounts while a call fails", 1000);
}

#[test]
fn a_directory_made_on_the_way_is_gone_when_the_save_fails_for_any_of_these_errors() {
    let (mut count, memory) = (Count::default(), Memory::new());
    for row in &ROWS {
        for (name, code) in ERRORS {
            let field = Field { lab: memory.lab(), mounts: Vec::new() };
            let watch = Watch::over(&field.lab);
            let (roots, _) = field.roots(row, code);
            let what = format!("new directories, {:?} with {:?} fails by {name}", row.call, row.with);
            let result = plain(&roots, &field.lab.at("new/deep/x"), false);
            watch.check(&result, &what);
            let saved = matches!(result, Ok(_) | Err(SaveError::NotDurable { .. }));
            // What cannot be opened again, or looked at, cannot be known for ours, and stays empty.
            let helpless = matches!(row.call, Call::OpenBeneath | Call::OpenBeneathByHand | Call::Stat)
                || row.call == Call::MountNumberByProc;
            let there = field.lab.root.join("new").exists();
            assert!(there == saved || (there && helpless), "{what}: {result:?}");
            count.one();
        }
    }
    count.tell("fallbacks: new directories", 150);
}
