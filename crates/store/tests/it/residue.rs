//! Index bounds that replace conditions of a filter match the same documents as the filter.

use crate::setup::*;
use diwan_kv::Direction;
use diwan_query::Interrupt;
use diwan_store::ops::{Count, Find, Scope};
use diwan_store::plan::Hint;
use diwan_store::{Collection, Store};
use diwan_value::{Decimal128, Doc, DocBuf, ObjectId, Timestamp, Value, doc};
use std::sync::Arc;

fn values() -> Vec<DocBuf> {
    let mut holders = vec![doc! {}, doc! { "v": doc! {} }, doc! { "v": doc! { "x": 1, "y": "s" } }];
    let decimal = |text: &str| Value::Decimal128(text.parse::<Decimal128>().unwrap());
    let scalars = [
        Value::MinKey,
        Value::Null,
        Value::Undefined,
        Value::Double(f64::NAN),
        decimal("NaN"),
        Value::Double(f64::NEG_INFINITY),
        Value::Int32(-1),
        Value::Double(-0.0),
        Value::Int32(0),
        Value::Double(0.1),
        decimal("0.1"),
        Value::Int64(1),
        Value::Double(1.0),
        decimal("1.00"),
        Value::Int64((1 << 53) + 1),
        Value::Double((1_u64 << 53) as f64),
        Value::Int64(i64::MAX),
        Value::Double(9_223_372_036_854_775_808.0),
        decimal("Infinity"),
        Value::String(""),
        Value::String("a"),
        Value::String("a\0b"),
        Value::Symbol("a"),
        Value::String("b"),
        Value::Binary { subtype: 0, bytes: b"a" },
        Value::ObjectId(ObjectId([7; 12])),
        Value::Boolean(false),
        Value::Boolean(true),
        Value::DateTime(-5),
        Value::DateTime(1),
        Value::Timestamp(Timestamp::from_bits(1)),
        Value::Regex { pattern: "a", options: "" },
        Value::JavaScript("a"),
        Value::MaxKey,
    ];
    holders.extend(scalars.iter().map(|value| doc! { "v": *value }));
    holders
}

fn things(store: &Arc<Store>, holders: &[DocBuf]) -> Arc<Collection> {
    let things = without_index(store, holders);
    index(&things, doc! { "key": { "a": 1, "b": -1 }, "name": "ab" });
    things
}

fn without_index(store: &Arc<Store>, holders: &[DocBuf]) -> Arc<Collection> {
    let things = collection(store);
    let mut docs = Vec::new();
    for (one, a) in holders.iter().enumerate() {
        for (other, b) in holders.iter().enumerate() {
            let mut doc = diwan_value::DocBuilder::new();
            doc.append("_id", (one * 1000 + other) as i32);
            for (name, holder) in [("a", a), ("b", b)] {
                if let Some(value) = holder.as_doc().get("v") {
                    doc.append(name, value);
                }
            }
            docs.push(doc.finish());
        }
    }
    insert(&things, &docs);
    things
}

fn found(store: &Arc<Store>, filter: Doc<'_>, hint: Hint) -> Vec<i64> {
    let request = Find { filter, hint, ..Find::default() };
    let id = |doc: &DocBuf| doc.as_doc().get("_id").unwrap().as_i64_exact().unwrap();
    let mut ids: Vec<i64> = find(store, &request).iter().map(id).collect();
    ids.sort_unstable();
    ids
}

/// Compares the index with the documents for a filter; returns how many match.
fn compare(store: &Arc<Store>, things: &Arc<Collection>, filter: &DocBuf) -> usize {
    let filter = filter.as_doc();
    let by_index = found(store, filter, Hint::Name("ab".to_owned()));
    let right = found(store, filter, Hint::Natural(Direction::Forward));
    assert_eq!(by_index, right, "{filter:?}");
    let request =
        Count { filter, hint: Hint::Name("ab".to_owned()), scope: Scope::default(), ..Count::default() };
    assert_eq!(things.count_filtered(&request).unwrap(), right.len() as u64, "count of {filter:?}");
    right.len()
}

