//! Arithmetic on Decimal128 with libdecnumber. Small exact cases are computed here.

use super::{MAX_COEFFICIENT, Parts};
use crate::scalar::Decimal128;
use dec::{Context, Decimal};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// libdecnumber's number: twelve units of three digits hold 34 digits.
type Number = Decimal<12>;

/// Wide enough for a 34-digit number times 10^[`STEP`].
type Wide = Decimal<24>;

/// By how many digits one step of the long division extends the remainder.
const STEP: i32 = 37;

/// How a number between two representable neighbours is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest; a tie goes to the even neighbour.
    HalfEven,
    /// To the nearest; a tie goes away from zero.
    HalfUp,
    /// Toward zero.
    TowardZero,
    /// Toward positive infinity.
    Ceiling,
    /// Toward negative infinity.
    Floor,
}

impl From<Rounding> for dec::Rounding {
    fn from(rounding: Rounding) -> dec::Rounding {
        match rounding {
            Rounding::HalfEven => dec::Rounding::HalfEven,
            Rounding::HalfUp => dec::Rounding::HalfUp,
            Rounding::TowardZero => dec::Rounding::Down,
            Rounding::Ceiling => dec::Rounding::Ceiling,
            Rounding::Floor => dec::Rounding::Floor,
        }
    }
}

/// A context with Decimal128's precision and exponents.
pub(super) fn context() -> Context<Number> {
    let mut context = Context::<Number>::default();
    // These values are within the limits of twelve units.
    let _ = context.set_precision(34);
    let _ = context.set_max_exponent(6144);
    let _ = context.set_min_exponent(-6143);
    context.set_clamp(true);
    context.set_rounding(dec::Rounding::HalfEven);
    context
}

/// Converts to libdecnumber's form.
fn to_number(decimal: Decimal128) -> Number {
    match decimal.parts() {
        Parts::NaN => Number::nan(),
        Parts::Infinity { negative } => {
            if negative {
                -Number::infinity()
            } else {
                Number::infinity()
            }
        }
        Parts::Finite { negative, coefficient, exponent } => {
            let mut number = Context::<Number>::default().from_u128(coefficient);
            number.set_exponent(exponent);
            if negative { -number } else { number }
        }
    }
}

/// Converts from libdecnumber's form. The number must already be rounded to the context's precision.
pub(super) fn from_number(number: &Number) -> Decimal128 {
    let negative = number.is_negative();
    if number.is_nan() {
        return Decimal128::NAN;
    }
    if number.is_infinite() {
        return if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY };
    }
    let coefficient = coefficient(number);
    Decimal128::from_parts(negative, coefficient, number.exponent()).unwrap_or(Decimal128::NAN)
}

/// The coefficient of a number of at most 38 digits.
fn coefficient<const N: usize>(number: &Decimal<N>) -> u128 {
    number.coefficient_units().iter().rev().fold(0, |sum: u128, &unit| sum * 1000 + u128::from(unit))
}

/// Applies an operation that overwrites its first operand.
fn binary(
    a: Decimal128,
    b: Decimal128,
    operation: impl FnOnce(&mut Context<Number>, &mut Number, &Number),
) -> Decimal128 {
    unary(a, |context, a| operation(context, a, &to_number(b)))
}

/// Applies an operation that overwrites its operand.
fn unary(a: Decimal128, operation: impl FnOnce(&mut Context<Number>, &mut Number)) -> Decimal128 {
    let mut number = to_number(a);
    operation(&mut context(), &mut number);
    from_number(&number)
}

/// The sum, if both numbers are finite and the sum is exact at the smaller exponent.
fn exact_sum(a: Decimal128, b: Decimal128) -> Option<Decimal128> {
    let (
        Parts::Finite { negative: a_negative, coefficient: a, exponent: a_exponent },
        Parts::Finite { negative: b_negative, coefficient: b, exponent: b_exponent },
    ) = (a.parts(), b.parts())
    else {
        return None;
    };
    let exponent = a_exponent.min(b_exponent);
    let scaled = |coefficient: u128, from: i32| {
        let scale = 10u128.checked_pow(from.abs_diff(exponent))?;
        coefficient.checked_mul(scale).filter(|&coefficient| coefficient <= MAX_COEFFICIENT)
    };
    let (a, b) = (scaled(a, a_exponent)?, scaled(b, b_exponent)?);
    let (negative, coefficient) = match (a_negative == b_negative, a.cmp(&b)) {
        (true, _) => (a_negative, a + b),
        // A number plus its opposite is positive zero.
        (false, std::cmp::Ordering::Equal) => (false, 0),
        (false, std::cmp::Ordering::Greater) => (a_negative, a - b),
        (false, std::cmp::Ordering::Less) => (b_negative, b - a),
    };
    Decimal128::from_parts(negative, coefficient, exponent)
}

