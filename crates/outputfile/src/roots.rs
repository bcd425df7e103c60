//! Roots: the directories beneath which files may be made, judged anew at each call.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{SaveError, shown, shown_path};
use crate::load::{self, RootProblem, forms_of};
use crate::name::{self, Relation, Spelling};
use crate::owner::Acting;
use crate::protect::Protected;
use crate::settings::{Ledger, Settings};
use crate::sys::{self, Credentials, FaultKind, FileId, Os, PLATFORM};
use crate::target::{self, Target};
use crate::trust::{self, Distrust, Naming, Owners};
use crate::volume;
use crate::walk::{Met, Stuck, Walk, path_text, walk};
use crate::write::{self, Writer};

/// The directories beneath which files may be made. Clones share everything.
#[derive(Debug, Clone)]
pub struct Roots(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub settings: Settings,
    pub os: Os,
    /// The user that we run as.
    pub ours: u32,
    /// Whether we may use the identity of others.
    pub switch: bool,
    pub owners: Vec<Arc<Credentials>>,
    /// Trusted directories.
    pub directories: Vec<FileId>,
    pub roots: Vec<Root>,
    pub protected: Vec<Protected>,
    pub remarks: Vec<RootProblem>,
}

#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub spelling: Spelling,
    /// As configured, cleaned.
    pub path: PathBuf,
    /// The forms by which a target may name it.
    pub forms: Vec<Vec<String>>,
    /// The links on its way when it was loaded, or why they could not be seen.
    pub links: Result<Vec<(String, String)>, String>,
    /// To whom it belonged then, or while it was missing the deepest directory on its way.
    pub owner: Option<u32>,
}

/// What was seen of the roots with our own identity.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The root that it is about.
    pub index: usize,
    /// Whose identity is right for it.
    pub acting: Acting,
    /// Where the other roots lead.
    pub others: Vec<(usize, Walk)>,
    /// Where the root leads, found free of what no root may hold. The first judgement takes it, if it is made with the
    /// same identity, and every later one walks anew.
    seen: Mutex<Option<Walk>>,
}

/// A root that passed every check, as of now.
#[derive(Debug)]
pub(crate) struct Standing {
    pub walk: Walk,
    /// Its place in the list of things met, if it exists.
    pub met: Option<usize>,
}

/// Which root a path names, found without touching the file system.
#[derive(Debug, Clone)]
pub(crate) struct Match {
    pub root: usize,
    /// The form by which the path names the root.
    pub form: Vec<String>,
    /// The directories below it, and the name of the file.
    pub below: Vec<String>,
}

impl Roots {
    /// Checks the settings and opens the roots, remembering the links on their ways.
    ///
    /// # Errors
    /// Every entry that is wrong, each with what to do.
    pub fn open(settings: Settings) -> Result<Self, Vec<RootProblem>> {
        load::open(settings, None)
    }

    /// The same for a reload that the operator did not ask for: roots that stay keep the links remembered before.
    ///
    /// # Errors
    /// As [`Roots::open`].
    pub fn reopen(&self, settings: Settings) -> Result<Self, Vec<RootProblem>> {
        load::open(settings, Some(self))
    }

    /// Whether saving is off.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.roots.is_empty()
    }

    /// The roots as configured, cleaned.
    pub fn list(&self) -> impl Iterator<Item = &Path> {
        self.0.roots.iter().map(|root| root.path.as_path())
    }

    /// What these roots were opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What an operator should know although it refuses nothing now: trusted directories that were not found,
    /// roots that no save could use as they are, and directories on the way that a group may write to.
    #[must_use]
    pub fn remarks(&self) -> Vec<RootProblem> {
        let mut remarks = self.0.remarks.clone();
        for (index, root) in self.0.roots.iter().enumerate() {
            let remark = |message: String, remedy: &str| RootProblem {
                key: "tool_output_roots",
                index,
                path: root.path.clone(),
                message,
                remedy: remedy.to_owned(),
            };
            let found = self.0.survey(index).and_then(|survey| {
                let stands = survey.acting.run(|| self.0.standing(&survey));
                stands.map_err(|fault| SaveError::of(&fault, "looking at", &root.path, ""))?
            });
            match found {
                Ok(standing) => remarks.extend(group_writable(&standing).map(|path| {
                    let message = format!("the group of {path} may write to it");
                    remark(message, "see that you trust all its members, or run `chmod g-w`")
                })),
                Err(error) => remarks.push(remark(error.to_string(), "see to it before the first save")),
            }
        }
        remarks
    }

    /// Checks everything that could refuse a save to `path`, and reserves the target. Makes and changes nothing.
    ///
    /// # Errors
    /// Why the save is refused.
    pub fn preflight(&self, path: &str, overwrite: bool, ledger: &dyn Ledger) -> Result<Target, SaveError> {
        target::preflight(self, path, overwrite, ledger)
    }

    /// Checks the target again, against these roots, makes missing directories and opens a temporary.
    /// Call it on the roots of now: they may be other ones than those of the preflight.
    ///
    /// # Errors
    /// Why the save is refused or failed; nothing is left then.
    pub fn begin(&self, target: Target) -> Result<Writer, SaveError> {
        write::begin(self, target)
    }
}

