//! Reading a server's list of tools: lenient, bounded, and each entry by itself.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use policy::Annotations;
use serde_json::value::RawValue;

use crate::listed::{ANY_OBJECT, Listed, parameter_names};
use crate::text::{Text, prefix};

/// Most tools of one server.
pub const MAX_TOOLS: usize = 100_000;
/// Longest name of a tool, in characters.
pub const MAX_NAME_CHARS: usize = 1000;
/// Largest schema that is kept, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// Largest entry, in bytes.
const MAX_ENTRY_BYTES: usize = 4 << 20;
/// All entries of one server together, in bytes.
const MAX_LISTING_BYTES: usize = 64 << 20;
/// Longest description and title, in bytes; they go into every reply that shows the tool.
const MAX_DESCRIPTION_BYTES: usize = 65_536;
const MAX_TITLE_BYTES: usize = 1000;
/// Problems that are told one by one.
const MAX_PROBLEMS: usize = 50;

/// Reads the entries of `tools/list`, each a JSON text. What cannot be used is left out, or left out of its entry, and
/// told as a problem; the other tools are not affected.
pub fn parse_tools<'a>(
    server: &str,
    raw_tools: impl IntoIterator<Item = &'a str>,
) -> (Vec<Listed>, Vec<String>) {
    let mut tools: Vec<Listed> = Vec::new();
    let mut names: HashSet<String> = HashSet::new();
    let mut problems = Problems::default();
    let mut bytes = 0usize;
    for (place, raw) in raw_tools.into_iter().enumerate() {
        bytes = bytes.saturating_add(raw.len());
        if place >= MAX_TOOLS || bytes > MAX_LISTING_BYTES {
            problems.add(format!(
                "only the first {place} tools are used: at most {MAX_TOOLS} tools and {} MiB of a server are kept",
                MAX_LISTING_BYTES >> 20
            ));
            break;
        }
        match parse_tool(server, raw, &mut problems) {
            Err(problem) => problems.add(format!("tool number {place} is left out: {problem}")),
            Ok(tool) if names.insert(tool.tool.clone()) => tools.push(tool),
            Ok(tool) => problems
                .add(format!("tool number {place} is left out: {} is listed twice", shown(&tool.tool))),
        }
    }
    (tools, problems.done())
}

fn parse_tool(server: &str, raw: &str, problems: &mut Problems) -> Result<Listed, String> {
    if raw.len() > MAX_ENTRY_BYTES {
        return Err(format!("its entry is larger than {} MiB", MAX_ENTRY_BYTES >> 20));
    }
    let entry: BTreeMap<Text, &RawValue> =
        serde_json::from_str(raw).map_err(|error| format!("its entry is not a JSON object: {error}"))?;
    let fields: BTreeMap<&str, &str> =
        entry.iter().map(|(key, value)| (key.text.as_str(), value.get())).collect();
    let name = read_name(fields.get("name").copied())?;
    let mut text = |key: &str, bound: usize| {
        let text = fields.get(key).and_then(|raw| read_text(raw))?;
        let kept = prefix(&text, bound);
        if kept.len() < text.len() {
            problems.add(format!("the {key} of {} is cut to {bound} bytes", shown(&name)));
        }
        Some(kept.to_owned())
    };
    let title = text("title", MAX_TITLE_BYTES);
    let description = text("description", MAX_DESCRIPTION_BYTES).unwrap_or_default();
    let mut schema = |key: &str| {
        let Some(raw) = fields.get(key).copied().filter(|raw| *raw != "null") else { return (None, None) };
        let problem = unusable_schema(raw);
        if let Some(problem) = problem {
            problems.add(format!("the {key} of {} is not used: {problem}", shown(&name)));
        }
        (problem.is_none().then(|| raw.to_owned()), problem)
    };
    let (input_schema, _) = schema("inputSchema");
    let (output_schema, output_problem) = schema("outputSchema");
    let annotations = read_annotations(fields.get("annotations").copied());
    let raw = serde_json::from_str::<&RawValue>(raw).map_err(|error| error.to_string())?;
    Ok(Listed {
        id: format!("{server}:{name}"),
        server: server.to_owned(),
        raw: raw.to_owned(),
        title: title.or_else(|| annotations.title.clone()),
        description,
        parameters: input_schema.as_deref().map(parameter_names).unwrap_or_default(),
        checked: input_schema.is_some(),
        input_schema: input_schema.unwrap_or_else(|| ANY_OBJECT.to_owned()),
        output_schema: output_schema.map(Arc::from),
        annotations,
        compiled: OnceLock::new(),
        output_problem,
        output_problem_told: AtomicBool::new(false),
        tool: name,
    })
}

