//! Explains why a document does not match: the `details` of a failed validation.
//!
//! Every failed condition becomes a document with the operator's name, its specification, the reason and the value
//! considered. Under a negation, the conditions that *hold* are reported.

use super::predicate::Predicate;
use super::reach::{AtEnd, Reach};
use super::{Filter, PathFilter};
use crate::error::Result;
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, RawValue, Value};

/// The maximum number of values that a message lists.
const MAX_CONSIDERED: usize = 10;

/// The largest value that a message includes, in bytes.
const MAX_CONSIDERED_BYTES: usize = 64 * 1024;

impl Filter {
    /// Explains why `doc` does not match. The caller has checked that it does not.
    pub fn explain_mismatch(&self, doc: Doc<'_>) -> Result<DocBuf> {
        explain(self, doc)
    }
}

fn explain(filter: &Filter, doc: Doc<'_>) -> Result<DocBuf> {
    let mut builder = DocBuilder::new();
    match filter {
        Filter::And(conjunction) => {
            builder.append("operatorName", "$and");
            let failing = clauses(
                conjunction.children(),
                |child| child.matches(doc).map(|matched| !matched),
                |child| explain(child, doc),
            );
            builder.append("clausesNotSatisfied", failing?);
        }
        Filter::Or(children) => {
            builder.append("operatorName", "$or");
            let failing = clauses(children, |_| Ok(true), |child| explain(child, doc));
            builder.append("clausesNotSatisfied", failing?);
        }
        Filter::Nor(children) => {
            builder.append("operatorName", "$nor");
            let matching = clauses(children, |child| child.matches(doc), |child| explain_match(child, doc));
            builder.append("clausesSatisfied", matching?);
        }
        Filter::Path(filter) => return failed(filter, doc),
        Filter::JsonSchema(schema) => return schema.explain(doc),
        Filter::Expr(_) => {
            builder.append("operatorName", "$expr");
            append_specified(filter.to_doc().as_doc(), &mut builder);
            builder.append("reason", "expression did not match");
            builder.append("expressionResult", false);
        }
        Filter::AlwaysTrue | Filter::AlwaysFalse | Filter::SampleRate(_) => {
            let specified = filter.to_doc();
            let name = specified.as_doc().iter().next().map_or("$alwaysTrue", |first| first.key_str());
            builder.append("operatorName", name);
            append_specified(specified.as_doc(), &mut builder);
            builder.append("reason", "expression always evaluates to false");
        }
    }
    Ok(builder.finish())
}

/// Explains why a document matches a filter that must not match.
fn explain_match(filter: &Filter, doc: Doc<'_>) -> Result<DocBuf> {
    let mut builder = DocBuilder::new();
    match filter {
        Filter::Path(path_filter) => return holding(path_filter, doc),
        Filter::And(conjunction) => {
            builder.append("operatorName", "$and");
            let matching = clauses(conjunction.children(), |_| Ok(true), |child| explain_match(child, doc));
            builder.append("clausesSatisfied", matching?);
        }
        Filter::Or(children) => {
            builder.append("operatorName", "$or");
            let matching = clauses(children, |child| child.matches(doc), |child| explain_match(child, doc));
            builder.append("clausesSatisfied", matching?);
        }
        Filter::Nor(children) => {
            builder.append("operatorName", "$nor");
            let failing = clauses(children, |_| Ok(true), |child| explain(child, doc));
            builder.append("clausesNotSatisfied", failing?);
        }
        _ => {
            let specified = filter.to_doc();
            let name = specified.as_doc().iter().next().map_or("$alwaysTrue", |first| first.key_str());
            builder.append("operatorName", name);
            append_specified(specified.as_doc(), &mut builder);
            builder.append("reason", "expression did match");
        }
    }
    Ok(builder.finish())
}

/// The details of the clauses that satisfy `told`, each with its index.
fn clauses(
    children: &[Filter],
    told: impl Fn(&Filter) -> Result<bool>,
    details: impl Fn(&Filter) -> Result<DocBuf>,
) -> Result<ArrayBuilder> {
    let mut clauses = ArrayBuilder::new();
    for (index, child) in children.iter().enumerate() {
        if told(child)? {
            let mut clause = DocBuilder::new();
            clause.append("index", index as i32);
            clause.append("details", details(child)?);
            clauses.push(clause.finish());
        }
    }
    Ok(clauses)
}

/// The details of a predicate that fails.
fn failed(filter: &PathFilter, doc: Doc<'_>) -> Result<DocBuf> {
    match filter.predicate.as_ref() {
        Predicate::Not(inner) => match inner.as_slice() {
            [Predicate::Eq(_)] => Ok(leaf(filter, doc, "comparison succeeded")),
            [Predicate::In(_)] => Ok(leaf(filter, doc, "matching value found in array")),
            [Predicate::Exists] => Ok(leaf(filter, doc, "path does exist")),
            _ => {
                let mut builder = DocBuilder::new();
                builder.append("operatorName", "$not");
                let inner = inner.iter().cloned();
                let inner = inner.map(|predicate| Filter::path(filter.path.clone(), predicate)).collect();
                builder.append("details", explain_match(&Filter::and(inner), doc)?);
                Ok(builder.finish())
            }
        },
        predicate => Ok(leaf(filter, doc, reason(predicate, false))),
    }
}

