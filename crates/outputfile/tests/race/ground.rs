//! The ground of a race: a root three directories deep, an outside that is watched, and room for what adversaries move.

use std::collections::HashMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags};

use super::payload::{self, VICTIM};
use crate::common::{make, text, tree};

/// The directories of a target, by how deep they are: the root, `a` and `a/b`.
pub const BELOW: [&str; 3] = ["", "a/", "a/b/"];

/// Names that everybody saves to, and the number of names that one saver has for itself.
pub const SHARED: [&str; 4] = ["s0", "s1", "s2", "s3"];
pub const OWN: u64 = 2;

/// One of the directories on the way that an adversary moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Way,
    Root,
    A,
    B,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Way, Self::Root, Self::A, Self::B];

    /// Beneath the top.
    pub fn path(self) -> &'static str {
        match self {
            Self::Way => "way",
            Self::Root => "way/root",
            Self::A => "way/root/a",
            Self::B => "way/root/a/b",
        }
    }

    fn name(self) -> &'static str {
        self.path().rsplit('/').next().unwrap()
    }

    /// From which depth on targets lie beneath it.
    pub fn depth(self) -> usize {
        match self {
            Self::Way | Self::Root => 0,
            Self::A => 1,
            Self::B => 2,
        }
    }
}

pub struct Ground {
    // Removed at the end.
    dir: tempfile::TempDir,
    /// The directories of the targets, wherever they are.
    pub real: [OwnedFd; 3],
    /// About how long a save takes here.
    pub pace: Duration,
    outside: Vec<String>,
    watch: OwnedFd,
}

impl Ground {
    pub fn new(within: &Path) -> Self {
        let dir = tempfile::tempdir_in(within).unwrap();
        let top = dir.path();
        for name in ["way", "way/root", "way/root/a", "way/root/a/b", "links", "spare", "spare/a", "away", "attic"]
        {
            make(&top.join(name), 0o700);
        }
        // Nobody may take these for empty.
        for name in ["way/root", "way/root/a", "way/root/a/b"] {
            fs::write(top.join(name).join("keep"), "").unwrap();
        }
        for (link, outside) in Level::ALL.iter().zip(["", "/root", "/root/a", "/root/a/b"]) {
            let outside = format!("{}/outside{outside}", text(top));
            make(Path::new(&outside), 0o700);
            symlink(&outside, top.join("links").join(link.name())).unwrap();
            for name in ["s0", "s1", "victim"] {
                fs::write(Path::new(&outside).join(name), payload::content(VICTIM, payload::LEAST)).unwrap();
            }
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |name: &str| rustix::fs::open(top.join("way/root").join(name), flags, Mode::empty()).unwrap();
        let real = BELOW.map(|below| open(below));
        let outside = listing(&top.join("outside"));
        let watch = watch(&top.join("outside"));
        let pace = pace(top);
        Self { dir, real, pace, outside, watch }
    }

    pub fn top(&self) -> &Path {
        self.dir.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.top().join(name)
    }

    /// Nothing may have been made, written, renamed or removed outside, not even for a moment.
    pub fn assert_untouched_outside(&self) {
        let mut room = [MaybeUninit::uninit(); 4096];
        match inotify::Reader::new(&self.watch, &mut room).next() {
            Err(rustix::io::Errno::AGAIN) => {}
            Err(error) => panic!("the outside cannot be watched: {error}"),
            Ok(event) => panic!("outside was touched: {:?} {:?}", event.events(), event.file_name()),
        }
        assert_eq!(listing(&self.at("outside")), self.outside, "outside");
    }

    /// Every file that is left anywhere but outside. The directories stand at their places again.
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        let mut todo: Vec<PathBuf> = ["way", "spare", "away", "attic"].map(|name| self.at(name)).into();
        while let Some(directory) = todo.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let name = path.file_name().unwrap().to_str().unwrap();
                let planted = !["root", "a", "b"].contains(&name) && directory != self.at("attic");
                if name.starts_with(outputfile::name::TEMPORARY_PREFIX) {
                    census.temporaries.push(path);
                } else if meta.is_file() {
                    self.count(&mut census, &path, meta.ino());
                } else if planted {
                    census.things += 1;
                } else if meta.is_dir() {
                    todo.push(path);
                }
            }
        }
        census
    }

    fn count(&self, census: &mut Census, path: &Path, ino: u64) {
        if path.file_name().unwrap() == "keep" {
            return;
        }
        let bytes = fs::read(path).unwrap();
        let id = payload::whole(&bytes).unwrap_or_else(|seen| panic!("{} is no whole file: {seen}", path.display()));
        let depth = BELOW.iter().position(|below| path.parent() == Some(&*self.at("way/root").join(below)));
        let before = census.files.insert(id, Kept { ino, depth, hash: hash(&bytes), path: path.to_owned() });
        assert!(before.is_none(), "{} and {} are one save's", path.display(), before.unwrap().path.display());
    }
}

/// What is left at the end.
#[derive(Debug, Default)]
pub struct Census {
    pub files: HashMap<u64, Kept>,
    pub temporaries: Vec<PathBuf>,
    /// Links and directories under names of targets.
    pub things: u64,
}

/// A file that is left.
#[derive(Debug)]
pub struct Kept {
    pub ino: u64,
    /// How deep it is in the tree that was the root at the start, if it is there.
    pub depth: Option<usize>,
    pub hash: String,
    pub path: PathBuf,
}

pub fn hash(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    payload::hex(&sha2::Sha256::digest(bytes))
}

pub fn rename_new(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

pub fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

fn listing(dir: &Path) -> Vec<String> {
    let mut all = tree(dir);
    for path in all.clone().iter().filter_map(|line| line.splitn(3, ' ').nth(2)) {
        if let Ok(bytes) = fs::read(path) {
            all.push(format!("{path} {}", hash(&bytes)));
        }
    }
    all
}

fn pace(top: &Path) -> Duration {
    let start = Instant::now();
    let file = fs::File::create(top.join("pace")).unwrap();
    rustix::fs::fsync(&file).unwrap();
    fs::remove_file(top.join("pace")).unwrap();
    (2 * start.elapsed()).clamp(Duration::from_micros(100), Duration::from_millis(10))
}

fn watch(outside: &Path) -> OwnedFd {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let changes = ReadFlags::CREATE
        | ReadFlags::DELETE
        | ReadFlags::MOVED_FROM
        | ReadFlags::MOVED_TO
        | ReadFlags::MODIFY
        | ReadFlags::ATTRIB
        | ReadFlags::CLOSE_WRITE;
    let changes = WatchFlags::from_bits_retain(changes.bits());
    for below in ["", "root", "root/a", "root/a/b"] {
        inotify::add_watch(&watch, outside.join(below), changes).unwrap();
    }
    watch
}
