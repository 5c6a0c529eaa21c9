//! `check` reports nothing for an undamaged store, and reports every kind of damage.

use crate::setup::{delete, index, insert, update};
use diwan_kv::{Batch, Engine, Fault, FaultEngine, FjallEngine, KeyRange, MemoryEngine, Options, Space};
use diwan_query::Interrupt;
use diwan_store::blob::BlobSource;
use diwan_store::check::{CheckReport, FindingKind, Part};
use diwan_store::keys::{
    BlobKeys, CollectionId, IndexId, Key, blobs_prefix, collection_prefix, index_prefix, natural_prefix,
};
use diwan_store::{
    Base, Change, ChangeKind, Namespace, RetryRecord, Revision, RevisionEdit, RevisionOutcome, Store,
    WriteOptions, check, id_key, validate_collection,
};
use diwan_value::{DocBuf, Value, doc};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The numbers of collections and indexes in `used_store`, which are allocated in the order of creation.
const THINGS: CollectionId = CollectionId(1);
const BY_TAG: IndexId = IndexId(3);
const BY_NUMBER: IndexId = IndexId(4);
const CAPPED: CollectionId = CollectionId(7);

/// A store with everything that a check reads: documents 0 to 9, of which 7 was deleted, 8 was deleted and inserted
/// again, and 1 has three revisions.
fn used_store() -> (Arc<Store>, Arc<MemoryEngine>) {
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::open(engine.clone()).unwrap();
    let things = store.collection_or_create(&Namespace::new("test", "things").unwrap()).unwrap();
    things.keep_history().unwrap();
    index(&things, doc! { "key": { "tags": 1 }, "name": "by_tag" });
    index(&things, doc! { "key": { "number": 1 }, "name": "by_number", "unique": true, "sparse": true });
    index(&things, doc! { "key": { "$**": 1 }, "name": "all" });
    index(
        &things,
        doc! {
            "key": { "number": -1, "tags": 1 },
            "name": "some",
            "partialFilterExpression": { "number": { "$gt": 3 } },
            "collation": { "locale": "en", "strength": 2 }
        },
    );
    let docs: Vec<DocBuf> =
        (0..10).map(|id| doc! { "_id": id, "number": id, "tags": ["a", id, 1.5] }).collect();
    insert(&things, &docs);
    update(&things, &doc! { "_id": 1 }, &doc! { "$set": { "number": 100 } }, false, false);
    update(&things, &doc! { "_id": 1 }, &doc! { "$set": { "number": 101 } }, false, false);
    // The same key bytes with other type bytes.
    update(&things, &doc! { "_id": 2 }, &doc! { "$set": { "number": 2.0 } }, false, false);
    delete(&things, &doc! { "_id": { "$in": [7, 8] } }, true);
    insert(&things, &[doc! { "_id": 8, "number": 8 }]);
    let capped = Namespace::new("test", "capped").unwrap();
    store.create(&capped, doc! { "capped": true, "size": 4096, "max": 5 }.as_doc()).unwrap();
    let capped = store.collection(&capped).unwrap().unwrap();
    insert(&capped, &(0..12).map(|id| doc! { "_id": id }).collect::<Vec<_>>());
    let retry = RetryRecord { session: b"session", transaction: 1, statement: 0, result: None };
    let options = WriteOptions { retry: Some(retry), ..WriteOptions::default() };
    capped.insert(&[doc! { "_id": 12 }.as_doc()], true, options).unwrap();
    let view = doc! { "viewOn": "things", "pipeline": [] };
    store.create(&Namespace::new("test", "view").unwrap(), view.as_doc()).unwrap();
    (store, engine)
}

fn checked(store: &Store) -> CheckReport {
    check(store, &mut |_| ()).unwrap()
}

