//! The configuration of now. One snapshot serves a call; only the write of a save looks at the snapshot of that moment.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use config::Config;
use outputfile::{Reservations, Roots, Settings};
use upstream::Held;

/// A configuration and what was made of it, replaced as a whole or not at all.
pub struct Snapshot {
    /// What the file, the environment and the flags say.
    pub config: Config,
    /// The directories that answers may be saved beneath.
    pub roots: Roots,
    /// Servers that are held, and why.
    pub held: Held,
    /// Entries of `mcpServers` by name.
    servers: HashMap<String, usize>,
}

impl Snapshot {
    /// Puts a configuration and its opened roots together.
    pub fn new(config: Config, roots: Roots, held: Held) -> Self {
        let servers = config.servers.iter().enumerate().map(|(i, s)| (s.name.clone(), i)).collect();
        Self { config, roots, held, servers }
    }

    /// Whether a server is held: by its entry, or because it is new.
    pub fn is_held(&self, name: &str) -> bool {
        self.held.contains_key(name) || self.server(name).is_some_and(|s| s.quarantined == Some(true))
    }

    /// The entry of a server.
    pub fn server(&self, name: &str) -> Option<&config::Server> {
        self.servers.get(name).and_then(|i| self.config.servers.get(*i))
    }

    /// A path as we see it, for one as the agent sees it.
    pub fn inside(&self, path: &str) -> String {
        self.mapped(path, |pair| (&pair.1, &pair.0))
    }

    /// A path as the agent sees it, for one as we see it.
    pub fn outside(&self, path: &str) -> String {
        self.mapped(path, |pair| (&pair.0, &pair.1))
    }

    /// A text of ours that names paths as we see them, with the paths as the agent sees them.
    pub fn outside_text(&self, text: &str) -> String {
        let pairs = self.config.output.path_map.iter().filter_map(|(a, b)| Some((a.to_str()?, b.to_str()?)));
        pairs.fold(text.to_owned(), |text, (inside, outside)| text.replace(inside, outside))
    }

    fn mapped(&self, path: &str, way: impl Fn(&(PathBuf, PathBuf)) -> (&PathBuf, &PathBuf)) -> String {
        // The longest prefix wins, so that a directory inside a mapped one can be mapped elsewhere.
        let best = self
            .config
            .output
            .path_map
            .iter()
            .map(way)
            .filter_map(|(from, to)| {
                let from = from.to_str()?.trim_end_matches('/');
                let rest = path.strip_prefix(from).filter(|r| r.is_empty() || r.starts_with('/'))?;
                Some((from.len(), format!("{}{rest}", to.to_str()?.trim_end_matches('/'))))
            })
            .max_by_key(|(length, _)| *length);
        best.map_or_else(|| path.to_owned(), |(_, mapped)| mapped)
    }
}

/// What the writer is told of a configuration.
pub fn settings(config: &Config, config_file: &Path, reservations: &Reservations) -> Settings {
    let output = &config.output;
    Settings {
        roots: output.roots.clone(),
        trusted_directories: output.trusted_directories.clone(),
        trusted_owners: output.trusted_owners.clone(),
        allow_hidden: output.allow_hidden,
        file_mode: output.file_mode,
        max_bytes: output.max_bytes,
        min_free_bytes: output.min_free_bytes,
        max_total_bytes: output.max_total_bytes,
        config_dir: config_file.parent().map(Path::to_owned),
        data_dir: Some(config.data_dir.clone()),
        log_dir: Some(config.log_dir.clone()),
        own_paths: vec![config_file.to_owned()],
        home_dirs: std::env::var_os("HOME").map(PathBuf::from).into_iter().collect(),
        reservations: reservations.clone(),
        ..Settings::default()
    }
}

/// The place where the snapshot of now is found.
pub struct Live(RwLock<Arc<Snapshot>>);

impl Live {
    /// Begins with this one.
    pub fn new(snapshot: Snapshot) -> Self {
        Self(RwLock::new(Arc::new(snapshot)))
    }

    /// The snapshot of now.
    pub fn now(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes over to another one.
    pub fn replace(&self, snapshot: Snapshot) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }
}
