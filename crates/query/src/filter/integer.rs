//! Integer arguments of operators: any numeric type with a whole value.

use crate::display::ShownField;
use diwan_value::Value;
use diwan_value::decimal::Rounding;

/// 2^63, the first `f64` above every `i64`.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// A finite number, truncated to an integer, if that fits an `i64`.
pub(super) fn truncate(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number),
        Value::Double(number) => whole_double(number.trunc()),
        Value::Decimal128(number) => number.to_i64(Rounding::TowardZero),
        _ => None,
    }
}

/// `value` as an exact integer. The error is MongoDB's reason; `name` is the field's name.
pub(super) fn exact(name: &str, value: Value<'_>) -> Result<i64, String> {
    let reason = |text: &str| format!("{text}: {}", ShownField(name, value));
    match value {
        Value::Int32(number) => Ok(number.into()),
        Value::Int64(number) => Ok(number),
        Value::Double(number) if number.is_nan() => Err(reason("Expected an integer, but found NaN in")),
        Value::Double(number) => match whole_double(number.trunc()) {
            None => Err(reason("Cannot represent as a 64-bit integer")),
            Some(_) if number.trunc() != number => Err(reason("Expected an integer")),
            Some(whole) => Ok(whole),
        },
        Value::Decimal128(number) => {
            number.to_i64_exact().ok_or_else(|| reason("Cannot represent as a 64-bit integer"))
        }
        _ => Err(reason("Expected a number in")),
    }
}

/// Like [`exact`], for integers that are not negative.
pub(super) fn non_negative(name: &str, value: Value<'_>) -> Result<i64, String> {
    match exact(name, value)? {
        number if number < 0 => {
            Err(format!("Expected a non-negative number in: {}", ShownField(name, value)))
        }
        number => Ok(number),
    }
}

/// A double without a fraction, as an integer.
fn whole_double(number: f64) -> Option<i64> {
    (-TWO_POW_63..TWO_POW_63).contains(&number).then_some(number as i64)
}

/// Whether a number is NaN or infinite.
pub(super) fn is_nan_or_infinite(value: Value<'_>) -> bool {
    match value {
        Value::Double(number) => !number.is_finite(),
        Value::Decimal128(number) => !number.is_finite(),
        _ => false,
    }
}
