//! Inserts, updates and deletes, and their effects on revisions and the change log.

use crate::setup::*;
use diwan_kv::MemoryEngine;
use diwan_query::Interrupt;
use diwan_store::ops::{Aggregate, Count, Delete, Distinct, Find, FindAndModify, Modify, Scope, Update};
use diwan_store::plan::Hint;
use diwan_store::{ChangeKind, Error, RetryRecord, Store, WriteOptions, id_key};
use diwan_value::{Doc, DocBuf, Value, array, doc};
use std::sync::Arc;

#[test]
fn find_returns_documents_in_the_order_of_ids_with_the_id_first() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &[doc! { "b": 1, "_id": 2 }, doc! { "_id": 1 }, doc! { "x": 1 }]);
    let found = find(&store, &Find::default());
    assert_eq!(found[0], doc! { "_id": 1 });
    assert_eq!(found[1], doc! { "_id": 2, "b": 1 });
    assert!(matches!(found[2].as_doc().get("_id"), Some(Value::ObjectId(_))));
    assert_eq!(collection.count(), 3);
}

#[test]
fn a_duplicate_id_is_refused_and_stops_an_ordered_insert() {
    let store = store();
    let collection = collection(&store);
    let docs = [doc! { "_id": 1 }, doc! { "_id": 1.0 }, doc! { "_id": 2 }];
    let views: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    let report = collection.insert(&views, true, WriteOptions::default()).unwrap();
    assert_eq!((report.inserted, report.errors.len(), report.errors[0].0), (1, 1, 1));
    assert!(matches!(&report.errors[0].1, Error::DuplicateKey(error) if error.index == "_id_"));
    let report = collection.insert(&views, false, WriteOptions::default()).unwrap();
    assert_eq!((report.inserted, report.errors.len()), (1, 2));
    assert_eq!(collection.count(), 2);
}

#[test]
fn updates_mint_revisions_and_move_their_change_to_the_end_of_the_log() {
    let store = store();
    let collection = collection(&store);
    collection.keep_history().unwrap();
    insert(&collection, &[doc! { "_id": 1, "n": 0 }, doc! { "_id": 2, "n": 0 }]);
    let first = collection.get(&id_key(Value::Int32(1)).unwrap()).unwrap().unwrap().record().revision();
    assert_eq!(first.generation, 1);
    let updated = update(&collection, &doc! { "_id": 1 }, &doc! { "$inc": { "n": 5 } }, false, false);
    assert_eq!((updated.matched, updated.modified), (1, 1));
    let key = id_key(Value::Int32(1)).unwrap();
    let second = collection.get(&key).unwrap().unwrap().record().revision();
    assert_eq!(second.generation, 2);
    assert_eq!(collection.ancestors(&key).unwrap(), [first]);
    assert_eq!(delete(&collection, &doc! { "_id": 2 }, false), 1);
    let mut changes = Vec::new();
    collection
        .view()
        .changes(0, |change| {
            changes.push((change.sequence, change.kind, change.count));
            Ok(true)
        })
        .unwrap();
    assert_eq!(changes, [(3, ChangeKind::Update, 2), (4, ChangeKind::Delete, 1)]);
}

#[test]
fn an_insert_after_a_delete_follows_the_tombstones_revision() {
    let store = store();
    let collection = collection(&store);
    collection.keep_history().unwrap();
    insert(&collection, &[doc! { "_id": 1 }]);
    delete(&collection, &doc! { "_id": 1 }, false);
    insert(&collection, &[doc! { "_id": 1, "again": true }]);
    let key = id_key(Value::Int32(1)).unwrap();
    assert_eq!(collection.get(&key).unwrap().unwrap().record().revision().generation, 3);
    assert_eq!(collection.ancestors(&key).unwrap().len(), 2);
    assert_eq!(collection.count(), 1);
}

#[test]
fn an_update_that_changes_nothing_writes_nothing() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &[doc! { "_id": 1, "a": 1 }]);
    let updated = update(&collection, &doc! { "_id": 1 }, &doc! { "$set": { "a": 1 } }, false, false);
    assert_eq!((updated.matched, updated.modified), (1, 0));
    assert_eq!(collection.last_sequence(), 1);
}

#[test]
fn an_upsert_inserts_the_equalities_of_the_filter() {
    let store = store();
    let collection = collection(&store);
    let updated = update(&collection, &doc! { "_id": 7, "a": 1 }, &doc! { "$set": { "b": 2 } }, false, true);
    assert_eq!(updated.upserted.map(|id| id.as_value().as_i64_exact()), Some(Some(7)));
    assert_eq!(find(&store, &Find::default()), [doc! { "_id": 7, "a": 1, "b": 2 }]);
}

