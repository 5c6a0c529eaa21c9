use crate::ops::{Find, Update};
use crate::{Namespace, Store, WriteOptions, check};
use diwan_kv::MemoryEngine;
use diwan_query::Interrupt;
use diwan_query::pipeline::DocSource;
use diwan_value::{Doc, DocBuf, Value, doc};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

fn store() -> Arc<Store> {
    Store::open(Arc::new(MemoryEngine::new())).unwrap()
}

fn name(collection: &str) -> Namespace {
    Namespace::new("db", collection).unwrap()
}

fn insert(store: &Arc<Store>, collection: &str, docs: &[DocBuf]) -> crate::Result<usize> {
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    let interrupt = Interrupt::new();
    let options = WriteOptions { interrupt: Some(&interrupt), ..WriteOptions::default() };
    let mut report = store.insert(&name(collection), &docs, true, options)?;
    report.errors.pop().map_or(Ok(report.inserted), |(_, error)| Err(error))
}

fn find(store: &Arc<Store>, collection: &str, filter: DocBuf) -> Vec<DocBuf> {
    let find = Find { filter: filter.as_doc(), ..Find::default() };
    let mut source = store.find(&name(collection), &find).unwrap();
    let mut found = Vec::new();
    while source.advance(&Interrupt::new()).unwrap() {
        found.push(source.current().to_owned());
    }
    found
}

fn update(store: &Arc<Store>, collection: &str, filter: DocBuf, change: DocBuf) -> crate::Result<u64> {
    let update = Some(Value::Document(change.as_doc()));
    let update = Update { filter: filter.as_doc(), update, multi: true, ..Update::default() };
    store.update(&name(collection), &update).map(|updated| updated.modified)
}

fn code(outcome: crate::Result<impl std::fmt::Debug>) -> i32 {
    match outcome.unwrap_err() {
        crate::Error::Query(error) => error.code,
        crate::Error::Claimed(_) => 112,
        other => panic!("{other}"),
    }
}

fn assert_sound(store: &Arc<Store>) {
    let report = check(store, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn writes_are_seen_inside_at_once_and_outside_after_the_commit() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    let inside = transaction.store();
    update(inside, "a", doc! { "n": 1 }, doc! { "$inc": { "n": 1 } }).unwrap();
    insert(inside, "b", &[doc! { "_id": 1 }]).unwrap();
    assert_eq!(find(inside, "a", doc! { "n": 2 }).len(), 2);
    assert_eq!(find(inside, "b", doc! {}).len(), 1);
    assert_eq!(find(&store, "a", doc! { "n": 2 }).len(), 0);
    assert!(store.entry(&name("b")).is_none());
    let before = store.collection(&name("a")).unwrap().unwrap().last_sequence();
    transaction.commit(None).unwrap();
    assert_eq!(find(&store, "a", doc! { "n": 2 }).len(), 2);
    assert_eq!(find(&store, "b", doc! {}).len(), 1);
    assert_eq!(store.collection(&name("a")).unwrap().unwrap().last_sequence(), before + 2);
    assert_sound(&store);
}

#[test]
fn a_dropped_transaction_leaves_nothing() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    insert(transaction.store(), "a", &[doc! { "_id": 2 }]).unwrap();
    insert(transaction.store(), "b", &[doc! { "_id": 2 }]).unwrap();
    drop(transaction);
    assert_eq!(find(&store, "a", doc! {}).len(), 1);
    insert(&store, "a", &[doc! { "_id": 2 }]).unwrap();
    assert!(store.entry(&name("b")).is_none());
    assert_sound(&store);
}

#[test]
fn a_document_that_changed_since_the_snapshot_cannot_be_written() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1, "n": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    update(&store, "a", doc! { "_id": 1 }, doc! { "$set": { "n": 5 } }).unwrap();
    insert(&store, "a", &[doc! { "_id": 2 }]).unwrap();
    assert_eq!(find(transaction.store(), "a", doc! {}), [doc! { "_id": 1, "n": 1 }]);
    let outcome = update(transaction.store(), "a", doc! { "_id": 1 }, doc! { "$set": { "n": 6 } });
    assert_eq!(code(outcome), 112);
    assert_eq!(code(insert(transaction.store(), "a", &[doc! { "_id": 2 }])), 112);
}

#[test]
fn a_second_transaction_fails_on_a_claimed_document() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1, "n": 1 }]).unwrap();
    let (one, other) = (store.begin_transaction(), store.begin_transaction());
    update(one.store(), "a", doc! { "_id": 1 }, doc! { "$set": { "n": 2 } }).unwrap();
    let outcome = update(other.store(), "a", doc! { "_id": 1 }, doc! { "$set": { "n": 3 } });
    assert_eq!(code(outcome), 112);
    drop(other);
    one.commit(None).unwrap();
    assert_eq!(find(&store, "a", doc! {}), [doc! { "_id": 1, "n": 2 }]);
}