/// Damages a used store. Returns the distinct kinds of findings that a check then reports.
fn kinds_after(damage: impl FnOnce(&dyn Engine, &mut Batch)) -> Vec<FindingKind> {
    let (store, engine) = used_store();
    let mut batch = Batch::new();
    damage(engine.as_ref(), &mut batch);
    engine.commit(batch).unwrap();
    let report = checked(&store);
    assert_eq!(report.findings.count, report.findings.listed.len() as u64);
    let mut kinds: Vec<FindingKind> = Vec::new();
    for finding in &report.findings.listed {
        assert!(!finding.detail.is_empty());
        if !kinds.contains(&finding.kind) {
            kinds.push(finding.kind);
        }
    }
    kinds
}

fn id(id: i32) -> Vec<u8> {
    id_key(Value::Int32(id)).unwrap()
}

fn record(id_of: i32) -> Vec<u8> {
    Key::Record(THINGS, &id(id_of)).bytes()
}

fn pairs(engine: &dyn Engine, space: Space, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    engine
        .snapshot()
        .visit(space, KeyRange::prefix(prefix), &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    pairs
}

fn value(engine: &dyn Engine, space: Space, key: &[u8]) -> Vec<u8> {
    engine.get(space, key).unwrap().unwrap().to_vec()
}

#[test]
fn check_finds_nothing_in_a_used_store() {
    let (store, _) = used_store();
    let mut parts = Vec::new();
    let report = check(&store, &mut |progress| {
        parts.push((progress.namespace.to_owned(), progress.part.to_string()));
    })
    .unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let things = report.collections.iter().find(|found| found.namespace == "test.things").unwrap();
    assert_eq!((things.documents, things.tombstones, things.changes, things.ancestors), (9, 1, 10, 6));
    let entries: Vec<(&str, u64)> =
        things.indexes.iter().map(|index| (index.name.as_str(), index.entries)).collect();
    assert_eq!(entries, [("_id_", 9), ("by_tag", 25), ("by_number", 9), ("all", 33), ("some", 16)]);
    assert!(things.indexes.iter().all(|index| index.checked));
    let capped = report.collections.iter().find(|found| found.namespace == "test.capped").unwrap();
    assert_eq!(capped.documents, 5);
    assert_eq!((report.collections.len(), report.views, report.retry_records), (2, 1, 1));
    assert!(parts.contains(&("test.things".to_owned(), Part::Index("by_tag").to_string())));
    assert!(parts.contains(&("test.capped".to_owned(), Part::InsertionOrder.to_string())));
}

#[test]
fn check_finds_damaged_records() {
    for cut in [1, 2, 20] {
        let kinds = kinds_after(|engine, batch| {
            let bytes = value(engine, Space::Records, &record(3));
            batch.put(Space::Records, record(3), &bytes[..bytes.len() - cut]);
        });
        // The entries of a document that cannot be parsed are not checked.
        assert_eq!(kinds, [FindingKind::Record], "{cut} bytes missing");
    }
    let kinds = kinds_after(|engine, batch| {
        let mut bytes = value(engine, Space::Records, &record(3));
        *bytes.last_mut().unwrap() = 1;
        batch.put(Space::Records, record(3), bytes);
    });
    assert_eq!(kinds, [FindingKind::Record]);
    // A document under the key of another.
    let kinds = kinds_after(|engine, batch| {
        batch.put(Space::Records, record(33), value(engine, Space::Records, &record(3)));
    });
    assert_eq!(kinds, [FindingKind::Record, FindingKind::Count]);
    // A missing document.
    let kinds = kinds_after(|_, batch| batch.delete(Space::Records, record(3)));
    assert_eq!(kinds, [FindingKind::Count, FindingKind::StrayChange, FindingKind::StrayEntry]);
}

#[test]
fn check_finds_damaged_change_logs() {
    let newest = |engine: &dyn Engine| pairs(engine, Space::Log, &collection_prefix(THINGS)).pop().unwrap();
    let kinds = kinds_after(|engine, batch| {
        let (key, _) = pairs(engine, Space::Log, &collection_prefix(THINGS)).swap_remove(0);
        batch.delete(Space::Log, key);
    });
    assert_eq!(kinds, [FindingKind::MissingChange]);
    let kinds = kinds_after(|_, batch| {
        let own = id(4);
        let stray =
            Change { sequence: 1, kind: ChangeKind::Insert, count: 1, deleted: None, bytes: None, id: &own };
        batch.put(Space::Log, Key::Change(THINGS, 1).bytes(), stray.encode());
    });
    assert_eq!(kinds, [FindingKind::MissingChange, FindingKind::StrayChange]);
    let kinds = kinds_after(|engine, batch| {
        let (key, value) = newest(engine);
        let sequence = u64::from(*key.last().unwrap());
        let change = Change::parse(sequence, &value).unwrap();
        batch.put(Space::Log, key.clone(), Change { count: change.count - 1, ..change }.encode());
    });
    assert_eq!(kinds, [FindingKind::Count]);
    let kinds = kinds_after(|engine, batch| {
        let (key, value) = newest(engine);
        let sequence = u64::from(*key.last().unwrap());
        let change = Change::parse(sequence, &value).unwrap();
        batch.put(Space::Log, key.clone(), Change { kind: ChangeKind::Delete, ..change }.encode());
    });
    assert_eq!(kinds, [FindingKind::MissingChange, FindingKind::StrayChange]);
}

#[test]
fn check_finds_damaged_indexes() {
    for number in [BY_TAG, BY_NUMBER] {
        let kinds = kinds_after(|engine, batch| {
            let (key, _) = pairs(engine, Space::Indexes, &index_prefix(number)).swap_remove(0);
            batch.delete(Space::Indexes, key);
        });
        assert_eq!(kinds, [FindingKind::MissingEntry]);
    }
    let kinds = kinds_after(|_, batch| {
        batch.put(Space::Indexes, Key::Entry(BY_TAG, &id(1000), &id(3)).bytes(), Vec::new());
    });
    assert_eq!(kinds, [FindingKind::StrayEntry]);
    let kinds = kinds_after(|engine, batch| {
        let entries = pairs(engine, Space::Indexes, &index_prefix(BY_NUMBER));
        batch.put(Space::Indexes, entries[3].0.clone(), entries[4].1.clone());
    });
    assert_eq!(kinds, [FindingKind::MissingEntry, FindingKind::StrayEntry]);
    // Type bytes that stand for another number.
    let kinds = kinds_after(|engine, batch| {
        let (key, mut value) = pairs(engine, Space::Indexes, &index_prefix(BY_NUMBER)).swap_remove(0);
        value.push(1);
        batch.put(Space::Indexes, key, value);
    });
    assert_eq!(kinds, [FindingKind::MissingEntry]);
    let kinds = kinds_after(|engine, batch| {
        let key = Key::Catalog { database: "test", collection: "things" }.bytes();
        let mut bytes = value(engine, Space::Meta, &key);
        let name = b"multikey\0";
        let positions: Vec<usize> =
            (0..bytes.len()).filter(|&at| bytes[at..].starts_with(name)).map(|at| at + name.len()).collect();
        positions.into_iter().for_each(|at| bytes[at..at + 8].fill(0));
        batch.put(Space::Meta, key, bytes);
    });
    assert_eq!(kinds, [FindingKind::Multikey]);
}

#[test]
fn check_finds_damaged_revisions() {
    for (of, generation) in [(1, 1), (1, 2), (8, 1), (7, 1)] {
        let kinds = kinds_after(|_, batch| {
            batch.delete(Space::Revisions, Key::Ancestor(THINGS, &id(of), generation).bytes());
        });
        // A missing first revision is no damage, since it may have been stemmed.
        let expected: &[FindingKind] = if (of, generation) == (1, 1) || (of, generation) == (8, 1) {
            &[]
        } else {
            &[FindingKind::Revision]
        };
        assert_eq!(kinds, expected, "revision {generation} of {of}");
    }
    let kinds = kinds_after(|_, batch| {
        batch.put(Space::Revisions, Key::Ancestor(THINGS, &id(5), 9).bytes(), &[0u8; 16][..]);
    });
    assert_eq!(kinds, [FindingKind::Revision]);
    let kinds = kinds_after(|_, batch| {
        batch.delete(Space::Revisions, Key::Tombstone(THINGS, &id(7)).bytes());
    });
    assert_eq!(kinds, [FindingKind::Revision, FindingKind::Count, FindingKind::StrayChange]);
    let kinds = kinds_after(|engine, batch| {
        let tombstone = value(engine, Space::Revisions, &Key::Tombstone(THINGS, &id(7)).bytes());
        batch.put(Space::Revisions, Key::Tombstone(THINGS, &id(3)).bytes(), tombstone);
    });
    assert_eq!(kinds, [FindingKind::Revision]);
    let kinds = kinds_after(|_, batch| {
        batch.put(Space::Revisions, [collection_prefix(THINGS).as_slice(), &[250]].concat(), Vec::new());
    });
    assert_eq!(kinds, [FindingKind::Revision]);
}

#[test]
fn check_finds_damaged_insertion_orders() {
    let first = |engine: &dyn Engine| pairs(engine, Space::Indexes, &natural_prefix(CAPPED)).swap_remove(0);
    let kinds = kinds_after(|engine, batch| batch.delete(Space::Indexes, first(engine).0));
    assert_eq!(kinds, [FindingKind::InsertionOrder]);
    let kinds = kinds_after(|engine, batch| {
        let key = [natural_prefix(CAPPED).as_slice(), &[200]].concat();
        batch.put(Space::Indexes, key, first(engine).1);
    });
    assert_eq!(kinds, [FindingKind::InsertionOrder]);
}

#[test]
fn check_finds_damaged_catalogs_and_orphans() {
    let kinds = kinds_after(|_, batch| batch.put(Space::Meta, Key::Format.bytes(), &[1, 2][..]));
    assert_eq!(kinds, [FindingKind::Catalog]);
    let kinds = kinds_after(|_, batch| batch.put(Space::Meta, &b"cbroken"[..], Vec::new()));
    assert_eq!(kinds, [FindingKind::Catalog]);
    let kinds = kinds_after(|_, batch| batch.put(Space::Meta, &b"zz"[..], Vec::new()));
    assert_eq!(kinds, [FindingKind::Orphan]);
    let kinds = kinds_after(|engine, batch| {
        let (key, _) = pairs(engine, Space::Meta, b"r").swap_remove(0);
        batch.put(Space::Meta, key, &b"short"[..]);
    });
    assert_eq!(kinds, [FindingKind::RetryRecord]);
    let kinds =
        kinds_after(|_, batch| batch.put(Space::Meta, Key::Size(CollectionId(99)).bytes(), vec![0; 6]));
    assert_eq!(kinds, [FindingKind::Orphan]);
    let kinds = kinds_after(|_, batch| batch.put(Space::Meta, Key::Size(THINGS).bytes(), Vec::new()));
    assert_eq!(kinds, [FindingKind::Catalog]);
    let kinds = kinds_after(|_, batch| batch.put(Space::Revisions, &[0u8, 7][..], Vec::new()));
    assert_eq!(kinds, [FindingKind::Orphan]);
    let orphan = CollectionId(900);
    let strays = [
        Key::Record(orphan, b"x"),
        Key::Change(orphan, 7),
        Key::Tombstone(orphan, b"x"),
        Key::Entry(IndexId(900), b"x", b"y"),
    ];
    for stray in strays {
        let kinds = kinds_after(|_, batch| batch.put(stray.space(), stray.bytes(), Vec::new()));
        assert_eq!(kinds, [FindingKind::Orphan], "{stray:?}");
        // Keys of a dropped collection that are still to be deleted are no damage.
        let kinds = kinds_after(|_, batch| {
            batch.put(stray.space(), stray.bytes(), Vec::new());
            batch.put(Space::Meta, Key::Dropped(900).bytes(), Vec::new());
            // Format 1, next number 1000.
            batch.put(Space::Meta, Key::Format.bytes(), &[1, 241, 3, 232][..]);
        });
        assert_eq!(kinds, [], "{stray:?}");
    }
    let kinds = kinds_after(|_, batch| {
        batch.put(Space::Indexes, natural_prefix(orphan), Vec::new());
    });
    assert_eq!(kinds, [FindingKind::Orphan]);
}

#[test]
fn validate_collection_checks_one_collection() {
    let (store, engine) = used_store();
    let things = store.collection(&Namespace::new("test", "things").unwrap()).unwrap().unwrap();
    let mut batch = Batch::new();
    let (key, _) = pairs(engine.as_ref(), Space::Indexes, &index_prefix(BY_TAG)).swap_remove(0);
    batch.delete(Space::Indexes, key);
    engine.commit(batch).unwrap();
    let report = validate_collection(&things, &Interrupt::new(), &mut |_| ()).unwrap();
    assert_eq!((report.documents, report.findings.count), (9, 1));
    let findings: Vec<(&str, u64)> =
        report.indexes.iter().map(|index| (index.name.as_str(), index.findings)).collect();
    assert_eq!(findings, [("_id_", 0), ("by_tag", 1), ("by_number", 0), ("all", 0), ("some", 0)]);
    let interrupt = Interrupt::new();
    interrupt.kill();
    assert!(validate_collection(&things, &interrupt, &mut |_| ()).is_err());
}

#[test]
fn check_finds_nothing_after_drops_of_collections_and_indexes() {
    let (store, _) = used_store();
    let things = store.collection(&Namespace::new("test", "things").unwrap()).unwrap().unwrap();
    things.remove_indexes(|index| index.spec.name == "all").unwrap();
    assert!(checked(&store).findings.is_empty());
    store.drop_collection(&things.namespace()).unwrap();
    let report = checked(&store);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.collections.len(), 1);
}