#[test]
fn find_and_modify_returns_the_new_or_the_removed_document() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &[doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 2 }]);
    let filter = doc! {};
    let sort = doc! { "n": -1 };
    let change = doc! { "$inc": { "n": 10 } };
    let request = FindAndModify {
        filter: filter.as_doc(),
        sort: Some(sort.as_doc()),
        projection: None,
        modify: Modify::Update { update: Value::Document(change.as_doc()), upsert: false, return_new: true },
        array_filters: None,
        hint: Hint::None,
        scope: Scope::default(),
        bypass_validation: false,
        retry: None,
    };
    let modified = collection.find_and_modify(&request).unwrap();
    assert_eq!(modified.value, Some(doc! { "_id": 2, "n": 12 }));
    let removed = collection.find_and_modify(&FindAndModify { modify: Modify::Remove, ..request }).unwrap();
    assert_eq!(removed.value, Some(doc! { "_id": 2, "n": 12 }));
    assert_eq!(collection.count(), 1);
}

#[test]
fn pipelines_group_count_and_write() {
    let store = store();
    let collection = collection(&store);
    let docs: Vec<DocBuf> = (0..100).map(|n| doc! { "_id": n, "k": n % 3, "v": n }).collect();
    insert(&collection, &docs);
    let aggregate = |bytes: Vec<u8>| {
        let request = Aggregate {
            pipeline: stages(&bytes),
            hint: Hint::None,
            scope: Scope::default(),
            bypass_validation: false,
        };
        let mut source = store.aggregate(Some(&name()), "test", &request).unwrap();
        let mut found = Vec::new();
        while source.advance(&Interrupt::new()).unwrap() {
            found.push(source.current().to_owned());
        }
        found
    };
    let grouped = aggregate(
        array![
            { "$match": { "v": { "$gte": 10 } } },
            { "$group": { "_id": "$k", "sum": { "$sum": "$v" } } },
            { "$sort": { "_id": 1 } }
        ]
        .finish(),
    );
    assert_eq!(grouped.len(), 3);
    assert_eq!(grouped[0], doc! { "_id": 0, "sum": 1665 });
    let counted =
        aggregate(array![{ "$match": { "k": 1 } }, { "$group": { "_id": 1, "n": { "$sum": 1 } } }].finish());
    assert_eq!(counted, [doc! { "_id": 1, "n": 33 }]);
    assert!(aggregate(array![{ "$match": { "k": 9 } }, { "$count": "n" }].finish()).is_empty());
    aggregate(array![{ "$match": { "k": 2 } }, { "$out": "copy" }].finish());
    let copy = store.collection(&diwan_store::Namespace::new("test", "copy").unwrap()).unwrap().unwrap();
    assert_eq!(copy.count(), 33);
}

#[test]
fn count_and_distinct_enter_arrays() {
    let store = store();
    let collection = collection(&store);
    insert(
        &collection,
        &[doc! { "_id": 1, "t": ["a", "b"] }, doc! { "_id": 2, "t": "a" }, doc! { "_id": 3 }],
    );
    let filter = doc! { "t": "a" };
    let count = Count { filter: filter.as_doc(), ..Count::default() };
    assert_eq!(store.count(&name(), &count).unwrap(), 2);
    assert_eq!(store.count(&name(), &Count { limit: Some(1), ..count }).unwrap(), 1);
    let values = store.distinct(&name(), &Distinct { key: "t", ..Distinct::default() }).unwrap();
    assert_eq!(values.finish(), array!["a", "b"].finish());
}

#[test]
fn a_capped_collection_deletes_the_oldest_and_a_tailable_find_continues() {
    let store = store();
    store.create(&name(), doc! { "capped": true, "size": 4096, "max": 3 }.as_doc()).unwrap();
    let collection = collection(&store);
    for n in [5, 4, 3, 2, 1] {
        insert(&collection, &[doc! { "_id": n }]);
    }
    assert_eq!(find(&store, &Find::default()), [doc! { "_id": 3 }, doc! { "_id": 2 }, doc! { "_id": 1 }]);
    let mut source = store.find(&name(), &Find { tailable: true, ..Find::default() }).unwrap();
    let interrupt = Interrupt::new();
    for _ in 0..3 {
        assert!(source.advance(&interrupt).unwrap());
    }
    assert!(!source.advance(&interrupt).unwrap());
    insert(&collection, &[doc! { "_id": 9 }]);
    assert!(source.advance(&interrupt).unwrap());
    assert_eq!(source.current(), doc! { "_id": 9 }.as_doc());
}

