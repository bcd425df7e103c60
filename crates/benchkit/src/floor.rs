//! The floor of a save: the same bytes, written, hashed and made durable by the shortest program that can.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::payload;
use crate::proc::own_cpu;

/// What it is started with.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Bytes of text
    #[arg(long)]
    bytes: usize,
    /// Directory to write in: on the file system that the saves go to
    #[arg(long)]
    dir: PathBuf,
}

/// The figures.
#[derive(Debug, Serialize)]
pub struct Report {
    bytes: usize,
    wall_s: f64,
    cpu_s: f64,
}

/// Writes, hashes and fsyncs once; the file is gone afterwards.
pub fn run(options: &Options) -> Result<Report, String> {
    let path = options.dir.join(format!("floor-{}.log", std::process::id()));
    // The text is made before the clock starts.
    let pieces: Vec<_> = payload::pieces(options.bytes).collect();
    let (wall, cpu) = (Instant::now(), own_cpu());
    let done = write_durably(&path, pieces.iter().map(AsRef::as_ref)).and_then(|()| sync_names(&options.dir));
    let (wall_s, cpu_s) = (wall.elapsed().as_secs_f64(), (own_cpu() - cpu).as_secs_f64());
    let removed = std::fs::remove_file(&path);
    done.and(removed).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(Report { bytes: options.bytes, wall_s, cpu_s })
}

/// The bytes: written, hashed and fsynced.
pub fn write_durably<'a>(path: &Path, pieces: impl Iterator<Item = &'a [u8]>) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update(piece);
        file.write_all(piece)?;
    }
    std::hint::black_box(hash.finalize());
    file.sync_all()
}

/// The names in a directory.
pub fn sync_names(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}
