//! Opening the roots: every check that a configuration must pass, each problem with its entry and the fix.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::name::{self, NameProblem, Relation, Spelling};
use crate::owner::Acting;
use crate::protect::Protected;
use crate::roots::{Inner, Root, Roots};
use crate::settings::Settings;
use crate::sys::{self, Credentials, FileId, Os, PLATFORM};
use crate::walk::{Walk, path_text, walk};

/// How many trusted owners there may be.
const MOST_OWNERS: usize = 64;

/// A setting that is refused, or that a reader should know about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootProblem {
    /// The setting, as it is called in the configuration file.
    pub key: &'static str,
    /// The entry of the setting, counted from 0.
    pub index: usize,
    /// The entry, as written.
    pub path: PathBuf,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for RootProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = crate::error::shown_path(&self.path);
        write!(f, "{}[{}] ({path}): {}; {}", self.key, self.index, self.message, self.remedy)
    }
}

const ROOTS: &str = "tool_output_roots";
const DIRECTORIES: &str = "tool_output_trusted_directories";
const OWNERS: &str = "tool_output_trusted_owners";
const FILE_MODE: &str = "tool_output_file_mode";

/// Checks the settings and opens the roots. `before` keeps what it remembers of roots that are the same.
pub(crate) fn open(settings: Settings, before: Option<&Roots>) -> Result<Roots, Vec<RootProblem>> {
    let mut loading = Loading { os: Os::new(settings.hook.clone()), settings, problems: Vec::new() };
    let spelled = loading.spell_roots();
    loading.check_overlaps(&spelled);
    loading.check_mode();
    let owners = loading.owners();
    let (directories, remarks) = loading.directories();
    let ours = sys::our_uid();
    let switch = sys::can_switch();
    let candidates = acting_candidates(ours, switch, &owners);
    let known: Vec<(usize, Spelling, Result<Walk, String>)> = spelled
        .into_iter()
        .map(|(index, root)| {
            let walked = loading.walk_as_any(&candidates, &directories, &root.whole());
            (index, root, walked)
        })
        .collect();
    loading.check_places(&known, ours, &owners);
    if !loading.problems.is_empty() {
        loading.problems.sort_by_key(|problem| (problem.key != ROOTS, problem.key, problem.index));
        return Err(loading.problems);
    }
    let protected = loading.protect(ours, &owners);
    let roots = known.into_iter().map(|(_, root, walked)| remember(root, &walked, before)).collect();
    let Loading { os, settings, .. } = loading;
    Ok(Roots(Arc::new(Inner { settings, os, ours, switch, owners, directories, roots, protected, remarks })))
}

struct Loading {
    settings: Settings,
    os: Os,
    problems: Vec<RootProblem>,
}

impl Loading {
    fn refuse(&mut self, key: &'static str, index: usize, path: PathBuf, message: String, remedy: &str) {
        self.problems.push(RootProblem { key, index, path, message, remedy: remedy.to_owned() });
    }

    fn spell_roots(&mut self) -> Vec<(usize, Spelling)> {
        let mut good = Vec::new();
        for (index, path) in self.settings.roots.clone().into_iter().enumerate() {
            match spell(&path) {
                Ok(root) => good.push((index, root)),
                Err(problem) => {
                    let remedy = format!(
                        "give the absolute path of a directory for saved files, such as {:?}",
                        sys::EXAMPLE_ROOT
                    );
                    self.refuse(ROOTS, index, path, problem.to_string(), &remedy);
                }
            }
        }
        good
    }

    fn check_overlaps(&mut self, roots: &[(usize, Spelling)]) {
        for (place, (index, root)) in roots.iter().enumerate() {
            for (earlier, other) in roots.iter().take(place) {
                let how = match name::relation(PLATFORM, root, other) {
                    Relation::Apart => continue,
                    Relation::Equal => "is the same directory as",
                    Relation::Contains => "holds",
                    Relation::LiesIn => "lies in",
                };
                let message = format!("{how} {ROOTS}[{earlier}] ({})", other.text(PLATFORM));
                let path = PathBuf::from(root.text(PLATFORM));
                self.refuse(ROOTS, *index, path, message, "take one of the two out");
            }
        }
    }

