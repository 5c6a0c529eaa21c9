//! Parses dates in common forms: ISO 8601, with slashes or dots, with names of months, each with or without a time of
//! day and a time zone.

use super::calendar::WeekDay;
use super::parsed::{Parsed, TextError};
use super::scanner::{Scanner, valid_day, valid_time};

/// A day in the form that the text has.
enum DayText {
    /// Year, month, day.
    Calendar(i64, i64, i64),
    /// ISO year, week, day.
    Week(i64, i64, i64),
    /// Year and day of the year.
    OfYear(i64, i64),
    /// Month and day without a year.
    WithoutYear,
}

/// The names of weekdays, which the parser accepts and ignores.
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Words relative to the present, which the parser accepts and ignores: they do not set the date.
const RELATIVE: [&str; 6] = ["now", "today", "midnight", "noon", "tomorrow", "yesterday"];

/// Parses a date.
pub(super) fn parse(text: &str) -> Result<Parsed, TextError> {
    let mut scanner = Scanner::new(text);
    let mut parsed = Parsed::default();
    let (mut day_seen, mut time_seen) = (false, false);
    // Day, time and zone may come in any order, each at most once.
    loop {
        scanner.skip(b" \t\r\n,");
        let position = scanner.position();
        let error = |message| TextError { position, message };
        let Some(byte) = scanner.peek() else { break };
        if let Some(time) = scanner.attempt(time) {
            if std::mem::replace(&mut time_seen, true) {
                return Err(error("Double time specification"));
            }
            parsed.second_of_day = time.0.ok_or_else(|| error("Unexpected character"))?;
            parsed.millisecond = time.1;
        } else if let Some(day) = scanner.attempt(day) {
            if std::mem::replace(&mut day_seen, true) {
                return Err(error("Double date specification"));
            }
            parsed.days = days(day).map_err(|message| TextError { position: text.len(), message })?;
        } else if byte.is_ascii_alphabetic() || byte == b'(' || matches!(byte, b'+' | b'-') {
            if scanner.attempt(weekday).is_some() || scanner.attempt(relative).is_some() {
                continue;
            }
            // A zone may be in parentheses, as in `(UTC)`.
            let bracket = scanner.eat(b"(").is_some();
            let unknown = || error(UNKNOWN_ZONE);
            let zone = scanner.zone().ok_or_else(unknown)?;
            if bracket {
                scanner.eat(b")");
            } else if scanner.peek().is_some_and(|next| next == b'/' || next == b'_') {
                return Err(unknown());
            }
            if parsed.zone.replace(zone).is_some() {
                return Err(error("Double timezone specification"));
            }
        } else {
            return Err(error("Unexpected character"));
        }
    }
    if scanner.position() == 0 {
        return Err(TextError { position: 0, message: "Empty string" });
    }
    Ok(parsed)
}

/// The error for an unknown word, which is taken for a time zone.
const UNKNOWN_ZONE: &str = "passing a time zone identifier as part of the string is not allowed";

/// A day in days since the epoch; `None` without a year.
fn days(day: DayText) -> Result<Option<i64>, &'static str> {
    let days = match day {
        DayText::WithoutYear => return Ok(None),
        DayText::Calendar(year, month, day) => valid_day(year, month, day),
        DayText::Week(year, week, day) => {
            Some(WeekDay { year, week, day }.days()).filter(|_| (1..=53).contains(&week) && day <= 7)
        }
        DayText::OfYear(year, of_year) => {
            valid_day(year, 1, 1).map(|first| first + of_year - 1).filter(|_| (1..=366).contains(&of_year))
        }
    };
    days.map(Some).ok_or("The parsed date was invalid")
}

/// Parses the name of a weekday.
fn weekday(scanner: &mut Scanner<'_>) -> Option<()> {
    let name = scanner.word().to_ascii_lowercase();
    scanner.eat(b".");
    WEEKDAYS.iter().any(|day| name == *day || name == day[..3]).then_some(())
}

/// Parses a word relative to the present.
fn relative(scanner: &mut Scanner<'_>) -> Option<()> {
    let word = scanner.word();
    RELATIVE.iter().any(|known| word.eq_ignore_ascii_case(known)).then_some(())
}

/// Parses a time of day: the second of the day (`None` if there is no such time), and the millisecond.
fn time(scanner: &mut Scanner<'_>) -> Option<(Option<i64>, i64)> {
    let marked = scanner.eat(b"Tt").is_some();
    let (hour, minute, second);
    if marked && matches!(scanner.digits_ahead(), 4 | 6) {
        hour = scanner.number(2, 2)?;
        minute = scanner.number(2, 2);
        second = scanner.number(2, 2);
    } else {
        hour = scanner.number(1, 2)?;
        minute = scanner.attempt(colon_number);
        second = minute.and_then(|_| scanner.attempt(colon_number));
    }
    let fraction = second.and_then(|_| {
        scanner.attempt(|scanner| {
            scanner.eat(b".,")?;
            scanner.fraction(usize::MAX)
        })
    });
    let half = scanner.attempt(meridian);
    let hour = match half {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
        // A lone number is not a time.
        None if !marked && minute.is_none() => return None,
        None => hour,
    };
    let second = valid_time(hour, minute.unwrap_or(0), second.unwrap_or(0));
    Some((second, fraction.unwrap_or(0)))
}

