//! Bounds: the keys of an index field that can satisfy a filter's conditions. They are a superset, and exact for the
//! predicates that are then [removed from the filter](super::residue).

use super::interval::{Cut, Intervals};
use diwan_query::filter::{
    Comparison, ElemMatch, Filter, Operand, PathFilter, Predicate, Relation, ValueSet,
};
use diwan_value::key::{Direction, encode_order, type_bounds};
use diwan_value::{Collator, Path, Type, Value};
use std::sync::Arc;

/// A condition that every match of a filter satisfies at one path.
#[derive(Clone, Debug)]
pub(crate) enum Condition<'f> {
    /// A predicate of the query language.
    Match(&'f Predicate),
    /// A comparison of `$expr`.
    Compare(Comparison<'f>),
}

/// The conditions that every match of a filter satisfies at one path.
pub(crate) fn conditions_at<'f>(filter: &'f Filter, path: &Path) -> Vec<Condition<'f>> {
    let mut found = Vec::new();
    collect(filter, path, 0, &mut found);
    found
}

/// Collects the predicates at the parts of `path` from `skip` on.
fn collect<'f>(filter: &'f Filter, path: &Path, skip: usize, found: &mut Vec<Condition<'f>>) {
    match filter {
        Filter::And(conjunction) => {
            conjunction.children().iter().for_each(|child| collect(child, path, skip, found));
        }
        Filter::Path(condition) => {
            let rest: Vec<&str> = path.names().skip(skip).collect();
            let own: Vec<&str> = condition.path.names().collect();
            if rest == own {
                if !leads_into_arrays(condition) {
                    found.push(Condition::Match(&condition.predicate));
                }
            } else if rest.starts_with(&own)
                && let Predicate::ElemMatch(ElemMatch::Object(inner)) = condition.predicate.as_ref()
                // `$elemMatch` reads an element that is an array like a document, by numeric names. An index does not
                // enter it.
                && path.index(skip + own.len()).is_none()
            {
                collect(inner, path, skip + own.len(), found);
            }
        }
        // In an expression, unlike in an index, a numeric part of a path is never an array's index.
        Filter::Expr(expr) if skip == 0 && !(0..path.depth()).any(|at| path.index(at).is_some()) => {
            let here = expr.comparisons().into_iter().filter(|comparison| comparison.path == path);
            found.extend(here.map(Condition::Compare));
        }
        _ => {}
    }
}

/// Whether a condition of a CouchDB selector may enter an array by a number. An index has other keys there.
fn leads_into_arrays(condition: &PathFilter) -> bool {
    matches!(*condition.predicate, Predicate::Mango(_)) && names_elements(&condition.path)
}

/// Whether a path may name an array's element by its index.
pub(crate) fn names_elements(path: &Path) -> bool {
    (1..path.depth()).any(|at| path.index(at).is_some())
}

/// The index field that bounds are computed for.
pub(crate) struct BoundsOf<'a> {
    /// The collation of the index's keys.
    pub index_collator: Option<&'a Arc<Collator>>,
    /// Whether the index's collation is the query's, so that strings can be bounded.
    pub same_collation: bool,
    /// Whether documents may have several keys in the field. Then different keys may satisfy different predicates.
    pub multikey: bool,
    /// Whether the field's path may name an array's element by its index. Such an element has one key, even if it is an
    /// array. The documents in the same array that lack a field of that name have no key, though they match null.
    pub positional: bool,
    /// Whether missing fields have no entry.
    pub sparse: bool,
}

