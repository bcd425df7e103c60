//! `config`: the configuration file, checked, shown, described, begun, and loaded again by the gateway that runs.

mod init;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use config::show::{self, Origin};
use config::{Loaded, Overrides, Problem, Sources, Variables};
use http::Method;
use serde_json::{Value, json};

use super::place::Failure;
use super::remote::Remote;
use super::setup::{self, exit};
use super::table::{Cell, Column, Keep, Table, Tint};
use super::{Common, Form, output};
use crate::serve::judge;

/// How long the running gateway may take to go over to another configuration: servers are ended and started.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to do with the configuration.
#[derive(Subcommand)]
pub enum What {
    /// Say whether a file is in order, and everything that is not
    Validate {
        /// The file [default: the one in use]
        file: Option<PathBuf>,
    },
    /// The configuration in effect: defaults, file, environment and flags together, secrets hidden
    Show,
    /// The JSON Schema of the file, for editors
    Schema,
    /// Which file is in use, and whether it is there
    Path,
    /// Write a first file, make a directory for saved answers, and say how to connect each client
    Init(init::Flags),
    /// Have the running gateway load its file again, also when no byte of it changed
    Reload,
}

/// Runs the command.
pub fn run(common: &Common, what: &What) -> u8 {
    let done = match what {
        What::Validate { file } => validate(common, file.as_deref()),
        What::Show => show(common),
        What::Schema => {
            schema(common);
            Ok(exit::OK)
        }
        What::Path => path(common),
        What::Init(flags) => init::run(common, flags),
        What::Reload => reload(common),
    };
    done.unwrap_or_else(Failure::tell)
}

/// Where this command line finds the configuration.
fn sources(common: &Common, file: Option<&Path>) -> Result<Sources, Problem> {
    let overrides = Overrides {
        config: file.map(Path::to_owned).or_else(|| common.config.clone()),
        data_dir: common.data_dir.clone(),
        config_owner: common.config_owner.clone(),
        log_level: common.log_level.clone(),
        ..Overrides::default()
    };
    Sources::new(overrides, Variables::of_process())
}

fn validate(common: &Common, file: Option<&Path>) -> Result<u8, Failure> {
    let (path, judged) = match sources(common, file) {
        Ok(sources) => {
            let judged = judge(&sources, file.is_some());
            (sources.path, judged)
        }
        Err(problem) => (file.map(Path::to_owned).unwrap_or_default(), Err(vec![problem])),
    };
    let code = if judged.is_ok() { exit::OK } else { exit::CONFIG };
    let (first_run, problems, warnings) = match judged {
        Ok(loaded) => (loaded.first_run, Vec::new(), loaded.warnings),
        Err(problems) => (false, problems, Vec::new()),
    };
    let told = json!({
        "valid": problems.is_empty(), "path": path, "exists": path.exists(),
        "problems": values(&problems), "warnings": values(&warnings),
    });
    if !output::value(common.output, &told) {
        let path = path.to_string_lossy();
        let verdict = match (problems.len(), first_run) {
            (0, false) => "is in order".to_owned(),
            (0, true) => {
                "is not there: the defaults apply; `mcpproxy config init` writes a first one".to_owned()
            }
            (1, _) => "is not in order: 1 problem".to_owned(),
            (count, _) => format!("is not in order: {count} problems"),
        };
        output::line(&output::shown(&format!("{path} {verdict}")));
        lines("problem", &problems);
        lines("warning", &warnings);
    }
    Ok(code)
}

/// Reads a file as `serve` would, to the roots; starts and makes nothing.
fn judge(sources: &Sources, must_exist: bool) -> Result<Loaded, Vec<Problem>> {
    let loaded = judge::load(sources)?;
    if loaded.first_run && must_exist {
        let path = sources.path.display().to_string();
        return Err(vec![Problem::new(path, "does not exist", "name a file that is there")]);
    }
    judge::roots(&loaded)?;
    Ok(loaded)
}

fn values(problems: &[Problem]) -> Vec<Value> {
    problems.iter().map(|p| json!({"path": p.path, "message": p.message, "fix": p.fix})).collect()
}

fn lines(what: &str, problems: &[Problem]) {
    for problem in problems {
        output::line(&output::shown(&format!("  {what}: {problem}")));
    }
}

