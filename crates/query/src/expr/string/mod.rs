//! Operators over strings. This file holds case, length, concatenation and substrings; the submodules hold search,
//! replacement and trimming (`search`) and regular expressions (`regex`).

pub(super) mod regex;
pub(super) mod search;

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, as_i32, is_nullish, null, type_name};
use crate::expr::convert::{date_text, double_text};
use crate::expr::display::Shown;
use crate::expr::number::Number;
use crate::expr::{Args, EvalEnv};
use diwan_value::{ArrayBuilder, Value};
use std::borrow::Cow;

/// The text of an operand where an operator accepts more than strings: numbers and dates are formatted, null and
/// missing are empty.
fn text<'a>(value: Option<Value<'a>>) -> Result<Cow<'a, str>> {
    Ok(match value {
        None | Some(Value::Null | Value::Undefined) => Cow::Borrowed(""),
        Some(Value::String(text) | Value::Symbol(text) | Value::JavaScript(text)) => Cow::Borrowed(text),
        Some(Value::Double(number)) => Cow::Owned(double_text(number)),
        Some(Value::Int32(number)) => Cow::Owned(number.to_string()),
        Some(Value::Int64(number)) => Cow::Owned(number.to_string()),
        Some(Value::Decimal128(number)) => Cow::Owned(number.to_string()),
        Some(Value::DateTime(millis)) => Cow::Owned(date_text(millis)?),
        Some(Value::Timestamp(time)) => Cow::Owned(Shown(Some(Value::Timestamp(time))).to_string()),
        other => {
            let found = type_name(other);
            return Err(Error::new(16007, format!("can't convert from BSON type {found} to String")));
        }
    })
}

/// Makes a value of a text. A borrowed text is not copied.
fn value<'a>(text: Cow<'a, str>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match text {
        Cow::Borrowed(text) => Ok(Some(Value::String(text))),
        Cow::Owned(text) => env.string(&text).map(Some),
    }
}

pub(crate) fn concat<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut whole = String::new();
    for expr in args.exprs {
        match expr.eval(env)? {
            Some(Value::String(part)) => {
                env.check_size(whole.len().saturating_add(part.len()))?;
                whole.push_str(part);
            }
            value if is_nullish(value) => return null(),
            other => {
                let found = type_name(other);
                return Err(Error::new(16702, format!("$concat only supports strings, not {found}")));
            }
        }
    }
    env.string(&whole).map(Some)
}

pub(crate) fn strcasecmp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (left, right) = (text(args.eval(0, env)?)?, text(args.eval(1, env)?)?);
    let upper = |byte: u8| byte.to_ascii_uppercase();
    let order = left.bytes().map(upper).cmp(right.bytes().map(upper));
    Ok(Some(Value::Int32(order as i32)))
}

pub(crate) fn to_lower<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut text = text(args.eval(0, env)?)?;
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        text.to_mut().make_ascii_lowercase();
    }
    value(text, env)
}

pub(crate) fn to_upper<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut text = text(args.eval(0, env)?)?;
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        text.to_mut().make_ascii_uppercase();
    }
    value(text, env)
}

pub(crate) fn str_len_bytes<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match args.eval(0, env)? {
        Some(Value::String(text)) => Ok(Some(crate::expr::array::int(text.len()))),
        other => {
            let found = type_name(other);
            Err(Error::new(34473, format!("$strLenBytes requires a string argument, found: {found}")))
        }
    }
}

pub(crate) fn str_len_cp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match args.eval(0, env)? {
        Some(Value::String(text)) => Ok(Some(crate::expr::array::int(text.chars().count()))),
        other => {
            let found = type_name(other);
            Err(Error::new(34471, format!("$strLenCP requires a string argument, found: {found}")))
        }
    }
}

/// Truncates a number to an integer and clamps it to the range of `i64`.
fn to_long(number: Number) -> i64 {
    match number {
        Number::Int(number) => number.into(),
        Number::Long(number) => number,
        Number::Double(_) | Number::Decimal(_) => number.to_f64() as i64,
    }
}

