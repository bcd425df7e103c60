//! Dev-only, never in the product: a minimal MCP upstream, a raw load client, and saves with their floor, for `make bench`.
//!
//! Everything stays on loopback and every loop is bounded. Each command prints one line to standard output; the scripts in
//! `benches/` start the commands, interleave them and make the table.

mod floor;
mod load;
mod payload;
mod proc;
mod upstream;
mod writer;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A minimal MCP upstream and a raw load client.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// An MCP server over streamable HTTP on 127.0.0.1; prints its URL when it listens
    UpstreamHttp(upstream::http::Options),
    /// An MCP server over standard input and output
    UpstreamStdio(upstream::stdio::Options),
    /// Makes one session, then a bounded number of calls, times and checks each, and prints the figures as JSON
    Load(load::Options),
    /// Writes, hashes and fsyncs the bytes that a save would write; prints the figures as JSON
    Floor(floor::Options),
    /// Saves files with the crate alone, floor and save in turn; prints the figures as JSON
    Save(writer::SaveOptions),
    /// Checks the path of a save many times, deep below its root; prints the figures as JSON
    Preflight(writer::PreflightOptions),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(sound) => ExitCode::from(u8::from(!sound)),
        Err(problem) => {
            // Nothing is left to do when standard error is gone too.
            let _ = writeln!(std::io::stderr(), "benchkit: {problem}");
            ExitCode::from(2)
        }
    }
}

/// True when every reply was as it should be.
fn run(command: Command) -> Result<bool, String> {
    match command {
        Command::UpstreamHttp(options) => block_on(upstream::http::serve(&options)).map(|()| true),
        Command::UpstreamStdio(options) => upstream::stdio::serve(&options).map(|()| true),
        Command::Load(options) => {
            let report = block_on(load::run(&options))?;
            let sound = report.is_sound();
            print_json(&report).map(|()| sound)
        }
        Command::Floor(options) => floor::run(&options).and_then(|report| print_json(&report)).map(|()| true),
        Command::Save(options) => writer::save(&options).and_then(|report| print_json(&report)).map(|()| true),
        Command::Preflight(options) => {
            writer::preflight(&options).and_then(|report| print_json(&report)).map(|()| true)
        }
    }
}

/// One thread: the client and the server must not take both cores from what is measured.
fn block_on<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| format!("no runtime: {e}"))?.block_on(future)
}

fn print_json(report: &impl serde::Serialize) -> Result<(), String> {
    let line = serde_json::to_string(report).map_err(|e| e.to_string())?;
    writeln!(std::io::stdout(), "{line}").map_err(|e| format!("standard output: {e}"))
}
