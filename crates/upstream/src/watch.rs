//! The watcher: a small process of the same binary that ends our children when we are gone, however we ended.
//!
//! It holds the read end of a pipe from us. While we live it learns the process group of each child. When the pipe
//! breaks it ends those groups, and every process that carries our launch marker in its environment: that finds what
//! `npx` and `uvx` started, also when it made a group or a session of its own.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

/// The variable by which a child, and all that it starts, is known as ours.
pub const LAUNCH_VARIABLE: &str = "MCPPROXY_LAUNCH";

/// How long children may take to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Our side of the watcher.
pub struct Watcher {
    program: PathBuf,
    arguments: Vec<String>,
    instance: String,
    inner: Mutex<Inner>,
}

struct Inner {
    process: Option<Child>,
    groups: BTreeSet<u32>,
    dismissed: bool,
}

impl Watcher {
    /// Starts `program arguments… <instance>`, which must call [`run`].
    ///
    /// # Errors
    /// The process could not be started.
    pub fn spawn(program: &Path, arguments: &[String]) -> std::io::Result<Self> {
        let instance = random_name()?;
        let process = start(program, arguments, &instance)?;
        Ok(Self {
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            instance,
            inner: Mutex::new(Inner { process: Some(process), groups: BTreeSet::new(), dismissed: false }),
        })
    }

    /// The name that begins the launch marker of every child of this run.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The process group `group` is to end with us.
    pub fn watch(&self, group: u32) {
        let mut inner = self.lock();
        inner.groups.insert(group);
        self.tell(&mut inner, &format!("+{group}\n"));
    }

    /// The process group `group` has ended; its number may come to belong to somebody else.
    pub fn release(&self, group: u32) {
        let mut inner = self.lock();
        inner.groups.remove(&group);
        self.tell(&mut inner, &format!("-{group}\n"));
    }

    /// Lets the watcher end, and waits for it.
    pub fn dismiss(&self) {
        let mut inner = self.lock();
        inner.dismissed = true;
        if let Some(mut process) = inner.process.take() {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }

    /// Says a line to the watcher. One that somebody ended, or that could not be started, is started again and told all.
    fn tell(&self, inner: &mut Inner, line: &str) {
        if inner.dismissed {
            return;
        }
        let pipe = inner.process.as_mut().and_then(|p| p.stdin.as_mut());
        if pipe.is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_ok()) {
            return;
        }
        if let Some(mut lost) = inner.process.take() {
            let _ = lost.wait();
        }
        match start(&self.program, &self.arguments, &self.instance) {
            Ok(process) => {
                tracing::warn!(
                    "the process that watches over upstream processes was gone and was started again"
                );
                let all: String = inner.groups.iter().map(|g| format!("+{g}\n")).collect();
                let told = process.stdin.as_ref().map(|mut pipe| pipe.write_all(all.as_bytes()));
                inner.process = Some(process);
                drop(told);
            }
            Err(error) => tracing::error!(
                "the process that watches over upstream processes is gone and could not be started again ({error}): \
                 if the gateway is killed now, upstream processes stay"
            ),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.dismiss();
    }
}

fn start(program: &Path, arguments: &[String], instance: &str) -> std::io::Result<Child> {
    // A group of its own: Ctrl-C in a terminal goes to the foreground group and must not end the watcher before us.
    Command::new(program)
        .args(arguments)
        .arg(instance)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// The watcher process itself: returns when the pipe has broken and every child has ended.
pub fn run(instance: &str) {
    ignore_polite_signals();
    let mut groups = BTreeSet::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some((sign, number)) = line.split_at_checked(1) else { continue };
        let Ok(group) = number.parse::<u32>() else { continue };
        if sign == "+" {
            groups.insert(group)
        } else {
            groups.remove(&group)
        };
    }
    let marker = Marker::of_instance(instance);
    for group in &groups {
        signal_group(*group, Signal::TERM);
    }
    marker.signal(Signal::TERM);
    let until = Instant::now() + GRACE;
    while Instant::now() < until && (marker.any() || groups.iter().any(|g| group_lives(*g))) {
        std::thread::sleep(Duration::from_millis(20));
    }
    for group in &groups {
        signal_group(*group, Signal::KILL);
    }
    marker.signal(Signal::KILL);
}

/// A service manager that stops us signals every process of ours; the watcher must outlive the children.
#[expect(unsafe_code, reason = "std has no way to ignore a signal")]
fn ignore_polite_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: SIG_IGN installs no handler, so nothing of ours ever runs in signal context.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Processes that carry a launch marker.
pub(crate) struct Marker(Vec<u8>);

impl Marker {
    /// Everything that this run of the gateway started.
    fn of_instance(instance: &str) -> Self {
        Self(format!("{LAUNCH_VARIABLE}={instance}.").into_bytes())
    }

    /// Everything that one launch of one server started.
    pub(crate) fn of_launch(marker: &str) -> Self {
        Self(format!("{LAUNCH_VARIABLE}={marker}\0").into_bytes())
    }

    pub(crate) fn any(&self) -> bool {
        self.processes().next().is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        for handle in self.processes() {
            let _ = rustix::process::pidfd_send_signal(&handle, signal);
        }
    }

    /// Handles, not numbers: a number may come to belong to another process between the look and the signal.
    fn processes(&self) -> impl Iterator<Item = rustix::fd::OwnedFd> + '_ {
        std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let handle = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            self.is_in(&environment).then_some(handle)
        })
    }

    fn is_in(&self, environment: &[u8]) -> bool {
        environment.starts_with(&self.0)
            || environment
                .iter()
                .enumerate()
                .any(|(i, b)| *b == 0 && environment[i + 1..].starts_with(&self.0))
    }
}

pub(crate) fn signal_group(group: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

pub(crate) fn group_lives(group: u32) -> bool {
    i32::try_from(group)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
}

fn random_name() -> std::io::Result<String> {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_found_only_as_a_whole_variable() {
        let launch = Marker::of_launch("ab.1.fs");
        assert!(launch.is_in(b"A=1\0MCPPROXY_LAUNCH=ab.1.fs\0B=2\0"));
        assert!(launch.is_in(b"MCPPROXY_LAUNCH=ab.1.fs\0"));
        assert!(!launch.is_in(b"MCPPROXY_LAUNCH=ab.1.fs2\0"));
        assert!(!launch.is_in(b"X_MCPPROXY_LAUNCH=ab.1.fs\0"));
        assert!(Marker::of_instance("ab").is_in(b"A=\0MCPPROXY_LAUNCH=ab.1.fs\0"));
        assert!(!Marker::of_instance("a").is_in(b"A=\0MCPPROXY_LAUNCH=ab.1.fs\0"));
    }
}
