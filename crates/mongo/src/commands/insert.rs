//! `insert`: new documents into one collection, which is created if it is not there.

use super::write::{Retry, append_errors, batch, is_fatal, writable};
use crate::dispatch::Context;
use crate::error::{CommandError, Result};
use crate::fields::missing;
use crate::metrics::Kind;
use diwan_store::{Namespace, WriteOptions, check_insert};
use diwan_value::{Doc, DocBuilder, Timestamp};

pub(super) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let request = context.request;
    let namespace = writable(request)?;
    let (mut docs, mut ordered, mut first) = (None, true, None);
    let (mut bypass_validation, mut keep_timestamps) = (false, false);
    request.read(|field| {
        match field.key {
            "documents" => docs = Some(batch(field)?),
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
    context.server.metrics.count(Kind::Insert, docs.len() as u64 - 1);
    let retry = Retry::begin(context, first)?;
    let mut errors = Vec::new();
    let store = &context.server.store;
    let is_new = store.entry(&namespace).is_none();
    let refused = if is_new { all_refused(&docs, ordered, &retry) } else { None };
    let inserted = match refused {
        // Documents that nothing would take make no collection.
        Some(refused) => {
            errors = refused;
            0
        }
        None => {
            let server = context.server;
            let tick = || server.clock.tick();
            let timestamps = (!keep_timestamps).then_some(&tick as &dyn Fn() -> Timestamp);
            let options = WriteOptions { bypass_validation, timestamps, ..WriteOptions::default() };
            insert(context, &namespace, &docs, 0, ordered, options, &retry, &mut errors)?
        }
    };
    context.count("ninserted", inserted as u64);
    if context.is_unacknowledged() {
        return Ok(());
    }
    reply.append("n", inserted as i32);
    append_errors(&errors, reply);
    Ok(())
}

/// The errors of documents of which no collection would take any.
fn all_refused(docs: &[Doc<'_>], ordered: bool, retry: &Retry<'_>) -> Option<Vec<(usize, CommandError)>> {
    let mut errors = Vec::new();
    for (at, doc) in docs.iter().enumerate() {
        if retry.remembered(at).is_some() {
            return None;
        }
        errors.push((at, CommandError::from(check_insert(*doc).err()?)));
        if ordered {
            break;
        }
    }
    Some(errors)
}

/// Inserts what was not inserted before, and returns how many documents are there now because of the command. The first
/// document is the command's statement `first`; errors are told by the documents' places in `docs`.
#[allow(clippy::too_many_arguments)]
pub(super) fn insert(
    context: &mut Context<'_>,
    namespace: &Namespace,
    docs: &[Doc<'_>],
    first: usize,
    ordered: bool,
    options: WriteOptions<'_>,
    retry: &Retry<'_>,
    errors: &mut Vec<(usize, CommandError)>,
) -> Result<usize> {
    let server = context.server;
    if let Err(error) = server.store.collection_or_create(namespace) {
        errors.push((0, CommandError::from(error)));
        return Ok(0);
    }
    let mut inserted = 0;
    let mut at = 0;
    while at < docs.len() {
        if retry.remembered(first + at).is_some() {
            inserted += 1;
            at += 1;
            continue;
        }
        context.interrupt.check()?;
        let run = (at..docs.len()).take_while(|at| retry.remembered(first + *at).is_none()).count();
        let options = WriteOptions { retry: retry.record(first + at, None), ..options };
        let report = server.store.insert(namespace, &docs[at..at + run], ordered, options)?;
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
