//! Results of each stage.

use super::*;
use diwan_value::{Decimal128, Value, array, doc};

fn numbers() -> Vec<DocBuf> {
    vec![
        doc! { "_id": 1, "a": 1, "b": "x" },
        doc! { "_id": 2, "a": 2, "b": "y" },
        doc! { "_id": 3, "a": 3, "b": "x" },
        doc! { "_id": 4, "b": "z" },
    ]
}

#[test]
fn transforming_stages_give_one_document_each() {
    let docs = [doc! { "_id": 1, "a": { "b": 2, "c": [{ "d": 1 }, 7] }, "e": 5 }];
    check(array![{ "$project": { "e": 1 } }], &docs, &[doc! { "_id": 1, "e": 5 }]);
    check(array![{ "$unset": ["a", "_id"] }], &docs, &[doc! { "e": 5 }]);
    check(
        array![{ "$addFields": { "e": { "$add": ["$e", 1] }, "a.b": 9, "n": "$a.b", "m": "$nothing" } }],
        &docs,
        &[doc! { "_id": 1, "a": { "b": 9, "c": [{ "d": 1 }, 7] }, "e": 6, "n": 2 }],
    );
    check(
        array![{ "$set": { "a": { "c": { "x": 0 } }, "e": "$$REMOVE" } }],
        &docs,
        &[doc! { "_id": 1, "a": { "b": 2, "c": [{ "d": 1, "x": 0 }, { "x": 0 }] } }],
    );
    check(
        array![{ "$set": { "e.f.g": 1 } }, { "$project": { "e": 1 } }],
        &docs,
        &[doc! { "_id": 1, "e": { "f": { "g": 1 } } }],
    );
    check(array![{ "$replaceRoot": { "newRoot": { "x": "$e" } } }], &docs, &[doc! { "x": 5 }]);
    check(array![{ "$replaceWith": "$a" }, { "$unset": "c" }], &docs, &[doc! { "b": 2 }]);
}

#[test]
fn skip_limit_and_count_count_documents() {
    let docs = numbers();
    check(array![{ "$match": { "a": { "$gte": 2 } } }], &docs, &docs[1..3]);
    check(array![{ "$skip": 1 }, { "$limit": 2 }], &docs, &docs[1..3]);
    check(array![{ "$limit": 9 }, { "$skip": 4 }], &docs, &[]);
    check(array![{ "$match": { "b": "x" } }, { "$count": "n" }], &docs, &[doc! { "n": 2 }]);
    check(array![{ "$match": { "b": "none" } }, { "$count": "n" }], &docs, &[]);
    check(
        array![{ "$sort": { "b": -1, "_id": -1 } }, { "$limit": 2 }, { "$project": { "_id": 1 } }],
        &docs,
        &[doc! { "_id": 4 }, doc! { "_id": 2 }],
    );
    check(
        array![{ "$sort": { "_id": -1 } }, { "$match": { "b": "x" } }, { "$unset": ["a", "b"] }],
        &docs,
        &[doc! { "_id": 3 }, doc! { "_id": 1 }],
    );
}

#[test]
fn sort_gets_the_limit_of_later_stages() {
    let sorted = |stages: ArrayBuilder| {
        let pipeline = parse(&stages).unwrap();
        pipeline.stages.iter().find_map(|stage| match &stage.operation {
            Operation::Sort(sort) => Some(sort.limit),
            _ => None,
        })
    };
    assert_eq!(sorted(array![{ "$sort": { "a": 1 } }]), Some(None));
    assert_eq!(sorted(array![{ "$sort": { "a": 1 } }, { "$limit": 5 }]), Some(Some(5)));
    assert_eq!(
        sorted(array![{ "$sort": { "a": 1 } }, { "$skip": 2 }, { "$project": { "a": 1 } }, { "$limit": 5 }]),
        Some(Some(7))
    );
    assert_eq!(sorted(array![{ "$sort": { "a": 1 } }, { "$unwind": "$a" }, { "$limit": 5 }]), Some(None));
    let swapped = parse(&array![{ "$sort": { "a": 1 } }, { "$match": {} }, { "$match": {} }]).unwrap();
    let names: Vec<_> = swapped.stages.iter().map(|stage| stage.name).collect();
    assert_eq!(names, ["$match", "$match", "$sort"]);
}

