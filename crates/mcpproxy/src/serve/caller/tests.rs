//! Who is at the other end: unit cases and storms of strangers.

use std::io::{Cursor, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

const STRANGER: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Both ways of asking, so that each test judges both.
fn witnesses() -> [(&'static str, Witness); 2] {
    let uid = rustix::process::geteuid().as_raw();
    [
        ("netlink", Witness { uid, way: Way::Netlink(kernel::Netlink::default()) }),
        ("tables", Witness { uid, way: Way::Tables }),
    ]
}

fn loopback_v4() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn judge(witness: &Witness, server: &TcpStream, peer: SocketAddr) -> Verdict {
    witness.ask(server, server.local_addr().unwrap(), peer)
}

/// Runs `act` on a thread whose sockets belong to another user.
fn as_stranger<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> std::thread::JoinHandle<R> {
    std::thread::spawn(move || {
        // The raw call changes this thread alone, which ends after `act`.
        let uid = rustix::process::Uid::from_raw(STRANGER);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    })
}

#[test]
fn the_first_way_that_knows_our_own_connection_is_taken() {
    let witness = Witness::new();
    assert_eq!(witness.blindness(), None);
}

#[test]
fn our_own_connection_is_ours_over_ipv4_ipv6_and_mapped_addresses() {
    let everywhere = (Ipv6Addr::UNSPECIFIED, 0);
    let cases: [(&str, TcpListener, IpAddr); 3] = [
        ("v4", loopback_v4(), Ipv4Addr::LOCALHOST.into()),
        ("v6", TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap(), Ipv6Addr::LOCALHOST.into()),
        ("v4 on a v6 listener", TcpListener::bind(everywhere).unwrap(), Ipv4Addr::LOCALHOST.into()),
    ];
    for (way, witness) in witnesses() {
        for (name, listener, ip) in &cases {
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((*ip, port)).unwrap();
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(judge(&witness, &server, peer), Verdict::Ours, "{name} by {way}");
            drop(client);
        }
    }
}

#[test]
fn an_ipv6_socket_that_speaks_ipv4_is_found() {
    let listener = loopback_v4();
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let client = TcpStream::connect((mapped, listener.local_addr().unwrap().port())).unwrap();
    assert!(client.local_addr().unwrap().is_ipv6());
    let (server, peer) = listener.accept().unwrap();
    for (way, witness) in witnesses() {
        assert_eq!(judge(&witness, &server, peer), Verdict::Ours, "by {way}");
    }
}

#[test]
fn a_connection_that_its_owner_closes_is_not_ours() {
    for (way, witness) in witnesses() {
        for half in [false, true] {
            let listener = loopback_v4();
            let mut client = Some(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let (server, peer) = listener.accept().unwrap();
            if half {
                client.as_ref().unwrap().shutdown(std::net::Shutdown::Write).unwrap();
            } else {
                client = None;
            }
            assert!(!judge(&witness, &server, peer).is_ours(), "half closed: {half}, by {way}");
            drop(client);
        }
    }
}

#[test]
fn a_process_of_another_user_is_not_ours() {
    if !is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    for (way, witness) in witnesses() {
        let listener = loopback_v4();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r _ <&3");
        use std::os::unix::process::CommandExt;
        let child = Command::new("bash")
            .args(["-c", &script])
            .uid(STRANGER)
            .current_dir("/")
            .stdin(Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            println!("skipped: no bash to connect from another process");
            return;
        };
        let (server, peer) = listener.accept().unwrap();
        assert_eq!(judge(&witness, &server, peer), Verdict::NotOurs(Doubt::OtherUser(STRANGER)), "by {way}");
        drop(server);
        child.wait().unwrap();
    }
}

/// How a stranger's connection ends, directly after it was made.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Close,
    Reset,
    WriteAndClose,
    WriteAndReset,
    HalfClose,
}

fn storm(address: SocketAddr, ending: Ending, count: usize) {
    for _ in 0..count {
        let Ok(mut client) = TcpStream::connect(address) else { continue };
        if matches!(ending, Ending::WriteAndClose | Ending::WriteAndReset) {
            let _ = client.write_all(b"POST /mcp HTTP/1.1\r\n");
        }
        if matches!(ending, Ending::Reset | Ending::WriteAndReset) {
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        }
        if matches!(ending, Ending::HalfClose) {
            let _ = client.shutdown(std::net::Shutdown::Write);
        }
    }
}

#[test]
fn a_thousand_connections_of_another_user_that_close_at_once_are_never_ours() {
    if !is_root() {
        println!("skipped: only root can connect as another user");
        return;
    }
    let endings =
        [Ending::Close, Ending::Reset, Ending::WriteAndClose, Ending::WriteAndReset, Ending::HalfClose];
    // A reading of the tables walks through all that the kernel has room for, so fewer of them must do.
    for ((way, witness), count) in witnesses().into_iter().zip([1_000, 60]) {
        for ending in endings {
            let listener = loopback_v4();
            let address = listener.local_addr().unwrap();
            let clients = as_stranger(move || storm(address, ending, count));
            let mut open = 0;
            for _ in 0..count {
                let (server, peer) = listener.accept().unwrap();
                let verdict = judge(&witness, &server, peer);
                assert!(!verdict.is_ours(), "{ending:?} by {way}: {verdict:?}");
                open += usize::from(verdict == Verdict::NotOurs(Doubt::OtherUser(STRANGER)));
            }
            clients.join().unwrap();
            println!("{ending:?} by {way}: {open} of {count} were still open when asked");
        }
    }
}

#[test]
fn a_dead_connection_does_not_inherit_the_owner_of_the_next_one_with_its_addresses() {
    if !is_root() {
        println!("skipped: only root can connect as another user");
        return;
    }
    for (way, witness) in witnesses() {
        let listener = loopback_v4();
        let address = listener.local_addr().unwrap();
        // An address that nothing else on this machine connects from, so that the port is free for the second one.
        let quiet = SocketAddr::from(([127, 0, 0, 77], 0));
        let stranger = as_stranger(move || {
            let mut client = connect_from(quiet, address);
            client.write_all(b"POST /mcp HTTP/1.1\r\n").unwrap();
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            client.local_addr().unwrap()
        });
        let used = stranger.join().unwrap();
        let ours = connect_from(used, address);
        let (mut dead, peer) = listener.accept().unwrap();
        assert_eq!(peer, used);
        assert!(!judge(&witness, &dead, peer).is_ours(), "by {way}");
        let mut start = [0; 4];
        // What makes this matter: the dead connection's bytes can still be read.
        assert_eq!(dead.read(&mut start).ok(), Some(4));
        let (server, peer) = listener.accept().unwrap();
        assert_eq!(judge(&witness, &server, peer), Verdict::Ours, "by {way}");
        drop(ours);
    }
}

fn connect_from(local: SocketAddr, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &local).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    socket.into()
}

#[test]
fn an_address_beyond_loopback_is_not_asked_about() {
    let listener = loopback_v4();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let witness = Witness::new();
    let far: SocketAddr = "192.0.2.1:4000".parse().unwrap();
    assert_eq!(judge(&witness, &server, far), Verdict::NotOurs(Doubt::NotLoopback));
    drop(client);
}

#[test]
fn without_a_way_to_ask_nobody_is_ours() {
    let witness = Witness { uid: rustix::process::geteuid().as_raw(), way: Way::Blind("a test".to_owned()) };
    let (client, server) = own_connection().unwrap();
    assert_eq!(judge(&witness, &server, client.local_addr().unwrap()), Verdict::NotOurs(Doubt::Blind));
    assert_eq!(witness.blindness(), Some("a test"));
}

#[test]
fn one_open_established_socket_of_our_user_and_nothing_else_passes() {
    let here: SocketAddr = "127.0.0.1:1000".parse().unwrap();
    let good = Socket { local: here, remote: here, state: ESTABLISHED, uid: 0, inode: 7 };
    assert_eq!(belongs_to(0, &[good]), Ok(()));
    let cases: [(&[Socket], Doubt); 7] = [
        (&[], Doubt::Missing),
        (&[good, good], Doubt::Ambiguous),
        (&[Socket { inode: 0, ..good }], Doubt::Orphaned),
        (&[Socket { uid: 5, ..good }], Doubt::OtherUser(5)),
        (&[Socket { state: 6, inode: 0, ..good }], Doubt::Closing), // TIME_WAIT
        (&[Socket { state: 8, ..good }], Doubt::Closing),           // CLOSE_WAIT
        (&[Socket { state: 10, ..good }], Doubt::Closing),          // LISTEN
    ];
    for (found, doubt) in cases {
        assert_eq!(belongs_to(0, found), Err(doubt), "{found:?}");
    }
}

#[test]
fn the_tables_of_proc_are_read() {
    if !cfg!(target_endian = "little") {
        println!("skipped: the sample is from a little-endian machine");
        return;
    }
    let head =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
    let v4 = "   0: 0100007F:1F90 0100007F:0BB8 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0\n";
    let v6 = "   1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:0BB8 01 \
              00000000:00000000 00:00000000 00000000  1000        0 4712 1 0\n";
    let peer: SocketAddr = "127.0.0.1:8080".parse().unwrap();
    let local: SocketAddr = "127.0.0.1:3000".parse().unwrap();
    for (line, inode) in [(v4, 4711), (v6, 4712)] {
        let mut found = Vec::new();
        kernel::search_table(Cursor::new(format!("{head}{line}")), peer, local, &mut found).unwrap();
        assert_eq!(found, [Socket { local: peer, remote: local, state: 1, uid: 1000, inode }]);
        found.clear();
        kernel::search_table(Cursor::new(format!("{head}{line}")), local, peer, &mut found).unwrap();
        assert_eq!(found, []);
    }
    let torn = "   0: 0100007F:1F90 0100007F:0BB8 0";
    assert_eq!(kernel::search_table(Cursor::new(torn), peer, local, &mut Vec::new()), Err(Doubt::Unanswered));
}

#[test]
fn a_torn_datagram_or_an_answer_to_another_question_proves_nothing() {
    let error = |sequence: u32, errno: i32| {
        let mut bytes = Vec::new();
        bytes.extend(36_u32.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend((-errno).to_ne_bytes());
        bytes.extend([0; 16]);
        bytes
    };
    assert_eq!(kernel::read_datagram(&error(7, libc::ENOENT), 7), Ok(Some(Vec::new())));
    assert_eq!(kernel::read_datagram(&error(6, libc::ENOENT), 7), Ok(None));
    assert_eq!(kernel::read_datagram(&error(7, libc::EPERM), 7), Err(Doubt::Unanswered));
    assert_eq!(kernel::read_datagram(&error(7, libc::ENOENT)[..20], 7), Err(Doubt::Unanswered));
    assert_eq!(kernel::read_datagram(&[0; 16], 7), Err(Doubt::Unanswered));
}

#[test]
fn a_uid_that_stands_for_many_users_is_not_trusted() {
    assert!(kernel::maps_everyone("         0          0 4294967295\n"));
    assert!(!kernel::maps_everyone("         0     100000      65536\n"));
    assert!(!kernel::maps_everyone(""));
    assert!(kernel::uid_is_telling(1));
}

#[test]
fn tables_that_change_while_they_are_read_do_not_mislead() {
    let here: SocketAddr = "127.0.0.1:1000".parse().unwrap();
    let good = Socket { local: here, remote: here, state: ESTABLISHED, uid: 0, inode: 7 };
    let orphan = Socket { inode: 0, ..good };
    let other = Socket { inode: 8, ..good };
    type Reading = Vec<Socket>;
    let cases: [(Vec<Reading>, Result<(), Doubt>); 8] = [
        (vec![vec![good], vec![good]], Ok(())),
        (vec![vec![good, good], vec![good]], Ok(())),
        (vec![vec![], vec![good], vec![good]], Ok(())),
        (vec![vec![good], vec![], vec![good]], Ok(())),
        (vec![vec![], vec![]], Err(Doubt::Missing)),
        (vec![vec![good], vec![orphan]], Err(Doubt::Orphaned)),
        (vec![vec![orphan, orphan], vec![orphan, orphan]], Err(Doubt::Ambiguous)),
        (vec![vec![good, other], vec![good, other]], Err(Doubt::Ambiguous)),
    ];
    for (readings, expected) in cases {
        let mut rest = readings.clone().into_iter();
        assert_eq!(confirmed(0, || Ok(rest.next().unwrap())), expected, "{readings:?}");
    }
}

#[test]
fn asking_by_netlink_takes_microseconds() {
    const BATCHES: u32 = 40;
    const BATCH: u32 = 50;
    let (client, server) = own_connection().unwrap();
    let (local, peer) = (server.local_addr().unwrap(), client.local_addr().unwrap());
    let witness =
        Witness { uid: rustix::process::geteuid().as_raw(), way: Way::Netlink(kernel::Netlink::default()) };
    let batch = || {
        let start = Instant::now();
        for _ in 0..BATCH {
            assert_eq!(witness.ask(&server, local, peer), Verdict::Ours);
        }
        start.elapsed() / BATCH
    };
    let best = (0..BATCHES).map(|_| batch()).min().unwrap();
    println!("asking by netlink: {best:?}");
    // Many times what it takes, so that a busy machine does not fail it; a walk through all sockets would.
    assert!(best < Duration::from_micros(500), "{best:?}");
}
