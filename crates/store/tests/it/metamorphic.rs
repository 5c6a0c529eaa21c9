//! Indexes, hints and batch sizes never change the result of an operation.
//!
//! Each round creates two collections with the same documents, one of them with an index, and compares the results of
//! operations on both: with the planner's choice, with a hint, in small batches, sorted, limited, counted, grouped,
//! updated and deleted, and again after the store is reopened. `DIWAN_METAMORPHIC_ROUNDS` sets the number of rounds,
//! `DIWAN_METAMORPHIC_SEED` the first one.

use crate::random::Random;
use crate::setup::{collection, delete, is_refused_by_index, name, stages, store, update};
use diwan_kv::{Direction, MemoryEngine};
use diwan_query::Interrupt;
use diwan_query::mango::{Selector, parse_sort};
use diwan_store::ops::{Aggregate, Count, Distinct, Find, Query, Scope};
use diwan_store::plan::Hint;
use diwan_store::{BuildProgress, Collection, IndexSpec, Result, Store};
use diwan_value::{Array, ArrayBuilder, DocBuf, DocBuilder, Value, array, compare, doc};
use std::cmp::Ordering;
use std::sync::Arc;

/// Specifications of indexes of every kind.
fn indexes() -> Vec<DocBuf> {
    let english = || doc! { "locale": "en", "strength": 2 };
    let keys = [
        doc! { "key": { "a": 1 } },
        doc! { "key": { "a": -1 } },
        doc! { "key": { "a": 1, "b": -1 } },
        doc! { "key": { "c": 1, "a": 1, "b": 1 } },
        doc! { "key": { "a.x": 1 } },
        doc! { "key": { "a.x": 1, "a.y": -1, "c": 1 } },
        doc! { "key": { "a.1": 1 } },
        doc! { "key": { "b.0": -1, "c": 1 } },
        doc! { "key": { "a.1.x": 1 } },
        doc! { "key": { "a.x.1": 1, "a.x": 1 } },
        doc! { "key": { "a": 1 }, "sparse": true },
        doc! { "key": { "a.x": 1, "c": 1 }, "sparse": true },
        doc! { "key": { "b.1": 1 }, "sparse": true },
        doc! { "key": { "a": 1 }, "unique": true },
        doc! { "key": { "a.x": 1, "b": 1 }, "unique": true, "sparse": true },
        doc! { "key": { "a": 1 }, "partialFilterExpression": { "c": { "$gte": 2 } } },
        doc! { "key": { "c": 1 }, "partialFilterExpression": { "a": { "$exists": true } } },
        doc! { "key": { "b": 1 }, "partialFilterExpression": { "$mango": { "b": { "$gt": 1 } } } },
        doc! { "key": { "$**": 1 } },
        doc! { "key": { "a.$**": 1 } },
        doc! { "key": { "a.x.$**": 1 } },
        doc! { "key": { "$**": 1 }, "wildcardProjection": { "a.x": 0 } },
        doc! { "key": { "a": "hashed" } },
        doc! { "key": { "c": 1, "a.x": "hashed" } },
        doc! { "key": { "a": 1, "c": 1 }, "collation": english() },
        doc! { "key": { "$**": 1 }, "collation": english() },
    ];
    let named = |spec: &DocBuf| {
        let mut out = spec.as_doc().to_owned().into_builder();
        out.append("name", "i");
        out.finish()
    };
    keys.iter().map(named).collect()
}

/// Two collections with the same documents. The second one has the index.
struct Pair {
    stores: [Arc<Store>; 2],
    engine: Arc<MemoryEngine>,
    /// Whether the index lacks documents, so that a find with a hint may miss some.
    hides: bool,
    /// The collation of half of the queries.
    collation: Option<DocBuf>,
    about: String,
}

