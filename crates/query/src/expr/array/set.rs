//! Set operators, under the operation's collation. They return sorted arrays where MongoDB does.

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::parse::parse_arguments;
use crate::expr::{Args, EvalEnv, Expr, ParseEnv};
use diwan_value::{Array, ArrayBuilder, Value};

/// The distinct values of an array, sorted.
struct Set<'a>(Vec<Value<'a>>);

impl<'a> Set<'a> {
    fn new(array: Array<'a>, env: &EvalEnv<'a>) -> Set<'a> {
        Set::of(array.iter().collect(), env)
    }

    fn of(mut values: Vec<Value<'a>>, env: &EvalEnv<'a>) -> Set<'a> {
        values.sort_by(|left, right| env.compare(*left, *right));
        values.dedup_by(|later, kept| env.compare(*later, *kept).is_eq());
        Set(values)
    }

    fn contains(&self, value: Value<'_>, env: &EvalEnv<'a>) -> bool {
        self.0.binary_search_by(|known| env.compare(*known, value)).is_ok()
    }

    fn build(self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let mut output = ArrayBuilder::new();
        for value in self.0 {
            output.push(value);
        }
        env.array(output).map(Some)
    }
}

/// Checks that an operand is an array.
fn array<'a>(value: Option<Value<'a>>, code: i32, text: impl FnOnce() -> String) -> Result<Array<'a>> {
    value.and_then(Value::as_array).ok_or_else(|| Error::new(code, text() + type_name(value)))
}

pub(crate) fn difference<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (left, right) = (args.eval(0, env)?, args.eval(1, env)?);
    if is_nullish(left) || is_nullish(right) {
        return null();
    }
    let text = |which: &str| {
        format!("both operands of $setDifference must be arrays. {which} argument is of type: ")
    };
    let left = array(left, 17048, || text("First"))?;
    let excluded = Set::new(array(right, 17049, || text("Second"))?, env);
    // The result keeps the order of the first operand, so duplicates are found by their position in the sorted set.
    let all = Set::new(left, env);
    let mut seen = vec![false; all.0.len()];
    let mut output = ArrayBuilder::new();
    for value in left.iter() {
        env.tick()?;
        let place = all.0.binary_search_by(|known| env.compare(*known, value));
        if let Ok(at) = place
            && !std::mem::replace(&mut seen[at], true)
            && !excluded.contains(value, env)
        {
            output.push(value);
        }
    }
    env.array(output).map(Some)
}

/// Parses two or more operands.
pub(crate) fn parse_equals(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let args = parse_arguments(value, env)?;
    if args.len() < 2 {
        let text = format!("$setEquals needs at least two arguments had: {}", args.len());
        return Err(Error::new(17045, text));
    }
    Ok(env.fold(Expr::Call { operator, function: equals, args }))
}

fn equals<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut first: Option<Set<'a>> = None;
    for (at, expr) in args.exprs.iter().enumerate() {
        // MongoDB rejects constants in the parser, with a different code.
        let code = if expr.as_literal().is_some() { 5887502 } else { 17044 };
        let operand = array(expr.eval(env)?, code, || {
            format!("All operands of $setEquals must be arrays. {}-th argument is of type: ", at + 1)
        })?;
        let set = Set::new(operand, env);
        match &first {
            None => first = Some(set),
            Some(first) => {
                let equal = first.0.len() == set.0.len()
                    && first.0.iter().zip(&set.0).all(|(left, right)| env.compare(*left, *right).is_eq());
                if !equal {
                    return Ok(Some(Value::Boolean(false)));
                }
            }
        }
    }
    Ok(Some(Value::Boolean(true)))
}

pub(crate) fn intersection<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut common: Option<Set<'a>> = None;
    for expr in args.exprs {
        let value = expr.eval(env)?;
        if is_nullish(value) {
            return null();
        }
        let operand = array(value, 17047, || {
            "All operands of $setIntersection must be arrays. One argument is of type: ".to_owned()
        })?;
        let set = Set::new(operand, env);
        common = Some(match common {
            None => set,
            Some(mut common) => {
                common.0.retain(|value| set.contains(*value, env));
                common
            }
        });
    }
    common.unwrap_or(Set(Vec::new())).build(env)
}

pub(crate) fn union<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut all = Vec::new();
    for expr in args.exprs {
        let value = expr.eval(env)?;
        if is_nullish(value) {
            return null();
        }
        let operand = array(value, 17043, || {
            "All operands of $setUnion must be arrays. One argument is of type: ".to_owned()
        })?;
        all.extend(operand.iter());
    }
    Set::of(all, env).build(env)
}

pub(crate) fn is_subset<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let text =
        |which: &str| format!("both operands of $setIsSubset must be arrays. {which} argument is of type: ");
    let left = array(args.eval(0, env)?, 17046, || text("First"))?;
    let right = array(args.eval(1, env)?, 17042, || text("Second"))?;
    let right = Set::new(right, env);
    Ok(Some(Value::Boolean(left.iter().all(|value| right.contains(value, env)))))
}