/// Finding and judging one root.
impl Inner {
    /// The root that a path names. No call to the file system.
    pub(crate) fn matching(&self, path: &str) -> Result<Match, SaveError> {
        if self.roots.is_empty() {
            return Err(SaveError::Disabled);
        }
        let spellings: Vec<Spelling> = self.roots.iter().map(|root| root.spelling.clone()).collect();
        let target = match name::parse_target(PLATFORM, path, &spellings) {
            Ok(target) => target,
            Err(problem) => return Err(SaveError::path(path, problem)),
        };
        let target = target.whole();
        let found = self.roots.iter().enumerate().find_map(|(root, candidate)| {
            let names = |form: &&Vec<String>| {
                let relation = name::relation_of_names(PLATFORM, form, &target);
                matches!(relation, Relation::Contains | Relation::Equal)
            };
            let form = candidate.forms.iter().find(names)?.clone();
            let below = target.get(form.len()..).unwrap_or_default().to_vec();
            Some(Match { root, form, below })
        });
        let found = found.ok_or_else(|| self.outside(path))?;
        self.check_below(path, &found.below)?;
        Ok(found)
    }

    pub(crate) fn check_below(&self, path: &str, below: &[String]) -> Result<(), SaveError> {
        name::check_below(below, self.settings.allow_hidden)
            .and_then(|()| name::check_short(PLATFORM, below))
            .map_err(|problem| SaveError::path(path, problem))
    }

    pub(crate) fn outside(&self, path: &str) -> SaveError {
        let roots = self.roots.iter().map(|root| root.path.clone()).collect();
        SaveError::Outside { path: path.to_owned(), roots }
    }

    /// Looks at all roots with our own identity: who is to act for this one, and where the others lead.
    pub(crate) fn survey(&self, index: usize) -> Result<Survey, SaveError> {
        let root = self.root(index)?;
        let (mine, acting) = self.look_as_any(root);
        let mine = mine.map_err(|stuck| stuck_on_way(&stuck))?;
        self.check_protected(root, &mine)?;
        let mut others = Vec::new();
        for (at, other) in self.roots.iter().enumerate().filter(|(at, _)| *at != index) {
            match self.look_as_any(other).0 {
                Ok(walk) => others.push((at, walk)),
                Err(stuck) => {
                    let why = format!(
                        "where it leads cannot be seen ({} at {}), so it cannot be told from {}; repair it, or take it out of \"tool_output_roots\"",
                        stuck.fault,
                        shown(&stuck.at),
                        shown_path(&root.path)
                    );
                    return Err(SaveError::Untrusted { root: other.path.clone(), why });
                }
            }
        }
        let seen = acting.owner().is_none().then_some(mine);
        Ok(Survey { index, acting, others, seen: Mutex::new(seen) })
    }

    /// A root's way and whose identity is right for it: seen by ourselves, else by an owner who alone may see it.
    fn look_as_any(&self, root: &Root) -> (Result<Walk, Stuck>, Acting) {
        let ourselves = Acting::Ourselves { uid: self.ours };
        let look = || walk(&self.os, &self.directories, &root.spelling.whole());
        let seen = look();
        match &seen {
            Ok(walk) => {
                let owner = walk.deepest().map_or(self.ours, |step| step.meta.uid);
                return (seen, self.identity_of(owner).unwrap_or(ourselves));
            }
            Err(stuck) if !matches!(stuck.fault.kind, FaultKind::Denied | FaultKind::NotPermitted) => {
                return (seen, ourselves);
            }
            Err(_) => {}
        }
        // A file system of theirs (FUSE, NFS) may keep even root out.
        for owner in self.owners.iter().filter_map(|owner| self.identity_of(owner.uid)) {
            if let Ok(Ok(walk)) = owner.run(look)
                && walk.deepest().is_some_and(|step| step.meta.uid == owner.uid())
            {
                return (Ok(walk), owner);
            }
        }
        (seen, ourselves)
    }

