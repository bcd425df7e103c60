//! Compiled output schemas: made at first use, shared by all tools that list the same one, and dropped when there are too many.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::output::OutputSchema;

/// Schemas that are kept compiled.
const MAX_SCHEMAS: usize = 512;
/// Bytes of all of them as they were listed. Compiled they take about twenty times as much.
const MAX_BYTES: usize = 2 << 20;

/// Compiled output schemas by the hash of their text.
#[derive(Default)]
pub struct OutputSchemas {
    states: [RandomState; 2],
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    schemas: HashMap<[u64; 2], Entry>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

struct Entry {
    schema: Arc<OnceLock<OutputSchema>>,
    bytes: usize,
    used: u64,
}

/// A schema that may have to be compiled still.
#[derive(Clone)]
pub struct LazyOutputSchema {
    schema: Arc<OnceLock<OutputSchema>>,
    raw: Arc<str>,
}

impl LazyOutputSchema {
    /// The schema, compiled now if it was not. Takes milliseconds for a usual one.
    #[must_use]
    pub fn get(&self) -> &OutputSchema {
        self.schema.get_or_init(|| OutputSchema::compile(&self.raw))
    }

    /// The schema, if it is compiled.
    #[must_use]
    pub fn ready(&self) -> Option<&OutputSchema> {
        self.schema.get()
    }
}

impl OutputSchemas {
    /// The schema with this text. It is compiled at its first use, and once even if many ask at the same time.
    #[must_use]
    pub fn find(&self, raw: &Arc<str>) -> LazyOutputSchema {
        // Keyed with what no upstream knows, so that none can make two texts that look the same.
        let hash = self.states.each_ref().map(|state| state.hash_one(&**raw));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        LazyOutputSchema { schema: kept.find(hash, raw.len()), raw: Arc::clone(raw) }
    }

    /// Number of schemas that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).schemas.len()
    }

    /// True if none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for OutputSchemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputSchemas").field("kept", &self.len()).finish()
    }
}

impl Kept {
    fn find(&mut self, hash: [u64; 2], bytes: usize) -> Arc<OnceLock<OutputSchema>> {
        self.clock += 1;
        if let Some(entry) = self.schemas.get_mut(&hash) {
            entry.used = self.clock;
            return Arc::clone(&entry.schema);
        }
        while self.schemas.len() >= MAX_SCHEMAS
            || (self.bytes + bytes > MAX_BYTES && !self.schemas.is_empty())
        {
            self.drop_oldest();
        }
        let schema = Arc::default();
        self.bytes += bytes;
        self.schemas.insert(hash, Entry { schema: Arc::clone(&schema), bytes, used: self.clock });
        schema
    }

    fn drop_oldest(&mut self) {
        let oldest = self.schemas.iter().min_by_key(|(_, entry)| entry.used).map(|(hash, _)| *hash);
        if let Some(entry) = oldest.and_then(|hash| self.schemas.remove(&hash)) {
            self.bytes = self.bytes.saturating_sub(entry.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_shared_by_their_text_and_the_least_used_go_first() {
        let schemas = OutputSchemas::default();
        let text = |number: usize| Arc::<str>::from(format!("{{\"minimum\":{number}}}"));
        let first = schemas.find(&text(0));
        assert!(first.ready().is_none());
        assert_eq!(first.get().problem(), None);
        assert!(
            schemas.find(&text(0)).ready().is_some(),
            "another text of the same letters finds it compiled"
        );
        for number in 1..2 * MAX_SCHEMAS {
            let _ = schemas.find(&text(0));
            let _ = schemas.find(&text(number));
        }
        assert_eq!(schemas.len(), MAX_SCHEMAS);
        assert!(schemas.find(&text(0)).ready().is_some(), "what is used stays");
        assert!(first.ready().is_some());
    }

    #[test]
    fn large_schemas_drive_others_out_and_one_always_fits() {
        let schemas = OutputSchemas::default();
        let large = |letter: &str| Arc::<str>::from(letter.repeat(MAX_BYTES / 3));
        for letter in ["a", "b", "c", "d", "e"] {
            let _ = schemas.find(&large(letter));
        }
        assert_eq!(schemas.len(), 3);
        let _ = schemas.find(&Arc::<str>::from("z".repeat(MAX_BYTES * 2)));
        assert_eq!(schemas.len(), 1);
    }
}
