//! The array operators `$push`, `$addToSet`, `$pop`, `$pull` and `$pullAll`.

use super::UpdateEnv;
use super::scope::{Outcome, Scope};
use crate::error::{Error, Result};
use crate::filter::ValueFilter;
use crate::sort::ElementOrder;
use diwan_value::{Array, ArrayBuilder, DocBuilder, RawValue, Value, ValueBuf, compare_with};
use std::collections::HashSet;

/// A parsed `$push`.
#[derive(Debug)]
pub(super) struct Push {
    /// The values to push.
    pub values: Vec<ValueBuf>,
    /// How many elements to keep: the first ones, or the last ones if negative.
    slice: Option<i64>,
    sort: Option<ElementOrder>,
    /// Where to insert the values; counted from the end if negative.
    position: Option<i64>,
}

/// Parses the argument of `$push`.
pub(super) fn parse_push(value: Value<'_>) -> Result<Push> {
    let Some(clauses) = value.as_doc().filter(|doc| doc.contains_key("$each")) else {
        let values = vec![ValueBuf::new(value)];
        return Ok(Push { values, slice: None, sort: None, position: None });
    };
    let mut push = Push { values: Vec::new(), slice: None, sort: None, position: None };
    let mut seen = HashSet::new();
    for clause in clauses {
        let (name, value) = (clause.key_str(), clause.value());
        if !seen.insert(name) {
            return Err(Error::bad_value(format!("Only one {name} is supported.")));
        }
        let kind = value.tag().alias();
        match name {
            "$each" => {
                let Value::Array(values) = value else {
                    return Err(Error::bad_value(format!(
                        "The argument to $each in $push must be an array but it was of type: {kind}"
                    )));
                };
                push.values = values.iter().map(ValueBuf::new).collect();
            }
            "$slice" => {
                push.slice = Some(whole(value, || {
                    format!("The value for $slice must be an integer value but was given type: {kind}")
                })?);
            }
            "$sort" => push.sort = Some(ElementOrder::parse(value)?),
            "$position" => {
                push.position = Some(whole(value, || {
                    format!("The value for $position must be an integer value, not of type: {kind}")
                })?);
            }
            _ => return Err(Error::bad_value(format!("Unrecognized clause in $push: {name}"))),
        }
    }
    Ok(push)
}

/// A whole number of any numeric type, or an error with the text from `message`.
fn whole(value: Value<'_>, message: impl FnOnce() -> String) -> Result<i64> {
    value.as_i64_exact().ok_or_else(|| Error::bad_value(message()))
}

impl Push {
    /// Writes the array `current` with the pushed values under `key`.
    pub fn apply(
        &self,
        key: &str,
        current: Value<'_>,
        scope: &Scope<'_>,
        out: &mut DocBuilder,
    ) -> Result<Outcome> {
        let Value::Array(array) = current else {
            return Err(Error::bad_value(format!(
                "The field '{}' must be an array but is of type {} in document {{{}}}",
                scope.path(),
                current.tag().alias(),
                scope.shown_id()
            )));
        };
        let count = array.count();
        let at = match self.position {
            None => count,
            Some(position) if position >= 0 => count.min(usize::try_from(position).unwrap_or(count)),
            Some(position) => {
                count.saturating_sub(usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX))
            }
        };
        // A negative slice keeps the last elements.
        let total = count + self.values.len();
        let kept = match self.slice {
            None => 0..total,
            Some(slice) => {
                let length = total.min(usize::try_from(slice.unsigned_abs()).unwrap_or(total));
                if slice >= 0 { 0..length } else { total - length..total }
            }
        };
        let simple = self.sort.is_none() && kept.len() == total;
        if simple && self.values.is_empty() {
            // The caller reports a new empty array as a change.
            out.append(key, array);
            return Ok(Outcome::Unchanged);
        }
        out.begin_array(key);
        if simple && at == count {
            copy_elements(array, out);
            append_values(self.values.iter().map(ValueBuf::as_value), count, out);
        } else {
            let mut values: Vec<Value<'_>> = array.iter().collect();
            values.splice(at..at, self.values.iter().map(ValueBuf::as_value));
            if let Some(order) = &self.sort {
                values.sort_by(|a, b| order.compare(*a, *b, scope.collator()));
            }
            append_values(values[kept].iter().copied(), 0, out);
        }
        out.end();
        Ok(Outcome::Changed)
    }
}

/// Copies the elements of `array` to the open array, which is empty.
fn copy_elements(array: Array<'_>, out: &mut DocBuilder) {
    let bytes = array.as_bytes();
    out.append_span(bytes.get(4..bytes.len().saturating_sub(1)).unwrap_or_default());
}

/// Appends `values` to the open array, the first one at index `start`.
fn append_values<'v>(values: impl Iterator<Item = Value<'v>>, start: usize, out: &mut DocBuilder) {
    for (at, value) in values.enumerate() {
        out.append_indexed(start + at, value);
    }
}

