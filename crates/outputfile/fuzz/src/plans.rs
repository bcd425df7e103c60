//! Every string of bytes is a plan: it is run in a file system in memory, and a broken promise ends the fuzzer.
//!
//! `OUTPUTFILE_GROUND` names the directory to work in. With `OUTPUTFILE_SHOW` set, plans are shown before they are run.

#![cfg_attr(fuzzing, no_main)]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/plan/mod.rs"]
mod plan;

use std::path::Path;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| try_plan(bytes));

/// Runs the plans in the files that are named.
#[cfg(not(fuzzing))]
fn main() {
    for file in std::env::args_os().skip(1) {
        try_plan(&std::fs::read(file).unwrap());
    }
}

fn try_plan(bytes: &[u8]) {
    let ground =
        std::env::var_os("OUTPUTFILE_GROUND").expect("OUTPUTFILE_GROUND names a directory in memory");
    let drawn = plan::draw::plan(bytes);
    if std::env::var_os("OUTPUTFILE_SHOW").is_some() {
        eprintln!("{}", plan::shown(&drawn));
    }
    if let Err(why) = plan::run(&drawn, Path::new(&ground)) {
        panic!("{why}\n{}", plan::shown(&drawn));
    }
}
