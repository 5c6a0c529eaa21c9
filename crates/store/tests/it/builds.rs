//! Index builds beside writers. Afterwards each index must hold exactly the entries of the documents.

use crate::setup::{collection, delete, find_ids, index, insert, name, update};
use diwan_kv::{ContractEngine, Direction, Engine, FjallEngine, KeyRange, MemoryEngine, Options, Space};
use diwan_query::Interrupt;
use diwan_store::{BuildProgress, Collection, Error, IndexSpec, Namespace, Store, check};
use diwan_value::{DocBuf, DocBuilder, Value, array, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Enough documents for a bulk build.
const DOCUMENTS: i32 = 12_000;

fn on_disk(directory: &std::path::Path) -> Arc<dyn Engine> {
    Arc::new(ContractEngine::new(FjallEngine::open(directory, &Options::default()).unwrap()))
}

fn document(id: i32, step: i32) -> DocBuf {
    let mut out = DocBuilder::new();
    out.append("_id", id);
    // Equal numbers of several types. They have the same key; the entry's value holds the type.
    let number = (id + step) % 50;
    match (id + step) % 4 {
        0 => out.append("a", number),
        1 => out.append("a", f64::from(number)),
        2 => out.append("a", i64::from(number)),
        _ => out.append("a", array![(number), (number + 1)]),
    };
    if step % 3 != 0 {
        out.append("b", doc! { "c": format!("step {step}"), "d": step });
    }
    out.append("when", Value::DateTime(i64::from(id)));
    out.finish()
}

fn specifications() -> Vec<IndexSpec> {
    [
        doc! { "key": { "a": 1 }, "name": "a" },
        doc! { "key": { "b.c": -1, "a": 1 }, "name": "bc", "sparse": true },
        doc! { "key": { "b.d": "hashed" }, "name": "hashed" },
        doc! { "key": { "b.$**": 1 }, "name": "wildcard" },
        doc! { "key": { "when": 1 }, "name": "ttl", "expireAfterSeconds": 2_000_000_000 },
        doc! { "key": { "b.c": 1 }, "name": "partial", "partialFilterExpression": { "b.d": { "$gt": 5 } } },
        doc! { "key": { "b.c": 1 }, "name": "en", "collation": { "locale": "en", "strength": 2 } },
        doc! { "key": { "when": 1, "_id": 1 }, "name": "unique", "unique": true },
    ]
    .iter()
    .map(|spec| IndexSpec::parse(spec.as_doc(), None).unwrap())
    .collect()
}

fn build(collection: &Arc<Collection>, specs: Vec<IndexSpec>) -> diwan_store::Result<(usize, usize)> {
    collection.create_indexes(specs, &Interrupt::new(), &BuildProgress::default())
}

/// Raises a flag when it is dropped, so that the writers also stop when an assertion fails.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Updates, deletes, restores and inserts documents until `stop` is set. Returns the number of rounds.
fn disturb(collection: &Arc<Collection>, writer: i32, stop: &AtomicBool) -> i32 {
    let mut step = 0;
    while !stop.load(Ordering::Relaxed) {
        step += 1;
        for n in 0..8 {
            let id = (step * 977 + n * 131 + writer * 7919) % DOCUMENTS;
            match (step + n) % 4 {
                0 => {
                    delete(collection, &doc! { "_id": id }, false);
                }
                1 => {
                    // The same number, as another type.
                    let set = doc! { "$mul": { "a": 1.0 } };
                    update(
                        collection,
                        &doc! { "_id": id, "a": { "$not": { "$type": "array" } } },
                        &set,
                        false,
                        false,
                    );
                }
                2 => {
                    update(collection, &doc! { "_id": id }, &document(id, step), false, true);
                }
                _ => {
                    let new = DOCUMENTS + step * 100 + n * 10 + writer;
                    insert(collection, &[document(new, step)]);
                }
            }
        }
        if step % 64 == 0 {
            let low = step * 31 % DOCUMENTS;
            delete(collection, &doc! { "_id": { "$gte": low, "$lt": low + 40 } }, true);
        }
    }
    step
}

fn assert_clean(store: &Arc<Store>) {
    let report = check(store, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn builds_beside_writers(engine: Arc<dyn Engine>) -> Arc<Store> {
    let store = Store::open(engine).unwrap();
    let things = collection(&store);
    insert(&things, &(0..DOCUMENTS).map(|id| document(id, 0)).collect::<Vec<_>>());
    let (stop, settled) = (AtomicBool::new(false), AtomicBool::new(false));
    let moved = Namespace::new("test", "moved").unwrap();
    std::thread::scope(|scope| {
        let _raised = (Raise(&stop), Raise(&settled));
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (things, stop) = (&things, &stop);
                scope.spawn(move || disturb(things, writer, stop))
            })
            .collect();
        for _ in 0..2 {
            build(&things, specifications()).unwrap();
            assert!(things.schema().indexes.iter().all(|index| index.is_ready()));
            things.remove_indexes(|index| index.spec.name != "_id_").unwrap();
        }
        // The third build runs while the collection is renamed.
        scope.spawn(|| {
            while !settled.load(Ordering::Relaxed) {
                store.rename(&name(), &moved, false).unwrap();
                store.rename(&moved, &name(), false).unwrap();
            }
        });
        build(&things, specifications()).unwrap();
        settled.store(true, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
        let rounds: Vec<i32> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        assert!(rounds.iter().all(|rounds| *rounds > 10), "{rounds:?}");
    });
    assert_eq!(things.schema().indexes.len(), 9);
    assert!(
        things
            .schema()
            .indexes
            .iter()
            .all(|index| index.is_multikey() == ["a", "bc"].contains(&&*index.spec.name))
    );
    assert_clean(&store);
    store
}

#[test]
fn builds_beside_writers_in_memory_leave_exactly_the_documents_entries() {
    builds_beside_writers(Arc::new(ContractEngine::new(MemoryEngine::new())));
}

#[test]
fn builds_beside_writers_on_disk_leave_exactly_the_documents_entries() {
    let directory = tempfile::tempdir().unwrap();
    let store = builds_beside_writers(on_disk(directory.path()));
    let count = collection(&store).count();
    store.close().unwrap();
    drop(store);
    let store = Store::open(on_disk(directory.path())).unwrap();
    assert_eq!(collection(&store).count(), count);
    assert_eq!(collection(&store).schema().indexes.len(), 9);
    assert_clean(&store);
}

#[test]
fn a_build_of_several_runs_ingests_all_entries() {
    let store = crate::setup::store();
    let things = collection(&store);
    let values = |id: i32| (0..60).map(|n| (id * 7 + n * 13) % 5_000).collect::<Vec<_>>();
    insert(&things, &(0..DOCUMENTS).map(|id| doc! { "_id": id, "a": values(id) }).collect::<Vec<_>>());
    index(&things, doc! { "key": { "a": 1 }, "name": "a" });
    assert_clean(&store);
    let expected: Vec<i64> = (0..DOCUMENTS).filter(|id| values(*id).contains(&77)).map(i64::from).collect();
    assert_eq!(find_ids(&store, &doc! { "a": 77 }), expected);
}

#[test]
fn a_document_that_cannot_be_indexed_fails_the_build_and_leaves_no_entries() {
    let store = crate::setup::store();
    let things = collection(&store);
    let mut documents: Vec<DocBuf> = (0..DOCUMENTS).map(|id| doc! { "_id": id, "a": id }).collect();
    documents.push(doc! { "_id": DOCUMENTS, "a": [1], "b": [2] });
    insert(&things, &documents);
    let parallel = doc! { "key": { "a": 1, "b": 1 }, "name": "ab" };
    let specs = vec![IndexSpec::parse(parallel.as_doc(), None).unwrap()];
    let Err(Error::Query(error)) = build(&things, specs.clone()) else { panic!("the build succeeded") };
    assert_eq!(error.code, 171);
    assert_eq!(things.schema().indexes.len(), 1);
    assert_clean(&store);
    delete(&things, &doc! { "_id": DOCUMENTS }, false);
    build(&things, specs).unwrap();
    assert_clean(&store);
}

#[test]
fn a_build_ends_when_it_is_killed_or_its_index_or_collection_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(on_disk(directory.path())).unwrap();
    let spec = || vec![IndexSpec::parse(doc! { "key": { "a": 1 }, "name": "a" }.as_doc(), None).unwrap()];
    let things = collection(&store);
    insert(&things, &(0..2 * DOCUMENTS).map(|id| doc! { "_id": id, "a": id }).collect::<Vec<_>>());
    for way in ["interrupt", "dropIndexes", "drop"] {
        let (interrupt, progress) = (Interrupt::new(), BuildProgress::default());
        std::thread::scope(|scope| {
            let build = scope.spawn(|| things.create_indexes(spec(), &interrupt, &progress));
            while progress.done.load(Ordering::Relaxed) == 0 && !build.is_finished() {}
            match way {
                "interrupt" => interrupt.kill(),
                "dropIndexes" => things.remove_indexes(|index| index.spec.name == "a").unwrap(),
                _ => assert!(store.drop_collection(&name()).unwrap()),
            }
            // The build may have been complete before.
            match build.join().unwrap() {
                Ok(_) if way == "interrupt" => things.remove_indexes(|index| index.spec.name == "a").unwrap(),
                Ok(_) => {}
                Err(error) => assert!(way == "drop" || things.schema().indexes.len() == 1, "{error}"),
            }
        });
    }
    assert!(store.collection(&name()).unwrap().is_none());
    drop(things);
    store.close().unwrap();
    drop(store);
    // The ingested entries are deleted, at the latest after the next start.
    let engine = on_disk(directory.path());
    let store = Store::open(engine.clone()).unwrap();
    let left = || engine.snapshot().scan(Space::Indexes, KeyRange::all(), Direction::Forward).count();
    while left() > 0 {
        std::thread::yield_now();
    }
    assert_clean(&store);
}
