//! Indexes: queries through them return the same as a scan, and the planner chooses the expected plans.

use crate::setup::*;
use diwan_query::Interrupt;
use diwan_store::ops::{Aggregate, Find, Scope, Verbosity};
use diwan_store::plan::{Hint, IndexLimits};
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
fn equality_and_ranges_use_the_index() {
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
fn of_several_indexes_the_planner_chooses_the_one_that_reads_least() {
    let store = store();
    let collection = collection(&store);
    // `a` has two values, `b` ten, `wide` one for each document.
    let docs: Vec<_> = (0..2000)
        .map(|n| doc! { "_id": n, "a": n % 2, "b": n / 200, "wide": n * 7 % 2000, "c": n % 3 })
        .collect();
    insert(&collection, &docs);
    for (key, name) in [
        (doc! { "a": 1 }, "a"),
        (doc! { "a": 1, "b": 1 }, "ab"),
        (doc! { "wide": 1, "b": 1 }, "wide_b"),
        (doc! { "b": 1 }, "b"),
    ] {
        index(&collection, doc! { "key": key, "name": name });
    }
    let name_of = |filter: DocBuf| {
        let find = Find { filter: filter.as_doc(), ..Find::default() };
        let explained = store.explain_find(&name(), &find, None, Verbosity::QueryPlanner).unwrap();
        let plan = explained.as_doc().get_doc("queryPlanner").unwrap().get_doc("winningPlan").unwrap();
        plan.get_doc("inputStage").unwrap().get_str("indexName").unwrap().to_owned()
    };
    // The index bounds every field that the others bound.
    assert_eq!(name_of(doc! { "a": 1, "b": 4 }), "ab");
    assert_eq!(name_of(doc! { "a": 1, "b": 4, "_id": { "$gt": 3 } }), "ab");
    // Decided by a trial: few values of `wide`, many values, and many values of which few are fetched.
    assert_eq!(name_of(doc! { "wide": { "$lt": 5 }, "b": 0 }), "wide_b");
    assert_eq!(name_of(doc! { "wide": { "$gte": 0 }, "b": 10, "c": 1 }), "b");
    assert_eq!(name_of(doc! { "wide": { "$gte": 0 }, "b": { "$gt": 9 } }), "b");
}

#[test]
fn an_index_sorts_and_covers_a_query() {
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

/// The bounds of the scan for a filter, and how many keys and documents it examines.
fn read_by(store: &Arc<diwan_store::Store>, filter: &DocBuf) -> (String, i64, i64) {
    let find = Find { filter: filter.as_doc(), ..Find::default() };
    let explained = store.explain_find(&name(), &find, None, Verbosity::ExecutionStats).unwrap();
    let plan = explained.as_doc().get_doc("queryPlanner").unwrap().get_doc("winningPlan").unwrap();
    let scan = plan.get_doc("inputStage").unwrap_or(plan);
    let bounds =
        scan.get_doc("indexBounds").map_or_else(|| "none".to_owned(), |bounds| format!("{bounds:?}"));
    let stats = explained.as_doc().get_doc("executionStats").unwrap();
    let number = |name| stats.get(name).and_then(Value::as_i64_exact).unwrap();
    (bounds, number("totalKeysExamined"), number("totalDocsExamined"))
}

#[test]
fn a_nested_elem_match_has_the_bounds_of_arrays() {
    let docs =
        [doc! { "_id": 1, "a": [[1, 2], [7]] }, doc! { "_id": 2, "a": [7] }, doc! { "_id": 3, "a": [[1]] }];
    let filters = [
        doc! { "a": { "$elemMatch": { "$elemMatch": { "$gt": 6 } } } },
        doc! { "a": { "$all": [{ "$elemMatch": { "$elemMatch": { "$gt": 6 } } }] } },
        doc! { "a": { "$elemMatch": { "$elemMatch": { "$gt": 6 }, "$size": 1 } } },
        doc! { "a": { "$elemMatch": { "0": 7 } } },
    ];
    for key in [doc! { "a": 1 }, doc! { "a.b": 1 }, doc! { "a.0": 1 }, doc! { "$**": 1 }, doc! { "a.$**": 1 }]
    {
        let store = store();
        let collection = collection(&store);
        insert(&collection, &docs);
        index(&collection, doc! { "key": key.as_doc(), "name": "i" });
        for filter in &filters {
            assert_eq!(find_ids(&store, filter), [1], "{key:?}, {filter:?}");
        }
        assert_eq!(delete(&collection, &filters[0], true), 1, "{key:?}");
    }
}

#[test]
fn an_elem_match_uses_the_index() {
    let store = store();
    let collection = collection(&store);
    let mut docs: Vec<DocBuf> = (0..100).map(|n| doc! { "_id": n, "a": n, "d": [{ "x": n }] }).collect();
    docs.push(doc! { "_id": 100, "a": [3, 50], "d": [{ "x": 500, "y": 1 }, 5] });
    docs.push(doc! { "_id": 101, "a": [{ "x": 1 }], "d": 1 });
    insert(&collection, &docs);
    index(&collection, doc! { "key": { "a": 1 }, "name": "a" });
    index(&collection, doc! { "key": { "d.$**": 1 }, "name": "d" });
    let read = |filter: DocBuf, expected: &[i64], most: i64| {
        assert_eq!(find_ids(&store, &filter), expected, "{filter:?}");
        let (bounds, keys, documents) = read_by(&store, &filter);
        assert!(keys <= most && documents <= most, "{filter:?}: {bounds}, {keys}, {documents}");
    };
    read(doc! { "a": { "$elemMatch": { "$gt": 2, "$lt": 4 } } }, &[100], 2);
    read(doc! { "a": { "$elemMatch": { "x": 1 } } }, &[101], 1);
    read(doc! { "d": { "$elemMatch": { "x": { "$gt": 100 }, "y": 1 } } }, &[100], 1);
    let mango = |selector: DocBuf| doc! { "$mango": { "a": selector } };
    read(mango(doc! { "$elemMatch": { "$gt": 49, "$lt": 51 } }), &[100], 2);
    read(mango(doc! { "$elemMatch": { "$or": [{ "$eq": 3 }, { "$eq": 4 }] } }), &[100], 3);
    read(mango(doc! { "$allMatch": { "x": 1 } }), &[101], 1);
    // No array lies between two numbers, so each match has one key.
    read(mango(doc! { "$gt": 48, "$lt": 52 }), &[49, 50, 51], 4);
    read(mango(doc! { "$gte": 99, "$type": "number" }), &[99], 1);
}

#[test]
fn the_bounds_of_a_comparison_end_at_its_type() {
    let store = store();
    let collection = collection(&store);
    let mut docs: Vec<DocBuf> = (0..200).map(|n| doc! { "_id": n }).collect();
    docs.extend((0..10).map(|n| doc! { "_id": 200 + n, "a": n }));
    docs.push(doc! { "_id": 300, "a": f64::NAN });
    docs.push(doc! { "_id": 301, "a": Value::Null });
    insert(&collection, &docs);
    index(&collection, doc! { "key": { "a": 1 }, "name": "a" });
    let read = |filter: DocBuf| read_by(&store, &filter);
    let bounds = |text: &str| format!("{:?}", doc! { "a": [text] }.as_doc());
    assert_eq!(read(doc! { "a": { "$lt": 5 } }), (bounds("[-inf.0, 5)"), 5, 5));
    assert_eq!(read(doc! { "a": { "$lte": 5 } }), (bounds("[-inf.0, 5]"), 6, 6));
    assert_eq!(read(doc! { "a": { "$gt": 7 } }), (bounds("(7, inf.0)"), 2, 2));
    assert_eq!(read(doc! { "a": { "$lte": f64::NAN } }).1, 1);
    assert_eq!(read(doc! { "a": { "$lt": Value::Null } }).1, 0);
    assert_eq!(find_ids(&store, &doc! { "a": { "$gte": Value::Null } }).len(), 201);
}

#[test]
fn exists_uses_a_sparse_or_partial_index() {
    let store = store();
    let collection = collection(&store);
    let mut docs: Vec<DocBuf> = (0..200).map(|n| doc! { "_id": n, "b": n }).collect();
    docs.extend((0..5).map(|n| doc! { "_id": 200 + n, "a": n }));
    docs.push(doc! { "_id": 300, "a": Value::Null });
    insert(&collection, &docs);
    let filter = doc! { "a": { "$exists": true } };
    let mango = doc! { "$mango": filter.as_doc() };
    for options in [doc! { "sparse": true }, doc! { "partialFilterExpression": filter.as_doc() }] {
        let mut spec = doc! { "key": { "a": 1 }, "name": "a" }.into_builder();
        spec.append_all(options.as_doc());
        index(&collection, spec.finish());
        for filter in [&filter, &mango] {
            // A CouchDB selector does not imply a filter of MongoDB.
            let selected = options.as_doc().contains_key("partialFilterExpression") && filter == &mango;
            let (_, keys, documents) = read_by(&store, filter);
            assert!(selected || (keys, documents) == (6, 6), "{options:?}, {filter:?}: {keys}, {documents}");
            assert_eq!(find_ids(&store, filter).len(), 6);
        }
        // The index lacks the documents without the field.
        assert_eq!(find_ids(&store, &doc! { "a": Value::Null }).len(), 201);
        collection.remove_indexes(|_| true).unwrap();
    }
}

#[test]
fn a_sort_in_couchdbs_order_uses_an_index_only_if_the_orders_agree() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(0..20).map(|n| doc! { "_id": n, "a": n, "b": n % 3 }).collect::<Vec<_>>());
    index(&collection, doc! { "key": { "b": 1, "a": 1 }, "name": "ba" });
    let found = |selector: DocBuf| {
        let parsed = diwan_query::mango::Selector::parse(selector.as_doc()).unwrap();
        let sort = doc! { "sort": ["b", "a"] };
        let query = diwan_store::ops::Query {
            filter: Arc::new(parsed.stored()),
            sort: diwan_query::mango::parse_sort(sort.as_doc().get("sort").unwrap()).unwrap(),
            hint: Hint::None,
            after: None,
            most: None,
            interrupt: Interrupt::new(),
            temporary: None,
        };
        let mut running = collection.query(&query).unwrap();
        let mut ids = Vec::new();
        while running.advance().unwrap() {
            ids.push(running.current().unwrap().doc().get("_id").and_then(Value::as_i64_exact).unwrap());
        }
        (running.plan().sorted, ids)
    };
    let all = || doc! { "b": { "$gt": Value::Null } };
    assert!(found(all()).0);
    insert(&collection, &[doc! { "_id": 50, "a": 1, "b": true }, doc! { "_id": 51, "a": {}, "b": "x" }]);
    let (by_index, ids) = found(all());
    assert_eq!((by_index, ids[0], ids[ids.len() - 1]), (false, 50, 51));
    // If only values that both orders sort alike can match, the index still sorts.
    assert!(found(doc! { "b": { "$gte": 0, "$lt": "a" }, "a": { "$gt": 0, "$lte": "a" } }).0);
}

