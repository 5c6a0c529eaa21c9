//! Tests of the differences from MongoDB that COMPATIBILITY.md lists and that the store causes. Each test names its
//! entry.

use crate::setup::*;
use diwan_query::Interrupt;
use diwan_query::code;
use diwan_store::ops::{Aggregate, Find, Scope, Verbosity};
use diwan_store::plan::Hint;
use diwan_store::{Collection, DuplicateKey, Error, IndexSpec, Store, WriteOptions};
use diwan_value::{Array, ArrayBuilder, Doc, DocBuf, DocBuilder, Value, doc};
use std::sync::Arc;

/// The error code of an outcome that must be an error.
fn code_of<T>(outcome: Result<T, Error>) -> i32 {
    match outcome {
        Err(Error::Query(error)) => error.code,
        Err(other) => panic!("an error without a code: {other}"),
        Ok(_) => panic!("no error"),
    }
}

fn code_of_insert(collection: &Collection, document: DocBuf) -> i32 {
    let mut report = collection.insert(&[document.as_doc()], true, WriteOptions::default()).unwrap();
    match report.errors.pop() {
        Some((0, error)) => code_of(Err::<(), _>(error)),
        other => panic!("{other:?}"),
    }
}

fn code_of_filter(filter: DocBuf) -> i32 {
    let store = store();
    insert(&collection(&store), &[doc! { "_id": 1, "a": "x" }]);
    code_of(try_find(&store, &Find { filter: filter.as_doc(), ..Find::default() }))
}

fn code_of_index(spec: DocBuf) -> i32 {
    code_of(IndexSpec::parse(spec.as_doc(), None))
}

fn code_of_stage(stage: DocBuf) -> i32 {
    let store = store();
    insert(&collection(&store), &[doc! { "_id": 1 }]);
    let mut stages = ArrayBuilder::new();
    stages.push(stage);
    let stages = stages.finish();
    let request = Aggregate {
        pipeline: Array::trusted(&stages),
        hint: Hint::None,
        scope: Scope::default(),
        bypass_validation: false,
    };
    let outcome = store.aggregate(Some(&name()), "test", &request).and_then(|mut source| {
        while source.advance(&Interrupt::new())? {}
        Ok(())
    });
    code_of(outcome)
}

fn ids_in_order(store: &Arc<Store>, request: &Find<'_>) -> Vec<i64> {
    find(store, request).iter().map(|doc| doc.as_doc().get("_id").unwrap().as_i64_exact().unwrap()).collect()
}

#[test]
fn compat_1_natural_order_is_the_order_of_ids() {
    // COMPAT-1
    let store = store();
    insert(&collection(&store), &[doc! { "_id": 3 }, doc! { "_id": 1 }, doc! { "_id": 2 }]);
    assert_eq!(ids_in_order(&store, &Find::default()), [1, 2, 3]);
    let sort = doc! { "$natural": -1 };
    assert_eq!(ids_in_order(&store, &Find { sort: Some(sort.as_doc()), ..Find::default() }), [3, 2, 1]);
    let hint = Hint::parse(Some(Value::Document(doc! { "$natural": -1 }.as_doc()))).unwrap();
    assert_eq!(ids_in_order(&store, &Find { hint, ..Find::default() }), [3, 2, 1]);
}

#[test]
fn compat_2_a_long_id_is_refused() {
    // COMPAT-2
    let store = store();
    let collection = collection(&store);
    insert(&collection, &[doc! { "_id": "x".repeat(16_000) }]);
    assert_eq!(code_of_insert(&collection, doc! { "_id": "x".repeat(17_000) }), code::BAD_VALUE);
}

#[test]
fn compat_3_a_long_index_key_is_refused() {
    // COMPAT-3
    let store = store();
    let collection = collection(&store);
    index(&collection, doc! { "key": { "a": 1 }, "name": "a" });
    insert(&collection, &[doc! { "_id": 1, "a": "x".repeat(32_000) }]);
    assert_eq!(code_of_insert(&collection, doc! { "_id": 2, "a": "x".repeat(33_000) }), 17280);
    // A wildcard index must not omit a long value, since queries through it would miss the document.
    index(&collection, doc! { "key": { "$**": 1 }, "name": "all" });
    assert_eq!(code_of_insert(&collection, doc! { "_id": 3, "b": ["x".repeat(33_000)] }), 17280);
}

