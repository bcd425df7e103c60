//! Scenarios: what stands on the disk before, what is done, and what must be there afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use outputfile::{
    Expected, NoLedger, ReadError, Reason, RootProblem, Roots, SaveError, Saved, Settings, name,
};
use std::io::Read as _;

use super::{Probe, Way};
use crate::common::{self, Lab, make, temporaries, text};

pub const OLD: &[u8] = b"what was there before";
/// Written in three pieces.
pub const NEW: &[u8] = &[7; 150_000];
/// Another than the default, so that modes have to be set.
const MODE: u32 = 0o640;
const NOBODY: u32 = 65534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    New,
    /// A link on the way to the root, one below it, and three directories to be made.
    NewDirectories,
    /// The root is missing, two directories on its way, and one below it.
    MissingRoot,
    Overwrite,
    /// The file that is replaced has a second name elsewhere.
    HardLinked,
    OwnersRoot,
    /// A killed writer left a temporary.
    Leftover,
    /// The writer is dropped before its file is published.
    GivenUp,
    Removal,
    Verification,
    Reopening,
    Loading,
}

const ALL: [Scenario; 12] = [
    Scenario::New,
    Scenario::NewDirectories,
    Scenario::MissingRoot,
    Scenario::Overwrite,
    Scenario::HardLinked,
    Scenario::OwnersRoot,
    Scenario::Leftover,
    Scenario::GivenUp,
    Scenario::Removal,
    Scenario::Verification,
    Scenario::Reopening,
    Scenario::Loading,
];

impl Scenario {
    pub const ALL: [Self; 12] = ALL;

    pub fn is_possible(self) -> bool {
        self != Self::OwnersRoot || common::is_root()
    }

    /// It ends with a file at the target.
    pub fn saves(self) -> bool {
        use Scenario::{HardLinked, Leftover, MissingRoot, New, NewDirectories, Overwrite, OwnersRoot};
        matches!(
            self,
            New | NewDirectories | MissingRoot | Overwrite | HardLinked | OwnersRoot | Leftover
        )
    }

    /// It begins with a file at the target.
    pub fn has_old(self) -> bool {
        use Scenario::{HardLinked, Overwrite, Removal, Reopening, Verification};
        matches!(self, Overwrite | HardLinked | Removal | Reopening | Verification)
    }

    /// Directories that are made, from the laboratory down, with their modes.
    fn makes(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::NewDirectories => {
                &[("root/real/n1", 0o750), ("root/real/n1/n2", 0o750), ("root/real/n1/n2/n3", 0o750)]
            }
            Self::MissingRoot => &[
                ("gone", 0o700),
                ("gone/deep", 0o700),
                ("gone/deep/root", 0o700),
                ("gone/deep/root/sub", 0o750),
            ],
            Self::OwnersRoot => &[("root/n", 0o750)],
            Self::GivenUp => &[("root/n", 0o750), ("root/n/m", 0o750)],
            _ => &[],
        }
    }
}

/// What was done.
#[derive(Debug)]
pub enum Done {
    Saved(Saved),
    GivenUp,
    Removed,
    Verified,
    Read(Vec<u8>),
    Loaded(Roots),
}

/// Why it was not.
#[derive(Debug)]
pub enum Failed {
    Save(SaveError),
    Read(ReadError),
    Load(Vec<RootProblem>),
}

impl Failed {
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Save(error) | Self::Read(ReadError::Root(error)) => Some(error.reason()),
            Self::Read(ReadError::Io { .. }) => Some(Reason::Io),
            Self::Read(_) | Self::Load(_) => None,
        }
    }
}

/// A laboratory set up for a scenario.
pub struct World {
    pub lab: Lab,
    pub scenario: Scenario,
    pub way: &'static Way,
    pub probe: Probe,
    pub roots: Roots,
    /// As it is asked for.
    pub target: String,
    /// Where the file is, links resolved.
    pub place: PathBuf,
    record: Option<Expected>,
    before: BTreeMap<PathBuf, String>,
}

