//! Control: the configuration that the running gateway obeys, and going over to another one.

use std::sync::{Arc, Mutex, PoisonError};

use config::{Loaded, Sources};
use gateway::mcp::Server;
use gateway::{Gateway, Reloaded};

use super::guard::{Guard, Rules, TrustedHosts};
use super::mcp::Surface;
use crate::daemon::apikey::ApiKey;

/// The one place that changes the running configuration.
pub struct Control {
    sources: Sources,
    gateway: Arc<Gateway>,
    mcp: Server<Surface>,
    guard: Guard,
    key: ApiKey,
    /// Servers are started from here, whichever thread noticed the change.
    runtime: tokio::runtime::Handle,
    state: Mutex<State>,
}

struct State {
    /// What is obeyed: of keys that need a restart, what the gateway was started with.
    loaded: Loaded,
    error: Option<String>,
    needs_restart: Vec<String>,
}

/// What a reload did.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Keys that changed and are obeyed from now on.
    pub applied: Vec<String>,
    /// Keys that changed and are obeyed after a restart.
    pub needs_restart: Vec<String>,
    /// What the gateway did.
    pub reloaded: Reloaded,
}

impl Control {
    /// Control over a gateway that was opened with this configuration. Must be called within a tokio runtime.
    pub fn new(
        sources: Sources,
        loaded: Loaded,
        gateway: Arc<Gateway>,
        mcp: Server<Surface>,
        guard: Guard,
        key: ApiKey,
    ) -> Self {
        let state = State { loaded, error: None, needs_restart: Vec::new() };
        let runtime = tokio::runtime::Handle::current();
        Self { sources, gateway, mcp, guard, key, runtime, state: Mutex::new(state) }
    }

    /// Reads the file again and goes over to what it says, whole; a file that is not in order changes nothing. `by_hand`
    /// means that a person asked, and does everything also when no byte changed. May block: not for tokio's workers.
    ///
    /// # Errors
    /// Every problem of the file; they are in the log and in `status` too.
    pub fn reload(&self, by_hand: bool) -> Result<Outcome, Vec<String>> {
        let _runtime = self.runtime.enter();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.go_over(&mut state, by_hand) {
            Ok(outcome) => {
                state.error = None;
                for warning in &state.loaded.warnings {
                    tracing::warn!("configuration: {warning}");
                }
                tracing::info!(
                    applied = ?outcome.applied,
                    needs_restart = ?outcome.needs_restart,
                    started = ?outcome.reloaded.servers,
                    ended = ?outcome.reloaded.gone,
                    "configuration loaded"
                );
                Ok(outcome)
            }
            Err(problems) => {
                let all = problems.join("; ");
                tracing::error!("the configuration is not in order, so the one before stays in force: {all}");
                state.error = Some(all);
                Err(problems)
            }
        }
    }

    /// Why the file as it is now is not obeyed, if it is not.
    pub fn last_error(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).error.clone()
    }

    /// Keys that wait for a restart.
    pub fn needs_restart(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).needs_restart.clone()
    }

    /// Switches a server on or off in the file, and obeys it.
    ///
    /// # Errors
    /// There is no such server, or the file cannot be changed, or it is not in order.
    pub fn set_enabled(&self, server: &str, on: bool) -> Result<Outcome, Vec<String>> {
        config::edit::set_server(&self.sources.path, server, "enabled", serde_json::Value::Bool(on))
            .map_err(|problem| vec![problem.to_string()])?;
        self.reload(false)
    }

    fn go_over(&self, state: &mut State, by_hand: bool) -> Result<Outcome, Vec<String>> {
        let texts =
            |problems: Vec<config::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let loaded = super::judge::load(&self.sources).map_err(texts)?;
        if loaded.first_run && !state.loaded.first_run {
            return Err(vec![format!("the file {} is gone", self.sources.path.display())]);
        }
        if loaded.document.is_blank() && !state.loaded.document.is_blank() {
            // An editor that truncates first must not end every server for a moment.
            return Err(vec![format!(
                "the file {} is empty; write {{}} into it to mean the defaults",
                self.sources.path.display()
            )]);
        }
        let changes = config::diff(&state.loaded.document, &loaded.document);
        let applied: Vec<String> =
            changes.iter().filter(|c| c.has_effect && !c.needs_restart()).map(|c| c.path.clone()).collect();
        let needs_restart = loaded.config.waits_for_restart(&state.loaded.config);
        let needs_restart: Vec<String> = needs_restart.into_iter().map(str::to_owned).collect();
        let config = loaded.config.clone().with_restart_values_of(&state.loaded.config);
        let rules = Rules {
            key: self.key.clone(),
            trusted_hosts: TrustedHosts::parse(&config.trusted_hosts),
            require_mcp_auth: config.require_mcp_auth,
        };
        let reloaded = self.gateway.reload(config.clone(), by_hand, &applied)?;
        self.guard.replace(rules);
        if reloaded.menu_changed {
            self.mcp.tools_changed();
        }
        state.needs_restart.clone_from(&needs_restart);
        state.loaded = Loaded { config, ..loaded };
        Ok(Outcome { applied, needs_restart, reloaded })
    }
}
