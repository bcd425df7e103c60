//! What Linux says about a TCP socket: by netlink, by `/proc/net/tcp`, and by `TCP_INFO` for our own end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::{Doubt, Socket, canonical};

/// The kernel answers while it takes the question, so the answer is there when the question is sent.
const PATIENCE: Duration = Duration::from_millis(100);
/// Datagrams looked at for one answer; late answers to earlier questions are passed over.
const ATTEMPTS: usize = 16;
/// `/proc/net/tcp` has 150 bytes a socket: as much of it as is read before the question counts as unanswered.
const TABLE_BYTES: u64 = 32 << 20;

const HEADER: usize = 16;
const ANSWER: usize = 72;
const QUESTION: u32 = 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// A `NETLINK_SOCK_DIAG` socket, opened at the first question and again after an error.
#[derive(Debug, Default)]
pub(super) struct Netlink(Mutex<Line>);

#[derive(Debug, Default)]
struct Line {
    socket: Option<OwnedFd>,
    sequence: u32,
}

impl Netlink {
    /// The sockets with exactly these two addresses, `peer` being their own one.
    pub(super) fn sockets(&self, peer: SocketAddr, local: SocketAddr) -> Result<Vec<Socket>, Doubt> {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = line.ask(peer, local);
        if found.is_err() {
            line.socket = None;
        }
        let mut found = found?;
        found.retain(|socket| socket.local == peer && socket.remote == local);
        Ok(found)
    }
}

impl Line {
    fn ask(&mut self, peer: SocketAddr, local: SocketAddr) -> Result<Vec<Socket>, Doubt> {
        let unanswered = |_| Doubt::Unanswered;
        self.sequence = self.sequence.wrapping_add(1);
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => open_netlink().map_err(unanswered)?,
        };
        let kernel = SocketAddrNetlink::new(0, 0);
        let question = question(self.sequence, peer, local);
        rustix::net::sendto(&socket, &question, SendFlags::empty(), &kernel).map_err(unanswered)?;
        let found = answer(&socket, self.sequence);
        self.socket = Some(socket);
        found
    }
}

