//! What a transaction does to a collection: the private collection that its statements change, and how its documents are
//! taken over when it is committed.

use super::document_state::{DocumentState, NextState, RawState, Winner};
use super::sequence::SequenceState;
use super::stage::{StagedChange, is_design};
use super::{Collection, Recovered, Schema};
use crate::catalog::CatalogEntry;
use crate::error::{Error, Result};
use crate::events::{DocumentChange, Draft};
use crate::keys::{self, CollectionId, Key};
use crate::namespace::Namespace;
use crate::record::Record;
use crate::store::Shared;
use diwan_kv::{Batch, Bytes, KeyRange, Snapshot, Space};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// The documents that a transaction has changed in one collection, in the order in which it changed them.
pub(crate) struct AdoptedChanges {
    documents: Vec<AdoptedDocument>,
    /// Whether the transaction has recorded the events of the changes. Otherwise they are made from the documents.
    are_recorded: bool,
}

struct AdoptedDocument {
    id: Bytes,
    /// As it is outside.
    before: RawState,
    /// As the transaction leaves it.
    after: RawState,
}

impl AdoptedChanges {
    /// Reads the documents with these ids. The caller has locked them outside.
    pub fn read(
        outside: &Collection,
        inside: &Collection,
        schema: &Schema,
        changed: &[Bytes],
    ) -> Result<AdoptedChanges> {
        let mut documents = BTreeMap::new();
        for id in changed {
            let (before, after) = (outside.current(id)?, inside.current(id)?);
            if before.parse()?.sequence() > outside.last_sequence() {
                // Another process has written it since this turn began.
                return Err(Error::Engine(diwan_kv::Error::Stale));
            }
            let order = after.parse()?.sequence();
            documents.insert((order, id.clone()), AdoptedDocument { id: id.clone(), before, after });
        }
        let are_recorded = inside.schema().recorded || !schema.recorded;
        Ok(AdoptedChanges { documents: documents.into_values().collect(), are_recorded })
    }
}

impl AdoptedChanges {
    /// Whether the documents are outside as a snapshot has them.
    pub fn are_based_on(&self, snapshot: &dyn Snapshot, collection: CollectionId) -> Result<bool> {
        for document in &self.documents {
            let record = snapshot.get(Space::Records, &Key::Record(collection, &document.id).bytes())?;
            let base: RawState = match record {
                Some(record) => DocumentState::Live(record),
                None => snapshot
                    .get(Space::Revisions, &Key::Tombstone(collection, &document.id).bytes())?
                    .map_or(DocumentState::Absent, DocumentState::Deleted),
            };
            if base.parse()?.sequence() != document.before.parse()?.sequence() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Collection {
    /// The private collection of a transaction. `counterpart` is the same collection outside.
    pub(crate) fn open_inside(
        shared: Arc<Shared>,
        name: Namespace,
        entry: CatalogEntry,
        counterpart: Option<Arc<Collection>>,
    ) -> Result<Collection> {
        // What statements learn of the indexes is the transaction's own until it is committed.
        let indexes = entry.indexes.iter().map(|index| Arc::new(index.detached())).collect();
        let mut recovered = Recovered::from_log();
        let mut greatest = None;
        if let Some(counterpart) = &counterpart {
            recovered.settings = counterpart.settings.all();
            // Those that were inserted after the snapshot do no harm: they make an upper bound.
            greatest.clone_from(&counterpart.greatest_id.lock());
        }
        let mut collection = Collection::open(shared, name, CatalogEntry { indexes, ..entry }, recovered)?;
        if greatest.is_some() {
            *collection.greatest_id.get_mut() = greatest;
        }
        collection.counterpart = counterpart;
        Ok(collection)
    }

    /// The same collection outside, of a transaction's private collection.
    pub(crate) fn counterpart(&self) -> Option<&Arc<Collection>> {
        self.counterpart.as_ref()
    }

    /// Whether only one transaction knows the collection, because it has created it.
    pub fn is_private(&self) -> bool {
        self.shared.inside.as_ref().is_some_and(|inside| inside.numbers.lock().contains(&self.id.0))
    }

    /// Stores the multikey bits of a transaction's private indexes.
    pub(crate) fn adopt_multikey(&self, schema: &Schema, inside: &Schema) -> Result<()> {
        for (index, own) in schema.indexes.iter().zip(&inside.indexes) {
            self.note_multikey(schema, index, own.multikey())?;
        }
        Ok(())
    }

    /// Adds the writes of a transaction's documents to its batch. Returns the locked sequence, and the state that it gets
    /// when the batch is committed.
    pub(crate) fn write_adopted<'a>(
        &'a self,
        schema: &Schema,
        changes: &AdoptedChanges,
        batch: &mut Batch,
        events: &mut Vec<Draft>,
    ) -> Result<(MutexGuard<'a, SequenceState>, SequenceState)> {
        let natural = keys::natural_prefix(self.id);
        let sequence = self.sequence.lock();
        let mut state = SequenceState { ..*sequence };
        let newest = changes.documents.len().saturating_sub(1);
        for (at, document) in changes.documents.iter().enumerate() {
            self.note_id(&document.id)?;
            let (before, after) = (document.before.parse()?, document.after.parse()?);
            let next = match &after {
                DocumentState::Live(record) => NextState::from(Winner::of_record(record)),
                DocumentState::Deleted(tombstone) if !tombstone.is_purged() => {
                    NextState::from(Winner::of_tombstone(tombstone))
                }
                // Inserted and deleted again.
                DocumentState::Absent | DocumentState::Deleted(_) => NextState::Purged,
            };
            let change = match changes.are_recorded {
                true => StagedChange::new(&document.id, &before, next),
                false => self.staged(schema, &document.id, &before, next, false),
            };
            events.extend(self.write_change(&mut state, batch, change, false, &natural, at == newest));
        }
        if self.shared.has_peers() {
            state.note(self.id, batch);
        }
        Ok((sequence, state))
    }

    /// The events of a private collection's creation and of its documents.
    pub(crate) fn events_of_creation(&self) -> Result<Vec<Draft>> {
        let (name, uuid, schema) = (self.namespace(), self.uuid(), self.schema());
        let mut events = vec![Draft::of_creation(&name, &self.catalog_entry(&schema))];
        let mut failure = None;
        let records = KeyRange::prefix(&keys::collection_prefix(self.id));
        self.shared.engine.snapshot().visit(Space::Records, records, &mut |_, value| match Record::parse(
            value,
        ) {
            Ok(record) => {
                let (new, images) = (Some(record.doc), schema.options.images);
                let change = DocumentChange { old: None, new, replaces: false, images };
                events.extend(Draft::of_document(&name, &uuid, &change));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failure.map_or(Ok(events), Err)
    }

    /// Makes the changes known after the commit.
    pub(crate) fn publish_adopted(
        &self,
        (mut sequence, state): (MutexGuard<'_, SequenceState>, SequenceState),
        changes: &AdoptedChanges,
    ) {
        *sequence = state;
        self.sequence.publish(&sequence);
        drop(sequence);
        if changes.documents.iter().any(|document| is_design(&document.id)) {
            self.designs.fetch_add(1, Ordering::SeqCst);
        }
        self.changed();
    }
}
