//! `$year`, `$month` and the other operators for one part of a date, and `$dateToParts`.

use super::calendar::iso_day_of_week;
use super::zone::Local;
use super::{date, zone};
use crate::display::ShownField;
use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::{Args, EvalEnv, Expr, ParseEnv, named};
use diwan_value::{Doc, DocBuilder, Value};

/// Parses `date`, `[date]` or `{date, timezone}`.
pub(in crate::expr) fn parse_part(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let (date, timezone) = match value {
        Value::Document(doc) if !is_operator(doc) => {
            let not_an_object = || Error::failed_to_parse("not an object");
            let unknown =
                |name: &str| Error::new(40535, format!("unrecognized option to {operator}: \"{name}\""));
            let [date, timezone] = named::parse(value, ["date", "timezone"], env, not_an_object, unknown)?;
            let missing = || {
                let provided = ShownField(operator, value);
                Error::new(40539, format!("missing 'date' argument to {operator}, provided: {provided}"))
            };
            (date.ok_or_else(missing)?, timezone)
        }
        Value::Array(array) => {
            let mut items = array.iter();
            let (Some(item), None) = (items.next(), items.next()) else {
                let text = format!(
                    "{operator} accepts exactly one argument if given an array, but was given {}",
                    array.count()
                );
                return Err(Error::new(40536, text));
            };
            (Expr::parse(item, env)?, None)
        }
        operand => (Expr::parse(operand, env)?, None),
    };
    let args = vec![date, named::or(timezone, Value::String("UTC"))];
    Ok(env.fold(Expr::Call { operator, function: part, args }))
}

/// Whether a document is an expression rather than named arguments.
fn is_operator(doc: Doc<'_>) -> bool {
    doc.iter().next().is_some_and(|first| first.key.starts_with(b"$"))
}

fn part<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?;
    if is_nullish(value) {
        return null();
    }
    let millis = date(value)?;
    let Some(zone) = zone(args, 1, env)? else { return null() };
    let local = zone.local(millis);
    Ok(Some(match args.operator {
        "$isoWeekYear" => Value::Int64(local.week_day().year),
        operator => Value::Int32(read(operator, &local) as i32),
    }))
}

/// The part for an operator's name.
fn read(operator: &str, local: &Local) -> i64 {
    match operator {
        "$year" => local.day().year,
        "$month" => local.day().month,
        "$dayOfMonth" => local.day().day,
        "$hour" => local.hour(),
        "$minute" => local.minute(),
        "$second" => local.second(),
        "$millisecond" => local.millisecond,
        "$dayOfYear" => local.day().of_year(),
        "$dayOfWeek" => iso_day_of_week(local.days) % 7 + 1,
        "$week" => local.day().week(),
        "$isoDayOfWeek" => iso_day_of_week(local.days),
        _ => local.week_day().week,
    }
}

/// Parses `{date, timezone, iso8601}`.
pub(in crate::expr) fn parse_to_parts(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let not_an_object = || Error::new(40524, format!("{operator} only supports an object as its argument"));
    let unknown = |name: &str| Error::new(40520, format!("Unrecognized argument to {operator}: {name}"));
    let [date, timezone, iso] =
        named::parse(value, ["date", "timezone", "iso8601"], env, not_an_object, unknown)?;
    let missing = || Error::new(40522, format!("Missing 'date' parameter to {operator}"));
    let args = vec![
        date.ok_or_else(missing)?,
        named::or(timezone, Value::String("UTC")),
        named::or(iso, Value::Boolean(false)),
    ];
    Ok(env.fold(Expr::Call { operator, function: to_parts, args }))
}

