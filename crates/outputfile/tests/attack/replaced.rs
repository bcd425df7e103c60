//! Saved files that somebody replaced: neither read, nor verified, nor removed, whatever stands there by then.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outputfile::{Call, Expected, ReadError, Roots, Saved};
use rustix::fs::{CWD, FileType, Mode, RenameFlags};

use crate::common::{Lab, Mount, forces, is_root, make, open, saved, skip, text, tree};
use crate::{Count, Memory, NOBODY, Settings, give, give_link, set_mode};

const TEXT: &[u8] = b"what was saved, all of it";

fn expected(saved: &Saved) -> Expected {
    Expected { identity: saved.identity, sha256: saved.sha256, bytes: saved.bytes }
}

/// What can be asked of a saved file.
const ASKS: [&str; 3] = ["read", "verify", "remove"];

/// The bytes that were given, if any were.
fn ask(roots: &Roots, saved: &Saved, what: &str) -> Result<Option<Vec<u8>>, ReadError> {
    let (path, expected) = (text(&saved.path), expected(saved));
    match what {
        "read" => {
            let mut file = roots.reopen_saved(path, &expected)?;
            let mut bytes = Vec::new();
            // An error of the read is one of the change as well.
            match file.read_to_end(&mut bytes) {
                Ok(_) => Ok(Some(bytes)),
                Err(_) => Err(ReadError::Changed { path: path.to_owned(), why: "while it was read" }),
            }
        }
        "verify" => roots.verify_saved(path, &expected).map(|_| None),
        _ => roots.remove_saved(path, &expected).map(|()| None),
    }
}

/// A change, whether the bytes are the same so that it counts as the same file, and how it is made.
type Change = (&'static str, bool, fn(&Lab, &Path));

fn put(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn other() -> Vec<u8> {
    TEXT.iter().map(|byte| byte ^ 1).collect()
}

/// A path beside the saved file's, in the directory that holds it.
fn above(path: &Path) -> &Path {
    path.parent().unwrap()
}

fn device(path: &Path, minor: u32) {
    fs::remove_file(path).unwrap();
    let device = rustix::fs::makedev(1, minor);
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, device).unwrap();
}

const CHANGES: [Change; 28] = [
    ("nothing", true, |_, _| {}),
    ("another of the same size", false, |_, path| put(path, &other())),
    ("written anew with the same size", false, |_, path| fs::write(path, other()).unwrap()),
    ("a bigger one", false, |_, path| put(path, &[TEXT, b"!"].concat())),
    ("one of 16 MiB, nearly all of it a hole", false, |_, path| {
        put(path, TEXT);
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(16 << 20).unwrap();
    }),
    ("a smaller one", false, |_, path| put(path, &TEXT[1..])),
    ("an empty one", false, |_, path| put(path, b"")),
    ("a copy with the same bytes", true, |_, path| put(path, TEXT)),
    ("a second name of a file outside", false, |lab, path| {
        fs::remove_file(path).unwrap();
        fs::hard_link(lab.outside.join("secret"), path).unwrap();
    }),
    ("a link to the file moved", false, |_, path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(path.with_extension("moved"), path).unwrap();
    }),
    ("a link to a copy outside", false, |lab, path| {
        fs::write(lab.path("copy"), TEXT).unwrap();
        fs::remove_file(path).unwrap();
        symlink(lab.path("copy"), path).unwrap();
    }),
    ("a link to /dev/stdin", false, |_, path| {
        fs::remove_file(path).unwrap();
        symlink("/dev/stdin", path).unwrap();
    }),
    ("a directory", false, |_, path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
    ("a pipe", false, |_, path| {
        fs::remove_file(path).unwrap();
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }),
    ("a socket", false, |_, path| {
        fs::remove_file(path).unwrap();
        drop(UnixListener::bind(path).unwrap());
    }),
    ("its directory a link to where it went", false, |lab, path| {
        fs::rename(above(path), lab.root.join("moved")).unwrap();
        symlink("moved", above(path)).unwrap();
    }),
    ("its directory a link to a copy outside", false, |lab, path| {
        fs::rename(above(path), lab.path("moved")).unwrap();
        symlink(lab.path("moved"), above(path)).unwrap();
    }),
    ("its directory another one with another file", false, |lab, path| {
        fs::rename(above(path), lab.path("moved")).unwrap();
        make(above(path), 0o700);
        fs::write(path, other()).unwrap();
    }),
    ("its root a link to where it went", false, |lab, _| {
        fs::rename(&lab.root, lab.path("moved")).unwrap();
        symlink(lab.path("moved"), &lab.root).unwrap();
    }),
    ("gone", false, |_, path| fs::remove_file(path).unwrap()),
    ("its directory gone", false, |_, path| fs::remove_dir_all(above(path)).unwrap()),
    ("moved and made again", true, |_, path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        fs::copy(path.with_extension("moved"), path).unwrap();
    }),
    // These need root.
    ("root: a device that never ends", false, |_, path| device(path, 5)),
    ("root: a device of no bytes", false, |_, path| device(path, 3)),
    ("root: another owner's, the same bytes", true, |_, path| give(path, NOBODY)),
    ("root: another owner's, other bytes", false, |_, path| {
        put(path, &other());
        give(path, NOBODY);
    }),
    ("root: a link of another owner", false, |_, path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(path.with_extension("moved"), path).unwrap();
        give_link(path, NOBODY);
    }),
    ("root: its directory given away", true, |_, path| {
        set_mode(above(path), 0o755);
        give(above(path), NOBODY);
    }),
];

