//! Windows: the raw calls, each in one small function. All that is unsafe in this layer is here.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::windows::io::{AsRawHandle, FromRawHandle as _, OwnedHandle};
use std::ptr;

use windows_sys::Wdk::Foundation::OBJECT_ATTRIBUTES;
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_DISPOSITION_DELETE, FILE_DISPOSITION_INFORMATION, FILE_DISPOSITION_INFORMATION_EX,
    FILE_DISPOSITION_POSIX_SEMANTICS, FILE_FS_ATTRIBUTE_INFORMATION, FILE_INFORMATION_CLASS,
    FILE_OPEN_REPARSE_POINT, FILE_RENAME_INFORMATION, FILE_RENAME_INFORMATION_0,
    FILE_SYNCHRONOUS_IO_NONALERT, FS_INFORMATION_CLASS, FileDispositionInformation,
    FileDispositionInformationEx, FileFsAttributeInformation, FileFsFullSizeInformation, NtCreateFile,
    NtQueryVolumeInformationFile, NtSetInformationFile,
};
use windows_sys::Wdk::System::SystemServices::FILE_FS_FULL_SIZE_INFORMATION;
use windows_sys::Win32::Foundation::{
    ERROR_DELETE_PENDING, ERROR_DIRECTORY_NOT_SUPPORTED, ERROR_NO_MORE_FILES, NTSTATUS, OBJ_CASE_INSENSITIVE,
    RtlNtStatusToDosError, STATUS_DELETE_PENDING, STATUS_FILE_IS_A_DIRECTORY, UNICODE_STRING,
};
use windows_sys::Win32::Security::Cryptography::{BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_ATTRIBUTE_NORMAL, FILE_BASIC_INFO, FILE_ID_BOTH_DIR_INFO, FILE_ID_INFO,
    FILE_INFO_BY_HANDLE_CLASS, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FileBasicInfo,
    FileIdBothDirectoryInfo, FileIdInfo, GetFileInformationByHandle, GetFileInformationByHandleEx,
    GetFinalPathNameByHandleW, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, SYNCHRONIZE,
};
use windows_sys::Win32::System::IO::{DeviceIoControl, IO_STATUS_BLOCK, OVERLAPPED};
use windows_sys::Win32::System::Ioctl::FSCTL_GET_REPARSE_POINT;
use windows_sys::Win32::System::SystemInformation::GetSystemWindowsDirectoryW;

/// Others may read, write, rename and delete what we hold open, as on Unix.
pub(super) const SHARE_ALL: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
/// Others may not write into what we write.
pub(super) const SHARE_NO_WRITE: u32 = FILE_SHARE_READ | FILE_SHARE_DELETE;

/// Bytes that a reparse point has at the most.
const LONGEST_REPARSE: usize = 16 * 1024;
/// Units that the path of a handle has at the most.
const LONGEST_PATH: usize = 32 * 1024;
/// Bytes of directory entries that are read at a time.
const LISTING: usize = 64 * 1024;
/// The byte that stands for the lock of a file: beyond every content, because locks keep readers out of their range.
const LOCKED_BYTE: u64 = 0x7fff_ffff_ffff_fffe;

/// What to open or make.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub access: u32,
    pub share: u32,
    /// `FILE_OPEN` or `FILE_CREATE`.
    pub disposition: u32,
    /// `FILE_DIRECTORY_FILE`, `FILE_NON_DIRECTORY_FILE` or 0.
    pub options: u32,
}

/// Opens a single name in a directory, or with no name the directory itself again. A reparse point is opened, not followed.
pub(super) fn open_in(dir: &OwnedHandle, name: &str, how: How) -> io::Result<OwnedHandle> {
    let mut wide: Vec<u16> = name.encode_utf16().collect();
    // These would be more than one name, or a stream of one.
    if name.contains(['\\', '/', ':', '\0']) {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    }
    let bytes = u16::try_from(wide.len() * 2).map_err(|_| io::Error::from(io::ErrorKind::InvalidFilename))?;
    let object_name = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: wide.as_mut_ptr() };
    let attributes = OBJECT_ATTRIBUTES {
        Length: size_32::<OBJECT_ATTRIBUTES>(),
        RootDirectory: dir.as_raw_handle(),
        ObjectName: &raw const object_name,
        Attributes: OBJ_CASE_INSENSITIVE,
        SecurityDescriptor: ptr::null(),
        SecurityQualityOfService: ptr::null(),
    };
    let mut handle = ptr::null_mut();
    let mut status = IO_STATUS_BLOCK::default();
    // SAFETY: every pointer is to memory that lives until the call returns; the name's length is that of `wide`.
    let result = unsafe {
        NtCreateFile(
            &raw mut handle,
            how.access | SYNCHRONIZE,
            &raw const attributes,
            &raw mut status,
            ptr::null(),
            FILE_ATTRIBUTE_NORMAL,
            how.share,
            how.disposition,
            how.options | FILE_OPEN_REPARSE_POINT | FILE_SYNCHRONOUS_IO_NONALERT,
            ptr::null(),
            0,
        )
    };
    checked(result)?;
    // SAFETY: the call succeeded, so the handle is open, and nobody else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Attributes, size, serial number of the volume, and number of the file.
