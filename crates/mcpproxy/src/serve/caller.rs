//! Whose is the other end of a loopback connection: the kernel is asked once, before a byte is read.
//!
//! A TCP connection carries no credentials. On loopback, though, the peer's socket lives in the same kernel, which knows
//! the user that made it. The question is for one exact pair of addresses, so it costs microseconds however many sockets
//! the machine has. Every doubt counts against the caller: a socket whose owner has closed it is reported with uid 0, and
//! a daemon that runs as root would take that for itself.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

/// What the kernel said about the peer of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The peer's socket is open, established and belongs to the user that we run as.
    Ours,
    /// Anything else, with the reason.
    NotOurs(Doubt),
}

impl Verdict {
    /// Whether the connection belongs to the user that we run as.
    pub fn is_ours(self) -> bool {
        self == Self::Ours
    }
}

/// Why a connection does not count as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// One of the two addresses is not a loopback address.
    NotLoopback,
    /// The kernel has no such socket: it is closed already, or lives behind a translation of addresses.
    Missing,
    /// More than one socket fits.
    Ambiguous,
    /// The socket is being closed, or was never established.
    Closing,
    /// No process holds the socket any more.
    Orphaned,
    /// The socket belongs to the user with this uid.
    OtherUser(u32),
    /// The kernel did not answer, or not in a way that can be read.
    Unanswered,
    /// This machine has no way to ask.
    Blind,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback => f.write_str("it does not come over loopback"),
            Self::Missing => f.write_str("the kernel knows no such connection"),
            Self::Ambiguous => f.write_str("more than one socket fits"),
            Self::Closing => f.write_str("it is being closed"),
            Self::Orphaned => f.write_str("no process holds its other end"),
            Self::OtherUser(uid) => write!(f, "it belongs to uid {uid}"),
            Self::Unanswered => f.write_str("the kernel did not answer"),
            Self::Blind => f.write_str("this machine has no way to tell users apart on loopback"),
        }
    }
}

/// The one who asks the kernel. Make it once per process and share it.
#[derive(Debug)]
pub struct Witness {
    uid: u32,
    way: Way,
}

#[derive(Debug)]
enum Way {
    #[cfg(target_os = "linux")]
    Netlink(kernel::Netlink),
    #[cfg(target_os = "linux")]
    Tables,
    Blind(String),
}

impl Witness {
    /// Finds a way to ask that is right about a connection of our own; without one, nobody is taken for us.
    #[cfg(target_os = "linux")]
    pub fn new() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        if !kernel::uid_is_telling(uid) {
            let why = format!("uid {uid} stands for every user that this user namespace does not map");
            return Self { uid, way: Way::Blind(why) };
        }
        for way in [Way::Netlink(kernel::Netlink::default()), Way::Tables] {
            let witness = Self { uid, way };
            if witness.knows_itself() {
                return witness;
            }
        }
        let why = "neither NETLINK_SOCK_DIAG nor /proc/net/tcp shows our own connections".to_owned();
        Self { uid, way: Way::Blind(why) }
    }

    /// Without a kernel interface that is known to be right, nobody is taken for us.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> Self {
        let why = "this platform has no way to ask the kernel whose a connection is".to_owned();
        Self { uid: u32::MAX, way: Way::Blind(why) }
    }

    /// Says whose `peer` is. `stream` is our end of the connection, accepted at `local`.
    ///
    /// Ask directly after accept and before a byte is read. With [`Witness::may_block`] false this takes microseconds
    /// and at most 100 ms.
    pub fn ask(&self, stream: impl AsFd, local: SocketAddr, peer: SocketAddr) -> Verdict {
        let (local, peer) = (canonical(local), canonical(peer));
        if !local.ip().is_loopback() || !peer.ip().is_loopback() || local.is_ipv4() != peer.is_ipv4() {
            return Verdict::NotOurs(Doubt::NotLoopback);
        }
        match self.find(peer, local) {
            Err(doubt) => Verdict::NotOurs(doubt),
            Ok(()) if is_established(stream) => Verdict::Ours,
            // Our end is closed: what we found may be a later connection that was given the same two addresses.
            Ok(()) => Verdict::NotOurs(Doubt::Closing),
        }
    }

    /// Whether [`Witness::ask`] reads tables that grow with the machine's sockets and belongs on a thread that may wait.
    pub fn may_block(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self.way, Way::Tables);
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Why nobody can be told to be ours, if that is so. A local caller then needs the API key or the Unix socket.
    pub fn blindness(&self) -> Option<&str> {
        match &self.way {
            Way::Blind(why) => Some(why),
            #[cfg(target_os = "linux")]
            _ => None,
        }
    }

    fn find(&self, peer: SocketAddr, local: SocketAddr) -> Result<(), Doubt> {
        match &self.way {
            #[cfg(target_os = "linux")]
            Way::Netlink(netlink) => belongs_to(self.uid, &netlink.sockets(peer, local)?),
            #[cfg(target_os = "linux")]
            Way::Tables => confirmed(self.uid, || kernel::listed_sockets(peer, local)),
            Way::Blind(_) => Err(Doubt::Blind),
        }
    }

    #[cfg(target_os = "linux")]
    fn knows_itself(&self) -> bool {
        own_connection().is_ok_and(|(client, server)| match (server.local_addr(), client.local_addr()) {
            (Ok(local), Ok(peer)) => self.ask(&server, local, peer).is_ours(),
            _ => false,
        })
    }
}

