//! Launching a stdio server: no shell, its own process group, a minimal environment, stderr drained into its log.

use std::process::Stdio;
use std::sync::Arc;

use config::Transport;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Context;
use crate::log::Log;
use crate::watch::{LAUNCH_VARIABLE, Watcher};

/// A running child, its ends of the pipes taken out for the connection.
pub struct Launched {
    pub child: Child,
    pub pid: u32,
    /// Value of the marker variable that this child and all that it starts carry.
    pub marker: String,
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
}

/// Whether the entry is run as a process of ours.
pub fn starts_a_process(server: &config::Server) -> bool {
    server.enabled && server.quarantined != Some(true) && matches!(server.transport, Transport::Stdio { .. })
}

/// Starts the process of a stdio entry whose references are already resolved.
pub fn launch(
    server: &config::Server,
    context: &Context,
    log: &Log,
    watcher: Option<&Arc<Watcher>>,
    number: u64,
) -> Result<Launched, String> {
    let Transport::Stdio { command, args, cwd, env } = &server.transport else {
        return Err("the entry names no command".into());
    };
    let mut environment = crate::environment::for_children(&context.environment, text_variables());
    environment.extend(env.iter().map(|(k, v)| (k.clone(), v.clone())));
    let instance = watcher.map_or("unwatched", |w| w.instance());
    let marker = format!("{instance}.{number}.{}", server.name.replace('\0', ""));
    environment.insert(LAUNCH_VARIABLE.into(), marker.clone());

    let mut process = Command::new(command);
    process
        .args(args)
        .env_clear()
        .envs(&environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = cwd {
        process.current_dir(cwd);
    }
    log.begin_launch(&format!("launching {command}"));
    let mut child = process.spawn().map_err(|e| cannot_start(command, cwd.as_deref(), &environment, &e))?;
    let pid = child.id().ok_or("the process ended before it could be watched")?;
    if let Some(watcher) = watcher {
        watcher.watch(pid);
    }
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("its standard streams could not be taken".into());
    };
    tokio::spawn(log.clone().drain(stderr));
    Ok(Launched { child, pid, marker, stdin, stdout })
}

fn text_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
}

fn cannot_start(
    command: &str,
    cwd: Option<&std::path::Path>,
    environment: &std::collections::BTreeMap<String, String>,
    error: &std::io::Error,
) -> String {
    if let Some(cwd) = cwd
        && !cwd.is_dir()
    {
        return format!(
            "its working directory {} does not exist: correct \"cwd\" in its entry",
            cwd.display()
        );
    }
    match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "the command '{command}' was not found: write its full path, or add its directory to PATH (searched: {})",
            environment.get("PATH").map_or("nothing", String::as_str)
        ),
        std::io::ErrorKind::PermissionDenied => {
            format!(
                "the command '{command}' may not be run by this user: check that it is an executable file"
            )
        }
        _ => format!("the command '{command}' could not be started: {error}"),
    }
}
