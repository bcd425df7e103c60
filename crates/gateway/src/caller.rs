//! Who makes a call, as far as the gateway needs to know.

use policy::Principal;
use store::Source;

/// The caller of one call.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who it is and what it may do.
    pub principal: Principal,
    /// The road by which it came.
    pub source: Source,
    /// MCP session, if there is one.
    pub session: Option<String>,
    /// Name that the client gave for itself.
    pub client_name: Option<String>,
    /// Version that the client gave for itself.
    pub client_version: Option<String>,
    /// Id of this call: in the record, in the `X-Request-Id` header and at the end of refusals.
    pub request_id: String,
}

/// A fresh request id: a ULID, so that ids sort by time.
#[must_use]
pub fn new_request_id() -> String {
    store::new_id()
}
