//! A response on its way to the client: each message of it becomes a line, whatever its size.

use axum::body::Body;
use bytes::Bytes;
use gateway::remote::{EventParser, EventPiece};
use http_body_util::BodyExt;

use super::message;
use super::pen::{Gone, Pen, Scribe};

/// How it went.
pub(super) struct Relayed {
    /// Whether a message that ends the request was written.
    pub answered: bool,
    /// Why the response ended before its end.
    pub broken: Option<String>,
}

/// Writes the messages of a body, which is a stream of events or one JSON text.
pub(super) async fn relay(body: Body, events: bool, pen: &Pen) -> Relayed {
    let mut lines =
        Lines { scribe: pen.scribe(), parser: events.then(EventParser::default), answered: false };
    let broken = lines.pass(body).await;
    if broken.is_some() {
        lines.scribe.tear().await;
    }
    Relayed { answered: lines.answered, broken }
}

struct Lines {
    scribe: Scribe,
    parser: Option<EventParser>,
    answered: bool,
}

impl Lines {
    async fn pass(&mut self, mut body: Body) -> Option<String> {
        while let Some(frame) = body.frame().await {
            let data = match frame {
                Ok(frame) => frame.into_data().unwrap_or_default(),
                Err(error) => return Some(error.to_string()),
            };
            if self.take(&data).await.is_err() {
                return Some("the client does not read any more".to_owned());
            }
        }
        if self.parser.is_none() && self.end().await.is_err() {
            return Some("the client does not read any more".to_owned());
        }
        // What is left of a stream of events is no event.
        self.scribe.tear().await;
        None
    }

    async fn take(&mut self, data: &Bytes) -> Result<(), Gone> {
        if self.parser.is_none() {
            return self.scribe.put(data).await;
        }
        let mut rest = &data[..];
        while let Some(piece) = self.parser.as_mut().and_then(|parser| parser.next(&mut rest)) {
            match piece {
                EventPiece::Data(bytes) => self.scribe.put(bytes).await?,
                EventPiece::End { message: false } if self.scribe.unwritten().is_some() => {
                    self.scribe.forget();
                }
                EventPiece::End { .. } => self.end().await?,
            }
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Gone> {
        // Progress is short; what was begun before its end was known is an answer.
        let answers = self
            .scribe
            .unwritten()
            .is_none_or(|whole| !whole.trim_ascii().is_empty() && message::is_answer(whole));
        self.scribe.end().await?;
        self.answered |= answers;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;
    use tokio::io::AsyncReadExt;

    use super::*;

    /// A body of these pieces, which may break off.
    struct Pieces(VecDeque<Bytes>, bool);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = io::Error;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            let broken = self.1.then(|| Err(io::Error::other("cut")));
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))).or(broken))
        }
    }

    async fn relayed(body: &[u8], size: usize, broken: bool, events: bool) -> (String, Relayed) {
        let pieces = body.chunks(size).map(Bytes::copy_from_slice).collect();
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let pen = Pen::new(Box::new(near));
        let relayed = relay(Body::new(Pieces(pieces, broken)), events, &pen).await;
        drop(pen);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        (text, relayed)
    }

    const PROGRESS: &str = r#"{"method":"notifications/progress","params":{}}"#;
    const ANSWER: &str = r#"{"id":1,"result":{"a":1.0e2}}"#;

    #[tokio::test]
    async fn each_event_becomes_a_line_however_the_bytes_come() {
        let stream = format!(
            ": alive\n\nid: 1\ndata:\n\nevent: message\ndata: {PROGRESS}\n\nevent: ping\ndata: x\n\n\
             data: {{\ndata: }}\n\ndata: {ANSWER}\n\ndata: not ended"
        );
        for size in 1..=stream.len() {
            let (text, relayed) = relayed(stream.as_bytes(), size, false, true).await;
            assert_eq!(text, format!("{PROGRESS}\n{{ }}\n{ANSWER}\n"), "in pieces of {size}");
            assert!(relayed.answered && relayed.broken.is_none());
        }
    }

    #[tokio::test]
    async fn json_becomes_one_line() {
        let (text, whole) = relayed(b"{\"id\":1,\r\n\"result\":{}}\n", 3, false, false).await;
        assert_eq!(text, "{\"id\":1,  \"result\":{}} \n");
        assert!(whole.answered);
        let (text, nothing) = relayed(b"", 1, false, false).await;
        assert!(text.is_empty() && !nothing.answered && nothing.broken.is_none());
    }

    #[tokio::test]
    async fn what_breaks_off_is_told_apart_from_what_was_answered() {
        let stream = format!("data: {PROGRESS}\n\ndata: {ANSWER}");
        let (text, cut) = relayed(stream.as_bytes(), 7, true, true).await;
        assert_eq!(text, format!("{PROGRESS}\n"), "half of an answer is not written");
        assert!(!cut.answered && cut.broken.is_some());
        let (text, late) = relayed(format!("{stream}\n\n").as_bytes(), 7, true, true).await;
        assert_eq!(text, format!("{PROGRESS}\n{ANSWER}\n"));
        assert!(late.answered && late.broken.is_some());
        let (text, cut) = relayed(ANSWER.as_bytes(), 7, true, false).await;
        assert!(text.is_empty() && !cut.answered);
    }
}
