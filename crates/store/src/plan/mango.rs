//! Bounds of a CouchDB selector's conditions: a superset of the keys that can satisfy them.
//!
//! Such a condition applies to the whole value, but an index has keys for an array's elements and none for the array.
//! So a condition that an array can satisfy by its place in CouchDB's order gives no bounds in a multikey field. A
//! condition that no array satisfies, or that asks for an element, gives bounds in every field.

use super::bounds::{BoundsOf, has_text, nullish, of_type};
use super::interval::{Cut, Intervals};
use diwan_query::filter::Operand;
use diwan_query::mango::{Condition, Element, Test};
use diwan_value::{ObjectId, Type, Value};

/// The number of digits of an `ObjectId`'s text.
const ID_DIGITS: usize = 24;

impl BoundsOf<'_> {
    /// The keys that can satisfy the condition; `None` for all.
    pub(super) fn mango(&self, condition: &Condition) -> Option<Intervals> {
        if condition.of_id {
            return of_id(self, &condition.test);
        }
        self.of_value(&condition.test)
    }

    /// The keys of the values that can satisfy a test; `None` for all.
    fn of_value(&self, test: &Test) -> Option<Intervals> {
        match test {
            Test::Eq(operand) => self.equal(operand.value()),
            Test::In(set) => {
                let mut all = Intervals::empty();
                for operand in set.values() {
                    all = all.union(self.equal(operand.value())?);
                }
                Some(all)
            }
            Test::Ne(operand) if !self.multikey => match operand.value() {
                // An empty array has the key of null, and other arrays have the keys of their elements.
                Value::Null | Value::Undefined | Value::Array(_) => None,
                value => self.compares(value).then(|| self.point(value).complement()),
            },
            Test::Lt(operand) => self.below(operand, false),
            Test::Lte(operand) => self.below(operand, true),
            // In CouchDB's order, "greater" is the complement of "not greater", also for arrays.
            Test::Gt(operand) if !self.multikey => self.below(operand, true).map(|below| below.complement()),
            Test::Gte(operand) if !self.multikey => {
                self.below(operand, false).map(|below| below.complement())
            }
            Test::Exists(false) => Some(nullish()),
            Test::Type { types, .. } if !types.contains(Type::Array) => {
                Some(types.types().map(of_type).fold(Intervals::empty(), Intervals::union))
            }
            Test::Mod { .. } => Some(of_type(Type::Double)),
            Test::Regex(pattern) => self.regex(pattern),
            Test::BeginsWith(prefix) => Some(self.prefixed(prefix)),
            Test::All(operands) => operands.first().and_then(|first| self.equal(first.value())),
            Test::ElemMatch(element) | Test::AllMatch(element) => self.element(element),
            Test::KeyMapMatch(_) => Some(of_type(Type::Document)),
            _ => None,
        }
    }

    /// The keys of array elements that can match; `None` for all.
    fn element(&self, element: &Element) -> Option<Intervals> {
        match element {
            Element::And(all) => {
                all.iter().filter_map(|one| self.element(one)).reduce(|a, b| a.intersection(&b))
            }
            Element::Or(any) => any
                .iter()
                .map(|one| self.element(one))
                .try_fold(Intervals::empty(), |all, one| Some(all.union(one?))),
            Element::Not(_) => None,
            Element::At(None, test) => self.of_element(test),
            // Only documents and arrays contain other values.
            Element::At(Some(_), _) => Some(of_type(Type::Document).union(of_type(Type::Array))),
        }
    }

    /// The keys of elements that can satisfy a test. An element that is an array has one key for itself, which sorts
    /// among the arrays.
    fn of_element(&self, test: &Test) -> Option<Intervals> {
        let arrays = || of_type(Type::Array);
        match test {
            Test::In(_) => Some(self.of_value(test)?.union(arrays())),
            Test::All(_) | Test::Size(_) | Test::ElemMatch(_) | Test::AllMatch(_) => Some(arrays()),
            test => BoundsOf { multikey: false, ..*self }.of_value(test),
        }
    }

    /// Whether the index orders such values by their bytes, like selectors, which have no collation.
    fn compares(&self, value: Value<'_>) -> bool {
        self.comparable(value) && (self.index_collator.is_none() || !has_text(value))
    }

    /// The keys of the values below a constant in CouchDB's order of types; `None` if there are arrays among them.
    fn below(&self, operand: &Operand, equal: bool) -> Option<Intervals> {
        let value = operand.value();
        let mut all = Intervals::empty();
        // In CouchDB's order, up to the type of the constant.
        for tag in [Type::Null, Type::Boolean, Type::Double, Type::String] {
            let same = tag == value.tag() || (tag == Type::Double && value.is_number());
            if !same {
                all = all.union(if tag == Type::Null { self.point(Value::Null) } else { of_type(tag) });
                continue;
            }
            if !self.compares(value) {
                return None;
            }
            let (first, key) = (
                diwan_value::key::type_bounds(tag, diwan_value::key::Direction::Ascending).0,
                self.encoded(value),
            );
            let cut = if equal { Cut::After(key) } else { Cut::Before(key) };
            return Some(all.union(Intervals::between(Cut::Before(first.to_vec()), cut)));
        }
        None
    }
}

/// The ids that can satisfy a test of their text: strings by the text itself, `ObjectId`s by their digits, and all ids
/// of other types, whose text begins with a tilde.
fn of_id(bounds: &BoundsOf<'_>, test: &Test) -> Option<Intervals> {
    let text = |operand: &'_ Operand| operand.value().as_str().map(str::to_owned);
    let (strings, digits) = match test {
        Test::Lt(operand) | Test::Lte(operand) => {
            let text = text(operand)?;
            let below = bounds.below(operand, matches!(test, Test::Lte(_)))?;
            (below.intersection(&of_type(Type::String)), (None, Some(text)))
        }
        Test::Gt(operand) | Test::Gte(operand) => {
            let text = text(operand)?;
            let below = bounds.below(operand, matches!(test, Test::Gt(_)))?;
            (below.complement().intersection(&of_type(Type::String)), (Some(text), None))
        }
        Test::BeginsWith(prefix) => {
            (bounds.prefixed(prefix), (Some(prefix.to_string()), Some(prefix.to_string())))
        }
        _ => return None,
    };
    let object_ids = object_ids(bounds, digits.0.as_deref(), digits.1.as_deref());
    let others = of_type(Type::String).union(of_type(Type::ObjectId)).complement();
    Some(strings.union(object_ids).union(others))
}

/// The `ObjectId`s whose text is at least `from` and at most `to`, or begins with `to`.
fn object_ids(bounds: &BoundsOf<'_>, from: Option<&str>, to: Option<&str>) -> Intervals {
    let end = |text: Option<&str>, fill: u8| {
        // The leading digits bound the ids also if another character follows them, though not exactly.
        let digits =
            text.unwrap_or_default().bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let filled: Vec<u8> = digits.chain(std::iter::repeat(fill)).take(ID_DIGITS).collect();
        let id = ObjectId::parse_hex(&String::from_utf8_lossy(&filled));
        id.map(|id| bounds.encoded(Value::ObjectId(id)))
    };
    // The texts of all `ObjectId`s are below `from`, or above `to`.
    let none = from.and_then(|text| text.bytes().next()).is_some_and(|first| first > b'f')
        || to.and_then(|text| text.bytes().next()).is_some_and(|first| first < b'0');
    match (end(from, b'0'), end(to, b'f')) {
        _ if none => Intervals::empty(),
        (Some(from), Some(to)) => Intervals::between(Cut::Before(from), Cut::After(to)),
        _ => of_type(Type::ObjectId),
    }
}
