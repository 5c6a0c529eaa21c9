//! The BSON comparison order: first by type, then by value. Numbers of all four types compare by their exact value.
//! Documents compare field by field, arrays element by element.
//!
//! The order is total. Values that compare equal are interchangeable as index keys.

use crate::collation::Collator;
use crate::element::{Element, Type};
use crate::number;
use crate::view::{Array, Doc, Value};
use std::cmp::Ordering;

/// The rank of a type in the comparison order. Values whose types share a rank compare by value.
#[inline]
pub fn type_rank(tag: Type) -> u8 {
    match tag {
        Type::MinKey => 0,
        Type::Undefined => 1,
        Type::Null => 5,
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal128 => 10,
        Type::String | Type::Symbol => 15,
        Type::Document => 20,
        Type::Array => 25,
        Type::Binary => 30,
        Type::ObjectId => 35,
        Type::Boolean => 40,
        Type::DateTime => 45,
        Type::Timestamp => 47,
        Type::Regex => 50,
        Type::DbPointer => 55,
        Type::JavaScript => 60,
        Type::JavaScriptWithScope => 65,
        Type::MaxKey => 127,
    }
}

/// Compares two values, strings by their bytes.
#[inline]
pub fn compare(a: Value<'_>, b: Value<'_>) -> Ordering {
    compare_with(a, b, None)
}

/// Compares two values. Strings, including nested ones, are compared by `collator`.
#[inline]
pub fn compare_with(a: Value<'_>, b: Value<'_>, collator: Option<&Collator>) -> Ordering {
    match (a, b) {
        (Value::Int32(a), Value::Int32(b)) => a.cmp(&b),
        (Value::String(a), Value::String(b)) => strings(a, b, collator),
        (Value::ObjectId(a), Value::ObjectId(b)) => a.cmp(&b),
        _ => general(a, b, collator),
    }
}

/// Compares two documents: each pair of fields by type rank, then name, then value. A document that is a prefix of the
/// other is the smaller one.
pub fn compare_docs(a: Doc<'_>, b: Doc<'_>, collator: Option<&Collator>) -> Ordering {
    elements(a.iter(), b.iter(), collator, true)
}

/// Compares two arrays value by value. An array that is a prefix of the other is the smaller one.
pub(crate) fn compare_arrays(a: Array<'_>, b: Array<'_>, collator: Option<&Collator>) -> Ordering {
    elements(a.elements(), b.elements(), collator, false)
}

fn strings(a: &str, b: &str, collator: Option<&Collator>) -> Ordering {
    collator.map_or_else(|| a.cmp(b), |collator| collator.compare(a, b))
}

fn general(a: Value<'_>, b: Value<'_>, collator: Option<&Collator>) -> Ordering {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => number::doubles(a, b),
        (Value::Int64(a), Value::Int64(b)) => a.cmp(&b),
        (Value::Int32(a), Value::Int64(b)) => i64::from(a).cmp(&b),
        (Value::Int64(a), Value::Int32(b)) => a.cmp(&i64::from(b)),
        (Value::Int32(a), Value::Double(b)) => doubles_of_int(a, b),
        (Value::Double(a), Value::Int32(b)) => doubles_of_int(b, a).reverse(),
        (Value::Int64(a), Value::Double(b)) => number::int_double(a, b),
        (Value::Double(a), Value::Int64(b)) => number::int_double(b, a).reverse(),
        (Value::Decimal128(a), Value::Decimal128(b)) => number::decimals(a, b),
        (Value::Int32(a), Value::Decimal128(b)) => number::int_decimal(a.into(), b),
        (Value::Decimal128(a), Value::Int32(b)) => number::int_decimal(b.into(), a).reverse(),
        (Value::Int64(a), Value::Decimal128(b)) => number::int_decimal(a, b),
        (Value::Decimal128(a), Value::Int64(b)) => number::int_decimal(b, a).reverse(),
        (Value::Double(a), Value::Decimal128(b)) => number::double_decimal(a, b),
        (Value::Decimal128(a), Value::Double(b)) => number::double_decimal(b, a).reverse(),
        (Value::String(a) | Value::Symbol(a), Value::String(b) | Value::Symbol(b)) => strings(a, b, collator),
        (Value::Document(a), Value::Document(b)) => compare_docs(a, b, collator),
        (Value::Array(a), Value::Array(b)) => compare_arrays(a, b, collator),
        (Value::Binary { subtype, bytes }, Value::Binary { subtype: other_subtype, bytes: other }) => bytes
            .len()
            .cmp(&other.len())
            .then_with(|| subtype.cmp(&other_subtype))
            .then_with(|| bytes.cmp(other)),
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(&b),
        (Value::DateTime(a), Value::DateTime(b)) => a.cmp(&b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
        (
            Value::Regex { pattern, options },
            Value::Regex { pattern: other_pattern, options: other_options },
        ) => pattern.cmp(other_pattern).then_with(|| options.cmp(other_options)),
        (Value::DbPointer { namespace, id }, Value::DbPointer { namespace: other, id: other_id }) => {
            namespace
                .len()
                .cmp(&other.len())
                .then_with(|| namespace.cmp(other))
                .then_with(|| id.cmp(&other_id))
        }
        (Value::JavaScript(a), Value::JavaScript(b)) => a.cmp(b),
        (
            Value::JavaScriptWithScope { code, scope },
            Value::JavaScriptWithScope { code: other_code, scope: other_scope },
        ) => code.cmp(other_code).then_with(|| compare_docs(scope, other_scope, None)),
        // MinKey, MaxKey, Undefined and Null are equal to themselves; values of different ranks are ordered by rank.
        _ => type_rank(a.tag()).cmp(&type_rank(b.tag())),
    }
}

/// Converts the `i32`, which is exact, and compares as doubles.
fn doubles_of_int(a: i32, b: f64) -> Ordering {
    number::doubles(a.into(), b)
}

fn elements<'a>(
    mut a: impl Iterator<Item = Element<'a>>,
    mut b: impl Iterator<Item = Element<'a>>,
    collator: Option<&Collator>,
    with_names: bool,
) -> Ordering {
    loop {
        let (a, b) = match (a.next(), b.next()) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return a.is_some().cmp(&b.is_some()),
        };
        let order = type_rank(a.raw.tag)
            .cmp(&type_rank(b.raw.tag))
            .then_with(|| if with_names { a.key.cmp(b.key) } else { Ordering::Equal })
            .then_with(|| compare_with(a.value(), b.value(), collator));
        if order.is_ne() {
            return order;
        }
    }
}

#[cfg(test)]
mod tests;
