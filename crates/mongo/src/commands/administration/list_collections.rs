//! `listCollections`: the collections and views of a database, with their options.

use crate::commands::shared::cursor_reply::{batch_size, first_batch};
use crate::dispatch::Context;
use crate::error::Result;
use crate::server::cursors::{Cursor, FIRST_BATCH};
use diwan_access::{Action, Resource};
use diwan_query::filter::{Filter, FilterEnv};
use diwan_query::pipeline::DocList;
use diwan_store::{Entry, Namespace};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut filter, mut name_only, mut only_own, mut size) = (Doc::EMPTY, false, false, FIRST_BATCH);
    context.request.read(|field| {
        match field.key {
            "filter" => filter = field.document()?,
            "nameOnly" => name_only = field.flag()?,
            "authorizedCollections" => only_own = field.flag()?,
            "includePendingDrops" => {
                field.flag()?;
            }
            "cursor" => size = batch_size(field)?,
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let filter = Filter::parse(filter, &FilterEnv::default())?;
    let database = context.request.arguments.database;
    let mut listed = Vec::new();
    // The check before the command allows it without the right to list if only names of one's own are asked for.
    let hides = only_own && name_only && !context.may(Action::ListCollections, Resource::Database(database));
    for (namespace, entry) in context.store.entries_of(database) {
        let access = &context.server.access;
        if hides && !access.allows_something(context.caller, Resource::collection(&namespace)) {
            continue;
        }
        let full = describe(&namespace, &entry);
        if filter.matches(full.as_doc())? {
            listed.push(if name_only { name_and_type(full.as_doc()) } else { full });
        }
    }
    if database == "local" {
        let oplog = doc! {
            "name": "oplog.rs", "type": "collection", "options": { "capped": true }, "info": { "readOnly": true }
        };
        if filter.matches(oplog.as_doc())? {
            listed.push(if name_only { name_and_type(oplog.as_doc()) } else { oplog });
        }
    }
    let cursor = Cursor::new(Box::new(DocList::new(listed)), database, "$cmd.listCollections");
    first_batch(context, cursor, size, false, reply)
}

/// The document of one collection or view.
fn describe(namespace: &Namespace, entry: &Entry) -> DocBuf {
    let mut out = DocBuilder::new();
    let is_view = matches!(entry, Entry::View(_));
    out.append("name", namespace.collection.as_str());
    out.append("type", if is_view { "view" } else { "collection" });
    out.append("options", entry.options().to_doc());
    match entry {
        Entry::View(_) => {
            out.append("info", doc! { "readOnly": true });
        }
        Entry::Collection(collection) => {
            let uuid = collection.uuid();
            out.append(
                "info",
                doc! { "readOnly": false, "uuid": Value::Binary { subtype: 4, bytes: &uuid } },
            );
            if let Some(index) = collection.schema().indexes.first() {
                out.append("idIndex", index.spec.to_doc());
            }
        }
    }
    out.finish()
}

/// The fields `name` and `type` of a document, for `nameOnly`.
fn name_and_type(full: Doc<'_>) -> DocBuf {
    let mut out = DocBuilder::new();
    full.iter().take(2).for_each(|element| {
        out.append_element(element);
    });
    out.finish()
}
