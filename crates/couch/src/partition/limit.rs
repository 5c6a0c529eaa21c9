//! The setting `couchdb/max_partition_size`: edits that would make a partition larger than this are refused.
//!
//! A partition's size is known by reading its documents, so it is remembered. Edits of this face are added to what is
//! remembered; those of other clients are noticed when the partition is read again, after a minute at the latest.
//! Without the setting there is no limit, and nothing is read.

use super::{is_partitioned, measure};
use crate::edit::Draft;
use crate::error::{Error, Result};
use crate::http::blocking;
use crate::server::Couch;
use diwan_store::{Base, Collection, id_key};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a size is remembered.
const FRESH: Duration = Duration::from_secs(60);
/// How soon a partition may be read again.
const PAUSE: Duration = Duration::from_secs(1);
/// How many partitions are remembered.
const REMEMBERED: usize = 10_000;

/// The sizes of partitions.
#[derive(Default)]
pub(crate) struct PartitionSizes {
    known: Mutex<HashMap<([u8; 16], String), Size>>,
}

#[derive(Clone, Copy)]
struct Size {
    /// The size when the partition was read.
    read: u64,
    /// What has been written since.
    written: u64,
    at: Instant,
}

/// Refuses an edit that makes a full partition larger.
pub(crate) fn check_size(couch: &Couch, collection: &Arc<Collection>, draft: &Draft) -> Result<()> {
    let Some((id, base)) = draft.base() else { return Ok(()) };
    // As in CouchDB, edits of other servers and deletions are always stored.
    if draft.deleted() || matches!(base, Base::Graft { .. }) || !is_partitioned(collection) {
        return Ok(());
    }
    let limit = couch.setting_number("couchdb", "max_partition_size", 0);
    let Some((partition, _)) = draft.id.split_once(':').filter(|_| limit > 0) else { return Ok(()) };
    let sizes = &couch.partition_sizes;
    let key = (collection.uuid(), partition.to_owned());
    let mut size = sizes.known.lock().get(&key).copied();
    let is_over = |size: &Size| size.read.saturating_add(size.written) >= limit;
    let is_old = |size: &Size| size.at.elapsed() >= if is_over(size) { PAUSE } else { FRESH };
    if size.as_ref().is_none_or(is_old) {
        let at = Instant::now();
        let read = blocking(|| measure(collection, partition, limit))?.bytes;
        size = Some(Size { read, written: 0, at });
    }
    let Some(mut size) = size else { return Ok(()) };
    let weight = draft.size();
    let is_full = size.read >= limit;
    if is_full {
        let before = collection.view().document(&id_key(id.as_value())?)?.filter(|found| !found.deleted);
        let before = before.map_or(0, |found| {
            let attachments = found.attachments.iter().map(|attachment| attachment.encoded_length);
            found.doc.as_doc().as_bytes().len() as u64 + attachments.sum::<u64>()
        });
        if weight > before {
            remember(sizes, key, size);
            let reason = format!("Partition limit exceeded due to update on '{}'", draft.id);
            return Err(Error::new(403, "partition_overflow", reason));
        }
    }
    size.written = size.written.saturating_add(weight);
    remember(sizes, key, size);
    Ok(())
}

fn remember(sizes: &PartitionSizes, key: ([u8; 16], String), size: Size) {
    let mut known = sizes.known.lock();
    if known.len() >= REMEMBERED && !known.contains_key(&key) {
        known.clear();
    }
    known.insert(key, size);
}
