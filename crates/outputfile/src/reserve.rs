//! Reservations: the targets that this process is writing, so that a second call for one is refused early.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::name;
use crate::sys::{FileId, PLATFORM};

/// Marks of mounts that are remembered at the most; beyond, they are forgotten and found out anew.
const MAX_MARKS: usize = 256;

/// What is being written, and what was learnt about mounts. Clones share it; keep one for the whole process.
#[derive(Debug, Clone, Default)]
pub struct Reservations(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    taken: HashSet<Key>,
    /// How many reservations stand in a directory, so that one in use is not removed.
    users: HashMap<FileId, usize>,
    marks: HashMap<MountKey, Mark>,
}

/// A directory and a name in it (or a relative path, while directories are yet to be made).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub directory: FileId,
    pub name: String,
}

impl Key {
    /// One key for all spellings that the platform takes for the same name.
    pub(crate) fn of(directory: FileId, name: &str) -> Self {
        Self { directory, name: name::fold(PLATFORM, name) }
    }
}

/// A mount. Mount numbers are used again, hence the device and the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MountKey {
    pub mount: u64,
    pub device: u64,
    pub kind: u64,
}

/// What was learnt about a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// No file can be published there without the danger of replacing another.
    pub no_publish: bool,
    /// A nameless file can be made there, and then not be given a name.
    pub no_nameless: bool,
}

/// Targets that are ours until this drops.
#[derive(Debug)]
pub(crate) struct Reservation {
    all: Reservations,
    keys: Vec<Key>,
}

impl Reservations {
    /// Takes a target, if nobody has it.
    pub(crate) fn take(&self, key: Key) -> Option<Reservation> {
        let mut held = Reservation { all: self.clone(), keys: Vec::new() };
        held.add(key).then_some(held)
    }

    pub(crate) fn mark(&self, mount: MountKey) -> Mark {
        self.state().marks.get(&mount).copied().unwrap_or_default()
    }

    pub(crate) fn learn(&self, mount: MountKey, change: impl FnOnce(&mut Mark)) {
        let mut state = self.state();
        if state.marks.len() >= MAX_MARKS && !state.marks.contains_key(&mount) {
            state.marks.clear();
        }
        change(state.marks.entry(mount).or_default());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is a single insertion or removal: a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Runs `remove` unless another reservation stands in the directory; nobody can take one meanwhile.
    pub(crate) fn unless_used(&self, directory: FileId, remove: impl FnOnce()) {
        let state = self.all.state();
        let ours = self.keys.iter().filter(|key| key.directory == directory).count();
        if state.users.get(&directory).copied().unwrap_or(0) <= ours {
            remove();
        }
    }

    /// Takes one more name of the same target. False: another call has it.
    pub(crate) fn add(&mut self, key: Key) -> bool {
        if self.keys.contains(&key) {
            return true;
        }
        let mut state = self.all.state();
        if !state.taken.insert(key.clone()) {
            return false;
        }
        *state.users.entry(key.directory).or_default() += 1;
        drop(state);
        self.keys.push(key);
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.all.state();
        for key in &self.keys {
            state.taken.remove(key);
            if let Some(count) = state.users.get_mut(&key.directory) {
                *count -= 1;
                if *count == 0 {
                    state.users.remove(&key.directory);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(ino: u64, name: &str) -> Key {
        Key { directory: FileId { dev: 1, ino }, name: name.to_owned() }
    }

    #[test]
    fn a_target_is_taken_once_and_free_again_after_the_drop() {
        let all = Reservations::default();
        let mut first = all.take(key(1, "a")).unwrap();
        assert!(all.take(key(1, "a")).is_none());
        let other = all.take(key(2, "a")).unwrap();
        assert!(first.add(key(1, "a")), "a name it holds already");
        assert!(!first.add(key(2, "a")), "a name that another holds");
        drop(other);
        assert!(first.add(key(2, "a")));
        drop(first);
        assert!(all.take(key(1, "a")).is_some());
        assert!(all.state().users.is_empty() && all.state().taken.is_empty());
    }

    #[test]
    fn a_directory_in_use_by_another_is_not_removed() {
        let all = Reservations::default();
        let mine = all.take(key(1, "a")).unwrap();
        let theirs = all.take(key(1, "b")).unwrap();
        let mut removed = false;
        mine.unless_used(FileId { dev: 1, ino: 1 }, || removed = true);
        assert!(!removed);
        drop(theirs);
        mine.unless_used(FileId { dev: 1, ino: 1 }, || removed = true);
        assert!(removed);
    }

    #[test]
    fn marks_are_bounded() {
        let all = Reservations::default();
        for mount in 0..1000 {
            all.learn(MountKey { mount, device: 0, kind: 0 }, |mark| mark.no_publish = true);
        }
        assert!(all.state().marks.len() <= MAX_MARKS);
        assert!(all.mark(MountKey { mount: 999, device: 0, kind: 0 }).no_publish);
    }
}
