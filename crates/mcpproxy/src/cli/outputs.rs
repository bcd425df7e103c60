//! `outputs`: the saved answers of a data directory, through the running gateway or, without one, from the record itself.

mod desk;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use config::LogLevel;
use http::StatusCode;
use serde_json::{Value, json};

use super::place::Failure;
use super::progress::Progress;
use super::remote::Refused;
use super::setup::{self, exit};
use super::table::{Cell, Column, Keep, Table, Tint};
use super::{Common, output};
use crate::serve::rest::outputs::Page;
use desk::Desk;

const DAY: Duration = Duration::from_secs(86_400);

/// What to do with saved answers.
#[derive(Subcommand)]
pub enum What {
    /// The saved answers, newest first
    List(List),
    /// All that is known of one
    Show {
        /// Its id, the request id of its call, or its path
        id: String,
    },
    /// Whether a saved answer, or each of them, still is what was saved
    Verify {
        /// Its id, the request id of its call, or its path
        id: Option<String>,
    },
    /// Remove a saved answer, if it still is what was saved
    Rm {
        /// Its id, the request id of its call, or its path
        id: String,
    },
    /// Remove old saved answers, those that still are what was saved
    Prune(Prune),
}

/// Flags of `outputs list`.
#[derive(Args)]
pub struct List {
    /// Only those beneath this root
    #[arg(long, value_name = "DIR")]
    root: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50)]
    limit: usize,
    /// Leave out so many of the newest
    #[arg(long, default_value_t = 0)]
    offset: usize,
}

