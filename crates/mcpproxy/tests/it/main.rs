//! The program from outside: its binary, real pipes and sockets, real files, a scripted upstream.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs
)]

mod args;
mod bridge;
mod cli;
mod commands;
mod common;
mod configure;
mod docs;
mod doors;
mod fidelity;
mod http;
mod lifecycle;
mod operators;
mod output_validation;
mod paths;
mod records;
mod refusals;
mod reload;
mod save;
mod sizes;
mod targets;
