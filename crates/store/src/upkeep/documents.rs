//! Expiring documents through TTL indexes.

use super::schedule::{Progress, Slice};
use crate::clock;
use crate::collection::{Collection, Edit, WriteOptions};
use crate::error::Result;
use crate::keys;
use crate::{Index, Record};
use diwan_kv::{Bytes, KeyRange};
use diwan_value::{Value, key};
use std::sync::Arc;

/// How many documents one batch expires.
const BATCH: usize = 128;

/// Whether the collection has a TTL index.
pub(super) fn has_ttl_index(collection: &Collection) -> bool {
    collection.schema().indexes.iter().any(|index| index.spec.expire_after_seconds.is_some())
}

/// Deletes the expired documents of each of the collection's TTL indexes.
pub(super) fn expire(collection: &Arc<Collection>, slice: &Slice<'_>) -> Result<Progress> {
    let schema = collection.schema();
    let (mut progress, mut failure) = (Progress::Done, None);
    for index in schema.indexes.iter().filter(|index| index.is_ready()) {
        if let Some(seconds) = index.spec.expire_after_seconds {
            let oldest = clock::now_millis().saturating_sub(seconds.saturating_mul(1000));
            match expire_through(collection, index, oldest, slice) {
                Ok(Progress::More) => progress = Progress::More,
                Ok(Progress::Done) => {}
                Err(error) => failure = Some(error),
            }
        }
    }
    failure.map_or(Ok(progress), Err)
}

/// Deletes the documents whose date in the index's field is before `oldest`.
fn expire_through(
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    oldest: i64,
    slice: &Slice<'_>,
) -> Result<Progress> {
    let direction = index.spec.fields[0].direction();
    let bound = |millis: i64| {
        let mut out = Vec::new();
        key::encode_order(&mut out, Value::DateTime(millis), direction, None);
        out
    };
    let (from, to) = match direction {
        key::Direction::Ascending => (i64::MIN, oldest),
        key::Direction::Descending => (oldest, i64::MIN),
    };
    let (from, to) = (bound(from), bound(to));
    loop {
        let view = collection.view();
        let prefix = keys::index_prefix(index.id);
        let full = |suffix: &[u8]| Bytes::from([prefix.as_slice(), suffix].concat());
        let range = KeyRange::half_open(full(&from), full(&to));
        let ids = view
            .scan_index(index, range, diwan_kv::Direction::Forward)
            .take(BATCH)
            .map(|entry| Ok(entry?.id))
            .collect::<Result<Vec<_>>>()?;
        if ids.is_empty() {
            return Ok(Progress::Done);
        }
        let found = ids.len();
        // Checked again under the document's lock: an update may have changed its date since the index was read.
        let written = collection.edit(&ids, WriteOptions::default(), |_, record| {
            Ok(match record {
                Some(record) if is_expired(index, record, oldest)? => Edit::Delete,
                _ => Edit::Keep,
            })
        })?;
        if found < BATCH || written.deleted == 0 {
            return Ok(Progress::Done);
        }
        if slice.is_over() {
            return Ok(Progress::More);
        }
    }
}

fn is_expired(index: &Index, record: &Record<'_>, oldest: i64) -> Result<bool> {
    let keys = index.keys_of(record.doc)?;
    let direction = index.spec.fields[0].direction();
    let earliest = keys
        .entries
        .iter()
        .filter_map(|(bytes, types)| match key::Decoder::new(bytes, types).next(direction)?.as_value() {
            Value::DateTime(millis) => Some(millis),
            _ => None,
        })
        .min();
    Ok(earliest.is_some_and(|millis| millis < oldest))
}
