//! The power is cut for real: a small ext4 in memory is shut down before a call, without what it had not made durable,
//! and mounted again.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use outputfile::{Roots, SaveError, Saved, Settings};

use crate::common::{self, make, skip, temporaries, text};
use crate::ordeal::{Home, OLD, Plan, Probe, Way, in_parts, is_full, ways};

const NEW: &[u8] = &[9; 150_000];
/// `FS_IOC_SHUTDOWN`, and its flag that gives up the journal as well, as a power cut does.
const SHUTDOWN: u64 = 0x8004_587d;
const WITHOUT_JOURNAL: u32 = 2;

/// A file system in a file, and where it is mounted.
struct Disk {
    home: Home,
}

impl Disk {
    /// `None`: not here.
    fn new() -> Option<Self> {
        let disk = Self { home: Home::in_memory() };
        make(&disk.at(), 0o755);
        let image = fs::File::create(disk.image()).unwrap();
        image.set_len(16 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-N", "128", text(&disk.image())]).output();
        if !made.is_ok_and(|made| made.status.success()) {
            skip("mkfs.ext4 is not here");
            return None;
        }
        if !common::is_root() || !disk.mount() {
            skip("mounting an ext4 image is not allowed here");
            return None;
        }
        disk.unmount();
        Some(disk)
    }

    fn image(&self) -> PathBuf {
        self.home.path().join("image")
    }

    fn at(&self) -> PathBuf {
        self.home.path().join("disk")
    }

    fn root(&self) -> PathBuf {
        self.at().join("root")
    }

    fn mount(&self) -> bool {
        let mounted =
            Command::new("mount").args(["-o", "loop", text(&self.image()), text(&self.at())]).output();
        mounted.is_ok_and(|mounted| mounted.status.success())
    }

    fn unmount(&self) {
        rustix::mount::unmount(self.at(), rustix::mount::UnmountFlags::empty()).unwrap();
    }

    /// What stands on it before, as an image.
    fn prepare(&self, overwrite: bool) -> PathBuf {
        assert!(self.mount());
        let _ = fs::remove_dir_all(self.root());
        make(&self.root(), 0o700);
        if overwrite {
            fs::write(self.root().join("x"), OLD).unwrap();
        }
        self.unmount();
        let before = self.home.path().join("before");
        fs::copy(self.image(), &before).unwrap();
        before
    }

    /// The same disk as before, mounted.
    fn begin(&self, before: &Path) {
        fs::copy(before, self.image()).unwrap();
        assert!(self.mount());
    }

    /// Cuts the power. False: this system cannot.
    fn cut(at: &Path) -> bool {
        let disk = fs::File::open(at).unwrap();
        // SAFETY: the handle is open, and the kernel reads one number, which outlives the call.
        #[allow(unsafe_code)]
        let result = unsafe { libc::ioctl(disk.as_raw_fd(), SHUTDOWN, &WITHOUT_JOURNAL) };
        result == 0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.at(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_power_cut_before_any_call_leaves_the_old_file_or_the_new_one_and_after_success_the_new_one() {
    const TEST: &str =
        "power::a_power_cut_before_any_call_leaves_the_old_file_or_the_new_one_and_after_success_the_new_one";
    let counts = in_parts(TEST, |mine, seed| {
        let mut points = 0;
        let Some(disk) = Disk::new() else { return [0] };
        for (overwrite, below) in [(false, "n/m/x"), (true, "x")] {
            let before = disk.prepare(overwrite);
            for way in ways() {
                disk.begin(&before);
                let (_, count) = play(&disk, way, below, overwrite, None);
                disk.unmount();
                for at in (0..=count).filter(|at| mine(*at)) {
                    // Always after success, and in the full run before every call.
                    if at < count && !is_full() && !(at + seed).is_multiple_of(16) {
                        continue;
                    }
                    disk.begin(&before);
                    let (ended, _) = play(&disk, way, below, overwrite, Some(at));
                    if at == count && !Disk::cut(&disk.at()) {
                        disk.unmount();
                        skip("this kernel does not shut an ext4 down");
                        return [0];
                    }
                    disk.unmount();
                    assert!(disk.mount());
                    judge(&disk, way, below, overwrite, &ended, at == count);
                    disk.unmount();
                    points += 1;
                }
            }
        }
        [points]
    });
    match counts {
        Some([0]) => skip("no ext4 can be mounted and shut down here"),
        Some([points]) => common::tell("crash", "power cuts", points),
        None => {}
    }
}

fn settings(disk: &Disk, probe: Option<&Probe>) -> Settings {
    Settings {
        roots: vec![disk.root()],
        min_free_bytes: 0,
        hook: probe.map(Probe::hook),
        ..Settings::default()
    }
}

/// Saves, and cuts the power before the call of this number. Also how many calls there were.
fn play(
    disk: &Disk,
    way: &'static Way,
    below: &str,
    overwrite: bool,
    cut: Option<usize>,
) -> (Result<Saved, SaveError>, usize) {
    let probe = Probe::new(way);
    let roots = common::open(settings(disk, Some(&probe)));
    let at = disk.at();
    probe.plan(cut.map_or(Plan::Watch, |number| {
        Plan::At(
            number,
            Arc::new(move |_| {
                Disk::cut(&at);
            }),
        )
    }));
    let ended = common::save(&roots, text(&disk.root().join(below)), overwrite, NEW);
    (ended, probe.stop().len())
}

fn judge(disk: &Disk, way: &Way, below: &str, overwrite: bool, ended: &Result<Saved, SaveError>, last: bool) {
    let what = format!("{below}, {}: {ended:?}", way.name);
    let path = disk.root().join(below);
    match fs::read(&path) {
        Ok(bytes) => {
            let whole = bytes == NEW && common::mode(&path) == 0o600;
            assert!(whole || (overwrite && bytes == OLD && ended.is_err()), "{what}: {} bytes", bytes.len());
        }
        Err(_) => assert!(!overwrite && ended.is_err(), "{what}: it is gone"),
    }
    assert!(!last || ended.is_ok(), "{what}");
    let roots: Roots = common::open(settings(disk, None));
    let saved = common::save(&roots, text(&path), true, b"again").unwrap();
    assert_eq!(fs::read(&saved.path).unwrap(), b"again", "{what}");
    assert_eq!(temporaries(path.parent().unwrap()), Vec::<String>::new(), "{what}");
}
