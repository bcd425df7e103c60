//! `upstream`: the servers of the configuration, as the running gateway has them or as the file names them.

use std::time::Duration;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::place::Failure;
use super::remote::{Remote, segment};
use super::setup::{self, Configured, exit};
use super::status::state_tint;
use super::table::{Cell, Column, Keep, Table};
use super::{Common, output};
use crate::serve::rest::servers;

/// How long the running gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to do with servers.
#[derive(Subcommand)]
pub enum What {
    /// The servers and what they are doing
    List,
    /// Switch a server on, in the configuration file
    Enable {
        /// Its name
        name: String,
    },
    /// Switch a server off, in the configuration file
    Disable {
        /// Its name
        name: String,
    },
    /// End a server and start it again
    Restart {
        /// Its name
        name: String,
    },
    /// The last lines that a server wrote to standard error
    Logs {
        /// Its name
        name: String,
        /// At most so many lines
        #[arg(short = 'n', long = "tail", alias = "lines", default_value_t = servers::LOG_LINES)]
        lines: usize,
    },
}

/// Runs the command.
pub fn run(common: &Common, what: What) -> u8 {
    act(common, what).unwrap_or_else(Failure::tell)
}

fn act(common: &Common, what: What) -> Result<u8, Failure> {
    let configured = setup::at_work(common, |_| {})?;
    let remote = Remote::find(configured.config())?;
    if remote.is_none() {
        configured.in_order()?;
    }
    match what {
        What::List => list(common, &configured, remote.as_ref())?,
        What::Enable { name } => switch(common, &configured, remote.as_ref(), &name, true)?,
        What::Disable { name } => switch(common, &configured, remote.as_ref(), &name, false)?,
        What::Restart { name } => {
            let remote = remote.ok_or_else(|| no_gateway("there is nothing to restart"))?;
            let data = ask(&remote, Method::POST, &format!("/api/v1/servers/{}/restart", segment(&name)))?;
            done(common, &data, &format!("Server '{name}' is started again."));
        }
        What::Logs { name, lines } => {
            let data = logs(&configured, remote.as_ref(), &name, lines)?;
            print_logs(common, &data);
        }
    }
    Ok(exit::OK)
}

fn ask(remote: &Remote, method: Method, path: &str) -> Result<Value, Failure> {
    let answer = setup::block_on(remote.ask(method, path, PATIENCE))?;
    Ok(answer.map_err(|refused| refused.message)?["data"].take())
}

fn no_gateway(so: &str) -> Failure {
    Failure::Text(format!("no gateway runs on this data directory, so {so}; `mcpproxy serve` starts one"))
}

fn list(common: &Common, configured: &Configured, remote: Option<&Remote>) -> Result<(), Failure> {
    let servers = match remote {
        Some(remote) => ask(remote, Method::GET, "/api/v1/servers")?["servers"].take(),
        None => json!(configured.config().servers.iter().map(servers::not_running).collect::<Vec<_>>()),
    };
    if output::value(common.output, &servers) {
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::new("NAME", Keep::Start),
        Column::new("PROTOCOL", Keep::All).spare(),
        Column::new("TOOLS", Keep::All).right(),
        Column::new("STATUS", Keep::All),
        Column::new("ACTION", Keep::All),
        Column::new("DETAIL", Keep::Start),
    ]);
    for server in servers.as_array().into_iter().flatten() {
        let text = |value: &Value| match value.as_str() {
            None | Some("") => "-".to_owned(),
            Some(text) => text.lines().next().unwrap_or_default().to_owned(),
        };
        let status = text(&server["status"]);
        let tint = state_tint(&status);
        table.row(vec![
            text(&server["name"]).into(),
            text(&server["protocol"]).into(),
            server["tool_count"].to_string().into(),
            Cell::from(status).tinted(tint),
            action(text(&server["health"]["action"])).into(),
            text(&server["detail"]).into(),
        ]);
    }
    if table.is_empty() {
        output::tell("No servers are configured: add them under \"mcpServers\" in the configuration file.");
    } else {
        table.print();
    }
    Ok(())
}

/// What the reference calls an approval is an edit of the file as long as there is no command for it.
fn action(named: String) -> String {
    if named == "approve" { "edit".to_owned() } else { named }
}

fn switch(
    common: &Common,
    configured: &Configured,
    remote: Option<&Remote>,
    name: &str,
    on: bool,
) -> Result<(), Failure> {
    let (action, past) = if on { ("enable", "on") } else { ("disable", "off") };
    let data = match remote {
        Some(remote) => ask(remote, Method::POST, &format!("/api/v1/servers/{}/{action}", segment(name)))?,
        None => {
            known(configured, name)?;
            config::edit::set_server(&configured.sources.path, name, "enabled", Value::Bool(on))
                .map_err(|problem| problem.to_string())?;
            json!({"server": name, "action": action, "success": true, "async": false})
        }
    };
    done(common, &data, &format!("Server '{name}' is switched {past}."));
    Ok(())
}

fn known(configured: &Configured, name: &str) -> Result<(), Failure> {
    if configured.config().servers.iter().any(|server| server.name == name) {
        return Ok(());
    }
    Err(format!("no server named '{name}' is in the configuration").into())
}

fn done(common: &Common, data: &Value, text: &str) {
    if !output::value(common.output, data) {
        output::line(&output::shown(text));
    }
}

fn logs(
    configured: &Configured,
    remote: Option<&Remote>,
    name: &str,
    lines: usize,
) -> Result<Value, Failure> {
    if let Some(remote) = remote {
        let path = format!("/api/v1/servers/{}/logs?tail={lines}", segment(name));
        return ask(remote, Method::GET, &path);
    }
    known(configured, name)?;
    let path = gateway::server_log(&configured.config().log_dir, name);
    let log = servers::log_value(&path, name, lines);
    Ok(log.map_err(|error| format!("{} cannot be read: {error}", path.display()))?)
}

fn print_logs(common: &Common, data: &Value) {
    if output::value(common.output, data) {
        return;
    }
    let logs = data["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if logs.is_empty() {
        output::tell("The log is empty.");
    }
    for line in logs {
        let text = |key: &str| line[key].as_str().unwrap_or("-");
        let mark = if text("level") == "info" { "--- " } else { "" };
        output::line(&output::shown(&format!("{} {mark}{}", text("timestamp"), text("message"))));
    }
}
