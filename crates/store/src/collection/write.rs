//! Writes from MongoDB: inserts, and edits of winning revisions, in batches that are committed as a whole.

use super::document::{Prepared, check_document, check_validator, prepare};
use super::document_state::{DocumentState, NextState, RawState, StoredState};
use super::entries::{UniqueChanges, index_keys, unique_locks};
use super::stage::{StagedChange, is_design};
use super::{Collection, Schema};
use crate::error::{Error, Result};
use crate::index::IndexKeys;
use crate::namespace::Namespace;
use crate::record::{Marks, Record};
use crate::retry::RetryRecord;
use diwan_kv::{Batch, CommitId};
use diwan_query::Interrupt;
use diwan_value::{Doc, DocBuf, Timestamp, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// Decides whether a writer may change the design documents of a collection. They hold functions that run for others, so
/// to change them takes more than the right to change documents.
pub type DesignGuard = Arc<dyn Fn(&Namespace) -> bool + Send + Sync>;

/// The error for a change of design documents that the guard refuses (`Unauthorized`).
pub(crate) fn design_error(namespace: &Namespace) -> Error {
    Error::refused(13, format!("not authorized to change the design documents of {namespace}"))
}

/// Options of a write.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// Skips the validator (`bypassDocumentValidation`).
    pub bypass_validation: bool,
    /// Whether an edit replaces whole documents, as events of change streams tell.
    pub replaces: bool,
    /// The retry record of a retryable write, stored in the same batch.
    pub retry: Option<RetryRecord<'a>>,
    /// The result that the retry record holds, if only the edit can compute it.
    pub retry_result: Option<&'a RefCell<Option<DocBuf>>>,
    /// Asked when a design document would change. `None` allows it.
    pub designs: Option<&'a DesignGuard>,
    /// Generates the values that replace top-level timestamps of zero in inserted documents.
    pub timestamps: Option<&'a dyn Fn() -> Timestamp>,
    /// Ends an insert's wait for a transaction. Without one it does not wait, and fails with [`Error::Claimed`].
    pub interrupt: Option<&'a Interrupt>,
}

/// The result of an insert.
#[derive(Debug, Default)]
pub struct InsertReport {
    /// How many documents were inserted.
    pub inserted: usize,
    /// The errors, each with the index of its document in the request.
    pub errors: Vec<(usize, Error)>,
    /// The last commit, for a caller that waits until it is durable.
    pub commit: Option<CommitId>,
    /// How many documents of the request have been processed.
    done: usize,
}

/// The result of an edit.
#[derive(Debug, Default)]
pub struct Written {
    /// How many documents were replaced.
    pub replaced: usize,
    /// How many documents were deleted.
    pub deleted: usize,
    /// How many documents were inserted.
    pub inserted: usize,
    /// The commit; `None` if nothing was written.
    pub commit: Option<CommitId>,
}

/// The change that an edit makes to a document.
#[derive(Debug)]
pub enum Edit {
    /// Leaves the document unchanged.
    Keep,
    /// Replaces the document, or inserts it if it does not exist. The `_id` must be the same.
    Put(DocBuf),
    /// Deletes the document.
    Delete,
}

/// How many documents, and how many bytes of them, one batch inserts at most.
const BATCH_DOCUMENTS: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;

/// How often the bytes of a document are in memory while it is written: the record and the value that the engine keeps;
/// and of one that is edited also the new document.
const COPIES_OF_INSERTED: usize = 2;
const COPIES_OF_EDITED: usize = 3;

