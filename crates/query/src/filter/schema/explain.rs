//! Reports the rules that a document fails: the `details` of a failed validation.

use super::check::{depends, duplicate, first_failing_item, is_additional, keeps, satisfies};
use super::{Additional, Demand, Dependency, Rule, Schema};
use crate::error::Result;
use crate::filter::explain::{append_considered, append_specified};
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Value};

/// The details for a whole document.
pub(super) fn document(schema: &Schema, doc: Doc<'_>) -> Result<DocBuf> {
    let mut builder = DocBuilder::new();
    builder.append("operatorName", "$jsonSchema");
    annotate(schema, &mut builder);
    builder.append("schemaRulesNotSatisfied", broken_rules(schema, Value::Document(doc))?);
    Ok(builder.finish())
}

/// Adds the schema's title and description.
fn annotate(schema: &Schema, builder: &mut DocBuilder) {
    for (name, text) in [("title", &schema.title), ("description", &schema.description)] {
        if let Some(text) = text {
            builder.append(name, text);
        }
    }
}

/// The details of every rule that a value fails.
fn broken_rules(schema: &Schema, value: Value<'_>) -> Result<ArrayBuilder> {
    let mut broken = ArrayBuilder::new();
    for rule in &schema.rules {
        if !keeps(rule, value)? {
            broken.push(broken_rule(schema, rule, value)?);
        }
    }
    Ok(broken)
}

