//! A full disk: writes that grow the store are refused, writes that free space succeed, and none is applied in part.

use crate::setup::{collection, find_ids, index, insert, name};
use diwan_kv::{FaultEngine, MemoryEngine};
use diwan_query::Interrupt;
use diwan_store::ops::{Aggregate, Delete, Scope, Update};
use diwan_store::plan::Hint;
use diwan_store::{
    Base, BuildProgress, Error, IndexSpec, Namespace, RevisionEdit, RevisionOutcome, Store, WriteOptions,
    check,
};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, Value, doc};
use std::sync::Arc;

type Full = Arc<FaultEngine<MemoryEngine>>;

fn store() -> (Arc<Store>, Full) {
    let engine = Arc::new(FaultEngine::new(MemoryEngine::new()));
    (Store::open(engine.clone()).unwrap(), engine)
}

#[track_caller]
fn assert_full<T>(outcome: diwan_store::Result<T>) {
    let error = outcome.err().expect("an error");
    assert!(error.is_out_of_space(), "{error}");
    assert_eq!(error.to_string(), "available disk space of 1 bytes is less than required minimum of 2");
}

fn assert_clean(store: &Store) {
    let report = check::check(store, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

fn all(store: &Arc<Store>) -> Vec<i64> {
    find_ids(store, &doc! {})
}

#[test]
fn a_full_disk_refuses_growth_and_accepts_deletions() {
    let (store, engine) = store();
    let things = collection(&store);
    index(&things, doc! { "key": { "n": 1 }, "name": "n" });
    insert(&things, &(0..10).map(|id| doc! { "_id": id, "n": id }).collect::<Vec<_>>());
    let other = Namespace::new("test", "other").unwrap();
    store.create(&other, Doc::EMPTY).unwrap();

    engine.set_full(true);
    let docs: Vec<DocBuf> = (20..23).map(|id| doc! { "_id": id }).collect();
    let views: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    for (ordered, refused) in [(true, vec![0]), (false, vec![0, 1, 2])] {
        let report = things.insert(&views, ordered, WriteOptions::default()).unwrap();
        assert_eq!(report.inserted, 0);
        assert_eq!(report.errors.iter().map(|(at, _)| *at).collect::<Vec<_>>(), refused);
        report.errors.into_iter().for_each(|(_, error)| assert_full(Err::<(), _>(error)));
    }
    let (filter, modification) = (doc! { "_id": 1 }, doc! { "$set": { "n": 100 } });
    let update = Update {
        filter: filter.as_doc(),
        update: Some(Value::Document(modification.as_doc())),
        ..Update::default()
    };
    assert_full(things.update(&update));
    assert_full(store.create(&Namespace::new("test", "new").unwrap(), Doc::EMPTY));
    let spec = doc! { "key": { "m": 1 }, "name": "m" };
    let specs = || vec![IndexSpec::parse(spec.as_doc(), None).unwrap()];
    assert_full(things.create_indexes(specs(), &Interrupt::new(), &BuildProgress::default()));
    assert_eq!(things.schema().indexes.len(), 2);

    let filter = doc! { "_id": { "$lt": 4 } };
    let deleted =
        things.delete(&Delete { filter: filter.as_doc(), multi: true, ..Delete::default() }).unwrap();
    assert_eq!((deleted.count, all(&store)), (4, (4..10).collect()));
    things.remove_indexes(|index| index.spec.name == "n").unwrap();
    assert!(store.drop_collection(&other).unwrap());
    assert_clean(&store);

    engine.set_full(false);
    insert(&things, &docs);
    things.create_indexes(specs(), &Interrupt::new(), &BuildProgress::default()).unwrap();
    assert_eq!(all(&store).len(), 9);
    assert_clean(&store);
}

#[test]
fn a_full_disk_accepts_the_deletions_among_edits() {
    let (store, engine) = store();
    let things = store.collection_or_create(&name()).unwrap();
    let edit = |id: &'static str, base: Base, deleted: bool| RevisionEdit {
        id: Value::String(id),
        base,
        deleted,
        doc: Doc::EMPTY,
        attachments: Vec::new(),
    };
    let first = things.edit_revisions(&[edit("a", Base::New, false)], true, None).unwrap();
    let RevisionOutcome::Written(revision) = first.outcomes[0] else { panic!("{first:?}") };
    let checkpoint = |n: i32| doc! { "n": n };
    things.put_local("checkpoint", checkpoint(1).as_doc(), None).unwrap();

    engine.set_full(true);
    let edits = [edit("a", Base::Leaf(revision), true), edit("b", Base::New, false)];
    let report = things.edit_revisions(&edits, true, None).unwrap();
    assert!(matches!(report.outcomes[0], RevisionOutcome::Written(_)), "{report:?}");
    assert!(
        matches!(&report.outcomes[1], RevisionOutcome::Refused(Error::Engine(error)) if error.is_out_of_space()),
        "{report:?}"
    );
    assert_full(things.put_local("new", checkpoint(1).as_doc(), None));
    assert_eq!(things.put_local("checkpoint", checkpoint(2).as_doc(), Some(1)).unwrap().0, 2);
    things.delete_local("checkpoint").unwrap();
    assert_clean(&store);

    engine.set_full(false);
    let report = things.edit_revisions(&edits[1..], true, None).unwrap();
    assert!(matches!(report.outcomes[0], RevisionOutcome::Written(_)), "{report:?}");
    assert_clean(&store);
}

#[test]
fn out_and_merge_on_a_full_disk_leave_their_targets_unchanged() {
    let (store, engine) = store();
    let things = collection(&store);
    insert(&things, &[doc! { "_id": 1 }, doc! { "_id": 2 }]);
    let target = Namespace::new("test", "target").unwrap();
    insert(&store.collection_or_create(&target).unwrap(), &[doc! { "_id": 7 }]);
    engine.set_full(true);
    for stage in [doc! { "$out": "target" }, doc! { "$merge": { "into": "target" } }] {
        let mut stages = ArrayBuilder::new();
        stages.push(stage);
        let stages = stages.finish();
        let request = Aggregate {
            pipeline: Array::trusted(&stages),
            hint: Hint::None,
            scope: Scope::default(),
            bypass_validation: false,
        };
        let outcome = store.aggregate(Some(&name()), "test", &request).and_then(|mut source| {
            while source.advance(&Interrupt::new())? {}
            Ok(())
        });
        assert_full(outcome);
        let target = store.collection(&target).unwrap().unwrap();
        assert_eq!(target.count(), 1);
    }
    assert_eq!(store.entries_of("test").len(), 2);
    assert_clean(&store);
}
