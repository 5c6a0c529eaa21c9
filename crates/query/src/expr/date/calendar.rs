//! The proleptic Gregorian calendar over days since 1970-01-01, for all years that 64-bit dates cover.

/// Seconds in a day.
pub(super) const DAY: i64 = 86_400;

/// Days in 400 years, the period of the calendar.
const ERA_DAYS: i64 = 146_097;

/// Days from 0000-03-01, where an era starts, to 1970-01-01.
const EPOCH: i64 = 719_468;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

/// A day of the ISO 8601 week calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeekDay {
    pub year: i64,
    /// 1 to 53.
    pub week: i64,
    /// 1 for Monday to 7 for Sunday.
    pub day: i64,
}

impl Day {
    /// The day that is `days` days after 1970-01-01.
    pub fn from_days(days: i64) -> Day {
        let days = days + EPOCH;
        let era = days.div_euclid(ERA_DAYS);
        let of_era = days.rem_euclid(ERA_DAYS);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        // Years start in March in this computation, so the leap day is the last day of the year.
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Day { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }

    /// The first day of a month, in days since 1970-01-01.
    fn month_start(year: i64, month: i64) -> i64 {
        let year = year - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let month_from_march = (month + 9) % 12;
        let of_year = (153 * month_from_march + 2) / 5;
        era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
    }

    /// Days since 1970-01-01. A month or day outside its range carries over from the beginning of the year.
    pub fn days(self) -> i64 {
        let month = self.month - 1;
        let year = self.year + month.div_euclid(12);
        Day::month_start(year, month.rem_euclid(12) + 1) + self.day - 1
    }

    /// The same day `months` months later, or the last day of that month if it is shorter.
    pub fn plus_months(self, months: i64) -> Day {
        let month = self.month - 1 + months;
        let (year, month) = (self.year + month.div_euclid(12), month.rem_euclid(12) + 1);
        Day { year, month, day: self.day.min(days_in_month(year, month)) }
    }

    /// The day of the year, 1 to 366.
    pub fn of_year(self) -> i64 {
        self.days() - Day { month: 1, day: 1, ..self }.days() + 1
    }

    /// The week of the year. Week 1 begins with the first Sunday; days before it are in week 0.
    pub fn week(self) -> i64 {
        (self.of_year() + 6 - iso_day_of_week(self.days()) % 7) / 7
    }
}

impl WeekDay {
    /// The day that is `days` days after 1970-01-01.
    pub fn from_days(days: i64) -> WeekDay {
        let day = iso_day_of_week(days);
        // A week belongs to the year that contains its Thursday.
        let thursday = Day::from_days(days + 4 - day);
        WeekDay { year: thursday.year, week: (thursday.of_year() - 1) / 7 + 1, day }
    }

    /// Days since 1970-01-01. Week and day may lie outside their ranges.
    pub fn days(self) -> i64 {
        let fourth = Day { year: self.year, month: 1, day: 4 }.days();
        let first_monday = fourth + 1 - iso_day_of_week(fourth);
        first_monday + (self.week - 1) * 7 + self.day - 1
    }
}

/// 1 for Monday to 7 for Sunday.
pub(super) fn iso_day_of_week(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The number of days in a month.
pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    Day::month_start(year + month / 12, month % 12 + 1) - Day::month_start(year, month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_round_trip() {
        let ends = [-106_751_991_168, -719_529, -1, 0, 1, 11_016, 106_751_991_167];
        for days in ends.into_iter().chain((-800_000..800_000).step_by(97)) {
            let day = Day::from_days(days);
            assert_eq!(day.days(), days);
            assert!((1..=12).contains(&day.month) && day.day <= days_in_month(day.year, day.month));
            assert_eq!(WeekDay::from_days(days).days(), days);
        }
        assert_eq!(Day::from_days(11_016), Day { year: 2000, month: 2, day: 29 });
        assert_eq!(Day::from_days(-719_529), Day { year: -1, month: 12, day: 31 });
    }

    #[test]
    fn week_numbers_match_both_calendars() {
        let day = |year, month, day| Day { year, month, day };
        for (date, week, iso) in [
            (day(2016, 1, 1), 0, (2015, 53, 5)),
            (day(2016, 1, 3), 1, (2015, 53, 7)),
            (day(2017, 1, 1), 1, (2016, 52, 7)),
            (day(2018, 12, 31), 52, (2019, 1, 1)),
            (day(2020, 12, 31), 52, (2020, 53, 4)),
        ] {
            let (year, iso_week, weekday) = iso;
            assert_eq!(date.week(), week, "{date:?}");
            assert_eq!(WeekDay::from_days(date.days()), WeekDay { year, week: iso_week, day: weekday });
        }
    }

    #[test]
    fn plus_months_clamps_to_the_end_of_the_month() {
        let day = |year, month, day| Day { year, month, day };
        assert_eq!(day(2020, 10, 31).plus_months(1), day(2020, 11, 30));
        assert_eq!(day(2020, 2, 29).plus_months(-12), day(2019, 2, 28));
        assert_eq!(day(2020, 1, 15).plus_months(-13), day(2018, 12, 15));
        assert_eq!(day(2020, 14, 1).days(), day(2021, 2, 1).days());
        assert_eq!(day(2020, 0, 0).days(), day(2019, 11, 30).days());
    }
}
