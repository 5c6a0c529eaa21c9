//! Writes filters as documents with every operator spelled out: the `parsedQuery` of `explain`.

use super::elem_match::ElemMatch;
use super::predicate::Predicate;
use super::regex::Pattern;
use super::set::ValueSet;
use super::{Filter, PathFilter};
use diwan_value::{ArrayBuilder, DocBuf, DocBuilder, Value, array, doc};

impl Filter {
    /// A document that parses to this filter.
    pub fn to_doc(&self) -> DocBuf {
        match self {
            Filter::AlwaysTrue => DocBuf::new(),
            Filter::AlwaysFalse => doc! { "$alwaysFalse": 1 },
            Filter::And(conjunction) => list("$and", conjunction.children()),
            Filter::Or(children) => list("$or", children),
            Filter::Nor(children) => list("$nor", children),
            Filter::Path(filter) => filter.to_doc(),
            Filter::Expr(expr) => doc! { "$expr": expr.source() },
            Filter::JsonSchema(schema) => doc! { "$jsonSchema": schema.source() },
            Filter::SampleRate(rate) => doc! { "$sampleRate": *rate },
        }
    }
}

impl PathFilter {
    /// The condition and its path.
    pub(super) fn to_doc(&self) -> DocBuf {
        let mut builder = DocBuilder::new();
        match self.predicate.as_ref() {
            Predicate::Mango(condition) => builder.append("$mango", condition.to_doc(&self.path)),
            // The members of a DBRef take no operators.
            Predicate::Eq(operand) if self.path.as_str().starts_with('$') => {
                builder.append(self.path.as_str(), operand.value())
            }
            predicate => builder.append(self.path.as_str(), operators([predicate])),
        };
        builder.finish()
    }
}

fn list(name: &str, children: &[Filter]) -> DocBuf {
    let mut array = ArrayBuilder::new();
    for child in children {
        array.push(child.to_doc());
    }
    let mut builder = DocBuilder::new();
    builder.append(name, array);
    builder.finish()
}

/// Writes predicates side by side in an operator document.
fn operators<'p>(predicates: impl IntoIterator<Item = &'p Predicate>) -> DocBuf {
    let mut builder = DocBuilder::new();
    for predicate in predicates {
        operator(predicate, &mut builder);
    }
    builder.finish()
}

fn operator(predicate: &Predicate, builder: &mut DocBuilder) {
    let name = predicate.operator();
    match predicate {
        Predicate::Eq(operand)
        | Predicate::Lt(operand)
        | Predicate::Lte(operand)
        | Predicate::Gt(operand)
        | Predicate::Gte(operand) => builder.append(name, operand.value()),
        Predicate::In(set) => builder.append(name, set_values(set)),
        Predicate::Exists => builder.append(name, true),
        Predicate::Type(types) => {
            let mut numbers = ArrayBuilder::new();
            for tag in types.types() {
                numbers.push(if tag == diwan_value::Type::MinKey { -1 } else { i32::from(tag as u8) });
            }
            builder.append(name, numbers)
        }
        Predicate::Mod { divisor, remainder } => builder.append(name, array![*divisor, *remainder]),
        Predicate::Regex(pattern) => regex(pattern, builder),
        Predicate::All(inner) => {
            let mut values = ArrayBuilder::new();
            for predicate in inner {
                match predicate {
                    Predicate::Eq(operand) => values.push(operand.value()),
                    Predicate::Regex(pattern) => values.push(regex_value(pattern)),
                    other => values.push(operators([other])),
                };
            }
            builder.append(name, values)
        }
        Predicate::ElemMatch(ElemMatch::Object(filter)) => builder.append(name, filter.to_doc()),
        Predicate::ElemMatch(ElemMatch::Value(inner)) => builder.append(name, operators(inner)),
        Predicate::Size(size) => builder.append(name, i64::from(*size)),
        Predicate::Bits(test) => {
            let mut positions = ArrayBuilder::new();
            for position in test.positions() {
                positions.push(i64::from(*position));
            }
            builder.append(name, positions)
        }
        Predicate::Not(inner) => match inner.as_slice() {
            // `$ne` does not accept a regular expression.
            [Predicate::Eq(operand)] if matches!(operand.value(), Value::Regex { .. }) => {
                builder.append("$not", operators(inner))
            }
            [Predicate::Eq(operand)] => builder.append(name, operand.value()),
            [Predicate::In(set)] => builder.append(name, set_values(set)),
            [Predicate::Exists] => builder.append(name, false),
            _ => builder.append(name, operators(inner)),
        },
        // A selector's condition always has a whole document and no path.
        Predicate::Mango(_) => builder,
    };
}

fn set_values(set: &ValueSet) -> ArrayBuilder {
    let mut values = ArrayBuilder::new();
    for value in set.values() {
        values.push(value.value());
    }
    for pattern in set.patterns() {
        values.push(regex_value(pattern));
    }
    values
}

fn regex_value(pattern: &Pattern) -> Value<'_> {
    Value::Regex { pattern: pattern.source(), options: pattern.options() }
}

fn regex<'b>(pattern: &Pattern, builder: &'b mut DocBuilder) -> &'b mut DocBuilder {
    builder.append("$regex", pattern.source());
    if !pattern.options().is_empty() {
        builder.append("$options", pattern.options());
    }
    builder
}
