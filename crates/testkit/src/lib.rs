//! Test-only: a scripted upstream, a raw client, a gateway in a temporary home, and secrets put together at run time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]
#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::zombie_processes)]
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

/// The public fixture data, beside the checkout or at `MCPPROXY_SUITES`. Says in one line when it is not there; where CI
/// runs, that is a failure.
pub fn suites() -> Option<std::path::PathBuf> {
    let beside =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|dir| dir.join("shared/suites"));
    let named = std::env::var_os("MCPPROXY_SUITES").map(std::path::PathBuf::from);
    let found = named.into_iter().chain(beside).find(|dir| dir.is_dir());
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "the fixture data is missing: set MCPPROXY_SUITES"
    );
    if found.is_none() {
        println!(
            "skipped: the public fixture data is not beside the checkout and MCPPROXY_SUITES is not set"
        );
    }
    found
}