    fn check_mode(&mut self) {
        if !matches!(self.settings.file_mode, 0o600 | 0o640 | 0o660) {
            let mode = format!("{:04o}", self.settings.file_mode);
            let message = String::from("is no mode for saved files");
            self.refuse(FILE_MODE, 0, PathBuf::from(mode), message, "write \"0600\", \"0640\" or \"0660\"");
        } else if !sys::UNIX && self.settings.file_mode != Settings::default().file_mode {
            let mode = format!("{:04o}", self.settings.file_mode);
            let message = String::from(
                "has no meaning here: a file gets the access rules that its directory hands down to new files",
            );
            self.refuse(FILE_MODE, 0, PathBuf::from(mode), message, "leave it out, and set them on the root");
        }
    }

    fn owners(&mut self) -> Vec<Arc<Credentials>> {
        let mut known = Vec::new();
        if !sys::UNIX {
            for (index, name) in self.settings.trusted_owners.clone().into_iter().enumerate() {
                let message =
                    String::from("has no meaning here, because owners of files are judged on Unix only");
                self.refuse(OWNERS, index, PathBuf::from(name), message, "leave it out");
            }
            return known;
        }
        for (index, name) in self.settings.trusted_owners.clone().into_iter().enumerate() {
            let path = PathBuf::from(&name);
            match sys::user_of(&name) {
                Some(uid) if known.len() < MOST_OWNERS => known.push(Arc::new(Credentials::of(uid))),
                Some(_) => {
                    let message = format!("is one of more than {MOST_OWNERS} owners");
                    self.refuse(OWNERS, index, path, message, "name fewer");
                }
                None => {
                    let message = String::from("is no user of this system");
                    self.refuse(OWNERS, index, path, message, "write the name of a user, or a uid");
                }
            }
        }
        known
    }

    /// The trusted directories by identity, and a remark for each that does not exist.
    fn directories(&mut self) -> (Vec<FileId>, Vec<RootProblem>) {
        let (mut known, mut remarks) = (Vec::new(), Vec::new());
        for (index, path) in self.settings.trusted_directories.clone().into_iter().enumerate() {
            if !sys::UNIX {
                let message =
                    String::from("changes nothing here, because owners and modes are judged on Unix only");
                let remedy = String::from("leave it out");
                remarks.push(RootProblem { key: DIRECTORIES, index, path, message, remedy });
                continue;
            }
            let spelled = match spell(&path) {
                Ok(spelled) => spelled.whole(),
                Err(NameProblem::WholeVolume) => Vec::new(),
                Err(problem) => {
                    self.refuse(
                        DIRECTORIES,
                        index,
                        path,
                        problem.to_string(),
                        "give the absolute path of a directory",
                    );
                    continue;
                }
            };
            match walk(&self.os, &[], &spelled) {
                Ok(walk) if walk.missing.is_empty() => known.extend(walk.deepest().map(|step| step.meta.id)),
                found => {
                    let why = found
                        .map_or_else(|stuck| stuck.fault.to_string(), |_| String::from("does not exist"));
                    let message = format!("is not trusted, because it could not be found ({why})");
                    let remedy = String::from("make it, then reload the configuration");
                    remarks.push(RootProblem { key: DIRECTORIES, index, path, message, remedy });
                }
            }
        }
        (known, remarks)
    }

    fn walk_as_any(
        &self,
        candidates: &[Acting],
        trusted: &[FileId],
        names: &[String],
    ) -> Result<Walk, String> {
        let mut first = None;
        for acting in candidates {
            match acting.run(|| walk(&self.os, trusted, names)) {
                Ok(Ok(walk)) => return Ok(walk),
                Ok(Err(stuck)) => first = first.or(Some(format!("{}: {}", stuck.at, stuck.fault))),
                Err(fault) => first = first.or(Some(fault.to_string())),
            }
        }
        Err(first.unwrap_or_default())
    }

