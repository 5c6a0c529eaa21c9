//! Updates: operators such as `{$set: …}`, replacement documents, and aggregation pipelines.
//!
//! [`Update::parse`] turns operators into one tree keyed by path ([`tree`]). [`Update::apply`] writes the changed
//! document in one pass over the old document's bytes ([`rewrite`]) and copies unchanged parts. The operators are rows
//! in [`modifier`]. An upsert starts from the fields that the query fixes by equality ([`upsert`]).
//!
//! Invariants: if `apply` returns `None`, the document would not change in any byte; `_id` never changes, and it comes
//! first in documents made by an upsert or a replacement; new fields are appended in the order of their names.

mod arithmetic;
mod array;
mod array_filters;
mod modifier;
mod path;
mod pipeline;
mod replacement;
mod rewrite;
mod scope;
#[cfg(test)]
mod tests;
mod tree;
mod upsert;

pub(crate) use replacement::check_id;

use crate::error::{Error, Result};
use crate::expr::Context;
use crate::filter::{Filter, FilterEnv};
use array_filters::ArrayFilters;
use diwan_value::{Array, Doc, DocBuf, DocBuilder, MAX_DOCUMENT_BYTES, Path, Value};
use modifier::Modifier;
use pipeline::Pipeline;
use scope::Scope;
use std::collections::HashSet;
use tree::ObjectNode;

/// The environment of the update parser.
pub struct UpdateEnv<'e> {
    /// The collation and variables for conditions (`$pull`, array filters) and expressions.
    pub filter: &'e FilterEnv<'e>,
    /// The update's `arrayFilters`.
    pub array_filters: Option<Array<'e>>,
    /// Whether all matching documents are updated or only the first one.
    pub multi: bool,
}

/// A parsed update.
#[derive(Debug)]
pub struct Update(UpdateKind);

#[derive(Debug)]
enum UpdateKind {
    Operators(Operators),
    Replacement(DocBuf),
    Pipeline(Pipeline),
}

/// An update with operators.
#[derive(Debug)]
struct Operators {
    root: ObjectNode,
    filters: ArrayFilters,
    positional: bool,
}

impl Update {
    /// Parses an update: a document of operators, a replacement document, or an array of stages.
    pub fn parse(update: Value<'_>, env: &UpdateEnv<'_>) -> Result<Update> {
        match update {
            Value::Array(stages) => {
                if env.array_filters.is_some_and(|filters| !filters.is_empty()) {
                    return Err(Error::failed_to_parse(
                        "arrayFilters may not be specified for pipeline-style updates",
                    ));
                }
                Pipeline::parse(stages, env).map(UpdateKind::Pipeline)
            }
            Value::Document(doc) if doc.iter().next().is_some_and(|first| first.key.starts_with(b"$")) => {
                Operators::parse(doc, env).map(UpdateKind::Operators)
            }
            Value::Document(doc) => {
                if env.multi {
                    return Err(Error::failed_to_parse(
                        "multi update is not supported for replacement-style update",
                    ));
                }
                if env.array_filters.is_some_and(|filters| !filters.is_empty()) {
                    return Err(Error::failed_to_parse(
                        "arrayFilters may not be specified for replacement-style updates",
                    ));
                }
                replacement::check(doc)?;
                Ok(UpdateKind::Replacement(doc.to_owned()))
            }
            _ => Err(Error::failed_to_parse("Update argument must be either an object or an array")),
        }
        .map(Update)
    }

    /// Whether the update replaces documents as a whole.
    pub fn replaces(&self) -> bool {
        matches!(self.0, UpdateKind::Replacement(_))
    }

    /// Whether [`Update::apply`] needs the index of the array element that the query matched.
    pub fn needs_array_index(&self) -> bool {
        matches!(&self.0, UpdateKind::Operators(operators) if operators.positional)
    }

    /// Returns the changed document, or `None` if the update changes nothing. `array_index` is the value of the
    /// positional `$`.
    pub fn apply(
        &self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        context: &Context,
    ) -> Result<Option<DocBuf>> {
        let changed = self.rewrite(doc, array_index, false, context)?;
        match &changed {
            Some(new) if new.as_doc().as_bytes().len() > MAX_DOCUMENT_BYTES => Err(too_large()),
            _ => Ok(changed),
        }
    }

