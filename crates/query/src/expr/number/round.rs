//! Rounding operators.

use crate::error::Error;
use crate::expr::coerce::{Evaluated, as_i64, is_nullish, null, type_name};
use crate::expr::number::Number;
use crate::expr::number::arithmetic::{decimal_number, number, single};
use crate::expr::{Args, EvalEnv};
use diwan_value::Decimal128;
use diwan_value::decimal::Rounding;

pub(crate) fn ceil<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    whole(args, env, f64::ceil, Rounding::Ceiling)
}

pub(crate) fn floor<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    whole(args, env, f64::floor, Rounding::Floor)
}

/// Rounds to a whole number. Integers are returned unchanged.
fn whole<'a>(args: Args<'a>, env: &EvalEnv<'a>, doubles: fn(f64) -> f64, mode: Rounding) -> Evaluated<'a> {
    match single(args, env)? {
        None => null(),
        Some(Number::Double(operand)) => number(Number::Double(doubles(operand))),
        Some(Number::Decimal(operand)) => decimal_number(operand.quantize(0, mode)),
        Some(integer) => number(integer),
    }
}

pub(crate) fn round<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    at_place(args, env, Rounding::HalfEven)
}

pub(crate) fn trunc<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    at_place(args, env, Rounding::TowardZero)
}

/// Rounds at a decimal place. Places left of the point are negative.
fn at_place<'a>(args: Args<'a>, env: &EvalEnv<'a>, mode: Rounding) -> Evaluated<'a> {
    let operator = args.operator;
    let value = args.eval(0, env)?;
    if is_nullish(value) {
        return null();
    }
    let Some(operand) = value.and_then(Number::of) else {
        let text = format!("{operator} only supports numeric types, not {}", type_name(value));
        return Err(Error::new(51081, text));
    };
    let mut place = 0;
    if args.len() > 1 {
        let value = args.eval(1, env)?;
        if is_nullish(value) {
            return null();
        }
        place = as_i64(value).ok_or_else(|| {
            Error::new(51082, format!("precision argument to  {operator} must be a integral value"))
        })?;
    }
    let exponent = match i32::try_from(place) {
        Ok(place @ -20..=100) => -place,
        _ => {
            let text =
                format!("cannot apply {operator} with precision value {place} value must be in [-20, 100]");
            return Err(Error::new(51083, text));
        }
    };
    match operand {
        Number::Decimal(operand) => decimal_number(operand.quantize(exponent, mode)),
        Number::Double(operand) => {
            if !operand.is_finite() {
                return number(Number::Double(operand));
            }
            // Doubles are rounded in decimal, because a multiplication by a power of ten is inexact.
            let rounded = Decimal128::from_f64_digits(operand, 34).quantize(exponent, mode);
            number(Number::Double(rounded.to_f64()))
        }
        integer if exponent <= 0 => number(integer),
        integer => {
            let operand = integer.as_integer().unwrap_or_default();
            // A negative place may round an integer beyond its type.
            let rounded = Decimal128::from(operand).quantize(exponent, mode);
            let Some(rounded) = rounded.to_i64_exact() else {
                let text = format!(
                    "invalid conversion from Decimal128 result in {operator} resulting from arguments: [{operand}, \
                     {place}]"
                );
                return Err(Error::new(51080, text));
            };
            number(match integer {
                Number::Int(_) => Number::narrowest(rounded),
                _ => Number::Long(rounded),
            })
        }
    }
}
