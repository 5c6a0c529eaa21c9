//! `$lookup` and `$unionWith`.

use super::*;
use diwan_value::{Value, array, doc};

fn people() -> Vec<DocBuf> {
    vec![
        doc! { "_id": 1, "city": "Ulm" },
        doc! { "_id": 2, "city": ["Bonn", "Ulm"] },
        doc! { "_id": 3 },
        doc! { "_id": 4, "city": "Nowhere" },
        doc! { "_id": 5, "city": [] },
    ]
}

fn cities() -> Vec<DocBuf> {
    vec![
        doc! { "_id": 10, "names": ["Ulm", "ULM"] },
        doc! { "_id": 11, "names": "Bonn" },
        doc! { "_id": 12, "names": null },
        doc! { "_id": 13 },
    ]
}

/// The ids in the array `found` of each document.
fn ids(docs: &[DocBuf]) -> Vec<Vec<i64>> {
    docs.iter()
        .map(|doc| {
            let found = doc.as_doc().get_array("found").unwrap_or(Array::EMPTY);
            found.iter().filter_map(|item| item.as_doc()?.get("_id").and_then(Value::as_i64_exact)).collect()
        })
        .collect()
}

#[test]
fn lookup_joins_by_field_with_and_without_an_index() {
    let stages = array![{ "$lookup": {
        "from": "cities", "localField": "city", "foreignField": "names", "as": "found",
    } }];
    let expected: [&[i64]; 5] = [&[10], &[10, 11], &[12, 13], &[], &[12, 13]];
    for (indexed, opened) in [(true, 5), (false, 2)] {
        let mut memory = Memory { indexed, ..Memory::default() };
        *memory.collections.get_mut().unwrap() =
            [("input".to_owned(), people()), ("cities".to_owned(), cities())].into();
        let memory = Arc::new(memory);
        let found = run_in(&memory, &stages, MemoryBudget::default()).unwrap();
        assert_eq!(ids(&found), expected, "indexed: {indexed}");
        assert_eq!(*memory.opened.lock().unwrap(), opened, "indexed: {indexed}");
    }
    // A collection that does not fit the budget is queried for each document.
    let memory = Memory::with(&[("input", &people()), ("cities", &cities())]);
    let found = run_in(&memory, &stages, MemoryBudget { limit: 50, ..MemoryBudget::default() }).unwrap();
    assert_eq!(ids(&found), expected);
}

#[test]
fn lookup_joins_through_paths_and_arrays() {
    let input = [doc! { "_id": 1, "a": [{ "k": 1 }, { "k": [2, 3] }, 5] }];
    let other = [
        doc! { "_id": 1, "b": [{ "k": 1 }] },
        doc! { "_id": 2, "b": { "k": [3, 9] } },
        doc! { "_id": 3, "b": { "k": 5 } },
    ];
    // The same document twice, so that the second one uses the table.
    let input = [input[0].clone(), input[0].clone()];
    let memory = Memory::with(&[("input", &input), ("other", &other)]);
    let stages = array![{ "$lookup": {
        "from": "other", "localField": "a.k", "foreignField": "b.k", "as": "found",
    } }];
    assert_eq!(ids(&run_in(&memory, &stages, MemoryBudget::default()).unwrap()), [[1, 2], [1, 2]]);
}

#[test]
fn lookup_joins_regular_expressions_by_equality() {
    let regex = Value::Regex { pattern: "a", options: "" };
    let input = [doc! { "k": [(regex), "b"] }, doc! { "k": (regex) }];
    let other = [doc! { "_id": 1, "k": "a" }, doc! { "_id": 2, "k": (regex) }, doc! { "_id": 3, "k": "b" }];
    let memory = Memory::with(&[("input", &input), ("other", &other)]);
    let stages =
        array![{ "$lookup": { "from": "other", "localField": "k", "foreignField": "k", "as": "found" } }];
    let expected: [&[i64]; 2] = [&[2, 3], &[2]];
    assert_eq!(ids(&run_in(&memory, &stages, MemoryBudget::default()).unwrap()), expected);
}