/// The part `start..end` of a text. A borrowed text is not copied.
fn part<'a>(text: Cow<'a, str>, start: usize, end: usize, env: &EvalEnv<'a>) -> Evaluated<'a> {
    match text {
        Cow::Borrowed(text) => Ok(Some(Value::String(text.get(start..end).unwrap_or_default()))),
        Cow::Owned(text) => env.string(text.get(start..end).unwrap_or_default()).map(Some),
    }
}

/// `$substrBytes`, and its old name `$substr`.
pub(crate) fn substr_bytes<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    const OPERATOR: &str = "$substrBytes";
    let input = args.eval(0, env)?;
    let (start, length) = (args.eval(1, env)?, args.eval(2, env)?);
    let text = text(input)?;
    let number = |value: Option<Value<'_>>, name: &str, code: i32| {
        value.and_then(Number::of).map(to_long).ok_or_else(|| {
            let found = type_name(value);
            Error::new(code, format!("{OPERATOR}:  {name} must be a numeric type (is BSON type {found})"))
        })
    };
    let start = number(start, "starting index", 16034)?;
    let length = number(length, "length", 16035)?;
    let Ok(start) = usize::try_from(start) else {
        let message = format!("{OPERATOR}:  starting index must be non-negative (got: {start})");
        return Err(Error::new(50752, message));
    };
    let end = match usize::try_from(length) {
        Ok(length) => start.saturating_add(length).min(text.len()),
        Err(_) => text.len(),
    };
    if start >= text.len() {
        return Ok(Some(Value::String("")));
    }
    if !text.is_char_boundary(start) {
        let message = format!("{OPERATOR}:  Invalid range, starting index is a UTF-8 continuation byte.");
        return Err(Error::new(28656, message));
    }
    if !text.is_char_boundary(end) {
        let message =
            format!("{OPERATOR}:  Invalid range, ending index is in the middle of a UTF-8 character.");
        return Err(Error::new(28657, message));
    }
    part(text, start, end, env)
}

pub(crate) fn substr_cp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    const OPERATOR: &str = "$substrCP";
    let input = args.eval(0, env)?;
    let (start, length) = (args.eval(1, env)?, args.eval(2, env)?);
    let text = text(input)?;
    let integer = |value: Option<Value<'_>>, name: &str, codes: (i32, i32)| {
        if !value.is_some_and(|value| value.is_number()) {
            let found = type_name(value);
            let message = format!("{OPERATOR}: {name} must be a numeric type (is BSON type {found})");
            return Err(Error::new(codes.0, message));
        }
        as_i32(value).ok_or_else(|| {
            let message = format!(
                "{OPERATOR}: {name} cannot be represented as a 32-bit integral value: {}",
                Shown(value)
            );
            Error::new(codes.1, message)
        })
    };
    let start = integer(start, "starting index", (34450, 34451))?;
    let length = integer(length, "length", (34452, 34453))?;
    let Ok(length) = usize::try_from(length) else {
        return Err(Error::new(34454, format!("{OPERATOR}: length must be a nonnegative integer.")));
    };
    let Ok(start) = usize::try_from(start) else {
        let message = format!("{OPERATOR}: the starting index must be nonnegative integer.");
        return Err(Error::new(34455, message));
    };
    let mut bounds = text.char_indices().map(|(at, _)| at).skip(start);
    let first = bounds.next().unwrap_or(text.len());
    let end = match length {
        0 => first,
        _ => bounds.nth(length - 1).unwrap_or(text.len()),
    };
    part(text, first, end, env)
}

