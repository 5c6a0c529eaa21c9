use super::*;
use diwan_value::{DocBuf, Value, array, doc};

mod arrays;
mod explain;
mod operators;
mod syntax;

/// Parses `filter` without collation or variables.
fn parse(filter: &DocBuf) -> Filter {
    Filter::parse(filter.as_doc(), &FilterEnv::default()).expect("a valid filter")
}

/// Whether `filter` matches `document`. Checks that all ways of matching agree.
fn matches(filter: &DocBuf, document: &DocBuf) -> bool {
    let filter = parse(filter);
    let document = document.as_doc();
    let plain = filter.matches(document).expect("matching");
    let position = filter.matches_with_position(document).expect("matching");
    assert_eq!(plain, position.matched, "{filter:?} on {document:?}");
    // The same filter in a conjunction, where conditions share a pass.
    let both = Filter::and(vec![filter.clone(), Filter::AlwaysTrue]);
    assert_eq!(
        plain,
        both.matches(document).expect("matching"),
        "in a conjunction: {filter:?} on {document:?}"
    );
    plain
}

/// Checks one filter against documents that match and documents that do not.
#[track_caller]
fn check(filter: DocBuf, matching: &[DocBuf], others: &[DocBuf]) {
    for document in matching {
        assert!(matches(&filter, document), "{filter:?} must match {document:?}");
    }
    for document in others {
        assert!(!matches(&filter, document), "{filter:?} must not match {document:?}");
    }
}

/// Checks that a filter is rejected.
#[track_caller]
fn rejected(filter: DocBuf, code: i32, text: &str) {
    let error = Filter::parse(filter.as_doc(), &FilterEnv::default()).expect_err("an error");
    assert_eq!((error.code, error.message.as_str()), (code, text), "{filter:?}");
}

/// A document with `array` as the value of `name`.
fn with_array(name: &str, array: diwan_value::ArrayBuilder) -> DocBuf {
    let mut builder = diwan_value::DocBuilder::new();
    builder.append(name, array);
    builder.finish()
}

#[test]
fn conjunction_matches_like_its_separate_filters() {
    check(
        doc! { "salary": { "$gt": 18500, "$lt": 35000 }, "age": { "$gt": 25 }, "tags.kind": "a", "tags.size": { "$gte": 2 } },
        &[
            doc! { "age": 26, "salary": 20000, "tags": { "kind": "a", "size": 2.0 } },
            // Through arrays, each condition may hold for a different element.
            doc! { "age": 26, "salary": 20000, "tags": [{ "kind": "a", "size": 1 }, { "kind": "b", "size": 3 }] },
            doc! { "age": [1, 99], "salary": [0, 20000], "tags": { "kind": ["x", "a"], "size": 5 } },
        ],
        &[
            doc! { "salary": 20000, "tags": { "kind": "a", "size": 2 } },
            doc! { "age": 26, "salary": 18500, "tags": { "kind": "a", "size": 2 } },
            doc! { "age": 26, "salary": 20000, "tags": { "kind": "a" } },
            doc! { "age": 26, "salary": 20000, "tags": [] },
            doc! { "age": 26, "salary": 20000, "tags": 7 },
            doc! {},
        ],
    );
}

#[test]
fn conjunction_handles_more_fields_than_slots() {
    let mut filter = diwan_value::DocBuilder::new();
    let mut document = diwan_value::DocBuilder::new();
    for at in 0..200 {
        filter.append(&format!("f{at}"), at);
        document.append(&format!("f{at}"), at);
    }
    let filter = filter.finish();
    assert!(matches(&filter, &document.clone().finish()));
    let mut other = diwan_value::DocBuilder::new();
    for at in 0..200 {
        other.append(&format!("f{at}"), if at == 199 { 0 } else { at });
    }
    assert!(!matches(&filter, &other.finish()));
    document.append("more", 1);
    assert!(matches(&filter, &document.finish()));
}

#[test]
fn conjunction_uses_the_first_of_duplicate_names() {
    let mut builder = diwan_value::DocBuilder::new();
    builder.append("a", 1).append("a", 2);
    let document = builder.finish();
    check(doc! { "a": 1, "b": null }, std::slice::from_ref(&document), &[]);
    check(doc! { "a": 2, "b": null }, &[], &[document]);
}

