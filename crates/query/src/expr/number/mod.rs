//! Numbers of the four numeric types, and the operators over them. Arithmetic follows MongoDB's promotion: the result
//! has the wider type, an `Int32` that overflows becomes an `Int64`, and an `Int64` that overflows becomes a `Double`.

pub(super) mod arithmetic;
pub(super) mod bitwise;
mod decimal_trigonometry;
pub(super) mod round;
pub(super) mod trigonometry;

use diwan_value::{Array, ArrayBuilder, Decimal128, Value};
use std::ops::{Add, Mul, Sub};

/// A number of one of the four types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An `Int32`.
    Int(i32),
    /// An `Int64`.
    Long(i64),
    /// A `Double`.
    Double(f64),
    /// A `Decimal128`.
    Decimal(Decimal128),
}

/// The width of a numeric type. Wider types come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Width {
    /// `Int32`.
    Int,
    /// `Int64`.
    Long,
    /// `Double`.
    Double,
    /// `Decimal128`.
    Decimal,
}

impl Number {
    /// The number, if the value is one.
    pub fn of(value: Value<'_>) -> Option<Number> {
        Some(match value {
            Value::Int32(number) => Number::Int(number),
            Value::Int64(number) => Number::Long(number),
            Value::Double(number) => Number::Double(number),
            Value::Decimal128(number) => Number::Decimal(number),
            _ => return None,
        })
    }

    /// The number as a value.
    pub fn value(self) -> Value<'static> {
        match self {
            Number::Int(number) => Value::Int32(number),
            Number::Long(number) => Value::Int64(number),
            Number::Double(number) => Value::Double(number),
            Number::Decimal(number) => Value::Decimal128(number),
        }
    }

    /// An `Int32` if the number fits, otherwise an `Int64`.
    pub(crate) fn narrowest(number: i64) -> Number {
        i32::try_from(number).map_or(Number::Long(number), Number::Int)
    }

    /// The type.
    pub(crate) fn width(self) -> Width {
        match self {
            Number::Int(_) => Width::Int,
            Number::Long(_) => Width::Long,
            Number::Double(_) => Width::Double,
            Number::Decimal(_) => Width::Decimal,
        }
    }

    /// The number as an integer, if it has an integer type.
    pub(crate) fn as_integer(self) -> Option<i64> {
        match self {
            Number::Int(number) => Some(number.into()),
            Number::Long(number) => Some(number),
            _ => None,
        }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int(number) => number.into(),
            Number::Long(number) => number as f64,
            Number::Double(number) => number,
            Number::Decimal(number) => number.to_f64(),
        }
    }

    /// The number as a decimal. A double is rounded to 15 digits.
    pub(crate) fn to_decimal(self) -> Decimal128 {
        match self {
            Number::Int(number) => Decimal128::from(number),
            Number::Long(number) => Decimal128::from(number),
            Number::Double(number) => Decimal128::from_f64(number),
            Number::Decimal(number) => number,
        }
    }

    fn combine(
        self,
        other: Number,
        integers: fn(i64, i64) -> Option<i64>,
        doubles: fn(f64, f64) -> f64,
        decimals: fn(Decimal128, Decimal128) -> Decimal128,
    ) -> Number {
        match (self.as_integer(), other.as_integer()) {
            (Some(left), Some(right)) => match integers(left, right) {
                Some(result) if self.width().max(other.width()) == Width::Int => Number::narrowest(result),
                Some(result) => Number::Long(result),
                None => Number::Double(doubles(left as f64, right as f64)),
            },
            _ if self.width().max(other.width()) == Width::Decimal => {
                Number::Decimal(decimals(self.to_decimal(), other.to_decimal()))
            }
            _ => Number::Double(doubles(self.to_f64(), other.to_f64())),
        }
    }
}

impl Add for Number {
    type Output = Number;

    fn add(self, other: Number) -> Number {
        self.combine(other, i64::checked_add, |left, right| left + right, |left, right| left + right)
    }
}