/// The details of one rule that a value fails.
fn broken_rule(schema: &Schema, rule: &Rule, value: Value<'_>) -> Result<DocBuf> {
    let mut builder = DocBuilder::new();
    builder.append("operatorName", rule.keyword);
    match (&rule.demand, value) {
        (Demand::Properties(schemas), Value::Document(doc)) => {
            let mut failing = ArrayBuilder::new();
            for (name, inner) in schemas {
                if let Some(value) = doc.get(name)
                    && !satisfies(inner, value)?
                {
                    failing.push(failing_property(name, inner, value)?);
                }
            }
            builder.append("propertiesNotSatisfied", failing);
        }
        (Demand::PatternProperties(schemas), Value::Document(doc)) => {
            let mut failing = ArrayBuilder::new();
            for element in doc.iter() {
                for (pattern, inner) in schemas {
                    let (name, value) = (element.key_str(), element.value());
                    if pattern.is_match(name)? && !satisfies(inner, value)? {
                        let mut one = DocBuilder::new();
                        one.append("propertyName", name);
                        annotate(inner, &mut one);
                        one.append("regexMatched", pattern.source());
                        one.append("details", broken_rules(inner, value)?);
                        failing.push(one.finish());
                    }
                }
            }
            builder.append("details", failing);
        }
        // Like MongoDB, lists all names that are not allowed, but only the first property that fails a subschema.
        (Demand::AdditionalProperties { named, patterns, allowed }, Value::Document(doc)) => match allowed {
            Additional::Nothing => {
                let mut names = ArrayBuilder::new();
                for element in doc.iter() {
                    if is_additional(element.key_str(), named, patterns)? {
                        names.push(element.key_str());
                    }
                }
                specify(schema, rule, &mut builder);
                builder.append("additionalProperties", names);
            }
            Additional::Matching(inner) => {
                builder.append("reason", "at least one additional property did not match the subschema");
                for element in doc.iter() {
                    let (name, value) = (element.key_str(), element.value());
                    if is_additional(name, named, patterns)? && !satisfies(inner, value)? {
                        builder.append("failingProperty", name);
                        builder.append("details", broken_rules(inner, value)?);
                        break;
                    }
                }
            }
        },
        (Demand::Required(names), Value::Document(doc)) => {
            specify(schema, rule, &mut builder);
            let mut missing = ArrayBuilder::new();
            for name in names.iter().filter(|name| !doc.contains_key(name)) {
                missing.push(name);
            }
            builder.append("missingProperties", missing);
        }
        (Demand::Dependencies(dependencies), Value::Document(doc)) => {
            builder.append("failingDependencies", failing_dependencies(dependencies, doc)?);
        }
        (Demand::MinProperties(_) | Demand::MaxProperties(_), Value::Document(doc)) => {
            specify(schema, rule, &mut builder);
            builder.append("reason", "specified number of properties was not satisfied");
            builder.append("numberOfProperties", doc.count() as i64);
        }
        (Demand::Items(inner), Value::Array(array)) => {
            if let Some((index, item)) = first_failing_item(inner, array, 0)? {
                builder.append("reason", "At least one item did not match the sub-schema");
                append_item(index, inner, item, &mut builder)?;
            }
        }
        (Demand::ItemsInOrder(schemas), Value::Array(array)) => {
            let mut failing = ArrayBuilder::new();
            for (index, (inner, item)) in schemas.iter().zip(array.iter()).enumerate() {
                if !satisfies(inner, item)? {
                    let mut one = DocBuilder::new();
                    append_item(index, inner, item, &mut one)?;
                    failing.push(one.finish());
                }
            }
            builder.append("details", failing);
        }
        (Demand::AdditionalItems { from, allowed: Additional::Nothing }, Value::Array(array)) => {
            specify(schema, rule, &mut builder);
            builder.append("reason", "found additional items");
            let mut items = ArrayBuilder::new();
            for item in array.iter().skip(*from) {
                items.push(item);
            }
            builder.append("additionalItems", items);
        }
        (Demand::AdditionalItems { from, allowed: Additional::Matching(inner) }, Value::Array(array)) => {
            if let Some((index, item)) = first_failing_item(inner, array, *from)? {
                builder.append("reason", "At least one additional item did not match the sub-schema");
                append_item(index, inner, item, &mut builder)?;
            }
        }
        (Demand::AllOf(schemas) | Demand::AnyOf(schemas), _) => {
            builder.append("schemasNotSatisfied", failing_schemas(schemas, value)?);
        }
        (Demand::OneOf(schemas), _) => {
            let mut matching = ArrayBuilder::new();
            for (index, inner) in schemas.iter().enumerate() {
                if satisfies(inner, value)? {
                    matching.push(index as i32);
                }
            }
            if matching.is_empty() {
                builder.append("schemasNotSatisfied", failing_schemas(schemas, value)?);
            } else {
                builder.append("reason", "more than one subschema matched");
                builder.append("matchingSchemaIndexes", matching);
            }
        }
        (Demand::Not(_), _) => {
            builder.append("reason", "child expression matched");
        }
        // All other rules are about the value itself: MongoDB reports the rule, a reason and the value.
        _ => {
            specify(schema, rule, &mut builder);
            builder.append("reason", reason(&rule.demand));
            append_considered("consideredValue", value, &mut builder);
            match (&rule.demand, value) {
                (Demand::Type(_), _) => {
                    builder.append("consideredType", value.tag().alias());
                }
                (Demand::UniqueItems, Value::Array(array)) => {
                    if let Some(item) = duplicate(array) {
                        append_considered("duplicatedValue", item, &mut builder);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(builder.finish())
}

/// The reason text for a rule about the value itself.
fn reason(demand: &Demand) -> &'static str {
    match demand {
        Demand::Type(_) => "type did not match",
        Demand::Enum(_) => "value was not found in enum",
        Demand::Minimum { .. } | Demand::Maximum { .. } => "comparison failed",
        Demand::MultipleOf(_) => "considered value is not a multiple of the specified value",
        Demand::MinLength(_) | Demand::MaxLength(_) => "specified string length was not satisfied",
        Demand::Pattern(_) => "regular expression did not match",
        Demand::MinItems(_) | Demand::MaxItems(_) => "array did not match specified length",
        Demand::UniqueItems => "found a duplicate item",
        _ => "schema was not satisfied",
    }
}

/// Adds the keyword as written in the schema, with the keyword that modifies it.
fn specify(schema: &Schema, rule: &Rule, builder: &mut DocBuilder) {
    let exclusive = match rule.keyword {
        "minimum" => "exclusiveMinimum",
        "maximum" => "exclusiveMaximum",
        _ => "",
    };
    let mut specified = DocBuilder::new();
    for name in [rule.keyword, exclusive] {
        if let Some(value) = schema.source().get(name) {
            specified.append(name, value);
        }
    }
    append_specified(specified.finish().as_doc(), builder);
}

fn failing_property(name: &str, schema: &Schema, value: Value<'_>) -> Result<DocBuf> {
    let mut builder = DocBuilder::new();
    builder.append("propertyName", name);
    annotate(schema, &mut builder);
    builder.append("details", broken_rules(schema, value)?);
    Ok(builder.finish())
}

fn append_item(index: usize, schema: &Schema, item: Value<'_>, builder: &mut DocBuilder) -> Result<()> {
    builder.append("itemIndex", index as i32);
    annotate(schema, builder);
    builder.append("details", broken_rules(schema, item)?);
    Ok(())
}

fn failing_schemas(schemas: &[Schema], value: Value<'_>) -> Result<ArrayBuilder> {
    let mut failing = ArrayBuilder::new();
    for (index, schema) in schemas.iter().enumerate() {
        if !satisfies(schema, value)? {
            let mut one = DocBuilder::new();
            one.append("index", index as i32);
            annotate(schema, &mut one);
            one.append("details", broken_rules(schema, value)?);
            failing.push(one.finish());
        }
    }
    Ok(failing)
}

fn failing_dependencies(dependencies: &[(String, Dependency)], doc: Doc<'_>) -> Result<ArrayBuilder> {
    let mut failing = ArrayBuilder::new();
    for (name, dependency) in dependencies {
        if !doc.contains_key(name) || depends(dependency, doc)? {
            continue;
        }
        let mut one = DocBuilder::new();
        one.append("conditionalProperty", name);
        match dependency {
            Dependency::Properties(names) => {
                let mut missing = ArrayBuilder::new();
                for name in names.iter().filter(|name| !doc.contains_key(name)) {
                    missing.push(name);
                }
                one.append("missingProperties", missing);
            }
            Dependency::Schema(schema) => {
                one.append("details", broken_rules(schema, Value::Document(doc))?);
            }
        }
        failing.push(one.finish());
    }
    Ok(failing)
}
