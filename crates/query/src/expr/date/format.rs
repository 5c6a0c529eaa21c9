//! Formats dates by a pattern of `%` specifiers.

use super::calendar::iso_day_of_week;
use super::zone::Zone;
use crate::error::{Error, Result};
use std::fmt::Write;

/// ISO 8601 in UTC.
pub(super) const ISO_UTC: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

/// ISO 8601 in another zone, without the offset.
pub(super) const ISO_LOCAL: &str = "%Y-%m-%dT%H:%M:%S.%L";

/// The specifiers for formatting.
pub(super) const TO_TEXT: &str = "bBdGHjLmMSwuUVYzZ%";

/// The names of the months.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Rejects a pattern with specifiers that are not in `allowed`.
pub(super) fn check(format: &str, allowed: &str) -> Result<()> {
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            continue;
        }
        match chars.next() {
            Some(specifier) if allowed.contains(specifier) => {}
            Some(other) => {
                let text = format!("Invalid format character '%{other}' in format string");
                return Err(Error::new(18536, text));
            }
            None => return Err(Error::new(18535, "Unmatched '%' at end of format string")),
        }
    }
    Ok(())
}

/// Formats a date by a pattern that was checked.
pub(super) fn format(format: &str, millis: i64, zone: &Zone) -> Result<String> {
    let local = zone.local(millis);
    let day = local.day();
    let mut text = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            text.push(char);
            continue;
        }
        let month = || MONTHS.get(day.month as usize - 1).copied().unwrap_or_default();
        let (number, width) = match chars.next() {
            Some('Y') => (day.year, 4),
            Some('G') => (local.week_day().year, 4),
            Some('m') => (day.month, 2),
            Some('d') => (day.day, 2),
            Some('H') => (local.hour(), 2),
            Some('M') => (local.minute(), 2),
            Some('S') => (local.second(), 2),
            Some('L') => (local.millisecond, 3),
            Some('j') => (day.of_year(), 3),
            Some('U') => (day.week(), 2),
            Some('V') => (local.week_day().week, 2),
            Some('u') => (iso_day_of_week(local.days), 1),
            Some('w') => (iso_day_of_week(local.days) % 7 + 1, 1),
            Some('b') => {
                text.push_str(&month()[..3]);
                continue;
            }
            Some('B') => {
                text.push_str(month());
                continue;
            }
            Some('z') => {
                text.push(if local.offset < 0 { '-' } else { '+' });
                let minutes = local.offset.abs() / 60;
                (minutes / 60 * 100 + minutes % 60, 4)
            }
            Some('Z') => {
                write!(text, "{}", local.offset / 60).ok();
                continue;
            }
            other => {
                text.extend(other);
                continue;
            }
        };
        // Years outside of this range do not fit their four digits.
        if !(0..=9999).contains(&number) {
            let text = format!(
                "Could not convert date to string: date component was outside the supported range of 0-9999: {number}"
            );
            return Err(Error::new(18537, text));
        }
        write!(text, "{number:0width$}").ok();
    }
    Ok(text)
}
