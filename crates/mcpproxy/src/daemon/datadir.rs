//! The data directory: ours, closed to everyone else, and the only place where this program keeps things.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{exit, exit_code_of};

/// Directories that lie in every data directory.
const ROOMS: [&str; 3] = ["logs", "spool", "kept"];
/// One of these shows that an existing directory is a data directory, ours or that of mcpproxy-go.
const SIGNS: [&str; 5] = ["mcpproxy.db", "api_key", "run.json", "mcp_config.json", "config.db"];
const PRIVATE: u32 = 0o700;

/// A data directory that belongs to us and has mode 0700.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    handle: File,
}

/// Why a directory cannot be the data directory.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It belongs to somebody else.
    #[error(
        "the data directory {} belongs to uid {owner}, not to us (uid {ours}): use a directory beneath it that is yours, \
         for example --data-dir {}", path.display(), beneath(path).display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user that we run as.
        ours: u32,
    },
    /// Its mode cannot be made 0700.
    #[error(
        "the data directory {} is open to others (mode {mode:04o}) and cannot be set to 0700: use a directory beneath it, \
         on a file system that keeps modes, for example --data-dir {}", path.display(), beneath(path).display()
    )]
    Open {
        /// The directory.
        path: PathBuf,
        /// The mode that it has.
        mode: u32,
    },
    /// It serves other ends already, which setting its mode would break.
    #[error(
        "the data directory {} is open to others (mode {mode:04o}) and holds files that are not mcpproxy's, so it is not \
         closed to them: use a directory beneath it, for example --data-dir {}", path.display(), beneath(path).display()
    )]
    Shared {
        /// The directory.
        path: PathBuf,
        /// The mode that it has.
        mode: u32,
    },
    /// The operating system refused something.
    #[error("the data directory {} cannot be used: {action}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What came back.
        source: io::Error,
    },
}

impl DataDirError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Io { source, .. } => exit_code_of(source),
            _ => exit::PERMISSION,
        }
    }
}

impl DataDir {
    /// Makes the directory if it is missing, closes it to everyone else, and makes the directories in it.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let path = std::path::absolute(path).map_err(io_error(path, "finding its absolute path"))?;
        let handle = open_private(&path, Existing::MayBeShared)?;
        for room in ROOMS {
            open_private(&path.join(room), Existing::IsOurs)?;
        }
        Ok(Self { path, handle })
    }

    /// The absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `name` with mode 0600 so that a reader sees the old or the new content, also after a crash.
    ///
    /// Only the holder of the lock may do this: two writers would share one temporary file.
    pub(super) fn write_whole(
        &self,
        name: &str,
        content: &[u8],
        _holder: &super::lock::Lock,
    ) -> io::Result<()> {
        let temporary = format!(".{name}.tmp");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        match rustix::fs::unlinkat(&self.handle, &temporary, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let mut file = File::from(rustix::fs::openat(&self.handle, &temporary, flags, mode)?);
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let published = written.and_then(|()| {
            rustix::fs::renameat(&self.handle, &temporary, &self.handle, name).map_err(Into::into)
        });
        if published.is_err() {
            let _ = rustix::fs::unlinkat(&self.handle, &temporary, rustix::fs::AtFlags::empty());
        }
        published.and_then(|()| self.handle.sync_all())
    }
}

/// Reads a small file that must be a regular one of our own; `None` if there is none.
pub(super) fn read_own(path: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return Err(refused(path, "is a symbolic link")),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused(path, "is not a regular file"));
    }
    if metadata.uid() != our_uid() {
        return Err(refused(path, &format!("belongs to uid {}, not to us", metadata.uid())));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(refused(path, "can be written by others: chmod it to 0600"));
    }
    let mut content = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut content)?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > max_bytes {
        return Err(refused(path, "is too large to be what it should be"));
    }
    Ok(Some(content))
}

/// The user that we run as.
pub(super) fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    IsOurs,
    MayBeShared,
}

