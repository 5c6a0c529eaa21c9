//! Positions in the event log, and the tokens by which clients resume a stream.

use crate::error::{Error, Result};
use diwan_value::{Doc, DocBuf, Timestamp, doc};

/// The version of the token's form.
const VERSION: u8 = 1;
/// Flags of a token.
const INVALIDATE: u8 = 1;
const FRAGMENT: u8 = 2;
const BETWEEN: u8 = 4;
/// The error for a token that this server did not make (`FailedToParse` in MongoDB, which names the field).
const BAD_TOKEN: i32 = 260;

/// The bytes of a position in the log's keys.
const KEY_BYTES: usize = 12;

/// A place in the log: after the event with this time and number. A stream that continues there shows later events only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The event's cluster time, as [`Timestamp::to_bits`].
    pub time: u64,
    /// The event's number among those of one time. A transaction's events have one time.
    pub number: u32,
}

impl Position {
    /// After every event up to and including `time`.
    pub fn after(time: Timestamp) -> Position {
        Position { time: time.to_bits(), number: u32::MAX }
    }

    /// Before every event of `time`.
    pub fn before(time: Timestamp) -> Position {
        Position { time: time.to_bits().saturating_sub(1), number: u32::MAX }
    }

    /// The cluster time.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_bits(self.time)
    }

    /// Before the event at this position.
    pub(crate) fn previous(self) -> Position {
        match self.number.checked_sub(1) {
            Some(number) => Position { number, ..self },
            None => Position::before(self.timestamp()),
        }
    }

    pub(crate) fn key(self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&self.time.to_be_bytes());
        key[8..].copy_from_slice(&self.number.to_be_bytes());
        key
    }

    pub(crate) fn from_key(key: &[u8]) -> Option<Position> {
        let (time, number) = key.split_first_chunk::<8>()?;
        Some(Position {
            time: u64::from_be_bytes(*time),
            number: u32::from_be_bytes(number.try_into().ok()?),
        })
    }
}

/// What a client gives back to continue a stream: `{_data: "…"}`, with hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Where the stream continues.
    pub position: Position,
    /// Whether the event ended its stream. Only `startAfter` continues behind such an event.
    pub is_invalidate: bool,
    /// Whether the stream has shown no event at this position, but has looked at everything up to it.
    pub is_between: bool,
    /// How many fragments of the event were shown; 0 if it was shown as a whole.
    pub fragment: u32,
    /// The log that the position is in.
    pub origin: u32,
}

impl Token {
    /// The token as documents hold it.
    pub fn to_doc(self) -> DocBuf {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.is_invalidate, INVALIDATE)
            | flag(self.fragment > 0, FRAGMENT)
            | flag(self.is_between, BETWEEN);
        let mut bytes = vec![VERSION, flags];
        bytes.extend_from_slice(&self.origin.to_be_bytes());
        bytes.extend_from_slice(&self.position.key());
        if self.fragment > 0 {
            bytes.extend_from_slice(&self.fragment.to_be_bytes());
        }
        let text: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        doc! { "_data": text.as_str() }
    }

    /// Reads a token that a client gave back.
    pub fn parse(doc: Doc<'_>) -> Result<Token> {
        let parsed = doc.get_str("_data").and_then(|text| {
            let bytes = unhex(text)?;
            let [VERSION, flags @ 0..=BETWEEN, rest @ ..] = bytes.as_slice() else { return None };
            let (origin, rest) = rest.split_first_chunk()?;
            let (key, fragment) = rest.split_at_checked(KEY_BYTES)?;
            let fragment = match flags & FRAGMENT {
                0 => fragment.is_empty().then_some(0)?,
                _ => u32::from_be_bytes(fragment.try_into().ok()?),
            };
            Some(Token {
                position: Position::from_key(key)?,
                is_invalidate: flags & INVALIDATE > 0,
                is_between: flags & BETWEEN > 0,
                fragment,
                origin: u32::from_be_bytes(*origin),
            })
        });
        parsed.ok_or_else(|| Error::refused(BAD_TOKEN, "the resume token was not made by this server"))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_parses_to_what_was_written() {
        let position = Position { time: 77 << 32 | 3, number: 5 };
        for (is_invalidate, fragment, is_between) in
            [(false, 0, false), (true, 0, false), (false, 2, false), (false, 0, true)]
        {
            let token = Token { position, is_invalidate, is_between, fragment, origin: 0xFEDC_BA98 };
            assert_eq!(Token::parse(token.to_doc().as_doc()).unwrap(), token);
        }
    }

    #[test]
    fn a_token_of_another_server_is_refused() {
        for text in ["", "82", "0100", "zz", "0105000000000000000000000000000000000000", "é0"] {
            assert!(Token::parse(doc! { "_data": text }.as_doc()).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_sort_as_positions() {
        let positions =
            [(1, 0), (1, 7), (2, 0), (1 << 40, 0)].map(|(time, number)| Position { time, number });
        assert!(positions.is_sorted_by_key(|position| position.key()));
        assert_eq!(Position::from_key(&positions[1].key()), Some(positions[1]));
    }
}