#[test]
fn group_accumulates_by_id() {
    let docs = numbers();
    check(
        array![
            { "$group": { "_id": "$b", "sum": { "$sum": "$a" }, "n": { "$sum": 1 }, "all": { "$push": "$a" } } },
        ],
        &docs,
        &[
            doc! { "_id": "x", "sum": 4, "n": 2, "all": [1, 3] },
            doc! { "_id": "y", "sum": 2, "n": 1, "all": [2] },
            doc! { "_id": "z", "sum": 0, "n": 1, "all": [] },
        ],
    );
    check(
        array![{ "$group": { "_id": null, "max": { "$max": "$a" } } }],
        &docs,
        &[doc! { "_id": null, "max": 3 }],
    );
    check(array![{ "$group": { "_id": null } }], &[], &[]);
    // Equal numbers of all types form one group, as do missing and null; a missing field is omitted.
    let decimal = Decimal128::from(1);
    let mixed = [
        doc! { "a": 1 },
        doc! { "a": 1.0 },
        doc! { "a": (decimal) },
        doc! { "a": 1i64 },
        doc! { "a": null },
        doc! { "b": 1 },
    ];
    check(
        array![{ "$group": { "_id": "$a", "n": { "$count": {} } } }],
        &mixed,
        &[doc! { "_id": 1, "n": 4 }, doc! { "_id": null, "n": 2 }],
    );
    check(
        array![{ "$group": { "_id": { "a": "$a", "c": "$c" }, "n": { "$count": {} } } }, { "$limit": 1 }],
        &mixed,
        &[doc! { "_id": { "a": 1 }, "n": 4 }],
    );
}

#[test]
fn unwind_gives_one_document_per_element() {
    let docs = [
        doc! { "_id": 1, "a": [1, 2], "z": 0 },
        doc! { "_id": 2, "a": [] },
        doc! { "_id": 3, "a": null },
        doc! { "_id": 4 },
        doc! { "_id": 5, "a": "s" },
    ];
    check(
        array![{ "$unwind": "$a" }],
        &docs,
        &[doc! { "_id": 1, "a": 1, "z": 0 }, doc! { "_id": 1, "a": 2, "z": 0 }, doc! { "_id": 5, "a": "s" }],
    );
    check(
        array![{ "$unwind": { "path": "$a", "preserveNullAndEmptyArrays": true, "includeArrayIndex": "i" } }],
        &docs,
        &[
            doc! { "_id": 1, "a": 1, "z": 0, "i": 0i64 },
            doc! { "_id": 1, "a": 2, "z": 0, "i": 1i64 },
            doc! { "_id": 2, "i": null },
            doc! { "_id": 3, "a": null, "i": null },
            doc! { "_id": 4, "i": null },
            doc! { "_id": 5, "a": "s", "i": null },
        ],
    );
    let nested = [doc! { "x": { "y": [{ "k": 1 }, { "k": 2 }], "w": 1 } }];
    check(
        array![{ "$unwind": { "path": "$x.y", "includeArrayIndex": "x.i" } }, { "$limit": 1 }],
        &nested,
        &[doc! { "x": { "y": { "k": 1 }, "w": 1, "i": 0i64 } }],
    );
    check(
        array![{ "$unwind": "$x.y" }, { "$unwind": "$x.y.k" }, { "$count": "n" }],
        &nested,
        &[doc! { "n": 2 }],
    );
}

#[test]
fn facet_runs_each_pipeline() {
    let docs = numbers();
    check(
        array![{ "$facet": {
            "count": [{ "$count": "n" }],
            "top": [{ "$sort": { "_id": -1 } }, { "$limit": 1 }, { "$project": { "_id": 1 } }],
            "none": [{ "$match": { "_id": 99 } }],
            "all": [],
        } }, { "$unset": "all" }],
        &docs,
        &[doc! { "count": [{ "n": 4 }], "top": [{ "_id": 4 }], "none": [] }],
    );
}

