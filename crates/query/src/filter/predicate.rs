//! Predicates: conditions on the value at one path.

use super::bits::BitTest;
use super::elem_match::ElemMatch;
use super::operand::Operand;
use super::reach::{AtEnd, Reach};
use super::regex::Pattern;
use super::set::ValueSet;
use super::type_set::TypeSet;
use crate::error::Result;
use crate::mango::Condition;
use diwan_value::{Array, Path, RawValue, Type};
use std::cmp::Ordering;

/// A condition on the value at a path. Except for the combining variants, it holds if any value that the path reaches
/// satisfies it.
#[derive(Clone, Debug)]
pub enum Predicate {
    /// `$eq`; null also equals a missing field.
    Eq(Operand),
    /// `$lt`.
    Lt(Operand),
    /// `$lte`.
    Lte(Operand),
    /// `$gt`.
    Gt(Operand),
    /// `$gte`.
    Gte(Operand),
    /// `$in`.
    In(ValueSet),
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$mod`.
    Mod {
        /// The divisor, not zero.
        divisor: i64,
        /// The remainder, with the dividend's sign.
        remainder: i64,
    },
    /// `$regex`.
    Regex(Pattern),
    /// `$all`: each of these (`Eq`, `Regex` or `ElemMatch`) holds at the path as a whole. An empty list never holds.
    All(Vec<Predicate>),
    /// `$elemMatch`.
    ElemMatch(ElemMatch),
    /// `$size`.
    Size(u32),
    /// `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.
    Bits(BitTest),
    /// `$not`, `$ne`, `$nin`, `$exists: false`: at least one of these does not hold at the path as a whole.
    Not(Vec<Predicate>),
    /// A condition of a CouchDB selector, which follows the path by its own rules.
    Mango(Box<Condition>),
}

/// A predicate that holds: the index of the array element that made it hold (the positional `$`), if there is one.
pub(super) type Hit = Option<usize>;