    /// Judges a root as it is now. To be run with the identity `acting`.
    pub(crate) fn standing(&self, survey: &Survey) -> Result<Standing, SaveError> {
        let root = self.root(survey.index)?;
        let seen = survey.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        let walked_now = seen.is_none();
        let walk = seen.map_or_else(|| self.walk_root(root), Ok)?;
        self.check_links(root, &walk)?;
        let met = if walk.missing.is_empty() { walk.end() } else { None };
        let standing = Standing { walk, met };
        self.check_trust(root, &standing, &standing.walk.met, &survey.acting)?;
        if walked_now {
            self.check_protected(root, &standing.walk)?;
        }
        self.check_aliases(root, &standing.walk, &survey.others)?;
        if let Some(step) = standing.walk.deepest().filter(|_| standing.met.is_some()) {
            self.check_identity(root, &standing.walk.resolved(), step.meta.id)?;
        }
        Ok(standing)
    }

    /// Judges what was met on the way to a root, and perhaps below it.
    pub(crate) fn check_trust(
        &self,
        root: &Root,
        standing: &Standing,
        met: &[Met],
        acting: &Acting,
    ) -> Result<(), SaveError> {
        let trusted: Vec<u32> = self.owners.iter().map(|owner| owner.uid).collect();
        let owners = Owners { ours: self.ours, trusted: &trusted };
        let Some(deepest) = standing.walk.deepest() else { return Err(self.unseen(root)) };
        let owner = trust::acting_for(deepest.meta.uid, owners);
        self.check_owner(root, owner, owners)?;
        if self.switch && owner != acting.uid() {
            return Err(SaveError::moved(&root.path, "its owner changed meanwhile; call again"));
        }
        trust::judge(met, standing.met, owner, owners).map_err(|distrust| self.untrusted(root, &distrust))
    }

    /// Judges the links by which a target was reached inside a root.
    pub(crate) fn check_links_inside(
        &self,
        root: &Root,
        walk: &Walk,
        acting: &Acting,
    ) -> Result<(), SaveError> {
        let trusted: Vec<u32> = self.owners.iter().map(|owner| owner.uid).collect();
        let owners = Owners { ours: self.ours, trusted: &trusted };
        trust::judge_links(&walk.met, acting.uid(), owners)
            .map_err(|distrust| self.untrusted(root, &distrust))
    }

    /// The handle that we use must be what the kernel finds at the resolved path and at the configured one.
    pub(crate) fn check_identity(
        &self,
        root: &Root,
        resolved: &[String],
        id: FileId,
    ) -> Result<(), SaveError> {
        let own = root.spelling.whole();
        let linked = (resolved != own).then_some(resolved);
        for path in [Some(own.as_slice()), linked].into_iter().flatten().map(path_text) {
            let found =
                self.os.at_path(&path).map_err(|fault| SaveError::of(&fault, "looking at", &path, ""))?;
            if found.id != id {
                return Err(SaveError::moved(path, "the root now leads elsewhere; call again"));
            }
        }
        Ok(())
    }

    pub(crate) fn root(&self, index: usize) -> Result<&Root, SaveError> {
        self.roots.get(index).ok_or(SaveError::Disabled)
    }

    pub(crate) fn walk_root(&self, root: &Root) -> Result<Walk, SaveError> {
        walk(&self.os, &self.directories, &root.spelling.whole()).map_err(|stuck| stuck_on_way(&stuck))
    }

    /// The identity of a trusted owner, if it is another's and we may use it.
    fn identity_of(&self, uid: u32) -> Option<Acting> {
        if !self.switch || uid == self.ours {
            return None;
        }
        self.owners.iter().find(|owner| owner.uid == uid).map(|owner| Acting::As(Arc::clone(owner)))
    }

    fn check_links(&self, root: &Root, walk: &Walk) -> Result<(), SaveError> {
        match &root.links {
            Ok(links) if *links == walk.links() => Ok(()),
            Ok(_) => {
                let why = "the root now leads elsewhere than when the configuration was loaded; if that is right, reload it (`mcpproxy config reload` or SIGHUP)";
                Err(SaveError::moved(&root.path, why))
            }
            Err(cause) => {
                let why = format!(
                    "the root could not be seen when the configuration was loaded ({cause}); repair that, then reload (`mcpproxy config reload` or SIGHUP)"
                );
                Err(SaveError::moved(&root.path, why))
            }
        }
    }

