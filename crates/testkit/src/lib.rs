//! Test-only: a scripted upstream, a raw client, a gateway in a temporary home, and secrets put together at run time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]
//!
//! A case is to cost six lines:
//!
//! ```ignore
//! let home = testkit::home!().root("out").upstream("srv", Script::result(r#"{"content":[{"type":"text","text":"hi"}]}"#));
//! let gateway = home.serve();
//! let reply = gateway.call("srv:tool").save(home.in_root("out/x.txt")).send();
//! assert_eq!(reply.envelope()["bytes"], 2);
//! assert_eq!(home.calls("srv"), 1);
//! ```

pub mod client;
pub mod home;
pub mod http;
pub mod script;
pub mod secrets;
pub mod stdio;
pub mod tree;

pub use client::{CallBuilder, Reply};
pub use home::{Gateway, Home, Output};
pub use http::HttpUpstream;
pub use script::{Action, Script};

/// A temporary home for the gateway's binary of the crate under test.
#[macro_export]
macro_rules! home {
    () => {
        $crate::Home::new(env!("CARGO_BIN_EXE_mcpproxy"))
    };
}
