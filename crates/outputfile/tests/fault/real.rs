//! Faults that the system makes itself: full disks, disks without inodes, mounts that become read-only, no more open
//! files, and directories that become unwritable in between.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::sync::Arc;

use outputfile::{Call, NoLedger, Reason, Roots, SaveError, Saved, Settings};
use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{self, Lab, Mount, make, temporaries, text};
use crate::ordeal::{Bench, Home, OLD, Plan, Probe, Scenario, Way, World, in_parts, is_full, ways};

/// 37 pages.
const NEW: &[u8] = &[7; 150_000];
const PAGE: u64 = 4096;
const NOBODY: u32 = 65534;

/// A save into a directory that is nearly full, and what must be true after it. Whether it worked.
fn fits(lab: &Lab, roots: &Roots, path: &str, overwrite: bool, what: &str) -> bool {
    let before = names(&lab.root);
    let room = || rustix::fs::statvfs(&lab.root).map(|room| (room.f_bfree, room.f_ffree)).unwrap();
    let free = room();
    match common::save(roots, &lab.at(path), overwrite, NEW) {
        Ok(saved) => {
            common::assert_saved(&saved, NEW);
            true
        }
        Err(error) => {
            assert_eq!(error.reason(), Reason::Space, "{what}: {error}");
            assert!(error.to_string().contains("no space left"), "{what}: {error}");
            assert_eq!(names(&lab.root), before, "{what}");
            assert_eq!(room(), free, "{what}: room is given back");
            false
        }
    }
}

/// Everything beneath a directory, with the length of files.
fn names(dir: &Path) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            all.push((text(&entry.path()).to_owned(), if meta.is_dir() { 0 } else { meta.len() }));
            if meta.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    all.sort();
    all
}

fn roots_by(lab: &Lab, way: &'static Way) -> (Roots, Probe) {
    let probe = Probe::new(way);
    (common::open(Settings { min_free_bytes: 0, hook: Some(probe.hook()), ..lab.settings() }), probe)
}

#[test]
fn a_disk_with_any_little_room_takes_the_whole_file_or_nothing() {
    let mut points = 0;
    for way in ways() {
        let lab = Lab::new();
        let Some(_mount) = Mount::tmpfs(&lab.root, "size=1m,mode=700") else { return };
        fs::write(lab.root.join("x"), OLD).unwrap();
        let (roots, _probe) = roots_by(&lab, way);
        let (mut full, mut fitted) = (0, 0);
        for (path, overwrite) in [("x", true), ("y", false), ("n/m/x", false)] {
            for pages in [0, 1, 2, 4, 16, 36, 37, 38, 45, 74, 80, 120] {
                let filler = fs::File::create(lab.root.join("filler")).unwrap();
                let free = rustix::fs::statvfs(&lab.root).unwrap().f_bfree;
                rustix::fs::fallocate(
                    &filler,
                    rustix::fs::FallocateFlags::empty(),
                    0,
                    (free - pages).max(1) * PAGE,
                )
                .unwrap();
                let what = format!("{path}, {}, {pages} pages", way.name);
                if fits(&lab, &roots, path, overwrite, &what) {
                    fitted += 1;
                    assert!(pages >= 37, "{what}");
                } else {
                    full += 1;
                    assert!(pages < 120, "{what}");
                }
                drop(filler);
                fs::remove_file(lab.root.join("filler")).unwrap();
                if overwrite {
                    fs::write(lab.root.join("x"), OLD).unwrap();
                } else if lab.root.join(path).exists() {
                    fs::remove_file(lab.root.join(path)).unwrap();
                    let _ = fs::remove_dir_all(lab.root.join("n"));
                }
            }
        }
        assert!(full >= 15 && fitted >= 6, "{}: {full} did not fit, {fitted} did", way.name);
        points += full + fitted;
    }
    common::tell("faults", "saves to a disk that is nearly full", points);
}

#[test]
fn a_disk_without_inodes_takes_the_whole_file_or_nothing() {
    let mut points = 0;
    for way in ways() {
        for (path, overwrite) in [("x", true), ("y", false), ("n/m/x", false)] {
            let mut fitted = Vec::new();
            // The root and the old file take two.
            for inodes in 2..8 {
                let lab = Lab::new();
                let options = format!("nr_inodes={inodes},mode=700");
                let Some(_mount) = Mount::tmpfs(&lab.root, &options) else { return };
                fs::write(lab.root.join("x"), OLD).unwrap();
                let (roots, _probe) = roots_by(&lab, way);
                fitted.push(fits(
                    &lab,
                    &roots,
                    path,
                    overwrite,
                    &format!("{path}, {}, {inodes} inodes", way.name),
                ));
            }
            assert!(!fitted[0] && fitted[5] && fitted.is_sorted(), "{path}, {}: {fitted:?}", way.name);
            points += fitted.len() as u64;
        }
    }
    common::tell("faults", "saves to a disk with few inodes", points);
}

