//! Quantities: `100m`, `1.5Gi`, `2e3`: parsed exactly, compared as numbers, printed in canonical form (Kubernetes 1.36,
//! `apimachinery/pkg/api/resource`).
//!
//! Invariants: a quantity is a whole number of nanos within ±(2^63−1) units; finer fractions round away from zero, larger
//! numbers are capped; the printed form parses to the same number and keeps the family of suffixes it came with.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

const NANOS: i128 = 1_000_000_000;
const NANOS_MAX: i128 = i64::MAX as i128 * NANOS;
/// Digits that a mantissa may have before it is certain to be above the cap or below a nano.
const DIGITS_MAX: usize = 400;

/// The family of suffixes that a quantity is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QuantityFormat {
    /// `n u m "" k M G T P E`
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `e3`
    DecimalExponent,
}

/// A fixed-point number as the API writes it for resources.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: QuantityFormat,
}

/// Why a text is no quantity; upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The number is malformed.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number is followed by something that is no suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// What a suffix multiplies by.
enum Scale {
    Ten(i32),
    Two(u32),
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { nanos: 0, format: QuantityFormat::DecimalSi };

    /// A whole number of units.
    pub const fn units(units: i64) -> Self {
        Quantity { nanos: units as i128 * NANOS, format: QuantityFormat::DecimalSi }
    }

    /// A whole number of bytes, printed with binary suffixes.
    pub const fn bytes(bytes: i64) -> Self {
        Quantity { nanos: bytes as i128 * NANOS, format: QuantityFormat::BinarySi }
    }

    /// Thousandths of a unit.
    pub const fn millis(millis: i64) -> Self {
        Quantity { nanos: millis as i128 * 1_000_000, format: QuantityFormat::DecimalSi }
    }

    /// Reads a quantity: a JSON string or, as the API allows, a number.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => text.parse(),
            Value::Number(number) => number.to_string().parse(),
            _ => Err(QuantityError::Format),
        }
    }

    /// The number of whole units, rounded up.
    pub fn value(self) -> i64 {
        ceil(self.nanos, NANOS)
    }

    /// The number of thousandths, rounded up, capped at the ends of `i64`.
    pub fn milli_value(self) -> i64 {
        ceil(self.nanos, 1_000_000)
    }

    /// The exact number, in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// The family of suffixes it prints with.
    pub fn format(self) -> QuantityFormat {
        self.format
    }

    /// Whether it is exactly zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    fn capped(nanos: i128, format: QuantityFormat) -> Self {
        Quantity { nanos: nanos.clamp(-NANOS_MAX, NANOS_MAX), format }
    }

    /// The format of a sum: that of the first operand, unless it is zero (upstream's rule).
    fn sum_format(self, other: Self) -> QuantityFormat {
        if self.is_zero() { other.format } else { self.format }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(QuantityError::Format),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) || number.len() > DIGITS_MAX {
            return Err(QuantityError::Format);
        }
        let (scale, mut format) = suffix_scale(suffix)?;
        let magnitude = match scale {
            Scale::Ten(exponent) => decimal(whole, fraction, exponent),
            Scale::Two(exponent) => binary(whole, fraction, exponent),
        }
        .min(NANOS_MAX);
        if format == QuantityFormat::BinarySi && magnitude > 0 && magnitude < NANOS {
            format = QuantityFormat::DecimalSi;
        }
        Ok(Quantity { nanos: if negative { -magnitude } else { magnitude }, format })
    }
}

