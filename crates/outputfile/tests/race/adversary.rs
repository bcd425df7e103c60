//! The adversaries: threads that move directories, exchange, plant and take files, as fast as they can, and note what
//! they did. None ever removes a file for good without having read whose it was, so that every file can be accounted for.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outputfile::name::is_temporary;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::ground::{BELOW, Ground, Level, OWN, SHARED, exchange, rename_new};
use super::payload::{Chance, LEAST, VICTIM, content, id, now, whole};

/// Who plants files; savers have smaller numbers.
pub const PLANTER: u64 = 1000;

/// A move of a directory, undone after a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Exchanged with a link to the same place outside.
    Link(Level),
    /// The root exchanged with another directory.
    Spare,
    /// Moved away, so that nothing is there: the root stays beneath the top, a parent is out of the root.
    Away(Level),
}

impl Move {
    pub fn name(self) -> &'static str {
        match self {
            Self::Link(Level::Way) => "above the root a link",
            Self::Link(Level::Root) => "the root a link",
            Self::Link(_) => "a parent a link",
            Self::Spare => "the root another directory",
            Self::Away(Level::Way | Level::Root) => "the root nothing",
            Self::Away(_) => "a parent out of the root",
        }
    }
}

/// Something done to a target or a temporary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trick {
    ExchangeWithLink,
    ExchangeWithFile,
    ExchangeWithDirectory,
    Plant,
    Take,
    TakeTemporaries,
}

impl Trick {
    pub fn name(self) -> &'static str {
        match self {
            Self::ExchangeWithLink => "a target exchanged with a link",
            Self::ExchangeWithFile => "a target exchanged with a file",
            Self::ExchangeWithDirectory => "a target exchanged with a directory",
            Self::Plant => "a target planted",
            Self::Take => "a target deleted",
            Self::TakeTemporaries => "a temporary deleted",
        }
    }
}

/// A time in which a directory was surely not in its place.
#[derive(Debug)]
pub struct Off {
    pub what: Move,
    pub from: u64,
    pub to: u64,
}

/// How often each kind of thing was done.
pub type Counts = BTreeMap<&'static str, u64>;

/// Moves directories until told to stop; all of them are in their places then.
pub fn move_directories(ground: &Ground, moves: &[Move], seed: u64, stop: &AtomicBool) -> Vec<Off> {
    let mut offs = Vec::new();
    let mut chance = Chance::new(seed);
    let (mut made, mut due) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) && !moves.is_empty() {
        if due.is_empty() {
            due.extend(moves);
        }
        let what = due.swap_remove(usize::try_from(chance.below(due.len() as u64)).unwrap());
        let (home, other) = match what {
            Move::Link(level) => (ground.at(level.path()), ground.at("links").join(file_name(level.path()))),
            Move::Spare => (ground.at(Level::Root.path()), ground.at("spare")),
            Move::Away(level) => (ground.at(level.path()), ground.at("away/it")),
        };
        match what {
            Move::Away(_) => rename_new(&home, &other).unwrap(),
            _ => exchange(&home, &other).unwrap(),
        }
        let from = now();
        linger(&mut chance, ground.pace / 4);
        let to = now();
        match what {
            Move::Away(_) => bring_back(ground, &other, &home, &mut made),
            _ => exchange(&home, &other).unwrap(),
        }
        offs.push(Off { what, from, to });
        linger(&mut chance, ground.pace);
    }
    offs
}

/// Back to its place; a directory that a save made there meanwhile is put aside.
fn bring_back(ground: &Ground, away: &Path, home: &Path, made: &mut u64) {
    for _ in 0..1000 {
        match rename_new(away, home) {
            Ok(()) => return,
            Err(Errno::EXIST) => {}
            Err(error) => panic!("{}: {error}", home.display()),
        }
        match exchange(away, home) {
            Ok(()) => {
                *made += 1;
                rename_new(away, &ground.at("attic").join(format!("made-{made}"))).unwrap();
                return;
            }
            Err(Errno::NOENT) => {}
            Err(error) => panic!("{}: {error}", home.display()),
        }
    }
    panic!("{} cannot be brought back", home.display());
}