/// While a file is open for writing the kernel keeps a mount writable, so before that there are two moments: before the
/// second check, and directly before the temporary is made.
#[test]
fn a_disk_that_becomes_read_only_in_between_is_called_read_only() {
    let mut points = 0;
    for way in ways() {
        for (path, overwrite) in [("x", true), ("y", false), ("n/m/x", false)] {
            for late in [None, Some(Call::OpenNameless), Some(Call::OpenNamed), Some(Call::MakeDirectory)] {
                let lab = Lab::new();
                let Some(_mount) = Mount::tmpfs(&lab.root, "mode=700") else { return };
                fs::write(lab.root.join("x"), OLD).unwrap();
                let (roots, probe) = roots_by(&lab, way);
                let root = lab.root.clone();
                let lock = move || rustix::mount::mount_remount(&root, MountFlags::RDONLY, c"").unwrap();
                let before = names(&lab.root);
                let target = roots.preflight(&lab.at(path), overwrite, &NoLedger).unwrap();
                let Some(late) = late else {
                    lock();
                    let error = roots.begin(target).map(drop).unwrap_err();
                    assert_read_only(&lab, &error, &before, way);
                    points += 1;
                    continue;
                };
                let met = Arc::new(std::sync::atomic::AtomicBool::new(false));
                let seen = Arc::clone(&met);
                probe.plan(Plan::Each(Arc::new(move |call| {
                    if call == late && !seen.swap(true, std::sync::atomic::Ordering::SeqCst) {
                        lock();
                    }
                })));
                let begun = roots.begin(target).map(drop);
                probe.stop();
                if met.load(std::sync::atomic::Ordering::SeqCst) {
                    assert_read_only(&lab, &begun.unwrap_err(), &before, way);
                    rustix::mount::mount_remount(&lab.root, MountFlags::empty(), c"").unwrap();
                    common::saved(&roots, &lab.at(path), overwrite, NEW);
                    points += 1;
                }
            }
        }
    }
    common::tell("faults", "mounts that became read-only", points);
}

fn assert_read_only(lab: &Lab, error: &SaveError, before: &[(String, u64)], way: &Way) {
    assert_eq!(error.reason(), Reason::ReadOnly, "{}: {error}", way.name);
    // Nothing can be taken away either: directories that were made before are left, and nothing else.
    let after = names(&lab.root).into_iter().filter(|(path, _)| !Path::new(path).is_dir());
    assert_eq!(after.collect::<Vec<_>>(), before, "{}", way.name);
}

#[test]
fn no_more_open_files_is_an_error_and_leaves_nothing() {
    const TEST: &str = "real::no_more_open_files_is_an_error_and_leaves_nothing";
    // In processes of their own, because the limit is one of the process.
    let counts = in_parts(TEST, |mine, _| {
        let mut points = 0;
        let bench = Bench::new(Home::in_memory());
        let scenarios = [Scenario::New, Scenario::NewDirectories, Scenario::Overwrite];
        for (_, (scenario, way)) in crate::ordeal::combinations(&scenarios)
            .into_iter()
            .enumerate()
            .filter(|(number, _)| mine(*number))
        {
            let (mut failed, mut fitted) = (0, false);
            for more in 0..80 {
                let world = World::new(scenario, way, &bench);
                let what = format!("{scenario:?}, {}, {more} more files", way.name);
                let ended =
                    with_files(more, || common::save(&world.roots, &world.target, scenario.has_old(), NEW));
                let (left, others) = world.extras(&what);
                assert!(left.is_empty(), "{what}: left {left:?}");
                fitted = ended.is_ok();
                match ended {
                    Ok(_) | Err(SaveError::NotDurable { .. }) => {
                        assert!(world.there().unwrap() == NEW, "{what}");
                    }
                    Err(error) => {
                        assert_eq!(error.reason(), Reason::Io, "{what}: {error}");
                        assert!(
                            world.is_unchanged() && others.is_empty(),
                            "{what}: {error}: left {others:?}"
                        );
                        failed += 1;
                    }
                }
                world.assert_works(&world.others(), &what);
                points += 1;
                if fitted {
                    break;
                }
            }
            assert!(fitted && failed > 3, "{scenario:?}, {}: {failed} failed", way.name);
        }
        [points]
    });
    if let Some([points]) = counts {
        common::tell("faults", "limits of open files", points);
    }
}