impl BoundsOf<'_> {
    /// The keys that can satisfy all of `conditions`; `None` if the index may not be used for them at all.
    pub fn all(&self, conditions: &[Condition<'_>]) -> Option<Intervals> {
        let mut bounds: Option<Intervals> = None;
        let mut usable = !self.sparse;
        if self.multikey && conditions.iter().any(Condition::excludes_arrays) {
            // No match has an array here, so each match has one key, which satisfies all conditions.
            return BoundsOf { multikey: false, ..*self }.all(conditions);
        }
        for condition in conditions {
            usable |= !condition.accepts_missing();
            let next = match condition {
                Condition::Match(predicate) => self.one(predicate),
                Condition::Compare(comparison) => self.compared(comparison),
            };
            let Some(next) = next else { continue };
            bounds = Some(match bounds {
                None => next,
                Some(previous) if self.multikey => narrower(previous, next),
                Some(previous) => previous.intersection(&next),
            });
        }
        usable.then(|| bounds.unwrap_or_else(Intervals::all))
    }

    /// The keys that can satisfy one predicate; `None` for all.
    fn one(&self, predicate: &Predicate) -> Option<Intervals> {
        match predicate {
            Predicate::Eq(operand) => self.equal(operand.value()),
            Predicate::Lt(operand) => self.ordered(operand, true, false),
            Predicate::Lte(operand) => self.ordered(operand, true, true),
            Predicate::Gt(operand) => self.ordered(operand, false, false),
            Predicate::Gte(operand) => self.ordered(operand, false, true),
            Predicate::In(set) => self.within(set),
            Predicate::Type(types) => {
                let mut all = Intervals::empty();
                for tag in types.types() {
                    if tag == Type::Array {
                        return None;
                    }
                    all = all.union(of_type(tag));
                }
                Some(all)
            }
            Predicate::Mod { .. } => Some(of_type(Type::Double)),
            Predicate::Bits(_) => Some(of_type(Type::Double).union(of_type(Type::Binary))),
            Predicate::Regex(pattern) => self.regex(pattern),
            Predicate::All(all) => all.iter().find_map(|one| self.one(one)),
            Predicate::ElemMatch(elem_match) => {
                let elements = self.one_element(elem_match)?;
                Some(if self.positional { elements.union(of_type(Type::Array)) } else { elements })
            }
            Predicate::Not(inner) => match inner.as_slice() {
                [Predicate::Exists] => Some(nullish()),
                [Predicate::Eq(operand)] => self.unequal(std::slice::from_ref(operand)),
                [Predicate::In(set)] if set.patterns().is_empty() => self.unequal(set.values()),
                _ => None,
            },
            Predicate::Exists | Predicate::Size(_) => None,
            Predicate::Mango(condition) => self.mango(condition),
        }
    }

    /// The keys of array elements that can satisfy an `$elemMatch`. An element that is an array has one key for itself,
    /// whatever it contains.
    fn one_element(&self, elem_match: &ElemMatch) -> Option<Intervals> {
        match elem_match {
            ElemMatch::Object(_) => Some(of_type(Type::Document).union(of_type(Type::Array))),
            ElemMatch::Value(all) => self.satisfying(all),
        }
    }

    /// The keys of the elements that can satisfy all of these predicates.
    fn satisfying(&self, all: &[Predicate]) -> Option<Intervals> {
        let bounds = all.iter().filter_map(|one| match one {
            Predicate::ElemMatch(_) | Predicate::Size(_) => Some(of_type(Type::Array)),
            Predicate::All(inner) => self.satisfying(inner),
            one => self.one(one),
        });
        bounds.reduce(|a, b| a.intersection(&b))
    }

    /// The keys that can satisfy a comparison of `$expr`.
    ///
    /// An expression compares an array as a whole, but the index has a key for each of its elements. So in a multikey
    /// field only equality bounds the keys, and no array satisfies it. A missing field has the key of null.
    fn compared(&self, comparison: &Comparison<'_>) -> Option<Intervals> {
        let value = comparison.value.as_value();
        if matches!(value, Value::Array(_) | Value::Undefined | Value::MinKey | Value::MaxKey)
            || !self.comparable(value)
        {
            return None;
        }
        if comparison.relation == Relation::Equal {
            return self.equal(value);
        }
        if self.multikey || value == Value::Null {
            return None;
        }
        let key = self.encoded(value);
        Some(match comparison.relation {
            Relation::Less => Intervals::between(Cut::Min, Cut::Before(key)),
            Relation::LessOrEqual => Intervals::between(Cut::Min, Cut::After(key)),
            Relation::Greater => Intervals::between(Cut::After(key), Cut::Max),
            Relation::Equal | Relation::GreaterOrEqual => Intervals::between(Cut::Before(key), Cut::Max),
        })
    }

    pub(super) fn equal(&self, value: Value<'_>) -> Option<Intervals> {
        if !self.comparable(value) {
            return None;
        }
        Some(match value {
            Value::Null | Value::Undefined if self.positional => return None,
            Value::Null | Value::Undefined => nullish(),
            // An array matches by the key of its first element; nested in another array it has a key for itself.
            Value::Array(array) => {
                let first = array.iter().next().unwrap_or(Value::Undefined);
                self.point(value).union(self.point(first))
            }
            _ => self.point(value),
        })
    }

    /// The keys of documents that have none of the values. An empty array's key equals that of null, but it is not
    /// null.
    fn unequal(&self, operands: &[Operand]) -> Option<Intervals> {
        let mut values = Intervals::empty();
        for operand in operands {
            values = values.union(match operand.value() {
                // Inside an array a null key may stand for a missing value.
                Value::Null | Value::Undefined if self.multikey || self.positional => return None,
                Value::Array(_) => return None,
                Value::Null | Value::Undefined => self.point(Value::Null),
                value => self.equal(value)?,
            });
        }
        Some(values.complement())
    }

    fn ordered(&self, operand: &Operand, less: bool, equal: bool) -> Option<Intervals> {
        let value = operand.value();
        match value {
            Value::Null | Value::Undefined => {
                return if equal { self.equal(value) } else { Some(Intervals::empty()) };
            }
            Value::Array(_) | Value::MinKey | Value::MaxKey => return None,
            number if number.is_number() && self.encoded(number) == self.encoded(Value::Double(f64::NAN)) => {
                return Some(if equal { self.point(value) } else { Intervals::empty() });
            }
            _ => {}
        }
        if !self.comparable(value) {
            return None;
        }
        let (first, end) = type_bounds(value.tag(), Direction::Ascending);
        let key = self.encoded(value);
        let cut = if less == equal { Cut::After(key) } else { Cut::Before(key) };
        Some(match less {
            // NaN sorts below all numbers, but is not less than any.
            true if value.is_number() => {
                let least = self.encoded(Value::Double(f64::NEG_INFINITY));
                Intervals::between(Cut::Before(least), cut)
            }
            true => Intervals::between(Cut::Before(first.to_vec()), cut),
            false => Intervals::between(cut, Cut::Before(end.to_vec())),
        })
    }

    fn within(&self, set: &ValueSet) -> Option<Intervals> {
        let mut all = Intervals::empty();
        for operand in set.values() {
            all = all.union(self.equal(operand.value())?);
        }
        for pattern in set.patterns() {
            all = all.union(self.regex(pattern)?);
        }
        Some(all)
    }

    /// The keys of strings with the pattern's literal prefix, and of stored regular expressions.
    pub(super) fn regex(&self, pattern: &diwan_query::filter::Pattern) -> Option<Intervals> {
        let strings = match pattern.literal_prefix() {
            Some((prefix, _)) => self.prefixed(&prefix),
            None => of_type(Type::String),
        };
        Some(strings.union(of_type(Type::Regex)))
    }

    /// The keys of strings that begin with a prefix.
    pub(super) fn prefixed(&self, prefix: &str) -> Intervals {
        if self.index_collator.is_some() || prefix.is_empty() {
            return of_type(Type::String);
        }
        let mut key = self.encoded(Value::String(prefix));
        // Without its terminator, a string's key is a prefix of the keys of all strings that begin with it.
        key.pop();
        Intervals::prefixed(key)
    }

    pub(super) fn point(&self, value: Value<'_>) -> Intervals {
        Intervals::point(self.encoded(value))
    }

    pub(super) fn encoded(&self, value: Value<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        encode_order(
            &mut key,
            value,
            Direction::Ascending,
            self.index_collator.map(|collator| collator.as_ref()),
        );
        key
    }

    /// Whether the index orders such values like the query.
    pub(super) fn comparable(&self, value: Value<'_>) -> bool {
        self.same_collation || !has_text(value)
    }
}

