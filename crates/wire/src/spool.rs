//! The bytes of large messages: in memory up to 1 MiB, beyond that in a nameless enciphered file, all of them bounded.

mod sealed;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use sealed::{CHUNK_BYTES, Sealed};

/// A message of at most so many bytes stays in memory.
pub const MEMORY_BYTES: usize = 1024 * 1024;

/// Where the spools of a process lie, and how much all of them together may hold.
#[derive(Debug)]
pub struct Spools {
    dir: PathBuf,
    limit: u64,
    used: AtomicU64,
}

/// Takes the bytes of one message in pieces.
pub struct SpoolWriter {
    charge: Charge,
    len: u64,
    place: Place,
}

/// Why a spool does not take more bytes. The writer is of no use afterwards; drop it to give its bytes back.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// All spools together hold as much as they may.
    #[error("the spool is full ({limit} bytes): wait until calls in flight end, or raise spool_max_bytes")]
    Full {
        /// The bound, in bytes.
        limit: u64,
    },
    /// The file could not be made or written.
    #[error("the spool file in {dir} could not be written: {source}", dir = .dir.display())]
    Io {
        /// The directory of the spools.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Bytes that were spooled, or a part of them. Cloning and slicing share the same bytes, which are given back when
/// the last of them is dropped.
#[derive(Clone)]
pub struct Body {
    held: Held,
}

#[derive(Clone)]
enum Held {
    Memory { bytes: Bytes, _charge: Option<Arc<Charge>> },
    File { file: Arc<SpoolFile>, start: u64, end: u64 },
}

enum Place {
    Memory(Vec<u8>),
    File { sealed: Sealed, chunk: Vec<u8>, number: u64 },
}

/// A finished file and the last chunk that somebody read from it.
struct SpoolFile {
    sealed: Sealed,
    len: u64,
    recent: Mutex<Chunk>,
    _charge: Charge,
}

#[derive(Default)]
struct Chunk {
    number: Option<u64>,
    bytes: Vec<u8>,
}

/// The share of the bound that one spool holds.
struct Charge {
    spools: Arc<Spools>,
    bytes: u64,
}

impl Spools {
    /// Spools in `dir`, which is made (mode 0700) when it is not there, holding at most `total_bytes` together.
    ///
    /// # Errors
    /// The directory cannot be made, or no file can be made in it.
    pub fn open(dir: &Path, total_bytes: u64) -> io::Result<Arc<Spools>> {
        make_private_dir(dir)?;
        sealed::sweep(dir)?;
        // A directory that cannot hold a spool is better known at the start than at the first large answer.
        Sealed::create(dir)?;
        Ok(Arc::new(Spools { dir: dir.to_path_buf(), limit: total_bytes, used: AtomicU64::new(0) }))
    }

    /// Bytes that all spools hold now, in memory and in files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Bytes that all spools together may hold.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.limit
    }

    /// Whether another call can be admitted: the bound is not reached yet.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.used_bytes() < self.limit
    }

    /// A writer for one message.
    #[must_use]
    pub fn writer(self: &Arc<Self>) -> SpoolWriter {
        let charge = Charge { spools: Arc::clone(self), bytes: 0 };
        SpoolWriter { charge, len: 0, place: Place::Memory(Vec::new()) }
    }
}

impl SpoolWriter {
    /// Appends `bytes`. Up to [`MEMORY_BYTES`] this neither fails nor touches the disk; beyond, it blocks on the disk.
    ///
    /// # Errors
    /// [`SpoolError::Full`] when all spools together would pass their bound, [`SpoolError::Io`] when the disk refuses.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let added = bytes.len() as u64;
        if let Place::Memory(memory) = &mut self.place {
            if memory.len() + bytes.len() <= MEMORY_BYTES {
                // Small messages are what keeps everything else going: they are counted, never refused.
                self.charge.take(added);
                memory.extend_from_slice(bytes);
                self.len += added;
                return Ok(());
            }
            self.overflow()?;
        }
        self.charge.try_take(added)?;
        self.append(bytes)?;
        self.len += added;
        Ok(())
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was taken yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Everything that was pushed.
    ///
    /// # Errors
    /// [`SpoolError::Io`] when the last chunk cannot be written.
    pub fn finish(self) -> Result<Body, SpoolError> {
        let SpoolWriter { charge, len, place } = self;
        match place {
            Place::Memory(bytes) => {
                Ok(Body { held: Held::Memory { bytes: Bytes::from(bytes), _charge: Some(Arc::new(charge)) } })
            }
            Place::File { sealed, mut chunk, number } => {
                if !chunk.is_empty() {
                    sealed.write_chunk(number, &mut chunk).map_err(|e| charge.failure(e))?;
                }
                let file = SpoolFile { sealed, len, recent: Mutex::default(), _charge: charge };
                Ok(Body { held: Held::File { file: Arc::new(file), start: 0, end: len } })
            }
        }
    }

