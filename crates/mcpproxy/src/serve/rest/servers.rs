//! Servers over HTTP: what they do, their tools and logs, and switching them on, off and over.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use config::Config;
use gateway::UpstreamStatus;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::fault::{Asked, Fault, Id, success};
use super::tools;
use crate::cli::activity::time;
use crate::serve::control::Outcome;

/// Lines of a log when nothing else is asked for, and at most.
pub const LOG_LINES: usize = 50;
const MAX_LOG_LINES: usize = 1000;
/// Of a log file, what is looked at, in bytes from its end.
const LOG_BYTES: u64 = 4 << 20;

/// `GET /api/v1/servers`
pub async fn list(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let config = shared.gateway.config();
    let servers = shared.gateway.servers();
    let count = |state: &str| servers.iter().filter(|s| s.state == state).count();
    let stats = json!({
        "total_servers": servers.len(),
        "connected_servers": count("ready"),
        "quarantined_servers": count("quarantined"),
        "total_tools": shared.gateway.tool_count(),
        "docker_containers": 0,
    });
    let servers: Vec<Value> = servers.iter().map(|status| value(status, &config)).collect();
    success(json!({"servers": servers, "stats": stats}))
}

/// `POST /api/v1/servers/{id}/enable`
pub async fn enable(State(shared): State<Arc<Shared>>, name: Id) -> Result<Json<Value>, Fault> {
    switch(shared, name?.0, true).await
}

/// `POST /api/v1/servers/{id}/disable`
pub async fn disable(State(shared): State<Arc<Shared>>, name: Id) -> Result<Json<Value>, Fault> {
    switch(shared, name?.0, false).await
}

async fn switch(shared: Arc<Shared>, name: String, on: bool) -> Result<Json<Value>, Fault> {
    known(&shared, &name)?;
    let server = name.clone();
    let outcome = changed(move || shared.control.set_enabled(&server, on)).await?;
    outcome.map_err(|problems| Fault::new(StatusCode::CONFLICT, problems.join("; ")))?;
    let action = if on { "enable" } else { "disable" };
    // It is connected, or ended, in the background.
    Ok(success(json!({"server": name, "action": action, "success": true, "async": true})))
}

/// `POST /api/v1/servers/{id}/restart`
pub async fn restart(State(shared): State<Arc<Shared>>, name: Id) -> Result<Json<Value>, Fault> {
    let name = name?.0;
    known(&shared, &name)?;
    shared.gateway.restart_server(&name).map_err(|why| Fault::new(StatusCode::CONFLICT, why))?;
    // It is connected again in the background.
    Ok(success(json!({"server": name, "action": "restart", "success": true, "async": true})))
}

/// `GET /api/v1/servers/{id}/tools`
pub async fn tools(State(shared): State<Arc<Shared>>, name: Id) -> Result<Json<Value>, Fault> {
    let name = name?.0;
    known(&shared, &name)?;
    let tools = tools::of_server(&shared.gateway, &name);
    Ok(success(json!({"server": name, "count": tools.len(), "tools": tools})))
}

/// How much of a log is wanted.
#[derive(Deserialize)]
pub struct Tail {
    tail: Option<usize>,
}

/// `GET /api/v1/servers/{id}/logs?tail=N`
pub async fn logs(
    State(shared): State<Arc<Shared>>,
    name: Id,
    tail: Asked<Tail>,
) -> Result<Json<Value>, Fault> {
    let (name, tail) = (name?.0, tail?.0.tail.unwrap_or(LOG_LINES));
    known(&shared, &name)?;
    let Some(path) = shared.gateway.log_path(&name) else {
        return Err(Fault::unknown(format!("server '{name}' has no log")));
    };
    let server = name.clone();
    let read = tokio::task::spawn_blocking(move || log_value(&path, &server, tail)).await;
    let failed = |why: String| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, why);
    let log = read.map_err(|e| failed(e.to_string()))?;
    Ok(success(log.map_err(|e| failed(format!("the log of '{name}' cannot be read: {e}")))?))
}

