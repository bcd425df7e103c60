//! Savers in several processes against adversaries that never rest: nothing gets out, nothing is lost, nobody is lied to.
//!
//! `OUTPUTFILE_RACE_SAVES` is how many saves are made in all, `OUTPUTFILE_RACE_DIR` where (the directory for temporary
//! files), and `OUTPUTFILE_SEED` repeats the choices of an earlier run.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

#[path = "race/adversary.rs"]
mod adversary;
#[path = "race/ground.rs"]
mod ground;
#[path = "race/judge.rs"]
mod judge;
#[path = "race/moments.rs"]
mod moments;
#[path = "race/payload.rs"]
mod payload;
#[path = "race/saver.rs"]
mod saver;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use adversary::{Move, Trick, Trickster};
use common::{tell, text};
use ground::{Ground, Level};
use judge::{Race, Score};
use payload::Chance;
use saver::{Saver, Task, WAYS, log_path};

const SAVERS: u64 = 4;
/// Saves on one ground at the most, so that a round stays small.
const ROUND: u64 = 800;
/// How often each kind of move must have been made.
const LEAST_MOVES: u64 = 3;
/// Rounds that a scene may go on for, until it has shown what it is about.
const MORE_ROUNDS: u64 = 40;

/// A kind of race.
struct Scene {
    name: &'static str,
    moves: &'static [Move],
    tricks: &'static [Trick],
    /// The reasons of refusals that may occur, and the one that must.
    reasons: &'static [&'static str],
    must: &'static str,
}

impl Scene {
    /// Saves came through and were seen, what must be refused was, and every adversary had its way more than once.
    fn shown(&self, score: &Score) -> bool {
        // Where files have no names while they are written, a temporary is there for a moment of an overwrite only.
        let elusive = matches!(common::strategy().as_deref(), Some("nameless" | "portable"));
        let of_temporaries =
            |trick: &&Trick| matches!(trick, Trick::TakeTemporaries | Trick::ExchangeTemporaries);
        let tricks = self.tricks.iter().filter(|trick| !(elusive && of_temporaries(trick)));
        let about_them = self.moves.is_empty() && self.tricks.iter().any(|trick| of_temporaries(&trick));
        let mut names = self.moves.iter().map(|what| what.name()).chain(tricks.map(|what| what.name()));
        score.succeeded > 0
            && score.seen > 0
            && score.read > 0
            && (score.reasons.contains_key(self.must) || (elusive && about_them))
            && names.all(|name| score.moves.get(name).is_some_and(|made| *made >= LEAST_MOVES))
    }
}

const LINKS: [Move; 4] =
    [Move::Link(Level::Way), Move::Link(Level::Root), Move::Link(Level::A), Move::Link(Level::B)];
const ROOTS: [Move; 3] = [Move::Link(Level::Root), Move::Spare, Move::Away(Level::Root)];
const PARENTS: [Move; 2] = [Move::Away(Level::A), Move::Away(Level::B)];

const SCENES: [Scene; 8] = [
    Scene {
        name: "directories and links exchanged at every level",
        moves: &LINKS,
        tricks: &[Trick::Take],
        reasons: &["Exists", "RootMoved", "Outside"],
        must: "Outside",
    },
    Scene {
        name: "the root replaced",
        moves: &ROOTS,
        tricks: &[Trick::Take],
        reasons: &["Exists", "RootMoved"],
        must: "RootMoved",
    },
    Scene {
        name: "parents moved out of the root",
        moves: &PARENTS,
        tricks: &[Trick::Take],
        reasons: &["Exists", "RootMoved"],
        must: "RootMoved",
    },
    Scene {
        name: "targets exchanged",
        moves: &[],
        tricks: &[
            Trick::ExchangeWithLink,
            Trick::ExchangeWithFile,
            Trick::ExchangeWithDirectory,
            Trick::Take,
            Trick::Take,
        ],
        reasons: &["Exists", "RootMoved", "TargetKind"],
        must: "TargetKind",
    },
    Scene {
        name: "targets planted",
        moves: &[],
        tricks: &[Trick::Plant, Trick::Take],
        reasons: &["Exists", "RootMoved"],
        must: "Exists",
    },
    Scene {
        name: "targets and temporaries deleted",
        moves: &[],
        tricks: &[Trick::Take, Trick::TakeTemporaries],
        reasons: &["Exists", "RootMoved"],
        must: "RootMoved",
    },
    Scene {
        name: "temporaries exchanged",
        moves: &[],
        tricks: &[Trick::Take, Trick::ExchangeTemporaries],
        reasons: &["Exists", "RootMoved"],
        must: "RootMoved",
    },
    Scene {
        name: "everything at once",
        moves: &[
            Move::Link(Level::Way),
            Move::Link(Level::Root),
            Move::Link(Level::A),
            Move::Link(Level::B),
            Move::Spare,
            Move::Away(Level::Root),
            Move::Away(Level::A),
            Move::Away(Level::B),
        ],
        tricks: &[
            Trick::ExchangeWithLink,
            Trick::ExchangeWithFile,
            Trick::ExchangeWithDirectory,
            Trick::Plant,
            Trick::Take,
            Trick::Take,
            Trick::Take,
            Trick::TakeTemporaries,
            Trick::ExchangeTemporaries,
        ],
        reasons: &["Exists", "RootMoved", "Outside", "TargetKind"],
        must: "RootMoved",
    },
];

