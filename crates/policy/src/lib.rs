//! Who may call what: values and one decision.