fn lab_with_secret(memory: &Memory) -> Lab {
    let lab = memory.lab();
    fs::write(lab.outside.join("secret"), "the secret, all of it too").unwrap();
    assert_eq!(TEXT.len(), "the secret, all of it too".len());
    lab
}

#[test]
fn a_saved_file_that_was_replaced_is_neither_read_nor_verified_nor_removed() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for (what, same, change) in CHANGES {
        if what.starts_with("root: ") && !is_root() {
            skip("giving away needs root");
            continue;
        }
        for asked in ASKS {
            let lab = lab_with_secret(&memory);
            let roots = lab.roots();
            let first = saved(&roots, &lab.at("d/file"), false, TEXT);
            change(&lab, &first.path);
            let before = tree(lab.dir.path());
            let result = ask(&roots, &first, asked);
            let what = format!("{asked}: {what}");
            match result {
                Ok(bytes) => {
                    assert!(same, "{what}");
                    assert!(bytes.is_none_or(|bytes| bytes == TEXT), "{what}");
                    assert_eq!(first.path.exists(), asked != "remove", "{what}");
                }
                Err(error) => {
                    assert!(!same, "{what}: {error}");
                    assert!(error.to_string().contains(text(&lab.root)), "{what}: {error}");
                    assert_eq!(tree(lab.dir.path()), before, "{what}: nothing is changed");
                }
            }
            count.one();
        }
    }
    count.tell("saved files that were replaced", 60);
}

#[test]
fn a_mount_on_the_way_to_a_saved_file_is_seen() {
    if !is_root() {
        return skip("mounting needs root");
    }
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for what in ["over the file", "over the file, itself", "over its directory", "over its directory, itself"]
    {
        for asked in ASKS {
            let lab = lab_with_secret(&memory);
            let roots = lab.roots();
            let first = saved(&roots, &lab.at("d/file"), false, TEXT);
            fs::write(lab.outside.join("file"), TEXT).unwrap();
            let at = if what.contains("directory") { above(&first.path) } else { &first.path };
            let from = match (what.contains("itself"), what.contains("directory")) {
                (true, _) => at.to_path_buf(),
                (_, true) => lab.outside.clone(),
                _ => lab.outside.join("file"),
            };
            let Some(mount) = Mount::bind(&from, at) else { return };
            let before = tree(lab.dir.path());
            let error = ask(&roots, &first, asked).expect_err(what);
            assert!(error.is_change(), "{asked} {what}: {error}");
            assert_eq!(tree(lab.dir.path()), before, "{asked} {what}");
            drop(mount);
            assert_eq!(fs::read(&first.path).unwrap(), TEXT);
            count.one();
        }
    }
    count.tell("mounts on the way to a saved file", 12);
}

/// Each kind of call that is made while a file is looked for, checked, and read or removed.
const MOMENTS: [Call; 6] =
    [Call::OpenExisting, Call::Read, Call::List, Call::RenameNew, Call::Unlink, Call::SyncDirectory];