impl World {
    pub fn new(scenario: Scenario, way: &'static Way, home: &Path) -> Self {
        let lab = Lab::within(home);
        let (root, below) = prepare(scenario, &lab);
        let target = format!("{}/{below}", text(&root));
        let place = lab.dir.path().join(match scenario {
            Scenario::NewDirectories => "root/real/n1/n2/n3/x",
            Scenario::MissingRoot => "gone/deep/root/sub/x",
            _ => target.strip_prefix(text(lab.dir.path())).unwrap().trim_start_matches('/'),
        });
        let probe = Probe::new(way);
        let owner = scenario == Scenario::OwnersRoot;
        let settings = Settings {
            roots: vec![root],
            file_mode: MODE,
            min_free_bytes: 0,
            trusted_owners: if owner { vec![NOBODY.to_string()] } else { Vec::new() },
            hook: Some(probe.hook()),
            ..Settings::default()
        };
        let roots = common::open(settings);
        let record = matches!(scenario, Scenario::Removal | Scenario::Verification | Scenario::Reopening)
            .then(|| {
                let saved = common::save(&roots, &target, false, OLD).unwrap();
                Expected { identity: saved.identity, sha256: saved.sha256, bytes: saved.bytes }
            });
        let before = snapshot(lab.dir.path());
        Self { lab, scenario, way, probe, roots, target, place, record, before }
    }

    /// Does what the scenario is about.
    pub fn run(&self) -> Result<Done, Failed> {
        let record = self.record.as_ref();
        match self.scenario {
            Scenario::GivenUp => self.give_up().map_err(Failed::Save),
            Scenario::Removal => {
                self.roots.remove_saved(&self.target, record.unwrap()).map_err(Failed::Read)?;
                Ok(Done::Removed)
            }
            Scenario::Verification => {
                self.roots.verify_saved(&self.target, record.unwrap()).map_err(Failed::Read)?;
                Ok(Done::Verified)
            }
            Scenario::Reopening => {
                let mut file =
                    self.roots.reopen_saved(&self.target, record.unwrap()).map_err(Failed::Read)?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(|error| match error.into_inner() {
                    Some(inner) => Failed::Read(*inner.downcast::<ReadError>().unwrap()),
                    None => panic!("an error of reading is one of ours"),
                })?;
                Ok(Done::Read(bytes))
            }
            Scenario::Loading => {
                Roots::open(self.roots.settings().clone()).map(Done::Loaded).map_err(Failed::Load)
            }
            scenario => {
                let overwrite = scenario.has_old();
                common::save(&self.roots, &self.target, overwrite, NEW).map(Done::Saved).map_err(Failed::Save)
            }
        }
    }

    fn give_up(&self) -> Result<Done, SaveError> {
        let mut writer = self.roots.begin(self.roots.preflight(&self.target, false, &NoLedger)?)?;
        writer.put(NEW)?;
        writer.sync()?;
        drop(writer);
        Ok(Done::GivenUp)
    }

    /// What stands at the target.
    pub fn there(&self) -> Option<Vec<u8>> {
        fs::read(&self.place).ok()
    }

    /// The target is what it was before.
    pub fn is_unchanged(&self) -> bool {
        self.there().as_deref() == self.scenario.has_old().then_some(OLD)
    }

    /// The new file is there: whole, with its mode and owner, in directories with theirs.
    pub fn assert_whole(&self, what: &str) {
        assert_eq!(self.there().as_deref(), Some(NEW), "{what}: the new file is whole");
        let meta = fs::symlink_metadata(&self.place).unwrap();
        assert_eq!(meta.mode() & 0o7777, MODE, "{what}: the mode is set");
        for (dir, mode) in self.scenario.makes() {
            assert_eq!(common::mode(&self.lab.dir.path().join(dir)), *mode, "{what}: {dir}");
        }
        if self.scenario == Scenario::OwnersRoot {
            assert_eq!(meta.uid(), NOBODY, "{what}: it belongs to the owner of the root");
        }
    }

    pub fn assert_saved(&self, saved: &Saved, what: &str) {
        self.assert_whole(what);
        let meta = fs::symlink_metadata(&self.place).unwrap();
        assert_eq!(fs::symlink_metadata(&saved.path).unwrap().ino(), meta.ino(), "{what}: its path leads to it");
        assert_eq!(saved.bytes, u64::try_from(NEW.len()).unwrap(), "{what}");
        assert_eq!(saved.replaced, self.scenario.has_old(), "{what}");
        let told = saved.identity;
        assert_eq!((told.dev, told.ino, told.size), (meta.dev(), meta.ino(), meta.size()), "{what}");
        if meta.nlink() == 1 {
            let ctime_ns = meta.ctime() * 1_000_000_000 + meta.ctime_nsec();
            assert_eq!(told.ctime_ns, ctime_ns, "{what}: it is known again without its hash");
        }
    }

