//! `listDatabases`: the databases that hold a collection, with their sizes.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_store::Entry;
use diwan_value::{ArrayBuilder, Doc, DocBuilder, doc};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut filter, mut name_only) = (Doc::EMPTY, false);
    context.request.read(|field| {
        match field.key {
            "filter" => filter = field.document()?,
            "nameOnly" => name_only = field.flag()?,
            "authorizedDatabases" => {
                field.flag()?;
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let filter = Filter::parse(filter, &FilterEnv::default())?;
    let store = &context.server.store;
    let mut databases = ArrayBuilder::new();
    let mut total = 0;
    for name in store.databases() {
        let mut size = 0;
        let mut documents = 0;
        for (_, entry) in store.entries_of(&name) {
            if let Entry::Collection(collection) = entry {
                let stats = collection.stats();
                size += (stats.storage_bytes + stats.total_index_bytes()) as i64;
                documents += stats.count;
            }
        }
        let full = doc! { "name": name.as_str(), "sizeOnDisk": size, "empty": documents == 0 };
        if !filter.matches(full.as_doc())? {
            continue;
        }
        total += size;
        if name_only {
            databases.push(doc! { "name": name })
        } else {
            databases.push(full)
        };
    }
    reply.append("databases", databases);
    if !name_only {
        reply.append("totalSize", total).append("totalSizeMb", total / 1024 / 1024);
    }
    Ok(())
}