/// Flags of `outputs prune`.
#[derive(Args)]
pub struct Prune {
    /// Those saved longer ago than this, such as 7d, 12h or 90m
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Duration,
    /// Only those beneath this root
    #[arg(long, value_name = "DIR")]
    root: Option<String>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub fn run(common: &Common, what: What) -> u8 {
    act(common, what).unwrap_or_else(Failure::tell)
}

fn act(common: &Common, what: What) -> Result<u8, Failure> {
    let configured = setup::at_work(common, |_| {})?;
    setup::log(configured.config(), common.log_level.is_none().then_some(LogLevel::Warn));
    let removes = matches!(what, What::Rm { .. } | What::Prune(Prune { dry_run: false, .. }));
    setup::block_on(async {
        let desk = Desk::open(configured, removes).await?;
        match what {
            What::List(list) => show_list(common, &desk, list).await,
            What::Show { id } => show_one(common, &desk, &id).await,
            What::Verify { id: Some(id) } => verify_one(common, &desk, &id).await,
            What::Verify { id: None } => verify_all(common, &desk).await,
            What::Rm { id } => remove_one(common, &desk, &id).await,
            What::Prune(flags) => prune(common, &desk, flags).await,
        }
    })?
}

const COLUMNS: [Column; 6] = [
    Column::new("ID", Keep::All),
    Column::new("BYTES", Keep::All).right(),
    Column::new("PATH", Keep::End),
    Column::new("TOOL", Keep::Start).spare(),
    Column::new("FORMAT", Keep::All).spare(),
    Column::new("SAVED (UTC)", Keep::All).spare(),
];

async fn show_list(common: &Common, desk: &Desk, list: List) -> Result<u8, Failure> {
    let List { root, limit, offset } = list;
    let page = desk.page(Page { root, until_ms: None, limit: Some(limit), offset: Some(offset) }).await?;
    if output::value(common.output, &page) {
        return Ok(exit::OK);
    }
    let mut table = Table::new(&COLUMNS);
    for file in page["outputs"].as_array().into_iter().flatten() {
        let tool = match (file["server"].as_str(), file["tool"].as_str()) {
            (Some(server), Some(tool)) => format!("{server}:{tool}"),
            _ => "-".to_owned(),
        };
        table.row(vec![
            text(&file["id"]).into(),
            file["bytes"].to_string().into(),
            text(&file["path"]).into(),
            tool.into(),
            text(&file["format"]).into(),
            minute(file).into(),
        ]);
    }
    if table.is_empty() {
        output::tell("No saved answers.");
    } else {
        table.print();
    }
    Ok(exit::OK)
}

async fn show_one(common: &Common, desk: &Desk, id: &str) -> Result<u8, Failure> {
    let data = desk.one(id).await?;
    if output::value(common.output, &data) {
        return Ok(exit::OK);
    }
    for (name, value) in data["output"].as_object().into_iter().flatten().filter(|(_, v)| !v.is_null()) {
        output::pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    Ok(exit::OK)
}

async fn verify_one(common: &Common, desk: &Desk, id: &str) -> Result<u8, Failure> {
    let progress = Progress::of("reading the file");
    let verdict = desk.verify(id).await;
    progress.end().await;
    let verdict = verdict?;
    if !output::value(common.output, &verdict) {
        output::line(&output::shown(&format!(
            "{} {}",
            text(&verdict["state"]),
            text(&verdict["output"]["path"])
        )));
        if let Some(detail) = verdict["detail"].as_str() {
            output::tell(&output::shown(detail));
        }
    }
    Ok(if verdict["ok"] == true { exit::OK } else { exit::GENERAL })
}

async fn verify_all(common: &Common, desk: &Desk) -> Result<u8, Failure> {
    let files = desk.all(None, None).await?;
    let progress = Progress::of(&format!("reading {} files", files.len()));
    let verdicts = verify_each(desk, &files).await;
    progress.end().await;
    let verdicts = verdicts?;
    let bad = verdicts.iter().filter(|verdict| verdict["ok"] != true).count();
    let data = json!({"verified": verdicts, "total": verdicts.len(), "not_ok": bad});
    if !output::value(common.output, &data) {
        let mut table = Table::new(&[
            Column::new("STATE", Keep::All),
            Column::new("ID", Keep::All),
            Column::new("PATH", Keep::End),
        ]);
        for verdict in &verdicts {
            let tint = if verdict["ok"] == true { Tint::Good } else { Tint::Bad };
            let file = &verdict["output"];
            let state = Cell::from(text(&verdict["state"])).tinted(tint);
            table.row(vec![state, text(&file["id"]).into(), text(&file["path"]).into()]);
        }
        if !table.is_empty() {
            table.print();
        }
        output::tell(&format!("{} saved answers, {bad} of them are not what was saved.", verdicts.len()));
    }
    Ok(if bad == 0 { exit::OK } else { exit::GENERAL })
}

async fn verify_each(desk: &Desk, files: &[Value]) -> Result<Vec<Value>, Refused> {
    let mut verdicts = Vec::with_capacity(files.len());
    for file in files {
        match desk.verify(text(&file["id"])).await {
            Ok(verdict) => verdicts.push(verdict),
            // It was removed, or saved anew, since it was listed.
            Err(Refused { status: Some(StatusCode::NOT_FOUND), .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(verdicts)
}

async fn remove_one(common: &Common, desk: &Desk, id: &str) -> Result<u8, Failure> {
    let data = desk.remove(id).await?;
    if !output::value(common.output, &data) {
        let what = if data["removed"] == true { "removed" } else { "was gone already:" };
        output::line(&output::shown(&format!("{what} {}", text(&data["output"]["path"]))));
    }
    Ok(exit::OK)
}

async fn prune(common: &Common, desk: &Desk, flags: Prune) -> Result<u8, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let until = now.saturating_sub(flags.older_than).as_millis();
    let until = i64::try_from(until).unwrap_or(i64::MAX);
    let files = desk.all(flags.root.as_deref(), Some(until)).await?;
    let progress = Progress::of(&format!("removing {} files", files.len()));
    let pruned = prune_each(desk, files, flags.dry_run).await;
    progress.end().await;
    let pruned = pruned?;
    let count = |result: &str| pruned.iter().filter(|file| file["result"] == result).count();
    let (removed, kept) = (count("removed") + count("would be removed"), count("kept"));
    let data = json!({"dry_run": flags.dry_run, "files": pruned, "removed": removed, "gone": count("gone"), "kept": kept});
    if !output::value(common.output, &data) {
        print_pruned(&pruned);
        let would = if flags.dry_run { "would be removed" } else { "removed" };
        output::tell(&format!("{removed} {would}, {} were gone already, {kept} kept.", count("gone")));
    }
    Ok(if kept == 0 { exit::OK } else { exit::GENERAL })
}

/// What became of each file. One that is not what was saved stays, and so does one that could not be removed.
async fn prune_each(desk: &Desk, files: Vec<Value>, dry_run: bool) -> Result<Vec<Value>, Refused> {
    let mut pruned = Vec::with_capacity(files.len());
    for mut file in files {
        let removed = if dry_run { None } else { Some(desk.remove(text(&file["id"])).await) };
        let (result, why) = match removed {
            None => ("would be removed", None),
            Some(Ok(data)) if data["removed"] == true => ("removed", None),
            Some(Ok(_)) => ("gone", None),
            // It was removed, or saved anew, since it was listed.
            Some(Err(Refused { status: Some(StatusCode::NOT_FOUND), .. })) => continue,
            Some(Err(Refused { status: Some(_), message })) => ("kept", Some(message)),
            Some(Err(other)) => return Err(other),
        };
        file["result"] = json!(result);
        file["why"] = json!(why);
        pruned.push(file);
    }
    Ok(pruned)
}

fn print_pruned(pruned: &[Value]) {
    let mut table = Table::new(&[
        Column::new("RESULT", Keep::All),
        Column::new("BYTES", Keep::All).right(),
        Column::new("PATH", Keep::End),
        Column::new("SAVED (UTC)", Keep::All).spare(),
    ]);
    for file in pruned {
        let tint = if file["result"] == "kept" { Tint::Bad } else { Tint::Plain };
        table.row(vec![
            Cell::from(text(&file["result"])).tinted(tint),
            file["bytes"].to_string().into(),
            text(&file["path"]).into(),
            minute(file).into(),
        ]);
        if let Some(why) = file["why"].as_str() {
            output::tell(&output::shown(why));
        }
    }
    if !table.is_empty() {
        table.print();
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// When it was saved, to the minute.
fn minute(file: &Value) -> String {
    text(&file["saved_at"]).chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

/// A number with a unit: `d` for days, or what durations of the configuration have.
fn age(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').map(|days| days.trim().parse::<u32>());
    match days {
        Some(Ok(days)) => Ok(DAY.saturating_mul(days)),
        Some(Err(_)) => Err("give a whole number of days, such as 7d".to_owned()),
        None => config::duration::parse(text.trim())
            .map_err(|e| format!("{e}; give an age such as 7d, 12h or 90m")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("7d"), Ok(DAY * 7));
        assert_eq!(age("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(age("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(age("0"), Ok(Duration::ZERO));
        for bad in ["", "7", "d", "-1d", "1.5d", "week", "-3h"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
