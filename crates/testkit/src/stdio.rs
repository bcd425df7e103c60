//! The scripted upstream as a process that speaks over its standard streams.
//!
//! Its one argument is a directory: `script.json` is read again for every message; `calls`, `ids`, `pids`,
//! `cancelled` and `methods` get one line per event.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::script::{Asked, Lines, Script, Sink, respond};

/// Runs the upstream until its input ends.
pub fn main() {
    let dir = PathBuf::from(std::env::args_os().nth(1).expect("the directory of the script"));
    append(&dir, "pids", &std::process::id().to_string());
    if read(&dir).grandchild {
        start_grandchild(&dir);
    }
    let out = Arc::new(Mutex::new(()));
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Some(asked) = Asked::read(&line) else { continue };
        append(&dir, "methods", &asked.method);
        match asked.method.as_str() {
            "tools/call" => {
                append(&dir, "ids", asked.id.as_deref().unwrap_or_default());
                append(&dir, "calls", &asked.params);
            }
            "notifications/cancelled" => append(&dir, "cancelled", &asked.params),
            _ => {}
        }
        let (script, out) = (read(&dir), out.clone());
        // A thread for each message: calls overlap, and one that hangs does not stop the others.
        std::thread::spawn(move || {
            let mut sink = Locked { out: &out, lines: Lines(BufWriter::new(io::stdout())), guard: None };
            let _ = respond(&script, &asked, &mut sink);
        });
    }
}

/// Holds the output from the first byte of a message to its end.
struct Locked<'a> {
    out: &'a Mutex<()>,
    lines: Lines<BufWriter<io::Stdout>>,
    guard: Option<std::sync::MutexGuard<'a, ()>>,
}

impl Sink for Locked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.guard.is_none() {
            self.guard = Some(self.out.lock().unwrap());
        }
        self.lines.write(bytes)
    }

    fn end(&mut self) -> io::Result<()> {
        self.lines.end()?;
        self.guard = None;
        Ok(())
    }

    fn die(&mut self, code: i32) {
        self.lines.die(code);
    }
}

fn read(dir: &Path) -> Script {
    serde_json::from_slice(&fs::read(dir.join("script.json")).unwrap()).unwrap()
}

fn append(dir: &Path, name: &str, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join(name)).unwrap();
    file.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes()).unwrap();
}

/// What a wrapper such as `npx` leaves behind when it is killed alone: a process in a session of its own.
fn start_grandchild(dir: &Path) {
    let child = Command::new("setsid")
        .args(["sleep", "600"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    append(dir, "grandchild", &child.id().to_string());
}
