//! `dbHash`: a hash of each collection, for comparing databases.

use crate::commands::shared::hex;
use crate::dispatch::Context;
use crate::error::Result;
use diwan_store::ops::Find;
use diwan_store::{Entry, Namespace};
use diwan_value::{DocBuilder, Value, doc};
use md5::{Digest, Md5};
use std::time::Instant;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut wanted = None;
    context.request.read(|field| {
        match field.key {
            "collections" => wanted = Some(field.array()?),
            "skipTempCollections" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let started = Instant::now();
    let mut all = Md5::new();
    let (mut hashes, mut uuids, mut capped) = (DocBuilder::new(), DocBuilder::new(), Vec::new());
    for (namespace, entry) in context.store.entries_of(context.request.arguments.database) {
        let Entry::Collection(collection) = entry else { continue };
        let name = namespace.collection.as_str();
        if wanted
            .is_some_and(|names| !names.is_empty() && !names.iter().any(|other| other.as_str() == Some(name)))
        {
            continue;
        }
        let hash = collection_hash(context, &namespace)?;
        all.update(hash.as_bytes());
        hashes.append(name, hash);
        uuids.append(name, Value::Binary { subtype: 4, bytes: &collection.uuid() });
        if collection.schema().options.capped.is_some() {
            capped.push(name.to_owned());
        }
    }
    reply.append("host", context.server.options.host(context.client.local));
    reply.append("collections", hashes.finish()).append("capped", capped).append("uuids", uuids.finish());
    reply
        .append("md5", hex(&all.finalize()))
        .append("timeMillis", Value::integer(started.elapsed().as_millis() as i64));
    Ok(())
}

/// The hash of a collection's documents in the order of `_id`.
fn collection_hash(context: &Context<'_>, namespace: &Namespace) -> Result<String> {
    let id_index = doc! { "_id": 1 };
    let find = Find { sort: Some(id_index.as_doc()), scope: context.scope(), ..Find::default() };
    let mut source = context.store.find(namespace, &find)?;
    let mut hash = Md5::new();
    while source.advance(&context.interrupt)? {
        hash.update(source.current().as_bytes());
    }
    Ok(hex(&hash.finalize()))
}
