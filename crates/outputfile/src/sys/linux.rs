//! Linux (4.11 or later): directories through handles, and what is in them, by rustix.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxAttributes,
    StatxFlags,
};
use rustix::io::Errno;

use super::unix::{Dir, Done, File, Os, TRIES, kind_of, open_for_reading};
use super::users::Credentials;
use super::{Call, Child, Fault, FaultKind, FileId, Kind, Meta, Space};
use crate::name::Platform;

/// Whose name rules apply here.
pub(crate) const PLATFORM: Platform = Platform::Linux;

/// Longest text of a link that is read, in bytes.
const LONGEST_LINK: usize = 4096;

/// Opening directories and looking at names.
impl Os {
    /// The top of the file system; there are no volumes.
    pub(crate) fn top(&self, _volume: &str) -> Done<Dir> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.call(Call::OpenTop, || rustix::fs::open("/", flags, Mode::empty())).map(Dir::of)
    }

    /// What a name stands for. Mounts are crossed, links are not followed.
    pub(crate) fn child(&self, dir: &Dir, name: &str) -> Done<Child<Dir>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // With DIRECTORY first, because only that brings an automounted directory in.
        let open =
            |more| self.call(Call::OpenChild, || rustix::fs::openat(dir, name, flags | more, Mode::empty()));
        let opened = match open(OFlags::DIRECTORY) {
            Err(fault) if fault.kind == FaultKind::NotDirectory => open(OFlags::empty()),
            opened => opened,
        };
        let fd = match opened {
            Err(fault) if fault.kind == FaultKind::Missing => return Ok(Child::Missing),
            opened => opened?,
        };
        let meta = self.stat(fd.as_fd(), "")?;
        match meta.kind {
            Kind::Directory => Ok(Child::Directory(Dir::of(fd), meta)),
            Kind::Link => Ok(Child::Link { to: self.read_link(&fd)?, meta }),
            _ => Ok(Child::Other),
        }
    }

    /// Opens a directory directly beneath another: no link is followed and no mount is crossed.
    pub(crate) fn beneath(&self, dir: &Dir, name: &str) -> Done<(Dir, Meta)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let mut opened = Err(Fault::from(Errno::AGAIN));
        for _ in 0..TRIES {
            let open = || rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve);
            opened = self.call(Call::OpenBeneath, open);
            let again = match &opened {
                // So it says as well of a directory that was moved away while it was opened.
                Err(fault) if fault.kind == FaultKind::CrossesMount => !self.is_mount(dir, name),
                Err(fault) => fault.kind == FaultKind::Again,
                Ok(_) => false,
            };
            if !again {
                break;
            }
        }
        match opened {
            Ok(fd) => self.directory(fd),
            // An old kernel, or a filter that does not know the call: the same checks by hand.
            Err(fault) if fault.is_lacking() || fault.kind == FaultKind::NotPermitted => {
                self.by_hand(dir, name)
            }
            Err(fault) => Err(fault),
        }
    }

    /// The directory above.
    pub(crate) fn parent(&self, dir: &Dir) -> Done<(Dir, Meta)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.call(Call::OpenParent, || rustix::fs::openat(dir, "..", flags, Mode::empty()))?;
        self.directory(fd)
    }

    pub(crate) fn meta(&self, dir: &Dir) -> Done<Meta> {
        self.stat(dir.as_fd(), "")
    }

    pub(crate) fn file_meta(&self, file: &File) -> Done<Meta> {
        self.stat(file.0.as_fd(), "")
    }

    /// What a name stands for, if anything; links are not followed.
    pub(crate) fn look(&self, dir: &Dir, name: &str) -> Done<Option<Meta>> {
        match self.stat(dir.as_fd(), name) {
            Ok(meta) => Ok(Some(meta)),
            Err(fault) if fault.kind == FaultKind::Missing => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// What the kernel finds at an absolute path, links followed.
    pub(crate) fn at_path(&self, path: &str) -> Done<Meta> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        self.call(Call::StatPath, || rustix::fs::statx(CWD, path, AtFlags::empty(), mask))
            .map(|raw| meta_of(&raw))
    }

    /// Whether names can be made in the directory, by permissions and by the mount.
    pub(crate) fn may_create(&self, dir: &Dir, who: Option<&Credentials>) -> Done<()> {
        match self.call(Call::Access, || access_as_effective(dir.as_fd())) {
            // EPERM is what a filter says that does not know the call, and what a frozen directory says.
            Err(fault) if fault.is_lacking() || fault.kind == FaultKind::NotPermitted => {}
            result => return result,
        }
        let meta = self.meta(dir)?;
        if meta.frozen {
            return Err(Errno::PERM.into());
        }
        if self.space(dir)?.read_only {
            return Err(Errno::ROFS.into());
        }
        match who {
            Some(who) if who.may_write(&meta) => Ok(()),
            Some(_) => Err(Errno::ACCESS.into()),
            None => self.call(Call::AccessAsProcess, || {
                rustix::fs::accessat(dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())
            }),
        }
    }

    pub(crate) fn space(&self, dir: &Dir) -> Done<Space> {
        let room = self.call(Call::StatFs, || rustix::fs::fstatvfs(dir))?;
        let kind = self.call(Call::StatFs, || rustix::fs::fstatfs(dir))?.f_type;
        Ok(Space {
            read_only: room.f_flag.contains(StatVfsMountFlags::RDONLY),
            free: (room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize)),
            longest_name: usize::try_from(room.f_namemax).ok().filter(|longest| *longest > 0),
            // Only compared with itself, so a sign does not matter.
            kind: u64::from_ne_bytes(kind.to_ne_bytes()),
        })
    }

    /// The kind of file system behind a mount, as the system names it.
    pub(crate) fn file_system(&self, _dir: &Dir, mount: u64) -> String {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let wanted = mount.to_string();
        let line = table.lines().find(|line| line.split(' ').next() == Some(&wanted));
        let kind = line.and_then(|line| line.split(" - ").nth(1)).and_then(|rest| rest.split(' ').next());
        kind.unwrap_or("of an unknown kind").to_owned()
    }

    /// Whether something else is mounted under a name, or that cannot be told.
    fn is_mount(&self, dir: &Dir, name: &str) -> bool {
        match (self.meta(dir), self.look(dir, name)) {
            (Ok(above), Ok(Some(there))) => above.mount != there.mount || above.mount == 0,
            (_, there) => there.is_err(),
        }
    }

    fn directory(&self, fd: OwnedFd) -> Done<(Dir, Meta)> {
        let meta = self.stat(fd.as_fd(), "")?;
        Ok((Dir::of(fd), meta))
    }

    fn by_hand(&self, dir: &Dir, name: &str) -> Done<(Dir, Meta)> {
        if name.contains('/') || name == ".." {
            return Err(Errno::XDEV.into());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(dir, name, flags, Mode::empty());
        let (opened, meta) = self.directory(self.call(Call::OpenBeneathByHand, open)?)?;
        let above = self.meta(dir)?;
        if above.id.dev != meta.id.dev {
            return Err(Errno::XDEV.into());
        }
        // The same device may be mounted here once more, so that the device alone does not tell.
        if above.mount == 0 || meta.mount == 0 {
            return Err(Fault::other("whether it is a mount cannot be told without Linux 5.8 or /proc"));
        }
        if above.mount == meta.mount { Ok((opened, meta)) } else { Err(Errno::XDEV.into()) }
    }

    fn stat(&self, fd: BorrowedFd<'_>, name: &str) -> Done<Meta> {
        let flags = AtFlags::SYMLINK_NOFOLLOW
            | AtFlags::NO_AUTOMOUNT
            | if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
        let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let raw = self.call(Call::Stat, || rustix::fs::statx(fd, name, flags, mask))?;
        let mut meta = meta_of(&raw);
        if meta.mount == 0 || self.call(Call::MountNumber, || Ok(())).is_err() {
            meta.mount = self.mount_before_5_8(fd, name);
        }
        Ok(meta)
    }

    /// Linux before 5.8 tells the mount of a handle only in `/proc`.
    fn mount_before_5_8(&self, fd: BorrowedFd<'_>, name: &str) -> u64 {
        let of = |fd: BorrowedFd<'_>| {
            self.call(Call::MountNumberByProc, || Ok(())).ok()?;
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
            info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
        };
        if name.is_empty() {
            return of(fd).unwrap_or(0);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = self.call(Call::OpenChild, || rustix::fs::openat(fd, name, flags, Mode::empty()));
        opened.ok().and_then(|opened| of(opened.as_fd())).unwrap_or(0)
    }

    fn read_link(&self, link: &OwnedFd) -> Done<String> {
        let text = self.call(Call::ReadLink, || rustix::fs::readlinkat(link, "", Vec::new()))?;
        if text.as_bytes().len() > LONGEST_LINK {
            return Err(Errno::NAMETOOLONG.into());
        }
        text.into_string().map_err(|_| Fault::other("a link leads to a name that is not valid Unicode"))
    }
}

