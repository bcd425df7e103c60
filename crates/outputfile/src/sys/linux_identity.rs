//! Linux: threads that use the identity of another user for files.

use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::users::{Account, Credentials};
use super::{Fault, Meta};

/// Groups that one user may be in.
const MOST_GROUPS: usize = 65_536;

impl Credentials {
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

/// Whether this process may use the identity of other users.
pub(crate) fn can_switch() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Whether this number stands for users that this user namespace does not know.
pub(crate) fn unmapped(uid: u32) -> bool {
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    overflow.trim().parse() == Ok(uid) && !whole && !map.is_empty()
}

/// The groups that a user is in.
pub(super) fn groups(account: &Account) -> Vec<u32> {
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
