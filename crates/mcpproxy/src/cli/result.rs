//! A tool result for a person: its text blocks, and one line for any other block.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A result as a person reads it.
pub struct Shown {
    /// What is printed.
    pub text: String,
    /// Whether the result says that it is an error.
    pub is_error: bool,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(borrow, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(borrow, rename = "isError")]
    is_error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "mimeType")]
    mime: Option<Cow<'a, str>>,
}

impl Shown {
    /// Reads a raw result object. What is no result is shown as it is.
    pub fn of(raw: &[u8]) -> Self {
        let whole = || Self { text: String::from_utf8_lossy(raw).into_owned(), is_error: false };
        let Ok(result) = serde_json::from_slice::<ToolResult<'_>>(raw) else { return whole() };
        let mut lines: Vec<String> = result.content.iter().map(|block| line(block.get())).collect();
        if lines.is_empty()
            && let Some(structured) = result.structured
        {
            lines.push(structured.get().to_owned());
        }
        Self { text: lines.join("\n"), is_error: result.is_error.is_some_and(|v| v.get() == "true") }
    }
}

fn line(raw: &str) -> String {
    let Ok(block) = serde_json::from_str::<Block<'_>>(raw) else {
        return format!("[a block that cannot be read, {} bytes]", raw.len());
    };
    if block.kind == "text"
        && let Some(text) = block.text
    {
        return gateway::literal_text(text.get());
    }
    let more: Vec<String> = [block.mime, block.uri].into_iter().flatten().map(|m| format!(" {m}")).collect();
    super::output::shown(&format!(
        "[{}{}, {} bytes as JSON; -o json prints it]",
        block.kind,
        more.concat(),
        raw.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_printed_and_other_blocks_get_a_line() {
        let raw = r#"{"content":[{"type":"text","text":"a\nb"},{"type":"image","data":"AAAA","mimeType":"image/png"},
            {"type":"x-new"}],"isError":false}"#;
        let shown = Shown::of(raw.as_bytes());
        assert!(!shown.is_error);
        assert_eq!(
            shown.text,
            "a\nb\n[image image/png, 53 bytes as JSON; -o json prints it]\n[x-new, 16 bytes as JSON; -o json prints it]"
        );
    }

    #[test]
    fn a_lone_surrogate_is_no_reason_to_print_nothing() {
        let shown = Shown::of(br#"{"content":[{"type":"text","text":"a\ud800b"}],"isError":true}"#);
        assert_eq!((shown.text.as_str(), shown.is_error), ("a\u{fffd}b", true));
    }

    #[test]
    fn without_blocks_the_structured_content_is_printed() {
        assert_eq!(Shown::of(br#"{"content":[],"structuredContent":{"n":1e45}}"#).text, r#"{"n":1e45}"#);
    }
}