impl Pair {
    fn new(seed: u64, spec: &DocBuf, random: &mut Random) -> Pair {
        let engine = Arc::new(MemoryEngine::new());
        let stores = [store(), Store::open(engine.clone()).unwrap()];
        let [plain, indexed] = [collection(&stores[0]), collection(&stores[1])];
        create(&indexed, spec).unwrap();
        for id in 0..60 {
            let doc = random.document(id);
            let report = indexed.insert(&[doc.as_doc()], true, Default::default()).unwrap();
            match report.errors.first() {
                None => crate::setup::insert(&plain, &[doc]),
                Some((_, error)) => {
                    assert!(is_refused_by_index(error), "seed {seed}, {spec:?}: {error}")
                }
            }
        }
        // An index that is built over existing documents must equal one that writers maintained.
        if random.one_in(2) {
            indexed.remove_indexes(|_| true).unwrap();
            create(&indexed, spec).unwrap();
        }
        let spec = spec.as_doc();
        let hides = spec.contains_key("sparse") || spec.contains_key("partialFilterExpression");
        let collation = spec.get_doc("collation").map(diwan_value::Doc::to_owned);
        Pair { stores, engine, hides, collation, about: format!("seed {seed}, index {spec:?}") }
    }

    fn collections(&self) -> [Arc<Collection>; 2] {
        self.stores.each_ref().map(collection)
    }

    /// Reopens the store with the index.
    fn reopen(self) -> Pair {
        let Pair { stores: [plain, indexed], engine, .. } = self;
        drop(indexed);
        let indexed = Store::open(engine.clone()).unwrap();
        Pair { stores: [plain, indexed], engine, ..self }
    }

    /// Changes documents in both collections, one by one. Skips changes that the index refuses.
    fn change(&self, random: &mut Random) {
        let [plain, indexed] = self.collections();
        for _ in 0..20 {
            let id = doc! { "_id": random.below(60) as i32 };
            let mut fields = DocBuilder::new();
            let path = random.pick(&["a", "b", "c", "a.x", "a.1", "b.1"]);
            random.append(&mut fields, path, 2);
            let change = match random.below(4) {
                0 => doc! { "$unset": fields.finish() },
                1 => doc! { "$push": fields.finish() },
                _ => doc! { "$set": fields.finish() },
            };
            let request = diwan_store::ops::Update {
                filter: id.as_doc(),
                update: Some(Value::Document(change.as_doc())),
                ..Default::default()
            };
            if indexed.update(&request).is_ok() {
                plain.update(&request).unwrap();
            }
        }
    }

    fn compare(&self, random: &mut Random) {
        let filter = random.filter();
        let about = format!("{}, filter {filter:?}", self.about);
        let collation = self.collation.as_ref().filter(|_| random.one_in(2));
        let scope = || Scope { collation: collation.map(DocBuf::as_doc), ..Scope::default() };
        let find = || Find { filter: filter.as_doc(), scope: scope(), ..Find::default() };
        let [plain, indexed] = &self.stores;
        let scan = Find { hint: Hint::Natural(Direction::Forward), ..find() };
        let Ok(expected) = find_in_batches(plain, &scan, 1000).map(|docs| ids(&docs)) else { return };
        let found =
            |request: Find<'_>, batch| sorted(ids(&find_in_batches(indexed, &request, batch).unwrap()));
        assert_eq!(found(find(), 1000), expected, "{about}");
        assert_eq!(found(find(), 1 + random.below(4)), expected, "batched, {about}");
        let hint = || match self.hides {
            false => Hint::Name("i".to_owned()),
            true => Hint::None,
        };
        assert_eq!(found(Find { hint: hint(), ..find() }, 3), expected, "hinted, {about}");
        for hint in [Hint::None, hint(), Hint::Natural(Direction::Forward)] {
            let count = Count { filter: filter.as_doc(), hint, scope: scope(), ..Count::default() };
            let [_, indexed] = self.collections();
            assert_eq!(indexed.count_filtered(&count).unwrap(), expected.len() as u64, "count, {about}");
        }
        let key = random.pick(&["a", "a.x", "b.1", "c", "b"]);
        let distinct = Distinct { key, filter: filter.as_doc(), scope: scope(), ..Distinct::default() };
        let values = self.stores.each_ref().map(|store| store.distinct(&name(), &distinct).unwrap().finish());
        let [left, right] = values.each_ref().map(|bytes| Array::trusted(bytes));
        // Under a collation, the order of the scan decides which of several equal values is returned.
        let same = match collation {
            Some(_) => left.count() == right.count(),
            None => compare(Value::Array(left), Value::Array(right)).is_eq(),
        };
        assert!(same, "distinct of {key}: {left:?}, {right:?}, {about}");
        self.compare_sorted(random, &filter, collation, &about);
        self.compare_pipelines(random, &filter, collation, &about);
        if random.one_in(2) {
            self.compare_query(random, &about);
        }
    }

