//! The load client: one session, a bounded number of calls, each timed from writing the request to the last byte of its
//! reply, and each reply checked after its clock has stopped.

mod case;
mod check;
mod http;
mod sse;
mod stdio;
mod waiting;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;

use crate::proc;
use case::Case;

const REVISION: &str = "2025-06-18";
const MOST_CALLS: u64 = 1_000_000;
const MOST_WORKERS: u64 = 256;
/// Kinds of errors that are told apart.
const MOST_KINDS: usize = 8;

/// What it is started with.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    target: Target,
    /// What is called
    #[arg(long, value_enum)]
    case: case::Kind,
    /// Bytes of text that a call asks for (`echo`: sends)
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    /// The tool's name as the target lists it, when it is not the case's own
    #[arg(long)]
    tool: Option<String>,
    /// The server behind the gateway that is called through `call_tool_read`
    #[arg(long, value_name = "SERVER", conflicts_with = "tool")]
    via: Option<String>,
    /// `save`: the directory beneath an allowed root that the files go to; each is read, compared and removed
    #[arg(long, value_name = "DIR")]
    save_in: Option<PathBuf>,
    /// Calls that count, at most 1,000,000
    #[arg(long, default_value_t = 200)]
    calls: u64,
    /// Calls before them that do not count
    #[arg(long, default_value_t = 20)]
    warm_up: u64,
    /// Calls that are under way at the same time, at most 256
    #[arg(long, default_value_t = 1)]
    concurrency: u64,
    /// The gateway: its process tree is measured (without it, that of --stdio)
    #[arg(long)]
    pid: Option<u32>,
    /// Seconds that one call may take
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Seconds after which no call is begun
    #[arg(long, default_value_t = 120)]
    max_seconds: u64,
}

/// Where the calls go to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// Streamable HTTP on loopback
    #[arg(long)]
    url: Option<String>,
    /// HTTP with SSE of revision 2024-11-05, on loopback
    #[arg(long, value_name = "URL")]
    legacy_sse: Option<String>,
    /// A program to start and to speak to over its standard input and output, split at spaces
    #[arg(long, value_name = "COMMAND")]
    stdio: Option<String>,
}

/// The figures of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    calls: u64,
    errors: u64,
    /// What went wrong, and how often.
    kinds: BTreeMap<String, u64>,
    /// From the first call's begin to the last one's end.
    wall_s: f64,
    calls_per_s: f64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    max_us: u64,
    /// Bytes of the last reply's JSON-RPC message.
    reply_bytes: usize,
    /// Tools that the last reply listed or found.
    tools: usize,
    names: Vec<String>,
    cpu_s: Option<f64>,
    rss_before_kb: Option<u64>,
    rss_peak_kb: Option<u64>,
    rss_after_kb: Option<u64>,
}

impl Report {
    /// Whether every call that was asked for was made and answered as it should be.
    pub fn is_sound(&self) -> bool {
        self.errors == 0 && self.calls > 0
    }
}

/// The way to the target, shared or owned by one worker.
enum Front {
    Http(Box<http::Front>),
    Stdio(Arc<stdio::Front>),
    Sse(Box<sse::Front>),
}

/// A JSON-RPC message, and how long it took to come.
struct Reply {
    message: Vec<u8>,
    took: Duration,
}

impl Front {
    async fn call(&mut self, id: u64, request: Bytes, limit: Duration) -> Result<Reply, String> {
        let reply = async {
            match self {
                Self::Http(front) => front.call(id, request).await,
                Self::Stdio(front) => front.call(id, &request).await,
                Self::Sse(front) => front.call(id, request).await,
            }
        };
        match tokio::time::timeout(limit, reply).await {
            Ok(reply) => reply,
            Err(_) => {
                if let Self::Http(front) = self {
                    front.hang_up();
                }
                Err(format!("no reply within {} s", limit.as_secs()))
            }
        }
    }

