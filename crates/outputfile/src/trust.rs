//! Who could redirect or change what lies beneath a root: a judgement of what a walk met. Pure.

use std::fmt;

use crate::error::shown;
use crate::walk::{DirectoryMet, LinkMet, Met};

/// Who may own what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners<'a> {
    /// The user that we run as.
    pub ours: u32,
    /// Others who may own a root and what is around it.
    pub trusted: &'a [u32],
}

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// The root belongs to somebody else.
    RootOwner { path: String, uid: u32 },
    /// A directory on the way to the root, or between it and the target, does.
    DirectoryOwner { path: String, uid: u32, inside: bool },
    /// A link does.
    LinkOwner { path: String, uid: u32 },
    /// A link of a trusted owner leads to what is not theirs.
    LinkLeadsAway { path: String, uid: u32, to: String },
    /// Everybody may write.
    Writable { path: String, root: bool },
}

/// Judges all that was met: up to `root` (its place in the list, if it exists) the way, after it the inside.
/// `as_user` is whose identity makes the files.
pub(crate) fn judge(
    met: &[Met],
    root: Option<usize>,
    as_user: u32,
    owners: Owners<'_>,
) -> Result<(), Distrust> {
    for (at, thing) in met.iter().enumerate() {
        match thing {
            Met::Directory(directory) => judge_directory(directory, at, root, as_user, owners)?,
            Met::Link(link) => judge_link(link, met, as_user, owners)?,
        }
    }
    Ok(())
}

/// Judges only the links that were met.
pub(crate) fn judge_links(met: &[Met], as_user: u32, owners: Owners<'_>) -> Result<(), Distrust> {
    met.iter().try_for_each(|thing| match thing {
        Met::Directory(_) => Ok(()),
        Met::Link(link) => judge_link(link, met, as_user, owners),
    })
}

/// Whose identity is right for a root that belongs to `owner`: theirs if they are trusted, else ours.
pub(crate) fn acting_for(owner: u32, owners: Owners<'_>) -> u32 {
    if owner != owners.ours && owners.trusted.contains(&owner) { owner } else { owners.ours }
}

fn judge_directory(
    directory: &DirectoryMet,
    at: usize,
    root: Option<usize>,
    as_user: u32,
    owners: Owners<'_>,
) -> Result<(), Distrust> {
    if directory.waived.is_some() {
        return Ok(());
    }
    let (path, uid, mode) = (directory.path.clone(), directory.meta.uid, directory.meta.mode);
    let is_root = root == Some(at);
    let inside = root.is_some_and(|root| at > root);
    let ours = uid == owners.ours || uid == as_user;
    if is_root && !ours {
        return Err(Distrust::RootOwner { path, uid });
    }
    // Around a root of ours any trusted owner may have directories; around one of theirs only they may.
    let around = !inside && as_user == owners.ours && owners.trusted.contains(&uid);
    if !ours && uid != 0 && !around {
        return Err(Distrust::DirectoryOwner { path, uid, inside });
    }
    let writable = mode & 0o002 != 0;
    let sticky = mode & 0o1000 != 0;
    if writable && (is_root || !sticky) {
        return Err(Distrust::Writable { path, root: is_root });
    }
    Ok(())
}

fn judge_link(link: &LinkMet, met: &[Met], as_user: u32, owners: Owners<'_>) -> Result<(), Distrust> {
    let (path, uid) = (link.path.clone(), link.uid);
    if uid == 0 || uid == owners.ours {
        return Ok(());
    }
    if uid != as_user && !owners.trusted.contains(&uid) {
        return Err(Distrust::LinkOwner { path, uid });
    }
    // What the link leads to, and all that is met from there on, must be theirs.
    let end = link.end.unwrap_or(usize::MAX);
    let theirs = |thing: &Met| match thing {
        Met::Directory(directory) => directory.meta.uid == uid,
        Met::Link(_) => true,
    };
    let beyond = met.get(end..).unwrap_or_default();
    if beyond.is_empty() || !beyond.iter().all(theirs) {
        return Err(Distrust::LinkLeadsAway { path, uid, to: link.to.clone() });
    }
    Ok(())
}

/// Names users in messages.
pub(crate) trait Naming {
    fn name_of(&self, uid: u32) -> Option<String>;
    /// Whether the number stands for users that are not known here.
    fn unmapped(&self, uid: u32) -> bool;
}

