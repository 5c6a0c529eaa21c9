//! The projections of `find` and `findAndModify` return the same as the stage `$project`.

use crate::random::Random;
use crate::setup::*;
use diwan_query::Interrupt;
use diwan_store::ops::{Aggregate, Find, FindAndModify, Modify, Scope};
use diwan_store::plan::Hint;
use diwan_store::{Error, Result, Store};
use diwan_value::{Doc, DocBuf, DocBuilder, Value, array, doc};
use std::sync::Arc;

/// An expression over the documents of [`Random::document`], with the variable `v`.
fn expression(random: &mut Random) -> DocBuf {
    let path = random.pick(&["$a", "$b", "$c", "$a.x", "$b.y", "$$ROOT.c", "$nothing"]);
    match random.below(11) {
        0 | 1 => doc! { "e": path },
        2 => doc! { "e": { "$type": path } },
        3 => doc! { "e": { "$ifNull": [path, "$$v"] } },
        4 => doc! { "e": "$$ROOT" },
        5 => {
            doc! { "e": { "$cond": [{ "$isArray": path }, { "$size": { "$ifNull": [path, array![]] } }, "$$v.n"] } }
        }
        // Fails for values that are not numbers.
        6 => doc! { "e": { "$abs": path } },
        7 => doc! { "e": { "$literal": 5 } },
        8 => doc! { "e": { "x": path, "y": "$_id" } },
        9 => doc! { "e": [path, "$$v"] },
        _ => doc! { "e": { "$eq": [path, "$$CURRENT.a"] } },
    }
}

fn projection(random: &mut Random) -> DocBuf {
    let mut out = DocBuilder::new();
    let excludes = random.one_in(4);
    if excludes {
        for path in ["a", "b.x", "c", "b.y"] {
            if random.one_in(2) {
                out.append(path, 0);
            }
        }
    } else {
        for path in ["c", "a.x", "b", "a.y"] {
            if random.one_in(3) {
                out.append(path, true);
            }
        }
        for name in ["z", "n.m", "a.z", "d"] {
            if random.one_in(3) {
                let holder = expression(random);
                out.append(name, holder.as_doc().get("e").unwrap());
            }
        }
    }
    if random.one_in(3) {
        out.append("_id", false);
    }
    // Makes sure that the projection is not empty.
    out.append("q", !excludes);
    out.finish()
}

type Shown = std::result::Result<Option<DocBuf>, String>;

/// The projected document, or the code of the error.
fn shown(result: Result<Option<DocBuf>>) -> Shown {
    result.map_err(|error| match error {
        Error::Query(error) => error.code.to_string(),
        other => other.to_string(),
    })
}

fn variables() -> DocBuf {
    doc! { "v": { "n": 7, "t": "text" } }
}

fn by_find(store: &Arc<Store>, id: i32, projection: &DocBuf, hint: Hint) -> Shown {
    let (filter, variables) = (doc! { "k": id }, variables());
    let request = Find {
        filter: filter.as_doc(),
        projection: Some(projection.as_doc()),
        hint,
        scope: Scope { variables: Some(variables.as_doc()), ..Scope::default() },
        ..Find::default()
    };
    shown(try_find(store, &request).map(|docs| docs.into_iter().next()))
}

fn by_find_and_modify(store: &Arc<Store>, id: i32, projection: &DocBuf, modify: Modify<'_>) -> Shown {
    let (filter, variables) = (doc! { "k": id }, variables());
    let request = FindAndModify {
        filter: filter.as_doc(),
        sort: None,
        projection: Some(projection.as_doc()),
        modify,
        array_filters: None,
        hint: Hint::None,
        scope: Scope { variables: Some(variables.as_doc()), ..Scope::default() },
        bypass_validation: false,
        retry: None,
    };
    shown(collection(store).find_and_modify(&request).map(|modified| modified.value))
}

fn by_stage(store: &Arc<Store>, id: i32, projection: Doc<'_>) -> Shown {
    let (bytes, variables) =
        (array![{ "$match": { "k": id } }, { "$project": projection }].finish(), variables());
    let request = Aggregate {
        pipeline: stages(&bytes),
        hint: Hint::None,
        scope: Scope { variables: Some(variables.as_doc()), ..Scope::default() },
        bypass_validation: false,
    };
    let first = || {
        let mut source = store.aggregate(Some(&name()), "test", &request)?;
        let found = source.advance(&Interrupt::new())?;
        Ok(found.then(|| source.current().to_owned()))
    };
    shown(first())
}