#[test]
fn matches_with_position_gives_the_array_index() {
    let position = |filter: DocBuf, document: DocBuf| {
        parse(&filter).matches_with_position(document.as_doc()).expect("matching").array_index
    };
    let grades = doc! { "grades": [80, 85, 90], "other": [1, 2] };
    assert_eq!(position(doc! { "grades": 85 }, grades.clone()), Some(1));
    assert_eq!(position(doc! { "grades": { "$gt": 85 } }, grades.clone()), Some(2));
    assert_eq!(position(doc! { "grades.1": 85 }, grades.clone()), None);
    assert_eq!(position(doc! { "grades": { "$size": 3 } }, grades.clone()), None);
    assert_eq!(position(doc! { "grades": 85, "other": { "$exists": true } }, grades.clone()), Some(0));
    assert_eq!(position(doc! { "grades": { "$not": { "$gt": 100 } } }, grades), None);
    let nested = doc! { "a": [{ "b": [1, 2] }, { "b": [3, 4] }] };
    assert_eq!(position(doc! { "a.b": 4 }, nested.clone()), Some(1));
    assert_eq!(position(doc! { "a.1.b": 4 }, nested.clone()), Some(1));
    assert_eq!(position(doc! { "a": { "$elemMatch": { "b": 3 } } }, nested.clone()), Some(1));
    assert_eq!(position(doc! { "$or": [{ "a.b": 9 }, { "a.b": 4 }] }, nested), Some(1));
}

#[test]
fn equality_fields_lists_fields_with_one_value() {
    let fields = |filter: DocBuf| {
        let filter = parse(&filter);
        equality_fields(&filter).map(|fields| {
            fields.into_iter().map(|(path, value)| format!("{path}={value:?}")).collect::<Vec<_>>().join(" ")
        })
    };
    let filter = doc! { "a": 1, "b": { "$gt": 1 }, "c.d": { "$eq": 2 }, "$and": [{ "e": { "$in": [3] } }], "f": { "$all": [4] } };
    assert_eq!(fields(filter).as_deref(), Ok("a=Int32(1) c.d=Int32(2) e=Int32(3) f=Int32(4)"));
    assert_eq!(fields(doc! { "a": { "$in": [1, 2] }, "$or": [{ "b": 1 }, { "c": 1 }] }).as_deref(), Ok(""));
    assert_eq!(fields(doc! { "$or": [{ "b": 1 }] }).as_deref(), Ok("b=Int32(1)"));
    let error = fields(doc! { "a": 1, "$and": [{ "a": 2 }] }).expect_err("an error");
    assert_eq!(error.message, "cannot infer query fields to set, path 'a' is matched twice");
    assert_eq!(error.code, 54);
    let error = fields(doc! { "a": 1, "a.b": 2 }).expect_err("an error");
    assert_eq!(error.message, "cannot infer query fields to set, both paths 'a.b' and 'a' are matched");
}

#[test]
fn value_filters_match_bare_values() {
    let env = FilterEnv::default();
    let pulls = |condition: Value<'_>, value: Value<'_>| {
        ValueFilter::parse(condition, &env).expect("a condition").matches(value).expect("matching")
    };
    let greater = doc! { "$gt": 5 };
    let greater = Value::Document(greater.as_doc());
    assert!(pulls(greater, Value::Int64(6)));
    assert!(!pulls(greater, Value::Int64(5)));
    let list = array![1, 7].finish();
    let list = Value::Array(diwan_value::Array::trusted(&list));
    assert!(pulls(greater, list));
    assert!(pulls(Value::Int32(5), Value::Double(5.0)));
    assert!(!pulls(Value::Int32(7), list));
    assert!(pulls(list, list));
    let fields = doc! { "b": 1, "c": { "$lt": 3 } };
    let fields = Value::Document(fields.as_doc());
    assert!(pulls(fields, Value::Document(doc! { "c": 2, "b": 1 }.as_doc())));
    assert!(!pulls(fields, Value::Document(doc! { "b": 1 }.as_doc())));
    assert!(!pulls(fields, Value::Int32(1)));
    assert!(pulls(Value::Regex { pattern: "^a", options: "" }, Value::String("ab")));
}

#[test]
fn array_filters_need_exactly_one_identifier() {
    let env = FilterEnv::default();
    let filter = doc! { "x.grade": { "$gte": 85 }, "x.std": { "$lt": 9 } };
    let filter = ArrayFilter::parse(filter.as_doc(), &env).expect("an array filter");
    assert_eq!(filter.identifier(), "x");
    let element = doc! { "e": { "grade": 90, "std": 5 } };
    assert!(filter.matches(element.as_doc().get_raw("e").expect("e")).expect("matching"));
    let element = doc! { "e": { "grade": 90, "std": 15 } };
    assert!(!filter.matches(element.as_doc().get_raw("e").expect("e")).expect("matching"));
    for (filter, code, text) in [
        (doc! {}, 9, "Cannot use an expression without a top-level field name in arrayFilters"),
        (
            doc! { "a": 1, "b": 1 },
            9,
            "Error parsing array filter :: caused by :: Expected a single top-level field name, found 'a' and 'b'",
        ),
        (
            doc! { "X": 1 },
            2,
            "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string \
             beginning with a lowercase letter, found 'X'",
        ),
    ] {
        let error = ArrayFilter::parse(filter.as_doc(), &env).expect_err("an error");
        assert_eq!((error.code, error.message.as_str()), (code, text));
    }
}