#[test]
fn an_insert_after_a_kill_follows_the_documents_tombstone() {
    let engine = Arc::new(MemoryEngine::new());
    let name = Namespace::new("test", "things").unwrap();
    let docs: Vec<DocBuf> = (0..3).map(|id| doc! { "_id": id }).collect();
    {
        let store = Store::open(engine.clone()).unwrap();
        let things = store.collection_or_create(&name).unwrap();
        things.keep_history().unwrap();
        insert(&things, &docs);
        delete(&things, &doc! {}, true);
    }
    let store = Store::open(engine).unwrap();
    docs.iter().for_each(|doc| insert(&store.collection(&name).unwrap().unwrap(), std::slice::from_ref(doc)));
    let report = checked(&store);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.collections[0].ancestors, 6);
}

#[test]
fn superseded_bodies_have_a_key_in_the_order_of_time() {
    let (store, engine) = used_store();
    let things = store.collection(&Namespace::new("test", "things").unwrap()).unwrap().unwrap();
    let (id_value, empty) = (Value::Int32(5), doc! { "n": 1 });
    let first = things.get(&id(5)).unwrap().unwrap().record().revision();
    let edit = RevisionEdit {
        id: id_value,
        base: Base::Leaf(first),
        deleted: false,
        doc: empty.as_doc(),
        attachments: Vec::new(),
    };
    things.edit_revisions(&[edit], true, None).unwrap();
    let report = checked(&store);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let due = pairs(engine.as_ref(), Space::Revisions, &[0]);
    assert_eq!(due.len(), 1);
    let mut batch = Batch::new();
    batch.delete(Space::Revisions, due[0].0.clone());
    engine.commit(batch).unwrap();
    assert_eq!(checked(&store).findings.listed[0].kind, FindingKind::Revision);
}

