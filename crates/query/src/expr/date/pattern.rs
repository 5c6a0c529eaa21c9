//! Parses dates by a pattern of `%` specifiers.

use super::calendar::WeekDay;
use super::parsed::{Parsed, TextError, TextZone};
use super::scanner::{Scanner, valid_day, valid_time};

/// The specifiers for parsing.
pub(super) const FROM_TEXT: &str = "bBdGHjLmMSuVYzZ%";

/// The fields that the specifiers set.
#[derive(Default)]
struct PatternFields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    zone: Option<TextZone>,
}

/// Parses a text by a pattern that was checked.
pub(super) fn parse(text: &str, format: &str) -> Result<Parsed, TextError> {
    let mut scanner = Scanner::new(text);
    let mut fields = PatternFields::default();
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        let position = scanner.position();
        let error = |message| TextError { position, message };
        if char == '%' {
            let specifier = chars.next().unwrap_or('%');
            if scanner.is_at_end() {
                return Err(error("Not enough data available to satisfy format"));
            }
            fields.read(specifier, &mut scanner).map_err(error)?;
        } else {
            let mut utf8 = [0; 4];
            for byte in char.encode_utf8(&mut utf8).bytes() {
                if scanner.is_at_end() {
                    return Err(error("Not enough data available to satisfy format"));
                }
                scanner.eat(&[byte]).ok_or_else(|| error("The separation symbol could not be found"))?;
            }
        }
    }
    if !scanner.is_at_end() {
        return Err(TextError { position: scanner.position(), message: "Trailing data" });
    }
    fields.finish().map_err(|message| TextError { position: text.len(), message })
}