    /// All temporaries there are, and what else there is now and was not before, but for the target.
    /// Nothing else may have changed, and what was there before is there, but for leftovers.
    pub fn extras(&self, what: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let after = snapshot(self.lab.dir.path());
        let is_temporary = |path: &Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(name::TEMPORARY_PREFIX))
        };
        for (path, was) in &self.before {
            let same = after.get(path) == Some(was) || *path == self.place;
            assert!(same || is_temporary(path), "{what}: {} is not what it was", path.display());
        }
        let (left, others): (Vec<PathBuf>, Vec<PathBuf>) =
            after.into_keys().partition(|path| is_temporary(path));
        let is_new = |path: &PathBuf| *path != self.place && !self.before.contains_key(path);
        (left, others.into_iter().filter(is_new).collect())
    }

    /// Whether these are directories that the scenario makes, and nothing else.
    pub fn are_made(&self, paths: &[PathBuf]) -> bool {
        paths.iter().all(|path| {
            path.is_dir() && self.scenario.makes().iter().any(|(dir, _)| self.lab.dir.path().join(dir) == *path)
        })
    }

    /// Roots of another process: nothing is reserved there and nothing learnt.
    pub fn others(&self) -> Roots {
        let settings = self.roots.settings().clone();
        common::open(Settings { reservations: Default::default(), ..settings })
    }

    /// A save to the same target works at once, and leaves no temporary of anybody.
    pub fn assert_works(&self, roots: &Roots, what: &str) {
        let saved = common::save(roots, &self.target, true, b"again")
            .unwrap_or_else(|error| panic!("{what}: the next save: {error}"));
        assert_eq!(fs::read(&saved.path).unwrap(), b"again", "{what}: the next save");
        let left = temporaries(self.place.parent().unwrap());
        assert_eq!(left, Vec::<String>::new(), "{what}: the next save removes what is left");
    }

    /// The second name of the old file still has the old bytes.
    pub fn assert_second_name(&self, what: &str) {
        if self.scenario == Scenario::HardLinked {
            assert_eq!(fs::read(self.lab.outside.join("second")).unwrap(), OLD, "{what}: the second name");
        }
    }
}

/// Makes what stands there before. The root, and the target below it.
fn prepare(scenario: Scenario, lab: &Lab) -> (PathBuf, &'static str) {
    let old = |path: PathBuf| {
        fs::write(&path, OLD).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    };
    match scenario {
        Scenario::NewDirectories => {
            symlink(lab.dir.path(), lab.path("way")).unwrap();
            make(&lab.root.join("real"), 0o700);
            symlink("real", lab.root.join("led")).unwrap();
            return (lab.path("way/root"), "led/n1/n2/n3/x");
        }
        Scenario::MissingRoot => return (lab.path("gone/deep/root"), "sub/x"),
        Scenario::OwnersRoot => {
            fs::set_permissions(lab.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
            chown(&lab.root, Some(NOBODY), Some(NOBODY)).unwrap();
            return (lab.root.clone(), "n/x");
        }
        Scenario::GivenUp => return (lab.root.clone(), "n/m/x"),
        Scenario::Overwrite => old(lab.root.join("x")),
        Scenario::HardLinked => {
            old(lab.outside.join("second"));
            fs::hard_link(lab.outside.join("second"), lab.root.join("x")).unwrap();
        }
        Scenario::Leftover => {
            fs::write(lab.root.join(name::temporary([9; 16])), "left").unwrap();
        }
        _ => {}
    }
    (lab.root.clone(), "x")
}

/// Everything beneath a directory: kind, mode, owner, size and inode by path.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
    let (mut all, mut todo) = (BTreeMap::new(), vec![dir.to_path_buf()]);
    while let Some(next) = todo.pop() {
        let meta = fs::symlink_metadata(&next).unwrap();
        if meta.is_dir() {
            todo.extend(fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()));
        }
        let size = if meta.is_dir() { 0 } else { meta.size() };
        all.insert(next, format!("{:o} {} {size} {}", meta.mode(), meta.uid(), meta.ino()));
    }
    all
}
