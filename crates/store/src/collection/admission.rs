//! Which writes may go on beside open transactions. Every write asks once it has the locks of what it writes.

use super::{Collection, Schema};
use crate::error::{Error, Result};
use crate::index::IndexKeys;
use crate::keys::Key;
use crate::locks::{Held, HeldOne};
use diwan_kv::Space;

impl Collection {
    /// Admits a write of documents whose locks are held. A write outside of transactions fails with
    /// [`Error::Claimed`] if a transaction has written one of them. A transaction's write claims them, and fails if they
    /// have changed since its snapshot.
    pub(super) fn admit_documents<'k>(
        &self,
        schema: &Schema,
        held: &Held<'_>,
        ids: impl Iterator<Item = &'k [u8]>,
    ) -> Result<()> {
        let Some(inside) = &self.shared.inside else {
            return self.refuse_claimed_documents(held);
        };
        if schema.options.capped.is_some() {
            return Err(Error::refused(
                263,
                format!(
                    "Collection '{}' is a capped collection. Writes in transactions are not allowed on capped \
                     collections.",
                    self.namespace()
                ),
            ));
        }
        let Some(counterpart) = &self.counterpart else { return Ok(()) };
        let mut ids = ids;
        ids.try_for_each(|id| {
            if !inside.claim_document(counterpart, id)? {
                return Ok(());
            }
            // The transaction has not written the document before, so this is its state in the snapshot.
            let (before, now) = (self.current(id)?, counterpart.current(id)?);
            if before.parse()?.sequence() == now.parse()?.sequence() {
                Ok(())
            } else {
                Err(inside.conflict())
            }
        })
    }

    /// Admits a write of one document whose lock is held, outside of transactions.
    pub(super) fn admit_document(&self, held: &HeldOne<'_>) -> Result<()> {
        refuse(self.shared.documents.claimant(held.hashes()))
    }

    /// Admits a write that adds or removes keys of unique indexes, whose locks are held. `keys` are the keys that the
    /// written documents have before and after the write.
    pub(super) fn admit_unique_keys<'k>(
        &self,
        schema: &Schema,
        held: &Held<'_>,
        keys: impl Iterator<Item = &'k Vec<IndexKeys>>,
    ) -> Result<()> {
        let Some(inside) = &self.shared.inside else {
            return self.refuse_claimed_unique_keys(held);
        };
        let Some(counterpart) = &self.counterpart else { return Ok(()) };
        for (id, key) in keys.flat_map(|keys| super::entries::unique_locks(schema, keys)) {
            if inside.claim_unique_key(id, key)? {
                let key = Key::UniqueEntry(crate::keys::IndexId(id), key).bytes();
                let before = self.shared.engine.get(Space::Indexes, &key)?;
                if before != counterpart.shared.engine.get(Space::Indexes, &key)? {
                    return Err(inside.conflict());
                }
            }
        }
        Ok(())
    }

    /// Fails with [`Error::Claimed`] if an open transaction has written one of the documents whose locks are held.
    pub(crate) fn refuse_claimed_documents(&self, held: &Held<'_>) -> Result<()> {
        refuse(self.shared.documents.claimant(held.hashes()))
    }

    /// Fails with [`Error::Claimed`] if an open transaction has written one of the unique keys whose locks are held.
    pub(crate) fn refuse_claimed_unique_keys(&self, held: &Held<'_>) -> Result<()> {
        refuse(self.shared.unique_keys.claimant(held.hashes()))
    }

    /// Whether an open transaction has written one of the documents whose locks are held.
    pub(super) fn are_claimed(&self, held: &Held<'_>) -> bool {
        self.shared.documents.claimant(held.hashes()).is_some()
    }
}

fn refuse(claimant: Option<std::sync::Arc<crate::transaction::Claimant>>) -> Result<()> {
    claimant.map_or(Ok(()), |claimant| Err(Error::Claimed(claimant)))
}
