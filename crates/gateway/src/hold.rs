//! Which servers are held: those that appeared, or came to be launched differently, after the first start that named any.
//!
//! A held server is not started and not connected. `"quarantined": false` in its entry is the operator's word and lets it
//! go; `"quarantine_enabled": false` switches holding off.

use config::{Config, Server};
use store::{ServerSeen, Store};
use upstream::Held;

/// Notes the servers of a configuration and says which are held, and why.
pub fn held(store: &Store, config: &Config, now_ms: i64) -> Held {
    let noted: Vec<_> = config.servers.iter().map(|s| (s.name.clone(), s.launch_fingerprint())).collect();
    let seen = match store.note_servers(&noted, now_ms) {
        Ok(seen) => seen,
        Err(error) => {
            // What cannot be looked up counts as new: failing open would start what nobody approved.
            tracing::error!("the servers could not be looked up in the database: {error}");
            return config.servers.iter().filter(|s| may_be_held(config, s)).map(unknown).collect();
        }
    };
    if !noted.is_empty() {
        store.end_first_start();
    }
    let pairs = config.servers.iter().zip(seen);
    pairs.filter(|(server, _)| may_be_held(config, server)).filter_map(|(s, seen)| judge(s, seen)).collect()
}

fn may_be_held(config: &Config, server: &Server) -> bool {
    config.hold_new_servers && server.quarantined.is_none()
}

fn judge(server: &Server, seen: ServerSeen) -> Option<(String, String)> {
    let what = if !seen.first_start {
        "it appeared after the first start"
    } else if seen.changed {
        "it is launched differently than when it was first seen (command, arguments, environment, directory, address or headers)"
    } else {
        return None;
    };
    Some((
        server.name.clone(),
        format!("held: {what}; look at its entry and add \"quarantined\": false to start it"),
    ))
}

fn unknown(server: &Server) -> (String, String) {
    let why = "held: the database that knows which servers were approved cannot be read; repair it, or add \
               \"quarantined\": false to start it";
    (server.name.clone(), why.to_owned())
}