    async fn notify(&mut self, message: Bytes) -> Result<(), String> {
        match self {
            Self::Http(front) => front.notify(message).await,
            Self::Stdio(front) => front.send(&message).await,
            Self::Sse(front) => front.notify(message).await,
        }
    }

    /// The same session for another worker; over HTTP on a connection of its own.
    fn again(&self) -> Self {
        match self {
            Self::Http(front) => Self::Http(Box::new(front.again())),
            Self::Stdio(front) => Self::Stdio(Arc::clone(front)),
            Self::Sse(front) => Self::Sse(Box::new(front.again())),
        }
    }
}

/// Runs the calls; errors are what kept it from starting.
pub async fn run(options: &Options) -> Result<Report, String> {
    let case = Arc::new(Case::new(options)?);
    let limit = Duration::from_secs(options.timeout.min(600));
    let (mut front, mut child) = connect(&options.target).await?;
    initialize(&mut front, limit).await?;

    let count = options.concurrency.clamp(1, MOST_WORKERS);
    let mut workers: Vec<Worker> = (0..count).map(|_| Worker::new(front.again(), &case, limit)).collect();
    let deadline = Instant::now() + Duration::from_secs(options.max_seconds.min(600));
    let ids = Arc::new(AtomicU64::new(1));
    if options.warm_up > 0 {
        workers = round(workers, &ids, options.warm_up.min(MOST_CALLS), deadline).await;
        // An error of the warm-up is not forgotten; its times are.
        workers.iter_mut().for_each(|worker| worker.took_us.clear());
    }

    let measured = options.pid.or_else(|| child.as_ref().and_then(tokio::process::Child::id));
    let gauge = measured.map(Gauge::start);
    let start = Instant::now();
    workers = round(workers, &ids, options.calls.min(MOST_CALLS), deadline).await;
    let wall = start.elapsed();
    let cost = gauge.map(Gauge::finish);
    if let Front::Http(front) = &mut front {
        front.end_session().await;
    }
    if let Some(child) = &mut child {
        let _ = child.kill().await;
    }
    let mut report = report(workers, wall, cost.as_ref());
    if Instant::now() >= deadline {
        report.errors += 1;
        report.kinds.insert("the time was over before all calls were made".to_owned(), 1);
    }
    Ok(report)
}

async fn connect(target: &Target) -> Result<(Front, Option<tokio::process::Child>), String> {
    if let Some(url) = &target.url {
        return Ok((Front::Http(Box::new(http::Front::new(url)?)), None));
    }
    if let Some(url) = &target.legacy_sse {
        return Ok((Front::Sse(Box::new(sse::Front::open(url).await?)), None));
    }
    let (front, child) = stdio::Front::start(target.stdio.as_deref().unwrap_or_default())?;
    Ok((Front::Stdio(Arc::new(front)), Some(child)))
}

async fn initialize(front: &mut Front, limit: Duration) -> Result<(), String> {
    let hello = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": REVISION, "capabilities": {},
        "clientInfo": {"name": "benchkit", "version": env!("CARGO_PKG_VERSION")}}});
    let reply =
        front.call(0, hello.to_string().into(), limit).await.map_err(|e| format!("initialize: {e}"))?;
    check::is_result(0, &reply.message).map_err(|e| format!("initialize: {e}"))?;
    let done = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    front.notify(done).await.map_err(|e| format!("notifications/initialized: {e}"))
}

/// One call at a time, over and over.
struct Worker {
    front: Front,
    case: Arc<Case>,
    limit: Duration,
    took_us: Vec<u64>,
    kinds: BTreeMap<String, u64>,
    seen: check::Seen,
}

impl Worker {
    fn new(front: Front, case: &Arc<Case>, limit: Duration) -> Self {
        let (case, seen) = (Arc::clone(case), check::Seen::default());
        Self { front, case, limit, took_us: Vec::new(), kinds: BTreeMap::new(), seen }
    }

