//! The running gateway of a data directory, as the command line reaches it: by its socket, else by its address with the key.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use config::Config;
use gateway::remote::{Client, HttpOptions, Spools};
use http::Method;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::daemon::apikey::{self, ApiKey};
use crate::daemon::runfile::RunFile;

/// Largest answer of a route beside MCP, in bytes.
const MAX_BODY: usize = 16 << 20;
const CLIENT: &str = concat!("cli/", env!("CARGO_PKG_VERSION"));

/// A gateway that runs.
pub struct Remote {
    run: RunFile,
    key: Option<ApiKey>,
}

/// Why a route gave no data.
pub struct Refused {
    /// The status of its answer, if there was one.
    pub status: Option<http::StatusCode>,
    /// What it said.
    pub message: String,
}

/// A text as one segment of a path.
pub fn segment(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl Remote {
    /// The gateway that holds this data directory, if one does.
    ///
    /// # Errors
    /// What it wrote about itself cannot be read.
    pub fn find(config: &Config) -> Result<Option<Self>, String> {
        let Some(run) =
            RunFile::of_running(&config.data_dir).map_err(|e| format!("run.json cannot be read: {e}"))?
        else {
            return Ok(None);
        };
        let key = key(config)?;
        let listen = run.listen.map(reachable);
        Ok(Some(Self { run: RunFile { listen, ..run }, key }))
    }

    /// An MCP connection to it. Large answers are kept in `spool_dir` meanwhile.
    ///
    /// # Errors
    /// It cannot be connected to, or does not speak MCP.
    pub async fn client(&self, config: &Config) -> Result<Client, String> {
        let spools = spools(config)?;
        let mut headers = vec![("X-MCPProxy-Client".to_owned(), CLIENT.to_owned())];
        let url = match (&self.run.socket, self.run.listen) {
            (Some(_), _) => "http://localhost/mcp".to_owned(),
            (None, Some(address)) => {
                let key = self.key.as_ref().ok_or("the API key is not known; set MCPPROXY_API_KEY")?;
                headers.push(("X-API-Key".to_owned(), key.reveal().to_owned()));
                format!("http://{address}/mcp")
            }
            (None, None) => {
                return Err(
                    "it serves one agent over stdio and has no socket (enable_socket is false)".into()
                );
            }
        };
        let client = Client::http(HttpOptions {
            name: "mcpproxy".into(),
            client_version: env!("CARGO_PKG_VERSION").into(),
            url,
            headers,
            // The gateway's own envelope around an answer of the largest size.
            max_message_bytes: config.upstream_max_message_bytes.saturating_add(1 << 20),
            spools,
            socket: self.run.socket.clone(),
        })
        .map_err(|e| e.to_string())?;
        client
            .initialize(Duration::from_secs(30))
            .await
            .map_err(|e| format!("the running gateway did not answer: {e}"))?;
        Ok(client)
    }

    /// Asks one of its routes for JSON.
    ///
    /// # Errors
    /// It did not answer, or not with success.
    pub async fn get(&self, path: &str) -> Result<Value, String> {
        self.ask(Method::GET, path, Duration::from_secs(10)).await.map_err(|refused| refused.message)
    }

    /// Asks one of its routes with any method, and waits for the answer this long.
    ///
    /// # Errors
    /// It did not answer, or not with success.
    pub async fn ask(&self, method: Method, path: &str, patience: Duration) -> Result<Value, Refused> {
        let told = |message: String| Refused { status: None, message };
        let late = || format!("the running gateway did not answer within {} seconds", patience.as_secs());
        let sent = tokio::time::timeout(patience, self.send(method, path)).await;
        let (status, body) = sent.map_err(|_| told(late()))?.map_err(told)?;
        let value: Result<Value, _> = serde_json::from_slice(&body);
        let value = value.map_err(|e| told(format!("the running gateway's answer cannot be read: {e}")))?;
        if status.is_success() {
            return Ok(value);
        }
        let why = value["error"].as_str().map_or_else(|| format!("it answered {status}"), str::to_owned);
        Err(Refused { status: Some(status), message: why })
    }

    async fn send(&self, method: Method, path: &str) -> Result<(http::StatusCode, Bytes), String> {
        let text = |e: std::io::Error| format!("the running gateway cannot be reached: {e}");
        match (&self.run.socket, self.run.listen) {
            (Some(socket), _) => {
                let stream = crate::daemon::socket::connect(socket).await.map_err(text)?;
                exchange(TokioIo::new(stream), "localhost", method, path, None).await
            }
            (None, Some(address)) => {
                let stream = tokio::net::TcpStream::connect(address).await.map_err(text)?;
                exchange(TokioIo::new(stream), &address.to_string(), method, path, self.key.as_ref()).await
            }
            (None, None) => Err("it serves one agent over stdio and has no socket".into()),
        }
    }
}

async fn exchange<T>(
    io: T,
    host: &str,
    method: Method,
    path: &str,
    key: Option<&ApiKey>,
) -> Result<(http::StatusCode, Bytes), String>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let text = |e: hyper::Error| format!("the running gateway broke the connection: {e}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.map_err(text)?;
    tokio::spawn(connection);
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", host)
        .header("x-mcpproxy-client", CLIENT);
    if let Some(key) = key {
        request = request.header("x-api-key", key.reveal());
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|e| e.to_string())?;
    let response = sender.send_request(request).await.map_err(text)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|e| e.to_string())?;
    Ok((status, body.to_bytes()))
}

/// The address at which this machine reaches a gateway that listens on every address.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    listen
}

/// The key that the gateway of this configuration goes by, if there is one yet.
///
/// # Errors
/// It is there and cannot be used.
pub fn key(config: &Config) -> Result<Option<ApiKey>, String> {
    let variable = std::env::var(apikey::VARIABLE).ok();
    let configured = config.api_key.as_ref().map(|secret| secret.expose().to_owned());
    ApiKey::find(variable.as_deref(), configured.as_deref(), &config.data_dir).map_err(|e| e.to_string())
}

fn spools(config: &Config) -> Result<Arc<Spools>, String> {
    let dir = config.data_dir.join("spool");
    Spools::open(&dir, config.spool_max_bytes).map_err(|e| format!("{} cannot be used: {e}", shown(&dir)))
}

fn shown(path: &Path) -> String {
    super::output::shown(&path.to_string_lossy())
}
