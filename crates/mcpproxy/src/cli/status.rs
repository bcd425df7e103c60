//! `status`: whether a gateway runs here, where it listens and how its servers are.

use clap::Args;
use serde_json::{Value, json};

use super::remote::{self, Remote};
use super::setup::{self, exit};
use super::table::{Cell, Column, Keep, Table, Tint, fitted};
use super::{Common, output};

/// Flags of `status`.
#[derive(Args)]
pub struct Flags {
    /// Print the whole API key
    #[arg(long)]
    show_key: bool,
}

/// Runs the command.
pub fn run(common: &Common, flags: &Flags) -> u8 {
    let configured = match setup::at_work(common, |_| {}) {
        Ok(configured) => configured,
        Err(code) => return code,
    };
    let config = configured.config();
    let asked = match Remote::find(config) {
        Ok(None) => Ok(None),
        Ok(Some(remote)) => {
            setup::block_on(remote.get("/api/v1/status")).unwrap_or(Err("no threads".into())).map(Some)
        }
        Err(error) => Err(error),
    };
    let answer = match asked {
        Ok(answer) => answer,
        Err(error) => {
            output::tell(&format!("Error: {}", output::shown(&error)));
            return exit::GENERAL;
        }
    };
    let key = match remote::key(config) {
        Ok(key) => key.map(|k| {
            let shown = if flags.show_key { k.reveal().to_owned() } else { masked(k.reveal()) };
            (shown, k.origin().to_string())
        }),
        Err(error) => {
            output::tell(&format!("Error: {error}"));
            return exit::GENERAL;
        }
    };
    let mut status = answer.map_or_else(|| json!({"running": false}), |mut value| value["data"].take());
    status["state"] = json!(if status["running"] == true { "running" } else { "not running" });
    status["api_key"] = json!(key.as_ref().map(|(shown, _)| shown));
    status["api_key_origin"] = json!(key.as_ref().map(|(_, origin)| origin));
    status["config_path"] = json!(configured.sources.path);
    status["data_dir"] = json!(config.data_dir);
    if !output::value(common.output, &status) {
        print(&status);
    }
    exit::OK
}

/// The ends of a key, enough to tell two apart.
fn masked(key: &str) -> String {
    if key.len() < 16 || !key.is_ascii() {
        return "****".into();
    }
    format!("{}****{}", &key[..4], &key[key.len() - 4..])
}

fn print(status: &Value) {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => output::shown(text),
        other => other.to_string(),
    };
    for (name, key) in [
        ("State", "state"),
        ("Version", "version"),
        ("Process", "pid"),
        ("Listening on", "listen_addr"),
        ("Unix socket", "socket_path"),
        ("API key", "api_key"),
        ("API key from", "api_key_origin"),
        ("Configuration", "config_path"),
        ("Data directory", "data_dir"),
    ] {
        output::line(&format!("{name:<15} {}", text(&status[key])));
    }
    if let Some(error) = status["config_error"].as_str() {
        output::line(&format!("Not obeyed      the file as it is now: {}", output::shown(error)));
    }
    if let Some(keys) = status["needs_restart"].as_array().filter(|keys| !keys.is_empty()) {
        let keys: Vec<String> = keys.iter().map(text).collect();
        output::line(&format!("Needs a restart {}", keys.join(", ")));
    }
    if status["store"]["ok"] == false {
        output::line(&format!("Record          cannot be written: {}", text(&status["store"]["message"])));
    }
    let Some(servers) = status["servers"].as_array().filter(|s| !s.is_empty()) else {
        if status["running"] == true {
            output::line(
                "No servers are configured: add them under \"mcpServers\" in the configuration file.",
            );
        }
        return;
    };
    let mut table = Table::new(&[
        Column::new("SERVER", Keep::Start),
        Column::new("PROTOCOL", Keep::All),
        Column::new("STATE", Keep::All),
        Column::new("TOOLS", Keep::All).right(),
        Column::new("DETAIL", Keep::Start),
    ]);
    for server in servers {
        let state = text(&server["state"]);
        let tint = state_tint(&state);
        table.row(vec![
            text(&server["name"]).into(),
            text(&server["protocol"]).into(),
            Cell::from(state).tinted(tint),
            text(&server["tool_count"]).into(),
            fitted(&text(&server["detail"]), 120, Keep::Start).into(),
        ]);
    }
    output::print("\n");
    table.print();
}

/// The colour of a server's state.
pub fn state_tint(state: &str) -> Tint {
    match state {
        "ready" => Tint::Good,
        "failed" | "unsupported" => Tint::Bad,
        "connecting" | "quarantined" => Tint::Attention,
        _ => Tint::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_key_shows_only_its_ends() {
        assert_eq!(masked("0123456789abcdef"), "0123****cdef");
        assert_eq!(masked("short"), "****");
    }
}
