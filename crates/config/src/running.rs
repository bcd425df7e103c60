//! A new configuration in a program that runs: what was bound at its start stays until the next one.

use crate::Config;

/// A key whose change needs a restart, and what it sets.
struct Bound {
    path: &'static str,
    is_same: fn(&Config, &Config) -> bool,
    keep: fn(&mut Config, &Config),
}

/// Every key of the table that is obeyed and needs a restart.
static BOUND: &[Bound] = &[
    Bound {
        path: "listen",
        is_same: |a, b| a.listen == b.listen,
        keep: |new, old| new.listen = old.listen.clone(),
    },
    Bound {
        path: "data_dir",
        is_same: |a, b| a.data_dir == b.data_dir,
        keep: |new, old| new.data_dir = old.data_dir.clone(),
    },
    Bound {
        path: "api_key",
        is_same: |a, b| a.api_key == b.api_key,
        keep: |new, old| new.api_key = old.api_key.clone(),
    },
    Bound {
        path: "enable_socket",
        is_same: |a, b| a.enable_socket == b.enable_socket,
        keep: |new, old| new.enable_socket = old.enable_socket,
    },
    Bound {
        path: "spool_max_bytes",
        is_same: |a, b| a.spool_max_bytes == b.spool_max_bytes,
        keep: |new, old| new.spool_max_bytes = old.spool_max_bytes,
    },
    Bound {
        path: "logging.log_dir",
        // Logs that lie in the data directory move with it: that is one change, not two.
        is_same: |a, b| {
            let inside =
                |config: &Config| config.log_dir.strip_prefix(&config.data_dir).ok().map(ToOwned::to_owned);
            a.log_dir == b.log_dir || (inside(a).is_some() && inside(a) == inside(b))
        },
        keep: |new, old| new.log_dir = old.log_dir.clone(),
    },
];

impl Config {
    /// This configuration as a program that runs with `running` can take it over at once: what needs a restart stays
    /// as it runs. A gateway that other machines can reach goes on asking every caller for a token, even if the
    /// file, which no longer lets it listen there, does not.
    #[must_use]
    pub fn with_restart_values_of(mut self, running: &Self) -> Self {
        for bound in BOUND {
            (bound.keep)(&mut self, running);
        }
        self.require_mcp_auth |= !self.listen.is_loopback();
        self
    }

    /// The keys of this configuration (as it is written) that differ from what runs and wait for a restart. It is empty
    /// again when the file says what runs, whatever was reloaded in between.
    #[must_use]
    pub fn waits_for_restart(&self, running: &Self) -> Vec<&'static str> {
        let waiting = BOUND.iter().filter(|bound| !(bound.is_same)(self, running)).map(|bound| bound.path);
        let kept_auth = !running.listen.is_loopback() && !self.require_mcp_auth;
        waiting.chain(kept_auth.then_some("require_mcp_auth")).collect()
    }
}
