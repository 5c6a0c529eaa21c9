//! `$addFields` and `$set`: computed fields added to a document, at any depth.

use crate::error::{Error, Result};
use crate::expr::{EvalEnv, Expr, ParseEnv, field_path};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuilder, Element, Path, Value};

/// The fields to set, as a tree: `{"a.b": x, "a": {"c": y}}` is one node `a` with two inside.
#[derive(Clone, Debug)]
pub struct AddFields {
    fields: Vec<(String, FieldNode)>,
}

#[derive(Clone, Debug)]
enum FieldNode {
    /// Sets the field.
    Expr(Expr),
    /// Sets fields inside the field.
    Fields(Vec<(String, FieldNode)>),
}

impl AddFields {
    /// Parses the argument of `stage` (`$addFields` or `$set`).
    pub fn parse(spec: Value<'_>, stage: &str, scope: &ParseEnv<'_>) -> Result<AddFields> {
        let Value::Document(doc) = spec else {
            let text = format!("{stage} specification stage must be an object, got {}", spec.tag().alias());
            return Err(Error::new(40272, text));
        };
        AddFields::parse_document(doc, scope).map_err(|error| {
            Error::new(error.code, format!("Invalid {stage} :: caused by :: {}", error.message))
        })
    }

    fn parse_document(doc: Doc<'_>, scope: &ParseEnv<'_>) -> Result<AddFields> {
        if doc.is_empty() {
            return Err(Error::new(40177, "specification must have at least one field"));
        }
        let mut fields = Vec::new();
        for element in doc.iter() {
            let path = field_path(element.key_str())?;
            let names: Vec<&str> = path.names().collect();
            parse_field(&mut fields, &names, element, &path, scope)?;
        }
        Ok(AddFields { fields })
    }

    /// Appends `doc` with the fields set.
    pub fn apply<'a>(&'a self, doc: Doc<'_>, env: &EvalEnv<'a>, out: &mut DocBuilder) -> Result<()> {
        apply(&self.fields, doc, env, out)
    }

    /// All expressions.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        fn collect<'a>(fields: &'a [(String, FieldNode)], found: &mut Vec<&'a Expr>) {
            for (_, node) in fields {
                match node {
                    FieldNode::Expr(expr) => found.push(expr),
                    FieldNode::Fields(inner) => collect(inner, found),
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.fields, &mut found);
        found
    }

    /// The top-level fields that are set or changed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// The expression of a top-level field that is set as a whole.
    pub fn expression(&self, name: &str) -> Option<&Expr> {
        self.fields.iter().find_map(|(known, node)| match node {
            FieldNode::Expr(expr) if known == name => Some(expr),
            _ => None,
        })
    }
}

/// Adds `element` to the tree at `names`. `path` is the whole path, for messages.
fn parse_field(
    fields: &mut Vec<(String, FieldNode)>,
    names: &[&str],
    element: Element<'_>,
    path: &Path,
    scope: &ParseEnv<'_>,
) -> Result<()> {
    let Some((&name, rest)) = names.split_first() else { return Ok(()) };
    let conflict = || {
        let text = format!(
            "specification contains two conflicting paths. Cannot specify both '{path}' and a path inside or around it"
        );
        Error::new(40176, text)
    };
    // A document without operators sets fields inside the field; any other value is an expression.
    let nested = match element.value() {
        Value::Document(doc) if rest.is_empty() => match doc.iter().next() {
            None => {
                let text =
                    format!("an empty object is not a valid value. Found empty object at path '{path}'");
                return Err(Error::new(40180, text));
            }
            Some(first) if first.key.starts_with(b"$") => None,
            Some(_) => Some(doc),
        },
        _ => None,
    };
    let position = fields.iter().position(|(known, _)| known == name);
    if rest.is_empty() && nested.is_none() {
        if position.is_some() {
            return Err(conflict());
        }
        fields.push((name.to_owned(), FieldNode::Expr(Expr::parse(element.value(), scope)?)));
        return Ok(());
    }
    let position = position.unwrap_or_else(|| {
        fields.push((name.to_owned(), FieldNode::Fields(Vec::new())));
        fields.len() - 1
    });
    let FieldNode::Fields(inner) = &mut fields[position].1 else { return Err(conflict()) };
    let Some(doc) = nested else { return parse_field(inner, rest, element, path, scope) };
    for element in doc.iter() {
        let key = element.key_str();
        if key.starts_with('$') {
            let text = format!(
                "an expression specification must contain exactly one field, the name of the expression. Found {} \
                 fields at path '{path}'",
                doc.count()
            );
            return Err(Error::new(40181, text));
        }
        if key.contains('.') {
            let text = format!("cannot use dotted field name '{key}' in a sub object at path '{path}'");
            return Err(Error::new(40183, text));
        }
        let path = field_path(&format!("{path}.{key}"))?;
        parse_field(inner, &[key], element, &path, scope)?;
    }
    Ok(())
}

/// Appends the fields of `doc` with the fields of the tree set.
fn apply<'a>(
    fields: &'a [(String, FieldNode)],
    doc: Doc<'_>,
    env: &EvalEnv<'a>,
    out: &mut DocBuilder,
) -> Result<()> {
    let mut present = vec![false; fields.len()];
    for element in doc.iter() {
        match fields.iter().position(|(name, _)| name.as_bytes() == element.key) {
            None => {
                out.append_element(element);
            }
            Some(at) if present[at] => {}
            Some(at) => {
                present[at] = true;
                append(&fields[at], Some(element.value()), env, out)?;
            }
        }
    }
    for (field, _) in fields.iter().zip(present).filter(|(_, present)| !present) {
        append(field, None, env, out)?;
    }
    env.check_size(out.len())
}

/// Appends one field. `old` is its value in the document.
fn append<'a>(
    (name, node): &'a (String, FieldNode),
    old: Option<Value<'_>>,
    env: &EvalEnv<'a>,
    out: &mut DocBuilder,
) -> Result<()> {
    match (node, old) {
        (FieldNode::Expr(expr), _) => {
            if let Some(value) = env.nested(expr.eval(env)?)? {
                out.append(name, value);
            }
        }
        (FieldNode::Fields(fields), Some(Value::Array(array))) => {
            out.append(name, Array::trusted(&apply_each(fields, array, env)?));
        }
        (FieldNode::Fields(fields), old) => {
            out.begin_document(name);
            apply(fields, old.and_then(Value::as_doc).unwrap_or(Doc::EMPTY), env, out)?;
            out.end();
        }
    }
    Ok(())
}

/// The array with the fields set in each of its elements. An element that is not a document is replaced by one.
fn apply_each<'a>(fields: &'a [(String, FieldNode)], array: Array<'_>, env: &EvalEnv<'a>) -> Result<Vec<u8>> {
    let mut items = ArrayBuilder::new();
    for item in array.iter() {
        if let Value::Array(inner) = item {
            items.push(Array::trusted(&apply_each(fields, inner, env)?));
        } else {
            let mut inner = DocBuilder::new();
            apply(fields, item.as_doc().unwrap_or(Doc::EMPTY), env, &mut inner)?;
            items.push(inner.finish());
        }
    }
    Ok(items.finish())
}
