//! Durations as the file writes them: `1h2m3.5s`, `500ms`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing there.
    #[error("is empty")]
    Empty,
    /// No number where one must stand.
    #[error("is not a number followed by a unit")]
    NoNumber,
    /// A number without a unit.
    #[error("has a number without a unit (one of ns, us, ms, s, m, h)")]
    NoUnit,
    /// A unit that does not exist.
    #[error("has an unknown unit (use ns, us, ms, s, m or h)")]
    UnknownUnit,
    /// Less than zero.
    #[error("is negative")]
    Negative,
    /// More than about 292 years.
    #[error("is too long")]
    TooLong,
}

/// The longest duration: what 63 bits of nanoseconds hold.
const MOST_NANOSECONDS: u128 = i64::MAX as u128;

/// Reads a duration in the syntax of Go: a sequence of decimal numbers, each with an optional fraction and a unit.
/// `"0"` needs no unit.
///
/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (nanoseconds, tail) = part(rest)?;
        total = total
            .checked_add(nanoseconds)
            .filter(|t| *t <= MOST_NANOSECONDS)
            .ok_or(DurationError::TooLong)?;
        rest = tail;
    }
    if negative && total > 0 {
        return Err(DurationError::Negative);
    }
    u64::try_from(total).map(Duration::from_nanos).map_err(|_| DurationError::TooLong)
}

/// Writes a duration in the shortest form that [`parse`] reads back: `1h30m`, `500ms`, `0s`.
#[must_use]
pub fn format(duration: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (size, unit) in UNITS {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// One number with its unit: nanoseconds and what follows.
fn part(text: &str) -> Result<(u128, &str), DurationError> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::NoNumber);
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let size = unit_size(unit)?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let whole = whole.checked_mul(size).ok_or(DurationError::TooLong)?;
    Ok((whole.saturating_add(fraction_of(fraction, size)), rest))
}

fn unit_size(unit: &str) -> Result<u128, DurationError> {
    Ok(match unit {
        "" => return Err(DurationError::NoUnit),
        "ns" => 1,
        // Both micro signs are in use: U+00B5 and U+03BC.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(DurationError::UnknownUnit),
    })
}

/// The part of a unit that a decimal fraction is. Digits past the eighteenth are below a nanosecond.
fn fraction_of(digits: &str, size: u128) -> u128 {
    let kept = &digits[..digits.len().min(18)];
    let scale = 10u128.pow(u32::try_from(kept.len()).unwrap_or(0));
    kept.parse::<u128>().map_or(0, |value| value * size / scale)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        let cases: [(&str, u64); 16] = [
            ("0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("+5s", 5_000_000_000),
            ("1h2m3.5s", 3_723_500_000_000),
            ("500ms", 500_000_000),
            ("2m0s", 120_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("10us", 10_000),
            ("10\u{b5}s", 10_000),
            ("10\u{3bc}s", 10_000),
            ("7ns", 7),
            ("0.100000000000000000000h", 360_000_000_000),
            ("2562047h47m16.854775807s", i64::MAX as u64),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        use DurationError::{Empty, Negative, NoNumber, NoUnit, TooLong, UnknownUnit};
        let cases = [
            ("", Empty),
            ("-", Empty),
            ("3", NoUnit),
            ("1h3", NoUnit),
            ("s", NoNumber),
            (".s", NoNumber),
            (" 1s", NoNumber),
            ("1s ", UnknownUnit),
            ("1d", UnknownUnit),
            ("1S", UnknownUnit),
            ("-1s", Negative),
            ("2562047h47m16.854775808s", TooLong),
            ("99999999999999999999999999999999999999999999h", TooLong),
            ("1e3s", UnknownUnit),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for nanoseconds in [0, 1, 999, 1_000, 1_500_000, 90_000_000_000, 3_600_000_000_000, i64::MAX as u64] {
            let duration = Duration::from_nanos(nanoseconds);
            assert_eq!(parse(&format(duration)), Ok(duration));
        }
        assert_eq!(format(Duration::from_secs(5400)), "1h30m");
        assert_eq!(format(Duration::ZERO), "0s");
    }
}
