//! Ending a child: input closed, then SIGTERM, then SIGKILL, to its group and to whatever it started elsewhere.

use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use crate::watch::{Marker, group_lives, signal_group};

/// How long a server may take to end by itself after its input was closed.
const AFTER_CLOSE: Duration = Duration::from_millis(1500);
/// How long it may take after SIGTERM.
const AFTER_TERM: Duration = Duration::from_millis(2000);

/// Ends the child and everything that carries its launch marker. Its stdin must already be closed.
/// Returns how the child ended, in words.
pub async fn end(child: &mut Child, group: u32, marker: &str) -> String {
    let exit = if let Ok(status) = timeout(AFTER_CLOSE, child.wait()).await {
        status.map_or_else(|e| e.to_string(), |s| s.to_string())
    } else {
        signal_group(group, Signal::TERM);
        match timeout(AFTER_TERM, child.wait()).await {
            Ok(status) => status.map_or_else(|e| e.to_string(), |s| s.to_string()),
            Err(_) => {
                let _ = child.start_kill();
                signal_group(group, Signal::KILL);
                // A process that the kernel itself holds does not end even so; we do not wait for it for ever.
                match timeout(AFTER_TERM, child.wait()).await {
                    Ok(status) => status.map_or_else(|e| e.to_string(), |s| s.to_string()),
                    Err(_) => "it does not end, not even by SIGKILL".into(),
                }
            }
        }
    };
    end_strays(group, marker.to_owned()).await;
    exit
}

/// What the child left behind: a wrapper such as `npx` may end before the server that it started.
async fn end_strays(group: u32, marker: String) {
    let until = Instant::now() + AFTER_TERM;
    let mut asked = false;
    loop {
        let marker = marker.clone();
        let force = Instant::now() >= until;
        let looked = tokio::task::spawn_blocking(move || {
            let strays = Marker::of_launch(&marker);
            let alive = strays.any() || group_lives(group);
            if alive && (force || !asked) {
                let signal = if force { Signal::KILL } else { Signal::TERM };
                signal_group(group, signal);
                strays.signal(signal);
            }
            alive
        });
        if !looked.await.unwrap_or(false) || force {
            return;
        }
        asked = true;
        sleep(Duration::from_millis(50)).await;
    }
}