#[test]
fn counts_and_sizes_are_exact_after_a_kill_after_a_failed_commit_and_after_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    let open = || FjallEngine::open(directory.path(), &Options::default()).unwrap();
    let name = Namespace::new("test", "things").unwrap();
    let agree = |store: &Store| {
        let report = checked(store);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let things = store.collection(&name).unwrap().unwrap();
        let checked = &report.collections[0];
        assert_eq!(
            (things.count(), things.data_bytes(), things.deleted_count()),
            (checked.documents, checked.bytes, checked.tombstones)
        );
    };
    for run in 0..4 {
        let faulty = Arc::new(FaultEngine::new(open()));
        let store = Store::open(faulty.clone()).unwrap();
        let things = store.collection_or_create(&name).unwrap();
        if run > 0 {
            agree(&store);
        }
        if run == 2 {
            things.keep_history().unwrap();
        }
        let docs: Vec<DocBuf> =
            (0..50).map(|n| doc! { "_id": run * 100 + n, "text": "x".repeat(n as usize) }).collect();
        insert(&things, &docs);
        let longer = doc! { "$set": { "text": "y".repeat(70) } };
        update(&things, &doc! { "_id": { "$mod": [3, 0] } }, &longer, true, false);
        delete(&things, &doc! { "_id": { "$mod": [5, 0] } }, true);
        agree(&store);
        faulty.fail(Fault::Commit, 1);
        assert!(things.insert(&[doc! { "_id": -1 }.as_doc()], true, WriteOptions::default()).is_err());
        agree(&store);
        // A kill: the store is not closed.
    }
    let store = Store::open(Arc::new(open())).unwrap();
    agree(&store);
    let things = store.collection(&name).unwrap().unwrap();
    insert(&things, &[doc! { "_id": "last" }]);
    // The notes written at a stop agree with the change log.
    let expected = (things.count(), things.data_bytes(), things.deleted_count(), things.last_sequence());
    store.close().unwrap();
    drop((things, store));
    // The first start finds the notes exact, the second one, after a kill, does not.
    for _ in 0..2 {
        let store = Store::open(Arc::new(open())).unwrap();
        let things = store.collection(&name).unwrap().unwrap();
        let found = (things.count(), things.data_bytes(), things.deleted_count(), things.last_sequence());
        assert_eq!(found, expected);
    }
}

