//! macOS (11 or later): directories through handles, and what is in them, by rustix.
//!
//! There are no handles that only name a directory, no walk in one call, no nameless files, and no mount numbers: the
//! device number tells mounts apart.

use std::os::fd::OwnedFd;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::unix::{Dir, Done, File, Os, kind_of, open_for_reading};
use super::users::Credentials;
use super::{Call, Child, Fault, FaultKind, FileId, Kind, Meta, Space};
use crate::name::Platform;

/// Whose name rules apply here.
pub(crate) const PLATFORM: Platform = Platform::MacOs;

/// Longest text of a link that is read, in bytes.
const LONGEST_LINK: usize = 4096;
/// `O_SEARCH` without `O_DIRECTORY`: to go through a directory that may not be read. Not in the libc crate.
const SEARCH: OFlags = OFlags::from_bits_retain(0x4000_0000);
/// That a file system is mounted read-only.
const MOUNTED_READ_ONLY: u32 = 0x1;
/// Flags of a file that nobody may change or replace: immutable or append-only, by its owner or by the system.
const FROZEN: u32 = libc::UF_IMMUTABLE | libc::UF_APPEND | libc::SF_IMMUTABLE | libc::SF_APPEND;

/// Opening directories and looking at names.
impl Os {
    /// The top of the file system; there are no volumes.
    pub(crate) fn top(&self, _volume: &str) -> Done<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.call(Call::OpenTop, || rustix::fs::open("/", flags, Mode::empty())).map(Dir::of)
    }

    /// What a name stands for. Mounts are crossed, links are not followed.
    pub(crate) fn child(&self, dir: &Dir, name: &str) -> Done<Child<Dir>> {
        let Some(seen) = self.look(dir, name)? else { return Ok(Child::Missing) };
        match seen.kind {
            Kind::Directory => match self.open_directory(Call::OpenChild, dir, name) {
                // It became something else in between.
                Err(fault) if matches!(fault.kind, FaultKind::Link | FaultKind::NotDirectory) => {
                    Ok(Child::Other)
                }
                Err(fault) if fault.kind == FaultKind::Missing => Ok(Child::Missing),
                opened => opened.map(|(dir, meta)| Child::Directory(dir, meta)),
            },
            Kind::Link => {
                let to = self.read_link(dir, name)?;
                // A link has no handle: its text counts if the same link was there before and after.
                match self.look(dir, name)? {
                    Some(still) if still.id == seen.id && still.ctime_ns == seen.ctime_ns => {
                        Ok(Child::Link { to, meta: seen })
                    }
                    _ => Err(Errno::AGAIN.into()),
                }
            }
            _ => Ok(Child::Other),
        }
    }

    /// Opens a directory directly beneath another: no link is followed and no mount is crossed.
    pub(crate) fn beneath(&self, dir: &Dir, name: &str) -> Done<(Dir, Meta)> {
        if name.contains('/') || name == ".." {
            return Err(Errno::XDEV.into());
        }
        let (opened, meta) = self.open_directory(Call::OpenBeneath, dir, name)?;
        let above = self.meta(dir)?;
        if above.id.dev == meta.id.dev { Ok((opened, meta)) } else { Err(Errno::XDEV.into()) }
    }

    /// The directory above.
    pub(crate) fn parent(&self, dir: &Dir) -> Done<(Dir, Meta)> {
        self.open_directory(Call::OpenParent, dir, "..")
    }

    pub(crate) fn meta(&self, dir: &Dir) -> Done<Meta> {
        self.call(Call::Stat, || rustix::fs::fstat(dir)).map(|raw| meta_of(&raw))
    }

    pub(crate) fn file_meta(&self, file: &File) -> Done<Meta> {
        self.call(Call::Stat, || rustix::fs::fstat(&file.0)).map(|raw| meta_of(&raw))
    }

    /// What a name stands for, if anything; links are not followed.
    pub(crate) fn look(&self, dir: &Dir, name: &str) -> Done<Option<Meta>> {
        match self.call(Call::Stat, || rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(raw) => Ok(Some(meta_of(&raw))),
            Err(fault) if fault.kind == FaultKind::Missing => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// What the kernel finds at an absolute path, links followed.
    pub(crate) fn at_path(&self, path: &str) -> Done<Meta> {
        self.call(Call::StatPath, || rustix::fs::statat(CWD, path, AtFlags::empty())).map(|raw| meta_of(&raw))
    }

    /// Whether names can be made in the directory, by permissions, access lists and the mount.
    pub(crate) fn may_create(&self, dir: &Dir, _who: Option<&Credentials>) -> Done<()> {
        if self.meta(dir)?.frozen {
            return Err(Errno::PERM.into());
        }
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        self.call(Call::Access, || rustix::fs::accessat(dir, ".", wanted, AtFlags::EACCESS))
    }

    pub(crate) fn space(&self, dir: &Dir) -> Done<Space> {
        let room = self.call(Call::StatFs, || rustix::fs::fstatfs(dir))?;
        let names = self.call(Call::StatFs, || rustix::fs::fstatvfs(dir))?;
        Ok(Space {
            read_only: room.f_flags & MOUNTED_READ_ONLY != 0,
            free: (room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(u64::from(room.f_bsize))),
            longest_name: usize::try_from(names.f_namemax).ok().filter(|longest| *longest > 0),
            kind: u64::from(room.f_type),
        })
    }

    /// The kind of file system that a directory lies on, as the system names it.
    pub(crate) fn file_system(&self, dir: &Dir, _mount: u64) -> String {
        let Ok(found) = rustix::fs::fstatfs(dir) else { return String::from("of an unknown kind") };
        let name = found.f_fstypename.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]);
        String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned()
    }

    fn open_directory(&self, call: Call, dir: &Dir, name: &str) -> Done<(Dir, Meta)> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |how| self.call(call, || rustix::fs::openat(dir, name, flags | how, Mode::empty()));
        let fd = match open(OFlags::RDONLY) {
            Err(fault) if fault.kind == FaultKind::Denied => open(SEARCH),
            opened => opened,
        }?;
        let opened = Dir::of(fd);
        let meta = self.meta(&opened)?;
        Ok((opened, meta))
    }

    fn read_link(&self, dir: &Dir, name: &str) -> Done<String> {
        let text = self.call(Call::ReadLink, || rustix::fs::readlinkat(dir, name, Vec::new()))?;
        if text.as_bytes().len() > LONGEST_LINK {
            return Err(Errno::NAMETOOLONG.into());
        }
        text.into_string().map_err(|_| Fault::other("a link leads to a name that is not valid Unicode"))
    }
}

