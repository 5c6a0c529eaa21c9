//! Comparison operators, under the operation's collation. They compare across types; missing is below null.

use super::coerce::Evaluated;
use super::{Args, EvalEnv};
use crate::error::Result;
use diwan_value::Value;
use std::cmp::Ordering;

/// The order of the two arguments.
fn order<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Result<Ordering> {
    Ok(env.compare_optional(args.eval(0, env)?, args.eval(1, env)?))
}

pub(super) fn cmp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    Ok(Some(Value::Int32(order(args, env)? as i32)))
}

/// Defines an operator that tests the order.
macro_rules! comparisons {
    ($($name:ident => $test:expr;)*) => {$(
        pub(super) fn $name<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
            let test: fn(Ordering) -> bool = $test;
            Ok(Some(Value::Boolean(test(order(args, env)?))))
        }
    )*};
}

comparisons! {
    eq => Ordering::is_eq;
    ne => Ordering::is_ne;
    gt => Ordering::is_gt;
    gte => Ordering::is_ge;
    lt => Ordering::is_lt;
    lte => Ordering::is_le;
}