pub(super) fn by_handle(file: &impl AsRawHandle) -> io::Result<BY_HANDLE_FILE_INFORMATION> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open and the structure is the one that this call fills.
    let done = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(found) }
}

/// Times, of which `by_handle` lacks the change time.
pub(super) fn times(file: &impl AsRawHandle) -> io::Result<FILE_BASIC_INFO> {
    // SAFETY: this structure belongs to this class.
    unsafe { information(file, FileBasicInfo) }
}

/// The wide number of the file, for file systems that have more than 64 bits of it.
pub(super) fn wide_id(file: &impl AsRawHandle) -> io::Result<FILE_ID_INFO> {
    // SAFETY: this structure belongs to this class.
    unsafe { information(file, FileIdInfo) }
}

/// # Safety
/// `T` must be the plain structure of the class, valid for every content.
unsafe fn information<T>(file: &impl AsRawHandle, class: FILE_INFO_BY_HANDLE_CLASS) -> io::Result<T> {
    let mut found = MaybeUninit::<T>::zeroed();
    // SAFETY: the handle is open, and the buffer is as long as is said.
    let done = unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), class, found.as_mut_ptr().cast(), size_32::<T>())
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: by the contract of this function every content is valid, and the memory was zeroed.
    Ok(unsafe { found.assume_init() })
}

/// Units of the volume that are free for us, and the bytes of one.
pub(super) fn free_units(file: &OwnedHandle) -> io::Result<(u64, u64)> {
    let mut found = FILE_FS_FULL_SIZE_INFORMATION::default();
    query_volume(
        file,
        FileFsFullSizeInformation,
        (&raw mut found).cast(),
        size_32::<FILE_FS_FULL_SIZE_INFORMATION>(),
    )?;
    let units = u64::try_from(found.CallerAvailableAllocationUnits).unwrap_or(0);
    let bytes = u64::from(found.SectorsPerAllocationUnit) * u64::from(found.BytesPerSector);
    Ok((units, bytes))
}

/// Flags of a file system, its longest name, and what it is called.
pub(super) fn file_system(file: &OwnedHandle) -> io::Result<(u32, i32, String)> {
    // Room for a name of 64 units behind the structure.
    const NAME: usize = 64;
    let mut room = [0_u32; size_of::<FILE_FS_ATTRIBUTE_INFORMATION>() / 4 + NAME / 2];
    let length = u32::try_from(size_of_val(&room)).unwrap_or(0);
    query_volume(file, FileFsAttributeInformation, room.as_mut_ptr().cast(), length)?;
    // SAFETY: the call filled the structure at the beginning of `room`, which is large enough and aligned for it.
    let found = unsafe { &*room.as_ptr().cast::<FILE_FS_ATTRIBUTE_INFORMATION>() };
    let units = usize::try_from(found.FileSystemNameLength / 2).unwrap_or(0).min(NAME);
    // SAFETY: the name begins here, and `room` has `NAME` units from here on.
    let name = unsafe {
        let start = room.as_ptr().cast::<u8>().add(offset_of!(FILE_FS_ATTRIBUTE_INFORMATION, FileSystemName));
        std::slice::from_raw_parts(start.cast::<u16>(), units)
    };
    Ok((found.FileSystemAttributes, found.MaximumComponentNameLength, String::from_utf16_lossy(name)))
}

fn query_volume(
    file: &OwnedHandle,
    class: FS_INFORMATION_CLASS,
    into: *mut c_void,
    length: u32,
) -> io::Result<()> {
    let mut status = IO_STATUS_BLOCK::default();
    // SAFETY: both callers give a buffer of their own and its length.
    let result =
        unsafe { NtQueryVolumeInformationFile(file.as_raw_handle(), &raw mut status, into, length, class) };
    checked(result)
}