#[test]
fn a_file_that_is_put_in_its_place_at_any_moment_is_neither_given_nor_removed() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for asked in ASKS {
        for moment in MOMENTS {
            for planted in ["a file", "a link", "a directory"] {
                let lab = lab_with_secret(&memory);
                let first = saved(&lab.roots(), &lab.at("d/file"), false, TEXT);
                let mine = lab.root.join("d/mine");
                match planted {
                    "a file" => fs::write(&mine, other()).unwrap(),
                    "a link" => symlink(lab.outside.join("secret"), &mine).unwrap(),
                    _ => make(&mine, 0o700),
                }
                let ino = fs::symlink_metadata(&mine).unwrap().ino();
                let swapped = Arc::new(AtomicBool::new(false));
                let (seen, path) = (Arc::clone(&swapped), first.path.clone());
                let roots = lab.hooked(move |call| {
                    if call == moment && !seen.swap(true, Ordering::SeqCst) {
                        let swap = rustix::fs::renameat_with(CWD, &mine, CWD, &path, RenameFlags::EXCHANGE);
                        // Where the file has no name of its own any more, theirs takes it.
                        swap.or_else(|_| rustix::fs::rename(&mine, &path)).unwrap();
                    }
                    None
                });
                let what = format!("{asked}: {planted} before {moment:?}");
                if asked == "remove" && matches!(moment, Call::Unlink | Call::RenameNew) && forces(&["link"])
                {
                    // Without a rename that spares a name, a file cannot be looked at on its way out.
                    continue;
                }
                let result = ask(&roots, &first, asked);
                if let Ok(Some(bytes)) = &result {
                    assert_eq!(bytes, TEXT, "{what}: only what was saved is given");
                }
                if swapped.load(Ordering::SeqCst) {
                    let there = fs::symlink_metadata(&first.path);
                    assert_eq!(
                        there.expect(&what).ino(),
                        ino,
                        "{what}: theirs is still there, after {result:?}"
                    );
                } else {
                    assert!(result.is_ok(), "{what}: {result:?}");
                }
                assert_eq!(crate::common::temporaries(above(&first.path)), Vec::<String>::new(), "{what}");
                assert_eq!(fs::read(lab.outside.join("secret")).unwrap(), b"the secret, all of it too");
                count.one();
            }
        }
    }
    count.tell("saved files that are replaced while they are looked at", 40);
}

#[test]
fn records_that_lead_elsewhere_give_nothing() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    let lab = lab_with_secret(&memory);
    let roots = open(Settings { allow_hidden: true, ..lab.settings() });
    let first = saved(&roots, &lab.at("d/file"), false, TEXT);
    symlink(&lab.outside, lab.root.join("out")).unwrap();
    symlink("d", lab.root.join("in")).unwrap();
    symlink("file", lab.root.join("d/link")).unwrap();
    fs::write(lab.outside.join("file"), TEXT).unwrap();
    let before = tree(lab.dir.path());
    let paths = [
        text(&lab.outside.join("file")).to_owned(),
        lab.at("../outside/file"),
        lab.at("out/file"),
        lab.at("in/file"),
        lab.at("d/link"),
        lab.at("d/./../d/file"),
        lab.at("d/file/"),
        lab.at("d/file/."),
        lab.at("d"),
        lab.at(""),
        text(&lab.root).to_owned(),
        format!("/proc/self/root{}", text(&first.path)),
        format!("/proc/self/cwd/{}", text(&first.path)),
        String::from("d/file"),
        String::new(),
        lab.at("d/file\0"),
        lab.at("d/\u{202e}file"),
        lab.at(".mcpproxy-00000000000000000000000000000000.tmp"),
        String::from("/etc/passwd"),
    ];
    for path in paths {
        for asked in ASKS {
            let led = Saved { path: path.clone().into(), ..first.clone() };
            let result = ask(&roots, &led, asked);
            assert!(result.is_err(), "{asked} {path:?}");
            assert_eq!(tree(lab.dir.path()), before, "{asked} {path:?}");
            count.one();
        }
    }
    assert!(ask(&roots, &first, "read").is_ok(), "the record itself is good");
    count.tell("records that lead elsewhere", 50);
}