fn show(common: &Common) -> Result<u8, Failure> {
    let configured = setup::configuration(common, |_| {})?;
    let (loaded, sources) = (&configured.loaded, &configured.sources);
    if loaded.first_run {
        let path = sources.path.to_string_lossy();
        output::tell(&output::shown(&format!("There is no file {path}: these are the defaults.")));
    }
    if output::value(common.output, &show::whole(loaded, sources)) {
        return Ok(exit::OK);
    }
    let mut table = Table::new(&[
        Column::new("KEY", Keep::All),
        Column::new("VALUE", Keep::Start),
        Column::new("FROM", Keep::All),
    ]);
    for setting in show::settings(loaded, sources) {
        let tint = if setting.origin == Origin::Default { Tint::Plain } else { Tint::Good };
        let from = Cell::from(setting.origin.as_str()).tinted(tint);
        table.row(vec![setting.path.into(), text(&setting.value).into(), from]);
    }
    table.print();
    let servers = show::servers(loaded);
    if servers.is_empty() {
        return Ok(exit::OK);
    }
    let mut table = Table::new(&[
        Column::new("SERVER", Keep::Start),
        Column::new("ENABLED", Keep::All),
        Column::new("PROTOCOL", Keep::All).spare(),
        Column::new("COMMAND OR ADDRESS", Keep::Start),
        Column::new("TIMEOUT", Keep::All).spare(),
    ]);
    for server in &servers {
        let launch = server.get("command").or_else(|| server.get("url")).map_or_else(String::new, text);
        let args: Vec<String> = server["args"].as_array().into_iter().flatten().map(text).collect();
        table.row(vec![
            text(&server["name"]).into(),
            text(&server["enabled"]).into(),
            text(&server["protocol"]).into(),
            [vec![launch], args].concat().join(" ").into(),
            text(&server["call_tool_timeout"]).into(),
        ]);
    }
    output::print("\n");
    table.print();
    Ok(exit::OK)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The schema is JSON in every form but YAML.
fn schema(common: &Common) {
    match common.output {
        Form::Yaml => {
            output::value(Form::Yaml, &config::schema());
        }
        Form::Table | Form::Json => output::print(&config::schema_text()),
    }
}

fn path(common: &Common) -> Result<u8, Failure> {
    let sources = sources(common, None).map_err(|problem| problem.to_string())?;
    let exists = sources.path.exists();
    if !output::value(common.output, &json!({"path": sources.path, "exists": exists})) {
        output::line(&output::shown(&sources.path.to_string_lossy()));
        let state = if exists {
            "It exists."
        } else {
            "It does not exist: the defaults apply. `mcpproxy config init` writes a first one."
        };
        output::tell(state);
    }
    if let Some(notice) = config::ignored_file_in_cwd(&sources.path) {
        output::tell(&output::shown(&notice));
    }
    Ok(exit::OK)
}

fn reload(common: &Common) -> Result<u8, Failure> {
    let configured = setup::at_work(common, |_| {})?;
    let Some(remote) = Remote::find(configured.config())? else {
        let text = "no gateway runs on this data directory, so there is nothing to reload; \
            the file is read when `mcpproxy serve` starts";
        return Err(Failure::Text(text.to_owned()));
    };
    let answer = setup::block_on(remote.ask(Method::POST, "/api/v1/config/reload", PATIENCE))?;
    let data = match answer {
        Ok(mut answer) => answer["data"].take(),
        Err(refused) => {
            output::tell(&format!("Error: {}", output::shown(&refused.message)));
            let is_file = refused.status == Some(http::StatusCode::BAD_REQUEST);
            return Ok(if is_file { exit::CONFIG } else { exit::GENERAL });
        }
    };
    if !output::value(common.output, &data) {
        print_reload(&data);
    }
    Ok(exit::OK)
}

fn print_reload(data: &Value) {
    let names = |key: &str| {
        let list = data[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<String> = list.iter().map(text).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let parts = [
        ("Obeyed from now on", names("changed_fields")),
        ("Obeyed after a restart", names("restart_fields")),
        ("Servers started", names("servers")),
        ("Servers ended", names("gone")),
    ];
    output::line("The configuration is loaded.");
    if parts.iter().all(|(_, names)| names.is_none()) {
        output::line("Nothing in it changed.");
    }
    for (what, names) in parts {
        if let Some(names) = names {
            output::pair(what, &names);
        }
    }
}
