//! Schema changes beside writes and beside each other: the invariants of each pair.

use crate::setup::{collection, index, insert, name, store, try_find, update};
use diwan_query::pipeline::DocSource;
use diwan_query::{Interrupt, code};
use diwan_store::ops::{Aggregate, Delete, Find, Scope, Update};
use diwan_store::plan::Hint;
use diwan_store::{
    BuildProgress, Collection, Entry, Error, IndexSpec, Namespace, Schema, Store, WriteOptions, check,
};
use diwan_value::{Array, ArrayBuilder, DocBuf, Value, array, doc};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

type Edit = fn(&mut Schema) -> Result<(), Error>;

const NO_EDIT: Option<Edit> = None;

fn named(name: &str) -> Namespace {
    Namespace::new("test", name).unwrap()
}

fn build(collection: &Arc<Collection>, spec: DocBuf) -> diwan_store::Result<(usize, usize)> {
    let spec = IndexSpec::parse(spec.as_doc(), None).unwrap();
    collection.create_indexes(vec![spec], &Interrupt::new(), &BuildProgress::default())
}

fn unique(field: &str) -> DocBuf {
    doc! { "key": { (field): 1 }, "name": field, "unique": true }
}

fn assert_sound(store: &Store) {
    let report = check(store, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn code_of(error: &Error) -> i32 {
    match error {
        Error::Query(error) => error.code,
        other => panic!("{other:?}"),
    }
}

/// Runs the closures concurrently.
fn together(work: &[&(dyn Fn() + Sync)]) {
    let barrier = Barrier::new(work.len());
    std::thread::scope(|scope| {
        for one in work {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                one();
            });
        }
    });
}

/// Runs `write` repeatedly until `change` has ended. Returns the outcome of `change`.
fn beside<T: Send>(write: impl Fn(usize) + Sync, change: impl FnOnce() -> T + Send) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut step = 0;
            while !ended.load(Ordering::Relaxed) {
                write(step);
                step += 1;
            }
        });
        let outcome = change();
        ended.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        outcome
    })
}

#[test]
fn a_batch_that_frees_and_takes_a_unique_key_keeps_the_entry() {
    let store = store();
    let things = collection(&store);
    index(&things, unique("u"));
    insert(&things, &(1..=20).map(|n| doc! { "_id": n, "u": n }).collect::<Vec<_>>());
    update(&things, &doc! {}, &doc! { "$inc": { "u": -1 } }, true, false);
    assert_sound(&store);
    let taken = doc! { "_id": 99, "u": 5 };
    let report = things.insert(&[taken.as_doc()], true, WriteOptions::default()).unwrap();
    assert!(matches!(report.errors[..], [(0, Error::DuplicateKey(_))]));
}

#[test]
fn a_unique_build_fails_for_duplicates_although_one_is_updated_meanwhile() {
    for round in 0..30 {
        let store = store();
        let things = collection(&store);
        insert(&things, &(0..400).map(|n| doc! { "_id": n, "u": n }).collect::<Vec<_>>());
        insert(&things, &[doc! { "_id": 400, "u": 7 }]);
        let built = beside(
            |step| {
                let id = if step % 2 == 0 { 400 } else { 7 };
                update(&things, &doc! { "_id": id }, &doc! { "$inc": { "v": 1 } }, false, false);
            },
            || build(&things, unique("u")),
        );
        assert!(matches!(built, Err(Error::DuplicateKey(_))), "round {round}: {built:?}");
        assert_eq!(things.schema().indexes.len(), 1);
        assert_sound(&store);
    }
}

