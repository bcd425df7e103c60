//! A target that is started and spoken to over its standard input and output.

use std::process::Stdio;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use super::Reply;
use super::waiting::Waiting;

/// Largest reply that is waited for, in bytes.
const LARGEST: u64 = 1 << 30;

/// One child; workers take turns at its input.
pub struct Front {
    input: Mutex<ChildStdin>,
    waiting: Waiting,
}

impl Front {
    /// Starts `command`; the child ends with the handle.
    pub fn start(command: &str) -> Result<(Self, Child), String> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("--stdio: no program")?;
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(format!("{program}: no pipes"));
        };
        let waiting = Waiting::default();
        drop(tokio::spawn(read(output, waiting.clone())));
        Ok((Self { input: Mutex::new(input), waiting }, child))
    }

    /// The reply with this id.
    pub async fn call(&self, id: u64, request: &[u8]) -> Result<Reply, String> {
        let reply = self.waiting.expect(id);
        let start = Instant::now();
        self.send(request).await?;
        let (message, came) = reply.await.map_err(|_| "the program ended its output")?;
        Ok(Reply { message, took: came.duration_since(start) })
    }

    /// One message, one line.
    pub async fn send(&self, message: &[u8]) -> Result<(), String> {
        let line = [message, b"\n"].concat();
        let mut input = self.input.lock().await;
        input.write_all(&line).await.map_err(|e| format!("the program's input: {e}"))
    }
}

async fn read(output: ChildStdout, waiting: Waiting) {
    let mut output = BufReader::with_capacity(256 << 10, output);
    loop {
        let mut line = Vec::new();
        match (&mut output).take(LARGEST).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => waiting.deliver(line, Instant::now()),
        }
    }
    waiting.give_up();
}
