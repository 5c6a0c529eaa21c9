//! Units of time, and the first day of a week, by their names.

use crate::error::{Error, Result};
use crate::expr::coerce::type_name;
use diwan_value::Value;

/// A unit of time. Shorter units come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    /// The unit in an operand.
    pub fn of(operator: &str, value: Option<Value<'_>>) -> Result<Unit> {
        let Some(Value::String(name)) = value else {
            let found = type_name(value);
            let text = format!("{operator} requires 'unit' to be a string, but got {found}");
            return Err(Error::new(5439013, text));
        };
        let units = [
            Unit::Millisecond,
            Unit::Second,
            Unit::Minute,
            Unit::Hour,
            Unit::Day,
            Unit::Week,
            Unit::Month,
            Unit::Quarter,
            Unit::Year,
        ];
        units.into_iter().find(|unit| unit.name() == name).ok_or_else(|| {
            Error::failed_to_parse(format!(
                "{operator} parameter 'unit' value parsing failed :: caused by :: unknown time unit value: {name}"
            ))
        })
    }

    /// The unit's name.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Millisecond => "millisecond",
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Quarter => "quarter",
            Unit::Year => "year",
        }
    }

    /// The length of a fixed unit in milliseconds.
    pub fn millis(self) -> Option<i64> {
        match self {
            Unit::Millisecond => Some(1),
            Unit::Second => Some(1000),
            Unit::Minute => Some(60_000),
            Unit::Hour => Some(3_600_000),
            _ => None,
        }
    }

    /// The length of a calendar unit in months.
    pub fn months(self) -> Option<i64> {
        match self {
            Unit::Month => Some(1),
            Unit::Quarter => Some(3),
            Unit::Year => Some(12),
            _ => None,
        }
    }
}

/// The day of the week in an operand: 1 for Monday to 7 for Sunday.
pub(super) fn day_of_week(operator: &str, value: Option<Value<'_>>) -> Result<i64> {
    let Some(Value::String(name)) = value else {
        let found = type_name(value);
        let text = format!("{operator} requires 'startOfWeek' to be a string, but got {found}");
        return Err(Error::new(5439015, text));
    };
    let lower = name.to_ascii_lowercase();
    let days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let found = days.iter().position(|day| lower == *day || lower == day[..3]);
    found.map(|at| at as i64 + 1).ok_or_else(|| {
        let text = format!(
            "{operator} parameter 'startOfWeek' value cannot be recognized as a day of a week: {name}"
        );
        Error::new(5439016, text)
    })
}
