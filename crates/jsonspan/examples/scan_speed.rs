//! Prints how many megabytes a second the scanner gets through: `cargo run --release -p jsonspan --example scan_speed [FILE]`.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::time::Instant;

use jsonspan::Scanner;

const SIZE: usize = 64 << 20;

fn main() {
    if let Some(path) = std::env::args_os().nth(1) {
        return measure("file", &std::fs::read(path).expect("the file can be read"));
    }
    measure("one long string", &[b"\"", "x".repeat(SIZE).as_bytes(), b"\""].concat());
    measure("one long string, many escapes", &literal(r#"fn main() {\n    println!(\"hi\");\n}\n"#));
    measure("one long string, not ASCII", &literal("grüße, 世界 😀 "));
    measure("objects", &array(r#"{"id":725653,"name":"Ada","ok":true,"tags":["a","b"],"score":1.25}"#));
    measure("numbers", &array("1,-2,3.5,4e10,0"));
    measure("objects, indented", &array("{\n    \"id\": 725653,\n    \"name\": \"Ada Lovelace\"\n  }"));
}

fn literal(unit: &str) -> Vec<u8> {
    format!("\"{}\"", unit.repeat(SIZE / unit.len())).into_bytes()
}

fn array(unit: &str) -> Vec<u8> {
    format!("[{}]", vec![unit; SIZE / (unit.len() + 1)].join(",")).into_bytes()
}

fn measure(name: &str, text: &[u8]) {
    let mut best = f64::MAX;
    let mut events = 0_u64;
    for _ in 0..3 {
        let started = Instant::now();
        let mut scanner = Scanner::new();
        events = 0;
        for chunk in text.chunks(64 * 1024) {
            scanner.feed(chunk, &mut |_| events += 1).unwrap();
        }
        scanner.finish(&mut |_| events += 1).unwrap();
        best = best.min(started.elapsed().as_secs_f64());
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let megabytes = text.len() as f64 / 1e6;
    println!("{name}: {:.0} MB/s, {events} events", megabytes / best);
}
