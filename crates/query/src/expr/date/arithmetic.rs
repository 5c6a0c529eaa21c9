//! `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`: arithmetic in units of time.
//!
//! Days and longer units are counted on the calendar of the time zone, so the time of day is kept. Hours and shorter
//! units have a fixed length.

use super::calendar::{Day, iso_day_of_week};
use super::unit::{Unit, day_of_week};
use super::zone::{Local, Zone};
use super::{date_of, millis, zone};
use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, as_i64, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{Args, EvalEnv, Expr, ParseEnv, named};
use diwan_value::Value;

/// 2000-01-01T00:00:00Z in seconds since the epoch. Bins are counted from this date.
const REFERENCE: i64 = 946_684_800;

/// The maximum bin size for days and longer units.
const MAX_BIN: i64 = 100_000_000_000;

/// Parses `{startDate, unit, amount, timezone}` of `$dateAdd` and `$dateSubtract`.
pub(in crate::expr) fn parse_add(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let not_an_object = || {
        let found = type_name(Some(value));
        Error::new(5166400, format!("{operator} expects an object as its argument.found:{found}"))
    };
    let unknown = |name: &str| {
        let text = format!(
            "Unrecognized argument to {operator}: {name}. Expected arguments are startDate, unit, amount, and \
             optionally timezone."
        );
        Error::new(5166401, text)
    };
    let names = ["startDate", "unit", "amount", "timezone"];
    let [start, unit, amount, timezone] = named::parse(value, names, env, not_an_object, unknown)?;
    let (Some(start), Some(unit), Some(amount)) = (start, unit, amount) else {
        let text = format!("{operator} requires startDate, unit, and amount to be present");
        return Err(Error::new(5166402, text));
    };
    let args = vec![start, unit, amount, named::or(timezone, Value::String("UTC"))];
    Ok(env.fold(Expr::Call { operator, function: add, args }))
}

fn add<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let operator = args.operator;
    let start = args.eval(0, env)?;
    if is_nullish(start) {
        return null();
    }
    let unit = args.eval(1, env)?;
    if is_nullish(unit) {
        return null();
    }
    let unit = Unit::of(operator, unit)?;
    let amount = args.eval(2, env)?;
    if is_nullish(amount) {
        return null();
    }
    let Some(zone) = zone(args, 3, env)? else { return null() };
    let Some(start) = date_of(start) else {
        let text = format!("{operator} requires startDate to be convertible to a date");
        return Err(Error::new(5166403, text));
    };
    let Some(mut amount) = as_i64(amount) else {
        return Err(Error::new(5166405, format!("{operator} expects integer amount of time units")));
    };
    if operator == "$dateSubtract" {
        amount = amount.checked_neg().ok_or_else(|| {
            Error::new(6045000, format!("invalid {operator} 'amount' parameter value: {amount}"))
        })?;
    }
    date_add(start, unit, amount, &zone).map(|millis| Some(Value::DateTime(millis)))
}

/// Adds `amount` units to the date.
fn date_add(date: i64, unit: Unit, amount: i64, zone: &Zone) -> Result<i64> {
    let overflowed = || Error::new(5166406, "dateAdd overflowed");
    if !is_reachable(amount, unit) {
        let text = format!("invalid dateAdd 'amount' parameter value: {amount} {}", unit.name());
        return Err(Error::new(5976500, text));
    }
    if let Some(length) = unit.millis() {
        return amount.checked_mul(length).and_then(|added| date.checked_add(added)).ok_or_else(overflowed);
    }
    let local = zone.local(date);
    let days = match unit.months() {
        Some(months) => local.day().plus_months(amount * months).days(),
        None => local.days + amount * if unit == Unit::Week { 7 } else { 1 },
    };
    millis(zone.moment(days, local.second_of_day), local.millisecond)
}

/// Whether the amount is within the range that dates cover, approximately.
fn is_reachable(amount: i64, unit: Unit) -> bool {
    const DAYS: i64 = 213_503_982_335;
    const YEARS: i64 = DAYS / 365 + 1;
    let most = match unit {
        Unit::Millisecond => return true,
        Unit::Second => DAYS * 86_400,
        Unit::Minute => DAYS * 1440,
        Unit::Hour => DAYS * 24,
        Unit::Day => DAYS,
        Unit::Week => DAYS / 7,
        Unit::Month => YEARS * 12,
        Unit::Quarter => YEARS * 4,
        Unit::Year => YEARS,
    };
    -most < amount && amount < most
}

