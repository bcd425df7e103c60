//! Random texts: the scanner takes what another parser takes, and cutting the text changes nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

use jsonspan::{Event, Scanner, SyntaxError, check};

const ROUNDS: usize = 40_000;

const SEEDS: [&str; 6] = [
    r#"{"content":[{"type":"text","text":"a\u00e9\n"}],"isError":false}"#,
    "[1,-0,0.5e-3,12E+9,[[],{}],null,true]",
    r#""\ud83d\ude00 \"quoted\" \/""#,
    " { \"a\" : [ 1 , 2 ] ,\t\"b\":{}}\r\n",
    "-10.25",
    r#"{"a":{"a":{"a":[{"b":"x"},false]}}}"#,
];

/// Bytes that mean something to the grammar, and a few that do not.
const BYTES: &[u8] = b"{}[]:,\"\\\\/0123456789-+.eEutrfalsn \n\tx\x01";

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn mutated(random: &mut Random) -> Vec<u8> {
    let mut text = SEEDS[random.below(SEEDS.len())].as_bytes().to_vec();
    for _ in 0..random.below(4) {
        let at = random.below(text.len());
        let byte = BYTES[random.below(BYTES.len())];
        match random.below(4) {
            0 => text[at] = byte,
            1 => text.insert(at, byte),
            2 => text.truncate(at.max(1)),
            _ => {
                text.remove(at);
                text.push(byte);
            }
        }
    }
    text
}

fn scan_cut(text: &[u8], random: &mut Random) -> Result<Vec<String>, SyntaxError> {
    let (mut scanner, mut events, mut rest) = (Scanner::new(), Vec::new(), text);
    let mut note = |event: Event<'_>| events.push(format!("{event:?}"));
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + random.below(9)).min(rest.len()));
        scanner.feed(piece, &mut note)?;
        rest = after;
    }
    scanner.finish(&mut note)?;
    Ok(events)
}

#[test]
fn the_scanner_agrees_with_another_parser_and_with_itself() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) << 20 | 1
    });
    eprintln!("SEED={seed}");
    let mut random = Random(seed);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let text = mutated(&mut random);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        let ours = check(&text);
        assert_eq!(ours.is_ok(), theirs, "{shown:?}");
        let whole = scan_cut(&text, &mut random);
        let again = scan_cut(&text, &mut random);
        assert_eq!(whole, again, "{shown:?}");
        assert_eq!(whole.err(), ours.err(), "{shown:?}");
        if theirs { taken += 1 } else { refused += 1 }
    }
    assert!(taken > ROUNDS / 10 && refused > ROUNDS / 10, "{taken} taken, {refused} refused");
}
