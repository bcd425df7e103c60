//! Whether the configuration file is in hands that we trust: who owns it can make us run commands.

use std::fs::{File, Metadata};
use std::path::Path;

use crate::Sources;
use crate::problem::{Problem, quoted};

/// The uid of a user who is named or numbered.
///
/// # Errors
/// A problem if `/etc/passwd` has no such name.
pub fn owner_uid(owner: &str) -> Result<u32, Problem> {
    let unknown =
        |why: &str| Problem::new("--config-owner", format!("{} {why}", quoted(owner)), "give a uid instead");
    if let Ok(uid) = owner.parse::<u32>() {
        // The highest uid means "no one" to the kernel.
        return if uid == u32::MAX { Err(unknown("is no uid")) } else { Ok(uid) };
    }
    let users = std::fs::read_to_string("/etc/passwd").map_err(|_| unknown("cannot be looked up"))?;
    let uid = |line: &str| {
        let mut fields = line.split(':');
        if fields.next() == Some(owner) { fields.nth(1)?.parse::<u32>().ok() } else { None }
    };
    users.lines().find_map(uid).ok_or_else(|| unknown("is no user of this machine"))
}

/// The owner that the command line or the environment allows besides us and root.
pub(crate) fn extra_owner(sources: &Sources) -> Result<Option<u32>, Problem> {
    let flag = sources.overrides.config_owner.as_deref();
    flag.or_else(|| sources.variables.get("MCPPROXY_CONFIG_OWNER")).map(owner_uid).transpose()
}

/// Judges a configuration file and the directory it lies in, and so for every link on the way to the file. Gives warnings about
/// what a group may change. What does not exist passes.
///
/// # Errors
/// A problem that names the place and the remedy if it belongs to anyone but us, root or `extra_owner`, or if
/// everyone may change it. A directory with the sticky bit, and everything on a read-only mount, may be open to all.
pub fn check_owner(path: &Path, extra_owner: Option<u32>) -> Result<Vec<Problem>, Problem> {
    /// As many links as the kernel follows.
    const MOST_LINKS: usize = 40;
    let mut place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut warnings = Vec::new();
    for hop in 0..=MOST_LINKS {
        let dir = place.parent().unwrap_or(&place).to_owned();
        if let Ok(about) = dir.metadata() {
            warnings.extend(judge(&dir, &about, is_read_only(&dir), extra_owner)?);
        }
        let about = match place.symlink_metadata() {
            Ok(about) => about,
            // No file at all is a first run; a link to nothing is not what anyone meant.
            Err(_) if hop == 0 => return Ok(warnings),
            Err(error) => return Err(dead_link(path, &error.to_string())),
        };
        warnings.extend(judge(&place, &about, is_read_only(&place), extra_owner)?);
        if !about.is_symlink() {
            return Ok(warnings);
        }
        let target = std::fs::read_link(&place).map_err(|error| dead_link(path, &error.to_string()))?;
        place = dir.join(target);
    }
    Err(dead_link(path, "too many links"))
}

fn dead_link(path: &Path, why: &str) -> Problem {
    let fix = "make its target, or take the link away";
    Problem::new(path.display().to_string(), format!("is a link that leads nowhere ({why})"), fix)
}

/// Judges the file that was opened, whatever the name leads to by now.
pub(crate) fn judge_open_file(path: &Path, file: &File, extra_owner: Option<u32>) -> Result<(), Problem> {
    match file.metadata() {
        Ok(about) => judge(path, &about, is_read_only_file(file), extra_owner).map(|_| ()),
        Err(error) => {
            let message = format!("cannot be examined ({error})");
            Err(Problem::new(path.display().to_string(), message, "check the file system"))
        }
    }
}

#[cfg(unix)]
fn judge(
    place: &Path,
    about: &Metadata,
    is_read_only: bool,
    extra_owner: Option<u32>,
) -> Result<Option<Problem>, Problem> {
    use std::os::unix::fs::MetadataExt;
    const STICKY: u32 = 0o1000;
    let us = rustix::process::geteuid().as_raw();
    let (uid, mode) = (about.uid(), about.mode());
    let name = place.display().to_string();
    if uid != us && uid != 0 && Some(uid) != extra_owner {
        return Err(Problem::new(
            name,
            format!(
                "belongs to uid {uid}, not to us (uid {us}) or root, so that user could make us run commands"
            ),
            format!(
                "chown it, or start with --config-owner {uid} (or MCPPROXY_CONFIG_OWNER={uid}) if you trust that user"
            ),
        ));
    }
    // Modes of a link mean nothing; where nothing can be written, nobody can.
    if about.is_symlink() || is_read_only {
        return Ok(None);
    }
    if mode & 0o002 != 0 && !(about.is_dir() && mode & STICKY != 0) {
        let fix = format!("run: chmod o-w {}", quoted(&name));
        return Err(Problem::new(name, "can be changed by everyone on this machine", fix));
    }
    let is_open_to_group = mode & 0o020 != 0 && !(about.is_dir() && mode & STICKY != 0);
    Ok(is_open_to_group.then(|| {
        let fix = format!("run: chmod g-w {}, unless you trust that group", quoted(&name));
        Problem::new(name, format!("can be changed by the group {}", about.gid()), fix)
    }))
}

#[cfg(unix)]
fn is_read_only(place: &Path) -> bool {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    statvfs(place).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::RDONLY))
}

#[cfg(unix)]
fn is_read_only_file(file: &File) -> bool {
    use rustix::fs::{StatVfsMountFlags, fstatvfs};
    fstatvfs(file).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::RDONLY))
}

#[cfg(not(unix))]
fn judge(_: &Path, _: &Metadata, _: bool, _: Option<u32>) -> Result<Option<Problem>, Problem> {
    // The access lists of Windows keep other users out of a profile directory.
    Ok(None)
}

#[cfg(not(unix))]
fn is_read_only(_: &Path) -> bool {
    false
}

#[cfg(not(unix))]
fn is_read_only_file(_: &File) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn on_a_read_only_mount_nobody_can_change_anything() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let about = dir.path().metadata().unwrap();
        assert!(judge(dir.path(), &about, false, None).is_err());
        assert_eq!(judge(dir.path(), &about, true, None), Ok(None));
        assert!(!is_read_only(dir.path()));
    }
}
