//! Bitwise operators over integers.

use crate::error::Error;
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::number::Number;
use crate::expr::number::arithmetic::{number, single};
use crate::expr::{Args, EvalEnv};

pub(crate) fn and<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    fold(args, env, -1, |left, right| left & right)
}

pub(crate) fn or<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    fold(args, env, 0, |left, right| left | right)
}

pub(crate) fn xor<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    fold(args, env, 0, |left, right| left ^ right)
}

/// Combines all operands. An `Int32` among `Int64`s is sign-extended.
fn fold<'a>(args: Args<'a>, env: &EvalEnv<'a>, unit: i32, combine: fn(i64, i64) -> i64) -> Evaluated<'a> {
    let mut result = Number::Int(unit);
    for expr in args.exprs {
        let value = expr.eval(env)?;
        if is_nullish(value) {
            return null();
        }
        let operand = value.and_then(Number::of);
        let (Some(operand), Some(left), Some(right)) =
            (operand, result.as_integer(), operand.and_then(Number::as_integer))
        else {
            let text = format!("{} only supports int and long operands.", args.operator);
            return Err(Error::type_mismatch(text));
        };
        let bits = combine(left, right);
        result = match (result, operand) {
            (Number::Int(_), Number::Int(_)) => Number::narrowest(bits),
            _ => Number::Long(bits),
        };
    }
    number(result)
}

pub(crate) fn not<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match single(args, env)? {
        None => null(),
        Some(Number::Int(operand)) => number(Number::Int(!operand)),
        Some(Number::Long(operand)) => number(Number::Long(!operand)),
        Some(other) => {
            let found = type_name(Some(other.value()));
            Err(Error::type_mismatch(format!("$bitNot only supports int and long, not: {found}.")))
        }
    }
}
