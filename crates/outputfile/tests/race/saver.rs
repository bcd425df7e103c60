//! A saver: a process that saves again and again and writes down what it was told, and how the test reads that.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outputfile::{Call, Hook, NoLedger, Reason, Roots, SaveError, Saved, Settings, Writer};

use super::ground::{BELOW, OWN, SHARED, hash};
use super::payload::{Chance, content, id, now};
use crate::common::{again, open, save, strategy, text};

/// Ways of publishing, one for each saver in turn.
pub const WAYS: [&str; 4] = ["nameless", "rename", "link", "portable"];

/// What a saver process is to do.
#[derive(Debug, Clone)]
pub struct Task {
    /// `storm` or `rounds`.
    pub work: &'static str,
    pub top: PathBuf,
    pub log: PathBuf,
    pub saver: u64,
    pub first: u64,
    pub count: u64,
    pub seed: u64,
    pub way: &'static str,
}

impl Task {
    pub fn encode(&self) -> String {
        let numbers = [self.saver, self.first, self.count, self.seed].map(|number| number.to_string()).join("|");
        [self.work, text(&self.top), text(&self.log), &numbers, self.way].join("|")
    }

    pub fn decode(task: &str) -> Self {
        let [work, top, log, saver, first, count, seed, way] =
            task.split('|').collect::<Vec<_>>().try_into().unwrap();
        let number = |text: &str| text.parse().unwrap();
        Self {
            work: ["storm", "rounds"].into_iter().find(|known| *known == work).unwrap(),
            top: top.into(),
            log: log.into(),
            saver: number(saver),
            first: number(first),
            count: number(count),
            seed: number(seed),
            way: WAYS.into_iter().find(|known| *known == way).unwrap(),
        }
    }

    /// The roots as this saver opens them; the time of the last call that may have published is noted.
    fn roots(&self, published: &Arc<AtomicU64>) -> Roots {
        let (way, published) = (self.way, Arc::clone(published));
        let forced = strategy().is_some();
        let hook = Hook::new(move |call| {
            if matches!(
                call,
                Call::LinkHandle
                    | Call::LinkThroughProc
                    | Call::LinkName
                    | Call::RenameNew
                    | Call::RenameOver
                    | Call::Exchange
            ) {
                published.store(now(), Ordering::Relaxed);
            }
            match (way, call) {
                _ if forced => None,
                ("rename" | "link", Call::OpenNameless) => Some(libc::EOPNOTSUPP),
                ("link", Call::RenameNew | Call::Exchange) => Some(libc::EINVAL),
                ("portable", Call::OpenBeneath) => Some(libc::ENOSYS),
                _ => None,
            }
        });
        let roots = vec![self.top.join("way/root")];
        open(Settings { roots, hook: Some(hook), ..Settings::default() })
    }
}

/// Whether this way can replace a file without the danger of taking another with it.
pub fn exchanges(way: &str) -> bool {
    way != "link" && strategy().as_deref() != Some("link")
}

/// The process: works, and tells how many files it had open before and after.
pub fn run(task: &Task) {
    let published = Arc::new(AtomicU64::new(0));
    let roots = task.roots(&published);
    let before = open_files();
    say("ready");
    let mut log = String::new();
    while let Some(order) = hear() {
        match task.work {
            "storm" => log += &storm(task, &roots, &published),
            _ => round(task, &roots, &order),
        }
    }
    let end = format!("{log}end {before} {}\n", open_files());
    fs::write(&task.log, end).unwrap();
}

fn storm(task: &Task, roots: &Roots, published: &AtomicU64) -> String {
    let mut chance = Chance::new(task.seed);
    let mut log = String::new();
    for number in task.first..task.first + task.count {
        let depth = usize::try_from(chance.below(3)).unwrap();
        let own = format!("o{}-{}", task.saver, chance.below(OWN));
        let name = if chance.below(2) == 0 { chance.of(&SHARED) } else { own.as_str() };
        let overwrite = chance.below(3) > 0;
        let len = usize::try_from(match chance.below(64) {
            0 => 150_000 + chance.below(100_000),
            1..8 => 4000 + chance.below(20_000),
            _ => 128 + chance.below(900),
        })
        .unwrap();
        let id = id(task.saver, number);
        let bytes = content(id, len);
        let path = format!("{}/way/root/{}{name}", text(&task.top), BELOW[depth]);
        match save(roots, &path, overwrite, &bytes) {
            Ok(saved) => {
                let (published, done) = (published.load(Ordering::Relaxed), now());
                let seen = is_there(&saved, &path, &bytes);
                let Saved { identity, replaced, .. } = saved;
                let (ino, replaced, seen) = (identity.ino, u8::from(replaced), u8::from(seen));
                let hash = hash(&bytes);
                writeln!(log, "ok {id} {depth} {ino} {replaced} {seen} {published} {done} {hash}").unwrap();
            }
            Err(error) => {
                let reason = error.reason();
                writeln!(log, "no {id} {} {reason:?} {error}", u8::from(overwrite)).unwrap();
            }
        }
    }
    log
}

