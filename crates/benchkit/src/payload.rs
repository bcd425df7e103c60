//! What travels: log-like text of an exact length, and tool definitions for long listings.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Value, json};

/// Bytes of text that are made once; longer texts repeat them.
const BLOCK: usize = 1 << 20;

struct Block {
    plain: Bytes,
    /// As the inside of a JSON string.
    escaped: Bytes,
}

fn block() -> &'static Block {
    static MADE: OnceLock<Block> = OnceLock::new();
    MADE.get_or_init(|| {
        let plain = log_lines();
        let escaped = escape(&plain);
        Block { plain: plain.into(), escaped: escaped.into() }
    })
}

/// Lines of a server's log, cut at the block's length. Printable ASCII, two double quotes and a newline in about 110 bytes,
/// so that JSON makes them 2.7 % longer.
fn log_lines() -> Vec<u8> {
    const VERBS: [&str; 4] = ["GET", "PUT", "POST", "DELETE"];
    let mut text = String::with_capacity(BLOCK + 256);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut line = 0_u64;
    while text.len() < BLOCK {
        let random = next(&mut state);
        let verb = VERBS.get(usize::try_from(random % 4).unwrap_or(0)).copied().unwrap_or("GET");
        text.push_str(&format!(
            "2026-03-01 {:02}:{:02}:{:02} info node-{:02} trace {random:016x} \"{verb} /v2/orders/{}\" {} in {} us\n",
            line / 3600 % 24,
            line / 60 % 60,
            line % 60,
            random >> 8 & 31,
            random >> 16 & 0xF_FFFF,
            if random.is_multiple_of(41) { 503 } else { 200 },
            random >> 40 & 0xFFFF,
        ));
        line += 1;
    }
    let mut bytes = text.into_bytes();
    bytes.truncate(BLOCK);
    bytes
}

/// Vigna's xorshift64*.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

/// The text holds nothing else that JSON would escape.
fn escape(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len() + plain.len() / 16);
    for &byte in plain {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            other => out.push(other),
        }
    }
    out
}

/// The text of `length` bytes, in pieces of at most 1 MiB.
pub fn pieces(length: usize) -> impl Iterator<Item = Bytes> {
    let plain = &block().plain;
    std::iter::repeat_n(plain.clone(), length / BLOCK).chain([plain.slice(..length % BLOCK)])
}

/// The same text as a JSON string, quotes included, in pieces that share one cached buffer.
pub fn json_pieces(length: usize) -> impl Iterator<Item = Bytes> {
    let Block { plain, escaped } = block();
    let quote = Bytes::from_static(b"\"");
    let rest = Bytes::from(escape(&plain[..length % BLOCK]));
    [quote.clone()]
        .into_iter()
        .chain(std::iter::repeat_n(escaped.clone(), length / BLOCK))
        .chain([rest, quote])
}

/// Whether `text` is the text of `length` bytes, every byte of it.
pub fn is_text(text: &[u8], length: usize) -> bool {
    text.len() == length && text.chunks(BLOCK).zip(pieces(length)).all(|(got, wanted)| got == wanted)
}

const VERBS: [&str; 10] =
    ["list", "get", "search", "create", "update", "export", "count", "archive", "compare", "watch"];
const NOUNS: [&str; 20] = [
    "invoices",
    "customers",
    "tickets",
    "deployments",
    "branches",
    "calendars",
    "documents",
    "payments",
    "sensors",
    "shipments",
    "contracts",
    "employees",
    "alerts",
    "datasets",
    "queues",
    "volumes",
    "certificates",
    "reviews",
    "campaigns",
    "bookings",
];
const SYSTEMS: [&str; 8] =
    ["billing", "warehouse", "support", "staging", "research", "payroll", "marketing", "logistics"];

/// What `retrieve_tools` is asked, one after the other: words of the definitions, in an agent's words.
pub const QUERIES: [&str; 8] = [
    "list unpaid invoices of a customer in billing",
    "search support tickets",
    "export datasets for research",
    "which sensors raised alerts",
    "create a booking in the calendar",
    "compare two deployments on staging",
    "count shipments in the warehouse",
    "archive old contracts",
];

/// `echo`, `big` and so many made-up tools that there are `count` in all (at least the two).
pub fn tools(count: usize) -> Value {
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let size = json!({"type": "object", "properties": {"bytes": {"type": "integer"}}, "required": ["bytes"]});
    let mut all = vec![
        tool("echo", "Gives the text back as it came.", &text),
        tool("big", "Gives log lines of exactly so many bytes.", &size),
    ];
    all.extend((0..count.saturating_sub(all.len())).map(made_up));
    Value::Array(all)
}

fn tool(name: &str, description: &str, input: &Value) -> Value {
    json!({"name": name, "description": description, "inputSchema": input,
        "annotations": {"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false}})
}

/// About 730 bytes of JSON, as tools of real servers are.
fn made_up(index: usize) -> Value {
    let pick = |words: &[&'static str], at: usize| words.get(at % words.len()).copied().unwrap_or_default();
    let verb = pick(&VERBS, index);
    let noun = pick(&NOUNS, index / VERBS.len());
    let system = pick(&SYSTEMS, index / (VERBS.len() * NOUNS.len()));
    let description = format!(
        "Use this to {verb} {noun} in the {system} system. Takes a filter, a page size and a cursor; answers with the \
         matching {noun}, newest first, and says where to go on."
    );
    let input = json!({"type": "object", "required": ["filter"], "properties": {
        "filter": {"type": "string", "description": format!("Which {noun}, in the filter language of {system}")},
        "page_size": {"type": "integer", "minimum": 1, "maximum": 200, "default": 25,
            "description": "How many to answer with at most"},
        "cursor": {"type": "string", "description": "Where to go on, from the last answer"},
        "view": {"type": "object", "properties": {"fields": {"type": "array", "items": {"type": "string"}},
            "order": {"type": "string", "enum": ["newest", "oldest"]}}}}});
    tool(&format!("{verb}_{noun}_{system}_{index}"), &description, &input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_string_decodes_to_the_text_at_every_kind_of_length() {
        for length in [0, 1, 109, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 77] {
            let json: Vec<u8> = json_pieces(length).flatten().collect();
            let text: String = serde_json::from_slice(&json).unwrap();
            assert!(is_text(text.as_bytes(), length), "at {length} bytes");
            assert!(!is_text(text.as_bytes(), length + 1));
        }
    }

    #[test]
    fn the_text_grows_by_its_quotes_and_newlines() {
        let grown = json_pieces(BLOCK).map(|p| p.len()).sum::<usize>() as f64 / BLOCK as f64;
        assert!((1.024..1.032).contains(&grown), "{grown}");
    }

    #[test]
    fn a_listing_has_so_many_tools_with_names_of_their_own() {
        let listed = tools(1000);
        let mut names: Vec<_> = listed.as_array().unwrap().iter().map(|t| t["name"].to_string()).collect();
        assert_eq!(names.len(), 1000);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1000);
    }
}
