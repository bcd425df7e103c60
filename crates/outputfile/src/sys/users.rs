//! Unix: accounts.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read as _;

use super::identity::groups;

/// Bytes of the password file that are read at the most.
const LONGEST_ACCOUNTS: u64 = 4 << 20;
/// Bytes that one account entry may take.
const LONGEST_ENTRY: usize = 1 << 20;
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
}

/// The user that this process runs as.
pub(crate) fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
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

pub(super) struct Account {
    pub name: CString,
    uid: u32,
    pub gid: u32,
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
