//! What a plan is made of, and how one is drawn from bytes: every string of bytes is a plan.

use std::sync::OnceLock;

use outputfile::Call;

/// Steps that one plan has at the most.
const MOST_STEPS: usize = 48;
/// The names in the laboratory's own directory that a plan may touch.
const TOPS: [&str; 4] = ["root", "out", "spare", "link"];

/// How the laboratory is laid out, and what is done in it.
#[derive(Debug, Clone)]
pub struct Plan {
    pub lay: Lay,
    pub steps: Vec<Step>,
}

/// What is there when the roots are opened.
#[derive(Debug, Clone, Copy)]
pub struct Lay {
    pub root: RootAs,
    /// `spare` is a root too.
    pub two: bool,
    pub way: Way,
}

/// How the first root is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootAs {
    Directory,
    /// By `link`, a link to `root`.
    Linked,
    /// It does not exist yet.
    Missing,
}

/// The way of publishing that the system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Nameless,
    Rename,
    Link,
    Portable,
}

#[derive(Debug, Clone)]
pub enum Step {
    Do(Fs),
    Preflight(usize, At, bool, Vec<Trap>),
    Begin(usize, Vec<Trap>),
    Put(usize, usize, Vec<Trap>),
    Commit(usize, Vec<Trap>),
    Drop(usize),
    Reopen(usize),
    Remove(usize),
}

/// Done before a system call of a step: the one of this kind that comes after so many others of it.
#[derive(Debug, Clone)]
pub struct Trap(pub Call, pub u8, pub Vec<Fs>);

/// What somebody else does to the file system.
#[derive(Debug, Clone, Copy)]
pub enum Fs {
    MakeDirectory(At),
    /// A symbolic link to another place of the laboratory, by its absolute path.
    Link(At, At),
    /// A symbolic link with this text.
    LinkText(At, &'static str),
    Rename(At, At),
    Exchange(At, At),
    Unlink(At),
    RemoveDirectory(At),
    HardLink(At, At),
    Write(At, u8),
    Mode(At, u32),
    /// Gives it to another user (as root only).
    Owner(At),
    Pipe(At),
    /// The root goes aside, and a link to it, a link outside or another directory takes its place.
    SwapRoot(Swap),
    /// The root that went aside comes back.
    SwapBack,
    /// A file in the directory that is named as a temporary whose writer is gone.
    Leftover(At),
    /// A whole save by another process, with or without overwriting.
    Rival(At, bool),
}

#[derive(Debug, Clone, Copy)]
pub enum Swap {
    LinkToItself,
    LinkOutside,
    Directory,
    Nothing,
}

/// A path below the laboratory's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At(pub &'static str);

impl At {
    pub fn name(self) -> &'static str {
        self.0.rsplit('/').next().unwrap_or(self.0)
    }

    pub fn top(self) -> &'static str {
        self.0.split('/').next().unwrap_or(self.0)
    }
}

/// Before these calls something else may happen.
const CALLS: [Call; 27] = [
    Call::OpenTop,
    Call::OpenChild,
    Call::ReadLink,
    Call::OpenBeneath,
    Call::OpenBeneathByHand,
    Call::OpenParent,
    Call::Stat,
    Call::StatPath,
    Call::Access,
    Call::StatFs,
    Call::MakeDirectory,
    Call::RemoveDirectory,
    Call::OpenNameless,
    Call::OpenNamed,
    Call::OpenExisting,
    Call::Lock,
    Call::Write,
    Call::SyncFile,
    Call::OpenForSync,
    Call::SyncDirectory,
    Call::LinkHandle,
    Call::LinkName,
    Call::RenameNew,
    Call::RenameOver,
    Call::Exchange,
    Call::Unlink,
    Call::List,
];

const MODES: [u32; 7] = [0o700, 0o755, 0o770, 0o777, 0o1777, 0o500, 0o700];

/// Draws a plan. There is one for every string of bytes.
pub fn plan(bytes: &[u8]) -> Plan {
    let mut draw = Draw(bytes);
    let head = draw.byte().unwrap_or(0);
    let root = match head & 7 {
        5 | 6 => RootAs::Linked,
        7 => RootAs::Missing,
        _ => RootAs::Directory,
    };
    let way = [Way::Nameless, Way::Rename, Way::Link, Way::Portable][usize::from(head >> 3 & 3)];
    let lay = Lay { root, two: head >> 5 == 7, way };
    let mut steps = Vec::new();
    while steps.len() < MOST_STEPS && draw.steps(&mut steps).is_some() {}
    Plan { lay, steps }
}

/// Bytes that are used up from the front; `None` at their end.
struct Draw<'a>(&'a [u8]);

