//! Which blobs somebody is about to refer to, or reads: they stay, whatever refers to them.

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

/// The holds of a store, and sizes once they were asked for. Whoever makes a blob's head appear or go does so under
/// this lock.
#[derive(Default)]
pub(crate) struct Blobs {
    pub state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    /// How many holds there are on each blob that has any.
    pub held: HashMap<(CollectionId, BlobId), usize>,
    /// Of the collections that were asked for them.
    pub totals: HashMap<CollectionId, BlobTotals>,
}

/// How much a collection's blobs take, each content counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobTotals {
    /// How many there are.
    pub count: u64,
    /// How many bytes are stored.
    pub bytes: u64,
}

/// What is known of a complete blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// How many bytes it has.
    pub length: u64,
    /// How many of them a chunk has.
    pub chunk_bytes: u64,
    /// BLAKE3 of them all.
    pub hash: [u8; 32],
    /// MD5 of them all.
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
    /// Holds a blob, under the lock that `state` comes from.
    pub(super) fn new(
        shared: &Arc<Shared>,
        state: &mut State,
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
    /// Holds a blob that is there, so that it may be referred to or read; `None` if there is no such blob. For what a
    /// client names (the stub of an attachment) without having uploaded it.
    pub fn hold_blob(&self, blob: BlobId) -> Result<Option<BlobHold>> {
        Ok(self.hold_with_head(blob)?.map(|(hold, _)| hold))
    }

    pub(super) fn hold_with_head(&self, blob: BlobId) -> Result<Option<(BlobHold, Head)>> {
        let mut state = self.shared.blobs.state.lock();
        let head = self.shared.engine.get(Space::Meta, &Key::Blob(self.id, blob).bytes())?;
        let Some(head) = head.as_deref().map(Head::parse).transpose()? else { return Ok(None) };
        Ok(Some((BlobHold::new(&self.shared, &mut state, self.id, blob), head)))
    }

    /// How much the blobs of the collection take. Counted when first asked for, kept up to date from then on.
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
