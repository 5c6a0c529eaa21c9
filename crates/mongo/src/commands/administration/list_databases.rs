//! `listDatabases`: the databases that have a collection, with their sizes.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_access::{Action, Resource};
use diwan_query::filter::{Filter, FilterEnv};
use diwan_store::stats::DatabaseStats;
use diwan_value::{ArrayBuilder, Doc, DocBuf, DocBuilder, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let (mut filter, mut name_only, mut only_own) = (Doc::EMPTY, false, None);
    context.request.read(|field| {
        match field.key {
            "filter" => filter = field.document()?,
            "nameOnly" => name_only = field.flag()?,
            "authorizedDatabases" => only_own = Some(field.flag()?),
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let sees_all = context.may(Action::ListDatabases, Resource::Cluster);
    if only_own == Some(false) && !sees_all {
        return Err(context.not_authorized());
    }
    let hides = only_own == Some(true) || !sees_all;
    let filter = Filter::parse(filter, &FilterEnv::default())?;
    let store = context.store;
    let described: Vec<(DocBuf, u64)> = if name_only {
        store.databases().into_iter().map(|name| (doc! { "name": name }, 0)).collect()
    } else {
        let describe = |database: DatabaseStats| {
            let size = database.storage_bytes + database.index_bytes;
            let empty = database.count == 0;
            (doc! { "name": database.name, "sizeOnDisk": size as i64, "empty": empty }, size)
        };
        store.database_stats().into_iter().map(describe).collect()
    };
    let mut databases = ArrayBuilder::new();
    let mut total = 0;
    for (database, size) in described {
        let name = database.as_doc().get_str("name").unwrap_or_default();
        if hides && !has_right_in(context, name) {
            continue;
        }
        if filter.matches(database.as_doc())? {
            total += size as i64;
            databases.push(database);
        }
    }
    reply.append("databases", databases);
    if !name_only {
        reply.append("totalSize", total).append("totalSizeMb", total / 1024 / 1024);
    }
    Ok(())
}

/// Whether the caller has a right on a database or on one of its collections.
fn has_right_in(context: &Context<'_>, database: &str) -> bool {
    let has_right = |resource| context.server.access.allows_something(context.caller, resource);
    has_right(Resource::Database(database))
        || context
            .server
            .store
            .entries_of(database)
            .iter()
            .any(|(namespace, _)| has_right(Resource::collection(namespace)))
}
