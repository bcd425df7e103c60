//! The enciphered file of one spool: nameless, readable only with a key that lives in this process's memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};

/// Clear bytes in one enciphered chunk.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
/// What the cipher adds to each chunk.
const TAG_BYTES: usize = 16;
const STORED_BYTES: usize = CHUNK_BYTES + TAG_BYTES;
/// How the file is called for the moment in which it needs a name.
const NAME_PREFIX: &str = ".mcpproxy-spool-";

/// A nameless file of AES-256-GCM chunks. Each file has a key of its own, so that the chunk's number is nonce enough.
pub(super) struct Sealed {
    file: Option<File>,
    key: LessSafeKey,
}

impl Sealed {
    /// A new, empty file in `dir`.
    pub(super) fn create(dir: &Path) -> io::Result<Sealed> {
        let file = nameless(dir)?;
        let mut secret = [0_u8; 32];
        let key = SystemRandom::new()
            .fill(&mut secret)
            .and_then(|()| UnboundKey::new(&AES_256_GCM, &secret))
            .map_err(|_| io::Error::other("no random key for a spool file could be made"))?;
        // The library clears its own copy at drop; this one is ours to clear.
        secret.fill(0);
        std::hint::black_box(&secret);
        Ok(Sealed { file: Some(file), key: LessSafeKey::new(key) })
    }

    /// Enciphers `clear` (which is used as the work buffer and emptied) and writes it as chunk `number`.
    pub(super) fn write_chunk(&self, number: u64, clear: &mut Vec<u8>) -> io::Result<()> {
        self.key
            .seal_in_place_append_tag(nonce(number), Aad::empty(), clear)
            .map_err(|_| io::Error::other("a spool chunk could not be enciphered"))?;
        let written = write_all_at(self.file()?, clear, position(number));
        clear.clear();
        written
    }

    /// Reads chunk `number`, which holds `clear_len` bytes, into `buffer`.
    pub(super) fn read_chunk(&self, number: u64, clear_len: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.resize(clear_len + TAG_BYTES, 0);
        let opened = read_exact_at(self.file()?, buffer, position(number)).and_then(|()| {
            self.key.open_in_place(nonce(number), Aad::empty(), buffer).map(|_| ()).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, "a spool file was changed from outside")
            })
        });
        buffer.truncate(if opened.is_ok() { clear_len } else { 0 });
        opened
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("the spool file is closed"))
    }
}

impl Drop for Sealed {
    /// Giving the blocks of a large file back takes milliseconds: not on a worker that serves others.
    fn drop(&mut self) {
        let file = self.file.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(file)));
        }
    }
}

/// Removes what a process that died between making and unlinking left in `dir`.
pub(super) fn sweep(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(NAME_PREFIX) {
            // It may be the one that another process is just making; it goes away then in any case.
            if let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(%error, "a spool file that was left could not be removed");
            }
        }
    }
    Ok(())
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0_u8; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn position(number: u64) -> u64 {
    number.saturating_mul(STORED_BYTES as u64)
}

#[cfg(target_os = "linux")]
fn nameless(dir: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flag = i32::try_from(rustix::fs::OFlags::TMPFILE.bits()).map_err(io::Error::other)?;
    let opened = OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flag).open(dir);
    // Not every file system has files without a name; whatever the reason is, the second way tells it better.
    opened.or_else(|_| unlinked(dir))
}

#[cfg(not(target_os = "linux"))]
fn nameless(dir: &Path) -> io::Result<File> {
    unlinked(dir)
}

/// A file under a random name that is taken away at once.
#[cfg(unix)]
fn unlinked(dir: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = dir.join(random_name()?);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    match std::fs::remove_file(&path) {
        // A program that starts beside this one may have swept it first.
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(file),
    }
}

/// A file under a random name that the system removes when the handle is closed.
#[cfg(windows)]
fn unlinked(dir: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).share_mode(0).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
    options.open(dir.join(random_name()?))
}

fn random_name() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("no random file name could be made"))?;
    Ok(format!("{NAME_PREFIX}{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, position)
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, position)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let count = file.seek_write(bytes, position)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
        position += count as u64;
    }
    Ok(())
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut position: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let count = file.seek_read(bytes, position)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[count..];
        position += count as u64;
    }
    Ok(())
}
