//! `$dateFromParts`: builds a date from numbers, in the Gregorian or the ISO 8601 week calendar.

use super::calendar::{DAY, Day, WeekDay};
use super::zone;
use crate::error::{Error, Result, code};
use crate::expr::coerce::{Evaluated, as_i64, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{Args, EvalEnv, Expr, ParseEnv, named};
use diwan_value::Value;

/// The time parts, in the order of evaluation.
const TIME: [&str; 4] = ["hour", "minute", "second", "millisecond"];
const CALENDAR: [&str; 3] = ["year", "month", "day"];
const WEEKS: [&str; 3] = ["isoWeekYear", "isoWeek", "isoDayOfWeek"];

/// Larger than the number of days between the epoch and any date.
const MAX_DAYS: i64 = 1_000_000_000_000;

/// Parses the parts. The arguments of the call are the parts of [`TIME`], the time zone, and the three parts of the
/// calendar.
pub(in crate::expr) fn parse_from_parts(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let names = [
        "hour",
        "minute",
        "second",
        "millisecond",
        "timezone",
        "year",
        "month",
        "day",
        "isoWeekYear",
        "isoWeek",
        "isoDayOfWeek",
    ];
    let not_an_object = || Error::new(40519, format!("{operator} only supports an object as its argument"));
    let unknown = |name: &str| Error::new(40518, format!("Unrecognized argument to {operator}: {name}"));
    let [hour, minute, second, millisecond, timezone, year, month, day, iso_year, iso_week, iso_day] =
        named::parse(value, names, env, not_an_object, unknown)?;
    if year.is_none() && iso_year.is_none() {
        let text = format!("{operator} requires either 'year' or 'isoWeekYear' to be present");
        return Err(Error::new(40516, text));
    }
    if year.is_some() && (iso_year.is_some() || iso_week.is_some() || iso_day.is_some()) {
        return Err(Error::new(
            40489,
            format!("{operator} does not allow mixing natural dates with ISO dates"),
        ));
    }
    if iso_year.is_some() && (month.is_some() || day.is_some()) {
        return Err(Error::new(
            40525,
            format!("{operator} does not allow mixing ISO dates with natural dates"),
        ));
    }
    let number = |part, default| named::or(part, Value::Int32(default));
    let mut args = vec![number(hour, 0), number(minute, 0), number(second, 0), number(millisecond, 0)];
    args.push(named::or(timezone, Value::String("UTC")));
    let function = if year.is_some() {
        args.extend([number(year, 1970), number(month, 1), number(day, 1)]);
        from_calendar
    } else {
        args.extend([number(iso_year, 1970), number(iso_week, 1), number(iso_day, 1)]);
        from_weeks
    };
    Ok(env.fold(Expr::Call { operator, function, args }))
}

fn from_calendar<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    from_parts(args, env, CALENDAR, 40523, |[year, month, day]| Day { year, month, day }.days())
}

fn from_weeks<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    from_parts(args, env, WEEKS, 31095, |[year, week, day]| WeekDay { year, week, day }.days())
}

/// Evaluates the parts. `days` computes the day since the epoch from the three parts of the calendar.
fn from_parts<'a>(
    args: Args<'a>,
    env: &EvalEnv<'a>,
    names: [&str; 3],
    year_code: i32,
    days: fn([i64; 3]) -> i64,
) -> Evaluated<'a> {
    let mut time = [0; 4];
    for (at, name) in TIME.into_iter().enumerate() {
        let Some(number) = part(args, at, name, at < 2, env)? else { return null() };
        time[at] = number;
    }
    let Some(zone) = zone(args, TIME.len(), env)? else { return null() };
    let mut day = [0; 3];
    for (at, name) in names.into_iter().enumerate() {
        let Some(number) = part(args, TIME.len() + 1 + at, name, at > 0, env)? else { return null() };
        day[at] = number;
    }
    let [year, ..] = day;
    if !(1..=9999).contains(&year) {
        let text = format!("'{}' must evaluate to an integer in the range 1 to 9999, found {year}", names[0]);
        return Err(Error::new(year_code, text));
    }
    let [hour, minute, second, millisecond] = time;
    let date = second.checked_add(hour * 3600 + minute * 60).and_then(|seconds| {
        let seconds = seconds.checked_add(millisecond.div_euclid(1000))?;
        let day = days(day).checked_add(seconds.div_euclid(DAY)).filter(|day| day.abs() < MAX_DAYS)?;
        let moment = zone.moment(day, seconds.rem_euclid(DAY));
        moment.checked_mul(1000)?.checked_add(millisecond.rem_euclid(1000))
    });
    date.map(|millis| Some(Value::DateTime(millis))).ok_or_else(|| {
        let text = "Overflow casting from a lower-precision duration to a higher-precision duration";
        Error::new(code::DURATION_OVERFLOW, text)
    })
}

