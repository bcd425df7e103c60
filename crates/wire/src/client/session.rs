//! What belongs to the session as a whole: opening it, and the list of tools.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call::{self, Outgoing};
use super::core::Core;
use super::{CallError, CallOptions, PROTOCOL_VERSIONS, ServerInfo, http, notice};
use crate::spool::Body;

const MAX_PAGES: usize = 1_000;
const MAX_TOOLS: usize = 100_000;
/// All pages of the list together.
const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;
const MAX_INFO_BYTES: u64 = 4 * 1024 * 1024;

pub(super) async fn initialize(core: &Arc<Core>, timeout: Duration) -> Result<ServerInfo, CallError> {
    let outgoing = opening(core);
    let body = call::perform(core, outgoing, &bounds(timeout)).await?;
    let info = server_info(&body)?;
    confirm(core, &info.protocol).await;
    Ok(info)
}

/// The request that opens a session.
pub(super) fn opening(core: &Core) -> Outgoing {
    let id = core.next_id();
    let mut params =
        format!("{{\"protocolVersion\":\"{}\",\"capabilities\":{{}},", PROTOCOL_VERSIONS[0]).into_bytes();
    params.extend_from_slice(b"\"clientInfo\":{\"name\":\"mcpproxy\",\"version\":");
    jsonspan::escape_into(core.version(), &mut params);
    params.extend_from_slice(b"}}");
    Outgoing { id, frame: call::frame(Some(id), "initialize", &params), opening: true }
}

/// Completes the opening of a session.
pub(super) async fn confirm(core: &Arc<Core>, protocol: &str) {
    if let Some(link) = core.http() {
        link.agree(protocol);
    }
    if let Err(error) = core.send(call::frame(None, "notifications/initialized", b"")).await {
        // The server has answered: if it is really gone, the next call says so better.
        tracing::debug!(server = core.name(), %error, "notifications/initialized was not taken");
    }
    http::listen(core);
}

/// Reads the answer to `initialize`.
pub(super) fn server_info(body: &Body) -> Result<ServerInfo, CallError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        protocol_version: String,
        #[serde(default)]
        capabilities: Option<Box<RawValue>>,
        #[serde(default)]
        server_info: Option<Named>,
        #[serde(default)]
        instructions: Option<Box<RawValue>>,
    }
    #[derive(Deserialize, Default)]
    struct Named {
        name: Option<Box<RawValue>>,
        version: Option<Box<RawValue>>,
    }
    let said = |value: Option<Box<RawValue>>| value.map(|value| notice::text(&value));
    let garbled = |what: String| CallError::Garbled(format!("the answer to initialize {what}"));
    let bytes = notice::whole(body, MAX_INFO_BYTES)
        .ok_or_else(|| garbled(format!("is larger than {MAX_INFO_BYTES} bytes")))?;
    let answer: Answer =
        serde_json::from_slice(&bytes).map_err(|error| garbled(format!("is unusable: {error}")))?;
    if !PROTOCOL_VERSIONS.contains(&answer.protocol_version.as_str()) {
        let (named, spoken) = (&answer.protocol_version, PROTOCOL_VERSIONS.join(", "));
        return Err(garbled(format!("names MCP revision {named:?}; spoken here are {spoken}")));
    }
    let named = answer.server_info.unwrap_or_default();
    Ok(ServerInfo {
        name: said(named.name).unwrap_or_default(),
        version: said(named.version).unwrap_or_default(),
        protocol: answer.protocol_version,
        instructions: said(answer.instructions),
        capabilities: answer.capabilities.map_or_else(empty_object, Ok)?,
    })
}

pub(super) async fn ping(core: &Arc<Core>, timeout: Duration) -> Result<(), CallError> {
    match call::request(core, "ping", &Bytes::new(), &bounds(timeout)).await {
        Ok(_) | Err(CallError::Rpc { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) async fn list_tools(core: &Arc<Core>, timeout: Duration) -> Result<Vec<Box<RawValue>>, CallError> {
    let end = Instant::now() + timeout;
    let mut tools = Vec::new();
    let mut cursors: HashSet<String> = HashSet::new();
    let mut params = Bytes::new();
    let mut bytes_left = MAX_LIST_BYTES;
    for _ in 0..MAX_PAGES {
        let options = bounds(end.saturating_duration_since(Instant::now()));
        let body = call::request(core, "tools/list", &params, &options).await?;
        bytes_left =
            bytes_left.checked_sub(body.len()).ok_or(CallError::TooLarge { limit: MAX_LIST_BYTES })?;
        let page = tokio::task::spawn_blocking(move || page(&body)).await;
        let page = page.unwrap_or_else(|_| Err(CallError::Io("the program is ending".to_owned())))?;
        tools.extend(page.tools);
        let Some(cursor) = page.next else { return Ok(tools) };
        // A server that begins again would never end.
        if tools.len() >= MAX_TOOLS || !cursors.insert(cursor.get().to_owned()) {
            break;
        }
        params = Bytes::from(format!("{{\"cursor\":{}}}", cursor.get()));
    }
    tools.truncate(MAX_TOOLS);
    tracing::warn!(
        server = core.name(),
        tools = tools.len(),
        "the list of tools does not end; it was cut here"
    );
    Ok(tools)
}

/// One page of `tools/list`, entries raw.
struct Page {
    tools: Vec<Box<RawValue>>,
    next: Option<Box<RawValue>>,
}

fn page(body: &Body) -> Result<Page, CallError> {
    let bytes = notice::whole(body, MAX_LIST_BYTES).ok_or(CallError::TooLarge { limit: MAX_LIST_BYTES })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| CallError::Garbled(format!("the answer to tools/list is unusable: {error}")))
}

impl<'de> Deserialize<'de> for Page {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Page, D::Error> {
        deserializer.deserialize_map(PageVisitor)
    }
}

/// Knows two members, the last of each counts, and minds nothing else.
struct PageVisitor;

impl<'de> Visitor<'de> for PageVisitor {
    type Value = Page;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an array of tools")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Page, M::Error> {
        let mut tools = None;
        let mut next = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tools" => tools = Some(map.next_value()?),
                "nextCursor" => next = Some(map.next_value::<Box<RawValue>>()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let tools = tools.ok_or_else(|| serde::de::Error::missing_field("tools"))?;
        Ok(Page { tools, next: next.filter(|cursor| !matches!(cursor.get(), "null" | "\"\"")) })
    }
}

fn bounds(timeout: Duration) -> CallOptions {
    CallOptions { timeout, total: timeout, cancel: CancellationToken::new(), progress: None }
}

fn empty_object() -> Result<Box<RawValue>, CallError> {
    RawValue::from_string("{}".to_owned()).map_err(|error| CallError::Io(error.to_string()))
}
