//! Parses numbers in one pass over the digits. The standard library converts only those that simple arithmetic would
//! round twice.

use super::{ErrorKind, JsonError};
use crate::view::Value;

/// The powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// The largest integer below which every integer is an exact double.
const EXACT: u64 = 1 << 53;

/// Parses the number that begins at `at`. Returns it with the offset after it.
#[inline]
pub(super) fn read(text: &[u8], at: usize) -> Result<(Value<'static>, usize), JsonError> {
    let negative = text.get(at) == Some(&b'-');
    let digits = at + usize::from(negative);
    let mut end = digits;
    let mut mantissa = 0u64;
    while let Some(digit) = digit(text, end) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
        end += 1;
    }
    let count = end - digits;
    if count == 0 || (count > 1 && text[digits] == b'0') {
        return Err(invalid(digits));
    }
    if !matches!(text.get(end), Some(b'.' | b'e' | b'E')) {
        // Nineteen digits fit into 64 bits without a sign.
        if count <= 19 {
            let number =
                if negative { 0i64.checked_sub_unsigned(mantissa) } else { mantissa.try_into().ok() };
            if let Some(number) = number {
                return Ok((i32::try_from(number).map_or(Value::Int64(number), Value::Int32), end));
            }
        }
        return Ok((rounded(text, at, end)?, end));
    }
    with_fraction(text, at, end, mantissa)
}

/// Continues after the integer digits. `mantissa` is their value, unless there are too many of them.
fn with_fraction(
    text: &[u8],
    at: usize,
    mut end: usize,
    mut mantissa: u64,
) -> Result<(Value<'static>, usize), JsonError> {
    let negative = text[at] == b'-';
    let mut count = end - at;
    let mut exponent = 0i32;
    if text[end] == b'.' {
        let start = end + 1;
        end = start;
        while let Some(digit) = digit(text, end) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
            end += 1;
        }
        if end == start {
            return Err(invalid(end));
        }
        count += end - start;
        exponent = -i32::try_from(end - start).unwrap_or(i32::MAX);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        end += 1;
        let below = text.get(end) == Some(&b'-');
        if matches!(text.get(end), Some(b'+' | b'-')) {
            end += 1;
        }
        let start = end;
        let mut stated = 0i32;
        while let Some(digit) = digit(text, end) {
            stated = stated.saturating_mul(10).saturating_add(digit as i32);
            end += 1;
        }
        if end == start {
            return Err(invalid(end));
        }
        exponent = exponent.saturating_add(if below { -stated } else { stated });
    }
    // Both operands are exact, so the result is rounded once.
    let power = POWERS.get(exponent.unsigned_abs() as usize);
    if let (Some(power), true) = (power, count <= 18 && mantissa <= EXACT) {
        let number = mantissa as f64;
        let number = if exponent < 0 { number / power } else { number * power };
        return Ok((Value::Double(if negative { -number } else { number }), end));
    }
    Ok((rounded(text, at, end)?, end))
}

/// The nearest double, by the standard library.
#[cold]
fn rounded(text: &[u8], at: usize, end: usize) -> Result<Value<'static>, JsonError> {
    std::str::from_utf8(&text[at..end])
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|number: &f64| number.is_finite())
        .map(Value::Double)
        .ok_or_else(|| JsonError::new(ErrorKind::Syntax, at, "number out of range"))
}

#[inline]
fn digit(text: &[u8], at: usize) -> Option<u64> {
    text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10).map(u64::from)
}

#[cold]
fn invalid(position: usize) -> JsonError {
    JsonError::new(ErrorKind::Syntax, position, "invalid number")
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::view::Value;
    use fastrand::Rng;

    #[test]
    fn parsing_gives_integers_the_smallest_type() {
        for (text, expected) in [
            ("0", Value::Int32(0)),
            ("-0", Value::Int32(0)),
            ("-2147483648", Value::Int32(i32::MIN)),
            ("2147483648", Value::Int64(1 << 31)),
            ("9223372036854775807", Value::Int64(i64::MAX)),
            ("-9223372036854775808", Value::Int64(i64::MIN)),
            ("9223372036854775808", Value::Double(9_223_372_036_854_775_808.0)),
            ("-9223372036854775809", Value::Double(-9_223_372_036_854_775_808.0)),
            ("100000000000000000000000", Value::Double(1e23)),
            ("1.0", Value::Double(1.0)),
            ("1e2", Value::Double(100.0)),
            ("-0.0", Value::Double(-0.0)),
            ("0e-9999999999", Value::Double(0.0)),
        ] {
            assert_eq!(read(text.as_bytes(), 0), Ok((expected, text.len())), "{text}");
        }
        for text in ["", "-", "01", "-01", "1.", ".5", "1e", "1e+", "+1", "1.e5", "1e999", "--1"] {
            assert!(read(text.as_bytes(), 0).is_err(), "{text}");
        }
    }

    #[test]
    fn parsing_gives_the_nearest_double() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..50_000 {
            let text = match rng.u8(..4) {
                0 => format!("{:?}", f64::from_bits(rng.u64(..))),
                1 => format!("{}.{}", rng.i32(..), rng.u32(..)),
                2 => format!("{}.{:05}e{}", rng.i64(..), rng.u16(..), rng.i16(-330..330)),
                _ => format!("{}e{}", rng.u64(..1 << 54), rng.i8(-30..30)),
            };
            match (read(text.as_bytes(), 0), text.parse::<f64>()) {
                (Ok((Value::Double(number), end)), Ok(expected)) => {
                    assert_eq!(end, text.len());
                    assert_eq!(number.to_bits(), expected.to_bits(), "{text}");
                }
                (Err(_), Ok(expected)) => assert!(!expected.is_finite(), "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
