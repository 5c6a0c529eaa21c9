//! Exact comparison of numbers across the four numeric types.
//!
//! No comparison rounds: 2^53 + 1 as an `Int64` is above 2^53 as a `Double`, and the `Double` 0.1 is above the decimal
//! 0.1. NaN is below every other number and equal to itself; the two zeros are equal.

use crate::decimal::Parts;
use crate::scalar::Decimal128;
use std::cmp::Ordering;

/// 2^63, the first `f64` above every `i64`.
pub(crate) const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// Compares two doubles.
#[inline]
pub(crate) fn doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Compares an integer with a double.
#[inline]
pub(crate) fn int_double(a: i64, b: f64) -> Ordering {
    if b.is_nan() || b < -TWO_POW_63 {
        Ordering::Greater
    } else if b >= TWO_POW_63 {
        Ordering::Less
    } else {
        let whole = b.trunc();
        a.cmp(&(whole as i64)).then_with(|| doubles(whole, b))
    }
}

/// Compares two decimals.
pub(crate) fn decimals(a: Decimal128, b: Decimal128) -> Ordering {
    parts(a.parts(), b.parts())
}

/// Compares an integer with a decimal.
pub(crate) fn int_decimal(a: i64, b: Decimal128) -> Ordering {
    parts(int_parts(a), b.parts())
}

/// Compares a double with a decimal.
pub(crate) fn double_decimal(a: f64, b: Decimal128) -> Ordering {
    match b.parts() {
        Parts::NaN => a.is_nan().cmp(&true).reverse(),
        _ if a.is_nan() => Ordering::Less,
        Parts::Infinity { negative: true } => doubles(a, f64::NEG_INFINITY),
        Parts::Infinity { negative: false } => doubles(a, f64::INFINITY),
        Parts::Finite { coefficient: 0, .. } => doubles(a, 0.0),
        Parts::Finite { negative, coefficient, exponent } => {
            if negative != (a < 0.0) || a == 0.0 {
                if negative { Ordering::Greater } else { Ordering::Less }
            } else if negative {
                magnitude(-a, coefficient, exponent).reverse()
            } else {
                magnitude(a, coefficient, exponent)
            }
        }
    }
}

/// An integer as a decimal's parts.
pub(crate) fn int_parts(number: i64) -> Parts {
    Parts::Finite { negative: number < 0, coefficient: number.unsigned_abs().into(), exponent: 0 }
}

/// Compares two decimals' parts.
fn parts(a: Parts, b: Parts) -> Ordering {
    // NaN < -inf < negative < zero < positive < inf
    let class = |parts: Parts| match parts {
        Parts::NaN => 0,
        Parts::Infinity { negative: true } => 1,
        Parts::Finite { coefficient: 0, .. } => 3,
        Parts::Finite { negative: true, .. } => 2,
        Parts::Finite { negative: false, .. } => 4,
        Parts::Infinity { negative: false } => 5,
    };
    class(a).cmp(&class(b)).then_with(|| match (a, b) {
        (
            Parts::Finite { negative, coefficient: a, exponent: a_exponent },
            Parts::Finite { coefficient: b, exponent: b_exponent, .. },
        ) if a != 0 => {
            let order = scaled(a, a_exponent).cmp(&scaled(b, b_exponent));
            if negative { order.reverse() } else { order }
        }
        _ => Ordering::Equal,
    })
}

/// A decimal's magnitude in a form that tuples compare correctly: the exponent of its first digit, and the coefficient
/// scaled to 38 digits. The coefficient must not be zero.
pub(crate) fn scaled(coefficient: u128, exponent: i32) -> (i32, u128) {
    let digits = coefficient.ilog10();
    (exponent + digits as i32, coefficient * 10u128.pow(37 - digits))
}

/// Compares a positive double (or infinity) with coefficient × 10^exponent. The coefficient is not zero.
pub(crate) fn magnitude(a: f64, coefficient: u128, exponent: i32) -> Ordering {
    if a == f64::INFINITY {
        return Ordering::Greater;
    }
    let (first, digits) = scaled(coefficient, exponent);
    // Usually the double is an integer of up to 53 bits, which converts exactly.
    if a < 9_007_199_254_740_992.0 && a.trunc() == a {
        return scaled(a as u128, 0).cmp(&(first, digits));
    }
    // The error of the logarithm is far below one hundredth, so it decides unless the numbers are very close.
    let estimate = a.log10() - f64::from(first);
    if estimate < -0.01 {
        return Ordering::Less;
    }
    if estimate > 1.01 {
        return Ordering::Greater;
    }
    // A double has at most 767 significant decimal digits, so this text is exact.
    let exact = format!("{a:.766e}");
    let Some((mantissa, exact_exponent)) = exact.split_once('e') else { return Ordering::Less };
    let exact_exponent: i32 = exact_exponent.parse().unwrap_or(0);
    let theirs = format!("{digits:038}");
    let mine = mantissa.bytes().filter(|&byte| byte != b'.');
    let padded = theirs.bytes().chain(std::iter::repeat(b'0'));
    exact_exponent.cmp(&first).then_with(|| {
        mine.zip(padded).map(|(a, b)| a.cmp(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    })
}