/// Whether the file is still where it was saved. What the saver was told of it must be right in any case.
fn is_there(saved: &Saved, path: &str, bytes: &[u8]) -> bool {
    assert_eq!(text(&saved.path), path);
    assert_eq!(super::payload::hex(&saved.sha256), hash(bytes));
    assert_eq!((saved.bytes, saved.identity.size), (bytes.len() as u64, bytes.len() as u64));
    let same = fs::symlink_metadata(path)
        .is_ok_and(|meta| (meta.dev(), meta.ino()) == (saved.identity.dev, saved.identity.ino));
    same && fs::read(path).is_ok_and(|there| there == bytes)
}

/// One save of a new path, at the same time as the others.
fn round(task: &Task, roots: &Roots, line: &str) {
    let [name, warm] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let path = format!("{}/way/root/{name}", text(&task.top));
    let bytes = content(id(task.saver, name[1..].parse().unwrap()), 2000);
    let begin = || -> Result<Writer, SaveError> {
        let mut writer = roots.begin(roots.preflight(&path, false, &NoLedger)?)?;
        writer.put(&bytes)?;
        Ok(writer)
    };
    let ready = (warm == "warm").then(begin);
    say("ready");
    hear().unwrap();
    match ready.unwrap_or_else(begin).and_then(Writer::commit) {
        Ok(saved) => say(&format!("won {} {}", saved.identity.ino, super::payload::hex(&saved.sha256))),
        Err(error) if error.reason() == Reason::Exists => say("exists"),
        Err(error) => say(&format!("failed {error}")),
    }
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\nsaver: {word}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The next order, until there are no more.
fn hear() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).unwrap();
    (read > 0).then(|| line.trim_end().to_owned())
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A saver process, as the test sees it.
pub struct Saver {
    pub task: Task,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Saver {
    /// Starts it, and waits until it has opened its roots.
    pub fn start(task: Task) -> Self {
        let mut command: Command = again("saver_process", &task.encode());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut saver = Self { task, orders: child.stdin.take(), answers, child };
        assert_eq!(saver.answer(), "ready");
        saver
    }

    pub fn order(&mut self, line: &str) {
        self.orders.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "a saver ended early: {:?}", self.task);
            if let Some(word) = line.trim_end().strip_prefix("saver: ") {
                return word.to_owned();
            }
        }
    }

    /// Whether it has ended; it must not have failed.
    pub fn ended(&mut self) -> bool {
        let Some(status) = self.child.try_wait().unwrap() else { return false };
        assert!(status.success(), "{status}: {:?}", self.task);
        true
    }

    /// Lets it end, and reads its log.
    pub fn finish(mut self, most: Duration) -> Log {
        self.orders = None;
        let start = Instant::now();
        while !self.ended() {
            assert!(start.elapsed() < most, "a save hangs: {:?}", self.task);
            std::thread::sleep(Duration::from_millis(1));
        }
        Log::read(&self.task)
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A save that was told to have succeeded.
#[derive(Debug)]
pub struct Success {
    pub depth: usize,
    pub ino: u64,
    pub replaced: bool,
    /// Whether the saver still found it in its place.
    pub seen: bool,
    /// Not published before this.
    pub published: u64,
    /// Told at this time.
    pub done: u64,
    pub hash: String,
}

/// What one saver was told.
#[derive(Debug)]
pub struct Log {
    pub way: &'static str,
    pub saved: HashMap<u64, Success>,
    pub refused: Vec<Refusal>,
}

/// A save that was told to have failed.
#[derive(Debug)]
pub struct Refusal {
    pub id: u64,
    pub overwrite: bool,
    pub reason: String,
    pub text: String,
}

impl Log {
    fn read(task: &Task) -> Self {
        let all = fs::read_to_string(&task.log).unwrap();
        let mut log = Self { way: task.way, saved: HashMap::new(), refused: Vec::new() };
        for line in all.lines() {
            let words: Vec<&str> = line.splitn(9, ' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[0] {
                "ok" => {
                    let success = Success {
                        depth: usize::try_from(number(2)).unwrap(),
                        ino: number(3),
                        replaced: number(4) == 1,
                        seen: number(5) == 1,
                        published: number(6),
                        done: number(7),
                        hash: words[8].to_owned(),
                    };
                    log.saved.insert(number(1), success);
                }
                "no" => {
                    let (id, overwrite, reason) = (number(1), number(2) == 1, words[3].to_owned());
                    log.refused.push(Refusal { id, overwrite, reason, text: line.to_owned() });
                }
                _ => assert_eq!(words[1], words[2], "files that a saver left open: {task:?}"),
            }
        }
        let told = log.saved.len() + log.refused.len();
        assert!(task.work == "rounds" || told as u64 == task.count, "{told} of {task:?}");
        log
    }
}

pub fn log_path(logs: &Path, saver: u64) -> PathBuf {
    logs.join(format!("saver{saver}"))
}
