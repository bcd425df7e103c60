//! Event streams, and the transport of 2024-11-05 that is made of one: requests are posted, replies come on the stream.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use memchr::memchr;
use tokio::sync::mpsc;

use super::waiting::Waiting;
use super::{Reply, http};

/// Largest event, in bytes.
const LARGEST: usize = 1 << 30;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub kind: Vec<u8>,
    pub data: Vec<u8>,
}

/// Cuts a stream into events; each byte is looked at once.
#[derive(Default)]
pub struct Events {
    buffer: Vec<u8>,
    /// Where the line begins that is not complete, and how far it was searched.
    line: usize,
    searched: usize,
    event: Event,
}

impl Events {
    /// More of the stream.
    pub fn push(&mut self, data: &[u8]) -> Result<(), String> {
        if self.line > 0 {
            self.buffer.drain(..self.line);
            self.searched -= self.line;
            self.line = 0;
        }
        self.buffer.extend_from_slice(data);
        let held = self.buffer.len() + self.event.data.len();
        if held > LARGEST { Err(format!("an event of more than {LARGEST} bytes")) } else { Ok(()) }
    }

    /// The next event that is complete. Call it until it gives none, then push again.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(found) = memchr(b'\n', self.buffer.get(self.searched..)?) {
            let end = self.searched + found;
            let line = self.buffer.get(self.line..end).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let complete = line.is_empty() && (!self.event.data.is_empty() || !self.event.kind.is_empty());
            take(&mut self.event, line);
            (self.line, self.searched) = (end + 1, end + 1);
            if complete {
                return Some(std::mem::take(&mut self.event));
            }
        }
        self.searched = self.buffer.len();
        None
    }
}

fn take(event: &mut Event, line: &[u8]) {
    let value = |name: &[u8]| {
        let value = line.strip_prefix(name)?;
        Some(value.strip_prefix(b" ").unwrap_or(value))
    };
    if let Some(data) = value(b"data:") {
        if !event.data.is_empty() {
            event.data.push(b'\n');
        }
        event.data.extend_from_slice(data);
    } else if let Some(kind) = value(b"event:") {
        event.kind = kind.to_vec();
    }
}

/// A session over the old transport, or one worker's share of it.
pub struct Front {
    post: http::Front,
    waiting: Waiting,
}

impl Front {
    /// Opens the stream and waits for the address to post to.
    pub async fn open(url: &str) -> Result<Self, String> {
        let address = http::Address::parse(url)?;
        let mut listener = http::Front::at(address.clone());
        let stream = listener.listen().await?;
        let waiting = Waiting::default();
        let (told, mut endpoint) = mpsc::channel(1);
        drop(tokio::spawn(read(stream, listener, waiting.clone(), told)));
        let endpoint = endpoint.recv().await.ok_or("the stream ended before it named its endpoint")?;
        let post = match endpoint.starts_with('/') {
            true => http::Front::at(address.with_path(&endpoint)),
            false => http::Front::new(&endpoint)?,
        };
        Ok(Self { post, waiting })
    }

    /// The reply with this id.
    pub async fn call(&mut self, id: u64, request: Bytes) -> Result<Reply, String> {
        let reply = self.waiting.expect(id);
        let start = Instant::now();
        self.post.notify(request).await?;
        let (message, came) = reply.await.map_err(|_| "the stream ended without the reply")?;
        Ok(Reply { message, took: came.duration_since(start) })
    }

    /// A message that has no reply.
    pub async fn notify(&mut self, message: Bytes) -> Result<(), String> {
        self.post.notify(message).await
    }

    /// The same session, posting on a connection of its own.
    pub fn again(&self) -> Self {
        Self { post: self.post.again(), waiting: self.waiting.clone() }
    }
}

/// Reads the stream to its end. It keeps the connection's sender, without which the connection would end.
async fn read(stream: Response<Incoming>, keep: http::Front, waiting: Waiting, told: mpsc::Sender<String>) {
    let mut body = stream.into_body();
    let mut events = Events::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        if events.push(&data).is_err() {
            break;
        }
        while let Some(event) = events.next_event() {
            if event.kind == b"endpoint" {
                let _ = told.try_send(String::from_utf8_lossy(&event.data).into_owned());
            } else {
                waiting.deliver(event.data, Instant::now());
            }
        }
    }
    waiting.give_up();
    drop(keep);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_whole_however_the_stream_is_cut() {
        let stream = b": hi\n\nevent: endpoint\r\ndata: /m\r\n\r\nid: 1\ndata:{\ndata: }\n\ndata: last\n\n";
        let wanted = [("endpoint", "/m"), ("", "{\n}"), ("", "last")]
            .map(|(kind, data)| Event { kind: kind.into(), data: data.into() });
        for size in 1..=stream.len() {
            let mut events = Events::default();
            let mut got = Vec::new();
            for piece in stream.chunks(size) {
                events.push(piece).unwrap();
                got.extend(std::iter::from_fn(|| events.next_event()));
            }
            assert_eq!(got, wanted, "in pieces of {size}");
        }
    }
}
