use super::{Decoder, Direction, Types, decode, encode, encode_order, type_bounds};
use crate::compare::{compare, type_rank};
use crate::{Decimal128, Type, Value, ValueBuf, doc, random};
use fastrand::Rng;
use std::cmp::Ordering;

const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

fn key(value: Value<'_>, direction: Direction) -> (Vec<u8>, Types) {
    let (mut out, mut types) = (Vec::new(), Types::new());
    encode(&mut out, &mut types, value, direction, None);
    (out, types)
}

fn check_order(a: &ValueBuf, b: &ValueBuf) {
    let (a, b) = (a.as_value(), b.as_value());
    let expected = compare(a, b);
    assert_eq!(compare(b, a), expected.reverse(), "{a:?} and {b:?}");
    for direction in DIRECTIONS {
        let (a_key, b_key) = (key(a, direction).0, key(b, direction).0);
        let expected = if direction == Direction::Descending { expected.reverse() } else { expected };
        assert_eq!(a_key.cmp(&b_key), expected, "{a:?} and {b:?}: {a_key:02x?} {b_key:02x?}");
        if expected.is_ne() {
            assert!(!a_key.starts_with(&b_key) && !b_key.starts_with(&a_key), "{a:?} and {b:?}");
        }
    }
}

#[test]
fn encoded_numbers_sort_as_they_compare() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..20 {
        let numbers: Vec<_> = (0..60).map(|_| ValueBuf::new(random::number(&mut rng))).collect();
        for a in &numbers {
            for b in &numbers {
                check_order(a, b);
            }
        }
    }
}

#[test]
fn encoded_numbers_sort_between_close_numbers_of_other_types() {
    let mut rng = Rng::with_seed(2);
    for _ in 0..5_000 {
        let Value::Double(double) = (match rng.bool() {
            true => Value::Double(random::integer(&mut rng) as f64 / 1000.0),
            false => Value::Double(f64::from_bits(rng.u64(..))),
        }) else {
            return;
        };
        // The decimal closest to the double is just below, just above, or the double itself.
        let written = format!("{double:.33e}");
        let Some((mantissa, exponent)) = written.split_once('e') else { continue };
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let (Ok(coefficient), Ok(exponent)) = (digits.parse(), exponent.parse::<i32>()) else { continue };
        let Some(decimal) = Decimal128::from_parts(double < 0.0, coefficient, exponent - 33) else {
            continue;
        };
        let values = [
            Value::Double(double),
            Value::Double(f64::from_bits(double.to_bits() ^ 1)),
            Value::Decimal128(decimal),
            Value::Int64(double as i64),
        ]
        .map(ValueBuf::new);
        for a in &values {
            for b in &values {
                check_order(a, b);
            }
        }
    }
}

#[test]
fn encoded_values_sort_as_they_compare() {
    let mut rng = Rng::with_seed(3);
    for _ in 0..20 {
        let values: Vec<_> = (0..60).map(|_| random::value(&mut rng, 3)).collect();
        for a in &values {
            for b in &values {
                check_order(a, b);
            }
        }
    }
}

#[test]
fn decode_returns_the_encoded_values() {
    let mut rng = Rng::with_seed(4);
    for _ in 0..5_000 {
        let values: Vec<_> = (0..3).map(|_| random::value(&mut rng, 3)).collect();
        let directions: Vec<_> = values.iter().map(|_| DIRECTIONS[rng.usize(..2)]).collect();
        let (mut out, mut types) = (Vec::new(), Types::new());
        for (value, &direction) in values.iter().zip(&directions) {
            encode(&mut out, &mut types, value.as_value(), direction, None);
        }
        assert_eq!(decode(&out, types.as_bytes(), &directions), Some(values.clone()), "{out:02x?} {types:?}");
        out.push(0xFF);
        assert_eq!(decode(&out, types.as_bytes(), &directions), None);
    }
}

#[test]
fn decode_keeps_the_bits_of_nan() {
    for bits in [0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001, 0xFFF8_0000_0000_0000] {
        for direction in [Direction::Ascending, Direction::Descending] {
            let (bytes, types) = key(Value::Double(f64::from_bits(bits)), direction);
            let values = decode(&bytes, types.as_bytes(), &[direction]).unwrap();
            assert!(matches!(values[0].as_value(), Value::Double(number) if number.to_bits() == bits));
        }
    }
}

