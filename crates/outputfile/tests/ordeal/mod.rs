//! Saves under ordeal, shared by the fault and the crash laboratory: ways of writing, calls that are watched, failed or
//! cut short by their number, and tests that are done in parts by processes of their own.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod scenario;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use outputfile::{Call, Hook};

pub use scenario::{Done, Failed, OLD, Scenario, World};

/// A way of writing: what the system is to lack for it, and with which error it says so.
#[derive(Debug)]
pub struct Way {
    pub name: &'static str,
    lacks: &'static [(Call, i32)],
}

/// The four strategies, and two that bring the calls which only old kernels need.
pub const WAYS: [Way; 6] = [
    Way { name: "nameless", lacks: &[] },
    Way { name: "rename", lacks: &[(Call::OpenNameless, libc::EOPNOTSUPP)] },
    Way {
        name: "link",
        lacks: &[
            (Call::OpenNameless, libc::EOPNOTSUPP),
            (Call::RenameNew, libc::EINVAL),
            (Call::Exchange, libc::EINVAL),
        ],
    },
    Way { name: "portable", lacks: &[(Call::OpenBeneath, libc::ENOSYS)] },
    Way {
        name: "through proc",
        lacks: &[
            (Call::OpenBeneath, libc::ENOSYS),
            (Call::Access, libc::ENOSYS),
            (Call::MountNumber, libc::ENOSYS),
            (Call::LinkHandle, libc::ENOENT),
        ],
    },
    Way {
        name: "copied",
        lacks: &[(Call::LinkHandle, libc::ENOENT), (Call::LinkThroughProc, libc::ENOENT)],
    },
];

impl Way {
    fn lack(&self, call: Call) -> Option<i32> {
        self.lacks.iter().find(|(lacking, _)| *lacking == call).map(|(_, code)| *code)
    }

    /// Whether the file has no name until it is published, unless it replaces another.
    pub fn is_nameless(&self) -> bool {
        !matches!(self.name, "rename" | "link" | "copied")
    }
}

/// All ways, or the one that `OUTPUTFILE_STRATEGY` forces.
pub fn ways() -> Vec<&'static Way> {
    let forced = crate::common::strategy();
    WAYS.iter().filter(|way| forced.as_deref().is_none_or(|name| name == way.name)).collect()
}

/// Each scenario that can be played here, by each way.
pub fn combinations(scenarios: &[Scenario]) -> Vec<(Scenario, &'static Way)> {
    let possible = scenarios.iter().filter(|scenario| scenario.is_possible());
    possible.flat_map(|scenario| ways().into_iter().map(|way| (*scenario, way))).collect()
}

/// Everything is done, and not a sample of it.
pub fn is_full() -> bool {
    std::env::var("OUTPUTFILE_LAB").is_ok_and(|value| value == "full")
}

/// The seed of what is drawn: `OUTPUTFILE_SEED`, or the time.
pub fn seed() -> usize {
    let now = || {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos() as usize
    };
    let seed = std::env::var("OUTPUTFILE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    eprintln!("OUTPUTFILE_SEED={seed}");
    seed
}

/// Where laboratories stand: in memory where that may be mounted, because each save waits for the disk several times.
pub struct Home {
    mount: Option<crate::common::Mount>,
    dir: tempfile::TempDir,
}

impl Home {
    pub fn in_memory() -> Self {
        let mut home = Self::on_disk();
        home.mount = crate::common::Mount::tmpfs(home.path(), "mode=755");
        home
    }

    pub fn on_disk() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { mount: None, dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// A call that was asked for, and the error that it got in place of being made.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub call: Call,
    pub code: Option<i32>,
}

/// A call that fails: the one of this number, and with `again` all of its kind after it.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub at: usize,
    pub code: i32,
    pub again: bool,
}

type Act = Arc<dyn Fn(Call) + Send + Sync>;

/// What is done with the calls.
#[derive(Clone)]
pub enum Plan {
    /// Only what the way lacks fails, and nothing is noted.
    Off,
    /// The calls are noted.
    Watch,
    Fail(Vec<Fault>),
    /// Something is done before the call of this number.
    At(usize, Act),
    /// Something is done before each call.
    Each(Act),
}

/// The hook of one world: notes the calls and does what is planned.
#[derive(Clone)]
pub struct Probe(Arc<(&'static Way, Mutex<State>)>);

struct State {
    plan: Plan,
    asked: Vec<Asked>,
}

impl Probe {
    pub fn new(way: &'static Way) -> Self {
        Self(Arc::new((way, Mutex::new(State { plan: Plan::Off, asked: Vec::new() }))))
    }

    pub fn hook(&self) -> Hook {
        let own = self.clone();
        Hook::new(move |call| own.ask(call))
    }

    /// Begins to count the calls anew.
    pub fn plan(&self, plan: Plan) {
        *self.state() = State { plan, asked: Vec::new() };
    }

    /// Stops; what was noted.
    pub fn stop(&self) -> Vec<Asked> {
        let mut state = self.state();
        state.plan = Plan::Off;
        std::mem::take(&mut state.asked)
    }

    fn ask(&self, call: Call) -> Option<i32> {
        let mut state = self.state();
        let lack = self.0.0.lack(call);
        let (number, plan) = (state.asked.len(), state.plan.clone());
        let planned = match plan {
            Plan::Off => return lack,
            Plan::Watch => None,
            Plan::Fail(faults) => faults
                .iter()
                .find(|fault| {
                    let kind = || state.asked.get(fault.at).is_some_and(|first| first.call == call);
                    fault.at == number || (fault.again && kind())
                })
                .map(|fault| fault.code),
            Plan::At(at, act) => {
                if at == number {
                    act(call);
                }
                None
            }
            Plan::Each(act) => {
                act(call);
                None
            }
        };
        let code = planned.or(lack);
        state.asked.push(Asked { call, code });
        code
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the call that gave the file its name, in a save that worked.
pub fn publishing(asked: &[Asked]) -> Option<usize> {
    asked.iter().rposition(|asked| asked.code.is_none() && is_naming(asked.call))
}

pub fn is_naming(call: Call) -> bool {
    use Call::{Exchange, LinkHandle, LinkName, LinkThroughProc, RenameNew, RenameOver};
    matches!(call, LinkHandle | LinkThroughProc | LinkName | RenameNew | RenameOver | Exchange)
}

pub fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs a test in parts, each in a process that has nothing else to do. In such a process: runs the part and ends.
/// In the first one: the sums of what the parts counted.
pub fn in_parts<const N: usize>(
    test: &str,
    part: impl FnOnce(&dyn Fn(usize) -> bool, usize) -> [u64; N],
) -> Option<[u64; N]> {
    if let Some(task) = crate::common::task() {
        let numbers: Vec<usize> = task.split(' ').map(|word| word.parse().unwrap()).collect();
        let [number, of, seed] = numbers[..] else { panic!("{task}") };
        let counts = part(&|index| index % of == number, seed);
        println!("counted{}", counts.map(|count| format!(" {count}")).concat());
        return None;
    }
    let of = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let seed = seed() % 1_000_000;
    let children: Vec<Child> = (0..of)
        .map(|number| {
            let mut child = crate::common::again(test, &format!("{number} {of} {seed}"));
            child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut sums = [0; N];
    let ended: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    for output in ended {
        let both = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{}: {both}", output.status);
        let line = both.lines().find_map(|line| line.split_once("counted ")).expect("a line of counts").1;
        for (sum, count) in sums.iter_mut().zip(line.split(' ')) {
            *sum += count.parse::<u64>().unwrap();
        }
    }
    Some(sums)
}
