//! Waiting on Linux: events of directories, a wake-up call, and a time limit.

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// What may change what a name in the directory leads to, or what lies there. Not `MODIFY`: databases in the same
/// directory are written all the time, and who keeps a file open while it is written is noticed by the regular look.
const WATCHED: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Wakes the thread that waits.
#[derive(Clone)]
pub(super) struct Alarm(Arc<OwnedFd>);

impl Alarm {
    pub(super) fn ring(&self) {
        // A counter that is full rings already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// Waits for events of directories, the alarm, or the end of a time.
pub(super) struct Wait {
    alarm: Arc<OwnedFd>,
    /// Absent where the system has no more watches to give: the regular look remains.
    events: Option<OwnedFd>,
    watched: BTreeSet<i32>,
}

impl Wait {
    pub(super) fn new() -> io::Result<(Self, Alarm)> {
        let alarm = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Ok((Self { alarm: alarm.clone(), events, watched: BTreeSet::new() }, Alarm(alarm)))
    }

    /// Watches these directories and no others. Those that are missing are left out: call again.
    pub(super) fn watch(&mut self, dirs: &BTreeSet<PathBuf>) {
        let Some(events) = &self.events else { return };
        let now: BTreeSet<i32> =
            dirs.iter().filter_map(|dir| inotify::add_watch(events, dir, WATCHED).ok()).collect();
        for gone in self.watched.difference(&now) {
            // The kernel has let go of those whose directory is gone.
            let _ = inotify::remove_watch(events, *gone);
        }
        self.watched = now;
    }

    /// Waits at most this long.
    pub(super) fn wait(&mut self, most: Duration) {
        let limit = Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        let mut ears = vec![PollFd::new(&*self.alarm, PollFlags::IN)];
        ears.extend(self.events.iter().map(|events| PollFd::new(events, PollFlags::IN)));
        // Interrupted or not: the caller looks again.
        let _ = poll(&mut ears, Some(&limit));
        self.drain();
    }

    /// Reads what is there: which directory it came from does not matter.
    fn drain(&mut self) {
        let Some(events) = &self.events else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(events, &mut buffer);
        // Bounded, so that a directory that never rests cannot hold the thread.
        for _ in 0..10_000 {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::IGNORED) => {
                    let _ = self.watched.remove(&event.wd());
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}
