//! Filters by annotations, and the account of what they left out.

use policy::Annotations;
use serde_json::{Map, Value, json};

/// Which tools an agent wants to leave out. What a server does not say counts against the tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filters {
    /// Only tools that say that they change nothing.
    pub read_only_only: bool,
    /// No tools that may destroy.
    pub exclude_destructive: bool,
    /// No tools that deal with the world outside.
    pub exclude_open_world: bool,
}

/// A filter that left a tool out, and whether the tool says so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Omission {
    filter: &'static str,
    explicit: bool,
}

impl Filters {
    /// The first filter in the fixed order that leaves the tool out owns it.
    fn omit(self, hints: &Annotations) -> Option<Omission> {
        if self.read_only_only && hints.read_only != Some(true) {
            return Some(Omission { filter: "read_only_only", explicit: hints.read_only.is_some() });
        }
        let destructive = match hints.destructive {
            Some(destructive) => destructive,
            None => hints.read_only != Some(true),
        };
        if self.exclude_destructive && destructive {
            return Some(Omission { filter: "exclude_destructive", explicit: hints.destructive.is_some() });
        }
        if self.exclude_open_world && hints.open_world != Some(false) {
            return Some(Omission { filter: "exclude_open_world", explicit: hints.open_world.is_some() });
        }
        None
    }
}

/// Counts what the filters left out of one search.
#[derive(Default)]
pub(crate) struct Account {
    matched: usize,
    omitted: Vec<(Omission, usize)>,
}

impl Account {
    /// Counts the tool and answers whether it passes.
    pub(crate) fn passes(&mut self, filters: Filters, hints: &Annotations) -> bool {
        self.matched += 1;
        let Some(omission) = filters.omit(hints) else { return true };
        match self.omitted.iter_mut().find(|(known, _)| *known == omission) {
            Some((_, count)) => *count += 1,
            None => self.omitted.push((omission, 1)),
        }
        false
    }

    /// `filter_diagnostics`, if anything was left out.
    pub(crate) fn diagnostics(&self) -> Option<Value> {
        if self.omitted.is_empty() {
            return None;
        }
        let count = |filter: &str, explicit: bool| {
            let ours = |(omission, _): &&(Omission, usize)| {
                omission.filter == filter && omission.explicit == explicit
            };
            self.omitted.iter().find(ours).map_or(0, |(_, count)| *count)
        };
        let mut by_filter = Map::new();
        for filter in ["read_only_only", "exclude_destructive", "exclude_open_world"] {
            let (missing, explicit) = (count(filter, false), count(filter, true));
            if missing + explicit > 0 {
                by_filter
                    .insert(filter.to_owned(), json!({"missing_annotation": missing, "explicit": explicit}));
            }
        }
        let total: usize = self.omitted.iter().map(|(_, count)| count).sum();
        Some(json!({
            "matched_before_filters": self.matched,
            "omitted_total": total,
            "omitted_by_filter": by_filter,
            "suggestion": "Repeat the search without a filter to see what it left out. Tools under missing_annotation \
                           do not say what they do, so they count as the most dangerous.",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(read_only: Option<bool>, destructive: Option<bool>, open_world: Option<bool>) -> Annotations {
        Annotations { read_only, destructive, open_world, ..Annotations::default() }
    }

    #[test]
    fn what_is_not_said_counts_against_the_tool_and_the_first_filter_owns_it() {
        let all = Filters { read_only_only: true, exclude_destructive: true, exclude_open_world: true };
        let reading = Filters { read_only_only: true, ..Filters::default() };
        let careful = Filters { exclude_destructive: true, ..Filters::default() };
        let closed = Filters { exclude_open_world: true, ..Filters::default() };
        let (yes, no) = (Some(true), Some(false));
        for (filters, hints, expected) in [
            (Filters::default(), hints(None, yes, yes), None),
            (reading, hints(yes, None, None), None),
            (reading, hints(no, None, None), Some(("read_only_only", true))),
            (reading, hints(None, None, None), Some(("read_only_only", false))),
            (careful, hints(None, None, None), Some(("exclude_destructive", false))),
            (careful, hints(yes, None, None), None),
            (careful, hints(yes, yes, None), Some(("exclude_destructive", true))),
            (careful, hints(None, no, None), None),
            (closed, hints(None, None, None), Some(("exclude_open_world", false))),
            (closed, hints(None, None, yes), Some(("exclude_open_world", true))),
            (closed, hints(None, None, no), None),
            (all, hints(None, yes, yes), Some(("read_only_only", false))),
            (all, hints(yes, no, no), None),
        ] {
            let omitted = filters.omit(&hints).map(|omission| (omission.filter, omission.explicit));
            assert_eq!(omitted, expected, "{filters:?} {hints:?}");
        }
    }

    #[test]
    fn the_account_adds_up_and_is_silent_when_nothing_was_left_out() {
        let filters = Filters { read_only_only: true, exclude_open_world: true, ..Filters::default() };
        let mut account = Account::default();
        assert!(account.passes(filters, &hints(Some(true), None, Some(false))));
        assert_eq!(account.diagnostics(), None);
        for hints in [hints(None, None, None), hints(Some(false), None, None), hints(Some(true), None, None)]
        {
            assert!(!account.passes(filters, &hints));
        }
        let diagnostics = account.diagnostics().unwrap();
        assert_eq!(diagnostics["matched_before_filters"], 4);
        assert_eq!(diagnostics["omitted_total"], 3);
        assert_eq!(
            diagnostics["omitted_by_filter"],
            json!({"read_only_only": {"missing_annotation": 1, "explicit": 1},
                   "exclude_open_world": {"missing_annotation": 1, "explicit": 0}})
        );
    }
}
