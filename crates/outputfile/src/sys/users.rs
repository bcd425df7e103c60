//! Linux: accounts, and threads that use the identity of another user for files.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read as _;

use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Fault, Meta};

/// Bytes of the password file that are read at the most.
const LONGEST_ACCOUNTS: u64 = 4 << 20;
/// Bytes that one account entry may take.
const LONGEST_ENTRY: usize = 1 << 20;
/// Groups that one user may be in.
const MOST_GROUPS: usize = 65_536;
/// The group of users that have no account: nobody's.
const NO_GROUP: u32 = 65_534;

/// The identity by which a user's files are made and judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub home: Option<String>,
}

impl Credentials {
    /// Those of a user. One without an account is in no group but nobody's.
    pub(crate) fn of(uid: u32) -> Self {
        match entry(|room, entry, found| {
            // SAFETY: all pointers are to live memory, and the length is that of the buffer.
            unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr(), room.len(), found) }
        }) {
            Some(account) => {
                Self { uid, gid: account.gid, groups: groups(&account), home: Some(account.home) }
            }
            None => Self { uid, gid: NO_GROUP, groups: Vec::new(), home: None },
        }
    }

    /// Takes this identity for the files that the calling thread uses. It cannot be given back: let the thread end.
    pub(crate) fn assume(&self) -> Result<(), Fault> {
        let groups: Vec<Gid> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        rustix::thread::set_thread_groups(&groups).map_err(Fault::from)?;
        set_file_identity(SET_FILE_GROUP, self.gid)?;
        set_file_identity(SET_FILE_USER, self.uid)?;
        // Whatever else this process may do, the owner may not.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).map_err(Fault::from)
    }

    /// By the permission bits alone: for kernels that cannot be asked.
    pub(crate) fn may_write(&self, meta: &Meta) -> bool {
        let shift = if meta.uid == self.uid {
            6
        } else if meta.gid == self.gid || self.groups.contains(&meta.gid) {
            3
        } else {
            0
        };
        (meta.mode >> shift) & 0o3 == 0o3
    }
}

/// The user that this process runs as.
pub(crate) fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this process may use the identity of other users.
pub(crate) fn can_switch() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// The uid of a user that is given by name or by number.
pub(crate) fn user_of(name: &str) -> Option<u32> {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        return name.parse().ok();
    }
    let wanted = CString::new(name).ok()?;
    let account = entry(|room, entry, found| {
        // SAFETY: as above, and the name ends in NUL and outlives the call.
        unsafe { libc::getpwnam_r(wanted.as_ptr(), entry, room.as_mut_ptr(), room.len(), found) }
    })?;
    Some(account.uid)
}

/// The user's name, where there is one.
pub(crate) fn account_name(uid: u32) -> Option<String> {
    let account = entry(|room, entry, found| {
        // SAFETY: all pointers are to live memory, and the length is that of the buffer.
        unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr(), room.len(), found) }
    })?;
    account.name.into_string().ok()
}

/// The homes in the password file, by name.
pub(crate) fn homes_of_all() -> Vec<String> {
    let mut text = Vec::new();
    let read = File::open("/etc/passwd").and_then(|file| file.take(LONGEST_ACCOUNTS).read_to_end(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| line.split(':').nth(5)).map(str::to_owned).collect()
}

/// Whether this number stands for users that this user namespace does not know.
pub(crate) fn unmapped(uid: u32) -> bool {
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    overflow.trim().parse() == Ok(uid) && !whole && !map.is_empty()
}

struct Account {
    name: CString,
    uid: u32,
    gid: u32,
    home: String,
}

/// Looks an account up by one of the two calls, with as much room as its entry needs.
fn entry(
    look: impl Fn(&mut [libc::c_char], *mut libc::passwd, *mut *mut libc::passwd) -> libc::c_int,
) -> Option<Account> {
    let mut room: Vec<libc::c_char> = vec![0; 1024];
    loop {
        let mut raw = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        match look(&mut room, raw.as_mut_ptr(), &raw mut found) {
            0 if found.is_null() => return None,
            0 => {
                // SAFETY: the call succeeded and found an entry, so it filled `raw` and points into `room`,
                // which both live here.
                return Some(unsafe { copy_account(&*found) });
            }
            libc::ERANGE if room.len() < LONGEST_ENTRY => room = vec![0; room.len() * 4],
            _ => return None,
        }
    }
}

/// # Safety
/// The strings of the entry must be valid or null.
unsafe fn copy_account(raw: &libc::passwd) -> Account {
    let copy = |text: *const libc::c_char| {
        if text.is_null() {
            return CString::default();
        }
        // SAFETY: not null, and by the contract of this function a string that ends in NUL.
        unsafe { CStr::from_ptr(text) }.to_owned()
    };
    let home = copy(raw.pw_dir).to_string_lossy().into_owned();
    Account { name: copy(raw.pw_name), uid: raw.pw_uid, gid: raw.pw_gid, home }
}

fn groups(account: &Account) -> Vec<u32> {
    let mut room: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let Ok(mut count) = libc::c_int::try_from(room.len()) else { return Vec::new() };
        // SAFETY: the name ends in NUL, and `count` is the length of the buffer.
        let result = unsafe {
            libc::getgrouplist(account.name.as_ptr(), account.gid, room.as_mut_ptr(), &raw mut count)
        };
        if result >= 0 {
            room.truncate(usize::try_from(count).unwrap_or(0));
            return room;
        }
        if room.len() >= MOST_GROUPS {
            return Vec::new();
        }
        room = vec![0; room.len() * 4];
    }
}

// The plain numbers take 16 bits on these two.
#[cfg(any(target_arch = "x86", target_arch = "arm"))]
const SET_FILE_USER: libc::c_long = libc::SYS_setfsuid32;
#[cfg(any(target_arch = "x86", target_arch = "arm"))]
const SET_FILE_GROUP: libc::c_long = libc::SYS_setfsgid32;
#[cfg(not(any(target_arch = "x86", target_arch = "arm")))]
const SET_FILE_USER: libc::c_long = libc::SYS_setfsuid;
#[cfg(not(any(target_arch = "x86", target_arch = "arm")))]
const SET_FILE_GROUP: libc::c_long = libc::SYS_setfsgid;

fn set_file_identity(call: libc::c_long, id: u32) -> Result<(), Fault> {
    // SAFETY: two numbers go in and one comes out. Made raw, because it must be for this thread alone.
    unsafe { libc::syscall(call, id) };
    // The call reports no error; asking with an impossible number tells what is in force.
    // SAFETY: the same.
    let now = unsafe { libc::syscall(call, u32::MAX) };
    if u32::try_from(now) == Ok(id) {
        Ok(())
    } else {
        Err(Fault::other(format!("the system did not let this thread use the files of user or group {id}")))
    }
}
