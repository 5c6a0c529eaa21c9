//! Conversions of values shared by the operators: truth, null checks, integers, and type names for messages.

use crate::error::Result;
use diwan_value::Value;

/// The result of evaluation: a value, or `None` for missing.
pub type Evaluated<'a> = Result<Option<Value<'a>>>;

/// Null, the result of most operators for a null argument.
pub(crate) fn null<'a>() -> Evaluated<'a> {
    Ok(Some(Value::Null))
}

/// Whether the value is missing, null or undefined.
pub(crate) fn is_nullish(value: Option<Value<'_>>) -> bool {
    value.is_none_or(|value| value.is_nullish())
}

/// Whether the value counts as true: all values except missing, null, undefined, false and zeros.
pub fn is_truthy(value: Option<Value<'_>>) -> bool {
    match value {
        None | Some(Value::Null | Value::Undefined) => false,
        Some(Value::Boolean(flag)) => flag,
        Some(Value::Int32(number)) => number != 0,
        Some(Value::Int64(number)) => number != 0,
        Some(Value::Double(number)) => number != 0.0,
        Some(Value::Decimal128(number)) => !number.is_zero(),
        Some(_) => true,
    }
}

/// The name of the type in messages.
pub(crate) fn type_name(value: Option<Value<'_>>) -> &'static str {
    value.map_or("missing", |value| value.tag().alias())
}

/// The value as an `i32`, if it is a number that converts exactly.
pub(crate) fn as_i32(value: Option<Value<'_>>) -> Option<i32> {
    as_i64(value).and_then(|number| i32::try_from(number).ok())
}

/// The value as an `i64`, if it is a number that converts exactly.
pub(crate) fn as_i64(value: Option<Value<'_>>) -> Option<i64> {
    value?.as_i64_exact()
}
