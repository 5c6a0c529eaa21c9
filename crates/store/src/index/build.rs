//! Building indexes beside traffic.
//!
//! A build first adds the index to the schema, so that every later write maintains it ([how](crate::schema_change)).
//! Then the builder adds the entries of all documents, in one of two ways. A document that is inserted meanwhile has
//! its entries from its writer. When all entries are written, the index becomes ready, and readers use it.
//!
//! Large collections are built [in bulk](super::bulk), which takes no locks while it reads the documents. Unique
//! indexes and small collections are built by a walk: for each run of ids, the builder takes their locks, reads the
//! current documents, and commits their entries like a writer. So it detects two documents with the same unique key.

use crate::collection::{Collection, Schema, unique_value};
use crate::error::{Error, Result};
use crate::events::{Draft, EventKind};
use crate::index::{Index, IndexSpec};
use crate::keys::{self, IndexId, Key};
use crate::numbers::Filling;
use crate::record::Record;
use crate::schema_change::CatalogBatch;
use diwan_kv::{Batch, Bytes, KeyRange, Space};
use diwan_query::{Interrupt, code};
use diwan_value::{ArrayBuilder, DocBuilder};
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many documents the builder locks at a time: few, so that a writer waits only microseconds.
const RUN: usize = 64;

/// From how many documents on an index is built in bulk. Below, syncing the tables costs more than the bulk build
/// saves.
const BULK: u64 = 10_000;

/// How often a build looks whether that of another process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The most indexes of a collection, including the one on `_id`.
const MAX_INDEXES: usize = 64;

/// The progress of a build, for observers on other threads.
#[derive(Debug, Default)]
pub struct BuildProgress {
    /// How many documents the builder has read.
    pub done: AtomicU64,
}

impl Collection {
    /// Builds the indexes that do not exist yet, and waits until they are ready. Returns how many indexes there were
    /// before and are now.
    pub fn create_indexes(
        self: &Arc<Self>,
        specs: Vec<IndexSpec>,
        interrupt: &Interrupt,
        progress: &BuildProgress,
    ) -> Result<(usize, usize)> {
        // Builds of a collection take turns, so that a second one of the same index finds it ready.
        let _building = self.building.lock();
        self.wait_for_others(&specs, interrupt)?;
        let (before, built, filling) = self.begin_indexes(specs)?;
        if built.is_empty() {
            return Ok((before, before));
        }
        let numbers: Vec<u32> = built.iter().map(|index| index.id.0).collect();
        let outcome = self
            .add_all_entries(&built, interrupt, progress)
            .and_then(|()| self.complete_indexes(&built, &numbers));
        drop(filling);
        match outcome {
            Ok(()) => Ok((before, before + built.len())),
            Err(error) => {
                let removed = self.remove_indexes(|index| numbers.contains(&index.id.0));
                if let Err(error) = removed {
                    tracing::error!(%error, "an unfinished index stays until the next start");
                }
                Err(match error {
                    Error::CollectionDropped(_) => build_aborted("collection dropped"),
                    error => error,
                })
            }
        }
    }

    /// Waits until no other process builds one of these indexes. One whose process has ended is removed after a while.
    fn wait_for_others(&self, specs: &[IndexSpec], interrupt: &Interrupt) -> Result<()> {
        let Some(peers) = self.shared.engine.peers() else { return Ok(()) };
        let is_same = |index: &Arc<Index>| {
            specs.iter().any(|spec| spec.compare_with_existing(&index.spec).unwrap_or(false))
        };
        while self.schema().secondary().iter().any(|index| !index.is_ready() && is_same(index)) {
            interrupt.check_waiting()?;
            std::thread::sleep(LOOK_EVERY);
            peers.catch_up()?;
        }
        Ok(())
    }

    /// Adds the indexes that do not exist yet to the schema, so that every later write maintains them. Returns how many
    /// indexes there were before, the new indexes, and a guard that keeps their keys from being deleted.
    fn begin_indexes(&self, specs: Vec<IndexSpec>) -> Result<(usize, Vec<Arc<Index>>, Filling<'_>)> {
        self.shared.evaluate(|| self.try_begin_indexes(specs.clone()))
    }

