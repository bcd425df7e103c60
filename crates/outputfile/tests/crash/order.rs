//! What survives a power cut is a matter of order: bytes before the name, the name before success.

use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use outputfile::Call;

use crate::ordeal::{Bench, Done, Home, Plan, Scenario, World, combinations, in_parts, is_naming};

/// A call, and the directory that is synced or gets its mode by it.
type Step = (Call, Option<PathBuf>);

/// Alone in its process, because it looks which files are open.
#[test]
fn bytes_and_mode_are_durable_before_the_name_and_every_name_before_success() {
    const TEST: &str = "order::bytes_and_mode_are_durable_before_the_name_and_every_name_before_success";
    let all = [
        Scenario::New,
        Scenario::NewDirectories,
        Scenario::MissingRoot,
        Scenario::Overwrite,
        Scenario::HardLinked,
        Scenario::OwnersRoot,
        Scenario::Leftover,
    ];
    let counts = in_parts(TEST, |mine, _| {
        let bench = Bench::new(Home::in_memory());
        let mut played = 0;
        for (_, (scenario, way)) in
            combinations(&all).into_iter().enumerate().filter(|(number, _)| mine(*number))
        {
            let world = World::new(scenario, way, &bench);
            let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
            let noted = Arc::clone(&steps);
            world
                .probe
                .plan(Plan::Each(Arc::new(move |call| noted.lock().unwrap().push((call, object(call))))));
            let Ok(Done::Saved(_)) = world.run() else { panic!("{scenario:?}, {}", way.name) };
            let before_success = steps.lock().unwrap().len();
            let asked = world.probe.stop();
            let steps = steps.lock().unwrap();
            assert_eq!(steps.len(), before_success, "nothing is done after success was told");
            let codes: Vec<Option<i32>> = asked.iter().map(|asked| asked.code).collect();
            judge(&world, &steps, &codes);
            played += 1;
        }
        [played]
    });
    if let Some([played]) = counts {
        crate::common::tell("crash", "orders of calls", played);
    }
}

fn judge(world: &World, steps: &[Step], codes: &[Option<i32>]) {
    let what = format!(
        "{:?}, {}: {:?}",
        world.scenario,
        world.way.name,
        steps.iter().map(|step| step.0).collect::<Vec<_>>()
    );
    let made = |wanted: &dyn Fn(Call) -> bool| -> Vec<usize> {
        let hit = |at: &usize| codes[*at].is_none() && wanted(steps[*at].0);
        (0..steps.len()).filter(hit).collect()
    };
    let last = |calls: &[usize]| *calls.last().unwrap_or_else(|| panic!("{what}: a call is missing"));
    let published = last(&made(&is_naming));
    let written = last(&made(&|call| call == Call::Write));
    let synced = last(&made(&|call| call == Call::SyncFile));
    let file_mode = made(&|call| call == Call::SetMode)
        .into_iter()
        .rfind(|at| steps[*at].1.as_deref().is_none_or(|path| !path.is_dir()));
    assert!(written < synced && synced < published, "{what}: bytes before the name");
    assert!(file_mode.is_some_and(|at| at < synced), "{what}: the mode before the sync");
    let directories: Vec<PathBuf> = made(&|call| call == Call::SyncDirectory)
        .into_iter()
        .map(|at| {
            assert!(at > published, "{what}: a directory is synced after the name");
            steps[at].1.clone().expect("a directory that is open for reading")
        })
        .collect();
    // The directory of the file, and the one above each that was made.
    let parent = world.place.parent().unwrap();
    let mut wanted = vec![parent.to_path_buf()];
    let count = made(&|call| call == Call::MakeDirectory).len();
    wanted.extend(parent.ancestors().skip(1).take(count).map(Path::to_path_buf));
    assert_eq!(directories, wanted, "{what}: every name that was made is durable");
}

/// The directory that is about to be synced, or to get its mode: the only one that is open for reading, and not just to
/// find names in it.
fn object(call: Call) -> Option<PathBuf> {
    if !matches!(call, Call::SyncDirectory | Call::SetMode) {
        return None;
    }
    let open = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let open: Vec<RawFd> = open.collect();
    // The one that was opened last, when a lock on the same directory is held as well.
    let mut paths = open
        .into_iter()
        .filter(|fd| is_read(*fd))
        .filter_map(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).ok());
    paths.rfind(|path| path.is_dir() && !path.starts_with("/proc"))
}

/// Opened to be read, and not with `O_PATH`.
fn is_read(fd: RawFd) -> bool {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let flags =
        info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default().trim().to_owned();
    i32::from_str_radix(&flags, 8).is_ok_and(|flags| flags & libc::O_PATH == 0)
}
