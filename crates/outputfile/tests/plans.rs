//! Random plans of file system operations and saves keep to the model, and so do those that once did not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    missing_docs
)]

mod common;
mod plan;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plan::draw::{At, Fs, Into, Lay, Plan, RootAs, Step, Swap, Trap, Way};
use plan::{Tally, draw, run, shown};

/// Plans that are run by default, and the time after which no further one is begun.
const PLANS: u64 = 1_500;
const ENOUGH: Duration = Duration::from_secs(4);
/// Bytes of one plan.
const LONGEST: u64 = 240;

/// A file system in memory where there is one: its mount, if one had to be made, and a directory in it.
struct Ground {
    dir: PathBuf,
    _mount: Option<common::Mount>,
    _place: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        if let Ok(place) = tempfile::tempdir_in("/dev/shm") {
            return Self { dir: place.path().to_path_buf(), _mount: None, _place: place };
        }
        let place = tempfile::tempdir().unwrap();
        let mount = common::is_root().then(|| common::Mount::tmpfs(place.path(), "mode=0755")).flatten();
        Self { dir: place.path().to_path_buf(), _mount: mount, _place: place }
    }
}

/// Vigna's xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.next() % most;
        (0..length).map(|_| self.next() as u8).collect()
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// A save into a directory, with or without a file to replace, and with something done before one of its calls.
fn interrupted(random: &mut Random) -> Plan {
    const TARGET: At = At("root/a/a");
    let mut pick = |end: u64| random.next() % end;
    let root = [RootAs::Directory, RootAs::Directory, RootAs::Linked][pick(3) as usize];
    let way = [Way::Nameless, Way::Rename, Way::Link, Way::Portable][pick(4) as usize];
    let (there, is_made, overwrite) = (pick(2) == 1, pick(4) > 0, pick(3) > 0);
    let deeds = [
        Fs::Turn(TARGET, [Into::Directory, Into::LinkOutside, Into::Pipe, Into::File][pick(4) as usize]),
        Fs::Unlink(TARGET),
        Fs::Exchange(TARGET, At("root/b")),
        Fs::Rename(TARGET, At("root/b/b")),
        Fs::HardLink(At("out/a"), TARGET),
        Fs::Rename(At("root/a"), At("out/b")),
        Fs::Exchange(At("root/a"), At("root/c")),
        Fs::Exchange(At("root/a"), At("out")),
        Fs::RemoveDirectory(At("root/a")),
        Fs::Exchange(At("root"), At("spare")),
        Fs::SwapRoot(
            [Swap::LinkToItself, Swap::LinkOutside, Swap::Directory, Swap::Nothing][pick(4) as usize],
        ),
        Fs::Rival(TARGET, pick(2) == 1),
        Fs::Rival(At("root/a/b"), false),
        Fs::Leftover(At("root/a")),
        Fs::Mode(At("root/a"), 0o777),
    ];
    let mut deed = || deeds[pick(deeds.len() as u64) as usize];
    let (first, second) = (deed(), deed());
    let trap = Trap(None, pick(70) as u8, vec![first]);
    let mut traps = [vec![], vec![], vec![]];
    traps[[0, 1, 1, 2, 2, 2, 2, 2][pick(8) as usize]].push(trap);
    let [check, begin, publish] = traps;
    let mut steps = vec![
        Step::Do(Fs::MakeDirectory(At("root/b"))),
        Step::Do(Fs::Link(At("root/c"), At("out"))),
        Step::Do(Fs::MakeDirectory(At("spare/a"))),
    ];
    steps.extend((is_made || there).then_some(Step::Do(Fs::MakeDirectory(At("root/a")))));
    steps.extend(there.then_some(Step::Do(Fs::Write(TARGET, 33))));
    steps.extend([
        Step::Preflight(0, TARGET, overwrite, check),
        Step::Begin(0, begin),
        Step::Put(0, 20, vec![]),
    ]);
    steps.extend((pick(4) == 0).then_some(Step::Do(second)));
    steps.extend([
        Step::Commit(0, publish),
        Step::Preflight(1, At("root/a/b"), true, vec![]),
        Step::Begin(1, vec![]),
        Step::Commit(1, vec![]),
        Step::Reopen(0),
        Step::Remove(0),
    ]);
    Plan { lay: Lay { root, two: pick(4) == 0, way }, steps }
}