#[test]
fn bucket_stages_divide_documents() {
    let docs: Vec<DocBuf> = (0..10).map(|n| doc! { "_id": n, "v": (n * n) }).collect();
    check(
        array![{ "$bucket": { "groupBy": "$v", "boundaries": [0, 10, 50], "default": "rest" } }],
        &docs,
        &[doc! { "_id": 0, "count": 4 }, doc! { "_id": 10, "count": 4 }, doc! { "_id": "rest", "count": 2 }],
    );
    check(
        array![{ "$bucket": {
            "groupBy": "$v", "boundaries": [0, 100], "output": { "sum": { "$sum": "$v" } },
        } }],
        &docs,
        &[doc! { "_id": 0, "sum": 285 }],
    );
    assert_eq!(
        run_stages(&array![{ "$bucket": { "groupBy": "$v", "boundaries": [0, 10] } }], &docs)
            .unwrap_err()
            .code,
        40066
    );
    check(
        array![{ "$bucketAuto": { "groupBy": "$v", "buckets": 3 } }],
        &docs,
        &[
            doc! { "_id": { "min": 0, "max": 9 }, "count": 3 },
            doc! { "_id": { "min": 9, "max": 36 }, "count": 3 },
            doc! { "_id": { "min": 36, "max": 81 }, "count": 4 },
        ],
    );
    // Equal values stay together.
    let equal: Vec<DocBuf> = [1, 1, 1, 1, 2].iter().map(|n| doc! { "v": (*n) }).collect();
    check(
        array![{ "$bucketAuto": { "groupBy": "$v", "buckets": 4 } }],
        &equal,
        &[
            doc! { "_id": { "min": 1, "max": 2 }, "count": 4 },
            doc! { "_id": { "min": 2, "max": 2 }, "count": 1 },
        ],
    );
    check(
        array![{ "$bucketAuto": {
            "groupBy": "$v", "buckets": 2, "granularity": "POWERSOF2", "output": { "n": { "$sum": 1 } },
        } }],
        &docs,
        &[
            doc! { "_id": { "min": 0, "max": 32.0 }, "n": 6 },
            doc! { "_id": { "min": 32.0, "max": 128.0 }, "n": 4 },
        ],
    );
}

#[test]
fn sort_by_count_orders_by_frequency() {
    check(array![{ "$sortByCount": "$b" }, { "$limit": 1 }], &numbers(), &[doc! { "_id": "x", "count": 2 }]);
}

#[test]
fn sample_returns_the_requested_number() {
    let docs: Vec<DocBuf> = (0..100).map(|n| doc! { "_id": n }).collect();
    let chosen = run_stages(&array![{ "$sample": { "size": 10 } }], &docs).unwrap();
    assert_eq!(chosen.len(), 10);
    let mut ids: Vec<i64> =
        chosen.iter().filter_map(|doc| doc.as_doc().get("_id").and_then(Value::as_i64_exact)).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10, "no document twice");
    assert_eq!(run_stages(&array![{ "$sample": { "size": 1000 } }], &docs).unwrap().len(), 100);
}

#[test]
fn statistics_and_documents_stages_generate_documents() {
    check(array![{ "$collStats": { "count": {} } }], &[], &[doc! { "ns": "test.input" }]);
    check(array![{ "$indexStats": {} }, { "$project": { "name": 1 } }], &[], &[doc! { "name": "_id_" }]);
    let server = PipelineEnv { database: "admin".into(), collection: None, ..env() };
    let run = |stages: ArrayBuilder| {
        let pipeline = Pipeline::parse(Array::trusted(&stages.finish()), &server)?;
        assert!(!pipeline.reads_collection());
        let memory = Arc::new(Memory::default());
        drain(pipeline.open(Box::new(DocList::empty()), &execution(&memory, MemoryBudget::default()))?)
    };
    assert_eq!(run(array![{ "$currentOp": { "allUsers": true } }]).unwrap(), [doc! { "type": "op" }]);
    assert_eq!(
        run(array![{ "$documents": [{ "x": { "$add": [1, 1] } }, { "x": 3 }] }, { "$match": { "x": 2 } }])
            .unwrap(),
        [doc! { "x": 2 }]
    );
    assert_eq!(run(array![{ "$documents": "no" }]).unwrap_err().code, 5858203);
    assert_eq!(run(array![{ "$documents": [1] }]).unwrap_err().code, 40228);
}
