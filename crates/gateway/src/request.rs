//! The arguments of a `call_tool_*` call: the parse that leaves no doubt behind.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use content::Format;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use store::Reason;

use crate::Gateway;
use crate::parameters::PARAMETERS;
use crate::refusal::Refusal;

/// Longest reason that is kept, in bytes.
const MAX_REASON: usize = 1000;
const SENSITIVITIES: [&str; 4] = ["public", "internal", "private", "unknown"];
const SAVE_KEYS: [&str; 3] = ["save_to_file", "save_format", "save_overwrite"];

/// A well-formed call.
#[derive(Debug)]
pub struct Request {
    /// The server's name in the configuration.
    pub server: String,
    /// The tool's name at that server.
    pub tool: String,
    /// The tool's arguments: one JSON object on one line, values byte for byte as they were sent.
    pub arguments: Bytes,
    /// The wish to save, if there is one.
    pub save: Option<Save>,
    /// What the agent said about the data.
    pub sensitivity: Option<String>,
    /// Why the agent says it calls.
    pub reason: Option<String>,
}

/// A wish to save the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Save {
    /// `save_to_file` as it was given.
    pub path: String,
    /// `save_format`.
    pub format: Format,
    /// `save_overwrite`.
    pub overwrite: bool,
}

/// Arguments up to this size are read where they are; larger ones by the work lane.
const INLINE_BYTES: usize = 256 * 1024;

impl Gateway {
    /// Reads the raw `arguments` of a call, large ones off the workers.
    pub(crate) async fn parse(&self, raw: &Bytes) -> Result<Request, Refusal> {
        if raw.len() <= INLINE_BYTES {
            return Request::parse(raw);
        }
        let raw = raw.clone();
        let parsed = self.work.compute(move || Request::parse(&raw)).await;
        parsed.unwrap_or_else(|| {
            Err(Refusal::invalid("The call's arguments could not be read: internal error"))
        })
    }
}

