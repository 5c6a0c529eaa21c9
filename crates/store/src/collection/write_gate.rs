//! The gate between writes and schema changes.

use super::{Collection, Schema};
use crate::error::Result;
use crate::feed::DatabaseEventKind;
use crate::shared_store::turn;
use diwan_kv::{Batch, CommitId, Turn};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::ops::Deref;
use std::sync::Arc;

/// A writer's pass through the gate. While it is held, the schema does not change, and the collection is not dropped or
/// renamed. It dereferences to the schema.
pub(crate) struct WriteTurn<'a> {
    gate: RwLockReadGuard<'a, Arc<Schema>>,
    // Ends after the gate is left.
    _turn: Option<Turn<'a>>,
}

impl Deref for WriteTurn<'_> {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.gate
    }
}

/// The closed gate of a collection: no write is running, and later ones wait until this is dropped.
pub(crate) struct StoppedWrites<'a> {
    collection: &'a Collection,
    gate: RwLockWriteGuard<'a, Arc<Schema>>,
}

impl<'a> StoppedWrites<'a> {
    /// The collection.
    pub fn collection(&self) -> &'a Collection {
        self.collection
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.gate
    }

    /// Replaces the schema. Readers see the new one at once, writers when the gate opens.
    pub fn publish(&mut self, schema: Schema) {
        let schema = Arc::new(schema);
        *self.collection.schema.write() = schema.clone();
        let before = std::mem::replace(&mut *self.gate, schema);
        if !before.shows_the_same_as(&self.gate) {
            let databases = &self.collection.shared.databases;
            databases.note(DatabaseEventKind::Altered, &self.collection.namespace());
        }
    }
}

impl StoppedWrites<'_> {
    /// Refuses writes from now on, because the collection has left the catalog, and wakes its followers.
    pub fn publish_drop(&mut self) {
        self.publish(Schema { dropped: true, ..self.schema().clone() });
        self.collection.watchers.wake();
    }
}

impl Collection {
    /// Passes the write gate, in a [turn](crate::shared_store). Fails if the collection was dropped, and on a follower.
    pub(crate) fn begin_write(&self) -> Result<WriteTurn<'_>> {
        self.shared.replica.check_writable()?;
        let turn = turn(self.shared.engine.as_ref());
        let gate = self.gate.read();
        if gate.dropped {
            return Err(self.dropped_error());
        }
        Ok(WriteTurn { gate, _turn: turn })
    }

    /// Commits writes that depend on nothing but that the collection exists.
    pub(crate) fn commit_unless_dropped(&self, batch: Batch) -> Result<CommitId> {
        self.shared.evaluate_batch(batch, |batch| {
            let _turn = self.begin_write()?;
            Ok(self.shared.engine.commit(batch)?)
        })
    }

    /// Closes the write gate and waits for the running writes. Only what follows other processes ([`crate::follow`]) and a
    /// [schema change](crate::schema_change::SchemaChange) does so, and takes the catalog's lock afterwards.
    pub(crate) fn stop_writes(&self) -> StoppedWrites<'_> {
        StoppedWrites { collection: self, gate: self.gate.write() }
    }
}
