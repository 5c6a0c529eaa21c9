//! Random schema changes and writes on several threads, against a simple model.
//!
//! Each round draws the kinds of operations, runs them on some threads, and then checks: the store is consistent; no
//! document is in two collections; each acknowledged insert is present, unless an operation that removes documents
//! ended after the insert began; every name works; a restart changes nothing. `DIWAN_STRESS_ROUNDS` sets the number of
//! rounds, `DIWAN_STRESS_SEED` the seed.

use diwan_kv::{ContractEngine, Engine, FjallEngine, MemoryEngine, Options};
use diwan_query::Interrupt;
use diwan_query::pipeline::DocSource;
use diwan_store::ops::{Aggregate, Delete, Find, FindAndModify, Modify, Scope, Update};
use diwan_store::plan::Hint;
use diwan_store::{
    Base, BuildProgress, Collection, Entry, Error, IndexSpec, Namespace, RevisionEdit, RevisionOutcome,
    Schema, Store, WriteOptions, check,
};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, Value, doc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The number of rounds after which the database is dropped.
const ROUNDS_A_STORE: usize = 10;
const THREADS: usize = 4;
const OPERATIONS: usize = 25;
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Insert,
    Revise,
    Update,
    Upsert,
    FindAndModify,
    Delete,
    BuildPlain,
    BuildUnique,
    DropIndexes,
    HideIndex,
    Validate,
    Create,
    CreateView,
    Rename,
    RenameOver,
    Drop,
    DropDatabase,
    ToCapped,
    Out,
}

const WRITES: [Kind; 6] =
    [Kind::Insert, Kind::Revise, Kind::Update, Kind::Upsert, Kind::FindAndModify, Kind::Delete];
const CHANGES: [Kind; 13] = [
    Kind::BuildPlain,
    Kind::BuildUnique,
    Kind::DropIndexes,
    Kind::HideIndex,
    Kind::Validate,
    Kind::Create,
    Kind::CreateView,
    Kind::Rename,
    Kind::RenameOver,
    Kind::Drop,
    Kind::DropDatabase,
    Kind::ToCapped,
    Kind::Out,
];

impl Kind {
    /// Whether the operation may remove documents that were not deleted one by one.
    fn removes_documents(self) -> bool {
        matches!(self, Kind::RenameOver | Kind::Drop | Kind::DropDatabase | Kind::Out)
    }
}

/// The effects of all operations on a store.
#[derive(Default)]
struct Model {
    /// The acknowledged documents, with the time at which their insert began.
    inserted: BTreeMap<i64, u64>,
    /// Documents whose deletion began.
    deleted: BTreeSet<i64>,
    /// The time at which the last operation that removes documents ended.
    cleared: u64,
}

impl Model {
    fn merge(&mut self, other: Model) {
        self.inserted.extend(other.inserted);
        self.deleted.extend(other.deleted);
        self.cleared = self.cleared.max(other.cleared);
    }
}

type Edit = fn(&mut Schema) -> Result<(), Error>;

struct Worker<'a> {
    store: &'a Arc<Store>,
    random: fastrand::Rng,
    next_id: &'a AtomicI64,
    clock: &'a AtomicU64,
    model: Model,
}

fn namespace(name: &str) -> Namespace {
    Namespace::new("test", name).unwrap()
}

/// Accepts success and the errors that concurrent schema changes may cause: missing or existing names, duplicate keys,
/// dropped indexes and collections. Any other error fails the test.
fn allow(outcome: Result<(), Error>) {
    const REFUSED: [i32; 14] = [20, 26, 27, 48, 67, 85, 86, 125, 166, 171, 175, 276, 11000, 17152];
    match outcome {
        Ok(()) | Err(Error::DuplicateKey(_) | Error::DocumentValidation { .. }) => {}
        Err(Error::Query(error)) if REFUSED.contains(&error.code) => {}
        Err(Error::CollectionDropped(_)) => {}
        Err(error) => panic!("unexpected: {error:?}"),
    }
}

