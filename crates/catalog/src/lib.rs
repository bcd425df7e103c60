//! The listed tools: resolve, search, describe.
//!
//! [`parse_tools`] reads what a server lists, one entry at a time, so that a bad entry never loses the others. A
//! [`Catalog`] holds the tools of all servers; it is a cheap value that is replaced whole, so readers never wait.
//! [`retrieve_reply`] and [`describe_reply`] write what agents get to see of it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod describe;
mod entry;
mod filters;
mod index;
mod listed;
mod parse;
mod retrieve;
mod search;
mod text;
mod words;

pub use describe::{Gate, MAX_DESCRIBED, describe_reply};
pub use filters::Filters;
pub use listed::Listed;
pub use parse::{MAX_NAME_CHARS, MAX_SCHEMA_BYTES, MAX_TOOLS, parse_tools};
pub use retrieve::{MAX_FOUND, Retrieve, retrieve_reply};
pub use search::{Catalog, Hit};
