//! The fields that a filter fixes to one value. An upsert copies them into the new document.

use super::{Filter, Predicate};
use crate::error::{Error, Result, code};
use diwan_value::{Path, Value};

/// The paths that have one fixed value in every matching document: `$eq`, and `$all` and `$in` of one constant, also
/// inside `$and` and inside an `$or` of one filter. Fails if one path leads into another.
pub fn equality_fields(filter: &Filter) -> Result<Vec<(&Path, Value<'_>)>> {
    let mut fields = Vec::new();
    collect(filter, &mut fields)?;
    Ok(fields)
}

fn collect<'f>(filter: &'f Filter, fields: &mut Vec<(&'f Path, Value<'f>)>) -> Result<()> {
    match filter {
        Filter::And(conjunction) => {
            conjunction.children().iter().try_for_each(|child| collect(child, fields))
        }
        Filter::Or(children) if children.len() == 1 => collect(&children[0], fields),
        Filter::Path(path_filter) => match constant(&path_filter.predicate) {
            Some(value) => add(&path_filter.path, value, fields),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn constant(predicate: &Predicate) -> Option<Value<'_>> {
    match predicate {
        Predicate::Eq(operand) => Some(operand.value()),
        Predicate::All(inner) => match inner.as_slice() {
            [Predicate::Eq(operand)] => Some(operand.value()),
            _ => None,
        },
        Predicate::In(set) => match (set.values(), set.patterns()) {
            ([operand], []) => Some(operand.value()),
            _ => None,
        },
        _ => None,
    }
}

fn add<'f>(path: &'f Path, value: Value<'f>, fields: &mut Vec<(&'f Path, Value<'f>)>) -> Result<()> {
    for (other, _) in fields.iter() {
        if path == *other {
            let text = format!("cannot infer query fields to set, path '{path}' is matched twice");
            return Err(Error::new(code::NOT_SINGLE_VALUE_FIELD, text));
        }
        if path.starts_with(other) || other.starts_with(path) {
            let text =
                format!("cannot infer query fields to set, both paths '{path}' and '{other}' are matched");
            return Err(Error::new(code::NOT_SINGLE_VALUE_FIELD, text));
        }
    }
    fields.push((path, value));
    Ok(())
}
