//! The entries of secondary indexes that a change of a document adds and removes.

use super::{Collection, Schema};
use crate::error::{DuplicateKey, Error, Result};
use crate::index::{Index, IndexKeys};
use crate::keys::{self, Key};
use diwan_kv::{Batch, Space};
use diwan_value::Doc;
use std::collections::HashMap;

/// Entries of unique indexes as the changes staged so far leave them. They are written to the batch at the end, since
/// one change may free a key that a later one takes, and a batch writes each key once.
#[derive(Default)]
pub(super) struct UniqueChanges(HashMap<Vec<u8>, Option<Vec<u8>>>);

impl UniqueChanges {
    /// Writes the entries to the batch of the changes.
    pub fn write_to(self, batch: &mut Batch) {
        for (key, value) in self.0 {
            match value {
                Some(value) => batch.put(Space::Indexes, key, value),
                None => batch.delete(Space::Indexes, key),
            }
        }
    }
}

impl Collection {
    /// Stages the changes that a change of one document makes in the secondary indexes. `old` and `new` are its entries
    /// before and after the change, `doc` is the document after it. Fails if another document has a unique key; then
    /// `uniques` and `batch` are unchanged.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn stage_index_changes(
        &self,
        schema: &Schema,
        id: &[u8],
        doc: Doc<'_>,
        old: Option<&[IndexKeys]>,
        new: Option<&[IndexKeys]>,
        uniques: &mut UniqueChanges,
        batch: &mut Batch,
    ) -> Result<()> {
        if schema.secondary().is_empty() || (old.is_none() && new.is_none()) {
            return Ok(());
        }
        let none = IndexKeys::default();
        let pairs = || {
            schema.secondary().iter().enumerate().map(|(at, index)| {
                (index, old.map_or(&none, |keys| &keys[at]), new.map_or(&none, |keys| &keys[at]))
            })
        };
        for (index, old, new) in pairs().filter(|(index, ..)| index.spec.unique) {
            for (key, _) in new.entries.iter().filter(|(key, _)| !old.contains(key)) {
                let owner = self.unique_owner(&Key::UniqueEntry(index.id, key).bytes(), uniques)?;
                if owner.is_some_and(|owner| owner != id) && !self.shared.replica.follows() {
                    return Err(self.duplicate(index, key, doc)?);
                }
            }
        }
        for (index, old, new) in pairs() {
            self.note_multikey(schema, index, new.multikey)?;
            if index.spec.unique {
                self.stage_unique_changes(index, id, old, new, uniques)?;
            } else {
                stage_plain_changes(index, id, old, new, batch);
            }
        }
        Ok(())
    }

    /// Stages the changes in one unique index.
    ///
    /// While the index is built, an entry belongs to the first document with its key that the builder or a writer
    /// added. A document that the builder has not reached may have the same key without an entry. A writer of that
    /// document leaves the other document's entry as it is: the builder reaches its document later, and adds an entry
    /// or fails.
    ///
    /// On a follower, a document may take the key of another one that has lost it on the primary: the news of that document
    /// come a little later, and leave the entry to its new owner.
    fn stage_unique_changes(
        &self,
        index: &Index,
        id: &[u8],
        old: &IndexKeys,
        new: &IndexKeys,
        uniques: &mut UniqueChanges,
    ) -> Result<()> {
        let is_own = |key: &[u8], uniques: &UniqueChanges| -> Result<bool> {
            let is_certain = index.is_ready() && !self.shared.replica.follows();
            Ok(is_certain || self.unique_owner(key, uniques)?.is_some_and(|owner| owner == id))
        };
        for (key, _) in old.entries.iter().filter(|(key, _)| !new.contains(key)) {
            let key = Key::UniqueEntry(index.id, key).bytes();
            if is_own(&key, uniques)? {
                uniques.0.insert(key, None);
            }
        }
        for (key, types) in &new.entries {
            let before = old.types_of(key);
            if before == Some(types.as_slice()) {
                continue;
            }
            let key = Key::UniqueEntry(index.id, key).bytes();
            if before.is_none() || is_own(&key, uniques)? {
                uniques.0.insert(key, Some(unique_value(id, types)));
            }
        }
        Ok(())
    }

    /// The id of the document that has a key of a unique index after the staged changes.
    fn unique_owner(&self, key: &[u8], uniques: &UniqueChanges) -> Result<Option<Vec<u8>>> {
        let owner = |value: &[u8]| split_unique_value(value).map(|(id, _)| id.to_vec());
        match uniques.0.get(key) {
            Some(staged) => staged.as_deref().map(owner).transpose(),
            None => self.shared.engine.get(Space::Indexes, key)?.map(|value| owner(&value)).transpose(),
        }
    }

    /// Stores an index's new multikey bits in the catalog, before the first entry that depends on them is written.
    pub(crate) fn note_multikey(&self, schema: &Schema, index: &Index, bits: u64) -> Result<()> {
        if !index.has_unrecorded(bits) {
            return Ok(());
        }
        index.add_multikey(bits);
        let mut batch = self.shared.catalog_batch();
        batch.replace(&self.namespace(), &self.catalog_entry(schema))?;
        batch.commit()?;
        index.note_multikey(bits);
        Ok(())
    }

    /// The error for a document whose key in a unique index another document has.
    pub(crate) fn duplicate(&self, index: &Index, key: &[u8], doc: Doc<'_>) -> Result<Error> {
        Ok(Error::DuplicateKey(Box::new(DuplicateKey {
            namespace: self.namespace().to_string(),
            index: index.spec.name.clone(),
            key_pattern: index.spec.key.clone(),
            key_value: index.key_value(doc, key)?,
        })))
    }
}