    /// By name: the system's directories, homes, and our own.
    fn check_places(
        &mut self,
        known: &[(usize, Spelling, Result<Walk, String>)],
        ours: u32,
        owners: &[Arc<Credentials>],
    ) {
        let places = self.places(ours, owners);
        for (index, root, walked) in known {
            let forms = forms_of(root, walked.as_ref().ok());
            let objection = places.iter().find_map(|place| {
                let why = place.objection(&forms);
                why.or_else(|| place.hidden_objection(walked.as_ref().ok()?))
                    .map(|why| (why, place.remedy.clone()))
            });
            if let Some((message, remedy)) = objection {
                self.refuse(ROOTS, *index, PathBuf::from(root.text(PLATFORM)), message, &remedy);
            }
        }
    }

    fn places(&self, ours: u32, owners: &[Arc<Credentials>]) -> Vec<Place> {
        let aside = format!("name another directory, such as {:?}", sys::EXAMPLE_ROOT);
        let mut places = Vec::new();
        let mut add = |what: &str, path: &Path, outer: bool, remedy: &str| {
            let Ok(spelled) = spell(path) else { return };
            let walked = walk(&self.os, &[], &spelled.whole()).ok();
            let ids = walked.as_ref().filter(|walk| walk.missing.is_empty());
            let ids =
                ids.map(|walk| walk.steps.iter().map(|step| step.meta.id).collect()).unwrap_or_default();
            let mut forms = vec![spelled.whole()];
            forms.extend(walked.map(|walk| walk.resolved()).filter(|form| *form != forms[0]));
            places.push(Place { what: what.to_owned(), forms, ids, outer, remedy: remedy.to_owned() });
        };
        for path in sys::system_directories() {
            add("a directory of the system", &path, true, &aside);
        }
        for path in sys::program_directories() {
            add("a directory of programs", &path, true, &aside);
        }
        add("the directory of other programs", &sys::directory_of_other_programs(), false, &aside);
        for (what, path, outer) in self.own_directories() {
            add(what, &path, outer, &sibling(&path));
        }
        let homes: BTreeSet<PathBuf> = homes(ours, owners, &self.settings).into_iter().collect();
        let mut home = |what: &str, names: Vec<String>, children: bool| {
            let inside = [names.as_slice(), &[String::from("mcpproxy-output")]].concat();
            let remedy = format!("name a directory in it, such as {:?}", path_text(&inside));
            let remedy = if children { aside.clone() } else { remedy };
            let forms = vec![names];
            places.push(Place { what: what.to_owned(), forms, ids: Vec::new(), outer: false, remedy });
        };
        for path in homes {
            if let Ok(spelled) = spell(&path) {
                home("a home directory", spelled.whole(), false);
            }
        }
        for path in sys::directories_of_homes() {
            if let Ok(spelled) = spell(&path) {
                home("all home directories", spelled.whole(), true);
            }
        }
        places
    }

    /// What we write ourselves: its name in messages, its path, and whether a root may not lie in it either.
    fn own_directories(&self) -> Vec<(&'static str, PathBuf, bool)> {
        let of = |path: &Option<PathBuf>, what, outer| path.clone().map(|path| (what, path, outer));
        let mut own: Vec<_> = [
            of(&self.settings.config_dir, "the directory of our configuration", false),
            of(&self.settings.data_dir, "our data directory", true),
            of(&self.settings.log_dir, "our log directory", true),
        ]
        .into_iter()
        .flatten()
        .collect();
        own.extend(
            self.settings
                .own_paths
                .iter()
                .map(|path| ("a file that we write ourselves", path.clone(), false)),
        );
        own
    }

    /// By identity, at each call: our own directories, and the homes of our user and of trusted owners.
    fn protect(&self, ours: u32, owners: &[Arc<Credentials>]) -> Vec<Protected> {
        let own =
            self.own_directories().into_iter().filter(|(what, ..)| *what != "a file that we write ourselves");
        let homes = near_homes(ours, owners, &self.settings)
            .into_iter()
            .map(|path| ("a home directory", path, false));
        own.chain(homes)
            .filter_map(|(what, path, outer)| Some((what, spell(&path).ok()?.whole(), outer)))
            .map(|(what, names, outer)| Protected::open(&self.os, what, names, outer))
            .collect()
    }
}

