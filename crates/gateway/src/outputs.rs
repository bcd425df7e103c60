//! Saved files after their call: listed, verified and removed, and never touched unless they still are what was saved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
pub use outputfile::ReadError;
use outputfile::{Expected, Identity, Reservations, Roots};
use serde::Serialize;
use store::{AskError, SavedEntry, SavedFilter, Store};
use upstream::Held;

use crate::live::{Snapshot, settings};
use crate::{Gateway, OpenProblem, open_store};

/// The saved files of one data directory. Everything here waits for a disk.
pub struct Outputs {
    now: Arc<Snapshot>,
    data_dir: PathBuf,
    store: Option<Arc<Store>>,
}

/// One saved file, as the record has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Id of the record of its call.
    pub id: String,
    /// Request id of its call.
    pub request_id: Option<String>,
    /// Where it is, as this machine sees it.
    pub path: String,
    /// Where it is, as agents are told.
    pub saved_to: String,
    /// The root that it was saved beneath.
    pub root: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// SHA-256 of its bytes, hex.
    pub sha256: String,
    /// `text`, `json` or `binary`.
    pub format: String,
    /// When its call began, milliseconds since 1970.
    pub saved_ms: i64,
    /// Server of its call, while the record of the call is kept.
    pub server: Option<String>,
    /// Tool of its call, while the record of the call is kept.
    pub tool: Option<String>,
}

/// What a removal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The file is removed.
    Removed,
    /// It was gone already; only its entry is removed.
    Gone,
}

/// Why a saved file cannot be listed, verified or removed.
#[derive(Debug, thiserror::Error)]
pub enum OutputProblem {
    /// No entry has the id.
    #[error("no saved file has the id {0:?}; `mcpproxy outputs list` shows ids")]
    Unknown(String),
    /// The file is not what was saved, or cannot be reached.
    #[error(transparent)]
    File(#[from] ReadError),
    /// The record cannot be read.
    #[error(transparent)]
    Record(#[from] store::ReadError),
    /// The record cannot be written.
    #[error(transparent)]
    Store(#[from] AskError),
    /// It was opened for reading.
    #[error("the record was opened for reading only")]
    ReadOnly,
}

impl Outputs {
    /// The saved files of a configuration, for reading, while a gateway runs or none.
    ///
    /// # Errors
    /// Roots that break a rule.
    pub fn read_only(config: Config, config_file: &Path) -> Result<Self, OpenProblem> {
        let wanted = settings(&config, config_file, &Reservations::default());
        let roots = Roots::open(wanted).map_err(OpenProblem::Roots)?;
        let data_dir = config.data_dir.clone();
        let now = Arc::new(Snapshot::new(config, roots, Held::default()));
        Ok(Self { now, data_dir, store: None })
    }

    /// The same for removing too. The caller holds the lock of the data directory.
    ///
    /// # Errors
    /// Roots that break a rule, or a database that cannot be used.
    pub fn alone(config: Config, config_file: &Path) -> Result<Self, OpenProblem> {
        let mut outputs = Self::read_only(config, config_file)?;
        let (store, _) = open_store(&outputs.now.config)?;
        outputs.store = Some(Arc::new(store));
        Ok(outputs)
    }

    /// Those that fit, newest first, and how many fit in all.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn list(&self, filter: &SavedFilter) -> Result<(Vec<Output>, u64), OutputProblem> {
        let reader = store::Reader::open(&self.data_dir)?;
        let entries = reader.saved_files(filter)?;
        let total = reader.count_saved_files(filter)?;
        Ok((entries.iter().map(|entry| self.output(entry)).collect(), total))
    }

    /// The one with this record id, request id or path (ours or the agents').
    ///
    /// # Errors
    /// There is none, or the record cannot be read.
    pub fn get(&self, id: &str) -> Result<Output, OutputProblem> {
        Ok(self.output(&self.entry(id)?))
    }

    /// Reads all of a file and compares it with its record.
    ///
    /// # Errors
    /// It changed, is gone or cannot be reached; there is none; or the record cannot be read.
    pub fn verify(&self, id: &str) -> Result<Output, OutputProblem> {
        let entry = self.entry(id)?;
        self.now.roots.verify_saved(&entry.file.path, &expected(&entry))?;
        Ok(self.output(&entry))
    }

    /// Removes a file that still is what was saved, and its entry. Of one that is gone, only the entry.
    ///
    /// # Errors
    /// It changed or cannot be reached; there is none; or the record cannot be read or written.
    pub fn remove(&self, id: &str) -> Result<(Output, Removal), OutputProblem> {
        let store = self.store.as_ref().ok_or(OutputProblem::ReadOnly)?;
        let entry = self.entry(id)?;
        let removal = match self.now.roots.remove_saved(&entry.file.path, &expected(&entry)) {
            Ok(()) => Removal::Removed,
            Err(ReadError::Gone { .. }) => Removal::Gone,
            Err(error) => return Err(error.into()),
        };
        // Should this fail, the file is found to be gone the next time.
        store.forget_saved(&entry.event_id)?;
        tracing::info!(path = %entry.file.path, ?removal, "a saved file was removed");
        Ok((self.output(&entry), removal))
    }

    fn entry(&self, id: &str) -> Result<SavedEntry, OutputProblem> {
        let reader = store::Reader::open(&self.data_dir)?;
        let found = match reader.saved_file(id)? {
            None => reader.saved_file(&self.now.inside(id))?,
            found => found,
        };
        found.ok_or_else(|| OutputProblem::Unknown(id.to_owned()))
    }

    fn output(&self, entry: &SavedEntry) -> Output {
        let file = &entry.file;
        Output {
            id: entry.event_id.clone(),
            request_id: entry.request_id.clone(),
            saved_to: self.now.outside(&file.path),
            path: file.path.clone(),
            root: file.root.clone(),
            bytes: file.bytes,
            sha256: file.sha256.clone(),
            format: file.format.clone(),
            saved_ms: entry.saved_ms,
            server: entry.server.clone(),
            tool: entry.tool.clone(),
        }
    }
}

impl Gateway {
    /// Does something with the saved files, beside the saves that run. `None` when it panicked.
    pub async fn outputs<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Outputs) -> T + Send + 'static,
    ) -> Option<T> {
        let now = self.live.now();
        let data_dir = now.config.data_dir.clone();
        let outputs = Outputs { now, data_dir, store: Some(self.store.clone()) };
        self.work.disk(move || job(&outputs)).await
    }
}

fn expected(entry: &SavedEntry) -> Expected {
    let file = &entry.file;
    Expected {
        identity: Identity { dev: file.dev, ino: file.ino, size: file.size, ctime_ns: file.ctime_ns },
        sha256: unhex(&file.sha256),
        bytes: file.bytes,
    }
}

/// A hash from the record. What is none becomes one that no file has.
fn unhex(text: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let Some(digits) = digits.filter(|digits| digits.len() == 64) else { return bytes };
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_its_spelling_and_nonsense_matches_nothing() {
        let hash: [u8; 32] = std::array::from_fn(|n| u8::try_from(n * 8 + 3).unwrap_or(255));
        assert_eq!(unhex(&crate::envelope::hex(&hash)), hash);
        for text in ["", "ab", &"é".repeat(64), &"g".repeat(64), &"0".repeat(66)] {
            assert_eq!(unhex(text), [0; 32], "{text}");
        }
    }
}
