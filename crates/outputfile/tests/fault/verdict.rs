//! The verdict on one failure: what may be the result of it, and what must be true on the disk.

use std::path::Path;

use outputfile::{Call, ReadError, Reason, SaveError};

use crate::Baseline;
use crate::ordeal::{Asked, Done, Failed, Fault, OLD, Plan, Scenario, Way, World, is_naming, open_files};

/// Calls that one save may make whatever fails: an interrupted call is made at the most 64 times, a name tried 16 times.
const MOST_CALLS: usize = 20_000;

/// One scenario with one failure, or with two of which the second hits the clean-up.
pub struct Trial<'a> {
    world: World,
    base: &'a Baseline,
    faults: Vec<Fault>,
    what: String,
    ended: Result<Done, Failed>,
    asked: Vec<Asked>,
}

impl<'a> Trial<'a> {
    /// Plays it.
    pub fn new(scenario: Scenario, way: &'static Way, base: &'a Baseline, faults: Vec<Fault>, home: &Path) -> Self {
        let world = World::new(scenario, way, home);
        let before = open_files();
        world.probe.plan(Plan::Fail(faults.clone()));
        let mut ended = world.run();
        let asked = world.probe.stop();
        let kinds: Vec<_> = faults.iter().map(|fault| (fault.at, asked.get(fault.at).map(|asked| asked.call))).collect();
        let what = format!(
            "{scenario:?}, {}, {:?}: {ended:?}",
            way.name,
            kinds.iter().zip(&faults).map(|((at, call), fault)| (at, call, error_name(fault))).collect::<Vec<_>>()
        );
        if let Ok(Done::Loaded(roots)) = &ended {
            let _ = roots.list().count();
        }
        let loaded = matches!(ended, Ok(Done::Loaded(_)));
        if loaded {
            // Its handles are held, as they should be; another load judges them below.
            ended = Ok(Done::GivenUp);
        }
        assert_eq!(open_files(), before, "{what}: a file is left open");
        assert!(asked.len() < MOST_CALLS, "{what}: {} calls", asked.len());
        for fault in &faults {
            assert!(asked.get(fault.at).is_some_and(|asked| asked.code == Some(fault.code)), "{what}: it was hit");
        }
        if let [fault] = faults[..] {
            assert_eq!(asked[fault.at].call, base.asked[fault.at].call, "{what}: the calls are always the same");
        }
        Self { world, base, faults, what, ended, asked }
    }

    /// Whether it ended well; both are judged.
    pub fn judge(self) -> bool {
        let what = self.what.as_str();
        let (left, others) = self.world.extras(what);
        self.world.assert_second_name(what);
        let whole = match &self.ended {
            Ok(done) => self.judge_success(done),
            Err(Failed::Save(SaveError::NotDurable { saved, .. })) => {
                let published = self.base.publishing.unwrap();
                assert!(self.faults.iter().any(|fault| fault.at > published), "{what}: nothing failed after publishing");
                self.world.assert_whole(what);
                assert_eq!(std::fs::read(&saved.path).unwrap(), self.world.there().unwrap(), "{what}");
                true
            }
            Err(failed) => self.judge_failure(failed),
        };
        let mut expected_others = whole;
        if !whole {
            expected_others = others.is_empty() || self.may_leave_directories() || !left.is_empty();
        }
        assert!(expected_others && self.world.are_made(&others), "{what}: left {others:?}");
        assert!(left.is_empty() || self.may_leave_temporaries(whole), "{what}: left {left:?}");
        self.judge_what_comes_next();
        self.ended.is_ok()
    }

    /// True: the new file is there.
    fn judge_success(&self, done: &Done) -> bool {
        let what = self.what.as_str();
        match done {
            Done::Saved(saved) => {
                self.world.assert_saved(saved, what);
                self.assert_durable();
            }
            Done::Removed => assert_eq!(self.world.there(), None, "{what}"),
            Done::Read(bytes) => assert_eq!(bytes, OLD, "{what}"),
            Done::GivenUp | Done::Verified | Done::Loaded(_) => assert!(self.world.is_unchanged(), "{what}"),
        }
        matches!(done, Done::Saved(_))
    }

    /// A success in spite of a failed sync would be a lie, but where a directory cannot be synced at all.
    fn assert_durable(&self) {
        for fault in &self.faults {
            let lacking = [libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP, libc::EINTR].contains(&fault.code);
            let honest = match self.asked[fault.at].call {
                Call::SyncFile => fault.code == libc::EINTR && !fault.again,
                Call::SyncDirectory => lacking && (fault.code != libc::EINTR || !fault.again),
                Call::OpenForSync => fault.code == libc::EACCES || (fault.code == libc::EINTR && !fault.again),
                _ => true,
            };
            assert!(honest, "{}: is not durable", self.what);
        }
    }

