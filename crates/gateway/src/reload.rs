//! Going over to another configuration while calls run: whole, or not at all.

use config::Config;
use outputfile::Roots;
use store::{Event, EventType, Source};

use crate::live::{Snapshot, settings};
use crate::{Gateway, hold, retention};

/// What a reload did.
#[derive(Debug, Default, Clone)]
pub struct Reloaded {
    /// Servers that were started, or are started anew.
    pub servers: Vec<String>,
    /// Servers that are no longer there.
    pub gone: Vec<String>,
    /// What agents read about saving, and so the list of tools, is another one.
    pub menu_changed: bool,
}

impl Gateway {
    /// Goes over to `config`, whose keys that need a restart must be those of now. `by_hand` (SIGHUP, a command)
    /// remembers anew where the roots lead; a file that changed by itself does not. `changes` names what changed, for
    /// the record.
    ///
    /// # Errors
    /// What is wrong with it; everything stays as it is then.
    pub fn reload(&self, config: Config, by_hand: bool, changes: &[String]) -> Result<Reloaded, Vec<String>> {
        let _turn = self.reloading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = self.live.now();
        let wanted = settings(&config, &self.config_file, &self.reservations);
        let roots = if by_hand { Roots::open(wanted) } else { before.roots.reopen(wanted) };
        let roots = roots.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let held = hold::held(&self.store, &config, store::now_ms());
        let changed = self.upstreams.reconfigure(&config.servers, &held);
        let changed = changed
            .map_err(|e| vec![format!("the watcher of upstream processes could not be started: {e}")])?;
        let (limits, body_bytes) = retention(&config);
        self.store.set_limits(limits, body_bytes);
        let menu_changed = menu(&before.config) != menu(&config);
        self.live.replace(Snapshot::new(config, roots, held));
        self.forget(&changed.gone);
        self.note_change(changes);
        let now = self.live.now();
        let servers = changed.servers.into_iter().filter(|name| !now.is_held(name)).collect();
        Ok(Reloaded { servers, gone: changed.gone, menu_changed })
    }

    fn note_change(&self, changes: &[String]) {
        let mut event = Event::new(EventType::ConfigChange, store::now_ms());
        event.source = Source::Internal;
        // Names only: values may be secrets.
        event.detail = serde_json::to_string(&serde_json::json!({"changed": changes})).ok();
        if let Err(error) = self.store.append(event) {
            tracing::warn!("the change of the configuration could not be recorded: {error}");
        }
    }
}

/// Everything of a configuration that shows in the list of tools.
fn menu(config: &Config) -> (Vec<std::path::PathBuf>, Vec<(std::path::PathBuf, std::path::PathBuf)>, i64) {
    (config.output.roots.clone(), config.output.path_map.clone(), config.max_result_size_chars)
}