impl Worker<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn name(&mut self) -> Namespace {
        namespace(NAMES[self.random.usize(..NAMES.len())])
    }

    fn document(&mut self) -> (i64, DocBuf) {
        let id = self.next_id.fetch_add(1, Ordering::SeqCst);
        let mut doc =
            doc! { "_id": id, "n": self.random.i32(0..40), "u": self.random.i32(0..60) }.into_builder();
        if self.random.u8(..4) == 0 {
            doc.append("m", diwan_value::array![1, 2, (id)]);
        } else {
            doc.append("m", id);
        }
        (id, doc.finish())
    }

    /// The id of a document that may exist.
    fn some_id(&mut self) -> i64 {
        self.random.i64(0..=self.next_id.load(Ordering::SeqCst))
    }

    fn execute(&mut self, kind: Kind) {
        let name = self.name();
        match kind {
            Kind::Insert => self.insert(&name),
            Kind::Revise => self.revise(&name),
            Kind::Update => {
                let set = match self.random.u8(..3) {
                    0 => doc! { "$set": { "u": self.random.i32(0..60) } },
                    1 => doc! { "$inc": { "n": 1 } },
                    _ => doc! { "$set": { "m": [1, 2, 3] } },
                };
                let filter = match self.random.u8(..3) {
                    0 => doc! { "n": self.random.i32(0..40) },
                    _ => doc! { "_id": self.some_id() },
                };
                let update = Update {
                    filter: filter.as_doc(),
                    update: Some(Value::Document(set.as_doc())),
                    multi: self.random.bool(),
                    ..Update::default()
                };
                allow(self.store.update(&name, &update).map(drop));
            }
            Kind::Upsert => {
                let (id, doc) = self.document();
                let filter = doc! { "_id": id };
                let set = doc! { "$set": { "n": doc.as_doc().get("n"), "u": doc.as_doc().get("u") } };
                let update = Update {
                    filter: filter.as_doc(),
                    update: Some(Value::Document(set.as_doc())),
                    upsert: true,
                    ..Update::default()
                };
                let begun = self.tick();
                match self.store.update(&name, &update) {
                    Ok(updated) if updated.upserted.is_some() => {
                        self.model.inserted.insert(id, begun);
                    }
                    outcome => allow(outcome.map(drop)),
                }
            }
            Kind::FindAndModify => {
                let (filter, set) = (doc! { "_id": self.some_id() }, doc! { "$inc": { "n": 1 } });
                let modify = FindAndModify {
                    filter: filter.as_doc(),
                    sort: None,
                    projection: None,
                    modify: Modify::Update {
                        update: Value::Document(set.as_doc()),
                        upsert: false,
                        return_new: true,
                    },
                    array_filters: None,
                    hint: Hint::None,
                    scope: Scope::default(),
                    bypass_validation: false,
                    retry: None,
                };
                allow(self.store.find_and_modify(&name, &modify).map(drop));
            }
            Kind::Delete => {
                let id = self.some_id();
                self.model.deleted.insert(id);
                let filter = doc! { "_id": id };
                let delete = Delete { filter: filter.as_doc(), ..Delete::default() };
                allow(self.store.delete(&name, &delete).map(drop));
            }
            change => {
                let outcome = self.change(change, &name);
                allow(outcome);
                if change.removes_documents() {
                    self.model.cleared = self.tick();
                }
            }
        }
    }

    fn insert(&mut self, name: &Namespace) {
        let docs: Vec<(i64, DocBuf)> = (0..1 + self.random.usize(..4)).map(|_| self.document()).collect();
        let views: Vec<Doc<'_>> = docs.iter().map(|(_, doc)| doc.as_doc()).collect();
        let begun = self.tick();
        match self.store.insert(name, &views, false, WriteOptions::default()) {
            Ok(report) => {
                let refused: Vec<usize> = report.errors.iter().map(|(at, _)| *at).collect();
                let accepted = docs.iter().enumerate().filter(|(at, _)| !refused.contains(at));
                self.model.inserted.extend(accepted.map(|(_, (id, _))| (*id, begun)));
                report.errors.into_iter().for_each(|(_, error)| allow(Err(error)));
            }
            Err(error) => allow(Err(error)),
        }
    }

    /// An insert from CouchDB.
    fn revise(&mut self, name: &Namespace) {
        let Some(Entry::Collection(collection)) = self.store.entry(name) else { return };
        let (id, doc) = self.document();
        let edit = RevisionEdit {
            id: Value::Int64(id),
            base: Base::New,
            deleted: false,
            doc: doc.as_doc(),
            attachments: Vec::new(),
        };
        let begun = self.tick();
        match collection.edit_revisions(&[edit], true, None) {
            Ok(report) => match &report.outcomes[0] {
                RevisionOutcome::Written(_) => {
                    self.model.inserted.insert(id, begun);
                }
                RevisionOutcome::Refused(error) => allow(Err(error.clone())),
                other => panic!("unexpected: {other:?}"),
            },
            Err(error) => allow(Err(error)),
        }
    }

    fn change(&mut self, kind: Kind, name: &Namespace) -> Result<(), Error> {
        let store = self.store;
        let other = self.name();
        match kind {
            Kind::BuildPlain => {
                self.build(name, doc! { "key": { "m": 1 }, "name": "m" })?;
                self.build(name, doc! { "key": { "n": 1, "u": -1 }, "name": "nu" })
            }
            Kind::BuildUnique => self.build(name, doc! { "key": { "u": 1 }, "name": "u", "unique": true }),
            Kind::DropIndexes => match store.collection(name)? {
                Some(collection) => {
                    let dropped = ["m", "nu", "u"][self.random.usize(..3)];
                    collection.remove_indexes(|index| index.spec.name == dropped)
                }
                None => Ok(()),
            },
            Kind::HideIndex => {
                let hidden = self.random.bool();
                let hide = |schema: &mut Schema| {
                    schema
                        .modify_index(
                            |index| index.spec.name == "m",
                            |spec| spec.modified(Some(hidden), None, None),
                        )
                        .map(drop)
                };
                store.modify(name, Doc::EMPTY, Some(hide))
            }
            Kind::Validate => {
                let validator = doc! { "validator": { "n": { "$lt": 30 + self.random.i32(0..20) } } };
                let none: Option<Edit> = None;
                store.modify(name, validator.as_doc(), none)
            }
            Kind::Create => store.create(name, Doc::EMPTY).map(drop),
            Kind::CreateView => {
                let view = namespace("view");
                let options = doc! { "viewOn": name.collection.as_str(), "pipeline": [] };
                match self.random.u8(..3) {
                    0 => store.create(&view, options.as_doc()).map(drop),
                    1 => store.modify(&view, options.as_doc(), None::<Edit>),
                    _ => store.drop_collection(&view).map(drop),
                }
            }
            Kind::Rename => store.rename(name, &other, false),
            Kind::RenameOver => store.rename(name, &other, true),
            Kind::Drop => store.drop_collection(name).map(drop),
            Kind::DropDatabase => store.drop_database("test").map(drop),
            Kind::ToCapped => store.convert_to_capped(name, 64 << 20, &Interrupt::new()),
            Kind::Out => {
                let mut stages = ArrayBuilder::new();
                stages.push(doc! { "$match": { "n": { "$gte": 0 } } });
                stages.push(doc! { "$out": other.collection.as_str() });
                let stages = stages.finish();
                let request = Aggregate {
                    pipeline: Array::trusted(&stages),
                    hint: Hint::None,
                    scope: Scope::default(),
                    bypass_validation: true,
                };
                let mut source = store.aggregate(Some(name), "test", &request)?;
                while source.advance(&Interrupt::new())? {}
                Ok(())
            }
            write => panic!("{write:?} is not a schema change"),
        }
    }

    fn build(&self, name: &Namespace, spec: DocBuf) -> Result<(), Error> {
        let specs = |_: Option<&_>| Ok(vec![IndexSpec::parse(spec.as_doc(), None)?]);
        let built = self.store.create_indexes(name, specs, &Interrupt::new(), &BuildProgress::default());
        built.map(drop)
    }
}