impl PatternFields {
    /// Parses the text of one specifier.
    fn read(&mut self, specifier: char, scanner: &mut Scanner<'_>) -> Result<(), &'static str> {
        let fields = self;
        match specifier {
            'Y' => {
                fields.year = Some(scanner.number(4, 4).ok_or("A four digit year could not be found")?);
            }
            'm' => fields.month = Some(scanner.number(1, 2).ok_or("A two digit month could not be found")?),
            'd' => fields.day = Some(scanner.number(1, 2).ok_or("A two digit day could not be found")?),
            'b' | 'B' => fields.month = Some(scanner.month().ok_or("A textual month could not be found")?),
            'j' => {
                let day = scanner.number(1, 3).ok_or("A three digit day-of-year could not be found")?;
                fields.day_of_year = Some(day);
            }
            'G' => {
                let year = scanner.number(4, 4).ok_or("A four digit ISO year could not be found")?;
                fields.iso_year = Some(year);
            }
            'V' => {
                let week = scanner.number(2, 2).ok_or("A two digit ISO week could not be found")?;
                fields.iso_week = Some(week);
            }
            'u' => {
                let day = scanner.number(1, 1).ok_or("A single digit day of week could not be found")?;
                fields.iso_day = Some(day);
            }
            'H' => fields.hour = scanner.number(1, 2).ok_or("A two digit hour could not be found")?,
            'M' => fields.minute = scanner.number(2, 2).ok_or("A two digit minute could not be found")?,
            'S' => fields.second = scanner.number(2, 2).ok_or("A two digit second could not be found")?,
            'L' => {
                fields.millisecond =
                    scanner.fraction(3).ok_or("A three digit millisecond could not be found")?;
            }
            'z' => {
                let zone = scanner.zone();
                fields.zone = Some(zone.ok_or("The timezone could not be found in the database")?);
            }
            'Z' => {
                let minutes = scanner.attempt(|scanner| {
                    let sign = if scanner.eat(b"+-")? == b'-' { -1 } else { 1 };
                    Some(sign * scanner.number(1, 4)?)
                });
                let minutes = minutes.ok_or("Invalid timezone offset in minutes")?;
                fields.zone = Some(TextZone::Offset(minutes * 60));
            }
            _ => _ = scanner.eat(b"%").ok_or("The separation symbol could not be found")?,
        }
        Ok(())
    }

    /// Combines the fields into a date.
    fn finish(self) -> Result<Parsed, &'static str> {
        let invalid_date = "The parsed date was invalid";
        let iso = self.iso_year.is_some() || self.iso_week.is_some() || self.iso_day.is_some();
        let natural = self.year.is_some() || self.month.is_some() || self.day.is_some();
        if iso && (natural || self.day_of_year.is_some()) {
            return Err("Mixing of ISO dates with natural dates is not allowed");
        }
        let days = match (self.year, self.month, self.day, self.day_of_year) {
            (Some(year), None, None, Some(of_year)) => {
                let first = valid_day(year, 1, 1).ok_or(invalid_date)?;
                let last = valid_day(year, 12, 31).ok_or(invalid_date)?;
                let day = first + of_year - 1;
                Some(day).filter(|day| (first..=last).contains(day)).ok_or(invalid_date).map(Some)?
            }
            (Some(year), Some(month), Some(day), _) => Some(valid_day(year, month, day).ok_or(invalid_date)?),
            _ => self.iso_year.map(|year| {
                let (week, day) = (self.iso_week.unwrap_or(1), self.iso_day.unwrap_or(1));
                WeekDay { year, week, day }.days()
            }),
        };
        let time = valid_time(self.hour, self.minute, self.second).ok_or("The parsed time was invalid")?;
        Ok(Parsed { days, second_of_day: time, millisecond: self.millisecond, zone: self.zone })
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::date_from;
    use super::super::zone::Zone;

    #[test]
    fn parsing_follows_the_pattern() {
        for (text, format, expected) in [
            ("2017-06-05 14:03:09.007", "%Y-%m-%d %H:%M:%S.%L", "2017-06-05T14:03:09.007Z"),
            ("5 june 2017", "%d %B %Y", "2017-06-05"),
            ("Jun-05-2017", "%b-%d-%Y", "2017-06-05"),
            ("2017.156", "%Y.%j", "2017-06-05"),
            ("2017-23-1", "%G-%V-%u", "2017-06-05"),
            ("2017-23", "%G-%V", "2017-06-05"),
            ("2017/06/05 02:00+0200", "%Y/%m/%d %H:%M%z", "2017-06-05"),
            ("2017/06/05 00:00 -120", "%Y/%m/%d %H:%M %Z", "2017-06-05T02:00:00Z"),
            ("100%é 2017-06-05", "100%%é %Y-%m-%d", "2017-06-05"),
            ("2017-06-05 7", "%Y-%m-%d %H", "2017-06-05T07:00:00Z"),
        ] {
            let date = date_from(text, Some(format), &Zone::UTC);
            assert_eq!(date, date_from(expected, None, &Zone::UTC), "{text}");
        }
    }

    #[test]
    fn parsing_rejects_text_that_does_not_match() {
        for (text, format, problem) in [
            ("17-06-05", "%Y-%m-%d", "; 0: A four digit year could not be found '1'"),
            ("2017/06-05", "%Y-%m-%d", "; 4: The separation symbol could not be found '/'"),
            ("2017-06", "%Y-%m-%d", "; 7: Not enough data available to satisfy format ''"),
            ("2017-06-05x", "%Y-%m-%d", "; 10: Trailing data 'x'"),
            ("2017-13-05", "%Y-%m-%d", "; 10: The parsed date was invalid ''"),
            ("2017-02-29", "%Y-%m-%d", "; 10: The parsed date was invalid ''"),
            ("2017-366", "%Y-%j", "; 8: The parsed date was invalid ''"),
            ("2017-06-05 25", "%Y-%m-%d %H", "; 13: The parsed time was invalid ''"),
            ("2017 23", "%Y %V", "; 7: Mixing of ISO dates with natural dates is not allowed ''"),
        ] {
            let error = date_from(text, Some(format), &Zone::UTC).err().map(|error| error.message);
            assert_eq!(error, Some(format!("Error parsing date string '{text}'{problem}")), "{text}");
        }
        let error = date_from("2017", Some("%Y"), &Zone::UTC).err().map(|error| (error.code, error.message));
        let text = "an incomplete date/time string has been found, with elements missing: \"2017\"";
        assert_eq!(error, Some((241, text.to_owned())));
    }
}
