//! `insert`: inserts documents into one collection, and creates the collection if it does not exist.

use crate::commands::shared::write::{Retry, append_errors, is_fatal, read_batch, writable_namespace};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::monitoring::metrics::OperationKind;
use crate::request::fields::missing;
use diwan_store::{Entry, Error, Namespace, WriteOptions, check_insert};
use diwan_value::{Doc, DocBuilder, Timestamp};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = writable_namespace(request)?;
    let (mut docs, mut ordered, mut first) = (None, true, None);
    let (mut bypass_validation, mut keep_timestamps) = (false, false);
    request.read(|field| {
        match field.key {
            "documents" => docs = Some(read_batch(field)?),
            "ordered" => ordered = field.flag()?,
            "bypassDocumentValidation" => bypass_validation = field.flag()?,
            "stmtId" => first = Some(field.integer()?),
            "bypassEmptyTsReplacement" => keep_timestamps = field.boolean()?,
            "collectionUUID" => {}
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    let docs = docs.ok_or_else(|| missing("insert", "documents"))?;
    // The dispatcher counts one more.
    context.server.metrics.count(OperationKind::Insert, docs.len() as u64 - 1);
    let retry = Retry::begin(context, first)?;
    let server = context.server;
    let tick = || server.store.clock().tick();
    let timestamps = (!keep_timestamps).then_some(&tick as &dyn Fn() -> Timestamp);
    let guard = context.design_guard();
    let designs = guard.as_ref();
    let interrupt = context.interrupt.clone();
    let interrupt = Some(&interrupt);
    let options =
        WriteOptions { bypass_validation, designs, timestamps, interrupt, ..WriteOptions::default() };
    let mut errors = Vec::new();
    let inserted = insert_documents(context, &namespace, &docs, 0, ordered, options, &retry, &mut errors)?;
    context.count("ninserted", inserted as u64);
    if context.is_unacknowledged() {
        return Ok(());
    }
    reply.append("n", inserted as i32);
    append_errors(context, &errors, reply);
    Ok(())
}

/// Inserts the documents that no earlier attempt of the command has inserted. Returns how many documents of the command
/// are in the collection now. The first document is statement `first` of the command; `errors` gets the errors with
/// the positions of their documents in `docs`.
#[allow(clippy::too_many_arguments)]
pub(crate) fn insert_documents(
    context: &mut Context<'_>,
    namespace: &Namespace,
    docs: &[Doc<'_>],
    first: usize,
    ordered: bool,
    options: WriteOptions<'_>,
    retry: &Retry<'_>,
    errors: &mut Vec<(usize, CommandError)>,
) -> Result<usize> {
    let store = context.store;
    let collection = match store.entry(namespace) {
        Some(Entry::Collection(collection)) => collection,
        other => {
            // Documents that every collection would refuse do not create one.
            if other.is_none()
                && let Some(refused) = all_refused(docs, first, ordered, retry)
            {
                errors.extend(refused);
                return Ok(0);
            }
            match store.collection_or_create(namespace) {
                Ok(collection) => collection,
                Err(error) => {
                    errors.push((0, CommandError::from(error)));
                    return Ok(0);
                }
            }
        }
    };
    let mut inserted = 0;
    let mut at = 0;
    while at < docs.len() {
        if retry.earlier_result(first + at).is_some() {
            inserted += 1;
            at += 1;
            continue;
        }
        context.interrupt.check()?;
        // The documents up to the next one that an earlier attempt has inserted go to the store together.
        let run = (at..docs.len()).take_while(|at| retry.earlier_result(first + *at).is_none()).count();
        let docs = &docs[at..at + run];
        let options = WriteOptions { retry: retry.record(first + at, None), ..options };
        let report = match collection.insert(docs, ordered, options) {
            // The collection was dropped after the lookup. The documents go into a new one.
            Err(Error::CollectionDropped(_)) => store.insert(namespace, docs, ordered, options)?,
            outcome => outcome?,
        };
        if let Some(commit) = report.commit {
            context.committed(commit);
        }
        inserted += report.inserted;
        for (index, error) in report.errors {
            let error = CommandError::from(error);
            if is_fatal(&error) {
                return Err(error);
            }
            errors.push((at + index, error));
        }
        if ordered && !errors.is_empty() {
            break;
        }
        at += run;
    }
    Ok(inserted)
}

/// The errors of the documents if every collection would refuse all of them, `None` otherwise.
fn all_refused(
    docs: &[Doc<'_>],
    first: usize,
    ordered: bool,
    retry: &Retry<'_>,
) -> Option<Vec<(usize, CommandError)>> {
    let mut errors = Vec::new();
    for (at, doc) in docs.iter().enumerate() {
        if retry.earlier_result(first + at).is_some() {
            return None;
        }
        errors.push((at, CommandError::from(check_insert(*doc).err()?)));
        if ordered {
            break;
        }
    }
    Some(errors)
}