/// Stages the changes of one document's entries in an index that is not unique.
fn stage_plain_changes(index: &Index, id: &[u8], old: &IndexKeys, new: &IndexKeys, batch: &mut Batch) {
    for (key, _) in old.entries.iter().filter(|(key, _)| !new.contains(key)) {
        batch.delete(Space::Indexes, Key::Entry(index.id, key, id).bytes());
    }
    for (key, types) in &new.entries {
        // While the index is built, the old entry may not exist yet.
        if index.is_ready() && old.types_of(key) == Some(types.as_slice()) {
            continue;
        }
        batch.put(Space::Indexes, Key::Entry(index.id, key, id).bytes(), types.as_slice());
    }
}

/// The key of a position in a capped collection's order of insertion.
pub(crate) fn natural_key(prefix: &[u8], position: u64) -> Vec<u8> {
    let mut key = prefix.to_vec();
    keys::write_number(&mut key, position);
    key
}

/// The value of a unique index's entry: the length of the id, the id, the type bytes.
pub(crate) fn unique_value(id: &[u8], types: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(id.len() + types.len() + 2);
    keys::write_number(&mut out, id.len() as u64);
    out.extend_from_slice(id);
    out.extend_from_slice(types);
    out
}

/// The id and the type bytes of a unique index's entry.
pub(crate) fn split_unique_value(value: &[u8]) -> Result<(&[u8], &[u8])> {
    keys::read_number(value)
        .and_then(|(length, rest)| rest.split_at_checked(usize::try_from(length).ok()?))
        .ok_or_else(|| Error::Damaged("an entry of a unique index".to_owned()))
}

/// The entries of a document in each secondary index, in the schema's order.
pub(crate) fn index_keys(schema: &Schema, doc: Doc<'_>) -> Result<Vec<IndexKeys>> {
    schema.secondary().iter().map(|index| index.keys_of(doc)).collect()
}

/// The keys in unique indexes that a writer of these entries locks.
pub(super) fn unique_locks<'a>(
    schema: &'a Schema,
    keys: &'a [IndexKeys],
) -> impl Iterator<Item = (u32, &'a [u8])> {
    schema
        .secondary()
        .iter()
        .zip(keys)
        .filter(|(index, _)| index.spec.unique)
        .flat_map(|(index, keys)| keys.entries.iter().map(|(key, _)| (index.id.0, key.as_slice())))
}
