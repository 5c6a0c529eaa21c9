//! Reduce functions: the built-in ones in Rust, the others in JavaScript.
//!
//! A reduction is computed from rows or from other reductions. It is a byte string, so the tree stores it without
//! knowing its meaning. If a row's value cannot be reduced, the reduction contains the error, which affects only the
//! results that include the row.

pub(crate) mod builtin;
mod distinct;
mod limit;
mod rank;
mod stats;
mod sum;

use crate::error::{Error, Result};
use crate::json;
use crate::sandbox::Reducer;
use builtin::Builtin;
pub use limit::{Overflow, ReduceLimit};
use std::sync::Arc;

/// A row as input of a reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReduceRow<'a> {
    /// The row's place in the order of its view.
    pub place: &'a [u8],
    /// The key, as JSON.
    pub key: &'a str,
    /// The document's id.
    pub id: &'a str,
    /// The value, as JSON.
    pub value: &'a str,
}

/// The reduce function of a view.
#[derive(Clone)]
pub(crate) enum Reduce {
    /// A built-in function.
    Builtin(Builtin, ReduceLimit),
    /// A JavaScript function: a context and the function's number in it.
    Script(Arc<Reducer>, usize),
}

impl Reduce {
    /// Reduces rows. There must be at least one.
    pub fn rows<'a>(&self, rows: &mut dyn Iterator<Item = ReduceRow<'a>>) -> Result<Vec<u8>> {
        match self {
            Reduce::Builtin(Builtin::Sum, limit) => Ok(sum::rows(rows, *limit)),
            Reduce::Builtin(Builtin::Count, _) => Ok((rows.count() as u64).to_be_bytes().to_vec()),
            Reduce::Builtin(Builtin::Stats, _) => Ok(stats::rows(rows)),
            Reduce::Builtin(Builtin::Distinct, _) => Ok(distinct::rows(rows)),
            Reduce::Builtin(Builtin::First, _) => {
                Ok(rank::edge(rows.map(|row| (row.place, row.value)), true))
            }
            Reduce::Builtin(Builtin::Last, _) => {
                Ok(rank::edge(rows.map(|row| (row.place, row.value)), false))
            }
            Reduce::Builtin(Builtin::Top(most), _) => Ok(rank::rows(rows, *most, true)),
            Reduce::Builtin(Builtin::Bottom(most), _) => Ok(rank::rows(rows, *most, false)),
            Reduce::Script(reducer, function) => script_rows(reducer, *function, rows),
        }
    }

    /// Reduces rows, as [`Reduce::rows`] does, for the person who writes the function: what it throws is the error
    /// instead of null.
    pub fn try_rows<'a>(&self, rows: &mut dyn Iterator<Item = ReduceRow<'a>>) -> Result<Vec<u8>> {
        let Reduce::Script(reducer, function) = self else { return self.rows(rows) };
        let (keys, values) = script_arguments(rows);
        reducer.reduce(*function, Some(&keys), &values).map(String::into_bytes)
    }

    /// Merges reductions. There must be at least one.
    pub fn merge(&self, parts: &[&[u8]]) -> Result<Vec<u8>> {
        match self {
            Reduce::Builtin(Builtin::Sum, limit) => Ok(sum::merge(parts, *limit)),
            Reduce::Builtin(Builtin::Count, _) => {
                let total: u64 = parts.iter().map(|part| count(part)).sum();
                Ok(total.to_be_bytes().to_vec())
            }
            Reduce::Builtin(Builtin::Stats, _) => Ok(stats::merge(parts)),
            Reduce::Builtin(Builtin::Distinct, _) => Ok(distinct::merge(parts)),
            Reduce::Builtin(Builtin::First, _) => {
                Ok(rank::edge(parts.iter().filter_map(|part| rank::split(part)), true))
            }
            Reduce::Builtin(Builtin::Last, _) => {
                Ok(rank::edge(parts.iter().filter_map(|part| rank::split(part)), false))
            }
            Reduce::Builtin(Builtin::Top(most), _) => Ok(rank::merge(parts, *most, true)),
            Reduce::Builtin(Builtin::Bottom(most), _) => Ok(rank::merge(parts, *most, false)),
            Reduce::Script(reducer, function) => script_merge(reducer, *function, parts),
        }
    }

    /// Converts a reduction to the JSON that clients see.
    pub fn finish(&self, reduction: &[u8]) -> Result<String> {
        match self {
            Reduce::Builtin(Builtin::Count, _) => Ok(count(reduction).to_string()),
            Reduce::Builtin(Builtin::Stats, _) => stats::finish(reduction),
            Reduce::Builtin(Builtin::Distinct, _) => Ok(distinct::finish(reduction).to_string()),
            Reduce::Builtin(Builtin::First | Builtin::Last, _) => {
                Ok(rank::split(reduction).map_or_else(|| "null".to_owned(), |(_, value)| value.to_owned()))
            }
            Reduce::Builtin(Builtin::Top(_) | Builtin::Bottom(_), _) => Ok(rank::finish(reduction)),
            Reduce::Builtin(Builtin::Sum, _) | Reduce::Script(..) => Ok(text(reduction).to_owned()),
        }
    }
}

