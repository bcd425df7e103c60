//! What lies beneath a directory, so that a test can say that nothing changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Every entry beneath `top` with its kind, mode, size and content hash, links not followed.
pub fn snapshot(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let kind = meta.file_type();
        let what = if kind.is_symlink() {
            format!("link to {}", fs::read_link(&path).unwrap().display())
        } else if kind.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            format!("directory {:o}", meta.mode() & 0o7777)
        } else if kind.is_file() {
            format!("file {:o} {} {}", meta.mode() & 0o7777, meta.len(), sha256(&fs::read(&path).unwrap()))
        } else {
            format!("other {:?}", kind)
        };
        all.insert(path, what);
    }
    all
}

/// SHA-256 as lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
