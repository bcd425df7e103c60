//! The Unix socket of the daemon: in a directory that only we can enter, for our own user and root.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::datadir::{DataDir, our_uid};
use super::exit_code_of;
use super::lock::Lock;

const NAME: &str = "mcpproxy.sock";
/// `sockaddr_un` holds 108 bytes on Linux and 104 on macOS.
const MAX_PATH_BYTES: usize = 100;
const RANDOM_NAMES: usize = 8;

/// The file of a bound socket; it is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
    /// A directory that was made for the socket alone.
    directory: Option<PathBuf>,
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Something else has the name.
    #[error("{} is in the way of the Unix socket and is no socket: remove it", path.display())]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// The operating system refused something.
    #[error("the Unix socket {}: {source}; `\"enable_socket\": false` does without it", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
}

impl SocketError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InTheWay { .. } => super::exit::GENERAL,
            Self::Io { source, .. } => exit_code_of(source),
        }
    }
}

impl SocketFile {
    /// Binds the socket of `dir`, in place of one that an earlier holder of the lock left behind. The listener does not block.
    ///
    /// `runtime_dir` is `$XDG_RUNTIME_DIR`, used when the path in the data directory is too long for a socket.
    pub fn bind(
        dir: &DataDir,
        runtime_dir: Option<&Path>,
        _lock: &Lock,
    ) -> Result<(UnixListener, Self), SocketError> {
        let (path, directory) = choose_place(dir.path(), runtime_dir, Path::new("/tmp"))?;
        remove_stale(&path)?;
        let io = |source| SocketError::Io { path: path.clone(), source };
        // Until its mode is set, the directory keeps everybody else away.
        let listener = UnixListener::bind(&path).map_err(io)?;
        let inode = fs::symlink_metadata(&path).map_err(io)?.ino();
        let file = Self { path: path.clone(), inode, directory };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        Ok((listener, file))
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Whether a peer with this uid may use the socket: our own user, and root, which can do everything anyway.
pub fn is_welcome(uid: u32) -> bool {
    uid == our_uid() || uid == 0
}

/// Connects to the daemon's socket and makes sure that we or root listen there.
pub async fn connect(path: &Path) -> io::Result<tokio::net::UnixStream> {
    let stream = tokio::net::UnixStream::connect(path).await?;
    let uid = stream.peer_cred()?.uid();
    if is_welcome(uid) {
        return Ok(stream);
    }
    let why = format!("{} belongs to a process of uid {uid}, not to ours", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// The path of the socket, and the directory that was made for it alone.
fn choose_place(
    data: &Path,
    runtime_dir: Option<&Path>,
    temporary: &Path,
) -> Result<(PathBuf, Option<PathBuf>), SocketError> {
    let path = data.join(NAME);
    if fits(&path) {
        return Ok((path, None));
    }
    let tag = tag_of(data);
    if let Some(runtime_dir) = runtime_dir.filter(|dir| dir.is_absolute()) {
        let path = runtime_dir.join(format!("mcpproxy-{tag}.sock"));
        if fits(&path) && is_private(runtime_dir) {
            return Ok((path, None));
        }
    }
    let stem = format!("mcpproxy-{}-{tag}", our_uid());
    let known = temporary.join(&stem);
    if make_private(&known) {
        return Ok((known.join(NAME), Some(known)));
    }
    // Somebody else has the name that we would take: any other one will do, since `run.json` says where it is.
    for _ in 0..RANDOM_NAMES {
        let mut random = [0_u8; 8];
        if aws_lc_rs::rand::fill(&mut random).is_err() {
            break;
        }
        let directory = temporary.join(format!("{stem}-{:016x}", u64::from_ne_bytes(random)));
        if make_private(&directory) {
            return Ok((directory.join(NAME), Some(directory)));
        }
    }
    let source = io::Error::other("no directory of our own can be made for it");
    Err(SocketError::Io { path: known.join(NAME), source })
}

fn fits(path: &Path) -> bool {
    path.as_os_str().as_bytes().len() <= MAX_PATH_BYTES
}

/// Eight digits that tell data directories apart.
fn tag_of(data: &Path) -> String {
    let digest = Sha256::digest(data.as_os_str().as_bytes());
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the directory, or finds it made by us earlier. What others planted there, a link above all, is not used.
fn make_private(directory: &Path) -> bool {
    let _ = fs::DirBuilder::new().mode(0o700).create(directory);
    is_private(directory)
}

fn is_private(directory: &Path) -> bool {
    fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == our_uid() && found.mode() & 0o777 == 0o700)
}

fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let io = |source| SocketError::Io { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io(error)),
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(io),
        Ok(_) => Err(SocketError::InTheWay { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_dir(name: &str) -> (tempfile::TempDir, DataDir, Lock) {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&home.path().join(name)).unwrap();
        let lock = Lock::take(&dir).unwrap();
        (home, dir, lock)
    }

    #[test]
    fn the_socket_lies_in_the_data_directory_closed_to_others_and_goes_at_the_end() {
        let (_home, dir, lock) = data_dir("data");
        let (_listener, file) = SocketFile::bind(&dir, None, &lock).unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(file.path(), path);
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_anything_else_is_left() {
        let (_home, dir, lock) = data_dir("data");
        let path = dir.path().join(NAME);
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(SocketFile::bind(&dir, None, &lock).unwrap());
        fs::write(&path, "notes").unwrap();
        let error = SocketFile::bind(&dir, None, &lock).unwrap_err();
        assert!(matches!(error, SocketError::InTheWay { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
    }

    #[test]
    fn a_long_path_moves_to_the_runtime_directory_or_to_a_closed_one_under_tmp() {
        let long = PathBuf::from(format!("/home/somebody/{}", "d".repeat(90)));
        let home = tempfile::tempdir().unwrap();
        let runtime = home.path().join("run");
        assert!(make_private(&runtime));
        let (path, made) = choose_place(&long, Some(&runtime), home.path()).unwrap();
        assert_eq!((path.parent().unwrap(), made), (runtime.as_path(), None));
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        for runtime in [None, Some(runtime.as_path()), Some(Path::new("relative"))] {
            let (path, made) = choose_place(&long, runtime, home.path()).unwrap();
            let made = made.unwrap();
            assert_eq!(path, made.join(NAME));
            assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_planted_directory_under_tmp_is_not_used() {
        let long = PathBuf::from(format!("/home/somebody/{}", "d".repeat(90)));
        let home = tempfile::tempdir().unwrap();
        let (_, first) = choose_place(&long, None, home.path()).unwrap();
        let first = first.unwrap();
        fs::remove_dir(&first).unwrap();
        let elsewhere = home.path().join("elsewhere");
        assert!(make_private(&elsewhere));
        std::os::unix::fs::symlink(&elsewhere, &first).unwrap();
        let (path, made) = choose_place(&long, None, home.path()).unwrap();
        let made = made.unwrap();
        assert_ne!(made, first);
        assert!(is_private(&made) && path.starts_with(&made));
    }

    #[tokio::test]
    async fn a_client_connects_to_a_socket_of_ours() {
        let (_home, dir, lock) = data_dir("data");
        let (_listener, file) = SocketFile::bind(&dir, None, &lock).unwrap();
        connect(file.path()).await.unwrap();
        assert!(is_welcome(our_uid()) && is_welcome(0) && !is_welcome(our_uid() + 1));
    }
}
