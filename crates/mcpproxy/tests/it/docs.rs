//! What the documentation says is true: its commands run, its configurations load, what it names is there.
//!
//! In `README.md`, `docs` and `examples`. Every `sh` block is run as one script, and of a `console` block every line
//! that begins with `$ mcpproxy`, in a home with a running gateway; exit code 0 is expected. Every `json` block is JSON,
//! and one that names `mcpServers` or a `tool_output_` key is a configuration that loads. An HTML comment directly
//! before a block says otherwise: `not run: WHY`, `exit N`, `serves` (it runs until it is stopped), `fresh` (in a home
//! without configuration and gateway), `config`. A script that needs `curl` is skipped where there is none.

mod place;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::Home;
use testkit::home::finish_within;

use self::place::{Live, Place, is_installed, run, run_fresh, serve};

/// A block of a page.
struct Block {
    /// The page and the line of the block.
    place: String,
    language: String,
    text: String,
    /// The HTML comment before it.
    mark: String,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn walk(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

/// The pages for users: everything but the decisions, which tell of their time.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec![top().join("README.md")];
    walk(&top().join("docs"), ".md", &mut paths);
    paths.retain(|path| !path.starts_with(top().join("docs/decisions")));
    assert!(paths.len() >= 14, "the documentation is there: {paths:?}");
    let name = |path: &Path| path.strip_prefix(top()).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The fenced blocks of a page. Indented blocks of other Markdown count as `console` without a prompt.
fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut mark = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim_start();
        if let Some(comment) = trimmed.strip_prefix("<!-- ") {
            mark = comment.trim_end().trim_end_matches("-->").trim().to_owned();
            continue;
        }
        let place = format!("{page}:{}", number + 1);
        if let Some(language) = trimmed.strip_prefix("```") {
            let inside: Vec<&str> =
                lines.by_ref().map(|(_, l)| l).take_while(|l| l.trim() != "```").collect();
            let language = language.trim().to_owned();
            blocks.push(Block { place, language, text: inside.join("\n"), mark: std::mem::take(&mut mark) });
        } else if let Some(code) = line.strip_prefix("    ").filter(|c| c.starts_with("mcpproxy ")) {
            let mut code = code.to_owned();
            while code.ends_with('\\') {
                code.push('\n');
                code.push_str(lines.next().map_or("", |(_, l)| l.trim()));
            }
            let serves = if code.starts_with("mcpproxy serve") { "serves" } else { "" };
            blocks.push(Block { place, language: "sh".into(), text: code, mark: serves.into() });
        }
        if !trimmed.is_empty() {
            mark.clear();
        }
    }
    blocks
}

/// The commands of a block as a script.
fn commands(block: &Block) -> Option<String> {
    match block.language.as_str() {
        "sh" => Some(block.text.clone()),
        "console" => {
            let mut script = String::new();
            let mut goes_on = false;
            for line in block.text.lines() {
                let command = line.strip_prefix("$ ").filter(|c| c.starts_with("mcpproxy"));
                if let Some(command) = command.or(goes_on.then(|| line.trim_start_matches("> "))) {
                    script.push_str(command);
                    script.push('\n');
                    goes_on = command.ends_with('\\');
                }
            }
            (!script.is_empty()).then_some(script)
        }
        _ => None,
    }
}

