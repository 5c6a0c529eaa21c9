//! Schema changes: the only way to create, change and drop collections, views and indexes.
//!
//! One mechanism excludes operations that must not overlap (docs/schema-changes.md has the table of pairs):
//! - Schema changes take turns in the whole store ([`SchemaChange`]). A change looks names up during its turn, so the
//!   lookup cannot go stale.
//! - A change of a collection closes its write gate, so no write relies on the old schema.
//! - All changes of the catalog are one batch. It is conditional on the catalog entries that it replaces.
//! - The catalog in memory changes after the batch is committed. A failed change leaves disk and memory as they were.
//!
//! A turn is short: no index build, no copy of documents and no wait for a sync happens during it.
//!
//! Lock order: the turn, the write gates of the collections concerned, their documents, unique keys and sequences, and
//! last the catalog's lock ([`CatalogBatch`]). Writers also take the catalog's lock, when they record that an index has
//! become multikey.

use crate::catalog::{CatalogEntry, FORMAT_VERSION};
use crate::collection::{Collection, Schema, StoppedWrites};
use crate::error::{Error, Result};
use crate::events::{Draft, EventKind, EventOrigin};
use crate::feed::DatabaseEventKind;
use crate::keys::{Key, write_number};
use crate::namespace::Namespace;
use crate::shared_store::turn;
use crate::store::{Entry, Shared};
use diwan_kv::{Batch, CommitId, Space, Turn};
use diwan_value::Doc;
use parking_lot::{MutexGuard, RwLock};
use std::collections::BTreeMap;

/// The turn of one schema change.
pub(crate) struct SchemaChange<'a> {
    shared: &'a Shared,
    _turn: MutexGuard<'a, ()>,
    // Ends last. It begins first: whoever has the other turn must not wait for this one.
    _own: Option<Turn<'a>>,
}

impl Shared {
    /// Waits for the turn to change the schema. The caller holds no write gate.
    pub fn change_schema(&self) -> SchemaChange<'_> {
        let own = turn(self.engine.as_ref());
        SchemaChange { shared: self, _turn: self.schema_changes.lock(), _own: own }
    }

    /// Drops a collection of these entries. It is gone at once; upkeep deletes its keys.
    pub fn drop_collection(
        &self,
        entries: &RwLock<BTreeMap<Namespace, Entry>>,
        change: &SchemaChange<'_>,
        collection: &Collection,
    ) -> Result<()> {
        let namespace = &collection.namespace();
        let mut stopped = collection.stop_writes();
        let numbers = collection.numbers()?;
        let mut batch = change.batch();
        batch.remove(namespace, &collection.uuid())?;
        batch.mark_dropped(&numbers);
        batch.tell(namespace, || {
            Draft::of_collection(EventKind::Drop, namespace, Some(&collection.uuid()), Doc::EMPTY)
        });
        batch.commit()?;
        entries.write().remove(namespace);
        self.retire(&mut stopped, numbers);
        self.databases.note(DatabaseEventKind::Deleted, namespace);
        Ok(())
    }

    /// Marks a collection that has left the catalog as dropped, wakes its followers, and schedules the deletion of its
    /// keys.
    pub fn retire(&self, stopped: &mut StoppedWrites<'_>, numbers: Vec<u32>) {
        stopped.publish_drop();
        self.delete_later(numbers);
    }

    /// Takes the catalog's lock and begins a batch of changes to it. The caller must not pass or close a write gate
    /// before the batch is committed.
    pub fn catalog_batch(&self) -> CatalogBatch<'_> {
        let own = turn(self.engine.as_ref());
        let next = self.numbers.next.lock();
        CatalogBatch {
            _own: own,
            shared: self,
            first: *next,
            free: *next,
            next,
            batch: Batch::new(),
            events: Vec::new(),
        }
    }
}

impl<'a> SchemaChange<'a> {
    /// Begins the batch of this change. The caller has closed the write gates concerned.
    pub fn batch(&self) -> CatalogBatch<'a> {
        self.shared.catalog_batch()
    }
}

impl Collection {
    /// Changes the schema. `edit` changes a copy of it and may add to the batch. When this returns, every write that
    /// relied on the old schema has ended.
    pub(crate) fn change_schema<T>(
        &self,
        change: &SchemaChange<'_>,
        edit: impl FnOnce(&mut CatalogBatch<'_>, &mut Schema) -> Result<T>,
    ) -> Result<T> {
        let mut stopped = self.stop_writes();
        if stopped.schema().dropped {
            return Err(self.dropped_error());
        }
        let mut schema = stopped.schema().clone();
        let mut batch = change.batch();
        let outcome = edit(&mut batch, &mut schema)?;
        batch.replace(&self.namespace(), &self.catalog_entry(&schema))?;
        batch.commit()?;
        stopped.publish(schema);
        Ok(outcome)
    }
}

/// Changes of the catalog that are committed together. Dropping it without a commit changes nothing.
pub(crate) struct CatalogBatch<'a> {
    shared: &'a Shared,
    next: MutexGuard<'a, u32>,
    first: u32,
    free: u32,
    batch: Batch,
    /// What change streams tell of the changes.
    events: Vec<Draft>,
    _own: Option<Turn<'a>>,
}

