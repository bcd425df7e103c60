//! Public data: the fixtures of the TOON specification, the JSON suite, and the awkward strings.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};

use content::shape::toon::{Delimiter, NotEncodable, Options, encode};
use serde_json::value::RawValue;

use super::decoder;
use super::round_trip::assert_round_trip;
use super::value::Json;

type Object = BTreeMap<String, Box<RawValue>>;

fn suite(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("MCPPROXY_SUITES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|above| above.join("shared/suites"));
    let found = given.into_iter().chain(beside).map(|suites| suites.join(name)).find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "the suite {name} is missing");
        eprintln!("skipped: no shared/suites/{name} above the crate and MCPPROXY_SUITES is not set");
    }
    found
}

/// File name and test of each fixture of one kind; the values keep their spelling.
fn fixtures(kind: &str, at_least_files: usize) -> Option<Vec<(String, Object)>> {
    let mut paths: Vec<_> = std::fs::read_dir(suite("toon/fixtures")?.join(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= at_least_files, "only {} files of {kind}", paths.len());
    let mut all = Vec::new();
    for path in paths {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed: Object = serde_json::from_str(&text).unwrap();
        let tests: Vec<Object> = serde_json::from_str(parsed["tests"].get()).unwrap();
        assert!(!tests.is_empty(), "{file} has no test");
        all.extend(tests.into_iter().map(|test| (file.clone(), test)));
    }
    Some(all)
}

fn text(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap()
}

fn options(test: &Object) -> Object {
    test.get("options").map_or_else(Object::new, |options| serde_json::from_str(options.get()).unwrap())
}

fn encode_options(test: &Object) -> Options {
    let mut wanted = Options::default();
    for (name, value) in options(test) {
        match name.as_str() {
            "delimiter" => {
                wanted.delimiter = match text(&value).as_str() {
                    "," => Delimiter::Comma,
                    "\t" => Delimiter::Tab,
                    "|" => Delimiter::Pipe,
                    other => panic!("the delimiter {other:?}"),
                }
            }
            "indentSize" => wanted.indent_size = NonZeroU8::new(value.get().parse().unwrap()).unwrap(),
            other => panic!("the option {other}"),
        }
    }
    wanted
}

#[test]
fn every_encoding_fixture_of_the_specification_comes_out_as_it_says() {
    let Some(fixtures) = fixtures("encode", 9) else { return };
    assert!(fixtures.len() >= 160, "only {} fixtures", fixtures.len());
    let mut per_file = BTreeMap::new();
    for (file, test) in &fixtures {
        let name = text(&test["name"]);
        let toon = encode(test["input"].get(), &encode_options(test));
        assert_eq!(toon.as_deref(), Ok(text(&test["expected"]).as_str()), "{file}: {name}");
        *per_file.entry(file).or_insert(0) += 1;
    }
    eprintln!("{} encoding fixtures: {per_file:?}", fixtures.len());
}

#[test]
fn the_decoder_of_these_tests_reads_every_good_decoding_fixture() {
    let Some(fixtures) = fixtures("decode", 14) else { return };
    let (mut good, mut refused) = (0, 0);
    for (file, test) in &fixtures {
        let (name, options) = (text(&test["name"]), options(test));
        if options.get("strict").is_some_and(|strict| strict.get() == "false") {
            continue;
        }
        let indent = options.get("indentSize").map_or(2, |indent| indent.get().parse().unwrap());
        let decoded = decoder::decode_indented(&text(&test["input"]), indent);
        if test.get("shouldError").is_some_and(|error| error.get() == "true") {
            refused += usize::from(decoded.is_err());
            continue;
        }
        let expected = Json::from_serde(&serde_json::from_str(test["expected"].get()).unwrap());
        assert!(decoded.as_ref().is_ok_and(|got| got.equals(&expected)), "{file}: {name}: {decoded:?}");
        good += 1;
    }
    assert!(good >= 150, "only {good} fixtures");
    eprintln!("{good} decoding fixtures read; {refused} bad ones refused");
}

#[test]
fn every_text_of_the_json_suite_round_trips_or_is_refused() {
    let Some(dir) = suite("json/test_parsing") else { return };
    let (mut good, mut lossy, mut bad) = (0, Vec::new(), 0);
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let Ok(text) = String::from_utf8(std::fs::read(entry.path()).unwrap()) else { continue };
        match encode(&text, &Options::default()) {
            Ok(_) => {
                assert!(!name.starts_with("n_"), "{name}");
                assert_round_trip(&text);
                good += 1;
            }
            Err(NotEncodable::NotJson(_)) => {
                assert!(!name.starts_with("y_"), "{name}");
                bad += 1;
            }
            Err(_) => lossy.push(name),
        }
    }
    assert!(good >= 85 && bad >= 150, "{good} good, {bad} bad");
    eprintln!("{good} texts round trip, {bad} are not JSON, refused for what TOON cannot say: {lossy:?}");
}

#[test]
fn every_awkward_string_round_trips_as_value_cell_element_and_key() {
    let Some(path) = suite("blns.json") else { return };
    let strings: Vec<String> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(strings.len() >= 400, "only {} strings", strings.len());
    for string in &strings {
        let json = serde_json::to_string(string).unwrap();
        assert_round_trip(&json);
        assert_round_trip(&format!("{{{json}:{json}}}"));
        assert_round_trip(&format!("[{json},[{json}],{{{json}:[{json},{json}]}}]"));
        assert_round_trip(&format!("[{{{json}:{json},\"other key\":1}},{{{json}:{json},\"other key\":2}}]"));
        assert_round_trip(&format!("{{{json}:{{{json}:{json}}},\"other key\":{{{json}:null}}}}"));
    }
}