    fn try_begin_indexes(&self, specs: Vec<IndexSpec>) -> Result<(usize, Vec<Arc<Index>>, Filling<'_>)> {
        let change = self.shared.change_schema();
        let existing = self.schema();
        if existing.dropped {
            return Err(self.dropped_error());
        }
        let before = existing.indexes.len();
        let fresh = self.fresh_specs(&existing, specs)?;
        if fresh.is_empty() {
            return Ok((before, Vec::new(), self.shared.fill(&[])));
        }
        self.change_schema(&change, |batch, schema| {
            let mut index = |spec| Ok(Arc::new(Index::new(IndexId(batch.allocate()?), spec, false, 0)));
            let built = fresh.into_iter().map(&mut index).collect::<Result<Vec<_>>>()?;
            let numbers: Vec<u32> = built.iter().map(|index| index.id.0).collect();
            // The numbers are reserved until the build is complete, so that a start after a kill deletes the keys.
            batch.mark_reserved(&numbers);
            schema.indexes.extend(built.iter().cloned());
            Ok((before, built, self.shared.fill(&numbers)))
        })
    }

    /// The specifications that no existing index has.
    fn fresh_specs(&self, existing: &Schema, specs: Vec<IndexSpec>) -> Result<Vec<IndexSpec>> {
        let mut fresh: Vec<IndexSpec> = Vec::new();
        for spec in specs {
            let mut same = false;
            for other in existing.indexes.iter().map(|index| &index.spec).chain(&fresh) {
                same |= spec.compare_with_existing(other)?;
            }
            if !same && !(spec.is_id_index()) {
                fresh.push(spec);
            }
        }
        if existing.indexes.len() + fresh.len() > MAX_INDEXES {
            return Err(Error::refused(
                code::CANNOT_CREATE_INDEX,
                format!("add index fails, too many indexes for {}: at most {MAX_INDEXES}", self.namespace()),
            ));
        }
        Ok(fresh)
    }

    /// Marks the indexes, which hold every document now, as ready.
    fn complete_indexes(&self, built: &[Arc<Index>], numbers: &[u32]) -> Result<()> {
        self.shared.evaluate(|| self.try_complete_indexes(built, numbers))
    }

    fn try_complete_indexes(&self, built: &[Arc<Index>], numbers: &[u32]) -> Result<()> {
        let change = self.shared.change_schema();
        self.change_schema(&change, |batch, schema| {
            self.check_building(schema, built)?;
            for index in schema.indexes.iter_mut().filter(|index| numbers.contains(&index.id.0)) {
                *index = Arc::new(index.completed());
            }
            self.tell_of_indexes(batch, EventKind::CreateIndexes, built);
            batch.unmark_dropped(numbers);
            Ok(())
        })
    }

    /// Drops the indexes that `which` accepts. Their entries are deleted in the background.
    pub fn remove_indexes(&self, mut which: impl FnMut(&Index) -> bool) -> Result<()> {
        self.shared.evaluate(|| self.try_remove_indexes(&mut which))
    }

    fn try_remove_indexes(&self, which: &mut dyn FnMut(&Index) -> bool) -> Result<()> {
        let change = self.shared.change_schema();
        let schema = self.schema();
        let chosen = schema.secondary().iter().filter(|index| which(index));
        let removed: Vec<u32> = chosen.map(|index| index.id.0).collect();
        if removed.is_empty() || schema.dropped {
            return Ok(());
        }
        self.change_schema(&change, |batch, schema| {
            batch.mark_dropped(&removed);
            let gone = |index: &&Arc<Index>| removed.contains(&index.id.0) && index.is_ready();
            let gone: Vec<Arc<Index>> = schema.indexes.iter().filter(gone).cloned().collect();
            self.tell_of_indexes(batch, EventKind::DropIndexes, &gone);
            schema.indexes.retain(|index| !removed.contains(&index.id.0));
            Ok(())
        })?;
        self.shared.delete_later(removed);
        Ok(())
    }

    /// Tells change streams of indexes that are ready or gone.
    fn tell_of_indexes(&self, batch: &mut CatalogBatch<'_>, kind: EventKind, indexes: &[Arc<Index>]) {
        if indexes.is_empty() {
            return;
        }
        let namespace = self.namespace();
        batch.tell(&namespace, || {
            let mut shown = ArrayBuilder::new();
            for index in indexes {
                shown.push(index.spec.to_doc());
            }
            let mut description = DocBuilder::new();
            description.append("indexes", shown);
            Draft::of_collection(kind, &namespace, Some(&self.uuid()), description.finish().as_doc())
        });
    }

    /// Adds the entries of all documents to the new indexes.
    fn add_all_entries(
        self: &Arc<Self>,
        built: &[Arc<Index>],
        interrupt: &Interrupt,
        progress: &BuildProgress,
    ) -> Result<()> {
        let is_small = self.count() < BULK;
        let (walked, bulk): (Vec<_>, Vec<_>) =
            built.iter().cloned().partition(|index| index.spec.unique || is_small);
        if !bulk.is_empty() {
            self.add_in_bulk(&bulk, interrupt, progress)?;
        }
        if !walked.is_empty() {
            self.walk(&walked, interrupt, progress)?;
        }
        Ok(())
    }

