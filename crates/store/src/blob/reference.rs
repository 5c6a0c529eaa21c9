//! References to blobs: one key for each pair of a stored body and a blob, instead of a counter.
//!
//! A body is the winner's in the record, a conflict's, or a superseded one that is kept. The document's id and the
//! revision identify it. A write that stores a body with attachments adds its references in the same batch. A write
//! that removes or replaces the body deletes them in the same batch. So writers of two documents never contend for a
//! blob, and repeating a write changes nothing.
//!
//! A write that deletes a reference adds a *loose* mark, which says that the blob may have lost its last reference.
//! Each mark has a key of its own, so concurrent writes lose none. The sweeper ([`sweep`](mod@super::sweep)) reads the
//! marks.

use super::attachment::{Attachment, BlobId};
use crate::error::{Error, Result};
use crate::keys::{CollectionId, Key};
use crate::revision::Revision;
use diwan_kv::{Batch, Engine, Space};
use diwan_query::code;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

fn blobs_of(attachments: &[Attachment]) -> BTreeSet<BlobId> {
    attachments.iter().map(|attachment| attachment.blob).collect()
}

/// Adds the references of the body `revision` of document `id`, which this batch stores, to the blobs of its
/// attachments.
///
/// The caller holds the document's lock, and keeps each blob alive until the batch is committed: another stored body of
/// the same document refers to it, or the caller has a [`BlobHold`](super::BlobHold). A
/// [`StagedBlob`](super::StagedBlob) contains one. For a blob that a client names without uploading it,
/// [`Collection::hold_blob`](crate::Collection::hold_blob) gives one.
pub fn reference(
    batch: &mut Batch,
    collection: CollectionId,
    id: &[u8],
    revision: Revision,
    attachments: &[Attachment],
) {
    for blob in blobs_of(attachments) {
        batch.put(Space::Meta, Key::BlobReference { collection, blob, revision, id }.bytes(), Vec::new());
    }
}

/// Fails if one of the blobs is gone.
pub(crate) fn check_heads(
    engine: &dyn Engine,
    collection: CollectionId,
    attachments: &[Attachment],
) -> Result<()> {
    for blob in blobs_of(attachments) {
        if engine.get(Space::Meta, &Key::Blob(collection, blob).bytes())?.is_none() {
            let text = "an attachment's upload took too long, and it was removed; upload it again";
            return Err(Error::refused(code::BAD_VALUE, text));
        }
    }
    Ok(())
}

/// Deletes the references of the body `revision` of document `id`, which this batch removes.
pub fn release(
    batch: &mut Batch,
    collection: CollectionId,
    id: &[u8],
    revision: Revision,
    attachments: &[Attachment],
) {
    for blob in blobs_of(attachments) {
        batch.delete(Space::Meta, Key::BlobReference { collection, blob, revision, id }.bytes());
        loosen(batch, collection, blob);
    }
}

/// Adds a loose mark: the sweeper will check the blob's references.
pub(super) fn loosen(batch: &mut Batch, collection: CollectionId, blob: BlobId) {
    batch.put(Space::Meta, Key::LooseBlob { collection, blob, stamp: stamp() }.bytes(), Vec::new());
}

/// A number that neither this process nor an earlier one has returned before.
pub(super) fn stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let next = |last: u64| now.max(last + 1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    next(last.unwrap_or_else(|last| last))
}
