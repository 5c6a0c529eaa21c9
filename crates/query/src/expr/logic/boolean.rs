//! Boolean operators.

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_truthy, type_name};
use crate::expr::{Args, EvalEnv};
use diwan_value::{Array, Value};

pub(crate) fn and<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    for expr in args.exprs {
        if !is_truthy(expr.eval(env)?) {
            return Ok(Some(Value::Boolean(false)));
        }
    }
    Ok(Some(Value::Boolean(true)))
}

pub(crate) fn or<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    for expr in args.exprs {
        if is_truthy(expr.eval(env)?) {
            return Ok(Some(Value::Boolean(true)));
        }
    }
    Ok(Some(Value::Boolean(false)))
}

pub(crate) fn not<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    Ok(Some(Value::Boolean(!is_truthy(args.eval(0, env)?))))
}

pub(crate) fn all_elements_true<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let array = elements(args, env, 17040)?;
    Ok(Some(Value::Boolean(array.iter().all(|value| is_truthy(Some(value))))))
}

pub(crate) fn any_element_true<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let array = elements(args, env, 17041)?;
    Ok(Some(Value::Boolean(array.iter().any(|value| is_truthy(Some(value))))))
}

/// The single argument, which must be an array.
fn elements<'a>(args: Args<'a>, env: &EvalEnv<'a>, code: i32) -> Result<Array<'a>> {
    let value = args.eval(0, env)?;
    value.and_then(Value::as_array).ok_or_else(|| {
        let found = type_name(value);
        Error::new(code, format!("{}'s argument must be an array, but is {found}", args.operator))
    })
}
