//! Numbers in keys: all four types in one order, by exact value.
//!
//! - From 1 up to 2^63, a number is its integer part, doubled, in as few bytes as it needs; the class byte gives their
//!   count. The lowest bit tells whether a fraction follows: 55 binary digits, and a bit for "more".
//! - Outside that range, a number is the bits of the largest double not above it, shifted left, and the same bit.
//! - Only decimals need "more": their decimal digits follow, two in a byte. They order numbers whose binary digits are
//!   the same.
//!
//! The bytes of a negative number are the complement of its magnitude's bytes.

use super::class;
use super::types::Exception;
use crate::decimal::{MAX_COEFFICIENT, Parts};
use crate::number::{self, TWO_POW_63};
use crate::owned::ValueBuf;
use crate::scalar::Decimal128;
use crate::view::Value;
use std::cmp::Ordering;

/// How many binary digits of a fraction are written.
const FRACTION_BITS: u32 = 55;

/// The bias that makes the exponent of a decimal's first digit (-6176 and up) positive.
const FIRST_DIGIT_BIAS: i32 = 8192;

/// How a decimal differs from the value that its key bytes suggest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecimalForm {
    /// It does not differ.
    Suggested,
    /// The bytes give the value; only this exponent must be stored.
    Exponent(i16),
    /// The whole decimal must be stored.
    Opaque,
}

/// Writes an integer.
#[inline]
pub(super) fn integer(out: &mut Vec<u8>, number: i64) {
    let magnitude = number.unsigned_abs();
    if number == 0 {
        out.push(class::ZERO);
    } else if magnitude < 1 << 63 {
        whole(out, number < 0, magnitude << 1);
    } else {
        binary(out, true, TWO_POW_63, false);
    }
}

/// Writes a double.
#[inline]
pub(super) fn double(out: &mut Vec<u8>, number: f64) {
    let negative = number < 0.0;
    let magnitude = number.abs();
    if number.is_nan() {
        out.push(class::NAN);
    } else if number == 0.0 {
        out.push(class::ZERO);
    } else if magnitude == f64::INFINITY {
        out.push(if negative { class::NEGATIVE_INFINITY } else { class::POSITIVE_INFINITY });
    } else if (1.0..TWO_POW_63).contains(&magnitude) {
        let integer = magnitude as u64;
        let fraction = magnitude - integer as f64;
        if fraction == 0.0 {
            whole(out, negative, integer << 1);
        } else {
            // From 1 on, a double has at most 52 binary digits of fraction, so no digit is lost.
            let bits = (fraction * (1u64 << FRACTION_BITS) as f64) as u64;
            mixed(out, negative, integer, bits, false);
        }
    } else {
        binary(out, negative, magnitude, false);
    }
}

/// Writes a decimal.
pub(super) fn decimal(out: &mut Vec<u8>, number: Decimal128) -> DecimalForm {
    let (negative, coefficient, exponent) = match number.parts() {
        Parts::NaN => {
            out.push(class::NAN);
            return DecimalForm::Opaque;
        }
        Parts::Infinity { negative } => {
            out.push(if negative { class::NEGATIVE_INFINITY } else { class::POSITIVE_INFINITY });
            return DecimalForm::Opaque;
        }
        Parts::Finite { coefficient: 0, .. } => {
            out.push(class::ZERO);
            return DecimalForm::Opaque;
        }
        Parts::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
    };
    let (first, digits) = number::scaled(coefficient, exponent);
    // From 1 up to 10^20, which is above 2^63. The integer part fits a `u128` with space left.
    if (0..20).contains(&first) {
        // Usually there are few decimal places and the coefficient is divided as it is; otherwise it is scaled to 38
        // digits.
        let (digits, places) =
            if (-21..0).contains(&exponent) { (coefficient, -exponent) } else { (digits, 37 - first) };
        let unit = 10u128.pow(places.unsigned_abs());
        let (integer, fraction) = (digits / unit, digits % unit);
        if integer < 1 << 63 {
            let integer = integer as u64;
            if fraction == 0 {
                whole(out, negative, integer << 1);
                return DecimalForm::Exponent(exponent as i16);
            }
            let (bits, more) = binary_fraction(fraction, unit);
            mixed(out, negative, integer, bits, more);
            if !more {
                return DecimalForm::Opaque;
            }
            digit_pairs(out, negative, fraction, places.unsigned_abs());
            return form(coefficient, exponent);
        }
    }
    let below = double_not_above(coefficient, exponent);
    let more = below == 0.0 || number::magnitude(below, coefficient, exponent).is_ne();
    binary(out, negative, below, more);
    if !more {
        return DecimalForm::Opaque;
    }
    let at = out.len();
    out.extend_from_slice(&((first + FIRST_DIGIT_BIAS) as u16).to_be_bytes());
    complement_if(negative, &mut out[at..]);
    digit_pairs(out, negative, digits, 38);
    form(coefficient, exponent)
}

