//! The open containers, one bit each.

/// A stack of bits: true for an object, false for an array.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    words: Vec<u64>,
    depth: usize,
    /// The bit on top, kept apart because it is asked for at every comma.
    top: bool,
}

impl Stack {
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// True if the innermost open container is an object.
    pub(crate) fn in_object(&self) -> bool {
        self.top
    }

    pub(crate) fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.words.len() {
            self.words.push(0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word = (*word & !(1 << bit)) | (u64::from(object) << bit);
        }
        self.depth += 1;
        self.top = object;
    }

    pub(crate) fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.top = match self.depth.checked_sub(1) {
            Some(below) => self.words.get(below / 64).is_some_and(|word| word >> (below % 64) & 1 == 1),
            None => false,
        };
    }
}
