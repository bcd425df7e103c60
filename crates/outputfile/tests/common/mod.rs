//! A small language for tests of saves: a laboratory of directories, saves in one line, mounts that go away.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs
)]

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outputfile::{Call, Hook, NoLedger, Reason, Roots, SaveError, Saved, Settings};
use sha2::{Digest as _, Sha256};

/// A directory with a root and an outside in it, both ours.
pub struct Lab {
    pub dir: tempfile::TempDir,
    pub root: PathBuf,
    pub outside: PathBuf,
}

impl Lab {
    pub fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    pub fn within(dir: &Path) -> Self {
        Self::of(tempfile::tempdir_in(dir).unwrap())
    }

    fn of(dir: tempfile::TempDir) -> Self {
        let at = dir.path().to_path_buf();
        assert!(at.is_absolute());
        let lab = Self { root: at.join("root"), outside: at.join("outside"), dir };
        make(&lab.root, 0o700);
        make(&lab.outside, 0o700);
        lab
    }

    /// A laboratory whose directory everybody may pass through.
    pub fn open_to_all() -> Self {
        let lab = Self::new();
        fs::set_permissions(lab.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        lab
    }

    pub fn settings(&self) -> Settings {
        Settings { roots: vec![self.root.clone()], ..Settings::default() }
    }

    pub fn roots(&self) -> Roots {
        open(self.settings())
    }

    pub fn hooked(&self, hook: impl Fn(Call) -> Option<i32> + Send + Sync + 'static) -> Roots {
        open(Settings { hook: Some(Hook::new(hook)), ..self.settings() })
    }

    /// A path below the root.
    pub fn at(&self, below: &str) -> String {
        format!("{}/{below}", text(&self.root))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.parent().unwrap().join(name)
    }
}

/// The way of writing that `OUTPUTFILE_STRATEGY` forces on every root of a test, as a kernel or file system without the
/// better ones would: `rename` and `link` have no nameless files, `link` no rename that spares a name either, and
/// `portable` walks by hand.
pub fn strategy() -> Option<String> {
    let name = std::env::var("OUTPUTFILE_STRATEGY").ok().filter(|name| !name.is_empty())?;
    assert!(["nameless", "rename", "link", "portable"].contains(&name.as_str()), "no strategy {name:?}");
    Some(name)
}

fn forced(call: Call) -> Option<i32> {
    match (strategy().as_deref(), call) {
        (Some("rename" | "link"), Call::OpenNameless) => Some(libc::EOPNOTSUPP),
        (Some("link"), Call::RenameNew | Call::Exchange) => Some(libc::EINVAL),
        (Some("portable"), Call::OpenBeneath) => Some(libc::ENOSYS),
        _ => None,
    }
}

/// Whether the strategy that is forced is one of these.
pub fn forces(names: &[&str]) -> bool {
    strategy().is_some_and(|forced| names.contains(&forced.as_str()))
}

/// The calls that give a new file its name: the first one of each strategy that is made at all.
pub const NAMING: [Call; 2] = [Call::LinkHandle, Call::RenameNew];

/// Tells a figure of the laboratory: on stderr, and as a line of the file that `OUTPUTFILE_REPORT` names.
pub fn tell(suite: &str, what: &str, count: u64) {
    use std::io::Write as _;
    eprintln!("laboratory: {suite}: {what}: {count}");
    if let Some(path) = std::env::var_os("OUTPUTFILE_REPORT") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        // One write, so that lines of several processes do not mix.
        file.write_all(format!("{suite}\t{what}\t{count}\n").as_bytes()).unwrap();
    }
}

