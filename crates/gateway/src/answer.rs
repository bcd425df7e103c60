//! From the raw result of an upstream to an indexed `Answer`.

use std::io;
use std::sync::Arc;

use content::{Answer, IndexError, Source};
use store::Reason;
use tokio_util::sync::CancellationToken;
use wire::spool::Body;

use crate::refusal::Refusal;
use crate::work::Work;

/// Answers up to this size are indexed where they are; larger ones by the work lane.
const INLINE_BYTES: u64 = 64 * 1024;

/// The raw bytes of an upstream's result, as the content room reads them.
struct Raw(Body);

impl Source for Raw {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.0.as_bytes().map(|b| &b[..])
    }
}

/// Indexes the raw result.
///
/// # Errors
/// It is no MCP tool result, or it could not be read back, or the call was cancelled meanwhile.
pub async fn index(work: &Work, raw: Body, cancel: &CancellationToken) -> Result<Answer, Refusal> {
    let small = raw.len() <= INLINE_BYTES;
    let source: Arc<dyn Source> = Arc::new(Raw(raw));
    let cancel = cancel.clone();
    let job = move || Answer::index(source, &|| cancel.is_cancelled());
    let indexed = if small { Some(job()) } else { work.compute(job).await };
    match indexed {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) => Err(explain(&error)),
        None => Err(Refusal::failed(
            Reason::Internal,
            "The answer could not be read: internal error; please report it",
        )),
    }
}

fn explain(error: &IndexError) -> Refusal {
    match error {
        IndexError::Cancelled => Refusal::cancelled(true),
        IndexError::Io(e) => {
            Refusal::failed(Reason::Internal, format!("The answer could not be read back: {e}"))
        }
        other => Refusal::failed(
            Reason::UpstreamGarbled,
            format!("The upstream's answer is not a tool result: {other}. Nothing was delivered or saved."),
        ),
    }
}
