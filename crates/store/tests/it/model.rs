//! Random documents, filters and indexes: every plan must find what a scan finds.

use crate::random::Random;
use crate::setup::*;
use diwan_store::ops::Find;
use diwan_store::plan::Hint;
use diwan_value::{DocBuf, DocBuilder, Value, array, doc};

fn append_value(random: &mut Random, doc: &mut DocBuilder, name: &str, depth: u32) {
    match random.below(if depth > 0 { 9 } else { 7 }) {
        0 => doc.append(name, Value::Null),
        1 => doc.append(name, random.below(6) as i32),
        2 => doc.append(name, random.below(6) as f64 / 2.0),
        3 => doc.append(name, random.below(6) as i64),
        4 => doc.append(name, ["", "a", "b", "ab", "b\0"][random.below(5) as usize]),
        5 => doc.append(name, random.below(2) == 0),
        6 => doc.append(name, Value::DateTime(random.below(4) as i64 - 2)),
        7 => {
            doc.begin_array(name);
            for at in 0..random.below(4) {
                append_value(random, doc, &at.to_string(), depth - 1);
            }
            doc.end()
        }
        _ => {
            doc.begin_document(name);
            for inner in ["x", "y"] {
                if random.below(3) > 0 {
                    append_value(random, doc, inner, depth - 1);
                }
            }
            doc.end()
        }
    };
}

fn random_document(random: &mut Random, id: i32) -> DocBuf {
    let mut doc = DocBuilder::new();
    doc.append("_id", id);
    for name in ["a", "b"] {
        if random.below(5) > 0 {
            append_value(random, &mut doc, name, 2);
        }
    }
    doc.finish()
}

fn random_condition(random: &mut Random) -> DocBuf {
    let path = ["a", "b", "a.x", "a.y", "b.x", "_id"][random.below(6) as usize];
    let mut operand = DocBuilder::new();
    if random.below(6) == 0 {
        let operator = ["$eq", "$gt", "$gte", "$lt", "$lte"][random.below(5) as usize];
        append_value(random, &mut operand, "$literal", 1);
        let mut call = DocBuilder::new();
        call.append(operator, array![(format!("${path}").as_str()), (operand.finish())]);
        return doc! { "$expr": call.finish() };
    }
    let operator =
        ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$all", "$elemMatch", "$type"];
    match operator[random.below(operator.len() as u64) as usize] {
        name @ ("$in" | "$nin" | "$all") => {
            operand.begin_array(name);
            for at in 0..1 + random.below(3) {
                append_value(random, &mut operand, &at.to_string(), 1);
            }
            operand.end();
        }
        "$exists" => {
            operand.append("$exists", random.below(2) == 0);
        }
        "$type" => {
            operand.append("$type", ["string", "number", "array", "null"][random.below(4) as usize]);
        }
        "$elemMatch" => {
            operand.append("$elemMatch", doc! { "$gte": random.below(4) as i32, "$lt": 4 });
        }
        name => append_value(random, &mut operand, name, 1),
    }
    let mut condition = DocBuilder::new();
    condition.append(path, operand.finish());
    condition.finish()
}

/// A selector of CouchDB's, as a filter.
fn random_selector(random: &mut Random) -> DocBuf {
    let path = ["a", "b", "a.x", "a.y", "a.0", "b.x"][random.below(6) as usize];
    let operators = [
        "$eq",
        "$ne",
        "$gt",
        "$gte",
        "$lt",
        "$lte",
        "$in",
        "$nin",
        "$exists",
        "$all",
        "$type",
        "$beginsWith",
        "$elemMatch",
        "$mod",
    ];
    let mut operand = DocBuilder::new();
    match operators[random.below(operators.len() as u64) as usize] {
        name @ ("$in" | "$nin" | "$all") => {
            operand.begin_array(name);
            for at in 0..1 + random.below(3) {
                append_value(random, &mut operand, &at.to_string(), 1);
            }
            operand.end();
        }
        "$exists" => drop(operand.append("$exists", random.below(2) == 0)),
        "$type" => {
            let names = ["string", "number", "array", "null", "object", "boolean"];
            operand.append("$type", names[random.below(6) as usize]);
        }
        "$beginsWith" => drop(operand.append("$beginsWith", ["", "a", "b"][random.below(3) as usize])),
        "$elemMatch" => drop(operand.append("$elemMatch", doc! { "$gte": random.below(4) as i32 })),
        "$mod" => drop(operand.append("$mod", array![2, (random.below(2) as i32)])),
        name => append_value(random, &mut operand, name, 1),
    }
    let mut condition = DocBuilder::new();
    condition.append(path, operand.finish());
    match random.below(4) {
        // COMPAT-29
        0 => doc! { "$mango": { "$not": condition.finish() } },
        _ => doc! { "$mango": condition.finish() },
    }
}

fn random_filter(random: &mut Random) -> DocBuf {
    let mut condition = || match random.below(3) {
        0 => random_selector(random),
        _ => random_condition(random),
    };
    let (one, two) = (condition(), condition());
    match random.below(4) {
        0 => one,
        1 | 2 => doc! { "$and": array![one.as_doc(), two.as_doc()] },
        _ => doc! { "$or": array![one.as_doc(), two.as_doc()] },
    }
}

#[test]
fn every_plan_finds_what_a_scan_finds() {
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
            let doc = random_document(&mut random, id);
            let report = collection.insert(&[doc.as_doc()], true, Default::default()).unwrap();
            // Parallel arrays cannot be indexed, and hashed fields take none.
            let refused = ["parallel arrays", "hashed indexes do not currently support array values"];
            let why = report.errors.first().map(|(_, error)| error.to_string()).unwrap_or_default();
            assert!(report.inserted == 1 || refused.iter().any(|text| why.contains(text)), "{why}");
        }
        for id in 0..30 {
            delete(&collection, &doc! { "_id": id * 3 }, false);
            let set = doc! { "$set": { "a": id % 5 } };
            update(&collection, &doc! { "_id": id * 2 }, &set, false, false);
        }
        for _ in 0..400 {
            let filter = random_filter(&mut random);
            let scan = Find {
                filter: filter.as_doc(),
                hint: Hint::Natural(diwan_kv::Direction::Forward),
                ..Find::default()
            };
            let expected: Vec<i64> = find(&store, &scan)
                .iter()
                .map(|doc| doc.as_doc().get("_id").unwrap().as_i64_exact().unwrap())
                .collect();
            assert_eq!(
                find_ids(&store, &filter),
                expected,
                "seed {seed}, index {pattern:?}, filter {filter:?}"
            );
            for sort in [doc! { "a": 1 }, doc! { "a": -1, "b": 1 }, doc! { "a.x": -1, "_id": 1 }] {
                let find = Find { filter: filter.as_doc(), sort: Some(sort.as_doc()), ..Find::default() };
                let parsed = diwan_query::sort::Sort::parse(sort.as_doc()).unwrap();
                // Documents with two arrays on the sort's paths cannot be sorted.
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
fn texts_of_ids_find_what_a_scan_finds() {
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
            // Some come twice.
            _ = collection.insert(&[doc.as_doc()], true, Default::default()).unwrap();
        }
    }
    for text in &texts {
        for operator in ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$beginsWith"] {
            let mut asked = DocBuilder::new();
            asked.append(operator, text);
            let filter = doc! { "$mango": { "_id": asked.finish() } };
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