/// Parses a colon and a number.
fn colon_number(scanner: &mut Scanner<'_>) -> Option<i64> {
    scanner.eat(b":")?;
    scanner.number(1, 2)
}

/// Parses `am`, `p.m.` and similar. Returns whether it is the afternoon.
fn meridian(scanner: &mut Scanner<'_>) -> Option<bool> {
    scanner.skip(b" ");
    let half = scanner.eat(b"aApP")?;
    scanner.eat(b".");
    scanner.eat(b"mM")?;
    scanner.eat(b".");
    let ends = scanner.peek().is_none_or(|next| !next.is_ascii_alphanumeric());
    ends.then_some(half.eq_ignore_ascii_case(&b'p'))
}

/// Parses a day.
fn day(scanner: &mut Scanner<'_>) -> Option<DayText> {
    let forms = [compact, year_first, day_or_month_first, day_month_name, month_name_first];
    forms.into_iter().find_map(|form| scanner.attempt(form))
}

/// Parses `20170605`, `2017156`.
fn compact(scanner: &mut Scanner<'_>) -> Option<DayText> {
    match scanner.digits_ahead() {
        8 => Some(DayText::Calendar(scanner.number(4, 4)?, scanner.number(2, 2)?, scanner.number(2, 2)?)),
        7 => Some(DayText::OfYear(scanner.number(4, 4)?, scanner.number(3, 3)?)),
        _ => None,
    }
}

/// Parses `2017-06-05`, `2017/6/5`, `2017-W23-1`, `2017-156`, `2017-Jun-05`, `+2017-06-05`.
fn year_first(scanner: &mut Scanner<'_>) -> Option<DayText> {
    let sign = scanner.eat(b"+-");
    let year = scanner.number(4, 4)?;
    let year = if sign == Some(b'-') { -year } else { year };
    let week = scanner.attempt(|scanner| {
        scanner.eat(b"-");
        scanner.eat(b"W")?;
        let week = scanner.number(2, 2)?;
        let day = scanner.attempt(|scanner| {
            scanner.eat(b"-");
            scanner.number(1, 1)
        });
        Some(DayText::Week(year, week, day.unwrap_or(1)))
    });
    if week.is_some() {
        return week;
    }
    let separator = scanner.eat(b"-/.")?;
    if scanner.digits_ahead() == 3 {
        return Some(DayText::OfYear(year, scanner.number(3, 3)?));
    }
    let month = match scanner.month() {
        Some(month) => month,
        None => scanner.number(1, 2)?,
    };
    // `2017-06` means the first day of that month.
    let day = scanner.attempt(|scanner| {
        scanner.eat(&[separator])?;
        scanner.number(1, 2)
    });
    Some(DayText::Calendar(year, month, day.unwrap_or(1)))
}

/// Parses `6/5/2017`, `6/5`, `05-06-2017`, `5.6.2017`.
fn day_or_month_first(scanner: &mut Scanner<'_>) -> Option<DayText> {
    let first = scanner.number(1, 2)?;
    let separator = scanner.eat(b"/-.")?;
    let second = scanner.number(1, 2)?;
    let year = scanner.attempt(|scanner| {
        scanner.eat(&[separator])?;
        scanner.number(4, 4)
    });
    match (separator, year) {
        (b'/', Some(year)) => Some(DayText::Calendar(year, first, second)),
        (b'/', None) => Some(DayText::WithoutYear),
        (_, Some(year)) => Some(DayText::Calendar(year, second, first)),
        (_, None) => None,
    }
}

/// Parses `5 June 2017`, `5th June`, `05-Jun-2017`.
fn day_month_name(scanner: &mut Scanner<'_>) -> Option<DayText> {
    let day = scanner.number(1, 2)?;
    ordinal(scanner);
    scanner.skip(b" -.\t");
    let month = scanner.month()?;
    let year = scanner.attempt(|scanner| {
        scanner.skip(b" -.,\t");
        year(scanner)
    });
    Some(year.map_or(DayText::WithoutYear, |year| DayText::Calendar(year, month, day)))
}

/// Parses `June 5, 2017`, `Jun-05-2017`, `June 2017`, `June 5`.
fn month_name_first(scanner: &mut Scanner<'_>) -> Option<DayText> {
    let month = scanner.month()?;
    scanner.skip(b" -.\t");
    if let Some(year) = scanner.attempt(year) {
        return Some(DayText::Calendar(year, month, 1));
    }
    let day = scanner.number(1, 2)?;
    ordinal(scanner);
    let year = scanner.attempt(|scanner| {
        scanner.skip(b" -.,\t");
        year(scanner)
    });
    Some(year.map_or(DayText::WithoutYear, |year| DayText::Calendar(year, month, day)))
}