/// Mostly not at all, sometimes as long as a part of a save takes, and rarely for many saves.
fn linger(chance: &mut Chance, pace: Duration) {
    let most = match chance.below(64) {
        0 => 64 * pace,
        1..8 => 8 * pace,
        8..24 => pace,
        _ => return,
    };
    let most = Duration::from_nanos(chance.below(u64::try_from(most.as_nanos()).unwrap()));
    let start = Instant::now();
    while start.elapsed() < most {
        match most > Duration::from_millis(2) {
            true => thread::sleep(Duration::from_millis(1)),
            false => thread::yield_now(),
        }
    }
}

/// What the trickster did, and whose files it had in its hands.
#[derive(Debug, Default)]
pub struct Loot {
    pub counts: Counts,
    /// Planted, and seen by savers under the name of a target.
    pub planted: HashSet<u64>,
    /// Taken from a name of a target, and how deep.
    pub taken: BTreeMap<u64, usize>,
    /// Taken from a name of a temporary, where it was whole.
    pub stolen: HashSet<u64>,
    /// Links and directories put under names of targets and not taken away again.
    pub things: u64,
}

pub struct Trickster<'a> {
    ground: &'a Ground,
    attic: PathBuf,
    savers: u64,
    chance: Chance,
    number: u64,
    /// Prepared to be planted.
    plant: Option<u64>,
    loot: Loot,
}

impl<'a> Trickster<'a> {
    pub fn new(ground: &'a Ground, savers: u64, seed: u64) -> Self {
        let attic = ground.at("attic");
        Self { ground, attic, savers, chance: Chance::new(seed), number: 0, plant: None, loot: Loot::default() }
    }

    /// Plays tricks until told to stop.
    pub fn play(mut self, tricks: &[Trick], stop: &AtomicBool) -> Loot {
        while !stop.load(Ordering::Relaxed) && !tricks.is_empty() {
            let trick = *self.chance.of(tricks);
            let depth = usize::try_from(self.chance.below(3)).unwrap();
            let name = self.name();
            let done = match trick {
                Trick::Take => self.take(depth, &name),
                Trick::Plant => self.plant(depth, &name),
                Trick::TakeTemporaries => self.take_temporaries(depth),
                _ => self.exchange(trick, depth, &name),
            };
            *self.loot.counts.entry(trick.name()).or_default() += done;
            linger(&mut self.chance, self.ground.pace / 2);
        }
        if let Some(id) = self.plant.take() {
            fs::remove_file(self.attic.join(format!("p{id}"))).unwrap();
        }
        self.loot
    }

    fn name(&mut self) -> String {
        match self.chance.below(3) {
            0 => format!("o{}-{}", self.chance.below(self.savers), self.chance.below(OWN)),
            _ => (*self.chance.of(&SHARED)).to_owned(),
        }
    }