/// The time zone operand of `$dateDiff` and `$dateTrunc`, whose errors include the operator's name.
fn named_zone<'a>(args: Args<'a>, at: usize, env: &EvalEnv<'a>) -> Result<Option<Zone>> {
    zone(args, at, env).map_err(|error| {
        let (operator, message) = (args.operator, error.message);
        let text = format!("{operator} parameter 'timezone' value parsing failed :: caused by :: {message}");
        Error::new(error.code, text)
    })
}

/// Checks that an operand is a date.
fn named_date(operator: &str, name: &str, value: Option<Value<'_>>) -> Result<i64> {
    date_of(value).ok_or_else(|| {
        let found = type_name(value);
        Error::new(5166307, format!("{operator} requires '{name}' to be a date, but got {found}"))
    })
}

/// Parses `{startDate, endDate, unit, timezone, startOfWeek}`.
pub(in crate::expr) fn parse_diff(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let not_an_object = || Error::new(5166301, format!("{operator} only supports an object as its argument"));
    let unknown = |name: &str| Error::new(5166302, format!("Unrecognized argument to {operator}: {name}"));
    let names = ["startDate", "endDate", "unit", "timezone", "startOfWeek"];
    let [start, end, unit, timezone, start_of_week] =
        named::parse(value, names, env, not_an_object, unknown)?;
    let missing = |name, code| Error::new(code, format!("Missing '{name}' parameter to {operator}"));
    let args = vec![
        start.ok_or_else(|| missing("startDate", 5166303))?,
        end.ok_or_else(|| missing("endDate", 5166304))?,
        unit.ok_or_else(|| missing("unit", 5166305))?,
        named::or(timezone, Value::String("UTC")),
        named::or(start_of_week, Value::String("sunday")),
    ];
    Ok(env.fold(Expr::Call { operator, function: diff, args }))
}

fn diff<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let operator = args.operator;
    let mut operands = [None; 3];
    for (at, operand) in operands.iter_mut().enumerate() {
        *operand = args.eval(at, env)?;
        if is_nullish(*operand) {
            return null();
        }
    }
    let [start, end, unit] = operands;
    let unit = Unit::of(operator, unit)?;
    let Some(start_of_week) = start_of_week(args, unit, env)? else { return null() };
    let Some(zone) = named_zone(args, 3, env)? else { return null() };
    let start = named_date(operator, "startDate", start)?;
    let end = named_date(operator, "endDate", end)?;
    let difference = if unit == Unit::Millisecond {
        end.checked_sub(start).ok_or_else(|| Error::new(5166308, "dateDiff overflowed"))?
    } else {
        date_diff(zone.local(start), zone.local(end), unit, start_of_week)
    };
    Ok(Some(Value::Int64(difference)))
}

/// The first day of the week from argument 4; `None` if it is null. Checked only if the unit is a week.
fn start_of_week<'a>(args: Args<'a>, unit: Unit, env: &EvalEnv<'a>) -> Result<Option<i64>> {
    if unit != Unit::Week {
        return Ok(Some(7));
    }
    let value = args.eval(4, env)?;
    if is_nullish(value) { Ok(None) } else { day_of_week(args.operator, value).map(Some) }
}

/// How many boundaries of the unit lie between two moments. A change of the zone's offset between them counts for units
/// that divide it.
fn date_diff(start: Local, end: Local, unit: Unit, start_of_week: i64) -> i64 {
    let days = end.days - start.days;
    let offset = start.offset - end.offset;
    match unit {
        Unit::Year => end.day().year - start.day().year,
        Unit::Quarter => quarters(end.day()) - quarters(start.day()),
        Unit::Month => months(end.day()) - months(start.day()),
        Unit::Week => {
            let of_week = |days| (iso_day_of_week(days) - start_of_week).rem_euclid(7);
            (days + of_week(start.days) - of_week(end.days)) / 7
        }
        Unit::Day => days,
        Unit::Hour => days * 24 + end.hour() - start.hour() + offset / 3600,
        Unit::Minute => days * 1440 + end.second_of_day / 60 - start.second_of_day / 60 + offset / 60,
        Unit::Second | Unit::Millisecond => days * 86_400 + end.second_of_day - start.second_of_day + offset,
    }
}

/// The number of months since the year 0.
fn months(day: Day) -> i64 {
    day.year * 12 + day.month - 1
}

/// The number of quarters since the year 0.
fn quarters(day: Day) -> i64 {
    months(day).div_euclid(3)
}