#[test]
fn compound_keys_sort_part_by_part() {
    let mut rng = Rng::with_seed(5);
    for _ in 0..5_000 {
        let [a, b, c, d] = std::array::from_fn(|_| random::value(&mut rng, 1));
        // Equal first parts are rare otherwise.
        let c = if rng.bool() { a.clone() } else { c };
        let compound = |first: &ValueBuf, second: &ValueBuf| {
            let mut out = Vec::new();
            encode_order(&mut out, first.as_value(), Direction::Descending, None);
            encode_order(&mut out, second.as_value(), Direction::Ascending, None);
            out
        };
        let expected = compare(c.as_value(), a.as_value()).then_with(|| compare(b.as_value(), d.as_value()));
        assert_eq!(compound(&a, &b).cmp(&compound(&c, &d)), expected);
    }
}

#[test]
fn decoding_damaged_keys_does_not_panic() {
    let mut rng = Rng::with_seed(6);
    for _ in 0..5_000 {
        let (mut out, types) = key(random::value(&mut rng, 2).as_value(), Direction::Ascending);
        let mut types = types.as_bytes().to_vec();
        for bytes in [&mut out, &mut types] {
            if !bytes.is_empty() && rng.bool() {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            bytes.truncate(rng.usize(..=bytes.len()));
        }
        let mut decoder = Decoder::new(&out, &types);
        while decoder.next(Direction::Ascending).is_some() {}
    }
}

#[test]
fn type_bounds_enclose_exactly_the_types_of_a_rank() {
    let mut rng = Rng::with_seed(7);
    let tags: Vec<Type> = (0..=u8::MAX).filter_map(Type::from_byte).collect();
    for _ in 0..2_000 {
        let value = random::value(&mut rng, 1);
        for direction in DIRECTIONS {
            let (key, _) = key(value.as_value(), direction);
            for &tag in &tags {
                let (start, end) = type_bounds(tag, direction);
                let inside = key.as_slice() >= &start[..] && key.as_slice() < &end[..];
                assert_eq!(inside, type_rank(tag) == type_rank(value.as_value().tag()));
            }
        }
    }
}

#[test]
fn common_values_have_short_keys_without_types() {
    for (value, length) in [
        (Value::Int32(0), 1),
        (Value::Int32(30), 2),
        (Value::Int32(-127), 2),
        (Value::Int32(20_000), 3),
        (Value::Int64(1 << 40), 7),
        (Value::Double(0.1), 9),
        (Value::Double(12.5), 9),
        (Value::String("abc"), 5),
        (Value::Boolean(true), 1),
        (Value::Null, 1),
    ] {
        let (key, types) = key(value, Direction::Ascending);
        assert_eq!((key.len(), types.is_empty()), (length, true), "{value:?}");
    }
}

#[test]
fn equal_numbers_of_different_types_share_a_key() {
    let hundredths = Decimal128::from_parts(false, 100, -2).map(Value::Decimal128);
    let one = key(Value::Int32(1), Direction::Ascending);
    for value in [Some(Value::Int64(1)), Some(Value::Double(1.0)), hundredths].into_iter().flatten() {
        let (bytes, types) = key(value, Direction::Ascending);
        assert_eq!(bytes, one.0);
        assert!(!types.is_empty());
        assert_eq!(decode(&bytes, types.as_bytes(), &[Direction::Ascending]), Some(vec![value.to_owned()]));
    }
}

#[test]
fn key_bytes_match_the_disk_format() {
    let hex = |value: Value<'_>| {
        key(value, Direction::Ascending).0.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hex(Value::Int32(1)), "2b02");
    assert_eq!(hex(Value::Int32(-1)), "27fd");
    assert_eq!(hex(Value::Int64(i64::MIN)), "1f783fffffffffffff");
    assert_eq!(hex(Value::Double(1.5)), "2b0380000000000000");
    assert_eq!(hex(Value::Double(0.5)), "2a7fc0000000000000");
    let price =
        Decimal128::from_parts(false, 1999, -2).map_or_else(String::new, |d| hex(Value::Decimal128(d)));
    assert_eq!(price, "2b27fd70a3d70a3d716400");
    assert_eq!(hex(Value::String("a\0b")), "3c6101016200");
    assert_eq!(hex(Value::Document(doc! { "a": [null] }.as_doc())), "4650610050140000");
    assert_eq!(hex(Value::DateTime(0)), "788000000000000000");
    assert_eq!(compare(Value::Int32(1), Value::Int32(1)), Ordering::Equal);
}
