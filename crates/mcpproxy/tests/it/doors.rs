//! Who gets in: the names that are called, the pages that call, the keys, the socket, and other users of the machine.

use std::net::Shutdown;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use serde_json::{Value, json};
use testkit::client::{Endpoint, POST, over_socket};
use testkit::script::text_result;
use testkit::{Action, Gateway, Home, Reply};

use crate::common::{home, home_with_text, is_root, wait_for};

/// Every kind of route: tools, open, with the key, and one that does not exist.
const ROUTES: [&str; 6] = ["/mcp", "/mcp/call", "/healthz", "/readyz", "/api/v1/status", "/nope"];
/// A user that is not the one that runs the gateway.
const STRANGER: u32 = 65534;

fn ask(endpoint: &Endpoint, route: &str, headers: &[(&str, &str)]) -> Reply {
    if !route.starts_with("/mcp") {
        return endpoint.http("GET", route, headers, b"");
    }
    let all: Vec<_> = POST.iter().chain(headers).copied().collect();
    endpoint.http("POST", route, &all, br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
}

fn with_key(gateway: &Gateway, home: &Home) -> Endpoint {
    gateway.endpoint().with("x-api-key", &home.api_key())
}

fn expected(route: &str) -> u16 {
    if route == "/nope" { 404 } else { 200 }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn socket_of(home: &Home) -> std::path::PathBuf {
    let run: Value = serde_json::from_slice(&std::fs::read(home.data().join("run.json")).unwrap()).unwrap();
    run["socket"].as_str().unwrap().into()
}

#[test]
fn a_foreign_host_or_origin_is_refused_on_every_route_with_the_line_to_add() {
    let home = home_with_text();
    let gateway = home.serve();
    let endpoint = with_key(&gateway, &home);
    let port = endpoint.address.rsplit(':').next().unwrap().to_owned();
    for route in ROUTES {
        for evil in
            ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1.evil.example".into()]
        {
            let host = ask(&endpoint, route, &[("host", &evil)]);
            let origin = ask(&endpoint, route, &[("origin", &format!("http://{evil}"))]);
            for (what, reply) in [("Host", host), ("Origin", origin)] {
                assert_eq!(reply.status, 403, "{route} {what} {evil}: {}", reply.text());
                let name = evil.split(':').next().unwrap();
                let line = format!(r#""trusted_hosts": ["{name}"]"#);
                assert!(reply.text().replace(r#"\""#, "\"").contains(&line), "{}", reply.text());
            }
        }
        for origin in ["null", "file://", "chrome-extension://abc", "http://"] {
            assert_eq!(ask(&endpoint, route, &[("origin", origin)]).status, 403, "{route} {origin}");
        }
        let two = [("host", endpoint.address.as_str()), ("host", "evil.example")];
        assert!((400..404).contains(&ask(&endpoint, route, &two).status), "two names on {route}");
    }
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn the_names_of_this_machine_pass_on_every_route() {
    let home = home_with_text();
    let gateway = home.serve();
    let endpoint = with_key(&gateway, &home);
    let port = endpoint.address.rsplit(':').next().unwrap().to_owned();
    for route in ROUTES {
        for name in ["localhost", "127.0.0.1", "[::1]"] {
            for host in [name.to_owned(), format!("{name}:{port}")] {
                assert_eq!(
                    ask(&endpoint, route, &[("host", &host)]).status,
                    expected(route),
                    "{route} {host}"
                );
                let origin = format!("http://{host}");
                assert_eq!(
                    ask(&endpoint, route, &[("origin", &origin)]).status,
                    expected(route),
                    "{route} {origin}"
                );
            }
        }
    }
}

#[test]
fn trusted_hosts_pass_and_others_still_do_not() {
    let home = home_with_text().set("trusted_hosts", json!(["gateway.example", ".corp.example"]));
    let gateway = home.serve();
    let endpoint = with_key(&gateway, &home);
    for route in ROUTES {
        for good in ["gateway.example", "gateway.example:8080", "a.corp.example"] {
            assert_eq!(ask(&endpoint, route, &[("host", good)]).status, expected(route), "{route} {good}");
            let origin = format!("https://{good}");
            assert_eq!(
                ask(&endpoint, route, &[("origin", &origin)]).status,
                expected(route),
                "{route} {origin}"
            );
        }
        for evil in ["evil.example", "xgateway.example", "gateway.example.evil.example", "corp.example.evil"]
        {
            assert_eq!(ask(&endpoint, route, &[("host", evil)]).status, 403, "{route} {evil}");
        }
    }
}

#[test]
fn no_page_of_another_origin_is_ever_allowed_to_read_an_answer() {
    let home = home_with_text();
    let gateway = home.serve();
    let endpoint = with_key(&gateway, &home);
    for route in ROUTES {
        for origin in ["http://localhost", "http://evil.example"] {
            let preflight = [("origin", origin), ("access-control-request-method", "POST")];
            for reply in [
                ask(&endpoint, route, &[("origin", origin)]),
                endpoint.http("OPTIONS", route, &preflight, b""),
            ] {
                assert!(
                    !reply.head.to_ascii_lowercase().contains("access-control-"),
                    "{route}: {}",
                    reply.head
                );
            }
        }
    }
}

#[test]
fn the_api_needs_the_right_key_in_a_header() {
    let home = home_with_text().arg("--log-level").arg("debug");
    let gateway = home.serve();
    let (endpoint, key) = (gateway.endpoint(), home.api_key());
    let status = |headers: &[(&str, &str)]| ask(&endpoint, "/api/v1/status", headers);
    let none = status(&[]);
    assert_eq!(none.status, 401);
    assert!(
        none.text().contains("X-API-Key") && none.text().contains("status --show-key"),
        "{}",
        none.text()
    );
    let bearer = format!("Bearer {key}");
    assert_eq!(status(&[("x-api-key", &key)]).status, 200);
    assert_eq!(status(&[("authorization", &bearer)]).status, 200);
    let longer = format!("{key}0");
    for wrong in ["x", "", &key[1..], &longer, &key.to_uppercase()] {
        for route in ["/api/v1/status", "/mcp"] {
            assert_eq!(ask(&endpoint, route, &[("x-api-key", wrong)]).status, 401, "{route} {wrong}");
            let bearer = format!("Bearer {wrong}");
            assert_eq!(ask(&endpoint, route, &[("authorization", &bearer)]).status, 401, "{route} {bearer}");
        }
    }
    for name in ["apikey", "api_key", "x-api-key", "API%4bey"] {
        for route in ["/api/v1/status", "/mcp"] {
            let reply = ask(&endpoint, &format!("{route}?{name}={key}"), &[]);
            assert_eq!(reply.status, 401, "{route}?{name}");
            assert!(!reply.text().contains(&key) && reply.text().contains("header"), "{}", reply.text());
        }
    }
    assert!(!gateway.log().contains(&key), "the key is in the log");
}

#[test]
fn the_local_caller_needs_no_key_for_tools_and_a_wrong_one_is_refused() {
    let home = home_with_text();
    let gateway = home.serve();
    assert!(!gateway.call("srv:tool").send().is_error());
    let wrong = gateway.endpoint().with("authorization", "Bearer wrong");
    let params = gateway.call("srv:tool").params();
    assert_eq!(wrong.rpc("tools/call", &params).status, 401);
    let agent = gateway.endpoint().with("authorization", "Bearer mcp_agt_0123456789");
    assert_eq!(agent.rpc("tools/call", &params).status, 401);
    assert_eq!(home.calls("srv"), 1);
}

#[test]
fn the_key_comes_from_the_environment_then_from_the_file_then_is_made() {
    let (first, second) = ("e".repeat(32), "f".repeat(32));
    let home = home_with_text().set("api_key", second.as_str());
    let gateway = home.serve();
    assert_eq!(ask(&gateway.endpoint(), "/api/v1/status", &[("x-api-key", &second)]).status, 200);
    drop(gateway);
    let home = home.env("MCPPROXY_API_KEY", &first);
    let gateway = home.serve();
    assert_eq!(ask(&gateway.endpoint(), "/api/v1/status", &[("x-api-key", &first)]).status, 200);
    assert_eq!(ask(&gateway.endpoint(), "/api/v1/status", &[("x-api-key", &second)]).status, 401);
    assert!(!gateway.log().contains(&first) && !gateway.log().contains(&second));
}

#[test]
fn what_the_gateway_keeps_is_closed_to_other_users_and_the_key_is_in_one_file_only() {
    let home = home_with_text().arg("--log-level").arg("trace");
    let gateway = home.serve();
    gateway.call("srv:tool").save(home.at("root/x")).send().envelope();
    gateway.call("srv:tool").save("/etc/x").send().refusal();
    let (data, key) = (home.data(), home.api_key());
    assert!(key.len() >= 32, "a key of {} characters", key.len());
    assert_eq!(mode(&data), 0o700);
    for name in ["api_key", "run.json"] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&socket_of(&home)), 0o600);
    let mut waiting = vec![data.clone()];
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let about = std::fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            assert_eq!(mode(&path), 0o700, "{}", path.display());
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else if about.is_file() && path != data.join("api_key") {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(key.len()).any(|w| w == key.as_bytes());
            assert!(!found, "the key is in {}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 2, "only {seen} files were looked at");
    assert!(!gateway.log().is_empty() && !gateway.log().contains(&key));
}

#[test]
fn the_unix_socket_of_our_own_user_needs_no_key_for_anything() {
    for required in [false, true] {
        let home = home_with_text().set("require_mcp_auth", required);
        let gateway = home.serve();
        let socket = socket_of(&home);
        let status = over_socket(&socket, "GET", "/api/v1/status", &[], b"");
        assert_eq!(status.status, 200, "{}", status.text());
        let params = gateway.call("srv:tool").save(home.at("root/x")).params();
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let saved = over_socket(&socket, "POST", "/mcp", &POST, body.as_bytes());
        assert_eq!(saved.envelope()["bytes"], 5);
        assert_eq!(home.events("tool_call", 1)[0]["caller"], "socket");
        let evil = over_socket(&socket, "GET", "/api/v1/status", &[("host", "evil.example")], b"");
        assert_eq!(evil.status, 403);
        assert_eq!(over_socket(&socket, "GET", "/api/v1/status", &[("x-api-key", "wrong")], b"").status, 401);
        drop(gateway);
        assert!(!socket.exists(), "the socket is left behind");
    }
}

#[test]
fn without_a_socket_the_key_is_the_only_way_to_the_api() {
    let home = home_with_text().set("enable_socket", false);
    let gateway = home.serve();
    assert!(!home.data().join("mcpproxy.sock").exists());
    assert_eq!(ask(&gateway.endpoint(), "/api/v1/status", &[]).status, 401);
    assert_eq!(home.run(&["status", "-o", "json"]).code, 0, "the command line sends the key");
    assert!(!home.run(&["call", "tool-read", "--tool-name", "srv:tool"]).stdout.is_empty());
}

#[test]
fn with_require_mcp_auth_the_local_caller_needs_the_key_too() {
    for home in [home_with_text().set("require_mcp_auth", true), home_with_text().arg("--require-mcp-auth")] {
        let gateway = home.serve();
        let params = gateway.call("srv:tool").params();
        let refused = gateway.endpoint().rpc("tools/call", &params);
        assert_eq!(refused.status, 401);
        assert!(refused.text().contains("X-API-Key"), "{}", refused.text());
        assert_eq!(home.calls("srv"), 0);
        assert!(!with_key(&gateway, &home).rpc("tools/call", &params).is_error());
        assert_eq!(home.events("tool_call", 1)[0]["caller"], "api_key");
        assert_eq!(ask(&gateway.endpoint(), "/healthz", &[]).status, 200);
    }
}

/// Runs `act` on a thread whose sockets belong to another user; the raw call changes that thread alone.
fn as_stranger<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(STRANGER);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        stranger.join().unwrap()
    })
}

#[test]
fn another_user_is_told_what_to_send_and_gets_in_with_the_key_only() {
    if !is_root("a connection of another user") {
        return;
    }
    let home = home_with_text();
    let gateway = home.serve();
    let (endpoint, keyed) = (gateway.endpoint(), with_key(&gateway, &home));
    let params = gateway.call("srv:tool").params();
    let (refused, health, let_in) = as_stranger(|| {
        (
            endpoint.rpc("tools/call", &params),
            ask(&endpoint, "/healthz", &[]),
            keyed.rpc("tools/call", &params),
        )
    });
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("X-API-Key"), "{}", refused.text());
    assert_eq!(health.status, 200);
    assert!(!let_in.is_error());
    assert_eq!(home.calls("srv"), 1);
    assert_eq!(home.events("tool_call", 1)[0]["caller"], "api_key");
}

#[test]
fn the_socket_turns_other_users_away_even_where_they_can_reach_it() {
    if !is_root("a connection of another user") {
        return;
    }
    let home = home_with_text();
    let _gateway = home.serve();
    let socket = socket_of(&home);
    for (path, open) in [(home.path(), 0o755), (&home.data(), 0o755), (&socket, 0o777)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(open)).unwrap();
    }
    let answered = as_stranger(|| {
        std::panic::catch_unwind(|| over_socket(&socket, "GET", "/api/v1/status", &[], b"").status)
    });
    assert!(!matches!(answered, Ok(200)), "{answered:?}");
}

/// How a connection of the stranger ends, directly after its request was written.
const ENDINGS: [&str; 4] = ["close", "reset", "half", "write nothing"];

#[test]
fn a_thousand_connections_of_another_user_that_close_at_once_are_never_the_local_caller() {
    if !is_root("a connection of another user") {
        return;
    }
    let home = home(Action::Result(text_result("hello")));
    let gateway = home.serve();
    let (endpoint, params) = (gateway.endpoint(), gateway.call("srv:tool").params());
    // The very same bytes are a call when they are ours, so the count below can move.
    let ours = endpoint.send_only(&params);
    wait_for(|| (home.calls("srv") > 0).then_some(()));
    drop(ours);
    wait_for(|| (home.activity(&["--type", "tool_call"]).len() == home.calls("srv")).then_some(()));
    let (calls, rows) = (home.calls("srv"), home.activity(&["--type", "tool_call"]).len());
    std::thread::scope(|scope| {
        for lane in 0..8_usize {
            let (endpoint, params) = (&endpoint, &params);
            scope.spawn(move || {
                as_stranger(|| (0..125).for_each(|n| leave(endpoint, params, ENDINGS[(lane + n) % 4])));
            });
        }
    });
    assert!(!gateway.call("srv:tool").send().is_error(), "the local caller still gets in");
    wait_for(|| (home.activity(&["--type", "tool_call"]).len() > rows).then_some(()));
    assert_eq!(home.calls("srv"), calls + 1, "a stranger's call was run");
    assert_eq!(
        home.activity(&["--type", "tool_call", "-n", "1000"]).len(),
        rows + 1,
        "a stranger's call has a row"
    );
}

fn leave(endpoint: &Endpoint, params: &str, ending: &str) {
    if ending == "write nothing" {
        drop(std::net::TcpStream::connect(&endpoint.address).unwrap());
        return;
    }
    let stream = endpoint.send_only(params);
    match ending {
        "reset" => rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap(),
        // The other side may have closed already.
        "half" => drop(stream.shutdown(Shutdown::Write)),
        _ => {}
    }
}

#[test]
fn a_second_gateway_on_the_same_data_directory_ends_with_3_and_names_the_first() {
    let home = home_with_text();
    let gateway = home.serve();
    let second = home.serve_to_its_end();
    assert_eq!(second.code, 3, "{}", second.stderr);
    assert!(second.stderr.contains(&gateway.pid().to_string()), "{}", second.stderr);
    assert!(second.stderr.contains("--data-dir"), "{}", second.stderr);
    assert!(!gateway.call("srv:tool").send().is_error(), "the first one goes on");
}

#[test]
fn a_taken_port_ends_the_start_with_2_and_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let home = testkit::home!().set("listen", address.to_string());
    let output = home.serve_to_its_end();
    assert_eq!(output.code, 2, "{}", output.stderr);
    let port = address.port().to_string();
    assert!(output.stderr.contains(&port) && output.stderr.contains("--listen"), "{}", output.stderr);
}

