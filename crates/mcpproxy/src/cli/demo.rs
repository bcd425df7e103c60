//! `demo`: the main job in a directory of its own, with nothing but this program.

use std::fs::{self, DirBuilder};
use std::io::IsTerminal;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use config::{LogLevel, Overrides, Sources, Variables};
use gateway::records::{Filter, Reader};
use gateway::remote::{CallOptions, Client, HttpOptions, Spools};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::serve::House;
use super::setup::{self, Configured, exit};
use super::{DEMO_UPSTREAM_COMMAND, output};

/// Runs the command.
pub fn run() -> u8 {
    let home = match Home::make() {
        Ok(home) => home,
        Err(error) => {
            output::tell(&format!("Error: no directory for the demo could be made: {error}"));
            return exit::GENERAL;
        }
    };
    match setup::block_on(show(&home)) {
        Ok(Ok(())) => exit::OK,
        Ok(Err(error)) => {
            output::tell(&format!("Error: {error}"));
            exit::GENERAL
        }
        Err(code) => code,
    }
}

/// A directory of mode 0700 that goes when the demo ends.
struct Home(PathBuf);

impl Home {
    fn make() -> std::io::Result<Self> {
        let mut random = [0_u8; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name: String = random.iter().map(|b| format!("{b:02x}")).collect();
        let path = std::env::temp_dir().join(format!("mcpproxy-demo-{name}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        let home = Self(path);
        DirBuilder::new().mode(0o700).create(home.output())?;
        fs::write(home.config_file(), home.config()?)?;
        Ok(home)
    }

    fn output(&self) -> PathBuf {
        self.0.join("output")
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn config_file(&self) -> PathBuf {
        self.0.join("mcp_config.json")
    }

    fn config(&self) -> std::io::Result<String> {
        let config = json!({
            "listen": "127.0.0.1:0",
            "data_dir": self.data(),
            "tool_output_roots": [self.output()],
            "mcpServers": {"demo": {"command": std::env::current_exe()?, "args": [DEMO_UPSTREAM_COMMAND]}},
        });
        serde_json::to_string_pretty(&config).map_err(Into::into)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            output::tell(&format!("{} could not be removed: {error}", self.0.display()));
        }
    }
}

async fn show(home: &Home) -> Result<(), String> {
    let end = CancellationToken::new();
    super::serve::end_on_signals(end.clone());
    let overrides = Overrides { config: Some(home.config_file()), ..Overrides::default() };
    // The demo must not obey what happens to be set for a real gateway.
    let sources = Sources::new(overrides, Variables::default()).map_err(|e| e.to_string())?;
    let loaded = config::load(&sources)
        .map_err(|p| p.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    setup::log(&loaded.config, Some(LogLevel::Warn));
    output::line(&format!("A gateway with one built-in server, in {}", home.0.display()));
    let house = House::open(Configured { sources, loaded, problems: Vec::new() }, false)
        .await
        .map_err(|_| "it could not be opened")?;
    let address = house.listen.ok_or("it does not listen")?;
    let key = house.key.reveal().to_owned();
    let living = tokio::spawn(house.live(end.clone(), false));
    let url = format!("http://{address}/mcp");
    let told = tokio::select! {
        told = tell_story(home, &url, &key) => told,
        () = end.cancelled() => Err("interrupted".to_owned()),
    };
    if told.is_ok() && std::io::stdout().is_terminal() && !end.is_cancelled() {
        output::line(&format!("\nThe gateway goes on at http://{address}/mcp until Ctrl-C."));
        end.cancelled().await;
    }
    end.cancel();
    living.await.map_err(|e| e.to_string())?;
    told
}

async fn tell_story(home: &Home, url: &str, key: &str) -> Result<(), String> {
    let client = connect(home, url, key).await?;
    let file = home.output().join("orders.jsonl");
    let arguments = json!({
        "name": "demo:orders_report",
        "args": {"rows": 20_000},
        "save_to_file": file,
    });
    output::line("\nAn agent calls call_tool_read with:");
    output::line(&pretty(&arguments));
    let result = call(&client, &arguments).await?;
    if result["isError"] == true {
        return Err(format!("the call failed: {}", result["content"][0]["text"]));
    }
    let envelope: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap_or_default())
        .map_err(|e| format!("the envelope cannot be read: {e}"))?;
    output::line("\nand gets, in place of the whole answer, this envelope:");
    let mut short = envelope.clone();
    if let Some(preview) = envelope["preview"].as_str() {
        short["preview"] =
            json!(format!("{} … ({} characters)", first(preview, 60), preview.chars().count()));
    }
    output::line(&pretty(&short));
    check(&file, &envelope)?;
    output::line(&format!(
        "\nThe file holds {} bytes; its size and SHA-256 are those of the envelope.",
        envelope["bytes"]
    ));
    client.shutdown().await;
    show_record(home).await
}

async fn connect(home: &Home, url: &str, key: &str) -> Result<Client, String> {
    let client = Client::http(HttpOptions {
        name: "demo".into(),
        client_version: env!("CARGO_PKG_VERSION").into(),
        url: url.into(),
        headers: vec![("X-API-Key".into(), key.into())],
        max_message_bytes: 64 << 20,
        spools: Spools::open(&home.data().join("spool"), 1 << 30).map_err(|e| e.to_string())?,
        socket: None,
    })
    .map_err(|e| e.to_string())?;
    client.initialize(Duration::from_secs(30)).await.map_err(|e| e.to_string())?;
    Ok(client)
}

async fn call(client: &Client, arguments: &Value) -> Result<Value, String> {
    let options = CallOptions {
        timeout: Duration::from_secs(60),
        total: Duration::from_secs(60),
        cancel: CancellationToken::new(),
        progress: None,
    };
    let body = client.call_tool("call_tool_read", Bytes::from(arguments.to_string()), options).await;
    let body = body.map_err(|e| e.to_string())?;
    serde_json::from_reader(body.reader()).map_err(|e| e.to_string())
}

/// What the envelope says must be so.
fn check(file: &Path, envelope: &Value) -> Result<(), String> {
    let bytes = fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))?;
    let same_size = envelope["bytes"].as_u64() == u64::try_from(bytes.len()).ok();
    if !same_size || envelope["sha256"] != gateway::sha256_hex(&bytes) {
        return Err("the file is not what the envelope says; please report this".into());
    }
    Ok(())
}

/// The closed record of the call, read as `mcpproxy activity show` reads it.
async fn show_record(home: &Home) -> Result<(), String> {
    let filter = Filter { types: vec![gateway::records::EventType::ToolCall], limit: 1, ..Filter::default() };
    for _ in 0..200 {
        let reader = Reader::open(&home.data()).map_err(|e| e.to_string())?;
        if let Some(event) = reader.list(&filter).map_err(|e| e.to_string())?.first() {
            output::line("\nand the record says:");
            let saved = event.saved.as_ref();
            output::line(&pretty(&json!({
                "id": event.id,
                "request_id": event.request_id,
                "server": event.server,
                "tool": event.tool,
                "status": event.status,
                "response_bytes": event.response_bytes,
                "saved_to": saved.map(|s| &s.path),
                "sha256": saved.map(|s| &s.sha256),
            })));
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("the call has no record; please report this".into())
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn first(text: &str, count: usize) -> String {
    text.chars().take(count).collect()
}
