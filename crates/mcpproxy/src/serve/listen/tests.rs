//! Doors, seats and ends of connections.

use std::time::Instant;

use axum::Extension;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

struct Running {
    address: SocketAddr,
    end: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let listener = bind("", 0, false).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route(
            "/facts",
            get(|Extension(facts): Extension<ConnectionFacts>| async move { format!("{facts:?}") }),
        )
        .route("/slow", get(|| async { sleep(Duration::from_millis(300)).await }))
        .route("/never", get(|| async { std::future::pending::<()>().await }));
    let end = CancellationToken::new();
    let doors = Doors { tcp: vec![listener], unix: None };
    let task = tokio::spawn(serve(doors, router, Arc::new(Witness::new()), limits, end.clone()));
    Running { address, end, task }
}

async fn send(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn read(mut stream: impl AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut text)).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_request_carries_what_is_known_of_its_connection() {
    let running = start(Limits::default()).await;
    let stream = send(running.address, "/facts").await;
    let peer = stream.local_addr().unwrap();
    let answer = read(stream).await;
    let facts = ConnectionFacts::Tcp { local: running.address, peer, owner: Verdict::Ours };
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(&format!("{facts:?}")), "{answer}");
    running.end.cancel();
    running.task.await.unwrap();
}

#[tokio::test]
async fn the_unix_socket_tells_the_uid_of_its_peer() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let unix = Some(UnixListener::bind(&path).unwrap());
    let router = Router::new().route(
        "/facts",
        get(|Extension(facts): Extension<ConnectionFacts>| async move { format!("{facts:?}") }),
    );
    let end = CancellationToken::new();
    let doors = Doors { tcp: Vec::new(), unix };
    let task = tokio::spawn(serve(doors, router, Arc::new(Witness::new()), Limits::default(), end.clone()));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"GET /facts HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let answer = read(stream).await;
    assert!(answer.ends_with(&format!("{:?}", ConnectionFacts::Socket { uid })), "{answer}");
    end.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn the_unix_socket_turns_other_users_away() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can connect as another user");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let unix = Some(UnixListener::bind(&path).unwrap());
    for open in [home.path(), path.as_path()] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(open, mode).unwrap();
    }
    let end = CancellationToken::new();
    let doors = Doors { tcp: Vec::new(), unix };
    let task =
        tokio::spawn(serve(doors, Router::new(), Arc::new(Witness::new()), Limits::default(), end.clone()));
    let client = std::thread::spawn(move || {
        let uid = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let _ = io::Write::write_all(
            &mut stream,
            b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        );
        let mut answer = Vec::new();
        let _ = io::Read::read_to_end(&mut stream, &mut answer);
        answer
    });
    assert_eq!(tokio::task::spawn_blocking(|| client.join().unwrap()).await.unwrap(), b"");
    end.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn over_the_limit_one_is_told_to_come_back_and_a_seat_that_is_left_is_given_again() {
    let running = start(Limits { own: 2, strangers: 2, ..Limits::default() }).await;
    let held = [send(running.address, "/never").await, send(running.address, "/never").await];
    sleep(Duration::from_millis(100)).await;
    let turned_away = read(TcpStream::connect(running.address).await.unwrap()).await;
    assert!(turned_away.starts_with("HTTP/1.1 503"), "{turned_away}");
    let (_, body) = turned_away.split_once("\r\n\r\n").unwrap();
    assert!(turned_away.contains(&format!("content-length: {}\r\n", body.len())));
    drop(held);
    sleep(Duration::from_millis(100)).await;
    assert!(read(send(running.address, "/facts").await).await.starts_with("HTTP/1.1 200"));
    running.end.cancel();
    running.task.await.unwrap();
}