fn documents(store: &Arc<Store>, name: &Namespace) -> Vec<DocBuf> {
    let mut source = store.find(name, &Find::default()).unwrap();
    let mut found = Vec::new();
    while source.advance(&Interrupt::new()).unwrap() {
        found.push(source.current().to_owned());
    }
    found
}

fn collections(store: &Arc<Store>) -> Vec<(Namespace, Arc<Collection>)> {
    let entries = store.entries_of("test").into_iter();
    entries
        .filter_map(|(name, entry)| match entry {
            Entry::Collection(collection) => Some((name, collection)),
            Entry::View(_) => None,
        })
        .collect()
}

fn schema_of(store: &Arc<Store>) -> Vec<String> {
    let shown = |(name, entry): (Namespace, Entry)| match entry {
        Entry::Collection(collection) => {
            let schema = collection.schema();
            let indexes: Vec<_> = schema
                .indexes
                .iter()
                .map(|index| (index.spec.to_doc().to_owned(), index.multikey()))
                .collect();
            format!("{name} {:?} {:?} {indexes:?}", collection.uuid(), schema.options.to_doc())
        }
        Entry::View(view) => format!("{name} {:?} {:?}", view.uuid, view.options.to_doc()),
    };
    store.entries_of("test").into_iter().map(shown).collect()
}