/// Parses `{date, unit, binSize, timezone, startOfWeek}`.
pub(in crate::expr) fn parse_trunc(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let not_an_object = || Error::new(5439007, format!("{operator} only supports an object as its argument"));
    let unknown = |name: &str| Error::new(5439008, format!("Unrecognized argument to {operator}: {name}"));
    let names = ["date", "unit", "binSize", "timezone", "startOfWeek"];
    let [date, unit, bin_size, timezone, start_of_week] =
        named::parse(value, names, env, not_an_object, unknown)?;
    let missing = |name, code| Error::new(code, format!("Missing '{name}' parameter to {operator}"));
    let args = vec![
        date.ok_or_else(|| missing("date", 5439009))?,
        unit.ok_or_else(|| missing("unit", 5439010))?,
        named::or(bin_size, Value::Int32(1)),
        named::or(timezone, Value::String("UTC")),
        named::or(start_of_week, Value::String("sunday")),
    ];
    Ok(env.fold(Expr::Call { operator, function: trunc, args }))
}

fn trunc<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let operator = args.operator;
    let date = args.eval(0, env)?;
    if is_nullish(date) {
        return null();
    }
    let bin = args.eval(2, env)?;
    if is_nullish(bin) {
        return null();
    }
    let bin = bin_size(operator, bin)?;
    let unit = args.eval(1, env)?;
    if is_nullish(unit) {
        return null();
    }
    let unit = Unit::of(operator, unit)?;
    let Some(start_of_week) = start_of_week(args, unit, env)? else { return null() };
    let Some(zone) = named_zone(args, 3, env)? else { return null() };
    let date = named_date(operator, "date", date)?;
    date_trunc(date, unit, bin, &zone, start_of_week).map(|millis| Some(Value::DateTime(millis)))
}

/// Parses the bin size.
fn bin_size(operator: &str, value: Option<Value<'_>>) -> Result<i64> {
    let Some(size) = as_i64(value) else {
        let (found, shown) = (type_name(value), Shown(value));
        let text = format!(
            "{operator} requires 'binSize' to be a 64-bit integer, but got value '{shown}' of type {found}"
        );
        return Err(Error::new(5439017, text));
    };
    if size <= 0 {
        let text = format!("{operator} requires 'binSize' to be greater than 0, but got value {size}");
        return Err(Error::new(5439018, text));
    }
    Ok(size)
}

/// The start of the bin that contains a date. Bins are counted from the beginning of 2000 in the zone; bins of weeks
/// are counted from the first start of a week in 2000.
fn date_trunc(date: i64, unit: Unit, bin: i64, zone: &Zone, start_of_week: i64) -> Result<i64> {
    let overflowed = |code| Error::new(code, "dateTrunc overflowed");
    let mut reference = REFERENCE - zone.offset(REFERENCE);
    if let Some(length) = unit.millis() {
        let length = bin.checked_mul(length).ok_or_else(|| overflowed(5439002))?;
        let distance = date.checked_sub(reference * 1000).ok_or_else(|| overflowed(5439000))?;
        return date.checked_sub(distance.rem_euclid(length)).ok_or_else(|| overflowed(5439001));
    }
    if bin > MAX_BIN {
        return Err(Error::new(5439006, "dateTrunc unsupported binSize value"));
    }
    if unit == Unit::Week {
        const SATURDAY: i64 = 6;
        reference += (start_of_week - SATURDAY).rem_euclid(7) * super::calendar::DAY;
    }
    let reference = reference * 1000;
    let distance = date_diff(zone.local(reference), zone.local(date), unit, start_of_week);
    let start = distance.checked_sub(distance.rem_euclid(bin)).ok_or_else(|| overflowed(5439004))?;
    date_add(reference, unit, start, zone)
}

#[cfg(test)]
mod tests {
    use crate::expr::date::parse_date;
    use crate::expr::testing::check;
    use diwan_value::{DocBuf, Value, doc};