    /// Moves what is in memory into a file.
    fn overflow(&mut self) -> Result<(), SpoolError> {
        let sealed = Sealed::create(&self.charge.spools.dir).map_err(|e| self.charge.failure(e))?;
        let chunk = Vec::with_capacity(CHUNK_BYTES + 64);
        let before = std::mem::replace(&mut self.place, Place::File { sealed, chunk, number: 0 });
        match before {
            Place::Memory(bytes) => self.append(&bytes),
            Place::File { .. } => Ok(()),
        }
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<(), SpoolError> {
        let Place::File { sealed, chunk, number } = &mut self.place else { return Ok(()) };
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - chunk.len()));
            chunk.extend_from_slice(now);
            bytes = later;
            if chunk.len() == CHUNK_BYTES {
                sealed.write_chunk(*number, chunk).map_err(|e| self.charge.failure(e))?;
                *number += 1;
            }
        }
        Ok(())
    }
}

impl Body {
    /// Bytes of this body.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.held {
            Held::Memory { bytes, .. } => bytes.len() as u64,
            Held::File { start, end, .. } => end - start,
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from `offset` into `buffer` and says how many bytes were read: 0 only at the end or for an empty buffer.
    ///
    /// # Errors
    /// The spool file cannot be read, or was changed from outside.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.held {
            Held::Memory { bytes, .. } => {
                let rest = usize::try_from(offset).ok().and_then(|o| bytes.get(o..)).unwrap_or_default();
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Held::File { file, start, end } => {
                let mut recent = file.recent.lock().unwrap_or_else(PoisonError::into_inner);
                file.read_from(&mut recent, start.saturating_add(offset), *end, buffer)
            }
        }
    }

    /// The bytes themselves, when they are in memory.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match &self.held {
            Held::Memory { bytes, .. } => Some(bytes),
            Held::File { .. } => None,
        }
    }

    /// The bytes from `start` up to `end`, without copying. What lies outside of this body is left away.
    #[must_use]
    pub fn slice(&self, start: u64, end: u64) -> Body {
        let to = end.min(self.len());
        let from = start.min(to);
        let held = match &self.held {
            Held::Memory { bytes, _charge } => {
                let range =
                    usize::try_from(from).unwrap_or(bytes.len())..usize::try_from(to).unwrap_or(bytes.len());
                Held::Memory { bytes: bytes.slice(range), _charge: _charge.clone() }
            }
            Held::File { file, start, .. } => {
                Held::File { file: Arc::clone(file), start: start + from, end: start + to }
            }
        };
        Body { held }
    }

    /// Reads the whole body in order, with a buffer of its own.
    #[must_use]
    pub fn reader(&self) -> BodyReader {
        BodyReader { body: self.clone(), offset: 0, chunk: Chunk::default() }
    }
}

impl From<Bytes> for Body {
    /// Bytes that no spool accounts for: small ones that were made here.
    fn from(bytes: Bytes) -> Body {
        Body { held: Held::Memory { bytes, _charge: None } }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}

impl std::fmt::Debug for SpoolWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpoolWriter({} bytes)", self.len)
    }
}

/// Reads a [`Body`] from its start to its end.
pub struct BodyReader {
    body: Body,
    offset: u64,
    chunk: Chunk,
}

impl std::fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BodyReader({} of {} bytes)", self.offset, self.body.len())
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &self.body.held {
            Held::Memory { .. } => self.body.read_at(self.offset, buffer)?,
            Held::File { file, start, end } => {
                file.read_from(&mut self.chunk, start.saturating_add(self.offset), *end, buffer)?
            }
        };
        self.offset += count as u64;
        Ok(count)
    }
}

impl SpoolFile {
    /// Reads from `position` of the file, not beyond `end`, through the chunk that `chunk` holds.
    fn read_from(&self, chunk: &mut Chunk, position: u64, end: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if position >= end || buffer.is_empty() {
            return Ok(0);
        }
        let number = position / CHUNK_BYTES as u64;
        self.load(chunk, number)?;
        let begin = number * CHUNK_BYTES as u64;
        let within = usize::try_from(position - begin).map_err(io::Error::other)?;
        let until = usize::try_from(end - begin).unwrap_or(usize::MAX).min(chunk.bytes.len());
        let from = chunk.bytes.get(within..until).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn load(&self, chunk: &mut Chunk, number: u64) -> io::Result<()> {
        if chunk.number == Some(number) {
            return Ok(());
        }
        let rest = self.len - number * CHUNK_BYTES as u64;
        let clear = usize::try_from(rest).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        chunk.number = None;
        self.sealed.read_chunk(number, clear, &mut chunk.bytes)?;
        chunk.number = Some(number);
        Ok(())
    }
}

impl Charge {
    fn take(&mut self, bytes: u64) {
        self.spools.used.fetch_add(bytes, Ordering::AcqRel);
        self.bytes += bytes;
    }

    fn try_take(&mut self, bytes: u64) -> Result<(), SpoolError> {
        let limit = self.spools.limit;
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.spools.used.try_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(_) => Err(SpoolError::Full { limit }),
        }
    }

    fn failure(&self, source: io::Error) -> SpoolError {
        SpoolError::Io { dir: self.spools.dir.clone(), source }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.spools.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(unix)]
fn make_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn make_private_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}
