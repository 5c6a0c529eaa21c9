//! CouchDB's order of values: null, false, true, numbers, strings, arrays, objects, then values of types that JSON
//! lacks in BSON's order.

use diwan_value::key::{Direction, encode_order};
use diwan_value::{Type, Value, compare as compare_bson};
use std::cmp::Ordering;

/// A type's rank in the order. Values with the same rank compare by value.
pub fn rank(tag: Type) -> u8 {
    match tag {
        Type::Null => 0,
        Type::Boolean => 1,
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal128 => 2,
        Type::String | Type::Symbol => 3,
        Type::Array => 4,
        Type::Document => 5,
        _ => 6,
    }
}

/// Compares two values. Objects compare member by member in order, first the names, then the values.
pub fn compare(a: Value<'_>, b: Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            let (mut a, mut b) = (a.iter(), b.iter());
            loop {
                match (a.next(), b.next()) {
                    (Some(a), Some(b)) => match compare(a, b) {
                        Ordering::Equal => {}
                        order => return order,
                    },
                    (a, b) => return a.is_some().cmp(&b.is_some()),
                }
            }
        }
        (Value::Document(a), Value::Document(b)) => {
            let (mut a, mut b) = (a.iter(), b.iter());
            loop {
                match (a.next(), b.next()) {
                    (Some(a), Some(b)) => {
                        match a.key.cmp(b.key).then_with(|| compare(a.value(), b.value())) {
                            Ordering::Equal => {}
                            order => return order,
                        }
                    }
                    (a, b) => return a.is_some().cmp(&b.is_some()),
                }
            }
        }
        _ => rank(a.tag()).cmp(&rank(b.tag())).then_with(|| compare_bson(a, b)),
    }
}

/// Ends an array or object. It sorts below any further element.
const END: u8 = 0;

/// Appends bytes with the same order as [`compare`].
pub(crate) fn encode(out: &mut Vec<u8>, value: Value<'_>) {
    out.push(rank(value.tag()) + 1);
    match value {
        Value::Array(array) => {
            array.iter().for_each(|element| encode(out, element));
            out.push(END);
        }
        Value::Document(doc) => {
            for element in doc {
                out.push(END + 1);
                out.extend_from_slice(element.key);
                out.push(END);
                encode(out, element.value());
            }
            out.push(END);
        }
        scalar => encode_order(out, scalar, Direction::Ascending, None),
    }
}
