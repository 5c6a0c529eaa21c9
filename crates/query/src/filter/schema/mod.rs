//! `$jsonSchema`: JSON Schema draft 4 with MongoDB's `bsonType`, as a filter and as a collection's validator.
//!
//! A schema is a list of rules, one for each keyword; a value must satisfy all of them. A rule about one type accepts
//! values of all other types. [`parse`] parses schemas, [`check`] applies them, and [`explain`] reports the rules that
//! a value fails.

mod check;
mod explain;
mod parse;
#[cfg(test)]
mod tests;

use super::operand::Operand;
use super::regex::Pattern;
use super::type_set::TypeSet;
use crate::error::Result;
use diwan_value::{Doc, DocBuf, Value, ValueBuf};

/// A parsed schema.
#[derive(Clone, Debug)]
pub struct Schema {
    source: DocBuf,
    title: Option<String>,
    description: Option<String>,
    rules: Vec<Rule>,
}

/// The rule of one keyword.
#[derive(Clone, Debug)]
struct Rule {
    keyword: &'static str,
    demand: Demand,
}

/// The condition of one keyword.
#[derive(Clone, Debug)]
enum Demand {
    Type(TypeSet),
    Enum(Vec<ValueBuf>),
    Minimum {
        bound: Operand,
        exclusive: bool,
    },
    Maximum {
        bound: Operand,
        exclusive: bool,
    },
    MultipleOf(ValueBuf),
    MinLength(u64),
    MaxLength(u64),
    Pattern(Pattern),
    MinItems(u64),
    MaxItems(u64),
    UniqueItems,
    /// One schema for all items.
    Items(Schema),
    /// One schema for each of the first items.
    ItemsInOrder(Vec<Schema>),
    AdditionalItems {
        from: usize,
        allowed: Additional,
    },
    Required(Vec<String>),
    Properties(Vec<(String, Schema)>),
    PatternProperties(Vec<(Pattern, Schema)>),
    AdditionalProperties {
        named: Vec<String>,
        patterns: Vec<Pattern>,
        allowed: Additional,
    },
    MinProperties(u64),
    MaxProperties(u64),
    Dependencies(Vec<(String, Dependency)>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
}

/// Which items or properties are allowed beyond those that the schema names.
#[derive(Clone, Debug)]
enum Additional {
    Nothing,
    Matching(Box<Schema>),
}

/// What the presence of a property requires of the object.
#[derive(Clone, Debug)]
enum Dependency {
    Properties(Vec<String>),
    Schema(Box<Schema>),
}

impl Schema {
    /// Parses a schema.
    pub fn parse(doc: Doc<'_>) -> Result<Schema> {
        parse::schema(doc)
    }

    /// The schema as the user wrote it.
    pub fn source(&self) -> Doc<'_> {
        self.source.as_doc()
    }

    /// Whether a document satisfies the schema.
    pub fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        check::satisfies(self, Value::Document(doc))
    }

    /// Explains why a document fails the schema: the `errInfo.details` of a failed validation.
    pub fn explain(&self, doc: Doc<'_>) -> Result<DocBuf> {
        explain::document(self, doc)
    }
}
