//! The process is killed before each call in turn, the power is cut there, and calls come in the order that survives it.
//!
//! `OUTPUTFILE_LAB=full` does all of it also on the disk; else in memory, with a sample of the kills before anything
//! is changed, and of the power cuts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../ordeal/mod.rs"]
mod ordeal;
mod order;
mod power;

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use ordeal::{
    Asked, Bench, Home, OLD, Plan, Scenario, World, combinations, in_parts, is_full, is_naming, publishing,
};
use outputfile::{Call, NoLedger, Roots};
use rustix::process::{Signal, WaitOptions, kill_process};

const SCENARIOS: [Scenario; 9] = [
    Scenario::New,
    Scenario::NewDirectories,
    Scenario::MissingRoot,
    Scenario::Overwrite,
    Scenario::HardLinked,
    Scenario::OwnersRoot,
    Scenario::Leftover,
    Scenario::GivenUp,
    Scenario::Removal,
];

#[test]
fn a_kill_before_any_call_leaves_the_old_file_or_the_new_one() {
    const TEST: &str = "a_kill_before_any_call_leaves_the_old_file_or_the_new_one";
    let counts = in_parts(TEST, |mine, seed| {
        let mut points = 0;
        let homes: &[fn() -> Home] =
            if is_full() { &[Home::in_memory, Home::on_disk] } else { &[Home::in_memory] };
        for home in homes {
            let bench = Bench::new(home());
            for (scenario, way) in combinations(&SCENARIOS) {
                let world = World::new(scenario, way, &bench);
                world.probe.plan(Plan::Watch);
                world.run().unwrap();
                let asked = world.probe.stop();
                bench.take_back(world, &asked);
                // Before anything is changed there is little to see: a quarter of it will do.
                let changed = asked.iter().position(|asked| changes(asked.call)).unwrap_or(0);
                let drawn = |at: &usize| is_full() || *at >= changed || (at + seed).is_multiple_of(4);
                for at in (0..=asked.len()).filter(|at| mine(*at) && drawn(at)) {
                    let world = World::new(scenario, way, &bench);
                    killed(&world, at);
                    judge(&world, &asked, at);
                    bench.take_back(world, &asked);
                    points += 1;
                }
            }
        }
        [points]
    });
    if let Some([points]) = counts {
        assert!(points > 500, "{points}");
        common::tell("crash", "points", points);
    }
}

/// Only what a killed writer left is swept, and not what a living one writes.
#[test]
fn a_save_beside_a_living_writer_leaves_its_temporary_alone() {
    let bench = Bench::new(Home::in_memory());
    for (scenario, way) in combinations(&[Scenario::New, Scenario::Overwrite]) {
        let world = World::new(scenario, way, &bench);
        let target = world.roots.preflight(&world.target, scenario.has_old(), &NoLedger).unwrap();
        let mut writer = world.roots.begin(target).unwrap();
        writer.put(OLD).unwrap();
        let beside = format!("{}/beside", world.target.rsplit_once('/').unwrap().0);
        common::save(&world.others(), &beside, false, b"beside").unwrap();
        let what = format!("{scenario:?}, {}", way.name);
        let saved = writer.commit().unwrap_or_else(|error| panic!("{what}: {error}"));
        common::assert_saved(&saved, OLD);
    }
}

fn changes(call: Call) -> bool {
    is_naming(call)
        || matches!(call, Call::MakeDirectory | Call::OpenNamed | Call::OpenNameless | Call::Unlink)
}

/// Plays a scenario in a process that is killed before the call of this number, or after all of them.
fn killed(world: &World, at: usize) {
    // SAFETY: the child goes on with this thread alone. It calls what is being tested and is killed, or ends at once;
    // the only other thread of a part waits for this one, and holds nothing that the child needs.
    #[allow(unsafe_code)]
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process");
    if child == 0 {
        let end = || {
            let _ = kill_process(rustix::process::getpid(), Signal::KILL);
        };
        world.probe.plan(Plan::At(at, Arc::new(move |_| end())));
        let _ = std::panic::catch_unwind(AssertUnwindSafe(|| world.run()));
        end();
        // SAFETY: ends this process without anything of the first one being cleaned up.
        #[allow(unsafe_code)]
        unsafe {
            libc::_exit(1)
        }
    }
    let status = rustix::process::waitpid(rustix::process::Pid::from_raw(child), WaitOptions::empty());
    let (_, status) = status.unwrap().unwrap();
    assert_eq!(status.terminating_signal(), Some(libc::SIGKILL), "{at}: {status:?}");
}

