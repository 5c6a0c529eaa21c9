//! Parses schemas, with MongoDB's checks of every keyword.

use super::check::same;
use super::{Additional, Demand, Dependency, Rule, Schema};
use crate::error::{Error, Result};
use crate::filter::integer;
use crate::filter::operand::Operand;
use crate::filter::regex::Pattern;
use crate::filter::type_set::TypeSet;
use diwan_value::{Array, Doc, Value, ValueBuf, compare};

/// JSON Schema keywords that MongoDB rejects.
const UNSUPPORTED: [&str; 6] = ["$ref", "$schema", "default", "definitions", "format", "id"];

/// The keywords of client-side encryption.
const ENCRYPTION: [&str; 4] = ["encrypt", "encryptMetadata", "keyId", "algorithm"];

/// Parses a keyword, given the schema around it. `None` means that the keyword adds no condition.
type Read = fn(&Keyword<'_>) -> Result<Option<Demand>>;

/// The keywords that are rules, in the order in which violations are reported.
const RULES: &[(&str, Read)] = &[
    ("type", |keyword| keyword.types().map(Demand::Type).map(Some)),
    ("bsonType", |keyword| keyword.types().map(Demand::Type).map(Some)),
    ("pattern", |keyword| Ok(Some(Demand::Pattern(Pattern::new(keyword.string("a string")?, "")?)))),
    ("maxLength", |keyword| keyword.length().map(Demand::MaxLength).map(Some)),
    ("minLength", |keyword| keyword.length().map(Demand::MinLength).map(Some)),
    ("multipleOf", multiple_of),
    ("maximum", |keyword| {
        let exclusive = keyword.flag_beside("exclusiveMaximum")?;
        Ok(Some(Demand::Maximum { bound: keyword.number()?, exclusive }))
    }),
    ("minimum", |keyword| {
        let exclusive = keyword.flag_beside("exclusiveMinimum")?;
        Ok(Some(Demand::Minimum { bound: keyword.number()?, exclusive }))
    }),
    ("exclusiveMaximum", |keyword| keyword.needs("maximum")),
    ("exclusiveMinimum", |keyword| keyword.needs("minimum")),
    ("minItems", |keyword| keyword.length().map(Demand::MinItems).map(Some)),
    ("maxItems", |keyword| keyword.length().map(Demand::MaxItems).map(Some)),
    ("uniqueItems", |keyword| Ok(keyword.flag()?.then_some(Demand::UniqueItems))),
    ("items", items),
    ("additionalItems", additional_items),
    ("properties", |keyword| keyword.schemas_by_name().map(Demand::Properties).map(Some)),
    ("patternProperties", pattern_properties),
    ("additionalProperties", additional_properties),
    ("required", required),
    ("minProperties", |keyword| keyword.length().map(Demand::MinProperties).map(Some)),
    ("maxProperties", |keyword| keyword.length().map(Demand::MaxProperties).map(Some)),
    ("dependencies", dependencies),
    ("allOf", |keyword| keyword.schemas().map(Demand::AllOf).map(Some)),
    ("anyOf", |keyword| keyword.schemas().map(Demand::AnyOf).map(Some)),
    ("oneOf", |keyword| keyword.schemas().map(Demand::OneOf).map(Some)),
    ("not", |keyword| match keyword.value {
        Value::Document(doc) => Ok(Some(Demand::Not(Box::new(schema(doc)?)))),
        other => Err(keyword
            .mismatch(&format!("must be an object, but found an element of type {}", other.tag().alias()))),
    }),
    ("enum", enumeration),
];

/// A keyword and the schema that contains it.
struct Keyword<'a> {
    name: &'static str,
    value: Value<'a>,
    schema: Doc<'a>,
}

/// Parses a schema. The document's nesting limit bounds its depth.
pub(super) fn schema(doc: Doc<'_>) -> Result<Schema> {
    let mut seen = Vec::new();
    for element in doc.iter() {
        let name = element.key_str();
        if UNSUPPORTED.contains(&name) || ENCRYPTION.contains(&name) {
            return Err(Error::failed_to_parse(format!(
                "$jsonSchema keyword '{name}' is not currently supported"
            )));
        }
        if !matches!(name, "title" | "description") && !RULES.iter().any(|(known, _)| *known == name) {
            return Err(Error::failed_to_parse(format!("Unknown $jsonSchema keyword: {name}")));
        }
        if seen.contains(&name) {
            return Err(Error::failed_to_parse(format!("Duplicate $jsonSchema keyword: {name}")));
        }
        seen.push(name);
    }
    if doc.contains_key("type") && doc.contains_key("bsonType") {
        return Err(Error::failed_to_parse("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'"));
    }
    let description = text(doc, "description")?;
    let title = text(doc, "title")?;
    let mut rules = Vec::new();
    for (name, read) in RULES {
        if let Some(value) = doc.get(name)
            && let Some(demand) = read(&Keyword { name, value, schema: doc })?
        {
            rules.push(Rule { keyword: name, demand });
        }
    }
    Ok(Schema { source: doc.to_owned(), title, description, rules })
}

