//! What must come of each step of a save, told from what the laboratory looks like before it.

use super::draw::{At, Lay, RootAs};
use super::world::{Kind, Walked, World};

/// What must come of a step.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It must succeed, and this is where the file goes.
    Pass(Box<Spot>),
    /// It must be refused.
    Refuse(&'static str),
    /// The model does not say.
    Either,
}

/// Where a file goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The root, if it exists.
    pub root: Option<u64>,
    /// The directory of the file, if it exists.
    pub parent: Option<u64>,
    /// The directories below the root, without links.
    pub below: Vec<String>,
    /// What the name stands for.
    pub present: Option<u64>,
}

/// What the roots were when they were opened.
#[derive(Debug, Clone)]
pub struct Model {
    lay: Lay,
    /// The laboratory's directory, from the top.
    scratch: Vec<String>,
    ours: u32,
    roots: Vec<Remembered>,
}

#[derive(Debug, Clone)]
struct Remembered {
    /// By which name a path may begin.
    tops: Vec<&'static str>,
    names: Vec<String>,
    links: Vec<(String, String)>,
}

impl Model {
    pub fn new(lay: Lay, scratch: &[&str], ours: u32, world: &World) -> Self {
        let scratch: Vec<String> = scratch.iter().map(|name| (*name).to_owned()).collect();
        let remember = |tops: Vec<&'static str>| {
            let mut names = scratch.clone();
            names.push(tops[0].to_owned());
            let links = told(&world.walk(&names).expect("the roots can be seen when they are opened"));
            Remembered { tops, names, links }
        };
        let first = if lay.root == RootAs::Linked { vec!["link", "root"] } else { vec!["root"] };
        let mut roots = vec![remember(first)];
        roots.extend(lay.two.then(|| remember(vec!["spare"])));
        Self { lay, scratch, ours, roots }
    }

    /// Where the root of this path is now, whatever led there.
    pub fn root_of(&self, at: At, world: &World) -> Option<Walked> {
        let root = self.roots.iter().find(|root| root.tops.contains(&at.top()))?;
        world.walk(&root.names).ok()
    }

    /// Whether a directory lies in a root, is one, or stands on the way to one that is to be made.
    pub fn is_inside(&self, world: &World, at: At, directory: u64) -> bool {
        let Some(walked) = self.root_of(at, world) else { return false };
        if walked.missing.is_empty() {
            return world.is_within(directory, walked.end());
        }
        walked.end() == directory
    }

    /// What must come of the check of this path.
    pub fn check(&self, world: &World, at: At, overwrite: bool) -> Verdict {
        match self.spot(world, at) {
            Ok(None) => Verdict::Either,
            Err(why) => Verdict::Refuse(why),
            Ok(Some(spot)) => match spot.present.and_then(|number| world.kind(number)) {
                None => Verdict::Pass(Box::new(spot)),
                Some(Kind::File) if overwrite => Verdict::Pass(Box::new(spot)),
                Some(Kind::File) => Verdict::Refuse("it exists"),
                Some(_) => Verdict::Refuse("it is no regular file"),
            },
        }
    }

    /// The same once more, after a check that found this directory, or one that the model does not know.
    pub fn check_again(
        &self,
        world: &World,
        at: At,
        overwrite: bool,
        parent: Option<Option<u64>>,
    ) -> Verdict {
        match (self.check(world, at, overwrite), parent) {
            (Verdict::Pass(_), None) => Verdict::Either,
            (Verdict::Pass(spot), Some(Some(before))) if spot.parent != Some(before) => {
                Verdict::Refuse("the directory is another one")
            }
            (verdict, _) => verdict,
        }
    }

    /// What must come of publishing what was begun there.
    pub fn publish(&self, world: &World, at: At, overwrite: bool, begun: &Spot) -> Verdict {
        let root = self.root_of(at, world).filter(|walked| walked.missing.is_empty());
        let Some(root) = root.filter(|walked| Some(walked.end()) == begun.root) else {
            return Verdict::Refuse("the root is another one");
        };
        let mut here = root.end();
        for name in &begun.below {
            match world.child(here, name).filter(|child| world.kind(*child) == Some(Kind::Directory)) {
                Some(child) => here = child,
                None => return Verdict::Refuse("a directory is gone"),
            }
        }
        if Some(here) != begun.parent {
            return Verdict::Refuse("the directory is another one");
        }
        if !self.may_write(world, here) {
            return Verdict::Refuse("the directory takes no names");
        }
        match world.child(here, at.name()).and_then(|number| world.kind(number)) {
            None => Verdict::Pass(Box::new(begun.clone())),
            Some(Kind::File) if overwrite => Verdict::Pass(Box::new(begun.clone())),
            Some(_) => Verdict::Refuse("the name is taken"),
        }
    }

    /// Whether a saved file must be found again: with these bytes, on a way without links.
    pub fn reopen(&self, world: &World, path: &str, bytes: &[u8]) -> Option<bool> {
        let names = world.below_top(path)?;
        let top = names.get(self.scratch.len())?;
        let at = self.roots.iter().flat_map(|root| &root.tops).find(|known| *known == top)?;
        let root = match self.standing(world, At(at)) {
            Ok(root) => root?,
            Err(_) => return Some(false),
        };
        let (name, directories) = names.get(self.scratch.len() + 1..)?.split_last()?;
        let mut here = root.missing.is_empty().then(|| root.end());
        for directory in directories {
            here = here
                .and_then(|here| world.child(here, directory))
                .filter(|child| world.kind(*child) == Some(Kind::Directory));
        }
        let found = here.and_then(|here| world.child(here, name)).and_then(|number| world.node(number));
        Some(found.is_some_and(|node| node.kind == Kind::File && node.content == bytes))
    }

    /// Where a path leads, if it may be written there; `None` when the model does not say.
    fn spot(&self, world: &World, at: At) -> Result<Option<Spot>, &'static str> {
        let Some(root) = self.standing(world, at)? else { return Ok(None) };
        let names: Vec<String> = at.0.split('/').skip(1).map(str::to_owned).collect();
        let (name, directories) = names.split_last().ok_or("it names the root")?;
        if !root.missing.is_empty() {
            let below = directories.to_vec();
            self.must_take_names(world, root.end())?;
            return Ok(Some(Spot { root: None, parent: None, below, present: None }));
        }
        let walked = world.walk_on(&root, directories)?;
        if !world.is_within(walked.end(), root.end()) {
            return Err("it leads out of the root");
        }
        if walked.links.iter().any(|(.., number)| !self.is_ours(world, *number)) {
            return Err("a link belongs to somebody else");
        }
        // What is strictly beneath the root, on the resolved way.
        for (_, directory) in walked.way.iter().skip(root.way.len()) {
            self.must_be_trusted(world, *directory)?;
        }
        self.must_take_names(world, walked.end())?;
        let below: Vec<String> =
            walked.names().into_iter().skip(root.way.len() - 1).chain(walked.missing.clone()).collect();
        let parent = walked.missing.is_empty().then(|| walked.end());
        let present = parent.and_then(|parent| world.child(parent, name));
        Ok(Some(Spot { root: Some(root.end()), parent, below, present }))
    }

    /// The root of a path, if it is what it was and nobody else could redirect it.
    fn standing(&self, world: &World, at: At) -> Result<Option<Walked>, &'static str> {
        let known = self.roots.iter().find(|root| root.tops.contains(&at.top()));
        let known = known.ok_or("it is outside by its name")?;
        let root = world.walk(&known.names)?;
        if told(&root) != known.links {
            return Err("the root leads elsewhere");
        }
        if root.links.iter().any(|(.., number)| !self.is_ours(world, *number)) {
            return Err("a link to the root belongs to somebody else");
        }
        let end = root.missing.is_empty().then(|| root.end());
        for directory in &root.met {
            self.must_be_trusted(world, *directory)?;
            let node = &world.nodes[directory];
            if Some(*directory) == end && (node.mode & 0o002 != 0 || node.uid != self.ours) {
                return Err("the root belongs to somebody else, or to everybody");
            }
        }
        for other in self.roots.iter().filter(|other| other.names != known.names) {
            match world.walk(&other.names) {
                Err(_) => return Err("another root cannot be seen"),
                Ok(walked) if told(&walked) != other.links => return Ok(None),
                Ok(_) => {}
            }
        }
        Ok(Some(root))
    }

    fn must_be_trusted(&self, world: &World, directory: u64) -> Result<(), &'static str> {
        let node = &world.nodes[&directory];
        if !self.is_ours(world, directory) {
            return Err("a directory belongs to somebody else");
        }
        if node.mode & 0o002 != 0 && node.mode & 0o1000 == 0 {
            return Err("everybody may write to a directory");
        }
        Ok(())
    }

    fn is_ours(&self, world: &World, number: u64) -> bool {
        let uid = world.nodes[&number].uid;
        uid == 0 || uid == self.ours
    }

    fn must_take_names(&self, world: &World, directory: u64) -> Result<(), &'static str> {
        if self.may_write(world, directory) { Ok(()) } else { Err("a directory takes no names") }
    }

    fn may_write(&self, world: &World, directory: u64) -> bool {
        self.ours == 0 || world.nodes[&directory].mode & 0o300 == 0o300
    }

    pub fn lay(&self) -> Lay {
        self.lay
    }
}

fn told(walked: &Walked) -> Vec<(String, String)> {
    walked.links.iter().map(|(place, text, _)| (place.clone(), text.clone())).collect()
}
