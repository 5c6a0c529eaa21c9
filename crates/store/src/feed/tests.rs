//! Tests of change rows and subscriptions: against a model, and beside concurrent writers.

use super::{ChangeRow, DatabaseEventKind};
use crate::{
    Base, Collection, Edit, Namespace, Revision, RevisionEdit, RevisionOutcome, Store, WriteOptions, id_key,
};
use diwan_kv::{ContractEngine, Direction, MemoryEngine};
use diwan_query::Interrupt;
use diwan_value::{DocBuf, Value, ValueBuf, doc};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn store() -> Arc<Store> {
    Store::open(Arc::new(ContractEngine::new(MemoryEngine::new()))).unwrap()
}

fn name(collection: &str) -> Namespace {
    Namespace::new("test", collection).unwrap()
}

fn insert(collection: &Collection, docs: &[DocBuf]) {
    let docs: Vec<_> = docs.iter().map(DocBuf::as_doc).collect();
    let report = collection.insert(&docs, true, WriteOptions::default()).unwrap();
    assert_eq!(report.inserted, docs.len(), "{:?}", report.errors);
}

fn edit(collection: &Collection, id: Value<'_>, new: Option<DocBuf>) {
    let edit = |new: &Option<DocBuf>| new.clone().map_or(Edit::Delete, Edit::Put);
    collection.edit(&[id_key(id).unwrap()], WriteOptions::default(), |_, _| Ok(edit(&new))).unwrap();
}

/// All rows after `since`, read `limit` at a time.
fn follow(collection: &Arc<Collection>, mut since: u64, limit: usize) -> Vec<ChangeRow> {
    let mut all = Vec::new();
    loop {
        let rows = collection.changes(since, limit, Direction::Forward).unwrap();
        let ended = rows.len() < limit;
        since = rows.last().map_or(since, |row| row.sequence);
        all.extend(rows);
        if ended {
            return all;
        }
    }
}

#[test]
fn changes_return_the_last_change_of_each_document() {
    let store = store();
    let things = store.collection_or_create(&name("things")).unwrap();
    let mut random = Random(5);
    // The last body of each document, `None` for a deletion.
    let mut model: BTreeMap<i32, Option<DocBuf>> = BTreeMap::new();
    let mut order: Vec<i32> = Vec::new();
    // Far more than a run of the log, with ids that are dense and ids that are not.
    let mut ids: Vec<i32> = (0..6000).collect();
    for at in (4000..6000).rev() {
        ids.swap(at, 4000 + random.below(2000) as usize);
        ids[at] *= 7;
    }
    let docs: Vec<DocBuf> = ids.iter().map(|&id| doc! { "_id": id, "a": 0 }).collect();
    insert(&things, &docs);
    for (&id, doc) in ids.iter().zip(docs) {
        model.insert(id, Some(doc));
        order.push(id);
    }
    for round in 0..2500 {
        let id = ids[random.below(6000) as usize];
        let is_there = model[&id].is_some();
        let new = (random.below(3) > 0).then(|| doc! { "_id": id, "a": round });
        if !is_there && new.is_none() {
            continue;
        }
        edit(&things, Value::Int32(id), new.clone());
        model.insert(id, new);
        order.retain(|other| *other != id);
        order.push(id);
    }
    let rows = follow(&things, 0, usize::MAX);
    assert!(rows.is_sorted_by(|a, b| a.sequence < b.sequence));
    assert_eq!(rows.iter().map(|row| row.id_value.clone()).collect::<Vec<_>>(), {
        order.iter().map(|&id| ValueBuf::new(Value::Int32(id))).collect::<Vec<_>>()
    });
    let view = things.view();
    for (row, id) in rows.iter().zip(&order) {
        assert_eq!(row.id, id_key(Value::Int32(*id)).unwrap());
        let found = view.document(&row.id).unwrap().unwrap();
        assert_eq!(
            (row.revision, row.deleted, row.sequence),
            (found.revision, found.deleted, found.sequence)
        );
        assert_eq!(row.deleted, model[id].is_none());
        assert!(row.leaves.is_empty());
    }
    for limit in [1, 999, 4096, 4097] {
        if limit > 1 {
            assert_eq!(follow(&things, 0, limit), rows);
        }
        let last = things.last_sequence();
        let tail = &rows[rows.len() - limit.min(rows.len())..];
        let reversed = things.changes(last + 1, limit, Direction::Reverse).unwrap();
        assert_eq!(reversed, tail.iter().rev().cloned().collect::<Vec<_>>());
        let from = rows.len() / 2;
        let some = things.changes(rows[from].sequence, limit, Direction::Forward).unwrap();
        assert_eq!(some, rows[from + 1..(from + 1 + limit).min(rows.len())]);
        let before = things.changes(rows[from].sequence, limit, Direction::Reverse).unwrap();
        assert_eq!(before, rows[from.saturating_sub(limit)..from].iter().rev().cloned().collect::<Vec<_>>());
    }
    assert!(things.changes(things.last_sequence(), 10, Direction::Forward).unwrap().is_empty());
    assert!(things.changes(1, 10, Direction::Reverse).unwrap().is_empty());
    assert!(things.changes(0, 0, Direction::Forward).unwrap().is_empty());
}

