//! The doors: TCP and the Unix socket, how many may stand in them, and what is known of each who comes in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::caller::{Doubt, Verdict, Witness};
use crate::daemon::{exit, socket};
use gateway::mcp::quietly;

#[cfg(test)]
mod tests;

/// What is known of a connection. Every request carries it in its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFacts {
    /// Over TCP.
    Tcp {
        /// Where it arrived: the address that the caller connected to.
        local: SocketAddr,
        /// Where it comes from.
        peer: SocketAddr,
        /// Whose the other end is, asked before a byte was read.
        owner: Verdict,
    },
    /// Through the Unix socket.
    Socket {
        /// The user at the other end: our own or root.
        uid: u32,
    },
}

impl ConnectionFacts {
    /// The IP address at which the connection arrived, if it came over TCP.
    pub fn arrived_at(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp { local, .. } => Some(local.ip().to_canonical()),
            Self::Socket { .. } => None,
        }
    }
}

/// How much the doors let in.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time of callers that are not known to be our own user. They have seats of their own, so that they
    /// cannot keep our user out.
    pub strangers: usize,
    /// Connections at a time of our own user, the Unix socket included.
    pub own: usize,
    /// How long a connection may stay without sending a whole request head.
    pub head_timeout: Duration,
    /// How long the requests in flight have to end once the program ends.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { strangers: 1024, own: 1024, head_timeout: seconds(30), grace: seconds(10) }
    }
}

/// Bound listeners, TCP and Unix.
#[derive(Debug, Default)]
pub struct Doors {
    /// TCP listeners, as [`bind`] makes them.
    pub tcp: Vec<TcpListener>,
    /// The Unix socket.
    pub unix: Option<UnixListener>,
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The port is taken.
    #[error("port {} of {} is taken by another program: stop it, or choose another with --listen {}:PORT",
        address.port(), address.ip(), bracketed(address.ip()))]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The operating system does not allow it.
    #[error(
        "{address} may not be listened on: ports below 1024 need a privilege; choose a higher one with --listen"
    )]
    Denied {
        /// The address.
        address: SocketAddr,
    },
    /// It would be open to other machines without a key.
    #[error(
        "listening on {address} opens /mcp to other machines: add \"require_mcp_auth\": true to the configuration, or \
         listen on 127.0.0.1"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The name has no address.
    #[error("the host {host:?} of `listen` has no address: {source}")]
    Unresolvable {
        /// The host.
        host: String,
        /// What came back.
        source: io::Error,
    },
    /// Anything else.
    #[error("{address} cannot be listened on: {source}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// What came back.
        source: io::Error,
    },
}

impl BindError {
    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::InUse { .. } => exit::PORT_IN_USE,
            Self::Denied { .. } => exit::PERMISSION,
            Self::Exposed { .. } | Self::Unresolvable { .. } => exit::CONFIG,
            Self::Io { .. } => exit::GENERAL,
        }
    }
}

/// Binds `host:port`. An empty host is 127.0.0.1; of a name's addresses an IPv4 one comes first.
///
/// Without `key_required` (whether `/mcp` needs the key of everyone) only loopback is bound.
pub async fn bind(host: &str, port: u16, key_required: bool) -> Result<TcpListener, BindError> {
    let address = resolve(host, port).await?;
    if !address.ip().to_canonical().is_loopback() && !key_required {
        return Err(BindError::Exposed { address });
    }
    listen_at(address).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        io::ErrorKind::PermissionDenied => BindError::Denied { address },
        _ => BindError::Io { address, source },
    })
}

/// Serves `router` at the doors until `end`, then lets requests in flight end within the grace and cuts off the rest.
///
/// Failing to accept never ends this: it waits and tries again.
pub async fn serve(
    doors: Doors,
    router: Router,
    witness: Arc<Witness>,
    limits: Limits,
    end: CancellationToken,
) {
    let house = House {
        router,
        witness,
        strangers: Arc::new(Semaphore::new(limits.strangers)),
        own: Arc::new(Semaphore::new(limits.own)),
        head_timeout: limits.head_timeout,
        connections: TaskTracker::new(),
        end: end.clone(),
        cut: CancellationToken::new(),
    };
    let loops = TaskTracker::new();
    for listener in doors.tcp {
        let house = house.clone();
        loops.spawn(async move { house.end.clone().run_until_cancelled(house.accept_tcp(&listener)).await });
    }
    if let Some(listener) = doors.unix {
        let house = house.clone();
        loops.spawn(async move { house.end.clone().run_until_cancelled(house.accept_unix(&listener)).await });
    }
    loops.close();
    end.cancelled().await;
    loops.wait().await;
    house.connections.close();
    if timeout(limits.grace, house.connections.wait()).await.is_err() {
        tracing::info!(connections = house.connections.len(), "connections still open are cut off");
        house.cut.cancel();
        house.connections.wait().await;
    }
}

