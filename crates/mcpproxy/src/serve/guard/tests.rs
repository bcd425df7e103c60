//! Names, keys and routes, case by case.

use std::net::SocketAddr;

use axum::body::Body;
use axum::routing::get;
use http::Method;
use tower::ServiceExt;

use super::*;
use crate::serve::caller::{Doubt, Verdict};

const OURS: Verdict = Verdict::Ours;
const NOT_OURS: Verdict = Verdict::NotOurs(Doubt::OtherUser(1234));

fn key_text() -> String {
    ["sesame", "open", "42"].join("-")
}

fn rules(require_mcp_auth: bool) -> Rules {
    let key = ApiKey::find(Some(&key_text()), None, std::path::Path::new("/nowhere")).unwrap().unwrap();
    Rules { key, trusted_hosts: TrustedHosts::parse(&["mcp.example.com"]), require_mcp_auth }
}

fn tcp(owner: Verdict) -> ConnectionFacts {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    ConnectionFacts::Tcp { local: address(8080), peer: address(4000), owner }
}

const SOCKET: ConnectionFacts = ConnectionFacts::Socket { uid: 1 };

/// A request as it stands on the wire: target and header lines beside `Host: localhost:8080`.
fn ask(
    rules: &Rules,
    facts: ConnectionFacts,
    target: &str,
    headers: &[(&str, &str)],
) -> Result<Caller, Refusal> {
    let mut map = HeaderMap::new();
    if headers.iter().all(|(name, _)| *name != "host") {
        map.insert(header::HOST, "localhost:8080".parse().unwrap());
    }
    for (name, value) in headers {
        map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    judge(rules, &facts, &target.parse().unwrap(), &map)
}

fn status(result: &Result<Caller, Refusal>) -> u16 {
    result.as_ref().err().map_or(200, |refusal| refusal.status.as_u16())
}

#[test]
fn each_route_is_open_to_those_who_may_use_it() {
    let key = key_text();
    let bearer = format!("bearer  {key}");
    // who, the headers that they send, then: health, MCP, MCP when everyone must send the key, REST
    type Row<'a> = (&'a str, ConnectionFacts, Vec<(&'a str, &'a str)>, [u16; 4]);
    let rows: [Row<'_>; 7] = [
        ("key", tcp(NOT_OURS), vec![("x-api-key", &key)], [200, 200, 200, 200]),
        ("bearer", tcp(NOT_OURS), vec![("authorization", &bearer)], [200, 200, 200, 200]),
        ("both", tcp(OURS), vec![("x-api-key", &key), ("authorization", &bearer)], [200, 200, 200, 200]),
        ("socket", SOCKET, vec![], [200, 200, 200, 200]),
        ("local", tcp(OURS), vec![], [200, 200, 401, 401]),
        ("other scheme", tcp(OURS), vec![("authorization", "Basic eDp5")], [200, 200, 401, 401]),
        ("stranger", tcp(NOT_OURS), vec![], [200, 401, 401, 401]),
    ];
    for (who, facts, headers, expected) in rows {
        let cases = [("/healthz", false), ("/mcp", false), ("/mcp/all", true), ("/api/v1/status", false)];
        for ((target, strict), expected) in cases.into_iter().zip(expected) {
            assert_eq!(status(&ask(&rules(strict), facts, target, &headers)), expected, "{who} at {target}");
        }
    }
}

#[test]
fn the_caller_is_who_it_proved_to_be() {
    let key = key_text();
    let rules = rules(false);
    assert_eq!(ask(&rules, tcp(OURS), "/mcp", &[("x-api-key", &key)]).unwrap(), Caller::ApiKey);
    assert_eq!(ask(&rules, tcp(OURS), "/mcp", &[]).unwrap(), Caller::Local);
    assert_eq!(ask(&rules, SOCKET, "/mcp", &[]).unwrap(), Caller::Socket { uid: 1 });
    assert_eq!(ask(&rules, tcp(NOT_OURS), "/readyz", &[]).unwrap(), Caller::Remote);
}

#[test]
fn a_wrong_token_is_refused_on_every_route_from_everyone() {
    let key = key_text();
    let wrong = [
        vec![("x-api-key", "wrong")],
        vec![("x-api-key", "")],
        vec![("authorization", "Bearer wrong")],
        vec![("authorization", "Bearer")],
        vec![("authorization", "BEARER\tmcp_agt_0000")],
        vec![("x-api-key", key.as_str()), ("authorization", "Bearer wrong")],
        vec![("x-api-key", key.as_str()), ("x-api-key", "wrong")],
    ];
    for headers in &wrong {
        for facts in [tcp(OURS), tcp(NOT_OURS), SOCKET] {
            for target in ["/healthz", "/", "/mcp", "/api/v1/status", "/nothing"] {
                let result = ask(&rules(false), facts, target, headers);
                assert_eq!(status(&result), 401, "{headers:?} at {target}");
                assert!(!result.unwrap_err().message.contains(&key));
            }
        }
    }
}

#[test]
fn a_key_in_the_url_is_refused_with_the_way_to_send_it() {
    let key = key_text();
    for name in ["apikey", "api_key", "ApiKey", "%61pikey", "X-API-Key"] {
        for target in ["/mcp", "/api/v1/status", "/ui/", "/healthz"] {
            let target = format!("{target}?a=b&{name}={key}");
            let refusal = ask(&rules(false), SOCKET, &target, &[("x-api-key", &key)]).unwrap_err();
            assert_eq!(refusal.status, 401, "{target}");
            assert!(
                refusal.message.contains("X-API-Key") && !refusal.message.contains(&key),
                "{}",
                refusal.message
            );
        }
    }
    assert!(ask(&rules(false), SOCKET, "/mcp?api=key&keys=1&%zz", &[]).is_ok());
}

