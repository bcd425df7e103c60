//! How long validating structured output takes at its bounds. Prints milliseconds; asserts verdicts, never times.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use content::Answer;
use content::schema::{OutputFault, OutputMode, OutputRules, OutputSchema, Stopped};

const MAX_BYTES: usize = 5 << 20;
const RUNS: usize = 5;

/// What is expected of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passes,
    Mismatch,
    Costly,
}

fn main() {
    println!(
        "{:<44} {:>9} {:>9} {:>9}  verdict",
        "case, structured content of 5 MiB", "MB", "CPU ms", "best ms"
    );
    let rows = "{\"type\":\"object\",\"required\":[\"rows\"],\"properties\":{\"rows\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\
        \"required\":[\"id\",\"name\",\"ok\"],\"properties\":{\"id\":{\"type\":\"integer\"},\"name\":{\"type\":\"string\"},\"ok\":{\"type\":\"boolean\"}}}}}}";
    let row = |n: usize| format!(r#"{{"id":{n},"name":"name of {n}","ok":true}}"#);
    let data = rows_of(row);
    case("rows of objects", rows, &data, Verdict::Passes);
    case(
        "rows, closed objects",
        &rows.replace("\"required\":[\"id\"", "\"additionalProperties\":false,\"required\":[\"id\""),
        &data,
        Verdict::Passes,
    );
    let referred = "{\"$defs\":{\"row\":{\"type\":\"object\",\"properties\":{\"id\":{\"$ref\":\"#/$defs/id\"},\"name\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}}},\
        \"id\":{\"type\":\"integer\"}},\"properties\":{\"rows\":{\"items\":{\"$ref\":\"#/$defs/row\"}}}}";
    case("rows, $ref and anyOf", referred, &data, Verdict::Passes);
    let last = data.replace("]}", r#",{"id":"x","name":7,"ok":1}]}"#);
    case("rows, the last one wrong", rows, &last, Verdict::Mismatch);
    case("rows, anyOf, the last one wrong", referred, &last, Verdict::Mismatch);
    let dated = "{\"properties\":{\"rows\":{\"items\":{\"properties\":{\"at\":{\"pattern\":\"^\\\\d{4}-\\\\d{2}-\\\\d{2}$\"}}}}}}";
    case(
        "rows, a pattern each",
        dated,
        &rows_of(|n| format!(r#"{{"at":"2024-01-{:02}"}}"#, n % 28)),
        Verdict::Passes,
    );
    let numbers = format!(r#"{{"rows":[1{}]}}"#, ",1".repeat(MAX_BYTES / 2 - 20));
    case(
        "numbers, dense",
        r#"{"properties":{"rows":{"items":{"type":"integer"}}}}"#,
        &numbers,
        Verdict::Passes,
    );
    let wide = wide();
    case(
        "one object with 400,000 members",
        r#"{"additionalProperties":{"type":"integer"}}"#,
        &wide,
        Verdict::Passes,
    );
    case("closed object with 400,000 members", r#"{"additionalProperties":false}"#, &wide, Verdict::Mismatch);
    case(
        "unique items",
        r#"{"properties":{"rows":{"uniqueItems":true}}}"#,
        &rows_of(|n| n.to_string()),
        Verdict::Passes,
    );
    let text = format!(r#"{{"t":"{}"}}"#, "ab".repeat(MAX_BYTES / 2 - 20));
    case(
        "one string, a usual pattern",
        r#"{"properties":{"t":{"pattern":"^[a-z]+$"}}}"#,
        &text,
        Verdict::Passes,
    );
    println!("\nhostile:");
    case(
        "one string, a pattern that explodes",
        r#"{"properties":{"t":{"pattern":"(a|b)*a(a|b){20}c"}}}"#,
        &text,
        Verdict::Costly,
    );
    let doubling: Vec<String> = (0..40)
        .map(|n| {
            format!(
                r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{}"}},{{"$ref":"#/$defs/d{}"}}]}}"##,
                n + 1,
                n + 1
            )
        })
        .collect();
    let doubling =
        format!(r##"{{"$defs":{{{},"d40":{{"type":"object"}}}},"$ref":"#/$defs/d0"}}"##, doubling.join(","));
    case("references that double", &doubling, &data, Verdict::Costly);
    let same = r#"{"type":"integer"}"#;
    let many = format!(
        r#"{{"properties":{{"rows":{{"items":{{"allOf":[{same}{}]}}}}}}}}"#,
        format!(",{same}").repeat(200)
    );
    case("200 rules for each number", &many, &numbers, Verdict::Costly);
    let any = format!(
        r#"{{"properties":{{"rows":{{"items":{{"anyOf":[{{"type":"null"}}{}]}}}}}}}}"#,
        r#",{"type":"string"}"#.repeat(50)
    );
    case("50 branches, none fits", &any, &numbers, Verdict::Mismatch);
    if let Some(peak) = peak_memory() {
        println!("\npeak memory of this program, four texts of 5 MiB in it: {peak}");
    }
}

fn rows_of(row: impl Fn(usize) -> String) -> String {
    let mut text = r#"{"rows":["#.to_owned() + &row(0);
    for n in 1.. {
        let next = row(n);
        if text.len() + next.len() + 64 > MAX_BYTES {
            break;
        }
        let _ = write!(text, ",{next}");
    }
    text + "]}"
}

fn wide() -> String {
    let members: Vec<String> = (0..400_000).map(|n| format!(r#""k{n:05x}":{}"#, n % 10)).collect();
    format!("{{{}}}", members.join(","))
}

fn case(name: &str, schema: &str, structured: &str, wanted: Verdict) {
    assert!(structured.len() <= MAX_BYTES, "{name}: {}", structured.len());
    let schema = OutputSchema::compile(schema);
    assert_eq!(schema.problem(), None, "{name}");
    let rules = OutputRules {
        mode: OutputMode::Strict,
        max_bytes: MAX_BYTES as u64,
        max_depth: 64,
        block_missing: false,
    };
    let raw: Arc<Vec<u8>> =
        Arc::new(format!(r#"{{"content":[],"structuredContent":{structured}}}"#).into_bytes());
    let (mut times, mut worked) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let answer = Answer::index(Arc::clone(&raw) as Arc<dyn content::Source>, &|| false).unwrap();
        let (began, before) = (Instant::now(), processor_time());
        let verdict = match schema.check(answer, &rules) {
            Ok(_) => Verdict::Passes,
            Err(Stopped::Fault(OutputFault::Mismatch(_))) => Verdict::Mismatch,
            Err(_) => Verdict::Costly,
        };
        times.push(began.elapsed());
        worked.push(
            processor_time()
                .zip(before)
                .map_or(began.elapsed(), |(after, before)| after.saturating_sub(before)),
        );
        assert_eq!(verdict, wanted, "{name}");
    }
    let ms = |times: &[Duration]| times.iter().min().map_or(0.0, |time| time.as_secs_f64() * 1e3);
    println!(
        "{name:<44} {:>9.2} {:>9.1} {:>9.1}  {wanted:?}",
        structured.len() as f64 / 1e6,
        ms(&worked),
        ms(&times)
    );
}

/// Time that this thread had the processor, where the system tells it: other programs do not count then.
fn processor_time() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(|peak| peak.trim().to_owned())
}
