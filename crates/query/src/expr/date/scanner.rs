//! Scans the tokens of dates: numbers, names of months, time zones.

use super::calendar::{Day, days_in_month};
use super::format::MONTHS;
use super::parsed::TextZone;

/// A position in a text. The scanner works on bytes because all date syntax is ASCII.
#[derive(Clone, Copy)]
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    /// A scanner at the beginning of a text.
    pub fn new(text: &'t str) -> Scanner<'t> {
        Scanner { text, at: 0 }
    }

    /// How many bytes were consumed.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next byte.
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Whether all bytes were consumed.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Consumes a byte if it is in `wanted`.
    pub fn eat(&mut self, wanted: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|byte| wanted.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Consumes all following bytes in `wanted`.
    pub fn skip(&mut self, wanted: &[u8]) {
        while self.eat(wanted).is_some() {}
    }

    /// How many digits follow.
    pub fn digits_ahead(&self) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// Parses a number of `least` to `most` digits.
    pub fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.digits_ahead().min(most);
        if digits < least || digits == 0 {
            return None;
        }
        let number = self.text.get(self.at..self.at + digits)?.parse().ok()?;
        self.at += digits;
        Some(number)
    }

    /// Consumes letters.
    pub fn word(&mut self) -> &'t str {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        word
    }

    /// Runs `read`; if it fails, returns to the position before.
    pub fn attempt<T>(&mut self, read: impl FnOnce(&mut Scanner<'t>) -> Option<T>) -> Option<T> {
        let before = self.at;
        let result = read(self);
        if result.is_none() {
            self.at = before;
        }
        result
    }

    /// Parses the name of a month, long or short.
    pub fn month(&mut self) -> Option<i64> {
        self.attempt(|scanner| {
            let name = scanner.word();
            scanner.eat(b".");
            let short = if name.eq_ignore_ascii_case("sept") { "Sep" } else { name };
            let is_named =
                |month: &str| name.eq_ignore_ascii_case(month) || short.eq_ignore_ascii_case(&month[..3]);
            MONTHS.iter().position(|month| is_named(month)).map(|at| at as i64 + 1)
        })
    }

    /// Parses a fraction of a second. Returns milliseconds.
    pub fn fraction(&mut self, most: usize) -> Option<i64> {
        let digits = self.digits_ahead().min(most);
        let text = self.text.get(self.at..self.at + digits).filter(|text| !text.is_empty())?;
        self.at += digits;
        let milliseconds = text.bytes().chain([b'0'; 3]).take(3);
        Some(milliseconds.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    }

    /// Parses an offset `±h`, `±hh`, `±hhmm`, `±hh:mm`, or the abbreviation of a zone.
    pub fn zone(&mut self) -> Option<TextZone> {
        self.attempt(|scanner| match scanner.peek()? {
            b'+' | b'-' => scanner.offset().map(TextZone::Offset),
            _ => {
                let name = scanner.word();
                let &(_, hours) = ABBREVIATIONS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known))?;
                let is_utc = ["UTC", "GMT"].iter().any(|utc| name.eq_ignore_ascii_case(utc));
                if is_utc && let Some(offset) = scanner.attempt(Scanner::offset) {
                    return Some(TextZone::Offset(offset));
                }
                Some(TextZone::Abbreviation(name.to_owned(), hours * 3600))
            }
        })
    }

    /// Parses an offset with its sign. Returns seconds.
    fn offset(&mut self) -> Option<i64> {
        let sign = if self.eat(b"+-")? == b'-' { -1 } else { 1 };
        let (hours, minutes) = match self.digits_ahead() {
            1 | 2 => {
                let hours = self.number(1, 2)?;
                let minutes = self.attempt(|scanner| {
                    scanner.eat(b":")?;
                    scanner.number(2, 2)
                });
                (hours, minutes.unwrap_or(0))
            }
            digits @ (3 | 4) => (self.number(digits - 2, digits - 2)?, self.number(2, 2)?),
            _ => return None,
        };
        Some(sign * (hours * 3600 + minutes * 60))
    }
}

/// Abbreviations of time zones with their hours east of UTC.
const ABBREVIATIONS: [(&str, i64); 31] = [
    ("Z", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("WET", 0),
    ("WEST", 1),
    ("BST", 1),
    ("CET", 1),
    ("CEST", 2),
    ("EET", 2),
    ("EEST", 3),
    ("SAST", 2),
    ("MSK", 3),
    ("PKT", 5),
    ("WIB", 7),
    ("HKT", 8),
    ("AWST", 8),
    ("JST", 9),
    ("KST", 9),
    ("AEST", 10),
    ("AEDT", 11),
    ("NZST", 12),
    ("NZDT", 13),
    ("EST", -5),
    ("EDT", -4),
    ("CST", -6),
    ("CDT", -5),
    ("MST", -7),
    ("MDT", -6),
    ("PST", -8),
    ("PDT", -7),
    ("HST", -10),
];

/// A calendar day in days since the epoch; `None` if there is no such day.
pub(super) fn valid_day(year: i64, month: i64, day: i64) -> Option<i64> {
    let valid = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    valid.then(|| Day { year, month, day }.days())
}

/// The second of the day for a time; `None` if there is no such time. 24:00 and leap seconds are valid.
pub(super) fn valid_time(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let valid = hour < 24 && minute < 60 && second <= 60 || (hour, minute, second) == (24, 0, 0);
    valid.then_some(hour * 3600 + minute * 60 + second)
}
