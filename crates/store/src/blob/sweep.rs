//! Deleting blobs that have no references.
//!
//! The sweeper reads the loose marks one after another. It skips blobs that are held. For any other, it checks the
//! holds and the references under the lock that new holds take. If there is no reference, it deletes the head under
//! that lock, so that no writer can refer to the blob any more. Then it deletes the chunks, and last the marks: after a
//! kill in between, the marks lead the next sweep to the rest.

use super::reference::stamp;
use super::{BlobId, Head};
use crate::error::{Error, Result};
use crate::keys::{self, BlobKeys, CollectionId, Key, read_number};
use crate::shared_store::turn;
use crate::store::Shared;
use diwan_kv::{Batch, Direction, KeyRange, Space};
use std::collections::BTreeMap;
use std::time::Duration;

/// An upload or a reader of another process is not known here. None lasts longer, or it ends with an error.
const HELD_ELSEWHERE: Duration = Duration::from_secs(6 * 3600);

/// How many marks are read at a time.
const RUN: usize = 1000;

/// Checks the blobs of all loose marks, until `stopped` returns true. Returns whether it checked all. A blob that cannot
/// be removed is logged and does not delay the others.
pub(crate) fn sweep(shared: &Shared, stopped: impl Fn() -> bool) -> Result<bool> {
    let mut after: Option<Vec<u8>> = None;
    let prefix = keys::loose_prefix(None);
    loop {
        let range = keys::range_after(&prefix, after.as_deref());
        let mut marks: BTreeMap<(CollectionId, BlobId), Vec<Vec<u8>>> = BTreeMap::new();
        let mut count = 0;
        for pair in shared.engine.snapshot().scan(Space::Meta, range, Direction::Forward).take(RUN) {
            let (key, _) = pair?;
            let named = split(&key[prefix.len()..])
                .ok_or_else(|| Error::Damaged(keys::describe(Space::Meta, &key)))?;
            marks.entry(named).or_default().push(key.to_vec());
            after = Some(key[prefix.len()..].to_vec());
            count += 1;
        }
        for ((collection, blob), keys) in marks {
            if stopped() {
                return Ok(false);
            }
            let keys = &keys;
            if let Err(error) = shared.evaluate(|| sweep_blob(shared, collection, blob, keys)) {
                tracing::error!(%error, %blob, collection = collection.0, "sweeping a blob failed");
            }
        }
        if count < RUN {
            return Ok(true);
        }
    }
}

/// Parses the key of a mark, without its prefix, into the collection and the blob.
pub(super) fn split(key: &[u8]) -> Option<(CollectionId, BlobId)> {
    let (number, rest) = read_number(key)?;
    let (blob, stamp) = rest.split_first_chunk::<16>()?;
    (stamp.len() == 8).then_some((CollectionId(u32::try_from(number).ok()?), BlobId(*blob)))
}

/// Whether another process may still hold the blob of a mark, whose key ends with the time at which it was made.
fn is_young(mark: &[u8]) -> bool {
    let made = mark.last_chunk().map_or(0, |nanos| u64::from_be_bytes(*nanos));
    Duration::from_nanos(stamp().saturating_sub(made)) < HELD_ELSEWHERE
}

/// Deletes a blob if it has neither a hold nor a reference, and then its marks.
fn sweep_blob(shared: &Shared, collection: CollectionId, blob: BlobId, marks: &[Vec<u8>]) -> Result<()> {
    let engine = &shared.engine;
    let _turn = turn(engine.as_ref());
    if shared.has_peers() && marks.iter().any(|mark| is_young(mark)) {
        return Ok(());
    }
    let is_referenced = {
        let mut state = shared.blobs.state.lock();
        if state.held.contains_key(&(collection, blob)) {
            return Ok(());
        }
        let snapshot = engine.snapshot();
        let references = [keys::blobs_prefix(collection, BlobKeys::References).as_slice(), &blob.0].concat();
        let mut references = snapshot.scan(Space::Meta, KeyRange::prefix(&references), Direction::Forward);
        let is_referenced = references.next().transpose()?.is_some();
        let head_key = Key::Blob(collection, blob).bytes();
        if !is_referenced && let Some(head) = snapshot.get(Space::Meta, &head_key)? {
            let head = Head::parse(&head)?;
            let mut batch = Batch::with_capacity(2);
            batch.take_reserve();
            batch.delete(Space::Meta, head_key);
            let content = Key::BlobContent(collection, &head.hash).bytes();
            if snapshot.get(Space::Meta, &content)?.is_some_and(|named| *named == blob.0) {
                batch.delete(Space::Meta, content);
            }
            engine.commit(batch)?;
            if let Some(totals) = state.totals.get_mut(&collection) {
                totals.count = totals.count.saturating_sub(1);
                totals.bytes = totals.bytes.saturating_sub(head.length);
            }
        }
        is_referenced
    };
    if !is_referenced {
        let chunks = [keys::collection_prefix(collection).as_slice(), &blob.0].concat();
        engine.delete_range(Space::Attachments, KeyRange::prefix(&chunks))?;
    }
    let mut batch = Batch::with_capacity(marks.len());
    batch.take_reserve();
    marks.iter().for_each(|mark| batch.delete(Space::Meta, mark.as_slice()));
    engine.commit(batch)?;
    Ok(())
}

/// Deletes all keys of a dropped collection's blobs.
pub(crate) fn delete_all(shared: &Shared, collection: CollectionId) -> Result<()> {
    let engine = &shared.engine;
    engine.delete_range(Space::Attachments, KeyRange::prefix(&keys::collection_prefix(collection)))?;
    engine.delete_range(Space::Meta, KeyRange::prefix(&keys::blobs_prefix(collection, BlobKeys::All)))?;
    engine.delete_range(Space::Meta, KeyRange::prefix(&keys::loose_prefix(Some(collection))))?;
    shared.blobs.state.lock().totals.remove(&collection);
    Ok(())
}
