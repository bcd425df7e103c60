//! JSON-RPC and MCP on the wire, both sides, without losing a byte.
//!
//! A message is never turned into a tree of values: [`envelope`] finds where its parts lie, [`spool`] keeps the
//! bytes (in memory, or enciphered on disk), and what is handed on is a slice of exactly what was sent.
//! [`client`] speaks to the servers that we call, [`server`] to those who call us.

mod alarm;
pub mod client;
pub mod envelope;
pub mod relay;
pub mod server;
pub mod spool;