#[test]
fn a_capped_collection_keeps_its_order_and_limits_after_a_kill() {
    let engine = Arc::new(MemoryEngine::new());
    let name = Namespace::new("test", "capped").unwrap();
    let options = doc! { "capped": true, "size": 256 };
    for first in [0, 100, 200] {
        let store = Store::open(engine.clone()).unwrap();
        if first == 0 {
            store.create(&name, options.as_doc()).unwrap();
        }
        let capped = store.collection(&name).unwrap().unwrap();
        (first..first + 30).for_each(|id| insert(&capped, &[doc! { "_id": id }]));
        let report = checked(&store);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!(capped.data_bytes(), report.collections[0].bytes);
        assert_eq!(report.collections[0].documents, 256 / 14);
    }
}

#[test]
fn an_index_that_is_marked_as_dropped_is_removed_at_the_start() {
    let (store, engine) = used_store();
    drop(store);
    let mut batch = Batch::new();
    batch.put(Space::Meta, Key::Dropped(BY_TAG.0).bytes(), Vec::new());
    // An entry is missing, as if a writer had not maintained the index any more.
    let (key, _) = pairs(engine.as_ref(), Space::Indexes, &index_prefix(BY_TAG)).swap_remove(0);
    batch.delete(Space::Indexes, key);
    engine.commit(batch).unwrap();
    let store = Store::open(engine).unwrap();
    let things = store.collection(&Namespace::new("test", "things").unwrap()).unwrap().unwrap();
    assert!(things.schema().indexes.iter().all(|index| index.id != BY_TAG));
    assert!(checked(&store).findings.is_empty());
}

