//! `call`: one call of an upstream's tool, through the running gateway or, without one, on its own.

use std::io::{IsTerminal, Read};
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, Subcommand};
use config::LogLevel;
use gateway::call::Call;
use gateway::mcp::Payload;
use gateway::records::Source;
use gateway::remote::{CallError, CallOptions};
use gateway::{Caller, Principal, PrincipalKind};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::place::{Failure, Place, place};
use super::progress::Progress;
use super::remote::Remote;
use super::setup::{self, Configured, exit};
use super::{Common, Form, output, result, serve, yaml};
use crate::daemon::datadir::DataDir;
use crate::daemon::lock::Lock;

/// Which of the three tools is used.
#[derive(Subcommand)]
pub enum Variant {
    /// Call a tool that only reads
    ToolRead(Flags),
    /// Call a tool that creates or changes things
    ToolWrite(Flags),
    /// Call a tool that may destroy things
    ToolDestructive(Flags),
    /// Says which of the three to use
    #[command(hide = true)]
    Tool {
        /// Whatever was typed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

/// Flags of a call.
#[derive(Args)]
pub struct Flags {
    /// Tool to call, as server:tool
    #[arg(short = 't', long, value_name = "SERVER:TOOL")]
    tool_name: String,
    /// Arguments of the tool, as a JSON object
    #[arg(short = 'j', long = "json_args", alias = "json-args", value_name = "JSON", default_value = "{}")]
    json_args: String,
    /// Why it is called, for the record
    #[arg(long)]
    reason: Option<String>,
    /// Sensitivity of the data: public, internal, private or unknown
    #[arg(long)]
    sensitivity: Option<String>,
    /// Save the whole answer to this file (an absolute path inside an allowed directory) and print an envelope
    #[arg(long, value_name = "PATH")]
    save_to_file: Option<String>,
    /// What is written: text, json or binary [default: text]
    #[arg(long, value_name = "FORMAT")]
    save_format: Option<String>,
    /// Replace an existing file
    #[arg(long)]
    save_overwrite: bool,
}

/// Runs the command.
pub fn run(common: &Common, variant: Variant) -> u8 {
    let (variant, flags) = match variant {
        Variant::ToolRead(flags) => (gateway::Variant::Read, flags),
        Variant::ToolWrite(flags) => (gateway::Variant::Write, flags),
        Variant::ToolDestructive(flags) => (gateway::Variant::Destructive, flags),
        Variant::Tool { .. } => {
            output::tell(
                "Error: `call tool` does not exist. Use `call tool-read` for a tool that only reads, `call tool-write` for one \
                 that changes things, or `call tool-destructive` for one that may destroy things; they take the same flags.",
            );
            return exit::GENERAL;
        }
    };
    call(common, variant, &flags).unwrap_or_else(Failure::tell)
}

fn call(common: &Common, variant: gateway::Variant, flags: &Flags) -> Result<u8, Failure> {
    let arguments = flags.arguments()?;
    let configured = setup::at_work(common, |_| {}).map_err(Failure::Code)?;
    // Its output is the answer; what a gateway says of its day would only be in the way.
    setup::log(configured.config(), common.log_level.is_none().then_some(LogLevel::Warn));
    let called = async {
        let progress = Progress::of(&flags.tool_name);
        let raw = match place(&configured).await {
            Ok(Place::Running(remote)) => through(&remote, &configured, variant, &arguments, &progress).await,
            Ok(Place::Free(dir, lock)) => alone(configured, (dir, lock), variant, arguments).await,
            Err(failure) => Err(failure),
        };
        progress.end().await;
        raw
    };
    let raw = setup::block_on(called).map_err(Failure::Code)??;
    Ok(print(&raw, common.output))
}

impl Flags {
    /// The arguments of the gateway's own tool, raw, so that numbers stay as they were typed.
    fn arguments(&self) -> Result<Bytes, String> {
        if self.save_to_file.is_none() && (self.save_format.is_some() || self.save_overwrite) {
            return Err(
                "--save-format and --save-overwrite mean something only with --save-to-file; add it".into()
            );
        }
        if self.save_to_file.as_ref().is_some_and(|p| p.trim().is_empty()) {
            return Err("--save-to-file is empty: give the absolute path of the file to make".into());
        }
        let args: &serde_json::value::RawValue = serde_json::from_str(self.json_args.trim())
            .map_err(|e| format!("--json_args is not valid JSON: {e}"))?;
        if !args.get().starts_with('{') {
            return Err("--json_args must be a JSON object, such as '{\"path\": \"/srv\"}'".into());
        }
        let text = |value: &str| json!(value).to_string();
        let mut members = vec![format!("\"name\":{}", text(&self.tool_name)), format!("\"args\":{args}")];
        for (name, value) in [
            ("intent_reason", &self.reason),
            ("intent_data_sensitivity", &self.sensitivity),
            ("save_to_file", &self.save_to_file),
            ("save_format", &self.save_format),
        ] {
            if let Some(value) = value {
                members.push(format!("\"{name}\":{}", text(value)));
            }
        }
        if self.save_overwrite {
            members.push("\"save_overwrite\":true".into());
        }
        Ok(Bytes::from(format!("{{{}}}", members.join(","))))
    }
}

/// Through the running gateway.
async fn through(
    remote: &Remote,
    configured: &Configured,
    variant: gateway::Variant,
    arguments: &Bytes,
    progress: &Progress,
) -> Result<Vec<u8>, Failure> {
    let config = configured.config();
    let client = remote.client(config).await?;
    // The gateway ends the call by its own limits, which it alone knows; ours only catches one that is gone.
    let patience = config.call_tool_total_timeout + Duration::from_secs(60);
    let options = CallOptions {
        timeout: patience,
        total: patience,
        cancel: cancelled_by_ctrl_c(),
        progress: progress.sender(),
    };
    let answer = client.call_tool(variant.tool_name(), arguments.clone(), options).await;
    let body = match answer {
        Ok(body) => body,
        Err(CallError::Rpc { message, .. }) => return Err(Failure::Text(message)),
        Err(error) => return Err(Failure::Text(error.to_string())),
    };
    client.shutdown().await;
    read_all(body.reader())
}

/// Without a running gateway: one is opened in this process, for this call.
async fn alone(
    configured: Configured,
    (_dir, lock): (DataDir, Lock),
    variant: gateway::Variant,
    arguments: Bytes,
) -> Result<Vec<u8>, Failure> {
    let config = configured.loaded.config;
    let gateway = serve::open_gateway(config, &configured.sources.path, true).map_err(Failure::Code)?;
    let caller = Caller {
        principal: Principal::new(PrincipalKind::Stdio),
        source: Source::Cli,
        session: None,
        client_name: Some("mcpproxy-cli".into()),
        client_version: Some(env!("CARGO_PKG_VERSION").into()),
        request_id: gateway::new_request_id(),
    };
    let call = Call { variant, arguments, as_task: false, progress: None, cancel: cancelled_by_ctrl_c() };
    let reply = gateway.call(caller, call).await;
    let raw = match reply.into_payload() {
        Payload::Bytes(bytes) => Ok(bytes.to_vec()),
        Payload::Stream { reader, .. } => read_all(reader),
    };
    gateway.close().await;
    // The lock goes last: the next process must find the record as this one left it.
    drop(gateway);
    drop(lock);
    raw
}

/// Ctrl-C takes the call back; the upstream is told so, and the record says so.
fn cancelled_by_ctrl_c() -> CancellationToken {
    let cancel = CancellationToken::new();
    let fire = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            fire.cancel();
        }
    });
    cancel
}

fn read_all(mut reader: impl Read) -> Result<Vec<u8>, Failure> {
    let mut raw = Vec::new();
    reader.read_to_end(&mut raw).map_err(|e| Failure::Text(format!("the answer could not be read: {e}")))?;
    Ok(raw)
}

/// The result object as it came, or its text for a person.
fn print(raw: &[u8], form: Form) -> u8 {
    let shown = result::Shown::of(raw);
    if form == Form::Json {
        output::write(raw);
        output::print("\n");
    } else if form == Form::Yaml {
        output::print(&yaml::of(&String::from_utf8_lossy(raw)));
    } else if shown.is_error {
        output::tell(&output::shown(&shown.text));
    } else if std::io::stdout().is_terminal() {
        output::line(&output::shown(&shown.text));
    } else {
        output::line(&shown.text);
    }
    output::flush();
    if shown.is_error { exit::GENERAL } else { exit::OK }
}
