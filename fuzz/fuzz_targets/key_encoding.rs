//! Key bytes: `memcmp` orders them as the values compare, no key is a prefix of another, and decoding returns the exact values.

#![no_main]

use diwan_value::key::{self, Direction, Types};
use diwan_value::{
    Array, ArrayBuilder, Decimal128, DocBuilder, ObjectId, Timestamp, Value, ValueBuf, compare,
};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::cmp::Ordering;

fuzz_target!(|data: &[u8]| {
    // The input as a key from a damaged store.
    for direction in [Direction::Ascending, Direction::Descending] {
        let (front, back) = data.split_at(data.len() / 2);
        let _ = key::decode(data, &[], &[direction]);
        let _ = key::decode(front, back, &[direction, direction]);
        let _ = key::skip(data, direction);
    }
    let _ = values(&mut Unstructured::new(data));
});

fn values(input: &mut Unstructured<'_>) -> Result<()> {
    let directions = [direction(input)?, direction(input)?];
    let a = [value(input, 3)?, value(input, 3)?];
    // Half of the keys have equal first parts; otherwise the second parts would rarely matter.
    let first = if input.arbitrary()? { a[0].clone() } else { value(input, 3)? };
    let b = [first, value(input, 3)?];
    let (a_key, a_types) = encode(&a, directions);
    let (b_key, _) = encode(&b, directions);
    let expected = part(&a[0], &b[0], directions[0]).then_with(|| part(&a[1], &b[1], directions[1]));
    assert_eq!(a_key.cmp(&b_key), expected, "{a:?} and {b:?}");
    if expected.is_ne() {
        assert!(!a_key.starts_with(&b_key) && !b_key.starts_with(&a_key), "{a:?} and {b:?}");
    }
    let back = key::decode(&a_key, a_types.as_bytes(), &directions);
    assert_eq!(back.as_deref(), Some(&a[..]));
    assert_eq!(key::skip(&b_key, directions[0]), Some(encode(&b[..1], directions).0.len()));
    Ok(())
}

fn part(a: &ValueBuf, b: &ValueBuf, direction: Direction) -> Ordering {
    let order = compare(a.as_value(), b.as_value());
    if direction == Direction::Descending { order.reverse() } else { order }
}

fn encode(values: &[ValueBuf], directions: [Direction; 2]) -> (Vec<u8>, Types) {
    let (mut bytes, mut types) = (Vec::new(), Types::new());
    for (value, direction) in values.iter().zip(directions) {
        key::encode(&mut bytes, &mut types, value.as_value(), direction, None);
    }
    (bytes, types)
}

fn direction(input: &mut Unstructured<'_>) -> Result<Direction> {
    Ok(if input.arbitrary()? { Direction::Ascending } else { Direction::Descending })
}

/// A value of any type, with small and large numbers; containers nest `depth` levels.
fn value(input: &mut Unstructured<'_>, depth: usize) -> Result<ValueBuf> {
    let choice = input.int_in_range(0..=if depth == 0 { 21u8 } else { 24 })?;
    Ok(ValueBuf::new(match choice {
        0 => Value::Int32(input.arbitrary()?),
        1 => Value::Int64(input.arbitrary()?),
        2 => Value::Double(input.arbitrary()?),
        3 => Value::Double(f64::from(input.arbitrary::<i32>()?) / 8.0),
        4 => Value::Double(input.arbitrary::<i64>()? as f64),
        5 => Value::Decimal128(Decimal128(input.arbitrary()?)),
        6 => {
            let exponent = input.int_in_range(-40..=40)?;
            let coefficient = u128::from(input.arbitrary::<u64>()?);
            let decimal = Decimal128::from_parts(input.arbitrary()?, coefficient, exponent);
            decimal.map_or(Value::Null, Value::Decimal128)
        }
        7 => Value::Decimal128(Decimal128::from_f64_digits(input.arbitrary()?, 34)),
        8 => Value::Int32(input.int_in_range(-2..=2)?),
        9 => Value::String(input.arbitrary()?),
        10 => Value::Symbol(input.arbitrary()?),
        11 => Value::Boolean(input.arbitrary()?),
        12 => Value::DateTime(input.arbitrary()?),
        13 => Value::Timestamp(Timestamp::from_bits(input.arbitrary()?)),
        14 => Value::ObjectId(ObjectId(input.arbitrary()?)),
        15 => Value::Binary { subtype: input.arbitrary()?, bytes: input.arbitrary()? },
        16 => Value::JavaScript(input.arbitrary()?),
        17 => Value::DbPointer { namespace: input.arbitrary()?, id: ObjectId(input.arbitrary()?) },
        18 => Value::Regex { pattern: name(input)?, options: name(input)? },
        19 => Value::Null,
        20 => Value::Undefined,
        21 => [Value::MinKey, Value::MaxKey][input.choose_index(2)?],
        22 => {
            let mut array = ArrayBuilder::new();
            while input.arbitrary()? {
                array.push(value(input, depth - 1)?);
            }
            return Ok(ValueBuf::new(Value::Array(Array::trusted(&array.finish()))));
        }
        other => {
            let mut doc = DocBuilder::new();
            while input.arbitrary()? {
                doc.append(name(input)?, value(input, depth - 1)?);
            }
            let doc = doc.finish();
            let code = name(input)?;
            return Ok(ValueBuf::new(match other {
                23 => Value::Document(doc.as_doc()),
                _ => Value::JavaScriptWithScope { code, scope: doc.as_doc() },
            }));
        }
    }))
}

/// Text without a null character.
fn name<'a>(input: &mut Unstructured<'a>) -> Result<&'a str> {
    let text: &str = input.arbitrary()?;
    Ok(text.split('\0').next().unwrap_or_default())
}
