//! `$convert` and its short forms `$toInt`, `$toString`, …; `$type` and `$isNumber`.
//!
//! A failed conversion gives [`code::CONVERSION_FAILURE`], which `onError` catches. Invalid arguments of `$convert`
//! itself have other codes, which `onError` does not catch.

mod binary;
mod number;
mod short;
mod target;

pub(super) use super::date::date_text;
pub(super) use number::double_text;
pub(super) use short::*;

use super::coerce::{Evaluated, is_truthy, type_name};
use super::date::{date_of, parse_date};
use super::{Args, EvalEnv, Expr, ParseEnv, named};
use crate::error::{Error, Result, code};
use binary::{ByteOrder, Format};
use diwan_value::{Decimal128, ObjectId, Type, Value};
use target::Target;

/// The error of a failed conversion.
fn failure(text: impl Into<String>) -> Error {
    Error::new(code::CONVERSION_FAILURE, text)
}

/// Parses `{input, to, format, byteOrder, onNull, onError}`.
pub(super) fn parse_convert(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let not_an_object = || {
        let found = type_name(Some(value));
        Error::failed_to_parse(format!("{operator} expects an object of named arguments but found: {found}"))
    };
    let unknown =
        |name: &str| Error::failed_to_parse(format!("{operator} found an unknown argument: {name}"));
    let names = ["input", "to", "format", "byteOrder", "onNull", "onError"];
    let [input, to, format, byte_order, on_null, on_error] =
        named::parse(value, names, env, not_an_object, unknown)?;
    let missing = |name| Error::failed_to_parse(format!("Missing '{name}' parameter to {operator}"));
    let mut args = vec![
        input.ok_or_else(|| missing("input"))?,
        to.ok_or_else(|| missing("to"))?,
        named::or(format, Value::Null),
        named::or(byte_order, Value::Null),
        named::or(on_null, Value::Null),
    ];
    args.extend(on_error);
    Ok(env.fold(Expr::Call { operator, function: convert, args }))
}

fn convert<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (to, input) = (args.eval(1, env)?, args.eval(0, env)?);
    let (format, byte_order) = (args.eval(2, env)?, args.eval(3, env)?);
    let target = Target::of(to)?;
    let Some(input) = input.filter(|input| !input.is_nullish()) else { return args.eval(4, env) };
    let Some(target) = target else { return Ok(Some(Value::Null)) };
    let options = Options { format: Format::of(format)?, byte_order: ByteOrder::of(byte_order)? };
    match convert_to(target, input, options, env) {
        Err(error) if error.code == code::CONVERSION_FAILURE && args.len() > 5 => args.eval(5, env),
        result => result.map(Some),
    }
}

/// How binary data is converted.
#[derive(Clone, Copy)]
struct Options {
    format: Option<Format>,
    byte_order: ByteOrder,
}

/// Converts a value that is not null.
fn convert_to<'a>(
    target: Target<'a>,
    input: Value<'a>,
    options: Options,
    env: &EvalEnv<'a>,
) -> Result<Value<'a>> {
    match (target.tag, input) {
        (Type::Boolean, input) => Ok(Value::Boolean(is_truthy(Some(input)))),
        (Type::Binary, input) => binary::to_binary(target, input, options.format, options.byte_order, env),
        (Type::Double | Type::Int32 | Type::Int64, Value::Binary { bytes, .. }) => {
            binary::to_number(target.tag, input, bytes, options.byte_order)
        }
        (Type::Double, Value::Boolean(flag)) => Ok(Value::Double(u8::from(flag).into())),
        (Type::Double, Value::DateTime(millis)) => Ok(Value::Double(millis as f64)),
        (Type::Double, Value::String(text)) => number::parse_double(text).map(Value::Double),
        (Type::Double, input) if input.is_number() => number::to_double(input).map(Value::Double),
        (Type::Int32, Value::Boolean(flag)) => Ok(Value::Int32(flag.into())),
        (Type::Int32, Value::String(text)) => number::parse_int(text).map(Value::Int32),
        (Type::Int32, input) if input.is_number() => number::to_int(input).map(Value::Int32),
        (Type::Int64, Value::Boolean(flag)) => Ok(Value::Int64(flag.into())),
        (Type::Int64, Value::DateTime(millis)) => Ok(Value::Int64(millis)),
        (Type::Int64, Value::String(text)) => number::parse_long(text).map(Value::Int64),
        (Type::Int64, input) if input.is_number() => number::to_long(input).map(Value::Int64),
        (Type::Decimal128, Value::Boolean(flag)) => Ok(Value::Decimal128(Decimal128::from(i32::from(flag)))),
        (Type::Decimal128, Value::DateTime(millis)) => Ok(Value::Decimal128(Decimal128::from(millis))),
        (Type::Decimal128, Value::String(text)) => number::parse_decimal(text).map(Value::Decimal128),
        (Type::Decimal128, input) if let Some(number) = super::number::Number::of(input) => {
            Ok(Value::Decimal128(number.to_decimal()))
        }
        (Type::DateTime, Value::Int64(_) | Value::Double(_) | Value::Decimal128(_)) => {
            number::to_long(input).map(Value::DateTime)
        }
        (Type::DateTime, Value::String(text)) => parse_date(text).map(Value::DateTime),
        (Type::DateTime, input) if let Some(millis) = date_of(Some(input)) => Ok(Value::DateTime(millis)),
        (Type::ObjectId, Value::ObjectId(_)) | (Type::String, Value::String(_)) => Ok(input),
        (Type::ObjectId, Value::String(text)) => object_id(text).map(Value::ObjectId),
        (Type::String, Value::Double(number)) => env.string(&double_text(number)),
        (Type::String, Value::Int32(number)) => env.string(&number.to_string()),
        (Type::String, Value::Int64(number)) => env.string(&number.to_string()),
        (Type::String, Value::Decimal128(number)) => env.string(&number.to_string()),
        (Type::String, Value::Boolean(flag)) => Ok(Value::String(if flag { "true" } else { "false" })),
        (Type::String, Value::ObjectId(id)) => env.string(&id.to_string()),
        (Type::String, Value::DateTime(millis)) => env.string(&date_text(millis)?),
        (Type::String, Value::Binary { subtype, bytes }) => {
            binary::to_text(input, subtype, bytes, options.format, env)
        }
        (tag, input) => {
            let found = input.tag().alias();
            Err(failure(format!(
                "Unsupported conversion from {found} to {} in $convert with no onError value",
                tag.alias()
            )))
        }
    }
}

/// Parses 24 hexadecimal digits.
fn object_id(text: &str) -> Result<ObjectId> {
    ObjectId::parse_hex(text).ok_or_else(|| {
        let reason = match text.len() {
            24 => "Invalid character found in hex string".to_owned(),
            length => {
                format!("Invalid string length for parsing to OID, expected 24 but found {length}")
            }
        };
        failure(format!("Failed to parse objectId '{text}' in $convert with no onError value: {reason}"))
    })
}

/// `$type`: the name of the type.
pub(super) fn type_of<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    Ok(Some(Value::String(type_name(args.eval(0, env)?))))
}

/// `$isNumber`.
pub(super) fn is_number<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?;
    Ok(Some(Value::Boolean(value.is_some_and(|value| value.is_number()))))
}

#[cfg(test)]
mod tests;