#[test]
fn compat_4_documents_nest_a_hundred_levels_deep() {
    // COMPAT-4
    let nested = |levels: usize| (1..levels).fold(doc! { "a": 1 }, |inner, _| doc! { "a": inner });
    assert!(Doc::validate(nested(100).as_doc().as_bytes()).is_ok());
    assert!(Doc::validate(nested(101).as_doc().as_bytes()).is_err());
}

#[test]
fn compat_5_strings_are_utf8() {
    // COMPAT-5
    let mut bytes = doc! { "a": "xyz" }.as_doc().as_bytes().to_vec();
    let at = bytes.iter().position(|byte| *byte == b'x').unwrap();
    bytes[at] = 0xFF;
    assert!(Doc::validate(&bytes).is_err());
}

#[test]
fn compat_6_text_and_geospatial_indexes_are_refused() {
    // COMPAT-6
    for kind in ["text", "2d", "2dsphere"] {
        assert_eq!(
            code_of_index(doc! { "key": { "a": kind }, "name": "a" }),
            code::CANNOT_CREATE_INDEX,
            "{kind}"
        );
    }
    assert_eq!(code_of_filter(doc! { "$text": { "$search": "x" } }), code::INDEX_NOT_FOUND);
    let box_ = doc! { "$box": [[0, 0], [1, 1]] };
    assert_eq!(code_of_filter(doc! { "a": { "$geoWithin": box_ } }), code::NOT_IMPLEMENTED);
    assert_eq!(code_of_filter(doc! { "a": { "$near": [0, 0] } }), code::NO_QUERY_EXECUTION_PLANS);
}

#[test]
fn compat_7_wildcard_indexes_have_one_field() {
    // COMPAT-7
    let compound = doc! { "key": { "a": 1, "b.$**": 1 }, "name": "x" };
    assert_eq!(code_of_index(compound), code::CANNOT_CREATE_INDEX);
}

#[test]
fn compat_8_partial_filters_may_be_any_filter() {
    // COMPAT-8
    let store = store();
    let collection = collection(&store);
    let filter = doc! { "a": { "$not": { "$mod": [2, 0] } } };
    index(&collection, doc! { "key": { "b": 1 }, "name": "odd", "partialFilterExpression": filter });
    insert(&collection, &[doc! { "_id": 1, "a": 1, "b": 1 }, doc! { "_id": 2, "a": 2, "b": 1 }]);
    assert_eq!(find_ids(&store, &doc! { "b": 1 }), [1, 2]);
}

#[test]
fn compat_9_index_options_of_other_kinds_are_refused() {
    // COMPAT-9
    for option in ["weights", "default_language", "textIndexVersion", "2dsphereIndexVersion", "bits", "min"] {
        let mut spec = doc! { "key": { "a": 1 }, "name": "a_1" }.into_builder();
        spec.append(option, 1);
        assert_eq!(code_of_index(spec.finish()), code::CANNOT_CREATE_INDEX, "{option}");
    }
    let engine = doc! { "key": { "a": 1 }, "name": "a_1", "storageEngine": { "wiredTiger": {} } };
    assert_eq!(code_of_index(engine), code::INVALID_OPTIONS);
}

#[test]
fn compat_10_a_duplicate_key_error_under_a_collation_holds_the_documents_values() {
    // COMPAT-10
    let store = store();
    let collection = collection(&store);
    let collation = doc! { "locale": "en", "strength": 2 };
    index(&collection, doc! { "key": { "a.b": 1 }, "name": "a", "unique": true, "collation": collation });
    insert(&collection, &[doc! { "_id": 1, "a": [{ "b": "x" }] }]);
    let second = doc! { "_id": 2, "a": [{ "b": "y" }, { "b": "X" }] };
    let error = duplicate(&collection, &second);
    assert_eq!(error.key_value, doc! { "a.b": "X" });
}

