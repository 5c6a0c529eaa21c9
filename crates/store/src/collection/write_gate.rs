//! The gate between writes and changes of the schema.

use super::{Collection, Schema};
use crate::error::Result;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::ops::Deref;
use std::sync::Arc;

/// The right of one write to go on: while it is held, the schema does not change, and the collection is not dropped or
/// renamed. Shows the schema.
pub(crate) struct WriteTurn<'a>(RwLockReadGuard<'a, Arc<Schema>>);

impl Deref for WriteTurn<'_> {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.0
    }
}

/// The closed gate of a collection: no write is under way, and later ones wait until this is dropped.
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

    /// Replaces the schema, for readers at once, for writers when the gate opens.
    pub fn publish(&mut self, schema: Schema) {
        let schema = Arc::new(schema);
        *self.collection.schema.write() = schema.clone();
        *self.gate = schema;
    }
}

impl Collection {
    /// Passes the write gate. A dropped collection takes no more writes.
    pub(crate) fn begin_write(&self) -> Result<WriteTurn<'_>> {
        let gate = self.gate.read();
        if gate.dropped {
            return Err(self.dropped_error());
        }
        Ok(WriteTurn(gate))
    }

    /// Closes the write gate. Only a [change of the schema](crate::schema_change::SchemaChange) does so, and takes the
    /// locks of the catalog after this.
    pub(crate) fn stop_writes(&self) -> StoppedWrites<'_> {
        StoppedWrites { collection: self, gate: self.gate.write() }
    }
}
