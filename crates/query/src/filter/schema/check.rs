//! Checks values against schemas.

use super::{Additional, Demand, Dependency, Rule, Schema};
use crate::error::Result;
use crate::filter::operand::is_nan;
use diwan_value::{Array, Decimal128, Doc, Value, compare, type_rank};

/// Whether a value satisfies all rules of a schema.
pub(super) fn satisfies(schema: &Schema, value: Value<'_>) -> Result<bool> {
    for rule in &schema.rules {
        if !keeps(rule, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a value satisfies one rule.
pub(super) fn keeps(rule: &Rule, value: Value<'_>) -> Result<bool> {
    Ok(match (&rule.demand, value) {
        (Demand::Type(types), _) => types.contains(value.tag()),
        (Demand::Enum(values), _) => values.iter().any(|one| same(one.as_value(), value)),
        (Demand::Minimum { bound, exclusive }, _) if value.is_number() => {
            let order = bound.order_of(value);
            order.is_some_and(|order| if *exclusive { order.is_gt() } else { order.is_ge() })
        }
        (Demand::Maximum { bound, exclusive }, _) if value.is_number() => {
            let order = bound.order_of(value);
            order.is_some_and(|order| if *exclusive { order.is_lt() } else { order.is_le() })
        }
        (Demand::MultipleOf(divisor), _) if value.is_number() => is_multiple(value, divisor.as_value()),
        (Demand::MinLength(length), Value::String(text)) => text.chars().count() as u64 >= *length,
        (Demand::MaxLength(length), Value::String(text)) => text.chars().count() as u64 <= *length,
        (Demand::Pattern(pattern), Value::String(text)) => pattern.is_match(text)?,
        (Demand::MinItems(length), Value::Array(array)) => array.count() as u64 >= *length,
        (Demand::MaxItems(length), Value::Array(array)) => array.count() as u64 <= *length,
        (Demand::UniqueItems, Value::Array(array)) => duplicate(array).is_none(),
        (Demand::Items(schema), Value::Array(array)) => first_failing_item(schema, array, 0)?.is_none(),
        (Demand::ItemsInOrder(schemas), Value::Array(array)) => {
            for (schema, item) in schemas.iter().zip(array.iter()) {
                if !satisfies(schema, item)? {
                    return Ok(false);
                }
            }
            true
        }
        (Demand::AdditionalItems { from, allowed }, Value::Array(array)) => match allowed {
            Additional::Nothing => array.count() <= *from,
            Additional::Matching(schema) => first_failing_item(schema, array, *from)?.is_none(),
        },
        (Demand::Required(names), Value::Document(doc)) => names.iter().all(|name| doc.contains_key(name)),
        (Demand::Properties(schemas), Value::Document(doc)) => {
            for (name, schema) in schemas {
                if let Some(value) = doc.get(name)
                    && !satisfies(schema, value)?
                {
                    return Ok(false);
                }
            }
            true
        }
        (Demand::PatternProperties(schemas), Value::Document(doc)) => {
            for element in doc.iter() {
                for (pattern, schema) in schemas {
                    if pattern.is_match(element.key_str())? && !satisfies(schema, element.value())? {
                        return Ok(false);
                    }
                }
            }
            true
        }
        (Demand::AdditionalProperties { named, patterns, allowed }, Value::Document(doc)) => {
            for element in doc.iter() {
                let name = element.key_str();
                if !is_additional(name, named, patterns)? {
                    continue;
                }
                match allowed {
                    Additional::Nothing => return Ok(false),
                    Additional::Matching(schema) if !satisfies(schema, element.value())? => return Ok(false),
                    Additional::Matching(_) => {}
                }
            }
            true
        }
        (Demand::MinProperties(count), Value::Document(doc)) => doc.count() as u64 >= *count,
        (Demand::MaxProperties(count), Value::Document(doc)) => doc.count() as u64 <= *count,
        (Demand::Dependencies(dependencies), Value::Document(doc)) => {
            for (name, dependency) in dependencies {
                if doc.contains_key(name) && !depends(dependency, doc)? {
                    return Ok(false);
                }
            }
            true
        }
        (Demand::AllOf(schemas), _) => count(schemas, value)? == schemas.len(),
        (Demand::AnyOf(schemas), _) => {
            for schema in schemas {
                if satisfies(schema, value)? {
                    return Ok(true);
                }
            }
            false
        }
        (Demand::OneOf(schemas), _) => count(schemas, value)? == 1,
        (Demand::Not(schema), _) => !satisfies(schema, value)?,
        // A rule about another type does not apply.
        _ => true,
    })
}

/// Whether an object has what the presence of a property requires.
pub(super) fn depends(dependency: &Dependency, doc: Doc<'_>) -> Result<bool> {
    match dependency {
        Dependency::Properties(names) => Ok(names.iter().all(|name| doc.contains_key(name))),
        Dependency::Schema(schema) => satisfies(schema, Value::Document(doc)),
    }
}

/// Whether no keyword of the schema covers a property.
pub(super) fn is_additional(
    name: &str,
    named: &[String],
    patterns: &[crate::filter::Pattern],
) -> Result<bool> {
    if named.iter().any(|known| known == name) {
        return Ok(false);
    }
    for pattern in patterns {
        if pattern.is_match(name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first item from index `from` on that fails a schema.
pub(super) fn first_failing_item<'a>(
    schema: &Schema,
    array: Array<'a>,
    from: usize,
) -> Result<Option<(usize, Value<'a>)>> {
    for (index, item) in array.iter().enumerate().skip(from) {
        if !satisfies(schema, item)? {
            return Ok(Some((index, item)));
        }
    }
    Ok(None)
}

/// How many of the schemas a value satisfies.
fn count(schemas: &[Schema], value: Value<'_>) -> Result<usize> {
    let mut count = 0;
    for schema in schemas {
        count += usize::from(satisfies(schema, value)?);
    }
    Ok(count)
}

/// The first item that equals an earlier one.
pub(super) fn duplicate(array: Array<'_>) -> Option<Value<'_>> {
    let mut items = array.iter().enumerate().collect::<Vec<_>>();
    // Equal documents may have their fields in different order, so sorting does not make them neighbours. They have the
    // same type and are compared pairwise.
    let (documents, mut scalars): (Vec<_>, Vec<_>) =
        items.drain(..).partition(|(_, item)| matches!(item, Value::Document(_) | Value::Array(_)));
    let mut found = None;
    scalars.sort_by(|(_, a), (_, b)| compare(*a, *b));
    for pair in scalars.windows(2) {
        if same(pair[0].1, pair[1].1) {
            found = earlier(found, pair[1]);
        }
    }
    for (at, item) in documents.iter().enumerate() {
        if documents[..at].iter().any(|(_, before)| same(*before, item.1)) {
            found = earlier(found, *item);
            break;
        }
    }
    found.map(|(_, item)| item)
}

fn earlier<'a>(found: Option<(usize, Value<'a>)>, item: (usize, Value<'a>)) -> Option<(usize, Value<'a>)> {
    match found {
        Some(known) if known.0 <= item.0 => Some(known),
        _ => Some(item),
    }
}

/// Whether two values are equal by JSON Schema: numbers by value, objects regardless of field order.
pub(super) fn same(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Document(a), Value::Document(b)) => {
            a.count() == b.count()
                && a.iter()
                    .all(|field| b.get(field.key_str()).is_some_and(|other| same(field.value(), other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.count() == b.count() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        _ => type_rank(a.tag()) == type_rank(b.tag()) && compare(a, b).is_eq(),
    }
}

/// Whether a number is a multiple of a positive number.
fn is_multiple(value: Value<'_>, divisor: Value<'_>) -> bool {
    if let (Some(value), Some(divisor)) = (value.as_i64_exact(), divisor.as_i64_exact()) {
        return value.checked_rem(divisor) == Some(0);
    }
    if is_nan(value) {
        return false;
    }
    match (decimal(value), decimal(divisor)) {
        (Some(value), Some(divisor)) => (value % divisor).is_zero(),
        _ => false,
    }
}

fn decimal(value: Value<'_>) -> Option<Decimal128> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number.into()),
        Value::Double(number) => Some(Decimal128::from_f64(number)),
        Value::Decimal128(number) => Some(number),
        _ => None,
    }
}
