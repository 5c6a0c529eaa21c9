//! The bitwise operators: `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.

use super::integer;
use crate::display::ShownField;
use crate::error::{Error, Result};
use diwan_value::{RawValue, Value};

/// Which of the bits must be set or clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BitCondition {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

impl BitCondition {
    /// The operator's name.
    pub fn operator(self) -> &'static str {
        match self {
            BitCondition::AllSet => "$bitsAllSet",
            BitCondition::AllClear => "$bitsAllClear",
            BitCondition::AnySet => "$bitsAnySet",
            BitCondition::AnyClear => "$bitsAnyClear",
        }
    }

    fn decide(self, mut bits: impl Iterator<Item = bool>) -> bool {
        match self {
            BitCondition::AllSet => bits.all(|set| set),
            BitCondition::AllClear => bits.all(|set| !set),
            BitCondition::AnySet => bits.any(|set| set),
            BitCondition::AnyClear => bits.any(|set| !set),
        }
    }
}

/// A condition on some bits of an integer or of binary data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitTest {
    condition: BitCondition,
    positions: Vec<u32>,
    /// The positions below 64 as a mask; positions above test the sign.
    mask: u64,
}

impl BitTest {
    /// Parses a list of positions, or a mask given as a number or as binary data.
    pub(super) fn parse(condition: BitCondition, path: &str, value: Value<'_>) -> Result<BitTest> {
        let positions = match value {
            Value::Array(array) => {
                array.elements().map(|e| position(e.key_str(), e.value())).collect::<Result<Vec<u32>>>()?
            }
            Value::Binary { bytes, .. } => set_bits(bytes),
            _ if value.is_number() => {
                let mask =
                    integer::non_negative(condition.operator(), value).map_err(Error::failed_to_parse)?;
                set_bits(&mask.to_le_bytes())
            }
            _ => {
                return Err(Error::bad_value(format!(
                    "{path} takes an Array, a number, or a BinData but received: {}",
                    ShownField(condition.operator(), value)
                )));
            }
        };
        let mask = positions.iter().fold(0, |mask, position| mask | 1 << position.min(&63));
        Ok(BitTest { condition, positions, mask })
    }

    /// Which of the bits must be set or clear.
    pub fn condition(&self) -> BitCondition {
        self.condition
    }

    /// The tested positions; the lowest bit is 0.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Whether a value's bits satisfy the condition. Only whole numbers and binary data have bits.
    pub(super) fn holds(&self, raw: RawValue<'_>) -> bool {
        match raw.decode() {
            Some(Value::Binary { bytes, .. }) => {
                let bit = |position: &u32| {
                    bytes.get(*position as usize / 8).is_some_and(|byte| byte >> (position % 8) & 1 == 1)
                };
                self.condition.decide(self.positions.iter().map(bit))
            }
            Some(value) => {
                let Ok(number) = integer::exact("", value) else { return false };
                let set = number as u64 & self.mask;
                match self.condition {
                    BitCondition::AllSet => set == self.mask,
                    BitCondition::AllClear => set == 0,
                    BitCondition::AnySet => set != 0,
                    BitCondition::AnyClear => set != self.mask,
                }
            }
            None => false,
        }
    }
}

/// The positions of the set bits. The first byte is the lowest.
fn set_bits(bytes: &[u8]) -> Vec<u32> {
    let bits =
        (0u32..).zip(bytes).flat_map(|(at, byte)| (0..8).map(move |bit| (at * 8 + bit, byte >> bit & 1)));
    bits.filter(|(_, bit)| *bit == 1).map(|(position, _)| position).collect()
}

fn position(key: &str, value: Value<'_>) -> Result<u32> {
    let reject = |text: &str| Err(Error::bad_value(format!("{text}: {}", ShownField(key, value))));
    let number = match value {
        Value::Double(number) if number.is_nan() => return reject("bit positions cannot take a NaN"),
        Value::Double(number) if number.abs() > f64::from(i32::MAX) => {
            return reject("bit positions cannot be represented as a 32-bit signed integer");
        }
        _ => integer::exact(key, value),
    };
    let Ok(number) = number else { return reject("bit positions must be an integer but got") };
    match i32::try_from(number) {
        Err(_) => reject("bit positions cannot be represented as a 32-bit signed integer"),
        Ok(number) if number < 0 => reject("bit positions must be >= 0 but got"),
        Ok(number) => Ok(number.unsigned_abs()),
    }
}
