//! Who needs a blob: one key for each stored body and blob, never a counter.
//!
//! A body is the winner's in the record, a conflict's, or a superseded one that is kept: all are named by the
//! document's id and their revision. Whoever stores a body with attachments puts its references in the same batch, and
//! whoever removes the body (or lets the same document's next one take its place) takes them away in the same batch. So
//! writers of two documents never meet over a blob, and repeating a write changes nothing.
//!
//! When a reference goes, a *loose* mark says that the blob may have lost its last one. Marks have keys of their own,
//! so that none is lost when several come at once; the sweeper (see [`sweep`](mod@super::sweep)) follows them.

use super::attachment::{Attachment, BlobId};
use crate::keys::{CollectionId, Key};
use crate::revision::Revision;
use diwan_kv::{Batch, Space};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

fn blobs_of(attachments: &[Attachment]) -> BTreeSet<BlobId> {
    attachments.iter().map(|attachment| attachment.blob).collect()
}

/// Notes that the body `revision` of document `id`, stored by this batch, has these attachments.
///
/// The document's lock must be held, and each blob be safe until the batch is committed: either another stored body
/// of the same document refers to it, or a [`BlobHold`](super::BlobHold) (a [`StagedBlob`](super::StagedBlob) has one)
/// is held. A hold on what a client names without having uploaded it is had from
/// [`Collection::hold_blob`](crate::Collection::hold_blob).
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

/// Notes that the body `revision` of document `id` is no longer stored after this batch.
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

/// Marks a blob to be looked at.
pub(super) fn loosen(batch: &mut Batch, collection: CollectionId, blob: BlobId) {
    batch.put(Space::Meta, Key::LooseBlob { collection, blob, stamp: stamp() }.bytes(), Vec::new());
}

/// A number that was never given before, by this process or an earlier one.
pub(super) fn stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let next = |last: u64| now.max(last + 1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    next(last.unwrap_or_else(|last| last))
}
