//! A laboratory as it is at one moment, and where paths lead in it by the rules of the kernel: no call to the system.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Links that one path may lead through.
const MOST_LINKS: usize = 40;

/// Everything beneath one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The directory's own number.
    pub top: u64,
    /// Its path.
    path: String,
    pub nodes: BTreeMap<u64, Node>,
    /// Directory and name, and what has that name.
    pub names: BTreeMap<(u64, String), u64>,
    /// Directory, and the one that it lies in.
    above: BTreeMap<u64, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    /// What is in a file, or the text of a link.
    pub content: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
    Link,
    Other,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// The directories from the top, each with its name.
    pub way: Vec<(String, u64)>,
    pub missing: Vec<String>,
    /// All directories that were entered, also those that a `..` left again.
    pub met: Vec<u64>,
    /// The links that were followed: where each was, what it says, and its number.
    pub links: Vec<(String, String, u64)>,
}

impl Walked {
    pub fn end(&self) -> u64 {
        self.way.last().map_or(0, |(_, number)| *number)
    }

    /// The names from the top to the end.
    pub fn names(&self) -> Vec<String> {
        self.way.iter().skip(1).map(|(name, _)| name.clone()).collect()
    }

    fn place(&self, name: &str) -> String {
        let mut names = self.names();
        names.push(name.to_owned());
        names.join("/")
    }
}

impl World {
    pub fn see(top: &Path) -> Self {
        let meta = fs::symlink_metadata(top).unwrap();
        let path = top.to_str().unwrap().to_owned();
        let mut world = Self {
            top: meta.ino(),
            path,
            nodes: BTreeMap::new(),
            names: BTreeMap::new(),
            above: BTreeMap::new(),
        };
        world.add(top, &meta);
        world
    }

    fn add(&mut self, path: &Path, meta: &fs::Metadata) {
        let number = meta.ino();
        let of = meta.file_type();
        let (kind, content) = if of.is_dir() {
            (Kind::Directory, Vec::new())
        } else if of.is_file() {
            (Kind::File, fs::read(path).unwrap())
        } else if of.is_symlink() {
            (Kind::Link, fs::read_link(path).unwrap().into_os_string().into_encoded_bytes())
        } else {
            assert!(of.is_fifo(), "{}: {of:?}", path.display());
            (Kind::Other, Vec::new())
        };
        let node = Node { kind, mode: meta.mode() & 0o7777, uid: meta.uid(), content };
        self.nodes.insert(number, node);
        if kind != Kind::Directory {
            return;
        }
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            let name = entry.file_name().into_string().unwrap();
            self.names.insert((number, name), meta.ino());
            if meta.is_dir() {
                self.above.insert(meta.ino(), number);
            }
            self.add(&entry.path(), &meta);
        }
    }

    pub fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub fn kind(&self, number: u64) -> Option<Kind> {
        self.node(number).map(|node| node.kind)
    }

    pub fn child(&self, directory: u64, name: &str) -> Option<u64> {
        self.names.get(&(directory, name.to_owned())).copied()
    }

    pub fn is_empty(&self, directory: u64) -> bool {
        self.names.range((directory, String::new())..).next().is_none_or(|((of, _), _)| *of != directory)
    }

    /// Whether a directory is another one or lies in it.
    pub fn is_within(&self, directory: u64, outer: u64) -> bool {
        let mut here = Some(directory);
        while let Some(number) = here {
            if number == outer {
                return true;
            }
            here = self.above.get(&number).copied();
        }
        false
    }

    /// The names of an absolute path below the top.
    pub fn below_top(&self, path: &str) -> Option<Vec<String>> {
        let below = path.strip_prefix(&self.path)?.strip_prefix('/')?;
        Some(below.split('/').map(str::to_owned).collect())
    }

    pub fn walk(&self, names: &[String]) -> Result<Walked, &'static str> {
        let way = vec![(String::new(), self.top)];
        self.walk_on(&Walked { way, missing: vec![], met: vec![self.top], links: vec![] }, names)
    }

    /// Goes on from where another path led. Links are followed; one that leads to nothing is an error.
    pub fn walk_on(&self, from: &Walked, names: &[String]) -> Result<Walked, &'static str> {
        let mut walked = Walked { missing: vec![], links: vec![], met: vec![], ..from.clone() };
        if from.links.is_empty() && from.way.len() == 1 {
            walked.met.clone_from(&from.met);
        }
        // A name, and whether a link led to it.
        let mut pending: VecDeque<(String, bool)> = names.iter().map(|name| (name.clone(), false)).collect();
        while let Some((name, by_link)) = pending.pop_front() {
            if !walked.missing.is_empty() {
                walked.missing.push(name);
                continue;
            }
            if name == ".." {
                if walked.way.len() < 2 {
                    return Err("it leads out of the laboratory");
                }
                walked.way.pop();
                continue;
            }
            let Some(number) = self.child(walked.end(), &name) else {
                if by_link {
                    return Err("a link leads to nothing");
                }
                walked.missing.push(name);
                continue;
            };
            match self.nodes[&number].kind {
                Kind::Directory => {
                    walked.way.push((name, number));
                    walked.met.push(number);
                }
                Kind::Link => {
                    let text = String::from_utf8(self.nodes[&number].content.clone()).unwrap();
                    walked.links.push((walked.place(&name), text.clone(), number));
                    if walked.links.len() > MOST_LINKS {
                        return Err("too many links");
                    }
                    let names = if text.starts_with('/') {
                        walked.way.truncate(1);
                        let Some(names) = self.below_top(&text) else { return Err("it leads far away") };
                        names
                    } else {
                        text.split('/').map(str::to_owned).collect()
                    };
                    for name in names.into_iter().rev() {
                        pending.push_front((name, true));
                    }
                }
                Kind::File | Kind::Other => return Err("a component is no directory"),
            }
        }
        Ok(walked)
    }
}

/// What is different between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Added { directory: u64, name: String, number: u64 },
    Removed { directory: u64, name: String, number: u64 },
    /// Mode, owner or content of something that was there before.
    Altered(u64),
}

pub fn changes(before: &World, after: &World) -> Vec<Change> {
    let mut all = Vec::new();
    for (key, number) in &before.names {
        if after.names.get(key) != Some(number) {
            all.push(Change::Removed { directory: key.0, name: key.1.clone(), number: *number });
        }
    }
    for (key, number) in &after.names {
        if before.names.get(key) != Some(number) {
            all.push(Change::Added { directory: key.0, name: key.1.clone(), number: *number });
        }
    }
    for (number, node) in &before.nodes {
        if after.nodes.get(number).is_some_and(|now| now != node) {
            all.push(Change::Altered(*number));
        }
    }
    all
}
