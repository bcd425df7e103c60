//! Sequences kept once each, under numbers in the order of their first sight.

use std::hash::{BuildHasher, Hash, RandomState};

use super::NotEncodable;

/// The number of a sequence.
pub(super) type Id = u32;

/// All items lie in one vector and all numbers in one table, so that a hundred thousand short sequences are three allocations.
/// The hash is keyed at random: no text can be made for which all sequences collide.
pub(super) struct Interner<T> {
    items: Vec<T>,
    /// Where the items of each sequence end; they begin where those of the one before end.
    ends: Vec<u32>,
    /// A power of two, at most three quarters full.
    slots: Vec<Slot>,
    hasher: RandomState,
}

/// The hash stands beside the number, so that a sequence is looked at only when it is most likely the right one.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    id: Id,
}

/// A slot without a sequence.
const FREE: Slot = Slot { hash: 0, id: Id::MAX };

impl<T: Hash + Eq + Copy> Interner<T> {
    pub(super) fn new() -> Interner<T> {
        Interner { items: Vec::new(), ends: Vec::new(), slots: vec![FREE; 64], hasher: RandomState::new() }
    }

    pub(super) fn get(&self, id: Id) -> Option<&[T]> {
        let end = *self.ends.get(id as usize)?;
        let start = id.checked_sub(1).and_then(|before| self.ends.get(before as usize)).copied();
        self.items.get(start.unwrap_or(0) as usize..end as usize)
    }

    /// The number of a sequence, and whether it is new.
    pub(super) fn intern(&mut self, sequence: &[T]) -> Result<(Id, bool), NotEncodable> {
        let hash = self.hash(sequence);
        let place = match self.find(sequence, hash) {
            Ok(id) => return Ok((id, false)),
            Err(place) => place,
        };
        let id = narrow(self.ends.len())?;
        self.items.extend_from_slice(sequence);
        self.ends.push(narrow(self.items.len())?);
        self.set(place, Slot { hash, id });
        if self.ends.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
        Ok((id, true))
    }

    /// The number of a sequence, or the place of the slot that is free for it.
    fn find(&self, sequence: &[T], hash: u32) -> Result<Id, usize> {
        let mut place = self.first_place(hash);
        while let Some(slot) = self.slots.get(place).filter(|slot| slot.id != FREE.id) {
            if slot.hash == hash && self.get(slot.id) == Some(sequence) {
                return Ok(slot.id);
            }
            place = self.next_place(place);
        }
        Err(place)
    }

    fn grow(&mut self) {
        let empty = vec![FREE; self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, empty) {
            if slot.id == FREE.id {
                continue;
            }
            let mut place = self.first_place(slot.hash);
            while self.slots.get(place).is_some_and(|taken| taken.id != FREE.id) {
                place = self.next_place(place);
            }
            self.set(place, slot);
        }
    }

    fn set(&mut self, place: usize, slot: Slot) {
        if let Some(free) = self.slots.get_mut(place) {
            *free = slot;
        }
    }

    fn first_place(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn next_place(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }

    fn hash(&self, sequence: &[T]) -> u32 {
        u32::try_from(self.hasher.hash_one(sequence) >> 32).unwrap_or_default()
    }
}

/// A place or count as it is kept. There are never more of anything than the text has bytes, so it fits.
pub(super) fn narrow(count: usize) -> Result<u32, NotEncodable> {
    u32::try_from(count).map_err(|_| NotEncodable::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sequence_has_one_number_however_many_there_are() {
        let mut interner = Interner::new();
        let words: Vec<String> = (0..5000).map(|n| "x".repeat(n % 7) + &n.to_string()).collect();
        for (n, word) in (0..).zip(&words) {
            assert_eq!(interner.intern(word.as_bytes()).unwrap(), (n, true));
        }
        assert_eq!(interner.intern(b"").unwrap(), (5000, true));
        for (n, word) in (0..).zip(&words) {
            assert_eq!(interner.intern(word.as_bytes()).unwrap(), (n, false));
            assert_eq!(interner.get(n).unwrap(), word.as_bytes());
        }
        assert_eq!((interner.get(5000), interner.get(5001)), (Some(&b""[..]), None));
    }
}