impl Draw<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn below(&mut self, end: usize) -> Option<usize> {
        Some(usize::from(self.byte()?) % end)
    }

    /// One step, or the steps of a whole save.
    fn steps(&mut self, into: &mut Vec<Step>) -> Option<()> {
        let kind = self.byte()?;
        let slot = usize::from(kind >> 7);
        match kind & 31 {
            0..=12 => into.push(Step::Do(self.fs()?)),
            13..=15 => into.push(Step::Preflight(slot, self.target()?, self.yes()?, self.traps()?)),
            16..=18 => into.push(Step::Begin(slot, self.traps()?)),
            19 => into.push(Step::Put(slot, self.below(70)?, self.traps()?)),
            20..=22 => into.push(Step::Commit(slot, self.traps()?)),
            23 => into.push(Step::Drop(slot)),
            24 => into.push(Step::Reopen(self.below(4)?)),
            25 => into.push(Step::Remove(self.below(4)?)),
            26..=31 => {
                let (at, overwrite, length) = (self.target()?, self.yes()?, self.below(40)?);
                let mut traps = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
                traps[self.below(4)?] = self.traps()?;
                let [check, begin, put, commit] = traps;
                into.extend([
                    Step::Preflight(slot, at, overwrite, check),
                    Step::Begin(slot, begin),
                    Step::Put(slot, length, put),
                    Step::Commit(slot, commit),
                ]);
            }
            _ => {}
        }
        Some(())
    }

    fn fs(&mut self) -> Option<Fs> {
        Some(match self.byte()? & 31 {
            0..=5 => Fs::MakeDirectory(self.at()?),
            6 | 7 => Fs::Link(self.at()?, self.at()?),
            8 | 9 => Fs::LinkText(self.at()?, self.text()?),
            10..=12 => Fs::Rename(self.at()?, self.at()?),
            13 | 14 => Fs::Exchange(self.at()?, self.at()?),
            15 | 16 => Fs::Unlink(self.at()?),
            17 => Fs::RemoveDirectory(self.at()?),
            18 => Fs::HardLink(self.at()?, self.at()?),
            19..=21 => Fs::Write(self.at()?, self.byte()?),
            22 | 23 => Fs::Mode(self.at()?, MODES[self.below(MODES.len())?]),
            24 => Fs::Owner(self.at()?),
            25 => Fs::Pipe(self.at()?),
            26 => Fs::SwapRoot(
                [Swap::LinkToItself, Swap::LinkOutside, Swap::Directory, Swap::Nothing][self.below(4)?],
            ),
            27 | 28 => Fs::SwapBack,
            29 => Fs::Leftover(self.at()?),
            _ => Fs::Rival(self.target()?, self.yes()?),
        })
    }

    fn yes(&mut self) -> Option<bool> {
        Some(self.byte()? & 1 == 1)
    }

    /// Any place, the root's most often.
    fn at(&mut self) -> Option<At> {
        let which = self.byte()?;
        let top = [0, 0, 0, 0, 0, 1, 1, 2][usize::from(which & 7)];
        let top = if which >= 0xf8 { 3 } else { top };
        let depth = usize::from(which >> 3 & 3);
        self.place(top, depth)
    }

    /// A place that a save is asked for.
    fn target(&mut self) -> Option<At> {
        let which = self.byte()?;
        let top = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 2, 1][usize::from(which & 15)];
        let depth = [1, 1, 2, 3][usize::from(which >> 4 & 3)];
        self.place(top, depth)
    }

    fn place(&mut self, top: usize, depth: usize) -> Option<At> {
        static PLACES: OnceLock<Vec<[Vec<String>; 4]>> = OnceLock::new();
        let places = PLACES.get_or_init(|| {
            TOPS.iter().map(|top| [0, 1, 2, 3].map(|depth| with_names(&format!("{top}/"), depth))).collect()
        });
        let of_depth = &places[top][depth];
        let at = self.below(of_depth.len())?;
        Some(At(of_depth[at].trim_end_matches('/')))
    }

    /// Relative, up to three directories up: never out of the laboratory, which lies that deep.
    fn text(&mut self) -> Option<&'static str> {
        static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
        let texts = TEXTS.get_or_init(|| {
            let up = ["", "../", "../../", "../../../"];
            let tops = ["../out/", "../../out/", "../root/", "../../root/"];
            let all = up.iter().chain(&tops).flat_map(|up| (0..=2).flat_map(|depth| with_names(up, depth)));
            all.map(|text| text.trim_end_matches('/').to_owned()).filter(|text| !text.is_empty()).collect()
        });
        let at = self.below(texts.len())?;
        Some(&texts[at])
    }

    fn traps(&mut self) -> Option<Vec<Trap>> {
        let count = match self.byte()? & 7 {
            0..=2 => 1,
            3 => 2,
            _ => 0,
        };
        (0..count).map(|_| self.trap()).collect()
    }

    fn trap(&mut self) -> Option<Trap> {
        let call = CALLS[self.below(CALLS.len())?];
        let which = self.byte()?;
        let later = if which & 3 == 3 { which >> 2 & 15 } else { which & 3 };
        let count = usize::from(which >> 6 == 3) + 1;
        Some(Trap(call, later, (0..count).map(|_| self.fs()).collect::<Option<_>>()?))
    }
}

/// `before`, and so many names of the alphabet.
fn with_names(before: &str, depth: usize) -> Vec<String> {
    let mut all = vec![before.to_owned()];
    for _ in 0..depth {
        all = all.iter().flat_map(|text| ["a", "b", "c"].map(|name| format!("{text}{name}/"))).collect();
    }
    all
}
