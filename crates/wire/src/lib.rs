//! JSON-RPC and MCP on the wire, both sides, without losing a byte.