impl Default for Witness {
    fn default() -> Self {
        Self::new()
    }
}

/// A socket as the kernel describes it, seen from the peer: `local` is the peer's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    uid: u32,
    inode: u64,
}

/// `TCP_ESTABLISHED` of the kernel.
const ESTABLISHED: u8 = 1;

/// The rule: exactly one socket, held by a process, established, of this user.
fn belongs_to(uid: u32, found: &[Socket]) -> Result<(), Doubt> {
    match found {
        [] => Err(Doubt::Missing),
        [one] if one.state != ESTABLISHED => Err(Doubt::Closing),
        [one] if one.inode == 0 => Err(Doubt::Orphaned),
        [one] if one.uid != uid => Err(Doubt::OtherUser(one.uid)),
        [_] => Ok(()),
        _ => Err(Doubt::Ambiguous),
    }
}

/// The rule for tables that the kernel prints while they change: two readings must agree to it.
///
/// The uid and the inode of a line are read in no promised order, so a socket that is closed between the two can show an
/// inode and uid 0. It cannot do so twice, since the next time it has no inode. A line can also be missed or come twice when
/// others come and go, so one reading that shows no single socket is made up for.
#[cfg(target_os = "linux")]
fn confirmed(uid: u32, mut read: impl FnMut() -> Result<Vec<Socket>, Doubt>) -> Result<(), Doubt> {
    let (mut agreeing, mut unclear) = (0, 0);
    while agreeing < 2 {
        let mut found = read()?;
        found.dedup_by(|a, b| a == b && a.inode != 0);
        match belongs_to(uid, &found) {
            Ok(()) => agreeing += 1,
            Err(Doubt::Missing | Doubt::Ambiguous) if unclear == 0 => unclear += 1,
            Err(doubt) => return Err(doubt),
        }
    }
    Ok(())
}

/// `::ffff:127.0.0.1` is `127.0.0.1`; flow and scope of an IPv6 address do not take part.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(target_os = "linux")]
fn is_established(stream: impl AsFd) -> bool {
    kernel::state_of(stream.as_fd()) == Some(ESTABLISHED)
}

#[cfg(not(target_os = "linux"))]
fn is_established(_stream: impl AsFd) -> bool {
    false
}

/// Both ends of a loopback connection that this process makes to itself.
#[cfg(target_os = "linux")]
fn own_connection() -> std::io::Result<(std::net::TcpStream, std::net::TcpStream)> {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
    const STRANGERS: usize = 64;
    let places = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
    let listener = TcpListener::bind(&places[..])?;
    let client = TcpStream::connect_timeout(&listener.local_addr()?, std::time::Duration::from_secs(1))?;
    for _ in 0..STRANGERS {
        let (server, peer) = listener.accept()?;
        if peer == client.local_addr()? {
            return Ok((client, server));
        }
    }
    Err(std::io::Error::other("our own connection did not arrive"))
}
