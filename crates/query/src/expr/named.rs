//! Parses operators with named arguments: `{$dateAdd: {startDate: …, unit: …, amount: …}}`.
//!
//! Such a call becomes a plain [`Expr::Call`] whose argument positions follow the list of names. An omitted argument is
//! replaced by its default. Arguments that may be omitted without a default come last.

use super::{Expr, ParseEnv};
use crate::error::{Error, Result};
use diwan_value::{Value, ValueBuf};

/// Parses the arguments and returns them in the order of `names`, with `None` for omitted ones.
pub(super) fn parse<const N: usize>(
    value: Value<'_>,
    names: [&str; N],
    env: &ParseEnv<'_>,
    not_an_object: impl FnOnce() -> Error,
    unknown: impl FnOnce(&str) -> Error,
) -> Result<[Option<Expr>; N]> {
    let Value::Document(doc) = value else { return Err(not_an_object()) };
    let mut parts = [const { None }; N];
    for element in doc.iter() {
        let name = element.key_str();
        let Some(at) = names.iter().position(|known| *known == name) else { return Err(unknown(name)) };
        parts[at] = Some(Expr::parse(element.value(), env)?);
    }
    Ok(parts)
}

/// The argument, or a constant if it was omitted.
pub(super) fn or(argument: Option<Expr>, default: Value<'_>) -> Expr {
    argument.unwrap_or_else(|| Expr::Literal(ValueBuf::new(default)))
}

#[cfg(test)]
mod tests {
    use crate::expr::{Context, EvalEnv, Expr, ParseEnv};
    use bumpalo::Bump;
    use diwan_value::{Decimal128, Doc, DocBuilder, Value};

    /// Values at the limits of their types and of the operators' arguments.
    fn odd_values() -> Vec<Value<'static>> {
        vec![
            Value::Null,
            Value::Int32(7),
            Value::Int32(-1),
            Value::Int64(i64::MIN),
            Value::Int64(i64::MAX),
            Value::Int64(99_999_999_999),
            Value::Int64(-500_000_000),
            Value::Double(f64::NAN),
            Value::Double(1e300),
            Value::Decimal128(Decimal128::INFINITY),
            Value::DateTime(i64::MIN),
            Value::DateTime(i64::MAX),
            Value::DateTime(0),
            Value::String(""),
            Value::String("\u{10ffff}\u{e9}"),
            Value::String("2017-06-05T14:03:09.9999999999999999999999é"),
            Value::String("-0000-99-99T99:99:99+99:99"),
            Value::String("year"),
            Value::String("week"),
            Value::String("hour"),
            Value::String("%Y%m%d%H%M%S%L%j%G%V%u%z%Z%b%B%%"),
            Value::String("America/New_York"),
            Value::String("binData"),
            Value::String("hex"),
            Value::Binary { subtype: 4, bytes: &[0; 16] },
            Value::Boolean(true),
        ]
    }

    #[test]
    fn evaluating_unusual_arguments_does_not_panic() {
        let values = odd_values();
        let (context, mut arena, mut answers) = (Context::default(), Bump::new(), 0);
        for (operator, names, fixed) in [
            ("$dateAdd", ["startDate", "unit", "amount"], ("timezone", "Asia/Kolkata")),
            ("$dateSubtract", ["startDate", "unit", "amount"], ("timezone", "UTC")),
            ("$dateDiff", ["startDate", "endDate", "unit"], ("timezone", "America/New_York")),
            ("$dateTrunc", ["date", "unit", "binSize"], ("startOfWeek", "wed")),
            ("$dateFromParts", ["year", "day", "second"], ("timezone", "+14:00")),
            ("$dateFromParts", ["isoWeekYear", "isoWeek", "millisecond"], ("timezone", "-99:99")),
            ("$dateToParts", ["date", "timezone", "iso8601"], ("timezone", "Europe/Berlin")),
            ("$dateToString", ["date", "format", "timezone"], ("onNull", "x")),
            ("$dateFromString", ["dateString", "format", "timezone"], ("onNull", "x")),
            ("$convert", ["input", "to", "format"], ("byteOrder", "big")),
            ("$replaceAll", ["input", "find", "replacement"], ("find", "a")),
            ("$regexFindAll", ["input", "regex", "options"], ("options", "i")),
        ] {
            for at in 0..values.len().pow(3) {
                let mut arguments = DocBuilder::new();
                arguments.append(fixed.0, fixed.1);
                for (place, name) in (0..).zip(names) {
                    arguments.append(name, values[at / values.len().pow(place) % values.len()]);
                }
                let mut call = DocBuilder::new();
                call.append(operator, arguments.finish());
                let parsed = Expr::parse_document(call.finish().as_doc(), &ParseEnv::new());
                let answered =
                    parsed.is_ok_and(|expr| expr.eval(&EvalEnv::new(&arena, Doc::EMPTY, &context)).is_ok());
                answers += usize::from(answered);
                arena.reset();
            }
        }
        assert!(answers > 1000);
    }
}
