//! Numbers in the one spelling that TOON has for each.

use std::fmt::Write as _;

use super::NotEncodable;

/// Any decimal number of so many digits is the shortest spelling of some 64-bit float.
const SAFE_DIGITS: usize = 15;

/// The most digits of the shortest spelling of a 64-bit float.
const MAX_DIGITS: usize = 17;

/// Between these powers of ten a 64-bit float has its full precision.
const SAFE_POINTS: std::ops::RangeInclusive<i64> = -290..=300;

/// Appends a JSON number in its TOON spelling.
pub(super) fn append(raw: &str, out: &mut String) -> Result<(), NotEncodable> {
    if is_spelled_so(raw) {
        out.push_str(raw);
        return Ok(());
    }
    let number = Decimal::parse(raw);
    if !number.survives(raw) {
        return Err(NotEncodable::InexactNumber);
    }
    number.append(out);
    Ok(())
}

/// True for most numbers that are spelled as TOON spells them, and for no others.
fn is_spelled_so(raw: &str) -> bool {
    let unsigned = raw.strip_prefix('-').unwrap_or(raw);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "1"));
    unsigned.len() <= SAFE_DIGITS
        && !fraction.ends_with('0')
        && (!whole.starts_with('0') || raw == "0" || (raw != "-0" && !fraction.starts_with('0')))
        && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
}

/// The number 0.DIGITS times ten to the power of `point`. Zero has no digits.
#[derive(Debug, PartialEq)]
struct Decimal {
    negative: bool,
    /// Neither the first nor the last one is `0`.
    digits: String,
    point: i64,
}

impl Decimal {
    /// Takes a number of the JSON grammar apart.
    fn parse(raw: &str) -> Decimal {
        let unsigned = raw.strip_prefix('-').unwrap_or(raw);
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let significant = all.trim_start_matches('0');
        let zeros = all.len() - significant.len();
        let digits = significant.trim_end_matches('0').to_owned();
        // What does not fit is far beyond every float, and stays so.
        let exponent =
            exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { FAR_LEFT } else { FAR_RIGHT });
        let places = i64::try_from(whole.len()).unwrap_or(0) - i64::try_from(zeros).unwrap_or(0);
        Decimal {
            negative: raw.starts_with('-'),
            digits,
            point: exponent.clamp(FAR_LEFT, FAR_RIGHT) + places,
        }
    }

    /// True if a reader that holds numbers as 64-bit floats writes this one again with the same value.
    fn survives(&self, raw: &str) -> bool {
        let digits = self.digits.len();
        if digits == 0 || (digits <= SAFE_DIGITS && SAFE_POINTS.contains(&self.point)) {
            return true;
        }
        if digits > MAX_DIGITS {
            return false;
        }
        let Some(float) = raw.parse::<f64>().ok().filter(|float| float.is_finite()) else { return false };
        // Where two spellings of the shortest length are equally near, some writers take one and some the other.
        let shortest = Decimal::parse(&format!("{float:e}"));
        let nearest = || Decimal::parse(&format!("{float:.*e}", digits - 1));
        shortest == *self || (shortest.digits.len() == digits && nearest() == *self)
    }

    fn append(&self, out: &mut String) {
        if self.digits.is_empty() {
            out.push('0');
            return;
        }
        if self.negative {
            out.push('-');
        }
        // From a millionth up to 1e21 plain digits are asked for.
        match self.point {
            -5..=0 => {
                out.push_str("0.");
                push_zeros(-self.point, out);
                out.push_str(&self.digits);
            }
            1..=21 => self.append_plain(out),
            _ => self.append_scientific(out),
        }
    }

    fn append_plain(&self, out: &mut String) {
        let len = i64::try_from(self.digits.len()).unwrap_or(i64::MAX);
        let (whole, fraction) = usize::try_from(self.point)
            .ok()
            .and_then(|point| self.digits.split_at_checked(point))
            .unwrap_or((&self.digits, ""));
        out.push_str(whole);
        push_zeros(self.point - len, out);
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
    }

    fn append_scientific(&self, out: &mut String) {
        let (first, rest) = self.digits.split_at_checked(1).unwrap_or((&self.digits, ""));
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "e{:+}", self.point - 1);
    }
}

const FAR_LEFT: i64 = -(1 << 40);
const FAR_RIGHT: i64 = 1 << 40;

fn push_zeros(count: i64, out: &mut String) {
    out.extend((0..count).map(|_| '0'));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(raw: &str) -> Option<String> {
        let mut out = String::new();
        append(raw, &mut out).ok().map(|()| out)
    }

    #[test]
    fn each_value_has_one_spelling() {
        let cases = [
            ("0", "0"),
            ("-0", "0"),
            ("-0.000", "0"),
            ("0e999999999999999999999", "0"),
            ("7", "7"),
            ("-7", "-7"),
            ("1.10", "1.1"),
            ("1.0", "1"),
            ("100", "100"),
            ("1e6", "1000000"),
            ("1E+2", "100"),
            ("12.5e1", "125"),
            ("12.5e-1", "1.25"),
            ("0.000001", "0.000001"),
            ("10e-7", "0.000001"),
            ("0.00000123", "0.00000123"),
            ("0.000000999", "9.99e-7"),
            ("0.1e-7", "1e-8"),
            ("123456789012345", "123456789012345"),
            ("9007199254740991", "9007199254740991"),
            ("9007199254740992", "9007199254740992"),
            ("100000000000000000000", "100000000000000000000"),
            ("999999999999999900000", "999999999999999900000"),
            ("1e21", "1e+21"),
            ("12e+21", "1.2e+22"),
            ("-1.5e300", "-1.5e+300"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("0.3333333333333333", "0.3333333333333333"),
            ("1136877866211998.2", "1136877866211998.2"),
            ("1136877866211998.3", "1136877866211998.3"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("2.2250738585072014e-308", "2.2250738585072014e-308"),
            ("5e-324", "5e-324"),
            ("1.00000000000000000000000000000000000000000000", "1"),
        ];
        for (raw, wanted) in cases {
            assert_eq!(written(raw).as_deref(), Some(wanted), "{raw}");
        }
    }

    #[test]
    fn what_a_float_cannot_hold_is_refused() {
        let cases = [
            "9007199254740993",
            "18446744073709551616",
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
            "0.33333333333333331",
            "1136877866211998.1",
            "1136877866211998.25",
            "1e400",
            "-1e400",
            "1e-400",
            "4e-324",
            "1.7976931348623159e308",
            "1e99999999999999999999",
            "1e-99999999999999999999",
        ];
        for raw in cases {
            assert_eq!(written(raw), None, "{raw}");
        }
    }

    #[test]
    fn fifteen_digits_survive_at_the_ends_of_the_safe_range() {
        for exponent in [-290, -289, 0, 299, 300] {
            for digits in ["999999999999999", "100000000000001", "123456789012347"] {
                let raw = format!("0.{digits}e{exponent}");
                let float: f64 = raw.parse().unwrap();
                assert_eq!(Decimal::parse(&format!("{float:e}")), Decimal::parse(&raw), "{raw}");
            }
        }
    }
}
