//! The field operators: the parsers of `{field: {$operator: …}}`.

use super::bits::{BitCondition, BitTest};
use super::elem_match::ElemMatch;
use super::integer;
use super::parse::{FilterParser, is_document_operator, is_operator_document};
use super::regex::Pattern;
use super::set::ValueSet;
use super::type_set::TypeSet;
use super::{Operand, Predicate};
use crate::display::Shown;
use crate::error::{Error, Result, code};
use crate::expr::is_truthy;
use diwan_value::{Array, Doc, Value};

/// An operator and its surroundings.
struct Operator<'a> {
    parser: FilterParser<'a>,
    /// The field's name, for messages.
    field: &'a str,
    name: &'a str,
    value: Value<'a>,
    /// The document that contains the operator.
    siblings: Doc<'a>,
}

/// Parses an operator. `None` means that the operator only modifies another one.
type Read = fn(&Operator<'_>) -> Result<Option<Predicate>>;

/// All field operators, the most frequent ones first.
const TABLE: &[(&str, Read)] = &[
    ("$eq", |op| op.parser.equality(op.value).map(Some)),
    ("$gt", |op| op.comparison(Predicate::Gt)),
    ("$gte", |op| op.comparison(Predicate::Gte)),
    ("$lt", |op| op.comparison(Predicate::Lt)),
    ("$lte", |op| op.comparison(Predicate::Lte)),
    ("$in", |op| op.set().map(Predicate::In).map(Some)),
    ("$exists", |op| {
        Ok(Some(if is_truthy(Some(op.value)) { Predicate::Exists } else { not(Predicate::Exists) }))
    }),
    ("$ne", not_equal),
    ("$nin", |op| op.set().map(Predicate::In).map(not).map(Some)),
    ("$not", negation),
    ("$elemMatch", |op| elem_match(op.parser, op.value).map(Predicate::ElemMatch).map(Some)),
    ("$all", all),
    ("$size", size),
    ("$type", types),
    ("$regex", regex),
    ("$options", options),
    ("$mod", modulo),
    ("$bitsAllSet", |op| op.bits(BitCondition::AllSet)),
    ("$bitsAllClear", |op| op.bits(BitCondition::AllClear)),
    ("$bitsAnySet", |op| op.bits(BitCondition::AnySet)),
    ("$bitsAnyClear", |op| op.bits(BitCondition::AnyClear)),
    ("$near", near),
    ("$nearSphere", near),
    ("$geoNear", near),
    ("$geoWithin", geo),
    ("$within", geo),
    ("$geoIntersects", geo),
    ("$maxDistance", geo),
    ("$minDistance", geo),
];

/// Parses the operators in `doc`, the value of the field `field`.
pub(super) fn parse(parser: FilterParser<'_>, field: &str, doc: Doc<'_>) -> Result<Vec<Predicate>> {
    let mut predicates = Vec::new();
    for element in doc.iter() {
        let name = element.key_str();
        let Some(read) = find(name) else {
            let text = match name {
                "$where" => "$where cannot be applied to a field".to_owned(),
                _ => format!("unknown operator: {name}"),
            };
            return Err(Error::bad_value(text));
        };
        // A repeated `$regex` would parse the same siblings again.
        if name == "$regex" && predicates.iter().any(|known| matches!(known, Predicate::Regex(_))) {
            continue;
        }
        let operator = Operator { parser, field, name, value: element.value(), siblings: doc };
        predicates.extend(read(&operator)?);
    }
    Ok(predicates)
}

/// Whether `name` is a field operator.
pub(super) fn is_operator(name: &str) -> bool {
    find(name).is_some()
}

/// Rejects values that cannot be compared.
pub(super) fn comparable(value: Value<'_>) -> Result<()> {
    match value {
        Value::Undefined => Err(Error::bad_value("cannot compare to undefined")),
        _ => Ok(()),
    }
}

/// Parses the argument of `$elemMatch`.
pub(super) fn elem_match(parser: FilterParser<'_>, value: Value<'_>) -> Result<ElemMatch> {
    let Value::Document(doc) = value else {
        return Err(Error::bad_value("$elemMatch needs an Object"));
    };
    let inner = parser.inside_array()?;
    let on_value = is_operator_document(doc, true)
        && doc.iter().next().is_some_and(|first| !is_document_operator(first.key_str()));
    Ok(if on_value {
        ElemMatch::Value(parse(inner, "", doc)?)
    } else {
        ElemMatch::Object(Box::new(inner.filter(doc)?))
    })
}

fn find(name: &str) -> Option<Read> {
    TABLE.iter().find(|(known, _)| *known == name).map(|(_, read)| *read)
}

fn not(predicate: Predicate) -> Predicate {
    Predicate::Not(vec![predicate])
}

impl Operator<'_> {
    fn comparison(&self, predicate: fn(Operand) -> Predicate) -> Result<Option<Predicate>> {
        if let Value::Regex { .. } = self.value {
            return Err(Error::bad_value(format!(
                "Can't have RegEx as arg to predicate over field '{}'.",
                self.field
            )));
        }
        comparable(self.value)?;
        Ok(Some(predicate(self.parser.operand(self.value))))
    }

    fn set(&self) -> Result<ValueSet> {
        let Value::Array(array) = self.value else {
            return Err(Error::bad_value(format!("{} needs an array", self.name)));
        };
        let mut values = Vec::new();
        let mut patterns = Vec::new();
        for value in array.iter() {
            match value {
                Value::Document(doc) if is_operator_document(doc, false) => {
                    return Err(Error::bad_value("cannot nest $ under $in"));
                }
                Value::Undefined => {
                    return Err(Error::bad_value("InMatchExpression equality cannot be undefined"));
                }
                Value::Regex { pattern, options } => patterns.push(Pattern::new(pattern, options)?),
                _ => values.push(value),
            }
        }
        Ok(ValueSet::new(values, patterns, self.parser.env.context.collator.as_ref()))
    }

    fn bits(&self, condition: BitCondition) -> Result<Option<Predicate>> {
        Ok(Some(Predicate::Bits(BitTest::parse(condition, self.field, self.value)?)))
    }
}

