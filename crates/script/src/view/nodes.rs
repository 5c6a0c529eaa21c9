//! Tree nodes in the store.

use crate::error::{Error, Result};
use crate::tree::{Nodes, NodesMut};
use diwan_kv::{Batch, Bytes, Snapshot, Space};
use diwan_store::keys::{IndexId, Key};
use std::collections::HashMap;

/// The nodes of one view in a snapshot.
pub(super) struct StoredNodes<'a> {
    pub snapshot: &'a dyn Snapshot,
    pub index: IndexId,
    pub view: u32,
}

impl Nodes for StoredNodes<'_> {
    fn read(&self, node: u64) -> Result<Bytes> {
        let key = Key::ViewNode(self.index, self.view, node).bytes();
        self.snapshot.get(Space::Indexes, &key)?.ok_or_else(|| {
            Error::Store(diwan_store::Error::Damaged(format!("a view lacks {}", describe(&key))))
        })
    }
}

fn describe(key: &[u8]) -> String {
    diwan_store::keys::describe(Space::Indexes, key)
}

/// The nodes of a snapshot with changes that are not yet written.
pub(super) struct ChangedNodes<'a> {
    stored: StoredNodes<'a>,
    changed: HashMap<u64, Option<Bytes>>,
}

impl<'a> ChangedNodes<'a> {
    pub fn new(stored: StoredNodes<'a>) -> ChangedNodes<'a> {
        ChangedNodes { stored, changed: HashMap::new() }
    }

    /// Adds the changes to a batch.
    pub fn write_to(self, batch: &mut Batch) {
        for (node, bytes) in self.changed {
            let key = Key::ViewNode(self.stored.index, self.stored.view, node).bytes();
            match bytes {
                Some(bytes) => batch.put(Space::Indexes, key, bytes),
                None => batch.delete(Space::Indexes, key),
            }
        }
    }
}

impl Nodes for ChangedNodes<'_> {
    fn read(&self, node: u64) -> Result<Bytes> {
        match self.changed.get(&node) {
            Some(Some(bytes)) => Ok(bytes.clone()),
            Some(None) => {
                Err(Error::Store(diwan_store::Error::Damaged("a removed node of a view".to_owned())))
            }
            None => self.stored.read(node),
        }
    }
}

impl NodesMut for ChangedNodes<'_> {
    fn write(&mut self, node: u64, bytes: Vec<u8>) -> Result<()> {
        self.changed.insert(node, Some(bytes.into()));
        Ok(())
    }

    fn remove(&mut self, node: u64) -> Result<()> {
        self.changed.insert(node, None);
        Ok(())
    }
}

/// The size of new nodes that are committed together, in bytes.
const BATCH_BYTES: usize = 4 << 20;

/// Commits a batch of new nodes.
pub(super) type Commit<'a> = &'a dyn Fn(Batch) -> Result<()>;

/// The nodes of a new tree, written to the store in batches.
pub(super) struct NewNodes<'a> {
    index: IndexId,
    view: u32,
    batch: Batch,
    bytes: usize,
    commit: Commit<'a>,
}

impl<'a> NewNodes<'a> {
    pub fn new(index: IndexId, view: u32, commit: Commit<'a>) -> NewNodes<'a> {
        NewNodes { index, view, batch: Batch::new(), bytes: 0, commit }
    }

    /// The batch that is not committed yet.
    pub fn finish(self) -> Batch {
        self.batch
    }
}

impl Nodes for NewNodes<'_> {
    fn read(&self, _: u64) -> Result<Bytes> {
        Err(Error::Store(diwan_store::Error::Damaged("a new tree is not read".to_owned())))
    }
}

impl NodesMut for NewNodes<'_> {
    fn write(&mut self, node: u64, bytes: Vec<u8>) -> Result<()> {
        self.bytes += bytes.len();
        self.batch.put(Space::Indexes, Key::ViewNode(self.index, self.view, node).bytes(), bytes);
        if self.bytes >= BATCH_BYTES {
            self.bytes = 0;
            (self.commit)(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    fn remove(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}
