//! One process per data directory: `lock` is held by the daemon (or a standalone call) for as long as it lives.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::datadir::{DataDir, our_uid};
use super::{exit, exit_code_of};

/// The name of the lock file in the data directory.
const NAME: &str = "lock";
/// A reader of `run.json` tests the lock by taking it for an instant, which must not stop a daemon that starts just then.
const ATTEMPTS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(20);

/// Proof that this process holds the data directory. The lock goes when this is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the data directory cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another mcpproxy holds it.
    #[error(
        "another mcpproxy{} holds {}: stop it, or use another --data-dir",
        pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), dir.display()
    )]
    Held {
        /// The holder, if it wrote who it is.
        pid: Option<u32>,
        /// The data directory.
        dir: PathBuf,
    },
    /// An mcpproxy-go has its database open there.
    #[error(
        "an mcpproxy-go runs on {}: its database {}/config.db is in use; stop it, or use another --data-dir",
        dir.display(), dir.display()
    )]
    PeerRunning {
        /// The data directory.
        dir: PathBuf,
    },
    /// The operating system refused something.
    #[error("{} cannot be locked: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
}

impl LockError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Held { .. } | Self::PeerRunning { .. } => exit::HELD,
            Self::Io { source, .. } => exit_code_of(source),
        }
    }
}

impl Lock {
    /// Takes the data directory for this process, or says who has it. Waits a fifth of a second at most.
    pub fn take(dir: &DataDir) -> Result<Self, LockError> {
        let path = dir.path().join(NAME);
        let io = |source: io::Error| LockError::Io { path: path.clone(), source };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| io(error.into()))?;
        let mut file = File::from(file);
        if !take_exclusive(&file).map_err(io)? {
            return Err(LockError::Held { pid: written_pid(&mut file), dir: dir.path().to_owned() });
        }
        if peer_runs(dir.path()).map_err(|source| LockError::Io { path: dir.path().join(PEER), source })? {
            return Err(LockError::PeerRunning { dir: dir.path().to_owned() });
        }
        write_pid(&mut file).map_err(io)?;
        Ok(Self { _file: file })
    }
}

/// The process that holds the lock of `dir` at this moment, by what it wrote into it. `None`: nobody holds it, or the file
/// is not of our own.
pub fn holder(dir: &Path) -> io::Result<Option<u32>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = match rustix::fs::open(dir.join(NAME), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.uid() != our_uid() {
        return Ok(None);
    }
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None), // ours now, given back when the file is closed
        Err(Errno::WOULDBLOCK) => Ok(written_pid(&mut file)),
        Err(error) => Err(error.into()),
    }
}

fn take_exclusive(file: &File) -> io::Result<bool> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(BETWEEN);
        }
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn flock(file: &File, operation: FlockOperation) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation))
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

fn written_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The database of mcpproxy-go, which locks it (by `flock`; by record locks on some systems) while it runs.
const PEER: &str = "config.db";

fn peer_runs(dir: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let database = match rustix::fs::open(dir.join(PEER), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let shared = FlockOperation::NonBlockingLockShared;
    let held = |result: rustix::io::Result<()>| matches!(result, Err(Errno::WOULDBLOCK | Errno::ACCESS));
    // Both are given back when the file is closed.
    Ok(held(flock(&database, shared)) || held(rustix::fs::fcntl_lock(&database, shared)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn data_dir() -> (tempfile::TempDir, DataDir) {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&home.path().join("data")).unwrap();
        (home, dir)
    }

    #[test]
    fn a_second_holder_is_refused_and_told_who_has_it() {
        let (_home, dir) = data_dir();
        let lock = Lock::take(&dir).unwrap();
        assert_eq!(holder(dir.path()).unwrap(), Some(std::process::id()));
        let error = Lock::take(&dir).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        drop(lock);
        assert_eq!(holder(dir.path()).unwrap(), None);
        Lock::take(&dir).unwrap();
    }

    #[test]
    fn a_reader_that_tests_the_lock_does_not_stop_a_start() {
        let (_home, dir) = data_dir();
        drop(Lock::take(&dir).unwrap());
        let probe = File::open(dir.path().join(NAME)).unwrap();
        rustix::fs::flock(&probe, FlockOperation::NonBlockingLockShared).unwrap();
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(probe);
        });
        Lock::take(&dir).unwrap();
        release.join().unwrap();
    }

    #[test]
    fn a_lock_file_that_nobody_holds_names_no_holder() {
        let (_home, dir) = data_dir();
        assert_eq!(holder(dir.path()).unwrap(), None);
        fs::write(dir.path().join(NAME), "1\n").unwrap();
        assert_eq!(holder(dir.path()).unwrap(), None);
    }

    #[test]
    fn a_running_mcpproxy_go_is_seen_and_its_database_left_free() {
        let (_home, dir) = data_dir();
        let path = dir.path().join(PEER);
        fs::write(&path, "bolt").unwrap();
        let database = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        rustix::fs::flock(&database, FlockOperation::NonBlockingLockExclusive).unwrap();
        let error = Lock::take(&dir).unwrap_err();
        assert!(matches!(error, LockError::PeerRunning { .. }), "{error}");
        assert_eq!(error.exit_code(), 3);
        rustix::fs::flock(&database, FlockOperation::Unlock).unwrap();
        let _lock = Lock::take(&dir).unwrap();
        rustix::fs::flock(&database, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn a_record_lock_of_another_process_on_the_database_counts_too() {
        let (_home, dir) = data_dir();
        let path = dir.path().join(PEER);
        fs::write(&path, "bolt").unwrap();
        let script = "import fcntl,sys\nf=open(sys.argv[1],'r+b')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint('held',flush=True)\n\
                      sys.stdin.read()";
        let child = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            println!("skipped: no python3 to hold a record lock");
            return;
        };
        let mut word = [0; 4];
        child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        let error = Lock::take(&dir).unwrap_err();
        assert!(matches!(error, LockError::PeerRunning { .. }), "{error}");
        drop(child.stdin.take());
        child.wait().unwrap();
        Lock::take(&dir).unwrap();
    }
}