pub fn open(settings: Settings) -> Roots {
    let own = settings.hook.clone();
    let hook = match strategy() {
        Some(_) => {
            Some(Hook::new(move |call| own.as_ref().and_then(|own| own.ask(call)).or_else(|| forced(call))))
        }
        None => own,
    };
    let settings = Settings { hook, ..settings };
    Roots::open(settings).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

pub fn make(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Preflight, write, commit.
pub fn save(roots: &Roots, path: &str, overwrite: bool, bytes: &[u8]) -> Result<Saved, SaveError> {
    let target = roots.preflight(path, overwrite, &NoLedger)?;
    let mut writer = roots.begin(target)?;
    for piece in bytes.chunks(1 << 16) {
        writer.put(piece)?;
    }
    writer.commit()
}

/// A save that must work, and all that must be true then.
pub fn saved(roots: &Roots, path: &str, overwrite: bool, bytes: &[u8]) -> Saved {
    let saved = save(roots, path, overwrite, bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_saved(&saved, bytes);
    saved
}

pub fn assert_saved(saved: &Saved, bytes: &[u8]) {
    assert_eq!(fs::read(&saved.path).unwrap(), bytes, "{}", saved.path.display());
    assert_eq!(saved.bytes, u64::try_from(bytes.len()).unwrap());
    assert_eq!(saved.sha256, <[u8; 32]>::from(Sha256::digest(bytes)));
    let meta = fs::symlink_metadata(&saved.path).unwrap();
    assert!(meta.is_file());
    assert_eq!((saved.identity.dev, saved.identity.ino), (meta.dev(), meta.ino()));
    assert_eq!(saved.identity.size, meta.size());
    assert_eq!(saved.identity.ctime_ns, meta.ctime() * 1_000_000_000 + meta.ctime_nsec());
    assert_eq!(temporaries(saved.path.parent().unwrap()), Vec::<String>::new());
}

/// A preflight that must refuse, and change nothing beneath the laboratory.
pub fn refused(lab: &Lab, roots: &Roots, path: &str, overwrite: bool) -> SaveError {
    let before = tree(lab.dir.path());
    let Err(error) = roots.preflight(path, overwrite, &NoLedger) else { panic!("{path:?} was not refused") };
    assert_eq!(tree(lab.dir.path()), before, "{path:?}: a refusal changes nothing");
    assert!(!error.to_string().starts_with("save_to_file"), "{error}");
    error
}

pub fn assert_refused(lab: &Lab, roots: &Roots, path: &str, overwrite: bool, reason: Reason) -> String {
    let error = refused(lab, roots, path, overwrite);
    assert_eq!(error.reason(), reason, "{path:?}: {error}");
    error.to_string()
}

/// Everything beneath a directory, in order: kind, mode, owner, inode, name, and what is in it or where it leads.
pub fn tree(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> = everything(dir).into_iter().map(|(path, meta)| line(&path, &meta)).collect();
    all.sort();
    all
}

fn line(path: &Path, meta: &fs::Metadata) -> String {
    let content = if meta.is_file() {
        fs::read(path).map_or_else(|error| error.to_string(), |bytes| format!("{:x?}", Sha256::digest(bytes)))
    } else if meta.is_symlink() {
        fs::read_link(path).unwrap().display().to_string()
    } else {
        String::new()
    };
    format!("{:o} {} {} {} {} {content}", meta.mode(), meta.uid(), meta.dev(), meta.ino(), path.display())
}

/// Everything beneath a directory, and itself. What may not be read is left out.
pub fn everything(dir: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let (mut all, mut todo) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(next) = todo.pop() {
        let meta = fs::symlink_metadata(&next).unwrap();
        if meta.is_dir() {
            todo.extend(fs::read_dir(&next).into_iter().flatten().map(|entry| entry.unwrap().path()));
        }
        all.push((next, meta));
    }
    all
}

/// Temporaries of ours in a directory.
pub fn temporaries(dir: &Path) -> Vec<String> {
    let names =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".mcpproxy-")).collect()
}

pub fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

pub fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// A hook that fails one kind of call with one error, always.
pub fn failing(call: Call, code: i32) -> impl Fn(Call) -> Option<i32> + Send + Sync + 'static {
    move |asked| (asked == call).then_some(code)
}

/// A hook that does something once, before the first call of a kind.
pub fn once(
    call: Call,
    act: impl Fn() + Send + Sync + 'static,
) -> impl Fn(Call) -> Option<i32> + Send + Sync + 'static {
    once_of(&[call], act)
}

/// A hook that does something once, before the first call of one of these kinds.
pub fn once_of<A: Fn() + Send + Sync + 'static>(
    calls: &[Call],
    act: A,
) -> impl Fn(Call) -> Option<i32> + Send + Sync + 'static + use<A> {
    let (calls, done) = (calls.to_vec(), Arc::new(AtomicUsize::new(0)));
    move |asked| {
        if calls.contains(&asked) && done.fetch_add(1, Ordering::SeqCst) == 0 {
            act();
        }
        None
    }
}

pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
    assert!(std::env::var_os("CI").is_none() || !why.contains("suites"), "in CI the suites must be there");
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A mount that goes away with this.
pub struct Mount(PathBuf);

impl Mount {
    pub fn tmpfs(at: &Path, options: &str) -> Option<Self> {
        let data = std::ffi::CString::new(options).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        Self::done(rustix::mount::mount("tmpfs", at, "tmpfs", flags, data.as_c_str()), at)
    }

    pub fn bind(from: &Path, at: &Path) -> Option<Self> {
        Self::done(rustix::mount::mount_bind(from, at), at)
    }

    pub fn read_only(from: &Path, at: &Path) -> Option<Self> {
        let mount = Self::bind(from, at)?;
        let flags = rustix::mount::MountFlags::BIND | rustix::mount::MountFlags::RDONLY;
        Self::done(rustix::mount::mount_remount(at, flags, c""), at).map(|again| {
            std::mem::forget(again);
            mount
        })
    }

    pub fn overlay(at: &Path, lower: &Path, upper: &Path, work: &Path) -> Option<Self> {
        let options = format!("lowerdir={},upperdir={},workdir={}", text(lower), text(upper), text(work));
        let data = std::ffi::CString::new(options).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        Self::done(rustix::mount::mount("overlay", at, "overlay", flags, data.as_c_str()), at)
    }

    fn done(result: rustix::io::Result<()>, at: &Path) -> Option<Self> {
        match result {
            Ok(()) => Some(Self(at.to_path_buf())),
            Err(error) => {
                skip(&format!("mounting is not allowed here ({error})"));
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Runs one test of this binary again in a process of its own, with a task in its environment.
pub fn again(test: &str, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("OUTPUTFILE_TASK", task);
    command
}

pub fn task() -> Option<String> {
    std::env::var("OUTPUTFILE_TASK").ok()
}

/// Waits for a child; its output is in the message if it failed.
pub fn finish(mut command: Command) {
    let output = command.output().unwrap();
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&both));
}

/// The folder of the public suites, if it is there.
pub fn suites() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("MCPPROXY_SUITES") {
        return Some(PathBuf::from(path));
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().map(|above| above.join("shared/suites")).find(|path| path.is_dir());
    if found.is_none() {
        skip("the public suites are not beside the checkout");
    }
    found
}

pub fn read_lossy(path: &Path) -> String {
    let mut bytes = Vec::new();
    fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
