//! The name rules of all three platforms, on every platform.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use outputfile::name::{
    self, NameProblem, Platform, Relation, Spelling, check_below, check_short, is_temporary, parse_root,
    parse_target, relation,
};

const UNIX: [Platform; 2] = [Platform::Linux, Platform::MacOs];
const ALL: [Platform; 3] = [Platform::Linux, Platform::MacOs, Platform::Windows];

fn windows(path: &str) -> Result<Spelling, NameProblem> {
    parse_target(Platform::Windows, path, &[parse_root(Platform::Windows, r"C:\out").unwrap()])
}

fn unix(path: &str) -> Result<Spelling, NameProblem> {
    parse_target(Platform::Linux, path, &[])
}

#[test]
fn an_ordinary_path_is_taken_apart() {
    assert_eq!(unix("/a/b c/ü.txt").unwrap().names, ["a", "b c", "ü.txt"]);
    assert_eq!(unix("//a/./b///c").unwrap().names, ["a", "b", "c"]);
    let path = windows(r"c:/out\x.txt").unwrap();
    assert_eq!((path.volume.as_str(), path.names.len()), ("C:", 2));
    assert_eq!(path.text(Platform::Windows), r"C:\out\x.txt");
}

#[test]
fn what_is_no_absolute_path_is_refused() {
    for path in ["out/x.txt", "./x", "~/x", "$HOME/x", "${R}/x", "file:///tmp/root/x", "x", "C:\\x"] {
        assert_eq!(unix(path), Err(NameProblem::Relative), "{path}");
    }
    for path in ["", "   ", "\t"] {
        for platform in ALL {
            assert_eq!(parse_target(platform, path, &[]), Err(NameProblem::Empty), "{path:?}");
        }
    }
    assert_eq!(windows(r"C:x"), Err(NameProblem::DriveRelative));
    for path in [r"\x", "/x", "x", r"out\x"] {
        assert_eq!(windows(path), Err(NameProblem::Relative), "{path}");
    }
}

#[test]
fn dot_dot_is_refused_and_not_cleaned() {
    for path in ["/r/../x", "/r/a/../../x", "/r/./../x", "/../x", "/r/.."] {
        assert_eq!(unix(path), Err(NameProblem::DotDot), "{path}");
    }
    assert_eq!(windows(r"C:\out\..\x"), Err(NameProblem::DotDot));
    assert_eq!(unix("/r/...").unwrap().names, ["r", "..."]);
    assert_eq!(unix(r"/r/..\x").unwrap().names, ["r", r"..\x"], "a backslash is part of a name on Unix");
}

