//! Conditions of a selector on the value at one path.

use super::element::Element;
use super::field::{Reached, reach};
use super::order::{compare, rank};
use crate::error::Result;
use crate::filter::{Operand, Pattern, TypeSet, ValueSet};
use diwan_value::json::id_to_text;
use diwan_value::{Array, Doc, Path, RawValue, Type, Value};
use std::cmp::Ordering;

/// A condition on the value at a path.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The test that the value must pass.
    pub test: Test,
    /// Whether the condition is on a document's `_id`. If the id is not a string, its text is tested.
    pub of_id: bool,
}

/// A test of one value. A missing field passes only `Exists(false)`.
#[derive(Clone, Debug)]
pub enum Test {
    /// `$eq`.
    Eq(Operand),
    /// `$ne`.
    Ne(Operand),
    /// `$lt`.
    Lt(Operand),
    /// `$lte`.
    Lte(Operand),
    /// `$gt`.
    Gt(Operand),
    /// `$gte`.
    Gte(Operand),
    /// `$in`: any element of an array may be in the set.
    In(ValueSet),
    /// `$nin`: no element of an array may be in the set.
    Nin(ValueSet),
    /// `$exists`.
    Exists(bool),
    /// `$type`.
    Type {
        /// The type's name in the selector.
        name: Box<str>,
        /// The BSON types with that name.
        types: TypeSet,
    },
    /// `$mod`, of integers.
    Mod {
        /// The divisor, not zero.
        divisor: i64,
        /// The remainder, with the dividend's sign.
        remainder: i64,
    },
    /// `$regex`, of strings.
    Regex(Pattern),
    /// `$beginsWith`, of strings.
    BeginsWith(Box<str>),
    /// `$size`, of arrays.
    Size(u64),
    /// `$all`: an array that contains each of these, or a value that is the only one of them. An empty list never
    /// matches.
    All(Vec<Operand>),
    /// `$elemMatch`: an array with at least one matching element.
    ElemMatch(Box<Element>),
    /// `$allMatch`: an array with at least one element, all of which match.
    AllMatch(Box<Element>),
    /// `$keyMapMatch`: an object with at least one matching key.
    KeyMapMatch(Box<Element>),
    /// The value fails the test.
    Not(Box<Test>),
}

impl Condition {
    /// The operator's name.
    pub fn operator(&self) -> &'static str {
        self.test.operator()
    }

    /// Whether a present value satisfies the condition. If the test fails with an error, it does not.
    pub fn accepts(&self, value: Value<'_>) -> bool {
        self.holds(Some(value.to_owned().as_raw())).unwrap_or(false)
    }

    /// Whether no array, and no value inside one, satisfies the condition.
    pub fn excludes_arrays(&self) -> bool {
        !self.of_id && self.test.excludes_arrays()
    }

    /// Whether the condition holds at the end of `path`. `value` is the value after the path's first `at` parts.
    pub(crate) fn at_path(&self, path: &Path, value: Option<RawValue<'_>>, at: usize) -> Result<bool> {
        match reach(path, value, at) {
            Reached::Value(raw) => self.holds(Some(raw)),
            Reached::Missing => self.holds(None),
            Reached::Nowhere => Ok(false),
        }
    }

    /// Whether the condition holds for a value, or for a missing field.
    #[inline]
    pub(crate) fn holds(&self, value: Option<RawValue<'_>>) -> Result<bool> {
        match value {
            None => Ok(self.test.accepts_missing()),
            Some(raw) if self.of_id && raw.tag != Type::String => {
                let mut text = String::new();
                id_to_text(raw.decode().unwrap_or(Value::Null), &mut text);
                self.test.holds(Value::String(&text).to_owned().as_raw())
            }
            Some(raw) => self.test.holds(raw),
        }
    }
}

impl Test {
    /// Whether a missing field passes the test.
    pub fn accepts_missing(&self) -> bool {
        matches!(self, Test::Exists(false))
    }

    /// Whether no array passes the test. May be false although no array does.
    fn excludes_arrays(&self) -> bool {
        let place = |operand: &Operand| rank(operand.value().tag()).cmp(&rank(Type::Array));
        match self {
            Test::Eq(operand) => place(operand).is_ne(),
            Test::Lt(operand) | Test::Lte(operand) => place(operand).is_lt(),
            Test::Gt(operand) | Test::Gte(operand) => place(operand).is_gt(),
            Test::Type { types, .. } => !types.contains(Type::Array),
            Test::Exists(flag) => !flag,
            Test::Mod { .. } | Test::Regex(_) | Test::BeginsWith(_) | Test::KeyMapMatch(_) => true,
            _ => false,
        }
    }