impl Collection {
    /// Inserts documents, in batches. `ordered` stops at the first document that is refused. Documents without an `_id`
    /// get one.
    pub fn insert(&self, docs: &[Doc<'_>], ordered: bool, options: WriteOptions<'_>) -> Result<InsertReport> {
        let mut report = InsertReport::default();
        self.insert_rest(docs, ordered, options, &mut report)?;
        Ok(report)
    }

    /// Inserts the documents that the report does not cover yet.
    pub(crate) fn insert_rest(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        options: WriteOptions<'_>,
        report: &mut InsertReport,
    ) -> Result<()> {
        while report.done < docs.len() {
            let mut bytes = 0;
            let from = report.done;
            let fits = docs[from..]
                .iter()
                .take(BATCH_DOCUMENTS)
                .take_while(|doc| {
                    bytes += doc.as_bytes().len();
                    bytes <= BATCH_BYTES
                })
                .count()
                .max(1);
            let batch = &docs[from..from + fits];
            let stopped = self.shared.waiters.admit(options.interrupt, || {
                self.shared.evaluate(|| self.insert_batch(batch, from, ordered, options, report))
            })?;
            if stopped {
                break;
            }
            report.done += fits;
        }
        Ok(())
    }

    /// Inserts one batch. Returns whether an error ended an ordered insert.
    fn insert_batch(
        &self,
        docs: &[Doc<'_>],
        first: usize,
        ordered: bool,
        options: WriteOptions<'_>,
        report: &mut InsertReport,
    ) -> Result<bool> {
        let turn = self.begin_write()?;
        let schema: &Schema = &turn;
        if let Some(retry) = &options.retry {
            let statement = retry.statement.saturating_add(first as u32);
            self.shared.retries.check_new(
                self.shared.engine.as_ref(),
                &RetryRecord { statement, ..*retry },
                docs.len(),
            )?;
        }
        // A full disk is an error of each document, not of the command.
        if let Err(full) = self.shared.engine.writable()
            && full.is_out_of_space()
        {
            let refused = if ordered { 1 } else { docs.len() };
            report.errors.extend((first..first + refused).map(|at| (at, full.clone().into())));
            return Ok(ordered);
        }
        // Documents are checked before they are locked.
        let mut prepared: Vec<(usize, Prepared<'_>)> = Vec::with_capacity(docs.len());
        let mut errors = Vec::new();
        for (at, doc) in docs.iter().enumerate() {
            match prepare(*doc, options.timestamps).and_then(|ready| {
                self.check_design(&ready.id, options)?;
                if !options.bypass_validation {
                    check_validator(schema, ready.doc(), None)?;
                }
                Ok(ready)
            }) {
                Ok(ready) => prepared.push((first + at, ready)),
                Err(error @ Error::Engine(_)) => return Err(error),
                Err(error) => {
                    errors.push((first + at, error));
                    if ordered {
                        break;
                    }
                }
            }
        }
        // Locks are taken in one order: documents, then unique keys, then (in `commit`) the sequence.
        let _ids = self
            .shared
            .documents
            .lock_many(prepared.iter().map(|(_, ready)| (self.id.0, ready.id.as_slice())));
        self.admit_documents(schema, &_ids, prepared.iter().map(|(_, ready)| ready.id.as_slice()))?;
        let keys: Vec<Result<Vec<IndexKeys>>> =
            prepared.iter().map(|(_, ready)| index_keys(schema, ready.doc())).collect();
        let unique_keys = keys.iter().flatten().flat_map(|keys| unique_locks(schema, keys));
        let bytes = prepared.iter().map(|(_, ready)| ready.doc().as_bytes().len()).sum::<usize>();
        let _pass = self.shared.large_writes.enter(COPIES_OF_INSERTED * bytes);
        let _uniques = self.shared.unique_keys.lock_many(unique_keys);
        self.admit_unique_keys(schema, &_uniques, keys.iter().flatten())?;
        let mut currents = Vec::with_capacity(prepared.len());
        for (_, ready) in &prepared {
            currents.push(self.current(&ready.id)?);
        }
        let mut uniques = UniqueChanges::default();
        let mut ids = HashSet::new();
        let mut batch = Batch::with_capacity(prepared.len() * (2 + schema.secondary().len()));
        let mut staged = Vec::with_capacity(prepared.len());
        let mut statements = Vec::new();
        // Two documents of the batch must not have one id. Strictly ascending ids need no set to prove that.
        let rising = prepared.windows(2).all(|pair| pair[0].1.id < pair[1].1.id);
        for (((at, ready), keys), current) in prepared.iter().zip(keys).zip(&currents) {
            let outcome = keys.and_then(|keys| {
                if matches!(current, DocumentState::Live(_)) {
                    return Err(self.duplicate_id(ready.doc().get("_id").unwrap_or(Value::Null)));
                }
                if !rising && ids.contains(ready.id.as_slice()) {
                    return Err(self.duplicate_id(ready.doc().get("_id").unwrap_or(Value::Null)));
                }
                self.stage_index_changes(
                    schema,
                    &ready.id,
                    ready.doc(),
                    None,
                    Some(&keys),
                    &mut uniques,
                    &mut batch,
                )?;
                if !rising {
                    ids.insert(ready.id.as_slice());
                }
                self.stage_insert(schema, &ready.id, ready.doc(), &current.parse()?, &mut batch)
            });
            match outcome {
                Ok(change) => {
                    staged.push(change);
                    statements.push(*at as u32);
                }
                Err(error @ (Error::Engine(_) | Error::Damaged(_))) => return Err(error),
                Err(error) => {
                    errors.push((*at, error));
                    if ordered {
                        break;
                    }
                }
            }
        }
        // Errors of both loops are merged. An ordered insert reports the first document's only.
        errors.sort_by_key(|(at, _)| *at);
        if ordered {
            errors.truncate(1);
        }
        if !staged.is_empty() {
            let inserted = staged.len();
            uniques.write_to(&mut batch);
            if let Some(retry) = options.retry {
                retry.write_offsets(&mut batch, statements.into_iter());
            }
            report.commit = Some(self.commit(schema, batch, staged)?);
            report.inserted += inserted;
        }
        let stopped = ordered && !errors.is_empty();
        report.errors.append(&mut errors);
        // Trimming locks the documents that it deletes.
        drop((turn, _ids, _uniques, _pass));
        self.trim_capped()?;
        Ok(stopped)
    }

    /// Refuses to change a design document if the writer may not.
    fn check_design(&self, id: &[u8], options: WriteOptions<'_>) -> Result<()> {
        let Some(guard) = options.designs.filter(|_| is_design(id)) else { return Ok(()) };
        let namespace = self.namespace();
        if guard(&namespace) {
            return Ok(());
        }
        Err(design_error(&namespace))
    }

    /// Edits the documents with these ids under their locks. `edit` gets each document's current record and returns the
    /// change to make. All changes are committed together. An error of `edit` or of a unique index abandons all of
    /// them. Fails with [`Error::Claimed`] if an open transaction has written one of the documents.
    pub fn edit(
        &self,
        ids: &[Vec<u8>],
        options: WriteOptions<'_>,
        mut edit: impl FnMut(usize, Option<&Record<'_>>) -> Result<Edit>,
    ) -> Result<Written> {
        self.shared.evaluate(|| self.try_edit(ids, options, &mut edit))
    }

    fn try_edit(
        &self,
        ids: &[Vec<u8>],
        options: WriteOptions<'_>,
        edit: &mut dyn FnMut(usize, Option<&Record<'_>>) -> Result<Edit>,
    ) -> Result<Written> {
        let turn = self.begin_write()?;
        let schema: &Schema = &turn;
        if let Some(retry) = &options.retry {
            self.shared.retries.check_new(self.shared.engine.as_ref(), retry, 1)?;
        }
        let _ids = self.shared.documents.lock_many(ids.iter().map(|id| (self.id.0, id.as_slice())));
        self.admit_documents(schema, &_ids, ids.iter().map(Vec::as_slice))?;
        let mut currents = Vec::with_capacity(ids.len());
        for id in ids {
            currents.push(self.current(id)?);
        }
        let bytes = currents.iter().map(RawState::len).sum::<usize>();
        let _pass = self.shared.large_writes.enter(COPIES_OF_EDITED * bytes);
        let mut edits = Vec::with_capacity(ids.len());
        for (at, current) in currents.iter().enumerate() {
            let stored = current.parse()?;
            let record = stored.record();
            // `edit` may fail or keep the document, so nothing is staged before all edits are known.
            let outcome = edit(at, record)?;
            if !matches!(outcome, Edit::Keep) {
                self.check_design(&ids[at], options)?;
            }
            if let Edit::Put(doc) = &outcome {
                check_document(doc.as_doc())?;
                if !options.bypass_validation {
                    check_validator(schema, doc.as_doc(), record.map(|record| record.doc))?;
                }
            }
            edits.push((stored, outcome));
        }
        // Index entries before and after each edit. They say which unique keys to lock.
        let mut keys = Vec::with_capacity(edits.len());
        for (stored, outcome) in &edits {
            let old = match (stored, outcome) {
                (DocumentState::Live(record), Edit::Put(_) | Edit::Delete) => {
                    Some(index_keys(schema, record.doc)?)
                }
                _ => None,
            };
            let new = match outcome {
                Edit::Put(doc) => Some(index_keys(schema, doc.as_doc())?),
                _ => None,
            };
            keys.push((old, new));
        }
        // The keys of all edits are locked at once, in one order.
        let both = || keys.iter().flat_map(|(old, new)| [old, new]).flatten();
        let _uniques = self.shared.unique_keys.lock_many(both().flat_map(|keys| unique_locks(schema, keys)));
        self.admit_unique_keys(schema, &_uniques, both())?;
        let mut uniques = UniqueChanges::default();
        let mut batch = Batch::with_capacity(edits.len() * (4 + schema.secondary().len()));
        // Deletions may use the reserve of a full disk, since they free space.
        if !edits.iter().any(|(_, outcome)| matches!(outcome, Edit::Put(_))) {
            batch.take_reserve();
        }
        let mut staged = Vec::with_capacity(edits.len());
        let mut written = Written::default();
        for ((id, (stored, outcome)), (old_keys, new_keys)) in ids.iter().zip(&edits).zip(&keys) {
            let described = match outcome {
                Edit::Put(doc) => doc.as_doc(),
                _ => Doc::EMPTY,
            };
            self.stage_index_changes(
                schema,
                id,
                described,
                old_keys.as_deref(),
                new_keys.as_deref(),
                &mut uniques,
                &mut batch,
            )?;
            match (stored, outcome) {
                (_, Edit::Keep) | (DocumentState::Absent | DocumentState::Deleted(_), Edit::Delete) => {}
                (DocumentState::Absent | DocumentState::Deleted(_), Edit::Put(doc)) => {
                    staged.push(self.stage_insert(schema, id, doc.as_doc(), stored, &mut batch)?);
                    written.inserted += 1;
                }
                (DocumentState::Live(record), Edit::Put(doc)) => {
                    let next = self.stage_update(id, record, doc.as_doc(), &mut batch)?;
                    staged.push(self.staged(schema, id, stored, next, options.replaces));
                    written.replaced += 1;
                }
                (DocumentState::Live(record), Edit::Delete) => {
                    let next = self.stage_delete(id, record, &mut batch)?;
                    staged.push(self.staged(schema, id, stored, next, false));
                    written.deleted += 1;
                }
            }
        }
        uniques.write_to(&mut batch);
        if let Some(retry) = options.retry
            && !staged.is_empty()
        {
            let result = options.retry_result.and_then(|cell| cell.borrow().clone());
            match &result {
                Some(result) => RetryRecord { result: Some(result.as_doc()), ..retry }.write(&mut batch),
                None => retry.write(&mut batch),
            }
        }
        if !batch.is_empty() || !staged.is_empty() {
            written.commit = Some(self.commit(schema, batch, staged)?);
        }
        drop((turn, _ids, _uniques, _pass));
        if written.inserted > 0 {
            self.trim_capped()?;
        }
        Ok(written)
    }

    /// Stages the insert of a document that does not exist: as its first revision, or as the one after its tombstone.
    fn stage_insert<'a>(
        &self,
        schema: &Schema,
        id: &'a [u8],
        doc: Doc<'a>,
        stored: &StoredState<'a>,
        batch: &mut Batch,
    ) -> Result<StagedChange<'a>> {
        self.note_id(id)?;
        let next = match stored {
            DocumentState::Deleted(tombstone) if !tombstone.is_purged() => {
                self.stage_revival(id, tombstone, doc, &[], batch)?
            }
            _ => NextState::Live {
                doc: Cow::Borrowed(doc.as_bytes()),
                revision: None,
                marks: Marks::default(),
                attachments: Cow::Borrowed(&[]),
            },
        };
        Ok(self.staged(schema, id, stored, next, false))
    }
}
