//! Directories that no root may hold: homes and our own. Compared by device and inode, through handles held since load.

use std::sync::{Mutex, PoisonError};

use crate::sys::{Dir, FileId, Meta, Os};
use crate::walk::{Walk, walk};

/// How far upwards the search for a root goes.
const MOST_LEVELS: usize = 256;

/// A directory that no root may hold.
#[derive(Debug)]
pub(crate) struct Protected {
    /// What it is, for the message.
    pub what: &'static str,
    names: Vec<String>,
    /// No root may lie in it either.
    outer: bool,
    /// The handles from the top down to it; empty until it exists.
    held: Mutex<Vec<(Dir, FileId)>>,
}

impl Protected {
    /// Opens what exists of it now.
    pub(crate) fn open(os: &Os, what: &'static str, names: Vec<String>, outer: bool) -> Self {
        let held = Mutex::new(handles(os, &names));
        Self { what, names, outer, held }
    }

    /// Why the root that was walked may not be used, if it may not.
    pub(crate) fn objection(&self, os: &Os, root: &Walk) -> Option<String> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_empty() {
            *held = handles(os, &self.names);
        }
        let (lowest, id) = held.last()?;
        if self.outer && root.steps.iter().any(|step| step.meta.id == *id) {
            return Some(format!("lies in {}", self.what));
        }
        // A root that does not exist holds nothing yet.
        let root_id = root.missing.is_empty().then(|| root.deepest()).flatten()?.meta.id;
        let holds = held.iter().any(|(_, id)| *id == root_id) || lies_beneath(os, lowest, *id, root);
        holds.then(|| format!("is, or holds, {}", self.what))
    }

    /// Whether a directory inside a root is this one.
    pub(crate) fn is(&self, id: FileId) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.last().is_some_and(|(_, own)| *own == id)
    }
}

fn handles(os: &Os, names: &[String]) -> Vec<(Dir, FileId)> {
    match walk(os, &[], names) {
        Ok(walk) if walk.missing.is_empty() => {
            walk.steps.iter().map(|step| (step.dir.clone(), step.meta.id)).collect()
        }
        _ => Vec::new(),
    }
}

/// Climbs from the directory, wherever it is by now, until it meets the root, the top, or what holds the root: nothing
/// that holds the root lies in it. The mount is compared there too, since a directory may be mounted in itself.
fn lies_beneath(os: &Os, lowest: &Dir, id: FileId, root: &Walk) -> bool {
    let Some((end, above)) = root.steps.split_last() else { return false };
    let holds_root =
        |meta: &Meta| meta.mount != 0 && above.iter().any(|s| s.meta.id == meta.id && s.meta.mount == meta.mount);
    let (mut dir, mut id) = (lowest.clone(), id);
    for _ in 0..MOST_LEVELS {
        if id == end.meta.id {
            return true;
        }
        // A home of another user cannot be climbed out of; the handles held since load stand for it.
        let Ok((above, meta)) = os.parent(&dir) else { return false };
        if meta.id == id || holds_root(&meta) {
            return false;
        }
        (dir, id) = (above, meta.id);
    }
    false
}