/// A place that no root may hold.
struct Place {
    what: String,
    forms: Vec<Vec<String>>,
    /// From the top down to it, if it exists.
    ids: Vec<FileId>,
    /// Nor lie in.
    outer: bool,
    remedy: String,
}

impl Place {
    fn objection(&self, roots: &[Vec<String>]) -> Option<String> {
        for form in &self.forms {
            for root in roots {
                let how = match name::relation_of_names(PLATFORM, root, form) {
                    Relation::Equal => "is",
                    Relation::Contains => "holds",
                    Relation::LiesIn if self.outer => "lies in",
                    // What lies directly in a directory of homes is a home.
                    Relation::LiesIn
                        if self.what == "all home directories" && root.len() == form.len() + 1 =>
                    {
                        return Some(String::from("is a home directory"));
                    }
                    Relation::LiesIn | Relation::Apart => continue,
                };
                return Some(format!("{how} {} ({})", self.what, path_text(form)));
            }
        }
        None
    }

    /// The same by identity, for a root that is this place under another name: a mount.
    fn hidden_objection(&self, root: &Walk) -> Option<String> {
        let holds = root.root_id().is_some_and(|root| self.ids.contains(&root));
        let lies_in = self.outer && root.steps.iter().any(|step| self.ids.last() == Some(&step.meta.id));
        let how = if holds {
            "is or holds"
        } else if lies_in {
            "lies in"
        } else {
            return None;
        };
        let path = path_text(self.forms.first()?);
        Some(format!("{how}, by another name, {} ({path})", self.what))
    }
}

/// As written, with only the last link kept, and with none: the forms by which a root may be named.
pub(crate) fn forms_of(root: &Spelling, walked: Option<&Walk>) -> Vec<Vec<String>> {
    let mut forms = vec![root.whole()];
    if let Some(walk) = walked {
        for form in [walk.parent_resolved.clone(), walk.resolved()] {
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

fn remember(root: Spelling, walked: &Result<Walk, String>, before: Option<&Roots>) -> Root {
    if let Some(same) = before.and_then(|roots| roots.0.roots.iter().find(|old| old.spelling == root)) {
        return same.clone();
    }
    let forms = forms_of(&root, walked.as_ref().ok());
    let links = walked.as_ref().map(Walk::links).map_err(Clone::clone);
    let owner = walked.as_ref().ok().and_then(|walk| Some(walk.deepest()?.meta.uid));
    Root { path: PathBuf::from(root.text(PLATFORM)), spelling: root, forms, links, owner }
}

fn spell(path: &Path) -> Result<Spelling, NameProblem> {
    name::parse_root(PLATFORM, path.to_str().ok_or(NameProblem::NotUnicode)?)
}

fn acting_candidates(ours: u32, switch: bool, owners: &[Arc<Credentials>]) -> Vec<Acting> {
    let others =
        owners.iter().filter(|owner| switch && owner.uid != ours).map(|owner| Acting::As(Arc::clone(owner)));
    std::iter::once(Acting::Ourselves { uid: ours }).chain(others).collect()
}

/// The homes of our user and of trusted owners. `/` does not count.
fn near_homes(ours: u32, owners: &[Arc<Credentials>], settings: &Settings) -> BTreeSet<PathBuf> {
    let accounts = owners.iter().filter_map(|owner| owner.home.clone()).chain(Credentials::of(ours).home);
    let paths = accounts.map(PathBuf::from).chain(settings.home_dirs.iter().cloned());
    paths.filter(|path| path.is_absolute() && path != Path::new("/")).collect()
}

fn homes(ours: u32, owners: &[Arc<Credentials>], settings: &Settings) -> BTreeSet<PathBuf> {
    let mut all = near_homes(ours, owners, settings);
    all.extend(sys::homes_of_all().into_iter().map(PathBuf::from));
    all
}

fn sibling(path: &Path) -> String {
    let beside = path.parent().unwrap_or(Path::new("/")).join("mcpproxy-output");
    format!("use a directory beside it, such as {beside:?}")
}
