//! Errors of the parser, with MongoDB's codes.

use super::*;
use diwan_value::{array, doc};

#[test]
fn parsing_checks_the_arguments_of_stages() {
    let cases = [
        (array![1], 14),
        (array![{}], 40323),
        (array![{ "$limit": 1, "$skip": 1 }], 40323),
        (array![{ "$foo": 1 }], 40324),
        (array![{ "$match": 1 }], 15959),
        (array![{ "$project": 1 }], 15969),
        (array![{ "$addFields": "a" }], 40272),
        (array![{ "$addFields": {} }], 40177),
        (array![{ "$addFields": { "a": 1, "a.b": 2 } }], 40176),
        (array![{ "$addFields": { "a": {} } }], 40180),
        (array![{ "$set": { "a": { "b.c": 1 } } }], 40183),
        (array![{ "$unset": 1 }], 31002),
        (array![{ "$unset": [] }], 31119),
        (array![{ "$unset": [1] }], 31120),
        (array![{ "$replaceRoot": 1 }], 40229),
        (array![{ "$replaceRoot": { "x": 1 } }], 40415),
        (array![{ "$replaceRoot": {} }], 40414),
        (array![{ "$group": 1 }], 15947),
        (array![{ "$group": { "a": { "$sum": 1 } } }], 15955),
        (array![{ "$group": { "_id": 1, "a": 1 } }], 40234),
        (array![{ "$group": { "_id": 1, "a": {} } }], 40234),
        (array![{ "$group": { "_id": 1, "a": { "$sum": 1, "$avg": 1 } } }], 40238),
        (array![{ "$group": { "_id": 1, "a": { "$foo": 1 } } }], 15952),
        (array![{ "$group": { "_id": 1, "a.b": { "$sum": 1 } } }], 40235),
        (array![{ "$group": { "_id": 1, "$a": { "$sum": 1 } } }], 40236),
        (array![{ "$group": { "_id": 1, "a": { "$sum": [1, 2] } } }], 40237),
        (array![{ "$group": { "_id": { "a": 1 } } }], 17390),
        (array![{ "$group": { "_id": 1, "a": { "$count": 1 } } }], 14),
        (array![{ "$group": { "_id": 1, "a": { "$accumulator": {} } } }], 238),
        (array![{ "$group": { "_id": 1, "a": { "$firstN": 1 } } }], 5787801),
        (array![{ "$group": { "_id": 1, "a": { "$minN": { "n": 1 } } } }], 5787907),
        (array![{ "$group": { "_id": 1, "a": { "$minN": { "input": 1 } } } }], 5787906),
        (array![{ "$group": { "_id": 1, "a": { "$top": { "output": 1 } } } }], 5788005),
        (array![{ "$group": { "_id": 1, "a": { "$topN": { "output": 1 } } } }], 5788003),
        (array![{ "$group": { "_id": 1, "a": { "$median": 1 } } }], 7436100),
        (array![{ "$sort": 1 }], 15973),
        (array![{ "$sort": {} }], 15976),
        (array![{ "$limit": 0 }], 15958),
        (array![{ "$limit": (-1) }], 5107201),
        (array![{ "$limit": "1" }], 5107201),
        (array![{ "$limit": 1.5 }], 5107201),
        (array![{ "$skip": (-1) }], 5107200),
        (array![{ "$count": 1 }], 40156),
        (array![{ "$count": "" }], 40157),
        (array![{ "$count": "$a" }], 40158),
        (array![{ "$count": "a.b" }], 40160),
        (array![{ "$unwind": 1 }], 15981),
        (array![{ "$unwind": { "path": 1 } }], 28808),
        (array![{ "$unwind": { "path": "$a", "preserveNullAndEmptyArrays": 1 } }], 28809),
        (array![{ "$unwind": { "path": "$a", "includeArrayIndex": "" } }], 28810),
        (array![{ "$unwind": { "path": "$a", "foo": 1 } }], 28811),
        (array![{ "$unwind": {} }], 28812),
        (array![{ "$unwind": "a" }], 28818),
        (array![{ "$unwind": { "path": "$a", "includeArrayIndex": "$i" } }], 28822),
        (array![{ "$lookup": 1 }], 9),
        (array![{ "$lookup": { "from": "c", "as": "x" } }], 9),
        (array![{ "$lookup": { "from": "c", "as": "x", "localField": "a" } }], 9),
        (
            array![{ "$lookup": { "from": "c", "as": "x", "localField": "a", "foreignField": "b", "let": {} } }],
            9,
        ),
        (array![{ "$lookup": { "from": "c", "as": "x", "pipeline": [{ "$out": "y" }] } }], 51047),
        (array![{ "$lookup": { "from": "c", "as": "x", "let": { "X": 1 }, "pipeline": [] } }], 9),
        (
            array![{ "$lookup": { "from": "c", "as": "x", "pipeline": [{ "$project": { "a": "$$x" } }] } }],
            17276,
        ),
        (array![{ "$facet": {} }], 40169),
        (array![{ "$facet": { "a": 1 } }], 40170),
        (array![{ "$facet": { "a": [{ "$out": "x" }] } }], 40600),
        (array![{ "$facet": { "a": [{ "$facet": { "b": [] } }] } }], 40600),
        (array![{ "$facet": { "a": [{ "$indexStats": {} }] } }], 40600),
        (array![{ "$sortByCount": 1 }], 40149),
        (array![{ "$sortByCount": "a" }], 40148),
        (array![{ "$sortByCount": { "a": 1 } }], 40147),
        (array![{ "$bucket": 1 }], 40201),
        (array![{ "$bucket": { "groupBy": "a" } }], 40202),
        (array![{ "$bucket": { "groupBy": "$a" } }], 40198),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": 1 } }], 40200),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": ["$a"] } }], 40191),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": [1] } }], 40192),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": [1, "a"] } }], 40193),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": [2, 1] } }], 40194),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": [1, 2], "default": "$b" } }], 40195),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": [1, 2], "output": 1 } }], 40196),
        (array![{ "$bucket": { "groupBy": "$a", "boundaries": [1, 3], "default": 2 } }], 40199),
        (array![{ "$bucket": { "x": 1 } }], 40197),
        (array![{ "$bucketAuto": 1 }], 40240),
        (array![{ "$bucketAuto": { "groupBy": 1 } }], 40239),
        (array![{ "$bucketAuto": { "groupBy": "$a", "buckets": "a" } }], 40241),
        (array![{ "$bucketAuto": { "groupBy": "$a", "buckets": 1.5 } }], 40242),
        (array![{ "$bucketAuto": { "groupBy": "$a", "buckets": 0 } }], 40243),
        (array![{ "$bucketAuto": { "groupBy": "$a" } }], 40246),
        (array![{ "$bucketAuto": { "groupBy": "$a", "buckets": 1, "granularity": "x" } }], 40257),
        (array![{ "$sample": 1 }], 28745),
        (array![{ "$sample": { "size": "a" } }], 28746),
        (array![{ "$sample": { "size": 0 } }], 28747),
        (array![{ "$sample": { "x": 1 } }], 28748),
        (array![{ "$sample": {} }], 28749),
        (array![{ "$unionWith": 1 }], 9),
        (array![{ "$unionWith": { "pipeline": [] } }], 9),
        (array![{ "$unionWith": { "coll": "a", "x": 1 } }], 40415),
        (array![{ "$unionWith": { "coll": "a", "pipeline": [{ "$out": "x" }] } }], 31441),
        (array![{ "$out": 1 }], 16990),
        (array![{ "$out": "x" }, { "$limit": 1 }], 40601),
        (array![{ "$merge": "x" }, { "$limit": 1 }], 40601),
        (array![{ "$out": "system.users" }], 17385),
        (array![{ "$out": { "db": "admin", "coll": "x" } }], 31321),
        (array![{ "$merge": 1 }], 14),
        (array![{ "$merge": {} }], 40414),
        (array![{ "$merge": { "into": 1 } }], 51178),
        (array![{ "$merge": { "into": "x", "foo": 1 } }], 40415),
        (array![{ "$merge": { "into": "x", "on": 1 } }], 51186),
        (array![{ "$merge": { "into": "x", "on": [] } }], 51187),
        (array![{ "$merge": { "into": "x", "on": [1] } }], 51134),
        (array![{ "$merge": { "into": "x", "on": ["a", "a"] } }], 31465),
        (array![{ "$merge": { "into": "x", "whenMatched": "foo" } }], 2),
        (array![{ "$merge": { "into": "x", "whenMatched": 1 } }], 51191),
        (array![{ "$merge": { "into": "x", "whenMatched": "fail", "whenNotMatched": "fail" } }], 51181),
        (array![{ "$merge": { "into": "x", "whenMatched": "merge", "let": { "a": 1 } } }], 51199),
        (array![{ "$merge": { "into": "x", "whenMatched": [], "let": { "new": 1 } } }], 51273),
        (array![{ "$merge": { "into": "x", "whenMatched": [{ "$match": {} }] } }], 72),
        (array![{ "$limit": 1 }, { "$collStats": {} }], 40602),
        (array![{ "$collStats": 1 }], 5447000),
        (array![{ "$collStats": { "x": {} } }], 40415),
        (array![{ "$indexStats": { "a": 1 } }], 28803),
        (array![{ "$currentOp": {} }], 73),
        (array![{ "$documents": [] }], 73),
        (array![{ "$graphLookup": {} }], 238),
        (array![{ "$changeStream": 1 }], 6188500),
        (array![{ "$changeStream": { "fullDocument": "x" } }], 2),
        (array![{ "$changeStream": {} }, { "$sort": { "a": 1 } }], 20),
        (array![{ "$changeStreamSplitLargeEvent": {} }], 20),
        (array![{ "$changeStreamSplitLargeEvent": { "a": 1 } }], 7182800),
        (array![{ "$search": {} }], 31082),
    ];
    for (stages, expected) in cases {
        let shown = format!("{:?}", Array::trusted(&stages.clone().finish()));
        match parse(&stages) {
            Ok(_) => panic!("{shown} was taken"),
            Err(error) => assert_eq!(error.code, expected, "{shown}: {error}"),
        }
    }
}

