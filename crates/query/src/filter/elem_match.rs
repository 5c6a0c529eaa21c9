//! `$elemMatch`: one array element that satisfies all conditions.

use super::Filter;
use super::predicate::{Predicate, all};
use crate::error::Result;
use diwan_value::{Array, Doc, RawValue, Type};

/// The conditions on the element.
#[derive(Clone, Debug)]
pub enum ElemMatch {
    /// The element is a document (or an array, read as one) that matches a filter: `{$elemMatch: {a: 1, b: 2}}`.
    Object(Box<Filter>),
    /// The element itself satisfies all predicates: `{$elemMatch: {$gt: 1, $lt: 5}}`.
    Value(Vec<Predicate>),
}

impl ElemMatch {
    /// The index of the first element that satisfies the conditions.
    pub(crate) fn first_match(&self, array: Array<'_>) -> Result<Option<usize>> {
        for (index, element) in array.elements().enumerate() {
            if self.accepts(element.raw)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn accepts(&self, element: RawValue<'_>) -> Result<bool> {
        match self {
            ElemMatch::Object(filter) => match element.tag {
                Type::Document | Type::Array => filter.matches(Doc::trusted(element.bytes)),
                _ => Ok(false),
            },
            ElemMatch::Value(predicates) => all(predicates, |predicate| predicate.holds(Some(element))),
        }
    }
}
