//! Expiring documents through TTL indexes.

use super::schedule::{Progress, Slice};
use crate::clock;
use crate::collection::{Collection, Edit, IndexEntry, WriteOptions};
use crate::error::{Error, Result};
use crate::keys::{self, Key};
use crate::{Index, Record};
use diwan_kv::{Bytes, KeyRange};
use diwan_value::{Value, key};
use std::ops::Bound;
use std::sync::Arc;

/// How many documents one batch expires.
const BATCH: usize = 128;

/// Whether the collection has a TTL index.
pub(super) fn has_ttl_index(collection: &Collection) -> bool {
    // A follower deletes what the primary deletes.
    !collection.shared.replica.follows()
        && collection.schema().indexes.iter().any(|index| index.spec.expire_after_seconds.is_some())
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
    let prefix = keys::index_prefix(index.id);
    let full = |suffix: &[u8]| Bytes::from([prefix.as_slice(), suffix].concat());
    let mut range = KeyRange::half_open(full(&bound(from)), full(&bound(to)));
    loop {
        let view = collection.view();
        let entries = view
            .scan_index(index, range.clone(), diwan_kv::Direction::Forward)
            .take(BATCH)
            .collect::<Result<Vec<_>>>()?;
        let Some(IndexEntry { key, id }) = entries.last() else { return Ok(Progress::Done) };
        let last = match index.spec.unique {
            true => Key::UniqueEntry(index.id, key).bytes(),
            false => Key::Entry(index.id, key, id).bytes(),
        };
        // Documents that stay must not hide those behind them.
        range.start = Bound::Excluded(Bytes::from(last));
        let found = entries.len();
        let ids: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.id).collect();
        delete_expired(collection, index, &ids, oldest)?;
        if found < BATCH {
            return Ok(Progress::Done);
        }
        if slice.is_over() {
            return Ok(Progress::More);
        }
    }
}

/// Deletes those of the documents that have expired. Those that an open transaction has written stay until a later round.
fn delete_expired(
    collection: &Arc<Collection>,
    index: &Arc<Index>,
    ids: &[Vec<u8>],
    oldest: i64,
) -> Result<()> {
    // Checked again under the document's lock: an update may have changed its date since the index was read.
    let written = collection.edit(ids, WriteOptions::default(), |_, record| {
        Ok(match record {
            Some(record) if is_expired(index, record, oldest)? => Edit::Delete,
            _ => Edit::Keep,
        })
    });
    match written {
        Err(Error::Claimed(_)) if ids.len() > 1 => {
            ids.chunks(1).try_for_each(|id| delete_expired(collection, index, id, oldest))
        }
        Err(Error::Claimed(_)) => Ok(()),
        outcome => outcome.map(drop),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildProgress, IndexSpec, Namespace, Store};
    use diwan_kv::MemoryEngine;
    use diwan_query::Interrupt;
    use diwan_value::{Doc, DocBuf, doc};

    #[test]
    fn documents_expire_past_those_that_a_transaction_has_written() {
        let store = Store::open(Arc::new(MemoryEngine::new())).unwrap();
        let name = Namespace::new("db", "c").unwrap();
        let collection = store.collection_or_create(&name).unwrap();
        let spec = doc! { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 1 };
        let spec = IndexSpec::parse(spec.as_doc(), None).unwrap();
        collection.create_indexes(vec![spec], &Interrupt::new(), &BuildProgress::default()).unwrap();
        let docs: Vec<DocBuf> =
            (0..300).map(|id| doc! { "_id": id, "at": Value::DateTime(i64::from(id)) }).collect();
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
        store.insert(&name, &docs, true, WriteOptions::default()).unwrap();
        let transaction = store.begin_transaction();
        let inside = transaction.store().collection(&name).unwrap().unwrap();
        let claimed: Vec<_> = (0..200).map(|id| crate::id_key(Value::Int32(id)).unwrap()).collect();
        let change = |_: usize, record: Option<&Record<'_>>| {
            Ok(record.map_or(Edit::Keep, |record| {
                let mut doc = record.doc.to_owned().into_builder();
                doc.append("x", 1);
                Edit::Put(doc.finish())
            }))
        };
        inside.edit(&claimed, WriteOptions::default(), change).unwrap();
        let run = || expire(&collection, &Slice::endless()).unwrap();
        assert!(matches!(run(), Progress::Done));
        assert_eq!(collection.count(), 200);
        drop(transaction);
        run();
        assert_eq!(collection.count(), 0);
    }
}
