//! `retrieve_tools` and `describe_tool`: finding tools, each with a record of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use catalog::{Filters, Gate, Listed, Retrieve, describe_reply, retrieve_reply};
use serde::Deserialize;

use crate::Gateway;
use crate::caller::Caller;
use crate::live::Snapshot;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::reply::Reply;

/// How long after the start that is so, in milliseconds.
const JUST_STARTED_MS: i64 = 10_000;
/// How long a search waits for servers that are still being connected.
const STARTING: Duration = Duration::from_secs(5);

/// A search over up to so many tools is done where it is.
const INLINE_TOOLS: usize = 1000;

/// Longest query that is looked at, in bytes; what comes after it cannot make a search better.
const MAX_QUERY: usize = 4096;

/// A tool of ours that finds tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `retrieve_tools`.
    Retrieve,
    /// `describe_tool`.
    Describe,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RetrieveArguments {
    query: Option<String>,
    limit: Option<f64>,
    read_only_only: Option<bool>,
    exclude_destructive: Option<bool>,
    exclude_open_world: Option<bool>,
}

#[derive(Deserialize)]
struct DescribeArguments {
    tool_ids: Vec<String>,
}

impl Tool {
    /// The tool of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "retrieve_tools" => Some(Self::Retrieve),
            "describe_tool" => Some(Self::Describe),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Retrieve => "retrieve_tools",
            Self::Describe => "describe_tool",
        }
    }
}

impl Gateway {
    /// Answers a call of a tool that finds tools.
    pub async fn find(self: &Arc<Self>, caller: Caller, tool: Tool, arguments: Bytes) -> Reply {
        let record = match Record::internal(&self.store, &caller, tool.name(), &arguments) {
            Ok(record) => record,
            Err(refusal) => return Reply::refused(refusal, &caller.request_id),
        };
        let now = self.live.now();
        let end = match tool {
            Tool::Retrieve => {
                // An agent that searches first, right after the start, must not see an empty world.
                if store::now_ms() - self.started_ms < JUST_STARTED_MS {
                    self.upstreams.settled(STARTING).await;
                }
                // A search over very many tools takes the processor for a while.
                let (gateway, now, arguments) = (Arc::clone(self), now.clone(), arguments.clone());
                let search = move || gateway.retrieve(&now, &arguments);
                let many = self.tool_count() > INLINE_TOOLS;
                let found = if many { self.work.compute(search).await } else { Some(search()) };
                found.unwrap_or_else(|| {
                    Err(Refusal::invalid("The search failed: internal error; please report it"))
                })
            }
            Tool::Describe => self.describe(&now, &arguments),
        };
        record.close_internal(&end).await;
        match end {
            Ok(text) => Reply::text(text),
            Err(refusal) => Reply::refused(refusal, &caller.request_id),
        }
    }

    /// Records a call of a tool that we do not have, or one that cannot be read.
    pub async fn refuse(&self, caller: &Caller, tool: &str, arguments: &[u8], why: &str) {
        let name = &tool[..tool.floor_char_boundary(200)];
        if let Ok(record) = Record::internal(&self.store, caller, name, arguments) {
            record.close_internal(&Err(Refusal::invalid(why))).await;
        }
    }

    fn retrieve(&self, now: &Snapshot, raw: &[u8]) -> Result<String, Refusal> {
        let asked: RetrieveArguments = read(raw)?;
        let Some(query) = asked.query else {
            return Err(Refusal::invalid("Missing required parameter 'query': say what the tool should do"));
        };
        let search = Retrieve {
            query: &query[..query.floor_char_boundary(MAX_QUERY)],
            limit: limit(asked.limit, now.config.tools_limit)?,
            filters: Filters {
                read_only_only: asked.read_only_only.unwrap_or(false),
                exclude_destructive: asked.exclude_destructive.unwrap_or(false),
                exclude_open_world: asked.exclude_open_world.unwrap_or(false),
            },
            starting: self.upstreams.starting(),
        };
        Ok(retrieve_reply(&self.catalog(), &search, &|listed| callable(now, listed)))
    }

    fn describe(&self, now: &Snapshot, raw: &[u8]) -> Result<String, Refusal> {
        let asked: DescribeArguments = read(raw)?;
        describe_reply(&self.catalog(), &asked.tool_ids, &|server, tool| gate(now, server, tool))
            .map_err(Refusal::invalid)
    }
}

/// What may not be called now is not found either.
pub fn callable(now: &Snapshot, listed: &Listed) -> bool {
    gate(now, &listed.server, &listed.tool) == Gate::Open
        && (!now.config.read_only_mode || listed.annotations.permission() == policy::Permission::Read)
}

fn gate(now: &Snapshot, server: &str, tool: &str) -> Gate {
    match now.server(server) {
        None => Gate::Hidden,
        Some(_) if now.is_held(server) => Gate::Quarantined,
        Some(entry) if !entry.enabled || !entry.allows_tool(tool) => Gate::Disabled,
        Some(_) => Gate::Open,
    }
}

fn limit(asked: Option<f64>, default: usize) -> Result<usize, Refusal> {
    let Some(asked) = asked else { return Ok(default) };
    if !asked.is_finite() || asked < 1.0 {
        return Err(Refusal::invalid("Parameter 'limit' must be a number from 1 to 100"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 100 here")]
    Ok(asked.min(100.0) as usize)
}

fn read<'a, T: Deserialize<'a>>(raw: &'a [u8]) -> Result<T, Refusal> {
    let raw = if raw.is_empty() { b"{}" } else { raw };
    serde_json::from_slice(raw).map_err(|e| Refusal::invalid(format!("The arguments do not fit: {e}")))
}
