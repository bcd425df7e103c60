//! A file gets new bytes at once and whole, or not at all; its mode and owner stay.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::file::MAX_BYTES;
use crate::links;
use crate::problem::Problem;

/// Threads of ours take turns: only somebody else's change is a conflict.
static TURN: Mutex<()> = Mutex::new(());

/// Puts what `change` makes of the text in its place. Gives whether anything changed.
pub(super) fn edit(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, Problem>,
) -> Result<bool, Problem> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let old = Old::read(path)?;
    let new = change(&old.text)?;
    if new == old.text {
        return Ok(false);
    }
    if u64::try_from(new.len()).is_ok_and(|length| length > MAX_BYTES) {
        let message = format!("would become larger than {MAX_BYTES} bytes");
        return Err(Problem::new(path.display().to_string(), message, "take something out of it"));
    }
    old.replace(path, &new)?;
    Ok(true)
}

/// Makes a file that is not there yet.
pub(super) fn create(path: &Path, text: &str) -> Result<(), Problem> {
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Problem::new(
            path.display().to_string(),
            "exists already and is left as it is",
            "edit it, or name another file with --config",
        ),
        _ => unwritable(path, error),
    };
    if path.symlink_metadata().is_ok() {
        return Err(failed(&io::ErrorKind::AlreadyExists.into()));
    }
    let dir = path.parent().unwrap_or(path);
    if !dir.is_dir() {
        make_private_dirs(dir).map_err(|error| unwritable(dir, &error))?;
    }
    let new = New::beside(path).map_err(|error| failed(&error))?;
    new.write(text).map_err(|error| failed(&error))?;
    // A link never replaces; file systems without links have only the plain way.
    match fs::hard_link(&new.path, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let mut file = open_new(path).map_err(|error| failed(&error))?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| failed(&error))?;
        }
        linked => linked.map_err(|error| failed(&error))?,
    }
    keep_dir(dir);
    Ok(())
}

/// A file as it was read.
struct Old {
    target: PathBuf,
    about: Metadata,
    text: String,
}

impl Old {
    fn read(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let failed = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => Problem::new(&name, "does not exist", "run: mcpproxy config init"),
            _ => Problem::new(&name, format!("cannot be read ({error})"), "make it readable for this user"),
        };
        let target = links::target(path).map_err(|error| failed(&error))?;
        let (about, bytes) = contents(&target).map_err(|error| failed(&error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { target, about, text }),
            Err(_) => Err(Problem::new(name, "is not valid UTF-8", "save it as UTF-8")),
        }
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), Problem> {
        let failed = |error: &io::Error| unwritable(&self.target, error);
        let new = New::beside(&self.target).map_err(|error| failed(&error))?;
        new.own(&self.about).map_err(|error| {
            let message = format!("would change its owner ({error})");
            let fix = "edit it as the user whom it belongs to, or by hand";
            Problem::new(path.display().to_string(), message, fix)
        })?;
        new.write(text).map_err(|error| failed(&error))?;
        if !self.is_still_so(path) {
            return Err(Problem::new(path.display().to_string(), "changed meanwhile", "try again"));
        }
        new.take_the_place_of(&self.target).map_err(|error| failed(&error))?;
        keep_dir(self.target.parent().unwrap_or(&self.target));
        Ok(())
    }

    /// Whether the name still leads to the same bytes of the same file.
    fn is_still_so(&self, path: &Path) -> bool {
        links::target(path).is_ok_and(|target| target == self.target)
            && contents(&self.target).is_ok_and(|(about, bytes)| {
                is_same_file(&about, &self.about) && bytes == self.text.as_bytes()
            })
    }
}

/// A temporary file that is gone when it is dropped, unless it took its place.
struct New {
    path: PathBuf,
    file: File,
}

