//! The parameters of the `call_tool_*` tools: one table, for the menu and for the parse.

/// One parameter of the three `call_tool_*` tools.
pub struct Parameter {
    /// Its key at the top level of the call.
    pub name: &'static str,
    /// Its JSON type in the menu; empty for one that is understood but not shown.
    pub kind: &'static str,
    /// The values it may have, where they are few.
    pub values: &'static [&'static str],
    /// What the menu says about it. `save_to_file` gets the roots of now added.
    pub about: &'static str,
}

/// Every key that is ours at the top level of a call. The menu is made from this table and the parse knows no other
/// key, so that a parameter cannot be added without being kept from the upstream.
pub const PARAMETERS: [Parameter; 9] = [
    Parameter {
        name: "name",
        kind: "string",
        values: &[],
        about: "Tool to call, as 'server:tool' from retrieve_tools.",
    },
    Parameter {
        name: "args",
        kind: "object",
        values: &[],
        about: "Arguments for the tool, as a JSON object.",
    },
    Parameter {
        name: "args_json",
        kind: "string",
        values: &[],
        about: "Arguments as JSON text, for clients that cannot send an object; 'args' is preferred.",
    },
    Parameter {
        name: "intent_data_sensitivity",
        kind: "string",
        values: &[],
        about: "Sensitivity of the data: public, internal, private or unknown.",
    },
    Parameter {
        name: "intent_reason",
        kind: "string",
        values: &[],
        about: "Why the tool is called, at most 1000 bytes; kept in the record.",
    },
    Parameter { name: "save_to_file", kind: "string", values: &[], about: "" },
    Parameter {
        name: "save_format",
        kind: "string",
        values: &["text", "json", "binary"],
        about: "What is written: text (default: the text blocks), json (the whole result object) or binary (the one \
                image, audio or blob block, decoded).",
    },
    Parameter {
        name: "save_overwrite",
        kind: "boolean",
        values: &[],
        about: "Replace an existing regular file. Default false.",
    },
    Parameter { name: "intent", kind: "", values: &[], about: "" },
];
