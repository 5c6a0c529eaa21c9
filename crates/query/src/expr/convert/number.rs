//! Conversions between numeric types and from text to numbers.

use super::failure;
use crate::error::Result;
use crate::expr::number::Number;
use diwan_value::decimal::Rounding;
use diwan_value::{Decimal128, Value};

/// Formats a double with the fewest digits that identify it, and with an exponent if it would be long.
pub(in crate::expr) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{number:e}");
    match scientific.split_once('e').map(|(mantissa, exponent)| (mantissa, exponent.parse::<i32>())) {
        Some((mantissa, Ok(exponent))) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

/// The error for a number that does not fit its target type.
fn overflow(number: &str) -> crate::error::Error {
    failure(format!("Conversion would overflow target type in $convert with no onError value: {number}"))
}

/// Converts a number to a double.
pub(super) fn to_double(value: Value<'_>) -> Result<f64> {
    if let Value::Decimal128(decimal) = value {
        let number = decimal.to_f64();
        // A decimal too large or too small for a double must not become infinity or zero.
        if decimal.is_finite() && !decimal.is_zero() && !number.is_normal() {
            return Err(overflow(&decimal.to_string()));
        }
        return Ok(number);
    }
    Ok(Number::of(value).map_or(f64::NAN, Number::to_f64))
}

/// Truncates a number to an integer and fails outside `low..=high`.
fn to_integer(value: Value<'_>, low: i64, high: i64) -> Result<i64> {
    let finite = |nan: bool, infinite: bool| match (nan, infinite) {
        (true, _) => {
            Err(failure("Attempt to convert NaN value to integer type in $convert with no onError value"))
        }
        (_, true) => Err(failure(
            "Attempt to convert infinity value to integer type in $convert with no onError value",
        )),
        _ => Ok(()),
    };
    match value {
        Value::Int32(number) => Ok(number.into()),
        // MongoDB's message omits the number here.
        Value::Int64(number) if !(low..=high).contains(&number) => Err(overflow("")),
        Value::Int64(number) => Ok(number),
        Value::Double(number) => {
            const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
            finite(number.is_nan(), number.is_infinite())?;
            let above = if high == i64::MAX { number >= TWO_POW_63 } else { number > high as f64 };
            if above || number < low as f64 { Err(overflow(&double_text(number))) } else { Ok(number as i64) }
        }
        Value::Decimal128(number) => {
            finite(number.is_nan(), number.is_infinite())?;
            let integer = number.to_i64(Rounding::TowardZero);
            integer
                .filter(|integer| (low..=high).contains(integer))
                .ok_or_else(|| overflow(&number.to_string()))
        }
        _ => Err(overflow("")),
    }
}

/// Converts a number to an `i32`.
pub(super) fn to_int(value: Value<'_>) -> Result<i32> {
    to_integer(value, i32::MIN.into(), i32::MAX.into()).map(|number| number as i32)
}

/// Converts a number to an `i64`.
pub(super) fn to_long(value: Value<'_>) -> Result<i64> {
    to_integer(value, i64::MIN, i64::MAX)
}

/// The error for text that is not a number.
fn unparsable(text: &str, reason: &str) -> crate::error::Error {
    failure(format!("Failed to parse number '{text}' in $convert with no onError value: {reason}"))
}

/// Rejects hexadecimal text, which the number parsers would accept or misread.
fn reject_hexadecimal(text: &str) -> Result<()> {
    if text.starts_with("0x") || text.starts_with("0X") {
        return Err(failure(format!("Illegal hexadecimal input in $convert with no onError value: {text}")));
    }
    Ok(())
}

/// Parses an integer in the target's range.
fn parse_integer<T: std::str::FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<T> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    reject_hexadecimal(text)?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() {
        return Err(unparsable(text, "No digits"));
    }
    if let Some(bad) = digits.chars().find(|digit| !digit.is_ascii_digit()) {
        return Err(unparsable(text, &format!("Bad digit \"{bad}\" while parsing {text}")));
    }
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        PosOverflow | NegOverflow => unparsable(text, "Overflow"),
        _ => unparsable(text, "Did not consume whole string."),
    })
}

/// Parses an `i32`.
pub(super) fn parse_int(text: &str) -> Result<i32> {
    parse_integer(text)
}

/// Parses an `i64`.
pub(super) fn parse_long(text: &str) -> Result<i64> {
    parse_integer(text)
}

/// Parses a double.
pub(super) fn parse_double(text: &str) -> Result<f64> {
    reject_hexadecimal(text)?;
    if text.is_empty() {
        return Err(unparsable(text, "Empty string"));
    }
    if text.starts_with(|first: char| first.is_ascii_whitespace()) {
        return Err(unparsable(text, "Leading whitespace"));
    }
    let number: f64 = text.parse().map_err(|_| unparsable(text, "Did not consume whole string."))?;
    let says_zero =
        || !text.split(['e', 'E']).next().unwrap_or(text).contains(|digit| matches!(digit, '1'..='9'));
    let says_infinity = || text.contains(['i', 'I']);
    if number.is_infinite() && !says_infinity() || number == 0.0 && !says_zero() {
        return Err(unparsable(text, "Out of range"));
    }
    Ok(number)
}

/// Parses a decimal.
pub(super) fn parse_decimal(text: &str) -> Result<Decimal128> {
    use diwan_value::decimal::ParseDecimalError;
    reject_hexadecimal(text)?;
    if text.is_empty() {
        return Err(unparsable(text, "Empty string"));
    }
    text.parse().map_err(|error| {
        let reason = match error {
            ParseDecimalError::Overflow => "Conversion from string to decimal would overflow",
            ParseDecimalError::Underflow => "Conversion from string to decimal would underflow",
            _ => "Failed to parse string to decimal",
        };
        unparsable(text, reason)
    })
}
