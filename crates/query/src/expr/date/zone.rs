//! Time zones: fixed offsets, and names of the IANA database, which is compiled into the program.

use super::calendar::{DAY, Day, WeekDay};
use crate::error::{Error, Result};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

/// The bundled IANA database, so results do not depend on the machine.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A time zone.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    /// A fixed offset in seconds east of UTC.
    Fixed(i64),
    /// A zone of the IANA database.
    Named(TimeZone),
}

/// A moment in the local time of a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    /// Days since 1970-01-01.
    pub days: i64,
    /// Seconds of the day.
    pub second_of_day: i64,
    /// Milliseconds of the second.
    pub millisecond: i64,
    /// The zone's offset at that moment, in seconds east of UTC.
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

    /// The hour, 0 to 23.
    pub fn hour(&self) -> i64 {
        self.second_of_day / 3600
    }

    /// The minute, 0 to 59.
    pub fn minute(&self) -> i64 {
        self.second_of_day / 60 % 60
    }

    /// The second, 0 to 59.
    pub fn second(&self) -> i64 {
        self.second_of_day % 60
    }
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::Fixed(0);

    /// Parses the name of a zone or an offset `+hh`, `+hhmm`, `+hh:mm`.
    pub fn parse(name: &str) -> Result<Zone> {
        if name == "UTC" {
            return Ok(Zone::UTC);
        }
        if let Some(offset) = parse_offset(name) {
            return Ok(Zone::Fixed(offset));
        }
        // The database ignores case, but MongoDB does not.
        let zone = DATABASE.get(name).ok().filter(|zone| zone.iana_name() == Some(name));
        let unknown = || Error::new(40485, format!("unrecognized time zone identifier: \"{name}\""));
        zone.map(Zone::Named).ok_or_else(unknown)
    }

    /// Whether the zone is the fixed zone UTC.
    pub fn is_utc(&self) -> bool {
        matches!(self, Zone::Fixed(0))
    }

    /// The offset in seconds east of UTC at a moment in seconds since the epoch.
    pub fn offset(&self, seconds: i64) -> i64 {
        match self {
            Zone::Fixed(offset) => *offset,
            Zone::Named(zone) => zone.to_offset(timestamp(seconds)).seconds().into(),
        }
    }

    /// The local time at a moment in milliseconds since the epoch.
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

    /// The moment of a local time, in seconds since the epoch. A local time that the clocks skip is moved forward by
    /// the gap; for a local time that occurs twice, the first moment is used.
    pub fn moment(&self, days: i64, second_of_day: i64) -> i64 {
        let local = days * DAY + second_of_day;
        match self {
            Zone::Fixed(offset) => local - offset,
            Zone::Named(zone) => {
                // The local time, treated as a UTC moment.
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

/// The moment, clamped to the range of the library. Zones have no transitions beyond it.
fn timestamp(seconds: i64) -> Timestamp {
    let nearest = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(nearest)
}

/// Parses `±hh`, `±hhmm`, `±hh:mm` as seconds.
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
    fn parsing_accepts_offsets() {
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
    fn parsing_accepts_iana_names() {
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
    fn moment_resolves_skipped_and_repeated_times() -> Result<()> {
        let zone = Zone::parse("Europe/Berlin")?;
        let day = |year, month, day| Day { year, month, day }.days();
        // Skipped: 02:30 becomes 03:30. Repeated: the first 02:30, in summer time.
        assert_eq!(zone.moment(day(2021, 3, 28), 9000), day(2021, 3, 28) * DAY + 5400);
        assert_eq!(zone.moment(day(2021, 10, 31), 9000), day(2021, 10, 31) * DAY + 1800);
        assert_eq!(zone.moment(day(20_000, 6, 1), 0), day(20_000, 6, 1) * DAY - zone.offset(i64::MAX / 1000));
        Ok(())
    }
}
