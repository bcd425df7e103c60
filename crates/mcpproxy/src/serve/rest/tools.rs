//! Tools over HTTP: all of them, those of one server, and those that fit a query.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use gateway::{Gateway, ToolLine};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::fault::{Asked, Fault, success};

/// Most tools that one search gives.
pub const MAX_FOUND: usize = 100;
/// Of a query, what is looked at, in bytes.
const MAX_QUERY: usize = 4096;

/// `GET /api/v1/tools`
pub async fn list(State(shared): State<Arc<Shared>>) -> Json<Value> {
    success(all(&shared.gateway))
}

/// A query.
#[derive(Deserialize)]
pub struct Search {
    q: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/v1/index/search?q=&limit=`
pub async fn search(State(shared): State<Arc<Shared>>, asked: Asked<Search>) -> Result<Json<Value>, Fault> {
    let Search { q, limit } = asked?.0;
    found(&shared.gateway, &q.unwrap_or_default(), limit).map(success)
}

/// Every tool that may be called now.
pub fn all(gateway: &Gateway) -> Value {
    let tools: Vec<Value> = gateway.tools().iter().map(value).collect();
    let total = tools.len();
    let stats = json!({"total": total, "enabled": total, "disabled": 0, "pending_approval": 0});
    json!({"tools": tools, "stats": stats})
}

/// The tools of one server.
pub fn of_server(gateway: &Gateway, server: &str) -> Vec<Value> {
    gateway.tools().iter().filter(|tool| tool.server == server).map(value).collect()
}

/// The tools that fit, best first.
///
/// # Errors
/// There is no query, or the limit makes no sense.
pub fn found(gateway: &Gateway, query: &str, limit: Option<usize>) -> Result<Value, Fault> {
    if query.trim().is_empty() {
        return Err(Fault::bad("the query parameter q is missing: say what the tool should do"));
    }
    let limit = limit.unwrap_or_else(|| gateway.config().tools_limit.min(MAX_FOUND));
    if limit == 0 || limit > MAX_FOUND {
        return Err(Fault::bad(format!("limit must be between 1 and {MAX_FOUND}")));
    }
    let query = &query[..query.floor_char_boundary(MAX_QUERY)];
    let began = Instant::now();
    let hits = gateway.search(query, limit);
    let results: Vec<Value> =
        hits.iter().map(|(tool, score)| json!({"tool": value(tool), "score": score})).collect();
    let took = format!("{}ms", began.elapsed().as_millis());
    Ok(json!({"query": query, "total": results.len(), "results": results, "took": took}))
}

fn value(tool: &ToolLine) -> Value {
    let names = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let said = names.into_iter().zip(tool.hints).filter_map(|(name, hint)| Some((name, hint?)));
    let annotations: serde_json::Map<String, Value> =
        said.map(|(name, hint)| (name.to_owned(), json!(hint))).collect();
    json!({
        "name": tool.tool,
        "server_name": tool.server,
        "tool_id": format!("{}:{}", tool.server, tool.tool),
        "description": tool.description,
        "annotations": annotations,
        "call_with": tool.call_with,
    })
}
