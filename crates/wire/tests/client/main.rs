//! The client side against servers that do everything wrong that servers do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod common;
mod connections;
mod envelope;
mod http;
mod spool;
mod stdio;