/// The plans of an ordinary run: the same each time, so that it says something of the change that was made. Other ones are
/// drawn when a number of plans is asked for, and by the fuzzer.
const SEED: u64 = 76;

/// Runs plans until there were as many as are wanted, or enough time is gone.
fn run_all(most: u64, mut next: impl FnMut(&mut Random) -> Plan) -> Tally {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let wanted = number("OUTPUTFILE_PLANS");
    let new = if wanted.is_some() { now.as_nanos() as u64 } else { SEED };
    let seed = number("OUTPUTFILE_SEED").unwrap_or(new);
    eprintln!("OUTPUTFILE_SEED={seed}");
    let (ground, clock) = (Ground::new(), Instant::now());
    let mut random = Random(seed | 1);
    let mut tally = Tally::default();
    for plan in 0..wanted.unwrap_or(most) {
        if wanted.is_none() && clock.elapsed() > ENOUGH {
            break;
        }
        let drawn = next(&mut random);
        let done = std::panic::catch_unwind(|| run(&drawn, &ground.dir));
        match done.unwrap_or_else(|_| Err(String::from("a panic"))) {
            Ok(one) => tally.add(one),
            Err(why) => panic!("plan {plan} of OUTPUTFILE_SEED={seed}: {why}\n{}", shown(&drawn)),
        }
    }
    tally
}

fn tell(what: &str, tally: Tally) {
    common::tell("fuzz", what, tally.plans);
    common::tell("fuzz", &format!("{what}: steps"), tally.steps);
    common::tell("fuzz", &format!("{what}: files saved"), tally.saved);
    common::tell("fuzz", &format!("{what}: steps refused or failed"), tally.refused);
    common::tell("fuzz", &format!("{what}: outcomes foretold by the model"), tally.foretold);
    common::tell("fuzz", &format!("{what}: interruptions between two system calls"), tally.interruptions);
}

#[test]
fn random_plans_keep_to_the_model() {
    let tally = run_all(PLANS, |random| draw::plan(&random.bytes(LONGEST)));
    assert!(tally.saved > tally.plans / 10, "the plans save something: {tally:?}");
    assert!(tally.foretold > tally.plans, "the model knows what must come: {tally:?}");
    tell("random plans", tally);
}

#[test]
fn interrupted_saves_keep_to_the_model() {
    let tally = run_all(PLANS, interrupted);
    assert!(tally.saved > tally.plans, "every plan saves something: {tally:?}");
    assert!(tally.interruptions > tally.plans / 4, "the saves are interrupted: {tally:?}");
    tell("interrupted saves", tally);
}

/// Names are exchanged and exchanged back while others replace the file again and again: the newest file keeps its name.
#[test]
fn a_file_that_came_last_is_never_lost_by_an_exchange() {
    const TARGET: At = At("root/a");
    let ground = Ground::new();
    let lasts = [Fs::Turn(TARGET, Into::File), Fs::Rival(TARGET, true), Fs::Unlink(TARGET)];
    for (later, way, last) in (30..62).flat_map(|later| {
        [Way::Nameless, Way::Rename].into_iter().flat_map(move |way| lasts.map(|last| (later, way, last)))
    }) {
        let traps = vec![
            Trap(Some(outputfile::Call::Exchange), 2, vec![last]),
            Trap(None, later, vec![Fs::Rival(TARGET, true)]),
        ];
        let steps = vec![
            Step::Do(Fs::Write(TARGET, 33)),
            Step::Preflight(0, TARGET, true, vec![]),
            Step::Begin(0, vec![]),
            Step::Put(0, 20, vec![]),
            Step::Commit(0, traps),
        ];
        let plan = Plan { lay: Lay { root: RootAs::Directory, two: false, way }, steps };
        run(&plan, &ground.dir).unwrap_or_else(|why| panic!("{why}\n{}", shown(&plan)));
    }
}
