//! Planted links: at every level of a deep path, of every kind, before the save and while it runs.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use outputfile::{Call, Reason};

use crate::common::{Lab, NAMING, is_root, make, once_of, open, skip, text};
use crate::{Count, Memory, NOBODY, STEPS, Settings, Step, Watch, assert_stopped, attempt, give_link, plain, separate};

/// Directories above the file.
const DEPTH: usize = 10;

/// The directory of a level, where level 0 lies directly in the root.
fn level(root: &Path, level: usize) -> PathBuf {
    (0..=level).fold(root.to_path_buf(), |path, number| path.join(format!("d{number}")))
}

fn deep_path(lab: &Lab) -> String {
    format!("{}/file", text(&level(&lab.root, DEPTH - 1)))
}

/// A laboratory with links beside the root, and outside it all directories that a followed link would need.
struct Planted {
    lab: Lab,
    outside: fs::File,
}

impl Planted {
    fn new(lab: Lab) -> Self {
        let helpers = lab.path("helpers");
        make(&helpers, 0o700);
        let link = |to: &str, name: &str| symlink(to, helpers.join(name)).unwrap();
        link(text(&lab.outside), "three");
        link("three", "two");
        link(text(&helpers.join("two")), "one");
        link("b", "a");
        link("a", "b");
        link("self", "self");
        link(text(&lab.outside), "n0");
        for number in 1..60 {
            link(&format!("n{}", number - 1), &format!("n{number}"));
        }
        for level in 1..DEPTH {
            fs::create_dir_all((level..DEPTH).fold(lab.outside.clone(), |at, next| at.join(format!("d{next}"))))
                .unwrap();
        }
        let outside = fs::File::open(&lab.outside).unwrap();
        Self { lab, outside }
    }

    /// Where a link at this level leads that nothing may be saved through.
    fn targets(&self, level: usize) -> Vec<(&'static str, String)> {
        let (outside, helpers) = (text(&self.lab.outside), self.lab.path("helpers"));
        let helper = |name: &str| text(&helpers.join(name)).to_owned();
        let fd = self.outside.as_raw_fd();
        vec![
            ("absolute", outside.to_owned()),
            ("relative", format!("{}outside", "../".repeat(level + 1))),
            ("winding", format!("{}./root/..//outside/./", "../".repeat(level + 1))),
            ("above the top", format!("{}{outside}", "../".repeat(40))),
            ("a chain of three", helper("one")),
            ("a chain of 40", helper("n39")),
            ("a chain of 60", helper("n59")),
            ("a loop", helper("a")),
            ("itself", helper("self")),
            ("/proc/self/root", format!("/proc/self/root{outside}")),
            ("/proc/thread-self/root", format!("/proc/thread-self/root{outside}")),
            ("/proc/1/root", format!("/proc/1/root{outside}")),
            ("/proc/self/cwd", format!("/proc/self/cwd/{}{outside}", "../".repeat(40))),
            ("/proc/self/fd", format!("/proc/self/fd/{fd}")),
            ("/dev/fd", format!("/dev/fd/{fd}")),
            ("the file system", String::from("/")),
            ("above the root", "../".repeat(level + 1)),
            ("a file outside", format!("{outside}/victim")),
            ("nothing outside", format!("{outside}/nothing")),
            ("nothing inside", String::from("nothing")),
            ("a device", String::from("/dev/null")),
            ("the root of another", format!("{}-evil", text(&self.lab.root))),
        ]
    }
}

#[test]
fn a_link_at_any_level_of_a_deep_path_leads_nowhere() {
    let planted = Planted::new(Lab::new());
    let lab = &planted.lab;
    let watch = Watch::over(lab);
    let roots = lab.roots();
    let mut count = Count::default();
    for at in 0..DEPTH {
        let place = level(&lab.root, at);
        for (kind, to) in planted.targets(at) {
            symlink(&to, &place).unwrap();
            for overwrite in [false, true] {
                let what = format!("{kind} at level {at}, overwrite {overwrite}");
                let result = plain(&roots, &deep_path(lab), overwrite);
                watch.check(&result, &what);
                assert_stopped(&result, &[Reason::Outside, Reason::Io, Reason::TargetKind], &what);
                count.one();
            }
            assert_eq!(fs::read_link(&place).unwrap(), Path::new(&to), "the link is still there");
            fs::remove_file(&place).unwrap();
        }
        make(&place, 0o700);
    }
    // Without a link all of that way is good.
    watch.check(&Ok(plain(&roots, &deep_path(lab), false).unwrap()), "no link");
    count.tell("links planted on the way", 440);
}

#[test]
fn a_link_as_the_last_component_is_never_followed_and_never_replaced() {
    let planted = Planted::new(Lab::new());
    let lab = &planted.lab;
    let watch = Watch::over(lab);
    let mut count = Count::default();
    let mut below = lab.root.clone();
    for at in 0..DEPTH {
        for (kind, to) in planted.targets(at) {
            let place = below.join("file");
            symlink(&to, &place).unwrap();
            for overwrite in [false, true] {
                let what = format!("{kind} as the file in level {at}, overwrite {overwrite}");
                let result = plain(&lab.roots(), text(&place), overwrite);
                watch.check(&result, &what);
                assert_stopped(&result, &[Reason::TargetKind], &what);
                count.one();
            }
            assert_eq!(fs::read_link(&place).unwrap(), Path::new(&to), "the link is still there");
            fs::remove_file(&place).unwrap();
        }
        below = below.join(format!("d{at}"));
        make(&below, 0o700);
    }
    count.tell("links planted in place of the file", 440);
}

