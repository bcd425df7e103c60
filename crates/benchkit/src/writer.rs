//! Saves by the crate `outputfile` alone, without a gateway: beside their floor, and the check that goes before them.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use outputfile::{Call, Hook, NoLedger, Roots, SaveError, Settings};
use serde::Serialize;

use crate::floor::{sync_names, write_durably};
use crate::payload;
use crate::proc::own_growth_kb;

/// Bytes that are handed over at a time, as the gateway does.
const PIECE: usize = 128 * 1024;
/// Bytes of the save that goes before the measured ones.
const WARM_UP: usize = 1_000_000;
/// Most rounds that one command makes.
const MOST_ROUNDS: u32 = 100_000;

/// What `save` is started with.
#[derive(Debug, clap::Args)]
pub struct SaveOptions {
    /// Bytes of text
    #[arg(long)]
    bytes: usize,
    /// Directory to work in: on the file system that is measured
    #[arg(long)]
    dir: PathBuf,
    /// Floors and saves
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// The figures of all rounds.
#[derive(Debug, Serialize)]
pub struct SaveReport {
    bytes: usize,
    rounds: Vec<SaveRound>,
    /// How much this process grew over the whole run.
    growth_kb: u64,
}

/// One floor and one save of the same bytes, in microseconds.
#[derive(Debug, Default, Serialize)]
struct SaveRound {
    floor_us: f64,
    /// The fsync of the directory, which is part of neither but of both with their names.
    floor_names_us: f64,
    save_us: f64,
    preflight_us: f64,
    begin_us: f64,
    put_us: f64,
    commit_us: f64,
}

/// What `preflight` is started with.
#[derive(Debug, clap::Args)]
pub struct PreflightOptions {
    /// Directory to work in
    #[arg(long)]
    dir: PathBuf,
    /// Directories between the root and the file
    #[arg(long, default_value_t = 10)]
    depth: usize,
    /// Checks that are timed
    #[arg(long, default_value_t = 2000)]
    rounds: u32,
}

/// The figures of the checks.
#[derive(Debug, Serialize)]
pub struct PreflightReport {
    depth: usize,
    median_us: f64,
    p99_us: f64,
    /// System calls of one check.
    calls: u64,
}

/// Saves and floors in turn, each first in every second round.
pub fn save(options: &SaveOptions) -> Result<SaveReport, String> {
    let place = Place::new(&options.dir)?;
    let roots = place.roots(None)?;
    place.round(&roots, WARM_UP, true)?;
    let (rounds, growth_kb) = own_growth_kb(|| {
        (0..options.rounds.min(MOST_ROUNDS))
            .map(|round| place.round(&roots, options.bytes, round % 2 == 0))
            .collect::<Result<Vec<_>, _>>()
    });
    Ok(SaveReport { bytes: options.bytes, rounds: rounds?, growth_kb })
}

/// Checks the same path many times, after one check whose system calls are counted.
pub fn preflight(options: &PreflightOptions) -> Result<PreflightReport, String> {
    let place = Place::new(&options.dir)?;
    let names: Vec<String> = (1..=options.depth).map(|level| format!("level-{level}")).collect();
    let deep = place.root.join(names.join("/"));
    make(&deep)?;
    let path = text(&deep.join("answer.log"))?;
    let calls = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&calls);
    let hook = Hook::new(move |call| {
        // That one asks the hook and nobody else.
        counter.fetch_add(u64::from(call != Call::MountNumber), Ordering::Relaxed);
        None
    });
    let counting = place.roots(Some(hook))?;
    calls.store(0, Ordering::Relaxed);
    check(&counting, &path)?;
    let calls = calls.load(Ordering::Relaxed);
    let roots = place.roots(None)?;
    let mut times = Vec::new();
    for _ in 0..options.rounds.clamp(1, MOST_ROUNDS) {
        let clock = Instant::now();
        check(&roots, &path)?;
        times.push(micros(clock));
    }
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get((times.len() - 1) * part / 100).copied().unwrap_or_default();
    Ok(PreflightReport { depth: options.depth, median_us: at(50), p99_us: at(99), calls })
}

fn check(roots: &Roots, path: &str) -> Result<(), String> {
    roots.preflight(path, false, &NoLedger).map(drop).map_err(|e| e.to_string())
}

/// A root, and the directories of a program that no root may hold. Gone with this.
struct Place {
    dir: PathBuf,
    root: PathBuf,
}

impl Place {
    fn new(dir: &Path) -> Result<Self, String> {
        let dir = std::path::absolute(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        if !dir.is_dir() {
            return Err(format!("{}: is not there, or is no directory", dir.display()));
        }
        let dir = dir.join(format!("writer-{}", std::process::id()));
        let place = Self { root: dir.join("saved"), dir };
        for made in [place.root.clone(), place.dir.join("config"), place.dir.join("data")] {
            make(&made)?;
        }
        Ok(place)
    }

    fn roots(&self, hook: Option<Hook>) -> Result<Roots, String> {
        let settings = Settings {
            roots: vec![self.root.clone()],
            max_bytes: u64::MAX,
            config_dir: Some(self.dir.join("config")),
            data_dir: Some(self.dir.join("data")),
            hook,
            ..Settings::default()
        };
        Roots::open(settings)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    fn round(&self, roots: &Roots, bytes: usize, floor_first: bool) -> Result<SaveRound, String> {
        let mut round = SaveRound::default();
        if floor_first {
            self.floor(bytes, &mut round)?;
        }
        self.save(roots, bytes, &mut round)?;
        if !floor_first {
            self.floor(bytes, &mut round)?;
        }
        Ok(round)
    }

    fn floor(&self, bytes: usize, round: &mut SaveRound) -> Result<(), String> {
        let path = self.root.join("floor.log");
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        // The text is made before the clock starts.
        let pieces: Vec<_> = payload::pieces(bytes).collect();
        let clock = Instant::now();
        write_durably(&path, pieces.iter().flat_map(|piece| piece.chunks(PIECE))).map_err(failed)?;
        round.floor_us = micros(clock);
        let clock = Instant::now();
        sync_names(&self.root).map_err(failed)?;
        round.floor_names_us = micros(clock);
        fs::remove_file(&path).map_err(failed)
    }

    fn save(&self, roots: &Roots, bytes: usize, round: &mut SaveRound) -> Result<(), String> {
        let path = text(&self.root.join("answer.log"))?;
        let failed = |e: SaveError| e.to_string();
        let pieces: Vec<_> = payload::pieces(bytes).collect();
        let whole = Instant::now();
        let clock = Instant::now();
        let target = roots.preflight(&path, false, &NoLedger).map_err(failed)?;
        round.preflight_us = micros(clock);
        let clock = Instant::now();
        let mut writer = roots.begin(target).map_err(failed)?;
        round.begin_us = micros(clock);
        let clock = Instant::now();
        for piece in pieces.iter().flat_map(|piece| piece.chunks(PIECE)) {
            writer.put(piece).map_err(failed)?;
        }
        round.put_us = micros(clock);
        let clock = Instant::now();
        let saved = writer.commit().map_err(failed)?;
        round.commit_us = micros(clock);
        round.save_us = micros(whole);
        fs::remove_file(&saved.path).map_err(|e| format!("{path}: {e}"))?;
        if usize::try_from(saved.bytes) == Ok(bytes) { Ok(()) } else { Err(format!("{path}: {saved:?}")) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn make(dir: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|e| format!("{}: {e}", dir.display()))
}

fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not Unicode", path.display()))
}

fn micros(clock: Instant) -> f64 {
    clock.elapsed().as_secs_f64() * 1e6
}
