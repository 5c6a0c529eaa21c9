//! Parses selectors.
//!
//! An object with several members requires all of them. A name that does not begin with a dollar is a field, and its
//! value contains conditions on it. Any other value must be equal.

use super::condition::{Condition, Test};
use super::element::Element;
use super::{Error, Result, Selector, field};
use crate::filter::{Filter, Operand, Pattern, Predicate, TypeSet, ValueSet};
use diwan_value::json::id_from_text;
use diwan_value::{Doc, Path, Type, Value, ValueBuf};

/// Operators that CouchDB recognizes and does not support.
const UNSUPPORTED: [&str; 5] = ["$where", "$geoWithin", "$geoIntersects", "$near", "$nearSphere"];

/// Parses a selector for whole documents.
pub(super) fn selector(doc: Doc<'_>) -> Result<Selector> {
    let filter = if doc.is_empty() { Filter::AlwaysTrue } else { members(doc, &[], false)? };
    let metadata = names_metadata(&filter);
    Ok(Selector { filter, metadata })
}

fn names_metadata(filter: &Filter) -> bool {
    match filter {
        Filter::And(all) => all.children().iter().any(names_metadata),
        Filter::Or(any) => any.iter().any(names_metadata),
        Filter::Path(condition) => field::is_metadata(&condition.path),
        _ => false,
    }
}

/// Parses the condition on the value at `path`, or with `negated` its negation.
fn value(argument: Value<'_>, path: &[String], negated: bool) -> Result<Filter> {
    match argument {
        Value::Document(doc) if !doc.is_empty() => members(doc, path, negated),
        // An empty object in the list of `$and` requires the whole document to be empty, which no document is.
        Value::Document(_) if path.is_empty() => {
            Ok(if negated { Filter::AlwaysTrue } else { Filter::AlwaysFalse })
        }
        constant => condition(path, Test::Eq(operand(constant)), negated),
    }
}

fn members(doc: Doc<'_>, path: &[String], negated: bool) -> Result<Filter> {
    let filters = doc.iter().map(|element| member(element.key_str(), element.value(), path, negated));
    Ok(combine(filters.collect::<Result<_>>()?, negated))
}

/// The filter that requires all filters, or one of them if `any`.
fn combine(mut filters: Vec<Filter>, any: bool) -> Filter {
    match filters.len() {
        // An empty list is always true, also in `$or`.
        0 => Filter::AlwaysTrue,
        1 => filters.remove(0),
        _ if any => Filter::Or(filters),
        _ => Filter::and(filters),
    }
}

fn member(name: &str, argument: Value<'_>, path: &[String], negated: bool) -> Result<Filter> {
    if !name.starts_with('$') || (path.is_empty() && field::is_renamed(name)) {
        let mut path = path.to_vec();
        field::split(name, &mut path)?;
        return value(argument, &path, negated);
    }
    let list = |negated| {
        let Value::Array(array) = argument else { return Err(Error::bad_argument(name, argument)) };
        array.iter().map(|one| value(one, path, negated)).collect::<Result<Vec<Filter>>>()
    };
    match name {
        "$and" => Ok(combine(list(negated)?, negated)),
        "$or" => Ok(combine(list(negated)?, !negated)),
        "$nor" => Ok(combine(list(!negated)?, negated)),
        "$not" => match argument {
            Value::Document(_) => value(argument, path, !negated),
            _ => Err(Error::bad_argument(name, argument)),
        },
        _ => condition(path, test(name, argument)?, negated),
    }
}

/// Makes a condition on a path.
fn condition(path: &[String], test: Test, negated: bool) -> Result<Filter> {
    if path.is_empty() {
        return Err(Error::new("invalid_selector", "One or more conditions is missing a field name."));
    }
    let test = if negated { test.negated() } else { test };
    let path = field::stored_path(path);
    let mut of_id = false;
    let test = if path.name(0) != "_id" {
        test
    } else if path.depth() > 1 {
        // Over HTTP an id is a string and has no fields.
        return Ok(Filter::AlwaysFalse);
    } else {
        match test {
            Test::Exists(flag) => return Ok(if flag { Filter::AlwaysTrue } else { Filter::AlwaysFalse }),
            Test::Eq(_) | Test::Ne(_) | Test::In(_) | Test::Nin(_) => of_ids(test),
            test => {
                of_id = true;
                test
            }
        }
    };
    Ok(Filter::path(path, Predicate::Mango(Box::new(Condition { test, of_id }))))
}

/// Converts a test for equality with the texts of ids to one with ids.
fn of_ids(test: Test) -> Test {
    let ids = |operands: &[Operand]| {
        let id = |operand: &Operand| match operand.value() {
            // A text that is not an id's text equals no id, and over HTTP an id equals nothing but a text.
            Value::String(text) => id_from_text(text).ok(),
            id @ Value::ObjectId(_) => Some(id.to_owned()),
            _ => None,
        };
        let ids: Vec<ValueBuf> = operands.iter().filter_map(id).collect();
        ValueSet::new(ids.iter().map(ValueBuf::as_value).collect(), Vec::new(), None)
    };
    let one = |set: ValueSet| match set.values() {
        [only] => Ok(only.clone()),
        _ => Err(set),
    };
    match test {
        Test::Eq(operand) => one(ids(&[operand])).map_or_else(Test::In, Test::Eq),
        Test::Ne(operand) => one(ids(&[operand])).map_or_else(Test::Nin, Test::Ne),
        Test::In(set) => Test::In(ids(set.values())),
        Test::Nin(set) => Test::Nin(ids(set.values())),
        other => other,
    }
}