impl Sub for Number {
    type Output = Number;

    fn sub(self, other: Number) -> Number {
        self.combine(other, i64::checked_sub, |left, right| left - right, |left, right| left - right)
    }
}

impl Mul for Number {
    type Output = Number;

    fn mul(self, other: Number) -> Number {
        self.combine(other, i64::checked_mul, |left, right| left * right, |left, right| left * right)
    }
}

/// A sum of many numbers that depends on their order as little as doubles allow: integers and decimals are added
/// exactly, and doubles with compensation for rounding errors.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    integers: i128,
    doubles: Compensated,
    decimals: Option<Decimal128>,
    width: Width,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { integers: 0, doubles: Compensated::default(), decimals: None, width: Width::Int }
    }
}

impl Sum {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        self.width = self.width.max(number.width());
        match number {
            Number::Int(number) => self.integers += i128::from(number),
            Number::Long(number) => self.integers += i128::from(number),
            Number::Double(number) => self.doubles.add(number),
            Number::Decimal(number) => {
                self.decimals = Some(self.decimals.map_or(number, |sum| sum + number));
            }
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Sum) {
        self.width = self.width.max(other.width);
        self.integers += other.integers;
        self.doubles.merge(other.doubles);
        if let Some(number) = other.decimals {
            self.decimals = Some(self.decimals.map_or(number, |sum| sum + number));
        }
    }

    /// The sum as values for [`Sum::restore`].
    pub(crate) fn save(&self) -> ArrayBuilder {
        let mut parts = ArrayBuilder::new();
        parts.push(self.width as i32);
        parts.push(Value::Binary { subtype: 0, bytes: &self.integers.to_le_bytes() });
        parts.push(self.doubles.high).push(self.doubles.low).push(self.doubles.plain);
        if let Some(decimals) = self.decimals {
            parts.push(decimals);
        }
        parts
    }

    /// Restores a saved sum.
    pub(crate) fn restore(saved: Array<'_>) -> Sum {
        let mut sum = Sum::default();
        let mut doubles = Vec::with_capacity(3);
        for part in saved.iter() {
            match part {
                Value::Int32(0) => sum.width = Width::Int,
                Value::Int32(1) => sum.width = Width::Long,
                Value::Int32(2) => sum.width = Width::Double,
                Value::Int32(_) => sum.width = Width::Decimal,
                Value::Binary { bytes, .. } => {
                    sum.integers = bytes.try_into().map_or(0, i128::from_le_bytes);
                }
                Value::Double(number) => doubles.push(number),
                Value::Decimal128(number) => sum.decimals = Some(number),
                _ => {}
            }
        }
        if let [high, low, plain] = doubles[..] {
            sum.doubles = Compensated { high, low, plain };
        }
        sum
    }

    /// The sum in the widest type of its numbers. An integer that overflows becomes a double.
    pub fn total(&self) -> Number {
        match self.width {
            Width::Decimal => Number::Decimal(self.in_decimal()),
            Width::Double => Number::Double(self.rounded()),
            width => match i64::try_from(self.integers) {
                Ok(total) if width == Width::Int => Number::narrowest(total),
                Ok(total) => Number::Long(total),
                Err(_) => Number::Double(self.integers as f64),
            },
        }
    }

    /// The mean of `count` numbers: a double, or a decimal if one was added.
    pub fn mean(&self, count: i64) -> Number {
        if self.width == Width::Decimal {
            Number::Decimal(self.in_decimal() / Decimal128::from(count))
        } else {
            Number::Double(self.rounded() / count as f64)
        }
    }

    /// The sum of the numbers that are not decimals, rounded once.
    fn rounded(&self) -> f64 {
        let mut all = self.doubles;
        all.add_integer(self.integers);
        all.total()
    }