    /// The document to insert if `query` matches none.
    pub fn upsert_document(&self, query: &Filter, context: &Context) -> Result<DocBuf> {
        let start = match self.0 {
            UpdateKind::Replacement(_) => upsert::id_from_query(query)?,
            _ => upsert::from_query(query)?,
        };
        let changed = self.rewrite(start.as_doc(), None, true, context)?;
        let new = upsert::with_id_first(changed.unwrap_or(start));
        if let Some(id) = new.as_doc().get("_id") {
            check_id(id)?;
        }
        if new.as_doc().as_bytes().len() > MAX_DOCUMENT_BYTES {
            let text = format!("Document to upsert is larger than {MAX_DOCUMENT_BYTES}");
            return Err(Error::new(17420, text));
        }
        Ok(new)
    }

    fn rewrite(
        &self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        insert: bool,
        context: &Context,
    ) -> Result<Option<DocBuf>> {
        match &self.0 {
            UpdateKind::Operators(operators) => operators.apply(doc, array_index, insert, context),
            UpdateKind::Replacement(new) => {
                replacement::apply(new.as_doc(), doc, Some(replacement::timestamp(context)))
            }
            UpdateKind::Pipeline(pipeline) => {
                replacement::apply(pipeline.apply(doc, context)?.as_doc(), doc, None)
            }
        }
    }
}

impl Operators {
    fn parse(update: Doc<'_>, env: &UpdateEnv<'_>) -> Result<Operators> {
        let filters = ArrayFilters::parse(env.array_filters, env)?;
        let known: HashSet<&str> = filters.identifiers().collect();
        let mut used = HashSet::new();
        let mut root = ObjectNode::default();
        let mut positional = false;
        for (operator, path, value) in changes(update)? {
            let target = match operator {
                "$rename" => Some(modifier::parse_rename(path, value)?),
                _ => None,
            };
            root.insert(path, modifier::parse(operator, path, value, env)?, &known, &mut used)?;
            positional |= path.split('.').any(|part| part == "$");
            if let Some(target) = target {
                modifier::check_rename(path, target)?;
                root.insert(target, Modifier::RenameFrom(Path::new(path)), &known, &mut used)?;
            }
        }
        if let Some(unused) = filters.identifiers().find(|identifier| !used.contains(*identifier)) {
            return Err(Error::failed_to_parse(format!(
                "The array filter for identifier '{unused}' was not used in the update {}",
                crate::display::ShownDoc(update)
            )));
        }
        Ok(Operators { root, filters, positional })
    }

    fn apply(
        &self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        insert: bool,
        context: &Context,
    ) -> Result<Option<DocBuf>> {
        let resolved;
        let root = if self.positional {
            resolved = tree::resolve_positional(&self.root, array_index)?;
            &resolved
        } else {
            &self.root
        };
        let scope = Scope::new(doc, context, insert, &self.filters);
        let mut out = DocBuilder::with_buffer(Vec::with_capacity(doc.as_bytes().len() + 64));
        let changed = rewrite::fields(doc, root, &scope, &mut out)?;
        Ok(changed.then(|| out.finish()))
    }
}

/// The operators of an update, with each path and argument.
fn changes(update: Doc<'_>) -> Result<Vec<(&str, &str, Value<'_>)>> {
    let mut changes = Vec::new();
    for operator in update {
        let name = operator.key_str();
        modifier::check_name(name)?;
        let Value::Document(fields) = operator.value() else {
            let shown = crate::display::ShownField(name, operator.value());
            return Err(Error::failed_to_parse(format!(
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} \
                 not {{{shown}}}",
                operator.raw.tag.alias()
            )));
        };
        changes.extend(fields.iter().map(|field| (name, field.key_str(), field.value())));
    }
    // Inserting into the tree is fastest in path order. A small update is inserted in its own order, because the error
    // for two conflicting paths names the later one.
    if changes.len() > 256 {
        changes.sort_by(|(_, a, _), (_, b, _)| path::compare_paths(a, b));
    }
    Ok(changes)
}

/// The error for an update that makes a document too large.
fn too_large() -> Error {
    Error::new(17419, format!("Resulting document after update is larger than {MAX_DOCUMENT_BYTES}"))
}