#[test]
fn error_texts_that_clients_match_are_exact() {
    let cases = [
        (array![{ "$foo": 1 }], "Unrecognized pipeline stage name: '$foo'"),
        (array![{}], "A pipeline stage specification object must contain exactly one field."),
        (array![{ "$limit": 0 }], "the limit must be positive"),
        (array![{ "$group": { "_id": 1, "a": { "$foo": 1 } } }], "unknown group operator '$foo'"),
        (
            array![{ "$addFields": { "a": {} } }],
            "Invalid $addFields :: caused by :: an empty object is not a valid value. Found empty object at path 'a'",
        ),
        (array![{ "$limit": "x" }], "invalid argument to $limit stage: Expected a number in: $limit: \"x\""),
        (array![{ "$out": "x" }, { "$limit": 1 }], "$out can only be the final stage in the pipeline"),
        (
            array![{ "$limit": 1 }, { "$collStats": {} }],
            "$collStats is only valid as the first stage in a pipeline.",
        ),
        (array![{ "$documents": [] }], "'$documents' can only be run with {aggregate: 1}"),
    ];
    for (stages, text) in cases {
        assert_eq!(parse(&stages).unwrap_err().message, text);
    }
    let none = PipelineEnv { collection: None, ..env() };
    let error_text =
        |stages: ArrayBuilder| Pipeline::parse(Array::trusted(&stages.finish()), &none).unwrap_err().message;
    assert_eq!(
        error_text(array![{ "$match": {} }]),
        "{aggregate: 1} is not valid for '$match'; a collection is required."
    );
    assert_eq!(error_text(array![]), "{aggregate: 1} is not valid for an empty pipeline.");
}