/// Parses a year of four digits that is not followed by further digits.
fn year(scanner: &mut Scanner<'_>) -> Option<i64> {
    if scanner.digits_ahead() == 4 { scanner.number(4, 4) } else { None }
}

/// Skips an ordinal suffix after the number of a day: `st`, `nd`, `rd`, `th`.
fn ordinal(scanner: &mut Scanner<'_>) {
    scanner.attempt(|scanner| {
        let suffix = scanner.word();
        ["st", "nd", "rd", "th"].iter().any(|known| suffix.eq_ignore_ascii_case(known)).then_some(())
    });
}

#[cfg(test)]
mod tests {
    use super::super::calendar::{DAY, Day};
    use super::super::text::date_from;
    use super::super::zone::Zone;

    /// 2017-06-05 at this time of day, in milliseconds.
    fn on_the_day(hour: i64, minute: i64, second: i64, millisecond: i64) -> Option<i64> {
        let day = Day { year: 2017, month: 6, day: 5 }.days();
        Some((day * DAY + hour * 3600 + minute * 60 + second) * 1000 + millisecond)
    }

    #[test]
    fn parsing_accepts_common_forms_of_days() {
        for text in [
            "2017-06-05",
            "2017-6-5",
            "2017/06/05",
            "20170605",
            "2017156",
            "2017-156",
            "2017-W23-1",
            "2017W231",
            "6/5/2017",
            "5.6.2017",
            "05-06-2017",
            "5 June 2017",
            "05-Jun-2017",
            "2017-Jun-05",
            "June 5, 2017",
            "JUN 5th 2017",
            "Mon, 5 Jun 2017",
            "Monday June 5 2017",
        ] {
            assert_eq!(date_from(text, None, &Zone::UTC).ok(), on_the_day(0, 0, 0, 0), "{text}");
        }
    }

    #[test]
    fn parsing_accepts_times_and_zones() {
        for (text, expected) in [
            ("2017-06-05T14:03:09.007Z", on_the_day(14, 3, 9, 7)),
            ("2017-06-05T14:03:09.0079Z", on_the_day(14, 3, 9, 7)),
            ("2017-06-05 14:03:09,5", on_the_day(14, 3, 9, 500)),
            ("2017-06-05T14:03", on_the_day(14, 3, 0, 0)),
            ("20170605T140309", on_the_day(14, 3, 9, 0)),
            ("20170605T140309Z", on_the_day(14, 3, 9, 0)),
            ("2017-06-05T14:03:09+02:00", on_the_day(12, 3, 9, 0)),
            ("2017-06-05T14:03:09-0330", on_the_day(17, 33, 9, 0)),
            ("2017-06-05 2:03 pm", on_the_day(14, 3, 0, 0)),
            ("2017-06-05 12 a.m.", on_the_day(0, 0, 0, 0)),
            ("2:03pm June 5, 2017", on_the_day(14, 3, 0, 0)),
            ("Mon, 05 Jun 2017 14:03:09 GMT", on_the_day(14, 3, 9, 0)),
            ("Mon, 05 Jun 2017 14:03:09 EST", on_the_day(19, 3, 9, 0)),
            ("Mon Jun 05 2017 14:03:09 GMT+0200 (CEST)", None),
            ("Mon Jun 05 14:03:09 2017", None),
            ("2017-06-05T24:00:00Z", on_the_day(24, 0, 0, 0)),
        ] {
            assert_eq!(date_from(text, None, &Zone::UTC).ok(), expected, "{text}");
        }
    }

    #[test]
    fn parsing_reports_the_error() {
        for (text, problem) in [
            ("", "; 0: Empty string ''"),
            ("foo", "; 0: passing a time zone identifier as part of the string is not allowed 'f'"),
            (
                "2017-06-05T14:03:09 Europe/Berlin",
                "; 20: passing a time zone identifier as part of the string is not allowed 'E'",
            ),
            ("2017-06-05T14:03:09Z Z", "; 21: Double timezone specification 'Z'"),
            ("2017-06-05 2017-06-05", "; 11: Double date specification '2'"),
            ("2017-06-05 10:00 11:00", "; 17: Double time specification '1'"),
            ("2017-06-05 25:00", "; 11: Unexpected character '2'"),
            ("2017-02-30", "; 10: The parsed date was invalid ''"),
            ("2017-06-05 é", "; 11: Unexpected character 'é'"),
            ("#", "; 0: Unexpected character '#'"),
        ] {
            let error = date_from(text, None, &Zone::UTC).map_err(|error| error.message);
            assert_eq!(error, Err(format!("Error parsing date string '{text}'{problem}")));
        }
        for text in ["July 4th", "12:50:53", "7/4", "now"] {
            let error = date_from(text, None, &Zone::UTC).map_err(|error| error.message);
            let incomplete =
                format!("an incomplete date/time string has been found, with elements missing: \"{text}\"");
            assert_eq!(error, Err(incomplete));
        }
    }
}
