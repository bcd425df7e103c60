//! What `retrieve_tools` answers.

use serde::Serialize;
use serde_json::Value;

use crate::entry::Entry;
use crate::filters::{Account, Filters};
use crate::listed::Listed;
use crate::search::Catalog;

/// Most tools of one reply.
pub const MAX_FOUND: usize = 100;
/// Of a reply, what its entries may weigh together, in bytes. The first one always goes in.
const MAX_BYTES: usize = 4 << 20;

const INSTRUCTIONS: &str = "Call a tool with the call tool that its call_with names (call_tool_read, call_tool_write or \
    call_tool_destructive): pass its name as `name` and an object that fits its inputSchema as `args`.";

/// A search.
#[derive(Debug, Clone, Copy)]
pub struct Retrieve<'a> {
    /// What is looked for.
    pub query: &'a str,
    /// At most so many tools; 1 to [`MAX_FOUND`].
    pub limit: usize,
    /// What to leave out.
    pub filters: Filters,
    /// Servers whose tools may be missing, because they are still being connected.
    pub starting: usize,
}

#[derive(Serialize)]
struct Reply<'a> {
    tools: Vec<Entry<'a>>,
    query: &'a str,
    total: usize,
    usage_instructions: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter_diagnostics: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn starting_notice(starting: usize) -> Option<String> {
    (starting > 0).then(|| {
        format!("{starting} server(s) are still starting and their tools are not listed yet; search again in a few seconds.")
    })
}

/// The JSON text that answers a search. Tools that are not `visible` are as if they were not there.
#[must_use]
pub fn retrieve_reply(catalog: &Catalog, search: &Retrieve<'_>, visible: &dyn Fn(&Listed) -> bool) -> String {
    let limit = search.limit.clamp(1, MAX_FOUND);
    let hits = catalog.ranked(search.query);
    let mut account = Account::default();
    let mut tools: Vec<Entry<'_>> = Vec::new();
    let (mut bytes, mut notice) = (0, starting_notice(search.starting));
    for hit in &hits {
        if tools.len() == limit {
            break;
        }
        if !visible(&hit.listed) || !account.passes(search.filters, &hit.listed.annotations) {
            continue;
        }
        let entry = Entry::new(&hit.listed, Some(hit.score));
        bytes += entry.weight();
        if bytes > MAX_BYTES && !tools.is_empty() {
            let shown = tools.len();
            notice = Some(format!("Only {shown} tools fit into one reply; a narrower query shows others."));
            break;
        }
        tools.push(entry);
    }
    let total = tools.len();
    let filter_diagnostics = account.diagnostics();
    let reply = Reply {
        tools,
        query: search.query,
        total,
        usage_instructions: INSTRUCTIONS,
        filter_diagnostics,
        notice,
    };
    // Strings, numbers and JSON that was parsed before: this does not fail.
    serde_json::to_string(&reply).unwrap_or_default()
}