/// The product, if both numbers are finite and the product is exact.
fn exact_product(a: Decimal128, b: Decimal128) -> Option<Decimal128> {
    let (
        Parts::Finite { negative: a_negative, coefficient: a, exponent: a_exponent },
        Parts::Finite { negative: b_negative, coefficient: b, exponent: b_exponent },
    ) = (a.parts(), b.parts())
    else {
        return None;
    };
    Decimal128::from_parts(a_negative != b_negative, a.checked_mul(b)?, a_exponent + b_exponent)
}

/// Defines an operator: an exact fast path, then libdecnumber.
macro_rules! operators {
    ($($operator:ident, $method:ident: $exact:expr, $rounded:expr;)*) => {$(
        impl $operator for Decimal128 {
            type Output = Decimal128;

            fn $method(self, other: Decimal128) -> Decimal128 {
                let exact: fn(Decimal128, Decimal128) -> Option<Decimal128> = $exact;
                exact(self, other).unwrap_or_else(|| binary(self, other, $rounded))
            }
        }
    )*};
}

operators! {
    Add, add: exact_sum, |context, a, b| context.add(a, b);
    Sub, sub: |a, b| exact_sum(a, -b), |context, a, b| context.sub(a, b);
    Mul, mul: exact_product, |context, a, b| context.mul(a, b);
    Div, div: |_, _| None, |context, a, b| context.div(a, b);
}

impl Rem for Decimal128 {
    type Output = Decimal128;

    /// The exact remainder of a division truncated toward zero. It has the dividend's sign.
    fn rem(self, other: Decimal128) -> Decimal128 {
        match (self.parts(), other.parts()) {
            (
                Parts::Finite { negative, coefficient, exponent },
                Parts::Finite { coefficient: divisor, exponent: divisor_exponent, .. },
            ) if exponent > divisor_exponent && divisor != 0 => {
                let left = long_remainder(coefficient, exponent - divisor_exponent, divisor);
                Decimal128::from_parts(negative, left, divisor_exponent).unwrap_or(Decimal128::NAN)
            }
            _ => binary(self, other, |context, a, b| context.rem(a, b)),
        }
    }
}

/// coefficient × 10^zeros modulo `divisor`. The quotient may have any length.
fn long_remainder(coefficient: u128, zeros: i32, divisor: u128) -> u128 {
    let mut context = Context::<Wide>::default();
    let wide_divisor = context.from_u128(divisor);
    let (mut left, mut zeros) = (coefficient % divisor, zeros);
    while zeros > 0 && left != 0 {
        let step = zeros.min(STEP);
        let mut number = context.from_u128(left);
        number.set_exponent(step);
        context.rem(&mut number, &wide_divisor);
        // A short remainder may keep trailing zeros in its exponent.
        left = coefficient_at_zero(&number);
        zeros -= step;
    }
    left
}

/// The value of a non-negative integer below 10^34 whose exponent is not negative.
fn coefficient_at_zero(number: &Wide) -> u128 {
    let exponent = u32::try_from(number.exponent()).unwrap_or(0);
    self::coefficient(number).saturating_mul(10u128.saturating_pow(exponent))
}

impl Neg for Decimal128 {
    type Output = Decimal128;

    fn neg(mut self) -> Decimal128 {
        self.0[15] ^= 0x80;
        self
    }
}

impl Decimal128 {
    /// The square root; NaN for negative numbers.
    pub fn sqrt(self) -> Decimal128 {
        unary(self, |context, a| context.sqrt(a))
    }

    /// e to this power.
    pub fn exp(self) -> Decimal128 {
        unary(self, |context, a| context.exp(a))
    }

    /// The natural logarithm; NaN for negative numbers.
    pub fn ln(self) -> Decimal128 {
        unary(self, |context, a| context.ln(a))
    }

    /// The logarithm to the base 10; NaN for negative numbers.
    pub fn log10(self) -> Decimal128 {
        unary(self, |context, a| context.log10(a))
    }

    /// Raises the number to the power of `exponent`.
    pub fn pow(self, exponent: Decimal128) -> Decimal128 {
        binary(self, exponent, |context, a, b| context.pow(a, b))
    }

    /// The number with the given exponent, rounded if digits are lost; NaN if the result needs more than 34 digits.
    pub fn quantize(self, exponent: i32, rounding: Rounding) -> Decimal128 {
        let Some(quantum) = Decimal128::from_parts(false, 1, exponent) else {
            return if self.is_finite() { Decimal128::NAN } else { self };
        };
        if self.is_infinite() {
            return self;
        }
        binary(self, quantum, |context, a, b| {
            context.set_rounding(rounding.into());
            context.quantize(a, b);
        })
    }

    /// The nearest integer by `rounding`. An integer is returned unchanged.
    pub(crate) fn round_to_integer(self, rounding: Rounding) -> Decimal128 {
        unary(self, |context, a| {
            context.set_rounding(rounding.into());
            context.round(a);
        })
    }
}
