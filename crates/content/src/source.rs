//! Where the bytes of an answer lie: in memory or in a spool.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

/// Bytes read at a time where the source is not in memory.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Bytes that can be read from anywhere, any number of times, by several readers.
pub trait Source: Send + Sync + 'static {
    /// Number of bytes.
    fn len(&self) -> u64;

    /// Reads bytes from `offset` on into `buf` and says how many: 0 only at the end, or if `buf` is empty.
    ///
    /// # Errors
    /// What reading the spool answered.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// All bytes, if they lie in memory.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// True if there is no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn read_slice(bytes: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
    let count = rest.len().min(buf.len());
    if let (Some(to), Some(from)) = (buf.get_mut(..count), rest.get(..count)) {
        to.copy_from_slice(from);
    }
    count
}

impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(read_slice(self, offset, buf))
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Source for Bytes {
    fn len(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(read_slice(self, offset, buf))
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// Hands over all bytes in order, a chunk at a time, without a copy if they lie in memory.
pub(crate) fn for_each_chunk<E: From<io::Error>>(
    source: &Arc<dyn Source>,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(bytes) = source.as_slice() {
        return bytes.chunks(CHUNK).try_for_each(take);
    }
    let len = source.len();
    let mut buf = vec![0; usize::try_from(len).unwrap_or(CHUNK).min(CHUNK)];
    let mut at = 0;
    while at < len {
        let count = source.read_at(at, &mut buf)?;
        if count == 0 {
            return Err(ends_early().into());
        }
        take(buf.get(..count).unwrap_or_default())?;
        at += count as u64;
    }
    Ok(())
}

pub(crate) fn ends_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the spooled answer ends before its length")
}
