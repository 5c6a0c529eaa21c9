//! `$literal`, `$rand`, `$meta`, and operators that give the size or the hash of a value.

use super::coerce::{Evaluated, is_nullish, null, type_name};
use super::{Args, EvalEnv, Expr, Node, ParseEnv};
use crate::error::{Error, Result, code};
use diwan_value::{Value, ValueBuf};
use std::sync::Arc;

/// Returns the argument as a constant, without parsing it.
pub(super) fn parse_literal(_: &'static str, value: Value<'_>, _: &ParseEnv<'_>) -> Result<Expr> {
    Ok(Expr::Literal(ValueBuf::new(value)))
}

/// `$rand`: a random number from 0 up to, but not including, 1.
#[derive(Debug)]
struct Rand;

/// Parses `{}` or `[]`.
pub(super) fn parse_rand(_: &'static str, value: Value<'_>, _: &ParseEnv<'_>) -> Result<Expr> {
    match value {
        Value::Document(doc) if doc.is_empty() => Ok(Expr::Node(Arc::new(Rand))),
        Value::Array(array) if array.is_empty() => Ok(Expr::Node(Arc::new(Rand))),
        Value::Document(_) | Value::Array(_) => {
            Err(Error::new(3040501, "$rand does not currently accept arguments"))
        }
        _ => Err(Error::new(10065, "invalid parameter: expected an object ($rand)")),
    }
}

impl Node for Rand {
    fn eval<'a>(&'a self, _: &EvalEnv<'a>) -> Evaluated<'a> {
        Ok(Some(Value::Double(fastrand::f64())))
    }

    fn children(&self) -> Vec<&Expr> {
        Vec::new()
    }
}

/// Rejects `$function`: expressions run no JavaScript.
pub(super) fn parse_function(operator: &'static str, _: Value<'_>, _: &ParseEnv<'_>) -> Result<Expr> {
    Err(Error::new(code::NOT_IMPLEMENTED, format!("Expression {operator} is not implemented")))
}

/// The kinds of metadata that `$meta` accepts, with the names that the error for unavailable metadata uses. A kind
/// without a name evaluates to missing.
const METADATA: &[(&str, Option<&str>)] = &[
    ("textScore", Some("text score")),
    ("geoNearDistance", Some("$geoNear distance")),
    ("geoNearPoint", Some("$geoNear point")),
    ("searchScore", None),
    ("searchHighlights", None),
    ("searchScoreDetails", None),
    ("searchSequenceToken", None),
    ("vectorSearchScore", None),
    ("score", None),
    ("scoreDetails", None),
    ("randVal", None),
    ("sortKey", Some("sort key")),
    ("recordId", None),
    ("indexKey", None),
    ("timeseriesBucketMinTime", None),
    ("timeseriesBucketMaxTime", None),
];

/// Rejects metadata, because no plan produces any.
pub(super) fn parse_meta(_: &'static str, value: Value<'_>, _: &ParseEnv<'_>) -> Result<Expr> {
    let Value::String(kind) = value else {
        return Err(Error::new(17307, "$meta only supports string arguments"));
    };
    match METADATA.iter().find(|(known, _)| *known == kind) {
        Some((_, Some(name))) => {
            Err(Error::new(40218, format!("query requires {name} metadata, but it is not available")))
        }
        Some((_, None)) => Ok(Expr::Missing),
        None => Err(Error::new(17308, format!("Unsupported argument to $meta: {kind}"))),
    }
}

pub(super) fn bson_size<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match args.eval(0, env)? {
        Some(Value::Document(doc)) => Ok(Some(super::array::int(doc.as_bytes().len()))),
        value if is_nullish(value) => null(),
        other => {
            let text = format!("$bsonSize requires a document input, found: {}", type_name(other));
            Err(Error::new(31393, text))
        }
    }
}

pub(super) fn binary_size<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match args.eval(0, env)? {
        Some(Value::String(text)) => Ok(Some(super::array::int(text.len()))),
        Some(Value::Binary { bytes, .. }) => Ok(Some(super::array::int(bytes.len()))),
        value if is_nullish(value) => null(),
        other => {
            let text =
                format!("$binarySize requires a string or BinData argument, found: {}", type_name(other));
            Err(Error::new(51276, text))
        }
    }
}

pub(super) fn to_hashed_index_key<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?.unwrap_or(Value::Null);
    Ok(Some(Value::Int64(diwan_value::hash_value(value))))
}