    fn dir(&self, depth: usize) -> &'a OwnedFd {
        &self.ground.real[depth]
    }

    /// A file of ours in the attic, whose content is its own.
    fn prepare(&mut self) -> (u64, PathBuf) {
        let id = self.plant.unwrap_or_else(|| {
            self.number += 1;
            let id = id(PLANTER, self.number);
            fs::write(self.attic.join(format!("p{id}")), content(id, LEAST)).unwrap();
            id
        });
        self.plant = Some(id);
        (id, self.attic.join(format!("p{id}")))
    }

    fn plant(&mut self, depth: usize, name: &str) -> u64 {
        let (id, from) = self.prepare();
        match rustix::fs::renameat_with(CWD, &from, self.dir(depth), name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.plant = None;
                self.loot.planted.insert(id);
                1
            }
            Err(Errno::EXIST) => 0,
            Err(error) => panic!("planting {name}: {error}"),
        }
    }

    fn take(&mut self, depth: usize, name: &str) -> u64 {
        let to = self.attic.join("taken");
        match rustix::fs::renameat_with(self.dir(depth), name, CWD, &to, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.account(&to, depth);
                1
            }
            Err(Errno::NOENT) => 0,
            Err(error) => panic!("taking {name}: {error}"),
        }
    }

    /// Exchanges a target with something else, which stays there.
    fn exchange(&mut self, trick: Trick, depth: usize, name: &str) -> u64 {
        let (id, from) = match trick {
            Trick::ExchangeWithFile => self.prepare(),
            Trick::ExchangeWithLink => {
                let from = self.attic.join("link");
                symlink(self.ground.at("outside/victim"), &from).unwrap();
                (VICTIM, from)
            }
            _ => {
                let from = self.attic.join("directory");
                fs::create_dir(&from).unwrap();
                (VICTIM, from)
            }
        };
        match rustix::fs::renameat_with(CWD, &from, self.dir(depth), name, RenameFlags::EXCHANGE) {
            Ok(()) if id == VICTIM => self.loot.things += 1,
            Ok(()) => {
                self.plant = None;
                self.loot.planted.insert(id);
            }
            Err(Errno::NOENT) => {
                if id == VICTIM {
                    remove(&from);
                }
                return 0;
            }
            Err(error) => panic!("exchanging {name}: {error}"),
        }
        self.account(&from, depth);
        1
    }

    /// What was taken from under the name of a target is noted and removed. A file must be whole.
    fn account(&mut self, at: &Path, depth: usize) {
        if !fs::symlink_metadata(at).unwrap().is_file() {
            self.loot.things -= 1;
            return remove(at);
        }
        let bytes = fs::read(at).unwrap();
        let id = whole(&bytes).unwrap_or_else(|seen| panic!("a target was no whole file: {seen}"));
        fs::remove_file(at).unwrap();
        let twice = self.loot.taken.insert(id, depth).is_some();
        assert!(!twice, "{id} was there twice");
    }

    fn take_temporaries(&mut self, depth: usize) -> u64 {
        let names: Vec<String> = entries(self.dir(depth)).into_iter().filter(|name| is_temporary(name)).collect();
        let mut taken = 0;
        for name in names {
            let to = self.attic.join("temporary");
            if rustix::fs::renameat_with(self.dir(depth), &*name, CWD, &to, RenameFlags::NOREPLACE).is_err() {
                continue;
            }
            taken += 1;
            if !fs::symlink_metadata(&to).unwrap().is_file() {
                self.loot.things -= 1;
                remove(&to);
                continue;
            }
            // It may be half written; an old file that was just exchanged is whole.
            if let Ok(id) = whole(&fs::read(&to).unwrap()) {
                self.loot.stolen.insert(id);
            }
            fs::remove_file(&to).unwrap();
        }
        taken
    }
}

fn remove(thing: &Path) {
    match fs::symlink_metadata(thing).unwrap().is_dir() {
        true => fs::remove_dir(thing).unwrap(),
        false => fs::remove_file(thing).unwrap(),
    }
}

fn entries(dir: &OwnedFd) -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir, ".", flags, Mode::empty()).unwrap();
    let all = Dir::new(opened).unwrap().filter_map(Result::ok);
    all.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned)).collect()
}

/// Reads targets by their names until told to stop. Whatever it can open must be whole. Returns how many were.
pub fn read_targets(ground: &Ground, savers: u64, seed: u64, stop: &AtomicBool) -> u64 {
    let mut chance = Chance::new(seed);
    let mut read = 0;
    let own: Vec<String> = (0..savers).flat_map(|saver| (0..OWN).map(move |own| format!("o{saver}-{own}"))).collect();
    while !stop.load(Ordering::Relaxed) {
        let name = if chance.below(3) == 0 { chance.of(&own) } else { *chance.of(&SHARED) };
        let depth = usize::try_from(chance.below(3)).unwrap();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = if chance.below(4) == 0 {
            let path = ground.at("way/root").join(BELOW[depth]).join(name);
            rustix::fs::open(path, flags, Mode::empty())
        } else {
            rustix::fs::openat(ground.real[depth].as_fd(), name, flags, Mode::empty())
        };
        let Ok(file) = opened else { continue };
        let kind = rustix::fs::fstat(&file).unwrap().st_mode;
        if FileType::from_raw_mode(kind) == FileType::RegularFile {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut fs::File::from(file), &mut bytes).unwrap();
            whole(&bytes).unwrap_or_else(|seen| panic!("a reader saw a part of {name}: {seen}"));
            read += 1;
        }
    }
    read
}

/// Contends for a new path as savers do, but with a rename that spares what is there. True: it was first.
pub fn contend(ground: &Ground, number: u64, name: &str) -> bool {
    let from = ground.at("attic/contender");
    fs::write(&from, content(id(PLANTER, number), 2000)).unwrap();
    let first = rename_new(&from, &ground.at("way/root").join(name)).is_ok();
    if !first {
        fs::remove_file(&from).unwrap();
    }
    first
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

/// Unused handles are no reason to keep a name.
pub fn remove_target(ground: &Ground, name: &str) {
    rustix::fs::unlinkat(&ground.real[0], name, AtFlags::empty()).unwrap();
}
