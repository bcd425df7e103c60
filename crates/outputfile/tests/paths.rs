//! Paths that lead out of a root, or seem to: none of them is ever written.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use common::{Lab, assert_refused, is_empty, is_root, make, mode, open, refused, saved, skip, text};
use outputfile::{Reason, Settings};

#[test]
fn a_save_makes_the_file_and_its_directories() {
    let lab = Lab::new();
    let roots = lab.roots();
    let first = saved(&roots, &lab.at("x.txt"), false, b"hello");
    assert_eq!(first.path, lab.root.join("x.txt"));
    assert_eq!(first.root, lab.root);
    assert!(!first.replaced);
    assert_eq!(mode(&first.path), 0o600);
    let deep = saved(&roots, &lab.at("a/b//c/./y.txt"), false, &[0xff; 200_000]);
    assert_eq!(deep.path, lab.root.join("a/b/c/y.txt"));
    assert_eq!(mode(&lab.root.join("a/b")), 0o700);
    saved(&roots, &lab.at("empty"), false, b"");
    saved(&roots, &lab.at("a/A:A.txt"), false, b"an ordinary name");
}

#[test]
fn a_sibling_with_a_longer_name_is_outside() {
    let lab = Lab::new();
    make(&lab.path("root-evil"), 0o700);
    for path in ["root-evil/x.txt", "rootx", "rootx/x.txt", "roo", "outside/x"] {
        let path = lab.path(path);
        let message = assert_refused(&lab, &lab.roots(), text(&path), false, Reason::Outside);
        assert!(message.contains(text(&lab.root)), "the roots are told: {message}");
    }
}

#[test]
fn outside_is_one_message_whatever_is_there() {
    let lab = Lab::new();
    fs::write(lab.outside.join("secret"), "x").unwrap();
    let roots = lab.roots();
    let told = |name: &str| {
        let path = lab.path(name);
        refused(&lab, &roots, text(&path), false).to_string().replace(text(&path), "PATH")
    };
    assert_eq!(told("outside/secret"), told("outside/nothing"));
    assert_eq!(told("outside/secret"), told("nowhere/at/all"));
}

#[test]
fn a_link_that_leads_out_is_refused() {
    let lab = Lab::new();
    symlink(&lab.outside, lab.root.join("link")).unwrap();
    symlink("../outside", lab.root.join("relative")).unwrap();
    symlink("link", lab.root.join("twice")).unwrap();
    for overwrite in [false, true] {
        for path in ["link/x.txt", "relative/x.txt", "twice/x.txt", "link/a/b/x.txt"] {
            assert_refused(&lab, &lab.roots(), &lab.at(path), overwrite, Reason::Outside);
        }
    }
    assert!(is_empty(&lab.outside));
}

#[test]
fn a_link_that_stays_inside_is_resolved_and_the_real_path_is_told() {
    let lab = Lab::new();
    make(&lab.root.join("real"), 0o700);
    symlink(lab.root.join("real"), lab.root.join("link")).unwrap();
    symlink("../root/real/.", lab.root.join("winding")).unwrap();
    let roots = lab.roots();
    assert_eq!(saved(&roots, &lab.at("link/x"), false, b"1").path, lab.root.join("real/x"));
    assert_eq!(saved(&roots, &lab.at("link/new/x"), false, b"2").path, lab.root.join("real/new/x"));
    assert_eq!(saved(&roots, &lab.at("winding/y"), false, b"3").path, lab.root.join("real/y"));
}

#[test]
fn a_link_to_a_hidden_directory_is_no_way_around_the_rule() {
    let lab = Lab::new();
    make(&lab.root.join(".git"), 0o700);
    symlink(".git", lab.root.join("git")).unwrap();
    assert_refused(&lab, &lab.roots(), &lab.at("git/config"), false, Reason::Path);
    assert_refused(&lab, &lab.roots(), &lab.at(".git/config"), false, Reason::Path);
    let allowed = open(Settings { allow_hidden: true, ..lab.settings() });
    saved(&allowed, &lab.at("git/config"), false, b"x");
    assert_refused(&lab, &allowed, &lab.at(".mcpproxy-1"), false, Reason::Reserved);
}