impl Condition<'_> {
    /// Whether a missing field may satisfy the condition. A sparse index lacks such matches.
    pub fn accepts_missing(&self) -> bool {
        match self {
            Condition::Match(predicate) => accepts_missing(predicate),
            Condition::Compare(Comparison { relation, value, path }) => {
                let value = value.as_value();
                // For an expression, an array none of whose elements has the field is an empty array.
                let may_be_array =
                    path.depth() > 1 && (*relation != Relation::Equal || matches!(value, Value::Array(_)));
                let is_less = matches!(relation, Relation::Less | Relation::LessOrEqual);
                may_be_array || is_less || value.is_nullish() || value == Value::MinKey
            }
        }
    }

    /// Whether no document matches whose path contains an array.
    fn excludes_arrays(&self) -> bool {
        matches!(self, Condition::Match(Predicate::Mango(condition)) if condition.excludes_arrays())
    }

    /// Whether only values that are neither documents nor arrays satisfy the condition. A wildcard index holds only
    /// such values.
    pub fn wants_scalars(&self) -> bool {
        match self {
            Condition::Match(predicate) => wants_scalars(predicate),
            Condition::Compare(Comparison { relation, value, .. }) => {
                let value = value.as_value();
                *relation == Relation::Equal
                    && !value.is_nullish()
                    && !matches!(value, Value::Document(_) | Value::Array(_))
            }
        }
    }
}

