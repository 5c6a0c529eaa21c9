//! The part of a filter that must still be evaluated for documents whose index entries lie within the bounds.

use super::choose::Planner;
use super::interval::Intervals;
use crate::index::{FieldOrder, IndexSpec};
use diwan_query::filter::{Filter, Operand, PathFilter, Predicate};
use diwan_value::{Type, Value};
use std::sync::Arc;

impl Planner<'_> {
    /// The part of the filter that the bounds on an index's fields do not guarantee.
    ///
    /// A document whose field is not an array has one key in it, which compares like the value. So if the bounds were
    /// computed from equality and order alone, a key within them means a match. This also holds for an array that
    /// enters the index during the scan: one of its elements lies within all bounds, and so the array matches.
    pub(super) fn unsettled(&self, spec: &IndexSpec, multikey: bool, bounds: &[Intervals]) -> Arc<Filter> {
        // Under a collation, keys do not compare like the values.
        if multikey || spec.collator.is_some() || self.collator.is_some() {
            return self.filter.clone();
        }
        let is_settled = |condition: &PathFilter| {
            let bounded = spec.fields.iter().zip(bounds).any(|(field, bounds)| {
                field.path == condition.path && field.order != FieldOrder::Hashed && !bounds.is_all()
            });
            bounded
                && (0..condition.path.depth()).all(|at| condition.path.index(at).is_none())
                && is_exact(&condition.predicate)
        };
        let mut rest = Vec::new();
        match collect(&self.filter, &is_settled, &mut rest) {
            true => Arc::new(Filter::and(rest)),
            false => self.filter.clone(),
        }
    }
}

/// Collects the conditions that are not settled. Returns whether any condition is settled.
fn collect(filter: &Filter, is_settled: &impl Fn(&PathFilter) -> bool, rest: &mut Vec<Filter>) -> bool {
    let mut any = false;
    match filter {
        Filter::And(all) => {
            for child in all.children() {
                any |= collect(child, is_settled, rest);
            }
        }
        Filter::Path(condition) if is_settled(condition) => any = true,
        other => rest.push(other.clone()),
    }
    any
}

/// Whether the bounds of a predicate hold exactly the keys of the values that satisfy it.
fn is_exact(predicate: &Predicate) -> bool {
    let scalar = |operand: &Operand| is_scalar(operand.value());
    match predicate {
        Predicate::Eq(operand)
        | Predicate::Gt(operand)
        | Predicate::Gte(operand)
        | Predicate::Lt(operand)
        | Predicate::Lte(operand) => scalar(operand),
        Predicate::In(set) => set.patterns().is_empty() && set.values().iter().all(scalar),
        _ => false,
    }
}

/// Whether a value's key stands for this value only: not for a missing one, nor for values inside it.
fn is_scalar(value: Value<'_>) -> bool {
    use Type::{Boolean, DateTime, Double, Int32, Int64, ObjectId, String, Timestamp};
    matches!(value.tag(), Double | Int32 | Int64 | Boolean | DateTime | Timestamp | String | ObjectId)
}