/// Does something while only so many more files may be open.
fn with_files<T>(more: u64, act: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().parse::<u64>().unwrap());
    // The numbers below the limit that are free are counted, not only those above the highest.
    let used: Vec<u64> = open.collect();
    let free_below = |limit: u64| limit - used.iter().filter(|fd| **fd < limit).count() as u64;
    let limit = (1..).find(|limit| free_below(*limit) > more).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..before }).unwrap();
    let done = act();
    setrlimit(Resource::Nofile, before).unwrap();
    done
}

#[test]
fn a_directory_that_becomes_unwritable_before_any_call_gets_the_whole_file_or_nothing() {
    const TEST: &str =
        "real::a_directory_that_becomes_unwritable_before_any_call_gets_the_whole_file_or_nothing";
    if common::task().is_some() {
        let dir = std::env::var_os("OUTPUTFILE_DIR").unwrap();
        let points = shut_before_each_call(Path::new(&dir));
        return fs::write(Path::new(&dir).join("points"), points.to_string()).unwrap();
    }
    let lab = Lab::open_to_all();
    let _mount = Mount::tmpfs(&lab.outside, "mode=755");
    let mut child = common::again(TEST, "shut");
    if common::is_root() {
        let program = lab.path("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&lab.outside, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&lab.outside, fs::Permissions::from_mode(0o755)).unwrap();
        let arguments: Vec<_> = child.get_args().map(ToOwned::to_owned).collect();
        child = std::process::Command::new(program);
        child.args(arguments).env("OUTPUTFILE_TASK", "shut").current_dir("/");
        std::os::unix::process::CommandExt::uid(&mut child, NOBODY);
        std::os::unix::process::CommandExt::gid(&mut child, NOBODY);
    }
    child.env("OUTPUTFILE_DIR", &lab.outside);
    common::finish(child);
    let points = fs::read_to_string(lab.outside.join("points")).unwrap().parse().unwrap();
    common::tell("faults", "directories that became unwritable", points);
}

/// To be run as an ordinary user, whom permissions bind. How often it was tried.
fn shut_before_each_call(dir: &Path) -> u64 {
    assert!(!common::is_root());
    let mut points = 0;
    for way in ways() {
        for (path, overwrite) in [("d/x", false), ("d/x", true), ("d/n/x", false)] {
            for mode in [0o500, 0o000] {
                for at in (0..).step_by(if is_full() { 1 } else { 3 }) {
                    let lab = Lab::within(dir);
                    make(&lab.root.join("d"), 0o700);
                    if overwrite {
                        fs::write(lab.root.join("d/x"), OLD).unwrap();
                    }
                    let (roots, probe) = roots_by(&lab, way);
                    let shut = lab.root.join("d");
                    probe.plan(Plan::At(
                        at,
                        Arc::new(move |_| {
                            fs::set_permissions(&shut, fs::Permissions::from_mode(mode)).unwrap();
                        }),
                    ));
                    let ended = common::save(&roots, &lab.at(path), overwrite, NEW);
                    let count = probe.stop().len();
                    fs::set_permissions(lab.root.join("d"), fs::Permissions::from_mode(0o700)).unwrap();
                    let what = format!("{path}, {}, {mode:o} before call {at}: {ended:?}", way.name);
                    judge_shut(&lab, &roots, path, overwrite, &ended, &what);
                    points += 1;
                    if at >= count {
                        break;
                    }
                }
            }
        }
    }
    points
}

fn judge_shut(
    lab: &Lab,
    roots: &Roots,
    path: &str,
    overwrite: bool,
    ended: &Result<Saved, SaveError>,
    what: &str,
) {
    let there = fs::read(lab.root.join(path)).ok();
    match ended {
        Ok(_) | Err(SaveError::NotDurable { .. }) => assert!(there.as_deref() == Some(NEW), "{what}"),
        Err(error) => {
            assert_eq!(there.as_deref(), overwrite.then_some(OLD), "{what}");
            assert_eq!(error.reason(), Reason::Denied, "{what}");
        }
    }
    // What was to be removed could not be, and the next save does it.
    common::save(roots, &lab.at(path), true, b"again").unwrap_or_else(|error| panic!("{what}: {error}"));
    let parent = lab.root.join(path).parent().unwrap().to_path_buf();
    assert_eq!(temporaries(&parent), Vec::<String>::new(), "{what}");
    let beside = format!("{}/beside", lab.at("d"));
    common::save(roots, &beside, true, b"beside").unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(temporaries(&lab.root.join("d")), Vec::<String>::new(), "{what}");
}
