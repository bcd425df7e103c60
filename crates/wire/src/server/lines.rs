//! Lines out of a byte stream, each within a bound; a longer one is passed over without being kept.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much room is made for each read.
const READ_BYTES: usize = 64 << 10;

/// What comes next.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// A line without its end (`\n` or `\r\n`); empty ones too.
    Text(Bytes),
    /// A line that was longer than the bound.
    TooLong,
    /// The stream has ended.
    End,
}

/// Reads lines of at most `most` bytes.
pub struct Lines<R> {
    input: R,
    most: usize,
    buffer: BytesMut,
    /// The bytes of the buffer that hold no line end.
    searched: usize,
    /// Whether the beginning of the line was thrown away.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of `input`, each of at most `most` bytes.
    pub fn new(input: R, most: usize) -> Self {
        Self { input, most, buffer: BytesMut::new(), searched: 0, skipping: false }
    }

    /// The next line. Dropping the future loses nothing. A last line without an end counts.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub async fn next(&mut self) -> std::io::Result<Line> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', unsearched) {
                let line = self.buffer.split_to(self.searched + at + 1);
                return Ok(self.whole(line));
            }
            if self.skipping || self.buffer.len() > self.most.saturating_add(1) {
                self.skipping = true;
                self.buffer = BytesMut::new();
            }
            self.searched = self.buffer.len();
            self.buffer.reserve(READ_BYTES);
            if self.input.read_buf(&mut self.buffer).await? == 0 {
                let rest = std::mem::take(&mut self.buffer);
                return Ok(if rest.is_empty() && !self.skipping { Line::End } else { self.whole(rest) });
            }
        }
    }

    fn whole(&mut self, mut line: BytesMut) -> Line {
        self.searched = 0;
        for end in [b'\n', b'\r'] {
            if line.last() == Some(&end) {
                line.truncate(line.len() - 1);
            }
        }
        if std::mem::take(&mut self.skipping) || line.len() > self.most {
            return Line::TooLong;
        }
        Line::Text(line.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time.
    struct Drip(Vec<u8>, usize);

    impl AsyncRead for Drip {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            let count = self.1.min(self.0.len()).min(buffer.remaining());
            let piece: Vec<u8> = self.0.drain(..count).collect();
            buffer.put_slice(&piece);
            std::task::Poll::Ready(Ok(()))
        }
    }

    async fn lines(input: &[u8], step: usize, most: usize) -> Vec<Line> {
        let mut lines = Lines::new(Drip(input.to_vec(), step), most);
        let mut all = Vec::new();
        for _ in 0..100 {
            let line = lines.next().await.unwrap();
            if line == Line::End {
                return all;
            }
            all.push(line);
        }
        panic!("no end");
    }

    fn text(line: &'static str) -> Line {
        Line::Text(Bytes::from_static(line.as_bytes()))
    }

    #[tokio::test]
    async fn lines_are_the_same_however_the_bytes_come() {
        for step in 1..20 {
            let wanted =
                [text("ab"), text(""), text("cd"), Line::TooLong, text("12345"), Line::TooLong, text("e")];
            let all = lines(b"ab\n\ncd\r\n123456\n12345\r\n1234567890123\ne", step, 5).await;
            assert_eq!(all, wanted, "{step} bytes at a time");
            assert_eq!(lines(b"abcdefgh", step, 5).await, [Line::TooLong], "at the end, {step} at a time");
            assert_eq!(lines(b"", step, 5).await, []);
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_not_kept() {
        let (mut far, near) = tokio::io::duplex(1 << 20);
        let writer = tokio::spawn(async move {
            let chunk = vec![b'x'; 1 << 20];
            for _ in 0..64 {
                tokio::io::AsyncWriteExt::write_all(&mut far, &chunk).await.unwrap();
            }
            tokio::io::AsyncWriteExt::write_all(&mut far, b"\nok\n").await.unwrap();
        });
        let mut lines = Lines::new(near, 1000);
        assert_eq!(lines.next().await.unwrap(), Line::TooLong);
        assert!(lines.buffer.capacity() < 1 << 20);
        assert_eq!(lines.next().await.unwrap(), text("ok"));
        writer.await.unwrap();
    }
}
