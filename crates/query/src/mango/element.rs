//! The conditions of `$elemMatch`, `$allMatch` and `$keyMapMatch` on values inside arrays and objects.
//!
//! Inside these operators a negation also holds where a field is missing.

use super::condition::Test;
use super::field::{Reached, reach};
use crate::error::Result;
use diwan_value::{Path, RawValue};

/// A selector for values of any type.
#[derive(Clone, Debug)]
pub enum Element {
    /// All selectors match.
    And(Vec<Element>),
    /// At least one selector matches.
    Or(Vec<Element>),
    /// The selector does not match.
    Not(Box<Element>),
    /// The value, or the value at a path inside it, passes a test.
    At(Option<Path>, Test),
}

impl Element {
    /// Whether a value matches.
    pub(super) fn matches(&self, value: RawValue<'_>) -> Result<bool> {
        match self {
            Element::And(all) => {
                for one in all {
                    if !one.matches(value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Element::Or(any) => {
                for one in any {
                    if one.matches(value)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Element::Not(one) => Ok(!one.matches(value)?),
            Element::At(None, test) => test.holds(value),
            Element::At(Some(path), test) => match reach(path, Some(value), 0) {
                Reached::Value(raw) => test.holds(raw),
                Reached::Missing => Ok(test.accepts_missing()),
                Reached::Nowhere => Ok(false),
            },
        }
    }
}