/// Gives an open file another name in the directory: renames it, or adds a link, by the class.
pub(super) fn name_in(
    file: &impl AsRawHandle,
    dir: &OwnedHandle,
    name: &str,
    class: FILE_INFORMATION_CLASS,
    flags: u32,
) -> io::Result<()> {
    let name: Vec<u16> = name.encode_utf16().collect();
    let bytes = name.len() * 2;
    let length = offset_of!(FILE_RENAME_INFORMATION, FileName) + bytes;
    let mut room = vec![0_u64; length.max(size_of::<FILE_RENAME_INFORMATION>()).div_ceil(8)];
    let long =
        |length: usize| u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidFilename));
    let (bytes_32, length_32) = (long(bytes)?, long(room.len() * 8)?);
    let start: *mut FILE_RENAME_INFORMATION = room.as_mut_ptr().cast();
    let mut status = IO_STATUS_BLOCK::default();
    // SAFETY: `room` is aligned for the structure and has `length` bytes, so all fields and the name lie in it.
    // A link has the same structure as a rename.
    let result = unsafe {
        (*start).Anonymous = FILE_RENAME_INFORMATION_0 { Flags: flags };
        (*start).RootDirectory = dir.as_raw_handle();
        (*start).FileNameLength = bytes_32;
        ptr::copy_nonoverlapping(name.as_ptr(), (&raw mut (*start).FileName).cast(), name.len());
        NtSetInformationFile(file.as_raw_handle(), &raw mut status, start.cast(), length_32, class)
    };
    checked(result)
}

/// Removes the name of an open file at once, while others may have it open.
pub(super) fn remove_at_once(file: &OwnedHandle) -> io::Result<()> {
    let how =
        FILE_DISPOSITION_INFORMATION_EX { Flags: FILE_DISPOSITION_DELETE | FILE_DISPOSITION_POSIX_SEMANTICS };
    // SAFETY: this structure belongs to this class.
    unsafe { set_information(file, FileDispositionInformationEx, &how) }
}

/// Removes the name of an open file when the last handle to it is closed.
pub(super) fn remove_at_close(file: &OwnedHandle) -> io::Result<()> {
    let how = FILE_DISPOSITION_INFORMATION { DeleteFile: true };
    // SAFETY: this structure belongs to this class.
    unsafe { set_information(file, FileDispositionInformation, &how) }
}

/// # Safety
/// `T` must be the structure of the class.
unsafe fn set_information<T>(file: &OwnedHandle, class: FILE_INFORMATION_CLASS, what: &T) -> io::Result<()> {
    let mut status = IO_STATUS_BLOCK::default();
    // SAFETY: the handle is open, and the structure lives until the call returns.
    let result = unsafe {
        NtSetInformationFile(
            file.as_raw_handle(),
            &raw mut status,
            ptr::from_ref(what).cast(),
            size_32::<T>(),
            class,
        )
    };
    checked(result)
}

