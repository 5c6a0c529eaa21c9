//! `$dateToString` and `$dateFromString`.

use super::calendar::DAY;
use super::format::{ISO_LOCAL, ISO_UTC, TO_TEXT, check, format};
use super::parsed::{TextError, TextZone};
use super::zone::Zone;
use super::{date, free_text, pattern, zone};
use crate::error::{Error, Result, code};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{Args, EvalEnv, Expr, ParseEnv, named};
use diwan_value::Value;

/// Parses a date by a format, or in a common form without one. A time without a zone is in `zone`.
pub(super) fn date_from(text: &str, format: Option<&str>, zone: &Zone) -> Result<i64> {
    let failure = |message: String| Error::new(code::CONVERSION_FAILURE, message);
    let parsed = match format {
        Some(format) => pattern::parse(text, format),
        None => free_text::parse(text),
    };
    let parsed = parsed.map_err(|error| {
        let TextError { position, message } = error;
        let char = text.get(position..).and_then(|rest| rest.chars().next());
        let char = char.map(String::from).unwrap_or_default();
        failure(format!("Error parsing date string '{text}'; {position}: {message} '{char}'"))
    })?;
    let Some(days) = parsed.days else {
        let text =
            format!("an incomplete date/time string has been found, with elements missing: \"{text}\"");
        return Err(failure(text));
    };
    let seconds = match parsed.zone {
        None => zone.moment(days, parsed.second_of_day),
        Some(TextZone::Offset(_)) if !zone.is_utc() => {
            let text =
                "you cannot pass in a date/time string with GMT offset together with a timezone argument";
            return Err(failure(text.to_owned()));
        }
        Some(TextZone::Abbreviation(name, _)) if !zone.is_utc() => {
            let text = format!(
                "you cannot pass in a date/time string with time zone information ('{name}') together with a timezone \
                 argument"
            );
            return Err(failure(text));
        }
        Some(TextZone::Offset(offset) | TextZone::Abbreviation(_, offset)) => {
            days * DAY + parsed.second_of_day - offset
        }
    };
    super::millis(seconds, parsed.millisecond)
}

/// Parses `{date, format, timezone, onNull}`.
pub(in crate::expr) fn parse_to_string(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let not_an_object = || Error::new(18629, format!("{operator} only supports an object as its argument"));
    let unknown = |name: &str| Error::new(18534, format!("Unrecognized argument to {operator}: {name}"));
    let names = ["date", "format", "timezone", "onNull"];
    let [date, format, timezone, on_null] = named::parse(value, names, env, not_an_object, unknown)?;
    let missing = || Error::new(18628, format!("Missing 'date' parameter to {operator}"));
    let mut args = vec![
        date.ok_or_else(missing)?,
        named::or(timezone, Value::String("UTC")),
        named::or(on_null, Value::Null),
    ];
    args.extend(format);
    Ok(env.fold(Expr::Call { operator, function: to_string, args }))
}

/// The checked format in argument `at`; `None` if it is null.
fn format_of<'a>(
    args: Args<'a>,
    at: usize,
    allowed: &str,
    code: i32,
    env: &EvalEnv<'a>,
) -> Result<Option<&'a str>> {
    match args.eval(at, env)? {
        Some(Value::String(format)) => check(format, allowed).map(|()| Some(format)),
        value if is_nullish(value) => Ok(None),
        other => {
            let (operator, found, shown) = (args.operator, type_name(other), Shown(other));
            let text =
                format!("{operator} requires that 'format' be a string, found: {found} with value {shown}");
            Err(Error::new(code, text))
        }
    }
}

fn to_string<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?;
    let given = args.len() > 3;
    let format_given = if given { format_of(args, 3, TO_TEXT, 18533, env)? } else { None };
    let zone = zone(args, 1, env)?;
    if is_nullish(value) {
        return args.eval(2, env);
    }
    let Some(zone) = zone else { return null() };
    let layout = match format_given {
        Some(layout) => layout,
        None if given => return null(),
        None if zone.is_utc() => ISO_UTC,
        None => ISO_LOCAL,
    };
    env.string(&format(layout, date(value)?, &zone)?).map(Some)
}

/// Parses `{dateString, format, timezone, onNull, onError}`.
pub(in crate::expr) fn parse_from_string(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let not_an_object = || {
        let found = type_name(Some(value));
        Error::new(40540, format!("{operator} only supports an object as an argument, found: {found}"))
    };
    let unknown = |name: &str| Error::new(40541, format!("Unrecognized argument to {operator}: {name}"));
    let names = ["dateString", "format", "timezone", "onNull", "onError"];
    let [text, format, timezone, on_null, on_error] =
        named::parse(value, names, env, not_an_object, unknown)?;
    let missing = || Error::new(40542, format!("Missing 'dateString' parameter to {operator}"));
    let function = if format.is_some() { from_formatted } else { from_free };
    let mut args = vec![
        text.ok_or_else(missing)?,
        named::or(timezone, Value::String("UTC")),
        named::or(on_null, Value::Null),
        named::or(format, Value::Null),
    ];
    args.extend(on_error);
    Ok(env.fold(Expr::Call { operator, function, args }))
}

fn from_formatted<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    from_string(args, true, env)
}

fn from_free<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    from_string(args, false, env)
}

