//! Somebody else at the file system: what a plan does itself, never outside the laboratory, and it may fail.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use outputfile::{NoLedger, Roots};
use rustix::fs::{CWD, FileType, Mode, RenameFlags};

use super::draw::{At, Fs, Into, Swap};

/// Another user, who is nobody's friend.
const STRANGER: u32 = 65_533;
/// Where the root goes when something takes its place.
const ASIDE: &str = "aside";
const LEFTOVER: &str = ".mcpproxy-0123456789abcdef0123456789abcdef.tmp";

/// Does one thing.
pub fn act(fs: Fs, top: &Path, scratch: &Path, rival: &Roots) {
    let lab = Lab { top, scratch };
    // What cannot be done is not done.
    let _ = lab.act(fs, rival);
}

/// Gives the owner all rights again, so that everything can be removed.
pub fn make_removable(dir: &Path) {
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}

struct Lab<'a> {
    top: &'a Path,
    scratch: &'a Path,
}

impl Lab<'_> {
    fn act(&self, fs: Fs, rival: &Roots) -> Option<()> {
        match fs {
            Fs::MakeDirectory(at) => rustix::fs::mkdir(self.place(at)?, Mode::RWXU).ok(),
            Fs::Link(at, to) => symlink(self.scratch.join(to.0), self.place(at)?).ok(),
            Fs::LinkText(at, text) => symlink(text, self.place(at)?).ok(),
            Fs::Rename(from, to) => fs::rename(self.place(from)?, self.place(to)?).ok(),
            Fs::Exchange(one, other) => {
                let (one, other) = (self.place(one)?, self.place(other)?);
                rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).ok()
            }
            Fs::Unlink(at) => fs::remove_file(self.place(at)?).ok(),
            Fs::RemoveDirectory(at) => fs::remove_dir(self.place(at)?).ok(),
            Fs::HardLink(from, to) => fs::hard_link(self.place(from)?, self.place(to)?).ok(),
            Fs::Write(at, byte) => self.write(at, byte),
            Fs::Mode(at, mode) => {
                let path = self.real(at)?;
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).ok()
            }
            Fs::Owner(at) => std::os::unix::fs::lchown(self.place(at)?, Some(STRANGER), None).ok(),
            Fs::Pipe(at) => pipe(&self.place(at)?),
            Fs::SwapRoot(how) => self.swap(how),
            Fs::SwapBack => self.swap_back(),
            Fs::Leftover(at) => fs::write(self.real(at)?.join(LEFTOVER), "left").ok(),
            Fs::Turn(at, into) => self.turn(at, into),
            Fs::Rival(at, overwrite) => self.rival(at, overwrite, rival),
        }
    }

    /// The path, if its directory is in the laboratory, wherever links lead it.
    fn place(&self, at: At) -> Option<PathBuf> {
        let path = self.scratch.join(at.0);
        let parent = fs::canonicalize(path.parent()?).ok()?;
        parent.starts_with(self.top).then(|| parent.join(at.name()))
    }

    /// What the path leads to, if it is in the laboratory.
    fn real(&self, at: At) -> Option<PathBuf> {
        let path = fs::canonicalize(self.scratch.join(at.0)).ok()?;
        path.starts_with(self.top).then_some(path)
    }

    /// Writes into what is there, or makes it; a pipe would wait for a reader.
    fn write(&self, at: At, byte: u8) -> Option<()> {
        let path = self.place(at)?;
        let path = match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => path,
            Ok(_) => self.real(at).filter(|path| path.is_file())?,
            Err(_) => path,
        };
        fs::write(path, vec![byte; usize::from(byte % 50)]).ok()
    }

    fn turn(&self, at: At, into: Into) -> Option<()> {
        let path = self.place(at)?;
        if fs::symlink_metadata(&path).is_ok() {
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).ok()?;
        }
        match into {
            Into::Directory => rustix::fs::mkdir(&path, Mode::RWXU).ok(),
            Into::LinkOutside => symlink(self.scratch.join("out/a"), &path).ok(),
            Into::Pipe => pipe(&path),
            Into::File => fs::write(&path, "turned").ok(),
        }
    }

    fn swap(&self, how: Swap) -> Option<()> {
        let (root, aside) = (self.scratch.join("root"), self.scratch.join(ASIDE));
        rustix::fs::renameat_with(CWD, &root, CWD, &aside, RenameFlags::NOREPLACE).ok()?;
        match how {
            Swap::LinkToItself => symlink(&aside, &root).ok(),
            Swap::LinkOutside => symlink(self.scratch.join("out"), &root).ok(),
            Swap::Directory => rustix::fs::mkdir(&root, Mode::RWXU).ok(),
            Swap::Nothing => Some(()),
        }
    }

    fn swap_back(&self) -> Option<()> {
        let (root, aside) = (self.scratch.join("root"), self.scratch.join(ASIDE));
        let there = fs::symlink_metadata(&aside).ok()?;
        if fs::symlink_metadata(&root).is_ok_and(|now| !now.is_dir() && there.is_dir()) {
            fs::remove_file(&root).ok()?;
        }
        rustix::fs::renameat_with(CWD, &aside, CWD, &root, RenameFlags::NOREPLACE)
            .or_else(|_| rustix::fs::renameat_with(CWD, &aside, CWD, &root, RenameFlags::EXCHANGE))
            .ok()
    }

    /// A whole save by somebody who knows nothing of our saves.
    fn rival(&self, at: At, overwrite: bool, rival: &Roots) -> Option<()> {
        let path = format!("{}/{}", self.scratch.display(), at.0);
        let target = rival.preflight(&path, overwrite, &NoLedger).ok()?;
        let mut writer = rival.begin(target).ok()?;
        writer.put(b"of a rival").ok()?;
        let saved = writer.commit().ok()?;
        assert_eq!(fs::read(saved.path).unwrap(), b"of a rival");
        Some(())
    }
}

fn pipe(path: &Path) -> Option<()> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).ok()
}