    fn judge_failure(&self, failed: &Failed) -> bool {
        let what = self.what.as_str();
        assert!(self.world.is_unchanged(), "{what}: the target is what it was");
        let [fault] = self.faults[..] else { return false };
        assert!(fault.code != libc::EINTR || fault.again, "{what}: an interrupted call is made again");
        match failed {
            Failed::Read(error) if error.is_change() => {
                // The system says that it is not there, or is no file.
                let told = [libc::ENOENT, libc::ELOOP, libc::ENOTDIR, libc::EXDEV].contains(&fault.code);
                assert!(told, "{what}: a failure to look is no change");
            }
            Failed::Read(ReadError::NoRoot { .. } | ReadError::Busy { .. }) => panic!("{what}: another reason"),
            // What could not be read is told with its cause, and there is one remedy for all of it.
            Failed::Read(ReadError::Io { .. }) => {}
            Failed::Load(problems) => assert!(!problems.is_empty(), "{what}"),
            failed => {
                let reason = failed.reason().unwrap();
                assert!(fits(self.asked[fault.at].call, fault.code, reason), "{what}: {reason:?} does not fit");
            }
        }
        false
    }

    /// What could not be removed is left. To remove a file is to look at it and to unlink it.
    fn may_leave_temporaries(&self, whole: bool) -> bool {
        let sweeping = self.world.scenario == Scenario::Leftover;
        let helpless = |fault: &Fault| match self.asked[fault.at].call {
            Call::Unlink | Call::Stat => fault.again || whole || self.faults.len() > 1 || sweeping || self.ended.is_ok(),
            Call::List | Call::OpenExisting | Call::Lock => sweeping,
            _ => false,
        };
        // A sweep comes late: what fails before it leaves the leftover where it was.
        let early = sweeping && !self.asked.iter().any(|asked| asked.call == Call::List);
        early || self.faults.iter().any(helpless)
    }

    fn may_leave_directories(&self) -> bool {
        let helpless = |fault: &Fault| match self.asked[fault.at].call {
            Call::RemoveDirectory | Call::Stat => {
                fault.again || self.faults.len() > 1 || self.world.scenario == Scenario::GivenUp
            }
            _ => false,
        };
        self.faults.iter().any(helpless)
    }

    /// The same works at once, when nothing fails any more.
    fn judge_what_comes_next(&self) {
        let what = self.what.as_str();
        match &self.ended {
            Err(Failed::Save(SaveError::NoPublish { .. })) => {
                // It was learnt of the mount, and stays so in this process.
                self.world.assert_works(&self.world.others(), what);
            }
            _ => self.world.assert_works(&self.world.roots, what),
        }
        self.world.assert_second_name(what);
    }
}

/// Whether this is the reason to give for an error.
fn fits(call: Call, code: i32, reason: Reason) -> bool {
    let usual = match code {
        libc::ENOSPC => Reason::Space,
        libc::EDQUOT => Reason::Quota,
        libc::EROFS => Reason::ReadOnly,
        libc::EACCES | libc::EPERM => Reason::Denied,
        libc::EFBIG => Reason::TooLarge,
        libc::ENAMETOOLONG => Reason::Path,
        libc::EXDEV => Reason::Mount,
        libc::ENOTDIR => Reason::TargetKind,
        libc::EEXIST => Reason::Exists,
        // Modes that cannot be set are refused by the rule that trusted directories waive.
        libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP if call == Call::SetMode => Reason::Denied,
        _ => Reason::Io,
    };
    // What the system says is gone, there, or another kind of thing, is taken for moved.
    let told = [libc::ENOENT, libc::EEXIST, libc::ELOOP, libc::ENOTDIR].contains(&code)
        && matches!(reason, Reason::RootMoved | Reason::TargetKind | Reason::Mount | Reason::Io);
    // No way of publishing is left, or the mode of a copy cannot be set: it is named, and counted with the rest.
    let no_way = reason == Reason::Io && (is_naming(call) || call == Call::SetMode);
    // A filter that does not know the call says so where the mode is looked at.
    let unset = call == Call::Stat && code == libc::ENOSYS && reason == Reason::Denied;
    reason == usual || told || no_way || unset
}

fn error_name(fault: &Fault) -> String {
    let again = if fault.again { ", again and again" } else { "" };
    format!("{}{again}", std::io::Error::from_raw_os_error(fault.code))
}
