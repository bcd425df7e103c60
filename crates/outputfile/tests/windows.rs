//! Saves on Windows, or under Wine (`make test-windows`), against the real file system.
//!
//! Wine is not Windows. What it cannot show, and only a Windows machine can:
//! - symbolic links and junctions made by Windows: Wine 8 makes none, and follows those of Unix also where Windows opens
//!   the link itself. A directory that is mounted on another stands for a junction here, because Wine shows it as a
//!   reparse point with the same tag; a dangling link of Unix stands for a dangling symbolic link, and Wine replaces the
//!   link itself, where Windows says that the name exists. What the reparse points of Windows say is tested as a pure
//!   function in `sys/reparse.rs`, on every platform.
//! - names that the system itself changes: Wine makes `CON.txt`, `a:b` and `x.` as they are, so that only our rules refuse
//!   them, and its short names are others (`OUTP~XYZ`) than those of Windows (`OUTPUT~1`).
//! - renaming and removing what others have open (`POSIX_SEMANTICS`): Wine has the older calls, so the fallback is shown.
//!   With them, directories that were made for an abandoned save stay, except the deepest.
//! - that a directory in which a file is open keeps its name: in Wine it may be renamed, and since Wine removes by path, a
//!   temporary then stays in it.
//! - that a rename that spares a name is atomic in the kernel: in Wine one server process makes all renames.
//! - access rules (ACLs), read-only volumes, quotas, ReFS numbers, network shares, `subst`, power cuts.

#![cfg(windows)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::os::windows::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outputfile::{
    Call, Expected, Hook, NoLedger, ReadError, Reason, Reservations, RootProblem, Roots, SaveError, Saved,
    Settings,
};
use sha2::{Digest as _, Sha256};

const NOT_SUPPORTED: i32 = 50;
const DISK_FULL: i32 = 112;

/// A directory with a root and an outside in it.
struct Lab {
    dir: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        Self { dir, root, outside }
    }

    fn settings(&self) -> Settings {
        Settings { roots: vec![self.root.clone()], ..Settings::default() }
    }

    fn roots(&self) -> Roots {
        open(self.settings())
    }

    fn hooked(&self, hook: impl Fn(Call) -> Option<i32> + Send + Sync + 'static) -> Roots {
        open(Settings { hook: Some(Hook::new(hook)), ..self.settings() })
    }

    fn at(&self, below: &str) -> String {
        format!(r"{}\{below}", self.root.to_str().unwrap())
    }
}

