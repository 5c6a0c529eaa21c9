//! Groups that are combined with the stage before them.

use super::*;
use crate::pipeline::inline::group_over;

fn transforms() -> Vec<DocBuf> {
    vec![
        doc! { "$project": { "a": 1, "x": "$c" } },
        doc! { "$project": { "_id": 0, "x": { "$add": ["$a", 1] }, "y": "$b.c" } },
        doc! { "$project": { "x": { "$toDate": { "$multiply": ["$a", 1000] } }, "y": "$c" } },
        doc! { "$project": { "x": { "$hour": { "$toDate": "$a" } }, "a": 1 } },
        doc! { "$project": { "x": { "$literal": "$a" }, "y": "$$REMOVE", "a": "$$ROOT" } },
        doc! { "$project": { "b.c": 1, "x": "$a" } },
        doc! { "$project": { "b": { "c": { "$add": ["$a", 1] } }, "x": "$a" } },
        doc! { "$project": { "a": 0 } },
        doc! { "$unset": "b.c" },
        doc! { "$addFields": { "x": { "$multiply": ["$a", 2] } } },
        doc! { "$addFields": { "x": "$b", "a": "$c" } },
        doc! { "$set": { "b.c": "$a", "x": 1 } },
        doc! { "$set": { "x": ["$a", 1], "y": 1 } },
        doc! { "$replaceWith": { "x": "$a", "a": "$c" } },
    ]
}

fn groups() -> Vec<DocBuf> {
    vec![
        doc! { "$group": { "_id": "$x", "n": { "$sum": 1 } } },
        doc! { "$group": { "_id": "$a", "x": { "$push": "$x" } } },
        doc! { "$group": { "_id": { "p": "$x", "q": ["$y", "$a"] }, "n": { "$count": {} } } },
        doc! { "$group": { "_id": "$y", "least": { "$min": "$x" }, "most": { "$max": "$x" } } },
        doc! { "$group": { "_id": "$y", "a": { "$min": "$x" }, "b": { "$max": "$x" }, "c": { "$last": "$x" } } },
        doc! { "$group": { "_id": null, "first": { "$first": "$x" }, "some": { "$firstN": { "n": 2, "input": "$x" } } } },
        doc! { "$group": { "_id": { "$ifNull": ["$y", "$x"] } } },
        doc! { "$group": { "_id": { "$cond": ["$a", "$x", "$y"] } } },
        doc! { "$group": { "_id": { "$map": { "input": ["$x"], "in": "$$this" } } } },
        doc! { "$group": { "_id": "$x.c", "all": { "$addToSet": "$b.c" } } },
        doc! { "$group": { "_id": "$$ROOT" } },
        doc! { "$group": { "_id": { "$setEquals": ["$y", [1]] } } },
        doc! { "$group": { "_id": "$_id", "sum": { "$sum": { "$add": ["$a", "$x"] } } } },
        doc! { "$group": { "_id": null, "top": { "$top": { "sortBy": { "x": 1 }, "output": "$x" } } } },
    ]
}

fn pipeline(transform: &DocBuf, group: &DocBuf) -> Pipeline {
    let mut stages = ArrayBuilder::new();
    stages.push(transform.as_doc()).push(group.as_doc());
    parse(&stages).unwrap()
}

fn inlined(pipeline: &Pipeline) -> Option<Group> {
    match (&pipeline.stages[0].operation, &pipeline.stages[1].operation) {
        (Operation::Transform(transform), Operation::Group(group)) => group_over(transform, group),
        other => panic!("{other:?}"),
    }
}

/// Runs the stages one after another, and the pipeline as it normally runs.
fn both_ways(pipeline: &Pipeline, docs: &[DocBuf]) -> [std::result::Result<Vec<DocBuf>, i32>; 2] {
    let execution = execution(&Memory::with(&[]), MemoryBudget::default());
    let input = || Box::new(DocList::new(docs.to_vec())) as Box<dyn DocSource>;
    let mut stages = pipeline.stages.iter();
    let separate = stages.try_fold(input(), |input, stage| stage.operation.open(input, &execution));
    let whole = pipeline.open(input(), &execution);
    [separate, whole].map(|opened| opened.and_then(drain).map_err(|error| error.code))
}

#[test]
fn combined_group_gives_the_same_result() {
    let docs = [
        doc! { "_id": 1, "a": 1i64, "b": { "c": 3 }, "c": "one" },
        doc! { "_id": 2, "a": 2.5, "b": { "c": 3 }, "c": "one" },
        doc! { "_id": 3, "a": 1i64, "b": [{ "c": 4 }, { "c": [5] }], "c": null },
        doc! { "_id": 4, "b": 7, "c": [1, 2] },
        doc! { "_id": 5, "a": null, "c": { "c": 1 } },
        doc! { "_id": 6, "a": 1i64, "x": 9, "y": 8 },
        doc! { "_id": 7, "a": "a text", "b": { "c": 3 } },
    ];
    let (mut count, mut succeeded) = (0, 0);
    for transform in transforms() {
        for group in groups() {
            let pipeline = pipeline(&transform, &group);
            // With the last document some expressions fail; without it few do.
            for docs in [&docs[..], &docs[..6], &docs[..2]] {
                let [separate, whole] = both_ways(&pipeline, docs);
                assert_eq!(separate, whole, "{transform:?}, {group:?}");
                succeeded += usize::from(whole.is_ok());
            }
            count += usize::from(inlined(&pipeline).is_some());
        }
    }
    assert!(count > 50 && succeeded > 300, "{count} inlined, {succeeded} without an error");
}

#[test]
fn combining_keeps_errors_of_computed_fields() {
    let is_inlined = |transform: DocBuf, group: DocBuf| inlined(&pipeline(&transform, &group)).is_some();
    let computed = || doc! { "$project": { "x": { "$toDate": "$a" }, "y": "$b" } };
    let group = |fields: DocBuf| doc! { "$group": (fields) };
    assert!(is_inlined(computed(), group(doc! { "_id": "$x" })));
    assert!(is_inlined(
        computed(),
        group(doc! { "_id": "$y", "least": { "$min": "$x" }, "most": { "$max": "$x" } })
    ));
    // No accumulator reads the field, or not for every document, or the group reads so many fields that a document is
    // faster.
    assert!(!is_inlined(computed(), group(doc! { "_id": "$y" })));
    assert!(!is_inlined(computed(), group(doc! { "_id": "$y", "x": { "$first": "$x" } })));
    assert!(!is_inlined(computed(), group(doc! { "_id": { "$ifNull": ["$y", "$x"] } })));
    let often = doc! { "_id": "$x", "a": { "$min": "$x" }, "b": { "$max": "$x" }, "c": { "$sum": "$y" }, "d": { "$last": "$y" } };
    assert!(!is_inlined(computed(), group(often)));
    // A value that changes with each evaluation must not be computed twice.
    let random = || doc! { "$addFields": { "x": { "$rand": {} } } };
    assert!(is_inlined(random(), group(doc! { "_id": "$x" })));
    assert!(!is_inlined(random(), group(doc! { "_id": "$x", "y": { "$min": "$x" } })));
}