/// What an accept loop needs.
#[derive(Clone)]
struct House {
    router: Router,
    witness: Arc<Witness>,
    strangers: Arc<Semaphore>,
    own: Arc<Semaphore>,
    head_timeout: Duration,
    connections: TaskTracker,
    /// No more requests.
    end: CancellationToken,
    /// No more bytes.
    cut: CancellationToken,
}

impl House {
    async fn accept_tcp(&self, listener: &TcpListener) {
        let mut patience = Patience::default();
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    patience = Patience::default();
                    self.welcome_tcp(stream, peer);
                }
                Err(error) => patience.after(&error).await,
            }
        }
    }

    async fn accept_unix(&self, listener: &UnixListener) {
        let mut patience = Patience::default();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    patience = Patience::default();
                    self.welcome_unix(stream);
                }
                Err(error) => patience.after(&error).await,
            }
        }
    }

    fn welcome_tcp(&self, stream: TcpStream, peer: SocketAddr) {
        let Ok(local) = stream.local_addr() else { return };
        if self.witness.may_block() {
            let house = self.clone();
            self.connections.spawn(async move {
                let witness = Arc::clone(&house.witness);
                let asked = tokio::task::spawn_blocking(move || {
                    let owner = witness.ask(&stream, local, peer);
                    (stream, owner)
                });
                if let Ok((stream, owner)) = asked.await {
                    house.seat_tcp(stream, local, peer, owner);
                }
            });
        } else {
            let owner = self.witness.ask(&stream, local, peer);
            self.seat_tcp(stream, local, peer, owner);
        }
    }

    fn seat_tcp(&self, stream: TcpStream, local: SocketAddr, peer: SocketAddr, owner: Verdict) {
        if let Verdict::NotOurs(doubt) = owner
            && doubt != Doubt::NotLoopback
        {
            tracing::debug!(%peer, "not a connection of our own user: {doubt}");
        }
        let seats = if owner.is_ours() { &self.own } else { &self.strangers };
        let Ok(seat) = Arc::clone(seats).try_acquire_owned() else {
            tracing::warn!(%peer, "too many connections: turned away");
            let _ = stream.try_write(FULL);
            return;
        };
        let _ = stream.set_nodelay(true);
        // A caller that went away without a word is noticed in minutes.
        let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
        let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, Duration::from_secs(60));
        self.talk(stream, ConnectionFacts::Tcp { local, peer, owner }, seat);
    }

    fn welcome_unix(&self, stream: UnixStream) {
        let uid = stream.peer_cred().map(|credentials| credentials.uid());
        let Some(uid) = uid.ok().filter(|uid| socket::is_welcome(*uid)) else {
            tracing::warn!("the Unix socket was opened by another user: turned away");
            return;
        };
        let Ok(seat) = Arc::clone(&self.own).try_acquire_owned() else {
            tracing::warn!("too many connections on the Unix socket: turned away");
            let _ = stream.try_write(FULL);
            return;
        };
        self.talk(stream, ConnectionFacts::Socket { uid }, seat);
    }

    fn talk<S>(&self, stream: S, facts: ConnectionFacts, seat: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (router, end, cut) = (self.router.clone(), self.end.clone(), self.cut.clone());
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(facts);
            router.clone().oneshot(request.map(Body::new))
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.head_timeout).max_buf_size(BUFFER_BYTES);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        self.connections.spawn(quietly(async move {
            let _seat = seat;
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = end.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = connection.as_mut() => ended,
                        () = cut.cancelled() => Ok(()),
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(?facts, "connection ended: {error}");
            }
        }));
    }
}

/// What one connection may hold of a request head or of what waits to be written.
const BUFFER_BYTES: usize = 64 << 10;
const BACKLOG: u32 = 1024;
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 21\r\n\
    content-type: text/plain\r\n\r\ntoo many connections\n";

/// The wait after a failed accept: it grows while accepting goes on failing, for want of file descriptors above all.
#[derive(Default)]
struct Patience {
    failures: u32,
}

impl Patience {
    async fn after(&mut self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
            return tokio::task::yield_now().await;
        }
        if self.failures == 0 {
            tracing::warn!("connections cannot be accepted: {error}");
        }
        self.failures = self.failures.saturating_add(1);
        sleep(Duration::from_millis(50).saturating_mul(self.failures).min(Duration::from_secs(1))).await;
    }
}

async fn resolve(host: &str, port: u16) -> Result<SocketAddr, BindError> {
    let plain = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if plain.is_empty() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let unresolvable = |source| BindError::Unresolvable { host: host.to_owned(), source };
    let found: Vec<SocketAddr> =
        tokio::net::lookup_host((plain, port)).await.map_err(unresolvable)?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first()).copied();
    first.ok_or_else(|| unresolvable(io::ErrorKind::NotFound.into()))
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a restart does not wait for connections of the last run; it does not let two programs listen at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}