    /// The operator's name.
    pub fn operator(&self) -> &'static str {
        match self {
            Test::Eq(_) => "$eq",
            Test::Ne(_) => "$ne",
            Test::Lt(_) => "$lt",
            Test::Lte(_) => "$lte",
            Test::Gt(_) => "$gt",
            Test::Gte(_) => "$gte",
            Test::In(_) => "$in",
            Test::Nin(_) => "$nin",
            Test::Exists(_) => "$exists",
            Test::Type { .. } => "$type",
            Test::Mod { .. } => "$mod",
            Test::Regex(_) => "$regex",
            Test::BeginsWith(_) => "$beginsWith",
            Test::Size(_) => "$size",
            Test::All(_) => "$all",
            Test::ElemMatch(_) => "$elemMatch",
            Test::AllMatch(_) => "$allMatch",
            Test::KeyMapMatch(_) => "$keyMapMatch",
            Test::Not(_) => "$not",
        }
    }

    /// The test that a value passes exactly if it fails this one.
    pub(super) fn negated(self) -> Test {
        match self {
            Test::Eq(operand) => Test::Ne(operand),
            Test::Ne(operand) => Test::Eq(operand),
            Test::Lt(operand) => Test::Gte(operand),
            Test::Gte(operand) => Test::Lt(operand),
            Test::Gt(operand) => Test::Lte(operand),
            Test::Lte(operand) => Test::Gt(operand),
            Test::In(set) => Test::Nin(set),
            Test::Nin(set) => Test::In(set),
            Test::Exists(flag) => Test::Exists(!flag),
            Test::Not(test) => *test,
            test => Test::Not(Box::new(test)),
        }
    }

    /// Whether a value passes the test.
    pub(super) fn holds(&self, raw: RawValue<'_>) -> Result<bool> {
        Ok(match self {
            Test::Eq(operand) => operand.equals(Some(raw)),
            Test::Ne(operand) => !operand.equals(Some(raw)),
            Test::Lt(operand) => order(raw, operand).is_lt(),
            Test::Lte(operand) => order(raw, operand).is_le(),
            Test::Gt(operand) => order(raw, operand).is_gt(),
            Test::Gte(operand) => order(raw, operand).is_ge(),
            Test::In(set) => within(set, raw)?,
            Test::Nin(set) => !within(set, raw)?,
            Test::Exists(flag) => *flag,
            Test::Type { types, .. } => types.contains(raw.tag),
            Test::Mod { divisor, remainder } => match raw.decode() {
                Some(Value::Int32(number)) => rest(number.into(), *divisor) == *remainder,
                Some(Value::Int64(number)) => rest(number, *divisor) == *remainder,
                _ => false,
            },
            Test::Regex(pattern) => match raw.decode() {
                Some(Value::String(text)) => pattern.is_match(text)?,
                _ => false,
            },
            Test::BeginsWith(prefix) => {
                let text = raw.decode().and_then(Value::as_str);
                text.is_some_and(|text| text.starts_with(&**prefix))
            }
            Test::Size(size) => raw.tag == Type::Array && array(raw).count() as u64 == *size,
            Test::All(operands) => has_all(operands, raw),
            Test::ElemMatch(element) => {
                raw.tag == Type::Array && any(array(raw), |raw| element.matches(raw))?
            }
            Test::AllMatch(element) => {
                let all = !any(array(raw), |raw| element.matches(raw).map(|matched| !matched))?;
                raw.tag == Type::Array && !array(raw).is_empty() && all
            }
            Test::KeyMapMatch(element) => {
                if raw.tag != Type::Document {
                    return Ok(false);
                }
                for member in Doc::trusted(raw.bytes) {
                    if element.matches(Value::String(member.key_str()).to_owned().as_raw())? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::Not(test) => !test.holds(raw)?,
        })
    }
}

/// Compares a value with a constant across all types.
#[inline]
fn order(raw: RawValue<'_>, operand: &Operand) -> Ordering {
    let constant = operand.value();
    // Numbers and strings are compared without decoding. Only NaN has no order there.
    if matches!(rank(constant.tag()), 2 | 3)
        && let Some(order) = operand.order(Some(raw))
    {
        return order;
    }
    raw.decode().map_or(Ordering::Less, |value| compare(value, constant))
}

/// Whether a value, or one element of an array, is in the set.
fn within(set: &ValueSet, raw: RawValue<'_>) -> Result<bool> {
    if raw.tag == Type::Array {
        any(array(raw), |raw| set.contains(Some(raw)))
    } else {
        set.contains(Some(raw))
    }
}

fn has_all(operands: &[Operand], raw: RawValue<'_>) -> bool {
    if raw.tag != Type::Array || operands.is_empty() {
        return false;
    }
    let has = |operand: &Operand| array(raw).elements().any(|element| operand.equals(Some(element.raw)));
    let is = |operand: &Operand| matches!(operand.value(), Value::Array(_)) && operand.equals(Some(raw));
    operands.iter().all(has) || matches!(operands, [only] if is(only))
}

fn any<'a>(array: Array<'a>, mut matches: impl FnMut(RawValue<'a>) -> Result<bool>) -> Result<bool> {
    for element in array.elements() {
        if matches(element.raw)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn array(raw: RawValue<'_>) -> Array<'_> {
    Array::trusted(raw.bytes)
}

/// The remainder. Only the smallest integer divided by -1 overflows; its remainder is zero.
fn rest(dividend: i64, divisor: i64) -> i64 {
    dividend.checked_rem(divisor).unwrap_or(0)
}
