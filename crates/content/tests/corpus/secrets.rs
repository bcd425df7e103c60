//! The one place where secrets for tests are made. None is real and none stands in a file: each is put together at run time from a
//! template and random letters, always the same for the same seed.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// Random numbers that are the same for the same seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    pub fn letters(&mut self, alphabet: &str, count: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..count).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }
}

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const DIGITS: &str = "0123456789";

/// Fills the places in braces: `{A36}` with letters and digits, `{H40}` with hexadecimal digits, `{U16}` with capitals and digits,
/// `{B40}` and `{W40}` with base64 of either alphabet, `{D9}` with digits, and the named ones. Other braces stay.
pub fn fill(template: &str, rng: &mut Rng) -> String {
    fill_noting(template, rng).0
}

/// As [`fill`], and says what was put in. What stands in `{~...}` is put in and not said.
pub fn fill_noting(template: &str, rng: &mut Rng) -> (String, Vec<String>) {
    let (mut out, mut values) = (String::new(), Vec::new());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let place = rest[open + 1..].find('}').map(|end| &rest[open + 1..open + 1 + end]);
        match place.and_then(|name| Some((name, value(name.trim_start_matches('~'), rng)?))) {
            Some((name, value)) => {
                out.push_str(&value);
                rest = &rest[open + name.len() + 2..];
                if !name.starts_with('~') && name != "PRIVATE" {
                    values.push(value);
                }
            }
            None => {
                out.push('{');
                rest = &rest[open + 1..];
            }
        }
    }
    (out + rest, values)
}

fn value(name: &str, rng: &mut Rng) -> Option<String> {
    let alnum = [UPPER, LOWER, DIGITS].concat();
    match name {
        "CARD" => return Some(card(rng)),
        "JWT" => return Some(jwt(rng)),
        "BASIC" => return Some(STANDARD.encode(format!("deploy:{}", rng.letters(&alnum, 14)))),
        "PRIVATE" => return Some(["PRIVATE", "KEY"].join(" ")),
        "PEM" => return Some(pem(rng)),
        "GHP" => return Some(["ghp", "_A1b2C3d4E5f6G7h8I9j0", "K1l2M3n4O5p6Q7r8"].concat()),
        "UUID" => return Some(uuid(rng)),
        _ => {}
    }
    let count = name.get(1..)?.parse().ok()?;
    let alphabet = match *name.as_bytes().first()? {
        b'A' => alnum,
        b'H' => "0123456789abcdef".to_owned(),
        b'U' => [UPPER, "234567"].concat(),
        b'B' => alnum + "+/",
        b'W' => alnum + "_-",
        b'D' => DIGITS.to_owned(),
        b'L' => LOWER.to_owned(),
        _ => return None,
    };
    // A token neither begins nor ends with a sign that a word of prose could not hold.
    let mut text = rng.letters(&alphabet, count);
    while text.starts_with(['-', '_']) || text.ends_with(['-', '_', '/']) {
        text = rng.letters(&alphabet, count);
    }
    Some(text)
}

pub fn ghp(rng: &mut Rng) -> String {
    fill("ghp_{A36}", rng)
}

pub fn uuid(rng: &mut Rng) -> String {
    fill("{H8}-{H4}-4{H3}-a{H3}-{H12}", rng)
}

pub fn pem(rng: &mut Rng) -> String {
    fill("-----BEGIN {PRIVATE}-----\n{B64}\n{B64}\n{B64}\n{B38}==\n-----END {PRIVATE}-----", rng)
}

fn jwt(rng: &mut Rng) -> String {
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let body = URL_SAFE_NO_PAD.encode(format!(r#"{{"sub":"{}","iat":1700000000}}"#, rng.letters(DIGITS, 10)));
    format!("{head}.{body}.{}", fill("{W43}", rng))
}

/// A number with the right check digit.
pub fn card(rng: &mut Rng) -> String {
    let (prefix, len) = *rng.pick(&[
        ("4", 16),
        ("51", 16),
        ("55", 16),
        ("2221", 16),
        ("34", 15),
        ("37", 15),
        ("6011", 16),
        ("36", 14),
        ("3530", 16),
    ]);
    let mut digits = prefix.to_owned() + &rng.letters(DIGITS, len - prefix.len() - 1);
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(digit - b'0') * if place % 2 == 0 { 2 } else { 1 };
            if digit > 9 { digit - 9 } else { digit }
        })
        .sum();
    digits.push(char::from(b'0' + u8::try_from((10 - sum % 10) % 10).unwrap()));
    let separator = *rng.pick(&["", "", " ", "-"]);
    if separator.is_empty() || len == 14 {
        return digits;
    }
    let cuts: &[usize] = if len == 15 { &[4, 10] } else { &[4, 8, 12] };
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if cuts.contains(&place) {
            out.push_str(separator);
        }
        out.push(digit);
    }
    out
}
