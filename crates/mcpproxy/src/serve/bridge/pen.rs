//! The one way out to the client: a message is one line, and whoever writes it holds the pen to its end.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

/// Up to this size a message is collected before it is written: a holder that ends within it leaves no torn line.
const SMALL: usize = 64 << 10;

/// Where the lines go.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// The client reads no more.
#[derive(Debug)]
pub(super) struct Gone;

/// The one way out.
#[derive(Clone)]
pub(super) struct Pen {
    output: Arc<Mutex<Output>>,
    /// Fires when the client does not read any more.
    pub broken: CancellationToken,
}

/// One message after the other that comes in pieces.
pub(super) struct Scribe {
    pen: Pen,
    /// What was not written yet, on one line.
    head: Vec<u8>,
    /// Held while a line is begun.
    nib: Option<OwnedMutexGuard<Output>>,
}

impl Pen {
    pub fn new(output: Output) -> Self {
        Self { output: Arc::new(Mutex::new(output)), broken: CancellationToken::new() }
    }

    /// Writes a whole message.
    pub async fn line(&self, message: &[u8]) {
        let mut scribe = self.scribe();
        // A client that is gone has been noted.
        if scribe.put(message).await.is_ok() {
            let _ = scribe.end().await;
        }
    }

    /// For messages that come in pieces.
    pub fn scribe(&self) -> Scribe {
        Scribe { pen: self.clone(), head: Vec::new(), nib: None }
    }

    fn note(&self, written: io::Result<()>) -> Result<(), Gone> {
        written.map_err(|error| {
            tracing::debug!(%error, "the client does not read any more");
            self.broken.cancel();
            Gone
        })
    }
}

impl Scribe {
    /// Takes the next bytes of the message. A line break in raw JSON is only space between tokens, and becomes a space.
    pub async fn put(&mut self, piece: &[u8]) -> Result<(), Gone> {
        let flat = piece.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
        self.head.extend(flat);
        if self.nib.is_none() && self.head.len() <= SMALL {
            return Ok(());
        }
        self.write_head().await
    }

    /// The whole message, while nothing of it was written.
    pub fn unwritten(&self) -> Option<&[u8]> {
        self.nib.is_none().then_some(&self.head)
    }

    /// Forgets what was not written yet.
    pub fn forget(&mut self) {
        self.head.clear();
    }

    /// Ends the message; the next one may begin. Nothing is no message.
    pub async fn end(&mut self) -> Result<(), Gone> {
        if self.unwritten().is_some_and(|head| head.trim_ascii().is_empty()) {
            self.forget();
            return Ok(());
        }
        self.head.push(b'\n');
        self.write_head().await?;
        let Some(mut nib) = self.nib.take() else { return Ok(()) };
        let flushed = nib.flush().await;
        self.pen.note(flushed)
    }

    /// Ends a message that broke off. What was written of it cannot be taken back, but nothing is added to it.
    pub async fn tear(&mut self) {
        self.forget();
        if self.nib.is_some() {
            let _ = self.end().await;
        }
    }

    async fn write_head(&mut self) -> Result<(), Gone> {
        if self.pen.broken.is_cancelled() {
            return Err(Gone);
        }
        let nib = match &mut self.nib {
            Some(nib) => nib,
            None => self.nib.insert(Arc::clone(&self.pen.output).lock_owned().await),
        };
        let written = nib.write_all(&self.head).await;
        self.head.clear();
        self.pen.note(written)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn written(fill: impl AsyncFnOnce(Pen)) -> String {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        fill(Pen::new(Box::new(near))).await;
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn lines_of_many_writers_never_mix() {
        let large = "x".repeat(SMALL);
        let text = written(async |pen| {
            let mut scribe = pen.scribe();
            scribe.put(b"{\"a\":\r\n1").await.unwrap();
            pen.line(b"first").await;
            scribe.put(large.as_bytes()).await.unwrap();
            let waits = tokio::spawn({
                let pen = pen.clone();
                async move { pen.line(b"last").await }
            });
            tokio::task::yield_now().await;
            scribe.put(b"}").await.unwrap();
            scribe.end().await.unwrap();
            scribe.end().await.unwrap();
            waits.await.unwrap();
        })
        .await;
        assert_eq!(text, format!("first\n{{\"a\":  1{large}}}\nlast\n"));
    }

    #[tokio::test]
    async fn a_small_message_that_broke_off_leaves_nothing_and_a_large_one_ends_its_line() {
        let text = written(async |pen| {
            let mut scribe = pen.scribe();
            scribe.put(b"half").await.unwrap();
            assert_eq!(scribe.unwritten(), Some(&b"half"[..]));
            scribe.tear().await;
            scribe.put(&vec![b'y'; SMALL + 1]).await.unwrap();
            assert_eq!(scribe.unwritten(), None);
            scribe.tear().await;
            pen.line(b"next").await;
        })
        .await;
        assert_eq!(text, format!("{}\nnext\n", "y".repeat(SMALL + 1)));
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_noted() {
        let (near, far) = tokio::io::duplex(8);
        drop(far);
        let pen = Pen::new(Box::new(near));
        pen.line(b"anything").await;
        assert!(pen.broken.is_cancelled());
    }
}
