//! Memory budgets: with files the results are the same, without files there is an error.

use super::*;
use diwan_value::{array, doc};

fn docs() -> Vec<DocBuf> {
    (0..2000)
        .map(|n: i32| {
            let k = n.wrapping_mul(7919).rem_euclid(97);
            doc! { "_id": n, "k": k, "v": (f64::from(n) / 3.0), "s": (format!("text {n}")) }
        })
        .collect()
}

fn budget(limit: usize, files: bool) -> MemoryBudget {
    MemoryBudget { limit, ..MemoryBudget::in_directory(files.then(std::env::temp_dir)) }
}

#[test]
fn spilling_does_not_change_results() {
    let pipelines = [
        array![{ "$sort": { "k": 1, "s": -1 } }],
        array![{ "$sort": { "k": 1 } }, { "$limit": 300 }],
        array![
            { "$group": {
                "_id": "$k",
                "sum": { "$sum": "$_id" },
                "avg": { "$avg": "$_id" },
                "min": { "$min": "$s" },
                "max": { "$max": "$s" },
                "first": { "$first": "$_id" },
                "last": { "$last": "$_id" },
                "all": { "$push": "$_id" },
                "set": { "$addToSet": { "$mod": ["$_id", 3] } },
                "n": { "$count": {} },
                "merged": { "$mergeObjects": { "k": "$k", "s": "$s" } },
                "firsts": { "$firstN": { "n": 2, "input": "$_id" } },
                "lasts": { "$lastN": { "n": 2, "input": "$_id" } },
                "least": { "$minN": { "n": 3, "input": "$s" } },
                "most": { "$maxN": { "n": 3, "input": "$s" } },
                "top": { "$top": { "sortBy": { "s": 1 }, "output": "$_id" } },
                "bottom": { "$bottomN": { "n": 2, "sortBy": { "s": 1 }, "output": "$_id" } },
                "median": { "$median": { "input": "$v", "method": "approximate" } },
            } },
            { "$sort": { "_id": 1 } },
        ],
        array![{ "$bucketAuto": { "groupBy": "$k", "buckets": 7 } }],
        array![{ "$facet": { "n": [{ "$count": "n" }], "first": [{ "$limit": 3 }] } }],
    ];
    let memory = Memory::with(&[("input", &docs())]);
    for stages in pipelines {
        let expected = run_in(&memory, &stages, MemoryBudget::default()).unwrap();
        assert!(!expected.is_empty());
        for limit in [50_000, 20_000] {
            let found = run_in(&memory, &stages, budget(limit, true)).unwrap();
            assert_eq!(found, expected, "{limit}");
        }
    }
}

#[test]
fn spilled_standard_deviations_agree_within_rounding() {
    let stages = array![
        { "$group": { "_id": "$k", "p": { "$stdDevPop": "$v" }, "s": { "$stdDevSamp": "$v" }, "all": { "$push": "$s" } } },
        { "$sort": { "_id": 1 } },
        { "$unset": "all" },
    ];
    let memory = Memory::with(&[("input", &docs())]);
    let expected = run_in(&memory, &stages, MemoryBudget::default()).unwrap();
    let found = run_in(&memory, &stages, budget(20_000, true)).unwrap();
    assert_eq!(found.len(), 97);
    for (found, expected) in found.iter().zip(&expected) {
        for name in ["p", "s"] {
            let number = |doc: &DocBuf| match doc.as_doc().get(name) {
                Some(Value::Double(number)) => number,
                other => panic!("{other:?}"),
            };
            assert!((number(found) - number(expected)).abs() < 1e-9);
        }
    }
}

#[test]
fn stages_without_files_fail_beyond_their_budget() {
    let cases = [
        (
            array![{ "$sort": { "k": 1 } }],
            "Sort exceeded memory limit of 20000 bytes, but did not opt in to external sorting. Aborting operation. \
             Pass allowDiskUse:true to opt in.",
        ),
        (
            array![{ "$group": { "_id": "$_id" } }],
            "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in.",
        ),
        (
            array![{ "$group": { "_id": null, "all": { "$push": "$$ROOT" } } }],
            "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in.",
        ),
        (
            array![{ "$facet": { "a": [] } }],
            "Exceeded memory limit for $facet, but didn't allow external sort. Pass allowDiskUse:true to opt in.",
        ),
    ];
    let memory = Memory::with(&[("input", &docs())]);
    for (stages, text) in cases {
        let error = run_in(&memory, &stages, budget(20_000, false)).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (292, text));
    }
    let few = array![{ "$sort": { "k": 1 } }, { "$limit": 5 }];
    assert_eq!(run_in(&memory, &few, budget(20_000, false)).unwrap().len(), 5);
}
