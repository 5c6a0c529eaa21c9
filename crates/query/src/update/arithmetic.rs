//! `$inc`, `$mul` and `$bit`: the result has the wider of two numeric types, and overflow is an error.

use super::scope::Scope;
use crate::display::ShownField;
use crate::error::{Error, Result};
use diwan_value::{Decimal128, Value, ValueBuf};

/// The operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    /// `$inc`.
    Add,
    /// `$mul`.
    Multiply,
}

impl Arithmetic {
    fn operator(self) -> &'static str {
        match self {
            Arithmetic::Add => "$inc",
            Arithmetic::Multiply => "$mul",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Arithmetic::Add => "increment",
            Arithmetic::Multiply => "multiply",
        }
    }
}

/// Parses the argument of `$inc` or `$mul`.
pub(super) fn parse(operation: Arithmetic, path: &str, value: Value<'_>) -> Result<ValueBuf> {
    if value.is_number() {
        return Ok(ValueBuf::new(value));
    }
    let (verb, shown) = (operation.verb(), ShownField(path, value));
    Err(Error::type_mismatch(format!("Cannot {verb} with non-numeric argument: {{{shown}}}")))
}

/// Applies the operation to the field's current value.
pub(super) fn apply<'v>(
    operation: Arithmetic,
    current: Value<'v>,
    operand: Value<'_>,
    key: &str,
    scope: &Scope<'_>,
) -> Result<Value<'v>> {
    if !current.is_number() {
        return Err(Error::type_mismatch(format!(
            "Cannot apply {} to a value of non-numeric type. {{{}}} has the field '{key}' of non-numeric type {}",
            operation.operator(),
            scope.shown_id(),
            current.tag().alias()
        )));
    }
    combine(operation, current, operand).ok_or_else(|| {
        Error::bad_value(format!(
            "Failed to apply {} operations to current value ({}) for document {{{}}}",
            operation.operator(),
            typed(current),
            scope.shown_id()
        ))
    })
}

/// The value for a missing field: the operand, or zero of its type.
pub(super) fn initial(operation: Arithmetic, operand: Value<'_>) -> Value<'_> {
    match operation {
        Arithmetic::Add => operand,
        Arithmetic::Multiply => combine(operation, operand, Value::Int32(0)).unwrap_or(operand),
    }
}

/// The result in the wider type. Two `Int32` give an `Int64` if needed. `None` on overflow of `Int64`.
fn combine(operation: Arithmetic, a: Value<'_>, b: Value<'_>) -> Option<Value<'static>> {
    match (a, b) {
        (Value::Decimal128(_), _) | (_, Value::Decimal128(_)) => {
            let (a, b) = (to_decimal(a)?, to_decimal(b)?);
            Some(Value::Decimal128(match operation {
                Arithmetic::Add => a + b,
                Arithmetic::Multiply => a * b,
            }))
        }
        (Value::Double(_), _) | (_, Value::Double(_)) => {
            let (a, b) = (to_double(a)?, to_double(b)?);
            Some(Value::Double(match operation {
                Arithmetic::Add => a + b,
                Arithmetic::Multiply => a * b,
            }))
        }
        _ => {
            let (wide_a, wide_b) = (a.as_i64_exact()?, b.as_i64_exact()?);
            let result = match operation {
                Arithmetic::Add => wide_a.checked_add(wide_b)?,
                Arithmetic::Multiply => wide_a.checked_mul(wide_b)?,
            };
            let narrow = matches!((a, b), (Value::Int32(_), Value::Int32(_)));
            Some(match i32::try_from(result) {
                Ok(result) if narrow => Value::Int32(result),
                _ => Value::Int64(result),
            })
        }
    }
}

fn to_double(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number as f64),
        Value::Double(number) => Some(number),
        _ => None,
    }
}

fn to_decimal(value: Value<'_>) -> Option<Decimal128> {
    match value {
        Value::Int32(number) => Some(Decimal128::from(number)),
        Value::Int64(number) => Some(Decimal128::from(number)),
        Value::Double(number) => Some(Decimal128::from_f64(number)),
        Value::Decimal128(number) => Some(number),
        _ => None,
    }
}

/// Formats a number with its type for messages.
fn typed(value: Value<'_>) -> String {
    match value {
        Value::Int32(number) => format!("(NumberInt){number}"),
        Value::Int64(number) => format!("(NumberLong){number}"),
        Value::Double(number) => format!("(NumberDouble){number}"),
        Value::Decimal128(number) => format!("(NumberDecimal){number}"),
        other => format!("({})", other.tag().alias()),
    }
}

/// One operation of a `$bit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitOperation {
    operator: BitOperator,
    operand: i64,
    /// Whether the operand was an `Int64`, which makes the result an `Int64`.
    long: bool,
}

#[derive(Clone, Copy, Debug)]
enum BitOperator {
    And,
    Or,
    Xor,
}

/// Parses the argument of `$bit`.
pub(super) fn parse_bit(value: Value<'_>) -> Result<Vec<BitOperation>> {
    let Value::Document(doc) = value else {
        return Err(Error::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: \
             {{$bit: {{field: {{and/or/xor: #}}}}",
            value.tag().alias()
        )));
    };
    let mut operations = Vec::new();
    for element in doc {
        let (name, operand) = (element.key_str(), element.value());
        let operator = match name {
            "and" => BitOperator::And,
            "or" => BitOperator::Or,
            "xor" => BitOperator::Xor,
            _ => {
                return Err(Error::bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an unknown \
                     operator: {{{}}}",
                    ShownField(name, operand)
                )));
            }
        };
        let (operand, long) = match operand {
            Value::Int32(number) => (number.into(), false),
            Value::Int64(number) => (number, true),
            _ => {
                return Err(Error::bad_value(format!(
                    "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {{{}}}",
                    operand.tag().alias(),
                    ShownField(name, operand)
                )));
            }
        };
        operations.push(BitOperation { operator, operand, long });
    }
    if operations.is_empty() {
        return Err(Error::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ));
    }
    Ok(operations)
}

/// Applies the operations to the field's current value.
pub(super) fn apply_bits(
    operations: &[BitOperation],
    current: Value<'_>,
    key: &str,
    scope: &Scope<'_>,
) -> Result<Value<'static>> {
    let (mut bits, mut long) = match current {
        Value::Int32(number) => (i64::from(number), false),
        Value::Int64(number) => (number, true),
        other => {
            return Err(Error::bad_value(format!(
                "Cannot apply $bit to a value of non-integral type.{} has the field {key} of non-integer type {}",
                scope.shown_id(),
                other.tag().alias()
            )));
        }
    };
    for operation in operations {
        bits = match operation.operator {
            BitOperator::And => bits & operation.operand,
            BitOperator::Or => bits | operation.operand,
            BitOperator::Xor => bits ^ operation.operand,
        };
        long |= operation.long;
    }
    // Without an `Int64` operand both sides were sign-extended, so the result fits.
    Ok(match i32::try_from(bits) {
        Ok(bits) if !long => Value::Int32(bits),
        _ => Value::Int64(bits),
    })
}