#[test]
fn an_or_uses_an_index_for_each_branch() {
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
fn a_unique_index_refuses_duplicates_and_names_the_key() {
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
    // A key that an update removes is free for another document.
    update(&collection, &doc! { "_id": 1 }, &doc! { "$set": { "e": "c" } }, false, false);
    insert(&collection, &[doc! { "_id": 3, "e": "a" }]);
    let duplicates =
        IndexSpec::parse(doc! { "key": { "x": 1 }, "name": "x", "unique": true }.as_doc(), None).unwrap();
    let built = collection.create_indexes(vec![duplicates], &Interrupt::new(), &BuildProgress::default());
    assert!(matches!(built, Err(Error::DuplicateKey(_))));
    assert_eq!(collection.schema().indexes.len(), 2);
}

#[test]
fn a_build_beside_a_writer_misses_no_document() {
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
fn a_hint_of_an_unknown_index_is_refused() {
    let store = store();
    collection(&store);
    let find = Find { hint: diwan_store::plan::Hint::Name("none".to_owned()), ..Find::default() };
    let Err(Error::Query(error)) = store.find(&name(), &find) else { panic!() };
    assert!(
        error.code == 2 && error.message.contains("hint provided does not correspond to an existing index")
    );
}

fn ids(found: &[DocBuf]) -> Vec<i64> {
    found.iter().map(|doc| doc.as_doc().get("_id").unwrap().as_i64_exact().unwrap()).collect()
}

fn code_of(outcome: Result<Vec<DocBuf>, Error>) -> i32 {
    match outcome {
        Err(Error::Query(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn min_and_max_scan_a_half_open_part_of_the_hinted_index() {
    let store = store();
    let collection = collection(&store);
    let docs: Vec<DocBuf> = (0..16).map(|n| doc! { "_id": n, "a": n / 4, "b": n % 4 }).collect();
    insert(&collection, &docs);
    index(&collection, doc! { "key": { "a": 1, "b": -1 }, "name": "ab" });
    let (low, high, filter) = (doc! { "a": 1, "b": 1 }, doc! { "a": 2, "b": 2 }, doc! { "b": { "$ne": 3 } });
    let hint = || Hint::Name("ab".into());
    let (min, max) = (Some(low.as_doc()), Some(high.as_doc()));
    let within = |min, max| Find { hint: hint(), limits: IndexLimits { min, max }, ..Find::default() };
    assert_eq!(ids(&crate::setup::find(&store, &within(min, max))), [5, 4, 11]);
    assert_eq!(ids(&crate::setup::find(&store, &within(None, min))), [3, 2, 1, 0, 7, 6]);
    assert_eq!(crate::setup::find(&store, &within(max, None)).len(), 7);
    let filtered = Find { filter: filter.as_doc(), ..within(min, max) };
    assert_eq!(ids(&crate::setup::find(&store, &filtered)), [5, 4]);
    let sort = doc! { "a": -1, "b": 1 };
    let sorted = Find { sort: Some(sort.as_doc()), ..within(min, max) };
    assert_eq!(ids(&crate::setup::find(&store, &sorted)), [11, 4, 5]);
    assert_eq!(winning_stages(&store, &sorted), ["FETCH", "IXSCAN"]);
    let by_id = doc! { "_id": 14 };
    let limits = IndexLimits { min: Some(by_id.as_doc()), max: None };
    let find = Find { hint: Hint::Name("_id_".into()), limits, ..Find::default() };
    assert_eq!(ids(&crate::setup::find(&store, &find)), [14, 15]);
    let refused = |find: Find<'_>| code_of(try_find(&store, &find));
    assert_eq!(refused(Find { hint: Hint::None, ..within(min, max) }), 291);
    assert_eq!(refused(Find { hint: Hint::Name("_id_".into()), ..within(min, max) }), 51174);
    assert_eq!(refused(within(max, min)), 51175);
}

#[test]
fn return_key_returns_the_index_keys_of_the_matches() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &[doc! { "_id": 1, "a": [5, 6], "b": 2 }, doc! { "_id": 2, "a": 7, "b": 1 }]);
    index(&collection, doc! { "key": { "a": 1, "b": 1 }, "name": "ab" });
    let (filter, sort) = (doc! { "a": { "$gte": 6 } }, doc! { "b": 1 });
    let keys = |filter: &DocBuf, sort: Option<&DocBuf>| {
        let sort = sort.map(DocBuf::as_doc);
        let find = Find { filter: filter.as_doc(), sort, return_key: true, ..Find::default() };
        crate::setup::find(&store, &find)
    };
    assert_eq!(keys(&filter, None), [doc! { "a": 6, "b": 2 }, doc! { "a": 7, "b": 1 }]);
    assert_eq!(keys(&filter, Some(&sort)), [doc! { "a": 7, "b": 1 }, doc! { "a": 6, "b": 2 }]);
    assert_eq!(keys(&doc! { "_id": 2 }, None), [doc! { "_id": 2 }]);
    assert_eq!(keys(&doc! { "b": 2 }, None), [doc! {}]);
    let find = Find { filter: filter.as_doc(), return_key: true, ..Find::default() };
    assert_eq!(winning_stages(&store, &find), ["RETURN_KEY", "FETCH", "IXSCAN"]);
}

#[test]
fn a_hashed_index_refuses_arrays() {
    let store = store();
    let collection = collection(&store);
    index(&collection, doc! { "key": { "a.b": "hashed", "c": 1 }, "name": "h" });
    let refused = |document: DocBuf| {
        let mut report = collection.insert(&[document.as_doc()], true, WriteOptions::default()).unwrap();
        match report.errors.pop() {
            Some((0, Error::Query(error))) => (error.code, error.message),
            other => panic!("{other:?}"),
        }
    };
    let text = "Error: hashed indexes do not currently support array values. Found array at path: ";
    assert_eq!(refused(doc! { "_id": 1, "a": { "b": [1] } }), (16766, format!("{text}a.b")));
    assert_eq!(refused(doc! { "_id": 1, "a": [{ "b": 1 }] }), (16766, format!("{text}a")));
    assert_eq!(refused(doc! { "_id": 1, "c": [1] }), (16766, format!("{text}c")));
    insert(&collection, &[doc! { "_id": 1, "a": { "b": 5 } }, doc! { "_id": 2 }]);
    assert_eq!(find_ids(&store, &doc! { "a.b": 5 }), [1]);
    assert_eq!(find_ids(&store, &doc! { "a.b": Value::Null }), [2]);
}

/// Values of many types, with arrays only if `arrays` is set.
fn assorted(arrays: bool) -> Vec<DocBuf> {
    let mut values = vec![
        doc! {},
        doc! { "a": Value::Null },
        doc! { "a": Value::MinKey },
        doc! { "a": Value::MaxKey },
        doc! { "a": f64::NAN },
        doc! { "a": -1 },
        doc! { "a": 5 },
        doc! { "a": 5.0 },
        doc! { "a": 7i64 },
        doc! { "a": "x" },
        doc! { "a": "y" },
        doc! { "a": true },
        doc! { "a": { "b": 5 } },
        doc! { "a": Value::DateTime(5) },
    ];
    if arrays {
        values.extend([
            doc! { "a": [5, 9] },
            doc! { "a": Vec::<i32>::new() },
            doc! { "a": [{ "b": 5 }, { "b": 7 }] },
        ]);
    }
    let number = |(at, doc): (usize, DocBuf)| {
        let mut out = doc! { "_id": at as i32 }.into_builder();
        out.append_all(doc.as_doc());
        out.finish()
    };
    values.into_iter().enumerate().map(number).collect()
}

#[test]
fn comparisons_in_expr_match_the_same_with_and_without_an_index() {
    for arrays in [false, true] {
        for options in [
            doc! {},
            doc! { "sparse": true },
            doc! { "collation": { "locale": "en", "strength": 2 } },
            doc! { "key": { "a": "hashed" } },
            doc! { "key": { "$**": 1 } },
            doc! { "key": { "a.b": 1 } },
        ] {
            let hashed = options == doc! { "key": { "a": "hashed" } };
            let (plain, indexed) = (store(), store());
            for store in [&plain, &indexed] {
                insert(&collection(store), &assorted(arrays && !hashed));
            }
            let mut spec = doc! { "name": "i" }.into_builder();
            spec.append_all(options.as_doc());
            if !options.as_doc().contains_key("key") {
                spec.append("key", doc! { "a": 1 });
            }
            index(&collection(&indexed), spec.finish());
            for operator in ["$eq", "$lt", "$lte", "$gt", "$gte"] {
                for constant in assorted(true).iter().skip(1) {
                    let literal = doc! { "$literal": constant.as_doc().get("a") };
                    for path in ["$a", "$a.b", "$a.0"] {
                        let mut call = diwan_value::DocBuilder::new();
                        call.append(operator, diwan_value::array![(path), (literal.clone())]);
                        let filter = doc! { "$expr": call.finish() };
                        assert_eq!(
                            find_ids(&plain, &filter),
                            find_ids(&indexed, &filter),
                            "{filter:?} {options:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_lookup_with_let_uses_the_index() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(0..300).map(|n| doc! { "_id": n, "a": n % 100 }).collect::<Vec<_>>());
    index(&collection, doc! { "key": { "a": 1 }, "name": "a" });
    let expr = doc! { "$expr": { "$and": [{ "$eq": ["$a", 7] }, { "$lt": [100, "$_id"] }] } };
    let find = Find { filter: expr.as_doc(), ..Find::default() };
    assert_eq!(winning_stages(&store, &find), ["FETCH", "IXSCAN"]);
    assert_eq!(find_ids(&store, &expr), [107, 207]);
    let pipeline = diwan_value::array![
        { "$match": { "_id": { "$lt": 2 } } },
        { "$lookup": {
            "from": "things",
            "let": { "mine": "$a" },
            "pipeline": [{ "$match": { "$expr": { "$eq": ["$a", "$$mine"] } } }],
            "as": "same"
        } }
    ];
    let bytes = pipeline.finish();
    let request = Aggregate {
        pipeline: stages(&bytes),
        hint: Hint::None,
        scope: Scope::default(),
        bypass_validation: false,
    };
    let uses = || collection.schema().indexes[1].accesses().0;
    let before = uses();
    let mut source = store.aggregate(Some(&name()), "test", &request).unwrap();
    while source.advance(&Interrupt::new()).unwrap() {
        let same = source.current().get_array("same").unwrap();
        assert_eq!(same.count(), 3);
    }
    assert_eq!(uses() - before, 2);
}