#[test]
fn every_command_runs() {
    let (mut count, mut failures) = (0, Vec::new());
    for (page, text) in pages() {
        let mut live = None;
        for block in blocks(&page, &text) {
            let Some(script) = commands(&block) else { continue };
            if block.mark.starts_with("not run: ") {
                continue;
            }
            count += 1;
            if script.contains("curl ") && !is_installed("curl") {
                println!("skipped: {} needs curl", block.place);
                continue;
            }
            failures.extend(match block.mark.as_str() {
                "serves" => serve(&block, &script),
                "fresh" => run_fresh(&block, &script),
                _ => {
                    let live = live.get_or_insert_with(Live::new);
                    run(&live.place, &block, &live.here(&script))
                }
            });
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count >= 20, "only {count} blocks were run");
}

/// Whether a block of JSON is a configuration of ours.
fn is_configuration(block: &Block, value: &Value) -> bool {
    let ours = |name: &String| name == "mcpServers" || name.starts_with("tool_output_");
    block.mark.starts_with("config") || value.as_object().is_some_and(|members| members.keys().any(ours))
}

#[test]
fn every_json_is_json_and_every_configuration_loads() {
    let place = Place::new();
    let mut configurations = Vec::new();
    for (page, text) in pages() {
        for block in blocks(&page, &text).into_iter().filter(|b| b.language == "json") {
            let value: Value =
                serde_json::from_str(&block.text).unwrap_or_else(|e| panic!("{}: {e}", block.place));
            if is_configuration(&block, &value) {
                let expected = if block.mark == "config: exit 4" { 4 } else { 0 };
                configurations.push((block.place, block.text, expected));
            }
        }
        // Of inline code, what begins and ends as an object does.
        for (number, line) in text.lines().enumerate() {
            for code in line.split('`').skip(1).step_by(2) {
                if code.starts_with("{\"mcpServers\"") && code.ends_with('}') {
                    configurations.push((format!("{page}:{}", number + 1), code.to_owned(), 0));
                }
            }
        }
    }
    let mut examples = Vec::new();
    walk(&top().join("examples"), ".json", &mut examples);
    assert!(examples.len() >= 5, "the examples are there: {examples:?}");
    for path in examples {
        configurations.push((path.display().to_string(), fs::read_to_string(&path).unwrap(), 0));
    }
    assert!(configurations.len() >= 15, "only {} configurations", configurations.len());
    let mut failures = Vec::new();
    for (number, (at, text, expected)) in configurations.iter().enumerate() {
        let file = place.home.at(&format!("check-{number}.json"));
        fs::write(&file, place.here(text)).unwrap();
        let checked = place.shell(&format!("exec mcpproxy config validate {}", file.display()));
        let output = finish_within(checked, Duration::from_secs(30));
        if output.code != *expected {
            failures.push(format!("{at}: exit code {}\n{}{}", output.code, output.stdout, output.stderr));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The headings of a page, as addresses spell them.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let headings =
        text.lines().filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim()));
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|h| h.to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_link_leads_somewhere_and_no_line_is_too_long() {
    for (page, text) in pages() {
        let path = top().join(&page);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            if file.contains("://") {
                continue;
            }
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(file.exists(), "{page}: {target}");
            assert!(place.is_empty() || anchors(&file).iter().any(|a| a == place), "{page}: {target}");
        }
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            in_block ^= line.trim_start().starts_with("```");
            let may_be_long = in_block || line.starts_with('|') || page == "README.md";
            assert!(may_be_long || line.chars().count() <= 120, "{page}:{}", number + 1);
        }
    }
}