fn not_equal(op: &Operator<'_>) -> Result<Option<Predicate>> {
    if let Value::Regex { .. } = op.value {
        return Err(Error::bad_value("Can't have regex as arg to $ne."));
    }
    Ok(Some(not(op.parser.equality(op.value)?)))
}

fn negation(op: &Operator<'_>) -> Result<Option<Predicate>> {
    match op.value {
        Value::Regex { pattern, options } => Ok(Some(not(Predicate::Regex(Pattern::new(pattern, options)?)))),
        Value::Document(doc) if doc.is_empty() => Err(Error::bad_value("$not cannot be empty")),
        Value::Document(doc) => Ok(Some(Predicate::Not(parse(op.parser.deeper()?, op.field, doc)?))),
        _ => Err(Error::bad_value("$not needs a regex or a document")),
    }
}

fn all(op: &Operator<'_>) -> Result<Option<Predicate>> {
    let Value::Array(array) = op.value else {
        return Err(Error::bad_value("$all needs an array"));
    };
    let first_name = |doc: Doc<'_>| doc.iter().next().map(|first| first.key_str().to_owned());
    let elem_matches = match array.iter().next() {
        Some(Value::Document(doc)) => first_name(doc).as_deref() == Some("$elemMatch"),
        _ => false,
    };
    let one = |value: Value<'_>| match value {
        Value::Document(doc) if elem_matches && first_name(doc).as_deref() == Some("$elemMatch") => {
            let condition = doc.get("$elemMatch").unwrap_or(Value::Null);
            elem_match(op.parser, condition).map(Predicate::ElemMatch)
        }
        _ if elem_matches => Err(Error::bad_value("$all/$elemMatch has to be consistent")),
        Value::Document(doc) if first_name(doc).is_some_and(|name| is_operator(&name)) => {
            Err(Error::bad_value("no $ expressions in $all"))
        }
        Value::Regex { pattern, options } => Pattern::new(pattern, options).map(Predicate::Regex),
        _ => op.parser.equality(value),
    };
    Ok(Some(Predicate::All(array.iter().map(one).collect::<Result<_>>()?)))
}

