//! Conversions between Decimal128 and text, integers and doubles.

use super::arithmetic::{Rounding, context, from_number};
use super::{MAX_COEFFICIENT, Parts};
use crate::scalar::Decimal128;
use std::fmt;
use std::str::FromStr;

/// How many significant digits of a double a conversion keeps. Every decimal of 15 digits survives a round trip through
/// a double.
const DOUBLE_DIGITS: usize = 15;

/// Why a text is not a Decimal128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseDecimalError {
    /// The text is not a number.
    Syntax,
    /// The number is larger than the largest Decimal128.
    Overflow,
    /// The number is not zero but would be rounded to zero or would lose digits near zero.
    Underflow,
}

impl fmt::Display for ParseDecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseDecimalError::Syntax => "not a decimal number",
            ParseDecimalError::Overflow => "decimal number out of range",
            ParseDecimalError::Underflow => "decimal number too close to zero",
        })
    }
}

impl std::error::Error for ParseDecimalError {}

impl FromStr for Decimal128 {
    type Err = ParseDecimalError;

    /// Parses `-1.5`, `1E+3`, `Infinity`, `inf`, `NaN` in any case. More than 34 digits are rounded half to even.
    fn from_str(text: &str) -> Result<Decimal128, ParseDecimalError> {
        let (negative, magnitude) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let special =
            |names: &[&str]| names.iter().any(|name| magnitude.eq_ignore_ascii_case(name.as_bytes()));
        if special(&["nan"]) {
            return Ok(Decimal128::NAN);
        }
        if special(&["inf", "infinity"]) {
            return Ok(if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY });
        }
        if !magnitude.first().is_some_and(|&first| first == b'.' || first.is_ascii_digit()) {
            return Err(ParseDecimalError::Syntax);
        }
        let mut context = context();
        let number = context.parse(text).map_err(|_| ParseDecimalError::Syntax)?;
        let status = context.status();
        if status.overflow() {
            Err(ParseDecimalError::Overflow)
        } else if status.underflow() {
            Err(ParseDecimalError::Underflow)
        } else {
            Ok(from_number(&number))
        }
    }
}

impl fmt::Display for Decimal128 {
    /// Writes scientific notation unless the exponent is at most 0 and the first digit is at most six places after the
    /// point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, coefficient, exponent) = match self.parts() {
            Parts::NaN => return f.write_str("NaN"),
            Parts::Infinity { negative } => {
                return f.write_str(if negative { "-Infinity" } else { "Infinity" });
            }
            Parts::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
        };
        let digits = coefficient.to_string();
        let first = exponent + digits.len() as i32 - 1;
        if negative {
            f.write_str("-")?;
        }
        if exponent > 0 || first < -6 {
            let (head, tail) = digits.split_at(1);
            let point = if tail.is_empty() { "" } else { "." };
            write!(f, "{head}{point}{tail}E{first:+}")
        } else if exponent == 0 {
            f.write_str(&digits)
        } else if first >= 0 {
            let (whole, fraction) = digits.split_at(first as usize + 1);
            write!(f, "{whole}.{fraction}")
        } else {
            write!(f, "0.{:0>width$}", digits, width = exponent.unsigned_abs() as usize)
        }
    }
}

impl From<i64> for Decimal128 {
    fn from(number: i64) -> Decimal128 {
        let magnitude = number.unsigned_abs().into();
        Decimal128::from_parts(number < 0, magnitude, 0).unwrap_or(Decimal128::NAN)
    }
}

impl From<i32> for Decimal128 {
    fn from(number: i32) -> Decimal128 {
        i64::from(number).into()
    }
}

impl Decimal128 {
    /// Rounds the double to 15 significant digits and keeps trailing zeros: 2.5 becomes 2.50000000000000.
    pub fn from_f64(number: f64) -> Decimal128 {
        Decimal128::from_f64_digits(number, DOUBLE_DIGITS)
    }

    /// Rounds the double to `digits` significant digits (1 to 34) and keeps trailing zeros.
    pub fn from_f64_digits(number: f64, digits: usize) -> Decimal128 {
        if number.is_nan() {
            return Decimal128::NAN;
        }
        if number.is_infinite() {
            return if number < 0.0 { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY };
        }
        if number == 0.0 {
            return if number.is_sign_negative() { -Decimal128::ZERO } else { Decimal128::ZERO };
        }
        let places = digits.clamp(1, 34) - 1;
        let written = format!("{:.places$e}", number.abs());
        let parsed = written.split_once('e').and_then(|(mantissa, exponent)| {
            let coefficient = mantissa
                .bytes()
                .filter(u8::is_ascii_digit)
                .fold(0, |sum: u128, digit| sum * 10 + u128::from(digit - b'0'));
            Decimal128::from_parts(number < 0.0, coefficient, exponent.parse::<i32>().ok()? - places as i32)
        });
        parsed.unwrap_or(Decimal128::NAN)
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self.parts() {
            Parts::NaN => f64::NAN,
            Parts::Infinity { negative } => {
                if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Parts::Finite { negative, coefficient, exponent } => {
                let magnitude = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// Rounds to an integer by `rounding`; `None` if the result is out of range.
    pub fn to_i64(self, rounding: Rounding) -> Option<i64> {
        let Parts::Finite { negative, coefficient, exponent } = self.round_to_integer(rounding).parts()
        else {
            return None;
        };
        if coefficient == 0 {
            return Some(0);
        }
        debug_assert!(coefficient <= MAX_COEFFICIENT);
        let magnitude = if exponent >= 0 {
            coefficient.checked_mul(10u128.checked_pow(exponent.unsigned_abs())?)?
        } else {
            coefficient / 10u128.checked_pow(exponent.unsigned_abs())?
        };
        let magnitude = i128::try_from(magnitude).ok()?;
        i64::try_from(if negative { -magnitude } else { magnitude }).ok()
    }

    /// The value as an integer; `None` if it has a fraction or is out of range.
    pub fn to_i64_exact(self) -> Option<i64> {
        let integer = self.to_i64(Rounding::TowardZero)?;
        crate::number::int_decimal(integer, self).is_eq().then_some(integer)
    }
}
