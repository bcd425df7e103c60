//! Which roots may be configured, and which may be used at a call.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use common::{Lab, Mount, assert_refused, is_root, make, mode, open, save, saved, skip, text};
use outputfile::{Call, Hook, Ledger, NoLedger, Reason, RootProblem, Roots, Settings};

const NOBODY: u32 = 65534;

fn problems(settings: Settings) -> Vec<RootProblem> {
    Roots::open(settings).expect_err("the settings are refused")
}

fn roots_of(roots: &[&str]) -> Settings {
    Settings { roots: roots.iter().map(PathBuf::from).collect(), ..Settings::default() }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
}

#[test]
fn what_no_root_may_be_is_a_load_error_that_names_the_entry() {
    let bad = [
        "",
        "relative",
        "./x",
        "~/out",
        "/",
        "//",
        "/.",
        "/tmp/../tmp/x",
        "/tmp/x/..",
        "/tmp/a\u{1b}b",
        "/tmp/a\nb",
        "/tmp/a\u{202e}b",
        "/dev",
        "/dev/shm",
        "/dev/shm/out",
        "/proc/self",
        "/sys/x",
        "/etc",
        "/etc/mcpproxy/out",
        "/boot/out",
        "/home",
        "/home/somebody",
        "/Users/somebody",
        "/Users",
        "/root",
        "/var",
        "/var/www",
        "/usr/sbin",
    ];
    for path in bad {
        let problems = problems(roots_of(&["/tmp/good", path]));
        assert_eq!(problems.len(), 1, "{path}: {problems:?}");
        assert_eq!((problems[0].index, problems[0].key), (1, "tool_output_roots"), "{path}");
        let line = problems[0].to_string();
        assert!(!line.contains(['\n', '\u{1b}', '\u{202e}']) && !problems[0].remedy.is_empty(), "{line:?}");
    }
    for path in [
        "/home/somebody/out",
        "/Users/somebody/out",
        "/root/out",
        "/tmp/etc",
        "/var/www/out",
        "/devices",
        "/srv",
    ] {
        open(roots_of(&[path]));
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let settings = Settings {
        trusted_directories: vec![PathBuf::from("relative"), PathBuf::from("/a/../b")],
        trusted_owners: vec![
            String::from("root"),
            String::from("no-such-user-here"),
            String::from("4294967297"),
        ],
        file_mode: 0o666,
        ..roots_of(&["relative", "/tmp/a", "/tmp/a/b"])
    };
    let problems = problems(settings);
    let told: Vec<(&str, usize)> = problems.iter().map(|problem| (problem.key, problem.index)).collect();
    assert_eq!(
        told,
        [
            ("tool_output_roots", 0),
            ("tool_output_roots", 2),
            ("tool_output_file_mode", 0),
            ("tool_output_trusted_directories", 0),
            ("tool_output_trusted_directories", 1),
            ("tool_output_trusted_owners", 1),
            ("tool_output_trusted_owners", 2),
        ]
    );
}

#[test]
fn nested_and_equal_roots_are_a_load_error_that_names_both() {
    for pair in [
        ["/tmp/t/root", "/tmp/t/root/sub"],
        ["/tmp/t/root", "/tmp/t/root/"],
        ["/tmp/t/root/a/b", "/tmp/t/root"],
    ] {
        let line = problems(roots_of(&pair))[0].to_string();
        assert!(line.contains("tool_output_roots[1]") && line.contains("tool_output_roots[0]"), "{line}");
    }
    assert!(!problems(roots_of(&["/tmp/t/root", "/tmp/t/x/../root"])).is_empty());
    open(roots_of(&["/tmp/t/root", "/tmp/t/root-evil"]));
    // On Linux these are plainly different.
    open(roots_of(&[
        "/v/stra\u{df}e",
        "/v/STRASSE",
        "/v/\u{130}x",
        "/v/i\u{307}x",
        "/v/\u{fb01}",
        "/v/fi",
        "/v/Fi",
    ]));
}

#[test]
fn our_own_directories_are_no_place_for_roots_and_a_sibling_is_offered() {
    let own = |root: &str| Settings {
        config_dir: Some("/srv/u/.mcpproxy".into()),
        data_dir: Some("/srv/u/.mcpproxy/data".into()),
        log_dir: Some("/srv/logs/mcpproxy".into()),
        own_paths: vec!["/srv/u/.mcpproxy/kept/file".into()],
        ..roots_of(&[root])
    };
    let bad = [
        "/srv/u/.mcpproxy",
        "/srv/u",
        "/srv",
        "/srv/u/.mcpproxy/data",
        "/srv/u/.mcpproxy/data/out",
        "/srv/logs",
        "/srv/logs/mcpproxy",
        "/srv/logs/mcpproxy/out",
        "/srv/u/.mcpproxy/kept",
        "/srv/u/.mcpproxy/kept/file",
    ];
    for root in bad {
        assert!(!problems(own(root)).is_empty(), "{root}");
    }
    let line = problems(own("/srv/u/.mcpproxy"))[0].to_string();
    assert!(line.contains("/srv/u/mcpproxy-output"), "{line}");
    for root in
        ["/srv/u/.mcpproxy/out", "/srv/u/mcpproxy-output", "/srv/logs/other", "/srv/u/.mcpproxy/kept2"]
    {
        open(own(root));
    }
}

#[test]
fn a_root_that_leads_by_a_link_to_a_forbidden_place_is_a_load_error() {
    let lab = Lab::new();
    let home = lab.path("home");
    make(&home, 0o700);
    for place in [Path::new("/etc"), Path::new("/dev/shm"), &lab.outside] {
        let link = lab.path("link");
        symlink(place, &link).unwrap();
        let settings = Settings {
            data_dir: Some(lab.outside.clone()),
            roots: vec![link.clone()],
            ..Settings::default()
        };
        assert!(!problems(settings).is_empty(), "{}", place.display());
        fs::remove_file(link).unwrap();
    }
    let own_home = Settings { home_dirs: vec![home.clone()], roots: vec![home], ..Settings::default() };
    assert!(!problems(own_home).is_empty());
}

#[test]
fn a_directory_of_ours_that_is_moved_into_a_root_is_noticed_at_the_call() {
    let lab = Lab::new();
    for which in ["config", "home"] {
        let own = lab.path(which);
        make(&own, 0o700);
        let mut settings = lab.settings();
        match which {
            "config" => settings.config_dir = Some(own.clone()),
            _ => settings.home_dirs = vec![own.clone()],
        }
        let roots = open(settings);
        saved(&roots, &lab.at("x"), true, b"x");
        fs::rename(&own, lab.root.join("moved")).unwrap();
        assert_refused(&lab, &roots, &lab.at("y"), false, Reason::RootUntrusted);
        fs::remove_dir(lab.root.join("moved")).unwrap();
    }
}

#[test]
fn a_root_that_is_mounted_over_with_our_data_is_noticed_at_the_call() {
    let lab = Lab::new();
    let data = lab.path("data");
    make(&data, 0o700);
    make(&data.join("deep"), 0o700);
    let roots = open(Settings { data_dir: Some(data.clone()), ..lab.settings() });
    let Some(mount) = Mount::bind(&data, &lab.root) else { return };
    assert_refused(&lab, &roots, &lab.at("y"), false, Reason::RootUntrusted);
    drop(mount);
    saved(&roots, &lab.at("y"), false, b"y");
}

#[test]
fn roots_that_are_one_directory_are_refused_at_the_call() {
    let lab = Lab::new();
    make(&lab.root.join("sub"), 0o700);
    make(&lab.path("way"), 0o700);
    symlink(&lab.root, lab.path("way/up")).unwrap();
    let aliases = [
        (lab.path("same"), lab.root.clone()),
        (lab.path("inner"), lab.root.join("sub")),
        // Its resolved form is disjoint from the root, and its way leads through it.
        (lab.path("through"), lab.path("way/up/../outside")),
    ];
    for (link, to) in &aliases {
        symlink(to, link).unwrap();
        let roots = open(Settings { roots: vec![lab.root.clone(), link.clone()], ..Settings::default() });
        let message = assert_refused(&lab, &roots, &lab.at("x"), false, Reason::RootUntrusted);
        assert!(message.contains(text(link)) && message.contains(text(&lab.root)), "{message}");
        assert_refused(&lab, &roots, &format!("{}/x", text(link)), false, Reason::RootUntrusted);
    }
}

#[test]
fn a_link_planted_on_the_way_of_another_root_is_noticed() {
    let lab = Lab::new();
    make(&lab.path("b"), 0o700);
    make(&lab.path("b/out"), 0o700);
    let roots = open(Settings { roots: vec![lab.root.clone(), lab.path("b/out")], ..Settings::default() });
    saved(&roots, &lab.at("x"), false, b"x");
    fs::rename(lab.path("b"), lab.path("b-old")).unwrap();
    make(&lab.root.join("out"), 0o700);
    symlink(&lab.root, lab.path("b")).unwrap();
    assert_refused(&lab, &roots, &lab.at("y"), false, Reason::RootUntrusted);
    assert_refused(&lab, &roots, text(&lab.path("b/out/y")), false, Reason::RootMoved);
}

#[test]
fn a_root_may_be_named_by_any_of_its_forms() {
    let lab = Lab::new();
    symlink(lab.root.parent().unwrap(), lab.path("way")).unwrap();
    symlink("root", lab.path("last")).unwrap();
    let literal = lab.path("way/last");
    let roots = open(Settings { roots: vec![literal.clone()], ..Settings::default() });
    for (number, form) in [&literal, &lab.path("last"), &lab.root].into_iter().enumerate() {
        let path = form.join(format!("x{number}"));
        assert_eq!(saved(&roots, text(&path), false, b"x").path, path);
    }
    assert_refused(&lab, &roots, text(&lab.path("way/root/x")), false, Reason::Outside);
}

#[test]
fn who_may_write_where_is_judged_on_the_whole_way() {
    let lab = Lab::new();
    let refused = |path: &Path, bad: u32, target: &str| {
        let good = mode(path);
        set_mode(path, bad);
        let message = assert_refused(&lab, &lab.roots(), &lab.at(target), false, Reason::RootUntrusted);
        assert!(message.contains(text(path)), "{message}");
        assert!(
            message.ends_with(&format!("\"tool_output_trusted_directories\": [\"{}\"]", text(path))),
            "{message}"
        );
        set_mode(path, good);
    };
    make(&lab.root.join("in"), 0o700);
    refused(&lab.root, 0o777, "x");
    refused(&lab.root, 0o1777, "x");
    refused(lab.root.parent().unwrap(), 0o777, "x");
    refused(&lab.root.join("in"), 0o702, "in/x");
    set_mode(lab.root.parent().unwrap(), 0o1777);
    set_mode(&lab.root.join("in"), 0o770);
    set_mode(&lab.root, 0o770);
    saved(&lab.roots(), &lab.at("in/x"), false, b"sticky on the way, a group inside");
    let remarks = lab.roots().remarks();
    assert!(remarks.iter().any(|remark| remark.message.contains("group")), "{remarks:?}");
}

#[test]
fn a_trusted_directory_waives_owners_and_modes_beneath_it_on_the_same_mount() {
    let lab = Lab::new();
    set_mode(&lab.root, 0o777);
    let trusting = |path: PathBuf| Settings { trusted_directories: vec![path], ..lab.settings() };
    saved(&open(trusting(lab.root.clone())), &lab.at("a/x"), false, b"itself");
    saved(&open(trusting(lab.path("."))), &lab.at("b/x"), false, b"above");
    assert_refused(&lab, &open(trusting(lab.outside.clone())), &lab.at("c"), false, Reason::RootUntrusted);
    let missing = open(trusting(lab.path("missing")));
    assert_refused(&lab, &missing, &lab.at("c"), false, Reason::RootUntrusted);
    assert_eq!(missing.remarks()[0].key, "tool_output_trusted_directories");
    if is_root() {
        give(&lab.root, 1234);
        saved(&open(trusting(lab.root.clone())), &lab.at("a/y"), false, b"another owner");
    }
    let Some(_mount) = Mount::tmpfs(&lab.root, "mode=777") else { return };
    let above = open(trusting(lab.path(".")));
    assert_refused(&lab, &above, &lab.at("x"), false, Reason::RootUntrusted);
    saved(&open(trusting(lab.root.clone())), &lab.at("x"), false, b"the mount itself");
}

#[test]
fn modes_that_cannot_be_set_are_no_error_beneath_a_trusted_directory() {
    let lab = Lab::new();
    let settings = |trusted: Vec<PathBuf>| Settings {
        trusted_directories: trusted,
        file_mode: 0o640,
        hook: Some(Hook::new(common::failing(Call::SetMode, libc::EPERM))),
        ..lab.settings()
    };
    let error = save(&open(settings(vec![])), &lab.at("a/x"), false, b"x").unwrap_err();
    assert_eq!(error.reason(), Reason::Denied);
    assert!(error.to_string().contains("\"tool_output_trusted_directories\": ["), "{error}");
    assert!(!lab.root.join("a").exists());
    saved(&open(settings(vec![lab.root.clone()])), &lab.at("a/x"), false, b"x");
}

#[test]
fn a_trusted_owners_root_is_used_with_their_identity() {
    if !is_root() {
        return skip("needs root to act as others");
    }
    let lab = Lab::open_to_all();
    give(&lab.root, NOBODY);
    let trusting = |owner: &str| open(Settings { trusted_owners: vec![owner.to_owned()], ..lab.settings() });
    assert_refused(&lab, &trusting("daemon"), &lab.at("x"), false, Reason::RootUntrusted);
    for (number, owner) in ["nobody", "65534"].iter().enumerate() {
        let path = lab.at(&format!("d{number}/x"));
        let file = saved(&trusting(owner), &path, false, &vec![7; 300_000]);
        for made in [file.path.as_path(), file.path.parent().unwrap()] {
            let meta = fs::metadata(made).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (NOBODY, NOBODY), "{}", made.display());
        }
    }
    let again = saved(&trusting("nobody"), &lab.at("d0/x"), true, b"again");
    assert!(again.replaced);
    assert_eq!(rustix::process::geteuid().as_raw(), 0);
    assert_eq!(
        fs::File::create(lab.path("after")).unwrap().metadata().unwrap().uid(),
        0,
        "we are ourselves again"
    );
}