/// Parses the argument of `$addToSet`: distinct values.
pub(super) fn parse_add_to_set(value: Value<'_>, env: &UpdateEnv<'_>) -> Result<Vec<ValueBuf>> {
    let each = value.as_doc().and_then(|doc| doc.iter().next().map(|first| (doc, first)));
    let Some((doc, first)) = each.filter(|(_, first)| first.key == b"$each") else {
        return Ok(vec![ValueBuf::new(value)]);
    };
    let Value::Array(array) = first.value() else {
        return Err(Error::type_mismatch(format!(
            "The argument to $each in $addToSet must be an array but it was of type {}",
            first.raw.tag.alias()
        )));
    };
    if doc.count() > 1 {
        return Err(Error::bad_value(format!(
            "Found unexpected fields after $each in $addToSet: {}",
            crate::display::ShownDoc(doc)
        )));
    }
    let collator = env.filter.context.collator.as_deref();
    let mut sorted: Vec<(usize, Value<'_>)> = array.iter().enumerate().collect();
    sorted.sort_by(|(_, a), (_, b)| compare_with(*a, *b, collator));
    sorted.dedup_by(|(_, later), (_, first)| compare_with(*later, *first, collator).is_eq());
    sorted.sort_by_key(|(at, _)| *at);
    Ok(sorted.into_iter().map(|(_, value)| ValueBuf::new(value)).collect())
}

/// Writes the array `current` with those of `values` appended that it does not contain.
pub(super) fn add_to_set(
    values: &[ValueBuf],
    key: &str,
    current: Value<'_>,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<Outcome> {
    let Value::Array(array) = current else {
        return Err(Error::bad_value(format!(
            "Cannot apply $addToSet to non-array field. Field named '{key}' has non-array type {}",
            current.tag().alias()
        )));
    };
    let missing: Vec<Value<'_>> = values
        .iter()
        .map(ValueBuf::as_value)
        .filter(|value| !array.iter().any(|known| compare_with(known, *value, scope.collator()).is_eq()))
        .collect();
    if missing.is_empty() {
        return Ok(Outcome::Untouched);
    }
    out.begin_array(key);
    copy_elements(array, out);
    append_values(missing.into_iter(), array.count(), out);
    out.end();
    Ok(Outcome::Changed)
}

/// Makes an array of `values`.
pub(super) fn of_values(values: &[ValueBuf]) -> ArrayBuilder {
    let mut array = ArrayBuilder::new();
    for value in values {
        array.push(value);
    }
    array
}

/// Parses the argument of `$pop`. Returns whether to remove the first element instead of the last one.
pub(super) fn parse_pop(path: &str, value: Value<'_>) -> Result<bool> {
    let shown = crate::display::ShownField(path, value);
    if !value.is_number() {
        return Err(Error::failed_to_parse(format!("Expected a number in: {shown}")));
    }
    match value.as_i64_exact() {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        Some(other) => Err(Error::failed_to_parse(format!("$pop expects 1 or -1, found: {other}"))),
        None => Err(Error::failed_to_parse(format!("Expected an integer: {shown}"))),
    }
}

/// Writes the array `current` without its first or last element.
pub(super) fn pop(
    first: bool,
    key: &str,
    current: Value<'_>,
    scope: &Scope<'_>,
    out: &mut DocBuilder,
) -> Result<Outcome> {
    let Value::Array(array) = current else {
        return Err(Error::type_mismatch(format!(
            "Path '{}' contains an element of non-array type '{}'",
            scope.path(),
            current.tag().alias()
        )));
    };
    if array.is_empty() {
        return Ok(Outcome::Untouched);
    }
    out.begin_array(key);
    if first {
        append_values(array.iter().skip(1), 0, out);
    } else {
        append_values(array.iter().take(array.count().saturating_sub(1)), 0, out);
    }
    out.end();
    Ok(Outcome::Changed)
}

/// Which elements `$pull` and `$pullAll` remove.
#[derive(Debug)]
pub(super) enum PullCondition {
    /// Elements that satisfy a condition.
    Matching(ValueFilter),
    /// Elements that equal one of these values.
    Values(Vec<ValueBuf>),
}

/// Parses the argument of `$pull`.
pub(super) fn parse_pull(value: Value<'_>, env: &UpdateEnv<'_>) -> Result<PullCondition> {
    ValueFilter::parse(value, env.filter).map(PullCondition::Matching)
}

/// Parses the argument of `$pullAll`.
pub(super) fn parse_pull_all(value: Value<'_>) -> Result<PullCondition> {
    let Value::Array(values) = value else {
        return Err(Error::bad_value(format!(
            "$pullAll requires an array argument but was given a {}",
            value.tag().alias()
        )));
    };
    Ok(PullCondition::Values(values.iter().map(ValueBuf::new).collect()))
}

impl PullCondition {
    fn matches(&self, element: RawValue<'_>, scope: &Scope<'_>) -> Result<bool> {
        match self {
            PullCondition::Matching(condition) => condition.matches_raw(element),
            PullCondition::Values(values) => {
                let value = element.decode().unwrap_or(Value::Null);
                let equal =
                    |known: &ValueBuf| compare_with(value, known.as_value(), scope.collator()).is_eq();
                Ok(values.iter().any(equal))
            }
        }
    }

    /// Writes the array `current` without the elements that match.
    pub fn apply(
        &self,
        key: &str,
        current: Value<'_>,
        scope: &Scope<'_>,
        out: &mut DocBuilder,
    ) -> Result<Outcome> {
        let Value::Array(array) = current else {
            return Err(Error::bad_value("Cannot apply $pull to a non-array value"));
        };
        let mut kept = Vec::new();
        let mut removed = false;
        for element in array.elements() {
            if self.matches(element.raw, scope)? {
                removed = true;
            } else {
                kept.push(element.value());
            }
        }
        if !removed {
            return Ok(Outcome::Untouched);
        }
        out.begin_array(key);
        append_values(kept.into_iter(), 0, out);
        out.end();
        Ok(Outcome::Changed)
    }
}