fn verify(store: &Arc<Store>, model: &Model, context: &str) {
    let report = check(store, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{context}: {:?}", report.findings);
    let mut found: BTreeMap<i64, Namespace> = BTreeMap::new();
    for (name, collection) in collections(store) {
        let unique = collection.schema().indexes.iter().any(|index| index.spec.unique);
        let mut keys = BTreeSet::new();
        for doc in documents(store, &name) {
            let id = doc.as_doc().get("_id").and_then(Value::as_i64_exact).unwrap();
            let twice = found.insert(id, name.clone());
            // `$out` copies documents, so a document may be in two collections after it.
            assert!(twice.is_none() || model.cleared > 0, "{context}: {id} is in {twice:?} and {name}");
            let key = format!("{:?}", doc.as_doc().get("u"));
            assert!(keys.insert(key) || !unique, "{context}: {name} has a unique key twice");
        }
    }
    for (id, begun) in &model.inserted {
        let present = found.contains_key(id) || model.deleted.contains(id) || model.cleared >= *begun;
        assert!(present, "{context}: the acknowledged insert of {id} is lost");
    }
}

/// Draws the kinds of operations of a round. Over many rounds every pair of schema changes, and every pair of a schema
/// change and a write, occurs.
fn draw(random: &mut fastrand::Rng) -> Vec<Kind> {
    let mut kinds = vec![CHANGES[random.usize(..CHANGES.len())]];
    match random.u8(..3) {
        0 => kinds.push(CHANGES[random.usize(..CHANGES.len())]),
        1 => kinds.extend([CHANGES[random.usize(..CHANGES.len())], Kind::Insert]),
        _ => {}
    }
    kinds.push(WRITES[random.usize(..WRITES.len())]);
    kinds.push(Kind::Insert);
    kinds
}

fn stress(rounds: usize, open: &dyn Fn() -> Arc<dyn Engine>, reopens: bool, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (next_id, clock) = (AtomicI64::new(0), AtomicU64::new(1));
    let mut store = Store::open(open()).unwrap();
    let mut model = Model::default();
    for round in 0..rounds {
        let kinds = draw(&mut random);
        let context = format!("seed {seed} round {round} {kinds:?}");
        let done: Vec<Model> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let random = random.fork();
                    let (store, kinds) = (&store, &kinds);
                    let (next_id, clock) = (&next_id, &clock);
                    scope.spawn(move || {
                        let mut worker = Worker { store, random, next_id, clock, model: Model::default() };
                        for _ in 0..OPERATIONS {
                            let kind = kinds[worker.random.usize(..kinds.len())];
                            worker.execute(kind);
                        }
                        worker.model
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect(&context)).collect()
        });
        done.into_iter().for_each(|done| model.merge(done));
        verify(&store, &model, &context);
        if reopens && round % 5 == 4 {
            let before = schema_of(&store);
            store.close().unwrap();
            drop(store);
            store = Store::open(open()).unwrap();
            assert_eq!(schema_of(&store), before, "{context}: a restart changed the catalog");
            verify(&store, &model, &context);
        }
        for name in NAMES {
            let id = next_id.fetch_add(1, Ordering::SeqCst);
            let doc = doc! { "_id": id, "n": 0, "u": 1_000_000 + id };
            let inserted =
                store.insert(&namespace(name), &[doc.as_doc()], true, WriteOptions::default()).unwrap();
            assert!(inserted.errors.is_empty(), "{context}: {:?}", inserted.errors);
        }
        if round % ROUNDS_A_STORE == ROUNDS_A_STORE - 1 {
            store.drop_database("test").unwrap();
            model.cleared = clock.fetch_add(1, Ordering::SeqCst);
        }
    }
    store.close().unwrap();
}

fn rounds(usual: usize) -> usize {
    std::env::var("DIWAN_STRESS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

fn seed() -> u64 {
    std::env::var("DIWAN_STRESS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7)
}

#[test]
fn schema_changes_beside_writes_lose_nothing_in_memory() {
    stress(rounds(60), &|| Arc::new(ContractEngine::new(MemoryEngine::new())), false, seed());
}

#[test]
fn schema_changes_beside_writes_lose_nothing_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn Engine> {
        Arc::new(ContractEngine::new(FjallEngine::open(directory.path(), &Options::default()).unwrap()))
    };
    stress(rounds(30), &open, true, seed() + 1);
}