    fn in_decimal(&self) -> Decimal128 {
        let mut total = self.decimals.unwrap_or(Decimal128::ZERO);
        let mut parts = self.doubles;
        if parts.is_zero()
            && let Ok(integers) = i64::try_from(self.integers)
        {
            return total + Decimal128::from(integers);
        }
        parts.add_integer(self.integers);
        let (high, low) = parts.parts();
        for part in [high, low] {
            if part != 0.0 {
                total = total + Decimal128::from_f64_digits(part, 34);
            }
        }
        total
    }
}

/// A sum of doubles in two parts: the sum and its accumulated rounding error.
#[derive(Clone, Copy, Debug, Default)]
struct Compensated {
    high: f64,
    low: f64,
    /// The plain sum, which handles infinities and NaN correctly.
    plain: f64,
}

impl Compensated {
    fn add(&mut self, number: f64) {
        self.plain += number;
        let (high, error) = two_sum(self.high, number);
        (self.high, self.low) = two_sum(high, self.low + error);
    }

    fn add_integer(&mut self, number: i128) {
        let high = number as f64;
        self.add(high);
        // The rounding error of an integer as a double is an integer that a double can hold. The double is exact as an
        // `i128` here, since the sum of fewer than 2^60 64-bit integers is below 2^124.
        self.add((number - high as i128) as f64);
    }

    fn merge(&mut self, other: Compensated) {
        self.add(other.high);
        self.add(other.low);
        self.plain += other.plain - other.high - other.low;
    }

    fn is_zero(&self) -> bool {
        self.high == 0.0 && self.low == 0.0 && self.plain == 0.0
    }

    fn total(&self) -> f64 {
        if self.plain.is_finite() { self.high + self.low } else { self.plain }
    }

    fn parts(&self) -> (f64, f64) {
        if self.plain.is_finite() { (self.high, self.low) } else { (self.plain, 0.0) }
    }
}

/// The rounded sum and its exact rounding error.
fn two_sum(left: f64, right: f64) -> (f64, f64) {
    let sum = left + right;
    let right_part = sum - left;
    let error = (left - (sum - right_part)) + (right - right_part);
    (sum, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_widens_integers_only_on_overflow() {
        assert_eq!(Number::Int(i32::MAX) + Number::Int(1), Number::Long(1 << 31));
        assert_eq!(Number::Long(i64::MAX) + Number::Int(1), Number::Double(9.223_372_036_854_776e18));
        assert_eq!(Number::Long(1) + Number::Int(1), Number::Long(2));
        assert_eq!(Number::Int(3) * Number::Double(0.5), Number::Double(1.5));
    }

    #[test]
    fn sum_compensates_rounding_errors() {
        let mut sum = Sum::default();
        for number in [1e100, 1.0, -1e100] {
            sum.add(Number::Double(number));
        }
        assert_eq!(sum.total(), Number::Double(1.0));

        let mut longs = Sum::default();
        for number in [i64::MAX, 1, -2] {
            longs.add(Number::Long(number));
        }
        assert_eq!(longs.total(), Number::Long(i64::MAX - 1));
    }

    #[test]
    fn sum_of_infinities_follows_ieee() {
        let mut sum = Sum::default();
        sum.add(Number::Double(f64::INFINITY));
        sum.add(Number::Int(1));
        assert_eq!(sum.total(), Number::Double(f64::INFINITY));
        sum.add(Number::Double(f64::NEG_INFINITY));
        assert!(sum.total().to_f64().is_nan());
    }

    #[test]
    fn merged_sums_equal_one_sum() {
        let (mut left, mut right, mut both) = (Sum::default(), Sum::default(), Sum::default());
        for (at, number) in [0.1, 1e17, -3.5, 1e-9].into_iter().enumerate() {
            let part = if at % 2 == 0 { &mut left } else { &mut right };
            part.add(Number::Double(number));
            both.add(Number::Double(number));
        }
        left.merge(&right);
        assert_eq!(left.total(), both.total());
    }
}