#[test]
fn a_unique_build_holds_the_survivors_of_duplicates_that_are_resolved_meanwhile() {
    for round in 0..40 {
        let store = store();
        let things = collection(&store);
        insert(&things, &(0..300).map(|n| doc! { "_id": n, "u": n }).collect::<Vec<_>>());
        // Pairs of duplicates. The walk reaches the second of each pair late.
        insert(&things, &(0..50).map(|n| doc! { "_id": 1000 + n, "u": n }).collect::<Vec<_>>());
        let step = AtomicUsize::new(0);
        let resolve = |_| {
            let n = step.fetch_add(1, Ordering::Relaxed) as i32;
            if n < 50 && n % 2 == 0 {
                let filter = doc! { "_id": n };
                things.delete(&Delete { filter: filter.as_doc(), ..Delete::default() }).unwrap();
            } else if n < 50 {
                update(&things, &doc! { "_id": n }, &doc! { "$set": { "u": -n } }, false, false);
            }
        };
        let built = beside(resolve, || build(&things, unique("u")));
        assert_sound(&store);
        if built.is_err() {
            continue;
        }
        for n in 0..50 {
            let taken = doc! { "_id": 5000 + n, "u": n };
            let report = things.insert(&[taken.as_doc()], true, WriteOptions::default()).unwrap();
            assert_eq!(report.inserted, 0, "round {round}: a second document with {n} was accepted");
        }
    }
}

#[test]
fn of_two_renames_of_one_collection_one_succeeds() {
    for _ in 0..200 {
        let store = store();
        let source = store.collection_or_create(&named("a")).unwrap();
        insert(&source, &[doc! { "_id": 1 }]);
        let succeeded = AtomicUsize::new(0);
        let rename = |to: &str| {
            if store.rename(&named("a"), &named(to), false).is_ok() {
                succeeded.fetch_add(1, Ordering::Relaxed);
            }
        };
        together(&[&|| rename("b"), &|| rename("d")]);
        assert_eq!(succeeded.into_inner(), 1);
        assert_eq!(store.entries_of("test").len(), 1);
        assert_sound(&store);
    }
}

#[test]
fn a_rename_beside_an_insert_that_creates_the_target_loses_neither() {
    for _ in 0..200 {
        let store = store();
        insert(&store.collection_or_create(&named("a")).unwrap(), &[doc! { "_id": 1 }]);
        together(&[
            &|| match store.rename(&named("a"), &named("b"), false) {
                Ok(()) => {}
                Err(error) => assert_eq!(code_of(&error), code::NAMESPACE_EXISTS),
            },
            &|| {
                let doc = doc! { "_id": 2 };
                store.insert(&named("b"), &[doc.as_doc()], true, WriteOptions::default()).unwrap();
            },
        ]);
        let count = |name: &str| store.collection(&named(name)).unwrap().map_or(0, |found| found.count());
        assert_eq!(count("a") + count("b"), 2);
        assert_sound(&store);
    }
}

#[test]
fn drops_beside_creations_and_builds_leave_nothing_behind() {
    let store = store();
    for round in 0..150 {
        let drop_it = || {
            store.drop_collection(&name()).unwrap();
        };
        let insert_one = || {
            for n in 0..10 {
                let doc = doc! { "a": [1, (n)] };
                let report = store.insert(&name(), &[doc.as_doc()], true, WriteOptions::default()).unwrap();
                assert_eq!(report.inserted, 1, "{:?}", report.errors);
            }
        };
        let build_one = || {
            let specs = |_: Option<&_>| {
                Ok(vec![IndexSpec::parse(doc! { "key": { "a": 1 }, "name": "a" }.as_doc(), None)?])
            };
            match store.create_indexes(&name(), specs, &Interrupt::new(), &BuildProgress::default()) {
                Ok(_) => {}
                Err(error) => assert_eq!(code_of(&error), code::INDEX_BUILD_ABORTED),
            }
        };
        together(&[&drop_it, &drop_it, &drop_it, &insert_one, &insert_one, &build_one]);
        assert_sound(&store);
        let found = store.collection(&name()).unwrap().map_or(0, |found| found.count());
        assert!(found <= 20, "round {round}");
    }
}

#[test]
fn inserts_beside_drops_create_the_collection_again() {
    let store = store();
    let inserted = beside(
        |_| {
            store.drop_collection(&name()).unwrap();
        },
        || {
            let one = |n: i32| {
                let (plain, upserted) = (doc! { "n": n }, doc! { "$set": { "n": n } });
                let report = store.insert(&name(), &[plain.as_doc()], true, WriteOptions::default()).unwrap();
                let filter = doc! { "_id": n };
                let upsert = Update {
                    filter: filter.as_doc(),
                    update: Some(Value::Document(upserted.as_doc())),
                    upsert: true,
                    ..Update::default()
                };
                let updated = store.update(&name(), &upsert).unwrap();
                report.inserted + usize::from(updated.upserted.is_some())
            };
            (0..2000).map(one).sum::<usize>()
        },
    );
    assert_eq!(inserted, 4000);
    assert_sound(&store);
}