#[test]
fn a_duplicate_key_error_holds_the_array_element_that_is_a_duplicate() {
    let store = store();
    let collection = collection(&store);
    index(&collection, doc! { "key": { "a.b": -1, "c": 1 }, "name": "a", "unique": true });
    insert(&collection, &[doc! { "_id": 1, "a": [{ "b": 2 }] }]);
    let error = duplicate(&collection, &doc! { "_id": 2, "a": [{ "b": 1 }, { "b": 2 }] });
    assert_eq!(error.key_value, doc! { "a.b": 2, "c": Value::Null });
    assert_eq!(error.key_pattern, doc! { "a.b": -1, "c": 1 });
}

/// The error of inserting a document with a duplicate key.
fn duplicate(collection: &Collection, document: &DocBuf) -> DuplicateKey {
    let mut report = collection.insert(&[document.as_doc()], true, WriteOptions::default()).unwrap();
    let Some((0, Error::DuplicateKey(error))) = report.errors.pop() else { panic!("no duplicate") };
    *error
}

#[test]
fn compat_11_indexes_have_version_2() {
    // COMPAT-11
    let spec = IndexSpec::parse(doc! { "v": 1, "key": { "a": 1 }, "name": "a_1" }.as_doc(), None).unwrap();
    assert_eq!(spec.to_doc().get("v"), Some(Value::Int32(2)));
}

#[test]
fn compat_12_regular_expressions_use_another_engine() {
    // COMPAT-12
    assert_eq!(code_of_filter(doc! { "a": { "$regex": "(a(?R)?b)" } }), 51091);
    let store = store();
    insert(&collection(&store), &[doc! { "_id": 1, "a": "abbbc" }]);
    assert_eq!(find_ids(&store, &doc! { "a": { "$regex": "(?<=ab+)c" } }), [1]);
}

#[test]
fn compat_13_javascript_is_refused() {
    // COMPAT-13
    assert_eq!(code_of_filter(doc! { "$where": "true" }), code::BAD_VALUE);
    let function = doc! { "$function": { "body": "", "args": Vec::<DocBuf>::new(), "lang": "js" } };
    assert_eq!(code_of_filter(doc! { "$expr": function }), code::NOT_IMPLEMENTED);
    let accumulator = doc! { "$accumulator": { "init": "", "accumulate": "", "merge": "", "lang": "js" } };
    assert_eq!(code_of_stage(doc! { "$group": { "_id": 1, "a": accumulator } }), code::NOT_IMPLEMENTED);
}

#[test]
fn compat_14_unsupported_stages_answer_not_implemented() {
    // COMPAT-14
    for stage in ["$densify", "$fill", "$geoNear", "$graphLookup", "$planCacheStats", "$setWindowFields"] {
        let mut out = DocBuilder::new();
        out.append(stage, doc! {});
        assert_eq!(code_of_stage(out.finish()), code::NOT_IMPLEMENTED, "{stage}");
    }
}

#[test]
fn compat_15_unsupported_options_of_create_answer_not_implemented() {
    // COMPAT-15
    let store = store();
    for option in ["timeseries", "clusteredIndex", "encryptedFields"] {
        let mut options = DocBuilder::new();
        options.append(option, doc! {});
        let outcome = store.create(&name(), options.finish().as_doc()).map(drop);
        assert_eq!(code_of(outcome), code::NOT_IMPLEMENTED, "{option}");
    }
}

#[test]
fn compat_16_an_option_sets_the_retention_of_tombstones() {
    // COMPAT-16
    let store = store();
    store.create(&name(), doc! { "tombstoneSeconds": 60 }.as_doc()).unwrap();
    let options = store.entry(&name()).unwrap().options();
    assert_eq!(options.tombstone_seconds, 60);
    assert_eq!(options.to_doc().get("tombstoneSeconds"), Some(Value::Int32(60)));
}

