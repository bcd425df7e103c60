//! Roots that are one another, or lie in each other, by links, mounts and spellings: neither of the two is written to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use outputfile::name::{Platform, Relation, parse_root, relation};
use outputfile::{Reason, Roots, Settings};

use crate::common::{Lab, Mount, is_empty, is_root, make, open, skip, text};
use crate::{Count, Memory, STEPS, Step, Watch, attempt, plain};

/// How a second root is made to be the first one, or to lead through it. Gives the second root.
type Plant = fn(&Lab) -> Planted;

struct Planted {
    root: PathBuf,
    _mounts: Vec<Option<Mount>>,
}

fn link(lab: &Lab, to: &str) -> Planted {
    let root = lab.path("second");
    symlink(to, &root).unwrap();
    Planted { root, _mounts: Vec::new() }
}

fn bind(lab: &Lab, from: &str) -> Planted {
    let root = lab.path("second");
    make(&root, 0o700);
    let mount = Mount::bind(&lab.path(from), &root);
    Planted { root, _mounts: vec![mount] }
}

const PLANTS: [(&str, Plant); 18] = [
    ("a link to the root", |lab| link(lab, text(&lab.root))),
    ("a relative link to the root", |lab| link(lab, "root")),
    ("a winding link to the root", |lab| link(lab, "./outside/..//root/.")),
    ("a link to a directory in the root", |lab| link(lab, "root/sub")),
    ("a link to what is missing in the root", |lab| link(lab, "root/missing")),
    ("a link to what holds the root", |lab| link(lab, ".")),
    ("a link through the root to a place beside it", |lab| link(lab, "root/../outside")),
    ("a link through a directory in the root", |lab| link(lab, "root/sub/../../outside")),
    ("a link by a link in the root to a place beside it", |lab| {
        symlink("../outside", lab.root.join("out")).unwrap();
        link(lab, "root/out")
    }),
    ("a chain of links to the root", |lab| {
        symlink("root", lab.path("three")).unwrap();
        symlink("three", lab.path("two")).unwrap();
        link(lab, "two")
    }),
    ("a link to the root through /proc", |lab| link(lab, &format!("/proc/self/root{}", text(&lab.root)))),
    ("a directory beneath a link to the root", |lab| {
        let mut planted = link(lab, "root");
        planted.root = planted.root.join("sub");
        planted
    }),
    ("a missing directory beneath a link to the root", |lab| {
        let mut planted = link(lab, "root");
        planted.root = planted.root.join("yet/to/come");
        planted
    }),
    ("a link to a link on a way through the root", |lab| {
        symlink("root/sub", lab.path("way")).unwrap();
        link(lab, "way/../../outside")
    }),
    ("the root mounted a second time", |lab| bind(lab, "root")),
    ("a directory of the root mounted a second time", |lab| bind(lab, "root/sub")),
    ("what holds the root mounted a second time", |lab| {
        let mut planted = bind(lab, ".");
        planted.root = planted.root.join("root");
        planted
    }),
    ("a link to a second mount of the root", |lab| {
        let mut planted = bind(lab, "root");
        symlink("second", lab.path("to-second")).unwrap();
        planted.root = lab.path("to-second");
        planted
    }),
];

fn both(lab: &Lab, second: &Path) -> Settings {
    Settings { roots: vec![lab.root.clone(), second.to_path_buf()], ..crate::separate(lab) }
}

#[test]
fn two_roots_that_are_one_are_both_refused_in_either_order() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for (what, plant) in PLANTS {
        if what.contains("mount") && !is_root() {
            skip("mounting needs root");
            continue;
        }
        for order in [false, true] {
            for missing_root in [false, true] {
                let lab = memory.lab();
                make(&lab.root.join("sub"), 0o700);
                let planted = plant(&lab);
                if missing_root && !what.contains("mount") {
                    // The directory of the first root is yet to be made; then there is nothing to be the same as.
                    fs::remove_dir_all(&lab.root).unwrap();
                }
                let watch = Watch::over(&lab);
                let mut settings = both(&lab, &planted.root);
                if order {
                    settings.roots.reverse();
                }
                // An overlap that the configuration shows already is an error of the load.
                let Ok(roots) = Roots::open(settings.clone()) else {
                    count.one();
                    continue;
                };
                drop(roots);
                let roots = open(settings);
                for root in [&lab.root, &planted.root] {
                    // Only what lies in both is neither's; the rest of the root is its own.
                    let part = what.contains("a directory of the root mounted");
                    if part && root == &planted.root {
                        continue;
                    }
                    let root = if part { &root.join("sub") } else { root };
                    let what = format!("{what}, into {}, missing {missing_root}", root.display());
                    let result = plain(&roots, text(&root.join("x")), true);
                    watch.check(&result, &what);
                    let reason = result.as_ref().expect_err(&what).reason();
                    assert!(
                        matches!(reason, Reason::RootUntrusted | Reason::RootMoved | Reason::Io),
                        "{what}: {result:?}"
                    );
                    count.one();
                }
            }
        }
    }
    count.tell("roots that are one another", 100);
}