#[test]
fn evaluation_errors_name_the_document() {
    let docs = [doc! { "_id": 1 }];
    let error = run_stages(&array![{ "$replaceRoot": { "newRoot": "$a" } }], &docs).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            40228,
            "'newRoot' expression must evaluate to an object, but resulting value was: MISSING. Type of resulting \
             value: 'missing'. Input document: { _id: 1 }"
        )
    );
    let cases = [
        (array![{ "$group": { "_id": null, "a": { "$firstN": { "n": 0, "input": 1 } } } }], 5787908),
        (array![{ "$group": { "_id": null, "a": { "$firstN": { "n": "x", "input": 1 } } } }], 5787902),
        (array![{ "$group": { "_id": null, "a": { "$mergeObjects": "$_id" } } }], 40400),
        (array![{ "$bucketAuto": { "groupBy": "$b", "buckets": 2, "granularity": "R5" } }], 40258),
    ];
    for (stages, expected) in cases {
        let error = run_stages(&stages, &docs).unwrap_err();
        assert_eq!(error.code, expected, "{error}");
    }
}

#[test]
fn parsing_limits_nested_pipelines() {
    let mut stages = array![];
    for _ in 0..30 {
        stages = array![{ "$lookup": { "from": "c", "as": "x", "pipeline": (stages) } }];
    }
    assert_eq!(parse(&stages).unwrap_err().code, 232);
    let mut long = ArrayBuilder::new();
    for _ in 0..1001 {
        long.push(doc! { "$limit": 1 });
    }
    assert_eq!(parse(&long).unwrap_err().code, 7749501);
}
