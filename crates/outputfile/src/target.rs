//! Target: a destination proven to lie in one root, reserved until it drops. Nothing is made or changed here.

use std::path::{Path, PathBuf};

use crate::error::SaveError;
use crate::place::{Place, locate};
use crate::reserve::{Key, MountKey, Reservation};
use crate::roots::{Inner, Roots};
use crate::settings::Ledger;
use crate::sys::{Dir, Fault, FaultKind, FileId, Kind, Meta, Space};
use crate::trust::Naming as _;

/// A destination that passed every check that can be made before the file is written.
#[derive(Debug)]
pub struct Target {
    pub(crate) path: String,
    pub(crate) overwrite: bool,
    pub(crate) root: PathBuf,
    /// The target's directory, if it existed. Held, so that no other directory gets its identity.
    pub(crate) parent: Option<(Dir, FileId)>,
    pub(crate) reservation: Reservation,
}

impl Target {
    /// The path as it was asked for.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The root that it lies in, as configured.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether an existing file is to be replaced.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        self.overwrite
    }
}

pub(crate) fn preflight(
    roots: &Roots,
    path: &str,
    overwrite: bool,
    ledger: &dyn Ledger,
) -> Result<Target, SaveError> {
    let inner = &*roots.0;
    let found = inner.matching(path)?;
    let survey = inner.survey(found.root)?;
    let root = inner.root(found.root)?.path.clone();
    let checked = survey.acting.run(|| {
        let place = locate(inner, path, &found, &survey)?;
        let reservation = reserve(inner, &place, path)?;
        check_present(inner, &place, path, overwrite)?;
        check_room(inner, &place, path)?;
        Ok((place, reservation))
    });
    let (place, reservation) =
        checked.map_err(|fault| SaveError::of(&fault, "acting as the owner of", &root, path))??;
    check_total(inner, &root, ledger)?;
    let parent = place.parent().map(|held| (held.dir.clone(), held.meta.id));
    Ok(Target { path: path.to_owned(), overwrite, root, parent, reservation })
}

/// Reserves before the file is looked for: a call that ends in between has made it by then.
fn reserve(inner: &Inner, place: &Place, path: &str) -> Result<Reservation, SaveError> {
    let mut name = place.missing.join("/");
    if !name.is_empty() {
        name.push('/');
    }
    name.push_str(&place.name);
    let key = Key::of(place.deepest().meta.id, &name);
    inner.settings.reservations.take(key).ok_or_else(|| SaveError::Busy { path: path.to_owned() })
}

/// The name must be free, or with overwrite be that of a regular file that we may replace.
pub(crate) fn check_present(
    inner: &Inner,
    place: &Place,
    path: &str,
    overwrite: bool,
) -> Result<(), SaveError> {
    check_marks(place)?;
    let Some(parent) = place.parent() else { return Ok(()) };
    let seen = inner.os.look(&parent.dir, &place.name);
    let seen = seen.map_err(|fault| SaveError::of(&fault, "looking at", place.path(), path))?;
    let Some(present) = seen else { return Ok(()) };
    if present.kind != Kind::File {
        return Err(SaveError::TargetKind { path: path.to_owned(), kind: present.kind });
    }
    if !overwrite {
        return Err(SaveError::Exists { path: path.to_owned() });
    }
    if present.mount != parent.meta.mount && present.mount != 0 && parent.meta.mount != 0 {
        return Err(SaveError::Mount { at: place.path() });
    }
    if present.frozen || is_guarded(inner, place, &parent.meta, &present) {
        let hint = String::from(
            " (it is marked as unchangeable, or another user's in a sticky directory); choose another name",
        );
        return Err(SaveError::Denied { at: place.path(), action: "replacing", hint });
    }
    Ok(())
}

/// In a directory that is marked as unchangeable or append-only no name can be taken away again: a file could not be
/// replaced there, and one that turns out to be wrong could not be removed.
fn check_marks(place: &Place) -> Result<(), SaveError> {
    if !place.deepest().meta.frozen {
        return Ok(());
    }
    let hint = String::from(
        " (it is marked as unchangeable or append-only, so a save that fails could leave something); run `chattr -ia` on it, or use another root",
    );
    Err(SaveError::Denied { at: place.deepest_path(), action: "making a file in", hint })
}

