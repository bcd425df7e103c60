//! The command line: what can be typed, and which room answers it.

pub mod activity;
mod call;
mod configure;
mod demo;
mod demo_upstream;
mod output;
mod outputs;
mod place;
mod progress;
mod remote;
mod result;
mod serve;
mod setup;
mod status;
mod table;
mod tools;
mod upstream;
mod yaml;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use setup::exit;

/// First argument of the process that watches over our children.
pub const WATCH_COMMAND: &str = "watch-children";
/// First argument of the built-in upstream of the demo.
pub const DEMO_UPSTREAM_COMMAND: &str = "demo-upstream";

/// One program between AI agents and their MCP servers.
#[derive(Parser)]
#[command(name = "mcpproxy", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "Without a command it serves, as `mcpproxy serve` does.")]
struct Line {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Flags that every command understands.
#[derive(Args, Clone)]
pub struct Common {
    /// Configuration file [default: ~/.mcpproxy/mcp_config.json]
    #[arg(short = 'c', long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of the database, key, socket and logs [default: ~/.mcpproxy]
    #[arg(short = 'd', long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// One more user (name or uid) who may own the configuration file
    #[arg(long, global = true, value_name = "NAME|UID")]
    pub config_owner: Option<String>,
    /// How much is logged to standard error: trace, debug, info, warn or error
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Form of what is printed on standard output
    #[arg(short = 'o', long, global = true, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    #[value(alias = "pretty")]
    Table,
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway: over HTTP and a Unix socket, or over stdio for one agent
    Serve(serve::Flags),
    /// Call a tool of an upstream, through the running gateway or without one
    Call {
        #[command(subcommand)]
        variant: call::Variant,
    },
    /// The tools that can be called, and finding one by words
    Tools {
        #[command(subcommand)]
        what: tools::What,
    },
    /// The upstream servers: what they do, switching them on and off, their logs
    Upstream {
        #[command(subcommand)]
        what: upstream::What,
    },
    /// The saved answers: where they are, whether they still are what was saved, removing them
    Outputs {
        #[command(subcommand)]
        what: outputs::What,
    },
    /// What was called, by whom, how it ended and where the answer went
    Activity {
        #[command(subcommand)]
        what: activity::What,
    },
    /// The configuration file: check it, show it, begin one, load it again
    Config {
        #[command(subcommand)]
        what: configure::What,
    },
    /// Whether a gateway runs here, where it listens and how its servers are
    Status(status::Flags),
    /// Show the main job in a directory of its own: a large answer, saved to a file
    Demo,
    /// The built-in upstream of the demo
    #[command(name = DEMO_UPSTREAM_COMMAND, hide = true)]
    DemoUpstream,
}

/// Runs the command that was typed.
pub fn run() -> ExitCode {
    let matches = match Line::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Exit code 2 would say that a port is taken.
            let code = if error.use_stderr() { exit::GENERAL } else { exit::OK };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let line = match Line::from_arg_matches(&matches) {
        Ok(line) => line,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(exit::GENERAL);
        }
    };
    let common = line.common;
    let code = match line.command.unwrap_or_else(|| Command::Serve(serve::Flags::default())) {
        Command::Serve(flags) => serve::run(&common, flags),
        Command::Call { variant } => call::run(&common, variant),
        Command::Tools { what } => tools::run(&common, &what),
        Command::Upstream { what } => upstream::run(&common, what),
        Command::Outputs { what } => outputs::run(&common, what),
        Command::Activity { what } => activity::run(&common, what),
        Command::Config { what } => configure::run(&common, &what),
        Command::Status(flags) => status::run(&common, &flags),
        Command::Demo => demo::run(),
        Command::DemoUpstream => demo_upstream::run(),
    };
    output::flush();
    // What was asked for did not arrive, however well the rest went.
    ExitCode::from(if code == exit::OK && output::failed() { exit::GENERAL } else { code })
}