#[test]
fn a_name_or_page_from_elsewhere_is_refused_before_the_token_is_looked_at() {
    let key = key_text();
    let cases: [&[(&str, &str)]; 4] = [
        &[("host", "evil.example:8080")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("host", "evil.example"), ("x-api-key", &key)],
    ];
    for headers in cases {
        for facts in [tcp(OURS), SOCKET] {
            for target in ["/mcp", "/api/v1/status", "/ui/", "/events", "/healthz"] {
                assert_eq!(
                    status(&ask(&rules(false), facts, target, headers)),
                    403,
                    "{headers:?} at {target}"
                );
            }
        }
    }
    let refusal = ask(&rules(false), tcp(OURS), "/mcp", &[("host", "Evil.example:8080")]).unwrap_err();
    assert!(refusal.message.contains(r#""trusted_hosts": ["evil.example"]"#), "{}", refusal.message);
    let refusal = ask(&rules(false), tcp(OURS), "/mcp", &[("origin", "http://evil.example:1")]).unwrap_err();
    assert!(refusal.message.contains(r#""trusted_hosts": ["evil.example"]"#), "{}", refusal.message);
    assert!(ask(&rules(false), tcp(OURS), "/mcp", &[("host", "mcp.example.com")]).is_ok());
}

#[test]
fn a_request_line_that_names_another_host_does_not_get_around_the_header() {
    assert_eq!(status(&ask(&rules(false), tcp(OURS), "http://evil.example/mcp", &[])), 403);
    assert!(ask(&rules(false), tcp(OURS), "http://localhost:8080/mcp", &[]).is_ok());
}

#[test]
fn no_host_or_two_of_them_are_refused() {
    let two = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(status(&ask(&rules(false), tcp(OURS), "/mcp", &two)), 400);
    let none = judge(&rules(false), &tcp(OURS), &"/mcp".parse().unwrap(), &HeaderMap::new());
    assert_eq!(status(&none), 400);
}

#[test]
fn what_is_not_named_as_open_needs_the_key() {
    for path in
        ["/api", "/api/v1/x", "/events", "/metrics", "//mcp", "/%6dcp", "/mcpx", "/Healthz", "/uix", "/debug"]
    {
        assert_eq!(need_of(path), Need::Key, "{path}");
    }
}

#[test]
fn a_stranger_on_loopback_is_told_why_and_what_to_send() {
    let refusal = ask(&rules(false), tcp(NOT_OURS), "/mcp", &[]).unwrap_err();
    for part in ["uid 1234", "X-API-Key", "Authorization: Bearer", "status --show-key"] {
        assert!(refusal.message.contains(part), "{part}: {}", refusal.message);
    }
}

async fn through(guard: &Guard, facts: Option<ConnectionFacts>, method: Method, path: &str) -> Response {
    let router = Router::new().route(
        "/mcp",
        get(|request: Request| async move {
            request.extensions().get::<Caller>().map_or_else(String::new, ToString::to_string)
        }),
    );
    let mut request =
        Request::builder().method(method).uri(path).header("host", "localhost").body(Body::empty()).unwrap();
    if let Some(facts) = facts {
        request.extensions_mut().insert(facts);
    }
    guard.clone().protect(router).oneshot(request).await.unwrap()
}

#[tokio::test]
async fn the_whole_router_is_behind_the_guard() {
    let guard = Guard::new(rules(false));
    let passed = through(&guard, Some(tcp(OURS)), Method::GET, "/mcp").await;
    assert_eq!(passed.status(), 200);
    assert_eq!(axum::body::to_bytes(passed.into_body(), 100).await.unwrap(), "local");
    assert_eq!(through(&guard, Some(tcp(NOT_OURS)), Method::GET, "/mcp").await.status(), 401);
    assert_eq!(through(&guard, Some(tcp(OURS)), Method::GET, "/nothing").await.status(), 401);
    assert_eq!(through(&guard, Some(SOCKET), Method::GET, "/nothing").await.status(), 404);
    assert_eq!(through(&guard, None, Method::GET, "/mcp").await.status(), 500);
    guard.replace(rules(true));
    assert_eq!(through(&guard, Some(tcp(OURS)), Method::GET, "/mcp").await.status(), 401);
}

#[tokio::test]
async fn no_answer_lets_other_pages_in() {
    let guard = Guard::new(rules(false));
    for (facts, path, expected) in
        [(tcp(OURS), "/mcp", 405), (tcp(NOT_OURS), "/mcp", 401), (SOCKET, "/api/v1/x", 404)]
    {
        let answer = through(&guard, Some(facts), Method::OPTIONS, path).await;
        assert_eq!(answer.status(), expected, "{path}");
        let allows = answer.headers().keys().any(|name| name.as_str().starts_with("access-control-"));
        assert!(!allows, "{path}: {:?}", answer.headers());
    }
}

#[tokio::test]
async fn a_rest_client_gets_the_envelope_and_a_challenge() {
    let guard = Guard::new(rules(false));
    let answer = through(&guard, Some(tcp(OURS)), Method::GET, "/api/v1/status").await;
    assert_eq!(answer.status(), 401);
    assert!(answer.headers().contains_key("www-authenticate"));
    let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["success"], false);
    assert!(body["error"].as_str().unwrap().contains("X-API-Key"));
}