fn suffix_scale(suffix: &str) -> Result<(Scale, QuantityFormat), QuantityError> {
    use QuantityFormat::{BinarySi, DecimalExponent, DecimalSi};
    let found = match suffix {
        "n" => (Scale::Ten(-9), DecimalSi),
        "u" => (Scale::Ten(-6), DecimalSi),
        "m" => (Scale::Ten(-3), DecimalSi),
        "" => (Scale::Ten(0), DecimalSi),
        "k" => (Scale::Ten(3), DecimalSi),
        "M" => (Scale::Ten(6), DecimalSi),
        "G" => (Scale::Ten(9), DecimalSi),
        "T" => (Scale::Ten(12), DecimalSi),
        "P" => (Scale::Ten(15), DecimalSi),
        "E" => (Scale::Ten(18), DecimalSi),
        "Ki" => (Scale::Two(10), BinarySi),
        "Mi" => (Scale::Two(20), BinarySi),
        "Gi" => (Scale::Two(30), BinarySi),
        "Ti" => (Scale::Two(40), BinarySi),
        "Pi" => (Scale::Two(50), BinarySi),
        "Ei" => (Scale::Two(60), BinarySi),
        other => {
            let exponent = other.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
            let exponent: i32 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            (Scale::Ten(exponent), DecimalExponent)
        }
    };
    Ok(found)
}

/// `whole.fraction × 10^exponent` in nanos, rounded up; `i128::MAX` if it does not fit.
fn decimal(whole: &str, fraction: &str, exponent: i32) -> i128 {
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    // How many of the digits stand left of the nano.
    let keep = i64::from(exponent) + 9 + whole.len() as i64;
    let mut nanos: i128 = 0;
    for (place, digit) in digits.iter().enumerate() {
        if (place as i64) >= keep {
            break;
        }
        let Some(next) = nanos.checked_mul(10).and_then(|n| n.checked_add(i128::from(*digit))) else {
            return i128::MAX;
        };
        nanos = next;
    }
    if nanos > 0 {
        for _ in digits.len() as i64..keep {
            let Some(next) = nanos.checked_mul(10) else { return i128::MAX };
            nanos = next;
        }
    }
    let dropped = &digits[usize::try_from(keep.max(0)).unwrap_or(usize::MAX).min(digits.len())..];
    nanos + i128::from(dropped.iter().any(|d| *d != 0))
}

/// `whole.fraction × 2^exponent` in nanos, rounded up; `i128::MAX` if it does not fit.
fn binary(whole: &str, fraction: &str, exponent: u32) -> i128 {
    /// A fraction of 18 digits times 2^60 still fits; what lies beyond it rounds up.
    const PLACES: usize = 18;
    let mut units: i128 = 0;
    for digit in whole.bytes() {
        units = units * 10 + i128::from(digit - b'0');
        if units > i128::from(i64::MAX) {
            return i128::MAX;
        }
    }
    let Some(units) = (units << exponent).checked_mul(NANOS) else { return i128::MAX };
    let mut part: i128 = 0;
    for place in 0..PLACES {
        part = part * 10 + i128::from(fraction.as_bytes().get(place).map_or(0, |d| d - b'0'));
    }
    let rest = fraction.bytes().skip(PLACES).any(|d| d != b'0');
    let scaled = part << exponent;
    // 10^18 parts of a unit, 10^9 of them to a nano.
    let nanos = scaled / NANOS + i128::from(scaled % NANOS != 0 || rest);
    units.saturating_add(nanos)
}

