//! The attack suite: tables of hostile paths, links, owners, mounts and swaps. After each attack nothing new stands outside the
//! root, nothing outside is different, the bytes of the save are found nowhere but where it says, and nothing is left over.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a judge of paths needs the kernel's own view of them")]

mod aliases;
#[path = "../common/mod.rs"]
mod common;
mod fallbacks;
mod links;
mod marks;
mod messages;
mod mounts;
mod moves;
mod names;
mod owners;
mod places;
mod replaced;
mod targets;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown};
use std::path::Path;

use common::{Lab, Mount, everything, make, tree};
use outputfile::{NoLedger, Reason, Roots, SaveError, Saved, Settings};

/// What every attack tries to save.
pub const PAYLOAD: &[u8] =
    b"the payload of an attack, which may be found where it was saved and nowhere else";

/// A user who is not us.
pub const NOBODY: u32 = 65534;

/// Between which steps of a save something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Preflight,
    Begin,
    Put,
    Sync,
    Commit,
}

pub const STEPS: [Step; 5] = [Step::Preflight, Step::Begin, Step::Put, Step::Sync, Step::Commit];

/// A save of the payload; `before` is told of each step before it is made.
pub fn attempt(
    roots: &Roots,
    path: &str,
    overwrite: bool,
    before: impl Fn(Step),
) -> Result<Saved, SaveError> {
    before(Step::Preflight);
    let target = roots.preflight(path, overwrite, &NoLedger)?;
    before(Step::Begin);
    let mut writer = roots.begin(target)?;
    before(Step::Put);
    writer.put(PAYLOAD)?;
    before(Step::Sync);
    writer.sync()?;
    before(Step::Commit);
    writer.commit()
}

/// A save of the payload with nothing done in between.
pub fn plain(roots: &Roots, path: &str, overwrite: bool) -> Result<Saved, SaveError> {
    attempt(roots, path, overwrite, |_| {})
}

/// Where hundreds of laboratories are made one after the other: in memory where that may be mounted.
pub struct Memory {
    home: Lab,
    mount: Option<Mount>,
}

impl Memory {
    pub fn mounted() -> Self {
        let home = Lab::open_to_all();
        set_mode(&home.outside, 0o755);
        let mount = Mount::tmpfs(&home.outside, "mode=755");
        Self { home, mount }
    }

    pub fn lab(&self) -> Lab {
        let lab = Lab::within(&self.home.outside);
        set_mode(lab.dir.path(), 0o755);
        lab
    }
}

/// What stood outside the root before an attack.
pub struct Watch<'a> {
    lab: &'a Lab,
    outside: Vec<String>,
}

impl<'a> Watch<'a> {
    /// Fills the outside with things worth having, and remembers them.
    pub fn over(lab: &'a Lab) -> Self {
        let victim = lab.outside.join("victim");
        if !victim.exists() {
            fs::write(&victim, "the victim").unwrap();
            make(&lab.outside.join("inner"), 0o700);
            fs::write(lab.outside.join("inner/file"), "the inner file").unwrap();
        }
        Self { lab, outside: tree(&lab.outside) }
    }

    /// Nothing outside is different, no temporary is left anywhere, and the payload is where the save says, or nowhere.
    pub fn check(&self, result: &Result<Saved, SaveError>, what: &str) {
        assert_eq!(tree(&self.lab.outside), self.outside, "{what}: outside, after {result:?}");
        let saved = match result {
            Ok(saved) => Some(saved),
            Err(error) => error.saved(),
        };
        if let Some(saved) = saved {
            let (real, root) = (saved.path.canonicalize(), saved.root.canonicalize());
            let (real, root) = (real.expect(what), root.expect(what));
            assert!(real.starts_with(&root), "{what}: {} in {}", real.display(), root.display());
            assert_eq!(fs::read(&saved.path).expect(what), PAYLOAD, "{what}");
        }
        let id = saved.map(|saved| (saved.identity.dev, saved.identity.ino));
        for (path, meta) in everything(self.lab.dir.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            assert!(!name.starts_with(".mcpproxy-"), "{what}: {} is left", path.display());
            if meta.is_file() && Some((meta.dev(), meta.ino())) != id {
                let bytes = fs::read(&path).unwrap_or_default();
                assert!(bytes != PAYLOAD, "{what}: the payload is in {}", path.display());
            }
        }
    }
}

/// An attack that must be refused for one of these reasons.
pub fn assert_stopped(result: &Result<Saved, SaveError>, reasons: &[Reason], what: &str) {
    match result {
        Ok(saved) => panic!("{what}: saved as {}", saved.path.display()),
        Err(error) => assert!(reasons.contains(&error.reason()), "{what}: {:?}: {error}", error.reason()),
    }
}

/// Settings like those of a laboratory, with the targets that are being written for themselves.
pub fn separate(lab: &Lab) -> Settings {
    Settings { reservations: Default::default(), ..lab.settings() }
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub fn give(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
}

pub fn give_link(path: &Path, uid: u32) {
    lchown(path, Some(uid), Some(uid)).unwrap();
}

pub fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The count of rows of a group, told at its end.
#[derive(Default)]
pub struct Count {
    seen: u64,
    made: u64,
}

impl Count {
    pub fn one(&mut self) {
        self.seen += 1;
        self.made += 1;
    }

    /// Whether the next row is to be made: all in memory; on a disk, where each waits for it, one in seven.
    pub fn due(&mut self, memory: &Memory) -> bool {
        let due = memory.mount.is_some() || self.seen.is_multiple_of(7);
        self.seen += 1;
        self.made += u64::from(due);
        due
    }

    pub fn tell(&self, group: &str, at_least: u64) {
        assert!(self.seen >= at_least, "{group}: only {} rows", self.seen);
        common::tell("attacks", group, self.made);
    }
}
