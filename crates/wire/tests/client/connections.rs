//! Connections over HTTP: kept, used again, closed by the other side, and what goes with every request.

use std::time::{Duration, Instant};

use wire::client::{CallError, Client, HttpOptions};

use crate::common::{IdAt, MIB, answer, call, place, raw};
use crate::http::{Exchange, JSON, Server, read_request, ready, spawn};

/// Answers, and leaves the connection open.
async fn answer_and_keep(exchange: &mut Exchange) {
    let body = answer(IdAt::Last, &exchange.id(), "{}");
    let head = format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: {}\r\n\r\n{body}", body.len());
    exchange.write(head.as_bytes()).await;
}

#[tokio::test]
async fn connections_are_used_again() {
    let (_place, mut server, client) = ready(MIB).await;
    let mut seen = Vec::new();
    for events in [false, true, false, true] {
        let task = spawn(&client, call(20));
        let mut exchange = server.expect("tools/call").await;
        seen.push(exchange.connection);
        let body = answer(IdAt::Last, &exchange.id(), "{}");
        if events {
            exchange.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            let event = format!("data: {body}\n\n");
            exchange.write(format!("{:x}\r\n{event}\r\n0\r\n\r\n", event.len()).as_bytes()).await;
        } else {
            let head = format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: {}\r\n\r\n{body}", body.len());
            exchange.write(head.as_bytes()).await;
        }
        assert!(task.await.unwrap().is_ok());
        tokio::time::sleep(Duration::from_millis(100)).await;
        tokio::spawn(read_request(exchange.stream, exchange.connection, server.again.clone()));
    }
    assert!(seen.iter().all(|connection| *connection == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn a_connection_that_the_server_closed_meanwhile_is_not_used_and_the_call_is_sent_once() {
    let (_place, mut server, client) = ready(MIB).await;
    for _ in 0..5 {
        let task = spawn(&client, call(20));
        let mut exchange = server.expect("tools/call").await;
        answer_and_keep(&mut exchange).await;
        assert!(task.await.unwrap().is_ok());
        // Closed, and nothing was said of it before.
        drop(exchange);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.nothing_for(200).await;
}

#[tokio::test]
async fn a_call_on_a_kept_connection_that_breaks_before_the_answer_is_not_sent_again() {
    let (_place, mut server, client) = ready(MIB).await;
    let task = spawn(&client, call(20));
    let mut exchange = server.expect("tools/call").await;
    answer_and_keep(&mut exchange).await;
    assert!(task.await.unwrap().is_ok());
    let connection = exchange.connection;
    tokio::spawn(read_request(exchange.stream, connection, server.again.clone()));
    let task = spawn(&client, call(20));
    let exchange = server.expect("tools/call").await;
    assert_eq!(exchange.connection, connection, "the kept one was used");
    drop(exchange);
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Gone(_)), "the server may have run it: {error}");
    server.nothing_for(200).await;
}

#[tokio::test]
async fn an_answer_is_given_before_its_stream_ends_and_the_next_call_does_not_wait_for_that() {
    let (_place, mut server, client) = ready(MIB).await;
    let begun = Instant::now();
    let task = spawn(&client, call(20));
    let mut first = server.expect("tools/call").await;
    let body = answer(IdAt::Last, &first.id(), "{}");
    first.stream().await;
    first.event(&body).await;
    assert!(task.await.unwrap().is_ok(), "the stream is still open");
    let task = spawn(&client, call(20));
    let mut second = server.expect("tools/call").await;
    assert_ne!(second.connection, first.connection);
    answer_and_keep(&mut second).await;
    assert!(task.await.unwrap().is_ok());
    assert!(begun.elapsed() < Duration::from_secs(15), "neither waited for a time-out");
}

#[tokio::test]
async fn calls_at_the_same_time_have_connections_of_their_own_and_all_are_kept() {
    let (_place, mut server, client) = ready(MIB).await;
    let mut before = Vec::new();
    for round in 0..2 {
        let tasks: Vec<_> = (0..8).map(|_| spawn(&client, call(20))).collect();
        let mut exchanges = Vec::new();
        for _ in 0..8 {
            exchanges.push(server.expect("tools/call").await);
        }
        let mut connections: Vec<usize> = exchanges.iter().map(|exchange| exchange.connection).collect();
        connections.sort_unstable();
        for mut exchange in exchanges {
            answer_and_keep(&mut exchange).await;
            tokio::spawn(read_request(exchange.stream, exchange.connection, server.again.clone()));
        }
        for task in tasks {
            assert!(task.await.unwrap().is_ok());
        }
        if round == 1 {
            assert_eq!(connections, before);
        }
        before = connections;
    }
    before.dedup();
    assert_eq!(before.len(), 8);
}

#[tokio::test]
async fn the_host_and_the_credentials_of_the_url_go_with_every_request() {
    let place = place(1 << 30);
    let own = ("Authorization".to_owned(), "Bearer mine".to_owned());
    // user:p%40ss is user:p@ss.
    for (headers, expected) in [(Vec::new(), "Basic dXNlcjpwQHNz"), (vec![own], "Bearer mine")] {
        let mut server = Server::start().await;
        let address = server.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let client = Client::http(HttpOptions {
            name: "srv".into(),
            client_version: String::new(),
            url: format!("http://user:p%40ss@{address}/a/b?c=d#e"),
            headers,
            max_message_bytes: 1000,
            spools: place.spools.clone(),
            socket: None,
        })
        .unwrap();
        let task = tokio::spawn(async move { client.initialize(Duration::from_secs(20)).await });
        let exchange = server.expect("initialize").await;
        assert_eq!(exchange.headers["host"], address);
        assert_eq!(exchange.headers["authorization"], expected);
        assert_eq!(exchange.target, "/a/b?c=d");
        exchange.respond("403 Forbidden", "", "no").await;
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Http { status: 403, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_notification_is_taken_when_the_server_says_so_whatever_it_sends_behind_that() {
    let (_place, mut server, client) = ready(MIB).await;
    for empty in [false, true] {
        let begun = Instant::now();
        let notify = {
            let client = client.clone();
            tokio::spawn(async move { client.notify("notifications/x", raw("{}")).await })
        };
        let mut exchange = server.expect("notifications/x").await;
        if empty {
            exchange.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await;
        } else {
            // A stream that stays open.
            exchange.stream().await;
        }
        notify.await.unwrap().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(8), "no time-out was waited for");
        if empty {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let connection = exchange.connection;
            tokio::spawn(read_request(exchange.stream, connection, server.again.clone()));
            let task = spawn(&client, call(20));
            let mut exchange = server.expect("tools/call").await;
            assert_eq!(exchange.connection, connection, "it is used again");
            answer_and_keep(&mut exchange).await;
            assert!(task.await.unwrap().is_ok());
        }
    }
}
