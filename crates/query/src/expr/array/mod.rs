//! Operators over arrays. This file holds those that take elements by position or join arrays; the submodules hold
//! those that evaluate an expression for each element (`iteration`), treat an array as a set (`set`), or sort (`sort`).

pub(super) mod iteration;
pub(super) mod set;
pub(super) mod sort;
pub(super) mod zip;

pub(crate) use sort::check_n;

use crate::error::{Error, Result, code};
use crate::expr::coerce::{Evaluated, as_i32, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{Args, EvalEnv};
use diwan_value::{Array, ArrayBuilder, Value};

/// The memory limit of a `$range`.
const MAX_RANGE_BYTES: i64 = 100 * 1024 * 1024;

/// How many bytes an element counts towards that limit.
const RANGE_ELEMENT_BYTES: i64 = 24;

pub(crate) fn array_elem_at<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (array, index) = (args.eval(0, env)?, args.eval(1, env)?);
    if is_nullish(index) {
        return null();
    }
    let Some(array) = list(args, array, "first argument")? else { return null() };
    if !index.is_some_and(|index| index.is_number()) {
        let found = type_name(index);
        let text = format!("$arrayElemAt's second argument must be a numeric value, but is {found}");
        return Err(Error::new(28690, text));
    }
    let Some(at) = as_i32(index) else {
        let text = format!(
            "$arrayElemAt's second argument must be representable as a 32-bit integer: {}",
            Shown(index)
        );
        return Err(Error::new(28691, text));
    };
    match usize::try_from(at) {
        Ok(at) => Ok(array.get(at)),
        Err(_) => {
            let back = at.unsigned_abs() as usize;
            Ok(array.count().checked_sub(back).and_then(|at| array.get(at)))
        }
    }
}

pub(crate) fn first<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?;
    match list(args, value, "argument")? {
        Some(array) => Ok(array.get(0)),
        None => null(),
    }
}

pub(crate) fn last<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?;
    match list(args, value, "argument")? {
        Some(array) => Ok(array.elements().last().map(|element| element.value())),
        None => null(),
    }
}

/// The array operand; `None` if it is null.
fn list<'a>(args: Args<'a>, value: Option<Value<'a>>, which: &str) -> Result<Option<Array<'a>>> {
    match value {
        Some(Value::Array(array)) => Ok(Some(array)),
        value if is_nullish(value) => Ok(None),
        other => {
            let (operator, found) = (args.operator, type_name(other));
            Err(Error::new(28689, format!("{operator}'s {which} must be an array, but is {found}")))
        }
    }
}

pub(crate) fn concat_arrays<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut whole = ArrayBuilder::new();
    for expr in args.exprs {
        match expr.eval(env)? {
            Some(Value::Array(array)) => {
                env.check_size(whole.len().saturating_add(array.as_bytes().len()))?;
                for element in array.elements() {
                    whole.push(element.raw);
                }
            }
            value if is_nullish(value) => return null(),
            other => {
                let text = format!("$concatArrays only supports arrays, not {}", type_name(other));
                return Err(Error::new(28664, text));
            }
        }
    }
    env.array(whole).map(Some)
}

pub(crate) fn contains<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (value, array) = (args.eval(0, env)?, args.eval(1, env)?);
    let Some(Value::Array(array)) = array else {
        let found = type_name(array);
        return Err(Error::new(40081, format!("$in requires an array as a second argument, found: {found}")));
    };
    let found = value.is_some_and(|value| array.iter().any(|element| env.compare(element, value).is_eq()));
    Ok(Some(Value::Boolean(found)))
}

pub(crate) fn index_of_array<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let array = match args.eval(0, env)? {
        Some(Value::Array(array)) => array,
        value if is_nullish(value) => return null(),
        other => {
            let found = type_name(other);
            let text = format!("$indexOfArray requires an array as a first argument, found: {found}");
            return Err(Error::new(40090, text));
        }
    };
    let target = args.eval(1, env)?;
    let start = index_argument(args, 2, "starting index", env)?.unwrap_or(0);
    let end = index_argument(args, 3, "ending index", env)?.unwrap_or(usize::MAX);
    let mut window = array.iter().enumerate().take(end).skip(start);
    let found = window.find(|(_, value)| env.compare_optional(Some(*value), target).is_eq());
    Ok(Some(found.map_or(Value::Int32(-1), |(at, _)| int(at))))
}

/// An optional argument, which must be a non-negative integer.
pub(crate) fn index_argument<'a>(
    args: Args<'a>,
    at: usize,
    name: &str,
    env: &EvalEnv<'a>,
) -> Result<Option<usize>> {
    if at >= args.len() {
        return Ok(None);
    }
    let value = args.eval(at, env)?;
    let operator = args.operator;
    let Some(number) = as_i32(value) else {
        let text = format!(
            "{operator} requires an integral {name}, found a value of type: {}, with value: {}",
            type_name(value),
            Shown(value)
        );
        return Err(Error::new(40096, text));
    };
    usize::try_from(number).map(Some).map_err(|_| {
        Error::new(40097, format!("{operator} requires a nonnegative {name}, found: {}", Shown(value)))
    })
}

