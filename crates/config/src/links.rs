//! The links on the way to a file: every place that decides what its name leads to.

use std::io;
use std::path::{Path, PathBuf};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// The name itself, then the target of each link in turn; the last one is no link (it may be missing). Never empty.
pub(crate) fn places(path: &Path) -> Vec<PathBuf> {
    let mut places = vec![std::path::absolute(path).unwrap_or_else(|_| path.to_owned())];
    for _ in 0..MOST_LINKS {
        let Some(place) = places.last() else { break };
        let Ok(target) = std::fs::read_link(place) else { break };
        let next = place.parent().unwrap_or(place).join(target);
        places.push(next);
    }
    places
}

/// Where the name leads to.
///
/// # Errors
/// More links than the kernel would follow.
pub(crate) fn target(path: &Path) -> io::Result<PathBuf> {
    let place = places(path).pop().unwrap_or_else(|| path.to_owned());
    if place.is_symlink() { Err(io::Error::other("too many links")) } else { Ok(place) }
}
