use super::compare;
use crate::{Array, Decimal128, ObjectId, Timestamp, Value, array, doc};
use std::cmp::Ordering;

/// Builds coefficient × 10^exponent.
fn decimal(coefficient: i128, exponent: i32) -> Decimal128 {
    let sign = if coefficient < 0 { 1 << 127 } else { 0 };
    Decimal128((sign | ((exponent + 6176) as u128) << 113 | coefficient.unsigned_abs()).to_le_bytes())
}

/// Checks that the members of each group are equal and below the members of the next group.
fn ascending(groups: &[&[Value<'_>]]) {
    for (i, group) in groups.iter().enumerate() {
        for (j, other) in groups.iter().enumerate() {
            for &a in *group {
                for &b in *other {
                    assert_eq!(compare(a, b), i.cmp(&j), "{a:?} and {b:?}");
                }
            }
        }
    }
}

#[test]
fn numbers_compare_exactly_across_types() {
    let two_53 = 1i64 << 53;
    let infinity = Decimal128((0b0111_1000u128 << 120).to_le_bytes());
    let negative_infinity = Decimal128((0b1111_1000u128 << 120).to_le_bytes());
    let nan = Decimal128((0b0111_1100u128 << 120).to_le_bytes());
    ascending(&[
        &[Value::Double(f64::NAN), Value::Double(-f64::NAN), Value::Decimal128(nan)],
        &[Value::Double(f64::NEG_INFINITY), Value::Decimal128(negative_infinity)],
        &[Value::Decimal128(decimal(-1, 6111))],
        &[Value::Double(f64::MIN)],
        &[
            Value::Int64(i64::MIN),
            Value::Double(-(2f64.powi(63))),
            Value::Decimal128(decimal(i64::MIN.into(), 0)),
        ],
        &[Value::Int64(i64::MIN + 1)],
        &[Value::Decimal128(decimal(-15, -1)), Value::Double(-1.5)],
        &[Value::Int32(-1), Value::Int64(-1), Value::Double(-1.0), Value::Decimal128(decimal(-100, -2))],
        &[Value::Double(-0.1)],
        &[Value::Decimal128(decimal(-1, -1))],
        &[Value::Double(-f64::from_bits(1))],
        &[Value::Decimal128(decimal(-1, -6176))],
        &[Value::Int32(0), Value::Double(0.0), Value::Double(-0.0), Value::Decimal128(decimal(0, 30))],
        &[Value::Decimal128(decimal(1, -6176))],
        &[Value::Double(f64::from_bits(1))],
        &[Value::Decimal128(decimal(1, -1))],
        &[Value::Double(0.1)],
        &[Value::Double(0.5), Value::Decimal128(decimal(5000, -4))],
        &[Value::Int32(1), Value::Decimal128(decimal(10_i128.pow(33), -33))],
        &[Value::Double(1.0 + f64::EPSILON)],
        &[Value::Int64(two_53 - 1), Value::Double((two_53 - 1) as f64)],
        &[Value::Int64(two_53), Value::Double(two_53 as f64), Value::Decimal128(decimal(two_53.into(), 0))],
        &[Value::Int64(two_53 + 1), Value::Decimal128(decimal((two_53 + 1).into(), 0))],
        &[Value::Int64(two_53 + 2), Value::Double((two_53 + 2) as f64)],
        &[Value::Int64(i64::MAX - 1)],
        &[Value::Int64(i64::MAX), Value::Decimal128(decimal(i64::MAX.into(), 0))],
        &[Value::Double(2f64.powi(63)), Value::Decimal128(decimal(1 << 63, 0))],
        &[Value::Double(1e23)],
        &[Value::Decimal128(decimal(1, 23))],
        &[Value::Double(f64::MAX)],
        &[Value::Decimal128(decimal(1, 6111))],
        &[Value::Double(f64::INFINITY), Value::Decimal128(infinity)],
    ]);
}

#[test]
fn decimals_beyond_34_digits_compare_as_zero() {
    let beyond = Decimal128(((6176u128 << 113) | ((1 << 113) - 1)).to_le_bytes());
    assert_eq!(compare(Value::Decimal128(beyond), Value::Int32(0)), Ordering::Equal);
    let long_form = Decimal128((0b0110_1100u128 << 120 | 7).to_le_bytes());
    assert_eq!(compare(Value::Decimal128(long_form), Value::Int32(0)), Ordering::Equal);
}

#[test]
fn values_of_different_types_compare_by_type_rank() {
    let document = doc! { "a": 1 };
    let bytes = array![1].finish();
    let id = ObjectId([7; 12]);
    ascending(&[
        &[Value::MinKey],
        &[Value::Undefined],
        &[Value::Null],
        &[Value::Int32(5)],
        &[Value::String("a"), Value::Symbol("a")],
        &[Value::String("b")],
        &[Value::Document(document.as_doc())],
        &[Value::Array(Array::trusted(&bytes))],
        &[Value::Binary { subtype: 9, bytes: b"a" }],
        &[Value::Binary { subtype: 0, bytes: b"bb" }],
        &[Value::Binary { subtype: 1, bytes: b"aa" }],
        &[Value::ObjectId(id)],
        &[Value::Boolean(false)],
        &[Value::Boolean(true)],
        &[Value::DateTime(-1)],
        &[Value::DateTime(1)],
        &[Value::Timestamp(Timestamp { seconds: 1, increment: 9 })],
        &[Value::Timestamp(Timestamp { seconds: u32::MAX, increment: 0 })],
        &[Value::Regex { pattern: "a", options: "i" }],
        &[Value::Regex { pattern: "a", options: "m" }],
        &[Value::DbPointer { namespace: "z", id }],
        &[Value::DbPointer { namespace: "aa", id }],
        &[Value::JavaScript("x")],
        &[Value::JavaScriptWithScope { code: "x", scope: document.as_doc() }],
        &[Value::MaxKey],
    ]);
}

#[test]
fn documents_compare_by_type_then_name_then_value() {
    let documents = [
        doc! {},
        doc! { "b": 1 },
        doc! { "b": 1, "c": 1 },
        doc! { "b": 2 },
        doc! { "c": 1.0 },
        // A string's rank is above a number's, whatever the name.
        doc! { "a": "text" },
        doc! { "a": { "x": 1 } },
    ];
    let values: Vec<_> = documents.iter().map(|document| [Value::Document(document.as_doc())]).collect();
    ascending(&values.iter().map(|group| group.as_slice()).collect::<Vec<_>>());
}

#[test]
fn arrays_compare_element_by_element() {
    let arrays = [array![], array![1], array![1, 5], array![2], array!["a"]].map(|array| array.finish());
    let values: Vec<_> = arrays.iter().map(|bytes| [Value::Array(Array::trusted(bytes))]).collect();
    ascending(&values.iter().map(|group| group.as_slice()).collect::<Vec<_>>());
}