fn to_parts<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let value = args.eval(0, env)?;
    let Some(zone) = zone(args, 1, env)? else { return null() };
    let iso = match args.eval(2, env)? {
        Some(Value::Boolean(iso)) => iso,
        flag if is_nullish(flag) => return null(),
        other => {
            let found = type_name(other);
            return Err(Error::new(40521, format!("iso8601 must evaluate to a bool, found {found}")));
        }
    };
    if is_nullish(value) {
        return null();
    }
    let local = zone.local(date(value)?);
    let mut parts = DocBuilder::new();
    if iso {
        let day = local.week_day();
        parts.append("isoWeekYear", day.year as i32);
        parts.append("isoWeek", day.week as i32);
        parts.append("isoDayOfWeek", day.day as i32);
    } else {
        let day = local.day();
        parts.append("year", day.year as i32);
        parts.append("month", day.month as i32);
        parts.append("day", day.day as i32);
    }
    parts.append("hour", local.hour() as i32);
    parts.append("minute", local.minute() as i32);
    parts.append("second", local.second() as i32);
    parts.append("millisecond", local.millisecond as i32);
    env.document(parts).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::expr::testing::check;
    use diwan_value::{ObjectId, Value, doc};

    /// 2017-01-01T00:00:00.123Z, a Sunday.
    const NEW_YEAR: Value<'static> = Value::DateTime(1_483_228_800_123);

    #[test]
    fn part_operators_read_parts_of_dates() {
        for (operator, utc, new_york) in [
            ("$year", 2017, 2016),
            ("$month", 1, 12),
            ("$dayOfMonth", 1, 31),
            ("$hour", 0, 19),
            ("$minute", 0, 0),
            ("$second", 0, 0),
            ("$millisecond", 123, 123),
            ("$dayOfYear", 1, 366),
            ("$dayOfWeek", 1, 7),
            ("$week", 1, 52),
            ("$isoDayOfWeek", 7, 6),
            ("$isoWeek", 52, 52),
        ] {
            check(doc! { operator: NEW_YEAR }, Value::Int32(utc));
            check(doc! { operator: [NEW_YEAR] }, Value::Int32(utc));
            let zoned = doc! { operator: { "date": NEW_YEAR, "timezone": "America/New_York" } };
            check(zoned, Value::Int32(new_york));
        }
        check(doc! { "$isoWeekYear": NEW_YEAR }, Value::Int64(2016));
        check(doc! { "$year": ObjectId([0; 12]) }, Value::Int32(1970));
        check(doc! { "$millisecond": Value::DateTime(-1) }, Value::Int32(999));
        check(doc! { "$year": Value::DateTime(i64::MAX) }, Value::Int32(292_278_994));
        check(doc! { "$year": Value::DateTime(i64::MIN) }, Value::Int32(-292_275_055));
        check(doc! { "$minute": { "date": Value::DateTime(0), "timezone": "-0130" } }, Value::Int32(30));
    }

    #[test]
    fn part_operators_reject_invalid_operands() {
        check(doc! { "$year": null }, Value::Null);
        check(doc! { "$year": { "date": NEW_YEAR, "timezone": null } }, Value::Null);
        check(doc! { "$year": "2017" }, (16006, "can't convert from BSON type string to Date"));
        check(doc! { "$year": [NEW_YEAR, 1] }, 40536);
        check(doc! { "$year": { "date": NEW_YEAR, "zone": "UTC" } }, 40535);
        let missing = "missing 'date' argument to $year, provided: $year: { timezone: \"UTC\" }";
        check(doc! { "$year": { "timezone": "UTC" } }, (40539, missing));
        check(doc! { "$year": { "date": NEW_YEAR, "timezone": 1 } }, 40517);
        check(doc! { "$year": { "date": NEW_YEAR, "timezone": "Mars" } }, 40485);
    }

    #[test]
    fn date_to_parts_splits_dates() {
        let parts = doc! { "year": 2017, "month": 1, "day": 1, "hour": 1, "minute": 0, "second": 0, "millisecond": 123 };
        let zoned = doc! { "$dateToParts": { "date": NEW_YEAR, "timezone": "Europe/Berlin" } };
        check(zoned, Value::Document(parts.as_doc()));
        let parts = doc! {
            "isoWeekYear": 2016, "isoWeek": 52, "isoDayOfWeek": 7, "hour": 0, "minute": 0, "second": 0,
            "millisecond": 123,
        };
        check(
            doc! { "$dateToParts": { "date": NEW_YEAR, "iso8601": true } },
            Value::Document(parts.as_doc()),
        );
        check(doc! { "$dateToParts": { "date": null } }, Value::Null);
        check(doc! { "$dateToParts": { "date": NEW_YEAR, "iso8601": null } }, Value::Null);
        check(doc! { "$dateToParts": { "date": NEW_YEAR, "iso8601": 1 } }, 40521);
        check(doc! { "$dateToParts": { "timezone": "UTC" } }, 40522);
        check(doc! { "$dateToParts": { "x": 1 } }, 40520);
        check(doc! { "$dateToParts": 1 }, 40524);
    }
}