/// How a decimal with "more" digits differs from the same decimal without trailing zeros.
fn form(coefficient: u128, exponent: i32) -> DecimalForm {
    if coefficient.is_multiple_of(10) {
        DecimalForm::Exponent(exponent as i16)
    } else {
        DecimalForm::Suggested
    }
}

/// Removes a coefficient's trailing zeros.
fn without_trailing_zeros(mut coefficient: u128, mut exponent: i32) -> (u128, i32) {
    while coefficient != 0 && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    (coefficient, exponent)
}

/// The largest double not above coefficient × 10^exponent. The coefficient is not zero.
fn double_not_above(coefficient: u128, exponent: i32) -> f64 {
    let nearest: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(0.0);
    if nearest == f64::INFINITY {
        f64::MAX
    } else if nearest != 0.0 && number::magnitude(nearest, coefficient, exponent) == Ordering::Greater {
        f64::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    }
}

/// The first [`FRACTION_BITS`] binary digits of fraction / unit, and whether digits remain. Both are below 10^38, and
/// doubling `fraction` needs 128 bits.
fn binary_fraction(mut fraction: u128, unit: u128) -> (u64, bool) {
    if unit < 1 << 72 {
        let shifted = fraction << FRACTION_BITS;
        return ((shifted / unit) as u64, !shifted.is_multiple_of(unit));
    }
    let mut bits = 0;
    for _ in 0..FRACTION_BITS {
        fraction *= 2;
        bits <<= 1;
        if fraction >= unit {
            fraction -= unit;
            bits |= 1;
        }
    }
    (bits, fraction != 0)
}

/// Writes the class byte and the bytes of a doubled integer part.
#[inline]
fn whole(out: &mut Vec<u8>, negative: bool, doubled: u64) {
    let length = 8 - doubled.leading_zeros() as usize / 8;
    let bytes = if negative { !doubled } else { doubled }.to_be_bytes();
    let class =
        if negative { class::NEGATIVE_1 + 1 - length as u8 } else { class::POSITIVE_1 - 1 + length as u8 };
    out.push(class);
    out.extend_from_slice(&bytes[8 - length..]);
}

/// Writes an integer part with a fraction.
fn mixed(out: &mut Vec<u8>, negative: bool, integer: u64, fraction: u64, more: bool) {
    whole(out, negative, integer << 1 | 1);
    let bits = fraction << 1 | u64::from(more);
    out.extend_from_slice(&if negative { !bits } else { bits }.to_be_bytes()[1..]);
}

/// Writes a magnitude below 1 or from 2^63 as a double's bits.
fn binary(out: &mut Vec<u8>, negative: bool, magnitude: f64, more: bool) {
    out.push(match (magnitude < 1.0, negative) {
        (true, false) => class::POSITIVE_SMALL,
        (true, true) => class::NEGATIVE_SMALL,
        (false, false) => class::POSITIVE_LARGE,
        (false, true) => class::NEGATIVE_LARGE,
    });
    let bits = magnitude.to_bits() << 1 | u64::from(more);
    out.extend_from_slice(&if negative { !bits } else { bits }.to_be_bytes());
}

/// Writes the `width` decimal digits of `digits` two in a byte, without trailing zeros, and a terminating 0.
fn digit_pairs(out: &mut Vec<u8>, negative: bool, digits: u128, width: u32) {
    let at = out.len();
    let mut rest = digits;
    let mut unit = 10u128.pow(width);
    while rest != 0 {
        // An odd last digit is paired with 0.
        let pair = if unit >= 100 {
            unit /= 100;
            let pair = rest / unit;
            rest %= unit;
            pair
        } else {
            std::mem::take(&mut rest) * 10
        };
        out.push(pair as u8 + 1);
    }
    out.push(0);
    complement_if(negative, &mut out[at..]);
}

