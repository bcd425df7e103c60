//! How fast JSON becomes TOON: tables of a megabyte, and texts made to be slow. It asserts what is made and prints the times.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use content::shape::toon::{MAX_TOON_BYTES, Mode, NotEncodable, Options, Outcome, decide, encode};

/// What twice the text may cost, in times of what the text costs.
const LINEAR: f64 = 2.3;

fn main() {
    println!("{:<44} {:>9} {:>9} {:>9}", "tables, adaptive", "bytes", "ms", "MB/s");
    for (name, text) in tables() {
        let encoded = decide(&text, Mode::Adaptive, 15, usize::MAX);
        let Outcome::Encoded(toon) = &encoded else { panic!("{name}: {encoded:?}") };
        assert!(toon.len() * 100 <= text.len() * 85, "{name}");
        let time = time(|| drop(black_box(decide(black_box(&text), Mode::Adaptive, 15, usize::MAX))));
        println!("{name:<44} {:>9} {:>9.2} {:>9.0}", text.len(), ms(time), speed(text.len(), time));
    }
    println!("\n{:<44} {:>9} {:>9} {:>9} {:>6}", "twice the text", "bytes", "ms", "MB/s", "times");
    for (name, make) in pathological() {
        let (half, whole) = (make(MAX_TOON_BYTES / 2), make(MAX_TOON_BYTES));
        assert!(whole.len() <= MAX_TOON_BYTES && half.len() * 20 > whole.len() * 9, "{name}");
        check(name, &whole);
        let run = |text: &str| time(|| drop(black_box(encode(black_box(text), &Options::default()))));
        let (once, twice) = (run(&half), run(&whole));
        let ratio = twice.as_secs_f64() / once.as_secs_f64();
        let verdict = if ratio <= LINEAR { "" } else { "  more than linear" };
        let (bytes, speed) = (whole.len(), speed(whole.len(), twice));
        println!("{name:<44} {bytes:>9} {:>9.2} {speed:>9.0} {ratio:>6.2}{verdict}", ms(twice));
    }
}

/// What a run costs in processor time, so that other work on the machine counts for little: the least of three averages.
fn time(mut run: impl FnMut()) -> Duration {
    let started = Instant::now();
    let averages = (0..3).map(|_| {
        let (start, mut rounds) = (cpu_time(started), 0);
        while rounds < 3 || cpu_time(started) - start < Duration::from_millis(120) {
            run();
            rounds += 1;
        }
        (cpu_time(started) - start) / rounds
    });
    averages.min().unwrap()
}

/// Linux tells a thread's processor time in nanoseconds; elsewhere the clock on the wall must do.
fn cpu_time(started: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|told| told.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| started.elapsed(), Duration::from_nanos)
}