    /// Ends the build with an error if the collection or one of the indexes was dropped meanwhile.
    pub(super) fn check_building(&self, schema: &Schema, built: &[Arc<Index>]) -> Result<()> {
        if schema.dropped {
            return Err(self.dropped_error());
        }
        if !built.iter().all(|index| schema.indexes.iter().any(|other| other.id == index.id)) {
            return Err(build_aborted("the index was dropped"));
        }
        Ok(())
    }

    /// Adds the entries of all documents by a walk, a run of documents at a time.
    fn walk(&self, built: &[Arc<Index>], interrupt: &Interrupt, progress: &BuildProgress) -> Result<()> {
        let prefix = keys::collection_prefix(self.id);
        let mut rest = KeyRange::prefix(&prefix);
        loop {
            interrupt.check()?;
            let mut ids: Vec<Vec<u8>> = Vec::with_capacity(RUN);
            self.shared.engine.snapshot().visit(Space::Records, rest.clone(), &mut |key, _| {
                ids.push(key[prefix.len()..].to_vec());
                if ids.len() < RUN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            let Some(last) = ids.last() else { return Ok(()) };
            rest.start = Bound::Excluded(Bytes::from([prefix.as_slice(), last].concat()));
            self.shared
                .waiters
                .admit(Some(interrupt), || self.shared.evaluate(|| self.add_entries(built, &ids)))?;
            progress.done.fetch_add(ids.len() as u64, Ordering::Relaxed);
        }
    }

    /// Adds the entries of the current versions of a run of documents. Fails with [`Error::Claimed`] if a transaction has
    /// written one of them, or one of their unique keys: what it commits cannot be seen yet.
    fn add_entries(&self, built: &[Arc<Index>], ids: &[Vec<u8>]) -> Result<()> {
        let turn = self.begin_write()?;
        self.check_building(&turn, built)?;
        let locked = self.shared.documents.lock_many(ids.iter().map(|id| (self.id.0, id.as_slice())));
        // Without unique keys the entries of both may be written in any order.
        let are_unique = built.iter().any(|index| index.spec.unique);
        if are_unique {
            self.refuse_claimed_documents(&locked)?;
        }
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(bytes) = self.shared.engine.get(Space::Records, &Key::Record(self.id, id).bytes())? {
                let doc = Record::parse(&bytes)?.doc;
                let keys = built.iter().map(|index| index.keys_of(doc)).collect::<Result<Vec<_>>>()?;
                documents.push((id, bytes, keys));
            }
        }
        let uniques = || {
            documents.iter().flat_map(|(_, _, keys)| {
                built.iter().zip(keys).filter(|(index, _)| index.spec.unique).flat_map(|(index, keys)| {
                    keys.entries.iter().map(|(key, _)| (index.id.0, key.as_slice()))
                })
            })
        };
        // Writers of the same keys wait, so a key that is free now is free until the commit.
        let locked_keys = self.shared.unique_keys.lock_many(uniques());
        self.refuse_claimed_unique_keys(&locked_keys)?;
        let mut batch = Batch::with_capacity(documents.len() * built.len());
        let mut taken: HashMap<Vec<u8>, &[u8]> = HashMap::new();
        for (id, bytes, keys) in &documents {
            for (index, keys) in built.iter().zip(keys) {
                self.note_multikey(&turn, index, keys.multikey)?;
                for (key, types) in &keys.entries {
                    if !index.spec.unique {
                        batch.put(Space::Indexes, Key::Entry(index.id, key, id).bytes(), types.as_slice());
                        continue;
                    }
                    // Another document may have the key: in the index, or in this run, whose batch is not committed
                    // yet.
                    let full_key = Key::UniqueEntry(index.id, key).bytes();
                    let stored = self.shared.engine.get(Space::Indexes, &full_key)?;
                    let owner = match &stored {
                        Some(value) => Some(crate::collection::split_unique_value(value)?.0),
                        None => taken.get(&full_key).copied(),
                    };
                    if owner.is_some_and(|owner| owner != id.as_slice()) {
                        return Err(self.duplicate(index, key, Record::parse(bytes)?.doc)?);
                    }
                    batch.put(Space::Indexes, full_key.clone(), unique_value(id, types));
                    taken.insert(full_key, id);
                }
            }
        }
        if !batch.is_empty() {
            self.shared.engine.commit(batch)?;
        }
        Ok(())
    }
}

fn build_aborted(reason: &str) -> Error {
    Error::refused(code::INDEX_BUILD_ABORTED, format!("Index build aborted: {reason}"))
}