impl Request {
    /// Reads the raw `arguments` of the MCP call. An empty text and JSON `null` count as an empty object.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order name, intent, arguments, save.
    pub fn parse(raw: &[u8]) -> Result<Self, Refusal> {
        let members = top_level(raw)?;
        let mut ours: [Option<&RawValue>; PARAMETERS.len()] = [None; PARAMETERS.len()];
        let mut theirs: Vec<(&RawKey<'_>, &RawValue)> = Vec::new();
        for (key, value) in &members {
            match PARAMETERS.iter().position(|p| p.name == key.0.as_ref()) {
                Some(i) if p_is_ours(i, value) => {
                    ours[i] = Some(*value).filter(|v| v.get() != "null");
                }
                _ => theirs.push((key, *value)),
            }
        }
        let given = |name: &str| PARAMETERS.iter().position(|p| p.name == name).and_then(|i| ours[i]);

        let (server, tool) = tool_id(given("name"))?;
        let (sensitivity, reason) =
            intent(given("intent_data_sensitivity"), given("intent_reason"), given("intent"))?;
        let arguments = arguments(given("args"), given("args_json"), &theirs)?;
        let save = save(given("save_to_file"), given("save_format"), given("save_overwrite"))?;
        Ok(Self { server, tool, arguments, save, sensitivity, reason })
    }

    /// Server and tool of a call, as far as they can be made out, for the record of one that cannot be parsed.
    pub(crate) fn names(raw: &[u8]) -> Option<(String, String)> {
        let members = top_level(raw).ok()?;
        let name = members.iter().rev().find(|(key, _)| key.0 == "name")?.1;
        tool_id(Some(name)).ok()
    }

    /// Refuses save arguments that were put inside the tool's own arguments, unless the tool declares such a parameter.
    ///
    /// # Errors
    /// Names the argument and where it belongs.
    pub fn refuse_misplaced_save(&self, declares: impl Fn(&str) -> bool) -> Result<(), Refusal> {
        let members = top_level(&self.arguments)?;
        for key in SAVE_KEYS {
            if members.iter().any(|(k, _)| k.0 == key) && !declares(key) {
                return Err(Refusal::save(
                    Reason::SaveArguments,
                    format!(
                        "{key} stands inside the tool's own arguments and '{}:{}' has no such parameter; \
                         put save_to_file beside args, not inside",
                        self.server, self.tool
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// `intent` is ours only when it looks like one: an object that holds nothing but intent members.
fn p_is_ours(index: usize, value: &RawValue) -> bool {
    if PARAMETERS[index].name != "intent" {
        return true;
    }
    let known = ["operation_type", "data_sensitivity", "reason"];
    serde_json::from_str::<Members<'_>>(value.get())
        .is_ok_and(|m| !m.0.is_empty() && m.0.iter().all(|(k, _)| known.contains(&k.0.as_ref())))
}

fn tool_id(name: Option<&RawValue>) -> Result<(String, String), Refusal> {
    let name = name
        .and_then(text)
        .ok_or_else(|| Refusal::invalid("Missing required parameter 'name': give it as 'server:tool'"))?;
    let wrong =
        |what: &str| Refusal::invalid(format!("Invalid tool name format: {}{what}", shown(name.trim())));
    let (server, tool) = name.split_once(':').ok_or_else(|| wrong(" (expected server:tool)"))?;
    let (server, tool) = (server.trim(), tool.trim());
    if server.is_empty() || tool.is_empty() {
        return Err(wrong(""));
    }
    Ok((server.to_owned(), tool.to_owned()))
}

fn intent(
    sensitivity: Option<&RawValue>,
    reason: Option<&RawValue>,
    nested: Option<&RawValue>,
) -> Result<(Option<String>, Option<String>), Refusal> {
    let refuse = |text: String| Refusal::blocked(Reason::IntentInvalid, text);
    let flat = |value: Option<&RawValue>, name: &str| match value {
        None => Ok(None),
        Some(v) => text(v)
            .map(|t| Some(t.into_owned()).filter(|t| !t.is_empty()))
            .ok_or_else(|| refuse(format!("Invalid intent parameter: {name} must be a string"))),
    };
    let (mut sensitivity, mut reason) =
        (flat(sensitivity, "intent_data_sensitivity")?, flat(reason, "intent_reason")?);
    if sensitivity.is_none()
        && reason.is_none()
        && let Some(members) = nested.and_then(|n| serde_json::from_str::<Members<'_>>(n.get()).ok())
    {
        for (key, value) in members.0 {
            match key.0.as_ref() {
                "data_sensitivity" => sensitivity = flat(Some(value), "intent.data_sensitivity")?,
                "reason" => reason = flat(Some(value), "intent.reason")?,
                _ => {}
            }
        }
    }
    let rejected = |text: String| Refusal::blocked(Reason::IntentRejected, text);
    if let Some(s) = &sensitivity
        && !SENSITIVITIES.contains(&s.as_str())
    {
        return Err(rejected(format!(
            "Invalid intent.data_sensitivity '{}': must be public, internal, private, or unknown",
            shown(s)
        )));
    }
    if reason.as_ref().is_some_and(|r| r.len() > MAX_REASON) {
        return Err(rejected(format!("intent.reason exceeds maximum length of {MAX_REASON} characters")));
    }
    Ok((sensitivity, reason))
}

/// `args_json` when it contributes a key, else `args`, else every key at the top level that is not ours.
fn arguments(
    args: Option<&RawValue>,
    args_json: Option<&RawValue>,
    theirs: &[(&RawKey<'_>, &RawValue)],
) -> Result<Bytes, Refusal> {
    let from_json = match args_json {
        None => None,
        Some(value) => {
            let inner = text(value)
                .ok_or_else(|| Refusal::arguments("Invalid args_json format: it must be a string of JSON"))?;
            object_text(&inner, "Invalid args_json format")?
        }
    };
    let from_args = match args {
        None => None,
        Some(value) if value.get().starts_with('"') => {
            let inner = text(value).unwrap_or_default();
            object_text(&inner, "Invalid args: a string is taken only if it is the JSON text of an object")?
        }
        Some(value) => object_text(value.get(), "Invalid args: it must be a JSON object")?,
    };
    if let Some(arguments) = from_json.or(from_args) {
        return Ok(arguments);
    }
    let mut flat = String::from("{");
    for (i, (key, value)) in theirs.iter().enumerate() {
        if i > 0 {
            flat.push(',');
        }
        let key = serde_json::to_string(&key.0).map_err(|e| Refusal::arguments(e.to_string()))?;
        flat.push_str(&key);
        flat.push(':');
        flat.push_str(value.get());
    }
    flat.push('}');
    Ok(one_line(flat))
}

/// The text of a JSON object; `None` when it is empty or `null`, and so contributes nothing.
fn object_text(json: &str, wrong: &str) -> Result<Option<Bytes>, Refusal> {
    let value: &RawValue = match json.trim() {
        "" => return Ok(None),
        trimmed => serde_json::from_str(trimmed).map_err(|e| Refusal::arguments(format!("{wrong}: {e}")))?,
    };
    if value.get() == "null" {
        return Ok(None);
    }
    let members: Members<'_> = serde_json::from_str(value.get())
        .map_err(|_| Refusal::arguments(format!("{wrong}, and this is {}", kind_of(value.get()))))?;
    Ok((!members.0.is_empty()).then(|| one_line(value.get().to_owned())))
}

fn save(
    path: Option<&RawValue>,
    format: Option<&RawValue>,
    overwrite: Option<&RawValue>,
) -> Result<Option<Save>, Refusal> {
    let refuse = |text: String| Refusal::save(Reason::SaveArguments, text);
    let typed = |name: &str, must: &str, got: &RawValue| {
        refuse(format!("parameter {name} must be {must}, and this is {}", kind_of(got.get())))
    };
    let path = path
        .map(|v| match text(v) {
            Some(text) => Ok(text.into_owned()),
            None if v.get().starts_with('"') => Err(refuse(
                "parameter save_to_file is not valid Unicode (it holds an unpaired surrogate)".into(),
            )),
            None => Err(typed("save_to_file", "a string", v)),
        })
        .transpose()?;
    let format = match format {
        None => None,
        Some(v) => Some(match text(v).ok_or_else(|| typed("save_format", "a string", v))?.as_ref() {
            "text" => Format::Text,
            "json" => Format::Json,
            "binary" => Format::Binary,
            other => {
                return Err(refuse(format!(
                    "invalid save_format \"{}\": it must be \"text\", \"json\" or \"binary\"",
                    shown(other)
                )));
            }
        }),
    };
    let overwrite = match overwrite.map(|v| (v, v.get())) {
        None => None,
        Some((_, "true")) => Some(true),
        Some((_, "false")) => Some(false),
        Some((v, _)) => return Err(typed("save_overwrite", "true or false", v)),
    };
    match path {
        None if format.is_some() || overwrite.is_some() => {
            Err(refuse("save_format and save_overwrite mean something only with save_to_file; add it".into()))
        }
        None => Ok(None),
        Some(path) if path.trim().is_empty() => {
            Err(refuse("parameter save_to_file is empty: give the absolute path of the file to make".into()))
        }
        Some(path) => Ok(Some(Save {
            path,
            format: format.unwrap_or(Format::Text),
            overwrite: overwrite.unwrap_or(false),
        })),
    }
}

fn top_level(raw: &[u8]) -> Result<Vec<(RawKey<'_>, &RawValue)>, Refusal> {
    let text =
        std::str::from_utf8(raw).map_err(|_| Refusal::invalid("The call's arguments are not UTF-8"))?;
    if matches!(text.trim(), "" | "null") {
        return Ok(Vec::new());
    }
    serde_json::from_str::<Members<'_>>(text).map(|m| m.0).map_err(|e| {
        Refusal::invalid(if e.is_data() {
            format!("The call's arguments must be a JSON object, and this is {}", kind_of(text.trim()))
        } else {
            format!("The call's arguments are not valid JSON: {e}")
        })
    })
}

/// A raw line break is white space in JSON, but ends a message on a stdio connection.
fn one_line(mut json: String) -> Bytes {
    if json.bytes().any(|b| b == b'\n' || b == b'\r') {
        json = json.replace(['\n', '\r'], " ");
    }
    Bytes::from(json)
}

fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<RawKey<'_>>(value.get()).ok().map(|k| k.0)
}

fn kind_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// A piece of what was sent, short and without control characters, for an error text.
fn shown(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A JSON object as a list of members, values untouched. A key that comes twice stands twice.
struct Members<'a>(Vec<(RawKey<'a>, &'a RawValue)>);

/// A string, borrowed where it holds no escape.
#[derive(serde::Deserialize)]
struct RawKey<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<RawKey<'de>>()? {
                    members.push((key, map.next_value::<&'de RawValue>()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests;
