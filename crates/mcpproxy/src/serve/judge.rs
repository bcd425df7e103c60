//! Whether a configuration is in order: the file and the roots that it names, every problem at once.

use config::{Loaded, Problem, Sources};
use gateway::OpenProblem;
use gateway::outputs::Outputs;

/// What decides whether a root is in order.
const OF_ROOTS: [&str; 6] = [
    "data_dir",
    "tool_output_roots",
    "tool_output_trusted_directories",
    "tool_output_trusted_owners",
    "tool_output_allow_hidden",
    "tool_output_path_map",
];

/// Reads the file that `sources` names. Of one that is in order the roots are yet to be opened.
///
/// # Errors
/// Every problem found; those of the roots too, as far as the keys that decide about them are in order.
pub fn load(sources: &Sources) -> Result<Loaded, Vec<Problem>> {
    config::load(sources).map_err(|mut problems| {
        if let Some(Err(more)) = config::part(sources, &OF_ROOTS).as_ref().map(roots) {
            problems.extend(more);
        }
        problems
    })
}

/// Whether answers could be saved beneath the roots of a configuration.
///
/// # Errors
/// Every root that breaks a rule.
pub fn roots(loaded: &Loaded) -> Result<(), Vec<Problem>> {
    match Outputs::read_only(loaded.config.clone(), &loaded.path) {
        Ok(_) => Ok(()),
        Err(OpenProblem::Roots(roots)) => Err(roots
            .iter()
            .map(|root| {
                let message = format!("{}: {}", root.path.display(), root.message);
                Problem::new(format!("$.{}[{}]", root.key, root.index), message, root.remedy.clone())
            })
            .collect()),
        Err(other) => {
            Err(vec![Problem::new(loaded.path.display().to_string(), other.to_string(), "see the message")])
        }
    }
}