fn text(doc: Doc<'_>, name: &str) -> Result<Option<String>> {
    match doc.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.to_owned())),
        Some(_) => Err(Error::type_mismatch(format!("$jsonSchema keyword '{name}' must be of type string"))),
    }
}

impl<'a> Keyword<'a> {
    fn message(&self, what: &str) -> String {
        format!("$jsonSchema keyword '{}' {what}", self.name)
    }

    fn mismatch(&self, what: &str) -> Error {
        Error::type_mismatch(self.message(what))
    }

    fn invalid(&self, what: &str) -> Error {
        Error::failed_to_parse(self.message(what))
    }

    fn types(&self) -> Result<TypeSet> {
        TypeSet::parse_schema_keyword(self.name, self.value)
    }

    fn string(&self, what: &str) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.mismatch(&format!("must be {what}")))
    }

    fn flag(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.mismatch("must be a boolean"))
    }

    /// A boolean keyword that modifies this one.
    fn flag_beside(&self, name: &'static str) -> Result<bool> {
        match self.schema.get(name) {
            None => Ok(false),
            Some(value) => Keyword { name, value, schema: self.schema }.flag(),
        }
    }

    /// Checks a keyword that only modifies another one.
    fn needs(&self, other: &str) -> Result<Option<Demand>> {
        if self.schema.contains_key(other) {
            return Ok(None);
        }
        Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{other}' must be a present if {} is present",
            self.name
        )))
    }

    fn length(&self) -> Result<u64> {
        let length = integer::non_negative(self.name, self.value).map_err(Error::failed_to_parse)?;
        Ok(length.unsigned_abs())
    }

    fn number(&self) -> Result<Operand> {
        if self.value.is_number() {
            Ok(Operand::new(self.value, None))
        } else {
            Err(self.mismatch("must be a number"))
        }
    }

    fn array(&self) -> Result<Array<'a>> {
        let kind = self.value.tag().alias();
        let wrong = || self.mismatch(&format!("must be an array, but found an element of type {kind}"));
        self.value.as_array().ok_or_else(wrong)
    }

    /// Parses the schemas of `allOf`, `anyOf`, `oneOf`.
    fn schemas(&self) -> Result<Vec<Schema>> {
        let array = self.value.as_array().ok_or_else(|| self.mismatch("must be an array"))?;
        if array.is_empty() {
            return Err(Error::bad_value(self.message("must be a non-empty array")));
        }
        let one = |value: Value<'_>| match value {
            Value::Document(doc) => schema(doc),
            other => {
                let kind = other.tag().alias();
                Err(self
                    .mismatch(&format!("must be an array of objects, but found an element of type {kind}")))
            }
        };
        array.iter().map(one).collect()
    }

    fn schemas_by_name(&self) -> Result<Vec<(String, Schema)>> {
        let doc = self.value.as_doc().ok_or_else(|| self.mismatch("must be an object"))?;
        let mut schemas = Vec::new();
        for element in doc.iter() {
            let name = element.key_str();
            let Value::Document(inner) = element.value() else {
                let text = match self.name {
                    "patternProperties" => {
                        self.message(&format!("has property '{name}' which is not an object"))
                    }
                    _ => format!("Nested schema for $jsonSchema property '{name}' must be an object"),
                };
                return Err(Error::type_mismatch(text));
            };
            schemas.push((name.to_owned(), schema(inner)?));
        }
        Ok(schemas)
    }
}

fn multiple_of(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    keyword.number()?;
    if compare(keyword.value, Value::Int32(0)).is_le() {
        return Err(keyword.invalid("must have a positive value"));
    }
    Ok(Some(Demand::MultipleOf(ValueBuf::new(keyword.value))))
}

fn items(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    match keyword.value {
        Value::Document(doc) => Ok(Some(Demand::Items(schema(doc)?))),
        Value::Array(array) => {
            let one = |value: Value<'_>| match value {
                Value::Document(doc) => schema(doc),
                other => {
                    let kind = other.tag().alias();
                    let text =
                        format!("requires that each element of the array is an object, but found a {kind}");
                    Err(keyword.mismatch(&text))
                }
            };
            Ok(Some(Demand::ItemsInOrder(array.iter().map(one).collect::<Result<_>>()?)))
        }
        other => {
            let kind = other.tag().alias();
            Err(keyword.mismatch(&format!("must be an array or an object, not {kind}")))
        }
    }
}