#[test]
fn a_target_names_a_file() {
    for path in ["/r/l/", "/r/l//", "/r/l/.", "/r/l/./"] {
        assert_eq!(unix(path), Err(NameProblem::TrailingSeparator), "{path}");
    }
    for path in ["/", "//", "/."] {
        assert_eq!(unix(path), Err(NameProblem::NotAFile), "{path}");
    }
    assert_eq!(windows(r"C:\out\l\"), Err(NameProblem::TrailingSeparator));
    assert_eq!(windows(r"C:\"), Err(NameProblem::NotAFile));
    assert_eq!(check_below(&[], true), Err(NameProblem::NotAFile));
}

#[test]
fn characters_that_cut_or_deceive_are_refused_everywhere() {
    let bad = [
        '\0',
        '\u{1}',
        '\n',
        '\r',
        '\t',
        '\u{1b}',
        '\u{7f}',
        '\u{80}',
        '\u{85}',
        '\u{9b}',
        '\u{9f}',
        '\u{61c}',
        '\u{200b}',
        '\u{200c}',
        '\u{200d}',
        '\u{200e}',
        '\u{200f}',
        '\u{202a}',
        '\u{202e}',
        '\u{2028}',
        '\u{2029}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{ad}',
        '\u{e0041}',
    ];
    for platform in ALL {
        for c in bad {
            let path =
                if platform == Platform::Windows { format!("C:\\r\\a{c}b") } else { format!("/r/a{c}b") };
            assert_eq!(
                parse_target(platform, &path, &[]),
                Err(NameProblem::Character(c)),
                "{platform:?} {c:?}"
            );
            assert_eq!(parse_root(platform, &path), Err(NameProblem::Character(c)), "{platform:?} {c:?}");
        }
    }
    for good in
        ["/r/ä", "/r/日本", "/r/🦀", "/r/a b", "/r/%2e%2e%2f", "/r/a:b", "/r/\u{fffd}", "/r/$x~", "/r/'\"`"]
    {
        assert!(unix(good).is_ok(), "{good}");
    }
}

#[test]
fn lengths_are_counted_in_bytes() {
    assert!(unix(&format!("/r/{}", "a".repeat(255))).is_ok());
    assert_eq!(unix(&format!("/r/{}", "a".repeat(256))), Err(NameProblem::NameTooLong(256)));
    assert_eq!(unix(&format!("/r/{}", "é".repeat(128))), Err(NameProblem::NameTooLong(256)));
    let long = "/a".repeat(2048);
    assert!(unix(&long).is_ok());
    assert_eq!(unix(&format!("{long}b")), Err(NameProblem::PathTooLong(4097)));
}

#[test]
fn hidden_and_temporary_names_are_refused_below_a_root() {
    let names = |path: &str| unix(path).unwrap().names;
    assert!(matches!(check_below(&names("/.git/x"), false), Err(NameProblem::Hidden(_))));
    assert!(matches!(check_below(&names("/a/.bashrc"), false), Err(NameProblem::Hidden(_))));
    assert_eq!(check_below(&names("/a/.bashrc"), true), Ok(()));
    for allow in [false, true] {
        for path in ["/.mcpproxy-x", "/a/.mcpproxy-", "/.MCPPROXY-1/x"] {
            assert!(matches!(check_below(&names(path), allow), Err(NameProblem::Temporary(_))), "{path}");
        }
    }
    assert_eq!(check_below(&names("/mcpproxy-x"), false), Ok(()));
    let temporary = name::temporary([0xab; 16]);
    assert!(is_temporary(&temporary) && temporary.len() == 46, "{temporary}");
    for other in ["x.tmp", ".mcpproxy-.tmp", ".mcpproxy-zz", &temporary.to_uppercase(), &temporary[1..]] {
        assert!(!is_temporary(other), "{other}");
    }
}

#[test]
fn windows_devices_are_refused_with_any_extension_and_are_names_on_unix() {
    let devices = [
        "NUL",
        "con",
        "Aux.txt",
        "NUL.config.json",
        "CON.tar.xml",
        "com1",
        "LPT9.log",
        "PRN ",
        "COM¹",
        "lpt³.x",
        "CONIN$",
        "conout$.txt",
        "nul .txt",
        "COM0",
    ];
    for device in devices {
        let problem = windows(&format!(r"C:\out\{device}")).unwrap_err();
        assert!(matches!(problem, NameProblem::Device(_)) && problem.is_reserved(), "{device}: {problem}");
        assert!(windows(&format!(r"C:\out\{device}\x")).is_err(), "{device} as a directory");
        for platform in UNIX {
            assert!(parse_target(platform, &format!("/out/{device}"), &[]).is_ok(), "{device}");
        }
    }
    for name in ["CONSOLE", "NULL", "COM", "COM10", "LPTX", "auxiliary.txt", "x.con", "COM٣"] {
        assert!(windows(&format!(r"C:\out\{name}")).is_ok(), "{name}");
    }
}

#[test]
fn windows_streams_and_characters_are_refused_and_are_names_on_linux() {
    for name in [
        "A:A.txt",
        "f.txt:s:$DATA",
        r"d::$INDEX_ALLOCATION\x",
        "f.txt::$DATA",
        "a<b",
        "a?",
        "a*",
        "a|b",
        "a\"b",
    ] {
        let problem = windows(&format!(r"C:\out\{name}")).unwrap_err();
        assert!(matches!(problem, NameProblem::WindowsCharacter(_)), "{name}: {problem}");
    }
    assert_eq!(unix("/r/A:A.txt").unwrap().names, ["r", "A:A.txt"]);
    for name in ["x.", "x ", "x. .", "... "] {
        assert!(
            matches!(windows(&format!(r"C:\out\{name}")), Err(NameProblem::DotOrSpaceAtEnd(_))),
            "{name:?}"
        );
    }
}

#[test]
fn windows_volumes_without_a_root_are_refused_on_the_string_alone() {
    let elsewhere = [
        r"\\h\s\x",
        "//h/s/x",
        r"\/h\s/x",
        r"/\h/s\x",
        r"\\?\UNC\h\s\x",
        r"\??\UNC\h\s\x",
        r"\\.\pipe\x",
        r"\\?\GLOBALROOT\Device\HarddiskVolume1\x",
        r"\\localhost\C$\x",
        r"\\?\C:\out\x",
        r"//./C:/out/x",
        r"\\?/unc/h/s/x",
        r"\??\C:\out\x",
        r"\\.\GLOBALROOT\Device\x",
    ];
    for path in elsewhere {
        assert!(matches!(windows(path), Err(NameProblem::Volume(_))), "{path}: {:?}", windows(path));
    }
    assert_eq!(unix("//h/s/x").unwrap().names, ["h", "s", "x"], "an ordinary path on Unix");
}

#[test]
fn a_windows_root_opens_exactly_its_own_volume() {
    let root = parse_root(Platform::Windows, r"\\Host\Share\out").unwrap();
    let target = |path| parse_target(Platform::Windows, path, std::slice::from_ref(&root));
    assert!(target(r"\\HOST\share\out\x").is_ok());
    assert!(target("//host/SHARE/out/x").is_ok());
    assert!(target(r"C:\x").is_ok(), "a drive is not refused here; it is outside the root");
    for path in [r"\\host\other\x", r"\\other\share\x", r"\\?\UNC\host\share\out\x", r"\\.\pipe\x"] {
        assert!(matches!(target(path), Err(NameProblem::Volume(_))), "{path}");
    }
    for root in [r"\\.\C:\x", r"\??\C:\x", r"\\?\GLOBALROOT\Device\x"] {
        assert!(parse_root(Platform::Windows, root).is_err(), "{root}");
    }
    for root in [r"C:\", "C:/", r"\\h\s\", r"\\h\s"] {
        assert_eq!(parse_root(Platform::Windows, root), Err(NameProblem::WholeVolume), "{root}");
    }
}

#[test]
fn roots_are_compared_by_component_and_as_the_platform_compares_names() {
    let related = |platform, a: &str, b: &str| {
        relation(platform, &parse_root(platform, a).unwrap(), &parse_root(platform, b).unwrap())
    };
    for platform in UNIX {
        assert_eq!(related(platform, "/t/root", "/t/root/"), Relation::Equal);
        assert_eq!(related(platform, "/t/root", "//t/./root/sub"), Relation::Contains);
        assert_eq!(related(platform, "/t/root/sub", "/t/root"), Relation::LiesIn);
        assert_eq!(related(platform, "/t/root", "/t/root-evil"), Relation::Apart);
        assert_eq!(related(platform, "/t/root", "/t/roo"), Relation::Apart);
    }
    let pairs = [
        ("/Users/a/Out", "/users/a/out"),
        ("/v/e\u{301}", "/v/\u{e9}"),
        ("/v/Σ", "/v/ς"),
        ("/v/K", "/v/\u{212a}"),
    ];
    for (a, b) in pairs {
        assert_eq!(related(Platform::Linux, a, b), Relation::Apart, "{a} {b}");
        assert_eq!(related(Platform::MacOs, a, b), Relation::Equal, "{a} {b}");
    }
    assert_eq!(related(Platform::Windows, r"C:\Out", r"c:\OUT\x"), Relation::Contains);
    assert_eq!(related(Platform::Windows, r"C:\out", r"D:\out"), Relation::Apart);
    // Foldings of more than one character differ from disk to disk: device and inode decide at the call.
    for (a, b) in
        [("/v/stra\u{df}e", "/v/STRASSE"), ("/v/\u{130}x", "/v/i\u{307}x"), ("/v/\u{fb01}", "/v/fi")]
    {
        for platform in UNIX {
            assert_eq!(related(platform, a, b), Relation::Apart, "{platform:?} {a} {b}");
        }
        let on_drive = |path: &str| format!("C:{path}");
        assert_eq!(related(Platform::Windows, &on_drive(a), &on_drive(b)), Relation::Apart, "{a} {b}");
    }
}

#[test]
fn short_names_of_windows_are_refused_below_a_root_and_are_names_on_unix() {
    let short = ["OUTPUT~1", "GIT~1", "git~2.x", "MCPPRO~1.TMP", "A~123456.TXT", "LONGFI~1.", "~1", "x~0"];
    for name in short.map(str::to_owned) {
        let names = ["a".to_owned(), name.clone(), "x".to_owned()];
        assert_eq!(check_short(Platform::Windows, &names), Err(NameProblem::ShortName(name)));
        for platform in UNIX {
            assert_eq!(check_short(platform, &names), Ok(()));
        }
    }
    for name in ["backup~", "a~b", "~x1", "document~1.html", "longer-name~1", "a.b~1.c", "x.~1~", "tilde~1x"]
    {
        assert_eq!(check_short(Platform::Windows, &[name.to_owned()]), Ok(()), "{name}");
    }
    // A root may be spelled so: the directory where programs keep temporary files often is.
    assert!(parse_root(Platform::Windows, r"C:\Users\RUNNER~1\out").is_ok());
}

#[test]
fn the_whole_path_begins_with_its_volume() {
    assert_eq!(parse_root(Platform::Windows, r"c:\a\b").unwrap().whole(), ["C:", "a", "b"]);
    assert_eq!(parse_root(Platform::Windows, r"\\h\s\a").unwrap().whole(), [r"\\H\S", "a"]);
    assert_eq!(parse_root(Platform::Linux, "/a/b").unwrap().whole(), ["a", "b"]);
}