/// A part; `None` if it is null.
fn part<'a>(args: Args<'a>, at: usize, name: &str, bounded: bool, env: &EvalEnv<'a>) -> Result<Option<i64>> {
    let value = args.eval(at, env)?;
    if is_nullish(value) {
        return Ok(None);
    }
    let Some(number) = as_i64(value) else {
        let (found, shown) = (type_name(value), Shown(value));
        let text = format!("'{name}' must evaluate to an integer, found {found} with value {shown}");
        return Err(Error::new(40515, text));
    };
    let range = i64::from(i16::MIN)..=i64::from(i16::MAX);
    if bounded && !range.contains(&number) {
        let text = format!(
            "'{name}' must evaluate to a value in the range [{}, {}]; value {number} is not in range",
            range.start(),
            range.end()
        );
        return Err(Error::new(31034, text));
    }
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use crate::expr::testing::check;
    use diwan_value::{DocBuf, Value, doc};

    fn from_parts(parts: DocBuf) -> DocBuf {
        doc! { "$dateFromParts": parts }
    }

    #[test]
    fn date_from_parts_builds_dates() {
        let date = Value::DateTime;
        check(from_parts(doc! { "year": 2017, "month": 2, "day": 8, "hour": 12 }), date(1_486_555_200_000));
        check(from_parts(doc! { "year": 2017.0 }), date(1_483_228_800_000));
        let berlin =
            doc! { "year": 2017, "month": 6, "hour": 2, "millisecond": -1, "timezone": "Europe/Berlin" };
        check(from_parts(berlin), date(1_496_275_199_999));
        check(
            from_parts(doc! { "isoWeekYear": 2017, "isoWeek": 6, "isoDayOfWeek": 3 }),
            date(1_486_512_000_000),
        );
        // A part beyond its range carries over.
        check(from_parts(doc! { "year": 2017, "month": 14, "day": 0, "hour": 25 }), date(1_517_446_800_000));
        check(from_parts(doc! { "year": 2016, "month": null }), Value::Null);
        check(from_parts(doc! { "year": 2016, "timezone": null }), Value::Null);
    }

    #[test]
    fn date_from_parts_rejects_invalid_parts() {
        check(doc! { "$dateFromParts": 1 }, 40519);
        check(from_parts(doc! { "x": 1 }), 40518);
        check(from_parts(doc! { "month": 1 }), 40516);
        check(from_parts(doc! { "year": 1, "isoWeek": 1 }), 40489);
        check(from_parts(doc! { "isoWeekYear": 1, "day": 1 }), 40525);
        check(
            from_parts(doc! { "year": 1.5 }),
            (40515, "'year' must evaluate to an integer, found double with value 1.5"),
        );
        check(from_parts(doc! { "year": 10_000 }), 40523);
        check(from_parts(doc! { "isoWeekYear": 0 }), 31095);
        check(from_parts(doc! { "year": 2000, "hour": 40_000 }), 31034);
        check(from_parts(doc! { "year": 2000, "second": i64::MAX }), 159);
        check(
            from_parts(doc! { "year": 2000, "millisecond": i64::MIN }),
            Value::DateTime(i64::MIN + 946_684_800_000),
        );
    }
}
