//! Where files and directories are: the configuration, the data, the logs.

use std::path::{Path, PathBuf};

use crate::problem::{Findings, Problem, quoted};
use crate::scope::Scope;
use crate::secrets::expand;
use crate::{Overrides, Sources, Variables};

const DIRECTORY: &str = ".mcpproxy";
const FILE: &str = "mcp_config.json";

/// The configuration file: named, else in the data directory that is named, else in the home directory.
pub(crate) fn config_path(overrides: &Overrides, variables: &Variables) -> Result<PathBuf, Problem> {
    let absolute_path = |path: &Path, name: &str| {
        std::path::absolute(path).map_err(|error| {
            Problem::new(name, format!("cannot be made absolute ({error})"), "name it with its whole path")
        })
    };
    if let Some(path) = &overrides.config {
        return absolute_path(path, "--config");
    }
    if let Some((name, dir)) = named_data_dir(overrides, variables) {
        return Ok(absolute_path(&dir, &name)?.join(FILE));
    }
    let home = home(variables).ok_or_else(|| {
        Problem::new("HOME", "no home directory is known", "set HOME, or give --config and --data-dir")
    })?;
    Ok(home.join(DIRECTORY).join(FILE))
}

/// The data directory, absolute.
pub(crate) fn data_dir(global: &Scope<'_>, sources: &Sources, findings: &mut Findings) -> PathBuf {
    if let Some((name, dir)) = named_data_dir(&sources.overrides, &sources.variables) {
        return std::path::absolute(&dir).unwrap_or_else(|error| {
            let message = format!("cannot be made absolute ({error})");
            findings.problem(Problem::new(name, message, "name it with its whole path"));
            dir
        });
    }
    match global.text("data_dir") {
        Some(text) => written_dir(&text, global.path("data_dir"), sources, findings),
        None => home(&sources.variables).map(|home| home.join(DIRECTORY)).unwrap_or_else(|| {
            let fix = "set HOME, or give --data-dir";
            findings.problem(Problem::new(global.path("data_dir"), "no home directory is known", fix));
            PathBuf::from("/nonexistent")
        }),
    }
}

/// The directory of the logs, absolute.
pub(crate) fn log_dir(global: &Scope<'_>, data_dir: &Path, findings: &mut Findings) -> PathBuf {
    let Some(dir) = global.text("logging.log_dir").map(PathBuf::from) else { return data_dir.join("logs") };
    if !dir.is_absolute() {
        let path = global.path("logging.log_dir");
        findings.problem(Problem::new(path, "is not an absolute path", "write the whole path"));
    }
    dir
}

/// The line that tells a person that `mcp_config.json` in the current directory is not read, if there is one and it
/// is not the file in use.
#[must_use]
pub fn ignored_file_in_cwd(used: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?.join(FILE);
    ignored_file(&here, used)
}

fn ignored_file(here: &Path, used: &Path) -> Option<String> {
    here.symlink_metadata().ok()?;
    (!is_same(here, used)).then(|| {
        let (here, used) = (quoted(&here.to_string_lossy()), quoted(&used.to_string_lossy()));
        format!("{here} is not read: the configuration is {used}; use --config to name another file")
    })
}

#[cfg(unix)]
fn is_same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (a.metadata(), b.metadata()) {
        (Ok(x), Ok(y)) => (x.dev(), x.ino()) == (y.dev(), y.ino()),
        _ => a == b,
    }
}

#[cfg(not(unix))]
fn is_same(a: &Path, b: &Path) -> bool {
    a == b
}

/// The data directory of the command line or the environment, and where it is named.
fn named_data_dir(overrides: &Overrides, variables: &Variables) -> Option<(String, PathBuf)> {
    let flag = overrides.data_dir.clone().map(|dir| ("--data-dir".to_owned(), dir));
    let variable = |name: &str| variables.get(name).map(|dir| (name.to_owned(), PathBuf::from(dir)));
    flag.or_else(|| variable("MCPPROXY_DATA_DIR")).or_else(|| variable("MCPPROXY_DATA"))
}

/// A directory as the file writes it: references and a leading `~/` are replaced, and it must be absolute.
fn written_dir(text: &str, path: String, sources: &Sources, findings: &mut Findings) -> PathBuf {
    let lookup = |name: &str| sources.variables.get(name).map(str::to_owned);
    let text = match expand(text, &lookup) {
        Ok(text) => text,
        Err(unresolved) => {
            findings.problem(unresolved.at(path));
            return PathBuf::from("/nonexistent");
        }
    };
    let dir = match (text.strip_prefix("~/"), home(&sources.variables)) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(&text),
    };
    if !dir.is_absolute() {
        let message = format!("{} is not an absolute path", quoted(&text));
        findings.problem(Problem::new(path, message, "write the whole path, or begin it with ~/"));
    }
    dir
}

fn home(variables: &Variables) -> Option<PathBuf> {
    let named = ["HOME", "USERPROFILE"].into_iter().find_map(|name| variables.get(name)).map(PathBuf::from);
    named.or_else(std::env::home_dir).filter(|home| home.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_found_by_flag_data_directory_and_home() {
        let variables = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Variables>();
        let home = variables(&[("HOME", "/home/u")]);
        let both = variables(&[("HOME", "/home/u"), ("MCPPROXY_DATA", "/d"), ("MCPPROXY_DATA_DIR", "/e")]);
        let flag = Overrides { data_dir: Some("/f".into()), ..Overrides::default() };
        let config = Overrides { config: Some("/c/x.json".into()), ..flag.clone() };
        let none = Overrides::default();
        for (overrides, variables, right) in [
            (&none, &home, "/home/u/.mcpproxy/mcp_config.json"),
            (&none, &both, "/e/mcp_config.json"),
            (&none, &variables(&[("MCPPROXY_DATA", "/d")]), "/d/mcp_config.json"),
            (&flag, &both, "/f/mcp_config.json"),
            (&config, &both, "/c/x.json"),
        ] {
            assert_eq!(config_path(overrides, variables).unwrap(), Path::new(right));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_in_the_current_directory_is_told_unless_it_is_the_one_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().join(FILE);
        let used = dir.path().join("other.json");
        assert_eq!(ignored_file(&here, &used), None);
        std::fs::write(&here, "{}").unwrap();
        let line = ignored_file(&here, &used).unwrap();
        assert!(line.contains("is not read") && line.contains("other.json") && line.lines().count() == 1);
        assert_eq!(ignored_file(&here, &here), None);
        std::os::unix::fs::symlink(&here, &used).unwrap();
        assert_eq!(ignored_file(&here, &used), None);
    }
}
