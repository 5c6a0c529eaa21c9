//! Decimal128: the fields of its binary-integer-decimal encoding, arithmetic, and conversions.
//!
//! Arithmetic follows IEEE 754 with 34 digits and rounds half to even. No operation traps; an invalid one gives NaN.

mod arithmetic;
mod convert;

use crate::scalar::Decimal128;

pub use arithmetic::Rounding;
pub use convert::ParseDecimalError;

/// The bias that is added to a stored exponent.
const EXPONENT_BIAS: i32 = 6176;

/// The largest coefficient: 34 nines.
pub(crate) const MAX_COEFFICIENT: u128 = 9_999_999_999_999_999_999_999_999_999_999_999;

/// How many bits the coefficient occupies.
const COEFFICIENT_BITS: u32 = 113;

/// The largest stored exponent: that of 10^6111.
const MAX_BIASED: u128 = 12_287;

/// The parts of a Decimal128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Not a number, of either sign, quiet or signalling.
    NaN,
    /// An infinity.
    Infinity {
        /// Whether it is the negative infinity.
        negative: bool,
    },
    /// ±coefficient × 10^exponent.
    Finite {
        /// The sign. Zero has one too.
        negative: bool,
        /// At most [`MAX_COEFFICIENT`].
        coefficient: u128,
        /// From -6176 to 6111.
        exponent: i32,
    },
}

impl Decimal128 {
    /// 0 with the exponent 0.
    pub const ZERO: Decimal128 = Decimal128::from_bits((EXPONENT_BIAS as u128) << COEFFICIENT_BITS);
    /// Not a number.
    pub const NAN: Decimal128 = Decimal128::from_bits(0b01_1111 << 122);
    /// Above every number.
    pub const INFINITY: Decimal128 = Decimal128::from_bits(0b01_1110 << 122);
    /// Below every number.
    pub const NEG_INFINITY: Decimal128 = Decimal128::from_bits(0b11_1110 << 122);

    const fn from_bits(bits: u128) -> Decimal128 {
        Decimal128(bits.to_le_bytes())
    }

    /// Whether this is not a number.
    pub fn is_nan(self) -> bool {
        self.parts() == Parts::NaN
    }

    /// Whether this is one of the infinities.
    pub fn is_infinite(self) -> bool {
        matches!(self.parts(), Parts::Infinity { .. })
    }

    /// Whether this is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        matches!(self.parts(), Parts::Finite { .. })
    }

    /// Whether this is a zero of either sign and any exponent.
    pub fn is_zero(self) -> bool {
        matches!(self.parts(), Parts::Finite { coefficient: 0, .. })
    }

    /// Whether the sign is set; zero and NaN have one too.
    pub fn is_sign_negative(self) -> bool {
        self.0[15] & 0x80 != 0
    }

    /// The number without its sign.
    pub fn abs(mut self) -> Decimal128 {
        self.0[15] &= 0x7F;
        self
    }

    /// Builds ±coefficient × 10^exponent without normalizing it; `None` if the coefficient or the exponent is out of
    /// range.
    pub fn from_parts(negative: bool, coefficient: u128, exponent: i32) -> Option<Decimal128> {
        let biased = u128::try_from(exponent.checked_add(EXPONENT_BIAS)?)
            .ok()
            .filter(|&biased| biased <= MAX_BIASED)?;
        (coefficient <= MAX_COEFFICIENT).then(|| {
            let bits = u128::from(negative) << 127 | biased << COEFFICIENT_BITS | coefficient;
            Decimal128(bits.to_le_bytes())
        })
    }

    /// Splits the number into its parts. A coefficient of more than 34 digits is not canonical and means zero, as IEEE
    /// 754 requires.
    pub fn parts(self) -> Parts {
        let bits = u128::from_le_bytes(self.0);
        let negative = bits >> 127 == 1;
        match (bits >> 122) & 0b1_1111 {
            0b1_1111 => Parts::NaN,
            0b1_1110 => Parts::Infinity { negative },
            // This form has coefficients of 114 bits, all of which exceed 34 digits.
            0b1_1000..=0b1_1101 => Parts::Finite {
                negative,
                coefficient: 0,
                exponent: ((bits >> 111) & 0x3FFF) as i32 - EXPONENT_BIAS,
            },
            _ => {
                let coefficient = bits & ((1 << COEFFICIENT_BITS) - 1);
                Parts::Finite {
                    negative,
                    coefficient: if coefficient > MAX_COEFFICIENT { 0 } else { coefficient },
                    exponent: ((bits >> COEFFICIENT_BITS) & 0x3FFF) as i32 - EXPONENT_BIAS,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
