//! Saved files over HTTP, and for the command line without a gateway: the same objects.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use gateway::outputs::{Output, OutputProblem, Outputs, Removal};
use gateway::records::{MAX_LIMIT, ReadError as RecordError, SavedFilter};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::fault::{Asked, Fault, Id, success};
use crate::cli::activity::time;

/// Which saved files to list.
#[derive(Deserialize, Default)]
pub struct Page {
    /// Beneath this root.
    pub root: Option<String>,
    /// Saved before this time, milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// At most so many.
    pub limit: Option<usize>,
    /// Skip so many of the newest.
    pub offset: Option<usize>,
}

/// `GET /api/v1/outputs`
pub async fn list(State(shared): State<Arc<Shared>>, page: Asked<Page>) -> Result<Json<Value>, Fault> {
    let page = page?.0;
    on_disk(&shared, move |outputs| listed(outputs, page)).await
}

/// `GET /api/v1/outputs/{id}`
pub async fn one(State(shared): State<Arc<Shared>>, id: Id) -> Result<Json<Value>, Fault> {
    let id = id?.0;
    on_disk(&shared, move |outputs| found(outputs, &id)).await
}

/// `POST /api/v1/outputs/{id}/verify`
pub async fn verify(State(shared): State<Arc<Shared>>, id: Id) -> Result<Json<Value>, Fault> {
    let id = id?.0;
    on_disk(&shared, move |outputs| verified(outputs, &id)).await
}

/// `DELETE /api/v1/outputs/{id}`
pub async fn remove(State(shared): State<Arc<Shared>>, id: Id) -> Result<Json<Value>, Fault> {
    let id = id?.0;
    on_disk(&shared, move |outputs| removed(outputs, &id)).await
}

async fn on_disk(
    shared: &Shared,
    job: impl FnOnce(&Outputs) -> Result<Value, Fault> + Send + 'static,
) -> Result<Json<Value>, Fault> {
    let done = shared.gateway.outputs(job).await;
    let broken =
        || Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error while looking at saved files");
    done.ok_or_else(broken)?.map(success)
}

/// A page of saved files.
///
/// # Errors
/// The page makes no sense, or the record cannot be read.
pub fn listed(outputs: &Outputs, page: Page) -> Result<Value, Fault> {
    let limit = page.limit.unwrap_or(50);
    if limit == 0 || limit > MAX_LIMIT {
        return Err(Fault::bad(format!("limit must be between 1 and {MAX_LIMIT}")));
    }
    let offset = page.offset.unwrap_or(0);
    let filter = SavedFilter { root: page.root, until_ms: page.until_ms, limit, offset };
    let (files, total) = outputs.list(&filter)?;
    let files: Vec<Value> = files.iter().map(value).collect();
    Ok(json!({"outputs": files, "total": total, "limit": limit, "offset": offset}))
}

/// One saved file, by the id or request id of its call, or by its path.
///
/// # Errors
/// There is none, or the record cannot be read.
pub fn found(outputs: &Outputs, id: &str) -> Result<Value, Fault> {
    Ok(json!({"output": value(&outputs.get(id)?)}))
}

/// Whether a file still is what was saved, by all of its bytes.
///
/// # Errors
/// There is none, or the record cannot be read. A file that changed is an answer and no error.
pub fn verified(outputs: &Outputs, id: &str) -> Result<Value, Fault> {
    let output = outputs.get(id)?;
    let (state, detail) = match outputs.verify(&output.id) {
        Ok(_) => ("unchanged", None),
        Err(OutputProblem::File(error)) => (state(&error), Some(error.to_string())),
        Err(other) => return Err(other.into()),
    };
    Ok(json!({"output": value(&output), "ok": detail.is_none(), "state": state, "detail": detail}))
}

/// Removes a file that still is what was saved.
///
/// # Errors
/// It is not, there is none, or the record cannot be written.
pub fn removed(outputs: &Outputs, id: &str) -> Result<Value, Fault> {
    let (output, removal) = outputs.remove(id)?;
    let state = match removal {
        Removal::Removed => "removed",
        Removal::Gone => "gone",
    };
    Ok(json!({"output": value(&output), "removed": removal == Removal::Removed, "state": state}))
}

fn state(error: &gateway::outputs::ReadError) -> &'static str {
    use gateway::outputs::ReadError;
    match error {
        ReadError::Gone { .. } => "gone",
        ReadError::Changed { .. } => "changed",
        _ => "unreachable",
    }
}

fn value(output: &Output) -> Value {
    let mut value = serde_json::to_value(output).unwrap_or_default();
    value["saved_at"] = json!(time(output.saved_ms));
    value
}

impl From<OutputProblem> for Fault {
    fn from(problem: OutputProblem) -> Self {
        use gateway::outputs::ReadError;
        let status = match &problem {
            OutputProblem::Unknown(_) | OutputProblem::Record(RecordError::Missing { .. }) => {
                StatusCode::NOT_FOUND
            }
            OutputProblem::File(ReadError::Io { .. }) => StatusCode::INTERNAL_SERVER_ERROR,
            OutputProblem::File(_) => StatusCode::CONFLICT,
            OutputProblem::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            OutputProblem::Record(_) | OutputProblem::ReadOnly => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let advice = match &problem {
            OutputProblem::File(error) if error.is_change() => {
                "; it is not touched: remove it by hand, then its entry can be removed"
            }
            _ => "",
        };
        Self::new(status, format!("{problem}{advice}"))
    }
}