#[test]
fn a_save_can_do_nothing_that_the_owner_could_not_do() {
    if !is_root() {
        return skip("needs root to act as others");
    }
    let lab = Lab::open_to_all();
    give(&lab.root, NOBODY);
    let trusting = open(Settings { trusted_owners: vec![String::from("nobody")], ..lab.settings() });
    make(&lab.root.join("roots"), 0o755);
    let message = assert_refused(&lab, &trusting, &lab.at("roots/x"), false, Reason::Denied);
    assert!(message.contains("nobody"), "{message}");
    make(&lab.root.join("locked"), 0o000);
    assert_refused(&lab, &trusting, &lab.at("locked/x"), false, Reason::Denied);
    set_mode(lab.dir.path(), 0o700);
    assert_refused(&lab, &trusting, &lab.at("x"), false, Reason::Denied);
    set_mode(lab.dir.path(), 0o755);
    // Without the newer call, the permission bits are read.
    let hook = Hook::new(common::failing(Call::Access, libc::ENOSYS));
    let old = open(Settings { hook: Some(hook), ..trusting.settings().clone() });
    assert_refused(&lab, &old, &lab.at("roots/x"), false, Reason::Denied);
    saved(&old, &lab.at("x"), false, b"x");
}

#[test]
fn a_missing_root_of_a_trusted_owner_is_made_as_them() {
    if !is_root() {
        return skip("needs root to act as others");
    }
    let lab = Lab::open_to_all();
    give(&lab.root, NOBODY);
    let new = lab.root.join("home/out");
    let settings = Settings {
        trusted_owners: vec![String::from("nobody")],
        roots: vec![new.clone()],
        ..Settings::default()
    };
    saved(&open(settings), text(&new.join("a/x")), false, b"x");
    for made in [&new, new.parent().unwrap(), &new.join("a"), &new.join("a/x")] {
        assert_eq!(fs::metadata(made).unwrap().uid(), NOBODY, "{}", made.display());
    }
    assert_eq!(mode(&new), 0o700);
}