/// A count as MongoDB returns it: an `Int32` if it fits.
pub(crate) fn int(number: usize) -> Value<'static> {
    i32::try_from(number).map_or_else(|_| Value::Int64(number as i64), Value::Int32)
}

pub(crate) fn is_array<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    Ok(Some(Value::Boolean(matches!(args.eval(0, env)?, Some(Value::Array(_))))))
}

pub(crate) fn reverse_array<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let array = match args.eval(0, env)? {
        Some(Value::Array(array)) => array,
        value if is_nullish(value) => return null(),
        other => {
            let found = type_name(other);
            let text = format!("The argument to $reverseArray must be an array, but was of type: {found}");
            return Err(Error::new(34435, text));
        }
    };
    let values: Vec<_> = array.elements().map(|element| element.raw).collect();
    let mut reversed = ArrayBuilder::new();
    for value in values.into_iter().rev() {
        reversed.push(value);
    }
    env.array(reversed).map(Some)
}

pub(crate) fn size<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match args.eval(0, env)? {
        Some(Value::Array(array)) => Ok(Some(int(array.count()))),
        other => {
            let found = type_name(other);
            let text = format!("The argument to $size must be an array, but was of type: {found}");
            Err(Error::new(17124, text))
        }
    }
}

pub(crate) fn slice<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (value, second) = (args.eval(0, env)?, args.eval(1, env)?);
    if is_nullish(value) || is_nullish(second) {
        return null();
    }
    let Some(Value::Array(array)) = value else {
        let found = type_name(value);
        let text = format!("First argument to $slice must be an array, but is of type: {found}");
        return Err(Error::new(28724, text));
    };
    if !second.is_some_and(|second| second.is_number()) {
        let found = type_name(second);
        let text = format!("Second argument to $slice must be a numeric value, but is of type: {found}");
        return Err(Error::new(28725, text));
    }
    let Some(second_int) = as_i32(second) else {
        let text =
            format!("Second argument to $slice can't be represented as a 32-bit integer: {}", Shown(second));
        return Err(Error::new(28726, text));
    };
    // A negative position counts from the end and is clamped to the start.
    let from_start = |at: i32| match usize::try_from(at) {
        Ok(at) => at,
        Err(_) => array.count().saturating_sub(at.unsigned_abs() as usize),
    };
    let (start, count) = if args.len() == 2 {
        match usize::try_from(second_int) {
            Ok(count) => (0, count),
            Err(_) => (from_start(second_int), usize::MAX),
        }
    } else {
        let third = args.eval(2, env)?;
        if is_nullish(third) {
            return null();
        }
        (from_start(second_int), slice_count(third)?)
    };
    let mut part = ArrayBuilder::new();
    for element in array.elements().skip(start).take(count) {
        part.push(element.raw);
    }
    env.array(part).map(Some)
}

/// Parses the third argument of `$slice`.
fn slice_count(value: Option<Value<'_>>) -> Result<usize> {
    if !value.is_some_and(|value| value.is_number()) {
        let found = type_name(value);
        let text = format!("Third argument to $slice must be numeric, but is of type: {found}");
        return Err(Error::new(28727, text));
    }
    let Some(count) = as_i32(value) else {
        let text =
            format!("Third argument to $slice can't be represented as a 32-bit integer: {}", Shown(value));
        return Err(Error::new(28728, text));
    };
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Error::new(28729, format!("Third argument to $slice must be positive: {count}"))),
    }
}

pub(crate) fn range<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let bound = |at, name: &str, wanted: &str, codes: (i32, i32)| {
        let value = args.eval(at, env)?;
        if !value.is_some_and(|value| value.is_number()) {
            let found = type_name(value);
            let text = format!("$range requires a numeric {name} value, found value of type: {found}");
            return Err(Error::new(codes.0, text));
        }
        as_i32(value).map(i64::from).ok_or_else(|| {
            let text = format!(
                "$range requires {wanted} {name} value that can be represented as a 32-bit integer, found value: {}",
                Shown(value)
            );
            Error::new(codes.1, text)
        })
    };
    let start = bound(0, "starting", "a", (34443, 34444))?;
    let end = bound(1, "ending", "an", (34445, 34446))?;
    let step = if args.len() == 3 { bound(2, "step", "a", (34447, 34448))? } else { 1 };
    if step == 0 {
        return Err(Error::new(34449, "$range requires a non-zero step value"));
    }
    let steps = (end - start) / step;
    let bytes = RANGE_ELEMENT_BYTES * if steps >= 0 { 2 + steps } else { 1 };
    if bytes >= MAX_RANGE_BYTES {
        let text = format!(
            "$range would use too much memory ({bytes} bytes) and cannot spill to disk. Memory limit: \
             {MAX_RANGE_BYTES} bytes"
        );
        return Err(Error::new(code::EXCEEDED_MEMORY_LIMIT, text));
    }
    let mut output = ArrayBuilder::new();
    let mut current = start;
    while if step > 0 { current < end } else { current > end } {
        env.tick()?;
        output.push(current as i32);
        current += step;
    }
    env.array(output).map(Some)
}