    fn check_protected(&self, root: &Root, walk: &Walk) -> Result<(), SaveError> {
        match self.protected.iter().find_map(|own| own.objection(&self.os, walk)) {
            Some(why) => Err(SaveError::Protected { root: root.path.clone(), why }),
            None => Ok(()),
        }
    }

    fn check_aliases(&self, root: &Root, mine: &Walk, others: &[(usize, Walk)]) -> Result<(), SaveError> {
        for (index, theirs) in others {
            let other = self.root(*index)?;
            let my_forms = forms_of(&root.spelling, Some(mine));
            let their_forms = forms_of(&other.spelling, Some(theirs));
            let seen = overlap(&my_forms, &their_forms)
                .or_else(|| leads_through(theirs, &my_forms, mine))
                .or_else(|| leads_through(mine, &their_forms, theirs));
            if let Some(detail) = seen {
                return Err(SaveError::Alias { root: root.path.clone(), other: other.path.clone(), detail });
            }
        }
        Ok(())
    }

    /// A directory inside a root may not be another root, which a mount can make of it.
    pub(crate) fn check_other_roots(
        &self,
        root: &Root,
        id: FileId,
        names: &[String],
        survey: &Survey,
    ) -> Result<(), SaveError> {
        for (index, theirs) in &survey.others {
            if theirs.root_id() == Some(id) {
                let other = self.root(*index)?.path.clone();
                let detail = format!("{} is both", shown(&path_text(names)));
                return Err(SaveError::Alias { root: root.path.clone(), other, detail });
            }
        }
        Ok(())
    }

    /// Whoever moves a directory of ours to where theirs was must not have us write into it with our own rights.
    fn check_owner(&self, root: &Root, owner: u32, owners: Owners<'_>) -> Result<(), SaveError> {
        let Some(before) = root.owner.map(|uid| trust::acting_for(uid, owners)) else { return Ok(()) };
        if !self.switch || before == self.ours || before == owner {
            return Ok(());
        }
        let who = self.name_of(before).unwrap_or_else(|| format!("uid {before}"));
        let why = format!(
            "the root belonged to {who} when the configuration was loaded, and does not now; if that is right, reload it (`mcpproxy config reload` or SIGHUP)"
        );
        Err(SaveError::moved(&root.path, why))
    }

    fn untrusted(&self, root: &Root, distrust: &Distrust) -> SaveError {
        SaveError::Untrusted { root: root.path.clone(), why: distrust.explain(self.ours, self) }
    }

    fn unseen(&self, root: &Root) -> SaveError {
        SaveError::moved(&root.path, "the root cannot be seen; call again")
    }
}

impl Naming for Inner {
    fn name_of(&self, uid: u32) -> Option<String> {
        sys::account_name(uid)
    }

    fn unmapped(&self, uid: u32) -> bool {
        sys::unmapped(uid)
    }
}

fn stuck_on_way(stuck: &Stuck) -> SaveError {
    SaveError::of(&stuck.fault, "looking at", &stuck.at, &stuck.at)
}

/// Whether two roots have forms that are the same directory or lie in each other.
fn overlap(mine: &[Vec<String>], theirs: &[Vec<String>]) -> Option<String> {
    for my in mine {
        for their in theirs {
            if name::relation_of_names(PLATFORM, my, their) != Relation::Apart {
                return Some(format!("{} and {}", path_text(my), path_text(their)));
            }
        }
    }
    None
}

/// Whether a walk came by the other root: by name, or by device and inode.
fn leads_through(walk: &Walk, forms: &[Vec<String>], other: &Walk) -> Option<String> {
    let other_id = other.root_id();
    walk.met.iter().find_map(|thing| {
        let (path, id) = match thing {
            Met::Directory(directory) => (&directory.path, Some(directory.meta.id)),
            Met::Link(link) => (&link.path, None),
        };
        let names = volume::parted(PLATFORM, path);
        let inside = |form: &Vec<String>| {
            matches!(name::relation_of_names(PLATFORM, form, &names), Relation::Equal | Relation::Contains)
        };
        let same = id.is_some() && id == other_id;
        (same || forms.iter().any(inside)).then(|| format!("the way leads through {path}"))
    })
}

fn group_writable(standing: &Standing) -> impl Iterator<Item = String> {
    standing.walk.met.iter().filter_map(|thing| match thing {
        Met::Directory(directory) if directory.meta.mode & 0o020 != 0 && directory.meta.mode & 0o002 == 0 => {
            Some(directory.path.clone())
        }
        _ => None,
    })
}