/// A store that also has a document with a conflict, a deleted branch, a superseded body and an attachment; a local
/// document; and a setting.
fn branched_store() -> (Arc<Store>, Arc<MemoryEngine>, [Revision; 3]) {
    let (store, engine) = used_store();
    let things = store.collection(&Namespace::new("test", "things").unwrap()).unwrap().unwrap();
    let mut upload = things.blob_writer(BlobSource::Plain).unwrap();
    upload.write_all(b"some bytes").unwrap();
    let blob = upload.finish().unwrap();
    let edit = |base: Base, deleted: bool, doc: &DocBuf| {
        let attachments = if deleted { Vec::new() } else { vec![blob.attachment("a", "text/plain", 1)] };
        let edit = RevisionEdit { id: Value::Int32(50), base, deleted, doc: doc.as_doc(), attachments };
        match things.edit_revisions(&[edit], true, None).unwrap().outcomes.remove(0) {
            RevisionOutcome::Written(revision) => revision,
            other => panic!("{other:?}"),
        }
    };
    let graft = |generation: u32, hash: u8| Base::Graft {
        revision: Revision { generation, hash: [hash; 16] },
        ancestors: Vec::new(),
    };
    let first = edit(Base::New, false, &doc! { "v": 1 });
    let winner = edit(Base::Leaf(first), false, &doc! { "v": 2 });
    let conflict = edit(graft(1, 7), false, &doc! { "v": 3 });
    let other = edit(graft(1, 8), false, &doc! { "v": 4 });
    edit(Base::Leaf(other), true, &doc! {});
    things.put_local("checkpoint", doc! { "seq": 5 }.as_doc(), None).unwrap();
    things.set_setting("security", Some(Value::Int32(1))).unwrap();
    (store, engine, [winner, conflict, other])
}