#[test]
fn links_of_trusted_owners_lead_only_to_what_is_theirs() {
    if !is_root() {
        return skip("needs root to give files away");
    }
    let lab = Lab::open_to_all();
    give(&lab.root, NOBODY);
    let link = lab.path("link");
    let settings = || Settings {
        trusted_owners: vec![String::from("nobody")],
        roots: vec![link.clone()],
        ..Settings::default()
    };
    symlink(&lab.root, &link).unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    saved(&open(settings()), text(&link.join("x")), false, b"theirs to theirs");
    fs::remove_file(&link).unwrap();
    symlink(&lab.outside, &link).unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    let message =
        assert_refused(&lab, &open(settings()), text(&link.join("x")), false, Reason::RootUntrusted);
    assert!(message.contains("not theirs"), "{message}");

    // Inside a root the same: a link of another user is not followed, wherever it leads.
    let inside = Lab::new();
    make(&inside.root.join("real"), 0o700);
    symlink("real", inside.root.join("l")).unwrap();
    lchown(inside.root.join("l"), Some(NOBODY), Some(NOBODY)).unwrap();
    assert_refused(&inside, &inside.roots(), &inside.at("l/x"), false, Reason::RootUntrusted);
}

#[test]
fn two_owners_roots_that_the_other_may_not_see_work_side_by_side() {
    if !is_root() {
        return skip("needs root to act as others");
    }
    let lab = Lab::open_to_all();
    let mut roots = Vec::new();
    for (name, uid) in [("alice", 61_001), ("bob", 61_002)] {
        make(&lab.path(name), 0o700);
        make(&lab.path(name).join("out"), 0o700);
        give(&lab.path(name), uid);
        give(&lab.path(name).join("out"), uid);
        roots.push(lab.path(name).join("out"));
    }
    let owners = vec![String::from("61001"), String::from("61002")];
    let both = open(Settings { roots, trusted_owners: owners, ..Settings::default() });
    for (name, uid) in [("alice", 61_001), ("bob", 61_002)] {
        let saved = saved(&both, text(&lab.path(name).join("out/x")), false, b"x");
        assert_eq!(fs::metadata(saved.path).unwrap().uid(), uid);
    }
    assert_eq!(both.remarks(), []);
}