#[test]
fn compat_17_capped_collections_are_trimmed_after_a_batch() {
    // COMPAT-17
    let store = store();
    store.create(&name(), doc! { "capped": true, "size": 512 }.as_doc()).unwrap();
    let collection = collection(&store);
    // The document exceeds the collection's limit. It is kept, since it is the newest.
    insert(&collection, &[doc! { "_id": 9, "a": "x".repeat(2000) }]);
    assert_eq!(collection.count(), 1);
    let small: Vec<DocBuf> = (1..=20).map(|n| doc! { "_id": 100 - n, "a": "y".repeat(50) }).collect();
    insert(&collection, &small);
    let left = ids_in_order(&store, &Find::default());
    assert!(collection.data_bytes() <= 512, "{}", collection.data_bytes());
    assert!(!left.contains(&9) && left.last() == Some(&80), "{left:?}");
    assert!(left.is_sorted_by(|a, b| a > b), "not in the order of insertion: {left:?}");
}

#[test]
fn compat_18_explain_names_accesses_by_id() {
    // COMPAT-18
    let store = store();
    insert(&collection(&store), &(0..9).map(|n| doc! { "_id": n }).collect::<Vec<_>>());
    let stage = |filter: DocBuf, hint: Hint| {
        let find = Find { filter: filter.as_doc(), hint, ..Find::default() };
        let explained = store.explain_find(&name(), &find, None, Verbosity::ExecutionStats).unwrap();
        let plan = explained.as_doc().get_doc("queryPlanner").unwrap().get_doc("winningPlan").unwrap();
        assert!(!plan.contains_key("inputStage"), "one stage");
        plan.get_str("stage").unwrap().to_owned()
    };
    assert_eq!(stage(doc! { "_id": 3 }, Hint::None), "EXPRESS_IXSCAN");
    assert_eq!(stage(doc! { "_id": { "$gt": 3 } }, Hint::None), "CLUSTERED_IXSCAN");
    assert_eq!(stage(doc! { "_id": { "$in": [3, 4] } }, Hint::None), "CLUSTERED_IXSCAN");
}

#[test]
fn compat_19_explain_shows_fewer_statistics() {
    // COMPAT-19
    let store = store();
    insert(&collection(&store), &[doc! { "_id": 1, "a": 1 }]);
    let filter = doc! { "a": 1 };
    let find = Find { filter: filter.as_doc(), ..Find::default() };
    let explained = store.explain_find(&name(), &find, None, Verbosity::AllPlansExecution).unwrap();
    let planner = explained.as_doc().get_doc("queryPlanner").unwrap();
    assert!(!planner.contains_key("queryHash") && !planner.contains_key("planCacheKey"));
    let stats = explained.as_doc().get_doc("executionStats").unwrap();
    assert_eq!(stats.get_array("allPlansExecution").map(|plans| plans.is_empty()), Some(true));
    let stage = stats.get_doc("executionStages").unwrap();
    assert_eq!(
        (stage.get_str("stage"), stage.get("docsExamined")),
        (Some("COLLSCAN"), Some(Value::Int32(1)))
    );
    assert!(!stage.contains_key("needTime") && !stage.contains_key("saveState"));
    index(&store.collection(&name()).unwrap().unwrap(), doc! { "key": { "a": 1 }, "name": "a" });
    let explained = store.explain_find(&name(), &find, None, Verbosity::QueryPlanner).unwrap();
    let plan = explained.as_doc().get_doc("queryPlanner").unwrap().get_doc("winningPlan").unwrap();
    assert_eq!((plan.get_str("stage"), plan.get_doc("filter")), (Some("FETCH"), Some(filter.as_doc())));
}

#[test]
fn compat_25_top_level_names_must_not_begin_with_a_dollar() {
    // COMPAT-25
    let store = store();
    let collection = collection(&store);
    assert_eq!(code_of_insert(&collection, doc! { "_id": 1, "$a": 1 }), code::DOLLAR_PREFIXED_FIELD_NAME);
    insert(&collection, &[doc! { "_id": 1, "a": { "$b": 1 } }]);
}
