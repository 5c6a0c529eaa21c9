//! `_sum`: sums of numbers, of arrays by position, of objects by member.

use super::{ReduceLimit, ReduceRow, text};
use crate::json::{self, Kind, Number};
use std::collections::BTreeMap;

const REASON: &str = "The _sum function requires that map values be numbers, arrays of numbers, or objects. Objects cannot \
                      be mixed with other data structures. Objects can be arbitrarily nested, provided that the values for \
                      all fields are themselves numbers, arrays of numbers, or objects.";

#[derive(Clone, Debug)]
enum Sum {
    Number(Number),
    Array(Vec<Number>),
    Object(BTreeMap<String, Sum>),
    /// An error object, as JSON.
    Error(String),
}

/// The sum of the rows' values as JSON.
pub(super) fn rows<'a>(rows: &mut dyn Iterator<Item = ReduceRow<'a>>, limit: ReduceLimit) -> Vec<u8> {
    let mut input = 0;
    let total = all(rows.map(|row| {
        input += row.key.len() + row.value.len();
        row.value
    }));
    checked(limit, input, total)
}

/// The sum of partial sums.
pub(super) fn merge(parts: &[&[u8]], limit: ReduceLimit) -> Vec<u8> {
    let input = parts.iter().map(|part| part.len()).sum();
    checked(limit, input, all(parts.iter().map(|part| text(part))))
}

fn checked(limit: ReduceLimit, input: usize, total: Sum) -> Vec<u8> {
    let mut out = String::new();
    write(&total, &mut out);
    if let Some(reason) = limit.check(input, out.len()) {
        out = error_object(&reason, None);
    }
    out.into_bytes()
}

fn all<'a>(values: impl Iterator<Item = &'a str>) -> Sum {
    let mut total = Sum::Number(Number::Integer(0));
    for value in values {
        // A fast path for numbers, the most common values.
        if let (Sum::Number(sum), Some(number)) = (&mut total, Number::of(value)) {
            *sum = plus(*sum, number);
            continue;
        }
        match add(total, value) {
            Ok(sum) => total = sum,
            Err(error) => return Sum::Error(error),
        }
    }
    total
}

/// Adds a value, given as JSON, to a sum. The error is an object as JSON.
fn add(total: Sum, value: &str) -> Result<Sum, String> {
    let reject = || Err(error_object(REASON, Some(value)));
    if let Some(number) = Number::of(value) {
        return match total {
            Sum::Number(sum) => Ok(Sum::Number(plus(sum, number))),
            Sum::Array(sums) => Ok(Sum::Array(add_arrays(sums, vec![number]))),
            _ => reject(),
        };
    }
    match json::kind(value) {
        Some(Kind::Array) => {
            let numbers: Option<Vec<Number>> = json::elements(value).map(Number::of).collect();
            match (total, numbers) {
                (Sum::Number(sum), Some(numbers)) => Ok(Sum::Array(add_arrays(vec![sum], numbers))),
                (Sum::Array(sums), Some(numbers)) => Ok(Sum::Array(add_arrays(sums, numbers))),
                _ => reject(),
            }
        }
        Some(Kind::Object) => {
            if json::member(value, "error") == Some("\"builtin_reduce_error\"") {
                return Err(value.to_owned());
            }
            let mut sums = match total {
                Sum::Number(Number::Integer(0)) => BTreeMap::new(),
                Sum::Object(sums) => sums,
                _ => return reject(),
            };
            for (name, value) in json::members(value) {
                let name = json::unquote(name).into_owned();
                let before = sums.remove(&name).unwrap_or(Sum::Number(Number::Integer(0)));
                let after = add(before, value)?;
                sums.insert(name, after);
            }
            Ok(Sum::Object(sums))
        }
        _ => reject(),
    }
}

fn add_arrays(one: Vec<Number>, other: Vec<Number>) -> Vec<Number> {
    let (mut long, short) = if one.len() >= other.len() { (one, other) } else { (other, one) };
    for (sum, number) in long.iter_mut().zip(short) {
        *sum = plus(*sum, number);
    }
    long
}

pub(super) fn plus(one: Number, other: Number) -> Number {
    if let (Number::Integer(one), Number::Integer(other)) = (one, other)
        && let Some(sum) = one.checked_add(other)
    {
        return Number::Integer(sum);
    }
    Number::Real(one.as_f64() + other.as_f64())
}

fn write(sum: &Sum, out: &mut String) {
    match sum {
        Sum::Number(number) => number.write(out),
        Sum::Array(numbers) => {
            out.push('[');
            for (index, number) in numbers.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                number.write(out);
            }
            out.push(']');
        }
        Sum::Object(sums) => {
            out.push('{');
            for (index, (name, sum)) in sums.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json::quote(out, name);
                out.push(':');
                write(sum, out);
            }
            out.push('}');
        }
        Sum::Error(error) => out.push_str(error),
    }
}

fn error_object(reason: &str, cause: Option<&str>) -> String {
    let mut out = String::from(r#"{"error":"builtin_reduce_error","reason":"#);
    json::quote(&mut out, reason);
    if let Some(cause) = cause {
        out.push_str(r#","caused_by":"#);
        out.push_str(cause);
    }
    out.push('}');
    out
}