fn judge(world: &World, asked: &[Asked], at: usize) {
    let what =
        format!("{:?}, {}, killed before call {at} ({:?})", world.scenario, world.way.name, asked.get(at));
    let what = what.as_str();
    // The last call that changes a name is the one that decides: before it all is old, after it all is new.
    let decides = |asked: &[Asked]| match world.scenario {
        // Renamed away first, where that spares another file.
        Scenario::Removal => {
            let takes =
                |asked: &Asked| asked.code.is_none() && matches!(asked.call, Call::RenameNew | Call::Unlink);
            asked.iter().position(takes)
        }
        Scenario::GivenUp => None,
        _ => publishing(asked),
    };
    let done = decides(asked).is_some_and(|published| at > published);
    match (world.scenario, done) {
        (Scenario::Removal, true) => assert_eq!(world.there(), None, "{what}"),
        (_, true) => world.assert_whole(what),
        (_, false) => assert!(world.is_unchanged(), "{what}: {:?}", world.there().map(|bytes| bytes.len())),
    }
    world.assert_second_name(what);
    let (left, others) = world.extras(what);
    assert!(world.are_made(&others), "{what}: left {others:?}");
    judge_temporaries(world, asked, at, &left, what);
    let others = world.others();
    next_save_sweeps(world, &others, what);
    if world.scenario == Scenario::Removal {
        fs::write(&world.place, OLD).unwrap();
    }
    world.assert_works(&others, what);
    world.assert_second_name(what);
}

/// Nothing is left while the file has no name. A named one is left from the call that made it to the one that took its
/// name away; it is ours alone until its mode is set, and nobody holds its lock any more.
fn judge_temporaries(world: &World, asked: &[Asked], at: usize, left: &[PathBuf], what: &str) {
    let names = |asked: &&Asked| {
        let named = asked.call == Call::OpenNamed || (is_naming(asked.call) && world.scenario.has_old());
        asked.code.is_none() && named
    };
    // A file that is removed is renamed first.
    let first = asked.iter().position(|asked| names(&asked)).unwrap_or(usize::MAX);
    let last = asked
        .iter()
        .rposition(|asked| asked.code.is_none() && (is_naming(asked.call) || asked.call == Call::Unlink))
        .unwrap_or(0);
    let planted = usize::from(world.scenario == Scenario::Leftover);
    let window = (first < at && at <= last) || planted > 0;
    assert!(left.is_empty() || window, "{what}: left {left:?}");
    // An exchange through links has a second name of the old file for a moment as well.
    assert!(left.len() <= 2 + planted, "{what}: left {left:?}");
    if world.way.is_nameless() && !world.scenario.has_old() && planted == 0 {
        assert!(left.is_empty(), "{what}: where files have no name nothing is left, not {left:?}");
    }
    for path in left {
        let old = fs::read(path).unwrap() == OLD;
        let mode = common::mode(path);
        assert!(old || planted > 0 || [0o600, 0o640].contains(&mode), "{what}: mode {mode:o}");
        fs::File::open(path).unwrap().try_lock().unwrap_or_else(|error| panic!("{what}: its lock: {error}"));
    }
}

/// The next save into the directory, of whatever name, removes what a killed one left.
fn next_save_sweeps(world: &World, others: &Roots, what: &str) {
    let Some(parent) = world.place.parent().filter(|parent| parent.is_dir()) else { return };
    let beside = format!("{}/beside", world.target.rsplit_once('/').unwrap().0);
    let saved =
        common::save(others, &beside, false, b"beside").unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(common::temporaries(parent), Vec::<String>::new(), "{what}: the next save sweeps");
    fs::remove_file(saved.path).unwrap();
}
