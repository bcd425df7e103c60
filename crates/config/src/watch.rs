//! Noticing that the file has new bytes, however it was written: in place, by rename, through a swapped link.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use linux::{Alarm, Wait};
#[cfg(not(target_os = "linux"))]
use other::{Alarm, Wait};

use crate::file::MAX_BYTES;
use crate::links;

/// How often the file is looked at when nothing is heard of it.
const REGULAR_LOOK: Duration = Duration::from_secs(2);
/// How long a file must rest before it is read.
const REST: Duration = Duration::from_millis(300);
/// The same for a file that is empty or gone: whoever truncates or deletes it mostly writes it again.
const LONG_REST: Duration = Duration::from_millis(1000);
/// A file that never rests is read after this long all the same.
const MOST_UNREST: Duration = Duration::from_millis(1500);

/// A watch over one file. It ends when it is dropped.
pub struct Watch {
    ended: Arc<AtomicBool>,
    alarm: Alarm,
}

impl Watch {
    /// Watches a file, which need not exist, nor its directory. `on_change` is called, on a thread of the watch, whenever
    /// the bytes that the name leads to are others than at the last call (at first: than now), the file is gone, or it cannot be read any
    /// more. Start the watch before the file is read: then no change is lost in between.
    ///
    /// # Errors
    /// The system gives no thread or no descriptor.
    pub fn start(path: &Path, on_change: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (wait, alarm) = Wait::new()?;
        let ended = Arc::new(AtomicBool::new(false));
        let mut watcher = Watcher::new(path, wait);
        let end = ended.clone();
        std::thread::Builder::new()
            .name("config-watch".to_owned())
            .spawn(move || watcher.run(&end, &on_change))?;
        Ok(Self { ended, alarm })
    }
}

impl Drop for Watch {
    /// No further call begins after this, except one that was about to begin.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.alarm.ring();
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    File {
        device: u64,
        inode: u64,
        size: u64,
        changed: (i64, i64),
    },
    /// Nothing is there, or nothing that can be looked at.
    None,
}

/// What the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bytes {
    Some(u64),
    Empty,
    Gone,
    Unreadable,
}

/// A change that was seen and has not been told yet.
#[derive(Debug, Clone, Copy)]
struct Unrest {
    began: Instant,
    last: Instant,
}

struct Watcher {
    path: PathBuf,
    wait: Wait,
    hasher: RandomState,
    look: Look,
    bytes: Bytes,
    unrest: Option<Unrest>,
}

impl Watcher {
    fn new(path: &Path, mut wait: Wait) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // First the ears, then the eyes: what changes in between is heard.
        wait.watch(&directories(&path));
        let hasher = RandomState::new();
        let (look, bytes) = (look(&path), read(&path, &hasher));
        Self { path, wait, hasher, look, bytes, unrest: None }
    }

    fn run(&mut self, ended: &AtomicBool, on_change: &impl Fn()) {
        loop {
            self.wait.wait(self.patience());
            if ended.load(Ordering::Acquire) {
                return;
            }
            self.wait.watch(&directories(&self.path));
            if self.has_changed(Instant::now()) && !ended.load(Ordering::Acquire) {
                on_change();
            }
        }
    }

    fn patience(&self) -> Duration {
        match self.unrest {
            Some(unrest) => REST.saturating_sub(unrest.last.elapsed()).max(Duration::from_millis(20)),
            None => REGULAR_LOOK,
        }
    }

    /// Whether the bytes have changed and the file rests.
    fn has_changed(&mut self, now: Instant) -> bool {
        let look = look(&self.path);
        if look != self.look {
            self.look = look;
            let began = self.unrest.map_or(now, |unrest| unrest.began);
            self.unrest = Some(Unrest { began, last: now });
        }
        let Some(unrest) = self.unrest else { return false };
        let (rested, waited) = (now.duration_since(unrest.last), now.duration_since(unrest.began));
        if rested < REST && waited < MOST_UNREST {
            return false;
        }
        let bytes = read(&self.path, &self.hasher);
        let is_passing = matches!(bytes, Bytes::Empty | Bytes::Gone) && bytes != self.bytes;
        if is_passing && rested < LONG_REST && waited < MOST_UNREST {
            return false;
        }
        self.unrest = None;
        std::mem::replace(&mut self.bytes, bytes) != bytes
    }
}

/// The directories in which the name, and each link on its way, can be changed.
fn directories(path: &Path) -> BTreeSet<PathBuf> {
    links::places(path).iter().filter_map(|place| place.parent().map(Path::to_owned)).collect()
}

fn look(path: &Path) -> Look {
    path.metadata().map_or(Look::None, |about| of_metadata(&about))
}

#[cfg(unix)]
fn of_metadata(about: &Metadata) -> Look {
    use std::os::unix::fs::MetadataExt;
    Look::File {
        device: about.dev(),
        inode: about.ino(),
        size: about.size(),
        changed: (about.ctime(), about.ctime_nsec()),
    }
}

#[cfg(not(unix))]
fn of_metadata(about: &Metadata) -> Look {
    let since = about.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let since = since.unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Look::File { device: 0, inode: 0, size: about.len(), changed: (seconds, i64::from(since.subsec_nanos())) }
}

fn read(path: &Path, hasher: &RandomState) -> Bytes {
    let file = match crate::file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Bytes::Gone,
        Err(_) => return Bytes::Unreadable,
    };
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Bytes::Unreadable;
    }
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Err(_) => Bytes::Unreadable,
        Ok(_) if bytes.iter().all(u8::is_ascii_whitespace) => Bytes::Empty,
        Ok(_) => Bytes::Some(hasher.hash_one(&bytes)),
    }
}
