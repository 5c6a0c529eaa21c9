//! Updates: `{$set: …}` and its like, replacement documents, and aggregation pipelines.
//!
//! [`Update::parse`] turns operators into one tree keyed by path ([`tree`]); [`Update::apply`] writes the changed
//! document in one pass over the old one's bytes ([`rewrite`]), copying what no change reaches. Operators are the rows
//! of [`modifier`]. An upsert begins with what the query's equalities say ([`upsert`]).
//!
//! Invariants: a document for which `apply` gives `None` is the same to the byte; `_id` never changes and comes first
//! in documents that an upsert or a replacement makes; new fields are appended in the order of their names.

mod arithmetic;
mod array;
mod modifier;
mod pipeline;
mod replacement;
mod rewrite;
#[cfg(test)]
mod tests;
mod tree;
mod upsert;

pub use replacement::check_id;

use crate::error::{Error, Result};
use crate::expr::Context;
use crate::filter::{Filter, FilterEnv};
use array::ArrayFilters;
use diwan_value::{Array, Doc, DocBuf, DocBuilder, MAX_DOCUMENT_BYTES, Path, Value};
use modifier::Modifier;
use pipeline::Pipeline;
use rewrite::Scope;
use std::collections::HashSet;
use tree::ObjectNode;

/// What an update is parsed in.
pub struct UpdateEnv<'e> {
    /// For conditions (`$pull`, array filters) and expressions: collation and variables.
    pub filter: &'e FilterEnv<'e>,
    /// The update's `arrayFilters`.
    pub array_filters: Option<Array<'e>>,
    /// Whether every matching document is updated, not the first one.
    pub multi: bool,
}

/// An update, ready to be applied to documents.
#[derive(Debug)]
pub struct Update(Kind);

#[derive(Debug)]
enum Kind {
    Operators(Operators),
    Replacement(DocBuf),
    Pipeline(Pipeline),
}

/// An update by operators.
#[derive(Debug)]
struct Operators {
    root: ObjectNode,
    filters: ArrayFilters,
    positional: bool,
    /// The paths that are written, `$` and its like left out.
    paths: Vec<Path>,
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
                Pipeline::parse(stages, env).map(Kind::Pipeline)
            }
            Value::Document(doc) if doc.iter().next().is_some_and(|first| first.key.starts_with(b"$")) => {
                Operators::parse(doc, env).map(Kind::Operators)
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
                Ok(Kind::Replacement(doc.to_owned()))
            }
            _ => Err(Error::failed_to_parse("Update argument must be either an object or an array")),
        }
        .map(Update)
    }

    /// Whether the update is a replacement document.
    pub fn is_replacement(&self) -> bool {
        matches!(self.0, Kind::Replacement(_))
    }

    /// Whether [`Update::apply`] wants to know which array element the query matched.
    pub fn needs_array_index(&self) -> bool {
        matches!(&self.0, Kind::Operators(operators) if operators.positional)
    }

    /// Whether the update may change what lies at `path`, around it or inside it: if not, an index on `path` stays as
    /// it is. Parts that may be array indexes are passed over.
    pub fn touches(&self, path: &Path) -> bool {
        match &self.0 {
            Kind::Operators(operators) => operators.paths.iter().any(|written| overlap(written, path)),
            Kind::Replacement(_) => true,
            Kind::Pipeline(pipeline) => pipeline.touches(path.name(0)),
        }
    }

    /// The changed document; `None` if the update changes nothing. `array_index` is what the positional `$` stands
    /// for.
    pub fn apply(
        &self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        context: &Context,
    ) -> Result<Option<DocBuf>> {
        let changed = self.run(doc, array_index, false, context)?;
        match &changed {
            Some(new) if new.as_doc().as_bytes().len() > MAX_DOCUMENT_BYTES => Err(too_large()),
            _ => Ok(changed),
        }
    }

    /// The document to insert where `query` matched none.
    pub fn upsert_document(&self, query: &Filter, context: &Context) -> Result<DocBuf> {
        let start = match self.0 {
            Kind::Replacement(_) => upsert::id_from_query(query)?,
            _ => upsert::from_query(query)?,
        };
        let changed = self.run(start.as_doc(), None, true, context)?;
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

    fn run(
        &self,
        doc: Doc<'_>,
        array_index: Option<usize>,
        insert: bool,
        context: &Context,
    ) -> Result<Option<DocBuf>> {
        match &self.0 {
            Kind::Operators(operators) => operators.apply(doc, array_index, insert, context),
            Kind::Replacement(new) => {
                replacement::apply(new.as_doc(), doc, Some(replacement::timestamp(context)))
            }
            Kind::Pipeline(pipeline) => replacement::apply(pipeline.run(doc, context)?.as_doc(), doc, None),
        }
    }
}

impl Operators {
    fn parse(update: Doc<'_>, env: &UpdateEnv<'_>) -> Result<Operators> {
        let filters = ArrayFilters::parse(env.array_filters, env)?;
        let known: HashSet<&str> = filters.identifiers().collect();
        let mut used = HashSet::new();
        let mut root = ObjectNode::default();
        let mut paths = Vec::new();
        let mut positional = false;
        for (operator, path, value) in changes(update)? {
            let target = match operator {
                "$rename" => Some(modifier::parse_rename(path, value)?),
                _ => None,
            };
            root.insert(path, modifier::parse(operator, path, value, env)?, &known, &mut used)?;
            positional |= path.split('.').any(|part| part == "$");
            paths.push(static_path(path));
            if let Some(target) = target {
                modifier::check_rename(path, target)?;
                root.insert(target, Modifier::RenameFrom(Path::new(path)), &known, &mut used)?;
                paths.push(static_path(target));
            }
        }
        if let Some(unused) = filters.identifiers().find(|identifier| !used.contains(*identifier)) {
            return Err(Error::failed_to_parse(format!(
                "The array filter for identifier '{unused}' was not used in the update {}",
                crate::display::ShownDoc(update)
            )));
        }
        Ok(Operators { root, filters, positional, paths })
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

/// The operators of an update with each of their paths and arguments.
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
    // The tree takes paths fastest in its own order. Few are taken as they come: of two that conflict, messages name
    // the later one.
    if changes.len() > 256 {
        changes.sort_by(|(_, a, _), (_, b, _)| tree::compare_paths(a, b));
    }
    Ok(changes)
}

/// The refusal of a document that an update makes too large.
fn too_large() -> Error {
    Error::new(17419, format!("Resulting document after update is larger than {MAX_DOCUMENT_BYTES}"))
}

/// A written path without its dynamic parts.
fn static_path(path: &str) -> Path {
    let parts: Vec<&str> = path.split('.').filter(|part| !tree::is_dynamic(part)).collect();
    Path::new(&parts.join("."))
}

/// Whether one path leads to the other's place or inside it, array indexes passed over.
fn overlap(a: &Path, b: &Path) -> bool {
    let names = |path: &Path| -> Vec<String> {
        let parts = path.names().enumerate();
        parts
            .filter(|(at, _)| *at == 0 || path.index(*at).is_none())
            .map(|(_, name)| name.to_owned())
            .collect()
    };
    names(a).iter().zip(names(b).iter()).all(|(a, b)| a == b)
}
