//! `convertToCapped` and `cloneCollectionAsCapped`: a collection's documents in one that is bounded. Indexes but the one
//! on `_id` stay behind, as in MongoDB.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use crate::fields::missing;
use diwan_store::ops::Find;
use diwan_store::{Namespace, WriteOptions};
use diwan_value::{Doc, DocBuf, DocBuilder, ObjectId};

/// How many documents are copied at a time, and how many bytes of them.
const RUN: usize = 1000;
const RUN_BYTES: usize = 4 << 20;

pub(super) fn run(context: &mut Context<'_>, _: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let from = request.namespace()?;
    let clones = request.name == "cloneCollectionAsCapped";
    let (mut to, mut size) = (None, None);
    request.read(|field| {
        match field.key {
            "toCollection" if clones => to = Some(field.string()?),
            "size" => size = Some(field.integer()?),
            "temp" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let size = size.ok_or_else(|| missing(request.name, "size"))?;
    if size <= 0 {
        return Err(CommandError::new(
            code::INVALID_OPTIONS,
            "Capped collection size must be greater than zero",
        ));
    }
    let store = &context.server.store;
    if store.collection(&from)?.is_none() {
        let text = format!("source collection {from} does not exist");
        return Err(CommandError::new(code::NAMESPACE_NOT_FOUND, text));
    }
    let target = match to {
        Some(name) => Namespace::new(&from.database, name)?,
        None if clones => return Err(missing(request.name, "toCollection")),
        None => Namespace::new(&from.database, &format!("tmp{}.convertToCapped", ObjectId::generate()))?,
    };
    let options = diwan_value::doc! { "capped": true, "size": size };
    store.create(&target, options.as_doc())?;
    let copied = copy(context, &from, &target);
    if let Err(error) = copied {
        store.drop_collection(&target)?;
        return Err(error);
    }
    if !clones {
        store.rename(&target, &from, true)?;
    }
    context.fence()
}

/// Copies all documents in the order of their insertion, as far as it is known.
fn copy(context: &mut Context<'_>, source: &Namespace, target: &Namespace) -> Result<()> {
    let store = context.server.store.clone();
    let target = store.collection_or_create(target)?;
    let mut documents = store.find(source, &Find::default())?;
    loop {
        let mut run: Vec<DocBuf> = Vec::new();
        let mut bytes = 0;
        while run.len() < RUN && bytes < RUN_BYTES && documents.advance(&context.interrupt)? {
            bytes += documents.current().as_bytes().len();
            run.push(documents.current().to_owned());
        }
        if run.is_empty() {
            return Ok(());
        }
        let docs: Vec<Doc<'_>> = run.iter().map(DocBuf::as_doc).collect();
        let options = WriteOptions { bypass_validation: true, ..WriteOptions::default() };
        let report = target.insert(&docs, true, options)?;
        if let Some((_, error)) = report.errors.into_iter().next() {
            return Err(error.into());
        }
    }
}
