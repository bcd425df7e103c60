//! Places that no root may be, hold or lie in: by name, by link and by a mount that gives them another name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use outputfile::{Reason, RootProblem, Roots, Settings};

use crate::common::{Lab, Mount, is_root, make, open, skip, text};
use crate::{Count, Memory, STEPS, Step, Watch, attempt, plain};

fn settings(root: &Path) -> Settings {
    Settings { roots: vec![root.to_path_buf()], ..Settings::default() }
}

fn problem(settings: Settings, what: &str) -> RootProblem {
    let mut problems = Roots::open(settings).expect_err(what);
    assert_eq!(problems.len(), 1, "{what}: {problems:?}");
    problems.remove(0)
}

/// Directories of the system and of programs: what lies in them is run, or tells what is run.
const SYSTEM: [&str; 30] = [
    "/dev",
    "/proc",
    "/sys",
    "/etc",
    "/boot",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/games",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/lib",
    "/usr/local/libexec",
    "/run/systemd",
    "/run/udev",
    "/var/lib/dpkg",
    "/var/lib/systemd",
    "/var/spool/at",
    "/var/spool/cron",
    "/etc/cron.d",
    "/etc/systemd/system",
    "/usr/lib/systemd/system",
    "/var/spool/cron/crontabs",
    "/dev/shm",
];

/// How many of them are named themselves; the others lie in one of these.
const LISTED: usize = 25;

/// What holds one of them.
const HOLDERS: [&str; 10] =
    ["/", "/usr", "/usr/local", "/var", "/var/lib", "/var/spool", "/run", "/root", "/home", "/opt"];

/// Where an operator may well have files saved.
const ORDINARY: [&str; 18] = [
    "/usr/local/share/x",
    "/usr/local/output",
    "/usr/share/x",
    "/usr/src/x",
    "/var/lib/x",
    "/var/lib/x/output",
    "/var/tmp/x",
    "/var/spool/x",
    "/var/www/x",
    "/srv",
    "/srv/x",
    "/opt/x",
    "/opt/x/output",
    "/opt/x/bin",
    "/run/x",
    "/tmp/x",
    "/mnt/x",
    "/home/somebody/x",
];

#[test]
fn directories_of_the_system_and_of_programs_are_no_roots_and_ordinary_places_are() {
    let (mut count, lab) = (Count::default(), Lab::new());
    for place in SYSTEM {
        for root in [place.to_owned(), format!("{place}/"), format!("{place}/out"), format!("{place}/a/b/c")]
        {
            let problem = problem(settings(Path::new(&root)), &root);
            assert_eq!((problem.key, problem.index), ("tool_output_roots", 0), "{root}");
            assert!(problem.message.contains("a directory of"), "{root}: {problem}");
            assert!(problem.remedy.contains("/srv/"), "{root}: {problem}");
            count.one();
        }
        // By a link, to it and through it.
        for to in [place.to_owned(), format!("{place}/out"), format!("/proc/self/root{place}")] {
            let link = lab.path("link");
            symlink(&to, &link).unwrap();
            for root in [link.clone(), link.join("deeper")] {
                let what = format!("{} to {to}", root.display());
                match Roots::open(settings(&root)) {
                    Err(problems) => assert_eq!(problems.len(), 1, "{what}: {problems:?}"),
                    // What cannot be seen now, because the link leads to nothing, is refused at each call.
                    Ok(roots) => {
                        assert!(!Path::new(&to).exists(), "{what}");
                        assert!(plain(&roots, text(&root.join("x")), false).is_err(), "{what}");
                    }
                }
                count.one();
            }
            fs::remove_file(link).unwrap();
        }
    }
    for root in HOLDERS {
        assert!(!problem(settings(Path::new(root)), root).remedy.is_empty(), "{root}");
        count.one();
    }
    for root in ORDINARY {
        open(settings(Path::new(root)));
        count.one();
    }
    count.tell("directories of the system and of programs as roots", 300);
}

#[test]
fn a_mount_of_a_directory_of_the_system_under_another_name_is_no_root() {
    if !is_root() {
        return skip("mounting needs root");
    }
    let (mut count, lab) = (Count::default(), Lab::new());
    let at = lab.path("mount");
    make(&at, 0o700);
    let existing: Vec<&str> = SYSTEM
        .into_iter()
        .take(LISTED)
        .chain(["/usr", "/"])
        .filter(|place| Path::new(place).is_dir())
        .collect();
    assert!(existing.len() > 10, "{existing:?}");
    for place in existing {
        let Some(_mount) = Mount::bind(Path::new(place), &at) else { return };
        let whole = matches!(place, "/" | "/usr");
        for root in [at.clone(), at.join("out")].into_iter().filter(|root| !whole || *root == at) {
            let what = format!("{place} mounted, root {}", root.display());
            let problem = problem(settings(&root), &what);
            assert!(problem.message.contains("by another name"), "{what}: {problem}");
            count.one();
        }
    }
    count.tell("mounts of directories of the system as roots", 20);
}

type Set = fn(&mut Settings, PathBuf);