fn documents(random: &mut Random, count: i32) -> Vec<DocBuf> {
    (0..count)
        .map(|id| {
            let mut doc = random.document(id).into_builder();
            doc.append("k", id);
            doc.finish()
        })
        .collect()
}

/// Compares `find` and `findAndModify` with the stage, for every document of the collection.
fn compare(store: &Arc<Store>, count: i32, projection: &DocBuf, stage: Doc<'_>) {
    let touch = doc! { "$unset": { "untouched": 1 } };
    for id in 0..count {
        let expected = by_stage(store, id, stage);
        let about = format!("{projection:?} of document {id}");
        for hint in [Hint::None, Hint::Natural(diwan_kv::Direction::Forward)] {
            assert_eq!(by_find(store, id, projection, hint), expected, "find, {about}");
        }
        for return_new in [false, true] {
            let modify =
                Modify::Update { update: Value::Document(touch.as_doc()), upsert: false, return_new };
            assert_eq!(by_find_and_modify(store, id, projection, modify), expected, "findAndModify, {about}");
        }
    }
}

#[test]
fn projections_of_commands_return_the_same_as_the_stage() {
    let mut random = Random::new(3);
    for index in [None, Some(doc! { "key": { "k": 1, "c": 1 }, "name": "i" })] {
        let store = store();
        let things = collection(&store);
        insert(&things, &documents(&mut random, 25));
        if let Some(spec) = index {
            crate::setup::index(&things, spec);
        }
        for _ in 0..150 {
            let projection = projection(&mut random);
            compare(&store, 25, &projection, projection.as_doc());
        }
    }
}

#[test]
fn slice_and_elem_match_projections_return_the_same_as_expressions() {
    let mut random = Random::new(5);
    let store = store();
    insert(&collection(&store), &documents(&mut random, 40));
    let slice = |from: Value<'_>| {
        doc! { "a": { "$cond": [{ "$isArray": "$a" }, { "$slice": from }, "$a"] }, "c": 1 }
    };
    let cases = [
        (
            doc! { "a": { "$slice": 2 }, "c": 1 },
            slice(Value::Array(diwan_value::Array::trusted(&array!["$a", 2].finish()))),
        ),
        (
            doc! { "a": { "$slice": -1 }, "c": 1 },
            slice(Value::Array(diwan_value::Array::trusted(&array!["$a", -1].finish()))),
        ),
    ];
    for (projection, stage) in cases {
        for id in 0..40 {
            let sorted = |shown: Shown| {
                let doc = shown.unwrap().unwrap();
                let mut fields: Vec<String> = doc
                    .as_doc()
                    .iter()
                    .map(|field| format!("{} {:?}", field.key_str(), field.value()))
                    .collect();
                fields.sort();
                fields
            };
            // A computed field is appended, a sliced one keeps its place. So only the sets of fields are compared.
            let expected = sorted(by_stage(&store, id, stage.as_doc()));
            assert_eq!(sorted(by_find(&store, id, &projection, Hint::None)), expected, "{projection:?}");
        }
    }
    // `$elemMatch` returns the first element that matches. Expressions beside it read the whole document.
    insert(
        &collection(&store),
        &[doc! { "_id": 99, "k": 99, "a": [{ "x": 1 }, { "x": 2, "y": 3 }], "c": 4 }],
    );
    let projection = doc! { "a": { "$elemMatch": { "x": 2 } }, "z": { "$add": ["$c", "$k"] }, "_id": 0 };
    let expected = doc! { "a": [{ "x": 2, "y": 3 }], "z": 103 };
    assert_eq!(by_find(&store, 99, &projection, Hint::None), Ok(Some(expected.clone())));
    assert_eq!(by_find_and_modify(&store, 99, &projection, Modify::Remove), Ok(Some(expected)));
}

#[test]
fn find_and_modify_projects_the_document_that_it_returns() {
    let store = store();
    insert(&collection(&store), &[doc! { "_id": 1, "k": 1, "n": -4 }]);
    let projection = doc! { "_id": 0, "z": { "$abs": "$n" } };
    let change = doc! { "$set": { "n": -9 } };
    let modify =
        |return_new| Modify::Update { update: Value::Document(change.as_doc()), upsert: false, return_new };
    assert_eq!(by_find_and_modify(&store, 1, &projection, modify(false)), Ok(Some(doc! { "z": 4 })));
    assert_eq!(by_find_and_modify(&store, 1, &projection, modify(true)), Ok(Some(doc! { "z": 9 })));
}
