//! Building indexes in bulk: entries are sorted in memory and [ingested](diwan_kv::Engine::ingest), past the journal.
//!
//! The builder reads the documents from one snapshot, without locks, and sorts and ingests their entries a run at a
//! time. The engine merges the runs. Writers maintain the index meanwhile, but ingested entries replace what they wrote
//! before: they may restore an entry that a writer deleted, or an older value of an entry. So at the end the builder
//! takes the documents that changed since the snapshot from the change log, and repairs their entries under their
//! locks. This is complete if the log is read after the last run was ingested: the writer of a later change sees every
//! ingested entry, and maintains the index itself. Deletions do not expire from the log during a build.
//!
//! Writers wait for the builder only while a run takes effect, which takes a few syncs of files, and for the locks of
//! the documents that are repaired.

use super::run::EntryRun;
use super::{BuildProgress, Index};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::keys::{self, Key};
use crate::record::Record;
use diwan_kv::{Batch, Bytes, KeyRange, Snapshot, Space};
use diwan_query::Interrupt;
use diwan_value::Doc;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// After how many documents the builder checks for an interrupt.
const LOOK_EVERY: u64 = 1024;

/// How many changed documents the builder locks at a time.
const REPAIRED: usize = 64;

/// Reads the documents of a snapshot and gathers their entries.
struct Gatherer<'a> {
    collection: &'a Collection,
    built: &'a [Arc<Index>],
    snapshot: &'a dyn Snapshot,
    /// The range of the documents that are still to be read.
    rest: KeyRange,
    run: EntryRun,
    /// The multikey bits of the gathered entries, for each index.
    multikey: Vec<u64>,
    interrupt: &'a Interrupt,
    progress: &'a BuildProgress,
}

impl Collection {
    /// Adds the entries of all documents to indexes that are not unique.
    pub(super) fn add_in_bulk(
        self: &Arc<Self>,
        built: &[Arc<Index>],
        interrupt: &Interrupt,
        progress: &BuildProgress,
    ) -> Result<()> {
        // The sequence is read before the snapshot is taken. A change in between is repaired without need; none is
        // missed.
        let since = self.last_sequence();
        let snapshot = self.shared.engine.snapshot();
        let mut gatherer = Gatherer {
            collection: self,
            built,
            snapshot: snapshot.as_ref(),
            rest: KeyRange::prefix(&keys::collection_prefix(self.id)),
            run: EntryRun::new(built),
            multikey: vec![0; built.len()],
            interrupt,
            progress,
        };
        loop {
            let more = gatherer.gather()?;
            self.shared.engine.ingest(Space::Indexes, Box::new(gatherer.run.sorted()))?;
            gatherer.run.clear();
            if !more {
                break;
            }
        }
        self.shared.evaluate(|| {
            let turn = self.begin_write()?;
            let mut found = built.iter().zip(&gatherer.multikey);
            found.try_for_each(|(index, bits)| self.note_multikey(&turn, index, *bits))
        })?;
        self.repair_changed(built, snapshot.as_ref(), since, interrupt)
    }

    /// Repairs the entries of all documents that changed after `since`.
    fn repair_changed(
        self: &Arc<Self>,
        built: &[Arc<Index>],
        ingested: &dyn Snapshot,
        mut since: u64,
        interrupt: &Interrupt,
    ) -> Result<()> {
        // This view is taken after the last run was ingested, so its log holds every change that needs a repair.
        let view = self.view();
        loop {
            interrupt.check()?;
            let mut ids = Vec::with_capacity(REPAIRED);
            view.changes(since, |change| {
                ids.push(change.id.to_vec());
                since = change.sequence;
                Ok(ids.len() < REPAIRED)
            })?;
            if ids.is_empty() {
                return Ok(());
            }
            self.shared.evaluate(|| self.repair(built, ingested, &ids))?;
        }
    }

    /// Deletes ingested entries of these documents that are outdated, and gives the others their current values.
    fn repair(&self, built: &[Arc<Index>], ingested: &dyn Snapshot, ids: &[Vec<u8>]) -> Result<()> {
        let turn = self.begin_write()?;
        self.check_building(&turn, built)?;
        let _ids = self.shared.documents.lock_many(ids.iter().map(|id| (self.id.0, id.as_slice())));
        let mut batch = Batch::new();
        for id in ids {
            let key = Key::Record(self.id, id).bytes();
            // A document that was not in the snapshot has no ingested entries.
            let Some(old) = ingested.get(Space::Records, &key)? else { continue };
            let new = self.shared.engine.get(Space::Records, &key)?;
            for index in built {
                // A document that the index could not take was ingested without entries.
                let old = index.keys_of(Record::parse(&old)?.doc).unwrap_or_default();
                let new = match &new {
                    Some(new) => index.keys_of(Record::parse(new)?.doc)?,
                    None => Default::default(),
                };
                for (key, types) in old.entries {
                    let entry = Key::Entry(index.id, &key, id).bytes();
                    match new.types_of(&key) {
                        None => batch.delete(Space::Indexes, entry),
                        Some(present) if present != types => batch.put(Space::Indexes, entry, present),
                        Some(_) => {}
                    }
                }
            }
        }
        if !batch.is_empty() {
            self.shared.engine.commit(batch)?;
        }
        Ok(())
    }
}

impl Gatherer<'_> {
    /// Fills the run. Returns false when no document is left.
    fn gather(&mut self) -> Result<bool> {
        let prefix = keys::collection_prefix(self.collection.id).len();
        let (mut outcome, mut last) = (Ok(()), None);
        let (snapshot, rest) = (self.snapshot, self.rest.clone());
        snapshot.visit(Space::Records, rest, &mut |key, value| {
            outcome = self.gather_document(&key[prefix..], value);
            if outcome.is_ok() && !self.run.is_full() {
                return ControlFlow::Continue(());
            }
            last = Some(Bytes::from(key));
            ControlFlow::Break(())
        })?;
        outcome?;
        let more = last.is_some();
        if let Some(last) = last {
            self.rest.start = Bound::Excluded(last);
        }
        Ok(more)
    }

    fn gather_document(&mut self, id: &[u8], value: &[u8]) -> Result<()> {
        if self.progress.done.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
            self.interrupt.check()?;
            self.collection.check_building(&self.collection.schema(), self.built)?;
        }
        self.add(id, value)
    }

    /// Adds the entries of one document.
    fn add(&mut self, id: &[u8], value: &[u8]) -> Result<()> {
        let doc = Record::parse(value)?.doc;
        for (at, index) in self.built.iter().enumerate() {
            match index.keys_of(doc) {
                Ok(keys) => {
                    self.multikey[at] |= keys.multikey;
                    for (key, types) in &keys.entries {
                        self.run.push(at, key, id, types);
                    }
                }
                Err(error) => self.ignore_if_outdated(id, doc, error)?,
            }
        }
        Ok(())
    }

    /// Ignores the error of a document that was changed or deleted since the snapshot: its writer has checked that the
    /// index accepts its current version.
    fn ignore_if_outdated(&self, id: &[u8], doc: Doc<'_>, error: Error) -> Result<()> {
        let now = self.collection.get(id)?;
        match now.filter(|now| now.doc().as_bytes() == doc.as_bytes()) {
            Some(_) => Err(error),
            None => Ok(()),
        }
    }
}
