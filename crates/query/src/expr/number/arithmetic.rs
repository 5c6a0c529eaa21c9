//! Arithmetic operators.

use crate::error::{Error, Result, code};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::number::{Number, Width};
use crate::expr::{Args, EvalEnv};
use diwan_value::decimal::Rounding;
use diwan_value::{Decimal128, Value};

/// Wraps a result.
pub(crate) fn number<'a>(number: Number) -> Evaluated<'a> {
    Ok(Some(number.value()))
}

/// Wraps a decimal result.
pub(crate) fn decimal_number<'a>(number: Decimal128) -> Evaluated<'a> {
    Ok(Some(Value::Decimal128(number)))
}

/// The argument of a function of one number; `None` if it is null.
pub(crate) fn single<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Result<Option<Number>> {
    let value = args.eval(0, env)?;
    if is_nullish(value) {
        return Ok(None);
    }
    value.and_then(Number::of).map(Some).ok_or_else(|| {
        let text = format!("{} only supports numeric types, not {}", args.operator, type_name(value));
        Error::new(28765, text)
    })
}

/// The arguments of a function of two numbers; `None` if one is null. `names` has each argument's name and the code for
/// a wrong type.
fn pair<'a>(args: Args<'a>, env: &EvalEnv<'a>, names: [(&str, i32); 2]) -> Result<Option<(Number, Number)>> {
    let values = [args.eval(0, env)?, args.eval(1, env)?];
    if values.iter().any(|value| is_nullish(*value)) {
        return Ok(None);
    }
    let [left, right] = values.map(|value| value.and_then(Number::of));
    for ((operand, value), (name, code)) in [left, right].iter().zip(values).zip(names) {
        if operand.is_none() {
            let found = type_name(value);
            return Err(Error::new(code, format!("{}'s {name} must be numeric, not {found}", args.operator)));
        }
    }
    Ok(left.zip(right))
}

pub(crate) fn add<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut total = Number::Int(0);
    let mut date: Option<i64> = None;
    for expr in args.exprs {
        let value = expr.eval(env)?;
        match (value, value.and_then(Number::of)) {
            (_, Some(number)) => match &mut date {
                Some(millis) => *millis = shift_date(*millis, number, i64::checked_add)?,
                None => total = total + number,
            },
            (Some(Value::DateTime(millis)), _) => {
                if date.is_some() {
                    return Err(Error::new(16612, "only one date allowed in an $add expression"));
                }
                date = Some(shift_date(millis, total, i64::checked_add)?);
            }
            (value, _) if is_nullish(value) => return null(),
            (other, _) => {
                let found = type_name(other);
                let text = format!("$add only supports numeric or date types, not {found}");
                return Err(Error::type_mismatch(text));
            }
        }
    }
    match date {
        Some(millis) => Ok(Some(Value::DateTime(millis))),
        None => number(total),
    }
}

/// Adds or subtracts a rounded number of milliseconds to a date.
fn shift_date(millis: i64, number: Number, operation: fn(i64, i64) -> Option<i64>) -> Result<i64> {
    let by = match number {
        Number::Int(by) => Some(by.into()),
        Number::Long(by) => Some(by),
        // As a double, the upper bound is rounded up, so it is excluded.
        Number::Double(by) if by >= i64::MIN as f64 && by < i64::MAX as f64 => Some(by.round() as i64),
        Number::Double(_) => None,
        Number::Decimal(by) => by.to_i64(Rounding::HalfEven),
    };
    by.and_then(|by| operation(millis, by)).ok_or_else(|| Error::new(code::OVERFLOW, "date overflow"))
}

pub(crate) fn subtract<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (left, right) = (args.eval(0, env)?, args.eval(1, env)?);
    match (left.and_then(Number::of), right.and_then(Number::of)) {
        (Some(left), Some(right)) => return number(left - right),
        _ if is_nullish(left) || is_nullish(right) => return null(),
        (None, Some(by)) => {
            if let Some(Value::DateTime(millis)) = left {
                return Ok(Some(Value::DateTime(shift_date(millis, by, i64::checked_sub)?)));
            }
        }
        _ => {}
    }
    match (left, right) {
        (Some(Value::DateTime(left)), Some(Value::DateTime(right))) => {
            Ok(Some(Value::Int64(left.wrapping_sub(right))))
        }
        (Some(Value::DateTime(_)), other) => {
            Err(Error::type_mismatch(format!("can't $subtract {} from Date", type_name(other))))
        }
        _ => {
            let text = format!("can't $subtract {} from {}", type_name(right), type_name(left));
            Err(Error::type_mismatch(text))
        }
    }
}

pub(crate) fn multiply<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut product = Number::Int(1);
    for expr in args.exprs {
        let value = expr.eval(env)?;
        if is_nullish(value) {
            return null();
        }
        let Some(factor) = value.and_then(Number::of) else {
            let text = format!("$multiply only supports numeric types, not {}", type_name(value));
            return Err(Error::type_mismatch(text));
        };
        product = product * factor;
    }
    number(product)
}

/// The operands of `$divide` or `$mod`.
fn operands<'a>(args: Args<'a>, env: &EvalEnv<'a>, code: i32) -> Result<Option<(Number, Number)>> {
    let (left, right) = (args.eval(0, env)?, args.eval(1, env)?);
    if let Some(numbers) = left.and_then(Number::of).zip(right.and_then(Number::of)) {
        return Ok(Some(numbers));
    }
    if is_nullish(left) || is_nullish(right) {
        return Ok(None);
    }
    let (operator, left, right) = (args.operator, type_name(left), type_name(right));
    Err(Error::new(code, format!("{operator} only supports numeric types, not {left} and {right}")))
}