    fn date(text: &str) -> Value<'static> {
        Value::DateTime(parse_date(text).expect(text))
    }

    fn add(start: &str, unit: &str, amount: i64, timezone: &str) -> DocBuf {
        let start = date(start);
        doc! { "$dateAdd": { "startDate": start, "unit": unit, "amount": amount, "timezone": timezone } }
    }

    #[test]
    fn date_add_moves_dates_by_units() {
        let new_york = "America/New_York";
        for (start, unit, amount, timezone, result) in [
            ("2020-10-31T12:10:05Z", "month", 1, "UTC", "2020-11-30T12:10:05Z"),
            ("2020-02-29T00:00:00Z", "year", 1, "UTC", "2021-02-28T00:00:00Z"),
            ("2020-12-31T00:00:00Z", "quarter", -1, "UTC", "2020-09-30T00:00:00Z"),
            ("2020-12-31T00:00:00.5Z", "week", 2, "UTC", "2021-01-14T00:00:00.5Z"),
            // Adding a day keeps the time of day when clocks change; adding hours does not.
            ("2021-03-13T17:00:00Z", "day", 1, new_york, "2021-03-14T16:00:00Z"),
            ("2021-03-13T17:00:00Z", "hour", 24, new_york, "2021-03-14T17:00:00Z"),
            ("2020-11-01T05:50:02Z", "hour", 1, new_york, "2020-11-01T06:50:02Z"),
            ("2021-01-31T03:00:00Z", "month", 1, new_york, "2021-03-01T03:00:00Z"),
            ("2021-01-01T00:00:00Z", "millisecond", -1, "UTC", "2020-12-31T23:59:59.999Z"),
        ] {
            check(add(start, unit, amount, timezone), date(result));
        }
        let subtract =
            doc! { "$dateSubtract": { "startDate": date("2021-03-31"), "unit": "month", "amount": 1 } };
        check(subtract, date("2021-02-28"));
        check(doc! { "$dateAdd": { "startDate": null, "unit": "day", "amount": "x" } }, Value::Null);
        check(doc! { "$dateAdd": { "startDate": 1, "unit": "day", "amount": null } }, Value::Null);
    }

    #[test]
    fn date_add_rejects_invalid_arguments() {
        let start = date("2021-01-01");
        check(doc! { "$dateAdd": 1 }, 5166400);
        check(doc! { "$dateAdd": { "x": 1 } }, 5166401);
        check(doc! { "$dateAdd": { "startDate": start, "unit": "day" } }, 5166402);
        check(doc! { "$dateAdd": { "startDate": 1, "unit": "day", "amount": 1 } }, 5166403);
        check(doc! { "$dateAdd": { "startDate": start, "unit": 1, "amount": 1 } }, 5439013);
        let unknown =
            "$dateAdd parameter 'unit' value parsing failed :: caused by :: unknown time unit value: days";
        check(doc! { "$dateAdd": { "startDate": start, "unit": "days", "amount": 1 } }, (9, unknown));
        check(doc! { "$dateAdd": { "startDate": start, "unit": "day", "amount": 1.5 } }, 5166405);
        check(add("2021-01-01", "year", i64::MAX, "UTC"), 5976500);
        check(add("2021-01-01", "year", 584_000_000, "UTC"), 5166406);
        check(add("2021-01-01", "millisecond", i64::MAX, "UTC"), 5166406);
        let least = doc! { "$dateSubtract": { "startDate": start, "unit": "day", "amount": i64::MIN } };
        check(least, 6045000);
    }

    #[test]
    fn date_diff_counts_unit_boundaries() {
        let new_york = "America/New_York";
        for (start, end, unit, timezone, count) in [
            ("2020-12-31T23:59:59Z", "2021-01-01T00:00:00Z", "year", "UTC", 1),
            ("2020-12-31T23:59:59Z", "2021-01-01T00:00:00Z", "year", new_york, 0),
            ("2021-03-31", "2020-12-31", "quarter", "UTC", -1),
            ("2020-01-31", "2021-03-01", "month", "UTC", 14),
            ("2021-01-02", "2021-01-03", "week", "UTC", 1),
            ("2021-01-03", "2021-01-02", "week", "UTC", -1),
            ("2021-03-14T04:59:59Z", "2021-03-14T05:00:00Z", "day", new_york, 1),
            // The clocks skip one hour on that day.
            ("2021-03-14T06:00:00Z", "2021-03-14T08:00:00Z", "hour", new_york, 2),
            ("2021-03-14T06:00:30Z", "2021-03-14T07:00:29Z", "minute", new_york, 60),
            ("2021-03-14T06:00:30Z", "2021-03-14T07:00:29Z", "second", new_york, 3599),
            ("2021-01-01", "2021-01-02", "millisecond", "UTC", 86_400_000),
        ] {
            let (start, end) = (date(start), date(end));
            let diff = doc! { "startDate": start, "endDate": end, "unit": unit, "timezone": timezone };
            check(doc! { "$dateDiff": diff }, Value::Int64(count));
        }
        let week = |first: &str| {
            let (start, end) = (date("2021-01-03"), date("2021-01-04"));
            doc! { "$dateDiff": { "startDate": start, "endDate": end, "unit": "week", "startOfWeek": first } }
        };
        check(week("Mon"), Value::Int64(1));
        check(week("tuesday"), Value::Int64(0));
        check(week("mo"), 5439016);
    }

    #[test]
    fn date_diff_rejects_invalid_arguments() {
        let day = date("2021-01-01");
        check(doc! { "$dateDiff": 1 }, 5166301);
        check(doc! { "$dateDiff": { "x": 1 } }, 5166302);
        check(doc! { "$dateDiff": { "endDate": day, "unit": "day" } }, 5166303);
        check(doc! { "$dateDiff": { "startDate": day, "unit": "day" } }, 5166304);
        check(doc! { "$dateDiff": { "startDate": day, "endDate": day } }, 5166305);
        check(doc! { "$dateDiff": { "startDate": 1, "endDate": day, "unit": "day" } }, 5166307);
        let (least, most) = (Value::DateTime(i64::MIN), Value::DateTime(i64::MAX));
        check(doc! { "$dateDiff": { "startDate": least, "endDate": most, "unit": "millisecond" } }, 5166308);
        let zone = "$dateDiff parameter 'timezone' value parsing failed :: caused by :: unrecognized time zone identifier: \"X\"";
        let diff = doc! { "startDate": day, "endDate": day, "unit": "day", "timezone": "X" };
        check(doc! { "$dateDiff": diff }, (40485, zone));
    }

    #[test]
    fn date_trunc_gives_the_start_of_the_bin() {
        for (text, unit, bin, timezone, first, result) in [
            ("2021-03-20T11:30:05Z", "hour", 1, "UTC", "sun", "2021-03-20T11:00:00Z"),
            ("2021-03-20T11:30:05Z", "hour", 1, "+05:30", "sun", "2021-03-20T11:30:00Z"),
            ("2021-03-20T11:30:05.678Z", "millisecond", 100, "UTC", "sun", "2021-03-20T11:30:05.6Z"),
            ("2021-03-20T11:30:05Z", "day", 2, "UTC", "sun", "2021-03-19T00:00:00Z"),
            ("2021-03-20T11:30:05Z", "week", 2, "America/Los_Angeles", "monday", "2021-03-15T07:00:00Z"),
            ("2021-03-20T11:30:05Z", "week", 1, "UTC", "sun", "2021-03-14T00:00:00Z"),
            ("2021-03-20T11:30:05Z", "month", 1, "America/New_York", "sun", "2021-03-01T05:00:00Z"),
            ("2021-05-20T11:30:05Z", "quarter", 1, "UTC", "sun", "2021-04-01T00:00:00Z"),
            ("2021-05-20T11:30:05Z", "year", 10, "UTC", "sun", "2020-01-01T00:00:00Z"),
            ("1999-05-20T11:30:05Z", "year", 10, "UTC", "sun", "1990-01-01T00:00:00Z"),
        ] {
            let trunc = doc! {
                "date": date(text), "unit": unit, "binSize": bin, "timezone": timezone, "startOfWeek": first,
            };
            check(doc! { "$dateTrunc": trunc }, date(result));
        }
        let day = date("2021-01-01");
        check(doc! { "$dateTrunc": { "date": day, "unit": "day", "startOfWeek": null } }, day);
        check(doc! { "$dateTrunc": { "date": day, "unit": "week", "startOfWeek": null } }, Value::Null);
        check(doc! { "$dateTrunc": { "date": day, "unit": null } }, Value::Null);
    }

    #[test]
    fn date_trunc_rejects_invalid_arguments() {
        let day = date("2021-01-01");
        check(doc! { "$dateTrunc": 1 }, 5439007);
        check(doc! { "$dateTrunc": { "x": 1 } }, 5439008);
        check(doc! { "$dateTrunc": { "unit": "day" } }, 5439009);
        check(doc! { "$dateTrunc": { "date": day } }, 5439010);
        check(doc! { "$dateTrunc": { "date": 1, "unit": "day" } }, 5166307);
        check(doc! { "$dateTrunc": { "date": day, "unit": "day", "binSize": 1.5 } }, 5439017);
        check(doc! { "$dateTrunc": { "date": day, "unit": "day", "binSize": 0 } }, 5439018);
        check(doc! { "$dateTrunc": { "date": day, "unit": "hour", "binSize": i64::MAX } }, 5439002);
        check(doc! { "$dateTrunc": { "date": day, "unit": "day", "binSize": i64::MAX } }, 5439006);
        check(doc! { "$dateTrunc": { "date": day, "unit": "week", "startOfWeek": 1 } }, 5439015);
    }
}