fn open_private(path: &Path, existing: Existing) -> Result<File, DataDirError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(PRIVATE).create(path).map_err(io_error(path, "making it"))?;
    let handle = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let handle = File::from(handle.map_err(io::Error::from).map_err(io_error(path, "opening it"))?);
    let metadata = handle.metadata().map_err(io_error(path, "looking at it"))?;
    let (owner, ours) = (metadata.uid(), our_uid());
    if owner != ours {
        return Err(DataDirError::Foreign { path: path.to_owned(), owner, ours });
    }
    let mode = metadata.mode() & 0o7777;
    if mode == PRIVATE {
        return Ok(handle);
    }
    if mode & 0o077 != 0 && existing == Existing::MayBeShared && serves_others(path)? {
        return Err(DataDirError::Shared { path: path.to_owned(), mode });
    }
    let set = rustix::fs::fchmod(&handle, Mode::from_raw_mode(PRIVATE));
    let mode = handle.metadata().map_err(io_error(path, "looking at it"))?.mode() & 0o7777;
    if set.is_err() || mode & 0o777 != PRIVATE {
        return Err(DataDirError::Open { path: path.to_owned(), mode });
    }
    Ok(handle)
}

/// Whether there is something in the directory and nothing that shows it to be a data directory.
fn serves_others(path: &Path) -> Result<bool, DataDirError> {
    if SIGNS.iter().any(|sign| path.join(sign).symlink_metadata().is_ok()) {
        return Ok(false);
    }
    let mut entries = fs::read_dir(path).map_err(io_error(path, "reading it"))?;
    Ok(entries.next().is_some())
}

fn beneath(path: &Path) -> PathBuf {
    path.join("mcpproxy")
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |source| DataDirError::Io { path, action, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_missing_directory_is_made_with_its_parents_and_closed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        let dir = DataDir::open(&path).unwrap();
        for made in [home.path().join("a"), path, dir.path().join("logs"), dir.path().join("spool")] {
            assert_eq!(mode_of(&made), 0o700, "{}", made.display());
        }
    }

    #[test]
    fn an_empty_directory_or_one_of_mcpproxy_is_closed() {
        for sign in [None, Some("config.db"), Some("mcp_config.json")] {
            let home = tempfile::tempdir().unwrap();
            if let Some(sign) = sign {
                fs::write(home.path().join(sign), "").unwrap();
            }
            set_mode(home.path(), 0o755);
            DataDir::open(home.path()).unwrap();
            assert_eq!(mode_of(home.path()), 0o700);
        }
    }

    #[test]
    fn a_directory_that_others_use_is_refused_and_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("index.html"), "").unwrap();
        set_mode(home.path(), 0o1777);
        let error = DataDir::open(home.path()).unwrap_err();
        assert!(error.to_string().contains("use a directory beneath it"), "{error}");
        assert_eq!(error.exit_code(), exit::PERMISSION);
        assert_eq!(mode_of(home.path()), 0o1777);
        assert!(!home.path().join("logs").exists());
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if our_uid() != 0 {
            println!("skipped: only root can make a directory of another user");
            return;
        }
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(home.path(), Some(65534), None).unwrap();
        let error = DataDir::open(home.path()).unwrap_err();
        assert!(matches!(error, DataDirError::Foreign { owner: 65534, .. }), "{error}");
        assert!(error.to_string().contains("use a directory beneath it"), "{error}");
    }

    #[test]
    fn a_file_in_its_place_is_an_error_that_names_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "").unwrap();
        let error = DataDir::open(&path).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn only_a_small_regular_file_of_our_own_that_others_cannot_write_is_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        assert_eq!(read_own(&path, 10).unwrap(), None);
        fs::write(&path, "0123456789").unwrap();
        set_mode(&path, 0o600);
        assert_eq!(read_own(&path, 10).unwrap().unwrap(), b"0123456789");
        assert!(read_own(&path, 9).is_err());
        set_mode(&path, 0o620);
        assert!(read_own(&path, 10).is_err());
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read_own(&link, 10).is_err());
        assert!(read_own(home.path(), 10).is_err());
    }
}