/// The body of a saver process; without a task there is nothing to do.
#[test]
fn saver_process() {
    if let Some(task) = common::task() {
        saver::run(&Task::decode(&task));
    }
}

#[test]
fn savers_in_many_processes_withstand_every_adversary() {
    let (seed, mut all) = (seed(), Score::default());
    let mut chance = Chance::new(seed);
    for scene in &SCENES {
        let mut score = Score::default();
        let (mut left, mut round) = (saves() * 9 / 10 / SCENES.len() as u64, 0);
        // What a scene is about is a matter of moments: a short run goes on until it was met.
        let most = round + saves() * 9 / 10 / SCENES.len() as u64 / ROUND + MORE_ROUNDS;
        while left > 0 || (round < most && !scene.shown(&score)) {
            let count = if left > 0 { left.clamp(SAVERS, ROUND) } else { ROUND };
            score.add(race(scene, count / SAVERS, round, &mut chance));
            left = left.saturating_sub(count);
            round += 1;
        }
        eprintln!("{}: {score:?}", scene.name);
        assert!(scene.shown(&score), "{}: {score:?}", scene.name);
        all.add(score);
    }
    tell("races", "saves", all.saves);
    tell("races", "refused", all.refused());
    tell("races", "moves of adversaries", all.moves.values().sum());
    tell("races", "targets read meanwhile, all whole", all.read);
}

#[test]
fn of_many_savers_to_one_new_path_exactly_one_wins() {
    let mut chance = Chance::new(seed());
    let rounds = (saves() / 10 / SAVERS).max(1);
    let (ground, logs) = (Ground::new(&place()), tempfile::tempdir_in(place()).unwrap());
    let tasks = (0..SAVERS).map(|saver| task("rounds", &ground, &logs, saver, 0, 0, &mut chance));
    let mut savers: Vec<Saver> = tasks.map(Saver::start).collect();
    let mut planted = 0;
    for number in 0..rounds {
        planted += u64::from(contest(&ground, &mut savers, number, &mut chance));
    }
    for saver in savers {
        saver.finish(Duration::from_secs(60));
    }
    ground.assert_untouched_outside();
    let census = ground.census();
    assert!(census.files.is_empty() && census.temporaries.is_empty(), "{census:?}");
    tell("races", "rounds with one winner", rounds);
    tell("races", "saves to one new path at once", rounds * SAVERS);
    eprintln!("a file that was planted in the last moment won {planted} of them");
}