#[tokio::test]
async fn a_caller_that_never_finishes_its_request_head_is_let_go() {
    let running = start(Limits { head_timeout: Duration::from_millis(200), ..Limits::default() }).await;
    for start in ["", "GET /facts HTTP/1.1\r\nhost: lo"] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let before = Instant::now();
        read(stream).await;
        assert!(before.elapsed() < Duration::from_secs(5), "{start:?}");
    }
    running.end.cancel();
    running.task.await.unwrap();
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let running = start(Limits::default()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let _ = stream.write_all(format!("GET /facts HTTP/1.1\r\nx: {}", "a".repeat(1 << 20)).as_bytes()).await;
    let answer = read(stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    running.end.cancel();
    running.task.await.unwrap();
}

#[tokio::test]
async fn at_the_end_a_request_in_flight_gets_its_answer_and_nobody_new_comes_in() {
    let running = start(Limits::default()).await;
    let slow = send(running.address, "/slow").await;
    let idle = TcpStream::connect(running.address).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    running.end.cancel();
    assert!(read(slow).await.starts_with("HTTP/1.1 200"));
    timeout(Duration::from_secs(5), running.task).await.unwrap().unwrap();
    drop(idle);
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut_off_after_the_grace() {
    let running = start(Limits { grace: Duration::from_millis(200), ..Limits::default() }).await;
    let stuck = send(running.address, "/never").await;
    sleep(Duration::from_millis(100)).await;
    running.end.cancel();
    timeout(Duration::from_secs(5), running.task).await.unwrap().unwrap();
    assert_eq!(read(stuck).await, "");
}

#[tokio::test]
async fn a_taken_port_is_told_apart_from_other_errors() {
    let first = bind("localhost", 0, false).await.unwrap();
    let address = first.local_addr().unwrap();
    assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
    let error = bind("127.0.0.1", address.port(), false).await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains(&address.port().to_string()), "{error}");
    let error = bind("192.0.2.1", 0, true).await.unwrap_err();
    assert_eq!(error.exit_code(), exit::GENERAL, "{error}");
    let error = bind("no such host", 0, false).await.unwrap_err();
    assert_eq!(error.exit_code(), exit::CONFIG, "{error}");
}

#[tokio::test]
async fn beyond_loopback_only_with_a_key_for_everyone() {
    for host in ["0.0.0.0", "::", "[::]", "192.0.2.1"] {
        let error = bind(host, 0, false).await.unwrap_err();
        assert!(matches!(error, BindError::Exposed { .. }), "{host}: {error}");
        assert_eq!(error.exit_code(), exit::CONFIG);
    }
    bind("0.0.0.0", 0, true).await.unwrap();
    bind("[::1]", 0, false).await.unwrap();
}

/// Sends whole requests as another user, and ends each connection in one of three ways.
fn storm(address: SocketAddr, count: usize) {
    let uid = rustix::process::Uid::from_raw(65534);
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    let request = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for turn in 0..count {
        let Ok(mut stream) = std::net::TcpStream::connect(address) else { continue };
        let _ = io::Write::write_all(&mut stream, request);
        match turn % 3 {
            0 => {}
            1 => rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
            _ => {
                let mut answer = Vec::new();
                let _ = io::Read::read_to_end(&mut stream, &mut answer);
                assert!(answer.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&answer));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_of_a_thousand_connections_of_another_user_gets_through_the_guard() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::daemon::apikey::ApiKey;
    use crate::serve::guard::{Guard, Rules, TrustedHosts};

    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can connect as another user");
        return;
    }
    let key = ApiKey::find(Some("k-e-y"), None, std::path::Path::new("/nowhere")).unwrap().unwrap();
    let guard = Guard::new(Rules { key, trusted_hosts: TrustedHosts::default(), require_mcp_auth: false });
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let count = move || async move {
        counter.fetch_add(1, Ordering::SeqCst);
    };
    let router = guard.protect(Router::new().route("/mcp", axum::routing::post(count)));
    let listener = bind("", 0, false).await.unwrap();
    let address = listener.local_addr().unwrap();
    let end = CancellationToken::new();
    let doors = Doors { tcp: vec![listener], unix: None };
    let task = tokio::spawn(serve(doors, router, Arc::new(Witness::new()), Limits::default(), end.clone()));
    // A plain thread: its user must not go back into a pool.
    let (done, finished) = tokio::sync::oneshot::channel();
    let client = std::thread::spawn(move || {
        storm(address, 1_000);
        let _ = done.send(());
    });
    finished.await.unwrap();
    client.join().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let mut ours = TcpStream::connect(address).await.unwrap();
    ours.write_all(
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    )
    .await
    .unwrap();
    assert!(read(ours).await.starts_with("HTTP/1.1 200"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    end.cancel();
    task.await.unwrap();
}