#[test]
fn a_validator_refuses_unless_it_is_bypassed() {
    let store = store();
    store.create(&name(), doc! { "validator": { "n": { "$gt": 0 } } }.as_doc()).unwrap();
    let collection = collection(&store);
    let bad = doc! { "_id": 1, "n": -1 };
    let report = collection.insert(&[bad.as_doc()], true, WriteOptions::default()).unwrap();
    assert!(matches!(report.errors[0].1, Error::DocumentValidation { .. }));
    let options = WriteOptions { bypass_validation: true, ..WriteOptions::default() };
    assert_eq!(collection.insert(&[bad.as_doc()], true, options).unwrap().inserted, 1);
}

#[test]
fn a_reopened_store_has_its_counts_sequences_and_retry_records() {
    let engine = Arc::new(MemoryEngine::new());
    {
        let store = Store::open(engine.clone()).unwrap();
        let collection = collection(&store);
        insert(&collection, &[doc! { "_id": 1 }, doc! { "_id": 2 }]);
        let retry = RetryRecord { session: b"session", transaction: 3, statement: 0, result: None };
        let options = WriteOptions { retry: Some(retry), ..WriteOptions::default() };
        assert!(store.begin_retryable(b"session", 3, &Interrupt::new()).unwrap().0.is_empty());
        collection.insert(&[doc! { "_id": 3 }.as_doc()], true, options).unwrap();
        delete(&collection, &doc! { "_id": 1 }, false);
    }
    let store = Store::open(engine).unwrap();
    let collection = collection(&store);
    assert_eq!((collection.count(), collection.last_sequence()), (2, 4));
    assert_eq!(store.begin_retryable(b"session", 3, &Interrupt::new()).unwrap().0.len(), 1);
    assert!(store.begin_retryable(b"session", 2, &Interrupt::new()).is_err());
}

#[test]
fn rename_keeps_documents_and_drop_takes_effect_at_once() {
    let store = store();
    let old = collection(&store);
    insert(&old, &[doc! { "_id": 1 }]);
    let to = diwan_store::Namespace::new("other", "moved").unwrap();
    store.rename(&name(), &to, false).unwrap();
    assert!(store.entry(&name()).is_none());
    assert_eq!(store.collection(&to).unwrap().unwrap().count(), 1);
    assert!(store.drop_collection(&to).unwrap());
    assert!(!store.drop_collection(&to).unwrap());
    assert!(old.insert(&[doc! { "_id": 2 }.as_doc()], true, WriteOptions::default()).is_err());
    assert!(store.databases().is_empty());
}

#[test]
fn a_filter_of_an_id_matches_equal_ids_also_under_a_collation() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &[doc! { "_id": 1 }, doc! { "_id": "a" }, doc! { "_id": "b" }]);
    assert_eq!(
        update(&collection, &doc! { "_id": 1.0 }, &doc! { "$set": { "n": 1 } }, false, false).modified,
        1
    );
    assert_eq!(delete(&collection, &doc! { "_id": "A" }, false), 0);
    let insensitive = doc! { "locale": "en", "strength": 2 };
    let scope = Scope { collation: Some(insensitive.as_doc()), ..Scope::default() };
    let filter = doc! { "_id": "A" };
    let request = Delete { filter: filter.as_doc(), scope, ..Delete::default() };
    assert_eq!(collection.delete(&request).unwrap().count, 1);
    let long = "x".repeat(20_000);
    assert_eq!(delete(&collection, &doc! { "_id": long }, false), 0);
    assert_eq!(collection.count(), 2);
}

#[test]
fn an_upsert_that_meets_a_taken_key_asks_an_index_whether_to_begin_anew() {
    let store = store();
    let collection = collection(&store);
    index(&collection, doc! { "key": { "mail": 1 }, "name": "mail", "unique": true });
    insert(&collection, &(0..1000).map(|n| doc! { "_id": n, "mail": n, "x": 0 }).collect::<Vec<_>>());
    let interrupt = Interrupt::new();
    let (filter, change) = (doc! { "mail": 500, "x": 1 }, doc! { "$set": { "y": 1 } });
    let request = Update {
        filter: filter.as_doc(),
        update: Some(Value::Document(change.as_doc())),
        upsert: true,
        scope: Scope { interrupt: interrupt.clone(), ..Scope::default() },
        ..Update::default()
    };
    assert!(matches!(collection.update(&request), Err(Error::DuplicateKey(_))));
    // Once for the update, once for the question whether the document has come meanwhile.
    assert_eq!(interrupt.tally().examined().documents, 2);
}