fn operand(value: Value<'_>) -> Operand {
    Operand::new(value, None)
}

/// Parses an operator that tests one value.
fn test(name: &str, argument: Value<'_>) -> Result<Test> {
    let bad = || Error::bad_argument(name, argument);
    let set = || match argument {
        Value::Array(array) => Ok(ValueSet::new(array.iter().collect(), Vec::new(), None)),
        _ => Err(bad()),
    };
    // An empty object requires equality with the empty object.
    let inner = || match argument {
        Value::Document(doc) if doc.is_empty() => {
            Ok(Box::new(Element::At(None, Test::Eq(operand(argument)))))
        }
        Value::Document(_) => Ok(Box::new(element(argument, &[])?)),
        _ => Err(bad()),
    };
    Ok(match name {
        "$eq" => Test::Eq(operand(argument)),
        "$ne" => Test::Ne(operand(argument)),
        "$lt" => Test::Lt(operand(argument)),
        "$lte" => Test::Lte(operand(argument)),
        "$gt" => Test::Gt(operand(argument)),
        "$gte" => Test::Gte(operand(argument)),
        "$in" => Test::In(set()?),
        "$nin" => Test::Nin(set()?),
        "$exists" => Test::Exists(argument.as_bool().ok_or_else(bad)?),
        "$type" => {
            let name = argument.as_str().ok_or_else(bad)?;
            Test::Type { name: name.into(), types: types(name) }
        }
        "$mod" => {
            let parts: Vec<Value<'_>> =
                argument.as_array().map(|array| array.iter().collect()).unwrap_or_default();
            match *parts.as_slice() {
                [divisor, remainder] => {
                    let divisor = integer(divisor).filter(|&divisor| divisor != 0).ok_or_else(bad)?;
                    Test::Mod { divisor, remainder: integer(remainder).ok_or_else(bad)? }
                }
                _ => return Err(bad()),
            }
        }
        "$regex" if argument.as_str().is_some() => {
            Test::Regex(Pattern::new(argument.as_str().unwrap_or_default(), "").map_err(|_| bad())?)
        }
        "$beginsWith" if argument.as_str().is_some() => {
            Test::BeginsWith(argument.as_str().unwrap_or_default().into())
        }
        "$size" => {
            let size = integer(argument).and_then(|size| u64::try_from(size).ok());
            Test::Size(size.ok_or_else(bad)?)
        }
        "$all" => match argument {
            Value::Array(array) => Test::All(array.iter().map(operand).collect()),
            _ => return Err(bad()),
        },
        "$elemMatch" => Test::ElemMatch(inner()?),
        "$allMatch" => Test::AllMatch(inner()?),
        "$keyMapMatch" => Test::KeyMapMatch(inner()?),
        // CouchDB's error if it runs without a search engine.
        "$text" => {
            return Err(Error {
                status: 503,
                error: "required index service unavailable",
                reason: "text".to_owned(),
            });
        }
        _ if UNSUPPORTED.contains(&name) => {
            return Err(Error::new("not_supported", format!("Unsupported operator: {name}")));
        }
        _ => return Err(Error::invalid_operator(name)),
    })
}

/// Parses the condition on a value inside an array or object.
fn element(argument: Value<'_>, path: &[String]) -> Result<Element> {
    let at = |test| Element::At((!path.is_empty()).then(|| Path::from_names(path.to_vec())), test);
    let doc = match argument {
        Value::Document(doc) if !doc.is_empty() => doc,
        constant => return Ok(at(Test::Eq(operand(constant)))),
    };
    let one = |name: &str, argument: Value<'_>| {
        // In a normalized selector, conditions on the value itself have an empty name.
        if name.is_empty() && path.is_empty() {
            return element(argument, path);
        }
        if !name.starts_with('$') {
            let mut path = path.to_vec();
            field::split(name, &mut path)?;
            return element(argument, &path);
        }
        let list = || {
            let Value::Array(array) = argument else { return Err(Error::bad_argument(name, argument)) };
            array.iter().map(|one| element(one, path)).collect::<Result<Vec<Element>>>()
        };
        // An empty list is always true.
        let any = |all: Vec<Element>| if all.is_empty() { Element::And(all) } else { Element::Or(all) };
        Ok(match (name, argument) {
            ("$and", _) => Element::And(list()?),
            ("$or", _) => any(list()?),
            ("$nor", _) => match list()? {
                none if none.is_empty() => Element::And(none),
                some => Element::Not(Box::new(Element::Or(some))),
            },
            ("$not", Value::Document(_)) => Element::Not(Box::new(element(argument, path)?)),
            ("$not", _) => return Err(Error::bad_argument(name, argument)),
            _ => at(test(name, argument)?),
        })
    };
    let mut all: Vec<Element> =
        doc.iter().map(|member| one(member.key_str(), member.value())).collect::<Result<_>>()?;
    Ok(if all.len() == 1 { all.remove(0) } else { Element::And(all) })
}

/// The types of a name: JSON's six, and BSON's type names.
fn types(name: &str) -> TypeSet {
    let all = || (0..=u8::MAX).filter_map(Type::from_byte);
    let types: Vec<Type> = match name {
        "null" => vec![Type::Null],
        "boolean" => vec![Type::Boolean],
        "number" => return TypeSet::numbers(),
        "string" => vec![Type::String, Type::Symbol],
        // Values of types that JSON lacks are sent as objects.
        "object" => all().filter(|tag| super::order::rank(*tag) >= 5).collect(),
        name => all().filter(|tag| tag.alias() == name).collect(),
    };
    TypeSet::of(&types)
}

/// An integer in JSON's sense: written without a point.
fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number),
        _ => None,
    }
}
