//! `run.json`: where the daemon of a data directory can be reached, believed only while that daemon holds the lock.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::datadir::{DataDir, read_own};
use super::lock::{self, Lock};

const NAME: &str = "run.json";
const MAX_BYTES: u64 = 64 << 10;

/// What the daemon says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The TCP address that it listens on, with the port that it really got; none with `serve --stdio`.
    pub listen: Option<SocketAddr>,
    /// Its Unix socket.
    pub socket: Option<PathBuf>,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
}

/// A `run.json` of this process; the file is removed when this is dropped.
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
}

impl RunFile {
    /// Writes `run.json` with mode 0600. Only the holder of the lock can.
    pub fn publish(&self, dir: &DataDir, lock: &Lock) -> io::Result<Published> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        dir.write_whole(NAME, &text, lock)?;
        Ok(Published { path: dir.path().join(NAME) })
    }

    /// The daemon that runs on `dir` at this moment. `None` if there is none, or none that has said yet where it is.
    ///
    /// A file that a process left behind which no longer holds the lock is not believed, so that a key is never sent to an
    /// address that somebody else may listen on by now. Nothing is made or changed.
    ///
    /// # Errors
    /// A file that is not ours, can be written by others, or is not what a daemon writes.
    pub fn of_running(dir: &Path) -> io::Result<Option<Self>> {
        let Some(holder) = lock::holder(dir)? else { return Ok(None) };
        let Some(text) = read_own(&dir.join(NAME), MAX_BYTES)? else { return Ok(None) };
        let run: Self = serde_json::from_slice(&text)?;
        // A holder that has just taken the lock and not yet written its pid shows that of the last one, which is gone.
        Ok((run.pid == holder && is_alive(holder)).then_some(run))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn data_dir() -> (tempfile::TempDir, DataDir) {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&home.path().join("data")).unwrap();
        (home, dir)
    }

    fn run_of(pid: u32) -> RunFile {
        let listen = Some("127.0.0.1:8080".parse().unwrap());
        RunFile {
            pid,
            version: "1.2.3".to_owned(),
            listen,
            socket: Some("/x/mcpproxy.sock".into()),
            started: 1,
        }
    }

    #[test]
    fn a_running_daemon_is_found_until_it_ends() {
        let (_home, dir) = data_dir();
        assert_eq!(RunFile::of_running(dir.path()).unwrap(), None);
        let lock = Lock::take(&dir).unwrap();
        assert_eq!(RunFile::of_running(dir.path()).unwrap(), None);
        let run = run_of(std::process::id());
        let published = run.publish(&dir, &lock).unwrap();
        let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(RunFile::of_running(dir.path()).unwrap(), Some(run));
        drop(published);
        assert!(!dir.path().join(NAME).exists());
        assert_eq!(RunFile::of_running(dir.path()).unwrap(), None);
    }

    #[test]
    fn what_a_killed_daemon_left_behind_is_not_believed() {
        let (_home, dir) = data_dir();
        let lock = Lock::take(&dir).unwrap();
        std::mem::forget(run_of(std::process::id()).publish(&dir, &lock).unwrap());
        drop(lock);
        assert_eq!(RunFile::of_running(dir.path()).unwrap(), None, "nobody holds the lock");
        let lock = Lock::take(&dir).unwrap();
        std::mem::forget(run_of(4_000_000).publish(&dir, &lock).unwrap());
        assert_eq!(RunFile::of_running(dir.path()).unwrap(), None, "another one holds the lock");
        fs::write(dir.path().join("lock"), "4000000\n").unwrap();
        assert_eq!(RunFile::of_running(dir.path()).unwrap(), None, "the one that wrote it is gone");
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        let (_home, dir) = data_dir();
        let lock = Lock::take(&dir).unwrap();
        let _published = run_of(std::process::id()).publish(&dir, &lock).unwrap();
        fs::set_permissions(dir.path().join(NAME), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(RunFile::of_running(dir.path()).is_err());
    }

    #[test]
    fn a_directory_that_does_not_exist_has_no_daemon_and_is_not_made() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("data");
        assert_eq!(RunFile::of_running(&dir).unwrap(), None);
        assert!(!dir.exists());
    }
}
