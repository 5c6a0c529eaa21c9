//! Revision trees in a collection, against a naive model, and between stores that replicate.

use crate::random::Random;
use crate::setup::{delete, index, update};
use diwan_kv::MemoryEngine;
use diwan_query::Interrupt;
use diwan_store::blob::THIS_EDIT;
use diwan_store::{
    Base, ChangeKind, Collection, Namespace, Revision, RevisionEdit, RevisionOutcome, Store, WriteOptions,
    check, id_key,
};
use diwan_value::{Doc, DocBuf, Value, doc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn key(name: &str) -> Vec<u8> {
    id_key(Value::String(name)).unwrap()
}

fn edit<'a>(id: &'a str, base: Base, deleted: bool, doc: Doc<'a>) -> RevisionEdit<'a> {
    RevisionEdit { id: Value::String(id), base, deleted, doc, attachments: Vec::new() }
}

/// Makes one edit, and keeps the body that it supersedes.
fn one(collection: &Collection, edit: RevisionEdit<'_>) -> RevisionOutcome {
    collection.edit_revisions(&[edit], true, None).unwrap().outcomes.remove(0)
}

#[track_caller]
fn written(outcome: RevisionOutcome) -> Revision {
    match outcome {
        RevisionOutcome::Written(revision) => revision,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_sound(store: &Store) {
    let report = check(store, &mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings.listed);
}

/// The revisions of one document that one store has received.
#[derive(Clone, Default)]
struct Model {
    parents: BTreeMap<Revision, Option<Revision>>,
    bodies: BTreeMap<Revision, (bool, i32)>,
}

impl Model {
    fn add(&mut self, path: &[Revision], deleted: bool, n: i32) {
        for (at, revision) in path.iter().enumerate() {
            let parent = self.parents.entry(*revision).or_insert(None);
            *parent = parent.or(path.get(at + 1).copied());
        }
        self.bodies.entry(path[0]).or_insert((deleted, n));
    }

    /// The leaves, the winner first.
    fn leaves(&self) -> Vec<Revision> {
        let parents: BTreeSet<Revision> = self.parents.values().flatten().copied().collect();
        let mut leaves: Vec<Revision> =
            self.parents.keys().filter(|revision| !parents.contains(revision)).copied().collect();
        leaves.sort_by_key(|leaf| std::cmp::Reverse((!self.bodies[leaf].0, *leaf)));
        leaves
    }

    fn is_live(&self) -> bool {
        self.leaves().first().is_some_and(|winner| !self.bodies[winner].0)
    }
}

struct Replica {
    engine: Arc<MemoryEngine>,
    store: Arc<Store>,
    collection: Arc<Collection>,
    models: BTreeMap<String, Model>,
}

impl Replica {
    fn new() -> Replica {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine.clone()).unwrap();
        let name = Namespace::new("test", "things").unwrap();
        let collection = store.collection_or_create(&name).unwrap();
        index(&collection, doc! { "key": { "n": 1 }, "name": "by_n" });
        Replica { engine, store, collection, models: BTreeMap::new() }
    }

    fn restart(&mut self) {
        self.store = Store::open(self.engine.clone()).unwrap();
        self.collection = self.store.collection(&Namespace::new("test", "things").unwrap()).unwrap().unwrap();
    }

    /// A random write from MongoDB or CouchDB.
    fn write(&mut self, random: &mut Random, name: &str, n: i32) {
        let model = self.models.entry(name.to_owned()).or_default();
        let leaves = model.leaves();
        let live = model.is_live();
        let body = doc! { "n": n };
        let filter = doc! { "_id": name };
        match random.index(10) {
            // Writes from MongoDB change the winner.
            0 | 1 if live => {
                update(&self.collection, &filter, &doc! { "$set": { "n": n } }, false, false);
                let new = self.winner(name);
                self.models.get_mut(name).unwrap().add(&[new, leaves[0]], false, n);
            }
            2 if live => {
                assert_eq!(delete(&self.collection, &filter, false), 1);
                let tree = self.collection.view().tree(&key(name)).unwrap().unwrap();
                let model = self.models.get_mut(name).unwrap();
                for leaf in tree.leaves() {
                    assert!(leaf.deleted);
                    let path = tree.path(&leaf.revision);
                    model.add(&path[..path.len().min(2)], true, 0);
                }
            }
            3 if !live => {
                let whole = doc! { "_id": name, "n": n };
                let inserted = self.collection.insert(&[whole.as_doc()], true, WriteOptions::default());
                assert_eq!(inserted.unwrap().inserted, 1);
                let new = self.winner(name);
                let path: Vec<Revision> = std::iter::once(new).chain(leaves.first().copied()).collect();
                self.models.get_mut(name).unwrap().add(&path, false, n);
            }
            4 => {
                let outcome = one(&self.collection, edit(name, Base::New, false, body.as_doc()));
                if live {
                    assert!(matches!(outcome, RevisionOutcome::Conflict));
                } else {
                    let path: Vec<Revision> =
                        std::iter::once(written(outcome)).chain(leaves.first().copied()).collect();
                    self.models.get_mut(name).unwrap().add(&path, false, n);
                }
            }
            _ if !leaves.is_empty() => {
                let leaf = leaves[random.index(leaves.len())];
                let deleted = random.index(4) == 0;
                let body = if deleted && random.index(2) == 0 {
                    doc! {}
                } else {
                    body
                };
                let n = if body.as_doc().is_empty() { 0 } else { n };
                let keep = random.index(2) == 0;
                let edits = [edit(name, Base::Leaf(leaf), deleted, body.as_doc())];
                let outcome = self.collection.edit_revisions(&edits, keep, None).unwrap().outcomes.remove(0);
                if live {
                    let new = written(outcome);
                    self.models.get_mut(name).unwrap().add(&[new, leaf], deleted, n);
                } else {
                    assert!(matches!(outcome, RevisionOutcome::Conflict), "{outcome:?}");
                }
            }
            _ => {}
        }
    }

    fn winner(&self, name: &str) -> Revision {
        self.collection.view().document(&key(name)).unwrap().unwrap().revision
    }

    /// Replicates the leaves of a document from another store, each with as many ancestors as `part` allows.
    fn pull(&mut self, from: &Replica, name: &str, mut part: impl FnMut(usize) -> usize) {
        let view = from.collection.view();
        let Some(tree) = view.tree(&key(name)).unwrap() else { return };
        let mut found = Vec::new();
        for leaf in tree.leaves() {
            let mut path = tree.path(&leaf.revision);
            path.truncate(part(path.len()).max(1));
            let revised = view.revision(&key(name), leaf.revision).unwrap().unwrap();
            assert_eq!(revised.deleted, leaf.deleted);
            found.push((path, revised));
        }
        let mut edits = Vec::new();
        for (path, revised) in &found {
            let ancestors = path[1..].iter().map(|revision| revision.hash).collect();
            let base = Base::Graft { revision: path[0], ancestors };
            edits.push(edit(name, base, revised.deleted, revised.doc.as_doc()));
        }
        let report = self.collection.edit_revisions(&edits, false, None).unwrap();
        for ((path, revised), outcome) in found.iter().zip(report.outcomes) {
            let (RevisionOutcome::Written(revision) | RevisionOutcome::Known(revision)) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(revision, path[0]);
            let n = number(revised.doc.as_doc());
            self.models.entry(name.to_owned()).or_default().add(path, revised.deleted, n);
        }
    }

    fn compare(&self) {
        let view = self.collection.view();
        let (mut live, mut deleted) = (0, 0);
        for (name, model) in &self.models {
            let expected = model.leaves();
            let Some(winner) = expected.first() else {
                assert!(view.document(&key(name)).unwrap().is_none());
                continue;
            };
            let tree = view.tree(&key(name)).unwrap().unwrap();
            let leaves: Vec<Revision> = tree.leaves().iter().map(|leaf| leaf.revision).collect();
            assert_eq!(leaves, expected, "{name}");
            for leaf in tree.leaves() {
                let revised = view.revision(&key(name), leaf.revision).unwrap().unwrap();
                let (deleted, n) = model.bodies[&leaf.revision];
                assert_eq!((revised.deleted, number(revised.doc.as_doc())), (deleted, n));
                assert_eq!(revised.id(), Value::String(name));
            }
            let record = view.get(&key(name)).unwrap();
            assert_eq!(record.is_some(), model.is_live());
            if let Some(record) = record {
                assert_eq!(record.record().revision(), *winner);
                assert_eq!(number(record.doc()), model.bodies[winner].1);
                live += 1;
            } else {
                deleted += 1;
            }
        }
        assert_eq!((self.collection.count(), self.collection.deleted_count()), (live, deleted));
    }
}

fn number(doc: Doc<'_>) -> i32 {
    doc.get("n").and_then(|n| n.as_i64_exact()).unwrap_or(0) as i32
}

#[test]
fn stores_that_replicate_in_any_order_converge() {
    for seed in 1..60 {
        let mut random = Random::new(seed);
        let mut replicas = [Replica::new(), Replica::new(), Replica::new()];
        let names = ["a", "b", "c"];
        for n in 1..60 {
            let name = names[random.index(names.len())];
            let at = random.index(3);
            match random.index(8) {
                0..=4 => replicas[at].write(&mut random, name, n),
                5 | 6 => {
                    let other = (at + 1 + random.index(2)) % 3;
                    let (one, two) = pair(&mut replicas, at, other);
                    one.pull(two, name, |whole| match random.index(3) {
                        0 => 1 + random.index(whole),
                        _ => whole,
                    });
                }
                _ if random.index(2) == 0 => replicas[at].restart(),
                _ => {
                    replicas[at].collection.compact_bodies().unwrap();
                }
            }
            replicas[at].compare();
        }
        for _ in 0..2 {
            for (at, other) in [(0, 1), (1, 2), (2, 0), (1, 0)] {
                for name in names {
                    let (one, two) = pair(&mut replicas, at, other);
                    one.pull(two, name, |whole| whole);
                }
            }
        }
        for replica in &mut replicas {
            replica.compare();
            assert_sound(&replica.store);
            replica.restart();
            replica.compare();
        }
        for name in names {
            let leaves = |replica: &Replica| replica.models.get(name).map(Model::leaves).unwrap_or_default();
            assert_eq!(leaves(&replicas[0]), leaves(&replicas[1]), "seed {seed}");
            assert_eq!(leaves(&replicas[0]), leaves(&replicas[2]), "seed {seed}");
        }
    }
}

fn pair(replicas: &mut [Replica; 3], one: usize, two: usize) -> (&mut Replica, &Replica) {
    let [one, two] = replicas.get_disjoint_mut([one, two]).unwrap();
    (one, two)
}

fn setup() -> (Arc<Store>, Arc<Collection>) {
    let store = crate::setup::store();
    let collection = crate::setup::collection(&store);
    (store, collection)
}

#[test]
fn an_edit_must_follow_a_leaf() {
    let (store, things) = setup();
    let (one_doc, two) = (doc! { "n": 1 }, doc! { "n": 2 });
    let first = written(one(&things, edit("x", Base::New, false, one_doc.as_doc())));
    assert_eq!(first, Revision::first(doc! { "_id": "x", "n": 1 }.as_doc()));
    assert!(matches!(one(&things, edit("x", Base::New, false, two.as_doc())), RevisionOutcome::Conflict));
    let second = written(one(&things, edit("x", Base::Leaf(first), false, two.as_doc())));
    assert_eq!(second.generation, 2);
    for stale in [first, Revision { generation: 7, hash: [7; 16] }] {
        let outcome = one(&things, edit("x", Base::Leaf(stale), false, one_doc.as_doc()));
        assert!(matches!(outcome, RevisionOutcome::Conflict));
    }
    // A superseded body can be read until it is compacted.
    let view = things.view();
    let old = view.revision(&key("x"), first).unwrap().unwrap();
    assert_eq!(old.doc, doc! { "_id": "x", "n": 1 });
    assert_eq!(things.compact_bodies().unwrap(), 1);
    assert!(things.view().revision(&key("x"), first).unwrap().is_none());
    assert_eq!(things.view().document(&key("x")).unwrap().unwrap().revision, second);
    // The document is deleted, and then inserted without naming the deletion.
    let why = doc! { "why": "sold" };
    let third = written(one(&things, edit("x", Base::Leaf(second), true, why.as_doc())));
    let gone = things.view().document(&key("x")).unwrap().unwrap();
    assert_eq!((gone.deleted, gone.doc.clone()), (true, doc! { "_id": "x", "why": "sold" }));
    assert_eq!((things.count(), things.deleted_count()), (0, 1));
    for base in [Base::New, Base::Leaf(third)] {
        assert!(matches!(one(&things, edit("x", base, true, why.as_doc())), RevisionOutcome::Conflict));
    }
    let fourth = written(one(&things, edit("x", Base::New, false, one_doc.as_doc())));
    assert_eq!(fourth.generation, 4);
    assert_eq!(things.view().tree(&key("x")).unwrap().unwrap().path(&fourth).len(), 4);
    assert_eq!((things.count(), things.deleted_count()), (1, 0));
    assert_sound(&store);
}

#[test]
fn each_edit_of_a_call_succeeds_or_fails_on_its_own() {
    let (store, things) = setup();
    index(&things, doc! { "key": { "n": 1 }, "name": "n", "unique": true });
    let bodies: Vec<DocBuf> = (0..2500).map(|n| doc! { "n": n }).collect();
    let ids: Vec<String> = (0..2500).map(|n| format!("{n:05}")).collect();
    let mut edits: Vec<RevisionEdit<'_>> =
        ids.iter().zip(&bodies).map(|(id, body)| edit(id, Base::New, false, body.as_doc())).collect();
    // The same document twice, a duplicate key, a contradicting `_id`, an impossible history.
    let taken = doc! { "n": 5 };
    let other = doc! { "_id": "other" };
    let first = Revision::first(doc! { "_id": "00003", "n": 3 }.as_doc());
    let again = doc! { "n": 9003 };
    edits.insert(1200, edit("00003", Base::Leaf(first), false, again.as_doc()));
    edits.insert(20, edit("new", Base::New, false, taken.as_doc()));
    edits.push(edit("mine", Base::New, false, other.as_doc()));
    let base = Base::Graft { revision: Revision { generation: 1, hash: [1; 16] }, ancestors: vec![[2; 16]] };
    edits.push(edit("bad", base, false, taken.as_doc()));
    let report = things.edit_revisions(&edits, false, None).unwrap();
    for (at, outcome) in report.outcomes.iter().enumerate() {
        let refused = [20, 2502, 2503].contains(&at);
        assert_eq!(matches!(outcome, RevisionOutcome::Refused(_)), refused, "{at} {outcome:?}");
        assert_eq!(matches!(outcome, RevisionOutcome::Written(_)), !refused, "{at} {outcome:?}");
    }
    assert_eq!(things.count(), 2500);
    assert_eq!(number(things.get(&key("00003")).unwrap().unwrap().doc()), 9003);
    assert_sound(&store);
}

#[test]
fn numbers_that_json_cannot_distinguish_keep_their_types() {
    let (_store, things) = setup();
    let stored = doc! { "_id": "x", "long": 5i64, "double": 2.0, "n": 1 };
    things.insert(&[stored.as_doc()], true, WriteOptions::default()).unwrap();
    let first = Revision::first(stored.as_doc());
    let from_json = doc! { "long": 5, "double": 2, "n": 7 };
    written(one(&things, edit("x", Base::Leaf(first), false, from_json.as_doc())));
    let expected = doc! { "_id": "x", "long": 5i64, "double": 2.0, "n": 7 };
    assert_eq!(things.get(&key("x")).unwrap().unwrap().doc(), expected.as_doc());
}

#[test]
fn the_revision_limit_removes_the_oldest_of_each_branch() {
    let (store, things) = setup();
    let body = |n: i32| doc! { "n": n };
    let mut revision = written(one(&things, edit("x", Base::New, false, body(0).as_doc())));
    for n in 1..10 {
        revision = written(one(&things, edit("x", Base::Leaf(revision), false, body(n).as_doc())));
    }
    let length = |revision| things.view().tree(&key("x")).unwrap().unwrap().path(&revision).len();
    assert_eq!(length(revision), 10);
    for limit in [4, 1, 3] {
        things.set_revision_limit(limit).unwrap();
        assert_eq!(things.revision_limit(), limit);
        for n in 0..4 {
            written(one(&things, edit("x", Base::Leaf(revision), false, body(n).as_doc())));
            update(&things, &doc! { "_id": "x" }, &doc! { "$inc": { "m": 1 } }, false, false);
            revision = things.view().document(&key("x")).unwrap().unwrap().revision;
            assert!(length(revision) <= limit as usize);
            assert_sound(&store);
        }
        assert_eq!(length(revision), limit as usize);
        // With another branch, each branch is limited on its own.
        let graft =
            Base::Graft { revision: Revision { generation: 2, hash: [9; 16] }, ancestors: vec![[8; 16]] };
        one(&things, edit("x", graft, false, body(1).as_doc()));
        revision = written(one(&things, edit("x", Base::Leaf(revision), false, body(77).as_doc())));
        assert_eq!(length(revision), limit as usize);
        assert_sound(&store);
        let conflict = Revision { generation: 2, hash: [9; 16] };
        assert_eq!(things.purge(&key("x"), &[conflict], &Interrupt::new()).unwrap(), [conflict]);
    }
    assert!(things.set_revision_limit(0).is_err());
}

#[test]
fn purge_removes_revisions_without_a_trace() {
    let (store, things) = setup();
    index(&things, doc! { "key": { "n": 1 }, "name": "n", "unique": true });
    let (one_doc, two) = (doc! { "n": 1 }, doc! { "n": 2 });
    let first = written(one(&things, edit("x", Base::New, false, one_doc.as_doc())));
    let second = written(one(&things, edit("x", Base::Leaf(first), false, two.as_doc())));
    let conflict = Revision { generation: 1, hash: [3; 16] };
    let graft = Base::Graft { revision: conflict, ancestors: Vec::new() };
    written(one(&things, edit("x", graft, false, one_doc.as_doc())));
    assert_eq!(things.purge(&key("x"), &[first], &Interrupt::new()).unwrap(), []);
    assert_eq!(things.purge(&key("x"), &[second], &Interrupt::new()).unwrap(), [second]);
    assert_sound(&store);
    let left = things.view().document(&key("x")).unwrap().unwrap();
    assert_eq!((left.revision, left.has_branches), (conflict, false));
    let before = things.last_sequence();
    assert_eq!(things.purge(&key("x"), &[conflict, second], &Interrupt::new()).unwrap(), [conflict]);
    assert_eq!((things.count(), things.deleted_count()), (0, 0));
    assert!(things.view().document(&key("x")).unwrap().is_none());
    assert!(things.view().tree(&key("x")).unwrap().is_none());
    let mut kinds = Vec::new();
    things
        .view()
        .changes(before, |change| {
            kinds.push(change.kind);
            Ok(true)
        })
        .unwrap();
    assert_eq!(kinds, [ChangeKind::Purge]);
    assert_sound(&store);
    // The document starts again with a first revision.
    let again = written(one(&things, edit("x", Base::New, false, one_doc.as_doc())));
    assert_eq!(again, first);
    assert_eq!(things.view().tree(&key("x")).unwrap().unwrap().len(), 1);
    assert_sound(&store);
}

#[test]
fn ids_of_any_type_survive_their_deletion() {
    let (store, things) = setup();
    for id in [Value::Int64(5), Value::Double(2.5), Value::Int32(7), Value::Null] {
        let body = doc! { "_id": id };
        things.insert(&[body.as_doc()], true, WriteOptions::default()).unwrap();
        assert_eq!(delete(&things, &body, false), 1);
        let gone = things.view().document(&id_key(id).unwrap()).unwrap().unwrap();
        assert!(gone.deleted);
        assert_eq!(gone.doc, body);
        // An edit over HTTP would give the same revision.
        let parent = Revision::first(body.as_doc());
        assert_eq!(gone.revision, parent.child(None));
    }
    assert_eq!(things.deleted_count(), 4);
    assert_sound(&store);
}

#[test]
fn local_documents_and_settings_survive_a_restart() {
    let engine = Arc::new(MemoryEngine::new());
    let name = Namespace::new("test", "things").unwrap();
    {
        let store = Store::open(engine.clone()).unwrap();
        let things = store.collection_or_create(&name).unwrap();
        assert_eq!(things.put_local("b", doc! { "n": 1 }.as_doc(), None).unwrap().0, 1);
        assert_eq!(things.put_local("b", doc! { "n": 2 }.as_doc(), Some(1)).unwrap().0, 2);
        things.put_local("a", doc! {}.as_doc(), None).unwrap();
        things.put_local("c", doc! {}.as_doc(), None).unwrap();
        assert!(things.delete_local("c").unwrap().is_some());
        assert!(things.delete_local("c").unwrap().is_none());
        things.set_setting("security", Some(Value::Document(doc! { "admins": {} }.as_doc()))).unwrap();
        things.set_setting("purge_seq", Some(Value::Int64(3))).unwrap();
        things.set_setting("purge_seq", None).unwrap();
        things.set_revision_limit(9).unwrap();
        assert_sound(&store);
    }
    let store = Store::open(engine).unwrap();
    let things = store.collection(&name).unwrap().unwrap();
    let local = things.local("b").unwrap().unwrap();
    assert_eq!((local.revision, local.doc), (2, doc! { "n": 2 }));
    let mut names = Vec::new();
    let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    things
        .view()
        .scan_local(from, to, diwan_kv::Direction::Reverse, &mut |name, _| {
            names.push(name.to_owned());
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(things.revision_limit(), 9);
    let security = things.setting("security").unwrap();
    assert_eq!(security.as_value(), Value::Document(doc! { "admins": {} }.as_doc()));
    assert!(things.setting("purge_seq").is_none());
    assert_eq!(things.count(), 0);
    store.drop_collection(&name).unwrap();
    assert!(things.put_local("b", doc! {}.as_doc(), None).is_err());
}

#[test]
fn each_body_keeps_its_own_attachments() {
    use std::io::Write;
    let (store, things) = setup();
    let mut upload = things.blob_writer(diwan_store::blob::BlobSource::Plain).unwrap();
    upload.write_all(b"some bytes").unwrap();
    let blob = upload.finish().unwrap();
    let body = doc! { "n": 1 };
    let attached = |base, attachments| RevisionEdit { attachments, ..edit("x", base, false, body.as_doc()) };
    let first =
        written(one(&things, attached(Base::New, vec![blob.attachment("a", "text/plain", THIS_EDIT)])));
    assert_ne!(first, Revision::first(doc! { "_id": "x", "n": 1 }.as_doc()));
    assert_eq!(things.get(&key("x")).unwrap().unwrap().record().revision(), first);
    // A write from MongoDB keeps the attachments.
    update(&things, &doc! { "_id": "x" }, &doc! { "$set": { "n": 2 } }, false, false);
    let now = things.view().document(&key("x")).unwrap().unwrap();
    assert_eq!((now.attachments.len(), now.attachments[0].revpos), (1, 1));
    assert_sound(&store);
    // A superseded body keeps its attachments.
    let third = written(one(&things, attached(Base::Leaf(now.revision), Vec::new())));
    assert_sound(&store);
    let old = things.view().revision(&key("x"), now.revision).unwrap().unwrap();
    assert_eq!(old.attachments, now.attachments);
    assert!(things.view().document(&key("x")).unwrap().unwrap().attachments.is_empty());
    things.compact_bodies().unwrap();
    assert_sound(&store);
    // A body that loses against another branch also keeps its attachments.
    let graft = Base::Graft { revision: Revision { generation: 9, hash: [9; 16] }, ancestors: Vec::new() };
    let ninth = written(one(&things, attached(graft, vec![blob.attachment("b", "text/plain", THIS_EDIT)])));
    assert_eq!(things.view().document(&key("x")).unwrap().unwrap().attachments[0].revpos, 9);
    assert_eq!(things.view().tree(&key("x")).unwrap().unwrap().conflicts(), [third]);
    assert_sound(&store);
    written(one(&things, edit("x", Base::Leaf(ninth), true, doc! {}.as_doc())));
    let now = things.view().document(&key("x")).unwrap().unwrap();
    assert_eq!((now.revision, now.attachments.len()), (third, 0));
    assert_sound(&store);
    assert_eq!(delete(&things, &doc! { "_id": "x" }, false), 1);
    things.compact_bodies().unwrap();
    assert_sound(&store);
}