#[test]
fn dot_dot_is_refused_and_makes_nothing() {
    let lab = Lab::new();
    for path in ["../outside/x.txt", "a/../../outside/x", "./../outside/x", "../root/../outside/x", "a/../x"]
    {
        assert_refused(&lab, &lab.roots(), &lab.at(path), true, Reason::Path);
    }
    assert!(!lab.root.join("a").exists());
}

#[test]
fn a_trailing_separator_never_follows_a_last_link() {
    let lab = Lab::new();
    symlink(&lab.outside, lab.root.join("l")).unwrap();
    symlink(lab.outside.join("v"), lab.root.join("f")).unwrap();
    for path in ["l/", "f/", "newfile/", "l/.", "f/.", "newfile/."] {
        for overwrite in [false, true] {
            assert_refused(&lab, &lab.roots(), &lab.at(path), overwrite, Reason::Path);
        }
    }
    assert!(is_empty(&lab.outside));
}

#[test]
fn the_root_itself_or_nothing_is_no_target() {
    let lab = Lab::new();
    let root = text(&lab.root);
    for path in [root, &format!("{root}/"), &format!("{root}/."), &format!("{root}//"), "", "   "] {
        let message = assert_refused(&lab, &lab.roots(), path, true, Reason::Path);
        assert!(message.contains("file"), "{message}");
    }
}

#[test]
fn nothing_is_expanded() {
    let lab = Lab::new();
    let url = format!("file://{}/x", text(&lab.root));
    for path in ["out/x.txt", "./x", "~/x", "$HOME/x", "${R}/x", &url] {
        assert_refused(&lab, &lab.roots(), path, false, Reason::Path);
    }
    saved(&lab.roots(), &lab.at("$HOME/~x"), false, b"taken as it is");
}

#[test]
fn a_nul_or_a_control_character_is_refused_and_shown_escaped() {
    let lab = Lab::new();
    for name in
        ["ok\0/../../outside/x", "ok\0x", "a.txt\0.png", "a\u{1b}]0;pwn\u{7}\nSAVED.txt", "a\u{202e}txt.exe"]
    {
        let message = assert_refused(&lab, &lab.roots(), &lab.at(name), false, Reason::Path);
        assert!(!message.contains(['\0', '\u{1b}', '\n', '\u{202e}']), "{message:?}");
    }
    assert!(is_empty(&lab.root));
}

#[test]
fn a_root_may_be_written_in_more_ways_than_one() {
    let lab = Lab::new();
    let root = text(&lab.root);
    for spelling in [format!("{root}/"), root.replacen('/', "//", 2), format!("{root}/./")] {
        let roots = open(Settings { roots: vec![PathBuf::from(&spelling)], ..Settings::default() });
        assert_eq!(roots.list().collect::<Vec<_>>(), [lab.root.as_path()]);
        saved(&roots, &lab.at("x.txt"), true, b"x");
        assert_refused(&lab, &roots, text(&lab.path("rootx/x")), false, Reason::Outside);
    }
}

#[test]
fn what_cannot_be_resolved_is_refused() {
    let lab = Lab::new();
    symlink("b", lab.root.join("a")).unwrap();
    symlink("a", lab.root.join("b")).unwrap();
    let message = refused(&lab, &lab.roots(), &lab.at("a/x"), false).to_string();
    assert!(message.contains("links"), "{message}");
    symlink("nothing", lab.root.join("dangling")).unwrap();
    refused(&lab, &lab.roots(), &lab.at("dangling/x"), false);
    // Short links to long names, so that the path written out is longer than the system takes, and then out again.
    let long = "d".repeat(247);
    let mut at = lab.root.clone();
    for link in "abcdefghijklmnopq".chars() {
        let name = format!("s{link}");
        fs::create_dir(at.join(&long)).unwrap_or_else(|error| panic!("{error}"));
        symlink(&long, at.join(&name)).unwrap();
        // Through the short name, because the long one is too long for the system by now.
        at = at.join(&name);
    }
    symlink("../".repeat(18), at.join("out")).unwrap();
    let short: Vec<String> = "abcdefghijklmnopq".chars().map(|link| format!("s{link}")).collect();
    let path = lab.at(&format!("{}/out/outside/x", short.join("/")));
    let error = lab.roots().preflight(&path, false, &outputfile::NoLedger).unwrap_err();
    assert_eq!(error.reason(), Reason::Outside, "{error}");
    assert!(is_empty(&lab.outside));
}

