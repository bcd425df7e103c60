//! What `describe_tool` answers.

use serde::Serialize;

use crate::entry::Entry;
use crate::listed::Listed;
use crate::search::Catalog;

/// Most tools of one call.
pub const MAX_DESCRIBED: usize = 5;

/// Whether a caller may see a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// It may be shown, if it is listed.
    Open,
    /// Outside of what this caller may know: as if it did not exist.
    Hidden,
    /// Its server is held until a person approves it.
    Quarantined,
    /// Its server or the tool itself is switched off.
    Disabled,
}

#[derive(Serialize)]
struct Reply<'a> {
    definitions: Vec<Entry<'a>>,
    errors: Vec<Problem>,
}

#[derive(Serialize)]
struct Problem {
    id: String,
    error: &'static str,
    remediation: String,
}

/// The JSON text that describes these tools (`server:tool`), in the order asked for, each once. `gate` tells for server and
/// tool whether this caller may see it.
///
/// # Errors
/// None or more than [`MAX_DESCRIBED`] ids: the text of the refusal.
pub fn describe_reply(
    catalog: &Catalog,
    ids: &[String],
    gate: &dyn Fn(&str, &str) -> Gate,
) -> Result<String, String> {
    if ids.is_empty() {
        return Err(format!("tool_ids is empty: name 1 to {MAX_DESCRIBED} tools as server:tool."));
    }
    if ids.len() > MAX_DESCRIBED {
        return Err(format!(
            "too many tool_ids: {} (max {MAX_DESCRIBED}). Narrow your selection.",
            ids.len()
        ));
    }
    let mut asked: Vec<&str> = Vec::new();
    for id in ids.iter().map(|id| id.trim()) {
        if !asked.contains(&id) {
            asked.push(id);
        }
    }
    let found: Vec<_> = asked.into_iter().map(|id| (id, look_up(catalog, id, gate))).collect();
    let mut reply = Reply { definitions: Vec::new(), errors: Vec::new() };
    for (id, found) in &found {
        match found {
            Ok(listed) => reply.definitions.push(Entry::new(listed, None)),
            Err((error, remediation)) => {
                reply.errors.push(Problem { id: (*id).to_owned(), error, remediation: remediation.clone() });
            }
        }
    }
    // Strings and JSON that was parsed before: this does not fail.
    Ok(serde_json::to_string(&reply).unwrap_or_default())
}

type Found = Result<std::sync::Arc<Listed>, (&'static str, String)>;

fn look_up(catalog: &Catalog, id: &str, gate: &dyn Fn(&str, &str) -> Gate) -> Found {
    let Some((server, tool)) =
        id.split_once(':').filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
    else {
        return Err(("not_found", "A tool id is server:tool, as retrieve_tools shows it.".into()));
    };
    match gate(server, tool) {
        Gate::Open => catalog.resolve(server, tool).ok_or_else(|| not_found(catalog, id, gate)),
        Gate::Hidden => Err(not_found(catalog, id, gate)),
        Gate::Quarantined => {
            let advice =
                "Its server is quarantined: a person must approve it before its tools can be seen or called.";
            Err(("quarantined", advice.into()))
        }
        Gate::Disabled => {
            Err(("disabled", "The tool or its server is switched off in the configuration.".into()))
        }
    }
}

/// Says the same whether the tool does not exist or is hidden.
fn not_found(catalog: &Catalog, id: &str, gate: &dyn Fn(&str, &str) -> Gate) -> (&'static str, String) {
    let lower = id.to_lowercase();
    let meant = catalog.tools().find(|tool| {
        tool.id() != id && tool.id().to_lowercase() == lower && gate(&tool.server, &tool.tool) == Gate::Open
    });
    let advice = match meant {
        Some(tool) => format!("Did you mean {}? Ids are case-sensitive.", tool.id()),
        None => "No such tool is known here. Find tools with retrieve_tools.".into(),
    };
    ("not_found", advice)
}
