//! Public strings of attackers, each as a name under a root and as a whole path, in every form that some layer might make of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outputfile::name::{Platform, parse_root, parse_target};
use outputfile::{NoLedger, Reason, Roots, Settings};

use crate::common::{self, Lab, Mount, is_empty, open, suites, text};
use crate::{Count, PAYLOAD, Watch, plain};

/// Every line of the lists of paths and every awkward string, once.
fn strings() -> Option<BTreeSet<String>> {
    let suites = suites()?;
    let mut all = BTreeSet::new();
    let lists: Vec<PathBuf> = fs::read_dir(suites.join("paths")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let lists: Vec<&PathBuf> = lists.iter().filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    assert!(lists.len() >= 3, "the suites hold {} lists", lists.len());
    for list in lists {
        all.extend(common::read_lossy(list).lines().map(str::to_owned));
    }
    assert!(all.len() > 1000, "the lists hold {} lines", all.len());
    let awkward: Vec<String> = serde_json::from_slice(&fs::read(suites.join("blns.json")).unwrap()).unwrap();
    assert!(awkward.len() > 400, "the suite holds {} strings", awkward.len());
    all.extend(awkward);
    Some(all)
}

/// What layers that decode make of a string, each form once.
fn forms(string: &str) -> BTreeSet<String> {
    let once = percent_decoded(string);
    let decoded = [string.to_owned(), lossy(&once), percent_text(&lossy(&once)), lossy(&overlong_decoded(&once))];
    decoded.into_iter().flat_map(|form| [form.replace('\\', "/"), form]).collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn percent_text(text: &str) -> String {
    lossy(&percent_decoded(text))
}

/// `%2e` and `%u002e`.
fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    let hex = |from: usize, to: usize| {
        let digits = bytes.get(from..to)?;
        let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    while at < bytes.len() {
        let wide = (bytes[at..].starts_with(b"%u")).then(|| hex(at + 2, at + 6).and_then(char::from_u32)).flatten();
        if let Some(c) = wide {
            out.extend(c.to_string().bytes());
            at += 6;
        } else if let Some(byte) = (bytes[at] == b'%').then(|| hex(at + 1, at + 3)).flatten() {
            out.push(u8::try_from(byte).unwrap());
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Characters of one byte that are spelled with two, three or four.
fn overlong_decoded(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let low = |count: usize| {
            let last = bytes.get(at + count)?;
            Some((bytes[at + count - 1] & 3) << 6 | last & 0x3f)
        };
        let (decoded, length) = match (bytes[at], bytes.get(at + 1)) {
            (0xc0 | 0xc1, Some(_)) => (low(1), 2),
            (0xe0, Some(0x80 | 0x81)) => (low(2), 3),
            (0xf0, Some(0x80)) => (low(3), 4),
            _ => (None, 1),
        };
        out.push(decoded.unwrap_or(bytes[at]));
        at += length;
    }
    out
}

/// The file that `root/form` must be, if it may be one at all: found from the rules, without the code that is tested.
fn expected(root: &Path, form: &str, hidden: bool) -> Option<PathBuf> {
    let names: Vec<&str> = form.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let last = form.rsplit('/').next()?;
    let invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
            || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    let good = |name: &&str| {
        *name != ".." && name.len() <= 255 && (hidden || !name.starts_with('.')) && !name.chars().any(invisible)
    };
    let whole = text(root).len() + 1 + form.len();
    let fits = whole <= 4096 && names.len() <= 33;
    (fits && !names.is_empty() && !matches!(last, "" | ".") && names.iter().all(good))
        .then(|| names.iter().fold(root.to_path_buf(), |path, name| path.join(name)))
}

/// One string under a root: saved under exactly its name, or refused with nothing made.
fn attack(watch: &Watch<'_>, lab: &Lab, roots: &Roots, form: &str, overwrite: bool) {
    let path = lab.at(form);
    let what = format!("{form:?}, overwrite {overwrite}, hidden {}", roots.settings().allow_hidden);
    let expected = expected(&lab.root, form, roots.settings().allow_hidden);
    let result = plain(roots, &path, overwrite);
    watch.check(&result, &what);
    match (result, expected) {
        (Ok(saved), Some(expected)) => {
            assert_eq!(saved.path, expected, "{what}");
            assert_eq!(saved.replaced, overwrite, "{what}");
            // Byte by byte the only file there is.
            let files = common::everything(&lab.root).into_iter().filter(|(_, meta)| meta.is_file());
            assert_eq!(files.map(|(path, _)| path).collect::<Vec<_>>(), [expected], "{what}");
        }
        (Err(error), None) => {
            assert!(matches!(error.reason(), Reason::Path | Reason::Reserved), "{what}: {error}");
            assert!(!error.to_string().contains(|c: char| c.is_control()), "{what}: {error:?}");
            assert!(is_empty(&lab.root), "{what}");
        }
        (result, expected) => panic!("{what}: {result:?}, and expected was {expected:?}"),
    }
}

#[test]
fn public_strings_are_exact_names_beneath_the_root_or_refused() {
    let Some(strings) = strings() else { return };
    // In memory where that may be mounted: thousands of files are saved.
    let lab = Lab::new();
    let mount = Mount::tmpfs(&lab.root, "mode=700");
    let open_all = |allow_hidden| open(Settings { allow_hidden, min_free_bytes: 0, ..lab.settings() });
    let (usual, hidden) = (open_all(false), open_all(true));
    let watch = Watch::over(&lab);
    let (mut count, mut saved) = (Count::default(), 0);
    for (number, string) in strings.iter().enumerate() {
        for form in forms(string) {
            // On a disk one string in eight is written, because each write waits for it.
            if mount.is_none() && number % 8 != 0 && expected(&lab.root, &form, true).is_some() {
                continue;
            }
            for roots in [&usual, &hidden] {
                attack(&watch, &lab, roots, &form, false);
                count.one();
                if expected(&lab.root, &form, roots.settings().allow_hidden).is_some() {
                    attack(&watch, &lab, roots, &form, true);
                    count.one();
                    saved += 2;
                } else {
                    assert!(roots.preflight(&lab.at(&form), true, &NoLedger).is_err(), "{form:?}");
                }
                for entry in fs::read_dir(&lab.root).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
                }
            }
        }
    }
    assert!(saved > 500, "some are plain names: {saved}");
    count.tell("public strings as names under a root", 2000);
}

#[test]
fn public_strings_as_whole_paths_are_refused_before_any_call_to_the_system() {
    let Some(strings) = strings() else { return };
    let lab = Lab::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let hook = outputfile::Hook::new(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        None
    });
    let watch = Watch::over(&lab);
    let mut count = Count::default();
    let settings = Settings { hook: Some(hook), ..lab.settings() };
    let all = [false, true].map(|allow_hidden| open(Settings { allow_hidden, ..settings.clone() }));
    let before = calls.load(Ordering::SeqCst);
    for form in strings.iter().flat_map(|string| forms(string)) {
        for whole in [form.clone(), format!("/{form}"), format!("//{form}")] {
            for (roots, overwrite) in [(&all[0], false), (&all[0], true), (&all[1], true)] {
                let error = roots.preflight(&whole, overwrite, &NoLedger).expect_err(&whole);
                let reason = error.reason();
                assert!(matches!(reason, Reason::Path | Reason::Outside), "{whole:?}: {error}");
                assert!(!error.to_string().contains(|c: char| c.is_control()), "{whole:?}");
                count.one();
            }
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), before, "the string alone decides");
    watch.check(&Err(outputfile::SaveError::Disabled), "whole paths");
    assert!(is_empty(&lab.root));
    count.tell("public strings as whole paths", 10_000);
}

#[test]
fn no_public_string_gets_a_dangerous_name_through_on_any_platform() {
    let Some(strings) = strings() else { return };
    let mut count = Count::default();
    let roots = [(Platform::Linux, "/r"), (Platform::MacOs, "/r"), (Platform::Windows, r"C:\r")];
    for (platform, root) in roots {
        let spelled = [parse_root(platform, root).unwrap()];
        let separator = if platform == Platform::Windows { '\\' } else { '/' };
        for form in strings.iter().flat_map(|string| forms(string)) {
            for whole in [form.clone(), format!("{root}{separator}{form}"), format!("{root}/{form}")] {
                count.one();
                let Ok(path) = parse_target(platform, &whole, &spelled) else { continue };
                let what = format!("{platform:?} {whole:?}: {path:?}");
                assert!(path.volume.is_empty() || path.volume.len() == 2, "{what}");
                for name in &path.names {
                    let cut = |c: char| c == '/' || c.is_control() || (platform == Platform::Windows && c == '\\');
                    assert!(!matches!(name.as_str(), "" | "." | "..") && !name.contains(cut), "{what}");
                    let windows = name.ends_with(['.', ' ']) || name.contains([':', '<', '>', '"', '|', '?', '*']);
                    assert!(platform != Platform::Windows || !windows, "{what}");
                }
                // What it is written as means the same again.
                assert_eq!(parse_target(platform, &path.text(platform), &spelled), Ok(path), "{what}");
            }
        }
    }
    count.tell("public strings under the name rules of each platform", 10_000);
}

#[test]
fn the_payload_is_what_the_tests_look_for() {
    assert!(PAYLOAD.len() > 40, "long enough not to be found by chance");
}