#[test]
fn a_writer_outside_waits_for_the_transaction() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1, "n": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    update(transaction.store(), "a", doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }).unwrap();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let store = &store;
        scope.spawn(move || {
            update(store, "a", doc! { "_id": 1 }, doc! { "$inc": { "n": 10 } }).unwrap();
            sender.send(()).unwrap();
        });
        // Others do not wait.
        insert(store, "a", &[doc! { "_id": 2 }]).unwrap();
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        transaction.commit(None).unwrap();
        receiver.recv().unwrap();
    });
    assert_eq!(find(&store, "a", doc! { "_id": 1 }), [doc! { "_id": 1, "n": 12 }]);
    assert_sound(&store);
}

#[test]
fn unique_keys_hold_between_a_transaction_and_others() {
    let store = store();
    let spec =
        crate::IndexSpec::parse(doc! { "key": { "u": 1 }, "name": "u", "unique": true }.as_doc(), None)
            .unwrap();
    let collection = store.collection_or_create(&name("a")).unwrap();
    collection.create_indexes(vec![spec], &Interrupt::new(), &crate::BuildProgress::default()).unwrap();
    insert(&store, "a", &[doc! { "_id": 1, "u": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    update(transaction.store(), "a", doc! { "_id": 1 }, doc! { "$set": { "u": 2 } }).unwrap();
    insert(&store, "a", &[doc! { "_id": 3, "u": 3 }]).unwrap();
    // Taken by others after the snapshot.
    let other = store.begin_transaction();
    assert_eq!(code(insert(other.store(), "a", &[doc! { "_id": 9, "u": 2 }])), 112);
    drop(other);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| insert(&store, "a", &[doc! { "_id": 4, "u": 1 }]));
        let refused = scope.spawn(|| insert(&store, "a", &[doc! { "_id": 5, "u": 2 }]));
        std::thread::sleep(Duration::from_millis(20));
        transaction.commit(None).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 1);
        assert!(matches!(refused.join().unwrap(), Err(crate::Error::DuplicateKey(_))));
    });
    assert_sound(&store);
}

#[test]
fn a_changed_schema_fails_the_commit() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1, "n": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    insert(transaction.store(), "a", &[doc! { "_id": 2 }]).unwrap();
    let spec = crate::IndexSpec::parse(doc! { "key": { "n": 1 }, "name": "n" }.as_doc(), None).unwrap();
    let collection = store.collection_or_create(&name("a")).unwrap();
    collection.create_indexes(vec![spec], &Interrupt::new(), &crate::BuildProgress::default()).unwrap();
    assert_eq!(code(transaction.commit(None)), 112);
    let transaction = store.begin_transaction();
    insert(transaction.store(), "new", &[doc! { "_id": 2 }]).unwrap();
    insert(&store, "new", &[doc! { "_id": 3 }]).unwrap();
    assert!(matches!(transaction.commit(None), Err(crate::Error::Engine(diwan_kv::Error::Conflict(_)))));
    let transaction = store.begin_transaction();
    insert(transaction.store(), "a", &[doc! { "_id": 4 }]).unwrap();
    store.drop_collection(&name("a")).unwrap();
    assert_eq!(code(transaction.commit(None)), 112);
    assert_sound(&store);
}

#[test]
fn deleted_and_inserted_again_documents_are_counted_once() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1 }, doc! { "_id": 2 }]).unwrap();
    let remove = |store: &Arc<Store>, id: i32| {
        let filter = doc! { "_id": id };
        let delete = crate::ops::Delete { filter: filter.as_doc(), ..crate::ops::Delete::default() };
        store.delete(&name("a"), &delete).unwrap().count
    };
    remove(&store, 2);
    let transaction = store.begin_transaction();
    let inside = transaction.store();
    remove(inside, 1);
    insert(inside, "a", &[doc! { "_id": 1, "again": true }, doc! { "_id": 2 }, doc! { "_id": 3 }]).unwrap();
    remove(inside, 3);
    transaction.commit(None).unwrap();
    let collection = store.collection(&name("a")).unwrap().unwrap();
    assert_eq!(collection.count(), 2);
    assert_eq!(find(&store, "a", doc! {}), [doc! { "_id": 1, "again": true }, doc! { "_id": 2 }]);
    assert_sound(&store);
}