fn count(reduction: &[u8]) -> u64 {
    reduction.try_into().map_or(0, u64::from_be_bytes)
}

/// The text of a reduction that is JSON.
fn text(reduction: &[u8]) -> &str {
    std::str::from_utf8(reduction).unwrap_or("null")
}

/// The member that marks a reduction that did not shrink.
const OVERFLOW: &str = "reduce_overflow_error";

fn script_rows<'a>(
    reducer: &Reducer,
    function: usize,
    rows: &mut dyn Iterator<Item = ReduceRow<'a>>,
) -> Result<Vec<u8>> {
    let (keys, values) = script_arguments(rows);
    run_function(reducer, function, Some(&keys), &values)
}

/// The first two arguments of a reduce function, as JSON.
fn script_arguments<'a>(rows: &mut dyn Iterator<Item = ReduceRow<'a>>) -> (String, String) {
    let (mut keys, mut values) = (String::from("["), String::from("["));
    for row in rows {
        if keys.len() > 1 {
            keys.push(',');
            values.push(',');
        }
        keys.push('[');
        keys.push_str(row.key);
        keys.push(',');
        json::quote(&mut keys, row.id);
        keys.push(']');
        values.push_str(row.value);
    }
    keys.push(']');
    values.push(']');
    (keys, values)
}

fn script_merge(reducer: &Reducer, function: usize, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let spoiled = parts.iter().find(|part| text(part).starts_with(&format!("{{\"{OVERFLOW}\":")));
    if let Some(spoiled) = spoiled {
        return Ok(spoiled.to_vec());
    }
    let values: Vec<&str> = parts.iter().map(|part| text(part)).collect();
    run_function(reducer, function, None, &format!("[{}]", values.join(",")))
}

fn run_function(reducer: &Reducer, function: usize, keys: Option<&str>, values: &str) -> Result<Vec<u8>> {
    let input = keys.map_or(0, str::len) + values.len();
    let output = match reducer.reduce(function, keys, values) {
        Ok(output) => output,
        Err(error @ (Error::Timeout(_) | Error::Exhausted(_) | Error::Store(_) | Error::Ended)) => {
            return Err(error);
        }
        Err(Error::Thrown { name, reason }) if name == "fatal" => return Err(Error::Thrown { name, reason }),
        Err(error) => {
            tracing::info!(target: "diwan::script", "function raised exception {error}");
            "null".to_owned()
        }
    };
    match reducer.limit().check(input, output.len()) {
        Some(reason) => Ok(format!("{{\"{OVERFLOW}\":{}}}", json::quoted(&reason)).into_bytes()),
        None => Ok(output.into_bytes()),
    }
}

#[cfg(test)]
mod tests;
