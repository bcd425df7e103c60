//! How fast answers are cleaned, in MB of raw bytes a second on one core, and that hostile ones take time in step with their size.
//! Prints figures and asserts what was found, never a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

#[path = "../tests/corpus/secrets.rs"]
mod secrets;

use std::sync::Arc;
use std::time::{Duration, Instant};

use content::Answer;
use content::clean::{Action, Categories, Cleaning, Forwarded, StripClasses, clean_with};
use content::schema::check_output;
use secrets::{Rng, fill};

const MB: usize = 1_000_000;

fn everything() -> Cleaning {
    Cleaning::new(Action::Redact, Categories::ALL, Arc::default())
        .strip(StripClasses::ALL)
        .scrub(Arc::new(Forwarded::new([("X-Upstream-Auth", "Bearer not-in-the-text-0123456789")])))
}

fn answer_of(literal: &str) -> Vec<u8> {
    format!(r#"{{"content":[{{"type":"text","text":{literal}}}]}}"#).into_bytes()
}

fn text(text: &str) -> Vec<u8> {
    answer_of(&serde_json::to_string(text).unwrap())
}

/// Cleans until a second is over or twenty times, and gives the mean time, the number of findings, and the bytes looked at.
fn measure(raw: &[u8], cleaning: &Cleaning) -> (Duration, u64, u64) {
    let source = Arc::new(raw.to_vec());
    let (begin, mut total, mut rounds, mut found, mut work) = (Instant::now(), Duration::ZERO, 0, 0, 0);
    while rounds < 2 || (rounds < 20 && begin.elapsed() < Duration::from_secs(1)) {
        let checked = check_output(Answer::index(source.clone(), &|| false).unwrap());
        let start = busy();
        let cleaned = clean_with(checked, cleaning, &|| false);
        total += busy() - start;
        rounds += 1;
        let Ok(redacted) = cleaned else { continue };
        found = redacted.findings().count_secrets();
        work = redacted.findings().work;
    }
    (total / rounds, found, work)
}

/// Time that this thread was at work, where the system tells it: others may use the machine meanwhile.
fn busy() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

fn rate(name: &str, raw: &[u8], cleaning: &Cleaning) -> u64 {
    let (time, found, work) = measure(raw, cleaning);
    let mb = raw.len() as f64 / MB as f64;
    let looks = work as f64 / raw.len() as f64;
    println!(
        "{name:<34} {mb:>6.1} MB {:>8.0} MB/s  {found:>6} found  {looks:>5.1} looks",
        mb / time.as_secs_f64()
    );
    found
}

/// Lines of a log, cut to `len` bytes.
fn log(len: usize, rng: &mut Rng) -> String {
    let mut out = String::with_capacity(len + 200);
    let lines = [
        "2026-03-{D2}T10:{D2}:{D2}.{D3}Z INFO  [worker-{D1}] http.request method=GET path=/api/v1/items/{D6} status=200 duration_ms={D2} id={UUID}\n",
        "2026-03-{D2} 10:{D2}:{D2} ERROR db: query failed after {D3} ms: relation \"items_{L6}\" does not exist (commit {H40})\n",
        "    at Object.handle (/srv/app/node_modules/express/lib/router/layer.js:{D2}:{D2})\n",
        "The quick brown fox jumps over the lazy dog, and then it does so again because nobody was looking the first time.\n",
        "\t\"{L8}\": {\"version\": \"1.{D1}.{D1}\", \"resolved\": \"https://registry.example.org/{L8}/-/{L8}-1.2.3.tgz\", \"integrity\": \"sha512-{B86}==\"},\n",
    ];
    while out.len() < len {
        out.push_str(&fill(rng.pick::<&str>(&lines), rng));
    }
    out.truncate(len);
    out
}

fn prose(len: usize) -> String {
    let line = "It was a bright cold day in April, and the clocks were striking thirteen; the hallway smelt of boiled cabbage and old rag mats.\n";
    line.repeat(len / line.len())
}

fn code(len: usize) -> String {
    let source = include_str!("../src/clean/view.rs");
    source.repeat(len / source.len() + 1)
}

/// Puts a secret at every `step` bytes or so.
fn planted(text: &str, step: usize, rng: &mut Rng) -> String {
    let mut out = String::with_capacity(text.len() * 11 / 10);
    let mut since = 0;
    for line in text.lines() {
        out.push_str(line);
        since += line.len();
        if since > step {
            out.push_str(&fill(
                rng.pick::<&str>(&[
                    " token ghp_{A36}",
                    " card {CARD}",
                    " Authorization: Bearer {H40}",
                    " AKIA{U16}",
                ]),
                rng,
            ));
            since = 0;
        }
        out.push('\n');
    }
    out
}

fn speed(rng: &mut Rng) {
    let log = log(10 * MB, rng);
    let cleaning = everything();
    println!("all on: redact, strip, scrub");
    assert_eq!(rate("prose, no hits", &text(&prose(10 * MB)), &cleaning), 0);
    assert_eq!(rate("log, no hits", &text(&log), &cleaning), 0);
    assert_eq!(rate("Rust code, no hits", &text(&code(10 * MB)), &cleaning), 0);
    assert!(rate("log, a hit each 10 KB", &text(&planted(&log, 10_000, rng)), &cleaning) > 900);
    assert!(rate("log, a hit each 1 KB", &text(&planted(&log, 1000, rng)), &cleaning) > 7000);
    rate("log, only counting", &text(&log), &Cleaning::new(Action::Count, Categories::ALL, Arc::default()));
    rate("log, only strip", &text(&log), &Cleaning::off().strip(StripClasses::ALL));
    let cyrillic = "Привет, мир — это “цитата”, и ещё немного текста.\n".repeat(10 * MB / 80);
    rate("Cyrillic, no hits", &text(&cyrillic), &cleaning);
    let rows: Vec<String> = (0..100_000)
        .map(|n| format!(r#"{{"id":{n},"name":"item {n}","tags":["a","b"],"ok":true,"path":"/srv/{n}"}}"#))
        .collect();
    let rows = format!("[{}]", rows.join(","));
    rate("JSON in text", &text(&rows), &cleaning);
    rate("structured content", format!(r#"{{"structuredContent":{{"rows":{rows}}}}}"#).as_bytes(), &cleaning);
    let picture: String = fill("iVBOR{B4000}", rng).repeat(10 * MB / 4005);
    rate("base64 picture in text", &text(&picture), &cleaning);
    rate(
        "base64 picture in data",
        format!(r#"{{"content":[{{"type":"image","data":"{}"}}]}}"#, &picture[..picture.len() / 4 * 4])
            .as_bytes(),
        &cleaning,
    );
    let coloured = log.replace("ERROR", "\u{1b}[31mERROR\u{1b}[0m").replace(" at ", " \u{1b}[2mat\u{1b}[0m ");
    rate("coloured log", &text(&coloured), &cleaning);
}

/// Hostile texts of a size and of twice the size.
fn hostile() {
    println!("\nhostile texts: time for 5 MB, for 10 MB, and what that is to each other");
    let units = [
        "a",
        "=",
        "-----BEGIN ",
        "AKIA",
        "eyJ.",
        "eyJ",
        " eyJa.",
        "://:@",
        "://a:",
        "1234-",
        "4111 ",
        "password=",
        "password: \"",
        "_key=",
        "token=a",
        "Bearer ",
        "Basic ",
        "ghp_",
        "sk-",
        "\\",
        "\\u",
        "\\n",
        "\u{1b}]",
        "\u{1b}[",
        "\u{9d}",
        "\u{1b}P\u{1b}",
        "\u{200b}",
        "\u{2066}",
        "QUJD",
        "QUJD\n",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nQUJDREVGR0hJSktMTU5P\n",
        "PRIVATE KEY",
        "xoxb-",
        "SG.",
        "AccountKey=",
        "ecret: 'a",
    ];
    for unit in units {
        line(&format!("{unit:?}"), |len| text(&unit.repeat(len / unit.len())));
    }
    line("100,000 and 200,000 levels", |len| {
        let levels = len / 50;
        format!(r#"{{"structuredContent":{}"x"{}}}"#, "[".repeat(levels), "]".repeat(levels)).into_bytes()
    });
    line("200,000 and 400,000 elements", |len| {
        format!(r#"{{"structuredContent":["a"{}]}}"#, r#","ab\n""#.repeat(len / 25)).into_bytes()
    });
    line("every character an escape", |len| answer_of(&format!("\"{}\"", "\\u0061".repeat(len / 6))));
    line("every escape an escape", |len| answer_of(&format!("\"{}\"", "\\\\u0061".repeat(len / 7))));
}

fn line(name: &str, make: impl Fn(usize) -> Vec<u8>) {
    let cleaning = everything();
    let [(one, ..), (two, ..)] = [5 * MB, 10 * MB].map(|len| measure(&make(len), &cleaning));
    let (one, two) = (one.as_secs_f64() * 1000.0, two.as_secs_f64() * 1000.0);
    let warn = if two / one > 2.3 { "  <-- more than 2.3" } else { "" };
    println!("{name:<56} {one:>8.1} ms {two:>8.1} ms  x{:.2}{warn}", two / one);
}

fn main() {
    let mut rng = Rng(1);
    let filter = std::env::args().nth(1).unwrap_or_default();
    if filter != "hostile" {
        speed(&mut rng);
    }
    if filter != "speed" {
        hostile();
    }
}