/// Every command with its help, found by walking the `Commands:` of each.
fn reference(home: &Home, path: &[&str], page: &mut String) {
    let mut args = path.to_vec();
    args.push("-h");
    let mut command = home.command();
    command.args(&args);
    let output = testkit::home::finish(command);
    assert_eq!(output.code, 0, "{args:?}: {}", output.stderr);
    let level = if path.len() > 1 { "###" } else { "##" };
    let name = std::iter::once("mcpproxy").chain(path.iter().copied()).collect::<Vec<_>>().join(" ");
    let help: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n{level} `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim()));
    let listed = help.iter().skip_while(|l| **l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    // A description that needs more lines is indented further than a name.
    let names = listed.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    for name in names.filter_map(|l| l.split_whitespace().next()).filter(|n| *n != "help") {
        let mut path = path.to_vec();
        path.push(name);
        reference(home, &path, page);
    }
}

const CLI_HEAD: &str = "# Commands

This page is made from the program's own help. Do not edit it: run
`UPDATE_DOCS=1 cargo test -p mcpproxy --test it docs::the_command_reference`.

What is asked for goes to standard output; everything else goes to standard error. With `-o json` it is one JSON value.
Exit codes: 0 done, 1 failed, 2 the port is taken, 3 another gateway holds the data directory, 4 the
configuration is not in order, 5 no permission. `mcpproxy COMMAND --help` says more than the short help below.
";

#[test]
fn the_command_reference_is_that_of_the_program() {
    let home = testkit::home!();
    let mut page = CLI_HEAD.to_owned();
    reference(&home, &[], &mut page);
    assert!(page.matches("\n```text\n").count() > 8, "{page}");
    let path = top().join("docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(written == page, "{} is old: run this test with UPDATE_DOCS=1", path.display());
}

fn sources(part: &str) -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for crate_dir in fs::read_dir(top().join("crates")).unwrap() {
        let dir = crate_dir.unwrap().path().join(part);
        if dir.is_dir() {
            walk(&dir, ".rs", &mut paths);
        }
    }
    assert!(paths.len() > 10);
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn every_test_that_a_requirement_names_exists() {
    let mut named = 0;
    let mut requirements: BTreeMap<String, usize> = BTreeMap::new();
    let spec = fs::read_to_string(top().join("docs/specs/076-tool-output-save-to-file.md")).unwrap();
    let mut current = String::new();
    for (number, line) in spec.lines().enumerate() {
        if let Some(id) = line.strip_prefix("- **").and_then(|l| l.split("**").next()) {
            current = id.trim_end_matches('.').to_owned();
            assert!(requirements.insert(current.clone(), 0).is_none(), "{current} stands twice");
        }
        for code in line.split('`').skip(1).step_by(2) {
            let Some((file, name)) = code.split_once(".rs:") else { continue };
            let path = top().join(format!("crates/{file}.rs"));
            let source =
                fs::read_to_string(&path).unwrap_or_else(|e| panic!("line {}: {code}: {e}", number + 1));
            let declared = [format!("fn {name}("), format!("fn {name}<")];
            let is_there = declared.iter().any(|d| source.contains(d));
            assert!(is_there, "line {}: {code} is not there", number + 1);
            named += 1;
            *requirements.entry(current.clone()).or_default() += 1;
        }
    }
    assert!(named > 60 && requirements.len() > 40, "{named} tests, {} requirements", requirements.len());
    let without: Vec<&String> = requirements.iter().filter(|(_, n)| **n == 0).map(|(id, _)| id).collect();
    assert!(without.is_empty(), "requirements without a test: {without:?}");
}

/// Source text as it is shown: escaped quotes and continued lines as they come out, placeholders as `…`.
fn shown(source: &str) -> String {
    let mut text = source.replace("\\\"", "\"").replace("{{", "{").replace("}}", "}");
    while let Some(at) = text.find("\\\n") {
        let rest = text[at + 2..].trim_start().to_owned();
        text.truncate(at);
        text.push_str(&rest);
    }
    text
}

#[test]
fn every_message_of_the_troubleshooting_stands_in_the_source() {
    let all: String = sources("src").iter().map(|(_, source)| shown(source)).collect();
    let page = fs::read_to_string(top().join("docs/troubleshooting.md")).unwrap();
    let mut count = 0;
    for (number, line) in page.lines().enumerate().filter(|(_, l)| l.starts_with("### `")) {
        let message = line.trim_start_matches("### `").trim_end_matches('`');
        for piece in message.split('…').map(str::trim).filter(|p| p.len() > 3) {
            assert!(all.contains(piece), "line {}: no source says {piece:?}", number + 1);
        }
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn every_reason_code_and_every_route_is_explained() {
    let records = fs::read_to_string(top().join("docs/records.md")).unwrap();
    let saving = fs::read_to_string(top().join("docs/save-to-file.md")).unwrap();
    let source = fs::read_to_string(top().join("crates/store/src/reason.rs")).unwrap();
    let codes: Vec<&str> =
        source.lines().filter_map(|l| l.trim().strip_suffix("\",")?.split(" = \"").nth(1)).collect();
    assert!(codes.len() > 50, "{codes:?}");
    for code in codes {
        let page = if code.starts_with("save_") { &saving } else { &records };
        assert!(page.contains(&format!("`{code}`")), "{code}");
    }
    let rest = fs::read_to_string(top().join("docs/rest.md")).unwrap();
    let router = fs::read_to_string(top().join("crates/mcpproxy/src/serve/router.rs")).unwrap();
    let named = |text: &str| text.trim_start().strip_prefix('"')?.split('"').next().map(str::to_owned);
    let routes: Vec<String> = router.split(".route(").skip(1).filter_map(named).collect();
    for route in &routes {
        assert!(rest.contains(&format!("`{route}`")) || rest.contains(&format!(" {route}`")), "{route}");
    }
    assert!(routes.len() >= 6, "{routes:?}");
}
