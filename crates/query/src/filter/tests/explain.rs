use super::*;
use diwan_value::extjson;

#[track_caller]
fn explained(filter: DocBuf, document: DocBuf, details: &str) {
    assert!(!matches(&filter, &document));
    let explanation = parse(&filter).explain_mismatch(document.as_doc()).expect("details");
    assert_eq!(explanation, extjson::parse(details).expect("JSON"), "{explanation:?}");
}

#[test]
fn explain_gives_the_reason_of_each_operator() {
    explained(
        doc! { "a": { "$gt": 5 } },
        doc! { "a": 3 },
        r#"{"operatorName": "$gt", "specifiedAs": {"a": {"$gt": 5}}, "reason": "comparison failed", "consideredValue": 3}"#,
    );
    explained(
        doc! { "a": 1 },
        doc! { "a": [2, 3] },
        r#"{"operatorName": "$eq", "specifiedAs": {"a": {"$eq": 1}}, "reason": "comparison failed", "consideredValues": [2, 3, [2, 3]]}"#,
    );
    explained(
        doc! { "a.b": { "$in": [1] } },
        doc! { "a": 1 },
        r#"{"operatorName": "$in", "specifiedAs": {"a.b": {"$in": [1]}}, "reason": "field was missing"}"#,
    );
    explained(
        doc! { "a": { "$exists": true } },
        doc! {},
        r#"{"operatorName": "$exists", "specifiedAs": {"a": {"$exists": true}}, "reason": "path does not exist"}"#,
    );
    explained(
        doc! { "a": { "$ne": 1 } },
        doc! { "a": 1 },
        r#"{"operatorName": "$ne", "specifiedAs": {"a": {"$ne": 1}}, "reason": "comparison succeeded", "consideredValue": 1}"#,
    );
    explained(
        doc! { "a": { "$not": { "$lt": 5 } } },
        doc! { "a": 1 },
        r#"{"operatorName": "$not", "details": {"operatorName": "$lt", "specifiedAs": {"a": {"$lt": 5}},
            "reason": "comparison succeeded", "consideredValue": 1}}"#,
    );
}

#[test]
fn explain_lists_the_clauses_of_logical_operators() {
    explained(
        doc! { "a": 1, "b": { "$size": 2 } },
        doc! { "a": 1, "b": [1] },
        r#"{"operatorName": "$and", "clausesNotSatisfied": [{"index": 1, "details": {"operatorName": "$size",
            "specifiedAs": {"b": {"$size": {"$numberLong": "2"}}}, "reason": "array length was not equal to given size",
            "consideredValue": [1]}}]}"#,
    );
    explained(
        doc! { "$nor": [{ "a": 1 }, { "a": 2 }] },
        doc! { "a": 2 },
        r#"{"operatorName": "$nor", "clausesSatisfied": [{"index": 1, "details": {"operatorName": "$eq",
            "specifiedAs": {"a": {"$eq": 2}}, "reason": "comparison succeeded", "consideredValue": 2}}]}"#,
    );
}

#[test]
fn to_doc_parses_to_the_same_filter() {
    for (filter, spelled_out) in [
        (doc! { "a": 1 }, doc! { "a": { "$eq": 1 } }),
        (
            doc! { "a": { "$gt": 1, "$lt": 5 }, "$or": [{ "b": { "$in": [2, 1] } }, { "c": { "$nin": [1] } }] },
            doc! { "$and": [
                { "a": { "$gt": 1 } },
                { "a": { "$lt": 5 } },
                { "$or": [{ "b": { "$in": [1, 2] } }, { "c": { "$nin": [1] } }] },
            ] },
        ),
        (doc! { "a": { "$regex": "x", "$options": "i" } }, doc! { "a": { "$regex": "x", "$options": "i" } }),
        (doc! { "a": { "$not": { "$mod": [4, 1] } } }, doc! { "a": { "$not": { "$mod": [4i64, 1i64] } } }),
        (
            doc! { "a": { "$elemMatch": { "$gte": 1, "$lt": 2 } } },
            doc! { "a": { "$elemMatch": { "$gte": 1, "$lt": 2 } } },
        ),
        (doc! { "a": { "$elemMatch": { "b": 1 } } }, doc! { "a": { "$elemMatch": { "b": { "$eq": 1 } } } }),
        (doc! { "a": { "$type": "string" } }, doc! { "a": { "$type": [2] } }),
        (doc! { "a": { "$exists": false } }, doc! { "a": { "$exists": false } }),
        (doc! { "a": { "$bitsAnySet": 5 } }, doc! { "a": { "$bitsAnySet": [0i64, 2i64] } }),
        (doc! { "$expr": { "$gt": ["$a", 1] } }, doc! { "$expr": { "$gt": ["$a", 1] } }),
        (doc! {}, doc! {}),
    ] {
        let written = parse(&filter).to_doc();
        assert_eq!(written, spelled_out);
        assert_eq!(parse(&written).to_doc(), spelled_out);
    }
}
