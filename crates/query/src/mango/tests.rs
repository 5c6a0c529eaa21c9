use super::{Fields, Selector, compare, parse_sort};
use crate::filter::{Filter, FilterEnv};
use diwan_value::extjson::parse_value;
use diwan_value::json::{self, Limits};
use diwan_value::key::Direction;
use diwan_value::{Doc, DocBuf, DocBuilder, ObjectId, Value, ValueBuf, doc};

fn read(text: &str) -> DocBuf {
    json::parse_document(text.as_bytes(), Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parse(text: &str) -> Selector {
    Selector::parse(read(text).as_doc()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Whether a selector matches. Checks that all ways of matching agree.
fn matches(selector: &str, document: Doc<'_>) -> bool {
    let parsed = parse(selector);
    let matched = parsed.filter().matches(document).unwrap();
    assert_eq!(parsed.filter().matches_with_position(document).unwrap().matched, matched, "{selector}");
    if !parsed.names_metadata() {
        let written = parsed.filter().to_doc();
        let again = Filter::parse(written.as_doc(), &FilterEnv::default())
            .unwrap_or_else(|error| panic!("{written:?}: {error}"));
        assert_eq!(again.matches(document).unwrap(), matched, "{selector} as {written:?}");
    }
    // In a conjunction, both conditions share one pass over the document.
    let both = Filter::and(vec![parsed.filter().clone(), parsed.filter().clone()]);
    assert_eq!(both.matches(document).unwrap(), matched, "{selector}");
    matched
}

/// Asserts which documents, numbered from 0, a selector matches.
fn finds(selector: &str, documents: &[&str], expected: &[usize]) {
    let matched = |at: &usize| matches(selector, read(documents[*at]).as_doc());
    let found: Vec<usize> = (0..documents.len()).filter(matched).collect();
    assert_eq!(found, expected, "{selector}");
}

/// One value of each type in CouchDB's order, then a missing field.
const TYPES: [&str; 10] = [
    r#"{"a":null}"#,
    r#"{"a":false}"#,
    r#"{"a":true}"#,
    r#"{"a":1}"#,
    r#"{"a":2.5}"#,
    r#"{"a":"x"}"#,
    r#"{"a":[1,"x"]}"#,
    r#"{"a":{"b":1}}"#,
    r#"{"a":{"$date":0}}"#,
    r#"{"b":1}"#,
];

#[test]
fn comparison_covers_all_types() {
    finds(r#"{"a":{"$gt":null}}"#, &TYPES, &[1, 2, 3, 4, 5, 6, 7, 8]);
    finds(r#"{"a":{"$gte":null}}"#, &TYPES, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    finds(r#"{"a":{"$lt":1}}"#, &TYPES, &[0, 1, 2]);
    finds(r#"{"a":{"$lte":1}}"#, &TYPES, &[0, 1, 2, 3]);
    finds(r#"{"a":{"$gt":1}}"#, &TYPES, &[4, 5, 6, 7, 8]);
    finds(r#"{"a":{"$gte":true}}"#, &TYPES, &[2, 3, 4, 5, 6, 7, 8]);
    finds(r#"{"a":{"$lt":"x"}}"#, &TYPES, &[0, 1, 2, 3, 4]);
    finds(r#"{"a":{"$gt":[1]}}"#, &TYPES, &[6, 7, 8]);
    finds(r#"{"a":{"$lt":{}}}"#, &TYPES, &[0, 1, 2, 3, 4, 5, 6]);
    finds(r#"{"a":{"$gt":{"b":0,"c":1}}}"#, &TYPES, &[7, 8]);
    finds(r#"{"a":{"$gt":1,"$lt":"y"}}"#, &TYPES, &[4, 5]);
    // Matches neither elements of arrays nor missing fields.
    finds(r#"{"a":1}"#, &TYPES, &[3]);
    finds(r#"{"a":1.0}"#, &TYPES, &[3]);
    finds(r#"{"a":{"$eq":null}}"#, &TYPES, &[0]);
    finds(r#"{"a":{"$eq":[1,"x"]}}"#, &TYPES, &[6]);
    finds(r#"{"a":{"$eq":{"b":1}}}"#, &TYPES, &[7]);
    finds(r#"{"a":{"$ne":1}}"#, &TYPES, &[0, 1, 2, 4, 5, 6, 7, 8]);
    finds(r#"{"a":{"$ne":null}}"#, &TYPES, &[1, 2, 3, 4, 5, 6, 7, 8]);
    finds(r#"{"a":{}}"#, &[r#"{"a":{}}"#, r#"{"a":1}"#], &[0]);
}

#[test]
fn compare_and_encode_agree_on_one_order() {
    let values: Vec<ValueBuf> = [
        "null",
        "false",
        "true",
        r#"{"$numberDouble":"NaN"}"#,
        "-1",
        "0.5",
        "1",
        r#""""#,
        r#""A""#,
        r#""a""#,
        "[]",
        "[null]",
        "[1]",
        "[1,1]",
        "[\"x\"]",
        "{}",
        r#"{"a":1}"#,
        r#"{"a":1,"b":0}"#,
        r#"{"a":"x"}"#,
        r#"{"b":0}"#,
        r#"{"$date":0}"#,
    ]
    .iter()
    .map(|text| parse_value(text).unwrap())
    .collect();
    for (at, value) in values.iter().enumerate() {
        for (other_at, other) in values.iter().enumerate() {
            assert_eq!(compare(value.as_value(), other.as_value()), at.cmp(&other_at), "{value:?} {other:?}");
        }
    }
}

#[test]
fn type_and_exists_test_presence() {
    finds(r#"{"a":{"$exists":true}}"#, &TYPES, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    finds(r#"{"a":{"$exists":false}}"#, &TYPES, &[9]);
    for (name, expected) in [
        ("null", &[0][..]),
        ("boolean", &[1, 2]),
        ("number", &[3, 4]),
        ("string", &[5]),
        ("array", &[6]),
        ("object", &[7, 8]),
        ("date", &[8]),
        ("int", &[3]),
        ("nothing", &[]),
    ] {
        finds(&format!("{{\"a\":{{\"$type\":\"{name}\"}}}}"), &TYPES, expected);
    }
    // A path that ends in a scalar leads nowhere, which differs from a missing field.
    let documents = [r#"{"a":1}"#, r#"{"a":{"c":1}}"#, r#"{}"#, r#"{"a":{"b":1}}"#, r#"{"a":[{"b":1}]}"#];
    finds(r#"{"a.b":{"$exists":false}}"#, &documents, &[1, 2]);
    finds(r#"{"a.b":{"$exists":true}}"#, &documents, &[3]);
    finds(r#"{"a":{"b":1}}"#, &documents, &[3]);
    finds(r#"{"a.0.b":1}"#, &documents, &[4]);
    finds(r#"{"a.1.b":{"$exists":false}}"#, &documents, &[1, 2, 3]);
}

#[test]
fn in_and_nin_test_array_elements() {
    let documents = [
        r#"{"a":1}"#,
        r#"{"a":[1,2]}"#,
        r#"{"a":["x"]}"#,
        r#"{"a":[[1,2]]}"#,
        r#"{"a":[]}"#,
        r#"{"b":1}"#,
        r#"{"a":null}"#,
    ];
    finds(r#"{"a":{"$in":[1,null]}}"#, &documents, &[0, 1, 6]);
    finds(r#"{"a":{"$in":[[1,2]]}}"#, &documents, &[3]);
    finds(r#"{"a":{"$in":[]}}"#, &documents, &[]);
    finds(r#"{"a":{"$nin":[1,null]}}"#, &documents, &[2, 3, 4]);
    finds(r#"{"a":{"$nin":[]}}"#, &documents, &[0, 1, 2, 3, 4, 6]);
    finds(r#"{"a":{"$all":[1]}}"#, &documents, &[1]);
    finds(r#"{"a":{"$all":[2,1]}}"#, &documents, &[1]);
    finds(r#"{"a":{"$all":[[1,2]]}}"#, &documents, &[1, 3]);
    finds(r#"{"a":{"$all":[]}}"#, &documents, &[]);
    finds(r#"{"a":{"$size":2}}"#, &documents, &[1]);
    finds(r#"{"a":{"$size":0}}"#, &documents, &[4]);
    finds(r#"{"a":{"$elemMatch":{"$gt":1}}}"#, &documents, &[1, 2, 3]);
    finds(r#"{"a":{"$allMatch":{"$gte":1,"$lt":"a"}}}"#, &documents, &[1]);
    finds(r#"{"a":{"$elemMatch":{"0":1}}}"#, &documents, &[3]);
}

#[test]
fn element_operators_test_elements_and_keys() {
    let documents = [
        r#"{"a":[{"b":1,"c":2},{"b":5}]}"#,
        r#"{"a":[{"b":5,"c":2}]}"#,
        r#"{"a":{"b":5}}"#,
        r#"{"a":[5]}"#,
        r#"{"a":[]}"#,
    ];
    finds(r#"{"a":{"$elemMatch":{"b":5,"c":2}}}"#, &documents, &[1]);
    finds(r#"{"a":{"$elemMatch":{"b":{"$gt":0}}}}"#, &documents, &[0, 1]);
    finds(r#"{"a":{"$allMatch":{"b":5}}}"#, &documents, &[1]);
    // Inside these operators a negation also holds for missing fields.
    finds(r#"{"a":{"$elemMatch":{"$not":{"c":2}}}}"#, &documents, &[0, 3]);
    finds(r#"{"a":{"$elemMatch":{"c":{"$exists":false}}}}"#, &documents, &[0]);
    finds(r#"{"a":{"$elemMatch":{"$or":[{"b":1},5]}}}"#, &documents, &[0, 3]);
    finds(r#"{"a":{"$elemMatch":{"$nor":[{"b":1},{"b":5}]}}}"#, &documents, &[3]);
    finds(r#"{"a":{"$not":{"$elemMatch":{"b":5}}}}"#, &documents, &[2, 3, 4]);
    finds(r#"{"a":{"$keyMapMatch":{"$eq":"b"}}}"#, &documents, &[2]);
    finds(r#"{"a":{"$keyMapMatch":{"$beginsWith":"x"}}}"#, &documents, &[]);
    finds(r#"{"a":{"$elemMatch":{"$keyMapMatch":{"$eq":"c"}}}}"#, &documents, &[0, 1]);
}

#[test]
fn string_and_integer_operators_need_their_types() {
    let documents = [
        r#"{"a":"Berlin"}"#,
        r#"{"a":"berlin\n"}"#,
        r#"{"a":7}"#,
        r#"{"a":-7}"#,
        r#"{"a":7.0}"#,
        r#"{"a":["Berlin",7]}"#,
    ];
    finds(r#"{"a":{"$regex":"^B.*n$"}}"#, &documents, &[0]);
    finds(r#"{"a":{"$regex":"(?i)^BER"}}"#, &documents, &[0, 1]);
    finds(r#"{"a":{"$beginsWith":"Ber"}}"#, &documents, &[0]);
    finds(r#"{"a":{"$beginsWith":""}}"#, &documents, &[0, 1]);
    finds(r#"{"a":{"$mod":[5,2]}}"#, &documents, &[2]);
    finds(r#"{"a":{"$mod":[5,-2]}}"#, &documents, &[3]);
    finds(r#"{"a":{"$not":{"$regex":"Ber"}}}"#, &documents, &[1, 2, 3, 4, 5]);
}

#[test]
fn negations_are_pushed_down_to_conditions() {
    let documents =
        [r#"{"a":1,"b":1}"#, r#"{"a":5,"b":1}"#, r#"{"a":5}"#, r#"{"b":1}"#, r#"{"a":"x","b":2}"#];
    finds(r#"{"$not":{"a":{"$gt":1}}}"#, &documents, &[0]);
    finds(r#"{"$not":{"a":1}}"#, &documents, &[1, 2, 4]);
    finds(r#"{"$not":{"a":1,"b":1}}"#, &documents, &[1, 2, 4]);
    finds(r#"{"$nor":[{"a":1},{"b":2}]}"#, &documents, &[1]);
    finds(r#"{"$not":{"$nor":[{"a":1},{"b":2}]}}"#, &documents, &[0, 4]);
    finds(r#"{"$not":{"$not":{"a":1}}}"#, &documents, &[0]);
    finds(r#"{"$not":{"$or":[{"a":1},{"b":2}]}}"#, &documents, &[1]);
    finds(r#"{"a":{"$not":{"$exists":true}}}"#, &documents, &[3]);
    finds(r#"{"a":{"$not":{"$in":[1,5]}}}"#, &documents, &[4]);
    finds(r#"{"a":{"$or":[{"$lt":2},"x"]}}"#, &documents, &[0, 4]);
    finds(r#"{"$and":[{"a":5},{"b":1}]}"#, &documents, &[1]);
    finds(r#"{"$or":[{"a":5},{"b":2}]}"#, &documents, &[1, 2, 4]);
    // An empty list of conditions is true, also in `$or`; an empty object inside a list is not.
    for all in ["{}", r#"{"$and":[]}"#, r#"{"$or":[]}"#, r#"{"$nor":[]}"#, r#"{"$not":{"$and":[]}}"#] {
        finds(all, &documents, &[0, 1, 2, 3, 4]);
    }
    finds(r#"{"$and":[{}]}"#, &documents, &[]);
    finds(r#"{"a":5,"$or":[]}"#, &documents, &[1, 2]);
}

#[test]
fn selectors_use_the_names_of_http() {
    let documents =
        [r#"{"x.y":1}"#, r#"{"x":{"y":1}}"#, r#"{"x":{"y.z":1}}"#, r#"{"__v":1}"#, r#"{"_rev":"mine"}"#];
    finds(r#"{"x\\.y":1}"#, &documents, &[0]);
    finds(r#"{"x.y":1}"#, &documents, &[1]);
    finds(r#"{"x":{"y\\.z":1}}"#, &documents, &[2]);
    finds(r#"{"x.y\\.z":1}"#, &documents, &[2]);
    finds(r#"{"$__v":1}"#, &documents, &[3]);
    finds(r#"{"$_rev":"mine"}"#, &documents, &[4]);
    finds(r#"{"__v":{"$exists":true}}"#, &documents, &[]);
    let selector = parse(r#"{"a":1,"$or":[{"_rev":"1-x"},{"b":2}],"$not":{"_deleted":true}}"#);
    assert!(selector.names_metadata() && !parse(r#"{"$_rev":1,"_id":"x"}"#).names_metadata());
    let stored = doc! { "a": 1 };
    assert!(selector.stored().matches(stored.as_doc()).unwrap());
    assert!(!selector.filter().matches(stored.as_doc()).unwrap());
    let whole = doc! { "$_rev": "1-x", "$_deleted": false, "a": 1 };
    assert!(selector.filter().matches(whole.as_doc()).unwrap());
    let mut out = b"{".to_vec();
    json::write_couch_members(&mut out, whole.as_doc());
    assert_eq!(String::from_utf8_lossy(&out), r#"{"_rev":"1-x","_deleted":false,"a":1"#);
}

#[test]
fn conditions_on_ids_compare_texts() {
    let hex = "64b7f0c2a1b2c3d4e5f60718";
    let ids = [
        Value::String("abc"),
        Value::ObjectId(ObjectId::parse_hex(hex).unwrap()),
        Value::Int32(5),
        Value::String(hex),
    ];
    let found = |selector: &str| -> Vec<usize> {
        let document = |at: usize| {
            let mut builder = DocBuilder::new();
            builder.append("_id", ids[at]);
            builder.finish()
        };
        (0..ids.len()).filter(|&at| matches(selector, document(at).as_doc())).collect()
    };
    for (selector, expected) in [
        (format!(r#"{{"_id":"{hex}"}}"#), &[1][..]),
        (format!(r#"{{"_id":{{"$ne":"{hex}"}}}}"#), &[0, 2, 3]),
        (format!(r#"{{"_id":{{"$in":["{hex}","abc","_none"]}}}}"#), &[0, 1]),
        (format!(r#"{{"_id":{{"$nin":["{hex}","abc"]}}}}"#), &[2, 3]),
        (r#"{"_id":"_none"}"#.to_owned(), &[]),
        (r#"{"_id":{"$ne":"_none"}}"#.to_owned(), &[0, 1, 2, 3]),
        (format!(r#"{{"_id":"~\"{hex}\""}}"#), &[3]),
        (format!(r#"{{"_id":{{"$nin":["~\"{hex}\"","abc"]}}}}"#), &[1, 2]),
        (r#"{"_id":"~{\"$numberInt\":\"5\"}"}"#.to_owned(), &[2]),
        (format!(r#"{{"_id":{{"$oid":"{hex}"}}}}"#), &[1]),
        (r#"{"_id":{"$gt":null}}"#.to_owned(), &[0, 1, 2, 3]),
        (r#"{"_id":{"$lt":"7"}}"#.to_owned(), &[1, 3]),
        (r#"{"_id":{"$gt":"b"}}"#.to_owned(), &[2]),
        (r#"{"_id":{"$regex":"^64b7"}}"#.to_owned(), &[1, 3]),
        (r#"{"_id":{"$beginsWith":"64b7"}}"#.to_owned(), &[1, 3]),
        (r#"{"_id":{"$type":"string"}}"#.to_owned(), &[0, 1, 2, 3]),
        (r#"{"_id":{"$exists":true}}"#.to_owned(), &[0, 1, 2, 3]),
        (r#"{"_id.x":{"$exists":false}}"#.to_owned(), &[]),
    ] {
        assert_eq!(found(&selector), expected, "{selector}");
    }
}

#[test]
fn conditions_on_ids_reject_objects_and_arrays() {
    let documents = [doc! { "_id": "abc" }, doc! { "_id": { "a": 1 } }, doc! { "_id": 5 }];
    for (selector, all) in [
        (r#"{"_id":{"$eq":{"a":1}}}"#, false),
        (r#"{"_id":{"$ne":{"a":1}}}"#, true),
        (r#"{"_id":{"$in":[{"a":1},[],5]}}"#, false),
        (r#"{"_id":{"$nin":[{"a":1},[],5]}}"#, true),
        (r#"{"_id":[1]}"#, false),
        (r#"{"_id":5}"#, false),
        (r#"{"_id":{"$not":{"$eq":5}}}"#, true),
        (r#"{"_id":{"$lt":[]}}"#, true),
        (r#"{"_id":{"$lte":{"a":0}}}"#, true),
        (r#"{"_id":{"$gt":{}}}"#, false),
        (r#"{"_id":{"$gte":[0]}}"#, false),
        (r#"{"_id":{"$gt":5}}"#, true),
        (r#"{"_id":{"a":1}}"#, false),
        (r#"{"_id":{"$type":"object"}}"#, false),
        (r#"{"_id":{"$size":1}}"#, false),
        (r#"{"_id":{"$all":[]}}"#, false),
        (r#"{"_id":{"$keyMapMatch":{"$eq":"a"}}}"#, false),
    ] {
        for document in &documents {
            assert_eq!(matches(selector, document.as_doc()), all, "{selector} of {document:?}");
        }
    }
}

#[test]
fn sort_follows_couchdb_order() {
    let mut values: Vec<ValueBuf> = [
        "[]",
        "7",
        "{\"a\":[1]}",
        "true",
        "\"b\"",
        "null",
        "{}",
        "[1,[2]]",
        "false",
        "\"\"",
        "-1.5",
        "{\"a\":\"x\"}",
        "[1]",
        "\"a\"",
        "{\"a\":\"x\",\"b\":0}",
        "[{\"a\":1}]",
        "{\"$numberDouble\":\"NaN\"}",
        "{\"$date\":0}",
        "[null]",
        "{\"ab\":0}",
    ]
    .iter()
    .map(|text| parse_value(text).unwrap())
    .collect();
    values.sort_by(|a, b| compare(a.as_value(), b.as_value()));
    for direction in ["asc", "desc"] {
        let spec = doc! { "sort": [{ "v.w": direction }] };
        let sort = parse_sort(spec.as_doc().get("sort").unwrap()).unwrap().unwrap();
        let keys: Vec<Vec<u8>> = values
            .iter()
            .map(|value| {
                let mut key = Vec::new();
                sort.key(doc! { "v": { "w": value } }.as_doc(), None, &mut key).unwrap();
                key
            })
            .collect();
        assert!(keys.is_sorted_by(|a, b| if direction == "asc" { a < b } else { a > b }), "{keys:?}");
    }
}

#[test]
fn parsing_reports_couchdb_errors() {
    for (selector, error, reason) in [
        (r#"{"a":{"$foo":1}}"#, "invalid_operator", "Invalid operator: $foo"),
        (r#"{"$foo":1}"#, "invalid_operator", "Invalid operator: $foo"),
        (r#"{"$_id":1}"#, "invalid_operator", "Invalid operator: $_id"),
        (r#"{"a":{"$_b":1}}"#, "invalid_operator", "Invalid operator: $_b"),
        (r#"{"a":{"$beginsWith":1}}"#, "invalid_operator", "Invalid operator: $beginsWith"),
        (r#"{"a":{"$regex":1}}"#, "invalid_operator", "Invalid operator: $regex"),
        (r#"{"a":{"$regex":"("}}"#, "bad_arg", "Bad argument for operator $regex: \"(\""),
        (r#"{"a":{"$in":{"b":1}}}"#, "bad_arg", "Bad argument for operator $in: {\"b\":1}"),
        (r#"{"a":{"$nin":1}}"#, "bad_arg", "Bad argument for operator $nin: 1"),
        (r#"{"a":{"$all":"x"}}"#, "bad_arg", "Bad argument for operator $all: \"x\""),
        (r#"{"$and":{}}"#, "bad_arg", "Bad argument for operator $and: {}"),
        (r#"{"$or":1}"#, "bad_arg", "Bad argument for operator $or: 1"),
        (r#"{"$nor":1}"#, "bad_arg", "Bad argument for operator $nor: 1"),
        (r#"{"$not":1}"#, "bad_arg", "Bad argument for operator $not: 1"),
        (r#"{"a":{"$exists":1}}"#, "bad_arg", "Bad argument for operator $exists: 1"),
        (r#"{"a":{"$type":1}}"#, "bad_arg", "Bad argument for operator $type: 1"),
        (r#"{"a":{"$mod":[0,1]}}"#, "bad_arg", "Bad argument for operator $mod: [0,1]"),
        (r#"{"a":{"$mod":[1.5,1]}}"#, "bad_arg", "Bad argument for operator $mod: [1.5,1]"),
        (r#"{"a":{"$mod":3}}"#, "bad_arg", "Bad argument for operator $mod: 3"),
        (r#"{"a":{"$size":-1}}"#, "bad_arg", "Bad argument for operator $size: -1"),
        (r#"{"a":{"$elemMatch":1}}"#, "bad_arg", "Bad argument for operator $elemMatch: 1"),
        (r#"{"a":{"$allMatch":[]}}"#, "bad_arg", "Bad argument for operator $allMatch: []"),
        (r#"{"a":{"$keyMapMatch":1}}"#, "bad_arg", "Bad argument for operator $keyMapMatch: 1"),
        (r#"{"a":{"$elemMatch":{"$foo":1}}}"#, "invalid_operator", "Invalid operator: $foo"),
        (r#"{"$where":"x"}"#, "not_supported", "Unsupported operator: $where"),
        (r#"{"$gt":1}"#, "invalid_selector", "One or more conditions is missing a field name."),
        (r#"{"$and":[1]}"#, "invalid_selector", "One or more conditions is missing a field name."),
        (r#"{"a..b":1}"#, "invalid_field_name", "Invalid field name: a..b"),
        (r#"{"":1}"#, "invalid_field_name", "Invalid field name: "),
        (r#"{"$text":"x"}"#, "required index service unavailable", "text"),
    ] {
        let rejected = Selector::parse(read(selector).as_doc()).expect_err(selector);
        assert_eq!((rejected.error, rejected.reason.as_str()), (error, reason), "{selector}");
        assert_eq!(rejected.status, if error.starts_with("required") { 503 } else { 400 });
    }
    let rejected = Selector::parse_value(Value::Int32(1)).expect_err("a number");
    assert_eq!(rejected.reason, "Selector must be a JSON object, not: 1");
}

#[test]
fn sort_rejects_mixed_directions() {
    let sort = |text: &str| parse_sort(parse_value(text).unwrap().as_value());
    let parsed = sort(r#"["a",{"b.c":"asc"},"a","$__v","x\\.y"]"#).unwrap().unwrap();
    let names: Vec<&str> = parsed.parts().iter().map(|part| part.path.as_str()).collect();
    assert_eq!(names, ["a", "b.c", "__v", "x\\.y"]);
    let parsed = sort(r#"[{"a":"desc"}]"#).unwrap().unwrap();
    assert_eq!(parsed.parts()[0].direction, Direction::Descending);
    assert_eq!(sort("[]"), Ok(None));
    for (text, error) in [
        ("null", "invalid_sort_json"),
        (r#"{"a":"asc"}"#, "invalid_sort_json"),
        ("[2]", "invalid_sort_field"),
        (r#"[""]"#, "invalid_sort_field"),
        (r#"["_rev"]"#, "invalid_sort_field"),
        (r#"[{"a":"up"}]"#, "invalid_sort_field"),
        (r#"[{"a":"asc","b":"asc"}]"#, "invalid_sort_field"),
        (r#"[{"a":"asc"},{"b":"desc"}]"#, "unsupported_mixed_sort"),
        (r#"["a."]"#, "invalid_field_name"),
    ] {
        assert_eq!(sort(text).map_err(|error| error.error), Err(error), "{text}");
    }
}

#[test]
fn fields_are_projected_in_list_order() {
    let document = doc! {
        "_id": "x", "a": { "b": 1, "c": { "d": 2, "e": 3 } }, "f": [{ "g": 1 }, 2], "h": null, "__v": 4, "x.y": 5,
        "$_rev": "1-a",
    };
    for (fields, expected) in [
        (r#"["h","_id"]"#, doc! { "h": null, "_id": "x" }),
        (r#"["a.c.e","a.b"]"#, doc! { "a": { "c": { "e": 3 }, "b": 1 } }),
        (r#"["a.b","a"]"#, doc! { "a": { "b": 1, "c": { "d": 2, "e": 3 } } }),
        (r#"["a","a.b"]"#, doc! { "a": { "b": 1, "c": { "d": 2, "e": 3 } } }),
        (r#"["f.0.g","f.1","f.2","f.g"]"#, doc! { "f": { "0": { "g": 1 }, "1": 2 } }),
        (r#"["none","h.x","_id.x"]"#, doc! {}),
        (r#"["$__v","x\\.y","_rev"]"#, doc! { "__v": 4, "x.y": 5, "$_rev": "1-a" }),
    ] {
        let parsed = Fields::parse(parse_value(fields).unwrap().as_value()).unwrap().unwrap();
        assert_eq!(parsed.project(document.as_doc()), expected, "{fields}");
        assert_eq!(parsed.names_metadata(), fields.contains("_rev"));
    }
    assert_eq!(Fields::parse(parse_value("[]").unwrap().as_value()), Ok(None));
    for (fields, error) in [
        ("null", "invalid_fields"),
        ("{}", "invalid_fields"),
        ("[1]", "invalid_field"),
        (r#"[""]"#, "invalid_field_name"),
    ] {
        let rejected = Fields::parse(parse_value(fields).unwrap().as_value());
        assert_eq!(rejected.map_err(|error| error.error), Err(error), "{fields}");
    }
}

#[test]
fn empty_name_is_the_value_only_inside_arrays() {
    let doc = read(r#"{"a":[3,9]}"#);
    assert!(matches(r#"{"a":{"$elemMatch":{"$and":[{"":{"$gt":8}},{"":{"$lt":10}}]}}}"#, doc.as_doc()));
    assert!(!matches(r#"{"a":{"$allMatch":{"":{"$gt":8}}}}"#, doc.as_doc()));
    assert!(Selector::parse(read(r#"{"":1}"#).as_doc()).is_err());
}
