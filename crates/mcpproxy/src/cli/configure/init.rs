//! `config init`: a first file, a directory for saved answers, and the line for each client.

use std::fs;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use config::{Document, Loaded, Sources};
use serde_json::json;

use crate::cli::place::Failure;
use crate::cli::setup::exit;
use crate::cli::{Common, output};

/// Where answers go when nobody says otherwise.
const DEFAULT: &str = "~/mcp-output";

/// Flags of `config init`.
#[derive(Args)]
pub struct Flags {
    /// Make a directory, mode 0700, that answers may be saved in; without a value ~/mcp-output. Asked for on a terminal
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = DEFAULT)]
    output_dir: Option<PathBuf>,
    /// Make none: answers cannot be saved to files
    #[arg(long, conflicts_with = "output_dir")]
    no_output_dir: bool,
}

/// Runs the command.
///
/// # Errors
/// What is in the way; then no file was written.
pub fn run(common: &Common, flags: &Flags) -> Result<u8, Failure> {
    let sources = super::sources(common, None).map_err(|problem| problem.to_string())?;
    let path = &sources.path;
    if path.symlink_metadata().is_ok() {
        let text = format!(
            "{} exists already and is left as it is; edit it, or name another file with --config",
            path.display()
        );
        return Err(text.into());
    }
    let dir = wanted_dir(flags)?;
    let made = dir.as_deref().map(make).transpose()?;
    let text = first_text(dir.as_deref());
    let loaded = match judge(&sources, &text) {
        Ok(loaded) => loaded,
        Err(problems) => {
            for dir in made.iter().flatten() {
                // Only what we made, and only while it is empty.
                let _ = fs::remove_dir(dir);
            }
            output::tell("No file was written:");
            for problem in problems {
                output::tell(&format!("  {}", output::shown(&problem)));
            }
            return Ok(exit::CONFIG);
        }
    };
    config::edit::create(path, &text).map_err(|problem| problem.to_string())?;
    tell(common, &loaded, dir.as_deref());
    match config::load(&sources) {
        Ok(_) => Ok(exit::OK),
        Err(problems) => {
            output::tell("The file was written, but it cannot be used yet:");
            for problem in problems {
                output::tell(&format!("  {}", output::shown(&problem.to_string())));
            }
            Ok(exit::CONFIG)
        }
    }
}

/// The directory that was named, or is named now.
fn wanted_dir(flags: &Flags) -> Result<Option<PathBuf>, Failure> {
    let named = match &flags.output_dir {
        _ if flags.no_output_dir => None,
        Some(dir) => Some(dir.clone()),
        None if io::stdin().is_terminal() && io::stderr().is_terminal() => asked(),
        None => {
            output::tell(
                "No directory for saved answers was named, so there is none yet: give --output-dir [DIR], or add it \
                 to \"tool_output_roots\" later.",
            );
            None
        }
    };
    named.map(|dir| absolute(&dir)).transpose()
}

fn asked() -> Option<PathBuf> {
    output::tell("Agents can save large answers into files, beneath directories that you name.");
    output::tell(&format!("Directory to make for them, - for none [{DEFAULT}]:"));
    let mut line = String::new();
    // An input that ended is no consent to a new directory.
    match io::stdin().lock().read_line(&mut line) {
        Ok(1..) => match line.trim() {
            "" => Some(PathBuf::from(DEFAULT)),
            "-" => None,
            dir => Some(PathBuf::from(dir)),
        },
        _ => None,
    }
}

fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    let dir = match dir.strip_prefix("~") {
        Ok(rest) => {
            let home = std::env::home_dir().filter(|home| home.is_absolute());
            home.ok_or_else(|| "no home directory is known: name the whole path".to_owned())?.join(rest)
        }
        Err(_) => dir.to_owned(),
    };
    Ok(std::path::absolute(&dir).map_err(|error| format!("{}: {error}", dir.display()))?)
}

/// Makes the directory, private, if it is missing. Gives the directories that it made, the innermost first.
fn make(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let failed = |error: io::Error| format!("the directory {} cannot be made: {error}", dir.display());
    let missing = dir.ancestors().take_while(|above| above.symlink_metadata().is_err());
    let missing = missing.map(Path::to_owned).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    Ok(missing)
}

fn first_text(dir: Option<&Path>) -> String {
    let roots: Vec<_> = dir.into_iter().collect();
    format!("{{\n  \"tool_output_roots\": {},\n  \"mcpServers\": {{}}\n}}\n", json!(roots))
}

/// The text as a configuration, its roots included.
fn judge(sources: &Sources, text: &str) -> Result<Loaded, Vec<String>> {
    let texts = |problems: Vec<config::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    let document = Document::parse(text).map_err(texts)?;
    let (config, warnings) = config::check(&document, sources).map_err(texts)?;
    let loaded = Loaded { path: sources.path.clone(), config, warnings, document, first_run: false };
    crate::serve::judge::roots(&loaded).map_err(texts)?;
    Ok(loaded)
}

/// The line for each client, given where the gateway listens.
fn clients(url: &str) -> [(&'static str, String); 5] {
    [
        ("Claude Code", format!("claude mcp add --scope user --transport http mcpproxy {url}")),
        ("Cursor", format!("~/.cursor/mcp.json: {}", json!({"mcpServers": {"mcpproxy": {"url": url}}}))),
        ("VS Code", format!("code --add-mcp '{}'", json!({"name": "mcpproxy", "type": "http", "url": url}))),
        ("Codex", format!("codex mcp add mcpproxy --url {url}")),
        ("Gemini", format!("gemini mcp add --scope user --transport http mcpproxy {url}")),
    ]
}

fn tell(common: &Common, loaded: &Loaded, dir: Option<&Path>) {
    let url = format!("http://{}/mcp", loaded.config.listen);
    let clients = clients(&url);
    let listed: Vec<_> = clients.iter().map(|(name, how)| json!({"name": name, "how": how})).collect();
    let told = json!({"path": loaded.path, "output_dir": dir, "url": url, "clients": listed});
    if output::value(common.output, &told) {
        return;
    }
    let file = loaded.path.display();
    output::line(&output::shown(&format!("Written: {file} (mode 0600)")));
    if let Some(dir) = dir {
        output::line(&output::shown(&format!("Answers may be saved in {}", dir.display())));
    }
    output::line("");
    output::line("Add your servers under \"mcpServers\", start the gateway, and tell your client:");
    output::line("");
    output::pair("start", &output::shown(&format!("mcpproxy serve{}", flags_again(common))));
    for (name, how) in &clients {
        output::pair(name, how);
    }
}

/// The flags that lead to the same file again.
fn flags_again(common: &Common) -> String {
    let flag = |name: &str, value: &Option<PathBuf>| {
        let value =
            value.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        value.map_or(String::new(), |path| {
            format!(" {name} '{}'", path.to_string_lossy().replace('\'', "'\\''"))
        })
    };
    flag("--config", &common.config) + &flag("--data-dir", &common.data_dir)
}