impl New {
    fn beside(target: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        const ATTEMPTS: u32 = 100;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".{name}.{}-{number}.new", std::process::id()));
            match open_new(&path) {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        (&self.file).write_all(text.as_bytes())?;
        self.file.sync_all()
    }

    /// Gives the file owner and mode of another one.
    #[cfg(unix)]
    fn own(&self, model: &Metadata) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
        let about = self.file.metadata()?;
        if (about.uid(), about.gid()) != (model.uid(), model.gid()) {
            fchown(&self.file, Some(model.uid()), Some(model.gid()))?;
        }
        // After the owner, so that no other group sees the file in between.
        self.file.set_permissions(fs::Permissions::from_mode(model.mode() & 0o777))
    }

    #[cfg(not(unix))]
    fn own(&self, model: &Metadata) -> io::Result<()> {
        self.file.set_permissions(model.permissions())
    }

    fn take_the_place_of(&self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // After the rename nothing has this name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
fn open_new(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn open_new(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}

/// What lies there, without waiting for it and without following a link that came there meanwhile.
fn contents(target: &Path) -> io::Result<(Metadata, Vec<u8>)> {
    let file = crate::file::open_no_follow(target)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(io::Error::other(format!("larger than {MAX_BYTES} bytes")));
    }
    Ok((about, bytes))
}

#[cfg(unix)]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |m: &Metadata| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
    identity(a) == identity(b)
}

#[cfg(not(unix))]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    a.len() == b.len() && a.modified().ok() == b.modified().ok()
}

#[cfg(unix)]
fn make_private_dirs(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn make_private_dirs(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Makes the new name durable. The file is in its place already: a file system that cannot do this changes nothing.
fn keep_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}

fn unwritable(target: &Path, error: &io::Error) -> Problem {
    let fix = match error.kind() {
        io::ErrorKind::ResourceBusy => "mount its directory instead of the file, or edit it outside",
        io::ErrorKind::ReadOnlyFilesystem => "mount it writable, or edit it where it comes from",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on that file system",
        _ => "make its directory writable for this user, or edit the file by hand",
    };
    Problem::new(target.display().to_string(), format!("cannot be written ({error})"), fix)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn mode_and_owner_stay_and_no_temporary_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        for mode in [0o600, 0o640, 0o400] {
            let _ = fs::remove_file(&path);
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let before = path.metadata().unwrap();
            assert!(edit(&path, |old| Ok(format!("{old} new"))).unwrap());
            let after = path.metadata().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "old new");
            assert_eq!(after.mode() & 0o7777, mode);
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            assert_eq!(names(dir.path()), ["c.json"]);
        }
    }

    #[test]
    fn a_file_of_another_user_stays_his() {
        if rustix::process::geteuid().as_raw() != 0 {
            println!("skipped: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(edit(&path, |_| Ok("new".to_owned())).unwrap());
        let after = path.metadata().unwrap();
        assert_eq!((after.uid(), after.gid(), after.mode() & 0o7777), (1234, 4321, 0o640));
    }

    #[test]
    fn a_change_by_somebody_else_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        let other = dir.path().join("other");
        let changes: [(&str, &dyn Fn()); 3] = [
            ("in place", &|| fs::write(&path, "theirs").unwrap()),
            ("by rename", &|| {
                fs::write(&other, "mine").unwrap();
                fs::rename(&other, &path).unwrap();
            }),
            ("gone", &|| fs::remove_file(&path).unwrap()),
        ];
        for (how, change) in changes {
            fs::write(&path, "mine").unwrap();
            let problem = edit(&path, |_| {
                change();
                Ok("ours".to_owned())
            })
            .unwrap_err();
            assert_eq!((problem.message.as_str(), problem.fix.as_str()), ("changed meanwhile", "try again"));
            assert_ne!(fs::read_to_string(&path).ok().as_deref(), Some("ours"), "{how}");
            assert!(names(dir.path()).iter().all(|name| name == "c.json"), "{how}");
        }
    }

    #[test]
    fn a_link_stays_and_its_target_is_edited() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("real.json"), "old").unwrap();
        symlink("real.json", inner.join("second.json")).unwrap();
        let path = dir.path().join("c.json");
        symlink("inner/second.json", &path).unwrap();
        assert!(edit(&path, |_| Ok("new".to_owned())).unwrap());
        assert!(path.is_symlink() && inner.join("second.json").is_symlink());
        assert_eq!(fs::read_to_string(inner.join("real.json")).unwrap(), "new");
        assert_eq!(names(&inner), ["real.json", "second.json"]);
    }

    #[test]
    fn a_new_file_is_private_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/c.json");
        create(&path, "{}\n").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!(names(path.parent().unwrap()), ["c.json"]);
        assert!(create(&path, "other").unwrap_err().message.contains("exists already"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
        let dead = dir.path().join("dead.json");
        symlink("nowhere", &dead).unwrap();
        assert!(create(&dead, "{}").is_err() && edit(&dead, |_| Ok(String::new())).is_err());
        assert!(edit(dir.path(), |_| Ok(String::new())).is_err());
    }
}
