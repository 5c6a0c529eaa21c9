//! Conditions on a bare value, for `$pull`.

use super::parse::FilterParser;
use super::predicate::{Predicate, all};
use super::{Filter, FilterEnv, Operand, operators};
use crate::error::Result;
use diwan_value::{Array, ArrayBuilder, Doc, RawValue, Type, Value};

/// A condition on a value, as in `$pull`.
#[derive(Clone, Debug)]
pub enum ValueFilter {
    /// The value equals the constant; arrays are compared as a whole: `{$pull: {a: 5}}`.
    Equals(Operand),
    /// The value is a document that matches a filter: `{$pull: {a: {b: 5}}}`.
    Document(Box<Filter>),
    /// The value, or one of its elements if it is an array, satisfies all predicates: `{$pull: {a: {$gt: 5}}}`.
    Predicates(Vec<Predicate>),
}

impl ValueFilter {
    /// Parses a condition.
    pub fn parse(value: Value<'_>, env: &FilterEnv<'_>) -> Result<ValueFilter> {
        let parser = FilterParser::new(env).inside_array()?;
        Ok(match value {
            Value::Document(doc) if begins_with_operator(doc) => {
                ValueFilter::Predicates(operators::parse(parser, "", doc)?)
            }
            Value::Document(doc) => ValueFilter::Document(Box::new(parser.filter(doc)?)),
            Value::Regex { .. } => ValueFilter::Predicates(parser.field("", value)?),
            _ => ValueFilter::Equals(parser.operand(value)),
        })
    }

    /// Whether a value satisfies the condition.
    pub fn matches(&self, value: Value<'_>) -> Result<bool> {
        if let (ValueFilter::Document(filter), Value::Document(doc)) = (self, value) {
            return filter.matches(doc);
        }
        let mut holder = ArrayBuilder::new();
        holder.push(value);
        let bytes = holder.finish();
        match Array::trusted(&bytes).elements().next() {
            Some(element) => self.matches_raw(element.raw),
            None => Ok(false),
        }
    }

    /// Whether a value inside a document satisfies the condition.
    pub(crate) fn matches_raw(&self, raw: RawValue<'_>) -> Result<bool> {
        match self {
            ValueFilter::Equals(operand) => Ok(operand.equals(Some(raw))),
            ValueFilter::Document(filter) if raw.tag == Type::Document => {
                filter.matches(Doc::trusted(raw.bytes))
            }
            ValueFilter::Document(_) => Ok(false),
            ValueFilter::Predicates(predicates) => {
                all(predicates, |predicate| predicate.at_end_of_path(Some(raw)))
            }
        }
    }
}

fn begins_with_operator(doc: Doc<'_>) -> bool {
    doc.iter().next().is_some_and(|first| operators::is_operator(first.key_str()))
}