#[test]
fn a_link_that_stays_inside_is_resolved_and_one_of_another_user_is_not_followed() {
    let planted = Planted::new(Lab::new());
    let lab = &planted.lab;
    let watch = Watch::over(lab);
    let mut count = Count::default();
    let real = lab.root.join("real");
    fs::create_dir_all(&real).unwrap();
    for at in 0..DEPTH {
        let place = level(&lab.root, at);
        let kinds = [
            ("absolute", text(&real).to_owned()),
            ("relative", format!("{}real", "../".repeat(at))),
            ("out and in", format!("{}root/real", "../".repeat(at + 1))),
            ("/proc/self/root", format!("/proc/self/root{}", text(&real))),
        ];
        for (kind, to) in kinds {
            symlink(&to, &place).unwrap();
            let what = format!("inside, {kind} at level {at}");
            let result = plain(&lab.roots(), &deep_path(lab), false);
            watch.check(&result, &what);
            let rest = (at + 1..DEPTH).fold(real.clone(), |path, number| path.join(format!("d{number}")));
            assert_eq!(result.expect(&what).path, rest.join("file"), "the real path is told");
            count.one();
            if is_root() {
                give_link(&place, NOBODY);
                let result = plain(&lab.roots(), &deep_path(lab), true);
                assert_stopped(&result, &[Reason::RootUntrusted], &format!("of another user, {what}"));
                count.one();
            }
            fs::remove_file(&place).unwrap();
            fs::remove_dir_all(&real).unwrap();
            make(&real, 0o700);
        }
        make(&place, 0o700);
    }
    if !is_root() {
        skip("links of another user need root");
    }
    count.tell("links that stay inside, ours and another user's", 40);
}

#[test]
fn a_directory_that_becomes_a_link_while_the_save_runs_leads_nowhere() {
    const LATE: [&[Call]; 6] =
        [&[Call::StatFs], &[Call::List], &[Call::OpenNameless], &[Call::Write], &[Call::SyncFile], &NAMING];
    let (mut count, memory) = (Count::default(), Memory::new());
    for at in 0..DEPTH {
        for kind in ["absolute", "relative", "/proc/self/root", "a loop", "where it went"] {
            for moment in 0..STEPS.len() - 1 + LATE.len() {
                let planted = Planted::new(memory.lab());
                let lab = &planted.lab;
                fs::create_dir_all(level(&lab.root, DEPTH - 1)).unwrap();
                let watch = Watch::over(lab);
                let (place, gone) = (level(&lab.root, at), lab.path("gone"));
                let to = match kind {
                    "where it went" => text(&gone).to_owned(),
                    kind => planted.targets(at).into_iter().find(|(name, _)| *name == kind).unwrap().1,
                };
                let swap = move || {
                    fs::rename(&place, &gone).unwrap();
                    symlink(&to, &place).unwrap();
                };
                let step = STEPS.get(moment + 1).copied();
                let late = LATE.get((moment + 1).wrapping_sub(STEPS.len())).copied();
                let what = format!("level {at} became a link, {kind}, at {step:?} {late:?}");
                let result = match late {
                    Some(calls) => plain(&lab.hooked(once_of(calls, swap)), &deep_path(lab), false),
                    None => attempt(&lab.roots(), &deep_path(lab), false, |now| {
                        if Some(now) == step {
                            swap();
                        }
                    }),
                };
                watch.check(&result, &what);
                let reasons = [Reason::RootMoved, Reason::Outside, Reason::Io];
                assert_stopped(&result, &reasons, &what);
                count.one();
            }
        }
    }
    count.tell("directories that become links while the save runs", 500);
}

#[test]
fn a_link_on_the_way_to_the_root_is_remembered_and_another_one_is_refused() {
    let (mut count, memory) = (Count::default(), Memory::new());
    for step in STEPS {
        for kind in ["to outside", "to outside by another link", "away and back", "another text to the same root"] {
            let lab = memory.lab();
            make(&lab.outside.join("out"), 0o700);
            make(&lab.root.join("out"), 0o700);
            let watch = Watch::over(&lab);
            let way = lab.path("way");
            symlink("root", &way).unwrap();
            let roots = open(Settings { roots: vec![way.join("out")], ..separate(&lab) });
            let to = match kind {
                "to outside" => text(&lab.outside).to_owned(),
                "to outside by another link" => {
                    symlink(&lab.outside, lab.path("second")).unwrap();
                    String::from("second")
                }
                "away and back" => String::from("outside/../root"),
                _ => text(&lab.root).to_owned(),
            };
            let plant = |now: Step| {
                if now == step {
                    fs::remove_file(&way).unwrap();
                    symlink(&to, &way).unwrap();
                }
            };
            let what = format!("{kind}, before {step:?}");
            let result = attempt(&roots, text(&way.join("out/x")), false, plant);
            watch.check(&result, &what);
            // While it is written only where the way ends counts.
            let same = kind.contains("back") || kind.contains("same");
            let late = !matches!(step, Step::Preflight | Step::Begin);
            match &result {
                Ok(_) => assert!(same && late, "{what}"),
                Err(error) => assert_eq!(error.reason(), Reason::RootMoved, "{what}: {error}"),
            }
            count.one();
        }
    }
    count.tell("links on the way to a root that change", 20);
}