/// What a reparse point holds.
pub(super) fn reparse_data(file: &OwnedHandle) -> io::Result<Vec<u8>> {
    let mut data = vec![0; LONGEST_REPARSE];
    let mut length = 0;
    // SAFETY: nothing goes in, and the buffer that is filled is as long as is said. The handle is a synchronous one.
    let done = unsafe {
        DeviceIoControl(
            file.as_raw_handle(),
            FSCTL_GET_REPARSE_POINT,
            ptr::null(),
            0,
            data.as_mut_ptr().cast(),
            u32::try_from(data.len()).unwrap_or(0),
            &raw mut length,
            ptr::null_mut(),
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    data.truncate(usize::try_from(length).unwrap_or(0));
    Ok(data)
}

/// The next names in a directory that is open for listing; none at the end.
pub(super) fn next_names(dir: &OwnedHandle) -> io::Result<Vec<String>> {
    let mut room = vec![0_u64; LISTING / 8];
    // SAFETY: the handle is open, and the buffer is as long as is said.
    let done = unsafe {
        GetFileInformationByHandleEx(
            dir.as_raw_handle(),
            FileIdBothDirectoryInfo,
            room.as_mut_ptr().cast(),
            u32::try_from(LISTING).unwrap_or(0),
        )
    };
    if done == 0 {
        let error = io::Error::last_os_error();
        let end = error.raw_os_error().and_then(|code| u32::try_from(code).ok()) == Some(ERROR_NO_MORE_FILES);
        return if end { Ok(Vec::new()) } else { Err(error) };
    }
    let mut names = Vec::new();
    let mut at = 0;
    loop {
        let name_at = at + offset_of!(FILE_ID_BOTH_DIR_INFO, FileName);
        if at % 8 != 0 || name_at > LISTING {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        // SAFETY: the entry lies in `room`, as was just checked, and entries begin at multiples of eight.
        let entry = unsafe { &*room.as_ptr().cast::<u8>().add(at).cast::<FILE_ID_BOTH_DIR_INFO>() };
        let units = usize::try_from(entry.FileNameLength / 2).unwrap_or(0).min((LISTING - name_at) / 2);
        // SAFETY: the name begins here, and its units end before `room` does.
        let name =
            unsafe { std::slice::from_raw_parts(room.as_ptr().cast::<u8>().add(name_at).cast(), units) };
        names.push(String::from_utf16_lossy(name));
        if entry.NextEntryOffset == 0 {
            return Ok(names);
        }
        at += usize::try_from(entry.NextEntryOffset).unwrap_or(LISTING);
    }
}

/// Locks a file until its handle is closed, or says at once that somebody else has it.
pub(super) fn lock(file: &File, alone: bool) -> io::Result<()> {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.Offset = u32::try_from(LOCKED_BYTE & 0xffff_ffff).unwrap_or(0);
    place.Anonymous.Anonymous.OffsetHigh = u32::try_from(LOCKED_BYTE >> 32).unwrap_or(0);
    let flags = LOCKFILE_FAIL_IMMEDIATELY | if alone { LOCKFILE_EXCLUSIVE_LOCK } else { 0 };
    // SAFETY: the handle is open and synchronous, so the call is over with `place` when it returns.
    let done = unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The path by which the system knows an open file now, as `\\?\C:\…` or `\\?\UNC\host\share\…`.
pub(super) fn final_path(file: &OwnedHandle) -> io::Result<String> {
    let mut path = vec![0_u16; LONGEST_PATH];
    let room = u32::try_from(path.len()).unwrap_or(0);
    // SAFETY: the handle is open, and the buffer is as long as is said.
    let length = unsafe { GetFinalPathNameByHandleW(file.as_raw_handle(), path.as_mut_ptr(), room, 0) };
    text_of(&path, length)
}

/// Where Windows itself lies.
pub(super) fn windows_directory() -> io::Result<String> {
    let mut path = vec![0_u16; LONGEST_PATH];
    let room = u32::try_from(path.len()).unwrap_or(0);
    // SAFETY: the buffer is as long as is said.
    let length = unsafe { GetSystemWindowsDirectoryW(path.as_mut_ptr(), room) };
    text_of(&path, length)
}

/// Fills with random bytes of the system.
pub(super) fn random(into: &mut [u8]) -> io::Result<()> {
    let length = u32::try_from(into.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the buffer is as long as is said; with this flag no algorithm is to be given.
    let status = unsafe {
        BCryptGenRandom(ptr::null_mut(), into.as_mut_ptr(), length, BCRYPT_USE_SYSTEM_PREFERRED_RNG)
    };
    checked(status)
}

fn text_of(path: &[u16], length: u32) -> io::Result<String> {
    let length = usize::try_from(length).unwrap_or(0);
    if length == 0 {
        return Err(io::Error::last_os_error());
    }
    // A longer path than fits is told by the length that it would need.
    let path = path.get(..length).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    String::from_utf16(path).map_err(|_| io::Error::from(io::ErrorKind::InvalidFilename))
}

/// A status as the error that Windows programs know; two get one of their own that would be "access denied".
fn checked(status: NTSTATUS) -> io::Result<()> {
    if status >= 0 {
        return Ok(());
    }
    let code = match status {
        STATUS_FILE_IS_A_DIRECTORY => ERROR_DIRECTORY_NOT_SUPPORTED,
        STATUS_DELETE_PENDING => ERROR_DELETE_PENDING,
        // SAFETY: a number goes in and a number comes out.
        _ => unsafe { RtlNtStatusToDosError(status) },
    };
    Err(io::Error::from_raw_os_error(i32::try_from(code).unwrap_or(i32::MAX)))
}

/// The size of a structure; none comes near the limit.
fn size_32<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(0)
}