    fn compare_sorted(&self, random: &mut Random, filter: &DocBuf, collation: Option<&DocBuf>, about: &str) {
        let mut sort = DocBuilder::new();
        for path in ["c", "a", "a.x", "b.0", "a.1", "b"] {
            if random.one_in(3) {
                sort.append(path, if random.one_in(2) { 1 } else { -1 });
            }
        }
        sort.append("_id", if random.one_in(2) { 1 } else { -1 });
        let sort = sort.finish();
        let limit = random.one_in(2).then(|| random.below(8));
        let request = || Find {
            filter: filter.as_doc(),
            sort: Some(sort.as_doc()),
            skip: skip_for(limit),
            limit,
            scope: Scope { collation: collation.map(DocBuf::as_doc), ..Scope::default() },
            ..Find::default()
        };
        let [plain, indexed] = &self.stores;
        // A sort fails for two arrays on its paths, and for numeric field names in array elements.
        let Ok(expected) = find_in_batches(plain, &request(), 1000) else { return };
        let found = find_in_batches(indexed, &request(), 1 + random.below(5)).unwrap();
        assert_eq!(ids(&found), ids(&expected), "sort {sort:?}, limit {limit:?}, {about}");
    }

    fn compare_pipelines(
        &self,
        random: &mut Random,
        filter: &DocBuf,
        collation: Option<&DocBuf>,
        about: &str,
    ) {
        let matching = doc! { "$match": filter.as_doc() };
        let path = format!("${}", random.pick(&["a", "c", "a.x", "b"]));
        let path = path.as_str();
        let pipeline = match random.below(5) {
            0 => {
                array![(matching), { "$group": { "_id": path, "n": { "$sum": 1 } } }, { "$sort": { "_id": 1, "n": 1 } }]
            }
            1 => array![(matching), { "$project": { "_id": 0, "c": 1, "a.x": 1 } }],
            2 => array![(matching), { "$project": { "t": { "$type": path }, "c": 1 } }],
            3 => array![(matching), { "$sort": { "c": 1, "_id": 1 } }, { "$limit": 5 }, { "$count": "n" }],
            _ => array![{ "$project": { "a": 1, "b": 1, "c": 1 } }, (matching), { "$unwind": "$a" }],
        };
        let bytes = pipeline.finish();
        let results = self.stores.each_ref().map(|store| {
            let request = Aggregate {
                pipeline: stages(&bytes),
                hint: Hint::None,
                scope: Scope { collation: collation.map(DocBuf::as_doc), ..Scope::default() },
                bypass_validation: false,
            };
            let mut source = store.aggregate(Some(&name()), "test", &request).unwrap();
            let mut found = Vec::new();
            while source.advance(&Interrupt::new()).unwrap() {
                found.push(source.current().to_owned());
            }
            found.sort_by(order);
            found
        });
        let [left, right] = results;
        let same_documents = || left.iter().zip(&right).all(|(a, b)| order(a, b).is_eq());
        let same = left.len() == right.len() && (collation.is_some() || same_documents());
        assert!(same, "pipeline {:?}: {left:?}, {right:?}, {about}", stages(&bytes));
    }