#[test]
fn a_configuration_that_is_not_in_order_ends_the_start_with_4_and_tells_every_place_and_remedy() {
    let home = testkit::home!()
        .set("tool_output_max_bytes", -1)
        .set("call_tool_timeout", "soon")
        .set("tool_output_roots", json!(["relative/root"]))
        .server(json!({"name": "nothing"}), json!({}));
    let output = home.serve_to_its_end();
    assert_eq!(output.code, 4, "{}", output.stderr);
    for place in ["tool_output_max_bytes", "call_tool_timeout", "tool_output_roots", "mcpServers[0]"] {
        assert!(output.stderr.contains(&format!("$.{place}")), "{place}: {}", output.stderr);
    }
    let one = testkit::home!().set("tool_output_max_bytes", -1).serve_to_its_end();
    assert!(one.stderr.contains("; write a whole number of at least 0"), "the fix: {}", one.stderr);
}

#[test]
fn what_asks_for_a_protection_that_is_not_there_yet_ends_the_start() {
    for (key, value) in [
        ("quarantine_enabled", json!(true)),
        ("forward_headers", json!(["X-Team"])),
        ("profiles", json!([{"name": "work", "servers": []}])),
    ] {
        let output = testkit::home!().set(key, value).serve_to_its_end();
        assert_eq!(output.code, 4, "{key}: {}", output.stderr);
        assert!(output.stderr.contains(&format!("$.{key}")), "{}", output.stderr);
        assert!(output.stderr.contains("not in this version yet"), "{}", output.stderr);
    }
}

