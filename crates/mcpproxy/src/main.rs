//! mcpproxy: one program between AI agents and their MCP servers.
fn main() {}