pub(crate) fn split<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let (input, separator) = (args.eval(0, env)?, args.eval(1, env)?);
    if is_nullish(input) || is_nullish(separator) {
        return null();
    }
    let string = |value: Option<Value<'a>>, which: &str, code: i32| {
        value.and_then(Value::as_str).ok_or_else(|| {
            let found = type_name(value);
            let message = format!(
                "$split requires an expression that evaluates to a string as a {which} argument, found: {found}"
            );
            Error::new(code, message)
        })
    };
    let input = string(input, "first", 40085)?;
    let separator = string(separator, "second", 40086)?;
    if separator.is_empty() {
        return Err(Error::new(40087, "$split requires a non-empty separator"));
    }
    let mut parts = ArrayBuilder::new();
    for part in input.split(separator) {
        env.tick()?;
        parts.push(part);
        env.check_size(parts.len())?;
    }
    env.array(parts).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::expr::testing::check;
    use diwan_value::{Decimal128, Value, array, doc};

    #[test]
    fn concat_joins_strings() {
        check(doc! { "$concat": ["a", "é", ""] }, "aé");
        check(doc! { "$concat": ["a", null] }, Value::Null);
        check(doc! { "$concat": ["$missing", "a"] }, Value::Null);
        check(doc! { "$concat": [] }, "");
        check(doc! { "$concat": ["a", 1] }, 16702);
    }

    #[test]
    fn case_operators_convert_text() {
        check(doc! { "$toUpper": "aé1" }, "Aé1");
        check(doc! { "$toLower": "ABC" }, "abc");
        check(doc! { "$toLower": 1.5 }, "1.5");
        check(doc! { "$toLower": null }, "");
        check(doc! { "$toUpper": Value::DateTime(0) }, "1970-01-01T00:00:00.000Z");
        check(doc! { "$toUpper": [[1]] }, 16007);
        check(doc! { "$strcasecmp": ["abc", "ABD"] }, Value::Int32(-1));
        check(doc! { "$strcasecmp": ["b", "A"] }, Value::Int32(1));
        check(doc! { "$strcasecmp": [null, ""] }, Value::Int32(0));
    }

    #[test]
    fn length_operators_count_bytes_and_code_points() {
        check(doc! { "$strLenBytes": "é€" }, Value::Int32(5));
        check(doc! { "$strLenCP": "é€" }, Value::Int32(2));
        check(doc! { "$strLenCP": null }, 34471);
        check(doc! { "$strLenCP": "$missing" }, 34471);
        check(doc! { "$strLenBytes": 1 }, 34473);
    }

    #[test]
    fn substr_bytes_gives_byte_ranges() {
        check(doc! { "$substrBytes": ["hello", 1, 3] }, "ell");
        check(doc! { "$substr": ["hello", 1, -1] }, "ello");
        check(doc! { "$substr": ["hello", 9, 2] }, "");
        check(doc! { "$substr": [12345, 1, 2] }, "23");
        check(doc! { "$substr": [null, 0, 2] }, "");
        check(doc! { "$substrBytes": ["é", 1, 1] }, 28656);
        check(doc! { "$substrBytes": ["é", 0, 1] }, 28657);
        check(doc! { "$substrBytes": ["a", -1, 1] }, 50752);
        check(doc! { "$substrBytes": ["a", "b", 1] }, 16034);
        check(doc! { "$substrBytes": ["a", 0, "b"] }, 16035);
    }

    #[test]
    fn substr_cp_gives_code_point_ranges() {
        check(doc! { "$substrCP": ["aé€z", 1, 2] }, "é€");
        check(doc! { "$substrCP": ["aé€z", 2, 9] }, "€z");
        check(doc! { "$substrCP": ["aé", 5, 1] }, "");
        check(doc! { "$substrCP": ["aé", 1, 0] }, "");
        check(doc! { "$substrCP": ["a", "x", 1] }, 34450);
        check(doc! { "$substrCP": ["a", 0.5, 1] }, 34451);
        check(doc! { "$substrCP": ["a", 0, "x"] }, 34452);
        check(doc! { "$substrCP": ["a", 0, 0.5] }, 34453);
        check(doc! { "$substrCP": ["a", 0, -1] }, 34454);
        check(doc! { "$substrCP": ["a", -1, 1] }, 34455);
    }

    #[test]
    fn split_separates_at_the_delimiter() {
        check(doc! { "$split": ["a--b", "-"] }, array!["a", "", "b"]);
        check(doc! { "$split": [null, "-"] }, Value::Null);
        check(doc! { "$split": [1, "-"] }, 40085);
        check(doc! { "$split": ["a", Decimal128::from(1)] }, 40086);
        check(doc! { "$split": ["a", ""] }, 40087);
    }
}