#[test]
fn check_finds_damaged_branches_bodies_and_attachments() {
    let (store, _, _) = branched_store();
    let report = checked(&store);
    assert!(report.findings.is_empty(), "{:?}", report.findings.listed);
    let id = id(50);
    type Damage = Box<dyn Fn(&dyn Engine, &mut Batch, [Revision; 3])>;
    let branches = Key::Branches(THINGS, &id).bytes();
    let (a, b, c, d, e) = (branches.clone(), branches.clone(), id.clone(), id.clone(), id.clone());
    let damages: Vec<(FindingKind, Damage)> = vec![
        (FindingKind::Revision, Box::new(move |_, batch, _| batch.delete(Space::Revisions, a.as_slice()))),
        (
            FindingKind::Revision,
            Box::new(move |engine, batch, _| {
                let mut bytes = value(engine, Space::Revisions, &b);
                bytes.pop();
                batch.put(Space::Revisions, b.as_slice(), bytes);
            }),
        ),
        (
            FindingKind::Revision,
            Box::new(move |_, batch, [_, conflict, _]| {
                batch.delete(Space::Revisions, Key::Body(THINGS, &c, conflict).bytes());
            }),
        ),
        (
            FindingKind::Revision,
            Box::new(move |engine, batch, [winner, conflict, _]| {
                let body = value(engine, Space::Revisions, &Key::Body(THINGS, &d, conflict).bytes());
                batch.put(Space::Revisions, Key::Body(THINGS, &d, winner).bytes(), body);
            }),
        ),
        (
            FindingKind::Attachment,
            Box::new(move |engine, batch, [winner, ..]| {
                let references = blobs_prefix(THINGS, BlobKeys::References);
                let pairs = pairs(engine, Space::Meta, &references);
                let own = pairs
                    .iter()
                    .find(|(key, _)| key.windows(16).any(|part| part == winner.hash) && key.ends_with(&e));
                batch.delete(Space::Meta, own.unwrap().0.as_slice());
            }),
        ),
        (
            FindingKind::Attachment,
            Box::new(|engine, batch, _| {
                let heads = pairs(engine, Space::Meta, &blobs_prefix(THINGS, BlobKeys::Heads));
                batch.delete(Space::Meta, heads[0].0.as_slice());
            }),
        ),
        (
            FindingKind::Catalog,
            Box::new(|_, batch, _| {
                batch.put(Space::Meta, Key::Local(THINGS, b"checkpoint").bytes(), &b"\x01short"[..]);
            }),
        ),
        (
            FindingKind::Orphan,
            Box::new(|_, batch, _| {
                let value = doc! { "v": 1 }.into_bytes();
                batch.put(Space::Meta, Key::Setting(CollectionId(99), "security").bytes(), value);
            }),
        ),
    ];
    for (at, (expected, damage)) in damages.iter().enumerate() {
        let (store, engine, revisions) = branched_store();
        let mut batch = Batch::new();
        damage(engine.as_ref(), &mut batch, revisions);
        engine.commit(batch).unwrap();
        let findings = checked(&store).findings.listed;
        assert!(findings.iter().any(|finding| finding.kind == *expected), "damage {at}: {findings:?}");
    }
}