/// What macOS has in its own way, or lacks.
impl Os {
    /// Sets the mode of a directory, whatever the umask was.
    pub(crate) fn set_directory_mode(&self, dir: &Dir, mode: u32) -> Done<()> {
        let mode = mode_bits(mode)?;
        // The handle itself serves, because it is no mere name of the directory.
        self.call(Call::SetMode, || rustix::fs::fchmod(dir, mode))
    }

    pub(crate) fn set_mode(&self, file: &File, mode: u32) -> Done<()> {
        let mode = mode_bits(mode)?;
        self.call(Call::SetMode, || rustix::fs::fchmod(&file.0, mode))
    }

    /// There are no files without a name.
    pub(crate) fn nameless(&self, _dir: &Dir) -> Done<File> {
        self.call(Call::OpenNameless, || Err(Errno::OPNOTSUPP)).map(File)
    }

    /// There are no files without a name, so none is given one.
    pub(crate) fn link_handle(&self, _file: &File, _dir: &Dir, _name: &str) -> Done<()> {
        self.call(Call::LinkHandle, || Err(Errno::OPNOTSUPP))
    }

    /// As above.
    pub(crate) fn link_through_proc(&self, _file: &File, _dir: &Dir, _name: &str) -> Done<()> {
        self.call(Call::LinkThroughProc, || Err(Errno::OPNOTSUPP))
    }

    /// Down to the medium, where the file system can: `fsync` alone leaves the bytes in the drive's own memory.
    pub(crate) fn sync(&self, file: &File) -> Done<()> {
        self.call(Call::SyncFile, || sync_whole(&file.0))
    }

    /// Makes the names in a directory durable, where the file system can and the directory may be read.
    pub(crate) fn sync_directory(&self, dir: &Dir) -> Done<()> {
        let fd = match self.call(Call::OpenForSync, || open_for_reading(dir)) {
            Err(fault) if fault.kind == FaultKind::Denied => return Ok(()),
            opened => opened?,
        };
        match self.call(Call::SyncDirectory, || sync_whole(&fd)) {
            Err(fault) if fault.is_lacking() => Ok(()),
            result => result,
        }
    }

    pub(crate) fn random(&self) -> Done<[u8; 16]> {
        let mut bytes = [0; 16];
        self.call(Call::Random, || {
            // SAFETY: the buffer is as long as is said, and far below the 256 bytes that one call gives.
            match unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) } {
                0 => Ok(()),
                _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
            }
        })?;
        Ok(bytes)
    }
}

fn sync_whole(fd: &OwnedFd) -> rustix::io::Result<()> {
    match rustix::fs::fcntl_fullfsync(fd) {
        // A file system that does not have it, such as a network's.
        Err(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY) => rustix::fs::fsync(fd),
        result => result,
    }
}

fn mode_bits(mode: u32) -> Done<Mode> {
    let raw = u16::try_from(mode).map_err(|_| Fault::other("a mode has 16 bits"))?;
    Ok(Mode::from_raw_mode(raw))
}

fn meta_of(raw: &Stat) -> Meta {
    let device = u64::from(raw.st_dev.cast_unsigned());
    Meta {
        kind: kind_of(FileType::from_raw_mode(raw.st_mode)),
        id: FileId { dev: device, ino: raw.st_ino },
        uid: raw.st_uid,
        gid: raw.st_gid,
        mode: u32::from(raw.st_mode) & 0o7777,
        size: u64::try_from(raw.st_size).unwrap_or(0),
        ctime_ns: raw.st_ctime.saturating_mul(1_000_000_000).saturating_add(raw.st_ctime_nsec),
        mount: device,
        frozen: raw.st_flags & FROZEN != 0,
    }
}