fn from_string<'a>(args: Args<'a>, formatted: bool, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?;
    let format = format_of(args, 3, pattern::FROM_TEXT, 40684, env)?;
    let zone = zone(args, 1, env)?;
    if is_nullish(value) {
        return args.eval(2, env);
    }
    let date = match value {
        Some(Value::String(text)) => {
            let Some(zone) = zone else { return null() };
            if formatted && format.is_none() {
                return null();
            }
            date_from(text, format, &zone)
        }
        other => {
            let (operator, found, shown) = (args.operator, type_name(other), Shown(other));
            let text = format!(
                "{operator} requires that 'dateString' be a string, found: {found} with value {shown}"
            );
            Err(Error::new(code::CONVERSION_FAILURE, text))
        }
    };
    match date {
        Err(error) if error.code == code::CONVERSION_FAILURE && args.len() > 4 => args.eval(4, env),
        date => date.map(|millis| Some(Value::DateTime(millis))),
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::testing::{Expected, check};
    use diwan_value::{DocBuf, Value, doc};

    /// 2017-06-05T14:03:09.007Z, a Monday.
    const DATE: Value<'static> = Value::DateTime(1_496_671_389_007);

    #[test]
    fn date_to_string_formats_dates() {
        for (format, timezone, text) in [
            ("%Y-%m-%dT%H:%M:%S.%LZ", "UTC", "2017-06-05T14:03:09.007Z"),
            ("%d %b %B %% é", "UTC", "05 Jun June % é"),
            ("%j %U %V %G %u %w", "UTC", "156 23 23 2017 1 2"),
            ("%H:%M %z (%Z)", "America/New_York", "10:03 -0400 (-240)"),
            ("%H:%M %z (%Z)", "+05:30", "19:33 +0530 (330)"),
            ("%z %Z", "UTC", "+0000 0"),
        ] {
            check(doc! { "$dateToString": { "date": DATE, "format": format, "timezone": timezone } }, text);
        }
        check(doc! { "$dateToString": { "date": DATE } }, "2017-06-05T14:03:09.007Z");
        let berlin = doc! { "$dateToString": { "date": DATE, "timezone": "Europe/Berlin" } };
        check(berlin, "2017-06-05T16:03:09.007");
        check(doc! { "$dateToString": { "date": null } }, Value::Null);
        check(doc! { "$dateToString": { "date": null, "onNull": "x" } }, "x");
        check(doc! { "$dateToString": { "date": DATE, "format": null } }, Value::Null);
        check(doc! { "$dateToString": { "date": DATE, "timezone": null } }, Value::Null);
    }

    #[test]
    fn date_to_string_rejects_invalid_formats() {
        check(doc! { "$dateToString": "x" }, 18629);
        check(doc! { "$dateToString": { "x": 1 } }, 18534);
        check(doc! { "$dateToString": { "format": "%Y" } }, 18628);
        check(doc! { "$dateToString": { "date": DATE, "format": 1 } }, 18533);
        check(doc! { "$dateToString": { "date": DATE, "format": "%" } }, 18535);
        let invalid = (18536, "Invalid format character '%n' in format string");
        check(doc! { "$dateToString": { "date": null, "format": "%n" } }, invalid);
        check(doc! { "$dateToString": { "date": "x" } }, 16006);
        check(doc! { "$dateToString": { "date": Value::DateTime(i64::MAX) } }, 18537);
    }

    fn from_string(arguments: DocBuf, expected: impl Into<Expected>) {
        check(doc! { "$dateFromString": arguments }, expected);
    }

    #[test]
    fn date_from_string_parses_dates() {
        let zoned = doc! { "dateString": "2017-06-05T10:03:09.007", "timezone": "America/New_York" };
        from_string(zoned, DATE);
        let formatted = doc! { "dateString": "05/06/2017", "format": "%d/%m/%Y" };
        from_string(formatted, Value::DateTime(1_496_620_800_000));
        from_string(doc! { "dateString": null, "onNull": 1 }, Value::Int32(1));
        from_string(doc! { "dateString": "x", "onError": 1 }, Value::Int32(1));
        from_string(doc! { "dateString": 5, "onError": "$$REMOVE" }, Expected::Value(None));
        from_string(doc! { "dateString": "x", "format": null }, Value::Null);
        from_string(doc! { "dateString": "2017-01-01", "timezone": null }, Value::Null);
    }

    #[test]
    fn date_from_string_rejects_other_text() {
        check(doc! { "$dateFromString": "x" }, 40540);
        from_string(doc! { "x": 1 }, 40541);
        from_string(doc! { "format": "%Y" }, 40542);
        from_string(doc! { "dateString": "x", "format": 1 }, 40684);
        let number = "$dateFromString requires that 'dateString' be a string, found: int with value 5";
        from_string(doc! { "dateString": 5 }, (241, number));
        let incomplete = "an incomplete date/time string has been found, with elements missing: \"July 4th\"";
        from_string(doc! { "dateString": "July 4th" }, (241, incomplete));
        let offset =
            "you cannot pass in a date/time string with GMT offset together with a timezone argument";
        from_string(
            doc! { "dateString": "2017-01-01T00:00:00+01:00", "timezone": "Europe/Berlin" },
            (241, offset),
        );
        let zone = "you cannot pass in a date/time string with time zone information ('Z') together with a timezone argument";
        from_string(doc! { "dateString": "2017-01-01T00:00:00Z", "timezone": "Europe/Berlin" }, (241, zone));
    }
}