impl Distrust {
    /// The message: the rule, where it is broken, and at the end the line that would allow it.
    pub(crate) fn explain(&self, ours: u32, naming: &dyn Naming) -> String {
        let us = Who(ours, naming);
        match self {
            Self::RootOwner { path, uid } => {
                let who = Who(*uid, naming);
                let path = shown(path);
                format!(
                    "{path} belongs to {who} and not to {us}; give it to {us}, or allow it: {}",
                    who.line()
                )
            }
            Self::DirectoryOwner { path, uid, inside: false } => {
                let who = Who(*uid, naming);
                let path = shown(path);
                format!("{path} on the way belongs to {who}, neither root nor {us}; allow it: {}", who.line())
            }
            Self::DirectoryOwner { path, uid, inside: true } => {
                let who = Who(*uid, naming);
                let line = directories(path);
                let path = shown(path);
                format!(
                    "{path} in it belongs to {who}, neither root nor the owner of the root; allow it: {line}"
                )
            }
            Self::LinkOwner { path, uid } => {
                let who = Who(*uid, naming);
                let path = shown(path);
                format!("the link {path} belongs to {who}, neither root nor {us}; allow it: {}", who.line())
            }
            Self::LinkLeadsAway { path, uid, to } => {
                let (who, path, to) = (Who(*uid, naming), shown(path), shown(to));
                format!(
                    "the link {path} of {who} leads to {to}, which is not theirs; name the directory itself: \"tool_output_roots\": [\"{to}\"]"
                )
            }
            Self::Writable { path, root } => {
                let line = directories(path);
                let path = shown(path);
                let sticky = if *root { "" } else { " and has no sticky bit" };
                format!(
                    "{path} can be written by everybody{sticky}; run `chmod o-w {path}`, or allow it: {line}"
                )
            }
        }
    }
}

fn directories(path: &str) -> String {
    format!("\"tool_output_trusted_directories\": [\"{}\"]", shown(path))
}

struct Who<'a>(u32, &'a dyn Naming);

