//! The result of parsing the text of a date.

/// The parts of a date that a text contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parsed {
    /// The day, in days since the epoch.
    pub days: Option<i64>,
    /// The second of the day; 0 if the text has no time.
    pub second_of_day: i64,
    /// The millisecond of the second.
    pub millisecond: i64,
    /// The time zone.
    pub zone: Option<TextZone>,
}

/// A time zone in a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextZone {
    /// Seconds east of UTC.
    Offset(i64),
    /// An abbreviation and its seconds east of UTC.
    Abbreviation(String, i64),
}

/// Why a text is not a date: the offset and the reason.
#[derive(Debug, PartialEq)]
pub(super) struct TextError {
    pub position: usize,
    pub message: &'static str,
}