/// What only Linux has, or has in its own way.
impl Os {
    /// Sets the mode of a directory, whatever the umask was.
    pub(crate) fn set_directory_mode(&self, dir: &Dir, mode: u32) -> Done<()> {
        let mode = Mode::from_raw_mode(mode);
        match self.call(Call::OpenForSync, || open_for_reading(dir)) {
            Ok(fd) => self.call(Call::SetMode, || rustix::fs::fchmod(&fd, mode)),
            // The umask took the right to read it.
            Err(fault) if fault.kind == FaultKind::Denied => {
                let handle = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
                self.call(Call::SetMode, || rustix::fs::chmod(handle.as_str(), mode))
            }
            Err(fault) => Err(fault),
        }
    }

    pub(crate) fn set_mode(&self, file: &File, mode: u32) -> Done<()> {
        self.call(Call::SetMode, || rustix::fs::fchmod(&file.0, Mode::from_raw_mode(mode)))
    }

    /// A file without a name, which goes away by itself.
    pub(crate) fn nameless(&self, dir: &Dir) -> Done<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        self.call(Call::OpenNameless, || rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR))
            .map(File)
    }

    /// Names an open file; fails if the name exists.
    pub(crate) fn link_handle(&self, file: &File, dir: &Dir, name: &str) -> Done<()> {
        self.call(Call::LinkHandle, || rustix::fs::linkat(&file.0, "", dir, name, AtFlags::EMPTY_PATH))
    }

    /// The same through `/proc`, for kernels where only a privileged process may name a handle.
    pub(crate) fn link_through_proc(&self, file: &File, dir: &Dir, name: &str) -> Done<()> {
        let source = format!("/proc/self/fd/{}", file.0.as_raw_fd());
        self.call(Call::LinkThroughProc, || {
            rustix::fs::linkat(CWD, source.as_str(), dir, name, AtFlags::SYMLINK_FOLLOW)
        })
    }

    pub(crate) fn sync(&self, file: &File) -> Done<()> {
        self.call(Call::SyncFile, || rustix::fs::fsync(&file.0))
    }

    /// Makes the names in a directory durable, where the file system can and the directory may be read.
    pub(crate) fn sync_directory(&self, dir: &Dir) -> Done<()> {
        let fd = match self.call(Call::OpenForSync, || open_for_reading(dir)) {
            Err(fault) if fault.kind == FaultKind::Denied => return Ok(()),
            opened => opened?,
        };
        match self.call(Call::SyncDirectory, || rustix::fs::fsync(&fd)) {
            Err(fault) if fault.is_lacking() => Ok(()),
            result => result,
        }
    }

    pub(crate) fn random(&self) -> Done<[u8; 16]> {
        let mut bytes = [0; 16];
        let flags = rustix::rand::GetRandomFlags::empty();
        match self.call(Call::Random, || rustix::rand::getrandom(&mut bytes, flags))? {
            16 => Ok(bytes),
            _ => Err(Fault::other("too few random bytes")),
        }
    }
}

/// `faccessat2` as the kernel has it: judged by the identity that this thread uses for files.
fn access_as_effective(dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let here = CString::from(c".");
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: the handle is open, the name ends in NUL and outlives the call, and the kernel writes nothing.
    // rustix has the call, but where the kernel lacks it falls back to the identity of the process.
    let result = unsafe {
        libc::syscall(libc::SYS_faccessat2, dir.as_raw_fd(), here.as_ptr(), wanted, libc::AT_EACCESS)
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn meta_of(raw: &rustix::fs::Statx) -> Meta {
    let mode = u32::from(raw.stx_mode);
    let told = raw.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let seconds = raw.stx_ctime.tv_sec.saturating_mul(1_000_000_000);
    Meta {
        kind: kind_of(FileType::from_raw_mode(mode)),
        id: FileId { dev: rustix::fs::makedev(raw.stx_dev_major, raw.stx_dev_minor), ino: raw.stx_ino },
        uid: raw.stx_uid,
        gid: raw.stx_gid,
        mode: mode & 0o7777,
        size: raw.stx_size,
        ctime_ns: seconds.saturating_add(i64::from(raw.stx_ctime.tv_nsec)),
        mount: if told { raw.stx_mnt_id } else { 0 },
        frozen: raw.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
    }
}
