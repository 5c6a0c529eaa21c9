//! The syntax of selectors.
//!
//! An object of several members asks for all of them; a name that does not begin with a dollar is a field's, and what
//! stands after it concerns the fields below; any other value is to be equal.

use super::condition::{Condition, Test};
use super::element::Element;
use super::{Error, Result, Selector, field};
use crate::filter::{Filter, Operand, Pattern, Predicate, TypeSet, ValueSet};
use diwan_value::json::id_from_text;
use diwan_value::{Doc, Path, Type, Value, ValueBuf};

/// Operators that CouchDB knows and does not have either.
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

/// Parses what is asked of the value at `path`; with `negated`, that it be not so.
fn value(asked: Value<'_>, path: &[String], negated: bool) -> Result<Filter> {
    match asked {
        Value::Document(doc) if !doc.is_empty() => members(doc, path, negated),
        // An empty object among the filters of `$and` asks that the whole document be empty, which none is.
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

/// The filter that asks for all of these, or for one of them.
fn combine(mut filters: Vec<Filter>, any: bool) -> Filter {
    match filters.len() {
        // An empty list is always true, in `$or` too.
        0 => Filter::AlwaysTrue,
        1 => filters.remove(0),
        _ if any => Filter::Or(filters),
        _ => Filter::and(filters),
    }
}

fn member(name: &str, asked: Value<'_>, path: &[String], negated: bool) -> Result<Filter> {
    if !name.starts_with('$') || (path.is_empty() && field::is_renamed(name)) {
        let mut path = path.to_vec();
        field::split(name, &mut path)?;
        return value(asked, &path, negated);
    }
    let list = |negated| {
        let Value::Array(array) = asked else { return Err(Error::bad_argument(name, asked)) };
        array.iter().map(|one| value(one, path, negated)).collect::<Result<Vec<Filter>>>()
    };
    match name {
        "$and" => Ok(combine(list(negated)?, negated)),
        "$or" => Ok(combine(list(negated)?, !negated)),
        "$nor" => Ok(combine(list(!negated)?, negated)),
        "$not" => match asked {
            Value::Document(_) => value(asked, path, !negated),
            _ => Err(Error::bad_argument(name, asked)),
        },
        _ => condition(path, test(name, asked)?, negated),
    }
}

/// A condition at a path.
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
        // Over HTTP an id is a string, which has no fields.
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

/// A test of equality with ids' texts as one of equality with ids.
fn of_ids(test: Test) -> Test {
    let ids = |operands: &[Operand]| {
        let id = |operand: &Operand| match operand.value() {
            // What is no id's text is equal to no id, and over HTTP an id is nothing but text.
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

/// Parses an operator that asks something of one value.
fn test(name: &str, asked: Value<'_>) -> Result<Test> {
    let bad = || Error::bad_argument(name, asked);
    let set = || match asked {
        Value::Array(array) => Ok(ValueSet::new(array.iter().collect(), Vec::new(), None)),
        _ => Err(bad()),
    };
    let inner = || match asked {
        Value::Document(doc) if doc.is_empty() => Ok(Box::new(Element::At(None, Test::Eq(operand(asked))))),
        Value::Document(_) => Ok(Box::new(element(asked, &[])?)),
        _ => Err(bad()),
    };
    Ok(match name {
        "$eq" => Test::Eq(operand(asked)),
        "$ne" => Test::Ne(operand(asked)),
        "$lt" => Test::Lt(operand(asked)),
        "$lte" => Test::Lte(operand(asked)),
        "$gt" => Test::Gt(operand(asked)),
        "$gte" => Test::Gte(operand(asked)),
        "$in" => Test::In(set()?),
        "$nin" => Test::Nin(set()?),
        "$exists" => Test::Exists(asked.as_bool().ok_or_else(bad)?),
        "$type" => {
            let name = asked.as_str().ok_or_else(bad)?;
            Test::Type { name: name.into(), types: types(name) }
        }
        "$mod" => {
            let parts: Vec<Value<'_>> =
                asked.as_array().map(|array| array.iter().collect()).unwrap_or_default();
            match *parts.as_slice() {
                [divisor, remainder] => {
                    let divisor = integer(divisor).filter(|&divisor| divisor != 0).ok_or_else(bad)?;
                    Test::Mod { divisor, remainder: integer(remainder).ok_or_else(bad)? }
                }
                _ => return Err(bad()),
            }
        }
        "$regex" if asked.as_str().is_some() => {
            Test::Regex(Pattern::new(asked.as_str().unwrap_or_default(), "").map_err(|_| bad())?)
        }
        "$beginsWith" if asked.as_str().is_some() => {
            Test::BeginsWith(asked.as_str().unwrap_or_default().into())
        }
        "$size" => {
            let size = integer(asked).and_then(|size| u64::try_from(size).ok());
            Test::Size(size.ok_or_else(bad)?)
        }
        "$all" => match asked {
            Value::Array(array) => Test::All(array.iter().map(operand).collect()),
            _ => return Err(bad()),
        },
        "$elemMatch" => Test::ElemMatch(inner()?),
        "$allMatch" => Test::AllMatch(inner()?),
        "$keyMapMatch" => Test::KeyMapMatch(inner()?),
        // What CouchDB answers that has no search engine beside it.
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

/// Parses what is asked of a value inside an array or object.
fn element(asked: Value<'_>, path: &[String]) -> Result<Element> {
    let at = |test| Element::At((!path.is_empty()).then(|| Path::from_names(path.to_vec())), test);
    let doc = match asked {
        Value::Document(doc) if !doc.is_empty() => doc,
        constant => return Ok(at(Test::Eq(operand(constant)))),
    };
    let one = |name: &str, asked: Value<'_>| {
        // In a normalized selector, what is asked of the value itself stands under the empty name.
        if name.is_empty() && path.is_empty() {
            return element(asked, path);
        }
        if !name.starts_with('$') {
            let mut path = path.to_vec();
            field::split(name, &mut path)?;
            return element(asked, &path);
        }
        let list = || {
            let Value::Array(array) = asked else { return Err(Error::bad_argument(name, asked)) };
            array.iter().map(|one| element(one, path)).collect::<Result<Vec<Element>>>()
        };
        // An empty list is always true.
        let any = |all: Vec<Element>| if all.is_empty() { Element::And(all) } else { Element::Or(all) };
        Ok(match (name, asked) {
            ("$and", _) => Element::And(list()?),
            ("$or", _) => any(list()?),
            ("$nor", _) => match list()? {
                none if none.is_empty() => Element::And(none),
                some => Element::Not(Box::new(Element::Or(some))),
            },
            ("$not", Value::Document(_)) => Element::Not(Box::new(element(asked, path)?)),
            ("$not", _) => return Err(Error::bad_argument(name, asked)),
            _ => at(test(name, asked)?),
        })
    };
    let mut all: Vec<Element> =
        doc.iter().map(|member| one(member.key_str(), member.value())).collect::<Result<_>>()?;
    Ok(if all.len() == 1 { all.remove(0) } else { Element::And(all) })
}

/// The types of a name: JSON's six, and the names of BSON's.
fn types(name: &str) -> TypeSet {
    let all = || (0..=u8::MAX).filter_map(Type::from_byte);
    let types: Vec<Type> = match name {
        "null" => vec![Type::Null],
        "boolean" => vec![Type::Boolean],
        "number" => return TypeSet::numbers(),
        "string" => vec![Type::String, Type::Symbol],
        // What has no type in JSON travels as an object.
        "object" => all().filter(|tag| super::order::rank(*tag) >= 5).collect(),
        name => all().filter(|tag| tag.alias() == name).collect(),
    };
    TypeSet::of(&types)
}

/// An integer as JSON has it: without a point.
fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(number) => Some(number.into()),
        Value::Int64(number) => Some(number),
        _ => None,
    }
}
