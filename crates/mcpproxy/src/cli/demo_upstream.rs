//! The built-in upstream of the demo: a stdio MCP server with one tool whose answer is large.

use std::sync::Arc;

use bytes::Bytes;
use gateway::mcp::{
    INVALID_PARAMS, Limits, METHOD_NOT_FOUND, Payload, Reply, Request, Server, ServerInfo, Service,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::setup::{self, exit};

/// Rows of the report unless the call asks for another number.
const ROWS: u64 = 20_000;
const MAX_ROWS: u64 = 1_000_000;

struct Demo;

/// Runs the upstream until its input ends.
pub fn run() -> u8 {
    let served = async {
        let server = Server::new(Arc::new(Demo), Limits::default());
        server.stdio(tokio::io::stdin(), tokio::io::stdout(), (), CancellationToken::new()).await;
    };
    setup::block_on(served).map_or_else(|code| code, |()| exit::OK)
}

impl Service for Demo {
    type Caller = ();

    fn info(&self) -> ServerInfo {
        ServerInfo {
            name: "mcpproxy-demo".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            instructions: None,
            capabilities: json!({"tools": {}}),
        }
    }

    async fn handle(self: &Arc<Self>, request: Request<()>) -> Reply {
        match request.method.as_str() {
            "tools/list" => result(&listing()),
            "tools/call" => {
                let params: Value = serde_json::from_slice(&request.params).unwrap_or_default();
                if params["name"] != "orders_report" {
                    return Reply::Error { code: INVALID_PARAMS, message: "Unknown tool".into(), data: None };
                }
                let rows = params["arguments"]["rows"].as_u64().unwrap_or(ROWS).min(MAX_ROWS);
                result(&json!({"content": [{"type": "text", "text": report(rows)}]}))
            }
            _ => Reply::Error { code: METHOD_NOT_FOUND, message: "Method not found".into(), data: None },
        }
    }
}

fn result(value: &Value) -> Reply {
    Reply::Result(Payload::Bytes(Bytes::from(value.to_string())))
}

fn listing() -> Value {
    json!({"tools": [{
        "name": "orders_report",
        "description": "A report of made-up orders, one JSON object a line.",
        "inputSchema": {"type": "object", "properties": {"rows": {"type": "integer", "minimum": 0}}},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    }]})
}

/// Made-up orders, always the same.
fn report(rows: u64) -> String {
    let cities = ["Aalborg", "Bergen", "Cádiz", "Delft", "Évora", "Ferrara"];
    let mut text = String::new();
    for i in 0..rows {
        let city = cities[usize::try_from(i * 7 % 6).unwrap_or(0)];
        let cents = i * 7919 % 100_000;
        text.push_str(&format!(
            "{{\"order\":{},\"city\":\"{city}\",\"total\":\"{}.{:02}\",\"items\":{}}}\n",
            1_000_000 + i,
            cents / 100,
            cents % 100,
            i % 9 + 1
        ));
    }
    text
}