    async fn work(mut self, ids: Arc<AtomicU64>, end: u64, deadline: Instant) -> Self {
        while Instant::now() < deadline {
            let id = ids.fetch_add(1, Ordering::Relaxed);
            if id >= end {
                break;
            }
            let outcome = match self.front.call(id, self.case.request(id), self.limit).await {
                Ok(reply) => {
                    self.took_us.push(u64::try_from(reply.took.as_micros()).unwrap_or(u64::MAX));
                    self.case.check(id, &reply.message)
                }
                Err(problem) => Err(problem),
            };
            match outcome {
                Ok(seen) => self.seen = seen,
                Err(kind) => self.note(kind),
            }
        }
        self
    }

    fn note(&mut self, kind: String) {
        let room = self.kinds.len() < MOST_KINDS;
        let kind = if room || self.kinds.contains_key(&kind) { kind } else { "others".to_owned() };
        *self.kinds.entry(kind).or_insert(0) += 1;
    }
}

/// All workers make `calls` calls together.
async fn round(workers: Vec<Worker>, ids: &Arc<AtomicU64>, calls: u64, deadline: Instant) -> Vec<Worker> {
    // Each worker drew one number too many in the round before; those are never used.
    let first = ids.load(Ordering::Relaxed);
    let end = first.saturating_add(calls);
    let tasks: Vec<_> =
        workers.into_iter().map(|worker| tokio::spawn(worker.work(Arc::clone(ids), end, deadline))).collect();
    let mut back = Vec::with_capacity(tasks.len());
    for task in tasks {
        // A worker that panicked takes its figures along; the count of the calls shows it.
        back.extend(task.await);
    }
    back
}

/// CPU time and memory of the process tree over one round.
struct Gauge {
    pid: u32,
    before_kb: u64,
    cpu_s: f64,
    memory: proc::MemoryWatch,
}

struct Cost {
    cpu_s: f64,
    before_kb: u64,
    peak_kb: u64,
    after_kb: u64,
}

impl Gauge {
    fn start(pid: u32) -> Self {
        let before_kb = proc::rss_kb(pid);
        let memory = proc::MemoryWatch::start(pid);
        Self { pid, before_kb, memory, cpu_s: proc::cpu_seconds(pid) }
    }

    fn finish(self) -> Cost {
        let cpu_s = proc::cpu_seconds(self.pid) - self.cpu_s;
        let peak_kb = self.memory.finish();
        Cost { cpu_s, before_kb: self.before_kb, peak_kb, after_kb: proc::rss_kb(self.pid) }
    }
}

fn report(workers: Vec<Worker>, wall: Duration, cost: Option<&Cost>) -> Report {
    let mut took: Vec<u64> = Vec::new();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut seen = check::Seen::default();
    for worker in workers {
        took.extend(worker.took_us);
        for (kind, count) in worker.kinds {
            *kinds.entry(kind).or_insert(0) += count;
        }
        if worker.seen.reply_bytes > 0 {
            seen = worker.seen;
        }
    }
    took.sort_unstable();
    let wall_s = wall.as_secs_f64();
    Report {
        calls: took.len() as u64,
        errors: kinds.values().sum(),
        kinds,
        wall_s,
        calls_per_s: if wall_s > 0.0 { took.len() as f64 / wall_s } else { 0.0 },
        p50_us: percentile(&took, 50),
        p90_us: percentile(&took, 90),
        p99_us: percentile(&took, 99),
        max_us: percentile(&took, 100),
        reply_bytes: seen.reply_bytes,
        tools: seen.tools,
        names: seen.names,
        cpu_s: cost.map(|c| c.cpu_s),
        rss_before_kb: cost.map(|c| c.before_kb),
        rss_peak_kb: cost.map(|c| c.peak_kb),
        rss_after_kb: cost.map(|c| c.after_kb),
    }
}

/// Nearest rank; 0 for nothing.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!([50, 99, 100].map(|p| percentile(&hundred, p)), [50, 99, 100]);
        assert_eq!([50, 99].map(|p| percentile(&[7], p)), [7, 7]);
        assert_eq!(percentile(&[], 50), 0);
    }
}
