//! THE STORY: the life of a call to an upstream's tool, from its raw arguments to its reply.
//!
//! `call` opens a record, runs the stages, closes the record whatever happened, and replies. The stages are one
//! straight function; each returns the proof that a later one asks for. The call runs in a task of its own, so that a
//! lost connection neither stops a running tool nor leaves a record open.

use std::sync::Arc;

use bytes::Bytes;
use policy::{Permit, Variant};
use tokio_util::sync::CancellationToken;
use wire::client::CallOptions;
use wire::server::ProgressSink;

use crate::caller::Caller;
use crate::deliver::{self, Delivery};
use crate::live::Snapshot;
use crate::plan::Plan;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::Request;
use crate::{Gateway, admit, answer, check, failure, progress, rules};

/// A call as it came in.
pub struct Call {
    /// Which of the three tools was called.
    pub variant: Variant,
    /// The raw `arguments` object.
    pub arguments: Bytes,
    /// The call asks to run as a task.
    pub as_task: bool,
    /// Where the upstream's progress goes, if the agent wants it.
    pub progress: Option<ProgressSink>,
    /// Fires when the agent takes the call back.
    pub cancel: CancellationToken,
}

impl Gateway {
    /// Makes a call to an upstream's tool. Never fails: what went wrong is in the reply and in the record.
    pub async fn call(self: &Arc<Self>, caller: Caller, call: Call) -> Reply {
        let gateway = Arc::clone(self);
        let request_id = caller.request_id.clone();
        self.running
            .spawn(async move { gateway.run(caller, call).await })
            .await
            .unwrap_or_else(|lost| Reply::internal(&request_id, &lost.to_string()))
    }

    async fn run(&self, caller: Caller, call: Call) -> Reply {
        let request = self.parse(&call.arguments).await;
        let opened = Record::open(&self.store, &caller, call.variant, &call.arguments, request.as_ref().ok());
        let mut record = match opened {
            Ok(record) => record,
            Err(refusal) => return Reply::refused(refusal, &caller.request_id),
        };
        let end = self.stages(&caller, call, request, &mut record).await;
        record.close(&end).await;
        match end {
            Ok(delivery) => delivery.reply,
            Err(refusal) => Reply::refused(refusal, &caller.request_id),
        }
    }

    async fn stages(
        &self,
        caller: &Caller,
        call: Call,
        request: Result<Request, Refusal>,
        record: &mut Record,
    ) -> Result<Delivery, Refusal> {
        let now: Arc<Snapshot> = self.live.now();
        let request = request?;

        let standing = rules::standing(&now, &request);
        let connected = self.connect(&request, &standing, &call.cancel).await?;
        let listed = self.catalog().resolve(&request.server, &request.tool);
        let permit: Permit =
            rules::decide(caller, &now, &standing, listed.as_deref(), &request, call.variant)?;
        let (connected, listed) = rules::permitted(connected, listed, &request)?;

        request.refuse_misplaced_save(|key| listed.declares_parameter(key))?;
        rules::check_arguments(&self.work, &listed, &request).await?;
        let plan: Plan = self.plan(&now, request.save.as_ref(), call.as_task, &call.cancel).await?;
        let _slot = admit::slot(self, &now, &permit, &call.cancel).await?;

        record.dispatched()?;
        let (progress, forwarding) = progress::forward(call.progress);
        let options = CallOptions {
            timeout: standing.timeout,
            total: standing.total_timeout,
            cancel: call.cancel.clone(),
            progress,
        };
        let called = connected.call(&permit, request.arguments, options).await;
        forwarding.finish().await;
        let raw = called.map_err(|failure| failure::explain(failure, &permit, &listed))?;
        record.answered(raw.len());

        let answer = answer::index(&self.work, raw, &call.cancel).await?;
        let checked = check::output(self, &now, &listed, answer, record).await?;
        let redacted = content::clean::clean(checked);
        deliver::deliver(self, redacted, plan, &call.cancel).await
    }
}
