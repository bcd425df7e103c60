//! Plans of file system operations and saves, run in a laboratory and held against a model that knows what is outside.
//!
//! What a step did is told apart from what the plan itself did, also in the midst of a step, by looking at the whole
//! laboratory before and after each. The fuzz target runs this very module.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    missing_docs
)]
#![allow(clippy::disallowed_methods, reason = "a judge of paths needs the kernel's own view of them")]

pub mod draw;
mod judge;
mod model;
mod outsider;
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use outputfile::{
    Call, Expected, Hook, NoLedger, Reservations, Roots, SaveError, Saved, Settings, Target, Writer,
};

use draw::{At, Lay, Plan, RootAs, Step, Trap, Way};
use judge::{Deed, Judge, Moments};
use model::{Model, Spot, Verdict};
use world::World;

/// Bytes that one file may have here.
const LIMIT: u64 = 100;
/// The laboratory's directory lies so deep that no link of a plan leads out of what is looked at.
const DEPTH: [&str; 3] = ["a", "b", "c"];
/// Saves at one time.
const SLOTS: usize = 2;

/// What a run came by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub plans: u64,
    pub steps: u64,
    pub saved: u64,
    pub refused: u64,
    /// Steps of saves of which the model knew what must come.
    pub foretold: u64,
    /// Things done in the midst of a step.
    pub interruptions: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.plans += other.plans;
        self.steps += other.steps;
        self.saved += other.saved;
        self.refused += other.refused;
        self.foretold += other.foretold;
        self.interruptions += other.interruptions;
    }
}

/// Runs a plan in a new directory beneath `ground`. An error is a broken promise, with the step.
pub fn run(plan: &Plan, ground: &Path) -> Result<Tally, String> {
    let dir = tempfile::tempdir_in(ground).unwrap();
    let top = fs::canonicalize(dir.path()).unwrap().join("world");
    let mut bench = Bench::new(plan.lay, top);
    for (index, step) in plan.steps.iter().enumerate() {
        bench.step(step).map_err(|why| format!("step {index}, {step:?}: {why}"))?;
    }
    for slot in 0..SLOTS {
        bench.drop(slot).map_err(|why| format!("dropping save {slot} at the end: {why}"))?;
    }
    let beside = fs::read_dir(dir.path()).unwrap().count();
    outsider::make_removable(&bench.top);
    bench.tally.plans = 1;
    if beside == 1 { Ok(bench.tally) } else { Err(String::from("something was made beside the laboratory")) }
}

/// A laboratory, and the saves that are under way in it.
struct Bench {
    top: PathBuf,
    scratch: PathBuf,
    roots: Roots,
    rival: Roots,
    trapper: Arc<Mutex<Trapper>>,
    model: Model,
    now: World,
    judge: Judge,
    slots: [Option<Save>; SLOTS],
    saves: Vec<(Saved, Vec<u8>)>,
    tally: Tally,
}

/// A save under way.
struct Save {
    deed: Deed,
    target: Option<Target>,
    writer: Option<Writer>,
    bytes: Vec<u8>,
    /// The directory that the check found, if the model knows.
    parent: Option<Option<u64>>,
    /// Where the model knows that it was begun.
    begun: Option<Spot>,
}

/// Waits for system calls, and does something before them.
#[derive(Default)]
struct Trapper {
    traps: Vec<Trap>,
    moments: Vec<(World, World)>,
}