#[test]
fn text_that_is_no_json_names_line_and_file() {
    let home = testkit::home!();
    let file = home.at("broken.json");
    std::fs::write(&file, "{\n  \"listen\": \"127.0.0.1:0\",\n  oops\n}").unwrap();
    let mut command = home.command();
    command.args(["serve", "--config"]).arg(&file);
    let output = testkit::home::finish_within(command, std::time::Duration::from_secs(30));
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("line 3") && output.stderr.contains("broken.json"), "{}", output.stderr);
}

#[test]
fn a_configuration_in_another_users_hands_is_refused_unless_that_user_is_named() {
    if !is_root("a file of another user") {
        return;
    }
    for whole_directory in [false, true] {
        let home = home_with_text();
        home.write_config();
        let foreign = if whole_directory { home.path().to_owned() } else { home.config_file() };
        chown(&foreign, Some(STRANGER), None).unwrap();
        let output = home.serve_to_its_end();
        assert_eq!(output.code, 4, "{}", output.stderr);
        assert!(output.stderr.contains("--config-owner 65534"), "{}", output.stderr);
        assert!(output.stderr.contains(foreign.to_str().unwrap()), "{}", output.stderr);
        assert!(home.lines("srv", "pids").is_empty(), "its command was run");
        let by_variable = home_with_text().env("MCPPROXY_CONFIG_OWNER", "65534");
        by_variable.write_config();
        chown(by_variable.config_file(), Some(STRANGER), None).unwrap();
        drop(by_variable.serve());
        let home = home.arg("--config-owner").arg("65534");
        // A directory of another user on the way to a root is another matter, so no root is used here.
        let home = home.set("tool_output_roots", json!([]));
        let gateway = home.serve();
        assert!(!gateway.call("srv:tool").send().is_error());
    }
}

#[test]
fn a_configuration_that_everyone_can_change_is_refused() {
    let home = home_with_text();
    home.write_config();
    std::fs::set_permissions(home.config_file(), PermissionsExt::from_mode(0o666)).unwrap();
    let output = home.serve_to_its_end();
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("chmod o-w"), "{}", output.stderr);
}

#[test]
fn listening_beyond_loopback_needs_require_mcp_auth() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        for home in [testkit::home!().set("listen", address), testkit::home!().arg("--listen").arg(address)] {
            let output = home.serve_to_its_end();
            assert_eq!(output.code, 4, "{address}: {}", output.stderr);
            assert!(output.stderr.contains("require_mcp_auth"), "{}", output.stderr);
        }
    }
}

#[test]
fn an_empty_host_is_loopback() {
    let home = testkit::home!().set("listen", ":0");
    let gateway = home.serve();
    assert!(gateway.endpoint().address.starts_with("127.0.0.1:"), "{}", gateway.endpoint().address);
}
