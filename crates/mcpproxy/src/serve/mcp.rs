//! MCP: what the gateway answers to agents. Which tool was called, by whom, and the call handed on.

use std::sync::Arc;

use bytes::Bytes;
use gateway::call::Call;
use gateway::mcp::{INVALID_PARAMS, METHOD_NOT_FOUND, Payload, Reply, Request, ServerInfo, Service};
use gateway::records::Source;
use gateway::{Caller, Gateway, Principal, PrincipalKind, Tool, Variant};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::menu;

/// How an agent should use this server, unless the configuration says otherwise.
const INSTRUCTIONS: &str = "This server is a gateway to many tools of other servers. Find a tool with retrieve_tools, then \
    call it by the variant that its 'call_with' names (call_tool_read, call_tool_write or call_tool_destructive) with \
    'name' = 'server:tool' and 'args'. describe_tool gives full definitions. When an answer may be large, pass \
    save_to_file with an absolute path: the whole answer goes into that file and you get a small envelope with its path, \
    size, hash and a preview; read the file in parts.";

/// An agent at one of our doors. Two are the same if they are the same caller; the request id is of one request.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Who it is and what it may do.
    pub principal: Principal,
    /// The road by which it came.
    pub source: Source,
    /// Id of the request that is being made; made anew where it is absent.
    pub request_id: Option<String>,
}

impl PartialEq for Agent {
    fn eq(&self, other: &Self) -> bool {
        self.principal == other.principal && self.source == other.source
    }
}

impl Eq for Agent {}

impl Agent {
    /// An agent that was recognised in this way.
    pub fn new(kind: PrincipalKind, source: Source) -> Self {
        Self { principal: Principal::new(kind), source, request_id: None }
    }
}

/// The gateway as an MCP server.
pub struct Surface {
    gateway: Arc<Gateway>,
}

impl Surface {
    /// The surface of a gateway.
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway }
    }

    async fn call(&self, request: Request<Agent>) -> Reply {
        let caller = caller(&request);
        let params: CallParams<'_> = match serde_json::from_slice(&request.params) {
            Ok(params) => params,
            Err(error) => {
                let why = format!("tools/call needs {{name, arguments}}: {error}");
                self.gateway.refuse(&caller, "", &request.params, &why).await;
                return invalid_params(why);
            }
        };
        let arguments =
            params.arguments.map_or_else(Bytes::new, |raw| request.params.slice_ref(raw.get().as_bytes()));
        if let Some(variant) = Variant::from_tool_name(&params.name) {
            let as_task = params.task.is_some_and(|t| t.get() != "null");
            let call =
                Call { variant, arguments, as_task, progress: request.progress, cancel: request.cancel };
            return Reply::Result(self.gateway.call(caller, call).await.into_payload());
        }
        match Tool::of_name(&params.name) {
            Some(tool) => Reply::Result(self.gateway.find(caller, tool, arguments).await.into_payload()),
            None => {
                let name: String = params.name.chars().take(100).map(plain).collect();
                let why = format!(
                    "Unknown tool '{name}'. Upstream tools are found with retrieve_tools and called with call_tool_read, \
                     call_tool_write or call_tool_destructive."
                );
                self.gateway.refuse(&caller, &name, &arguments, &why).await;
                invalid_params(why)
            }
        }
    }
}

fn caller(request: &Request<Agent>) -> Caller {
    Caller {
        principal: request.caller.principal.clone(),
        source: request.caller.source,
        session: request.session.clone(),
        client_name: request.client.as_ref().map(|c| c.name.clone()),
        client_version: request.client.as_ref().map(|c| c.version.clone()),
        request_id: request.caller.request_id.clone().unwrap_or_else(gateway::new_request_id),
    }
}

fn plain(c: char) -> char {
    if c.is_control() { '\u{fffd}' } else { c }
}

#[derive(Deserialize)]
struct CallParams<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    task: Option<&'a RawValue>,
}

impl Service for Surface {
    type Caller = Agent;

    fn info(&self) -> ServerInfo {
        ServerInfo {
            name: "mcpproxy".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            instructions: Some(self.gateway.config().instructions.unwrap_or_else(|| INSTRUCTIONS.into())),
            capabilities: json!({"tools": {"listChanged": true}}),
        }
    }

    async fn handle(self: &Arc<Self>, request: Request<Agent>) -> Reply {
        match request.method.as_str() {
            "tools/list" => {
                let listing = menu::listing(&self.gateway, &request.caller.principal);
                Reply::Result(Payload::Bytes(Bytes::from(listing)))
            }
            "tools/call" => self.call(request).await,
            method => error(
                METHOD_NOT_FOUND,
                format!("Method not found: {}", &method[..method.floor_char_boundary(100)]),
            ),
        }
    }
}

fn invalid_params(message: String) -> Reply {
    error(INVALID_PARAMS, message)
}

fn error(code: i64, message: String) -> Reply {
    Reply::Error { code, message, data: None }
}