fn size(op: &Operator<'_>) -> Result<Option<Predicate>> {
    let reject = |reason: String| Error::bad_value(format!("Failed to parse $size. {reason}"));
    let size = integer::non_negative(op.name, op.value).map_err(reject)?;
    match u32::try_from(size) {
        Ok(size) if size <= i32::MAX.unsigned_abs() => Ok(Some(Predicate::Size(size))),
        _ => Err(reject(format!("Cannot represent {}: {} in an int", op.name, Shown(op.value)))),
    }
}

fn types(op: &Operator<'_>) -> Result<Option<Predicate>> {
    let types = TypeSet::parse(op.value)?;
    if types.is_empty() {
        return Err(Error::failed_to_parse(format!("{} must match at least one type", op.field)));
    }
    Ok(Some(Predicate::Type(types)))
}

/// Parses `$regex` together with its sibling `$options`.
fn regex(op: &Operator<'_>) -> Result<Option<Predicate>> {
    let mut source = "";
    let mut flags = "";
    for element in op.siblings.iter() {
        match (element.key_str(), element.value()) {
            ("$regex", Value::String(text)) => source = text,
            ("$regex", Value::Regex { pattern, options }) => {
                source = pattern;
                if !options.is_empty() {
                    if !flags.is_empty() {
                        return Err(Error::new(51074, "options set in both $regex and $options"));
                    }
                    flags = options;
                }
            }
            ("$regex", _) => return Err(Error::bad_value("$regex has to be a string")),
            ("$options", Value::String(text)) => {
                if !flags.is_empty() {
                    return Err(Error::new(51075, "options set in both $regex and $options"));
                }
                flags = text;
            }
            ("$options", _) => return Err(Error::bad_value("$options has to be a string")),
            _ => {}
        }
    }
    Ok(Some(Predicate::Regex(Pattern::new(source, flags)?)))
}

fn options(op: &Operator<'_>) -> Result<Option<Predicate>> {
    if op.siblings.contains_key("$regex") {
        return Ok(None);
    }
    Err(Error::bad_value("$options needs a $regex"))
}

fn modulo(op: &Operator<'_>) -> Result<Option<Predicate>> {
    let malformed = |what: &str| Error::bad_value(format!("malformed mod, {what}"));
    let Value::Array(array) = op.value else { return Err(malformed("needs to be an array")) };
    let (divisor, remainder) = two(array, malformed)?;
    let number = |what: &str, value: Value<'_>| {
        if !value.is_number() {
            return Err(malformed(&format!("{what} not a number")));
        }
        integer::truncate(value).ok_or_else(|| {
            let finite = !integer::is_nan_or_infinite(value);
            let cause = if finite {
                "Out of bounds coercing to integral value"
            } else {
                "Unable to coerce NaN/Inf to integral type"
            };
            malformed(&format!("{what} value is invalid :: caused by :: {cause}"))
        })
    };
    let divisor = number("divisor", divisor)?;
    let remainder = number("remainder", remainder)?;
    if divisor == 0 {
        return Err(Error::bad_value("divisor cannot be 0"));
    }
    Ok(Some(Predicate::Mod { divisor, remainder }))
}

fn two<'a>(array: Array<'a>, malformed: impl Fn(&str) -> Error) -> Result<(Value<'a>, Value<'a>)> {
    let mut values = array.iter();
    match (values.next(), values.next(), values.next()) {
        (Some(first), Some(second), None) => Ok((first, second)),
        (_, None, _) | (None, ..) => Err(malformed("not enough elements")),
        _ => Err(malformed("too many elements")),
    }
}

fn near(op: &Operator<'_>) -> Result<Option<Predicate>> {
    if op.parser.nested {
        let text = "$geoNear, $near, and $nearSphere are not allowed in this context";
        return Err(Error::bad_value(text));
    }
    // Collections have no geospatial indexes.
    Err(Error::new(code::NO_QUERY_EXECUTION_PLANS, "unable to find index for $geoNear query"))
}

fn geo(op: &Operator<'_>) -> Result<Option<Predicate>> {
    Err(Error::new(code::NOT_IMPLEMENTED, format!("{} is not supported", op.name)))
}
