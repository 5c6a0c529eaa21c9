//! `$in`: membership in a list of constants and regular expressions.

use super::operand::Operand;
use super::regex::Pattern;
use crate::error::Result;
use diwan_value::{Collator, RawValue, Type, Value, compare_with, type_rank};
use std::sync::Arc;

/// Up to this number, constants are compared one by one.
const SCANNED: usize = 8;

/// The constants and patterns of an `$in`.
#[derive(Clone, Debug)]
pub struct ValueSet {
    values: Vec<Operand>,
    patterns: Vec<Pattern>,
    collator: Option<Arc<Collator>>,
}

impl ValueSet {
    /// Sorts the constants and removes duplicates.
    pub(crate) fn new(
        values: Vec<Value<'_>>,
        patterns: Vec<Pattern>,
        collator: Option<&Arc<Collator>>,
    ) -> ValueSet {
        let mut values = values;
        let order = |a: &Value<'_>, b: &Value<'_>| compare_with(*a, *b, collator.map(Arc::as_ref));
        values.sort_by(order);
        values.dedup_by(|a, b| order(a, b).is_eq());
        let values = values.into_iter().map(|value| Operand::new(value, collator)).collect();
        ValueSet { values, patterns, collator: collator.cloned() }
    }

    /// The constants, sorted and without duplicates.
    pub fn values(&self) -> &[Operand] {
        &self.values
    }

    /// The regular expressions.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether a field's value equals a constant or matches a pattern.
    pub(crate) fn contains(&self, field: Option<RawValue<'_>>) -> Result<bool> {
        if self.contains_value(field) {
            return Ok(true);
        }
        if let Some(raw) = field {
            for pattern in &self.patterns {
                if pattern.matches(raw)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn contains_value(&self, field: Option<RawValue<'_>>) -> bool {
        if self.values.len() <= SCANNED {
            return self.values.iter().any(|value| value.equals(field));
        }
        let value = match field {
            None => Value::Null,
            // Undefined cannot be an element of the list.
            Some(raw) if raw.tag == Type::Undefined => return false,
            Some(raw) => match raw.decode() {
                Some(value) => value,
                None => return false,
            },
        };
        let (low, high) = (self.values.first(), self.values.last());
        let rank = type_rank(value.tag());
        if low.is_none_or(|low| type_rank(low.value().tag()) > rank)
            || high.is_none_or(|high| type_rank(high.value().tag()) < rank)
        {
            return false;
        }
        let collator = self.collator.as_deref();
        self.values.binary_search_by(|probe| compare_with(probe.value(), value, collator)).is_ok()
    }
}