impl Bench {
    fn new(lay: Lay, top: PathBuf) -> Self {
        let scratch = top.join(DEPTH.join("/"));
        fs::create_dir_all(&scratch).unwrap();
        for name in ["out", "spare", "root"] {
            if name != "root" || lay.root != RootAs::Missing {
                crate::common::make(&scratch.join(name), 0o700);
            }
        }
        fs::write(scratch.join("out/a"), "precious").unwrap();
        if lay.root == RootAs::Linked {
            std::os::unix::fs::symlink(scratch.join("root"), scratch.join("link")).unwrap();
        }
        let first = if lay.root == RootAs::Linked { "link" } else { "root" };
        let mut roots = vec![scratch.join(first)];
        roots.extend(lay.two.then(|| scratch.join("spare")));
        let settings = Settings { roots, max_bytes: LIMIT, ..Settings::default() };
        let trapper = Arc::new(Mutex::new(Trapper::default()));
        let rival_settings = Settings {
            reservations: Reservations::default(),
            hook: Some(Hook::new(move |call| heedless(lay.way, call))),
            ..settings.clone()
        };
        let rival = crate::common::open(rival_settings);
        let hook = {
            let (trapper, place, rival) =
                (Arc::clone(&trapper), (top.clone(), scratch.clone()), rival.clone());
            Hook::new(move |call| {
                trapper.lock().unwrap().meet(call, &place.0, &place.1, &rival);
                lacking(lay.way, call)
            })
        };
        let roots = crate::common::open(Settings { hook: Some(hook), ..settings });
        let now = World::see(&top);
        let model = Model::new(lay, &DEPTH, rustix::process::geteuid().as_raw(), &now);
        Self {
            top,
            scratch,
            roots,
            rival,
            trapper,
            model,
            now,
            judge: Judge::new(lacking(lay.way, Call::Exchange).is_some()),
            slots: [None, None],
            saves: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.tally.steps += 1;
        match step {
            Step::Do(fs) => {
                outsider::act(*fs, &self.top, &self.scratch, &self.rival);
                let after = World::see(&self.top);
                let saves: Vec<&Deed> = self.slots.iter().flatten().map(|save| &save.deed).collect();
                self.judge.note(&self.now, &after, &saves)?;
                self.now = after;
                Ok(())
            }
            Step::Preflight(slot, at, overwrite, traps) => {
                self.drop(*slot)?;
                self.preflight(*slot, *at, *overwrite, traps)
            }
            Step::Begin(slot, traps) => self.begin(*slot, traps),
            Step::Put(slot, length, traps) => self.put(*slot, *length, traps),
            Step::Commit(slot, traps) => self.commit(*slot, traps),
            Step::Drop(slot) => self.drop(*slot),
            Step::Reopen(which) => self.again(*which, false),
            Step::Remove(which) => self.again(*which, true),
        }
    }

    /// Does something with traps set, and gives all the moments in between.
    fn watch<T>(&mut self, traps: &[Trap], act: impl FnOnce(&Roots) -> T) -> (T, Moments) {
        self.trapper.lock().unwrap().traps = traps.to_vec();
        let done = act(&self.roots);
        let mut trapper = self.trapper.lock().unwrap();
        trapper.traps.clear();
        let between = std::mem::take(&mut trapper.moments);
        drop(trapper);
        self.tally.interruptions += between.len() as u64;
        let end = World::see(&self.top);
        let start = std::mem::replace(&mut self.now, end.clone());
        (done, Moments { start, between, end })
    }

    fn preflight(&mut self, slot: usize, at: At, overwrite: bool, traps: &[Trap]) -> Result<(), String> {
        let path = format!("{}/{}", self.scratch.display(), at.0);
        let verdict = self.unless_shared(slot, at, self.model.check(&self.now, at, overwrite));
        let (done, moments) = self.watch(traps, |roots| roots.preflight(&path, overwrite, &NoLedger));
        let mut deed = Deed::new(at, overwrite);
        self.judge_step(slot, &mut deed, "preflight", done.as_ref().map(|_| None), &moments, &verdict)?;
        if let Ok(target) = done {
            let parent = match (moments.is_quiet(), self.model.check(&moments.start, at, overwrite)) {
                (true, Verdict::Pass(spot)) => Some(spot.parent),
                _ => None,
            };
            let save = Save { deed, target: Some(target), writer: None, bytes: vec![], parent, begun: None };
            self.slots[slot] = Some(save);
        }
        Ok(())
    }

    fn begin(&mut self, slot: usize, traps: &[Trap]) -> Result<(), String> {
        let Some(mut save) = self.slots[slot].take() else { return Ok(()) };
        let Some(target) = save.target.take() else {
            self.slots[slot] = Some(save);
            return Ok(());
        };
        let Deed { at, overwrite, .. } = save.deed;
        let verdict = self.model.check_again(&self.now, at, overwrite, save.parent);
        let verdict = self.unless_shared(slot, at, verdict);
        let (done, moments) = self.watch(traps, |roots| roots.begin(target));
        self.judge_step(slot, &mut save.deed, "begin", done.as_ref().map(|_| None), &moments, &verdict)?;
        if let Ok(writer) = done {
            save.writer = Some(writer);
            if let (true, Verdict::Pass(spot)) = (moments.is_quiet(), self.model.check(&self.now, at, true)) {
                if spot.parent.is_none() {
                    return Err(String::from("the directory was not made"));
                }
                save.begun = Some(*spot);
            }
            self.slots[slot] = Some(save);
        }
        Ok(())
    }

    fn put(&mut self, slot: usize, length: usize, traps: &[Trap]) -> Result<(), String> {
        let Some(mut save) = self.slots[slot].take() else { return Ok(()) };
        let Some(mut writer) = save.writer.take() else {
            self.slots[slot] = Some(save);
            return Ok(());
        };
        let piece: Vec<u8> = (0..length).map(|at| (at * 7 + save.bytes.len() + slot) as u8).collect();
        save.bytes.extend_from_slice(&piece);
        let fits = save.bytes.len() as u64 <= LIMIT;
        let (done, moments) = self.watch(traps, |_| writer.put(&piece));
        if done.is_ok() != fits {
            return Err(format!("{} bytes of {LIMIT}: {done:?}", save.bytes.len()));
        }
        self.judge_step(
            slot,
            &mut save.deed,
            "put",
            done.as_ref().map(|()| None),
            &moments,
            &Verdict::Either,
        )?;
        if done.is_ok() {
            save.writer = Some(writer);
            self.slots[slot] = Some(save);
        }
        Ok(())
    }

    fn commit(&mut self, slot: usize, traps: &[Trap]) -> Result<(), String> {
        let Some(mut save) = self.slots[slot].take() else { return Ok(()) };
        let Some(writer) = save.writer.take() else {
            self.slots[slot] = Some(save);
            return Ok(());
        };
        let Deed { at, overwrite, .. } = save.deed;
        let verdict = match &save.begun {
            Some(begun) => self.model.publish(&self.now, at, overwrite, begun),
            None => Verdict::Either,
        };
        let verdict = self.unless_shared(slot, at, verdict);
        let (done, moments) = self.watch(traps, |_| writer.commit());
        self.judge_step(slot, &mut save.deed, "commit", done.as_ref().map(Some), &moments, &verdict)?;
        let Ok(saved) = done else { return Ok(()) };
        self.tally.saved += 1;
        judge::saved(&saved, &save.bytes, &moments, &self.model, at)?;
        self.saves.push((saved, save.bytes));
        Ok(())
    }

    fn drop(&mut self, slot: usize) -> Result<(), String> {
        let Some(mut save) = self.slots[slot].take() else { return Ok(()) };
        let (target, writer) = (save.target.take(), save.writer.take());
        let ((), moments) = self.watch(&[], |_| drop((target, writer)));
        let gone = SaveError::Disabled;
        self.judge_step(slot, &mut save.deed, "drop", Err(&gone), &moments, &Verdict::Either)
    }

    /// Reads a saved file again, or removes it.
    fn again(&mut self, which: usize, remove: bool) -> Result<(), String> {
        let Some((saved, bytes)) = self.saves.get(which).cloned() else { return Ok(()) };
        let path = saved.path.to_str().unwrap().to_owned();
        let expected = Expected { identity: saved.identity, sha256: saved.sha256, bytes: saved.bytes };
        let is_shared = self.slots.iter().flatten().any(|save| path.ends_with(save.deed.at.name()));
        let must = self.model.reopen(&self.now, &path, &bytes).filter(|_| !is_shared);
        let (done, moments) = self.watch(&[], |roots| {
            if remove {
                return roots.remove_saved(&path, &expected).map(|()| None).map_err(|e| e.to_string());
            }
            let mut file = roots.reopen_saved(&path, &expected).map_err(|e| e.to_string())?;
            let mut read = Vec::new();
            std::io::Read::read_to_end(&mut file, &mut read).map_err(|e| e.to_string())?;
            Ok(Some(read))
        });
        if let Some(must) = must {
            self.tally.foretold += 1;
            let unwritable = remove && !rustix::process::geteuid().is_root();
            if must != done.is_ok() && !(must && unwritable) {
                return Err(format!("the model says {must}, and it is {done:?}"));
            }
        }
        judge::again(&done, remove, &bytes, &moments)
    }

    /// Of two saves to files of one name, one may be refused because of the other.
    fn unless_shared(&self, slot: usize, at: At, verdict: Verdict) -> Verdict {
        let others = self.slots.iter().enumerate().filter(|(other, _)| *other != slot);
        let shared =
            others.filter_map(|(_, save)| save.as_ref()).any(|save| save.deed.at.name() == at.name());
        match verdict {
            Verdict::Pass(_) if shared => Verdict::Either,
            verdict => verdict,
        }
    }

    fn judge_step(
        &mut self,
        slot: usize,
        deed: &mut Deed,
        phase: &'static str,
        done: Result<Option<&Saved>, &SaveError>,
        moments: &Moments,
        verdict: &Verdict,
    ) -> Result<(), String> {
        let others: Vec<&Deed> = self
            .slots
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != slot)
            .filter_map(|(_, save)| save.as_ref().map(|save| &save.deed))
            .collect();
        self.tally.refused += u64::from(done.is_err() && phase != "drop");
        if moments.is_quiet() {
            self.tally.foretold += u64::from(!matches!(verdict, Verdict::Either));
            match (verdict, done) {
                (Verdict::Pass(_), Err(error)) => return Err(format!("{phase} must succeed: {error}")),
                (Verdict::Refuse(why), Ok(_)) => return Err(format!("{phase} must be refused: {why}")),
                _ => {}
            }
        }
        self.judge.step(deed, &others, phase, done.ok(), moments, &self.model).map_err(|why| match done {
            Ok(_) => format!("{phase} succeeded, and {why}"),
            Err(error) => format!("{phase} failed ({error}), and {why}"),
        })
    }
}