/// Our own places, and the setting that tells of each.
const OWN: [(&str, Set); 4] = [
    ("config", |settings, path| settings.config_dir = Some(path)),
    ("data", |settings, path| settings.data_dir = Some(path)),
    ("log", |settings, path| settings.log_dir = Some(path)),
    ("home", |settings, path| settings.home_dirs = vec![path]),
];

/// Beneath a laboratory: `up/own` is the place, with a directory in it.
fn own_place(memory: &Memory) -> (Lab, PathBuf) {
    let lab = memory.lab();
    let own = lab.path("up/own");
    make(&lab.path("up"), 0o700);
    make(&own, 0o700);
    make(&own.join("inner"), 0o700);
    fs::write(own.join("file"), "ours").unwrap();
    (lab, own)
}

#[test]
fn our_own_places_are_no_roots_by_name_link_or_mount() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for (what, set) in OWN {
        for (root, how) in [("own", "is"), ("own/inner", "lies in"), ("", "holds"), ("beside", "beside")] {
            for way in ["name", "link", "link above", "/proc", "mount"] {
                if way == "mount" && !is_root() {
                    skip("mounting needs root");
                    continue;
                }
                let (lab, own) = own_place(&memory);
                make(&lab.path("up/beside"), 0o700);
                let meant = lab.path("up").join(root);
                let other = lab.path("other");
                let mut mount = None;
                let root = match way {
                    "name" => meant.clone(),
                    "link" => {
                        symlink(&meant, &other).unwrap();
                        other
                    }
                    "/proc" => {
                        symlink(format!("/proc/self/root{}", text(&meant)), &other).unwrap();
                        other
                    }
                    "link above" => {
                        symlink(lab.path("up"), &other).unwrap();
                        other.join(meant.strip_prefix(lab.path("up")).unwrap())
                    }
                    _ => {
                        make(&other, 0o700);
                        mount = Mount::bind(&meant, &other);
                        other
                    }
                };
                let what = format!("root {how} {what}, by {way}");
                let mut settings = Settings { roots: vec![root.clone()], ..crate::separate(&lab) };
                set(&mut settings, own.clone());
                // In a home, and beneath a configuration directory that holds nothing else of ours, a root is fine.
                let inside = how == "lies in" && (what.contains("config") || what.contains("home"));
                let fine = how == "beside" || inside;
                // A mount of what lies in one of ours has nothing to be known by but itself.
                let unknown = how == "lies in" && way == "mount";
                let result = Roots::open(settings).map(|roots| plain(&roots, text(&root.join("x")), false));
                match result {
                    Ok(Ok(_)) => assert!(fine || unknown, "{what}: saved"),
                    Ok(Err(error)) => {
                        assert!(!fine, "{what}: {error}");
                        assert_eq!(error.reason(), Reason::RootUntrusted, "{what}: {error}");
                    }
                    Err(problems) => {
                        assert!(!fine, "{what}: {problems:?}");
                        assert!(!problems[0].remedy.is_empty(), "{what}");
                    }
                }
                assert_eq!(fs::read(own.join("file")).unwrap(), b"ours", "{what}");
                drop(mount);
                count.one();
            }
        }
    }
    count.tell("our own places as roots", 60);
}

#[test]
fn our_own_places_are_not_written_to_when_they_come_beneath_a_root_while_a_save_runs() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for (what, set) in OWN {
        for way in ["moved in", "moved in with what holds it", "mounted in", "the root mounted over"] {
            if way.contains("mounted") && !is_root() {
                skip("mounting needs root");
                continue;
            }
            for step in STEPS {
                let (lab, own) = own_place(&memory);
                make(&lab.root.join("m"), 0o700);
                let watch = Watch::over(&lab);
                let mut settings = crate::separate(&lab);
                set(&mut settings, own.clone());
                let roots = open(settings);
                let mount = std::cell::RefCell::new(None);
                let result = attempt(&roots, &lab.at("m/x"), false, |now| {
                    if now == step {
                        match way {
                            "moved in" => {
                                fs::rename(lab.root.join("m"), lab.path("gone")).unwrap();
                                fs::rename(&own, lab.root.join("m")).unwrap();
                            }
                            "moved in with what holds it" => {
                                fs::rename(lab.path("up"), lab.root.join("up")).unwrap();
                            }
                            "mounted in" => *mount.borrow_mut() = Mount::bind(&own, &lab.root.join("m")),
                            _ => {
                                make(&own.join("m"), 0o700);
                                *mount.borrow_mut() = Mount::bind(&own, &lab.root);
                            }
                        }
                    }
                });
                let what = format!("{what} {way} before {step:?}");
                watch.check(&result, &what);
                // Beside the place, in a directory that was there before, a file does no harm while it is written.
                let beside =
                    way == "moved in with what holds it" && !matches!(step, Step::Preflight | Step::Begin);
                assert!(result.is_err() || beside, "{what}: {result:?}");
                drop(mount);
                count.one();
            }
        }
    }
    count.tell("our own places that come beneath a root", 40);
}