#[test]
fn a_commit_is_remembered_across_a_restart() {
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::open(engine.clone()).unwrap();
    let transaction = store.begin_transaction();
    insert(transaction.store(), "a", &[doc! { "_id": 1 }]).unwrap();
    let origin = super::TransactionOrigin { key: b"session", session: Doc::EMPTY, number: 7 };
    transaction.commit(Some(origin)).unwrap();
    drop(store);
    let store = Store::open(engine).unwrap();
    assert!(store.has_committed(b"session", 7, &Interrupt::new()).unwrap());
    assert!(!store.has_committed(b"session", 8, &Interrupt::new()).unwrap());
    assert_eq!(store.collection(&name("a")).unwrap().unwrap().count(), 1);
}

/// A build of a unique index on the field `u` of collection `a`.
fn build_unique(store: &Arc<Store>) -> crate::Result<(usize, usize)> {
    let spec =
        crate::IndexSpec::parse(doc! { "key": { "u": 1 }, "name": "u", "unique": true }.as_doc(), None)?;
    let collection = store.collection_or_create(&name("a"))?;
    collection.create_indexes(vec![spec], &Interrupt::new(), &crate::BuildProgress::default())
}

#[test]
fn a_unique_index_is_not_built_past_what_open_transactions_have_written() {
    let store = store();
    let docs: Vec<DocBuf> = (1..4).map(|id| doc! { "_id": id, "u": id }).collect();
    insert(&store, "a", &docs).unwrap();
    let first = store.begin_transaction();
    update(first.store(), "a", doc! { "_id": 1 }, doc! { "$set": { "x": 1 } }).unwrap();
    std::thread::scope(|scope| {
        let build = scope.spawn(|| build_unique(&store));
        let pause = || std::thread::sleep(Duration::from_millis(100));
        pause();
        // Begun during the build: one whose key will be a duplicate, and one that takes a key of nobody.
        let second = store.begin_transaction();
        let third = store.begin_transaction();
        update(second.store(), "a", doc! { "_id": 2 }, doc! { "$set": { "u": 3 } }).unwrap();
        assert!(!build.is_finished());
        drop(first);
        pause();
        assert!(!build.is_finished());
        second.commit(None).unwrap();
        assert!(matches!(build.join().unwrap(), Err(crate::Error::DuplicateKey(_))));
        drop(third);
    });
    assert_sound(&store);
}

#[test]
fn a_unique_index_that_becomes_ready_fails_the_commit() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1, "u": 1 }]).unwrap();
    let first = store.begin_transaction();
    update(first.store(), "a", doc! { "_id": 1 }, doc! { "$set": { "x": 1 } }).unwrap();
    std::thread::scope(|scope| {
        let build = scope.spawn(|| build_unique(&store));
        std::thread::sleep(Duration::from_millis(100));
        let second = store.begin_transaction();
        insert(second.store(), "a", &[doc! { "_id": 2, "u": 2 }]).unwrap();
        drop(first);
        build.join().unwrap().unwrap();
        assert_eq!(code(second.commit(None)), 112);
    });
    assert_sound(&store);
}

#[test]
fn an_update_that_does_not_fit_is_not_made_and_fails_the_transaction() {
    let store = store();
    let docs: Vec<DocBuf> = (0..20).map(|id| doc! { "_id": id, "n": 0 }).collect();
    insert(&store, "a", &docs).unwrap();
    let transaction = store.begin_transaction();
    let inside = transaction.store();
    let add = || update(inside, "a", doc! {}, doc! { "$inc": { "n": 1 } });
    store.shared.transaction_bytes.store(1 << 30, Ordering::Relaxed);
    assert_eq!(code(add()), 358);
    store.shared.transaction_bytes.store(0, Ordering::Relaxed);
    assert_eq!(find(inside, "a", doc! { "n": 0 }).len(), 20);
    assert_eq!(code(add()), 358);
    assert_eq!(code(transaction.commit(None)), 358);
}

#[test]
fn a_collection_that_was_dropped_or_renamed_is_not_one_that_the_transaction_has_created() {
    let store = store();
    insert(&store, "dropped", &[doc! { "_id": 1 }]).unwrap();
    insert(&store, "renamed", &[doc! { "_id": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    let inside = transaction.store();
    let open = |collection| inside.collection_or_create(&name(collection)).unwrap();
    let renamed = open("renamed");
    store.drop_collection(&name("dropped")).unwrap();
    store.rename(&name("renamed"), &name("other"), false).unwrap();
    assert_eq!([open("dropped"), renamed, open("new")].map(|each| each.is_private()), [false, false, true]);
}

#[test]
fn a_renamed_collection_fails_the_commit() {
    let store = store();
    insert(&store, "a", &[doc! { "_id": 1 }]).unwrap();
    let transaction = store.begin_transaction();
    insert(transaction.store(), "a", &[doc! { "_id": 2 }]).unwrap();
    store.rename(&name("a"), &name("b"), false).unwrap();
    assert_eq!(code(transaction.commit(None)), 112);
    assert_eq!(find(&store, "b", doc! {}).len(), 1);
}