fn read_name(raw: Option<&str>) -> Result<String, String> {
    let raw = raw.ok_or("it has no name")?;
    let name: Text = serde_json::from_str(raw).map_err(|_| "its name is not a string")?;
    if name.text.is_empty() {
        return Err("its name is empty".into());
    }
    if !name.exact {
        return Err(format!(
            "its name {} is not valid Unicode, so it could not be called",
            shown(&name.text)
        ));
    }
    if name.text.chars().nth(MAX_NAME_CHARS).is_some() {
        return Err(format!(
            "its name {}… is longer than {MAX_NAME_CHARS} characters",
            shown(prefix(&name.text, 40))
        ));
    }
    Ok(name.text)
}

fn read_text(raw: &str) -> Option<String> {
    serde_json::from_str::<Text>(raw).ok().map(|text| text.text)
}

fn unusable_schema(raw: &str) -> Option<&'static str> {
    if !raw.starts_with('{') {
        return Some("it is not an object");
    }
    (raw.len() > MAX_SCHEMA_BYTES).then_some("it is larger than 1 MiB")
}

/// A hint that is no boolean is as good as none.
fn read_annotations(raw: Option<&str>) -> Annotations {
    let fields: BTreeMap<Text, &RawValue> =
        raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    let value = |key: &str| fields.iter().find(|(name, _)| name.text == key).map(|(_, value)| value.get());
    let hint = |key: &str| match value(key) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    Annotations {
        title: value("title").and_then(read_text).map(|title| prefix(&title, MAX_TITLE_BYTES).to_owned()),
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

/// A name as it can stand in a log line.
fn shown(name: &str) -> String {
    format!("{:?}", prefix(name, 120))
}

#[derive(Default)]
struct Problems {
    told: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, problem: String) {
        if self.told.len() < MAX_PROBLEMS {
            self.told.push(problem);
        } else {
            self.more += 1;
        }
    }

    fn done(mut self) -> Vec<String> {
        if self.more > 0 {
            self.told.push(format!("and {} more problems", self.more));
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(raw: &str) -> (Vec<Listed>, Vec<String>) {
        parse_tools("srv", [raw])
    }

    #[test]
    fn a_whole_entry_is_read_and_kept_byte_for_byte() {
        let raw = r#"{ "outputSchema":{"type":"object"}, "name":"get_user","x-unknown":[1e45],"title":"Get",
            "description":"Gets a \u0075ser","inputSchema":{"type":"object", "properties":{"id":{}}},
            "annotations":{"readOnlyHint":true,"destructiveHint":"no","openWorldHint":false,"extra":1}}"#;
        let (tools, problems) = one(raw);
        assert_eq!(problems, Vec::<String>::new());
        let tool = &tools[0];
        assert_eq!(
            (tool.id(), tool.server.as_str(), tool.tool.as_str()),
            ("srv:get_user", "srv", "get_user")
        );
        assert_eq!(tool.raw.get(), raw);
        assert_eq!((tool.title.as_deref(), tool.description.as_str()), (Some("Get"), "Gets a user"));
        assert_eq!(tool.input_schema, r#"{"type":"object", "properties":{"id":{}}}"#);
        assert_eq!(tool.output_schema.as_deref(), Some(r#"{"type":"object"}"#));
        assert!(tool.declares_parameter("id") && !tool.declares_parameter("type"));
        let hints = &tool.annotations;
        assert_eq!((hints.read_only, hints.destructive, hints.open_world), (Some(true), None, Some(false)));
    }

    #[test]
    fn one_bad_tool_never_loses_the_others() {
        let bad = [
            "7",
            "{",
            "{}",
            r#"{"name":7}"#,
            r#"{"name":""}"#,
            r#"{"name":null}"#,
            r#"{"name":"\ud800"}"#,
            r#"{"name":"a"} x"#,
            &format!(r#"{{"name":"{}"}}"#, "n".repeat(1001)),
            r#"{"name":"good"}"#,
        ];
        let all = std::iter::once(r#"{"name":"good"}"#).chain(bad).chain([r#"{"name":"last"}"#]);
        let (tools, problems) = parse_tools("srv", all);
        let names: Vec<&str> = tools.iter().map(|tool| tool.tool.as_str()).collect();
        assert_eq!(names, ["good", "last"]);
        assert_eq!(problems.len(), bad.len(), "{problems:#?}");
        assert!(problems.iter().all(|problem| problem.len() < 400 && !problem.contains('\n')));
    }

    #[test]
    fn odd_names_and_odd_fields_are_data() {
        let name = "a\u{0}b:c\u{202e}\"é😀\n<img>";
        let raw = serde_json::json!({
            "name": name, "description": 7, "title": ["x"], "inputSchema": "none", "annotations": [], "outputSchema": null
        });
        let (tools, problems) = one(&raw.to_string());
        assert_eq!(tools[0].tool, name);
        assert_eq!((tools[0].description.as_str(), tools[0].title.as_deref()), ("", None));
        assert_eq!(tools[0].input_schema, ANY_OBJECT);
        assert_eq!(tools[0].annotations, Annotations::default());
        assert_eq!(problems.len(), 1, "only the schema is worth a word: {problems:?}");
        let longest = "é".repeat(MAX_NAME_CHARS);
        assert_eq!(one(&serde_json::json!({"name": longest}).to_string()).0[0].tool, longest);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts_and_surrogates_lose_only_their_character() {
        let (tools, _) = one(r#"{"name":"first","\udfff":1,"description":"x\ud800","name":"second"}"#);
        assert_eq!(tools[0].tool, "second");
        assert!(tools[0].description.starts_with("x\u{fffd}"));
    }

    #[test]
    fn what_is_too_large_is_left_out_and_told() {
        let schema = format!(r#"{{"x":"{}"}}"#, "y".repeat(MAX_SCHEMA_BYTES));
        let raw = format!(
            r#"{{"name":"big","inputSchema":{schema},"description":"{}"}}"#,
            "é".repeat(MAX_DESCRIPTION_BYTES)
        );
        let (tools, problems) = one(&raw);
        assert_eq!(tools[0].input_schema, ANY_OBJECT);
        assert_eq!(tools[0].description.len(), MAX_DESCRIPTION_BYTES);
        assert_eq!(problems.len(), 2);
        assert!(tools[0].input().check(r#"{"anything":1}"#).is_ok(), "an unused schema refuses nothing");
        let entry = format!(r#"{{"name":"huge","x":"{}"}}"#, "y".repeat(MAX_ENTRY_BYTES));
        assert!(one(&entry).0.is_empty());
        let many = vec![r#"{"name":1}"#; MAX_TOOLS + 5];
        let (tools, problems) = parse_tools("srv", many);
        assert!(tools.is_empty());
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    }

    #[test]
    fn a_deeply_nested_schema_is_no_danger() {
        let deep = format!(
            r#"{{"name":"deep","inputSchema":{{"a":{}1{}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        let (tools, _) = one(&deep);
        assert_eq!(tools.len(), 1);
        assert!(tools[0].parameters().is_empty());
        assert!(tools[0].input().check("{}").is_ok());
    }
}