fn compare_all(store: &Arc<Store>, things: &Arc<Collection>, holders: &[DocBuf]) {
    // Values of these types cannot be operands of comparisons.
    let is_operand = |value: &Value<'_>| !matches!(value, Value::Undefined | Value::Regex { .. });
    let operands: Vec<Value<'_>> =
        holders.iter().filter_map(|holder| holder.as_doc().get("v")).filter(is_operand).collect();
    let mut matches = 0;
    for (at, &value) in operands.iter().enumerate() {
        let other = operands[(at * 7 + 3) % operands.len()];
        for operator in ["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"] {
            let condition = doc! { operator: value };
            matches += compare(store, things, &doc! { "a": condition.as_doc() });
            matches += compare(store, things, &doc! { "a": condition.as_doc(), "b": { "$gte": other } });
            matches += compare(store, things, &doc! { "a": { operator: value, "$lt": other }, "b": other });
        }
        matches += compare(store, things, &doc! { "a": { "$in": [value, other] }, "b": { "$lte": value } });
        for told in [doc! { "$exists": false }, doc! { "$exists": true }, doc! { "$type": [10, 16] }] {
            matches += compare(store, things, &doc! { "a": value, "b": told.as_doc() });
            matches += compare(store, things, &doc! { "a": value, "$nor": [{ "b": told.as_doc() }] });
            matches += compare(store, things, &doc! { "a": value, "$or": [{ "b": told }, { "b": other }] });
        }
    }
    assert!(matches > 10_000, "{matches}");
}

#[test]
fn every_comparison_with_every_type_matches_the_same_through_the_index() {
    let store = store();
    let holders = values();
    let things = things(&store, &holders);
    compare_all(&store, &things, &holders);
}

#[test]
fn every_comparison_matches_the_same_through_a_multikey_index() {
    let store = store();
    let holders = values();
    let things = things(&store, &holders);
    insert(
        &things,
        &[
            doc! { "_id": -1, "a": [1, "a", true], "b": 1 },
            doc! { "_id": -2, "a": [], "b": "a" },
            doc! { "_id": -3, "a": [[1], { "x": 1 }], "b": 1 },
        ],
    );
    compare_all(&store, &things, &holders);
}

#[test]
fn comparisons_with_min_and_max_key_do_not_use_a_sparse_index_that_lacks_matches() {
    let store = store();
    let things = without_index(&store, &values());
    index(&things, doc! { "key": { "b": 1 }, "name": "sparse", "sparse": true });
    let partial = doc! { "b": { "$exists": true } };
    index(&things, doc! { "key": { "a": -1 }, "name": "partial", "partialFilterExpression": partial });
    for (operator, end) in
        [("$gt", Value::MinKey), ("$gte", Value::MinKey), ("$lt", Value::MaxKey), ("$lte", Value::MaxKey)]
    {
        let filters = [doc! { "a": 1, "b": { operator: end } }, doc! { "b": { operator: end } }];
        for filter in filters.iter().map(DocBuf::as_doc) {
            let right = found(&store, filter, Hint::Natural(Direction::Forward));
            assert_eq!(found(&store, filter, Hint::None), right, "{filter:?}");
            let sort = doc! { "b": 1 };
            let sorted = find(&store, &Find { filter, sort: Some(sort.as_doc()), ..Find::default() });
            assert_eq!(sorted.len(), right.len(), "{filter:?} sorted");
        }
    }
}

#[test]
fn a_partial_index_on_text_is_not_used_under_another_collation() {
    let store = store();
    let things = collection(&store);
    insert(&things, &["X", "x", "a"].map(|s| doc! { "_id": s, "k": 1, "s": s }));
    index(&things, doc! { "key": { "k": 1 }, "name": "k", "partialFilterExpression": { "s": "X" } });
    let (filter, collation) = (doc! { "k": 1, "s": "X" }, doc! { "locale": "en", "strength": 2 });
    let scope = Scope { collation: Some(collation.as_doc()), ..Scope::default() };
    let request = Find { filter: filter.as_doc(), scope, ..Find::default() };
    assert_eq!(find(&store, &request).len(), 2);
}

#[test]
fn a_cursor_finds_each_document_once_when_the_index_becomes_multikey() {
    let store = store();
    let things = collection(&store);
    insert(&things, &(0..100).map(|id| doc! { "_id": id, "a": id, "b": 1 }).collect::<Vec<DocBuf>>());
    index(&things, doc! { "key": { "a": 1, "b": -1 }, "name": "ab" });
    let filter = doc! { "a": { "$gt": 10, "$gte": 20 }, "b": 1 };
    let mut source = store.find(&name(), &Find { filter: filter.as_doc(), ..Find::default() }).unwrap();
    assert!(source.advance(&Interrupt::new()).unwrap());
    source.suspend();
    update(&things, &doc! { "_id": 50 }, &doc! { "$set": { "a": [5, 60, 70] } }, false, false);
    update(&things, &doc! { "_id": 51 }, &doc! { "$set": { "a": [5, 6] } }, false, false);
    let mut ids = Vec::new();
    while source.advance(&Interrupt::new()).unwrap() {
        ids.push(source.current().get("_id").unwrap().as_i64_exact().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (21..100).filter(|id| *id != 51).collect::<Vec<i64>>());
}
