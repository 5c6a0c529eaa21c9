//! Building indexes beside traffic.
//!
//! The index is set into the schema first, so that every write from then on maintains it ([how](crate::schema_change)). Then the builder adds the
//! entries of all documents, in one of two ways. A document inserted meanwhile needs nothing: its writer has added its
//! entries. Readers use the index when all are there.
//!
//! Large collections: [in bulk](super::bulk), which takes no locks while the documents are read. Unique indexes, and
//! collections so small that it does not pay: by a walk, which for a run of ids takes their locks, reads them as they are
//! now, and commits their entries like any writer. Two documents with one key are found that way.

use crate::collection::{Collection, Schema, unique_value};
use crate::error::{Error, Result};
use crate::index::{Index, IndexSpec};
use crate::keys::{self, IndexId, Key};
use crate::numbers::Filling;
use crate::record::Record;
use diwan_kv::{Batch, Bytes, KeyRange, Space};
use diwan_query::{Interrupt, code};
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many documents are locked at a time: few enough that a writer waits for microseconds.
const RUN: usize = 64;

/// From how many documents on an index is built in bulk: below, syncing its tables would cost more than it saves.
const BULK: u64 = 10_000;

/// The most indexes of a collection, the one on `_id` counted.
const MAX_INDEXES: usize = 64;

/// How far a build has come, for whoever watches.
#[derive(Debug, Default)]
pub struct BuildProgress {
    /// How many documents have been walked.
    pub done: AtomicU64,
}

impl Collection {
    /// Builds the indexes that are not there yet and returns how many there were before. Waits until they are ready.
    pub fn create_indexes(
        self: &Arc<Self>,
        specs: Vec<IndexSpec>,
        interrupt: &Interrupt,
        progress: &BuildProgress,
    ) -> Result<(usize, usize)> {
        // One build at a time in a collection: a second asks again what is there when the first has ended.
        let _building = self.building.lock();
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

    /// Sets the indexes that are not there yet into the schema, so that every later write maintains them. Gives how many
    /// there were before, too, and keeps the new ones' keys from being deleted.
    fn begin_indexes(&self, specs: Vec<IndexSpec>) -> Result<(usize, Vec<Arc<Index>>, Filling<'_>)> {
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
            let index = |spec| Arc::new(Index::new(IndexId(batch.allocate()), spec, false, 0));
            let built: Vec<Arc<Index>> = fresh.into_iter().map(index).collect();
            let numbers: Vec<u32> = built.iter().map(|index| index.id.0).collect();
            // Dropped until they are complete, so that a kill leaves nothing behind.
            batch.mark_dropped(&numbers);
            schema.indexes.extend(built.iter().cloned());
            Ok((before, built, self.shared.fill(&numbers)))
        })
    }

    /// Those of the specifications that no index has.
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

    /// Lets readers use the indexes, which hold every document now.
    fn complete_indexes(&self, built: &[Arc<Index>], numbers: &[u32]) -> Result<()> {
        let change = self.shared.change_schema();
        self.change_schema(&change, |batch, schema| {
            self.check_building(schema, built)?;
            for index in schema.indexes.iter_mut().filter(|index| numbers.contains(&index.id.0)) {
                *index = Arc::new(index.completed());
            }
            batch.unmark_dropped(numbers);
            Ok(())
        })
    }

    /// Drops indexes and has their entries deleted in the background. A dropped collection has none.
    pub fn remove_indexes(&self, mut which: impl FnMut(&Index) -> bool) -> Result<()> {
        let change = self.shared.change_schema();
        let schema = self.schema();
        let chosen = schema.secondary().iter().filter(|index| which(index));
        let removed: Vec<u32> = chosen.map(|index| index.id.0).collect();
        if removed.is_empty() || schema.dropped {
            return Ok(());
        }
        self.change_schema(&change, |batch, schema| {
            batch.mark_dropped(&removed);
            schema.indexes.retain(|index| !removed.contains(&index.id.0));
            Ok(())
        })?;
        self.shared.delete_later(removed);
        Ok(())
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

    /// Refuses to go on with indexes that were dropped meanwhile.
    pub(super) fn check_building(&self, schema: &Schema, built: &[Arc<Index>]) -> Result<()> {
        if schema.dropped {
            return Err(self.dropped_error());
        }
        if !built.iter().all(|index| schema.indexes.iter().any(|other| other.id == index.id)) {
            return Err(build_aborted("the index was dropped"));
        }
        Ok(())
    }

    /// Adds the entries of all documents, a run of documents at a time.
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
            self.add_entries(built, &ids)?;
            progress.done.fetch_add(ids.len() as u64, Ordering::Relaxed);
        }
    }

    /// Adds the entries of a run of documents, as they are now.
    fn add_entries(&self, built: &[Arc<Index>], ids: &[Vec<u8>]) -> Result<()> {
        let turn = self.begin_write()?;
        self.check_building(&turn, built)?;
        let _ids = self.shared.documents.lock_many(ids.iter().map(|id| (self.id.0, id.as_slice())));
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
        let _uniques = self.shared.unique_keys.lock_many(uniques());
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