impl Trapper {
    fn meet(&mut self, call: Call, top: &Path, scratch: &Path, rival: &Roots) {
        let Some(index) = self.traps.iter().position(|trap| trap.0.is_none_or(|awaited| awaited == call))
        else {
            return;
        };
        let trap = &mut self.traps[index];
        if trap.1 > 0 {
            trap.1 -= 1;
            return;
        }
        let Trap(_, _, all) = self.traps.remove(index);
        let before = World::see(top);
        for fs in all {
            outsider::act(fs, top, scratch, rival);
        }
        self.moments.push((before, World::see(top)));
    }
}

/// What a system says that lacks the better ways.
fn lacking(way: Way, call: Call) -> Option<i32> {
    match (way, call) {
        (Way::Rename | Way::Link, Call::OpenNameless) => Some(libc::EOPNOTSUPP),
        (Way::Link, Call::RenameNew | Call::Exchange) => Some(libc::EINVAL),
        (Way::Portable, Call::OpenBeneath) => Some(libc::ENOSYS),
        _ => None,
    }
}

/// A rival does not wait for its turn: it comes in the midst of a save that holds it.
fn heedless(way: Way, call: Call) -> Option<i32> {
    if call == Call::OpenTurn { Some(libc::ENOLCK) } else { lacking(way, call) }
}

/// The plan as text: what a broken promise is shown with.
pub fn shown(plan: &Plan) -> String {
    let steps: Vec<String> = plan.steps.iter().map(|step| format!("  {step:?},")).collect();
    format!("{:?}\n{}", plan.lay, steps.join("\n"))
}
