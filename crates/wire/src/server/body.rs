//! Answers as streams: how a payload of any size leaves through memory for a few pieces of it.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::{Payload, answer};

/// How much of a payload is read at once.
const PIECE_BYTES: usize = 128 << 10;

/// The body of an HTTP answer.
pub struct BoxBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Pieces { pieces: mpsc::Receiver<Piece>, left: Option<u64> },
    Ended,
}

enum Piece {
    Data(Bytes),
    End,
}

impl BoxBody {
    /// A body that is in memory.
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    /// A body whose bytes come through the returned end, `len` of them if that is known. It ends well only when
    /// [`Outlet::end`] says so; when the outlet is dropped before, the connection is cut.
    pub(super) fn pieces(len: Option<u64>, stall: Duration) -> (Outlet, Self) {
        let (sender, pieces) = mpsc::channel(2);
        (Outlet { sender, stall }, Self(Kind::Pieces { pieces, left: len }))
    }
}

impl Body for BoxBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = match &mut self.0 {
            Kind::Whole(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Kind::Ended => None,
            Kind::Pieces { pieces, left } => match std::task::ready!(pieces.poll_recv(context)) {
                Some(Piece::Data(bytes)) => {
                    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    *left = left.map(|left| left.saturating_sub(len));
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Piece::End) => None,
                None => Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer broke off"))),
            },
        };
        if !matches!(self.0, Kind::Whole(_)) {
            self.0 = Kind::Ended;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None) | Kind::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Pieces { left: Some(left), .. } => SizeHint::with_exact(*left),
            Kind::Pieces { left: None, .. } => SizeHint::default(),
            Kind::Ended => SizeHint::with_exact(0),
        }
    }
}

/// Where the pieces of an answer go.
pub(super) trait Out: Send {
    /// Hands one piece on; waits while the other side does not take it.
    fn put(&mut self, piece: Bytes) -> impl Future<Output = Result<(), Gone>> + Send;
}

/// Nobody takes the answer any more.
#[derive(Debug)]
pub(super) struct Gone;

/// The sending end of a streamed body.
pub(super) struct Outlet {
    sender: mpsc::Sender<Piece>,
    stall: Duration,
}

impl Outlet {
    /// Ends the body well.
    pub async fn end(self) {
        // A client that is gone, or took no byte for so long, needs no end.
        let _ = self.send(Piece::End).await;
    }

    /// Waits until the client is gone.
    pub async fn gone(&self) {
        self.sender.closed().await;
    }

    async fn send(&self, piece: Piece) -> Result<(), Gone> {
        self.sender.send_timeout(piece, self.stall).await.map_err(|_| Gone)
    }
}

impl Out for Outlet {
    async fn put(&mut self, piece: Bytes) -> Result<(), Gone> {
        if piece.is_empty() {
            return Ok(());
        }
        self.send(Piece::Data(piece)).await
    }
}

/// Why a payload did not arrive whole.
pub(super) enum Broken {
    Gone,
    Source(io::Error),
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Hands a payload on piece by piece, on one line if asked. A source that gives another number of bytes than it
/// said is broken.
pub(super) async fn copy<O: Out>(payload: Payload, one_line: bool, out: &mut O) -> Result<(), Broken> {
    let (len, reader) = match payload {
        Payload::Bytes(bytes) if one_line => return Ok(out.put(answer::on_one_line(bytes)).await?),
        Payload::Bytes(bytes) => return Ok(out.put(bytes).await?),
        Payload::Stream { len, reader } => (len, reader),
    };
    let mut reading = read_ahead(Source { reader, left: len, one_line });
    loop {
        let (source, piece, last) =
            reading.await.map_err(|error| Broken::Source(io::Error::other(error)))??;
        if last {
            return Ok(out.put(piece).await?);
        }
        reading = read_ahead(source);
        out.put(piece).await?;
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

type Reading = tokio::task::JoinHandle<io::Result<(Source, Bytes, bool)>>;

/// Reads the next piece on a thread that may block, while the piece before it is on its way.
fn read_ahead(mut source: Source) -> Reading {
    tokio::task::spawn_blocking(move || {
        let (piece, last) = source.piece()?;
        Ok((source, piece, last))
    })
}

struct Source {
    reader: Box<dyn Read + Send>,
    left: Option<u64>,
    one_line: bool,
}

impl Source {
    /// The next piece, and whether it was the last one.
    fn piece(&mut self) -> io::Result<(Bytes, bool)> {
        // One byte more than is left shows a source that gives more than it said.
        let room = self.left.and_then(|left| usize::try_from(left).ok()?.checked_add(1));
        let mut piece = vec![0; room.unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
        let (read, ended) = fill(&mut self.reader, &mut piece)?;
        piece.truncate(read);
        if let Some(left) = &mut self.left {
            let read = u64::try_from(read).unwrap_or(u64::MAX);
            *left = left
                .checked_sub(read)
                .ok_or_else(|| io::Error::other("more bytes came than were announced"))?;
            if ended && *left > 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "fewer bytes came than were announced",
                ));
            }
        }
        if self.one_line {
            answer::flatten(&mut piece);
        }
        Ok((piece.into(), ended))
    }
}

/// Fills the buffer as far as the source goes; true when it ended.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match reader.read(room) {
            Ok(0) => return Ok((filled, true)),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((filled, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Collected(Vec<Bytes>);

    impl Out for Collected {
        async fn put(&mut self, piece: Bytes) -> Result<(), Gone> {
            self.0.push(piece);
            Ok(())
        }
    }

    async fn copied(len: Option<u64>, bytes: Vec<u8>) -> Result<Vec<Bytes>, String> {
        let mut out = Collected(Vec::new());
        let payload = Payload::Stream { len, reader: Box::new(io::Cursor::new(bytes)) };
        match copy(payload, true, &mut out).await {
            Ok(()) => Ok(out.0),
            Err(Broken::Gone) => Err("gone".to_owned()),
            Err(Broken::Source(error)) => Err(error.to_string()),
        }
    }

    #[tokio::test]
    async fn a_stream_of_every_length_around_a_piece_arrives_whole() {
        for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let bytes: Vec<u8> = (0..len).map(|at| if at % 7 == 0 { b'\n' } else { b'x' }).collect();
            let flat: Vec<u8> = bytes.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
            for announced in [None, u64::try_from(len).ok()] {
                let pieces = copied(announced, bytes.clone()).await.unwrap();
                assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
                assert_eq!(pieces.concat(), flat);
            }
        }
    }

    #[tokio::test]
    async fn a_stream_of_another_length_than_announced_is_broken() {
        for len in [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1] {
            let announced = u64::try_from(len).unwrap();
            assert!(copied(Some(announced), vec![b'x'; len + 1]).await.unwrap_err().starts_with("more"));
            assert!(copied(Some(announced), vec![b'x'; len - 1]).await.unwrap_err().starts_with("fewer"));
        }
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        let stall = Duration::from_millis(50);
        let (mut outlet, body) = BoxBody::pieces(None, stall);
        let begun = std::time::Instant::now();
        let mut puts = 0;
        while outlet.put(Bytes::from_static(b"x")).await.is_ok() {
            puts += 1;
        }
        assert_eq!(puts, 2);
        assert!(begun.elapsed() >= stall);
        drop(body);
    }
}
