//! `min` and `max` of a find: a scan of a part of the hinted index, between two whole keys.

use super::choose::{Planner, same_collation};
use super::interval::Intervals;
use super::{Access, IndexScan, KeyLimits, Plan};
use crate::error::Result;
use crate::index::{Index, IndexField, IndexKind};
use diwan_kv::Direction;
use diwan_query::code;
use diwan_value::{Doc, Value, key};

/// The limits of a find. Each names all fields of the hinted index in their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexLimits<'a> {
    /// The least key of the scan.
    pub min: Option<Doc<'a>>,
    /// The first key above the scan.
    pub max: Option<Doc<'a>>,
}

impl IndexLimits<'_> {
    /// Whether a limit is set.
    pub fn is_some(&self) -> bool {
        self.min.is_some() || self.max.is_some()
    }
}

impl Planner<'_> {
    /// The plan of a find with limits: a scan of that part of the hinted index.
    pub(crate) fn plan_within(&self, limits: IndexLimits<'_>) -> Result<Plan> {
        let Some(index) = self.hinted_index()? else {
            let why = match self.hint {
                super::Hint::Natural(_) => "min and max are incompatible with $natural",
                _ => "When using min()/max() a hint of which index to use must be provided",
            };
            return Err(self.no_plan(code::NO_QUERY_EXECUTION_PLANS, why));
        };
        if ![limits.min, limits.max].into_iter().flatten().all(|bound| self.fits(index, bound)) {
            return Err(self.no_plan(51174, "The index chosen is not compatible with min/max"));
        }
        let limits = KeyLimits {
            start: bound(index, limits.min, Value::MinKey, Value::MaxKey),
            end: bound(index, limits.max, Value::MaxKey, Value::MinKey),
        };
        if limits.start >= limits.end {
            let why = "The value provided for min() does not come before the value provided for max() in the hinted index";
            return Err(self.no_plan(51175, why));
        }
        if index.spec.is_id_index() {
            let order = self.id_order();
            let direction = order.unwrap_or(Direction::Forward);
            let access = Access::Collection { direction, ids: limits.interval() };
            return Ok(self.finish(access, order.is_some(), Vec::new()));
        }
        let bounds = vec![Intervals::all(); index.spec.fields.len()];
        let same_collation = same_collation(index.spec.collator.as_ref(), self.collator.as_ref());
        let order = self.sort_through(index, &bounds, same_collation);
        let scan = IndexScan {
            index: index.clone(),
            direction: order.unwrap_or(Direction::Forward),
            bounds,
            wildcard_path: None,
            rest: self.filter.clone(),
            covered: None,
            limits: Some(limits),
        };
        Ok(self.finish(Access::Index(scan), order.is_some(), Vec::new()))
    }

    /// Whether a limit names exactly the index's fields, with values that the index orders like the query.
    fn fits(&self, index: &Index, bound: Doc<'_>) -> bool {
        let spec = &index.spec;
        // Ids are in byte order, whatever the index's collation.
        let own = spec.collator.as_ref().filter(|_| !spec.is_id_index());
        let same_collation = same_collation(own, self.collator.as_ref());
        let mut given = bound.iter();
        spec.kind != IndexKind::Wildcard
            && spec.fields.iter().all(|field| {
                given.next().is_some_and(|element| {
                    element.key_str() == field.path.as_str()
                        && (same_collation || !super::bounds::has_text(element.value()))
                })
            })
            && given.next().is_none()
    }
}

/// The bytes of a limit. A limit that is not given is the end of the first field's order: the value `ascending` or
/// `descending`, by the field's direction.
fn bound(index: &Index, given: Option<Doc<'_>>, ascending: Value<'_>, descending: Value<'_>) -> Vec<u8> {
    let spec = &index.spec;
    let mut bytes = Vec::new();
    let directions = spec.fields.iter().map(IndexField::direction);
    let collator = spec.collator.as_deref().filter(|_| !spec.is_id_index());
    match given {
        Some(given) => given.iter().zip(directions).for_each(|(element, direction)| {
            key::encode_order(&mut bytes, element.value(), direction, collator);
        }),
        None => directions.take(1).for_each(|direction| {
            let end = if direction == key::Direction::Ascending { ascending } else { descending };
            key::encode_order(&mut bytes, end, direction, None);
        }),
    }
    bytes
}
