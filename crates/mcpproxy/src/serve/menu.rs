//! The menu: the tools that agents see, with their parameters and annotations.

use gateway::parameters::PARAMETERS;
use gateway::{Gateway, Principal, Variant};
use serde_json::{Map, Value, json};

/// The raw result of `tools/list`: always the same tools in the same order.
pub fn listing(gateway: &Gateway, principal: &Principal) -> String {
    let config = gateway.config();
    let mut tools = tools(&gateway.save_hint(principal));
    if config.max_result_size_chars > 0 {
        for tool in &mut tools {
            tool["_meta"] = json!({"anthropic/maxResultSizeChars": config.max_result_size_chars});
        }
    }
    json!({"tools": tools}).to_string()
}

/// The five tools, by name. `save_hint` says where this caller may save.
fn tools(save_hint: &str) -> Vec<Value> {
    vec![
        call_tool(
            Variant::Destructive,
            "Call Tool (Destructive)",
            "Call a tool that may delete or replace things that cannot be brought back.",
            save_hint,
        ),
        call_tool(Variant::Read, "Call Tool (Read)", "Call a tool that only reads.", save_hint),
        call_tool(
            Variant::Write,
            "Call Tool (Write)",
            "Call a tool that creates or changes things, without destroying any.",
            save_hint,
        ),
        tool(
            "describe_tool",
            "Describe Tool",
            "Full definitions of tools by id: description, input schema, annotations and the variant to call them with.",
            &json!({"tool_ids": {
                "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5,
                "description": "1 to 5 ids, each 'server:tool'.",
            }}),
            &["tool_ids"],
            [true, false, false],
        ),
        tool(
            "retrieve_tools",
            "Retrieve Tools",
            "Find tools of the connected servers by what they do. Call this first; then call the tool with the variant that \
             'call_with' names.",
            &json!({
                "query": {"type": "string", "description": "What the tool should do, in plain words."},
                "limit": {"type": "number", "description": "How many at most (1-100)."},
                "read_only_only": {"type": "boolean", "description": "Only tools that say they only read."},
                "exclude_destructive": {"type": "boolean", "description": "Leave out tools that may destroy."},
                "exclude_open_world": {"type": "boolean", "description": "Leave out tools that reach outside."},
            }),
            &["query"],
            [true, false, false],
        ),
    ]
}

fn call_tool(variant: Variant, title: &str, about: &str, save_hint: &str) -> Value {
    let about = format!(
        "{about} 'name' is the 'server:tool' id from retrieve_tools, 'args' its arguments. With save_to_file the whole \
         answer goes into a file and you get a small envelope (path, size, sha256, preview) instead of the body."
    );
    let hints = match variant {
        Variant::Read => [true, false, true],
        Variant::Write => [false, false, true],
        Variant::Destructive => [false, true, true],
    };
    tool(variant.tool_name(), title, &about, &call_parameters(save_hint), &["name"], hints)
}

/// The parameters as the room that parses them declares them.
fn call_parameters(save_hint: &str) -> Value {
    let mut properties = Map::new();
    for parameter in PARAMETERS.iter().filter(|p| !p.kind.is_empty()) {
        let about = match parameter.name {
            "save_to_file" => format!("Absolute path of a file to make with the whole answer. {save_hint}"),
            _ => parameter.about.to_owned(),
        };
        let mut property = json!({"type": parameter.kind, "description": about});
        if !parameter.values.is_empty() {
            property["enum"] = json!(parameter.values);
        }
        properties.insert(parameter.name.to_owned(), property);
    }
    Value::Object(properties)
}

/// `hints` are read-only, destructive, open world.
fn tool(
    name: &str,
    title: &str,
    about: &str,
    properties: &Value,
    required: &[&str],
    hints: [bool; 3],
) -> Value {
    json!({
        "name": name,
        "title": title,
        "description": about,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
        "annotations": {
            "title": title,
            "readOnlyHint": hints[0],
            "destructiveHint": hints[1],
            "idempotentHint": false,
            "openWorldHint": hints[2],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, parameters with their types, required ones and annotations, a line each: what must not change unseen.
    fn outline(tools: &[Value]) -> String {
        let mut text = String::new();
        for tool in tools {
            let hints = &tool["annotations"];
            text.push_str(&format!(
                "{} readOnly={} destructive={} openWorld={}\n",
                tool["name"].as_str().unwrap(),
                hints["readOnlyHint"],
                hints["destructiveHint"],
                hints["openWorldHint"]
            ));
            let required: Vec<&str> = tool["inputSchema"]["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|r| r.as_str().unwrap())
                .collect();
            for (name, property) in tool["inputSchema"]["properties"].as_object().unwrap() {
                let star = if required.contains(&name.as_str()) { "*" } else { "" };
                text.push_str(&format!("  {name}{star}: {}\n", property["type"].as_str().unwrap()));
            }
        }
        text
    }

    #[test]
    fn the_menu_has_exactly_the_five_tools_and_the_save_parameters_are_optional() {
        let call = "  name*: string\n  args: object\n  args_json: string\n  intent_data_sensitivity: string\n  intent_reason: string\n  save_to_file: string\n  save_format: string\n  save_overwrite: boolean\n";
        let expected = format!(
            "call_tool_destructive readOnly=false destructive=true openWorld=true\n{call}\
             call_tool_read readOnly=true destructive=false openWorld=true\n{call}\
             call_tool_write readOnly=false destructive=false openWorld=true\n{call}\
             describe_tool readOnly=true destructive=false openWorld=false\n  tool_ids*: array\n\
             retrieve_tools readOnly=true destructive=false openWorld=false\n  query*: string\n  limit: number\n  \
             read_only_only: boolean\n  exclude_destructive: boolean\n  exclude_open_world: boolean\n"
        );
        assert_eq!(outline(&tools("hint")), expected);
    }

    #[test]
    fn every_parameter_says_what_it_is_for() {
        for tool in tools("Allowed inside: /srv/out") {
            assert!(!tool["description"].as_str().unwrap().is_empty());
            for (name, property) in tool["inputSchema"]["properties"].as_object().unwrap() {
                assert!(property["description"].as_str().unwrap().len() > 10, "{name}");
            }
        }
    }
}
