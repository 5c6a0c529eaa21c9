//! Indexes: that they find what a scan finds, and what plans are chosen.

use crate::setup::*;
use diwan_query::Interrupt;
use diwan_store::ops::{Find, Verbosity};
use diwan_store::{BuildProgress, Error, IndexSpec, WriteOptions};
use diwan_value::{DocBuf, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn winning_stages(store: &Arc<diwan_store::Store>, find: &Find<'_>) -> Vec<String> {
    let explained = store.explain_find(&name(), find, None, Verbosity::QueryPlanner).unwrap();
    let mut stage = explained.as_doc().get_doc("queryPlanner").unwrap().get_doc("winningPlan");
    let mut names = Vec::new();
    while let Some(doc) = stage {
        names.push(doc.get_str("stage").unwrap().to_owned());
        stage = doc.get_doc("inputStage");
    }
    names
}

#[test]
fn equality_and_ranges_go_through_the_index() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(0..500).map(|n| doc! { "_id": n, "a": n % 50, "b": n }).collect::<Vec<_>>());
    index(&collection, doc! { "key": { "a": 1, "b": -1 }, "name": "ab" });
    let filter = doc! { "a": 7, "b": { "$gt": 100, "$lte": 307 } };
    let find = Find { filter: filter.as_doc(), ..Find::default() };
    assert_eq!(winning_stages(&store, &find), ["FETCH", "IXSCAN"]);
    assert_eq!(find_ids(&store, &filter), [107, 157, 207, 257, 307]);
    let explained = store.explain_find(&name(), &find, None, Verbosity::ExecutionStats).unwrap();
    let stats = explained.as_doc().get_doc("executionStats").unwrap();
    assert_eq!(stats.get("totalKeysExamined"), Some(Value::Int32(5)));
}

#[test]
fn an_index_gives_the_sort_and_covers_what_it_holds() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(0..100).map(|n| doc! { "_id": n, "a": 99 - n }).collect::<Vec<_>>());
    index(&collection, doc! { "key": { "a": 1 }, "name": "a" });
    let sort = doc! { "a": -1 };
    let find = Find { sort: Some(sort.as_doc()), limit: Some(3), ..Find::default() };
    assert_eq!(winning_stages(&store, &find), ["LIMIT", "FETCH", "IXSCAN"]);
    let found = crate::setup::find(&store, &find);
    assert_eq!(found[0], doc! { "_id": 0, "a": 99 });
    let (filter, projection) = (doc! { "a": { "$gte": 97 } }, doc! { "_id": 0, "a": 1 });
    let find = Find { filter: filter.as_doc(), projection: Some(projection.as_doc()), ..Find::default() };
    assert_eq!(winning_stages(&store, &find), ["PROJECTION_COVERED", "IXSCAN"]);
    assert_eq!(crate::setup::find(&store, &find), [doc! { "a": 97 }, doc! { "a": 98 }, doc! { "a": 99 }]);
}

#[test]
fn branches_of_or_are_united() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(0..100).map(|n| doc! { "_id": n, "a": n, "b": n % 10 }).collect::<Vec<_>>());
    index(&collection, doc! { "key": { "a": 1 }, "name": "a" });
    index(&collection, doc! { "key": { "b": 1 }, "name": "b" });
    let filter = doc! { "$or": [{ "a": 3 }, { "b": 3 }] };
    let find = Find { filter: filter.as_doc(), ..Find::default() };
    assert_eq!(winning_stages(&store, &find), ["SUBPLAN", "OR"]);
    assert_eq!(find_ids(&store, &filter), [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]);
}

#[test]
fn unique_indexes_refuse_and_tell_the_key() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &[doc! { "_id": 1, "e": "a" }, doc! { "_id": 2, "e": "b" }]);
    index(&collection, doc! { "key": { "e": 1 }, "name": "e_1", "unique": true });
    let report =
        collection.insert(&[doc! { "_id": 3, "e": "a" }.as_doc()], true, WriteOptions::default()).unwrap();
    let Error::DuplicateKey(error) = &report.errors[0].1 else { panic!("{:?}", report.errors) };
    assert_eq!(error.key_value, doc! { "e": "a" });
    assert_eq!(
        error.message(),
        "E11000 duplicate key error collection: test.things index: e_1 dup key: { e: \"a\" }"
    );
    // A key that an update gives up is free for the next document.
    update(&collection, &doc! { "_id": 1 }, &doc! { "$set": { "e": "c" } }, false, false);
    insert(&collection, &[doc! { "_id": 3, "e": "a" }]);
    let duplicates =
        IndexSpec::parse(doc! { "key": { "x": 1 }, "name": "x", "unique": true }.as_doc(), None).unwrap();
    let built = collection.create_indexes(vec![duplicates], &Interrupt::new(), &BuildProgress::default());
    assert!(matches!(built, Err(Error::DuplicateKey(_))));
    assert_eq!(collection.schema().indexes.len(), 2);
}

#[test]
fn a_build_beside_writers_misses_nothing() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(0..5_000).map(|n| doc! { "_id": n, "a": n }).collect::<Vec<_>>());
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (collection, stop) = (collection.clone(), stop.clone());
        thread::spawn(move || {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                let id = n * 7 % 5_000;
                update(&collection, &doc! { "_id": id }, &doc! { "$inc": { "a": 10_000 } }, false, false);
                insert(&collection, &[doc! { "_id": 10_000 + n, "a": -1 }]);
                delete(&collection, &doc! { "_id": n * 11 % 5_000 }, false);
                n += 1;
            }
        })
    };
    index(&collection, doc! { "key": { "a": 1 }, "name": "a" });
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    let scan =
        Find { hint: diwan_store::plan::Hint::Natural(diwan_kv::Direction::Forward), ..Find::default() };
    let mut all: Vec<DocBuf> = find(&store, &scan);
    let everything = doc! { "a": { "$gte": -1_000_000 } };
    let through_index = Find {
        filter: everything.as_doc(),
        hint: diwan_store::plan::Hint::Name("a".to_owned()),
        ..Find::default()
    };
    let mut indexed = find(&store, &through_index);
    let id = |doc: &DocBuf| doc.as_doc().get("_id").and_then(Value::as_i64_exact);
    all.sort_by_key(id);
    indexed.sort_by_key(id);
    assert_eq!(all, indexed);
}

#[test]
fn a_bad_hint_is_refused() {
    let store = store();
    collection(&store);
    let find = Find { hint: diwan_store::plan::Hint::Name("none".to_owned()), ..Find::default() };
    let Err(Error::Query(error)) = store.find(&name(), &find) else { panic!() };
    assert!(
        error.code == 2 && error.message.contains("hint provided does not correspond to an existing index")
    );
}