#[test]
fn a_dangling_last_link_is_never_written_through() {
    let lab = Lab::new();
    symlink(lab.outside.join("new.txt"), lab.root.join("d")).unwrap();
    for overwrite in [false, true] {
        assert_refused(&lab, &lab.roots(), &lab.at("d"), overwrite, Reason::TargetKind);
    }
    assert!(is_empty(&lab.outside));
}

#[test]
fn a_refused_call_makes_no_root_and_a_good_one_makes_it_private() {
    let lab = Lab::new();
    let new = lab.path("deep/new");
    let roots = open(Settings { roots: vec![new.clone()], ..Settings::default() });
    assert_refused(&lab, &roots, &format!("{}/../x", text(&new)), false, Reason::Path);
    assert_refused(&lab, &roots, &format!("{}/.x", text(&new)), false, Reason::Path);
    let target = roots.preflight(&format!("{}/a/b.txt", text(&new)), false, &outputfile::NoLedger).unwrap();
    assert!(!lab.path("deep").exists(), "a preflight that passes makes nothing either");
    let writer = roots.begin(target).unwrap();
    drop(writer);
    assert!(!lab.path("deep").exists(), "what is given up leaves nothing");
    saved(&roots, &format!("{}/a/b.txt", text(&new)), false, b"x");
    for made in ["deep", "deep/new", "deep/new/a"] {
        assert_eq!(mode(&lab.path(made)), 0o700, "{made}");
    }
}

#[test]
fn a_missing_root_is_private_whatever_the_umask() {
    if let Some(task) = common::task() {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(u32::from_str_radix(&task, 8).unwrap()));
        let dir = PathBuf::from(std::env::var_os("OUTPUTFILE_DIR").unwrap());
        let roots = open(Settings { roots: vec![dir.join("r")], file_mode: 0o640, ..Settings::default() });
        saved(&roots, text(&dir.join("r/a/x")), false, b"x");
        assert_eq!(
            (mode(&dir.join("r")), mode(&dir.join("r/a")), mode(&dir.join("r/a/x"))),
            (0o700, 0o750, 0o640)
        );
        return;
    }
    for umask in ["000", "022", "077", "777"] {
        let lab = Lab::new();
        let mut child = common::again("a_missing_root_is_private_whatever_the_umask", umask);
        child.env("OUTPUTFILE_DIR", lab.outside.as_os_str());
        common::finish(child);
    }
}

#[test]
fn more_new_directories_than_allowed_are_refused() {
    let lab = Lab::new();
    let deep = |count: usize| lab.at(&format!("{}x", "d/".repeat(count)));
    assert_refused(&lab, &lab.roots(), &deep(33), false, Reason::Path);
    saved(&lab.roots(), &deep(32), false, b"x");
}

#[test]
fn without_roots_the_line_to_add_is_told() {
    let lab = Lab::new();
    let roots = open(Settings::default());
    assert!(roots.is_empty());
    let message = assert_refused(&lab, &roots, &lab.at("x"), false, Reason::Disabled);
    assert!(message.contains("\"tool_output_roots\": ["), "{message}");
}

#[test]
fn another_users_root_or_link_is_refused_and_named() {
    if !is_root() {
        return skip("needs root to give files away");
    }
    let lab = Lab::new();
    let nobody = Some(65534);
    std::os::unix::fs::chown(&lab.root, nobody, nobody).unwrap();
    let message = assert_refused(&lab, &lab.roots(), &lab.at("x"), false, Reason::RootUntrusted);
    assert!(message.contains(text(&lab.root)) && message.contains("65534"), "{message}");
    assert!(message.ends_with("\"tool_output_trusted_owners\": [\"nobody\"]"), "{message}");
    std::os::unix::fs::chown(&lab.root, Some(0), Some(0)).unwrap();

    let link = lab.path("l");
    symlink(lab.root.parent().unwrap(), &link).unwrap();
    let roots = || open(Settings { roots: vec![link.join("root")], ..Settings::default() });
    let path = format!("{}/root/x", text(&link));
    saved(&roots(), &path, false, b"a link of ours");
    std::os::unix::fs::lchown(&link, nobody, nobody).unwrap();
    let message = assert_refused(&lab, &roots(), &path, true, Reason::RootUntrusted);
    assert!(message.contains(text(&link)), "{message}");
}
