//! A tool as agents see it in full.

use policy::{Annotations, call_with};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::listed::{ANY_OBJECT, Listed};

/// The full entry of a tool. The schema goes out as it came in.
#[derive(Serialize)]
pub(crate) struct Entry<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(rename = "inputSchema")]
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Hints<'a>>,
    call_with: &'static str,
}

#[derive(Serialize)]
struct Hints<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    read_only: Option<bool>,
    #[serde(rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    destructive: Option<bool>,
    #[serde(rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    idempotent: Option<bool>,
    #[serde(rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    open_world: Option<bool>,
}

impl Entry<'_> {
    pub(crate) fn new(listed: &Listed, score: Option<f64>) -> Entry<'_> {
        Entry {
            name: listed.id(),
            description: &listed.description,
            input_schema: raw(&listed.input_schema),
            score,
            server: &listed.server,
            annotations: hints(&listed.annotations),
            call_with: call_with(&listed.annotations).tool_name(),
        }
    }

    /// About how many bytes it takes in a reply.
    pub(crate) fn weight(&self) -> usize {
        self.name.len() + self.description.len() + self.input_schema.get().len() + self.server.len() + 200
    }
}

/// `null` cannot come out of this: a schema that is no object was replaced when it was read.
fn raw(schema: &str) -> &RawValue {
    let any_object = || serde_json::from_str(ANY_OBJECT).unwrap_or(RawValue::NULL);
    serde_json::from_str(schema).unwrap_or_else(|_| any_object())
}

fn hints(known: &Annotations) -> Option<Hints<'_>> {
    let silent = *known == Annotations::default();
    (!silent).then_some(Hints {
        title: known.title.as_deref(),
        read_only: known.read_only,
        destructive: known.destructive,
        idempotent: known.idempotent,
        open_world: known.open_world,
    })
}
