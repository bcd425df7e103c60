//! The routes beside MCP: health, readiness and status here, the rest by area.

pub mod fault;
pub mod outputs;
pub mod servers;
pub mod tools;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gateway::Gateway;
use gateway::records::StoreHealth;
use serde_json::{Value, json};

use super::control::Control;
pub use fault::error;

/// What the routes know.
pub struct Shared {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Set when every server was connected or failed once.
    pub settled: AtomicBool,
    /// Where we listen.
    pub listen: Option<SocketAddr>,
    /// Our Unix socket.
    pub socket: Option<PathBuf>,
    /// The configuration file.
    pub config_file: PathBuf,
    /// The configuration that is obeyed.
    pub control: Control,
}

/// We run.
pub async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// We can take calls: the servers have settled and records can be written.
pub async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let ready = shared.settled.load(Ordering::Acquire) && shared.gateway.store_health().is_ok();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({"ready": ready}))).into_response()
}

/// What the gateway is doing.
pub async fn status(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(json!({"success": true, "data": shared.status()}))
}

impl Shared {
    /// Obeys the file whenever it changes, for as long as the returned value lives. Without a watch SIGHUP still works.
    pub fn watch_the_file(self: &Arc<Self>) -> Option<config::watch::Watch> {
        let shared = self.clone();
        let watch = config::watch::Watch::start(&self.config_file, move || {
            // The outcome is in the log and in `status`.
            let _ = shared.control.reload(false);
        });
        watch
            .inspect_err(|error| {
                tracing::warn!("the configuration file cannot be watched ({error}): use SIGHUP");
            })
            .ok()
    }

    /// The status as one object.
    pub fn status(&self) -> Value {
        let servers = self.gateway.servers();
        let count = |state: &str| servers.iter().filter(|s| s.state == state).count();
        let listed: Vec<Value> = servers
            .iter()
            .map(|s| {
                json!({
                    "name": s.name, "protocol": s.protocol, "state": s.state, "detail": s.detail,
                    "connected": s.state == "ready", "quarantined": s.state == "quarantined",
                    "tool_count": s.tools, "pid": s.pid,
                })
            })
            .collect();
        json!({
            "running": true,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "listen_addr": self.listen.map(|a| a.to_string()),
            "socket_path": self.socket,
            "config_path": self.config_file,
            "started_ms": self.gateway.started_ms(),
            "routing_mode": "retrieve_tools",
            "require_mcp_auth": self.gateway.config().require_mcp_auth,
            "config_error": self.control.last_error(),
            "needs_restart": self.control.needs_restart(),
            "read_only_mode": self.gateway.config().read_only_mode,
            "ready": self.settled.load(Ordering::Acquire),
            "upstream_stats": {
                "total_servers": servers.len(),
                "connected_servers": count("ready"),
                "quarantined_servers": count("quarantined"),
                "total_tools": self.gateway.tool_count(),
            },
            "servers": listed,
            "store": store(&self.gateway.store_health()),
        })
    }
}

fn store(health: &StoreHealth) -> Value {
    json!({
        "ok": health.is_ok(),
        "failing_since_ms": health.failing.as_ref().map(|f| f.since_ms),
        "message": health.failing.as_ref().map(|f| f.message.clone()),
        "waiting_rows": health.waiting_rows,
        "calls_in_flight": health.in_flight,
    })
}
