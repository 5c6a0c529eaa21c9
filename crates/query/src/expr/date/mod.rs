//! Date operators: parts of dates, dates from parts, arithmetic, parsing and formatting, in any time zone.
//!
//! A date is a number of milliseconds. [`mod@zone`] converts between dates and local time, and [`calendar`] computes
//! days and weeks. Both cover all 64-bit dates.

mod arithmetic;
mod calendar;
mod format;
mod free_text;
mod from_parts;
mod parsed;
mod part;
mod pattern;
mod scanner;
mod text;
mod timestamp;
mod unit;
mod zone;

pub(super) use arithmetic::{parse_add, parse_diff, parse_trunc};
pub(super) use from_parts::parse_from_parts;
pub(super) use part::{parse_part, parse_to_parts};
pub(super) use text::{parse_from_string, parse_to_string};
pub(super) use timestamp::{ts_increment, ts_second};

use super::coerce::{is_nullish, type_name};
use super::{Args, EvalEnv};
use crate::error::{Error, Result};
use diwan_value::Value;
use zone::Zone;

/// The date that a value is or contains, in milliseconds. Dates, timestamps and object ids contain one.
pub(super) fn date_of(value: Option<Value<'_>>) -> Option<i64> {
    match value? {
        Value::DateTime(millis) => Some(millis),
        Value::Timestamp(time) => Some(i64::from(time.seconds) * 1000),
        Value::ObjectId(id) => Some(i64::from(id.seconds()) * 1000),
        _ => None,
    }
}

/// Checks that an operand is a date.
fn date(value: Option<Value<'_>>) -> Result<i64> {
    date_of(value).ok_or_else(|| {
        let found = type_name(value);
        Error::new(16006, format!("can't convert from BSON type {found} to Date"))
    })
}

/// The zone in argument `at`; `None` if it is null.
fn zone<'a>(args: Args<'a>, at: usize, env: &EvalEnv<'a>) -> Result<Option<Zone>> {
    match args.eval(at, env)? {
        Some(Value::String(name)) => Zone::parse(name).map(Some),
        value if is_nullish(value) => Ok(None),
        other => {
            let found = type_name(other);
            Err(Error::new(40517, format!("timezone must evaluate to a string, found {found}")))
        }
    }
}

/// Formats a date as ISO 8601 in UTC.
pub(super) fn date_text(millis: i64) -> Result<String> {
    format::format(format::ISO_UTC, millis, &Zone::UTC)
}

/// Parses a date without a format.
pub(super) fn parse_date(text: &str) -> Result<i64> {
    text::date_from(text, None, &Zone::UTC)
}

/// Converts seconds and milliseconds to milliseconds. Fails on overflow.
fn millis(seconds: i64, millisecond: i64) -> Result<i64> {
    let millis = seconds.checked_mul(1000).and_then(|millis| millis.checked_add(millisecond));
    millis.ok_or_else(|| Error::new(5166406, "dateAdd overflowed"))
}