impl CatalogBatch<'_> {
    /// Tells change streams of a change to a collection, if its changes are recorded.
    pub fn tell(&mut self, namespace: &Namespace, event: impl FnOnce() -> Draft) {
        if self.shared.events.records(namespace) {
            self.events.push(event());
        }
    }

    /// Allocates a number for a collection or an index. Inside a transaction, it is one of the store outside.
    pub fn allocate(&mut self) -> Result<u32> {
        if let Some(inside) = &self.shared.inside {
            return inside.allocate();
        }
        self.free += 1;
        Ok(self.free - 1)
    }

    /// Adds writes that are committed together with the changes.
    pub fn add(&mut self, batch: Batch) {
        self.batch.append(batch);
    }

    /// Adds the entry of a free name.
    pub fn create(&mut self, name: &Namespace, entry: &CatalogEntry) {
        let key = catalog_key(name);
        self.batch.require_absent(Space::Meta, key.clone());
        self.batch.put(Space::Meta, key, entry.encode().into_bytes());
    }

    /// Replaces the entry of the same collection or view.
    pub fn replace(&mut self, name: &Namespace, entry: &CatalogEntry) -> Result<()> {
        self.replace_other(name, &entry.uuid, entry)
    }

    /// Replaces the entry of the collection or view with this identifier.
    pub fn replace_other(&mut self, name: &Namespace, old: &[u8; 16], entry: &CatalogEntry) -> Result<()> {
        let key = self.require(name, old)?;
        self.batch.put(Space::Meta, key, entry.encode().into_bytes());
        Ok(())
    }

    /// Removes the entry of the collection or view with this identifier.
    pub fn remove(&mut self, name: &Namespace, old: &[u8; 16]) -> Result<()> {
        let key = self.require(name, old)?;
        self.batch.delete(Space::Meta, key);
        Ok(())
    }

    /// Makes the batch conditional on the stored entry of a name. Fails if the entry has another identifier.
    fn require(&mut self, name: &Namespace, uuid: &[u8; 16]) -> Result<Vec<u8>> {
        let key = catalog_key(name);
        let stored = self.shared.engine.get(Space::Meta, &key)?;
        match stored.filter(|stored| CatalogEntry::uuid_of(stored) == Some(*uuid)) {
            Some(stored) => self.batch.require_equal(Space::Meta, key.clone(), stored),
            None => {
                return Err(Error::Damaged(format!(
                    "the catalog entry of {name} belongs to another collection"
                )));
            }
        }
        Ok(key)
    }

    /// Marks numbers as dropped: their keys are unreachable, and are deleted at the next start at the latest.
    pub fn mark_dropped(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.batch.put(Space::Meta, Key::Dropped(*number).bytes(), Vec::new());
        }
    }

    /// Marks numbers that only this process uses yet. If it ends before it removes the marks, the numbers are dropped.
    pub fn mark_reserved(&mut self, numbers: &[u32]) {
        for number in numbers {
            let value = reserved_value(self.shared.own_process());
            self.batch.put(Space::Meta, Key::Dropped(*number).bytes(), value);
        }
    }

    /// Removes the marks again.
    pub fn unmark_dropped(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.batch.delete(Space::Meta, Key::Dropped(*number).bytes());
        }
    }

    /// Commits the changes.
    pub fn commit(mut self) -> Result<CommitId> {
        self.shared.replica.check_writable()?;
        if self.free > self.first {
            self.batch.put(Space::Meta, Key::Format.bytes(), format_value(self.free));
        } else {
            // A change that allocates no number adds nothing of size, so it may use the reserve of a full disk.
            self.batch.take_reserve();
        }
        let commit = self.shared.events.commit(self.shared.engine.as_ref(), self.batch, self.events)?;
        *self.next = self.free;
        Ok(commit)
    }

    /// Commits the changes that a transaction made, with the events of all that it did.
    pub fn commit_together(self, events: Vec<Draft>, origin: Option<&EventOrigin<'_>>) -> Result<CommitId> {
        self.shared.events.commit_together(self.shared.engine.as_ref(), self.batch, events, origin)
    }
}

/// The value of the mark of a number that a process has reserved. Where only one process writes, none is noted: what a start
/// finds is dropped.
fn reserved_value(process: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(process) = process {
        write_number(&mut out, process.into());
    }
    out
}

fn catalog_key(name: &Namespace) -> Vec<u8> {
    Key::Catalog { database: &name.database, collection: &name.collection }.bytes()
}

/// The format record: the version, and the next free number.
pub(crate) fn format_value(next: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_number(&mut out, FORMAT_VERSION as u64);
    write_number(&mut out, next.into());
    out
}
