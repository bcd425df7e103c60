//! Upstream servers: launch, supervise, list, call.
