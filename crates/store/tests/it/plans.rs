//! Plans over random documents, filters and indexes return the same as a scan of the collection, and in order.

use crate::random::Random;
use crate::setup::*;
use diwan_store::ops::Find;
use diwan_store::plan::Hint;
use diwan_value::{DocBuf, DocBuilder, Value, doc};

#[test]
fn planned_finds_return_the_same_as_a_collection_scan() {
    let patterns = [
        doc! { "key": { "a": 1 }, "name": "i" },
        doc! { "key": { "a": -1, "b": 1 }, "name": "i" },
        doc! { "key": { "a.x": 1, "a.y": -1 }, "name": "i" },
        doc! { "key": { "b": 1, "a.x": 1 }, "name": "i", "sparse": true },
        doc! { "key": { "a": "hashed" }, "name": "i" },
        doc! { "key": { "$**": 1 }, "name": "i" },
        doc! { "key": { "a": 1 }, "name": "i", "partialFilterExpression": { "b": { "$gt": 1 } } },
        doc! { "key": { "a": 1 }, "name": "i", "partialFilterExpression": { "$mango": { "a": { "$gt": 1 } } } },
        doc! { "key": { "b": 1 }, "name": "i", "partialFilterExpression": { "$mango": { "b": { "$exists": true } } } },
    ];
    for (round, pattern) in patterns.iter().enumerate() {
        let seed = round as u64 + 1;
        let mut random = Random::new(seed);
        let store = store();
        let collection = collection(&store);
        index(&collection, pattern.clone());
        for id in 0..120 {
            let doc = random.document(id);
            let report = collection.insert(&[doc.as_doc()], true, Default::default()).unwrap();
            if let Some((_, error)) = report.errors.first() {
                assert!(is_refused_by_index(error), "{error}");
            }
        }
        for id in 0..30 {
            delete(&collection, &doc! { "_id": id * 3 }, false);
            let set = doc! { "$set": { "a": id % 5 } };
            update(&collection, &doc! { "_id": id * 2 }, &set, false, false);
        }
        for _ in 0..400 {
            let filter = random.filter();
            let scan = Find {
                filter: filter.as_doc(),
                hint: Hint::Natural(diwan_kv::Direction::Forward),
                ..Find::default()
            };
            // Some filters fail for some documents, for example an `$expr` over an array.
            let Ok(scanned) = try_find(&store, &scan) else { continue };
            let expected: Vec<i64> =
                scanned.iter().map(|doc| doc.as_doc().get("_id").unwrap().as_i64_exact().unwrap()).collect();
            assert_eq!(
                find_ids(&store, &filter),
                expected,
                "seed {seed}, index {pattern:?}, filter {filter:?}"
            );
            for sort in [doc! { "a": 1 }, doc! { "a": -1, "b": 1 }, doc! { "a.x": -1, "_id": 1 }] {
                let find = Find { filter: filter.as_doc(), sort: Some(sort.as_doc()), ..Find::default() };
                let parsed = diwan_query::sort::Sort::parse(sort.as_doc()).unwrap();
                // A document with two arrays on the sort's paths makes the sort fail.
                let Ok(found) = try_find(&store, &find) else { continue };
                let key = |doc: &DocBuf| {
                    let mut key = Vec::new();
                    parsed.key(doc.as_doc(), None, &mut key).map(|()| key)
                };
                let keys: Vec<Vec<u8>> = found.iter().filter_map(|doc| key(doc).ok()).collect();
                assert!(keys.is_sorted(), "seed {seed}, filter {filter:?}, sort {sort:?}");
                assert_eq!(found.len(), expected.len(), "seed {seed}, filter {filter:?}, sort {sort:?}");
            }
        }
    }
}

#[test]
fn selectors_on_text_ids_return_the_same_as_a_collection_scan() {
    let store = store();
    let collection = collection(&store);
    let hex = |n: u64| format!("{:024x}", u128::from(n) << 88 | 0xABCD);
    let mut random = Random::new(1);
    let mut texts: Vec<String> =
        ["", "_x", "_design/x", "~", "zebra", "~{\"$numberInt\":\"5\"}"].map(str::to_owned).into();
    for n in 0..40 {
        let text = match n % 3 {
            0 => hex(random.below(256)),
            1 => format!("{:x}", random.below(4096)),
            _ => {
                ["", "a", "b", "ab", "g", "A"][random.below(6) as usize].repeat(1 + random.below(3) as usize)
            }
        };
        texts.push(text);
    }
    for text in &texts {
        let ids = [
            Value::String(text).to_owned(),
            diwan_value::ObjectId::parse_hex(text).map_or(Value::Int32(5), Value::ObjectId).to_owned(),
        ];
        for id in ids {
            let doc = doc! { "_id": id };
            // An id that is drawn twice is refused the second time.
            _ = collection.insert(&[doc.as_doc()], true, Default::default()).unwrap();
        }
    }
    for text in &texts {
        for operator in ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$beginsWith"] {
            let mut operand = DocBuilder::new();
            operand.append(operator, text);
            // COMPAT-29: a filter may hold a selector.
            let filter = doc! { "$mango": { "_id": operand.finish() } };
            let scan = Find {
                filter: filter.as_doc(),
                hint: Hint::Natural(diwan_kv::Direction::Forward),
                ..Find::default()
            };
            let planned = Find { filter: filter.as_doc(), ..Find::default() };
            let all = find(&store, &Find::default());
            let parsed = diwan_query::filter::Filter::parse(filter.as_doc(), &Default::default()).unwrap();
            let expected: Vec<DocBuf> =
                all.into_iter().filter(|doc| parsed.matches(doc.as_doc()).unwrap()).collect();
            assert_eq!(find(&store, &planned), expected, "{filter:?}");
            assert_eq!(find(&store, &scan), expected, "{filter:?}");
        }
    }
}
