//! Holds on blobs: an upload, a reader or a writer that is about to refer to a blob keeps it from being swept.

use super::BlobId;
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::keys::{self, BlobKeys, CollectionId, Key, read_number, write_number};
use crate::store::Shared;
use diwan_kv::{KeyRange, Space};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The holds of a store, and the collections' blob totals. A head of a blob is only written or deleted under this lock.
#[derive(Default)]
pub(crate) struct Blobs {
    pub state: Mutex<BlobsState>,
}

/// The state of all blobs in memory.
#[derive(Default)]
pub(crate) struct BlobsState {
    /// The number of holds on each blob that has any.
    pub held: HashMap<(CollectionId, BlobId), usize>,
    /// The totals of the collections that were asked for them since the start.
    pub totals: HashMap<CollectionId, BlobTotals>,
}

/// The number and size of a collection's blobs. Equal contents count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobTotals {
    /// The number of blobs.
    pub count: u64,
    /// The number of stored bytes.
    pub bytes: u64,
}

/// The description of a complete blob, stored under its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The blob's length in bytes.
    pub length: u64,
    /// The size of each chunk but the last.
    pub(crate) chunk_bytes: u64,
    /// The BLAKE3 hash of the blob's bytes.
    pub hash: [u8; 32],
    /// The MD5 digest of the blob's bytes.
    pub md5: [u8; 16],
}

impl Head {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        write_number(&mut out, self.length);
        write_number(&mut out, self.chunk_bytes);
        out.extend_from_slice(&self.hash);
        out.extend_from_slice(&self.md5);
        out
    }

    pub fn parse(bytes: &[u8]) -> Result<Head> {
        let read = || {
            let (length, rest) = read_number(bytes)?;
            let (chunk_bytes, rest) = read_number(rest)?;
            let (hash, rest) = rest.split_first_chunk()?;
            let (md5, rest) = rest.split_first_chunk()?;
            let whole = rest.is_empty() && chunk_bytes > 0;
            whole.then_some(Head { length, chunk_bytes, hash: *hash, md5: *md5 })
        };
        read().ok_or_else(|| Error::Damaged("a blob's head".to_owned()))
    }
}

/// Keeps a blob from being swept until it is dropped.
pub struct BlobHold {
    shared: Arc<Shared>,
    collection: CollectionId,
    blob: BlobId,
}

impl BlobHold {
    /// Adds a hold. `state` proves that the caller has the lock.
    pub(super) fn new(
        shared: &Arc<Shared>,
        state: &mut BlobsState,
        collection: CollectionId,
        blob: BlobId,
    ) -> BlobHold {
        *state.held.entry((collection, blob)).or_insert(0) += 1;
        BlobHold { shared: shared.clone(), collection, blob }
    }

    /// The blob.
    pub fn blob(&self) -> BlobId {
        self.blob
    }
}

impl Clone for BlobHold {
    fn clone(&self) -> BlobHold {
        BlobHold::new(&self.shared, &mut self.shared.blobs.state.lock(), self.collection, self.blob)
    }
}

impl Drop for BlobHold {
    fn drop(&mut self) {
        let mut state = self.shared.blobs.state.lock();
        if let Some(count) = state.held.get_mut(&(self.collection, self.blob)) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&(self.collection, self.blob));
            }
        }
    }
}

impl std::fmt::Debug for BlobHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "hold on blob {}", self.blob)
    }
}

impl Collection {
    /// Holds an existing blob, so that it can be referred to or read; `None` if there is no such blob. For an
    /// attachment that a client names (by a stub) without uploading it.
    pub fn hold_blob(&self, blob: BlobId) -> Result<Option<BlobHold>> {
        Ok(self.hold_with_head(blob)?.map(|(hold, _)| hold))
    }

    pub(super) fn hold_with_head(&self, blob: BlobId) -> Result<Option<(BlobHold, Head)>> {
        let mut state = self.shared.blobs.state.lock();
        let head = self.shared.engine.get(Space::Meta, &Key::Blob(self.id, blob).bytes())?;
        let Some(head) = head.as_deref().map(Head::parse).transpose()? else { return Ok(None) };
        Ok(Some((BlobHold::new(&self.shared, &mut state, self.id, blob), head)))
    }

    /// The number and size of the collection's blobs. The first call counts them; later ones return the maintained
    /// totals.
    pub fn blob_totals(&self) -> Result<BlobTotals> {
        let mut state = self.shared.blobs.state.lock();
        if let Some(totals) = state.totals.get(&self.id) {
            return Ok(*totals);
        }
        let mut totals = BlobTotals::default();
        let heads = KeyRange::prefix(&keys::blobs_prefix(self.id, BlobKeys::Heads));
        let mut damaged = None;
        self.shared.engine.snapshot().visit(
            Space::Meta,
            heads,
            &mut |_, value| match Head::parse(value) {
                Ok(head) => {
                    totals.count += 1;
                    totals.bytes += head.length;
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    damaged = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        if let Some(error) = damaged {
            return Err(error);
        }
        state.totals.insert(self.id, totals);
        Ok(totals)
    }
}