/// Each text is written, or refused for the reason that it was made for.
fn check(name: &str, text: &str) {
    match encode(text, &Options::default()) {
        Ok(toon) => assert!(!toon.is_empty(), "{name}"),
        Err(NotEncodable::TooDeep) => assert!(name.contains("levels"), "{name}"),
        Err(NotEncodable::TooMuchOutput) => assert!(name.contains("indented"), "{name}"),
        Err(NotEncodable::InexactNumber) => assert!(name.contains("digits"), "{name}"),
        Err(other) => panic!("{name}: {other}"),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn speed(bytes: usize, time: Duration) -> f64 {
    let megabytes = f64::from(u32::try_from(bytes).unwrap()) / 1e6;
    megabytes / time.as_secs_f64()
}

/// As many of `piece`, each made from its number, as fit into `bytes` with commas between, inside `begin` and `end`.
fn fill(bytes: usize, begin: &str, end: &str, mut piece: impl FnMut(usize, &mut String)) -> String {
    let mut text = begin.to_owned();
    for number in 0.. {
        let before = text.len();
        if number > 0 {
            text.push(',');
        }
        piece(number, &mut text);
        if text.len() + end.len() > bytes {
            text.truncate(before);
            break;
        }
    }
    text + end
}

fn tables() -> Vec<(&'static str, String)> {
    let plain = fill(MAX_TOON_BYTES, "[", "]", |n, out| {
        let (age, active, score) = (n % 90, n % 3 == 0, n % 1000);
        write!(out, r#"{{"id":{n},"name":"user {n}","email":"user{n}@example.com","#).unwrap();
        write!(out, r#""age":{age},"active":{active},"score":{score}.25}}"#).unwrap();
    });
    let pretty = fill(MAX_TOON_BYTES, "{\n  \"rows\": [", "\n  ]\n}", |n, out| {
        write!(out, "\n    {{\n      \"id\": {n},\n      \"path\": \"src/module_{n}.rs\",").unwrap();
        write!(out, "\n      \"note\": \"line \\\"{n}\\\"\\nnext\"\n    }}").unwrap();
    });
    let mixed = fill(MAX_TOON_BYTES, "[", "]", |n, out| {
        let row = if n % 2 == 0 {
            format!(r#"{{"aaaaaaaa":{n},"bbbbbbbb":"x{n}"}}"#)
        } else {
            format!(r#"{{"bbbbbbbb":"x{n}","aaaaaaaa":{n}}}"#)
        };
        out.push_str(&row);
    });
    vec![
        ("rows of six columns", plain),
        ("the same idea, indented, with escapes", pretty),
        ("columns in two orders", mixed),
    ]
}

type Make = fn(usize) -> String;

fn pathological() -> Vec<(&'static str, Make)> {
    vec![
        ("one array of numbers", |bytes| fill(bytes, "[", "]", |n, out| out.push_str(&n.to_string()))),
        ("one array of zeros", |bytes| fill(bytes, "[", "]", |_, out| out.push('0'))),
        ("one array of empty arrays", |bytes| fill(bytes, "[", "]", |_, out| out.push_str("[]"))),
        ("one array of empty objects", |bytes| fill(bytes, "[", "]", |_, out| out.push_str("{}"))),
        ("one object of many keys", |bytes| {
            fill(bytes, "{", "}", |n, out| write!(out, "\"k{n}\":{n}").unwrap())
        }),
        ("objects of one key each, none twice", |bytes| {
            fill(bytes, "[", "]", |n, out| write!(out, "{{\"k{n}\":{n}}}").unwrap())
        }),
        ("rows, the last of which spoils the table", |bytes| {
            fill(bytes, "[", ",{\"b\":1}]", |n, out| write!(out, "{{\"a\":{n}}}").unwrap())
        }),
        ("rows of 200 columns, each in another order", |bytes| {
            fill(bytes, "[", "]", |n, out| {
                let cells: Vec<_> = (0..200).map(|c| format!("\"c{}\":1", (c + n) % 200)).collect();
                write!(out, "{{{}}}", cells.join(",")).unwrap();
            })
        }),
        ("objects 60 deep, no table at last, indented", |bytes| {
            let nest = |inside: String| {
                (0..60).fold(inside, |inside, level| {
                    format!("{{\"l{level}\":{inside},\"m{level}\":{{\"x\":1}}}}")
                })
            };
            let outside = nest(String::new()).len();
            let inside = fill(bytes - outside, "{", ",\"z\":[]}", |n, out| {
                write!(out, "\"k{n}\":{{\"x\":{n}}}").unwrap();
            });
            nest(inside)
        }),
        ("short lines 60 deep, indented", |bytes| {
            let (begin, end) = ("[".repeat(60), "]".repeat(60));
            fill(bytes, &begin, &end, |_, out| out.push_str("{}"))
        }),
        ("levels without end", |bytes| "[".repeat(bytes / 2) + &"]".repeat(bytes / 2)),
        ("levels of objects without end", |bytes| "{\"a\":".repeat(bytes / 6) + "1" + &"}".repeat(bytes / 6)),
        ("one long string", |bytes| format!("[\"{}\"]", "x".repeat(bytes - 4))),
        ("one long string that needs quotes", |bytes| format!("[\"{}:\"]", "x".repeat(bytes - 5))),
        ("one long string of escapes", |bytes| format!("[\"{}\"]", "\\n".repeat((bytes - 4) / 2))),
        ("one long string of \\u0001", |bytes| format!("[\"{}\"]", "\\u0001".repeat((bytes - 4) / 6))),
        ("one number of many digits", |bytes| format!("[{}]", "1".repeat(bytes - 2))),
        ("one number of many zeros", |bytes| format!("[0.{}]", "0".repeat(bytes - 4))),
        ("numbers of 17 significant places", |bytes| {
            fill(bytes, "[", "]", |_, out| out.push_str("0.30000000000000004"))
        }),
        ("white space", |bytes| format!("[{}]", " \n".repeat((bytes - 2) / 2))),
    ]
}