#[test]
fn converting_to_capped_beside_inserts_loses_none() {
    for _ in 0..5 {
        let store = store();
        collection(&store);
        let acknowledged = AtomicUsize::new(0);
        beside(
            |step| {
                if step >= 10_000 {
                    return std::thread::yield_now();
                }
                let doc = doc! { "x": 1 };
                let report = store.insert(&name(), &[doc.as_doc()], true, WriteOptions::default()).unwrap();
                acknowledged.fetch_add(report.inserted, Ordering::Relaxed);
            },
            || {
                for _ in 0..10 {
                    store.convert_to_capped(&name(), 100 << 20, &Interrupt::new()).unwrap();
                }
            },
        );
        let things = store.collection(&name()).unwrap().unwrap();
        assert!(things.schema().options.capped.is_some());
        assert_eq!(things.count() as usize, acknowledged.into_inner());
        assert_eq!(store.entries_of("test").len(), 1);
        assert_sound(&store);
    }
}

#[test]
fn a_capped_conversion_keeps_updates_and_deletions_made_meanwhile() {
    let store = store();
    let things = collection(&store);
    insert(&things, &(0..3000).map(|n| doc! { "_id": n, "v": 0 }).collect::<Vec<_>>());
    let step = AtomicUsize::new(0);
    beside(
        |_| {
            let n = step.fetch_add(1, Ordering::Relaxed) as i32;
            let (filter, set) = (doc! { "_id": 2999 - n }, doc! { "$set": { "v": 1 } });
            if n >= 3000 {
                return;
            }
            if n % 2 == 0 {
                let update = Update {
                    filter: filter.as_doc(),
                    update: Some(Value::Document(set.as_doc())),
                    ..Update::default()
                };
                assert_eq!(store.update(&name(), &update).unwrap().matched, 1);
            } else {
                let delete = Delete { filter: filter.as_doc(), ..Delete::default() };
                assert_eq!(store.delete(&name(), &delete).unwrap().count, 1);
            }
        },
        || store.convert_to_capped(&name(), 100 << 20, &Interrupt::new()).unwrap(),
    );
    let done = step.into_inner().min(3000) as i32;
    let found = try_find(&store, &Find::default()).unwrap();
    assert_eq!(found.len() as i32, 3000 - done / 2);
    let changed = found.iter().filter(|doc| doc.as_doc().get("v") == Some(Value::Int32(1))).count();
    assert_eq!(changed as i32, (done + 1) / 2);
    assert_sound(&store);
}

#[test]
fn simultaneous_outs_to_one_target_leave_one_collection() {
    for _ in 0..30 {
        let store = store();
        insert(&collection(&store), &(0..20).map(|n| doc! { "_id": n }).collect::<Vec<_>>());
        let out = || {
            let mut stages = ArrayBuilder::new();
            stages.push(doc! { "$out": "target" });
            let stages = stages.finish();
            let request = Aggregate {
                pipeline: Array::trusted(&stages),
                hint: Hint::None,
                scope: Scope::default(),
                bypass_validation: false,
            };
            let mut source = store.aggregate(Some(&name()), "test", &request).unwrap();
            assert!(!source.advance(&Interrupt::new()).unwrap());
        };
        together(&[&out, &out, &out]);
        assert_eq!(store.entries_of("test").len(), 2);
        assert_eq!(store.collection(&named("target")).unwrap().unwrap().count(), 20);
        assert_sound(&store);
    }
}

#[test]
fn a_capped_collection_of_one_document_is_never_empty_after_an_insert() {
    let store = store();
    store.create(&name(), doc! { "capped": true, "size": 10_000, "max": 1 }.as_doc()).unwrap();
    let things = store.collection(&name()).unwrap().unwrap();
    for round in 0..300 {
        let insert_one = || insert(&things, &[doc! { "r": round }]);
        let writer: &(dyn Fn() + Sync) = &insert_one;
        together(&[writer; 8]);
        assert_eq!(things.count(), 1, "round {round}");
    }
    assert_sound(&store);
}

