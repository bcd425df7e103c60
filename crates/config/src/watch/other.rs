//! Waiting where there are no events of directories: a wake-up call and a time limit.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Wakes the thread that waits.
#[derive(Clone)]
pub(super) struct Alarm(Sender<()>);

impl Alarm {
    pub(super) fn ring(&self) {
        let _ = self.0.send(());
    }
}

/// Waits for the alarm or the end of a time.
pub(super) struct Wait(Receiver<()>);

impl Wait {
    #[expect(clippy::unnecessary_wraps, reason = "the same signature on every system")]
    pub(super) fn new() -> io::Result<(Self, Alarm)> {
        let (sender, receiver) = channel();
        Ok((Self(receiver), Alarm(sender)))
    }

    pub(super) fn watch(&mut self, _: &BTreeSet<PathBuf>) {}

    pub(super) fn wait(&mut self, most: Duration) {
        let _ = self.0.recv_timeout(most);
    }
}