#[test]
fn lookup_pipeline_reads_its_variables() {
    let input = [doc! { "_id": 1, "min": 11 }, doc! { "_id": 2, "min": 13 }, doc! { "_id": 3 }];
    let memory = Memory::with(&[("input", &input), ("cities", &cities())]);
    let stages = array![{ "$lookup": {
        "from": "cities",
        "let": { "min": "$min" },
        "pipeline": [
            { "$match": { "$expr": { "$gte": ["$_id", "$$min"] } } },
            { "$project": { "own": { "$eq": ["$_id", "$$min"] } } },
        ],
        "as": "found",
    } }, { "$project": { "found": 1 } }];
    let found = run_in(&memory, &stages, MemoryBudget::default()).unwrap();
    assert_eq!(found[1], doc! { "_id": 2, "found": [{ "_id": 13, "own": true }] });
    let expected: [&[i64]; 3] = [&[11, 12, 13], &[13], &[10, 11, 12, 13]];
    assert_eq!(ids(&found), expected);
}

#[test]
fn nested_pipelines_read_the_variables_of_outer_ones() {
    let input = [doc! { "_id": 1, "x": 5 }, doc! { "_id": 2, "x": 6 }];
    let other = [doc! { "_id": 10, "y": 7 }];
    let memory = Memory::with(&[("input", &input), ("other", &other)]);
    let stages = array![{ "$lookup": {
        "from": "other",
        "let": { "x": "$x" },
        "pipeline": [{ "$lookup": {
            "from": "other",
            "let": { "y": "$y" },
            "pipeline": [{ "$project": { "_id": { "$add": ["$$x", "$$y"] } } }],
            "as": "inner",
        } }, { "$replaceWith": { "$first": "$inner" } }],
        "as": "found",
    } }];
    assert_eq!(ids(&run_in(&memory, &stages, MemoryBudget::default()).unwrap()), [[12], [13]]);
}

#[test]
fn lookup_combines_fields_and_pipeline() {
    let memory = Memory::with(&[("input", &people()), ("cities", &cities())]);
    let stages = array![{ "$lookup": {
        "from": "cities", "localField": "city", "foreignField": "names", "as": "found",
        "let": { "id": "$_id" },
        "pipeline": [{ "$match": { "$expr": { "$gt": ["$_id", { "$add": ["$$id", 8] }] } } }],
    } }];
    let expected: [&[i64]; 5] = [&[10], &[11], &[12, 13], &[], &[]];
    assert_eq!(ids(&run_in(&memory, &stages, MemoryBudget::default()).unwrap()), expected);
}

#[test]
fn lookup_reads_a_constant_result_once() {
    let memory = Memory::with(&[("input", &people()), ("cities", &cities())]);
    let stages = array![{ "$lookup": { "from": "cities", "pipeline": [{ "$limit": 1 }], "as": "x.found" } }];
    let found = run_in(&memory, &stages, MemoryBudget::default()).unwrap();
    assert_eq!(*memory.opened.lock().unwrap(), 1);
    assert_eq!(found[2], doc! { "_id": 3, "x": { "found": [{ "_id": 10, "names": ["Ulm", "ULM"] }] } });
    // Without a collection, the pipeline generates its documents.
    let stages = array![{ "$lookup": {
        "pipeline": [{ "$documents": [{ "_id": 1 }, { "_id": 3 }] }],
        "localField": "_id", "foreignField": "_id", "as": "found",
    } }];
    let expected: [&[i64]; 5] = [&[1], &[], &[3], &[], &[]];
    assert_eq!(ids(&run_in(&memory, &stages, MemoryBudget::default()).unwrap()), expected);
}

#[test]
fn union_with_appends_documents() {
    let memory = Memory::with(&[("input", &people()[..1]), ("cities", &cities())]);
    let stages = array![
        { "$unionWith": { "coll": "cities", "pipeline": [{ "$match": { "names": "Bonn" } }] } },
        { "$unionWith": { "pipeline": [{ "$documents": [{ "_id": 99 }] }] } },
        { "$project": { "_id": 1 } },
    ];
    let found = run_in(&memory, &stages, MemoryBudget::default()).unwrap();
    assert_eq!(found, [doc! { "_id": 1 }, doc! { "_id": 11 }, doc! { "_id": 99 }]);
    assert_eq!(
        run_in(&memory, &array![{ "$unionWith": "cities" }], MemoryBudget::default()).unwrap().len(),
        5
    );
}
