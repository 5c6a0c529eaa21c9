//! The types stored beside a key, for values that do not have the type that their key bytes suggest.
//!
//! A number's key bytes suggest an `Int32`, or beyond its range an `Int64`, if the number has no fraction; a `Double`
//! if it is exact in binary; otherwise the decimal without trailing zeros. A string's key bytes suggest a string. Each
//! exception is written as the count of ordinary numbers and strings before it, a code, and the data that the code
//! needs.

use super::number::DecimalForm;
use crate::scalar::Decimal128;

pub(super) const SYMBOL: u8 = 1;
pub(super) const INT64: u8 = 2;
pub(super) const DOUBLE: u8 = 3;
/// Followed by the double's 8 bytes, little-endian.
pub(super) const DOUBLE_BITS: u8 = 4;
/// Followed by the decimal's exponent, 2 bytes little-endian.
pub(super) const DECIMAL_EXPONENT: u8 = 5;
/// Followed by the decimal's 16 bytes, little-endian.
pub(super) const DECIMAL_BITS: u8 = 6;

/// Collects the exceptions of one key. Most keys have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    bytes: Vec<u8>,
    /// How many ordinary values came since the last exception.
    common: u32,
}

impl Types {
    /// Starts without values.
    pub fn new() -> Types {
        Types::default()
    }

    /// The bytes to store beside the key; empty if every value has the type that its bytes suggest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether every value so far has the type that its bytes suggest.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Clears the exceptions for the next key.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.common = 0;
    }

    #[inline]
    pub(super) fn common(&mut self) {
        self.common += 1;
    }

    pub(super) fn symbol(&mut self) {
        self.exception(SYMBOL, &[]);
    }

    #[inline]
    pub(super) fn int64(&mut self, number: i64) {
        // i64::MIN has the bytes of the double -2^63.
        if i32::try_from(number).is_ok() || number == i64::MIN {
            self.exception(INT64, &[]);
        } else {
            self.common();
        }
    }

    #[inline]
    pub(super) fn double(&mut self, number: f64) {
        if (number == 0.0 && number.is_sign_negative())
            || (number.is_nan() && number.to_bits() != f64::NAN.to_bits())
        {
            self.exception(DOUBLE_BITS, &number.to_le_bytes());
        } else if number.trunc() == number && number.abs() < crate::number::TWO_POW_63 {
            self.exception(DOUBLE, &[]);
        } else {
            self.common();
        }
    }

    pub(super) fn decimal(&mut self, number: Decimal128, form: DecimalForm) {
        match form {
            DecimalForm::Suggested => self.common(),
            DecimalForm::Exponent(exponent) => self.exception(DECIMAL_EXPONENT, &exponent.to_le_bytes()),
            DecimalForm::Opaque => self.exception(DECIMAL_BITS, &number.0),
        }
    }

    fn exception(&mut self, code: u8, detail: &[u8]) {
        let mut common = std::mem::take(&mut self.common);
        while common > 0x7F {
            self.bytes.push(common as u8 | 0x80);
            common >>= 7;
        }
        self.bytes.push(common as u8);
        self.bytes.push(code);
        self.bytes.extend_from_slice(detail);
    }
}

/// The actual type of a number or string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exception {
    Symbol,
    Int64,
    Double,
    DoubleBits([u8; 8]),
    DecimalExponent(i16),
    DecimalBits([u8; 16]),
}

/// Reads the bytes that [`Types`] wrote.
#[derive(Clone, Debug)]
pub(super) struct ExceptionReader<'a> {
    rest: &'a [u8],
    /// How many ordinary values come before the next exception, once that was read.
    common: Option<u32>,
}

impl<'a> ExceptionReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> ExceptionReader<'a> {
        ExceptionReader { rest: bytes, common: None }
    }

    /// The exception for the next number or string, if there is one. The outer `None` means damaged bytes.
    pub(super) fn next(&mut self) -> Option<Option<Exception>> {
        let common = match self.common {
            Some(common) => common,
            None if self.rest.is_empty() => return Some(None),
            None => self.varint()?,
        };
        if common > 0 {
            self.common = Some(common - 1);
            return Some(None);
        }
        self.common = None;
        Some(Some(match self.take::<1>()?[0] {
            SYMBOL => Exception::Symbol,
            INT64 => Exception::Int64,
            DOUBLE => Exception::Double,
            DOUBLE_BITS => Exception::DoubleBits(self.take()?),
            DECIMAL_EXPONENT => Exception::DecimalExponent(i16::from_le_bytes(self.take()?)),
            DECIMAL_BITS => Exception::DecimalBits(self.take()?),
            _ => return None,
        }))
    }

    fn varint(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..32).step_by(7) {
            let byte = self.take::<1>()?[0];
            number |= u32::from(byte & 0x7F).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }
}
