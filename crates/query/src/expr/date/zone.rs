//! Time zones: names of the IANA database, which is part of the program, and fixed offsets.

use super::calendar::{DAY, Day, WeekDay};
use crate::error::{Error, Result};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

/// The IANA database of the program: the same on every machine.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A time zone.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    /// So many seconds east of UTC.
    Fixed(i64),
    /// A place's zone.
    Named(TimeZone),
}

/// A moment as clocks of a zone show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    /// Days since 1970-01-01.
    pub days: i64,
    /// Seconds of the day.
    pub second_of_day: i64,
    /// Milliseconds of the second.
    pub millisecond: i64,
    /// Seconds east of UTC at that moment.
    pub offset: i64,
}

impl Local {
    /// The day of the calendar.
    pub fn day(&self) -> Day {
        Day::from_days(self.days)
    }

    /// The day of the week calendar.
    pub fn week_day(&self) -> WeekDay {
        WeekDay::from_days(self.days)
    }

    /// 0 to 23.
    pub fn hour(&self) -> i64 {
        self.second_of_day / 3600
    }

    /// 0 to 59.
    pub fn minute(&self) -> i64 {
        self.second_of_day / 60 % 60
    }

    /// 0 to 59.
    pub fn second(&self) -> i64 {
        self.second_of_day % 60
    }
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::Fixed(0);

    /// Finds a zone by its name, or by an offset `+hh`, `+hhmm`, `+hh:mm`.
    pub fn parse(name: &str) -> Result<Zone> {
        if name == "UTC" {
            return Ok(Zone::UTC);
        }
        if let Some(offset) = parse_offset(name) {
            return Ok(Zone::Fixed(offset));
        }
        // The database ignores case, MongoDB does not.
        let zone = DATABASE.get(name).ok().filter(|zone| zone.iana_name() == Some(name));
        let unknown = || Error::new(40485, format!("unrecognized time zone identifier: \"{name}\""));
        zone.map(Zone::Named).ok_or_else(unknown)
    }

    /// Whether this is UTC itself.
    pub fn is_utc(&self) -> bool {
        matches!(self, Zone::Fixed(0))
    }

    /// Seconds east of UTC at a moment, which is given in seconds since the epoch.
    pub fn offset(&self, seconds: i64) -> i64 {
        match self {
            Zone::Fixed(offset) => *offset,
            Zone::Named(zone) => zone.to_offset(timestamp(seconds)).seconds().into(),
        }
    }

    /// What clocks show at a moment, which is given in milliseconds since the epoch.
    pub fn local(&self, millis: i64) -> Local {
        let seconds = millis.div_euclid(1000);
        let offset = self.offset(seconds);
        let local = seconds + offset;
        Local {
            days: local.div_euclid(DAY),
            second_of_day: local.rem_euclid(DAY),
            millisecond: millis.rem_euclid(1000),
            offset,
        }
    }

    /// The moment at which clocks show that: seconds since the epoch. A time that clocks skip is moved on by what they
    /// skip; of a time that they show twice it is the first.
    pub fn moment(&self, days: i64, second_of_day: i64) -> i64 {
        let local = days * DAY + second_of_day;
        match self {
            Zone::Fixed(offset) => local - offset,
            Zone::Named(zone) => {
                // A moment without a zone, taken as one of UTC.
                let clock = TimeZone::UTC.to_datetime(timestamp(local));
                let moment = zone.to_ambiguous_timestamp(clock).compatible();
                match moment {
                    Ok(moment) if timestamp(local).as_second() == local => moment.as_second(),
                    _ => local - self.offset(local),
                }
            }
        }
    }
}

/// The moment, or the end of the library's range that is nearest: zones have no rules beyond it.
fn timestamp(seconds: i64) -> Timestamp {
    let nearest = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(nearest)
}

/// Reads `±hh`, `±hhmm`, `±hh:mm` as seconds.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let number = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok()).flatten()
    };
    let (hours, minutes) = match digits.len() {
        2 => (number(digits)?, 0),
        4 => (number(digits.get(..2)?)?, number(digits.get(2..)?)?),
        5 if digits.as_bytes()[2] == b':' => (number(digits.get(..2)?)?, number(digits.get(3..)?)?),
        _ => return None,
    };
    Some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_offsets() {
        for (text, seconds) in [
            ("+05", Some(18_000)),
            ("-0330", Some(-12_600)),
            ("+05:45", Some(20_700)),
            ("+00:00", Some(0)),
            ("05", None),
            ("+5", None),
            ("+0x30", None),
            ("+05-30", None),
            ("", None),
            ("é", None),
        ] {
            assert_eq!(parse_offset(text), seconds, "{text}");
        }
    }

    #[test]
    fn knows_names() {
        let offset = |name: &str, seconds| Zone::parse(name).map(|zone| zone.offset(seconds));
        // 2020-07-01 and 2020-01-01.
        assert_eq!(offset("America/New_York", 1_593_561_600), Ok(-14_400));
        assert_eq!(offset("America/New_York", 1_577_836_800), Ok(-18_000));
        assert_eq!(offset("Europe/Berlin", i64::MAX / 1000), Ok(3600));
        assert!(offset("europe/berlin", 0).is_err());
        assert!(offset("Europe/Atlantis", 0).is_err());
        assert!(Zone::parse("UTC").is_ok_and(|zone| zone.is_utc()));
    }

    #[test]
    fn moments_of_skipped_and_repeated_times() -> Result<()> {
        let zone = Zone::parse("Europe/Berlin")?;
        let day = |year, month, day| Day { year, month, day }.days();
        // Skipped: 02:30 is what 03:30 is. Repeated: the first 02:30, in summer time.
        assert_eq!(zone.moment(day(2021, 3, 28), 9000), day(2021, 3, 28) * DAY + 5400);
        assert_eq!(zone.moment(day(2021, 10, 31), 9000), day(2021, 10, 31) * DAY + 1800);
        assert_eq!(zone.moment(day(20_000, 6, 1), 0), day(20_000, 6, 1) * DAY - zone.offset(i64::MAX / 1000));
        Ok(())
    }
}
