//! The record of a call: opened before anything else, closed exactly once however the call ends.

use std::sync::Arc;
use std::time::Instant;

use policy::Variant;
use store::{Busy, Event, EventType, InFlight, Opening, Reason, Status, Store, UpstreamRan};

use crate::caller::Caller;
use crate::deliver::Delivery;
use crate::refusal::Refusal;
use crate::request::Request;

/// An open record.
pub struct Record {
    store: Arc<Store>,
    in_flight: Option<InFlight>,
    event: Event,
    /// The end is a decision of ours about what may happen.
    decision: bool,
    /// What was passed on with a warning.
    warnings: Vec<(Reason, String)>,
    began: Instant,
}

impl Record {
    /// Opens the record of a call to an upstream's tool, with what is known of it.
    ///
    /// # Errors
    /// No record can be kept now, so the call must not run.
    pub fn open(
        store: &Arc<Store>,
        caller: &Caller,
        variant: Variant,
        raw: &[u8],
        request: Option<&Request>,
    ) -> Result<Self, Refusal> {
        let mut event = Event::new(EventType::ToolCall, store::now_ms());
        event.variant = Some(variant.as_str().to_owned());
        event.request_bytes = u64::try_from(raw.len()).ok();
        event.upstream_ran = Some(UpstreamRan::No);
        match request {
            Some(request) => {
                event.server = Some(request.server.clone());
                event.tool = Some(request.tool.clone());
                event.intent_sensitivity.clone_from(&request.sensitivity);
                event.intent_reason.clone_from(&request.reason);
                event.arguments = Some(beginning(&request.arguments));
                event.arguments_truncated = request.arguments.len() > MAX_KEPT;
            }
            None => {
                if let Some((server, tool)) = Request::names(raw) {
                    (event.server, event.tool) = (Some(server), Some(tool));
                }
                event.arguments = Some(beginning(raw));
                event.arguments_truncated = raw.len() > MAX_KEPT;
            }
        }
        Self::begin(store, caller, event)
    }