/// In a sticky directory only the owners of the file and of the directory may replace a file.
fn is_guarded(inner: &Inner, place: &Place, parent: &Meta, file: &Meta) -> bool {
    let us = place.acting.uid();
    let privileged = place.acting.owner().is_none() && inner.ours == 0;
    let waived = place.deepest().waived.is_some();
    parent.mode & 0o1000 != 0 && file.uid != us && parent.uid != us && !privileged && !waived
}

/// The deepest directory must take new names, long enough ones, and have room.
fn check_room(inner: &Inner, place: &Place, path: &str) -> Result<(), SaveError> {
    let at = place.deepest_path();
    let deepest = place.deepest();
    let space = inner.os.space(&deepest.dir);
    let space = space.map_err(|fault| SaveError::of(&fault, "asking for the room of", &at, path))?;
    if space.read_only {
        return Err(SaveError::ReadOnly { at });
    }
    let may = inner.os.may_create(&deepest.dir, place.acting.owner());
    may.map_err(|fault| not_creatable(inner, place, path, &fault))?;
    check_lengths(place, path, &space)?;
    check_mount(inner, place, &space)?;
    let wanted = inner.settings.min_free_bytes;
    match space.free {
        Some(free) if free < wanted => Err(SaveError::LowSpace { at, free, wanted }),
        _ => Ok(()),
    }
}

fn not_creatable(inner: &Inner, place: &Place, path: &str, fault: &Fault) -> SaveError {
    let at = place.deepest_path();
    if !matches!(fault.kind, FaultKind::Denied | FaultKind::NotPermitted) {
        return SaveError::of(fault, "making a file in", at, path);
    }
    let uid = place.acting.uid();
    let who = inner.name_of(uid).unwrap_or_else(|| format!("uid {uid}"));
    SaveError::Denied {
        action: "making a file in",
        hint: format!(" as {who} ({fault}); let {who} write there, or use another root"),
        at,
    }
}

fn check_lengths(place: &Place, path: &str, space: &Space) -> Result<(), SaveError> {
    let Some(longest) = space.longest_name else { return Ok(()) };
    match place.missing.iter().chain([&place.name]).find(|name| name.len() > longest) {
        Some(_) => Err(SaveError::NameTooLong { path: path.to_owned(), at: place.deepest_path() }),
        None => Ok(()),
    }
}

/// A mount that cannot publish safely is remembered from the first failure on.
pub(crate) fn check_mount(inner: &Inner, place: &Place, space: &Space) -> Result<(), SaveError> {
    let key = mount_key(&place.deepest().meta, space);
    if !inner.settings.reservations.mark(key).no_publish {
        return Ok(());
    }
    let fs = inner.os.file_system(&place.deepest().dir, key.mount);
    Err(SaveError::NoPublish { fs, at: place.deepest_path() })
}

pub(crate) fn mount_key(directory: &Meta, space: &Space) -> MountKey {
    MountKey { mount: directory.mount, device: directory.id.dev, kind: space.kind }
}

fn check_total(inner: &Inner, root: &Path, ledger: &dyn Ledger) -> Result<(), SaveError> {
    let limit = inner.settings.max_total_bytes;
    if limit == 0 {
        return Ok(());
    }
    match ledger.used_bytes(root) {
        Ok(used) if used < limit => Ok(()),
        Ok(used) => Err(SaveError::Total { root: root.to_owned(), used, limit }),
        Err(cause) => Err(SaveError::Io { at: root.to_owned(), step: "counting the saved files of", cause }),
    }
}

/// The reservation's name once the directory exists.
pub(crate) fn final_key(place: &Place) -> Option<Key> {
    place.parent().map(|parent| Key::of(parent.meta.id, &place.name))
}

/// A parent that existed at preflight must be the same now.
pub(crate) fn check_parent(target: &Target, place: &Place) -> Result<(), SaveError> {
    let Some((_, id)) = &target.parent else { return Ok(()) };
    if place.parent().is_some_and(|parent| parent.meta.id == *id) {
        return Ok(());
    }
    let why = "its directory was moved or replaced while the call ran; call again";
    Err(SaveError::moved(target.path.clone(), why))
}