fn complement_if(condition: bool, bytes: &mut [u8]) {
    if condition {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// A number's magnitude as read from its key bytes.
enum Magnitude {
    Integer(u64),
    Double(f64),
    Decimal { coefficient: u128, exponent: i32 },
}

/// Decodes the number of class `class`. `next` returns its other bytes.
pub(super) fn decode(
    class: u8,
    mut next: impl FnMut() -> Option<u8>,
    exception: Option<Exception>,
) -> Option<ValueBuf> {
    // These exceptions carry the whole value, so the key bytes are only skipped.
    match exception {
        Some(Exception::DoubleBits(bits)) => {
            skip(class, &mut next)?;
            return Some(ValueBuf::new(Value::Double(f64::from_le_bytes(bits))));
        }
        Some(Exception::DecimalBits(bits)) => {
            skip(class, &mut next)?;
            return Some(ValueBuf::new(Value::Decimal128(Decimal128(bits))));
        }
        _ => {}
    }
    let negative = class < class::ZERO;
    let value = match (magnitude(class, &mut next)?, exception) {
        (Magnitude::Integer(number), exception) => {
            let signed =
                if negative { 0i64.checked_sub_unsigned(number)? } else { i64::try_from(number).ok()? };
            match exception {
                None => i32::try_from(signed).map_or(Value::Int64(signed), Value::Int32),
                Some(Exception::Int64) => Value::Int64(signed),
                Some(Exception::Double) => Value::Double(signed as f64),
                Some(Exception::DecimalExponent(exponent)) => {
                    Value::Decimal128(rescaled(negative, number.into(), 0, exponent.into())?)
                }
                _ => return None,
            }
        }
        (Magnitude::Double(number), exception) => {
            let signed = if negative { -number } else { number };
            match exception {
                None => Value::Double(signed),
                Some(Exception::Int64) if signed == -TWO_POW_63 => Value::Int64(i64::MIN),
                _ => return None,
            }
        }
        (Magnitude::Decimal { coefficient, exponent }, exception) => {
            let wanted = match exception {
                None => exponent,
                Some(Exception::DecimalExponent(exponent)) => exponent.into(),
                _ => return None,
            };
            Value::Decimal128(rescaled(negative, coefficient, exponent, wanted)?)
        }
    };
    Some(ValueBuf::new(value))
}

/// Skips a number's bytes.
pub(super) fn skip(class: u8, next: &mut impl FnMut() -> Option<u8>) -> Option<()> {
    magnitude(class, next).map(|_| ())
}

/// The same value with another exponent, if that can be represented.
fn rescaled(negative: bool, coefficient: u128, exponent: i32, wanted: i32) -> Option<Decimal128> {
    let (coefficient, exponent) = without_trailing_zeros(coefficient, exponent);
    let zeros = u32::try_from(exponent - wanted).ok()?;
    let coefficient = coefficient.checked_mul(10u128.checked_pow(zeros)?)?;
    Decimal128::from_parts(negative, coefficient, wanted)
}

fn magnitude(class: u8, next: &mut impl FnMut() -> Option<u8>) -> Option<Magnitude> {
    let flip = if class < class::ZERO { 0xFF } else { 0 };
    let mut next = || Some(next()? ^ flip);
    let length = match class {
        // NaN's class is below zero, so the caller negates it.
        class::NAN => return Some(Magnitude::Double(-f64::NAN)),
        class::NEGATIVE_INFINITY | class::POSITIVE_INFINITY => return Some(Magnitude::Double(f64::INFINITY)),
        class::ZERO => return Some(Magnitude::Integer(0)),
        class::NEGATIVE_SMALL | class::POSITIVE_SMALL | class::NEGATIVE_LARGE | class::POSITIVE_LARGE => {
            let bits = big_endian(8, &mut next)?;
            if bits & 1 == 0 {
                return Some(Magnitude::Double(f64::from_bits(bits >> 1)));
            }
            let first = big_endian(2, &mut next)? as i32 - FIRST_DIGIT_BIAS;
            let (digits, width) = read_digit_pairs(&mut next)?;
            let (coefficient, exponent) = without_trailing_zeros(digits, first + 1 - width as i32);
            return Some(Magnitude::Decimal { coefficient, exponent });
        }
        class::NEGATIVE_8..=class::NEGATIVE_1 => class::NEGATIVE_1 + 1 - class,
        class::POSITIVE_1..=class::POSITIVE_8 => class + 1 - class::POSITIVE_1,
        _ => return None,
    };
    let doubled = big_endian(length, &mut next)?;
    let integer = doubled >> 1;
    if doubled & 1 == 0 {
        return Some(Magnitude::Integer(integer));
    }
    let bits = big_endian(7, &mut next)?;
    if bits & 1 == 0 {
        let fraction = (bits >> 1) as f64 / (1u64 << FRACTION_BITS) as f64;
        return Some(Magnitude::Double(integer as f64 + fraction));
    }
    let (fraction, width) = read_digit_pairs(&mut next)?;
    let coefficient = u128::from(integer).checked_mul(10u128.checked_pow(width)?)?.checked_add(fraction)?;
    let (coefficient, exponent) = without_trailing_zeros(coefficient, -(width as i32));
    (coefficient <= MAX_COEFFICIENT).then_some(Magnitude::Decimal { coefficient, exponent })
}

fn big_endian(length: u8, next: &mut impl FnMut() -> Option<u8>) -> Option<u64> {
    (0..length).try_fold(0, |number: u64, _| Some(number << 8 | u64::from(next()?)))
}

/// Reads digit pairs: the digits as a number, and their count.
fn read_digit_pairs(next: &mut impl FnMut() -> Option<u8>) -> Option<(u128, u32)> {
    let (mut digits, mut width) = (0u128, 0);
    loop {
        match next()? {
            0 => return Some((digits, width)),
            pair @ 1..=100 if width < 38 => {
                digits = digits * 100 + u128::from(pair - 1);
                width += 2;
            }
            _ => return None,
        }
    }
}
