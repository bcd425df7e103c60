//! Output validation of an answer: where it is done, and what the agent and the record read when the tool broke its promise.

use std::sync::Arc;

use catalog::Listed;
use config::ValidationMode;
use content::Answer;
use content::schema::{Checked, OutputFault, OutputMode, OutputRules, Stopped};
use store::Reason;

use crate::Gateway;
use crate::live::Snapshot;
use crate::record::Record;
use crate::refusal::Refusal;

/// Structured output up to this size may be checked where it is; larger one is checked by the work lane.
const INLINE_BYTES: u64 = 64 * 1024;

/// Checks the structured output of an answer against the schema that its tool declares.
///
/// # Errors
/// The rules stop the answer, or it could not be read back.
pub async fn output(
    gateway: &Gateway,
    now: &Snapshot,
    listed: &Arc<Listed>,
    answer: Answer,
    record: &mut Record,
) -> Result<Checked, Refusal> {
    let rules = rules(now);
    let schemas = Arc::clone(&gateway.schemas);
    let bytes = answer.structured().map_or(0, jsonspan::Span::len);
    let tool = Arc::clone(listed);
    let here = !rules.look_at(&answer) || (bytes <= INLINE_BYTES && listed.is_output_quick(&schemas, bytes));
    let check = move || tool.check_output(&schemas, answer, &rules);
    let checked = if here { Some(check()) } else { gateway.work.compute(check).await };
    match checked {
        Some(Ok(checked)) => {
            note(listed, &checked, record);
            Ok(checked)
        }
        Some(Err(Stopped::Fault(fault))) => {
            Err(Refusal::blocked(Reason::OutputSchema, stopped(listed, &fault)))
        }
        Some(Err(Stopped::Io(error))) => {
            let text = format!("The answer could not be read back: {error}");
            Err(Refusal::failed(Reason::Internal, text))
        }
        None => {
            let text = "The answer could not be checked: internal error; please report it";
            Err(Refusal::failed(Reason::Internal, text))
        }
    }
}

fn rules(now: &Snapshot) -> OutputRules {
    let set = now.config.output_validation;
    OutputRules {
        mode: match set.mode {
            ValidationMode::Off => OutputMode::Off,
            ValidationMode::Warn => OutputMode::Warn,
            ValidationMode::Strict => OutputMode::Strict,
        },
        max_bytes: set.max_bytes,
        max_depth: usize::try_from(set.max_depth).unwrap_or(usize::MAX),
        block_missing: set.block_missing,
    }
}

/// What is passed on all the same is told in the record; a schema that cannot be used also in the log, and once.
fn note(listed: &Listed, checked: &Checked, record: &mut Record) {
    if let Some(fault) = checked.fault() {
        record.warn(Reason::OutputSchema, format!("passed on although {fault}"));
    }
    if let Some(problem) = checked.problem()
        && listed.tells_output_problem()
    {
        let problem = crate::failure::cleaned(problem);
        tracing::warn!(
            server = listed.server,
            tool = listed.tool,
            "the output schema is not checked: {problem}"
        );
        record.warn(
            Reason::OutputSchema,
            format!("passed on unchecked, as all answers of this tool: {problem}"),
        );
    }
}

/// What the agent reads. The tool has run: an agent that does not know this calls it again.
fn stopped(listed: &Listed, fault: &OutputFault) -> String {
    let id = listed.id();
    format!(
        "output schema validation failed for {id}: {fault}. The tool DID run: do not call it again just to get another answer. \
         The server broke the outputSchema that it declares, so its answer was stopped by output_validation; nothing of it \
         was delivered or saved. The operator can have the server mended, or choose another output_validation.mode."
    )
}
