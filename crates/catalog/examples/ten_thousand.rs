//! How long an index of 10,000 tools takes here: to read, to build, to search.
#![allow(clippy::print_stdout, missing_docs)]

use std::time::Instant;

use catalog::{Catalog, parse_tools};

const SERVERS: usize = 20;
const TOOLS: usize = 500;
const VERBS: [&str; 10] =
    ["get", "list", "create", "update", "delete", "search", "merge", "export", "watch", "read"];
const NOUNS: [&str; 10] =
    ["User", "File", "Issue", "Branch", "Invoice", "Table", "Report", "Message", "Build", "Page"];

fn entry(server: usize, tool: usize) -> String {
    let (verb, noun) = (VERBS[tool % 10], NOUNS[tool / 10 % 10]);
    format!(
        r#"{{"name":"{verb}{noun}{tool}","description":"{verb} one {noun} of server {server}, with its details and history.
        Use it when the {noun} is known by its number.","inputSchema":{{"type":"object","properties":{{
        "{noun}Id":{{"type":"string"}},"pageSize":{{"type":"integer"}},"includeDeleted":{{"type":"boolean"}}}}}}}}"#
    )
    .replace('\n', " ")
}

fn main() {
    let raw: Vec<Vec<String>> =
        (0..SERVERS).map(|s| (0..TOOLS).map(|tool| entry(s, tool)).collect()).collect();
    let from = Instant::now();
    let listings: Vec<_> = raw
        .iter()
        .enumerate()
        .map(|(server, raw)| parse_tools(&format!("server{server}"), raw.iter().map(String::as_str)).0)
        .collect();
    println!("read {} tools in {:?}", SERVERS * TOOLS, from.elapsed());
    let from = Instant::now();
    let mut catalog = Catalog::default();
    for (server, tools) in listings.into_iter().enumerate() {
        catalog = catalog.with_server(&format!("server{server}"), tools);
    }
    println!("indexed {} tools in {:?}", catalog.len(), from.elapsed());
    for query in [
        "getUser0",
        "delete an invoice",
        "search messages with their history on server7",
        "r",
        "known number",
    ] {
        let from = Instant::now();
        let hits = catalog.search(query, 15);
        println!("{query:?}: {} hits in {:?}", hits.len(), from.elapsed());
    }
    let from = Instant::now();
    for tool in 0..TOOLS {
        let name = format!("{}{}{tool}", VERBS[tool % 10], NOUNS[tool / 10 % 10]);
        assert!(catalog.resolve("server3", &name).is_some());
    }
    println!("resolved {TOOLS} ids in {:?}", from.elapsed());
}