#[test]
fn a_root_that_becomes_another_one_while_the_save_runs_is_refused() {
    let (mut count, memory) = (Count::default(), Memory::mounted());
    for step in STEPS {
        for what in ["a link", "a link above it", "a mount", "the other becomes a link to this one"] {
            if what == "a mount" && !is_root() {
                skip("mounting needs root");
                continue;
            }
            let lab = memory.lab();
            make(&lab.path("b"), 0o700);
            make(&lab.path("b/second"), 0o700);
            make(&lab.root.join("second"), 0o700);
            let watch = Watch::over(&lab);
            let second = lab.path("b/second");
            let roots = open(both(&lab, &second));
            let mount = std::cell::RefCell::new(None);
            let (into, target) = match what {
                "the other becomes a link to this one" => (&lab.root, lab.at("x")),
                _ => (&second, text(&second.join("x")).to_owned()),
            };
            let result = attempt(&roots, &target, false, |now| {
                if now != step {
                    return;
                }
                match what {
                    "a mount" => *mount.borrow_mut() = Mount::bind(&lab.root, &second),
                    "a link above it" => {
                        fs::rename(lab.path("b"), lab.path("gone")).unwrap();
                        symlink(&lab.root, lab.path("b")).unwrap();
                    }
                    _ => {
                        fs::rename(&second, lab.path("gone")).unwrap();
                        symlink(&lab.root, &second).unwrap();
                    }
                }
            });
            let what = format!("{what} before {step:?}");
            watch.check(&result, &what);
            // The write itself looks at its own root again; the other one was judged when it began.
            let other = into == &lab.root && !matches!(step, Step::Preflight | Step::Begin);
            assert!(result.is_err() || other, "{what}");
            assert!(other || is_empty(&lab.root.join("second")), "{what}");
            count.one();
        }
    }
    count.tell("roots that become another one while the save runs", 15);
}

#[test]
fn a_root_is_named_by_its_own_forms_and_by_no_other_way_to_it() {
    let mut count = Count::default();
    let lab = Lab::new();
    make(&lab.path("d"), 0o700);
    symlink("../root", lab.path("d/last")).unwrap();
    symlink("d", lab.path("way")).unwrap();
    symlink("way/last", lab.path("other")).unwrap();
    let watch = Watch::over(&lab);
    let roots = open(Settings { roots: vec![lab.path("way/last")], ..lab.settings() });
    let proc = format!("/proc/self/root{}", text(&lab.root));
    let forms = [lab.path("way/last"), lab.path("d/last"), lab.root.clone()];
    for form in &forms {
        let result = plain(&roots, text(&form.join("x")), true);
        watch.check(&result, text(form));
        assert_eq!(result.unwrap().path, form.join("x"));
        fs::remove_file(lab.root.join("x")).unwrap();
        count.one();
    }
    for other in [lab.path("other"), PathBuf::from(proc), lab.path("way/../root"), lab.path("D/last")] {
        let result = plain(&roots, text(&other.join("x")), true);
        watch.check(&result, text(&other));
        let reason = result.expect_err(text(&other)).reason();
        assert!(matches!(reason, Reason::Outside | Reason::Path), "{}", other.display());
        count.one();
    }
    count.tell("forms of a root", 7);
}

#[test]
fn roots_that_differ_by_case_or_composition_are_one_where_names_are_compared_so() {
    let mut count = Count::default();
    // A name, another spelling of it, and whether the two are one name on macOS and Windows.
    let spellings = [
        ("Out", "out", true),
        ("OUT", "oUt", true),
        ("\u{e9}", "e\u{301}", true),
        ("\u{c9}", "e\u{301}", true),
        ("\u{1e9b}\u{323}", "\u{1e61}\u{323}", true),
        ("\u{3a3}", "\u{3c2}", true),
        ("\u{3c3}", "\u{3c2}", true),
        ("\u{212a}", "k", true),
        ("\u{212b}", "\u{e5}", true),
        ("\u{d55c}", "\u{1112}\u{1161}\u{11ab}", true),
        ("\u{410}", "\u{430}", true),
        ("\u{10400}", "\u{10428}", true),
        // Left to device and inode, because disks differ.
        ("stra\u{df}e", "STRASSE", false),
        ("\u{fb01}", "fi", false),
        ("\u{130}", "i\u{307}", false),
        ("\u{ff4f}ut", "out", false),
        ("out-evil", "out", false),
        ("ou", "out", false),
        ("OUTPUT~1", "output-root", false),
    ];
    for (one, other, same) in spellings {
        for (platform, head, tail) in [
            (Platform::Linux, "/v/", "/x"),
            (Platform::MacOs, "/v/", "/x"),
            (Platform::Windows, r"C:\v\", r"\x"),
        ] {
            let same = same && platform != Platform::Linux;
            let root = |name: &str| parse_root(platform, &format!("{head}{name}")).unwrap();
            let inner = |name: &str| parse_root(platform, &format!("{head}{name}{tail}")).unwrap();
            for (a, b, if_same) in [
                (root(one), root(other), Relation::Equal),
                (root(other), root(one), Relation::Equal),
                (root(one), inner(other), Relation::Contains),
                (inner(one), root(other), Relation::LiesIn),
            ] {
                let wanted = if same { if_same } else { Relation::Apart };
                assert_eq!(relation(platform, &a, &b), wanted, "{platform:?} {one:?} {other:?}");
                count.one();
            }
        }
    }
    count.tell("roots that differ by case or composition", 200);
}
