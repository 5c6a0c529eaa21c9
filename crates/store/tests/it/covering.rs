//! Pipelines that an index covers return the same as over the documents.

use crate::setup::*;
use diwan_query::Interrupt;
use diwan_store::Store;
use diwan_store::ops::{Aggregate, Find, Scope, Verbosity};
use diwan_store::plan::Hint;
use diwan_value::{DocBuf, DocBuilder, ValueBuf, array, doc};
use std::sync::Arc;

/// A value of one of many types, but no array; `None` is a missing field.
fn value(seed: u64) -> Option<ValueBuf> {
    let small = (seed / 16 % 4) as i32;
    let holder = match seed % 11 {
        0..3 => doc! { "v": small },
        3 => doc! { "v": f64::from(small) },
        4 => doc! { "v": i64::from(small) },
        5 => doc! { "v": f64::from(small) + 0.5 },
        6 => doc! { "v": "text" },
        7 => doc! { "v": true },
        8 => doc! { "v": { "x": small, "y": { "z": 1.0 } } },
        9 => doc! { "v": diwan_value::Value::Null },
        _ => return None,
    };
    holder.as_doc().get("v").map(diwan_value::Value::to_owned)
}

fn document(n: u64) -> DocBuf {
    let mut seed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut doc = DocBuilder::new();
    doc.append("_id", n as i64).append("k", if next() % 8 == 0 { "b" } else { "a" });
    if next() % 10 > 0 {
        doc.begin_document("c");
        for name in ["n", "o", "other"] {
            if let Some(value) = value(next()) {
                doc.append(name, value.as_value());
            }
        }
        doc.end();
    } else if next() % 2 == 0 {
        doc.append("c", 5);
    }
    if let Some(value) = value(next()) {
        doc.append("d", value.as_value());
    }
    doc.append("beyond", n as i64 % 3);
    doc.finish()
}

fn request(bytes: &[u8], hint: Hint) -> Aggregate<'_> {
    Aggregate { pipeline: stages(bytes), hint, scope: Scope::default(), bypass_validation: false }
}

fn aggregated(store: &Arc<Store>, bytes: &[u8], hint: Hint) -> Vec<String> {
    let mut source = store.aggregate(Some(&name()), "test", &request(bytes, hint)).unwrap();
    let mut found = Vec::new();
    while source.advance(&Interrupt::new()).unwrap() {
        found.push(format!("{:?}", source.current()));
    }
    found.sort();
    found
}

/// Whether the plan scans an index and fetches no documents.
fn is_covered(store: &Arc<Store>, bytes: &[u8]) -> bool {
    let request = request(bytes, Hint::None);
    let explained =
        store.explain_aggregate(Some(&name()), "test", &request, Verbosity::QueryPlanner).unwrap();
    let text = format!("{explained:?}");
    text.contains("IXSCAN") && !text.contains("FETCH")
}

#[test]
fn covered_pipelines_return_the_same_as_a_collection_scan() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(0..2_000).map(document).collect::<Vec<_>>());
    index(&collection, doc! { "key": { "k": 1, "c.o": -1, "c.n": 1, "d": 1 }, "name": "all" });
    let a = || doc! { "$match": { "k": "a" } };
    let covered = [
        array![a(), { "$group": { "_id": { "t": { "$type": "$d" }, "v": "$d" }, "n": { "$sum": 1 } } }],
        array![a(), { "$group": { "_id": { "$type": "$c.o" }, "all": { "$addToSet": { "$type": "$c.n" } } } },
            { "$unwind": "$all" }],
        array![a(), { "$project": { "x": { "$ifNull": ["$d", "none"] }, "y": "$c.n" } },
            { "$group": { "_id": { "t": { "$type": "$x" }, "u": { "$type": "$y" } }, "n": { "$sum": 1 } } }],
        array![{ "$match": { "k": "a", "c.o": { "$gte": 1 } } },
            { "$set": { "e": { "$type": "$c.o" } } }, { "$group": { "_id": "$e", "n": { "$sum": "$d" } } }],
        array![a(), { "$sort": { "c.o": -1 } }, { "$replaceWith": { "o": "$c.o", "x": "$d.x" } }],
        array![{ "$match": { "k": "a", "d": { "$type": "number" } } },
            { "$group": { "_id": { "$type": "$d" }, "m": { "$max": "$c.n" }, "s": { "$sum": "$d" } } }],
        array![a(), { "$skip": 0 }, { "$count": "n" }],
        array![a(), { "$project": { "_id": 0, "c.n": 1 } }],
    ];
    let not_covered = [
        array![a(), { "$group": { "_id": "$beyond", "n": { "$sum": 1 } } }],
        array![a(), { "$group": { "_id": "$k", "all": { "$push": "$$ROOT" } } },
            { "$project": { "n": { "$size": "$all" } } }],
        array![a(), { "$project": { "c": 1 } }],
        array![a(), { "$group": { "_id": { "$type": "$c" }, "n": { "$sum": 1 } } }],
        array![a(), { "$group": { "_id": null,
            "top": { "$top": { "sortBy": { "_id": 1 }, "output": "$d" } } } }],
        array![a()],
    ];
    let natural = || Hint::Natural(diwan_kv::Direction::Forward);
    for (pipelines, expected) in [(&covered[..], true), (&not_covered[..], false)] {
        for pipeline in pipelines {
            let bytes = pipeline.clone().finish();
            assert_eq!(is_covered(&store, &bytes), expected, "{:?}", stages(&bytes));
            let found = aggregated(&store, &bytes, Hint::None);
            assert!(!found.is_empty(), "{:?}", stages(&bytes));
            assert_eq!(found, aggregated(&store, &bytes, natural()), "{:?}", stages(&bytes));
        }
    }
}

#[test]
fn a_covered_cursor_fetches_documents_once_the_index_becomes_multikey() {
    let store = store();
    let collection = collection(&store);
    insert(&collection, &(1..=4).map(|n| doc! { "_id": n, "k": "a", "d": n }).collect::<Vec<_>>());
    index(&collection, doc! { "key": { "k": 1, "d": 1 }, "name": "all" });
    let (filter, projection) = (doc! { "k": "a" }, doc! { "_id": 0, "d": 1 });
    let request = Find { filter: filter.as_doc(), projection: Some(projection.as_doc()), ..Find::default() };
    let mut source = store.find(&name(), &request).unwrap();
    assert!(source.advance(&Interrupt::new()).unwrap());
    assert_eq!(source.current(), doc! { "d": 1 }.as_doc());
    source.suspend();
    update(&collection, &doc! { "_id": 3 }, &doc! { "$set": { "d": array![7, 3, 8] } }, false, false);
    let mut rest = Vec::new();
    while source.advance(&Interrupt::new()).unwrap() {
        rest.push(source.current().to_owned());
    }
    assert_eq!(rest, [doc! { "d": 2 }, doc! { "d": array![7, 3, 8] }, doc! { "d": 4 }]);
}