/// Division that rounds up (towards positive infinity), capped at the ends of `i64`.
fn ceil(nanos: i128, unit: i128) -> i64 {
    let value = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) != 0);
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let small = self.nanos.abs() < 1024 * NANOS;
        if self.format == QuantityFormat::BinarySi && !small {
            let mut value = i128::from(self.value());
            let mut power = 0;
            while value % 1024 == 0 && power < 6 {
                value /= 1024;
                power += 1;
            }
            return write!(f, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let mut value = self.nanos;
        let mut power = 0;
        while value % 1000 == 0 && power < 9 {
            value /= 1000;
            power += 1;
        }
        match self.format {
            QuantityFormat::DecimalExponent if power == 3 => write!(f, "{value}"),
            QuantityFormat::DecimalExponent => write!(f, "{value}e{}", 3 * power - 9),
            _ => write!(f, "{value}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power as usize]),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Self) -> Self {
        Quantity::capped(self.nanos + other.nanos, self.sum_format(other))
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Quantity {
    type Output = Quantity;
    fn sub(self, other: Self) -> Self {
        Quantity::capped(self.nanos - other.nanos, self.sum_format(other))
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(items: I) -> Self {
        items.fold(Quantity::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"500m\" or \"1Gi\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity::capped(i128::from(number) * NANOS, QuantityFormat::DecimalSi))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::capped(i128::from(number) * NANOS, QuantityFormat::DecimalSi))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                number.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn quantities_print_canonically() {
        let cases = [
            ("0", "0"),
            ("0Ki", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-5", "-5"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("100000", "100k"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("1536Ki", "1536Ki"),
            ("512Ki", "512Ki"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1200e-3", "1200e-3"),
            ("100e0", "100"),
            ("1E", "1E"),
            ("0.000000001", "1n"),
            ("0.0000000001", "1n"),
            ("1.0000000001", "1000000001n"),
            ("100n", "100n"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775807"),
            ("1000E", "9223372036854775807"),
            ("100Ei", "9223372036854775807"),
            ("1e400", "9223372036854775807"),
            ("007", "7"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn values_round_up() {
        let cases = [
            ("100m", 1, 100),
            ("1", 1, 1000),
            ("0.1m", 1, 1),
            ("-100m", 0, -100),
            ("1.0001", 2, 1001),
            ("2Gi", 2_147_483_648, 2_147_483_648_000),
            ("9E", 9_000_000_000_000_000_000, i64::MAX),
        ];
        for (text, value, milli) in cases {
            assert_eq!((parse(text).value(), parse(text).milli_value()), (value, milli), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in
            ["", "-", "+", ".", "1.2.3", "1K", "1ki", "1KiB", "m", "1 ", " 1", "1e", "1e1.5", "1mm", "abc", "--1", "1i"]
        {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_in_json_are_quantities() {
        let cases = [("1", "1"), ("0.25", "250m"), ("\"64Mi\"", "64Mi"), ("1e3", "1k"), ("-2", "-2")];
        for (json, expected) in cases {
            let read: Quantity = serde_json::from_str(json).expect(json);
            assert_eq!(read.to_string(), expected, "{json}");
        }
        assert!(serde_json::from_str::<Quantity>("true").is_err());
        assert!(Quantity::from_json(&serde_json::json!([1])).is_err());
    }

    #[test]
    fn a_sum_keeps_the_first_format() {
        assert_eq!((parse("1Gi") + parse("1Gi")).to_string(), "2Gi");
        assert_eq!((Quantity::ZERO + parse("1Gi")).to_string(), "1Gi");
        assert_eq!((parse("1") - parse("250m")).to_string(), "750m");
        assert!(parse("1023Mi") < parse("1Gi"));
        assert_eq!(parse("1Gi"), parse("1073741824"));
    }

    proptest! {
        #[test]
        fn the_printed_form_parses_to_the_same_number(whole in 0u64..10_000_000_000, fraction in 0u32..1_000_000_000, suffix in 0usize..16, negative: bool) {
            let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "e3", "e-2", "Ei"][suffix];
            let text = format!("{}{whole}.{fraction:09}{suffix}", if negative { "-" } else { "" });
            let read = parse(&text);
            let again = parse(&read.to_string());
            // A binary quantity prints whole units, rounded up, as upstream's does.
            if read.format() == QuantityFormat::BinarySi && read.nanos().abs() >= 1024 * NANOS {
                prop_assert_eq!(again.value(), read.value());
            } else {
                prop_assert_eq!(again, read);
            }
            // As upstream's, a binary quantity that is no multiple of 1024 prints without a suffix and is decimal when
            // it is read again: "9332818572000" then prints as "9332818572k".
            if again.format() == read.format() {
                prop_assert_eq!(again.to_string(), read.to_string());
            }
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.eEinumkKMGTP]{0,40}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