#[test]
fn rows_hold_the_leaves_and_exact_ids_of_deleted_documents_and_omit_purged_ones() {
    let store = store();
    let things = store.collection_or_create(&name("things")).unwrap();
    let revision = |generation: u32, hash: u8| Revision { generation, hash: [hash; 16] };
    let graft = |id: &'static str, generation: u32, hash: u8, deleted: bool| {
        let body = doc! { "_id": id, "n": i32::from(hash) };
        let base = Base::Graft { revision: revision(generation, hash), ancestors: Vec::new() };
        let edit = RevisionEdit {
            id: Value::String(id),
            base,
            deleted,
            doc: body.as_doc(),
            attachments: Vec::new(),
        };
        let report = things.edit_revisions(&[edit], true, None).unwrap();
        assert!(matches!(report.outcomes[0], RevisionOutcome::Written(_)));
    };
    graft("a", 1, 1, false);
    graft("a", 1, 3, false);
    graft("a", 2, 2, true);
    graft("b", 1, 1, true);
    graft("b", 3, 2, true);
    for (id, types) in [(Value::Int32(1), "int"), (Value::Double(2.0), "double"), (Value::Int64(3), "long")] {
        insert(&things, &[doc! { "_id": id, "types": types }]);
        edit(&things, id, None);
    }
    graft("c", 1, 1, false);
    let purged =
        things.purge(&id_key(Value::String("c")).unwrap(), &[revision(1, 1)], &Interrupt::new()).unwrap();
    assert_eq!(purged, [revision(1, 1)]);
    let rows = follow(&things, 0, 2);
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[0].revision, revision(1, 3));
    assert_eq!(rows[0].leaves, [revision(1, 3), revision(1, 1), revision(2, 2)]);
    assert!(!rows[0].deleted && rows[1].deleted);
    assert_eq!(rows[1].leaves, [revision(3, 2), revision(1, 1)]);
    let ids: Vec<_> = rows[2..].iter().map(|row| row.id_value.clone()).collect();
    let expected = [Value::Int32(1), Value::Double(2.0), Value::Int64(3)].map(ValueBuf::new);
    for (id, expected) in ids.iter().zip(&expected) {
        assert_eq!(format!("{id:?}"), format!("{expected:?}"));
    }
}

