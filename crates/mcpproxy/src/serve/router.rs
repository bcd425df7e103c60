//! The routes, and the request id that every response carries.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use gateway::PrincipalKind;
use gateway::mcp::Server;
use gateway::records::Source;

use super::guard::{self, Guard};
use super::mcp::{Agent, Surface};
use super::rest::{self, Shared, outputs, servers, tools};

const REQUEST_ID: &str = "x-request-id";
const CLIENT: &str = "x-mcpproxy-client";

/// The id of one request, made before anything else sees it.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// All routes behind the guard.
pub fn router(guard: Guard, mcp: Server<Surface>, shared: Arc<Shared>) -> Router {
    let mcp = Router::new()
        .route("/mcp", any(serve_mcp))
        .route("/mcp/", any(serve_mcp))
        .route("/mcp/call", any(serve_mcp))
        .with_state(mcp);
    let rest = Router::new()
        .route("/healthz", get(rest::healthz))
        .route("/readyz", get(rest::readyz))
        .route("/api/v1/status", get(rest::status))
        .route("/api/v1/servers", get(servers::list))
        .route("/api/v1/servers/{id}/enable", post(servers::enable))
        .route("/api/v1/servers/{id}/disable", post(servers::disable))
        .route("/api/v1/servers/{id}/restart", post(servers::restart))
        .route("/api/v1/servers/{id}/tools", get(servers::tools))
        .route("/api/v1/servers/{id}/logs", get(servers::logs))
        .route("/api/v1/tools", get(tools::list))
        .route("/api/v1/index/search", get(tools::search))
        .route("/api/v1/outputs", get(outputs::list))
        .route("/api/v1/outputs/{id}", get(outputs::one).delete(outputs::remove))
        .route("/api/v1/outputs/{id}/verify", post(outputs::verify))
        .route("/api/v1/config/reload", post(servers::reload))
        .method_not_allowed_fallback(not_allowed)
        .with_state(shared);
    let routes = mcp.merge(rest).fallback(unknown);
    // The id comes first, so that refusals of the guard carry one too.
    guard.protect(routes).layer(middleware::from_fn(with_request_id))
}

async fn serve_mcp(
    State(server): State<Server<Surface>>,
    Extension(caller): Extension<guard::Caller>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let kind = match caller {
        guard::Caller::ApiKey => PrincipalKind::ApiKey,
        guard::Caller::Socket { .. } => PrincipalKind::Socket,
        guard::Caller::Local => PrincipalKind::LocalCaller,
        // The guard lets nobody else come as far as this.
        guard::Caller::Remote => return StatusCode::UNAUTHORIZED.into_response(),
    };
    let mut agent = Agent::new(kind, source(request.headers()));
    agent.request_id = Some(id.0);
    server.http(request, agent).await.map(Body::new)
}

/// The command line says who it is; everybody else on this road is an agent.
fn source(headers: &HeaderMap) -> Source {
    let client = headers.get(CLIENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if client.starts_with("cli/") { Source::Cli } else { Source::Mcp }
}

async fn not_allowed() -> Response {
    rest::error(
        StatusCode::METHOD_NOT_ALLOWED,
        "this route has no such method; the Allow header names those that it has",
    )
}

async fn unknown() -> Response {
    rest::error(StatusCode::NOT_FOUND, "no such route; docs/rest.md lists the routes of this version")
}

async fn with_request_id(mut request: Request, next: Next) -> Response {
    let given =
        request.headers().get(REQUEST_ID).and_then(|v| v.to_str().ok()).filter(|id| is_well_formed(id));
    let is_rest = !request.uri().path().starts_with("/mcp");
    let id = given.filter(|_| is_rest).map_or_else(gateway::new_request_id, str::to_owned);
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = rest::fault::signed(next.run(request).await, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

fn is_well_formed(id: &str) -> bool {
    (1..=256).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