/// `POST /api/v1/config/reload`
pub async fn reload(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Fault> {
    let outcome = changed(move || shared.control.reload(true)).await?;
    let outcome = outcome.map_err(|problems| Fault::bad(problems.join("; ")))?;
    Ok(success(json!({
        "success": true,
        "applied_immediately": outcome.needs_restart.is_empty(),
        "requires_restart": !outcome.needs_restart.is_empty(),
        "changed_fields": outcome.applied,
        "restart_fields": outcome.needs_restart,
        "servers": outcome.reloaded.servers,
        "gone": outcome.reloaded.gone,
    })))
}

/// Changes the configuration on a thread that may block.
async fn changed(
    change: impl FnOnce() -> Result<Outcome, Vec<String>> + Send + 'static,
) -> Result<Result<Outcome, Vec<String>>, Fault> {
    let broken = |_| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error; please report it");
    tokio::task::spawn_blocking(change).await.map_err(broken)
}

fn known(shared: &Shared, name: &str) -> Result<(), Fault> {
    if shared.gateway.servers().iter().any(|s| s.name == name) {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(Fault::unknown(format!("no server named {shown:?} is in the configuration")))
}

/// A server as others show it. Its environment, headers, arguments and address may hold secrets and are left out.
fn value(status: &UpstreamStatus, config: &Config) -> Value {
    let entry = config.servers.iter().find(|s| s.name == status.name);
    let failed = status.state == "failed";
    json!({
        "id": status.name,
        "name": status.name,
        "protocol": status.protocol,
        "enabled": entry.is_none_or(|s| s.enabled),
        "quarantined": status.state == "quarantined",
        "connected": status.state == "ready",
        "connecting": status.state == "connecting",
        "status": status.state,
        "tool_count": status.tools,
        "pid": status.pid,
        "detail": status.detail,
        "last_error": failed.then_some(&status.detail),
        "health": health(status.state, &status.detail, status.tools),
    })
}

/// A server of the configuration while no gateway runs.
pub fn not_running(server: &config::Server) -> Value {
    let protocol = match server.transport {
        config::Transport::Stdio { .. } => "stdio",
        config::Transport::Http { .. } => "http",
        config::Transport::Unsupported { .. } => "unsupported",
    };
    let state = match (server.enabled, server.quarantined) {
        (false, _) => "disabled",
        (true, Some(true)) => "quarantined",
        _ => "stopped",
    };
    json!({
        "id": server.name, "name": server.name, "protocol": protocol, "enabled": server.enabled,
        "quarantined": server.quarantined == Some(true), "connected": false, "connecting": false,
        "status": state, "tool_count": 0, "pid": null, "detail": "no gateway runs", "last_error": null,
        "health": health(state, "no gateway runs", 0),
    })
}

fn health(state: &str, detail: &str, tools: usize) -> Value {
    let first = detail.lines().next().unwrap_or_default();
    let (level, admin, summary, action) = match state {
        "disabled" => ("healthy", "disabled", "Disabled".to_owned(), "enable"),
        "quarantined" => ("healthy", "quarantined", "Quarantined for review".to_owned(), "approve"),
        "ready" => ("healthy", "enabled", format!("Connected ({tools} tools)"), ""),
        "connecting" => ("healthy", "enabled", "Connecting...".to_owned(), ""),
        "resting" => ("healthy", "enabled", "Connects at its first use".to_owned(), ""),
        "stopped" => ("healthy", "enabled", "Not running".to_owned(), ""),
        "unsupported" => ("unhealthy", "enabled", first.to_owned(), "configure"),
        _ => ("unhealthy", "enabled", first.to_owned(), "restart"),
    };
    json!({"level": level, "admin_state": admin, "summary": summary, "detail": detail, "action": action})
}

/// The last lines of a server's log.
///
/// # Errors
/// The file cannot be read. One that is not there is an empty log.
pub fn log_value(path: &Path, server: &str, tail: usize) -> io::Result<Value> {
    let wanted = tail.clamp(1, MAX_LOG_LINES);
    let mut lines = last_lines(path, wanted)?;
    if lines.len() < wanted {
        let mut older = path.as_os_str().to_owned();
        older.push(".1");
        let mut all = last_lines(&PathBuf::from(older), wanted - lines.len())?;
        all.append(&mut lines);
        lines = all;
    }
    let logs: Vec<Value> = lines.iter().map(|line| log_line(line, server)).collect();
    Ok(json!({"server_name": server, "count": logs.len(), "logs": logs}))
}

fn last_lines(path: &Path, wanted: usize) -> io::Result<VecDeque<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(VecDeque::new()),
        opened => opened?,
    };
    let start = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line of a part is a part of a line.
    let lines = text.lines().skip(usize::from(start > 0));
    let mut last = VecDeque::with_capacity(wanted);
    for line in lines {
        if last.len() == wanted {
            last.pop_front();
        }
        last.push_back(line.to_owned());
    }
    Ok(last)
}

/// A line begins with the time in seconds; what we say ourselves of the server begins with dashes.
fn log_line(line: &str, server: &str) -> Value {
    let (seconds, said) = line.split_once(' ').unwrap_or(("", line));
    let (timestamp, said) = match seconds.parse::<i64>() {
        Ok(seconds) => (Some(time(seconds.saturating_mul(1000))), said),
        Err(_) => (None, line),
    };
    let (level, message) = said.strip_prefix("--- ").map_or(("stderr", said), |ours| ("info", ours));
    json!({"timestamp": timestamp, "level": level, "message": message, "server": server})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_from_its_end_and_over_its_older_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server-x.log");
        assert_eq!(log_value(&path, "x", 5).unwrap()["count"], 0);
        std::fs::write(dir.path().join("server-x.log.1"), "0 --- stdio: npx\n60 one\n61 two\n").unwrap();
        std::fs::write(&path, "62 three\nno time\n").unwrap();
        let log = log_value(&path, "x", 4).unwrap();
        let messages: Vec<&str> =
            log["logs"].as_array().unwrap().iter().map(|l| l["message"].as_str().unwrap()).collect();
        assert_eq!(messages, ["one", "two", "three", "no time"]);
        assert_eq!(log["logs"][0]["timestamp"], "1970-01-01T00:01:00.000Z");
        assert_eq!(log["logs"][3]["timestamp"], Value::Null);
        let first = log_value(&path, "x", 100).unwrap()["logs"][0].clone();
        assert_eq!((&first["level"], &first["message"]), (&"info".into(), &"stdio: npx".into()));
        let long = format!("1 {}\n", "y".repeat(100)).repeat(60_000);
        std::fs::write(&path, long).unwrap();
        assert_eq!(log_value(&path, "x", 0).unwrap()["count"], 1);
        assert_eq!(log_value(&path, "x", usize::MAX).unwrap()["count"], MAX_LOG_LINES);
    }
}