fn additional_items(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    let allowed = match keyword.value {
        Value::Boolean(true) => None,
        Value::Boolean(false) => Some(Additional::Nothing),
        Value::Document(doc) => Some(Additional::Matching(Box::new(schema(doc)?))),
        other => {
            let kind = other.tag().alias();
            return Err(keyword.mismatch(&format!("must be either an object or a boolean, but got a {kind}")));
        }
    };
    // Without a list of `items`, no item is additional.
    let from = keyword.schema.get_array("items").map(Array::count);
    Ok(allowed.zip(from).map(|(allowed, from)| Demand::AdditionalItems { from, allowed }))
}

fn pattern_properties(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    let schemas = keyword.schemas_by_name()?;
    let patterns = schemas.into_iter().map(|(source, schema)| Ok((Pattern::new(&source, "")?, schema)));
    Ok(Some(Demand::PatternProperties(patterns.collect::<Result<_>>()?)))
}

fn additional_properties(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    let allowed = match keyword.value {
        Value::Boolean(true) => return Ok(None),
        Value::Boolean(false) => Additional::Nothing,
        Value::Document(doc) => Additional::Matching(Box::new(schema(doc)?)),
        _ => return Err(keyword.mismatch("must be an object or a boolean")),
    };
    let names = |name: &str| {
        let doc = keyword.schema.get_doc(name).unwrap_or(Doc::EMPTY);
        doc.iter().map(|element| element.key_str().to_owned()).collect::<Vec<_>>()
    };
    let patterns =
        names("patternProperties").iter().map(|source| Pattern::new(source, "")).collect::<Result<_>>()?;
    Ok(Some(Demand::AdditionalProperties { named: names("properties"), patterns, allowed }))
}

fn required(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    let mut names: Vec<String> = Vec::new();
    for value in keyword.array()?.iter() {
        let Value::String(name) = value else {
            let kind = value.tag().alias();
            let text = format!("must be an array of strings, but found an element of type: {kind}");
            return Err(keyword.mismatch(&text));
        };
        names.push(name.to_owned());
    }
    if names.is_empty() {
        return Err(keyword.invalid("cannot be an empty array"));
    }
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        return Err(keyword.invalid("array cannot contain duplicate values"));
    }
    names.sort();
    Ok(Some(Demand::Required(names)))
}

fn dependencies(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    let doc = keyword.value.as_doc().ok_or_else(|| keyword.mismatch("must be an object"))?;
    let mut dependencies = Vec::new();
    for element in doc.iter() {
        let name = element.key_str();
        let dependency = match element.value() {
            Value::Document(inner) => Dependency::Schema(Box::new(schema(inner)?)),
            Value::Array(list) => Dependency::Properties(dependent_properties(name, list)?),
            _ => {
                return Err(Error::type_mismatch(format!(
                    "property '{name}' in $jsonSchema keyword 'dependencies' must be either an object or an array"
                )));
            }
        };
        dependencies.push((name.to_owned(), dependency));
    }
    Ok(Some(Demand::Dependencies(dependencies)))
}

fn dependent_properties(name: &str, list: Array<'_>) -> Result<Vec<String>> {
    if list.is_empty() {
        return Err(Error::failed_to_parse(format!(
            "property '{name}' in $jsonSchema keyword 'dependencies' cannot be an empty array"
        )));
    }
    let mut names: Vec<String> = Vec::new();
    for value in list.iter() {
        let Value::String(property) = value else {
            return Err(Error::type_mismatch(format!(
                "array '{name}' in $jsonSchema keyword 'dependencies' can only contain strings, but found element of \
                 type: {}",
                value.tag().alias()
            )));
        };
        if names.iter().any(|known| known == property) {
            return Err(Error::failed_to_parse(format!(
                "array '{name}' in $jsonSchema keyword 'dependencies' contains duplicate element: {property}"
            )));
        }
        names.push(property.to_owned());
    }
    Ok(names)
}

fn enumeration(keyword: &Keyword<'_>) -> Result<Option<Demand>> {
    let array = keyword.array()?;
    if array.is_empty() {
        return Err(keyword.invalid("cannot be an empty array"));
    }
    let mut values: Vec<ValueBuf> = Vec::new();
    for value in array.iter() {
        if values.iter().any(|known| same(known.as_value(), value)) {
            return Err(keyword.invalid("array cannot contain duplicate values."));
        }
        values.push(ValueBuf::new(value));
    }
    Ok(Some(Demand::Enum(values)))
}
