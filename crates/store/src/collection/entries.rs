//! The entries of secondary indexes that a change of a document brings and takes away.

use super::{Collection, Schema};
use crate::error::{DuplicateKey, Error, Result};
use crate::index::{Index, IndexKeys};
use crate::keys::{self, Key};
use diwan_kv::{Batch, Space};
use diwan_value::Doc;
use std::collections::HashMap;

/// Keys of unique indexes (and ids) as they will be after the changes staged so far.
pub(super) type Overlay = HashMap<Vec<u8>, Option<Vec<u8>>>;

impl Collection {
    /// batch and overlay as they were.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn stage_index_changes(
        &self,
        schema: &Schema,
        id: &[u8],
        doc: Doc<'_>,
        old: Option<&[IndexKeys]>,
        new: Option<&[IndexKeys]>,
        overlay: &mut Overlay,
        batch: &mut Batch,
    ) -> Result<()> {
        if schema.secondary().is_empty() || (old.is_none() && new.is_none()) {
            return Ok(());
        }
        let none = IndexKeys::default();
        let pairs = || {
            schema.secondary().iter().enumerate().map(|(at, index)| {
                let of = |keys: Option<&[IndexKeys]>| keys.map_or(&none, |keys| &keys[at]).clone();
                (index, of(old), of(new))
            })
        };
        for (index, old, new) in pairs().filter(|(index, ..)| index.spec.unique) {
            for (key, _) in new.entries.iter().filter(|(key, _)| !old.contains(key)) {
                self.check_unique(index, key, id, doc, overlay)?;
            }
        }
        for (index, old, new) in pairs() {
            if index.is_news(new.multikey) {
                self.shared.save_multikey(self, index, new.multikey)?;
            }
            let full_key = |key: &[u8]| match index.spec.unique {
                true => Key::UniqueEntry(index.id, key).bytes(),
                false => Key::Entry(index.id, key, id).bytes(),
            };
            for (key, _) in old.entries.iter().filter(|(key, _)| !new.contains(key)) {
                let key = full_key(key);
                if index.spec.unique {
                    overlay.insert(key.clone(), None);
                }
                batch.delete(Space::Indexes, key);
            }
            for (key, types) in &new.entries {
                let unchanged = old.entries.iter().any(|other| &other.0 == key && &other.1 == types);
                if unchanged && index.is_ready() {
                    continue;
                }
                let key = full_key(key);
                if index.spec.unique {
                    overlay.insert(key.clone(), Some(id.to_vec()));
                    batch.put(Space::Indexes, key, unique_value(id, types));
                } else {
                    batch.put(Space::Indexes, key, types.as_slice());
                }
            }
        }
        Ok(())
    }

    fn check_unique(
        &self,
        index: &Index,
        key: &[u8],
        id: &[u8],
        doc: Doc<'_>,
        overlay: &Overlay,
    ) -> Result<()> {
        let full_key = Key::UniqueEntry(index.id, key).bytes();
        let taken = match overlay.get(&full_key) {
            Some(owner) => owner.as_ref().is_some_and(|owner| owner != id),
            None => match self.shared.engine.get(Space::Indexes, &full_key)? {
                Some(value) => split_unique_value(&value)?.0 != id,
                None => false,
            },
        };
        if taken { Err(self.duplicate(index, key, doc)?) } else { Ok(()) }
    }

    /// The error for a document of which this key in a unique index is taken.
    pub(crate) fn duplicate(&self, index: &Index, key: &[u8], doc: Doc<'_>) -> Result<Error> {
        Ok(Error::DuplicateKey(Box::new(DuplicateKey {
            namespace: self.namespace().to_string(),
            index: index.spec.name.clone(),
            key_pattern: index.spec.key.clone(),
            key_value: index.key_value(doc, key)?,
        })))
    }
}

/// The key of a capped collection's document in the order of insertion.
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

/// The entries of a document in all secondary indexes, in their order.
pub(crate) fn index_keys(schema: &Schema, doc: Doc<'_>) -> Result<Vec<IndexKeys>> {
    schema.secondary().iter().map(|index| index.keys_of(doc)).collect()
}

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
