//! `tools`: what can be called, and finding a tool by words; of the running gateway or, without one, of servers started for it.

use std::time::Duration;

use clap::Subcommand;
use config::LogLevel;
use gateway::Gateway;
use http::Method;
use serde_json::{Value, json};

use super::place::{Failure, Place, place};
use super::progress::Progress;
use super::remote::segment;
use super::setup::{self, Configured, exit};
use super::table::{Column, Keep, Table};
use super::{Common, output, serve};
use crate::serve::rest::tools;

/// How long the running gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long servers that are started for this command may take.
const STARTING: Duration = Duration::from_secs(60);

/// What to do with tools.
#[derive(Subcommand)]
pub enum What {
    /// The tools that can be called now
    List {
        /// Only those of this server
        #[arg(short = 's', long)]
        server: Option<String>,
    },
    /// The tools that fit a few words, best first
    Search {
        /// What the tool should do
        query: String,
        /// At most so many [default: tools_limit of the configuration]
        #[arg(short = 'n', long)]
        limit: Option<usize>,
    },
}

/// Runs the command.
pub fn run(common: &Common, what: &What) -> u8 {
    show(common, what).unwrap_or_else(Failure::tell)
}

fn show(common: &Common, what: &What) -> Result<u8, Failure> {
    let configured = setup::at_work(common, |_| {})?;
    // What a server that does not start says of it is told below.
    setup::log(configured.config(), common.log_level.is_none().then_some(LogLevel::Error));
    let data = setup::block_on(ask(configured, what))??;
    match what {
        What::List { .. } if !output::value(common.output, &data) => print_list(&data),
        What::Search { .. } if !output::value(common.output, &data) => print_found(&data),
        _ => {}
    }
    Ok(exit::OK)
}

async fn ask(configured: Configured, what: &What) -> Result<Value, Failure> {
    let (dir, lock) = match place(&configured).await? {
        Place::Running(remote) => {
            let answer = remote.ask(Method::GET, &route(what), PATIENCE).await;
            return Ok(answer.map_err(|refused| refused.message)?["data"].take());
        }
        Place::Free(dir, lock) => (dir, lock),
    };
    let Configured { sources, loaded, .. } = configured;
    let gateway = serve::open_gateway(loaded.config, &sources.path, false)?;
    let progress = Progress::of("starting the servers");
    gateway.settled(STARTING).await;
    progress.end().await;
    for server in gateway.servers().iter().filter(|server| server.state == "failed") {
        let why = server.detail.lines().next().unwrap_or_default();
        output::tell(&format!("{} is not connected: {}", output::shown(&server.name), output::shown(why)));
    }
    let data = answer(&gateway, what);
    gateway.close().await;
    // The lock goes last: the next process must find the record as this one left it.
    drop((gateway, lock, dir));
    data
}

fn route(what: &What) -> String {
    match what {
        What::List { server: None } => "/api/v1/tools".to_owned(),
        What::List { server: Some(server) } => format!("/api/v1/servers/{}/tools", segment(server)),
        What::Search { query, limit } => {
            let limit = limit.map_or_else(String::new, |limit| format!("&limit={limit}"));
            format!("/api/v1/index/search?q={}{limit}", segment(query))
        }
    }
}

fn answer(gateway: &Gateway, what: &What) -> Result<Value, Failure> {
    match what {
        What::List { server: None } => Ok(tools::all(gateway)),
        What::List { server: Some(server) } => {
            if !gateway.servers().iter().any(|known| known.name == *server) {
                return Err(format!("no server named '{server}' is in the configuration").into());
            }
            let tools = tools::of_server(gateway, server);
            Ok(json!({"server": server, "count": tools.len(), "tools": tools}))
        }
        What::Search { query, limit } => {
            tools::found(gateway, query, *limit).map_err(|fault| fault.message.into())
        }
    }
}

const COLUMNS: [Column; 4] = [
    Column::new("TOOL", Keep::Start),
    Column::new("CALL WITH", Keep::All),
    Column::new("SCORE", Keep::All).right().spare(),
    Column::new("DESCRIPTION", Keep::Start),
];

fn print_list(data: &Value) {
    let mut table = Table::new(&[COLUMNS[0], COLUMNS[1], COLUMNS[3]]);
    for tool in data["tools"].as_array().into_iter().flatten() {
        table.row(vec![text(&tool["tool_id"]).into(), verb(tool).into(), described(tool).into()]);
    }
    if table.is_empty() {
        return output::tell(
            "No tool can be called now; `mcpproxy upstream list` shows how the servers are.",
        );
    }
    table.print();
}

fn print_found(data: &Value) {
    let mut table = Table::new(&COLUMNS);
    for hit in data["results"].as_array().into_iter().flatten() {
        let tool = &hit["tool"];
        let score = format!("{:.2}", hit["score"].as_f64().unwrap_or_default());
        table.row(vec![
            text(&tool["tool_id"]).into(),
            verb(tool).into(),
            score.into(),
            described(tool).into(),
        ]);
    }
    if table.is_empty() {
        return output::tell("No tool fits; other words may find one.");
    }
    table.print();
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The command of ours that calls it.
fn verb(tool: &Value) -> String {
    text(&tool["call_with"]).trim_start_matches("call_").replace('_', "-")
}

/// The first line of what its server says.
fn described(tool: &Value) -> String {
    text(&tool["description"]).lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("-").to_owned()
}