pub(crate) fn divide<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some((left, right)) = operands(args, env, code::TYPE_MISMATCH)? else { return null() };
    let by_zero = || Error::bad_value("can't $divide by zero");
    if left.width().max(right.width()) == Width::Decimal {
        let right = right.to_decimal();
        if right.is_zero() {
            return Err(by_zero());
        }
        return decimal_number(left.to_decimal() / right);
    }
    if right.to_f64() == 0.0 {
        return Err(by_zero());
    }
    number(Number::Double(left.to_f64() / right.to_f64()))
}

pub(crate) fn modulo<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some((left, right)) = operands(args, env, 16611)? else { return null() };
    let by_zero = |code| Error::new(code, "can't $mod by zero");
    let width = left.width().max(right.width());
    if width == Width::Decimal {
        let right = right.to_decimal();
        if right.is_zero() {
            return Err(by_zero(5733415));
        }
        return decimal_number(left.to_decimal() % right);
    }
    if right.to_f64() == 0.0 {
        return Err(by_zero(16610));
    }
    number(match (left.as_integer(), right.as_integer()) {
        (Some(left), Some(right)) => {
            let rest = left.wrapping_rem(right);
            if width == Width::Int { Number::narrowest(rest) } else { Number::Long(rest) }
        }
        _ => Number::Double(left.to_f64() % right.to_f64()),
    })
}

pub(crate) fn abs<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match single(args, env)? {
        None => null(),
        Some(Number::Double(operand)) => number(Number::Double(operand.abs())),
        Some(Number::Decimal(operand)) => decimal_number(operand.abs()),
        Some(Number::Int(operand)) => number(Number::narrowest(i64::from(operand).abs())),
        Some(Number::Long(operand)) => match operand.checked_abs() {
            Some(magnitude) => number(Number::Long(magnitude)),
            None => Err(Error::new(28680, "can't take $abs of long long min")),
        },
    }
}

pub(crate) fn exp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match single(args, env)? {
        None => null(),
        Some(Number::Decimal(operand)) => decimal_number(operand.exp()),
        Some(operand) => number(Number::Double(operand.to_f64().exp())),
    }
}

pub(crate) fn sqrt<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some(operand) = single(args, env)? else { return null() };
    if operand.to_f64() < 0.0 {
        return Err(Error::new(28714, "$sqrt's argument must be greater than or equal to 0"));
    }
    match operand {
        Number::Decimal(operand) => decimal_number(operand.sqrt()),
        operand => number(Number::Double(operand.to_f64().sqrt())),
    }
}

/// The logarithm of an operand, which must be positive or NaN.
fn logarithm<'a>(
    args: Args<'a>,
    env: &EvalEnv<'a>,
    code: i32,
    doubles: fn(f64) -> f64,
    decimals: fn(Decimal128) -> Decimal128,
) -> Evaluated<'a> {
    let Some(operand) = single(args, env)? else { return null() };
    if let Number::Decimal(operand) = operand
        && operand.to_f64() > 0.0
    {
        return decimal_number(decimals(operand));
    }
    let operand = operand.to_f64();
    if operand <= 0.0 {
        let text = format!("{}'s argument must be a positive number, but is {operand}", args.operator);
        return Err(Error::new(code, text));
    }
    number(Number::Double(doubles(operand)))
}

pub(crate) fn ln<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    logarithm(args, env, 28766, f64::ln, Decimal128::ln)
}

pub(crate) fn log10<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    logarithm(args, env, 28761, f64::log10, Decimal128::log10)
}

pub(crate) fn log<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some((operand, base)) = pair(args, env, [("argument", 28756), ("base", 28757)])? else {
        return null();
    };
    let (operand_double, base_double) = (operand.to_f64(), base.to_f64());
    if operand_double <= 0.0 {
        let text = format!("$log's argument must be a positive number, but is {operand_double}");
        return Err(Error::new(28758, text));
    }
    if base_double <= 0.0 || base_double == 1.0 {
        let text = format!("$log's base must be a positive number not equal to 1, but is {base_double}");
        return Err(Error::new(28759, text));
    }
    if operand.width().max(base.width()) == Width::Decimal {
        let (operand, base) = (operand.to_decimal(), base.to_decimal());
        return decimal_number(if base_double == 10.0 { operand.log10() } else { operand.ln() / base.ln() });
    }
    number(Number::Double(operand_double.ln() / base_double.ln()))
}

pub(crate) fn pow<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some((base, exponent)) = pair(args, env, [("base", 28762), ("exponent", 28763)])? else {
        return null();
    };
    if base.to_f64() == 0.0 && exponent.to_f64() < 0.0 {
        return Err(Error::new(28764, "$pow cannot take a base of 0 and a negative exponent"));
    }
    let width = base.width().max(exponent.width());
    if width == Width::Decimal {
        return decimal_number(base.to_decimal().pow(exponent.to_decimal()));
    }
    let exact =
        base.as_integer().zip(exponent.as_integer()).and_then(|(base, exponent)| integer_pow(base, exponent));
    number(match exact {
        Some(power) if width == Width::Int => Number::narrowest(power),
        Some(power) => Number::Long(power),
        None => Number::Double(base.to_f64().powf(exponent.to_f64())),
    })
}

/// The power as an integer, if it is one and fits.
fn integer_pow(base: i64, exponent: i64) -> Option<i64> {
    match (base, exponent) {
        (1, _) => Some(1),
        (-1, exponent) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (0, exponent) if exponent > 0 => Some(0),
        (base, exponent) => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

pub(crate) fn sigmoid<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match single(args, env)? {
        None => null(),
        Some(Number::Decimal(operand)) => {
            let one = Decimal128::from(1);
            decimal_number(one / (one + (-operand).exp()))
        }
        Some(operand) => number(Number::Double(1.0 / (1.0 + (-operand.to_f64()).exp()))),
    }
}
