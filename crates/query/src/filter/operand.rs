//! The constant in a comparison, prepared so that values of the common types are compared without decoding.

use diwan_value::{Collator, RawValue, Type, Value, ValueBuf, compare_with, type_rank};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// 2^63, the first `f64` above every `i64`.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// A constant that field values are compared with.
///
/// Comparison is bracketed by type: values of different types are neither ordered nor equal, except against `MinKey`
/// and `MaxKey`. A missing field compares as null.
#[derive(Clone)]
pub struct Operand {
    value: ValueBuf,
    form: OperandForm,
    collator: Option<Arc<Collator>>,
}

/// The constant in the form that comparison needs.
#[derive(Clone)]
enum OperandForm {
    Integer(i64),
    /// Never NaN.
    Double(f64),
    /// A string that is compared by its bytes.
    Text(Box<str>),
    Other,
}

impl Operand {
    /// Prepares `value`.
    pub fn new(value: Value<'_>, collator: Option<&Arc<Collator>>) -> Operand {
        let form = match value {
            Value::Int32(number) => OperandForm::Integer(number.into()),
            Value::Int64(number) => OperandForm::Integer(number),
            Value::Double(number) if !number.is_nan() => OperandForm::Double(number),
            Value::String(text) if collator.is_none() => OperandForm::Text(text.into()),
            _ => OperandForm::Other,
        };
        // A collation applies only to strings, including those inside documents and arrays.
        let collated =
            matches!(value, Value::String(_) | Value::Symbol(_) | Value::Document(_) | Value::Array(_));
        let collator = collator.filter(|_| collated).cloned();
        Operand { value: ValueBuf::new(value), form, collator }
    }

    /// The constant.
    pub fn value(&self) -> Value<'_> {
        self.value.as_value()
    }

    /// The collation, if it applies to the constant's type.
    pub fn collator(&self) -> Option<&Collator> {
        self.collator.as_deref()
    }

    /// How a field's value compares to the constant; `None` if their types do not compare.
    #[inline]
    pub(crate) fn order(&self, field: Option<RawValue<'_>>) -> Option<Ordering> {
        let Some(field) = field else { return self.order_of_missing() };
        match (&self.form, field.tag) {
            (OperandForm::Integer(constant), Type::Int32) => Some(i64::from(int32(field)?).cmp(constant)),
            (OperandForm::Integer(constant), Type::Int64) => Some(int64(field)?.cmp(constant)),
            (OperandForm::Integer(constant), Type::Double) => {
                integer_to_double(*constant, double(field)?).map(Ordering::reverse)
            }
            (OperandForm::Double(constant), Type::Double) => double(field)?.partial_cmp(constant),
            (OperandForm::Double(constant), Type::Int32) => f64::from(int32(field)?).partial_cmp(constant),
            (OperandForm::Double(constant), Type::Int64) => integer_to_double(int64(field)?, *constant),
            (OperandForm::Text(constant), Type::String) => Some(text(field)?.cmp(constant.as_bytes())),
            _ => self.order_by_type(field),
        }
    }

    /// Whether a field's value equals the constant.
    #[inline]
    pub(crate) fn equals(&self, field: Option<RawValue<'_>>) -> bool {
        match (&self.form, field) {
            (OperandForm::Text(constant), Some(field)) if field.tag == Type::String => {
                // Most strings already differ in length.
                field.bytes.len() == constant.len() + 5 && text(field) == Some(constant.as_bytes())
            }
            _ => self.order(field) == Some(Ordering::Equal),
        }
    }

    fn order_of_missing(&self) -> Option<Ordering> {
        match self.value() {
            Value::Null => Some(Ordering::Equal),
            Value::MinKey => Some(Ordering::Greater),
            Value::MaxKey => Some(Ordering::Less),
            _ => None,
        }
    }

    fn order_by_type(&self, field: RawValue<'_>) -> Option<Ordering> {
        let constant = self.value();
        if type_rank(field.tag) != type_rank(constant.tag()) {
            return match constant {
                Value::MinKey => Some(Ordering::Greater),
                Value::MaxKey => Some(Ordering::Less),
                _ => None,
            };
        }
        self.order_of(field.decode()?)
    }

    /// How a value of the constant's type compares to it.
    pub(super) fn order_of(&self, value: Value<'_>) -> Option<Ordering> {
        let constant = self.value();
        // NaN equals NaN and is not ordered relative to other numbers.
        if is_nan(value) != is_nan(constant) {
            return None;
        }
        Some(compare_with(value, constant, self.collator()))
    }
}

impl PartialEq for Operand {
    fn eq(&self, other: &Operand) -> bool {
        self.value == other.value
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Whether a number of any type is NaN.
pub(super) fn is_nan(value: Value<'_>) -> bool {
    match value {
        Value::Double(number) => number.is_nan(),
        Value::Decimal128(number) => number.is_nan(),
        _ => false,
    }
}

#[inline]
fn int32(field: RawValue<'_>) -> Option<i32> {
    Some(i32::from_le_bytes(field.bytes.try_into().ok()?))
}

#[inline]
fn int64(field: RawValue<'_>) -> Option<i64> {
    Some(i64::from_le_bytes(field.bytes.try_into().ok()?))
}

#[inline]
fn double(field: RawValue<'_>) -> Option<f64> {
    Some(f64::from_le_bytes(field.bytes.try_into().ok()?))
}

/// The bytes of a string, without its length and NUL.
#[inline]
pub(super) fn text(field: RawValue<'_>) -> Option<&[u8]> {
    field.bytes.get(4..field.bytes.len().checked_sub(1)?)
}

/// Compares exactly; `None` for NaN.
fn integer_to_double(integer: i64, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        None
    } else if double >= TWO_POW_63 {
        Some(Ordering::Less)
    } else if double < -TWO_POW_63 {
        Some(Ordering::Greater)
    } else {
        let whole = double.trunc();
        match integer.cmp(&(whole as i64)) {
            Ordering::Equal => whole.partial_cmp(&double),
            order => Some(order),
        }
    }
}
