//! One tool as its server lists it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use content::Answer;
use content::schema::{
    Checked, InputSchema, OutputRules, OutputSchema, OutputSchemas, Stopped, check_output,
};
use policy::Annotations;
use serde_json::Value;
use serde_json::value::RawValue;

/// What stands for an input schema that is missing or cannot be shown.
pub(crate) const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// A tool of a server.
pub struct Listed {
    /// Name of the server.
    pub server: String,
    /// Name of the tool at the server; any text.
    pub tool: String,
    /// The entry as it was listed, byte for byte.
    pub raw: Box<RawValue>,
    /// Title for people.
    pub title: Option<String>,
    /// Description; empty if there is none.
    pub description: String,
    /// Input schema as it was listed, or `{"type":"object"}` if it has none that is an object of bearable size.
    pub input_schema: String,
    /// Output schema as it was listed, if it is an object of bearable size.
    pub output_schema: Option<Arc<str>>,
    /// What the server says about the tool.
    pub annotations: Annotations,
    pub(crate) id: String,
    pub(crate) parameters: Vec<String>,
    /// The schema is the listed one, so arguments can be checked against it.
    pub(crate) checked: bool,
    pub(crate) compiled: OnceLock<InputSchema>,
    /// Why an output schema that was listed is not kept.
    pub(crate) output_problem: Option<&'static str>,
    pub(crate) output_problem_told: AtomicBool,
}

impl Listed {
    /// The tool id: `server:tool`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The input schema, compiled at first use. A tool without a usable one takes any arguments.
    #[must_use]
    pub fn input(&self) -> &InputSchema {
        self.compiled
            .get_or_init(|| InputSchema::compile(if self.checked { &self.input_schema } else { "{}" }))
    }

    /// Output validation: checks an answer of this tool against the output schema that it declares. Without one it passes.
    ///
    /// # Errors
    /// By the rules the answer must not be passed on, or it could not be read.
    pub fn check_output(
        &self,
        schemas: &OutputSchemas,
        answer: Answer,
        rules: &OutputRules,
    ) -> Result<Checked, Stopped> {
        if !rules.look_at(&answer) {
            return Ok(check_output(answer));
        }
        match (&self.output_schema, self.output_problem) {
            (Some(raw), _) => schemas.find(raw).get().check(answer, rules),
            (None, Some(problem)) => OutputSchema::unusable(problem).check(answer, rules),
            (None, None) => Ok(check_output(answer)),
        }
    }

    /// Checking so many bytes of structured output takes a few milliseconds at most.
    #[must_use]
    pub fn is_output_quick(&self, schemas: &OutputSchemas, bytes: u64) -> bool {
        let is_quick = |raw| schemas.find(raw).ready().is_some_and(|schema| schema.is_quick(bytes));
        self.output_schema.as_ref().is_none_or(is_quick)
    }

    /// True at the first call only: a problem of the output schema is told once for each listing of the tool.
    #[must_use]
    pub fn tells_output_problem(&self) -> bool {
        !self.output_problem_told.swap(true, Ordering::Relaxed)
    }

    /// Names of the parameters that the input schema declares.
    #[must_use]
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// The input schema declares a parameter of this name.
    #[must_use]
    pub fn declares_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter == name)
    }
}

impl std::fmt::Debug for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listed").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Parameter names in a schema: its own properties and those of the schemas that it is put together from. A schema that
/// nests deeper than the parser goes, or is none, has none.
pub(crate) fn parameter_names(schema: &str) -> Vec<String> {
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return Vec::new() };
    let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    let mut names: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for part in std::iter::once(&schema).chain(parts) {
        let properties = part["properties"].as_object().into_iter().flatten();
        names.extend(properties.map(|(name, _)| name).filter(|name| seen.insert((*name).clone())).cloned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_from_properties_also_of_composed_schemas_in_their_order() {
        let schema = r#"{"properties":{"path":{},"b":1},"allOf":[{"properties":{"deep":{}}},7],
                         "anyOf":{"properties":{"not":{}}},"oneOf":[{"properties":{"path":{},"z":{}}}]}"#;
        assert_eq!(parameter_names(schema), ["path", "b", "deep", "z"]);
        for odd in ["[]", "{", "{\"properties\":[1]}", &"[".repeat(5000)] {
            assert!(parameter_names(odd).is_empty());
        }
    }
}
