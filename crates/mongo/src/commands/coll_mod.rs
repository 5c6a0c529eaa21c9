//! `collMod`: changes options of a collection, a view, or one of a collection's indexes.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::Field;
use diwan_store::{Collection, Index, same_pattern};
use diwan_value::{Doc, DocBuilder, Value};
use std::sync::Arc;

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = request.namespace()?;
    let mut changes = DocBuilder::new();
    let mut index = None;
    request.read(|field| {
        match field.key {
            "index" => index = Some(field.document()?),
            "validator" | "validationLevel" | "validationAction" | "viewOn" | "pipeline" => {
                // What is null is left as it is.
                if !field.value().is_nullish() {
                    changes.append(field.key, field.value());
                }
            }
            "cappedSize" => {
                changes.append("size", field.integer()?);
            }
            "cappedMax" => {
                changes.append("max", field.integer()?);
            }
            "dryRun" if !field.flag()? => {}
            "dryRun" | "expireAfterSeconds" | "changeStreamPreAndPostImages" | "timeseries" => {
                return Err(CommandError::not_implemented(format_args!("collMod.{}", field.key)));
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let store = &context.server.store;
    if store.entry(&namespace).is_none() {
        return Err(CommandError::new(code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}")));
    }
    let changes = changes.finish();
    if !changes.as_doc().is_empty() {
        store.modify(&namespace, changes.as_doc())?;
    }
    if let Some(index) = index {
        let collection = store.collection(&namespace)?.ok_or_else(|| {
            CommandError::new(code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}"))
        })?;
        modify_index(context, &collection, index, reply)?;
    }
    context.fence()
}

fn modify_index(
    context: &Context<'_>,
    collection: &Collection,
    argument: Doc<'_>,
    reply: &mut DocBuilder,
) -> Result<()> {
    let (mut name, mut key, mut hidden, mut expire) = (None, None, None, None);
    Field::read_document("collMod.index", argument, |field| {
        match field.key {
            "name" => name = Some(field.string()?),
            "keyPattern" => key = Some(field.document()?),
            "hidden" => hidden = Some(field.flag()?),
            "expireAfterSeconds" => expire = Some(field.integer()?),
            "unique" | "prepareUnique" => {
                return Err(CommandError::not_implemented(format_args!("collMod.index.{}", field.key)));
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    if name.is_some() == key.is_some() {
        let text = if name.is_some() {
            "Cannot specify both key pattern and name."
        } else {
            "Must specify either index name or key pattern."
        };
        return Err(CommandError::new(code::INVALID_OPTIONS, text));
    }
    let schema = collection.schema();
    let wanted = |index: &&Arc<Index>| match (name, key) {
        (Some(name), _) => index.spec.name == name,
        (None, Some(key)) => same_pattern(index.spec.key.as_doc(), key),
        (None, None) => false,
    };
    let index = schema.indexes.iter().find(wanted).ok_or_else(|| {
        let text = format!(
            "cannot find index {} for ns {}",
            name.unwrap_or("by key pattern"),
            collection.namespace()
        );
        CommandError::new(diwan_query::code::INDEX_NOT_FOUND, text)
    })?;
    if hidden == Some(true) && index.spec.is_id_index() {
        return Err(CommandError::bad_value("can't hide _id index"));
    }
    let modified = index.spec.modified(hidden, expire, None)?;
    context.server.store.modify_index(collection, &index.spec.name, modified)?;
    if let Some(hidden) = hidden {
        reply.append("hidden_old", index.spec.hidden).append("hidden_new", hidden);
    }
    if let Some(seconds) = expire {
        if let Some(old) = index.spec.expire_after_seconds {
            reply.append("expireAfterSeconds_old", Value::Int64(old));
        }
        reply.append("expireAfterSeconds_new", Value::Int64(seconds));
    }
    Ok(())
}