#[test]
fn an_ordinary_user_saves_and_is_refused_like_root_is() {
    const TEST: &str = "an_ordinary_user_saves_and_is_refused_like_root_is";
    if common::task().is_some() {
        let dir = PathBuf::from(std::env::var_os("OUTPUTFILE_DIR").unwrap());
        assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
        let mine = Settings { roots: vec![dir.join("mine")], ..Settings::default() };
        saved(&open(mine.clone()), text(&dir.join("mine/a/x")), false, b"x");
        saved(&open(mine.clone()), text(&dir.join("mine/a/x")), true, b"y");
        let by_proc = Hook::new(common::failing(Call::LinkHandle, libc::ENOENT));
        saved(
            &open(Settings { hook: Some(by_proc), ..mine.clone() }),
            text(&dir.join("mine/p")),
            false,
            b"x",
        );
        let old = Hook::new(common::failing(Call::Access, libc::ENOSYS));
        saved(&open(Settings { hook: Some(old), ..mine.clone() }), text(&dir.join("mine/o")), false, b"x");
        let denied = open(mine).preflight(text(&dir.join("mine/locked/x")), false, &NoLedger).unwrap_err();
        assert_eq!(denied.reason(), Reason::Denied, "{denied}");
        let roots = || Settings { roots: vec![dir.join("roots")], ..Settings::default() };
        let path = dir.join("roots/x");
        let error = open(roots()).preflight(text(&path), false, &NoLedger).unwrap_err();
        assert_eq!(error.reason(), Reason::RootUntrusted, "{error}");
        assert!(error.to_string().ends_with("\"tool_output_trusted_owners\": [\"root\"]"), "{error}");
        // Trusted, and without the right to act as them: the file is ours, where the group lets us write.
        let trusted = Settings { trusted_owners: vec![String::from("root")], ..roots() };
        let saved = saved(&open(trusted), text(&path), false, b"x");
        assert_eq!(fs::metadata(saved.path).unwrap().uid(), NOBODY);
        return;
    }
    if !is_root() {
        return skip("needs root to become another user");
    }
    let lab = Lab::open_to_all();
    make(&lab.path("mine"), 0o700);
    make(&lab.path("mine/locked"), 0o500);
    give(&lab.path("mine"), NOBODY);
    give(&lab.path("mine/locked"), NOBODY);
    make(&lab.path("roots"), 0o770);
    chown(lab.path("roots"), Some(0), Some(NOBODY)).unwrap();
    let program = lab.path("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    set_mode(&program, 0o755);
    let mut child = std::process::Command::new(&program);
    child.args(["--exact", TEST, "--nocapture"]).env("OUTPUTFILE_TASK", "save").current_dir("/");
    child.env("OUTPUTFILE_DIR", program.parent().unwrap());
    std::os::unix::process::CommandExt::uid(&mut child, NOBODY);
    std::os::unix::process::CommandExt::gid(&mut child, NOBODY);
    common::finish(child);
}

struct Count(Result<u64, String>);

impl Ledger for Count {
    fn used_bytes(&self, root: &Path) -> Result<u64, String> {
        assert!(root.is_absolute());
        self.0.clone()
    }
}

#[test]
fn the_total_of_a_root_is_asked_for_only_with_a_limit() {
    let lab = Lab::new();
    let path = lab.at("x");
    let limited = open(Settings { max_total_bytes: 100, ..lab.settings() });
    let reason =
        |used| limited.preflight(&path, false, &Count(used)).map(drop).map_err(|error| error.reason());
    assert_eq!(reason(Ok(99)), Ok(()));
    assert_eq!(reason(Ok(100)), Err(Reason::Total));
    assert_eq!(reason(Err(String::from("the database is busy"))), Err(Reason::Io));
    let free = open(Settings { max_total_bytes: 0, ..lab.settings() });
    free.preflight(&path, false, &Count(Err(String::from("not asked")))).unwrap();
}
