//! Contents that tell whose they are and whether they are whole; chances that a seed repeats; the clock of all processes.

use sha2::{Digest as _, Sha256};

/// Bytes of the first line, and of the checksum at the end.
const HEAD: usize = 26;
const TAIL: usize = 64;
/// The shortest content.
pub const LEAST: usize = 128;
/// What the files outside hold.
pub const VICTIM: u64 = u64::MAX;

/// Whose file it is, and which of theirs.
pub fn id(maker: u64, number: u64) -> u64 {
    (maker << 40) | number
}

/// A content of `len` bytes that no other save has.
pub fn content(id: u64, len: usize) -> Vec<u8> {
    assert!(len >= LEAST);
    let mut bytes = format!("{id:016x} {len:08x}\n").into_bytes();
    let filler = id.to_le_bytes();
    bytes.extend(filler.iter().cycle().take(len - HEAD - TAIL));
    let hash = hex(&Sha256::digest(&bytes));
    bytes.extend(hash.into_bytes());
    bytes
}

/// Whose content it is, if it is all there.
pub fn whole(bytes: &[u8]) -> Result<u64, String> {
    let seen = || format!("{} bytes: {:?}", bytes.len(), String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]));
    if bytes.len() < LEAST {
        return Err(seen());
    }
    let (body, hash) = bytes.split_at(bytes.len() - TAIL);
    let head = std::str::from_utf8(&body[..HEAD]).map_err(|_| seen())?;
    let (id, len) = head.trim_end().split_once(' ').ok_or_else(seen)?;
    let id = u64::from_str_radix(id, 16).map_err(|_| seen())?;
    let len = usize::from_str_radix(len, 16).map_err(|_| seen())?;
    if len != bytes.len() || hex(&Sha256::digest(body)).as_bytes() != hash {
        return Err(seen());
    }
    Ok(id)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Numbers by chance, the same for the same seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to but not including `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let at = self.below(u64::try_from(all.len()).unwrap());
        &all[usize::try_from(at).unwrap()]
    }
}

/// Nanoseconds of a clock that all processes share and nobody sets.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}