#[test]
fn modifying_an_index_during_its_build_keeps_it_multikey() {
    for round in 0..20 {
        let store = store();
        let things = collection(&store);
        insert(&things, &(0..500).map(|n| doc! { "_id": n, "a": [(n), 1000, -5] }).collect::<Vec<_>>());
        let hide = |step: usize| {
            let edit = |schema: &mut Schema| {
                let hidden = Some(step.is_multiple_of(2));
                schema
                    .modify_index(|index| index.spec.name == "a", |spec| spec.modified(hidden, None, None))?;
                Ok(())
            };
            store.modify(&name(), doc! {}.as_doc(), Some(edit)).unwrap();
        };
        beside(hide, || build(&things, doc! { "key": { "a": 1 }, "name": "a" })).unwrap();
        assert!(things.schema().indexes[1].is_multikey(), "round {round}");
        assert_sound(&store);
    }
}

#[test]
fn concurrent_changes_of_options_are_all_kept() {
    for round in 0..200 {
        let store = store();
        let things = collection(&store);
        index(&things, doc! { "key": { "d": 1 }, "name": "d", "expireAfterSeconds": 100 });
        let edit = |hidden: Option<bool>, expire: Option<i64>| {
            move |schema: &mut Schema| {
                schema
                    .modify_index(|index| index.spec.name == "d", |spec| spec.modified(hidden, expire, None))
                    .map(drop)
            }
        };
        together(&[
            &|| store.modify(&name(), doc! {}.as_doc(), Some(edit(Some(true), None))).unwrap(),
            &|| store.modify(&name(), doc! {}.as_doc(), Some(edit(None, Some(7)))).unwrap(),
            &|| store.modify(&name(), doc! { "validator": { "x": 1 } }.as_doc(), NO_EDIT).unwrap(),
            &|| store.modify(&name(), doc! { "validationLevel": "off" }.as_doc(), NO_EDIT).unwrap(),
        ]);
        let schema = things.schema();
        let spec = &schema.indexes[1].spec;
        assert!(spec.hidden && spec.expire_after_seconds == Some(7), "round {round}");
        let options = schema.options.to_doc();
        assert!(options.get("validator").is_some(), "round {round}");
        assert_eq!(options.get("validationLevel"), Some(Value::String("off")), "round {round}");
    }
}

#[test]
fn modifying_a_view_beside_its_drop_does_not_restore_it() {
    for round in 0..200 {
        let store = store();
        store.create(&named("v"), doc! { "viewOn": "a", "pipeline": [] }.as_doc()).unwrap();
        together(&[&|| assert!(store.drop_collection(&named("v")).unwrap()), &|| match store.modify(
            &named("v"),
            doc! { "viewOn": "b" }.as_doc(),
            NO_EDIT,
        ) {
            Ok(()) => {}
            Err(error) => assert_eq!(code_of(&error), code::NAMESPACE_NOT_FOUND),
        }]);
        assert!(store.entry(&named("v")).is_none(), "round {round}");
        assert_sound(&store);
    }
}

#[test]
fn renaming_over_a_view_is_refused() {
    let store = store();
    collection(&store);
    store.create(&named("v"), doc! { "viewOn": "a", "pipeline": [] }.as_doc()).unwrap();
    let error = store.rename(&name(), &named("v"), true).unwrap_err();
    assert_eq!(code_of(&error), code::NAMESPACE_EXISTS);
    assert!(matches!(store.entry(&named("v")), Some(Entry::View(_))));
}

#[test]
fn a_handle_on_a_dropped_collection_reads_nothing_and_refuses_writes() {
    let store = store();
    let things = collection(&store);
    insert(&things, &[doc! { "_id": 1, "a": array![1] }]);
    store.drop_collection(&name()).unwrap();
    let view = things.view();
    let mut seen = 0;
    view.raw_documents(None, &mut |_, _| {
        seen += 1;
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, 0);
    assert!(matches!(
        things.insert(&[doc! { "_id": 2 }.as_doc()], true, WriteOptions::default()),
        Err(Error::CollectionDropped(_))
    ));
}
