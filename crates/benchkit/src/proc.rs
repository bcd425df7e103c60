//! What a process and its children cost: CPU time and resident memory from `/proc`, without benchkit's own.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The kernel reports CPU time in hundredths of a second, on every architecture that runs Rust.
const TICKS_PER_SECOND: f64 = 100.0;
/// Most processes of a tree that are looked at.
const MOST_PROCESSES: usize = 4096;
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
/// Reading all of `/proc` costs milliseconds, which would be taken from what is measured.
const LOOK_FOR_CHILDREN_EVERY: Duration = Duration::from_millis(250);

/// CPU time of this process so far.
pub fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The tree's processes, root first. benchkit itself is left out: it may be there as the gateway's stdio server.
fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(parent) = stat(pid).and_then(|stat| stat.parent)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut todo) = (Vec::new(), vec![root]);
    while let Some(pid) = todo.pop()
        && found.len() < MOST_PROCESSES
    {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.trim_end() != "benchkit" {
            found.push(pid);
        }
        todo.extend(children.get(&pid).into_iter().flatten());
    }
    found
}

struct Stat {
    parent: Option<u32>,
    /// User and system time, in ticks; that of children who were waited for is with them.
    ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and parentheses; behind the last one come the state and the numbers.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let ticks = (11..=14).filter_map(number).sum();
    Some(Stat { parent: number(1).and_then(|p| u32::try_from(p).ok()), ticks })
}

/// CPU seconds of the tree so far.
pub fn cpu_seconds(root: u32) -> f64 {
    let ticks: u64 = tree(root).into_iter().filter_map(stat).map(|stat| stat.ticks).sum();
    ticks as f64 / TICKS_PER_SECOND
}

/// Resident memory of the tree, in kB; pages that processes share count once for each.
pub fn rss_kb(root: u32) -> u64 {
    tree(root).into_iter().map(|pid| status_kb(pid, "VmRSS:")).sum()
}

/// The kernel's own peak of a process begins anew at what is resident now.
fn begin_peak_anew(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// How much the resident memory of this process grows while something runs, in kB.
pub fn own_growth_kb<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let own = std::process::id();
    begin_peak_anew(own);
    let before = status_kb(own, "VmRSS:");
    let done = run();
    (done, status_kb(own, "VmHWM:").saturating_sub(before))
}

fn status_kb(pid: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Watches the tree's resident memory until it is told to stop.
pub struct MemoryWatch {
    root: u32,
    stop: Arc<AtomicBool>,
    peak_kb: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl MemoryWatch {
    /// Starts to watch. The kernel's own peak of the root begins anew too, so that nothing between two samples is missed.
    pub fn start(root: u32) -> Self {
        begin_peak_anew(root);
        let (stop, peak_kb) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, highest) = (Arc::clone(&stop), Arc::clone(&peak_kb));
        let thread = std::thread::spawn(move || watch(root, &stopped, &highest));
        Self { root, stop, peak_kb, thread }
    }

    /// The highest that was seen, in kB.
    pub fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        // It does not panic; if it did, its figure so far stands.
        let _ = self.thread.join();
        self.peak_kb.load(Ordering::Relaxed).max(status_kb(self.root, "VmHWM:"))
    }
}

fn watch(root: u32, stopped: &AtomicBool, highest: &AtomicU64) {
    let mut pids = tree(root);
    let mut looked = Instant::now();
    while !stopped.load(Ordering::Relaxed) {
        if looked.elapsed() > LOOK_FOR_CHILDREN_EVERY {
            pids = tree(root);
            looked = Instant::now();
        }
        let now: u64 = pids.iter().map(|&pid| status_kb(pid, "VmRSS:")).sum();
        highest.fetch_max(now, Ordering::Relaxed);
        std::thread::sleep(SAMPLE_EVERY);
    }
}