/// All savers, and in every other round an adversary, want one new name at once. Whether the adversary was first.
fn contest(ground: &Ground, savers: &mut [Saver], number: u64, chance: &mut Chance) -> bool {
    let name = format!("w{number}");
    for saver in &mut *savers {
        let warm = if chance.below(4) > 0 { "warm" } else { "cold" };
        saver.order(&format!("{name} {warm}"));
    }
    for saver in &mut *savers {
        assert_eq!(saver.answer(), "ready");
    }
    let first = chance.below(SAVERS + 1);
    let mut planted = false;
    for (at, saver) in (0..).zip(&mut *savers) {
        if at == first && number.is_multiple_of(2) {
            planted = adversary::contend(ground, number, &name);
        }
        saver.order("go");
    }
    let answers: Vec<String> = savers.iter_mut().map(Saver::answer).collect();
    let won: Vec<&str> = answers.iter().filter_map(|answer| answer.strip_prefix("won ")).collect();
    let lost = answers.iter().filter(|answer| *answer == "exists").count();
    assert!(won.len() + lost == answers.len(), "round {number}: {answers:?}");
    assert_eq!(won.len() + usize::from(planted), 1, "round {number}: {answers:?}, planted: {planted}");
    let path = ground.at("way/root").join(&name);
    let bytes = fs::read(&path).unwrap();
    assert!(payload::whole(&bytes).is_ok(), "round {number}");
    if let Some(winner) = won.first() {
        let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
        assert_eq!(*winner, format!("{ino} {}", ground::hash(&bytes)), "round {number}");
    }
    adversary::remove_target(ground, &name);
    planted
}

fn race(scene: &Scene, each: u64, round: u64, chance: &mut Chance) -> Score {
    let (ground, logs) = (Ground::new(&place()), tempfile::tempdir_in(place()).unwrap());
    let tasks = (0..SAVERS).map(|saver| {
        let first = round * ROUND;
        task("storm", &ground, &logs, saver, first, each, chance)
    });
    let mut savers: Vec<Saver> = tasks.map(Saver::start).collect();
    let [moving, playing, reading] = [chance.next(), chance.next(), chance.next()];
    let (stop, most) = (
        AtomicBool::new(false),
        Duration::from_secs(120) + Duration::from_millis(100) * u32::try_from(each).unwrap(),
    );
    let (logs, offs, loot, read) = thread::scope(|scope| {
        let _stops = StopAtEnd(&stop);
        let (ground, stop) = (&ground, &stop);
        let mover = scope.spawn(move || adversary::move_directories(ground, scene.moves, moving, stop));
        let trickster = scope.spawn(move || Trickster::new(ground, SAVERS, playing).play(scene.tricks, stop));
        let reader = scope.spawn(move || adversary::read_targets(ground, SAVERS, reading, stop));
        for saver in &mut savers {
            saver.order("go");
        }
        let start = Instant::now();
        let logs: Vec<_> =
            savers.into_iter().map(|saver| saver.finish(most.saturating_sub(start.elapsed()))).collect();
        stop.store(true, Ordering::Relaxed);
        let offs = mover.join().unwrap();
        (logs, offs, trickster.join().unwrap(), reader.join().unwrap())
    });
    let plants = [Trick::ExchangeWithFile, Trick::Plant, Trick::ExchangeTemporaries];
    let planting = plants.iter().any(|plant| scene.tricks.contains(plant));
    let race = Race { ground: &ground, logs: &logs, offs: &offs, loot: &loot, planting };
    Score { read, ..race.judge(scene.reasons) }
}

/// A panic must not leave the adversaries running.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn task(
    work: &'static str,
    ground: &Ground,
    logs: &tempfile::TempDir,
    saver: u64,
    first: u64,
    count: u64,
    chance: &mut Chance,
) -> Task {
    let seed = chance.next();
    // Another way for each saver, and over the rounds every way for each. In every other round all can exchange names.
    let round = first / ROUND;
    let way = match WAYS[usize::try_from((saver + round / 2) % WAYS.len() as u64).unwrap()] {
        way if round % 2 == 1 && !saver::exchanges(way) => WAYS[0],
        way => way,
    };
    let log = log_path(logs.path(), saver);
    Task { work, top: ground.top().to_owned(), log, saver, first, count, seed, way }
}

fn saves() -> u64 {
    number("OUTPUTFILE_RACE_SAVES").unwrap_or(4000)
}

fn place() -> PathBuf {
    std::env::var_os("OUTPUTFILE_RACE_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

fn seed() -> u64 {
    let seed = number("OUTPUTFILE_SEED").unwrap_or_else(payload::now);
    eprintln!("OUTPUTFILE_SEED={seed} repeats the choices, in {}", text(&place()));
    seed
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}