    /// Opens the record of a call to one of our own tools.
    ///
    /// # Errors
    /// As for [`Record::open`].
    pub fn internal(store: &Arc<Store>, caller: &Caller, tool: &str, raw: &[u8]) -> Result<Self, Refusal> {
        let mut event = Event::new(EventType::InternalToolCall, store::now_ms());
        event.tool = Some(tool.to_owned());
        event.arguments = Some(beginning(raw));
        event.arguments_truncated = raw.len() > MAX_KEPT;
        event.request_bytes = u64::try_from(raw.len()).ok();
        Self::begin(store, caller, event)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where records are opened")]
    fn begin(store: &Arc<Store>, caller: &Caller, mut event: Event) -> Result<Self, Refusal> {
        event.source = caller.source;
        event.caller = Some(caller.principal.kind().as_str().to_owned());
        event.session.clone_from(&caller.session);
        event.client_name.clone_from(&caller.client_name);
        event.client_version.clone_from(&caller.client_version);
        event.request_id = Some(caller.request_id.clone());
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (server, tool, variant, who) =
            (text(&event.server), text(&event.tool), text(&event.variant), text(&event.caller));
        let in_flight = store
            .begin(&Opening {
                request_id: &caller.request_id,
                parent_id: "",
                started_ms: event.time_ms,
                kind: event.kind,
                source: event.source,
                caller: &who,
                session: caller.session.as_deref().unwrap_or_default(),
                client_name: caller.client_name.as_deref().unwrap_or_default(),
                client_version: caller.client_version.as_deref().unwrap_or_default(),
                server: &server,
                tool: &tool,
                variant: &variant,
            })
            .map_err(|full| Refusal::rejected(Reason::StoreFull, full.to_string()))?;
        Ok(Self {
            store: store.clone(),
            in_flight: Some(in_flight),
            event,
            decision: false,
            warnings: Vec::new(),
            began: Instant::now(),
        })
    }

    /// The upstream may run from now on; a record that is never closed says so.
    ///
    /// # Errors
    /// That cannot be noted, so the call must not be sent.
    pub fn dispatched(&mut self) -> Result<(), Refusal> {
        if let Some(in_flight) = &self.in_flight {
            let noted = self.store.mark_dispatched(in_flight);
            noted.map_err(|full| Refusal::rejected(Reason::StoreFull, full.to_string()))?;
        }
        self.event.upstream_ran = Some(UpstreamRan::Unknown);
        Ok(())
    }

    /// The upstream ran and answered with so many bytes.
    pub fn answered(&mut self, bytes: u64) {
        self.event.upstream_ran = Some(UpstreamRan::Yes);
        self.event.response_bytes = Some(bytes);
        if let Some(in_flight) = &self.in_flight
            && let Err(error) = self.store.mark_answered(in_flight)
        {
            tracing::debug!("the answer could not be noted: {error}");
        }
    }

    /// Something is passed on with a warning, which gets a `policy_decision` row.
    pub fn warn(&mut self, reason: Reason, message: String) {
        self.warnings.push((reason, message));
    }

    /// Closes the record by the end of the call.
    pub async fn close(mut self, end: &Result<Delivery, Refusal>) {
        match end {
            Ok(delivery) => self.note_delivery(delivery),
            Err(refusal) => self.note_refusal(refusal),
        }
        self.finish().await;
    }

    /// Closes the record of one of our own tools: the text of its answer, or its refusal.
    pub async fn close_internal(mut self, end: &Result<String, Refusal>) {
        match end {
            Ok(text) => {
                self.event.response_bytes = u64::try_from(text.len()).ok();
                self.event.response = Some(beginning(text.as_bytes()));
                self.event.response_truncated = text.len() > MAX_KEPT;
            }
            Err(refusal) => self.note_refusal(refusal),
        }
        self.finish().await;
    }

    fn note_delivery(&mut self, delivery: &Delivery) {
        self.event.response = Some(delivery.response.text.clone());
        self.event.response_truncated = delivery.response.cut;
        self.event.saved.clone_from(&delivery.saved);
        if let Some(message) = &delivery.tool_error {
            self.event.status = Status::Error;
            self.event.reason = Some(Reason::ToolError);
            self.event.message = Some(message.clone());
        }
    }

    fn note_refusal(&mut self, refusal: &Refusal) {
        self.event.status = refusal.status;
        self.event.reason = Some(refusal.reason);
        self.event.message = Some(refusal.text().to_owned());
        self.event.saved = refusal.saved.as_deref().cloned();
        if let Some(ran) = refusal.ran {
            self.event.upstream_ran = Some(ran);
        }
        self.decision = refusal.decision;
    }

    /// The rows that end the call; the closing row, and a row for each decision of ours.
    fn rows(&mut self) -> Vec<Event> {
        self.event.duration_us = u64::try_from(self.began.elapsed().as_micros()).ok();
        let mut rows = vec![self.event.clone()];
        for (reason, message) in std::mem::take(&mut self.warnings) {
            rows.push(self.decided(Status::Warning, Some(reason), Some(message)));
        }
        if self.decision {
            rows.push(self.decided(self.event.status, self.event.reason, self.event.message.clone()));
        }
        rows
    }

    /// The row of a decision about this call.
    fn decided(&self, status: Status, reason: Option<Reason>, message: Option<String>) -> Event {
        let mut decision = Event::new(EventType::PolicyDecision, self.event.time_ms);
        let call = &self.event;
        decision.source = call.source;
        for (to, from) in [
            (&mut decision.caller, &call.caller),
            (&mut decision.session, &call.session),
            (&mut decision.client_name, &call.client_name),
            (&mut decision.client_version, &call.client_version),
            (&mut decision.request_id, &call.request_id),
            (&mut decision.server, &call.server),
            (&mut decision.tool, &call.tool),
            (&mut decision.variant, &call.variant),
        ] {
            to.clone_from(from);
        }
        Event { status, reason, message, ..decision }
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where records are closed")]
    async fn finish(mut self) {
        let rows = self.rows();
        let Some(in_flight) = self.in_flight.take() else { return };
        if let Err(Busy(in_flight, rows)) = self.store.finish(in_flight, rows) {
            // The queue is full: this call waits, so that no row is lost.
            let store = self.store.clone();
            let _ = tokio::task::spawn_blocking(move || store.finish_blocking(in_flight, rows)).await;
        }
    }
}

impl Drop for Record {
    /// A panic, or an end of the program that did not wait, leads here with an open record.
    #[expect(clippy::disallowed_methods, reason = "the one place where records are closed")]
    fn drop(&mut self) {
        let Some(in_flight) = self.in_flight.take() else { return };
        self.event.status = Status::Error;
        self.event.reason = Some(Reason::Internal);
        self.event.message = Some("internal error".into());
        let rows = self.rows();
        if let Err(Busy(in_flight, rows)) = self.store.finish(in_flight, rows) {
            let store = self.store.clone();
            std::thread::spawn(move || store.finish_blocking(in_flight, rows));
        }
    }
}

/// Most of the arguments that are handed to the store, which cuts further by the configuration, in bytes.
const MAX_KEPT: usize = 256 * 1024;

fn beginning(raw: &[u8]) -> String {
    String::from_utf8_lossy(&raw[..raw.len().min(MAX_KEPT)]).into_owned()
}
