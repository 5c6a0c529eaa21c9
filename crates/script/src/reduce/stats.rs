//! `_stats`: sum, count, minimum, maximum and sum of squares, of numbers or of arrays of numbers by position.

use super::sum::plus;
use super::{ReduceRow, text};
use crate::error::{Error, Result};
use crate::json::{self, Kind, Number};

#[derive(Clone, Copy, Debug)]
struct Stats {
    sum: Number,
    count: Number,
    min: Number,
    max: Number,
    squares: Number,
}

#[derive(Clone, Debug)]
enum Shape {
    One(Stats),
    Many(Vec<Stats>),
}

/// The first byte of a reduction that is an error; the text follows. Other reductions are the JSON of the result.
const SPOILED: u8 = b'!';

pub(super) fn rows<'a>(rows: &mut dyn Iterator<Item = ReduceRow<'a>>) -> Vec<u8> {
    encode(fold(rows.map(|row| row.value)))
}

pub(super) fn merge(parts: &[&[u8]]) -> Vec<u8> {
    if let Some(spoiled) = parts.iter().find(|part| part.first() == Some(&SPOILED)) {
        return spoiled.to_vec();
    }
    encode(fold(parts.iter().map(|part| text(part))))
}

pub(super) fn finish(reduction: &[u8]) -> Result<String> {
    match reduction.split_first() {
        Some((&SPOILED, reason)) => Err(Error::InvalidValue(text(reason).to_owned())),
        _ => Ok(text(reduction).to_owned()),
    }
}

fn fold<'a>(mut values: impl Iterator<Item = &'a str>) -> std::result::Result<Shape, String> {
    let Some(first) = values.next() else {
        let zero = Number::Integer(0);
        return Ok(Shape::One(Stats { sum: zero, count: zero, min: zero, max: zero, squares: zero }));
    };
    let begin = shape(first)?.ok_or_else(|| format!("non-numeric _stats input: {}", term(first)))?;
    values.try_fold(begin, |total, value| {
        let reject = || {
            let term = term(value);
            format!(
                "The _stats function requires that map values be numbers or arrays of numbers, not '{term}'"
            )
        };
        match (total, shape(value)?.ok_or_else(reject)?) {
            (Shape::One(total), Shape::One(next)) => Ok(Shape::One(join(total, next))),
            (Shape::Many(totals), Shape::Many(next)) if totals.len() == next.len() => {
                Ok(Shape::Many(totals.into_iter().zip(next).map(|(total, next)| join(total, next)).collect()))
            }
            _ => Err(reject()),
        }
    })
}

/// The shape of a value; `None` if it is not valid for `_stats`.
fn shape(value: &str) -> std::result::Result<Option<Shape>, String> {
    if json::kind(value) != Some(Kind::Array) {
        return Ok(one(value)?.map(Shape::One));
    }
    let mut all = Vec::new();
    for element in json::elements(value) {
        match one(element)? {
            Some(stats) => all.push(stats),
            None => return Ok(None),
        }
    }
    Ok(Some(Shape::Many(all)))
}

fn one(value: &str) -> std::result::Result<Option<Stats>, String> {
    if let Some(number) = Number::of(value) {
        let squares = match number {
            Number::Integer(whole) => whole
                .checked_mul(whole)
                .map_or(Number::Real((whole as f64) * (whole as f64)), Number::Integer),
            Number::Real(real) => Number::Real(real * real),
        };
        return Ok(Some(Stats { sum: number, count: Number::Integer(1), min: number, max: number, squares }));
    }
    match json::kind(value) {
        Some(Kind::Object) => {
            let member = |name: &str| match json::member(value, name) {
                None => Err(format!("user _stats input missing required field {name} ({})", term(value))),
                Some(text) => Number::of(text)
                    .ok_or_else(|| format!("non-numeric _stats input received for {name}: {}", term(text))),
            };
            Ok(Some(Stats {
                sum: member("sum")?,
                count: member("count")?,
                min: member("min")?,
                max: member("max")?,
                squares: member("sumsqr")?,
            }))
        }
        _ => Ok(None),
    }
}

fn join(one: Stats, other: Stats) -> Stats {
    let least = |a: Number, b: Number| if b.compare(a).is_lt() { b } else { a };
    let greatest = |a: Number, b: Number| if b.compare(a).is_gt() { b } else { a };
    Stats {
        sum: plus(one.sum, other.sum),
        count: plus(one.count, other.count),
        min: least(one.min, other.min),
        max: greatest(one.max, other.max),
        squares: plus(one.squares, other.squares),
    }
}

fn encode(outcome: std::result::Result<Shape, String>) -> Vec<u8> {
    let mut out = String::new();
    match outcome {
        Ok(Shape::One(stats)) => write(stats, &mut out),
        Ok(Shape::Many(all)) => {
            out.push('[');
            for (index, stats) in all.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(stats, &mut out);
            }
            out.push(']');
        }
        Err(reason) => {
            out.push(char::from(SPOILED));
            out.push_str(&reason);
        }
    }
    out.into_bytes()
}

fn write(stats: Stats, out: &mut String) {
    for (name, number) in [
        (r#"{"sum":"#, stats.sum),
        (r#","count":"#, stats.count),
        (r#","min":"#, stats.min),
        (r#","max":"#, stats.max),
        (r#","sumsqr":"#, stats.squares),
    ] {
        out.push_str(name);
        number.write(out);
    }
    out.push('}');
}

/// Formats a value as in CouchDB's messages, in Erlang's notation.
fn term(value: &str) -> String {
    match json::kind(value) {
        Some(Kind::String) => format!("<<{value}>>"),
        Some(Kind::Array) => format!("[{}]", json::elements(value).map(term).collect::<Vec<_>>().join(",")),
        Some(Kind::Object) => {
            let members: Vec<String> =
                json::members(value).map(|(name, value)| format!("{{<<{name}>>,{}}}", term(value))).collect();
            format!("{{[{}]}}", members.join(","))
        }
        _ => value.to_owned(),
    }
}
