//! Random values of every type for tests. Numbers are often close to rounding limits and to the limits of their types.

use crate::builder::{ArrayBuilder, DocBuilder};
use crate::decimal::MAX_COEFFICIENT;
use crate::owned::{DocBuf, ValueBuf};
use crate::scalar::{Decimal128, ObjectId, Timestamp};
use crate::view::{Array, Value};
use fastrand::Rng;

/// A value of a random type, nested at most `depth` levels.
pub(crate) fn value(rng: &mut Rng, depth: usize) -> ValueBuf {
    let own = ValueBuf::new;
    match rng.u8(..if depth == 0 { 18 } else { 22 }) {
        0..=5 => own(number(rng)),
        6 | 7 => own(Value::String(&text(rng))),
        8 => own(Value::Symbol(&text(rng))),
        9 => own([Value::MinKey, Value::Undefined, Value::Null, Value::MaxKey][rng.usize(..4)]),
        10 => {
            let length = if rng.u8(..10) == 0 { rng.usize(250..260) } else { rng.usize(..4) };
            let bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
            // Subtype 2 has a different layout.
            own(Value::Binary { subtype: [0, 1, 3, 4, 5, 255][rng.usize(..6)], bytes: &bytes })
        }
        11 => own(Value::ObjectId(ObjectId(std::array::from_fn(|_| rng.u8(..3))))),
        12 => own(Value::Boolean(rng.bool())),
        13 => own(Value::DateTime(integer(rng))),
        14 => own(Value::Timestamp(Timestamp { seconds: rng.u32(..), increment: rng.u32(..3) })),
        15 => own(Value::Regex { pattern: name(rng), options: ["", "i", "im"][rng.usize(..3)] }),
        16 => own(Value::DbPointer { namespace: &text(rng), id: ObjectId([rng.u8(..2); 12]) }),
        17 => own(Value::JavaScript(&text(rng))),
        18 => own(Value::JavaScriptWithScope { code: name(rng), scope: document(rng, depth - 1).as_doc() }),
        19 => {
            let mut array = ArrayBuilder::new();
            for _ in 0..rng.usize(..4) {
                array.push(value(rng, depth - 1));
            }
            own(Value::Array(Array::trusted(&array.finish())))
        }
        _ => document(rng, depth - 1).into(),
    }
}

/// A document whose values nest at most `depth` levels.
pub(crate) fn document(rng: &mut Rng, depth: usize) -> DocBuf {
    let mut doc = DocBuilder::new();
    for _ in 0..rng.usize(..4) {
        doc.append(name(rng), value(rng, depth));
    }
    doc.finish()
}

/// A number of any of the four types.
pub(crate) fn number(rng: &mut Rng) -> Value<'static> {
    match rng.u8(..8) {
        0 => Value::Int32(integer(rng) as i32),
        1 => Value::Int64(integer(rng)),
        2 => Value::Double(integer(rng) as f64),
        3 => Value::Double(f64::from_bits(rng.u64(..))),
        4 => Value::Double(integer(rng) as f64 / [2.0, 8.0, 10.0, 1024.0, 1e20][rng.usize(..5)]),
        5 => Value::Decimal128(Decimal128(rng.u128(..).to_le_bytes())),
        6 => {
            let coefficient = u128::from(integer(rng).unsigned_abs());
            decimal(rng, coefficient, -25..25)
        }
        _ => {
            let coefficient = rng.u128(..) % (MAX_COEFFICIENT + 1);
            decimal(rng, coefficient, -6176..6112)
        }
    }
}

fn decimal(rng: &mut Rng, coefficient: u128, exponents: std::ops::Range<i32>) -> Value<'static> {
    // Half of the exponents are near zero, where decimals are close to numbers of the other types.
    let exponent = if rng.bool() { rng.i32(-40..20) } else { rng.i32(exponents) };
    Decimal128::from_parts(rng.bool(), coefficient, exponent).map_or(Value::Null, Value::Decimal128)
}

/// An integer, usually close to a power of two or of ten.
pub(crate) fn integer(rng: &mut Rng) -> i64 {
    let near = |rng: &mut Rng, middle: i64| middle.wrapping_add(rng.i64(-2..3));
    let number = match rng.u8(..5) {
        0 => rng.i64(..),
        1 => rng.i64(-5..6),
        2 => {
            let middle = 10i64.pow(rng.u32(..19));
            near(rng, middle)
        }
        _ => {
            let middle = 1i64 << rng.u32(..64);
            near(rng, middle)
        }
    };
    if rng.bool() { number } else { number.wrapping_neg() }
}

fn text(rng: &mut Rng) -> String {
    (0..rng.usize(..5))
        .map(|_| ['\0', '\u{1}', '\u{2}', 'a', 'b', 'é', '\u{10FFFF}'][rng.usize(..7)])
        .collect()
}

fn name(rng: &mut Rng) -> &'static str {
    ["", "a", "b", "ab", "é", "\u{1}"][rng.usize(..6)]
}
