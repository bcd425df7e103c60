//! Numbers as they are written: any length, any exponent, without rounding.

use std::borrow::Cow;

use jsonschema::json::JsonNumber;

/// A number by its digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) text: &'a str,
    /// It is digits, with a sign perhaps.
    pub(super) is_whole: bool,
}

/// What a number is: its digits without zeros at either end, and the power of ten that they are multiplied with. Zero has none.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: Digits,
    exponent: i64,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Digits {
    Few(u64),
    /// More than `FEW`.
    Many(String),
}

/// So many digits always fit into 64 bits.
const FEW: usize = 19;

impl Decimal {
    pub(super) fn of(written: &str) -> Decimal {
        let (is_negative, unsigned) = match written.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, written),
        };
        let (mantissa, power) = match unsigned.find(['e', 'E']) {
            Some(at) => {
                (unsigned.get(..at).unwrap_or_default(), power_of(unsigned.get(at + 1..).unwrap_or_default()))
            }
            None => (unsigned, 0),
        };
        let fraction = mantissa.find('.').map_or(0, |point| mantissa.len() - point - 1);
        let kept = mantissa.trim_end_matches(['0', '.']);
        // Zeros that were taken off, with the point not counted.
        let point_gone = fraction > 0 && !kept.contains('.');
        let dropped = mantissa.len() - kept.len() - usize::from(point_gone);
        let digits = kept.trim_start_matches(['0', '.']);
        if digits.is_empty() {
            return Decimal { is_negative: false, digits: Digits::Few(0), exponent: 0 };
        }
        let length = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let exponent = power.saturating_sub(length(fraction)).saturating_add(length(dropped));
        Decimal { is_negative, digits: Digits::of(digits), exponent }
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }
}

impl Digits {
    /// From digits with perhaps a point between them.
    fn of(written: &str) -> Digits {
        let digits = written.bytes().filter(u8::is_ascii_digit);
        if written.len() <= FEW {
            Digits::Few(digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
        } else {
            let many: String = digits.map(char::from).collect();
            if many.len() <= FEW { Digits::of(&many) } else { Digits::Many(many) }
        }
    }
}

/// An exponent that does not fit is as large as one can be: no text has so many digits that they would make up for it.
fn power_of(written: &str) -> i64 {
    let farthest = if written.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    written.parse().unwrap_or(farthest)
}

impl JsonNumber for Written<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.text.parse().ok()
    }

    fn as_i64(&self) -> Option<i64> {
        self.text.parse().ok()
    }

    /// The nearest one; what is too large for any is the largest.
    fn as_f64(&self) -> Option<f64> {
        self.text.parse::<f64>().ok().map(|number| number.clamp(f64::MIN, f64::MAX))
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.text)
    }

    fn to_number(&self) -> Cow<'_, serde_json::Number> {
        let number = self.as_u64().map(Into::into).or_else(|| self.as_i64().map(Into::into));
        let number = number.or_else(|| serde_json::Number::from_f64(self.as_f64()?));
        Cow::Owned(number.unwrap_or_else(|| 0.into()))
    }

    fn is_integer(&self) -> bool {
        self.is_whole || Decimal::of(self.text).is_integer()
    }

    fn is_written_as_integer(&self) -> bool {
        self.is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Written<'_> {
        Written { text, is_whole: !text.contains(['.', 'e', 'E']) }
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        for same in [
            &["1", "1.0", "1.000", "10e-1", "0.1e1", "0.1E+1", "100e-2"][..],
            &["0", "-0", "0.0", "-0.0e99", "0e-5"],
            &["120", "12e1", "1.2e2", "120.0", "0.012e4"],
            &["-5e-1", "-0.5", "-0.50"],
            &["1e400", "10e399", "0.1e401"],
            &["1000000", "1e6", "0.001e9", "1000000.000"],
            &[
                "1234567890123456789",
                "1.234567890123456789e18",
                "0.00001234567890123456789e23",
                "12345678901234567890e-1",
            ],
            &["123456789012345678901234567890", "1.2345678901234567890123456789e29"],
        ] {
            assert!(same.windows(2).all(|two| Decimal::of(two[0]) == Decimal::of(two[1])), "{same:?}");
        }
        for (a, b) in [("1", "-1"), ("1", "10"), ("0.1", "0.01"), ("9007199254740992", "9007199254740993")] {
            assert_ne!(Decimal::of(a), Decimal::of(b));
        }
    }

    #[test]
    fn integers_are_told_by_their_value_and_not_by_rounding() {
        for whole in
            ["0", "-0", "1.0", "1e2", "1e400", "12.50e1", "-3", "0e-9", "100e-2", "1e99999999999999999999"]
        {
            assert!(written(whole).is_integer(), "{whole}");
        }
        for broken in ["0.5", "1e-1", "1.00000000000000000000000001", "15e-1", "1e-99999999999999999999"] {
            assert!(!written(broken).is_integer(), "{broken}");
        }
        assert!(!written("1.0").is_written_as_integer() && written("-0").is_written_as_integer());
        assert_eq!(written("1e400").as_f64(), Some(f64::MAX));
        assert_eq!(written("-1e400").as_f64(), Some(f64::MIN));
        assert_eq!(written("18446744073709551615").as_u64(), Some(u64::MAX));
    }
}