impl Who<'_> {
    fn line(&self) -> String {
        let name = self.1.name_of(self.0).unwrap_or_else(|| self.0.to_string());
        format!("\"tool_output_trusted_owners\": [\"{name}\"]")
    }
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1.name_of(self.0) {
            _ if self.1.unmapped(self.0) => write!(f, "uid {} (a user that is not mapped here)", self.0),
            Some(name) => write!(f, "{name} (uid {})", self.0),
            None => write!(f, "uid {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{FileId, Kind, Meta};

    const ROOT: u32 = 0;
    const US: u32 = 1000;
    const ALICE: u32 = 1001;
    const BOB: u32 = 1002;
    const MALLORY: u32 = 6666;

    struct Numbers;

    impl Naming for Numbers {
        fn name_of(&self, uid: u32) -> Option<String> {
            (uid == ALICE).then(|| String::from("alice"))
        }
        fn unmapped(&self, uid: u32) -> bool {
            uid == 65534
        }
    }

    fn directory(path: &str, uid: u32, mode: u32) -> Met {
        let meta = Meta {
            kind: Kind::Directory,
            id: FileId { dev: 1, ino: 1 },
            uid,
            gid: 0,
            mode,
            size: 0,
            ctime_ns: 0,
            mount: 1,
            frozen: false,
        };
        Met::Directory(DirectoryMet { path: path.to_owned(), meta, waived: None })
    }

    fn waived(path: &str, uid: u32, mode: u32) -> Met {
        match directory(path, uid, mode) {
            Met::Directory(mut directory) => {
                directory.waived = Some(1);
                Met::Directory(directory)
            }
            link => link,
        }
    }

    fn link(path: &str, uid: u32, end: usize) -> Met {
        Met::Link(LinkMet { path: path.to_owned(), to: "elsewhere".to_owned(), uid, end: Some(end) })
    }

    /// `/`, `/way`, `/way/root`, `/way/root/inside`: owners and modes of the last three.
    fn judged(
        way: (u32, u32),
        root: (u32, u32),
        inside: (u32, u32),
        trusted: &[u32],
    ) -> Result<(), Distrust> {
        let met = [
            directory("/", ROOT, 0o755),
            directory("/way", way.0, way.1),
            directory("/way/root", root.0, root.1),
            directory("/way/root/inside", inside.0, inside.1),
        ];
        let owners = Owners { ours: US, trusted };
        judge(&met, Some(2), acting_for(root.0, owners), owners)
    }

    #[test]
    fn the_owner_rules_of_directories() {
        let good = [
            (judged((ROOT, 0o755), (US, 0o700), (US, 0o700), &[]), "ours"),
            (judged((ROOT, 0o1777), (US, 0o700), (ROOT, 0o755), &[]), "sticky on the way, root inside"),
            (judged((US, 0o775), (US, 0o770), (US, 0o1777), &[]), "group-writable passes"),
            (judged((ALICE, 0o755), (ALICE, 0o700), (ALICE, 0o700), &[ALICE]), "a trusted owner's"),
            (judged((ALICE, 0o755), (US, 0o700), (US, 0o700), &[ALICE]), "around ours"),
            (judged((ROOT, 0o755), (ALICE, 0o700), (US, 0o700), &[ALICE]), "ours in a trusted owner's"),
            (judged((ROOT, 0o755), (ROOT, 0o755), (US, 0o700), &[ROOT]), "root as a trusted owner"),
        ];
        for (result, what) in good {
            assert_eq!(result, Ok(()), "{what}");
        }
        let bad = [
            (judged((MALLORY, 0o755), (US, 0o700), (US, 0o700), &[]), "another's on the way"),
            (judged((ROOT, 0o777), (US, 0o700), (US, 0o700), &[]), "world-writable on the way"),
            (judged((ROOT, 0o755), (MALLORY, 0o700), (US, 0o700), &[]), "another's root"),
            (judged((ROOT, 0o755), (ROOT, 0o755), (US, 0o700), &[]), "root's root"),
            (judged((ROOT, 0o755), (US, 0o1777), (US, 0o700), &[]), "world-writable root, sticky or not"),
            (judged((ROOT, 0o755), (US, 0o700), (MALLORY, 0o700), &[]), "another's inside"),
            (judged((ROOT, 0o755), (US, 0o700), (US, 0o777), &[]), "world-writable inside"),
            (judged((BOB, 0o755), (ALICE, 0o700), (ALICE, 0o700), &[ALICE, BOB]), "bob around alice's"),
            (judged((ROOT, 0o755), (US, 0o700), (ALICE, 0o700), &[ALICE]), "alice inside ours"),
        ];
        for (result, what) in bad {
            assert!(result.is_err(), "{what}");
        }
    }

    #[test]
    fn a_trusted_directory_waives_owner_and_mode_of_directories_and_not_of_links() {
        let owners = Owners { ours: US, trusted: &[] };
        let met =
            [directory("/", ROOT, 0o755), waived("/v", MALLORY, 0o777), waived("/v/root", MALLORY, 0o777)];
        assert_eq!(judge(&met, Some(2), US, owners), Ok(()));
        let met = [directory("/", ROOT, 0o755), link("/l", MALLORY, 2), waived("/v", US, 0o777)];
        assert!(matches!(judge(&met, Some(2), US, owners), Err(Distrust::LinkOwner { .. })));
    }

    #[test]
    fn a_link_of_a_trusted_owner_leads_only_to_what_is_theirs() {
        let owners = Owners { ours: ROOT, trusted: &[ALICE] };
        let to = |uid| [directory("/", ROOT, 0o755), link("/l", ALICE, 2), directory("/x", uid, 0o700)];
        assert_eq!(judge(&to(ALICE), Some(2), ALICE, owners), Ok(()));
        assert!(matches!(judge(&to(ROOT), Some(2), ROOT, owners), Err(Distrust::LinkLeadsAway { .. })));
        let through = [
            directory("/", ROOT, 0o755),
            link("/l", ALICE, 2),
            directory("/home/alice", ALICE, 0o700),
            directory("/home/alice/out", ROOT, 0o700),
        ];
        assert!(
            judge(&through, Some(3), ROOT, owners).is_err(),
            "a directory of root beyond the link of alice"
        );
        let ours = [directory("/", ROOT, 0o755), link("/l", ROOT, 2), directory("/x", ALICE, 0o700)];
        assert_eq!(judge(&ours, Some(2), ALICE, owners), Ok(()));
    }

    #[test]
    fn every_refusal_ends_with_the_line_that_would_allow_it() {
        let all = [
            Distrust::RootOwner { path: "/r".into(), uid: ALICE },
            Distrust::DirectoryOwner { path: "/r".into(), uid: 65534, inside: false },
            Distrust::DirectoryOwner { path: "/r".into(), uid: BOB, inside: true },
            Distrust::LinkOwner { path: "/r".into(), uid: MALLORY },
            Distrust::LinkLeadsAway { path: "/r".into(), uid: ALICE, to: "/t".into() },
            Distrust::Writable { path: "/r".into(), root: true },
        ];
        for distrust in all {
            let text = distrust.explain(US, &Numbers);
            let line = &text[text.rfind("\"tool_output_").expect("a line")..];
            assert!(line.ends_with("\"]") && line.contains("\": [\""), "{text}");
        }
        let unmapped = Distrust::DirectoryOwner { path: "/r".into(), uid: 65534, inside: false };
        assert!(unmapped.explain(US, &Numbers).contains("not mapped here"));
        let alice = Distrust::RootOwner { path: "/r".into(), uid: ALICE }.explain(US, &Numbers);
        assert!(alice.ends_with("\"tool_output_trusted_owners\": [\"alice\"]"), "{alice}");
    }
}