/// Beside concurrent writers every reader sees rising sequences, and in the end the last change of each document.
#[test]
fn readers_beside_writers_see_every_last_change_in_order() {
    const DOCS: u64 = 40;
    let store = store();
    let things = store.collection_or_create(&name("things")).unwrap();
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3usize)
            .map(|reader| {
                let (things, done) = (&things, &done);
                scope.spawn(move || {
                    let (sender, news) = mpsc::channel();
                    let subscription = things.on_change(Box::new(move || {
                        let _ = sender.send(());
                    }));
                    let mut since = 0;
                    let mut last: BTreeMap<Vec<u8>, ChangeRow> = BTreeMap::new();
                    loop {
                        let is_last_look = done.load(Ordering::Acquire);
                        let rows = things.changes(since, [1, 7, 1000][reader], Direction::Forward).unwrap();
                        for row in &rows {
                            assert!(row.sequence > since, "{} after {since}", row.sequence);
                            since = row.sequence;
                            last.insert(row.id.clone(), row.clone());
                        }
                        if rows.is_empty() {
                            if is_last_look {
                                break;
                            }
                            if things.last_sequence() == since {
                                // A lost callback would make this time out.
                                let told = news.recv_timeout(Duration::from_secs(60));
                                assert!(told.is_ok() || done.load(Ordering::Acquire));
                                while news.try_recv().is_ok() {}
                            }
                        }
                    }
                    drop(subscription);
                    last
                })
            })
            .collect();
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let things = &things;
                scope.spawn(move || {
                    let mut random = Random(writer);
                    for round in 0..1500 {
                        let id = random.below(DOCS) as i32;
                        let new = (random.below(4) > 0).then(|| doc! { "_id": id, "n": round });
                        edit(things, Value::Int32(id), new);
                        if round % 100 == 99 {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        // Wakes the readers that wait.
        things.changed();
        written.into_iter().for_each(|outcome| outcome.unwrap());
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    let expected: BTreeMap<Vec<u8>, ChangeRow> =
        follow(&things, 0, usize::MAX).into_iter().map(|row| (row.id.clone(), row)).collect();
    assert!(!expected.is_empty());
    for seen in seen {
        assert_eq!(seen, expected);
    }
}

#[test]
fn dropping_a_subscription_stops_callbacks() {
    let store = store();
    let things = store.collection_or_create(&name("things")).unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let subscription = things.on_change(Box::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    insert(&things, &[doc! { "_id": 1 }, doc! { "_id": 2 }]);
    assert_eq!(told.load(Ordering::Relaxed), 1, "one call for a batch");
    edit(&things, Value::Int32(1), None);
    assert_eq!(told.load(Ordering::Relaxed), 2);
    store.drop_collection(&name("things")).unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 3);
    assert!(things.is_dropped());
    drop(subscription);
    assert_eq!(Arc::strong_count(&told), 1, "the callback is gone");
}

#[test]
fn database_events_keep_the_newest_of_each_kind_and_name() {
    let engine = Arc::new(MemoryEngine::new());
    let events = |store: &Store, since: u64| -> Vec<(DatabaseEventKind, String)> {
        let events = store.database_events(since, usize::MAX);
        assert!(events.is_sorted_by(|a, b| a.sequence < b.sequence));
        events.into_iter().map(|event| (event.kind, event.namespace.collection)).collect()
    };
    let event = |kind, name: &str| (kind, name.to_owned());
    use DatabaseEventKind::{Altered, Created, Deleted, Updated};
    let last = {
        let store = Store::open(engine.clone()).unwrap();
        let told = Arc::new(AtomicUsize::new(0));
        let counter = told.clone();
        let _subscription = store.on_database_event(Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        let one = store.collection_or_create(&name("one")).unwrap();
        store.create(&name("view"), doc! { "viewOn": "one", "pipeline": [] }.as_doc()).unwrap();
        for id in 0..100 {
            insert(&one, &[doc! { "_id": id }]);
        }
        assert_eq!(told.load(Ordering::Relaxed), 3, "repeated updates call once until they are read");
        let first = [event(Created, "one"), event(Altered, "view"), event(Updated, "one")];
        assert_eq!(events(&store, 0), first);
        let since = store.last_database_event();
        insert(&one, &[doc! { "_id": "x" }]);
        store.rename(&name("one"), &name("two"), false).unwrap();
        insert(&one, &[doc! { "_id": "y" }]);
        store.collection_or_create(&name("three")).unwrap();
        store.drop_collection(&name("two")).unwrap();
        assert_eq!(
            events(&store, since),
            [
                event(Updated, "one"),
                event(Deleted, "one"),
                event(Created, "two"),
                event(Updated, "two"),
                event(Created, "three"),
                event(Deleted, "two"),
            ]
        );
        assert_eq!(events(&store, 0)[0], event(Created, "one"), "the newer update replaced the older one");
        assert_eq!(store.database_events(0, 2).len(), 2);
        store.last_database_event()
    };
    // The sequences of the next start are derived from its milliseconds.
    std::thread::sleep(Duration::from_millis(20));
    let store = Store::open(engine).unwrap();
    assert!(store.last_database_event() > last);
    assert_eq!(events(&store, last), [event(Created, "three")]);
    for n in 0..70_000 {
        store.shared.databases.note(Created, &name(&n.to_string()));
    }
    assert_eq!(store.database_events(0, usize::MAX).len(), 65_536);
}
