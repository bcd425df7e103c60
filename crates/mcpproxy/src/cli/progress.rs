//! A line on standard error that says what a person waits for, while it lasts and only on a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::output;
use super::table::{Keep, fitted};

/// What is over sooner needs no line.
const QUIET: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(500);
/// Notifications that may wait to be shown.
const WAITING: usize = 16;

/// The line, while it stands.
pub struct Progress(Option<Shown>);

struct Shown {
    sender: mpsc::Sender<Bytes>,
    task: JoinHandle<()>,
}

/// What an upstream says of its progress.
#[derive(Deserialize)]
struct Said {
    progress: Option<f64>,
    total: Option<f64>,
    message: Option<String>,
}

impl Progress {
    /// Begins to say that `what` is waited for, if somebody looks.
    pub fn of(what: &str) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if !io::stderr().is_terminal() || dumb {
            return Self(None);
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        let task = tokio::spawn(show(what.to_owned(), receiver));
        Self(Some(Shown { sender, task }))
    }

    /// Where notifications of progress go, raw; nowhere if nobody looks.
    pub fn sender(&self) -> Option<mpsc::Sender<Bytes>> {
        self.0.as_ref().map(|shown| shown.sender.clone())
    }

    /// Takes the line away.
    pub async fn end(self) {
        if let Some(shown) = self.0 {
            shown.task.abort();
            let _ = shown.task.await;
            draw("");
        }
    }
}

async fn show(what: String, mut news: mpsc::Receiver<Bytes>) {
    let began = Instant::now();
    let mut said = None;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + QUIET, TICK);
    let mut open = true;
    loop {
        tokio::select! {
            new = news.recv(), if open => match new {
                Some(raw) => said = serde_json::from_slice::<Said>(&raw).ok().or(said),
                None => open = false,
            },
            _ = ticks.tick() => draw(&line(&what, began.elapsed(), said.as_ref())),
        }
    }
}

fn line(what: &str, elapsed: Duration, said: Option<&Said>) -> String {
    let mut text = format!("{what} … {} s", elapsed.as_secs());
    let Some(said) = said else { return text };
    match (said.progress, said.total) {
        (Some(done), Some(total)) if total > 0.0 => text.push_str(&format!(", {done} of {total}")),
        (Some(done), _) => text.push_str(&format!(", {done}")),
        (None, _) => {}
    }
    if let Some(message) = &said.message {
        text.push_str(&format!(": {message}"));
    }
    text
}

fn draw(text: &str) {
    let line: String = output::shown(text).chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let width = rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
    let line = fitted(&line, width.saturating_sub(1).max(10), Keep::Start);
    let _ = write!(io::stderr().lock(), "\r\u{1b}[2K{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_known() {
        let said = |text: &str| serde_json::from_str::<Said>(text).unwrap();
        let at = Duration::from_secs(12);
        assert_eq!(line("srv:tool", at, None), "srv:tool … 12 s");
        let all = said(r#"{"progressToken":1,"progress":3,"total":10,"message":"reading"}"#);
        assert_eq!(line("srv:tool", at, Some(&all)), "srv:tool … 12 s, 3 of 10: reading");
        assert_eq!(line("srv:tool", at, Some(&said(r#"{"progress":0.5}"#))), "srv:tool … 12 s, 0.5");
    }
}
