//! The hash of hashed indexes.
//!
//! The algorithm is MongoDB's: the first eight bytes of an MD5 over a zero seed, the value's type rank and its bytes.
//! Numbers are hashed as 64-bit integers, nested fields with their names. Numbers that truncate to the same integer
//! have the same hash.

use crate::compare::type_rank;
use crate::element::{RawValue, Type};
use crate::number::TWO_POW_63;
use crate::view::{Doc, Value};
use md5::{Digest, Md5};

/// The hash of a value for a hashed index.
pub fn hash_value(value: Value<'_>) -> i64 {
    seeded(value, 0)
}

fn seeded(value: Value<'_>, seed: i32) -> i64 {
    let owned = value.to_owned();
    let mut md5 = Md5::new();
    md5.update(seed.to_le_bytes());
    add(&mut md5, owned.as_raw(), None);
    let digest = md5.finalize();
    digest.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// The type's rank as MongoDB hashes it. `Undefined` hashes as "no value".
fn rank(tag: Type) -> i32 {
    match tag {
        Type::MinKey => -1,
        Type::Undefined => 0,
        _ => type_rank(tag).into(),
    }
}

fn add(md5: &mut Md5, raw: RawValue<'_>, name: Option<&[u8]>) {
    md5.update(rank(raw.tag).to_le_bytes());
    if let Some(name) = name {
        md5.update(name);
        md5.update([0]);
    }
    match raw.decode() {
        Some(Value::Int32(number)) => md5.update(i64::from(number).to_le_bytes()),
        Some(Value::Int64(number)) => md5.update(number.to_le_bytes()),
        Some(Value::Double(number)) => md5.update(integer(number).to_le_bytes()),
        Some(Value::Decimal128(number)) => {
            let integer = number.to_i64(crate::decimal::Rounding::TowardZero);
            md5.update(integer.unwrap_or_else(|| self::integer(number.to_f64())).to_le_bytes());
        }
        Some(Value::Document(doc)) => fields(md5, doc),
        Some(Value::Array(array)) => fields(md5, Doc::trusted(array.as_bytes())),
        Some(Value::JavaScriptWithScope { code, scope }) => {
            md5.update(code.as_bytes());
            md5.update([0]);
            fields(md5, scope);
        }
        _ => md5.update(raw.bytes),
    }
}

/// Hashes a document's elements, and its end as an element without a name.
fn fields(md5: &mut Md5, doc: Doc<'_>) {
    for element in doc {
        add(md5, element.raw, Some(element.key));
    }
    md5.update(0i32.to_le_bytes());
    // The name of the end is empty and, unlike other names, adds no byte.
}

/// A double as an integer: truncated and clamped to the range of `i64`, with NaN as 0. MongoDB wraps exactly 2^63
/// around.
fn integer(number: f64) -> i64 {
    if number == TWO_POW_63 { i64::MIN } else { number as i64 }
}

#[cfg(test)]
mod tests {
    use super::{hash_value, seeded};
    use crate::{Value, doc};

    #[test]
    fn hashes_match_mongodb() {
        assert_eq!(hash_value(Value::Int32(42)), -944302157085130861);
        let two_63 = 2f64.powi(63);
        let nested = doc! { "a": 1, "b": 2 };
        let corner = doc! { "a": two_63, "b": f64::NAN };
        let (max, lowest, zero) = (1136124329541638701, 5744114172487291558, 5574369198691456941);
        for (value, expected) in [
            (Value::String("hashthis"), 6271151123721111923),
            (Value::Double(two_63), lowest),
            (Value::Double(two_63 + 2048.0), max),
            (Value::Double(f64::INFINITY), max),
            (Value::Double(two_63 - 1024.0), -3954856262017896439),
            (Value::Double(-two_63), lowest),
            (Value::Int64(i64::MIN), lowest),
            (Value::Double(1024.0 - two_63), -1762411739488908479),
            (Value::Double(f64::NEG_INFINITY), lowest),
            (Value::Int64(0), zero),
            (Value::Double(f64::NAN), zero),
            (Value::Document(nested.as_doc()), -7076810813311352857),
            (Value::Document(corner.as_doc()), 1223292051903137684),
        ] {
            assert_eq!(seeded(value, 1), expected, "{value:?}");
        }
    }

    #[test]
    fn numbers_hash_by_their_integer_part() {
        let decimal = "5.9".parse().map(Value::Decimal128).unwrap_or(Value::Null);
        for value in [Value::Int64(5), Value::Double(5.0), Value::Double(5.5), decimal] {
            assert_eq!(hash_value(value), hash_value(Value::Int32(5)), "{value:?}");
        }
    }
}
