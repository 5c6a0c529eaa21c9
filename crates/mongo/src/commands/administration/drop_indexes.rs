//! `dropIndexes`: drops indexes by name or by key pattern, or all but the one on `_id`.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::request::fields::{Field, missing};
use diwan_query::display::ShownDoc;
use diwan_store::{Schema, same_pattern};
use diwan_value::{Doc, DocBuilder, Value};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = request.namespace()?;
    let mut index = None;
    request.read(|field| {
        match field.key {
            "index" => index = Some(field),
            "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let index = index.ok_or_else(|| missing("dropIndexes", "index"))?;
    let collection = context
        .store
        .collection(&namespace)?
        .ok_or_else(|| CommandError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {namespace}")))?;
    let schema = collection.schema();
    let was = schema.indexes.len();
    let all = index.value() == Value::String("*");
    let names = if all { Vec::new() } else { selected_names(&schema, index)? };
    collection.remove_indexes(|index| all || names.contains(&index.spec.name))?;
    reply.append("nIndexesWas", was as i32);
    if all {
        reply.append("msg", "non-_id indexes dropped for collection");
    }
    context.fence()
}

/// The names of the indexes that the argument selects.
fn selected_names(schema: &Schema, argument: Field<'_>) -> Result<Vec<String>> {
    match argument.value() {
        Value::String(name) => Ok(vec![by_name(schema, name)?]),
        Value::Document(key) => Ok(vec![by_key(schema, key)?]),
        Value::Array(names) => names
            .iter()
            .map(|name| match name {
                Value::String(name) => by_name(schema, name),
                other => Err(Field::new("dropIndexes", "index", other).wrong("string")),
            })
            .collect(),
        _ => Err(argument.wrong("[string, object, array]")),
    }
}

fn by_name(schema: &Schema, name: &str) -> Result<String> {
    match schema.indexes.iter().find(|index| index.spec.name == name) {
        Some(index) if index.spec.is_id_index() => Err(id_index_error()),
        Some(index) => Ok(index.spec.name.clone()),
        None => Err(CommandError::new(
            diwan_query::code::INDEX_NOT_FOUND,
            format!("index not found with name [{name}]"),
        )),
    }
}

fn by_key(schema: &Schema, key: Doc<'_>) -> Result<String> {
    let mut same = schema.indexes.iter().filter(|index| same_pattern(index.spec.key.as_doc(), key));
    match (same.next(), same.next()) {
        (Some(index), None) if index.spec.is_id_index() => Err(id_index_error()),
        (Some(index), None) => Ok(index.spec.name.clone()),
        (Some(_), Some(_)) => Err(CommandError::new(
            181,
            format!(
                "{} indexes found for key: {}, identify by name instead",
                same.count() + 2,
                ShownDoc(key)
            ),
        )),
        (None, _) => Err(CommandError::new(
            diwan_query::code::INDEX_NOT_FOUND,
            format!("can't find index with key: {}", ShownDoc(key)),
        )),
    }
}

fn id_index_error() -> CommandError {
    CommandError::new(code::INVALID_OPTIONS, "cannot drop _id index")
}