/// Whether a missing field satisfies the predicate. A sparse index lacks such matches.
pub(crate) fn accepts_missing(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Eq(operand) => operand.value().is_nullish(),
        Predicate::Lte(operand) | Predicate::Gte(operand) => {
            operand.value().is_nullish() || is_an_end(operand)
        }
        // Every value, and also a missing one, lies between the ends of the order.
        Predicate::Lt(operand) | Predicate::Gt(operand) => is_an_end(operand),
        Predicate::In(set) => set.values().iter().any(|operand| operand.value().is_nullish()),
        Predicate::All(all) => all.iter().all(accepts_missing),
        Predicate::Not(_) => true,
        Predicate::Mango(condition) => condition.test.accepts_missing(),
        _ => false,
    }
}

fn is_an_end(operand: &Operand) -> bool {
    matches!(operand.value(), Value::MinKey | Value::MaxKey)
}

fn wants_scalars(predicate: &Predicate) -> bool {
    let scalar = |operand: &Operand| !matches!(operand.value(), Value::Document(_) | Value::Array(_));
    match predicate {
        Predicate::Eq(operand)
        | Predicate::Lt(operand)
        | Predicate::Lte(operand)
        | Predicate::Gt(operand)
        | Predicate::Gte(operand) => scalar(operand) && !operand.value().is_nullish(),
        Predicate::In(set) => {
            set.values().iter().all(|operand| scalar(operand) && !operand.value().is_nullish())
        }
        Predicate::Type(types) => {
            !types.types().any(|tag| matches!(tag, Type::Document | Type::Array | Type::Null))
        }
        Predicate::Regex(_) | Predicate::Mod { .. } | Predicate::Bits(_) => true,
        Predicate::ElemMatch(ElemMatch::Value(all)) => {
            all.iter().all(|one| !matches!(one, Predicate::ElemMatch(_)) && wants_scalars(one))
        }
        _ => false,
    }
}

pub(super) fn has_text(value: Value<'_>) -> bool {
    match value {
        Value::String(_) | Value::Symbol(_) => true,
        Value::Document(doc) => doc.iter().any(|element| has_text(element.value())),
        Value::Array(array) => array.iter().any(has_text),
        _ => false,
    }
}

pub(super) fn of_type(tag: Type) -> Intervals {
    let (first, end) = type_bounds(tag, Direction::Ascending);
    Intervals::between(Cut::Before(first.to_vec()), Cut::Before(end.to_vec()))
}

/// The keys of null, of a missing field and of an empty array.
pub(super) fn nullish() -> Intervals {
    let point = |value| {
        let mut key = Vec::new();
        encode_order(&mut key, value, Direction::Ascending, None);
        Intervals::point(key)
    };
    point(Value::Null).union(point(Value::Undefined))
}

/// The set that is probably smaller: points before ranges, ranges before everything.
fn narrower(left: Intervals, right: Intervals) -> Intervals {
    let weight = |set: &Intervals| {
        let open =
            |cut: &Cut| matches!(cut, Cut::Min | Cut::Max) || matches!(cut, Cut::Before(b) if b.len() == 1);
        (
            !set.is_points(),
            set.as_slice()
                .iter()
                .map(|one| usize::from(open(&one.start)) + usize::from(open(&one.end)))
                .max(),
            set.as_slice().len(),
        )
    };
    if weight(&right) < weight(&left) { right } else { left }
}