    /// Compares a CouchDB query, a page at a time.
    fn compare_query(&self, random: &mut Random, about: &str) {
        let mut selector = DocBuilder::new();
        selector.append(random.pick(&["a", "a", "c", "a.x", "b"]), random.selector(2));
        let selector = selector.finish();
        let direction = random.pick(&["asc", "desc"]);
        let sort = random.one_in(2).then(|| {
            let mut sort = ArrayBuilder::new();
            for path in ["c", "a", "a.x"] {
                if random.one_in(2) {
                    let mut part = DocBuilder::new();
                    part.append(path, direction);
                    sort.push(part.finish());
                }
            }
            doc! { "sort": sort }
        });
        let size = 1 + random.below(20) as usize;
        let results = self.collections().map(|collection| {
            let mut query = Query {
                filter: Arc::new(Selector::parse(selector.as_doc()).unwrap().stored()),
                sort: sort.as_ref().and_then(|sort| parse_sort(sort.as_doc().get("sort").unwrap()).unwrap()),
                hint: Hint::None,
                after: None,
                most: None,
                interrupt: Interrupt::new(),
                temporary: None,
            };
            let mut pages = Vec::new();
            loop {
                let mut running = collection.query(&query).unwrap();
                let before = pages.len();
                while pages.len() < before + size && running.advance().unwrap() {
                    pages.push(running.current().unwrap().doc().to_owned());
                    query.after = Some(running.position());
                }
                if pages.len() == before {
                    break;
                }
            }
            let keys: Vec<Vec<u8>> = pages
                .iter()
                .map(|doc| {
                    let mut key = Vec::new();
                    if let Some(sort) = &query.sort {
                        sort.key(doc.as_doc(), None, &mut key).unwrap();
                    }
                    key
                })
                .collect();
            assert!(keys.is_sorted(), "selector {selector:?}, sort {sort:?}, {about}");
            sorted(ids(&pages))
        });
        assert_eq!(results[0], results[1], "selector {selector:?}, sort {sort:?}, {about}");
    }

    /// Compares updates and deletes by a filter.
    fn compare_writes(&self, random: &mut Random) {
        let filter = random.filter();
        let about = format!("{}, filter {filter:?}", self.about);
        let [plain, indexed] = self.collections();
        if find_in_batches(&self.stores[0], &Find { filter: filter.as_doc(), ..Find::default() }, 1000)
            .is_err()
        {
            return;
        }
        // The update changes no indexed field.
        let change = doc! { "$inc": { "u": 1 } };
        let [left, right] =
            [&plain, &indexed].map(|collection| update(collection, &filter, &change, true, false));
        assert_eq!((left.matched, left.modified), (right.matched, right.modified), "update, {about}");
        if random.one_in(3) {
            let [left, right] = [&plain, &indexed].map(|collection| delete(collection, &filter, true));
            assert_eq!(left, right, "delete, {about}");
        }
        let [left, right] =
            self.stores.each_ref().map(|store| find_in_batches(store, &Find::default(), 1000).unwrap());
        assert_eq!(left, right, "after writes, {about}");
    }
}

fn create(collection: &Arc<Collection>, spec: &DocBuf) -> Result<()> {
    let spec = IndexSpec::parse(spec.as_doc(), None)?;
    collection.create_indexes(vec![spec], &Interrupt::new(), &BuildProgress::default()).map(drop)
}

/// The documents that a find returns. The source is suspended after each batch.
fn find_in_batches(store: &Arc<Store>, request: &Find<'_>, batch: u64) -> Result<Vec<DocBuf>> {
    let mut source = store.find(&name(), request)?;
    let mut found = Vec::new();
    while source.advance(&Interrupt::new())? {
        found.push(source.current().to_owned());
        if (found.len() as u64).is_multiple_of(batch) {
            source.suspend();
        }
    }
    Ok(found)
}

fn order(a: &DocBuf, b: &DocBuf) -> Ordering {
    compare(Value::Document(a.as_doc()), Value::Document(b.as_doc()))
}

fn ids(docs: &[DocBuf]) -> Vec<i64> {
    docs.iter().map(|doc| doc.as_doc().get("_id").and_then(Value::as_i64_exact).unwrap()).collect()
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

/// The number of documents to skip if there is a limit.
fn skip_for(limit: Option<u64>) -> u64 {
    limit.map_or(0, |limit| limit / 2)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn indexes_never_change_the_result_of_an_operation() {
    let specs = indexes();
    let rounds = setting("DIWAN_METAMORPHIC_ROUNDS", 2 * specs.len() as u64);
    let first = setting("DIWAN_METAMORPHIC_SEED", 0);
    for seed in first..first + rounds {
        let spec = &specs[seed as usize % specs.len()];
        let mut random = Random::new(seed + 1);
        let pair = Pair::new(seed, spec, &mut random);
        for _ in 0..25 {
            pair.compare(&mut random);
        }
        pair.change(&mut random);
        let pair = pair.reopen();
        for _ in 0..15 {
            pair.compare(&mut random);
        }
        for _ in 0..4 {
            pair.compare_writes(&mut random);
        }
        pair.compare(&mut random);
    }
}