fn open_netlink() -> rustix::io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2` of `linux/inet_diag.h`, asking for one socket.
fn question(sequence: u32, peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
    let family = if peer.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut bytes = Vec::with_capacity(ANSWER);
    bytes.extend(QUESTION.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([family, IPPROTO_TCP, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes()); // states: all
    bytes.extend(peer.port().to_be_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(sixteen(peer.ip()));
    bytes.extend(sixteen(local.ip()));
    bytes.extend(0_u32.to_ne_bytes()); // interface: none
    bytes.extend([0xff; 8]); // cookie: none
    bytes
}

fn sixteen(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn answer(socket: &OwnedFd, sequence: u32) -> Result<Vec<Socket>, Doubt> {
    let mut buffer = [0_u8; 4096];
    for _ in 0..ATTEMPTS {
        let (taken, length, from) = match rustix::net::recvfrom(socket, &mut buffer, RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            received => received.map_err(|_| Doubt::Unanswered)?,
        };
        let from = from.and_then(|address| SocketAddrNetlink::try_from(address).ok());
        if from.is_none_or(|address| address.pid() != 0) {
            continue; // not from the kernel
        }
        if length > taken {
            return Err(Doubt::Unanswered);
        }
        if let Some(found) = read_datagram(&buffer[..taken], sequence)? {
            return Ok(found);
        }
    }
    Err(Doubt::Unanswered)
}

/// The sockets in a datagram, or `None` if it answers another question.
pub(super) fn read_datagram(mut bytes: &[u8], sequence: u32) -> Result<Option<Vec<Socket>>, Doubt> {
    let mut found = None;
    while bytes.len() >= HEADER {
        let length = usize::try_from(u32_at(bytes, 0)?).map_err(|_| Doubt::Unanswered)?;
        let message =
            bytes.get(..length).filter(|message| message.len() >= HEADER).ok_or(Doubt::Unanswered)?;
        if u32_at(message, 8)? == sequence {
            let sockets = found.get_or_insert_with(Vec::new);
            match u16_at(message, 4)? {
                SOCK_DIAG_BY_FAMILY => sockets.push(read_socket(&message[HEADER..])?),
                NLMSG_ERROR if is_not_found(u32_at(message, HEADER)?) => {}
                _ => return Err(Doubt::Unanswered),
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(found)
}

/// A netlink error is a negated errno.
fn is_not_found(error: u32) -> bool {
    error.cast_signed() == -libc::ENOENT
}

/// `struct inet_diag_msg`.
fn read_socket(bytes: &[u8]) -> Result<Socket, Doubt> {
    if bytes.len() < ANSWER {
        return Err(Doubt::Unanswered);
    }
    let address = |at: usize, port: usize| -> Result<SocketAddr, Doubt> {
        let octets: [u8; 16] = array_at(bytes, at)?;
        let ip = match bytes[0] {
            AF_INET => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
            AF_INET6 => IpAddr::V6(Ipv6Addr::from(octets)),
            _ => return Err(Doubt::Unanswered),
        };
        Ok(canonical(SocketAddr::new(ip, u16::from_be_bytes(array_at(bytes, port)?))))
    };
    Ok(Socket {
        local: address(8, 4)?,
        remote: address(24, 6)?,
        state: bytes[1],
        uid: u32_at(bytes, 64)?,
        inode: u64::from(u32_at(bytes, 68)?),
    })
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Doubt> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Doubt::Unanswered)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Doubt> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Doubt> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

/// The sockets with these two addresses in `/proc/net/tcp` and `/proc/net/tcp6`; an IPv6 socket may speak IPv4.
pub(super) fn listed_sockets(peer: SocketAddr, local: SocketAddr) -> Result<Vec<Socket>, Doubt> {
    let mut found = Vec::new();
    if peer.is_ipv4() {
        let table = File::open("/proc/self/net/tcp").map_err(|_| Doubt::Unanswered)?;
        search_table(table, peer, local, &mut found)?;
    }
    match File::open("/proc/self/net/tcp6") {
        Ok(table) => search_table(table, peer, local, &mut found)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {} // no IPv6 on this machine
        Err(_) => return Err(Doubt::Unanswered),
    }
    Ok(found)
}

pub(super) fn search_table(
    table: impl Read,
    peer: SocketAddr,
    local: SocketAddr,
    found: &mut Vec<Socket>,
) -> Result<(), Doubt> {
    let ports = (format!(":{:04X} ", peer.port()), format!(":{:04X} ", local.port()));
    let mut reader = BufReader::with_capacity(64 << 10, table.take(TABLE_BYTES));
    let mut line = String::new();
    let mut total = 0_u64;
    loop {
        line.clear();
        let length = reader.read_line(&mut line).map_err(|_| Doubt::Unanswered)?;
        if length == 0 {
            return if total < TABLE_BYTES { Ok(()) } else { Err(Doubt::Unanswered) };
        }
        total = total.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        if line.contains(&ports.0) && line.contains(&ports.1) {
            let socket = read_line(&line).ok_or(Doubt::Unanswered)?;
            if socket.local == peer && socket.remote == local {
                found.push(socket);
            }
        }
    }
}

fn read_line(line: &str) -> Option<Socket> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (read_address(words.next()?)?, read_address(words.next()?)?);
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let uid = words.nth(3)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some(Socket { local, remote, state, uid, inode })
}

/// `0100007F:1F90`: words of 32 bits in the machine's byte order, then the port.
fn read_address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut octets = [0_u8; 16];
    for (place, word) in octets.chunks_exact_mut(4).zip(words.as_bytes().chunks(8)) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let ip = match words.len() {
        8 => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
        32 => IpAddr::V6(Ipv6Addr::from(octets)),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// The state of our own end of a connection, if the kernel tells it.
#[expect(unsafe_code, reason = "neither std nor rustix reads TCP_INFO")]
pub(super) fn state_of(stream: BorrowedFd<'_>) -> Option<u8> {
    const LENGTH: libc::socklen_t = 104;
    let mut info = [0_u8; LENGTH as usize];
    let mut length = LENGTH;
    // SAFETY: `info` is valid for writes of `length` bytes and `length` is a valid in-out pointer for the whole call; the
    // descriptor is open because it is borrowed. The kernel writes at most `length` plain bytes.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast::<libc::c_void>(),
            &raw mut length,
        )
    };
    (status == 0 && length > 0).then_some(info[0])
}

/// Whether a socket that shows `uid` can belong to nobody else: in a user namespace, users without a mapping all show as
/// the overflow uid.
pub(super) fn uid_is_telling(uid: u32) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let overflow = read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(65534);
    uid != overflow || maps_everyone(&read("/proc/self/uid_map"))
}

pub(super) fn maps_everyone(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}
