//! What is to become of the answer, decided before the upstream is called. Every refusal of a save is here.

use std::path::Path;

use content::Format;
use outputfile::{Ledger, SaveError, Target};
use policy::Principal;
use store::{Reason, Store};
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::live::Snapshot;
use crate::refusal::Refusal;
use crate::request::Save;

/// What is to become of the answer.
pub enum Plan {
    /// It goes to the agent.
    Forward,
    /// It goes into a file. The target is reserved until the plan is done with.
    Save {
        /// The file to make, proven to lie beneath a root.
        target: Target,
        /// What is written.
        format: Format,
    },
}

impl Gateway {
    /// Makes the plan for a call. Has no effect on the disk.
    ///
    /// # Errors
    /// A save that cannot be done, or not by this caller; the tool must then not run.
    pub(crate) async fn plan(
        &self,
        now: &std::sync::Arc<Snapshot>,
        save: Option<&Save>,
        as_task: bool,
        cancel: &CancellationToken,
    ) -> Result<Plan, Refusal> {
        let Some(save) = save.cloned() else { return Ok(Plan::Forward) };
        if as_task {
            let text = "a call that runs as a task cannot be saved; call it without `task`";
            return Err(Refusal::save(Reason::SaveTask, text));
        }
        if now.roots.is_empty() {
            return Err(Refusal::save(Reason::SaveDisabled, disabled()));
        }
        let (agents, now, store) = (now.clone(), now.clone(), self.store.clone());
        let preflight = move || {
            let path = now.inside(&save.path);
            let target = now.roots.preflight(
                &path,
                save.overwrite,
                &SavedFiles { store: &store, limit: now.config.output.max_total_bytes },
            );
            target.map(|target| Plan::Save { target, format: save.format })
        };
        let looked = tokio::select! {
            looked = self.work.disk(preflight) => looked,
            () = cancel.cancelled() => return Err(Refusal::cancelled(false)),
        };
        match looked {
            Some(Ok(plan)) => Ok(plan),
            Some(Err(error)) => Err(Refusal::save(reason(&error), agents.outside_text(&error.to_string()))),
            None => Err(Refusal::save(Reason::Internal, "internal error; please report it")),
        }
    }
}

/// What a caller whose save is refused for want of roots reads.
pub fn disabled() -> &'static str {
    "saving is off, because no directory is allowed. The operator adds one to the configuration file, for example: \
     \"tool_output_roots\": [\"/srv/mcp-output\"]"
}

/// Whether the caller may save at all, for the menu.
pub fn may_save(principal: &Principal) -> bool {
    principal.save() != policy::SaveRight::None
}

/// The bytes that saved files take beneath a root, from the table that retention does not prune.
struct SavedFiles<'a> {
    store: &'a Store,
    limit: u64,
}

impl Ledger for SavedFiles<'_> {
    fn used_bytes(&self, root: &Path) -> Result<u64, String> {
        let used = self.store.saved_bytes(root).map_err(|e| e.to_string())?;
        if used < self.limit {
            return Ok(used);
        }
        // Files that somebody removed do not count; they are looked for only when the answer would be no.
        self.store.strike_missing(root).map_err(|e| e.to_string())
    }
}

/// The record's reason code for an error of the writer.
pub fn reason(error: &SaveError) -> Reason {
    use outputfile::Reason as R;
    match error.reason() {
        R::Disabled => Reason::SaveDisabled,
        R::Path => Reason::SavePath,
        R::Outside => Reason::SaveOutside,
        R::Reserved => Reason::SaveReserved,
        R::RootUntrusted => Reason::SaveRootUntrusted,
        R::RootMoved => Reason::SaveRootMoved,
        R::Exists => Reason::SaveExists,
        R::Busy => Reason::SaveBusy,
        R::TargetKind => Reason::SaveTargetKind,
        R::Mount => Reason::SaveMount,
        R::ReadOnly => Reason::SaveReadOnly,
        R::Denied => Reason::SaveDenied,
        R::Space => Reason::SaveSpace,
        R::Total => Reason::SaveTotal,
        R::TooLarge => Reason::SaveTooLarge,
        R::Quota => Reason::SaveQuota,
        R::NotDurable => Reason::SaveNotDurable,
        R::Io => Reason::SaveIo,
        _ => Reason::SaveIo,
    }
}

/// Roots that the menu names, and how much of it they may take, in characters.
const HINT_ROOTS: usize = 3;
const HINT_CHARS: usize = 200;

/// What the menu says about `save_to_file`: where this caller may save, or what to add so that it could.
pub fn hint(now: &Snapshot, principal: &Principal) -> String {
    if now.roots.is_empty() {
        return "Saving is off: the operator must add \"tool_output_roots\": [\"/a/directory\"] to the configuration file."
            .into();
    }
    if !may_save(principal) {
        return "You may not save files.".into();
    }
    let mut named = String::new();
    for root in now.roots.list().take(HINT_ROOTS) {
        let root = now.outside(&root.to_string_lossy());
        if named.chars().count() + root.chars().count() > HINT_CHARS {
            break;
        }
        if !named.is_empty() {
            named.push_str(", ");
        }
        named.push_str(&root);
    }
    if named.is_empty() {
        "The path must lie inside an allowed directory.".into()
    } else {
        format!("Allowed inside: {named}")
    }
}
