//! Operators over objects: `$mergeObjects`, `$getField`, `$setField`, `$unsetField`, and the conversions between
//! objects and arrays.

pub(super) mod array_object;

use crate::error::{Error, Result};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::{Args, EvalEnv, Expr, Node, ParseEnv};
use diwan_value::{Doc, DocBuilder, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Fields in the order of their first occurrence. A later value replaces an earlier one at its place.
#[derive(Default)]
pub(crate) struct OrderedFields<'a> {
    fields: Vec<(&'a str, Value<'a>)>,
    places: HashMap<&'a str, usize>,
}

impl<'a> OrderedFields<'a> {
    /// Sets a field.
    pub fn set(&mut self, key: &'a str, value: Value<'a>) {
        let next = self.fields.len();
        match *self.places.entry(key).or_insert(next) {
            at if at == next => self.fields.push((key, value)),
            at => self.fields[at].1 = value,
        }
    }

    /// Builds the document.
    pub fn build(self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let mut builder = DocBuilder::new();
        for (key, value) in self.fields {
            builder.append(key, value);
            env.check_size(builder.len())?;
        }
        env.document(builder).map(Some)
    }
}

pub(crate) fn merge_objects<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut merged = OrderedFields::default();
    let mut merge = |value: Option<Value<'a>>| match value {
        Some(Value::Document(doc)) => {
            doc.iter().for_each(|element| merged.set(element.key_str(), element.value()));
            Ok(())
        }
        value if is_nullish(value) => Ok(()),
        other => {
            let found = type_name(other);
            let text = format!(
                "$mergeObjects requires object inputs, but input {} is of type {found}",
                crate::expr::display::Shown(other)
            );
            Err(Error::new(40400, text))
        }
    };
    match args.exprs {
        // A single argument may be an array of documents.
        [single] => match single.eval(env)? {
            Some(Value::Array(array)) => array.iter().try_for_each(|value| merge(Some(value)))?,
            value => merge(value)?,
        },
        several => {
            for expr in several {
                merge(expr.eval(env)?)?;
            }
        }
    }
    merged.build(env)
}

/// `$getField`.
#[derive(Debug)]
struct GetField {
    field: Expr,
    input: Expr,
}

/// Parses `{field, input}`, or only the field, which is read from the current document.
pub(crate) fn parse_get_field(_: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let (mut field, mut input) = (None, None);
    match value {
        // A document whose first name is not an operator contains named arguments.
        Value::Document(doc) if !doc.iter().next().is_some_and(|first| first.key.starts_with(b"$")) => {
            for element in doc.iter() {
                match element.key_str() {
                    "field" => field = Some(Expr::parse(element.value(), env)?),
                    "input" => input = Some(Expr::parse(element.value(), env)?),
                    other => {
                        let text = format!("$getField found an unknown argument: {other}");
                        return Err(Error::new(3041701, text));
                    }
                }
            }
        }
        short => {
            field = Some(Expr::parse(short, env)?);
            input = Some(Expr::parse(Value::String("$$CURRENT"), env)?);
        }
    }
    let field = field.ok_or_else(|| Error::new(3041702, "$getField requires 'field' to be specified"))?;
    let input = input.ok_or_else(|| Error::new(3041703, "$getField requires 'input' to be specified"))?;
    Ok(Expr::Node(Arc::new(GetField { field, input })))
}

fn wrong_field_type(operator: &str, code: i32, found: Option<Value<'_>>) -> Error {
    let found = type_name(found);
    Error::new(code, format!("{operator} requires 'field' to evaluate to type String, but got {found}"))
}

impl Node for GetField {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let name = self.field.eval(env)?;
        let Some(Value::String(name)) = name else {
            return Err(wrong_field_type("$getField", 3041704, name));
        };
        match self.input.eval(env)? {
            Some(Value::Document(doc)) => Ok(doc.get(name)),
            Some(Value::Null | Value::Undefined) => null(),
            _ => Ok(None),
        }
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.field, &self.input]
    }
}

/// `$setField`, and `$unsetField`, which sets the field to missing.
#[derive(Debug)]
struct SetField {
    operator: &'static str,
    field: String,
    input: Expr,
    value: Expr,
}

/// Parses `{field, input, value}`.
pub(crate) fn parse_set_field(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let doc = set_field_arguments(operator, value, &["field", "input", "value"])?;
    let value = doc
        .get("value")
        .ok_or_else(|| Error::new(4161103, format!("{operator} requires 'value' to be specified")))?;
    let value = Expr::parse(value, env)?;
    set_field(operator, doc, value, env)
}

/// Parses `{field, input}`.
pub(crate) fn parse_unset_field(
    operator: &'static str,
    value: Value<'_>,
    env: &ParseEnv<'_>,
) -> Result<Expr> {
    let doc = set_field_arguments(operator, value, &["field", "input"])?;
    set_field(operator, doc, Expr::Missing, env)
}

fn set_field_arguments<'v>(operator: &str, value: Value<'v>, allowed: &[&str]) -> Result<Doc<'v>> {
    let Value::Document(doc) = value else {
        return Err(Error::new(4161100, format!("{operator} only supports an object as its argument")));
    };
    match doc.iter().find(|element| !allowed.contains(&element.key_str())) {
        Some(unknown) => {
            let text = format!("{operator} found an unknown argument: {}", unknown.key_str());
            Err(Error::new(4161101, text))
        }
        None => Ok(doc),
    }
}

fn set_field(operator: &'static str, doc: Doc<'_>, value: Expr, env: &ParseEnv<'_>) -> Result<Expr> {
    let field = doc
        .get("field")
        .ok_or_else(|| Error::new(4161102, format!("{operator} requires 'field' to be specified")))?;
    let input = doc
        .get("input")
        .ok_or_else(|| Error::new(4161109, format!("{operator} requires 'input' to be specified")))?;
    let field = Expr::parse(field, env)?;
    let Some(constant) = field.as_literal() else {
        let text =
            format!("{operator} requires 'field' to evaluate to a constant, but got a non-constant argument");
        return Err(Error::new(4161106, text));
    };
    let Value::String(name) = constant else {
        return Err(wrong_field_type(operator, 4161107, Some(constant)));
    };
    if name.contains('\0') {
        return Err(Error::new(9423101, format!("{operator}: 'field' cannot contain an embedded null byte")));
    }
    let field = name.to_owned();
    let input = Expr::parse(input, env)?;
    Ok(Expr::Node(Arc::new(SetField { operator, field, input, value })))
}

impl Node for SetField {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let input = self.input.eval(env)?;
        if is_nullish(input) {
            return null();
        }
        let Some(Value::Document(doc)) = input else {
            let text = format!("{} requires 'input' to evaluate to type Object", self.operator);
            return Err(Error::new(4161105, text));
        };
        let mut value = env.nested(self.value.eval(env)?)?;
        let mut builder = DocBuilder::new();
        for element in doc.iter() {
            if element.key != self.field.as_bytes() {
                builder.append_element(element);
            } else if let Some(value) = value.take() {
                builder.append(&self.field, value);
            }
        }
        if let Some(value) = value {
            builder.append(&self.field, value);
        }
        env.document(builder).map(Some)
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.input, &self.value]
    }
}
