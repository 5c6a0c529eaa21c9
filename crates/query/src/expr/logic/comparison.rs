//! Comparison operators, under the operation's collation. Values of different types compare by type; missing is below
//! null.

use crate::error::Result;
use crate::expr::coerce::Evaluated;
use crate::expr::{Args, EvalEnv};
use diwan_value::Value;
use std::cmp::Ordering;

/// Compares the two arguments.
fn order<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Result<Ordering> {
    Ok(env.compare_optional(args.eval(0, env)?, args.eval(1, env)?))
}

pub(crate) fn cmp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    Ok(Some(Value::Int32(order(args, env)? as i32)))
}

/// Defines an operator that tests the order.
macro_rules! comparisons {
    ($($name:ident => $test:expr;)*) => {$(
        pub(crate) fn $name<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
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
