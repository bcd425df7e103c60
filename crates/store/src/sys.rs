//! What differs between platforms: positioned reads and writes, private modes, room on disk, kinds of file systems.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes the directory and its missing parents, for our user only. One that exists is left as it is.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file for reading and writing, makes it if it is missing, and keeps it to our user.
pub(crate) fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// Gives the file room on disk up to `bytes`, so that writing within it cannot meet a full disk. Content is kept.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let length = file.metadata()?.len();
    #[cfg(target_os = "linux")]
    {
        use rustix::io::Errno;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(()),
            // File systems without the call get zeros written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let zeros = [0u8; 65_536];
    let mut at = length;
    while at < bytes {
        let step = usize::try_from(bytes - at).map_or(zeros.len(), |left| left.min(zeros.len()));
        write_at(file, &zeros[..step], at)?;
        at += step as u64;
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let (mut bytes, mut offset) = (bytes, offset);
        while !bytes.is_empty() {
            let step = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
            if step == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[step..];
            offset += step as u64;
        }
        Ok(())
    }
}

/// Fills all of `bytes` from `offset` on.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let (mut bytes, mut offset) = (bytes, offset);
        while !bytes.is_empty() {
            let step = std::os::windows::fs::FileExt::seek_read(file, bytes, offset)?;
            if step == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = &mut bytes[step..];
            offset += step as u64;
        }
        Ok(())
    }
}

/// Which file stands at this path: device and inode.
#[cfg(unix)]
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Elsewhere an open file cannot be taken away.
#[cfg(not(unix))]
pub(crate) fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

/// The name of the network file system that the directory lies on; `None` is a local one, or one that does not say.
#[cfg(target_os = "linux")]
pub(crate) fn network_file_system(directory: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(directory).ok()?.f_type;
    network_name(u32::try_from(i128::from(kind) & 0xffff_ffff).unwrap_or(0))
}

/// Elsewhere the question is not asked, and SQLite's own check of shared memory decides.
#[cfg(not(target_os = "linux"))]
pub(crate) fn network_file_system(_directory: &Path) -> Option<&'static str> {
    None
}

/// Kinds whose shared memory or locks cannot be relied on, by the magic number of `statfs(2)`.
#[cfg(target_os = "linux")]
fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9P",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x786f_4256 => "VirtualBox shared folder",
        0xbacb_acbc => "VMware shared folder",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_number_and_local_ones_are_not() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_name(0xef53), None, "ext4");
        assert_eq!(network_file_system(Path::new("/proc")), None);
    }

    #[test]
    fn a_file_gets_its_room_and_keeps_its_content() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        std::fs::write(&path, b"kept").unwrap();
        let file = open_private_file(&path).unwrap();
        allocate(&file, 100_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100_000);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut head = [0u8; 4];
        read_at(&file, &mut head, 0).unwrap();
        assert_eq!(&head, b"kept");
    }
}