/// The details of a predicate that holds and must not.
fn holding(filter: &PathFilter, doc: Doc<'_>) -> Result<DocBuf> {
    match filter.predicate.as_ref() {
        Predicate::Not(inner) => match inner.as_slice() {
            [Predicate::Eq(_)] => Ok(leaf(filter, doc, "comparison failed")),
            [Predicate::In(_)] => Ok(leaf(filter, doc, "no matching value found in array")),
            [Predicate::Exists] => Ok(leaf(filter, doc, "path does not exist")),
            _ => {
                let mut builder = DocBuilder::new();
                builder.append("operatorName", "$not");
                let inner = inner.iter().cloned();
                let inner = inner.map(|predicate| Filter::path(filter.path.clone(), predicate)).collect();
                builder.append("details", explain(&Filter::and(inner), doc)?);
                Ok(builder.finish())
            }
        },
        predicate => Ok(leaf(filter, doc, reason(predicate, true))),
    }
}

/// The details of one operator on one path.
fn leaf(filter: &PathFilter, doc: Doc<'_>, reason: &str) -> DocBuf {
    let mut builder = DocBuilder::new();
    builder.append("operatorName", filter.predicate.operator());
    append_specified(filter.to_doc().as_doc(), &mut builder);
    let considered = considered(filter, doc);
    let existence = reason.starts_with("path does");
    if considered.is_empty() && !existence {
        builder.append("reason", "field was missing");
        return builder.finish();
    }
    builder.append("reason", reason);
    match considered.as_slice() {
        _ if existence => {}
        [only] => {
            append_considered("consideredValue", *only, &mut builder);
            if let Predicate::Type(_) = filter.predicate.as_ref() {
                builder.append("consideredType", only.tag().alias());
            }
        }
        several => {
            let mut values = ArrayBuilder::new();
            for value in several.iter().take(MAX_CONSIDERED) {
                values.push(*value);
            }
            append_considered(
                "consideredValues",
                Value::Array(Array::trusted(&values.finish())),
                &mut builder,
            );
            if several.len() > MAX_CONSIDERED {
                builder.append("consideredValuesTruncated", true);
            }
        }
    }
    builder.finish()
}

/// The values that a path reaches, except missing ones.
fn considered<'a>(filter: &PathFilter, doc: Doc<'a>) -> Vec<Value<'a>> {
    let whole = matches!(
        filter.predicate.as_ref(),
        Predicate::Size(_) | Predicate::ElemMatch(_) | Predicate::All(_) | Predicate::In(_)
    );
    let mut values = Vec::new();
    let visit = |value: Option<RawValue<'a>>, _| {
        values.extend(value.and_then(RawValue::decode));
        Ok(false)
    };
    let at_end = if whole { AtEnd::Whole } else { AtEnd::Elements };
    let first = doc.get_raw(filter.path.name(0));
    // The visitor never fails.
    _ = Reach { path: &filter.path, at_end, visit }.walk(first, 1, None);
    values
}

/// The reason text: why an operator fails, or that it holds.
fn reason(predicate: &Predicate, holds: bool) -> &'static str {
    let (fails, succeeds) = match predicate {
        Predicate::Eq(_) | Predicate::Lt(_) | Predicate::Lte(_) | Predicate::Gt(_) | Predicate::Gte(_) => {
            ("comparison failed", "comparison succeeded")
        }
        Predicate::In(_) => ("no matching value found in array", "matching value found in array"),
        Predicate::Exists => ("path does not exist", "path does exist"),
        Predicate::Type(_) => ("type did not match", "type did match"),
        Predicate::Mod { .. } => {
            ("$mod did not evaluate to expected remainder", "$mod did evaluate to expected remainder")
        }
        Predicate::Regex(_) => ("regular expression did not match", "regular expression did match"),
        Predicate::All(_) => {
            ("array did not contain all specified values", "array did contain all specified values")
        }
        Predicate::ElemMatch(_) => {
            ("array did not satisfy the child predicate", "array did satisfy the child predicate")
        }
        Predicate::Size(_) => {
            ("array length was not equal to given size", "array length was equal to given size")
        }
        Predicate::Bits(_) => ("bitwise operator failed to match", "bitwise operator matched successfully"),
        Predicate::Not(_) => ("child expression matched", "child expression did not match"),
        Predicate::Mango(_) => ("condition did not hold", "condition did hold"),
    };
    if holds { succeeds } else { fails }
}

/// Adds the operator's specification, unless it is too long for a message.
pub(super) fn append_specified(specified: Doc<'_>, builder: &mut DocBuilder) {
    append_considered("specifiedAs", Value::Document(specified), builder);
}

/// Adds a value, or a note if the value is too long for a message.
pub(super) fn append_considered(name: &str, value: Value<'_>, builder: &mut DocBuilder) {
    let bytes = match value {
        Value::Document(doc) => doc.as_bytes().len(),
        Value::Array(array) => array.as_bytes().len(),
        Value::String(text) => text.len(),
        Value::Binary { bytes, .. } => bytes.len(),
        _ => 0,
    };
    if bytes > MAX_CONSIDERED_BYTES {
        builder.append(name, "(too long to show)");
    } else {
        builder.append(name, value);
    }
}
