//! mcpproxy: one program between AI agents and their MCP servers.

mod cli;
mod daemon;
mod serve;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The watcher outlives us and must stay small: it runs before anything else is set up.
    let mut arguments = std::env::args();
    if let (Some(cli::WATCH_COMMAND), Some(instance)) = (arguments.nth(1).as_deref(), arguments.next()) {
        gateway::watch_children(&instance);
        return ExitCode::SUCCESS;
    }
    ignore_file_size_signal();
    raise_file_limit();
    // Only an install that comes second fails, and there is none.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    cli::run()
}

/// Every connection, upstream and large answer needs a descriptor; the usual soft limit is meant for other programs.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // What cannot be raised stays; the listeners bear running out of descriptors.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Writing past a file size limit must be an error of that write, not the end of the program.
#[expect(unsafe_code, reason = "std has no way to ignore a signal")]
fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN installs no handler, so nothing of ours ever runs in signal context.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
