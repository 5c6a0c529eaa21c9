//! `$and`, and every filter with several conditions: many predicates, one pass over the document.
//!
//! The constructor arranges the predicates by path in a tree of fields. Matching iterates once over the document's
//! elements, and once over each nested document that a predicate needs. It skips elements that no predicate names. Only
//! where a path crosses an array are its predicates evaluated separately, because each may hold through a different
//! element.

use super::predicate::Predicate;
use super::{Filter, PathFilter};
use crate::error::Result;
use crate::expr::Context;
use diwan_value::{Doc, RawValue, Type};
use std::sync::Arc;

/// How many fields of one document are matched in one pass: the bits of a word.
const MAX_SLOTS: usize = 64;

/// Filters that must all match.
#[derive(Clone, Debug)]
pub struct Conjunction {
    children: Vec<Filter>,
    fields: FieldTree,
    /// The filters that `fields` cannot represent.
    rest: Vec<Filter>,
}

/// The predicates on the fields of one document.
#[derive(Clone, Debug, Default)]
struct FieldTree {
    slots: Vec<FieldSlot>,
}

/// The predicates on one field and on paths below it.
#[derive(Clone, Debug)]
struct FieldSlot {
    name: Box<[u8]>,
    /// How many path parts lead to the field's value.
    level: usize,
    here: Vec<Arc<Predicate>>,
    deeper: FieldTree,
    /// The predicates of `deeper` again, with whole paths, for fields that are arrays.
    below: Vec<PathFilter>,
}

impl Conjunction {
    /// Arranges the filters. Nested conjunctions share the same pass.
    pub(super) fn new(children: Vec<Filter>) -> Conjunction {
        let mut conjunction = Conjunction { children, fields: FieldTree::default(), rest: Vec::new() };
        let mut fields = FieldTree::default();
        let mut rest = Vec::new();
        arrange(&conjunction.children, &mut fields, &mut rest);
        conjunction.fields = fields;
        conjunction.rest = rest;
        conjunction
    }

    /// The filters in their original order.
    pub fn children(&self) -> &[Filter] {
        &self.children
    }

    #[inline]
    pub(super) fn test(&self, doc: Doc<'_>, context: Option<&Context>) -> Result<bool> {
        if !self.fields.hold(doc)? {
            return Ok(false);
        }
        for filter in &self.rest {
            if !filter.test(doc, context)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn arrange(children: &[Filter], fields: &mut FieldTree, rest: &mut Vec<Filter>) {
    for child in children {
        match child {
            Filter::And(inner) => arrange(&inner.children, fields, rest),
            Filter::Path(filter) if !needs_whole_path(filter) && fields.add(filter, 0) => {}
            other => rest.push(other.clone()),
        }
    }
}

/// Whether a condition depends on the path ending in a scalar rather than in nothing. The tree does not distinguish the
/// two.
fn needs_whole_path(filter: &PathFilter) -> bool {
    filter.path.depth() > 1
        && matches!(filter.predicate.as_ref(), Predicate::Mango(condition) if condition.test.accepts_missing())
}

impl FieldTree {
    /// Adds a predicate; part `at` of its path names a field here. Returns false if all slots are in use.
    fn add(&mut self, filter: &PathFilter, at: usize) -> bool {
        let name = filter.path.name(at).as_bytes();
        let slot = match self.slots.iter().position(|slot| *slot.name == *name) {
            Some(found) => &mut self.slots[found],
            None if self.slots.len() < MAX_SLOTS => {
                self.slots.push(FieldSlot {
                    name: name.into(),
                    level: at + 1,
                    here: Vec::new(),
                    deeper: FieldTree::default(),
                    below: Vec::new(),
                });
                let last = self.slots.len() - 1;
                &mut self.slots[last]
            }
            None => return false,
        };
        if at + 1 == filter.path.depth() {
            slot.here.push(filter.predicate.clone());
            return true;
        }
        let added = slot.deeper.add(filter, at + 1);
        if added {
            slot.below.push(filter.clone());
        }
        added
    }

    #[inline]
    fn hold(&self, doc: Doc<'_>) -> Result<bool> {
        let mut missing = u64::MAX >> (MAX_SLOTS - self.slots.len().clamp(1, MAX_SLOTS));
        if self.slots.is_empty() {
            return Ok(true);
        }
        'elements: for element in doc.iter() {
            for (at, slot) in self.slots.iter().enumerate() {
                if same_name(&slot.name, element.key) {
                    // Of fields with the same name, the first counts.
                    if missing & 1 << at != 0 {
                        missing ^= 1 << at;
                        if !slot.holds(Some(element.raw))? {
                            return Ok(false);
                        }
                        if missing == 0 {
                            return Ok(true);
                        }
                    }
                    continue 'elements;
                }
            }
        }
        for (at, slot) in self.slots.iter().enumerate() {
            if missing & 1 << at != 0 && !slot.holds(None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether two names are equal. Names are short and usually differ early, so a plain loop is faster than a call to
/// `memcmp`.
#[inline]
fn same_name(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

impl FieldSlot {
    #[inline]
    fn holds(&self, value: Option<RawValue<'_>>) -> Result<bool> {
        for predicate in &self.here {
            if !predicate.at_end_of_path(value)? {
                return Ok(false);
            }
        }
        if self.below.is_empty() {
            return Ok(true);
        }
        self.deeper_holds(value)
    }

    fn deeper_holds(&self, value: Option<RawValue<'_>>) -> Result<bool> {
        match value {
            Some(raw) if raw.tag == Type::Document => self.deeper.hold(Doc::trusted(raw.bytes)),
            Some(raw) if raw.tag == Type::Array => {
                for filter in &self.below {
                    if filter.predicate.at_path(&filter.path, value, self.level)?.is_none() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => self.deeper.hold(Doc::EMPTY),
        }
    }
}
