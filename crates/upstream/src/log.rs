//! The log of one server: what its stderr said, bounded on disk, and the last lines in memory for error texts.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// A log is turned over to `<name>.1` when it reaches this many bytes.
const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Longest line that is kept; the rest of a longer one is dropped.
const MAX_LINE_BYTES: usize = 8 * 1024;
const TAIL_LINES: usize = 10;
const TAIL_LINE_BYTES: usize = 300;

/// One server's log. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    path: PathBuf,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    file: Option<File>,
    bytes: u64,
    tail: VecDeque<String>,
}

impl Log {
    /// Opens (or continues) `server-<name>.log`, mode 0600. A log that cannot be opened is no reason not to run a server.
    pub fn open(dir: &Path, server: &str) -> Self {
        let path = path_of(dir, server);
        let file = append(&path);
        let bytes = file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
        Self { path, inner: Arc::new(Mutex::new(Inner { file, bytes, tail: VecDeque::new() })) }
    }

    /// Where the log lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last lines of stderr since the last launch, for an error text.
    pub fn tail(&self) -> String {
        let inner = self.lock();
        inner.tail.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Marks a new launch in the file and forgets the old tail.
    pub fn begin_launch(&self, what: &str) {
        self.lock().tail.clear();
        self.write(&format!("--- {what}"), false);
    }

    /// Notes something that we say ourselves of the server.
    pub fn note(&self, line: &str) {
        self.write(&format!("--- {line}"), false);
    }

    fn write(&self, line: &str, keep: bool) {
        let mut inner = self.lock();
        if keep {
            if inner.tail.len() == TAIL_LINES {
                inner.tail.pop_front();
            }
            inner.tail.push_back(cut(line, TAIL_LINE_BYTES).to_owned());
        }
        if inner.bytes > MAX_FILE_BYTES {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            let _ = std::fs::rename(&self.path, old);
            inner.file = append(&self.path);
            inner.bytes = 0;
        }
        let line = format!("{} {line}\n", seconds_now());
        if let Some(file) = inner.file.as_mut()
            && file.write_all(line.as_bytes()).is_ok()
        {
            inner.bytes += line.len() as u64;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drains a child's stderr until it ends. It must be drained: a full pipe would block the child.
    pub async fn drain(self, stderr: impl AsyncRead + Unpin) {
        let mut reader = BufReader::with_capacity(MAX_LINE_BYTES, stderr);
        let mut line: Vec<u8> = Vec::new();
        loop {
            let (used, ended) = match reader.fill_buf().await {
                Ok([]) | Err(_) => break,
                Ok(chunk) => match chunk.iter().position(|b| *b == b'\n') {
                    Some(at) => {
                        extend_bounded(&mut line, &chunk[..at]);
                        (at + 1, true)
                    }
                    None => {
                        extend_bounded(&mut line, chunk);
                        (chunk.len(), false)
                    }
                },
            };
            reader.consume(used);
            if ended {
                self.write(&printable(&line), true);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.write(&printable(&line), true);
        }
    }
}

/// Where the log of a server lies, whether it runs or not.
#[must_use]
pub fn path_of(dir: &Path, server: &str) -> PathBuf {
    dir.join(format!("server-{}.log", file_name(server)))
}

fn append(path: &Path) -> Option<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok()
}

fn extend_bounded(line: &mut Vec<u8>, more: &[u8]) {
    let room = MAX_LINE_BYTES.saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

/// Control characters of a child must not reach a terminal through our log or error texts.
fn printable(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .chars()
        .filter(|c| *c != '\r')
        .map(|c| if is_treacherous(c) { '\u{fffd}' } else { c })
        .collect()
}

/// Controls, and what hides or turns around the text beside it.
fn is_treacherous(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// A server's name as a file name: other characters become `_`, and a check sum keeps two names apart.
fn file_name(server: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if server.chars().all(plain) && !server.starts_with('.') && server.len() <= 100 {
        return server.to_owned();
    }
    let safe: String = server.chars().take(60).map(|c| if plain(c) && c != '.' { c } else { '_' }).collect();
    let sum = server
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    format!("{safe}-{sum:016x}")
}

fn seconds_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_separators_stays_one_file() {
        assert_eq!(file_name("git"), "git");
        assert!(!file_name("../../x/y").contains('/'));
        assert_ne!(file_name("a/b"), file_name("a\\b"));
    }

    #[tokio::test]
    async fn the_tail_is_bounded_and_free_of_control_characters() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), "s");
        let mut text = String::new();
        for i in 0..100 {
            text.push_str(&format!("line {i} \u{1b}[31m{}\n", "x".repeat(20_000)));
        }
        log.clone().drain(text.as_bytes()).await;
        let tail = log.tail();
        assert!(tail.len() <= TAIL_LINES * (TAIL_LINE_BYTES + 1));
        assert!(tail.contains("line 99") && !tail.contains('\u{1b}'));
        assert!(std::fs::metadata(log.path()).unwrap().len() < 1_000_000);
    }
}