fn open(settings: Settings) -> Roots {
    Roots::open(settings).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn problems(settings: Settings) -> Vec<RootProblem> {
    Roots::open(settings).expect_err("the settings are refused")
}

fn save(roots: &Roots, path: &str, overwrite: bool, bytes: &[u8]) -> Result<Saved, SaveError> {
    let target = roots.preflight(path, overwrite, &NoLedger)?;
    let mut writer = roots.begin(target)?;
    for piece in bytes.chunks(1 << 16) {
        writer.put(piece)?;
    }
    writer.commit()
}

/// A save that must work, and all that must be true then.
fn saved(roots: &Roots, path: &str, overwrite: bool, bytes: &[u8]) -> Saved {
    let saved = save(roots, path, overwrite, bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(fs::read(&saved.path).unwrap(), bytes, "{path}");
    assert_eq!(saved.bytes, u64::try_from(bytes.len()).unwrap());
    assert_eq!(saved.sha256, <[u8; 32]>::from(Sha256::digest(bytes)));
    assert_eq!(saved.identity.size, saved.bytes);
    assert_eq!(temporaries(saved.path.parent().unwrap()), Vec::<String>::new());
    saved
}

/// A preflight that must refuse for this reason, and change nothing beneath the directory.
fn refused(dir: &Path, roots: &Roots, path: &str, overwrite: bool, reason: Reason) -> String {
    let before = tree(dir);
    let Err(error) = roots.preflight(path, overwrite, &NoLedger) else { panic!("{path:?} was not refused") };
    assert_eq!(tree(dir), before, "{path:?}: a refusal changes nothing");
    assert_eq!(error.reason(), reason, "{path:?}: {error}");
    error.to_string()
}

/// Everything beneath a directory, in order.
fn tree(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            let size = entry.metadata().map_or(0, |meta| meta.len());
            all.push(format!("{} {size} {}", kind.is_dir(), entry.path().display()));
            if kind.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    all.sort();
    all
}

fn temporaries(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".mcpproxy-")).collect()
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

fn expected(saved: &Saved) -> Expected {
    Expected { identity: saved.identity, sha256: saved.sha256, bytes: saved.bytes }
}

/// Runs one test of this binary again in a process of its own, with a task in its environment.
fn again(test: &str, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("OUTPUTFILE_TASK", task);
    command
}

fn task() -> Option<String> {
    std::env::var("OUTPUTFILE_TASK").ok()
}

#[test]
fn a_save_makes_the_file_and_its_directories() {
    let lab = Lab::new();
    let roots = lab.roots();
    let first = saved(&roots, &lab.at("x.txt"), false, b"hello");
    assert_eq!(first.path, lab.root.join("x.txt"));
    assert_eq!(first.root, lab.root);
    assert!(!first.replaced);
    let deep = saved(&roots, &lab.at(r"a\b\\c\.\y.txt"), false, &[0xff; 200_000]);
    assert_eq!(deep.path, lab.root.join(r"a\b\c\y.txt"));
    saved(&roots, &lab.at("a/b/ü 日本.txt"), false, b"both separators");
    saved(&roots, &lab.at("empty"), false, b"");
    let lower = lab.at("lower.txt").to_lowercase();
    saved(&roots, &lower, false, b"names are compared without case");
    assert!(is_empty(&lab.outside));
}

#[test]
fn a_missing_root_is_made_by_the_first_write_and_not_by_the_preflight() {
    let lab = Lab::new();
    let root = lab.dir.path().join(r"new\root");
    let roots = open(Settings { roots: vec![root.clone()], ..Settings::default() });
    let path = format!(r"{}\sub\x", root.display());
    let target = roots.preflight(&path, false, &NoLedger).unwrap();
    assert!(!root.exists());
    drop(target);
    saved(&roots, &path, false, b"x");
}

#[test]
fn a_path_longer_than_programs_of_old_can_name_is_written() {
    let lab = Lab::new();
    let name = "n".repeat(120);
    let path = lab.at(&format!(r"{name}\{name}\{name}.txt"));
    assert!(path.len() > 300);
    let roots = lab.roots();
    let saved = save(&roots, &path, false, b"long").unwrap();
    assert_eq!(roots.reopen_saved(&path, &expected(&saved)).unwrap().size(), 4);
    roots.remove_saved(&path, &expected(&saved)).unwrap();
}

#[test]
fn without_overwrite_nothing_is_replaced_in_whatever_case() {
    let lab = Lab::new();
    let roots = lab.roots();
    fs::write(lab.root.join("Report.json"), "old").unwrap();
    for name in ["Report.json", "report.JSON"] {
        let text = refused(lab.dir.path(), &roots, &lab.at(name), false, Reason::Exists);
        assert!(
            text.ends_with("exists; choose another name, or pass save_overwrite: true to replace it"),
            "{text}"
        );
    }
    let target = roots.preflight(&lab.at("late"), false, &NoLedger).unwrap();
    let mut writer = roots.begin(target).unwrap();
    writer.put(b"mine").unwrap();
    fs::write(lab.root.join("LATE"), "theirs").unwrap();
    assert_eq!(writer.commit().unwrap_err().reason(), Reason::Exists);
    assert_eq!(fs::read_to_string(lab.root.join("late")).unwrap(), "theirs");
    assert_eq!(temporaries(&lab.root), Vec::<String>::new());
}

#[test]
fn overwrite_replaces_the_whole_file() {
    let lab = Lab::new();
    let roots = lab.roots();
    fs::write(lab.root.join("x"), vec![b'o'; 100_000]).unwrap();
    let replaced = saved(&roots, &lab.at("x"), true, b"short");
    assert!(replaced.replaced);
    assert!(!saved(&roots, &lab.at("y"), true, b"new").replaced);
    let names: Vec<String> = tree(&lab.root);
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn only_a_regular_file_that_may_change_is_replaced() {
    let lab = Lab::new();
    let roots = lab.roots();
    fs::create_dir(lab.root.join("d")).unwrap();
    for overwrite in [false, true] {
        let text = refused(lab.dir.path(), &roots, &lab.at("d"), overwrite, Reason::TargetKind);
        assert!(text.contains("is a directory, and only a regular file can be replaced"), "{text}");
    }
    fs::write(lab.root.join("file"), "f").unwrap();
    let text = refused(lab.dir.path(), &roots, &lab.at(r"file\x"), true, Reason::TargetKind);
    assert!(text.contains("cannot hold files, because it is no directory"), "{text}");
    let mut permissions = fs::metadata(lab.root.join("file")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(lab.root.join("file"), permissions.clone()).unwrap();
    refused(lab.dir.path(), &roots, &lab.at("file"), true, Reason::Denied);
    #[expect(clippy::permissions_set_readonly_false, reason = "so that the laboratory can be removed")]
    permissions.set_readonly(false);
    fs::set_permissions(lab.root.join("file"), permissions).unwrap();
}

/// One saver: writes its number many times, says that it is ready, and publishes when it is told to.
fn save_when_told(path: &str) {
    let root = Path::new(path).parent().unwrap().to_path_buf();
    let roots = open(Settings { roots: vec![root], ..Settings::default() });
    let mut writer = roots.begin(roots.preflight(path, false, &NoLedger).unwrap()).unwrap();
    writer.put(std::process::id().to_string().repeat(20_000).as_bytes()).unwrap();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    match writer.commit() {
        Ok(saved) => println!("answer: saved {}", saved.bytes),
        Err(error) => println!("answer: {:?}", error.reason()),
    }
}

#[test]
fn of_many_processes_exactly_one_makes_the_file() {
    const NAME: &str = "of_many_processes_exactly_one_makes_the_file";
    const ROUNDS: usize = 4;
    const SAVERS: usize = 5;
    if let Some(path) = task() {
        return save_when_told(&path);
    }
    for round in 0..ROUNDS {
        let lab = Lab::new();
        let path = lab.at(&format!("one-{round}"));
        let start = |_| {
            let mut command = again(NAME, &path);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut savers: Vec<_> = (0..SAVERS).map(start).collect();
        let mut said: Vec<_> =
            savers.iter_mut().map(|saver| BufReader::new(saver.stdout.take().unwrap()).lines()).collect();
        for lines in &mut said {
            assert!(lines.any(|line| line.unwrap().contains("ready")));
        }
        for saver in &mut savers {
            saver.stdin.take().unwrap().write_all(b"go\n").unwrap();
        }
        let answer = |lines: &mut Lines<BufReader<_>>| {
            let mut answers = lines.map_while(Result::ok);
            let answer =
                answers.find_map(|line| line.split_once("answer: ").map(|(_, answer)| answer.to_owned()));
            answer.expect("an answer")
        };
        let answers: Vec<String> = said.iter_mut().map(answer).collect();
        let winners: Vec<usize> =
            (0..SAVERS).filter(|saver| answers[*saver].trim().starts_with("saved")).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        let losers = answers.iter().filter(|answer| answer.trim() == "Exists").count();
        assert_eq!(losers, SAVERS - 1, "{answers:?}");
        let winner = savers[winners[0]].id().to_string();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            winner.repeat(20_000),
            "the bytes of the winner, all of them"
        );
        for mut saver in savers {
            saver.wait().unwrap();
        }
        assert_eq!(temporaries(&lab.root), Vec::<String>::new());
    }
}

#[test]
fn two_calls_for_one_file_are_told_apart_in_whatever_case() {
    let lab = Lab::new();
    let roots = lab.roots();
    let first = roots.preflight(&lab.at(r"a\X.txt"), false, &NoLedger).unwrap();
    refused(lab.dir.path(), &roots, &lab.at(r"A\x.TXT"), false, Reason::Busy);
    drop(first);
    saved(&roots, &lab.at(r"A\x.TXT"), false, b"x");
}

#[test]
fn names_that_windows_takes_for_something_else_are_refused() {
    let lab = Lab::new();
    let roots = lab.roots();
    for name in ["NUL", "con.txt", r"aux\x", "COM1.log", "LPT³", "CONIN$", "PRN .txt"] {
        refused(lab.dir.path(), &roots, &lab.at(name), true, Reason::Reserved);
    }
    for name in [
        "x.",
        "x ",
        r"d.\x",
        r"d \x",
        "f.txt:s",
        "f.txt::$DATA",
        r"d::$INDEX_ALLOCATION\x",
        "a?",
        "a*",
        "a|b",
        "a<b",
        "a\"b",
        "a\tb",
        r"..\outside\x",
        r"a\..\x",
        "GIT~1",
        r"GIT~1\config",
        "MCPPRO~1.TMP",
        "x\\",
        ".git",
    ] {
        refused(lab.dir.path(), &roots, &lab.at(name), true, Reason::Path);
    }
    let temporary = format!(".mcpproxy-{}.tmp", "0".repeat(32));
    refused(lab.dir.path(), &roots, &lab.at(&temporary), true, Reason::Reserved);
}

#[test]
fn volumes_without_a_root_are_refused_before_any_call_of_the_system() {
    let lab = Lab::new();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let roots = lab.hooked(move |call| {
        seen.lock().unwrap().push(call);
        None
    });
    calls.lock().unwrap().clear();
    let root = lab.root.to_str().unwrap();
    let elsewhere = [
        r"\\127.0.0.1\share\x".to_owned(),
        "//127.0.0.1/share/x".to_owned(),
        format!(r"\\?\{root}\x"),
        format!(r"\\.\{root}\x"),
        format!(r"\??\{root}\x"),
        r"\\?\UNC\127.0.0.1\share\x".to_owned(),
        r"\\.\pipe\x".to_owned(),
        r"\\?\GLOBALROOT\Device\HarddiskVolume1\x".to_owned(),
        r"\\localhost\C$\x".to_owned(),
        "C:x".to_owned(),
        r"\x".to_owned(),
        "x".to_owned(),
    ];
    for path in &elsewhere {
        refused(lab.dir.path(), &roots, path, true, Reason::Path);
    }
    for path in [r"C:\x", r"D:\x", r"C:\Windows\x", r"C:/elsewhere/x"] {
        let text = refused(lab.dir.path(), &roots, path, true, Reason::Outside);
        assert!(
            text.contains("is outside the directories that may be written into; use a path beneath"),
            "{text}"
        );
    }
    refused(lab.dir.path(), &roots, &format!(r"{root}-evil\x"), true, Reason::Outside);
    assert_eq!(*calls.lock().unwrap(), Vec::<Call>::new());
}

/// A directory with a root, in which links lead outside.
struct Planted {
    dir: PathBuf,
    _lab: Option<Lab>,
    _alone: MutexGuard<'static, ()>,
}

/// Where a junction in a root leads outside, and a dangling link too: made here on Windows; under Wine by whoever runs the
/// test, because Wine makes neither.
fn planted() -> Option<Planted> {
    // Under Wine there is one such place for all tests.
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = std::env::var_os("OUTPUTFILE_PLANTED") {
        return Some(Planted { dir: path.into(), _lab: None, _alone: alone });
    }
    let lab = Lab::new();
    let dir = lab.dir.path().to_path_buf();
    let junction = |link: &Path, to: &Path| {
        let made = Command::new("cmd").args(["/c", "mklink", "/J"]).args([link, to]).output().unwrap();
        made.status.success() && fs::symlink_metadata(link).is_ok()
    };
    if !junction(&lab.root.join("j"), &lab.outside) {
        eprintln!("skipped: no junction can be made here");
        return None;
    }
    if std::os::windows::fs::symlink_file(lab.outside.join("new.txt"), lab.root.join("dangling")).is_err() {
        eprintln!("skipped: the dangling link, which only an administrator may make");
    }
    Some(Planted { dir, _lab: Some(lab), _alone: alone })
}

#[test]
fn a_junction_below_the_root_is_refused_and_nothing_is_written_outside() {
    let Some(planted) = planted() else { return };
    let (root, outside) = (planted.dir.join("root"), planted.dir.join("outside"));
    if !root.join("j").exists() {
        eprintln!("skipped: nothing could be mounted in place of a junction");
        return;
    }
    let roots = open(Settings { roots: vec![root.clone()], ..Settings::default() });
    for below in [r"j\x.txt", r"j\a\b\x.txt", r"J\x.txt"] {
        let path = format!(r"{}\{below}", root.display());
        let error = roots.preflight(&path, true, &NoLedger).expect_err(below);
        assert!(matches!(error, SaveError::Link { .. }), "{error}");
        assert!(error.to_string().contains("beneath a root none is followed here"), "{error}");
        assert_eq!(error.reason(), Reason::Outside);
    }
    let itself = roots.preflight(&format!(r"{}\j", root.display()), true, &NoLedger).unwrap_err();
    assert_eq!(itself.reason(), Reason::TargetKind, "{itself}");
    assert!(is_empty(&outside));
    saved(&roots, &format!(r"{}\beside.txt", root.display()), true, b"the rest of the root is written");
    // A root whose way leads through a reparse point that says nothing is not used either.
    let through = open(Settings { roots: vec![root.join(r"j\deep")], ..Settings::default() });
    if std::env::var_os("OUTPUTFILE_PLANTED").is_some() {
        assert_eq!(through.remarks().len(), 1, "{:?}", through.remarks());
        through.preflight(&format!(r"{}\j\deep\x", root.display()), true, &NoLedger).unwrap_err();
        assert!(is_empty(&outside));
    }
}

#[test]
fn a_dangling_link_at_the_target_is_not_followed() {
    let Some(planted) = planted() else { return };
    let (root, outside) = (planted.dir.join("root"), planted.dir.join("outside"));
    let roots = open(Settings { roots: vec![root.clone()], ..Settings::default() });
    let path = format!(r"{}\dangling", root.display());
    for overwrite in [false, true] {
        let error = save(&roots, &path, overwrite, b"x").map(|saved| saved.path);
        assert!(error.is_err() || std::env::var_os("OUTPUTFILE_PLANTED").is_some(), "{error:?}");
        assert!(is_empty(&outside), "{error:?}");
        assert_eq!(temporaries(&root), Vec::<String>::new());
    }
}

#[test]
fn leftovers_of_the_dead_are_swept_and_those_of_the_living_are_not() {
    let lab = Lab::new();
    let roots = lab.roots();
    let left = lab.root.join(format!(".mcpproxy-{}.tmp", "a".repeat(32)));
    fs::write(&left, "left").unwrap();
    let other = lab.root.join(".mcpproxy-notes");
    fs::write(&other, "not a temporary").unwrap();
    let mut living = roots.begin(roots.preflight(&lab.at("living"), false, &NoLedger).unwrap()).unwrap();
    assert!(!left.exists());
    living.put(b"still here").unwrap();
    save(
        &open(Settings { reservations: Reservations::default(), ..lab.settings() }),
        &lab.at("x"),
        false,
        b"x",
    )
    .unwrap();
    living.commit().unwrap();
    assert_eq!(fs::read(lab.root.join("living")).unwrap(), b"still here");
    assert!(other.exists());
    assert_eq!(temporaries(&lab.root).len(), 1, "only the notes");
}

#[test]
fn a_writer_that_is_killed_leaves_no_target_and_what_the_next_save_removes() {
    if let Some(root) = task() {
        let roots = open(Settings { roots: vec![PathBuf::from(&root)], ..Settings::default() });
        let target = roots.preflight(&format!(r"{root}\x"), false, &NoLedger).unwrap();
        let mut writer = roots.begin(target).unwrap();
        writer.put(&[b'x'; 100_000]).unwrap();
        writer.sync().unwrap();
        println!("ready");
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let lab = Lab::new();
    let mut command = again(
        "a_writer_that_is_killed_leaves_no_target_and_what_the_next_save_removes",
        lab.root.to_str().unwrap(),
    );
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")));
    assert_eq!(temporaries(&lab.root).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!lab.root.join("x").exists());
    saved(&lab.roots(), &lab.at("y"), false, b"y");
    saved(&lab.roots(), &lab.at("x"), false, b"x");
}

#[test]
fn an_abandoned_writer_leaves_nothing() {
    let lab = Lab::new();
    let roots = lab.roots();
    let begin = |below: &str| {
        let target = roots.preflight(&lab.at(below), false, &NoLedger).unwrap();
        let mut writer = roots.begin(target).unwrap();
        writer.put(b"begun").unwrap();
        writer
    };
    let mut synced = begin("x");
    synced.sync().unwrap();
    drop(synced);
    drop(begin(r"new\x"));
    assert_eq!(tree(&lab.root), Vec::<String>::new());
    let small = open(Settings { max_bytes: 4, ..lab.settings() });
    assert_eq!(save(&small, &lab.at("x"), false, b"12345").unwrap_err().reason(), Reason::TooLarge);
    assert_eq!(tree(&lab.root), Vec::<String>::new());
}

#[test]
fn room_is_asked_for_before_and_its_lack_told_at_the_write() {
    let lab = Lab::new();
    let roots = open(Settings { min_free_bytes: u64::MAX, ..lab.settings() });
    let text = refused(lab.dir.path(), &roots, &lab.at("x"), false, Reason::Space);
    assert!(text.contains("bytes are free on the file system of"), "{text}");
    let full = lab.hooked(|call| (call == Call::Write).then_some(DISK_FULL));
    let error = save(&full, &lab.at("x"), false, b"x").unwrap_err();
    assert!(matches!(error, SaveError::Full { .. }), "{error}");
    assert_eq!(tree(&lab.root), Vec::<String>::new());
}

#[test]
fn each_call_that_may_be_lacking_has_a_fallback_or_a_clear_end() {
    let lab = Lab::new();
    let lacking =
        |calls: &'static [Call]| lab.hooked(move |call| calls.contains(&call).then_some(NOT_SUPPORTED));
    saved(&lacking(&[Call::RenameNew]), &lab.at("linked"), false, b"by link");
    let roots = lacking(&[Call::RenameNew]);
    assert_eq!(save(&roots, &lab.at("linked"), false, b"x").unwrap_err().reason(), Reason::Exists);
    saved(&lacking(&[Call::SyncDirectory]), &lab.at("unsynced"), false, b"a directory that cannot be synced");
    saved(&lacking(&[Call::Lock]), &lab.at("unlocked"), false, b"a file that cannot be locked");
    let none = lacking(&[Call::RenameNew, Call::LinkName]);
    let error = save(&none, &lab.at("none"), false, b"x").unwrap_err();
    assert!(matches!(error, SaveError::NoPublish { .. }), "{error}");
    assert!(!lab.root.join("none").exists());
    assert_eq!(temporaries(&lab.root), Vec::<String>::new());
}

#[test]
fn a_saved_file_is_opened_and_removed_again_only_if_it_is_the_same() {
    let lab = Lab::new();
    let roots = lab.roots();
    let one = saved(&roots, &lab.at(r"a\x.txt"), false, b"the whole answer");
    let path = one.path.to_str().unwrap();
    let mut text = String::new();
    roots.reopen_saved(path, &expected(&one)).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "the whole answer");
    roots.verify_saved(path, &expected(&one)).unwrap();
    fs::write(&one.path, "the whole ANSWER").unwrap();
    let error = roots.reopen_saved(path, &expected(&one)).unwrap_err();
    assert!(error.is_change() && error.to_string().contains("its content is another"), "{error}");
    assert!(roots.remove_saved(path, &expected(&one)).unwrap_err().is_change());
    assert!(one.path.exists());
    let two = saved(&roots, path, true, b"second");
    roots.remove_saved(path, &expected(&two)).unwrap();
    assert!(!two.path.exists());
    assert!(matches!(roots.reopen_saved(path, &expected(&two)), Err(ReadError::Gone { .. })));
    let elsewhere = roots.reopen_saved(r"C:\elsewhere\x", &expected(&two));
    assert!(matches!(elsewhere, Err(ReadError::NoRoot { .. })));
}

#[test]
fn a_root_that_is_moved_while_a_file_is_written_is_seen() {
    let lab = Lab::new();
    let roots = lab.roots();
    let mut writer = roots.begin(roots.preflight(&lab.at("x"), false, &NoLedger).unwrap()).unwrap();
    writer.put(b"x").unwrap();
    let moved = lab.dir.path().join("moved");
    // Windows lets nobody rename a directory in which a file is open. Wine does.
    if fs::rename(&lab.root, &moved).is_err() {
        writer.commit().unwrap();
        assert!(lab.root.join("x").exists());
        return;
    }
    fs::create_dir(&lab.root).unwrap();
    assert_eq!(writer.commit().unwrap_err().reason(), Reason::RootMoved);
    assert!(is_empty(&lab.root) && !moved.join("x").exists());
}

#[test]
fn one_directory_is_never_two_roots() {
    let lab = Lab::new();
    let root = lab.root.to_str().unwrap();
    let settings =
        |roots: &[&str]| Settings { roots: roots.iter().map(PathBuf::from).collect(), ..Settings::default() };
    for other in [root.to_uppercase(), format!(r"{root}\sub"), format!(r"{root}\")] {
        assert_eq!(problems(settings(&[root, &other])).len(), 1, "{other}");
    }
    // Another volume by its name, and the same directory.
    for other in [format!(r"\\?\{root}"), format!(r"\\?\{root}\sub")] {
        let roots = open(settings(&[root, &other]));
        let error = roots.preflight(&lab.at("x"), false, &NoLedger).unwrap_err();
        assert!(matches!(error, SaveError::Alias { .. }), "{error}");
    }
    let alone = open(settings(&[&format!(r"\\?\{root}")]));
    saved(&alone, &format!(r"\\?\{root}\verbatim.txt"), false, b"the volume of the root as it is written");
}

#[test]
fn the_short_name_of_a_root_is_no_second_root_and_no_way_into_it() {
    let lab = Lab::new();
    let mut command = Command::new("cmd");
    command.raw_arg(format!("/c for %I in (\"{}\") do @echo %~sI", lab.root.display()));
    let said = command.output().unwrap().stdout;
    let short = String::from_utf8_lossy(&said).trim().to_owned();
    if short.is_empty() || !short.contains('~') {
        eprintln!("skipped: no short names are made here ({short:?})");
        return;
    }
    refused(lab.dir.path(), &lab.roots(), &format!(r"{short}\x"), false, Reason::Outside);
    let both = open(Settings { roots: vec![lab.root.clone(), PathBuf::from(&short)], ..Settings::default() });
    let error = both.preflight(&lab.at("x"), false, &NoLedger).unwrap_err();
    assert!(matches!(error, SaveError::Alias { .. }), "{error}");
    let alone = open(Settings { roots: vec![PathBuf::from(&short)], ..Settings::default() });
    save(&alone, &format!(r"{short}\x"), false, b"as the root is spelled").unwrap();
    assert!(lab.root.join("x").exists());
}

#[test]
fn directories_of_the_system_and_homes_are_no_roots() {
    let home = std::env::var("USERPROFILE").unwrap();
    let windows = std::env::var("SystemRoot").unwrap();
    let drive = windows[..2].to_owned();
    let bad = [
        format!(r"{drive}\"),
        windows.clone(),
        format!(r"{windows}\Temp\out"),
        windows.to_uppercase(),
        format!(r"{drive}\Program Files\out"),
        format!(r"{drive}\ProgramData"),
        format!(r"{drive}\ProgramData\Microsoft\out"),
        format!(r"{drive}\Users"),
        format!(r"{drive}\users\somebody"),
        home,
        r"relative\root".to_owned(),
        r"C:\a\..\b".to_owned(),
        r"\\.\C:\x".to_owned(),
        r"C:\out\NUL".to_owned(),
    ];
    for root in bad {
        let found = problems(Settings { roots: vec![PathBuf::from(&root)], ..Settings::default() });
        assert_eq!(found.len(), 1, "{root}: {found:?}");
        assert_eq!(found[0].key, "tool_output_roots");
        assert!(!found[0].remedy.contains("/srv"), "{}", found[0].remedy);
    }
}

#[test]
fn our_own_directories_are_kept_out_by_identity() {
    let lab = Lab::new();
    let data = lab.root.join("data");
    fs::create_dir(&data).unwrap();
    let found = problems(Settings { data_dir: Some(data.clone()), ..lab.settings() });
    assert!(found[0].message.contains("our data directory"), "{found:?}");
    let verbatim = |path: &Path| PathBuf::from(format!(r"\\?\{}", path.display()));
    let found = problems(Settings { data_dir: Some(verbatim(&data)), ..lab.settings() });
    assert!(found[0].message.contains("by another name, our data directory"), "{found:?}");
    // One that is made after the configuration was loaded.
    let later = lab.root.join("later");
    let roots = open(Settings { data_dir: Some(verbatim(&later)), ..lab.settings() });
    fs::create_dir(&later).unwrap();
    let error = roots.preflight(&lab.at("x"), false, &NoLedger).unwrap_err();
    assert!(matches!(error, SaveError::Protected { .. }), "{error}");
}

#[test]
fn settings_that_mean_nothing_on_windows_say_so() {
    let lab = Lab::new();
    let found = problems(Settings { trusted_owners: vec!["alice".into(), "0".into()], ..lab.settings() });
    assert_eq!(found.len(), 2);
    assert!(
        found[0].to_string().contains("owners of files are judged on Unix only; leave it out"),
        "{}",
        found[0]
    );
    let found = problems(Settings { file_mode: 0o640, ..lab.settings() });
    assert!(found[0].to_string().contains("its directory hands down"), "{}", found[0]);
    let roots = open(Settings { trusted_directories: vec![lab.root.clone()], ..lab.settings() });
    assert!(roots.remarks()[0].message.contains("changes nothing here"), "{:?}", roots.remarks());
    saved(&roots, &lab.at("x"), false, b"x");
}
