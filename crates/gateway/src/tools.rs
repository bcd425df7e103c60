//! The listed tools, for people and programs beside agents: what may be called now, and what a search finds.

use std::sync::Arc;

use catalog::Listed;

use crate::Gateway;
use crate::find::callable;

/// One tool that may be called.
#[derive(Debug, Clone)]
pub struct ToolLine {
    /// The server's name.
    pub server: String,
    /// The tool's name at that server.
    pub tool: String,
    /// What the server says about it.
    pub description: String,
    /// `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`.
    pub hints: [Option<bool>; 4],
    /// The tool of ours to call it with.
    pub call_with: &'static str,
}

impl Gateway {
    /// Every tool that may be called now, by server and name.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolLine> {
        let now = self.live.now();
        let mut tools: Vec<_> =
            self.catalog().tools().filter(|tool| callable(&now, tool)).map(line).collect();
        tools.sort_by(|a, b| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)));
        tools
    }

    /// The tools that fit a query, best first, with their scores.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<(ToolLine, f64)> {
        let now = self.live.now();
        let hits = self.catalog().search(query, usize::MAX);
        hits.iter()
            .filter(|hit| callable(&now, &hit.listed))
            .take(limit)
            .map(|hit| (line(&hit.listed), hit.score))
            .collect()
    }
}

fn line(listed: &Arc<Listed>) -> ToolLine {
    let said = &listed.annotations;
    ToolLine {
        server: listed.server.clone(),
        tool: listed.tool.clone(),
        description: listed.description.clone(),
        hints: [said.read_only, said.destructive, said.idempotent, said.open_world],
        call_with: policy::call_with(said).tool_name(),
    }
}
