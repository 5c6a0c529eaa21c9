//! `$out` and `$merge`.

use super::*;
use diwan_value::{array, doc};

fn target() -> Vec<DocBuf> {
    vec![doc! { "_id": 1, "a": 1, "b": 1 }, doc! { "_id": 2, "a": 2 }]
}

/// The target after a `$merge` of two documents, one of which is new.
fn merged(options: DocBuf) -> Result<Vec<DocBuf>> {
    let input = [doc! { "_id": 1, "a": 10, "c": 3 }, doc! { "_id": 7, "a": 70 }];
    let memory = Memory::with(&[("input", &input), ("target", &target())]);
    let mut spec = doc! { "into": "target" }.into_builder();
    spec.append_all(options.as_doc());
    let left = run_in(&memory, &array![{ "$merge": (spec.finish()) }], MemoryBudget::default())?;
    assert!(left.is_empty());
    Ok(memory.docs("target"))
}

#[test]
fn out_replaces_the_collection() {
    let memory = Memory::with(&[("input", &target()), ("target", &[doc! { "_id": 9 }])]);
    let stages = array![{ "$project": { "a": 1 } }, { "$out": "target" }];
    assert!(run_in(&memory, &stages, MemoryBudget::default()).unwrap().is_empty());
    assert_eq!(memory.docs("target"), [doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }]);
    assert_eq!(parse(&stages).unwrap().target(), Some(&Namespace::new("test", "target")));
    let other = parse(&array![{ "$out": { "db": "d", "coll": "c" } }]).unwrap();
    assert_eq!(other.target(), Some(&Namespace::new("d", "c")));
}

#[test]
fn merge_follows_when_matched() {
    let new = doc! { "_id": 7, "a": 70 };
    let second = doc! { "_id": 2, "a": 2 };
    let cases = [
        (doc! {}, doc! { "_id": 1, "a": 10, "b": 1, "c": 3 }),
        (doc! { "whenMatched": "merge" }, doc! { "_id": 1, "a": 10, "b": 1, "c": 3 }),
        (doc! { "whenMatched": "replace" }, doc! { "_id": 1, "a": 10, "c": 3 }),
        (doc! { "whenMatched": "keepExisting" }, doc! { "_id": 1, "a": 1, "b": 1 }),
        (
            doc! { "whenMatched": [{ "$set": { "sum": { "$add": ["$a", "$$new.a", "$$c"] } } }, { "$unset": "b" }],
            "let": { "c": "$c" } },
            doc! { "_id": 1, "a": 1, "sum": 14 },
        ),
    ];
    for (options, first) in cases {
        assert_eq!(merged(options.clone()).unwrap(), [first, second.clone(), new.clone()], "{options:?}");
    }
    assert_eq!(merged(doc! { "whenMatched": "fail" }).unwrap_err().code, 11000);
}

#[test]
fn merge_follows_when_not_matched() {
    assert_eq!(merged(doc! { "whenNotMatched": "discard" }).unwrap().len(), 2);
    assert_eq!(merged(doc! { "whenNotMatched": "fail" }).unwrap_err().code, 13113);
}

#[test]
fn merge_finds_documents_by_other_keys() {
    let input = [doc! { "a": 2, "x": 1 }, doc! { "a": 3, "x": 1 }];
    let memory = Memory::with(&[("input", &input), ("target", &target())]);
    let stages = array![{ "$merge": { "into": "target", "on": "a", "whenMatched": "replace" } }];
    run_in(&memory, &stages, MemoryBudget::default()).unwrap();
    assert_eq!(
        memory.docs("target")[1..],
        [doc! { "_id": 2, "a": 2, "x": 1 }, doc! { "a": 3, "x": 1 }],
        "the _id of what is replaced stays"
    );
    let errors = [
        (doc! { "_id": 1 }, "a", 51132),
        (doc! { "a": null }, "a", 51132),
        (doc! { "a": [1] }, "a", 51185),
        (doc! { "_id": 5, "a": 2 }, "a", 66),
        (doc! { "a": 1 }, "unknown", 51183),
    ];
    for (doc, on, expected) in errors {
        let memory = Memory::with(&[("input", std::slice::from_ref(&doc)), ("target", &target())]);
        let stages = array![{ "$merge": { "into": "target", "on": on } }];
        let error = run_in(&memory, &stages, MemoryBudget::default()).unwrap_err();
        assert_eq!(error.code, expected, "{doc:?}: {error}");
    }
}
