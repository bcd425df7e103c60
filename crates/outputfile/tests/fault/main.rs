//! Each call in turn fails with each error that it can have: either a fallback was right, or nothing is changed.
//!
//! `OUTPUTFILE_LAB=full` tries all errors at all calls; else those of the calls that decide, and a sample of the rest.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod errors;
#[path = "../ordeal/mod.rs"]
mod ordeal;
mod real;
mod verdict;

use ordeal::{
    Asked, Bench, Fault, Home, Plan, Scenario, Way, World, combinations, in_parts, is_full, publishing,
};
use outputfile::Call;
use verdict::Trial;

/// What a scenario does when nothing fails.
pub struct Baseline {
    pub asked: Vec<Asked>,
    pub publishing: Option<usize>,
}

impl Baseline {
    fn of(scenario: Scenario, way: &'static Way, bench: &Bench) -> Self {
        let world = World::new(scenario, way, bench);
        world.probe.plan(Plan::Watch);
        let ended = world.run();
        let asked = world.probe.stop();
        ended.unwrap_or_else(|failed| panic!("{scenario:?}, {}: {failed:?}", way.name));
        let publishing = if scenario.saves() { publishing(&asked) } else { None };
        Self { asked, publishing }
    }
}

#[test]
fn every_call_in_turn_fails_with_every_error() {
    const TEST: &str = "every_call_in_turn_fails_with_every_error";
    let counts = in_parts(TEST, |mine, seed| {
        let (bench, mut points, mut failed) = (Bench::new(Home::in_memory()), 0, 0);

        let mut kinds = std::collections::HashSet::new();
        for (scenario, way) in combinations(&Scenario::ALL) {
            let base = Baseline::of(scenario, way, &bench);
            kinds.extend(base.asked.iter().map(|asked| asked.call));
            for (at, asked) in base.asked.iter().enumerate().filter(|(at, _)| mine(*at)) {
                // Where each save waits for the disk, a quarter of it.
                let all = is_full() || bench.is_quick();
                let drawn = drawn(asked.call, at.wrapping_mul(31) + seed).into_iter().enumerate();
                let drawn = drawn.filter(|(number, _)| all || (number + at + seed).is_multiple_of(4));
                for (_, (code, again)) in drawn {
                    let faults = vec![Fault { at, code, again }];
                    failed += u64::from(!Trial::new(scenario, way, &base, faults, &bench).judge());
                    points += 1;
                }
            }
        }
        if common::strategy().is_none() {
            let untried: Vec<Call> =
                errors::TABLE.iter().map(|(call, _)| *call).filter(|call| !kinds.contains(call)).collect();
            // Only a failure leads to its clean-up: the second test fails that.
            let known = !common::is_root() || untried.is_empty() || untried == [Call::RemoveDirectory];
            assert!(known, "never called: {untried:?}");
        }
        [points, failed]
    });
    if let Some([points, failed]) = counts {
        assert!(points > 1000 && failed > 500, "{failed} of {points} failed");
        common::tell("faults", "points", points);
    }
}

/// What cleans up after a failure may fail as well.
#[test]
fn a_second_failure_while_the_first_is_cleaned_up_hides_nothing() {
    const TEST: &str = "a_second_failure_while_the_first_is_cleaned_up_hides_nothing";
    let counts = in_parts(TEST, |mine, seed| {
        let (bench, mut points) = (Bench::new(Home::in_memory()), 0);

        for (scenario, way) in
            combinations(&Scenario::ALL).into_iter().filter(|(scenario, _)| scenario.saves())
        {
            let base = Baseline::of(scenario, way, &bench);
            for first in triggers(&base) {
                let world = World::new(scenario, way, &bench);
                world.probe.plan(Plan::Fail(vec![first]));
                let _ = world.run();
                let asked = world.probe.stop();
                drop(world);
                for (at, asked) in asked.iter().enumerate().skip(first.at + 1).filter(|(at, _)| mine(*at)) {
                    let codes: Vec<i32> =
                        errors::of(asked.call).iter().copied().filter(|code| is_honest(*code)).collect();
                    let codes = if is_full() || codes.is_empty() {
                        codes
                    } else {
                        vec![codes[(at + seed) % codes.len()]]
                    };
                    for (code, again) in codes.iter().flat_map(|code| [(*code, false), (*code, true)]) {
                        let faults = vec![first, Fault { at, code, again }];
                        Trial::new(scenario, way, &base, faults, &bench).judge();
                        points += 1;
                    }
                }
            }
        }
        [points]
    });
    if let Some([points]) = counts {
        assert!(points > 100, "{points}");
        common::tell("faults", "points of a second failure", points);
    }
}

/// Errors that say what is not so would need a liar of a file system to undo what was done.
fn is_honest(code: i32) -> bool {
    ![libc::ENOENT, libc::EEXIST, libc::EAGAIN, libc::ENOSYS, libc::EINVAL, libc::EOPNOTSUPP].contains(&code)
}

/// First failures that leave something to clean up: of a write, of the sync, of the publishing, and just after it.
fn triggers(base: &Baseline) -> Vec<Fault> {
    let find = |call| base.asked.iter().position(|asked| asked.call == call);
    let published = base.publishing.unwrap();
    let after = |call| {
        base.asked.iter().skip(published).position(|asked| asked.call == call).map(|at| at + published)
    };
    let all = [
        (find(Call::Write), libc::ENOSPC),
        (find(Call::SyncFile), libc::EIO),
        (Some(published), libc::EIO),
        (after(Call::OpenTop), libc::EMFILE),
        (after(Call::Stat), libc::EIO),
    ];
    all.into_iter().filter_map(|(at, code)| Some(Fault { at: at?, code, again: false })).collect()
}

/// The errors that are tried at a call, each once and again and again.
fn drawn(call: Call, draw: usize) -> Vec<(i32, bool)> {
    let codes = errors::of(call);
    let all = codes.iter().flat_map(|code| [(*code, false), (*code, true)]);
    if is_full() {
        return all.collect();
    }
    if decides(call) {
        // A turn that never comes is waited for.
        let waits = |fault: &(i32, bool)| call == Call::LockTurn && *fault == (libc::EAGAIN, true);
        // Each error once, and a third of them again and again.
        let most =
            all.enumerate().filter(|(number, _)| number % 2 == 0 || (number / 2 + draw).is_multiple_of(3));
        return most.map(|(_, fault)| fault).filter(|fault| !waits(fault)).collect();
    }
    // A quarter of the rest.
    let again = draw.is_multiple_of(8);
    if draw.is_multiple_of(4) { vec![(codes[draw / 4 % codes.len()], again)] } else { Vec::new() }
}

fn decides(call: Call) -> bool {
    use Call::{
        LockTurn, MakeDirectory, OpenForSync, OpenNamed, OpenNameless, Random, SetMode, SyncDirectory,
        SyncFile, Unlink, Write,
    };
    ordeal::is_naming(call)
        || matches!(
            call,
            LockTurn
                | MakeDirectory
                | OpenForSync
                | OpenNamed
                | OpenNameless
                | Random
                | SetMode
                | SyncDirectory
                | SyncFile
                | Unlink
                | Write
        )
}