impl Predicate {
    /// The operator's name as MongoDB spells it.
    pub fn operator(&self) -> &'static str {
        match self {
            Predicate::Eq(_) => "$eq",
            Predicate::Lt(_) => "$lt",
            Predicate::Lte(_) => "$lte",
            Predicate::Gt(_) => "$gt",
            Predicate::Gte(_) => "$gte",
            Predicate::In(_) => "$in",
            Predicate::Exists => "$exists",
            Predicate::Type(_) => "$type",
            Predicate::Mod { .. } => "$mod",
            Predicate::Regex(_) => "$regex",
            Predicate::All(_) => "$all",
            Predicate::ElemMatch(_) => "$elemMatch",
            Predicate::Size(_) => "$size",
            Predicate::Bits(test) => test.condition().operator(),
            Predicate::Not(inner) => match inner.as_slice() {
                [Predicate::Eq(_)] => "$ne",
                [Predicate::In(_)] => "$nin",
                [Predicate::Exists] => "$exists",
                _ => "$not",
            },
            Predicate::Mango(condition) => condition.operator(),
        }
    }

    /// Whether the predicate holds at `path` of a document. `value` is the value after the path's first `at` parts.
    pub(super) fn at_path(&self, path: &Path, value: Option<RawValue<'_>>, at: usize) -> Result<Option<Hit>> {
        match self {
            Predicate::Not(inner) => Ok(if every(inner, |one| one.at_path(path, value, at))?.is_some() {
                None
            } else {
                Some(None)
            }),
            Predicate::All(inner) if inner.is_empty() => Ok(None),
            Predicate::Mango(condition) => Ok(condition.at_path(path, value, at)?.then_some(None)),
            Predicate::All(inner) => every(inner, |one| one.at_path(path, value, at)),
            _ => {
                let mut hit = None;
                let visit = |value: Option<RawValue<'_>>, index: Option<usize>| {
                    hit = self.on_value(value)?.map(|inner: Hit| index.or(inner));
                    Ok(hit.is_some())
                };
                Reach { path, at_end: self.at_end(), visit }.walk(value, at, None)?;
                Ok(hit)
            }
        }
    }

    /// Whether the predicate holds for the value at the end of a path. Elements of an array count too.
    #[inline]
    pub(super) fn at_end_of_path(&self, value: Option<RawValue<'_>>) -> Result<bool> {
        if value.is_none_or(|raw| raw.tag != Type::Array) {
            return self.holds(value);
        }
        self.at_array(value)
    }

    /// Like [`Predicate::at_end_of_path`], for an array.
    fn at_array(&self, value: Option<RawValue<'_>>) -> Result<bool> {
        match self {
            Predicate::Not(inner) => Ok(!all(inner, |one| one.at_array(value))?),
            Predicate::All(inner) => Ok(!inner.is_empty() && all(inner, |one| one.at_array(value))?),
            _ => {
                if self.at_end() == AtEnd::Elements
                    && let Some(raw) = value
                {
                    for element in Array::trusted(raw.bytes).elements() {
                        if self.holds(Some(element.raw))? {
                            return Ok(true);
                        }
                    }
                }
                self.holds(value)
            }
        }
    }

    /// Whether the predicate holds for one value, without entering arrays.
    #[inline]
    pub(super) fn holds(&self, value: Option<RawValue<'_>>) -> Result<bool> {
        Ok(match self {
            Predicate::Eq(operand) => operand.equals(value),
            Predicate::Lt(operand) => operand.order(value) == Some(Ordering::Less),
            Predicate::Gt(operand) => operand.order(value) == Some(Ordering::Greater),
            Predicate::Lte(operand) => operand.order(value).is_some_and(Ordering::is_le),
            Predicate::Gte(operand) => operand.order(value).is_some_and(Ordering::is_ge),
            Predicate::Exists => value.is_some(),
            Predicate::Mango(condition) => return condition.holds(value),
            _ => return Ok(self.on_value(value)?.is_some()),
        })
    }

    /// Like [`Predicate::holds`], with the index of the element inside `value` that made it hold.
    pub(super) fn on_value(&self, value: Option<RawValue<'_>>) -> Result<Option<Hit>> {
        let holds = match self {
            Predicate::Eq(_)
            | Predicate::Lt(_)
            | Predicate::Gt(_)
            | Predicate::Lte(_)
            | Predicate::Gte(_)
            | Predicate::Exists => self.holds(value)?,
            Predicate::In(set) => set.contains(value)?,
            Predicate::Type(types) => value.is_some_and(|raw| types.contains(raw.tag)),
            Predicate::Mod { divisor, remainder } => {
                value.and_then(whole_part).is_some_and(|dividend| {
                    // Only the smallest integer divided by -1 overflows; its remainder is zero.
                    dividend.checked_rem(*divisor).unwrap_or(0) == *remainder
                })
            }
            Predicate::Regex(pattern) => match value {
                Some(raw) => pattern.matches(raw)?,
                None => false,
            },
            Predicate::All(inner) => !inner.is_empty() && all(inner, |one| one.holds(value))?,
            Predicate::ElemMatch(elem_match) => {
                return Ok(match value {
                    Some(raw) if raw.tag == Type::Array => {
                        elem_match.first_match(Array::trusted(raw.bytes))?.map(Some)
                    }
                    _ => None,
                });
            }
            Predicate::Size(size) => value.is_some_and(|raw| {
                raw.tag == Type::Array && Array::trusted(raw.bytes).count() == *size as usize
            }),
            Predicate::Bits(test) => value.is_some_and(|raw| test.holds(raw)),
            Predicate::Not(inner) => !all(inner, |one| one.holds(value))?,
            Predicate::Mango(condition) => condition.holds(value)?,
        };
        Ok(holds.then_some(None))
    }

    /// Whether matching enters an array at the end of the path.
    fn at_end(&self) -> AtEnd {
        match self {
            Predicate::Size(_) | Predicate::ElemMatch(_) | Predicate::Mango(_) => AtEnd::Whole,
            _ => AtEnd::Elements,
        }
    }
}

/// Whether `holds` is true for all predicates.
pub(super) fn all(
    predicates: &[Predicate],
    mut holds: impl FnMut(&Predicate) -> Result<bool>,
) -> Result<bool> {
    for predicate in predicates {
        if !holds(predicate)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The last hit, if every predicate has one.
fn every(
    predicates: &[Predicate],
    mut hit: impl FnMut(&Predicate) -> Result<Option<Hit>>,
) -> Result<Option<Hit>> {
    let mut last = None;
    for predicate in predicates {
        match hit(predicate)? {
            Some(index) => last = index.or(last),
            None => return Ok(None),
        }
    }
    Ok(Some(last))
}

/// A finite number without its fraction, if it fits an `i64`.
fn whole_part(raw: RawValue<'_>) -> Option<i64> {
    super::integer::truncate(raw.decode()?)
}
