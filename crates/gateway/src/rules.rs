//! The questions that decide whether a call may run, put together from configuration, listing and request.

use std::sync::Arc;
use std::time::Duration;

use catalog::Listed;
use policy::{Annotations, Permit, Question, Rules, SaveWish, ToolFacts, Variant};
use serde_json::value::RawValue;
use store::Reason;
use tokio_util::sync::CancellationToken;
use upstream::Connected;

use crate::Gateway;
use crate::caller::Caller;
use crate::failure;
use crate::live::Snapshot;
use crate::refusal::{Refusal, raw};
use crate::request::Request;
use crate::work::Work;

/// Listing comes after `initialize`; a server that has just been started gets this much more than its `init_timeout`.
const LISTING: Duration = Duration::from_secs(5);

/// Arguments and schemas up to this size are looked at where they are.
const INLINE_BYTES: usize = 16 * 1024;

/// What the configuration says about the server and the tool of a request.
pub struct Standing {
    known: bool,
    enabled: bool,
    quarantined: bool,
    tool_enabled: bool,
    /// Longest silence of the upstream.
    pub timeout: Duration,
    /// Longest time of the call.
    pub total_timeout: Duration,
    /// How long a server that is not connected is waited for.
    pub patience: Duration,
}

/// Looks the server up.
pub fn standing(now: &Snapshot, request: &Request) -> Standing {
    let server = now.server(&request.server);
    Standing {
        known: server.is_some(),
        enabled: server.is_some_and(|s| s.enabled),
        quarantined: now.is_held(&request.server),
        tool_enabled: server.is_some_and(|s| s.allows_tool(&request.tool)),
        timeout: server.map_or(now.config.call_tool_timeout, |s| s.call_tool_timeout),
        total_timeout: server.map_or(now.config.call_tool_total_timeout, |s| s.call_tool_total_timeout),
        patience: server.map_or(now.config.init_timeout, |s| s.init_timeout) + LISTING,
    }
}

impl Gateway {
    /// A server that may run is connected first: only what it lists now can be judged. `None` for one that may not.
    pub(crate) async fn connect(
        &self,
        request: &Request,
        standing: &Standing,
        cancel: &CancellationToken,
    ) -> Result<Option<Connected>, Refusal> {
        if !standing.known || !standing.enabled || standing.quarantined {
            return Ok(None);
        }
        let ready = tokio::select! {
            ready = self.upstreams.ready(&request.server, standing.patience) => ready,
            () = cancel.cancelled() => return Err(Refusal::cancelled(false)),
        };
        ready.map(Some).map_err(|unavailable| {
            let more = vec![("server_name", raw(&request.server)), ("tool_name", raw(&request.tool))];
            Refusal::json(Reason::UpstreamUnavailable, failure::cleaned(&unavailable.to_string()), more)
        })
    }
}

/// Asks the policy.
pub fn decide(
    caller: &Caller,
    now: &Snapshot,
    standing: &Standing,
    listed: Option<&Listed>,
    request: &Request,
    variant: Variant,
) -> Result<Permit, Refusal> {
    let nothing_said = Annotations::default();
    let question = Question {
        principal: &caller.principal,
        server: &request.server,
        tool: &request.tool,
        variant,
        annotations: listed.map_or(&nothing_said, |l| &l.annotations),
        save: match &request.save {
            None => SaveWish::None,
            Some(save) if save.overwrite => SaveWish::Overwrite,
            Some(_) => SaveWish::Create,
        },
        facts: ToolFacts {
            server_known: standing.known,
            server_enabled: standing.enabled,
            server_quarantined: standing.quarantined,
            tool_listed: listed.is_some(),
            tool_enabled_by_config: standing.tool_enabled,
        },
        rules: &Rules {
            read_only_mode: now.config.read_only_mode,
            strict_server_validation: now.config.intent_strict,
        },
    };
    policy::decide(&question).map_err(|denial| {
        let reason = Reason::parse(denial.reason.as_str()).unwrap_or(Reason::Internal);
        Refusal::blocked(reason, denial.message)
    })
}

/// What a permit proves is there: a connected server and a listed tool. Anything else is a fault of ours.
pub fn permitted(
    connected: Option<Connected>,
    listed: Option<Arc<Listed>>,
    request: &Request,
) -> Result<(Connected, Arc<Listed>), Refusal> {
    connected.zip(listed).ok_or_else(|| {
        let id = format!("{}:{}", request.server, request.tool);
        Refusal::failed(Reason::Internal, format!("'{id}' was permitted but is not listed; please report it"))
    })
}

/// Checks the arguments against the tool's input schema.
///
/// # Errors
/// They do not fit; the refusal carries the schema.
pub async fn check_arguments(work: &Work, listed: &Arc<Listed>, request: &Request) -> Result<(), Refusal> {
    let schema = &listed.input_schema;
    // References and patterns are what makes a small schema dear.
    let plain = ["$ref", "$dynamicRef", "attern"].iter().all(|dear| !schema.contains(dear));
    let small = plain && request.arguments.len().max(schema.len()) <= INLINE_BYTES;
    let (tool, arguments) = (listed.clone(), request.arguments.clone());
    let check = move || tool.input().check(std::str::from_utf8(&arguments).unwrap_or_default());
    // A schema is compiled at its first use, and a pattern over large arguments cannot be interrupted.
    let checked = if small { Some(check()) } else { work.compute(check).await };
    match checked {
        Some(checked) => checked.map_err(|detail| invalid_arguments(listed, &detail)),
        None => Err(Refusal::failed(
            Reason::Internal,
            "The arguments could not be checked: internal error; please report it",
        )),
    }
}

/// A failure that carries the schema, so that the agent can mend the call.
pub fn invalid_arguments(listed: &Listed, detail: &str) -> Refusal {
    let id = format!("{}:{}", listed.server, listed.tool);
    let hint = format!(
        "Fix arguments to match input_schema, then retry. For the full definition call \
         describe_tool({{tool_ids:[\"{id}\"]}})."
    );
    let schema =
        RawValue::from_string(listed.input_schema.clone()).unwrap_or_else(|_| RawValue::NULL.to_owned());
    let more = vec![
        ("error_type", raw("invalid_params")),
        ("hint", raw(&hint)),
        ("input_schema", schema),
        ("tool", raw(&id)),
    ];
    Refusal::json(Reason::InvalidArguments, format!("invalid arguments for {id}: {detail}"), more)
}
